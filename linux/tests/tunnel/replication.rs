//! Packet replication and elimination (RFC 8655 §3.2.2.2, IEEE 802.1CB) between the ends of a tunnel, over IPv6, in UDP over
//! IPv6, and over IPv4.

use crate::ipv4::{self, CN4, MNN4, MNP4};
use crate::testbed::{
    CN, COA, HA, HOME, MNN, MNP, SECOND_COA, Testbed, TunnelEnd, arrives, at_home_agent, is_dropped, turned,
};
use crate::testbed_or_skip;
use roam6_proto::LinkId;
use roam6_proto::contract::config::flow::FlowSelector;
use roam6_proto::contract::item::{Encap, Tunnel, TunnelFlow, TunnelPath};
use roam6_wire::ip4::DSMIP_PORT;
use roam6_wire::{Bid, Ipv4Endpoint};
use std::net::{Ipv4Addr, UdpSocket};

const AGENT4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const ROUTER4: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 2);
/// Octets of inner packets that pass once and twice on a path of Ethernet.
const MTU: usize = 1460;
const NUMBERED_MTU: usize = MTU - 8;
/// Octets of the inner headers.
const HEADERS: usize = 48;

/// How the second path is encapsulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Second {
    Ip6,
    Udp6,
    /// IPv4 with this port; 0: without UDP.
    Ip4(u16),
}

/// A flow by both paths.
fn twice(selector: FlowSelector) -> TunnelFlow {
    TunnelFlow { selector, ingress: None, bid: Bid(1), replica: Some(Bid(2)) }
}

/// Puts the tunnels with two paths and these flows at each end.
fn bind(testbed: &mut Testbed, second: Second, flows: Vec<TunnelFlow>) {
    let mut tunnel = at_home_agent(1, (HOME, MNP), &[(COA, 1, 1), (SECOND_COA, 2, 0)]);
    tunnel.remote_prefixes.push(MNP4.parse().unwrap());
    let path: &mut TunnelPath = &mut tunnel.paths[1];
    match second {
        Second::Ip6 => {}
        Second::Udp6 => {
            path.encap = Encap::Udp { local: DSMIP_PORT, remote: DSMIP_PORT };
            path.mtu = 1452;
        }
        Second::Ip4(port) => {
            let end = |address| Ipv4Endpoint { address, port };
            (path.local, path.remote) = (end(AGENT4).to_ipv6(), end(ROUTER4).to_ipv6());
            path.mtu = 1500 - end(AGENT4).overhead();
        }
    }
    tunnel.flows = flows;
    testbed.ha.put(&tunnel);
    let mut tunnel: Tunnel = turned(tunnel);
    for (path, link) in tunnel.paths.iter_mut().zip(["mr1", "mr2"]) {
        path.link = Some(LinkId(testbed.mr.host.index(link)));
    }
    testbed.mr.put(&tunnel);
}

/// Gives the second path IPv4 too, and opens the back ends with tunnels over IPv4 and in UDP.
fn dress(testbed: &mut Testbed) {
    for (host, interface, address, gateway) in [
        (&testbed.ha.host, "ha1", "192.0.2.1/24", Some("192.0.2.2")),
        (&testbed.core, "core0", "192.0.2.2/24", None),
        (&testbed.core, "core2", "203.0.113.1/24", None),
        (&testbed.mr.host, "mr2", "203.0.113.2/24", Some("203.0.113.1")),
    ] {
        host.run(&format!("ip address add {address} dev {interface}"));
        if let Some(gateway) = gateway {
            host.run(&format!("ip route add default via {gateway}"));
        }
    }
    testbed.core.enter(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1")).unwrap();
    let run = testbed.run.path().to_owned();
    for (end, name, interfaces, signalling) in
        [(&mut testbed.ha, "ha", &["ha0", "ha1"][..], HA), (&mut testbed.mr, "mr", &["mr0", "mr1", "mr2"], HOME)]
    {
        end.tunnels = None;
        end.open_with(&run.join(name), interfaces, [signalling.parse().unwrap()].into());
    }
}

const COUNTERS: [&str; 3] = ["replicated", "unreplicated", "eliminated"];

fn counts(end: &mut TunnelEnd) -> [u64; 3] {
    COUNTERS.map(|name| end.count(name))
}

/// Sends packets one after the other, each of which must arrive once; returns what sender and receiver have counted.
fn send(
    testbed: &mut Testbed,
    (from, to): (&UdpSocket, &UdpSocket),
    octets: usize,
    down: bool,
) -> ([u64; 3], [u64; 3]) {
    let mut read = || [counts(&mut testbed.ha), counts(&mut testbed.mr)];
    let before = read();
    for _ in 0..5 {
        assert!(arrives(from, to, octets), "{octets} octets");
    }
    to.set_nonblocking(true).unwrap();
    assert!(to.recv(&mut [0; 2048]).is_err(), "a second copy of {octets} octets");
    to.set_nonblocking(false).unwrap();
    let after = read();
    let moved = |end: usize| std::array::from_fn(|at| after[end][at] - before[end][at]);
    if down { (moved(0), moved(1)) } else { (moved(1), moved(0)) }
}

#[test]
fn each_packet_takes_both_paths_and_arrives_once() {
    let mut testbed = testbed_or_skip!("each_packet_takes_both_paths_and_arrives_once");
    dress(&mut testbed);
    ipv4::dress(&mut testbed);
    let (cn, mnn) = (testbed.cn.udp(&format!("[{CN}]:5000")), testbed.mnn.udp(&format!("[{MNN}]:5000")));
    let (cn4, mnn4) = (testbed.cn.udp(&format!("{CN4}:5000")), testbed.mnn.udp(&format!("{MNN4}:5000")));
    for second in [Second::Ip6, Second::Udp6, Second::Ip4(DSMIP_PORT), Second::Ip4(0)] {
        bind(&mut testbed, second, vec![twice(FlowSelector { protocol: Some(17), ..FlowSelector::default() })]);
        let most = match second {
            Second::Udp6 => 1452 - 8,
            _ => NUMBERED_MTU,
        };
        for octets in [1, 200, most - HEADERS] {
            for (from, to, down) in [(&cn, &mnn, true), (&mnn, &cn, false), (&cn4, &mnn4, true), (&mnn4, &cn4, false)] {
                let seen = send(&mut testbed, (from, to), octets, down);
                assert_eq!(seen, ([5, 0, 0], [0, 0, 5]), "{second:?}, {octets} octets, down {down}");
            }
        }
        let (sent, received) = send(&mut testbed, (&cn, &mnn), most - HEADERS + 1, true);
        assert_eq!((sent, received), ([0, 5, 0], [0, 0, 0]), "{second:?}: no room for the number");
        for lost in ["core1", "core2"] {
            cut(&testbed, Some(lost));
            for (from, to) in [(&cn, &mnn), (&mnn, &cn)] {
                assert!(arrives(from, to, 100), "{second:?} without {lost}");
            }
        }
        cut(&testbed, None);
    }
}

/// Makes `core` discard all packets to and from an interface.
fn cut(testbed: &Testbed, interface: Option<&str>) {
    testbed.core.run("nft add table inet cut");
    testbed.core.run("nft delete table inet cut");
    let Some(interface) = interface else { return };
    testbed.core.run("nft add table inet cut");
    testbed.core.run("nft add chain inet cut forward { type filter hook forward priority 0 ; }");
    for way in ["iifname", "oifname"] {
        testbed.core.run(&format!("nft add rule inet cut forward {way} {interface} drop"));
    }
}

#[test]
fn packets_of_other_flows_and_with_one_path_have_no_number() {
    let mut testbed = testbed_or_skip!("packets_of_other_flows_and_with_one_path_have_no_number");
    let (cn, mnn) = (testbed.cn.udp(&format!("[{CN}]:5000")), testbed.mnn.udp(&format!("[{MNN}]:5000")));
    let tcp = FlowSelector { protocol: Some(6), ..FlowSelector::default() };
    bind(&mut testbed, Second::Ip6, vec![twice(tcp)]);
    for (from, to, down) in [(&cn, &mnn, true), (&mnn, &cn, false)] {
        assert_eq!(send(&mut testbed, (from, to), 100, down), ([0; 3], [0; 3]));
    }
    testbed.bind(&[(SECOND_COA, 2, 0)]);
    let mut tunnel = at_home_agent(1, (HOME, MNP), &[(SECOND_COA, 2, 0)]);
    tunnel.flows = vec![twice(FlowSelector::default())];
    testbed.ha.put(&tunnel);
    assert_eq!(send(&mut testbed, (&cn, &mnn), 100, true), ([0; 3], [0; 3]), "one path is left");
    tunnel.paths.clear();
    testbed.ha.put(&tunnel);
    assert!(is_dropped(&cn, &mnn, 100));
}
