//! One connection while the vehicle moves: each handover is measured at the application, and all observers are checked
//! for faults.

use super::{MptcpTestbed, PayloadPath};
use crate::clock;
use crate::load::{Delivery, Protocol, Transfer, TransferLoad};
use crate::statistics::round;
use anyhow::{Context, Result};
use roam6_proto::Report;
use roam6_proto::contract::report::NemoReport;
use serde_json::{Value, json};
use std::thread::sleep;
use std::time::Duration;

/// Which end opens the connection, with which protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The mobile network node, with TCP: classical NEMO.
    Classical,
    /// The mobile network node, with MPTCP.
    Outbound,
    /// The mobile network node, with MPTCP, from its address in the visited network: the direct path is the first subflow.
    CareOf,
    /// The same without prefix delegation: the prefix of the visited link is shared.
    Shared,
    /// The correspondent, with MPTCP; it knows only the address in the mobile network.
    Inbound,
}

impl Mode {
    /// Whether the connection begins at an address in the visited network.
    pub(crate) fn begins_at_care_of(self) -> bool {
        matches!(self, Mode::CareOf | Mode::Shared)
    }
}

/// A connection during which the vehicle moves.
pub(crate) struct ObservedTransfer<'a> {
    testbed: &'a MptcpTestbed,
    mode: Mode,
    transfer: Transfer,
    /// Access networks that the vehicle is attached to and can use.
    attached: Vec<usize>,
    /// Begin of the last handover, microseconds since 1970.
    move_began: u64,
}

/// A measured handover. Times in milliseconds.
#[derive(Debug, Clone)]
pub(crate) struct MoveObservation {
    /// The name of the handover.
    pub(crate) what: String,
    /// Its begin, microseconds since 1970.
    pub(crate) began: u64,
    /// Longest time without a byte at either end.
    pub(crate) gap: f64,
    /// Time until payload took the direct path of the new network.
    pub(crate) direct_after: Option<f64>,
    /// The same from the mobile router's care-of address on.
    pub(crate) direct_after_care_of: Option<f64>,
    /// Time until the prefix of a network that was left was advertised as deprecated.
    pub(crate) deprecated_after: Option<f64>,
    /// Share of the payload on the direct path after the observation time.
    pub(crate) direct_share: f64,
    /// Octets on the home path while a direct one was in use; 0 if the direct path came into use too late to tell.
    pub(crate) backup_octets: u64,
    /// Whether bytes arrive in both directions.
    pub(crate) is_alive: bool,
    /// Failed checks.
    pub(crate) faults: Vec<String>,
}

/// Octets of one write.
const MESSAGE: usize = 1024;
/// Observation time of a handover.
const OBSERVATION_TIME: Duration = Duration::from_millis(2500);
/// A handover that takes longer has failed.
const TIMEOUT: Duration = Duration::from_secs(12);
/// A prefix may be advertised as preferred this long after its network is gone, because the packet was in flight;
/// microseconds.
const IN_FLIGHT_MICROS: u64 = 100_000;
/// Bytes sent on the home path may be acknowledged or retransmitted there this long, microseconds.
const LATE_MICROS: u64 = 1_000_000;

impl<'a> ObservedTransfer<'a> {
    /// Connects while the vehicle is attached to the access networks `there`, at `rate` octets per second in each
    /// direction.
    pub(crate) fn begin(
        testbed: &'a MptcpTestbed,
        mode: Mode,
        port: u16,
        rate: u64,
        there: &[usize],
    ) -> Result<ObservedTransfer<'a>> {
        let protocol = if mode == Mode::Classical { Protocol::Tcp } else { Protocol::Mptcp };
        let load = TransferLoad { message: MESSAGE, ..TransferLoad::steady(protocol, port, rate) };
        let [mut node, correspondent] = testbed.ends();
        if mode.begins_at_care_of() {
            let number = there.first().context("a connection from a care-of address begins in an access network")?;
            node.address = testbed.wait_care_of(node.host, *number)?;
        }
        let ends = match mode {
            Mode::Inbound => [correspondent, node],
            Mode::Classical | Mode::Outbound | Mode::CareOf | Mode::Shared => [node, correspondent],
        };
        let since = clock::unix_micros();
        let transfer = Transfer::start(ends, load)?;
        let observed = ObservedTransfer { testbed, mode, transfer, attached: there.to_vec(), move_began: since };
        if mode != Mode::Classical && !there.is_empty() {
            observed.wait_direct(since).with_context(|| format!("no direct path:\n{}", testbed.diagnostics()))?;
        }
        Ok(observed)
    }

    /// Performs `act`, after which the vehicle can use the access networks `there`, and observes the connection.
    pub(crate) fn run_move(
        &mut self,
        what: &str,
        there: &[usize],
        act: impl FnOnce(&MptcpTestbed) -> Result<()>,
    ) -> Result<MoveObservation> {
        let testbed = self.testbed;
        let left: Vec<usize> = self.attached.iter().filter(|number| !there.contains(number)).copied().collect();
        let began = clock::unix_micros();
        act(testbed)?;
        self.attached = there.to_vec();
        self.move_began = began;
        let deprecated_at = self.wait_deprecated(&left, began);
        let direct_at = self.wait_direct(began);
        sleep(OBSERVATION_TIME.saturating_sub(Duration::from_micros(clock::unix_micros().saturating_sub(began))));
        let settled = clock::unix_micros();
        let is_alive = self.transfer.is_progressing(TIMEOUT);
        sleep(Duration::from_millis(1000));
        let end = clock::unix_micros();
        let silence = self.transfer.longest_silence(began, end);
        let quiet_from = direct_at.unwrap_or(settled).max(began) + LATE_MICROS;
        let needs_direct = self.mode != Mode::Classical && !there.is_empty();
        let in_use = direct_at.is_some_and(|at| at + LATE_MICROS < settled);
        let mut observation = MoveObservation {
            what: what.to_owned(),
            began,
            gap: round(silence as f64 / 1000.0),
            direct_after: direct_at.map(|at| millis(began, at)),
            direct_after_care_of: self.care_of_since(began).zip(direct_at).map(|(formed, at)| millis(formed, at)),
            deprecated_after: deprecated_at.map(|at| millis(began, at)),
            direct_share: testbed.path_monitor.direct_share(settled, end),
            backup_octets: if in_use {
                testbed.path_monitor.octets(PayloadPath::Home, quiet_from, end.max(quiet_from))
            } else {
                0
            },
            is_alive,
            faults: Vec::new(),
        };
        observation.faults = self.faults(&observation, &left, deprecated_at, needs_direct && direct_at.is_none())?;
        Ok(observation)
    }

    /// Ends the connection; the delivery in each direction.
    pub(crate) fn finish(self) -> Result<[Delivery; 2]> {
        self.transfer.finish(TIMEOUT)
    }

    /// The time of the last deprecation of a prefix of the networks that were left.
    fn wait_deprecated(&self, left: &[usize], since: u64) -> Option<u64> {
        let moments = left.iter().map(|number| self.testbed.advertisements.wait_deprecated(*number, since, TIMEOUT));
        moments.collect::<Option<Vec<u64>>>()?.into_iter().max()
    }

    /// Waits until payload takes the direct paths; the time of the last first use.
    fn wait_direct(&self, since: u64) -> Option<u64> {
        if self.mode == Mode::Classical || self.attached.is_empty() {
            return None;
        }
        let first = |number: &usize| self.testbed.path_monitor.first_use(PayloadPath::Direct(*number), since);
        clock::wait_for(TIMEOUT, || self.attached.iter().map(first).collect::<Option<Vec<u64>>>())?.into_iter().max()
    }

    /// When the mobile router has formed a care-of address after `since`; both microseconds since 1970.
    fn care_of_since(&self, since: u64) -> Option<u64> {
        let formed = |report: &Report| matches!(report, Report::Nemo(NemoReport::CareOfFormed { .. }));
        self.testbed.vehicle.daemon.events.first_since(since, formed).map(|event| event.unix_micros)
    }

    fn faults(
        &self,
        observation: &MoveObservation,
        left: &[usize],
        deprecated_at: Option<u64>,
        no_direct: bool,
    ) -> Result<Vec<String>> {
        let testbed = self.testbed;
        let mut faults = Vec::new();
        if !observation.is_alive {
            faults.push("the connection has stalled".to_owned());
        }
        if no_direct {
            faults.push(format!("no payload on the direct path:\n{}", testbed.diagnostics()));
        }
        if observation.backup_octets > 0 {
            faults.push(format!("{} octets on the home path while a direct path is in use", observation.backup_octets));
        }
        if !left.is_empty() && deprecated_at.is_none() {
            faults.push("the prefix of a network that was left has not been deprecated".to_owned());
        }
        for number in left {
            let from = deprecated_at.unwrap_or(observation.began).max(observation.began) + IN_FLIGHT_MICROS;
            for advert in testbed.advertisements.preferred_between(*number, from, u64::MAX) {
                faults.push(format!("{} is advertised as preferred and unreachable", advert.prefix));
            }
        }
        for address in testbed.unreachable_addresses(&testbed.vehicle.mnn)? {
            faults.push(format!("{address} is preferred and unreachable"));
        }
        Ok(faults)
    }
}

impl MoveObservation {
    /// As a row of an experiment.
    pub(crate) fn row(&self) -> Value {
        json!({
            "move": self.what, "gap_ms": self.gap, "to_direct_ms": self.direct_after,
            "care_of_to_direct_ms": self.direct_after_care_of, "withdrawn_ms": self.deprecated_after,
            "direct_share": round(self.direct_share), "backup_octets": self.backup_octets, "lives": self.is_alive,
            "faults": self.faults,
        })
    }
}

fn millis(begin: u64, end: u64) -> f64 {
    round((end as f64 - begin as f64) / 1000.0)
}
