//! The world of a seed: its members and mobile routers, and the script of faults.

use super::member::Member;
use super::mobile::Mobile;
use crate::kinds::kinds;
use crate::net::Choice;
use core::time::Duration;
use roam6_proto::Entropy;
use roam6_proto::contract::config::fleet::{AnnounceConfig, FleetConfig};
use roam6_proto::contract::config::nemo::{
    Authentication, HomeAgentConfig, Ipv4Pool, PrefixTable, PrefixTableRow, SharedKey,
};
use roam6_wire::{HomeAddress, Prefix};
use std::net::{Ipv4Addr, Ipv6Addr};

kinds! {
    /// The kind of a world.
    FleetKind {
        /// Nothing fails: mobile routers move.
        Calm,
        /// Members are killed, and start again.
        Kills,
        /// Members are cut off from the store, one or all.
        Partitions,
        /// The store is slow, loses answers, and changes its leader.
        SlowStore,
        /// The store forgets its history while members are away.
        Compaction,
        /// Clocks of members are wrong for a while.
        Skew,
        /// Updates reach two members at once, and are replayed to others.
        Replays,
        /// All of that.
        Everything,
    }
}

/// The address that all members have.
pub const AGENT: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const MEMBERS: u8 = 3;
const SECOND: u64 = 1_000_000;

/// A fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A process is killed.
    Kill(usize),
    /// A process starts.
    Start(usize),
    /// A member does not reach the store, or does again.
    Cut(usize, bool),
    /// The store does not answer, or does again: an election, or no quorum.
    Down(bool),
    /// The store forgets its history.
    Compact,
    /// The clock of a member is ahead by so many microseconds.
    Clock(usize, i64),
    /// The host of a member refuses so many items of a thousand.
    Refuse(usize, u64),
    /// A mobile router moves to a place, or de-registers.
    Go(usize, Option<Ipv6Addr>),
}

/// How the store behaves.
#[derive(Debug, Clone, Copy)]
pub struct StoreManners {
    /// The longest time on the way to the store, and back, microseconds.
    pub delay: u64,
    /// The longest time until a change arrives at a member.
    pub watch: u64,
    /// One answer in so many is lost; 0: none.
    pub lost_one_in: u64,
}

/// A world and its script.
pub struct Scenario {
    /// Its kind.
    pub kind: FleetKind,
    /// The members.
    pub members: Vec<Member>,
    /// The mobile routers.
    pub mobiles: Vec<Mobile>,
    /// The store.
    pub manners: StoreManners,
    /// One update in so many is captured and replayed; 0: none.
    pub replayed_one_in: u64,
    /// One update in so many reaches two members; 0: none.
    pub doubled_one_in: u64,
    /// Faults by their time.
    pub script: Vec<(Duration, Fault)>,
    /// When the last fault has ended.
    pub calm: Duration,
}

/// The home address of a mobile router.
fn home_address(index: u16) -> HomeAddress {
    HomeAddress(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 1, index + 1))
}

/// A place that it may visit.
fn place(index: u16, network: u64) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 0x1000, u16::try_from(network).unwrap_or(0), 0, 0, 0, index + 1)
}

fn rows(mobiles: u16, rng: &mut Entropy) -> Vec<PrefixTableRow> {
    let row = |index: u16| {
        let mut secret = vec![0; 16];
        rng.fill(&mut secret);
        PrefixTableRow {
            home_address: home_address(index),
            prefixes: Prefix::new(Ipv6Addr::new(0x2001, 0xdb8, 0x100 + index, 0, 0, 0, 0, 0), 48).into_iter().collect(),
            authentication: Authentication::SharedKey(SharedKey { spi: 256 + u32::from(index), secret }),
            next_key: None,
            invitation: None,
        }
    };
    (0..mobiles).map(row).collect()
}

fn config(index: u8, rows: &[PrefixTableRow], pool: Option<Ipv4Pool>) -> HomeAgentConfig {
    HomeAgentConfig {
        address: AGENT,
        home_prefixes: Prefix::new(AGENT, 64).into_iter().collect(),
        prefix_table: PrefixTable { rows: rows.to_vec() }.into(),
        max_lifetime: Duration::from_secs(600),
        max_bindings: 100,
        ipv4_pool: pool,
        fleet: Some(Box::new(FleetConfig {
            name: "sim".to_owned(),
            member: format!("ha{index}"),
            announce: Some(AnnounceConfig::default()),
            ..FleetConfig::default()
        })),
        ..Default::default()
    }
}

impl Scenario {
    /// The world of `seed`.
    pub fn new(seed: u64) -> Scenario {
        let kind = FleetKind::of_seed(seed);
        let mut rng = Entropy::seed_from_u64(seed ^ 0xf1ee_7000);
        let mobiles = u16::try_from(rng.between(2, 4)).unwrap_or(2);
        let rows = rows(mobiles, &mut rng);
        // As many addresses as mobile routers, or more: every claim matters.
        let length = if rng.one_in(2) { 30 } else { 28 };
        let pool =
            Prefix::from_ipv4(Ipv4Addr::new(203, 0, 113, 0), length).map(|prefix| Ipv4Pool { prefix, length: 32 });
        let pool = pool.filter(|_| rng.one_in(2));
        let member = |index: u8| Member::new(&format!("ha{index}"), config(index, &rows, pool), index);
        let members = (0..MEMBERS).map(member).collect();
        let lifetime = |rng: &mut Entropy| u16::try_from(rng.between(4, 40)).unwrap_or(10);
        let of_row = |row: &PrefixTableRow| Mobile::new(row.clone(), AGENT, lifetime(&mut rng), pool.is_some());
        let all: Vec<Mobile> = rows.iter().map(of_row).collect();
        let is = |kinds: &[FleetKind]| kinds.contains(&kind) || kind == FleetKind::Everything;
        let manners = match is(&[FleetKind::SlowStore]) {
            true => {
                StoreManners { delay: rng.between(20_000, 400_000), watch: 200_000, lost_one_in: rng.between(4, 20) }
            }
            false => StoreManners { delay: rng.between(200, 20_000), watch: 20_000, lost_one_in: 0 },
        };
        let calm = Duration::from_micros(rng.between(20 * SECOND, 60 * SECOND));
        let mut scenario = Scenario {
            kind,
            members,
            mobiles: all,
            manners,
            replayed_one_in: if is(&[FleetKind::Replays]) { 2 } else { 0 },
            doubled_one_in: if is(&[FleetKind::Replays]) { 4 } else { 0 },
            script: Vec::new(),
            calm,
        };
        scenario.write_moves(&mut rng);
        scenario.write_faults(&mut rng);
        scenario.write_end(&mut rng);
        scenario
    }

    fn write_moves(&mut self, rng: &mut Entropy) {
        for index in 0..self.mobiles.len() {
            let mut at = Duration::from_micros(rng.between(2 * SECOND, 5 * SECOND));
            while at < self.calm {
                self.script.push((at, Fault::Go(index, somewhere(index, rng))));
                at += Duration::from_micros(rng.between(SECOND / 50, 12 * SECOND));
            }
        }
    }

    fn write_faults(&mut self, rng: &mut Entropy) {
        let mut at = Duration::from_secs(4);
        while at < self.calm && self.kind != FleetKind::Calm {
            let until = (at + Duration::from_micros(rng.between(SECOND / 2, 12 * SECOND))).min(self.calm);
            let member = rng.index(self.members.len());
            let kinds =
                [FleetKind::Kills, FleetKind::Partitions, FleetKind::SlowStore, FleetKind::Compaction, FleetKind::Skew];
            let kind = match self.kind {
                FleetKind::Everything => rng.pick(&kinds).unwrap_or(FleetKind::Kills),
                kind => kind,
            };
            match kind {
                FleetKind::Kills => {
                    self.script.extend([(at, Fault::Kill(member)), (until, Fault::Start(member))]);
                }
                FleetKind::Partitions if rng.one_in(3) => {
                    self.script.extend([(at, Fault::Down(true)), (until, Fault::Down(false))]);
                }
                FleetKind::Partitions => {
                    self.script.extend([(at, Fault::Cut(member, true)), (until, Fault::Cut(member, false))]);
                }
                FleetKind::SlowStore => {
                    let until = (at + Duration::from_micros(rng.between(SECOND, 2 * SECOND))).min(self.calm);
                    self.script.extend([(at, Fault::Down(true)), (until, Fault::Down(false))]);
                }
                FleetKind::Compaction => {
                    let middle = at + (until - at) / 2;
                    let (off, on) = match rng.one_in(2) {
                        true => (Fault::Cut(member, true), Fault::Cut(member, false)),
                        false => (Fault::Kill(member), Fault::Start(member)),
                    };
                    self.script.extend([(at, off), (middle, Fault::Compact), (until, on)]);
                }
                FleetKind::Skew => {
                    let ahead = i64::try_from(rng.between(1, 5 * SECOND)).unwrap_or(0);
                    let ahead = if rng.one_in(2) { ahead } else { -ahead };
                    self.script.extend([(at, Fault::Clock(member, ahead)), (until, Fault::Clock(member, 0))]);
                }
                _ => {
                    let permille = rng.between(10, 200);
                    self.script.extend([(at, Fault::Refuse(member, permille)), (until, Fault::Refuse(member, 0))]);
                }
            }
            at += Duration::from_micros(rng.between(SECOND, 10 * SECOND));
        }
    }

    /// Ends all faults; every mobile router wants something last.
    fn write_end(&mut self, rng: &mut Entropy) {
        let mut last = vec![Fault::Down(false)];
        for member in 0..self.members.len() {
            let ends =
                [Fault::Cut(member, false), Fault::Clock(member, 0), Fault::Refuse(member, 0), Fault::Start(member)];
            last.extend(ends);
        }
        last.extend((0..self.mobiles.len()).map(|index| Fault::Go(index, somewhere(index, rng))));
        self.script.retain(|(at, _)| *at < self.calm);
        self.script.extend(last.into_iter().map(|fault| (self.calm, fault)));
    }
}

fn somewhere(index: usize, rng: &mut Entropy) -> Option<Ipv6Addr> {
    let network = rng.between(1, 200);
    (!rng.one_in(6)).then(|| place(u16::try_from(index).unwrap_or(0), network))
}
