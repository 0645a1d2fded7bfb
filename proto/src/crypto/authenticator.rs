//! The MN-HA authenticator of mobility messages, and timestamps against replay (RFC 4285 §5.1, §6).

use crate::base::time::Time;
use core::time::Duration;
use hmac::{Hmac, Mac};
use roam6_wire::{CareOfAddress, HomeAddress};
use sha1::Sha1;

/// Octets of the authenticator: the first 96 bits of HMAC-SHA1.
pub const AUTHENTICATOR_LENGTH: usize = 12;

/// How far a timestamp may be from the receiver's clock (RFC 4285 §5.1).
pub const TIMESTAMP_WINDOW: Duration = Duration::from_secs(7);

/// Seconds from the beginning of NTP time (1900) to that of Unix time (1970).
pub const NTP_TO_UNIX_SECONDS: u64 = 2_208_988_800;

/// Computes the authenticator of `part`: a Mobility Header from its first octet through the SPI of the authentication
/// option.
///
/// The checksum field of `part` counts as zero. `care_of` is the care-of address of the update, also in its
/// acknowledgement: the Alternate Care-of Address if the update has one, otherwise its source address.
pub fn authenticate(
    secret: &[u8],
    care_of: CareOfAddress,
    home: HomeAddress,
    part: &[u8],
) -> [u8; AUTHENTICATOR_LENGTH] {
    let mac = mac_over(secret, care_of, home, part);
    mac.and_then(|mac| mac.finalize().into_bytes().first_chunk().copied()).unwrap_or_default()
}

/// Verifies the authenticator of `part` in constant time; see [`authenticate`].
pub fn verify(secret: &[u8], care_of: CareOfAddress, home: HomeAddress, part: &[u8], authenticator: &[u8]) -> bool {
    authenticator.len() == AUTHENTICATOR_LENGTH
        && mac_over(secret, care_of, home, part).is_some_and(|mac| mac.verify_truncated_left(authenticator).is_ok())
}

fn mac_over(secret: &[u8], care_of: CareOfAddress, home: HomeAddress, part: &[u8]) -> Option<Hmac<Sha1>> {
    let (before, rest) = part.split_at_checked(4)?;
    let (_checksum, after) = rest.split_at_checked(2)?;
    let mut mac = Hmac::<Sha1>::new_from_slice(secret).ok()?;
    mac.update(&care_of.0.octets());
    mac.update(&home.0.octets());
    mac.update(before);
    mac.update(&[0, 0]);
    mac.update(after);
    Some(mac)
}

/// A moment as a 64-bit NTP timestamp: seconds since 1900 (mod 2^32), then the fraction of a second.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// The timestamp of a Unix time in microseconds.
    pub fn from_unix_micros(micros: u64) -> Timestamp {
        let seconds = (micros / 1_000_000).wrapping_add(NTP_TO_UNIX_SECONDS);
        let fraction = ((micros % 1_000_000) << 32) / 1_000_000;
        Timestamp(seconds << 32 | fraction)
    }

    /// Whether both are at most [`TIMESTAMP_WINDOW`] apart, also across the end of an NTP era.
    pub fn is_close_to(self, other: Timestamp) -> bool {
        let apart = self.0.wrapping_sub(other.0);
        apart.min(apart.wrapping_neg()) <= TIMESTAMP_WINDOW.as_secs() << 32
    }

    /// Whether `self` is later than `earlier`, also across the end of an NTP era.
    pub fn is_after(self, earlier: Timestamp) -> bool {
        let apart = self.0.wrapping_sub(earlier.0);
        apart != 0 && apart < 1 << 63
    }

    /// This timestamp after a clock step of `micros` backwards.
    pub fn moved_back(self, micros: u64) -> Timestamp {
        let fraction = ((micros % 1_000_000) << 32) / 1_000_000;
        Timestamp(self.0.wrapping_sub((micros / 1_000_000) << 32).wrapping_sub(fraction))
    }

    /// The answer to an invalid timestamp: the low half is the sender's, the high half that of `clock` (RFC 4285 §6).
    pub fn resynchronised_to(self, clock: Timestamp) -> Timestamp {
        Timestamp(clock.0 & 0xffff_ffff_0000_0000 | self.0 & 0xffff_ffff)
    }
}

/// The wall clock of an engine: a reference time, extrapolated by the engine's monotonic time.
#[derive(Debug, Default, Clone, Copy)]
pub struct WallClock {
    reference: Option<(Time, u64)>,
}

impl WallClock {
    /// Sets the reference: `unix_micros` at `now`.
    pub fn put(&mut self, now: Time, unix_micros: u64) {
        self.reference = Some((now, unix_micros));
    }

    /// Microseconds since 1970 at `now`; `None` before the first reference.
    pub fn unix_micros(&self, now: Time) -> Option<u64> {
        let (then, micros) = self.reference?;
        Some(micros.saturating_add(now.as_micros()).saturating_sub(then.as_micros()))
    }

    /// Seconds since 1970 at `now`; `None` before the first reference.
    pub fn unix_seconds(&self, now: Time) -> Option<u64> {
        self.unix_micros(now).map(|micros| micros / 1_000_000)
    }

    /// The NTP timestamp of `now`; `None` before the first reference.
    pub fn timestamp(&self, now: Time) -> Option<Timestamp> {
        self.unix_micros(now).map(Timestamp::from_unix_micros)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::hex;

    fn golden() -> (Vec<u8>, CareOfAddress, HomeAddress, Vec<u8>) {
        let update = "3b09050043b00001c400000f0100031020010db8000100000000000000000100\
                      010200000612003820010db80f0000000000000000000000\
                      010300000009110100000100f05c21184c357afd9c595c0d";
        let key: Vec<u8> = (0..16).collect();
        let care_of = CareOfAddress("2001:db8:1::100".parse().unwrap());
        let home = HomeAddress("2001:db8::100".parse().unwrap());
        (hex::decode(update).unwrap(), care_of, home, key)
    }

    #[test]
    fn golden_binding_update_authenticator() {
        let (update, care_of, home, key) = golden();
        let (part, authenticator) = update.split_at(update.len() - AUTHENTICATOR_LENGTH);
        assert_eq!(authenticate(&key, care_of, home, part), authenticator);
        assert!(verify(&key, care_of, home, part, authenticator));
    }

    #[test]
    fn the_authenticator_covers_every_bit_but_the_checksum() {
        let (update, care_of, home, key) = golden();
        let cut = update.len() - AUTHENTICATOR_LENGTH;
        for bit in 0..update.len() * 8 {
            let mut forged = update.clone();
            forged[bit / 8] ^= 1 << (bit % 8);
            let in_checksum = (4..6).contains(&(bit / 8));
            let (part, authenticator) = forged.split_at(cut);
            assert_eq!(verify(&key, care_of, home, part, authenticator), in_checksum, "bit {bit}");
        }
        let (part, authenticator) = update.split_at(cut);
        assert!(!verify(&key, care_of, home, part, &authenticator[..4]));
        assert!(!verify(&key, care_of, home, part, &[]));
        assert!(!verify(&key, care_of, home, &part[..5], authenticator));
        assert!(!verify(&key, CareOfAddress(home.0), HomeAddress(care_of.0), part, authenticator));
    }

    #[test]
    fn timestamps_compare_across_the_ntp_era() {
        let last = Timestamp(u64::MAX - (1 << 32));
        let first = Timestamp(1 << 32);
        assert!(first.is_after(last) && !last.is_after(first) && !last.is_after(last));
        assert!(first.is_close_to(last) && last.is_close_to(first));
        assert!(!Timestamp(8 << 32).is_close_to(Timestamp(0)));
        assert!(Timestamp(7 << 32).is_close_to(Timestamp(0)));
        assert_eq!(Timestamp(0x1111_2222_3333_4444).resynchronised_to(Timestamp(u64::MAX)).0, 0xffff_ffff_3333_4444);
    }

    #[test]
    fn unix_time_becomes_ntp_time() {
        assert_eq!(Timestamp::from_unix_micros(500_000).0, 2_208_988_800 << 32 | 1 << 31);
        let mut clock = WallClock::default();
        assert_eq!(clock.timestamp(Time::ZERO), None);
        clock.put(Time::from_micros(5_000_000), 1_000_000);
        assert_eq!(clock.unix_micros(Time::from_micros(7_000_000)), Some(3_000_000));
    }
}
