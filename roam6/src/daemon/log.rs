//! Log lines on stderr: with their level for the systemd journal, else with a timestamp. Lines are rate-limited by kind.
//! The first packet dropped for a reason that needs the operator's attention is logged as a warning.

use super::link_names::LinkNames;
use crate::render::event::timestamp;
use core::fmt::Display;
use core::time::Duration;
use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};
use roam6_proto::base::vec_map::VecMap;
use roam6_proto::contract::report::{DropReason, GeoReport, HostReport, LinkReport, MptcpReport, NemoReport};
use roam6_proto::{Report, Time};
use roam6_wire::HomeAddress;
use std::io::Write;

/// Most lines of one kind per [`PERIOD`].
const MAX_LINES_PER_PERIOD: u32 = 20;
const PERIOD: Duration = Duration::from_secs(1);
/// After a warning about a dropped packet, further drops for the same reason are only counted for this long.
const DROP_PERIOD: Duration = Duration::from_secs(600);

/// Severity of a line (syslog numbers, RFC 5424 §6.2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Error = 3,
    Warning = 4,
    Info = 6,
    Debug = 7,
}

/// The log.
pub(crate) struct Log {
    journal: bool,
    threshold: Level,
    began: Time,
    counts: VecMap<&'static str, u32>,
    /// For each drop reason: time of the last warning, and the number of drops since.
    drops: VecMap<DropReason, (Time, u64)>,
}

impl Log {
    /// Logs to stderr, in the format of the systemd journal if it is connected there. Lines below the level `least` are
    /// discarded.
    pub(crate) fn to_stderr(least: Level) -> Log {
        let journal = std::env::var_os("JOURNAL_STREAM").is_some();
        Log { journal, threshold: least, began: Time::ZERO, counts: VecMap::new(), drops: VecMap::new() }
    }

    /// Writes one line.
    pub(crate) fn write(&self, level: Level, unix_micros: u64, text: &dyn Display) {
        if level > self.threshold {
            return;
        }
        let mut stderr = std::io::stderr().lock();
        // A closed stderr has no reader.
        let _ = if self.journal {
            writeln!(stderr, "<{}>{text}", level as u8)
        } else {
            writeln!(stderr, "{} {text}", line_prefix(unix_micros, boot_clock()))
        };
    }

    /// Logs a report, unless its kind has exceeded [`MAX_LINES_PER_PERIOD`].
    /// `mobile_router` is the home address in it that has a name, and that name.
    pub(crate) fn report(
        &mut self,
        now: Time,
        unix_micros: u64,
        report: &Report,
        names: &LinkNames,
        mobile_router: Option<(HomeAddress, &str)>,
    ) {
        let (level, more) = match report {
            Report::Host(HostReport::Dropped { reason, .. }) => self.level_of_drop(now, *reason),
            report => (level(report), 0),
        };
        if level > self.threshold {
            return;
        }
        self.report_suppressed(now, unix_micros);
        let count = self.counts.entry(report.name()).or_default();
        *count = count.saturating_add(1);
        if *count > MAX_LINES_PER_PERIOD {
            return;
        }
        let text = with_name(names.name_links(&report.to_string()), mobile_router);
        match more {
            0 => self.write(level, unix_micros, &text),
            more => self.write(level, unix_micros, &format_args!("{text} ({more} more since the last warning)")),
        }
    }

    /// The level for a dropped packet, and the number of drops for this reason since its last warning.
    fn level_of_drop(&mut self, now: Time, reason: DropReason) -> (Level, u64) {
        if !needs_operator(reason) {
            return (Level::Debug, 0);
        }
        match self.drops.get_mut(&reason) {
            Some((last, count)) if now.since(*last) < DROP_PERIOD => {
                *count = count.saturating_add(1);
                (Level::Debug, 0)
            }
            known => {
                let more = known.map_or(0, |(_, count)| *count);
                self.drops.insert(reason, (now, 0));
                (Level::Warning, more)
            }
        }
    }

    /// At the end of a period, logs how many lines were suppressed.
    pub(crate) fn report_suppressed(&mut self, now: Time, unix_micros: u64) {
        if now.since(self.began) < PERIOD {
            return;
        }
        self.began = now;
        for (name, count) in std::mem::take(&mut self.counts) {
            if let Some(more @ 1..) = count.checked_sub(MAX_LINES_PER_PERIOD) {
                self.write(Level::Warning, unix_micros, &format_args!("{more} more `{name}` lines suppressed"));
            }
        }
    }
}

/// The text with the name of the mobile router before its home address.
fn with_name(text: String, mobile_router: Option<(HomeAddress, &str)>) -> String {
    let Some((home, name)) = mobile_router else { return text };
    let home = home.to_string();
    // All texts begin with it.
    text.strip_prefix(&home).map(|rest| format!("{name} ({home}){rest}")).unwrap_or(text)
}

/// 2020-01-01 in microseconds since 1970: a wall clock before it has not been set since boot.
const CLOCK_UNSET_BEFORE: u64 = 1_577_836_800_000_000;

/// Prefix of a line: the timestamp, or the time since boot if the wall clock is not set.
fn line_prefix(unix_micros: u64, boot_micros: u64) -> String {
    if unix_micros >= CLOCK_UNSET_BEFORE {
        return timestamp(unix_micros);
    }
    format!("[clock not set; {}.{:06} s after boot]", boot_micros / 1_000_000, boot_micros % 1_000_000)
}

/// The wall clock, in microseconds since 1970.
pub(super) fn wall_clock() -> u64 {
    micros(ClockId::CLOCK_REALTIME)
}

fn boot_clock() -> u64 {
    micros(ClockId::CLOCK_BOOTTIME)
}

fn micros(clock: ClockId) -> u64 {
    clock_gettime(clock).map_or(0, |time| u64::try_from(time.num_microseconds()).unwrap_or(0))
}

fn level(report: &Report) -> Level {
    match report {
        Report::Host(HostReport::ItemRefused { .. })
        | Report::Link(LinkReport::DuplicateAddress { .. })
        | Report::Host(HostReport::TableFull { .. }) => Level::Error,
        Report::Host(HostReport::Notice { .. })
        | Report::Nemo(NemoReport::UpdateRejected { .. })
        | Report::Nemo(NemoReport::KeyExchangeFailed { .. })
        | Report::Nemo(NemoReport::Unbound { .. })
        | Report::Nemo(NemoReport::PathDown { .. })
        | Report::Nemo(NemoReport::PathDegraded { .. })
        | Report::Nemo(NemoReport::PlanExhausted { .. })
        | Report::Nemo(NemoReport::CaptivePortal { .. })
        | Report::Nemo(NemoReport::Fault { .. })
        | Report::Nemo(NemoReport::BindingError { .. }) => Level::Warning,
        Report::Host(HostReport::Dropped { .. })
        | Report::Link(LinkReport::RouterSolicitationSent { .. })
        | Report::Nemo(NemoReport::UpdateSent { .. })
        | Report::Nemo(NemoReport::AcknowledgementReceived { .. }) => Level::Debug,
        Report::Geo(GeoReport::EchoReply { .. })
        | Report::Mptcp(MptcpReport::SubflowUp { .. })
        | Report::Mptcp(MptcpReport::SubflowPriorityChanged { .. })
        | Report::Mptcp(MptcpReport::SubflowDown { .. })
        | Report::Mptcp(MptcpReport::ConnectionClosed { .. }) => Level::Debug,
        _ => Level::Info,
    }
}

/// Whether drops for this reason indicate a configuration error or an attack. The others are part of normal operation:
/// duplicates, late replies, packets for other roles.
fn needs_operator(reason: DropReason) -> bool {
    use DropReason as D;
    match reason {
        D::Malformed | D::NoAssociation | D::NotAuthenticated | D::Replayed => true,
        D::BadAuthenticator | D::FormerKey => true,
        D::RateLimited | D::Secured | D::AreaTooLarge | D::BufferFull | D::TooLong => true,
        D::BadValidator | D::Unverified | D::PeerError | D::Implausible | D::NotPermitted => true,
        #[cfg(feature = "geo-security")]
        D::UnknownCertificate | D::InvalidCertificate | D::NoCertificate | D::OverBudget => true,
        #[cfg(feature = "fleet")]
        D::FleetNotReady => false,
        D::NotForUs | D::NotOnLink | D::StaleSequence | D::Unsolicited | D::Duplicate => false,
        D::Expired | D::NoNeighbour | D::NoPosition => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_drop_of_a_reason_is_a_warning_then_they_are_counted() {
        let mut log = Log::to_stderr(Level::Error);
        let at = |seconds: u64| Time::from_micros(seconds * 1_000_000);
        assert_eq!(log.level_of_drop(at(1), DropReason::BadAuthenticator), (Level::Warning, 0));
        for second in 2..100 {
            assert_eq!(log.level_of_drop(at(second), DropReason::BadAuthenticator), (Level::Debug, 0));
        }
        assert_eq!(log.level_of_drop(at(2), DropReason::Secured), (Level::Warning, 0), "another reason");
        assert_eq!(log.level_of_drop(at(601), DropReason::BadAuthenticator), (Level::Warning, 98));
        assert_eq!(log.level_of_drop(at(602), DropReason::Duplicate), (Level::Debug, 0));
    }

    #[test]
    fn a_mobile_router_with_a_name_is_named() {
        let home = HomeAddress("2001:db8:1::1".parse().unwrap());
        let named = |text: &str| with_name(text.to_owned(), Some((home, "van")));
        assert_eq!(named("2001:db8:1::1 deregistered: gone"), "van (2001:db8:1::1) deregistered: gone");
        assert_eq!(named("path 1 to 2001:db8:1::1: silent"), "path 1 to 2001:db8:1::1: silent");
    }

    #[test]
    fn no_timestamp_is_logged_before_the_clock_is_set() {
        assert_eq!(line_prefix(1_795_399_697_000_001, 7), "2026-11-23T02:08:17.000001Z");
        assert_eq!(line_prefix(12_000_000, 12_345_678), "[clock not set; 12.345678 s after boot]");
    }
}
