//! The relay between the real daemons: one TCP connection over all uplinks, and what hosts notice of it (docs/bonding.md).

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails at the assertion"
)]

mod bed;
mod refusals;
mod restarts;
mod segments;
mod semantics;
#[path = "../testbed/mod.rs"]
mod testbed;

use bed::{Bed, NODE, PATIENCE, SERVER, Settings, expect, octets_from, read_to_end, reset, send_all};
use nix::libc;
use std::io::{ErrorKind, Read};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;
use testbed::wait_or_report;

#[test]
fn hosts_notice_no_relay() {
    let test = "hosts_notice_no_relay";
    let Some(bed) = Bed::new(test) else { return println!("skipped: {test}") };

    // Both ends see each other's own addresses, and the connection uses both uplinks.
    let (node, server) = bed.connect(6001);
    assert_eq!(server.peer_addr().unwrap(), node.local_addr().unwrap());
    assert_eq!(node.peer_addr().unwrap(), server.local_addr().unwrap());
    send_all(&node, b"question");
    expect(&server, b"question");
    send_all(&server, b"answer");
    expect(&node, b"answer");
    bed.await_subflows(2);

    // A half-closed connection still carries the other direction.
    node.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_to_end(&server), b"");
    send_all(&server, b"later");
    drop(server);
    assert_eq!(read_to_end(&node), b"later");

    // The server may speak first, and end first; FIN may come with data.
    let (node, server) = bed.connect(6002);
    send_all(&server, b"banner");
    server.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_to_end(&node), b"banner");
    send_all(&node, b"x");
    drop(node);
    assert_eq!(read_to_end(&server), b"x");

    // Much data arrives unchanged in both directions at once.
    let (node, server) = bed.connect(6003);
    let data = octets_from(0, 8_000_000);
    std::thread::scope(|scope| {
        for (from, to) in [(&node, &server), (&server, &node)] {
            scope.spawn(|| {
                send_all(from, &data);
                from.shutdown(Shutdown::Write).unwrap();
            });
            scope.spawn(|| assert!(read_to_end(to) == data));
        }
    });

    // A reset by either end reaches the other.
    for node_resets in [true, false] {
        let (node, server) = bed.connect(6004 + u16::from(node_resets));
        send_all(&node, b"x");
        expect(&server, b"x");
        let (resets, mut survivor) = if node_resets { (node, server) } else { (server, node) };
        reset(resets);
        let error = survivor.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "node resets: {node_resets}");
    }
    for who in ["mr", "ha"] {
        let metric = |name: &str| bed.metric(who, name).unwrap_or(u64::MAX);
        assert_eq!(metric("roam6_relay_up"), 1, "{who}");
        assert_eq!(metric("roam6_relay_connections_total"), 5, "{who}");
        for direction in ["sent", "received"] {
            let octets = metric(&format!("roam6_relay_bytes_total{{direction=\"{direction}\"}}"));
            assert!((8_000_000..8_001_000).contains(&octets), "{who}: {octets} octets {direction}");
        }
    }
}

#[test]
fn a_connection_from_outside_is_relayed_too() {
    let test = "a_connection_from_outside_is_relayed_too";
    let Some(bed) = Bed::new(test) else { return println!("skipped: {test}") };
    let listener = bed.testbed.node.enter(|| TcpListener::bind("[::]:7001").unwrap());
    let to: SocketAddr = format!("[{NODE}]:7001").parse().unwrap();
    let server = bed.server.enter(|| TcpStream::connect_timeout(&to, PATIENCE));
    let server = server.unwrap_or_else(|error| panic!("{error}: {}", bed.testbed.logs()));
    let (node, from) = listener.accept().unwrap();
    assert_eq!(from, server.local_addr().unwrap());
    send_all(&server, b"from outside");
    expect(&node, b"from outside");
    send_all(&node, b"from inside");
    expect(&server, b"from inside");
    assert_eq!(bed.flows()["flows"].as_array().map_or(0, Vec::len), 1, "{}", bed.flows());
    let closed: SocketAddr = format!("[{NODE}]:7002").parse().unwrap();
    let refused = bed.server.enter(|| TcpStream::connect_timeout(&closed, PATIENCE)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
}

/// Its data may reach the relay of the mobile router before the kernel has accepted the node's connection.
#[test]
fn a_destination_may_speak_first() {
    const CONNECTIONS: u64 = 200;
    let test = "a_destination_may_speak_first";
    let Some(bed) = Bed::new(test) else { return println!("skipped: {test}") };
    let listener = bed.server.enter(|| TcpListener::bind("[::]:6050").unwrap());
    let to: SocketAddr = format!("[{SERVER}]:6050").parse().unwrap();
    std::thread::spawn(move || listener.incoming().for_each(|server| send_all(&server.unwrap(), b"banner")));
    for number in 0..CONNECTIONS {
        let node = bed.testbed.node.enter(|| TcpStream::connect_timeout(&to, PATIENCE));
        let node = node.unwrap_or_else(|error| panic!("connection {number}: {error} {}", bed.flows()));
        node.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut octets = Vec::new();
        let ended = (&node).read_to_end(&mut octets);
        assert!(ended.is_ok() && octets == b"banner", "connection {number}: {ended:?} {octets:?} {}", bed.flows());
    }
    assert_eq!(bed.flows()["counters"]["relayed"], CONNECTIONS, "{}", bed.flows());
}

#[test]
fn ipv4_connections_are_relayed_too() {
    let test = "ipv4_connections_are_relayed_too";
    let Some(bed) = Bed::with_ipv4(test) else { return println!("skipped: {test}") };
    let relayed = |who: &str| bed.flows_of(who)["counters"]["relayed"].as_u64();
    let (node, server) = bed.connect_to("198.51.100.9:6900".parse().unwrap());
    assert_eq!(server.peer_addr().unwrap().ip().to_canonical(), node.local_addr().unwrap().ip());
    assert_eq!(server.peer_addr().unwrap().port(), node.local_addr().unwrap().port());
    let data = octets_from(0, 1 << 20);
    std::thread::scope(|scope| {
        for (from, to) in [(&node, &server), (&server, &node)] {
            scope.spawn(|| send_all(from, &data));
            scope.spawn(|| expect(to, &data));
        }
    });
    bed.await_subflows(2);
    assert_eq!([relayed("mr"), relayed("ha")], [Some(1); 2], "{}", bed.flows());

    let listener = bed.testbed.node.enter(|| TcpListener::bind("10.77.1.2:7100").unwrap());
    let server = bed.server.enter(|| TcpStream::connect("10.77.1.2:7100")).unwrap();
    let (node, from) = listener.accept().unwrap();
    assert_eq!(from, server.local_addr().unwrap());
    send_all(&server, b"from outside");
    expect(&node, b"from outside");
    assert_eq!([relayed("mr"), relayed("ha")], [Some(2); 2], "{}", bed.flows());

    // IPv6 takes the same listener.
    let (node, server) = bed.connect(6901);
    send_all(&node, b"IPv6");
    expect(&server, b"IPv6");
    assert_eq!([relayed("mr"), relayed("ha")], [Some(3); 2], "{}", bed.flows());

    // Refusals are as they are without relays: ports from 5000 on are in no rule.
    bed.testbed.agent.shell("ip route add unreachable 192.0.2.0/25 && ip route add prohibit 192.0.2.128/25");
    for (address, code) in
        [("198.51.100.9", libc::ECONNREFUSED), ("192.0.2.1", libc::EHOSTUNREACH), ("192.0.2.129", libc::EHOSTUNREACH)]
    {
        for port in [6902, 5902] {
            let to = SocketAddr::new(address.parse().unwrap(), port);
            let refused = bed.testbed.node.enter(|| TcpStream::connect_timeout(&to, PATIENCE)).unwrap_err();
            assert_eq!(refused.raw_os_error(), Some(code), "{to}: {refused}");
        }
    }
    let closed = bed.server.enter(|| TcpStream::connect("10.77.1.2:7101")).unwrap_err();
    assert_eq!(closed.kind(), ErrorKind::ConnectionRefused);
}

/// Both ends send and receive something.
fn exchange(node: &TcpStream, server: &TcpStream) {
    send_all(node, b"question");
    expect(server, b"question");
    send_all(server, b"answer");
    expect(node, b"answer");
}

#[test]
fn an_uplink_that_was_a_black_hole_is_used_again() {
    let test = "an_uplink_that_was_a_black_hole_is_used_again";
    let Some(bed) = Bed::new(test) else { return println!("skipped: {test}") };
    let (node, server) = bed.connect(6700);
    exchange(&node, &server);
    bed.await_subflows(2);
    for _ in 0..2 {
        bed.set_black_holes(true, &[1]);
        exchange(&node, &server);
        bed.await_subflows(1);
        bed.set_black_holes(false, &[1]);
        bed.await_subflows(2);
        exchange(&node, &server);
    }
}

#[test]
fn a_connection_lives_through_many_outages_of_all_uplinks() {
    let test = "a_connection_lives_through_many_outages_of_all_uplinks";
    let Some(bed) = Bed::new(test) else { return println!("skipped: {test}") };
    let (node, server) = bed.connect(6750);
    exchange(&node, &server);
    bed.await_subflows(2);
    // The kernel of the home agent accepts eight subflows; the mobile router cannot tell it which have ended.
    for _ in 0..9 {
        bed.set_black_holes(true, &[0, 1]);
        bed.await_subflows(0);
        bed.set_black_holes(false, &[0, 1]);
        exchange(&node, &server);
    }
    let most = || bed.most_subflows_of_an_address() <= 1;
    wait_or_report("the end of subflows that were replaced", most, || {
        bed.testbed.agent.shell("ss -tne sport = :4191") + &bed.testbed.logs()
    });
}

#[test]
fn hosts_that_vanish_are_noticed_by_keepalives() {
    let test = "hosts_that_vanish_are_noticed_by_keepalives";
    let Some(bed) = Bed::new(test) else { return println!("skipped: {test}") };
    // In place of two hours, and of eleven minutes until a host is given up.
    for relay in [&bed.testbed.router, &bed.testbed.agent] {
        relay.shell("cd /proc/sys/net/ipv4 && echo 2 >tcp_keepalive_time && echo 1 >tcp_keepalive_intvl && echo 2 >tcp_keepalive_probes");
    }
    let open = |who: &str| bed.flows_of(who)["flows"].as_array().map_or(9, Vec::len);
    for (port, node_vanishes) in [(6950, false), (6951, true)] {
        let (node, server) = bed.connect(port);
        send_all(&node, b"x");
        expect(&server, b"x");
        // A host that answers is kept.
        std::thread::sleep(Duration::from_secs(6));
        assert_eq!([open("mr"), open("ha")], [1, 1], "{}", bed.flows());
        let (vanished, place, mut other) =
            if node_vanishes { (node, &bed.testbed.node, server) } else { (server, &bed.server, node) };
        place.shell("tc qdisc replace dev eth0 root pfifo limit 0");
        assert_eq!(other.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset, "{}", bed.testbed.logs());
        wait_or_report("the end of the connection", || [open("mr"), open("ha")] == [0, 0], || bed.flows().to_string());
        place.shell("tc qdisc del dev eth0 root");
        drop(vanished);
    }
}

/// What captures must not have with encryption: see encrypted.rs.
#[test]
fn relays_are_in_the_clear_without_encryption() {
    let test = "relays_are_in_the_clear_without_encryption";
    let settings = Settings { captured: true, ..Settings::default() };
    let Some(mut bed) = Bed::with(test, &settings) else { return println!("skipped: {test}") };
    let (node, server) = bed.connect(6800);
    bed.await_subflows(2);
    let data = octets_from(0, 1 << 20);
    std::thread::scope(|scope| {
        scope.spawn(|| send_all(&server, &data));
        expect(&node, &data);
    });
    for capture in std::mem::take(&mut bed.captures) {
        assert!(capture.end().count("tcp.port == 4191") > 0);
    }
}
