//! The selection of the care-of addresses to register (RFC 6275 §11.5.3, RFC 5648 §5, RFC 5555 §4.4.1).

use super::MobileRouter;
use super::registration::{CareOf, DesiredRegistration, Location};
use super::uplink::Uplink;
use crate::Time;
use crate::contract::config::nemo::LoadSharing;
use roam6_wire::Bid;

impl MobileRouter {
    /// The registration that the home agent should have now; `None` if there is nothing to register, or no home agent.
    pub(super) fn desired_registration(&self, now: Time) -> Option<DesiredRegistration> {
        let home_agent = self.home_agents.current(now)?;
        if let Some(home) = self.home_link.as_ref().filter(|_| !self.is_home_and_away()) {
            let reachable = home.home_agent.is_some() && self.may_have_binding && !home.deregistered;
            return reachable
                .then_some(DesiredRegistration { home_agent, location: Location::Home { link: home.link } });
        }
        if self.is_gathering(now) {
            return None;
        }
        let mut care_of = self.usable_care_of();
        let multiple = self.registers_several();
        if !multiple {
            care_of.truncate(1);
            care_of.iter_mut().for_each(|care_of| care_of.bid = Bid(0));
        }
        (!care_of.is_empty())
            .then_some(DesiredRegistration { home_agent, location: Location::Away { care_of, mcoa: multiple } })
    }

    /// Whether all uplinks are registered, each with its BID.
    pub(super) fn registers_several(&self) -> bool {
        self.config.load_sharing != LoadSharing::Single && !self.ha_lacks_mcoa
    }

    /// The care-of addresses of an update for all, best first. A silent path is left out as long as another one answers;
    /// if none does, the home agent is at fault, and the registration stays, but for uplinks that do not reach it. One that
    /// carries second copies is the last choice instead.
    ///
    /// A path over IPv4 or in UDP cannot be probed before it is registered, so it is left out until an update over it was answered;
    /// if no other path works, one after another is tried. Any path stands behind those that work until something has come
    /// back by it.
    pub(super) fn usable_care_of(&self) -> Vec<CareOf> {
        let mut usable: Vec<&Uplink> = self.uplinks.iter().filter(|up| self.care_of_on(up).is_some()).collect();
        let registered = |uplink: &&Uplink| self.care_of_on(uplink).is_some_and(|mine| self.is_held(&mine));
        let several = self.registers_several();
        let proven = |uplink: &&Uplink| {
            let unproven = several && uplink.observed_care_of().is_some() && !registered(uplink);
            !uplink.prober.is_silent() && !unproven
        };
        let recovers = |uplink: &&Uplink| uplink.prober.is_recovering() && self.keeps_for_copies(uplink);
        if usable.iter().any(|uplink| proven(uplink) || recovers(uplink)) {
            usable.retain(|uplink| proven(uplink) || self.keeps_for_copies(uplink));
        } else if let Some(tried) = self.unproven().next().filter(|_| several) {
            usable = vec![tried];
        } else if usable.iter().any(|uplink| !uplink.prober.is_silent()) {
            usable.retain(|uplink| !uplink.prober.is_silent());
        } else {
            if usable.iter().any(registered) {
                usable.retain(registered);
            }
            self.retain_reaching(&mut usable);
        }
        usable.sort_by_key(|uplink| (self.standing(uplink.config.bid), uplink.config.priority));
        let mut candidates: Vec<CareOf> = usable.iter().filter_map(|uplink| self.care_of_on(uplink)).collect();
        if !several {
            Self::retain_one_family(&mut candidates);
        }
        self.put_last(&mut candidates);
        candidates
    }

    /// The uplinks over IPv4 or in UDP that are not registered, in the order in which they are tried.
    pub(super) fn unproven(&self) -> impl Iterator<Item = &Uplink> {
        let is_unproven = |uplink: &&Uplink| {
            !uplink.prober.is_silent() && uplink.observed_care_of().is_some_and(|own| !self.is_held(&own))
        };
        let mut uplinks: Vec<&Uplink> = self.uplinks.iter().filter(is_unproven).collect();
        uplinks.sort_by_key(|uplink| (uplink.ipv4.mapping.unanswered, uplink.config.priority));
        uplinks.into_iter()
    }

    /// Keeps care-of addresses of one family, and of IPv4 one only: a home agent that registers one prefers IPv6 (RFC
    /// 5555 §4.4.1).
    fn retain_one_family(care_of: &mut Vec<CareOf>) {
        if care_of.iter().any(|care_of| care_of.ipv4().is_none()) {
            care_of.retain(|care_of| care_of.ipv4().is_none());
        } else {
            care_of.truncate(1);
        }
    }
}
