//! A connection to an address without a host (RFC 5737, RFC 6666): a device that accepts it intercepts connections, as a captive
//! portal does.

use super::GIVE_UP;
use crate::sys;
use core::time::Duration;
use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockType, SockaddrIn, SockaddrIn6, bind, connect, getsockopt, recv, send, socket, sockopt,
};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Instant;

/// TEST-NET-1.
const TEST_NET: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
/// Of the discard prefix.
const DISCARDED: Ipv6Addr = Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 1);
const HTTP: u16 = 80;
/// Octets of a response that are read.
const MAX_RESPONSE: usize = 2048;
/// Octets of a URL that are kept.
const MAX_URL: usize = 200;
/// How long a response is read: who sends it octet by octet holds no thread.
const READ_TIME: Duration = Duration::from_secs(2);

/// Whether the network accepted a connection to an address that no host has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Interception {
    /// It did not.
    None,
    /// It did; the response refers to this URL, if to any. It is text from the network.
    Accepted(Option<String>),
}

/// Tries to connect by this interface, from `source`: over IPv4 if it is IPv4-mapped.
pub fn http(interface: u32, source: Ipv6Addr) -> Interception {
    let Some(socket) = connected(interface, source) else { return Interception::None };
    let host = source.to_ipv4_mapped().map_or_else(|| format!("[{DISCARDED}]"), |_| TEST_NET.to_string());
    let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    let sent = send(socket.as_raw_fd(), request.as_bytes(), MsgFlags::MSG_NOSIGNAL).is_ok();
    let response = if sent { read_response(&socket) } else { Vec::new() };
    Interception::Accepted(location(&response, &host))
}

/// The begin of a response.
fn read_response(socket: &OwnedFd) -> Vec<u8> {
    let (begun, mut response) = (Instant::now(), Vec::new());
    let mut buffer = [0; MAX_RESPONSE];
    while response.len() < MAX_RESPONSE
        && let Some(rest) = READ_TIME.checked_sub(begun.elapsed())
        && is_ready(socket, PollFlags::POLLIN, rest)
    {
        match recv(socket.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT) {
            Ok(length) if length > 0 => response.extend(buffer.get(..length).unwrap_or_default()),
            _ => break,
        }
    }
    response
}

/// A connection, if one comes about.
fn connected(interface: u32, source: Ipv6Addr) -> Option<OwnedFd> {
    let ipv4 = source.to_ipv4_mapped();
    let family = if ipv4.is_some() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let fd = socket(family, SockType::Stream, sys::SOCKET_FLAGS, None).ok()?;
    sys::set_option(&fd, libc::SOL_SOCKET, libc::SO_BINDTOIFINDEX, &interface.cast_signed()).ok()?;
    let begun = match ipv4 {
        Some(source) => {
            bind(fd.as_raw_fd(), &SockaddrIn::from(SocketAddrV4::new(source, 0))).ok()?;
            connect(fd.as_raw_fd(), &SockaddrIn::from(SocketAddrV4::new(TEST_NET, HTTP)))
        }
        None => {
            bind(fd.as_raw_fd(), &SockaddrIn6::from(SocketAddrV6::new(source, 0, 0, 0))).ok()?;
            connect(fd.as_raw_fd(), &SockaddrIn6::from(SocketAddrV6::new(DISCARDED, HTTP, 0, 0)))
        }
    };
    match begun {
        Ok(()) => return Some(fd),
        Err(Errno::EINPROGRESS) => {}
        Err(_) => return None,
    }
    let ended = is_ready(&fd, PollFlags::POLLOUT, GIVE_UP);
    (ended && getsockopt(&fd, sockopt::SocketError) == Ok(0)).then_some(fd)
}

fn is_ready(fd: &OwnedFd, events: PollFlags, limit: Duration) -> bool {
    let timeout = PollTimeout::try_from(limit.as_millis()).unwrap_or(PollTimeout::ZERO);
    poll(&mut [PollFd::new(fd.as_fd(), events)], timeout).is_ok_and(|ready| ready > 0)
}

/// The URL that a response of `host` redirects to (RFC 9110 §10.2.2). Of one that is too long, the query is left out.
fn location(response: &[u8], host: &str) -> Option<String> {
    let text = String::from_utf8_lossy(response);
    let value = text.lines().take_while(|line| !line.trim().is_empty()).find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("location").then(|| value.trim().to_owned())
    })?;
    let value: String = value.chars().filter(|letter| !letter.is_control()).collect();
    let url = if value.starts_with('/') { format!("http://{host}{value}") } else { value };
    let part = if url.len() > MAX_URL { url.split('?').next().unwrap_or_default() } else { &url };
    Some(part.chars().take(MAX_URL).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    #[test]
    fn response_that_comes_octet_by_octet_is_not_read_to_its_end() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let sender = std::thread::spawn(move || {
            while theirs.write_all(b"x").is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let response = read_response(&OwnedFd::from(ours));
        assert!(!response.is_empty() && response.len() < MAX_RESPONSE);
        sender.join().unwrap();
    }

    #[test]
    fn url_of_a_redirection_is_found() {
        let of = |text: &str| location(text.as_bytes(), "192.0.2.1");
        let found = of("HTTP/1.1 302 Found\r\nServer: x\r\nlocation: http://portal.example/login\u{1b}[31m\r\n\r\n");
        assert_eq!(found.as_deref(), Some("http://portal.example/login[31m"), "without control characters");
        assert_eq!(of("HTTP/1.1 200 OK\r\n\r\nLocation: http://no.example"), None, "of the body");
        assert_eq!(of(""), None);
        assert_eq!(of(&format!("Location: {}", "x".repeat(5000))).map(|url| url.len()), Some(MAX_URL));
        let long = format!("Location: http://portal.example/login?{}", "x".repeat(5000));
        assert_eq!(of(&long).as_deref(), Some("http://portal.example/login"));
        assert_eq!(of("HTTP/1.1 302\r\nLocation: /login\r\n\r\n").as_deref(), Some("http://192.0.2.1/login"));
        assert_eq!(of("HTTP/1.1 511 Network Authentication Required\r\n\r\n"), None, "RFC 6585 §6: it has a page");
    }
}
