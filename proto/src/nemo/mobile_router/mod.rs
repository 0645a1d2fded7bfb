//! The mobile router: follows its uplinks from network to network and keeps its home agent, its tunnel and the nodes
//! inside in step (RFC 3963 §5, RFC 6275 §11, RFC 5648 §5, RFC 5555 §4).

pub mod acknowledgement;
mod assignment;
mod both;
mod care_of_prefix;
mod carried;
mod diagnosis;
pub mod discovery;
mod failover;
mod flows;
pub mod forwarding;
pub mod held;
mod home;
pub mod home_prefix;
mod ingress;
mod inheritance;
mod ipv4_home;
mod modes;
mod order;
mod packet;
pub mod path_mtu;
pub mod probe;
pub mod registration;
mod resolvers;
pub mod scenario;
pub mod update;
pub mod uplink;
mod view;

use crate::base::few;
use crate::base::ids::LinkId;
use crate::base::rng::Entropy;
use crate::base::time::Time;
use crate::base::token_bucket::TokenBucket;
use crate::contract::config::nemo::{HomeNetwork, MobileRouterConfig, LoadSharing};
use crate::contract::engine::{Engine, Outbox};
use crate::contract::input::{AddressState, Input, LinkEvent};
use crate::contract::output::Transmit;
use crate::contract::report::{LossReason, Report};
use crate::contract::view::View;
use crate::crypto::authenticator::{Timestamp, WallClock};
use crate::nemo::OLD_PATH_LINGER;
use care_of_prefix::Source;
use carried::Carriage;
use core::time::Duration;
use diagnosis::Diagnosis;
use discovery::{HOLD, HomeAgents};
use failover::Failover;
use flows::FlowAnswers;
use forwarding::Left;
use held::Held;
use home::HomeLink;
use home_prefix::HomePrefixes;
use ingress::Inside;
use inheritance::Inheritance;
use ipv4_home::Ipv4Home;
use modes::Modes;
use probe::{Change, Probe};
use registration::{CareOf, Place, Registration, Wanted};
use roam6_wire::mobility::Status;
use roam6_wire::{Bid, Sequence};
use std::net::Ipv6Addr;
use uplink::{Policy, Uplink};

/// Paths left a moment ago that still receive; the oldest makes room.
pub const MAX_LEFT: usize = 8;
/// Interfaces remembered in case a new configuration names them.
pub const MAX_INTERFACES: usize = 256;
/// Unauthenticated hints to register anew (Binding Refresh Request, Binding Error) heeded: one each interval.
const HINT_INTERVAL: Duration = Duration::from_secs(3);

/// The engine of a mobile router.
#[derive(Debug, Clone)]
pub struct MobileRouter {
    config: MobileRouterConfig,
    entropy: Entropy,
    clock: WallClock,
    /// The last timestamp sent: the next is later (RFC 4285 §6).
    stamped: Option<Timestamp>,
    /// ESP sequence number last sent (RFC 4303 §2.2).
    sealed: u32,
    uplinks: Vec<Uplink>,
    /// Where each uplink's prefixes for the nodes inside come from.
    sources: few::VecMap<Bid, Source>,
    ingress: Vec<Inside>,
    agents: HomeAgents,
    registration: Registration,
    diagnosis: Diagnosis,
    home: Option<HomeLink>,
    home_prefixes: HomePrefixes,
    left: Vec<Left>,
    held: Held,
    hints: TokenBucket,
    failover: Failover,
    /// A binding may exist: one was acknowledged, asked for, or an earlier life remembered.
    known: bool,
    /// Somebody has answered, or nobody needs to: from now on the tunnel is managed. An earlier life's forwards until then.
    begun: bool,
    inheritance: Option<Inheritance>,
    /// The home agent in use does not know RFC 5648.
    single: bool,
    /// The home agent in use does not want us at home and away at once.
    apart: bool,
    modes: Modes,
    /// How an IPv4-only uplink's packets are carried.
    carriage: Carriage,
    ipv4_home: Ipv4Home,
    flow_answers: FlowAnswers,
    /// Prefixes the home agent refused are not advertised inside (RFC 3963 §5.4.3).
    refused: bool,
    stopping: bool,
    /// Every interface of the host as last heard, by name.
    interfaces: few::VecMap<String, LinkEvent>,
    /// Largest packet the nodes inside are told of, octets.
    inside_mtu: Option<u32>,
    /// Proves that an echo answers a probe of ours.
    cookie: u64,
    /// The time of the last input.
    now: Time,
}

impl MobileRouter {
    /// A mobile router that knows nothing yet but its configuration.
    pub fn new(config: MobileRouterConfig, mut entropy: Entropy) -> MobileRouter {
        let sequence = Sequence(u16::try_from(entropy.below(1 << 16)).unwrap_or_default());
        MobileRouter {
            uplinks: config.uplinks.iter().cloned().map(Uplink::new).collect(),
            sources: few::VecMap::new(),
            ingress: config.ingress.iter().cloned().map(Inside::new).collect(),
            agents: HomeAgents::new(&config.home_agents),
            registration: Registration::new(sequence),
            diagnosis: Diagnosis::default(),
            modes: Modes::new(config.prefix_mode),
            config,
            cookie: entropy.next_u64(),
            entropy,
            clock: WallClock::default(),
            stamped: None,
            sealed: 0,
            home: None,
            home_prefixes: HomePrefixes::default(),
            left: Vec::new(),
            held: Held::default(),
            hints: TokenBucket::new(1, HINT_INTERVAL),
            failover: Failover::default(),
            known: false,
            begun: false,
            inheritance: None,
            single: false,
            apart: false,
            carriage: Carriage::default(),
            ipv4_home: Ipv4Home::default(),
            flow_answers: FlowAnswers::default(),
            refused: false,
            stopping: false,
            interfaces: few::VecMap::new(),
            inside_mtu: None,
            now: Time::ZERO,
        }
    }

    fn hear_link(&mut self, now: Time, event: &LinkEvent, out: &mut Outbox) {
        if self.interfaces.len() < MAX_INTERFACES || self.interfaces.contains_key(&event.name) {
            self.interfaces.insert(event.name.clone(), event.clone());
        }
        if let Some(uplink) = self.uplinks.iter_mut().find(|uplink| uplink.config.interface == event.name) {
            uplink.hear_link(now, event, (self.config.home_prefix, &mut self.entropy), out);
        } else if let Some(inside) = self.ingress.iter_mut().find(|inside| inside.config.interface == event.name) {
            inside.hear_link(event);
        }
    }

    fn uplink_on(&mut self, link: LinkId) -> Option<&mut Uplink> {
        self.uplinks.iter_mut().find(|uplink| uplink.up() == Some(link))
    }

    /// Another node has the address `address` on `link`.
    fn hear_duplicate(&mut self, now: Time, link: LinkId, address: Ipv6Addr, out: &mut Outbox) {
        let detection = self.config.duplicate_detection;
        let policy = Policy { detection, entropy: &mut self.entropy, own: &self.config.prefixes };
        if let Some(uplink) = self.uplinks.iter_mut().find(|uplink| uplink.up() == Some(link)) {
            uplink.conflict(now, address, policy, out);
        }
    }

    /// Everything that is due at `now`; the probes that are.
    fn expire(&mut self, now: Time, out: &mut Outbox) -> Vec<Probe> {
        for uplink in &mut self.uplinks {
            uplink.expire(now, out);
            uplink.leave_dead_router(now);
        }
        let probes = self.expire_probes(now, out);
        for inside in &mut self.ingress {
            inside.expire(now, &mut self.entropy, out);
        }
        self.left.retain(|left| left.until > now);
        if let Some(binding) = self.registration.expire(now) {
            let home_agent = binding.wanted.home_agent;
            out.report(Report::Unbound { home_agent, why: LossReason::Expired.to_string() });
            self.registration.hasten(now);
        }
        if self.registration.is_unanswered() && self.agents.has_other() && !self.is_binding_proven() {
            self.leave_unanswering(now, out);
        }
        self.watch_home_agent(now);
        self.expire_home(now, out);
        probes
    }

    /// Brings everything in line with what is now known: addresses, then the home agent, then the host.
    fn settle(&mut self, now: Time, out: &mut Outbox) {
        for uplink in &mut self.uplinks {
            let physical = self.config.home_network == HomeNetwork::Physical;
            let home = (self.config.home_address, Some(self.config.home_prefix).filter(|_| physical));
            let (detection, own) = (self.config.duplicate_detection, &self.config.prefixes);
            let policy = Policy { detection, entropy: &mut self.entropy, own };
            uplink.settle(now, home, policy, out);
            if uplink.formed.is_some() && uplink.prober.take_doubt() {
                self.registration.doubt(now);
            }
        }
        self.settle_carried(now, out);
        self.settle_home(now, out);
        let mut messages: Vec<_> = self.expire_discovery(now).into_iter().collect();
        let wanted = self.wanted(now);
        if self.registration.settle(now, wanted.as_ref())
            && let Some(wanted) = wanted
        {
            self.known = true;
            if wanted.care_of().is_empty() {
                self.tell_home();
            }
            messages.extend(self.update(now, &wanted, out));
        }
        messages.extend(self.expire_farewell(now, out));
        self.settle_sources(now, out);
        // What nodes are told they act on at once: the way they turn to stands by then.
        let mut told = Outbox::new();
        self.settle_inside(now, &mut told);
        let plan = self.plan();
        self.held.put(now, &plan, out);
        out.append(&mut told);
        for message in messages {
            out.transmit(message);
        }
        self.expire_home_prefixes(now, out);
        self.held.drop(&plan, out);
    }

    /// What the home agent is to hold now; `None` while there is nothing to tell or nobody to tell it to.
    fn wanted(&self, now: Time) -> Option<Wanted> {
        let home_agent = self.agents.current(now)?;
        if let Some(home) = self.home.as_ref().filter(|_| !self.is_away_too()) {
            let reachable = home.home_agent.is_some() && self.known && !home.done;
            return reachable.then_some(Wanted { home_agent, place: Place::Home { link: home.link } });
        }
        if self.is_gathering(now) {
            return None;
        }
        let mut care_of = self.candidates();
        let multiple = self.config.load_sharing != LoadSharing::Single && !self.single;
        if !multiple {
            care_of.truncate(1);
            care_of.iter_mut().for_each(|care_of| care_of.bid = Bid(0));
        }
        (!care_of.is_empty()).then_some(Wanted { home_agent, place: Place::Away { care_of, multiple } })
    }

    /// Care-of addresses worth registering, best first. A path that does not answer is left out as long as another
    /// does; if none does the home agent is at fault, and what it holds stays.
    fn candidates(&self) -> Vec<CareOf> {
        let mut usable: Vec<&Uplink> = self.uplinks.iter().filter(|up| self.care_of_on(up).is_some()).collect();
        let registered = |uplink: &&Uplink| {
            let held = self.registration.binding().map(|binding| binding.care_of()).unwrap_or_default();
            self.care_of_on(uplink).is_some_and(|mine| held.iter().any(|care_of| care_of.address == mine.address))
        };
        if usable.iter().any(|uplink| !uplink.prober.is_silent()) {
            usable.retain(|uplink| !uplink.prober.is_silent());
        } else if usable.iter().any(registered) {
            usable.retain(registered);
        }
        usable.sort_by_key(|uplink| uplink.config.priority);
        let mut candidates = usable.iter().filter_map(|uplink| self.care_of_on(uplink)).collect();
        Self::of_one_family(&mut candidates);
        candidates
    }

    /// Turns to the next home agent; after the last one nobody is asked for `pause`.
    fn next_home_agent(&mut self, now: Time, why: &str, pause: Duration, out: &mut Outbox) {
        if let Some(home_agent) = self.agents.in_use() {
            out.report(Report::Unbound { home_agent, why: why.to_owned() });
        }
        self.registration.drop_pending();
        self.registration.drop_binding();
        self.failover.forget();
        (self.single, self.apart) = (false, false);
        self.agents.next(now, pause);
    }

    /// A home agent does not serve us: the next one is asked, then all in the other mode if a status gave hope for it;
    /// then the matter rests, and is logged (RFC 3963 §5.4).
    pub(super) fn refused_by(&mut self, now: Time, status: Status, out: &mut Outbox) {
        if self.abandon_trial(now) {
            return;
        }
        self.refused |= self.modes.hear(status);
        self.next_home_agent(now, &status.to_string(), HOLD, out);
        if !self.agents.is_round_over() {
            return;
        }
        if self.modes.turn() {
            self.agents.begin_round(now);
        } else if (Status::MOBILE_ROUTER_NOT_PERMITTED.0..=Status::FORWARDING_SETUP_FAILED.0).contains(&status.0) {
            self.agents.rest(now);
            let text = format!("no home agent serves this mobile router, the last for status {status}");
            out.report(Report::Notice { text });
        }
    }

    /// Keeps receiving on the paths of `before` that are not in the binding any more (RFC 6275 §11.5.5).
    fn linger(&mut self, now: Time, before: &[CareOf]) {
        let held = self.registration.binding().map(|binding| binding.care_of().to_vec()).unwrap_or_default();
        for care_of in before.iter().filter(|care_of| !care_of.home) {
            if held.iter().all(|other| other.address != care_of.address) {
                if self.left.len() >= MAX_LEFT {
                    self.left.remove(0);
                }
                self.left.push(Left { care_of: *care_of, until: now + OLD_PATH_LINGER });
            }
        }
        self.left.retain(|left| held.iter().all(|care_of| care_of.address != left.care_of.address));
    }

    /// Whether probes through the tunnel prove that the home agent holds what an update would only refresh.
    fn is_binding_proven(&self) -> bool {
        let Some(binding) = self.registration.binding().filter(|_| self.config.probe.is_some()) else { return false };
        let answers = |care_of: &CareOf| self.uplink_of(care_of).is_some_and(|uplink| !uplink.prober.is_silent());
        self.registration.is_refreshing(binding.wanted.home_agent) && binding.care_of().iter().any(answers)
    }

    fn report_path(&self, bid: Bid, change: Change, out: &mut Outbox) {
        let uplink = self.uplinks.iter().find(|uplink| uplink.config.bid == bid);
        let at_home = uplink.and_then(|uplink| self.care_of_on(uplink)).map(|care_of| care_of.address.0);
        let formed = uplink.and_then(|uplink| uplink.formed.as_ref()).map(|formed| formed.address.0);
        let Some(care_of) = at_home.or(formed) else {
            return;
        };
        out.report(match change {
            Change::Silent => Report::PathDown { bid, care_of, why: LossReason::ProbesLost },
            Change::Answers => Report::PathUp { bid, care_of },
        });
    }

    /// Whether paths are probed: at home only if those elsewhere may come to use.
    pub(super) fn is_probing(&self) -> bool {
        (self.home.is_none() || self.may_be_both()) && self.agents.in_use().is_some()
    }

    fn expire_probes(&mut self, now: Time, out: &mut Outbox) -> Vec<Probe> {
        let mut due = Vec::new();
        let Some(config) = self.config.probe.filter(|_| self.is_probing()) else {
            return due;
        };
        for index in 0..self.uplinks.len() {
            let known = self.uplinks.get(index).filter(|uplink| self.is_probed(uplink));
            let care_of = known.and_then(|uplink| self.care_of_on(uplink));
            let Some(uplink) = self.uplinks.get_mut(index).filter(|_| care_of.is_some()) else {
                continue;
            };
            let missed = uplink.prober.has_missed_one();
            let bid = uplink.config.bid;
            let Some((sequence, change)) = uplink.prober.expire(now, config) else {
                continue;
            };
            due.push(Probe { bid, sequence });
            if missed {
                self.hear_missed(now, care_of);
            }
            if let Some(change) = change {
                self.report_path(bid, change, out);
                self.hear_silence(now, (bid, change == Change::Silent));
            }
        }
        due
    }

    /// Sends the probes that are due, once their source addresses stand.
    fn send_probes(&self, due: &[Probe], out: &mut Outbox) {
        for probe in due {
            let uplink = self.uplinks.iter().find(|uplink| uplink.config.bid == probe.bid);
            if let Some(message) = uplink.and_then(|uplink| self.echo(uplink, probe.sequence)) {
                out.transmit(message);
            }
        }
    }

    /// The question for home agents, if it is time to ask.
    fn expire_discovery(&mut self, now: Time) -> Option<Transmit> {
        let native = |care_of: &&CareOf| !care_of.home && care_of.ipv4().is_none();
        let care_of = self.candidates().iter().find(native).copied()?;
        let fresh = u16::try_from(self.entropy.next_u64() >> 48).unwrap_or_default();
        let identifier = self.agents.expire(now, care_of.address, fresh)?;
        Some(self.discovery_request(care_of, identifier))
    }
}

impl Engine for MobileRouter {
    fn handle(&mut self, now: Time, input: &Input, out: &mut Outbox) {
        self.now = now;
        if self.stopping {
            return;
        }
        match input {
            Input::Tick
            | Input::Route(_)
            | Input::Subflow(_)
            | Input::Flow(_)
            | Input::Activity(_)
            | Input::Frame(_)
            | Input::Fix(_) => {}
            Input::Packet(packet) => self.hear_packet(now, packet, out),
            Input::Link(event) => self.hear_link(now, event, out),
            Input::Address(event) if event.state == AddressState::DadFailed => {
                self.hear_duplicate(now, event.link, event.address, out);
            }
            Input::Address(event) => self.hear_ipv4_address(event),
            Input::Neighbour(event) => {
                self.relay_neighbour(now, event, out);
                if !event.reachable
                    && let Some(attachment) = self.uplink_on(event.link).and_then(|uplink| uplink.attachment.as_mut())
                {
                    attachment.drop_router(now, event.address, LossReason::Unreachable, out);
                }
            }
            Input::Outcome(outcome) => self.held.hear(now, outcome, out),
            Input::Clock(clock) => self.clock.put(now, clock.unix_micros),
            Input::Command(order) => self.obey(now, order, out),
        }
        if self.stopping {
            return;
        }
        let probes = self.expire(now, out);
        let sized = self.expire_searches(now, out);
        self.settle(now, out);
        self.send_probes(&probes, out);
        self.probe_alternates(&probes, out);
        for message in sized {
            out.transmit(message);
        }
        self.diagnose(now, out);
    }

    fn deadline(&self) -> Option<Time> {
        self.next_deadline()
    }

    fn takeover_complete(&self) -> bool {
        self.is_heir_settled()
    }

    fn view(&self, now: Time, view: &mut View) {
        self.show(now, view);
    }
}

#[cfg(test)]
mod tests;
