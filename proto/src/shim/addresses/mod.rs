//! Address autoconfiguration with CGA or HBA: one address in each advertised prefix, in place of the kernel's own
//! (RFC 4862 §5.5, RFC 3972 §4, RFC 5535 §6). The kernel performs duplicate address detection.

mod prefixes;
mod sets;
#[cfg(test)]
mod tests;

use super::uplinks::Uplinks;
use crate::contract::config::shim::{AddressGeneration, AddressProof, Identity};
use crate::contract::input::AddressState;
use crate::contract::item::{Address, HbaSetRecord, JournalRecord, Sysctl, SysctlSetting};
use crate::contract::report::{LinkReport, ShimReport};
use crate::contract::view::{AddressView, GeneratedAddressState};
use crate::link::nd_messages;
use crate::mptcp::source_routes;
use crate::{
    AddressEvent, DesiredState, Entropy, Item, Key, LinkEvent, LinkId, Outbox, Outcome, Time, VecMap, VecSet, View,
};
use core::time::Duration;
use prefixes::{Lifetimes, Prefixes};
use roam6_wire::icmp6::RouterAdvertisement;
use roam6_wire::{LinkAddress, Prefix};
use sets::AddressSets;
use std::net::Ipv6Addr;

/// Time without a new prefix before a set is made; the second value applies while an uplink has no prefix.
const PREFIX_SETTLE_TIME: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(4));
/// Pause between two slices of a modifier search.
const SEARCH_INTERVAL: Duration = Duration::from_millis(1);
/// Former addresses in one prefix that are kept for existing connections.
const MAX_FORMER_ADDRESSES: usize = 2;
/// Time until a refused item is put again.
const RETRY_INTERVAL: Duration = Duration::from_secs(60);

/// The addresses of this host and their CGA parameters.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    links: VecMap<LinkId, ManagedLink>,
    sets: AddressSets,
    managed_addresses: VecMap<(LinkId, Ipv6Addr), ManagedAddress>,
    /// Sysctls, addresses, source routes and journal records.
    desired_state: DesiredState,
    /// Collision counts of plain CGAs. After the third collision no address is made.
    collisions: VecMap<(LinkId, Prefix), u8>,
    /// Prefixes in which no address is made after three collisions.
    abandoned: VecSet<(LinkId, Prefix)>,
    /// The advertised prefixes, and the time of their last change.
    prefixes: (VecSet<Prefix>, Time),
    refused_until: Option<Time>,
}

/// An uplink with addresses made by roam6.
#[derive(Debug)]
struct ManagedLink {
    name: String,
    link_address: Option<LinkAddress>,
    prefixes: Prefixes,
}

/// An address that is assigned or tentative.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ManagedAddress {
    prefix: Prefix,
    preferred: bool,
    on_link: bool,
    /// Duplicate address detection has succeeded.
    assigned: bool,
}

/// State of the engine that the update needs.
pub(super) struct Environment<'a> {
    pub(super) now: Time,
    pub(super) policy: Option<AddressGeneration>,
    pub(super) given: &'a [Identity],
    pub(super) uplinks: &'a Uplinks,
    pub(super) entropy: &'a mut Entropy,
}

impl Addresses {
    /// Restores the sets of an earlier run.
    pub(super) fn restore(&mut self, records: &[JournalRecord]) {
        for record in records {
            if let JournalRecord::HbaSet(record) = record {
                self.sets.restore(record);
            }
        }
    }

    /// An uplink was added or has changed; disables the kernel's autoconfiguration on it.
    pub(super) fn handle_link(&mut self, now: Time, event: &LinkEvent, out: &mut Outbox) {
        let LinkEvent { link, address, up, .. } = *event;
        let managed = self.links.entry(link).or_insert_with(|| {
            let autoconf = SysctlSetting { link: Some(link), sysctl: Sysctl::Autoconf, value: 0 };
            self.desired_state.put(now, &Item::Sysctl(autoconf), out);
            ManagedLink { name: event.name.clone(), link_address: address, prefixes: Prefixes::default() }
        });
        managed.link_address = address;
        managed.prefixes.set_link_up(now, up);
        if !up {
            // The next link may have no such conflict.
            self.collisions.retain(|(on, _), _| *on != link);
            self.abandoned.retain(|(on, _)| *on != link);
        }
    }

    /// Processes a Router Advertisement that passed the checks of RFC 4861 §6.1.2.
    pub(super) fn handle_advertisement(&mut self, now: Time, link: LinkId, message: &RouterAdvertisement) {
        if let Some(managed) = self.links.get_mut(&link) {
            managed.prefixes.handle_advertisement(now, message);
        }
    }

    /// Processes the kernel's state of an address; returns whether the CGA parameters have changed.
    pub(super) fn handle_address(
        &mut self,
        event: &AddressEvent,
        policy: Option<AddressGeneration>,
        out: &mut Outbox,
    ) -> bool {
        let (link, address) = (event.link, event.address);
        let Some(held) = self.managed_addresses.get_mut(&(link, address)) else { return false };
        match event.state {
            AddressState::Preferred | AddressState::Deprecated => {
                if !core::mem::replace(&mut held.assigned, true) {
                    out.report(ShimReport::AddressConfigured { link, address, prefix: held.prefix });
                }
                false
            }
            AddressState::Tentative | AddressState::Removed => false,
            AddressState::DadFailed => {
                let prefix = held.prefix;
                self.drop_address((link, address), out);
                out.report(LinkReport::DuplicateAddress { link, address });
                let collisions = self.collisions.get(&(link, prefix)).copied().unwrap_or(0);
                let present = self.sets.current.as_ref().and_then(|source| source.address(prefix, collisions));
                present == Some(address) && self.handle_collision((link, prefix), policy, out)
            }
        }
    }

    /// An address is a duplicate: the next one has a higher collision count, up to two (RFC 3972 §4).
    fn handle_collision(&mut self, at: (LinkId, Prefix), policy: Option<AddressGeneration>, out: &mut Outbox) -> bool {
        if policy.is_some_and(|policy| policy.proof != AddressProof::Cga) {
            match self.sets.after_collision() {
                Some(record) => self.put_record(record, out),
                None => self.abandon_prefix(at, out),
            }
            return true;
        }
        let collisions = self.collisions.entry(at).or_default();
        *collisions += 1;
        if self.sets.current.as_ref().is_none_or(|source| source.address(at.1, *collisions).is_none()) {
            self.abandon_prefix(at, out);
        }
        false
    }

    fn abandon_prefix(&mut self, at: (LinkId, Prefix), out: &mut Outbox) {
        self.abandoned.insert(at);
        let name = self.links.get(&at.0).map_or("", |managed| managed.name.as_str());
        let text =
            format!("{name}: three addresses in {} were duplicates, a fault or an attack; none is made there", at.1);
        out.notice(text);
    }

    /// Updates addresses and routes; returns whether the CGA parameters have changed.
    pub(super) fn update(&mut self, around: &mut Environment<'_>, out: &mut Outbox) -> bool {
        let now = around.now;
        let Some(policy) = around.policy else { return self.remove_all(out) };
        self.refused_until.take_if(|until| *until <= now);
        self.desired_state.retry_refused(now, out);
        for (link, managed) in &mut self.links {
            managed.prefixes.expire(now);
            if managed.prefixes.take_due_solicitation(now) {
                out.transmit(nd_messages::router_solicitation(*link, managed.link_address));
            }
        }
        let changed = self.update_set(policy, around, out);
        if self.refused_until.is_none() {
            self.reconcile(now, out);
        }
        self.update_source_routes(now, around.uplinks, out);
        changed
    }

    /// Chooses or makes the set for the advertised prefixes; returns whether it has changed.
    fn update_set(&mut self, policy: AddressGeneration, around: &mut Environment<'_>, out: &mut Outbox) -> bool {
        let prefixes: VecSet<Prefix> = self.advertised().map(|(_, prefix, _)| prefix).collect();
        if self.prefixes.0 != prefixes {
            self.prefixes = (prefixes.clone(), around.now);
        }
        let before = self.sets.current.clone();
        if !self.sets.choose(policy, around.given, &prefixes) && policy.proof != AddressProof::Cga {
            if self.settled_at() <= around.now {
                self.sets.start_search(policy, around.given, &prefixes, around.entropy);
            }
            if let Some(record) = self.sets.continue_search(policy.sec) {
                self.put_record(record, out);
            }
        }
        self.sets.current != before
    }

    /// When the set of prefixes counts as stable.
    fn settled_at(&self) -> Time {
        let waits = self.links.values().any(|managed| managed.prefixes.awaits_prefix());
        self.prefixes.1 + if waits { PREFIX_SETTLE_TIME.1 } else { PREFIX_SETTLE_TIME.0 }
    }

    /// Each advertised prefix once, with the first uplink that has it.
    fn advertised(&self) -> impl Iterator<Item = (LinkId, Prefix, Lifetimes)> {
        let mut seen = VecSet::new();
        let all = self
            .links
            .iter()
            .flat_map(|(link, managed)| managed.prefixes.iter().map(|(prefix, lifetimes)| (*link, prefix, lifetimes)));
        all.filter(move |(_, prefix, _)| seen.insert(*prefix))
    }

    /// Puts and drops addresses until the host has the wanted ones.
    fn reconcile(&mut self, now: Time, out: &mut Outbox) {
        let mut wanted = VecMap::new();
        for (link, prefix, lifetimes) in self.advertised() {
            let collisions = self.collisions.get(&(link, prefix)).copied().unwrap_or(0);
            let address = self.sets.current.as_ref().and_then(|source| source.address(prefix, collisions));
            if let Some(address) = address.filter(|_| !self.abandoned.contains(&(link, prefix))) {
                let preferred = lifetimes.preferred_until > now;
                wanted.insert(
                    (link, address),
                    ManagedAddress { prefix, preferred, on_link: lifetimes.on_link, assigned: false },
                );
            }
            let former = self.managed_addresses.iter().filter(|((on, had), held)| {
                (*on, held.prefix) == (link, prefix) && Some(*had) != address && held.assigned
            });
            for (key, held) in former.take(MAX_FORMER_ADDRESSES) {
                wanted.entry(*key).or_insert(ManagedAddress { preferred: false, ..*held });
            }
        }
        let gone: Vec<_> = self.managed_addresses.keys().filter(|key| !wanted.contains_key(key)).copied().collect();
        for key in gone {
            self.drop_address(key, out);
        }
        for (key, held) in wanted {
            self.put_address(now, key, held, out);
        }
    }

    fn put_address(
        &mut self,
        now: Time,
        (link, address): (LinkId, Ipv6Addr),
        wanted: ManagedAddress,
        out: &mut Outbox,
    ) {
        let former = self.managed_addresses.get(&(link, address)).copied();
        let wanted = ManagedAddress { assigned: former.is_some_and(|former| former.assigned), ..wanted };
        if former != Some(wanted) {
            let prefix_length = if wanted.on_link { wanted.prefix.length() } else { 128 };
            let preferred = wanted.preferred;
            let address_item = Address { link, address, prefix_length, preferred, dad: true };
            self.desired_state.put(now, &Item::Address(address_item), out);
            self.managed_addresses.insert((link, address), wanted);
        }
    }

    fn drop_address(&mut self, (link, address): (LinkId, Ipv6Addr), out: &mut Outbox) {
        if self.managed_addresses.remove(&(link, address)).is_some_and(|held| held.assigned) {
            out.report(ShimReport::AddressRemoved { link, address });
        }
        self.desired_state.drop(&Key::Address(link, address), out);
    }

    /// Source routes: packets from an address leave by the router that advertised its prefix.
    fn update_source_routes(&mut self, now: Time, uplinks: &Uplinks, out: &mut Outbox) {
        let route = |((link, address), held): (&(LinkId, Ipv6Addr), &ManagedAddress)| {
            Some((held.prefix, (*link, uplinks.router_for_source(now, *link, *address)?)))
        };
        let wanted = self.managed_addresses.iter().filter(|(_, held)| held.assigned).filter_map(route).collect();
        source_routes::reconcile(&mut self.desired_state, now, &wanted, out);
    }

    /// Processes the outcome of an item of this module. After a refused address no address is put for a while.
    pub(super) fn handle_outcome(&mut self, now: Time, outcome: &Outcome, out: &mut Outbox) {
        self.desired_state.receive_outcome(outcome, now + RETRY_INTERVAL, out);
        if let Key::Address(link, address) = outcome.key
            && self.desired_state.is_refused(&outcome.key)
        {
            self.drop_address((link, address), out);
            self.refused_until = Some(now + RETRY_INTERVAL);
        }
    }

    fn put_record(&mut self, record: HbaSetRecord, out: &mut Outbox) {
        self.desired_state.put_once(Item::JournalRecord(JournalRecord::HbaSet(record)), (), out);
    }

    /// Removes uplinks that are no longer configured.
    pub(super) fn drop_links(&mut self, links: &[LinkId], out: &mut Outbox) {
        for link in links {
            if self.links.remove(link).is_some() {
                self.desired_state.drop(&Key::Sysctl(Some(*link), Sysctl::Autoconf), out);
            }
        }
    }

    /// Removes all addresses, routes and settings; returns whether there was a set.
    pub(super) fn remove_all(&mut self, out: &mut Outbox) -> bool {
        source_routes::reconcile(&mut self.desired_state, Time::ZERO, &VecMap::new(), out);
        let held: Vec<_> = self.managed_addresses.keys().copied().collect();
        for key in held {
            self.drop_address(key, out);
        }
        let links: Vec<LinkId> = self.links.keys().copied().collect();
        self.drop_links(&links, out);
        let changed = self.sets.current.is_some();
        self.sets.clear();
        changed
    }

    /// Identities of the addresses made here, besides the configured ones.
    pub(super) fn identities(&self, given: &[Identity]) -> Vec<Identity> {
        self.sets.identities(given)
    }

    /// When the next action is due.
    pub(super) fn deadline(&self, now: Time) -> Option<Time> {
        let prefixes = self.links.values().filter_map(|managed| managed.prefixes.deadline(now)).min();
        let search = if self.sets.is_searching() {
            Some(now + SEARCH_INTERVAL)
        } else {
            Some(self.settled_at()).filter(|at| *at > now)
        };
        let search = search.filter(|_| !self.prefixes.0.is_empty());
        [prefixes, search, self.desired_state.deadline(), self.refused_until].into_iter().flatten().min()
    }

    /// Adds the addresses to the view.
    pub(super) fn fill_view(&self, now: Time, view: &mut View) {
        for ((link, address), held) in &self.managed_addresses {
            let managed = self.links.get(link);
            let lifetimes =
                managed.and_then(|managed| managed.prefixes.iter().find(|(prefix, _)| *prefix == held.prefix));
            let state = match (held.assigned, held.preferred) {
                (false, _) => GeneratedAddressState::Tentative,
                (true, true) => GeneratedAddressState::Preferred,
                (true, false) => GeneratedAddressState::Deprecated,
            };
            view.addresses.push(AddressView {
                link: managed.map(|managed| managed.name.clone()).unwrap_or_default(),
                address: *address,
                prefix: held.prefix,
                proof: self.sets.proof(*address),
                sec: address.octets().get(8).map_or(0, |octet| octet >> 5),
                valid: lifetimes.map(|(_, lifetimes)| lifetimes.valid_until.since(now)),
                state,
            });
        }
    }
}
