//! UDP ports on which engines answer. Their packet sockets receive what arrives there; a bound socket that receives
//! nothing keeps the kernel from answering with an ICMPv6 error (RFC 4443 §3.1, code 4), and shows other programs of
//! this host that the port is in use.

use crate::error::{Context, Error};
use crate::sys;
use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockType, SockaddrIn6, bind, socket};
use roam6_proto::LinkId;
use roam6_proto::base::vec_map::VecMap;
use roam6_proto::contract::item::UdpPortHold;
use std::net::{Ipv6Addr, SocketAddrV6};
use std::os::fd::{AsRawFd, OwnedFd};

/// The ports held; `None`: another program has bound it.
#[derive(Default)]
pub(crate) struct UdpPortHolds(VecMap<(LinkId, u16), Option<OwnedFd>>);

impl UdpPortHolds {
    /// Holds a port; `false` if another program has bound it, which also keeps the kernel from answering.
    ///
    /// # Errors
    /// The kernel's, if it refuses the socket.
    pub(crate) fn hold(&mut self, port: &UdpPortHold) -> Result<bool, Error> {
        let UdpPortHold { link, port: number } = *port;
        if self.0.get(&(link, number)).is_some_and(Option::is_some) {
            return Ok(true);
        }
        let what = format_args!("UDP port {number} of {link}");
        let socket = socket(AddressFamily::Inet6, SockType::Datagram, sys::SOCKET_FLAGS, None).context(what)?;
        sys::attach_filter(&socket, &[sys::REFUSE]).context(what)?;
        sys::set_option(&socket, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, &1).context(what)?;
        sys::set_option(&socket, libc::SOL_SOCKET, libc::SO_BINDTOIFINDEX, &link.0.cast_signed()).context(what)?;
        let any = SockaddrIn6::from(SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, number, 0, 0));
        match bind(socket.as_raw_fd(), &any) {
            Err(Errno::EADDRINUSE) => {
                self.0.insert((link, number), None);
                Ok(false)
            }
            bound => {
                bound.context(what)?;
                self.0.insert((link, number), Some(socket));
                Ok(true)
            }
        }
    }

    /// Whether another program has bound a port that is to be held. If it has released it, the port is held now.
    pub(crate) fn is_taken(&mut self, link: LinkId, port: u16) -> bool {
        self.0.contains_key(&(link, port)) && self.hold(&UdpPortHold { link, port }).is_ok_and(|held| !held)
    }

    /// Releases a port.
    pub(crate) fn release(&mut self, port: &UdpPortHold) {
        self.0.remove(&(port.link, port.port));
    }
}
