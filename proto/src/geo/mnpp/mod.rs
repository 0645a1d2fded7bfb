//! Mobile network prefix provisioning (MNPP): routers announce the networks behind them to their neighbours, so that
//! packets between vehicles take the direct route instead of the one through their home agents ([`roam6_wire::mnpp`]).
//!
//! The configuration says whose announcements are accepted, by default none. An accepted network becomes a route in a
//! table whose rule comes before those of the mobile router; the route ends with the lifetime of the last announcement.

pub mod authentication;
pub mod conflict;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzz;
pub mod neighbours;
#[cfg(test)]
mod tests;

use crate::base::small_timers::SmallTimerQueue;
use crate::contract::command::{LifecycleCommand, MnppCommand};
use crate::contract::config::mnpp::MnppConfig;
use crate::contract::input::NeighbourEvent;
use crate::contract::item::{Neighbour, NextHop, RouteTable};
use crate::contract::report::{HostReport, LossReason, MnppReport};
use crate::contract::view::NetworkView;
use crate::crypto::authenticator::WallClock;
use crate::{
    AddressEvent, Command, DropReason, Engine, Entropy, Input, Item, Key, LinkEvent, LinkId, Outbox, Packet, Time,
    TokenBucket, Transmit, VecMap, Via, View,
};
use authentication::AcceptedClaims;
use conflict::{ConflictStep, ConflictTable};
use core::time::Duration;
use neighbours::{MAX_NETWORKS, NeighbourRouter, NeighbourTable, NetworkUpdate};
use roam6_wire::icmp6::{ALL_ROUTERS, ON_LINK_HOP_LIMIT};
use roam6_wire::ip6::{self, Datagram, Header, protocol};
use roam6_wire::mnpp::{Announcement, Network};
use roam6_wire::{LinkAddress, Prefix};
use std::net::Ipv6Addr;

/// The routing table for networks of neighbour routers, apart from the others, so that packets for other networks skip
/// it.
pub const TABLE: RouteTable = RouteTable(6_274_000);
/// Priority of its rule: after that of the mobile network (1000), before those of the home agent (1100).
const RULE_PRIORITY: u32 = 1050;
const ROUTE_METRIC: u32 = 512;

/// Lifetime in intervals: two announcements may be lost.
const LIFETIME_INTERVALS: u32 = 3;
/// Largest accepted lifetime.
const MAX_LIFETIME: Duration = Duration::from_secs(60);
/// Rate limit of announcements beside the timer's: burst, and the interval for each further one.
const ANSWER_LIMIT: (u32, Duration) = (4, Duration::from_millis(250));
/// Random delay of an answer.
const ANSWER_DELAY: Duration = Duration::from_millis(20);

/// MNPP of one router.
#[derive(Debug)]
pub struct Mnpp {
    config: MnppConfig,
    links: VecMap<LinkId, Link>,
    neighbours: NeighbourTable,
    conflicts: ConflictTable,
    clock: WallClock,
    agenda: SmallTimerQueue<LinkId>,
    entropy: Entropy,
    /// The rule of the routing table is installed.
    rule_installed: bool,
    stopped: bool,
}

/// A link on which networks are announced.
#[derive(Debug)]
struct Link {
    name: String,
    local: Option<Ipv6Addr>,
    answers: TokenBucket,
    /// Neighbours were asked for their announcements.
    solicited: bool,
}

impl Mnpp {
    /// A router that knows no neighbour.
    pub fn new(config: MnppConfig, entropy: Entropy) -> Mnpp {
        Mnpp {
            config,
            links: VecMap::new(),
            neighbours: NeighbourTable::default(),
            conflicts: ConflictTable::default(),
            clock: WallClock::default(),
            agenda: SmallTimerQueue::default(),
            entropy,
            rule_installed: false,
            stopped: false,
        }
    }

    /// The neighbour routers and their networks.
    pub fn neighbours(&self) -> &NeighbourTable {
        &self.neighbours
    }

    fn link_changed(&mut self, now: Time, event: &LinkEvent, out: &mut Outbox) {
        let is_wanted = self.config.interfaces.contains(&event.name);
        if is_wanted && event.up {
            let answers = TokenBucket::new(ANSWER_LIMIT.0, ANSWER_LIMIT.1);
            let fresh = || Link { name: event.name.clone(), local: None, answers, solicited: false };
            self.links.entry(event.link).or_insert_with(fresh);
        } else if self.links.remove(&event.link).is_some() {
            self.agenda.cancel(&event.link);
            let over = self.neighbours.remove_if(|_, held| held.router.link == event.link);
            self.remove_networks(now, over, LossReason::LinkDown, out);
        }
    }

    /// The link-local address is the source of announcements.
    fn address_changed(&mut self, now: Time, event: &AddressEvent) {
        let Some(link) = self.links.get_mut(&event.link).filter(|_| event.address.is_unicast_link_local()) else {
            return;
        };
        if event.state.is_usable() {
            link.local = Some(event.address);
            self.agenda.set(event.link, now);
        } else if link.local == Some(event.address) {
            link.local = None;
        }
    }

    fn receive_packet(&mut self, now: Time, packet: &Packet, out: &mut Outbox) {
        let Some(link) = self.links.get(&packet.link) else { return };
        let Ok(datagram) = Datagram::parse(&packet.bytes) else { return };
        if Some(datagram.source) == link.local {
            return;
        }
        let accepted = match Announcement::parse(&datagram) {
            None => return,
            Some(Ok(announcement)) => self.accept(now, packet, &datagram, &announcement, out),
            Some(Err(error)) => Err((DropReason::Malformed, error.to_string())),
        };
        if let Err((reason, detail)) = accepted {
            out.report_drop(reason, datagram.source, detail);
        }
    }

    fn accept(
        &mut self,
        now: Time,
        packet: &Packet,
        datagram: &Datagram<'_>,
        announcement: &Announcement,
        out: &mut Outbox,
    ) -> Result<(), (DropReason, String)> {
        let why = |reason| move |text: &str| (reason, format!("announcement: {text}"));
        let unix = self.clock.unix_micros(now);
        let trust = AcceptedClaims::verify_announcement(&self.config, datagram, announcement, unix)
            .map_err(|reason| why(reason)("not proved by an accepted key"))?;
        let allowed = |network: &&Network| trust.allows(network.prefix) && self.may_be_foreign(network.prefix);
        let networks: Vec<Network> = announcement.networks.iter().filter(allowed).copied().collect();
        let unix_micros = trust.unix_micros;
        let router = NeighbourRouter { link: packet.link, address: datagram.source };
        let made_of_it = |mac: &LinkAddress| mac.link_local() == datagram.source;
        let known = self.neighbours.update_router(now, router, packet.sender.filter(made_of_it), unix_micros);
        let is_new = known.ok_or_else(|| {
            why(DropReason::Replayed)("older than the previous one, or the table of neighbour routers is full")
        })?;
        if is_new || announcement.query {
            self.schedule_answer(now, packet.link);
        }
        let refused = announcement.networks.len() - networks.len();
        for network in networks {
            self.add_network(now, router, network, out);
        }
        if refused > 0 {
            return Err(why(DropReason::Unverified)(&format!("{refused} networks not accepted from the sender")));
        }
        Ok(())
    }

    /// Whether another router may have a network: a proper prefix, outside of our own.
    fn may_be_foreign(&self, network: Prefix) -> bool {
        let address = network.address();
        let is_global = network.length() > 0 && !address.is_multicast() && !address.is_unicast_link_local();
        is_global && !self.config.announced.iter().any(|own| own.covers(network) || network.covers(*own))
    }

    fn add_network(&mut self, now: Time, router: NeighbourRouter, network: Network, out: &mut Outbox) {
        let Network { prefix, lifetime } = network;
        if lifetime == 0 {
            let over = self.neighbours.remove_if(|known, held| known == prefix && held.router == router);
            return self.remove_networks(now, over, LossReason::Withdrawn, out);
        }
        let lifetime = Duration::from_secs(lifetime.into()).min(MAX_LIFETIME);
        match self.neighbours.update_network(now, router, prefix, lifetime) {
            NetworkUpdate::New => self.install(router, prefix, out),
            NetworkUpdate::Renewed => {}
            NetworkUpdate::OwnedByOther(other) => {
                self.conflicts.begin(now, other);
                out.report_drop(
                    DropReason::Duplicate,
                    router.address,
                    format!("announcement: {prefix} belongs to {}", other.address),
                );
            }
            NetworkUpdate::Full => out.report_full_table("networks", MAX_NETWORKS),
        }
    }

    fn install(&mut self, router: NeighbourRouter, prefix: Prefix, out: &mut Outbox) {
        let NeighbourRouter { link, address } = router;
        if !self.rule_installed {
            self.rule_installed = true;
            out.put(rule());
        }
        if let Some(link_address) = self.neighbours.take_new_neighbour(router) {
            out.put(Item::Neighbour(Neighbour { link, address, link_address }));
        }
        out.put(Item::route(TABLE, prefix, ROUTE_METRIC, NextHop::Gateway { link, router: address }));
        out.put(Item::TunnelBypass(prefix));
        out.report(MnppReport::NetworkFound { link, router: address, prefix });
    }

    /// Removes networks and their routes.
    fn remove_networks(&mut self, now: Time, over: Vec<(Prefix, NeighbourRouter)>, why: LossReason, out: &mut Outbox) {
        for (prefix, router) in over {
            out.drop(Key::TunnelBypass(prefix));
            out.drop(Key::Route(TABLE, prefix, Prefix::ALL, ROUTE_METRIC));
            // A router without networks needs no neighbour entry.
            if self.neighbours.take_stale_neighbour(router) {
                out.drop(Key::Neighbour(router.link, router.address));
            }
            out.report(MnppReport::NetworkLost { link: router.link, router: router.address, prefix, why });
        }
        self.neighbours.expire(now);
    }

    /// Announces soon, since a new neighbour may not know our networks.
    fn schedule_answer(&mut self, now: Time, id: LinkId) {
        let Some(link) = self.links.get_mut(&id) else { return };
        if !link.answers.take(now) {
            return;
        }
        let delay = Duration::from_micros(self.entropy.below(ANSWER_DELAY.as_micros() as u64));
        let planned = self.agenda.deadline_of(&id);
        self.agenda.set(id, planned.map_or(now + delay, |planned| planned.min(now + delay)));
    }

    /// Announces on a link, and restarts the timer with a jitter of a tenth, so that routers do not synchronise.
    fn announce(&mut self, now: Time, id: LinkId, out: &mut Outbox) {
        let lifetime = (self.config.interval * LIFETIME_INTERVALS).as_millis().div_ceil(1000);
        let is_query = self.links.get(&id).is_some_and(|link| !link.solicited);
        self.send(now, id, (u32::try_from(lifetime).unwrap_or(u32::MAX), is_query), out);
        if let Some(link) = self.links.get_mut(&id) {
            link.solicited |= link.local.is_some();
        }
        let most = u64::try_from(self.config.interval.as_micros() / 10).unwrap_or(0);
        let early = Duration::from_micros(self.entropy.below(most));
        self.agenda.set(id, now + self.config.interval.saturating_sub(early));
    }

    fn send(&self, now: Time, id: LinkId, (lifetime, query): (u32, bool), out: &mut Outbox) {
        let Some(source) = self.links.get(&id).and_then(|link| link.local) else { return };
        if self.config.announced.is_empty() {
            return;
        }
        let networks = self.config.announced.iter().map(|prefix| Network { prefix: *prefix, lifetime }).collect();
        let announcement = Announcement { query, networks, proof: None };
        let message = match (&self.config.key, self.clock.unix_micros(now)) {
            (None, _) => announcement.emit(source),
            (Some(key), Some(unix_micros)) => announcement.emit_proved(source, key.spi, unix_micros, |part| {
                authentication::proof_code(&key.secret, source, ALL_ROUTERS, part)
            }),
            // The proof covers the time.
            (Some(_), None) => return,
        };
        let header = Header::new(source, ALL_ROUTERS).with_hop_limit(ON_LINK_HOP_LIMIT);
        out.transmit(Transmit { via: Via::Link(id), bytes: ip6::emit(&header, protocol::ICMPV6, &message) });
    }

    fn expire(&mut self, now: Time, out: &mut Outbox) {
        while let Some(link) = self.agenda.pop_expired(now) {
            self.announce(now, link, out);
        }
        let over = self.neighbours.remove_if(|_, held| held.until <= now);
        self.remove_networks(now, over, LossReason::Expired, out);
        self.settle_conflicts(now, out);
    }

    /// Asks routers whose networks others announce too, and removes the networks of those that do not answer.
    fn settle_conflicts(&mut self, now: Time, out: &mut Outbox) {
        while let Some(step) = self.conflicts.next_step(now, &self.neighbours) {
            let (ConflictStep::Query(owner) | ConflictStep::Remove(owner)) = step;
            if step == ConflictStep::Remove(owner) {
                let over = self.neighbours.remove_if(|_, held| held.router == owner);
                self.remove_networks(now, over, LossReason::Unreachable, out);
            }
            self.query(now, owner.link, out);
        }
    }

    /// Announces, and asks all routers of a link for their announcements.
    fn query(&mut self, now: Time, id: LinkId, out: &mut Outbox) {
        if let Some(link) = self.links.get_mut(&id) {
            link.solicited = false;
        }
        self.announce(now, id, out);
    }

    fn neighbour_changed(&mut self, now: Time, event: &NeighbourEvent, out: &mut Outbox) {
        if event.reachable {
            return;
        }
        let gone = NeighbourRouter { link: event.link, address: event.address };
        let over = self.neighbours.remove_if(|_, held| held.router == gone);
        self.remove_networks(now, over, LossReason::Unreachable, out);
    }

    /// Applies a new configuration; networks that are no longer accepted are removed.
    fn reload(&mut self, now: Time, config: &MnppConfig, out: &mut Outbox) {
        self.config = config.clone();
        let wanted = &self.config.interfaces;
        let left: Vec<LinkId> =
            self.links.iter().filter(|(_, link)| !wanted.contains(&link.name)).map(|(id, _)| *id).collect();
        for id in left {
            self.links.remove(&id);
            self.agenda.cancel(&id);
        }
        let links = &self.links;
        let accepted = &self.config.accepted;
        let allowed = |network: Prefix| accepted.iter().any(|one| one.prefixes.iter().any(|p| p.covers(network)));
        let over =
            self.neighbours.remove_if(|network, held| !allowed(network) || !links.contains_key(&held.router.link));
        self.remove_networks(now, over, LossReason::Withdrawn, out);
        for id in self.links.keys() {
            self.agenda.set(*id, now);
        }
    }

    fn stop(&mut self, now: Time, out: &mut Outbox) {
        self.stopped = true;
        for id in self.links.keys() {
            self.send(now, *id, (0, false), out);
        }
        let over = self.neighbours.remove_if(|_, _| true);
        self.remove_networks(now, over, LossReason::Withdrawn, out);
        if self.rule_installed {
            out.drop(rule().key());
        }
    }
}

fn rule() -> Item {
    Item::rule(RULE_PRIORITY, Prefix::ALL, Prefix::ALL, TABLE)
}

impl Engine for Mnpp {
    fn handle(&mut self, now: Time, input: &Input, out: &mut Outbox) {
        if self.stopped {
            return;
        }
        match input {
            Input::Link(event) => self.link_changed(now, event, out),
            Input::Address(event) => self.address_changed(now, event),
            Input::Packet(packet) => self.receive_packet(now, packet, out),
            Input::Neighbour(event) => self.neighbour_changed(now, event, out),
            Input::Clock(clock) => self.clock.put(now, clock.unix_micros),
            Input::Command(Command::Mnpp(MnppCommand::Reload(config))) => self.reload(now, config, out),
            Input::Command(Command::Lifecycle(LifecycleCommand::Stop)) => return self.stop(now, out),
            Input::Outcome(outcome) => {
                if let Some(why) = &outcome.error {
                    out.report(HostReport::ItemRefused { key: outcome.key.clone(), why: why.clone() });
                }
            }
            _ => {}
        }
        self.expire(now, out);
    }

    fn deadline(&self) -> Option<Time> {
        [self.agenda.deadline(), self.neighbours.deadline(), self.conflicts.deadline()]
            .into_iter()
            .flatten()
            .min()
            .filter(|_| !self.stopped)
    }

    fn view(&self, now: Time, view: &mut View) {
        view.networks.extend(self.neighbours.networks().map(|(prefix, held)| NetworkView {
            prefix,
            router: held.router.address,
            link: self.links.get(&held.router.link).map(|link| link.name.clone()).unwrap_or_default(),
            remaining: held.until.since(now),
        }));
    }
}
