//! Echo requests (RFC 4443 §4.1, RFC 792).

use super::Answer;
use super::socket::{ProbeSocket, nonce};
use nix::errno::Errno;
use nix::libc;
use roam6_wire::checksum::internet_checksum;
use std::net::Ipv6Addr;

/// Octets of the header of an echo message.
const HEADER: usize = 8;
/// Octets of the number by which a reply is recognised.
const TOKEN: usize = 8;

/// An echo request.
#[derive(Debug, Clone, Copy)]
pub struct EchoRequest {
    /// Index of the only interface that it may leave by.
    pub interface: Option<u32>,
    /// Its source; the kernel's choice if there is none.
    pub source: Option<Ipv6Addr>,
    /// Its destination, IPv4-mapped for IPv4.
    pub destination: Ipv6Addr,
    /// Octets of the whole packet, which is not fragmented; 0 for a short one.
    pub size: u32,
    /// Its hop limit, if not the usual one.
    pub hop_limit: Option<u8>,
}

impl EchoRequest {
    /// A short request to `destination`.
    pub fn to(destination: Ipv6Addr) -> EchoRequest {
        EchoRequest { interface: None, source: None, destination, size: 0, hop_limit: None }
    }
}

/// Sends an echo request, three times at most, and awaits its reply.
pub fn echo(request: &EchoRequest) -> Answer {
    let ipv4 = request.destination.to_ipv4_mapped().is_some();
    let (protocol, kinds, header) =
        if ipv4 { (libc::IPPROTO_ICMP, (8, 0), 20) } else { (libc::IPPROTO_ICMPV6, (128, 129), 40) };
    let opened = ProbeSocket::open(request.interface, request.source, request.destination, protocol);
    let socket = match opened {
        Ok(socket) => socket,
        Err(Errno::EPERM) => return Answer::NotSent("it takes the privilege CAP_NET_RAW".to_owned()),
        Err(error) => return Answer::NotSent(error.desc().to_owned()),
    };
    if let Some(hops) = request.hop_limit {
        socket.limit_hops(hops);
    }
    let token = nonce();
    let length = (request.size as usize).saturating_sub(header + HEADER + TOKEN);
    let message = emit(kinds.0, token, length, ipv4);
    socket.ask(&message, None, |packet| is_reply(packet, kinds.1, token, ipv4))
}

/// An echo request whose data begin with `token`. The kernel computes the checksum of ICMPv6.
fn emit(icmp_type: u8, token: [u8; TOKEN], padding: usize, checksum: bool) -> Vec<u8> {
    let [i, d, ..] = token;
    let mut message = [&[icmp_type, 0, 0, 0, i, d, 0, 1][..], &token, &vec![0; padding]].concat();
    let sum = if checksum { internet_checksum(&message) } else { 0 };
    if let Some(field) = message.get_mut(2..4) {
        field.copy_from_slice(&sum.to_be_bytes());
    }
    message
}

fn is_reply(packet: &[u8], icmp_type: u8, token: [u8; TOKEN], ipv4: bool) -> bool {
    // A raw socket of IPv4 delivers the header too.
    let header = if ipv4 { packet.first().map_or(0, |first| usize::from(first & 0xf) * 4) } else { 0 };
    let message = packet.get(header..).unwrap_or_default();
    message.first() == Some(&icmp_type) && message.get(HEADER..HEADER + TOKEN) == Some(&token)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails at the assertion")]
mod tests {
    use super::*;

    #[test]
    fn only_the_reply_to_the_request_counts() {
        let token = [1, 2, 3, 4, 5, 6, 7, 8];
        let mut reply = emit(128, token, 4, false);
        assert_eq!((reply.len(), &reply[8..16]), (20, &token[..]));
        assert!(!is_reply(&reply, 129, token, false), "a request");
        reply[0] = 129;
        assert!(is_reply(&reply, 129, token, false));
        assert!(!is_reply(&reply, 129, [0; 8], false), "of another");
        let ipv4 = [&[0x45][..], &[0; 19], &emit(0, token, 0, true)].concat();
        assert!(is_reply(&ipv4, 0, token, true));
        assert_eq!(internet_checksum(&ipv4[20..]), 0);
        for length in 0..36 {
            assert!(!is_reply(&ipv4[..length], 0, token, true));
        }
    }
}
