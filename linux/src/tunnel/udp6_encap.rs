//! Tunnels in UDP over IPv6, on port 4191 (RFC 6935, RFC 6936): what the BPF programs leave to the daemon. Received are
//! packets that the kernel has reassembled; sent are those that the programs could not give UDP.

use crate::error::{Context, Error};
use crate::sys;
use nix::cmsg_space;
use nix::libc;
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, MsgFlags, SockType, SockaddrIn6, bind, recvmsg, setsockopt, socket, sockopt,
};
use roam6_proto::LinkId;
use roam6_proto::base::vec_set::VecSet;
use roam6_wire::ip4::DSMIP_PORT;
use roam6_wire::ip6::{self, HEADER_LENGTH, Header, protocol};
use std::io::IoSliceMut;
use std::net::{Ipv6Addr, SocketAddrV6};
use std::os::fd::{AsRawFd, OwnedFd};

/// Offsets in an IPv6 packet.
const FLOW_LABEL: std::ops::Range<usize> = 1..4;
const PAYLOAD_LENGTH: std::ops::Range<usize> = 4..6;
const NEXT_HEADER: usize = 6;
const HOP_LIMIT_AT: usize = 7;
const DESTINATION: std::ops::Range<usize> = 24..40;
const UDP_HEADER: usize = 8;
/// Of outer packets.
const HOP_LIMIT: u8 = 64;
/// Of those that lack UDP.
const WITHOUT_UDP: u8 = HOP_LIMIT - 1;
/// In the second octet of a packet: it has to be fragmented.
const TO_BE_FRAGMENTED: u8 = 1;

/// The socket. It also keeps the kernel from answering the datagrams with errors.
pub(super) struct Udp6Encap {
    socket: OwnedFd,
    /// Mobility messages and ESP to these addresses are signalling, which engines receive by a packet socket.
    signalling: VecSet<Ipv6Addr>,
}

sys::impl_as_fd!(Udp6Encap, socket);

/// What a packet from the programs lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    /// The UDP header.
    Udp,
    /// The same, and it is longer than the path MTU.
    UdpAndFragments,
}

impl Udp6Encap {
    /// Opens the socket; `signalling` are the local addresses of mobility signalling.
    ///
    /// # Errors
    /// The kernel's, as when another program uses the port.
    pub(super) fn open(signalling: VecSet<Ipv6Addr>) -> Result<Udp6Encap, Error> {
        let what = format_args!("UDP port {DSMIP_PORT} over IPv6");
        let socket = socket(AddressFamily::Inet6, SockType::Datagram, sys::SOCKET_FLAGS, None).context(what)?;
        setsockopt(&socket, sockopt::Ipv6V6Only, &true).context(what)?;
        setsockopt(&socket, sockopt::Ipv6RecvPacketInfo, &true).context(what)?;
        setsockopt(&socket, sockopt::Ipv6RecvTClass, &true).context(what)?;
        let zero_checksums: sys::Flag = 1;
        sys::set_option(&socket, libc::IPPROTO_UDP, libc::UDP_NO_CHECK6_RX, &zero_checksums).context(what)?;
        let any = SockaddrIn6::from(SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, DSMIP_PORT, 0, 0));
        bind(socket.as_raw_fd(), &any).context(what)?;
        Ok(Udp6Encap { socket, signalling })
    }

    /// Receives one datagram into `buffer`: the whole packet for the programs, unless it has to be ignored; `None` if there
    /// is none. What comes from `device` is what the programs have refused.
    pub(super) fn receive(&self, device: LinkId, buffer: &mut [u8]) -> Option<Option<Vec<u8>>> {
        let mut control = cmsg_space!(libc::in6_pktinfo, libc::c_int);
        let mut parts = [IoSliceMut::new(buffer)];
        let fd = self.socket.as_raw_fd();
        let message = recvmsg::<SockaddrIn6>(fd, &mut parts, Some(&mut control), MsgFlags::MSG_DONTWAIT).ok()?;
        let (from, length) = (SocketAddrV6::from(message.address?), message.bytes);
        let (mut to, mut traffic_class) = (None, 0);
        for control in message.cmsgs().ok()? {
            match control {
                ControlMessageOwned::Ipv6PacketInfo(info) if info.ipi6_ifindex != device.0 => {
                    to = Some(Ipv6Addr::from(info.ipi6_addr.s6_addr));
                }
                ControlMessageOwned::Ipv6TClass(class) => traffic_class = u8::try_from(class).unwrap_or_default(),
                _ => {}
            }
        }
        let inner = buffer.get(..length)?;
        let header = to.filter(|_| !self.is_signalling(inner)).map(|to| Header::new(*from.ip(), to));
        Some(header.and_then(|header| {
            let payload = [&udp_header((from.port(), DSMIP_PORT), length)?, inner].concat();
            Some(ip6::emit(&Header { traffic_class, ..header }, protocol::UDP, &payload))
        }))
    }

    fn is_signalling(&self, inner: &[u8]) -> bool {
        let speaks = matches!(inner.get(NEXT_HEADER), Some(&(protocol::MOBILITY | protocol::ESP)));
        let to = inner.get(DESTINATION).and_then(|octets| <[u8; 16]>::try_from(octets).ok());
        speaks && to.is_some_and(|to| self.signalling.contains(&to.into()))
    }
}

/// The header of a datagram with `payload` octets, without a checksum; `None` if it is too long.
fn udp_header((source, destination): (u16, u16), payload: usize) -> Option<[u8; UDP_HEADER]> {
    let length = u16::try_from(payload + UDP_HEADER).ok()?;
    let [[a, b], [c, d], [e, f]] = [source, destination, length].map(u16::to_be_bytes);
    Some([a, b, c, d, e, f, 0, 0])
}

/// Adds UDP to a packet that the programs have given an outer IPv6 header alone, marked by its hop limit; the flow label has
/// the remote port. `None` if it is another packet.
pub(super) fn add_udp(packet: &[u8]) -> Option<(Vec<u8>, Missing)> {
    let (header, inner) = packet.split_first_chunk::<HEADER_LENGTH>()?;
    let next = *header.get(NEXT_HEADER)?;
    if header.get(HOP_LIMIT_AT) != Some(&WITHOUT_UDP) || !matches!(next, protocol::IPV6 | protocol::IPV4) {
        return None;
    }
    let [second, port @ ..]: [u8; 3] = header.get(FLOW_LABEL)?.try_into().ok()?;
    let udp = udp_header((DSMIP_PORT, u16::from_be_bytes(port)), inner.len())?;
    let mut whole = [header, &udp[..], inner].concat();
    let length = u16::try_from(inner.len() + UDP_HEADER).ok()?;
    whole.get_mut(FLOW_LABEL)?.copy_from_slice(&[second & 0xf0, 0, 0]);
    whole.get_mut(PAYLOAD_LENGTH)?.copy_from_slice(&length.to_be_bytes());
    *whole.get_mut(NEXT_HEADER)? = protocol::UDP;
    *whole.get_mut(HOP_LIMIT_AT)? = HOP_LIMIT;
    let missing = if second & TO_BE_FRAGMENTED == 0 { Missing::Udp } else { Missing::UdpAndFragments };
    Some((whole, missing))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn udp_is_added_to_marked_packets_only() {
        let ends = ["2001:db8::1", "2001:db8::2"].map(|address| address.parse().unwrap());
        let header = Header { traffic_class: 0xb9, hop_limit: WITHOUT_UDP, ..Header::new(ends[0], ends[1]) };
        let inner = b"\x60inner packet";
        for (label, missing) in [(50_123, Missing::Udp), (1 << 16 | 50_123, Missing::UdpAndFragments)] {
            let marked = ip6::emit(&Header { flow_label: label, ..header }, protocol::IPV6, inner);
            let datagram = [&udp_header((DSMIP_PORT, 50_123), inner.len()).unwrap()[..], inner].concat();
            let expected = ip6::emit(&Header { hop_limit: HOP_LIMIT, ..header }, protocol::UDP, &datagram);
            assert_eq!(add_udp(&marked), Some((expected, missing)));
            for length in 0..HEADER_LENGTH {
                assert_eq!(add_udp(&marked[..length]), None);
            }
        }
        let other = ip6::emit(&Header { hop_limit: HOP_LIMIT, ..header }, protocol::IPV6, inner);
        assert_eq!(add_udp(&other), None);
        assert_eq!(add_udp(&ip6::emit(&header, protocol::UDP, inner)), None);
    }
}
