//! IPv4 inside tunnels (RFC 5555 §4.4.3, §4.5.1): the kernel routes it, the programs encapsulate and decapsulate it.

use crate::netns_host::Host;
use crate::testbed::{
    BackEnd, CN, COA, HA, HOME, MNN, MNP, Testbed, TunnelEnd, arrives, at_home_agent, is_dropped, turned,
};
use crate::testbed_or_skip;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn6, sendto, socket};
use roam6_proto::contract::item::Tunnel;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV6, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Duration;

pub const CN4: &str = "198.51.100.2";
pub const MNN4: &str = "10.77.1.2";
pub const MNP4: &str = "10.77.1.0/24";
pub const OTHER_MNN4: &str = "10.77.2.2";
const OTHER_MNP4: &str = "10.77.2.0/24";

fn forward(host: &Host) {
    host.enter(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1")).unwrap();
}

fn number(host: &Host, interface: &str, address: &str, gateway: Option<&str>) {
    host.run(&format!("ip address add {address} dev {interface}"));
    if let Some(gateway) = gateway {
        host.run(&format!("ip route add default via {gateway}"));
    }
}

fn route_home(side: &TunnelEnd, network: &str) {
    forward(&side.host);
    side.host.run(&format!("ip route add default dev {} table 10 mtu 1460", side.device()));
    side.host.run(&format!("ip rule add to {network} lookup main pref 90"));
    side.host.run(&format!("ip rule add from {network} lookup 10 pref 100"));
}

fn with(mut tunnel: Tunnel, network: &str) -> Tunnel {
    tunnel.remote_prefixes.push(network.parse().unwrap());
    tunnel
}

/// Configures IPv4 in the testbed: on the correspondent, both routers, and the mobile network node.
pub fn dress(testbed: &mut Testbed) {
    number(&testbed.cn, "cn0", &format!("{CN4}/24"), Some("198.51.100.1"));
    number(&testbed.ha.host, "ha0", "198.51.100.1/24", None);
    number(&testbed.mr.host, "mr0", "10.77.1.1/24", None);
    number(&testbed.mnn, "mnn0", &format!("{MNN4}/24"), Some("10.77.1.1"));
    forward(&testbed.ha.host);
    let paths = [(COA, 1, 1)];
    let tunnel = with(at_home_agent(1, (HOME, MNP), &paths), MNP4);
    testbed.ha.put(&tunnel);
    let mut tunnel = testbed.at_mobile_router(&paths);
    tunnel.local_prefixes.push(MNP4.parse().unwrap());
    testbed.mr.put(&tunnel);
    route_home(&testbed.mr, MNP4);
    let device = testbed.ha.device();
    testbed.ha.host.run(&format!("ip route add {MNP4} dev {device} mtu 1460"));
}

/// Checks that packets of every size pass in both directions, and that those too big cause an error.
pub fn passes(testbed: &Testbed, which: &str) {
    let (cn, mnn) = (testbed.cn.udp(&format!("{CN4}:5000")), testbed.mnn.udp(&format!("{MNN4}:5000")));
    for (from, to, host, other) in [(&cn, &mnn, &testbed.cn, MNN4), (&mnn, &cn, &testbed.mnn, CN4)] {
        for size in [0, 1, 11, 12, 500, 1432] {
            assert!(arrives(from, to, size), "{which}: {size} octets of payload");
        }
        assert!(is_dropped(from, to, 1433), "{which}: 1461 octets do not fit");
        assert!(host.run(&format!("ip route get {other}")).contains("mtu 1460"), "{which}");
        assert!(arrives(from, to, 1433), "{which}: in fragments they do");
    }
}

#[test]
fn ipv4_passes_the_tunnel_both_ways_at_any_size() {
    let mut testbed = testbed_or_skip!("ipv4_passes_the_tunnel_both_ways_at_any_size");
    dress(&mut testbed);
    passes(&testbed, "bpf");
    for side in [&mut testbed.ha, &mut testbed.mr] {
        assert!(side.count("encapsulated_slow") >= 8 && side.count("decapsulated") >= 8);
    }
}

pub fn bulk(mut from: &TcpStream, mut to: &TcpStream, octets: usize) {
    let pattern: Vec<u8> = (0..1 << 16).map(|i| i as u8).collect();
    std::thread::scope(|scope| {
        scope.spawn(|| (0..octets >> 16).for_each(|_| from.write_all(&pattern).unwrap()));
        let mut chunk = vec![0; pattern.len()];
        for _ in 0..octets >> 16 {
            to.read_exact(&mut chunk).unwrap();
            assert!(chunk == pattern);
        }
    });
}

pub fn connect(server: (&Host, &str), client: &Host) -> (TcpStream, TcpStream) {
    let address = format!("{}:6000", server.1);
    let listener = server.0.enter(|| TcpListener::bind(&address)).unwrap();
    let near = client.enter(|| TcpStream::connect(&address)).unwrap();
    (near, listener.accept().unwrap().0)
}

#[test]
fn bulk_tcp_over_ipv4_keeps_gso_buffers() {
    let mut testbed = testbed_or_skip!("bulk_tcp_over_ipv4_keeps_gso_buffers");
    dress(&mut testbed);
    const OCTETS: usize = 16 << 20;
    let (client, server) = connect((&testbed.mnn, MNN4), &testbed.cn);
    bulk(&client, &server, OCTETS);
    let (enters, leaves) = (testbed.ha.count("encapsulated_slow"), testbed.mr.count("decapsulated"));
    bulk(&server, &client, OCTETS);
    assert!(OCTETS as u64 / enters > 8000, "large buffers stay large: {enters}");
    assert!(OCTETS as u64 / leaves > 8000, "large buffers stay large: {leaves}");
}

/// A second mobile router and the node behind it, all with IPv4.
pub fn two_networks(testbed: &mut Testbed) -> (TunnelEnd, Host) {
    dress(testbed);
    let (mut other, node) = testbed.second_router(false);
    number(&other.host, "in0", "10.77.2.1/24", None);
    number(&node, "mnn0", &format!("{OTHER_MNN4}/24"), Some("10.77.2.1"));
    let tunnel = testbed.ha.act(|tunnels| tunnels.find(roam6_proto::contract::item::TunnelId(2))).unwrap();
    let tunnel = with(tunnel, OTHER_MNP4);
    testbed.ha.put(&tunnel);
    other.put(&turned(tunnel));
    route_home(&other, OTHER_MNP4);
    testbed.ha.host.run(&format!("ip route add {OTHER_MNP4} dev nemo0 mtu 1460"));
    (other, node)
}

#[test]
fn mobile_networks_reach_each_other_by_ipv4() {
    let mut testbed = testbed_or_skip!("mobile_networks_reach_each_other_by_ipv4");
    let (_other, node) = two_networks(&mut testbed);
    let (a, b) = (testbed.mnn.udp(&format!("{MNN4}:5000")), node.udp(&format!("{OTHER_MNN4}:5000")));
    for size in [0, 12, 1000, 1432] {
        assert!(arrives(&a, &b, size) && arrives(&b, &a, size), "{size}");
    }
    let (client, server) = connect((&node, OTHER_MNN4), &testbed.mnn);
    bulk(&client, &server, 1 << 20);
    bulk(&server, &client, 1 << 20);
}

#[test]
fn only_registered_ipv4_prefixes_may_use_the_tunnel() {
    let mut testbed = testbed_or_skip!("only_registered_ipv4_prefixes_may_use_the_tunnel");
    dress(&mut testbed);
    let (cn, mnn) = (testbed.cn.udp(&format!("{CN4}:5000")), testbed.mnn.udp(&format!("{MNN4}:5000")));
    assert!(arrives(&mnn, &cn, 10));
    // A node behind the mobile router sends from an address that is not its network's, and the router lets it.
    let mut lax = testbed.at_mobile_router(&[(COA, 1, 1)]);
    lax.local_prefixes.extend([MNP4, "10.99.0.0/16"].map(|prefix| prefix.parse::<roam6_wire::Prefix>().unwrap()));
    testbed.mr.put(&lax);
    testbed.mnn.run("ip address add 10.99.0.1/32 dev mnn0");
    testbed.mr.host.run("ip route add 10.99.0.0/16 dev mr0");
    testbed.mr.host.run("ip rule add from 10.99.0.0/16 lookup 10 pref 100");
    assert!(is_dropped(&testbed.mnn.udp("10.99.0.1:5000"), &cn, 10));
    assert_eq!(testbed.ha.count("dropped_source"), 1);
    assert!(arrives(&mnn, &cn, 10));
    testbed.ha.put(&at_home_agent(1, (HOME, MNP), &[(COA, 1, 1)]));
    assert!(is_dropped(&mnn, &cn, 10));
    assert_eq!(testbed.ha.count("dropped_source"), 2, "no longer registered");
}

/// An IPv6 header with IPv4-mapped addresses is not IPv4, and must not pass for it (RFC 6890 §2.2.3).
#[test]
fn ipv4_mapped_source_in_an_ipv6_header_is_dropped() {
    let mut testbed = testbed_or_skip!("ipv4_mapped_source_in_an_ipv6_header_is_dropped");
    dress(&mut testbed);
    let raw = || socket(AddressFamily::Inet6, SockType::Raw, SockFlag::empty(), SockProtocol::Raw);
    let raw = testbed.mr.host.enter(raw).unwrap();
    let to: SockaddrIn6 = SocketAddrV6::new(HA.parse().unwrap(), 0, 0, 0).into();
    let mapped = MNN4.parse::<Ipv4Addr>().unwrap().to_ipv6_mapped().to_string();
    for (source, destination, counted) in
        [(MNN, CN, "decapsulated"), (&mapped, CN, "dropped_scope"), (MNN, &mapped, "dropped_scope")]
    {
        let before = testbed.ha.count(counted);
        let inner = header(59, 0, (source, destination));
        sendto(raw.as_raw_fd(), &[header(41, 40, (COA, HA)), inner].concat(), &to, MsgFlags::empty()).unwrap();
        let waited = (0..100).any(|_| {
            std::thread::sleep(Duration::from_millis(5));
            testbed.ha.count(counted) > before
        });
        assert!(waited, "from {source} to {destination}: {counted}");
    }
}

/// An IPv6 header.
fn header(next: u8, payload: u16, (source, destination): (&str, &str)) -> Vec<u8> {
    let address = |text: &str| text.parse::<Ipv6Addr>().unwrap().octets();
    let length = payload.to_be_bytes();
    [&[0x60, 0, 0, 0, length[0], length[1], next, 64], &address(source)[..], &address(destination)].concat()
}

/// Both endpoints by kernel devices, and one of each.
pub fn dressed(at_ha: BackEnd, at_mr: BackEnd) -> Testbed {
    let mut testbed = Testbed::with(at_ha, at_mr);
    dress(&mut testbed);
    testbed
}
