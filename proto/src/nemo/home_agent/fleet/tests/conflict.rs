//! Another member was first: its record is adopted, and the update judged against it.

use super::bench::*;
use crate::Input;
use crate::contract::command::{Command, HomeAgentCommand};
use crate::contract::config::nemo::PrefixTable;
use crate::contract::fleet::{Commit, FleetEvent, Stored};
use crate::contract::item::Revision;
use crate::nemo::home_agent::tests::bench::*;
use roam6_wire::{HomeAddress, Sequence};
use std::sync::Arc;

/// What another member has committed for the first mobile router a second ago, with this update.
fn elsewhere(sequence: u16, source: &str) -> crate::contract::item::BindingRecord {
    let mut other = Bench::new(fleet_config());
    let (_, change) = other.send(&Update { clock_offset: Some(-1_000_000), ..Update::new(sequence, source) });
    record(&change)
}

#[test]
fn a_record_of_another_member_is_in_force_without_an_acknowledgement() {
    let mut bench = Bench::new(fleet_config());
    let outputs = bench.store(elsewhere(5, "2001:db8:1::100"));
    assert!(sent(&outputs).is_empty() && puts(&outputs).is_empty());
    assert_eq!(bench.care_of(), Some(address("2001:db8:1::100")));
    assert_eq!(status(&bench.bed.send(&Update::new(5, "2001:db8:1::100"))), 135, "a replay");
    let (put, change) = bench.send(&Update::new(6, "2001:db8:2::100"));
    assert_eq!(change.expected, Revision(bench.head));
    assert_eq!(status(&bench.keep(&put)), 0);
}

#[test]
fn a_replay_to_a_member_that_knows_nothing_is_refused_by_the_store() {
    let mut bench = Bench::new(fleet_config());
    let (put, _) = bench.send(&Update::new(5, "2001:db8:1::100"));
    let stored = bench.stored(elsewhere(5, "2001:db8:1::100"));
    let outputs = bench.answer(&put, Commit::Conflict(stored));
    assert_eq!(status(&outputs), 135);
    assert!(puts(&outputs).is_empty());
    assert_eq!(bench.care_of(), Some(address("2001:db8:1::100")));
}

#[test]
fn a_newer_update_is_committed_again_after_a_conflict() {
    let mut bench = Bench::new(fleet_config());
    let (put, _) = bench.send(&Update::new(6, "2001:db8:2::100"));
    let stored = bench.stored(elsewhere(5, "2001:db8:1::100"));
    let outputs = bench.answer(&put, Commit::Conflict(stored));
    let (put, change) = puts(&outputs).remove(0);
    assert!(sent(&outputs).is_empty() && change.expected == Revision(bench.head));
    assert_eq!(status(&bench.keep(&put)), 0);
    assert_eq!(bench.care_of(), Some(address("2001:db8:2::100")));
}

#[test]
fn an_update_that_others_always_precede_is_dropped_in_the_end() {
    let mut bench = Bench::new(fleet_config());
    let (mut put, _) = bench.send(&Update::new(100, "2001:db8:2::100"));
    for sequence in 1..4 {
        let stored = bench.stored(elsewhere(sequence, "2001:db8:1::100"));
        put = puts(&bench.answer(&put, Commit::Conflict(stored))).remove(0).0;
    }
    let stored = bench.stored(elsewhere(4, "2001:db8:1::100"));
    let outputs = bench.answer(&put, Commit::Conflict(stored));
    assert!(puts(&outputs).is_empty() && sent(&outputs).is_empty());
    assert_eq!(bench.care_of(), Some(address("2001:db8:1::100")));
}

#[test]
fn a_deregistration_elsewhere_ends_the_binding() {
    let mut bench = Bench::new(fleet_config());
    let registered = elsewhere(5, "2001:db8:1::100");
    bench.store(registered.clone());
    let mut tombstone = registered;
    (tombstone.care_of, tombstone.prefixes, tombstone.sequence) = (Vec::new(), Vec::new(), Sequence(6));
    tombstone.timestamp += 1 << 32;
    bench.store(tombstone);
    assert!(bench.care_of().is_none());
    let outputs = bench.bed.send(&Update::new(6, "2001:db8:1::100"));
    assert_eq!(status(&outputs), 135);
}

#[test]
fn an_older_record_changes_nothing() {
    let mut bench = Bench::new(fleet_config());
    let old = bench.stored(elsewhere(4, "2001:db8:3::100"));
    bench.store(elsewhere(5, "2001:db8:1::100"));
    assert!(bench.event(FleetEvent::Stored(old)).is_empty());
    assert_eq!(bench.care_of(), Some(address("2001:db8:1::100")));
}

#[test]
fn what_a_snapshot_does_not_name_is_over() {
    let mut bench = Bench::new(fleet_config());
    bench.store(elsewhere(5, "2001:db8:1::100"));
    let head = Revision(bench.head + 10);
    bench.event(FleetEvent::SnapshotBegins(head));
    assert!(bench.bed.tunnel().is_some(), "not before it is complete");
    bench.event(FleetEvent::SnapshotEnds(head));
    assert!(bench.care_of().is_none());
    let stale = Stored {
        home_address: home(),
        revision: Revision(bench.head),
        record: Some(Box::new(elsewhere(5, "2001:db8:1::100"))),
    };
    bench.event(FleetEvent::Stored(stale));
    assert!(bench.care_of().is_none(), "it is known to be over");
}

#[test]
fn a_record_that_the_prefix_table_does_not_allow_is_not_served() {
    let mut narrowed = fleet_config();
    narrowed.prefix_table = Default::default();
    let mut bench = Bench::new(narrowed);
    bench.store(elsewhere(5, "2001:db8:1::100"));
    assert!(bench.bed.tunnel().is_none());
    let row = config().prefix_table.rows[0].clone();
    bench.event(FleetEvent::Row(Box::new(row)));
    bench.beat(1);
    assert_eq!(bench.care_of(), Some(address("2001:db8:1::100")), "once the table allows it");
    bench.event(FleetEvent::RowGone(home()));
    bench.beat(1);
    assert!(bench.care_of().is_none());
}

#[test]
fn rows_of_the_file_and_of_the_store_are_served_together() {
    let mut bench = Bench::new(fleet_config());
    bench.store(elsewhere(5, "2001:db8:1::100"));
    // The store gets the same row, and one whose prefix the file does not have.
    let mut other = config().prefix_table.rows[0].clone();
    other.home_address = HomeAddress(address("2001:db8:f00::77"));
    other.prefixes = ["2001:db8:b00::/56".parse().unwrap()].into();
    let head = Revision(bench.head + 10);
    let record = elsewhere(5, "2001:db8:1::100");
    let stored = Stored { home_address: home(), revision: Revision(bench.head + 1), record: Some(Box::new(record)) };
    bench.event(FleetEvent::SnapshotBegins(head));
    bench.event(FleetEvent::Stored(stored));
    bench.event(FleetEvent::Row(Box::new(other)));
    bench.event(FleetEvent::SnapshotEnds(head));
    bench.beat(1);
    assert!(bench.care_of().is_some(), "the row of the file is still there");
    // A row of the store outlives the file's, and the other way round.
    bench.event(FleetEvent::Row(Box::new(config().prefix_table.rows[0].clone())));
    bench.beat(1);
    let reload = |rows| Command::HomeAgent(HomeAgentCommand::ReloadPrefixTable(Arc::new(PrefixTable { rows })));
    bench.bed.feed(Input::Command(reload(Vec::new())));
    assert!(bench.care_of().is_some(), "the store has the row");
    bench.bed.feed(Input::Command(reload(config().prefix_table.rows.clone())));
    bench.event(FleetEvent::RowGone(home()));
    bench.beat(1);
    assert!(bench.care_of().is_some(), "the file has the row again");
    bench.bed.feed(Input::Command(reload(Vec::new())));
    assert!(bench.care_of().is_none());
}

#[test]
fn a_record_that_leads_back_here_is_not_served() {
    let mut bench = Bench::new(fleet_config());
    for care_of in ["2001:db8::1", "::1", "2001:db8:f00::5", "fe80::1", "ff02::1"] {
        let mut record = elsewhere(5, "2001:db8:1::100");
        record.care_of[0].1 = address(care_of);
        bench.store(record);
        assert!(bench.care_of().is_none(), "{care_of}");
    }
}
