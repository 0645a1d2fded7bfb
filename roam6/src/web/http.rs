//! The little of HTTP/1.1 (RFC 9112) that a page needs: one request for each connection, from a browser, or from a proxy by a Unix
//! socket.

use super::Site;
use super::password::MAX_MESSAGE;
use super::routes::{self, Reply};
use core::time::Duration;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, Scope};

/// Most connections at a time.
const MAX_CLIENTS: usize = 32;
/// Largest head of a request, octets.
const MAX_HEAD: usize = 8192;
/// Time for a client to send a request, and to read each part of the answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The cookie with the token of a session.
pub(super) const COOKIE: &str = "roam6";
/// Before connections are accepted again when descriptors or memory are exhausted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);

/// What the browser must not do with the page: run anything that is not part of it, or show it inside another one.
const SECURITY: &str = "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                        connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n\
                        X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nCache-Control: no-store\r\n";

/// A request without its body.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Head<'a> {
    pub(super) method: Method,
    pub(super) target: &'a str,
    pub(super) host: &'a str,
    /// The page that the request comes from, if the browser tells.
    pub(super) origin: Option<&'a str>,
    pub(super) media_type: Option<&'a str>,
    /// The token of the session.
    pub(super) token: Option<&'a str>,
    /// Length of the body, octets.
    length: usize,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    #[default]
    Get,
    Head,
    Post,
}

/// The ends of a connection; without addresses it is one of a Unix socket.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ends {
    pub(super) client: Option<IpAddr>,
    local: Option<IpAddr>,
}

/// Where connections come from.
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// A connection, each of whose operations ends in time.
trait Connection: Read + Write + Send {
    fn limit(&self) -> std::io::Result<()>;
}

impl Connection for TcpStream {
    fn limit(&self) -> std::io::Result<()> {
        self.set_read_timeout(Some(TIMEOUT))?;
        self.set_write_timeout(Some(TIMEOUT))
    }
}

impl Connection for UnixStream {
    fn limit(&self) -> std::io::Result<()> {
        self.set_read_timeout(Some(TIMEOUT))?;
        self.set_write_timeout(Some(TIMEOUT))
    }
}

impl Listener {
    fn accept(&self) -> std::io::Result<(Box<dyn Connection>, Ends)> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, client) = listener.accept()?;
                let local = stream.local_addr()?.ip().to_canonical();
                Ok((Box::new(stream), Ends { client: Some(client.ip().to_canonical()), local: Some(local) }))
            }
            Listener::Unix(listener) => {
                let (stream, _) = listener.accept()?;
                Ok((Box::new(stream), Ends { client: None, local: None }))
            }
        }
    }
}

/// Accepts connections, and serves each in a thread.
pub(super) fn accept<'scope>(scope: &'scope Scope<'scope, '_>, listener: &Listener, site: &'scope Site) {
    static CLIENTS: AtomicUsize = AtomicUsize::new(0);
    loop {
        match listener.accept() {
            Ok((stream, ends)) if CLIENTS.fetch_add(1, Ordering::Relaxed) < MAX_CLIENTS => {
                let serve = move || {
                    // A client that has gone misses its answer.
                    let _ = serve(stream, ends, site);
                    CLIENTS.fetch_sub(1, Ordering::Relaxed);
                };
                if thread::Builder::new().spawn_scoped(scope, serve).is_err() {
                    CLIENTS.fetch_sub(1, Ordering::Relaxed);
                    thread::sleep(ACCEPT_PAUSE);
                }
            }
            Ok(_) => drop(CLIENTS.fetch_sub(1, Ordering::Relaxed)),
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => {}
            Err(_) => thread::sleep(ACCEPT_PAUSE),
        }
    }
}

fn serve(mut stream: Box<dyn Connection>, ends: Ends, site: &Site) -> std::io::Result<()> {
    stream.limit()?;
    let Some((octets, body)) = read_head(&mut stream)? else { return Ok(()) };
    let (reply, is_head) = match parse(&octets) {
        Ok(head) if !is_ours(head.host, ends, &site.names) => {
            (Reply::error(421, "this host name is not the page's; open it by its address"), head.method == Method::Head)
        }
        Ok(head) => {
            let body = read_body(&mut stream, body, head.length)?;
            (routes::answer(&head, &body, ends, site), head.method == Method::Head)
        }
        Err(reply) => (reply, false),
    };
    let length = reply.body.len();
    let (reason, cookie) = (reply.reason(), reply.cookie.unwrap_or_default());
    let head = format!(
        "HTTP/1.1 {} {reason}\r\nContent-Type: {}\r\nContent-Length: {length}\r\nConnection: close\r\n{SECURITY}{cookie}\r\n",
        reply.status, reply.media_type
    );
    stream.write_all(head.as_bytes())?;
    if is_head { Ok(()) } else { stream.write_all(&reply.body) }
}

/// Reads until the end of the head; returns it and what has followed already, or `None` if the client has closed the connection
/// before.
fn read_head(stream: &mut impl Read) -> std::io::Result<Option<(Vec<u8>, Vec<u8>)>> {
    let began = std::time::Instant::now();
    let (mut head, mut octets) = (Vec::new(), [0; 1024]);
    loop {
        let end = head.windows(4).position(|end| end == b"\r\n\r\n").map(|at| at.saturating_add(4));
        if end.is_some() || head.len() > MAX_HEAD {
            let body = head.split_off(end.unwrap_or(head.len()));
            return Ok(Some((head, body)));
        }
        // Also a client that sends an octet a second has only this time.
        if began.elapsed() > TIMEOUT {
            return Err(ErrorKind::TimedOut.into());
        }
        match stream.read(&mut octets)? {
            0 => return Ok(None),
            count => head.extend_from_slice(octets.get(..count).unwrap_or_default()),
        }
    }
}

/// Reads the rest of a body of `length` octets, which is short.
fn read_body(stream: &mut impl Read, mut body: Vec<u8>, length: usize) -> std::io::Result<Vec<u8>> {
    let began = std::time::Instant::now();
    let mut octets = [0; 256];
    while body.len() < length {
        if began.elapsed() > TIMEOUT {
            return Err(ErrorKind::TimedOut.into());
        }
        match stream.read(&mut octets)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            count => body.extend_from_slice(octets.get(..count).unwrap_or_default()),
        }
    }
    body.truncate(length);
    Ok(body)
}

fn parse(head: &[u8]) -> Result<Head<'_>, Reply> {
    let malformed = || Reply::error(400, "this is not an HTTP request");
    if head.len() > MAX_HEAD {
        return Err(Reply::error(431, "the head of the request is too long"));
    }
    let text = core::str::from_utf8(head).map_err(|_| malformed())?;
    let mut lines = text.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some(version), None) = (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(malformed());
    };
    if !version.starts_with("HTTP/1.") {
        return Err(malformed());
    }
    let method = match method {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" => Method::Post,
        _ => return Err(Reply::error(405, "the page is read only: GET and HEAD")),
    };
    let fields: Vec<(&str, &str)> =
        lines.filter_map(|line| line.split_once(':')).map(|(name, value)| (name, value.trim())).collect();
    let all = |wanted: &'static str| {
        fields.iter().filter(move |(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| *value)
    };
    let length = all("content-length").next().map_or(Ok(0), str::parse).map_err(|_| malformed())?;
    if length > MAX_MESSAGE || all("transfer-encoding").next().is_some() {
        return Err(Reply::error(413, "the request is too long"));
    }
    let mut hosts = all("host");
    // RFC 9112 §3.2: exactly one.
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return Err(malformed()) };
    let cookies = all("cookie").flat_map(|line| line.split(';'));
    let token = cookies.filter_map(|cookie| cookie.trim().split_once('=')).find(|(name, _)| *name == COOKIE);
    let (origin, media_type) = (all("origin").next(), all("content-type").next());
    Ok(Head { method, target, host, origin, media_type, token: token.map(|(_, token)| token), length })
}

/// Whether a request with this Host field is for the page. A foreign site whose name resolves to this machine (DNS rebinding)
/// would otherwise read it by the browser of its visitor.
fn is_ours(host: &str, ends: Ends, names: &[String]) -> bool {
    // An SSH tunnel may have any port at the browser's end.
    let name = match host.rsplit_once(':') {
        Some((name, port)) if !name.is_empty() && port.bytes().all(|octet| octet.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    let is_own = |address: IpAddr| address.is_loopback() || Some(address.to_canonical()) == ends.local;
    let is_named = names.iter().any(|own| name.eq_ignore_ascii_case(own));
    name.eq_ignore_ascii_case("localhost") || is_named || address.is_ok_and(is_own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_needs_a_method_one_host_and_a_version() {
        let parsed = parse(b"GET /api/history HTTP/1.1\r\nhost: localhost:9107\r\nCookie: a=b; roam6=77\r\n\r\n");
        let head = Head { target: "/api/history", host: "localhost:9107", token: Some("77"), ..Head::default() };
        assert_eq!(parsed.ok(), Some(head));
        let status = |head: &[u8]| parse(head).err().map(|reply| reply.status);
        assert_eq!(status(b"PUT / HTTP/1.1\r\nHost: localhost\r\n\r\n"), Some(405));
        assert_eq!(status(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1025\r\n\r\n"), Some(413));
        assert_eq!(status(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n"), Some(400));
        assert_eq!(status(b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"), Some(413));
        assert_eq!(status(b"GET / HTTP/1.1\r\n\r\n"), Some(400));
        assert_eq!(status(b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"), Some(400));
        assert_eq!(status(b"GET /\r\nHost: a\r\n\r\n"), Some(400));
        assert_eq!(status(b"\xff\xfe\r\n\r\n"), Some(400));
        assert_eq!(status(&vec![b'a'; MAX_HEAD + 1]), Some(431));
    }

    #[test]
    fn body_is_what_follows_the_head() {
        let mut request: &[u8] = b"POST / HTTP/1.1\r\nHost: a\r\n\r\nbody, and more";
        let (head, body) = read_head(&mut request).unwrap().unwrap();
        assert!(head.ends_with(b"\r\n\r\n"));
        assert_eq!(read_body(&mut request, body, 4).unwrap(), b"body");
        assert!(read_body(&mut request, b"bo".to_vec(), 4).is_err());
    }

    #[test]
    fn foreign_host_names_are_not_served() {
        let ends = |local: &str| Ends { client: None, local: Some(local.parse().unwrap()) };
        let names = ["van.example".to_owned()];
        for host in ["localhost", "localhost:9107", "LOCALHOST:8080", "127.0.0.1:9107", "[::1]:9107", "127.0.0.2"] {
            assert!(is_ours(host, ends("127.0.0.1"), &[]), "{host}");
        }
        for host in
            ["attacker.example", "attacker.example:9107", "", ":", "192.0.2.1:9107", "localhost.attacker.example"]
        {
            assert!(!is_ours(host, ends("127.0.0.1"), &names), "{host}");
        }
        // With a password, on an address of the mobile network.
        for host in ["[2001:db8:100::1]:9107", "[2001:db8:100::1]", "van.example", "VAN.example:9107"] {
            assert!(is_ours(host, ends("2001:db8:100::1"), &names), "{host}");
        }
        assert!(!is_ours("[2001:db8:100::2]", ends("2001:db8:100::1"), &names));
        assert!(!is_ours("van.example", ends("2001:db8:100::1"), &[]));
    }
}
