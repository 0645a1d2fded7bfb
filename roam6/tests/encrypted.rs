//! A second mobile network whose packets travel in an operator's own WireGuard, between the home address and the home agent, inside
//! the tunnel: they are unreadable on the path, and WireGuard does not notice a handover. Needs a kernel with it.

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails at the assertion")]

mod testbed;

use testbed::capture::Capture;
use testbed::wireguard::{keys, obstacle};
use testbed::{Testbed, wait_for};

const SECRET: &str = "2001:db8:200::2";
const PLAIN: &str = "2001:db8:100::2";

/// Both ends of WireGuard, with their addresses and rules.
fn encrypt(testbed: &Testbed) {
    let (at_agent, agent) = keys(testbed, "agent.wg");
    let (at_router, router) = keys(testbed, "router.wg");
    testbed.agent.shell(&format!(
        "ip link add wg0 mtu 1340 type wireguard && wg set wg0 listen-port 51820 private-key {at_agent} \
         peer {router} allowed-ips 2001:db8:200::/56 && ip link set wg0 up && ip route add 2001:db8:200::/56 dev wg0"
    ));
    testbed.router.shell(&format!(
        "ip link add wg0 mtu 1340 type wireguard && wg set wg0 private-key {at_router} \
         peer {agent} endpoint [2001:db8:1::1]:51820 allowed-ips ::/0 && ip link set wg0 up && \
         ip address add 2001:db8:200::1/64 dev in0 nodad && ip -6 route add default dev wg0 table 51 && \
         ip -6 rule add to 2001:db8:200::/56 lookup main priority 1050 && \
         ip -6 rule add from 2001:db8:200::/56 iif in0 lookup 51 priority 1051 && \
         ip -6 rule add from 2001:db8:200::/56 iif lo lookup 51 priority 1052"
    ));
    testbed.node.shell(&format!("ip address add {SECRET}/64 dev eth0 nodad"));
}

fn ping(testbed: &Testbed, from: &str, count: &str, size: &str) -> String {
    let words = ["ping", "-nq", "-i0.05", "-W2", "-Mdo", "-c", count, "-s", size, "-I", from, "2001:db8:9::9"];
    String::from_utf8(testbed.node.command(&words).output().unwrap().stdout).unwrap()
}

/// Where the home agent's WireGuard sends to, and when the two last agreed on keys.
fn peer(testbed: &Testbed) -> [String; 2] {
    ["endpoints", "latest-handshakes"].map(|what| {
        let shown = testbed.agent.shell(&format!("wg show wg0 {what}"));
        shown.split_whitespace().nth(1).unwrap_or_default().to_owned()
    })
}

#[test]
fn wireguard_inside_the_tunnel_survives_a_handover() {
    let test = "wireguard_inside_the_tunnel_survives_a_handover";
    if let Some(why) = obstacle() {
        return println!("skipped: {test}: {why}");
    }
    let Some(testbed) = Testbed::new(test) else { return };
    testbed.enroll(&[]);
    let _agent = testbed.start_agent();
    let radvd = testbed.advertise("2001:db8:2::/64");
    let _router = testbed.start_router("");
    testbed.await_binding("2001:db8:2:");
    encrypt(&testbed);
    wait_for("a way by WireGuard", || ping(&testbed, SECRET, "1", "56").contains(" 0% packet loss"));
    let before = peer(&testbed);
    assert_eq!(before[0].split("]:").next(), Some("[2001:db8:1::100"), "it speaks from the home address");

    let capture = Capture::begin(&testbed, &testbed.agent, "visit0", "visit");
    for size in ["56", "1292"] {
        assert!(ping(&testbed, SECRET, "20", size).contains(" 0% packet loss"), "{size}");
    }
    assert!(ping(&testbed, PLAIN, "5", "56").contains(" 0% packet loss"));
    drop(radvd);
    let _radvd = testbed.advertise("2001:db8:3::/64");
    testbed.router.shell("ip link set up0 down; ip link set up0 up");
    testbed.await_binding("2001:db8:3:");
    wait_for("a way after the move", || ping(&testbed, SECRET, "1", "56").contains(" 0% packet loss"));
    assert!(ping(&testbed, SECRET, "20", "56").contains(" 0% packet loss"));
    assert_eq!(peer(&testbed), before, "the same ends and keys after the move");

    let seen = capture.end();
    assert_eq!(seen.count(&format!("ipv6.addr == {SECRET}")), 0, "nothing of it is in the clear");
    assert!(seen.count("udp.port == 51820") >= 120, "all of it is there");
    assert!(seen.count(&format!("ipv6.addr == {PLAIN}")) >= 10, "the other network's is");
}
