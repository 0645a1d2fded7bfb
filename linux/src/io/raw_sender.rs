//! The transmit sockets: complete packets with any source address, by the routing tables, by one interface, or directly
//! to a neighbour.

use crate::error::{Context, Error};
use crate::sys;
use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, SockProtocol, SockType, SockaddrIn, SockaddrIn6, sendmsg, sendto, socket,
};
use roam6_proto::base::vec_map::VecMap;
use roam6_proto::{LinkId, Transmit, Via};
use roam6_wire::LinkAddress;
use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, OwnedFd};

/// Sends packets.
pub(crate) struct RawSender {
    unbound: OwnedFd,
    /// One socket for each interface in use. Bound, because an interface given with a packet is only a preference to
    /// the kernel.
    by_link: VecMap<LinkId, OwnedFd>,
    /// The same for IPv4 packets, with one for no interface; each is opened when it is first needed.
    ipv4: VecMap<Option<LinkId>, OwnedFd>,
    packet_socket: OwnedFd,
}

impl RawSender {
    pub(crate) fn open() -> Result<RawSender, Error> {
        let frames =
            socket(AddressFamily::Packet, SockType::Datagram, sys::SOCKET_FLAGS, None).context("packet socket")?;
        Ok(RawSender {
            unbound: raw_socket(None).context("raw socket")?,
            by_link: VecMap::new(),
            ipv4: VecMap::new(),
            packet_socket: frames,
        })
    }

    /// Sends one packet. `address` is the link-layer address of the interface, where it has one.
    ///
    /// # Errors
    /// The kernel's, as where there is no route; or the packet has no valid header.
    pub(crate) fn send(&mut self, transmit: &Transmit, address: Option<LinkAddress>) -> io::Result<()> {
        let bytes = transmit.bytes.as_slice();
        if bytes.first().is_some_and(|first| first >> 4 == 4) {
            return self.send_ipv4(transmit.via, bytes);
        }
        let (source, destination) = addresses(bytes).ok_or(io::ErrorKind::InvalidInput)?;
        match transmit.via {
            Via::Route => send_raw(&self.unbound, None, source, destination, bytes),
            // Bypasses the routing tables: it must also work before the interface has any address.
            Via::Link(link) if destination.is_multicast() => {
                let group = address.map(|_| multicast_address(destination));
                sys::send_packet(&self.packet_socket, link, group, bytes)
            }
            Via::Link(link) => {
                let socket = self.by_link.entry(link).or_try_insert_with(|| raw_socket(Some(link)))?;
                send_raw(socket, Some(link), source, destination, bytes)
            }
            Via::Neighbour { link, address } => sys::send_packet(&self.packet_socket, link, Some(address), bytes),
        }
    }

    /// Sends one IPv4 packet.
    fn send_ipv4(&mut self, via: Via, bytes: &[u8]) -> io::Result<()> {
        let link = match via {
            Via::Route => None,
            Via::Link(link) | Via::Neighbour { link, .. } => Some(link),
        };
        let socket = self.ipv4.entry(link).or_try_insert_with(|| raw_socket4(link))?;
        let destination: [u8; 4] = *bytes.get(16..).and_then(<[u8]>::first_chunk).ok_or(io::ErrorKind::InvalidInput)?;
        let to = SockaddrIn::from(SocketAddrV4::new(Ipv4Addr::from(destination), 0));
        sendto(socket.as_raw_fd(), bytes, &to, MsgFlags::empty())?;
        Ok(())
    }

    /// Closes the sockets of an interface that was removed.
    pub(crate) fn close_link(&mut self, link: LinkId) {
        self.ipv4.remove(&Some(link));
        self.by_link.remove(&link);
    }
}

fn raw_socket(link: Option<LinkId>) -> io::Result<OwnedFd> {
    let socket = socket(AddressFamily::Inet6, SockType::Raw, sys::SOCKET_FLAGS, SockProtocol::Raw)?;
    // The source may be an address that is not, or not yet, the host's.
    sys::set_option(&socket, libc::IPPROTO_IPV6, libc::IPV6_FREEBIND, &1)?;
    bind_to_link(socket, link)
}

/// A raw socket for packets with their own IPv4 header.
fn raw_socket4(link: Option<LinkId>) -> io::Result<OwnedFd> {
    bind_to_link(sys::raw_socket(libc::AF_INET, libc::IPPROTO_RAW)?, link)
}

/// Binds a socket to this interface, if any.
fn bind_to_link(socket: OwnedFd, link: Option<LinkId>) -> io::Result<OwnedFd> {
    if let Some(link) = link {
        sys::set_option(&socket, libc::SOL_SOCKET, libc::SO_BINDTOIFINDEX, &link.0.cast_signed())?;
    }
    Ok(socket)
}

/// The source is given to the kernel beside the packet too: routes and rules may depend on it.
fn send_raw(
    socket: &OwnedFd,
    link: Option<LinkId>,
    source: Source,
    destination: Ipv6Addr,
    bytes: &[u8],
) -> io::Result<()> {
    let scope = link.map_or(0, |link| link.0);
    let to = SockaddrIn6::from(SocketAddrV6::new(destination, 0, 0, scope));
    let info = libc::in6_pktinfo { ipi6_addr: libc::in6_addr { s6_addr: source.0.octets() }, ipi6_ifindex: scope };
    let control = [ControlMessage::Ipv6PacketInfo(&info)];
    sendmsg(socket.as_raw_fd(), &[IoSlice::new(bytes)], &control, MsgFlags::empty(), Some(&to))?;
    Ok(())
}

/// A source address; a type of its own, so that it is not confused with a destination.
#[derive(Clone, Copy)]
struct Source(Ipv6Addr);

fn addresses(bytes: &[u8]) -> Option<(Source, Ipv6Addr)> {
    let source: [u8; 16] = *bytes.get(8..)?.first_chunk()?;
    let destination: [u8; 16] = *bytes.get(24..)?.first_chunk()?;
    Some((Source(source.into()), destination.into()))
}

/// RFC 2464 §7.
fn multicast_address(group: Ipv6Addr) -> LinkAddress {
    let [.., a, b, c, d] = group.octets();
    LinkAddress([0x33, 0x33, a, b, c, d])
}
