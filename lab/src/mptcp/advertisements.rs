//! Observer of the mobile router's advertisements into the mobile network: a prefix is preferred only while its network
//! is attached (RFC 4861 §6.2, RFC 9096 §3.3; document P2, first change).

use crate::bed::{LinkEmulator, Segment};
use crate::clock;
use crate::threads::Shared;
use crate::topology::nemo;
use roam6_wire::Prefix;
use roam6_wire::icmp6::{Message, NeighbourOption, kind};
use roam6_wire::ip6::{Datagram, protocol};
use std::collections::BTreeMap;
use std::time::Duration;

/// The advertisements on one link, in order of time.
#[derive(Debug, Clone, Default)]
pub(crate) struct AdvertisementLog(Shared<Vec<PrefixAdvertisement>>);

/// One prefix in one advertisement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PrefixAdvertisement {
    /// Microseconds since 1970.
    pub(crate) unix_micros: u64,
    /// The prefix.
    pub(crate) prefix: Prefix,
    /// Preferred lifetime, seconds.
    pub(crate) preferred_lifetime: u32,
}

impl AdvertisementLog {
    /// Observes the segment `inside` from now on.
    pub(crate) fn watch(emulator: &LinkEmulator, inside: Segment) -> AdvertisementLog {
        AdvertisementLog(emulator.collect(move |log: &mut Vec<_>, frame| {
            let packet = frame.packet().filter(|_| frame.segment == inside);
            let unix_micros = frame.unix_micros;
            log.extend(
                packet.map(prefixes).unwrap_or_default().into_iter().map(|(prefix, preferred_lifetime)| {
                    PrefixAdvertisement { unix_micros, prefix, preferred_lifetime }
                }),
            );
        }))
    }

    /// Waits until every prefix of access network `number` that was advertised as preferred before `since` is
    /// deprecated; the time of the last deprecation, microseconds since 1970, `None` after `timeout`.
    pub(crate) fn wait_deprecated(&self, number: usize, since: u64, timeout: Duration) -> Option<u64> {
        let mut last = BTreeMap::new();
        for advert in
            self.0.lock().iter().filter(|advert| advert.unix_micros < since && is_care_of_prefix(advert, number))
        {
            last.insert(advert.prefix, advert.preferred_lifetime);
        }
        let preferred: Vec<Prefix> =
            last.into_iter().filter(|(_, preferred)| *preferred > 0).map(|(prefix, _)| prefix).collect();
        clock::wait_for(timeout, || {
            let seen = self.0.lock();
            let taken_back = |prefix: &Prefix| {
                let mut about = seen.iter().filter(|advert| advert.unix_micros >= since && advert.prefix == *prefix);
                about.find(|advert| advert.preferred_lifetime == 0).map(|advert| advert.unix_micros)
            };
            preferred.iter().map(taken_back).collect::<Option<Vec<u64>>>()
        })
        .map(|moments| moments.into_iter().max().unwrap_or(since))
    }

    /// Prefixes of access network `number` advertised as preferred from `begin` until before `end`.
    pub(crate) fn preferred_between(&self, number: usize, begin: u64, end: u64) -> Vec<PrefixAdvertisement> {
        let within = |advert: &&PrefixAdvertisement| (begin..end).contains(&advert.unix_micros);
        let seen = self.0.lock();
        seen.iter()
            .filter(within)
            .filter(|advert| is_care_of_prefix(advert, number) && advert.preferred_lifetime > 0)
            .copied()
            .collect()
    }
}

fn is_care_of_prefix(advert: &PrefixAdvertisement, number: usize) -> bool {
    nemo::is_of_access_network(number, advert.prefix.address())
}

/// The prefixes of a Router Advertisement with their preferred lifetimes.
fn prefixes(packet: &[u8]) -> Vec<(Prefix, u32)> {
    let Ok(datagram) = Datagram::parse(packet) else { return Vec::new() };
    if datagram.protocol != protocol::ICMPV6 || datagram.payload.first() != Some(&kind::ROUTER_ADVERTISEMENT) {
        return Vec::new();
    }
    let Ok(Message::RouterAdvertisement(message)) = Message::parse(&datagram) else { return Vec::new() };
    let options = message.options.iter();
    options
        .filter_map(|option| match option {
            NeighbourOption::PrefixInformation { prefix, preferred, .. } => Some((*prefix, *preferred)),
            _ => None,
        })
        .collect()
}
