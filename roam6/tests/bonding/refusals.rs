//! Connections that their destination refuses, also after the relay has accepted them.

use crate::bed::{Bed, PATIENCE, SERVER, Settings, expect, reset, send_all};
use crate::testbed::wait_or_report;
use nix::libc;
use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

#[test]
fn a_connection_is_refused_as_its_destination_refuses_it() {
    let test = "a_connection_is_refused_as_its_destination_refuses_it";
    let Some(bed) = Bed::new(test) else { return println!("skipped: {test}") };
    bed.testbed.agent.shell("ip route add unreachable 2001:db8:7::/64 && ip route add prohibit 2001:db8:6::/64");
    let attempt = |to: &str| {
        let to: SocketAddr = to.parse().unwrap();
        bed.testbed.node.enter(|| TcpStream::connect_timeout(&to, PATIENCE)).unwrap_err()
    };
    let refused = attempt(&format!("[{SERVER}]:6100"));
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused, "{}", bed.testbed.logs());
    let error = |text: &str| attempt(text).raw_os_error();
    assert_eq!(error("[2001:db8:7::7]:6100"), Some(libc::ENETUNREACH), "no route");
    assert_eq!(error("[2001:db8:6::6]:6100"), Some(libc::EACCES), "prohibited");
    // The home agent's own services are reached through the tunnel, and not through the relay.
    let _listener = bed.testbed.agent.enter(|| TcpListener::bind("[::]:6100").unwrap());
    for own in ["[2001:db8:1::1]:6100", "[2001:db8:9::9]:6100"] {
        let to: SocketAddr = own.parse().unwrap();
        let connected = bed.testbed.node.enter(|| TcpStream::connect_timeout(&to, PATIENCE));
        assert!(connected.is_ok(), "{own}: {connected:?} {}", bed.testbed.logs());
    }
    assert_eq!(bed.flows_of("ha")["counters"]["refused_destination"], 1);
    assert_eq!(bed.flows()["flows"].as_array().map_or(9, Vec::len), 0);
    let (node, server) = bed.connect(6101);
    send_all(&node, b"still works");
    expect(&server, b"still works");
}

#[test]
fn connections_accepted_early_are_reset_if_refused() {
    const REFUSED: u16 = 50;
    let test = "connections_accepted_early_are_reset_if_refused";
    let settings = Settings { router_keys: "early = true\n", ..Settings::default() };
    let Some(bed) = Bed::with(test, &settings) else { return println!("skipped: {test}") };
    let pid = std::fs::read_to_string(bed.testbed.file("mr").join("run/relay.pid")).unwrap();
    // Of one refused connection the bearer is free again, so that there may be more of them than at the beginning.
    let idle = || bed.flows()["idle_bearers"].as_u64().unwrap_or(0) as usize;
    let others = || std::fs::read_dir(format!("/proc/{}/fd", pid.trim())).unwrap().count().saturating_sub(idle());
    wait_or_report("all bearers", || idle() == 8, || bed.flows().to_string());
    let before = others();
    for port in (6900..).take(REFUSED.into()) {
        let to: SocketAddr = format!("[{SERVER}]:{port}").parse().unwrap();
        // The reset may come before the node looks at the connection for the first time. Without early acceptance it is refused.
        let connected = bed.testbed.node.enter(|| TcpStream::connect_timeout(&to, PATIENCE));
        let ended = connected.and_then(|mut node| {
            node.set_read_timeout(Some(PATIENCE))?;
            node.read(&mut [0])
        });
        assert_eq!(ended.unwrap_err().kind(), ErrorKind::ConnectionReset, "port {port}");
    }
    assert_eq!(bed.flows()["counters"]["refused_by_destination"], REFUSED);
    let closed = || idle() < 8 + usize::from(REFUSED) / 5 && others() <= before;
    wait_or_report("closed sockets", closed, || format!("{} descriptors, {before} before: {}", others(), bed.flows()));
    let (node, server) = bed.connect(6990);
    send_all(&node, b"still works");
    expect(&server, b"still works");
}

/// The relay may find a connection reset before it has accepted it. Without its peer's address the other end would be reset only
/// with those whose handshake is late, after 10 s.
#[test]
fn connections_that_are_reset_at_once_are_reset_at_their_destination() {
    const PORTS: std::ops::Range<u16> = 6950..6990;
    let test = "connections_that_are_reset_at_once_are_reset_at_their_destination";
    let Some(bed) = Bed::new(test) else { return println!("skipped: {test}") };
    for port in PORTS {
        let (node, mut server) = bed.connect(port);
        let began = Instant::now();
        reset(node);
        assert_eq!(server.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset, "port {port}");
        assert!(began.elapsed() < Duration::from_secs(5), "port {port}: {:?} {}", began.elapsed(), bed.flows());
    }
    assert_eq!(bed.flows()["counters"]["relayed"], PORTS.len());
}
