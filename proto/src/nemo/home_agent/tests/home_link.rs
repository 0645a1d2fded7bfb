//! Duplicate address detection, proxies and advertisements on the home link.

use super::bench::*;
use crate::contract::command::LifecycleCommand;
use crate::contract::config::nemo::{HomeAgentConfig, PrefixTable, PrefixTableRow};
use crate::contract::input::AddressState;
use crate::contract::report::{LinkReport, NemoReport};
use crate::{AddressEvent, Command, Input, Item, Key, LinkEvent, LinkId, Output, Packet, Report, Via};
use core::time::Duration;
use roam6_wire::icmp6::{
    ALL_NODES, Message, NeighbourAdvertisement, NeighbourOption, NeighbourSolicitation, RouterSolicitation,
    solicited_node,
};
use roam6_wire::ip6::{self, Datagram, Header, protocol};
use roam6_wire::mobility::UpdateFlags;
use roam6_wire::{HomeAddress, LinkAddress};
use std::net::Ipv6Addr;

/// A neighbour discovery message from a neighbour on the home link.
pub(super) fn from_neighbour(message: &Message, source: Ipv6Addr, to: Ipv6Addr) -> Input {
    let header = Header::new(source, to).with_hop_limit(255);
    let bytes = ip6::emit(&header, protocol::ICMPV6, &message.emit(source, to));
    Input::Packet(Packet { link: HOME_LINK, sender: Some(LinkAddress([2, 0, 0, 0, 0, 9])), bytes })
}

/// The ICMPv6 messages sent, with their sources and destinations.
pub(super) fn messages(outputs: &[Output]) -> Vec<(Ipv6Addr, Ipv6Addr, Message)> {
    let parse = |bytes: &[u8]| {
        let datagram = Datagram::parse(bytes).unwrap();
        let message = Message::parse(&datagram).unwrap();
        assert_eq!(message.check_on_link(&datagram), Ok(()));
        (datagram.source, datagram.destination, message)
    };
    let icmp6 = |bytes: &&[u8]| Datagram::parse(bytes).unwrap().protocol == protocol::ICMPV6;
    sent(outputs).iter().map(|transmit| &transmit.bytes[..]).filter(icmp6).map(parse).collect()
}

#[test]
fn home_address_is_proxied_and_announced_after_dad() {
    let mut bench = TestBed::at_home_link(config());
    let outputs = bench.send(&Update::new(1, "2001:db8:1::100"));
    let [(source, destination, Message::NeighbourSolicitation(solicitation))] = &messages(&outputs)[..] else {
        panic!()
    };
    assert_eq!((*source, *destination), (Ipv6Addr::UNSPECIFIED, solicited_node(home().0)));
    assert_eq!((solicitation.target, sent(&outputs)[0].via), (home().0, Via::Link(HOME_LINK)));
    assert!(bench.installed().is_empty(), "nothing is installed before DAD has ended");
    assert!(bench.advance(Duration::from_millis(999)).is_empty());

    let done = bench.advance(Duration::from_millis(2));
    let [(_, ALL_NODES, Message::NeighbourAdvertisement(announced))] = &messages(&done)[..] else { panic!() };
    assert_eq!((announced.router, announced.solicited, announced.overrides), (true, false, true));
    let link_address = NeighbourOption::TargetLinkAddress(LinkAddress([2, 0, 0, 0, 0, 1]));
    assert_eq!((announced.target, &announced.options[..]), (home().0, &[link_address][..]));
    let Some(Item::ProxyNeighbour(proxy)) = bench.plan.find(&Key::ProxyNeighbour(HOME_LINK, home().0)) else {
        panic!()
    };
    assert!(proxy.router, "RFC 3963 §6.2");
    assert!(matches!(reports(&done)[..], [Report::Nemo(NemoReport::Registered { .. })]));
    assert_eq!(messages(&bench.advance(Duration::from_secs(10))).len(), 2, "repeated, as it may be lost");

    let refresh = bench.send(&Update::new(2, "2001:db8:1::100"));
    assert!(messages(&refresh).is_empty(), "DAD runs once");
}

#[test]
fn home_address_that_fails_dad_is_rejected_with_134() {
    let claims = [
        Message::NeighbourAdvertisement(NeighbourAdvertisement {
            router: false,
            solicited: false,
            overrides: true,
            target: home().0,
            options: vec![],
        }),
        Message::NeighbourSolicitation(NeighbourSolicitation { target: home().0, options: vec![] }),
    ];
    for claim in claims {
        let mut bench = TestBed::at_home_link(config());
        bench.send(&Update::new(1, "2001:db8:1::100"));
        let (source, to) = match claim {
            Message::NeighbourSolicitation(_) => (Ipv6Addr::UNSPECIFIED, solicited_node(home().0)),
            _ => (home().0, ALL_NODES),
        };
        let outputs = bench.feed(from_neighbour(&claim, source, to));
        assert_eq!(status(&outputs), 134);
        assert!(
            reports(&outputs)
                .contains(&&Report::Link(LinkReport::DuplicateAddress { link: HOME_LINK, address: home().0 }))
        );
        assert!(bench.advance(Duration::from_secs(2)).is_empty() && bench.installed().is_empty());
    }
}

#[test]
fn update_during_dad_supersedes_the_former_one() {
    let mut bench = TestBed::at_home_link(config());
    bench.send(&Update::new(1, "2001:db8:1::100"));
    assert!(bench.send(&Update::new(2, "2001:db8:2::100")).is_empty());
    let done = bench.advance(Duration::from_secs(1));
    assert_eq!(bench.tunnel().unwrap().paths[0].remote, address("2001:db8:2::100"));
    assert!(matches!(reports(&done)[..], [Report::Nemo(NemoReport::Registered { sequence, .. })] if sequence.0 == 2));
}

/// Of the link-local address with the interface identifier of the home address.
const LINK_LOCAL: &str = "fe80::100";

fn compatible(sequence: u16, source: &str) -> Update {
    let update = Update::new(sequence, source);
    Update { flags: update.flags | UpdateFlags::LINK_LOCAL, ..update }
}

/// The targets of neighbour solicitations and advertisements.
fn targets(outputs: &[Output]) -> Vec<Ipv6Addr> {
    let target = |(_, _, message): &(Ipv6Addr, Ipv6Addr, Message)| match message {
        Message::NeighbourSolicitation(solicitation) => solicitation.target,
        Message::NeighbourAdvertisement(advertisement) => advertisement.target,
        other => panic!("{other:?}"),
    };
    messages(outputs).iter().map(target).collect()
}

#[test]
fn l_flag_proxies_link_local_address() {
    let mut bench = TestBed::at_home_link(config());
    let kept = [home().0, address(LINK_LOCAL)];
    let proxied = kept.map(|address| Key::ProxyNeighbour(HOME_LINK, address));
    let holds = |bench: &TestBed| proxied.clone().map(|key| bench.installed().contains(&key));
    assert_eq!(targets(&bench.send(&compatible(1, "2001:db8:1::100"))), kept, "both are checked (RFC 6275 §10.3.1)");
    assert_eq!(targets(&bench.advance(Duration::from_secs(1))), kept, "both are announced (§10.4.1)");
    assert_eq!(holds(&bench), [true, true]);
    let records = journal(&bench);
    bench.send(&Update::new(2, "2001:db8:1::100"));
    assert_eq!(holds(&bench), [true, false], "L=0");
    bench.send(&compatible(3, "2001:db8:1::100"));
    assert_eq!(holds(&bench), [true, true]);
    bench.send(&compatible(4, "2001:db8:1::100").lifetime(0));
    assert_eq!(holds(&bench), [false, false]);

    let mut after = TestBed::at_home_link(config());
    after.feed(Input::Command(Command::Lifecycle(LifecycleCommand::RestoreJournal(records))));
    assert_eq!(holds(&after), [true, true], "a restart restores both");
    after.advance(Duration::from_secs(100));
    assert_eq!(holds(&after), [false, false], "expired");
}

#[test]
fn duplicate_link_local_address_rejects_update() {
    let claim = Message::NeighbourAdvertisement(NeighbourAdvertisement {
        router: false,
        solicited: false,
        overrides: true,
        target: address(LINK_LOCAL),
        options: vec![],
    });
    let mut bench = TestBed::at_home_link(config());
    bench.send(&compatible(1, "2001:db8:1::100"));
    assert_eq!(status(&bench.feed(from_neighbour(&claim, address(LINK_LOCAL), ALL_NODES))), 134);
    assert!(bench.installed().is_empty());

    let own = AddressEvent { link: HOME_LINK, address: address(LINK_LOCAL), state: AddressState::Preferred };
    bench.feed(Input::Address(own));
    assert_eq!(status(&bench.send(&compatible(2, "2001:db8:1::100"))), 134, "the home agent's own");

    let mut config = HomeAgentConfig { duplicate_detection: false, ..config() };
    config.home_prefixes.push(prefix("2001:db8:77::/64"));
    let twin = PrefixTableRow {
        next_key: None,
        invitation: None,
        home_address: HomeAddress(address("2001:db8:77::100")),
        prefixes: [prefix("2001:db8:d00::/56")].into(),
        ..config.prefix_table.rows.iter().find(|row| row.home_address == home()).unwrap().clone()
    };
    let mut rows = config.prefix_table.rows.clone();
    rows.push(twin.clone());
    config.prefix_table = PrefixTable { rows }.into();
    let mut bench = TestBed::at_home_link(config);
    bench.send(&compatible(1, "2001:db8:1::100"));
    let update = Update { home: twin.home_address, ..compatible(1, "2001:db8:2::100") };
    assert_eq!(status(&bench.send(&update)), 134, "the address is proxied for another binding");
}

#[test]
fn dad_can_be_switched_off() {
    let mut bench = TestBed::at_home_link(HomeAgentConfig { duplicate_detection: false, ..config() });
    let outputs = bench.send(&Update::new(1, "2001:db8:1::100"));
    assert!(reports(&outputs).iter().any(|report| matches!(report, Report::Nemo(NemoReport::Registered { .. }))));
}

#[test]
fn home_link_that_appears_later_gets_proxy_entries() {
    let mut bench = TestBed::new(HomeAgentConfig { home_link: Some("home0".into()), ..config() });
    bench.send(&Update::new(1, "2001:db8:1::100"));
    let event = |link, name: &str| {
        Input::Link(LinkEvent { link: LinkId(link), name: name.into(), address: None, up: true, mtu: 1500 })
    };
    assert!(bench.feed(event(8, "other0")).is_empty());
    bench.feed(event(2, "home0"));
    assert!(bench.installed().contains(&Key::ProxyNeighbour(HOME_LINK, home().0)));
    bench.feed(event(5, "home0"));
    assert!(bench.installed().contains(&Key::ProxyNeighbour(LinkId(5), home().0)));
    assert!(!bench.installed().contains(&Key::ProxyNeighbour(HOME_LINK, home().0)), "the interface was created again");
}

#[test]
fn home_agent_ra_has_required_options() {
    let mut bench =
        TestBed::at_home_link(HomeAgentConfig { advertisement_interval: Some(Duration::from_secs(3)), ..config() });
    let mut advertisements = Vec::new();
    for _ in 0..10 {
        advertisements.extend(messages(&bench.advance(Duration::from_secs(3))));
    }
    assert!((9..=30).contains(&advertisements.len()), "{} in 30 s", advertisements.len());
    let (source, ALL_NODES, Message::RouterAdvertisement(advertisement)) = &advertisements[0] else { panic!() };
    assert_eq!(*source, address("fe80::ff:fe00:1"));
    assert!(advertisement.home_agent && advertisement.lifetime == 9);
    let information = NeighbourOption::HomeAgentInformation { router: true, preference: 10, lifetime: 9 };
    assert!(advertisement.options.contains(&information));
    assert!(advertisement.options.contains(&NeighbourOption::SourceLinkAddress(LinkAddress([2, 0, 0, 0, 0, 1]))));
    assert!(advertisement.options.iter().any(|option| matches!(option,
        NeighbourOption::PrefixInformation { address, router_address: true, .. } if *address == agent())));

    let host = address("fe80::9");
    let solicitation = Message::RouterSolicitation(RouterSolicitation::default());
    let answer = messages(&bench.feed(from_neighbour(&solicitation, host, address("ff02::2"))));
    assert!(matches!(answer[..], [(_, to, Message::RouterAdvertisement(_))] if to == host));
    let neighbour = LinkAddress([2, 0, 0, 0, 0, 9]);
    let options = vec![NeighbourOption::SourceLinkAddress(neighbour)];
    let solicitation = Message::RouterSolicitation(RouterSolicitation { options });
    let straight = Via::Neighbour { link: HOME_LINK, address: neighbour };
    let answers = (0..100).flat_map(|_| bench.feed(from_neighbour(&solicitation, host, address("ff02::2"))));
    let answers: Vec<Output> = answers.collect();
    assert!(sent(&answers).iter().all(|answer| answer.via == straight), "without neighbour discovery");
    assert!((1..=50).contains(&answers.len()), "{} answers to 100 solicitations", answers.len());
    let all = messages(&bench.advance(Duration::from_millis(500)));
    assert!(
        matches!(all[..], [(_, ALL_NODES, Message::RouterAdvertisement(_))]),
        "the other answers are one multicast RA"
    );
    let last = messages(&bench.feed(Input::Command(Command::Lifecycle(LifecycleCommand::Stop))));
    assert!(matches!(&last[..], [(_, ALL_NODES, Message::RouterAdvertisement(last))] if last.lifetime == 0));
    assert!(bench.advance(Duration::from_secs(60)).is_empty());
}
