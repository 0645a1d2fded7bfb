//! A member and its host: the engine, the items installed, and its connection to the store.

use roam6_proto::contract::config::nemo::HomeAgentConfig;
use roam6_proto::contract::fleet::MemberState;
use roam6_proto::contract::item::{NextHop, Revision};
use roam6_proto::role::Role;
use roam6_proto::{Engine, Input, Item, Key, Node, Outbox, Output, Plan, Time};
use roam6_wire::{HomeAddress, Prefix};
use std::collections::BTreeSet;
use std::net::Ipv6Addr;

/// A member.
pub struct Member {
    /// Its name.
    pub name: String,
    config: HomeAgentConfig,
    seed: u8,
    engine: Option<Node>,
    /// Counts its lives: answers to a former one are not delivered.
    pub instance: u32,
    /// The items of its host; they outlive the process.
    pub plan: Plan,
    /// The keys that this life has put.
    claimed: BTreeSet<Key>,
    /// What former lives left is removed.
    is_clean: bool,
    /// Its clock is ahead by so many microseconds.
    pub clock_offset: i64,
    /// Whether it reaches the store.
    pub connected: bool,
    /// The last change of the store that it was given.
    pub position: Revision,
    /// It was told that the store answers.
    pub told: bool,
    /// When its last item is applied, and its last change of the store arrives.
    pub busy_until: Time,
    /// See `busy_until`.
    pub watch_until: Time,
    /// Since when it is healthy.
    pub healthy_since: Option<Time>,
}

impl Member {
    /// A member that is not running.
    pub fn new(name: &str, config: HomeAgentConfig, seed: u8) -> Member {
        Member {
            name: name.to_owned(),
            config,
            seed,
            engine: None,
            instance: 0,
            plan: Plan::new(),
            claimed: BTreeSet::new(),
            is_clean: false,
            clock_offset: 0,
            connected: true,
            position: Revision(0),
            told: false,
            busy_until: Time::ZERO,
            watch_until: Time::ZERO,
            healthy_since: None,
        }
    }

    /// Whether its process runs.
    pub fn is_running(&self) -> bool {
        self.engine.is_some()
    }

    /// Starts its process.
    pub fn start(&mut self) {
        self.instance += 1;
        let seed = [self.seed ^ u8::try_from(self.instance & 0xff).unwrap_or(0); 32];
        self.engine = Some(Node::from_roles(&[Role::HomeAgent(self.config.clone())], seed));
        (self.position, self.told) = (Revision(0), false);
        self.claimed.clear();
        self.is_clean = false;
    }

    /// Kills its process: the announcements end with it, other items stay.
    pub fn kill(&mut self) {
        self.engine = None;
        self.healthy_since = None;
        let ends = |key: &Key| matches!(key, Key::Announcement(_) | Key::FleetMember | Key::FleetPathMtu(_));
        let gone: Vec<Key> = self.plan.iter().map(|(key, _)| key.clone()).filter(ends).collect();
        gone.iter().for_each(|key| drop(self.plan.drop(key)));
    }

    /// Hands an input to the engine.
    pub fn handle(&mut self, now: Time, input: &Input) -> Vec<Output> {
        let Some(engine) = &mut self.engine else { return Vec::new() };
        let mut out = Outbox::new();
        engine.handle(now, input, &mut out);
        out.drain().collect()
    }

    /// When it wants to be woken.
    pub fn deadline(&self) -> Option<Time> {
        self.engine.as_ref()?.deadline()
    }

    /// Installs an item.
    pub fn install(&mut self, item: Item) {
        self.claimed.insert(item.key());
        self.plan.put(item);
    }

    /// Removes what former processes have installed, once it is not needed any more.
    pub fn clean(&mut self) {
        if self.is_clean || !self.engine.as_ref().is_some_and(Engine::takeover_complete) {
            return;
        }
        self.is_clean = true;
        let keys = self.plan.iter().map(|(key, _)| key.clone());
        let stale: Vec<Key> = keys.filter(|key| !self.claimed.contains(key)).collect();
        stale.iter().for_each(|key| drop(self.plan.drop(key)));
    }

    /// Its state, as the engine has put it.
    pub fn state(&self) -> Option<MemberState> {
        match self.plan.find(&Key::FleetMember) {
            Some(Item::FleetMember(state)) if self.is_running() => Some(*state),
            _ => None,
        }
    }

    /// The metric by which it announces `prefix`.
    pub fn metric(&self, prefix: Prefix) -> Option<u32> {
        match self.plan.find(&Key::Announcement(prefix)) {
            Some(Item::Announcement(announcement)) => Some(announcement.metric),
            _ => None,
        }
    }

    /// Where it sends the packets of a home address.
    pub fn care_of(&self, home: HomeAddress) -> Option<Ipv6Addr> {
        let destination = Prefix::host(home.0);
        let tunnel = self.plan.iter().find_map(|(_, item)| match item {
            Item::Route(route) if route.destination == destination => match route.target {
                NextHop::Tunnel(tunnel) => Some(tunnel),
                _ => None,
            },
            _ => None,
        })?;
        match self.plan.find(&Key::Tunnel(tunnel)) {
            Some(Item::Tunnel(tunnel)) => tunnel.paths.iter().find(|path| path.weight > 0).map(|path| path.remote),
            _ => None,
        }
    }
}
