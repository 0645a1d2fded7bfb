//! Every status of a home agent, and every update that it drops without an answer.

use super::bench::*;
use crate::base::hex;
use crate::contract::config::nemo::HomeAgentConfig;
use crate::contract::input::AddressState;
use crate::contract::item::{JournalKey, RouteTable};
use crate::contract::report::HostReport;
use crate::{AddressEvent, DropReason, Engine, Input, Item, Key, Output, Report};
use core::time::Duration;
use roam6_wire::ip6::{self, Datagram, Header, protocol};
use roam6_wire::mobility::{MobilityOption, UpdateFlags};
use roam6_wire::{HomeAddress, Prefix, Sequence};
use std::sync::Arc;

const H: UpdateFlags = UpdateFlags::HOME_REGISTRATION;
const R: UpdateFlags = UpdateFlags::ROUTER;

fn network(text: &str) -> MobilityOption {
    MobilityOption::MobileNetworkPrefix(prefix(text))
}

fn of(home: &str, update: Update) -> Update {
    Update { home: HomeAddress(address(home)), ..update }
}

/// The status of a new home agent for one update; a rejection must install no item.
fn answer(config: HomeAgentConfig, update: &Update) -> u8 {
    let mut bench = TestBed::new(config);
    let outputs = bench.send(update);
    let status = status(&outputs);
    assert!(status == 0 || bench.installed().is_empty(), "{:?}", bench.installed());
    status
}

/// The reason for which a new home agent drops one update without an answer.
fn silence(update: &Update) -> DropReason {
    let mut bench = TestBed::new(config());
    let outputs = bench.send(update);
    assert!(sent(&outputs).is_empty() && bench.installed().is_empty());
    match reports(&outputs)[..] {
        [Report::Host(HostReport::Dropped { reason, .. })] => *reason,
        ref other => panic!("{other:?}"),
    }
}

#[test]
fn rejected_updates_are_reported_once_with_cause_and_shown() {
    let mut bench = TestBed::new(config());
    let wrong = crate::contract::config::nemo::SharedKey { spi: 256, secret: vec![9; 16] };
    let forged = |sequence| Update { key: Some(wrong.clone()), ..Update::new(sequence, "2001:db8:1::2") };
    let lines = faults(&bench.send(&forged(1)));
    assert_eq!(lines.len(), 1);
    assert!(lines[0].starts_with("2001:db8::100, 2001:db8:1::2: 146 (authentication failed)"), "{lines:?}");
    assert!((2..50).all(|sequence| faults(&bench.send(&forged(sequence))).is_empty()));
    let mut view = crate::contract::view::View::default();
    bench.agent.view(bench.now, &mut view);
    assert_eq!((view.bindings.len(), view.bindings[0].state.as_str()), (1, "refused"));
    assert!(view.bindings[0].last_error.as_ref().is_some_and(|error| error.contains("146")));
    let kind = view.bindings[0].fault.as_ref().map(|kind| kind.as_str());
    assert_eq!((kind, view.bindings[0].fault_status), (Some("refused"), Some(146)));

    let lines = faults(&bench.send(&Update::new(50, "2001:db8:1::2")));
    assert!(lines.len() == 1 && lines[0].contains("works again"), "{lines:?}");
    let lines = faults(&bench.send(&of("2001:db8::999", Update::unauthenticated(1, "2001:db8:1::3"))));
    assert!(lines.len() == 1 && lines[0].contains("not in the prefix table"), "{lines:?}");
    let update = Update::new(51, "2001:db8:1::2").with(network("2001:db8:aa00::/56"));
    let lines = faults(&bench.send(&update));
    assert!(lines.len() == 1 && lines[0].contains("does not allow 2001:db8:aa00::/56"), "{lines:?}");
}

#[test]
fn fault_of_a_deregistered_mobile_router_is_shown() {
    let mut bench = TestBed::new(config());
    bench.send(&Update::new(1, "2001:db8:1::2"));
    bench.send(&Update::new(2, "2001:db8:1::2").lifetime(0));
    let wrong = crate::contract::config::nemo::SharedKey { spi: 256, secret: vec![9; 16] };
    bench.send(&Update { key: Some(wrong), ..Update::new(3, "2001:db8:1::2") });
    let mut view = crate::contract::view::View::default();
    bench.agent.view(bench.now, &mut view);
    assert_eq!((view.bindings.len(), view.bindings[0].state.as_str()), (1, "refused"));
}

#[test]
fn administrative_policy_has_its_statuses() {
    let update = Update::unauthenticated(1, "2001:db8:1::2");
    assert_eq!(answer(config(), &update), 0);
    assert_eq!(answer(HomeAgentConfig { max_bindings: 0, ..config() }, &update), 130);
    assert_eq!(answer(HomeAgentConfig { home_prefixes: vec![], ..config() }, &update), 131);
    assert_eq!(answer(config(), &of("2001:db8:77::1", update.clone())), 132);
    assert_eq!(answer(config(), &update.clone().lifetime(0)), 133);
    assert_eq!(answer(config(), &Update { flags: R, ..update.clone() }), 140);
    let forced = Update { flags: update.flags | UpdateFlags::FORCE_UDP, ..update };
    assert_eq!(answer(config(), &forced), 144, "no UDP over IPv6 (RFC 5555 §4.5)");
}

#[test]
fn full_binding_cache_is_reported() {
    let mut bench = TestBed::new(HomeAgentConfig { max_bindings: 1, ..config() });
    bench.send(&Update::new(1, "2001:db8:1::1"));
    let outputs = bench.send(&Update::unauthenticated(1, "2001:db8:1::2"));
    assert_eq!(status(&outputs), 130);
    assert!(reports(&outputs).contains(&&Report::Host(HostReport::TableFull { table: "bindings".into(), limit: 1 })));
    assert_eq!(status(&bench.send(&Update::new(2, "2001:db8:1::1"))), 0, "an existing binding can be refreshed");
}

#[test]
fn registration_type_change_is_rejected_with_139() {
    let mut bench = TestBed::new(config());
    bench.send(&Update::unauthenticated(1, "2001:db8:1::2"));
    let before = bench.installed();
    assert_eq!(status(&bench.send(&Update { flags: H, ..Update::unauthenticated(2, "2001:db8:1::2") })), 139);
    assert_eq!(
        status(&bench.send(&Update { flags: UpdateFlags::NONE, ..Update::unauthenticated(3, "2001:db8:1::2") })),
        139
    );
    assert_eq!(bench.installed(), before);
    let ended = Update { flags: H, ..Update::unauthenticated(4, "2001:db8:1::2") }.lifetime(0);
    assert_eq!(status(&bench.send(&ended)), 0, "R does not matter for ending it (RFC 3963 §6.2)");
}

#[test]
fn explicit_mode_prefix_statuses() {
    let explicit = |text| answer(config(), &Update::unauthenticated(1, "2001:db8:1::2").with(network(text)));
    assert_eq!(explicit("2001:db8:e00::/56"), 0);
    assert_eq!(explicit("2001:db8:e00:7::/64"), 0, "a part of its own prefix");
    for wrong in ["::/0", "ff00::/8", "fe80::/64", "2001:db8::/32", "2001:db8::/64"] {
        assert_eq!(explicit(wrong), 141, "{wrong}");
    }
    assert_eq!(explicit("2001:db8:f00::/56"), 142);
    let one_wrong = Update::unauthenticated(1, "2001:db8:1::2")
        .with(network("2001:db8:e00::/56"))
        .with(network("2001:db8:f00::/56"));
    assert_eq!(answer(config(), &one_wrong), 142, "one wrong prefix rejects the update");
    let misshapen = MobilityOption::Invalid { kind: 6, body: vec![0; 3] };
    assert_eq!(answer(config(), &Update::unauthenticated(1, "2001:db8:1::2").with(misshapen)), 141);
}

#[test]
fn implicit_mode_prefix_statuses() {
    assert_eq!(answer(config(), &of("2001:db8::300", Update::unauthenticated(1, "2001:db8:1::3"))), 143);
    let mut bench = TestBed::new(config());
    bench.send(&Update::unauthenticated(1, "2001:db8:1::2"));
    let far = &bench.tunnel().unwrap().remote_prefixes;
    assert_eq!(far.len(), 3, "home address and both prefixes of the table: {far:?}");
}

#[test]
fn prefix_has_one_owner() {
    let mut bench = TestBed::new(config());
    bench.send(&Update::unauthenticated(1, "2001:db8:1::2"));
    let other = of("2001:db8::400", Update::unauthenticated(1, "2001:db8:1::4"));
    assert_eq!(status(&bench.send(&other)), 143);
    let other = Update { sequence: 2, ..other }.with(network("2001:db8:e00::/56"));
    assert_eq!(status(&bench.send(&other)), 141);
    bench.send(&Update::unauthenticated(2, "2001:db8:1::2").lifetime(0));
    assert_eq!(status(&bench.send(&Update { sequence: 3, ..other })), 0, "released by the first");
}

#[test]
fn unlisted_prefixes_lose_their_routes() {
    let mut bench = TestBed::new(config());
    bench.send(&Update::unauthenticated(1, "2001:db8:1::2"));
    let fewer = bench.send(&Update::unauthenticated(2, "2001:db8:1::2").with(network("2001:db8:e00::/56")));
    let gone = Key::Route(RouteTable::MAIN, prefix("2001:db8:e00:100::/56"), Prefix::ALL, 100);
    assert!(fewer.contains(&Output::Drop(gone.clone())));
    assert!(!bench.installed().contains(&gone));
    assert_eq!(status(&fewer), 0);
}

#[test]
fn mobile_host_gets_only_its_home_address() {
    let mut bench = TestBed::new(config());
    let outputs = bench
        .send(&Update { flags: H, ..Update::unauthenticated(1, "2001:db8:1::2") }.with(network("2001:db8:e00::/56")));
    assert_eq!((status(&outputs), acknowledgement(&outputs).flags.router()), (0, false));
    assert_eq!(bench.tunnel().unwrap().remote_prefixes, [Prefix::host(address("2001:db8::200"))]);
}

#[test]
fn invalid_care_of_addresses_are_rejected() {
    let care_of = |text| {
        answer(
            config(),
            &Update::unauthenticated(1, "2001:db8:1::2").with(MobilityOption::AlternateCareOf(address(text))),
        )
    };
    assert_eq!(care_of("2001:db8:1::3"), 0);
    for wrong in ["2001:db8::1", "2001:db8:e00::1"] {
        assert_eq!(care_of(wrong), 174, "{wrong}");
    }
}

#[test]
fn own_address_as_care_of_address_is_rejected() {
    let mut bench = TestBed::new(config());
    let own = AddressEvent { link: VISITED_LINK, address: address("2001:db8:1::2"), state: AddressState::Preferred };
    bench.feed(Input::Address(own.clone()));
    assert_eq!(status(&bench.send(&Update::unauthenticated(1, "2001:db8:1::2"))), 174);
    bench.feed(Input::Address(AddressEvent { state: AddressState::Removed, ..own }));
    assert_eq!(status(&bench.send(&Update::unauthenticated(2, "2001:db8:1::2"))), 0);
}

#[test]
fn status_135_has_the_last_sequence_number() {
    let mut bench = TestBed::new(config());
    bench.send(&Update::unauthenticated(100, "2001:db8:1::2"));
    let before = bench.installed();
    for stale in [100, 99, 32868] {
        let outputs = bench.send(&Update::unauthenticated(stale, "2001:db8:6::6"));
        let acknowledgement = acknowledgement(&outputs);
        assert_eq!((acknowledgement.status.0, acknowledgement.sequence), (135, Sequence(100)), "{stale}");
        assert!(matches!(
            reports(&outputs)[..],
            [Report::Host(HostReport::Dropped { reason: DropReason::StaleSequence, .. })]
        ));
    }
    assert_eq!(bench.installed(), before);
    assert_eq!(status(&bench.send(&Update::unauthenticated(32867, "2001:db8:1::2"))), 0);
}

#[test]
fn unauthenticated_updates_are_dropped() {
    let right = Update::new(1, "2001:db8:1::100");
    let wrong_key = crate::contract::config::nemo::SharedKey { spi: 256, secret: vec![9; 16] };
    let wrong_spi = crate::contract::config::nemo::SharedKey { spi: 257, ..key() };
    assert_eq!(answer(config(), &right), 0);
    assert_eq!(answer(config(), &Update { key: Some(wrong_key), ..right.clone() }), 146);
    assert_eq!(answer(config(), &Update { care_of: address("2001:db8:1::101"), ..right.clone() }), 146);
    assert_eq!(silence(&Update { key: None, ..right.clone() }), DropReason::NotAuthenticated);
    assert_eq!(silence(&Update { key: Some(wrong_spi), ..right.clone() }), DropReason::NoAssociation);
    assert_eq!(silence(&of("2001:db8::999", right.clone())), DropReason::NoAssociation);
    assert_eq!(silence(&of("2001:db8:5::1", Update::unauthenticated(1, "2001:db8:1::2"))), DropReason::NoAssociation);
    assert_eq!(silence(&Update { flags: UpdateFlags::NONE, ..right.clone() }), DropReason::NotForUs);
    let nonces = MobilityOption::NonceIndices { home: 1, care_of: 2 };
    assert_eq!(silence(&right.with(nonces)), DropReason::Malformed, "of a correspondent's (RFC 6275 §9.5.1)");
}

#[test]
fn replayed_timestamps_are_rejected() {
    let right = Update::new(1, "2001:db8:1::100");
    assert_eq!(answer(config(), &Update { clock_offset: None, ..right.clone() }), 145);
    assert_eq!(answer(config(), &Update { clock_offset: Some(6_900_000), ..right.clone() }), 0);
    for far in [-8_000_000, 8_000_000, 1 << 50] {
        assert_eq!(answer(config(), &Update { clock_offset: Some(far), ..right.clone() }), 144);
    }
    let mut bench = TestBed::new(config());
    let late = Update { clock_offset: Some(-8_000_000), ..right.clone() };
    let outputs = bench.send(&late);
    let timestamp = acknowledgement(&outputs).options.iter().find_map(|option| match option {
        MobilityOption::ReplayProtection(timestamp) => Some(*timestamp),
        _ => None,
    });
    let unix = 1_767_225_600_000_000 + bench.now.as_micros();
    let clock = crate::crypto::authenticator::Timestamp::from_unix_micros(unix).0;
    assert_eq!(timestamp.unwrap() >> 32, clock >> 32, "the high half is this side's clock");
    assert!(matches!(reports(&outputs)[..], [Report::Host(HostReport::Dropped { reason: DropReason::Replayed, .. })]));

    // The same packet with the next sequence number cannot be made; the next timestamp cannot be an earlier one.
    bench.send(&Update { clock_offset: Some(5_000_000), ..right });
    assert_eq!(status(&bench.send(&Update::new(2, "2001:db8:1::100"))), 144);
    bench.advance(Duration::from_secs(5));
    assert_eq!(status(&bench.send(&Update::new(2, "2001:db8:1::100"))), 0);
}

#[test]
fn rejected_item_rolls_back_the_registration() {
    let mut bench = TestBed::new(config());
    let record = Key::JournalRecord(JournalKey::Binding(home()));
    let route = Key::Route(RouteTable::MAIN, prefix("2001:db8:f00::/56"), Prefix::ALL, 100);
    for (sequence, refused) in [(1, record.clone()), (2, route.clone())] {
        bench.rejected.push(refused.clone());
        let outputs = bench.send(&Update::new(sequence, "2001:db8:1::100"));
        assert_eq!(status(&outputs), 130);
        assert!(bench.installed().is_empty(), "{:?}", bench.installed());
        assert!(
            reports(&outputs)
                .iter()
                .any(|report| matches!(report, Report::Host(HostReport::ItemRefused { key, .. }) if *key == refused))
        );
    }
    assert_eq!(status(&bench.send(&Update::new(3, "2001:db8:1::100"))), 0);
    let (held, tunnel) = (bench.installed(), bench.tunnel().cloned());
    bench.rejected.push(record.clone());
    assert_eq!(status(&bench.send(&Update::new(4, "2001:db8:2::100"))), 130);
    assert_eq!((bench.installed(), bench.tunnel().cloned()), (held, tunnel));
    let Some(Item::JournalRecord(crate::contract::item::JournalRecord::Binding(kept))) = bench.plan.find(&record)
    else {
        panic!()
    };
    assert_eq!(kept.care_of[0].1, address("2001:db8:1::100"));
}

#[test]
fn unroutable_explicit_prefix_is_rejected_with_141() {
    let mut bench = TestBed::new(config());
    let listed = network("2001:db8:f00::/56");
    bench.rejected.push(Key::Route(RouteTable::MAIN, prefix("2001:db8:f00::/56"), Prefix::ALL, 100));
    assert_eq!(status(&bench.send(&Update::new(1, "2001:db8:1::100").with(listed.clone()))), 141, "RFC 3963 §6.2");
    bench.rejected.push(Key::JournalRecord(JournalKey::Binding(home())));
    assert_eq!(status(&bench.send(&Update::new(2, "2001:db8:1::100").with(listed))), 130, "not its fault");
}

#[test]
fn newer_update_supersedes_a_pending_one() {
    let mut bench = TestBed::new(config());
    bench.hold_outcomes = true;
    bench.send(&Update::new(1, "2001:db8:1::100"));
    bench.send(&Update::new(2, "2001:db8:2::100"));
    let outputs = bench.release_outcomes();
    assert_eq!(acknowledgement(&outputs).sequence, Sequence(2), "only the newer is answered");
    assert_eq!(bench.tunnel().unwrap().paths[0].remote, address("2001:db8:2::100"));
}

#[test]
fn golden_update_and_acknowledgement_of_the_standards_digest() {
    let mut open = config();
    let row = Arc::make_mut(&mut open.prefix_table).rows.iter_mut().find(|row| row.home_address == home()).unwrap();
    row.authentication = crate::contract::config::nemo::Authentication::None;
    let mut bench = TestBed::new(open);
    let update = "3b06050027e70001c400000f0100031020010db8000100000000000000000100\
                  010200000612003820010db80f0000000000000000000000";
    let header = Header::new(address("2001:db8:1::100"), agent()).with_home_address(home().0);
    let bytes = ip6::emit(&header, protocol::MOBILITY, &hex::decode(update).unwrap());
    let outputs = bench.feed(Input::Packet(crate::contract::input::Packet { link: VISITED_LINK, sender: None, bytes }));
    let datagram = Datagram::parse(&sent(&outputs)[0].bytes).unwrap();
    assert_eq!(hex::encode(datagram.payload), "3b01060060a200400001000f01020000");

    let signed = "3b09050043b00001c400000f0100031020010db8000100000000000000000100\
                  010200000612003820010db80f0000000000000000000000\
                  010300000009110100000100f05c21184c357afd9c595c0d";
    let bytes = ip6::emit(&header, protocol::MOBILITY, &hex::decode(signed).unwrap());
    let outputs = TestBed::new(config()).feed(Input::Packet(crate::contract::input::Packet {
        link: VISITED_LINK,
        sender: None,
        bytes,
    }));
    assert_eq!(status(&outputs), 145, "authentic, though without a timestamp");
}
