//! Addresses, neighbours and settings of interfaces.

use crate::base::ids::LinkId;
use roam6_wire::LinkAddress;
use roam6_wire::Prefix;
use serde::{Deserialize, Serialize};
use std::net::Ipv6Addr;

/// A kernel setting of one interface, or of all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// The interface; `None` for the setting that holds for all.
    pub link: Option<LinkId>,
    /// Which setting.
    pub knob: Knob,
    /// Its value.
    pub value: i32,
}

/// The kernel settings roam6 touches: `net.ipv6.conf.*` but for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Knob {
    /// `forwarding`
    Forwarding,
    /// `accept_ra`. For all interfaces it says that those which accept router advertisements go on doing so while the host
    /// forwards (2), as long as `forwarding` is put after it.
    AcceptRa,
    /// `autoconf`
    Autoconf,
    /// `accept_dad`
    AcceptDad,
    /// `router_solicitations`
    RouterSolicitations,
    /// `proxy_ndp`
    ProxyNdp,
    /// `keep_addr_on_down`
    KeepAddrOnDown,
    /// `forwarding` of `net.ipv4`
    Ipv4Forwarding,
}

/// An address on an interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Address {
    /// The interface.
    pub link: LinkId,
    /// The address.
    pub address: Ipv6Addr,
    /// Length of the on-link prefix, 128 for none.
    pub prefix_length: u8,
    /// Whether new connections may choose it as their source (preferred lifetime not 0).
    pub preferred: bool,
    /// The kernel is to look for duplicates before it uses it (RFC 4862 §5.4); else it is used at once.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub detect: bool,
}

/// An anycast address on an interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Anycast {
    /// The interface.
    pub link: LinkId,
    /// The address.
    pub address: Ipv6Addr,
}

/// A neighbour cache entry that does not age.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Neighbour {
    /// The interface.
    pub link: LinkId,
    /// The neighbour's address.
    pub address: Ipv6Addr,
    /// Its link-layer address.
    pub link_address: LinkAddress,
}

/// An address answered for on a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proxy {
    /// The link.
    pub link: LinkId,
    /// The address.
    pub address: Ipv6Addr,
    /// Value of the Router bit in the advertisements (1 for a mobile router, RFC 3963 §6.4; else 0, RFC 6275 §10.4.1).
    pub router: bool,
}

/// Which sources packets may have that come in by an interface, beside link-local ones and none. All others are answered
/// with Destination Unreachable, code 5 (RFC 4443 §3.1), and go nowhere; but for neighbour discovery with this host, or
/// a node could not be found that the answer is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guard {
    /// The interface.
    pub link: LinkId,
    /// Sources that pass.
    pub sources: Vec<Prefix>,
    /// This host's own addresses: sources that do not pass although they may lie in one of those.
    pub own: Vec<Ipv6Addr>,
}

/// An interface of our own making that looks like Ethernet: what the host sends by it comes as [`Frame`](crate::contract::input::Frame).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VirtualInterface {
    /// Its name.
    pub name: String,
    /// Its link-layer address.
    pub address: LinkAddress,
    /// The largest IPv6 packet it carries, octets.
    pub mtu: u32,
}
