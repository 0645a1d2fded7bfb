//! Messages without a valid authenticator: how they are answered, and at which rate; de-registrations and Packet Too
//! Big from the wrong link or node.

use super::bench::*;
use crate::contract::config::nemo::SharedKey;
use crate::contract::report::HostReport;
use crate::contract::view::FaultKind;
use crate::{DropReason, Input, Output, Packet, Report};
use core::time::Duration;
use roam6_wire::icmp6;
use roam6_wire::ip6::{self, Header, protocol};
use roam6_wire::mobility::MobilityOption;

const CARE_OF: &str = "2001:db8:1::100";
const STRANGER: &str = "2001:db8:66::6";

fn forged(sequence: u16) -> Update {
    Update { key: Some(SharedKey { spi: 256, secret: vec![9; 16] }), ..Update::new(sequence, STRANGER) }
}

fn counted(outputs: &[Output], wanted: DropReason) -> usize {
    let is =
        |report: &&&Report| matches!(report, Report::Host(HostReport::Dropped { reason, .. }) if *reason == wanted);
    reports(outputs).iter().filter(is).count()
}

#[test]
fn forged_update_does_not_reveal_sequence_number() {
    let mut bench = TestBed::new(config());
    bench.send(&Update::new(100, CARE_OF));
    let outputs = bench.send(&forged(99));
    assert_eq!(
        (status(&outputs), acknowledgement(&outputs).sequence.0),
        (146, 99),
        "the sequence number of the update, not of the binding"
    );
    let outputs = bench.send(&Update::new(99, CARE_OF));
    assert_eq!(
        (status(&outputs), acknowledgement(&outputs).sequence.0),
        (135, 100),
        "an authentic update learns the sequence number"
    );
}

#[test]
fn answers_to_forged_updates_are_rate_limited() {
    let mut bench = TestBed::new(config());
    bench.send(&Update::new(100, CARE_OF));
    let outputs: Vec<Output> = (0..1000).flat_map(|_| bench.send(&forged(101))).collect();
    assert!((1..=5).contains(&sent(&outputs).len()), "{}", sent(&outputs).len());
    assert_eq!(counted(&outputs, DropReason::BadAuthenticator), 1000, "each is counted");
    let later: Vec<Output> = (0..600)
        .flat_map(|_| {
            bench.advance(Duration::from_millis(100));
            bench.send(&forged(101))
        })
        .collect();
    assert!(sent(&later).len() <= 60 + 5, "{}", sent(&later).len());
}

#[test]
fn flood_of_forged_updates_does_not_block_authentic_answers() {
    let mut bench = TestBed::new(config());
    bench.send(&Update::new(100, CARE_OF));
    for _ in 0..1000 {
        bench.send(&forged(101));
    }
    assert_eq!(status(&bench.send(&Update::new(7, CARE_OF))), 135, "its own state was lost");
    assert_eq!(status(&bench.send(&Update { clock_offset: Some(-9_000_000), ..Update::new(101, CARE_OF) })), 144);
    assert_eq!(status(&bench.send(&Update::new(102, CARE_OF))), 0);
}

#[test]
fn answers_to_stale_updates_are_rate_limited() {
    let mut bench = TestBed::new(config());
    let first = Update::new(100, CARE_OF).packet(bench.now);
    bench.feed(Input::Packet(first.clone()));
    let outputs: Vec<Output> = (0..1000).flat_map(|_| bench.feed(Input::Packet(first.clone()))).collect();
    assert!((1..=5).contains(&sent(&outputs).len()), "{}", sent(&outputs).len());
    assert_eq!(counted(&outputs, DropReason::StaleSequence), 1000);
}

#[test]
fn repeated_refused_binding_updates_are_rate_limited() {
    let mut bench = TestBed::new(config());
    for (wrong, expected) in [
        (Update::new(100, "2001:db8:f00::1"), 174),
        (Update::new(200, CARE_OF).with(MobilityOption::MobileNetworkPrefix(prefix("2001:db8::/32"))), 141),
    ] {
        bench.advance(Duration::from_secs(10));
        let captured = wrong.packet(bench.now);
        assert_eq!(status(&bench.feed(Input::Packet(captured.clone()))), expected);
        let outputs: Vec<Output> = (0..1000).flat_map(|_| bench.feed(Input::Packet(captured.clone()))).collect();
        assert!(sent(&outputs).len() <= 4, "{expected}: {}", sent(&outputs).len());
        assert_eq!(counted(&outputs, DropReason::RateLimited), 1000 - sent(&outputs).len());
    }
    assert_eq!(status(&bench.send(&Update::new(300, CARE_OF))), 0, "an accepted update is always answered");
}

#[test]
fn deregistration_from_home_must_arrive_on_home_link() {
    let deregistration = |sequence| Update::new(sequence, "2001:db8::100").lifetime(0);
    let elsewhere = |bench: &mut TestBed, update: &Update| {
        bench.now = bench.now + Duration::from_micros(1);
        let packet = Packet { link: VISITED_LINK, ..update.packet(bench.now) };
        bench.feed(Input::Packet(packet))
    };
    let mut virtual_home = TestBed::new(config());
    virtual_home.send(&Update::new(1, CARE_OF));
    let outputs = virtual_home.send(&deregistration(2));
    assert!(sent(&outputs).is_empty(), "there is no home link");
    assert_eq!(counted(&outputs, DropReason::NotOnLink), 1);
    assert!(virtual_home.tunnel().is_some());

    let mut bench = TestBed::at_home_link(crate::contract::config::nemo::HomeAgentConfig {
        duplicate_detection: false,
        ..config()
    });
    bench.send(&Update::new(1, CARE_OF));
    let outputs = elsewhere(&mut bench, &deregistration(2));
    assert!(sent(&outputs).is_empty() && counted(&outputs, DropReason::NotOnLink) == 1);
    assert_eq!(bench.tunnel().unwrap().paths[0].weight, 1);
    assert_eq!(
        status(&bench.send(&deregistration(2))),
        0,
        "on the home link it is accepted; the dropped one has not used its sequence number"
    );
}

/// A Packet Too Big from a router, about a tunnelled packet to the care-of address with `inner` behind the outer header.
fn too_big(mtu: u32, next: u8, inner: &[u8]) -> Input {
    let invoking = ip6::emit(&Header::new(agent(), address(CARE_OF)), next, inner);
    let router = address("2001:db8:99::1");
    let message = icmp6::Message::PacketTooBig { mtu, invoking }.emit(router, agent());
    let bytes = ip6::emit(&Header::new(router, agent()), protocol::ICMPV6, &message);
    Input::Packet(Packet { link: VISITED_LINK, sender: None, bytes })
}

fn inner(destination: &str) -> Vec<u8> {
    ip6::emit(&Header::new(address("2001:db8:5::1"), address(destination)), protocol::UDP, &[0; 100])
}

#[test]
fn packet_too_big_must_quote_a_tunnel_packet() {
    let mut bench = TestBed::new(config());
    bench.send(&Update::new(1, CARE_OF).lifetime(300));
    let mtu = |bench: &TestBed| bench.tunnel().unwrap().paths[0].mtu;
    for (why, wrong) in [
        ("RFC 8201 §4", too_big(1279, protocol::IPV6, &inner("2001:db8:f00::9"))),
        ("RFC 8201 §4", too_big(68, protocol::IPV6, &inner("2001:db8:f00::9"))),
        ("no inner packet", too_big(1300, protocol::IPV6, &[0; 60])),
        ("no whole inner header", too_big(1300, protocol::IPV6, &inner("2001:db8:f00::9")[..39])),
        ("another network's", too_big(1300, protocol::IPV6, &inner("2001:db8:e00::9"))),
        ("no tunnel packet", too_big(1300, protocol::UDP, &inner("2001:db8:f00::9"))),
    ] {
        let outputs = bench.feed(wrong);
        assert_eq!(mtu(&bench), 1460, "{why}");
        assert_eq!(reports(&outputs).len(), 1, "{why}: counted");
    }
    bench.feed(too_big(1400, protocol::IPV6, &inner("2001:db8:f00::9")));
    assert_eq!(mtu(&bench), 1360);
    let fragment = [&[protocol::IPV6, 0, 0, 1, 0, 0, 0, 7][..], &inner("2001:db8::100")].concat();
    bench.feed(too_big(1280, 44, &fragment));
    assert_eq!(mtu(&bench), 1240, "a first fragment contains the inner header too");
}

#[test]
fn two_routers_with_one_home_address_are_reported_once() {
    let mut bench = TestBed::new(config());
    bench.send(&Update::new(100, CARE_OF));
    let notices = |outputs: &[Output]| -> Vec<String> {
        let texts = reports(outputs).into_iter().filter_map(|report| match report {
            Report::Host(HostReport::Notice { text }) => Some(text.clone()),
            _ => None,
        });
        texts.collect()
    };
    let first = notices(&bench.send(&Update::new(1, "2001:db8:2::7")));
    assert_eq!(first.len(), 1);
    for part in ["2001:db8::100", CARE_OF, "2001:db8:2::7"] {
        assert!(first[0].contains(part), "{}", first[0]);
    }
    let mut again = bench.send(&Update::new(101, "2001:db8:2::7"));
    again.extend(bench.send(&Update::new(101, CARE_OF)));
    again.extend(bench.send(&Update::new(102, CARE_OF)));
    assert_eq!(notices(&again), Vec::<String>::new());
}

#[test]
fn second_router_with_one_key_is_a_fault_that_accepted_updates_do_not_end() {
    let mut bench = TestBed::new(config());
    bench.send(&Update::new(100, CARE_OF));
    let fault = |bench: &TestBed| {
        let mut view = crate::View::default();
        bench.agent.show_page(bench.now, None, &mut view);
        view.bindings.first().and_then(|row| row.fault.clone())
    };
    for (turn, from) in ["2001:db8:2::7", CARE_OF, "2001:db8:2::7"].into_iter().enumerate() {
        assert_eq!(fault(&bench), None, "turn {turn}");
        let sequence = 100 + u16::try_from(turn).unwrap();
        bench.send(&Update::new(sequence, from));
        assert_eq!(status(&bench.send(&Update::new(sequence + 1, from))), 0);
        bench.advance(Duration::from_secs(5));
    }
    assert_eq!(fault(&bench), Some(FaultKind::Stolen));
    bench.send(&Update::new(110, "2001:db8:2::7"));
    assert_eq!(fault(&bench), Some(FaultKind::Stolen));
    bench.advance(Duration::from_secs(600));
    bench.send(&Update::new(111, "2001:db8:2::7"));
    assert_eq!(fault(&bench), None, "the other router is gone");
}
