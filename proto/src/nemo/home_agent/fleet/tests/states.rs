//! The states of a member: joining, healthy, degraded, draining, gone.

use super::bench::*;
use crate::contract::command::{FleetCommand, HomeAgentCommand};
use crate::contract::fleet::{FleetEvent, MemberState, StoreFault};
use crate::contract::report::FleetReport;
use crate::nemo::home_agent::tests::bench::*;
use crate::{Command, Engine, Input, Item, Key, Output, Report, View};
use core::time::Duration;
use roam6_wire::Prefix;

fn metric(bench: &Bench) -> Option<u32> {
    match bench.bed.plan.find(&Key::Announcement(Prefix::host(agent()))) {
        Some(Item::Announcement(announcement)) => Some(announcement.metric),
        _ => None,
    }
}

fn command(bench: &mut Bench, command: FleetCommand) -> Vec<Output> {
    bench.bed.feed(Input::Command(Command::HomeAgent(HomeAgentCommand::Fleet(command))))
}

fn has_silently_dropped(outputs: &[Output]) -> bool {
    let dropped = outputs.iter().any(|output| match output {
        Output::Report(Report::Host(report)) => report.to_string().contains("this member is"),
        _ => false,
    });
    dropped && sent(outputs).is_empty() && puts(outputs).is_empty()
}

#[test]
fn a_member_joins_once_its_heartbeats_come_back() {
    let mut bench = Bench::joining(fleet_config());
    assert_eq!((bench.state(), metric(&bench)), (MemberState::Joining, None));
    assert!(!bench.bed.agent.takeover_complete());
    assert!(has_silently_dropped(&bench.bed.send(&Update::new(1, "2001:db8:1::100"))));
    bench.beat(2);
    assert_eq!(bench.state(), MemberState::Joining);
    bench.beat(1);
    assert_eq!((bench.state(), metric(&bench)), (MemberState::Healthy, Some(100)));
    assert!(bench.bed.agent.takeover_complete());
    assert!(bench.bed.plan.find(&Key::Announcement(prefix("2001:db8::/64"))).is_some());
}

#[test]
fn heartbeats_during_a_snapshot_prove_nothing() {
    let mut bench = Bench::joining(fleet_config());
    bench.event(FleetEvent::SnapshotBegins(crate::contract::item::Revision(20)));
    bench.beat(5);
    assert_eq!(bench.state(), MemberState::Joining);
    bench.event(FleetEvent::SnapshotEnds(crate::contract::item::Revision(20)));
    bench.beat(1);
    assert_eq!(bench.state(), MemberState::Healthy);
}

#[test]
fn a_member_that_starts_without_its_store_serves_by_its_copy() {
    let mut bench = Bench::joining(fleet_config());
    bench.event(FleetEvent::Copied);
    bench.bed.advance(Duration::from_millis(2900));
    assert_eq!((bench.state(), metric(&bench)), (MemberState::Joining, None), "the store may come yet");
    bench.bed.advance(Duration::from_millis(200));
    assert_eq!((bench.state(), metric(&bench)), (MemberState::Degraded, Some(200)));
    assert!(has_silently_dropped(&bench.bed.send(&Update::new(1, "2001:db8:1::100"))));
    bench.event(FleetEvent::Connected);
    bench.beat(3);
    assert_eq!((bench.state(), metric(&bench)), (MemberState::Healthy, Some(100)));
    // One whose store answers in time reads that first.
    let mut bench = Bench::joining(fleet_config());
    bench.event(FleetEvent::Copied);
    bench.event(FleetEvent::Connected);
    bench.bed.advance(Duration::from_secs(10));
    assert_eq!((bench.state(), metric(&bench)), (MemberState::Joining, None));
}

#[test]
fn a_member_without_its_heartbeats_is_degraded_and_forwards() {
    let mut bench = Bench::new(fleet_config());
    let (put, _) = bench.send(&Update::new(1, "2001:db8:1::100"));
    bench.keep(&put);
    bench.bed.advance(Duration::from_millis(900));
    assert_eq!(bench.state(), MemberState::Healthy);
    bench.bed.advance(Duration::from_millis(200));
    assert_eq!((bench.state(), metric(&bench)), (MemberState::Degraded, Some(200)));
    assert!(has_silently_dropped(&bench.bed.send(&Update::new(2, "2001:db8:1::100"))));
    bench.bed.advance(Duration::from_secs(300));
    assert!(bench.care_of().is_some(), "another member may have extended the binding");
    bench.bed.advance(Duration::from_secs(400));
    assert!(bench.care_of().is_none(), "but not beyond the longest lifetime");
    bench.beat(3);
    assert_eq!((bench.state(), metric(&bench)), (MemberState::Healthy, Some(100)));
}

#[test]
fn a_binding_that_ended_while_the_store_was_lost_ends_when_it_is_back() {
    let mut bench = Bench::new(fleet_config());
    let (put, _) = bench.send(&Update::new(1, "2001:db8:1::100"));
    bench.keep(&put);
    bench.bed.advance(Duration::from_secs(100));
    assert!(bench.care_of().is_some());
    bench.beat(4);
    assert!(bench.care_of().is_none());
}

#[test]
fn old_heartbeats_do_not_count() {
    let mut bench = Bench::joining(fleet_config());
    for _ in 0..5 {
        bench.bed.advance(Duration::from_millis(400));
        let own_heartbeat = Some(Duration::from_secs(2));
        bench.event(FleetEvent::Head { revision: crate::contract::item::Revision(11), own_heartbeat });
    }
    assert_eq!(bench.state(), MemberState::Joining);
}

#[test]
fn a_fault_of_the_store_degrades_at_once_and_is_reported() {
    let faults = [
        StoreFault::Full,
        StoreFault::NoQuorum,
        StoreFault::Credentials("denied".to_owned()),
        StoreFault::OtherFormat { has: 2, speaks: 1 },
    ];
    for fault in faults {
        let mut bench = Bench::new(fleet_config());
        let outputs = bench.event(FleetEvent::Fault(fault.clone()));
        assert_eq!(bench.state(), MemberState::Degraded);
        let report = Output::Report(Report::Fleet(FleetReport::StoreFault { fault }));
        assert!(outputs.contains(&report), "{outputs:#?}");
    }
    let mut bench = Bench::new(fleet_config());
    bench.event(FleetEvent::Fault(StoreFault::Damaged { key: "b/1".to_owned(), why: "no JSON".to_owned() }));
    assert_eq!(bench.state(), MemberState::Healthy, "the rest is served");
}

#[test]
fn draining_ends_the_announcements_and_then_the_service() {
    let mut bench = Bench::new(fleet_config());
    command(&mut bench, FleetCommand::Drain);
    assert_eq!((bench.state(), metric(&bench)), (MemberState::Draining, Some(200)));
    let (put, _) = bench.send(&Update::new(1, "2001:db8:1::100"));
    assert_eq!(status(&bench.keep(&put)), 0, "what still arrives is served");
    bench.beat(13);
    assert_eq!((bench.state(), metric(&bench)), (MemberState::Draining, None));
    bench.beat(3);
    assert_eq!(bench.state(), MemberState::Gone);
    assert!(has_silently_dropped(&bench.bed.send(&Update::new(2, "2001:db8:1::100"))));
    command(&mut bench, FleetCommand::Restore);
    assert_eq!(bench.state(), MemberState::Joining);
    bench.beat(3);
    assert_eq!((bench.state(), metric(&bench)), (MemberState::Healthy, Some(100)));
}

#[test]
fn the_median_clock_is_right() {
    let skewed = |clocks: &[i64]| {
        let mut bench = Bench::new(fleet_config());
        for (index, ahead) in clocks.iter().enumerate() {
            bench.hear(&format!("other{index}"), *ahead);
        }
        bench.state() == MemberState::Degraded
    };
    assert!(!skewed(&[0, 5_000_000]), "the third one is wrong");
    assert!(skewed(&[5_000_000, 5_000_000]) && skewed(&[-5_000_000, -4_000_000]));
    assert!(!skewed(&[5_000_000, -5_000_000]));
    assert!(!skewed(&[5_000_000]), "of two, nobody can tell");
    assert!(!skewed(&[2_900_000, 2_900_000]));
}

#[test]
fn a_wrong_clock_is_reported_once() {
    let mut bench = Bench::new(fleet_config());
    let count = |outputs: Vec<Output>| {
        let is_report =
            |output: &&Output| matches!(output, Output::Report(Report::Fleet(FleetReport::ClockSkewed { .. })));
        outputs.iter().filter(is_report).count()
    };
    let reports: Vec<usize> = (0..3).map(|_| count(bench.hear("ha2", 5_000_000))).collect();
    assert_eq!(reports, [1, 0, 0]);
}

#[test]
fn the_view_shows_the_fleet() {
    let mut bench = Bench::new(fleet_config());
    bench.hear("ha2", -1_000);
    let mut view = View::default();
    bench.bed.agent.view(bench.bed.now, &mut view);
    let fleet = view.fleet.unwrap();
    assert_eq!((fleet.name.as_str(), fleet.member.as_str(), fleet.state), ("north", "ha1", MemberState::Healthy));
    assert_eq!((fleet.members.len(), fleet.members[0].skew_micros), (1, 1_000));
    bench.event(FleetEvent::MemberGone("ha2".to_owned()));
    let mut view = View::default();
    bench.bed.agent.view(bench.bed.now, &mut view);
    assert!(view.fleet.unwrap().members.is_empty());
}
