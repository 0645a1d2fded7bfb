//! Packets, announcements and the suppression of the kernel's ICMP errors, between two hosts in network namespaces.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

mod netns;

use netns::{Capture, Namespace, await_own, host, link, listen, put, run};
use roam6_linux::Host;
use roam6_proto::contract::input::{AddressState, NeighbourEvent};
use roam6_proto::contract::item::{Address, NextHop, ProxyNeighbour, Route, RouteTable, Sysctl, SysctlSetting};
use roam6_proto::{Input, Item, LinkEvent, LinkId, Output, Packet, Transmit, Via};
use roam6_wire::Prefix;
use std::net::Ipv6Addr;
use std::time::Duration;

/// How long nothing more has to arrive for a test to go on.
const SOON: Duration = Duration::from_millis(100);
/// How long a test waits for what has to arrive.
const TIMEOUT: Duration = Duration::from_secs(20);
/// An address that no host has.
const FOREIGN: &str = "2001:db8:ffff::7";

fn address(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

fn on_link(link: LinkId, text: &str) -> Item {
    Item::Address(Address { link, address: address(text), prefix_length: 64, preferred: true, dad: false })
}

/// An IPv6 packet; the extension headers get their next header fields here.
fn packet(source: &str, destination: &str, chain: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let length: usize = chain.iter().map(|(_, bytes)| bytes.len()).sum();
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend(u16::try_from(length).unwrap().to_be_bytes());
    packet.extend([0, 64]);
    packet.extend(address(source).octets());
    packet.extend(address(destination).octets());
    let mut next = 6;
    for (protocol, bytes) in chain {
        packet[next] = *protocol;
        next = packet.len();
        packet.extend(bytes);
    }
    packet
}

/// A mobility header: a Binding Update with a valid form only.
fn mobility() -> (u8, Vec<u8>) {
    (135, vec![59, 1, 5, 0, 0, 0, 0, 1, 0xc0, 0, 0, 10, 1, 2, 0, 0])
}

/// Destination options with a home address.
fn home_address() -> (u8, Vec<u8>) {
    let mut header = vec![0, 2, 1, 2, 0, 0, 201, 16];
    header.extend(address("2001:db8:1::5").octets());
    (60, header)
}

/// A routing header of type 2.
fn routing() -> (u8, Vec<u8>) {
    let mut header = vec![0, 2, 2, 1, 0, 0, 0, 0];
    header.extend(address("2001:db8:1::5").octets());
    (43, header)
}

/// All inputs until `is_complete`, and those that follow soon: a busy machine may deliver even the first late.
fn listen_until(host: &mut Host, is_complete: impl Fn(&[Input]) -> bool) -> Vec<Input> {
    let deadline = host.now() + TIMEOUT;
    let mut inputs = listen(host, SOON);
    while !is_complete(&inputs) && host.now() < deadline {
        inputs.extend(listen(host, SOON));
    }
    inputs
}

/// The packets received until all those of `expected` are among them, and those that follow soon.
fn receive(host: &mut Host, expected: &[Vec<u8>]) -> Vec<Packet> {
    let is_received = |inputs: &[Input], bytes: &Vec<u8>| {
        inputs.iter().any(|input| matches!(input, Input::Packet(packet) if packet.bytes == *bytes))
    };
    packets(listen_until(host, |inputs| expected.iter().all(|bytes| is_received(inputs, bytes))))
}

fn packets(inputs: Vec<Input>) -> Vec<Packet> {
    let packets = inputs.into_iter().filter_map(|input| match input {
        Input::Packet(packet) => Some(packet),
        _ => None,
    });
    packets.collect()
}

/// ICMPv6 errors among `packets`.
fn errors(packets: &[Vec<u8>]) -> usize {
    packets.iter().filter(|packet| packet[6] == 58 && (1..=4).contains(&packet[40])).count()
}

/// Two hosts with an address each, `2001:db8::1` here and `2001:db8::2` there, and their interfaces.
struct Two {
    here: Namespace,
    there: Namespace,
    near: Host,
    far: Host,
    near_link: LinkEvent,
    far_link: LinkEvent,
    _directories: [tempfile::TempDir; 2],
}

impl Two {
    /// This thread ends up in the namespace of `near`.
    fn new(test: &str) -> Option<Two> {
        let (here, there) = Namespace::pair(test)?;
        let directories = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        there.enter();
        let mut far = host(&directories[1], &["there0"], None);
        let far_link = link(&mut far, "there0");
        put(&mut far, &[on_link(far_link.link, "2001:db8::2")]);
        await_own("2001:db8::2");
        here.enter();
        let mut near = host(&directories[0], &["here0"], None);
        let near_link = link(&mut near, "here0");
        put(&mut near, &[on_link(near_link.link, "2001:db8::1")]);
        await_own("2001:db8::1");
        listen(&mut near, SOON);
        listen(&mut far, SOON);
        Some(Two { here, there, near, far, near_link, far_link, _directories: directories })
    }

    /// Sends from `far`, in whose namespace the sockets are opened.
    fn send(&mut self, via: Via, bytes: &[u8]) {
        self.there.enter();
        let transmit = Transmit { via, bytes: bytes.to_vec() };
        let outcomes = self.far.execute([Output::Transmit(transmit)], |report| panic!("{report:?}"));
        assert!(outcomes.is_empty());
        self.here.enter();
    }
}

#[test]
fn mobility_messages_arrive_and_kernel_icmp_errors_are_suppressed() {
    let Some(mut two) = Two::new("mobility_messages_arrive_and_kernel_icmp_errors_are_suppressed") else {
        return;
    };
    // Errors need a route back, or their absence proves nothing.
    run("ip -6 route add 2001:db8:ffff::/48 via 2001:db8::2");
    two.there.enter();
    let capture = Capture::begin();
    two.here.enter();
    let mps = (58, vec![146, 0, 0, 0, 0, 1, 0, 0]);
    let esp = (50, vec![0, 0, 16, 0, 0, 0, 0, 1, 1, 2, 2, 135]);
    let sent = [
        packet(FOREIGN, "2001:db8::1", &[mobility()]),
        packet(FOREIGN, "2001:db8::1", &[home_address(), mobility()]),
        packet(FOREIGN, "2001:db8::1", &[routing(), mobility()]),
        packet(FOREIGN, "2001:db8::1", &[home_address(), mps]),
        packet(FOREIGN, "2001:db8::1", &[home_address(), esp.clone()]),
        packet(FOREIGN, "2001:db8::1", &[routing(), esp]),
    ];
    let (link, neighbour) = (two.far_link.link, two.near_link.address.unwrap());
    for via in [Via::Route, Via::Link(link), Via::Neighbour { link, address: neighbour }] {
        for bytes in &sent {
            two.send(via, bytes);
        }
        let mut received = receive(&mut two.near, &sent);
        received.retain(|packet| packet.bytes[8..24] == address(FOREIGN).octets());
        let bytes: Vec<&Vec<u8>> = received.iter().map(|packet| &packet.bytes).collect();
        assert_eq!(bytes, sent.iter().collect::<Vec<_>>(), "{via:?}");
        let from = |packet: &Packet| packet.link == two.near_link.link && packet.sender == two.far_link.address;
        assert!(received.iter().all(from), "{received:?}");
    }
    assert_eq!(errors(&capture.take()), 0);

    // Without us the kernel would answer, so the silence above is ours.
    run("nft delete table ip6 roam6");
    two.send(Via::Route, &sent[1]);
    assert!(receive(&mut two.near, &sent[1..2]).iter().any(|packet| packet.bytes == sent[1]));
    assert_ne!(errors(&capture.take()), 0);

    // By now the near host has received the announcement.
    two.send(Via::Route, &sent[1]);
    assert!(receive(&mut two.near, &sent[1..2]).iter().any(|packet| packet.bytes == sent[1]));
    assert_eq!(errors(&capture.take()), 0);
}

#[test]
fn plain_esp_is_left_to_the_kernel_unless_requested() {
    let Some(mut two) = Two::new("plain_esp_is_left_to_the_kernel_unless_requested") else { return };
    let sent = packet("2001:db8::2", "2001:db8::1", &[(50, vec![0, 0, 16, 0, 0, 0, 0, 1, 1, 2, 2, 135])]);
    for wanted in [false, true, false] {
        two.near.receive_plain_esp(wanted).unwrap();
        two.send(Via::Route, &sent);
        let expected = if wanted { std::slice::from_ref(&sent) } else { &[] };
        let received = receive(&mut two.near, expected).iter().any(|packet| packet.bytes == sent);
        assert_eq!(received, wanted);
    }
}

#[test]
fn forwarded_mobility_messages_are_left_alone() {
    let Some(mut two) = Two::new("forwarded_mobility_messages_are_left_alone") else { return };
    run("sysctl -qw net.ipv6.conf.all.forwarding=1; ip -6 route add 2001:db8:9::/48 via 2001:db8::2");
    two.there.enter();
    run("ip -6 route add 2001:db8:9::/48 via 2001:db8::1; ip -6 addr add 2001:db8:9::9/128 dev lo");
    let capture = Capture::begin();
    let through = packet("2001:db8::2", "2001:db8:9::8", &[home_address(), mobility()]);
    two.send(Via::Route, &through);
    two.here.enter();
    let forwarded = |packet: &&Vec<u8>| packet[6] == 60 && packet[24..40] == address("2001:db8:9::8").octets();
    let mut hop_limits: Vec<u8> = Vec::new();
    let deadline = two.near.now() + TIMEOUT;
    while hop_limits.len() < 2 && two.near.now() < deadline {
        listen(&mut two.near, SOON);
        hop_limits.extend(capture.take().iter().filter(forwarded).map(|packet| packet[7]));
    }
    assert_eq!(hop_limits[..2], [64, 63], "sent, and forwarded back by the other host");
}

#[test]
fn multicast_and_dad_probes_of_unassigned_addresses_are_received() {
    let Some(mut two) = Two::new("multicast_and_dad_probes_of_unassigned_addresses_are_received") else { return };
    let solicitation = |target: &str| {
        let mut body = vec![135, 0, 0, 0, 0, 0, 0, 0];
        body.extend(address(target).octets());
        (58, body)
    };
    let group = "ff02::1:ff12:3456";
    let probe = packet("::", group, &[solicitation("2001:db8::12:3456")]);
    let router = packet("fe80::1", "ff02::2", &[(58, vec![133, 0, 0, 0, 0, 0, 0, 0])]);
    for bytes in [&probe, &router] {
        two.send(Via::Link(two.far_link.link), bytes);
    }
    let received = receive(&mut two.near, &[probe.clone(), router.clone()]);
    let received: Vec<Vec<u8>> = received.into_iter().map(|packet| packet.bytes).collect();
    assert!(received.contains(&probe) && received.contains(&router), "{received:?}");
}

#[test]
fn icmp_errors_are_received_only_for_own_addresses() {
    let Some(mut two) = Two::new("icmp_errors_are_received_only_for_own_addresses") else { return };
    let reply = |destination| packet("2001:db8::2", destination, &[(58, vec![129, 0, 0, 0, 0, 7, 0, 1])]);
    let (link, neighbour) = (two.far_link.link, two.near_link.address.unwrap());
    for destination in ["2001:db8::1", "2001:db8:5::1"] {
        two.send(Via::Neighbour { link, address: neighbour }, &reply(destination));
    }
    let received = receive(&mut two.near, &[reply("2001:db8::1")]);
    let replies: Vec<&Vec<u8>> = received.iter().map(|packet| &packet.bytes).filter(|bytes| bytes[40] == 129).collect();
    assert_eq!(replies, [&reply("2001:db8::1")]);
}

#[test]
fn packet_without_a_route_is_retried_until_there_is_one() {
    let Some(mut two) = Two::new("packet_without_a_route_is_retried_until_there_is_one") else { return };
    let update = packet("2001:db8::2", "2001:db8:7::1", &[mobility()]);
    let link = two.far_link.link;
    two.send(Via::Link(link), &update);
    two.there.enter();
    let (table, destination, source) = (RouteTable::MAIN, "2001:db8:7::/64".parse().unwrap(), Prefix::ALL);
    let target = NextHop::Gateway { link, router: address("2001:db8::1") };
    put(&mut two.far, &[Item::Route(Route { table, destination, source, metric: 512, target, mtu: None })]);
    listen(&mut two.far, SOON * 4);
    two.here.enter();
    let received = receive(&mut two.near, std::slice::from_ref(&update));
    assert!(received.iter().any(|packet| packet.bytes == update), "{received:?}");
}

/// The kernel makes no entry for the router, and refuses the packet with EINVAL.
#[test]
fn packet_leaves_while_the_neighbour_table_of_the_machine_is_full() {
    let test = "packet_leaves_while_the_neighbour_table_of_the_machine_is_full";
    if std::env::var_os("ROAM6_OWN_MACHINE").is_none() {
        return println!("skipped: {test}: other namespaces of this machine use the table");
    }
    let Some(mut two) = Two::new(test) else { return };
    let (link, router) = (two.far_link.link, "fe80::77");
    two.there.enter();
    let (table, destination, source) = (RouteTable::MAIN, "2001:db8:7::/64".parse().unwrap(), Prefix::ALL);
    let target = NextHop::Gateway { link, router: address(router) };
    put(&mut two.far, &[Item::Route(Route { table, destination, source, metric: 512, target, mtu: None })]);
    two.here.enter();
    let mut advertisement =
        packet(router, "ff02::1", &[(58, vec![134, 0, 0, 0, 64, 0, 0, 30, 0, 0, 0, 0, 0, 0, 0, 0])]);
    advertisement[7] = 255;
    let transmit = Transmit { via: Via::Link(two.near_link.link), bytes: advertisement.clone() };
    two.near.execute([Output::Transmit(transmit)], |report| panic!("{report:?}"));
    two.there.enter();
    let received = receive(&mut two.far, std::slice::from_ref(&advertisement));
    assert!(received.iter().any(|packet| packet.bytes == advertisement), "{received:?}");
    // None of these expires for some seconds.
    let entries = (0..1100)
        .map(|last| format!("neigh add 2001:db8:5::{last:x} lladdr 02:00:00:00:00:05 nud reachable dev there0\n"));
    let directory = tempfile::tempdir().unwrap();
    let batch = directory.path().join("entries");
    std::fs::write(&batch, entries.collect::<String>()).unwrap();
    run(&format!("ip -6 -force -batch {} 2>/dev/null || true", batch.display()));
    two.here.enter();
    let update = packet("2001:db8::2", "2001:db8:7::1", &[mobility()]);
    two.send(Via::Link(link), &update);
    let received = receive(&mut two.near, std::slice::from_ref(&update));
    assert!(received.iter().any(|packet| packet.bytes == update), "{received:?}");
    two.there.enter();
    run(&format!("ip -6 neighbour show {router} dev there0 | grep -q extern_learn"));
}

#[test]
fn nd_proxy_answers_with_the_requested_router_flag() {
    let Some(mut two) = Two::new("nd_proxy_answers_with_the_requested_router_flag") else { return };
    let link = two.near_link.link;
    put(&mut two.near, &[Item::Sysctl(SysctlSetting { link: Some(link), sysctl: Sysctl::Forwarding, value: 1 })]);
    for (last, router) in [("2001:db8::a", true), ("2001:db8::b", false), ("2001:db8::a", false)] {
        put(&mut two.near, &[Item::ProxyNeighbour(ProxyNeighbour { link, address: address(last), router })]);
        two.there.enter();
        run("ip -6 neigh flush dev there0");
        let capture = Capture::begin();
        let began = two.near.now();
        let is_advertisement =
            |packet: &Vec<u8>| packet[6] == 58 && packet[40] == 136 && packet[48..64] == address(last).octets();
        let mut advertisements: Vec<Vec<u8>> = Vec::new();
        while advertisements.is_empty() && two.near.now().since(began) < TIMEOUT {
            run(&format!("ping -6 -c1 -W1 {last} >/dev/null || true"));
            advertisements.extend(capture.take().into_iter().filter(is_advertisement));
        }
        println!("{last}: ping over after {:?}", two.near.now().since(began));
        two.here.enter();
        assert!(!advertisements.is_empty(), "{last} is answered for");
        assert!(advertisements.iter().all(|packet| (packet[44] & 0x80 != 0) == router), "{advertisements:?}");
    }
}

#[test]
fn netlink_announces_interfaces_addresses_and_neighbours() {
    let Some(mut two) = Two::new("netlink_announces_interfaces_addresses_and_neighbours") else { return };
    let link = two.near_link.link;
    for up in [false, true, false, true] {
        let began = two.near.now();
        two.there.enter();
        run(if up { "ip link set there0 up" } else { "ip link set there0 down" });
        two.here.enter();
        let commanded = two.near.now().since(began);
        let event = loop {
            let found = listen(&mut two.near, Duration::from_millis(1)).into_iter().find_map(|input| match input {
                Input::Link(event) if event.up == up => Some(event),
                _ => None,
            });
            if let Some(event) = found {
                break event;
            }
            assert!(two.near.now().since(began) < TIMEOUT, "no announcement");
        };
        println!(
            "carrier {}: announced {:?} after the command, which took {commanded:?}",
            event.up,
            two.near.now().since(began)
        );
        assert_eq!(event, LinkEvent { up, ..two.near_link.clone() });
    }
    for (command, expected) in [("add", AddressState::Preferred), ("del", AddressState::Removed)] {
        run(&format!("ip -6 addr {command} 2001:db8::99/64 dev here0 nodad"));
        let is_announcement = |input: &Input| match input {
            Input::Address(event) => event.address == address("2001:db8::99") && event.state == expected,
            _ => false,
        };
        // The kernel announces a new one from a work queue.
        let until = two.near.now() + Duration::from_secs(20);
        while !listen(&mut two.near, Duration::from_millis(10)).iter().any(is_announcement) {
            assert!(two.near.now() < until, "{expected:?}");
        }
    }

    run("ip -6 neigh replace 2001:db8::77 lladdr 02:00:00:00:00:77 dev here0 nud reachable; \
         ip -6 neigh change 2001:db8::77 dev here0 nud failed");
    let reachable = |inputs: &[Input]| -> Vec<bool> {
        let states = inputs.iter().filter_map(|input| match input {
            Input::Neighbour(NeighbourEvent { address: at, reachable, .. }) if *at == address("2001:db8::77") => {
                Some(*reachable)
            }
            _ => None,
        });
        states.collect()
    };
    let inputs = listen_until(&mut two.near, |inputs| reachable(inputs).len() >= 2);
    assert_eq!(reachable(&inputs), [true, false]);

    run("ip link del here0");
    let is_down = |input: &Input| matches!(input, Input::Link(event) if !event.up);
    let inputs = listen_until(&mut two.near, |inputs| inputs.iter().any(is_down));
    let last = inputs.into_iter().rev().find_map(|input| match input {
        Input::Link(event) => Some(event),
        _ => None,
    });
    assert_eq!(last, Some(LinkEvent { up: false, ..two.near_link }));
    assert_ne!(link, LinkId(0));
}

#[test]
fn tick_comes_at_its_time() {
    let Some(mut two) = Two::new("tick_comes_at_its_time") else { return };
    let until = two.near.now() + Duration::from_micros(3_300);
    let mut ticked = false;
    while !ticked {
        let wakes = two.near.wait(Some(until)).unwrap();
        ticked =
            wakes.iter().any(|wake| matches!(wake, roam6_linux::HostEvent::Input(at, Input::Tick) if *at >= until));
    }
    println!("late by {:?}", two.near.now().since(until));
}

#[test]
fn netlink_overrun_is_followed_by_a_resynchronisation() {
    let Some(mut two) = Two::new("netlink_overrun_is_followed_by_a_resynchronisation") else { return };
    // A burst without a subscriber, followed by two events that the engines need.
    let burst: String = (1..=20_000)
        .map(|number| format!("neigh replace 2001:db8:1::{number:x} lladdr 02:00:00:00:00:01 dev here0\n"))
        .collect();
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("burst"), burst).unwrap();
    run(&format!(
        "ip -6 -batch {}/burst; ip -6 addr del 2001:db8::1/64 dev here0; ip -6 route add default via fe80::1 dev here0",
        directory.path().display()
    ));
    let (mut lost, mut gone, mut routed) = (false, false, false);
    let until = two.near.now() + Duration::from_secs(20);
    while !(gone && routed) && two.near.now() < until {
        for wake in two.near.wait(Some(until)).unwrap() {
            match wake {
                roam6_linux::HostEvent::Report(roam6_proto::Report::Host(
                    roam6_proto::contract::report::HostReport::Notice { text },
                )) => lost |= text.contains("resynchronising"),
                roam6_linux::HostEvent::Input(_, Input::Address(event)) => gone |= event.state == AddressState::Removed,
                roam6_linux::HostEvent::Input(_, Input::Route(event)) => routed |= event.router == address("fe80::1"),
                _ => {}
            }
        }
    }
    assert!(lost, "the burst was too small to prove anything");
    assert!(gone && routed, "{gone} {routed}");
}
