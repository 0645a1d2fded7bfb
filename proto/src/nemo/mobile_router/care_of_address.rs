//! Care-of addresses of an uplink: the one in use, its assignment, and a DHCPv6 lease (RFC 4862 §5.4, RFC 8415 §18.2).

use crate::base::time::Time;
use crate::link::dad::DadProbe;
use crate::link::prefix_delegation::{DhcpClient, DnsInfo};
use roam6_wire::{CareOfAddress, Prefix};
use std::net::Ipv6Addr;

/// A care-of address.
#[derive(Debug, Clone)]
pub struct FormedAddress {
    /// The address.
    pub address: CareOfAddress,
    /// Its prefix.
    pub prefix: Prefix,
    /// Whether the prefix is on-link.
    pub on_link: bool,
    /// The router that advertised it.
    pub router: Ipv6Addr,
    /// End of its valid lifetime.
    pub valid_until: Time,
    /// Whether it may be registered: duplicate address detection succeeded, or is optimistic.
    pub usable: bool,
    /// Duplicate address detection in progress.
    pub(super) dad: Option<DadProbe>,
    /// Addresses tried in the prefix.
    pub(super) dad_attempts: u8,
    /// When other addresses are tried, after all so far failed.
    pub(super) retry_at: Option<Time>,
}

impl FormedAddress {
    /// Length of the on-link prefix, 128 for none.
    pub fn prefix_length(&self) -> u8 {
        if self.on_link { self.prefix.length() } else { 128 }
    }
}

/// An address for an uplink, or a prefix in which to form one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Assignment {
    /// `None`: formed in the prefix.
    pub(super) address: Option<Ipv6Addr>,
    pub(super) prefix: Prefix,
    pub(super) on_link: bool,
    pub(super) router: Ipv6Addr,
    pub(super) valid_until: Time,
}

impl Assignment {
    /// Whether `formed` is the address of this assignment.
    pub(super) fn matches(&self, formed: &FormedAddress) -> bool {
        formed.prefix == self.prefix && self.address.is_none_or(|address| address == formed.address.0)
    }
}

/// An address that a DHCPv6 server has assigned, or is asked for.
#[derive(Debug, Clone)]
pub(super) struct AddressLease {
    pub(super) client: DhcpClient,
    /// The router with the M flag: another one means another network.
    pub(super) router: Ipv6Addr,
}

impl AddressLease {
    /// The DNS configuration from the server, and the end of the lease.
    pub(super) fn dns(&self) -> Option<(&DnsInfo, Time)> {
        Some((self.client.dns(), self.client.leases().first()?.valid_until))
    }
}
