//! The MPTCP endpoints of relayed connections (docs/bonding.md): one for each uplink that the home agent reaches this mobile
//! router by, and the home address, from which they begin (RFC 8684 §3.1, §3.2). Subflows from care-of addresses pass outside
//! of the tunnel; the one from the home address is a backup, and survives every move.

use super::MobileRouter;
use crate::contract::config::flow::has_bonding;
use crate::contract::item::{MptcpEndpoint, MptcpEndpointFlags, MptcpLimits};
use crate::{Item, LinkId, Plan};
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
        plan.put(Item::MptcpLimits(MptcpLimits { subflows: SUBFLOWS, add_addr_accepted: ACCEPTED_ADDRESSES }));
        plan.put(endpoint(self.config.home_address.0, LinkId(0), true));
        for care_of in self.care_of_in_use().iter().filter(|care_of| !care_of.on_home_link) {
            let address = match care_of.ipv4() {
                Some(end) => end.address.to_ipv6_mapped(),
                None => care_of.address.0,
            };
            // An uplink without a share of packets, or left to others for now, carries what no other one can.
            let spared = self.weight(care_of.bid) == 0 || self.is_avoided(care_of.bid);
            plan.put(endpoint(address, care_of.link, spared));
        }
    }
}

fn endpoint(address: Ipv6Addr, link: LinkId, backup: bool) -> Item {
    let flags = MptcpEndpointFlags { signal: false, subflow: true, backup };
    Item::MptcpEndpoint(MptcpEndpoint { address, link, flags })
}
