//! The GeoNetworking page: a roadside unit and three moving vehicles, of which one sends echo requests.

use super::http::LivePage;
use super::packet_log::PacketLog;
use crate::bed::{Positions, Process};
use crate::topology::road::{Road, RoadStation, VIRTUAL_LINK, road_position};
use anyhow::{Context, Result};
use roam6_proto::Time;
use roam6_proto::geo::geometry::Offset;
use roam6_sim::{RadioSpec, Track};
use serde_json::{Value, json};
use std::process::Stdio;
use std::time::Duration;

const PAGE: &str = include_str!("page/geonet.html");
/// Radio range, metres.
const RANGE: f64 = 300.0;
const SETTINGS: &str = "beacon = \"1s\"\nneighbour_lifetime = \"3s\"\n";
/// Each vehicle's two turning points (metres from the roadside unit), offset from the middle of the road (metres), and
/// speed (metres per second).
const VEHICLES: [(&str, [f64; 2], f64, f64); 3] =
    [("first", [80.0, 700.0], 15.0, 30.0), ("second", [60.0, 460.0], -15.0, 20.0), ("third", [225.0, 245.0], 0.0, 1.0)];
/// Duration of the tracks.
const DRIVING_TIME: Duration = Duration::from_secs(6 * 3600);
/// Stop at each turning point.
const STOP_TIME: Duration = Duration::from_secs(2);
/// Destinations of the first vehicle's echo requests (the roadside unit, and all stations), and their interval in
/// seconds.
const PINGS: [(Option<usize>, &str); 2] = [(Some(0), "0.5"), (None, "3")];

/// The road.
pub(super) struct GeonetPage {
    road: Road,
    positions: Positions,
    /// Stations with their types, the roadside unit first.
    stations: Vec<(RoadStation, &'static str)>,
    packets: PacketLog,
    pings: Vec<Process>,
}

impl GeonetPage {
    /// Builds the stations and starts their movement.
    pub(super) fn build() -> Result<GeonetPage> {
        let road = Road::new(RadioSpec::its_g5(RANGE), SETTINGS)?;
        let (packets, positions) = (PacketLog::watch(&road.emulator), road.emulator.positions());
        let mut stations =
            vec![(road.add_station("rsu", "roadside-unit", Track::standing(road_position(0.0)))?, "roadside-unit")];
        for (name, [from, _], beside, _) in VEHICLES {
            let track = Track::standing(Offset { east: from, north: beside });
            stations.push((road.add_station(name, "passenger-car", track)?, "passenger-car"));
        }
        let mut page = GeonetPage { road, positions, stations, packets, pings: Vec::new() };
        page.set_tracks()?;
        page.start_pings()?;
        Ok(page)
    }

    fn set_tracks(&self) -> Result<()> {
        let now = self.road.emulator.now();
        for ((station, _), (_, turns, beside, speed)) in self.stations.iter().skip(1).zip(VEHICLES) {
            let (here, _) =
                self.positions.position_and_motion(station.radio).context("the vehicle is on no radio channel")?;
            let mut track = Track::from(now, here);
            while track.last().0 < Time::ZERO + DRIVING_TIME {
                for east in turns.into_iter().rev() {
                    track = track.drive_to(Offset { east, north: beside }, speed).pause(STOP_TIME);
                }
            }
            self.road.emulator.set_track(station.radio, track)?;
        }
        Ok(())
    }

    fn start_pings(&mut self) -> Result<()> {
        let (first, _) = self.stations.get(1).context("no vehicle")?;
        for (whom, interval) in PINGS {
            let address =
                whom.and_then(|number| self.stations.get(number)).map(|(station, _)| station.address.to_string());
            let target = format!("{}%{VIRTUAL_LINK}", address.as_deref().unwrap_or("ff02::1"));
            let mut ping = first.host.command("ping");
            ping.args(["-6", "-n", "-q", "-i", interval, &target]).stdout(Stdio::null()).stderr(Stdio::null());
            self.pings.push(Process(ping.spawn().context("cannot start ping")?));
        }
        Ok(())
    }

    fn station_view(&self, station: &RoadStation, kind: &str) -> Option<Value> {
        let (place, motion) = self.positions.position_and_motion(station.radio)?;
        Some(json!({
            "name": station.host.name(), "kind": kind, "mid": self.road.emulator.link_layer_address(station.radio)?.to_string(),
            "east": place.east, "north": place.north, "speed": motion.speed, "heading": motion.heading,
        }))
    }
}

impl LivePage for GeonetPage {
    fn file(&self, path: &str) -> Option<(&'static str, &'static str)> {
        (path == "/").then_some(("text/html; charset=utf-8", PAGE))
    }

    /// The state that the page displays, with the packets after the number in the query.
    fn state(&self, query: &str) -> Value {
        let since = query.strip_prefix("since=").and_then(|number| number.parse().ok()).unwrap_or(0);
        let (packets, count) = self.packets.since(since);
        let stations: Vec<Value> =
            self.stations.iter().filter_map(|(station, kind)| self.station_view(station, kind)).collect();
        json!({ "range": RANGE, "stations": stations, "packets": packets, "count": count })
    }
}
