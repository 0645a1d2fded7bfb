//! Two shores out of range of one another, and a ferry: what is sent to the area of the other shore arrives only if stations
//! store, carry and forward it (EN 302 636-4-1 §8.4). The same ferry by the daemons and in the simulator.

use crate::bed::Host;
use crate::bed::gpsd::to_position;
use crate::experiments::prelude::*;
use crate::threads::{Shared, Workers};
use crate::topology::road::{Road, RoadStation, road_position};
use roam6_proto::Time;
use roam6_proto::contract::config::geo::{Mib, TransportType};
use roam6_proto::geo::PacketRequest;
use roam6_sim::net::radio::StationId;
use roam6_sim::vehicles::invariants::number;
use roam6_sim::vehicles::world::RadioWorld;
use roam6_sim::{RadioSpec, Track};
use roam6_wire::geo::{Area, TrafficClass, UpperProtocol};
use std::collections::BTreeMap;
use std::net::{Ipv6Addr, SocketAddrV6, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};

/// Radio range, the places of the shores, and those where the ferry turns; metres.
const RANGE: f64 = 300.0;
const SHORES: [f64; 2] = [0.0, 800.0];
const PIERS: [f64; 2] = [50.0, 750.0];
/// How long the ferry waits at a shore.
const WAIT_AT_PIER: Duration = Duration::from_secs(3);
/// Time from one datagram of each shore to the next.
const INTERVAL: Duration = Duration::from_millis(500);
/// Radius of the areas, metres, and the virtual link for each: that of the shore where it is.
const RADIUS: u16 = 100;
const LINKS: [&str; 2] = ["gna", "gnb"];
/// A group of the link's scope, and its port.
const GROUP: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x4747);
const PORT: u16 = 9770;
const TIMEOUT: Duration = Duration::from_secs(15);
/// Beacons often enough for the contact of a fast ferry.
const SETTINGS: &str = "beacon = \"500ms\"\nneighbour_lifetime = \"2s\"\nlifetime = \"300s\"\nrange = 300\n";

/// The ferry's speed, metres per second, and its crossings: while datagrams are sent, and in all.
struct Timetable {
    speed: f64,
    sending: u32,
    crossings: u32,
}

/// Numbers of datagrams and microseconds from sending to each arrival, by the shore that received them.
type ArrivalLog = [Shared<Vec<(u64, u64)>>; 2];

pub(super) fn run(run: &mut Run) -> Result<()> {
    let timetable = if run.quick {
        Timetable { speed: 80.0, sending: 2, crossings: 4 }
    } else {
        Timetable { speed: 25.0, sending: 6, crossings: 8 }
    };
    let count = u64::try_from(timetable.duration(timetable.sending).as_millis() / INTERVAL.as_millis())?;
    run.set_steps(usize::try_from(count)? + 3);
    let networks = [(true, "carried"), (false, "plain")].map(|(carries, name)| {
        run.step(name);
        FerryNetwork::build(carries, name)
    });
    let [carrying, other] = networks;
    let networks = [carrying?, other?];
    networks.iter().try_for_each(|network| network.depart(&timetable))?;
    let began = clock::now();
    for number in 0..count {
        run.step("crossing");
        networks.iter().try_for_each(|network| network.send(number))?;
        sleep((INTERVAL * u32::try_from(number + 1)?).saturating_sub(began.elapsed()));
    }
    sleep(timetable.duration(timetable.crossings).saturating_sub(began.elapsed()));
    for network in &networks {
        network.arrivals.iter().zip(["to_first_shore", "to_second_shore"]).for_each(|(log, direction)| {
            Observed { stations: "daemons", carries: network.carries, direction, sent: count }.report(run, &log.lock());
        });
    }
    for carries in [true, false] {
        let logs = simulate(&timetable, carries, count);
        for (log, direction) in logs.iter().zip(["to_first_shore", "to_second_shore"]) {
            Observed { stations: "simulator", carries, direction, sent: count }.report(run, log);
        }
    }
    summarise(run, &timetable);
    Ok(())
}

impl Timetable {
    /// The time of so many crossings.
    fn duration(&self, crossings: u32) -> Duration {
        let [near, far] = PIERS;
        WAIT_AT_PIER + (Duration::from_secs_f64((far - near) / self.speed) + WAIT_AT_PIER) * crossings
    }

    fn track(&self, begin: Time) -> Track {
        let [near, far] = PIERS;
        let start = Track::from(begin, road_position(near)).pause(WAIT_AT_PIER);
        (0..self.crossings).fold(start, |track, crossing| {
            let pier = if crossing.is_multiple_of(2) { far } else { near };
            track.drive_to(road_position(pier), self.speed).pause(WAIT_AT_PIER)
        })
    }
}

/// Two shores and a ferry, each a daemon.
struct FerryNetwork {
    carries: bool,
    road: Road,
    shores: [RoadStation; 2],
    ferry: RoadStation,
    senders: [UdpSocket; 2],
    arrivals: ArrivalLog,
    _receivers: Workers,
}

impl FerryNetwork {
    fn build(carries: bool, label: &str) -> Result<FerryNetwork> {
        let spec = RadioSpec { range: RANGE, ..RadioSpec::ieee80211p(RANGE) };
        let links = LINKS.iter().zip(SHORES).map(|(name, metres)| {
            let (latitude, longitude) = to_position(road_position(metres)).to_degrees();
            format!(
                "[[geo.links]]\nname = \"{name}\"\nstore_carry_forward = {carries}\n\
                 area = {{ latitude = {latitude:.7}, longitude = {longitude:.7}, a = {RADIUS} }}\n"
            )
        });
        let road = Road::new(spec, &(SETTINGS.to_owned() + &links.collect::<String>()))?;
        let station = |name: &str, kind, metres| {
            let station = road.add_station(&format!("{name}-{label}"), kind, Track::standing(road_position(metres)))?;
            LINKS.iter().try_for_each(|link| wait_for_address(&station.host, link))?;
            Ok::<RoadStation, anyhow::Error>(station)
        };
        let ([first, second], [pier, _]) = (SHORES, PIERS);
        let shores = [station("a", "roadside-unit", first)?, station("b", "roadside-unit", second)?];
        let ferry = station("ferry", "special-vehicle", pier)?;
        let (arrivals, mut receivers) = (ArrivalLog::default(), Workers::default());
        for ((shore, link), log) in shores.iter().zip(LINKS).zip(&arrivals) {
            let (socket, log) = (receiver(&shore.host, link)?, log.clone());
            receivers.spawn("ferry in", move |stop| receive(&socket, &log, stop))?;
        }
        let [a, b] = &shores;
        let senders = [sender(&b.host)?, sender(&a.host)?];
        Ok(FerryNetwork { carries, road, shores, ferry, senders, arrivals, _receivers: receivers })
    }

    fn depart(&self, timetable: &Timetable) -> Result<()> {
        self.road.emulator.set_track(self.ferry.radio, timetable.track(self.road.emulator.now()))
    }

    /// Sends a datagram to each shore, from the other one.
    fn send(&self, number: u64) -> Result<()> {
        let [a, b] = &self.shores;
        for ((socket, from), link) in self.senders.iter().zip([b, a]).zip(LINKS) {
            let payload = [number.to_be_bytes(), clock::unix_micros().to_be_bytes()].concat();
            let index = from.host.interface_index(link)?;
            socket.send_to(&payload, SocketAddrV6::new(GROUP, PORT, 0, index))?;
        }
        Ok(())
    }
}

fn wait_for_address(host: &Host, link: &str) -> Result<()> {
    let ready = || host.addresses(&["dev", link, "scope", "link", "-tentative"]).ok().filter(|all| !all.is_empty());
    clock::wait_for(TIMEOUT, ready).map(drop).with_context(|| format!("{}: {link} has no address", host.name()))
}

fn receiver(host: &Host, link: &str) -> Result<UdpSocket> {
    let index = host.interface_index(link)?;
    let socket = host.in_namespace(|| UdpSocket::bind((Ipv6Addr::UNSPECIFIED, PORT)))??;
    socket.join_multicast_v6(&GROUP, index)?;
    socket.set_read_timeout(Some(Duration::from_millis(100)))?;
    Ok(socket)
}

fn sender(host: &Host) -> Result<UdpSocket> {
    let socket = host.in_namespace(|| UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)))??;
    socket.set_multicast_loop_v6(false)?;
    Ok(socket)
}

fn receive(socket: &UdpSocket, log: &Shared<Vec<(u64, u64)>>, stop: &AtomicBool) {
    let mut payload = [0; 16];
    while !stop.load(Ordering::Relaxed) {
        if let Ok(16) = socket.recv(&mut payload) {
            let (number, sent_at) = payload.split_at(8);
            let value = |octets: &[u8]| octets.try_into().map(u64::from_be_bytes).unwrap_or_default();
            log.lock().push((value(number), clock::unix_micros().saturating_sub(value(sent_at))));
        }
    }
}

/// The same ferry and requests in virtual time; the arrivals at each shore.
fn simulate(timetable: &Timetable, carries: bool, count: u64) -> [Vec<(u64, u64)>; 2] {
    const IDS: [StationId; 2] = [StationId(1), StationId(2)];
    let mut world = RadioWorld::new(RadioSpec::ieee80211p(RANGE), 1);
    let mib = Mib {
        max_range: RANGE as u32,
        beacon_timer: Duration::from_millis(500),
        beacon_jitter: Duration::from_millis(125),
        neighbour_lifetime: Duration::from_secs(2),
        ..Mib::default()
    };
    for (id, metres) in IDS.into_iter().zip(SHORES) {
        world.add(id, Track::standing(road_position(metres)), mib.clone());
    }
    world.add(StationId(3), timetable.track(Time::ZERO), mib);
    let areas = SHORES.map(|metres| Area::circle(world.on_earth(road_position(metres)), RADIUS));
    let mut logs = [Vec::new(), Vec::new()];
    let mut sent_at = BTreeMap::new();
    for request in 0..count {
        let at = Time::ZERO + INTERVAL * u32::try_from(request).unwrap_or(u32::MAX);
        advance(&mut world, at, &sent_at, &mut logs);
        sent_at.insert(request, at);
        for (area, from) in areas.into_iter().zip([StationId(2), StationId(1)]) {
            let class = TrafficClass::new(3, carries);
            let (upper, payload) = (UpperProtocol::BtpB, request.to_be_bytes().to_vec());
            let lifetime = Some(Duration::from_secs(300));
            let to = TransportType::GeoBroadcast(area);
            let request = PacketRequest { to, upper, payload, class, lifetime, hops: None, repetition: None };
            // A refused request counts as one that did not arrive.
            let _ = world.request(from, request);
        }
    }
    advance(&mut world, Time::ZERO + timetable.duration(timetable.crossings), &sent_at, &mut logs);
    logs
}

fn advance(world: &mut RadioWorld, end: Time, sent_at: &BTreeMap<u64, Time>, logs: &mut [Vec<(u64, u64)>; 2]) {
    loop {
        let more = world.network.step(end).is_some();
        while let Some(step) = world.take_step() {
            let [first, second] = &mut *logs;
            let log = match step.station.0 {
                1 => first,
                2 => second,
                _ => continue,
            };
            let delivered = step.delivered.as_deref().and_then(number);
            let sent = delivered.and_then(|number| Some((number, *sent_at.get(&number)?)));
            log.extend(
                sent.map(|(number, at)| (number, u64::try_from(world.now().since(at).as_micros()).unwrap_or(u64::MAX))),
            );
        }
        if !more {
            break;
        }
    }
    world.network.wait_until(end);
}

/// One direction of a ferry.
struct Observed {
    stations: &'static str,
    carries: bool,
    direction: &'static str,
    sent: u64,
}

impl Observed {
    fn report(&self, run: &mut Run, log: &[(u64, u64)]) {
        let delays: BTreeMap<u64, f64> =
            log.iter().rev().map(|(number, micros)| (*number, *micros as f64 / 1e6)).collect();
        run.rows.push(json!({
            "stations": self.stations, "carries": self.carries, "direction": self.direction, "sent": self.sent,
            "received": delays.len(), "received_twice": log.len() - delays.len(),
            "delivery": round(delays.len() as f64 / self.sent.max(1) as f64), "delay_s": distribution(delays.values()),
        }));
    }
}

fn summarise(run: &mut Run, timetable: &Timetable) {
    let values = |run: &Run, stations: &str, carries: bool, field: &str| -> Vec<f64> {
        let fits = |row: &&Value| row["stations"] == stations && row["carries"] == carries;
        run.rows.iter().filter(fits).filter_map(|row| row.pointer(field)?.as_f64()).collect()
    };
    let least = |values: Vec<f64>| values.into_iter().reduce(f64::min);
    let most = |values: Vec<f64>| values.into_iter().reduce(f64::max);
    let delivery = least(values(run, "daemons", true, "/delivery"));
    let figures = [
        ("delivery_carried", delivery),
        ("delivery_carried_simulated", least(values(run, "simulator", true, "/delivery"))),
        ("delivery_not_carried", most(values(run, "daemons", false, "/delivery"))),
        ("received_twice", most(values(run, "daemons", true, "/received_twice"))),
        ("delay_s_p50", most(values(run, "daemons", true, "/delay_s/p50"))),
        ("delay_s_max", most(values(run, "daemons", true, "/delay_s/max"))),
        ("crossing_s", Some(round(timetable.duration(1).saturating_sub(WAIT_AT_PIER * 2).as_secs_f64()))),
    ];
    figures.into_iter().for_each(|(key, value)| run.summarise(key, value));
    run.require(delivery == Some(1.0), || format!("the ferry carried only {delivery:?} of the datagrams"));
}
