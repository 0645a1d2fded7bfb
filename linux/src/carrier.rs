//! Looks at carriers instead of waiting to be told. The kernel tells of lost carriers at most once a second, whichever
//! interface it was (net/core/link_watch.c), and of one that came back in between no sooner. Asked, it says how it is.

use crate::error::Error;
use crate::netlink::link;
use crate::netlink::monitor::{self, News};
use crate::netlink::socket::Netlink;
use core::time::Duration;
use roam6_proto::{LinkId, Time};

/// Shortest time between two looks.
const PAUSE: Duration = Duration::from_millis(20);
/// So long after a change the kernel may be late with the next.
const RESTLESS: Duration = Duration::from_millis(1100);

/// When to look next, and what to look with.
pub(crate) struct Carriers {
    netlink: Netlink,
    looked: Option<Time>,
    restless_until: Time,
}

impl Carriers {
    /// Nothing was looked at yet.
    pub(crate) fn open() -> Result<Carriers, Error> {
        Ok(Carriers { netlink: Netlink::open()?, looked: None, restless_until: Time::ZERO })
    }

    /// When to look, even if there is nothing else to do.
    pub(crate) fn look_at(&self, now: Time) -> Option<Time> {
        (now < self.restless_until).then(|| self.looked.map_or(now, |looked| looked + PAUSE))
    }

    /// Whether whoever is awake anyway should look; counted as done.
    pub(crate) fn begin(&mut self, now: Time) -> bool {
        let due = self.looked.is_none_or(|looked| looked + PAUSE <= now);
        if due {
            self.looked = Some(now);
        }
        due
    }

    /// Something has changed.
    pub(crate) fn note_change(&mut self, now: Time) {
        self.restless_until = now + RESTLESS;
    }

    /// How the interface is; `None` if it is gone.
    pub(crate) fn look(&mut self, link: LinkId) -> Result<Option<News>, Error> {
        Ok(self.netlink.ask(link::question(link))?.and_then(|answer| monitor::read(&answer)))
    }
}
