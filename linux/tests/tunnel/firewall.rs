//! A firewall on the forwarding path: the fast path redirects nothing that it would filter, even if flow and next hop
//! are cached, in either direction, from tunnel to tunnel, and for inner IPv4.

use crate::ipv4::{self, MNN4, OTHER_MNN4};
use crate::netns_host::Host;
use crate::testbed::{
    BackEnd, CN, COA, HOME, MNN, MNP, OTHER_MNN, SECOND_COA, Testbed, TunnelEnd, arrives, at_home_agent, is_dropped,
};
use crate::testbed_or_skip;
use roam6_linux::tunnel::Hooks;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

const BOTH: Hooks = Hooks { ipv6: true, ipv4: true };
const NONE: Hooks = Hooks { ipv6: false, ipv4: false };

/// Only replies to packets from `inside` are accepted.
fn rules(inside: &str) -> String {
    let accept = format!("ct state established,related accept; iifname \"{inside}\" accept;");
    format!(
        "table inet site {{\n chain forward {{\n type filter hook forward priority 0; policy drop;\n {accept}\n }}\n}}\n"
    )
}

fn load(host: &Host, rules: &str) {
    assert!(is_loaded(host, rules), "{rules}");
}

fn is_loaded(host: &Host, rules: &str) -> bool {
    let mut nft = host.enter(|| {
        let mut nft = Command::new("nft");
        nft.args(["-f", "-"]).stdin(Stdio::piped()).spawn().unwrap()
    });
    nft.stdin.take().unwrap().write_all(format!("flush ruleset\n{rules}").as_bytes()).unwrap();
    nft.wait().unwrap().success()
}

fn set_hooks(side: &mut TunnelEnd, hooks: Hooks) {
    assert!(side.act(|tunnels| tunnels.set_firewall_hooks(hooks, false)).unwrap());
}

/// Packets that the fast path has forwarded.
fn sent_on(side: &mut TunnelEnd) -> u64 {
    ["encapsulated", "hairpinned", "encapsulated_xdp", "decapsulated_xdp", "hairpinned_xdp"]
        .into_iter()
        .map(|name| side.count(name))
        .sum()
}

#[test]
fn home_agent_fast_path_respects_the_firewall() {
    let mut testbed = testbed_or_skip!("home_agent_fast_path_respects_the_firewall");
    let (cn, mnn) = (testbed.cn.udp(&format!("[{CN}]:5000")), testbed.mnn.udp(&format!("[{MNN}]:5000")));
    for _ in 0..10 {
        assert!(arrives(&cn, &mnn, 1000) && arrives(&mnn, &cn, 1000));
    }
    assert!(sent_on(&mut testbed.ha) > 0);
    // The mobile networks are inside; the rules come while the flow is known to the fast path.
    load(&testbed.ha.host, &rules("nemo0"));
    set_hooks(&mut testbed.ha, BOTH);
    let before = sent_on(&mut testbed.ha);
    let unsolicited = testbed.cn.udp(&format!("[{CN}]:5001"));
    for state in ["reachable", "stale", "permanent", "flush"] {
        if state == "flush" {
            testbed.ha.host.ip("neighbour flush dev ha1");
        } else {
            let shown = testbed.ha.host.ip("neighbour show 2001:db8:1::2 dev ha1");
            let address = shown.split_whitespace().skip_while(|word| *word != "lladdr").nth(1).unwrap().to_owned();
            testbed.ha.host.ip(&format!("neighbour replace 2001:db8:1::2 lladdr {address} dev ha1 nud {state}"));
        }
        assert!(is_dropped(&unsolicited, &mnn, 100), "unsolicited, neighbour {state}");
        assert!(arrives(&mnn, &cn, 100), "from inside, neighbour {state}");
        assert!(arrives(&cn, &mnn, 100), "the answer, neighbour {state}");
    }
    assert_eq!(sent_on(&mut testbed.ha), before);
    // Without a firewall the fast path takes packets again.
    load(&testbed.ha.host, "");
    set_hooks(&mut testbed.ha, NONE);
    for _ in 0..5 {
        assert!(arrives(&cn, &mnn, 100));
    }
    assert!(sent_on(&mut testbed.ha) > before);
}

#[test]
fn mobile_router_fast_path_respects_the_firewall() {
    let mut testbed = testbed_or_skip!("mobile_router_fast_path_respects_the_firewall");
    let (cn, mnn) = (testbed.cn.udp(&format!("[{CN}]:5000")), testbed.mnn.udp(&format!("[{MNN}]:5000")));
    for _ in 0..10 {
        assert!(arrives(&cn, &mnn, 1000) && arrives(&mnn, &cn, 1000));
    }
    // No packet leaves, not even one of a cached flow.
    load(&testbed.mr.host, &rules("nowhere"));
    set_hooks(&mut testbed.mr, BOTH);
    let before = sent_on(&mut testbed.mr);
    assert!(is_dropped(&mnn, &cn, 100) && is_dropped(&cn, &mnn, 100));
    load(&testbed.mr.host, &rules("mr0"));
    assert!(arrives(&mnn, &cn, 100) && arrives(&cn, &mnn, 100));
    assert!(is_dropped(&testbed.cn.udp(&format!("[{CN}]:5001")), &mnn, 100));
    assert_eq!(sent_on(&mut testbed.mr), before);
}

/// The neighbours of the mobile router: the node inside, and the next hop of the tunnel.
const NEIGHBOURS: [(&str, &str); 2] = [(MNN, "mr0"), ("2001:db8:2::1", "mr1")];

fn set_neighbours(router: &Host, state: &str) {
    for (address, link) in NEIGHBOURS {
        if state == "flush" {
            router.ip(&format!("neighbour flush dev {link}"));
            continue;
        }
        let shown = router.ip(&format!("neighbour show {address} dev {link}"));
        let at = shown.split_whitespace().skip_while(|word| *word != "lladdr").nth(1).unwrap().to_owned();
        router.ip(&format!("neighbour replace {address} lladdr {at} dev {link} nud {state}"));
    }
}

#[test]
fn bypassed_firewall_filters_no_packet_in_any_nud_state() {
    let mut testbed = testbed_or_skip!("bypassed_firewall_filters_no_packet_in_any_nud_state");
    let (cn, mnn) = (testbed.cn.udp(&format!("[{CN}]:5000")), testbed.mnn.udp(&format!("[{MNN}]:5000")));
    assert!(arrives(&cn, &mnn, 1000) && arrives(&mnn, &cn, 1000));
    load(&testbed.mr.host, &rules("nowhere"));
    assert!(testbed.mr.act(|tunnels| tunnels.set_firewall_hooks(NONE, true)).unwrap());
    for state in ["reachable", "stale", "permanent", "flush"] {
        set_neighbours(&testbed.mr.host, state);
        // Longer than a cached next hop is valid.
        for number in 0..40 {
            assert!(arrives(&cn, &mnn, 100), "inwards, neighbours {state}, packet {number}");
            assert!(arrives(&mnn, &cn, 100), "outwards, neighbours {state}, packet {number}");
            std::thread::sleep(Duration::from_millis(10));
        }
        for (address, link) in NEIGHBOURS {
            let shown = testbed.mr.host.ip(&format!("neighbour show {address} dev {link}"));
            assert!(!shown.contains("STALE"), "the fast path uses the kernel's entry, and has it probed: {shown}");
        }
    }
}

#[test]
fn flow_behind_a_firewall_follows_its_tunnel_at_once() {
    let mut testbed = testbed_or_skip!("flow_behind_a_firewall_follows_its_tunnel_at_once");
    let (cn, mnn) = (testbed.cn.udp(&format!("[{CN}]:5000")), testbed.mnn.udp(&format!("[{MNN}]:5000")));
    load(&testbed.ha.host, &rules("nemo0"));
    load(&testbed.mr.host, &rules("mr0"));
    set_hooks(&mut testbed.ha, BOTH);
    set_hooks(&mut testbed.mr, BOTH);
    for (care_of, bid) in [(COA, 1), (SECOND_COA, 2), (COA, 1), (SECOND_COA, 2)] {
        testbed.bind(&[(care_of, bid, 1)]);
        for packet in 0..5 {
            assert!(arrives(&mnn, &cn, 100), "outwards by {care_of}, packet {packet}");
            assert!(arrives(&cn, &mnn, 100), "inwards by {care_of}, packet {packet}");
        }
    }
    assert_eq!(sent_on(&mut testbed.ha) + sent_on(&mut testbed.mr), 0);
    // What was accepted from the former care-of address is no longer.
    let before = testbed.ha.count("dropped_source");
    testbed.ha.put(&at_home_agent(1, (HOME, MNP), &[("2001:db8:2::99", 1, 1)]));
    assert!(is_dropped(&mnn, &cn, 100), "by the cached decision of the former binding");
    assert_eq!(testbed.ha.count("dropped_source"), before + 1);
}

#[test]
fn xdp_respects_the_firewall() {
    if let Some(why) = crate::netns_host::obstacle() {
        return println!("skipped: xdp_respects_the_firewall: {why}");
    }
    let mut testbed = Testbed::with(BackEnd::BpfAtDriver, BackEnd::Bpf);
    load(&testbed.ha.host, &rules("nemo0"));
    set_hooks(&mut testbed.ha, BOTH);
    let ping = |from: &Host, to: &str, seconds: &str| {
        let arguments = ["-nc3", "-i0.05", "-W", seconds, to];
        let output = from.enter(|| Command::new("ping").args(arguments).output().unwrap());
        String::from_utf8_lossy(&output.stdout).matches("bytes from").count()
    };
    assert_eq!(ping(&testbed.mnn, CN, "20"), 3);
    assert_eq!(ping(&testbed.cn, MNN, "1"), 0);
    assert_eq!(sent_on(&mut testbed.ha), 0);
}

#[test]
fn hairpinned_packets_pass_the_firewall() {
    let mut testbed = testbed_or_skip!("hairpinned_packets_pass_the_firewall");
    let (_other, node) = testbed.second_router(false);
    let (a, b) = (testbed.mnn.udp(&format!("[{MNN}]:5000")), node.udp(&format!("[{OTHER_MNN}]:5000")));
    for _ in 0..5 {
        assert!(arrives(&a, &b, 1000) && arrives(&b, &a, 1000));
    }
    load(&testbed.ha.host, &rules("ha0"));
    set_hooks(&mut testbed.ha, BOTH);
    let before = sent_on(&mut testbed.ha);
    assert!(is_dropped(&a, &b, 1000) && is_dropped(&b, &a, 1000));
    load(&testbed.ha.host, &rules("nemo0"));
    assert!(arrives(&a, &b, 1000) && arrives(&b, &a, 1000));
    assert_eq!(sent_on(&mut testbed.ha), before);
}

#[test]
fn hairpinned_ipv4_packets_pass_the_firewall() {
    let mut testbed = testbed_or_skip!("hairpinned_ipv4_packets_pass_the_firewall");
    let (_other, node) = ipv4::two_networks(&mut testbed);
    let (a, b) = (testbed.mnn.udp(&format!("{MNN4}:5000")), node.udp(&format!("{OTHER_MNN4}:5000")));
    assert!(arrives(&a, &b, 1000) && arrives(&b, &a, 1000));
    // A firewall of IPv4 alone is none of IPv6.
    load(&testbed.ha.host, &rules("ha0").replace("inet", "ip"));
    set_hooks(&mut testbed.ha, Hooks { ipv6: false, ipv4: true });
    let before = sent_on(&mut testbed.ha);
    assert!(is_dropped(&a, &b, 1000) && is_dropped(&b, &a, 1000));
    load(&testbed.ha.host, &rules("nemo0").replace("inet", "ip"));
    assert!(arrives(&a, &b, 1000) && arrives(&b, &a, 1000));
    assert_eq!(sent_on(&mut testbed.ha), before);
    let (client, server) = ipv4::connect((&node, OTHER_MNN4), &testbed.mnn);
    ipv4::bulk(&client, &server, 1 << 20);
    ipv4::bulk(&server, &client, 1 << 20);
}

/// The rules of docs/config.md, with a flowtable.
const FLOWTABLE: &str = "table inet site {
    flowtable established {
        hook ingress priority filter; devices = { mr0, nemo0 };
    }
    chain forward {
        type filter hook forward priority filter; policy drop;
        counter
        meta l4proto { tcp, udp } ct state established flow add @established
        ct state established,related accept
        iifname \"mr0\" accept
    }
}
";

#[test]
fn flowtable_forwards_established_flows_only() {
    let mut testbed = testbed_or_skip!("flowtable_forwards_established_flows_only");
    let (cn, mnn) = (testbed.cn.udp(&format!("[{CN}]:5000")), testbed.mnn.udp(&format!("[{MNN}]:5000")));
    if !is_loaded(&testbed.mr.host, FLOWTABLE) {
        return println!("skipped: flowtable_forwards_established_flows_only: this kernel has no flowtables");
    }
    set_hooks(&mut testbed.mr, BOTH);
    for _ in 0..20 {
        assert!(arrives(&mnn, &cn, 100) && arrives(&cn, &mnn, 100));
    }
    let list = || Command::new("nft").args(["list", "chain", "inet", "site", "forward"]).output().unwrap();
    let listed = String::from_utf8(testbed.mr.host.enter(list).stdout).unwrap();
    let counted: u32 = listed.split_whitespace().skip_while(|word| *word != "packets").nth(1).unwrap().parse().unwrap();
    assert!((1..=4).contains(&counted), "{listed}");
    assert!(is_dropped(&testbed.cn.udp(&format!("[{CN}]:5001")), &mnn, 100), "unsolicited");
    assert_eq!(sent_on(&mut testbed.mr), 0);
}
