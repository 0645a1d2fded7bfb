//! The configuration file: parsed, checked as a whole, and converted to the settings of the engines.
//! Each role's table has a file here; a new role adds one, and a line in [`File`] and [`Config`].

mod announce;
mod check;
pub(crate) mod data_plan;
pub(crate) mod duration;
mod encrypt;
pub(crate) mod fleet;
mod flow;
pub(crate) mod geo;
#[cfg(feature = "geo-security")]
mod geo_revocation;
mod geo_security;
#[cfg(feature = "geo-security")]
pub(crate) mod geo_signed_list;
#[cfg(feature = "geo-security")]
pub(crate) mod geo_tickets;
#[cfg(feature = "geo-security")]
mod geo_trust_list;
pub(crate) mod home_agent;
pub(crate) mod ipsec;
pub(crate) mod key;
mod mnn;
mod mnpp;
pub(crate) mod mobile_router;
pub(crate) mod prefix_table;
mod shim;
pub(crate) mod source;
mod spanned;
pub(crate) mod spi;
#[cfg(test)]
mod tests;
pub(crate) mod toml_reader;
pub(crate) mod web;

use crate::paths;
use home_agent::HomeAgent;
use roam6_linux::survey::is_volatile;
use roam6_proto::contract::config::flow::has_bonding;
use roam6_proto::contract::config::mnpp::MnppConfig;
use roam6_proto::contract::config::mptcp::PathManagerConfig;
use roam6_proto::contract::config::nemo::MobileRouterConfig;
use roam6_proto::contract::config::shim::ShimConfig;
use roam6_proto::role::Role;
use serde::{Deserialize, Serialize};
use source::{Diagnostics, Problem, Source};
use spanned::Spanned;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use toml_reader::{from_toml, plain_toml};

/// The validated configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Config {
    /// Name of this node in logs and metrics.
    pub(crate) name: String,
    /// Folder of the control socket and the lock.
    pub(crate) run_dir: PathBuf,
    /// Folder of the journal.
    pub(crate) state_dir: PathBuf,
    /// How tunnels are made.
    pub(crate) data_plane: DataPlane,
    /// Where BPF programs take packets.
    pub(crate) accel: Accel,
    /// How tunnelled packets pass a firewall.
    pub(crate) firewall: Firewall,
    /// Who may use the control socket.
    pub(crate) control: ControlSocket,
    /// Where metrics are served by HTTP, if at all.
    pub(crate) metrics: Option<SocketAddr>,
    /// The home agent, if this node is one.
    pub(crate) home_agent: Option<HomeAgent>,
    /// The mobile router, if this node is one.
    pub(crate) mobile_router: Option<MobileRouterConfig>,
    /// The GeoNetworking station, if this node is one.
    pub(crate) geo: Option<geo::Geo>,
    /// Mobile networks announced to neighbouring routers and accepted from them, if enabled.
    pub(crate) mnpp: Option<MnppConfig>,
    /// The MPTCP path manager, if enabled.
    pub(crate) mnn: Option<PathManagerConfig>,
    /// Shim6, if enabled.
    pub(crate) shim: Option<ShimConfig>,
    /// The fleet that the home agent is a member of.
    #[cfg(feature = "fleet")]
    pub(crate) fleet: Option<fleet::Fleet>,
}

/// How tunnels are made.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DataPlane {
    /// By BPF where the kernel can, else by its tunnel device.
    #[default]
    Auto,
    /// By BPF programs.
    Bpf,
    /// By the kernel's tunnel device.
    Ip6tnl,
}

/// Where BPF programs take packets.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Accel {
    /// In the kernel's traffic control.
    #[default]
    Tc,
    /// At the driver too, where it takes programs.
    Xdp,
}

/// How tunnelled packets pass a firewall.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Firewall {
    /// Through its hooks, on the kernel's forwarding path.
    #[default]
    Obey,
    /// Past it, on the fast path.
    Bypass,
}

/// Who may use the control socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ControlSocket {
    /// Group of the socket; `None`: the daemon's own.
    pub(crate) group: Option<String>,
    /// Permissions.
    pub(crate) mode: u32,
}

struct ConfigFile {
    name: Option<String>,
    run_dir: Option<PathBuf>,
    state_dir: Option<PathBuf>,
    data_plane: DataPlane,
    accel: Option<Spanned<Accel>>,
    firewall: Option<Spanned<Firewall>>,
    control: ControlTable,
    metrics: Option<MetricsTable>,
    web: Option<web::Section>,
    home_agent: Option<home_agent::Section>,
    mobile_router: Option<Spanned<mobile_router::Section>>,
    mnn: Option<mnn::Section>,
    shim: Option<shim::Section>,
    geo: Option<geo::Section>,
    mnpp: Option<Spanned<mnpp::Section>>,
    #[cfg(feature = "fleet")]
    fleet: Option<Spanned<fleet::Section>>,
    #[cfg(not(feature = "fleet"))]
    fleet: Option<Spanned<toml_reader::Anything>>,
}

plain_toml!(DataPlane, Accel, Firewall);

from_toml!(ConfigFile {
    name,
    run_dir,
    state_dir,
    data_plane = DataPlane::default(),
    accel,
    firewall,
    control = ControlTable::default(),
    metrics,
    web,
    home_agent,
    mobile_router,
    mnn,
    shim,
    geo,
    mnpp,
    fleet,
});

#[derive(Default)]
struct ControlTable {
    group: Option<String>,
    mode: Option<Spanned<String>>,
}

from_toml!(ControlTable { group, mode });

struct MetricsTable {
    listen: Spanned<SocketAddr>,
}

from_toml!(MetricsTable { listen });

/// Reads and checks a configuration file.
pub(crate) fn load(path: &Path) -> Result<Config, Vec<Problem>> {
    let source = Source::read(path).map_err(|problem| vec![problem])?;
    validate(&source)
}

impl Config {
    /// Problems of the rejected rows of the prefix table; the other rows are served.
    pub(crate) fn refused_rows(&self) -> &[Problem] {
        self.home_agent.as_ref().map_or(&[], |agent| &agent.refused)
    }

    /// Whether TCP connections are relayed.
    pub(crate) fn bonds(&self) -> bool {
        let agent = self.home_agent.as_ref().is_some_and(|agent| agent.config.bond);
        agent || self.mobile_router.as_ref().is_some_and(|router| has_bonding(&router.flows))
    }

    /// The settings of the engines, as in a recording.
    pub(crate) fn roles(&self) -> Vec<Role> {
        let home_agent = self.home_agent.as_ref().map(|agent| Role::HomeAgent(agent.config.clone()));
        let mobile_router = self.mobile_router.clone().map(|router| Role::MobileRouter(Box::new(router)));
        let mnn = self.mnn.clone().map(Role::PathManager);
        let shim = self.shim.clone().map(|shim| Role::Shim(Box::new(shim)));
        let geo = self.geo.as_ref().map(|geo| Role::Geo(Box::new(geo.config.clone())));
        let mnpp = self.mnpp.clone().map(Role::Mnpp);
        home_agent.into_iter().chain(mobile_router).chain(mnn).chain(shim).chain(geo).chain(mnpp).collect()
    }
}

fn validate(source: &Source) -> Result<Config, Vec<Problem>> {
    let file: ConfigFile = source.parse().map_err(|problem| vec![problem])?;
    let mut diagnostics = Diagnostics::new(source);
    let moves = file.home_agent.is_some() || file.mobile_router.is_some();
    let is_host = file.mnn.is_some() || file.shim.is_some();
    if !moves && !is_host && file.geo.is_none() && file.mnpp.is_none() {
        let hint =
            "add a [home_agent], [mobile_router], [mnn], [shim], [geo] or [mnpp] table; docs/config.md shows them";
        diagnostics.report(0..0, "no role", hint);
    }
    let has_udp = file.data_plane != DataPlane::Ip6tnl;
    let mobile_router =
        file.mobile_router.and_then(|section| mobile_router::validate(section, has_udp, &mut diagnostics));
    let geo = file.geo.and_then(|section| geo::validate(section, &mut diagnostics));
    if file.data_plane == DataPlane::Ip6tnl {
        check_bpf_settings(&file.accel, &file.firewall, &mut diagnostics);
    }
    #[cfg(not(feature = "fleet"))]
    if let Some(section) = &file.fleet {
        fleet::refuse(section, &mut diagnostics);
    }
    // The daemon serves no pages: `roam6 web` reads the table.
    if let Some(section) = file.web {
        web::validate(section, &mut diagnostics);
    }
    let usual = mnpp::MnppDefaults::of(mobile_router.as_ref(), geo.as_ref());
    let mut config = Config {
        name: file.name.unwrap_or_else(host_name),
        run_dir: file.run_dir.unwrap_or_else(|| PathBuf::from(paths::RUN_DIR)),
        state_dir: file.state_dir.unwrap_or_else(|| PathBuf::from(paths::STATE_DIR)),
        data_plane: file.data_plane,
        accel: file.accel.map_or(Accel::Tc, Spanned::into_inner),
        firewall: file.firewall.map_or(Firewall::Obey, Spanned::into_inner),
        control: control_socket(file.control, &mut diagnostics),
        metrics: file.metrics.map(|table| metrics_listener(&table.listen, &mut diagnostics)),
        home_agent: file.home_agent.map(|section| home_agent::validate(section, has_udp, &mut diagnostics)),
        mnpp: file.mnpp.map(|section| mnpp::validate(section, usual, &mut diagnostics)),
        mobile_router,
        geo,
        mnn: file.mnn.map(|section| mnn::validate(section, &mut diagnostics)),
        shim: file.shim.map(|section| shim::validate(section, &mut diagnostics)),
        #[cfg(feature = "fleet")]
        fleet: None,
    };
    #[cfg(feature = "fleet")]
    if let Some(section) = file.fleet {
        config.fleet = fleet::validate(section, config.home_agent.as_mut(), &config.name, &mut diagnostics);
    }
    check_methods(&config, &mut diagnostics);
    // Keys that a restart of the host loses would lock the mobile routers out.
    let is_kept = !is_volatile(&config.state_dir);
    config.home_agent.iter_mut().for_each(|agent| agent.config.key_exchange = is_kept);
    config.mobile_router.iter_mut().for_each(|router| router.key_exchange = is_kept);
    diagnostics.finish(config)
}

/// The two roles of a host encrypt alike, and the members of a fleet by WireGuard: a packet may reach any of them, and the keys of ESP
/// are those of one.
fn check_methods(config: &Config, diagnostics: &mut Diagnostics<'_>) {
    let agent = config.home_agent.as_ref().and_then(|agent| agent.config.encryption.as_deref());
    let router = config.mobile_router.as_ref().and_then(|router| router.encryption.as_ref());
    if agent.zip(router).is_some_and(|(agent, router)| agent.method != router.method) {
        let hint = "write \"esp\" in both tables, or in none";
        diagnostics.report(0..0, "a host encrypts by WireGuard or by ESP, not by both", hint);
    }
    #[cfg(feature = "fleet")]
    if config.fleet.is_some() && encrypt::is_esp(agent) {
        let hint = "write encrypt = true or \"required\" in [home_agent]";
        diagnostics.report(0..0, "members of a fleet do not encrypt by ESP", hint);
    }
}

/// Reports settings that need BPF programs.
fn check_bpf_settings(
    accel: &Option<Spanned<Accel>>,
    firewall: &Option<Spanned<Firewall>>,
    diagnostics: &mut Diagnostics<'_>,
) {
    if let Some(accel) = accel.as_ref().filter(|accel| ***accel == Accel::Xdp) {
        let hint = "write data_plane = \"bpf\", or leave accel out";
        diagnostics.report(accel.span(), "the kernel's tunnel device has no XDP programs", hint);
    }
    if let Some(firewall) = firewall.as_ref().filter(|firewall| ***firewall == Firewall::Bypass) {
        let hint = "write data_plane = \"bpf\", or leave firewall out";
        diagnostics.report(firewall.span(), "packets of the kernel's tunnel device cannot bypass a firewall", hint);
    }
}

fn control_socket(table: ControlTable, diagnostics: &mut Diagnostics<'_>) -> ControlSocket {
    let mode = table.mode.as_ref().map(|mode| (u32::from_str_radix(mode, 8), mode.span()));
    let mode = match mode {
        None => 0o660,
        Some((Ok(mode), _)) if mode <= 0o777 => mode,
        Some((_, span)) => {
            diagnostics.report(span, "not permissions of a file", "write them in octal, as mode = \"0660\"");
            0
        }
    };
    ControlSocket { group: table.group, mode }
}

/// Metrics are served without authentication, so only on the loopback.
fn metrics_listener(address: &Spanned<SocketAddr>, diagnostics: &mut Diagnostics<'_>) -> SocketAddr {
    if !address.ip().is_loopback() {
        let what = format!("{} can be reached from other machines", **address);
        let hint = "listen on 127.0.0.1 or [::1], and let an agent or proxy carry metrics out";
        diagnostics.report(address.span(), what, hint);
    }
    **address
}

fn host_name() -> String {
    let name = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    name.unwrap_or_else(|| "roam6".to_owned())
}
