//! Collects the facts: the configuration, the daemon's state, the host, and the answers to probes.

use super::facts::{DaemonAbsence, Facts, HostFacts, Probes, is_bound, own_bindings};
use crate::config::{self, Config};
use crate::control::NodeState;
use crate::control::client::overview;
use crate::exit::Failure;
use crate::paths::{self, RUN_DIR};
use nix::unistd::{AccessFlags, Uid, access};
use roam6_linux::probe::{self, Answer, EchoRequest, Interception};
use roam6_linux::survey::{self, Interface, Route};
use roam6_proto::contract::config::nemo::{HomeAgentConfig, MobileRouterConfig};
use roam6_proto::contract::view::LinkRole;
use roam6_wire::Prefix;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::net::Ipv6Addr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

/// How often, and at which interval, the daemon is asked again while it registers.
const SETTLE_TRIES: usize = 12;
const START_TRIES: usize = 4;
const SETTLE_INTERVAL: Duration = Duration::from_millis(500);
/// Most home agents, and uplinks, that are probed.
const MAX_AGENTS: usize = 4;
const MAX_UPLINKS: usize = 8;
/// Most prefixes of a home agent that are probed.
const MAX_PREFIXES: usize = 3;
/// An address that no host has: of the discard-only prefix (RFC 6666).
const DISCARDED: Ipv6Addr = Ipv6Addr::new(0x100, 0, 0, 0, 0, 0, 0, 1);

/// What is examined, and how.
pub(crate) struct Scope {
    /// The configuration file.
    pub(crate) config: PathBuf,
    /// The daemon's run directory, if not that of the configuration.
    pub(crate) run_dir: Option<PathBuf>,
    /// Whether no probes are sent.
    pub(crate) quick: bool,
    /// An address beyond the home agent.
    pub(crate) target: Option<Ipv6Addr>,
}

/// Collects the facts; takes up to twelve seconds.
pub(crate) fn gather(scope: &Scope) -> Facts {
    let file_changed_unix = fs::metadata(&scope.config).ok().and_then(|meta| u64::try_from(meta.mtime()).ok());
    let config = config::load(&scope.config).map_err(|problems| {
        if file_changed_unix.is_none() {
            let cure =
                "roam6 setup makes a home agent of this host, roam6 join a mobile router; or name a file with --config";
            return vec![(format!("there is no {}", scope.config.display()), cure.to_owned())];
        }
        problems.iter().map(|problem| (problem.without_hint(), problem.hint().to_owned())).collect()
    });
    let run_dir = match (&scope.run_dir, &config) {
        (Some(folder), _) => folder.clone(),
        (None, Ok(config)) => config.run_dir.clone(),
        (None, Err(_)) => PathBuf::from(RUN_DIR),
    };
    let daemon = settled(&paths::control_socket(&run_dir)).map_err(|why| explain_absence(why, &run_dir, &scope.config));
    let host = config.as_ref().map(survey).unwrap_or_default();
    let probes = match (&config, &daemon) {
        (Ok(config), Ok(state)) if !scope.quick && Uid::effective().is_root() => {
            Some(probe_all(scope, config, state, &host, &paths::control_socket(&run_dir)))
        }
        _ => None,
    };
    Facts { file: scope.config.display().to_string(), config, file_changed_unix, daemon, host, probes }
}

/// The daemon's state, once it is bound or knows why it is not.
fn settled(socket: &Path) -> Result<NodeState, String> {
    let mut state = started(socket)?;
    for _ in 0..SETTLE_TRIES {
        let is_router = state.view.links.iter().any(|link| link.role == LinkRole::Uplink);
        if !is_router || is_bound(&state) || own_bindings(&state).any(|binding| binding.fault.is_some()) {
            break;
        }
        thread::sleep(SETTLE_INTERVAL);
        state = self::state(socket)?;
    }
    Ok(state)
}

/// The daemon's state; a daemon that has just been started is waited for.
fn started(socket: &Path) -> Result<NodeState, String> {
    let mut found = state(socket);
    for _ in 0..START_TRIES {
        if found.is_ok() || daemons().is_empty() {
            break;
        }
        thread::sleep(SETTLE_INTERVAL);
        found = state(socket);
    }
    found
}

fn state(socket: &Path) -> Result<NodeState, String> {
    overview(socket).map_err(|failure| match failure {
        Failure::NoDaemon(why) | Failure::Usage(why) | Failure::Other(why) => why,
        Failure::Config(_) => String::new(),
    })
}

fn explain_absence(why: String, run_dir: &Path, config: &Path) -> DaemonAbsence {
    let is_denied = why.contains("ermission denied");
    let service = (run_dir == Path::new(RUN_DIR)).then(service_state).flatten();
    let (own, others): (Vec<_>, Vec<_>) =
        daemons().into_iter().partition(|(_, names)| names.iter().any(|name| Path::new(name) == config));
    DaemonAbsence {
        why,
        is_denied,
        service,
        starting: own.first().map(|(process, _)| *process),
        others: others.into_iter().map(|(process, _)| process).collect(),
        lacks_ipv6: !Path::new("/proc/net/if_inet6").exists(),
    }
}

/// What systemd says of the service, where systemd runs.
fn service_state() -> Option<String> {
    Path::new("/run/systemd/system").exists().then_some(())?;
    let arguments = ["show", "roam6", "--property=ActiveState,Result,ExecMainStatus"];
    let output = Command::new("systemctl").args(arguments).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().to_owned();
    let (state, result, status) = (value("ActiveState="), value("Result="), value("ExecMainStatus="));
    Some(if result == "exit-code" { format!("{state}, exit status {status}") } else { state })
}

/// The processes `roam6 run` of this network namespace, with their arguments.
fn daemons() -> Vec<(u32, Vec<OsString>)> {
    let namespace = |process: &str| fs::read_link(format!("/proc/{process}/ns/net")).ok();
    let own = namespace("self");
    let read = |process: &str, file: &str| fs::read(format!("/proc/{process}/{file}")).unwrap_or_default();
    let daemon = |process: String| {
        let arguments = read(&process, "cmdline");
        let arguments: Vec<OsString> =
            arguments.split(|octet| *octet == 0).map(|argument| OsStr::from_bytes(argument).to_owned()).collect();
        let runs = arguments.get(1).is_some_and(|command| command == "run") && read(&process, "comm") == b"roam6\n";
        (runs && namespace(&process) == own).then_some((process.parse().ok()?, arguments))
    };
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(|entry| daemon(entry.file_name().into_string().ok()?)).collect()
}

fn survey(config: &Config) -> HostFacts {
    let interfaces = survey::interfaces().unwrap_or_default();
    let router = config.mobile_router.as_ref();
    let index = |name: &str| interfaces.iter().find(|one| one.name == name).map(|one| one.index);
    let ingress = router.iter().flat_map(|router| router.ingress.iter().filter_map(|one| index(&one.interface)));
    let neighbours = ingress.flat_map(|index| survey::neighbours(index).unwrap_or_default()).collect();
    let programs = survey::managers();
    let uplinks = router.iter().flat_map(|router| router.uplinks.iter().map(|uplink| uplink.interface.clone()));
    let managers = uplinks.filter_map(|name| {
        let index = index(&name)?;
        let manager = programs.iter().find(|manager| manager.manages(index))?;
        Some((name, manager.to_string()))
    });
    let state_space = config.home_agent.is_some().then(|| {
        access(&config.state_dir, AccessFlags::W_OK).map_err(|error| error.desc().to_owned())?;
        survey::free_space(&config.state_dir).map_err(|error| error.to_string())
    });
    HostFacts {
        managers: managers.collect(),
        neighbours,
        state_space,
        addresses: survey::addresses().unwrap_or_default(),
        routes: survey::routes().unwrap_or_default(),
        chains: survey::base_chains().unwrap_or_default(),
        forwards: survey::sysctl("net.ipv6.conf.all.forwarding").is_none_or(|value| value != "0"),
        radio_blocked: survey::is_radio_blocked(),
        has_ip6_tunnel: survey::kernel_features().ip6_tunnel,
        clock: Some(survey::clock_state()),
        interfaces,
    }
}

fn probe_all(scope: &Scope, config: &Config, state: &NodeState, host: &HostFacts, socket: &Path) -> Probes {
    let mut probes = Probes::default();
    if let Some(router) = &config.mobile_router {
        if is_bound(state) {
            probe_tunnel(scope, router, state, socket, &mut probes);
        }
        if !probes.inner.as_ref().is_some_and(Answer::is_reply) {
            probe_agents(router, state, host, &mut probes);
        }
    }
    if let Some(agent) = &config.home_agent {
        probe_as_agent(&agent.config, state, host, &mut probes);
    }
    probes
}

/// Asks all home agents by all uplinks at once.
fn probe_agents(router: &MobileRouterConfig, state: &NodeState, host: &HostFacts, probes: &mut Probes) {
    let uplinks = state.view.links.iter().filter(|link| link.role == LinkRole::Uplink).take(MAX_UPLINKS);
    let uplinks: Vec<(&Interface, Vec<Ipv6Addr>)> = uplinks
        .filter_map(|link| {
            let interface = host.interface(&link.name).filter(|interface| interface.carrier)?;
            Some((interface, sources(host, interface.index, &link.addresses)))
        })
        .collect();
    let known = own_bindings(state).map(|binding| binding.home_agent).filter(|agent| !agent.is_unspecified());
    let mut agents: Vec<Ipv6Addr> = router.home_agents.iter().copied().chain(known).take(MAX_AGENTS).collect();
    agents.sort_unstable();
    agents.dedup();
    let ipv4 = router.home_agents_ipv4.iter().map(|address| address.to_ipv6_mapped());
    let targets: Vec<Ipv6Addr> = agents.into_iter().chain(ipv4.take(MAX_AGENTS)).collect();
    let is_ipv4 = |address: &Ipv6Addr| address.to_ipv4_mapped().is_some();
    thread::scope(|scope| {
        let (mut echoes, mut headers, mut portals) = (Vec::new(), Vec::new(), Vec::new());
        for (interface, sources) in &uplinks {
            let (name, index) = (&interface.name, interface.index);
            for target in &targets {
                let Some(source) = sources.iter().copied().find(|source| is_ipv4(source) == is_ipv4(target)) else {
                    continue;
                };
                let request = EchoRequest { interface: Some(index), source: Some(source), ..EchoRequest::to(*target) };
                echoes.push((name, *target, scope.spawn(move || probe::echo(&request))));
                if !is_ipv4(target) {
                    let target = *target;
                    headers.push((name, target, scope.spawn(move || probe::mobility(index, source, target, None))));
                }
            }
            if let Some(source) = sources.last().copied() {
                portals.push((name, scope.spawn(move || probe::http(index, source))));
            }
        }
        let ended = |(name, to, task): (&String, Ipv6Addr, thread::ScopedJoinHandle<'_, Answer>)| {
            Some((name.clone(), to, task.join().ok()?))
        };
        probes.echoes = echoes.into_iter().filter_map(ended).collect();
        probes.mobility = headers.into_iter().filter_map(ended).collect();
        probes.portals = portals
            .into_iter()
            .filter_map(|(name, task)| match task.join() {
                Ok(Interception::Accepted(url)) => Some((name.clone(), url)),
                _ => None,
            })
            .collect();
    });
}

/// Sources of probes by an uplink: what the daemon uses, and other addresses of the host, IPv4 last.
fn sources(host: &HostFacts, index: u32, used: &[Ipv6Addr]) -> Vec<Ipv6Addr> {
    let own = host.addresses.iter().filter(|held| held.interface == index).map(|held| held.address);
    let own = own.filter(|address| !address.is_unicast_link_local());
    let (mut ipv6, ipv4): (Vec<_>, Vec<_>) =
        used.iter().copied().chain(own).partition(|address| address.to_ipv4_mapped().is_none());
    ipv6.extend(ipv4);
    ipv6
}

/// Sends through the tunnel: to the home agent, with few and many octets, and beyond.
fn probe_tunnel(scope: &Scope, router: &MobileRouterConfig, state: &NodeState, socket: &Path, probes: &mut Probes) {
    let Some(agent) = own_bindings(state).find(|row| row.care_of.is_some()).map(|row| row.home_agent) else { return };
    let home = router.home_address.0;
    let inner = EchoRequest { source: Some(home), ..EchoRequest::to(agent) };
    let mut answer = probe::echo(&inner);
    if answer == Answer::Silence {
        // A path may have died a moment ago; the daemon soon takes another.
        thread::sleep(SETTLE_INTERVAL);
        answer = probe::echo(&inner);
    }
    if answer == Answer::Silence {
        let one_hop = EchoRequest { hop_limit: Some(1), source: Some(home), ..EchoRequest::to(DISCARDED) };
        probes.inner_one_hop = Some(probe::echo(&one_hop));
    }
    let works = answer.is_reply();
    probes.inner = Some(answer);
    if !works {
        return;
    }
    let now = self::state(socket).unwrap_or_default();
    let mtu = now.view.tunnels.iter().filter(|path| path.weight > 0).map(|path| path.mtu).min();
    let from = router
        .ingress
        .iter()
        .find_map(|ingress| ingress.prefix.with_identifier(ingress.identifier.unwrap_or(1)))
        .unwrap_or(home);
    let resolvers = router.ingress.iter().flat_map(|ingress| ingress.dns.iter().flatten().copied());
    let mut resolvers: Vec<Ipv6Addr> = resolvers.collect();
    resolvers.dedup();
    thread::scope(|tasks| {
        let full = mtu
            .filter(|mtu| *mtu > 1280)
            .map(|mtu| (mtu, tasks.spawn(move || probe::echo(&EchoRequest { size: mtu, ..inner }))));
        let beyond = scope.target.map(|target| {
            let request = EchoRequest { source: Some(from), ..EchoRequest::to(target) };
            (target, tasks.spawn(move || probe::echo(&request)))
        });
        let asked: Vec<_> =
            resolvers.iter().map(|resolver| (*resolver, tasks.spawn(move || probe::dns(from, *resolver)))).collect();
        probes.inner_full = full.and_then(|(mtu, task)| Some((mtu, task.join().ok()?)));
        probes.beyond = beyond.and_then(|(target, task)| Some((target, task.join().ok()?)));
        probes.resolvers =
            asked.into_iter().filter_map(|(resolver, task)| Some((resolver, task.join().ok()?))).collect();
    });
}

/// Asks the router of a home agent where it sends packets for prefixes that no bound mobile router has.
fn probe_as_agent(agent: &HomeAgentConfig, state: &NodeState, host: &HostFacts, probes: &mut Probes) {
    let default = |route: &&Route| route.is_default() && !route.destination.is_ipv4();
    let Some(Route { via: Some(router), interface: Some(index), .. }) = host.routes.iter().find(default).cloned()
    else {
        return;
    };
    let on_link =
        |address: &Ipv6Addr| host.addresses.iter().any(|held| held.interface == index && held.address == *address);
    let others = host.addresses.iter().filter(|held| held.interface == index).map(|held| held.address);
    let mut others = others.filter(|address| address.to_ipv4_mapped().is_none() && !address.is_unicast_link_local());
    let Some(own) = Some(agent.address).filter(on_link).or_else(|| others.next()) else { return };
    probes.own_mobility = Some(probe::mobility(index, own, DISCARDED, Some(1)));
    let gauges = &state.view.counters.gauges;
    if state.view.bindings.is_empty() && gauges.get(&"home_agent_bindings".to_owned()).is_some_and(|count| *count > 0) {
        // Too many to know which prefixes are in use.
        return;
    }
    let neighbours = survey::neighbours(index).unwrap_or_default();
    let Some(router) = neighbours.iter().find(|one| one.address == router) else { return };
    let bound: Vec<Prefix> = state.view.bindings.iter().flat_map(|row| row.prefixes.iter().copied()).collect();
    let rows = agent.prefix_table.rows.iter().flat_map(|row| row.prefixes.iter().copied());
    let idle = rows.filter(|prefix| !prefix.is_ipv4() && !bound.iter().any(|held| held.covers(*prefix)));
    let asked: Vec<Prefix> = idle.take(MAX_PREFIXES).collect();
    thread::scope(|scope| {
        let link_address = router.link_address;
        let ask = |prefix: Prefix| (prefix, scope.spawn(move || probe::hairpin(index, own, link_address, prefix)));
        let tasks: Vec<_> = asked.into_iter().map(ask).collect();
        let ended = tasks.into_iter().filter_map(|(prefix, task)| Some((prefix, task.join().ok()?.ok()?)));
        probes.hairpins = ended.collect();
    });
}
