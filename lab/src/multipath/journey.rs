//! One connection while the vehicle moves: each handover is measured at the application, and all observers are checked
//! for faults.

use super::{Path, Testbed};
use crate::clock;
use crate::figures::round;
use crate::traffic::{Delivery, Load, Protocol, Transfer};
use anyhow::{Context, Result};
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
    /// The correspondent, with MPTCP; it knows only the address in the mobile network.
    Inbound,
}

/// A connection during which the vehicle moves.
pub(crate) struct Journey<'a> {
    testbed: &'a Testbed,
    mode: Mode,
    transfer: Transfer,
    /// Access networks that the vehicle is attached to and can use.
    there: Vec<usize>,
    /// Begin of the last handover, microseconds since 1970.
    since: u64,
}

/// A measured handover. Times in milliseconds.
#[derive(Debug, Clone)]
pub(crate) struct Leg {
    /// The name of the handover.
    pub(crate) what: String,
    /// Its begin, microseconds since 1970.
    pub(crate) began: u64,
    /// Longest time without a byte at either end.
    pub(crate) gap: f64,
    /// Time until payload took the direct path of the new network.
    pub(crate) to_direct: Option<f64>,
    /// Time until the prefix of a network that was left was advertised as deprecated.
    pub(crate) withdrawn: Option<f64>,
    /// Share of the payload on the direct path after the observation time.
    pub(crate) direct_share: f64,
    /// Octets on the home path while a direct one was in use; 0 if the direct path came into use too late to tell.
    pub(crate) backup_octets: u64,
    /// Whether bytes arrive in both directions.
    pub(crate) lives: bool,
    /// Failed checks.
    pub(crate) faults: Vec<String>,
}

/// Octets of one write.
const MESSAGE: usize = 1024;
/// Observation time of a handover.
const SETTLE: Duration = Duration::from_millis(2500);
/// A handover that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(12);
/// A prefix may be advertised as preferred this long after its network is gone, because the packet was in flight;
/// microseconds.
const UNDER_WAY: u64 = 100_000;
/// Bytes sent on the home path may be acknowledged or retransmitted there this long, microseconds.
const AFTERWARDS: u64 = 1_000_000;

impl<'a> Journey<'a> {
    /// Connects while the vehicle is attached to the access networks `there`, at `rate` octets per second in each
    /// direction.
    pub(crate) fn begin(
        testbed: &'a Testbed,
        mode: Mode,
        port: u16,
        rate: u64,
        there: &[usize],
    ) -> Result<Journey<'a>> {
        let protocol = if mode == Mode::Classical { Protocol::Tcp } else { Protocol::Mptcp };
        let load = Load { message: MESSAGE, ..Load::steady(protocol, port, rate) };
        let ends = match mode {
            Mode::Inbound => [testbed.correspondent(), testbed.inside()],
            Mode::Classical | Mode::Outbound => [testbed.inside(), testbed.correspondent()],
        };
        let since = clock::unix_micros();
        let transfer = Transfer::carry(ends, load)?;
        let journey = Journey { testbed, mode, transfer, there: there.to_vec(), since };
        if mode != Mode::Classical && !there.is_empty() {
            journey.wait_direct(since).with_context(|| format!("no direct path:\n{}", testbed.story()))?;
        }
        Ok(journey)
    }

    /// Octets received so far: at the second endpoint, at the first.
    pub(crate) fn progress(&self) -> [u64; 2] {
        self.transfer.progress()
    }

    /// Performs `act`, after which the vehicle can use the access networks `there`, and observes the connection.
    pub(crate) fn go(&mut self, what: &str, there: &[usize], act: impl FnOnce(&Testbed) -> Result<()>) -> Result<Leg> {
        let testbed = self.testbed;
        let left: Vec<usize> = self.there.iter().filter(|number| !there.contains(number)).copied().collect();
        let began = clock::unix_micros();
        act(testbed)?;
        self.there = there.to_vec();
        self.since = began;
        let withdrawn = self.withdrawn(&left, began);
        let straight = self.wait_direct(began);
        sleep(SETTLE.saturating_sub(Duration::from_micros(clock::unix_micros().saturating_sub(began))));
        let settled = clock::unix_micros();
        let lives = self.flows();
        sleep(Duration::from_millis(1000));
        let end = clock::unix_micros();
        let silence = self.transfer.arrivals().iter().map(|arrivals| arrivals.longest_silence(began, end)).max();
        let quiet_from = straight.unwrap_or(settled).max(began) + AFTERWARDS;
        let carried_straight = self.mode != Mode::Classical && !there.is_empty();
        let in_use = straight.is_some_and(|at| at + AFTERWARDS < settled);
        let mut leg = Leg {
            what: what.to_owned(),
            began,
            gap: round(silence.unwrap_or_default() as f64 / 1000.0),
            to_direct: straight.map(|at| millis(began, at)),
            withdrawn: withdrawn.map(|at| millis(began, at)),
            direct_share: testbed.paths.direct_share(settled, end),
            backup_octets: if in_use { testbed.paths.octets(Path::Home, quiet_from, end.max(quiet_from)) } else { 0 },
            lives,
            faults: Vec::new(),
        };
        leg.faults = self.faults(&leg, &left, withdrawn, carried_straight && straight.is_none())?;
        Ok(leg)
    }

    /// Ends the connection; the delivery in each direction.
    pub(crate) fn finish(self) -> Result<[Delivery; 2]> {
        self.transfer.finish(PATIENCE)
    }

    /// The time of the last deprecation of a prefix of the networks that were left.
    fn withdrawn(&self, left: &[usize], since: u64) -> Option<u64> {
        let moments = left.iter().map(|number| self.testbed.adverts.wait_withdrawn(*number, since, PATIENCE));
        moments.collect::<Option<Vec<u64>>>()?.into_iter().max()
    }

    /// Waits until payload takes the direct paths; the time of the last first use.
    fn wait_direct(&self, since: u64) -> Option<u64> {
        if self.mode == Mode::Classical || self.there.is_empty() {
            return None;
        }
        let first = |number: &usize| self.testbed.paths.first(Path::Direct(*number), since);
        clock::wait_for(PATIENCE, || self.there.iter().map(first).collect::<Option<Vec<u64>>>())?.into_iter().max()
    }

    /// Whether bytes arrive at both ends.
    fn flows(&self) -> bool {
        let then = self.progress();
        let goes_on = || self.progress().iter().zip(then).all(|(now, then)| *now > then).then_some(());
        clock::wait_for(PATIENCE, goes_on).is_some()
    }

    fn faults(&self, leg: &Leg, left: &[usize], withdrawn: Option<u64>, no_direct: bool) -> Result<Vec<String>> {
        let testbed = self.testbed;
        let mut faults = Vec::new();
        if !leg.lives {
            faults.push("the connection stands still".to_owned());
        }
        if no_direct {
            faults.push(format!("no bytes take the direct path:\n{}", testbed.story()));
        }
        if leg.backup_octets > 0 {
            faults.push(format!("{} octets by the home path beside a direct one", leg.backup_octets));
        }
        if !left.is_empty() && withdrawn.is_none() {
            faults.push("the prefix of a network that was left is not deprecated".to_owned());
        }
        for number in left {
            let from = withdrawn.unwrap_or(leg.began).max(leg.began) + UNDER_WAY;
            for advert in testbed.adverts.preferred(*number, from, u64::MAX) {
                faults.push(format!("{} is advertised as preferred and leads nowhere", advert.prefix));
            }
        }
        for address in testbed.dead_addresses(&testbed.vehicle.mnn)? {
            faults.push(format!("{address} is preferred and leads nowhere"));
        }
        Ok(faults)
    }
}

impl Leg {
    /// As a row of an experiment.
    pub(crate) fn row(&self) -> Value {
        json!({
            "move": self.what, "gap_ms": self.gap, "to_direct_ms": self.to_direct, "withdrawn_ms": self.withdrawn,
            "direct_share": round(self.direct_share), "backup_octets": self.backup_octets, "lives": self.lives,
            "faults": self.faults,
        })
    }
}

fn millis(begin: u64, end: u64) -> f64 {
    round((end as f64 - begin as f64) / 1000.0)
}
