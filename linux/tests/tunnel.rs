//! The tunnel's back end by BPF between hosts in network namespaces.
#![cfg(feature = "bpf")]
#![allow(clippy::unwrap_used, reason = "a test fails where it stands")]

mod world;

use roam6_linux::tunnel::Tunnels;
use roam6_linux::tunnel::bpf::{Bpf, Options};
use roam6_proto::input::LinkId;
use roam6_proto::plan::{Path, Tunnel, TunnelId};
use roam6_wire::Bid;
use std::net::UdpSocket;
use world::Host;

const CN: &str = "2001:db8:5::2";
const HA: &str = "2001:db8:5::1";
const COA: &str = "2001:db8:2::2";
const SECOND_COA: &str = "2001:db8:3::2";
const HOME: &str = "2001:db8:5::f0";
const MNN: &str = "2001:db8:f0:1::2";
const MNP: &str = "2001:db8:f0::/48";

/// cn - ha - core = mr - mnn, where mr has two cables to core; core knows nothing of the mobile network.
struct World {
    cn: Host,
    ha: Side,
    core: Host,
    mr: Side,
    mnn: Host,
    run: tempfile::TempDir,
}

struct Side {
    host: Host,
    tunnels: Option<Bpf>,
}

impl Side {
    fn new() -> Side {
        Side { host: Host::new(), tunnels: None }
    }

    fn open(&mut self, run: &std::path::Path, interfaces: &[&str]) {
        let options = Options { device: "nemo0".into(), run: run.to_owned(), tunnels: 1024 };
        let host = &self.host;
        self.tunnels = Some(host.enter(|| {
            let mut tunnels = Bpf::open(options).unwrap();
            for name in interfaces {
                tunnels.attach(LinkId(host.index(name)), name).unwrap();
            }
            tunnels
        }));
    }

    fn act<R>(&mut self, act: impl FnOnce(&mut Bpf) -> R) -> R {
        let tunnels = self.tunnels.as_mut().unwrap();
        self.host.enter(|| act(tunnels))
    }

    fn put(&mut self, tunnel: &Tunnel) {
        self.act(|tunnels| tunnels.put(tunnel)).unwrap();
    }

    fn count(&mut self, name: &str) -> u64 {
        self.act(|tunnels| tunnels.counters())[name]
    }
}

impl World {
    /// The hosts, with the back ends opened and the routes towards the device, but no tunnel yet.
    fn new() -> World {
        let (cn, core, mnn) = (Host::new(), Host::new(), Host::new());
        let (mut ha, mut mr) = (Side::new(), Side::new());
        cn.cable(("cn0", "2001:db8:5::2/64"), &ha.host, ("ha0", "2001:db8:5::1/64"));
        ha.host.cable(("ha1", "2001:db8:1::1/64"), &core, ("core0", "2001:db8:1::2/64"));
        core.cable(("core1", "2001:db8:2::1/64"), &mr.host, ("mr1", "2001:db8:2::2/64"));
        core.cable(("core2", "2001:db8:3::1/64"), &mr.host, ("mr2", "2001:db8:3::2/64"));
        mr.host.cable(("mr0", "2001:db8:f0:1::1/64"), &mnn, ("mnn0", "2001:db8:f0:1::2/64"));
        cn.ip("route add default via 2001:db8:5::1");
        mnn.ip("route add default via 2001:db8:f0:1::1");
        ha.host.ip("route add default via 2001:db8:1::2");
        core.ip("route add 2001:db8:5::/64 via 2001:db8:1::1");
        mr.host.ip("route add default via 2001:db8:2::1 table 2");
        mr.host.ip("route add default via 2001:db8:3::1 table 3");
        mr.host.ip("route add default via 2001:db8:2::1");
        mr.host.ip("rule add from 2001:db8:2::2 lookup 2 pref 102");
        mr.host.ip("rule add from 2001:db8:3::2 lookup 3 pref 103");
        let run = tempfile::tempdir().unwrap();
        ha.open(&run.path().join("ha"), &["ha0", "ha1"]);
        mr.open(&run.path().join("mr"), &["mr0", "mr1", "mr2"]);
        ha.host.ip("route add 2001:db8:f0::/48 dev nemo0");
        ha.host.ip("route add 2001:db8:5::f0/128 dev nemo0");
        mr.host.ip("address add 2001:db8:5::f0/128 dev lo");
        mr.host.ip("route add default dev nemo0 table 10");
        mr.host.ip("rule add to 2001:db8:f0::/48 lookup main pref 90");
        mr.host.ip("rule add from 2001:db8:f0::/48 lookup 10 pref 100");
        mr.host.ip("rule add from 2001:db8:5::f0 lookup 10 pref 100");
        World { cn, ha, core, mr, mnn, run }
    }

    /// The tunnel of each end over these care-of addresses: address, identifier, weight.
    fn bind(&mut self, paths: &[(&str, u16, u16)]) {
        self.ha.put(&at_home_agent(paths));
        let links = [("2001:db8:2::2", self.mr.host.index("mr1")), ("2001:db8:3::2", self.mr.host.index("mr2"))];
        let mut tunnel = at_home_agent(paths);
        std::mem::swap(&mut tunnel.near, &mut tunnel.far);
        for path in &mut tunnel.paths {
            std::mem::swap(&mut path.local, &mut path.remote);
            path.link = links.iter().find(|(address, _)| path.local.to_string() == *address).map(|(_, l)| LinkId(*l));
        }
        self.mr.put(&tunnel);
    }
}

fn at_home_agent(paths: &[(&str, u16, u16)]) -> Tunnel {
    let path = |&(care_of, bid, weight): &(&str, u16, u16)| Path {
        bid: Bid(bid),
        local: HA.parse().unwrap(),
        remote: care_of.parse().unwrap(),
        link: None,
        mtu: 1460,
        weight,
    };
    Tunnel {
        id: TunnelId(1),
        near: vec!["::/0".parse().unwrap()],
        far: vec!["2001:db8:5::f0/128".parse().unwrap(), MNP.parse().unwrap()],
        paths: paths.iter().map(path).collect(),
        flows: Vec::new(),
    }
}

/// Sends `octets` there and waits for it to come.
fn arrives(from: &UdpSocket, to: &UdpSocket, octets: usize) -> bool {
    from.send_to(&vec![7; octets], to.local_addr().unwrap()).unwrap();
    let mut buffer = [0; 65536];
    to.recv(&mut buffer).is_ok_and(|length| length == octets)
}

macro_rules! world_or_return {
    ($name:literal) => {{
        if let Some(why) = world::obstacle() {
            println!("skipped: {}: {why}", $name);
            return;
        }
        World::new()
    }};
}

#[test]
fn packets_pass_both_ways_by_slow_and_fast_path() {
    let mut world = world_or_return!("packets_pass_both_ways_by_slow_and_fast_path");
    world.bind(&[(COA, 1, 1)]);
    let (cn, mnn) = (world.cn.udp("[2001:db8:5::2]:5000"), world.mnn.udp("[2001:db8:f0:1::2]:5000"));
    for _ in 0..20 {
        assert!(arrives(&cn, &mnn, 1000));
        assert!(arrives(&mnn, &cn, 1000));
    }
    println!("{:?}", world.ha.act(|t| t.counters()));
    println!("{:?}", world.mr.act(|t| t.counters()));
}
