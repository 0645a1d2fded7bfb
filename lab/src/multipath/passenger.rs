//! Further mobile network nodes, each a host with its own path manager.

use super::testbed::{Testbed, find_address, node_config};
use crate::bed::{Daemon, Host};
use crate::clock;
use crate::topology;
use anyhow::{Result, anyhow};
use std::net::Ipv6Addr;
use std::time::Duration;

/// A mobile network node.
pub(crate) struct Passenger {
    /// Its host.
    pub(crate) host: Host,
    /// Its address in the mobile network.
    pub(crate) address: Ipv6Addr,
    _daemon: Daemon,
}

/// How long its address may take.
const PATIENCE: Duration = Duration::from_secs(15);

impl Passenger {
    /// Attaches node `number` to the mobile network.
    pub(crate) fn board(testbed: &Testbed, number: usize) -> Result<Passenger> {
        let host = Host::new(&format!("node{number}"))?;
        host.set("ipv6/conf/default/accept_dad", "0")?;
        let port = testbed.world.air.port(&host, "eth0")?;
        testbed.world.air.plug(port, testbed.vehicle.inside)?;
        let daemon = Daemon::start(&host, &node_config())?;
        let address = clock::wait_for(PATIENCE, || find_address(&host, topology::network(0)))
            .ok_or_else(|| anyhow!("{} got no address from the mobile router", host.name()))?;
        Ok(Passenger { host, address, _daemon: daemon })
    }
}
