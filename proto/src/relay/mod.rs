//! The relay: TCP connections of unmodified hosts are carried between a mobile router and its home agent by MPTCP, so that one
//! connection uses all uplinks (docs/bonding.md; the purpose of RFC 8803, with the format of [`roam6_wire::relay`]).
//!
//! An MPTCP connection between two relays is a bearer. Each bearer carries one relayed connection; a few are idle. The mobile router
//! opens all bearers from its home address and through its tunnel, by which the home agent identifies the mobile router. Spare
//! bearers serve connections from the mobile network, offered bearers connections to it.
//!
//! The SYN of a connection is held until the other relay has connected to the destination. Then the SYN is delivered and the
//! connection accepted; otherwise it is refused with the answer of the destination, or of a router on the path to it.
//!
//! A relay sends the first octets of a connection without knowing whether its destination reads them. How many they are is limited, so
//! that a destination that reads nothing holds few: the receive buffer of a bearer has to be large for other reasons, and cannot
//! grow (`linux/src/relay/sockets.rs`). The other relay lifts the limit, once, by a Credit on an idle bearer.
//!
//! [`Relay`] decides; it owns no socket. Octets are moved by `linux/src/relay/`.

mod bearer;
mod connections;
mod counters;
mod credit;
mod effect;
mod engine;
mod packet;
#[cfg(test)]
mod tests;

pub use counters::{Counters, Refused};
pub use credit::{TAKEN_OCTETS, UNCREDITED_OCTETS};
pub use effect::{Effect, Event};
pub use engine::Relay;

use crate::contract::item::subflow::is_subflow_address;
use roam6_wire::Prefix;
use roam6_wire::relay::{Connect, OfferedRule};
use std::net::Ipv6Addr;

/// Identifies a bearer, and the connection that it carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BearerId(pub u32);

/// A relayed connection by the addresses and ports of the packets that this host receives of it; IPv4 as IPv4-mapped addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tuple {
    /// The end point on this side.
    pub source: Ipv6Addr,
    /// Its port.
    pub source_port: u16,
    /// The end point on the other side.
    pub destination: Ipv6Addr,
    /// Its port.
    pub destination_port: u16,
}

impl Tuple {
    /// Of the packets that answer a connection that the other side began.
    pub fn answering(connect: &Connect) -> Tuple {
        Tuple::from(connect).reversed()
    }

    /// Of the packets in the other direction.
    fn reversed(self) -> Tuple {
        Tuple {
            source: self.destination,
            source_port: self.destination_port,
            destination: self.source,
            destination_port: self.source_port,
        }
    }

    fn connect(self, traffic_class: u8) -> Connect {
        let Tuple { source, source_port, destination, destination_port } = self;
        Connect { destination, destination_port, source, source_port, traffic_class }
    }
}

impl From<&Connect> for Tuple {
    fn from(connect: &Connect) -> Tuple {
        let Connect { source, source_port, destination, destination_port, .. } = *connect;
        Tuple { source, source_port, destination, destination_port }
    }
}

/// What the data plane does with the packets of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TupleState {
    /// Delivers them to the relay.
    Active,
    /// The same, but a SYN begins another connection.
    Closed,
    /// Leaves them to the tunnel.
    LeftAlone,
}

/// The headers of a SYN that is held, from the IP header on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldSyn {
    /// Its end points.
    pub tuple: Tuple,
    /// Its traffic class.
    pub traffic_class: u8,
    /// Its octets.
    pub octets: Vec<u8>,
}

/// The owners of addresses, from the data plane.
pub trait Bindings {
    /// The tunnel that leads to an address; `None` if there is none.
    fn tunnel_of(&self, address: Ipv6Addr) -> Option<u32>;
    /// Whether this host has the address.
    fn is_own(&self, address: Ipv6Addr) -> bool;
}

/// The end of the MPTCP connections at which this relay is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Side {
    /// A mobile router, which opens them.
    MobileRouter {
        /// The prefixes of the mobile network.
        prefixes: Vec<Prefix>,
        /// The rules for connections to it, for the home agent.
        offered: Vec<OfferedRule>,
    },
    /// A home agent, which accepts them.
    HomeAgent,
}

/// Settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelayConfig {
    /// The end at which this relay is.
    pub side: Side,
    /// A number that no earlier relay of this host has had.
    pub instance: u64,
    /// Bearers of each kind that wait for a connection.
    pub spare: usize,
    /// Most bearers.
    pub max_bearers: usize,
    /// Most bearers of one mobile router.
    pub max_bearers_per_router: usize,
    /// A connection is accepted before the other relay has connected.
    pub early: bool,
}

/// Whether an address is none of a host on the Internet, or that of a subflow: a relay connects to no such destination.
fn is_special(address: Ipv6Addr) -> bool {
    if let Some(ipv4) = address.to_ipv4_mapped() {
        let [first, ..] = ipv4.octets();
        return first == 0 || ipv4.is_loopback() || ipv4.is_link_local() || ipv4.is_multicast() || ipv4.is_broadcast();
    }
    let nowhere = address.is_unspecified() || address.is_loopback() || address.segments().starts_with(&[0, 0, 0, 0]);
    let is_local = address.is_unicast_link_local() || is_subflow_address(address);
    nowhere || address.is_multicast() || is_local
}
