//! The kernel's MPTCP connections and subflows: sock_diag(7), what iproute2 shows as `ss -M` and `ss -ti`.

use crate::error::Error;
use crate::netlink::attribute::{attribute, find, parse_attributes, u32_of, u64_of};
use crate::netlink::socket::{encode, exchange, open};
use netlink_packet_core::{NLM_F_ACK, NLM_F_DUMP, NetlinkBuffer};
use netlink_sys::{Socket, protocols};
use roam6_proto::base::ids::MptcpToken;
use roam6_proto::contract::input::{SubflowEvent, SubflowEventKind};
use roam6_wire::ip6::protocol;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::{self, IpAddr, Ipv4Addr, Ipv6Addr};

/// Most connections returned; the rest is counted.
pub const MAX_CONNECTIONS: usize = 4096;

/// A connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Connection {
    /// The local token; 0 if it has none, as after a fallback to plain TCP.
    pub token: u32,
    /// Local address, as the application sees it.
    pub local: net::SocketAddr,
    /// Remote address, as the application sees it.
    pub remote: net::SocketAddr,
    /// TCP state: `established`, ...
    pub state: State,
    /// It fell back to plain TCP, and has its first path only.
    pub fallback: bool,
    /// Octets of the application sent.
    pub bytes_sent: u64,
    /// Octets of the application received.
    pub bytes_received: u64,
    /// Octets retransmitted on another subflow.
    pub bytes_retransmitted: u64,
    /// Its subflows.
    pub subflows: Vec<Subflow>,
}

roam6_proto::read_fields!(Connection {
    token,
    local,
    remote,
    state,
    fallback,
    bytes_sent,
    bytes_received,
    bytes_retransmitted,
    subflows
});

/// A subflow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Subflow {
    /// Local address.
    pub local: net::SocketAddr,
    /// Local address identifier; 0 for the address of the first subflow.
    pub local_id: u8,
    /// Remote address.
    pub remote: net::SocketAddr,
    /// The peer's address identifier.
    pub remote_id: u8,
    /// Interface it is bound to, 0 for none.
    pub link: u32,
    /// TCP state.
    pub state: State,
    /// A backup, by the local or the remote host's request.
    pub backup: bool,
    /// The first subflow (MP_CAPABLE); else it joined (MP_JOIN).
    pub first: bool,
    /// Octets sent, retransmissions included.
    pub bytes_sent: u64,
    /// Octets received.
    pub bytes_received: u64,
    /// Octets retransmitted.
    pub bytes_retransmitted: u64,
    /// Smoothed round trip time, microseconds.
    pub rtt_micros: u32,
    /// Time since data was last sent, milliseconds.
    pub idle_millis: u32,
    /// Seconds since it was established, if the daemon has observed it for that long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_seconds: Option<u64>,
}

roam6_proto::read_fields!(Subflow {
    local,
    local_id,
    remote,
    remote_id,
    link,
    state,
    backup,
    first,
    bytes_sent,
    bytes_received,
    bytes_retransmitted,
    rtt_micros,
    idle_millis,
    age_seconds
});

/// States of a TCP socket (RFC 9293 §3.3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the names are the standard's own")]
pub enum State {
    Established,
    SynSent,
    SynReceived,
    FinWait1,
    FinWait2,
    TimeWait,
    Closed,
    CloseWait,
    LastAck,
    Listen,
    Closing,
}

/// The connections, without listeners, and how many there are beyond [`MAX_CONNECTIONS`].
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
pub struct Connections {
    /// By token.
    pub connections: Vec<Connection>,
    /// Connections omitted.
    pub left_out: usize,
}

roam6_proto::read_fields!(Connections { connections, left_out });

/// Dumps all connections of this network namespace.
///
/// # Errors
/// The kernel's, as where it has no MPTCP. Only root gets tokens.
pub fn connections() -> Result<Connections, Error> {
    let mut diag = Diag::open()?;
    let mut found: BTreeMap<(u32, net::SocketAddr), Connection> = BTreeMap::new();
    let mut left_out = 0;
    for reply in diag.dump(PROTOCOL_MPTCP)? {
        let Some(connection) = read_connection(&reply) else { continue };
        if found.len() < MAX_CONNECTIONS {
            found.insert((connection.token, connection.local), connection);
        } else {
            left_out += 1;
        }
    }
    for reply in diag.dump(PROTOCOL_TCP)? {
        let Some((token, subflow)) = read_subflow(&reply) else { continue };
        let of_token = found.range_mut((token, UNKNOWN_ADDRESS)..).take_while(|((of, _), _)| *of == token);
        // Without a token, as after a fallback, a connection is identified by its addresses.
        let mut own = of_token.map(|(_, connection)| connection);
        let own = own.find(|own| token != 0 || (own.local, own.remote) == (subflow.local, subflow.remote));
        if let Some(own) = own {
            own.subflows.push(subflow);
        }
    }
    Ok(Connections { connections: found.into_values().collect(), left_out })
}

/// Closes the subflows from `address` that were added beside a first one from there: the kernel opens such a duplicate
/// where the endpoint is newer than the connection, and it uses up one of the peer's few address identifiers.
///
/// # Errors
/// The kernel's, as where it cannot close sockets (`CONFIG_INET_DIAG_DESTROY`).
pub(crate) fn close_replaced_subflows(address: Ipv6Addr) -> Result<(), Error> {
    let mut diag = Diag::open()?;
    for connection in &connections()?.connections {
        for duplicate in duplicate_subflows(connection, address) {
            if let (net::SocketAddr::V6(local), net::SocketAddr::V6(remote)) = (duplicate.local, duplicate.remote) {
                diag.close(local, remote, duplicate.link)?;
            }
        }
    }
    Ok(())
}

/// Resets the subflow with these ends.
///
/// # Errors
/// The kernel's, as where it cannot close sockets (`CONFIG_INET_DIAG_DESTROY`).
#[cfg(feature = "relay")]
pub(crate) fn close_subflow(local: net::SocketAddrV6, remote: net::SocketAddrV6) -> Result<(), Error> {
    Diag::open()?.close(local, remote, 0)
}

/// The subflows from `address` beside an established first subflow from there. A first subflow that is being closed, since
/// its endpoint was removed, has no duplicate: the new subflow takes its place.
fn duplicate_subflows(connection: &Connection, address: Ipv6Addr) -> impl Iterator<Item = &Subflow> {
    let from_address = move |subflow: &&Subflow| subflow.local.ip() == address;
    let is_first = |subflow: &&Subflow| subflow.first && subflow.state == State::Established;
    let first = connection.subflows.iter().filter(from_address).find(is_first);
    let is_duplicate =
        move |subflow: &&Subflow| first.is_some_and(|first| !subflow.first && subflow.remote == first.remote);
    connection.subflows.iter().filter(from_address).filter(is_duplicate)
}

/// Sorts before all addresses.
const UNKNOWN_ADDRESS: net::SocketAddr = net::SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

impl Connection {
    /// The events that the kernel would have announced for it; none of subflows over IPv4.
    pub(crate) fn events(&self) -> impl Iterator<Item = SubflowEvent> {
        let standing = self.subflows.iter().filter(|subflow| subflow.state == State::Established);
        standing.filter_map(|subflow| match (subflow.local, subflow.remote) {
            (net::SocketAddr::V6(local), net::SocketAddr::V6(remote)) => {
                let change = if subflow.first {
                    SubflowEventKind::ConnectionEstablished
                } else {
                    SubflowEventKind::SubflowEstablished
                };
                Some(SubflowEvent { token: MptcpToken(self.token), kind: change, local, remote, error: 0 })
            }
            _ => None,
        })
    }
}

/// Message type and protocols (linux/sock_diag.h, linux/in.h).
const BY_FAMILY: u16 = 20;
const DESTROY: u16 = 21;
const PROTOCOL_TCP: u32 = protocol::TCP as u32;
const PROTOCOL_MPTCP: u32 = 262;
/// Attributes of requests and replies (linux/inet_diag.h).
const REQUEST_PROTOCOL: u16 = 3;
const INFO: u16 = 2;
const ULP_INFO: u16 = 19;
const ULP_MPTCP: u16 = 3;
/// Attributes of a subflow (linux/mptcp.h).
const TOKEN_LOCAL: u16 = 2;
const FLAGS: u16 = 8;
const ID_REMOTE: u16 = 9;
const ID_LOCAL: u16 = 10;
const FLAG_CAPABLE: u32 = 0b11;
const FLAG_BACKUP: u32 = 0b11_0000;
/// Flag of a connection.
const FLAG_FALLBACK: u32 = 1;
/// All states but LISTEN.
const STATES: u32 = 0xfff & !(1 << 10);
/// Octets of a socket's identifier (`struct inet_diag_sockid`), and its end if the cookie is unknown.
const SOCKET: usize = 48;
const NO_COOKIE: [u8; 8] = [0xff; 8];
/// Octets before the attributes of a reply (`struct inet_diag_msg`).
const REPLY_HEADER: usize = 72;

/// A sock_diag socket.
struct Diag {
    socket: Socket,
}

impl Diag {
    fn open() -> Result<Diag, Error> {
        Ok(Diag { socket: open(protocols::NETLINK_SOCK_DIAG, "sock_diag")? })
    }

    /// All sockets of a protocol, of both families.
    fn dump(&mut self, protocol: u32) -> Result<Vec<Vec<u8>>, Error> {
        let short = u8::try_from(protocol).unwrap_or(255);
        let mut replies = Vec::new();
        for family in [libc::AF_INET6, libc::AF_INET] {
            let mut request = vec![u8::try_from(family).unwrap_or_default(), short, 1 << (INFO - 1), 0];
            request.extend(STATES.to_ne_bytes());
            request.extend([0; SOCKET]);
            request.extend(attribute(REQUEST_PROTOCOL, &protocol.to_ne_bytes()));
            self.ask(BY_FAMILY, NLM_F_DUMP, &request, &mut replies)?;
        }
        Ok(replies)
    }

    /// Resets a subflow; its connection continues on the others.
    fn close(&mut self, local: net::SocketAddrV6, remote: net::SocketAddrV6, link: u32) -> Result<(), Error> {
        let mut request = vec![u8::try_from(libc::AF_INET6).unwrap_or_default(), protocol::TCP, 0, 0];
        request.extend(STATES.to_ne_bytes());
        request.extend(local.port().to_be_bytes());
        request.extend(remote.port().to_be_bytes());
        request.extend(local.ip().octets());
        request.extend(remote.ip().octets());
        request.extend(link.to_ne_bytes());
        request.extend(NO_COOKIE);
        self.ask(DESTROY, NLM_F_ACK, &request, &mut Vec::new())
    }

    /// Sends a request, and appends all replies.
    fn ask(&mut self, kind: u16, flags: u16, request: &[u8], replies: &mut Vec<Vec<u8>>) -> Result<(), Error> {
        // A kernel without this sock_diag module has no such sockets either, or cannot show them.
        let take = |message: &NetlinkBuffer<&[u8]>| replies.push(message.payload().to_vec());
        let done = exchange(&self.socket, &encode(kind, flags, 0, request), 0, take);
        done.map(drop).map_err(|(_, why)| Error::new("connections", why))
    }
}

fn read_connection(reply: &[u8]) -> Option<Connection> {
    let socket = read_socket(reply)?;
    let info = find(reply.get(REPLY_HEADER..)?, INFO)?;
    // `struct mptcp_info`, which is shorter in older kernels.
    Some(Connection {
        token: number(info, 12),
        local: socket.local,
        remote: socket.remote,
        state: socket.state,
        fallback: number(info, 8) & FLAG_FALLBACK != 0,
        bytes_retransmitted: number_u64(info, 48),
        bytes_sent: number_u64(info, 56),
        bytes_received: number_u64(info, 64),
        subflows: Vec::new(),
    })
}

/// A subflow and the token of its connection; `None` if the socket is no subflow.
fn read_subflow(reply: &[u8]) -> Option<(u32, Subflow)> {
    let socket = read_socket(reply)?;
    let attributes = reply.get(REPLY_HEADER..)?;
    let mptcp = find(find(attributes, ULP_INFO)?, ULP_MPTCP)?;
    let (mut token, mut flags, mut local_id, mut remote_id) = (0, 0, 0, 0);
    for (kind, value) in parse_attributes(mptcp) {
        match kind {
            TOKEN_LOCAL => token = u32_of(value)?,
            FLAGS => flags = u32_of(value)?,
            ID_LOCAL => local_id = *value.first()?,
            ID_REMOTE => remote_id = *value.first()?,
            _ => {}
        }
    }
    // `struct tcp_info`, which is shorter in older kernels.
    let info = find(attributes, INFO).unwrap_or_default();
    let subflow = Subflow {
        local: socket.local,
        local_id,
        remote: socket.remote,
        remote_id,
        link: socket.link,
        state: socket.state,
        backup: flags & FLAG_BACKUP != 0,
        first: flags & FLAG_CAPABLE != 0,
        bytes_sent: number_u64(info, 200),
        bytes_received: number_u64(info, 128),
        bytes_retransmitted: number_u64(info, 208),
        rtt_micros: round_trip_micros(info),
        idle_millis: number(info, 44),
        age_seconds: None,
    };
    Some((token, subflow))
}

/// The fixed fields of a reply.
struct SocketAddresses {
    local: net::SocketAddr,
    remote: net::SocketAddr,
    state: State,
    link: u32,
}

fn read_socket(reply: &[u8]) -> Option<SocketAddresses> {
    let address = |at: usize| -> Option<IpAddr> {
        let octets: [u8; 16] = *reply.get(at..)?.first_chunk()?;
        let [a, b, c, d, ..] = octets;
        let is_6 = i32::from(*reply.first()?) == libc::AF_INET6;
        Some(if is_6 { Ipv6Addr::from(octets).into() } else { Ipv4Addr::new(a, b, c, d).into() })
    };
    let port = |at: usize| Some(u16::from_be_bytes(*reply.get(at..)?.first_chunk()?));
    let state = match *reply.get(1)? {
        1 => State::Established,
        2 => State::SynSent,
        3 | 12 => State::SynReceived,
        4 => State::FinWait1,
        5 => State::FinWait2,
        6 => State::TimeWait,
        7 => State::Closed,
        8 => State::CloseWait,
        9 => State::LastAck,
        10 => State::Listen,
        11 => State::Closing,
        _ => return None,
    };
    Some(SocketAddresses {
        local: net::SocketAddr::new(address(8)?, port(4)?),
        remote: net::SocketAddr::new(address(24)?, port(6)?),
        state,
        link: number(reply, 40),
    })
}

/// `tcpi_rtt` of `struct tcp_info` (linux/tcp.h); 0 where there is none.
pub(crate) fn round_trip_micros(info: &[u8]) -> u32 {
    number(info, 68)
}

/// The number at an offset; 0 where there is none.
fn number(octets: &[u8], at: usize) -> u32 {
    octets.get(at..).and_then(u32_of).unwrap_or_default()
}

fn number_u64(octets: &[u8], at: usize) -> u64 {
    octets.get(at..).and_then(u64_of).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

    use super::*;

    fn subflow(local: &str, first: bool, state: State) -> Subflow {
        Subflow {
            local: local.parse().unwrap(),
            local_id: 0,
            remote: "[2001:db8:c::c]:9500".parse().unwrap(),
            remote_id: 0,
            link: 0,
            state,
            backup: false,
            first,
            bytes_sent: 0,
            bytes_received: 0,
            bytes_retransmitted: 0,
            rtt_micros: 0,
            idle_millis: 0,
            age_seconds: None,
        }
    }

    #[test]
    fn a_subflow_that_replaces_a_closing_first_subflow_is_no_duplicate() {
        let of = |state| {
            let subflows = vec![
                subflow("[2001:db8:a::1]:1000", true, state),
                subflow("[2001:db8:a::1]:1001", false, State::SynSent),
                subflow("[2001:db8:b::1]:1002", false, State::Established),
            ];
            let ends = subflows[0].clone();
            let connection = Connection {
                token: 1,
                local: ends.local,
                remote: ends.remote,
                state: State::Established,
                fallback: false,
                bytes_sent: 0,
                bytes_received: 0,
                bytes_retransmitted: 0,
                subflows,
            };
            let duplicates = duplicate_subflows(&connection, "2001:db8:a::1".parse().unwrap());
            duplicates.map(|subflow| subflow.local.port()).collect::<Vec<_>>()
        };
        assert_eq!(of(State::Established), [1001]);
        for closing in [State::FinWait1, State::FinWait2, State::TimeWait, State::Closing] {
            assert_eq!(of(closing), [] as [u16; 0], "{closing:?}");
        }
    }
}
