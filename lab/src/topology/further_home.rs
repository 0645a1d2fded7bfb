//! Home networks beside the first one, each with its own home agent, so that nested mobile routers have different home
//! agents (RFC 4888: a packet visits the home agent of every mobile router on its path).

use super::nemo::{self, Membership, NemoNetwork, Vehicle, mobile_network};
use crate::bed::{Daemon, Host};
use anyhow::{Context, Result};
use roam6_sim::LinkSpec;
use std::net::Ipv6Addr;
use std::time::Duration;

/// A home network with one mobile router.
pub(crate) struct FurtherHome {
    /// The number of its mobile router.
    number: u8,
    membership: Membership,
    _home_agent: Daemon,
    _ha: Host,
}

impl FurtherHome {
    /// Adds the home network of vehicle `number`; `delay` is the one-way delay between its home agent and the backbone.
    pub(crate) fn add(network: &NemoNetwork, number: u8, delay: Duration) -> Result<FurtherHome> {
        let name = format!("ha{number}");
        let (ha, emulator, own) = (nemo::router(&name)?, &network.emulator, mobile_network(number));
        let ports = [emulator.add_port(&network.core, &name)?, emulator.add_port(&ha, "net0")?];
        emulator.cable(ports, LinkSpec { delay, ..LinkSpec::default() })?;
        let home_prefix = Ipv6Addr::new(0x2001, 0xdb8, 0xe0 + u16::from(number), 0, 0, 0, 0, 0);
        let in_home = |interface: u16| Ipv6Addr::from(u128::from(home_prefix) + u128::from(interface));
        let (address, home_address) = (in_home(1), in_home(0x100));
        network.core.ip(&[
            &format!("address add 2001:db8:d{number}::1/64 dev {name}"),
            &format!("route add {home_prefix}/64 via 2001:db8:d{number}::2"),
            // More specific than the route to all mobile networks by the first home agent.
            &format!("route add {own}/56 via 2001:db8:d{number}::2"),
        ])?;
        ha.ip(&[
            &format!("address add 2001:db8:d{number}::2/64 dev net0"),
            &format!("address add {address}/128 dev lo"),
            &format!("route add default via 2001:db8:d{number}::1"),
        ])?;
        let config = format!("\n[home_agent]\naddress = \"{address}\"\nhome_prefixes = [\"{home_prefix}/64\"]\n");
        let config = config + &nemo::prefix_table_row_at(number, home_address);
        let home_agent = Daemon::start(&ha, &config).context(name)?;
        let membership = Membership { home_agents: vec![address], home_prefix, home_address };
        Ok(FurtherHome { number, membership, _home_agent: home_agent, _ha: ha })
    }

    /// Its mobile router, unplugged, with uplinks in order of preference.
    pub(crate) fn vehicle(&self, network: &NemoNetwork, uplink_names: &[&str]) -> Result<Vehicle> {
        let config = |mr: &Host| nemo::mobile_router_config_of(mr, self.number, uplink_names, &self.membership);
        let vehicle = Vehicle::start(&network.emulator, self.number, uplink_names, config)?;
        Ok(Vehicle { home_address: self.membership.home_address, ..vehicle })
    }
}
