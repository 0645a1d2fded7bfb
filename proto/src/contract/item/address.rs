//! Items of interfaces: sysctls, addresses, neighbour entries, source filters, virtual interfaces.

use crate::base::ids::LinkId;
use roam6_wire::{LinkAddress, Prefix};
use serde::{Deserialize, Serialize};
use std::net::Ipv6Addr;
use strum::Display;

/// A sysctl of one interface, or of all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SysctlSetting {
    /// The interface; `None` for `conf.all`.
    pub link: Option<LinkId>,
    /// The sysctl.
    #[serde(rename = "knob")]
    pub sysctl: Sysctl,
    /// Its value.
    pub value: i32,
}

/// The sysctls that roam6 sets; of `net.ipv6.conf.*` unless stated otherwise. Displayed by the name below that, or by the full
/// name if it is elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Display, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Sysctl {
    /// `forwarding`
    Forwarding,
    /// `accept_ra`. With `None` as the interface: interfaces that accept Router Advertisements continue to do so while the
    /// host forwards (value 2), provided that `forwarding` is set after it.
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
    #[strum(serialize = "net.ipv4 forwarding")]
    Ipv4Forwarding,
}

/// An address on an interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Address {
    /// The interface.
    pub link: LinkId,
    /// The address.
    pub address: Ipv6Addr,
    /// Length of the on-link prefix; 128 for none.
    pub prefix_length: u8,
    /// Preferred address; `false` for a deprecated one (preferred lifetime 0).
    pub preferred: bool,
    /// The kernel performs Duplicate Address Detection (RFC 4862 §5.4); `false` for `nodad`.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    #[serde(rename = "detect")]
    pub dad: bool,
}

/// An anycast address on an interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnycastAddress {
    /// The interface.
    pub link: LinkId,
    /// The address.
    pub address: Ipv6Addr,
}

/// A permanent neighbour cache entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Neighbour {
    /// The interface.
    pub link: LinkId,
    /// The neighbour's address.
    pub address: Ipv6Addr,
    /// Its link-layer address.
    pub link_address: LinkAddress,
}

/// A proxy neighbour entry: this host answers Neighbour Solicitations for the address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProxyNeighbour {
    /// The link.
    pub link: LinkId,
    /// The address.
    pub address: Ipv6Addr,
    /// The R flag of the Neighbour Advertisements (1 for a mobile router, RFC 3963 §6.4; else 0, RFC 6275 §10.4.1).
    pub router: bool,
}

/// The source addresses that may enter by an interface, beside link-local addresses and the unspecified address. Packets
/// with other source addresses are dropped with Destination Unreachable, code 5 (RFC 4443 §3.1). Neighbour discovery with
/// this host is exempt, because the ICMPv6 error needs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceFilter {
    /// The interface.
    pub link: LinkId,
    /// Permitted source prefixes.
    #[serde(rename = "sources")]
    pub allowed: Vec<Prefix>,
    /// Addresses of this host: not permitted, even within one of the permitted prefixes.
    #[serde(rename = "own")]
    pub own_addresses: Vec<Ipv6Addr>,
}

/// A virtual Ethernet interface (TAP): what the host sends by it arrives as
/// [`Frame`](crate::contract::input::Frame).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VirtualInterface {
    /// Its name.
    pub name: String,
    /// Its link-layer address.
    pub address: LinkAddress,
    /// Its MTU, octets.
    pub mtu: u32,
}
