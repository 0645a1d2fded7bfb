//! The paper's networks (document P2, Figs 1-3) on those of the NEMO experiments: 10 ms and 5 % loss on the ways out of
//! HA, FN1 and FN2, FN2 further off; each access network delegates prefixes (RFC 8415 §6.3).
//!
//! ```text
//!          (10 ms, 5 % out)                 delay CN-HA = CN-FN1 < CN-FN2, which has 5 ms more each way
//!   cn ──── core ─────── ha ── home
//!           │  │
//!         ar1  ar2 (10 ms, 5 % out)         what is sent towards HA, FN1 and FN2 is neither late nor lost: netem
//!          ╵    ╵                           at an interface works on what leaves it
//!         fn1  fn2 ── mr ── mnn
//! ```

use super::{Adverts, Paths, Uplinks, uplinks::Networks};
use crate::bed::{Daemon, Delegator, Host, Segment};
use crate::clock;
use crate::topology::{self, CORRESPONDENT, Vehicle, Visited, World};
use crate::traffic::End;
use anyhow::{Context, Result, anyhow};
use roam6_sim::LinkSpec;
use std::net::Ipv6Addr;
use std::time::Duration;

/// What the links do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Shape {
    /// One-way delay out of HA, FN1 and FN2.
    pub(crate) delay: Duration,
    /// More of it on the way between FN2 and the rest, either way.
    pub(crate) further: Duration,
    /// Share of packets lost out of HA, FN1 and FN2.
    pub(crate) loss: f64,
    /// Bits a second, either way.
    pub(crate) rate_bps: u64,
}

impl Shape {
    /// The paper's, on lines of 20 Mbit/s.
    pub(crate) const PAPER: Shape =
        Shape { delay: Duration::from_millis(10), further: Duration::from_millis(5), loss: 0.05, rate_bps: 20_000_000 };

    /// The same without loss.
    pub(crate) fn lossless(self) -> Shape {
        Shape { loss: 0.0, ..self }
    }

    /// What leaves HA or FN1, or FN2 if it is `further`.
    fn out(self, further: bool) -> LinkSpec {
        let more = if further { self.further } else { Duration::ZERO };
        LinkSpec { delay: self.delay + more, loss: self.loss, ..self.towards(false) }
    }

    /// What is sent to there.
    fn towards(self, further: bool) -> LinkSpec {
        let delay = if further { self.further } else { Duration::ZERO };
        LinkSpec { delay, rate_bps: Some(self.rate_bps), queue_bytes: QUEUE, ..LinkSpec::default() }
    }
}

/// Where a vehicle may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spot {
    /// On the home link.
    Home,
    /// In access network 0 or 1: FN1 or FN2.
    Visited(usize),
}

/// Networks, one vehicle, one node inside, and everybody who watches.
pub(crate) struct Testbed {
    /// The networks.
    pub(crate) world: World,
    /// The vehicle.
    pub(crate) vehicle: Vehicle,
    /// Which path every octet took.
    pub(crate) paths: Paths,
    /// What is advertised inside.
    pub(crate) adverts: Adverts,
    /// What the uplinks carry.
    pub(crate) uplinks: Uplinks,
    /// The roam6 of the node inside, if it has one.
    pub(crate) node: Option<Daemon>,
    shape: Shape,
    _delegators: Vec<Delegator>,
}

/// Octets that wait before a line of 20 Mbit/s: 25 ms.
const QUEUE: usize = 64 * 1024;
/// Nodes inside get addresses of the networks visited, and use them like their own.
const LENDING: &str = "\n[mobile_router.care_of_prefixes]\nprefer = \"either\"\n";
/// Receive buffers that `roam6 mptcp status` finds nothing wrong with: least, first and largest size, octets.
const BUFFERS: &str = "4096 1048576 33554432";
/// How long anything may take until it works.
const PATIENCE: Duration = Duration::from_secs(15);

impl Testbed {
    /// Builds everything; the vehicle has two uplinks and is plugged in nowhere.
    pub(crate) fn build(shape: Shape) -> Result<Testbed> {
        let mut testbed = Testbed::unmanaged(shape)?;
        testbed.node = Some(testbed.manage()?);
        Ok(testbed)
    }

    /// The same, but nobody manages the paths of the node inside.
    pub(crate) fn unmanaged(shape: Shape) -> Result<Testbed> {
        let world = World::build(Duration::ZERO, 1, "duplicate_detection = false")?;
        let mut delegators = Vec::new();
        for (number, visited) in world.visited.iter().enumerate() {
            delegators.push(delegate(&world, visited, number)?);
        }
        let vehicle = world.vehicle_with(0, &["up0", "up1"], LENDING)?;
        // Connections are to be older than the path manager here, which would see to it at the node.
        world.cn.set("ipv4/tcp_rmem", BUFFERS)?;
        vehicle.mnn.set("ipv4/tcp_rmem", BUFFERS)?;
        let networks = Networks { home: world.home, visited: world.visited.each_ref().map(|visited| visited.link) };
        let paths = Paths::watch(&world.air, vehicle.inside);
        let adverts = Adverts::watch(&world.air, vehicle.inside);
        let uplinks = Uplinks::watch(&world.air, vehicle.uplinks.clone(), networks);
        let testbed = Testbed { world, vehicle, paths, adverts, uplinks, node: None, shape, _delegators: delegators };
        testbed.reshape(shape);
        Ok(testbed)
    }

    /// Starts a path manager at the node inside.
    pub(crate) fn manage(&self) -> Result<Daemon> {
        Daemon::start(&self.vehicle.mnn, &node_config())
    }

    /// Makes the links do something else, those that were cut included.
    pub(crate) fn reshape(&self, shape: Shape) {
        let World { air, home_cable, exit, visited, .. } = &self.world;
        air.shape(*home_cable, shape.towards(false));
        air.shape_out(*exit, shape.out(false));
        for (number, visited) in visited.iter().enumerate() {
            air.shape(visited.cable, shape.towards(number > 0));
            air.shape_out(visited.exit, shape.out(number > 0));
        }
    }

    /// Lets access network `number` carry nothing beyond its router, or as much as ever.
    pub(crate) fn cut(&self, number: usize, cut: bool) -> Result<()> {
        if !cut {
            self.reshape(self.shape);
            return Ok(());
        }
        let visited = self.visited(number)?;
        self.world.air.shape(visited.cable, LinkSpec { loss: 1.0, ..LinkSpec::default() });
        Ok(())
    }

    /// Plugs uplink `index` in at `spot`; when carrier came. What is delegated there is sent to this uplink.
    pub(crate) fn plug(&self, index: usize, spot: Spot) -> Result<u64> {
        let port = self.vehicle.uplink(index)?;
        if let Spot::Visited(number) = spot {
            let gateway = self.world.air.link_local(port)?;
            let route = format!("route replace {}/48 via {gateway} dev lan0", delegated(number));
            self.visited(number)?.router.ip(&[&route])?;
        }
        self.world.air.plug(port, self.segment(spot)?)
    }

    /// Pulls uplink `index`; when.
    pub(crate) fn unplug(&self, index: usize) -> Result<u64> {
        self.world.air.unplug(self.vehicle.uplink(index)?)
    }

    /// The node inside, at its address in the mobile network.
    pub(crate) fn inside(&self) -> End<'_> {
        self.vehicle.node()
    }

    /// The correspondent.
    pub(crate) fn correspondent(&self) -> End<'_> {
        self.world.correspondent()
    }

    /// Waits until the node inside reaches the correspondent from its address in the mobile network.
    pub(crate) fn wait_home_path(&self) -> Result<()> {
        let reached = || reaches(&self.vehicle.mnn, self.vehicle.mnn_address).then_some(());
        clock::wait_for(PATIENCE, reached).ok_or_else(|| anyhow!("no way by the home agent"))
    }

    /// Lets the correspondent take up an address it is offered, which a kernel as it comes does not: it has to where it
    /// begins the connection, because nobody can join it at the port it began from.
    pub(crate) fn accept_offers(&self) -> Result<()> {
        self.world.cn.output("ip", &["mptcp", "limits", "set", "add_addr_accepted", "2"]).map(drop)
    }

    /// Waits until `host` has an address from access network `number` that reaches the correspondent; which.
    pub(crate) fn wait_care_of(&self, host: &Host, number: usize) -> Result<Ipv6Addr> {
        let address = || {
            let address = find_address(host, delegated(number))?;
            reaches(host, address).then_some(address)
        };
        clock::wait_for(PATIENCE, address)
            .ok_or_else(|| anyhow!("{} has no working address from access network {}", host.name(), number + 1))
    }

    /// Median of `count` echoes between the node inside and the correspondent, from its address in the mobile network or
    /// in that of access network `direct`; milliseconds.
    pub(crate) fn round_trip(&self, direct: Option<usize>, count: u32) -> Result<f64> {
        let mnn = &self.vehicle.mnn;
        let from = match direct {
            Some(number) => self.wait_care_of(mnn, number)?,
            None => self.vehicle.mnn_address,
        };
        let (from, to, count) = (from.to_string(), CORRESPONDENT.to_string(), count.to_string());
        let text = mnn.output("ping", &["-6", "-n", "-c", &count, "-i", "0.01", "-W", "0.5", "-I", &from, &to])?;
        let time = |line: &str| line.split_once("time=")?.1.split_whitespace().next()?.parse().ok();
        let times: Vec<f64> = text.lines().filter_map(time).collect();
        crate::figures::percentile(&times, 0.5).context("no echo came back")
    }

    /// The addresses of `host` that are preferred and lead nowhere. There should be none (issue: never a preferred
    /// address without a working route).
    pub(crate) fn dead_addresses(&self, host: &Host) -> Result<Vec<Ipv6Addr>> {
        let preferred = addresses(host)?.into_iter().filter(|(_, preferred)| *preferred).map(|(address, _)| address);
        Ok(preferred.filter(|address| !reaches(host, *address)).collect())
    }

    /// What the node inside knows of its paths, for whoever has to find out why one is missing.
    pub(crate) fn story(&self) -> String {
        let asked = |text: Result<String>| text.unwrap_or_else(|why| why.to_string());
        let mnn = &self.vehicle.mnn;
        [
            asked(self.node.as_ref().map_or(Ok(String::new()), |node| node.ask(&["show", "endpoints"]))),
            asked(mnn.output("ip", &["mptcp", "endpoint"])),
            asked(mnn.output("ss", &["-Mtn"])),
            asked(mnn.output("ip", &["-6", "address", "show", "dev", "eth0"])),
            asked(mnn.output("nstat", &["-as", "MPTcp*"])),
        ]
        .join("\n")
    }

    fn visited(&self, number: usize) -> Result<&Visited> {
        self.world.visited.get(number).context("no such access network")
    }

    fn segment(&self, spot: Spot) -> Result<Segment> {
        match spot {
            Spot::Home => Ok(self.world.home),
            Spot::Visited(number) => Ok(self.visited(number)?.link),
        }
    }
}

/// What access network `number` delegates from, a /48.
pub(crate) fn delegated(number: usize) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 0xb1 + u16::try_from(number).unwrap_or(0), 0, 0, 0, 0, 0)
}

/// Whether an address is a correspondent's.
pub(crate) fn far_side(address: Ipv6Addr) -> bool {
    address.segments().get(..4) == CORRESPONDENT.segments().get(..4)
}

/// Global addresses of `host` and whether they are preferred.
pub(crate) fn addresses(host: &Host) -> Result<Vec<(Ipv6Addr, bool)>> {
    let text = host.output("ip", &["-6", "-o", "address", "show", "scope", "global"])?;
    let read = |line: &str| {
        let address = line.split_whitespace().nth(3)?.split_once('/')?.0.parse().ok()?;
        Some((address, !line.contains("deprecated") && !line.contains("tentative")))
    };
    Ok(text.lines().filter_map(read).collect())
}

/// The preferred address of `host` whose first 48 bits are those of `prefix`.
pub(super) fn find_address(host: &Host, prefix: Ipv6Addr) -> Option<Ipv6Addr> {
    let near = |address: &Ipv6Addr| address.segments().get(..3) == prefix.segments().get(..3);
    addresses(host).ok()?.into_iter().filter(|(_, preferred)| *preferred).map(|(address, _)| address).find(near)
}

/// Whether an echo from `address` comes back: one of a few, for the links lose some.
fn reaches(host: &Host, address: Ipv6Addr) -> bool {
    let (from, to) = (address.to_string(), CORRESPONDENT.to_string());
    let ping = ["-6", "-n", "-q", "-c", "4", "-i", "0.05", "-W", "1", "-I", &from, &to];
    host.output("ping", &ping).is_ok()
}

/// The path manager of a node in the mobile network, which offers its care-of addresses to peers.
pub(super) fn node_config() -> String {
    format!(
        "\n[mnn]\ninterfaces = [\"eth0\"]\nhome_prefixes = [\"{}/56\"]\nsignal_care_of = true\n",
        topology::network(0)
    )
}

/// Makes an access network delegate, and its prefixes be known to the backbone.
fn delegate(world: &World, visited: &Visited, number: usize) -> Result<Delegator> {
    let (pool, cable) = (delegated(number), number + 1);
    world.core.ip(&[&format!("route add {pool}/48 via 2001:db8:f{cable}::2")])?;
    let link = format!("{}/64", topology::visited_prefix(number));
    Delegator::start(&visited.router, "lan0", &link, &format!("{pool}/48"))
}
