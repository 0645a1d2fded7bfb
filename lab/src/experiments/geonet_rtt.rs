//! Round round_trips between nodes in two vehicles, over GeoNetworking and by plain IPv6 routing over the same radio channel
//! in the same run, one hop and two (the paper's Figs 7 to 9).

use crate::bed::{Host, Port};
use crate::experiments::prelude::*;
use crate::topology::road::{Road, RoadStation, VIRTUAL_LINK, host_address, road_position};
use roam6_sim::{RadioSpec, Track};
use std::net::Ipv6Addr;

/// Prefixes of the nodes in vehicles 1 and 2: routed over GeoNetworking, and by plain routing.
const GEO: [Ipv6Addr; 2] = [network(0x1), network(0x2)];
const PLAIN: [Ipv6Addr; 2] = [network(0x11), network(0x12)];
/// Bits per second of the channel: 802.11g, as in the paper.
const RATE: u64 = 54_000_000;
/// Position of the second vehicle, metres, for one hop and for two; the relay is in between.
const DISTANCES: [f64; 2] = [200.0, 500.0];
const RELAY: f64 = 250.0;
/// Frequent beacons and a short neighbour lifetime. No core sleeps, for plain routing neither, because beacons keep
/// them awake.
const SETTINGS: &str = "beacon = \"500ms\"\nneighbour_lifetime = \"2s\"\npacket_data_rate = 4000000000\n\
    busy_poll = \"100us\"\nawake = \"1s\"\n";
/// Timeout of a series of echoes, seconds.
const PING: &str = "3";
/// How long connectivity may take.
const TIMEOUT: Duration = Duration::from_secs(20);

const fn network(number: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, number, 0, 0, 0, 0, 0)
}

/// A path from node to node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PingPath {
    Geo,
    Plain,
}

/// Two vehicles, a relay, two nodes.
struct RttNetwork {
    road: Road,
    mr1: RoadStation,
    relay: RoadStation,
    mr2: RoadStation,
    nodes: [Host; 2],
    /// The second radio of each station and its link-local address: first vehicle, relay, second vehicle.
    plain: [(Port, Ipv6Addr); 3],
}

/// The round-trip times of a series of echoes, milliseconds.
type RoundTrips = Vec<f64>;

pub(super) fn run(run: &mut Run) -> Result<()> {
    let (step, count) = if run.quick { (370, 24) } else { (20, 96) };
    let blocks = if run.quick { 6 } else { 8 };
    let sizes: Vec<usize> = (20..=1500).step_by(step).collect();
    run.set_steps(2 * sizes.len() + 1);
    let mut network = RttNetwork::build()?;
    let mut lost = 0;
    for (hops, place) in (1..).zip(DISTANCES) {
        network.place_second(place, hops)?;
        // Of each block the difference at each size.
        let mut overheads = vec![Vec::new(); blocks];
        let mut medians = Vec::new();
        for size in &sizes {
            run.step(&format!("{hops} hops, {size} octets"));
            // In turn, so that load of the machine affects both.
            let (mut geo, mut plain) = (RoundTrips::new(), RoundTrips::new());
            for of_block in &mut overheads {
                let without = network.ping(PingPath::Plain, *size, count / blocks)?;
                let with = network.ping(PingPath::Geo, *size, count / blocks)?;
                let middle = |times: &RoundTrips| percentile(times, 0.5).unwrap_or(f64::INFINITY);
                of_block.push((middle(&with) - middle(&without)) * 1000.0);
                plain.extend(without);
                geo.extend(with);
            }
            medians.extend(percentile(&geo, 0.5));
            for (way, times) in [("geonetworking", geo), ("plain", plain)] {
                lost += count - times.len();
                run.rows.push(json!({
                    "way": way, "hops": hops, "octets": size,
                    "sent": count, "lost": count - times.len(), "rtt_ms": distribution(&times),
                }));
            }
        }
        let by_block: Vec<f64> = overheads.iter().filter_map(|sizes| percentile(sizes, 0.5)).collect();
        run.estimate(&format!("overhead_us_p50_{hops}hop"), median(&by_block, LEVEL));
        run.summarise(&format!("rtt_ms_p50_{hops}hop"), percentile(medians, 0.5).map(round));
    }
    run.step("cold location tables");
    first_packets(&mut network, if run.quick { 1 } else { 10 }, run)?;
    run.summarise("loss", lost);
    run.require(lost == 0, || format!("{lost} echoes were lost"));
    Ok(())
}

/// How the first packet after a restart of the first vehicle's roam6 finds its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FirstPacket {
    /// The kernel resolves its neighbour, whose answer has the position.
    Cold,
    /// The kernel knows its neighbour, and the location service finds the position.
    LocationService,
    /// The kernel knows its neighbour, and beacons over two hops have announced the position.
    BeaconHops,
}

impl FirstPacket {
    const ALL: [FirstPacket; 3] = [FirstPacket::Cold, FirstPacket::LocationService, FirstPacket::BeaconHops];

    fn key(self) -> &'static str {
        match self {
            FirstPacket::Cold => "first_packet_ms_p50",
            FirstPacket::LocationService => "first_packet_location_service_ms_p50",
            FirstPacket::BeaconHops => "first_packet_beacon_hops_ms_p50",
        }
    }

    fn name(self) -> &'static str {
        match self {
            FirstPacket::Cold => "neighbour discovery",
            FirstPacket::LocationService => "location service",
            FirstPacket::BeaconHops => "beacons over two hops",
        }
    }
}

/// The first echo after a restart of the first vehicle's roam6, and the second one.
fn first_packets(network: &mut RttNetwork, count: usize, run: &mut Run) -> Result<()> {
    for case in FirstPacket::ALL {
        if case == FirstPacket::BeaconHops {
            network.announce_over_two_hops()?;
        }
        let (mut first, mut second) = (Vec::new(), Vec::new());
        for _ in 0..count {
            network.restart_first(case)?;
            let times = network.ping(PingPath::Geo, 56, 1)?;
            run.require(!times.is_empty(), || format!("{}: the first echo was lost", case.name()));
            first.extend(times);
            second.extend(network.ping(PingPath::Geo, 56, 1)?);
        }
        run.rows.push(json!({ "first_packet": case.name(), "first_rtt_ms": distribution(&first), "second_rtt_ms": distribution(&second) }));
        run.summarise(case.key(), percentile(&first, 0.5).map(round));
    }
    Ok(())
}

impl RttNetwork {
    fn build() -> Result<RttNetwork> {
        let spec = RadioSpec { rate_bps: Some(RATE), preamble: Duration::from_micros(20), ..RadioSpec::default() };
        let road = Road::new(spec, SETTINGS)?;
        let [near, _] = DISTANCES;
        let station = |name, metres| road.add_station(name, "passenger-car", Track::standing(road_position(metres)));
        let (mr1, relay, mr2) = (station("mr1", 0.0)?, station("relay", RELAY)?, station("mr2", near)?);
        let ([g1, g2], [p1, p2]) = (GEO, PLAIN);
        let nodes = [road.add_node(&mr1, "mnn1", &[g1, p1])?, road.add_node(&mr2, "mnn2", &[g2, p2])?];
        let plain = [
            road.add_plain_radio(&mr1, Track::standing(road_position(0.0)))?,
            road.add_plain_radio(&relay, Track::standing(road_position(RELAY)))?,
            road.add_plain_radio(&mr2, Track::standing(road_position(near)))?,
        ];
        Ok(RttNetwork { road, mr1, relay, mr2, nodes, plain })
    }

    /// Moves the second vehicle, installs the plain routes, and waits until both paths work.
    fn place_second(&mut self, metres: f64, hops: usize) -> Result<()> {
        let [(_, one), (_, between), (port, two)] = self.plain;
        self.road.emulator.set_track(self.mr2.radio, Track::standing(road_position(metres)))?;
        self.road.emulator.set_track(port, Track::standing(road_position(metres)))?;
        let (to_two, to_one) = if hops == 1 { (two, one) } else { (between, between) };
        let [p1, p2] = PLAIN;
        let [g1, g2] = GEO;
        self.mr1.host.ip(&[
            &format!("route replace {p2}/64 via {to_two} dev radio1"),
            &format!("route replace {g2}/64 via {} dev {VIRTUAL_LINK}", self.mr2.address),
        ])?;
        self.mr2.host.ip(&[
            &format!("route replace {p1}/64 via {to_one} dev radio1"),
            &format!("route replace {g1}/64 via {} dev {VIRTUAL_LINK}", self.mr1.address),
        ])?;
        self.relay.host.ip(&[
            &format!("route replace {p1}/64 via {one} dev radio1"),
            &format!("route replace {p2}/64 via {two} dev radio1"),
        ])?;
        let wanted = if hops == 1 { 2 } else { 1 };
        clock::wait_for(TIMEOUT, || self.mr1.daemon.neighbour_count().ok().filter(|count| *count == wanted))
            .context("the second vehicle is not where it should be")?;
        // The longest echo too, so that the path MTU is known.
        for (way, size) in [(PingPath::Plain, 56), (PingPath::Geo, 56), (PingPath::Plain, 1500), (PingPath::Geo, 1500)]
        {
            let works = || self.ping(way, size, 1).ok().filter(|times| !times.is_empty());
            clock::wait_for(TIMEOUT, works)
                .with_context(|| format!("no echo of {size} octets by {way:?}, {hops} hops"))?;
        }
        Ok(())
    }

    /// Lets the beacons of all stations travel two hops, so that each knows the positions of the others in advance.
    fn announce_over_two_hops(&mut self) -> Result<()> {
        let config = self.road.config("passenger-car").replacen("[geo]\n", "[geo]\nbeacon_hops = 2\n", 1);
        for station in [&mut self.relay, &mut self.mr2, &mut self.mr1] {
            station.restart_with(&config)?;
        }
        let [near, _] = GEO;
        let back = format!("route replace {near}/64 via {} dev {VIRTUAL_LINK}", self.mr1.address);
        self.mr2.host.ip(&[&back])
    }

    /// Restarts the first vehicle's roam6, with an empty location table; waits until it knows what it is to know.
    fn restart_first(&mut self, case: FirstPacket) -> Result<()> {
        self.mr1.daemon.stop()?;
        self.mr1.daemon.spawn()?;
        self.mr1.wait_for_link()?;
        let [_, far] = GEO;
        let address = self.mr2.address;
        self.mr1.host.ip(&[&format!("route replace {far}/64 via {address} dev {VIRTUAL_LINK}")])?;
        let mac = self.road.emulator.link_layer_address(self.mr2.radio).context("no radio")?;
        if case != FirstPacket::Cold {
            let neighbour = format!("neighbour replace {address} lladdr {mac} dev {VIRTUAL_LINK} nud permanent");
            self.mr1.host.ip(&[&neighbour])?;
        }
        clock::wait_for(TIMEOUT, || self.mr1.daemon.neighbour_count().ok().filter(|count| *count == 1))
            .context("the relay is not a neighbour")?;
        if case == FirstPacket::BeaconHops {
            let is_known = || {
                let stations: Vec<Value> = self.mr1.daemon.show("stations").ok()?;
                stations.iter().any(|station| station["mid"] == json!(mac.0)).then_some(())
            };
            clock::wait_for(TIMEOUT, is_known).context("no beacon of the second vehicle came over two hops")?;
        }
        Ok(())
    }

    /// Sends `count` echo requests of `octets` from the first node to the second.
    fn ping(&self, way: PingPath, octets: usize, count: usize) -> Result<RoundTrips> {
        let [from, to] = if way == PingPath::Geo { GEO } else { PLAIN };
        let (from, to) = (host_address(from, 2).to_string(), host_address(to, 2).to_string());
        let ([node, _], size) = (&self.nodes, octets.to_string());
        // Without -w, ping waits for the last reply only twice the longest round trip; with -w it continues until it
        // has `count` replies.
        node.ping(count, &["-i", "0.002", "-w", PING, "-s", &size, "-I", &from, &to])
    }
}
