//! Polls the carrier of interfaces while it changes. The kernel announces lost carriers at most once a second for all
//! interfaces together (net/core/link_watch.c), and a carrier that returned meanwhile no sooner. A request gets the
//! present state.

use crate::error::Error;
use crate::netlink::link;
use crate::netlink::monitor::{self, Announcement};
use crate::netlink::rtnl::RtnlMessage;
use crate::netlink::socket::Netlink;
use core::time::Duration;
use roam6_proto::{LinkId, LinkTraffic, Time};

/// Shortest time between two polls.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Polling continues for this long after a change, because the kernel may announce the next one late.
const POLL_DURATION: Duration = Duration::from_millis(1100);

/// When to poll next, and the netlink socket to poll with; it reads counters too.
pub(crate) struct LinkWatch {
    netlink: Netlink,
    last_poll: Option<Time>,
    poll_until: Time,
}

impl LinkWatch {
    /// Opens the netlink socket.
    ///
    /// # Errors
    /// The kernel's, if the socket cannot be opened.
    pub(crate) fn open() -> Result<LinkWatch, Error> {
        Ok(LinkWatch { netlink: Netlink::open()?, last_poll: None, poll_until: Time::ZERO })
    }

    /// When to poll, even if nothing else happens.
    pub(crate) fn next_poll(&self, now: Time) -> Option<Time> {
        (now < self.poll_until).then(|| self.last_poll.map_or(now, |looked| looked + POLL_INTERVAL))
    }

    /// Whether to poll now, at an occasional wake-up; if so, the poll counts as done.
    pub(crate) fn begin_poll(&mut self, now: Time) -> bool {
        let due = self.last_poll.is_none_or(|looked| looked + POLL_INTERVAL <= now);
        if due {
            self.last_poll = Some(now);
        }
        due
    }

    /// Notes a change of a link, after which polling continues for a while.
    pub(crate) fn note_change(&mut self, now: Time) {
        self.poll_until = now + POLL_DURATION;
    }

    /// The traffic of an interface; `None` if there is none.
    pub(crate) fn traffic(&mut self, link: LinkId) -> Result<Option<LinkTraffic>, Error> {
        let Some(RtnlMessage::NewLink(found)) = self.netlink.get(link::get(link))? else { return Ok(None) };
        let (rx, tx) = found.traffic;
        Ok(Some(LinkTraffic { link, tx, rx }))
    }

    /// The present state of an interface; `None` if it was removed.
    pub(crate) fn poll(&mut self, link: LinkId) -> Result<Option<Announcement>, Error> {
        Ok(self.netlink.get(link::get(link))?.and_then(|reply| monitor::read(&reply)))
    }
}
