//! One host, as the daemon's loop sees it: [`Host::wait`] brings what happened, [`Host::execute`] does what the engines
//! want. The daemon's own descriptors may be waited for in the same place ([`Host::watch`]).

use crate::backend::{self, Backend};
use crate::carrier::Carriers;
use crate::clock::Clock;
use crate::cores::Cores;
use crate::door::ears::Ears;
use crate::door::frames::Frames;
use crate::door::packet::{Kind, Tap};
use crate::door::raw::Exit;
use crate::door::unsent::Unsent;
use crate::error::{Context, Error};
use crate::firewall::{self, Firewall, Watch};
use crate::journal::Journal;
use crate::mptcp::diag::{self, Connection};
use crate::mptcp::events::Events;
use crate::netfilter::Changes;
use crate::netlink::monitor::{self, Monitor, News};
use crate::netlink::socket::Netlink;
use crate::netlink::{address, family, link, route};
use crate::plan::Executor;
use crate::tunnel::Tunnels;
use core::time::Duration;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use roam6_proto::base::few;
use roam6_proto::contract::input::{AddressEvent, AddressState};
use roam6_proto::contract::item::JournalRecord;
use roam6_proto::{Frame, Input, LinkEvent, LinkId, Outcome, Output, Packet, Report, Time, Transmit, Via};
use std::net::Ipv6Addr;
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::PathBuf;

/// Most packets taken from one ear, and most announcements heard, before the engines see them.
const BATCH: usize = 64;
/// Most descriptors that are told ready at once.
const READY: usize = 32;
/// Shortest and longest time between two repairs of what others removed.
const REPAIR: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(60));
/// Time between two comparisons of the whole plan with the kernel, which wait for a quiet moment.
const COMPARE: Duration = Duration::from_secs(300);
/// Time in which MPTCP endpoints of an earlier life must be put again: routers answer a solicitation sooner.
const ADOPT: Duration = Duration::from_secs(10);
/// Shortest time between two reports of packets that could not be sent.
const UNSENT: Duration = Duration::from_secs(1);

/// What a host needs to know.
#[derive(Debug, Clone)]
pub struct HostOptions {
    /// Directory of what need not outlive a restart of the machine.
    pub run_dir: PathBuf,
    /// Directory of the journal.
    pub state_dir: PathBuf,
    /// Names of the interfaces the roles use: uplinks, ingress interfaces, the home link. They may come and go.
    pub interfaces: few::VecSet<String>,
    /// What carries the tunnels.
    pub backend: Backend,
    /// What becomes of tunnelled packets where a firewall is on the path.
    pub firewall: firewall::Policy,
    /// Name of the tunnel device, where the back end has one for all.
    pub device: String,
    /// Addresses by which the roles speak mobility through tunnels over IPv4 (RFC 5555); empty: there are none.
    pub carried: few::VecSet<Ipv6Addr>,
    /// Most tunnels.
    pub tunnels: u32,
    /// Most contexts of the shim.
    pub contexts: u32,
    /// Whether a role wants packets that are not for this host, or that the kernel knows nothing of. The shim does not.
    pub taps: bool,
    /// Whether a role is told of the addresses of all interfaces, not of those in `interfaces` only.
    pub every_address: bool,
    /// How long after a frame the next is looked for without sleeping: to be woken costs more time than a frame does.
    pub busy_poll: Duration,
    /// How long after a frame no core sleeps.
    pub awake: Duration,
}

/// Something [`Host::wait`] brings.
#[derive(Debug, Clone, PartialEq)]
pub enum Wake {
    /// For the engines, with the time it is to be stamped with; times never go backwards.
    Input(Time, Input),
    /// For the log: something the host itself has to say.
    Report(Report),
    /// A descriptor of the daemon's is ready.
    Ready(Ready),
}

/// A descriptor is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ready {
    /// What [`Host::watch`] was told.
    pub token: u32,
    /// It can be read, or was closed by the other side.
    pub readable: bool,
    /// It can be written.
    pub writable: bool,
}

/// What of a descriptor is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interest {
    /// Told when it can be read.
    pub read: bool,
    /// Told when it can be written.
    pub write: bool,
}

/// The host: its clock, its ears and exit, its interfaces, and the plan of how it should look.
pub struct Host {
    _alone: UnixDatagram,
    clock: Clock,
    epoll: Epoll,
    monitor: Monitor,
    ears: Ears,
    /// Open where tunnels may be over IPv4.
    carried: Option<Tap>,
    busy_poll: Duration,
    /// Until when frames are looked for without sleeping.
    awake_until: Time,
    cores: Cores,
    exit: Exit,
    executor: Executor,
    interfaces: few::VecSet<String>,
    links: few::VecMap<LinkId, LinkEvent>,
    carrier_losses: few::VecMap<LinkId, u32>,
    carriers: Carriers,
    device: String,
    attached: few::VecSet<LinkId>,
    every_address: bool,
    addresses: few::VecSet<(Ipv6Addr, LinkId)>,
    recalled: Vec<JournalRecord>,
    subflows: Option<Events>,
    /// Where there is no nftables nobody changes tables.
    filters: Option<Changes>,
    firewall: Watch,
    /// Whether what the shim's programs tell is waited for.
    shim_watched: bool,
    queue: Vec<Wake>,
    repair_at: Option<Time>,
    repair_pause: Duration,
    unsent: Unsent,
    unsent_told: Option<Time>,
    /// When to compare next; not before the host has settled.
    compare_at: Option<Time>,
}

// Tokens of our own descriptors; those of the daemon's begin at DAEMON.
const ALARM: u64 = 0;
const STEPS: u64 = 1;
const FILTERS: u64 = 2;
const MONITOR: u64 = 3;
const SIGNALLING: u64 = 4;
const FEEDBACK: u64 = 5;
const SUBFLOWS: u64 = 6;
const SHIM: u64 = 7;
const CARRIED: u64 = 8;
const DAEMON: u64 = 16;

impl Host {
    /// Opens everything. Nothing changes yet but that with taps the kernel keeps quiet about mobility messages.
    /// The first [`Host::wait`] brings the wall clock, and the interfaces and addresses that are there.
    pub fn new(options: HostOptions) -> Result<Host, Error> {
        let tunnels = backend::open(&options)?;
        Host::with_tunnels(options, tunnels)
    }

    /// [`Host::new`] with tunnels of one's own making, whatever the options say of them.
    pub fn with_tunnels(options: HostOptions, tunnels: Box<dyn Tunnels + Send>) -> Result<Host, Error> {
        let alone = be_alone()?;
        let (journal, recalled) = Journal::open(&options.state_dir)?;
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).context("epoll")?;
        let executor = Executor::open(&options, journal, tunnels, &epoll)?;
        let (ears, lesser) = Ears::open(options.taps)?;
        let (cores, asleep) = Cores::open(options.awake);
        let mut host = Host {
            _alone: alone,
            clock: Clock::start()?,
            epoll,
            // Opened before the tables are read, so that no change falls between the two.
            monitor: Monitor::open()?,
            ears,
            carried: (!options.carried.is_empty()).then(|| Tap::open(Kind::Carried)).transpose()?,
            busy_poll: options.busy_poll,
            awake_until: Time::ZERO,
            cores,
            exit: Exit::open()?,
            executor,
            interfaces: options.interfaces,
            every_address: options.every_address,
            links: few::VecMap::new(),
            carrier_losses: few::VecMap::new(),
            carriers: Carriers::open()?,
            device: options.device,
            attached: few::VecSet::new(),
            addresses: few::VecSet::new(),
            recalled: recalled.records,
            subflows: None,
            // Opened before the chains are read, so that no change falls between the two.
            filters: Changes::open().ok(),
            firewall: Watch::new(options.firewall),
            queue: Vec::new(),
            shim_watched: false,
            repair_at: None,
            repair_pause: REPAIR.0,
            unsent: Unsent::default(),
            unsent_told: None,
            compare_at: None,
        };
        recalled.notices.into_iter().chain(lesser).chain(asleep).for_each(|text| host.executor.notice(text));
        host.register()?;
        host.bring(Input::Clock(host.clock.wall()));
        // Before the first packet is taken off an interface.
        host.look_for_firewalls()?;
        host.read_tables()?;
        Ok(host)
    }

    /// Time since the host was opened.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// What the journal remembers of an earlier life, for [`roam6_proto::Order::Recall`]. Told once.
    pub fn take_recalled(&mut self) -> Vec<JournalRecord> {
        std::mem::take(&mut self.recalled)
    }

    /// Waits for something to happen, at most until `until` (`None`: for as long as it takes), and brings it. Brings a
    /// [`Input::Tick`] once `until` has come. Returns early, with nothing perhaps, when a signal was caught.
    pub fn wait(&mut self, until: Option<Time>) -> Result<Vec<Wake>, Error> {
        self.schedule_repair();
        let look_at = self.carriers.look_at(self.now());
        let own = [self.repair_at, self.compare_at, look_at, self.cores.look_at(), self.executor.wake_transport_at()];
        let others = [until, self.firewall.look_at(), self.unsent.due()];
        let until_any = own.into_iter().chain(others).flatten().min();
        let pending = !self.queue.is_empty() || until_any.is_some_and(|time| time <= self.now());
        self.clock.set_alarm(until_any)?;
        let mut events = [EpollEvent::empty(); READY];
        let count = self.await_events(&mut events, pending)?;
        // Interfaces and addresses come before the packets that came by them.
        let (news, packets) = events.into_iter().take(count).partition::<Vec<_>, _>(|event| event.data() <= MONITOR);
        news.into_iter().try_for_each(|event| self.take_event(event))?;
        self.look_at_carriers()?;
        packets.into_iter().try_for_each(|event| self.take_event(event))?;
        if self.firewall.look_at().is_some_and(|at| at <= self.now()) {
            self.look_for_firewalls()?;
        }
        let looked = self.cores.look(self.now());
        looked.unwrap_or_else(|error| self.executor.notice(error));
        self.executor.flush();
        self.send_again();
        self.executor.wake_transport(self.clock.now());
        self.repair()?;
        if until.is_some_and(|until| until <= self.now()) {
            self.bring(Input::Tick);
        }
        let reports = self.executor.take_reports();
        self.queue.extend(reports.into_iter().map(Wake::Report));
        Ok(std::mem::take(&mut self.queue))
    }

    /// How many events there are, without sleeping if something is `pending` anyway. A signal ends it.
    fn await_events(&self, events: &mut [EpollEvent], pending: bool) -> Result<usize, Error> {
        loop {
            let awake = !pending && self.now() < self.awake_until;
            let timeout = if pending || awake { EpollTimeout::ZERO } else { EpollTimeout::NONE };
            match self.epoll.wait(events, timeout) {
                Ok(0) if awake => core::hint::spin_loop(),
                Ok(count) => return Ok(count),
                Err(Errno::EINTR) => return Ok(0),
                Err(error) => return Err(error).context("epoll"),
            }
        }
    }

    /// Does what the engines want, in order. Returns one outcome for each `Put`, in their order; all records among them
    /// are on disk by then. Reports, the engines' and the host's own, go to `report`.
    pub fn execute(
        &mut self,
        outputs: impl IntoIterator<Item = Output>,
        mut report: impl FnMut(Report),
    ) -> Vec<Outcome> {
        for output in outputs {
            match output {
                Output::Transmit(transmit) => self.transmit(&transmit),
                Output::Put(item) => self.executor.put(item),
                Output::Drop(key) => self.executor.drop(&key),
                Output::ActivityQuery(sample) => {
                    let answer = self.executor.sample(self.clock.now(), &sample);
                    answer.into_iter().for_each(|activity| self.bring(Input::Activity(activity)));
                }
                Output::Frame(frame) => self.send_frame(frame),
                Output::Report(value) => report(value),
            }
        }
        self.flush_frames();
        let outcomes = self.executor.finish(self.clock.now());
        self.watch_shim();
        self.executor.take_reports().into_iter().for_each(report);
        outcomes
    }

    /// Removes what an earlier life has left and this one has not put again. To be called once, after
    /// [`roam6_proto::Order::Begin`] was carried out and the engines [are settled](roam6_proto::Engine::is_settled).
    pub fn settle(&mut self) -> Result<(), Error> {
        let first = if self.executor.is_adopting() { ADOPT } else { COMPARE };
        self.compare_at = Some(self.now() + first);
        self.executor.settle()
    }

    /// Removes everything that is ours, backwards. Goes on after an error and returns the first. The journal stays.
    pub fn clean(&mut self) -> Result<(), Error> {
        let cleaned = self.executor.clean();
        cleaned.and(self.ears.clean())
    }

    /// Packets by what became of them in the data plane, since the machine started.
    pub fn counters(&mut self) -> few::VecMap<String, u64> {
        self.executor.tunnels.counters()
    }

    /// The firewalls that forwarded packets meet, if the tunnels have a fast path that could pass them by.
    pub fn firewall(&self) -> Option<Firewall> {
        self.firewall.view()
    }

    /// From now on these are the names of the interfaces the roles use.
    pub fn use_interfaces(&mut self, interfaces: few::VecSet<String>) -> Result<(), Error> {
        self.interfaces = interfaces;
        self.read_tables()
    }

    /// Whether the engines want ESP that stands behind no other header, as of a mobile router at home. At first they do
    /// not; behind one they always get it.
    pub fn hear_esp(&self, wanted: bool) -> Result<(), Error> {
        self.ears.hear_esp(wanted)
    }

    /// Hears of the connections and subflows of the kernel's MPTCP from now on, and first of those there are.
    pub fn hear_subflows(&mut self) -> Result<(), Error> {
        let events = Events::open()?;
        self.epoll.add(&events, event(SUBFLOWS, Interest { read: true, write: false })).context("epoll")?;
        self.subflows = Some(events);
        self.read_subflows()
    }

    /// Waits for `fd` too; [`Wake::Ready`] bears `token`. The descriptor is forgotten when it is closed.
    pub fn watch(&mut self, fd: impl AsFd, token: u32, interest: Interest) -> Result<(), Error> {
        self.epoll.add(fd, event(DAEMON + u64::from(token), interest)).context("epoll")
    }

    /// Changes what of `fd` is waited for.
    pub fn rewatch(&mut self, fd: impl AsFd, token: u32, interest: Interest) -> Result<(), Error> {
        self.epoll.modify(fd, &mut event(DAEMON + u64::from(token), interest)).context("epoll")
    }

    /// Waits for `fd` no more.
    pub fn unwatch(&mut self, fd: impl AsFd) -> Result<(), Error> {
        self.epoll.delete(fd).context("epoll")
    }

    fn register(&self) -> Result<(), Error> {
        let read = Interest { read: true, write: false };
        let [signalling, feedback] = self.ears.fds();
        for (fd, token) in [
            (self.clock.alarm_fd(), ALARM),
            (self.clock.steps_fd(), STEPS),
            (self.monitor.as_fd(), MONITOR),
            (signalling, SIGNALLING),
            (feedback, FEEDBACK),
        ] {
            self.epoll.add(fd, event(token, read)).context("epoll")?;
        }
        if let Some(filters) = &self.filters {
            self.epoll.add(filters, event(FILTERS, read)).context("epoll")?;
        }
        match &self.carried {
            Some(tap) => self.epoll.add(tap, event(CARRIED, read)).context("epoll"),
            None => Ok(()),
        }
    }

    /// The shim is opened with its first item, its descriptor stays the same.
    fn watch_shim(&mut self) {
        let Some(fd) = self.executor.shim_fd().filter(|_| !self.shim_watched) else { return };
        let read = Interest { read: true, write: false };
        let watched = self.epoll.add(fd, event(SHIM, read)).context("epoll");
        self.shim_watched = true;
        if let Err(error) = watched {
            self.executor.notice(error);
        }
    }

    fn bring(&mut self, input: Input) {
        self.queue.push(Wake::Input(self.clock.now(), input));
    }

    fn take_event(&mut self, event: EpollEvent) -> Result<(), Error> {
        match event.data() {
            ALARM => self.clock.hear_alarm(),
            STEPS => {
                if let Some(wall) = self.clock.hear_step()? {
                    self.bring(Input::Clock(wall));
                }
            }
            MONITOR => self.hear()?,
            SIGNALLING => self.receive(0),
            SHIM => {
                let told = self.executor.hear_shim(self.clock.now());
                told.into_iter().for_each(|input| self.bring(input));
            }
            FEEDBACK => self.receive(1),
            SUBFLOWS => self.hear_of_subflows()?,
            FILTERS => self.hear_of_filters()?,
            CARRIED => self.receive_carried(),
            token if let Some(link) = Frames::door(token) => self.receive_frames(link),
            token => {
                let flags = event.events();
                let closed = EpollFlags::EPOLLHUP | EpollFlags::EPOLLERR;
                self.queue.push(Wake::Ready(Ready {
                    token: u32::try_from(token - DAEMON).unwrap_or(u32::MAX),
                    readable: flags.intersects(EpollFlags::EPOLLIN | EpollFlags::EPOLLRDHUP | closed),
                    writable: flags.intersects(EpollFlags::EPOLLOUT | closed),
                }));
            }
        }
        Ok(())
    }

    fn receive(&mut self, ear: usize) {
        for _ in 0..BATCH {
            match self.ears.receive(ear) {
                Ok(Some(packet)) if self.concerns_us(&packet) => {
                    self.executor.take_error(&packet.bytes);
                    self.bring(Input::Packet(packet));
                }
                Ok(Some(_)) => {}
                // An interface went down while we listened: told elsewhere.
                Ok(None) | Err(_) => return,
            }
        }
    }

    fn receive_frames(&mut self, link: LinkId) {
        let frames = self.executor.frames.receive(link, BATCH);
        let now = self.now();
        self.awake_until = now + self.busy_poll;
        let told = self.cores.hear(now);
        told.unwrap_or_else(|error| self.executor.notice(error));
        frames.into_iter().for_each(|frame| self.bring(Input::Frame(frame)));
    }

    fn receive_carried(&mut self) {
        for _ in 0..BATCH {
            match self.carried.as_mut().map(Tap::receive) {
                Some(Ok(Some(packet))) => self.bring(Input::Packet(packet)),
                _ => return,
            }
        }
    }

    /// Neighbour discovery and DHCPv6 matter on the interfaces in use, feedback if it is for us; the rest matters
    /// everywhere.
    fn concerns_us(&self, packet: &Packet) -> bool {
        const NEXT_HEADER: usize = 6;
        const ICMPV6: u8 = 58;
        const UDP: u8 = 17;
        let icmp_type = match packet.bytes.get(NEXT_HEADER) {
            Some(&ICMPV6) => packet.bytes.get(40).copied(),
            Some(&UDP) => return self.links.contains_key(&packet.link),
            _ => None,
        };
        match icmp_type {
            Some(133..=137) => self.links.contains_key(&packet.link),
            Some(1..=4 | 129) => {
                let destination: Option<[u8; 16]> = packet.bytes.get(24..40).and_then(|octets| octets.try_into().ok());
                destination.is_some_and(|address| self.holds(address.into()))
            }
            _ => true,
        }
    }

    fn holds(&self, address: Ipv6Addr) -> bool {
        self.addresses.range((address, LinkId(0))..=(address, LinkId(u32::MAX))).next().is_some()
    }

    fn transmit(&mut self, transmit: &Transmit) {
        self.executor.flush();
        self.try_to_send(transmit, 0);
    }

    /// Packets the kernel would not send a moment ago.
    fn send_again(&mut self) {
        for waiting in self.unsent.take_due(self.clock.now()) {
            self.try_to_send(&waiting.transmit, waiting.attempts + 1);
        }
    }

    /// Sends a packet after so many failed attempts, or keeps it for another one.
    fn try_to_send(&mut self, transmit: &Transmit, attempts: u32) {
        let link = match transmit.via {
            Via::Link(link) => self.links.get(&link).and_then(|link| link.address),
            _ => None,
        };
        let Err(error) = self.exit.send(transmit, link) else { return };
        if self.unsent.keep(self.clock.now(), transmit, attempts, &error) {
            return;
        }
        let way = match transmit.via {
            Via::Route => String::new(),
            Via::Link(link) | Via::Neighbour { link, .. } => format!(" by {link}"),
        };
        self.tell_unsent(format!("packet not sent{way}: {error}"));
    }

    fn send_frame(&mut self, frame: Frame) {
        let link = frame.link;
        if let Err(error) = self.executor.frames.send(frame) {
            self.tell_unsent(format!("frame not sent by {link}: {error}"));
        }
    }

    fn flush_frames(&mut self) {
        let mut failed = None;
        self.executor.frames.flush(|link, error| failed = Some((link, error)));
        if let Some((link, error)) = failed {
            self.tell_unsent(format!("frame not sent by {link}: {}", error.desc()));
        }
    }

    fn tell_unsent(&mut self, text: String) {
        let now = self.now();
        if self.unsent_told.is_none_or(|told| now.since(told) >= UNSENT) {
            self.unsent_told = Some(now);
            self.executor.notice(text);
        }
    }

    fn hear_of_subflows(&mut self) -> Result<(), Error> {
        let Some(events) = &mut self.subflows else { return Ok(()) };
        let heard = events.hear(BATCH)?;
        heard.events.into_iter().for_each(|event| self.bring(Input::Subflow(event)));
        if heard.lost {
            self.executor
                .notice("the kernel told of more subflows than could be heard; those that stand are read anew");
            self.read_subflows()?;
        }
        Ok(())
    }

    /// Chains that come may be those of a firewall. Whoever sets up one anew takes all tables away, ours too.
    fn hear_of_filters(&mut self) -> Result<(), Error> {
        let changed = self.filters.as_ref().map(Changes::hear).unwrap_or_default();
        if changed.chains {
            self.look_for_firewalls()?;
        }
        if !changed.removed {
            return Ok(());
        }
        for repaired in [self.ears.repair(), self.executor.repair_guards()] {
            match repaired {
                Ok(true) => self.executor.notice("put rules of the packet filter again that others had removed"),
                Ok(false) => {}
                Err(error) => self.executor.notice(error),
            }
        }
        Ok(())
    }

    fn look_for_firewalls(&mut self) -> Result<(), Error> {
        let news = self.firewall.look(self.clock.now(), self.executor.tunnels.as_mut())?;
        news.into_iter().for_each(|text| self.executor.notice(text));
        Ok(())
    }

    fn read_subflows(&mut self) -> Result<(), Error> {
        for event in diag::connections()?.iter().flat_map(Connection::events) {
            self.bring(Input::Subflow(event));
        }
        Ok(())
    }

    fn hear(&mut self) -> Result<(), Error> {
        for _ in 0..BATCH {
            let news = self.monitor.hear()?;
            if news.is_empty() {
                break;
            }
            for news in news {
                self.take_news(news)?;
            }
        }
        Ok(())
    }

    fn take_news(&mut self, news: News) -> Result<(), Error> {
        self.executor.note_gone(&news);
        match news {
            // It may have changed again since that was told.
            News::Link(event, _) if self.links.contains_key(&event.link) => self.look_at(event.link)?,
            News::Link(event, losses) => self.take_link(event, losses)?,
            News::LinkGone(link) => {
                self.detach(link);
                self.lose_link(link);
            }
            News::Address(event, _) => self.take_address(event),
            News::Rerouted => self.executor.note_rerouted(),
            News::Neighbour(event) if self.links.contains_key(&event.link) => self.bring(Input::Neighbour(event)),
            News::DefaultRoute(event) => {
                self.executor.note_rerouted();
                if self.links.contains_key(&event.link) {
                    self.bring(Input::Route(event));
                }
            }
            News::Lost => {
                self.executor.notice("the kernel announced more than could be heard; all tables are read anew");
                self.read_tables()?;
                self.executor.note_rerouted();
                let links: Vec<LinkId> = self.links.keys().copied().collect();
                links.into_iter().try_for_each(|link| self.read_default_routes(link))?;
                if self.compare_at.is_some() {
                    self.executor.compare()?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// `losses` counts how often the interface has lost its carrier: it may be back before the kernel tells that it was
    /// gone, on another network.
    fn take_link(&mut self, event: LinkEvent, losses: u32) -> Result<(), Error> {
        self.attach(&event);
        if !self.interfaces.contains(&event.name) {
            self.lose_link(event.link);
            return Ok(());
        }
        let former = self.links.insert(event.link, event.clone());
        let seen = self.carrier_losses.insert(event.link, losses);
        if former.as_ref().is_some_and(|former| former.up != event.up) || seen.is_some_and(|seen| seen != losses) {
            self.carriers.note_change(self.clock.now());
            self.executor.give_up(event.link, None).unwrap_or_else(|error| self.executor.notice(error));
        }
        if event.up && former.as_ref().is_some_and(|former| former.up) && seen.is_some_and(|seen| seen != losses) {
            self.bring(Input::Link(LinkEvent { up: false, ..event.clone() }));
        } else if former.as_ref() == Some(&event) {
            return Ok(());
        }
        if former.is_none()
            && let Err(error) = self.ears.hear_multicast(event.link)
        {
            self.executor.notice(error);
        }
        if event.up && former.is_some() {
            self.executor.restore(event.link);
            self.repair_pause = REPAIR.0;
        }
        let (link, up) = (event.link, event.up);
        self.bring(Input::Link(event));
        if up {
            self.read_default_routes(link)?;
        }
        Ok(())
    }

    /// Whatever we are awake for: the kernel may know more of interfaces than it has told.
    fn look_at_carriers(&mut self) -> Result<(), Error> {
        if !self.carriers.begin(self.now()) {
            return Ok(());
        }
        let links: Vec<LinkId> = self.links.keys().copied().collect();
        links.into_iter().try_for_each(|link| self.look_at(link))
    }

    fn look_at(&mut self, link: LinkId) -> Result<(), Error> {
        match self.carriers.look(link)? {
            Some(News::Link(event, losses)) => self.take_link(event, losses),
            _ => Ok(()),
        }
    }

    /// Engines forget them with the carrier; the kernel keeps those an operator made.
    fn read_default_routes(&mut self, link: LinkId) -> Result<(), Error> {
        for message in Netlink::open()?.dump(route::dump_by(link))? {
            if let Some(News::DefaultRoute(event)) = monitor::read(&message) {
                self.bring(Input::Route(event));
            }
        }
        Ok(())
    }

    /// Tunnels take packets off every interface but loopback and their own: peers may reach a home agent by any.
    fn attach(&mut self, event: &LinkEvent) {
        if event.link == LinkId::LOOPBACK || event.name == self.device || !self.attached.insert(event.link) {
            return;
        }
        if let Err(error) = self.executor.tunnels.attach(event.link, &event.name) {
            self.executor.notice(format!("{}: {error}", event.name));
        }
    }

    fn detach(&mut self, link: LinkId) {
        if self.attached.remove(&link) {
            self.executor.tunnels.detach(link);
        }
    }

    fn lose_link(&mut self, link: LinkId) {
        self.exit.forget(link);
        self.carrier_losses.remove(&link);
        if let Some(event) = self.links.remove(&link) {
            self.bring(Input::Link(LinkEvent { up: false, ..event }));
        }
    }

    fn take_address(&mut self, event: AddressEvent) {
        let place = (event.address, event.link);
        match event.state {
            AddressState::Removed => self.forget_address(place),
            _ => drop(self.addresses.insert(place)),
        }
        if self.every_address || self.links.contains_key(&event.link) {
            self.bring(Input::Address(event));
        }
    }

    /// With its last IPv4 address an interface loses what else it has of IPv4, and when somebody switches IPv6 off it loses
    /// all of that; what it answers for goes without a word from the kernel.
    fn forget_address(&mut self, place: (Ipv6Addr, LinkId)) {
        self.addresses.remove(&place);
        let (address, link) = place;
        let is_ipv4 = |address: Ipv6Addr| address.to_ipv4_mapped().is_some();
        let alike = |other: &(Ipv6Addr, LinkId)| other.1 == link && is_ipv4(other.0) == is_ipv4(address);
        if !self.addresses.iter().any(alike) {
            self.executor.note_family_gone(link, is_ipv4(address));
        }
    }

    /// Reads interfaces and addresses, and brings what is new in them.
    fn read_tables(&mut self) -> Result<(), Error> {
        let mut netlink = Netlink::open()?;
        let (mut links, mut addresses) = (few::VecSet::new(), few::VecSet::new());
        let mut messages = netlink.dump(link::dump())?;
        for addresses in family::BOTH.map(address::dump) {
            messages.extend(netlink.dump(addresses)?);
        }
        for news in messages.into_iter().filter_map(|message| monitor::read(&message)) {
            match news {
                News::Link(event, losses) => {
                    links.insert(event.link);
                    self.take_link(event, losses)?;
                }
                News::Address(event, _) => {
                    addresses.insert((event.address, event.link));
                    self.take_address(event);
                }
                _ => {}
            }
        }
        let lost: Vec<LinkId> = self.attached.difference(&links).copied().collect();
        for link in lost {
            self.detach(link);
            self.lose_link(link);
        }
        let lost: Vec<_> = self.addresses.difference(&addresses).copied().collect();
        for (address, link) in lost {
            self.take_address(AddressEvent { link, address, state: AddressState::Removed });
        }
        Ok(())
    }

    fn schedule_repair(&mut self) {
        if self.repair_at.is_none() && self.executor.is_incomplete() {
            self.repair_at = Some(self.now() + self.repair_pause);
        }
    }

    /// Puts again what others removed, ever more seldom while it is refused; and compares all when nothing else happens.
    fn repair(&mut self) -> Result<(), Error> {
        let now = self.now();
        if self.repair_at.is_some_and(|at| at <= now) {
            self.repair_at = None;
            let repaired = self.executor.repair();
            self.repair_pause = if repaired > 0 { REPAIR.0 } else { (self.repair_pause * 2).min(REPAIR.1) };
        }
        if self.compare_at.is_some_and(|at| at <= now) {
            let quiet = self.queue.is_empty();
            self.compare_at = Some(now + if quiet { COMPARE } else { REPAIR.0 });
            if quiet {
                self.executor.end_adoption();
                self.executor.compare()?;
            }
        }
        Ok(())
    }
}

/// Two daemons in one network namespace would take each other's routes for remains of an earlier life. The kernel frees
/// the name when its holder ends, however that comes about.
fn be_alone() -> Result<UnixDatagram, Error> {
    let address = SocketAddr::from_abstract_name("roam6");
    address
        .and_then(|address| UnixDatagram::bind_addr(&address))
        .context("another roam6 runs in this network namespace")
}

fn event(token: u64, interest: Interest) -> EpollEvent {
    let mut flags = EpollFlags::empty();
    flags.set(EpollFlags::EPOLLIN | EpollFlags::EPOLLRDHUP, interest.read);
    flags.set(EpollFlags::EPOLLOUT, interest.write);
    EpollEvent::new(flags, token)
}
