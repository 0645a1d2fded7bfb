//! UDP and IPv4 encapsulation for tunnels over IPv4: inner packets in UDP on port 4191, or right behind the IPv4 header
//! (RFC 5555 §4.1, RFC 4213 §3, RFC 2003 §3). Towards the BPF programs each has an outer IPv6 header whose addresses
//! encode the IPv4 endpoints, as [`Ipv4Endpoint`] says, and whose flow label is the egress interface.

use crate::error::{Context, Error};
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockType, SockaddrIn, bind, recvmsg, sendmsg,
    setsockopt, socket, sockopt,
};
use nix::{cmsg_space, libc};
use roam6_proto::base::vec_set::VecSet;
use roam6_wire::Ipv4Endpoint;
use roam6_wire::ip4::DSMIP_PORT;
use roam6_wire::ip6::{HEADER_LENGTH, Header, protocol};
use std::io::{IoSlice, IoSliceMut};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Offsets of the protocol and the destination in an inner packet.
const NEXT_HEADER: usize = 6;
const DESTINATION: std::ops::Range<usize> = 24..40;

/// The sockets, one for each encapsulation.
pub(super) struct UdpEncap {
    sockets: [OwnedFd; 3],
    /// Mobility messages and ESP to these addresses are signalling, which engines receive by a packet socket.
    signalling: VecSet<Ipv6Addr>,
}

/// The encapsulation of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EncapKind {
    /// UDP over IPv4, inner packets of either family.
    Udp,
    /// IPv6 in IPv4 (protocol 41).
    Ipv6,
    /// IPv4 in IPv4 (protocol 4).
    Ipv4,
}

impl EncapKind {
    /// In the order of the sockets.
    pub(super) const ALL: [EncapKind; 3] = [EncapKind::Udp, EncapKind::Ipv6, EncapKind::Ipv4];
}

/// A received packet.
pub(super) enum Received {
    /// A tunnelled packet: the outer header for it, its protocol, and its range in the buffer.
    Data(Header, u8, std::ops::Range<usize>),
    /// No tunnelled packet.
    Other,
}

impl UdpEncap {
    /// Opens the sockets; `signalling` are the local addresses of mobility signalling.
    ///
    /// # Errors
    /// The kernel's, as when another program uses the port.
    pub(super) fn open(signalling: VecSet<Ipv6Addr>) -> Result<UdpEncap, Error> {
        let what = format_args!("UDP port {DSMIP_PORT}");
        let udp = socket(AddressFamily::Inet, SockType::Datagram, crate::sys::SOCKET_FLAGS, None).context(what)?;
        let any = SockaddrIn::from(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, DSMIP_PORT));
        bind(udp.as_raw_fd(), &any).context(what)?;
        let what = "raw sockets for IPv4 encapsulation";
        let [ipv6, ipv4] =
            [libc::IPPROTO_IPV6, libc::IPPROTO_IPIP].map(|inner| crate::sys::raw_socket(libc::AF_INET, inner));
        let sockets = [udp, ipv6.context(what)?, ipv4.context(what)?];
        for socket in &sockets {
            setsockopt(socket, sockopt::Ipv4PacketInfo, &true).context(what)?;
            setsockopt(socket, sockopt::IpRecvTos, &true).context(what)?;
            // Routers may fragment: any IPv6 packet of the minimum MTU arrives (RFC 4213 §3.2). The kernel does not obey ICMP
            // errors about these packets, which anybody can forge.
            let fragment: crate::sys::Flag = libc::IP_PMTUDISC_OMIT;
            crate::sys::set_option(socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, &fragment).context(what)?;
        }
        Ok(UdpEncap { sockets, signalling })
    }

    /// The descriptors to wait for, in the order of [`EncapKind::ALL`].
    pub(super) fn sockets(&self) -> [BorrowedFd<'_>; 3] {
        self.sockets.each_ref().map(AsFd::as_fd)
    }

    fn socket(&self, kind: EncapKind) -> &OwnedFd {
        let [udp, ipv6, ipv4] = &self.sockets;
        match kind {
            EncapKind::Udp => udp,
            EncapKind::Ipv6 => ipv6,
            EncapKind::Ipv4 => ipv4,
        }
    }

    /// Sends a packet whose outer header, which the programs have added, encodes IPv4 endpoints; `false` if it does
    /// not. A packet that cannot be sent is lost, as on any link.
    pub(super) fn send(&self, packet: &[u8]) -> bool {
        let end = |at: usize| {
            let octets: [u8; 16] = packet.get(at..at + 16)?.try_into().ok()?;
            Ipv4Endpoint::from_ipv6(octets.into())
        };
        let Some((source, destination)) = end(8).zip(end(24)) else { return false };
        let (Some(&[first, second, third, fourth]), Some(inner)) =
            (packet.first_chunk::<4>(), packet.get(HEADER_LENGTH..))
        else {
            return true;
        };
        let info = libc::in_pktinfo {
            // 0: the routing tables choose it.
            ipi_ifindex: i32::from_be_bytes([0, second & 0xf, third, fourth]),
            ipi_spec_dst: libc::in_addr { s_addr: u32::from_ne_bytes(source.address.octets()) },
            ipi_addr: libc::in_addr { s_addr: 0 },
        };
        let service = first << 4 | second >> 4;
        let control = [ControlMessage::Ipv4PacketInfo(&info), ControlMessage::Ipv4Tos(&service)];
        let kind = match (source.port, version(inner)) {
            (0, Some(4)) => EncapKind::Ipv4,
            (0, Some(6)) => EncapKind::Ipv6,
            // A copy with a number, which the programs send themselves.
            (0, _) => return true,
            _ => EncapKind::Udp,
        };
        let to = SockaddrIn::from(SocketAddrV4::new(destination.address, destination.port));
        let _ = sendmsg(self.socket(kind).as_raw_fd(), &[IoSlice::new(inner)], &control, MsgFlags::empty(), Some(&to));
        true
    }

    /// Receives one packet from one of the sockets into `buffer`; `None` if there is none.
    pub(super) fn receive(&self, kind: EncapKind, buffer: &mut [u8]) -> Option<Received> {
        let mut control = cmsg_space!(libc::in_pktinfo, libc::c_int);
        let mut parts = [IoSliceMut::new(buffer)];
        let socket = self.socket(kind).as_raw_fd();
        let message = recvmsg::<SockaddrIn>(socket, &mut parts, Some(&mut control), MsgFlags::MSG_DONTWAIT).ok()?;
        let (from, length) = (SocketAddrV4::from(message.address?), message.bytes);
        let (mut to, mut service) = (None, 0);
        for control in message.cmsgs().ok()? {
            match control {
                ControlMessageOwned::Ipv4PacketInfo(info) => {
                    to = Some(Ipv4Addr::from(info.ipi_addr.s_addr.to_ne_bytes()));
                }
                ControlMessageOwned::Ipv4Tos(tos) => service = tos,
                _ => {}
            }
        }
        Some(self.classify(to, (from, kind), service, buffer.get(..length)?))
    }

    fn classify(
        &self,
        to: Option<Ipv4Addr>,
        (from, kind): (SocketAddrV4, EncapKind),
        service: u8,
        bytes: &[u8],
    ) -> Received {
        // A raw socket also delivers the IPv4 header.
        let at = if kind == EncapKind::Udp { 0 } else { bytes.first().map_or(0, |first| usize::from(first & 0xf) * 4) };
        let inner = bytes.get(at..).unwrap_or_default();
        let protocol = match (kind, version(inner)) {
            (EncapKind::Udp | EncapKind::Ipv6, Some(6)) if !self.is_signalling(inner) => protocol::IPV6,
            (EncapKind::Udp | EncapKind::Ipv4, Some(4)) => protocol::IPV4,
            (EncapKind::Udp, _) if has_sequence(inner) => protocol::DESTINATION,
            _ => return Received::Other,
        };
        let Some(to) = to else { return Received::Other };
        let ports = if kind == EncapKind::Udp { (from.port(), DSMIP_PORT) } else { (0, 0) };
        let end = |address, port| Ipv4Endpoint { address, port }.to_ipv6();
        let header = Header::new(end(*from.ip(), ports.0), end(to, ports.1));
        Received::Data(Header { traffic_class: service, ..header }, protocol, at..bytes.len())
    }

    fn is_signalling(&self, inner: &[u8]) -> bool {
        let speaks = matches!(inner.get(NEXT_HEADER), Some(&(protocol::MOBILITY | protocol::ESP)));
        let to = inner.get(DESTINATION).and_then(|octets| <[u8; 16]>::try_from(octets).ok());
        speaks && to.is_some_and(|to| self.signalling.contains(&to.into()))
    }
}

/// Whether the inner packet has a sequence number before it, as in `bpf/sequence_recovery.h`.
fn has_sequence(payload: &[u8]) -> bool {
    matches!(payload, [protocol::IPV6 | protocol::IPV4, 0, 0x1e, 4, ..])
}

/// The version of an IP packet.
fn version(packet: &[u8]) -> Option<u8> {
    packet.first().map(|first| first >> 4)
}
