//! The little of HTTP/1.1 (RFC 9112) that a page needs: one GET or HEAD request for each connection, from a browser on this
//! machine.

use super::Site;
use super::routes::{self, Reply};
use core::time::Duration;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, Scope};

/// Most connections at a time.
const MAX_CLIENTS: usize = 32;
/// Largest head of a request, octets.
const MAX_HEAD: usize = 8192;
/// Time for a client to send a request, and to read each part of the answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Before connections are accepted again when descriptors or memory are exhausted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);

/// What the browser must not do with the page: run anything that is not part of it, or show it inside another one.
const SECURITY: &str = "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                        connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n\
                        X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nCache-Control: no-store\r\n";

/// The head of a request.
#[derive(Debug, PartialEq, Eq)]
struct Head<'a> {
    is_head: bool,
    target: &'a str,
    host: &'a str,
}

/// Accepts connections, and serves each in a thread.
pub(super) fn accept<'scope>(scope: &'scope Scope<'scope, '_>, listener: &TcpListener, site: &'scope Site) {
    static CLIENTS: AtomicUsize = AtomicUsize::new(0);
    loop {
        match listener.accept() {
            Ok((stream, _)) if CLIENTS.fetch_add(1, Ordering::Relaxed) < MAX_CLIENTS => {
                let serve = move || {
                    // A client that has gone misses its answer.
                    let _ = serve(stream, site);
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

fn serve(mut stream: TcpStream, site: &Site) -> std::io::Result<()> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let Some(head) = read_head(&mut stream)? else { return Ok(()) };
    let (reply, is_head) = match parse(&head) {
        Ok(head) if !is_ours(head.host) => {
            (Reply::error(421, "this host name is not the page's; open it by its address"), head.is_head)
        }
        Ok(head) => (routes::answer(head.target, site), head.is_head),
        Err(reply) => (reply, false),
    };
    let length = reply.body.len();
    let reason = reply.reason();
    let head = format!(
        "HTTP/1.1 {} {reason}\r\nContent-Type: {}\r\nContent-Length: {length}\r\nConnection: close\r\n{SECURITY}\r\n",
        reply.status, reply.media_type
    );
    stream.write_all(head.as_bytes())?;
    if is_head { Ok(()) } else { stream.write_all(&reply.body) }
}

/// Reads until the end of the head; `None` if the client has closed the connection before.
fn read_head(stream: &mut TcpStream) -> std::io::Result<Option<Vec<u8>>> {
    let began = std::time::Instant::now();
    let (mut head, mut octets) = (Vec::new(), [0; 1024]);
    while !head.windows(4).any(|end| end == b"\r\n\r\n") && head.len() <= MAX_HEAD {
        // Also a client that sends an octet a second has only this time.
        if began.elapsed() > TIMEOUT {
            return Err(ErrorKind::TimedOut.into());
        }
        match stream.read(&mut octets)? {
            0 => return Ok(None),
            count => head.extend_from_slice(octets.get(..count).unwrap_or_default()),
        }
    }
    Ok(Some(head))
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
    let is_head = method == "HEAD";
    if !is_head && method != "GET" {
        return Err(Reply::error(405, "the page is read only: GET and HEAD"));
    }
    let mut hosts = lines.filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("host").then(|| value.trim())
    });
    // RFC 9112 §3.2: exactly one.
    match (hosts.next(), hosts.next()) {
        (Some(host), None) => Ok(Head { is_head, target, host }),
        _ => Err(malformed()),
    }
}

/// Whether a request with this Host field is for the page. A foreign site whose name resolves to this machine (DNS rebinding)
/// would otherwise read it by the browser of its visitor.
fn is_ours(host: &str) -> bool {
    // An SSH tunnel may have any port at the browser's end.
    let name = match host.rsplit_once(':') {
        Some((name, port)) if !name.is_empty() && port.bytes().all(|octet| octet.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_needs_get_one_host_and_a_version() {
        let parsed = parse(b"GET /api/history HTTP/1.1\r\nhost: localhost:9107\r\nAccept: */*\r\n\r\n");
        assert_eq!(parsed.ok(), Some(Head { is_head: false, target: "/api/history", host: "localhost:9107" }));
        let status = |head: &[u8]| parse(head).err().map(|reply| reply.status);
        assert_eq!(status(b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\n"), Some(405));
        assert_eq!(status(b"GET / HTTP/1.1\r\n\r\n"), Some(400));
        assert_eq!(status(b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"), Some(400));
        assert_eq!(status(b"GET /\r\nHost: a\r\n\r\n"), Some(400));
        assert_eq!(status(b"\xff\xfe\r\n\r\n"), Some(400));
        assert_eq!(status(&vec![b'a'; MAX_HEAD + 1]), Some(431));
    }

    #[test]
    fn foreign_host_names_are_not_served() {
        for host in ["localhost", "localhost:9107", "LOCALHOST:8080", "127.0.0.1:9107", "[::1]:9107", "127.0.0.2"] {
            assert!(is_ours(host), "{host}");
        }
        for host in
            ["attacker.example", "attacker.example:9107", "", ":", "192.0.2.1:9107", "localhost.attacker.example"]
        {
            assert!(!is_ours(host), "{host}");
        }
    }
}
