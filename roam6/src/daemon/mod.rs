//! `roam6 run`: the event loop between the roles of this host (the node) and its kernel (the host).

mod background_task;
#[cfg(feature = "bpf")]
mod encryption;
#[cfg(feature = "fleet")]
mod fleet;
pub(crate) mod handover_meter;
mod link_names;
mod log;
mod notify;
pub(crate) mod position;
mod recorder;
#[cfg(feature = "relay")]
mod relay;
mod reload;
mod roles;
mod server;
pub(crate) mod signals;
pub(crate) mod start;
mod state_dump;
mod subflow_age;
mod table_watch;

use crate::config::Config;
use crate::config::prefix_table::MobileRouterNames;
#[cfg(feature = "bpf")]
use crate::control::path_keys::path_keys;
use crate::control::{Request, Response, WatchLine};
use crate::exit::Failure;
use crate::host_check;
use core::time::Duration;
use handover_meter::HandoverMeter;
use link_names::LinkNames;
pub(crate) use log::Level;
use log::Log;
use notify::Notify;
use position::PositionSource;
use recorder::Recorder;
use reload::{Reload, ReloadScope};
use roam6_linux::mptcp::diag;
use roam6_linux::tuning::resident_text::ProgramText;
#[cfg(feature = "bpf")]
use roam6_linux::wireguard::PublicKeys;
use roam6_linux::{FdReady, Host, HostEvent, Interest};
use roam6_proto::base::ids::ContextId;
use roam6_proto::base::vec_map::VecMap;
use roam6_proto::contract::command::{
    GeoCommand, HomeAgentCommand, LifecycleCommand, MobileRouterCommand, ShimCommand,
};
use roam6_proto::{Clock, Command, Engine, Input, Node, Outbox, Output, Report, Time};
use roam6_wire::shim6::Fork;
use server::{ClientId, Reactor, Server};
use signals::Signals;
use state_dump::{DumpFormat, StateDumps};
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::Arc;
use subflow_age::SubflowAges;
use table_watch::TableWatch;

/// Tokens of the event loop's own descriptors; those of the server follow.
const SIGNAL_TOKEN: u32 = 0;
const TABLE_TOKEN: u32 = 1;
const POSITION_TOKEN: u32 = 2;
const RELOAD_TOKEN: u32 = 3;
const DUMP_TOKEN: u32 = 4;
const SERVER_TOKEN: u32 = 5;
/// A metrics page is served from the cache for this time, because any user of this machine may request it.
const METRICS_CACHE_TIME: Duration = Duration::from_secs(1);
const READ_INTEREST: Interest = Interest { read: true, write: false };

/// Settings of the command line.
pub(crate) struct Options {
    /// The configuration file.
    pub(crate) config: PathBuf,
    /// The file to record inputs and outputs in.
    pub(crate) record: Option<PathBuf>,
    /// Lines below this level are not logged.
    pub(crate) level: Level,
    /// Keeps all kernel state on exit, so that the next start continues without interruption.
    pub(crate) keep: bool,
}

/// Runs the daemon until SIGTERM or SIGINT.
///
/// # Errors
/// The configuration is invalid, or the kernel refuses what the daemon cannot work without.
pub(crate) fn run(options: Options) -> Result<(), Failure> {
    let mut signals = Signals::open()?;
    // Stopped before the files were read: nothing has been changed yet.
    let Some((config, seed)) = start::prepare(&options.config, &mut signals)? else { return Ok(()) };
    start::preflight()?;
    let _lock = start::lock(&config.run_dir)?;
    let mut daemon = Daemon::new(options, config, seed, signals)?;
    daemon.start()?;
    while !daemon.signals.is_stop_requested() {
        daemon.run_once(None)?;
    }
    #[cfg(feature = "fleet")]
    daemon.hand_over()?;
    daemon.shut_down()
}

/// State of the event loop.
struct Daemon {
    options: Options,
    config: Config,
    host: Host,
    node: Node,
    server: Server,
    signals: Signals,
    table_watch: Option<TableWatch>,
    positions: Option<PositionSource>,
    /// The keys of encrypted paths.
    #[cfg(feature = "bpf")]
    keys: Option<PublicKeys>,
    reload: Reload,
    notify: Notify,
    events: EventSink,
    recorder: Option<Recorder>,
    dumps: StateDumps,
    metrics: Option<(Time, Vec<u8>)>,
    /// When the configuration in use was read.
    config_loaded: Time,
    /// Whether the roles have been started.
    started: bool,
    stale_removed: bool,
    /// Set once the daemon is ready.
    resident_text: Option<ProgramText>,
}

/// Destination of reports: the log, the watchers, and the counters of the host's own reports.
struct EventSink {
    log: Log,
    clock: (Time, Clock),
    counters: VecMap<String, u64>,
    ages: SubflowAges,
    names: LinkNames,
    routers: Arc<MobileRouterNames>,
    handovers: HandoverMeter,
}

impl Daemon {
    fn new(options: Options, mut config: Config, seed: [u8; 32], signals: Signals) -> Result<Daemon, Failure> {
        let control = start::control_socket(&config)?;
        let metrics = config.metrics.map(start::metrics_socket).transpose()?;
        #[cfg(feature = "bpf")]
        let keys = encryption::take_keys(&mut config)?;
        let mut host = Host::new(roles::host_options(&config))?;
        let unreplicated = if host.replicates() { None } else { roles::without_replication(&mut config) };
        host.receive_plain_esp(roles::uses_esp(&config))?;
        let deaf = config.mnn.is_some().then(|| host.monitor_subflows().err()).flatten();
        host.watch(&signals, SIGNAL_TOKEN, READ_INTEREST)?;
        let positions = config.geo.as_ref().map(|geo| PositionSource::start(&geo.position)).transpose();
        let positions = positions.map_err(|error| format!("position: {error}"))?;
        if let Some(fd) = positions.as_ref().and_then(PositionSource::fd) {
            host.watch(fd, POSITION_TOKEN, READ_INTEREST)?;
        }
        let server = Server::new(SERVER_TOKEN, control, metrics, &mut host)?;
        let roles = config.roles();
        let recorder = options.record.as_ref().map(|path| Recorder::create(path, &roles, seed)).transpose()?;
        let mut daemon = Daemon {
            events: EventSink::new(options.level),
            node: Node::from_roles(&roles, seed),
            options,
            config,
            host,
            server,
            signals,
            table_watch: None,
            positions,
            #[cfg(feature = "bpf")]
            keys,
            reload: Reload::default(),
            notify: Notify::from_environment(),
            recorder,
            dumps: StateDumps::default(),
            metrics: None,
            config_loaded: Time::ZERO,
            started: false,
            stale_removed: false,
            resident_text: None,
        };
        if let Some(why) = unreplicated {
            daemon.log(Level::Warning, why);
        }
        if let Some(why) = deaf {
            daemon.log(Level::Warning, &format!("{why}; MPTCP subflow events are not available"));
        }
        if let Some(agent) = &daemon.config.home_agent {
            daemon.log_refused_rows(agent, 0);
            daemon.events.routers = agent.names.clone();
        }
        daemon.watch_table();
        Ok(daemon)
    }

    /// Starts the roles: the clock first, then the journal of the previous run, then the current state of the kernel.
    fn start(&mut self) -> Result<(), Failure> {
        let now = self.host.now();
        let mut recall =
            Some(Input::Command(Command::Lifecycle(LifecycleCommand::RestoreJournal(self.host.take_recalled()))));
        let mut inputs = VecDeque::new();
        for wake in self.host.wait(Some(now))? {
            match wake {
                HostEvent::Input(_, Input::Tick) => {}
                HostEvent::Input(at, input) => {
                    let is_clock = matches!(input, Input::Clock(_));
                    inputs.push_back((at, input));
                    inputs.extend(recall.take_if(|_| is_clock).map(|recall| (at, recall)));
                }
                HostEvent::Report(report) => self.host_report(report),
                HostEvent::Ready(ready) => self.serve_descriptor(ready),
            }
        }
        if self.signals.is_stop_requested() {
            return Ok(());
        }
        let at = inputs.back().map_or(now, |(at, _)| *at);
        inputs.extend(recall.map(|recall| (at, recall)));
        inputs.push_back((at, Input::Command(Command::Lifecycle(LifecycleCommand::JournalRestored))));
        self.started = true;
        self.feed(inputs);
        self.feed_positions();
        self.events.ages.clear();
        self.remove_stale()?;
        for warning in host_check::warnings(&self.config) {
            self.log(Level::Warning, &warning);
        }
        #[cfg(feature = "geo-security")]
        self.warn_of_outdated_lists();
        self.log(Level::Info, &format!("{} is ready: {}", self.config.name, roles::describe(&self.config)));
        self.notify.ready();
        self.reload_outdated_table();
        #[cfg(feature = "fleet")]
        self.announce_alone();
        self.resident_text = Some(ProgramText::start(self.host.now()));
        #[cfg(feature = "relay")]
        if self.config.bonds() {
            relay::supervise(&self.config, &self.options.config)?;
        }
        Ok(())
    }

    /// Removes kernel state of a previous run once the roles no longer need it.
    fn remove_stale(&mut self) -> Result<(), Failure> {
        if !self.stale_removed && self.node.takeover_complete() {
            self.stale_removed = true;
            self.host.remove_stale()?;
        }
        Ok(())
    }

    /// One iteration: waits for events, until `until` at the latest, feeds them to the node, and executes its outputs.
    fn run_once(&mut self, until: Option<Time>) -> Result<(), Failure> {
        let at_once = self.dumps.is_collecting().then(|| self.host.now());
        let own = [at_once, self.server.deadline(), self.notify.next_watchdog, self.reload.warn_at];
        let deadlines = own.into_iter().chain([self.node.deadline(), until]);
        let wakes = self.host.wait(deadlines.flatten().min())?;
        let mut inputs = VecDeque::new();
        for wake in wakes {
            match wake {
                HostEvent::Input(at, Input::Tick) if self.node.deadline().is_none_or(|deadline| deadline > at) => {}
                HostEvent::Input(at, input) => inputs.push_back((at, input)),
                HostEvent::Report(report) => self.host_report(report),
                HostEvent::Ready(ready) => self.serve_descriptor(ready),
            }
        }
        if self.signals.take_reload() {
            self.notify.reloading();
            self.start_reload(ReloadScope::Config);
        }
        self.warn_if_slow();
        self.feed(inputs);
        self.remove_stale()?;
        self.collect_state();
        let now = self.host.now();
        self.server.expire(now, &mut self.host);
        self.notify.keep_alive(now);
        self.resident_text.iter_mut().for_each(|text| text.release_if_due(now));
        self.events.log.report_suppressed(now, self.events.unix_micros(now));
        if let Some(recorder) = &mut self.recorder {
            recorder.flush();
        }
        Ok(())
    }

    /// Stops the roles, and removes all kernel state unless `--keep` is set.
    fn shut_down(mut self) -> Result<(), Failure> {
        self.notify.stopping();
        if self.options.keep {
            self.log(Level::Info, "stopping; the kernel state is kept");
            return Ok(());
        }
        self.log(Level::Info, "stopping");
        #[cfg(feature = "relay")]
        relay::stop(&self.config);
        // The de-registrations are not waited for. Roles that have not been started send none.
        if self.started {
            self.feed([(self.host.now(), Input::Command(Command::Lifecycle(LifecycleCommand::Stop)))].into());
        }
        let cleaned = self.host.clean();
        let _ = std::fs::remove_file(crate::paths::control_socket(&self.config.run_dir));
        Ok(cleaned?)
    }

    /// Feeds inputs to the node and executes its outputs, until there are no more outcomes to feed. The outputs of a batch of
    /// inputs are executed together, so that the journal is synced to disk once.
    fn feed(&mut self, mut inputs: VecDeque<(Time, Input)>) {
        let mut out = Outbox::new();
        while !inputs.is_empty() {
            let mut wanted = Vec::new();
            for (at, input) in inputs.drain(..) {
                if let Input::Clock(clock) = &input {
                    self.events.clock = (at, *clock);
                }
                self.events.names.observe(&input);
                self.node.handle(at, &input, &mut out);
                self.record(at, &input, out.outputs());
                for output in out.drain() {
                    match output {
                        Output::Report(report) => self.events.publish(at, &report, &mut self.server, &mut self.host),
                        output => wanted.push(output),
                    }
                }
            }
            if wanted.is_empty() {
                break;
            }
            let mut reports = Vec::new();
            let outcomes = self.host.execute(wanted, |report| reports.push(report));
            reports.into_iter().for_each(|report| self.host_report(report));
            let now = self.host.now();
            inputs.extend(outcomes.into_iter().map(|outcome| (now, Input::Outcome(outcome))));
        }
    }

    /// Serves one of the event loop's own descriptors.
    fn serve_descriptor(&mut self, ready: FdReady) {
        let now = self.host.now();
        if self.server.owns(ready.token) {
            if let Some((client, request)) = self.server.ready(ready, now, &mut self.host) {
                self.handle_request(client, request, now);
            }
        } else if ready.token == TABLE_TOKEN {
            if self.table_watch.as_ref().is_some_and(TableWatch::changed) {
                self.start_reload(ReloadScope::Table);
            }
        } else if ready.token == POSITION_TOKEN {
            self.feed_positions();
        } else if ready.token == RELOAD_TOKEN {
            self.finish_reload();
        } else if ready.token == DUMP_TOKEN {
            self.take_rendered();
        } else {
            self.signals.read();
        }
    }

    fn feed_positions(&mut self) {
        let now = self.host.now();
        let fixes = self.positions.as_mut().map(PositionSource::take).unwrap_or_default();
        self.feed(fixes.into_iter().map(|fix| (now, Input::Fix(fix))).collect());
    }

    fn handle_request(&mut self, client: ClientId, request: Request, now: Time) {
        let command = match request {
            Request::Unbind(home_address) => Command::HomeAgent(HomeAgentCommand::DeleteBinding(home_address)),
            Request::Rekey if self.config.mobile_router.is_none() => {
                let response = Response::Error("this daemon is no mobile router".to_owned());
                return self.server.respond(client, &response, now, &mut self.host);
            }
            Request::Rekey => Command::MobileRouter(MobileRouterCommand::ExchangeKey),
            Request::UsePath { context: ulids, mark, path } => {
                Command::Shim(ShimCommand::SwitchPath { ulids, fork: mark.map_or(Fork::NONE, Fork), path })
            }
            Request::EndContext(ulids) => {
                Command::Shim(ShimCommand::DeleteContext(ContextId { ulids, fork: Fork::NONE }))
            }
            Request::Ask(request) => Command::Geo(GeoCommand::SendEchoRequest(*request)),
            Request::PutArea(area) => Command::Geo(GeoCommand::AddGeoDestination(area)),
            Request::DropArea(address) => Command::Geo(GeoCommand::RemoveGeoDestination(address)),
            Request::Denm(request) => Command::Geo(GeoCommand::Denm(*request)),
            Request::ChangePseudonym => Command::Geo(GeoCommand::ChangePseudonym),
            Request::LockPseudonym(span) => Command::Geo(GeoCommand::LockPseudonym(span)),
            #[cfg(feature = "fleet")]
            Request::Fleet(command) => {
                if self.config.fleet.as_ref().is_none_or(|fleet| fleet.store.is_empty()) {
                    let why = "this daemon is no member of a fleet with a store".to_owned();
                    return self.server.respond(client, &Response::Error(why), now, &mut self.host);
                }
                Command::HomeAgent(HomeAgentCommand::Fleet(command))
            }
            Request::View => return self.dump_state(client, DumpFormat::Document(None)),
            Request::Part(part) => return self.dump_state(client, DumpFormat::Document(Some(part))),
            Request::Watch => return self.dump_state(client, DumpFormat::WatchLines),
            Request::Subflows => {
                let response = match diag::connections() {
                    Ok(mut connections) => {
                        self.events.ages.fill_in(now, &mut connections);
                        Response::Subflows(Box::new(connections))
                    }
                    Err(error) => Response::Error(error.to_string()),
                };
                return self.server.respond(client, &response, now, &mut self.host);
            }
            #[cfg(feature = "bpf")]
            Request::Keys => {
                let response = path_keys(self.keys.as_ref())
                    .map_or_else(|error| Response::Error(error.to_string()), Response::Keys);
                return self.server.respond(client, &response, now, &mut self.host);
            }
            #[cfg(feature = "bpf")]
            Request::RenewKeys => {
                let response = self.renew_keys().map_or_else(Response::Error, |()| Response::Done);
                return self.server.respond(client, &response, now, &mut self.host);
            }
            Request::Metrics => match self.recent_metrics(now) {
                Some(page) => return self.deliver(client, DumpFormat::Metrics, page, now),
                None => return self.dump_state(client, DumpFormat::Metrics),
            },
        };
        self.feed([(now, Input::Command(command))].into());
        self.server.respond(client, &Response::Done, now, &mut self.host);
    }

    fn record(&mut self, at: Time, input: &Input, outputs: &[Output]) {
        if let Some(recorder) = &mut self.recorder
            && let Err(why) = recorder.record(at, input, outputs)
        {
            self.recorder = None;
            self.log(Level::Error, &why);
        }
    }

    /// Counts and publishes a report of the host, which no engine has counted.
    fn host_report(&mut self, report: Report) {
        let counter = self.events.counters.entry(report.name().to_owned()).or_default();
        *counter = counter.saturating_add(1);
        self.events.publish(self.host.now(), &report, &mut self.server, &mut self.host);
    }

    fn log(&self, level: Level, text: &str) {
        self.events.log.write(level, self.events.unix_micros(self.host.now()), &text);
    }
}

impl EventSink {
    fn new(least: Level) -> EventSink {
        let clock = (Time::ZERO, Clock { unix_micros: log::wall_clock() });
        let (ages, names) = (SubflowAges::default(), LinkNames::default());
        let (routers, handovers) = (Arc::default(), HandoverMeter::default());
        EventSink { log: Log::to_stderr(least), clock, counters: VecMap::new(), ages, names, routers, handovers }
    }

    fn unix_micros(&self, now: Time) -> u64 {
        let (at, clock) = self.clock;
        clock.unix_micros.saturating_add(now.as_micros().saturating_sub(at.as_micros()))
    }

    fn publish(&mut self, at: Time, report: &Report, server: &mut Server, reactor: &mut impl Reactor) {
        let unix_micros = self.unix_micros(at);
        let mobile_router = match report {
            Report::Nemo(report) => report.home_address().and_then(|home| Some((home, &**self.routers.get(&home)?))),
            _ => None,
        };
        self.log.report(at, unix_micros, report, &self.names, mobile_router);
        self.ages.observe(at, report);
        self.handovers.observe(at, report);
        if server.has_watchers() {
            let link_name = report.link().and_then(|link| self.names.find(link));
            let mobile_router = mobile_router.map(|(_, name)| name);
            let line = WatchLine { unix_micros, at: at.as_micros(), link_name, mobile_router, report };
            server.publish(&line.to_json(), at, reactor);
        }
    }
}

impl Reactor for Host {
    fn watch(&mut self, fd: BorrowedFd<'_>, token: u32, interest: Interest) -> Result<(), String> {
        Host::watch(self, fd, token, interest).map_err(|error| error.to_string())
    }

    fn rewatch(&mut self, fd: BorrowedFd<'_>, token: u32, interest: Interest) -> Result<(), String> {
        Host::rewatch(self, fd, token, interest).map_err(|error| error.to_string())
    }
}
