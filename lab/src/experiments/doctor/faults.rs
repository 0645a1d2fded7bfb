//! The faults: mistakes of operators, of networks and of other programs. Each is made in a scene of its own.

use super::scene::{Access, Plan, Scene, row};
use crate::bed::access_router::advertise;
use crate::bed::host::Process;
use crate::experiments::prelude::*;
use crate::topology::nemo::{HOME_AGENT, home_address, mobile_network};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

/// What the doctor shall say at one end.
#[derive(Debug, Clone, Copy)]
pub(super) enum Expected {
    /// No fault.
    NoFault,
    /// This fault first.
    Fault(&'static str),
    /// No fault, and this warning.
    Warning(&'static str),
    /// The end is broken itself by what broke the other one, or has no part in it.
    Any,
}

use Expected::{Any, Fault as Named, NoFault, Warning};

/// When the doctor is asked.
#[derive(Debug, Clone, Copy)]
pub(super) enum Asked {
    /// At once: the fault is in a file, or in a program that is not running.
    AtOnce,
    /// Five seconds after traffic has ceased.
    Ceased,
    /// Traffic continues; so many seconds later.
    After(u64),
}

use Asked::{After, AtOnce, Ceased};

/// One fault.
pub(super) struct FaultCase {
    /// Its name in the results.
    pub(super) name: &'static str,
    /// What the doctor shall say at the van.
    pub(super) van: Expected,
    /// What it shall say at the home agent.
    pub(super) vps: Expected,
    pub(super) asked: Asked,
    /// Whether a quick run has it.
    pub(super) quick: bool,
    /// What is other from the beginning.
    pub(super) plan: fn(&mut Plan),
    /// What happens.
    pub(super) make: fn(&mut Scene) -> Result<()>,
}

const CONFIG: Expected = Named("config.file");
/// A scene that is healthy before.
const HEALTHY: fn(&mut Plan) = |_| {};
/// Nothing happens later.
const NOTHING: fn(&mut Scene) -> Result<()> = |_| Ok(());

/// Makes one case; quick ones are marked by [`FaultCase::in_quick_runs`].
const fn case(
    name: &'static str,
    (van, vps): (Expected, Expected),
    asked: Asked,
    plan: fn(&mut Plan),
    make: fn(&mut Scene) -> Result<()>,
) -> FaultCase {
    FaultCase { name, van, vps, asked, quick: false, plan, make }
}

impl FaultCase {
    const fn in_quick_runs(mut self) -> FaultCase {
        self.quick = true;
        self
    }
}

/// All faults, in the order of the path of a packet.
pub(super) const ALL: &[FaultCase] = &[
    case("configuration: misspelt key", (CONFIG, NoFault), AtOnce, HEALTHY, |scene| {
        scene.edit(&scene.van, "home_agents", "home_agent")
    }),
    case("configuration: no quotes", (CONFIG, NoFault), AtOnce, HEALTHY, |scene| {
        let home = home_address(0);
        scene.edit(&scene.van, &format!("home_address = \"{home}\""), &format!("home_address = {home}"))
    })
    .in_quick_runs(),
    case("configuration: [ ] in place of [[ ]]", (CONFIG, NoFault), AtOnce, HEALTHY, |scene| {
        scene.edit(&scene.van, "[[mobile_router.ingress]]", "[mobile_router.ingress]")
    }),
    case("configuration: lifetime without a unit", (CONFIG, NoFault), AtOnce, HEALTHY, |scene| {
        scene.edit(&scene.van, "[mobile_router]\n", "[mobile_router]\nlifetime = 600\n")
    }),
    case("configuration: IPv4 address in home_agents", (CONFIG, NoFault), AtOnce, HEALTHY, |scene| {
        scene.edit(&scene.van, "home_agents = [", "home_agents = [\"203.0.113.1\", ")
    }),
    case("configuration: none", (CONFIG, NoFault), AtOnce, HEALTHY, |scene| {
        Ok(fs::remove_file(scene.van.folder().join("roam6.toml"))?)
    }),
    case("key file: none", (Named("config.key"), NoFault), AtOnce, HEALTHY, |scene| {
        Ok(fs::remove_file(scene.van.folder().join("home.key"))?)
    }),
    case("key file: readable by all users", (Named("config.key"), NoFault), AtOnce, HEALTHY, |scene| {
        let file = scene.van.folder().join("home.key");
        Ok(fs::set_permissions(file, Permissions::from_mode(0o644))?)
    })
    .in_quick_runs(),
    case("daemon stopped", (Named("daemon.running"), NoFault), AtOnce, HEALTHY, |scene| scene.router.stop())
        .in_quick_runs(),
    case("second daemon with another run_dir", (Named("daemon.running"), NoFault), AtOnce, HEALTHY, second_daemon),
    case("configuration changed, not reloaded", (Warning("daemon.fresh"), NoFault), AtOnce, HEALTHY, |scene| {
        sleep(Duration::from_secs(2));
        scene.edit(&scene.van, "[mobile_router]\n", "[mobile_router]\nlifetime = \"600s\"\n")
    }),
    case("uplink misspelt", (Named("uplink.interface"), NoFault), Ceased, misspell_uplink, NOTHING).in_quick_runs(),
    case("uplink set down", (Named("uplink.carrier"), NoFault), Ceased, HEALTHY, |scene| {
        scene.van.ip(&["link set up0 down"])
    }),
    case("uplink without a carrier", (Named("uplink.carrier"), NoFault), Ceased, HEALTHY, |scene| {
        scene.emulator.unplug(scene.uplink).map(drop)
    })
    .in_quick_runs(),
    case("no router in the visited network", (Named("uplink.router"), NoFault), Ceased, HEALTHY, |scene| {
        scene.radvd.clear();
        scene.van.ip(&["link set up0 down"])?;
        // A busy daemon may not notice a link that is back at once.
        sleep(Duration::from_secs(1));
        scene.van.ip(&["link set up0 up"])
    }),
    case(
        "router without a prefix",
        (Named("uplink.address"), NoFault),
        Ceased,
        |plan| (plan.access, plan.healthy) = (Access::WithoutPrefix, false),
        NOTHING,
    ),
    case(
        "DHCPv6 without a server",
        (Named("uplink.address"), NoFault),
        Ceased,
        |plan| (plan.access, plan.healthy) = (Access::Managed, false),
        NOTHING,
    ),
    case(
        "IPv4 alone, and no home_agents_ipv4",
        (Named("uplink.ipv4-only"), NoFault),
        Ceased,
        |plan| (plan.access, plan.healthy) = (Access::Ipv4, false),
        NOTHING,
    ),
    case("captive portal", (Named("uplink.portal"), NoFault), Ceased, HEALTHY, |scene| {
        scene.hold_by_portal()?;
        scene.restart_van(str::to_owned)
    }),
    case("home agent's host unplugged", (Named("agent.reach"), Any), Ceased, HEALTHY, |scene| {
        scene.core.ip(&["link set vps0 down"])?;
        scene.restart_van(str::to_owned)
    })
    .in_quick_runs(),
    case("address of another host in home_agents", (Named("agent.none"), NoFault), Ceased, HEALTHY, |scene| {
        scene.restart_van(|text| {
            text.replace(&format!("home_agents = [\"{HOME_AGENT}\"]"), "home_agents = [\"2001:db8:f0::1\"]")
        })
    }),
    case("home agent stopped", (Named("agent.none"), Named("daemon.running")), Ceased, HEALTHY, |scene| {
        scene.agent.stop()?;
        scene.restart_van(str::to_owned)
    })
    .in_quick_runs(),
    case("protocol 135 dropped on the way", (Named("path.135"), NoFault), Ceased, Plan::without_udp, |scene| {
        scene.filter(&scene.visited, "forward priority 0", "meta l4proto 135 drop;")?;
        scene.restart_van(str::to_owned)
    })
    .in_quick_runs(),
    case("protocol 135 prohibited on the way", (Named("path.135"), NoFault), Ceased, Plan::without_udp, |scene| {
        let rule = "meta l4proto 135 reject with icmpv6 type admin-prohibited;";
        scene.filter(&scene.visited, "forward priority 0", rule)?;
        scene.restart_van(str::to_owned)
    }),
    case("own output chain drops 135", (Named("firewall.output"), NoFault), Ceased, Plan::without_udp, |scene| {
        scene.filter(&scene.van, "output priority 0", "meta l4proto 135 drop;")?;
        scene.restart_van(str::to_owned)
    }),
    case("protocol 41 dropped on the way", (Named("path.41"), NoFault), Ceased, Plan::without_udp, |scene| {
        scene.filter(&scene.visited, "forward priority 0", "meta l4proto 41 drop;")
    })
    .in_quick_runs(),
    case("protocol 41 prohibited on the way", (Named("path.41"), NoFault), Ceased, Plan::without_udp, |scene| {
        let rule = "meta l4proto 41 reject with icmpv6 type admin-prohibited;";
        scene.filter(&scene.visited, "forward priority 0", rule)
    }),
    case("home agent drops what it receives", (Named("path.135"), Any), Ceased, Plan::without_udp, |scene| {
        let rules = "type filter hook ingress device net0 priority 0; meta l4proto { 135, 41 } drop;";
        scene.vps.output("nft", &[&format!("table netdev wall {{ chain pass {{ {rules} }}; }}")])?;
        scene.restart_van(str::to_owned)
    }),
    case("UDP 4191 dropped on the way", (Named("path.udp"), NoFault), Ceased, over_ipv4, |scene| {
        scene.filter(&scene.visited, "forward priority 0", "udp dport 4191 drop;")?;
        scene.restart_van(str::to_owned)
    }),
    case("home agent without [home_agent.ipv4]", (Named("path.udp"), NoFault), Ceased, over_missing_ipv4, NOTHING),
    case("wrong key", (Named("agent.key"), Named("agent.fault")), Ceased, HEALTHY, |scene| {
        let file = scene.van.folder().join("home.key");
        let text = fs::read_to_string(&file)?;
        fs::write(file, text.replace("key = \"00", "key = \"ff"))?;
        scene.restart_van(str::to_owned)
    })
    .in_quick_runs(),
    case("not in the prefix table", (Named("agent.row"), Warning("agent.fault")), Ceased, HEALTHY, |scene| {
        scene.write_table(&row(1))
    })
    .in_quick_runs(),
    case("empty prefix table", (Named("agent.row"), Warning("agent.rows")), Ceased, HEALTHY, |scene| {
        scene.write_table("mobile = []\n")
    }),
    case("invalid row in the prefix table", (NoFault, CONFIG), AtOnce, HEALTHY, |scene| {
        let overlapping = row(1).replace(&mobile_network(1).to_string(), &mobile_network(0).to_string());
        scene.write_table(&(row(0) + &overlapping))
    }),
    case("prefix not that of the row", (Named("agent.prefixes"), Any), Ceased, other_prefix, NOTHING),
    case("two routers with one key", (Named("agent.stolen"), Named("agent.stolen")), After(60), HEALTHY, |scene| {
        scene.add_van(0)
    }),
    case("home agent full", (Named("agent.refuses"), Named("agent.fault")), Ceased, one_binding, |scene| {
        scene.router.stop()?;
        scene.agent.stop()?;
        fs::remove_dir_all(scene.vps.folder().join("state"))?;
        scene.restart_vps(str::to_owned)?;
        scene.add_van(1)?;
        scene.restart_van(str::to_owned)
    }),
    case("journal on a full disk", (Any, Named("agent.state")), After(1), HEALTHY, full_disk),
    case("forwarding switched off at the van", (Named("forwarding"), NoFault), Ceased, HEALTHY, |scene| {
        scene.keep_forwarding_off(&scene.van.clone())
    }),
    case("forwarding switched off at the home agent", (Any, Named("forwarding")), Ceased, HEALTHY, |scene| {
        scene.keep_forwarding_off(&scene.vps.clone())
    }),
    case("policy drop at the van", (Named("firewall.forward"), NoFault), Ceased, HEALTHY, |scene| {
        scene.filter(&scene.van, "forward priority 0; policy drop", "ct state established accept;")
    })
    .in_quick_runs(),
    case("chain that rejects the rest at the van", (Named("firewall.forward"), NoFault), Ceased, HEALTHY, |scene| {
        scene.filter(
            &scene.van,
            "forward priority 0",
            "tcp dport 22 accept; counter reject with icmpx admin-prohibited;",
        )
    }),
    case("policy drop at the home agent", (Named("return"), Named("firewall.forward")), Ceased, HEALTHY, |scene| {
        scene.filter(&scene.vps, "forward priority 0; policy drop", "ct state established accept;")
    })
    .in_quick_runs(),
    case(
        "legacy ip6tables at the home agent",
        (Named("return"), Named("firewall.forward")),
        Ceased,
        HEALTHY,
        |scene| scene.vps.output("ip6tables-legacy", &["-P", "FORWARD", "DROP"]).map(drop),
    ),
    case("home agent drops pings inside", (Warning("tunnel.inner"), NoFault), After(15), HEALTHY, |scene| {
        scene.filter(&scene.vps, "input priority 0", "iifname \"nemo0\" meta l4proto ipv6-icmp drop;")
    }),
    case("prefix not routed to the home agent", (Named("return"), NoFault), Ceased, HEALTHY, |scene| {
        scene.core.ip(&[&format!("route del {}/56", mobile_network(0))])
    })
    .in_quick_runs(),
    case("prefix of another row not routed", (NoFault, Named("agent.routed")), After(2), HEALTHY, |scene| {
        scene.core.ip(&[&format!("route del {}/56", mobile_network(1))])
    }),
    case("inside interface misspelt", (Named("inside.interface"), NoFault), Ceased, misspell_ingress, NOTHING),
    case("inside interface down", (Named("inside.interface"), NoFault), Ceased, HEALTHY, |scene| {
        scene.van.ip(&["link set in0 down"])
    }),
    case("another router inside", (Warning("inside.router"), NoFault), After(12), HEALTHY, |scene| {
        let host = scene.guest("other")?;
        host.set_sysctl("ipv6/conf/all/forwarding", "1")?;
        let port = scene.emulator.add_port(&host, "eth0")?;
        scene.emulator.plug(port, scene.inside)?;
        host.ip(&["address add fd00:1::1/64 dev eth0"])?;
        scene.processes.push(advertise(&host, "eth0", "fd00:1::/64")?);
        Ok(())
    }),
    case("resolver silent", (Warning("inside.dns"), NoFault), After(3), HEALTHY, |scene| {
        scene.restart_van(|text| {
            text.replace("interface = \"in0\"\n", "interface = \"in0\"\ndns = [\"2001:db8:c::53\"]\n")
        })
    }),
    case("home agent's address on no interface", (Any, Named("agent.address")), Ceased, HEALTHY, |scene| {
        scene.vps.ip(&[&format!("address del {HOME_AGENT}/128 dev lo")])
    }),
    case("home agent without a default route", (Any, Named("agent.default-route")), Ceased, HEALTHY, |scene| {
        scene.vps.ip(&["route del default via 2001:db8:f0::1"])
    }),
    case("home prefix on-link, no home_link", (Any, Named("agent.home-link")), After(1), HEALTHY, |scene| {
        scene.vps.ip(&[
            "link add wan0 type veth peer name wan1",
            "link set wan0 up",
            "address add 2001:db8:1::2/64 dev wan0",
        ])
    }),
    case("home_link misspelt", (Any, Named("agent.link")), After(2), HEALTHY, |scene| {
        scene.restart_vps(|text| text.replace("prefix_table", "home_link = \"nett0\"\nprefix_table"))
    }),
    case(
        "[home_agent.ipv4] with the public address of a NAT",
        (NoFault, Named("agent.ipv4")),
        After(2),
        HEALTHY,
        |scene| scene.restart_vps(|text| format!("{text}\n[home_agent.ipv4]\naddress = \"198.51.100.9\"\n")),
    ),
];

fn second_daemon(scene: &mut Scene) -> Result<()> {
    scene.router.stop()?;
    let (folder, file) = (scene.van.folder(), scene.van.folder().join("other.toml"));
    let text = fs::read_to_string(folder.join("roam6.toml"))?;
    fs::write(&file, text.replace("/run\"", "/run2\"").replace("/state\"", "/state2\""))?;
    let mut command = scene.van.command(crate::bed::daemon::binary()?);
    command.args(["run", "--config"]).arg(&file).stdout(Stdio::null()).stderr(Stdio::null());
    scene.processes.push(Process(command.spawn()?));
    let socket = folder.join("run2");
    clock::wait_for(Duration::from_secs(20), || socket.join("roam6.pid").exists().then_some(())).context("no daemon")
}

fn misspell_uplink(plan: &mut Plan) {
    plan.edit_van("\"up0\"", "\"up00\"");
    plan.healthy = false;
}

fn misspell_ingress(plan: &mut Plan) {
    plan.edit_van("\"in0\"", "\"in00\"");
    plan.healthy = false;
}

fn over_ipv4(plan: &mut Plan) {
    plan.access = Access::Ipv4;
    plan.van += "home_agents_ipv4 = [\"203.0.113.1\"]\n";
    plan.vps += "\n[home_agent.ipv4]\naddress = \"203.0.113.1\"\n";
}

fn over_missing_ipv4(plan: &mut Plan) {
    plan.access = Access::Ipv4;
    plan.van += "home_agents_ipv4 = [\"203.0.113.1\"]\n";
    plan.healthy = false;
}

fn other_prefix(plan: &mut Plan) {
    let (ours, other) = (mobile_network(0).to_string(), mobile_network(7).to_string());
    plan.edit_van(&ours, &other);
    plan.healthy = false;
}

fn one_binding(plan: &mut Plan) {
    plan.vps += "max_bindings = 1\n";
}

/// The journal is in a file system of 128 kB. Updates are acknowledged until its last page is full, so the van may notice nothing.
fn full_disk(scene: &mut Scene) -> Result<()> {
    let folder = scene.vps.folder().join("small");
    fs::create_dir_all(&folder)?;
    let path = folder.display().to_string();
    crate::bed::host::run_command(std::process::Command::new("mount").args([
        "-t",
        "tmpfs",
        "-o",
        "size=128k",
        "small",
        &path,
    ]))?;
    scene.agent.stop()?;
    scene.restart_vps_with_journal(&folder)?;
    // Until there is no room left.
    ensure!(fs::write(folder.join("filler"), [0; 256 * 1024]).is_err(), "the file system is larger");
    scene.restart_van(str::to_owned)
}
