//! IPv4 inside a mobile network: its packets go through the tunnel over IPv6 and over IPv4, all real binaries; what is on
//! the wire is judged by tshark (RFC 5555 §3.1.1, §3.2.1, §4.4.3).

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails at the assertion")]

mod testbed;

use std::fs;
use std::process::Command;
use testbed::capture::Capture;
use testbed::nat::{AGENT, NatTestbed, ROUTER, Transfer, dissect};
use testbed::{Namespace, Testbed, run, wait_or_report};

/// The network inside, by the home agent's table.
const NETWORK: &str = "10.77.1.0/24";
/// A host beyond the home agent.
const CORRESPONDENT: &str = "198.51.100.9";

fn begin(test: &str, more: &[&str]) -> Option<NatTestbed> {
    let nat_testbed = NatTestbed::enrolled(test, true, more)?;
    let agent = format!("sysctl -qw net.ipv4.ip_forward=1 && ip address add {CORRESPONDENT}/32 dev lo");
    nat_testbed.testbed.agent.shell(&agent);
    Some(nat_testbed)
}

/// Gives the node inside an address, as a DHCP server there would.
fn lease(testbed: &Testbed, address: &str, router: &str) {
    testbed.node.shell(&format!("ip address add {address} dev eth0 && ip route add default via {router}"));
}

fn await_ipv4_inside(testbed: &Testbed) {
    let reaches = || testbed.node.ping(1, "1000", CORRESPONDENT).contains("1 received");
    wait_or_report("IPv4 from inside", reaches, || testbed.logs());
}

#[test]
fn inner_ipv4_survives_handovers_to_a_nat() {
    let test = "inner_ipv4_survives_handovers_to_a_nat";
    let Some(nat_testbed) = begin(test, &["--prefix", NETWORK]) else { return };
    let testbed = &nat_testbed.testbed;
    let (file, listener) = nat_testbed.capture();
    let native = Capture::begin(testbed, &testbed.agent, "visit0", "visit0");
    let _agent = testbed.start_agent_more(AGENT);
    let radvd = testbed.advertise("2001:db8:2::/64");
    // The home agent says which it is, and the router takes its first address.
    let _router = testbed.start_router(&format!("dynamic_ipv4 = 24{ROUTER}"));
    testbed.await_binding("2001:db8:2:");
    lease(testbed, "10.77.1.2/24", "10.77.1.1");
    await_ipv4_inside(testbed);
    assert!(testbed.show("ha", "bindings").contains(NETWORK) && testbed.show("mr", "bindings").contains(NETWORK));
    let transfer = Transfer::begin(testbed, &format!("{CORRESPONDENT}:5002"));
    transfer.goes_on("IPv4 over IPv6");

    drop(radvd);
    testbed.router.shell("ip link set up0 down");
    nat_testbed.await_ipv4();
    transfer.goes_on("IPv4 over IPv4 behind a NAT");

    let _radvd = testbed.advertise("2001:db8:3::/64");
    testbed.router.shell("ip link set up0 up");
    testbed.await_binding("2001:db8:3:");
    transfer.goes_on("IPv4 over IPv6 of another network");
    transfer.end();

    drop(listener);
    let native = native.end();
    native.check();
    assert!(native.count("ipv6.nxt==4 && tcp") > 0);
    assert!(native.count("mip6.mhtype==5 && mip6.ipv4ha.preflen==24") > 0);
    assert!(native.count("mip6.mhtype==6 && mip6.ipv4aa.sts==0") > 0);
    assert_eq!(dissect(&file, "udp.port==4191 && mipv6 && _ws.malformed", "frame.number"), "");
    assert!(!dissect(&file, "udp.port==4191 && udp.payload[0:1]==45", "frame.number").is_empty());
}

#[test]
fn dynamic_ipv4_home_addresses_come_from_the_pool() {
    let test = "dynamic_ipv4_home_addresses_come_from_the_pool";
    let Some(nat_testbed) = begin(test, &[]) else { return };
    let testbed = &nat_testbed.testbed;
    let pool = "[home_agent.ipv4_pool]\nprefix = \"10.128.0.0/16\"\n";
    let _agent = testbed.start_agent_more(&format!("{AGENT}{pool}"));
    let _radvd = testbed.advertise("2001:db8:2::/64");
    let config = testbed.router_config("auto", "dynamic_ipv4 = 32\n");
    let text = fs::read_to_string(&config).unwrap().replace("/56\"]", "/56\", \"10.99.0.0/24\"]");
    fs::write(&config, text).unwrap();
    let _router = testbed.router.roam6(&config);
    testbed.await_binding("2001:db8:2:");
    let own = || {
        let shown = testbed.router.shell("ip -4 -o address show dev in0");
        shown.split_whitespace().find(|word| word.starts_with("10.128.")).map(str::to_owned)
    };
    wait_or_report("an address of the pool", || own().is_some(), || testbed.logs());
    let address = own().unwrap().trim_end_matches("/32").to_owned();
    assert!(testbed.show("ha", "bindings").contains(&address));
    let reaches = || {
        let mut ping = testbed.router.command(&["ping", "-nc1", "-W1", "-I", &address, CORRESPONDENT]);
        ping.output().unwrap().status.success()
    };
    wait_or_report("the home agent's side", reaches, || testbed.logs());
    // As docs/mobile-router.md says.
    testbed.router.shell(&format!(
        "ip address add 192.168.1.1/24 dev in0 && \
         nft 'add table ip bus; add chain ip bus post {{ type nat hook postrouting priority 100; }}' && \
         nft 'add rule ip bus post oifname nemo0 ip saddr 192.168.1.0/24 snat to {address}' && \
         ip rule add to 192.168.1.0/24 lookup main priority 1001 && \
         ip rule add from 192.168.1.0/24 iif in0 lookup 6275000 priority 1101"
    ));
    lease(testbed, "192.168.1.2/24", "192.168.1.1");
    await_ipv4_inside(testbed);
    let log = fs::read_to_string(testbed.file("mr.log")).unwrap();
    assert!(log.contains("rejects 10.99.0.0/24: status 133"), "{log}");
    assert!(!testbed.show("ha", "bindings").contains("10.99.0.0"));
}

#[test]
fn the_home_agent_answers_arp_for_ipv4_home_addresses() {
    let test = "the_home_agent_answers_arp_for_ipv4_home_addresses";
    let Some(nat_testbed) = begin(test, &["--prefix", "10.79.0.5/32"]) else { return };
    let testbed = &nat_testbed.testbed;
    let neighbour = Namespace::new().unwrap();
    testbed.agent.shell(&format!(
        "ip link add home0 type veth peer name eth0 netns {} && ip link set home0 up && \
         ip address add 10.79.0.1/24 dev home0 && ip address add 2001:db8:1::2/64 dev home0 nodad",
        neighbour.number()
    ));
    neighbour.shell("ip link set eth0 up && ip address add 10.79.0.9/24 dev eth0");
    let _agent = testbed.start_agent_more(&format!("home_link = \"home0\"\n{AGENT}"));
    let _radvd = testbed.advertise("2001:db8:2::/64");
    let mut router = testbed.start_router(&format!("dynamic_ipv4 = 32{ROUTER}"));
    testbed.await_binding("2001:db8:2:");
    wait_or_report("a neighbour", || neighbour.ping(1, "1000", "10.79.0.5").contains("1 received"), || testbed.logs());
    let found = || neighbour.shell("ip neigh show 10.79.0.5 dev eth0");
    let own = testbed.agent.link_address("home0");
    assert!(found().contains(&own), "{} is not {own}", found());

    run(Command::new("kill").args(["-TERM", &router.0.id().to_string()]));
    assert!(router.0.wait().unwrap().success());
    wait_or_report("the end", || testbed.agent.shell("ip neigh show proxy").is_empty(), || testbed.logs());
    neighbour.shell("ip neigh flush dev eth0");
    assert!(neighbour.ping(5, "1000", "10.79.0.5").contains("Destination Host Unreachable"), "no ARP reply");
}
