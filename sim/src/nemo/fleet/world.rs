//! Plays a world: packets, outcomes of items, requests to the store and its answers, changes that arrive by the watch.

use super::invariants::{self, Ledger};
use super::member::Member;
use super::mobile::Mobile;
use super::scenario::{AGENT, Fault, FleetKind, Scenario, StoreManners};
use super::store::{SimStore, through_octets};
use crate::failure::{Failure, WorldFamily, ensure};
use crate::nemo::binding_messages::{self, Acknowledgement, BindingMessage};
use crate::net::Choice;
use core::time::Duration;
use roam6_proto::base::ids::PutId;
use roam6_proto::contract::command::LifecycleCommand;
use roam6_proto::contract::fleet::{Commit, MemberState};
use roam6_proto::contract::item::{FleetRecord, Revision};
use roam6_proto::{Clock, Command, Entropy, Input, Item, Key, Outcome, Output, Packet, Put, Time};
use roam6_wire::{HomeAddress, Prefix};
use std::collections::{BTreeMap, BTreeSet};

/// Wall clock at the beginning: 2026-01-01.
const START_UNIX_MICROS: u64 = 1_767_225_600_000_000;
/// Longest time the host takes to apply an item, microseconds.
const MAX_PUT_MICROS: u64 = 2_000;
/// Longest transit of a packet, microseconds.
const MAX_TRANSIT_MICROS: u64 = 50_000;
/// How long the host waits for the store, before it says that it does not know.
const PATIENCE: Duration = Duration::from_millis(2_500);
/// Time in which everything is settled after the last fault.
const CONVERGENCE: Duration = Duration::from_secs(20);
/// Time after an acknowledgement in which every healthy member forwards to the new place.
const STALE: Duration = Duration::from_millis(1_000);
/// When captured updates are replayed.
const REPLAYED_AFTER: [Duration; 4] =
    [Duration::from_millis(1), Duration::from_secs(1), Duration::from_secs(6), Duration::from_secs(20)];
const MAX_EVENTS: u64 = 400_000;

/// What happens.
#[derive(Debug)]
pub(super) enum Event {
    Fault(Fault),
    /// A packet arrives at a member, by the routers or by the attacker.
    Update(Option<usize>, Packet),
    Acknowledgement(Acknowledgement),
    Outcome(usize, u32, Outcome),
    /// A change reaches the store; the answer may be lost.
    Request(usize, u32, FleetRecord, PutId, bool),
    /// Changes up to a revision arrive at a member.
    Watch(usize, u32, Revision),
    Heartbeat(usize, u32),
    /// A heartbeat reaches the store, written at a time.
    Beat(usize, u32, Time),
    /// The lease of a member expires unless it was renewed.
    Lease(usize, Time),
    Wake(usize),
    Mobile(usize),
    /// Every member that was healthy all the time forwards as the store has it.
    Fresh(HomeAddress, Revision, Time),
}

/// The result of a world whose invariants hold.
#[derive(Debug, Clone, Copy)]
pub struct RunResult {
    /// Its kind.
    pub kind: FleetKind,
    /// Events handled.
    pub events: u64,
    /// Acknowledgements sent by members.
    pub acknowledged: u64,
    /// Conflicts of commits.
    pub conflicts: u64,
    /// Commits whose result the member did not learn.
    pub unknown: u64,
    /// Updates replayed by the attacker.
    pub replayed: u64,
}

/// A world.
pub struct FleetWorld {
    pub(super) now: Time,
    serial: u64,
    queue: BTreeMap<(Time, u64), Event>,
    rng: Entropy,
    verbose: bool,
    kind: FleetKind,
    calm: Time,
    pub(super) members: Vec<Member>,
    mobiles: Vec<Mobile>,
    pub(super) store: SimStore,
    pub(super) manners: StoreManners,
    pub(super) store_is_down: bool,
    refused: BTreeMap<usize, u64>,
    /// Changes that a member has not had the answer of: its update is installed, and may not be committed.
    under_way: BTreeSet<(usize, HomeAddress)>,
    /// When a host refused an item last.
    refusal: Time,
    replayed_one_in: u64,
    doubled_one_in: u64,
    /// When the last heartbeat of a member was written, and which members the store has leases of.
    pub(super) leases: BTreeMap<usize, Time>,
    ledger: Ledger,
    result: RunResult,
}

impl FleetWorld {
    /// The family of these worlds.
    pub const FAMILY: WorldFamily = WorldFamily { name: "fleet world (--features fleet)", replay: "fleet" };

    /// The world of `seed`.
    pub fn new(seed: u64, verbose: bool) -> FleetWorld {
        let scenario = Scenario::new(seed);
        let kind = scenario.kind;
        let mut world = FleetWorld {
            now: Time::ZERO,
            serial: 0,
            queue: BTreeMap::new(),
            rng: Entropy::seed_from_u64(seed ^ 0x0f1e_e700),
            verbose,
            kind,
            calm: Time::ZERO + scenario.calm,
            members: scenario.members,
            mobiles: scenario.mobiles,
            store: SimStore::default(),
            manners: scenario.manners,
            store_is_down: false,
            refused: BTreeMap::new(),
            under_way: BTreeSet::new(),
            refusal: Time::ZERO,
            replayed_one_in: scenario.replayed_one_in,
            doubled_one_in: scenario.doubled_one_in,
            leases: BTreeMap::new(),
            ledger: Ledger::default(),
            result: RunResult { kind, events: 0, acknowledged: 0, conflicts: 0, unknown: 0, replayed: 0 },
        };
        for (at, fault) in scenario.script {
            world.push(Time::ZERO + at, Event::Fault(fault));
        }
        for index in 0..world.members.len() {
            world.push(Time::ZERO, Event::Fault(Fault::Start(index)));
        }
        world
    }

    /// Plays the world of `seed` to its end.
    ///
    /// # Errors
    /// The first invariant that does not hold, with the command that replays the world.
    pub fn run(seed: u64, verbose: bool) -> Result<RunResult, Failure> {
        let mut world = FleetWorld::new(seed, verbose);
        world.play().map_err(|message| Failure {
            family: FleetWorld::FAMILY,
            seed,
            kind: Some(world.kind.to_string()),
            at: world.now,
            message,
        })?;
        Ok(RunResult { acknowledged: world.ledger.acknowledgements, ..world.result })
    }

    fn play(&mut self) -> Result<(), String> {
        let end = self.calm + CONVERGENCE;
        while let Some((&(at, _), _)) = self.queue.first_key_value()
            && at <= end
        {
            let Some((_, event)) = self.queue.pop_first() else { break };
            self.now = at;
            self.result.events += 1;
            ensure!(self.result.events < MAX_EVENTS, "events without end: {event:?}");
            if self.verbose {
                println!("{} {event:?}", self.now);
            }
            self.handle(event)?;
        }
        self.now = end;
        invariants::converged(end, self.unix(), &self.store, &self.members, &self.mobiles)
    }

    pub(super) fn unix(&self) -> u64 {
        START_UNIX_MICROS + self.now.as_micros()
    }

    pub(super) fn push(&mut self, at: Time, event: Event) {
        self.serial += 1;
        self.queue.insert((at.max(self.now), self.serial), event);
    }

    /// Within `most` microseconds from now.
    pub(super) fn soon(&mut self, most: u64) -> Time {
        self.now + Duration::from_micros(self.rng.between(most / 20 + 1, most + 2))
    }

    fn handle(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Fault(fault) => self.fault(fault),
            Event::Update(to, packet) => self.update(to, packet),
            Event::Acknowledgement(acknowledgement) => {
                let now = self.now;
                let mut mobiles = self.mobiles.iter_mut();
                let Some(index) = mobiles.position(|mobile| mobile.home() == acknowledgement.home_address) else {
                    return Ok(());
                };
                let Some(mobile) = self.mobiles.get_mut(index) else { return Ok(()) };
                let accepted = mobile.receive(now, &acknowledgement);
                if let Some(at) = mobile.deadline() {
                    self.push(at, Event::Mobile(index));
                }
                match self.mobiles.get(index).filter(|_| accepted) {
                    Some(mobile) => invariants::nothing_lost(&self.store, mobile),
                    None => Ok(()),
                }
            }
            Event::Outcome(index, instance, outcome) => {
                if let Key::FleetRecord(home) = outcome.key {
                    self.under_way.remove(&(index, home));
                }
                self.feed_instance(index, instance, &Input::Outcome(outcome))
            }
            Event::Request(index, instance, change, id, lost) => self.request(index, instance, change, id, lost),
            Event::Watch(index, instance, upto) => self.watch(index, instance, upto),
            Event::Heartbeat(index, instance) => {
                self.heartbeat(index, instance);
                Ok(())
            }
            Event::Beat(index, instance, written) => self.beat(index, instance, written),
            Event::Lease(index, renewed) => self.lease(index, renewed),
            Event::Wake(index) => match self.members.get(index).and_then(Member::deadline) {
                Some(at) if at <= self.now => self.feed(index, &Input::Tick),
                _ => Ok(()),
            },
            Event::Mobile(index) => {
                self.send_update(index);
                Ok(())
            }
            Event::Fresh(home, revision, since) => self.check_fresh(home, revision, since),
        }
    }

    fn fault(&mut self, fault: Fault) -> Result<(), String> {
        let now = self.now;
        match fault {
            Fault::Kill(index) => {
                if let Some(member) = self.members.get_mut(index) {
                    member.kill();
                }
            }
            Fault::Start(index) => return self.start(index),
            Fault::Cut(index, cut) => {
                if let Some(member) = self.members.get_mut(index) {
                    (member.connected, member.told) = (!cut, false);
                }
                return self.reconnect(index);
            }
            Fault::Down(down) => {
                self.store_is_down = down;
                for index in 0..self.members.len() {
                    self.reconnect(index)?;
                }
            }
            Fault::Compact => self.store.compact(),
            Fault::Clock(index, ahead) => {
                if let Some(member) = self.members.get_mut(index) {
                    member.clock_offset = ahead;
                }
                let clock = self.clock(index);
                return self.feed(index, &clock);
            }
            Fault::Refuse(index, permille) => drop(self.refused.insert(index, permille)),
            Fault::Go(index, place) => {
                if let Some(mobile) = self.mobiles.get_mut(index) {
                    mobile.go(now, place);
                }
                self.send_update(index);
            }
        }
        Ok(())
    }

    fn clock(&self, index: usize) -> Input {
        let ahead = self.members.get(index).map_or(0, |member| member.clock_offset);
        Input::Clock(Clock { unix_micros: self.unix().wrapping_add_signed(ahead) })
    }

    fn start(&mut self, index: usize) -> Result<(), String> {
        let clock = self.clock(index);
        let Some(member) = self.members.get_mut(index).filter(|member| !member.is_running()) else { return Ok(()) };
        member.start();
        let instance = member.instance;
        self.feed(index, &clock)?;
        self.feed(index, &Input::Command(Command::Lifecycle(LifecycleCommand::RestoreJournal(Vec::new()))))?;
        self.feed(index, &Input::Command(Command::Lifecycle(LifecycleCommand::JournalRestored)))?;
        self.push(self.now, Event::Heartbeat(index, instance));
        self.reconnect(index)
    }

    /// A change reaches the store.
    fn request(
        &mut self,
        index: usize,
        instance: u32,
        change: FleetRecord,
        id: PutId,
        lost: bool,
    ) -> Result<(), String> {
        let home = change.home_address;
        // What is on its way arrives although its sender was killed meanwhile.
        let former = self.store.record(home).cloned();
        let result = if self.store_is_down { Commit::Unknown } else { self.store.commit(&change) };
        match &result {
            Commit::Kept(revision) => {
                let unix = self.unix();
                self.ledger.committed(unix, &change, former.as_ref(), &self.store)?;
                if let Some(record) = &change.record {
                    ensure!(through_octets(record).as_ref() == Some(record), "{home}: the octets of a record differ");
                }
                self.notify();
                self.push(self.now + STALE, Event::Fresh(home, *revision, self.now));
            }
            Commit::Conflict(_) | Commit::PrefixTaken(_) => self.result.conflicts += 1,
            Commit::Unknown | Commit::Unavailable(_) => {}
        }
        // One that is lost is asked for again, in vain or not.
        let (result, at) = match result {
            Commit::Unknown => (Commit::Unknown, self.now + PATIENCE),
            _ if lost && self.rng.one_in(2) => (Commit::Unknown, self.now + PATIENCE),
            result if lost => (result, self.now + PATIENCE / 2),
            result => (result, self.soon(self.manners.delay)),
        };
        if result == Commit::Unknown {
            self.result.unknown += 1;
        }
        let outcome = Outcome { id, key: Key::FleetRecord(home), error: None, commit: Some(result) };
        self.push(at, Event::Outcome(index, instance, outcome));
        Ok(())
    }

    pub(super) fn feed_instance(&mut self, index: usize, instance: u32, input: &Input) -> Result<(), String> {
        match self.members.get(index) {
            Some(member) if member.instance == instance => self.feed(index, input),
            _ => Ok(()),
        }
    }

    /// Hands an input to a member, and does what it wants.
    pub(super) fn feed(&mut self, index: usize, input: &Input) -> Result<(), String> {
        let now = self.now;
        let Some(member) = self.members.get_mut(index).filter(|member| member.is_running()) else { return Ok(()) };
        let outputs = member.handle(now, input);
        for output in outputs {
            if self.verbose {
                println!("    ha{index} > {output:?}");
            }
            match output {
                Output::Put(put) => self.put(index, put),
                Output::Drop(key) => {
                    let record = matches!(key, Key::JournalRecord(_));
                    ensure!(!record, "{key} is dropped, and the journal is not the engine's in a fleet");
                    if let Some(member) = self.members.get_mut(index) {
                        member.plan.drop(&key);
                    }
                }
                Output::Transmit(transmit) => self.transmit(index, &transmit.bytes)?,
                _ => {}
            }
        }
        let Some(member) = self.members.get_mut(index) else { return Ok(()) };
        member.clean();
        let healthy = member.state() == Some(MemberState::Healthy);
        member.healthy_since = if healthy { member.healthy_since.or(Some(now)) } else { None };
        if let Some(at) = member.deadline() {
            self.push(at, Event::Wake(index));
        }
        Ok(())
    }

    fn put(&mut self, index: usize, put: Put) {
        let refused = self.refused.get(&index).copied().unwrap_or(0);
        let refused = self.rng.below(1000) < refused;
        let soon = self.soon(MAX_PUT_MICROS);
        let delay = self.soon(self.manners.delay);
        let lost = self.manners.lost_one_in > 0 && self.now < self.calm && self.rng.one_in(self.manners.lost_one_in);
        let reaches = self.reaches_store(index);
        let Some(member) = self.members.get_mut(index) else { return };
        let instance = member.instance;
        if let Item::FleetRecord(change) = put.item {
            self.under_way.insert((index, change.home_address));
            let event = match reaches {
                true => Event::Request(index, instance, change, put.id, lost),
                false => {
                    let commit = Some(Commit::Unavailable("cut off".to_owned()));
                    let key = Key::FleetRecord(change.home_address);
                    Event::Outcome(index, instance, Outcome { id: put.id, key, error: None, commit })
                }
            };
            return self.push(delay, event);
        }
        member.busy_until = member.busy_until.max(soon);
        let at = member.busy_until;
        let refused = refused && !matches!(put.item, Item::FleetMember(_) | Item::Announcement(_));
        if refused {
            self.refusal = self.now;
        }
        let outcome = put.outcome(refused.then(|| "Cannot allocate memory".to_owned()));
        if !refused {
            member.install(put.item);
        }
        self.push(at, Event::Outcome(index, instance, outcome));
    }

    fn transmit(&mut self, index: usize, packet: &[u8]) -> Result<(), String> {
        let Some(BindingMessage::Acknowledgement(acknowledgement)) = binding_messages::parse(packet) else {
            return Ok(());
        };
        if let Some(member) = self.members.get(index) {
            self.ledger.acknowledged(member, &acknowledgement)?;
        }
        if !self.rng.one_in(20) {
            let at = self.soon(MAX_TRANSIT_MICROS);
            self.push(at, Event::Acknowledgement(acknowledgement));
        }
        Ok(())
    }

    fn send_update(&mut self, index: usize) {
        let (now, unix) = (self.now, self.unix());
        let Some(mobile) = self.mobiles.get_mut(index) else { return };
        let packet = mobile.update(now, unix);
        if let Some(at) = mobile.deadline().filter(|at| *at > now) {
            self.push(at, Event::Mobile(index));
        }
        let Some(packet) = packet else { return };
        let captured = self.replayed_one_in > 0 && self.rng.one_in(self.replayed_one_in);
        for after in REPLAYED_AFTER.into_iter().filter(|_| captured) {
            for member in 0..self.members.len() {
                self.result.replayed += 1;
                let each = u64::try_from(member).unwrap_or(0) * self.rng.below(5_000);
                // Members that accept copies in the same microsecond write the same record, and both may acknowledge it.
                let at = now + after + Duration::from_micros(5 * each + u64::try_from(member).unwrap_or(0) + 1);
                self.push(at, Event::Update(Some(member), packet.clone()));
            }
        }
        if self.doubled_one_in > 0 && self.rng.one_in(self.doubled_one_in) {
            let other = self.rng.index(self.members.len());
            let at = self.soon(MAX_TRANSIT_MICROS);
            self.push(at, Event::Update(Some(other), packet.clone()));
        }
        if !self.rng.one_in(20) {
            let at = self.soon(MAX_TRANSIT_MICROS);
            self.push(at, Event::Update(None, packet));
        }
    }

    /// The routers spread packets by their addresses over the members with the best metric.
    fn next_hop(&self, packet: &Packet) -> Option<usize> {
        let destination = Prefix::host(AGENT);
        let metric = |member: &Member| member.metric(destination);
        let best = self.members.iter().filter_map(metric).min()?;
        let equal: Vec<usize> = self
            .members
            .iter()
            .enumerate()
            .filter(|(_, member)| metric(member) == Some(best))
            .map(|(index, _)| index)
            .collect();
        let hash =
            packet.bytes.get(8..40)?.iter().fold(7_usize, |hash, octet| hash.wrapping_mul(31) ^ usize::from(*octet));
        equal.get(hash % equal.len().max(1)).copied()
    }

    fn update(&mut self, to: Option<usize>, packet: Packet) -> Result<(), String> {
        match to.or_else(|| self.next_hop(&packet)) {
            Some(index) => self.feed(index, &Input::Packet(packet)),
            None => Ok(()),
        }
    }

    /// Every member that was healthy since a commit sends to the place that the store has, unless that has changed.
    fn check_fresh(&mut self, home: HomeAddress, revision: Revision, since: Time) -> Result<(), String> {
        let Some(stored) = self.store.records().find(|stored| stored.home_address == home) else { return Ok(()) };
        if stored.revision != revision || self.store_is_down {
            return Ok(());
        }
        let wanted = stored.record.as_ref().and_then(|record| record.care_of.first()).map(|(_, address, _)| *address);
        let quiet = self.now > self.refusal + 2 * STALE;
        for (index, member) in self.members.iter().enumerate() {
            let healthy = member.healthy_since.is_some_and(|at| at < since) && member.clock_offset == 0;
            let waits = self.under_way.contains(&(index, home));
            let pending = waits || member.position < revision || !self.reaches_store(index);
            if healthy && quiet && !pending && wanted.is_some() {
                let seen = member.care_of(home);
                let left = stored.record.as_ref().map_or(0, |record| record.expires_unix_micros);
                let over = left < self.unix() + 6_000_000;
                // It may have installed a later update already, whose record is not committed.
                let later = self.mobiles.iter().any(|mobile| mobile.home() == home && mobile.place() == seen);
                ensure!(
                    over || later || seen == wanted,
                    "{home}: {} still sends to {seen:?}, not {wanted:?}",
                    member.name
                );
            }
        }
        Ok(())
    }
}
