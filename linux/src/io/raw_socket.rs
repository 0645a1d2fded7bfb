//! Raw sockets for packets addressed to this host, as the kernel delivers them: router advertisements, ICMPv6 errors
//! and Shim6 control messages (RFC 3542 §3, §6). Unlike packet sockets they are offered nothing else.

use crate::error::{Context, Error};
use crate::sys::{self, FilterStep, REFUSE, filter_step};
use nix::errno::Errno;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrIn6, recvmsg, setsockopt, sockopt};
use roam6_proto::{LinkId, Packet};
use roam6_wire::ip6::{self, Header, protocol};
use roam6_wire::shim6;
use std::io::{self, IoSliceMut};
use std::net::Ipv6Addr;
use std::os::fd::{AsRawFd, OwnedFd};

/// Octets of the largest message without a jumbo payload.
const LARGEST: usize = 65_535;
/// ICMPv6 types that are received: errors and router advertisements.
const ICMP_TYPES: [u32; 5] = [1, 2, 3, 4, 134];
/// The octet of a shim header with the P bit, and this bit: payload, not a control message (RFC 5533 §5.1).
const SHIM_PAYLOAD: (u32, u32) = (2, 0x80);

const ACCEPT: FilterStep = filter_step(libc::BPF_RET | libc::BPF_K, 0, 0, u32::MAX);

/// One raw socket.
pub(crate) struct RawSocket {
    protocol: u8,
    socket: OwnedFd,
    buffer: Vec<u8>,
}

impl RawSocket {
    /// Opens a socket for Shim6 control messages and one for ICMPv6.
    ///
    /// # Errors
    /// The kernel's, if it refuses a socket.
    pub(crate) fn open_all() -> Result<[RawSocket; 2], Error> {
        Ok([RawSocket::open(shim6::PROTOCOL, &shim_filter())?, RawSocket::open(protocol::ICMPV6, &icmp_filter())?])
    }

    fn open(protocol: u8, filter: &[FilterStep]) -> Result<RawSocket, Error> {
        let what = format_args!("raw socket of protocol {protocol}");
        let socket = sys::raw_socket(libc::AF_INET6, protocol.into()).context(what)?;
        sys::attach_filter(&socket, filter).context(what)?;
        setsockopt(&socket, sockopt::Ipv6RecvPacketInfo, &true).context(what)?;
        setsockopt(&socket, sockopt::Ipv6RecvHopLimit, &true).context(what)?;
        Ok(RawSocket { protocol, socket, buffer: vec![0; LARGEST] })
    }

    /// Receives one packet, if there is one, with a header made of its ancillary data.
    pub(crate) fn receive(&mut self) -> io::Result<Option<Packet>> {
        let mut space = nix::cmsg_space!(libc::in6_pktinfo, libc::c_int);
        let mut parts = [IoSliceMut::new(&mut self.buffer)];
        let fd = self.socket.as_raw_fd();
        let message = match recvmsg::<SockaddrIn6>(fd, &mut parts, Some(&mut space), MsgFlags::MSG_DONTWAIT) {
            Ok(message) => message,
            Err(Errno::EAGAIN) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let source = message.address.map_or(Ipv6Addr::UNSPECIFIED, |address| address.ip());
        let (mut header, mut link) = (Header::new(source, Ipv6Addr::UNSPECIFIED), LinkId(0));
        for control in message.cmsgs()? {
            match control {
                ControlMessageOwned::Ipv6PacketInfo(info) => {
                    header.destination = info.ipi6_addr.s6_addr.into();
                    link = LinkId(info.ipi6_ifindex);
                }
                ControlMessageOwned::Ipv6HopLimit(limit) => header.hop_limit = limit as u8,
                _ => {}
            }
        }
        let length = message.bytes;
        let payload = self.buffer.get(..length).unwrap_or_default();
        Ok(Some(Packet { link, sender: None, bytes: ip6::emit(&header, self.protocol, payload) }))
    }
}

crate::sys::impl_as_fd!(RawSocket, socket);

/// Accepts control messages, and rejects payload.
fn shim_filter() -> [FilterStep; 5] {
    let (octet, payload) = SHIM_PAYLOAD;
    [
        filter_step(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, 0, 0, octet),
        filter_step(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0, 0, payload),
        filter_step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, 0),
        ACCEPT,
        REFUSE,
    ]
}

/// Accepts the ICMPv6 types that are received.
fn icmp_filter() -> Vec<FilterStep> {
    let load = filter_step(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, 0, 0, 0);
    let compare = |(index, icmp_type): (usize, &u32)| {
        // Past the remaining comparisons and the rejection.
        let skipped = (ICMP_TYPES.len() - index) as u8;
        filter_step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, skipped, 0, *icmp_type)
    };
    [load].into_iter().chain(ICMP_TYPES.iter().enumerate().map(compare)).chain([REFUSE, ACCEPT]).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails at the assertion")]
mod tests {
    use super::*;
    use crate::io::raw_sender::RawSender;
    use nix::sched::{CloneFlags, unshare};
    use roam6_proto::{Transmit, Via};
    use roam6_wire::checksum::checksum;

    const LOCALHOST: Ipv6Addr = Ipv6Addr::LOCALHOST;

    fn icmp(icmp_type: u8) -> Vec<u8> {
        let mut message = vec![icmp_type, 0, 0, 0, 0, 0, 5, 0, 1, 2, 3, 4];
        let sum = checksum(LOCALHOST, LOCALHOST, protocol::ICMPV6, &message);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        message
    }

    #[test]
    fn icmpv6_to_this_host_arrives_as_sent() {
        let test = "icmpv6_to_this_host_arrives_as_sent";
        if let Err(error) = unshare(CloneFlags::CLONE_NEWNET) {
            return println!("skipped: {test}: no network namespace: {error}");
        }
        std::process::Command::new("ip").args(["link", "set", "lo", "up"]).status().unwrap();
        let mut boxes = RawSocket::open_all().unwrap();
        let mut exit = RawSender::open().unwrap();
        let (message, payload) = ([59, 0, 1, 0, 0, 0, 0, 7], [59, 0, 0x80, 0, 0, 0, 0, 7]);
        let (too_big, echo) = (icmp(2), icmp(129));
        let sent: [(u8, &[u8], bool); 4] =
            [(140, &message, true), (140, &payload, false), (58, &too_big, true), (58, &echo, false)];
        let mut wanted = Vec::new();
        for (protocol, octets, taken) in sent {
            let bytes = ip6::emit(&Header { hop_limit: 9, ..Header::new(LOCALHOST, LOCALHOST) }, protocol, octets);
            exit.send(&Transmit { via: Via::Route, bytes: bytes.clone() }, None).unwrap();
            wanted.extend(taken.then_some(Packet { link: LinkId(1), sender: None, bytes }));
        }
        let take = |one: &mut RawSocket| std::iter::from_fn(|| one.receive().unwrap()).collect::<Vec<_>>();
        let taken: Vec<Packet> = boxes.iter_mut().flat_map(take).collect();
        assert_eq!(taken, wanted);
    }
}
