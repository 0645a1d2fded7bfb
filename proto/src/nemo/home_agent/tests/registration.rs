//! Registration, refresh, movement, de-registration, expiry.

use super::bench::*;
use crate::contract::config::nemo::HomeAgentConfig;
use crate::contract::item::{JournalKey, RouteTable};
use crate::contract::report::NemoReport;
use crate::crypto::authenticator::verify;
use crate::{Engine, Item, Key, Output, Report, Via};
use core::time::Duration;
use roam6_wire::ip6::Datagram;
use roam6_wire::mobility::{MobilityOption, authenticated_part};
use roam6_wire::{CareOfAddress, Prefix, Sequence};

/// The kind of each output, in order.
fn kinds(outputs: &[Output]) -> Vec<&'static str> {
    outputs
        .iter()
        .map(|output| match output {
            Output::Put(put) => match put.item {
                Item::Tunnel(_) => "tunnel",
                Item::Route(_) => "route",
                Item::JournalRecord(_) => "record",
                Item::ProxyNeighbour(_) => "proxy",
                _ => "put",
            },
            Output::Drop(_) => "drop",
            Output::Transmit(_) => "transmit",
            Output::ActivityQuery(_)
            | Output::LinkTrafficQuery(_)
            | Output::PathTrafficQuery(_)
            | Output::ChannelUseQuery(_)
            | Output::InterceptionQuery(_) => "sample",
            Output::Frame(_) => "frame",
            Output::Verify(_) => "verify",
            Output::Sign(_) => "sign",
            Output::Report(report) => report.name(),
        })
        .collect()
}

#[test]
fn age_of_a_path_is_kept_when_it_is_refreshed() {
    let mut bench = TestBed::new(config());
    let ages = |bench: &TestBed| {
        let mut view = crate::contract::view::View::default();
        bench.agent.view(bench.now, &mut view);
        let paths = view.tunnels.iter().map(|path| path.changed.map(|age| age.as_secs()));
        (view.bindings[0].changed.map(|age| age.as_secs()), paths.collect::<Vec<_>>())
    };
    bench.send(&Update::new(1, "2001:db8:1::2"));
    bench.advance(Duration::from_secs(20));
    bench.send(&Update::new(2, "2001:db8:1::2"));
    assert_eq!(ages(&bench), (Some(20), vec![Some(20)]));
    // The former path, which still receives, has none.
    bench.send(&Update::new(3, "2001:db8:2::2"));
    bench.advance(Duration::from_secs(2));
    assert_eq!(ages(&bench), (Some(2), vec![Some(2), None]));
}

#[test]
fn update_is_acknowledged_once_all_items_are_installed() {
    let mut bench = TestBed::new(config());
    bench.hold_outcomes = true;
    let first = bench.send(&Update::new(7, "2001:db8:1::100"));
    assert_eq!(kinds(&first), ["tunnel", "route", "route", "record"]);
    let last = bench.held_outcomes.pop().unwrap();
    assert!(bench.release_outcomes().is_empty(), "one outcome is missing");
    let done = bench.feed(crate::contract::input::Input::Outcome(last));
    assert_eq!(kinds(&done), ["transmit", "registered"]);
    assert!(
        matches!(reports(&done)[0], Report::Nemo(NemoReport::Registered { moved: false, .. })),
        "a first registration is no movement"
    );

    let acknowledgement = acknowledgement(&done);
    assert_eq!(
        (acknowledgement.status.0, acknowledgement.sequence, acknowledgement.lifetime_units),
        (0, Sequence(7), 15)
    );
    assert!(acknowledgement.flags.router());
    let datagram = Datagram::parse(&sent(&done)[0].bytes).unwrap();
    assert_eq!((datagram.destination, datagram.routing_home), (address("2001:db8:1::100"), Some(home().0)));
    let (part, at) = authenticated_part(datagram.payload).unwrap();
    let care_of = CareOfAddress(address("2001:db8:1::100"));
    assert!(verify(&key().secret, care_of, home(), &part, &datagram.payload[at..]));

    let tunnel = bench.tunnel().unwrap();
    assert_eq!(tunnel.remote_prefixes, [Prefix::host(home().0), prefix("2001:db8:f00::/56")]);
    assert_eq!((tunnel.paths.len(), tunnel.paths[0].mtu, tunnel.paths[0].weight), (1, 1460, 1));
    assert_eq!((tunnel.paths[0].local, tunnel.paths[0].remote), (agent(), address("2001:db8:1::100")));
}

#[test]
fn refresh_writes_only_the_journal_record() {
    let mut bench = TestBed::new(config());
    bench.send(&Update::new(1, "2001:db8:1::100"));
    bench.advance(Duration::from_secs(20));
    let refresh = bench.send(&Update::new(2, "2001:db8:1::100"));
    assert_eq!(kinds(&refresh), ["record", "transmit", "registered"]);
    assert_eq!(status(&refresh), 0);
    assert!(bench.advance(Duration::from_secs(45)).iter().all(|output| !matches!(output, Output::Drop(_))));
}

#[test]
fn movement_replaces_path_and_old_one_still_receives() {
    let mut bench = TestBed::new(config());
    bench.send(&Update::new(1, "2001:db8:1::100"));
    let moved = bench.send(&Update::new(2, "2001:db8:2::100"));
    assert_eq!(kinds(&moved), ["tunnel", "record", "transmit", "registered"]);
    assert!(matches!(reports(&moved)[0], Report::Nemo(NemoReport::Registered { moved: true, .. })));
    let paths = |bench: &TestBed| -> Vec<(String, u16)> {
        bench.tunnel().unwrap().paths.iter().map(|path| (path.remote.to_string(), path.weight)).collect()
    };
    assert_eq!(paths(&bench), [("2001:db8:2::100".into(), 1), ("2001:db8:1::100".into(), 0)]);
    bench.advance(Duration::from_secs(5));
    assert_eq!(paths(&bench), [("2001:db8:2::100".into(), 1)]);
}

#[test]
fn deregistration_ends_forwarding_and_outdates_delayed_updates() {
    let mut bench = TestBed::at_home_link(HomeAgentConfig { duplicate_detection: false, ..config() });
    bench.send(&Update::new(1, "2001:db8:1::100"));
    bench.now = bench.now + Duration::from_micros(1);
    let delayed = Update::new(2, "2001:db8:1::100").packet(bench.now);
    let done = bench.send(&Update::new(3, "2001:db8::100").lifetime(0));
    assert_eq!(status(&done), 0);
    let datagram = Datagram::parse(&sent(&done)[0].bytes).unwrap();
    assert_eq!((datagram.destination, datagram.routing_home), (home().0, None));
    assert!(reports(&done).iter().any(|report| matches!(report, Report::Nemo(NemoReport::Deregistered { .. }))));
    let record = Key::JournalRecord(JournalKey::Binding(home()));
    assert!(matches!(&bench.installed()[..], [Key::Tunnel(_), last] if *last == record), "{:?}", bench.installed());
    assert!(bench.tunnel().unwrap().paths.iter().all(|path| path.weight == 0));

    let answer = bench.feed(crate::contract::input::Input::Packet(delayed));
    assert_eq!((status(&answer), acknowledgement(&answer).sequence), (135, Sequence(3)));
    bench.advance(Duration::from_secs(5));
    assert_eq!(bench.installed(), [record], "the tombstone stays as long as a replayed update could be accepted");
    bench.advance(Duration::from_secs(10));
    assert!(bench.installed().is_empty());
    assert_eq!(crate::contract::engine::Engine::deadline(&bench.agent), None);
    let again = bench.send(&Update::new(1, "2001:db8:1::100"));
    let registered = reports(&again).iter().any(|report| matches!(report, Report::Nemo(NemoReport::Registered { .. })));
    assert!(registered, "the tombstone expires after fifteen seconds");
}

#[test]
fn acknowledgement_on_home_link_uses_sender_link_address() {
    let mut bench = TestBed::at_home_link(config());
    let mut bound = bench.send(&Update::new(1, "2001:db8:1::100"));
    bound.extend(bench.advance(Duration::from_secs(1)));
    let mut packet = Update::new(2, "2001:db8::100").lifetime(0).packet(bench.now);
    let neighbour = roam6_wire::LinkAddress([2, 0, 0, 0, 0, 9]);
    (packet.link, packet.sender) = (HOME_LINK, Some(neighbour));
    let done = bench.feed(crate::contract::input::Input::Packet(packet));
    assert_eq!(sent(&done)[0].via, Via::Neighbour { link: HOME_LINK, address: neighbour });
    assert!(!bench.installed().iter().any(|key| matches!(key, Key::ProxyNeighbour(..))));
}

#[test]
fn binding_expires_after_one_refresh_request() {
    let mut bench = TestBed::new(config());
    bench.send(&Update::new(1, "2001:db8:1::100"));
    let quiet = bench.advance(Duration::from_secs(52));
    assert!(quiet.is_empty());
    let late = bench.advance(Duration::from_secs(7));
    assert_eq!(kinds(&late), ["transmit"]);
    let end = bench.advance(Duration::from_secs(1));
    assert!(bench.installed().is_empty(), "{:?}", bench.installed());
    assert_eq!(kinds(&end).last(), Some(&"deregistered"));
    let route = Key::Route(RouteTable::MAIN, prefix("2001:db8:f00::/56"), Prefix::ALL, 100);
    assert!(end.contains(&Output::Drop(route)));
    assert!(end.contains(&Output::Drop(Key::JournalRecord(JournalKey::Binding(home())))));
}

#[test]
fn refresh_advice_is_shorter_than_the_lifetime() {
    let advice = |interval: u64, lifetime_units: u16| {
        let refresh_advice = Some(Duration::from_secs(interval));
        let mut bench = TestBed::new(HomeAgentConfig { refresh_advice, ..config() });
        let outputs = bench.send(&Update::new(1, "2001:db8:1::100").lifetime(lifetime_units));
        acknowledgement(&outputs).options.iter().find_map(|option| match option {
            MobilityOption::BindingRefreshAdvice(units) => Some(*units),
            _ => None,
        })
    };
    assert_eq!(advice(30, 15), Some(7), "28 of 60 seconds");
    assert_eq!(advice(60, 15), None, "it would be no smaller than the lifetime");
    assert_eq!(advice(3, 15), None, "not even one unit");
    let mut bench = TestBed::new(HomeAgentConfig { refresh_advice: Some(Duration::from_secs(8)), ..config() });
    bench.send(&Update::new(1, "2001:db8:1::100"));
    let bye = acknowledgement(&bench.send(&Update::new(2, "2001:db8:1::100").lifetime(0)));
    assert!(!bye.options.iter().any(|option| matches!(option, MobilityOption::BindingRefreshAdvice(_))));
}

#[test]
fn timer_names_are_readable() {
    let mut bench = TestBed::new(config());
    bench.send(&Update::new(1, "2001:db8:1::100"));
    let mut view = crate::contract::view::View::default();
    crate::contract::engine::Engine::view(&bench.agent, bench.now, &mut view);
    assert_eq!(view.timers[0].name, "home agent: binding of 2001:db8::100");
}
