//! Anycast addresses: the kernel ties them to a socket, so that they end with the daemon at the latest (RFC 4291 §2.6).

use crate::error::{Context, Error};
use crate::sys::{self, AddressMembership};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use roam6_proto::contract::item::AnycastAddress;
use std::io;
use std::os::fd::OwnedFd;

/// The socket that has joined the anycast addresses.
pub(crate) struct Anycasts {
    socket: OwnedFd,
}

impl Anycasts {
    pub(crate) fn open() -> Result<Anycasts, Error> {
        let socket = socket(AddressFamily::Inet6, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None);
        Ok(Anycasts { socket: socket.context("anycast socket")? })
    }

    /// Joins the address, again if the interface has lost it.
    ///
    /// # Errors
    /// The kernel's, as where no address of the prefix is assigned.
    pub(crate) fn put(&self, anycast: &AnycastAddress) -> Result<(), Error> {
        self.drop(anycast);
        self.set(libc::IPV6_JOIN_ANYCAST, anycast)
            .context(format!("anycast address {} on {}", anycast.address, anycast.link))
    }

    /// Leaves the address, if it was joined.
    pub(crate) fn drop(&self, anycast: &AnycastAddress) {
        let _ = self.set(libc::IPV6_LEAVE_ANYCAST, anycast);
    }

    fn set(&self, option: libc::c_int, anycast: &AnycastAddress) -> io::Result<()> {
        let membership = AddressMembership {
            ipv6mr_multiaddr: libc::in6_addr { s6_addr: anycast.address.octets() },
            ipv6mr_interface: anycast.link.0,
        };
        sys::set_option(&self.socket, libc::IPPROTO_IPV6, option, &membership)
    }
}
