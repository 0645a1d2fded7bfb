//! Authentication of announcements: an announcement is proved by a shared key, and each key is accepted for some
//! prefixes.

use crate::contract::config::mnpp::{AcceptanceRule, MnppConfig};
use crate::contract::report::DropReason;
use core::time::Duration;
use hmac::{Hmac, Mac};
use roam6_wire::Prefix;
use roam6_wire::ip6::Datagram;
use roam6_wire::mnpp::{Announcement, CODE_LENGTH, Proof};
use sha2::Sha256;
use std::net::Ipv6Addr;

/// Largest difference between the time of a proof and ours. Neighbours take their time from satellites or from one
/// network.
pub const REPLAY_WINDOW: Duration = Duration::from_secs(5);

/// The acceptances that apply to an announcement.
#[derive(Debug)]
pub struct AcceptedClaims<'a> {
    claims: Vec<&'a AcceptanceRule>,
    /// When the proof was made, Unix microseconds; `None` without a proof.
    pub unix_micros: Option<u64>,
}

impl<'a> AcceptedClaims<'a> {
    /// Verifies an announcement; `now` in Unix microseconds, if known.
    pub fn verify_announcement(
        config: &'a MnppConfig,
        datagram: &Datagram<'_>,
        announcement: &Announcement,
        now: Option<u64>,
    ) -> Result<AcceptedClaims<'a>, DropReason> {
        let of_key = |spi: Option<u32>| -> Vec<&AcceptanceRule> {
            config.accepted.iter().filter(|one| one.key.as_ref().map(|key| key.spi) == spi).collect()
        };
        let Some((proof, claims)) =
            announcement.proof.map(|proof| (proof, of_key(Some(proof.spi)))).filter(|(_, claims)| !claims.is_empty())
        else {
            // A proof by an unknown key counts as none.
            let claims = of_key(None);
            let reason =
                if announcement.proof.is_some() { DropReason::NoAssociation } else { DropReason::NotAuthenticated };
            return if claims.is_empty() { Err(reason) } else { Ok(AcceptedClaims { claims, unix_micros: None }) };
        };
        let proves =
            |one: &&AcceptanceRule| one.key.as_ref().is_some_and(|key| is_proof_valid(&key.secret, datagram, &proof));
        let claims: Vec<&AcceptanceRule> = claims.into_iter().filter(proves).collect();
        if claims.is_empty() {
            return Err(DropReason::BadAuthenticator);
        }
        // Without a clock a replay cannot be detected.
        let apart = now.map(|now| Duration::from_micros(now.abs_diff(proof.unix_micros)));
        if apart.is_none_or(|apart| apart > REPLAY_WINDOW) {
            return Err(DropReason::Replayed);
        }
        Ok(AcceptedClaims { claims, unix_micros: Some(proof.unix_micros) })
    }

    /// Whether the sender may announce this network.
    pub fn allows(&self, network: Prefix) -> bool {
        self.claims.iter().any(|one| one.prefixes.iter().any(|prefix| prefix.covers(network)))
    }
}

/// The authentication code of a message; `part` is the message without the code.
pub fn proof_code(secret: &[u8], source: Ipv6Addr, destination: Ipv6Addr, part: &[u8]) -> [u8; CODE_LENGTH] {
    let mac = keyed_hmac(secret, source, destination, part);
    mac.and_then(|mac| mac.finalize().into_bytes().first_chunk().copied()).unwrap_or_default()
}

fn is_proof_valid(secret: &[u8], datagram: &Datagram<'_>, proof: &Proof) -> bool {
    let part = Announcement::proved_part(datagram.payload);
    let mac = part.and_then(|part| keyed_hmac(secret, datagram.source, datagram.destination, &part));
    mac.is_some_and(|mac| mac.verify_truncated_left(&proof.code).is_ok())
}

fn keyed_hmac(secret: &[u8], source: Ipv6Addr, destination: Ipv6Addr, part: &[u8]) -> Option<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).ok()?;
    mac.update(&source.octets());
    mac.update(&destination.octets());
    mac.update(part);
    Some(mac)
}
