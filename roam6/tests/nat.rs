//! A mobile router with an IPv6 uplink and one or two that have IPv4 only, behind NATs, all real binaries; what is on the
//! wire is judged by tshark (RFC 5555).

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails at the assertion")]

mod testbed;

use std::time::Instant;
use testbed::nat::{AGENT, NatTestbed, ROUTER, TWO_MODEMS, Transfer, dissect};
use testbed::{wait_for, wait_or_report};

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
fn without_a_nat_packets_use_protocol_41_where_it_passes() {
    let Some(nat_testbed) = NatTestbed::new("without_a_nat_packets_use_protocol_41_where_it_passes", false) else {
        return;
    };
    let (file, listener) = nat_testbed.capture();
    let _agent = nat_testbed.testbed.start_agent_more(AGENT);
    let _router = nat_testbed.testbed.start_router(ROUTER);
    assert_eq!(nat_testbed.await_ipv4(), "203.0.113.7");
    wait_for("a way out", || nat_testbed.ping("1432").contains(" 0% packet loss"));
    assert!(nat_testbed.ping("1433").contains("100% packet loss"), "1480 octets and 20 of header");

    nat_testbed.drop_protocol(41);
    let began = Instant::now();
    let in_udp = || nat_testbed.bound_to().as_deref() == Some("203.0.113.7:4191");
    wait_or_report("UDP takes over", in_udp, || nat_testbed.testbed.logs());
    println!("in UDP after {:?}", began.elapsed());
    wait_for("a way out in UDP", || nat_testbed.ping("1424").contains(" 0% packet loss"));
    let logs = nat_testbed.testbed.logs();
    assert!(logs.contains("udp to the home agent") && logs.contains("the tunnel is filtered"), "{logs}");
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

#[test]
fn an_ipv6_uplink_and_two_modems_are_registered_together() {
    let Some(nat_testbed) = NatTestbed::new("an_ipv6_uplink_and_two_modems_are_registered_together", true) else {
        return;
    };
    let testbed = &nat_testbed.testbed;
    let second = nat_testbed.add_modem(false).expect("a namespace");
    let _agent = testbed.start_agent_more(AGENT);
    let _router = testbed.start_router(TWO_MODEMS);
    let is_bound = |end: &str| nat_testbed.ends().iter().any(|known| known.starts_with(end));
    let (one, two) = ("203.0.113.2:", "198.51.100.2:");
    let story = || format!("{}\n{}", testbed.show("ha", "bindings"), testbed.logs());
    wait_or_report("both NATs", || is_bound(one) && is_bound(two), story);
    wait_for("a way out", || nat_testbed.ping("56").contains(" 0% packet loss"));
    let transfer = Transfer::begin(testbed, "[2001:db8:9::9]:5001");
    transfer.goes_on("over the first modem");

    testbed.router.shell("ip link set up1 down");
    wait_or_report("the first modem is no longer registered", || !is_bound(one), story);
    transfer.goes_on("over the second modem");
    let known = nat_testbed.ends();
    second.shell("ip link set out0 down && ip link set out0 up && ip route add 203.0.113.1 via 198.51.100.1");
    wait_or_report("another mapping", || is_bound(two) && nat_testbed.ends() != known, story);
    transfer.goes_on("after its NAT has lost the mapping");

    testbed.router.shell("ip link set up1 up && ip route add default via 10.0.0.1 dev up1");
    wait_or_report("both again", || is_bound(one) && is_bound(two), story);
    // A planned handover: from now on a better uplink is registered beside them.
    let pings = ["ping", "-q", "-i", "0.01", "-c", "600", "2001:db8:9::9"];
    let pinging = testbed.node.command(&pings).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let _radvd = testbed.advertise("2001:db8:2::/64");
    testbed.await_binding("2001:db8:2:");
    wait_or_report("all three", || is_bound(one) && is_bound(two), story);
    let output = String::from_utf8(pinging.wait_with_output().unwrap().stdout).unwrap();
    assert!(output.contains(" 0% packet loss"), "{output}");
    transfer.goes_on("over IPv6");
    transfer.end();
}

#[test]
fn two_modems_behind_one_nat_have_a_mapping_each() {
    let Some(nat_testbed) = NatTestbed::new("two_modems_behind_one_nat_have_a_mapping_each", true) else { return };
    let testbed = &nat_testbed.testbed;
    nat_testbed.add_modem(true);
    let _agent = testbed.start_agent_more(AGENT);
    let _router = testbed.start_router(TWO_MODEMS);
    let story = || format!("{}\n{}", testbed.show("ha", "bindings"), testbed.logs());
    wait_or_report("both mappings", || nat_testbed.ends().len() == 2, story);
    wait_for("a way out", || nat_testbed.ping("56").contains(" 0% packet loss"));
    let transfer = Transfer::begin(testbed, "[2001:db8:9::9]:5001");
    transfer.goes_on("over the first modem");
    let known = nat_testbed.ends();
    nat_testbed.forget();
    let is_new = || nat_testbed.ends().len() == 2 && nat_testbed.ends().iter().all(|end| !known.contains(end));
    wait_or_report("both have another mapping", is_new, story);
    transfer.goes_on("after the NAT has lost all mappings");
    testbed.router.shell("ip link set up1 down");
    wait_or_report("one of them", || nat_testbed.ends().len() == 1, story);
    transfer.goes_on("over the second modem");
    transfer.end();
}

#[test]
fn two_modems_with_equal_addresses_have_a_path_each() {
    let Some(nat_testbed) = NatTestbed::new("two_modems_with_equal_addresses_have_a_path_each", true) else { return };
    let testbed = &nat_testbed.testbed;
    let second = nat_testbed.add_modem(false).expect("a namespace");
    nat_testbed.use_equal_addresses(&second);
    let _agent = testbed.start_agent_more(AGENT);
    let _router = testbed.start_router(TWO_MODEMS);
    let is_bound = |end: &str| nat_testbed.ends().iter().any(|known| known.starts_with(end));
    let (one, two) = ("203.0.113.2:", "198.51.100.2:");
    let story = || format!("{}\n{}", testbed.show("ha", "bindings"), testbed.logs());
    wait_or_report("both NATs", || is_bound(one) && is_bound(two), story);
    wait_for("a way out", || nat_testbed.ping("56").contains(" 0% packet loss"));
    // The second size is that of the minimum MTU: the daemon sends it in fragments.
    let leave_by = |used: &str, other: &str| {
        for size in ["56", "1232"] {
            let before = [used, other].map(|interface| nat_testbed.sent_by(interface));
            let pings = ["ping", "-q", "-i", "0.01", "-c", "200", "-s", size, "2001:db8:9::9"];
            let output = String::from_utf8(testbed.node.command(&pings).output().unwrap().stdout).unwrap();
            assert!(output.contains(" 0% packet loss"), "{size} octets: {output}\n{}", story());
            let [most, few] =
                [(used, before[0]), (other, before[1])].map(|(name, sent)| nat_testbed.sent_by(name) - sent);
            assert!(most >= 200 && few < 100, "{size} octets: {most} by {used}, {few} by {other}");
        }
    };
    leave_by("up1", "up2");
    testbed.router.shell("ip link set up1 down");
    wait_or_report("the first modem is no longer registered", || !is_bound(one), story);
    leave_by("up2", "up1");
    testbed.router.shell("ip link set up1 up && ip route add default via 192.168.8.1 dev up1");
    wait_or_report("both again", || is_bound(one) && is_bound(two), story);
    leave_by("up1", "up2");
    // The home agent answers a probe by the path under test: else the second path would seem to be dead too.
    nat_testbed.black_hole();
    wait_or_report("a way out by the second modem", || nat_testbed.ping("56").contains(" 0% packet loss"), story);
    assert!(!is_bound(one), "{}", story());
    leave_by("up2", "up1");
}
