//! The prefixes of the home link, as the home agent tells a mobile router that is away: mobile prefix discovery
//! (RFC 6275 §6.7, §6.8, §11.4.2, §11.4.3 and §11.8; lifetimes as RFC 4862 §5.5.3 has them).

use super::MobileRouter;
use super::registration::{Binding, CareOf};
use crate::base::rng::Entropy;
use crate::base::time::Time;
use crate::base::token_bucket::TokenBucket;
use crate::contract::config::nemo::Authentication;
use crate::contract::engine::Outbox;
use crate::contract::output::{Transmit, Via};
use crate::contract::report::{DropReason, Report};
use core::time::Duration;
use roam6_wire::Prefix;
use roam6_wire::icmp6::{Message, NeighbourOption};
use roam6_wire::ip6::{Datagram, Header, protocol};
use std::net::Ipv6Addr;

/// Prefixes remembered.
pub const MAX_HOME_PREFIXES: usize = 16;

/// RFC 6275 §12: INITIAL_SOLICIT_TIMER, which doubles (§11.8).
const INITIAL_SOLICIT_TIMER: Duration = Duration::from_secs(3);
/// A home agent that has not answered so often does not know this, and is asked again in its next turn.
const MAX_SOLICITATIONS: u32 = 5;
/// RFC 6275 §13: MinMobPfxAdvInterval and MaxMobPfxAdvInterval, between one turn and the next.
const REFRESH_INTERVAL: (Duration, Duration) = (Duration::from_secs(600), Duration::from_secs(86_400));
/// What nobody has proven cannot make a lifetime shorter than this (RFC 4862 §5.5.3).
const TWO_HOURS: Duration = Duration::from_secs(7200);
const INFINITE_LIFETIME: u32 = u32::MAX;

/// What is known of the prefixes of the home link.
#[derive(Debug, Clone)]
pub struct HomePrefixes {
    prefixes: Vec<HomePrefix>,
    /// Who has told, or was asked in vain.
    home_agent: Option<Ipv6Addr>,
    solicitation: Option<PendingSolicitation>,
    /// The next turn begins.
    next_at: Time,
    hints: TokenBucket,
}

/// A prefix of the home link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HomePrefix {
    /// The prefix.
    pub prefix: Prefix,
    /// End of its life; `None` for never.
    pub valid_until: Option<Time>,
    /// From then on no new connection should use it; `None` for never.
    pub preferred_until: Option<Time>,
}

/// A solicitation without an answer.
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
    /// Begins a turn, as when the home agent hints that something has changed; not too often.
    pub fn solicit_soon(&mut self, now: Time) {
        if self.solicitation.is_none() && self.hints.take(now) {
            self.next_at = now;
        }
    }

    /// The identifier of the solicitation to send now to `home_agent`, if one is due: a random one each time.
    pub fn next_solicitation(&mut self, now: Time, home_agent: Ipv6Addr, entropy: &mut Entropy) -> Option<u16> {
        if self.home_agent != Some(home_agent) {
            *self = HomePrefixes { home_agent: Some(home_agent), next_at: now, ..HomePrefixes::default() };
        }
        self.prefixes.retain(|known| known.valid_until.is_none_or(|until| until > now));
        let tries = match self.solicitation {
            Some(asked) if asked.next > now => return None,
            Some(asked) => asked.tries,
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

    /// When [`HomePrefixes::expire`] has something to do.
    pub fn deadline(&self) -> Time {
        let next = self.solicitation.map_or(self.next_at, |asked| asked.next);
        self.prefixes.iter().filter_map(|known| known.valid_until).fold(next, Time::min)
    }

    /// Whether an advertisement with this identifier answers the last solicitation, as the first that does.
    pub fn is_answer(&self, identifier: u16) -> bool {
        self.solicitation.is_some_and(|asked| asked.identifier == identifier)
    }

    /// Takes the answer; `proven` if it was authenticated. Whether all there was room for.
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
        let (told, preferred_until) = (end(valid), end(preferred));
        if let Some(known) = self.prefixes.iter_mut().find(|known| known.prefix == prefix) {
            known.preferred_until = preferred_until;
            let least = now + TWO_HOURS;
            let later = |one: Option<Time>, other: Time| one.is_none_or(|one| one > other);
            known.valid_until = match known.valid_until {
                _ if proven || later(told, least) => told,
                // Also a lifetime that was short already only grows.
                Some(until) if until <= least => Some(told.map_or(until, |told| told.max(until))),
                _ => Some(least),
            };
            return true;
        }
        let fits = self.prefixes.len() < MAX_HOME_PREFIXES;
        if fits && valid > 0 {
            self.prefixes.push(HomePrefix { prefix, valid_until: told, preferred_until });
        }
        fits
    }

    /// What is known, in the order in which it was told.
    pub fn iter(&self) -> impl Iterator<Item = &HomePrefix> {
        self.prefixes.iter()
    }

    /// The prefix of this address.
    pub fn prefix_of(&self, address: Ipv6Addr) -> Option<&HomePrefix> {
        self.prefixes.iter().find(|known| known.prefix.contains(address))
    }
}

impl HomePrefix {
    /// Whether new connections should no longer use it.
    pub fn is_deprecated(&self, now: Time) -> bool {
        self.preferred_until.is_some_and(|until| until <= now)
    }
}

impl MobileRouter {
    /// Asks the home agent for the prefixes of the home link when it is time, and only while it holds what it was told:
    /// a Binding Update never waits for this.
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

    /// When [`MobileRouter::expire_home_prefixes`] has something to do.
    pub(super) fn home_prefix_deadline(&self) -> Option<Time> {
        let (home_agent, _) = self.solicitation_path()?;
        let new = self.home_prefixes.home_agent != Some(home_agent);
        Some(if new { self.now } else { self.home_prefixes.deadline() })
    }

    /// The home agent that holds a binding of ours, and the care-of address it knows us by.
    fn solicitation_path(&self) -> Option<(Ipv6Addr, CareOf)> {
        let binding = self.registration.binding().filter(|_| self.registration.pending().is_none());
        let binding = binding.filter(|binding| Binding::is_away(binding))?;
        let works = |care_of: &&CareOf| {
            let native = !care_of.on_home_link && care_of.ipv4().is_none();
            native && self.uplink_of(care_of).is_some_and(|uplink| uplink.is_up())
        };
        Some((binding.registration.home_agent, *binding.care_of().iter().find(works)?))
    }

    /// Takes a Mobile Prefix Advertisement; `protected` if it was in ESP and our security association opened it.
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
            let detail = "mobile prefix advertisement".to_owned();
            out.report(Report::Dropped { reason, from: Some(datagram.source), detail });
        };
        if datagram.routing_home != Some(home) || self.registration.serving_home_agent() != Some(datagram.source) {
            return drop(DropReason::NotForUs, out);
        }
        if matches!(self.config.authentication, Authentication::Ipsec(_)) && !protected {
            return drop(DropReason::NotAuthenticated, out);
        }
        if !self.home_prefixes.is_answer(identifier) {
            // Something may have changed: we ask, and believe the answer.
            self.home_prefixes.solicit_soon(now);
            return drop(DropReason::Unsolicited, out);
        }
        let before = self.home_prefix_state(now);
        if !self.home_prefixes.receive_advertisement(now, options, protected) {
            out.report(Report::TableFull { table: "home prefixes".to_owned(), limit: MAX_HOME_PREFIXES });
        }
        if self.home_prefix_state(now) != before {
            self.report_home_prefixes(now, out);
        }
    }

    /// What an operator is told of when it changes: the prefixes, and whether each is deprecated.
    fn home_prefix_state(&self, now: Time) -> Vec<(Prefix, bool)> {
        self.home_prefixes.iter().map(|known| (known.prefix, known.is_deprecated(now))).collect()
    }

    /// A new home address is the operator's to choose: keys, names and the home agent's prefix table hang on it.
    fn report_home_prefixes(&self, now: Time, out: &mut Outbox) {
        let Some(home_agent) = self.home_prefixes.home_agent else { return };
        let prefixes = self.home_prefixes.iter().map(|known| known.prefix).collect();
        out.report(Report::HomePrefixes { home_agent, prefixes });
        let home = self.config.home_address;
        let text = match self.home_prefixes.prefix_of(home.0) {
            None => format!("the home link has no prefix for home address {home}: it has to be renumbered"),
            Some(own) if own.is_deprecated(now) => {
                format!("{} of home address {home} is deprecated: it has to be renumbered", own.prefix)
            }
            Some(_) => return,
        };
        out.report(Report::Notice { text });
    }
}
