//! The scene: a home agent at a provider, and a van in a visited network.
//!
//! ```text
//!   core ──── vps                    core has the correspondent's address, too
//!     ╰────── visited ──┬ lan0       mr.up0: plugged into one of the two access links
//!                       ╰ lan1       mr.in0 ──── node
//! ```

use crate::bed::access_router::advertise_as;
use crate::bed::{Daemon, Host, LinkEmulator, Port, Process, Segment};
use crate::experiments::prelude::*;
use crate::threads::Workers;
use crate::topology::nemo::{self, CORRESPONDENT, HOME_AGENT, mobile_network};
use roam6_proto::Report;
use roam6_proto::contract::report::NemoReport;
use roam6_sim::LinkSpec;
use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::Ordering;

/// How long set-up may take, on a busy machine too.
const TIMEOUT: Duration = Duration::from_secs(40);
/// The prefixes of the access links.
const ACCESS_PREFIXES: [&str; 2] = ["2001:db8:a1::", "2001:db8:a2::"];

/// What the visited network offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// A prefix to make addresses in.
    Ipv6,
    /// A router without a prefix for addresses.
    WithoutPrefix,
    /// A router that refers to DHCPv6.
    Managed,
    /// IPv4 alone.
    Ipv4,
}

/// What the scene is made of: a fault may be in it from the beginning.
pub(super) struct Plan {
    /// The configuration of the van.
    pub(super) van: String,
    /// The configuration of the home agent.
    pub(super) vps: String,
    /// Its prefix table.
    pub(super) rows: String,
    /// What the visited network offers.
    pub(super) access: Access,
    /// Whether the scene is healthy before the fault is made: it is waited for.
    pub(super) healthy: bool,
}

impl Plan {
    /// Replaces a part of the van's configuration.
    pub(super) fn edit_van(&mut self, part: &str, by: &str) {
        self.van = self.van.replace(part, by);
    }

    /// The only uplink uses IPv6 in IPv6, and never UDP.
    pub(super) fn without_udp(&mut self) {
        self.edit_van("interface = \"up0\"\n", "interface = \"up0\"\ntransport = \"native\"\n");
    }
}

/// The networks and daemons.
pub(super) struct Scene {
    pub(super) router: Daemon,
    pub(super) agent: Daemon,
    /// Other daemons, and programs.
    pub(super) daemons: Vec<Daemon>,
    pub(super) processes: Vec<Process>,
    pub(super) radvd: Vec<Process>,
    pub(super) emulator: LinkEmulator,
    pub(super) uplink: Port,
    pub(super) access: [Segment; 2],
    pub(super) inside: Segment,
    pub(super) van: Host,
    pub(super) vps: Host,
    pub(super) core: Host,
    pub(super) visited: Host,
    node: Host,
    guests: Vec<Host>,
    van_config: String,
    vps_config: String,
    /// Distinguishes the hosts of scenes that exist at once.
    number: usize,
    workers: Workers,
}

/// What the doctor says at a host.
pub(super) struct Verdict {
    /// The first fault.
    pub(super) fault: Option<String>,
    /// Warnings, in their order.
    pub(super) warnings: Vec<String>,
    /// Whether neither a fault nor a warning was found, nor anything that is not known.
    pub(super) is_healthy: bool,
    /// How long it took.
    pub(super) seconds: f64,
    /// All findings that are not as they should be.
    pub(super) text: String,
}

impl Scene {
    /// Builds scene `number`; returns once the node reaches the correspondent, if the plan is healthy.
    pub(super) fn build(number: usize, change: fn(&mut Plan)) -> Result<Scene> {
        let emulator = LinkEmulator::new(1)?;
        let name = |role: &str| format!("d{number}{role}");
        let (core, vps, visited) =
            (nemo::router(&name("core"))?, nemo::host(&name("vps"))?, nemo::router(&name("ar"))?);
        let (van, node) = (Host::new(&name("van"))?, nemo::host(&name("node"))?);
        let mut plan = Plan {
            van: nemo::mobile_router_config(&van, 0, &["up0"])?,
            vps: format!(
                "\n[home_agent]\naddress = \"{HOME_AGENT}\"\nhome_prefixes = [\"2001:db8:1::/64\"]\n\
                 prefix_table = \"{}\"\n",
                vps.folder().join("mobiles.toml").display()
            ),
            rows: row(0) + &row(1),
            access: Access::Ipv6,
            healthy: true,
        };
        change(&mut plan);
        connect_provider(&emulator, &core, &vps)?;
        let access = connect_visited(&emulator, &core, &visited)?;
        let uplink = emulator.add_port(&van, "up0")?;
        let inside = [emulator.add_port(&van, "in0")?, emulator.add_port(&node, "eth0")?];
        let inside = emulator.cable(inside, LinkSpec::default())?;
        write_table(&vps, &plan.rows)?;
        let agent = Daemon::start(&vps, &plan.vps).context("the home agent")?;
        let radvd = start_access(&visited, &van, plan.access)?;
        let router = Daemon::start(&van, &plan.van).context("the mobile router")?;
        emulator.plug(uplink, access[0])?;
        if plan.access == Access::Ipv4 {
            van.ip(&["address add 192.168.8.2/24 dev up0"])?;
            let route = || van.ip(&["route replace default via 192.168.8.1 dev up0"]).ok();
            clock::wait_for(TIMEOUT, route).context("no IPv4 route by the uplink")?;
        }
        let (van_config, vps_config) = (plan.van, plan.vps);
        #[rustfmt::skip]
        let scene = Scene {
            router, agent, daemons: Vec::new(), processes: Vec::new(), radvd, emulator, uplink, access, inside, van, vps,
            core, visited, node, guests: Vec::new(), van_config, vps_config, number, workers: Workers::default(),
        };
        if plan.healthy {
            scene.wait_until_connected()?;
        }
        Ok(scene)
    }

    /// Whether the node reaches the correspondent.
    pub(super) fn is_connected(&self) -> bool {
        let arguments = ["-6", "-n", "-c", "1", "-W", "1", &CORRESPONDENT.to_string()];
        self.node.output("ping", &arguments).is_ok()
    }

    /// Waits until it does.
    pub(super) fn wait_until_connected(&self) -> Result<()> {
        let connected = clock::wait_for(TIMEOUT, || self.is_connected().then_some(()));
        connected.with_context(|| format!("the node cannot reach the correspondent; {}", self.router.log_tail()))
    }

    /// A host beside the others.
    pub(super) fn guest(&mut self, name: &str) -> Result<Host> {
        let host = nemo::host(&format!("d{}{name}", self.number))?;
        self.guests.push(host.clone());
        Ok(host)
    }

    /// Restarts the van's daemon with its configuration changed.
    pub(super) fn restart_van(&mut self, change: impl Fn(&str) -> String) -> Result<()> {
        self.router.stop()?;
        self.router = Daemon::start(&self.van, &change(&self.van_config))?;
        Ok(())
    }

    /// Restarts the home agent's daemon with its configuration changed.
    pub(super) fn restart_vps(&mut self, change: impl Fn(&str) -> String) -> Result<()> {
        self.agent.stop()?;
        self.agent = Daemon::start(&self.vps, &change(&self.vps_config))?;
        Ok(())
    }

    /// The same, with the journal in this folder.
    pub(super) fn restart_vps_with_journal(&mut self, folder: &Path) -> Result<()> {
        self.agent.stop()?;
        self.agent = Daemon::start_with_journal(&self.vps, &self.vps_config, folder)?;
        Ok(())
    }

    /// Replaces a part of a configuration file; the daemon keeps what it has read.
    pub(super) fn edit(&self, host: &Host, part: &str, by: &str) -> Result<()> {
        let file = host.folder().join("roam6.toml");
        let text = fs::read_to_string(&file)?;
        ensure!(text.contains(part), "{part} is not in {text}");
        Ok(fs::write(file, text.replace(part, by))?)
    }

    /// Writes the prefix table, which a running home agent reads.
    pub(super) fn write_table(&self, rows: &str) -> Result<()> {
        write_table(&self.vps, rows)
    }

    /// Adds a table of nftables with one chain.
    pub(super) fn filter(&self, host: &Host, hook: &str, rules: &str) -> Result<()> {
        let table = format!("table inet wall {{ chain pass {{ type filter hook {hook}; {rules} }}; }}");
        host.output("nft", &[&table]).map(drop)
    }

    /// Another program switches forwarding off again and again.
    pub(super) fn keep_forwarding_off(&mut self, host: &Host) -> Result<()> {
        let text = "while sleep 0.1; do echo 0 > /proc/sys/net/ipv6/conf/all/forwarding; done";
        self.processes.push(Process(host.command("sh").args(["-c", text]).spawn()?));
        Ok(())
    }

    /// Another van in the same visited network, with the identity of vehicle `identity`; returns once it is bound.
    pub(super) fn add_van(&mut self, identity: u8) -> Result<()> {
        let host = self.guest("van2")?;
        let port = self.emulator.add_port(&host, "up0")?;
        let daemon = Daemon::start(&host, &nemo::mobile_router_config(&host, identity, &["up0"])?)?;
        self.emulator.plug(port, self.access[0])?;
        let is_bound = |report: &Report| matches!(report, Report::Nemo(NemoReport::Bound { .. }));
        daemon.events.wait_for(0, TIMEOUT, is_bound).context("the other van is not bound")?;
        self.daemons.push(daemon);
        Ok(())
    }

    /// The visited network answers all connections to port 80 by itself, and forwards nothing.
    pub(super) fn hold_by_portal(&mut self) -> Result<()> {
        let rules = "table ip6 portal { chain pre { type nat hook prerouting priority -100; iifname \"lan0\" tcp dport 80 \
                     redirect to :80; }; chain pass { type filter hook forward priority 0; drop; }; }";
        self.visited.output("nft", &[rules])?;
        let listener = self.visited.in_namespace(|| TcpListener::bind("[::]:80"))??;
        listener.set_nonblocking(true)?;
        let serve = move |stop: &std::sync::atomic::AtomicBool| {
            while !stop.load(Ordering::Relaxed) {
                if let Ok((mut client, _)) = listener.accept() {
                    let answer = b"HTTP/1.1 302 Found\r\nLocation: http://portal.example/\r\nContent-Length: 0\r\n\r\n";
                    std::io::Write::write_all(&mut client, answer).ok();
                }
                sleep(Duration::from_millis(20));
            }
        };
        Ok(self.workers.spawn("portal", serve)?)
    }

    /// Runs the doctor at the van, then at the home agent.
    pub(super) fn examine(&self) -> Result<[Verdict; 2]> {
        Ok([examine(&self.van, &["--target", &CORRESPONDENT.to_string()])?, examine(&self.vps, &[])?])
    }
}

/// Runs `roam6 doctor` at a host.
fn examine(host: &Host, more: &[&str]) -> Result<Verdict> {
    let begun = clock::now();
    let mut command = host.command(crate::bed::daemon::binary()?);
    command.args(["doctor", "--json", "--config"]).arg(host.folder().join("roam6.toml")).args(more);
    // Its exit status is 1 if it finds a fault.
    let output = command.output()?;
    let seconds = round(begun.elapsed().as_secs_f64());
    let error = || format!("the doctor at {}: {}", host.name(), String::from_utf8_lossy(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).with_context(error)?;
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let checks = found.get("checks").and_then(Value::as_array).cloned().unwrap_or_default();
    let of_level =
        |level: &str| checks.iter().filter(|check| text(check, "level") == level).cloned().collect::<Vec<_>>();
    let (faults, warnings, unknown) = (of_level("fault"), of_level("warning"), of_level("unknown"));
    let bad = faults.iter().chain(&warnings).chain(&unknown);
    Ok(Verdict {
        fault: found.get("first").and_then(Value::as_str).map(str::to_owned),
        is_healthy: faults.is_empty() && warnings.is_empty() && unknown.is_empty(),
        text: bad.map(|check| format!("{}: {}", text(check, "id"), text(check, "text"))).collect::<Vec<_>>().join("; "),
        warnings: warnings.iter().map(|check| text(check, "id")).collect(),
        seconds,
    })
}

/// The row of a vehicle in a prefix table.
pub(super) fn row(number: u8) -> String {
    nemo::prefix_table_row(number).replace("home_agent.mobile", "mobile")
}

fn write_table(vps: &Host, rows: &str) -> Result<()> {
    let file = vps.folder().join("mobiles.toml");
    let written = vps.folder().join("mobiles.new");
    fs::write(&written, rows)?;
    fs::set_permissions(&written, Permissions::from_mode(0o600))?;
    Ok(fs::rename(written, file)?)
}

fn connect_provider(emulator: &LinkEmulator, core: &Host, vps: &Host) -> Result<()> {
    core.set_sysctl("ipv4/ip_forward", "1")?;
    let ports = [emulator.add_port(core, "vps0")?, emulator.add_port(vps, "net0")?];
    emulator.cable(ports, LinkSpec::default())?;
    let mut lines = vec![
        "address add 2001:db8:f0::1/64 dev vps0".to_owned(),
        "address add 10.9.0.1/24 dev vps0".to_owned(),
        format!("address add {CORRESPONDENT}/128 dev lo"),
        "route add 203.0.113.1/32 via 10.9.0.2".to_owned(),
        "route add 2001:db8:1::/64 via 2001:db8:f0::2".to_owned(),
    ];
    lines.extend([0, 1].map(|number| format!("route add {}/56 via 2001:db8:f0::2", mobile_network(number))));
    core.ip(&lines.iter().map(String::as_str).collect::<Vec<_>>())?;
    vps.ip(&[
        "address add 2001:db8:f0::2/64 dev net0",
        "address add 10.9.0.2/24 dev net0",
        &format!("address add {HOME_AGENT}/128 dev lo"),
        "address add 203.0.113.1/32 dev lo",
        "route add default via 2001:db8:f0::1",
        "route add default via 10.9.0.1",
    ])
}

fn connect_visited(emulator: &LinkEmulator, core: &Host, visited: &Host) -> Result<[Segment; 2]> {
    visited.set_sysctl("ipv4/ip_forward", "1")?;
    let ports = [emulator.add_port(core, "ar0")?, emulator.add_port(visited, "net0")?];
    emulator.cable(ports, LinkSpec::default())?;
    core.ip(&["address add 2001:db8:f1::1/64 dev ar0", "address add 10.8.0.1/24 dev ar0"])?;
    core.ip(&["route add 192.168.8.0/24 via 10.8.0.2"])?;
    visited.ip(&[
        "address add 2001:db8:f1::2/64 dev net0",
        "address add 10.8.0.2/24 dev net0",
        "route add default via 2001:db8:f1::1",
        "route add default via 10.8.0.1",
    ])?;
    let mut access = [emulator.add_link(LinkSpec::default()), emulator.add_link(LinkSpec::default())];
    for (number, (link, prefix)) in access.iter_mut().zip(ACCESS_PREFIXES).enumerate() {
        let name = format!("lan{number}");
        emulator.plug(emulator.add_port(visited, &name)?, *link)?;
        core.ip(&[&format!("route add {prefix}/64 via 2001:db8:f1::2")])?;
        visited.ip(&[&format!("address add {prefix}1/64 dev {name}")])?;
    }
    Ok(access)
}

/// Starts what the visited network offers.
fn start_access(visited: &Host, van: &Host, access: Access) -> Result<Vec<Process>> {
    let body = |prefix: &str| match access {
        Access::Ipv6 => format!("prefix {prefix}/64 {{ AdvOnLink on; AdvAutonomous on; }};"),
        Access::Managed => format!("AdvManagedFlag on; prefix {prefix}/64 {{ AdvOnLink on; AdvAutonomous off; }};"),
        Access::WithoutPrefix | Access::Ipv4 => String::new(),
    };
    if access == Access::Ipv4 {
        visited.ip(&["address add 192.168.8.1/24 dev lan0"])?;
        return van.set_sysctl("ipv6/conf/up0/accept_ra", "0").map(|()| Vec::new());
    }
    let links = ["lan0", "lan1"].into_iter().zip(ACCESS_PREFIXES);
    links.map(|(link, prefix)| advertise_as(visited, link, &body(prefix))).collect()
}
