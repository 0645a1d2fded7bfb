//! A mobile router with an IPv6 uplink and one that has IPv4 only, behind a NAT, all real binaries; what is on the wire is
//! judged by tshark (RFC 5555).

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails where it stands")]

mod road;

use road::city::{AGENT, City, ROUTER, Transfer, dissect};
use road::wait_for;
use std::time::Instant;

#[test]
fn a_transfer_lives_on_from_ipv6_behind_a_nat_and_back() {
    let Some(city) = City::new("a_transfer_lives_on_from_ipv6_behind_a_nat_and_back", true) else { return };
    let road = &city.road;
    let (file, listener) = city.capture();
    let _agent = road.start_agent_more(AGENT);
    let _radvd = road.advertise("2001:db8:2::/64");
    let _router = road.start_router(ROUTER);
    road.await_binding("2001:db8:2:");
    wait_for("a way out", || city.ping("56").contains(" 0% packet loss"));
    let transfer = Transfer::begin(road, "[2001:db8:9::9]:5001");
    transfer.goes_on("over IPv6");

    road.router.shell("ip link set up0 down");
    let first = city.await_ipv4();
    assert!(first.starts_with("203.0.113.2:"), "{first}");
    transfer.goes_on("over IPv4 behind a NAT");
    // What fits over IPv6 fits here; that a little more would, the node has unlearnt there.
    let told = road.node.ping(30, "1412", "2001:db8:9::9");
    assert!(told.contains(" 0% packet loss"), "1460 octets: {told}");

    city.forget();
    let began = Instant::now();
    wait_for("another mapping", || city.bound_to().is_some_and(|bound| bound != first));
    println!("bound to another mapping after {:?}", began.elapsed());
    transfer.goes_on("after the NAT has forgotten all");

    road.router.shell("ip link set up0 up");
    road.await_binding("2001:db8:2:");
    transfer.goes_on("over IPv6 again");
    transfer.end();

    drop(listener);
    let kinds = dissect(&file, "udp.port==4191 && mipv6", "mip6.mhtype");
    assert!(kinds.lines().any(|kind| kind == "5") && kinds.lines().any(|kind| kind == "6"), "{kinds}");
    // What it takes the transfer for is not asked.
    assert_eq!(dissect(&file, "udp.port==4191 && mipv6 && _ws.malformed", "frame.number"), "");
    assert!(!dissect(&file, "udp.port==4191 && tcp", "frame.number").is_empty());
}

#[test]
fn without_a_nat_packets_go_right_behind_the_ipv4_header() {
    let Some(city) = City::new("without_a_nat_packets_go_right_behind_the_ipv4_header", false) else { return };
    let (file, listener) = city.capture();
    let _agent = city.road.start_agent_more(AGENT);
    let _router = city.road.start_router(ROUTER);
    assert_eq!(city.await_ipv4(), "203.0.113.7");
    wait_for("a way out", || city.ping("1432").contains(" 0% packet loss"));
    assert!(city.ping("1433").contains("100% packet loss"), "1480 octets and 20 of header");
    drop(listener);
    assert!(!dissect(&file, "ip.proto==41 && icmpv6.type==128", "frame.number").is_empty());
    assert!(!dissect(&file, "udp.port==4191 && mipv6", "frame.number").is_empty());
    assert_eq!(dissect(&file, "(mipv6 || icmpv6) && _ws.malformed", "frame.number"), "");
}

#[test]
fn updates_in_esp_pass_a_nat() {
    let Some(city) = City::enrolled("updates_in_esp_pass_a_nat", true, &["--ipsec"]) else { return };
    let (file, listener) = city.capture();
    let _agent = city.road.start_agent_more(AGENT);
    let _router = city.road.start_router(ROUTER);
    let first = city.await_ipv4();
    wait_for("a way out", || city.ping("56").contains(" 0% packet loss"));
    city.forget();
    wait_for("another mapping", || city.bound_to().is_some_and(|bound| bound != first));
    drop(listener);
    assert!(!dissect(&file, "udp.port==4191 && esp", "frame.number").is_empty());
    assert_eq!(dissect(&file, "mipv6 && !esp", "frame.number"), "", "nothing in the clear");
}
