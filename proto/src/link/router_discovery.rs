//! Router discovery and movement detection on a visited link: solicitations, choice of the router, its loss, and
//! another network on the same link (RFC 4861 §6.3, RFC 7559, RFC 6275 §11.5.1).

mod router;
#[cfg(test)]
mod tests;

pub use router::{MAX_PREFIXES, MAX_RESOLVERS, Router, RouterPrefix};

use crate::contract::report::{LinkReport, LossReason};
use crate::link::nd_messages;
use crate::{Entropy, LinkId, Outbox, Time, VecMap};
use core::time::Duration;
use roam6_wire::icmp6::RouterAdvertisement;
use roam6_wire::{LinkAddress, Prefix};
use std::net::Ipv6Addr;

/// Maximum routers of one link; the one whose last advertisement is oldest is removed.
pub const MAX_ROUTERS: usize = 8;
/// First retransmission interval of a solicitation: short, since a link often loses the first frames after carrier-up.
const FIRST_SOLICITATION_INTERVAL: Duration = Duration::from_millis(20);
/// From this interval on intervals are randomized, so that the routers of a fleet that started together are not
/// solicited together for ever (RFC 7559 §2).
const RANDOMIZED_FROM: Duration = Duration::from_secs(4);
/// RFC 7559 §2: MRT, the maximum interval, apart from its random part.
const MAX_SOLICITATION_INTERVAL: Duration = Duration::from_secs(3600);

/// The state of router discovery on one link, from carrier-up to carrier-down.
#[derive(Debug, Clone)]
pub struct Attachment {
    link: LinkId,
    address: Option<LinkAddress>,
    /// The home prefix: its router is usable also if no address can be formed from it.
    home_prefix: Prefix,
    routers: VecMap<Ipv6Addr, Router>,
    current: Option<Ipv6Addr>,
    solicitation: Option<Solicitation>,
    /// An advertisement of another node with the address of the router in use, and with other prefixes.
    conflicting_ra: Option<ConflictingRa>,
    entropy: Entropy,
}

/// An advertisement that is accepted once the router in use is unreachable.
#[derive(Debug, Clone)]
struct ConflictingRa {
    source: Ipv6Addr,
    sender: Option<LinkAddress>,
    message: RouterAdvertisement,
}

#[derive(Debug, Clone)]
struct Solicitation {
    next_at: Time,
    interval: Duration,
}

impl Attachment {
    /// State for an interface that has just come up. The first solicitation is due at once: no random delay after a
    /// movement (RFC 6275 §11.5.1). A router of the `home` prefix counts whether or not addresses are formed from it.
    pub fn new(
        now: Time,
        (link, address): (LinkId, Option<LinkAddress>),
        home: Prefix,
        entropy: &mut Entropy,
    ) -> Attachment {
        let mut attachment = Attachment {
            link,
            address,
            home_prefix: home,
            routers: VecMap::new(),
            current: None,
            solicitation: None,
            conflicting_ra: None,
            entropy: Entropy::seed_from_u64(entropy.next_u64()),
        };
        attachment.start_solicitation(now);
        attachment
    }

    /// The router in use.
    pub fn router(&self) -> Option<&Router> {
        self.routers.get(&self.current?)
    }

    /// All known routers.
    pub fn routers(&self) -> impl Iterator<Item = &Router> {
        self.routers.values()
    }

    /// The best prefix of the router in use for a care-of address.
    pub fn care_of_prefix(&self, now: Time) -> Option<&RouterPrefix> {
        self.router()?.care_of_prefix(now)
    }

    /// The router in use and its on-link prefix that contains `address`.
    pub fn find_on_link(&self, now: Time, address: Ipv6Addr) -> Option<(&Router, &RouterPrefix)> {
        let on_link =
            |known: &&RouterPrefix| known.on_link && known.valid_until > now && known.prefix.contains(address);
        // Only the router in use counts: another one may advertise the network that was just left.
        let router = self.router()?;
        Some((router, router.prefixes.iter().find(on_link)?))
    }

    /// When [`Attachment::expire`] has something to do.
    pub fn deadline(&self) -> Option<Time> {
        let solicitation = self.solicitation.iter().map(|solicitation| solicitation.next_at);
        let routers = self.routers.values().map(|router| router.deadline(self.current));
        solicitation.chain(routers).min()
    }

    /// When the next solicitation is due.
    pub fn next_solicitation(&self) -> Option<Time> {
        self.solicitation.as_ref().map(|solicitation| solicitation.next_at)
    }

    /// Whether solicitations have been unanswered for some seconds.
    pub fn is_unanswered(&self) -> bool {
        self.solicitation.as_ref().is_some_and(|solicitation| solicitation.interval >= RANDOMIZED_FROM)
    }

    /// Sends messages that are due, and removes expired routers and prefixes.
    pub fn expire(&mut self, now: Time, out: &mut Outbox) {
        let ended: Vec<(Ipv6Addr, LossReason)> = self
            .routers
            .values()
            .filter_map(|router| router.loss_reason(now).map(|why| (router.address, why)))
            .collect();
        for (router, why) in ended {
            self.drop_router(now, router, why, out);
        }
        for router in self.routers.values_mut() {
            router.prefixes.retain(|known| known.valid_until > now);
            router.send_nud_probe(now, self.link, self.address, self.current == Some(router.address), out);
        }
        if self.router().is_some_and(|router| !router.is_usable(now, self.home_prefix)) {
            self.select_router(now);
        }
        let Some(solicitation) = self.solicitation.as_mut().filter(|solicitation| solicitation.next_at <= now) else {
            return;
        };
        out.transmit(nd_messages::router_solicitation(self.link, self.address));
        out.report(LinkReport::RouterSolicitationSent { link: self.link });
        solicitation.next_at = now + solicitation.interval;
        solicitation.interval = next_interval(solicitation.interval, &mut self.entropy);
    }

    /// Processes an advertisement that passed the checks of RFC 4861 §6.1.2, from `source` with the link-layer address
    /// `sender`.
    pub fn receive_advertisement(
        &mut self,
        now: Time,
        source: Ipv6Addr,
        sender: Option<LinkAddress>,
        message: &RouterAdvertisement,
        out: &mut Outbox,
    ) {
        if message.lifetime == 0 {
            self.drop_router(now, source, LossReason::Expired, out);
            return;
        }
        if self.current == Some(source) && self.routers.get(&source).is_some_and(|it| it.is_other_node(sender, message))
        {
            self.conflicting_ra = Some(ConflictingRa { source, sender, message: message.clone() });
            self.start_nud(now, source);
            return self.send_due_nud_probes(now, out);
        }
        let known = self.routers.contains_key(&source);
        if !known {
            self.make_room(out);
        }
        let router = self.routers.entry(source).or_insert_with(|| Router::new(now, source));
        let replaced = known && router.is_of_other_network(message);
        if replaced {
            router.prefixes.clear();
            router.resolvers.clear();
            router.search_domains.clear();
        }
        router.update(now, sender, message);
        if !router.is_usable(now, self.home_prefix) {
            return;
        }
        let forms_addresses = router.care_of_prefix(now).is_some();
        if !forms_addresses && self.current != Some(source) && self.care_of_prefix(now).is_some() {
            // DHCPv6 is the second choice: it takes longer, and the link may have both.
            return;
        }
        let Some(router) = self.routers.get(&source) else { return };
        let prefix = router.care_of_prefix(now).map(|known| known.prefix);
        if !known || replaced {
            out.report(LinkReport::RouterFound { link: self.link, router: source, prefix });
        }
        self.select_or_probe(now, source, out);
    }

    /// A neighbour is reachable.
    pub fn confirm_reachable(&mut self, now: Time, neighbour: Ipv6Addr) {
        if let Some(router) = self.routers.get_mut(&neighbour) {
            router.confirm_reachable(now);
            self.conflicting_ra.take_if(|conflicting| conflicting.source == neighbour);
        }
    }

    /// Removes a router that is unreachable or ceased to be one; another one is selected, or solicitation restarts.
    pub fn drop_router(&mut self, now: Time, address: Ipv6Addr, why: LossReason, out: &mut Outbox) {
        if self.routers.remove(&address).is_none() {
            return;
        }
        out.report(LinkReport::RouterLost { link: self.link, router: address, why });
        if self.current == Some(address) {
            self.current = None;
            if let Some(conflicting) = self.conflicting_ra.take_if(|conflicting| conflicting.source == address) {
                self.receive_advertisement(now, conflicting.source, conflicting.sender, &conflicting.message, out);
            }
            if self.current.is_none() {
                self.select_router(now);
            }
        }
    }

    /// Switches to another usable router of the link, if there is one, because the path through the one in use is
    /// down.
    pub fn switch_router(&mut self, now: Time) -> bool {
        let usable = self.routers.values().filter(|router| router.is_usable(now, self.home_prefix));
        let other = usable.filter(|router| Some(router.address) != self.current).max_by_key(|router| router.last_heard);
        let Some(other) = other.map(|router| router.address) else { return false };
        self.current = Some(other);
        true
    }

    /// Another router may be a second one, an impostor, or mean another network on the same link. The router in use is
    /// therefore probed, and stays as long as it is reachable (RFC 4861 §6.3.6, §7.3.1).
    fn select_or_probe(&mut self, now: Time, advertising: Ipv6Addr, out: &mut Outbox) {
        let current = self.router().map(|router| router.address);
        match current {
            None => {
                self.current = Some(advertising);
                self.solicitation = None;
            }
            Some(current) if current == advertising => self.solicitation = None,
            Some(_) if self.is_dhcp_only(now) => self.current = Some(advertising),
            Some(current) => self.start_nud(now, current),
        }
        self.send_due_nud_probes(now, out);
    }

    /// Whether the router in use assigns addresses by DHCPv6 only.
    fn is_dhcp_only(&self, now: Time) -> bool {
        self.router().is_some_and(|router| router.managed && router.care_of_prefix(now).is_none())
    }

    /// Sends the NUD probes that are due.
    fn send_due_nud_probes(&mut self, now: Time, out: &mut Outbox) {
        for router in self.routers.values_mut() {
            router.send_nud_probe(now, self.link, self.address, self.current == Some(router.address), out);
        }
    }

    /// Starts NUD for `router`.
    fn start_nud(&mut self, now: Time, router: Ipv6Addr) {
        if let Some(router) = self.routers.get_mut(&router) {
            router.start_nud(now);
        }
    }

    /// Selects the usable router that advertised last, preferring those with a prefix, or starts solicitation.
    fn select_router(&mut self, now: Time) {
        let usable = self.routers.values().filter(|router| router.is_usable(now, self.home_prefix));
        let rank = |router: &&Router| (router.care_of_prefix(now).is_some(), router.last_heard);
        self.current = usable.max_by_key(rank).map(|router| router.address);
        if self.current.is_none() {
            self.start_solicitation(now);
        }
    }

    fn start_solicitation(&mut self, now: Time) {
        if self.solicitation.is_none() {
            self.solicitation = Some(Solicitation { next_at: now, interval: FIRST_SOLICITATION_INTERVAL });
        }
    }

    fn make_room(&mut self, out: &mut Outbox) {
        if self.routers.len() < MAX_ROUTERS {
            return;
        }
        out.report_full_table("routers", MAX_ROUTERS);
        let others = self.routers.values().filter(|router| Some(router.address) != self.current);
        if let Some(oldest) = others.min_by_key(|router| router.last_heard).map(|router| router.address) {
            self.routers.remove(&oldest);
        }
    }
}

/// The next interval: twice the former, with a random part of a tenth (RFC 7559 §2, RFC 8415 §15).
fn next_interval(interval: Duration, entropy: &mut Entropy) -> Duration {
    let doubled = interval * 2;
    let (base, part) = if doubled > MAX_SOLICITATION_INTERVAL {
        (MAX_SOLICITATION_INTERVAL, MAX_SOLICITATION_INTERVAL / 10)
    } else if doubled < RANDOMIZED_FROM {
        return doubled;
    } else {
        (doubled, interval / 10)
    };
    let spread = u64::try_from(part.as_micros() * 2).unwrap_or(0);
    base - part + Duration::from_micros(entropy.below(spread + 1))
}
