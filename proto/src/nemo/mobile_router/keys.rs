//! The key of the mobile router, and its exchange for a new one: the key of an invitation with the first update, any other at
//! the operator's request. The private key is in the journal before the request is sent, and the new key before it is used,
//! so a restart at any point goes on (RFC 4285 §5.1 for what a key authenticates).

use super::MobileRouter;
use crate::contract::config::nemo::{Authentication, SharedKey};
use crate::contract::item::{JournalKey, JournalRecord, OwnKeysRecord};
use crate::contract::report::NemoReport;
use crate::crypto::key_agreement::{Agreement, EphemeralSecret, Point};
use crate::nemo::{fingerprint, key_source};
use crate::{Item, Key, Outbox, Outcome, Time};
use core::time::Duration;
use roam6_wire::Sequence;
use roam6_wire::mobility::option::AUTHENTICATION_MN_HA;
use roam6_wire::mobility::{BindingAcknowledgement, KeyExchange, MobilityOption};

/// Time until a record that the journal refused is put again.
const RETRY_INTERVAL: Duration = Duration::from_secs(60);
/// Lowest SPI that is not reserved (RFC 4285 §5.1).
const MIN_SPI: u32 = 256;

/// What the key of the configuration was exchanged for, and an exchange that is not complete.
#[derive(Debug, Default, Clone)]
pub(super) struct OwnKeys {
    /// The key in force; `None`: that of the configuration.
    current: Option<SharedKey>,
    /// The one before: acknowledgements may have it until the first with the new one.
    former: Option<SharedKey>,
    exchange: Exchange,
    /// The operator has asked for an exchange.
    is_asked: bool,
    /// The journal is restored.
    is_restored: bool,
    /// It was reported that the home agent does not answer.
    is_reported: bool,
    /// When to put a refused record again.
    retry_at: Option<Time>,
}

#[derive(Debug, Default, Clone)]
enum Exchange {
    #[default]
    Idle,
    /// The private key is on its way to the journal.
    Writing(EphemeralSecret),
    /// Updates carry the request.
    Asking {
        secret: EphemeralSecret,
        point: Point,
        /// The first of them.
        first: Option<Sequence>,
    },
    /// The new key is on its way to the journal.
    Storing { secret: EphemeralSecret, point: Point, key: SharedKey },
}

impl OwnKeys {
    /// When something is due.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.retry_at
    }
}

impl MobileRouter {
    /// The key that updates are signed with; `None` without shared keys.
    pub(super) fn signing_key(&self) -> Option<&SharedKey> {
        let Authentication::SharedKey(key) = &self.config.authentication else { return None };
        Some(self.keys.current.as_ref().unwrap_or(key))
    }

    /// The keys of acknowledgements: that of updates, and for a while the one before.
    pub(super) fn acknowledgement_keys(&self) -> impl Iterator<Item = &SharedKey> {
        self.signing_key().into_iter().chain(&self.keys.former)
    }

    /// The fingerprint of the key in force, if it was exchanged.
    pub(super) fn key_fingerprint(&self) -> Option<String> {
        self.keys.current.as_ref().map(fingerprint)
    }

    /// Whether the key is still that of an invitation.
    pub(super) fn has_invited_key(&self) -> bool {
        self.config.invitation.is_some() && self.keys.current.is_none()
    }

    /// Restores a record of the journal, unless the configuration has another key now.
    pub(super) fn restore_own_keys(&mut self, record: &OwnKeysRecord) {
        let Authentication::SharedKey(key) = &self.config.authentication else { return };
        if record.home_address != self.config.home_address || record.source != key_source(key) {
            return;
        }
        self.keys.current.clone_from(&record.current);
        if let Some((secret, point)) = record.secret.clone().and_then(|secret| Some((secret.clone(), secret.point()?)))
        {
            self.keys.exchange = Exchange::Asking { secret, point, first: None };
        }
    }

    /// The journal is restored: exchanges may begin.
    pub(super) fn note_keys_restored(&mut self) {
        self.keys.is_restored = true;
    }

    /// The configuration has another key: what the former one was exchanged for is void.
    pub(super) fn forget_own_keys(&mut self) {
        self.keys = OwnKeys { is_restored: self.keys.is_restored, ..OwnKeys::default() };
    }

    /// Exchanges the key at the operator's request.
    pub(super) fn ask_for_key(&mut self, out: &mut Outbox) {
        let why = if self.signing_key().is_none() {
            "it is no shared key; ESP keys are changed at both ends by hand"
        } else if self.config.home_agents.len() != 1 {
            "several home agents share it; give each mobile router one home agent, or change the key by [mobile.next]"
        } else if !self.config.key_exchange {
            "state_dir is in memory, and the new key would be lost with it; name a folder on a disk"
        } else if self.registration.binding().is_none() {
            "the mobile router is not bound"
        } else {
            self.keys.is_asked = true;
            return;
        };
        self.report_key_failure(why, out);
    }

    /// Begins the exchange that is due.
    pub(super) fn update_key_exchange(&mut self, now: Time, out: &mut Outbox) {
        if self.keys.retry_at.is_some_and(|at| at <= now) {
            self.keys.retry_at = None;
            if matches!(self.keys.exchange, Exchange::Asking { .. }) {
                self.registration.request_refresh();
            }
        }
        let wanted = self.keys.is_asked || self.has_invited_key();
        let one = self.config.key_exchange && self.config.home_agents.len() == 1;
        let possible = one && self.signing_key().is_some();
        let idle = matches!(self.keys.exchange, Exchange::Idle) && self.keys.retry_at.is_none();
        if wanted && possible && idle && self.keys.is_restored {
            let secret = EphemeralSecret::generate(&mut self.entropy);
            self.keys.exchange = Exchange::Writing(secret.clone());
            self.put_own_keys(self.keys.current.clone(), Some(secret), out);
        }
    }

    fn put_own_keys(&mut self, current: Option<SharedKey>, secret: Option<EphemeralSecret>, out: &mut Outbox) {
        let Authentication::SharedKey(key) = &self.config.authentication else { return };
        let (home_address, source) = (self.config.home_address, key_source(key));
        let record = JournalRecord::OwnKeys(OwnKeysRecord { home_address, source, current, secret });
        self.desired_state.put_once(Item::JournalRecord(record), (), out);
    }

    /// Processes the outcome of a record of these keys.
    pub(super) fn receive_keys_outcome(&mut self, now: Time, outcome: &Outcome, out: &mut Outbox) {
        if outcome.key != Key::JournalRecord(JournalKey::OwnKeys(self.config.home_address)) {
            return;
        }
        let refused = outcome.error.as_ref();
        match (core::mem::take(&mut self.keys.exchange), refused) {
            (Exchange::Writing(secret), None) => {
                if let Some(point) = secret.point() {
                    self.keys.exchange = Exchange::Asking { secret, point, first: None };
                    self.registration.request_refresh();
                }
            }
            (Exchange::Writing(_), Some(why)) => {
                self.keys.retry_at = Some(now + RETRY_INTERVAL);
                let why = format!("the journal refuses the record: {why}");
                self.give_up_request(&why, out);
            }
            (Exchange::Storing { key, .. }, None) => {
                self.keys.former = self.signing_key().cloned();
                self.keys.current = Some(key);
                (self.keys.is_asked, self.keys.is_reported) = (false, false);
                self.registration.request_refresh();
            }
            (Exchange::Storing { secret, point, .. }, Some(_)) => {
                self.keys.exchange = Exchange::Asking { secret, point, first: None };
                self.keys.retry_at = Some(now + RETRY_INTERVAL);
            }
            (other, _) => self.keys.exchange = other,
        }
    }

    /// The request in the update with this sequence number, if there is one.
    pub(super) fn key_request(&mut self, sequence: Sequence) -> Option<MobilityOption> {
        let Exchange::Asking { point, first, .. } = &mut self.keys.exchange else { return None };
        first.get_or_insert(sequence);
        Some(MobilityOption::KeyExchange(KeyExchange::Request { point: point.0 }))
    }

    /// Processes the key exchange of an authentic acknowledgement that accepts an update.
    pub(super) fn receive_key_answer(&mut self, message: &BindingAcknowledgement, out: &mut Outbox) {
        let signed_by = message.options.iter().rev().find_map(|option| match option {
            MobilityOption::Authentication { subtype: AUTHENTICATION_MN_HA, spi, .. } => Some(*spi),
            _ => None,
        });
        let Some(signing) = self.signing_key().cloned().filter(|key| Some(key.spi) == signed_by) else { return };
        let home = self.config.home_address;
        // Only the home agent that has the new key authenticates with it.
        if self.keys.former.take_if(|former| former.spi != signing.spi).is_some() {
            out.report(NemoReport::KeyExchanged { home_address: home, spi: signing.spi });
        }
        let Exchange::Asking { secret, point, first } = &self.keys.exchange else { return };
        let answer = message.options.iter().find_map(|option| match option {
            MobilityOption::KeyExchange(KeyExchange::Answer { spi, point }) => Some((*spi, Point(*point))),
            _ => None,
        });
        let Some((spi, agent)) = answer else {
            if first.is_some_and(|first| !first.is_newer_than(message.sequence)) {
                let why = "the home agent does not answer: its roam6 is older, or the last exchange was less than a minute ago";
                self.give_up_request(why, out);
            }
            return;
        };
        let agreement = Agreement { authenticated_by: &signing.secret, home, router: *point, agent, spi };
        let key = secret.agree(&agreement, false).filter(|_| spi >= MIN_SPI && spi != signing.spi);
        let (secret, point) = (secret.clone(), *point);
        match key {
            Some(key) => {
                let key = SharedKey { spi, secret: key.to_vec() };
                self.keys.exchange = Exchange::Storing { secret, point, key: key.clone() };
                self.put_own_keys(Some(key), None, out);
            }
            None => self.give_up_request("the answer of the home agent is invalid", out),
        }
    }

    /// An exchange that the operator has asked for has failed. That of an invitation goes on with each update.
    fn give_up_request(&mut self, why: &str, out: &mut Outbox) {
        let asked = core::mem::take(&mut self.keys.is_asked);
        if !self.has_invited_key() {
            self.keys.retry_at = None;
            if matches!(core::mem::take(&mut self.keys.exchange), Exchange::Asking { .. }) {
                self.put_own_keys(self.keys.current.clone(), None, out);
            }
        }
        if asked || !core::mem::replace(&mut self.keys.is_reported, true) {
            self.report_key_failure(why, out);
        }
    }

    fn report_key_failure(&self, why: &str, out: &mut Outbox) {
        out.report(NemoReport::KeyExchangeFailed { home_address: self.config.home_address, why: why.to_owned() });
    }
}
