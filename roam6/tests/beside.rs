//! What `roam6 show links` says of other programs that are in the way of an uplink: a DHCPv6 client, a program that sets
//! sysctls back, a missing IPv4 route.

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test fails at the assertion")]

mod testbed;

use std::net::UdpSocket;
use testbed::nat::{AGENT, NatTestbed, ROUTER};
use testbed::{Testbed, wait_or_report};

/// Waits until `show links` contains a text, or no longer does.
fn await_hint(testbed: &Testbed, text: &str, present: bool) {
    let links = || testbed.show("mr", "links");
    let fits = || links().contains(text) == present;
    wait_or_report(text, fits, || format!("{}{}", links(), testbed.logs()));
}

#[test]
fn another_dhcpv6_client_is_named_while_it_runs() {
    let Some(testbed) = Testbed::new("another_dhcpv6_client_is_named_while_it_runs") else { return };
    testbed.enroll(&[]);
    let _agent = testbed.start_agent();
    let _radvd = testbed.advertise("2001:db8:2::/64");
    let other = testbed.router.enter(|| UdpSocket::bind("[::]:546").unwrap());
    let config = testbed.router_config("auto", "");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, format!("{text}\n[mobile_router.care_of_prefixes]\n")).unwrap();
    let _router = testbed.router.roam6(&config);
    testbed.await_binding("2001:db8:2:");
    await_hint(&testbed, "up0: another DHCPv6 client runs here (UDP port 546)", true);
    drop(other);
    await_hint(&testbed, "another DHCPv6 client", false);
    let taken = testbed.router.enter(|| UdpSocket::bind("[::]:546").is_err());
    assert!(taken, "the port is held from now on");
}

#[test]
fn sysctls_that_are_set_back_again_and_again_are_named() {
    let Some(testbed) = Testbed::new("sysctls_that_are_set_back_again_and_again_are_named") else { return };
    testbed.enroll(&[]);
    let _agent = testbed.start_agent();
    let _radvd = testbed.advertise("2001:db8:2::/64");
    let _router = testbed.start_router("");
    testbed.await_binding("2001:db8:2:");
    let sysctl = "net.ipv6.conf.up0.accept_ra";
    let set_back = || testbed.router.shell(&format!("sysctl -qw {sysctl}=2"));
    set_back();
    let repaired = || testbed.router.shell(&format!("sysctl -n {sysctl}")).trim() == "0";
    wait_or_report("the repair", repaired, || testbed.logs());
    assert!(!testbed.show("mr", "links").contains("again and again"), "once is no conflict");
    let text = format!("up0: another program sets {sysctl} to 2 again and again");
    let links = || testbed.show("mr", "links");
    let contested = || {
        set_back();
        links().contains(&text)
    };
    wait_or_report(&text, contested, || format!("{}{}", links(), testbed.logs()));
    assert!(testbed.logs().contains("again and again"), "{}", testbed.logs());
}

#[test]
fn disabled_ipv6_is_named() {
    let Some(testbed) = Testbed::new("disabled_ipv6_is_named") else { return };
    testbed.enroll(&[]);
    let _agent = testbed.start_agent();
    let _radvd = testbed.advertise("2001:db8:2::/64");
    let _router = testbed.start_router("");
    testbed.await_binding("2001:db8:2:");
    testbed.router.shell("sysctl -qw net.ipv6.conf.up0.disable_ipv6=1");
    await_hint(&testbed, "up0: another program has disabled IPv6 here", true);
    testbed.router.shell("sysctl -qw net.ipv6.conf.up0.disable_ipv6=0");
    await_hint(&testbed, "has disabled IPv6", false);
}

#[test]
fn a_missing_ipv4_route_is_named() {
    let Some(nat_testbed) = NatTestbed::new("a_missing_ipv4_route_is_named", true) else { return };
    let testbed = &nat_testbed.testbed;
    let _agent = testbed.start_agent_more(AGENT);
    let _radvd = testbed.advertise("2001:db8:2::/64");
    let _router = testbed.start_router(ROUTER);
    testbed.await_binding("2001:db8:2:");
    assert!(!testbed.show("mr", "links").contains("IPv4 route"), "{}", testbed.show("mr", "links"));
    testbed.router.shell("ip route del default dev up1");
    await_hint(testbed, "up1: no IPv4 route to the home agent 203.0.113.1 by this interface", true);
    testbed.router.shell("ip route add default via 10.0.0.1 dev up1 table 100");
    await_hint(
        testbed,
        "up1: the IPv4 route to the home agent 203.0.113.1 by this interface is in table 100 only",
        true,
    );
    testbed.router.shell("ip route add default via 10.0.0.1 dev up1");
    await_hint(testbed, "IPv4 route", false);
}
