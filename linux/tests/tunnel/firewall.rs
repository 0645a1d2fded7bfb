//! A firewall in the kernel's forwarding path: told of it, the programs send nothing on by themselves, whatever they decided
//! before and whatever is known of neighbours, in either direction, from tunnel to tunnel, and with IPv4 inside.

use crate::ipv4::{self, MNN4, OTHER_MNN4};
use crate::scene::{CN, Kind, MNN, OTHER_MNN, Scene, Side, arrives};
use crate::scene_or_skip;
use crate::world::Host;
use roam6_linux::tunnel::Hooks;
use std::io::Write;
use std::process::{Command, Stdio};

const BOTH: Hooks = Hooks { ipv6: true, ipv4: true };
const NONE: Hooks = Hooks { ipv6: false, ipv4: false };

/// What was asked for from `inside` is accepted, and nothing else.
fn rules(inside: &str) -> String {
    let accept = format!("ct state established,related accept; iifname \"{inside}\" accept;");
    format!(
        "table inet site {{\n chain forward {{\n type filter hook forward priority 0; policy drop;\n {accept}\n }}\n}}\n"
    )
}

fn load(host: &Host, rules: &str) {
    let mut nft = host.enter(|| {
        let mut nft = Command::new("nft");
        nft.args(["-f", "-"]).stdin(Stdio::piped()).spawn().unwrap()
    });
    nft.stdin.take().unwrap().write_all(format!("flush ruleset\n{rules}").as_bytes()).unwrap();
    assert!(nft.wait().unwrap().success(), "{rules}");
}

fn obey(side: &mut Side, hooks: Hooks) {
    assert!(side.act(|tunnels| tunnels.set_firewall_hooks(hooks)).unwrap());
}

/// What the programs have sent on without the kernel.
fn sent_on(side: &mut Side) -> u64 {
    ["encapsulated", "hairpinned", "encapsulated_xdp", "decapsulated_xdp", "hairpinned_xdp"]
        .into_iter()
        .map(|name| side.count(name))
        .sum()
}

#[test]
fn a_home_agent_sends_nothing_past_its_firewall() {
    let mut scene = scene_or_skip!("a_home_agent_sends_nothing_past_its_firewall");
    let (cn, mnn) = (scene.cn.udp(&format!("[{CN}]:5000")), scene.mnn.udp(&format!("[{MNN}]:5000")));
    for _ in 0..10 {
        assert!(arrives(&cn, &mnn, 1000) && arrives(&mnn, &cn, 1000));
    }
    assert!(sent_on(&mut scene.ha) > 0);
    // The mobile networks are inside; the rules come while the flow is known to the fast path.
    load(&scene.ha.host, &rules("nemo0"));
    obey(&mut scene.ha, BOTH);
    let before = sent_on(&mut scene.ha);
    let unsolicited = scene.cn.udp(&format!("[{CN}]:5001"));
    for state in ["reachable", "stale", "permanent", "flush"] {
        if state == "flush" {
            scene.ha.host.ip("neighbour flush dev ha1");
        } else {
            let shown = scene.ha.host.ip("neighbour show 2001:db8:1::2 dev ha1");
            let address = shown.split_whitespace().skip_while(|word| *word != "lladdr").nth(1).unwrap().to_owned();
            scene.ha.host.ip(&format!("neighbour replace 2001:db8:1::2 lladdr {address} dev ha1 nud {state}"));
        }
        assert!(!arrives(&unsolicited, &mnn, 100), "unsolicited, neighbour {state}");
        assert!(arrives(&mnn, &cn, 100), "from inside, neighbour {state}");
        assert!(arrives(&cn, &mnn, 100), "the answer, neighbour {state}");
    }
    assert_eq!(sent_on(&mut scene.ha), before);
    // Without a firewall the fast path takes packets again.
    load(&scene.ha.host, "");
    obey(&mut scene.ha, NONE);
    for _ in 0..5 {
        assert!(arrives(&cn, &mnn, 100));
    }
    assert!(sent_on(&mut scene.ha) > before);
}

#[test]
fn a_mobile_router_sends_nothing_past_its_firewall() {
    let mut scene = scene_or_skip!("a_mobile_router_sends_nothing_past_its_firewall");
    let (cn, mnn) = (scene.cn.udp(&format!("[{CN}]:5000")), scene.mnn.udp(&format!("[{MNN}]:5000")));
    for _ in 0..10 {
        assert!(arrives(&cn, &mnn, 1000) && arrives(&mnn, &cn, 1000));
    }
    // Nothing leaves, not even what is known.
    load(&scene.mr.host, &rules("nowhere"));
    obey(&mut scene.mr, BOTH);
    let before = sent_on(&mut scene.mr);
    assert!(!arrives(&mnn, &cn, 100) && !arrives(&cn, &mnn, 100));
    load(&scene.mr.host, &rules("mr0"));
    assert!(arrives(&mnn, &cn, 100) && arrives(&cn, &mnn, 100));
    assert!(!arrives(&scene.cn.udp(&format!("[{CN}]:5001")), &mnn, 100));
    assert_eq!(sent_on(&mut scene.mr), before);
}

#[test]
fn what_a_driver_would_take_passes_the_firewall_too() {
    if let Some(why) = crate::world::obstacle() {
        return println!("skipped: what_a_driver_would_take_passes_the_firewall_too: {why}");
    }
    let mut scene = Scene::with(Kind::BpfAtDriver, Kind::Bpf);
    load(&scene.ha.host, &rules("nemo0"));
    obey(&mut scene.ha, BOTH);
    let ping = |from: &Host, to: &str| {
        let output = from.enter(|| Command::new("ping").args(["-nc3", "-i0.05", "-W1", to]).output().unwrap());
        String::from_utf8_lossy(&output.stdout).matches("bytes from").count()
    };
    assert_eq!(ping(&scene.mnn, CN), 3);
    assert_eq!(ping(&scene.cn, MNN), 0);
    assert_eq!(sent_on(&mut scene.ha), 0);
}

#[test]
fn from_tunnel_to_tunnel_packets_pass_the_firewall() {
    let mut scene = scene_or_skip!("from_tunnel_to_tunnel_packets_pass_the_firewall");
    let (_other, node) = scene.second_router(false);
    let (a, b) = (scene.mnn.udp(&format!("[{MNN}]:5000")), node.udp(&format!("[{OTHER_MNN}]:5000")));
    for _ in 0..5 {
        assert!(arrives(&a, &b, 1000) && arrives(&b, &a, 1000));
    }
    load(&scene.ha.host, &rules("ha0"));
    obey(&mut scene.ha, BOTH);
    let before = sent_on(&mut scene.ha);
    assert!(!arrives(&a, &b, 1000) && !arrives(&b, &a, 1000));
    load(&scene.ha.host, &rules("nemo0"));
    assert!(arrives(&a, &b, 1000) && arrives(&b, &a, 1000));
    assert_eq!(sent_on(&mut scene.ha), before);
}

#[test]
fn from_tunnel_to_tunnel_ipv4_passes_the_firewall() {
    let mut scene = scene_or_skip!("from_tunnel_to_tunnel_ipv4_passes_the_firewall");
    let (_other, node) = ipv4::two_networks(&mut scene);
    let (a, b) = (scene.mnn.udp(&format!("{MNN4}:5000")), node.udp(&format!("{OTHER_MNN4}:5000")));
    assert!(arrives(&a, &b, 1000) && arrives(&b, &a, 1000));
    // A firewall of IPv4 alone is none of IPv6.
    load(&scene.ha.host, &rules("ha0").replace("inet", "ip"));
    obey(&mut scene.ha, Hooks { ipv6: false, ipv4: true });
    let before = sent_on(&mut scene.ha);
    assert!(!arrives(&a, &b, 1000) && !arrives(&b, &a, 1000));
    load(&scene.ha.host, &rules("nemo0").replace("inet", "ip"));
    assert!(arrives(&a, &b, 1000) && arrives(&b, &a, 1000));
    assert_eq!(sent_on(&mut scene.ha), before);
    let (client, server) = ipv4::connect((&node, OTHER_MNN4), &scene.mnn);
    ipv4::bulk(&client, &server, 1 << 20);
    ipv4::bulk(&server, &client, 1 << 20);
}
