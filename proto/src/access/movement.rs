//! Which router of a visited link is used: solicitation, advertisements, loss of the router, and another network on the
//! same link (RFC 4861 §6.3, RFC 7559, RFC 6275 §11.5.1).

use crate::access::limiter::Limiter;
use crate::access::neighbour;
use crate::engine::Outbox;
use crate::input::LinkId;
use crate::report::{Lost, Report};
use crate::time::Time;
use core::time::Duration;
use roam6_wire::icmp6::{NeighbourOption, RouterAdvertisement};
use roam6_wire::{LinkAddress, Prefix};
use std::collections::BTreeMap;
use std::net::Ipv6Addr;

/// Routers remembered on one link; the one longest unheard makes room.
pub const MAX_ROUTERS: usize = 8;
/// Prefixes remembered of one router; more are ignored.
pub const MAX_PREFIXES: usize = 8;

/// The first solicitation is repeated after this long, since a link often swallows the first frames after carrier-up.
const FIRST_SOLICITATION_INTERVAL: Duration = Duration::from_millis(20);
/// RFC 7559 §2: no solicitation interval beyond this.
const MAX_SOLICITATION_INTERVAL: Duration = Duration::from_secs(3600);
/// Unicast solicitations that ask a router whether it is still there, and the time between them.
const CONFIRMATIONS: u8 = 3;
const CONFIRMATION_INTERVAL: Duration = Duration::from_millis(200);
/// A router confirmed this recently is not asked again because another one was heard.
const CONFIRMED_FOR: Duration = Duration::from_secs(3);
/// Advertisements missed, against the announced interval, before the router is asked (RFC 6275 §11.5.1).
const MISSED_ADVERTISEMENTS: u32 = 2;
/// Moves that advertisements alone may cause in a burst, and how often another one is granted.
const MOVES: u32 = 5;
const MOVE_INTERVAL: Duration = Duration::from_secs(1);

/// What one interface knows of the link it is on, from carrier-up to carrier-down.
#[derive(Debug, Clone)]
pub struct Attachment {
    link: LinkId,
    address: Option<LinkAddress>,
    routers: BTreeMap<Ipv6Addr, Router>,
    current: Option<Ipv6Addr>,
    solicitation: Option<Solicitation>,
    moves: Limiter,
}

/// A router that has advertised itself.
#[derive(Debug, Clone)]
pub struct Router {
    /// Its link-local address.
    pub address: Ipv6Addr,
    /// Its link-layer address.
    pub link_address: Option<LinkAddress>,
    /// Whether it is a home agent (H flag, RFC 6275 §7.1).
    pub home_agent: bool,
    /// The link's MTU, if it announced one, octets.
    pub mtu: Option<u32>,
    /// Its prefixes, in the order it lists them.
    pub prefixes: Vec<OnLink>,
    expires: Time,
    interval: Option<Duration>,
    seen: Time,
    confirmation: Option<Confirmation>,
}

/// A prefix a router has advertised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnLink {
    /// The prefix.
    pub prefix: Prefix,
    /// The L flag.
    pub on_link: bool,
    /// The A flag.
    pub autonomous: bool,
    /// The router's own address in it (R flag, RFC 6275 §7.2).
    pub router: Option<Ipv6Addr>,
    /// End of the valid lifetime.
    pub valid_until: Time,
    /// End of the preferred lifetime.
    pub preferred_until: Time,
}

#[derive(Debug, Clone)]
struct Solicitation {
    next: Time,
    interval: Duration,
}

#[derive(Debug, Clone)]
struct Confirmation {
    next: Time,
    left: u8,
}

impl Attachment {
    /// An interface that has just come up. The first solicitation is due at once: no random delay after a movement
    /// (RFC 6275 §11.5.1).
    pub fn new(now: Time, link: LinkId, address: Option<LinkAddress>) -> Attachment {
        let mut attachment = Attachment {
            link,
            address,
            routers: BTreeMap::new(),
            current: None,
            solicitation: None,
            moves: Limiter::new(MOVES, MOVE_INTERVAL),
        };
        attachment.solicit(now);
        attachment
    }

    /// The router in use.
    pub fn router(&self) -> Option<&Router> {
        self.routers.get(&self.current?)
    }

    /// The prefix of the router in use that care-of addresses are best formed from.
    pub fn care_of_prefix(&self, now: Time) -> Option<&OnLink> {
        self.router()?.care_of_prefix(now)
    }

    /// The router that advertises a prefix holding `address` as on-link, and that prefix.
    pub fn find_on_link(&self, now: Time, address: Ipv6Addr) -> Option<(&Router, &OnLink)> {
        let on_link = |known: &&OnLink| known.on_link && known.valid_until > now && known.prefix.contains(address);
        // The router in use decides: an old one may speak of the network we have just left.
        let router = self.router()?;
        Some((router, router.prefixes.iter().find(on_link)?))
    }

    /// When [`Attachment::expire`] has something to do.
    pub fn deadline(&self) -> Option<Time> {
        let solicitation = self.solicitation.iter().map(|solicitation| solicitation.next);
        let routers = self.routers.values().map(|router| router.deadline(self.current));
        solicitation.chain(routers).min()
    }

    /// When the next solicitation leaves.
    pub fn next_solicitation(&self) -> Option<Time> {
        self.solicitation.as_ref().map(|solicitation| solicitation.next)
    }

    /// Sends what is due and forgets what has ended.
    pub fn expire(&mut self, now: Time, out: &mut Outbox) {
        let ended: Vec<(Ipv6Addr, Lost)> =
            self.routers.values().filter_map(|router| router.ended(now).map(|why| (router.address, why))).collect();
        for (router, why) in ended {
            self.drop_router(now, router, why, out);
        }
        for router in self.routers.values_mut() {
            router.prefixes.retain(|known| known.valid_until > now);
            router.confirm(now, self.link, self.address, self.current == Some(router.address), out);
        }
        if self.router().is_some_and(|router| router.care_of_prefix(now).is_none()) {
            self.choose(now);
        }
        let Some(solicitation) = self.solicitation.as_mut().filter(|solicitation| solicitation.next <= now) else {
            return;
        };
        out.transmit(neighbour::router_solicitation(self.link, self.address));
        out.report(Report::Solicited { link: self.link });
        solicitation.next = now + solicitation.interval;
        solicitation.interval = (solicitation.interval * 2).min(MAX_SOLICITATION_INTERVAL);
    }

    /// Takes an advertisement that passed the checks of RFC 4861 §6.1.2, sent by `source` from `sender`.
    pub fn hear(
        &mut self,
        now: Time,
        source: Ipv6Addr,
        sender: Option<LinkAddress>,
        message: &RouterAdvertisement,
        out: &mut Outbox,
    ) {
        if message.lifetime == 0 {
            self.drop_router(now, source, Lost::Expired, out);
            return;
        }
        let known = self.routers.contains_key(&source);
        if !known {
            self.make_room(out);
        }
        let router = self.routers.entry(source).or_insert_with(|| Router::new(now, source));
        let replaced = known && router.is_elsewhere(message);
        if replaced {
            router.prefixes.clear();
        }
        router.update(now, sender, message);
        if router.care_of_prefix(now).is_none() {
            return;
        }
        let prefix = router.care_of_prefix(now).map(|known| known.prefix);
        if !known || replaced {
            out.report(Report::RouterFound { link: self.link, router: source, prefix });
        }
        self.consider(now, source, !known || replaced, out);
    }

    /// A neighbour that says or proves it is there.
    pub fn confirm(&mut self, now: Time, neighbour: Ipv6Addr) {
        if let Some(router) = self.routers.get_mut(&neighbour) {
            router.confirmation = None;
            router.seen = now;
        }
    }

    /// Takes out a router that no longer answers, or said goodbye; the next one steps in, or solicitation begins anew.
    pub fn drop_router(&mut self, now: Time, address: Ipv6Addr, why: Lost, out: &mut Outbox) {
        if self.routers.remove(&address).is_none() {
            return;
        }
        out.report(Report::RouterLost { link: self.link, router: address, why });
        if self.current == Some(address) {
            self.current = None;
            self.choose(now);
        }
    }

    /// A router heard for the first time is believed at once; one that was silent for a while may mean we are back,
    /// so the one in use is asked whether it is still there.
    fn consider(&mut self, now: Time, heard: Ipv6Addr, new: bool, out: &mut Outbox) {
        let current = self.router().map(|router| router.address);
        match current {
            None => {
                self.current = Some(heard);
                self.solicitation = None;
            }
            Some(current) if current == heard => self.solicitation = None,
            Some(current) if new && self.moves.take(now) => {
                self.current = Some(heard);
                self.ask(now, current);
            }
            Some(current) => self.ask(now, current),
        }
        for router in self.routers.values_mut() {
            router.confirm(now, self.link, self.address, self.current == Some(router.address), out);
        }
    }

    /// Begins to ask `router` whether it is still there.
    fn ask(&mut self, now: Time, router: Ipv6Addr) {
        if let Some(router) = self.routers.get_mut(&router)
            && router.confirmation.is_none()
            && now.since(router.seen) > CONFIRMED_FOR.min(CONFIRMATION_INTERVAL)
        {
            router.confirmation = Some(Confirmation { next: now, left: CONFIRMATIONS });
        }
    }

    /// Takes the router heard last among those that offer an address, or looks for one.
    fn choose(&mut self, now: Time) {
        let usable = self.routers.values().filter(|router| router.care_of_prefix(now).is_some());
        self.current = usable.max_by_key(|router| router.seen).map(|router| router.address);
        if self.current.is_none() {
            self.solicit(now);
        }
    }

    fn solicit(&mut self, now: Time) {
        if self.solicitation.is_none() {
            self.solicitation = Some(Solicitation { next: now, interval: FIRST_SOLICITATION_INTERVAL });
        }
    }

    fn make_room(&mut self, out: &mut Outbox) {
        if self.routers.len() < MAX_ROUTERS {
            return;
        }
        out.report(Report::TableFull { table: "routers".to_owned(), limit: MAX_ROUTERS });
        let others = self.routers.values().filter(|router| Some(router.address) != self.current);
        if let Some(oldest) = others.min_by_key(|router| router.seen).map(|router| router.address) {
            self.routers.remove(&oldest);
        }
    }
}

impl Router {
    fn new(now: Time, address: Ipv6Addr) -> Router {
        Router {
            address,
            link_address: None,
            home_agent: false,
            mtu: None,
            prefixes: Vec::new(),
            expires: now,
            interval: None,
            seen: now,
            confirmation: None,
        }
    }

    /// The first preferred prefix an address can be formed from, else the first valid one.
    pub fn care_of_prefix(&self, now: Time) -> Option<&OnLink> {
        let usable = |known: &&OnLink| known.autonomous && known.prefix.length() == 64 && known.valid_until > now;
        let preferred = self.prefixes.iter().filter(usable).find(|known| known.preferred_until > now);
        preferred.or_else(|| self.prefixes.iter().find(usable))
    }

    /// Whether the same router address now speaks of wholly other prefixes: many networks use `fe80::1`.
    fn is_elsewhere(&self, message: &RouterAdvertisement) -> bool {
        let mut heard = prefixes(self.seen, message).filter(|heard| heard.valid_until > self.seen).peekable();
        heard.peek().is_some()
            && !self.prefixes.is_empty()
            && heard.all(|heard| self.prefixes.iter().all(|known| known.prefix != heard.prefix))
    }

    fn update(&mut self, now: Time, sender: Option<LinkAddress>, message: &RouterAdvertisement) {
        self.expires = now + Duration::from_secs(message.lifetime.into());
        self.home_agent = message.home_agent;
        self.seen = now;
        self.confirmation = None;
        // An option that is absent never means a reset (RFC 4861 §6.2.7, §6.3.4).
        let mut link_address = None;
        for option in &message.options {
            match option {
                NeighbourOption::SourceLinkAddress(address) => link_address = Some(*address),
                NeighbourOption::Mtu(mtu) => self.mtu = (*mtu >= MIN_MTU).then_some(*mtu),
                NeighbourOption::AdvertisementInterval { milliseconds } => {
                    self.interval = Some(Duration::from_millis(u64::from(*milliseconds)));
                }
                _ => {}
            }
        }
        self.link_address = link_address.or(sender).or(self.link_address);
        for heard in prefixes(now, message) {
            self.put_prefix(now, heard);
        }
    }

    fn put_prefix(&mut self, now: Time, mut heard: OnLink) {
        // RFC 4862 §5.5.3: link-local prefixes and preferred beyond valid are ignored.
        if heard.preferred_until > heard.valid_until || neighbour::is_link_local(heard.prefix) {
            return;
        }
        if let Some(known) = self.prefixes.iter_mut().find(|known| known.prefix == heard.prefix) {
            // RFC 4862 §5.5.3 e: an unauthenticated advertisement cuts the rest to two hours at worst.
            heard.valid_until = heard.valid_until.max(known.valid_until.min(now + TWO_HOURS));
            *known = heard;
        } else if heard.valid_until > now && self.prefixes.len() < MAX_PREFIXES {
            self.prefixes.push(heard);
        }
    }

    fn deadline(&self, current: Option<Ipv6Addr>) -> Time {
        let confirmation = self.confirmation.as_ref().map(|confirmation| confirmation.next);
        let missed = self.overdue().filter(|_| current == Some(self.address) && confirmation.is_none());
        let prefixes = self.prefixes.iter().map(|known| known.valid_until);
        prefixes.chain(confirmation).chain(missed).fold(self.expires, Time::min)
    }

    /// When its next advertisement is late.
    fn overdue(&self) -> Option<Time> {
        self.interval.map(|interval| self.seen + interval.max(MIN_INTERVAL) * MISSED_ADVERTISEMENTS)
    }

    fn ended(&self, now: Time) -> Option<Lost> {
        let silent = self.confirmation.as_ref().is_some_and(|asked| asked.left == 0 && asked.next <= now);
        match (self.expires <= now, silent) {
            (true, _) => Some(Lost::Expired),
            (_, true) => Some(Lost::Unreachable),
            _ => None,
        }
    }

    /// Asks on, or begins to ask because advertisements are missed.
    fn confirm(&mut self, now: Time, link: LinkId, address: Option<LinkAddress>, current: bool, out: &mut Outbox) {
        if current && self.confirmation.is_none() && self.overdue().is_some_and(|late| late <= now) {
            self.confirmation = Some(Confirmation { next: now, left: CONFIRMATIONS });
        }
        let Some(asked) = self.confirmation.as_mut().filter(|asked| asked.next <= now && asked.left > 0) else {
            return;
        };
        asked.left -= 1;
        asked.next = now + CONFIRMATION_INTERVAL;
        out.transmit(neighbour::confirmation(link, address, self.address, self.link_address));
    }
}

/// Least link MTU of IPv6 (RFC 8200 §5).
const MIN_MTU: u32 = 1280;
/// Advertised intervals below this are taken as this, so that hostile ones cost little (RFC 6275 §7.5 allows 70 ms).
const MIN_INTERVAL: Duration = Duration::from_millis(70);
const TWO_HOURS: Duration = Duration::from_secs(7200);

fn prefixes(now: Time, message: &RouterAdvertisement) -> impl Iterator<Item = OnLink> {
    message.options.iter().filter_map(move |option| match *option {
        NeighbourOption::PrefixInformation {
            prefix,
            address,
            on_link,
            autonomous,
            router_address,
            valid,
            preferred,
        } => Some(OnLink {
            prefix,
            on_link,
            autonomous,
            router: router_address.then_some(address),
            valid_until: now + Duration::from_secs(valid.into()),
            preferred_until: now + Duration::from_secs(preferred.into()),
        }),
        _ => None,
    })
}
