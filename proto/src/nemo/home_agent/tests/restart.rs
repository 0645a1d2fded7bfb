//! The journal after a crash, a reloaded prefix table, commands of the operator.

use super::bench::*;
use crate::contract::command::{HomeAgentCommand, LifecycleCommand};
use crate::contract::item::{JournalKey, JournalRecord, SequenceRecord};
use crate::contract::report::NemoReport;
use crate::{Clock, Command, Engine, Input, Item, Key, Output, Put, Report, View};
use core::time::Duration;
use roam6_wire::mobility::MobilityOption;
use roam6_wire::{Bid, Sequence};
use std::sync::Arc;

#[test]
fn journal_restores_bindings_with_remaining_lifetime() {
    let mut before = TestBed::new(config());
    before.advance(Duration::from_secs(1000));
    before.send(&Update::new(40, "2001:db8:1::100"));
    before.advance(Duration::from_secs(20));
    let unix_micros = 1_767_225_600_000_000 + before.now.as_micros();

    let mut after = TestBed::new(config());
    after.feed(Input::Clock(Clock { unix_micros }));
    after.feed(Input::Command(Command::Lifecycle(LifecycleCommand::RestoreJournal(journal(&before)))));
    assert_eq!(after.installed(), before.installed(), "the same items under the same names");
    assert_eq!(after.tunnel(), before.tunnel());
    assert_eq!(journal(&after), journal(&before));
    after.advance(Duration::from_secs(39));
    assert!(!after.installed().is_empty());
    after.advance(Duration::from_secs(2));
    assert!(after.installed().is_empty());
}

#[test]
fn journal_restores_reported_path_mtus() {
    let mut before = TestBed::new(config());
    before.send(&Update::new(40, "2001:db8:1::100").with(MobilityOption::PathMtu { bid: Bid(0), mtu: 1400 }));
    let records = journal(&before);
    let restored = |records| {
        let mut after = TestBed::new(config());
        after.feed(Input::Command(Command::Lifecycle(LifecycleCommand::RestoreJournal(records))));
        after
    };
    let mut after = restored(records);
    assert_eq!((after.tunnel(), journal(&after)), (before.tunnel(), journal(&before)));
    after.advance(Duration::from_secs(1));
    after.send(&Update::new(41, "2001:db8:1::100"));
    before.send(&Update::new(41, "2001:db8:1::100"));
    assert_eq!(after.tunnel(), before.tunnel(), "the option is gone");
    assert_eq!(restored(journal(&after)).tunnel(), before.tunnel());
}

#[test]
fn journal_restores_sequence_and_timestamp() {
    let mut before = TestBed::new(config());
    before.send(&Update::new(40, "2001:db8:1::100"));
    let mut after = TestBed::new(config());
    after.feed(Input::Command(Command::Lifecycle(LifecycleCommand::RestoreJournal(journal(&before)))));
    assert_eq!(status(&after.send(&Update::new(40, "2001:db8:1::100"))), 135);
    let replayed = Update { clock_offset: Some(-1_000_000), ..Update::new(41, "2001:db8:1::100") };
    assert_eq!(status(&after.send(&replayed)), 144);
    assert_eq!(status(&after.send(&Update::new(41, "2001:db8:1::100"))), 0);
}

#[test]
fn journal_waits_for_the_wall_clock() {
    let mut before = TestBed::new(config());
    before.send(&Update::new(40, "2001:db8:1::100"));
    let mut agent = crate::nemo::home_agent::HomeAgent::new(config(), crate::base::rng::Entropy::seed_from_u64(2));
    let mut out = crate::contract::engine::Outbox::new();
    agent.handle(
        before.now,
        &Input::Command(Command::Lifecycle(LifecycleCommand::RestoreJournal(journal(&before)))),
        &mut out,
    );
    assert!(out.is_empty());
    agent.handle(before.now, &Input::Clock(Clock { unix_micros: 1_767_225_600_000_000 }), &mut out);
    assert_eq!(out.outputs().len(), 4);
}

#[test]
fn unauthorised_bindings_are_not_restored() {
    let mut before = TestBed::new(config());
    before.send(&Update::new(40, "2001:db8:1::100"));
    let mut narrowed = config();
    narrowed.prefix_table = Default::default();
    let mut after = TestBed::new(narrowed);
    let outputs = after.feed(Input::Command(Command::Lifecycle(LifecycleCommand::RestoreJournal(journal(&before)))));
    assert!(outputs.contains(&Output::Drop(Key::JournalRecord(JournalKey::Binding(home())))));
    assert!(after.installed().is_empty());
}

#[test]
fn reloaded_prefix_table_deletes_unauthorised_bindings() {
    let mut bench = TestBed::new(config());
    bench.send(&Update::new(1, "2001:db8:1::100"));
    bench.send(
        &Update::unauthenticated(1, "2001:db8:1::2")
            .with(MobilityOption::MobileNetworkPrefix(prefix("2001:db8:e00::/56"))),
    );
    let mut table = config().prefix_table;
    Arc::make_mut(&mut table).rows.reverse();
    assert!(
        bench.feed(Input::Command(Command::HomeAgent(HomeAgentCommand::ReloadPrefixTable(table.clone())))).is_empty(),
        "the order of the rows does not matter"
    );
    Arc::make_mut(&mut table).rows.retain(|row| row.home_address != home());
    let outputs = bench.feed(Input::Command(Command::HomeAgent(HomeAgentCommand::ReloadPrefixTable(table))));
    assert!(
        matches!(reports(&outputs)[..], [Report::Nemo(NemoReport::Deregistered { home_address, .. })] if *home_address == home())
    );
    assert!(!bench.installed().contains(&Key::JournalRecord(JournalKey::Binding(home()))));
    assert_eq!(bench.installed().len(), 4, "the other one stays");
}

#[test]
fn operator_deletes_a_binding() {
    let mut bench = TestBed::new(config());
    bench.send(&Update::new(1, "2001:db8:1::100"));
    let outputs = bench.feed(Input::Command(Command::HomeAgent(HomeAgentCommand::DeleteBinding(home()))));
    assert_eq!(bench.installed(), [Key::JournalRecord(JournalKey::Binding(home()))], "its last timestamp");
    assert!(matches!(reports(&outputs)[..], [Report::Nemo(NemoReport::Deregistered { .. })]));
    assert!(bench.feed(Input::Command(Command::HomeAgent(HomeAgentCommand::DeleteBinding(home())))).is_empty());
    bench.advance(Duration::from_secs(15));
    assert!(bench.installed().is_empty());
    assert_eq!(bench.agent.deadline(), None);
}

#[test]
fn stop_leaves_the_journal() {
    let mut bench = TestBed::new(config());
    bench.send(&Update::new(1, "2001:db8:1::100"));
    assert!(bench.feed(Input::Command(Command::Lifecycle(LifecycleCommand::Stop))).is_empty());
}

#[test]
fn foreign_outcomes_are_ignored() {
    let mut bench = TestBed::new(config());
    bench.hold_outcomes = true;
    bench.send(&Update::new(1, "2001:db8:1::100"));
    let stranger = JournalRecord::Sequence(SequenceRecord { home_address: home(), sequence: Sequence(1) });
    let outcome = Put::from(Item::JournalRecord(stranger)).outcome(Some("no".into()));
    assert!(bench.feed(Input::Outcome(outcome)).is_empty());
    assert_eq!(status(&bench.release_outcomes()), 0);
}

#[test]
fn view_has_bindings_paths_and_timers() {
    let mut bench = TestBed::new(config());
    bench.send(&Update::new(1, "2001:db8:1::100"));
    bench.send(&Update::new(2, "2001:db8:2::100"));
    let mut view = View::default();
    bench.agent.view(bench.now, &mut view);
    let binding = &view.bindings[0];
    assert_eq!((binding.home_address, binding.care_of), (home(), Some(address("2001:db8:2::100"))));
    assert_eq!((binding.state.as_str(), binding.remaining), ("bound", Duration::from_secs(60)));
    let states: Vec<&str> = view.tunnels.iter().map(|tunnel| tunnel.state.as_str()).collect();
    assert_eq!(states, ["up", "left"]);
    assert_eq!(view.counters.gauges.get("home_agent_bindings"), Some(&1));
    assert_eq!(view.timers.len(), 1);
}

#[test]
fn refresh_waits_for_items_the_host_rejected() {
    let mut before = TestBed::new(config());
    before.send(&Update::new(40, "2001:db8:1::100"));
    let route = before.installed().into_iter().find(|key| matches!(key, Key::Route(..))).unwrap();
    let mut after = TestBed::new(config());
    after.rejected.push(route.clone());
    after.feed(Input::Command(Command::Lifecycle(LifecycleCommand::RestoreJournal(journal(&before)))));
    assert!(after.plan.find(&route).is_none());
    after.advance(Duration::from_millis(500));
    assert_eq!(status(&after.send(&Update::new(41, "2001:db8:1::100"))), 0);
    assert!(after.plan.find(&route).is_some());
}

/// What a home agent that was killed and started again makes of the journal of `before`, at the same time of day.
fn restarted(before: &TestBed) -> TestBed {
    let mut after = TestBed::new(config());
    after.advance(Duration::from_micros(before.now.as_micros()));
    after.feed(Input::Command(Command::Lifecycle(LifecycleCommand::RestoreJournal(journal(before)))));
    after
}

#[test]
fn update_older_than_deregistration_is_rejected_after_restart() {
    let mut before = TestBed::new(config());
    before.advance(Duration::from_secs(60));
    let recorded = Update::new(1, "2001:db8:1::100").packet(before.now);
    before.feed(Input::Packet(recorded.clone()));
    before.advance(Duration::from_secs(1));
    assert_eq!(status(&before.send(&Update::new(2, "2001:db8:1::100").lifetime(0))), 0);
    let mut after = restarted(&before);
    assert!(after.tunnel().is_none());
    let outputs = after.feed(Input::Packet(recorded));
    assert_eq!(status(&outputs), 135);
    assert!(after.tunnel().is_none());
    after.advance(Duration::from_secs(60));
    assert!(journal(&after).is_empty(), "remembered no longer than a copy could be accepted");
}

#[test]
fn replay_with_future_timestamp_is_rejected() {
    let mut bench = TestBed::new(config());
    let update = Update { clock_offset: Some(6_900_000), ..Update::new(1, "2001:db8:1::100") };
    let recorded = update.packet(bench.now);
    bench.feed(Input::Packet(recorded.clone()));
    bench.send(&Update { clock_offset: Some(6_900_000), ..Update::new(2, "2001:db8:1::100") }.lifetime(0));
    for _ in 0..20 {
        bench.advance(Duration::from_secs(1));
        assert_ne!(status(&bench.feed(Input::Packet(recorded.clone()))), 0, "{:?}", bench.now);
    }
}

#[test]
fn expired_binding_leaves_a_tombstone_against_replays() {
    let mut bench = TestBed::new(config());
    let recorded = Update::new(1, "2001:db8:1::100").lifetime(1).packet(bench.now);
    bench.feed(Input::Packet(recorded.clone()));
    bench.advance(Duration::from_secs(5));
    assert!(bench.tunnel().is_none(), "its lifetime of 4 s is over");
    assert_eq!(status(&bench.feed(Input::Packet(recorded.clone()))), 135);
    assert_eq!(status(&restarted(&bench).feed(Input::Packet(recorded))), 135);
}

#[test]
fn deregistration_is_acknowledged_once_in_the_journal() {
    let mut bench = TestBed::new(config());
    bench.send(&Update::new(1, "2001:db8:1::100"));
    bench.hold_outcomes = true;
    let outputs = bench.send(&Update::new(2, "2001:db8:1::100").lifetime(0));
    assert!(sent(&outputs).is_empty(), "not before the outcome: {outputs:#?}");
    assert_eq!(bench.tunnel().unwrap().paths[0].weight, 0, "forwarding has ended");
    let outputs = bench.release_outcomes();
    assert_eq!(status(&outputs), 0);
    assert!(restarted(&bench).tunnel().is_none());
}

#[test]
fn deregistration_is_not_acknowledged_if_journal_fails() {
    let mut bench = TestBed::new(config());
    bench.send(&Update::new(1, "2001:db8:1::100"));
    let record = Key::JournalRecord(JournalKey::Binding(home()));
    bench.rejected.push(record.clone());
    assert_eq!(status(&bench.send(&Update::new(2, "2001:db8:1::100").lifetime(0))), 130);
    assert_eq!(bench.tunnel().unwrap().paths[0].weight, 0, "no packet is sent to the de-registered care-of address");
    bench.rejected.push(record);
    assert_eq!(status(&bench.send(&Update::new(3, "2001:db8:1::100").lifetime(0))), 130, "nor the second time");
    assert_eq!(status(&bench.send(&Update::new(4, "2001:db8:1::100").lifetime(0))), 0);
    assert!(restarted(&bench).tunnel().is_none());
}

#[test]
fn deregistration_is_written_to_journal_later() {
    let mut bench = TestBed::new(config());
    bench.send(&Update::new(1, "2001:db8:1::100"));
    bench.rejected.push(Key::JournalRecord(JournalKey::Binding(home())));
    bench.send(&Update::new(2, "2001:db8:1::100").lifetime(0));
    bench.advance(Duration::from_secs(2));
    assert!(restarted(&bench).tunnel().is_none());
}

#[test]
fn timestamps_ahead_of_a_corrected_clock_are_clamped() {
    let mut before = TestBed::new(config());
    let hour = 3_600_000_000;
    before.feed(Input::Clock(Clock { unix_micros: 1_767_225_600_000_000 + hour }));
    let first = Update { clock_offset: Some(hour as i64), ..Update::new(40, "2001:db8:1::100") };
    let recorded = first.packet(before.now);
    before.feed(Input::Packet(recorded.clone()));
    let mut after = TestBed::new(config());
    after.feed(Input::Command(Command::Lifecycle(LifecycleCommand::RestoreJournal(journal(&before)))));
    assert!(after.tunnel().is_some());
    assert_ne!(status(&after.feed(Input::Packet(recorded))), 0, "a copy is refused");
    assert_eq!(status(&after.send(&Update::new(41, "2001:db8:2::100"))), 0);
}
