//! The MPTCP endpoints of relayed connections (docs/bonding.md): one for each uplink that the home agent reaches this mobile
//! router by, and the home address, from which they begin (RFC 8684 §3.1, §3.2). Subflows from care-of addresses pass outside
//! of the tunnel; the one from the home address is a backup, and survives every move. Where data is encrypted, subflows have an
//! address of each encrypted path in place of the care-of address, and the data plane sends their packets by that path alone.

use super::MobileRouter;
use super::forwarding::address_item;
use super::probe::Prober;
use super::registration::CareOf;
use super::uplink::Uplink;
use crate::contract::config::flow::has_bonding;
use crate::contract::item::subflow::{subflow_address, subflow_prefix};
use crate::contract::item::{MptcpEndpoint, MptcpEndpointFlags, MptcpLimits};
use crate::{Item, LinkId, Plan};
use roam6_wire::{Bid, Prefix};
use std::net::Ipv6Addr;

/// Additional subflows of a connection: the most that the kernel allows.
pub(crate) const SUBFLOWS: u32 = 8;
/// Addresses of the home agent that are used besides the first: its IPv4 address.
const ACCEPTED_ADDRESSES: u32 = 2;

impl MobileRouter {
    /// The endpoints, while connections may be relayed. An uplink that fails, or whose probes do, is in use no longer: then its
    /// subflows are closed at once, and what was sent on them is sent again on others.
    pub(super) fn put_bonding(&self, plan: &mut Plan) {
        if !has_bonding(&self.config.flows) || !self.manages_tunnel {
            return;
        }
        // To an address that the home agent signals (RFC 8684 §3.4.1) the kernel would make a subflow from any address of this host.
        let add_addr_accepted = if self.encrypts() { 0 } else { ACCEPTED_ADDRESSES };
        plan.put(Item::MptcpLimits(MptcpLimits { subflows: SUBFLOWS, add_addr_accepted }));
        self.put_subflow_addresses(plan);
        if !self.is_outage_ending() {
            plan.put(endpoint(self.config.home_address.0, LinkId(0), true));
        }
        for care_of in self.care_of_in_use().iter().filter(|care_of| self.bears_subflows(care_of)) {
            let backup = self.is_backup(care_of.bid);
            let (address, link) = match care_of.ipv4() {
                _ if self.encrypts() => {
                    let Some(address) = self.encrypted_subflow_address(care_of) else { continue };
                    (address, LinkId(0))
                }
                Some(end) => (end.address.to_ipv6_mapped(), care_of.link),
                None => (care_of.address.0, care_of.link),
            };
            plan.put(endpoint(address, link, backup));
        }
    }

    /// The addresses of subflows by encrypted paths, whether these are in use or not: after a restart the subflows of the daemon before
    /// go on until the paths are known to work. Deprecated, so that no program chooses one.
    fn put_subflow_addresses(&self, plan: &mut Plan) {
        if !self.encrypts() {
            return;
        }
        let several = self.uplinks.iter().map(|uplink| uplink.config.bid);
        // A home agent may register one care-of address only, which has no BID then.
        for address in several.chain([Bid(0)]).filter_map(|bid| subflow_address(self.config.home_address.0, bid)) {
            plan.put(address_item(LinkId::LOOPBACK, address, 128, false));
        }
    }

    /// The address of subflows by an encrypted path; `None` if the path is not encrypted.
    fn encrypted_subflow_address(&self, care_of: &CareOf) -> Option<Ipv6Addr> {
        let path = self.path(care_of, 0).filter(|path| path.encap.is_encrypted())?;
        subflow_address(self.config.home_address.0, path.bid)
    }

    /// The prefix of the addresses of subflows by encrypted paths, if connections may be relayed.
    pub(super) fn subflow_prefix(&self) -> Option<Prefix> {
        let has_some = self.encrypts() && has_bonding(&self.config.flows);
        has_some.then(|| subflow_prefix(self.config.home_address.0))
    }

    /// Whether one reply has come since all paths were silent. Until the next one the home address has no endpoint: with the end
    /// of its subflow the kernel queues again what was not acknowledged, and the first new subflow carries it at once. Otherwise
    /// that waits for the retransmission timeout of the connection, which is that of the new subflows' SYN, a second, while there
    /// is one.
    fn is_outage_ending(&self) -> bool {
        let answered = self.uplinks.iter().map(|uplink| uplink.prober.recovery()).max();
        self.are_all_paths(Prober::is_silent) && answered == Some(1)
    }

    /// Whether the path has an MPTCP endpoint: one reply to a probe is enough after all paths were silent. A silent path has no
    /// endpoint, even if there is no other path: an endpoint that is added with the first reply gets new subflows at once, whereas existing
    /// subflows wait for their retransmission timeout (RFC 6298 §5.5). Nor has a path without any reply so far: an MP_PRIO
    /// option sent before the handshake of an MP_JOIN is complete is lost, and the subflow would remain a backup.
    fn bears_subflows(&self, care_of: &CareOf) -> bool {
        let answers = |uplink: &Uplink| {
            let prober = &uplink.prober;
            (!prober.is_silent() || prober.is_recovering()) && !self.is_unconfirmed(uplink)
        };
        !care_of.on_home_link && self.uplink_of(care_of).is_some_and(answers)
    }

    /// Whether the uplink with this BID carries what no other one can: one without a share of packets, and one that is left to
    /// others. One that was lost is used once enough probes are good, without the time for which other flows stay away: no flow moves,
    /// neither to it nor from it if it is lost again.
    fn is_backup(&self, bid: Bid) -> bool {
        let uplink = self.uplinks.iter().find(|uplink| uplink.config.bid == bid);
        let recovers = |uplink: &Uplink| !uplink.is_beyond_plan() && uplink.prober.quality.is_recovering(self.now);
        self.weight(bid) == 0 || self.is_avoided(bid) && !uplink.is_some_and(recovers)
    }
}

fn endpoint(address: Ipv6Addr, link: LinkId, backup: bool) -> Item {
    let flags = MptcpEndpointFlags { signal: false, subflow: true, backup };
    Item::MptcpEndpoint(MptcpEndpoint { address, link, flags })
}
