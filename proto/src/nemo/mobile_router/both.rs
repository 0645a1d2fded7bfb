//! At home by one uplink and away by others: the home link is one path among them, and the home agent goes on answering for
//! the home address (RFC 5648 §5.6).

use super::MobileRouter;
use super::registration::{CareOf, Wanted};
use super::uplink::Uplink;
use crate::base::ids::LinkId;
use crate::base::time::Time;
use crate::contract::config::nemo::LoadSharing;
use crate::contract::item::{Item, Neighbour, TunnelPath};
use roam6_wire::{CareOfAddress, LinkAddress};

impl MobileRouter {
    /// Whether other uplinks may stay registered while one is on the home link.
    pub(super) fn may_be_both(&self) -> bool {
        let multiple = self.config.load_sharing != LoadSharing::Single && !self.single;
        self.home.is_some() && self.config.home_and_away && multiple && !self.apart
    }

    /// Whether others do, or are about to; and once they have, until the home link is left: an uplink that comes and goes
    /// elsewhere is to cost nothing.
    pub(super) fn is_away_too(&self) -> bool {
        let stays = self.home.as_ref().is_some_and(|home| home.both) && self.agents.in_use().is_some();
        self.may_be_both() && self.candidates().iter().any(|care_of| stays || !care_of.home)
    }

    /// What `uplink` is registered with: its care-of address, or the home address if it is on the home link.
    pub(super) fn care_of_on(&self, uplink: &Uplink) -> Option<CareOf> {
        uplink.carried_care_of().or_else(|| uplink.care_of()).or_else(|| self.at_home(uplink))
    }

    /// Whether it is registered, or may be, as a path of the home link that answers.
    pub(super) fn reaches_home(&self, uplink: &Uplink) -> bool {
        self.at_home(uplink).is_some() && !uplink.prober.is_silent()
    }

    fn at_home(&self, uplink: &Uplink) -> Option<CareOf> {
        let link = uplink.up().filter(|link| self.may_be_both() && self.home_link() == Some(*link))?;
        self.neighbour_on(link)?;
        let address = CareOfAddress(self.config.home_address.0);
        let (bid, priority) = (uplink.config.bid, uplink.config.priority);
        uplink.interface.as_ref()?.address?;
        Some(CareOf { bid, address, priority, link, prefix_length: 128, home: true })
    }

    /// The router of the home link by its link-layer address, which its advertisement tells (RFC 5648 §5.6.4).
    pub(super) fn neighbour_on(&self, link: LinkId) -> Option<LinkAddress> {
        let uplink = self.uplinks.iter().find(|uplink| uplink.home && uplink.up() == Some(link))?;
        uplink.attachment.as_ref()?.router()?.link_address
    }

    /// The home link as a path of the tunnel that needs no tunnel.
    pub(super) fn direct_path(&self, care_of: &CareOf, weight: u16) -> Option<TunnelPath> {
        let uplink = self.uplink_of(care_of)?;
        Some(TunnelPath {
            bid: care_of.bid,
            local: care_of.address.0,
            remote: self.neighbour_on(care_of.link)?.link_local(),
            link: Some(care_of.link),
            mtu: uplink.mtu(),
            weight,
            direct: true,
        })
    }

    /// What makes the far end of a direct path known: the address stands for the link-layer address alone.
    pub(super) fn neighbour_of(&self, path: &TunnelPath) -> Option<Item> {
        let link = path.link.filter(|_| path.direct)?;
        let link_address = self.neighbour_on(link)?;
        Some(Item::Neighbour(Neighbour { link, address: path.remote, link_address }))
    }

    /// The home agent's link-layer address on `link`, or that of the router to it.
    pub(super) fn home_agent_on(&self, link: LinkId) -> Option<LinkAddress> {
        self.home.as_ref().filter(|home| home.link == link)?.home_agent.or_else(|| self.neighbour_on(link))
    }

    /// Our own link-layer address on the home link, if `wanted` says that we are there.
    pub(super) fn own_address_at_home(&self, wanted: &Wanted) -> Option<LinkAddress> {
        let home = wanted.care_of().iter().find(|care_of| care_of.home)?;
        self.uplink_of(home)?.interface.as_ref()?.address
    }

    /// Being away too, we are not home in the ordinary sense: the home agent is to let go of nothing. The path over the
    /// home link is watched like the others.
    pub(super) fn settle_both(&mut self, now: Time) -> bool {
        let both = self.is_away_too();
        let Some(home) = &mut self.home else { return false };
        home.both = both;
        if both {
            (home.told, home.done, home.check) = (false, false, None);
        } else {
            home.ours = false;
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
