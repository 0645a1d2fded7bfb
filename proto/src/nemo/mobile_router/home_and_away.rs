//! Simultaneous home and foreign bindings: the home link is one path among others, and the home agent continues to
//! defend the home address (RFC 5648 §5.6).

use super::MobileRouter;
use super::registration::{CareOf, DesiredRegistration};
use super::uplink::Uplink;
use crate::contract::config::nemo::LoadSharing;
use crate::contract::item::{Encap, Neighbour, TunnelPath};
use crate::{Item, LinkId, Time};
use roam6_wire::{CareOfAddress, LinkAddress};

impl MobileRouter {
    /// Whether other uplinks may stay registered while one is on the home link.
    pub(super) fn may_be_home_and_away(&self) -> bool {
        let multiple = self.config.load_sharing != LoadSharing::Single && !self.ha_lacks_mcoa;
        self.home_link.is_some() && self.config.home_and_away && multiple && !self.ha_rejects_home_and_away
    }

    /// Whether others are registered or about to be. Once they were, it stays true until the home link is left, so
    /// that an uplink that flaps elsewhere costs nothing.
    pub(super) fn is_home_and_away(&self) -> bool {
        let stays =
            self.home_link.as_ref().is_some_and(|home| home.home_and_away) && self.home_agents.in_use().is_some();
        // An uplink over IPv4 or in UDP is registered by an update of its own, once the home link is.
        let stays = stays || self.uplinks.iter().any(|uplink| uplink.observed_care_of().is_some());
        self.may_be_home_and_away() && self.usable_care_of().iter().any(|care_of| stays || !care_of.on_home_link)
    }

    /// The address that `uplink` is registered with: its care-of address, or the home address if it is on the home
    /// link.
    pub(super) fn care_of_on(&self, uplink: &Uplink) -> Option<CareOf> {
        uplink.ipv4_care_of().or_else(|| uplink.care_of()).or_else(|| self.home_care_of(uplink))
    }

    fn home_care_of(&self, uplink: &Uplink) -> Option<CareOf> {
        let link = uplink.up().filter(|link| self.may_be_home_and_away() && self.home_link_id() == Some(*link))?;
        self.home_router_link_address(link)?;
        let address = CareOfAddress(self.config.home_address.0);
        let (bid, priority) = (uplink.config.bid, uplink.config.priority);
        uplink.interface.as_ref()?.address?;
        Some(CareOf { bid, address, priority, link, prefix_length: 128, on_home_link: true, udp: false })
    }

    /// The link-layer address of the home link's router, from its advertisement (RFC 5648 §5.6.4).
    pub(super) fn home_router_link_address(&self, link: LinkId) -> Option<LinkAddress> {
        let uplink = self.uplinks.iter().find(|uplink| uplink.on_home_link && uplink.up() == Some(link))?;
        uplink.attachment.as_ref()?.router()?.link_address
    }

    /// The home link as a direct path, without encapsulation.
    pub(super) fn direct_path(&self, care_of: &CareOf, weight: u16) -> Option<TunnelPath> {
        let uplink = self.uplink_of(care_of)?;
        Some(TunnelPath {
            bid: care_of.bid,
            local: care_of.address.0,
            remote: self.home_router_link_address(care_of.link)?.link_local(),
            link: Some(care_of.link),
            mtu: uplink.mtu(),
            weight,
            direct: true,
            encap: Encap::Native,
            dscp: None,
        })
    }

    /// The neighbour entry of a direct path: a derived address stands for the link-layer address.
    pub(super) fn neighbour_item(&self, path: &TunnelPath) -> Option<Item> {
        let link = path.link.filter(|_| path.direct)?;
        let link_address = self.home_router_link_address(link)?;
        Some(Item::Neighbour(Neighbour { link, address: path.remote, link_address }))
    }

    /// The link-layer address of the home agent on `link`, or of the router to it.
    pub(super) fn home_agent_link_address(&self, link: LinkId) -> Option<LinkAddress> {
        self.home_link
            .as_ref()
            .filter(|home| home.link == link)?
            .home_agent
            .or_else(|| self.home_router_link_address(link))
    }

    /// This router's link-layer address on the home link, if `wanted` has a home binding.
    pub(super) fn own_home_link_address(&self, wanted: &DesiredRegistration) -> Option<LinkAddress> {
        let home = wanted.care_of().iter().find(|care_of| care_of.on_home_link)?;
        self.uplink_of(home)?.interface.as_ref()?.address
    }

    /// Updates the state of home and away: the home agent is not de-registered then, and the path over the home link
    /// is probed like others.
    pub(super) fn update_home_and_away(&mut self, now: Time) -> bool {
        let both = self.is_home_and_away();
        let Some(home) = &mut self.home_link else { return false };
        home.home_and_away = both;
        if both {
            (home.deregistration_sent, home.deregistered, home.dad) = (false, false, None);
        } else {
            home.defends_home_address = false;
        }
        let link = home.link;
        if let Some(uplink) = self.uplinks.iter_mut().find(|uplink| uplink.up() == Some(link)) {
            match (both, uplink.prober.deadline()) {
                (true, None) => uplink.prober.restart(now),
                (false, Some(_)) => uplink.prober.stop(),
                _ => {}
            }
        }
        both
    }
}
