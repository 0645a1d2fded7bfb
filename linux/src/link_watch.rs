//! Looks at carriers instead of waiting to be told. The kernel tells of lost carriers at most once a second, whichever
//! interface it was (net/core/link_watch.c), and of one that came back in between no sooner. Asked, it says how it is.

use crate::error::Error;
use crate::netlink::link;
use crate::netlink::monitor::{self, Announcement};
use crate::netlink::socket::Netlink;
use core::time::Duration;
use roam6_proto::{LinkId, Time};

/// Shortest time between two looks.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// So long after a change the kernel may be late with the next.
const POLL_DURATION: Duration = Duration::from_millis(1100);

/// When to look next, and what to look with.
pub(crate) struct LinkWatch {
    netlink: Netlink,
    last_poll: Option<Time>,
    poll_until: Time,
}

impl LinkWatch {
    /// Nothing was looked at yet.
    pub(crate) fn open() -> Result<LinkWatch, Error> {
        Ok(LinkWatch { netlink: Netlink::open()?, last_poll: None, poll_until: Time::ZERO })
    }

    /// When to look, even if there is nothing else to do.
    pub(crate) fn next_poll(&self, now: Time) -> Option<Time> {
        (now < self.poll_until).then(|| self.last_poll.map_or(now, |looked| looked + POLL_INTERVAL))
    }

    /// Whether whoever is awake anyway should look; counted as done.
    pub(crate) fn begin_poll(&mut self, now: Time) -> bool {
        let due = self.last_poll.is_none_or(|looked| looked + POLL_INTERVAL <= now);
        if due {
            self.last_poll = Some(now);
        }
        due
    }

    /// Something has changed.
    pub(crate) fn note_change(&mut self, now: Time) {
        self.poll_until = now + POLL_DURATION;
    }

    /// How the interface is; `None` if it is gone.
    pub(crate) fn poll(&mut self, link: LinkId) -> Result<Option<Announcement>, Error> {
        Ok(self.netlink.get(link::get(link))?.and_then(|answer| monitor::read(&answer)))
    }
}
