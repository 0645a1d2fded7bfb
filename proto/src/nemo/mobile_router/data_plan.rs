//! Data plans: the traffic of each uplink, counted over restarts in the periods of its plan, and what happens to an uplink
//! whose plan is used up (no RFC; the plan is the operator's, [`DataPlan`]).
//!
//! The interface's own counters are read, so that all of its traffic counts, also that of other programs.

use super::MobileRouter;
use super::registration::{DesiredRegistration, Location};
use super::uplink::Uplink;
use crate::contract::config::nemo::{BeyondCap, DataPlan, PlanPeriod, UplinkConfig};
use crate::contract::input::LinkTraffic;
use crate::contract::item::{JournalRecord, UsageRecord};
use crate::contract::report::NemoReport;
use crate::contract::view::UsageView;
use crate::crypto::authenticator::WallClock;
use crate::{Item, LinkId, Outbox, Time, Transmit};
use core::time::Duration;

/// Longest and shortest interval of reading the counters.
const READ_INTERVAL: Duration = Duration::from_secs(10);
const MIN_READ_INTERVAL: Duration = Duration::from_secs(1);
/// A rate that an uplink may have at once, octets per second: what it leaves of a plan decides when to read next.
const BURST_RATE: u64 = 12_500_000;
/// Octets that are written to the journal after [`WRITE_INTERVAL`]; fewer after [`MAX_WRITE_INTERVAL`].
const WRITE_OCTETS: u64 = 1_000_000;
const WRITE_INTERVAL: Duration = Duration::from_secs(60);
const MAX_WRITE_INTERVAL: Duration = Duration::from_secs(600);
/// A clock before 2025-01-01T00:00Z has not been set yet, seconds since 1970.
const EARLIEST_UNIX: u64 = 1_735_689_600;
/// After this time in a period before the recorded one, the record's clock was wrong, and not the present one.
const DOUBT_TIME: Duration = Duration::from_secs(3600);
/// De-registrations sent when the last uplink may not be used any more, and their interval.
const MAX_DEPARTURES: u8 = 3;
const DEPARTURE_INTERVAL: Duration = Duration::from_secs(1);

/// Octets sent and received.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Octets {
    tx: u64,
    rx: u64,
}

impl Octets {
    fn sum(self) -> u64 {
        self.tx.saturating_add(self.rx)
    }

    fn add(&mut self, more: Octets) {
        *self = Octets { tx: self.tx.saturating_add(more.tx), rx: self.rx.saturating_add(more.rx) };
    }
}

/// The traffic of an uplink.
#[derive(Debug, Default, Clone)]
pub(super) struct Usage {
    /// In the present period.
    period: Octets,
    /// Since it was first counted.
    total: Octets,
    /// Begin of the period, seconds since 1970; 0 while the time is unknown.
    period_start: u64,
    /// Since when the clock has been in an earlier period.
    doubted_since: Option<Time>,
    counters: Option<Counters>,
    /// Octets per second, when they were read last.
    rate: u64,
    read_at: Time,
    next_read: Option<Time>,
    /// Octets since the record was written.
    unwritten: u64,
    written_at: Time,
    /// It was reported that the plan is used up.
    exhaustion_reported: bool,
}

/// The counters of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Counters {
    link: LinkId,
    octets: Octets,
    /// Read by a previous instance.
    restored: bool,
}

/// De-registrations from an uplink that may not be used any more.
#[derive(Debug, Clone)]
pub(super) struct Departure {
    registration: DesiredRegistration,
    sent: u8,
    next_at: Time,
}

impl Counters {
    /// The traffic until the counters had these values.
    fn traffic_until(self, link: LinkId, now: Octets) -> Octets {
        let of = |before: u64, now: u64| match now.checked_sub(before) {
            Some(more) => more,
            // Counters of 32 bits begin again at 0.
            None if !self.restored && (1 << 31..1 << 32).contains(&before) && now < 1 << 31 => {
                (1_u64 << 32).saturating_sub(before).saturating_add(now)
            }
            None => now,
        };
        let begun_again = self.restored && (now.tx < self.octets.tx || now.rx < self.octets.rx);
        if self.link != link || begun_again {
            return now;
        }
        Octets { tx: of(self.octets.tx, now.tx), rx: of(self.octets.rx, now.rx) }
    }
}

impl Usage {
    /// Adds the traffic since the counters were read last.
    fn receive(&mut self, now: Time, traffic: &LinkTraffic) {
        let octets = Octets { tx: traffic.tx.octets, rx: traffic.rx.octets };
        let counters = Counters { link: traffic.link, octets, restored: false };
        let since = now.since(core::mem::replace(&mut self.read_at, now));
        let Some(before) = self.counters.replace(counters) else { return };
        let more = before.traffic_until(traffic.link, octets);
        self.period.add(more);
        self.total.add(more);
        self.unwritten = self.unwritten.saturating_add(more.sum());
        let millis = u64::try_from(since.as_millis()).unwrap_or(u64::MAX).max(1);
        self.rate = if before.restored { 0 } else { more.sum().saturating_mul(1000) / millis };
    }

    /// Begins a new period if its time has come.
    fn begin_period(&mut self, now: Time, plan: DataPlan, unix: u64) {
        let start = period_start(plan, unix);
        let doubted = start < self.period_start && self.doubted_since.is_none_or(|since| since + DOUBT_TIME > now);
        if doubted {
            self.doubted_since.get_or_insert(now);
            return;
        }
        self.doubted_since = None;
        if start > self.period_start && self.period_start > 0 {
            self.period = Octets::default();
            self.unwritten = self.unwritten.max(WRITE_OCTETS);
        }
        self.period_start = start;
    }

    fn is_exhausted(&self, plan: DataPlan) -> bool {
        plan.cap.is_some_and(|cap| self.period.sum() >= cap)
    }

    /// How long the counters need not be read.
    fn read_interval(&self, plan: DataPlan) -> Duration {
        match plan.cap.map(|cap| cap.saturating_sub(self.period.sum())) {
            None | Some(0) => READ_INTERVAL,
            Some(left) => {
                let seconds = left.checked_div(self.rate.max(BURST_RATE)).unwrap_or_default();
                Duration::from_secs(seconds).clamp(MIN_READ_INTERVAL, READ_INTERVAL)
            }
        }
    }

    /// When the record is to be written.
    fn write_deadline(&self) -> Option<Time> {
        let after = if self.unwritten >= WRITE_OCTETS { WRITE_INTERVAL } else { MAX_WRITE_INTERVAL };
        (self.unwritten > 0).then_some(self.written_at + after)
    }

    fn restore(&mut self, record: &UsageRecord) {
        let total = Octets { tx: record.total_tx, rx: record.total_rx };
        if self.total.sum() > total.sum() {
            return;
        }
        let octets = Octets { tx: record.link_tx, rx: record.link_rx };
        *self = Usage {
            period: Octets { tx: record.tx, rx: record.rx },
            total,
            period_start: record.period_start_unix,
            counters: Some(Counters { link: record.link, octets, restored: true }),
            ..Usage::default()
        };
    }

    fn record(&self, uplink: &UplinkConfig) -> Option<Item> {
        let counters = self.counters?;
        Some(Item::JournalRecord(JournalRecord::Usage(UsageRecord {
            bid: uplink.bid,
            interface: uplink.interface.clone(),
            period_start_unix: self.period_start,
            tx: self.period.tx,
            rx: self.period.rx,
            total_tx: self.total.tx,
            total_rx: self.total.rx,
            link: counters.link,
            link_tx: counters.octets.tx,
            link_rx: counters.octets.rx,
        })))
    }

    /// The configuration has other periods: what was counted stays.
    pub(super) fn forget_period(&mut self) {
        self.period_start = 0;
    }

    /// The counters are read at the next opportunity.
    pub(super) fn read_soon(&mut self, now: Time) {
        self.next_read = Some(now);
    }
}

impl Uplink {
    /// Whether its data plan is used up.
    fn is_plan_exhausted(&self) -> bool {
        self.config.plan.is_some_and(|plan| self.usage.is_exhausted(plan))
    }

    fn is_exhausted_for(&self, beyond: BeyondCap) -> bool {
        // On the home link there is no visited network whose plan could be used up.
        !self.on_home_link && self.is_plan_exhausted() && self.config.plan.is_some_and(|plan| plan.beyond == beyond)
    }

    /// Whether nothing but signalling of the link may cross it.
    pub(super) fn is_barred(&self) -> bool {
        self.is_exhausted_for(BeyondCap::Never)
    }

    /// Whether its data plan leaves the traffic to other uplinks.
    pub(super) fn is_beyond_plan(&self) -> bool {
        self.is_exhausted_for(BeyondCap::Backup)
    }

    /// When [`MobileRouter::update_data_plans`] has something to do.
    pub(super) fn usage_deadline(&self) -> Option<Time> {
        self.config.plan?;
        let read = self.usage.next_read.filter(|_| self.link().is_some());
        read.into_iter().chain(self.usage.write_deadline()).min()
    }

    /// Its traffic, if it is counted.
    pub(super) fn show_usage(&self) -> Option<UsageView> {
        let (plan, usage) = (self.config.plan?, &self.usage);
        Some(UsageView {
            tx: usage.period.tx,
            rx: usage.period.rx,
            since_unix: usage.period_start,
            cap: plan.cap,
            exhausted: usage.is_exhausted(plan),
            total_tx: usage.total.tx,
            total_rx: usage.total.rx,
        })
    }
}

impl MobileRouter {
    /// Restores the count of the previous run.
    pub(super) fn restore_usage(&mut self, record: &UsageRecord) {
        let counted =
            |uplink: &&mut Uplink| uplink.config.interface == record.interface && uplink.config.plan.is_some();
        if let Some(uplink) = self.uplinks.iter_mut().find(counted) {
            uplink.usage.restore(record);
        }
    }

    /// Whether a metered uplink is not probed now: it carries nothing, and the paths that do answer. It is asked as soon as
    /// one of them leaves a second probe unanswered, before its path counts as down.
    pub(super) fn is_spared(&self, uplink: &Uplink) -> bool {
        if !uplink.config.metered || uplink.prober.is_silent() {
            return false;
        }
        let paths = self.paths();
        let carries = |other: &Uplink| {
            paths.iter().any(|path| path.weight > 0 && path.link.is_some() && path.link == other.up())
                || self.config.flows.iter().any(|rule| rule.names(other.config.bid))
        };
        let answers = |other: &Uplink| !other.prober.is_silent() && other.prober.missed() <= 1;
        let mut others = self.uplinks.iter().filter(|other| carries(other)).peekable();
        !carries(uplink) && others.peek().is_some() && others.all(answers)
    }

    /// Processes the counters of an interface.
    pub(super) fn receive_link_traffic(&mut self, now: Time, traffic: &LinkTraffic) {
        let counted = |uplink: &&mut Uplink| uplink.link() == Some(traffic.link);
        let Some(uplink) = self.uplinks.iter_mut().find(counted) else { return };
        uplink.traffic.receive(now, traffic);
        if let Some(plan) = uplink.config.plan {
            uplink.usage.receive(now, traffic);
            if uplink.usage.next_read.is_some() {
                uplink.usage.next_read = Some(next_multiple(now, uplink.usage.read_interval(plan)));
            }
        }
    }

    /// Begins periods, reads counters and writes records that are due, and reports plans that are used up or renewed.
    pub(super) fn update_data_plans(&mut self, now: Time, out: &mut Outbox) {
        let unix = sane_unix(&self.clock, now);
        for uplink in &mut self.uplinks {
            let Some(plan) = uplink.config.plan else { continue };
            if let Some(unix) = unix {
                uplink.usage.begin_period(now, plan, unix);
            }
            if uplink.usage.next_read.is_some_and(|at| at <= now)
                && let Some(link) = uplink.link()
            {
                out.query_link_traffic(link);
                // While it is down nothing passes.
                let next = next_multiple(now, uplink.usage.read_interval(plan));
                uplink.usage.next_read = uplink.is_up().then_some(next);
            }
            let changed = uplink.report_plan(now, plan, out);
            if changed || uplink.usage.write_deadline().is_some_and(|at| at <= now) {
                let record = uplink.usage.record(&uplink.config);
                record.into_iter().for_each(|record| self.desired_state.put_once(record, (), out));
                (uplink.usage.unwritten, uplink.usage.written_at) = (0, now);
            }
        }
    }

    /// Writes what was counted since the last record: the daemon stops.
    pub(super) fn write_usage(&mut self, out: &mut Outbox) {
        for uplink in self.uplinks.iter().filter(|uplink| uplink.config.plan.is_some() && uplink.usage.unwritten > 0) {
            let record = uplink.usage.record(&uplink.config);
            record.into_iter().for_each(|record| self.desired_state.put_once(record, (), out));
        }
    }

    /// The de-registration, if one is due, while `wanted` is empty because data plans are used up: the home agent must
    /// not send to an uplink that may not be used. It is repeated, since its answer is not awaited.
    pub(super) fn next_departure(&mut self, now: Time, wanted: bool, out: &mut Outbox) -> Option<Transmit> {
        let barred = self.uplinks.iter().any(Uplink::is_barred) && self.usable_care_of().is_empty();
        if wanted || !barred || self.is_gathering(now) {
            self.departure = None;
            return None;
        }
        if self.departure.is_none() {
            self.departure = Some(Departure { registration: self.barred_registration(now)?, sent: 0, next_at: now });
            if let Some(binding) = self.registration.drop_binding() {
                let (home_agent, why) = (binding.registration.home_agent, "the data plan is used up".to_owned());
                out.report(NemoReport::Unbound { home_agent, why });
            }
            self.registration.drop_pending();
            // The tunnel of a previous instance must not use the uplink either.
            self.manages_tunnel = true;
        }
        let departure = self.departure.as_mut().filter(|departure| departure.is_due(now))?;
        departure.next_at = now + DEPARTURE_INTERVAL;
        departure.sent += 1;
        let registration = departure.registration.clone();
        self.deregistration(now, &registration, out)
    }

    /// The registration to end: the one held or requested, or that of a previous instance.
    fn barred_registration(&self, now: Time) -> Option<DesiredRegistration> {
        let held = self.registration.binding().map(|binding| &binding.registration);
        if let Some(held) = self.registration.pending().or(held) {
            return held.first_visited().is_some().then(|| held.clone());
        }
        let barred = self.uplinks.iter().filter(|uplink| self.may_have_binding && uplink.is_barred());
        let care_of: Vec<_> = barred.filter_map(Uplink::formed_care_of).take(1).collect();
        let home_agent = self.home_agents.current(now)?;
        let location = Location::Away { care_of, mcoa: false };
        Some(DesiredRegistration { home_agent, location }).filter(|wanted| wanted.first_visited().is_some())
    }

    /// When the next de-registration is due.
    pub(super) fn departure_deadline(&self) -> Option<Time> {
        self.departure.as_ref().filter(|departure| !departure.is_complete(self.now)).map(|departure| departure.next_at)
    }

    /// Whether de-registrations are being sent from this interface.
    pub(super) fn is_departing(&self, link: LinkId) -> bool {
        let departure = self.departure.as_ref().filter(|departure| !departure.is_complete(self.now));
        let from = departure.and_then(|departure| departure.registration.first_visited());
        from.is_some_and(|care_of| care_of.link == link)
    }
}

impl Departure {
    fn is_due(&self, now: Time) -> bool {
        self.sent < MAX_DEPARTURES && self.next_at <= now
    }

    /// Whether the last one has left.
    fn is_complete(&self, now: Time) -> bool {
        self.sent >= MAX_DEPARTURES && self.next_at <= now
    }
}

impl Uplink {
    /// Reports that the plan is used up, or that it was renewed; returns whether it did.
    fn report_plan(&mut self, now: Time, plan: DataPlan, out: &mut Outbox) -> bool {
        let exhausted = self.usage.is_exhausted(plan);
        let Some(link) = self.link().filter(|_| exhausted != self.usage.exhaustion_reported) else { return false };
        self.usage.exhaustion_reported = exhausted;
        let (bid, used) = (self.config.bid, self.usage.period.sum());
        match plan.cap.filter(|_| exhausted) {
            Some(cap) => out.report(NemoReport::PlanExhausted { link, bid, used, cap }),
            None => out.report(NemoReport::PlanRenewed { link, bid }),
        }
        if self.is_barred() {
            self.prober.stop();
        } else if self.is_up() && plan.beyond == BeyondCap::Never {
            self.prober.restart(now);
        }
        true
    }
}

/// The time in seconds since 1970, if the clock was set.
fn sane_unix(clock: &WallClock, now: Time) -> Option<u64> {
    clock.unix_seconds(now).filter(|unix| *unix >= EARLIEST_UNIX)
}

/// The next multiple of `interval`, so that all uplinks are read at one wake-up.
fn next_multiple(now: Time, interval: Duration) -> Time {
    let (micros, step) = (now.as_micros(), u64::try_from(interval.as_micros()).unwrap_or(u64::MAX));
    Time::from_micros(micros.saturating_sub(micros.checked_rem(step).unwrap_or_default()).saturating_add(step))
}

const DAY_SECONDS: u64 = 86_400;
/// Days from 0000-03-01 to 1970-01-01: years that begin in March have their leap day at the end.
const DAYS_TO_1970: u64 = 719_468;
/// Days and months of 400 years.
const ERA_DAYS: u64 = 146_097;
const ERA_MONTHS: u64 = 4800;

/// The begin of the period that contains a time; both are seconds since 1970, in UTC.
fn period_start(plan: DataPlan, unix: u64) -> u64 {
    let today = unix / DAY_SECONDS;
    let first = u64::from(plan.starts).saturating_sub(1);
    let begin = match plan.period {
        PlanPeriod::Day => today,
        // 1970-01-01 was a Thursday.
        PlanPeriod::Week => today.saturating_sub((today + 3 + 7 - first % 7) % 7),
        PlanPeriod::Month => {
            let day = today + DAYS_TO_1970;
            let mut month = day * ERA_MONTHS / ERA_DAYS + 1;
            while begin_in_month(month, first) > day {
                month -= 1;
            }
            begin_in_month(month, first).saturating_sub(DAYS_TO_1970)
        }
    };
    begin * DAY_SECONDS
}

/// The first day of a period, in days since 0000-03-01, in this month since then: `first` days after the month's first, or
/// the month's last.
fn begin_in_month(month: u64, first: u64) -> u64 {
    month_begin(month).saturating_add(first).min(month_begin(month + 1).saturating_sub(1))
}

/// Days from 0000-03-01 to the begin of a month, which is given in months since then.
fn month_begin(month: u64) -> u64 {
    let (year, month) = (month / 12, month % 12);
    // March to July, August to December, and January and February have 31 and 30 days in turn.
    year * 365 + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(period: PlanPeriod, starts: u8) -> DataPlan {
        DataPlan { period, starts, ..DataPlan::default() }
    }

    /// Noon of a day, as `date -u -d "... 12:00" +%s` has it, and the begin of its period.
    #[test]
    fn periods_begin_in_utc_and_in_short_months_on_the_last_day() {
        let noon = DAY_SECONDS / 2;
        let day = |days: u64| days * DAY_SECONDS;
        // 2026-02-28 is day 20512, 2026-03-01 day 20513, 2024-02-29 day 19782, 2026-11-23 (a Monday) day 20780.
        let cases = [
            (PlanPeriod::Month, 1, 20_512, 20_485),
            (PlanPeriod::Month, 31, 20_511, 20_484),
            (PlanPeriod::Month, 31, 20_512, 20_512),
            (PlanPeriod::Month, 31, 20_513, 20_512),
            (PlanPeriod::Month, 1, 20_513, 20_513),
            (PlanPeriod::Month, 30, 19_782, 19_782),
            (PlanPeriod::Month, 30, 19_781, 19_752),
            (PlanPeriod::Month, 15, 20_780, 20_772),
            (PlanPeriod::Week, 1, 20_780, 20_780),
            (PlanPeriod::Week, 2, 20_780, 20_774),
            (PlanPeriod::Week, 7, 20_780, 20_779),
            (PlanPeriod::Day, 1, 20_780, 20_780),
            (PlanPeriod::Month, 1, 0, 0),
        ];
        for (period, starts, at, begin) in cases {
            assert_eq!(period_start(plan(period, starts), day(at) + noon), day(begin), "{period:?} {starts} {at}");
            assert_eq!(period_start(plan(period, starts), day(begin)), day(begin));
        }
        for at in (0..40_000).chain([213_503_982_334, 1 << 40]) {
            let begin = period_start(plan(PlanPeriod::Month, 1), day(at)) / DAY_SECONDS;
            assert!(begin <= at && at - begin < 31, "{at}");
        }
    }

    #[test]
    fn counters_that_begin_again_count_from_zero_and_those_of_32_bits_go_on() {
        let octets = |tx, rx| Octets { tx, rx };
        let before = Counters { link: LinkId(2), octets: octets(3_000_000_000, 500), restored: false };
        assert_eq!(before.traffic_until(LinkId(2), octets(3_000_000_010, 700)), octets(10, 200));
        assert_eq!(before.traffic_until(LinkId(3), octets(3_000_000_010, 700)), octets(3_000_000_010, 700));
        assert_eq!(before.traffic_until(LinkId(2), octets(100, 700)), octets((1 << 32) - 3_000_000_000 + 100, 200));
        assert_eq!(before.traffic_until(LinkId(2), octets(3_000_000_000, 20)), octets(0, 20));
        let restored = Counters { restored: true, ..before };
        assert_eq!(restored.traffic_until(LinkId(2), octets(100, 700)), octets(100, 700), "the machine was restarted");
        assert_eq!(restored.traffic_until(LinkId(2), octets(3_000_000_010, 700)), octets(10, 200));
    }
}
