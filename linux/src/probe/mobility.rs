//! A mobility header of an unassigned type. A home agent answers with a Binding Error of status 2 (RFC 6275 §9.2), a host
//! that is none with an ICMPv6 Parameter Problem (RFC 8200 §4), a filter with nothing or a prohibition.

use super::Answer;
use super::socket::ProbeSocket;
use crate::sys;
use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{AddressFamily, SockType, socket};
use roam6_proto::LinkId;
use roam6_wire::checksum::checksum;
use roam6_wire::ip6::{Datagram, protocol};
use std::net::Ipv6Addr;

/// The highest MH type, which IANA has not assigned.
const UNASSIGNED: u8 = 255;
/// A Binding Error (RFC 6275 §6.1.9) with the status "unrecognized MH type value".
const BINDING_ERROR: u8 = 7;
const UNRECOGNISED_TYPE: u8 = 2;

/// Sends such a message from the care-of address `source`, by this interface, to a home agent.
pub fn mobility(interface: u32, source: Ipv6Addr, agent: Ipv6Addr, hop_limit: Option<u8>) -> Answer {
    // The daemon discards what raw sockets would receive: packets are read before.
    let listener = match listen(interface) {
        Ok(listener) => listener,
        Err(error) => return Answer::NotSent(error.to_string()),
    };
    let opened = ProbeSocket::open(Some(interface), Some(source), agent, protocol::MOBILITY.into());
    let socket = match opened {
        Ok(socket) => socket,
        Err(Errno::EPERM) => return Answer::NotSent("it takes the privilege CAP_NET_RAW".to_owned()),
        Err(error) => return Answer::NotSent(error.desc().to_owned()),
    };
    if let Some(hops) = hop_limit {
        socket.limit_hops(hops);
    }
    socket.ask(&emit(source, agent), Some(&listener), |packet| is_reply(packet, source, agent))
}

/// A packet socket for the IPv6 packets of an interface.
fn listen(interface: u32) -> std::io::Result<std::os::fd::OwnedFd> {
    let fd = socket(AddressFamily::Packet, SockType::Datagram, sys::SOCKET_FLAGS, None)?;
    sys::attach_filter(&fd, &only(protocol::MOBILITY))?;
    sys::bind_frames(&fd, LinkId(interface), libc::ETH_P_IPV6 as u16)?;
    Ok(fd)
}

/// Accepts packets whose first header is of this kind.
fn only(next_header: u8) -> [sys::FilterStep; 4] {
    const NEXT_HEADER_AT: u32 = 6;
    [
        sys::filter_step(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, 0, 0, NEXT_HEADER_AT),
        sys::filter_step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, next_header.into()),
        sys::filter_step(libc::BPF_RET | libc::BPF_K, 0, 0, u32::MAX),
        sys::REFUSE,
    ]
}

fn emit(source: Ipv6Addr, agent: Ipv6Addr) -> Vec<u8> {
    let mut message = vec![protocol::NONE, 0, UNASSIGNED, 0, 0, 0, 0, 0];
    let sum = checksum(source, agent, protocol::MOBILITY, &message);
    if let Some(field) = message.get_mut(4..6) {
        field.copy_from_slice(&sum.to_be_bytes());
    }
    message
}

fn is_reply(packet: &[u8], source: Ipv6Addr, agent: Ipv6Addr) -> bool {
    let Ok(datagram) = Datagram::parse(packet) else { return false };
    let error = datagram.payload.get(2) == Some(&BINDING_ERROR) && datagram.payload.get(6) == Some(&UNRECOGNISED_TYPE);
    let between = (datagram.source, datagram.destination) == (agent, source);
    between && datagram.protocol == protocol::MOBILITY && error
}

#[cfg(test)]
mod tests {
    use super::*;
    use roam6_wire::ip6::{Header, emit as packet};

    #[test]
    fn only_a_binding_error_of_the_home_agent_counts() {
        let (here, agent): (Ipv6Addr, Ipv6Addr) = ("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap());
        let error = |status| [&[59, 2, BINDING_ERROR, 0, 0, 0, status, 0][..], &[0; 16]].concat();
        let from = |source, status| packet(&Header::new(source, here), protocol::MOBILITY, &error(status));
        assert!(is_reply(&from(agent, 2), here, agent));
        assert!(!is_reply(&from(agent, 1), here, agent), "unknown binding");
        assert!(!is_reply(&from(here, 2), here, agent));
        let whole = from(agent, 2);
        for length in 0..47 {
            assert!(!is_reply(whole.get(..length).unwrap(), here, agent), "{length}");
        }
        let sent = emit(here, agent);
        assert_eq!(checksum(here, agent, protocol::MOBILITY, &sent), 0);
    }
}
