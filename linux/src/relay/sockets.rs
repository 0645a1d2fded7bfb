//! The sockets: bearers, which are MPTCP, and plain TCP with addresses that are not of this host (IPV6_TRANSPARENT).

use crate::error::{Context, Error};
use crate::mptcp::diag::round_trip_micros;
use crate::sys::{self, Flag, IPPROTO_MPTCP};
use nix::errno::Errno;
use nix::sys::socket::{
    Backlog, MsgFlags, SockaddrIn6, bind, connect, getpeername, getsockname, listen, send, sendto, sockopt,
};
use nix::sys::socket::{getsockopt, setsockopt};
use roam6_proto::relay::Tuple;
use roam6_wire::relay::{Answer, Connect};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// The mark of packets that are delivered to the relay, as in bpf/abi.h.
pub(super) const MARK: u32 = 0x7236_0000;

/// Buffers, octets; the kernel takes twice as much, for its own structures too.
///
/// A bearer needs the sum of the rates of all paths times the longest round trip, in which a queue may have 100 ms: what the other
/// paths deliver meanwhile waits for the data of the slowest one. The kernel bounds the window of a subflow by the receive buffer of its
/// handshake for good, and a receive buffer may not shrink: reordered data that were promised room would exceed it, and the kernel would
/// accept not even the retransmission that they wait for. So it is large from the beginning, and the other relay sends few octets until
/// the destination is seen to read ([`roam6_proto::relay::UNCREDITED_OCTETS`]). The send buffer is smaller: the data of a path that
/// fails are sent again behind what another one has queued.
const RECEIVE_BUFFER: Flag = 4 * 1024 * 1024;
pub(super) const SEND_BUFFER: Flag = 512 * 1024;
const LARGE_SEND_BUFFER: Flag = 1280 * 1024;
/// Those of a plain connection that begins, for short round trips; and the most of its send buffer.
const PLAIN_BUFFER: Flag = 64 * 1024;
const PLAIN_SEND_BUFFER: Flag = 128 * 1024;
/// The receive buffer of a plain connection whose destination reads.
const LARGE_PLAIN_BUFFER: Flag = 512 * 1024;
/// For which the receive buffer of a plain connection has room, Mbit/s.
const PLAIN_RATE: u64 = 100;
/// Octets that are handed to a path no earlier than they can be sent; those in the buffer can still take another.
const NOT_SENT_LOW_WATER: Flag = 64 * 1024;
/// linux/in6.h
const IPV6_TRANSPARENT: Flag = 75;
/// net/sock.h: the receive buffer is not the kernel's to size.
const SOCK_RCVBUF_LOCK: Flag = 2;
/// The beginning of `struct tcp_info`, as far as the round trip.
const TCP_INFO_OCTETS: usize = 72;
const BACKLOG: i32 = 1024;

/// Closing a socket resets the connection, or ends it in order.
pub(super) fn reset_on_close(socket: impl AsFd, resets: bool) {
    let linger = libc::linger { l_onoff: resets.into(), l_linger: 0 };
    let _ = sys::set_option(socket, libc::SOL_SOCKET, libc::SO_LINGER, &linger);
}

fn set(socket: impl AsFd, level: Flag, name: Flag, value: Flag) -> Result<(), Error> {
    sys::set_option(socket, level, name, &value).context("socket option")
}

/// What all bearers have; those that are accepted too.
pub(super) fn tune_bearer(socket: &OwnedFd) {
    reset_on_close(socket, true);
    // Not every kernel has each of these for MPTCP; all work without.
    let _ = set(socket, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1);
    let _ = set(socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, NOT_SENT_LOW_WATER);
    let _ = set(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, RECEIVE_BUFFER);
}

/// Sets the send buffer of a bearer in use, octets.
pub(super) fn set_send_buffer(bearer: &OwnedFd, octets: Flag) {
    let _ = set(bearer, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, octets);
}

/// Enlarges the buffers from a plain connection to a bearer whose destination reads.
pub(super) fn enlarge_outbound(bearer: &OwnedFd, plain: &OwnedFd) {
    set_send_buffer(bearer, LARGE_SEND_BUFFER);
    set_receive_buffer(plain, bandwidth_delay(plain).clamp(LARGE_PLAIN_BUFFER, RECEIVE_BUFFER));
}

/// Has the kernel size the send buffer of a plain connection whose destination reads.
pub(super) fn enlarge_inbound(plain: &OwnedFd) {
    let _ = set(plain, libc::SOL_SOCKET, libc::SO_BUF_LOCK, SOCK_RCVBUF_LOCK);
}

/// Sizes the buffers of a plain connection that begins for the round trip to its other end. Not before the handshake: the window scale
/// (RFC 7323 §2.2) would be that of a small buffer for good.
pub(super) fn size_buffers(plain: &OwnedFd) {
    let octets = bandwidth_delay(plain).max(PLAIN_BUFFER);
    set_receive_buffer(plain, octets.min(RECEIVE_BUFFER));
    let _ = set(plain, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, octets.min(PLAIN_SEND_BUFFER));
}

/// The kernel bounds the window of a buffer that it does not size itself by what it was first.
fn set_receive_buffer(plain: &OwnedFd, octets: Flag) {
    let _ = set(plain, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, octets);
    let _ = set(plain, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, octets);
}

/// What is under way at [`PLAIN_RATE`] in a round trip, octets.
fn bandwidth_delay(plain: &OwnedFd) -> Flag {
    let mut info = [0; TCP_INFO_OCTETS];
    let _ = sys::get_option(plain, libc::IPPROTO_TCP, libc::TCP_INFO, &mut info);
    let product = u64::from(round_trip_micros(&info)) * PLAIN_RATE / 8;
    Flag::try_from(product).unwrap_or(Flag::MAX)
}

/// What all plain connections have. Keepalives are answered by the kernel of this host, so it has to send its own, or it would
/// not notice that a host has gone.
pub(super) fn tune_plain(socket: &OwnedFd, traffic_class: u8) {
    reset_on_close(socket, true);
    for (level, name, value) in [
        (libc::IPPROTO_TCP, libc::TCP_NODELAY, 1),
        (libc::SOL_SOCKET, libc::SO_OOBINLINE, 1),
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1),
        (libc::IPPROTO_IPV6, libc::IPV6_TCLASS, Flag::from(traffic_class & !3)),
        (libc::IPPROTO_IP, libc::IP_TOS, Flag::from(traffic_class & !3)),
    ] {
        let _ = set(socket, level, name, value);
    }
}

/// Begins to connect a bearer.
pub(super) fn dial(home_address: Ipv6Addr, home_agent: Ipv6Addr) -> Result<OwnedFd, Error> {
    let what = "MPTCP connection to the home agent";
    let socket = sys::stream_socket(IPPROTO_MPTCP).context(what)?;
    tune_bearer(&socket);
    bind(socket.as_raw_fd(), &to_kernel(home_address, 0)).context(what)?;
    match connect(socket.as_raw_fd(), &to_kernel(home_agent, roam6_wire::relay::PORT)) {
        Ok(()) | Err(Errno::EINPROGRESS) => Ok(socket),
        Err(error) => Err(error).context(what),
    }
}

/// The socket that accepts bearers.
///
/// Subflows over IPv4 come to an IPv4 address of this host, so it is bound to no address.
pub(super) fn listen_for_bearers() -> Result<OwnedFd, Error> {
    let what = format!("MPTCP port {}", roam6_wire::relay::PORT);
    let socket = sys::stream_socket(IPPROTO_MPTCP).context(&what)?;
    set(&socket, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
    tune_bearer(&socket);
    set(&socket, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 0)?;
    bind(socket.as_raw_fd(), &to_kernel(Ipv6Addr::UNSPECIFIED, roam6_wire::relay::PORT)).context(&what)?;
    listen(&socket, Backlog::new(BACKLOG).context(&what)?).context(&what)?;
    Ok(socket)
}

/// The socket that accepts relayed connections of both families. The BPF program gives it their SYNs; its own address is reached
/// from this host alone. It is an IPv4-mapped one: a socket that is bound to an IPv6 address takes no SYN of IPv4, whatever
/// IPV6_V6ONLY says.
pub(super) fn listen_for_connections() -> Result<OwnedFd, Error> {
    let what = "socket of relayed connections";
    let socket = sys::stream_socket(libc::IPPROTO_TCP).context(what)?;
    set(&socket, libc::IPPROTO_IPV6, IPV6_TRANSPARENT, 1)?;
    set(&socket, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 0)?;
    reset_on_close(&socket, true);
    bind(socket.as_raw_fd(), &to_kernel(Ipv4Addr::LOCALHOST.to_ipv6_mapped(), 0)).context(what)?;
    listen(&socket, Backlog::new(BACKLOG).context(what)?).context(what)?;
    Ok(socket)
}

/// Begins to connect to a destination from the source's own address and port.
pub(super) fn connect_plain(request: &Connect) -> Result<OwnedFd, Answer> {
    let begin = || {
        let socket = sys::stream_socket(libc::IPPROTO_TCP).map_err(|error| errno(&error))?;
        let ready = set(&socket, libc::IPPROTO_IPV6, IPV6_TRANSPARENT, 1)
            .and_then(|()| set(&socket, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1));
        ready.map_err(|_| Errno::EPERM)?;
        tune_plain(&socket, request.traffic_class);
        bind(socket.as_raw_fd(), &to_kernel(request.source, request.source_port)).map_err(|_| Errno::EADDRNOTAVAIL)?;
        match connect(socket.as_raw_fd(), &to_kernel(request.destination, request.destination_port)) {
            Ok(()) | Err(Errno::EINPROGRESS) => Ok(socket),
            // By a route of type `unreachable`: forwarded packets of IPv6 are answered No Route.
            Err(Errno::EHOSTUNREACH) if request.destination.to_ipv4_mapped().is_none() => Err(Errno::ENETUNREACH),
            // By one of type `blackhole`.
            Err(Errno::EINVAL) => Err(Errno::ETIMEDOUT),
            Err(error) => Err(error),
        }
    };
    begin().map_err(answer_of)
}

fn errno(error: &std::io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO))
}

/// The answer to the other relay for an error.
pub(super) fn answer_of(error: Errno) -> Answer {
    match error {
        Errno::ENETUNREACH => Answer::NoRoute,
        Errno::EHOSTUNREACH => Answer::AddressUnreachable,
        Errno::EACCES | Errno::EPERM => Answer::Prohibited,
        Errno::ETIMEDOUT => Answer::TimedOut,
        Errno::EADDRNOTAVAIL | Errno::EADDRINUSE | Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM | Errno::ENOBUFS => {
            Answer::ResourceExceeded
        }
        _ => Answer::Reset,
    }
}

/// The pending error of a socket; `None` if it is connected.
pub(super) fn pending_error(socket: &OwnedFd) -> Option<Errno> {
    match getsockopt(socket, sockopt::SocketError) {
        Ok(0) => None,
        Ok(error) => Some(Errno::from_raw(error)),
        Err(error) => Some(error),
    }
}

/// The end points of a connection accepted from `peer`, as those of the packets that are received of it.
pub(super) fn tuple_of(socket: &OwnedFd, peer: SocketAddrV6) -> Option<Tuple> {
    let own: SockaddrIn6 = getsockname(socket.as_raw_fd()).ok()?;
    let own = SocketAddrV6::from(own);
    Some(Tuple { source: *peer.ip(), source_port: peer.port(), destination: *own.ip(), destination_port: own.port() })
}

/// The remote and the local end of a connection.
pub(super) fn ends_of(socket: &OwnedFd) -> Option<(SocketAddrV6, SocketAddrV6)> {
    let peer: SockaddrIn6 = getpeername(socket.as_raw_fd()).ok()?;
    let own: SockaddrIn6 = getsockname(socket.as_raw_fd()).ok()?;
    Some((peer.into(), own.into()))
}

/// Sends a few octets, which an idle connection has room for. Whether it did.
pub(super) fn send_whole(socket: &OwnedFd, octets: &[u8]) -> bool {
    send(socket.as_raw_fd(), octets, MsgFlags::MSG_NOSIGNAL) == Ok(octets.len())
}

/// Sends whole packets, of either family.
pub(super) struct PacketSender {
    ipv6: OwnedFd,
    ipv4: OwnedFd,
}

impl PacketSender {
    /// With this mark, if there is one.
    pub(super) fn open(mark: Option<u32>) -> Result<PacketSender, Error> {
        let open = |family| {
            let socket = sys::raw_socket(family, libc::IPPROTO_RAW).context("raw socket")?;
            mark.map_or(Ok(()), |mark| setsockopt(&socket, sockopt::Mark, &mark)).context("mark of a raw socket")?;
            Ok(socket)
        };
        Ok(PacketSender { ipv6: open(libc::AF_INET6)?, ipv4: open(libc::AF_INET)? })
    }

    /// Sends a packet to its destination.
    pub(super) fn send(&self, octets: &[u8], destination: Ipv6Addr) -> nix::Result<()> {
        let flags = MsgFlags::empty();
        match destination.to_ipv4_mapped() {
            Some(address) => {
                let to = nix::sys::socket::SockaddrIn::from(std::net::SocketAddrV4::new(address, 0));
                sendto(self.ipv4.as_raw_fd(), octets, &to, flags).map(drop)
            }
            None => sendto(self.ipv6.as_raw_fd(), octets, &to_kernel(destination, 0), flags).map(drop),
        }
    }
}

fn to_kernel(address: Ipv6Addr, port: u16) -> SockaddrIn6 {
    SockaddrIn6::from(SocketAddrV6::new(address, port, 0, 0))
}
