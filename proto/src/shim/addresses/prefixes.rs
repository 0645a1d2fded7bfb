//! Autonomous prefixes of a link with their lifetimes (RFC 4862 §5.5.3), and router solicitation (RFC 7559 §2).

use crate::{Time, VecMap};
use core::time::Duration;
use roam6_wire::Prefix;
use roam6_wire::icmp6::{NeighbourOption, RouterAdvertisement};

/// Prefixes of one link; further ones are ignored.
pub(super) const MAX_PREFIXES: usize = 16;
/// CGA and HBA interface identifiers have 64 bits (RFC 3972 §3).
const PREFIX_LENGTH: u8 = 64;
/// An unauthenticated advertisement cannot shorten a valid lifetime below this (RFC 4862 §5.5.3 e).
const TWO_HOURS: Duration = Duration::from_secs(7200);
/// First and longest interval between Router Solicitations.
const SOLICITATION_INTERVAL: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(3600));
/// After link up the host may be on another link: prefixes not advertised again in this time after the first
/// advertisement are removed.
const CONFIRMATION_TIME: Duration = Duration::from_secs(3);

/// Lifetimes and flags of a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lifetimes {
    /// End of the preferred lifetime.
    pub(super) preferred_until: Time,
    /// End of the valid lifetime.
    pub(super) valid_until: Time,
    /// The prefix is on-link (L flag).
    pub(super) on_link: bool,
    /// Advertised since the link came up.
    confirmed: bool,
}

/// The prefixes of one link.
#[derive(Debug, Default)]
pub(super) struct Prefixes {
    up: bool,
    all: VecMap<Prefix, Lifetimes>,
    solicit_at: Time,
    interval: Duration,
    /// When unconfirmed prefixes are removed.
    drop_unconfirmed_at: Option<Time>,
    advertisement_received: bool,
}

impl Prefixes {
    /// Sets the link state.
    pub(super) fn set_link_up(&mut self, now: Time, up: bool) {
        if up && !self.up {
            (self.solicit_at, self.interval, self.advertisement_received) = (now, SOLICITATION_INTERVAL.0, false);
            self.all.values_mut().for_each(|lifetimes| lifetimes.confirmed = false);
        }
        self.up = up;
    }

    /// Processes a Router Advertisement that passed the checks of RFC 4861 §6.1.2.
    pub(super) fn handle_advertisement(&mut self, now: Time, message: &RouterAdvertisement) {
        for option in &message.options {
            let NeighbourOption::PrefixInformation { prefix, on_link, autonomous, valid, preferred, .. } = option
            else {
                continue;
            };
            let fit = *autonomous && prefix.length() == PREFIX_LENGTH && !prefix.address().is_unicast_link_local();
            if fit && preferred <= valid {
                self.put_prefix(now, *prefix, *on_link, (seconds(*preferred), seconds(*valid)));
            }
        }
        if !core::mem::replace(&mut self.advertisement_received, true)
            && self.all.values().any(|lifetimes| !lifetimes.confirmed)
        {
            self.drop_unconfirmed_at = Some(now + CONFIRMATION_TIME);
        }
    }

    fn put_prefix(&mut self, now: Time, prefix: Prefix, on_link: bool, (preferred, valid): (Duration, Duration)) {
        let known = self.all.get(&prefix).copied().filter(|known| known.valid_until > now);
        if (known.is_none() && valid.is_zero()) || (known.is_none() && self.all.len() >= MAX_PREFIXES) {
            return;
        }
        let remaining = known.map_or(Duration::ZERO, |known| known.valid_until.since(now));
        let valid = if valid > TWO_HOURS || valid > remaining { valid } else { remaining.min(TWO_HOURS) };
        let (preferred_until, valid_until) = (now + preferred, now + valid);
        self.all.insert(prefix, Lifetimes { preferred_until, valid_until, on_link, confirmed: true });
    }

    /// Removes expired and unconfirmed prefixes.
    pub(super) fn expire(&mut self, now: Time) {
        if self.drop_unconfirmed_at.take_if(|at| *at <= now).is_some() {
            self.all.retain(|_, lifetimes| lifetimes.confirmed);
        }
        self.all.retain(|_, lifetimes| lifetimes.valid_until > now);
    }

    /// The valid prefixes.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Prefix, Lifetimes)> {
        self.all.iter().map(|(prefix, lifetimes)| (*prefix, *lifetimes))
    }

    /// Whether the link is up and has no prefix yet.
    pub(super) fn awaits_prefix(&self) -> bool {
        self.up && self.all.is_empty()
    }

    /// Whether a Router Solicitation is due now; schedules the next one.
    pub(super) fn take_due_solicitation(&mut self, now: Time) -> bool {
        let asks = self.is_soliciting() && self.solicit_at <= now;
        if asks {
            self.solicit_at = now + self.interval;
            self.interval = (self.interval * 2).min(SOLICITATION_INTERVAL.1);
        }
        asks
    }

    /// When a lifetime ends or the next Router Solicitation is due.
    pub(super) fn deadline(&self, now: Time) -> Option<Time> {
        let ends = self.all.values().flat_map(|lifetimes| [lifetimes.preferred_until, lifetimes.valid_until]);
        let solicitation = self.is_soliciting().then_some(self.solicit_at.max(now));
        ends.filter(|end| *end > now).chain(solicitation).chain(self.drop_unconfirmed_at).min()
    }

    fn is_soliciting(&self) -> bool {
        self.up && !self.advertisement_received
    }
}

/// A lifetime in seconds; all ones is infinity (RFC 4861 §4.6.2).
fn seconds(value: u32) -> Duration {
    Duration::from_secs(u64::from(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "2001:db8:a::/64";

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    fn advertisement(prefix: &str, preferred: u32, valid: u32, autonomous: bool) -> RouterAdvertisement {
        let prefix: Prefix = prefix.parse().unwrap();
        let option = NeighbourOption::PrefixInformation {
            prefix,
            address: prefix.address(),
            on_link: true,
            autonomous,
            router_address: false,
            valid,
            preferred,
        };
        RouterAdvertisement { options: vec![option], ..RouterAdvertisement::default() }
    }

    fn valid(prefixes: &Prefixes) -> Vec<u64> {
        prefixes.iter().map(|(_, lifetimes)| lifetimes.valid_until.as_micros() / 1_000_000).collect()
    }

    #[test]
    fn only_autonomous_64_bit_prefixes_are_used() {
        let mut prefixes = Prefixes::default();
        for (prefix, preferred, valid, autonomous) in [
            (A, 10, 20, false),
            ("2001:db8:a::/56", 10, 20, true),
            (A, 30, 20, true),
            ("fe80::/64", 10, 20, true),
            (A, 0, 0, true),
        ] {
            prefixes.handle_advertisement(at(0), &advertisement(prefix, preferred, valid, autonomous));
        }
        assert_eq!(prefixes.iter().count(), 0);
        for number in 0..40 {
            prefixes.handle_advertisement(at(0), &advertisement(&format!("2001:db8:{number:x}::/64"), 10, 20, true));
        }
        assert_eq!(prefixes.iter().count(), MAX_PREFIXES);
    }

    #[test]
    fn an_ra_cannot_shorten_a_valid_lifetime_below_two_hours() {
        let mut prefixes = Prefixes::default();
        prefixes.handle_advertisement(at(0), &advertisement(A, 14_400, 86_400, true));
        prefixes.handle_advertisement(at(10), &advertisement(A, 0, 0, true));
        assert_eq!(valid(&prefixes), [7210]);
        let (_, lifetimes) = prefixes.iter().next().unwrap();
        assert_eq!(lifetimes.preferred_until, at(10), "an unauthenticated RA may deprecate it");
        prefixes.handle_advertisement(at(20), &advertisement(A, 5, 5, true));
        assert_eq!(valid(&prefixes), [7210], "what remains does not grow");
        prefixes.handle_advertisement(at(30), &advertisement(A, 8000, 8000, true));
        assert_eq!(valid(&prefixes), [8030]);
        prefixes.expire(at(8030));
        assert_eq!(prefixes.iter().count(), 0);
    }

    #[test]
    fn prefixes_not_advertised_again_after_link_up_are_dropped() {
        let mut prefixes = Prefixes::default();
        prefixes.set_link_up(at(0), true);
        assert!(
            prefixes.take_due_solicitation(at(0))
                && !prefixes.take_due_solicitation(at(0))
                && prefixes.take_due_solicitation(at(1))
        );
        prefixes.handle_advertisement(at(1), &advertisement(A, 100, 200, true));
        assert!(!prefixes.take_due_solicitation(at(100)), "answered");
        prefixes.set_link_up(at(10), false);
        prefixes.set_link_up(at(11), true);
        assert!(prefixes.take_due_solicitation(at(11)));
        prefixes.handle_advertisement(at(12), &advertisement("2001:db8:b::/64", 100, 200, true));
        assert_eq!(prefixes.iter().count(), 2);
        assert_eq!(prefixes.deadline(at(12)), Some(at(15)));
        prefixes.expire(at(15));
        assert_eq!(valid(&prefixes), [212]);
    }
}
