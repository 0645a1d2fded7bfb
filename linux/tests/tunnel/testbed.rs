//! The testbed of the tunnel tests: cn - ha - core = mr - mnn, where mr has two cables to core, and core knows nothing of the
//! mobile network. A second mobile router can join, beside the first or behind it.

use crate::netns_host::{Host, RECEIVE_TIMEOUT};
use roam6_linux::tunnel::Tunnels;
use roam6_linux::tunnel::bpf::{Bpf, Options};
use roam6_linux::tunnel::ip6tnl::Ip6Tnl;
use roam6_proto::base::ids::LinkId;
use roam6_proto::base::vec_set::VecSet;
use roam6_proto::contract::item::{Encap, Tunnel, TunnelId, TunnelPath};
use roam6_wire::Bid;
use std::net::{Ipv6Addr, UdpSocket};
use std::time::Duration;

pub const CN: &str = "2001:db8:5::2";
pub const HA: &str = "2001:db8:5::1";
pub const COA: &str = "2001:db8:2::2";
pub const SECOND_COA: &str = "2001:db8:3::2";
pub const HOME: &str = "2001:db8:5::f0";
pub const MNN: &str = "2001:db8:f0:1::2";
pub const MNP: &str = "2001:db8:f0::/48";
pub const OTHER_HOME: &str = "2001:db8:5::f1";
pub const OTHER_MNN: &str = "2001:db8:f1:1::2";
pub const OTHER_MNP: &str = "2001:db8:f1::/48";

/// A path of a tunnel: care-of address, identifier, weight.
pub type CareOf = (&'static str, u16, u16);

/// The tunnel back end of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackEnd {
    Bpf,
    /// The same, with the XDP program.
    BpfAtDriver,
    Kernel,
}

/// A host with a back end, or without while the daemon is down.
pub struct TunnelEnd {
    pub host: Host,
    pub kind: BackEnd,
    pub tunnels: Option<Box<dyn Tunnels + Send>>,
}

impl TunnelEnd {
    pub fn new(kind: BackEnd) -> TunnelEnd {
        TunnelEnd { host: Host::new(), kind, tunnels: None }
    }

    /// The device of the first tunnel.
    pub fn device(&self) -> &'static str {
        if self.kind == BackEnd::Kernel { "nemo1" } else { "nemo0" }
    }

    /// Starts the daemon's part.
    pub fn open(&mut self, run: &std::path::Path, interfaces: &[&str]) {
        self.open_with(run, interfaces, VecSet::new());
    }

    /// The same with local addresses of signalling over IPv4.
    pub fn open_with(&mut self, run: &std::path::Path, interfaces: &[&str], dsmip_addresses: VecSet<Ipv6Addr>) {
        let options = Options {
            device: "nemo0".into(),
            run: run.to_owned(),
            xdp: self.kind == BackEnd::BpfAtDriver,
            state_dir: std::path::PathBuf::new(),
            encryption: Default::default(),
            max_tunnels: 1024,
            udp6_addresses: dsmip_addresses.clone(),
            bonding: false,
            dsmip_addresses,
        };
        let host = &self.host;
        if self.kind == BackEnd::Kernel {
            self.tunnels = Some(host.enter(|| Box::new(Ip6Tnl::open("nemo").unwrap())));
            return;
        }
        self.tunnels = Some(host.enter(|| {
            let mut tunnels = Bpf::open(options).unwrap();
            for name in interfaces {
                tunnels.attach(LinkId(host.index(name)), name).unwrap();
            }
            Box::new(tunnels) as Box<dyn Tunnels + Send>
        }));
    }

    /// Restarts the daemon's part, perhaps with another back end.
    pub fn reopen(&mut self, kind: BackEnd, run: &std::path::Path, interfaces: &[&str]) {
        self.tunnels = None;
        self.kind = kind;
        self.open(run, interfaces);
    }

    pub fn act<R>(&mut self, act: impl FnOnce(&mut dyn Tunnels) -> R) -> R {
        let tunnels = self.tunnels.as_mut().unwrap();
        self.host.enter(|| act(tunnels.as_mut()))
    }

    pub fn put(&mut self, tunnel: &Tunnel) {
        self.act(|tunnels| tunnels.put(tunnel)).unwrap();
    }

    pub fn count(&mut self, name: &str) -> u64 {
        *self.act(|tunnels| tunnels.counters()).get(name).unwrap()
    }

    /// Routes of a mobile router: packets from its mobile network, by an ingress interface, or from its home address go
    /// to the home agent.
    fn route_home(&self, network: &str, home: &str, inside: &str) {
        self.host.ip(&format!("address add {home}/128 dev lo nodad"));
        self.host.ip(&format!("route add default dev {} table 10", self.device()));
        self.host.ip(&format!("rule add to {network} lookup main pref 90"));
        for interface in [inside, "lo"] {
            self.host.ip(&format!("rule add from {network} iif {interface} lookup 10 pref 100"));
        }
        self.host.ip(&format!("rule add from {home} iif lo lookup 10 pref 101"));
    }
}

pub struct Testbed {
    pub cn: Host,
    pub ha: TunnelEnd,
    pub core: Host,
    pub mr: TunnelEnd,
    pub mnn: Host,
    pub run: tempfile::TempDir,
}

impl Testbed {
    /// The hosts, with tunnels by BPF and the first care-of address bound.
    pub fn new() -> Testbed {
        Testbed::with(BackEnd::Bpf, BackEnd::Bpf)
    }

    /// The same with these back ends on the home agent and on the mobile router.
    pub fn with(at_ha: BackEnd, at_mr: BackEnd) -> Testbed {
        let mut testbed = Testbed::unbound(at_ha, at_mr);
        testbed.bind(&[(COA, 1, 1)]);
        let device = testbed.ha.device();
        testbed.ha.host.ip(&format!("route add {MNP} dev {device}"));
        testbed.ha.host.ip(&format!("route add {HOME}/128 dev {device}"));
        for (knob, value) in [("conf/ha0/proxy_ndp", "1"), ("neigh/ha0/proxy_delay", "0")] {
            testbed.ha.host.enter(|| std::fs::write(format!("/proc/sys/net/ipv6/{knob}"), value)).unwrap();
        }
        testbed.ha.host.ip(&format!("neighbour add proxy {HOME} dev ha0"));
        testbed.mr.route_home(MNP, HOME, "mr0");
        testbed
    }

    fn unbound(at_ha: BackEnd, at_mr: BackEnd) -> Testbed {
        let (cn, core, mnn) = (Host::new(), Host::new(), Host::new());
        let (mut ha, mut mr) = (TunnelEnd::new(at_ha), TunnelEnd::new(at_mr));
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
        Testbed { cn, ha, core, mr, mnn, run }
    }

    /// Puts the tunnel of each end, over these care-of addresses.
    pub fn bind(&mut self, paths: &[CareOf]) {
        self.ha.put(&at_home_agent(1, (HOME, MNP), paths));
        self.mr.put(&self.at_mobile_router(paths));
    }

    /// Puts the first path with this MTU; the routes are those of any link.
    pub fn bind_at(&mut self, mtu: u32) {
        let narrow = |mut tunnel: Tunnel| {
            tunnel.paths[0].mtu = mtu;
            tunnel
        };
        let paths = [(COA, 1, 1)];
        self.ha.put(&narrow(at_home_agent(1, (HOME, MNP), &paths)));
        let tunnel = narrow(self.at_mobile_router(&paths));
        self.mr.put(&tunnel);
        let mtu = self.ha.act(|tunnels| tunnels.mtu(TunnelId(1))).unwrap();
        self.ha.host.ip(&format!("route change {MNP} dev nemo0 mtu {mtu}"));
        self.mr.host.ip(&format!("route change default dev nemo0 table 10 mtu {mtu}"));
    }

    pub fn at_mobile_router(&self, paths: &[CareOf]) -> Tunnel {
        let links = [(COA, "mr1"), (SECOND_COA, "mr2")];
        let mut tunnel = turned(at_home_agent(1, (HOME, MNP), paths));
        for path in &mut tunnel.paths {
            let link = links.iter().find(|(address, _)| path.local.to_string() == *address);
            path.link = link.map(|(_, name)| LinkId(self.mr.host.index(name)));
        }
        tunnel
    }

    /// A second mobile router and a node behind it; its care-of address is in core's network or in the first one's.
    pub fn second_router(&mut self, nested: bool) -> (TunnelEnd, Host) {
        let (mut mr, mnn) = (TunnelEnd::new(BackEnd::Bpf), Host::new());
        let (access, port, router, care_of) = if nested {
            (&self.mr.host, "mr3", "2001:db8:f0:2::1", "2001:db8:f0:2::2")
        } else {
            (&self.core, "core3", "2001:db8:4::1", "2001:db8:4::2")
        };
        access.cable((port, &format!("{router}/64")), &mr.host, ("up0", &format!("{care_of}/64")));
        mr.host.cable(("in0", "2001:db8:f1:1::1/64"), &mnn, ("mnn0", &format!("{OTHER_MNN}/64")));
        mnn.ip("route add default via 2001:db8:f1:1::1");
        mr.host.ip(&format!("route add default via {router}"));
        if nested {
            let link = LinkId(access.index(port));
            access.ip(&format!("rule add from {MNP} iif {port} lookup 10 pref 100"));
            self.mr.act(|tunnels| tunnels.attach(link, port)).unwrap();
        }
        mr.open(&self.run.path().join("mr2"), &["in0", "up0"]);
        mr.route_home(OTHER_MNP, OTHER_HOME, "in0");
        let mut tunnel = at_home_agent(2, (OTHER_HOME, OTHER_MNP), &[(care_of, 0, 1)]);
        if nested {
            tunnel.paths[0].mtu = 1420;
        }
        self.ha.put(&tunnel);
        mr.put(&turned(tunnel));
        let mtu = self.ha.act(|tunnels| tunnels.mtu(TunnelId(2))).unwrap();
        self.ha.host.ip(&format!("route add {OTHER_MNP} dev nemo0 mtu {mtu}"));
        self.ha.host.ip(&format!("route add {OTHER_HOME}/128 dev nemo0 mtu {mtu}"));
        mr.host.ip(&format!("route change default dev nemo0 table 10 mtu {mtu}"));
        (mr, mnn)
    }
}

/// A home agent's tunnel.
pub fn at_home_agent(id: u32, (home, network): (&str, &str), paths: &[CareOf]) -> Tunnel {
    let path = |&(care_of, bid, weight): &CareOf| TunnelPath {
        bid: Bid(bid),
        local: HA.parse().unwrap(),
        remote: care_of.parse().unwrap(),
        link: None,
        mtu: 1460,
        weight,
        direct: false,
        encap: Encap::Native,
        dscp: None,
    };
    Tunnel {
        id: TunnelId(id),
        local_prefixes: vec!["::/0".parse().unwrap()],
        remote_prefixes: vec![format!("{home}/128").parse().unwrap(), network.parse().unwrap()],
        paths: paths.iter().map(path).collect(),
        flows: Vec::new(),
    }
}

/// The same tunnel, for the other endpoint.
pub fn turned(mut tunnel: Tunnel) -> Tunnel {
    std::mem::swap(&mut tunnel.local_prefixes, &mut tunnel.remote_prefixes);
    for path in &mut tunnel.paths {
        std::mem::swap(&mut path.local, &mut path.remote);
    }
    tunnel
}

/// Sends a packet of `octets`, which must not arrive: `false` if it does soon.
pub fn is_dropped(from: &UdpSocket, to: &UdpSocket, octets: usize) -> bool {
    to.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let dropped = !arrives(from, to, octets);
    to.set_read_timeout(Some(RECEIVE_TIMEOUT)).unwrap();
    dropped
}

/// Sends a packet of `octets` and waits for it to arrive.
pub fn arrives(from: &UdpSocket, to: &UdpSocket, octets: usize) -> bool {
    let _ = from.send_to(&vec![7; octets], to.local_addr().unwrap());
    let mut buffer = [0; 65536];
    to.recv(&mut buffer).is_ok_and(|length| length == octets)
}
