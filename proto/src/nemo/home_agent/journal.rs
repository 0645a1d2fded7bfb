//! Restored bindings, and changes of the prefix table (RFC 6275 §9.1, RFC 3963 §6.1.2).

use super::cache::{Binding, Registration};
use super::encryption::is_translated;
use super::nesting::TunnelDestinations;
use super::types::CareOf;
use super::{HomeAgent, link_local, sort_table};
use crate::contract::config::nemo::{PrefixTable, PrefixTableRow};
use crate::contract::item::{BindingRecord, JournalRecord};
use crate::crypto::authenticator::Timestamp;
use crate::{Outbox, Time};
use core::time::Duration;
use roam6_wire::{HomeAddress, Ipv4Endpoint, Prefix};
use std::net::Ipv6Addr;
use std::sync::Arc;

impl HomeAgent {
    /// Restores the journal, as soon as the wall clock gives the remaining lifetimes.
    pub(super) fn restore_journal(&mut self, now: Time, out: &mut Outbox) {
        let Some(unix_now) = self.clock.unix_micros(now) else { return };
        for record in core::mem::take(&mut self.unrestored) {
            let record = match record {
                // The host gives those of a fleet as events of the store.
                #[cfg(feature = "fleet")]
                JournalRecord::Binding(_) if self.fleet.is_some() => continue,
                JournalRecord::Binding(record) => record,
                JournalRecord::Sequence(record) => {
                    self.restore_used_sequence(&record, out);
                    continue;
                }
                JournalRecord::HbaSet(_)
                | JournalRecord::CareOfPrefix(_)
                | JournalRecord::Usage(_)
                | JournalRecord::Network(_)
                | JournalRecord::RowKeys(_)
                | JournalRecord::OwnKeys(_) => continue,
            };
            let care_of = self.unexpired_care_of(now, unix_now, &record);
            if care_of.is_empty() || !self.may_restore(&record, &care_of) {
                self.restore_ended(now, &record, out);
                continue;
            }
            self.restore_binding(now, record, care_of, out);
        }
    }

    fn may_restore(&self, record: &BindingRecord, care_of: &[CareOf]) -> bool {
        !self.bindings.contains_key(&record.home_address)
            && self.bindings.len() < self.config.max_bindings
            && self.may_serve(record, care_of)
    }

    /// Whether the prefix table authorises a record, and its tunnel leads to no loop.
    pub(super) fn may_serve(&self, record: &BindingRecord, care_of: &[CareOf]) -> bool {
        let away: Vec<Ipv6Addr> =
            care_of.iter().filter(|care_of| !care_of.simultaneous_home).map(|care_of| care_of.address).collect();
        let reach = TunnelDestinations { home: record.home_address, prefixes: &record.prefixes };
        self.prefix_table_row(record.home_address).is_some_and(|row| self.authorises(row, &record.prefixes))
            && self.may_nest(reach, &away)
    }

    /// The unexpired care-of addresses of `record`, each with its own end.
    pub(super) fn unexpired_care_of(&self, now: Time, unix_now: u64, record: &BindingRecord) -> Vec<CareOf> {
        let mut ends = record.each_expires_unix_micros.iter();
        let care_of = record.care_of.iter().map(|(bid, address, priority)| {
            let end = *ends.next().unwrap_or(&record.expires_unix_micros);
            let left = Duration::from_micros(end.saturating_sub(unix_now)).min(self.config.max_lifetime);
            let at_home = *address == record.home_address.0;
            let udp = record.udp_ports.iter().find(|(of, _)| of == bid).map(|(_, port)| *port);
            CareOf {
                bid: *bid,
                address: *address,
                priority: *priority,
                simultaneous_home: at_home,
                udp,
                wireguard: self.restored_peer(record, *bid, udp.is_some() || is_translated(*address)).map(Box::new),
                esp: self.restored_esp(record, *bid).map(Box::new),
                expires: now + left,
                since: now,
            }
        });
        let by_wireguard = |bid| record.wireguard.iter().any(|(device, ..)| device.bid() == bid);
        let by_esp = |bid| record.esp.iter().any(|(of, ..)| *of == bid);
        let permitted = |care_of: &CareOf| {
            let has = (care_of.wireguard.is_some(), care_of.esp.is_some());
            self.permits(care_of) && (by_wireguard(care_of.bid), by_esp(care_of.bid)) == has
        };
        let reachable = |care_of: &CareOf| match Ipv4Endpoint::from_ipv6(care_of.address) {
            Some(_) => self.config.ipv4.is_some(),
            None if care_of.udp.is_some() => self.config.udp6,
            None => !care_of.simultaneous_home || record.home_link_address.is_some(),
        };
        care_of.filter(|care_of| care_of.expires > now && reachable(care_of) && permitted(care_of)).collect()
    }

    /// The registration of a record, with those of its care-of addresses that have not expired.
    pub(super) fn restored_registration(&self, now: Time, record: BindingRecord, care_of: Vec<CareOf>) -> Registration {
        let home = record.home_address;
        let lifetime = care_of.iter().map(|care_of| care_of.expires.since(now)).max().unwrap_or_default();
        let mut registration = Registration {
            home_link_address: record
                .home_link_address
                .filter(|_| care_of.iter().any(|care_of| care_of.simultaneous_home)),
            care_of,
            prefixes: self.share_prefixes(home, record.prefixes),
            explicit: record.explicit,
            flows: record.flows,
            router: record.router,
            link_local: record.link_local.then(|| link_local::link_local_of(home)),
            lifetime,
        };
        registration.sort_by_preference();
        registration
    }

    fn restore_binding(&mut self, now: Time, record: BindingRecord, care_of: Vec<CareOf>, out: &mut Outbox) {
        let home = record.home_address;
        let (sequence, timestamp) = (record.sequence, self.clamp_timestamp(now, Timestamp(record.timestamp)));
        let path_mtus = record.path_mtus.clone();
        let registration = self.restored_registration(now, record, care_of);
        self.receive_path_mtus(now, &path_mtus, &registration, out);
        let tunnel = self.tunnel_id(home);
        let mut binding = Binding { tunnel, sequence, timestamp, ..Default::default() };
        self.tunnels.insert(binding.tunnel, home);
        let prefixes: Vec<Prefix> = self.tunnelled_prefixes(tunnel, home, &registration).collect();
        prefixes.into_iter().for_each(|prefix| self.prefixes.insert(prefix, tunnel));
        self.care_of_index.extend(registration.addresses().into_iter().map(|address| (address, binding.tunnel)));
        binding.current = Some(registration);
        self.bindings.insert(home, Box::new(binding));
        self.reinstall(now, home, out);
        self.schedule(home);
    }

    /// Replaces the prefix table; bindings that it does not authorise end.
    pub(super) fn reload_prefix_table(&mut self, now: Time, mut table: Arc<PrefixTable>, out: &mut Outbox) {
        sort_table(&mut table);
        let former = core::mem::replace(&mut self.config.prefix_table, table);
        self.prefixes.reserve_lengths(&self.config);
        self.update_home_routes(&former, out);
        self.update_unreachable_routes(&former, out);
        let homes = changed_rows(&former, &self.config.prefix_table).map(|row| row.home_address);
        let lost = homes.filter(|home| {
            let latest = self.bindings.get(home).and_then(|binding| binding.latest());
            let allowed = |latest| self.prefix_table_row(*home).is_some_and(|row| self.authorises(row, latest));
            latest.is_some_and(|latest| !allowed(&latest.prefixes))
        });
        let lost: Vec<HomeAddress> = lost.collect();
        for home in lost {
            self.delete_binding(now, home, "no longer in the prefix table", out);
        }
        self.forget_keys(&former, out);
        self.forget_used_sequences(out);
    }

    fn authorises(&self, row: &PrefixTableRow, prefixes: &[Prefix]) -> bool {
        prefixes.iter().all(|prefix| self.is_authorised_for(row, *prefix))
    }

    /// The sorted prefixes, shared with the row if they are the same.
    pub(super) fn share_prefixes(&self, home: HomeAddress, mut prefixes: Vec<Prefix>) -> Arc<[Prefix]> {
        prefixes.sort();
        prefixes.dedup();
        let row = self.prefix_table_row(home).filter(|row| *row.prefixes == *prefixes);
        row.map_or_else(|| prefixes.into(), |row| row.prefixes.clone())
    }
}

/// The rows of `former` that are missing in `now` or have other prefixes. Both are sorted.
pub(super) fn changed_rows<'a>(
    former: &'a PrefixTable,
    now: &'a PrefixTable,
) -> impl Iterator<Item = &'a PrefixTableRow> {
    let mut rows = now.rows.iter().peekable();
    let differs = move |row: &&PrefixTableRow| {
        while rows.next_if(|other| other.home_address < row.home_address).is_some() {}
        rows.peek().is_none_or(|other| other.home_address != row.home_address || other.prefixes != row.prefixes)
    };
    former.rows.iter().filter(differs)
}
