//! One handover of a vehicle under traffic: gap, phases, lost packets, and whether TCP survived.

use crate::bed::{Port, Segment};
use crate::clock;
use crate::load::{Delivery, Endpoint, Protocol, Stamp, Train, Transfer, TransferLoad};
use crate::run::Run;
use crate::statistics::{distribution, round};
use crate::topology::nemo::{HOME_AGENT, NemoNetwork, Vehicle};
use anyhow::{Result, bail};
use roam6_proto::Report;
use roam6_proto::contract::report::{LinkReport, NemoReport};
use serde_json::{Value, json};
use std::thread::sleep;
use std::time::Duration;

/// How long a re-plugged cable is out: the value of the UMIP measurement.
pub(crate) const UNPLUGGED_TIME: Duration = Duration::from_millis(9);
/// Observation before and after each handover; longer than the second by which the kernel may delay a link event.
pub(crate) const OBSERVATION_TIME: Duration = Duration::from_millis(1300);
/// A handover that takes longer has failed.
const TIMEOUT: Duration = Duration::from_secs(10);
/// A packet sent this long before a handover may be lost by it, microseconds.
const IN_FLIGHT_MICROS: u64 = 300_000;
/// Packets per second of the two trains.
const COARSE_RATE: u32 = 100;
const FINE_RATE: u32 = 1000;
/// Octets per second of the transfer in each direction.
const TRANSFER_RATE: u64 = 400_000;

/// All traffic between the mobile network node and the correspondent during handovers.
pub(crate) struct HandoverTraffic {
    /// 100 packets/s in each direction, for which gaps and losses are reported.
    pub(crate) coarse: Train,
    /// 1000 packets/s in each direction, for a finer resolution.
    pub(crate) fine: Train,
    transfer: Transfer,
}

/// A measured handover. Times in milliseconds.
#[derive(Debug, Clone)]
pub(crate) struct HandoverMeasurement {
    /// The name of the handover.
    pub(crate) what: String,
    /// Link-up to RA, RA to BU, BU to BA, BA to first packet; `None` for a phase that did not occur.
    pub(crate) phases: [Option<f64>; 4],
    /// Link-up to the first packet delivered in both directions; `None` if the handover raised no link.
    pub(crate) from_link_up: Option<f64>,
    /// Longest silence in either direction, by the 100/s train, less its interval.
    pub(crate) gap: f64,
    /// The same by the 1000/s train.
    pub(crate) gap_fine: f64,
    /// Lost of the 100/s train, both directions together.
    pub(crate) lost: usize,
    /// Lost of the 1000/s train, both directions together.
    pub(crate) lost_fine: usize,
    /// Whether packets were delivered in both directions again.
    pub(crate) recovered: bool,
    /// Whether the transfer continued in both directions.
    pub(crate) tcp_survived: bool,
}

impl HandoverTraffic {
    /// Starts all traffic between the node in `vehicle` and the correspondent.
    pub(crate) fn start(network: &NemoNetwork, vehicle: &Vehicle) -> Result<HandoverTraffic> {
        let ends = || -> [Endpoint<'_>; 2] { [vehicle.node(), network.correspondent()] };
        Ok(HandoverTraffic {
            coarse: Train::start(ends(), 9100, COARSE_RATE)?,
            fine: Train::start(ends(), 9200, FINE_RATE)?,
            transfer: Transfer::start(ends(), TransferLoad::steady(Protocol::Tcp, 9300, TRANSFER_RATE))?,
        })
    }

    /// Octets that the transfer has delivered: at the correspondent, at the mobile network node.
    pub(crate) fn transferred_octets(&self) -> [u64; 2] {
        self.transfer.received_octets()
    }

    /// Ends all traffic; the delivery of the transfer in each direction.
    pub(crate) fn finish(mut self) -> Result<[Delivery; 2]> {
        self.coarse.stop();
        self.fine.stop();
        self.transfer.finish(TIMEOUT)
    }

    /// Performs `act`, waits until packets are delivered in both directions again, and measures. `act` returns the time
    /// of link-up (microseconds since 1970) if the handover raises a link.
    pub(crate) fn measure(
        &self,
        vehicle: &Vehicle,
        what: impl Into<String>,
        act: impl FnOnce() -> Result<Option<u64>>,
    ) -> Result<HandoverMeasurement> {
        let before = clock::unix_micros();
        let link_up = act()?;
        sleep(OBSERVATION_TIME);
        let flows = [&self.fine.forward, &self.fine.reverse];
        let alive = || flows.iter().all(|flow| flow.is_receiving()).then_some(());
        let recovered = clock::wait_for(TIMEOUT, alive).is_some();
        let tcp_survived = self.transfer.is_progressing(TIMEOUT);
        sleep(Duration::from_millis(200));
        // Packets of the last moments may still be in flight.
        let end = clock::unix_micros() - 150_000;
        Ok(HandoverMeasurement {
            what: what.into(),
            phases: link_up.map_or([None; 4], |up| handover_phases(vehicle, &self.fine, up)),
            from_link_up: link_up.and_then(|up| first_packet(&self.fine, up).map(|first| millis(up, first))),
            gap: gap(&self.coarse, before, end),
            gap_fine: gap(&self.fine, before, end),
            lost: self.coarse.lost(before - IN_FLIGHT_MICROS, end),
            lost_fine: self.fine.lost(before - IN_FLIGHT_MICROS, end),
            recovered,
            tcp_survived,
        })
    }
}

impl HandoverMeasurement {
    /// As a row of an experiment.
    pub(crate) fn row(&self) -> Value {
        let [ra, bu, ba, packet] = self.phases;
        json!({
            "move": self.what,
            "link_up_to_ra_ms": ra, "ra_to_bu_ms": bu, "bu_to_ba_ms": ba, "ba_to_packet_ms": packet,
            "link_up_to_packet_ms": self.from_link_up.map(round),
            "gap_ms": round(self.gap), "gap_fine_ms": round(self.gap_fine),
            "lost": self.lost, "lost_fine": self.lost_fine, "healed": self.recovered,
            "tcp_lives": self.tcp_survived,
        })
    }
}

/// All handovers of one kind.
pub(crate) struct HandoverSeries {
    /// Round-trip time between the mobile router and the home agent, milliseconds.
    pub(crate) round_trip: f64,
    /// In order of time.
    pub(crate) measurements: Vec<HandoverMeasurement>,
}

impl HandoverSeries {
    /// A figure of each handover.
    pub(crate) fn each(&self, pick: fn(&HandoverMeasurement) -> f64) -> impl Iterator<Item = f64> {
        self.measurements.iter().map(pick)
    }

    /// Adds a row of an experiment, with the fields of the object `own`; each handover must have recovered.
    pub(crate) fn report(&self, run: &mut Run, mut own: Value) {
        for one in self.measurements.iter().filter(|one| !(one.recovered && one.tcp_survived)) {
            run.faults.push(format!("packets or TCP did not continue after a handover: {}", one.row()));
        }
        let common = [
            ("moves", json!(self.measurements.len())),
            ("gap_fine_ms", distribution(self.each(|one| one.gap_fine))),
            ("lost", distribution(self.each(|one| one.lost as f64))),
            ("lost_fine", distribution(self.each(|one| one.lost_fine as f64))),
            ("each", self.measurements.iter().map(HandoverMeasurement::row).collect()),
        ];
        if let Value::Object(row) = &mut own {
            row.extend(common.map(|(key, value)| (key.to_owned(), value)));
        }
        run.rows.push(own);
    }
}

/// Unplugs `port` and plugs it into another network; the time of link-up there.
pub(crate) fn replug(network: &NemoNetwork, port: Port, to: Segment) -> Result<Option<u64>> {
    network.emulator.unplug(port)?;
    sleep(UNPLUGGED_TIME);
    network.emulator.plug(port, to).map(Some)
}

/// Minimum round-trip time between a mobile router and the home agent, milliseconds.
pub(crate) fn round_trip(vehicle: &Vehicle) -> Result<f64> {
    let text = vehicle.mr.output("ping", &["-6", "-n", "-q", "-c", "10", "-i", "0.05", &HOME_AGENT.to_string()])?;
    let figures = text.rsplit_once("= ").and_then(|(_, figures)| figures.split('/').next());
    match figures.and_then(|least| least.trim().parse().ok()) {
        Some(least) => Ok(least),
        None => bail!("no round trip in the output of ping: {text}"),
    }
}

/// The phases of a handover that began with link-up at `link_up`.
fn handover_phases(vehicle: &Vehicle, train: &Train, link_up: u64) -> [Option<f64>; 4] {
    let events = &vehicle.daemon.events;
    let moment = |from: Option<u64>, wanted: fn(&Report) -> bool| Some(events.first_since(from?, wanted)?.unix_micros);
    let ra = moment(Some(link_up), |report| matches!(report, Report::Link(LinkReport::RouterFound { .. })));
    let bu = moment(ra, |report| matches!(report, Report::Nemo(NemoReport::UpdateSent { .. })));
    let ba = moment(bu, |report| matches!(report, Report::Nemo(NemoReport::AcknowledgementReceived { .. })));
    // With another uplink up, packets were delivered throughout.
    let packet = first_packet(train, link_up).filter(|packet| ba.is_none_or(|ba| *packet + 1000 > ba));
    let part = |begin: Option<u64>, end: Option<u64>| Some(round(millis(begin?, end?)));
    [part(Some(link_up), ra), part(ra, bu), part(bu, ba), part(ba, packet)]
}

/// The first time after `moment` at which packets were delivered in both directions, as seen from the vehicle: outbound
/// by the time of sending, inbound by the time of reception.
fn first_packet(train: &Train, moment: u64) -> Option<u64> {
    Some(train.forward.first_after(Stamp::Sent, moment)?.max(train.reverse.first_after(Stamp::Received, moment)?))
}

/// The longest silence as seen from the vehicle, less the interval of the train, milliseconds.
fn gap(train: &Train, begin: u64, end: u64) -> f64 {
    (train.longest_silence(begin, end) as f64 / 1000.0 - train.interval.as_secs_f64() * 1000.0).max(0.0)
}

fn millis(begin: u64, end: u64) -> f64 {
    (end as f64 - begin as f64) / 1000.0
}
