//! Kernel settings of a home agent's host.

use super::bench::*;
use crate::contract::command::{HomeAgentCommand, LifecycleCommand};
use crate::contract::config::nemo::{Ipv4Pool, PrefixTable};
use crate::contract::item::Sysctl;
use crate::{Command, Input, Item, Key, Output, Put};
use std::sync::Arc;

/// The settings put, in their order.
fn settings(outputs: &[Output]) -> Vec<(Sysctl, i32)> {
    let put = outputs.iter().filter_map(|output| match output {
        Output::Put(Put { item: Item::Sysctl(setting), .. }) if setting.link.is_none() => {
            Some((setting.sysctl, setting.value))
        }
        _ => None,
    });
    put.collect()
}

#[test]
fn forwarding_sysctl_keeps_the_default_route() {
    let mut bench = TestBed::new(config());
    let begun = bench.feed(Input::Command(Command::Lifecycle(LifecycleCommand::JournalRestored)));
    assert_eq!(settings(&begun), [(Sysctl::AcceptRa, 2), (Sysctl::Forwarding, 1)], "the second would remove the route");
}

#[test]
fn ipv4_forwarding_sysctl_follows_the_prefix_table() {
    let ipv4_forwarding = Key::Sysctl(None, Sysctl::Ipv4Forwarding);
    let mut bench = TestBed::new(config());
    bench.feed(Input::Command(Command::Lifecycle(LifecycleCommand::JournalRestored)));
    let without = bench.agent.config.prefix_table.clone();
    let mut rows = without.rows.clone();
    rows[0].prefixes = [prefix("2001:db8:f00::/56"), prefix("::ffff:10.1.0.0/112")].into();
    bench.feed(Input::Command(Command::HomeAgent(HomeAgentCommand::ReloadPrefixTable(Arc::new(PrefixTable { rows })))));
    assert!(bench.plan.find(&ipv4_forwarding).is_some());
    bench.feed(Input::Command(Command::HomeAgent(HomeAgentCommand::ReloadPrefixTable(without))));
    assert!(bench.plan.find(&ipv4_forwarding).is_none());

    let mut config = config();
    config.ipv4_pool = Some(Ipv4Pool { prefix: prefix("::ffff:10.1.0.0/112"), length: 32 });
    let mut bench = TestBed::new(config);
    bench.feed(Input::Command(Command::Lifecycle(LifecycleCommand::JournalRestored)));
    assert!(bench.plan.find(&ipv4_forwarding).is_some());
}
