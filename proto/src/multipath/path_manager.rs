//! Keeps the kernel's MPTCP endpoints true: an address is one from when its route works until either goes, and the ones
//! by the tunnel are for when nothing else works (RFC 8684 §3.2, §3.3.8, §3.4; RFC 8028 §3.1).

use super::advertised::Advertised;
use super::config::PathManagerConfig;
use super::subflow;
use crate::access::neighbour;
use crate::engine::{Engine, Outbox};
use crate::input::{AddressEvent, Input, LinkEvent, LinkId, Order, Outcome, Packet, RouteEvent};
use crate::plan::{Endpoint, EndpointFlags, EndpointLimits, Item, Key};
use crate::report::{DropReason, Report};
use crate::time::Time;
use crate::view::{EndpointView, LinkView, View};
use core::time::Duration;
use roam6_wire::Prefix;
use roam6_wire::icmp6::{Message, kind};
use roam6_wire::ip6::{Datagram, protocol};
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;

/// Endpoints at once: older kernels have room for no more.
pub const MAX_ENDPOINTS: usize = 8;
/// Addresses remembered of one interface; more are ignored.
pub const MAX_ADDRESSES: usize = 32;

/// How long an address and its route must have been there: the kernel tries a new endpoint once, and a first packet
/// that meets a route still being made is lost for good.
const SETTLED: Duration = Duration::from_millis(200);
/// How long an address that was given up stays away: the kernel may not make anew what it has not finished closing,
/// the first subflow of a connection above all.
const RETURN: Duration = Duration::from_secs(2);
/// Time before an endpoint or limits are put again that the host refused.
const AGAIN: Duration = Duration::from_secs(60);
/// Length of a prefix no advertisement tells of.
const HOST_SUBNET: u8 = 64;
/// RFC 7559 §2, but for the first interval, which nobody has to wait for.
const SOLICITATION: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(3600));

/// The path manager of one host.
#[derive(Debug)]
pub struct PathManager {
    config: PathManagerConfig,
    links: BTreeMap<LinkId, Link>,
    /// What the host holds, or is asked to.
    held: BTreeMap<Ipv6Addr, Endpoint>,
    /// Addresses that may not be endpoints before a time.
    waiting: BTreeMap<Ipv6Addr, Time>,
    limits: Limits,
    stopped: bool,
    /// When it was last asked to handle something.
    now: Time,
}

#[derive(Debug)]
struct Link {
    name: String,
    up: bool,
    mtu: u32,
    addresses: BTreeSet<Ipv6Addr>,
    advertised: Advertised,
    /// Of a default route that no advertisement made.
    static_router: Option<Ipv6Addr>,
    solicit_at: Time,
    interval: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limits {
    /// No endpoint needs them yet.
    Unset,
    Put,
    Refused {
        until: Time,
    },
}

impl PathManager {
    /// A path manager that has seen nothing yet, and changes nothing before it has an endpoint to make.
    pub fn new(config: PathManagerConfig) -> PathManager {
        PathManager {
            config,
            links: BTreeMap::new(),
            held: BTreeMap::new(),
            waiting: BTreeMap::new(),
            limits: Limits::Unset,
            stopped: false,
            now: Time::ZERO,
        }
    }

    fn take_link(&mut self, now: Time, event: &LinkEvent) {
        if !self.config.interfaces.contains(&event.name) {
            self.links.remove(&event.link);
            return;
        }
        let link = self.links.entry(event.link).or_insert_with(|| Link::new(event));
        if event.up && !link.up {
            (link.solicit_at, link.interval) = (now, SOLICITATION.0);
        }
        if !event.up {
            // Another network may be behind it when it comes back.
            link.advertised = Advertised::default();
        }
        (link.up, link.mtu) = (event.up, event.mtu);
        link.name.clone_from(&event.name);
    }

    fn take_address(&mut self, event: &AddressEvent, out: &mut Outbox) {
        let Some(link) = self.links.get_mut(&event.link) else { return };
        if event.address.is_unicast_link_local() || event.address.is_multicast() || event.address.is_loopback() {
            return;
        }
        if !event.state.is_usable() {
            link.addresses.remove(&event.address);
        } else if link.addresses.len() < MAX_ADDRESSES {
            link.addresses.insert(event.address);
        } else if !link.addresses.contains(&event.address) {
            out.report(Report::TableFull { table: "addresses".to_owned(), limit: MAX_ADDRESSES });
        }
    }

    fn take_packet(&mut self, now: Time, packet: &Packet, out: &mut Outbox) {
        let Some(link) = self.links.get_mut(&packet.link).filter(|link| link.up) else { return };
        let Ok(datagram) = Datagram::parse(&packet.bytes) else { return };
        let advertises = datagram.payload.first() == Some(&kind::ROUTER_ADVERTISEMENT);
        if datagram.protocol != protocol::ICMPV6 || !advertises {
            return;
        }
        let checked = Message::parse(&datagram).and_then(|message| message.check_on_link(&datagram).map(|()| message));
        match checked {
            Ok(Message::RouterAdvertisement(message)) => {
                if !link.advertised.put(now, datagram.source, &message) {
                    let limit = super::advertised::MAX_ROUTERS;
                    out.report(Report::TableFull { table: "routers".to_owned(), limit });
                }
            }
            Ok(_) => {}
            Err(malformed) => {
                let (reason, from) = (DropReason::Malformed, Some(datagram.source));
                out.report(Report::Dropped { reason, from, detail: malformed.to_string() });
            }
        }
    }

    /// The host did not take what it was given: it is given again after a while.
    fn take_outcome(&mut self, now: Time, outcome: &Outcome, out: &mut Outbox) {
        let Some(why) = &outcome.refused else { return };
        match &outcome.key {
            Key::EndpointLimits if self.limits == Limits::Put => self.limits = Limits::Refused { until: now + AGAIN },
            Key::Endpoint(address) if self.held.remove(address).is_some() => {
                self.waiting.insert(*address, now + AGAIN);
                // Nothing may be left of it, whatever the host made of it.
                out.drop(outcome.key.clone());
            }
            _ => return,
        }
        out.report(Report::Failed { key: outcome.key.clone(), why: why.clone() });
    }

    /// The endpoints there should be, but for those that have to wait.
    fn wanted(&self, now: Time) -> BTreeMap<Ipv6Addr, Endpoint> {
        let mut best: BTreeMap<(LinkId, Prefix), Endpoint> = BTreeMap::new();
        for (id, link) in self.links.iter().filter(|(_, link)| link.up) {
            for &address in &link.addresses {
                let Some((prefix, preferred_until)) = link.find(now, address) else { continue };
                let home = self.config.home_prefixes.iter().any(|home| home.contains(address));
                let signal = if home { self.config.signal_home } else { self.config.signal_care_of };
                // Deprecated: for connections that have nothing else (RFC 4862 §5.5.4).
                let backup = home || preferred_until.is_some_and(|until| until <= now);
                let flags = EndpointFlags { signal, subflow: true, backup };
                // One address of a prefix is one path: the one in use stays, of temporary ones the lowest serves.
                let endpoint = Endpoint { address, link: *id, flags };
                let place = best.entry((*id, prefix)).or_insert(endpoint);
                if self.held.contains_key(&address) && !self.held.contains_key(&place.address) {
                    *place = endpoint;
                }
            }
        }
        best.into_values().map(|endpoint| (endpoint.address, endpoint)).collect()
    }

    /// Makes the host hold what is wanted, as soon as it may.
    fn converge(&mut self, now: Time, out: &mut Outbox) {
        let mut wanted = if self.stopped { BTreeMap::new() } else { self.wanted(now) };
        let gone: Vec<Ipv6Addr> = self.held.keys().filter(|address| !wanted.contains_key(address)).copied().collect();
        for address in gone {
            self.held.remove(&address);
            self.waiting.insert(address, now + RETURN);
            out.drop(Key::Endpoint(address));
        }
        self.waiting.retain(|address, until| *until > now || wanted.contains_key(address));
        wanted.retain(|address, endpoint| self.held.get(address) != Some(endpoint));
        for (address, endpoint) in wanted {
            let new = !self.held.contains_key(&address);
            if new && *self.waiting.entry(address).or_insert(now + SETTLED) > now {
                continue;
            }
            if new && self.held.len() == MAX_ENDPOINTS {
                out.report(Report::TableFull { table: "endpoints".to_owned(), limit: MAX_ENDPOINTS });
                self.waiting.insert(address, now + AGAIN);
                continue;
            }
            self.put_limits(now, out);
            self.waiting.remove(&address);
            self.held.insert(address, endpoint);
            out.put(Item::Endpoint(endpoint));
        }
    }

    fn put_limits(&mut self, now: Time, out: &mut Outbox) {
        if self.limits == Limits::Unset || matches!(self.limits, Limits::Refused { until } if until <= now) {
            self.limits = Limits::Put;
            let PathManagerConfig { subflows, accepted, .. } = self.config;
            out.put(Item::EndpointLimits(EndpointLimits { subflows, accepted }));
        }
    }

    /// Asks where no router is known: the kernel may have heard before we began to listen. From nowhere, so that the
    /// answer is for all and the kernel needs no address that we would have to guess.
    fn state_of(&self, now: Time, link: &Link, address: Ipv6Addr, held: Option<&Endpoint>) -> &'static str {
        match held {
            Some(_) => "in use",
            None if !link.up => "link down",
            None if link.find(now, address).is_none() => "no router",
            None if self.waiting.contains_key(&address) => "waiting",
            None => "spare",
        }
    }

    fn solicit(&mut self, now: Time, out: &mut Outbox) {
        for (id, link) in &mut self.links {
            link.advertised.expire(now);
            if link.asks(now) && link.solicit_at <= now {
                out.transmit(neighbour::router_solicitation(*id, None));
                out.report(Report::Solicited { link: *id });
                link.solicit_at = now + link.interval;
                link.interval = (link.interval * 2).min(SOLICITATION.1);
            }
        }
    }
}

impl Link {
    fn new(event: &LinkEvent) -> Link {
        Link {
            name: event.name.clone(),
            up: false,
            mtu: event.mtu,
            addresses: BTreeSet::new(),
            advertised: Advertised::default(),
            static_router: None,
            solicit_at: Time::ZERO,
            interval: SOLICITATION.0,
        }
    }

    fn put_static_router(&mut self, event: &RouteEvent) {
        if event.stands {
            self.static_router = Some(event.router);
        } else if self.static_router == Some(event.router) {
            self.static_router = None;
        }
    }

    /// The prefix whose router makes an address work, and until when it is preferred; `None` if it does not work.
    fn find(&self, now: Time, address: Ipv6Addr) -> Option<(Prefix, Option<Time>)> {
        if let Some((prefix, until)) = self.advertised.find(now, address) {
            return Some((prefix, Some(until.preferred_until)));
        }
        self.static_router.and_then(|_| Some((Prefix::new(address, HOST_SUBNET)?, None)))
    }

    fn asks(&self, now: Time) -> bool {
        self.up && self.advertised.router(now).is_none() && self.static_router.is_none()
    }
}

impl Engine for PathManager {
    fn handle(&mut self, now: Time, input: &Input, out: &mut Outbox) {
        self.now = now;
        match input {
            Input::Link(event) => self.take_link(now, event),
            Input::Address(event) => self.take_address(event, out),
            Input::Packet(packet) => self.take_packet(now, packet, out),
            Input::Neighbour(event) => {
                if let Some(link) = self.links.get_mut(&event.link) {
                    link.advertised.put_reachable(event.address, event.reachable);
                }
            }
            Input::Outcome(outcome) => self.take_outcome(now, outcome, out),
            Input::Subflow(event) => out.report(subflow::report(event)),
            Input::Order(Order::Stop) => self.stopped = true,
            Input::Order(Order::PathManager(config)) => self.config = config.as_ref().clone(),
            Input::Route(event) => {
                if let Some(link) = self.links.get_mut(&event.link) {
                    link.put_static_router(event);
                }
            }
            Input::Tick | Input::Clock(_) | Input::Order(_) | Input::Flow(_) | Input::Activity(_) => {}
        }
        if !self.stopped {
            self.solicit(now, out);
        }
        self.converge(now, out);
        if self.stopped && self.limits != Limits::Unset {
            self.limits = Limits::Unset;
            out.drop(Key::EndpointLimits);
        }
    }

    fn deadline(&self) -> Option<Time> {
        if self.stopped {
            return None;
        }
        let links = self.links.values().filter(|link| link.up);
        let asked = |link: &Link| link.asks(self.now).then_some(link.solicit_at);
        let of_links = links.flat_map(|link| [asked(link), link.advertised.deadline(self.now)]).flatten();
        of_links.chain(self.waiting.values().copied()).min()
    }

    fn view(&self, now: Time, view: &mut View) {
        view.links.extend(self.links.iter().map(|(id, link)| {
            let addresses = self.held.values().filter(|endpoint| endpoint.link == *id);
            LinkView {
                name: link.name.clone(),
                role: "mnn".to_owned(),
                up: link.up,
                mtu: link.mtu,
                router: link.advertised.router(now),
                addresses: addresses.map(|endpoint| endpoint.address).collect(),
                state: if link.asks(now) { "no router" } else { "up" }.to_owned(),
            }
        }));
        let home = |address| self.config.home_prefixes.iter().any(|home| home.contains(address));
        for (id, link) in &self.links {
            view.endpoints.extend(link.addresses.iter().map(|&address| {
                let held = self.held.get(&address).filter(|endpoint| endpoint.link == *id);
                EndpointView {
                    address,
                    link: link.name.clone(),
                    home: home(address),
                    backup: held.map_or(home(address), |endpoint| endpoint.flags.backup),
                    signal: held.is_some_and(|endpoint| endpoint.flags.signal),
                    state: self.state_of(now, link, address, held).to_owned(),
                }
            }));
        }
    }
}
