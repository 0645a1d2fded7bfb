//! The journal after a crash, the prefix table read anew, the operator's hand.

use super::bench::*;
use crate::contract::command::Command;
use crate::contract::engine::Engine;
use crate::contract::input::{Clock, Input, Outcome};
use crate::contract::item::{Key, JournalKey};
use crate::contract::output::Output;
use crate::contract::report::Report;
use crate::contract::view::View;
use core::time::Duration;
use roam6_wire::mobility::MobilityOption;
use std::sync::Arc;

#[test]
fn bindings_return_with_what_is_left_of_their_lifetime() {
    let mut before = Bench::new(config());
    before.pass(Duration::from_secs(1000));
    before.send(&Update::new(40, "2001:db8:1::100"));
    before.pass(Duration::from_secs(20));
    let unix_micros = 1_767_225_600_000_000 + before.now.as_micros();

    let mut after = Bench::new(config());
    after.feed(Input::Clock(Clock { unix_micros }));
    after.feed(Input::Command(Command::RestoreJournal(journal(&before))));
    assert_eq!(after.held(), before.held(), "the same items under the same names");
    assert_eq!(after.tunnel(), before.tunnel());
    assert_eq!(journal(&after), journal(&before));
    after.pass(Duration::from_secs(39));
    assert!(!after.held().is_empty());
    after.pass(Duration::from_secs(2));
    assert!(after.held().is_empty());
}

#[test]
fn sequence_and_timestamp_survive() {
    let mut before = Bench::new(config());
    before.send(&Update::new(40, "2001:db8:1::100"));
    let mut after = Bench::new(config());
    after.feed(Input::Command(Command::RestoreJournal(journal(&before))));
    assert_eq!(status(&after.send(&Update::new(40, "2001:db8:1::100"))), 135);
    let replayed = Update { ahead: Some(-1_000_000), ..Update::new(41, "2001:db8:1::100") };
    assert_eq!(status(&after.send(&replayed)), 144);
    assert_eq!(status(&after.send(&Update::new(41, "2001:db8:1::100"))), 0);
}

#[test]
fn a_journal_read_before_the_clock_is_told_waits_for_it() {
    let mut before = Bench::new(config());
    before.send(&Update::new(40, "2001:db8:1::100"));
    let mut agent = crate::nemo::home_agent::HomeAgent::new(config(), crate::base::rng::Entropy::seed_from_u64(2));
    let mut out = crate::contract::engine::Outbox::new();
    agent.handle(before.now, &Input::Command(Command::RestoreJournal(journal(&before))), &mut out);
    assert!(out.is_empty());
    agent.handle(before.now, &Input::Clock(Clock { unix_micros: 1_767_225_600_000_000 }), &mut out);
    assert_eq!(out.outputs().len(), 4);
}

#[test]
fn what_is_no_longer_allowed_does_not_return() {
    let mut before = Bench::new(config());
    before.send(&Update::new(40, "2001:db8:1::100"));
    let mut narrowed = config();
    narrowed.prefix_table = Default::default();
    let mut after = Bench::new(narrowed);
    let outputs = after.feed(Input::Command(Command::RestoreJournal(journal(&before))));
    assert!(outputs.contains(&Output::Drop(Key::JournalRecord(JournalKey::Binding(home())))));
    assert!(after.held().is_empty());
}

#[test]
fn a_table_read_anew_ends_what_it_no_longer_allows() {
    let mut bench = Bench::new(config());
    bench.send(&Update::new(1, "2001:db8:1::100"));
    bench
        .send(&Update::open(1, "2001:db8:1::2").with(MobilityOption::MobileNetworkPrefix(prefix("2001:db8:e00::/56"))));
    let mut table = config().prefix_table;
    Arc::make_mut(&mut table).rows.reverse();
    assert!(bench.feed(Input::Command(Command::ReloadPrefixTable(table.clone()))).is_empty(), "nothing changed");
    Arc::make_mut(&mut table).rows.retain(|row| row.home_address != home());
    let outputs = bench.feed(Input::Command(Command::ReloadPrefixTable(table)));
    assert!(matches!(reports(&outputs)[..], [Report::Deregistered { home_address, .. }] if *home_address == home()));
    assert!(!bench.held().contains(&Key::JournalRecord(JournalKey::Binding(home()))));
    assert_eq!(bench.held().len(), 4, "the other one stays");
}

#[test]
fn the_operator_ends_a_binding() {
    let mut bench = Bench::new(config());
    bench.send(&Update::new(1, "2001:db8:1::100"));
    let outputs = bench.feed(Input::Command(Command::DeleteBinding(home())));
    assert_eq!(bench.held(), [Key::JournalRecord(JournalKey::Binding(home()))], "its last timestamp");
    assert!(matches!(reports(&outputs)[..], [Report::Deregistered { .. }]));
    assert!(bench.feed(Input::Command(Command::DeleteBinding(home()))).is_empty());
    bench.pass(Duration::from_secs(15));
    assert!(bench.held().is_empty());
    assert_eq!(bench.agent.deadline(), None);
}

#[test]
fn stopping_leaves_the_journal_alone() {
    let mut bench = Bench::new(config());
    bench.send(&Update::new(1, "2001:db8:1::100"));
    assert!(bench.feed(Input::Command(Command::Stop)).is_empty());
}

#[test]
fn outcomes_of_other_roles_and_of_nobody_are_passed_over() {
    let mut bench = Bench::new(config());
    bench.slow = true;
    bench.send(&Update::new(1, "2001:db8:1::100"));
    let stranger = Key::JournalRecord(JournalKey::Sequence(home()));
    let refused = Some("no".into());
    assert!(bench.feed(Input::Outcome(Outcome { key: stranger, error })).is_empty());
    assert_eq!(status(&bench.release()), 0);
}

#[test]
fn an_operator_sees_bindings_paths_and_timers() {
    let mut bench = Bench::new(config());
    bench.send(&Update::new(1, "2001:db8:1::100"));
    bench.send(&Update::new(2, "2001:db8:2::100"));
    let mut view = View::default();
    bench.agent.view(bench.now, &mut view);
    let binding = &view.bindings[0];
    assert_eq!((binding.home_address, binding.care_of), (home(), Some(address("2001:db8:2::100"))));
    assert_eq!((binding.state.as_str(), binding.remaining), ("bound", Duration::from_secs(60)));
    let states: Vec<&str> = view.tunnels.iter().map(|tunnel| tunnel.state.as_str()).collect();
    assert_eq!(states, ["up", "left"]);
    assert_eq!(view.counters.get("home_agent_bindings"), Some(&1));
    assert_eq!(view.timers.len(), 1);
}

#[test]
fn a_refresh_is_not_acknowledged_while_what_the_host_refused_is_missing() {
    let mut before = Bench::new(config());
    before.send(&Update::new(40, "2001:db8:1::100"));
    let route = before.held().into_iter().find(|key| matches!(key, Key::Route(..))).unwrap();
    let mut after = Bench::new(config());
    after.refuse.push(route.clone());
    after.feed(Input::Command(Command::RestoreJournal(journal(&before))));
    assert!(after.plan.find(&route).is_none());
    after.pass(Duration::from_millis(500));
    assert_eq!(status(&after.send(&Update::new(41, "2001:db8:1::100"))), 0);
    assert!(after.plan.find(&route).is_some());
}

/// What a home agent that was killed and started again makes of the journal of `before`, at the same time of day.
fn restarted(before: &Bench) -> Bench {
    let mut after = Bench::new(config());
    after.pass(Duration::from_micros(before.now.as_micros()));
    after.feed(Input::Command(Command::RestoreJournal(journal(before))));
    after
}

#[test]
fn an_update_from_before_a_farewell_is_refused_after_a_restart() {
    let mut before = Bench::new(config());
    before.pass(Duration::from_secs(60));
    let recorded = Update::new(1, "2001:db8:1::100").packet(before.now);
    before.feed(Input::Packet(recorded.clone()));
    before.pass(Duration::from_secs(1));
    assert_eq!(status(&before.send(&Update::new(2, "2001:db8:1::100").lifetime(0))), 0);
    let mut after = restarted(&before);
    assert!(after.tunnel().is_none());
    let outputs = after.feed(Input::Packet(recorded));
    assert_eq!(status(&outputs), 135);
    assert!(after.tunnel().is_none());
    after.pass(Duration::from_secs(60));
    assert!(journal(&after).is_empty(), "remembered no longer than a copy could be accepted");
}

#[test]
fn a_copy_ahead_of_the_clock_is_refused_as_long_as_it_is_close_enough() {
    let mut bench = Bench::new(config());
    let update = Update { ahead: Some(6_900_000), ..Update::new(1, "2001:db8:1::100") };
    let recorded = update.packet(bench.now);
    bench.feed(Input::Packet(recorded.clone()));
    bench.send(&Update { ahead: Some(6_900_000), ..Update::new(2, "2001:db8:1::100") }.lifetime(0));
    for _ in 0..20 {
        bench.pass(Duration::from_secs(1));
        assert_ne!(status(&bench.feed(Input::Packet(recorded.clone()))), 0, "{:?}", bench.now);
    }
}

#[test]
fn an_ended_binding_leaves_its_timestamp_for_copies_of_its_updates() {
    let mut bench = Bench::new(config());
    let recorded = Update::new(1, "2001:db8:1::100").lifetime(1).packet(bench.now);
    bench.feed(Input::Packet(recorded.clone()));
    bench.pass(Duration::from_secs(5));
    assert!(bench.tunnel().is_none(), "its lifetime of 4 s is over");
    assert_eq!(status(&bench.feed(Input::Packet(recorded.clone()))), 135);
    assert_eq!(status(&restarted(&bench).feed(Input::Packet(recorded))), 135);
}

#[test]
fn a_farewell_is_acknowledged_once_the_journal_has_it() {
    let mut bench = Bench::new(config());
    bench.send(&Update::new(1, "2001:db8:1::100"));
    bench.slow = true;
    let outputs = bench.send(&Update::new(2, "2001:db8:1::100").lifetime(0));
    assert!(sent(&outputs).is_empty(), "not before the outcome: {outputs:#?}");
    assert_eq!(bench.tunnel().unwrap().paths[0].weight, 0, "forwarding has ended");
    let outputs = bench.release();
    assert_eq!(status(&outputs), 0);
    assert!(restarted(&bench).tunnel().is_none());
}

#[test]
fn a_farewell_the_journal_does_not_take_is_not_acknowledged() {
    let mut bench = Bench::new(config());
    bench.send(&Update::new(1, "2001:db8:1::100"));
    let record = Key::JournalRecord(JournalKey::Binding(home()));
    bench.refuse.push(record.clone());
    assert_eq!(status(&bench.send(&Update::new(2, "2001:db8:1::100").lifetime(0))), 130);
    assert_eq!(bench.tunnel().unwrap().paths[0].weight, 0, "nothing is sent to where nobody is any more");
    bench.refuse.push(record);
    assert_eq!(status(&bench.send(&Update::new(3, "2001:db8:1::100").lifetime(0))), 130, "nor the second time");
    assert_eq!(status(&bench.send(&Update::new(4, "2001:db8:1::100").lifetime(0))), 0);
    assert!(restarted(&bench).tunnel().is_none());
}

#[test]
fn a_farewell_the_journal_did_not_take_is_written_later() {
    let mut bench = Bench::new(config());
    bench.send(&Update::new(1, "2001:db8:1::100"));
    bench.refuse.push(Key::JournalRecord(JournalKey::Binding(home())));
    bench.send(&Update::new(2, "2001:db8:1::100").lifetime(0));
    bench.pass(Duration::from_secs(2));
    assert!(restarted(&bench).tunnel().is_none());
}

#[test]
fn timestamps_ahead_of_a_corrected_clock_lock_nobody_out() {
    let mut before = Bench::new(config());
    let hour = 3_600_000_000;
    before.feed(Input::Clock(Clock { unix_micros: 1_767_225_600_000_000 + hour }));
    let first = Update { ahead: Some(hour as i64), ..Update::new(40, "2001:db8:1::100") };
    let recorded = first.packet(before.now);
    before.feed(Input::Packet(recorded.clone()));
    let mut after = Bench::new(config());
    after.feed(Input::Command(Command::RestoreJournal(journal(&before))));
    assert!(after.tunnel().is_some());
    assert_ne!(status(&after.feed(Input::Packet(recorded))), 0, "a copy is refused");
    assert_eq!(status(&after.send(&Update::new(41, "2001:db8:2::100"))), 0);
}
