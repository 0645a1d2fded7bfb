//! Four hosts in a row, connected by veth links, whose own cost per packet is the least: for the cost of forwarding.
//!
//! ```text
//!   source s0 ──── h0 agent h1 ──── up0 router in0 ──── d0 sink
//!                       └─h2 ──── up1─┘      with flow bindings only
//! ```

mod roam6;
mod tunnels;

use crate::bed::sandbox::KworkerTimes;
use crate::bed::{Daemon, Host, Process};
use crate::clock;
use crate::load::packet_generator::{Burst, PacketGenerator};
use crate::sys::Offload;
use crate::topology::nemo::{self, HOME_AGENT};
use anyhow::{Context, Result};
use roam6_wire::LinkAddress;
use roam6_wire::ip6::{self, Header, protocol};
use roam6_wire::udp::Udp;
use std::net::Ipv6Addr;
use std::time::Duration;

/// How the two routers in the middle forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Forwarding {
    /// By the kernel's routing.
    Plain,
    /// As a home agent and a mobile router away from home.
    Roam6,
    /// The same, with the fast path at the driver (XDP).
    Xdp,
    /// As [`Forwarding::Roam6`], in UDP over an uplink that has IPv4 only.
    Udp4,
    /// As [`Forwarding::Roam6`], in UDP over IPv6.
    Udp6,
    /// As [`Forwarding::Roam6`] with two uplinks, one of which is selected for each flow, by rules or by weights.
    FlowBinding,
    /// The same, with a rule that sends other flows by both.
    Duplicate,
    /// As [`Forwarding::Roam6`], encrypted.
    Encrypted,
    /// The same as [`Forwarding::FlowBinding`], with a rule that relays some connections over both.
    Bonding,
    /// By the kernel's segment routing with reduced encapsulation, from agent to router: the same packets on the wire.
    Seg6,
    /// By the kernel's IPv6-in-IPv6 tunnel: the same packets on the wire.
    Ip6tnl,
    /// By a WireGuard tunnel, encrypted.
    WireGuard,
    /// By an XDP redirect without a lookup.
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

/// Programs that run as long as the chain exists.
#[derive(Default)]
struct Running {
    /// Home agent and mobile router.
    daemons: Vec<Daemon>,
    _radvds: Vec<Process>,
    _generators: Vec<PacketGenerator>,
}

pub(crate) const SOURCE: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 5, 0, 0, 0, 0, 2);
pub(crate) const SINK: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0x100, 0, 0, 0, 0, 0xd);
/// Care-of address of the mobile router, formed from its link-layer address.
const CARE_OF: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0xff, 0xfe00, 4);
/// Address of the same host if it is an ordinary router.
const PLAIN_ROUTER: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 2);
/// Address of the agent on its link to the router.
const PLAIN_AGENT: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 1);
/// How long the registration may take.
const TIMEOUT: Duration = Duration::from_secs(15);

/// The position of an interface, from 1, is the last octet of its link-layer address.
const INTERFACES: [&str; 8] = ["s0", "h0", "h1", "up0", "in0", "d0", "h2", "up1"];

impl Forwarding {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Forwarding::Plain => "plain",
            Forwarding::Roam6 => "roam6",
            Forwarding::Xdp => "xdp",
            Forwarding::Udp4 => "udp4",
            Forwarding::Udp6 => "udp6",
            Forwarding::FlowBinding => "shared",
            Forwarding::Duplicate => "twice",
            Forwarding::Encrypted => "encrypted",
            Forwarding::Bonding => "bonded",
            Forwarding::Seg6 => "segments",
            Forwarding::Ip6tnl => "ip6tnl",
            Forwarding::WireGuard => "wireguard",
            Forwarding::Redirect => "ceiling",
        }
    }

    /// Whether packets are encrypted by the kernel's worker threads.
    pub(crate) fn uses_workers(self) -> bool {
        matches!(self, Forwarding::WireGuard | Forwarding::Encrypted)
    }

    /// Sends a burst; its CPU time includes that of the worker threads.
    pub(crate) fn with_workers(self, send: impl FnOnce() -> Result<Burst>) -> Result<Burst> {
        let before = self.uses_workers().then(KworkerTimes::now);
        let mut burst = send()?;
        burst.cpu_time += before.map(|before| KworkerTimes::now().cpu_time_since(&before)).unwrap_or_default();
        Ok(burst)
    }

    fn has_two_uplinks(self) -> bool {
        matches!(self, Forwarding::FlowBinding | Forwarding::Duplicate | Forwarding::Bonding)
    }
}

impl Chain {
    /// Builds the chain; returns once packets pass from end to end.
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
        if kind.has_two_uplinks() {
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
        let inside = link_layer_address("in0").link_local();
        self.sink.ip(&[&format!("address add {SINK}/64 dev d0"), &format!("route add default via {inside} dev d0")])
    }

    fn start_forwarding(&self) -> Result<Running> {
        match self.forwarding {
            Forwarding::Roam6
            | Forwarding::FlowBinding
            | Forwarding::Duplicate
            | Forwarding::Encrypted
            | Forwarding::Bonding
            | Forwarding::Udp4
            | Forwarding::Udp6 => {
                return self.start_roam6("");
            }
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
        if !self.forwarding.has_two_uplinks() {
            return Ok(());
        }
        let both = || self.binding_count().ok().filter(|count| *count == 2);
        clock::wait_for(TIMEOUT, both).map(|_| ()).context("one of the uplinks is not registered")
    }

    /// Whether roam6 forwards the packets.
    fn has_tunnel(&self) -> bool {
        use Forwarding::{Bonding, Duplicate, Encrypted, FlowBinding, Roam6, Udp4, Udp6, Xdp};
        [Roam6, Xdp, FlowBinding, Duplicate, Bonding, Encrypted, Udp4, Udp6].contains(&self.forwarding)
    }

    /// The address of the mobile router's own sockets.
    pub(crate) fn router_address(&self) -> Ipv6Addr {
        if self.has_tunnel() { nemo::home_address(0) } else { PLAIN_ROUTER }
    }
}

/// Flows from this number on have the DSCP of [`MARK`].
pub(crate) const FIRST_MARKED_FLOW: u16 = 1000;
/// Expedited forwarding (RFC 3246).
const MARK: u8 = 46;

/// A UDP packet of `octets` from source to sink or back, of one of many flows.
pub(crate) fn udp_packet(octets: usize, upward: bool, flow: u16) -> Vec<u8> {
    let (from, to) = if upward { (SINK, SOURCE) } else { (SOURCE, SINK) };
    let payload = vec![0; octets.saturating_sub(ip6::HEADER_LENGTH + roam6_wire::udp::HEADER_LENGTH)];
    let (source, destination) = if upward { (9, 10_000 + flow) } else { (10_000 + flow, 9) };
    let udp = Udp { source, destination, payload: &payload }.emit(from, to);
    let class = if flow < FIRST_MARKED_FLOW { 0 } else { MARK << 2 };
    ip6::emit(&Header { traffic_class: class, ..Header::new(from, to) }, protocol::UDP, &udp)
}

/// An acknowledgement with data, of `octets`, of a connection from this port of the sink to that of the source.
pub(crate) fn tcp_segment(octets: usize, upward: bool, (inside, outside): (u16, u16)) -> Vec<u8> {
    const OFFSET_AND_FLAGS: [u8; 2] = [5 << 4, 0x10];
    let (from, to) = if upward { (SINK, SOURCE) } else { (SOURCE, SINK) };
    let (source, destination) = if upward { (inside, outside) } else { (outside, inside) };
    let mut segment = [source.to_be_bytes(), destination.to_be_bytes()].concat();
    segment.extend([0; 8]);
    segment.extend(OFFSET_AND_FLAGS);
    segment.resize(octets.saturating_sub(ip6::HEADER_LENGTH), 0);
    ip6::emit(&Header::new(from, to), protocol::TCP, &segment)
}

/// The packet with the outer header of the tunnel.
pub(crate) fn encapsulated(packet: &[u8], upward: bool) -> Vec<u8> {
    let (from, to) = if upward { (CARE_OF, HOME_AGENT) } else { (HOME_AGENT, CARE_OF) };
    ip6::encapsulate(&Header::new(from, to), packet)
}

/// A packet in an Ethernet frame from one interface to another.
pub(crate) fn ethernet_frame(from: &str, to: &str, packet: &[u8]) -> Vec<u8> {
    [&link_layer_address(to).0[..], &link_layer_address(from).0, &[0x86, 0xdd], packet].concat()
}

fn link_layer_address(interface: &str) -> LinkAddress {
    let place = INTERFACES.iter().position(|name| *name == interface).unwrap_or_default();
    LinkAddress([2, 0, 0, 0, 0, u8::try_from(place).unwrap_or_default() + 1])
}

fn connect_veth(one: &Host, here: &str, other: &Host, there: &str) -> Result<()> {
    let (near, far, name) = (link_layer_address(here), link_layer_address(there), other.name());
    one.ip(&[
        &format!("link add {here} address {near} type veth peer name {there} address {far} netns {name}"),
        &format!("link set {here} up"),
    ])?;
    other.ip(&[&format!("link set {there} up")])?;
    one.set_offload(here, Offload::Gro, true)?;
    other.set_offload(there, Offload::Gro, true)
}
