//! Tunnels in UDP over IPv6 (RFC 6935, RFC 6936): the programs encapsulate and decapsulate, the daemon fragments and reads
//! what the kernel has reassembled.

use crate::ipv4::{self, MNN4, bulk, connect};
use crate::over_ipv4::{FAST, counts};
use crate::testbed::{CN, COA, HA, HOME, MNN, MNP, Testbed, arrives, at_home_agent, turned};
use crate::testbed_or_skip;
use roam6_proto::contract::item::{Encap, TunnelId};
use roam6_wire::ip4::DSMIP_PORT;
use std::time::Duration;

/// Opens the back ends with tunnels in UDP, and drops all others on the way.
fn dress(testbed: &mut Testbed) {
    open(testbed);
    for command in [
        "add table ip6 filter",
        "add chain ip6 filter forward { type filter hook forward priority 0 ; }",
        "add rule ip6 filter forward meta l4proto { 4, 41 } drop",
    ] {
        testbed.core.run(&format!("nft {command}"));
    }
}

fn open(testbed: &mut Testbed) {
    let run = testbed.run.path().to_owned();
    for (end, name, interfaces, signalling) in
        [(&mut testbed.ha, "ha", &["ha0", "ha1"][..], HA), (&mut testbed.mr, "mr", &["mr0", "mr1", "mr2"], HOME)]
    {
        end.tunnels = None;
        end.open_with(&run.join(name), interfaces, [signalling.parse().unwrap()].into());
    }
}

/// Puts the tunnels with this MTU, and IPv4 inside if `prefix4` is given.
fn bind(testbed: &mut Testbed, mtu: u32, prefix4: Option<&str>) {
    let mut tunnel = at_home_agent(1, (HOME, MNP), &[(COA, 1, 1)]);
    tunnel.paths[0].encap = Encap::Udp { local: DSMIP_PORT, remote: DSMIP_PORT };
    tunnel.paths[0].mtu = mtu;
    tunnel.remote_prefixes.extend(prefix4.map(|prefix| prefix.parse::<roam6_wire::Prefix>().unwrap()));
    testbed.ha.put(&tunnel);
    let mut tunnel = turned(tunnel);
    tunnel.paths[0].link = Some(roam6_proto::LinkId(testbed.mr.host.index("mr1")));
    testbed.mr.put(&tunnel);
    let mtu = testbed.ha.act(|tunnels| tunnels.mtu(TunnelId(1))).unwrap();
    testbed.ha.host.ip(&format!("route change {MNP} dev nemo0 mtu {mtu}"));
    testbed.mr.host.ip(&format!("route change default dev nemo0 table 10 mtu {mtu}"));
    if let Some(prefix) = prefix4 {
        testbed.ha.host.run(&format!("ip route change {prefix} dev nemo0 mtu {mtu}"));
        testbed.mr.host.run(&format!("ip route change default dev nemo0 table 10 mtu {mtu}"));
    }
}

#[test]
fn programs_encapsulate_in_udp_over_ipv6() {
    let mut testbed = testbed_or_skip!("programs_encapsulate_in_udp_over_ipv6");
    dress(&mut testbed);
    let (cn, mnn) = (testbed.cn.udp(&format!("[{CN}]:5000")), testbed.mnn.udp(&format!("[{MNN}]:5000")));
    bind(&mut testbed, 1452, None);
    for size in [0, 1, 11, 12, 500, 1200, 1404] {
        assert!(arrives(&cn, &mnn, size), "{size} octets down");
        assert!(arrives(&mnn, &cn, size), "{size} octets up");
    }
    for end in [&mut testbed.ha, &mut testbed.mr] {
        let before = counts(end, FAST);
        for _ in 0..10 {
            assert!(arrives(&cn, &mnn, 500) && arrives(&mnn, &cn, 500));
        }
        let [encapsulated, decapsulated, carried] = counts(end, FAST);
        assert!(encapsulated - before[0] >= 5 && decapsulated - before[1] >= 10);
        assert_eq!(carried, before[2], "none by the daemon");
    }
}

#[test]
fn bulk_tcp_over_udp6_keeps_gso_buffers() {
    let mut testbed = testbed_or_skip!("bulk_tcp_over_udp6_keeps_gso_buffers");
    dress(&mut testbed);
    bind(&mut testbed, 1452, None);
    const OCTETS: usize = 16 << 20;
    let (client, server) = connect((&testbed.mnn, &format!("[{MNN}]")), &testbed.cn);
    let handled = |testbed: &mut Testbed| counts(&mut testbed.mr, FAST).iter().sum::<u64>();
    let before = handled(&mut testbed);
    bulk(&client, &server, OCTETS);
    let packets = handled(&mut testbed) - before;
    bulk(&server, &client, OCTETS);
    // Acknowledgements included.
    assert!(OCTETS as u64 / packets > 4000, "large buffers stay large: {packets}");
}

#[test]
fn ipv4_passes_udp_over_ipv6() {
    let mut testbed = testbed_or_skip!("ipv4_passes_udp_over_ipv6");
    ipv4::dress(&mut testbed);
    dress(&mut testbed);
    let cn = testbed.cn.udp("198.51.100.2:5000");
    let mnn = testbed.mnn.udp(&format!("{MNN4}:5000"));
    bind(&mut testbed, 1452, Some("10.77.1.0/24"));
    for size in [0, 12, 500, 1400] {
        assert!(arrives(&cn, &mnn, size), "{size} octets down");
        assert!(arrives(&mnn, &cn, size), "{size} octets up");
    }
    let (client, server) = connect((&testbed.mnn, MNN4), &testbed.cn);
    bulk(&client, &server, 1 << 20);
    bulk(&server, &client, 1 << 20);
}

#[test]
fn packets_longer_than_the_path_mtu_are_fragmented_by_the_daemon() {
    let mut testbed = testbed_or_skip!("packets_longer_than_the_path_mtu_are_fragmented_by_the_daemon");
    dress(&mut testbed);
    bind(&mut testbed, 1232, None);
    let (cn, mnn) = (testbed.cn.udp(&format!("[{CN}]:5000")), testbed.mnn.udp(&format!("[{MNN}]:5000")));
    for size in [1100, 1232] {
        assert!(arrives(&cn, &mnn, size), "{size} octets down");
        assert!(arrives(&mnn, &cn, size), "{size} octets up");
    }
    assert!(testbed.mr.count("fragmented") >= 1 && testbed.ha.count("fragmented") >= 1);
}

#[test]
fn tunnel_in_udp_over_ipv6_forwards_while_no_daemon_runs() {
    let mut testbed = testbed_or_skip!("tunnel_in_udp_over_ipv6_forwards_while_no_daemon_runs");
    dress(&mut testbed);
    bind(&mut testbed, 1452, None);
    let (cn, mnn) = (testbed.cn.udp(&format!("[{CN}]:5000")), testbed.mnn.udp(&format!("[{MNN}]:5000")));
    assert!(arrives(&cn, &mnn, 500) && arrives(&mnn, &cn, 500));
    testbed.ha.tunnels = None;
    testbed.mr.tunnels = None;
    // Longer than a cached next hop lives.
    for _ in 0..20 {
        assert!(arrives(&cn, &mnn, 500) && arrives(&mnn, &cn, 500), "without a daemon");
        std::thread::sleep(Duration::from_millis(25));
    }
    open(&mut testbed);
    bind(&mut testbed, 1452, None);
    for end in [&mut testbed.ha, &mut testbed.mr] {
        end.act(|tunnels| tunnels.remove_stale()).unwrap();
    }
    assert!(arrives(&cn, &mnn, 500) && arrives(&mnn, &cn, 500), "with the next daemon");
}
