//! Four hosts in a row, joined by bare cables: where a packet costs least, and so what a router adds shows most.
//!
//! ```text
//!   source s0 ──── h0 agent h1 ──── up0 router in0 ──── d0 sink
//!                       └─h2 ──── up1─┘      where flows are shared out
//! ```

mod roam6;
mod tunnels;

use crate::bed::{Daemon, Host, Process};
use crate::clock;
use crate::load::packet_generator::PacketGenerator;
use crate::topology::nemo::{self, HOME_AGENT};
use anyhow::{Context, Result};
use roam6_wire::ip6::{self, Header, protocol};
use roam6_wire::udp::Udp;
use std::net::Ipv6Addr;
use std::time::Duration;

/// What the two routers in the middle do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Forwarding {
    /// Forward, as the kernel does.
    Plain,
    /// Are a home agent and a mobile router that is away.
    Roam6,
    /// The same, which take frames at the driver.
    Xdp,
    /// The same by two uplinks, one of which is chosen for each flow, by rules or by weights.
    FlowBinding,
    /// Tunnel from agent to router by the kernel's segment routing, in its reduced form: the same packets on the wire.
    Seg6,
    /// Tunnel by the kernel's IPv6 in IPv6: the same packets too.
    Ip6tnl,
    /// Tunnel by WireGuard, which encrypts.
    WireGuard,
    /// Pass frames on without a look at them.
    Redirect,
}

/// The hosts.
pub(crate) struct Chain {
    pub(crate) forwarding: Forwarding,
    pub(crate) source: Host,
    pub(crate) agent: Host,
    pub(crate) router: Host,
    pub(crate) sink: Host,
    running: Running,
}

/// What lives as long as the chain.
#[derive(Default)]
struct Running {
    /// Home agent and mobile router.
    daemons: Vec<Daemon>,
    _radvds: Vec<Process>,
    _generators: Vec<PacketGenerator>,
}

pub(crate) const SOURCE: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 5, 0, 0, 0, 0, 2);
pub(crate) const SINK: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0x100, 0, 0, 0, 0, 0xd);
/// The mobile router's, of its link-layer address.
const CARE_OF: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0xff, 0xfe00, 4);
/// The same host's where it is an ordinary router.
const PLAIN_ROUTER: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 2);
/// The agent's on the cable to the router.
const PLAIN_AGENT: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 1);
/// How long it may take until the mobile router is bound.
const TIMEOUT: Duration = Duration::from_secs(15);

/// In the order of the picture; their places, from 1, are the last octets of their link-layer addresses.
const INTERFACES: [&str; 8] = ["s0", "h0", "h1", "up0", "in0", "d0", "h2", "up1"];

impl Forwarding {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Forwarding::Plain => "plain",
            Forwarding::Roam6 => "roam6",
            Forwarding::Xdp => "xdp",
            Forwarding::FlowBinding => "shared",
            Forwarding::Seg6 => "segments",
            Forwarding::Ip6tnl => "ip6tnl",
            Forwarding::WireGuard => "wireguard",
            Forwarding::Redirect => "ceiling",
        }
    }
}

impl Chain {
    /// Builds it, and waits until packets pass from end to end.
    pub(crate) fn build(kind: Forwarding) -> Result<Chain> {
        let host = |part: &str, routes: bool| -> Result<Host> {
            let host = Host::new(&format!("{}-{part}", kind.name()))?;
            host.set_sysctl("ipv6/conf/default/accept_dad", "0")?;
            host.set_sysctl("ipv6/conf/all/forwarding", if routes { "1" } else { "0" })?;
            if kind == Forwarding::Seg6 {
                host.set_sysctl("ipv6/conf/all/seg6_enabled", "1")?;
                host.set_sysctl("ipv6/conf/default/seg6_enabled", "1")?;
            }
            Ok(host)
        };
        let (source, agent) = (host("source", false)?, host("agent", true)?);
        let (router, sink) = (host("router", true)?, host("sink", false)?);
        connect_veth(&source, "s0", &agent, "h0")?;
        connect_veth(&agent, "h1", &router, "up0")?;
        connect_veth(&router, "in0", &sink, "d0")?;
        if kind == Forwarding::FlowBinding {
            connect_veth(&agent, "h2", &router, "up1")?;
            agent.ip(&["address add 2001:db8:3::1/64 dev h2"])?;
        }
        let mut chain = Chain { forwarding: kind, source, agent, router, sink, running: Running::default() };
        chain.assign_addresses()?;
        chain.running = chain.start_forwarding().with_context(|| format!("the chain {}", kind.name()))?;
        if kind != Forwarding::Redirect {
            chain.wait_until_connected()?;
        }
        if [Forwarding::Ip6tnl, Forwarding::WireGuard].contains(&kind) {
            chain.check_tunnel()?;
        }
        Ok(chain)
    }

    fn assign_addresses(&self) -> Result<()> {
        self.source.ip(&[&format!("address add {SOURCE}/64 dev s0"), "route add default via 2001:db8:5::1"])?;
        self.agent.ip(&[
            "address add 2001:db8:5::1/64 dev h0",
            &format!("address add {HOME_AGENT}/64 dev h0"),
            &format!("address add {PLAIN_AGENT}/64 dev h1"),
        ])?;
        let inside = link_local("in0");
        self.sink.ip(&[&format!("address add {SINK}/64 dev d0"), &format!("route add default via {inside} dev d0")])
    }

    fn start_forwarding(&self) -> Result<Running> {
        match self.forwarding {
            Forwarding::Roam6 | Forwarding::FlowBinding => return self.start_roam6(""),
            Forwarding::Xdp => return self.start_roam6("accel = \"xdp\"\n"),
            _ => self.router.ip(&[
                &format!("address add {PLAIN_ROUTER}/64 dev up0"),
                "address add 2001:db8:100::1/64 dev in0",
                &format!("route add default via {PLAIN_AGENT}"),
            ])?,
        }
        match self.forwarding {
            Forwarding::Seg6 => self.set_up_seg6()?,
            Forwarding::Ip6tnl => self.set_up_ip6tnl()?,
            Forwarding::WireGuard => self.set_up_wireguard()?,
            Forwarding::Redirect => return self.start_redirect(),
            _ => self.agent.ip(&[&format!("route add 2001:db8:100::/56 via {PLAIN_ROUTER}")])?,
        }
        Ok(Running::default())
    }

    fn start_redirect(&self) -> Result<Running> {
        let mut generators = vec![PacketGenerator::new()?, PacketGenerator::new()?];
        for (generator, (host, from, to)) in
            generators.iter_mut().zip([(&self.agent, "h0", "h1"), (&self.router, "up0", "in0")])
        {
            generator.redirect(host, from, to)?;
        }
        Ok(Running { _generators: generators, ..Running::default() })
    }

    fn wait_until_connected(&self) -> Result<()> {
        let ping = || self.sink.output("ping", &["-6", "-n", "-c", "1", "-W", "0.3", &SOURCE.to_string()]).ok();
        let answered = clock::wait_for(TIMEOUT, ping);
        answered.with_context(|| format!("{}: no packets pass", self.forwarding.name()))?;
        if self.forwarding != Forwarding::FlowBinding {
            return Ok(());
        }
        let both = || self.binding_count().ok().filter(|count| *count == 2);
        clock::wait_for(TIMEOUT, both).map(|_| ()).context("one of the uplinks is not registered")
    }

    /// Whether our daemons carry the packets.
    fn has_tunnel(&self) -> bool {
        [Forwarding::Roam6, Forwarding::Xdp, Forwarding::FlowBinding].contains(&self.forwarding)
    }

    /// Where the mobile router's own programs are reached.
    pub(crate) fn router_address(&self) -> Ipv6Addr {
        if self.has_tunnel() { nemo::home_address(0) } else { PLAIN_ROUTER }
    }
}

/// A UDP packet of `octets` from source to sink or back, of one of many flows.
pub(crate) fn udp_packet(octets: usize, upward: bool, flow: u16) -> Vec<u8> {
    let (from, to) = if upward { (SINK, SOURCE) } else { (SOURCE, SINK) };
    let payload = vec![0; octets.saturating_sub(ip6::HEADER_LENGTH + roam6_wire::udp::HEADER_LENGTH)];
    let (source, destination) = if upward { (9, 10_000 + flow) } else { (10_000 + flow, 9) };
    let udp = Udp { source, destination, payload: &payload }.emit(from, to);
    ip6::emit(&Header::new(from, to), protocol::UDP, &udp)
}

/// The same in the tunnel.
pub(crate) fn encapsulated(packet: &[u8], upward: bool) -> Vec<u8> {
    let (from, to) = if upward { (CARE_OF, HOME_AGENT) } else { (HOME_AGENT, CARE_OF) };
    ip6::encapsulate(&Header::new(from, to), packet)
}

/// A packet as it goes over the cable from one interface to another.
pub(crate) fn ethernet_frame(from: &str, to: &str, packet: &[u8]) -> Vec<u8> {
    [&link_layer_address(to)[..], &link_layer_address(from), &[0x86, 0xdd], packet].concat()
}

fn link_layer_address(interface: &str) -> [u8; 6] {
    let place = INTERFACES.iter().position(|name| *name == interface).unwrap_or_default();
    [2, 0, 0, 0, 0, u8::try_from(place).unwrap_or_default() + 1]
}

fn link_local(interface: &str) -> Ipv6Addr {
    let [.., last] = link_layer_address(interface);
    Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0xff, 0xfe00, last.into())
}

fn connect_veth(one: &Host, here: &str, other: &Host, there: &str) -> Result<()> {
    let text = |interface| link_layer_address(interface).map(|octet| format!("{octet:02x}")).join(":");
    let (near, far, name) = (text(here), text(there), other.name());
    one.ip(&[
        &format!("link add {here} address {near} type veth peer name {there} address {far} netns {name}"),
        &format!("link set {here} up"),
    ])?;
    other.ip(&[&format!("link set {there} up")])?;
    one.enable_gro(here)?;
    other.enable_gro(there)
}
