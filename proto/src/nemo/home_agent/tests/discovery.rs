//! Home agent discovery, mobile prefix discovery and the home agents list.

use super::bench::*;
use super::home_link::{from_neighbour, messages};
use crate::contract::config::nemo::HomeAgentConfig;
use crate::contract::input::AddressState;
use crate::contract::item::AnycastAddress;
use crate::contract::report::{HostReport, NemoReport};
use crate::{AddressEvent, DropReason, Input, Item, Output, Packet, Report};
use core::time::Duration;
use roam6_wire::icmp6::{ALL_NODES, Message, NeighbourOption, RouterAdvertisement};
use roam6_wire::ip6::{self, Datagram, Header, protocol};
use std::net::Ipv6Addr;

fn other(number: u16, preference: u16, router: bool, lifetime: u16) -> Input {
    let own = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 1, number);
    let options = vec![
        NeighbourOption::HomeAgentInformation { router, preference, lifetime },
        NeighbourOption::PrefixInformation {
            prefix: prefix("2001:db8::/64"),
            address: own,
            on_link: true,
            autonomous: true,
            router_address: true,
            valid: 600,
            preferred: 600,
        },
    ];
    let message =
        Message::RouterAdvertisement(RouterAdvertisement { home_agent: true, lifetime, options, ..Default::default() });
    from_neighbour(&message, Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 1, number), ALL_NODES)
}

fn discover(bench: &mut TestBed, router: bool) -> Vec<Ipv6Addr> {
    let (source, to) = (address("2001:db8:1::100"), address("2001:db8::fdff:ffff:ffff:fffe"));
    let request = Message::HomeAgentRequest { identifier: 77, router };
    let bytes = ip6::emit(&Header::new(source, to), protocol::ICMPV6, &request.emit(source, to));
    let outputs = bench.feed(Input::Packet(Packet { link: VISITED_LINK, sender: None, bytes }));
    match messages(&outputs).pop() {
        Some((from, to, Message::HomeAgentReply { identifier: 77, router: reported, addresses })) => {
            assert_eq!((from, to, reported), (agent(), source, router));
            addresses
        }
        None => Vec::new(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn anycast_address_is_on_home_link_or_on_link_of_own_address() {
    let wanted = |link| Item::Anycast(AnycastAddress { link, address: address("2001:db8::fdff:ffff:ffff:fffe") });
    let bench = TestBed::at_home_link(config());
    assert!(bench.plan.iter().any(|(_, item)| *item == wanted(HOME_LINK)));
    let mut bench = TestBed::new(config());
    let event = AddressEvent { link: VISITED_LINK, address: agent(), state: AddressState::Preferred };
    let outputs = bench.feed(Input::Address(event));
    assert!(matches!(&outputs[..], [Output::Put(put)] if put.item == wanted(VISITED_LINK)), "{outputs:?}");
}

#[test]
fn rejected_anycast_address_is_retried() {
    let mut bench = TestBed::new(config());
    let event = AddressEvent { link: VISITED_LINK, address: agent(), state: AddressState::Preferred };
    let wanted =
        Item::Anycast(AnycastAddress { link: VISITED_LINK, address: address("2001:db8::fdff:ffff:ffff:fffe") });
    bench.rejected.push(wanted.key());
    bench.feed(Input::Address(event));
    assert!(bench.plan.find(&wanted.key()).is_none());
    bench.advance(Duration::from_secs(10));
    assert_eq!(bench.plan.find(&wanted.key()), Some(&wanted));
}

#[test]
fn dhaad_reply_lists_home_agents_by_preference() {
    let mut bench = TestBed::at_home_link(config());
    bench.feed(other(1, 20, true, 100));
    bench.feed(other(2, 5, true, 100));
    bench.feed(other(3, 30, false, 100));
    let listed = |addresses: Vec<Ipv6Addr>| -> Vec<String> { addresses.iter().map(ToString::to_string).collect() };
    assert_eq!(listed(discover(&mut bench, true)), ["2001:db8::1:1", "2001:db8::1", "2001:db8::1:2"]);
    assert_eq!(listed(discover(&mut bench, false))[0], "2001:db8::1:3", "which serves no mobile routers");
    bench.feed(other(1, 20, true, 0));
    bench.advance(Duration::from_secs(99));
    assert_eq!(discover(&mut bench, true).len(), 2);
    bench.advance(Duration::from_secs(1));
    assert_eq!(discover(&mut bench, true), [agent()]);
}

#[test]
fn home_agents_list_and_dhaad_replies_are_bounded() {
    let mut bench = TestBed::at_home_link(config());
    let full = |outputs: &[Output]| {
        reports(outputs).iter().any(|report| matches!(report, Report::Host(HostReport::TableFull { .. })))
    };
    let full: Vec<bool> = (0..65).map(|number| full(&bench.feed(other(number, 20, true, 100)))).collect();
    assert_eq!(full.iter().position(|full| *full), Some(64));
    let lengths: Vec<usize> = (0..60).map(|_| discover(&mut bench, true).len()).collect();
    assert_eq!(lengths[0], 65);
    assert!(lengths.iter().filter(|length| **length > 0).count() <= 51, "fifty a second");
}

#[test]
fn mobile_prefix_advertisement_is_rate_limited_per_binding() {
    let mut bench = TestBed::new(HomeAgentConfig { duplicate_detection: false, ..config() });
    bench.send(&Update::new(1, "2001:db8:1::100"));
    let solicitation = |care_of: &str| {
        let header = Header::new(address(care_of), agent()).with_home_address(home().0);
        let message = Message::MobilePrefixSolicitation { identifier: 9 }.emit(home().0, agent());
        Input::Packet(Packet {
            link: VISITED_LINK,
            sender: None,
            bytes: ip6::emit(&header, protocol::ICMPV6, &message),
        })
    };
    let outputs = bench.feed(solicitation("2001:db8:1::100"));
    let datagram = Datagram::parse(&sent(&outputs)[0].bytes).unwrap();
    assert_eq!(datagram.routing_home, Some(home().0));
    let Message::MobilePrefixAdvertisement { identifier: 9, options, .. } = Message::parse(&datagram).unwrap() else {
        panic!()
    };
    assert!(matches!(options[..], [NeighbourOption::PrefixInformation { router_address: true, .. }]));
    let again = bench.feed(solicitation("2001:db8:1::100"));
    assert!(matches!(reports(&again)[..], [Report::Host(HostReport::Dropped { reason: DropReason::RateLimited, .. })]));
    bench.advance(Duration::from_secs(1));
    assert_eq!(sent(&bench.feed(solicitation("2001:db8:1::100"))).len(), 1);
    let stranger = bench.feed(solicitation("2001:db8:6::6"));
    assert!(matches!(reports(&stranger)[..], [Report::Nemo(NemoReport::BindingError { status: 1, sent: true, .. })]));
}
