//! Probing of the paths: which uplinks are probed when, and what follows from the state of their paths (RFC 5648 leaves
//! the detection of a failed care-of address to the mobile node).

use super::MobileRouter;
use super::path_quality::QualityChange;
use super::probe::{PathChange, Probe, Prober};
use super::registration::CareOf;
use super::uplink::Uplink;
use crate::contract::config::nemo::ProbeConfig;
use crate::contract::item::TunnelPath;
use crate::contract::report::{LossReason, NemoReport};
use crate::contract::view::QualityView;
use crate::{Outbox, Time};
use core::time::Duration;
use roam6_wire::Bid;
use std::net::Ipv6Addr;

/// The lowest priority of a Binding Identifier option (RFC 6089 §4.1): for paths that others stand before.
pub(super) const LAST_PRIORITY: u8 = 127;

/// Probes of a silent path in the time for which it has been silent.
const SILENT_PROBES: u32 = 32;
/// The same while no path answers, when the next answer ends an outage; their number in the usual interval at most; and their
/// longest interval.
const OUTAGE_PROBES: u32 = 256;
const OUTAGE_RATE: u32 = 4;
const OUTAGE_INTERVAL: Duration = Duration::from_secs(1);
/// Probes of a silent path in one round trip at most, so that each answer is known for that of a recent probe.
const PROBES_UNDER_WAY: u32 = 8;

/// How good a path is in comparison with others, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    /// Used in the order of priority.
    Good,
    /// Registered, and used if no path is good.
    Last,
    /// Registered for second copies although it is silent, and used if there is no other path.
    Silent,
}

/// What a path is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PathUse {
    /// It carries traffic.
    Active,
    /// It would carry traffic, but there is none.
    Idle,
    /// It is kept in reserve.
    Standby,
}

/// How often to probe a path. `trouble`: one in use may have failed, so all others are asked before they are needed;
/// `lost`: none answers.
fn pace(now: Time, prober: &Prober, config: ProbeConfig, path_use: PathUse, (trouble, lost): (bool, bool)) -> Duration {
    let (idle, standby) = (config.idle.unwrap_or(config.interval), config.standby.unwrap_or(config.interval));
    if let Some(since) = prober.silent_since() {
        let silent = now.since(since);
        return match lost {
            _ if prober.is_recovering() => config.interval,
            true => outage_pace(silent, prober.round_trip(), config, standby),
            false => (silent / SILENT_PROBES).min(standby).max(config.interval),
        };
    }
    let interval = match path_use {
        PathUse::Active => config.interval,
        _ if trouble || !prober.is_known() => config.interval,
        PathUse::Idle => idle,
        PathUse::Standby => standby,
    };
    // A path that is left has to show that it is good again.
    match prober.quality.degraded_interval().filter(|_| path_use == PathUse::Standby) {
        Some(often) => often.min(standby).max(config.interval),
        None => interval.max(config.interval),
    }
}

/// How often to probe a path that has been silent for a time, as all others are.
fn outage_pace(silent: Duration, round_trip: Option<Duration>, config: ProbeConfig, standby: Duration) -> Duration {
    let least = (config.interval / OUTAGE_RATE).max(round_trip.unwrap_or_default() / PROBES_UNDER_WAY);
    (silent / OUTAGE_PROBES).min(standby.min(OUTAGE_INTERVAL).max(config.interval)).max(least)
}

impl MobileRouter {
    /// Whether paths are probed: at home only if home and away is possible.
    pub(super) fn is_probing(&self) -> bool {
        (self.home_link.is_none() || self.may_be_home_and_away()) && self.home_agents.in_use().is_some()
    }

    /// The probes that are due, and the consequences of those that were not answered.
    pub(super) fn expire_probes(&mut self, now: Time, out: &mut Outbox) -> Vec<Probe> {
        let mut due = Vec::new();
        let usual = self.config.probe;
        if usual.is_none() || !self.is_probing() {
            return due;
        }
        self.set_paces(now);
        for index in 0..self.uplinks.len() {
            let known = self.uplinks.get(index).filter(|uplink| self.is_probed(uplink));
            let care_of = known.and_then(|uplink| self.care_of_on(uplink));
            let Some(uplink) = self.uplinks.get_mut(index).filter(|_| care_of.is_some()) else {
                continue;
            };
            let missed = uplink.prober.has_missed_one();
            let (bid, limits) = (uplink.config.bid, uplink.config.quality_limits());
            let Some(config) = uplink.config.probe.or(usual) else { continue };
            if uplink.traffic.take_query(now) {
                uplink.up().into_iter().for_each(|link| out.query_link_traffic(link));
            }
            if let Some(sequence) = uplink.prober.next_alarm_probe(now) {
                uplink.traffic.note_probe();
                due.push(Probe { bid, sequence, in_burst: true });
            }
            if let Some(change) = uplink.prober.judge_alarm(now, config, limits) {
                self.report_path(bid, change, out);
                self.receive_path_change(now, (bid, true));
                continue;
            }
            if let Some(sequence) = uplink.prober.next_burst_probe(now, config) {
                uplink.traffic.note_probe();
                due.push(Probe { bid, sequence, in_burst: true });
            }
            if let Some((sequence, change)) = uplink.prober.next_probe(now, config, limits) {
                uplink.traffic.note_probe();
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

    /// How the path of `uplink` is probed.
    pub(super) fn probe_config(&self, uplink: &Uplink) -> Option<ProbeConfig> {
        self.config.probe.map(|usual| uplink.config.probe.unwrap_or(usual))
    }

    /// Sets how often each path is probed, by its use.
    fn set_paces(&mut self, now: Time) {
        let rarely = |config: ProbeConfig| config.idle.is_some() || config.standby.is_some();
        let lost = self.are_all_paths(Prober::is_silent);
        let paced = self.uplinks.iter().any(|uplink| uplink.prober.has_pace() || uplink.traffic.deadline().is_some());
        if !paced && !lost && !self.uplinks.iter().filter_map(|uplink| self.probe_config(uplink)).any(rarely) {
            return;
        }
        let uses = self.path_uses(now);
        for (index, of) in uses.iter().enumerate() {
            let idle = self.uplinks.get(index).and_then(|uplink| self.probe_config(uplink)?.idle);
            let Some(uplink) = self.uplinks.get_mut(index) else { continue };
            match idle.filter(|_| *of != PathUse::Standby) {
                Some(_) => uplink.traffic.watch(now),
                None => uplink.traffic.rest(),
            }
        }
        let troubled = |(uplink, of): (&Uplink, &PathUse)| *of != PathUse::Standby && uplink.prober.is_troubled();
        let trouble = self.uplinks.iter().zip(&uses).any(troubled);
        let paces: Vec<Option<(Duration, Duration)>> = self
            .uplinks
            .iter()
            .zip(&uses)
            .map(|(uplink, of)| {
                let config = self.probe_config(uplink)?;
                Some((config.interval, pace(now, &uplink.prober, config, *of, (trouble, lost))))
            })
            .collect();
        for (uplink, (usual, pace)) in self.uplinks.iter_mut().zip(paces.into_iter().flatten()) {
            uplink.prober.set_pace(now, usual, pace);
        }
    }

    /// What the path of each uplink is used for.
    fn path_uses(&self, now: Time) -> Vec<PathUse> {
        let (paths, flows) = (self.paths(), self.flows());
        let of = |uplink: &Uplink| {
            // By the link: two uplinks may have equal addresses.
            let link = self.care_of_on(uplink).map(|care_of| care_of.link);
            let carries = |path: &TunnelPath| path.weight > 0 && link.is_some() && path.link == link;
            match paths.iter().any(carries) || flows.iter().any(|flow| flow.uses(uplink.config.bid)) {
                true if uplink.traffic.is_active(now) => PathUse::Active,
                true => PathUse::Idle,
                false => PathUse::Standby,
            }
        };
        self.uplinks.iter().map(of).collect()
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

    /// The path of an uplink counts as up until probes say otherwise.
    pub(super) fn presume_path_up(&mut self, now: Time, index: usize, out: &mut Outbox) {
        let Some(uplink) = self.uplinks.get_mut(index) else { return };
        let was_silent = uplink.prober.is_silent();
        uplink.prober.restart(now);
        uplink.prober.take_was_silent();
        let bid = uplink.config.bid;
        if was_silent {
            self.report_path(bid, PathChange::Up, out);
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
        // Probes that are far apart say little: a modem that slept answers late.
        let is_rare = uplink.prober.is_slow() && uplink.prober.quality.degradation().is_none();
        if is_rare || uplink.prober.awaits_session(now) {
            return;
        }
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
        if let Some(uplink) = uplink.filter(|uplink| self.keeps_for_copies(uplink)) {
            return if uplink.prober.is_recovering() { Standing::Last } else { Standing::Silent };
        }
        let is_last = |uplink: &Uplink| uplink.is_beyond_plan() || self.is_unconfirmed(uplink);
        if degraded || uplink.is_some_and(is_last) { Standing::Last } else { Standing::Good }
    }

    /// Whether nothing has come back by the path of `uplink` yet, while another one works: an answered probe is what confirms
    /// it, or an answered update if it cannot be probed before. Until then it is registered behind the others: the home agent
    /// sends by what it has registered, whether its answer arrives or not.
    pub(super) fn is_unconfirmed(&self, uplink: &Uplink) -> bool {
        let Some(own) = self.care_of_on(uplink).filter(|own| !own.on_home_link && self.registers_several()) else {
            return false;
        };
        let held = self.registration.binding().map(|binding| binding.care_of()).unwrap_or_default();
        let held = held.iter().find(|held| held.is_same_address(&own));
        let unconfirmed = match (own.is_observed(), held) {
            (true, None) => !self.ha_registers_source_only,
            (true, Some(_)) if !self.encrypts() => false,
            (_, Some(held)) if held.priority != LAST_PRIORITY => false,
            // The session of an encrypted path begins once it is registered.
            (false, None) if self.encrypts() => self.config.probe.is_some(),
            _ => self.config.probe.is_some() && uplink.prober.last_answer().is_none(),
        };
        unconfirmed && self.has_working_other(uplink)
    }

    /// Whether the path of another uplink is registered and works.
    pub(super) fn has_working_other(&self, uplink: &Uplink) -> bool {
        let answers = |other: &Uplink| self.config.probe.is_none() || other.prober.last_answer().is_some();
        let works = |other: &Uplink| other.is_up() && !other.is_barred() && !other.prober.is_silent() && answers(other);
        let mut others = self.uplinks.iter().filter(|other| other.config.bid != uplink.config.bid && works(other));
        others.any(|other| self.care_of_on(other).is_some_and(|care_of| self.is_held(&care_of)))
    }

    /// The order in which a path is used: by standing, then by the operator's priority.
    pub(super) fn rank(&self, care_of: &CareOf) -> (Standing, u8) {
        let uplink = self.uplink_of(care_of).map(|uplink| &uplink.config);
        uplink.map_or((Standing::Good, care_of.priority), |config| (self.standing(config.bid), config.priority))
    }

    /// Gives the paths that others stand before the lowest priority, so that the home agent uses them last too.
    pub(super) fn put_last(&self, candidates: &mut [CareOf]) {
        let Some(best) = candidates.iter().map(|care_of| self.standing(care_of.bid)).min() else { return };
        for care_of in candidates.iter_mut().filter(|care_of| self.standing(care_of.bid) > best) {
            care_of.priority = LAST_PRIORITY;
        }
    }

    /// Whether the path of the uplink with this BID is left to others, one of which is registered and better.
    pub(super) fn is_avoided(&self, bid: Bid) -> bool {
        let held = self.registration.binding().map(|binding| binding.care_of()).unwrap_or_default();
        let answers =
            |care_of: &&CareOf| self.uplink_of(care_of).is_some_and(|up| up.is_up() && !up.prober.is_silent());
        let better = held.iter().filter(answers).any(|care_of| self.rank(care_of).0 == Standing::Good);
        better && self.standing(bid) != Standing::Good
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
            held: quality.held_until(now).map(|until| until.since(now)),
        })
    }
}
