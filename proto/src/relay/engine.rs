//! The decisions of a relay.

use super::bearer::{Bearer, State};
use super::connections::Connections;
use super::effect::{Effect, Event};
use super::{BearerId, Bindings, Counters, HeldSyn, Refused, RelayConfig, Side, Tuple, is_special};
use crate::Time;
use crate::contract::item::subflow::is_subflow_address;
use core::time::Duration;
use roam6_wire::Prefix;
use roam6_wire::relay::{Answer, Connect, Message, Offer, OfferedRule};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::Ipv6Addr;

/// SYNs that wait for a bearer.
const MAX_WAITING: usize = 256;
/// How long a SYN waits for one; its sender retransmits it after a second (RFC 6298 §2).
const WAITING_TIME: Duration = Duration::from_secs(3);
/// How long the kernel may take to connect a bearer.
const DIAL_TIME: Duration = Duration::from_secs(5);
/// First and longest pause after a bearer could not be connected.
const DIAL_PAUSE: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));
/// How long a new bearer has to last, after one that did not: a relay of another version resets each with its first message.
const STABLE_TIME: Duration = Duration::from_secs(1);
/// How long the sender of a SYN may take to complete the handshake.
const ACCEPT_TIME: Duration = Duration::from_secs(10);
/// How often what has a time limit is looked at.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// A relay.
pub struct Relay {
    config: RelayConfig,
    /// The bearers that carry no connection yet, and those that do.
    pub(super) bearers: BTreeMap<BearerId, Bearer>,
    pub(super) open: BTreeMap<BearerId, Open>,
    /// Whether some of the former have a time limit.
    has_timed: bool,
    pub(super) connections: Connections,
    waiting: VecDeque<(Time, HeldSyn)>,
    homes: BTreeMap<Ipv6Addr, Home>,
    /// The prefixes that are offered, by address and length.
    offers: BTreeMap<(Ipv6Addr, u8), Ipv6Addr>,
    /// Connections for whose Credit there was no idle bearer.
    pub(super) uncredited: VecDeque<BearerId>,
    /// The index of [`Open::credited_on`]: the bearer of a Credit, and the connection that it is for.
    pub(super) credits: BTreeSet<(BearerId, BearerId)>,
    counters: Counters,
    next: u32,
    ready: bool,
    /// The home agent has an offer of this instance.
    introduced: bool,
    dial_pause: Duration,
    dial_at: Time,
    /// When a bearer was connected last, and whether one was lost within [`STABLE_TIME`] of that.
    dialled_at: Time,
    is_unstable: bool,
    swept: Time,
}

/// A bearer that carries a connection.
pub(super) struct Open {
    pub(super) home: Ipv6Addr,
    pub(super) tuple: Tuple,
    /// The bearer on which its Credit was sent.
    pub(super) credited_on: Option<BearerId>,
}

/// A mobile router, at its home agent.
#[derive(Default)]
struct Home {
    instance: Option<u64>,
    bearers: usize,
    prefixes: Vec<Prefix>,
    rules: Vec<OfferedRule>,
}

impl Relay {
    /// A relay without bearers.
    pub fn new(config: RelayConfig) -> Relay {
        Relay {
            config,
            bearers: BTreeMap::new(),
            open: BTreeMap::new(),
            has_timed: false,
            connections: Connections::default(),
            waiting: VecDeque::new(),
            homes: BTreeMap::new(),
            offers: BTreeMap::new(),
            uncredited: VecDeque::new(),
            credits: BTreeSet::new(),
            counters: Counters::default(),
            next: 0,
            ready: false,
            introduced: false,
            dial_pause: DIAL_PAUSE.0,
            dial_at: Time::ZERO,
            dialled_at: Time::ZERO,
            is_unstable: false,
            swept: Time::ZERO,
        }
    }

    /// The counters.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Bearers, those that carry a connection, and those that wait for one.
    pub fn bearers(&self) -> (usize, usize) {
        (self.open.len(), self.bearers.values().filter(|bearer| bearer.is_idle()).count())
    }

    /// SYNs that are held: those that wait for a bearer, and those whose destination has not answered yet.
    pub fn held_syns(&self) -> usize {
        let asked = self.bearers.values().filter(|bearer| matches!(bearer.state, State::Asked { .. }));
        self.waiting.len() + if self.config.early { 0 } else { asked.count() }
    }

    /// The connection of an open bearer, and the home address of its mobile router.
    pub fn connection(&self, id: BearerId) -> Option<(Tuple, Ipv6Addr)> {
        self.open.get(&id).map(|open| (open.tuple, open.home))
    }

    /// When [`Event::Tick`] is due.
    pub fn deadline(&self) -> Option<Time> {
        let sweep = (self.has_timed || !self.waiting.is_empty()).then(|| self.swept + SWEEP_INTERVAL);
        let dial = Some(self.dial_at).filter(|_| self.is_dialler() && self.missing(false) + self.missing(true) > 0);
        [sweep, dial, self.stable_at(), self.connections.deadline()].into_iter().flatten().min()
    }

    /// What a data plane that knows nothing is to know.
    pub fn restore(&self, out: &mut Vec<Effect>) {
        self.connections.restore(out);
        if self.ready {
            out.push(Effect::Ready(true));
        }
        let offers = self.homes.values().filter(|home| !home.prefixes.is_empty());
        out.extend(offers.map(|home| Effect::Offered(home.prefixes.clone(), home.rules.clone())));
    }

    /// The prefixes of a mobile router, or its rules, are others: they are offered on new bearers. Open connections stay.
    pub fn reconfigure(&mut self, now: Time, side: Side, out: &mut Vec<Effect>) {
        if self.config.side == side {
            return;
        }
        self.config.side = side;
        let is_offer = |bearer: &Bearer| bearer.offered && bearer.is_idle();
        let former: Vec<BearerId> = self.bearers.iter().filter(|(_, it)| is_offer(it)).map(|(id, _)| *id).collect();
        former.into_iter().for_each(|id| self.abort(now, id, out));
        self.dial(now, out);
    }

    /// Whether the other relay answers.
    pub fn is_ready(&self) -> bool {
        self.ready
    }

    /// A mobile router has opened a bearer, from this address. `None`: it is to be reset.
    pub fn accept_bearer(&mut self, home: Ipv6Addr, bindings: &dyn Bindings) -> Option<BearerId> {
        let own = self.homes.get(&home).map_or(0, |home| home.bearers);
        let full = self.bearers.len() + self.open.len() >= self.config.max_bearers
            || own >= self.config.max_bearers_per_router;
        if bindings.tunnel_of(home).is_none() || bindings.is_own(home) || is_subflow_address(home) {
            self.counters.refuse(Refused::NoBinding);
            return None;
        }
        if full {
            self.counters.refuse(Refused::Limit);
            return None;
        }
        self.homes.entry(home).or_default().bearers += 1;
        Some(self.add(home, false, State::Idle))
    }

    /// Handles an event.
    pub fn handle(&mut self, now: Time, event: Event, bindings: &dyn Bindings, out: &mut Vec<Effect>) {
        let frees = matches!(event, Event::Dialled(_) | Event::Answered(..) | Event::Message(_, Message::Offer(_)));
        match event {
            Event::Dialled(id) => self.dialled(now, id, out),
            Event::Message(id, Message::Connect(connect)) => self.asked(now, id, connect, bindings, out),
            Event::Message(id, Message::Offer(offer)) => self.offered(now, id, offer, bindings, out),
            Event::Message(id, Message::Credit(connection)) => self.credited(now, id, &connection, out),
            Event::Malformed(id) => self.reject(now, id, out),
            Event::Answered(id, answer) => self.answered(now, id, answer, out),
            Event::Syn(syn) => self.hold(now, syn, bindings, out),
            Event::Accepted(tuple) => self.accepted(tuple, out),
            Event::Connected(id) => self.connected(id, out),
            Event::ConnectFailed(id, answer) => self.connect_failed(id, answer, out),
            Event::Taken(id) => self.taken(id, out),
            Event::Completed(id) => self.end(now, id, out),
            Event::Broken(id) => self.broken(now, id, out),
            Event::Tick => {}
        }
        if frees {
            self.retry_credits(out);
        }
        self.sweep(now, out);
        self.dial(now, out);
        let timed = |bearer: &Bearer| matches!(bearer.state, State::Dialling(_) | State::Accepting(..));
        self.has_timed = self.bearers.values().any(timed);
    }

    fn is_dialler(&self) -> bool {
        matches!(self.config.side, Side::MobileRouter { .. })
    }

    fn add(&mut self, home: Ipv6Addr, offered: bool, state: State) -> BearerId {
        let id = BearerId(self.next);
        self.next = self.next.wrapping_add(1);
        self.bearers.insert(id, Bearer { home, offered, state });
        id
    }

    /// Bearers of one kind that are to be opened.
    fn missing(&self, offered: bool) -> usize {
        let waits =
            |bearer: &&Bearer| bearer.offered == offered && matches!(bearer.state, State::Idle | State::Dialling(_));
        let wanted = match (offered, &self.config.side) {
            (false, _) if !self.introduced || self.is_unstable => 0,
            (false, _) => self.config.spare + self.waiting.len(),
            (true, _) if !self.introduced || self.is_unstable => 1,
            (true, Side::MobileRouter { offered, .. }) if offered.iter().all(|rule| !rule.bonded) => 1,
            (true, _) => self.config.spare,
        };
        let room = self.config.max_bearers.saturating_sub(self.bearers.len() + self.open.len());
        wanted.saturating_sub(self.bearers.values().filter(waits).count()).min(room)
    }

    /// Opens bearers. The first is an offer, by which bearers of earlier instances end at the home agent.
    fn dial(&mut self, now: Time, out: &mut Vec<Effect>) {
        if !self.is_dialler() || now < self.dial_at {
            return;
        }
        for offered in [true, false] {
            for _ in 0..self.missing(offered) {
                let id = self.add(Ipv6Addr::UNSPECIFIED, offered, State::Dialling(now));
                out.push(Effect::Dial(id));
            }
        }
    }

    fn dialled(&mut self, now: Time, id: BearerId, out: &mut Vec<Effect>) {
        let Some(bearer) = self.bearers.get_mut(&id).filter(|it| matches!(it.state, State::Dialling(_))) else {
            return;
        };
        bearer.state = State::Idle;
        self.dialled_at = now;
        if bearer.offered {
            let Side::MobileRouter { prefixes, offered } = &self.config.side else { return };
            let offer = Offer { instance: self.config.instance, prefixes: prefixes.clone(), rules: offered.clone() };
            self.introduced = true;
            out.push(Effect::Send(id, Message::Offer(offer)));
        } else if let Some((_, syn)) = self.waiting.pop_front() {
            self.ask(id, syn, out);
        }
        if !self.is_unstable {
            self.other_relay_answers(out);
        }
    }

    fn other_relay_answers(&mut self, out: &mut Vec<Effect>) {
        self.dial_pause = DIAL_PAUSE.0;
        if !std::mem::replace(&mut self.ready, true) {
            out.push(Effect::Ready(true));
        }
    }

    fn has_idle(&self) -> bool {
        self.bearers.values().any(Bearer::is_idle)
    }

    /// When the present bearers have lasted, after others that did not.
    fn stable_at(&self) -> Option<Time> {
        (self.is_unstable && self.has_idle()).then(|| self.dialled_at + STABLE_TIME)
    }

    /// A bearer was reset, or has failed.
    fn broken(&mut self, now: Time, id: BearerId, out: &mut Vec<Effect>) {
        let is_idle = self.bearers.get(&id).is_some_and(Bearer::is_idle);
        self.abort(now, id, out);
        if self.is_dialler() && is_idle && !self.is_alive() && now < self.dialled_at + STABLE_TIME {
            self.is_unstable = true;
            self.pause_dialling(now);
        }
    }

    /// Whether there is a bearer at all.
    fn is_alive(&self) -> bool {
        let works = |bearer: &Bearer| !matches!(bearer.state, State::Dialling(_));
        !self.open.is_empty() || self.bearers.values().any(works)
    }

    fn pause_dialling(&mut self, now: Time) {
        self.dial_at = now + self.dial_pause;
        self.dial_pause = (self.dial_pause * 2).min(DIAL_PAUSE.1);
    }

    /// A SYN is held: the other relay is asked.
    fn hold(&mut self, now: Time, syn: HeldSyn, bindings: &dyn Bindings, out: &mut Vec<Effect>) {
        let waits = self.waiting.iter().any(|(_, held)| held.tuple == syn.tuple);
        if waits || self.connections.bearer_of(&syn.tuple).is_some() {
            return;
        }
        if let Some(id) = self.idle_bearer(&syn.tuple, bindings) {
            self.ask(id, syn, out);
        } else if self.is_dialler() && self.waiting.len() < MAX_WAITING {
            self.waiting.push_back((now, syn));
        } else {
            self.counters.left_alone += 1;
            self.connections.leave_alone(now, syn.tuple, out);
        }
    }

    /// A bearer that waits for such a connection.
    fn idle_bearer(&self, tuple: &Tuple, bindings: &dyn Bindings) -> Option<BearerId> {
        if self.is_dialler() {
            return self.idle_bearer_to(Ipv6Addr::UNSPECIFIED);
        }
        let (_, home) = self.offers.range(..=(tuple.destination, u8::MAX)).next_back()?;
        if bindings.tunnel_of(*home)? != bindings.tunnel_of(tuple.destination)? {
            return None;
        }
        self.idle_bearer_to(*home)
    }

    /// An idle bearer on which this relay asks: at a home agent, one of the mobile router with this home address.
    pub(super) fn idle_bearer_to(&self, home: Ipv6Addr) -> Option<BearerId> {
        let offered = !self.is_dialler();
        let mut idle = self.bearers.iter().filter(|(_, it)| it.offered == offered && it.home == home && it.is_idle());
        idle.next().map(|(id, _)| *id)
    }

    fn ask(&mut self, id: BearerId, syn: HeldSyn, out: &mut Vec<Effect>) {
        out.push(Effect::Send(id, Message::Connect(syn.tuple.connect(syn.traffic_class))));
        if self.config.early {
            self.connections.activate(syn.tuple, id, out);
            out.push(Effect::Inject(syn.clone()));
        } else {
            self.connections.reserve(syn.tuple, id);
        }
        if let Some(bearer) = self.bearers.get_mut(&id) {
            bearer.state = State::Asked { syn, accepted: false };
        }
    }

    fn answered(&mut self, now: Time, id: BearerId, answer: Answer, out: &mut Vec<Effect>) {
        let Some(bearer) = self.bearers.get_mut(&id) else { return };
        let State::Asked { syn, accepted } = &bearer.state else {
            return self.reject(now, id, out);
        };
        let (syn, accepted, tuple) = (syn.clone(), *accepted, syn.tuple);
        let is_refusal = !matches!(answer, Answer::ResourceExceeded | Answer::NotAuthorized);
        match answer {
            Answer::Connected if accepted => self.join(id, tuple, out),
            Answer::Connected => {
                bearer.state = State::Accepting(tuple, now);
                if !self.config.early {
                    self.connections.activate(tuple, id, out);
                    out.push(Effect::Inject(syn));
                }
            }
            _ if self.config.early => {
                bearer.state = State::Idle;
                *if is_refusal { &mut self.counters.refused_by_destination } else { &mut self.counters.reset } += 1;
                self.connections.close(now, tuple, id, out);
                out.extend(accepted.then_some(Effect::ResetAccepted(tuple)));
            }
            refused if is_refusal => {
                bearer.state = State::Idle;
                self.counters.refused_by_destination += 1;
                self.connections.release(&tuple, id, out);
                out.push(Effect::Refuse(syn, refused));
            }
            // The other relay does not want it: it is what it would be without relays.
            _ => {
                bearer.state = State::Idle;
                self.counters.left_alone += 1;
                self.connections.leave_alone(now, tuple, out);
            }
        }
    }

    /// With early acceptance the refusal may have come first: the connection has no bearer then.
    fn accepted(&mut self, tuple: Tuple, out: &mut Vec<Effect>) {
        let id = self.connections.bearer_of(&tuple);
        let bearer = id.and_then(|id| Some((id, self.bearers.get_mut(&id)?)));
        match bearer.map(|(id, bearer)| (id, &mut bearer.state)) {
            Some((id, State::Accepting(..))) => self.join(id, tuple, out),
            Some((_, State::Asked { accepted, .. })) if self.config.early => *accepted = true,
            _ => out.push(Effect::ResetAccepted(tuple)),
        }
    }

    /// Whether the other relay may ask on this bearer now: the mobile router is asked on its offers only, and asks on all others.
    pub(super) fn is_asked_on(&self, bearer: &Bearer) -> bool {
        bearer.is_idle() && bearer.offered == self.is_dialler()
    }

    /// The other relay asks for a connection to a destination.
    fn asked(&mut self, now: Time, id: BearerId, connect: Connect, bindings: &dyn Bindings, out: &mut Vec<Effect>) {
        let Some(bearer) = self.bearers.get(&id) else { return };
        if !self.is_asked_on(bearer) {
            return self.reject(now, id, out);
        }
        let tuple = Tuple::answering(&connect);
        let refused = self.refusal(bearer.home, &connect, bindings);
        if let Some(why) = refused {
            self.counters.refuse(why);
            return out.push(Effect::Reply(id, why.answer()));
        }
        if self.connections.bearer_of(&tuple).is_some() {
            return out.push(Effect::Reply(id, Answer::ResourceExceeded));
        }
        self.connections.activate(tuple, id, out);
        if let Some(bearer) = self.bearers.get_mut(&id) {
            bearer.state = State::Connecting(tuple);
        }
        out.push(Effect::Connect(id, connect));
    }

    /// Why a connection may not be made.
    fn refusal(&self, home: Ipv6Addr, connect: &Connect, bindings: &dyn Bindings) -> Option<Refused> {
        let Connect { source, destination, .. } = *connect;
        let no_port = connect.destination_port == 0 || connect.source_port == 0;
        if source.to_ipv4_mapped().is_some() != destination.to_ipv4_mapped().is_some() || is_special(source) || no_port
        {
            return Some(Refused::Source);
        }
        let forbidden = is_special(destination) || bindings.is_own(destination);
        if forbidden {
            return Some(Refused::Destination);
        }
        match &self.config.side {
            Side::HomeAgent => {
                let tunnel = bindings.tunnel_of(home);
                if tunnel.is_none() || tunnel != bindings.tunnel_of(source) || bindings.is_own(source) {
                    return Some(Refused::Source);
                }
                (tunnel == bindings.tunnel_of(destination)).then_some(Refused::Destination)
            }
            Side::MobileRouter { prefixes, .. } => {
                let inside = |address| prefixes.iter().any(|prefix| prefix.contains(address));
                if inside(source) || bindings.is_own(source) {
                    return Some(Refused::Source);
                }
                (!inside(destination)).then_some(Refused::Destination)
            }
        }
    }

    fn offered(&mut self, now: Time, id: BearerId, offer: Offer, bindings: &dyn Bindings, out: &mut Vec<Effect>) {
        let dialler = self.is_dialler();
        let Some(bearer) = self.bearers.get_mut(&id) else { return };
        if dialler || bearer.offered || !bearer.is_idle() {
            return self.reject(now, id, out);
        }
        bearer.offered = true;
        let address = bearer.home;
        let tunnel = bindings.tunnel_of(address);
        let is_bound = |prefix: &Prefix| bindings.tunnel_of(prefix.address()) == tunnel;
        // A home agent may have granted no IPv4: connections of IPv6 are relayed all the same.
        let prefixes: Vec<Prefix> = offer.prefixes.into_iter().filter(|it| !it.is_ipv4() || is_bound(it)).collect();
        if tunnel.is_none() || !prefixes.iter().all(is_bound) {
            self.counters.refuse(Refused::Source);
            return self.abort(now, id, out);
        }
        let home = self.homes.entry(address).or_default();
        let is_same_instance = home.instance.replace(offer.instance) == Some(offer.instance);
        if is_same_instance && home.prefixes == prefixes && home.rules == offer.rules {
            return;
        }
        let former = std::mem::replace(&mut home.prefixes, prefixes.clone());
        home.rules.clone_from(&offer.rules);
        let waiting = self.bearers.iter().map(|(id, bearer)| (*id, bearer.home));
        let all = waiting.chain(self.open.iter().map(|(id, open)| (*id, open.home)));
        let dead: Vec<BearerId> = all
            .filter(|(other, home)| !is_same_instance && *other < id && *home == address)
            .map(|(id, _)| id)
            .collect();
        dead.into_iter().for_each(|id| self.abort(now, id, out));
        self.offers.retain(|_, home| *home != address);
        out.push(Effect::Withdrawn(former));
        self.offers.extend(prefixes.iter().map(|prefix| ((prefix.address(), prefix.length()), address)));
        out.push(Effect::Offered(prefixes, offer.rules));
    }

    fn connected(&mut self, id: BearerId, out: &mut Vec<Effect>) {
        if let Some(State::Connecting(tuple)) = self.bearers.get(&id).map(|bearer| &bearer.state) {
            let tuple = *tuple;
            out.push(Effect::Reply(id, Answer::Connected));
            self.join(id, tuple, out);
        }
    }

    /// Begins to move octets.
    fn join(&mut self, id: BearerId, tuple: Tuple, out: &mut Vec<Effect>) {
        let Some(bearer) = self.bearers.remove(&id) else { return };
        self.open.insert(id, Open { home: bearer.home, tuple, credited_on: None });
        self.counters.relayed += 1;
        out.push(Effect::Join(id, tuple));
    }

    fn connect_failed(&mut self, id: BearerId, answer: Answer, out: &mut Vec<Effect>) {
        let Some(bearer) = self.bearers.get_mut(&id) else { return };
        if let State::Connecting(tuple) = bearer.state {
            bearer.state = State::Idle;
            self.counters.refused_by_destination += 1;
            self.connections.release(&tuple, id, out);
            out.push(Effect::Reply(id, answer));
        }
    }

    /// The other relay has sent what it may not.
    pub(super) fn reject(&mut self, now: Time, id: BearerId, out: &mut Vec<Effect>) {
        self.counters.malformed += 1;
        self.abort(now, id, out);
    }

    fn abort(&mut self, now: Time, id: BearerId, out: &mut Vec<Effect>) {
        match self.bearers.get(&id).map(|bearer| &bearer.state) {
            None if !self.open.contains_key(&id) => return,
            None => self.counters.reset += 1,
            // The other relay is gone: so is what the destination would have answered.
            Some(State::Asked { syn, .. }) if !self.config.early => {
                out.push(Effect::Refuse(syn.clone(), Answer::Reset));
            }
            Some(State::Dialling(_)) => {
                self.pause_dialling(now);
            }
            _ => {}
        }
        out.push(Effect::Abort(id));
        self.end(now, id, out);
    }

    fn end(&mut self, now: Time, id: BearerId, out: &mut Vec<Effect>) {
        let home = match (self.open.remove(&id), self.bearers.remove(&id)) {
            (Some(open), _) => {
                if let Some(via) = open.credited_on {
                    self.credits.remove(&(via, id));
                }
                self.connections.close(now, open.tuple, id, out);
                open.home
            }
            (None, Some(bearer)) => {
                self.recall_credits(id);
                match bearer.state {
                    State::Asked { syn, .. } if !self.config.early => self.connections.release(&syn.tuple, id, out),
                    State::Asked { syn, accepted } => {
                        self.connections.close(now, syn.tuple, id, out);
                        out.extend(accepted.then_some(Effect::ResetAccepted(syn.tuple)));
                    }
                    state => state.tuple().into_iter().for_each(|tuple| self.connections.close(now, tuple, id, out)),
                }
                bearer.home
            }
            (None, None) => return,
        };
        if self.is_dialler() {
            let alive = self.is_alive();
            if !alive && std::mem::take(&mut self.ready) {
                out.push(Effect::Ready(false));
            }
            self.introduced &= alive;
        } else if let Some(entry) = self.homes.get_mut(&home) {
            entry.bearers = entry.bearers.saturating_sub(1);
            if entry.bearers == 0 {
                let prefixes = self.homes.remove(&home).map(|entry| entry.prefixes).unwrap_or_default();
                self.offers.retain(|_, owner| *owner != home);
                out.push(Effect::Withdrawn(prefixes));
            }
        }
    }

    /// What has taken too long.
    fn sweep(&mut self, now: Time, out: &mut Vec<Effect>) {
        self.connections.expire(now, out);
        if self.stable_at().is_some_and(|at| at <= now) {
            self.is_unstable = false;
            self.other_relay_answers(out);
        }
        if now < self.swept + SWEEP_INTERVAL {
            return;
        }
        self.swept = now;
        while let Some((_, syn)) = self.waiting.pop_front_if(|(since, _)| *since + WAITING_TIME <= now) {
            self.counters.left_alone += 1;
            self.connections.leave_alone(now, syn.tuple, out);
        }
        let late = |bearer: &Bearer| match bearer.state {
            State::Dialling(since) => since + DIAL_TIME <= now,
            State::Accepting(_, since) => since + ACCEPT_TIME <= now,
            _ => false,
        };
        let late: Vec<BearerId> = self.bearers.iter().filter(|(_, it)| late(it)).map(|(id, _)| *id).collect();
        late.into_iter().for_each(|id| self.abort(now, id, out));
    }
}
