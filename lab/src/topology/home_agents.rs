//! Two home agents with one prefix table, far from each other, and a vehicle with one uplink, which has IPv6, IPv4, or
//! IPv4 behind a NAT, and may let UDP through and nothing else.
//!
//! ```text
//!   cn ──── core ──── ha0
//!           │  ╰───── ha1
//!           ar ── mr.up0
//!                 mr.in0 ──── mnn
//! ```

use super::nemo::{self, CORRESPONDENT, Vehicle, mobile_network, prefix_table_row};
use crate::bed::{Daemon, Host, LinkEmulator, Process, Segment, access_router};
use crate::clock;
use crate::load::Endpoint;
use anyhow::{Context, Result};
use roam6_sim::LinkSpec;
use std::net::Ipv6Addr;
use std::time::Duration;

/// What the visited network has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// IPv6.
    Ipv6,
    /// IPv4 alone, with public addresses.
    Ipv4,
    /// IPv4 alone, behind a NAT.
    Translated,
    /// The same, and nothing but UDP passes.
    UdpOnly,
    /// IPv6, of which nothing but UDP passes.
    UdpOverIpv6,
}

impl Access {
    fn has_ipv6(self) -> bool {
        matches!(self, Access::Ipv6 | Access::UdpOverIpv6)
    }
}

/// The networks.
pub(crate) struct HomeAgentPair {
    /// All ports and segments.
    pub(crate) emulator: LinkEmulator,
    /// The home agents.
    pub(crate) home_agents: [HomeAgentSite; 2],
    /// The vehicle.
    pub(crate) vehicle: Vehicle,
    cn: Host,
    core: Host,
    _access_router: (Host, Option<Process>),
}

/// A home agent and its connection.
pub(crate) struct HomeAgentSite {
    /// Its roam6.
    pub(crate) daemon: Daemon,
    /// Its address.
    pub(crate) address: Ipv6Addr,
    cable: Segment,
    /// Its address on the cable.
    on_cable: Ipv6Addr,
}

/// How long initial set-up may take until connectivity.
const TIMEOUT: Duration = Duration::from_secs(15);

impl HomeAgentPair {
    /// Builds the networks, with `delay` to each home agent, and returns once the node in the vehicle reaches the
    /// correspondent by the first one.
    pub(crate) fn build(access: Access, delay: Duration) -> Result<HomeAgentPair> {
        let emulator = LinkEmulator::new(1)?;
        let (core, cn) = (nemo::router("core")?, nemo::host("cn")?);
        core.set_sysctl("ipv4/ip_forward", "1")?;
        emulator.cable([emulator.add_port(&core, "cn0")?, emulator.add_port(&cn, "eth0")?], LinkSpec::default())?;
        core.ip(&["address add 2001:db8:c::1/64 dev cn0"])?;
        cn.ip(&[&format!("address add {CORRESPONDENT}/64 dev eth0"), "route add default via 2001:db8:c::1"])?;
        let home_agents = [home_agent(&emulator, &core, 0, delay)?, home_agent(&emulator, &core, 1, delay)?];
        let (link, router, radvd) = access_network(&emulator, &core, access)?;
        let addresses = home_agents.each_ref().map(|site| site.address);
        let vehicle = Vehicle::start(&emulator, 0, &["up0"], |mr| {
            let config = nemo::mobile_router_config_with(mr, 0, &["up0"], &addresses)?;
            let ipv4 = "home_agents_ipv4 = [\"203.0.113.1\", \"203.0.113.2\"]\n";
            Ok(if access.has_ipv6() { config } else { config + ipv4 })
        })?;
        emulator.plug(vehicle.uplink(0)?, link)?;
        if !access.has_ipv6() {
            vehicle.mr.ip(&["address add 192.168.8.2/24 dev up0"])?;
            let route = || vehicle.mr.ip(&["route replace default via 192.168.8.1 dev up0"]).ok();
            clock::wait_for(TIMEOUT, route).context("no IPv4 route by the uplink")?;
        }
        let pair = HomeAgentPair { emulator, home_agents, vehicle, cn, core, _access_router: (router, radvd) };
        pair.route_home(0)?;
        pair.vehicle.wait_until_connected(CORRESPONDENT)?;
        Ok(pair)
    }

    /// The mobile network is reached by this home agent, as the routing protocol of the home network would announce it.
    pub(crate) fn route_home(&self, number: usize) -> Result<()> {
        let site = self.site(number)?;
        self.core.ip(&[&format!("route replace {}/56 via {}", mobile_network(0), site.on_cable)])
    }

    /// A home agent loses power: nothing passes it any more.
    pub(crate) fn power_off(&mut self, number: usize) -> Result<()> {
        let spec = LinkSpec { loss: 1.0, ..LinkSpec::default() };
        self.emulator.shape(self.site(number)?.cable, spec);
        self.home_agents.get_mut(number).into_iter().for_each(|site| site.daemon.kill());
        Ok(())
    }

    /// It has power again, and its journal.
    pub(crate) fn power_on(&mut self, number: usize, delay: Duration) -> Result<()> {
        self.emulator.shape(self.site(number)?.cable, LinkSpec { delay, ..LinkSpec::default() });
        self.home_agents.get_mut(number).context("no such home agent")?.daemon.spawn()
    }

    /// The correspondent as an endpoint of traffic.
    pub(crate) fn correspondent(&self) -> Endpoint<'_> {
        Endpoint { host: &self.cn, address: CORRESPONDENT }
    }

    fn site(&self, number: usize) -> Result<&HomeAgentSite> {
        self.home_agents.get(number).context("no such home agent")
    }
}

fn home_agent(emulator: &LinkEmulator, core: &Host, number: u16, delay: Duration) -> Result<HomeAgentSite> {
    let host = nemo::router(&format!("ha{number}"))?;
    let ports = [emulator.add_port(core, &format!("ha{number}"))?, emulator.add_port(&host, "net0")?];
    let cable = emulator.cable(ports, LinkSpec { delay, ..LinkSpec::default() })?;
    let address = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, number + 1);
    let on_cable = Ipv6Addr::new(0x2001, 0xdb8, 0xe0 + number, 0, 0, 0, 0, 2);
    let ipv4 = format!("203.0.113.{}", number + 1);
    core.ip(&[
        &format!("address add 2001:db8:e{number}::1/64 dev ha{number}"),
        &format!("address add 10.9.{number}.1/24 dev ha{number}"),
        &format!("route add {address}/128 via {on_cable}"),
        &format!("route add {ipv4}/32 via 10.9.{number}.2"),
    ])?;
    host.ip(&[
        &format!("address add {on_cable}/64 dev net0"),
        &format!("address add 10.9.{number}.2/24 dev net0"),
        &format!("address add {address}/128 dev lo"),
        &format!("address add {ipv4}/32 dev lo"),
        &format!("route add default via 2001:db8:e{number}::1"),
        &format!("route add default via 10.9.{number}.1"),
    ])?;
    let config = format!(
        "\n[home_agent]\naddress = \"{address}\"\nhome_prefixes = [\"2001:db8:1::/64\"]\n\
         \n[home_agent.ipv4]\naddress = \"{ipv4}\"\n"
    );
    let daemon = Daemon::start(&host, &(config + &prefix_table_row(0))).with_context(|| format!("ha{number}"))?;
    Ok(HomeAgentSite { daemon, address, cable, on_cable })
}

/// The visited network, its router, and what advertises it.
fn access_network(emulator: &LinkEmulator, core: &Host, access: Access) -> Result<(Segment, Host, Option<Process>)> {
    let router = nemo::router("ar")?;
    router.set_sysctl("ipv4/ip_forward", "1")?;
    let ports = [emulator.add_port(core, "ar0")?, emulator.add_port(&router, "net0")?];
    emulator.cable(ports, LinkSpec::default())?;
    let link = emulator.add_link(LinkSpec::default());
    emulator.plug(emulator.add_port(&router, "lan0")?, link)?;
    core.ip(&["address add 2001:db8:f1::1/64 dev ar0", "address add 10.8.0.1/24 dev ar0"])?;
    router.ip(&[
        "address add 2001:db8:f1::2/64 dev net0",
        "address add 10.8.0.2/24 dev net0",
        "route add default via 2001:db8:f1::1",
        "route add default via 10.8.0.1",
    ])?;
    let prefix = "2001:db8:a1::/64";
    match access {
        Access::Ipv6 | Access::UdpOverIpv6 => {
            if access == Access::UdpOverIpv6 {
                pass_udp_only(&router, "ip6", "meta l4proto != udp")?;
            }
            core.ip(&[&format!("route add {prefix} via 2001:db8:f1::2")])?;
            router.ip(&["address add 2001:db8:a1::1/64 dev lan0"])?;
            let radvd = access_router::advertise(&router, "lan0", prefix)?;
            return Ok((link, router, Some(radvd)));
        }
        Access::Ipv4 => core.ip(&["route add 192.168.8.0/24 via 10.8.0.2"])?,
        Access::Translated => translate(&router)?,
        Access::UdpOnly => {
            translate(&router)?;
            pass_udp_only(&router, "ip", "ip protocol != udp")?;
        }
    }
    router.ip(&["address add 192.168.8.1/24 dev lan0"])?;
    Ok((link, router, None))
}

/// A firewall that forwards UDP alone.
fn pass_udp_only(router: &Host, family: &str, others: &str) -> Result<()> {
    let filter =
        format!("table {family} wall {{ chain forward {{ type filter hook forward priority 0; {others} drop; }}; }}");
    router.output("nft", &[&filter]).map(drop).context("a firewall by nftables")
}

/// A NAT before the visited network of `router`.
fn translate(router: &Host) -> Result<()> {
    let masquerade = "table ip nat { chain post { type nat hook postrouting priority 100; oifname \"net0\" masquerade \
                      fully-random; }; }";
    router.output("nft", &[masquerade]).map(drop).context("a NAT by nftables")
}
