//! One host, as the daemon's loop sees it: [`Host::wait`] brings what happened, [`Host::execute`] does what the engines
//! want. The daemon's own descriptors may be waited for in the same place ([`Host::watch`]).

use crate::apply::Executor;
use crate::backend::{self, Backend};
use crate::clock::Clock;
use crate::cpu_latency::CpuLatency;
use crate::error::{Context, Error};
use crate::firewall::{self, Firewall, FirewallMonitor};
use crate::io::frames::Frames;
use crate::io::packet_socket::{PacketFilter, PacketSocket};
use crate::io::raw_sender::RawSender;
use crate::io::receiver::Receiver;
use crate::io::retry_queue::RetryQueue;
use crate::journal::Journal;
use crate::link_watch::LinkWatch;
use crate::mptcp::diag::{self, Connection};
use crate::mptcp::events::SubflowEvents;
use crate::nesting::NestingWatch;
use crate::netlink::monitor::{self, Announcement, Monitor};
use crate::netlink::socket::Netlink;
use crate::netlink::{address, family, link, route};
use crate::nft::TableMonitor;
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
const MAX_EVENTS: usize = 32;
/// Shortest and longest time between two repairs of what others removed.
const REPAIR_PAUSE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(60));
/// Time between two comparisons of the whole plan with the kernel, which wait for a quiet moment.
const RECONCILE_INTERVAL: Duration = Duration::from_secs(300);
/// Time in which MPTCP endpoints of an earlier life must be put again: routers answer a solicitation sooner.
const ENDPOINT_ADOPTION: Duration = Duration::from_secs(10);
/// Shortest time between two reports of packets that could not be sent.
const SEND_ERROR_INTERVAL: Duration = Duration::from_secs(1);

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
    pub dsmip_addresses: few::VecSet<Ipv6Addr>,
    /// Most tunnels.
    pub max_tunnels: u32,
    /// Most contexts of the shim.
    pub max_contexts: u32,
    /// Whether a role wants packets that are not for this host, or that the kernel knows nothing of. The shim does not.
    pub packet_sockets: bool,
    /// Whether a role is told of the addresses of all interfaces, not of those in `interfaces` only.
    pub all_addresses: bool,
    /// How long after a frame the next is looked for without sleeping: to be woken costs more time than a frame does.
    pub busy_poll: Duration,
    /// How long after a frame no core sleeps.
    pub cpu_latency_hold: Duration,
}

/// Something [`Host::wait`] brings.
#[derive(Debug, Clone, PartialEq)]
pub enum HostEvent {
    /// For the engines, with the time it is to be stamped with; times never go backwards.
    Input(Time, Input),
    /// For the log: something the host itself has to say.
    Report(Report),
    /// A descriptor of the daemon's is ready.
    Ready(FdReady),
}

/// A descriptor is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FdReady {
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
    _instance_lock: UnixDatagram,
    clock: Clock,
    epoll: Epoll,
    monitor: Monitor,
    receiver: Receiver,
    /// Open where tunnels may be over IPv4.
    dsmip_socket: Option<PacketSocket>,
    busy_poll: Duration,
    /// Until when frames are looked for without sleeping.
    busy_poll_until: Time,
    cpu_latency: CpuLatency,
    sender: RawSender,
    executor: Executor,
    interfaces: few::VecSet<String>,
    links: few::VecMap<LinkId, LinkEvent>,
    carrier_losses: few::VecMap<LinkId, u32>,
    link_watch: LinkWatch,
    device: String,
    attached: few::VecSet<LinkId>,
    all_addresses: bool,
    addresses: few::VecSet<(Ipv6Addr, LinkId)>,
    recalled: Vec<JournalRecord>,
    subflow_events: Option<SubflowEvents>,
    /// Where there is no nftables nobody changes tables.
    nft_changes: Option<TableMonitor>,
    firewall: FirewallMonitor,
    /// Whether what the shim's programs tell is waited for.
    shim_registered: bool,
    queue: Vec<HostEvent>,
    repair_at: Option<Time>,
    repair_pause: Duration,
    retry_queue: RetryQueue,
    send_error_reported: Option<Time>,
    /// When to compare next; not before the host has settled.
    reconcile_at: Option<Time>,
    nesting: NestingWatch,
}

// Tokens of our own descriptors; those of the daemon's begin at DAEMON.
const ALARM: u64 = 0;
const CLOCK_STEPS: u64 = 1;
const NFT_CHANGES: u64 = 2;
const NETLINK: u64 = 3;
const SIGNALLING: u64 = 4;
const ICMP_ERRORS: u64 = 5;
const SUBFLOWS: u64 = 6;
const SHIM: u64 = 7;
const DSMIP: u64 = 8;
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
        let alone = lock_instance()?;
        let (journal, recalled) = Journal::open(&options.state_dir)?;
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).context("epoll")?;
        let executor = Executor::open(&options, journal, tunnels, &epoll)?;
        let (ears, lesser) = Receiver::open(options.packet_sockets)?;
        let (cores, asleep) = CpuLatency::open(options.cpu_latency_hold);
        let mut host = Host {
            _instance_lock: alone,
            clock: Clock::start()?,
            epoll,
            // Opened before the tables are read, so that no change falls between the two.
            monitor: Monitor::open()?,
            receiver: ears,
            dsmip_socket: (!options.dsmip_addresses.is_empty())
                .then(|| PacketSocket::open(PacketFilter::Dsmip))
                .transpose()?,
            busy_poll: options.busy_poll,
            busy_poll_until: Time::ZERO,
            cpu_latency: cores,
            sender: RawSender::open()?,
            executor,
            interfaces: options.interfaces,
            all_addresses: options.all_addresses,
            links: few::VecMap::new(),
            carrier_losses: few::VecMap::new(),
            link_watch: LinkWatch::open()?,
            device: options.device,
            attached: few::VecSet::new(),
            addresses: few::VecSet::new(),
            recalled: recalled.records,
            subflow_events: None,
            // Opened before the chains are read, so that no change falls between the two.
            nft_changes: TableMonitor::open().ok(),
            firewall: FirewallMonitor::new(options.firewall),
            queue: Vec::new(),
            shim_registered: false,
            repair_at: None,
            repair_pause: REPAIR_PAUSE.0,
            retry_queue: RetryQueue::default(),
            send_error_reported: None,
            reconcile_at: None,
            nesting: NestingWatch::default(),
        };
        recalled.notices.into_iter().chain(lesser).chain(asleep).for_each(|text| host.executor.notice(text));
        host.register()?;
        host.queue_input(Input::Clock(host.clock.wall()));
        // Before the first packet is taken off an interface.
        host.check_firewall()?;
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
    pub fn wait(&mut self, until: Option<Time>) -> Result<Vec<HostEvent>, Error> {
        self.schedule_repair();
        let look_at = self.link_watch.next_poll(self.now());
        let own = [
            self.repair_at,
            self.reconcile_at,
            look_at,
            self.cpu_latency.next_check(),
            self.executor.wake_transport_at(),
        ];
        let others = [until, self.firewall.next_check(), self.retry_queue.due()];
        let until_any = own.into_iter().chain(others).flatten().min();
        let pending = !self.queue.is_empty() || until_any.is_some_and(|time| time <= self.now());
        self.clock.set_alarm(until_any)?;
        let mut events = [EpollEvent::empty(); MAX_EVENTS];
        let count = self.await_events(&mut events, pending)?;
        // Interfaces and addresses come before the packets that came by them.
        let (news, packets) = events.into_iter().take(count).partition::<Vec<_>, _>(|event| event.data() <= NETLINK);
        news.into_iter().try_for_each(|event| self.dispatch(event))?;
        self.poll_links()?;
        packets.into_iter().try_for_each(|event| self.dispatch(event))?;
        if self.firewall.next_check().is_some_and(|at| at <= self.now()) {
            self.check_firewall()?;
        }
        let looked = self.cpu_latency.check(self.now());
        looked.unwrap_or_else(|error| self.executor.notice(error));
        self.executor.flush();
        self.retry_sends();
        self.executor.wake_transport(self.clock.now());
        self.repair()?;
        if until.is_some_and(|until| until <= self.now()) {
            self.queue_input(Input::Tick);
        }
        let tunnels = &mut self.executor.tunnels;
        let nested = self.nesting.look(self.clock.now(), || tunnels.counters().get("dropped_nested").copied());
        let reports = self.executor.take_reports().into_iter().chain(nested);
        self.queue.extend(reports.map(HostEvent::Report));
        Ok(std::mem::take(&mut self.queue))
    }

    /// How many events there are, without sleeping if something is `pending` anyway. A signal ends it.
    fn await_events(&self, events: &mut [EpollEvent], pending: bool) -> Result<usize, Error> {
        loop {
            let awake = !pending && self.now() < self.busy_poll_until;
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
                    answer.into_iter().for_each(|activity| self.queue_input(Input::Activity(activity)));
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
    pub fn remove_stale(&mut self) -> Result<(), Error> {
        let first = if self.executor.is_adopting() { ENDPOINT_ADOPTION } else { RECONCILE_INTERVAL };
        self.reconcile_at = Some(self.now() + first);
        self.executor.remove_stale()
    }

    /// Removes everything that is ours, backwards. Goes on after an error and returns the first. The journal stays.
    pub fn clean(&mut self) -> Result<(), Error> {
        let cleaned = self.executor.clean();
        cleaned.and(self.receiver.clean())
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
    pub fn receive_plain_esp(&self, wanted: bool) -> Result<(), Error> {
        self.receiver.receive_plain_esp(wanted)
    }

    /// Hears of the connections and subflows of the kernel's MPTCP from now on, and first of those there are.
    pub fn monitor_subflows(&mut self) -> Result<(), Error> {
        let events = SubflowEvents::open()?;
        self.epoll.add(&events, epoll_event(SUBFLOWS, Interest { read: true, write: false })).context("epoll")?;
        self.subflow_events = Some(events);
        self.dump_subflows()
    }

    /// Waits for `fd` too; [`Wake::Ready`] bears `token`. The descriptor is forgotten when it is closed.
    pub fn watch(&mut self, fd: impl AsFd, token: u32, interest: Interest) -> Result<(), Error> {
        self.epoll.add(fd, epoll_event(DAEMON + u64::from(token), interest)).context("epoll")
    }

    /// Changes what of `fd` is waited for.
    pub fn rewatch(&mut self, fd: impl AsFd, token: u32, interest: Interest) -> Result<(), Error> {
        self.epoll.modify(fd, &mut epoll_event(DAEMON + u64::from(token), interest)).context("epoll")
    }

    /// Waits for `fd` no more.
    pub fn unwatch(&mut self, fd: impl AsFd) -> Result<(), Error> {
        self.epoll.delete(fd).context("epoll")
    }

    fn register(&self) -> Result<(), Error> {
        let read = Interest { read: true, write: false };
        let [signalling, feedback] = self.receiver.fds();
        for (fd, token) in [
            (self.clock.alarm_fd(), ALARM),
            (self.clock.steps_fd(), CLOCK_STEPS),
            (self.monitor.as_fd(), NETLINK),
            (signalling, SIGNALLING),
            (feedback, ICMP_ERRORS),
        ] {
            self.epoll.add(fd, epoll_event(token, read)).context("epoll")?;
        }
        if let Some(filters) = &self.nft_changes {
            self.epoll.add(filters, epoll_event(NFT_CHANGES, read)).context("epoll")?;
        }
        match &self.dsmip_socket {
            Some(tap) => self.epoll.add(tap, epoll_event(DSMIP, read)).context("epoll"),
            None => Ok(()),
        }
    }

    /// The shim is opened with its first item, its descriptor stays the same.
    fn watch_shim(&mut self) {
        let Some(fd) = self.executor.shim_fd().filter(|_| !self.shim_registered) else { return };
        let read = Interest { read: true, write: false };
        let watched = self.epoll.add(fd, epoll_event(SHIM, read)).context("epoll");
        self.shim_registered = true;
        if let Err(error) = watched {
            self.executor.notice(error);
        }
    }

    fn queue_input(&mut self, input: Input) {
        self.queue.push(HostEvent::Input(self.clock.now(), input));
    }

    fn dispatch(&mut self, event: EpollEvent) -> Result<(), Error> {
        match event.data() {
            ALARM => self.clock.read_alarm(),
            CLOCK_STEPS => {
                if let Some(wall) = self.clock.read_step()? {
                    self.queue_input(Input::Clock(wall));
                }
            }
            NETLINK => self.read_netlink()?,
            SIGNALLING => self.receive(0),
            SHIM => {
                let told = self.executor.read_shim_events(self.clock.now());
                told.into_iter().for_each(|input| self.queue_input(input));
            }
            ICMP_ERRORS => self.receive(1),
            SUBFLOWS => self.read_subflow_events()?,
            NFT_CHANGES => self.read_nft_changes()?,
            DSMIP => self.receive_dsmip(),
            token if let Some(link) = Frames::link_of_token(token) => self.receive_frames(link),
            token => {
                let flags = event.events();
                let closed = EpollFlags::EPOLLHUP | EpollFlags::EPOLLERR;
                self.queue.push(HostEvent::Ready(FdReady {
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
            match self.receiver.receive(ear) {
                Ok(Some(packet)) if self.is_for_engines(&packet) => {
                    self.executor.translate_icmp_error(&packet.bytes);
                    self.queue_input(Input::Packet(packet));
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
        self.busy_poll_until = now + self.busy_poll;
        let told = self.cpu_latency.note_frame(now);
        told.unwrap_or_else(|error| self.executor.notice(error));
        frames.into_iter().for_each(|frame| self.queue_input(Input::Frame(frame)));
    }

    fn receive_dsmip(&mut self) {
        for _ in 0..BATCH {
            match self.dsmip_socket.as_mut().map(PacketSocket::receive) {
                Some(Ok(Some(packet))) => self.queue_input(Input::Packet(packet)),
                _ => return,
            }
        }
    }

    /// Neighbour discovery and DHCPv6 matter on the interfaces in use, feedback if it is for us; the rest matters
    /// everywhere.
    fn is_for_engines(&self, packet: &Packet) -> bool {
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
                destination.is_some_and(|address| self.has_address(address.into()))
            }
            _ => true,
        }
    }

    fn has_address(&self, address: Ipv6Addr) -> bool {
        self.addresses.range((address, LinkId(0))..=(address, LinkId(u32::MAX))).next().is_some()
    }

    fn transmit(&mut self, transmit: &Transmit) {
        self.executor.flush();
        self.try_to_send(transmit, 0);
    }

    /// Packets the kernel would not send a moment ago.
    fn retry_sends(&mut self) {
        for waiting in self.retry_queue.take_due(self.clock.now()) {
            self.try_to_send(&waiting.transmit, waiting.attempts + 1);
        }
    }

    /// Sends a packet after so many failed attempts, or keeps it for another one.
    fn try_to_send(&mut self, transmit: &Transmit, attempts: u32) {
        let link = match transmit.via {
            Via::Link(link) => self.links.get(&link).and_then(|link| link.address),
            _ => None,
        };
        let Err(error) = self.sender.send(transmit, link) else { return };
        if self.retry_queue.push(self.clock.now(), transmit, attempts, &error) {
            return;
        }
        let way = match transmit.via {
            Via::Route => String::new(),
            Via::Link(link) | Via::Neighbour { link, .. } => format!(" by {link}"),
        };
        self.report_send_error(format!("packet not sent{way}: {error}"));
    }

    fn send_frame(&mut self, frame: Frame) {
        let link = frame.link;
        if let Err(error) = self.executor.frames.send(frame) {
            self.report_send_error(format!("frame not sent by {link}: {error}"));
        }
    }

    fn flush_frames(&mut self) {
        let mut failed = None;
        self.executor.frames.flush(|link, error| failed = Some((link, error)));
        if let Some((link, error)) = failed {
            self.report_send_error(format!("frame not sent by {link}: {}", error.desc()));
        }
    }

    fn report_send_error(&mut self, text: String) {
        let now = self.now();
        if self.send_error_reported.is_none_or(|told| now.since(told) >= SEND_ERROR_INTERVAL) {
            self.send_error_reported = Some(now);
            self.executor.notice(text);
        }
    }

    fn read_subflow_events(&mut self) -> Result<(), Error> {
        let Some(events) = &mut self.subflow_events else { return Ok(()) };
        let heard = events.receive(BATCH)?;
        heard.events.into_iter().for_each(|event| self.queue_input(Input::Subflow(event)));
        if heard.lost {
            self.executor.notice("netlink receive buffer overrun: MPTCP subflows are read again");
            self.dump_subflows()?;
        }
        Ok(())
    }

    /// Chains that come may be those of a firewall. Whoever sets up one anew takes all tables away, ours too.
    fn read_nft_changes(&mut self) -> Result<(), Error> {
        let changed = self.nft_changes.as_ref().map(TableMonitor::read).unwrap_or_default();
        if changed.chains {
            self.check_firewall()?;
        }
        if !changed.removed {
            return Ok(());
        }
        for repaired in [self.receiver.repair(), self.executor.repair_source_filters()] {
            match repaired {
                Ok(true) => self.executor.notice("restored nftables rules that another program had removed"),
                Ok(false) => {}
                Err(error) => self.executor.notice(error),
            }
        }
        Ok(())
    }

    fn check_firewall(&mut self) -> Result<(), Error> {
        let news = self.firewall.check(self.clock.now(), self.executor.tunnels.as_mut())?;
        news.into_iter().for_each(|text| self.executor.notice(text));
        Ok(())
    }

    fn dump_subflows(&mut self) -> Result<(), Error> {
        for event in diag::connections()?.iter().flat_map(Connection::events) {
            self.queue_input(Input::Subflow(event));
        }
        Ok(())
    }

    fn read_netlink(&mut self) -> Result<(), Error> {
        for _ in 0..BATCH {
            let news = self.monitor.receive()?;
            if news.is_empty() {
                break;
            }
            for news in news {
                self.handle_announcement(news)?;
            }
        }
        Ok(())
    }

    fn handle_announcement(&mut self, news: Announcement) -> Result<(), Error> {
        self.executor.note_removed(&news);
        match news {
            // It may have changed again since that was told.
            Announcement::Link(event, _) if self.links.contains_key(&event.link) => self.poll_link(event.link)?,
            Announcement::Link(event, losses) => self.handle_link(event, losses)?,
            Announcement::LinkRemoved(link) => {
                self.detach(link);
                self.handle_link_loss(link);
            }
            Announcement::Address(event, _) => self.handle_address(event),
            Announcement::RoutesChanged => self.executor.note_underlay_change(),
            Announcement::Neighbour(event) if self.links.contains_key(&event.link) => {
                self.queue_input(Input::Neighbour(event))
            }
            Announcement::DefaultRoute(event) => {
                self.executor.note_underlay_change();
                if self.links.contains_key(&event.link) {
                    self.queue_input(Input::Route(event));
                }
            }
            Announcement::Overrun => {
                self.executor.notice("netlink receive buffer overrun: resynchronising links, addresses and routes");
                self.read_tables()?;
                self.executor.note_underlay_change();
                let links: Vec<LinkId> = self.links.keys().copied().collect();
                links.into_iter().try_for_each(|link| self.read_default_routes(link))?;
                if self.reconcile_at.is_some() {
                    self.executor.reconcile()?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// `losses` counts how often the interface has lost its carrier: it may be back before the kernel tells that it was
    /// gone, on another network.
    fn handle_link(&mut self, event: LinkEvent, losses: u32) -> Result<(), Error> {
        self.attach(&event);
        if !self.interfaces.contains(&event.name) {
            self.handle_link_loss(event.link);
            return Ok(());
        }
        let former = self.links.insert(event.link, event.clone());
        let seen = self.carrier_losses.insert(event.link, losses);
        if former.as_ref().is_some_and(|former| former.up != event.up) || seen.is_some_and(|seen| seen != losses) {
            self.link_watch.note_change(self.clock.now());
            self.executor.fail_pending_neighbours(event.link, None).unwrap_or_else(|error| self.executor.notice(error));
        }
        if event.up && former.as_ref().is_some_and(|former| former.up) && seen.is_some_and(|seen| seen != losses) {
            self.queue_input(Input::Link(LinkEvent { up: false, ..event.clone() }));
        } else if former.as_ref() == Some(&event) {
            return Ok(());
        }
        if former.is_none()
            && let Err(error) = self.receiver.receive_all_multicast(event.link)
        {
            self.executor.notice(error);
        }
        if event.up && former.is_some() {
            self.executor.restore(event.link);
            self.repair_pause = REPAIR_PAUSE.0;
        }
        let (link, up) = (event.link, event.up);
        self.queue_input(Input::Link(event));
        if up {
            self.read_default_routes(link)?;
        }
        Ok(())
    }

    /// Whatever we are awake for: the kernel may know more of interfaces than it has told.
    fn poll_links(&mut self) -> Result<(), Error> {
        if !self.link_watch.begin_poll(self.now()) {
            return Ok(());
        }
        let links: Vec<LinkId> = self.links.keys().copied().collect();
        links.into_iter().try_for_each(|link| self.poll_link(link))
    }

    fn poll_link(&mut self, link: LinkId) -> Result<(), Error> {
        match self.link_watch.poll(link)? {
            Some(Announcement::Link(event, losses)) => self.handle_link(event, losses),
            _ => Ok(()),
        }
    }

    /// Engines forget them with the carrier; the kernel keeps those an operator made.
    fn read_default_routes(&mut self, link: LinkId) -> Result<(), Error> {
        for message in Netlink::open()?.dump(route::dump_default_routes(link))? {
            if let Some(Announcement::DefaultRoute(event)) = monitor::read(&message) {
                self.queue_input(Input::Route(event));
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

    fn handle_link_loss(&mut self, link: LinkId) {
        self.sender.close_link(link);
        self.carrier_losses.remove(&link);
        if let Some(event) = self.links.remove(&link) {
            self.queue_input(Input::Link(LinkEvent { up: false, ..event }));
        }
    }

    fn handle_address(&mut self, event: AddressEvent) {
        let place = (event.address, event.link);
        match event.state {
            AddressState::Removed => self.remove_address(place),
            _ => drop(self.addresses.insert(place)),
        }
        if self.all_addresses || self.links.contains_key(&event.link) {
            self.queue_input(Input::Address(event));
        }
    }

    /// With its last IPv4 address an interface loses what else it has of IPv4, and when somebody switches IPv6 off it loses
    /// all of that; what it answers for goes without a word from the kernel.
    fn remove_address(&mut self, place: (Ipv6Addr, LinkId)) {
        self.addresses.remove(&place);
        let (address, link) = place;
        let is_ipv4 = |address: Ipv6Addr| address.to_ipv4_mapped().is_some();
        let alike = |other: &(Ipv6Addr, LinkId)| other.1 == link && is_ipv4(other.0) == is_ipv4(address);
        if !self.addresses.iter().any(alike) {
            self.executor.note_family_removed(link, is_ipv4(address));
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
                Announcement::Link(event, losses) => {
                    links.insert(event.link);
                    self.handle_link(event, losses)?;
                }
                Announcement::Address(event, _) => {
                    addresses.insert((event.address, event.link));
                    self.handle_address(event);
                }
                _ => {}
            }
        }
        let lost: Vec<LinkId> = self.attached.difference(&links).copied().collect();
        for link in lost {
            self.detach(link);
            self.handle_link_loss(link);
        }
        let lost: Vec<_> = self.addresses.difference(&addresses).copied().collect();
        for (address, link) in lost {
            self.handle_address(AddressEvent { link, address, state: AddressState::Removed });
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
            self.repair_pause = if repaired > 0 { REPAIR_PAUSE.0 } else { (self.repair_pause * 2).min(REPAIR_PAUSE.1) };
        }
        if self.reconcile_at.is_some_and(|at| at <= now) {
            let quiet = self.queue.is_empty();
            self.reconcile_at = Some(now + if quiet { RECONCILE_INTERVAL } else { REPAIR_PAUSE.0 });
            if quiet {
                self.executor.end_adoption();
                self.executor.reconcile()?;
            }
        }
        Ok(())
    }
}

/// Two daemons in one network namespace would take each other's routes for remains of an earlier life. The kernel frees
/// the name when its holder ends, however that comes about.
fn lock_instance() -> Result<UnixDatagram, Error> {
    let address = SocketAddr::from_abstract_name("roam6");
    address
        .and_then(|address| UnixDatagram::bind_addr(&address))
        .context("another roam6 runs in this network namespace")
}

fn epoll_event(token: u64, interest: Interest) -> EpollEvent {
    let mut flags = EpollFlags::empty();
    flags.set(EpollFlags::EPOLLIN | EpollFlags::EPOLLRDHUP, interest.read);
    flags.set(EpollFlags::EPOLLOUT, interest.write);
    EpollEvent::new(flags, token)
}
