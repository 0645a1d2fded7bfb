//! Returning home: the home agent is told over the link to let go of the home address, and only then is the address used
//! there (RFC 6275 §11.5.5, RFC 3963 §5.7).

use super::MobileRouter;
use super::uplink::Uplink;
use crate::access::movement::Router;
use crate::access::neighbour;
use crate::engine::Outbox;
use crate::input::LinkId;
use crate::report::Report;
use crate::time::Time;
use core::time::Duration;
use roam6_wire::LinkAddress;
use std::net::Ipv6Addr;

/// A home agent that defends the home address answers a solicitation for it; this many unanswered mean it does not.
const ASKS: u8 = 3;
const ASK_INTERVAL: Duration = Duration::from_secs(1);

/// The home link, while one of the uplinks is on it.
#[derive(Debug, Clone)]
pub(super) struct HomeLink {
    pub(super) link: LinkId,
    /// The home agent's link-layer address, once known.
    pub(super) home_agent: Option<LinkAddress>,
    /// The home agent was asked to let go of the home address, so that we answer for it now.
    pub(super) told: bool,
    /// It has let go, or had nothing to let go of.
    pub(super) done: bool,
    asked: u8,
    next: Time,
}

impl MobileRouter {
    /// The home link, if we are on it.
    pub(super) fn home_link(&self) -> Option<LinkId> {
        self.home.as_ref().map(|home| home.link)
    }

    /// The router of the home link.
    pub(super) fn home_router(&self) -> Option<(LinkId, Ipv6Addr)> {
        let link = self.home_link()?;
        let uplink = self.uplinks.iter().find(|uplink| uplink.up() == Some(link))?;
        Some((link, uplink.attachment.as_ref()?.router()?.address))
    }

    /// Notes whether an uplink is on the home link, and what its router says of the home agent.
    pub(super) fn settle_home(&mut self, now: Time, out: &mut Outbox) {
        let found = self.uplinks.iter().find(|uplink| uplink.home).and_then(Uplink::up);
        if found != self.home_link() {
            self.home =
                found.map(|link| HomeLink { link, home_agent: None, told: false, done: false, asked: 0, next: now });
        }
        let heard = self.advertised_home_agent();
        let known = self.known;
        let Some(home) = &mut self.home else {
            return;
        };
        home.home_agent = heard.or(home.home_agent);
        if !known && !home.done {
            self.arrive_home(out);
        }
        self.expire_home(now, out);
    }

    /// The home agent's link-layer address as its advertisement told it: it is the router that calls itself home
    /// agent and names the address we use, or the only one that could be meant.
    fn advertised_home_agent(&self) -> Option<LinkAddress> {
        let link = self.home_link()?;
        let uplink = self.uplinks.iter().find(|uplink| uplink.up() == Some(link))?;
        let serves_us = |router: &&Router| {
            let mut named = router.prefixes.iter().filter_map(|known| known.router).peekable();
            let unnamed = named.peek().is_none();
            router.home_agent && (unnamed || named.any(|address| self.agents.in_use() == Some(address)))
        };
        uplink.attachment.as_ref()?.routers().find(serves_us)?.link_address
    }

    /// Takes an advertisement for the home address: whoever defends it is the home agent.
    pub(super) fn hear_defender(&mut self, link: LinkId, defender: LinkAddress) {
        if let Some(home) = self.home.as_mut().filter(|home| home.link == link && !home.told) {
            home.home_agent = Some(defender);
        }
    }

    /// Looks for the home agent on the link if its router did not tell.
    pub(super) fn expire_home(&mut self, now: Time, out: &mut Outbox) {
        let own = self.home_link().and_then(|link| self.uplinks.iter().find(|uplink| uplink.up() == Some(link)));
        let own = own.and_then(|uplink| uplink.interface.as_ref()?.address);
        let target = self.config.home_address.0;
        let Some(home) = self.home.as_mut().filter(|home| !home.done && home.home_agent.is_none() && home.next <= now)
        else {
            return;
        };
        if home.asked < ASKS {
            home.asked += 1;
            home.next = now + ASK_INTERVAL;
            out.transmit(neighbour::anonymous_solicitation(home.link, own, target));
            return;
        }
        self.registration.drop_binding();
        self.arrive_home(out);
    }

    /// When [`MobileRouter::expire_home`] has something to do.
    pub(super) fn home_deadline(&self) -> Option<Time> {
        self.home.as_ref().filter(|home| !home.done && home.home_agent.is_none()).map(|home| home.next)
    }

    /// The update that asks the home agent to let go leaves now.
    pub(super) fn tell_home(&mut self) {
        if let Some(home) = &mut self.home {
            home.told = true;
        }
    }

    /// The home agent has let go, or never held anything: the home address is ours on the home link. Until it is told of
    /// a care-of address it holds nothing, so leaving the home link and coming back needs no word.
    pub(super) fn arrive_home(&mut self, out: &mut Outbox) {
        self.begun = true;
        self.known = false;
        if let Some(home) = &mut self.home {
            home.told = true;
            home.done = true;
            out.report(Report::AtHome { link: home.link });
        }
    }
}
