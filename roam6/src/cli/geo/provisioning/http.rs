//! The little of HTTP (RFC 9112) that TS 102 941 annex C needs: one POST for each connection, without TLS, since the messages are
//! encrypted and signed themselves.

use core::time::Duration;
use roam6_wire::security::limits;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Instant;

pub(super) const REQUEST: &str = "application/x-its-request";
pub(super) const RESPONSE: &str = "application/x-its-response";
/// Octets of the largest head and body.
const MAX_HEAD: usize = 8192;
const MAX_BODY: usize = limits::PROVISIONING;
/// Time for the whole exchange.
const TIMEOUT: Duration = Duration::from_secs(10);
const SCHEME: &str = "http://";

/// A request or a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Message {
    /// The first line.
    pub(super) start: String,
    pub(super) media_type: String,
    pub(super) body: Vec<u8>,
}

impl Message {
    /// The method and the path of a request.
    pub(super) fn target(&self) -> Option<(&str, &str)> {
        let mut words = self.start.split(' ');
        Some((words.next()?, words.next()?))
    }

    /// The status of a response.
    fn status(&self) -> Option<u16> {
        let mut words = self.start.split(' ');
        words.next().filter(|version| version.starts_with("HTTP/1."))?;
        words.next()?.parse().ok()
    }
}

/// The parts of an URL.
#[derive(Debug, PartialEq, Eq)]
struct Url<'a> {
    /// Host and port as they are written.
    authority: &'a str,
    host: &'a str,
    port: u16,
    path: &'a str,
}

impl Url<'_> {
    fn parse(text: &str) -> Result<Url<'_>, String> {
        let wrong = |why: &str| format!("{text}: {why}; an URL is for example http://pki.example:80/enrolment");
        let rest = text.strip_prefix(SCHEME).ok_or_else(|| {
            wrong(if text.starts_with("https:") {
                "TLS is not supported, the messages are encrypted"
            } else {
                "no URL"
            })
        })?;
        let (authority, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
        let is_bracketed = authority.ends_with(']');
        let (host, port) = match authority.rsplit_once(':').filter(|_| !is_bracketed) {
            Some((host, port)) => (host, port.parse().map_err(|_| wrong("the port is wrong"))?),
            None => (authority, 80),
        };
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if host.is_empty() || text.bytes().any(|octet| octet <= b' ' || octet == 0x7f) {
            return Err(wrong("the host is missing"));
        }
        Ok(Url { authority, host, port, path })
    }
}

/// Sends a request; the body of the response.
///
/// # Errors
/// What went wrong, with the cure.
pub(super) fn post(url: &str, body: &[u8]) -> Result<Vec<u8>, String> {
    let parsed = Url::parse(url)?;
    let response = exchange(&parsed, body).map_err(|error| match error.kind() {
        ErrorKind::ConnectionRefused => format!("{url}: nobody takes requests there; does the authority run?"),
        ErrorKind::TimedOut | ErrorKind::WouldBlock => {
            format!("{url}: no answer within {} s; is the network up?", TIMEOUT.as_secs())
        }
        ErrorKind::InvalidData => format!("{url}: no HTTP response of at most {MAX_BODY} octets; is the URL right?"),
        _ => format!("{url}: {error}"),
    })?;
    match response.status() {
        Some(200) if response.media_type == RESPONSE => Ok(response.body),
        Some(200) => {
            Err(format!("{url}: the response is no {RESPONSE} but {:?}; is the URL right?", response.media_type))
        }
        _ => {
            let text = String::from_utf8_lossy(&response.body);
            let line: String = text.chars().take_while(|symbol| *symbol != '\n').take(200).collect();
            let line = line.trim_end().escape_debug();
            let start = response.start.escape_debug();
            Err(format!("{url}: {start}: {line}; are the URL and the certificate those of one authority?"))
        }
    }
}

fn exchange(url: &Url<'_>, body: &[u8]) -> io::Result<Message> {
    let deadline = Deadline::new();
    let mut last = io::Error::from(ErrorKind::AddrNotAvailable);
    for address in (url.host, url.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, deadline.left()?) {
            Ok(mut stream) => {
                stream.set_write_timeout(Some(deadline.left()?))?;
                // Of version 1.0, to which no response comes in chunks.
                let head = format!(
                    "POST {} HTTP/1.0\r\nHost: {}\r\nContent-Type: {REQUEST}\r\nContent-Length: {}\r\n\r\n",
                    url.path,
                    url.authority,
                    body.len()
                );
                stream.write_all(&[head.as_bytes(), body].concat())?;
                return read(&mut stream, &deadline, true);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// When an exchange has to have ended.
pub(super) struct Deadline(Instant);

impl Deadline {
    #[allow(clippy::disallowed_methods, reason = "a command of the user, not an engine")]
    pub(super) fn new() -> Deadline {
        Deadline(Instant::now())
    }

    fn left(&self) -> io::Result<Duration> {
        let left = TIMEOUT.checked_sub(self.0.elapsed()).filter(|left| !left.is_zero());
        left.ok_or_else(|| ErrorKind::TimedOut.into())
    }
}

/// What a message is read from.
pub(super) trait Source: Read {
    fn limit(&self, time: Duration) -> io::Result<()>;
}

impl Source for TcpStream {
    fn limit(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))
    }
}

/// Reads a message; without a length its body ends with the connection, if `until_end`, else it has none.
pub(super) fn read(stream: &mut impl Source, deadline: &Deadline, until_end: bool) -> io::Result<Message> {
    let mut octets = Vec::new();
    let head = loop {
        if let Some(at) = octets.windows(4).position(|end| end == b"\r\n\r\n") {
            break octets.drain(..at.saturating_add(4)).collect::<Vec<u8>>();
        }
        if octets.len() > MAX_HEAD {
            return Err(ErrorKind::InvalidData.into());
        }
        if !more(stream, deadline, &mut octets)? {
            return Err(ErrorKind::InvalidData.into());
        }
    };
    let head = String::from_utf8(head).map_err(|_| ErrorKind::InvalidData)?;
    let mut lines = head.split("\r\n");
    let start = lines.next().unwrap_or_default().to_owned();
    let fields: Vec<(&str, &str)> = lines.filter_map(|line| line.split_once(':')).collect();
    let field =
        |wanted: &str| fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value.trim());
    let length = field("content-length").map(|value| value.parse::<usize>()).transpose();
    let length = length.map_err(|_| ErrorKind::InvalidData)?;
    if length > Some(MAX_BODY) || field("transfer-encoding").is_some() {
        return Err(ErrorKind::InvalidData.into());
    }
    let wanted = length.unwrap_or(if until_end { usize::MAX } else { 0 });
    while octets.len() < wanted {
        if octets.len() > MAX_BODY {
            return Err(ErrorKind::InvalidData.into());
        }
        if !more(stream, deadline, &mut octets)? {
            match length {
                Some(_) => return Err(ErrorKind::UnexpectedEof.into()),
                None => break,
            }
        }
    }
    octets.truncate(wanted);
    let media_type = field("content-type").unwrap_or_default();
    let media_type = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    Ok(Message { start, media_type, body: octets })
}

/// Whether the other side has sent more before its end.
fn more(stream: &mut impl Source, deadline: &Deadline, into: &mut Vec<u8>) -> io::Result<bool> {
    let mut octets = [0; 2048];
    stream.limit(deadline.left()?)?;
    let count = stream.read(&mut octets)?;
    into.extend_from_slice(octets.get(..count).unwrap_or_default());
    Ok(count > 0)
}

/// Writes a response.
pub(super) fn respond(stream: &mut impl Write, status: &str, media_type: &str, body: &[u8]) -> io::Result<()> {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {media_type}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(&[head.as_bytes(), body].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread;

    impl Source for &[u8] {
        fn limit(&self, _: Duration) -> io::Result<()> {
            Ok(())
        }
    }

    fn parse(mut octets: &[u8], until_end: bool) -> Result<Message, ErrorKind> {
        read(&mut octets, &Deadline::new(), until_end).map_err(|error| error.kind())
    }

    #[test]
    fn an_url_has_a_host_and_may_have_a_port_and_a_path() {
        let of = |text| Url::parse(text).ok().map(|url| (url.host, url.port, url.path));
        assert_eq!(of("http://pki.example/ea"), Some(("pki.example", 80, "/ea")));
        assert_eq!(of("http://pki.example:8080"), Some(("pki.example", 8080, "/")));
        assert_eq!(of("http://[2001:db8::1]/"), Some(("2001:db8::1", 80, "/")));
        assert_eq!(of("http://[::1]:9108/enrolment"), Some(("::1", 9108, "/enrolment")));
        for text in ["", "pki.example", "http://", "http:///x", "http://a:b/", "http://a/\r\nX: y", "ftp://a/"] {
            assert_eq!(of(text), None, "{text}");
        }
        assert!(Url::parse("https://a/").unwrap_err().contains("TLS is not supported"));
    }

    #[test]
    fn bodies_are_bounded_and_complete() {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/X-ITS-response; q=1\r\n";
        let message = parse(format!("{head}\r\nbody").as_bytes(), true).unwrap();
        assert_eq!((message.status(), &message.media_type[..], &message.body[..]), (Some(200), RESPONSE, &b"body"[..]));
        let with_length = |length: &str, body: &str| {
            parse(format!("{head}content-length: {length}\r\n\r\n{body}").as_bytes(), false).map(|message| message.body)
        };
        assert_eq!(with_length("3", "body"), Ok(b"bod".to_vec()));
        assert_eq!(with_length("5", "body"), Err(ErrorKind::UnexpectedEof));
        assert_eq!(with_length("8193", "body"), Err(ErrorKind::InvalidData));
        assert_eq!(with_length("-1", "body"), Err(ErrorKind::InvalidData));
        assert_eq!(with_length("8192", &"x".repeat(8192)).map(|body| body.len()), Ok(8192));
        let endless = format!("{head}\r\n{}", "x".repeat(20_000));
        assert_eq!(parse(endless.as_bytes(), true), Err(ErrorKind::InvalidData));
        assert_eq!(parse("x".repeat(20_000).as_bytes(), true), Err(ErrorKind::InvalidData));
        let chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
        assert_eq!(parse(chunked.as_bytes(), true), Err(ErrorKind::InvalidData));
        assert_eq!(parse(b"POST / HTTP/1.1\r\n", false), Err(ErrorKind::InvalidData));
    }

    /// The error of a request that is answered with these octets.
    fn answered(response: Vec<u8>) -> Result<Vec<u8>, String> {
        let listener = TcpListener::bind("[::1]:0").unwrap();
        let url = format!("http://{}/x", listener.local_addr().unwrap());
        thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                let request = read(&mut stream, &Deadline::new(), false).unwrap();
                assert_eq!((request.target(), &request.body[..]), (Some(("POST", "/x")), &b"request"[..]));
                // The client may have enough before.
                let _ = stream.write_all(&response);
            });
            post(&url, b"request")
        })
    }

    #[test]
    fn a_response_is_one_of_the_pki_or_an_error_with_its_cure() {
        let with = |status: &str, media_type: &str, body: &[u8]| {
            let mut octets = Vec::new();
            respond(&mut octets, status, media_type, body).unwrap();
            octets
        };
        assert_eq!(answered(with("200 OK", RESPONSE, b"response")), Ok(b"response".to_vec()));
        let error = |response| answered(response).unwrap_err();
        assert!(error(with("200 OK", "text/html", b"<html>")).ends_with("is the URL right?"));
        let refused = error(with("400 Bad Request", "text/plain", b"for somebody else\x1b\nmore"));
        assert!(refused.contains("400 Bad Request: for somebody else\\u{1b}; are the URL"), "{refused}");
        let endless = [&b"HTTP/1.1 200 OK\r\n\r\n"[..], &vec![0; 100_000]].concat();
        assert!(error(endless).contains("at most 8192 octets"));
        assert!(error(b"SSH-2.0-OpenSSH\r\n".to_vec()).contains("no HTTP response"));
        let free = TcpListener::bind("[::1]:0").unwrap().local_addr().unwrap();
        assert!(post(&format!("http://{free}/"), b"").unwrap_err().ends_with("does the authority run?"));
    }
}
