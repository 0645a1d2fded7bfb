//! Shim6 for multihomed hosts: connections survive the loss of a path (RFC 5533), failure detection by REAP (RFC 5534).
//!
//! `dispatch` finds the context of a received message (RFC 5533 §12.4) and hands the message to `handshake` (§7),
//! `update` (§10) or `reap` (RFC 5534). `proof` verifies a peer's locators before any state changes.

mod addresses;
mod context;
mod dispatch;
mod errors;
mod eviction;
mod exploration;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzz;
mod handshake;
mod keepalive;
mod messages;
mod proof;
mod reap;
mod switch;
mod switch_attempt;
#[cfg(test)]
mod tests;
mod update;
mod uplinks;
mod validator;
mod view;

use crate::contract::command::{LifecycleCommand, ShimCommand};
use crate::contract::config::shim::ShimConfig;
use crate::contract::item::{MAX_LOCATORS, ShimContext, ShimUplink};
use crate::contract::report::{LinkReport, ShimReport};
use crate::{
    ActivityQuery, AddressEvent, AddressPair, Command, ContextId, DesiredState, Engine, Entropy, FlowEvent, Input,
    Item, Key, LinkEvent, LinkId, Outbox, Outcome, Time, TimerQueue, TokenBucket, Transmit, VecMap, Via, View,
};
use addresses::{Addresses, Environment};
use context::{Context, ContextIndex, Contexts};
use core::time::Duration;
use derive_more::Display;
use proof::Identities;
use roam6_wire::ip6::{self, Header};
use roam6_wire::shim6::{self, Fork, Message};
use std::net::Ipv6Addr;
use uplinks::Uplinks;
use validator::Validators;

/// Peers in holddown at once; the entry that expires first is replaced.
pub const MAX_HOLDDOWNS: usize = 1024;
/// NO_R1_HOLDDOWN_TIME (RFC 5533 §14).
const NO_R1_HOLDDOWN_TIME: Duration = Duration::from_secs(60);
/// ICMP_HOLDDOWN_TIME.
const ICMP_HOLDDOWN_TIME: Duration = Duration::from_secs(600);
/// Time until an item that the host refused is put again.
const RETRY_INTERVAL: Duration = Duration::from_secs(60);
/// Time in which address changes are collected before peers get an Update Request.
const UPDATE_DELAY: Duration = Duration::from_millis(300);
/// Time the data plane has to answer a sample.
const SAMPLE_TIMEOUT: Duration = Duration::from_secs(5);
/// Burst of R1bis and Error messages, and the interval between further ones: any sender can cause them.
const ERROR_RATE: (u32, Duration) = (100, Duration::from_millis(10));

/// The Shim6 engine of a host with several uplinks.
pub struct Shim {
    config: ShimConfig,
    entropy: Entropy,
    uplinks: Uplinks,
    addresses: Addresses,
    identities: Identities,
    contexts: Contexts,
    validators: Validators,
    timers: TimerQueue<Timer>,
    /// Peers without Shim6: end of the holddown, and its reason.
    holddowns: VecMap<Ipv6Addr, (Time, &'static str)>,
    verification_limiter: TokenBucket,
    error_limiter: TokenBucket,
    eviction: eviction::Eviction,
    /// Uplinks, trigger and contexts.
    desired_state: DesiredState,
    state: Lifecycle,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lifecycle {
    New,
    Running,
    Stopped,
}

/// Timers of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Display)]
enum Timer {
    /// Retransmission of a handshake message.
    #[display("handshake retransmission of context {_0}")]
    Retransmit(ContextIndex),
    /// Transmission or retransmission of an Update Request.
    #[display("update request of context {_0}")]
    Update(ContextIndex),
    /// Send or Keepalive Timer.
    #[display("send or keepalive timer of context {_0}")]
    Reap(ContextIndex),
    /// The next probe.
    #[display("probe of context {_0}")]
    Probe(ContextIndex),
    /// Next probe of a switch attempt.
    #[display("switch probe of context {_0}")]
    Switch(ContextIndex),
    /// Check whether the preferred pair works again.
    #[display("failback check of context {_0}")]
    Failback(ContextIndex),
    /// Idle check of a context.
    #[display("idle check of context {_0}")]
    Idle(ContextIndex),
    /// Maintenance of our own addresses.
    #[display("addresses")]
    Addresses,
    /// Update Requests with changed locators.
    #[display("locator update")]
    Announce,
}

impl Shim {
    /// An engine without contexts.
    pub fn new(config: ShimConfig, mut entropy: Entropy) -> Shim {
        Shim {
            validators: Validators::new(&mut entropy),
            contexts: Contexts::new(&entropy),
            verification_limiter: TokenBucket::per_second(config.verifications_per_second),
            error_limiter: TokenBucket::new(ERROR_RATE.0, ERROR_RATE.1),
            config,
            entropy,
            uplinks: Uplinks::default(),
            addresses: Addresses::default(),
            identities: Identities::default(),
            timers: TimerQueue::new(),
            holddowns: VecMap::new(),
            eviction: eviction::Eviction::default(),
            desired_state: DesiredState::default(),
            state: Lifecycle::New,
        }
    }

    fn start(&mut self, now: Time, out: &mut Outbox) {
        self.state = Lifecycle::Running;
        self.load_identities(out);
        self.put_trigger(now, out);
    }

    fn load_identities(&mut self, out: &mut Outbox) {
        let given = &self.config.identities;
        let made = self.addresses.identities(given);
        let (identities, complaints) = Identities::new(&[made.as_slice(), given].concat());
        self.identities = identities;
        for text in complaints {
            out.notice(text);
        }
    }

    fn put_trigger(&mut self, now: Time, out: &mut Outbox) {
        match self.config.trigger {
            Some(trigger) => self.desired_state.put(now, &Item::ContextTrigger(trigger), out),
            None => self.desired_state.drop(&Key::ContextTrigger, out),
        }
    }

    fn handle_link(&mut self, now: Time, event: &LinkEvent, out: &mut Outbox) {
        if !self.config.interfaces.contains(&event.name) {
            return;
        }
        self.desired_state.put(now, &Item::ShimUplink(ShimUplink { link: event.link }), out);
        if self.config.addresses.is_some() {
            self.addresses.handle_link(now, event, out);
        }
        if self.uplinks.put_link(event) {
            let (link, name) = (event.link, event.name.clone());
            out.report(if event.up { LinkReport::LinkUp { link, name } } else { LinkReport::LinkDown { link, name } });
            self.locators_changed(now, out);
        }
    }

    fn handle_address(&mut self, now: Time, event: &AddressEvent, out: &mut Outbox) {
        if self.addresses.handle_address(event, self.config.addresses, out) {
            self.identities_changed(now, out);
        }
        if self.uplinks.put_address(event) {
            self.locators_changed(now, out);
        }
    }

    /// Updates our own addresses, if the configuration has roam6 make them.
    fn update_addresses(&mut self, now: Time, out: &mut Outbox) {
        if self.config.addresses.is_none() || self.state != Lifecycle::Running {
            return;
        }
        let mut around = Environment {
            now,
            policy: self.config.addresses,
            given: &self.config.identities,
            uplinks: &self.uplinks,
            entropy: &mut self.entropy,
        };
        if self.addresses.update(&mut around, out) {
            self.identities_changed(now, out);
        }
        match self.addresses.deadline(now) {
            Some(at) => self.timers.set(Timer::Addresses, at),
            None => self.timers.cancel(&Timer::Addresses),
        }
    }

    /// The CGA or HBA parameters of our addresses have changed.
    fn identities_changed(&mut self, now: Time, out: &mut Outbox) {
        self.load_identities(out);
        self.announce_locators(now);
    }

    fn handle_outcome(&mut self, now: Time, outcome: &Outcome, out: &mut Outbox) {
        match &outcome.key {
            Key::ShimUplink(_) | Key::ContextTrigger => {
                self.desired_state.receive_outcome(outcome, now + RETRY_INTERVAL, out);
            }
            Key::ShimContext(id) => {
                let waiting = self.desired_state.receive_outcome(outcome, now, out);
                match self.contexts.find(id).filter(|_| waiting.is_some()) {
                    Some(index) if outcome.error.is_some() => self.end_context(index, "refused by the host", out),
                    Some(index) => self.context_installed(now, index, out),
                    None => {}
                }
            }
            _ => self.addresses.handle_outcome(now, outcome, out),
        }
    }

    /// A flow has reached the trigger: starts a handshake, unless the peer is excluded or in holddown.
    fn handle_flow(&mut self, now: Time, flow: &FlowEvent, out: &mut Outbox) {
        let AddressPair { local, peer } = flow.pair;
        let id = ContextId { ulids: flow.pair, fork: Fork::NONE };
        let held = self.holddowns.get(&peer).is_some_and(|(until, _)| *until > now);
        let ours = self.uplinks.link_of(local).is_some();
        if held || !ours || self.contexts.find(&id).is_some() || !self.config.peers.allows(peer) {
            return;
        }
        if !self.make_room(now, peer, out) {
            return;
        }
        let index = self.create_context(now, id, flow.link, flow.pair);
        self.start_handshake(now, index, 0, out);
    }

    /// A context before its handshake.
    fn create_context(&mut self, now: Time, id: ContextId, link: LinkId, path: AddressPair) -> ContextIndex {
        let tag = self.contexts.new_tag(&mut self.entropy);
        let known = self.announcement(id.ulids.local);
        let index = self.contexts.put(Context {
            id,
            tag,
            handshake: None,
            peer: None,
            path,
            link,
            announced: known,
            pending_update: None,
            pending_r2: None,
            reap_timers: Default::default(),
            round_trip: Default::default(),
            recovery: None,
            switch_attempt: None,
            failback: Default::default(),
            last_activity: now,
            idle_check_pending: false,
            traffic: Default::default(),
        });
        self.timers.set(Timer::Idle(index), now + self.config.idle_timeout);
        index
    }

    /// Installs a context in the data plane, or replaces it there.
    fn put_context(&mut self, now: Time, index: ContextIndex, out: &mut Outbox) {
        let Some(context) = self.contexts.get(index) else { return };
        let Some(peer) = &context.peer else { return };
        let link = self.uplinks.link_of(context.path.local).unwrap_or(context.link);
        let mut from: Vec<Ipv6Addr> = peer.locators.iter().map(|locator| locator.address).collect();
        if !from.contains(&context.id.ulids.peer) {
            from.push(context.id.ulids.peer);
        }
        from.truncate(MAX_LOCATORS);
        let item = ShimContext {
            id: context.id,
            locators: context.path,
            link,
            next_hop: self.uplinks.default_router(now, link),
            tag_in: context.tag,
            tag_out: peer.tag,
            allowed_sources: from,
        };
        self.desired_state.put_once(Item::ShimContext(item), (), out);
        self.schedule_failback(now, index);
    }

    /// Removes a context and its timers.
    fn end_context(&mut self, index: ContextIndex, why: &str, out: &mut Outbox) {
        let Some(context) = self.contexts.drop(index) else { return };
        for timer in
            [Timer::Retransmit, Timer::Update, Timer::Reap, Timer::Probe, Timer::Switch, Timer::Failback, Timer::Idle]
        {
            self.timers.cancel(&timer(index));
        }
        if context.is_established() {
            out.drop(Key::ShimContext(context.id));
            out.report(ShimReport::ContextDown { context: context.id, why: why.to_owned() });
        }
    }

    /// Starts the holddown of a peer (RFC 5533 §7.8).
    fn hold_down(&mut self, now: Time, peer: Ipv6Addr, hold: Duration, why: &'static str, out: &mut Outbox) {
        if self.holddowns.len() >= MAX_HOLDDOWNS && !self.holddowns.contains_key(&peer) {
            let first = self.holddowns.iter().min_by_key(|(_, (until, _))| *until).map(|(peer, _)| *peer);
            first.map(|first| self.holddowns.remove(&first));
        }
        self.holddowns.insert(peer, (now + hold, why));
        out.report(ShimReport::ShimUnavailable { peer, why: why.to_owned() });
    }

    fn sample(&self, context: ContextId, out: &mut Outbox) {
        out.query_activity(ActivityQuery { context, notify_sent: true, notify_received: true });
    }

    fn send(&self, path: AddressPair, message: &Message, out: &mut Outbox) {
        let header = Header::new(path.local, path.peer);
        let bytes = ip6::emit(&header, shim6::PROTOCOL, &message.emit());
        let via = self.uplinks.link_of(path.local).map_or(Via::Route, Via::Link);
        out.transmit(Transmit { via, bytes });
    }

    fn handle_command(&mut self, now: Time, order: &Command, out: &mut Outbox) {
        match order {
            Command::Shim(ShimCommand::Reload(config)) => self.reload(now, config, out),
            Command::Shim(ShimCommand::SwitchPath { ulids, fork, path }) => {
                self.use_path(now, *ulids, *fork, *path, out)
            }
            Command::Shim(ShimCommand::DeleteContext(id)) => {
                if let Some(index) = self.contexts.find(id) {
                    self.end_context(index, "ended by the operator", out);
                }
            }
            Command::Lifecycle(LifecycleCommand::RestoreJournal(records)) => self.addresses.restore(records),
            Command::Lifecycle(LifecycleCommand::Stop) => self.stop(out),
            _ => {}
        }
    }

    fn reload(&mut self, now: Time, config: &ShimConfig, out: &mut Outbox) {
        let former = core::mem::replace(&mut self.config, config.clone());
        if former.trigger != self.config.trigger {
            self.put_trigger(now, out);
        }
        if former.verifications_per_second != self.config.verifications_per_second {
            self.verification_limiter = TokenBucket::per_second(self.config.verifications_per_second);
        }
        let left = self.uplinks.retain(&self.config.interfaces);
        for link in &left {
            self.desired_state.drop(&Key::ShimUplink(*link), out);
        }
        self.addresses.drop_links(&left, out);
        if (former.addresses, former.identities) != (self.config.addresses, self.config.identities.clone()) {
            self.addresses.remove_all(out);
        }
        if self.config.addresses.is_some() {
            self.uplinks.link_events().iter().for_each(|event| self.addresses.handle_link(now, event, out));
        }
        self.load_identities(out);
        self.locators_changed(now, out);
    }

    fn stop(&mut self, out: &mut Outbox) {
        for (_, context) in self.contexts.iter().filter(|(_, context)| context.is_established()) {
            out.drop(Key::ShimContext(context.id));
        }
        self.desired_state.retain(|_| false, out);
        self.addresses.remove_all(out);
        self.contexts = Contexts::new(&self.entropy);
        self.timers = TimerQueue::new();
        self.state = Lifecycle::Stopped;
    }

    fn run_timers(&mut self, now: Time, out: &mut Outbox) {
        while let Some(timer) = self.timers.pop_expired(now) {
            match timer {
                Timer::Retransmit(index) => self.retransmit(now, index, out),
                Timer::Update(index) => self.send_update_request(now, index, out),
                Timer::Reap(index) => self.poll_activity(now, index, out),
                Timer::Probe(index) => self.probe_timer_expired(now, index, out),
                Timer::Switch(index) => self.send_switch_probe(now, index, out),
                Timer::Failback(index) => self.try_failback(now, index, out),
                Timer::Idle(index) => self.check_idle(now, index, out),
                // `handle` updates addresses after every input.
                Timer::Addresses => {}
                Timer::Announce => self.announce_locators(now),
            }
        }
    }
}

impl Engine for Shim {
    fn handle(&mut self, now: Time, input: &Input, out: &mut Outbox) {
        if self.state == Lifecycle::New {
            self.start(now, out);
        }
        if self.state == Lifecycle::Stopped {
            return;
        }
        match input {
            Input::Packet(packet) => self.receive_packet(now, packet, out),
            Input::Link(event) => self.handle_link(now, event, out),
            Input::Address(event) => self.handle_address(now, event, out),
            Input::Neighbour(event) => self.uplinks.set_reachable(event.link, event.address, event.reachable),
            Input::Outcome(outcome) => self.handle_outcome(now, outcome, out),
            Input::Flow(flow) => self.handle_flow(now, flow, out),
            Input::Activity(activity) => self.handle_activity(now, activity, out),
            Input::Command(order) => self.handle_command(now, order, out),
            Input::Tick | Input::Clock(_) | Input::Route(_) | Input::Subflow(_) => {}
            Input::Frame(_)
            | Input::Fix(_)
            | Input::LinkTraffic(_)
            | Input::PathTraffic(_)
            | Input::ChannelUse(_)
            | Input::Interception(_)
            | Input::Verified(_)
            | Input::Signed(_) => {}
            #[cfg(feature = "fleet")]
            Input::Fleet(_) => {}
        }
        self.desired_state.retry_refused(now, out);
        self.run_timers(now, out);
        self.update_addresses(now, out);
        // A removed address invalidates paths: peers get the update at once.
        self.run_timers(now, out);
    }

    fn deadline(&self) -> Option<Time> {
        [self.timers.deadline(), self.desired_state.deadline()].into_iter().flatten().min()
    }

    fn view(&self, now: Time, view: &mut View) {
        self.fill_view(now, view);
    }
}
