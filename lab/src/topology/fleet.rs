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

use super::nemo::{self, CORRESPONDENT, HOME_AGENT, Vehicle, prefix_table_row};
use crate::bed::{Daemon, Host, LinkEmulator, Process, Segment, access_router};
use crate::clock;
use crate::load::Endpoint;
use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use roam6_sim::LinkSpec;
use serde_json::Value;
use std::fs;
use std::process::Stdio;
use std::time::Duration;

/// Members of the fleet.
pub(crate) const MEMBERS: usize = 3;
/// How long anything may take until it is in place.
const TIMEOUT: Duration = Duration::from_secs(30);
const ACCESS_PREFIX: &str = "2001:db8:a1::/64";

/// The networks.
pub(crate) struct FleetNetwork {
    /// All ports and segments.
    pub(crate) emulator: LinkEmulator,
    /// The members, ha1 first.
    pub(crate) members: Vec<Member>,
    /// The vehicle.
    pub(crate) vehicle: Vehicle,
    cn: Host,
    core: Host,
    _programs: Vec<Process>,
    _access_router: Host,
}

/// A home agent that is a member, and what runs beside it.
pub(crate) struct Member {
    /// Its roam6.
    pub(crate) daemon: Daemon,
    cable: Segment,
    store: Process,
    _routing: Process,
}

impl FleetNetwork {
    /// Builds the networks, and returns once all members are healthy, the router spreads over them, and the node in the
    /// vehicle reaches the correspondent.
    pub(crate) fn build() -> Result<FleetNetwork> {
        let emulator = LinkEmulator::new(1)?;
        let (core, cn) = (nemo::router("core")?, nemo::host("cn")?);
        core.set_sysctl("ipv6/fib_multipath_hash_policy", "1")?;
        emulator.cable([emulator.add_port(&core, "cn0")?, emulator.add_port(&cn, "eth0")?], LinkSpec::default())?;
        core.ip(&["address add 2001:db8:c::1/64 dev cn0"])?;
        cn.ip(&[&format!("address add {CORRESPONDENT}/64 dev eth0"), "route add default via 2001:db8:c::1"])?;
        let sites: Vec<Site> =
            (1..=MEMBERS).map(|number| Site::build(&emulator, &core, number)).collect::<Result<_>>()?;
        let routing = bird(&core, &router_config())?;
        // A node of the store needs another one to begin.
        let sites: Vec<(Site, Process)> =
            sites.into_iter().map(|site| etcd(&site).map(|store| (site, store))).collect::<Result<_>>()?;
        let members = sites.into_iter().map(|(site, store)| site.start(store)).collect::<Result<Vec<_>>>()?;
        let (link, access_router, radvd) = access_network(&emulator, &core)?;
        let vehicle = Vehicle::start(&emulator, 0, &["up0"], |mr| {
            nemo::mobile_router_config_with(mr, 0, &["up0"], &[HOME_AGENT])
        })?;
        let programs = vec![routing, radvd];
        let network =
            FleetNetwork { emulator, members, vehicle, cn, core, _programs: programs, _access_router: access_router };
        for number in 1..=MEMBERS {
            network.wait_for_state(number, "healthy")?;
        }
        network.wait_for_routes(MEMBERS)?;
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
        self.emulator.shape(self.member(number)?.cable, LinkSpec { loss, ..LinkSpec::default() });
        Ok(())
    }

    /// Waits until a member is in this state.
    pub(crate) fn wait_for_state(&self, number: usize, state: &str) -> Result<()> {
        let daemon = &self.member(number)?.daemon;
        let is_there = || {
            let shown: Value = daemon.show("fleet").ok()?;
            (shown.get("state")?.as_str()? == state).then_some(())
        };
        clock::wait_for(TIMEOUT, is_there)
            .with_context(|| format!("{} is not {state}: {}", daemon.host.name(), daemon.log_tail()))
    }

    /// Waits until the router has so many members to choose from for packets to the mobile network.
    pub(crate) fn wait_for_routes(&self, count: usize) -> Result<()> {
        let shown = || self.core.output("ip", &["-6", "route", "show", "2001:db8:100::/40"]).unwrap_or_default();
        let found = || (shown().matches("via ").count() == count).then_some(());
        clock::wait_for(TIMEOUT, found).with_context(|| format!("{count} next hops expected: {}", shown()))
    }
}

impl Member {
    /// Stops its node of the store where it is, or lets it go on.
    pub(crate) fn freeze_store(&self, frozen: bool) -> Result<()> {
        let signal = if frozen { Signal::SIGSTOP } else { Signal::SIGCONT };
        Ok(kill(Pid::from_raw(i32::try_from(self.store.0.id())?), signal)?)
    }
}

/// A member before its programs run.
struct Site {
    number: usize,
    host: Host,
    cable: Segment,
}

impl Site {
    fn build(emulator: &LinkEmulator, core: &Host, number: usize) -> Result<Site> {
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
        Ok(Site { number, host, cable })
    }

    /// Starts the routing daemon and roam6.
    fn start(self, store: Process) -> Result<Member> {
        let Site { number, host, cable } = self;
        let routing = bird(&host, &member_config(number))?;
        let config = format!(
            "\n[home_agent]\naddress = \"{HOME_AGENT}\"\nhome_prefixes = [\"2001:db8:1::/64\"]\n\
             \n[fleet]\nname = \"lab\"\nstore = [\"http://[::1]:2379\"]\nannounce = {{}}\ndrain = \"2s\"\n\
             aggregates = [\"2001:db8:100::/40\"]\n"
        );
        let daemon = Daemon::start(&host, &(config + &prefix_table_row(0))).with_context(|| format!("ha{number}"))?;
        Ok(Member { daemon, cable, store, _routing: routing })
    }
}

fn on_cable(number: usize) -> String {
    format!("2001:db8:e{number}::2")
}

/// A node of the store, its data on disk.
fn etcd(site: &Site) -> Result<Process> {
    let peer = |number: usize| format!("http://[{}]:2380", on_cable(number));
    let cluster: Vec<String> = (1..=MEMBERS).map(|number| format!("ha{number}={}", peer(number))).collect();
    let (client, own) = ("http://[::1]:2379", peer(site.number));
    let mut command = site.host.command("etcd");
    command.args(["--name", site.host.name(), "--data-dir"]).arg(site.host.folder().join("etcd"));
    command.args(["--listen-client-urls", client, "--advertise-client-urls", client]);
    command.args(["--listen-peer-urls", &own, "--initial-advertise-peer-urls", &own]);
    command.args(["--initial-cluster", &cluster.join(","), "--logger", "zap", "--log-level", "error"]);
    let log = fs::File::create(site.host.folder().join("etcd.log"))?;
    let child = command.stdout(log.try_clone()?).stderr(log).spawn();
    Ok(Process(child.context("etcd: install it with scripts/install-deps fleet")?))
}

/// A routing daemon.
fn bird(host: &Host, config: &str) -> Result<Process> {
    let file = |kind: &str| host.folder().join(format!("bird.{kind}"));
    fs::write(file("conf"), config)?;
    let mut command = host.command("bird");
    command.arg("-f").arg("-c").arg(file("conf")).arg("-s").arg(file("ctl")).arg("-P").arg(file("pid"));
    let log = fs::File::create(file("log"))?;
    let child = command.stdout(Stdio::null()).stderr(log).spawn();
    let mut process = Process(child.context("bird: install it with scripts/install-deps fleet")?);
    if clock::wait_for(TIMEOUT, || file("ctl").exists().then_some(())).is_none() {
        process.0.kill().ok();
        bail!("bird on {}: {}", host.name(), fs::read_to_string(file("log")).unwrap_or_default());
    }
    Ok(process)
}

const COMMON: &str = "log stderr all;\nprotocol device { }\n\
    protocol bfd { interface \"*\" { min rx interval 100 ms; min tx interval 100 ms; multiplier 3; }; }\n";

/// A member that is back is wanted soon.
const TIMERS: &str = "connect delay time 1; connect retry time 2; error wait time 1, 2; graceful restart off;";

/// As dist/bird/roam6.conf.
fn member_config(number: usize) -> String {
    format!(
        "router id 192.0.2.{number};\n{COMMON}\
         protocol kernel fleet {{ ipv6 {{ import where krt_source = 107; export none; }}; kernel table 107; learn; }}\n\
         filter served {{\n  if net !~ [ 2001:db8:1::1/128, 2001:db8:1::/64, 2001:db8:100::/40 ] then reject;\n  \
         bgp_med = krt_metric;\n  if krt_metric >= 200 then {{ bgp_path.prepend({as_number}); bgp_path.prepend({as_number}); }}\n  \
         accept;\n}}\n\
         protocol bgp core {{\n  local {own} as {as_number};\n  neighbor 2001:db8:e{number}::1 as 64600;\n  bfd on;\n  {TIMERS}\n  \
         ipv6 {{ import none; export filter served; next hop self; }};\n}}\n",
        as_number = 64610 + number,
        own = on_cable(number),
    )
}

fn router_config() -> String {
    let mut text = format!(
        "router id 192.0.2.100;\n{COMMON}protocol kernel {{ ipv6 {{ import none; export all; }}; merge paths on; }}\n"
    );
    for number in 1..=MEMBERS {
        text += &format!(
            "protocol bgp ha{number} {{\n  local 2001:db8:e{number}::1 as 64600;\n  neighbor {} as {};\n  bfd on;\n  {TIMERS}\n  \
             ipv6 {{ import all; export none; }};\n}}\n",
            on_cable(number),
            64610 + number
        );
    }
    text
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
