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

use super::{AdvertisementLog, PathMonitor, SourceMonitor, source_monitor::Networks};
use crate::bed::{Daemon, Host, Process, Segment, access_router};
use crate::clock;
use crate::load::Endpoint;
use crate::load::handover::UNPLUGGED_TIME;
use crate::statistics::percentile;
use crate::topology::nemo::{self, AccessNetwork, CORRESPONDENT, NemoNetwork, Vehicle};
use anyhow::{Context, Result, anyhow};
use roam6_sim::LinkSpec;
use std::net::Ipv6Addr;
use std::thread::sleep;
use std::time::Duration;

/// Parameters of the links.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LinkShape {
    /// One-way delay out of HA, FN1 and FN2.
    pub(crate) delay: Duration,
    /// Additional one-way delay of FN2, in each direction.
    pub(crate) extra_delay: Duration,
    /// Loss ratio out of HA, FN1 and FN2.
    pub(crate) loss: f64,
    /// Bits per second, in each direction.
    pub(crate) rate_bps: u64,
}

impl LinkShape {
    /// The paper's values, on links of 20 Mbit/s.
    pub(crate) const PAPER: LinkShape = LinkShape {
        delay: Duration::from_millis(10),
        extra_delay: Duration::from_millis(5),
        loss: 0.05,
        rate_bps: 20_000_000,
    };

    /// The same without loss.
    pub(crate) fn lossless(self) -> LinkShape {
        LinkShape { loss: 0.0, ..self }
    }

    /// The link model out of HA or FN1, or out of FN2 if `further`.
    fn egress_spec(self, further: bool) -> LinkSpec {
        let more = if further { self.extra_delay } else { Duration::ZERO };
        LinkSpec { delay: self.delay + more, loss: self.loss, ..self.ingress_spec(false) }
    }

    /// The link model towards these networks.
    fn ingress_spec(self, further: bool) -> LinkSpec {
        let delay = if further { self.extra_delay } else { Duration::ZERO };
        LinkSpec { delay, rate_bps: Some(self.rate_bps), queue_bytes: QUEUE_OCTETS, ..LinkSpec::default() }
    }
}

/// Where care-of prefixes come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CareOfPrefixes {
    /// DHCPv6 servers delegate them.
    Delegated,
    /// Nobody delegates: the visited links' prefixes are shared (RFC 4389).
    Shared,
}

impl CareOfPrefixes {
    /// Their name in results.
    pub(crate) fn name(self) -> &'static str {
        match self {
            CareOfPrefixes::Delegated => "delegated",
            CareOfPrefixes::Shared => "shared",
        }
    }
}

/// Where an uplink may be plugged in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AttachmentPoint {
    /// On the home link.
    Home,
    /// In access network 0 or 1: FN1 or FN2.
    Visited(usize),
}

/// Networks, one vehicle, one mobile network node, and all observers.
pub(crate) struct MptcpTestbed {
    /// The networks.
    pub(crate) network: NemoNetwork,
    /// The vehicle.
    pub(crate) vehicle: Vehicle,
    /// Observer of payload paths.
    pub(crate) path_monitor: PathMonitor,
    /// Observer of advertisements in the mobile network.
    pub(crate) advertisements: AdvertisementLog,
    /// Observer of the uplinks.
    pub(crate) source_monitor: SourceMonitor,
    /// The path manager of the mobile network node, if started.
    pub(crate) path_manager: Option<Daemon>,
    shape: LinkShape,
    prefixes: CareOfPrefixes,
    _delegators: Vec<Process>,
}

/// Queue of a link, octets: 25 ms at 20 Mbit/s.
const QUEUE_OCTETS: usize = 64 * 1024;
/// Delegates care-of prefixes to the mobile network, with the same preference as its own prefix.
const CARE_OF_PREFIX_CONFIG: &str = "\n[mobile_router.care_of_prefixes]\nprefer = \"either\"\n";
/// Receive buffers that `roam6 mptcp status` accepts: minimum, default and maximum, octets.
const RECEIVE_BUFFERS: &str = "4096 1048576 33554432";
/// Selectors of preferred addresses for `ip address show`.
pub(super) const PREFERRED: [&str; 2] = ["-tentative", "-deprecated"];
/// How long connectivity may take.
const TIMEOUT: Duration = Duration::from_secs(15);

impl MptcpTestbed {
    /// Builds the networks; the vehicle has two unplugged uplinks.
    pub(crate) fn build(shape: LinkShape) -> Result<MptcpTestbed> {
        MptcpTestbed::build_with(shape, CareOfPrefixes::Delegated)
    }

    /// [`MptcpTestbed::build`] with such care-of prefixes.
    pub(crate) fn build_with(shape: LinkShape, prefixes: CareOfPrefixes) -> Result<MptcpTestbed> {
        let mut testbed = MptcpTestbed::with_prefixes(shape, prefixes)?;
        testbed.path_manager = Some(testbed.start_path_manager()?);
        Ok(testbed)
    }

    /// [`MptcpTestbed::build`] without a path manager at the mobile network node.
    pub(crate) fn without_path_manager(shape: LinkShape) -> Result<MptcpTestbed> {
        MptcpTestbed::with_prefixes(shape, CareOfPrefixes::Delegated)
    }

    fn with_prefixes(shape: LinkShape, prefixes: CareOfPrefixes) -> Result<MptcpTestbed> {
        let network = NemoNetwork::build(Duration::ZERO, 1, nemo::NO_DAD)?;
        let mut delegators = Vec::new();
        let delegating = network.visited.iter().enumerate().filter(|_| prefixes == CareOfPrefixes::Delegated);
        for (number, visited) in delegating {
            delegators.push(start_delegation(&network, visited, number)?);
        }
        let vehicle = network.vehicle_with(0, &["up0", "up1"], CARE_OF_PREFIX_CONFIG)?;
        // Connections here may precede the path manager, which would set this at the node.
        network.cn.set_sysctl("ipv4/tcp_rmem", RECEIVE_BUFFERS)?;
        vehicle.mnn.set_sysctl("ipv4/tcp_rmem", RECEIVE_BUFFERS)?;
        let networks =
            Networks { home: network.home_link, visited: network.visited.each_ref().map(|visited| visited.link) };
        let testbed = MptcpTestbed {
            path_monitor: PathMonitor::watch(&network.emulator, vehicle.ingress_segment),
            advertisements: AdvertisementLog::watch(&network.emulator, vehicle.ingress_segment),
            source_monitor: SourceMonitor::watch(&network.emulator, vehicle.uplinks.clone(), networks),
            network,
            vehicle,
            path_manager: None,
            shape,
            prefixes,
            _delegators: delegators,
        };
        testbed.set_link_shape(shape);
        Ok(testbed)
    }

    /// Starts the path manager of the mobile network node.
    pub(crate) fn start_path_manager(&self) -> Result<Daemon> {
        Daemon::start(&self.vehicle.mnn, &node_config())
    }

    /// Sets the link parameters, also of links that were cut.
    pub(crate) fn set_link_shape(&self, shape: LinkShape) {
        let NemoNetwork { emulator, home_cable, uplink_port: exit, visited, .. } = &self.network;
        emulator.shape(*home_cable, shape.ingress_spec(false));
        emulator.shape_egress(*exit, shape.egress_spec(false));
        for (number, visited) in visited.iter().enumerate() {
            emulator.shape(visited.cable, shape.ingress_spec(number > 0));
            emulator.shape_egress(visited.uplink_port, shape.egress_spec(number > 0));
        }
    }

    /// Makes access network `number` drop everything beyond its router, or restores it.
    pub(crate) fn cut(&self, number: usize, cut: bool) -> Result<()> {
        if !cut {
            self.set_link_shape(self.shape);
            return Ok(());
        }
        let visited = self.visited(number)?;
        self.network.emulator.shape(visited.cable, LinkSpec { loss: 1.0, ..LinkSpec::default() });
        Ok(())
    }

    /// Plugs uplink `index` in at `spot`, with the route to prefixes delegated there; the time of link-up, microseconds
    /// since 1970.
    pub(crate) fn plug(&self, index: usize, spot: AttachmentPoint) -> Result<u64> {
        self.route_delegated_prefixes(index, spot)?;
        self.network.emulator.plug(self.vehicle.uplink(index)?, self.segment(spot)?)
    }

    /// Has the access router at `spot` route what it delegates to uplink `index`.
    fn route_delegated_prefixes(&self, index: usize, spot: AttachmentPoint) -> Result<()> {
        let AttachmentPoint::Visited(number) = spot else { return Ok(()) };
        let gateway = self.network.emulator.link_local(self.vehicle.uplink(index)?)?;
        let route = format!("route replace {}/48 via {gateway} dev lan0", nemo::delegated_pool(number));
        self.visited(number)?.router.ip(&[&route])
    }

    /// Unplugs uplink `index`; the time, microseconds since 1970.
    pub(crate) fn unplug(&self, index: usize) -> Result<u64> {
        self.network.emulator.unplug(self.vehicle.uplink(index)?)
    }

    /// The mobile network node, at its address in the mobile network, and the correspondent.
    pub(crate) fn ends(&self) -> [Endpoint<'_>; 2] {
        [self.vehicle.node(), self.network.correspondent()]
    }

    /// A further correspondent, and its address.
    pub(crate) fn add_correspondent(&self, number: u16) -> Result<(Host, Ipv6Addr)> {
        let (host, address) = self.network.add_correspondent(number)?;
        host.set_sysctl("ipv4/tcp_rmem", RECEIVE_BUFFERS)?;
        Ok((host, address))
    }

    /// The router of access network `number`.
    pub(crate) fn access_router(&self, number: usize) -> Result<&Host> {
        Ok(&self.visited(number)?.router)
    }

    /// Moves the first uplink: unplugs it, and plugs it in at `spot` a moment later. The route is there before, because a
    /// program that sets it may take as long as a handover on a busy machine.
    pub(crate) fn replug(&self, spot: AttachmentPoint) -> Result<()> {
        self.route_delegated_prefixes(0, spot)?;
        self.unplug(0)?;
        sleep(UNPLUGGED_TIME);
        self.network.emulator.plug(self.vehicle.uplink(0)?, self.segment(spot)?).map(drop)
    }

    /// Plugs the first uplink into access network `number` and waits for the home path and a care-of address.
    pub(crate) fn visit(&self, number: usize) -> Result<()> {
        self.plug(0, AttachmentPoint::Visited(number))?;
        self.wait_home_path()?;
        self.wait_care_of(&self.vehicle.mnn, number).map(drop)
    }

    /// Waits until the mobile network node reaches the correspondent from its address in the mobile network.
    pub(crate) fn wait_home_path(&self) -> Result<()> {
        let reached = || reaches(&self.vehicle.mnn, self.vehicle.mnn_address).then_some(());
        clock::wait_for(TIMEOUT, reached).ok_or_else(|| anyhow!("the correspondent is unreachable by the home agent"))
    }

    /// Makes the correspondent connect to so many announced addresses (ADD_ADDR) of a connection; the kernel's default is 0.
    /// Needed if the correspondent opens the connection, because a peer cannot join at the ephemeral port.
    pub(crate) fn set_accepted_announcements(&self, count: usize) -> Result<()> {
        let count = count.to_string();
        self.network.cn.output("ip", &["mptcp", "limits", "set", "add_addr_accepted", &count]).map(drop)
    }

    /// Raises the subflows that the correspondent accepts beside the first from two (the kernel's default) to three: where
    /// the connection begins at a care-of address, the paths by home and by both access networks are three after a
    /// handover, since the subflow that replaces the first one counts.
    pub(crate) fn accept_subflows(&self) -> Result<()> {
        self.network.cn.output("ip", &["mptcp", "limits", "set", "subflow", "3"]).map(drop)
    }

    /// Waits until `host` has an address of access network `number` that reaches the correspondent; that address.
    pub(crate) fn wait_care_of(&self, host: &Host, number: usize) -> Result<Ipv6Addr> {
        let address =
            || host.address_in(self.care_of_prefix(number), &PREFERRED).filter(|address| reaches(host, *address));
        clock::wait_for(TIMEOUT, address)
            .ok_or_else(|| anyhow!("{} has no working address from access network {}", host.name(), number + 1))
    }

    /// Median round-trip time of `count` echoes between the mobile network node and the correspondent, from its address
    /// in the mobile network or in access network `direct`; milliseconds.
    pub(crate) fn round_trip(&self, direct: Option<usize>, count: usize) -> Result<f64> {
        let from = match direct {
            Some(number) => self.wait_care_of(&self.vehicle.mnn, number)?,
            None => self.vehicle.mnn_address,
        };
        self.round_trip_from(from, count)
    }

    /// [`MptcpTestbed::round_trip`] from this address of the mobile network node.
    pub(crate) fn round_trip_from(&self, address: Ipv6Addr, count: usize) -> Result<f64> {
        let (from, to) = (address.to_string(), CORRESPONDENT.to_string());
        let times = self.vehicle.mnn.ping(count, &["-i", "0.01", "-W", "0.5", "-I", &from, &to])?;
        percentile(times, 0.5).context("no echo was answered")
    }

    /// Addresses of `host` from which the correspondent is unreachable, and which are preferred before and after echoes were lost.
    /// There must be none.
    pub(crate) fn unreachable_addresses(&self, host: &Host) -> Result<Vec<Ipv6Addr>> {
        let preferred = || host.addresses(&[&["scope", "global"], &PREFERRED[..]].concat());
        let mut unreachable: Vec<Ipv6Addr> = preferred()?.into_iter().filter(|one| !reaches(host, *one)).collect();
        if !unreachable.is_empty() {
            let still = preferred()?;
            unreachable.retain(|address| still.contains(address));
        }
        Ok(unreachable)
    }

    /// State of the mobile network node's paths, for error messages.
    pub(crate) fn diagnostics(&self) -> String {
        let asked = |text: Result<String>| text.unwrap_or_else(|why| why.to_string());
        let mnn = &self.vehicle.mnn;
        [
            asked(self.path_manager.as_ref().map_or(Ok(String::new()), |node| node.query(&["show", "endpoints"]))),
            asked(mnn.output("ip", &["mptcp", "endpoint"])),
            asked(mnn.output("ss", &["-Mtn"])),
            asked(mnn.output("ip", &["-6", "address", "show", "dev", "eth0"])),
            asked(mnn.output("nstat", &["-as", "MPTcp*"])),
        ]
        .join("\n")
    }

    /// A prefix of the care-of addresses that nodes have in access network `number`.
    fn care_of_prefix(&self, number: usize) -> Ipv6Addr {
        match self.prefixes {
            CareOfPrefixes::Delegated => nemo::delegated_pool(number),
            CareOfPrefixes::Shared => nemo::visited_prefix(number),
        }
    }

    fn visited(&self, number: usize) -> Result<&AccessNetwork> {
        self.network.visited.get(number).context("no such access network")
    }

    fn segment(&self, spot: AttachmentPoint) -> Result<Segment> {
        match spot {
            AttachmentPoint::Home => Ok(self.network.home_link),
            AttachmentPoint::Visited(number) => Ok(self.visited(number)?.link),
        }
    }
}

/// Whether an echo from `address` is answered: one of several, because links lose packets.
fn reaches(host: &Host, address: Ipv6Addr) -> bool {
    let (from, to) = (address.to_string(), CORRESPONDENT.to_string());
    host.ping(4, &["-i", "0.05", "-W", "1", "-I", &from, &to]).is_ok_and(|times| !times.is_empty())
}

/// The configuration of a mobile network node's path manager, which announces care-of addresses to peers.
pub(super) fn node_config() -> String {
    format!(
        "\n[mnn]\ninterfaces = [\"eth0\"]\nhome_prefixes = [\"{}/56\"]\nsignal_care_of = true\n",
        nemo::mobile_network(0)
    )
}

/// Starts prefix delegation in an access network, with the backbone's route to its pool.
fn start_delegation(network: &NemoNetwork, visited: &AccessNetwork, number: usize) -> Result<Process> {
    let (pool, cable) = (nemo::delegated_pool(number), number + 1);
    network.core.ip(&[&format!("route add {pool}/48 via 2001:db8:f{cable}::2")])?;
    let link = format!("{}/64", nemo::visited_prefix(number));
    access_router::delegate_prefixes(&visited.router, "lan0", &link, &format!("{pool}/48"))
}
