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

/// Parameters of the links.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Shape {
    /// One-way delay out of HA, FN1 and FN2.
    pub(crate) delay: Duration,
    /// Additional one-way delay of FN2, in each direction.
    pub(crate) further: Duration,
    /// Loss ratio out of HA, FN1 and FN2.
    pub(crate) loss: f64,
    /// Bits per second, in each direction.
    pub(crate) rate_bps: u64,
}

impl Shape {
    /// The paper's values, on links of 20 Mbit/s.
    pub(crate) const PAPER: Shape =
        Shape { delay: Duration::from_millis(10), further: Duration::from_millis(5), loss: 0.05, rate_bps: 20_000_000 };

    /// The same without loss.
    pub(crate) fn lossless(self) -> Shape {
        Shape { loss: 0.0, ..self }
    }

    /// The link model out of HA or FN1, or out of FN2 if `further`.
    fn out(self, further: bool) -> LinkSpec {
        let more = if further { self.further } else { Duration::ZERO };
        LinkSpec { delay: self.delay + more, loss: self.loss, ..self.towards(false) }
    }

    /// The link model towards these networks.
    fn towards(self, further: bool) -> LinkSpec {
        let delay = if further { self.further } else { Duration::ZERO };
        LinkSpec { delay, rate_bps: Some(self.rate_bps), queue_bytes: QUEUE, ..LinkSpec::default() }
    }
}

/// Where an uplink may be plugged in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spot {
    /// On the home link.
    Home,
    /// In access network 0 or 1: FN1 or FN2.
    Visited(usize),
}

/// Networks, one vehicle, one mobile network node, and all observers.
pub(crate) struct Testbed {
    /// The networks.
    pub(crate) world: World,
    /// The vehicle.
    pub(crate) vehicle: Vehicle,
    /// Observer of payload paths.
    pub(crate) paths: Paths,
    /// Observer of advertisements in the mobile network.
    pub(crate) adverts: Adverts,
    /// Observer of the uplinks.
    pub(crate) uplinks: Uplinks,
    /// The path manager of the mobile network node, if started.
    pub(crate) node: Option<Daemon>,
    shape: Shape,
    _delegators: Vec<Delegator>,
}

/// Queue of a link, octets: 25 ms at 20 Mbit/s.
const QUEUE: usize = 64 * 1024;
/// Delegates care-of prefixes to the mobile network, with the same preference as its own prefix.
const LENDING: &str = "\n[mobile_router.care_of_prefixes]\nprefer = \"either\"\n";
/// Receive buffers that `roam6 mptcp status` accepts: minimum, default and maximum, octets.
const BUFFERS: &str = "4096 1048576 33554432";
/// How long connectivity may take.
const PATIENCE: Duration = Duration::from_secs(15);

impl Testbed {
    /// Builds the networks; the vehicle has two unplugged uplinks.
    pub(crate) fn build(shape: Shape) -> Result<Testbed> {
        let mut testbed = Testbed::unmanaged(shape)?;
        testbed.node = Some(testbed.manage()?);
        Ok(testbed)
    }

    /// [`Testbed::build`] without a path manager at the mobile network node.
    pub(crate) fn unmanaged(shape: Shape) -> Result<Testbed> {
        let world = World::build(Duration::ZERO, 1, "duplicate_detection = false")?;
        let mut delegators = Vec::new();
        for (number, visited) in world.visited.iter().enumerate() {
            delegators.push(delegate(&world, visited, number)?);
        }
        let vehicle = world.vehicle_with(0, &["up0", "up1"], LENDING)?;
        // Connections here may precede the path manager, which would set this at the node.
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

    /// Starts the path manager of the mobile network node.
    pub(crate) fn manage(&self) -> Result<Daemon> {
        Daemon::start(&self.vehicle.mnn, &node_config())
    }

    /// Sets the link parameters, also of links that were cut.
    pub(crate) fn reshape(&self, shape: Shape) {
        let World { air, home_cable, exit, visited, .. } = &self.world;
        air.shape(*home_cable, shape.towards(false));
        air.shape_out(*exit, shape.out(false));
        for (number, visited) in visited.iter().enumerate() {
            air.shape(visited.cable, shape.towards(number > 0));
            air.shape_out(visited.exit, shape.out(number > 0));
        }
    }

    /// Makes access network `number` drop everything beyond its router, or restores it.
    pub(crate) fn cut(&self, number: usize, cut: bool) -> Result<()> {
        if !cut {
            self.reshape(self.shape);
            return Ok(());
        }
        let visited = self.visited(number)?;
        self.world.air.shape(visited.cable, LinkSpec { loss: 1.0, ..LinkSpec::default() });
        Ok(())
    }

    /// Plugs uplink `index` in at `spot`, with the route to prefixes delegated there; the time of link-up, microseconds
    /// since 1970.
    pub(crate) fn plug(&self, index: usize, spot: Spot) -> Result<u64> {
        let port = self.vehicle.uplink(index)?;
        if let Spot::Visited(number) = spot {
            let gateway = self.world.air.link_local(port)?;
            let route = format!("route replace {}/48 via {gateway} dev lan0", delegated(number));
            self.visited(number)?.router.ip(&[&route])?;
        }
        self.world.air.plug(port, self.segment(spot)?)
    }

    /// Unplugs uplink `index`; the time, microseconds since 1970.
    pub(crate) fn unplug(&self, index: usize) -> Result<u64> {
        self.world.air.unplug(self.vehicle.uplink(index)?)
    }

    /// The mobile network node, at its address in the mobile network.
    pub(crate) fn inside(&self) -> End<'_> {
        self.vehicle.node()
    }

    /// The correspondent.
    pub(crate) fn correspondent(&self) -> End<'_> {
        self.world.correspondent()
    }

    /// Waits until the mobile network node reaches the correspondent from its address in the mobile network.
    pub(crate) fn wait_home_path(&self) -> Result<()> {
        let reached = || reaches(&self.vehicle.mnn, self.vehicle.mnn_address).then_some(());
        clock::wait_for(PATIENCE, reached).ok_or_else(|| anyhow!("no way by the home agent"))
    }

    /// Makes the correspondent connect to announced addresses (ADD_ADDR), which the kernel's default forbids. Needed if
    /// the correspondent opens the connection, because a peer cannot join at the ephemeral port.
    pub(crate) fn accept_offers(&self) -> Result<()> {
        self.world.cn.output("ip", &["mptcp", "limits", "set", "add_addr_accepted", "2"]).map(drop)
    }

    /// Waits until `host` has an address of access network `number` that reaches the correspondent; that address.
    pub(crate) fn wait_care_of(&self, host: &Host, number: usize) -> Result<Ipv6Addr> {
        let address = || {
            let address = find_address(host, delegated(number))?;
            reaches(host, address).then_some(address)
        };
        clock::wait_for(PATIENCE, address)
            .ok_or_else(|| anyhow!("{} has no working address from access network {}", host.name(), number + 1))
    }

    /// Median round-trip time of `count` echoes between the mobile network node and the correspondent, from its address
    /// in the mobile network or in access network `direct`; milliseconds.
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

    /// Preferred addresses of `host` from which the correspondent is unreachable. There must be none.
    pub(crate) fn dead_addresses(&self, host: &Host) -> Result<Vec<Ipv6Addr>> {
        let preferred = addresses(host)?.into_iter().filter(|(_, preferred)| *preferred).map(|(address, _)| address);
        Ok(preferred.filter(|address| !reaches(host, *address)).collect())
    }

    /// State of the mobile network node's paths, for error messages.
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

/// The prefix pool of access network `number`, a /48.
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

/// Whether an echo from `address` is answered: one of several, because links lose packets.
fn reaches(host: &Host, address: Ipv6Addr) -> bool {
    let (from, to) = (address.to_string(), CORRESPONDENT.to_string());
    let ping = ["-6", "-n", "-q", "-c", "4", "-i", "0.05", "-W", "1", "-I", &from, &to];
    host.output("ping", &ping).is_ok()
}

/// The configuration of a mobile network node's path manager, which announces care-of addresses to peers.
pub(super) fn node_config() -> String {
    format!(
        "\n[mnn]\ninterfaces = [\"eth0\"]\nhome_prefixes = [\"{}/56\"]\nsignal_care_of = true\n",
        topology::network(0)
    )
}

/// Starts prefix delegation in an access network, with the backbone's route to its pool.
fn delegate(world: &World, visited: &Visited, number: usize) -> Result<Delegator> {
    let (pool, cable) = (delegated(number), number + 1);
    world.core.ip(&[&format!("route add {pool}/48 via 2001:db8:f{cable}::2")])?;
    let link = format!("{}/64", topology::visited_prefix(number));
    Delegator::start(&visited.router, "lan0", &link, &format!("{pool}/48"))
}
