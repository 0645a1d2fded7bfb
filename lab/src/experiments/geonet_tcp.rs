//! One TCP connection between two fixed stations, relayed by a column of vehicles that passes them: the next hop of
//! each changes every few seconds.

use super::Experiment;
use crate::bed::Host;
use crate::clock;
use crate::findings::{Findings, distribution, round};
use crate::load::{Endpoint, Protocol, Transfer, TransferLoad};
use crate::topology::road::{Road, RoadStation, VIRTUAL_LINK, host_address, road_position};
use crate::ui::Progress;
use anyhow::{Context, Result};
use roam6_sim::{RadioSpec, Track};
use serde_json::json;
use std::net::Ipv6Addr;
use std::thread::sleep;
use std::time::Duration;

/// See the module documentation.
pub(crate) const EXPERIMENT: Experiment =
    Experiment { name: "geonet/tcp", about: "TCP through a column of vehicles that passes both ends", run };

const NETWORKS: [Ipv6Addr; 2] =
    [Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 0), Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 0)];
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

fn run(quick: bool) -> Result<Findings> {
    let seconds = if quick { 20 } else { 60 };
    let mut findings = Findings::default();
    let mut progress = Progress::new(seconds);
    progress.message("building the road");
    let network = TcpNetwork::build(seconds)?;
    let [one, two] = NETWORKS;
    let [near, far] = &network.nodes;
    let ends =
        [Endpoint { host: near, address: host_address(one, 2) }, Endpoint { host: far, address: host_address(two, 2) }];
    let transfer = Transfer::start_with(
        ends,
        TransferLoad { message: 1200, ..TransferLoad::steady(Protocol::Tcp, 9700, 100_000) },
    )?;
    network.drive(seconds)?;
    let begin = clock::unix_micros();
    let mut silences = Vec::new();
    for _ in 0..seconds {
        progress.message("driving");
        let from = clock::unix_micros();
        sleep(BIN);
        let until = clock::unix_micros();
        silences.push(transfer.longest_silence(from, until) as f64 / 1000.0);
        progress.step();
    }
    let [out, inward] = transfer.received_octets();
    let spent = (clock::unix_micros() - begin) as f64 / 1e6;
    let whole = transfer.finish(TIMEOUT)?.iter().all(crate::load::Delivery::is_complete);
    let worst = silences.iter().copied().fold(0.0, f64::max);
    findings.rows.push(json!({ "silence_ms_each_second": silences, "spread": distribution(&silences) }));
    findings.summarise("tcp_survived", u8::from(whole));
    findings.summarise("silence_ms_max", round(worst));
    findings.summarise("next_hops_passed", (seconds as f64 * SPEED / SPACING).floor());
    findings.summarise("mbit_s", round((out + inward) as f64 * 8.0 / spent / 1e6));
    findings.require(whole, || "the transfer did not survive".to_owned());
    Ok(findings)
}

struct TcpNetwork {
    road: Road,
    ends: [RoadStation; 2],
    nodes: [Host; 2],
    relays: Vec<(RoadStation, f64)>,
}

impl TcpNetwork {
    /// The column is long enough to be between the ends for `seconds`.
    fn build(seconds: u64) -> Result<TcpNetwork> {
        let road = Road::new(RadioSpec { range: RANGE, lossless_range: RANGE, ..RadioSpec::its_g5(RANGE) }, SETTINGS)?;
        let still = |name, metres| road.add_station(name, "roadside-unit", Track::standing(road_position(metres)));
        let ends = [still("west", 0.0)?, still("east", FAR_DISTANCE)?];
        let count = ((seconds as f64 * SPEED + FAR_DISTANCE) / SPACING).ceil() as u32;
        let mut column = Vec::new();
        for number in 0..count {
            let metres = FAR_DISTANCE - 100.0 - SPACING * f64::from(number);
            let car =
                road.add_station(&format!("car{number}"), "passenger-car", Track::standing(road_position(metres)))?;
            column.push((car, metres));
        }
        let [one, two] = NETWORKS;
        let nodes = [road.add_node(&ends[0], "node1", &[one])?, road.add_node(&ends[1], "node2", &[two])?];
        let [west, east] = &ends;
        west.host.ip(&[&format!("route add {two}/64 via {} dev {VIRTUAL_LINK}", east.address)])?;
        east.host.ip(&[&format!("route add {one}/64 via {} dev {VIRTUAL_LINK}", west.address)])?;
        let network = TcpNetwork { road, ends, nodes, relays: column };
        let target = host_address(two, 2).to_string();
        // A long echo, so that the path MTU is known.
        let ping = || network.nodes[0].output("ping", &["-6", "-n", "-c", "1", "-W", "2", "-s", "1500", &target]).ok();
        clock::wait_for(TIMEOUT, ping).with_context(|| format!("{} hears nobody", network.ends[0].host.name()))?;
        Ok(network)
    }

    fn drive(&self, seconds: u64) -> Result<()> {
        let now = self.road.emulator.now();
        for (car, from) in &self.relays {
            let track =
                Track::from(now, road_position(*from)).drive_to(road_position(from + SPEED * seconds as f64), SPEED);
            self.road.emulator.set_track(car.radio, track)?;
        }
        Ok(())
    }
}
