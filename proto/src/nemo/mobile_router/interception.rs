//! Captive portals that no option of RFC 8910 names: an uplink with an address, by which no home agent answers, is asked
//! whether its network intercepts connections. The answer is a hint for the operator, and has no other consequence.

use super::MobileRouter;
use super::registration::CareOf;
use super::uplink::Uplink;
use crate::contract::input::Interception;
use crate::contract::report::{NemoReport, captive_portal};
use crate::contract::view::LinkState;
use crate::{Outbox, Time};
use core::time::Duration;
use roam6_wire::PortalUri;
use std::net::Ipv6Addr;

/// Time without an answer of a home agent, after which a network is asked: by then UDP was tried too.
const UNANSWERED_TIME: Duration = Duration::from_secs(5);
/// Interval of the queries of one uplink.
const QUERY_INTERVAL: Duration = Duration::from_secs(60);

/// What is known of the network of one uplink.
#[derive(Debug, Default, Clone)]
pub(super) struct PortalWatch {
    /// The care-of address by which no home agent answers, and since when.
    unanswered: Option<(Ipv6Addr, Time)>,
    /// When the network may be asked next.
    next_query: Time,
    /// It intercepts connections: the URL that it redirects to, if to any.
    found: Option<Option<PortalUri>>,
}

impl PortalWatch {
    /// Records by which address no home agent answers now, if so. What was found in another network ends.
    fn follow(&mut self, now: Time, address: Option<Ipv6Addr>) {
        if self.unanswered.map(|(known, _)| known) != address {
            (self.unanswered, self.found) = (address.map(|address| (address, now)), None);
        }
    }

    /// A home agent has answered: nothing holds the network.
    fn note_answered(&mut self, now: Time) {
        self.unanswered = self.unanswered.map(|(address, _)| (address, now));
        self.found = None;
    }

    /// When no home agent has answered for long enough.
    fn silent_at(&self) -> Option<Time> {
        self.unanswered.map(|(_, since)| since + UNANSWERED_TIME)
    }

    /// When the network is asked next.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.silent_at().map(|silent| silent.max(self.next_query))
    }

    /// Whether the network is to be asked now.
    fn take_query(&mut self, now: Time) -> bool {
        let due = self.deadline().is_some_and(|at| at <= now);
        if due {
            self.next_query = now + QUERY_INTERVAL;
        }
        due
    }

    /// The hint, if the network intercepts connections.
    pub(super) fn hint(&self) -> Option<String> {
        let found = self.found.as_ref()?.as_ref().map(ToString::to_string);
        Some(captive_portal(found.as_deref()))
    }
}

impl MobileRouter {
    /// Asks the networks of uplinks by which no home agent has answered for a while.
    pub(super) fn query_interceptions(&mut self, now: Time, out: &mut Outbox) {
        if !self.config.portal_check {
            return self.uplinks.iter_mut().for_each(|uplink| uplink.portal.follow(now, None));
        }
        for index in 0..self.uplinks.len() {
            let address = self.uplinks.get(index).and_then(|uplink| self.unanswered_address(now, uplink));
            let Some(uplink) = self.uplinks.get_mut(index) else { continue };
            uplink.portal.follow(now, address);
            if let Some(link) = uplink.up().filter(|_| uplink.portal.take_query(now)) {
                out.query_interception(link);
            }
        }
    }

    /// The care-of address of an uplink by which no home agent answers, in whatever encapsulation.
    fn unanswered_address(&self, now: Time, uplink: &Uplink) -> Option<Ipv6Addr> {
        let waits = matches!(self.link_state(now, uplink), LinkState::Registering | LinkState::Silent);
        let care_of = self.care_of_on(uplink).filter(|_| waits && !uplink.prober.is_answered())?;
        Some(care_of.address.0)
    }

    /// An update that was sent from `care_of` is answered.
    pub(super) fn note_network_passes(&mut self, now: Time, care_of: Option<&CareOf>) {
        let link = care_of.map(|care_of| care_of.link);
        let uplink = self.uplinks.iter_mut().find(|uplink| link.is_some() && uplink.link() == link);
        uplink.into_iter().for_each(|uplink| uplink.portal.note_answered(now));
    }

    /// Processes the answer of the host, text from the network, unless a home agent has answered since it was asked.
    pub(super) fn receive_interception(&mut self, now: Time, answer: &Interception, out: &mut Outbox) {
        let is_silent = |uplink: &&mut Uplink| uplink.portal.silent_at().is_some_and(|silent| silent <= now);
        let Some(uplink) = self.uplink_on(answer.link).filter(is_silent) else { return };
        let url = answer.url.as_ref().and_then(|url| PortalUri::read(url.as_bytes()));
        let found = answer.accepted.then_some(url);
        let before = core::mem::replace(&mut uplink.portal.found, found.clone());
        if let Some(url) = found.filter(|_| before.is_none()) {
            let url = url.map(|url| url.to_string());
            out.report(NemoReport::CaptivePortal { link: answer.link, bid: uplink.config.bid, url });
        }
    }
}
