//! Shim6 for multihomed hosts: connections survive the loss of a path (RFC 5533), failure detection by REAP (RFC 5534).
//!
//! `dispatch` finds the context of a received message (RFC 5533 §12.4) and hands the message to `handshake` (§7),
//! `update` (§10) or `reap` (RFC 5534). `proof` verifies a peer's locators before any state changes.

mod addresses;
mod context;
mod establish;
mod exploration;
mod hear;
mod proof;
mod reach;
mod room;
pub mod scenario;
#[cfg(test)]
mod tests;
mod trouble;
mod update;
mod uplinks;
mod validator;
mod view;
mod watch;
mod wish;

use crate::base::few;
use crate::base::ids::LinkId;
use crate::base::ids::{ContextId, AddressPair};
use crate::base::rng::Entropy;
use crate::base::time::Time;
use crate::base::timers::TimerQueue;
use crate::base::token_bucket::TokenBucket;
use crate::contract::command::Command;
use crate::contract::config::shim::ShimConfig;
use crate::contract::engine::{Engine, Outbox};
use crate::contract::input::{AddressEvent, FlowEvent, Input, LinkEvent, Outcome};
use crate::contract::item::{Item, Key, MAX_LOCATORS, ShimUplink};
use crate::contract::output::{ActivityQuery, Transmit, Via};
use crate::contract::report::Report;
use crate::contract::view::View;
use addresses::{Addresses, Around};
use context::{Context, Contexts, Slot};
use core::time::Duration;
use proof::Identities;
use roam6_wire::ip6::{self, Header};
use roam6_wire::shim6::{self, Fork, Message};
use std::net::Ipv6Addr;
use uplinks::Uplinks;
use validator::Validators;

/// Peers in holddown at once; the entry that expires first is replaced.
pub const MOST_REFUSALS: usize = 1024;
/// NO_R1_HOLDDOWN_TIME (RFC 5533 §14).
const NO_ANSWER_HOLD: Duration = Duration::from_secs(60);
/// ICMP_HOLDDOWN_TIME.
const NO_SUPPORT_HOLD: Duration = Duration::from_secs(600);
/// Time until an item that the host refused is put again.
const RETRY: Duration = Duration::from_secs(60);
/// Time in which address changes are collected before peers get an Update Request.
const SETTLE: Duration = Duration::from_millis(300);
/// Time the data plane has to answer a sample.
const ANSWER: Duration = Duration::from_secs(5);
/// Burst of R1bis and Error messages, and the interval between further ones: any sender can cause them.
const COMPLAINTS: (u32, Duration) = (100, Duration::from_millis(10));

/// The Shim6 engine of a host with several uplinks.
pub struct Shim {
    config: ShimConfig,
    entropy: Entropy,
    uplinks: Uplinks,
    addresses: Addresses,
    identities: Identities,
    contexts: Contexts,
    validators: Validators,
    agenda: TimerQueue<Timer>,
    /// Peers without Shim6: end of the holddown, and its reason.
    refusals: few::VecMap<Ipv6Addr, (Time, &'static str)>,
    verifications: TokenBucket,
    complaints: TokenBucket,
    room: room::Room,
    state: Life,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    New,
    Running,
    Stopped,
}

/// Timers of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// Retransmission of a handshake message.
    Retransmit(Slot),
    /// Transmission or retransmission of an Update Request.
    Update(Slot),
    /// Send or Keepalive Timer.
    Watch(Slot),
    /// The next probe.
    Probe(Slot),
    /// Next probe of a switch attempt.
    Wish(Slot),
    /// Check whether the preferred pair works again.
    Return(Slot),
    /// Idle check of a context.
    Idle(Slot),
    /// Maintenance of our own addresses.
    Addresses,
    /// Update Requests with changed locators.
    Announce,
    /// Retry of a refused uplink item.
    Shimmed(LinkId),
    /// Retry of a refused trigger.
    Trigger,
}

impl Shim {
    /// An engine without contexts.
    pub fn new(config: ShimConfig, mut entropy: Entropy) -> Shim {
        Shim {
            validators: Validators::new(&mut entropy),
            contexts: Contexts::new(&entropy),
            verifications: budget(&config),
            complaints: TokenBucket::new(COMPLAINTS.0, COMPLAINTS.1),
            config,
            entropy,
            uplinks: Uplinks::default(),
            addresses: Addresses::default(),
            identities: Identities::default(),
            agenda: TimerQueue::new(),
            refusals: few::VecMap::new(),
            room: room::Room::default(),
            state: Life::New,
        }
    }

    fn begin(&mut self, out: &mut Outbox) {
        self.state = Life::Running;
        self.read_identities(out);
        self.put_trigger(out);
    }

    fn read_identities(&mut self, out: &mut Outbox) {
        let given = &self.config.identities;
        let made = self.addresses.identities(given);
        let (identities, complaints) = Identities::new(&[made.as_slice(), given].concat());
        self.identities = identities;
        for text in complaints {
            out.report(Report::Notice { text });
        }
    }

    fn put_trigger(&self, out: &mut Outbox) {
        match self.config.trigger {
            Some(trigger) => out.put(Item::ContextTrigger(trigger)),
            None => out.drop(Key::ContextTrigger),
        }
    }

    fn take_link(&mut self, now: Time, event: &LinkEvent, out: &mut Outbox) {
        if !self.config.interfaces.contains(&event.name) {
            return;
        }
        if !self.uplinks.ids().any(|known| known == event.link) {
            out.put(Item::ShimUplink(ShimUplink { link: event.link }));
        }
        if self.config.addresses.is_some() {
            self.addresses.take_link(now, event, out);
        }
        if self.uplinks.put(event) {
            let (link, name) = (event.link, event.name.clone());
            out.report(if event.up { Report::LinkUp { link, name } } else { Report::LinkDown { link, name } });
            self.locators_changed(now, out);
        }
    }

    fn take_address(&mut self, now: Time, event: &AddressEvent, out: &mut Outbox) {
        if self.addresses.take_address(event, self.config.addresses, out) {
            self.prove_anew(now, out);
        }
        if self.uplinks.put_address(event) {
            self.locators_changed(now, out);
        }
    }

    /// Updates our own addresses, if the configuration has roam6 make them.
    fn tend_addresses(&mut self, now: Time, out: &mut Outbox) {
        if self.config.addresses.is_none() || self.state != Life::Running {
            return;
        }
        let mut around = Around {
            now,
            policy: self.config.addresses,
            given: &self.config.identities,
            uplinks: &self.uplinks,
            entropy: &mut self.entropy,
        };
        if self.addresses.tend(&mut around, out) {
            self.prove_anew(now, out);
        }
        match self.addresses.deadline(now) {
            Some(at) => self.agenda.set(Timer::Addresses, at),
            None => self.agenda.cancel(&Timer::Addresses),
        }
    }

    /// The CGA or HBA parameters of our addresses have changed.
    fn prove_anew(&mut self, now: Time, out: &mut Outbox) {
        self.read_identities(out);
        self.announce(now);
    }

    fn take_outcome(&mut self, now: Time, outcome: &Outcome, out: &mut Outbox) {
        if let Some(why) = &outcome.error {
            out.report(Report::ItemRefused { key: outcome.key.clone(), why: why.clone() });
            match &outcome.key {
                Key::ShimUplink(link) => self.agenda.set(Timer::Shimmed(*link), now + RETRY),
                Key::ContextTrigger => self.agenda.set(Timer::Trigger, now + RETRY),
                key if self.addresses.refuse(now, key, out) => {}
                Key::ShimContext(id) => {
                    if let Some(slot) = self.contexts.find(id) {
                        self.end(slot, "refused by the host", out);
                    }
                }
                _ => {}
            }
        } else if let Key::ShimContext(id) = &outcome.key
            && let Some(slot) = self.contexts.find(id)
        {
            self.pay(now, slot, out);
        }
    }

    /// A flow has reached the trigger: starts a handshake, unless the peer is excluded or in holddown.
    fn take_flow(&mut self, now: Time, flow: &FlowEvent, out: &mut Outbox) {
        let AddressPair { local, peer } = flow.pair;
        let id = ContextId { ulids: flow.pair, fork: Fork::NONE };
        let held = self.refusals.get(&peer).is_some_and(|(until, _)| *until > now);
        let ours = self.uplinks.find(local).is_some();
        if held || !ours || self.contexts.find(&id).is_some() || !self.config.peers.allow(peer) {
            return;
        }
        if !self.make_room(now, peer, out) {
            return;
        }
        let slot = self.create(now, id, flow.link, flow.pair);
        self.open(now, slot, 0, out);
    }

    /// A context before its handshake.
    fn create(&mut self, now: Time, id: ContextId, link: LinkId, path: AddressPair) -> Slot {
        let tag = self.contexts.new_tag(&mut self.entropy);
        let known = self.announcement(id.ulids.local);
        let slot = self.contexts.put(Context {
            id,
            tag,
            opening: None,
            peer: None,
            path,
            link,
            known,
            update: None,
            owed: None,
            watch: Default::default(),
            round_trip: Default::default(),
            search: None,
            wish: None,
            homing: Default::default(),
            active: now,
            doubted: false,
            carried: Default::default(),
        });
        self.agenda.set(Timer::Idle(slot), now + self.config.idle_timeout);
        slot
    }

    /// Installs a context in the data plane, or replaces it there.
    fn put_context(&mut self, now: Time, slot: Slot, out: &mut Outbox) {
        let Some(context) = self.contexts.get(slot) else { return };
        let Some(peer) = &context.peer else { return };
        let link = self.uplinks.find(context.path.local).unwrap_or(context.link);
        let mut from: Vec<Ipv6Addr> = peer.locators.iter().map(|locator| locator.address).collect();
        if !from.contains(&context.id.ulids.peer) {
            from.push(context.id.ulids.peer);
        }
        from.truncate(MAX_LOCATORS);
        out.put(Item::ShimContext(crate::contract::item::ShimContext {
            id: context.id,
            locators: context.path,
            link,
            next_hop: self.uplinks.router(now, link),
            tag_in: context.tag,
            tag_out: peer.tag,
            allowed_sources: from,
        }));
        self.plan_return(now, slot);
    }

    /// Removes a context and its timers.
    fn end(&mut self, slot: Slot, why: &str, out: &mut Outbox) {
        let Some(context) = self.contexts.drop(slot) else { return };
        for timer in
            [Timer::Retransmit, Timer::Update, Timer::Watch, Timer::Probe, Timer::Wish, Timer::Return, Timer::Idle]
        {
            self.agenda.cancel(&timer(slot));
        }
        if context.stands() {
            out.drop(Key::ShimContext(context.id));
            out.report(Report::ContextDown { context: context.id, why: why.to_owned() });
        }
    }

    /// Starts the holddown of a peer (RFC 5533 §7.8).
    fn refuse(&mut self, now: Time, peer: Ipv6Addr, hold: Duration, why: &'static str, out: &mut Outbox) {
        if self.refusals.len() >= MOST_REFUSALS && !self.refusals.contains_key(&peer) {
            let first = self.refusals.iter().min_by_key(|(_, (until, _))| *until).map(|(peer, _)| *peer);
            first.map(|first| self.refusals.remove(&first));
        }
        self.refusals.insert(peer, (now + hold, why));
        out.report(Report::ShimUnavailable { peer, why: why.to_owned() });
    }

    fn sample(&self, context: ContextId, out: &mut Outbox) {
        out.query_activity(ActivityQuery { context, notify_sent: true, notify_received: true });
    }

    fn send(&self, path: AddressPair, message: &Message, out: &mut Outbox) {
        let header = Header::new(path.local, path.peer);
        let bytes = ip6::emit(&header, shim6::PROTOCOL, &message.emit());
        let via = self.uplinks.find(path.local).map_or(Via::Route, Via::Link);
        out.transmit(Transmit { via, bytes });
    }

    fn obey(&mut self, now: Time, order: &Command, out: &mut Outbox) {
        match order {
            Command::ReloadShim(config) => self.reload(now, config, out),
            Command::SwitchPath { ulids, fork, path } => self.use_path(now, *ulids, *fork, *path, out),
            Command::DeleteContext(id) => {
                if let Some(slot) = self.contexts.find(id) {
                    self.end(slot, "ended by the operator", out);
                }
            }
            Command::RestoreJournal(records) => self.addresses.recall(records),
            Command::Stop => self.stop(out),
            _ => {}
        }
    }

    fn reload(&mut self, now: Time, config: &ShimConfig, out: &mut Outbox) {
        let former = core::mem::replace(&mut self.config, config.clone());
        if former.trigger != self.config.trigger {
            self.put_trigger(out);
        }
        if former.verifications_per_second != self.config.verifications_per_second {
            self.verifications = budget(&self.config);
        }
        let left = self.uplinks.retain(&self.config.interfaces);
        for link in &left {
            out.drop(Key::ShimUplink(*link));
            self.agenda.cancel(&Timer::Shimmed(*link));
        }
        self.addresses.drop_links(&left, out);
        if (former.addresses, former.identities) != (self.config.addresses, self.config.identities.clone()) {
            self.addresses.leave(out);
        }
        if self.config.addresses.is_some() {
            self.uplinks.events().iter().for_each(|event| self.addresses.take_link(now, event, out));
        }
        self.read_identities(out);
        self.locators_changed(now, out);
    }

    fn stop(&mut self, out: &mut Outbox) {
        for (_, context) in self.contexts.iter().filter(|(_, context)| context.stands()) {
            out.drop(Key::ShimContext(context.id));
        }
        if self.config.trigger.is_some() {
            out.drop(Key::ContextTrigger);
        }
        for link in self.uplinks.ids() {
            out.drop(Key::ShimUplink(link));
        }
        self.addresses.leave(out);
        self.contexts = Contexts::new(&self.entropy);
        self.agenda = TimerQueue::new();
        self.state = Life::Stopped;
    }

    fn expire(&mut self, now: Time, out: &mut Outbox) {
        while let Some(timer) = self.agenda.pop_expired(now) {
            match timer {
                Timer::Retransmit(slot) => self.retransmit(now, slot, out),
                Timer::Update(slot) => self.send_update(now, slot, out),
                Timer::Watch(slot) => self.question(now, slot, out),
                Timer::Probe(slot) => self.probe_again(now, slot, out),
                Timer::Wish(slot) => self.ask_for(now, slot, out),
                Timer::Return(slot) => self.come_home(now, slot, out),
                Timer::Idle(slot) => self.doubt(now, slot, out),
                // `handle` updates addresses after every input.
                Timer::Addresses => {}
                Timer::Announce => self.announce(now),
                Timer::Shimmed(link) => out.put(Item::ShimUplink(ShimUplink { link })),
                Timer::Trigger => self.put_trigger(out),
            }
        }
    }
}

impl Engine for Shim {
    fn handle(&mut self, now: Time, input: &Input, out: &mut Outbox) {
        if self.state == Life::New {
            self.begin(out);
        }
        if self.state == Life::Stopped {
            return;
        }
        match input {
            Input::Packet(packet) => self.hear(now, packet, out),
            Input::Link(event) => self.take_link(now, event, out),
            Input::Address(event) => self.take_address(now, event, out),
            Input::Neighbour(event) => self.uplinks.put_reachable(event.link, event.address, event.reachable),
            Input::Outcome(outcome) => self.take_outcome(now, outcome, out),
            Input::Flow(flow) => self.take_flow(now, flow, out),
            Input::Activity(activity) => self.take_activity(now, activity, out),
            Input::Command(order) => self.obey(now, order, out),
            Input::Tick | Input::Clock(_) | Input::Route(_) | Input::Subflow(_) => {}
            Input::Frame(_) | Input::Fix(_) => {}
        }
        self.expire(now, out);
        self.tend_addresses(now, out);
        // A removed address invalidates paths: peers get the update at once.
        self.expire(now, out);
    }

    fn deadline(&self) -> Option<Time> {
        self.agenda.deadline()
    }

    fn view(&self, now: Time, view: &mut View) {
        self.show(now, view);
    }
}

fn budget(config: &ShimConfig) -> TokenBucket {
    let rate = config.verifications_per_second.max(1);
    TokenBucket::new(rate, Duration::from_secs(1) / rate)
}
