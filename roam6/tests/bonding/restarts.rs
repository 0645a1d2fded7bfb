//! Daemons and relays that are restarted, reloaded or killed.

use crate::bed::{AGENT_DAEMON, Bed, FLOWS, NODE, PATIENCE, ROUTER_DAEMON, SERVER, expect, send_all};
use crate::testbed::{INGRESS, ROUTER, Running, wait_or_report};
use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// Ends a daemon, and waits until it has.
fn end(running: &mut Running, signal: nix::sys::signal::Signal) {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(running.0.id().try_into().unwrap()), signal).unwrap();
    running.0.wait().unwrap();
}

#[test]
fn restarts_of_daemons_end_no_connection() {
    use nix::sys::signal::Signal;
    let test = "restarts_of_daemons_end_no_connection";
    let Some(mut bed) = Bed::new(test) else { return println!("skipped: {test}") };
    let (node, server) = bed.connect(6300);
    // The home agent, and the mobile router, are killed as by an update, and stopped as by a restart.
    for (signal, at, who) in [
        (Signal::SIGKILL, AGENT_DAEMON, "ha"),
        (Signal::SIGKILL, ROUTER_DAEMON, "mr"),
        (Signal::SIGTERM, AGENT_DAEMON, "ha"),
        (Signal::SIGTERM, ROUTER_DAEMON, "mr"),
    ] {
        end(&mut bed.running[at], signal);
        let config = bed.testbed.file(&format!("{who}.toml"));
        bed.running[at] = bed.host(who).roam6(&config);
        bed.testbed.await_binding("2001:db8:2:");
        println!("{signal} of {who}");
        send_all(&node, b"question");
        expect(&server, b"question");
        send_all(&server, b"answer");
        expect(&node, b"answer");
    }
    // New connections are relayed too.
    let relayed = || bed.flows()["counters"]["relayed"].as_u64().unwrap_or(0);
    let before = relayed();
    let (node, server) = bed.connect(6301);
    send_all(&node, b"x");
    expect(&server, b"x");
    assert!(relayed() > before, "{} {}", bed.flows(), bed.testbed.logs());
}

#[test]
fn a_reload_gives_the_relay_other_rules() {
    let test = "a_reload_gives_the_relay_other_rules";
    let Some(bed) = Bed::new(test) else { return println!("skipped: {test}") };
    let (node, server) = bed.connect(6400);
    let (outside, inside) = (FLOWS.replace("6000-6999", "5500-5999"), FLOWS.replace("7000-7999", "7500-7999"));
    let count = |who: &str| bed.flows_of(who)["flows"].as_array().map_or(0, Vec::len);
    for (flows, port) in [(outside, 5500), (inside, 6401)] {
        bed.testbed.write_config("mr", &format!("{ROUTER}{flows}{INGRESS}"));
        let daemon = nix::unistd::Pid::from_raw(bed.running[ROUTER_DAEMON].0.id().try_into().unwrap());
        nix::sys::signal::kill(daemon, nix::sys::signal::Signal::SIGHUP).unwrap();
        let works = || {
            let (_node, _server) = bed.connect(port);
            count("mr") == 2
        };
        wait_or_report("the new rules", works, || format!("{}{}", bed.flows(), bed.testbed.logs()));
        wait_or_report("the end of others", || count("mr") == 1, || bed.flows().to_string());
    }
    let unselected = bed.connect(5501);
    assert_eq!(count("mr"), 1, "5501 is not of the last rules");
    drop(unselected);
    let listener = bed.testbed.node.enter(|| TcpListener::bind("[::]:7001").unwrap());
    let to: SocketAddr = format!("[{NODE}]:7001").parse().unwrap();
    let _direct = bed.server.enter(|| TcpStream::connect_timeout(&to, PATIENCE)).unwrap();
    let _accepted = listener.accept().unwrap();
    assert_eq!(count("ha"), 1, "7001 is not offered any more: {}", bed.testbed.logs());
    send_all(&node, b"still open");
    expect(&server, b"still open");
}

#[test]
fn killed_relays_reset_connections() {
    let test = "killed_relays_reset_connections";
    let Some(bed) = Bed::new(test) else { return println!("skipped: {test}") };
    let (mut node, mut server) = bed.connect(6200);
    send_all(&node, b"x");
    expect(&server, b"x");
    let pid = std::fs::read_to_string(bed.testbed.file("ha").join("run/relay.pid")).unwrap();
    let pid = nix::unistd::Pid::from_raw(pid.trim().parse().unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
    for end in [&mut node, &mut server] {
        assert_eq!(end.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    }
    // Another one is started.
    let works = || {
        let to: SocketAddr = format!("[{SERVER}]:6201").parse().unwrap();
        let _listener = bed.server.enter(|| TcpListener::bind("[::]:6201").unwrap());
        bed.testbed.node.enter(|| TcpStream::connect_timeout(&to, Duration::from_secs(5))).is_ok()
    };
    wait_or_report("connections again", works, || bed.testbed.logs());
}
