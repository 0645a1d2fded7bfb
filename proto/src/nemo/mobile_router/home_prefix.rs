//! Mobile prefix discovery: the prefixes of the home link while away (RFC 6275 §6.7, §6.8, §11.4.2, §11.4.3 and §11.8;
//! lifetimes as in RFC 4862 §5.5.3).

use super::MobileRouter;
use super::registration::{Binding, CareOf};
use crate::contract::config::nemo::Authentication;
use crate::contract::report::NemoReport;
use crate::{DropReason, Entropy, Outbox, Time, TokenBucket, Transmit, Via};
use core::time::Duration;
use roam6_wire::Prefix;
use roam6_wire::icmp6::{Message, NeighbourOption};
use roam6_wire::ip6::{Datagram, Header, protocol};
use std::net::Ipv6Addr;

/// Maximum prefixes.
pub const MAX_HOME_PREFIXES: usize = 16;

/// RFC 6275 §12: INITIAL_SOLICIT_TIMER, which doubles (§11.8).
const INITIAL_SOLICIT_TIMER: Duration = Duration::from_secs(3);
/// Unanswered solicitations after which the home agent counts as without support until the next turn.
const MAX_SOLICITATIONS: u32 = 5;
/// RFC 6275 §13: MinMobPfxAdvInterval and MaxMobPfxAdvInterval, bounds of the time between two turns.
const REFRESH_INTERVAL: (Duration, Duration) = (Duration::from_secs(600), Duration::from_secs(86_400));
/// An unauthenticated advertisement cannot shorten a lifetime below this (RFC 4862 §5.5.3).
const TWO_HOURS: Duration = Duration::from_secs(7200);
const INFINITE_LIFETIME: u32 = u32::MAX;

/// The known prefixes of the home link.
#[derive(Debug, Clone)]
pub struct HomePrefixes {
    prefixes: Vec<HomePrefix>,
    /// The home agent that has answered, or has not.
    home_agent: Option<Ipv6Addr>,
    solicitation: Option<PendingSolicitation>,
    /// When the next turn begins.
    next_at: Time,
    hints: TokenBucket,
}

/// A prefix of the home link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HomePrefix {
    /// The prefix.
    pub prefix: Prefix,
    /// End of the valid lifetime; `None` if infinite.
    pub valid_until: Option<Time>,
    /// End of the preferred lifetime; `None` if infinite.
    pub preferred_until: Option<Time>,
}

/// An unanswered solicitation.
#[derive(Debug, Clone, Copy)]
struct PendingSolicitation {
    identifier: u16,
    next: Time,
    tries: u32,
}

impl Default for HomePrefixes {
    fn default() -> HomePrefixes {
        HomePrefixes {
            prefixes: Vec::new(),
            home_agent: None,
            solicitation: None,
            next_at: Time::ZERO,
            hints: TokenBucket::new(1, INITIAL_SOLICIT_TIMER),
        }
    }
}

impl HomePrefixes {
    /// Starts a turn, rate limited, when the home agent signals a change.
    pub fn solicit_soon(&mut self, now: Time) {
        if self.solicitation.is_none() && self.hints.take(now) {
            self.next_at = now;
        }
    }

    /// The random identifier of the solicitation to send now to `home_agent`, if one is due.
    pub fn next_solicitation(&mut self, now: Time, home_agent: Ipv6Addr, entropy: &mut Entropy) -> Option<u16> {
        if self.home_agent != Some(home_agent) {
            *self = HomePrefixes { home_agent: Some(home_agent), next_at: now, ..HomePrefixes::default() };
        }
        self.prefixes.retain(|known| known.valid_until.is_none_or(|until| until > now));
        let tries = match self.solicitation {
            Some(pending) if pending.next > now => return None,
            Some(pending) => pending.tries,
            None if self.next_at > now => return None,
            None => 0,
        };
        if tries == MAX_SOLICITATIONS {
            self.solicitation = None;
            self.next_at = now + REFRESH_INTERVAL.1;
            return None;
        }
        let identifier = u16::try_from(entropy.next_u64() >> 48).unwrap_or_default();
        self.solicitation = Some(PendingSolicitation {
            identifier,
            next: now + INITIAL_SOLICIT_TIMER * (1 << tries),
            tries: tries + 1,
        });
        Some(identifier)
    }

    /// When [`HomePrefixes::next_solicitation`] has something to do.
    pub fn deadline(&self) -> Time {
        let next = self.solicitation.map_or(self.next_at, |pending| pending.next);
        self.prefixes.iter().filter_map(|known| known.valid_until).fold(next, Time::min)
    }

    /// Whether an advertisement with this identifier answers the outstanding solicitation.
    pub fn is_answer(&self, identifier: u16) -> bool {
        self.solicitation.is_some_and(|pending| pending.identifier == identifier)
    }

    /// Processes the answer; `proven` if it was authenticated. Returns whether all prefixes fitted.
    pub fn receive_advertisement(&mut self, now: Time, options: &[NeighbourOption], proven: bool) -> bool {
        self.solicitation = None;
        let mut room = true;
        for option in options {
            let NeighbourOption::PrefixInformation { prefix, valid, preferred, .. } = option else { continue };
            if prefix.address().is_unicast_link_local() || prefix.address().is_multicast() || preferred > valid {
                continue;
            }
            room &= self.update_prefix(now, *prefix, (*valid, *preferred), proven);
        }
        self.prefixes.retain(|known| known.valid_until.is_none_or(|until| until > now));
        let part = |until: Time| until.since(now) * 3 / 4;
        let ends = self.prefixes.iter().flat_map(|known| [known.valid_until, known.preferred_until]).flatten();
        self.next_at = now + ends.map(part).fold(REFRESH_INTERVAL.1, Duration::min).max(REFRESH_INTERVAL.0);
        room
    }

    fn update_prefix(&mut self, now: Time, prefix: Prefix, (valid, preferred): (u32, u32), proven: bool) -> bool {
        let end = |seconds: u32| (seconds != INFINITE_LIFETIME).then(|| now + Duration::from_secs(seconds.into()));
        let (valid_until, preferred_until) = (end(valid), end(preferred));
        if let Some(known) = self.prefixes.iter_mut().find(|known| known.prefix == prefix) {
            known.preferred_until = preferred_until;
            let least = now + TWO_HOURS;
            let later = |end: Option<Time>, limit: Time| end.is_none_or(|end| end > limit);
            known.valid_until = match known.valid_until {
                _ if proven || later(valid_until, least) => valid_until,
                // A lifetime that is shorter already only grows.
                Some(until) if until <= least => Some(valid_until.map_or(until, |valid_until| valid_until.max(until))),
                _ => Some(least),
            };
            return true;
        }
        let fits = self.prefixes.len() < MAX_HOME_PREFIXES;
        if fits && valid > 0 {
            self.prefixes.push(HomePrefix { prefix, valid_until, preferred_until });
        }
        fits
    }

    /// The known prefixes, in order of arrival.
    pub fn iter(&self) -> impl Iterator<Item = &HomePrefix> {
        self.prefixes.iter()
    }

    /// The prefix that contains `address`.
    pub fn prefix_of(&self, address: Ipv6Addr) -> Option<&HomePrefix> {
        self.prefixes.iter().find(|known| known.prefix.contains(address))
    }
}

impl HomePrefix {
    /// Whether it is deprecated.
    pub fn is_deprecated(&self, now: Time) -> bool {
        self.preferred_until.is_some_and(|until| until <= now)
    }
}

impl MobileRouter {
    /// Solicits the prefixes of the home link when due, and only while bound: a Binding Update never waits for it.
    pub(super) fn solicit_home_prefixes(&mut self, now: Time, out: &mut Outbox) {
        let Some((home_agent, care_of)) = self.solicitation_path() else { return };
        if let Some(identifier) = self.home_prefixes.next_solicitation(now, home_agent, &mut self.entropy) {
            let home = self.config.home_address.0;
            let header = Header::new(care_of.address.0, home_agent).with_home_address(home);
            let message = Message::MobilePrefixSolicitation { identifier }.emit(home, home_agent);
            let bytes = self.protect(&header, protocol::ICMPV6, &message);
            out.transmit(Transmit { via: Via::Link(care_of.link), bytes });
        }
    }

    /// When [`MobileRouter::solicit_home_prefixes`] has something to do.
    pub(super) fn home_prefix_deadline(&self) -> Option<Time> {
        let (home_agent, _) = self.solicitation_path()?;
        let new = self.home_prefixes.home_agent != Some(home_agent);
        Some(if new { self.now } else { self.home_prefixes.deadline() })
    }

    /// The home agent of the present binding, and a registered care-of address.
    fn solicitation_path(&self) -> Option<(Ipv6Addr, CareOf)> {
        let binding = self.registration.binding().filter(|_| self.registration.pending().is_none());
        let binding = binding.filter(|binding| Binding::is_away(binding))?;
        let works = |care_of: &&CareOf| {
            let native = !care_of.on_home_link && !care_of.is_observed();
            native && self.uplink_of(care_of).is_some_and(|uplink| uplink.is_up())
        };
        Some((binding.registration.home_agent, *binding.care_of().iter().find(works)?))
    }

    /// Processes a Mobile Prefix Advertisement; `protected` if it was in valid ESP.
    pub(super) fn receive_prefix_advertisement(
        &mut self,
        now: Time,
        datagram: &Datagram<'_>,
        (identifier, options): (u16, &[NeighbourOption]),
        protected: bool,
        out: &mut Outbox,
    ) {
        let home = self.config.home_address.0;
        let drop = |reason, out: &mut Outbox| {
            out.report_drop(reason, datagram.source, "mobile prefix advertisement");
        };
        if datagram.routing_home != Some(home) || self.registration.serving_home_agent() != Some(datagram.source) {
            return drop(DropReason::NotForUs, out);
        }
        if matches!(self.config.authentication, Authentication::Ipsec(_)) && !protected {
            return drop(DropReason::NotAuthenticated, out);
        }
        if !self.home_prefixes.is_answer(identifier) {
            // Something may have changed: it is solicited, and the answer is accepted.
            self.home_prefixes.solicit_soon(now);
            return drop(DropReason::Unsolicited, out);
        }
        let before = self.home_prefix_state(now);
        if !self.home_prefixes.receive_advertisement(now, options, protected) {
            out.report_full_table("home prefixes", MAX_HOME_PREFIXES);
        }
        if self.home_prefix_state(now) != before {
            self.report_home_prefixes(now, out);
        }
    }

    /// What is reported when it changes: the prefixes, and whether each is deprecated.
    fn home_prefix_state(&self, now: Time) -> Vec<(Prefix, bool)> {
        self.home_prefixes.iter().map(|known| (known.prefix, known.is_deprecated(now))).collect()
    }

    /// The operator chooses a new home address: keys, names and the home agent's prefix table depend on it.
    fn report_home_prefixes(&self, now: Time, out: &mut Outbox) {
        let Some(home_agent) = self.home_prefixes.home_agent else { return };
        let prefixes = self.home_prefixes.iter().map(|known| known.prefix).collect();
        out.report(NemoReport::HomePrefixes { home_agent, prefixes });
        let home = self.config.home_address;
        let text = match self.home_prefixes.prefix_of(home.0) {
            None => format!("the home link has no prefix for home address {home}: it has to be renumbered"),
            Some(own) if own.is_deprecated(now) => {
                format!("{} of home address {home} is deprecated: it has to be renumbered", own.prefix)
            }
            Some(_) => return,
        };
        out.notice(text);
    }
}
