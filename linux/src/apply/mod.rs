//! Makes the host match the plan: executes `Put` and `Drop`, answers each `Put` once, and repairs what others change.
//! Netlink requests go to the kernel in batches, journal records to the disk with one sync per batch.

mod anycast;
mod installed;
mod mtu_reserve;
mod pending_neighbours;
mod reconcile;
mod shim;
mod source_filter;
mod sysctl;

use crate::error::Error;
use crate::host::HostOptions;
use crate::io::frames::Frames;
use crate::io::udp_port_hold::UdpPortHolds;
use crate::journal::Journal;
use crate::mptcp::Mptcp;
use crate::netlink::message::RtnlMessage;
use crate::netlink::route::KernelRoute;
use crate::netlink::socket::{Netlink, Request};
use crate::netlink::{address, neighbour, rule};
use crate::shim::Shim;
use crate::tunnel::Tunnels;
use anycast::Anycasts;
use installed::{InstalledItems, mask};
use mtu_reserve::MtuReserve;
use netlink_packet_route::AddressFamily;
use nix::net::if_::if_indextoname;
use nix::sys::epoll::Epoll;
use roam6_proto::base::few;
use roam6_proto::base::ids::{AddressPair, ContextId};
use roam6_proto::contract::item::{
    Address, NextHop, Route, RouteTable, Sysctl, SysctlSetting, Tunnel, TunnelId, UdpPortHold,
};
use roam6_proto::{Item, Key, LinkId, Outcome, Report, Time};
use roam6_wire::Prefix;
use source_filter::SourceFilters;
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;
use sysctl::{SysctlName, Sysctls};

/// Nested tunnels followed when a tunnel's MTU changes.
const MAX_TUNNEL_DEPTH: usize = 8;

/// Carries out the plan.
pub(crate) struct Executor {
    pub(crate) tunnels: Box<dyn Tunnels + Send>,
    pub(crate) frames: Frames,
    netlink: Netlink,
    sysctls: Sysctls,
    /// Names of sysctls when they were put: interfaces may be renamed.
    sysctl_names: few::VecMap<Key, SysctlName>,
    anycasts: Anycasts,
    source_filters: SourceFilters,
    udp_port_holds: UdpPortHolds,
    mptcp: Mptcp,
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
    proxy_links: few::VecSet<LinkId>,
    /// Items that others have removed.
    missing: BTreeSet<Key>,
    /// Routes changed that tunnels' paths may use: cached next hops are void.
    underlay_changed: bool,
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
            sysctl_names: few::VecMap::new(),
            anycasts: Anycasts::open()?,
            source_filters: SourceFilters::default(),
            udp_port_holds: UdpPortHolds::default(),
            mptcp: Mptcp::open(run_dir)?,
            journal,
            shim: None,
            max_contexts: options.max_contexts,
            context_routes: BTreeMap::new(),
            mtu_reserves: BTreeMap::new(),
            installed: InstalledItems::default(),
            remotes: BTreeSet::new(),
            proxy_links: few::VecSet::new(),
            missing: BTreeSet::new(),
            underlay_changed: false,
            pending: Vec::new(),
            records: Vec::new(),
            outcomes: Vec::new(),
            reports: Vec::new(),
        })
    }

    /// Begins a `Put`; it is answered by [`Executor::finish`].
    pub(crate) fn put(&mut self, item: Item) {
        let key = item.key();
        let position = self.outcomes.len();
        self.outcomes.push(Outcome { key: key.clone(), error: None });
        if let Item::JournalRecord(record) = &item {
            match self.journal.put(record) {
                Ok(()) => self.records.push(position),
                Err(error) => self.record_refusal(position, error.to_string()),
            }
            return;
        }
        let former = self.installed.put(&item);
        let applied = self.apply(&item, former.as_ref());
        let put = PutRequest { position, item, former };
        match applied {
            Ok(requests) => self.pending.extend(requests.into_iter().map(|request| PendingRequest {
                request,
                key: key.clone(),
                put: Some(put.clone()),
            })),
            Err(error) => self.revert(&put, error.to_string()),
        }
    }

    /// Begins a `Drop`.
    pub(crate) fn drop(&mut self, key: &Key) {
        let result = match key {
            Key::JournalRecord(record) => self.journal.drop(record).map(|()| Vec::new()),
            Key::Tunnel(id) => self.drop_tunnel(*id).map(|()| Vec::new()),
            Key::ShimContext(id) => self.drop_context(*id).map(|()| Vec::new()),
            key => self.installed.drop(key).map_or(Ok(Vec::new()), |item| self.unapply(&item)),
        };
        self.missing.remove(key);
        match result {
            Ok(requests) => {
                let waiting =
                    requests.into_iter().map(|request| PendingRequest { request, key: key.clone(), put: None });
                self.pending.extend(waiting);
            }
            Err(error) => self.reports.push(Report::ItemRefused { key: key.clone(), why: error.to_string() }),
        }
    }

    /// Sends pending requests, so that what follows finds them done.
    pub(crate) fn flush(&mut self) {
        self.send_pending();
        if std::mem::take(&mut self.underlay_changed)
            && let Err(error) = self.tunnels.invalidate_next_hops()
        {
            self.notice(error);
        }
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
        let answers = self.netlink.execute(&requests);
        for ((key, put), answer) in purposes.into_iter().zip(answers) {
            match (answer, put) {
                (Ok(()), _) => {}
                (Err(why), Some(put)) => self.revert(&put, why),
                (Err(why), None) => self.reports.push(Report::ItemRefused { key, why }),
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
        if let Err(error) = self.journal.compact_if_due() {
            self.reports.push(Report::Notice { text: error.to_string() });
        }
        std::mem::take(&mut self.outcomes)
    }

    /// The reports since the last call.
    pub(crate) fn take_reports(&mut self) -> Vec<Report> {
        std::mem::take(&mut self.reports)
    }

    /// Reports a message to the operator.
    pub(crate) fn notice(&mut self, text: impl ToString) {
        self.reports.push(Report::Notice { text: text.to_string() });
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

    /// Executes what needs no netlink request at once, and returns the requests.
    fn apply(&mut self, item: &Item, former: Option<&Item>) -> Result<Vec<Request>, Error> {
        Ok(match (item, former) {
            // The kernel has no such sysctl for all interfaces at once.
            (Item::Sysctl(SysctlSetting { link: None, sysctl: Sysctl::AcceptRa, .. }), _) => {
                self.sysctls.accept_advertisements()?;
                Vec::new()
            }
            (Item::Sysctl(setting), _) => {
                let name = sysctl_name(setting)?;
                self.sysctls.put(&name, setting.value)?;
                self.sysctl_names.insert(item.key(), name);
                self.deprecate_autoconfigured(setting)?
            }
            (Item::Address(new), Some(Item::Address(old))) if old.prefix_length != new.prefix_length => {
                vec![address::remove(old), address::put(new)]
            }
            (Item::Address(new), Some(_)) => vec![address::put(new)],
            (Item::Address(new), None) => self.add_address(new)?,
            (Item::Anycast(anycast), _) => {
                // An address of the prefix must be assigned before.
                self.flush();
                self.anycasts.put(anycast)?;
                Vec::new()
            }
            (Item::Neighbour(neighbour), _) => vec![neighbour::put(neighbour)],
            (Item::ProxyNeighbour(proxy), former) => {
                if former.is_none() {
                    self.enable_proxy(proxy.link)?;
                }
                vec![neighbour::put_proxy(proxy)]
            }
            (Item::SourceFilter(guard), _) => {
                self.source_filters.put(guard)?;
                Vec::new()
            }
            (Item::Tunnel(tunnel), _) => {
                self.put_tunnel(tunnel)?;
                Vec::new()
            }
            (Item::Route(route), _) => {
                self.underlay_changed |= is_underlay(route);
                vec![self.to_kernel_route(route).put()]
            }
            (Item::Rule(new), Some(Item::Rule(old))) if old.table != new.table => {
                vec![rule::put(new), rule::remove(old)]
            }
            (Item::Rule(new), _) => vec![rule::put(new)],
            (Item::TunnelBypass(to), _) => {
                self.tunnels.put_bypass(*to)?;
                Vec::new()
            }
            (Item::MptcpLimits(limits), _) => {
                self.mptcp.put_limits(*limits)?;
                Vec::new()
            }
            (Item::MptcpEndpoint(endpoint), _) => {
                // The kernel opens a subflow at once: its address and routes must be installed.
                self.flush();
                self.mptcp.put(endpoint)?;
                Vec::new()
            }
            (Item::EthertypeSubscription(heard), _) => {
                self.frames.subscribe(heard)?;
                Vec::new()
            }
            (Item::VirtualInterface(interface), _) => {
                self.frames.create_tap(interface)?;
                Vec::new()
            }
            (Item::UdpPortHold(port), _) => {
                if !self.udp_port_holds.hold(port)? {
                    let UdpPortHold { link, port: number } = *port;
                    self.notice(format!(
                        "another program listens on UDP port {number} of {link}: both answer there now"
                    ));
                }
                Vec::new()
            }
            (Item::ShimUplink(shimmed), _) => {
                self.put_shim_uplink(shimmed)?;
                Vec::new()
            }
            (Item::ContextTrigger(trigger), _) => {
                self.put_trigger(Some(trigger))?;
                Vec::new()
            }
            (Item::ShimContext(context), _) => {
                self.put_context(context)?;
                Vec::new()
            }
            (Item::JournalRecord(_), _) => Vec::new(),
        })
    }

    /// An address without duplicate address detection replaces one that the kernel has made and still checks.
    fn add_address(&mut self, new: &Address) -> Result<Vec<Request>, Error> {
        let mut requests = Vec::new();
        if !new.dad {
            let all = self.netlink.dump(address::dump(AddressFamily::Inet6))?;
            let tentative = |message: &RtnlMessage| matches!(message, RtnlMessage::NewAddress(message) if address::is_tentative(message, new));
            requests.extend(all.iter().any(tentative).then(|| address::remove(new)));
        }
        requests.push(address::put(new));
        Ok(requests)
    }

    /// Where the kernel is to autoconfigure no more addresses, those it has are not renewed: new connections choose
    /// others.
    fn deprecate_autoconfigured(&mut self, setting: &SysctlSetting) -> Result<Vec<Request>, Error> {
        let SysctlSetting { link: Some(link), sysctl: Sysctl::Autoconf, value: 0 } = *setting else {
            return Ok(Vec::new());
        };
        let all = self.netlink.dump(address::dump(AddressFamily::Inet6))?;
        let requests = all.iter().filter_map(|message| match message {
            RtnlMessage::NewAddress(message) => address::deprecate(message, link),
            _ => None,
        });
        Ok(requests.collect())
    }

    /// The opposite of [`Executor::apply`]; the plan holds the item no longer.
    fn unapply(&mut self, item: &Item) -> Result<Vec<Request>, Error> {
        let requests = match item {
            Item::Sysctl(SysctlSetting { link: None, sysctl: Sysctl::AcceptRa, .. }) => {
                self.sysctls.restore_advertisements()?;
                Vec::new()
            }
            Item::Sysctl(setting) => {
                let name = self.sysctl_names.remove(&item.key());
                // A new interface may have the name, and the sysctl, of one that was removed.
                let name = name.filter(|name| !self.sysctl_names.values().any(|other| other == name));
                if let Some(name) = name {
                    // The sysctl is removed with its interface.
                    self.sysctls.drop(&name, sysctl_name(setting).ok().as_ref())?;
                }
                Vec::new()
            }
            Item::Address(old) => vec![address::remove(old)],
            Item::Anycast(old) => {
                self.anycasts.drop(old);
                Vec::new()
            }
            Item::Neighbour(old) => vec![neighbour::remove(old)],
            Item::ProxyNeighbour(old) => {
                self.disable_proxy(old.link);
                vec![neighbour::remove_proxy(old)]
            }
            Item::Route(old) => {
                self.underlay_changed |= is_underlay(old);
                vec![self.to_kernel_route(old).remove()]
            }
            Item::Rule(old) => vec![rule::remove(old)],
            Item::TunnelBypass(old) => {
                self.tunnels.drop_bypass(*old)?;
                Vec::new()
            }
            Item::MptcpLimits(_) => {
                self.mptcp.drop_limits()?;
                Vec::new()
            }
            Item::MptcpEndpoint(old) => {
                self.mptcp.drop(old.address)?;
                Vec::new()
            }
            Item::EthertypeSubscription(old) => {
                self.frames.unsubscribe(old.link, old.ethertype);
                Vec::new()
            }
            Item::VirtualInterface(old) => {
                self.frames.remove_tap(&old.name);
                Vec::new()
            }
            Item::UdpPortHold(old) => {
                self.udp_port_holds.release(old);
                Vec::new()
            }
            Item::ShimUplink(old) => {
                self.drop_shim_uplink(old);
                Vec::new()
            }
            Item::ContextTrigger(_) => {
                self.put_trigger(None)?;
                Vec::new()
            }
            Item::SourceFilter(old) => {
                // Routes out are removed first.
                self.flush();
                self.source_filters.drop(old.link)?;
                Vec::new()
            }
            Item::Tunnel(_) | Item::ShimContext(_) | Item::JournalRecord(_) => Vec::new(),
        };
        Ok(requests)
    }

    fn put_tunnel(&mut self, tunnel: &Tunnel) -> Result<(), Error> {
        let id = tunnel.id;
        let former = self.tunnels.find(id).map(|tunnel| remotes(&tunnel));
        let before = self.route_parameters(id);
        self.tunnels.put(tunnel).map_err(|error| Error::new(format!("tunnel {}", id.0), error))?;
        for remote in former.into_iter().flatten() {
            self.remotes.remove(&(remote, id));
        }
        self.remotes.extend(remotes(tunnel).into_iter().map(|remote| (remote, id)));
        if self.route_parameters(id) != before {
            self.rewrite_routes(tunnel, MAX_TUNNEL_DEPTH);
        }
        Ok(())
    }

    /// The parameters of routes into a tunnel.
    fn route_parameters(&self, id: TunnelId) -> (Option<LinkId>, Option<Ipv6Addr>, Option<u32>) {
        (self.tunnels.device(id), self.tunnels.gateway(id), self.tunnels.mtu(id))
    }

    fn drop_tunnel(&mut self, id: TunnelId) -> Result<(), Error> {
        self.flush();
        let former = self.tunnels.find(id);
        // A box has a `drop` of its own.
        Tunnels::drop(self.tunnels.as_mut(), id).map_err(|error| Error::new(format!("tunnel {}", id.0), error))?;
        if let Some(former) = former {
            for remote in remotes(&former) {
                self.remotes.remove(&(remote, id));
            }
            self.rewrite_routes(&former, MAX_TUNNEL_DEPTH);
        }
        Ok(())
    }

    /// A route in rtnetlink's terms.
    fn to_kernel_route(&self, route: &Route) -> KernelRoute {
        let (device, gateway, limit) = match route.target {
            NextHop::OnLink(link) => (Some(link), None, None),
            NextHop::Gateway { link, router } => (Some(link), Some(router), None),
            NextHop::Tunnel(id) => (self.tunnels.device(id), self.tunnels.gateway(id), self.tunnels.mtu(id)),
            NextHop::Unreachable | NextHop::Blackhole => (None, None, None),
        };
        let mtu = route.mtu.into_iter().chain(limit).min().filter(|_| device.is_some());
        let Route { table, destination, source, metric, .. } = *route;
        let discards = route.target == NextHop::Blackhole;
        KernelRoute { table, destination, source, metric, device, blackhole: discards, gateway, mtu }
    }

    /// After the device or the MTU of `tunnel` has changed: installs its routes again, which lead to its far side, and
    /// those of tunnels that lead through it.
    fn rewrite_routes(&mut self, tunnel: &Tunnel, depth: usize) {
        let target = NextHop::Tunnel(tunnel.id);
        for table in self.installed.tables() {
            let routes = tunnel.remote_prefixes.iter().flat_map(|prefix| self.installed.routes_into(table, *prefix));
            let routes: Vec<Route> = routes.filter(|route| route.target == target).collect();
            for route in routes {
                let request = self.to_kernel_route(&route).put();
                self.pending.push(PendingRequest { request, key: Item::Route(route).key(), put: None });
            }
        }
        if depth == 0 {
            return;
        }
        for inner in self.nested_tunnels(tunnel) {
            self.underlay_changed = true;
            if let Some(inner) = self.tunnels.find(inner) {
                self.rewrite_routes(&inner, depth - 1);
            }
        }
    }

    /// The other tunnels with a path that leads into `tunnel`.
    fn nested_tunnels(&self, tunnel: &Tunnel) -> BTreeSet<TunnelId> {
        let last = |prefix: &Prefix| Ipv6Addr::from_bits(prefix.address().to_bits() | !mask(*prefix));
        let inside = |prefix: &Prefix| (prefix.address(), TunnelId(0))..=(last(prefix), TunnelId(u32::MAX));
        let inner = tunnel.remote_prefixes.iter().flat_map(|prefix| self.remotes.range(inside(prefix)));
        inner.map(|(_, id)| *id).filter(|id| *id != tunnel.id).collect()
    }

    /// The first proxied address of a link enables proxying, without the delay meant for shared links (RFC 4861 §7.2.8,
    /// and for ARP alike): no other node answers.
    fn enable_proxy(&mut self, link: LinkId) -> Result<(), Error> {
        if self.proxy_links.insert(link) {
            for (name, value) in proxy_settings(link)? {
                self.sysctls.put(&name, value)?;
            }
        }
        Ok(())
    }

    fn disable_proxy(&mut self, link: LinkId) {
        if self.installed.has_proxies(link) {
            return;
        }
        self.proxy_links.remove(&link);
        let asked_for = self.installed.find(&Key::Sysctl(Some(link), Sysctl::ProxyNdp)).is_some();
        for (name, _) in proxy_settings(link).into_iter().flatten().skip(usize::from(asked_for)) {
            if let Err(error) = self.sysctls.drop(&name, Some(&name)) {
                self.notice(error);
            }
        }
    }
}

/// Whether paths of tunnels may use this route; those into tunnels change with their tunnels.
fn is_underlay(route: &Route) -> bool {
    !matches!(route.target, NextHop::Tunnel(_))
}

fn remotes(tunnel: &Tunnel) -> Vec<Ipv6Addr> {
    tunnel.paths.iter().filter(|path| !path.direct).map(|path| path.remote).collect()
}

/// For IPv4 the kernel proxies ARP once it forwards.
fn proxy_settings(link: LinkId) -> Result<[(SysctlName, i32); 3], Error> {
    let interface = interface_name(link)?;
    let answers = (SysctlName::conf(Some(&interface), "proxy_ndp"), 1);
    Ok([answers, (SysctlName::neigh(&interface, "proxy_delay"), 0), (SysctlName::neigh4(&interface, "proxy_delay"), 0)])
}

fn sysctl_name(setting: &SysctlSetting) -> Result<SysctlName, Error> {
    let knob = match setting.sysctl {
        Sysctl::Forwarding => "forwarding",
        Sysctl::AcceptRa => "accept_ra",
        Sysctl::Autoconf => "autoconf",
        Sysctl::AcceptDad => "accept_dad",
        Sysctl::RouterSolicitations => "router_solicitations",
        Sysctl::ProxyNdp => "proxy_ndp",
        Sysctl::KeepAddrOnDown => "keep_addr_on_down",
        Sysctl::Ipv4Forwarding => return Ok(SysctlName::conf4("forwarding")),
    };
    let interface = setting.link.map(interface_name).transpose()?;
    Ok(SysctlName::conf(interface.as_deref(), knob))
}

fn interface_name(link: LinkId) -> Result<String, Error> {
    let name = if_indextoname(link.0).map_err(|error| Error::new(link, error.desc()))?;
    Ok(name.to_string_lossy().into_owned())
}
