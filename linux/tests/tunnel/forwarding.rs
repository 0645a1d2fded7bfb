//! Forwarding by a tunnel: both directions, sizes, hop limits, bulk TCP, spoofed sources, nested tunnels.

use crate::testbed::{CN, COA, HA, HOME, MNN, OTHER_MNN, arrives, is_dropped};
use crate::testbed_or_skip;
use nix::sys::socket::{AddressFamily, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType};
use nix::sys::socket::{recv, recvfrom, setsockopt, socket, sockopt};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Instant;

#[test]
fn packets_pass_both_ways_by_slow_and_fast_path() {
    let mut testbed = testbed_or_skip!("packets_pass_both_ways_by_slow_and_fast_path");
    let (cn, mnn) = (testbed.cn.udp(&format!("[{CN}]:5000")), testbed.mnn.udp(&format!("[{MNN}]:5000")));
    for _ in 0..20 {
        assert!(arrives(&cn, &mnn, 1000));
        assert!(arrives(&mnn, &cn, 1000));
    }
    for side in [&mut testbed.ha, &mut testbed.mr] {
        assert!(side.count("encapsulated") >= 15, "the fast path takes nearly all");
        assert!(side.count("encapsulated_slow") >= 1, "the first needs neighbour discovery");
        assert_eq!(side.count("decapsulated"), 20);
    }
}

#[test]
fn routers_own_packets_use_the_tunnel() {
    let testbed = testbed_or_skip!("routers_own_packets_use_the_tunnel");
    let (cn, home) = (testbed.cn.udp(&format!("[{CN}]:5000")), testbed.mr.host.udp(&format!("[{HOME}]:5000")));
    let (ha, mnn) = (testbed.ha.host.udp(&format!("[{HA}]:5000")), testbed.mnn.udp(&format!("[{MNN}]:5000")));
    for (a, b) in [(&cn, &home), (&home, &cn), (&ha, &mnn), (&mnn, &ha), (&ha, &home), (&home, &ha)] {
        assert!(arrives(a, b, 500), "{a:?} to {b:?}");
    }
}

#[test]
fn packet_too_big_reports_the_tunnel_mtu() {
    let testbed = testbed_or_skip!("packet_too_big_reports_the_tunnel_mtu");
    let (cn, mnn) = (testbed.cn.udp(&format!("[{CN}]:5000")), testbed.mnn.udp(&format!("[{MNN}]:5000")));
    for (from, to, host, other) in [(&cn, &mnn, &testbed.cn, MNN), (&mnn, &cn, &testbed.mnn, CN)] {
        assert!(arrives(from, to, 1412), "1460 octets fit");
        assert!(is_dropped(from, to, 1413), "1461 do not");
        assert!(host.ip(&format!("route get {other}")).contains("mtu 1460"));
        assert!(arrives(from, to, 1413), "in fragments they do");
    }
}

#[test]
fn expired_hop_limit_is_answered_by_each_router() {
    let testbed = testbed_or_skip!("expired_hop_limit_is_answered_by_each_router");
    let (cn, mnn) = (testbed.cn.udp(&format!("[{CN}]:5000")), testbed.mnn.udp(&format!("[{MNN}]:5000")));
    assert!(arrives(&cn, &mnn, 10) && arrives(&cn, &mnn, 10));
    let errors = testbed.cn.enter(icmp6).unwrap();
    for (limit, reaches) in [(1, false), (2, false), (3, true)] {
        setsockopt(&cn, sockopt::Ipv6Ttl, &limit).unwrap();
        let as_expected = if reaches { arrives } else { is_dropped };
        assert!(as_expected(&cn, &mnn, 10), "hop limit {limit}: the tunnel is one hop");
        let mut buffer = [0; 2048];
        let mut exceeded = false;
        while recv(errors.as_raw_fd(), &mut buffer, MsgFlags::empty()).is_ok() {
            exceeded |= buffer[0] == 3;
        }
        assert_eq!(exceeded, !reaches, "hop limit {limit}: Time Exceeded comes back");
    }
}

fn icmp6() -> nix::Result<OwnedFd> {
    socket(AddressFamily::Inet6, SockType::Raw, SockFlag::SOCK_NONBLOCK, SockProtocol::IcmpV6)
}

#[test]
fn bulk_tcp_keeps_gso_buffers_both_ways() {
    let mut testbed = testbed_or_skip!("bulk_tcp_keeps_gso_buffers_both_ways");
    let listener = testbed.mnn.enter(|| TcpListener::bind(format!("[{MNN}]:6000"))).unwrap();
    let client = testbed.cn.enter(|| TcpStream::connect(format!("[{MNN}]:6000"))).unwrap();
    let (server, _) = listener.accept().unwrap();
    const OCTETS: usize = 64 << 20;
    let down = bulk(&client, &server, OCTETS);
    let (enters, leaves) = (testbed.ha.count("encapsulated"), testbed.mr.count("decapsulated"));
    let up = bulk(&server, &client, OCTETS);
    println!("TCP: {down:.1} Gbit/s down, {up:.1} up; {} octets a buffer", OCTETS as u64 / enters.max(1));
    assert!(OCTETS as u64 / (enters + testbed.ha.count("encapsulated_slow")) > 8000, "large buffers stay large");
    assert!(OCTETS as u64 / leaves > 8000);
}

/// Sends so many octets and waits until all have arrived; returns gigabits a second.
fn bulk(mut from: &TcpStream, mut to: &TcpStream, octets: usize) -> f64 {
    let begin = Instant::now();
    let pattern: Vec<u8> = (0..1 << 16).map(|i| i as u8).collect();
    let chunks = octets / pattern.len();
    std::thread::scope(|scope| {
        scope.spawn(|| (0..chunks).for_each(|_| from.write_all(&pattern).unwrap()));
        let mut chunk = vec![0; pattern.len()];
        for _ in 0..chunks {
            to.read_exact(&mut chunk).unwrap();
            assert!(chunk == pattern);
        }
    });
    octets as f64 * 8.0 / begin.elapsed().as_secs_f64() / 1e9
}

#[test]
fn only_registered_prefixes_may_use_the_tunnel() {
    let mut testbed = testbed_or_skip!("only_registered_prefixes_may_use_the_tunnel");
    let (cn, mnn) = (testbed.cn.udp(&format!("[{CN}]:5000")), testbed.mnn.udp(&format!("[{MNN}]:5000")));
    assert!(arrives(&mnn, &cn, 10));
    // The binding moves at the home agent only: the mobile router's packets come from a stranger now.
    testbed.ha.put(&crate::testbed::at_home_agent(1, (HOME, crate::testbed::MNP), &[("2001:db8:2::99", 1, 1)]));
    assert!(is_dropped(&mnn, &cn, 10));
    assert_eq!(testbed.ha.count("dropped_source"), 1);
    testbed.bind(&[(COA, 1, 1)]);
    // A node behind the mobile router with an address that is not the mobile network's.
    let mut foreign = testbed.at_mobile_router(&[(COA, 1, 1)]);
    foreign.local_prefixes.push("2001:db8:bad::/48".parse().unwrap());
    testbed.mr.put(&foreign);
    testbed.mnn.ip("address add 2001:db8:bad::1/128 dev mnn0 nodad");
    testbed.mr.host.ip("route add 2001:db8:bad::/48 dev mr0");
    testbed.mr.host.ip("rule add from 2001:db8:bad::/48 lookup 10 pref 100");
    let liar: UdpSocket = testbed.mnn.udp("[2001:db8:bad::1]:5000");
    assert!(is_dropped(&liar, &cn, 10));
    assert_eq!(testbed.ha.count("dropped_source"), 2);
    assert!(arrives(&mnn, &cn, 10));
}

#[test]
fn mobile_networks_reach_each_other_by_the_home_agent() {
    let mut testbed = testbed_or_skip!("mobile_networks_reach_each_other_by_the_home_agent");
    let (_other, node) = testbed.second_router(false);
    let (a, b) = (testbed.mnn.udp(&format!("[{MNN}]:5000")), node.udp(&format!("[{OTHER_MNN}]:5000")));
    for _ in 0..20 {
        assert!(arrives(&a, &b, 1000) && arrives(&b, &a, 1000));
    }
    assert!(testbed.ha.count("hairpinned") >= 30);
}

#[test]
fn nested_mobile_router_is_reached() {
    let mut testbed = testbed_or_skip!("nested_mobile_router_is_reached");
    let (mut other, node) = testbed.second_router(true);
    let (cn, mnn) = (testbed.cn.udp(&format!("[{CN}]:5000")), node.udp(&format!("[{OTHER_MNN}]:5000")));
    for _ in 0..10 {
        assert!(arrives(&cn, &mnn, 1000) && arrives(&mnn, &cn, 1000));
    }
    for (from, to, host, far) in [(&cn, &mnn, &testbed.cn, OTHER_MNN), (&mnn, &cn, &node, CN)] {
        assert!(arrives(from, to, 1372), "1420 octets fit into two tunnels");
        assert!(is_dropped(from, to, 1373));
        assert!(host.ip(&format!("route get {far}")).contains("mtu 1420"));
        assert!(arrives(from, to, 1373));
    }
    let listener = node.enter(|| TcpListener::bind(format!("[{OTHER_MNN}]:6000"))).unwrap();
    let client = testbed.cn.enter(|| TcpStream::connect(format!("[{OTHER_MNN}]:6000"))).unwrap();
    let (server, _) = listener.accept().unwrap();
    let (down, up) = (bulk(&client, &server, 16 << 20), bulk(&server, &client, 16 << 20));
    println!("TCP in two tunnels: {down:.1} Gbit/s down, {up:.1} up");
    assert!(other.count("encapsulated") > 0);
}

/// Fragments on an interface while `act` runs.
fn fragments(host: &crate::netns_host::Host, interface: &str, act: impl FnOnce()) -> usize {
    let family = AddressFamily::Packet;
    let protocol = SockProtocol::EthAll;
    let tap = host.enter(|| socket(family, SockType::Datagram, SockFlag::SOCK_NONBLOCK, protocol)).unwrap();
    let index = host.index(interface);
    act();
    let mut buffer = [0; 2048];
    let mut seen = 0;
    while let Ok((length, from)) = recvfrom::<LinkAddr>(tap.as_raw_fd(), &mut buffer) {
        let here = from.is_some_and(|from| from.ifindex() == index as usize);
        assert!(!here || length <= 1280, "{length} octets do not pass");
        seen += usize::from(here && buffer[6] == 44);
    }
    seen
}

#[test]
fn path_of_minimum_mtu_carries_inner_packets_in_fragments() {
    let mut testbed = testbed_or_skip!("path_of_minimum_mtu_carries_inner_packets_in_fragments");
    for (host, link) in [(&testbed.core, "core1"), (&testbed.mr.host, "mr1")] {
        host.ip(&format!("link set {link} mtu 1280"));
    }
    testbed.bind_at(1240);
    let (cn, mnn) = (testbed.cn.udp(&format!("[{CN}]:5000")), testbed.mnn.udp(&format!("[{MNN}]:5000")));
    // One that fits, two in two pieces, and one that the sender itself must cut.
    for (octets, pieces) in [(1192, 0), (1193, 2), (1232, 2), (1233, 2)] {
        for (from, to) in [(&cn, &mnn), (&mnn, &cn)] {
            let (mut first, mut count) = (false, 0);
            let sending = || first = !is_dropped(from, to, octets) || arrives(from, to, octets);
            count += fragments(&testbed.core, "core1", sending);
            assert!(first, "{octets} octets of payload arrive");
            assert!(count >= pieces, "{octets} octets: {count} fragments");
        }
    }
    for side in [&mut testbed.ha, &mut testbed.mr] {
        assert!(side.count("fragmented") >= 2 && side.count("decapsulated") >= 4);
    }
    let listener = testbed.mnn.enter(|| TcpListener::bind(format!("[{MNN}]:6000"))).unwrap();
    let client = testbed.cn.enter(|| TcpStream::connect(format!("[{MNN}]:6000"))).unwrap();
    let (server, _) = listener.accept().unwrap();
    let (down, up) = (bulk(&client, &server, 1 << 20), bulk(&server, &client, 1 << 20));
    println!("TCP in fragments: {down:.2} Gbit/s down, {up:.2} up");
    // Retransmissions of the connection have ended.
    std::thread::sleep(std::time::Duration::from_millis(300));
    // A stranger gains nothing by fragments.
    testbed.ha.put(&crate::testbed::at_home_agent(1, (HOME, crate::testbed::MNP), &[("2001:db8:2::99", 1, 1)]));
    assert!(is_dropped(&mnn, &cn, 1232));
    assert_eq!(testbed.ha.count("dropped_source"), 1);
}
