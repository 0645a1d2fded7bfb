//! Probing of the paths: which uplinks are probed when, and what follows from the state of their paths (RFC 5648 leaves
//! the detection of a failed care-of address to the mobile node).

use super::MobileRouter;
use super::path_quality::QualityChange;
use super::probe::{PathChange, Probe};
use super::registration::CareOf;
use super::uplink::Uplink;
use crate::contract::report::{LossReason, NemoReport};
use crate::contract::view::QualityView;
use crate::{Outbox, Time};
use roam6_wire::Bid;
use std::net::Ipv6Addr;

/// The lowest priority of a Binding Identifier option (RFC 6089 §4.1): for paths that others stand before.
pub(super) const LAST_PRIORITY: u8 = 127;

/// How good a path is in comparison with others, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    /// Used in the order of priority.
    Good,
    /// Registered, and used if no path is good.
    Last,
}

impl MobileRouter {
    /// Whether paths are probed: at home only if home and away is possible.
    pub(super) fn is_probing(&self) -> bool {
        (self.home_link.is_none() || self.may_be_home_and_away()) && self.home_agents.in_use().is_some()
    }

    /// The probes that are due, and the consequences of those that were not answered.
    pub(super) fn expire_probes(&mut self, now: Time, out: &mut Outbox) -> Vec<Probe> {
        let mut due = Vec::new();
        let Some(config) = self.config.probe.filter(|_| self.is_probing()) else {
            return due;
        };
        for index in 0..self.uplinks.len() {
            let known = self.uplinks.get(index).filter(|uplink| self.is_probed(uplink));
            let care_of = known.and_then(|uplink| self.care_of_on(uplink));
            let Some(uplink) = self.uplinks.get_mut(index).filter(|_| care_of.is_some()) else {
                continue;
            };
            let missed = uplink.prober.has_missed_one();
            let (bid, limits) = (uplink.config.bid, uplink.config.quality_limits());
            if let Some(sequence) = uplink.prober.next_burst_probe(now, config) {
                due.push(Probe { bid, sequence, in_burst: true });
            }
            if let Some((sequence, change)) = uplink.prober.next_probe(now, config, limits) {
                due.push(Probe { bid, sequence, in_burst: false });
                if missed {
                    self.receive_missed_probe(now, care_of);
                }
                if let Some(change) = change {
                    self.report_path(bid, change, out);
                    self.receive_path_change(now, (bid, change == PathChange::Down));
                }
            }
            self.judge_path(now, bid, out);
        }
        due
    }

    /// Sends the probes that are due, after their source addresses are put.
    pub(super) fn send_probes(&self, due: &[Probe], out: &mut Outbox) {
        for probe in due {
            let uplink = self.uplinks.iter().find(|uplink| uplink.config.bid == probe.bid);
            if let Some(message) = uplink.and_then(|uplink| self.probe_packet(uplink, probe.sequence)) {
                out.transmit(message);
            }
        }
    }

    /// Reports that the path of the uplink with this BID went down or came up.
    pub(super) fn report_path(&self, bid: Bid, change: PathChange, out: &mut Outbox) {
        let Some(care_of) = self.address_of_path(bid) else {
            return;
        };
        out.report(match change {
            PathChange::Down => NemoReport::PathDown { bid, care_of, why: LossReason::ProbesLost },
            PathChange::Up => NemoReport::PathUp { bid, care_of },
        });
    }

    fn address_of_path(&self, bid: Bid) -> Option<Ipv6Addr> {
        let uplink = self.uplinks.iter().find(|uplink| uplink.config.bid == bid);
        let in_use = uplink.and_then(|uplink| self.care_of_on(uplink)).map(|care_of| care_of.address.0);
        let formed = uplink.and_then(|uplink| uplink.care_of_address.as_ref()).map(|formed| formed.address.0);
        in_use.or(formed)
    }

    /// Judges the quality of the path of the uplink with this BID, and reports a change.
    pub(super) fn judge_path(&mut self, now: Time, bid: Bid, out: &mut Outbox) {
        let Some(uplink) = self.uplinks.iter_mut().find(|uplink| uplink.config.bid == bid) else { return };
        let silent = uplink.prober.is_silent();
        let change = uplink.prober.quality.judge(now, uplink.config.quality_limits(), silent);
        let Some((change, care_of)) = change.zip(self.address_of_path(bid)) else { return };
        out.report(match change {
            QualityChange::Degraded(why) => NemoReport::PathDegraded { bid, care_of, why: why.to_string() },
            QualityChange::Restored => NemoReport::PathRestored { bid, care_of },
        });
    }

    /// How good the path of the uplink with this BID is.
    pub(super) fn standing(&self, bid: Bid) -> Standing {
        let uplink = self.uplinks.iter().find(|uplink| uplink.config.bid == bid);
        let judged = uplink.filter(|uplink| self.config.probe.is_some() && uplink.config.quality_limits().is_limited());
        let degraded = judged.is_some_and(|uplink| uplink.prober.quality.degradation().is_some());
        if degraded || uplink.is_some_and(Uplink::is_beyond_plan) { Standing::Last } else { Standing::Good }
    }

    /// The order in which a path is used: by standing, then by the operator's priority.
    pub(super) fn rank(&self, care_of: &CareOf) -> (Standing, u8) {
        let uplink = self.uplink_of(care_of).map(|uplink| &uplink.config);
        uplink.map_or((Standing::Good, care_of.priority), |config| (self.standing(config.bid), config.priority))
    }

    /// Gives the paths that others stand before the lowest priority, so that the home agent uses them last too.
    pub(super) fn put_last(&self, candidates: &mut [CareOf]) {
        if candidates.iter().any(|care_of| self.standing(care_of.bid) == Standing::Good) {
            for care_of in candidates.iter_mut().filter(|care_of| self.standing(care_of.bid) == Standing::Last) {
                care_of.priority = LAST_PRIORITY;
            }
        }
    }

    /// Whether the path of the uplink with this BID is left to others, one of which is registered and better.
    pub(super) fn is_avoided(&self, bid: Bid) -> bool {
        let held = self.registration.binding().map(|binding| binding.care_of()).unwrap_or_default();
        let answers =
            |care_of: &&CareOf| self.uplink_of(care_of).is_some_and(|up| up.is_up() && !up.prober.is_silent());
        let better = held.iter().filter(answers).any(|care_of| self.rank(care_of).0 == Standing::Good);
        better && self.standing(bid) == Standing::Last
    }

    /// The quality of an uplink's path, once a probe was answered.
    pub(super) fn show_quality(&self, now: Time, uplink: &Uplink) -> Option<QualityView> {
        let quality = &uplink.prober.quality;
        let (of, lost) = quality.loss(now);
        let permille = (lost * 1000).checked_div(of).unwrap_or_default();
        self.config.probe.filter(|_| self.is_probed(uplink))?;
        Some(QualityView {
            rtt: quality.round_trip()?,
            jitter: quality.jitter(),
            loss_permille: u16::try_from(permille).unwrap_or(u16::MAX),
            samples: u32::try_from(of).unwrap_or(u32::MAX),
            changed: now.since(quality.changed()),
        })
    }
}
