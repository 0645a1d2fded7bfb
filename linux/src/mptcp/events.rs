//! The kernel's announcements of MPTCP connections and subflows: generic netlink, group `mptcp_pm_events`.

use super::netlink::PathManager;
use crate::error::{Context, Error};
use crate::netlink::attribute::{find, u16_of, u32_of};
use crate::netlink::socket::{errno, messages, open};
use netlink_sys::{Socket, protocols};
use nix::errno::Errno;
use roam6_proto::base::ids::MptcpToken;
use roam6_proto::contract::input::{SubflowEvent, SubflowEventKind};
use std::net::{Ipv6Addr, SocketAddrV6};

/// Octets of the generic header, of which the first is the event.
const GENERIC_HEADER: usize = 4;
/// Receive buffer of the socket, octets.
const RECEIVE_QUEUE: libc::c_int = 1024 * 1024;
// Events (linux/mptcp_pm.h); of the two of a new connection only that of its establishment is used.
const ESTABLISHED: u8 = 2;
const CLOSED: u8 = 3;
const SUBFLOW_ESTABLISHED: u8 = 10;
const SUBFLOW_CLOSED: u8 = 11;
const SUBFLOW_PRIORITY: u8 = 13;
// Attributes of an event.
const TOKEN: u16 = 1;
const SOURCE_6: u16 = 6;
const DESTINATION_6: u16 = 8;
const SOURCE_PORT: u16 = 9;
const DESTINATION_PORT: u16 = 10;
const ERROR: u16 = 12;

/// Receives announcements of subflows.
pub(crate) struct SubflowEvents {
    socket: Socket,
}

/// The announcements of one call.
#[derive(Debug, Default)]
pub(crate) struct EventBatch {
    pub(crate) events: Vec<SubflowEvent>,
    /// The receive buffer overran: announcements were lost.
    pub(crate) lost: bool,
}

impl SubflowEvents {
    /// Subscribes to the announcements.
    ///
    /// # Errors
    /// The kernel has no MPTCP, or is too old for announcements (5.13).
    pub(crate) fn open() -> Result<SubflowEvents, Error> {
        let group = PathManager::open()?.events_group()?;
        let what = "MPTCP events";
        let socket = open(protocols::NETLINK_GENERIC, what)?;
        socket.add_membership(group).context(what)?;
        socket.set_non_blocking(true).context(what)?;
        // A shorter queue overruns earlier, which is reported.
        let _ = socket.set_rx_buf_sz(RECEIVE_QUEUE);
        Ok(SubflowEvents { socket })
    }

    /// The announcements since the last call, at most `limit` events.
    ///
    /// # Errors
    /// The kernel's, but for an overrun.
    pub(crate) fn receive(&mut self, limit: usize) -> Result<EventBatch, Error> {
        let mut batch = EventBatch::default();
        while batch.events.len() < limit {
            match self.socket.recv_from_full().map_err(errno) {
                Ok((datagram, _)) => {
                    batch.events.extend(messages(&datagram).iter().filter_map(|it| read(it.payload())))
                }
                Err(Errno::EAGAIN) => break,
                Err(Errno::ENOBUFS) => batch.lost = true,
                Err(error) => return Err(Error::new("MPTCP events", error.desc())),
            }
        }
        Ok(batch)
    }
}

crate::sys::impl_as_fd!(SubflowEvents, socket);

/// An event with its generic header; `None` for other events, and for connections over IPv4.
fn read(message: &[u8]) -> Option<SubflowEvent> {
    let attributes = message.get(GENERIC_HEADER..)?;
    let change = match *message.first()? {
        ESTABLISHED => SubflowEventKind::ConnectionEstablished,
        CLOSED => SubflowEventKind::ConnectionClosed,
        SUBFLOW_ESTABLISHED => SubflowEventKind::SubflowEstablished,
        SUBFLOW_CLOSED => SubflowEventKind::SubflowClosed,
        SUBFLOW_PRIORITY => SubflowEventKind::PriorityChanged,
        _ => return None,
    };
    let end = |address, port| {
        let octets: [u8; 16] = find(attributes, address)?.try_into().ok()?;
        let port = u16::from_be(find(attributes, port).and_then(u16_of)?);
        Some(SocketAddrV6::new(octets.into(), port, 0, 0))
    };
    let nowhere = SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, 0, 0, 0);
    let (mut local, mut remote) = (end(SOURCE_6, SOURCE_PORT), end(DESTINATION_6, DESTINATION_PORT));
    if change == SubflowEventKind::ConnectionClosed {
        // The event has no more than the token.
        (local, remote) = (local.or(Some(nowhere)), remote.or(Some(nowhere)));
    }
    Some(SubflowEvent {
        token: MptcpToken(find(attributes, TOKEN).and_then(u32_of)?),
        kind: change,
        local: local?,
        remote: remote?,
        error: find(attributes, ERROR).and_then(|value| value.first().copied()).unwrap_or_default(),
    })
}
