//! A member on a bench: the test answers for the store.

use crate::contract::config::fleet::{AnnounceConfig, FleetConfig};
use crate::contract::config::nemo::HomeAgentConfig;
use crate::contract::fleet::{Commit, FleetEvent, MemberRecord, MemberState, Stored};
use crate::contract::item::{BindingRecord, FleetRecord, Revision};
use crate::nemo::home_agent::tests::bench::{TestBed, Update, config, sent};
use crate::{Input, Item, Key, Outcome, Output, Put};
use core::time::Duration;

/// A member, and the revision of its store.
pub(super) struct Bench {
    pub bed: TestBed,
    pub head: u64,
}

pub(super) fn fleet_config() -> HomeAgentConfig {
    let fleet = FleetConfig {
        name: "north".to_owned(),
        member: "ha1".to_owned(),
        announce: Some(AnnounceConfig::default()),
        ..FleetConfig::default()
    };
    HomeAgentConfig { fleet: Some(Box::new(fleet)), duplicate_detection: false, ..config() }
}

/// The records that a member wants committed.
pub(super) fn puts(outputs: &[Output]) -> Vec<(Put, FleetRecord)> {
    let of = |output: &Output| match output {
        Output::Put(put) => match &put.item {
            Item::FleetRecord(record) => Some((put.clone(), record.clone())),
            _ => None,
        },
        _ => None,
    };
    outputs.iter().filter_map(of).collect()
}

impl Bench {
    /// A member that is joining.
    pub(super) fn joining(config: HomeAgentConfig) -> Bench {
        let mut bench = Bench { bed: TestBed::new(config), head: 10 };
        bench.event(FleetEvent::Connected);
        bench.event(FleetEvent::SnapshotBegins(Revision(10)));
        bench.event(FleetEvent::SnapshotEnds(Revision(10)));
        bench
    }

    /// A healthy member.
    pub(super) fn new(config: HomeAgentConfig) -> Bench {
        let mut bench = Bench::joining(config);
        bench.beat(3);
        assert_eq!(bench.state(), MemberState::Healthy);
        bench
    }

    pub(super) fn event(&mut self, event: FleetEvent) -> Vec<Output> {
        self.bed.feed(Input::Fleet(event))
    }

    /// So many heartbeats come back, each 400 ms after the one before.
    pub(super) fn beat(&mut self, times: u8) -> Vec<Output> {
        let mut outputs = Vec::new();
        for _ in 0..times {
            outputs.extend(self.bed.advance(Duration::from_millis(400)));
            self.head += 1;
            let own_heartbeat = Some(Duration::from_millis(5));
            outputs.extend(self.event(FleetEvent::Head { revision: Revision(self.head), own_heartbeat }));
        }
        outputs
    }

    pub(super) fn state(&self) -> MemberState {
        match self.bed.plan.find(&Key::FleetMember) {
            Some(Item::FleetMember(state)) => *state,
            other => panic!("{other:?}"),
        }
    }

    /// The only change that is to be committed, because of an update.
    pub(super) fn send(&mut self, update: &Update) -> (Put, FleetRecord) {
        let outputs = self.bed.send(update);
        assert!(sent(&outputs).is_empty(), "not before the commit: {outputs:#?}");
        let mut puts = puts(&outputs);
        assert_eq!(puts.len(), 1, "{outputs:#?}");
        puts.remove(0)
    }

    /// The store answers.
    pub(super) fn answer(&mut self, put: &Put, commit: Commit) -> Vec<Output> {
        self.bed.feed(Input::Outcome(Outcome { commit: Some(commit), ..put.outcome(None) }))
    }

    /// The store takes a change.
    pub(super) fn keep(&mut self, put: &Put) -> Vec<Output> {
        self.head += 1;
        self.answer(put, Commit::Kept(Revision(self.head)))
    }

    /// The store has this record now, which another member has written.
    pub(super) fn store(&mut self, record: BindingRecord) -> Vec<Output> {
        let stored = self.stored(record);
        self.event(FleetEvent::Stored(stored))
    }

    pub(super) fn stored(&mut self, record: BindingRecord) -> Stored {
        self.head += 1;
        let revision = Revision(self.head);
        Stored { home_address: record.home_address, revision, record: Some(Box::new(record)) }
    }

    /// The heartbeat of another member, whose clock is ahead by so many microseconds.
    pub(super) fn hear(&mut self, name: &str, ahead: i64) -> Vec<Output> {
        let unix = 1_767_225_600_000_000 + self.bed.now.as_micros();
        self.event(FleetEvent::Member(MemberRecord {
            name: name.to_owned(),
            state: MemberState::Healthy,
            applied: Revision(self.head),
            unix_micros: unix.wrapping_add_signed(ahead),
            version: "1".to_owned(),
            addresses: Vec::new(),
        }))
    }

    /// Where packets of the first mobile router are sent.
    pub(super) fn care_of(&self) -> Option<std::net::Ipv6Addr> {
        self.bed.tunnel()?.paths.iter().find(|path| path.weight > 0).map(|path| path.remote)
    }
}

/// The record of a change.
pub(super) fn record(change: &FleetRecord) -> BindingRecord {
    change.record.as_deref().unwrap().clone()
}
