//! Secured packets: ETSI EN 302 636-4-1 §10.3.3 (SN-DECAP), ETSI TS 103 097. They are dropped, relayed without verification, or
//! verified. What is verified is received once more, as if it had just arrived.

use super::GeoRouter;
use super::receive::Arrival;
use crate::base::time::Time;
use crate::contract::config::geo::SecurityMode;
use crate::contract::engine::Outbox;
use crate::contract::input::Frame;
use crate::contract::report::DropReason;
use crate::contract::signature::VerificationResult;
use crate::contract::view::Trust;
use crate::geo::request::Delivery;
use crate::geo::security::{Admission, Moment, Refusal, Signer, VerifiedFrames};
use core::time::Duration;
use roam6_wire::LinkAddress;
use roam6_wire::geo::SecuredPacket;

/// How long nobody else speaks for a station whose packet was verified. A station that changes its certificate changes its
/// address too.
const BINDING: Duration = Duration::from_secs(5);

impl GeoRouter {
    /// Parses a secured packet; `None` if it is dropped, or first verified.
    pub(super) fn parse_secured<'a>(
        &mut self,
        now: Time,
        frame: &'a Frame,
        own: LinkAddress,
        out: &mut Outbox,
    ) -> Option<Arrival<'a>> {
        // What the medium returns of this station's own frames is no news.
        if frame.source == own {
            return None;
        }
        if self.security == SecurityMode::Drop {
            self.drop_secured(out);
            return None;
        }
        let secured = match SecuredPacket::parse(&frame.bytes) {
            Ok(secured) => secured,
            Err(error) => {
                out.report_drop(DropReason::Malformed, None, error.to_string());
                return None;
            }
        };
        let signer = match self.verify(now, frame, &secured, out) {
            Admission::Verified(signer) => Some(signer),
            Admission::Pending => return None,
            Admission::Refused(refusal) if self.is_relayed(&refusal) => None,
            Admission::Refused(Refusal { reason, detail, .. }) => {
                out.report_drop(reason, None, detail);
                return None;
            }
        };
        Some(arrival(frame, secured, signer))
    }

    fn verify(&mut self, now: Time, frame: &Frame, secured: &SecuredPacket<'_>, out: &mut Outbox) -> Admission {
        let at = self.moment(now);
        let source = secured.packet.extended.source();
        if secured.packet.extended.is_single_hop() && self.verifier.is_some() && self.is_too_far(now, source) {
            let detail = "position too far away for a neighbour".to_owned();
            return Admission::Refused(Refusal { reason: DropReason::Implausible, detail, is_open: false });
        }
        match &mut self.verifier {
            Some(verifier) => verifier.admit(at, frame, secured, out),
            None => {
                self.note_relay(out);
                let detail = "nothing is verified here".to_owned();
                Admission::Refused(Refusal { reason: DropReason::Unverified, detail, is_open: true })
            }
        }
    }

    /// Whether a packet that is not verified is forwarded all the same.
    fn is_relayed(&self, refusal: &Refusal) -> bool {
        let is_strict = self.verifier.as_ref().is_some_and(|verifier| verifier.is_strict());
        refusal.is_open && !is_strict
    }

    fn moment(&self, now: Time) -> Moment {
        Moment { now, its_micros: self.ego.its_time(now).saturating_mul(1_000) }
    }

    /// Receives the result of a verification; returns the packets that are verified by it.
    pub fn conclude_verification(
        &mut self,
        now: Time,
        result: VerificationResult,
        out: &mut Outbox,
    ) -> Option<VerifiedFrames> {
        let at = self.moment(now);
        match self.verifier.as_mut()?.conclude(at, result, out) {
            Ok(frames) => frames,
            Err(Refusal { reason, detail, .. }) => {
                out.report_drop(reason, None, detail);
                None
            }
        }
    }

    /// Receives a packet that was verified, and returns it if it is for this station.
    pub fn receive_verified<'a>(
        &mut self,
        now: Time,
        frame: &'a Frame,
        signer: Signer,
        out: &mut Outbox,
    ) -> Option<Delivery<'a>> {
        // The interface may have disappeared meanwhile.
        let own = self.link_address(frame.link)?;
        let secured = SecuredPacket::parse(&frame.bytes).ok()?;
        self.accept(now, &arrival(frame, secured, Some(signer)), own, out)
    }

    /// Whether a packet may say where its source is: not if a packet of the source with another signature was verified
    /// lately.
    pub(super) fn may_speak_for(&self, now: Time, arrival: &Arrival<'_>, out: &mut Outbox) -> bool {
        let mid = arrival.packet.extended.source().address.mid;
        let station = self.location_table.find(mid);
        let bound = station.and_then(|station| station.signer).filter(|(_, at)| now.since(*at) < BINDING);
        let Some((bound, _)) = bound else { return true };
        let signer = arrival.signer.map(|signer| signer.digest);
        if signer != Some(bound) {
            let detail = format!("another station than {bound} speaks for {mid}");
            out.report_drop(DropReason::NotPermitted, None, detail);
        }
        signer == Some(bound)
    }

    /// Says once that secured packets are forwarded.
    fn note_relay(&mut self, out: &mut Outbox) {
        if !std::mem::replace(&mut self.secured_reported, true) {
            let text = "secured GeoNetworking packets (TS 103 097) are received; roam6 forwards them unchanged and does not \
                        verify them, so nothing of them is delivered here";
            out.notice(text);
        }
    }
}

fn arrival<'a>(frame: &'a Frame, secured: SecuredPacket<'a>, signer: Option<Signer>) -> Arrival<'a> {
    let trust = if signer.is_some() { Trust::Verified } else { Trust::Unverified };
    Arrival { packet: secured.packet, frame, octets: &frame.bytes, trust, signer }
}
