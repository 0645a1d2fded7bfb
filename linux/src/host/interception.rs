//! Checks of whether the network of an interface intercepts connections, as a captive portal does: on a thread of their own,
//! because each waits for seconds. One runs at a time, and one for each interface may wait.

use super::Host;
use super::event_loop::{Interest, PORTALS, epoll_event};
use crate::error::{Context, Error};
use crate::probe;
use roam6_proto::base::vec_set::VecSet;
use roam6_proto::contract::input::Interception;
use roam6_proto::{Input, LinkId};
use std::net::Ipv6Addr;
use std::os::unix::net::UnixStream;
use std::thread::{Builder, JoinHandle};

/// The checks that run and wait.
#[derive(Default)]
pub(super) struct InterceptionChecks {
    running: Option<Check>,
    waiting: VecSet<LinkId>,
}

struct Check {
    link: LinkId,
    /// Readable once the thread has ended.
    _done: UnixStream,
    thread: JoinHandle<probe::Interception>,
}

impl Host {
    /// Asks the network of an interface; a check of it that waits already is enough.
    pub(super) fn check_interception(&mut self, link: LinkId) {
        self.interception_checks.waiting.insert(link);
        self.start_interception_check();
    }

    /// The thread of the running check has ended.
    pub(super) fn take_interception(&mut self) {
        let Some(check) = self.interception_checks.running.take() else { return };
        let found = check.thread.join().unwrap_or(probe::Interception::None);
        let (accepted, url) = match found {
            probe::Interception::None => (false, None),
            probe::Interception::Accepted(url) => (true, url),
        };
        self.queue_input(Input::Interception(Interception { link: check.link, accepted, url }));
        self.start_interception_check();
    }

    fn start_interception_check(&mut self) {
        while self.interception_checks.running.is_none() {
            let Some(link) = self.interception_checks.waiting.iter().next().copied() else { return };
            self.interception_checks.waiting.remove(&link);
            match self.begin_interception_check(link) {
                Ok(check) => self.interception_checks.running = check,
                Err(error) => self.executor.notice(error),
            }
        }
    }

    /// Begins a check by an IPv4 and an IPv6 address of an interface; `None` if it has neither.
    fn begin_interception_check(&self, link: LinkId) -> Result<Option<Check>, Error> {
        let on_link = |(address, on): &&(Ipv6Addr, LinkId)| *on == link && !address.is_unicast_link_local();
        let held: Vec<Ipv6Addr> = self.addresses.iter().filter(on_link).map(|(address, _)| *address).collect();
        let is_ipv4 = |address: &&Ipv6Addr| address.to_ipv4_mapped().is_some();
        let ipv4 = held.iter().find(is_ipv4).copied();
        let sources: Vec<Ipv6Addr> = ipv4.into_iter().chain(held.iter().find(|one| !is_ipv4(one)).copied()).collect();
        if sources.is_empty() {
            return Ok(None);
        }
        let (done, end) = UnixStream::pair().context("captive portal")?;
        self.epoll.add(&done, epoll_event(PORTALS, Interest { read: true, write: false })).context("epoll")?;
        let work = move || {
            let mut found = sources.iter().map(|source| probe::http(link.0, *source));
            let found = found.find(|found| *found != probe::Interception::None);
            drop(end);
            found.unwrap_or(probe::Interception::None)
        };
        let thread = Builder::new().name("portal".to_owned()).spawn(work).context("captive portal")?;
        Ok(Some(Check { link, _done: done, thread }))
    }
}
