//! Care-of addresses and prefixes of all bindings together: no packet loops, and nesting is bounded
//! (RFC 2473 §4.1, §6.7).

use super::bench::*;
use crate::contract::command::LifecycleCommand;
use crate::contract::config::nemo::{Authentication, HomeAgentConfig, PrefixTable, PrefixTableRow};
use crate::contract::item::JournalRecord;
use crate::{Command, Input, Item, Output};
use core::time::Duration;
use roam6_wire::mobility::{BindingIdentifier, CareOfField, MobilityOption, Status, UpdateFlags};
use roam6_wire::{Bid, HomeAddress, Prefix};
use std::net::Ipv6Addr;

/// Home address of mobile router `number`.
fn home_of(number: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 1, number)
}

/// An address inside the network of mobile router `number`.
fn inside(number: u16) -> String {
    format!("2001:db8:a{number:02x}::9")
}

/// Nine mobile routers without keys, each with a /48 of which it may list parts.
fn many() -> HomeAgentConfig {
    let row = |number: u16| PrefixTableRow {
        home_address: HomeAddress(home_of(number)),
        prefixes: [prefix(&format!("2001:db8:a{number:02x}::/48"))].into(),
        authentication: Authentication::None,
        next_key: None,
        invitation: None,
    };
    HomeAgentConfig { prefix_table: PrefixTable { rows: (1..=9).map(row).collect() }.into(), ..config() }
}

fn update(number: u16, sequence: u16, care_of: &str) -> Update {
    Update { home: HomeAddress(home_of(number)), ..Update::unauthenticated(sequence, care_of) }
}

fn network(text: &str) -> MobilityOption {
    MobilityOption::MobileNetworkPrefix(prefix(text))
}

fn bid(bid: u16, care_of: &str) -> MobilityOption {
    MobilityOption::BindingIdentifier(BindingIdentifier {
        bid: Bid(bid),
        status: Status::ACCEPTED,
        simultaneous_home: false,
        priority: 0,
        care_of: CareOfField::V6(address(care_of)),
    })
}

fn tunnels(bench: &TestBed) -> usize {
    bench.plan.iter().filter(|(_, item)| matches!(item, Item::Tunnel(_))).count()
}

#[test]
fn mutual_nesting_is_rejected() {
    let mut bench = TestBed::new(many());
    assert_eq!(status(&bench.send(&update(1, 1, &inside(2)))), 0, "2 is not bound");
    assert_eq!(status(&bench.send(&update(2, 1, &inside(1)))), 174);
    assert_eq!(tunnels(&bench), 1);
    assert_eq!(
        status(&bench.send(&update(2, 2, "2001:db8:1::2"))),
        0,
        "accepted from a care-of address outside the loop"
    );
    assert_eq!(status(&bench.send(&update(2, 3, &inside(1)))), 174);
    assert_eq!(
        bench
            .plan
            .iter()
            .filter(
                |(_, item)| matches!(item, Item::Tunnel(tunnel) if tunnel.paths[0].remote == address("2001:db8:1::2"))
            )
            .count(),
        1,
        "its former binding stays"
    );
}

#[test]
fn care_of_addresses_that_are_home_addresses_form_no_loop() {
    let mut bench = TestBed::new(many());
    assert_eq!(status(&bench.send(&update(1, 1, &home_of(2).to_string()))), 0);
    assert_eq!(status(&bench.send(&update(2, 1, &home_of(1).to_string()))), 174);
    assert_eq!(status(&bench.send(&update(2, 2, &inside(1)))), 174);
    assert_eq!(status(&bench.send(&update(2, 3, &home_of(3).to_string()))), 0);
    assert_eq!(status(&bench.send(&update(3, 1, &inside(1)))), 174, "a ring of three");
}

#[test]
fn added_prefix_is_checked_against_kept_care_of_addresses() {
    let mut bench = TestBed::new(many());
    let first =
        update(1, 1, "2001:db8:1::1").with(bid(1, "2001:db8:a01:301::9")).with(network("2001:db8:a01:300::/64"));
    assert_eq!(status(&bench.send(&first)), 0);
    let networks = [network("2001:db8:a01:300::/64"), network("2001:db8:a01:301::/64")];
    let mut second = update(1, 2, "2001:db8:1::1").with(bid(2, "2001:db8:1::1"));
    second.options.extend(networks);
    assert_eq!(status(&bench.send(&second)), 174, "the address of identifier 1 would lie in its own network");
    let replaced = Update { flags: second.flags | UpdateFlags::OVERWRITE, sequence: 3, ..second };
    assert_eq!(status(&bench.send(&replaced)), 0, "identifier 1 is replaced");
}

#[test]
fn added_prefix_is_checked_against_other_care_of_addresses() {
    let mut bench = TestBed::new(many());
    assert_eq!(status(&bench.send(&update(1, 1, &inside(3)).with(network("2001:db8:a01:1::/64")))), 0);
    let second = update(2, 1, "2001:db8:a01:2::9").with(network("2001:db8:a02::/48"));
    assert_eq!(status(&bench.send(&second)), 0);
    assert_eq!(status(&bench.send(&update(3, 1, &inside(2)))), 0, "no binding has 2001:db8:a01:2::/64");
    let wider = update(1, 2, &inside(3)).with(network("2001:db8:a01:1::/64")).with(network("2001:db8:a01:2::/64"));
    assert_eq!(status(&bench.send(&wider)), 174);
}

#[test]
fn loop_through_any_care_of_address_is_rejected() {
    let mut bench = TestBed::new(many());
    let two = update(1, 1, "2001:db8:1::1").with(bid(1, "2001:db8:1::1")).with(bid(2, &inside(2)));
    assert_eq!(status(&bench.send(&two)), 0);
    assert_eq!(status(&bench.send(&update(2, 1, &inside(1)))), 174);
    let outputs = bench.send(&update(2, 2, "2001:db8:2::1").with(bid(1, "2001:db8:2::1")).with(bid(2, &inside(1))));
    let statuses: Vec<u8> = acknowledgement(&outputs)
        .options
        .iter()
        .filter_map(|option| match option {
            MobilityOption::BindingIdentifier(option) => Some(option.status.0),
            _ => None,
        })
        .collect();
    assert_eq!((status(&outputs), statuses), (4, vec![0, 174]), "the rest of the update is accepted");
}

#[test]
fn nesting_is_bounded_by_encapsulation_limit() {
    let mut bench = TestBed::new(many());
    assert_eq!(status(&bench.send(&update(1, 1, "2001:db8:1::1"))), 0);
    for number in 2..=4 {
        assert_eq!(status(&bench.send(&update(number, 1, &inside(number - 1)))), 0, "{number}");
    }
    assert_eq!(status(&bench.send(&update(5, 1, &inside(4)))), 174, "RFC 2473 §4.1.1: 4 headers");
    assert_eq!(status(&bench.send(&update(6, 1, &inside(3)))), 0);
    assert_eq!(status(&bench.send(&update(7, 1, "2001:db8:1::7"))), 0);
    assert_eq!(status(&bench.send(&update(1, 2, &inside(7)))), 174, "routers nested in its own network count too");
    assert_eq!(status(&bench.send(&update(1, 3, "2001:db8:2::1"))), 0);
}

#[test]
fn refresh_of_nested_binding_is_accepted() {
    let mut bench = TestBed::new(many());
    bench.send(&update(1, 1, "2001:db8:1::1"));
    bench.send(&update(2, 1, &inside(1)));
    for sequence in 2..5 {
        bench.advance(Duration::from_secs(30));
        assert_eq!(status(&bench.send(&update(1, sequence, "2001:db8:1::1"))), 0);
        assert_eq!(status(&bench.send(&update(2, sequence, &inside(1)))), 0);
    }
    bench.send(&update(1, 9, "2001:db8:1::1").lifetime(0));
    assert_eq!(status(&bench.send(&update(1, 10, &inside(2)))), 174, "2 still claims to be in its network");
}

#[test]
fn journal_with_a_loop_is_restored_in_part() {
    let mut bench = TestBed::new(many());
    bench.send(&update(1, 1, "2001:db8:1::1"));
    bench.send(&update(2, 1, "2001:db8:1::2"));
    let crossed = journal(&bench).into_iter().map(|record| match record {
        JournalRecord::Binding(mut binding) => {
            let other = if binding.home_address.0 == home_of(1) { 2 } else { 1 };
            binding.care_of[0].1 = address(&inside(other));
            JournalRecord::Binding(binding)
        }
        other => other,
    });
    let crossed: Vec<JournalRecord> = crossed.collect();
    let mut after = TestBed::new(many());
    after.feed(Input::Command(Command::Lifecycle(LifecycleCommand::RestoreJournal(crossed))));
    assert_eq!(tunnels(&after), 1);
}

#[test]
fn unlisted_prefix_lengths_are_bounded() {
    let mut bench = TestBed::new(many());
    let status_for_length = |bench: &mut TestBed, sequence: u16, length: u8| {
        let listed = Prefix::new(address("2001:db8:a01::"), length).unwrap();
        let mut update = update(1, sequence, "2001:db8:1::1");
        update.options.extend([MobilityOption::MobileNetworkPrefix(listed)]);
        status(&bench.send(&update))
    };
    let mut lengths = vec![];
    for (sequence, length) in (1..).zip(49..=80) {
        let mut all: Vec<Prefix> = lengths.clone();
        all.push(Prefix::new(address("2001:db8:a01::"), length).unwrap());
        let mut update = update(1, sequence, "2001:db8:1::1");
        update.options.extend(all.iter().map(|one| MobilityOption::MobileNetworkPrefix(*one)));
        bench.advance(Duration::from_secs(1));
        match status(&bench.send(&update)) {
            0 => lengths = all,
            141 => {}
            other => panic!("{length}: {other}"),
        }
    }
    assert!(lengths.len() <= crate::contract::item::MAX_PREFIX_LENGTHS - 2, "{lengths:?}");
    assert_eq!(status(&bench.send(&update(2, 1, "2001:db8:1::2"))), 0, "rows of the table are always served");
    assert_eq!(status_for_length(&mut bench, 100, 48), 0);
    assert_eq!(status_for_length(&mut bench, 101, 90), 0, "lengths no longer in use are free again");
}

/// The status of the acknowledgement; `None` without one.
fn answer(bench: &mut TestBed, update: &Update) -> Option<u8> {
    let outputs: Vec<Output> = bench.send(update);
    (!sent(&outputs).is_empty()).then(|| status(&outputs))
}

#[test]
fn unusable_care_of_addresses_are_rejected() {
    for wrong in [
        "::2",
        "::198.51.100.1",
        "64:ff9b::c633:6401",
        "100::1",
        "2002:c633:6401::1",
        "2001:db8::",
        "2001:db8::fdff:ffff:ffff:fffe",
        "2001:db8::fdff:ffff:ffff:ff80",
    ] {
        let mut bench = TestBed::new(many());
        let update = update(1, 1, "2001:db8:1::1").with(MobilityOption::AlternateCareOf(address(wrong)));
        assert_eq!(answer(&mut bench, &update), Some(174), "{wrong}");
    }
}

#[test]
fn non_unicast_care_of_addresses_are_dropped() {
    for wrong in ["::", "::1", "ff02::1", "fe80::1", "::ffff:198.51.100.1"] {
        let mut bench = TestBed::new(many());
        let update = update(1, 1, "2001:db8:1::1").with(MobilityOption::AlternateCareOf(address(wrong)));
        assert_eq!(answer(&mut bench, &update), None, "{wrong} (RFC 6275 §6.1.7)");
    }
}
