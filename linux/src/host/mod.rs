//! The host, for the daemon's event loop: [`Host::wait`] returns what happened, [`Host::execute`] executes what the engines
//! output. The daemon's own descriptors are waited for in the same place ([`Host::watch`]).

#[cfg(feature = "dcc")]
mod channels;
mod event_loop;
mod hints;
mod interception;
mod interfaces;
mod receive;
mod repair;
mod transmit;

pub use event_loop::{FdReady, HostEvent, Interest};

use crate::apply::Executor;
use crate::backend;
use crate::clock::Clock;
use crate::error::{Context, Error};
use crate::firewall::{Firewall, FirewallMonitor};
use crate::io::packet_socket::{PacketFilter, PacketSocket};
use crate::io::raw_sender::RawSender;
use crate::io::receiver::Receiver;
use crate::io::retry_queue::RetryQueue;
use crate::io::router_cache::RouterCache;
use crate::journal::Journal;
use crate::link_watch::LinkWatch;
use crate::mptcp::events::SubflowEvents;
use crate::nesting::NestingWatch;
use crate::netlink::monitor::Monitor;
use crate::nft::TableMonitor;
use crate::options::HostOptions;
use crate::tuning::cpu_latency::CpuLatency;
use crate::tunnel::Tunnels;
#[cfg(feature = "bpf")]
use crate::wireguard::PublicKeys;
use core::time::Duration;
use event_loop::{SUBFLOWS, epoll_event};
use interception::InterceptionChecks;
use nix::sys::epoll::{Epoll, EpollCreateFlags};
use repair::{ENDPOINT_ADOPTION, RECONCILE_INTERVAL, REPAIR_PAUSE};
use roam6_proto::base::vec_map::VecMap;
use roam6_proto::base::vec_set::VecSet;
use roam6_proto::contract::item::JournalRecord;
use roam6_proto::{Input, LinkEvent, LinkId, Outcome, Output, Report, Time};
use std::net::Ipv6Addr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Most packets received from one socket, and most announcements read, before the engines get them.
const BATCH: usize = 64;

/// The host: its clock, sockets, interfaces, and the plan that is installed on it.
pub struct Host {
    _instance_lock: UnixDatagram,
    clock: Clock,
    epoll: Epoll,
    monitor: Monitor,
    receiver: Receiver,
    /// Open where tunnels may be over IPv4.
    /// For tunnels over IPv4, the signalling first.
    ipv4_sockets: Option<[PacketSocket; 2]>,
    busy_poll: Duration,
    /// Until when frames are polled for without sleeping.
    busy_poll_until: Time,
    cpu_latency: CpuLatency,
    sender: RawSender,
    #[cfg(feature = "geo-security")]
    signing_keys: crate::signature::SigningKeys,
    #[cfg(feature = "dcc")]
    channel_meter: Option<crate::channel_meter::ChannelMeter>,
    executor: Executor,
    interfaces: VecSet<String>,
    links: VecMap<LinkId, LinkEvent>,
    carrier_losses: VecMap<LinkId, u32>,
    link_watch: LinkWatch,
    device: String,
    attached: VecSet<LinkId>,
    all_addresses: bool,
    addresses: VecSet<(Ipv6Addr, LinkId)>,
    recalled: Vec<JournalRecord>,
    subflow_events: Option<SubflowEvents>,
    /// Without nftables no tables change.
    nft_changes: Option<TableMonitor>,
    firewall: FirewallMonitor,
    /// Whether the descriptor of the shim's events is registered.
    shim_registered: bool,
    queue: Vec<HostEvent>,
    repair_at: Option<Time>,
    repair_pause: Duration,
    /// When the sysctls were last compared.
    sysctls_checked: Time,
    retry_queue: RetryQueue,
    routers: RouterCache,
    send_error_reported: Option<Time>,
    /// When to reconcile next; not before stale items are removed.
    reconcile_at: Option<Time>,
    nesting: NestingWatch,
    interception_checks: InterceptionChecks,
}

impl Host {
    /// Opens all sockets. Nothing on the host changes yet, except that with packet sockets the kernel's ICMP errors for
    /// mobility messages are suppressed. The first [`Host::wait`] returns the wall clock, and the present interfaces
    /// and addresses.
    ///
    /// # Errors
    /// The kernel's, or the journal's; or another instance runs in this network namespace.
    pub fn new(options: HostOptions) -> Result<Host, Error> {
        let tunnels = backend::open(&options)?;
        Host::with_tunnels(options, tunnels)
    }

    /// [`Host::new`] with another tunnel back end than that of the options.
    ///
    /// # Errors
    /// As of [`Host::new`].
    pub fn with_tunnels(options: HostOptions, tunnels: Box<dyn Tunnels + Send>) -> Result<Host, Error> {
        let instance_lock = lock_instance()?;
        let (journal, recalled) = Journal::open(&options.state_dir)?;
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).context("epoll")?;
        let executor = Executor::open(&options, journal, tunnels, &epoll)?;
        let (receiver, fallback) = Receiver::open(options.packet_sockets)?;
        let (cpu_latency, unavailable) = CpuLatency::open(options.cpu_latency_hold);
        let mut host = Host {
            _instance_lock: instance_lock,
            clock: Clock::start()?,
            epoll,
            // Opened before the tables are read, so that no change falls between the two.
            monitor: Monitor::open()?,
            receiver,
            ipv4_sockets: ipv4_sockets(!options.dsmip_addresses.is_empty())?,
            busy_poll: options.busy_poll,
            busy_poll_until: Time::ZERO,
            cpu_latency,
            sender: RawSender::open()?,
            #[cfg(feature = "geo-security")]
            signing_keys: options.signing_keys,
            #[cfg(feature = "dcc")]
            channel_meter: None,
            executor,
            interfaces: options.interfaces,
            all_addresses: options.all_addresses,
            links: VecMap::new(),
            carrier_losses: VecMap::new(),
            link_watch: LinkWatch::open()?,
            device: options.device,
            attached: VecSet::new(),
            addresses: VecSet::new(),
            recalled: recalled.records,
            subflow_events: None,
            // Opened before the chains are read, so that no change falls between the two.
            nft_changes: TableMonitor::open().ok(),
            firewall: FirewallMonitor::new(options.firewall),
            queue: Vec::new(),
            shim_registered: false,
            repair_at: None,
            sysctls_checked: Time::ZERO,
            repair_pause: REPAIR_PAUSE.0,
            retry_queue: RetryQueue::default(),
            routers: RouterCache::default(),
            send_error_reported: None,
            reconcile_at: None,
            nesting: NestingWatch::default(),
            interception_checks: InterceptionChecks::default(),
        };
        recalled.notices.into_iter().chain(fallback).chain(unavailable).for_each(|text| host.executor.notice(text));
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

    /// The records of an earlier daemon, for [`LifecycleCommand::RestoreJournal`]; empty on the second call.
    pub fn take_recalled(&mut self) -> Vec<JournalRecord> {
        std::mem::take(&mut self.recalled)
    }

    /// Executes outputs of the engines, in order. Returns one outcome for each `Put`, in their order; all records among
    /// them are on disk by then. Reports, of the engines and of the host, go to `report`.
    pub fn execute(
        &mut self,
        outputs: impl IntoIterator<Item = Output>,
        mut report: impl FnMut(Report),
    ) -> Vec<Outcome> {
        for output in outputs {
            match output {
                Output::Transmit(transmit) => self.transmit(&transmit),
                Output::Put(put) => self.executor.put(put),
                Output::Drop(key) => self.executor.drop(&key),
                Output::ActivityQuery(sample) => {
                    let activity = self.executor.sample(self.clock.now(), &sample);
                    activity.into_iter().for_each(|activity| self.queue_input(Input::Activity(activity)));
                }
                Output::LinkTrafficQuery(link) => {
                    // An interface that is gone is announced by a link event.
                    let traffic = self.link_watch.traffic(link).ok().flatten();
                    traffic.into_iter().for_each(|traffic| self.queue_input(Input::LinkTraffic(traffic)));
                }
                Output::PathTrafficQuery(query) => {
                    let read = self.executor.tunnels.path_traffic(self.clock.now(), &query);
                    match read {
                        Ok(paths) => paths.into_iter().for_each(|path| self.queue_input(Input::PathTraffic(path))),
                        Err(error) => self.executor.notice(error),
                    }
                }
                Output::InterceptionQuery(link) => self.check_interception(link),
                Output::Frame(frame) => self.send_frame(frame),
                #[cfg(feature = "dcc")]
                Output::ChannelUseQuery(link) => self.measure_channel(link),
                #[cfg(not(feature = "dcc"))]
                Output::ChannelUseQuery(_) => {}
                #[cfg(feature = "geo-security")]
                Output::Sign(request) => self.queue_input(Input::Signed(self.signing_keys.sign(&request))),
                #[cfg(feature = "geo-security")]
                Output::Verify(request) => self.queue_input(Input::Verified(crate::signature::verify(&request))),
                // An engine that asks for it comes with the feature.
                #[cfg(not(feature = "geo-security"))]
                Output::Verify(_) | Output::Sign(_) => {}
                Output::Report(value) => report(value),
            }
        }
        self.flush_frames();
        let outcomes = self.executor.finish(self.clock.now());
        self.watch_shim();
        self.executor.take_reports().into_iter().for_each(report);
        outcomes
    }

    /// Removes what an earlier daemon has left and this one has not put again. To be called once, after
    /// [`LifecycleCommand::JournalRestored`] was executed and the engines report
    /// [`roam6_proto::Engine::takeover_complete`].
    ///
    /// # Errors
    /// The kernel's.
    pub fn remove_stale(&mut self) -> Result<(), Error> {
        let first = if self.executor.mptcp.adopting { ENDPOINT_ADOPTION } else { RECONCILE_INTERVAL };
        self.reconcile_at = Some(self.now() + first);
        self.executor.remove_stale()
    }

    /// Removes all items of roam6, in reverse order, except the journal. Continues after an error and returns the
    /// first.
    ///
    /// # Errors
    /// The first of the kernel's.
    pub fn clean(&mut self) -> Result<(), Error> {
        let cleaned = self.executor.clean();
        cleaned.and(self.receiver.clean())
    }

    /// The packet counters of the data plane since the machine started.
    pub fn counters(&mut self) -> VecMap<String, u64> {
        self.executor.tunnels.counters()
    }

    /// Makes new keys for encrypted paths; those before are kept for as long as they are in use. The engines have to be told.
    ///
    /// # Errors
    /// No paths are encrypted; the keys before the present ones are still in use; or they cannot be written, and nothing has changed.
    #[cfg(feature = "bpf")]
    pub fn renew_keys(&mut self) -> Result<PublicKeys, Error> {
        self.executor.tunnels.renew_keys()
    }

    /// Whether the data plane sends packets of flows with two paths twice, and delivers copies once.
    pub fn replicates(&self) -> bool {
        self.executor.tunnels.replicates()
    }

    /// The firewalls on the forwarding path, if the tunnels have a fast path that could bypass them.
    pub fn firewall(&self) -> Option<Firewall> {
        self.firewall.view()
    }

    /// Replaces the names of the interfaces that the roles use.
    ///
    /// # Errors
    /// The kernel's, if the tables cannot be dumped.
    pub fn use_interfaces(&mut self, interfaces: VecSet<String>) -> Result<(), Error> {
        self.interfaces = interfaces;
        self.read_tables()
    }

    /// Sets whether the engines receive ESP right behind the IPv6 header, as from a mobile router at home; initially
    /// they do not. They always receive ESP behind another header.
    ///
    /// # Errors
    /// The kernel's, if it refuses the filter.
    pub fn receive_plain_esp(&self, wanted: bool) -> Result<(), Error> {
        self.receiver.receive_plain_esp(wanted)
    }

    /// Replaces the keys that sign GeoNetworking packets ([`crate::signature::SigningKeys::replace`]).
    #[cfg(feature = "geo-security")]
    pub fn replace_signing_keys(&mut self, keys: crate::signature::SigningKeys) {
        self.signing_keys.replace(keys);
    }

    /// Subscribes to the kernel's MPTCP events; existing connections and subflows come first.
    ///
    /// # Errors
    /// The kernel's, as where it has no MPTCP.
    pub fn monitor_subflows(&mut self) -> Result<(), Error> {
        let events = SubflowEvents::open()?;
        self.epoll.add(&events, epoll_event(SUBFLOWS, Interest { read: true, write: false })).context("epoll")?;
        self.subflow_events = Some(events);
        self.dump_subflows()
    }
}

fn ipv4_sockets(wanted: bool) -> Result<Option<[PacketSocket; 2]>, Error> {
    let open = || Ok([PacketSocket::open(PacketFilter::Dsmip)?, PacketSocket::open(PacketFilter::Icmp4Errors)?]);
    wanted.then(open).transpose()
}

/// Locks the network namespace: a second daemon would take the routes of the first for stale ones. The kernel releases
/// the name when its holder ends.
fn lock_instance() -> Result<UnixDatagram, Error> {
    let address = SocketAddr::from_abstract_name("roam6");
    address
        .and_then(|address| UnixDatagram::bind_addr(&address))
        .context("another roam6 runs in this network namespace")
}
