//! A mobile router with an IPv6 uplink and one that has IPv4 only, behind a NAT, all real binaries; what is on the wire is
//! judged by tshark (RFC 5555).

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails at the assertion")]

mod testbed;

use std::time::Instant;
use testbed::nat::{AGENT, NatTestbed, ROUTER, Transfer, dissect};
use testbed::wait_for;

#[test]
fn a_transfer_survives_handovers_from_ipv6_to_a_nat_and_back() {
    let Some(nat_testbed) = NatTestbed::new("a_transfer_survives_handovers_from_ipv6_to_a_nat_and_back", true) else {
        return;
    };
    let testbed = &nat_testbed.testbed;
    let (file, listener) = nat_testbed.capture();
    let _agent = testbed.start_agent_more(AGENT);
    let _radvd = testbed.advertise("2001:db8:2::/64");
    let _router = testbed.start_router(ROUTER);
    testbed.await_binding("2001:db8:2:");
    wait_for("a way out", || nat_testbed.ping("56").contains(" 0% packet loss"));
    let transfer = Transfer::begin(testbed, "[2001:db8:9::9]:5001");
    transfer.goes_on("over IPv6");

    testbed.router.shell("ip link set up0 down");
    let first = nat_testbed.await_ipv4();
    assert!(first.starts_with("203.0.113.2:"), "{first}");
    transfer.goes_on("over IPv4 behind a NAT");
    // What fits over IPv6 fits here; that a little more would, the node has unlearnt there.
    let output = testbed.node.ping(30, "1412", "2001:db8:9::9");
    assert!(output.contains(" 0% packet loss"), "1460 octets: {output}");

    nat_testbed.forget();
    let began = Instant::now();
    wait_for("another mapping", || nat_testbed.bound_to().is_some_and(|bound| bound != first));
    println!("bound to another mapping after {:?}", began.elapsed());
    transfer.goes_on("after the NAT has lost all mappings");

    testbed.router.shell("ip link set up0 up");
    testbed.await_binding("2001:db8:2:");
    transfer.goes_on("over IPv6 again");
    transfer.end();

    drop(listener);
    let kinds = dissect(&file, "udp.port==4191 && mipv6", "mip6.mhtype");
    assert!(kinds.lines().any(|kind| kind == "5") && kinds.lines().any(|kind| kind == "6"), "{kinds}");
    // How it classifies the transfer does not matter.
    assert_eq!(dissect(&file, "udp.port==4191 && mipv6 && _ws.malformed", "frame.number"), "");
    assert!(!dissect(&file, "udp.port==4191 && tcp", "frame.number").is_empty());
}

#[test]
fn without_a_nat_packets_use_protocol_41() {
    let Some(nat_testbed) = NatTestbed::new("without_a_nat_packets_use_protocol_41", false) else { return };
    let (file, listener) = nat_testbed.capture();
    let _agent = nat_testbed.testbed.start_agent_more(AGENT);
    let _router = nat_testbed.testbed.start_router(ROUTER);
    assert_eq!(nat_testbed.await_ipv4(), "203.0.113.7");
    wait_for("a way out", || nat_testbed.ping("1432").contains(" 0% packet loss"));
    assert!(nat_testbed.ping("1433").contains("100% packet loss"), "1480 octets and 20 of header");
    drop(listener);
    assert!(!dissect(&file, "ip.proto==41 && icmpv6.type==128", "frame.number").is_empty());
    assert!(!dissect(&file, "udp.port==4191 && mipv6", "frame.number").is_empty());
    assert_eq!(dissect(&file, "(mipv6 || icmpv6) && _ws.malformed", "frame.number"), "");
}

#[test]
fn updates_in_esp_traverse_a_nat() {
    let Some(nat_testbed) = NatTestbed::enrolled("updates_in_esp_traverse_a_nat", true, &["--ipsec"]) else { return };
    let (file, listener) = nat_testbed.capture();
    let _agent = nat_testbed.testbed.start_agent_more(AGENT);
    let _router = nat_testbed.testbed.start_router(ROUTER);
    let first = nat_testbed.await_ipv4();
    wait_for("a way out", || nat_testbed.ping("56").contains(" 0% packet loss"));
    nat_testbed.forget();
    wait_for("another mapping", || nat_testbed.bound_to().is_some_and(|bound| bound != first));
    drop(listener);
    assert!(!dissect(&file, "udp.port==4191 && esp", "frame.number").is_empty());
    assert_eq!(dissect(&file, "mipv6 && !esp", "frame.number"), "", "nothing in the clear");
}
