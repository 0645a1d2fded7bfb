//! A running roam6: the built binary, its configuration file, and its event stream.

use super::host::{Host, cpu_time_of};
use crate::clock;
use crate::threads::Shared;
use anyhow::{Context, Result, bail};
use nix::unistd::Pid;
use roam6_proto::Report;
use roam6_proto::contract::view::StreamEvent;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// The roam6 daemon of one host. Killed on drop.
pub(crate) struct Daemon {
    /// Its host.
    pub(crate) host: Host,
    /// The reported events.
    pub(crate) events: Events,
    /// Variables of its environment, from its next start on.
    pub(crate) environment: Vec<(&'static str, String)>,
    /// Whether its events are read. A daemon that reports thousands of registrations a second spends time on them.
    watched: bool,
    config: PathBuf,
    daemon: Option<Child>,
    watcher: Option<Child>,
}

/// Events that a daemon has reported so far; shared with the thread that reads them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Events(Shared<Vec<StreamEvent>>);

/// Resources that a daemon has used so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ResourceUsage {
    /// Resident memory, pages of the program file included, kB.
    pub(crate) resident_kb: u64,
    /// Voluntary context switches of all threads: each is followed by a wake-up.
    pub(crate) wakeups: u64,
    /// CPU time.
    pub(crate) cpu_time: Duration,
}

/// How long a daemon may take to answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long a daemon may take to exit: a member of a fleet with 100,000 bindings writes its copy of the store.
const EXIT_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the first line of the event stream may take.
const FIRST_LINE_TIMEOUT: Duration = Duration::from_secs(1);

/// The roam6 binary: beside this program, or the path in `ROAM6`.
pub(crate) fn binary() -> Result<PathBuf> {
    let path = match std::env::var_os("ROAM6") {
        Some(path) => PathBuf::from(path),
        None => std::env::current_exe()?.with_file_name("roam6"),
    };
    if !path.exists() {
        bail!("{} is missing: build it with `cargo build --release -p roam6`", path.display());
    }
    Ok(path)
}

/// Private memory (resident, anonymous) of a process, octets.
pub(crate) fn anonymous_memory_of(pid: u32) -> Result<u64> {
    Ok(status_field(&format!("/proc/{pid}/status"), "RssAnon")? * 1024)
}

/// A number in a status file of procfs.
fn status_field(path: &str, name: &str) -> Result<u64> {
    let status = fs::read_to_string(path)?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let number =
        line.and_then(|line| line.split_whitespace().next()).with_context(|| format!("no {name} in {path}"))?;
    Ok(number.parse()?)
}

impl Daemon {
    /// Writes the configuration and starts roam6 with it; returns once the daemon answers.
    pub(crate) fn start(host: &Host, config: &str) -> Result<Daemon> {
        Daemon::start_with_journal(host, config, &host.folder().join("state"))
    }

    /// [`Daemon::start`] with the journal in the directory `journal`.
    pub(crate) fn start_with_journal(host: &Host, config: &str, journal: &Path) -> Result<Daemon> {
        let folder = host.folder();
        let path = folder.join("roam6.toml");
        let header = format!(
            "name = \"{}\"\nrun_dir = \"{}\"\nstate_dir = \"{}\"\n",
            host.name(),
            folder.join("run").display(),
            journal.display()
        );
        fs::write(&path, header + config)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        let events = Events::default();
        let environment = Vec::new();
        let (host, watched) = (host.clone(), true);
        let mut daemon = Daemon { host, environment, watched, config: path, daemon: None, watcher: None, events };
        daemon.spawn()?;
        Ok(daemon)
    }

    /// No more of its events are read, after later starts either.
    pub(crate) fn unwatch(&mut self) {
        self.watched = false;
        self.kill_watcher();
    }

    fn kill_watcher(&mut self) {
        if let Some(mut watcher) = self.watcher.take() {
            watcher.kill().ok();
            watcher.wait().ok();
        }
    }

    /// Starts roam6 again after it was stopped or killed.
    pub(crate) fn spawn(&mut self) -> Result<()> {
        let log = File::options().append(true).create(true).open(self.log())?;
        let child = self
            .host
            .command(binary()?)
            .arg("run")
            .arg("--config")
            .arg(&self.config)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn();
        self.daemon = Some(child.context("cannot start roam6")?);
        let ready = clock::wait_for(TIMEOUT, || {
            let ended = self.daemon.as_mut().and_then(|child| child.try_wait().ok().flatten());
            if ended.is_some() { Some(false) } else { self.show::<Value>("links").ok().map(|_| true) }
        });
        if ready != Some(true) {
            bail!(
                "roam6 on {} does not run:\n{}",
                self.host.name(),
                fs::read_to_string(self.log()).unwrap_or_default()
            );
        }
        if !self.watched {
            return Ok(());
        }
        // The daemon disconnects a client that is a MiB of events behind: a member of a fleet that starts reports all bindings.
        let refused = format!("roam6 on {} refuses `roam6 watch`", self.host.name());
        clock::wait_for(TIMEOUT, || self.watch().ok()).context(refused)
    }

    /// Output of `roam6 ARGUMENTS` for this daemon.
    pub(crate) fn query(&self, arguments: &[&str]) -> Result<String> {
        super::host::run_command(self.client(arguments)?.stdin(Stdio::null()))
    }

    /// Output of `roam6 show PART --json`.
    pub(crate) fn show<T: DeserializeOwned>(&self, part: &str) -> Result<T> {
        Ok(serde_json::from_str(&self.query(&["show", part, "--json"])?)?)
    }

    /// Counters of events or of packets by name.
    pub(crate) fn counters(&self, kind: &str) -> Result<BTreeMap<String, u64>> {
        let mut counters: BTreeMap<String, Value> = self.show("counters")?;
        Ok(serde_json::from_value(counters.remove(kind).unwrap_or_default())?)
    }

    /// Counters of events that have grown since they were `before`, with the difference.
    pub(crate) fn counter_growth(&self, before: &BTreeMap<String, u64>) -> Result<BTreeMap<String, u64>> {
        let mut grown = self.counters("events")?;
        grown.iter_mut().for_each(|(name, count)| *count = count.saturating_sub(*before.get(name).unwrap_or(&0)));
        grown.retain(|_, count| *count > 0);
        Ok(grown)
    }

    /// The number of direct neighbours of a GeoNetworking station.
    pub(crate) fn neighbour_count(&self) -> Result<usize> {
        let stations: Vec<Value> = self.show("stations")?;
        Ok(stations.iter().filter(|station| station.get("state") == Some(&"neighbour".into())).count())
    }

    /// Starts `roam6 ARGUMENTS` for this daemon and discards its output.
    pub(crate) fn spawn_client(&self, arguments: &[&str]) -> Result<Child> {
        Ok(self.client(arguments)?.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?)
    }

    /// Its log file.
    pub(crate) fn log(&self) -> PathBuf {
        self.host.folder().join("roam6.log")
    }

    /// The last lines of its log, for error messages.
    pub(crate) fn log_tail(&self) -> String {
        const LINES: usize = 25;
        let log = fs::read_to_string(self.log()).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines.get(lines.len().saturating_sub(LINES)..).unwrap_or_default().join("\n");
        format!("the log of {}:\n{tail}\n", self.host.name())
    }

    /// Private memory (resident, anonymous), octets.
    pub(crate) fn anonymous_memory(&self) -> Result<u64> {
        anonymous_memory_of(self.pid()?)
    }

    /// Resources used so far.
    pub(crate) fn usage(&self) -> Result<ResourceUsage> {
        let id = self.pid()?;
        let resident_kb = status_field(&format!("/proc/{id}/status"), "VmRSS")?;
        let mut usage = ResourceUsage { resident_kb, wakeups: 0, cpu_time: self.cpu_time()? };
        for task in fs::read_dir(format!("/proc/{id}/task"))?.flatten() {
            let status = task.path().join("status").display().to_string();
            usage.wakeups += status_field(&status, "voluntary_ctxt_switches")?;
        }
        Ok(usage)
    }

    fn pid(&self) -> Result<u32> {
        self.daemon.as_ref().map(Child::id).context("the daemon does not run")
    }

    /// CPU time used so far, by threads that have ended too.
    pub(crate) fn cpu_time(&self) -> Result<Duration> {
        cpu_time_of(self.pid()?)
    }

    /// Kills the daemon (SIGKILL).
    pub(crate) fn kill(&mut self) {
        self.kill_watcher();
        if let Some(mut daemon) = self.daemon.take() {
            daemon.kill().ok();
            daemon.wait().ok();
        }
    }

    /// Lets the daemon read its configuration again (SIGHUP).
    pub(crate) fn reload(&self) -> Result<()> {
        let pid = Pid::from_raw(i32::try_from(self.pid()?)?);
        Ok(nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGHUP)?)
    }

    /// Terminates the daemon (SIGTERM) and waits until it has ended.
    pub(crate) fn stop(&mut self) -> Result<()> {
        let Some(mut child) = self.daemon.take() else { return Ok(()) };
        let pid = Pid::from_raw(i32::try_from(child.id())?);
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM)?;
        let ended = clock::wait_for(EXIT_TIMEOUT, || child.try_wait().ok().flatten());
        if ended.is_none() {
            child.kill().ok();
            child.wait()?;
            bail!("roam6 on {} did not exit on SIGTERM", self.host.name());
        }
        self.kill();
        Ok(())
    }

    /// Starts `roam6 watch`; returns once it has printed the present state: later lines are events.
    fn watch(&mut self) -> Result<()> {
        let mut child = self.client(&["watch", "--json"])?.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let output = child.stdout.take().context("no output")?;
        let events = self.events.clone();
        let (printed, state) = mpsc::channel();
        std::thread::Builder::new().name("watch".into()).spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                printed.send(()).ok();
                // The first lines are state, not events.
                if let Ok(event) = serde_json::from_str(&line) {
                    events.0.lock().push(event);
                }
            }
        })?;
        self.watcher = Some(child);
        match state.recv_timeout(FIRST_LINE_TIMEOUT) {
            Err(RecvTimeoutError::Disconnected) => bail!("roam6 on {} refuses `roam6 watch`", self.host.name()),
            // A slow daemon prints its state later.
            Ok(()) | Err(RecvTimeoutError::Timeout) => Ok(()),
        }
    }

    fn client(&self, arguments: &[&str]) -> Result<Command> {
        let mut command = self.host.command(binary()?);
        command.args(arguments).arg("--run-dir").arg(self.host.folder().join("run"));
        Ok(command)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Events {
    /// The first event at or after `begin` (microseconds since 1970) that satisfies `wanted`.
    pub(crate) fn first_since(&self, begin: u64, wanted: impl Fn(&Report) -> bool) -> Option<StreamEvent> {
        self.0.lock().iter().find(|event| event.unix_micros >= begin && wanted(&event.report)).cloned()
    }

    /// Waits at most `timeout` for such an event.
    pub(crate) fn wait_for(
        &self,
        begin: u64,
        timeout: Duration,
        wanted: impl Fn(&Report) -> bool,
    ) -> Option<StreamEvent> {
        clock::wait_for(timeout, || self.first_since(begin, &wanted))
    }

    /// All events from index `from` on.
    pub(crate) fn events_from(&self, from: usize) -> Vec<StreamEvent> {
        self.0.lock().get(from..).unwrap_or_default().to_vec()
    }

    /// The last `count` events.
    pub(crate) fn last_events(&self, count: usize) -> Vec<StreamEvent> {
        let events = self.0.lock();
        events.get(events.len().saturating_sub(count)..).unwrap_or_default().to_vec()
    }

    /// The result of `wanted` for the last event for which it is not `None`.
    pub(crate) fn find_last<T>(&self, wanted: impl Fn(&Report) -> Option<T>) -> Option<T> {
        self.0.lock().iter().rev().find_map(|event| wanted(&event.report))
    }
}
