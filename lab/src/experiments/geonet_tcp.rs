//! One TCP connection between two fixed stations, relayed by a column of vehicles that passes them: the next hop of
//! each changes every few seconds.

use super::Experiment;
use crate::bed::Host;
use crate::clock;
use crate::figures::{Findings, round, spread};
use crate::progress::Progress;
use crate::road::{LINK, Road, Station, at, member};
use crate::traffic::{End, Load, Protocol, Transfer};
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
const AWAY: f64 = 700.0;
const APART: f64 = 200.0;
const RANGE: f64 = 300.0;
/// Metres per second.
const SPEED: f64 = 20.0;
const SETTINGS: &str = "beacon = \"300ms\"\nneighbour_lifetime = \"1s\"\nrange = 300\npacket_data_rate = 4000000000\n";
const PATIENCE: Duration = Duration::from_secs(20);
/// Silences are evaluated in bins of this length.
const SPAN: Duration = Duration::from_secs(1);

fn run(quick: bool) -> Result<Findings> {
    let seconds = if quick { 20 } else { 60 };
    let mut findings = Findings::default();
    let mut progress = Progress::new(seconds);
    progress.say("building the road");
    let scene = Scene::build(seconds)?;
    let [one, two] = NETWORKS;
    let [near, far] = &scene.nodes;
    let ends = [End { host: near, address: member(one, 2) }, End { host: far, address: member(two, 2) }];
    let transfer = Transfer::carry(ends, Load { message: 1200, ..Load::steady(Protocol::Tcp, 9700, 100_000) })?;
    scene.drive(seconds)?;
    let begin = clock::unix_micros();
    let mut silences = Vec::new();
    for _ in 0..seconds {
        progress.say("driving");
        let from = clock::unix_micros();
        sleep(SPAN);
        let until = clock::unix_micros();
        let silence = transfer.arrivals().iter().map(|arrivals| arrivals.longest_silence(from, until)).max();
        silences.push(silence.unwrap_or(0) as f64 / 1000.0);
        progress.step();
    }
    let [forth, back] = transfer.progress();
    let spent = (clock::unix_micros() - begin) as f64 / 1e6;
    let whole = transfer.finish(PATIENCE)?.iter().all(crate::traffic::Delivery::is_whole);
    let worst = silences.iter().copied().fold(0.0, f64::max);
    findings.rows.push(json!({ "silence_ms_each_second": silences, "spread": spread(&silences) }));
    findings.sum_up("tcp_survived", u8::from(whole));
    findings.sum_up("silence_ms_max", round(worst));
    findings.sum_up("next_hops_passed", (seconds as f64 * SPEED / APART).floor());
    findings.sum_up("mbit_s", round((forth + back) as f64 * 8.0 / spent / 1e6));
    findings.require(whole, || "the transfer did not survive".to_owned());
    Ok(findings)
}

struct Scene {
    road: Road,
    ends: [Station; 2],
    nodes: [Host; 2],
    column: Vec<(Station, f64)>,
}

impl Scene {
    /// The column is long enough to be between the ends for `seconds`.
    fn build(seconds: u64) -> Result<Scene> {
        let road = Road::new(RadioSpec { range: RANGE, lossless_range: RANGE, ..RadioSpec::its_g5(RANGE) }, SETTINGS)?;
        let still = |name, metres| road.add(name, "roadside-unit", Track::standing(at(metres)));
        let ends = [still("west", 0.0)?, still("east", AWAY)?];
        let count = ((seconds as f64 * SPEED + AWAY) / APART).ceil() as u32;
        let mut column = Vec::new();
        for number in 0..count {
            let metres = AWAY - 100.0 - APART * f64::from(number);
            let car = road.add(&format!("car{number}"), "passenger-car", Track::standing(at(metres)))?;
            column.push((car, metres));
        }
        let [one, two] = NETWORKS;
        let nodes = [road.add_node(&ends[0], "node1", &[one])?, road.add_node(&ends[1], "node2", &[two])?];
        let [west, east] = &ends;
        west.host.ip(&[&format!("route add {two}/64 via {} dev {LINK}", east.address)])?;
        east.host.ip(&[&format!("route add {one}/64 via {} dev {LINK}", west.address)])?;
        let scene = Scene { road, ends, nodes, column };
        let target = member(two, 2).to_string();
        // A long echo, so that the path MTU is known.
        let ping = || scene.nodes[0].output("ping", &["-6", "-n", "-c", "1", "-W", "2", "-s", "1500", &target]).ok();
        clock::wait_for(PATIENCE, ping).with_context(|| format!("{} hears nobody", scene.ends[0].host.name()))?;
        Ok(scene)
    }

    fn drive(&self, seconds: u64) -> Result<()> {
        let now = self.road.air.now();
        for (car, from) in &self.column {
            let track = Track::from(now, at(*from)).drive_to(at(from + SPEED * seconds as f64), SPEED);
            self.road.air.steer(car.radio, track)?;
        }
        Ok(())
    }
}
