//! The readiness of sockets (epoll).

use crate::error::{Context, Error};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use roam6_proto::relay::BearerId;
use std::os::fd::AsFd;
use std::time::Duration;

/// Announcements read at once.
const BATCH: usize = 256;

/// A socket, or another descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    Bearers,
    Connections,
    Syns,
    Signals,
    State,
    Subflows,
    Bearer(BearerId),
    Plain(BearerId),
}

impl Source {
    const FIXED: [Source; 6] =
        [Source::Bearers, Source::Connections, Source::Syns, Source::Signals, Source::State, Source::Subflows];

    fn token(self) -> u64 {
        match self {
            Source::Bearer(id) => (u64::from(id.0) << 2) | 1,
            Source::Plain(id) => (u64::from(id.0) << 2) | 2,
            fixed => Source::FIXED.iter().position(|known| *known == fixed).map_or(0, |at| (at as u64) << 2),
        }
    }

    fn from_token(token: u64) -> Option<Source> {
        let number = token >> 2;
        let id = BearerId(u32::try_from(number).ok()?);
        match token & 3 {
            1 => Some(Source::Bearer(id)),
            2 => Some(Source::Plain(id)),
            _ => Source::FIXED.get(usize::try_from(number).ok()?).copied(),
        }
    }
}

/// The announcements.
pub(super) struct Events(Epoll);

impl Events {
    pub(super) fn open() -> Result<Events, Error> {
        Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).context("epoll").map(Events)
    }

    /// Announces what can be read, for as long as it can.
    pub(super) fn watch(&self, fd: impl AsFd, source: Source) -> Result<(), Error> {
        self.0.add(fd, EpollEvent::new(EpollFlags::EPOLLIN, source.token())).context("epoll")
    }

    /// Announces each change of a connection once.
    pub(super) fn watch_changes(&self, fd: impl AsFd, source: Source) -> Result<(), Error> {
        let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT | EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLET;
        self.0.add(fd, EpollEvent::new(flags, source.token())).context("epoll")
    }

    /// Waits, for this time at most.
    pub(super) fn wait(&self, time: Option<Duration>) -> Vec<Source> {
        let time = time.map(|time| u64::try_from(time.as_micros().div_ceil(1000)).unwrap_or(u64::MAX).min(60_000));
        let time = time.and_then(|millis| EpollTimeout::try_from(millis).ok()).unwrap_or(EpollTimeout::NONE);
        let mut events = [EpollEvent::empty(); BATCH];
        let count = self.0.wait(&mut events, time).unwrap_or(0);
        events.iter().take(count).filter_map(|event| Source::from_token(event.data())).collect()
    }
}
