//! One query to a resolver (RFC 1035 §4.1): the name servers of the root, which every resolver knows.

use super::socket::nonce;
use super::{Answer, GIVE_UP, SENT_AT};
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Instant;

/// The port of resolvers.
const DOMAIN: u16 = 53;

/// Asks `resolver` from `source`. Addresses may be IPv4-mapped.
pub fn dns(source: Ipv6Addr, resolver: Ipv6Addr) -> Answer {
    let failed = |error: std::io::Error| match error.kind() {
        ErrorKind::PermissionDenied => Answer::NotPermitted,
        _ => Answer::NotSent(error.to_string()),
    };
    let socket = match connected(source, resolver) {
        Ok(socket) => socket,
        Err(error) => return failed(error),
    };
    let [i, d, ..] = nonce();
    let query = [i, d, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1];
    let mut buffer = [0; 512];
    for (number, _) in SENT_AT.iter().enumerate() {
        let sent = Instant::now();
        if let Err(error) = socket.send(&query) {
            return failed(error);
        }
        let share = GIVE_UP / SENT_AT.len() as u32;
        while let Some(rest) = share.checked_sub(sent.elapsed()).filter(|rest| !rest.is_zero()) {
            let _ = socket.set_read_timeout(Some(rest));
            match socket.recv(&mut buffer) {
                Ok(length) if is_reply(buffer.get(..length).unwrap_or_default(), [i, d]) => {
                    return Answer::Reply(sent.elapsed());
                }
                Ok(_) => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break,
                Err(error) if number + 1 == SENT_AT.len() => return failed(error),
                Err(_) => break,
            }
        }
    }
    Answer::Silence
}

fn connected(source: Ipv6Addr, resolver: Ipv6Addr) -> std::io::Result<UdpSocket> {
    let canonical = |address: Ipv6Addr| -> IpAddr { address.to_canonical() };
    let socket = UdpSocket::bind(SocketAddr::new(canonical(source), 0))?;
    socket.connect(SocketAddr::new(canonical(resolver), DOMAIN))?;
    Ok(socket)
}

/// Whether this is a response to the query, whatever it says.
fn is_reply(packet: &[u8], id: [u8; 2]) -> bool {
    const RESPONSE: u8 = 0x80;
    matches!(packet, [i, d, flags, ..] if [*i, *d] == id && flags & RESPONSE != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_response_to_the_query_counts() {
        assert!(is_reply(&[1, 2, 0x85, 0], [1, 2]));
        assert!(!is_reply(&[1, 2, 0x05, 0], [1, 2]), "a query");
        assert!(!is_reply(&[2, 1, 0x85, 0], [1, 2]) && !is_reply(&[1, 2], [1, 2]) && !is_reply(&[], [1, 2]));
    }
}
