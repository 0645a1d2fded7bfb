//! Which path a packet takes: weights, flow rules, probes, direct paths (RFC 5648, RFC 6089).

use crate::netns_host::Host;
use crate::testbed::{CN, COA, HA, HOME, MNN, MNP, SECOND_COA, Testbed, arrives, at_home_agent, is_dropped};
use crate::testbed_or_skip;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn6, bind, recv, sendto, setsockopt, socket,
    sockopt,
};
use nix::sys::time::TimeVal;
use roam6_proto::LinkId;
use roam6_proto::contract::config::flow::FlowSelector;
use roam6_proto::contract::item::{Encap, TunnelFlow, TunnelPath};
use roam6_wire::Bid;
use std::net::{Ipv6Addr, SocketAddrV6};
use std::os::fd::AsRawFd;

/// Packets that core has sent by each of its two interfaces towards the mobile router.
fn sent(core: &Host) -> [u64; 2] {
    ["core1", "core2"].map(|name| {
        let table = core.enter(|| std::fs::read_to_string("/proc/thread-self/net/dev")).unwrap();
        let line = table.lines().find(|line| line.trim_start().starts_with(&format!("{name}:"))).unwrap();
        line.split_whitespace().nth(10).unwrap().parse().unwrap()
    })
}

#[test]
fn flows_spread_by_weight_and_each_keeps_its_path() {
    let mut testbed = testbed_or_skip!("flows_spread_by_weight_and_each_keeps_its_path");
    testbed.bind(&[(COA, 1, 3), (SECOND_COA, 2, 1)]);
    let mnn = testbed.mnn.udp(&format!("[{MNN}]:5000"));
    let warm = testbed.cn.udp(&format!("[{CN}]:4999"));
    assert!(arrives(&warm, &mnn, 10));
    let mut shares = [0, 0];
    for port in 5001..5161 {
        let cn = testbed.cn.udp(&format!("[{CN}]:{port}"));
        let before = sent(&testbed.core);
        assert!(arrives(&cn, &mnn, 10) && arrives(&cn, &mnn, 10));
        let after = sent(&testbed.core);
        let by = [after[0] - before[0], after[1] - before[1]];
        // Neighbour discovery may add to either.
        shares[usize::from(by[1] >= 2)] += 1;
        assert!(by[0] >= 2 || by[1] >= 2, "both packets of a flow by one path: {by:?}");
    }
    println!("160 flows, weights 3 and 1: {shares:?}");
    assert!((100..=140).contains(&shares[0]), "{shares:?}");
}

#[test]
fn flow_rule_overrides_weights_and_falls_through_without_its_path() {
    let mut testbed = testbed_or_skip!("flow_rule_overrides_weights_and_falls_through_without_its_path");
    let (cn, mnn) = (testbed.cn.udp(&format!("[{CN}]:5000")), testbed.mnn.udp(&format!("[{MNN}]:5000")));
    let rule = |bid| TunnelFlow {
        selector: FlowSelector {
            source: Some("2001:db8:5::/64".parse().unwrap()),
            protocol: Some(17),
            destination_ports: Some((4000, 5000)),
            ..FlowSelector::default()
        },
        ingress: None,
        bid: Bid(bid),
        replica: None,
    };
    for (flows, second) in
        [(vec![], false), (vec![rule(2)], true), (vec![rule(9), rule(2)], true), (vec![rule(9)], false)]
    {
        testbed.bind(&[(COA, 1, 1), (SECOND_COA, 2, 0)]);
        let mut tunnel = at_home_agent(1, (HOME, MNP), &[(COA, 1, 1), (SECOND_COA, 2, 0)]);
        tunnel.flows = flows;
        testbed.ha.put(&tunnel);
        assert!(arrives(&cn, &mnn, 10));
        let before = sent(&testbed.core);
        for _ in 0..5 {
            assert!(arrives(&cn, &mnn, 10));
        }
        let after = sent(&testbed.core);
        assert!(after[usize::from(second)] - before[usize::from(second)] >= 5, "{:?}", tunnel.flows);
    }
}

#[test]
fn probe_and_reply_take_the_path_under_test() {
    let mut testbed = testbed_or_skip!("probe_and_reply_take_the_path_under_test");
    testbed.bind(&[(COA, 1, 1), (SECOND_COA, 2, 0)]);
    let probe =
        testbed.mr.host.enter(|| socket(AddressFamily::Inet6, SockType::Raw, SockFlag::empty(), SockProtocol::IcmpV6));
    let probe = probe.unwrap();
    let from: SockaddrIn6 = SocketAddrV6::new(HOME.parse().unwrap(), 0, 0, 0).into();
    let to: SockaddrIn6 = SocketAddrV6::new(HA.parse().unwrap(), 0, 0, 0).into();
    bind(probe.as_raw_fd(), &from).unwrap();
    let receive_timeout = |seconds| setsockopt(&probe, sockopt::ReceiveTimeout, &TimeVal::new(seconds, 0)).unwrap();
    receive_timeout(20);
    for bid in [1_u8, 2, 1, 2, 2] {
        let before = sent(&testbed.core);
        let request = [128, 0, 0, 0, 0, bid, 0, 1];
        sendto(probe.as_raw_fd(), &request, &to, MsgFlags::empty()).unwrap();
        let mut reply = [0; 64];
        while !(recv(probe.as_raw_fd(), &mut reply, MsgFlags::empty()).unwrap() == 8 && reply[0] == 129) {}
        assert_eq!(reply[5], bid);
        let after = sent(&testbed.core);
        assert!(after[usize::from(bid) - 1] > before[usize::from(bid) - 1], "probe {bid}");
    }
    testbed.core.ip("link set core2 down");
    let before = sent(&testbed.core);
    receive_timeout(1);
    sendto(probe.as_raw_fd(), &[128, 0, 0, 0, 0, 2, 0, 2], &to, MsgFlags::empty()).unwrap();
    let mut reply = [0; 64];
    while let Ok(length) = recv(probe.as_raw_fd(), &mut reply, MsgFlags::empty()) {
        assert!(length != 8 || reply[0] != 129, "no answer by another path");
    }
    assert_eq!(sent(&testbed.core)[1], before[1]);
}

/// Makes an interface of `other` known to `host` by an address that only stands for its link-layer address.
fn make_known(host: &Host, interface: &str, (other, there): (&Host, &str), address: Ipv6Addr) {
    let shown = other.ip(&format!("-o link show dev {there}"));
    let link_address = shown.split_whitespace().skip_while(|word| *word != "link/ether").nth(1).unwrap();
    host.ip(&format!("neighbour replace {address} lladdr {link_address} dev {interface} nud permanent"));
}

#[test]
fn direct_path_sends_packets_unencapsulated_to_a_neighbour() {
    let mut testbed = testbed_or_skip!("direct_path_sends_packets_unencapsulated_to_a_neighbour");
    testbed.ha.host.cable(("ha2", "2001:db8:6::1/64"), &testbed.mr.host, ("mr3", "2001:db8:6::2/64"));
    let (ha2, mr3) = (LinkId(testbed.ha.host.index("ha2")), LinkId(testbed.mr.host.index("mr3")));
    testbed.ha.act(|tunnels| tunnels.attach(ha2, "ha2")).unwrap();
    testbed.mr.act(|tunnels| tunnels.attach(mr3, "mr3")).unwrap();
    let direct = |link, remote, weight| {
        let local = Ipv6Addr::UNSPECIFIED;
        TunnelPath {
            bid: Bid(2),
            local,
            remote,
            link: Some(link),
            mtu: 1500,
            weight,
            direct: true,
            encap: Encap::Native,
            dscp: None,
        }
    };
    let ends: [Ipv6Addr; 2] = ["fe80::1".parse().unwrap(), "fe80::2".parse().unwrap()];
    make_known(&testbed.ha.host, "ha2", (&testbed.mr.host, "mr3"), ends[0]);
    make_known(&testbed.mr.host, "mr3", (&testbed.ha.host, "ha2"), ends[1]);
    let bind = |testbed: &mut Testbed, weight| {
        let foreign = [(COA, 1, 1 - weight)];
        let mut at_ha = at_home_agent(1, (HOME, MNP), &foreign);
        at_ha.paths.push(direct(ha2, ends[0], weight));
        testbed.ha.put(&at_ha);
        let mut at_mr = testbed.at_mobile_router(&foreign);
        at_mr.paths.push(direct(mr3, ends[1], weight));
        testbed.mr.put(&at_mr);
    };
    let (cn, mnn) = (testbed.cn.udp(&format!("[{CN}]:5000")), testbed.mnn.udp(&format!("[{MNN}]:5000")));
    let (ha, home) = (testbed.ha.host.udp(&format!("[{HA}]:5000")), testbed.mr.host.udp(&format!("[{HOME}]:5000")));
    for weight in [1, 0, 1] {
        bind(&mut testbed, weight);
        let before = [sent(&testbed.core)[0], testbed.ha.count("handed_over"), testbed.mr.count("handed_over")];
        for (a, b) in [(&cn, &mnn), (&mnn, &cn), (&ha, &mnn), (&cn, &home), (&home, &cn)].repeat(3) {
            assert!(arrives(a, b, 1400), "{a:?} to {b:?}, weight {weight}");
        }
        let after = [sent(&testbed.core)[0], testbed.ha.count("handed_over"), testbed.mr.count("handed_over")];
        let used: Vec<bool> = after.iter().zip(before).map(|(after, before)| *after >= before + 3).collect();
        let at_home = weight == 1;
        assert_eq!(used, [!at_home, at_home, at_home], "{before:?} {after:?}");
    }
    testbed.mr.host.ip("link set mr3 down");
    assert!(is_dropped(&cn, &mnn, 10));
    bind(&mut testbed, 0);
    assert!(arrives(&cn, &mnn, 10), "the tunnel takes over");
}
