//! Packet replication: the paths of a flow that is sent by two (RFC 8655 §3.2.2.2, RFC 6089 §4.2), as long as the home agent
//! eliminates the second copies.

use super::MobileRouter;
use super::registration::CareOf;
use super::uplink::Uplink;
use crate::Outbox;
use crate::contract::config::flow::FlowRule;
use crate::contract::config::nemo::LoadSharing;
use roam6_wire::Bid;
use roam6_wire::mobility::{BindingAcknowledgement, Capabilities, MobilityOption};
use std::net::Ipv6Addr;

/// Copies of a packet.
const COPIES: usize = 2;

impl MobileRouter {
    /// Whether a flow is to be replicated.
    pub(super) fn asks_for_replication(&self) -> bool {
        self.config.flows.iter().any(|rule| rule.replication.is_some())
    }

    /// Records whether the home agent eliminates second copies, from an authentic acknowledgement. If it does, flow bindings
    /// are requested again, with both paths.
    pub(super) fn note_elimination(
        &mut self,
        home_agent: Ipv6Addr,
        message: &BindingAcknowledgement,
        out: &mut Outbox,
    ) {
        if !self.asks_for_replication() {
            return;
        }
        let named = message.options.iter().find_map(|option| match option {
            MobilityOption::Capabilities(capabilities) => Some(capabilities.has(Capabilities::ELIMINATION)),
            _ => None,
        });
        let granted = message.status.is_accepted() && message.lifetime_units > 0;
        let Some(eliminates) = named.or(granted.then_some(false)) else { return };
        let before = self.ha_eliminates.replace(eliminates);
        if before == Some(eliminates) {
            return;
        }
        if eliminates || before.is_some() {
            self.registration.request_refresh();
        }
        if !eliminates {
            let cure = "install the same version of roam6 there, with data_plane = \"bpf\"";
            out.notice(format!(
                "the home agent {home_agent} does not eliminate copies: flows with duplicate = 2 leave by one path; {cure}"
            ));
        }
    }

    /// The binding identifiers of a flow, best first, of those that are `usable`: two if it is replicated. `carrying` are the
    /// paths of packets without a rule.
    pub(super) fn bids_of(&self, rule: &FlowRule, carrying: &[Bid], usable: impl Fn(Bid) -> bool) -> Vec<Bid> {
        let second = rule.replication.and_then(|replication| replication.second);
        let named = [Some(rule.bid).filter(|bid| *bid != Bid(0)), second].into_iter().flatten();
        let fills = rule.replication.is_some() && second.is_none();
        let mut bids: Vec<Bid> = Vec::new();
        for bid in named.chain(carrying.iter().copied().filter(|_| fills)) {
            if usable(bid) && !bids.contains(&bid) {
                bids.push(bid);
            }
        }
        bids.truncate(if self.ha_eliminates == Some(true) { COPIES } else { 1 });
        bids
    }

    /// The paths of packets without a rule, best first; also those that are left for now because they lose packets or delay
    /// them: for one of two copies they are good enough.
    pub(super) fn carrying(&self, care_of: &[CareOf]) -> Vec<Bid> {
        let mut ranked: Vec<&CareOf> = care_of.iter().collect();
        ranked.sort_by_key(|care_of| self.rank(care_of));
        let shares = |care_of: &&CareOf| self.weight(care_of.bid) > 0;
        let best = ranked.iter().copied().filter(shares).map(|care_of| self.rank(care_of).1).min();
        let shares = |care_of: &&CareOf| shares(care_of) && Some(self.rank(care_of).1) == best;
        match self.config.load_sharing {
            LoadSharing::Weighted => ranked.into_iter().filter(shares).map(|care_of| care_of.bid).collect(),
            LoadSharing::Single | LoadSharing::Standby => {
                ranked.first().map(|care_of| care_of.bid).into_iter().collect()
            }
        }
    }

    /// Whether the path of `uplink`, which probes found silent, stays registered as the last choice. A second copy by a path that
    /// may be down costs nothing but octets, while the damping of probes would withhold a path that is cut now and then
    /// just when the other one is cut.
    pub(super) fn keeps_for_copies(&self, uplink: &Uplink) -> bool {
        let is_held = || self.care_of_on(uplink).is_some_and(|care_of| self.is_held(&care_of));
        self.asks_for_replication()
            && self.ha_eliminates == Some(true)
            && self.registers_several()
            && uplink.prober.is_silent()
            && (uplink.prober.is_recovering() || is_held())
    }

    /// Whether a flow may use the path of an uplink that is left to others for now, if `is_left`.
    pub(super) fn may_use(&self, rule: &FlowRule, bid: Bid, is_left: bool) -> bool {
        let costs = self.uplinks.iter().any(|uplink| uplink.config.bid == bid && uplink.is_beyond_plan());
        !is_left || (rule.replication.is_some() && !costs)
    }
}
