//! How packets reach the engines: through packet sockets, where a role needs packets that are not addressed to this
//! host or of protocols that the kernel does not implement, and else through raw sockets. The kernel offers every
//! received packet to a packet socket, for which it clones the buffer: 7 % of the cost of a rewritten TCP segment.

use super::kernel_icmp_filter::KernelIcmpFilter;
use super::packet_socket::{PacketFilter, PacketSocket};
use super::raw_socket::RawSocket;
use crate::error::Error;
use roam6_proto::{LinkId, Packet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// Two sockets, so that a flood on one displaces nothing on the other.
pub(crate) enum Receiver {
    /// With the filter that keeps the kernel from answering before the engines do.
    PacketSockets([PacketSocket; 2], KernelIcmpFilter),
    RawSockets([RawSocket; 2]),
}

impl Receiver {
    /// Opens packet sockets or raw sockets; also returns the fallback that had to be taken, if any.
    ///
    /// # Errors
    /// The kernel's, if it refuses a socket.
    pub(crate) fn open(packet_sockets: bool) -> Result<(Receiver, Option<String>), Error> {
        if !packet_sockets {
            KernelIcmpFilter::remove_stale();
            return Ok((Receiver::RawSockets(RawSocket::open_all()?), None));
        }
        let (icmp_filter, fallback) = KernelIcmpFilter::open()?;
        let sockets = [PacketSocket::open(PacketFilter::Signalling)?, PacketSocket::open(PacketFilter::IcmpErrors)?];
        Ok((Receiver::PacketSockets(sockets, icmp_filter), fallback))
    }

    /// Receives one packet from the first or second socket, if there is one.
    pub(crate) fn receive(&mut self, which: usize) -> io::Result<Option<Packet>> {
        match self {
            Receiver::PacketSockets(sockets, _) => sockets.get_mut(which).map_or(Ok(None), PacketSocket::receive),
            Receiver::RawSockets(sockets) => sockets.get_mut(which).map_or(Ok(None), RawSocket::receive),
        }
    }

    /// The descriptors to wait for, in the order of [`Receiver::receive`].
    pub(crate) fn fds(&self) -> [BorrowedFd<'_>; 2] {
        match self {
            Receiver::PacketSockets(sockets, _) => sockets.each_ref().map(AsFd::as_fd),
            Receiver::RawSockets(sockets) => sockets.each_ref().map(AsFd::as_fd),
        }
    }

    /// See [`PacketSocket::receive_plain_esp`].
    pub(crate) fn receive_plain_esp(&self, plain: bool) -> Result<(), Error> {
        let Receiver::PacketSockets(sockets, _) = self else { return Ok(()) };
        sockets.iter().try_for_each(|socket| socket.receive_plain_esp(plain))
    }

    /// See [`PacketSocket::receive_all_multicast`].
    pub(crate) fn receive_all_multicast(&self, link: LinkId) -> Result<(), Error> {
        let Receiver::PacketSockets([signalling, _], _) = self else { return Ok(()) };
        signalling.receive_all_multicast(link)
    }

    /// See [`KernelIcmpFilter::repair`].
    pub(crate) fn repair(&self) -> Result<bool, Error> {
        let Receiver::PacketSockets(_, icmp_filter) = self else { return Ok(false) };
        icmp_filter.repair()
    }

    /// Removes the kernel's filter.
    pub(crate) fn clean(&self) -> Result<(), Error> {
        let Receiver::PacketSockets(_, icmp_filter) = self else { return Ok(()) };
        icmp_filter.clean()
    }
}
