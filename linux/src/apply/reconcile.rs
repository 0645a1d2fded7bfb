//! Reconciles the kernel with the plan: at start, after lost announcements, when others have removed items, and at the
//! end.

use super::holder::holder;
use super::kernel_item::KernelItem;
use super::{Executor, PendingRequest};
use crate::error::Error;
use crate::netlink::message::Message;
use crate::netlink::monitor::Announcement;
use crate::netlink::route::{DEFAULT_METRIC, KernelRoute};
use crate::netlink::{address, family, neighbour, rule};
use netlink_packet_route::AddressFamily;
use roam6_proto::contract::input::AddressState;
use roam6_proto::contract::item::PolicyRule;
use roam6_proto::contract::report::HostReport;
use roam6_proto::{Item, Key, LinkId, Report};
use std::collections::{BTreeMap, BTreeSet};

impl Executor {
    /// Notes that an item was removed, unless by roam6 itself.
    pub(crate) fn note_removed(&mut self, news: &Announcement) {
        let key = match news {
            Announcement::RouteRemoved(route) => self.route_key(route),
            Announcement::RuleRemoved(rule) => return self.note_rule_removed(rule),
            Announcement::ProxyRemoved(proxy) => Key::ProxyNeighbour(proxy.link, proxy.address),
            // Also if another program has changed the address since, and so removed the mark of roam6 from it.
            Announcement::Address(event) if event.state == AddressState::Removed => {
                Key::Address(event.link, event.address)
            }
            _ => return,
        };
        if self.installed.find(&key).is_some() {
            self.missing.insert(key);
        }
    }

    /// A rule to another table than the installed one was replaced by it.
    fn note_rule_removed(&mut self, rule: &PolicyRule) {
        let item = Item::Rule(rule.clone());
        let key = item.key();
        if self.installed.find(&key) == Some(item) {
            self.missing.insert(key);
        }
    }

    /// Notes that an interface has lost all items of one address family.
    pub(crate) fn note_family_removed(&mut self, link: LinkId, ipv4: bool) {
        self.missing.extend(self.installed.of_family_on(link, ipv4));
    }

    /// Installs again what an interface lost while it was down, most of which the kernel does not announce.
    pub(crate) fn restore(&mut self, link: LinkId) {
        self.missing.extend(self.installed.on(link));
        self.reinstall_missing();
    }

    /// Whether items are known to be missing.
    pub(crate) fn is_incomplete(&self) -> bool {
        !self.missing.is_empty()
    }

    /// Reinstalls items that others removed; refused ones stay missing. Returns the number of items installed.
    pub(crate) fn repair(&mut self) -> usize {
        let repaired = self.reinstall_missing();
        if repaired > 0 {
            self.reports.push(Report::Host(HostReport::ItemsRestored { items: repaired }));
        }
        repaired
    }

    fn reinstall_missing(&mut self) -> usize {
        self.flush();
        // IPv6 on an interface may have been re-enabled, with default sysctls.
        self.sysctls.repair();
        // In order of installation: an anycast address needs its prefix, a route its gateway's.
        let missing = std::mem::take(&mut self.missing);
        let (mut keys, mut requests) = (Vec::new(), Vec::new());
        for key in missing {
            if let Some(Item::Anycast(anycast)) = self.installed.find(&key) {
                // Refused without an address of the prefix, which is reported missing by itself.
                let _ = self.anycasts.put(&anycast);
            }
            let request = self.installed.find(&key).and_then(|item| Some(holder(&item).show(self)?.0));
            if let Some(request) = request {
                keys.push(key);
                requests.push(request);
            }
        }
        let results = self.netlink.execute(&requests);
        let before = keys.len();
        let refused = keys.into_iter().zip(results).filter(|(_, result)| result.is_err()).map(|(key, _)| key);
        self.missing.extend(refused);
        before - self.missing.len()
    }

    /// Makes the kernel match the plan, and removes what an earlier daemon has left.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn remove_stale(&mut self) -> Result<(), Error> {
        self.reconcile()?;
        self.sysctls.restore_stale()?;
        self.tunnels.remove_stale().map_err(|error| Error::new("tunnels", error))
    }

    /// Compares the plan with the kernel's tables, item by item, and repairs the differences.
    ///
    /// # Errors
    /// The kernel's, if a table cannot be dumped.
    pub(crate) fn reconcile(&mut self) -> Result<(), Error> {
        self.flush();
        let mut present = self.inventory()?;
        let mut wanted = Vec::new();
        for item in self.installed.iter() {
            let key = item.key();
            let Some((request, shown)) = holder(&item).show(self) else { continue };
            let removal = match present.remove(&shown.key()) {
                Some(there) if there == shown => continue,
                // Rules and addresses are not replaced but added.
                Some(there) if !matches!(there, KernelItem::Route(_)) => there.removal(),
                _ => None,
            };
            wanted.extend(removal.map(|request| (key.clone(), request)));
            wanted.push((key.clone(), request));
        }
        let unknown = present.iter().rev().filter_map(|(key, item)| Some((key.clone(), item.removal()?)));
        wanted.extend(unknown);
        if !wanted.is_empty() && !self.installed.is_empty() {
            self.notice(format!("{} differences between plan and kernel repaired", wanted.len()));
        }
        self.pending.extend(wanted.into_iter().map(|(key, request)| PendingRequest { request, key, put: None }));
        self.flush();
        self.reconcile_endpoints()?;
        self.sysctls.repair();
        self.source_filters.reconcile().unwrap_or_else(|error| self.notice(error));
        self.missing.clear();
        Ok(())
    }

    /// Installs the source address filters again if others have removed them; true if so.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) fn repair_source_filters(&mut self) -> Result<bool, Error> {
        self.source_filters.repair()
    }

    fn reconcile_endpoints(&mut self) -> Result<(), Error> {
        let mut assigned = BTreeSet::new();
        if self.mptcp.adopting {
            let addresses = address::all_ipv6(&mut self.netlink)?;
            let events = addresses.iter().filter_map(|message| address::event(message, false));
            assigned.extend(events.map(|event| event.address));
        }
        match self.mptcp.reconcile(|address| assigned.contains(&address)) {
            Ok(0) => {}
            Ok(repaired) => self.notice(format!("{repaired} differences in MPTCP endpoints repaired")),
            Err(error) => self.notice(error),
        }
        Ok(())
    }

    /// Removes all items, in reverse order. Continues after an error and returns the first.
    ///
    /// # Errors
    /// The first of the kernel's.
    pub(crate) fn clean(&mut self) -> Result<(), Error> {
        self.mptcp.adopting = false;
        let keys: Vec<Key> = self.installed.iter().map(|item| item.key()).collect();
        for key in keys.iter().rev() {
            self.drop(key);
        }
        let settled = self.remove_stale();
        settled.and(self.tunnels.clean().map_err(|error| Error::new("tunnels", error)))
    }

    /// All objects of roam6 in the kernel's tables, by key.
    fn inventory(&mut self) -> Result<BTreeMap<Key, KernelItem>, Error> {
        let mut present = BTreeMap::new();
        let both = |dump: fn(AddressFamily) -> Message| family::BOTH.map(dump);
        let dumps = [both(KernelRoute::dump), both(rule::dump), both(address::dump), both(neighbour::dump_proxies)];
        for dump in dumps.into_iter().flatten().chain([neighbour::dump(AddressFamily::Inet6)]) {
            for message in self.netlink.dump(dump)? {
                if let Some(item) = KernelItem::read(&message) {
                    present.insert(item.key(), item);
                }
            }
        }
        Ok(present)
    }

    /// The key of a route in the plan: metric 0 is shown as the kernel's own choice.
    fn route_key(&self, route: &KernelRoute) -> Key {
        let key = |metric| Key::Route(route.table, route.destination, route.source, metric);
        let unspecified = key(0);
        let chosen = route.metric == DEFAULT_METRIC && self.installed.find(&unspecified).is_some();
        if chosen { unspecified } else { key(route.metric) }
    }
}
