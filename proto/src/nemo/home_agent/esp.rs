//! Paths encrypted by ESP: the update offers an ephemeral public key and an SPI for each care-of address, the acknowledgement
//! answers with those of this home agent, both under their authenticators (RFC 4285 §5.1, RFC 3776 §4). The associations are in
//! place before the acknowledgement is sent. The same offer gets the same answer, so that the answer to a retransmission agrees with
//! one that was under way.

use super::HomeAgent;
use super::cache::{Binding, Registration};
use super::request::UpdateRequest;
use super::types::{AgreedEsp, CareOf, Reply};
use crate::contract::config::encryption::MAX_WIREGUARD_BID;
use crate::contract::config::nemo::EncryptionMethod;
use crate::contract::item::tunnel::esp_mtu;
use crate::contract::item::{BindingRecord, Encap, EspPair, TunnelPath};
use crate::crypto::path_esp::{EspAgreement, EspEnd, EspKeys};
use crate::nemo::path_secret;
use roam6_wire::Bid;
use roam6_wire::Ipv4Endpoint;
use roam6_wire::mobility::{EspKey, MobilityOption};

impl HomeAgent {
    /// Whether paths are encrypted by ESP, and all have to be.
    pub(super) fn requires_esp(&self) -> bool {
        self.config.encryption.as_ref().is_some_and(|own| own.method == EncryptionMethod::Esp)
    }

    /// Whether an update offers a key for a care-of address that it names. ESP is spoken over IPv6 only.
    pub(super) fn has_esp_offer(request: &UpdateRequest, care_of: &CareOf) -> bool {
        let is_native = care_of.bid.0 < MAX_WIREGUARD_BID
            && care_of.udp.is_none()
            && Ipv4Endpoint::from_ipv6(care_of.address).is_none();
        is_native && offer_of(request, care_of.bid).is_some_and(|offer| EspEnd::from(offer).point.is_on_curve())
    }

    /// Agrees on the associations of the care-of addresses that a valid update names; others keep theirs. Returns whether all paths
    /// are encrypted that have to be.
    pub(super) fn agree_on_esp(
        &mut self,
        request: &UpdateRequest,
        next: &mut Registration,
        answer: &mut Reply,
    ) -> bool {
        if !self.requires_esp() || request.lifetime.is_zero() {
            return true;
        }
        for care_of in next.care_of.iter_mut().filter(|care_of| !care_of.simultaneous_home) {
            let Some(offer) = offer_of(request, care_of.bid) else { continue };
            let known = self.known_agreement(request, care_of.bid, offer);
            care_of.esp = known.or_else(|| self.new_agreement(request, answer, care_of.bid, offer)).map(Box::new);
            answer.esp.extend(care_of.esp.as_ref().map(|agreed| agreed.agent.option(care_of.bid, offer.spi)));
        }
        next.care_of.iter().all(|care_of| self.permits(care_of))
    }

    /// What was agreed by the same offer.
    fn known_agreement(&self, request: &UpdateRequest, bid: Bid, offer: &EspKey) -> Option<AgreedEsp> {
        let latest = self.bindings.get(&request.home).map(Box::as_ref).and_then(Binding::latest)?;
        let known = latest.care_of.iter().find(|known| known.bid == bid)?.esp.as_deref();
        known.filter(|known| known.router == EspEnd::from(offer)).copied()
    }

    fn new_agreement(
        &mut self,
        request: &UpdateRequest,
        answer: &Reply,
        bid: Bid,
        offer: &EspKey,
    ) -> Option<AgreedEsp> {
        let (secret, agent) = EspEnd::generate(&mut self.entropy)?;
        let router = EspEnd::from(offer);
        let authenticator = path_secret(&answer.authentication)?;
        let agreement = EspAgreement { authenticated_by: &authenticator, home: request.home, bid, router, agent };
        let keys = Some(EspKeys::agree(&secret, &agreement, true)?);
        let pair = EspPair { inbound: agent.spi, outbound: router.spi, keys, initiates: false };
        Some(AgreedEsp { pair, router, agent })
    }

    /// The answers to the offers of an update.
    pub(super) fn esp_options(answer: &Reply) -> impl Iterator<Item = MobilityOption> + '_ {
        answer.esp.iter().copied().map(MobilityOption::EspKey)
    }

    /// What was agreed for a restored path. The host may have the associations, with keys that are written nowhere.
    pub(super) fn restored_esp(&self, record: &BindingRecord, bid: Bid) -> Option<AgreedEsp> {
        let (_, router, agent) = *record.esp.iter().find(|(of, ..)| *of == bid).filter(|_| self.requires_esp())?;
        let pair = EspPair { inbound: agent.spi, outbound: router.spi, keys: None, initiates: false };
        Some(AgreedEsp { pair, router, agent })
    }

    /// A path encrypted by ESP.
    pub(super) fn esp_path(&self, care_of: &CareOf, pair: EspPair, weight: u16) -> TunnelPath {
        TunnelPath {
            bid: care_of.bid,
            local: self.config.address,
            remote: care_of.address,
            link: None,
            mtu: esp_mtu(self.path_mtu.mtu_to(care_of.address)),
            weight,
            direct: false,
            encap: Encap::Esp(pair),
            dscp: None,
        }
    }
}

/// The offer of an update for a path.
fn offer_of(request: &UpdateRequest, bid: Bid) -> Option<&EspKey> {
    request.esp.iter().find(|offer| offer.bid == bid && offer.answers == 0)
}
