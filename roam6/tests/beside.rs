//! What `roam6 show links` says of other programs that are in the way of an uplink: a DHCPv6 client, a program that sets
//! sysctls back, a missing IPv4 route; and of a captive portal.

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test fails at the assertion")]

mod testbed;

use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
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

/// Lets the visited network redirect web requests to a portal and drop all else. A second interface of the router has the
/// default routes of the main table, and `elsewhere` counts what leaves by it for an address without a host.
fn build_portal(testbed: &Testbed, ipv4: bool) {
    testbed.agent.shell(&format!(
        "ip link add visit1 type veth peer name up1 netns {} && ip link set visit1 up && \
         ip address add 10.9.0.1/24 dev visit0 && ip address add 10.9.1.1/24 dev visit1 && \
         ip address add 2001:db8:4::1/64 dev visit1 nodad",
        testbed.router.number()
    ));
    testbed.agent.shell(
        "nft 'table inet portal { chain pre { type nat hook prerouting priority -100; \
         iifname visit0 tcp dport 80 redirect to :8080; }; chain input { type filter hook input priority 0; \
         iifname visit0 icmpv6 type echo-request drop; }; chain elsewhere { type filter hook prerouting priority -300; \
         iifname visit1 ip daddr 192.0.2.1 counter; iifname visit1 ip6 daddr 100::1 counter; }; }'",
    );
    testbed.router.shell(
        "ip link set up1 up && ip address add 10.9.1.2/24 dev up1 && ip address add 2001:db8:4::2/64 dev up1 nodad && \
         ip route add default via 10.9.1.1 dev up1 && ip route add default via 2001:db8:4::1 dev up1",
    );
    if ipv4 {
        testbed
            .router
            .shell("ip address add 10.9.0.2/24 dev up0 && ip route add default via 10.9.0.1 dev up0 metric 900");
    }
}

/// Answers web requests with a redirection that tells the address family of the client.
fn serve_portal(listener: &TcpListener) {
    for client in listener.incoming() {
        let Ok(mut client) = client else { return };
        let from = client.peer_addr().unwrap().ip().to_canonical();
        let family = if from.is_ipv4() { "ipv4" } else { "ipv6" };
        let _ = client.read(&mut [0; 1024]);
        let _ = write!(client, "HTTP/1.1 302 Found\r\nLocation: http://login.example/?{family}\r\n\r\n");
    }
}

/// A portal is named while it is in the way, is asked by its uplink only, and is forgotten with the first answer of the
/// home agent.
fn portal_is_named(test: &str, ipv4: bool) {
    let Some(testbed) = Testbed::new(test) else { return };
    testbed.enroll(&[]);
    build_portal(&testbed, ipv4);
    let listener = testbed.agent.enter(|| TcpListener::bind("[::]:8080").unwrap());
    std::thread::spawn(move || serve_portal(&listener));
    let _radvd = testbed.advertise("2001:db8:2::/64");
    let _router = testbed.start_router("");
    let family = if ipv4 { "ipv4" } else { "ipv6" };
    await_hint(&testbed, &format!("up0: the network has a captive portal: http://login.example/?{family}"), true);
    let logs = testbed.logs();
    assert_eq!(logs.matches("has a captive portal").count(), 1, "{logs}");
    let counted = testbed.agent.shell("nft list chain inet portal elsewhere");
    assert_eq!(counted.matches("packets 0 bytes 0").count(), 2, "{counted}");
    testbed.agent.shell("nft delete table inet portal");
    let _agent = testbed.start_agent();
    testbed.await_binding("2001:db8:2:");
    await_hint(&testbed, "captive portal", false);
}

#[test]
fn captive_portal_over_ipv4_is_named_until_the_home_agent_answers() {
    portal_is_named("captive_portal_over_ipv4_is_named_until_the_home_agent_answers", true);
}

#[test]
fn captive_portal_over_ipv6_is_named_until_the_home_agent_answers() {
    portal_is_named("captive_portal_over_ipv6_is_named_until_the_home_agent_answers", false);
}
