//! The relay process: sockets and events to decisions, and decisions to sockets.

use super::data_plane::DataPlane;
use super::events::{Events, Source};
use super::link::{Connection, Link, Phase};
use super::lost_subflows::Subflows;
use super::messages::{Partial, read_answer};
use super::options::{LOCK_FILE, RelayOptions, RelaySide};
use super::pump::{BUFFER, Progress};
use super::routing::Routing;
use super::rules::{offered_rules, outbound_rules, to_flow};
use super::sockets::{self, MARK, PacketSender};
use super::state::{FlowState, RelayState, StateServer};
use crate::clock::Clock;
use crate::error::{Context, Error};
use crate::sys;
use crate::tunnel::bpf::abi::Side;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use roam6_proto::Time;
use roam6_proto::contract::item::TunnelFlow;
use roam6_proto::relay::{BearerId, Bindings, Effect, Event, HeldSyn, Relay, RelayConfig, Side as RelayEnd, Tuple};
use roam6_wire::relay::{Answer, Connect};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV6};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Bearers of each kind that wait for a connection.
const SPARE: usize = 4;
/// Most bearers of a relay, and of one mobile router at its home agent.
const MAX_BEARERS: usize = 32_768;
const MAX_BEARERS_PER_ROUTER: usize = 16_384;

/// The signals that it obeys.
const SIGNALS: [Signal; 5] = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGUSR1, Signal::SIGUSR2];
/// How long the process outlives its daemon, if no other one starts: as long as the kernel keeps MPTCP connections without a
/// subflow.
const ORPHAN_TIME: Duration = Duration::from_secs(60);
/// How often the process makes sure that its lock file exists. Where the directory has been removed, no daemon would find it.
const LOCK_INTERVAL: Duration = Duration::from_secs(1);

/// The process.
pub struct RelayService {
    options: RelayOptions,
    /// Reads the settings again.
    reload: Box<dyn Fn() -> Result<RelayOptions, String>>,
    /// When to end, because the daemon has.
    ends_at: Option<Time>,
    lock_seen: Time,
    engine: Relay,
    clock: Clock,
    events: Events,
    data_plane: RefCell<DataPlane>,
    routing: RefCell<Routing>,
    bearer_listener: Option<OwnedFd>,
    connection_listener: OwnedFd,
    /// At a home agent whose kernel announces subflows.
    subflows: Option<Subflows>,
    signals: SignalFd,
    state: StateServer,
    injector: PacketSender,
    refuser: PacketSender,
    links: BTreeMap<BearerId, Link>,
    /// Octets moved from, and to, the plain connections that have ended.
    octets_of_ended: (u64, u64),
    /// Accepted connections that are neither joined nor reset yet.
    accepted: BTreeMap<Tuple, OwnedFd>,
    /// Connections that have more to move.
    busy: VecDeque<BearerId>,
    buffer: Vec<u8>,
    /// Which of the home agents is asked.
    home_agent: usize,
    /// The error that was logged last.
    last_error: Option<String>,
    log: fn(&str),
}

/// Facts for the engine.
struct Facts<'a> {
    data_plane: &'a RefCell<DataPlane>,
    routing: &'a RefCell<Routing>,
}

impl Bindings for Facts<'_> {
    fn tunnel_of(&self, address: Ipv6Addr) -> Option<u32> {
        self.data_plane.borrow().tunnel_of(address)
    }

    fn is_own(&self, address: Ipv6Addr) -> bool {
        self.routing.borrow_mut().is_own(address)
    }
}

impl RelayService {
    /// Opens all sockets. `instance` is a number that no earlier process of this host has had; `reload` reads the settings again,
    /// and `log` writes a line.
    ///
    /// # Errors
    /// The kernel's; or the daemon has no BPF data plane.
    pub fn open(
        options: RelayOptions,
        instance: u64,
        reload: Box<dyn Fn() -> Result<RelayOptions, String>>,
        log: fn(&str),
    ) -> Result<RelayService, Error> {
        let connection_listener = sockets::listen_for_connections()?;
        let data_plane = DataPlane::open(&options.run_dir, &connection_listener)?;
        let bearer_listener = match &options.side {
            RelaySide::HomeAgent { .. } => Some(sockets::listen_for_bearers()?),
            RelaySide::MobileRouter { .. } => None,
        };
        let mut mask = SigSet::empty();
        SIGNALS.into_iter().for_each(|signal| mask.add(signal));
        mask.thread_block().context("signals")?;
        let signals = SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC).context("signals")?;
        let events = Events::open()?;
        let state = StateServer::open(&options.state_socket())?;
        events.watch(&connection_listener, Source::Connections)?;
        events.watch(&data_plane, Source::Syns)?;
        events.watch(&signals, Source::Signals)?;
        events.watch(&state, Source::State)?;
        if let Some(listener) = &bearer_listener {
            events.watch(listener, Source::Bearers)?;
        }
        let subflows = bearer_listener.as_ref().and_then(|_| open_subflows(&events, log));
        let mut routing = Routing::install()?;
        routing.keep_in_tunnel(options.encrypted_sources())?;
        Ok(RelayService {
            engine: Relay::new(config_of(&options, instance)),
            clock: Clock::start()?,
            events,
            data_plane: RefCell::new(data_plane),
            routing: RefCell::new(routing),
            bearer_listener,
            connection_listener,
            subflows,
            signals,
            state,
            injector: PacketSender::open(Some(MARK))?,
            refuser: PacketSender::open(None)?,
            links: BTreeMap::new(),
            octets_of_ended: (0, 0),
            accepted: BTreeMap::new(),
            busy: VecDeque::new(),
            buffer: vec![0; BUFFER],
            home_agent: 0,
            last_error: None,
            log,
            options,
            reload,
            ends_at: None,
            lock_seen: Time::ZERO,
        })
    }

    /// Runs until SIGTERM or SIGINT. SIGHUP: another daemon has started; SIGUSR1: the configuration has changed; SIGUSR2: the daemon
    /// ends.
    ///
    /// # Errors
    /// The kernel's, if it refuses what all connections need; or the maps of another daemon cannot be used.
    pub fn run(&mut self) -> Result<(), Error> {
        // What reading the configuration and loading the programs took.
        sys::trim_heap();
        self.feed(Event::Tick);
        loop {
            let now = self.clock.now();
            let due = self.engine.deadline().map(|at| at.since(now));
            let due =
                if self.busy.is_empty() { due.unwrap_or(LOCK_INTERVAL).min(LOCK_INTERVAL) } else { Duration::ZERO };
            for source in self.events.wait(Some(due)) {
                match source {
                    Source::Bearers => self.accept_bearers(),
                    Source::Connections => self.accept_connections(),
                    Source::Syns => self.receive_syns(),
                    Source::Subflows => self.close_lost_subflows(),
                    Source::State => self.state.serve(|| self.snapshot()),
                    Source::Signals if self.is_ended_by_signal()? => return self.close(),
                    Source::Signals => {}
                    Source::Bearer(id) => self.bearer_changed(id),
                    Source::Plain(id) => self.plain_changed(id),
                }
            }
            for id in std::mem::take(&mut self.busy) {
                self.bearer_changed(id);
            }
            self.feed(Event::Tick);
            if self.is_orphaned() {
                return self.close();
            }
        }
    }

    /// Obeys the signals that have come. Whether one of them ends the process.
    fn is_ended_by_signal(&mut self) -> Result<bool, Error> {
        while let Ok(Some(signal)) = self.signals.read_signal() {
            match i32::try_from(signal.ssi_signo).map(Signal::try_from) {
                Ok(Ok(Signal::SIGHUP)) => {
                    self.ends_at = None;
                    self.reopen()?;
                    self.reconfigure();
                }
                Ok(Ok(Signal::SIGUSR1)) => self.reconfigure(),
                Ok(Ok(Signal::SIGUSR2)) => self.ends_at = Some(self.clock.now() + ORPHAN_TIME),
                _ => return Ok(true),
            }
        }
        Ok(false)
    }

    /// Whether no daemon can find this process.
    fn is_orphaned(&mut self) -> bool {
        let now = self.clock.now();
        if self.ends_at.is_some_and(|at| at <= now) {
            (self.log)("no daemon has started since the last one ended: all relayed connections are reset");
            return true;
        }
        if now < self.lock_seen + LOCK_INTERVAL {
            return false;
        }
        self.lock_seen = now;
        !self.options.run_dir.join(LOCK_FILE).exists()
    }

    /// The configuration has changed.
    fn reconfigure(&mut self) {
        let options = match (self.reload)() {
            Ok(options) => options,
            Err(why) => return (self.log)(&format!("{why}; the former rules remain in effect")),
        };
        if let RelaySide::MobileRouter { prefixes, .. } = &self.options.side {
            let dropped = self.data_plane.borrow_mut().drop_rules(Side::Near, prefixes);
            self.log_error(dropped);
        }
        self.options = RelayOptions { early: self.options.early, ..options };
        let side = config_of(&self.options, 0).side;
        let mut effects = Vec::new();
        self.engine.reconfigure(self.clock.now(), side, &mut effects);
        self.execute_all(effects);
        let put = self.put_outbound_rules();
        self.log_error(put);
        let kept = self.routing.borrow_mut().keep_in_tunnel(self.options.encrypted_sources());
        self.log_error(kept);
    }

    fn execute_all(&mut self, effects: Vec<Effect>) {
        let events: Vec<Event> = effects.into_iter().filter_map(|effect| self.execute(effect)).collect();
        events.into_iter().for_each(|event| self.feed(event));
    }

    /// Ends: all connections are reset.
    fn close(&mut self) -> Result<(), Error> {
        self.links.clear();
        self.accepted.clear();
        let cleared = self.data_plane.borrow_mut().clear();
        self.routing.borrow_mut().remove();
        let _ = std::fs::remove_file(self.options.state_socket());
        cleared
    }

    /// A new daemon may have new maps. If their layout differs, this process ends: the packets of its connections would no longer
    /// reach it.
    fn reopen(&mut self) -> Result<(), Error> {
        let plane = DataPlane::open(&self.options.run_dir, &self.connection_listener)?;
        let watched = self.events.watch(&plane, Source::Syns);
        self.data_plane.replace(plane);
        self.log_error(watched);
        let mut effects = Vec::new();
        self.engine.restore(&mut effects);
        self.execute_all(effects);
        Ok(())
    }

    /// Feeds an event to the engine, and executes what it decides.
    fn feed(&mut self, event: Event) {
        let mut events = VecDeque::from([event]);
        let mut effects = Vec::new();
        while let Some(event) = events.pop_front() {
            let now = self.clock.now();
            let facts = Facts { data_plane: &self.data_plane, routing: &self.routing };
            self.engine.handle(now, event, &facts, &mut effects);
            for effect in std::mem::take(&mut effects) {
                events.extend(self.execute(effect));
            }
        }
    }

    /// Executes one effect; what it has caused at once, is returned.
    fn execute(&mut self, effect: Effect) -> Option<Event> {
        match effect {
            Effect::Dial(id) => self.dial(id),
            Effect::Send(id, message) => {
                let asks = matches!(message, roam6_wire::relay::Message::Connect(_));
                let sent = self.links.get(&id).is_some_and(|link| sockets::send_whole(&link.bearer, &message.emit()));
                if asks && let Some(link) = self.links.get_mut(&id) {
                    link.phase = Phase::Asked;
                }
                (!sent).then_some(Event::Broken(id))
            }
            Effect::Reply(id, answer) => {
                let link = self.links.get_mut(&id)?;
                let sent = sockets::send_whole(&link.bearer, &[answer.code()]);
                if answer != Answer::Connected {
                    link.phase = Phase::Idle(Partial::default());
                }
                (!sent).then_some(Event::Broken(id))
            }
            Effect::Put(tuple, state) => {
                let put = self.data_plane.borrow_mut().put(&tuple, state);
                self.log_error(put);
                None
            }
            Effect::Forget(tuple) => {
                let forgotten = self.data_plane.borrow_mut().forget(&tuple);
                self.log_error(forgotten);
                None
            }
            Effect::Inject(syn) => {
                let sent = self.injector.send(&syn.octets, syn.tuple.destination);
                self.log_error(sent.context("SYN of a relayed connection"));
                None
            }
            Effect::ResetAccepted(tuple) => {
                self.accepted.remove(&tuple);
                None
            }
            Effect::Refuse(syn, answer) => {
                self.refuse(&syn, answer);
                None
            }
            Effect::Connect(id, connect) => self.connect(id, &connect),
            Effect::Join(id, tuple) => self.join(id, tuple),
            Effect::Lift(id) => {
                self.links.get_mut(&id)?.lift();
                self.busy.push_back(id);
                None
            }
            Effect::Abort(id) => {
                self.remove_link(id);
                None
            }
            Effect::Ready(ready) => {
                self.set_ready(ready);
                None
            }
            Effect::Offered(prefixes, rules) => {
                let rules: Vec<TunnelFlow> = rules.iter().map(to_flow).collect();
                let put = self.data_plane.borrow_mut().put_rules(Side::Far, &prefixes, &rules);
                self.log_error(put);
                None
            }
            Effect::Withdrawn(prefixes) => {
                let dropped = self.data_plane.borrow_mut().drop_rules(Side::Far, &prefixes);
                self.log_error(dropped);
                None
            }
        }
    }

    /// Logs an error that differs from the last one.
    fn log_error(&mut self, result: Result<(), Error>) {
        if let Err(error) = result {
            let text = error.to_string();
            if self.last_error.as_ref() != Some(&text) {
                (self.log)(&text);
                self.last_error = Some(text);
            }
        }
    }

    fn dial(&mut self, id: BearerId) -> Option<Event> {
        let RelaySide::MobileRouter { home_address, home_agents, .. } = &self.options.side else { return None };
        let agent = home_agents.get(self.home_agent % home_agents.len().max(1))?;
        match sockets::dial(*home_address, *agent) {
            Ok(bearer) => {
                let watched = self.events.watch_changes(&bearer, Source::Bearer(id));
                self.links.insert(id, Link { bearer, phase: Phase::Dialling });
                self.log_error(watched);
                None
            }
            Err(error) => {
                self.log_error(Err(error));
                Some(Event::Broken(id))
            }
        }
    }

    fn connect(&mut self, id: BearerId, connect: &Connect) -> Option<Event> {
        let link = self.links.get_mut(&id)?;
        match sockets::connect_plain(connect) {
            Ok(plain) => {
                let watched = self.events.watch_changes(&plain, Source::Plain(id));
                link.phase = Phase::Connecting(Some(plain));
                self.log_error(watched);
                None
            }
            Err(answer) => Some(Event::ConnectFailed(id, answer)),
        }
    }

    /// Begins to move octets.
    fn join(&mut self, id: BearerId, tuple: Tuple) -> Option<Event> {
        let now = self.clock.now();
        let accepted = self.accepted.remove(&tuple);
        let link = self.links.get_mut(&id)?;
        let (plain, watched) = match &mut link.phase {
            Phase::Connecting(plain) => (plain.take(), Ok(())),
            _ => {
                let watch = |plain: &OwnedFd| self.events.watch_changes(plain, Source::Plain(id));
                let watched = accepted.as_ref().map_or(Ok(()), watch);
                (accepted, watched)
            }
        };
        let Some(plain) = plain else { return Some(Event::Broken(id)) };
        sockets::set_send_buffer(&link.bearer, sockets::SEND_BUFFER);
        sockets::size_buffers(&plain);
        link.phase = Phase::Open(Box::new(Connection::new(plain, now)));
        self.busy.push_back(id);
        self.log_error(watched);
        None
    }

    fn refuse(&mut self, syn: &HeldSyn, answer: Answer) {
        let router = match &self.options.side {
            RelaySide::MobileRouter { home_address, .. } => *home_address,
            RelaySide::HomeAgent { address } => *address,
        };
        if let Some(packet) = syn.refusal(answer, (router, Ipv4Addr::UNSPECIFIED)) {
            let sent = self.refuser.send(&packet, syn.tuple.source);
            self.log_error(sent.context("refusal of a relayed connection"));
        }
    }

    fn set_ready(&mut self, ready: bool) {
        let RelaySide::MobileRouter { home_agents, .. } = &self.options.side else { return };
        let agent = home_agents.get(self.home_agent % home_agents.len().max(1));
        let agent = agent.map(ToString::to_string).unwrap_or_default();
        let done = self.put_outbound_rules();
        (self.log)(&match ready {
            true => format!("the relay of home agent {agent} answers: connections are relayed"),
            false => format!("the relay of home agent {agent} is lost: connections take the tunnel"),
        });
        self.log_error(done);
    }

    /// Has connections from the mobile network held while the other relay answers.
    fn put_outbound_rules(&self) -> Result<(), Error> {
        let RelaySide::MobileRouter { prefixes, flows, home_agents, .. } = &self.options.side else { return Ok(()) };
        let mut plane = self.data_plane.borrow_mut();
        match self.engine.is_ready() {
            true => plane.put_rules(Side::Near, prefixes, &outbound_rules(flows, home_agents)),
            false => plane.drop_rules(Side::Near, prefixes),
        }
    }

    fn accept_bearers(&mut self) {
        while let Some(Ok((bearer, peer))) = self.bearer_listener.as_ref().map(sys::accept) {
            sockets::tune_bearer(&bearer);
            let facts = Facts { data_plane: &self.data_plane, routing: &self.routing };
            let Some(id) = self.engine.accept_bearer(*peer.ip(), &facts) else { continue };
            let watched = self.events.watch_changes(&bearer, Source::Bearer(id));
            self.links.insert(id, Link { bearer, phase: Phase::Idle(Partial::default()) });
            self.log_error(watched);
            self.bearer_changed(id);
        }
    }

    fn close_lost_subflows(&mut self) {
        let Some(subflows) = &mut self.subflows else { return };
        let plane = self.data_plane.borrow();
        let closed = subflows.receive(|home| plane.path_addresses(home));
        drop(plane);
        self.log_error(closed);
    }

    fn accept_connections(&mut self) {
        while let Ok((plain, peer)) = sys::accept(&self.connection_listener) {
            sockets::tune_plain(&plain, 0);
            // One that was reset meanwhile is joined too, so that its other end is reset at once.
            let Some(tuple) = sockets::tuple_of(&plain, peer) else { continue };
            self.accepted.insert(tuple, plain);
            self.feed(Event::Accepted(tuple));
        }
    }

    fn receive_syns(&mut self) {
        loop {
            let record = self.data_plane.borrow_mut().next_syn();
            let Some(octets) = record else { return };
            if let Some(syn) = HeldSyn::parse(&octets) {
                self.feed(Event::Syn(syn));
            }
        }
    }

    fn bearer_changed(&mut self, id: BearerId) {
        let Some(link) = self.links.get_mut(&id) else { return };
        let event = match &mut link.phase {
            Phase::Dialling => match sockets::pending_error(&link.bearer) {
                None if sockets::ends_of(&link.bearer).is_some() => {
                    link.phase = Phase::Idle(Partial::default());
                    Some(Event::Dialled(id))
                }
                None => None,
                Some(_) => {
                    self.home_agent = self.home_agent.wrapping_add(1);
                    Some(Event::Broken(id))
                }
            },
            Phase::Idle(partial) => partial.read(id, &link.bearer),
            Phase::Asked => {
                let answer = read_answer(id, &link.bearer);
                if matches!(answer, Some(Event::Answered(_, Answer::Connected))) {
                    link.phase = Phase::Accepting;
                }
                answer
            }
            Phase::Accepting | Phase::Connecting(_) => sockets::pending_error(&link.bearer).map(|_| Event::Broken(id)),
            Phase::Open(_) => return self.pump(id),
        };
        let Some(event) = event else { return };
        // Another message may be there already, which no event announces.
        if matches!(event, Event::Message(..)) {
            self.busy.push_back(id);
        }
        self.feed(event);
    }

    fn plain_changed(&mut self, id: BearerId) {
        let Some(link) = self.links.get(&id) else { return };
        match &link.phase {
            Phase::Connecting(Some(plain)) => match sockets::pending_error(plain) {
                Some(error) => self.feed(Event::ConnectFailed(id, sockets::answer_of(error))),
                None if sockets::ends_of(plain).is_some() => self.feed(Event::Connected(id)),
                None => {}
            },
            Phase::Open(_) => self.pump(id),
            _ => {}
        }
    }

    /// Moves octets of one connection.
    fn pump(&mut self, id: BearerId) {
        let Some(link) = self.links.get_mut(&id) else { return };
        let Link { bearer, phase: Phase::Open(connection) } = link else { return };
        let Connection { plain, outbound, inbound, .. } = connection.as_mut();
        let progress = [outbound.run(plain, bearer, &mut self.buffer), inbound.run(bearer, plain, &mut self.buffer)];
        // An end that has closed its socket resets what is sent to it: nothing is received of it any more that would say so.
        let is_reset = || [&*plain, &*bearer].into_iter().any(|socket| sockets::pending_error(socket).is_some());
        let half_closed = progress.contains(&Progress::Ended) && progress != [Progress::Ended; 2];
        if progress.contains(&Progress::Broken) || half_closed && is_reset() {
            return self.feed(Event::Broken(id));
        }
        if progress == [Progress::Ended; 2] {
            sockets::reset_on_close(&*plain, false);
            sockets::reset_on_close(&*bearer, false);
            self.remove_link(id);
            return self.feed(Event::Completed(id));
        }
        if progress.contains(&Progress::More) && !self.busy.contains(&id) {
            self.busy.push_back(id);
        }
        if connection.begins_to_read() {
            self.feed(Event::Taken(id));
        }
    }

    fn remove_link(&mut self, id: BearerId) {
        let (out, into) = self.links.remove(&id).map(|link| link.octets()).unwrap_or_default();
        self.octets_of_ended.0 += out;
        self.octets_of_ended.1 += into;
    }

    fn snapshot(&self) -> RelayState {
        let now = self.clock.now();
        let flow = |(id, link): (&BearerId, &Link)| {
            let Phase::Open(connection) = &link.phase else { return None };
            let Connection { outbound, inbound, since, .. } = connection.as_ref();
            let (tuple, _) = self.engine.connection(*id)?;
            let (bearer_remote, bearer_local) = sockets::ends_of(&link.bearer)?;
            Some(FlowState {
                peer: SocketAddrV6::new(tuple.source, tuple.source_port, 0, 0),
                far: SocketAddrV6::new(tuple.destination, tuple.destination_port, 0, 0),
                bearer_local,
                bearer_remote,
                octets_out: outbound.octets,
                octets_in: inbound.octets,
                age_seconds: now.since(*since).as_secs(),
            })
        };
        let (_, idle_bearers) = self.engine.bearers();
        let (octets_out, octets_in) = self
            .links
            .values()
            .map(Link::octets)
            .fold(self.octets_of_ended, |sum, octets| (sum.0 + octets.0, sum.1 + octets.1));
        RelayState {
            counters: self.engine.counters(),
            idle_bearers,
            held_syns: self.engine.held_syns(),
            octets_out,
            octets_in,
            flows: self.links.iter().filter_map(flow).collect(),
        }
    }
}

/// The subflows at a home agent, watched; `None`, and a line in the log, where the kernel announces none.
fn open_subflows(events: &Events, log: fn(&str)) -> Option<Subflows> {
    let watched = Subflows::open().and_then(|subflows| events.watch(&subflows, Source::Subflows).map(|()| subflows));
    watched
        .inspect_err(|error| log(&format!("{error}: a connection under which all uplinks fail several times may stop")))
        .ok()
}

fn config_of(options: &RelayOptions, instance: u64) -> RelayConfig {
    let side = match &options.side {
        RelaySide::HomeAgent { .. } => RelayEnd::HomeAgent,
        RelaySide::MobileRouter { prefixes, flows, .. } => RelayEnd::MobileRouter {
            prefixes: prefixes.clone(),
            offered: flows.iter().flat_map(offered_rules).collect(),
        },
    };
    RelayConfig {
        side,
        instance,
        spare: SPARE,
        max_bearers: MAX_BEARERS,
        max_bearers_per_router: MAX_BEARERS_PER_ROUTER,
        early: options.early,
    }
}
