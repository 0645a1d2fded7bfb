//! The sysctls that make the host a router (RFC 6275 §8.4, RFC 3963 §6.3). The host restores them at the end.

use super::HomeAgent;
use crate::contract::item::{MptcpEndpoint, MptcpEndpointFlags, MptcpLimits, Sysctl, SysctlSetting};
use crate::{Item, Key, LinkId, Outbox};

/// Interfaces that accept Router Advertisements continue to: the host may have its default route from one. Put before
/// [`FORWARDING`], with which the kernel would remove that route.
const ACCEPT_RA: SysctlSetting = SysctlSetting { link: None, sysctl: Sysctl::AcceptRa, value: 2 };
const FORWARDING: SysctlSetting = SysctlSetting { link: None, sysctl: Sysctl::Forwarding, value: 1 };
const IPV4_FORWARDING: SysctlSetting = SysctlSetting { link: None, sysctl: Sysctl::Ipv4Forwarding, value: 1 };

/// Additional subflows of a connection: the most that the kernel allows.
const SUBFLOWS: u32 = 8;

impl HomeAgent {
    /// Enables IPv6 forwarding, and IPv4 forwarding if mobile networks have IPv4 prefixes.
    pub(super) fn enable_forwarding(&mut self, out: &mut Outbox) {
        self.put_own(Item::Sysctl(ACCEPT_RA), out);
        self.put_own(Item::Sysctl(FORWARDING), out);
        if self.serves_ipv4() {
            self.put_own(Item::Sysctl(IPV4_FORWARDING), out);
        }
        if self.config.bond {
            self.accept_subflows(out);
        }
    }

    /// Lets mobile routers use all uplinks for the connections to the relay (RFC 8684 §3.2): those that have IPv4 alone learn
    /// the IPv4 address of this host (§3.4.1).
    fn accept_subflows(&mut self, out: &mut Outbox) {
        self.put_own(Item::MptcpLimits(MptcpLimits { subflows: SUBFLOWS, add_addr_accepted: 0 }), out);
        if let Some(address) = self.config.ipv4.map(|service| service.address.to_ipv6_mapped()) {
            let flags = MptcpEndpointFlags { signal: true, subflow: false, backup: false };
            self.put_own(Item::MptcpEndpoint(MptcpEndpoint { address, link: LinkId(0), flags }), out);
        }
    }

    /// Updates IPv4 forwarding after a change of the prefix table; `before` if the former one had IPv4 prefixes.
    pub(super) fn update_ipv4_forwarding(&mut self, before: bool, out: &mut Outbox) {
        match (before, self.serves_ipv4()) {
            (false, true) => self.put_own(Item::Sysctl(IPV4_FORWARDING), out),
            (true, false) => out.drop(Key::Sysctl(None, Sysctl::Ipv4Forwarding)),
            _ => {}
        }
    }

    /// Whether mobile networks have IPv4 prefixes (RFC 5555 §3.1).
    pub(super) fn serves_ipv4(&self) -> bool {
        let mut rows = self.config.prefix_table.rows.iter();
        self.config.ipv4_pool.is_some() || rows.any(|row| row.prefixes.iter().any(|prefix| prefix.is_ipv4()))
    }
}
