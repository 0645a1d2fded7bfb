//! `roam6 run`: the event loop between the roles of this host (the node) and its kernel (the host).

mod ages;
mod errand;
mod log;
mod names;
mod notify;
pub(crate) mod position;
mod recorder;
mod reload;
mod roles;
mod server;
mod showing;
pub(crate) mod signals;
mod start;
mod table_watch;

use crate::config::{Config, source::Problem};
use crate::control::{Answer, Line, Request, What};
use crate::host_check;
use ages::Ages;
use core::time::Duration;
pub(crate) use log::Level;
use log::Log;
use names::Names;
use notify::Notify;
use position::Positions;
use recorder::Recorder;
use reload::{File, Reading};
use roam6_linux::memory::Text;
use roam6_linux::mptcp::diag;
use roam6_linux::{Host, Interest, Ready, Wake};
use roam6_proto::base::few;
use roam6_proto::base::ids::{AddressPair, ContextId};
use roam6_proto::{Clock, Command, Engine, Input, Node, Outbox, Output, Report, Time};
use roam6_wire::shim6::Fork;
use server::{Asked, ClientId, Reactor, Server};
use showing::{Form, Showing};
use signals::Signals;
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use table_watch::TableWatch;

/// Tokens of the event loop's own descriptors; those of the server follow.
const SIGNALS: u32 = 0;
const TABLE: u32 = 1;
const POSITION: u32 = 2;
const READING: u32 = 3;
const SHOWING: u32 = 4;
const SERVER: u32 = 5;
/// A metrics page is served from the cache for this time, because any user of this machine may request it.
const METRICS_TIME: Duration = Duration::from_secs(1);
const READ: Interest = Interest { read: true, write: false };

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

/// Why the daemon did not start, or stopped.
pub(crate) enum Failure {
    /// The configuration is invalid.
    Config(Vec<Problem>),
    /// Something else, in one line.
    Other(String),
}

impl From<String> for Failure {
    fn from(text: String) -> Failure {
        Failure::Other(text)
    }
}

impl From<roam6_linux::Error> for Failure {
    fn from(error: roam6_linux::Error) -> Failure {
        Failure::Other(error.to_string())
    }
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
    daemon.begin()?;
    daemon.turn()?;
    daemon.end()
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
    positions: Option<Positions>,
    reading: Reading,
    notify: Notify,
    voice: Voice,
    recorder: Option<Recorder>,
    showing: Showing,
    metrics: Option<(Time, Vec<u8>)>,
    /// Whether the roles have been started.
    begun: bool,
    settled: bool,
    /// Set once the daemon is ready.
    text: Option<Text>,
}

/// Destination of reports: the log, the watchers, and the counters of the host's own reports.
struct Voice {
    log: Log,
    clock: (Time, Clock),
    counters: few::VecMap<String, u64>,
    ages: Ages,
    names: Names,
}

impl Daemon {
    fn new(options: Options, config: Config, seed: [u8; 32], signals: Signals) -> Result<Daemon, Failure> {
        let control = start::control_socket(&config)?;
        let metrics = config.metrics.map(start::metrics_socket).transpose()?;
        let mut host = Host::new(roles::host_options(&config))?;
        host.hear_esp(roles::use_esp(&config))?;
        let deaf = config.mnn.is_some().then(|| host.hear_subflows().err()).flatten();
        host.watch(&signals, SIGNALS, READ)?;
        let positions = config.geo.as_ref().map(|geo| Positions::begin(&geo.position)).transpose();
        let positions = positions.map_err(|error| format!("position: {error}"))?;
        if let Some(fd) = positions.as_ref().and_then(Positions::fd) {
            host.watch(fd, POSITION, READ)?;
        }
        let server = Server::new(SERVER, control, metrics, &mut host)?;
        let roles = config.roles();
        let recorder = options.record.as_ref().map(|path| Recorder::begin(path, &roles, seed)).transpose()?;
        let mut daemon = Daemon {
            voice: Voice::new(options.level),
            node: Node::from_roles(&roles, seed),
            options,
            config,
            host,
            server,
            signals,
            table_watch: None,
            positions,
            reading: Reading::default(),
            notify: Notify::from_environment(),
            recorder,
            showing: Showing::default(),
            metrics: None,
            begun: false,
            settled: false,
            text: None,
        };
        if let Some(why) = deaf {
            daemon.say(Level::Warning, &format!("{why}; MPTCP subflow events are not available"));
        }
        if let Some(agent) = &daemon.config.home_agent {
            daemon.tell_refused(agent, 0);
        }
        daemon.watch_table();
        Ok(daemon)
    }

    /// Starts the roles: the clock first, then the journal of the previous run, then the current state of the kernel.
    fn begin(&mut self) -> Result<(), Failure> {
        let now = self.host.now();
        let mut recall = Some(Input::Command(Command::RestoreJournal(self.host.take_recalled())));
        let mut inputs = VecDeque::new();
        for wake in self.host.wait(Some(now))? {
            match wake {
                Wake::Input(_, Input::Tick) => {}
                Wake::Input(at, input) => {
                    let is_clock = matches!(input, Input::Clock(_));
                    inputs.push_back((at, input));
                    inputs.extend(recall.take_if(|_| is_clock).map(|recall| (at, recall)));
                }
                Wake::Report(report) => self.report_of_host(report),
                Wake::Ready(ready) => self.ready(ready),
            }
        }
        if self.is_told_to_end() {
            return Ok(());
        }
        let at = inputs.back().map_or(now, |(at, _)| *at);
        inputs.extend(recall.map(|recall| (at, recall)));
        inputs.push_back((at, Input::Command(Command::JournalRestored)));
        self.begun = true;
        self.feed(inputs);
        self.tell_positions();
        self.voice.ages.forget();
        self.settle()?;
        for warning in host_check::warnings(&self.config) {
            self.say(Level::Warning, &warning);
        }
        self.say(Level::Info, &format!("{} is ready: {}", self.config.name, roles::names(&self.config)));
        self.notify.ready();
        self.text = Some(Text::forget(self.host.now()));
        Ok(())
    }

    /// Removes kernel state of a previous run once the roles no longer need it.
    fn settle(&mut self) -> Result<(), Failure> {
        if !self.settled && self.node.takeover_complete() {
            self.settled = true;
            self.host.settle()?;
        }
        Ok(())
    }

    /// Runs until a signal ends it.
    fn turn(&mut self) -> Result<(), Failure> {
        while !self.is_told_to_end() {
            self.once()?;
        }
        Ok(())
    }

    /// Whether SIGTERM or SIGINT is pending or was received.
    fn is_told_to_end(&mut self) -> bool {
        self.signals.read();
        self.signals.is_end()
    }

    /// One iteration: waits for events, feeds them to the node, and executes its outputs.
    fn once(&mut self) -> Result<(), Failure> {
        let at_once = self.showing.is_gathering().then(|| self.host.now());
        let own = [at_once, self.server.deadline(), self.notify.deadline(), self.reading.deadline()];
        let deadlines = own.into_iter().chain([self.node.deadline()]);
        let wakes = self.host.wait(deadlines.flatten().min())?;
        let mut inputs = VecDeque::new();
        for wake in wakes {
            match wake {
                Wake::Input(at, Input::Tick) if self.node.deadline().is_none_or(|deadline| deadline > at) => {}
                Wake::Input(at, input) => inputs.push_back((at, input)),
                Wake::Report(report) => self.report_of_host(report),
                Wake::Ready(ready) => self.ready(ready),
            }
        }
        self.obey_signals();
        self.tell_slow_reading();
        self.feed(inputs);
        self.settle()?;
        self.gather();
        let now = self.host.now();
        self.server.expire(now, &mut self.host);
        self.notify.alive(now);
        self.text.iter_mut().for_each(|text| text.look(now));
        self.voice.log.sum_up(now, self.voice.unix_micros(now));
        if let Some(recorder) = &mut self.recorder {
            recorder.flush();
        }
        Ok(())
    }

    fn obey_signals(&mut self) {
        if self.signals.take_reload() {
            self.notify.reloading();
            self.read(File::Config);
        }
    }

    /// Stops the roles, and removes all kernel state unless `--keep` is set.
    fn end(mut self) -> Result<(), Failure> {
        self.notify.stopping();
        if self.options.keep {
            self.say(Level::Info, "stopping; the kernel state is kept");
            return Ok(());
        }
        self.say(Level::Info, "stopping");
        // The de-registrations are not waited for. Roles that have not been started send none.
        if self.begun {
            self.feed([(self.host.now(), Input::Command(Command::Stop))].into());
        }
        let cleaned = self.host.clean();
        let _ = std::fs::remove_file(crate::control::socket_path(&self.config.run_dir));
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
                    self.voice.clock = (at, *clock);
                }
                self.voice.names.note(&input);
                self.node.handle(at, &input, &mut out);
                self.record(at, &input, out.outputs());
                for output in out.drain() {
                    match output {
                        Output::Report(report) => self.voice.tell(at, &report, &mut self.server, &mut self.host),
                        output => wanted.push(output),
                    }
                }
            }
            if wanted.is_empty() {
                break;
            }
            let mut reports = Vec::new();
            let outcomes = self.host.execute(wanted, |report| reports.push(report));
            reports.into_iter().for_each(|report| self.report_of_host(report));
            let now = self.host.now();
            inputs.extend(outcomes.into_iter().map(|outcome| (now, Input::Outcome(outcome))));
        }
    }

    /// Serves one of the event loop's own descriptors.
    fn ready(&mut self, ready: Ready) {
        let now = self.host.now();
        if self.server.owns(ready.token) {
            if let Some((client, asked)) = self.server.ready(ready, now, &mut self.host) {
                self.answer(client, asked, now);
            }
        } else if ready.token == TABLE {
            if self.table_watch.as_ref().is_some_and(TableWatch::changed) {
                self.read(File::Table);
            }
        } else if ready.token == POSITION {
            self.tell_positions();
        } else if ready.token == READING {
            self.take_read();
        } else if ready.token == SHOWING {
            self.take_written();
        } else {
            self.signals.read();
        }
    }

    fn tell_positions(&mut self) {
        let now = self.host.now();
        let fixes = self.positions.as_mut().map(Positions::take).unwrap_or_default();
        self.feed(fixes.into_iter().map(|fix| (now, Input::Fix(fix))).collect());
    }

    fn answer(&mut self, client: ClientId, asked: Asked, now: Time) {
        match asked {
            Asked::Control(Request::View) => self.show(client, Form::Whole),
            Asked::Control(Request::Watch) => self.show(client, Form::Lines),
            Asked::Control(Request::Subflows) => {
                let answer = match diag::connections() {
                    Ok(mut connections) => {
                        self.voice.ages.tell(now, &mut connections);
                        Answer::Subflows(Box::new(connections))
                    }
                    Err(error) => Answer::Error(error.to_string()),
                };
                self.server.answer(client, &answer, now, &mut self.host);
            }
            Asked::Control(Request::Unbind(home_address)) => {
                self.obey(client, Command::DeleteBinding(home_address), now)
            }
            Asked::Control(Request::UsePath { context, mark, path }) => {
                let fork = mark.map_or(Fork::NONE, Fork);
                self.obey(client, Command::SwitchPath { ulids: context, fork, path }, now);
            }
            Asked::Control(Request::EndContext(ulids)) => {
                self.obey(client, Command::DeleteContext(unforked(ulids)), now)
            }
            Asked::Control(Request::Ask(question)) => self.obey(client, Command::SendEchoRequest(*question), now),
            Asked::Control(Request::PutArea(destination)) => {
                self.obey(client, Command::AddGeoDestination(destination), now)
            }
            Asked::Control(Request::Denm(order)) => self.obey(client, Command::Denm(*order), now),
            Asked::Control(Request::DropArea(address)) => {
                self.obey(client, Command::RemoveGeoDestination(address), now)
            }
            Asked::Metrics => match self.recent_metrics(now) {
                Some(page) => self.hand_out(client, Form::Metrics, page, now),
                None => self.show(client, Form::Metrics),
            },
        }
    }

    fn obey(&mut self, client: ClientId, order: Command, now: Time) {
        self.feed([(now, Input::Command(order))].into());
        self.server.answer(client, &Answer::Done, now, &mut self.host);
    }

    fn record(&mut self, at: Time, input: &Input, outputs: &[Output]) {
        if let Some(recorder) = &mut self.recorder
            && let Err(why) = recorder.step(at, input, outputs)
        {
            self.recorder = None;
            self.say(Level::Error, &why);
        }
    }

    /// Counts and publishes a report of the host, which no engine has counted.
    fn report_of_host(&mut self, report: Report) {
        let counter = self.voice.counters.entry(report.name().to_owned()).or_default();
        *counter = counter.saturating_add(1);
        self.voice.tell(self.host.now(), &report, &mut self.server, &mut self.host);
    }

    fn say(&self, level: Level, text: &str) {
        self.voice.log.write(level, self.voice.unix_micros(self.host.now()), &text);
    }
}

/// The context of these ULIDs for packets without a mark.
fn unforked(ulids: AddressPair) -> ContextId {
    ContextId { ulids, fork: Fork::NONE }
}

impl Voice {
    fn new(least: Level) -> Voice {
        let clock = (Time::ZERO, Clock { unix_micros: log::wall_clock() });
        let (ages, names) = (Ages::default(), Names::default());
        Voice { log: Log::to_stderr(least), clock, counters: few::VecMap::new(), ages, names }
    }

    fn unix_micros(&self, now: Time) -> u64 {
        let (at, clock) = self.clock;
        clock.unix_micros.saturating_add(now.as_micros().saturating_sub(at.as_micros()))
    }

    fn tell(&mut self, at: Time, report: &Report, server: &mut Server, reactor: &mut impl Reactor) {
        let unix_micros = self.unix_micros(at);
        self.log.report(at, unix_micros, report, &self.names);
        self.ages.note(at, report);
        if server.has_watchers() {
            let link_name = report.link().and_then(|link| self.names.find(link));
            let line = Line { unix_micros, at: at.as_micros(), link_name, what: What::Event(report) };
            server.publish(&serde_json::to_string(&line).unwrap_or_default(), at, reactor);
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
