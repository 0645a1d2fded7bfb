//! Relays by scripts, and by seeded worlds.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails at the assertion")]

mod world;

use super::*;
use crate::Time;
use crate::base::rng::Entropy;
use crate::contract::item::subflow::subflow_address;
use roam6_wire::Bid;
use roam6_wire::relay::{Answer, Message, Offer};
use std::collections::VecDeque;

const HOME: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 0x100);
const OTHER_HOME: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 0x200);
const AGENT: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 1);
const NODE: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0x100, 0, 0, 0, 0, 2);
const SERVER: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 0, 0, 0, 9);

/// What the data plane of either host knows.
struct Table;

impl Bindings for Table {
    fn tunnel_of(&self, address: Ipv6Addr) -> Option<u32> {
        let inside = |text: &str| text.parse::<Prefix>().unwrap().contains(address);
        match () {
            () if address == HOME || inside("2001:db8:100::/56") || inside("10.77.1.0/24") => Some(1),
            () if address == subflow() => Some(1),
            () if address == OTHER_HOME || inside("2001:db8:200::/56") => Some(2),
            () => None,
        }
    }

    fn is_own(&self, address: Ipv6Addr) -> bool {
        address == AGENT
    }
}

/// The address of the mobile router by which a subflow of it is encrypted.
fn subflow() -> Ipv6Addr {
    subflow_address(HOME, Bid(1)).unwrap()
}

fn config(side: Side, instance: u64) -> RelayConfig {
    RelayConfig { side, instance, spare: 4, max_bearers: 64, max_bearers_per_router: 48, early: false }
}

fn router(instance: u64) -> Relay {
    Relay::new(router_config(instance))
}

fn router_config(instance: u64) -> RelayConfig {
    let rule = OfferedRule {
        bonded: true,
        source: Prefix::ALL,
        destination: Prefix::ALL,
        source_ports: (0, u16::MAX),
        destination_ports: (0, u16::MAX),
        dscp: None,
    };
    let prefixes = vec!["2001:db8:100::/56".parse().unwrap()];
    config(Side::MobileRouter { prefixes, offered: vec![rule] }, instance)
}

/// A mobile router's relay with all its bearers.
fn with_bearers(early: bool) -> Relay {
    let mut relay = Relay::new(RelayConfig { early, ..router_config(7) });
    step(&mut relay, Event::Tick);
    (0..8).for_each(|id| drop(step(&mut relay, Event::Dialled(BearerId(id)))));
    relay
}

fn agent() -> Relay {
    Relay::new(config(Side::HomeAgent, 0))
}

fn syn(source: Ipv6Addr, source_port: u16, destination: Ipv6Addr) -> HeldSyn {
    let mut segment = vec![0; 20];
    segment[..2].copy_from_slice(&source_port.to_be_bytes());
    segment[2..4].copy_from_slice(&443_u16.to_be_bytes());
    segment[4..8].copy_from_slice(&7_u32.to_be_bytes());
    (segment[12], segment[13]) = (5 << 4, 2);
    let header = roam6_wire::ip6::Header { traffic_class: 0x28, ..roam6_wire::ip6::Header::new(source, destination) };
    HeldSyn::parse(&roam6_wire::ip6::emit(&header, 6, &segment)).unwrap()
}

fn step(relay: &mut Relay, event: Event) -> Vec<Effect> {
    let mut out = Vec::new();
    relay.handle(Time::from_micros(1), event, &Table, &mut out);
    out
}

/// A home agent's relay with an idle bearer of the router with this home address.
fn agent_with(home: Ipv6Addr) -> (Relay, BearerId) {
    let mut relay = agent();
    let id = relay.accept_bearer(home, &Table).unwrap();
    (relay, id)
}

fn request(source: Ipv6Addr, destination: Ipv6Addr) -> Message {
    let (destination_port, source_port) = (443, 50_000);
    Message::Connect(Connect { destination, destination_port, source, source_port, traffic_class: 0 })
}

#[test]
fn a_router_introduces_itself_before_it_opens_spare_bearers() {
    let mut relay = router(7);
    let out = step(&mut relay, Event::Tick);
    assert_eq!(out, [Effect::Dial(BearerId(0))]);
    let out = step(&mut relay, Event::Dialled(BearerId(0)));
    let Effect::Send(BearerId(0), Message::Offer(Offer { instance: 7, .. })) = &out[0] else { panic!("{out:?}") };
    assert_eq!(out[1], Effect::Ready(true));
    assert_eq!(out.iter().filter(|effect| matches!(effect, Effect::Dial(_))).count(), 3 + 4, "the others");
}

#[test]
fn a_relay_that_resets_each_bearer_is_dialled_ever_less() {
    let mut relay = router(7);
    let (mut now, mut dialled, mut readiness) = (Time::ZERO, Vec::new(), Vec::new());
    let mut events = VecDeque::from([Event::Tick]);
    while now < Time::ZERO + core::time::Duration::from_secs(60) {
        let mut out = Vec::new();
        let event = events.pop_front().unwrap_or(Event::Tick);
        relay.handle(now, event, &Table, &mut out);
        for effect in out {
            match effect {
                Effect::Dial(id) => {
                    dialled.push(id);
                    events.extend([Event::Dialled(id), Event::Broken(id)]);
                }
                Effect::Ready(ready) => readiness.push(ready),
                _ => {}
            }
        }
        now = now + core::time::Duration::from_millis(10);
    }
    assert!(dialled.len() < 40, "{} in a minute", dialled.len());
    assert_eq!(readiness, [true, false], "said once");
    // One that lasts shows that the other relay answers again.
    let mut out = Vec::new();
    relay.handle(now + core::time::Duration::from_secs(10), Event::Tick, &Table, &mut out);
    let id = out.iter().find_map(|effect| if let Effect::Dial(id) = effect { Some(*id) } else { None }).unwrap();
    let at = now + core::time::Duration::from_secs(10);
    out.clear();
    relay.handle(at, Event::Dialled(id), &Table, &mut out);
    assert!(!out.contains(&Effect::Ready(true)));
    assert_eq!(relay.deadline(), Some(at + core::time::Duration::from_secs(1)));
    relay.handle(at + core::time::Duration::from_secs(1), Event::Tick, &Table, &mut out);
    assert!(out.contains(&Effect::Ready(true)));
}

#[test]
fn a_connection_is_made_in_order() {
    let mut relay = router(7);
    step(&mut relay, Event::Tick);
    step(&mut relay, Event::Dialled(BearerId(0)));
    for id in 1..8 {
        step(&mut relay, Event::Dialled(BearerId(id)));
    }
    let held = syn(NODE, 50_000, SERVER);
    let tuple = held.tuple;
    let out = step(&mut relay, Event::Syn(held.clone()));
    let [Effect::Send(id, Message::Connect(asked)), ..] = out.as_slice() else { panic!("{out:?}") };
    let (id, asked) = (*id, *asked);
    assert_eq!((asked.source, asked.source_port, asked.traffic_class), (NODE, 50_000, 0x28));
    assert_eq!((asked.destination, asked.destination_port), (SERVER, 443));
    assert!(matches!(out[1], Effect::Dial(_)), "the bearer is replaced");
    assert_eq!(step(&mut relay, Event::Syn(held.clone())), [], "a retransmission");
    let out = step(&mut relay, Event::Answered(id, Answer::Connected));
    assert_eq!(out, [Effect::Put(tuple, TupleState::Active), Effect::Inject(held)]);
    assert_eq!(step(&mut relay, Event::Accepted(tuple)), [Effect::Join(id, tuple)]);
    assert_eq!(step(&mut relay, Event::Completed(id)), [Effect::Put(tuple, TupleState::Closed)]);
    assert_eq!(relay.counters().relayed, 1);
}

#[test]
fn a_refusal_reaches_the_node_and_frees_the_bearer() {
    let mut relay = with_bearers(false);
    for (port, answer) in
        [(1, Answer::Reset), (2, Answer::NoRoute), (3, Answer::Prohibited), (4, Answer::AddressUnreachable)]
    {
        let held = syn(NODE, port, SERVER);
        let out = step(&mut relay, Event::Syn(held.clone()));
        let Effect::Send(id, _) = out[0] else { panic!("{out:?}") };
        let out = step(&mut relay, Event::Answered(id, answer));
        assert_eq!(out, [Effect::Forget(held.tuple), Effect::Refuse(held, answer)]);
    }
    assert_eq!(relay.counters().refused_by_destination, 4);
}

#[test]
fn a_connection_that_was_accepted_early_is_reset_if_it_is_refused() {
    let mut relay = with_bearers(true);
    let answers = [(1, Answer::Reset), (2, Answer::NoRoute), (3, Answer::NotAuthorized), (4, Answer::ResourceExceeded)];
    for (port, answer) in answers.into_iter().flat_map(|(port, answer)| [(port, answer), (port + 10, answer)]) {
        let held = syn(NODE, port, SERVER);
        let tuple = held.tuple;
        let out = step(&mut relay, Event::Syn(held.clone()));
        let [Effect::Send(id, _), put, inject, ..] = &out[..] else { panic!("{out:?}") };
        assert_eq!((put, inject), (&Effect::Put(tuple, TupleState::Active), &Effect::Inject(held)));
        let (refusal, accepted) = (Event::Answered(*id, answer), Event::Accepted(tuple));
        let (closed, reset) = (Effect::Put(tuple, TupleState::Closed), Effect::ResetAccepted(tuple));
        // The kernel accepts it before the refusal comes, or after.
        if port < 10 {
            assert_eq!(step(&mut relay, accepted), []);
            assert_eq!(step(&mut relay, refusal), [closed, reset]);
        } else {
            assert_eq!(step(&mut relay, refusal), [closed]);
            assert_eq!(step(&mut relay, accepted), [reset]);
        }
    }
    assert_eq!((relay.counters().refused_by_destination, relay.counters().reset), (4, 4));
    // The bearers of refused connections are free for others.
    assert_eq!(relay.bearers(), (0, 8));
}

#[test]
fn a_connection_that_was_accepted_early_is_reset_with_its_bearer() {
    let mut relay = with_bearers(true);
    let held = syn(NODE, 1, SERVER);
    let tuple = held.tuple;
    let Effect::Send(id, _) = step(&mut relay, Event::Syn(held))[0] else { panic!("not asked") };
    step(&mut relay, Event::Accepted(tuple));
    let out = step(&mut relay, Event::Broken(id));
    assert_eq!(out[..3], [Effect::Abort(id), Effect::Put(tuple, TupleState::Closed), Effect::ResetAccepted(tuple)]);
    // An accepted connection without a request is reset too.
    assert_eq!(step(&mut with_bearers(true), Event::Accepted(tuple)), [Effect::ResetAccepted(tuple)]);
}

/// Each relay holds the SYN of its side: both go on without relays, and meet as those of any two hosts (RFC 9293 §3.5).
#[test]
fn a_connection_that_both_ends_begin_is_left_to_the_tunnel() {
    let mut relay = with_bearers(false);
    let held = syn(NODE, 50_000, SERVER);
    let Effect::Send(asked, _) = step(&mut relay, Event::Syn(held.clone()))[0] else { panic!("not asked") };
    let other =
        Connect { destination: NODE, destination_port: 50_000, source: SERVER, source_port: 443, traffic_class: 0 };
    let out = step(&mut relay, Event::Message(BearerId(0), Message::Connect(other)));
    assert_eq!(out, [Effect::Reply(BearerId(0), Answer::ResourceExceeded)]);
    let out = step(&mut relay, Event::Answered(asked, Answer::ResourceExceeded));
    assert_eq!(out, [Effect::Put(held.tuple, TupleState::LeftAlone)]);
}

#[test]
fn refusals_are_what_the_destination_would_have_sent() {
    let held = syn(NODE, 50_000, SERVER);
    let router = (HOME, std::net::Ipv4Addr::UNSPECIFIED);
    let reset = held.refusal(Answer::Reset, router).unwrap();
    let parsed = roam6_wire::ip6::Datagram::parse(&reset).unwrap();
    assert_eq!((parsed.header.source, parsed.header.destination), (SERVER, NODE));
    assert_eq!(parsed.payload[..4], [1, 187, 195, 80], "ports");
    assert_eq!(
        parsed.payload[4..14],
        [0, 0, 0, 0, 0, 0, 0, 8, 0x50, 0x14],
        "RST and ACK of the SYN (RFC 9293 §3.10.7.1)"
    );
    assert_eq!(roam6_wire::checksum::checksum(SERVER, NODE, 6, parsed.payload), 0);
    for (answer, code) in [(Answer::NoRoute, 0), (Answer::Prohibited, 1), (Answer::AddressUnreachable, 3)] {
        let packet = held.refusal(answer, router).unwrap();
        let parsed = roam6_wire::ip6::Datagram::parse(&packet).unwrap();
        assert_eq!((parsed.protocol, parsed.payload[0], parsed.payload[1]), (58, 1, code));
        assert_eq!(parsed.payload[8..], held.octets, "the SYN is quoted");
    }
    assert_eq!(held.refusal(Answer::TimedOut, router), None);
}

#[test]
fn other_packets_are_no_syns() {
    let good = syn(NODE, 50_000, SERVER).octets;
    for length in 0..60 {
        assert_eq!(HeldSyn::parse(&good[..length]), None, "{length} octets");
    }
    for flags in [0x00, 0x10, 0x12, 0x03, 0x06] {
        let mut octets = good.clone();
        octets[40 + 13] = flags;
        assert_eq!(HeldSyn::parse(&octets), None, "flags {flags:#x}");
    }
    let mut rng = Entropy::from_seed([3; 32]);
    for _ in 0..2000 {
        let mut octets = good.clone();
        let at = rng.below(60) as usize;
        octets[at] ^= 1 << rng.below(8);
        let _ = HeldSyn::parse(&octets);
    }
}

#[test]
fn a_relay_is_no_open_proxy() {
    let forged = Ipv6Addr::new(0x2001, 0xdb8, 5, 0, 0, 0, 0, 5);
    let mut relay = agent();
    for home in [forged, AGENT, SERVER, subflow()] {
        assert_eq!(relay.accept_bearer(home, &Table), None, "{home} has no binding");
    }
    assert_eq!(relay.counters().refused_no_binding, 4);

    let other_node = Ipv6Addr::new(0x2001, 0xdb8, 0x200, 0, 0, 0, 0, 2);
    let mapped = |text: &str| text.parse::<std::net::Ipv4Addr>().unwrap().to_ipv6_mapped();
    for source in [forged, SERVER, other_node, OTHER_HOME, AGENT, subflow(), Ipv6Addr::UNSPECIFIED, mapped("10.77.2.1")]
    {
        let (mut relay, id) = agent_with(HOME);
        let destination = if source.to_ipv4_mapped().is_some() { mapped("198.51.100.9") } else { SERVER };
        let out = step(&mut relay, Event::Message(id, request(source, destination)));
        assert_eq!(out, [Effect::Reply(id, Answer::NotAuthorized)], "source {source}");
        assert_eq!(relay.counters().refused_source, 1);
    }
    let link_local = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
    let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    let neighbour = Ipv6Addr::new(0x2001, 0xdb8, 0x100, 0, 0, 0, 0, 3);
    let others = subflow_address(OTHER_HOME, Bid(1)).unwrap();
    for destination in [AGENT, link_local, group, Ipv6Addr::LOCALHOST, Ipv6Addr::UNSPECIFIED, neighbour, HOME, others] {
        let (mut relay, id) = agent_with(HOME);
        let out = step(&mut relay, Event::Message(id, request(NODE, destination)));
        assert_eq!(out, [Effect::Reply(id, Answer::NotAuthorized)], "destination {destination}");
        assert_eq!(relay.counters().refused_destination, 1);
    }
    for destination in ["127.0.0.1", "169.254.1.1", "224.0.0.1", "255.255.255.255", "0.0.0.0"] {
        let (mut relay, id) = agent_with(HOME);
        step(&mut relay, Event::Message(id, request(mapped("10.77.1.2"), mapped(destination))));
        assert_eq!(relay.counters().refused_destination, 1, "{destination}");
    }
    let (mut relay, id) = agent_with(HOME);
    let out = step(&mut relay, Event::Message(id, request(mapped("10.77.1.2"), SERVER)));
    assert_eq!(out, [Effect::Reply(id, Answer::NotAuthorized)], "families differ");
    // What is allowed is done.
    let out = step(&mut relay, Event::Message(id, request(NODE, SERVER)));
    assert!(matches!(out[1], Effect::Connect(_, _)), "{out:?}");
}

#[test]
fn a_router_takes_connections_to_its_own_network_alone() {
    let mut relay = router(7);
    step(&mut relay, Event::Tick);
    step(&mut relay, Event::Dialled(BearerId(0)));
    let offered = BearerId(0);
    for (source, destination) in [(SERVER, SERVER), (NODE, NODE), (SERVER, HOME)] {
        let out = step(&mut relay, Event::Message(offered, request(source, destination)));
        assert_eq!(out[0], Effect::Reply(offered, Answer::NotAuthorized), "{source} to {destination}");
    }
    let out = step(&mut relay, Event::Message(offered, request(SERVER, NODE)));
    assert!(matches!(out[1], Effect::Connect(_, _)), "{out:?}");
    // It is asked on its offers only.
    for id in 1..8 {
        step(&mut relay, Event::Dialled(BearerId(id)));
    }
    let spare = relay.bearers.iter().find(|(_, bearer)| !bearer.offered).map(|(id, _)| *id).unwrap();
    let out = step(&mut relay, Event::Message(spare, request(SERVER, NODE)));
    assert!(out.contains(&Effect::Abort(spare)));
}

#[test]
fn offers_of_foreign_prefixes_are_refused() {
    for prefix in ["2001:db8:200::/56", "2001:db8:9::/64", "::/0"] {
        let (mut relay, id) = agent_with(HOME);
        let offer = Offer { instance: 1, prefixes: vec![prefix.parse().unwrap()], rules: Vec::new() };
        let out = step(&mut relay, Event::Message(id, Message::Offer(offer)));
        assert!(out.contains(&Effect::Abort(id)), "{prefix}: {out:?}");
        assert!(!out.iter().any(|effect| matches!(effect, Effect::Offered(..))));
    }
}

#[test]
fn ipv4_prefixes_that_are_not_bound_are_left_out_of_an_offer() {
    let (mut relay, id) = agent_with(HOME);
    let prefixes = ["2001:db8:100::/56", "10.77.1.0/24", "192.0.2.0/24"].map(|text| text.parse().unwrap());
    let offer = Offer { instance: 1, prefixes: prefixes.to_vec(), rules: Vec::new() };
    let out = step(&mut relay, Event::Message(id, Message::Offer(offer)));
    assert_eq!(out[1..], [Effect::Offered(prefixes[..2].to_vec(), Vec::new())]);
}

#[test]
fn other_rules_are_offered_anew_and_end_no_connection() {
    // The mobile router closes the bearers of its former offer, and opens others.
    let mut relay = router(7);
    let dialled: Vec<BearerId> = step(&mut relay, Event::Tick)
        .into_iter()
        .map(|effect| if let Effect::Dial(id) = effect { id } else { panic!("{effect:?}") })
        .collect();
    let offered = step(&mut relay, Event::Dialled(dialled[0]));
    let next = offered.iter().find_map(|effect| if let Effect::Dial(id) = effect { Some(*id) } else { None }).unwrap();
    let prefixes: Vec<Prefix> = vec!["2001:db8:100::/56".parse().unwrap()];
    let mut out = Vec::new();
    let side = Side::MobileRouter { prefixes: prefixes.clone(), offered: Vec::new() };
    relay.reconfigure(Time::from_micros(2), side.clone(), &mut out);
    assert!(out.contains(&Effect::Abort(dialled[0])), "{out:?}");
    let offered = step(&mut relay, Event::Dialled(next));
    let is_offer = |effect: &Effect| matches!(effect, Effect::Send(id, Message::Offer(offer)) if *id == next && offer.rules.is_empty());
    assert!(offered.iter().any(is_offer), "{offered:?}");
    out.clear();
    relay.reconfigure(Time::from_micros(3), side, &mut out);
    assert_eq!(out, [], "the same rules");

    // The home agent replaces the rules, and keeps the bearers of the same instance.
    let (mut relay, first) = agent_with(HOME);
    let offer = |rules: Vec<OfferedRule>| Message::Offer(Offer { instance: 1, prefixes: prefixes.clone(), rules });
    step(&mut relay, Event::Message(first, offer(Vec::new())));
    let kept = relay.accept_bearer(HOME, &Table).unwrap();
    let second = relay.accept_bearer(HOME, &Table).unwrap();
    assert_eq!(step(&mut relay, Event::Message(second, offer(Vec::new()))), [], "the same rules");
    let third = relay.accept_bearer(HOME, &Table).unwrap();
    let rules = vec![OfferedRule {
        bonded: true,
        source: Prefix::ALL,
        destination: Prefix::ALL,
        source_ports: (0, u16::MAX),
        destination_ports: (0, 443),
        dscp: None,
    }];
    let done = step(&mut relay, Event::Message(third, offer(rules.clone())));
    assert_eq!(done, [Effect::Withdrawn(prefixes.clone()), Effect::Offered(prefixes.clone(), rules)]);
    assert!(relay.bearers.contains_key(&kept) && relay.bearers.contains_key(&first));
}

#[test]
fn another_instance_ends_the_bearers_of_the_former_one() {
    let mut relay = agent();
    let prefixes = vec!["2001:db8:100::/56".parse().unwrap()];
    let offer = |instance| Message::Offer(Offer { instance, prefixes: prefixes.clone(), rules: Vec::new() });
    let old: Vec<BearerId> = (0..3).map(|_| relay.accept_bearer(HOME, &Table).unwrap()).collect();
    let foreign = relay.accept_bearer(OTHER_HOME, &Table).unwrap();
    step(&mut relay, Event::Message(old[0], offer(1)));
    step(&mut relay, Event::Message(old[1], request(NODE, SERVER)));
    step(&mut relay, Event::Connected(old[1]));
    let new = relay.accept_bearer(HOME, &Table).unwrap();
    let out = step(&mut relay, Event::Message(new, offer(2)));
    for id in old {
        assert!(out.contains(&Effect::Abort(id)), "{out:?}");
    }
    assert!(!out.contains(&Effect::Abort(foreign)));
}

/// A mobile router's relay with an open connection from the network, its bearer, and the tuple.
fn router_with_connection() -> (Relay, BearerId, Tuple) {
    let mut relay = with_bearers(false);
    let held = syn(NODE, 50_000, SERVER);
    let tuple = held.tuple;
    let out = step(&mut relay, Event::Syn(held));
    let Effect::Send(id, _) = out[0] else { panic!("{out:?}") };
    step(&mut relay, Event::Answered(id, Answer::Connected));
    assert_eq!(step(&mut relay, Event::Accepted(tuple)), [Effect::Join(id, tuple)]);
    (relay, id, tuple)
}

/// Whether a step sends a Credit of this connection, and on which bearer.
fn credit_of(out: &[Effect], tuple: Tuple) -> Option<BearerId> {
    out.iter().find_map(|effect| match effect {
        Effect::Send(via, Message::Credit(connection)) if Tuple::from(connection) == tuple => Some(*via),
        _ => None,
    })
}

#[test]
fn a_credit_is_sent_again_if_its_bearer_fails() {
    let (mut relay, id, tuple) = router_with_connection();
    let out = step(&mut relay, Event::Taken(id));
    let via = credit_of(&out, tuple.reversed()).unwrap();
    let out = step(&mut relay, Event::Broken(via));
    assert_eq!(credit_of(&out, tuple.reversed()), None, "no bearer has become idle");
    let [Effect::Abort(_), Effect::Dial(next), ..] = out[..] else { panic!("{out:?}") };
    let again = credit_of(&step(&mut relay, Event::Dialled(next)), tuple.reversed()).unwrap();
    assert_ne!(again, via);
}

#[test]
fn a_credit_lifts_the_limit_of_connections_of_the_same_router() {
    let (mut relay, id, tuple) = router_with_connection();
    let credit = Message::Credit(tuple.connect(0));
    // A mobile router is asked on its offers.
    assert_eq!(step(&mut relay, Event::Message(BearerId(0), credit.clone())), [Effect::Lift(id)]);
    let other = Message::Credit(tuple.reversed().connect(0));
    assert_eq!(step(&mut relay, Event::Message(BearerId(0), other)), [], "no such connection");
    let spare = *relay.bearers.iter().find(|(_, bearer)| !bearer.offered).unwrap().0;
    assert!(step(&mut relay, Event::Message(spare, credit)).contains(&Effect::Abort(spare)));

    let (mut relay, id) = agent_with(HOME);
    step(&mut relay, Event::Message(id, request(NODE, SERVER)));
    step(&mut relay, Event::Connected(id));
    let (tuple, _) = relay.connection(id).unwrap();
    let credit = Message::Credit(tuple.connect(0));
    let [own, foreign] = [HOME, OTHER_HOME].map(|home| relay.accept_bearer(home, &Table).unwrap());
    assert_eq!(step(&mut relay, Event::Message(foreign, credit.clone())), [], "of another mobile router");
    assert_eq!(step(&mut relay, Event::Message(own, credit)), [Effect::Lift(id)]);
    assert_eq!(credit_of(&step(&mut relay, Event::Taken(id)), tuple.reversed()), None, "nothing is offered");
    let offer = Offer { instance: 1, prefixes: vec!["2001:db8:100::/56".parse().unwrap()], rules: Vec::new() };
    // The offer of another instance ends the bearers before it.
    let out = step(&mut relay, Event::Message(own, Message::Offer(offer)));
    assert!(out.contains(&Effect::Abort(id)) && credit_of(&out, tuple.reversed()).is_none(), "{out:?}");
}

#[test]
fn the_limit_of_a_router_holds() {
    let mut relay = agent();
    let accepted = (0..60).filter_map(|_| relay.accept_bearer(HOME, &Table)).count();
    assert_eq!((accepted, relay.counters().refused_limit), (48, 12));
    assert!(relay.accept_bearer(OTHER_HOME, &Table).is_some(), "others have room");
}

#[test]
fn hostile_messages_do_no_harm() {
    for seed in 0..200_u8 {
        let mut rng = Entropy::from_seed([seed; 32]);
        let mut relay = agent();
        for _ in 0..200 {
            let id = relay.accept_bearer(HOME, &Table).unwrap_or(BearerId(rng.below(40) as u32));
            let address = |rng: &mut Entropy| [NODE, SERVER, AGENT, HOME, OTHER_HOME][rng.below(5) as usize];
            let event = match rng.below(8) {
                6 => Event::Message(id, Message::Credit(syn(address(&mut rng), 1, SERVER).tuple.connect(0))),
                7 => Event::Taken(id),
                0 => Event::Message(id, request(address(&mut rng), address(&mut rng))),
                1 => Event::Malformed(id),
                2 => Event::Answered(id, Answer::from_code(rng.below(256) as u8)),
                3 => Event::Connected(id),
                4 => Event::Syn(syn(SERVER, rng.below(9) as u16 + 1, NODE)),
                _ => {
                    let prefixes = vec![Prefix::host(address(&mut rng))];
                    Event::Message(id, Message::Offer(Offer { instance: rng.below(3), prefixes, rules: Vec::new() }))
                }
            };
            for effect in step(&mut relay, event) {
                if let Effect::Connect(_, connect) = effect {
                    assert!(
                        [NODE, HOME].contains(&connect.source) && [SERVER, OTHER_HOME].contains(&connect.destination)
                    );
                }
            }
        }
    }
}
