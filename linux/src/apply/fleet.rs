//! The items of a fleet: records and states go to its store, announcements into a routing table of their own.

use super::Executor;
use super::holder::Holder;
use crate::error::{Context, Error};
use crate::fleet::{FleetOptions, Store, value};
use crate::netlink::AUXILIARY_PROTOCOL;
use crate::netlink::route::KernelRoute;
use crate::netlink::socket::{Netlink, Request};
use crate::sys;
use crate::tunnel::device::set_up;
use roam6_proto::contract::fleet::{Commit, MemberState};
use roam6_proto::contract::item::fleet::Author;
use roam6_proto::contract::item::{Announcement, FleetRecord, RouteTable, SharedPathMtu};
use roam6_proto::{Input, Item, LinkId, Outcome};
use roam6_wire::Prefix;
use roam6_wire::ip6::MINIMUM_MTU;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::os::fd::{BorrowedFd, OwnedFd};

/// The device of announced routes: it carries nothing, and the kernel removes it, and the routes with it, as soon as this
/// process is gone.
const DEVICE: &str = "r6fleet";
/// Time after which a path MTU is found out again (RFC 8201 section 4), seconds.
const PATH_MTU_SECONDS: u32 = 600;

/// The store, and what the items of the fleet have on this host.
pub(crate) struct Fleet {
    store: Option<Store<Input>>,
    author: Author,
    device: Option<(OwnedFd, LinkId)>,
    /// Indexes of outcomes that come when the store has answered.
    withheld: Vec<usize>,
}

impl Fleet {
    /// Starts the thread that speaks to the store, if there is one.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn open(options: Option<&FleetOptions>) -> Result<Fleet, Error> {
        let member = options.map(|options| options.store.member.clone()).unwrap_or_default();
        let own = member.clone();
        let start =
            |options: &FleetOptions| Store::start(options.store.clone(), move |event| value::input(&own, event));
        let store = options.map(start).transpose()?;
        if let (Some(store), Some(options)) = (&store, options) {
            let fields = [
                ("name", member.clone().into()),
                ("version", options.version.clone().into()),
                ("addresses", options.addresses.iter().map(|address| address.to_string()).collect()),
                ("state", state_name(MemberState::Joining).into()),
            ];
            store.set_presence(fields.map(|(name, value)| (name.to_owned(), value)).into());
        }
        let author = Author { member, boot: RandomState::new().hash_one("boot"), number: 0 };
        Ok(Fleet { store, author, device: None, withheld: Vec::new() })
    }

    /// Readable while events of the store are queued.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.store.as_ref().map(Store::fd)
    }

    /// Takes at most `most` events of the store, oldest first.
    pub(crate) fn take(&mut self, most: usize) -> Vec<Input> {
        self.store.as_ref().map_or_else(Vec::new, |store| store.take(most))
    }

    /// Takes out the outcomes that come later.
    pub(super) fn withhold(&mut self, outcomes: &mut Vec<Outcome>) {
        for position in self.withheld.drain(..).rev() {
            outcomes.remove(position);
        }
    }

    /// The device of announced routes, created when it is first needed.
    fn device(&mut self) -> Result<LinkId, Error> {
        if let Some((_, link)) = self.device {
            return Ok(link);
        }
        let device = sys::open_tun(DEVICE, libc::IFF_TUN).context(format_args!("create interface {DEVICE}"))?;
        let link = set_up(&mut Netlink::open()?, DEVICE, MINIMUM_MTU)?;
        self.device = Some((device, link));
        Ok(link)
    }

    fn store(&self) -> Result<&Store<Input>, Error> {
        self.store.as_ref().ok_or_else(|| Error::new("fleet", "this home agent has no store"))
    }
}

impl Holder for FleetRecord {
    fn put(&self, executor: &mut Executor, _: Option<&Item>) -> Result<Vec<Request>, Error> {
        let Some(position) = executor.outcomes.len().checked_sub(1) else { return Ok(Vec::new()) };
        let Some(outcome) = executor.outcomes.get_mut(position) else { return Ok(Vec::new()) };
        let fleet = &mut executor.fleet;
        fleet.author.number += 1;
        let write = value::write(outcome.id, self, fleet.author.clone());
        match fleet.store().and_then(|store| store.write(write)) {
            Ok(()) => fleet.withheld.push(position),
            Err(error) => outcome.commit = Some(Commit::Unavailable(error.to_string())),
        }
        Ok(Vec::new())
    }
}

impl Holder for MemberState {
    fn put(&self, executor: &mut Executor, _: Option<&Item>) -> Result<Vec<Request>, Error> {
        let state = BTreeMap::from([("state".to_owned(), state_name(*self).into())]);
        executor.fleet.store()?.set_presence(state);
        Ok(Vec::new())
    }
}

impl Holder for SharedPathMtu {
    fn put(&self, executor: &mut Executor, _: Option<&Item>) -> Result<Vec<Request>, Error> {
        let (key, value) = value::path_mtu(self);
        executor.fleet.store()?.lease(key, value, PATH_MTU_SECONDS);
        Ok(Vec::new())
    }
}

/// The name of a state in the store.
fn state_name(state: MemberState) -> &'static str {
    state.into()
}

impl Holder for Announcement {
    /// The new route comes before the former one goes: a prefix is announced at every moment.
    fn put(&self, executor: &mut Executor, former: Option<&Item>) -> Result<Vec<Request>, Error> {
        let link = executor.fleet.device()?;
        let mut requests = vec![route(self, Some(link)).put_as(AUXILIARY_PROTOCOL)];
        if let Some(Item::Announcement(former)) = former
            && former != self
        {
            requests.push(route(former, None).remove_as(AUXILIARY_PROTOCOL));
        }
        Ok(requests)
    }

    fn drop(&self, _: &mut Executor) -> Result<Vec<Request>, Error> {
        Ok(vec![route(self, None).remove_as(AUXILIARY_PROTOCOL)])
    }
}

/// The route of an announcement.
fn route(announcement: &Announcement, device: Option<LinkId>) -> KernelRoute {
    let Announcement { prefix, table, metric } = *announcement;
    KernelRoute {
        table: RouteTable(table),
        destination: prefix,
        source: Prefix::ALL,
        metric,
        device,
        blackhole: false,
        gateway: None,
        mtu: None,
    }
}
