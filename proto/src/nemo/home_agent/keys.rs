//! Keys of mobile routers: those of the prefix table and of its invitations, and what each was exchanged for. An exchange is
//! offered under the former key and in force once the mobile router has used the new one, so both ends may restart and lose
//! messages at any point (RFC 4285 §5.1 for what a key authenticates).

use super::HomeAgent;
use super::request::UpdateRequest;
use super::types::{KeyRole, Reply};
use super::validate::Rejection;
use crate::contract::config::nemo::{Authentication, PrefixTable, PrefixTableRow, RowInvitation, SharedKey};
use crate::contract::item::{JournalKey, JournalRecord, KeyOffer, KeySource, RowKeysRecord, UsedInvitation};
use crate::contract::report::NemoReport;
use crate::contract::view::InvitationView;
use crate::crypto::authenticator::verify;
use crate::crypto::key_agreement::{Agreement, EphemeralSecret, Point};
use crate::nemo::{fingerprint, key_source};
use crate::{DropReason, Item, Key, Outbox, Time};
use core::time::Duration;
use roam6_wire::HomeAddress;
use roam6_wire::mobility::KeyExchange;
use std::collections::BTreeMap;

/// Interval of exchanges that a mobile router may ask for.
const OFFER_INTERVAL: Duration = Duration::from_secs(60);
/// How long an exchange may take that was begun before its invitation expired, seconds.
const COMPLETION_SECONDS: u64 = 24 * 3600;
/// Before this time a clock was never set: 2025-01-01, seconds since 1970.
const CLOCK_IS_SET: u64 = 1_735_689_600;
/// Lowest SPI that is not reserved (RFC 4285 §5.1).
const MIN_SPI: u32 = 256;
/// Most used invitations that are shown.
const MAX_SHOWN: usize = 10_000;

/// What the keys of rows were exchanged for: at most one record for each row, and for each that a faulty file lacks.
#[derive(Debug, Default)]
pub(super) struct ExchangedKeys(BTreeMap<HomeAddress, Box<RowKeys>>);

#[derive(Debug)]
struct RowKeys {
    record: RowKeysRecord,
    /// When a key was last offered to the holder of the key in force.
    offered_at: Option<Time>,
    /// The record is not in the journal yet.
    unwritten: bool,
}

impl HomeAgent {
    /// How the answer to an update is authenticated, and what its key is: of the keys with its SPI the one that verifies it,
    /// else any.
    pub(super) fn reply_authentication(
        &self,
        request: &UpdateRequest,
        row: &PrefixTableRow,
    ) -> (Authentication, Option<KeyRole>) {
        let Some(mn_ha) = &request.mn_ha_option else { return (row.authentication.clone(), None) };
        let named = || self.keys_of(row).into_iter().filter(|(_, key)| key.spi == mn_ha.spi);
        let proves = |(_, key): &(KeyRole, &SharedKey)| {
            verify(&key.secret, request.care_of, request.home, &mn_ha.covered, &mn_ha.authenticator)
        };
        match named().find(proves).or_else(|| named().next()) {
            Some((role, key)) => (Authentication::SharedKey(key.clone()), Some(role)),
            None => (row.authentication.clone(), None),
        }
    }

    /// All keys that the mobile router of a row may have, also those that it must not use any more.
    fn keys_of<'a>(&'a self, row: &'a PrefixTableRow) -> Vec<(KeyRole, &'a SharedKey)> {
        let Some(own) = row.shared_key() else { return Vec::new() };
        let record = self.keys_record(row);
        let offered = record.and_then(|record| record.offer.as_ref()).map(|offer| (KeyRole::Offered, &offer.key));
        let current = record.and_then(|record| record.current.as_ref()).map(|key| (KeyRole::Current, key));
        let invited = row.invitation.as_deref();
        let own_role = match invited {
            Some(RowInvitation { key: None, .. }) => KeyRole::Invitation,
            _ => KeyRole::Row,
        };
        let next = row.next_key.as_ref().map(|key| (KeyRole::RowNext, key));
        let invited = invited.and_then(|invited| invited.key.as_ref()).map(|key| (KeyRole::Invitation, key));
        [offered, current, Some((own_role, own)), next, invited].into_iter().flatten().collect()
    }

    /// The record of a row, unless it belongs to a former key of the file.
    fn keys_record(&self, row: &PrefixTableRow) -> Option<&RowKeysRecord> {
        let record = &self.exchanged_keys.0.get(&row.home_address)?.record;
        (Some(record.source) == source_of(row)).then_some(record)
    }

    /// Refuses an authentic update whose key was exchanged, or is that of an invitation that is used or has expired.
    pub(super) fn check_key(
        &self,
        now: Time,
        request: &UpdateRequest,
        row: &PrefixTableRow,
        role: Option<KeyRole>,
    ) -> Result<(), Rejection> {
        let record = self.keys_record(row);
        match (role, &row.invitation) {
            (Some(KeyRole::Row), _) if record.is_some_and(|record| record.current.is_some()) => {
                let why = "the key of its row was exchanged for another one, and only that is accepted: either a copy of \
                           the mobile router's former key file is in use, or its state directory was lost";
                Err(Rejection::FormerKey(why.to_owned()))
            }
            (Some(KeyRole::Invitation), Some(invitation)) => self.check_invitation(now, request, record, invitation),
            _ => Ok(()),
        }
    }

    /// An invitation is accepted until it is used, then only for the exchange that has begun.
    fn check_invitation(
        &self,
        now: Time,
        request: &UpdateRequest,
        record: Option<&RowKeysRecord>,
        invitation: &RowInvitation,
    ) -> Result<(), Rejection> {
        let id = invitation.id;
        let refused = |why: String| Err(Rejection::FormerKey(why));
        let Some(unix) = self.clock.unix_seconds(now).filter(|unix| *unix >= CLOCK_IS_SET) else {
            return refused(format!(
                "the clock of this host is not set, so invitation {id} may have expired: set the clock"
            ));
        };
        let used = record.and_then(|record| record.used).filter(|used| used.id == id);
        let Some(used) = used else {
            return match unix < invitation.expires_unix {
                true => Ok(()),
                false => refused(format!("invitation {id} has expired: make another one with `roam6 invite --again`")),
            };
        };
        let offer = record.and_then(|record| record.offer.as_ref()).filter(|offer| offer.invitation == Some(id));
        let same = offer.filter(|offer| request.key_request == Some(offer.router));
        if same
            .is_some_and(|offer| unix < invitation.expires_unix.max(offer.made_unix.saturating_add(COMPLETION_SECONDS)))
        {
            return Ok(());
        }
        refused(format!(
            "invitation {id} was used before, from {}: make another one with `roam6 invite --again`, and if that use was \
             not yours, `roam6 revoke` the router",
            used.by
        ))
    }

    /// Draws the consequences of an accepted update for the keys of its row: a new key that it used is in force, and a new
    /// one that it asks for is offered if it `registers`.
    pub(super) fn advance_keys(
        &mut self,
        now: Time,
        request: &UpdateRequest,
        answer: &mut Reply,
        registers: bool,
        out: &mut Outbox,
    ) {
        let home = request.home;
        if answer.key_role == Some(KeyRole::Offered) {
            self.enforce_offer(home, out);
        }
        if let Some(point) = request.key_request.filter(|_| registers) {
            answer.key_answer = self.offer_key(now, request, answer, point, out);
        }
        // A registration puts it before it is acknowledged.
        if !registers && let Some(item) = self.unwritten_keys(home) {
            self.put_own(item, out);
            self.note_keys_written(home);
        }
    }

    /// The offered key was used: all former ones are worthless.
    fn enforce_offer(&mut self, home: HomeAddress, out: &mut Outbox) {
        let Some(keys) = self.exchanged_keys.0.get_mut(&home) else { return };
        let Some(offer) = keys.record.offer.take() else { return };
        out.report(NemoReport::KeyExchanged { home_address: home, spi: offer.key.spi });
        keys.record.current = Some(offer.key);
        keys.unwritten = true;
    }

    /// The answer to a request for a new key: the same as before to the same request; `None` to one that is too early.
    fn offer_key(
        &mut self,
        now: Time,
        request: &UpdateRequest,
        answer: &Reply,
        router: Point,
        out: &mut Outbox,
    ) -> Option<KeyExchange> {
        let home = request.home;
        if !self.config.key_exchange {
            return None;
        }
        let Authentication::SharedKey(authenticated_by) = &answer.authentication else { return None };
        let row = self.prefix_table_row(home)?;
        let invitation = row.invitation.as_ref().map(|invitation| invitation.id);
        let invitation = invitation.filter(|_| answer.key_role == Some(KeyRole::Invitation));
        let source = source_of(row)?;
        let made_unix = self.clock.unix_seconds(now).unwrap_or_default();
        if let Some(offer) = self.keys_record(row).and_then(|record| record.offer.as_ref()) {
            if offer.router == router && offer.invitation == invitation {
                return Some(KeyExchange::Answer { spi: offer.key.spi, point: offer.agent.0 });
            }
            // The router that an invitation replaces must not disturb the new one.
            if offer.invitation.is_some()
                && invitation.is_none()
                && made_unix < offer.made_unix.saturating_add(COMPLETION_SECONDS)
            {
                return None;
            }
        }
        let last = self.exchanged_keys.0.get(&home).and_then(|keys| keys.offered_at);
        if invitation.is_none() && last.is_some_and(|at| now.since(at) < OFFER_INTERVAL) {
            return None;
        }
        let taken: Vec<u32> = self.keys_of(row).iter().map(|(_, key)| key.spi).collect();
        let secret = EphemeralSecret::generate(&mut self.entropy);
        let agent = secret.point()?;
        let spi = loop {
            let spi = u32::try_from(self.entropy.below(1 << 32)).unwrap_or_default();
            if spi >= MIN_SPI && !taken.contains(&spi) {
                break spi;
            }
        };
        let agreement = Agreement { authenticated_by: &authenticated_by.secret, home, router, agent, spi };
        let Some(key) = secret.agree(&agreement, true) else {
            out.report_drop(DropReason::Malformed, request.source, "key exchange: not a point of P-256".to_owned());
            return None;
        };
        let key = SharedKey { spi, secret: key.to_vec() };
        let by = request.peer();
        self.remember_offer(now, home, source, KeyOffer { router, agent, key, invitation, made_unix }, by);
        Some(KeyExchange::Answer { spi, point: agent.0 })
    }

    fn remember_offer(
        &mut self,
        now: Time,
        home_address: HomeAddress,
        source: KeySource,
        offer: KeyOffer,
        by: std::net::Ipv6Addr,
    ) {
        let empty = RowKeysRecord { home_address, source, current: None, offer: None, used: None };
        let keys = self
            .exchanged_keys
            .0
            .entry(home_address)
            .or_insert_with(|| Box::new(RowKeys { record: empty.clone(), offered_at: None, unwritten: true }));
        if keys.record.source != source {
            keys.record = empty;
        }
        if let Some(id) = offer.invitation {
            keys.record.used = Some(UsedInvitation { id, used_unix: offer.made_unix, by });
        } else {
            keys.offered_at = Some(now);
        }
        keys.record.offer = Some(offer);
        keys.unwritten = true;
    }

    /// The journal record of the keys of `home`, if there are any.
    pub(super) fn keys_item(&self, home: HomeAddress) -> Option<Item> {
        let keys = self.exchanged_keys.0.get(&home)?;
        Some(Item::JournalRecord(JournalRecord::RowKeys(Box::new(keys.record.clone()))))
    }

    /// The same if it is not in the journal yet.
    pub(super) fn unwritten_keys(&self, home: HomeAddress) -> Option<Item> {
        self.keys_item(home).filter(|_| self.exchanged_keys.0.get(&home).is_some_and(|keys| keys.unwritten))
    }

    /// The journal has the record of `home`.
    pub(super) fn note_keys_written(&mut self, home: HomeAddress) {
        if let Some(keys) = self.exchanged_keys.0.get_mut(&home) {
            keys.unwritten = false;
        }
    }

    /// Restores the records of the journal, before any update. That of a row with another key in the file is dropped; that
    /// of a row that the file lacks is kept, since the row may only be faulty for now.
    pub(super) fn restore_keys(&mut self, records: &[JournalRecord], out: &mut Outbox) {
        for record in records {
            let JournalRecord::RowKeys(record) = record else { continue };
            let home = record.home_address;
            if self.prefix_table_row(home).is_some_and(|row| source_of(row) != Some(record.source)) {
                out.drop(Key::JournalRecord(JournalKey::RowKeys(home)));
                continue;
            }
            let keys = RowKeys { record: (**record).clone(), offered_at: None, unwritten: false };
            self.exchanged_keys.0.insert(home, Box::new(keys));
        }
    }

    /// Drops the records of rows that were removed from the prefix table, or have another key now.
    pub(super) fn forget_keys(&mut self, former: &PrefixTable, out: &mut Outbox) {
        let before = |home: &HomeAddress| {
            let at = former.rows.binary_search_by_key(home, |row| row.home_address).ok()?;
            former.rows.get(at)
        };
        let is_gone = |home: &HomeAddress, keys: &RowKeys| match (before(home), self.prefix_table_row(*home)) {
            (_, Some(row)) => source_of(row) != Some(keys.record.source),
            (former, None) => former.is_some(),
        };
        let gone: Vec<HomeAddress> =
            self.exchanged_keys.0.iter().filter(|(home, keys)| is_gone(home, keys)).map(|(home, _)| *home).collect();
        for home in gone {
            self.exchanged_keys.0.remove(&home);
            out.drop(Key::JournalRecord(JournalKey::RowKeys(home)));
        }
    }

    /// What the key of a row was exchanged for, if it was.
    pub(super) fn exchanged_key(&self, row: &PrefixTableRow) -> Option<&SharedKey> {
        self.keys_record(row)?.current.as_ref()
    }

    /// The fingerprint of the key in force, if it was exchanged.
    pub(super) fn key_fingerprint(&self, home: HomeAddress) -> Option<String> {
        self.exchanged_keys.0.get(&home)?.record.current.as_ref().map(fingerprint)
    }

    /// The invitations that are used up.
    pub(super) fn show_invitations(&self) -> impl Iterator<Item = InvitationView> {
        let used = self.exchanged_keys.0.values().filter_map(|keys| {
            let used = keys.record.used?;
            Some(InvitationView {
                id: used.id.to_string(),
                home_address: keys.record.home_address,
                used_unix: used.used_unix,
                used_by: used.by,
                exchanged: keys.record.offer.as_ref().is_none_or(|offer| offer.invitation != Some(used.id)),
            })
        });
        used.take(MAX_SHOWN)
    }
}

/// What the record of a row belongs to; `None` if the row has no shared key.
fn source_of(row: &PrefixTableRow) -> Option<KeySource> {
    let key = row.shared_key()?;
    Some(match row.invitation.as_deref() {
        Some(RowInvitation { key: None, first, id, .. }) => KeySource(first.unwrap_or(*id)),
        _ => key_source(key),
    })
}
