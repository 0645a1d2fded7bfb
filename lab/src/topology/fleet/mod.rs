//! A fleet: three home agents with one address, each with a node of the store (etcd) and a routing daemon (BIRD), behind a
//! router that spreads flows over them by BGP with BFD; and a vehicle with one uplink that knows of none of it.
//!
//! ```text
//!   cn ──── core ──┬── ha1      etcd, BIRD and roam6 on each
//!            │     ├── ha2
//!           ar     ╰── ha3
//!            ╵
//!        mr.up0 ─ mr.in0 ──── mnn
//! ```

mod places;
mod programs;
pub(crate) mod tables;

pub(crate) use places::Places;
pub(crate) use programs::Service;

use super::nemo::{self, CORRESPONDENT, HOME_AGENT, Vehicle, prefix_table_row};
use crate::bed::tap::Tap;
use crate::bed::{Daemon, Host, LinkEmulator, Process, Segment, access_router};
use crate::clock;
use crate::load::Endpoint;
use crate::load::registrations::{care_of, prefix_table};
use anyhow::{Context, Result};
use roam6_sim::LinkSpec;
use serde_json::Value;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

/// Members of the fleet.
pub(crate) const MEMBERS: usize = 3;
/// How long anything may take until it is in place.
const TIMEOUT: Duration = Duration::from_secs(30);
const ACCESS_PREFIX: &str = "2001:db8:a1::/64";
const CORE_AS: u32 = 64600;

/// What a fleet is built for.
#[derive(Debug, Clone)]
pub(crate) struct FleetSetup {
    /// The interval of BFD: three of them without a word are a failure.
    pub(crate) bfd: Duration,
    /// Mobile routers in the prefix table that this program emulates, by two interfaces of each member.
    pub(crate) routers: u32,
    /// Added to the table `[home_agent]` of each member.
    pub(crate) extra: String,
}

impl Default for FleetSetup {
    fn default() -> FleetSetup {
        FleetSetup { bfd: Duration::from_millis(100), routers: 0, extra: String::new() }
    }
}

/// The networks.
pub(crate) struct FleetNetwork {
    /// All ports and segments.
    pub(crate) emulator: LinkEmulator,
    /// The members, ha1 first.
    pub(crate) members: Vec<Member>,
    /// The vehicle.
    pub(crate) vehicle: Vehicle,
    /// Interfaces of each member, if mobile routers are emulated.
    pub(crate) taps: Vec<MemberTaps>,
    cn: Host,
    core: Host,
    _routing: Service,
    _radvd: Process,
    _access_router: Host,
}

/// A home agent that is a member, and what runs beside it.
pub(crate) struct Member {
    /// Its roam6.
    pub(crate) daemon: Daemon,
    /// Its node of the store.
    pub(crate) store: Service,
    /// Its routing daemon.
    pub(crate) routing: Service,
    cable: Segment,
}

/// Interfaces of a member whose other ends are this program.
pub(crate) struct MemberTaps {
    /// Towards emulated mobile routers.
    pub(crate) routers: Tap,
    /// Towards correspondents.
    pub(crate) correspondents: Tap,
}

impl FleetNetwork {
    /// Builds the networks, and returns once all members are healthy, the router spreads over them, and the node in the
    /// vehicle reaches the correspondent.
    pub(crate) fn build(setup: &FleetSetup) -> Result<FleetNetwork> {
        let emulator = LinkEmulator::new(1)?;
        let (core, cn) = (nemo::router("core")?, nemo::host("cn")?);
        core.set_sysctl("ipv6/fib_multipath_hash_policy", "1")?;
        emulator.cable([emulator.add_port(&core, "cn0")?, emulator.add_port(&cn, "eth0")?], LinkSpec::default())?;
        core.ip(&["address add 2001:db8:c::1/64 dev cn0"])?;
        cn.ip(&[&format!("address add {CORRESPONDENT}/64 dev eth0"), "route add default via 2001:db8:c::1"])?;
        let mut sites: Vec<Site> =
            (1..=MEMBERS).map(|number| Site::build(&emulator, &core, CORE_AS, number)).collect::<Result<_>>()?;
        let routing = programs::bird(&core, &programs::router_config(CORE_AS, &[1, 2, 3], setup.bfd, ""))?;
        let taps = sites.iter().filter(|_| setup.routers > 0).map(Site::taps).collect::<Result<_>>()?;
        let members = Site::start_all(&mut sites, setup)?;
        let (link, access_router, radvd) = access_network(&emulator, &core)?;
        let vehicle = Vehicle::start(&emulator, 0, &["up0"], |mr| {
            nemo::mobile_router_config_with(mr, 0, &["up0"], &[HOME_AGENT])
        })?;
        let network = FleetNetwork {
            emulator,
            members,
            vehicle,
            taps,
            cn,
            core,
            _routing: routing,
            _radvd: radvd,
            _access_router: access_router,
        };
        network.wait_all_healthy()?;
        network.emulator.plug(network.vehicle.uplink(0)?, link)?;
        network.vehicle.wait_until_connected(CORRESPONDENT)?;
        Ok(network)
    }

    /// The correspondent as an endpoint of traffic.
    pub(crate) fn correspondent(&self) -> Endpoint<'_> {
        Endpoint { host: &self.cn, address: CORRESPONDENT }
    }

    /// Member `number`, from 1.
    pub(crate) fn member(&self, number: usize) -> Result<&Member> {
        self.members.get(number.wrapping_sub(1)).context("no such member")
    }

    /// The same, to change it.
    pub(crate) fn member_mut(&mut self, number: usize) -> Result<&mut Member> {
        self.members.get_mut(number.wrapping_sub(1)).context("no such member")
    }

    /// The cable of a member is cut, or whole again; no interface goes down.
    pub(crate) fn cut(&self, number: usize, cut: bool) -> Result<()> {
        let loss = if cut { 1.0 } else { 0.0 };
        self.shape(number, LinkSpec { loss, ..LinkSpec::default() })
    }

    /// Changes the cable of a member.
    pub(crate) fn shape(&self, number: usize, spec: LinkSpec) -> Result<()> {
        self.emulator.shape(self.member(number)?.cable, spec);
        Ok(())
    }

    /// Packets between the nodes of the store of two members are dropped, or not any more.
    pub(crate) fn separate(&self, one: usize, other: usize, separate: bool) -> Result<()> {
        let table = format!("apart{}{}", one.min(other), one.max(other));
        let script = if separate {
            let [one, other] = [on_cable(one), on_cable(other)];
            format!(
                "table ip6 {table} {{ chain forward {{ type filter hook forward priority 0; \
                 ip6 saddr {one} ip6 daddr {other} drop; ip6 saddr {other} ip6 daddr {one} drop; }}; }}"
            )
        } else {
            format!("delete table ip6 {table}")
        };
        self.core.output("nft", &[&script]).map(drop).context("a filter by nftables")
    }

    /// Waits until all members are healthy, and the router has a route by each of them.
    pub(crate) fn wait_all_healthy(&self) -> Result<()> {
        (1..=MEMBERS).try_for_each(|number| self.wait_for_state(number, "healthy"))?;
        self.wait_for_routes(MEMBERS)
    }

    /// Waits until a member is in this state.
    pub(crate) fn wait_for_state(&self, number: usize, state: &str) -> Result<()> {
        self.member(number)?.wait_for_state(state)
    }

    /// Waits until the router has so many members to choose from for packets to the mobile network.
    pub(crate) fn wait_for_routes(&self, count: usize) -> Result<()> {
        let shown = || self.core.output("ip", &["-6", "route", "show", "2001:db8:100::/40"]).unwrap_or_default();
        let found = || (shown().matches("via ").count() == count).then_some(());
        clock::wait_for(TIMEOUT, found).with_context(|| format!("{count} next hops expected: {}", shown()))
    }
}

impl Member {
    /// Its state, as `roam6 show fleet` names it.
    pub(crate) fn state(&self) -> Option<String> {
        let shown: Value = self.daemon.show("fleet").ok()?;
        Some(shown.get("state")?.as_str()?.to_owned())
    }

    /// Waits until it is in this state.
    pub(crate) fn wait_for_state(&self, state: &str) -> Result<()> {
        let daemon = &self.daemon;
        clock::wait_for(TIMEOUT, || (self.state()? == state).then_some(()))
            .with_context(|| format!("{} is not {state}: {}", daemon.host.name(), daemon.log_tail()))
    }

    /// What it announces: routes of the table for the routing daemon.
    pub(crate) fn announced(&self) -> String {
        // `ip` calls a table without routes an error.
        self.daemon.host.output("ip", &["-6", "route", "show", "table", "107"]).unwrap_or_default()
    }

    /// Output of `etcdctl` at its node of the store.
    pub(crate) fn etcdctl(&self, arguments: &[&str]) -> Result<String> {
        let mut command = self.daemon.host.command("etcdctl");
        command.env("ETCDCTL_API", "3").args(["--endpoints", programs::STORE]).args(arguments);
        let done = command.output().context("etcdctl: install it with scripts/install-deps fleet")?;
        anyhow::ensure!(done.status.success(), "etcdctl: {}", String::from_utf8_lossy(&done.stderr).trim());
        Ok(String::from_utf8_lossy(&done.stdout).into_owned())
    }
}

/// A member before its programs run.
struct Site {
    number: usize,
    /// The AS number of the router before it.
    core_as: u32,
    host: Host,
    cable: Segment,
}

impl Site {
    fn build(emulator: &LinkEmulator, core: &Host, core_as: u32, number: usize) -> Result<Site> {
        let host = nemo::router(&format!("ha{number}"))?;
        let ports = [emulator.add_port(core, &format!("ha{number}"))?, emulator.add_port(&host, "net0")?];
        let cable = emulator.cable(ports, LinkSpec::default())?;
        core.ip(&[&format!("address add 2001:db8:e{number}::1/64 dev ha{number}")])?;
        host.ip(&[
            &format!("address add {}/64 dev net0", on_cable(number)),
            // Never a source of the member's own connections.
            &format!("address add {HOME_AGENT}/128 dev lo preferred_lft 0"),
            &format!("route add default via 2001:db8:e{number}::1"),
        ])?;
        Ok(Site { number, core_as, host, cable })
    }

    /// Interfaces towards emulated mobile routers and their correspondents.
    fn taps(&self) -> Result<MemberTaps> {
        let taps =
            MemberTaps { routers: Tap::open(&self.host, "routers0")?, correspondents: Tap::open(&self.host, "cn0")? };
        self.host.ip(&[&format!("route add {}/48 via fe80::1 dev routers0", care_of(0).0)])?;
        Ok(taps)
    }

    /// Starts all programs of all members. A node of the store needs another one to begin, so these are first.
    fn start_all(sites: &mut Vec<Site>, setup: &FleetSetup) -> Result<Vec<Member>> {
        let nodes: Vec<Service> =
            sites.iter().map(|site| programs::etcd(&site.host, site.number)).collect::<Result<_>>()?;
        sites.drain(..).zip(nodes).map(|(site, store)| site.start(store, setup)).collect()
    }

    /// Starts the routing daemon and roam6.
    fn start(self, store: Service, setup: &FleetSetup) -> Result<Member> {
        let Site { number, core_as, host, cable } = self;
        let routing = programs::bird(&host, &programs::member_config(number, core_as, setup.bfd))?;
        let table = table_file(&host, setup.routers)?;
        let config = format!(
            "\n[home_agent]\naddress = \"{HOME_AGENT}\"\nhome_prefixes = [\"2001:db8:1::/64\"]\nprefix_table = \"{}\"\n\
             max_bindings = {}\nmax_update_rate = 100000\n{}\n\
             \n[fleet]\nname = \"lab\"\nstore = [\"{}\"]\nannounce = {{}}\ndrain = \"2s\"\n\
             aggregates = [\"2001:db8:100::/40\"]\n",
            table.display(),
            setup.routers + 10,
            setup.extra,
            programs::STORE,
        );
        let mut daemon = Daemon::start(&host, &config).with_context(|| format!("ha{number}"))?;
        daemon.unwatch();
        Ok(Member { daemon, store, routing, cable })
    }
}

/// Writes the prefix table: the vehicle, and the emulated mobile routers.
fn table_file(host: &Host, routers: u32) -> Result<PathBuf> {
    let file = host.folder().join("mobiles.toml");
    let vehicle = prefix_table_row(0).replace("home_agent.mobile", "mobile");
    fs::write(&file, prefix_table(routers)? + &vehicle)?;
    fs::set_permissions(&file, Permissions::from_mode(0o600))?;
    Ok(file)
}

fn on_cable(number: usize) -> String {
    format!("2001:db8:e{number}::2")
}

/// The visited network, its router, and what advertises it.
fn access_network(emulator: &LinkEmulator, core: &Host) -> Result<(Segment, Host, Process)> {
    let router = nemo::router("ar")?;
    emulator.cable([emulator.add_port(core, "ar0")?, emulator.add_port(&router, "net0")?], LinkSpec::default())?;
    let link = emulator.add_link(LinkSpec::default());
    emulator.plug(emulator.add_port(&router, "lan0")?, link)?;
    core.ip(&["address add 2001:db8:f1::1/64 dev ar0", &format!("route add {ACCESS_PREFIX} via 2001:db8:f1::2")])?;
    router.ip(&[
        "address add 2001:db8:f1::2/64 dev net0",
        "address add 2001:db8:a1::1/64 dev lan0",
        "route add default via 2001:db8:f1::1",
    ])?;
    let radvd = access_router::advertise(&router, "lan0", ACCESS_PREFIX)?;
    Ok((link, router, radvd))
}
