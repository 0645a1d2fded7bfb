//! A vehicle with two uplinks that share flows by weights, and rules that relay connections to and from some ports.

use super::nemo::{CORRESPONDENT, NemoNetwork, Vehicle};
use super::uplinks::{self, Family, ROUTER_KEYS};
use crate::bed::{Daemon, relay_of};
use crate::clock;
use crate::load::{Endpoint, Protocol, Transfer, TransferLoad};
use anyhow::{Context, Result};
use roam6_sim::LinkSpec;
use serde_json::Value;
use std::time::Duration;

/// The port of relayed connections; those of connections through the tunnel by the first and by the second uplink alone; and that of
/// connections through the tunnel without a rule.
pub(crate) const BONDED: u16 = 9500;
pub(crate) const ALONE: [u16; 2] = [9300, 9400];
pub(crate) const TUNNELLED: u16 = 9600;
/// What a link holds when its queue is full.
const QUEUE: Duration = Duration::from_millis(100);
/// How long it may take until the relays are connected.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The networks and the vehicle.
pub(crate) struct BondingBed {
    pub(crate) network: NemoNetwork,
    pub(crate) vehicle: Vehicle,
    specs: [LinkSpec; 2],
}

/// A link of this rate, Mbit/s, and round trip, ms.
pub(crate) fn link(rate: u64, round_trip: u64) -> LinkSpec {
    let rate_bps = rate * 1_000_000;
    let queue_bytes = usize::try_from(rate_bps / 8 * QUEUE.as_millis() as u64 / 1000).unwrap_or(usize::MAX);
    LinkSpec {
        rate_bps: Some(rate_bps),
        delay: Duration::from_millis(round_trip / 2),
        queue_bytes,
        ..LinkSpec::default()
    }
}

/// Flow rules of an uplink, or of `all`, for connections to this port from inside, and from outside.
pub(crate) fn rule(uplink: &str, port: u16) -> String {
    let keys = ["correspondent_ports", "inside_ports"];
    let rule =
        |key| format!("\n[[mobile_router.flow]]\nuplink = \"{uplink}\"\nprotocol = \"tcp\"\n{key} = \"{port}\"\n");
    keys.map(rule).concat()
}

fn rules() -> String {
    let [first, second] = ALONE;
    [rule("all", BONDED), rule("up0", first), rule("up1", second)].concat()
}

/// Waits until a mobile router has bearers for new connections.
pub(crate) fn wait_for_bearers(router: &Daemon) -> Result<()> {
    let ready = || router.show::<Value>("flows").ok()?.get("idle_bearers")?.as_u64().filter(|idle| *idle >= 4);
    clock::wait_for(TIMEOUT, ready).map(drop).with_context(|| format!("no relay; {}", router.log_tail()))
}

impl BondingBed {
    /// Two IPv6 uplinks.
    pub(crate) fn new(specs: [LinkSpec; 2]) -> Result<BondingBed> {
        let network = NemoNetwork::build(Duration::ZERO, 1, "bond = true\n")?;
        BondingBed::with(network, [Family::Ipv6; 2], specs)
    }

    /// Uplinks of these families.
    pub(crate) fn of_families(families: [Family; 2], specs: [LinkSpec; 2]) -> Result<BondingBed> {
        let network = uplinks::build_with(Duration::ZERO, 1, families, "bond = true\n")?;
        BondingBed::with(network, families, specs)
    }

    fn with(network: NemoNetwork, families: [Family; 2], specs: [LinkSpec; 2]) -> Result<BondingBed> {
        let keys = if families == [Family::Ipv6; 2] { "" } else { ROUTER_KEYS };
        let vehicle = network.vehicle_with(0, &["up0", "up1"], &format!("{keys}sharing = \"weights\"\n{}", rules()))?;
        for (index, family) in families.into_iter().enumerate() {
            uplinks::configure(&vehicle, 0, index, family)?;
        }
        let bed = BondingBed { network, vehicle, specs };
        bed.restore();
        bed.plug(0)?;
        bed.vehicle.wait_until_connected(CORRESPONDENT)?;
        let at = bed.plug(1)?;
        bed.vehicle.wait_registered(at, 2)?;
        wait_for_bearers(&bed.vehicle.daemon).with_context(|| bed.network.home_agent.log_tail())?;
        Ok(bed)
    }

    /// Attaches an uplink to its access network; the time of link-up.
    pub(crate) fn plug(&self, uplink: usize) -> Result<u64> {
        let access = self.network.visited.get(uplink).with_context(|| format!("no access network {uplink}"))?;
        self.network.emulator.plug(self.vehicle.uplink(uplink)?, access.link)
    }

    /// Discards all packets of these access networks.
    pub(crate) fn cut(&self, uplinks: &[usize]) {
        for (number, (access, spec)) in self.network.visited.iter().zip(self.specs).enumerate() {
            if uplinks.contains(&number) {
                self.network.emulator.shape(access.cable, LinkSpec { loss: 1.0, ..spec });
            }
        }
    }

    /// Ends what [`BondingBed::cut`] began.
    pub(crate) fn restore(&self) {
        for (access, spec) in self.network.visited.iter().zip(self.specs) {
            self.network.emulator.shape(access.cable, spec);
        }
    }

    /// Node and correspondent, the sender first.
    pub(crate) fn ends(&self, upward: bool) -> [Endpoint<'_>; 2] {
        let mut ends = [self.vehicle.node(), self.network.correspondent()];
        if !upward {
            ends.reverse();
        }
        ends
    }

    /// One connection that sends as much as it can.
    pub(crate) fn send(&self, upward: bool, port: u16) -> Result<Transfer> {
        let load = TransferLoad {
            protocol: Protocol::Tcp,
            port,
            message: 64 * 1024,
            rate: None,
            answered: false,
            buffer: None,
        };
        Transfer::start(self.ends(upward), load).with_context(|| self.logs())
    }

    /// What `roam6 show flows` shows at the mobile router.
    pub(crate) fn flows(&self) -> Result<Value> {
        self.vehicle.daemon.show("flows")
    }

    /// Waits until the only relayed connection has a subflow on each uplink that is no backup.
    pub(crate) fn wait_for_subflows(&self, timeout: Duration) -> Result<()> {
        let both = || {
            let flows = self.flows().ok()?;
            let subflows = flows.pointer("/flows/0/subflows")?.as_array()?.clone();
            let regular = subflows.iter().filter(|it| it.get("backup") == Some(&false.into())).count();
            (regular == 2).then_some(())
        };
        let endpoints = || self.vehicle.mr.output("ip", &["mptcp", "endpoint", "show"]).unwrap_or_default();
        let flows = || self.flows().map_or_else(|why| why.to_string(), |flows| flows.to_string());
        let shown = || format!("no subflow on each uplink: {}\n{}{}", flows(), endpoints(), self.logs());
        clock::wait_for(timeout, both).with_context(shown)
    }

    /// The processes of the relays at both ends.
    pub(crate) fn relays(&self) -> Result<Vec<u32>> {
        [&self.vehicle.mr, &self.network.ha].into_iter().map(relay_of).collect()
    }

    /// The last lines of both logs.
    pub(crate) fn logs(&self) -> String {
        [&self.vehicle.daemon, &self.network.home_agent].map(|daemon| daemon.log_tail()).concat()
    }
}
