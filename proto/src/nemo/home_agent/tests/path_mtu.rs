//! Path MTU, Binding Errors, and packets that are none of a home agent's business.

use super::bench::*;
use crate::contract::report::{HostReport, NemoReport};
use crate::{DropReason, Input, Output, Packet, Report};
use core::time::Duration;
use roam6_wire::ip6::{self, Datagram, Header, protocol};
use roam6_wire::mobility::{ErrorStatus, Message, MobilityOption};
use roam6_wire::{Bid, icmp6};
use std::net::Ipv6Addr;

fn received(bytes: Vec<u8>) -> Input {
    Input::Packet(Packet { link: VISITED_LINK, sender: None, bytes })
}

fn too_big(mtu: u32, from: Ipv6Addr, to: &str) -> Input {
    let inner = ip6::emit(&Header::new(address("2001:db8:5::1"), home().0), protocol::UDP, &[0; 100]);
    let invoking = ip6::emit(&Header::new(from, address(to)), protocol::IPV6, &inner);
    let router = address("2001:db8:99::1");
    let message = icmp6::Message::PacketTooBig { mtu, invoking }.emit(router, agent());
    received(ip6::emit(&Header::new(router, agent()), protocol::ICMPV6, &message))
}

fn mobility(kind: u8, home: Option<Ipv6Addr>) -> Input {
    let header = Header::new(address("2001:db8:6::6"), agent());
    let header = home.map_or(header, |home| header.with_home_address(home));
    let message = Message::Unknown { kind, body: vec![0; 18] }.emit(header.real_source(), agent());
    received(ip6::emit(&header, protocol::MOBILITY, &message))
}

#[test]
fn packet_too_big_lowers_path_mtu_for_a_time() {
    let mut bench = TestBed::new(config());
    bench.send(&Update::new(1, "2001:db8:1::100").lifetime(300));
    let mtu = |bench: &TestBed| bench.tunnel().unwrap().paths[0].mtu;
    let outputs = bench.feed(too_big(1400, agent(), "2001:db8:1::100"));
    assert_eq!(
        reports(&outputs),
        [&Report::Nemo(NemoReport::PathMtu { remote: address("2001:db8:1::100"), mtu: 1400 })]
    );
    assert_eq!(mtu(&bench), 1360);
    assert!(
        bench.feed(too_big(1450, agent(), "2001:db8:1::100")).is_empty(),
        "Packet Too Big never raises the path MTU"
    );
    bench.feed(too_big(68, agent(), "2001:db8:1::100"));
    assert_eq!(mtu(&bench), 1360, "every link carries 1280 (RFC 8201 §4)");
    bench.feed(too_big(1280, agent(), "2001:db8:1::100"));
    assert_eq!(mtu(&bench), 1240);
    assert!(bench.feed(too_big(1300, agent(), "2001:db8:9::9")).is_empty(), "no binding has this care-of address");
    assert!(bench.feed(too_big(1300, address("2001:db8:9::9"), "2001:db8:1::100")).is_empty(), "not sent from here");
    for sequence in 2..4 {
        bench.advance(Duration::from_secs(300));
        bench.send(&Update::new(sequence, "2001:db8:1::100").lifetime(300));
    }
    assert_eq!(mtu(&bench), 1460, "expires after ten minutes");
}

#[test]
fn path_mtu_option_counts_until_the_next_update() {
    let mut bench = TestBed::new(config());
    let update = |sequence| Update::new(sequence, "2001:db8:1::100").lifetime(300);
    let mtu = |bench: &TestBed| bench.tunnel().unwrap().paths[0].mtu;
    bench.send(&update(1));
    let found = |mtu| MobilityOption::PathMtu { bid: Bid(0), mtu };
    let outputs = bench.send(&update(2).with(found(1400)));
    assert!(
        reports(&outputs)
            .contains(&&Report::Nemo(NemoReport::PathMtu { remote: address("2001:db8:1::100"), mtu: 1400 }))
    );
    assert_eq!(mtu(&bench), 1360);
    let stranger = Update { key: None, ..update(3).with(found(1300)) };
    bench.send(&stranger);
    assert_eq!(mtu(&bench), 1360, "the option counts in authenticated updates only");
    bench.send(&update(3).with(found(68)));
    assert_eq!(mtu(&bench), 1240, "every link carries 1280");
    bench.send(&update(4).with(found(9000)));
    assert_eq!(mtu(&bench), 1460, "the path MTU does not exceed that of the link");
    bench.send(&update(5).with(found(1400)));
    bench.send(&update(6));
    assert_eq!(mtu(&bench), 1460, "the option is gone");
}

#[test]
fn binding_errors_have_a_status_and_are_rate_limited() {
    let mut bench = TestBed::new(config());
    let error = |outputs: &[Output]| {
        let datagram = Datagram::parse(&sent(outputs)[0].bytes).unwrap();
        assert_eq!((datagram.source, datagram.destination), (agent(), address("2001:db8:6::6")));
        match Message::parse(datagram.payload, datagram.source, datagram.destination).unwrap() {
            Message::BindingError { status, home_address } => (status, home_address),
            other => panic!("{other:?}"),
        }
    };
    let unspecified = Ipv6Addr::UNSPECIFIED;
    assert_eq!(error(&bench.feed(mobility(99, None))), (ErrorStatus::UNRECOGNISED_TYPE, unspecified));
    assert_eq!(error(&bench.feed(mobility(1, Some(home().0)))), (ErrorStatus::UNKNOWN_BINDING, home().0));
    assert!(
        sent(&bench.feed(mobility(1, None))).is_empty(),
        "a home agent does not answer return routability messages"
    );
    let echo = icmp6::Message::EchoRequest(icmp6::Echo { identifier: 1, sequence: 1, data: vec![] });
    let header = Header::new(address("2001:db8:6::6"), agent()).with_home_address(home().0);
    let echo = ip6::emit(&header, protocol::ICMPV6, &echo.emit(home().0, agent()));
    assert_eq!(error(&bench.feed(received(echo))), (ErrorStatus::UNKNOWN_BINDING, home().0));

    let outputs: Vec<Output> = (0..100).flat_map(|_| bench.feed(mobility(99, None))).collect();
    assert!(sent(&outputs).len() <= 10);
    let limited =
        |report: &&&Report| matches!(report, Report::Host(HostReport::Dropped { reason: DropReason::RateLimited, .. }));
    assert!(reports(&outputs).iter().filter(limited).count() >= 90, "each is counted");
}

#[test]
fn unrelated_packets_are_ignored() {
    let mut bench = TestBed::new(config());
    let from = address("2001:db8:6::6");
    let plain =
        |to: &str, protocol, payload: &[u8]| received(ip6::emit(&Header::new(from, address(to)), protocol, payload));
    for input in [
        plain("2001:db8:f00::1", protocol::UDP, &[0; 8]),
        plain("2001:db8::1", protocol::TCP, &[0; 20]),
        plain("2001:db8::1", protocol::IPV6, &[0; 60]),
        plain("2001:db8::1", protocol::ICMPV6, &[128, 0, 0, 0]),
        plain("2001:db8::2", protocol::MOBILITY, &[59, 0, 5]),
        received(vec![]),
        received(vec![0x60; 39]),
    ] {
        assert!(bench.feed(input).is_empty());
    }
    for broken in [&[59, 0, 5][..], &[59, 1, 5, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 2, 0, 0]] {
        let outputs = bench.feed(plain("2001:db8::1", protocol::MOBILITY, broken));
        assert!(matches!(
            reports(&outputs)[..],
            [Report::Host(HostReport::Dropped { reason: DropReason::Malformed, .. })]
        ));
        assert!(sent(&outputs).is_empty());
    }
}

#[test]
fn short_mobility_header_is_answered_with_parameter_problem() {
    let mut bench = TestBed::new(config());
    let from = address("2001:db8:6::6");
    let mut header = vec![protocol::NONE, 0, 5, 0, 0, 0, 0, 1];
    let sum = roam6_wire::checksum::checksum(from, agent(), protocol::MOBILITY, &header);
    header[4..6].copy_from_slice(&sum.to_be_bytes());
    let packet = ip6::emit(&Header::new(from, agent()), protocol::MOBILITY, &header);
    let outputs = bench.feed(received(packet.clone()));
    let datagram = Datagram::parse(&sent(&outputs)[0].bytes).unwrap();
    let problem = icmp6::Message::ParameterProblem { code: 0, pointer: 41, invoking: packet };
    assert_eq!((datagram.destination, icmp6::Message::parse(&datagram)), (from, Ok(problem)));
}
