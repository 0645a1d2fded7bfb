//! The event loop: waits for descriptors and timers, and dispatches what happened.

use super::Host;
use crate::error::{Context, Error};
use crate::io::frames::Frames;
use nix::errno::Errno;
use nix::sys::epoll::{EpollEvent, EpollFlags, EpollTimeout};
use roam6_proto::{Input, Report, Time};
use std::os::fd::AsFd;

/// Most descriptors reported by one system call.
const MAX_EVENTS: usize = 32;
/// Most events of the fleet's store given to the engines at a time: packets must not wait for a whole snapshot.
#[cfg(feature = "fleet")]
const FLEET_BATCH: usize = 256;

/// An event from [`Host::wait`].
#[derive(Debug, Clone, PartialEq)]
pub enum HostEvent {
    /// Input of the engines, with its time stamp; time stamps never decrease.
    Input(Time, Input),
    /// A report of the host itself, for the log.
    Report(Report),
    /// A descriptor of the daemon is ready.
    Ready(FdReady),
}

/// A descriptor is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FdReady {
    /// The token given to [`Host::watch`].
    pub token: u32,
    /// Readable, or closed by the other end.
    pub readable: bool,
    /// Writable.
    pub writable: bool,
}

/// What to wait for on a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interest {
    /// Until it is readable.
    pub read: bool,
    /// Until it is writable.
    pub write: bool,
}

// Tokens of the descriptors of the host itself; those of the daemon begin at DAEMON.
pub(super) const ALARM: u64 = 0;
pub(super) const CLOCK_STEPS: u64 = 1;
pub(super) const NFT_CHANGES: u64 = 2;
pub(super) const NETLINK: u64 = 3;
pub(super) const SIGNALLING: u64 = 4;
pub(super) const ICMP_ERRORS: u64 = 5;
pub(super) const SUBFLOWS: u64 = 6;
pub(super) const SHIM: u64 = 7;
pub(super) const DSMIP: u64 = 8;
pub(super) const PATHS: u64 = 9;
pub(super) const ICMP4_ERRORS: u64 = 10;
pub(super) const PORTALS: u64 = 11;
#[cfg(feature = "fleet")]
pub(super) const FLEET: u64 = 12;
#[cfg(feature = "dcc")]
pub(super) const CHANNELS: u64 = 13;
pub(super) const DAEMON: u64 = 16;

impl Host {
    /// Waits for events, until `until` at the latest (`None`: indefinitely). Returns an [`Input::Tick`] once `until`
    /// has come. Returns early, perhaps without events, when a signal was caught.
    ///
    /// # Errors
    /// The kernel's, if the host cannot go on.
    pub fn wait(&mut self, until: Option<Time>) -> Result<Vec<HostEvent>, Error> {
        self.schedule_repair();
        let look_at = self.link_watch.next_poll(self.now());
        let own = [
            self.repair_at,
            self.reconcile_at,
            look_at,
            self.cpu_latency.next_check(),
            self.executor.wake_transport_at(),
            #[cfg(feature = "bpf")]
            self.executor.tunnels.next_session_check(),
        ];
        let others = [until, self.firewall.next_check(), self.retry_queue.due()];
        let until_any = own.into_iter().chain(others).flatten().min();
        let pending = !self.queue.is_empty() || until_any.is_some_and(|time| time <= self.now());
        self.clock.set_alarm(until_any)?;
        let mut events = [EpollEvent::empty(); MAX_EVENTS];
        let count = self.await_events(&mut events, pending)?;
        // Announcements of interfaces and addresses come before the packets received there.
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
        #[cfg(feature = "bpf")]
        self.executor.check_sessions(self.clock.now());
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

    /// The number of events, without sleeping if input is `pending`. A signal ends the wait.
    pub(super) fn await_events(&self, events: &mut [EpollEvent], pending: bool) -> Result<usize, Error> {
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

    /// Registers `fd`; its [`HostEvent::Ready`] has `token`. The registration ends when the descriptor is closed.
    ///
    /// # Errors
    /// The kernel's.
    pub fn watch(&mut self, fd: impl AsFd, token: u32, interest: Interest) -> Result<(), Error> {
        self.epoll.add(fd, epoll_event(DAEMON + u64::from(token), interest)).context("epoll")
    }

    /// Changes what to wait for on `fd`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn rewatch(&mut self, fd: impl AsFd, token: u32, interest: Interest) -> Result<(), Error> {
        self.epoll.modify(fd, &mut epoll_event(DAEMON + u64::from(token), interest)).context("epoll")
    }

    pub(super) fn register(&self) -> Result<(), Error> {
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
        if let Some(paths) = self.executor.tunnels.path_notifications() {
            self.epoll.add(paths, epoll_event(PATHS, read)).context("epoll")?;
        }
        #[cfg(feature = "fleet")]
        if let Some(store) = self.executor.fleet.fd() {
            self.epoll.add(store, epoll_event(FLEET, read)).context("epoll")?;
        }
        for (socket, token) in self.ipv4_sockets.iter().flatten().zip([DSMIP, ICMP4_ERRORS]) {
            self.epoll.add(socket, epoll_event(token, read)).context("epoll")?;
        }
        Ok(())
    }

    /// The shim is opened with its first item; its descriptor stays the same.
    pub(super) fn watch_shim(&mut self) {
        let Some(fd) = self.executor.shim_fd().filter(|_| !self.shim_registered) else { return };
        let read = Interest { read: true, write: false };
        let watched = self.epoll.add(fd, epoll_event(SHIM, read)).context("epoll");
        self.shim_registered = true;
        watched.unwrap_or_else(|error| self.executor.notice(error));
    }

    pub(super) fn queue_input(&mut self, input: Input) {
        self.queue.push(HostEvent::Input(self.clock.now(), input));
    }

    pub(super) fn dispatch(&mut self, event: EpollEvent) -> Result<(), Error> {
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
                let inputs = self.executor.read_shim_events(self.clock.now());
                inputs.into_iter().for_each(|input| self.queue_input(input));
            }
            ICMP_ERRORS => self.receive(1),
            SUBFLOWS => self.read_subflow_events()?,
            NFT_CHANGES => self.read_nft_changes()?,
            PATHS => {
                let paths = self.executor.tunnels.read_path_notifications(self.clock.now());
                paths.into_iter().for_each(|path| self.queue_input(Input::PathTraffic(path)));
            }
            DSMIP => self.receive_ipv4(0),
            ICMP4_ERRORS => self.receive_ipv4(1),
            PORTALS => self.take_interception(),
            #[cfg(feature = "dcc")]
            CHANNELS => self.take_channel_readings(),
            #[cfg(feature = "fleet")]
            FLEET => {
                let inputs = self.executor.fleet.take(FLEET_BATCH);
                inputs.into_iter().for_each(|input| self.queue_input(input));
            }
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
}

pub(super) fn epoll_event(token: u64, interest: Interest) -> EpollEvent {
    let mut flags = EpollFlags::empty();
    flags.set(EpollFlags::EPOLLIN | EpollFlags::EPOLLRDHUP, interest.read);
    flags.set(EpollFlags::EPOLLOUT, interest.write);
    EpollEvent::new(flags, token)
}
