//! Paths encrypted by ESP: each update offers an ephemeral public key and an SPI for each care-of address, and the answer of the
//! home agent completes the keys of the path (RFC 4285 §5.1, RFC 3776 §4). An update that is sent again, or changes nothing of a path,
//! repeats its offer, so that any of its answers completes the same keys. A move, or the age of the keys, is the reason for
//! another offer; the pair before serves until that is answered.

use super::MobileRouter;
use super::encryption::registered_bid;
use super::registration::{CareOf, DesiredRegistration};
use super::uplink::Uplink;
use crate::Time;
use crate::contract::config::nemo::EncryptionMethod;
use crate::contract::item::tunnel::esp_mtu;
use crate::contract::item::{Encap, EspPair, TunnelPath};
use crate::crypto::key_agreement::EphemeralSecret;
use crate::crypto::path_esp::{EspAgreement, EspEnd, EspKeys};
use core::time::Duration;
use roam6_wire::Bid;
use roam6_wire::mobility::{BindingAcknowledgement, EspKey, MobilityOption};
use std::net::Ipv6Addr;

/// The age of an offer that is not repeated any more: the next update makes another one, so that keys do not last.
const MAX_AGE: Duration = Duration::from_secs(8 * 3600);
/// The same where probes of the path are not answered: the home agent may have lost the associations.
const MAX_AGE_SILENT: Duration = Duration::from_secs(10);
/// Most paths that are known: those of former home agents are forgotten first.
const MAX_PATHS: usize = 64;

/// What was offered and agreed for the paths to home agents.
#[derive(Debug, Default, Clone)]
pub(super) struct EspPaths(Vec<EspPath>);

#[derive(Debug, Clone)]
struct EspPath {
    home_agent: Ipv6Addr,
    bid: Bid,
    offer: Offer,
    /// The pair that was agreed last, by this offer or by the one before.
    pair: Option<EspPair>,
}

#[derive(Debug, Clone)]
struct Offer {
    care_of: Ipv6Addr,
    made: Time,
    /// The home agent has asked for an update: it may have restarted, and have lost the keys.
    is_stale: bool,
    secret: EphemeralSecret,
    end: EspEnd,
}

impl MobileRouter {
    /// Whether paths are encrypted by ESP.
    pub(super) fn encrypts_by_esp(&self) -> bool {
        self.config.encryption.as_ref().is_some_and(|own| own.method == EncryptionMethod::Esp)
    }

    /// The offers for the care-of addresses of an update.
    pub(super) fn esp_options(&mut self, now: Time, wanted: &DesiredRegistration) -> Vec<MobilityOption> {
        if !self.encrypts_by_esp() {
            return Vec::new();
        }
        // A pair is used once: a mobile router that returns to a former home agent makes new offers.
        let serving = self.registration.serving_home_agent();
        self.esp_paths.0.retain(|known| known.home_agent == wanted.home_agent || Some(known.home_agent) == serving);
        let away = wanted.care_of().iter().filter(|care_of| !care_of.on_home_link && !care_of.is_observed());
        let offer = |care_of: &CareOf| {
            let bid = registered_bid(wanted, care_of);
            let is_silent = self.uplink_of(care_of).is_some_and(|uplink| uplink.prober.is_silent());
            let max_age = if is_silent { MAX_AGE_SILENT } else { MAX_AGE };
            let end = self.offer_for(now, (wanted.home_agent, bid), (care_of.address.0, max_age))?;
            Some(MobilityOption::EspKey(end.option(bid, 0)))
        };
        away.filter_map(offer).collect()
    }

    /// The offer for a path: that which was made for its care-of address, unless it is too old.
    fn offer_for(
        &mut self,
        now: Time,
        path: (Ipv6Addr, Bid),
        (care_of, max_age): (Ipv6Addr, Duration),
    ) -> Option<EspEnd> {
        let known = self.esp_paths.0.iter().position(|known| (known.home_agent, known.bid) == path);
        let known = known.map(|index| self.esp_paths.0.remove(index));
        let is_fresh = |offer: &Offer| !offer.is_stale && now.since(offer.made) < max_age;
        let repeats = |known: &EspPath| known.offer.care_of == care_of && is_fresh(&known.offer);
        let entry = match known {
            Some(known) if repeats(&known) => known,
            known => {
                let (secret, end) = EspEnd::generate(&mut self.entropy)?;
                let offer = Offer { care_of, made: now, is_stale: false, secret, end };
                EspPath { home_agent: path.0, bid: path.1, offer, pair: known.and_then(|known| known.pair) }
            }
        };
        let end = entry.offer.end;
        self.esp_paths.0.truncate(MAX_PATHS - 1);
        self.esp_paths.0.insert(0, entry);
        Some(end)
    }

    /// Has the next update make other offers.
    pub(super) fn renew_esp_offers(&mut self) {
        self.esp_paths.0.iter_mut().for_each(|known| known.offer.is_stale = true);
    }

    /// Takes the answers of an authentic acknowledgement of `home_agent` that accepts an update. One to an offer before the last
    /// changes nothing: another acknowledgement answers the last.
    pub(super) fn note_esp_keys(&mut self, home_agent: Ipv6Addr, message: &BindingAcknowledgement) {
        let Some(authenticator) = self.secret_of(message) else { return };
        for answer in answers_of(message) {
            let home = self.config.home_address;
            let offered = self.esp_paths.0.iter_mut().find(|known| {
                (known.home_agent, known.bid, known.offer.end.spi) == (home_agent, answer.bid, answer.answers)
            });
            let Some(EspPath { bid, offer, pair, .. }) = offered else { continue };
            if pair.is_some_and(|pair| (pair.inbound, pair.outbound) == (offer.end.spi, answer.spi)) {
                continue;
            }
            let (router, agent) = (offer.end, EspEnd::from(answer));
            let agreement = EspAgreement { authenticated_by: &authenticator, home, bid: *bid, router, agent };
            if let Some(keys) = EspKeys::agree(&offer.secret, &agreement, false) {
                *pair = Some(EspPair { inbound: router.spi, outbound: agent.spi, keys: Some(keys), initiates: true });
            }
        }
    }

    /// Whether an acknowledgement answers the offer for a path.
    pub(super) fn has_esp_answer(message: &BindingAcknowledgement, bid: Bid) -> bool {
        answers_of(message).any(|answer| answer.bid == bid)
    }

    /// A path of the tunnel by ESP; `None` before keys are agreed, and over IPv4 or UDP.
    pub(super) fn esp_path(&self, path: TunnelPath, uplink: &Uplink) -> Option<TunnelPath> {
        let home_agent = self.registration.serving_home_agent()?;
        let known = self.esp_paths.0.iter().find(|known| (known.home_agent, known.bid) == (home_agent, path.bid))?;
        let is_native = path.encap.is_native() && roam6_wire::Ipv4Endpoint::from_ipv6(path.local).is_none();
        let encap = Encap::Esp(known.pair.filter(|_| is_native)?);
        Some(TunnelPath { mtu: esp_mtu(uplink.mtu()), encap, ..path })
    }
}

/// The answers of an acknowledgement.
fn answers_of(message: &BindingAcknowledgement) -> impl Iterator<Item = &EspKey> {
    message.options.iter().filter_map(|option| match option {
        MobilityOption::EspKey(key) if key.answers != 0 => Some(key),
        _ => None,
    })
}
