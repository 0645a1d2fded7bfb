//! Sockets of probes: bound to an address and an interface, with ICMP errors on their error queue.

use super::{Answer, GIVE_UP, IcmpError, SENT_AT};
use crate::sys;
use core::time::Duration;
use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrIn, SockaddrIn6, bind, recv, recvmsg, sendto};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::IoSliceMut;
use std::net::{IpAddr, Ipv6Addr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Instant;

/// Octets of the largest packet received; longer ones are none of a probe.
pub(super) const LARGEST: usize = 2048;
/// Packets of others that are read while a reply is awaited.
const MAX_STRANGERS: usize = 4096;

/// A raw socket for one peer.
pub(super) struct ProbeSocket {
    fd: OwnedFd,
    peer: Ipv6Addr,
}

/// A number that no other host knows.
pub(super) fn nonce() -> [u8; 8] {
    RandomState::new().build_hasher().finish().to_ne_bytes()
}

impl ProbeSocket {
    /// Opens a socket of an upper-layer protocol for packets from `source` to `peer`, by this interface only. Addresses
    /// may be IPv4-mapped.
    pub(super) fn open(
        interface: Option<u32>,
        source: Option<Ipv6Addr>,
        peer: Ipv6Addr,
        protocol: i32,
    ) -> Result<ProbeSocket, Errno> {
        let errno = |error: std::io::Error| Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO));
        let ipv4 = peer.to_ipv4_mapped().is_some();
        let family = if ipv4 { libc::AF_INET } else { libc::AF_INET6 };
        let fd = sys::raw_socket(family, protocol).map_err(errno)?;
        let set = |level, name, value: i32| sys::set_option(&fd, level, name, &value).map_err(errno);
        if let Some(index) = interface {
            set(libc::SOL_SOCKET, libc::SO_BINDTOIFINDEX, index.cast_signed())?;
        }
        if ipv4 {
            set(libc::IPPROTO_IP, libc::IP_RECVERR, 1)?;
            set(libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE)?;
        } else {
            set(libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 1)?;
            set(libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE)?;
        }
        match source.map(|source| (source, source.to_ipv4_mapped())) {
            Some((_, Some(source))) => bind(fd.as_raw_fd(), &SockaddrIn::from(SocketAddrV4::new(source, 0)))?,
            Some((source, None)) => bind(fd.as_raw_fd(), &SockaddrIn6::from(SocketAddrV6::new(source, 0, 0, 0)))?,
            None => {}
        }
        Ok(ProbeSocket { fd, peer })
    }

    /// Limits the hops of its packets.
    pub(super) fn limit_hops(&self, hops: u8) {
        let (level, name) = match self.peer.to_ipv4_mapped() {
            Some(_) => (libc::IPPROTO_IP, libc::IP_TTL),
            None => (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS),
        };
        // Without the limit the probe only travels further than necessary.
        let _ = sys::set_option(&self.fd, level, name, &i32::from(hops));
    }

    fn send(&self, message: &[u8]) -> Result<(), Errno> {
        let fd = self.fd.as_raw_fd();
        match self.peer.to_ipv4_mapped() {
            Some(peer) => sendto(fd, message, &SockaddrIn::from(SocketAddrV4::new(peer, 0)), MsgFlags::empty()),
            None => sendto(fd, message, &SockaddrIn6::from(SocketAddrV6::new(self.peer, 0, 0, 0)), MsgFlags::empty()),
        }
        .map(drop)
    }

    /// Sends `message` up to three times, until `is_reply` accepts a packet of this socket or of `listener`, an ICMP error
    /// comes back, or nothing.
    pub(super) fn ask(&self, message: &[u8], listener: Option<&OwnedFd>, is_reply: impl Fn(&[u8]) -> bool) -> Answer {
        let begun = Instant::now();
        let mut times = SENT_AT.iter().peekable();
        let mut sent = begun;
        loop {
            let now = begun.elapsed();
            if times.next_if(|at| **at <= now).is_some() {
                sent = Instant::now();
                match self.send(message) {
                    Ok(()) => {}
                    Err(Errno::EPERM) => return Answer::NotPermitted,
                    Err(Errno::EMSGSIZE) => return Answer::NotSent("packet too big".to_owned()),
                    // An error that an earlier packet was answered with: it is on the queue.
                    Err(error) => {
                        let late = self.take_error().map(Answer::Error);
                        return late.unwrap_or_else(|| Answer::NotSent(error.desc().to_owned()));
                    }
                }
            }
            let until = times.peek().map_or(GIVE_UP, |at| **at);
            let Some(rest) = until.checked_sub(begun.elapsed()) else {
                if times.peek().is_none() {
                    return Answer::Silence;
                }
                continue;
            };
            self.await_input(listener, rest);
            if let Some(error) = self.take_error() {
                return Answer::Error(error);
            }
            if [Some(&self.fd), listener].into_iter().flatten().any(|fd| received(fd, &is_reply)) {
                return Answer::Reply(sent.elapsed());
            }
        }
    }

    fn await_input(&self, listener: Option<&OwnedFd>, rest: Duration) {
        let timeout = PollTimeout::try_from(rest.as_millis().saturating_add(1)).unwrap_or(PollTimeout::ZERO);
        let mut fds = vec![PollFd::new(self.fd.as_fd(), PollFlags::POLLIN)];
        fds.extend(listener.map(|listener| PollFd::new(listener.as_fd(), PollFlags::POLLIN)));
        let _ = poll(&mut fds, timeout);
    }

    /// The ICMP error on the queue, if any.
    fn take_error(&self) -> Option<IcmpError> {
        let mut buffer = [0; LARGEST];
        let mut parts = [IoSliceMut::new(&mut buffer)];
        let mut space = nix::cmsg_space!(libc::sock_extended_err, libc::sockaddr_in6);
        let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
        let message = recvmsg::<()>(self.fd.as_raw_fd(), &mut parts, Some(&mut space), flags).ok()?;
        message.cmsgs().ok()?.find_map(|control| match control {
            ControlMessageOwned::Ipv6RecvErr(error, from) => {
                let from = from.map(|from| IpAddr::from(SockaddrIn6::from(from).ip()));
                icmp_error(&error, from)
            }
            ControlMessageOwned::Ipv4RecvErr(error, from) => {
                let from = from.map(|from| IpAddr::from(SockaddrIn::from(from).ip()));
                icmp_error(&error, from)
            }
            _ => None,
        })
    }
}

/// Whether one of the packets that wait is the reply.
fn received(fd: &OwnedFd, is_reply: impl Fn(&[u8]) -> bool) -> bool {
    let mut buffer = [0; LARGEST];
    for _ in 0..MAX_STRANGERS {
        match recv(fd.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT) {
            Ok(length) if is_reply(buffer.get(..length).unwrap_or_default()) => return true,
            Ok(_) => {}
            // An ICMP error is reported here too, once, beside the queue.
            Err(_) => return false,
        }
    }
    false
}

fn icmp_error(error: &libc::sock_extended_err, from: Option<IpAddr>) -> Option<IcmpError> {
    let v6 = match error.ee_origin {
        libc::SO_EE_ORIGIN_ICMP6 => true,
        libc::SO_EE_ORIGIN_ICMP => false,
        _ => return None,
    };
    Some(IcmpError { from, icmp_type: error.ee_type, code: error.ee_code, v6 })
}
