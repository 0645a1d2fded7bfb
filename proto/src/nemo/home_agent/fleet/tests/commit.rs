//! Commits: acknowledged once the store has them, and not before.

use super::bench::*;
use crate::contract::command::HomeAgentCommand;
use crate::contract::fleet::{Commit, FleetEvent};
use crate::contract::item::Revision;
use crate::nemo::home_agent::tests::bench::*;
use crate::{Command, Input, Key};

#[test]
fn a_registration_is_acknowledged_once_the_store_has_it() {
    let mut bench = Bench::new(fleet_config());
    let (put, change) = bench.send(&Update::new(1, "2001:db8:1::100"));
    assert_eq!(change.expected, Revision(0));
    assert_eq!(bench.care_of(), Some(address("2001:db8:1::100")), "installed first");
    assert_eq!(status(&bench.keep(&put)), 0);
    let (put, change) = bench.send(&Update::new(2, "2001:db8:1::100"));
    assert_eq!(change.expected, Revision(bench.head), "a refresh installs nothing, and is committed at once");
    assert_eq!(status(&bench.keep(&put)), 0);
    let journaled = |key: &Key| matches!(key, Key::JournalRecord(_));
    assert!(!bench.bed.installed().iter().any(journaled), "the store has the record");
}

#[test]
fn a_commit_that_the_store_does_not_take_is_not_answered() {
    for commit in [Commit::Unknown, Commit::Unavailable("no quorum".to_owned())] {
        let mut bench = Bench::new(fleet_config());
        let (put, _) = bench.send(&Update::new(1, "2001:db8:1::100"));
        let outputs = bench.answer(&put, commit.clone());
        assert!(sent(&outputs).is_empty() && bench.bed.tunnel().is_none(), "{outputs:#?}");
        let (put, _) = bench.send(&Update::new(2, "2001:db8:1::100"));
        assert_eq!(status(&bench.keep(&put)), 0);
        let (put, _) = bench.send(&Update::new(3, "2001:db8:2::100"));
        assert!(sent(&bench.answer(&put, commit)).is_empty());
        assert_eq!(bench.care_of(), Some(address("2001:db8:1::100")), "the registration in force");
        let (_, change) = bench.send(&Update::new(3, "2001:db8:2::100"));
        assert_eq!(change.expected, Revision(bench.head), "its number was not used");
    }
}

#[test]
fn a_commit_of_unknown_result_is_adopted_when_it_comes() {
    let mut bench = Bench::new(fleet_config());
    let (put, change) = bench.send(&Update::new(1, "2001:db8:1::100"));
    bench.answer(&put, Commit::Unknown);
    assert!(sent(&bench.store(record(&change))).is_empty());
    assert_eq!(bench.care_of(), Some(address("2001:db8:1::100")));
    assert_eq!(status(&bench.bed.send(&Update::new(1, "2001:db8:1::100"))), 135);
}

#[test]
fn a_commit_that_comes_before_its_unknown_result_is_acknowledged() {
    let mut bench = Bench::new(fleet_config());
    let (put, change) = bench.send(&Update::new(1, "2001:db8:1::100"));
    assert!(sent(&bench.store(record(&change))).is_empty());
    assert_eq!(status(&bench.answer(&put, Commit::Unknown)), 0);
}

#[test]
fn a_refused_item_commits_nothing() {
    let mut bench = Bench::new(fleet_config());
    bench.bed.rejected.push(Key::Route(
        crate::contract::item::RouteTable::MAIN,
        prefix("2001:db8:f00::/56"),
        roam6_wire::Prefix::ALL,
        100,
    ));
    let outputs = bench.bed.send(&Update::new(1, "2001:db8:1::100"));
    assert_eq!(status(&outputs), 130);
    assert!(puts(&outputs).is_empty() && bench.bed.tunnel().is_none());
}

#[test]
fn a_deregistration_is_acknowledged_once_the_store_has_its_tombstone() {
    let mut bench = Bench::new(fleet_config());
    let (put, _) = bench.send(&Update::new(1, "2001:db8:1::100"));
    bench.keep(&put);
    let (put, change) = bench.send(&Update::new(2, "2001:db8:1::100").lifetime(0));
    assert!(record(&change).care_of.is_empty() && bench.care_of().is_none());
    assert!(sent(&bench.answer(&put, Commit::Unavailable("slow".to_owned()))).is_empty());
    let outputs = bench.beat(2);
    assert!(puts(&outputs).is_empty(), "not at once");
    let outputs = bench.beat(1);
    let (put, _) = puts(&outputs).remove(0);
    assert_eq!(status(&bench.keep(&put)), 0, "tried again until the store has it");
    assert_eq!(status(&bench.bed.send(&Update::new(2, "2001:db8:1::100"))), 135);
}

#[test]
fn a_deregistration_of_what_this_member_does_not_know_is_committed_too() {
    let mut bench = Bench::new(fleet_config());
    let earlier = Update::new(1, "2001:db8:1::100").packet(bench.bed.now);
    let (put, change) = bench.send(&Update::new(2, "2001:db8:1::100").lifetime(0));
    assert!(change.expected == Revision(0) && record(&change).care_of.is_empty());
    assert_eq!(status(&bench.keep(&put)), 0);
    assert_eq!(status(&bench.bed.feed(Input::Packet(earlier))), 135, "one that it has overtaken");
}

#[test]
fn a_later_update_waits_for_the_earlier_commit() {
    let mut bench = Bench::new(fleet_config());
    let (first, _) = bench.send(&Update::new(1, "2001:db8:1::100"));
    let outputs = bench.bed.send(&Update::new(2, "2001:db8:2::100"));
    assert!(puts(&outputs).is_empty(), "one at a time");
    let outputs = bench.keep(&first);
    let (second, change) = puts(&outputs).remove(0);
    assert!(sent(&outputs).is_empty());
    assert_eq!((change.expected, record(&change).sequence.0), (Revision(bench.head), 2));
    assert_eq!(acknowledgement(&bench.keep(&second)).sequence.0, 2);
    assert_eq!(bench.care_of(), Some(address("2001:db8:2::100")));
}

#[test]
fn a_registration_that_is_not_committed_leaves_the_deregistration_before_it() {
    let unavailable = || Commit::Unavailable("no quorum".to_owned());
    let mut bench = Bench::new(fleet_config());
    let (put, _) = bench.send(&Update::new(1, "2001:db8:1::100"));
    assert_eq!(status(&bench.keep(&put)), 0);
    let (put, _) = bench.send(&Update::new(2, "2001:db8:1::100").lifetime(0));
    assert!(sent(&bench.answer(&put, unavailable())).is_empty());
    let (put, _) = bench.send(&Update::new(3, "2001:db8:2::100"));
    assert!(sent(&bench.answer(&put, Commit::Unknown)).is_empty());
    assert!(bench.care_of().is_none(), "it has ended here");
    // The others have it still, unless the store is told.
    let tombstones: Vec<_> = puts(&bench.beat(4));
    assert_eq!(tombstones.len(), 1, "{tombstones:#?}");
    let (put, change) = tombstones[0].clone();
    assert!(record(&change).care_of.is_empty());
    bench.keep(&put);
    assert!(puts(&bench.beat(4)).is_empty());
    let (put, _) = bench.send(&Update::new(4, "2001:db8:2::100"));
    assert_eq!(status(&bench.keep(&put)), 0);
}

#[test]
fn the_operator_deletes_a_binding_in_the_store_too() {
    let mut bench = Bench::new(fleet_config());
    let (put, _) = bench.send(&Update::new(1, "2001:db8:1::100"));
    bench.keep(&put);
    let outputs = bench.bed.feed(Input::Command(Command::HomeAgent(HomeAgentCommand::DeleteBinding(home()))));
    let (put, change) = puts(&outputs).remove(0);
    assert!(record(&change).care_of.is_empty() && bench.bed.tunnel().is_none());
    assert!(bench.keep(&put).is_empty());
}

#[test]
fn a_shared_path_mtu_is_learnt() {
    let mut bench = Bench::new(fleet_config());
    let (put, _) = bench.send(&Update::new(1, "2001:db8:1::100"));
    bench.keep(&put);
    bench.event(FleetEvent::PathMtu { remote: address("2001:db8:1::100"), mtu: 1400 });
    assert_eq!(bench.bed.tunnel().unwrap().paths[0].mtu, 1360);
    bench.event(FleetEvent::PathMtu { remote: address("2001:db8:1::100"), mtu: 600 });
    assert_eq!(bench.bed.tunnel().unwrap().paths[0].mtu, 1360, "less than IPv6 allows");
}
