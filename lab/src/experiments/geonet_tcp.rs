//! One TCP connection between two fixed stations, relayed by a column of vehicles that passes them: the next hop of
//! each changes every few seconds. Then one through a standing forwarder with the default settings, which forwards as much of
//! a source as itsGnMaxPacketDataRate lets it.

use crate::experiments::prelude::*;
use crate::topology::road::{Road, RoadPair, RoadStation, road_position};
use roam6_sim::{RadioSpec, Track};

/// Distance of the ends, of consecutive vehicles, and radio range; metres.
const FAR_DISTANCE: f64 = 700.0;
const SPACING: f64 = 200.0;
const RANGE: f64 = 300.0;
/// Metres per second.
const SPEED: f64 = 20.0;
const SETTINGS: &str = "beacon = \"300ms\"\nneighbour_lifetime = \"1s\"\nrange = 300\npacket_data_rate = 4000000000\n";
const TIMEOUT: Duration = Duration::from_secs(20);
/// Silences are evaluated in bins of this length.
const BIN: Duration = Duration::from_secs(1);

pub(super) fn run(run: &mut Run) -> Result<()> {
    let seconds = if run.quick { 20 } else { 60 };
    run.set_steps(seconds + 2);
    run.step("building the road");
    let network = TcpNetwork::build(seconds)?;
    let load = TransferLoad { message: 1200, ..TransferLoad::steady(Protocol::Tcp, 9700, 100_000) };
    let transfer = Transfer::start(network.ends.ends(), load)?;
    network.drive(seconds)?;
    let begin = clock::unix_micros();
    let mut silences = Vec::new();
    for _ in 0..seconds {
        run.step("driving");
        let from = clock::unix_micros();
        sleep(BIN);
        let until = clock::unix_micros();
        silences.push(transfer.longest_silence(from, until) as f64 / 1000.0);
    }
    let [out, inbound] = transfer.received_octets();
    let duration = (clock::unix_micros() - begin) as f64 / 1e6;
    let tcp_survived = transfer.finish(TIMEOUT)?.iter().all(Delivery::is_complete);
    let worst = silences.iter().copied().fold(0.0, f64::max);
    run.rows.push(json!({ "silence_ms_each_second": silences, "spread": distribution(&silences) }));
    run.require_tcp(tcp_survived);
    run.summarise("silence_ms_max", round(worst));
    run.summarise("next_hops_passed", (seconds as f64 * SPEED / SPACING).floor());
    run.summarise("mbit_s", round((out + inbound) as f64 * 8.0 / duration / 1e6));
    drop(network);
    through_a_forwarder(run)
}

/// itsGnMaxPacketDataRate, octets a second.
const PACKET_DATA_RATE: f64 = 100_000.0;
/// What the token bucket holds at first passes at once, and is not measured.
const WARM_UP: Duration = Duration::from_secs(4);

/// A saturating connection through one forwarder: its longest silence, and its share of the rate. The rate counts the octets
/// of GeoNetworking packets, of which 1318 of 1458 are the connection's.
fn through_a_forwarder(run: &mut Run) -> Result<()> {
    let span = if run.quick { Duration::from_secs(15) } else { Duration::from_secs(60) };
    run.step("through a forwarder");
    let road = Road::new(RadioSpec { range: RANGE, lossless_range: RANGE, ..RadioSpec::its_g5(RANGE) }, "")?;
    let _forwarder = road.add_station("relay", "roadside-unit", Track::standing(road_position(250.0)))?;
    let ends = RoadPair::add(&road, "passenger-car", [0.0, 500.0])?;
    ends.wait_until_connected(1200)?;
    let load = TransferLoad { rate: None, answered: false, ..TransferLoad::steady(Protocol::Tcp, 9701, 0) };
    let transfer = Transfer::start(ends.ends(), load)?;
    sleep(WARM_UP);
    let (from, [before, _]) = (clock::unix_micros(), transfer.received_octets());
    sleep(span);
    let (until, [after, _]) = (clock::unix_micros(), transfer.received_octets());
    let [arrivals, _] = &transfer.arrivals;
    let silence = arrivals.longest_silence(from, until) as f64 / 1000.0;
    let share = (after - before) as f64 / ((until - from) as f64 / 1e6) / PACKET_DATA_RATE;
    run.rows.push(json!({ "forwarder": "default settings", "silence_ms": round(silence), "share": round(share) }));
    run.summarise("forwarder_silence_ms_max", round(silence));
    run.summarise("forwarder_share", round(share));
    Ok(())
}

struct TcpNetwork {
    road: Road,
    ends: RoadPair,
    relays: Vec<(RoadStation, f64)>,
}

impl TcpNetwork {
    /// The column is long enough to be between the ends for `seconds`.
    fn build(seconds: usize) -> Result<TcpNetwork> {
        let road = Road::new(RadioSpec { range: RANGE, lossless_range: RANGE, ..RadioSpec::its_g5(RANGE) }, SETTINGS)?;
        let ends = RoadPair::add(&road, "roadside-unit", [0.0, FAR_DISTANCE])?;
        let count = ((seconds as f64 * SPEED + FAR_DISTANCE) / SPACING).ceil() as u32;
        let mut column = Vec::new();
        for number in 0..count {
            let metres = FAR_DISTANCE - 100.0 - SPACING * f64::from(number);
            let car =
                road.add_station(&format!("car{number}"), "passenger-car", Track::standing(road_position(metres)))?;
            column.push((car, metres));
        }
        ends.wait_until_connected(1500)?;
        Ok(TcpNetwork { road, ends, relays: column })
    }

    fn drive(&self, seconds: usize) -> Result<()> {
        let now = self.road.emulator.now();
        for (car, from) in &self.relays {
            let track =
                Track::from(now, road_position(*from)).drive_to(road_position(from + SPEED * seconds as f64), SPEED);
            self.road.emulator.set_track(car.radio, track)?;
        }
        Ok(())
    }
}
