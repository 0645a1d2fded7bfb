//! The networks of the NEMO experiments (RFC 3963): a home, a backbone, two access networks, and vehicles that move.
//!
//! ```text
//!   cn ──── core ──── ha ──┐ home link        mr.up0, mr.up1: plugged into home, fn1, fn2 or another vehicle
//!           │  │           ╵
//!         ar1  ar2                            mr.in0 ──── mnn
//!          ╵    ╵
//!         fn1  fn2     (radvd)
//! ```

use crate::bed::{Daemon, Host, LinkEmulator, Port, Process, Segment, access_router};
use crate::clock;
use crate::load::Endpoint;
use anyhow::{Context, Result, anyhow};
use roam6_proto::Report;
use roam6_proto::contract::report::NemoReport;
use roam6_sim::LinkSpec;
use roam6_wire::LinkAddress;
use std::fs::{self, Permissions};
use std::net::Ipv6Addr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The home agent's address.
pub(crate) const HOME_AGENT: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 1);
/// The correspondent's address.
pub(crate) const CORRESPONDENT: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0xc, 0, 0, 0, 0, 0xc);
/// Duplicate address detection for a home address takes a second when a vehicle leaves home (RFC 6275 §10.3.1). The home
/// agent can omit it, because only its prefix table assigns home addresses.
pub(crate) const NO_DAD: &str = "duplicate_detection = false";
/// The key of the home agent and all vehicles.
const KEY: &str = "000102030405060708090a0b0c0d0e0f10111213";
/// SPI of vehicle 0; vehicle n has SPI `FIRST_SPI` + n.
pub(crate) const FIRST_SPI: u32 = 256;

/// Home, backbone and access networks.
pub(crate) struct NemoNetwork {
    /// All ports and segments.
    pub(crate) emulator: Arc<LinkEmulator>,
    /// The home agent's roam6.
    pub(crate) home_agent: Daemon,
    /// The home link.
    pub(crate) home_link: Segment,
    /// The link between the home agent and the backbone.
    pub(crate) home_cable: Segment,
    /// The home agent's port towards the backbone.
    pub(crate) uplink_port: Port,
    /// The link between the correspondent and the backbone.
    pub(crate) correspondent_link: Segment,
    /// The access networks.
    pub(crate) visited: [AccessNetwork; 2],
    /// The home agent's host.
    pub(crate) ha: Host,
    /// The correspondent.
    pub(crate) cn: Host,
    /// The router of the backbone.
    pub(crate) core: Host,
}

/// An access network.
pub(crate) struct AccessNetwork {
    /// The link that vehicles attach to.
    pub(crate) link: Segment,
    /// The link between its router and the backbone.
    pub(crate) cable: Segment,
    /// Its router's port towards the backbone.
    pub(crate) uplink_port: Port,
    /// Its router.
    pub(crate) router: Host,
    radvd: Option<Process>,
}

/// A mobile router and its mobile network.
pub(crate) struct Vehicle {
    /// The mobile router's host.
    pub(crate) mr: Host,
    /// A mobile network node.
    pub(crate) mnn: Host,
    /// The uplinks, the preferred first.
    pub(crate) uplinks: Vec<Port>,
    /// The link of the mobile network.
    pub(crate) ingress_segment: Segment,
    /// Its roam6.
    pub(crate) daemon: Daemon,
    /// Home address.
    pub(crate) home_address: Ipv6Addr,
    /// Address of the node inside.
    pub(crate) mnn_address: Ipv6Addr,
}

/// What a mobile router has of its home network.
#[derive(Debug, Clone)]
pub(crate) struct Membership {
    /// Its home agents.
    pub(crate) home_agents: Vec<Ipv6Addr>,
    /// The prefix of the home link, a /64.
    pub(crate) home_prefix: Ipv6Addr,
    /// Its home address.
    pub(crate) home_address: Ipv6Addr,
}

/// How long initial set-up may take until connectivity.
const TIMEOUT: Duration = Duration::from_secs(15);

impl NemoNetwork {
    /// Builds the networks; the home agent is configured for `vehicles` mobile routers. `delay` is the one-way delay to
    /// it; `extra` is added to its configuration table.
    pub(crate) fn build(delay: Duration, vehicles: u8, extra: &str) -> Result<NemoNetwork> {
        let emulator = Arc::new(LinkEmulator::new(1)?);
        let (core, ha, cn) = (router("core")?, router("ha")?, host("cn")?);
        let wire = LinkSpec::default();
        let correspondent_link =
            emulator.cable([emulator.add_port(&core, "cn0")?, emulator.add_port(&cn, "eth0")?], wire)?;
        let far = LinkSpec { delay, ..wire };
        let exit = emulator.add_port(&ha, "net0")?;
        let home_cable = emulator.cable([emulator.add_port(&core, "ha0")?, exit], far)?;
        let home = emulator.add_link(wire);
        emulator.plug(emulator.add_port(&ha, "home0")?, home)?;
        cn.ip(&[&format!("address add {CORRESPONDENT}/64 dev eth0"), "route add default via 2001:db8:c::1"])?;
        core.ip(&[
            "address add 2001:db8:c::1/64 dev cn0",
            "address add 2001:db8:f0::1/64 dev ha0",
            "route add 2001:db8:1::/64 via 2001:db8:f0::2",
            "route add 2001:db8:100::/40 via 2001:db8:f0::2",
        ])?;
        ha.ip(&[
            "address add 2001:db8:f0::2/64 dev net0",
            &format!("address add {HOME_AGENT}/64 dev home0"),
            "route add default via 2001:db8:f0::1",
        ])?;
        for number in 0..vehicles {
            // The route to a mobile network while its router is at home without a binding.
            let (prefix, home_address) = (mobile_network(number), home_address(number));
            ha.ip(&[&format!("route add {prefix}/56 via {home_address} metric 4096")])?;
        }
        let visited = [access_network(&emulator, &core, 1)?, access_network(&emulator, &core, 2)?];
        let home_agent = Daemon::start(&ha, &home_agent_config(vehicles, extra)).context("the home agent")?;
        Ok(NemoNetwork {
            emulator,
            home_agent,
            home_link: home,
            home_cable,
            uplink_port: exit,
            correspondent_link,
            visited,
            ha,
            cn,
            core,
        })
    }

    /// A further correspondent, beside the first one, and its address.
    pub(crate) fn add_correspondent(&self, number: u16) -> Result<(Host, Ipv6Addr)> {
        let host = host(&format!("cn{number}"))?;
        self.emulator.plug(self.emulator.add_port(&host, "eth0")?, self.correspondent_link)?;
        let [a, b, c, d, ..] = CORRESPONDENT.segments();
        let address = Ipv6Addr::new(a, b, c, d, 0, 0, 1, number);
        host.ip(&[&format!("address add {address}/64 dev eth0"), "route add default via 2001:db8:c::1"])?;
        Ok((host, address))
    }

    /// [`NemoNetwork::build`] with one vehicle, whose only uplink is plugged into FN1; returns once the mobile network
    /// node reaches the correspondent. `router_extra` is added to the mobile router's configuration.
    pub(crate) fn with_vehicle(delay: Duration, extra: &str, router_extra: &str) -> Result<(NemoNetwork, Vehicle)> {
        let network = NemoNetwork::build(delay, 1, extra)?;
        let vehicle = network.vehicle_with(0, &["up0"], router_extra)?;
        network.emulator.plug(vehicle.uplink(0)?, network.visited[0].link)?;
        vehicle.wait_until_connected(CORRESPONDENT)?;
        Ok((network, vehicle))
    }

    /// Adds vehicle `number`, unplugged, with uplinks in order of preference.
    pub(crate) fn vehicle(&self, number: u8, uplink_names: &[&str]) -> Result<Vehicle> {
        self.vehicle_with(number, uplink_names, "")
    }

    /// [`NemoNetwork::vehicle`]; `extra` is added to the mobile router's configuration: first keys of its table, then tables.
    pub(crate) fn vehicle_with(&self, number: u8, uplink_names: &[&str], extra: &str) -> Result<Vehicle> {
        self.vehicle_with_ports(number, uplink_names, uplink_names, extra)
    }

    /// [`NemoNetwork::vehicle_with`] with uplinks of which only those in `ports` are made here.
    pub(crate) fn vehicle_with_ports(
        &self,
        number: u8,
        uplink_names: &[&str],
        ports: &[&str],
        extra: &str,
    ) -> Result<Vehicle> {
        Vehicle::start(&self.emulator, number, ports, |mr| Ok(mobile_router_config(mr, number, uplink_names)? + extra))
    }

    /// The correspondent as an endpoint of traffic.
    pub(crate) fn correspondent(&self) -> Endpoint<'_> {
        Endpoint { host: &self.cn, address: CORRESPONDENT }
    }
}

impl AccessNetwork {
    /// Ends the advertisement of its IPv6 prefix, so that vehicles have none.
    pub(crate) fn stop_advertising(&mut self) {
        drop(self.radvd.take());
    }
}

impl Vehicle {
    /// Starts vehicle `number` with these ports as uplinks, unplugged, and the configuration that `config` makes.
    pub(crate) fn start(
        emulator: &LinkEmulator,
        number: u8,
        ports: &[&str],
        config: impl Fn(&Host) -> Result<String>,
    ) -> Result<Vehicle> {
        let (mr, mnn) = (Host::new(&format!("mr{number}"))?, host(&format!("mnn{number}"))?);
        let uplinks: Vec<Port> = ports.iter().map(|name| emulator.add_port(&mr, name)).collect::<Result<_>>()?;
        let inside_ports = [emulator.add_port(&mr, "in0")?, emulator.add_port(&mnn, "eth0")?];
        let inside = emulator.cable(inside_ports, LinkSpec::default())?;
        let daemon = Daemon::start(&mr, &config(&mr)?).with_context(|| format!("the mobile router {}", mr.name()))?;
        let home_address = home_address(number);
        let mut vehicle =
            Vehicle { mr, mnn, uplinks, ingress_segment: inside, daemon, home_address, mnn_address: home_address };
        vehicle.mnn_address = clock::wait_for(TIMEOUT, || vehicle.mnn.address_in(mobile_network(number), &[]))
            .ok_or_else(|| anyhow!("{} has no address from the mobile router", vehicle.mnn.name()))?;
        Ok(vehicle)
    }

    /// The mobile network node as an endpoint of traffic.
    pub(crate) fn node(&self) -> Endpoint<'_> {
        Endpoint { host: &self.mnn, address: self.mnn_address }
    }

    /// The uplink with this index in order of preference.
    pub(crate) fn uplink(&self, index: usize) -> Result<Port> {
        self.uplinks.get(index).copied().ok_or_else(|| anyhow!("no uplink {index}"))
    }

    /// Waits until an echo request from the mobile network node to `target` is answered.
    pub(crate) fn wait_until_connected(&self, target: Ipv6Addr) -> Result<()> {
        let ping = || self.mnn.output("ping", &["-6", "-n", "-c", "1", "-W", "0.3", &target.to_string()]).ok();
        clock::wait_for(TIMEOUT, ping).map(|_| ()).ok_or_else(|| anyhow!("{} cannot reach {target}", self.mnn.name()))
    }

    /// Waits until so many care-of addresses are registered, after `since` (microseconds since 1970).
    pub(crate) fn wait_registered(&self, since: u64, count: usize) -> Result<()> {
        let is_bound = |report: &Report| matches!(report, Report::Nemo(NemoReport::Bound { care_of, .. }) if care_of.len() == count);
        let bound = self.daemon.events.wait_for(since, TIMEOUT, is_bound);
        bound.map(drop).with_context(|| format!("{count} care-of addresses are not registered"))
    }
}

/// Whether a report is an acknowledgement that accepts an update.
pub(crate) fn is_accepted(report: &Report) -> bool {
    matches!(report, Report::Nemo(NemoReport::AcknowledgementReceived { status: 0..128, .. }))
}

/// The octets of the shared key.
pub(crate) fn key() -> Vec<u8> {
    roam6_proto::base::hex::decode(KEY).unwrap_or_default()
}

/// First address of the mobile network of vehicle `number`, a /56.
pub(crate) fn mobile_network(number: u8) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 0x100 + u16::from(number), 0, 0, 0, 0, 0)
}

/// Home address of vehicle `number`.
pub(crate) fn home_address(number: u8) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 0x100 + u16::from(number))
}

/// Prefix of access network `number`, counted from 0, a /64.
pub(crate) fn visited_prefix(number: usize) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 0xa1 + u16::try_from(number).unwrap_or(0), 0, 0, 0, 0, 0)
}

/// The prefix pool of access network `number`, a /48.
pub(crate) fn delegated_pool(number: usize) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 0xb1 + u16::try_from(number).unwrap_or(0), 0, 0, 0, 0, 0)
}

/// Whether an address is of access network `number`, or of a prefix that it delegates.
pub(crate) fn is_of_access_network(number: usize, address: Ipv6Addr) -> bool {
    let near = |prefix: Ipv6Addr| prefix.segments().get(..3) == address.segments().get(..3);
    near(visited_prefix(number)) || near(delegated_pool(number))
}

/// Whether an address is a correspondent's.
pub(crate) fn is_correspondent(address: Ipv6Addr) -> bool {
    address.segments().get(..4) == CORRESPONDENT.segments().get(..4)
}

/// A host without duplicate address detection, so that its addresses are usable at once.
pub(crate) fn host(name: &str) -> Result<Host> {
    let host = Host::new(name)?;
    host.set_sysctl("ipv6/conf/default/accept_dad", "0")?;
    Ok(host)
}

/// A host that forwards.
pub(crate) fn router(name: &str) -> Result<Host> {
    let host = host(name)?;
    host.set_sysctl("ipv6/conf/all/forwarding", "1")?;
    Ok(host)
}

fn access_network(emulator: &LinkEmulator, core: &Host, number: u8) -> Result<AccessNetwork> {
    let router = router(&format!("ar{number}"))?;
    let (near, far) = (emulator.add_port(core, &format!("ar{number}"))?, emulator.add_port(&router, "net0")?);
    let cable = emulator.cable([near, far], LinkSpec::default())?;
    let link = emulator.add_link(LinkSpec::default());
    emulator.plug(emulator.add_port(&router, "lan0")?, link)?;
    core.ip(&[
        &format!("address add 2001:db8:f{number}::1/64 dev ar{number}"),
        &format!("route add 2001:db8:a{number}::/64 via 2001:db8:f{number}::2"),
    ])?;
    router.ip(&[
        &format!("address add 2001:db8:f{number}::2/64 dev net0"),
        &format!("address add 2001:db8:a{number}::1/64 dev lan0"),
        &format!("route add default via 2001:db8:f{number}::1"),
    ])?;
    let [here, there] = [near, far].map(|port| emulator.link_layer_address(port));
    let (here, there) = here.zip(there).context("no such port")?;
    // The line of a provider has no neighbour discovery: with it, what is sent after an outage would wait for the next
    // Neighbour Solicitation of a router, for up to a second.
    core.ip(&[&neighbour(&format!("2001:db8:f{number}::2"), there, &format!("ar{number}"))])?;
    router.ip(&[&neighbour(&format!("2001:db8:f{number}::1"), here, "net0")])?;
    let radvd = access_router::advertise(&router, "lan0", &format!("2001:db8:a{number}::/64"))?;
    Ok(AccessNetwork { link, cable, uplink_port: far, router, radvd: Some(radvd) })
}

/// Adds a neighbour for good.
fn neighbour(address: &str, link_layer_address: LinkAddress, interface: &str) -> String {
    format!("neighbour replace {address} lladdr {link_layer_address} dev {interface} nud permanent")
}

fn home_agent_config(vehicles: u8, extra: &str) -> String {
    let mut text = format!(
        "\n[home_agent]\naddress = \"{HOME_AGENT}\"\nhome_prefixes = [\"2001:db8:1::/64\"]\nhome_link = \"home0\"\n\
         advertise = \"10s\"\n{extra}\n"
    );
    (0..vehicles).for_each(|number| text += &prefix_table_row(number));
    text
}

/// The row of a vehicle in a home agent's configuration.
pub(crate) fn prefix_table_row(number: u8) -> String {
    prefix_table_row_at(number, home_address(number))
}

/// [`prefix_table_row`] of a vehicle with this home address.
pub(crate) fn prefix_table_row_at(number: u8, home_address: Ipv6Addr) -> String {
    format!(
        "\n[[home_agent.mobile]]\nhome_address = \"{home_address}\"\nprefixes = [\"{}/56\"]\nspi = {}\nkey = \"{KEY}\"\n",
        mobile_network(number),
        FIRST_SPI + u32::from(number),
    )
}

/// Writes the shared key into a key file.
pub(crate) fn write_key(file: &Path, spi: u32) -> Result<()> {
    fs::write(file, format!("spi = {spi}\nkey = \"{KEY}\"\n"))?;
    fs::set_permissions(file, Permissions::from_mode(0o600))?;
    Ok(())
}

/// The configuration of a mobile router; its key goes into a key file.
pub(crate) fn mobile_router_config(mr: &Host, number: u8, uplinks: &[&str]) -> Result<String> {
    mobile_router_config_with(mr, number, uplinks, &[HOME_AGENT])
}

/// [`mobile_router_config`] with these home agents.
pub(crate) fn mobile_router_config_with(
    mr: &Host,
    number: u8,
    uplinks: &[&str],
    home_agents: &[Ipv6Addr],
) -> Result<String> {
    let home_prefix = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 0);
    let home_agents = home_agents.to_vec();
    let membership = Membership { home_agents, home_prefix, home_address: home_address(number) };
    mobile_router_config_of(mr, number, uplinks, &membership)
}

/// [`mobile_router_config`] of a mobile router of this home network.
pub(crate) fn mobile_router_config_of(mr: &Host, number: u8, uplinks: &[&str], of: &Membership) -> Result<String> {
    let key_file = mr.folder().join("home.key");
    write_key(&key_file, FIRST_SPI + u32::from(number))?;
    let network = mobile_network(number);
    let mut text = format!("\n[[mobile_router.ingress]]\ninterface = \"in0\"\nprefix = \"{network}/64\"\n");
    for name in uplinks {
        text += &format!("\n[[mobile_router.uplink]]\ninterface = \"{name}\"\n");
    }
    // This table is last, so that `extra` may begin with keys of it.
    text += &format!(
        "\n[mobile_router]\nhome_address = \"{}\"\nhome_prefix = \"{}/64\"\n\
         home_agents = {:?}\nprefixes = [\"{network}/56\"]\nkey_file = \"{}\"\n",
        of.home_address,
        of.home_prefix,
        of.home_agents.iter().map(ToString::to_string).collect::<Vec<_>>(),
        key_file.display()
    );
    Ok(text)
}
