//! Returning home: the home agent is de-registered over the home link, and only then is the home address used there
//! (RFC 6275 §11.5.5, RFC 3963 §5.7); one that was not defended meanwhile is checked by duplicate address detection
//! (RFC 4862 §5.4).

use super::MobileRouter;
use super::uplink::Uplink;
use crate::contract::config::nemo::DadMode;
use crate::contract::input::AddressEvent;
use crate::contract::report::{LinkReport, NemoReport};
use crate::link::dad::DadProbe;
use crate::link::nd_messages;
use crate::link::router_discovery::Router;
use crate::{LinkId, Outbox, Time, Via};
use core::time::Duration;
use roam6_wire::LinkAddress;
use roam6_wire::icmp6::{ALL_NODES, Message, NeighbourAdvertisement, NeighbourOption};
use std::net::Ipv6Addr;

/// Unanswered solicitations for the home address after which it counts as not defended.
const MAX_SOLICITATIONS: u8 = 3;
const SOLICITATION_INTERVAL: Duration = Duration::from_secs(1);

/// The home link, while one of the uplinks is on it.
#[derive(Debug, Clone)]
pub(super) struct HomeLink {
    pub(super) link: LinkId,
    /// The home agent's link-layer address, once known.
    pub(super) home_agent: Option<LinkAddress>,
    /// The de-registration was sent, so this router defends the home address now.
    pub(super) deregistration_sent: bool,
    /// The home agent has no binding any longer.
    pub(super) deregistered: bool,
    /// Home and away: the home link is registered as one path among others.
    pub(super) home_and_away: bool,
    /// In that case, the home agent leaves the defence of the home address to this router.
    pub(super) defends_home_address: bool,
    /// This router has announced the home address.
    announced: bool,
    /// Another node has the home address.
    pub(super) is_duplicate: bool,
    /// Duplicate address detection in progress.
    pub(super) dad: Option<DadProbe>,
    /// The home agent has no binding, so a defender of the home address is another node.
    binding_denied: bool,
    solicitations: u8,
    next_at: Time,
}

impl HomeLink {
    fn new(now: Time, link: LinkId) -> HomeLink {
        HomeLink {
            link,
            home_agent: None,
            deregistration_sent: false,
            deregistered: false,
            home_and_away: false,
            defends_home_address: false,
            announced: false,
            is_duplicate: false,
            dad: None,
            binding_denied: false,
            solicitations: 0,
            next_at: now,
        }
    }
}

impl MobileRouter {
    /// The home link, if we are on it.
    pub(super) fn home_link_id(&self) -> Option<LinkId> {
        self.home_link.as_ref().map(|home| home.link)
    }

    /// The router of the home link.
    pub(super) fn home_router(&self) -> Option<(LinkId, Ipv6Addr)> {
        let link = self.home_link_id()?;
        let uplink = self.uplinks.iter().find(|uplink| uplink.up() == Some(link))?;
        Some((link, uplink.attachment.as_ref()?.router()?.address))
    }

    /// Updates whether an uplink is on the home link, and the link-layer address of the home agent there.
    pub(super) fn update_home_link(&mut self, now: Time, out: &mut Outbox) {
        let found = self.uplinks.iter().find(|uplink| uplink.on_home_link).and_then(Uplink::up);
        if found != self.home_link_id() {
            self.home_link = found.map(|link| HomeLink::new(now, link));
        }
        let advertised = self.advertised_home_agent();
        let both = self.update_home_and_away(now);
        let known = self.may_have_binding;
        let Some(home) = &mut self.home_link else {
            return;
        };
        home.home_agent = advertised.or(home.home_agent);
        if both {
            return;
        }
        if !known && !home.deregistered {
            self.finish_return_home(out);
            self.start_home_address_dad(now, false, out);
        }
        self.expire_home(now, out);
    }

    /// The home agent's link-layer address, from an advertisement with the H flag that has the address in use, or no
    /// other.
    fn advertised_home_agent(&self) -> Option<LinkAddress> {
        let link = self.home_link_id()?;
        let uplink = self.uplinks.iter().find(|uplink| uplink.up() == Some(link))?;
        let serves_us = |router: &&Router| {
            let mut named = router.prefixes.iter().filter_map(|known| known.router_address).peekable();
            let unnamed = named.peek().is_none();
            router.home_agent && (unnamed || named.any(|address| self.home_agents.in_use() == Some(address)))
        };
        uplink.attachment.as_ref()?.routers().find(serves_us)?.link_address
    }

    /// Processes a Neighbour Advertisement for the home address: its defender is the home agent.
    ///
    /// After an arrival without a de-registration it shows that the home agent has an unknown binding.
    pub(super) fn receive_defence(&mut self, link: LinkId, defender: LinkAddress, out: &mut Outbox) {
        let Some(home) = self.home_link.as_mut().filter(|home| home.link == link) else {
            return;
        };
        if !home.deregistration_sent {
            home.home_agent = Some(defender);
        } else if home.dad.is_some() && home.binding_denied {
            self.give_up_home_address(link, out);
        } else if home.dad.take().is_some() {
            (home.deregistration_sent, home.deregistered, home.home_agent) = (false, false, Some(defender));
            self.may_have_binding = true;
        }
    }

    /// Another node has, or is about to configure, the home address.
    pub(super) fn give_up_home_address(&mut self, link: LinkId, out: &mut Outbox) {
        if let Some(home) = self.home_link.as_mut().filter(|home| home.link == link)
            && home.dad.take().is_some()
        {
            home.is_duplicate = true;
            out.report(LinkReport::DuplicateAddress { link, address: self.config.home_address.0 });
        }
    }

    /// Starts duplicate address detection for the home address, which was not defended; `denied` if the home agent has
    /// no binding for it.
    pub(super) fn start_home_address_dad(&mut self, now: Time, denied: bool, out: &mut Outbox) {
        let Some(home) = self.home_link.as_mut().filter(|_| self.config.duplicate_detection != DadMode::Off) else {
            return;
        };
        home.binding_denied = denied;
        home.dad = Some(DadProbe::start(now, home.link, self.config.home_address.0, out));
    }

    /// The home link, if the home address may be used there.
    pub(super) fn home_address_link(&self) -> Option<LinkId> {
        let waits = self.config.duplicate_detection == DadMode::Wait;
        let usable = |home: &&HomeLink| {
            (home.deregistration_sent || home.defends_home_address)
                && !home.is_duplicate
                && !(waits && home.dad.is_some())
        };
        self.home_link.as_ref().filter(usable).map(|home| home.link)
    }

    /// Solicits the home agent on the link if no advertisement identified it.
    pub(super) fn expire_home(&mut self, now: Time, out: &mut Outbox) {
        if self.is_home_and_away() {
            return;
        }
        let target = self.config.home_address.0;
        if let Some(home) = &mut self.home_link {
            home.dad.take_if(|check| check.ends_at <= now);
        }
        let Some(home) = self
            .home_link
            .as_mut()
            .filter(|home| !home.deregistered && home.home_agent.is_none() && home.next_at <= now)
        else {
            return;
        };
        if home.solicitations < MAX_SOLICITATIONS {
            home.solicitations += 1;
            home.next_at = now + SOLICITATION_INTERVAL;
            out.transmit(nd_messages::dad_solicitation(home.link, target));
            return;
        }
        self.registration.drop_binding();
        self.finish_return_home(out);
    }

    /// When [`MobileRouter::expire_home`] has something to do.
    pub(super) fn home_deadline(&self) -> Option<Time> {
        let home = self.home_link.as_ref().filter(|_| !self.is_home_and_away())?;
        let ask = Some(home.next_at).filter(|_| !home.deregistered && home.home_agent.is_none());
        ask.into_iter().chain(home.dad.as_ref().map(|check| check.ends_at)).min()
    }

    /// The de-registration is sent now.
    pub(super) fn note_deregistration_sent(&mut self) {
        if let Some(home) = &mut self.home_link {
            home.deregistration_sent = true;
        }
    }

    /// Announces this router's addresses on the home link in place of the home agent (RFC 6275 §11.5.5), with the R
    /// flag, which the home agent's proxy had (RFC 3963 §6.2).
    pub(super) fn send_neighbour_advertisements(&mut self, out: &mut Outbox) {
        let own = |uplink: &Uplink| Some((uplink.up()?, uplink.interface.as_ref()?.address?));
        let uplink = self.uplinks.iter().find(|uplink| uplink.on_home_link && uplink.up() == self.home_link_id());
        let Some((link, address)) = uplink.and_then(own) else { return };
        if let Some(home) = &mut self.home_link {
            home.announced = true;
        }
        let source = address.link_local();
        for target in [self.config.home_address.0, source] {
            let options = vec![NeighbourOption::TargetLinkAddress(address)];
            let message = NeighbourAdvertisement { router: true, solicited: false, overrides: true, target, options };
            let message = Message::NeighbourAdvertisement(message);
            out.transmit(nd_messages::transmit_on_link(Via::Link(link), &message, source, ALL_NODES));
        }
    }

    /// Announces the home address again when the kernel has assigned it, which may be after the acknowledgement: Linux then
    /// answers no solicitation yet, a home agent without a neighbour entry learns nothing from an announcement (RFC 4861
    /// §7.2.5), and it solicits again after a second only (RETRANS_TIMER).
    pub(super) fn receive_home_address(&mut self, event: &AddressEvent, out: &mut Outbox) {
        let assigned = event.address == self.config.home_address.0 && event.state.is_usable();
        let announced = self.home_link.as_ref().is_some_and(|home| home.announced);
        if assigned && announced && self.home_address_link() == Some(event.link) {
            self.send_neighbour_advertisements(out);
        }
    }

    /// De-registration is complete, or was not needed: the home address is used on the home link. No further message
    /// is needed to leave the home link and return, until a care-of address is registered.
    pub(super) fn finish_return_home(&mut self, out: &mut Outbox) {
        self.manages_tunnel = true;
        self.may_have_binding = false;
        if let Some(home) = &mut self.home_link {
            home.deregistration_sent = true;
            home.deregistered = true;
            out.report(NemoReport::AtHome { link: home.link });
        }
    }
}
