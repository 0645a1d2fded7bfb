//! Tunnels over IPv4, in UDP and without (RFC 5555 §4.1, RFC 4213 §3, RFC 2003 §3): the programs encapsulate and
//! decapsulate, the daemon fragments and reads what the kernel has reassembled.

use crate::ipv4::{self, MNN4, bulk, connect};
use crate::netns_host::Host;
use crate::testbed::{CN, HA, HOME, MNN, MNP, Testbed, TunnelEnd, arrives, at_home_agent, turned};
use crate::testbed_or_skip;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, recv, sendto, setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};
use roam6_proto::contract::item::{Tunnel, TunnelId};
use roam6_wire::Ipv4Endpoint;
use roam6_wire::checksum::internet_checksum;
use roam6_wire::icmp6::{Echo, Message};
use roam6_wire::ip4::{DSMIP_PORT, Encapsulated};
use roam6_wire::ip6::{self, Header, protocol};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

const AGENT: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const ROUTER: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 2);
const UDP: u16 = DSMIP_PORT;
const IPV4: u16 = 0;

/// Puts the tunnels over IPv4 with this port, and IPv4 inside if `prefix4` is given.
fn bind(testbed: &mut Testbed, port: u16, prefix4: Option<&str>) {
    let end = |address| Ipv4Endpoint { address, port };
    let mut tunnel = at_home_agent(1, (HOME, MNP), &[("::", 1, 1)]);
    tunnel.paths[0].local = end(AGENT).to_ipv6();
    tunnel.paths[0].remote = end(ROUTER).to_ipv6();
    tunnel.paths[0].mtu = 1500 - end(AGENT).overhead();
    tunnel.remote_prefixes.extend(prefix4.map(|prefix| prefix.parse::<roam6_wire::Prefix>().unwrap()));
    testbed.ha.put(&tunnel);
    let mut tunnel = turned(tunnel);
    tunnel.paths[0].link = Some(roam6_proto::LinkId(testbed.mr.host.index("mr1")));
    testbed.mr.put(&tunnel);
    let mtu = testbed.ha.act(|tunnels| tunnels.mtu(TunnelId(1))).unwrap();
    testbed.ha.host.ip(&format!("route change {MNP} dev nemo0 mtu {mtu}"));
    testbed.mr.host.ip(&format!("route change default dev nemo0 table 10 mtu {mtu}"));
}

/// Gives the hosts between the tunnel's ends IPv4, and opens the back ends with signalling over IPv4.
fn dress(testbed: &mut Testbed) {
    for (host, interface, address, gateway) in [
        (&testbed.ha.host, "ha1", "192.0.2.1/24", Some("192.0.2.2")),
        (&testbed.core, "core0", "192.0.2.2/24", None),
        (&testbed.core, "core1", "203.0.113.1/24", None),
        (&testbed.mr.host, "mr1", "203.0.113.2/24", Some("203.0.113.1")),
    ] {
        host.run(&format!("ip address add {address} dev {interface}"));
        if let Some(gateway) = gateway {
            host.run(&format!("ip route add default via {gateway}"));
        }
    }
    testbed.core.enter(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1")).unwrap();
    open(testbed);
}

fn open(testbed: &mut Testbed) {
    let run = testbed.run.path().to_owned();
    for (end, name, interfaces, signalling) in [
        (&mut testbed.ha, "ha", &["ha0", "ha1"][..], crate::testbed::HA),
        (&mut testbed.mr, "mr", &["mr0", "mr1", "mr2"], HOME),
    ] {
        end.tunnels = None;
        end.open_with(&run.join(name), interfaces, [signalling.parse().unwrap()].into());
    }
}

pub fn counts(end: &mut TunnelEnd, names: [&str; 3]) -> [u64; 3] {
    names.map(|name| end.count(name))
}

pub const FAST: [&str; 3] = ["encapsulated", "decapsulated", "carried"];

#[test]
fn programs_encapsulate_over_ipv4() {
    let mut testbed = testbed_or_skip!("programs_encapsulate_over_ipv4");
    dress(&mut testbed);
    let (cn, mnn) = (testbed.cn.udp(&format!("[{CN}]:5000")), testbed.mnn.udp(&format!("[{MNN}]:5000")));
    for port in [UDP, IPV4] {
        bind(&mut testbed, port, None);
        for size in [0, 1, 11, 12, 500, 1200, 1404] {
            assert!(arrives(&cn, &mnn, size), "port {port}: {size} octets down");
            assert!(arrives(&mnn, &cn, size), "port {port}: {size} octets up");
        }
        for end in [&mut testbed.ha, &mut testbed.mr] {
            let before = counts(end, FAST);
            for _ in 0..10 {
                assert!(arrives(&cn, &mnn, 500) && arrives(&mnn, &cn, 500));
            }
            let [encapsulated, decapsulated, carried] = counts(end, FAST);
            assert!(encapsulated - before[0] >= 5 && decapsulated - before[1] >= 10, "port {port}");
            assert_eq!(carried, before[2], "port {port}: none by the daemon");
        }
    }
}

#[test]
fn bulk_tcp_over_udp_keeps_gso_buffers() {
    let mut testbed = testbed_or_skip!("bulk_tcp_over_udp_keeps_gso_buffers");
    dress(&mut testbed);
    const OCTETS: usize = 16 << 20;
    for port in [UDP, IPV4] {
        bind(&mut testbed, port, None);
        let (client, server) = connect((&testbed.mnn, &format!("[{MNN}]")), &testbed.cn);
        let handled = |end: &mut TunnelEnd, names: [&str; 3]| counts(end, names).iter().sum::<u64>();
        let before = handled(&mut testbed.mr, ["decapsulated", "carried", "encapsulated"]);
        bulk(&client, &server, OCTETS);
        let packets = handled(&mut testbed.mr, ["decapsulated", "carried", "encapsulated"]) - before;
        bulk(&server, &client, OCTETS);
        // Acknowledgements included.
        assert!(OCTETS as u64 / packets > 4000, "port {port}: large buffers stay large: {packets}");
    }
}

#[test]
fn ipv4_passes_tunnels_over_ipv4() {
    let mut testbed = testbed_or_skip!("ipv4_passes_tunnels_over_ipv4");
    ipv4::dress(&mut testbed);
    dress(&mut testbed);
    let cn = testbed.cn.udp("198.51.100.2:5000");
    let mnn = testbed.mnn.udp(&format!("{MNN4}:5000"));
    for port in [UDP, IPV4] {
        bind(&mut testbed, port, Some("10.77.1.0/24"));
        for size in [0, 12, 500, 1400] {
            assert!(arrives(&cn, &mnn, size), "port {port}: {size} octets down");
            assert!(arrives(&mnn, &cn, size), "port {port}: {size} octets up");
        }
        let (client, server) = connect((&testbed.mnn, MNN4), &testbed.cn);
        bulk(&client, &server, 1 << 20);
        bulk(&server, &client, 1 << 20);
        assert_eq!(testbed.mr.count("carried"), 0, "port {port}");
    }
}

#[test]
fn packets_that_need_fragments_pass_by_the_daemon() {
    let mut testbed = testbed_or_skip!("packets_that_need_fragments_pass_by_the_daemon");
    dress(&mut testbed);
    bind(&mut testbed, UDP, None);
    let (cn, mnn) = (testbed.cn.udp(&format!("[{CN}]:5000")), testbed.mnn.udp(&format!("[{MNN}]:5000")));
    assert!(arrives(&cn, &mnn, 1000) && arrives(&mnn, &cn, 1000));
    // A router on the path fragments, and the receiving kernel reassembles.
    testbed.core.run("ip route add 203.0.113.2/32 via 203.0.113.2 dev core1 mtu lock 1000");
    assert!(arrives(&cn, &mnn, 1200), "fragmented on the path");
    // The link of the encapsulating host is too small for its outer packets.
    testbed.mr.host.run("ip link set mr1 mtu 1290");
    testbed.core.run("ip link set core1 mtu 1290");
    testbed.mr.act(|tunnels| tunnels.invalidate_next_hops()).unwrap();
    assert!(arrives(&mnn, &cn, 1232), "the minimum MTU of IPv6");
    assert!(testbed.mr.count("carried") >= 1);
}

/// A raw socket of a host, on which waiting for a packet ends at last.
fn raw(host: &Host, family: AddressFamily, protocol: SockProtocol) -> OwnedFd {
    let socket = host.enter(|| socket(family, SockType::Raw, SockFlag::empty(), protocol)).unwrap();
    setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::milliseconds(10_000)).unwrap();
    socket
}

fn send_raw(socket: &OwnedFd, bytes: &[u8], to: Ipv4Addr) {
    let to = SockaddrIn::from(SocketAddrV4::new(to, 0));
    sendto(socket.as_raw_fd(), bytes, &to, MsgFlags::empty()).unwrap();
}

/// A probe of the path MTU (RFC 8899): the kernel behind the tunnel removes what follows the inner packet.
#[test]
fn padded_echo_request_has_a_short_reply() {
    let mut testbed = testbed_or_skip!("padded_echo_request_has_a_short_reply");
    dress(&mut testbed);
    let (from, to) = (MNN.parse().unwrap(), HA.parse().unwrap());
    let replies = raw(&testbed.mnn, AddressFamily::Inet6, SockProtocol::IcmpV6);
    let sender = raw(&testbed.mr.host, AddressFamily::Inet, SockProtocol::Raw);
    for port in [UDP, IPV4] {
        bind(&mut testbed, port, None);
        let echo = Echo { identifier: 77, sequence: port, data: vec![5; 10] };
        let request = Message::EchoRequest(echo.clone()).emit(from, to);
        let mut inner = ip6::emit(&Header::new(from, to), protocol::ICMPV6, &request);
        inner.resize(1500 - 20 - if port == 0 { 0 } else { 8 }, 0);
        let end = |address| Ipv4Endpoint { address, port };
        let probe = Encapsulated { source: end(ROUTER), destination: end(AGENT), tos: 0, inner: &inner };
        send_raw(&sender, &probe.emit_unfragmentable(), AGENT);
        let mut reply = [0; 2048];
        loop {
            let length = recv(replies.as_raw_fd(), &mut reply, MsgFlags::empty()).expect("a reply");
            // Other ICMPv6 messages are neighbour discovery.
            if reply[0] == 129 && reply[6..8] == port.to_be_bytes() {
                assert_eq!((length, &reply[8..18]), (18, &echo.data[..]), "port {port}");
                break;
            }
        }
    }
}

/// "Fragmentation needed" that a stranger sends, who guesses the quoted ports.
#[test]
fn forged_icmp_error_does_not_narrow_the_path() {
    let mut testbed = testbed_or_skip!("forged_icmp_error_does_not_narrow_the_path");
    dress(&mut testbed);
    let stranger = raw(&testbed.core, AddressFamily::Inet, SockProtocol::Icmp);
    for port in [UDP, IPV4] {
        let end = |address| Ipv4Endpoint { address, port };
        let quoted = Encapsulated { source: end(AGENT), destination: end(ROUTER), tos: 0, inner: &[0x60; 100] };
        let mut error = [&[3, 4, 0, 0, 0, 0, 2, 88][..], &quoted.emit_unfragmentable()[..28]].concat();
        let sum = internet_checksum(&error);
        error[2..4].copy_from_slice(&sum.to_be_bytes());
        send_raw(&stranger, &error, AGENT);
        assert_eq!(testbed.core.run(&format!("ping -c 1 -W 5 {AGENT}")).matches("1 received").count(), 1);
        let route = testbed.ha.host.run(&format!("ip route get {ROUTER}"));
        assert!(!route.contains("mtu"), "{route}");
    }
}

#[test]
fn tunnel_over_udp_forwards_while_no_daemon_runs() {
    let mut testbed = testbed_or_skip!("tunnel_over_udp_forwards_while_no_daemon_runs");
    dress(&mut testbed);
    bind(&mut testbed, UDP, None);
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
    bind(&mut testbed, UDP, None);
    for end in [&mut testbed.ha, &mut testbed.mr] {
        end.act(|tunnels| tunnels.remove_stale()).unwrap();
        let found: Option<Tunnel> = end.act(|tunnels| tunnels.find(TunnelId(1)));
        assert!(found.is_some());
    }
    assert!(arrives(&cn, &mnn, 500) && arrives(&mnn, &cn, 500), "with the next daemon");
}
