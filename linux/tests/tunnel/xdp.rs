//! The XDP program on real links: it forwards and counts tunnelled packets, and passes all else unchanged. Echoes are
//! used between hosts, because an XDP program cannot complete the checksums that sockets leave to a veth device.

use crate::netns_host::Host;
use crate::testbed::{BackEnd, CN, COA, HOME, MNN, MNP, Testbed, at_home_agent};
use crate::testbed_or_skip;
use roam6_linux::tunnel::Tunnels;
use roam6_linux::tunnel::bpf::{Bpf, Options};
use roam6_proto::base::ids::LinkId;
use std::process::Command;

const AT_HOME_AGENT: [&str; 2] = ["ha0", "ha1"];
const AT_MOBILE_ROUTER: [&str; 3] = ["mr0", "mr1", "mr2"];

/// Sends echo requests; returns the number of replies, and the output of ping.
fn echoes(from: &Host, options: &str, to: &str) -> (usize, String) {
    let arguments = format!("-6 -n -i 0.02 -W 0.3 {options} {to}");
    let output = from.enter(|| Command::new("ping").args(arguments.split(' ')).output().unwrap());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (text.matches("bytes from").count(), text)
}

/// Attaches an XDP program to the other ends of the cables too, without which veth devices drop redirected frames.
/// Those hosts have no tunnels.
fn neighbours(testbed: &Testbed) -> Vec<Bpf> {
    let hosts: [(&Host, &[&str]); 3] =
        [(&testbed.cn, &["cn0"]), (&testbed.core, &["core0", "core1"]), (&testbed.mnn, &["mnn0"])];
    let open = |(host, interfaces): (&Host, &[&str])| {
        let run = testbed.run.path().join(interfaces[0]);
        let options = Options {
            device: "nemo0".into(),
            run,
            xdp: true,
            state_dir: std::path::PathBuf::new(),
            encryption: Default::default(),
            max_tunnels: 16,
            dsmip_addresses: Default::default(),
            udp6_addresses: Default::default(),
            bonding: false,
        };
        host.enter(|| {
            let mut tunnels = Bpf::open(options).unwrap();
            interfaces.iter().for_each(|name| tunnels.attach(LinkId(host.index(name)), name).unwrap());
            tunnels
        })
    };
    hosts.map(open).into()
}

/// Restarts both daemons.
fn live(testbed: &mut Testbed, kind: BackEnd) {
    let run = testbed.run.path().to_owned();
    testbed.ha.reopen(kind, &run.join("ha"), &AT_HOME_AGENT);
    testbed.mr.reopen(kind, &run.join("mr"), &AT_MOBILE_ROUTER);
    testbed.bind(&[(COA, 1, 1)]);
    for side in [&mut testbed.ha, &mut testbed.mr] {
        side.act(|tunnels| tunnels.remove_stale()).unwrap();
    }
}

fn counts(testbed: &mut Testbed, name: &str) -> [u64; 2] {
    [testbed.ha.count(name), testbed.mr.count(name)]
}

#[test]
fn xdp_forwards_packets_if_configured() {
    let mut testbed = testbed_or_skip!("xdp_forwards_packets_if_configured");
    let _neighbours = neighbours(&testbed);
    assert_eq!(echoes(&testbed.cn, "-c 20", MNN).0, 20);
    assert_eq!(counts(&mut testbed, "encapsulated_xdp"), [0, 0]);
    live(&mut testbed, BackEnd::BpfAtDriver);
    assert_eq!(echoes(&testbed.cn, "-c 20", MNN).0, 20);
    for name in ["encapsulated_xdp", "decapsulated_xdp"] {
        let seen = counts(&mut testbed, name);
        assert!(seen.iter().all(|&count| (10..=20).contains(&count)), "{name}: {seen:?}");
    }
    live(&mut testbed, BackEnd::Bpf);
    let before = counts(&mut testbed, "encapsulated_xdp");
    assert_eq!(echoes(&testbed.cn, "-c 5", MNN).0, 5);
    assert_eq!(counts(&mut testbed, "encapsulated_xdp"), before);
}

#[test]
fn xdp_passes_other_packets_unchanged() {
    let mut testbed = testbed_or_skip!("xdp_passes_other_packets_unchanged");
    let _neighbours = neighbours(&testbed);
    live(&mut testbed, BackEnd::BpfAtDriver);
    assert_eq!(echoes(&testbed.cn, "-c 3", MNN).0, 3);
    // 1460 octets fit into the tunnel.
    assert_eq!(echoes(&testbed.cn, "-c 3 -M do -s 1412", MNN).0, 3);
    let (replies, text) = echoes(&testbed.cn, "-c 3 -M do -s 1413", MNN);
    assert!(replies == 0 && text.contains("mtu=1460"), "{text}");
    for (limit, reaches) in [(1, false), (2, false), (3, true)] {
        let (replies, text) = echoes(&testbed.cn, &format!("-c 1 -t {limit}"), MNN);
        assert!((replies == 1) == reaches && text.contains("exceeded") != reaches, "hop limit {limit}: {text}");
    }
    // The routers themselves.
    assert_eq!(echoes(&testbed.cn, "-c 3", HOME).0, 3);
    assert_eq!(echoes(&testbed.ha.host, "-c 3", MNN).0, 3);
    // The mobile router's packets come from a stranger.
    testbed.ha.put(&at_home_agent(1, (HOME, MNP), &[("2001:db8:2::99", 1, 1)]));
    assert_eq!(echoes(&testbed.mnn, "-c 3", CN).0, 0);
    assert_eq!(testbed.ha.count("dropped_source"), 3);
}
