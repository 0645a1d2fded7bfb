//! The fields that a signed packet has, and those that it must not have: ETSI TS 103 097 §5.2, §7.1; the service that a packet
//! belongs to: ETSI TS 102 965, ports of ETSI TS 103 248.

use super::Refusal;
use crate::contract::report::DropReason;
use roam6_wire::geo::btp::Btp;
use roam6_wire::geo::{Packet, UpperProtocol};
use roam6_wire::security::{HeaderInfo, Psid, SignedData, SignerIdentifier};

/// Microseconds by which the time of generation may differ from the own time, beside the lifetime of packets over several
/// hops. Some stacks leave out the five leap seconds since 2004.
const WINDOW: u64 = 10_000_000;

/// Services of BTP ports.
const PORTS: [(u16, Psid); 10] = [
    (2001, Psid::CAM),
    (2002, Psid::DENM),
    (2003, Psid::MAPEM),
    (2004, Psid::SPATEM),
    (2005, Psid::SAM),
    (2006, Psid::IVIM),
    (2007, Psid::SREM),
    (2009, Psid::CPM),
    (2018, Psid::VAM),
    // Echo of roam6.
    (roam6_wire::geo::echo::PORT, Psid::GN_MANAGEMENT),
];

/// Checks the fields of a packet; returns its time of generation.
pub(super) fn check(packet: &Packet<'_>, signed: &SignedData<'_>) -> Result<u64, Refusal> {
    let header = &signed.header;
    let wrong = |detail: &str| Err(Refusal::refuted(DropReason::Malformed, detail));
    let Some(generated) = header.generation_time else { return wrong("signed without the time of generation") };
    if header.p2pcd_learning_request.is_some() || header.has_missing_crl {
        return wrong("signed with a field that ITS packets do not have");
    }
    let is_safety = matches!(header.psid, Psid::CAM | Psid::DENM);
    if is_safety && (header.expiry_time.is_some() || header.has_encryption_key) {
        return wrong("CAM or DENM with a field that it does not have");
    }
    let has_requests = header.requests.iter().next().is_some() || header.requested_certificate().is_some();
    if has_requests && !matches!(header.psid, Psid::CAM | Psid::GN_MANAGEMENT) {
        return wrong("certificate request in another packet than a CAM");
    }
    if header.psid == Psid::CAM && header.location.is_some() {
        return wrong("CAM with a place of generation");
    }
    if header.psid == Psid::DENM {
        let has_certificate = matches!(signed.signer, SignerIdentifier::Certificate(_));
        if header.location.is_none() || !has_certificate {
            return wrong("DENM without a place of generation, or without certificate");
        }
    }
    check_service(packet, header)?;
    Ok(generated)
}

/// A packet belongs to the service that it is signed for.
fn check_service(packet: &Packet<'_>, header: &HeaderInfo<'_>) -> Result<(), Refusal> {
    let psid = header.psid;
    let is_right = match service_of(packet) {
        Some(service) => psid == service,
        // A service that roam6 does not know.
        None => !PORTS.iter().any(|(_, known)| *known == psid) && psid != Psid::IPV6,
    };
    match is_right {
        true => Ok(()),
        false => Err(Refusal::refuted(DropReason::NotPermitted, format!("signed for the service {psid}"))),
    }
}

pub(super) fn service_of(packet: &Packet<'_>) -> Option<Psid> {
    if packet.payload.is_empty() {
        return Some(Psid::GN_MANAGEMENT);
    }
    if packet.upper_protocol == UpperProtocol::Ipv6 {
        return Some(Psid::IPV6);
    }
    let btp = Btp::parse(packet.upper_protocol, packet.payload)?.ok()?;
    PORTS.iter().find(|(port, _)| *port == btp.destination).map(|(_, psid)| *psid)
}

/// The time of generation lies at most a window off, or before that by the lifetime of a packet over several hops. What is
/// older may be a recorded packet.
pub(super) fn check_time(packet: &Packet<'_>, generated: u64, its_micros: u64) -> Result<(), Refusal> {
    let lifetime = if packet.extended.is_single_hop() { 0 } else { packet.lifetime.duration().as_micros() };
    let oldest = its_micros.saturating_sub(WINDOW).saturating_sub(u64::try_from(lifetime).unwrap_or(u64::MAX));
    if (oldest..=its_micros.saturating_add(WINDOW)).contains(&generated) {
        return Ok(());
    }
    let seconds = generated.abs_diff(its_micros) / 1_000_000;
    let when = if generated > its_micros { "ahead of" } else { "behind" };
    Err(Refusal::refuted(DropReason::Replayed, format!("signed {seconds} s {when} the clock of this station")))
}
