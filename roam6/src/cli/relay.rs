//! `roam6 relay`: the process that relays TCP connections; and `roam6 show flows`.

use super::output::{print, rendered};
use crate::config::{self, Config};
use crate::daemon::start::seed;
use crate::exit::Failure;
use crate::render::flows;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use roam6_linux::mptcp::diag;
use roam6_linux::relay::{LOCK_FILE, RelayOptions, RelayService, RelaySide, RelayState, STATE_SOCKET};
use roam6_proto::contract::config::flow::has_bonding;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// How long the relay may take to answer.
const STATE_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs the relay of this configuration until SIGTERM.
///
/// # Errors
/// The configuration has none, another one runs, or the kernel refuses what it needs.
pub(crate) fn run(file: &Path) -> Result<ExitCode, Failure> {
    let config = config::load(file).map_err(Failure::Config)?;
    let options = options_of(&config).filter(|_| config.bonds()).ok_or_else(|| {
        Failure::Other(
            "no bond = true in [home_agent], and no flow with uplink = \"all\" in [mobile_router]".to_owned(),
        )
    })?;
    let _lock = lock(&config.run_dir.join(LOCK_FILE))?;
    // Each connection has two descriptors.
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
    let [a, b, c, d, e, f, g, h, ..] = seed()?;
    let instance = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
    let file = file.to_owned();
    let reload = move || {
        let config = config::load(&file).map_err(|_| format!("{} has errors", file.display()))?;
        options_of(&config).ok_or_else(|| format!("{} has no role that relays", file.display()))
    };
    let mut service = RelayService::open(options, instance, Box::new(reload), |text| eprintln!("roam6 relay: {text}"))?;
    service.run()?;
    Ok(ExitCode::SUCCESS)
}

/// The settings; a host that is both is a mobile router here. It stays one if a reload removes the last rule.
fn options_of(config: &Config) -> Option<RelayOptions> {
    let run_dir = config.run_dir.clone();
    if let Some(router) =
        config.mobile_router.as_ref().filter(|router| has_bonding(&router.flows) || config.home_agent.is_none())
    {
        let side = RelaySide::MobileRouter {
            home_address: router.home_address.0,
            home_agents: router.home_agents.clone(),
            prefixes: router.prefixes.clone(),
            flows: router.flows.clone(),
            encrypted: router.encryption.is_some(),
        };
        return Some(RelayOptions { run_dir, side, early: router.early });
    }
    let agent = config.home_agent.as_ref().filter(|agent| agent.config.bond)?;
    let side = RelaySide::HomeAgent { address: agent.config.address };
    Some(RelayOptions { run_dir, side, early: false })
}

/// Locks the file, and writes the number of this process into it.
fn lock(path: &Path) -> Result<Flock<File>, Failure> {
    let what = |error: &dyn std::fmt::Display| Failure::Other(format!("{}: {error}", path.display()));
    let file = File::options().create(true).truncate(false).write(true).read(true).open(path);
    let file = file.map_err(|error| what(&error))?;
    let mut file = Flock::lock(file, FlockArg::LockExclusiveNonblock)
        .map_err(|_| what(&"another relay runs; the daemon starts it by itself"))?;
    file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())).map_err(|error| what(&error))?;
    Ok(file)
}

/// `roam6 show flows`: the connections from the relay, their uplinks from the kernel.
///
/// # Errors
/// No relay runs, or it does not answer.
pub(crate) fn show_flows(json: bool, control_socket: &Path) -> Result<ExitCode, Failure> {
    let state = RelayState::read(&control_socket.with_file_name(STATE_SOCKET), STATE_TIMEOUT)?;
    let why = "no relay runs here; bond = true in [home_agent], or a flow with uplink = \"all\", starts one";
    let state = state.ok_or_else(|| Failure::NoDaemon(why.to_owned()))?;
    let kernel = diag::connections()?;
    let shown = flows::of(&state, &kernel);
    Ok(print(&rendered(json, &shown, || flows::table(&shown))))
}
