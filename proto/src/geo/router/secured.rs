//! Secured packets: ETSI EN 302 636-4-1 §10.3.3 (SN-DECAP), ETSI TS 103 097. They are dropped, relayed without verification, or
//! verified. What is verified is received once more, as if it had just arrived.

use super::GeoRouter;
use super::origination::OwnPacket;
use super::receive::Arrival;
use crate::base::time::Time;
use crate::contract::config::geo::SecurityMode;
use crate::contract::engine::Outbox;
use crate::contract::input::Frame;
use crate::contract::report::DropReason;
use crate::contract::signature::{SigningResult, VerificationResult};
use crate::contract::view::Trust;
use crate::geo::request::Delivery;
use crate::geo::security::{Admission, Moment, Refusal, Signer, Unsigned, VerifiedFrames};
use core::time::Duration;
use roam6_wire::LinkAddress;
use roam6_wire::geo::btp::{Btp, port};
use roam6_wire::geo::{Packet, SecuredPacket};
use roam6_wire::security::{HashedId8, Psid};

/// How long nobody else speaks for a station whose packet was verified. A station that changes its certificate changes its
/// address too, unless it has no pseudonyms and its certificate expires.
const BINDING: Duration = Duration::from_secs(5);
/// A certificate expires, by the clock of another station, so much earlier at most, in seconds.
const CLOCK_DIFFERENCE: u64 = 2;
/// A station that has sent no CAM for so long sends certificates and requests with beacons.
const CAM_SILENCE: Duration = Duration::from_secs(2);
/// Minimum interval of the beacons that are sent for certificates alone.
const BEACON_INTERVAL: Duration = Duration::from_secs(1);

impl GeoRouter {
    /// Parses a secured packet; `None` if it is dropped, or first verified.
    pub(super) fn parse_secured<'a>(
        &mut self,
        now: Time,
        frame: &'a Frame,
        own: LinkAddress,
        out: &mut Outbox,
    ) -> Option<Arrival<'a>> {
        if self.security == SecurityMode::Drop {
            if frame.source != own {
                self.drop_secured(out);
            }
            return None;
        }
        let secured = match SecuredPacket::parse(&frame.bytes) {
            Ok(secured) => secured,
            Err(error) => {
                out.report_drop(DropReason::Malformed, None, error.to_string());
                return None;
            }
        };
        // What the medium or others return of this station's own packets is no news. Without verification nobody can tell
        // them from those of a station with the same address.
        let is_own = self.signer.as_ref().is_some_and(|signer| signer.is_own(&secured.signed.signer));
        if is_own || (frame.source == own && self.verifier.is_none()) {
            return None;
        }
        let admission = self.verify(now, frame, &secured, out);
        self.exchange_certificates(now, frame, &secured, &admission, out);
        let signer = match admission {
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
            return Admission::Refused(Refusal::refuted(DropReason::Implausible, detail));
        }
        match &mut self.verifier {
            Some(verifier) => verifier.admit(at, frame, secured, out),
            None => {
                self.note_relay(out);
                let detail = "nothing is verified here".to_owned();
                Admission::Refused(Refusal::open(DropReason::Unverified, detail))
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
            Ok(conclusion) => {
                if let Some(signer) = self.signer.as_mut().filter(|_| conclusion.is_newcomer) {
                    signer.exchange.note_newcomer();
                    self.announce_certificate(now);
                }
                conclusion.verified
            }
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

    /// Notes which certificates a packet asks for, brings, or lacks (IEEE 1609.2 §8). Who sends wrong packets is not heard.
    fn exchange_certificates(
        &mut self,
        now: Time,
        frame: &Frame,
        secured: &SecuredPacket<'_>,
        admission: &Admission,
        out: &mut Outbox,
    ) {
        let at = self.moment(now);
        let (Some(signer), Some(verifier)) = (&mut self.signer, &mut self.verifier) else { return };
        let missing = match admission {
            Admission::Refused(refusal) if !refusal.is_open => return,
            Admission::Refused(refusal) => refusal.missing,
            Admission::Verified(_) | Admission::Pending => None,
        };
        if !secured.packet.extended.is_single_hop() {
            return;
        }
        if let Some(missing) = missing {
            signer.exchange.note_missing(now, missing.short());
        }
        let own = signer.digest().map(HashedId8::short);
        for request in secured.signed.header.requests.iter() {
            signer.exchange.note_request(now, request, own == Some(request), verifier.authority(request));
        }
        if let Some(certificate) = secured.signed.header.requested_certificate()
            && signer.exchange.note_answer(certificate.digest().short())
            && verifier.authority(certificate.digest().short()).is_none()
        {
            verifier.admit_authority(at, frame, certificate.octets(), out);
        }
        self.announce_certificate(now);
    }

    /// Sends a beacon soon, where no CAM carries the certificate that somebody waits for.
    fn announce_certificate(&mut self, now: Time) {
        let sends_cams = self.last_cam.is_some_and(|sent| now.since(sent) < CAM_SILENCE);
        let is_waiting = self.signer.as_ref().is_some_and(|signer| signer.exchange.is_waiting());
        let is_due = self.last_beacon.is_none_or(|sent| now.since(sent) >= BEACON_INTERVAL);
        if is_waiting && is_due && !sends_cams {
            self.schedule_beacon_within(now, BEACON_INTERVAL / 10);
        }
    }

    /// Has the host sign an own packet, which is sent when it has.
    pub(super) fn request_signature(&mut self, now: Time, bytes: &[u8], packet: OwnPacket, out: &mut Outbox) {
        let at = self.moment(now);
        let Some(signer) = &mut self.signer else { return };
        // With pseudonyms the certificate changes with all else.
        if !self.is_pseudonymous && !signer.is_valid(at.its_seconds()) {
            signer.take_next_ticket(at.its_seconds());
        }
        match signer.sign(at, bytes, packet) {
            Ok(request) => {
                if request_is_cam(bytes) {
                    self.last_cam = Some(now);
                }
                out.sign(request);
            }
            Err(unsigned) => self.report_unsigned(unsigned, out),
        }
    }

    /// Receives a signature, and sends the packet that waits for it.
    pub fn conclude_signature(&mut self, now: Time, result: &SigningResult, out: &mut Outbox) {
        match self.signer.as_mut().map(|signer| signer.conclude(result)) {
            Some(Ok(Some((bytes, packet)))) => self.dispatch_own(now, bytes, packet, out),
            Some(Err(unsigned)) => self.report_unsigned(unsigned, out),
            Some(Ok(None)) | None => {}
        }
    }

    /// Reports a packet that is not sent because it is not signed; the first time to the operator too.
    fn report_unsigned(&mut self, (reason, detail): Unsigned, out: &mut Outbox) {
        if reason == DropReason::NoCertificate && !std::mem::replace(&mut self.unsigned_reported, true) {
            out.notice(format!("nothing is sent: {detail}; check the clock, or get new certificates and reload roam6"));
        }
        out.report_drop(reason, None, detail);
    }

    /// The service specific permissions of this station in a service; `None` if its certificate does not permit it.
    /// Without signatures everything is permitted.
    pub fn own_permissions(&self, psid: Psid) -> Option<[u8; 3]> {
        self.signer.as_ref().map_or(Some([u8::MAX; 3]), |signer| signer.permissions(psid))
    }

    /// Whether a packet may say where its source is: not if a packet of the source with another signature was verified
    /// lately.
    pub(super) fn may_speak_for(&self, now: Time, arrival: &Arrival<'_>, out: &mut Outbox) -> bool {
        let mid = arrival.packet.extended.source().address.mid;
        let station = self.location_table.find(mid);
        let bound = station.and_then(|station| station.signer).filter(|(_, at)| now.since(*at) < BINDING);
        let Some((bound, _)) = bound else { return true };
        let signer = arrival.signer.map(|signer| signer.digest);
        let may_speak = signer == Some(bound) || signer.is_some() && self.expires(now, bound);
        if !may_speak {
            let detail = format!("another station than {bound} speaks for {mid}");
            out.report_drop(DropReason::NotPermitted, None, detail);
        }
        may_speak
    }

    /// Whether a certificate of another station has expired, or is about to.
    fn expires(&self, now: Time, certificate: HashedId8) -> bool {
        let end = self.verifier.as_ref().and_then(|verifier| verifier.expiry(certificate));
        end.is_some_and(|end| self.its_time(now) / 1_000 + CLOCK_DIFFERENCE >= end)
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

/// Whether the payload of an own packet is a CAM.
fn request_is_cam(bytes: &[u8]) -> bool {
    Packet::parse(bytes).is_ok_and(|packet| {
        let btp = Btp::parse(packet.upper_protocol, packet.payload).and_then(Result::ok);
        btp.is_some_and(|btp| btp.destination == port::CAM)
    })
}

fn arrival<'a>(frame: &'a Frame, secured: SecuredPacket<'a>, signer: Option<Signer>) -> Arrival<'a> {
    let trust = if signer.is_some() { Trust::Verified } else { Trust::Unverified };
    Arrival { packet: secured.packet, frame, octets: &frame.bytes, trust, signer }
}
