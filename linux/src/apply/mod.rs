//! Makes the host match the plan: executes `Put` and `Drop`, answers each `Put` once, and repairs what others change.
//! Netlink requests go to the kernel in batches, journal records to the disk with one sync per batch.

mod address;
mod anycast;
#[cfg(feature = "fleet")]
mod fleet;
mod holder;
mod installed;
mod io;
mod kernel_item;
mod mptcp;
mod mtu_reserve;
mod pending_neighbours;
mod reconcile;
mod route;
mod shim;
mod source_filter;
mod sysctl;
mod tunnel;

use crate::error::Error;
use crate::io::frames::Frames;
use crate::io::udp_port_hold::UdpPortHolds;
use crate::journal::Journal;
use crate::mptcp::Mptcp;
use crate::netlink::socket::{Netlink, Request};
use crate::netlink::{lookup, neighbour};
use crate::options::{HostOptions, encrypts};
use crate::shim::Shim;
use crate::tunnel::Tunnels;
use anycast::Anycasts;
use holder::holder;
use installed::InstalledItems;
use mtu_reserve::MtuReserve;
use nix::sys::epoll::Epoll;
use roam6_proto::base::ids::{AddressPair, ContextId};
use roam6_proto::base::vec_map::VecMap;
use roam6_proto::base::vec_set::VecSet;
use roam6_proto::contract::item::{Neighbour, Route, RouteTable, TunnelId};
use roam6_proto::contract::report::HostReport;
use roam6_proto::{Item, Key, LinkId, Outcome, Put, Report, Time};
use roam6_wire::LinkAddress;
use source_filter::SourceFilters;
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;
use sysctl::{SysctlName, Sysctls};

/// Executes the plan.
pub(crate) struct Executor {
    pub(crate) tunnels: Box<dyn Tunnels + Send>,
    pub(crate) frames: Frames,
    pub(crate) mptcp: Mptcp,
    netlink: Netlink,
    sysctls: Sysctls,
    /// Names of sysctls when they were put: interfaces may be renamed.
    sysctl_names: VecMap<Key, SysctlName>,
    anycasts: Anycasts,
    source_filters: SourceFilters,
    udp_port_holds: UdpPortHolds,
    journal: Journal,
    /// Opened when it is first needed.
    shim: Option<Shim>,
    max_contexts: u32,
    /// The routing table of each context that rewrites.
    context_routes: BTreeMap<ContextId, RouteTable>,
    /// ULIDs with forks that rewrite the packets of marked sockets.
    mtu_reserves: BTreeMap<AddressPair, MtuReserve>,
    installed: InstalledItems,
    /// The remote endpoints of tunnels.
    remotes: BTreeSet<(Ipv6Addr, TunnelId)>,
    /// Links with proxy entries.
    proxy_links: VecSet<LinkId>,
    /// Items that others have removed.
    missing: BTreeSet<Key>,
    /// Why devices of tunnels that are gone could not be made again.
    device_fault: Option<String>,
    /// Routes changed that tunnels' paths may use: cached next hops are void.
    underlay_changed: bool,
    #[cfg(feature = "fleet")]
    pub(crate) fleet: fleet::Fleet,
    pending: Vec<PendingRequest>,
    records: Vec<usize>,
    outcomes: Vec<Outcome>,
    reports: Vec<Report>,
}

/// A request not sent yet, and its item.
struct PendingRequest {
    request: Request,
    key: Key,
    put: Option<PutRequest>,
}

/// A `Put` to be answered.
#[derive(Clone)]
struct PutRequest {
    /// Index of its outcome.
    position: usize,
    item: Item,
    former: Option<Item>,
}

impl Executor {
    pub(crate) fn open(
        options: &HostOptions,
        journal: Journal,
        tunnels: Box<dyn Tunnels + Send>,
        waits: &Epoll,
    ) -> Result<Executor, Error> {
        let run_dir = &options.run_dir;
        Ok(Executor {
            tunnels,
            frames: Frames::open(waits)?,
            netlink: Netlink::open()?,
            sysctls: Sysctls::open(run_dir)?,
            sysctl_names: VecMap::new(),
            anycasts: Anycasts::open()?,
            source_filters: SourceFilters::default(),
            udp_port_holds: UdpPortHolds::default(),
            mptcp: Mptcp::open(run_dir, encrypts(options))?,
            journal,
            shim: None,
            max_contexts: options.max_contexts,
            context_routes: BTreeMap::new(),
            mtu_reserves: BTreeMap::new(),
            installed: InstalledItems::default(),
            remotes: BTreeSet::new(),
            proxy_links: VecSet::new(),
            missing: BTreeSet::new(),
            device_fault: None,
            underlay_changed: false,
            #[cfg(feature = "fleet")]
            fleet: fleet::Fleet::open(options.fleet.as_ref())?,
            pending: Vec::new(),
            records: Vec::new(),
            outcomes: Vec::new(),
            reports: Vec::new(),
        })
    }

    /// Begins a `Put`; it is answered by [`Executor::finish`].
    pub(crate) fn put(&mut self, put: Put) {
        let position = self.outcomes.len();
        self.outcomes.push(put.outcome(None));
        let item = put.item;
        let key = item.key();
        let former = self.installed.put(&item);
        let requests = holder(&item).put(self, former.as_ref());
        let put = PutRequest { position, item, former };
        match requests {
            Ok(requests) => self.queue(&key, requests, Some(&put)),
            Err(error) => self.revert(&put, error.to_string()),
        }
    }

    /// Begins a `Drop`.
    pub(crate) fn drop(&mut self, key: &Key) {
        let result = match key {
            Key::JournalRecord(record) => self.journal.drop(record).map(|()| Vec::new()),
            Key::Tunnel(id) => self.drop_tunnel(*id).map(|()| Vec::new()),
            Key::ShimContext(id) => self.drop_context(*id).map(|()| Vec::new()),
            key => self.installed.drop(key).map_or(Ok(Vec::new()), |item| holder(&item).drop(self)),
        };
        self.missing.remove(key);
        match result {
            Ok(requests) => self.queue(key, requests, None),
            Err(error) => {
                self.reports.push(Report::Host(HostReport::ItemRefused { key: key.clone(), why: error.to_string() }))
            }
        }
    }

    /// Adds the requests for an item to those that are sent next.
    fn queue(&mut self, key: &Key, requests: Vec<Request>, put: Option<&PutRequest>) {
        let pending = |request| PendingRequest { request, key: key.clone(), put: put.cloned() };
        self.pending.extend(requests.into_iter().map(pending));
    }

    /// Installs a route that is not in the plan of the engines, at once.
    fn install_route(&mut self, route: &Route) {
        let request = self.to_kernel_route(route).put();
        let item = Item::Route(route.clone());
        self.installed.put(&item);
        self.queue(&item.key(), vec![request], None);
        self.flush();
    }

    /// Removes such a route, with the next requests.
    fn remove_route(&mut self, key: &Key) {
        if let Some(Item::Route(route)) = self.installed.drop(key) {
            let request = self.to_kernel_route(&route).remove();
            self.queue(key, vec![request], None);
        }
    }

    /// Sends pending requests, so that what follows finds them done.
    pub(crate) fn flush(&mut self) {
        self.send_pending();
        if std::mem::take(&mut self.underlay_changed) {
            self.tunnels.invalidate_next_hops().unwrap_or_else(|error| self.notice(error));
        }
    }

    /// Gives the kernel a neighbour entry for the router by which it sends from `pair.local` to `pair.peer`, if `known` has its
    /// link-layer address. Whether it did; it does not if the routing tables discard the packet.
    pub(crate) fn put_router_neighbour(
        &mut self,
        pair: AddressPair,
        link: LinkId,
        known: impl Fn(Ipv6Addr) -> Option<LinkAddress>,
    ) -> bool {
        let Ok(Some(way)) = lookup::route_lookup(&mut self.netlink, pair, Some(link)) else { return false };
        let Some((address, link_address)) = way.gateway.and_then(|router| Some((router, known(router)?))) else {
            return false;
        };
        let entry = Neighbour { link, address, link_address };
        self.netlink.execute(&[neighbour::put_learned(&entry)]).iter().all(Result::is_ok)
    }

    /// A route of others changed.
    pub(crate) fn note_underlay_change(&mut self) {
        self.underlay_changed = true;
    }

    fn send_pending(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let (mut requests, mut purposes) = (Vec::new(), Vec::new());
        for PendingRequest { request, key, put } in self.pending.drain(..) {
            requests.push(request);
            purposes.push((key, put));
        }
        let results = self.netlink.execute(&requests);
        for ((key, put), result) in purposes.into_iter().zip(results) {
            match (result, put) {
                (Ok(()), _) => {}
                (Err(why), Some(put)) => self.revert(&put, why),
                (Err(why), None) => self.reports.push(Report::Host(HostReport::ItemRefused { key, why })),
            }
        }
    }

    /// Completes all that was begun: sends pending requests, syncs the journal, and returns the outcomes.
    pub(crate) fn finish(&mut self, now: Time) -> Vec<Outcome> {
        self.flush();
        self.wake_transport(now);
        if let Err(error) = self.journal.sync() {
            for position in std::mem::take(&mut self.records) {
                self.record_refusal(position, error.to_string());
            }
        }
        self.records.clear();
        self.journal.compact_if_due().unwrap_or_else(|error| self.notice(error));
        #[cfg(feature = "fleet")]
        self.fleet.withhold(&mut self.outcomes);
        std::mem::take(&mut self.outcomes)
    }

    /// The reports since the last call.
    pub(crate) fn take_reports(&mut self) -> Vec<Report> {
        std::mem::take(&mut self.reports)
    }

    /// Reports a message to the operator.
    pub(crate) fn notice(&mut self, text: impl ToString) {
        self.reports.push(Report::Host(HostReport::Notice { text: text.to_string() }));
    }

    fn record_refusal(&mut self, position: usize, why: String) {
        if let Some(outcome) = self.outcomes.get_mut(position) {
            outcome.error.get_or_insert(why);
        }
    }

    /// An item was refused: the plan returns to what is installed.
    fn revert(&mut self, put: &PutRequest, why: String) {
        self.record_refusal(put.position, why);
        let key = put.item.key();
        if self.installed.find(&key).as_ref() != Some(&put.item) {
            return;
        }
        match &put.former {
            Some(former) => drop(self.installed.put(former)),
            None => drop(self.installed.drop(&key)),
        }
        if let Item::ProxyNeighbour(proxy) = &put.item {
            self.disable_proxy(proxy.link);
        }
    }
}
