//! The journal after a crash, the prefix table read anew, the operator's hand.

use super::bench::*;
use crate::engine::Engine;
use crate::input::{Clock, Input, Order, Outcome};
use crate::output::Output;
use crate::plan::{Key, RecordKey};
use crate::report::Report;
use crate::view::View;
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
    after.feed(Input::Order(Order::Recall(journal(&before))));
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
    after.feed(Input::Order(Order::Recall(journal(&before))));
    assert_eq!(status(&after.send(&Update::new(40, "2001:db8:1::100"))), 135);
    let replayed = Update { ahead: Some(-1_000_000), ..Update::new(41, "2001:db8:1::100") };
    assert_eq!(status(&after.send(&replayed)), 144);
    assert_eq!(status(&after.send(&Update::new(41, "2001:db8:1::100"))), 0);
}

#[test]
fn a_journal_read_before_the_clock_is_told_waits_for_it() {
    let mut before = Bench::new(config());
    before.send(&Update::new(40, "2001:db8:1::100"));
    let mut agent = crate::nemo::home_agent::HomeAgent::new(config(), crate::entropy::Entropy::from_number(2));
    let mut out = crate::engine::Outbox::new();
    agent.handle(before.now, &Input::Order(Order::Recall(journal(&before))), &mut out);
    assert!(out.is_empty());
    agent.handle(before.now, &Input::Clock(Clock { unix_micros: 1_767_225_600_000_000 }), &mut out);
    assert_eq!(out.outputs().len(), 4);
}

#[test]
fn what_is_no_longer_allowed_does_not_return() {
    let mut before = Bench::new(config());
    before.send(&Update::new(40, "2001:db8:1::100"));
    let mut narrowed = config();
    narrowed.table = Default::default();
    let mut after = Bench::new(narrowed);
    let outputs = after.feed(Input::Order(Order::Recall(journal(&before))));
    assert_eq!(outputs[0], Output::Drop(Key::Record(RecordKey::Binding(home()))));
    assert!(after.held().is_empty());
}

#[test]
fn a_table_read_anew_ends_what_it_no_longer_allows() {
    let mut bench = Bench::new(config());
    bench.send(&Update::new(1, "2001:db8:1::100"));
    bench
        .send(&Update::open(1, "2001:db8:1::2").with(MobilityOption::MobileNetworkPrefix(prefix("2001:db8:e00::/56"))));
    let mut table = config().table;
    Arc::make_mut(&mut table).rows.reverse();
    assert!(bench.feed(Input::Order(Order::PrefixTable(table.clone()))).is_empty(), "nothing changed");
    Arc::make_mut(&mut table).rows.retain(|row| row.home_address != home());
    let outputs = bench.feed(Input::Order(Order::PrefixTable(table)));
    assert!(matches!(reports(&outputs)[..], [Report::Deregistered { home_address, .. }] if *home_address == home()));
    assert!(!bench.held().contains(&Key::Record(RecordKey::Binding(home()))));
    assert_eq!(bench.held().len(), 4, "the other one stays");
}

#[test]
fn the_operator_ends_a_binding() {
    let mut bench = Bench::new(config());
    bench.send(&Update::new(1, "2001:db8:1::100"));
    let outputs = bench.feed(Input::Order(Order::Unbind(home())));
    assert!(bench.held().is_empty() && matches!(reports(&outputs)[..], [Report::Deregistered { .. }]));
    assert!(bench.feed(Input::Order(Order::Unbind(home()))).is_empty());
    assert_eq!(bench.agent.deadline(), None);
}

#[test]
fn stopping_leaves_the_journal_alone() {
    let mut bench = Bench::new(config());
    bench.send(&Update::new(1, "2001:db8:1::100"));
    assert!(bench.feed(Input::Order(Order::Stop)).is_empty());
}

#[test]
fn outcomes_of_other_roles_and_of_nobody_are_passed_over() {
    let mut bench = Bench::new(config());
    bench.slow = true;
    bench.send(&Update::new(1, "2001:db8:1::100"));
    let stranger = Key::Record(RecordKey::Sequence(home()));
    let refused = Some("no".into());
    assert!(bench.feed(Input::Outcome(Outcome { key: stranger, refused })).is_empty());
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
    after.feed(Input::Order(Order::Recall(journal(&before))));
    assert!(after.plan.find(&route).is_none());
    after.pass(Duration::from_millis(500));
    assert_eq!(status(&after.send(&Update::new(41, "2001:db8:1::100"))), 0);
    assert!(after.plan.find(&route).is_some());
}
