//! Further mobile network nodes, each a host with its own path manager.

use super::testbed::{MptcpTestbed, PREFERRED, node_config};
use crate::bed::{Daemon, Host};
use crate::clock;
use crate::topology::nemo;
use anyhow::{Result, anyhow};
use std::net::Ipv6Addr;
use std::time::Duration;

/// A mobile network node.
pub(crate) struct MptcpNode {
    /// Its host.
    pub(crate) host: Host,
    /// Its address in the mobile network.
    pub(crate) address: Ipv6Addr,
    _daemon: Daemon,
}

/// How long its address may take.
const TIMEOUT: Duration = Duration::from_secs(15);

impl MptcpNode {
    /// Attaches node `number` to the mobile network.
    pub(crate) fn attach(testbed: &MptcpTestbed, number: usize) -> Result<MptcpNode> {
        let host = Host::new(&format!("node{number}"))?;
        host.set_sysctl("ipv6/conf/default/accept_dad", "0")?;
        let port = testbed.network.emulator.add_port(&host, "eth0")?;
        testbed.network.emulator.plug(port, testbed.vehicle.ingress_segment)?;
        let daemon = Daemon::start(&host, &node_config())?;
        let address = clock::wait_for(TIMEOUT, || host.address_in(nemo::mobile_network(0), &PREFERRED))
            .ok_or_else(|| anyhow!("{} has no address from the mobile router", host.name()))?;
        Ok(MptcpNode { host, address, _daemon: daemon })
    }
}
