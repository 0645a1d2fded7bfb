//! A change of pseudonym: certificate, GeoNetworking address, link-layer address and sequence number change at once
//! (ETSI TS 102 940 §6, EN 302 636-4-1 §10.2.1.4). Nothing that was made with the former one is sent afterwards.

use super::duplicate_address::SentPositions;
use super::{GeoRouter, random_mid};
use crate::base::time::Time;
use crate::contract::config::geo::CertificateOctets;
use crate::contract::engine::Outbox;
use crate::contract::report::GeoReport;

impl GeoRouter {
    /// The same router with pseudonyms: its addresses are random from the beginning, and so is its first certificate.
    pub fn with_pseudonyms(mut self) -> GeoRouter {
        self.is_pseudonymous = true;
        let count = self.signer.as_ref().map_or(0, |signer| signer.tickets() as u64);
        let first = self.entropy.below(count);
        if let Some(signer) = &mut self.signer {
            signer.begin_with(usize::try_from(first).unwrap_or(0));
        }
        self
    }

    /// Takes the next pseudonym; `false` if there is no other certificate that is valid now.
    pub fn change_pseudonym(&mut self, now: Time, out: &mut Outbox) -> bool {
        let its_seconds = self.its_time(now) / 1_000;
        if self.signer.as_mut().is_some_and(|signer| !signer.take_next_ticket(its_seconds)) {
            return false;
        }
        let former = std::mem::replace(&mut self.address.mid, random_mid(&mut self.entropy));
        let mid = self.address.mid;
        self.links.values_mut().for_each(|interface| interface.address = mid);
        self.sequence = (self.entropy.next_u64() & 0xffff) as u16;
        self.sent_positions = SentPositions::default();
        self.sent_positions.begin(self.ego.timestamp(now));
        // They have the former address.
        let dropped = self.unicast_buffer.remove_of(former) + self.broadcast_buffer.remove_of(former);
        self.schedule_first_beacon(now);
        let certificate = self.signer.as_ref().and_then(|signer| signer.digest()).map(|digest| digest.to_string());
        out.report(GeoReport::PseudonymChanged { mid, certificate: certificate.unwrap_or_default(), dropped });
        true
    }

    /// Replaces the authorisation tickets of this station. A station without a pseudonym takes another one at once if its
    /// present one is not among them.
    pub fn replace_tickets(&mut self, tickets: &[CertificateOctets]) {
        if let Some(signer) = &mut self.signer {
            signer.replace_tickets(tickets);
            self.unsigned_reported = false;
        }
    }

    /// Takes the next certificate that is valid; the addresses are kept.
    pub fn take_next_ticket(&mut self, now: Time, out: &mut Outbox) {
        let its_seconds = self.its_time(now) / 1_000;
        let Some(signer) = self.signer.as_mut() else { return };
        if signer.take_next_ticket(its_seconds)
            && let Some(digest) = signer.digest()
        {
            out.notice(format!("packets are signed with the certificate {digest} from now on"));
        }
    }

    /// Whether the certificate of this station is not valid any longer or withdrawn, and another is valid.
    pub fn needs_other_certificate(&self, now: Time) -> bool {
        self.signer.as_ref().is_some_and(|signer| signer.should_change(self.its_time(now) / 1_000))
    }
}
