//! The home agent: keeps the bindings of mobile routers, and has the host forward to their care-of addresses. RFC 6275
//! §8.4 and §10, RFC 3963 §6, RFC 5648 §6, RFC 4285, RFC 3776, RFC 6089 §5.3, RFC 5555 §4.
//!
//! A packet is parsed in `dispatch`, an update checked in `validate`, installed in `transaction`, and acknowledged in
//! `reply`.

mod cache;
mod care_of;
mod deregistration;
mod discovery;
mod dispatch;
mod dsmip;
mod encryption;
mod esp;
#[cfg(feature = "fleet")]
mod fleet;
mod flows;
mod forwarding;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzz;
mod home_link;
mod home_routes;
mod ipv4_home_address;
mod journal;
mod keys;
mod link_local;
mod mcoa;
mod nesting;
mod path_mtu;
mod registered_prefixes;
mod reply;
mod reply_limiter;
mod request;
mod rivals;
mod shared_prefix;
mod subflows;
mod sysctls;
mod timers;
mod transaction;
mod types;
mod udp6;
mod unreachable_routes;
mod used_sequences;
mod validate;
mod view;

#[cfg(test)]
mod tests;

use self::cache::Binding;
use self::deregistration::Deregistration;
use self::discovery::Discovery;
use self::home_link::HomeLink;
use self::keys::ExchangedKeys;
use self::path_mtu::PathMtuCache;
use self::registered_prefixes::RegisteredPrefixes;
use self::reply_limiter::ReplyLimiter;
use self::rivals::Rivals;
use self::shared_prefix::SharedLink;
use self::transaction::Waiting;
use self::types::HomeAgentTimer;
use self::used_sequences::UsedSequences;
use crate::contract::command::{HomeAgentCommand, LifecycleCommand};
use crate::contract::config::nemo::{HomeAgentConfig, PrefixTable, PrefixTableRow};
use crate::contract::item::{JournalRecord, TunnelId};
use crate::crypto::authenticator::{Timestamp, WallClock};
use crate::nemo::fault::Faults;
use crate::{Command, DesiredState, Engine, Entropy, Input, Outbox, Time, TimerQueue, TokenBucket, View};
use roam6_wire::HomeAddress;
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;
use std::sync::Arc;

/// A home agent.
#[derive(Debug)]
pub struct HomeAgent {
    config: HomeAgentConfig,
    entropy: Entropy,
    clock: WallClock,
    /// Boxed, because tree nodes are half empty on average.
    bindings: BTreeMap<HomeAddress, Box<Binding>>,
    tunnels: BTreeMap<TunnelId, HomeAddress>,
    prefixes: RegisteredPrefixes,
    care_of_index: BTreeSet<(Ipv6Addr, TunnelId)>,
    timers: TimerQueue<HomeAgentTimer>,
    desired_state: DesiredState<Waiting>,
    last_transaction: u64,
    path_mtu: PathMtuCache,
    home_link: HomeLink,
    shared_link: SharedLink,
    discovery: Discovery,
    error_limiter: TokenBucket,
    /// Home addresses whose last update was not accepted.
    faults: Faults<HomeAddress>,
    rivals: Rivals,
    reply_limiter: ReplyLimiter,
    /// Last ESP sequence number sent, shared by all security associations: it increases in each (RFC 4303 §2.2).
    esp_sequence: u32,
    used_sequences: UsedSequences,
    exchanged_keys: ExchangedKeys,
    unrestored: Vec<JournalRecord>,
    /// De-registrations that are not in the journal yet.
    deregistrations: BTreeMap<HomeAddress, Deregistration>,
    /// The unreachable routes were put.
    has_unreachable_routes: bool,
    #[cfg(feature = "fleet")]
    fleet: Option<Box<fleet::Fleet>>,
}

/// Maximum home addresses whose rejected updates are remembered; strangers can send any number.
const MAX_FAULTS: usize = 64;

impl HomeAgent {
    /// A home agent without bindings. The caller has validated `config`.
    pub fn new(mut config: HomeAgentConfig, entropy: Entropy) -> HomeAgent {
        sort_table(&mut config.prefix_table);
        #[cfg(feature = "fleet")]
        let fleet = fleet::Fleet::of(&mut config);
        let mut prefixes = RegisteredPrefixes::default();
        prefixes.reserve_lengths(&config);
        HomeAgent {
            path_mtu: PathMtuCache::new(config.path_mtu),
            home_link: HomeLink::default(),
            shared_link: SharedLink::default(),
            discovery: Discovery::default(),
            error_limiter: TokenBucket::per_second(dispatch::BINDING_ERRORS_PER_SECOND),
            faults: Faults::new(MAX_FAULTS),
            rivals: Rivals::default(),
            reply_limiter: ReplyLimiter::default(),
            esp_sequence: 0,
            config,
            entropy,
            clock: WallClock::default(),
            bindings: BTreeMap::new(),
            tunnels: BTreeMap::new(),
            prefixes,
            care_of_index: BTreeSet::new(),
            timers: TimerQueue::new(),
            desired_state: DesiredState::default(),
            last_transaction: 0,
            used_sequences: UsedSequences::default(),
            exchanged_keys: ExchangedKeys::default(),
            unrestored: Vec::new(),
            deregistrations: BTreeMap::new(),
            has_unreachable_routes: false,
            #[cfg(feature = "fleet")]
            fleet,
        }
    }

    /// The row of `home` in the prefix table.
    fn prefix_table_row(&self, home: HomeAddress) -> Option<&PrefixTableRow> {
        let rows = &self.config.prefix_table.rows;
        let at = rows.binary_search_by_key(&home, |row| row.home_address).ok()?;
        rows.get(at)
    }

    /// The tunnel identifier of `home`: the same after a restart, and disjoint from those of other roles.
    fn tunnel_id(&self, home: HomeAddress) -> TunnelId {
        let bits = home.0.to_bits();
        let folded = (bits ^ bits >> 64) as u64;
        let mixed = folded.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut name = TunnelId((mixed >> 32) as u32 | 1 << 31);
        while self.tunnels.get(&name).is_some_and(|other| *other != home) {
            name = TunnelId(name.0.wrapping_add(1) | 1 << 31);
        }
        name
    }

    /// Sets the wall clock. If it was set back, the last timestamps are shifted alike; otherwise every update would be
    /// rejected as a replay until the clock has passed them.
    fn set_clock(&mut self, now: Time, unix_micros: u64) {
        let back = self.clock.unix_micros(now).map_or(0, |before| before.saturating_sub(unix_micros));
        // Those of a fleet are the store's.
        #[cfg(feature = "fleet")]
        let back = if self.fleet.is_some() { 0 } else { back };
        for binding in self.bindings.values_mut().filter(|binding| binding.timestamp != Timestamp::default()) {
            binding.timestamp = binding.timestamp.moved_back(back);
        }
        self.clock.put(now, unix_micros);
    }

    fn execute(&mut self, now: Time, order: &Command, out: &mut Outbox) {
        match order {
            Command::Lifecycle(LifecycleCommand::RestoreJournal(records)) => {
                self.restore_keys(records, out);
                self.unrestored.extend(records.iter().cloned());
                self.restore_journal(now, out);
            }
            Command::HomeAgent(HomeAgentCommand::ReloadPrefixTable(table)) => {
                let ipv4 = self.serves_ipv4();
                #[cfg(feature = "fleet")]
                let table = &self.with_shared_rows(table);
                self.reload_prefix_table(now, table.clone(), out);
                self.update_ipv4_forwarding(ipv4, out);
            }
            Command::Lifecycle(LifecycleCommand::JournalRestored) => {
                self.enable_forwarding(out);
                self.put_unreachable_routes(out);
                self.guard_subflows(out);
            }
            Command::HomeAgent(HomeAgentCommand::ReloadKeys(encryption)) => self.reload_keys(encryption),
            Command::HomeAgent(HomeAgentCommand::DeleteBinding(home)) => {
                self.delete_binding(now, *home, "deleted by the operator", out);
                #[cfg(feature = "fleet")]
                self.delete_record(now, *home, out);
            }
            #[cfg(feature = "fleet")]
            Command::HomeAgent(HomeAgentCommand::Fleet(command)) => self.execute_fleet(now, *command, out),
            // Bindings outlive the daemon: the host removes the items itself, and the journal stays.
            Command::Lifecycle(LifecycleCommand::Stop) => self.stop_advertising(out),
            _ => {}
        }
    }
}

impl Engine for HomeAgent {
    fn handle(&mut self, now: Time, input: &Input, out: &mut Outbox) {
        match input {
            Input::Tick | Input::Neighbour(_) | Input::Route(_) => {}
            Input::Subflow(_)
            | Input::Flow(_)
            | Input::Activity(_)
            | Input::Verified(_)
            | Input::Signed(_)
            | Input::LinkTraffic(_)
            | Input::PathTraffic(_)
            | Input::ChannelUse(_)
            | Input::Interception(_)
            | Input::Frame(_)
            | Input::Fix(_) => {}
            #[cfg(feature = "fleet")]
            Input::Fleet(event) => self.receive_fleet_event(now, event, out),
            Input::Packet(packet) => self.receive_packet(now, packet, out),
            Input::Link(event) => {
                self.link_changed(now, event, out);
                self.shared_link_changed(event, out);
            }
            Input::Address(event) => {
                self.address_changed(event, out);
                self.shared_address_changed(event, out);
            }
            Input::Outcome(outcome) => self.receive_outcome(now, outcome, out),
            Input::Clock(clock) => {
                self.set_clock(now, clock.unix_micros);
                self.restore_journal(now, out);
            }
            Input::Command(order) => self.execute(now, order, out),
        }
        self.run_timers(now, out);
        #[cfg(feature = "fleet")]
        self.update_membership(now, out);
    }

    #[cfg(feature = "fleet")]
    fn takeover_complete(&self) -> bool {
        self.has_joined()
    }

    fn deadline(&self) -> Option<Time> {
        self.timers.deadline()
    }

    fn view(&self, now: Time, view: &mut View) {
        let mut last = None;
        while let Some(next) = self.view_page(now, last, view) {
            last = Some(next);
        }
    }

    fn view_page(&self, now: Time, last: Option<HomeAddress>, view: &mut View) -> Option<HomeAddress> {
        if last.is_none() {
            self.show_summary(now, view);
        }
        self.show_page(now, last, view)
    }
}

/// Sorts the table, unless its reader has sorted it; then no copy is needed.
fn sort_table(table: &mut Arc<PrefixTable>) {
    if !table.rows.is_sorted_by_key(|row| row.home_address) {
        Arc::make_mut(table).rows.sort_by_key(|row| row.home_address);
    }
}
