//! Frames taken at the driver: packets pass there and are counted there, and all that is not for it is as without it. Between
//! hosts echoes travel, because a driver's program has no way to complete the checksums that sockets leave to a cable like this.

use crate::scene::{CN, COA, HOME, Kind, MNN, MNP, Scene, at_home_agent};
use crate::scene_or_skip;
use crate::world::Host;
use roam6_linux::tunnel::Tunnels;
use roam6_linux::tunnel::bpf::{Bpf, Options};
use roam6_proto::base::ids::LinkId;
use std::process::Command;

const AT_HOME_AGENT: [&str; 2] = ["ha0", "ha1"];
const AT_MOBILE_ROUTER: [&str; 3] = ["mr0", "mr1", "mr2"];

/// Echoes of so many octets of payload: what came back, and what ping said.
fn echoes(from: &Host, options: &str, to: &str) -> (usize, String) {
    let words = format!("-6 -n -i 0.02 -W 0.3 {options} {to}");
    let output = from.enter(|| Command::new("ping").args(words.split(' ')).output().unwrap());
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    (said.matches("bytes from").count(), said)
}

/// Has the other ends of the cables a program too: without, cables as these drop frames. Those hosts have no tunnels.
fn neighbours(scene: &Scene) -> Vec<Bpf> {
    let hosts: [(&Host, &[&str]); 3] =
        [(&scene.cn, &["cn0"]), (&scene.core, &["core0", "core1"]), (&scene.mnn, &["mnn0"])];
    let open = |(host, interfaces): (&Host, &[&str])| {
        let run = scene.run.path().join(interfaces[0]);
        let options =
            Options { device: "nemo0".into(), run, xdp: true, max_tunnels: 16, dsmip_addresses: Default::default() };
        host.enter(|| {
            let mut tunnels = Bpf::open(options).unwrap();
            interfaces.iter().for_each(|name| tunnels.attach(LinkId(host.index(name)), name).unwrap());
            tunnels
        })
    };
    hosts.map(open).into()
}

/// Another life of both daemons.
fn live(scene: &mut Scene, kind: Kind) {
    let run = scene.run.path().to_owned();
    scene.ha.reopen(kind, &run.join("ha"), &AT_HOME_AGENT);
    scene.mr.reopen(kind, &run.join("mr"), &AT_MOBILE_ROUTER);
    scene.bind(&[(COA, 1, 1)]);
    for side in [&mut scene.ha, &mut scene.mr] {
        side.act(|tunnels| tunnels.remove_stale()).unwrap();
    }
}

fn counts(scene: &mut Scene, name: &str) -> [u64; 2] {
    [scene.ha.count(name), scene.mr.count(name)]
}

#[test]
fn packets_pass_at_the_driver_in_the_life_that_wants_it() {
    let mut scene = scene_or_skip!("packets_pass_at_the_driver_in_the_life_that_wants_it");
    let _neighbours = neighbours(&scene);
    assert_eq!(echoes(&scene.cn, "-c 20", MNN).0, 20);
    assert_eq!(counts(&mut scene, "encapsulated_xdp"), [0, 0]);
    live(&mut scene, Kind::BpfAtDriver);
    assert_eq!(echoes(&scene.cn, "-c 20", MNN).0, 20);
    for name in ["encapsulated_xdp", "decapsulated_xdp"] {
        let seen = counts(&mut scene, name);
        assert!(seen.iter().all(|&count| (10..=20).contains(&count)), "{name}: {seen:?}");
    }
    live(&mut scene, Kind::Bpf);
    let before = counts(&mut scene, "encapsulated_xdp");
    assert_eq!(echoes(&scene.cn, "-c 5", MNN).0, 5);
    assert_eq!(counts(&mut scene, "encapsulated_xdp"), before);
}

#[test]
fn what_is_not_for_the_driver_is_as_without_it() {
    let mut scene = scene_or_skip!("what_is_not_for_the_driver_is_as_without_it");
    let _neighbours = neighbours(&scene);
    live(&mut scene, Kind::BpfAtDriver);
    assert_eq!(echoes(&scene.cn, "-c 3", MNN).0, 3);
    // 1460 octets fit into the tunnel.
    assert_eq!(echoes(&scene.cn, "-c 3 -M do -s 1412", MNN).0, 3);
    let (came, said) = echoes(&scene.cn, "-c 3 -M do -s 1413", MNN);
    assert!(came == 0 && said.contains("mtu=1460"), "{said}");
    for (limit, reaches) in [(1, false), (2, false), (3, true)] {
        let (came, said) = echoes(&scene.cn, &format!("-c 1 -t {limit}"), MNN);
        assert!((came == 1) == reaches && said.contains("exceeded") != reaches, "hop limit {limit}: {said}");
    }
    // The routers themselves.
    assert_eq!(echoes(&scene.cn, "-c 3", HOME).0, 3);
    assert_eq!(echoes(&scene.ha.host, "-c 3", MNN).0, 3);
    // The mobile router's packets come from a stranger.
    scene.ha.put(&at_home_agent(1, (HOME, MNP), &[("2001:db8:2::99", 1, 1)]));
    assert_eq!(echoes(&scene.mnn, "-c 3", CN).0, 0);
    assert_eq!(scene.ha.count("dropped_source"), 3);
}
