//! Makes the host look like the plan: carries out `Put` and `Drop`, answers each `Put` once, and repairs what others
//! undo. Routing requests go to the kernel in batches, journal records to the disk with one sync a batch.

mod anycast;
mod reconcile;
mod setting;

use crate::error::Error;
use crate::journal::Journal;
use crate::netlink::route::KernelRoute;
use crate::netlink::socket::{Netlink, Request};
use crate::netlink::{address, neighbour, rule};
use crate::tunnel::Tunnels;
use anycast::Anycasts;
use nix::net::if_::if_indextoname;
use roam6_proto::plan::{Knob, Route, Setting, Target, Tunnel, TunnelId};
use roam6_proto::{Item, Key, LinkId, Outcome, Plan, Report};
use roam6_wire::Prefix;
use setting::{Name, Settings};
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;
use std::path::Path;

/// Tunnels through tunnels followed when a path's packet size changes.
const DEPTH: usize = 8;

/// Carries out the plan.
pub(crate) struct Executor {
    pub(crate) tunnels: Box<dyn Tunnels + Send>,
    netlink: Netlink,
    settings: Settings,
    anycasts: Anycasts,
    journal: Journal,
    plan: Plan,
    /// Routes into tunnels, as the kernel was last told.
    through: BTreeMap<(TunnelId, Key), KernelRoute>,
    /// Where the paths of tunnels lead.
    remotes: BTreeSet<(Ipv6Addr, TunnelId)>,
    /// How many addresses each link answers for.
    proxies: BTreeMap<LinkId, usize>,
    /// What others have removed.
    missing: BTreeSet<Key>,
    waiting: Vec<Waiting>,
    records: Vec<usize>,
    outcomes: Vec<Outcome>,
    reports: Vec<Report>,
}

/// A request not sent yet, and what it is for.
struct Waiting {
    request: Request,
    key: Key,
    put: Option<Put>,
}

/// A `Put` to be answered.
#[derive(Clone)]
struct Put {
    /// Place of its outcome.
    position: usize,
    item: Item,
    former: Option<Item>,
}

impl Executor {
    pub(crate) fn open(run_dir: &Path, journal: Journal, tunnels: Box<dyn Tunnels + Send>) -> Result<Executor, Error> {
        Ok(Executor {
            tunnels,
            netlink: Netlink::open()?,
            settings: Settings::open(run_dir)?,
            anycasts: Anycasts::open()?,
            journal,
            plan: Plan::new(),
            through: BTreeMap::new(),
            remotes: BTreeSet::new(),
            proxies: BTreeMap::new(),
            missing: BTreeSet::new(),
            waiting: Vec::new(),
            records: Vec::new(),
            outcomes: Vec::new(),
            reports: Vec::new(),
        })
    }

    /// Takes up a `Put`; it is answered by [`Executor::finish`].
    pub(crate) fn put(&mut self, item: Item) {
        let key = item.key();
        let position = self.outcomes.len();
        self.outcomes.push(Outcome { key: key.clone(), refused: None });
        if let Item::Record(record) = &item {
            match self.journal.put(record) {
                Ok(()) => self.records.push(position),
                Err(error) => self.refuse(position, error.to_string()),
            }
            return;
        }
        let former = self.plan.put(item.clone());
        let applied = self.apply(&item, former.as_ref());
        let put = Put { position, item, former };
        match applied {
            Ok(requests) => self.waiting.extend(requests.into_iter().map(|request| Waiting {
                request,
                key: key.clone(),
                put: Some(put.clone()),
            })),
            Err(error) => self.take_back(&put, error.to_string()),
        }
    }

    /// Takes up a `Drop`.
    pub(crate) fn drop(&mut self, key: &Key) {
        let result = match (key, self.plan.drop(key)) {
            (Key::Record(record), _) => self.journal.drop(record).map(|()| Vec::new()),
            (_, Some(item)) => self.unapply(&item),
            (_, None) => Ok(Vec::new()),
        };
        self.missing.remove(key);
        match result {
            Ok(requests) => {
                let waiting = requests.into_iter().map(|request| Waiting { request, key: key.clone(), put: None });
                self.waiting.extend(waiting);
            }
            Err(error) => self.reports.push(Report::Failed { key: key.clone(), why: error.to_string() }),
        }
    }

    /// Sends what waits, so that what follows finds it done.
    pub(crate) fn flush(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let (mut requests, mut purposes) = (Vec::new(), Vec::new());
        for Waiting { request, key, put } in self.waiting.drain(..) {
            requests.push(request);
            purposes.push((key, put));
        }
        let answers = self.netlink.carry_out(&requests);
        for ((key, put), answer) in purposes.into_iter().zip(answers) {
            match (answer, put) {
                (Ok(()), _) => {}
                (Err(why), Some(put)) => self.take_back(&put, why),
                (Err(why), None) => self.reports.push(Report::Failed { key, why }),
            }
        }
    }

    /// Completes all that was taken up: sends what waits, syncs the journal, and answers.
    pub(crate) fn finish(&mut self) -> Vec<Outcome> {
        self.flush();
        if let Err(error) = self.journal.sync() {
            for position in std::mem::take(&mut self.records) {
                self.refuse(position, error.to_string());
            }
        }
        self.records.clear();
        if let Err(error) = self.journal.tidy() {
            self.reports.push(Report::Notice { text: error.to_string() });
        }
        std::mem::take(&mut self.outcomes)
    }

    /// What happened beside the outcomes.
    pub(crate) fn take_reports(&mut self) -> Vec<Report> {
        std::mem::take(&mut self.reports)
    }

    /// Tells something to the operator.
    pub(crate) fn notice(&mut self, text: impl ToString) {
        self.reports.push(Report::Notice { text: text.to_string() });
    }

    fn refuse(&mut self, position: usize, why: String) {
        if let Some(outcome) = self.outcomes.get_mut(position) {
            outcome.refused.get_or_insert(why);
        }
    }

    /// The host does not hold what was put: the plan is to say what it holds instead.
    fn take_back(&mut self, put: &Put, why: String) {
        self.refuse(put.position, why);
        let key = put.item.key();
        if self.plan.find(&key) != Some(&put.item) {
            return;
        }
        match &put.former {
            Some(former) => drop(self.plan.put(former.clone())),
            None => {
                self.plan.drop(&key);
                self.forget(&put.item);
            }
        }
    }

    /// Does what needs no routing request at once, and returns the requests.
    fn apply(&mut self, item: &Item, former: Option<&Item>) -> Result<Vec<Request>, Error> {
        Ok(match (item, former) {
            (Item::Setting(setting), _) => {
                self.settings.put(&name_of(setting)?, setting.value)?;
                Vec::new()
            }
            (Item::Address(new), Some(Item::Address(old))) if old.prefix_length != new.prefix_length => {
                vec![address::remove(old), address::put(new)]
            }
            (Item::Address(new), _) => vec![address::put(new)],
            (Item::Anycast(anycast), _) => {
                // The kernel wants an address of the prefix to be there.
                self.flush();
                self.anycasts.put(anycast)?;
                Vec::new()
            }
            (Item::Neighbour(neighbour), _) => vec![neighbour::put(neighbour)],
            (Item::Proxy(proxy), former) => {
                if former.is_none() {
                    self.count_proxy(proxy.link)?;
                }
                vec![neighbour::put_proxy(proxy)]
            }
            (Item::Tunnel(tunnel), former) => {
                self.tunnels.put(tunnel).map_err(|error| Error::new(format!("tunnel {}", tunnel.id.0), error))?;
                self.note_remotes(former, Some(tunnel));
                self.reroute(tunnel, DEPTH);
                Vec::new()
            }
            (Item::Route(route), former) => {
                if let Some(Item::Route(former)) = former {
                    self.unnote_route(former);
                }
                let lowered = self.lower(route);
                if let Target::Tunnel(id) = route.target {
                    self.through.insert((id, item.key()), lowered);
                }
                vec![lowered.put()]
            }
            (Item::Rule(new), Some(Item::Rule(old))) if old.table != new.table => {
                vec![rule::put(new), rule::remove(old)]
            }
            (Item::Rule(new), _) => vec![rule::put(new)],
            (Item::Record(_), _) => Vec::new(),
        })
    }

    /// The opposite of [`Executor::apply`]; the plan holds the item no longer.
    fn unapply(&mut self, item: &Item) -> Result<Vec<Request>, Error> {
        let requests = match item {
            Item::Setting(setting) => {
                // The name is gone with its interface, and so is the setting.
                if let Ok(name) = name_of(setting) {
                    self.settings.drop(&name)?;
                }
                Vec::new()
            }
            Item::Address(old) => vec![address::remove(old)],
            Item::Anycast(old) => {
                self.anycasts.drop(old);
                Vec::new()
            }
            Item::Neighbour(old) => vec![neighbour::remove(old)],
            Item::Proxy(old) => vec![neighbour::remove_proxy(old)],
            Item::Tunnel(old) => {
                self.flush();
                let dropped = Tunnels::drop(self.tunnels.as_mut(), old.id);
                dropped.map_err(|error| Error::new(format!("tunnel {}", old.id.0), error))?;
                Vec::new()
            }
            Item::Route(old) => vec![self.lower(old).remove()],
            Item::Rule(old) => vec![rule::remove(old)],
            Item::Record(_) => Vec::new(),
        };
        self.forget(item);
        Ok(requests)
    }

    /// Undoes what we ourselves remember of an item.
    fn forget(&mut self, item: &Item) {
        match item {
            Item::Proxy(proxy) => self.uncount_proxy(proxy.link),
            Item::Route(route) => self.unnote_route(route),
            Item::Tunnel(tunnel) => {
                self.note_remotes(Some(item), None);
                self.reroute(tunnel, DEPTH);
            }
            _ => {}
        }
    }

    /// A route in the kernel's terms.
    fn lower(&self, route: &Route) -> KernelRoute {
        let (device, gateway, limit) = match route.target {
            Target::Link(link) => (Some(link), None, None),
            Target::Gateway { link, router } => (Some(link), Some(router), None),
            Target::Tunnel(id) => (self.tunnels.device(id), None, self.tunnels.mtu(id)),
            Target::Unreachable => (None, None, None),
        };
        let mtu = route.mtu.into_iter().chain(limit).min().filter(|_| device.is_some());
        let Route { table, destination, source, metric, .. } = *route;
        KernelRoute { table, destination, source, metric, device, gateway, mtu }
    }

    fn unnote_route(&mut self, route: &Route) {
        if let Target::Tunnel(id) = route.target {
            self.through.remove(&(id, Item::Route(route.clone()).key()));
        }
    }

    fn note_remotes(&mut self, former: Option<&Item>, tunnel: Option<&Tunnel>) {
        if let Some(Item::Tunnel(former)) = former {
            for path in &former.paths {
                self.remotes.remove(&(path.remote, former.id));
            }
        }
        if let Some(tunnel) = tunnel {
            self.remotes.extend(tunnel.paths.iter().map(|path| (path.remote, tunnel.id)));
        }
    }

    /// After `tunnel` changed: tells the kernel anew of its routes whose device or largest packet changed, and of those
    /// of tunnels that run through it.
    fn reroute(&mut self, tunnel: &Tunnel, depth: usize) {
        let first = Key::Setting(None, Knob::Forwarding);
        let range = (tunnel.id, first.clone())..(TunnelId(tunnel.id.0.saturating_add(1)), first);
        let keys: Vec<Key> = self.through.range(range).map(|((_, key), _)| key.clone()).collect();
        let mut changed = false;
        for key in keys {
            let Some(Item::Route(route)) = self.plan.find(&key) else { continue };
            let lowered = self.lower(route);
            if self.through.insert((tunnel.id, key.clone()), lowered) != Some(lowered) {
                changed = true;
                self.waiting.push(Waiting { request: lowered.put(), key, put: None });
            }
        }
        if changed && depth > 0 {
            for inner in self.run_through(tunnel) {
                if let Some(Item::Tunnel(inner)) = self.plan.find(&Key::Tunnel(inner)).cloned() {
                    self.reroute(&inner, depth - 1);
                }
            }
        }
    }

    /// The other tunnels with a path that leads into `tunnel`.
    fn run_through(&self, tunnel: &Tunnel) -> BTreeSet<TunnelId> {
        let last = |prefix: &Prefix| Ipv6Addr::from_bits(prefix.address().to_bits() | !mask(*prefix));
        let inside = |prefix: &Prefix| (prefix.address(), TunnelId(0))..=(last(prefix), TunnelId(u32::MAX));
        let inner = tunnel.far.iter().flat_map(|prefix| self.remotes.range(inside(prefix)));
        inner.map(|(_, id)| *id).filter(|id| *id != tunnel.id).collect()
    }

    /// The first address a link answers for switches answering on, without the delay meant for shared links (RFC 4861
    /// §7.2.8): we are the only one who answers.
    fn count_proxy(&mut self, link: LinkId) -> Result<(), Error> {
        let count = self.proxies.entry(link).or_default();
        *count += 1;
        if *count == 1 {
            for (name, value) in proxy_settings(link)? {
                self.settings.put(&name, value)?;
            }
        }
        Ok(())
    }

    fn uncount_proxy(&mut self, link: LinkId) {
        let left = self.proxies.get_mut(&link).map(|count| {
            *count = count.saturating_sub(1);
            *count
        });
        if left != Some(0) {
            return;
        }
        self.proxies.remove(&link);
        for (name, _) in proxy_settings(link).into_iter().flatten() {
            if let Err(error) = self.settings.drop(&name) {
                self.notice(error);
            }
        }
    }
}

fn mask(prefix: Prefix) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(prefix.length())).unwrap_or(0)
}

fn proxy_settings(link: LinkId) -> Result<[(Name, i32); 2], Error> {
    let interface = interface_name(link)?;
    Ok([(Name::conf(Some(&interface), "proxy_ndp"), 1), (Name::neigh(&interface, "proxy_delay"), 0)])
}

fn name_of(setting: &Setting) -> Result<Name, Error> {
    let knob = match setting.knob {
        Knob::Forwarding => "forwarding",
        Knob::AcceptRa => "accept_ra",
        Knob::Autoconf => "autoconf",
        Knob::AcceptDad => "accept_dad",
        Knob::RouterSolicitations => "router_solicitations",
        Knob::ProxyNdp => "proxy_ndp",
        Knob::KeepAddrOnDown => "keep_addr_on_down",
    };
    let interface = setting.link.map(interface_name).transpose()?;
    Ok(Name::conf(interface.as_deref(), knob))
}

fn interface_name(link: LinkId) -> Result<String, Error> {
    let name = if_indextoname(link.0).map_err(|error| Error::new(link, error.desc()))?;
    Ok(name.to_string_lossy().into_owned())
}
