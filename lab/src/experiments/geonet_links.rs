//! Ping, TCP and multicast between two stations on four virtual links at once: two SGVLs, a DGVL and a TVL. All links of a
//! station have its link-layer address, and so the same link-local address.

use crate::experiments::prelude::*;
use crate::topology::road::{Road, RoadStation, road_position};
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::BindToDevice;
use roam6_sim::{RadioSpec, Track};
use std::net::{Ipv6Addr, UdpSocket};

/// The links beside `gn0`, which has `around`: a circle of the same radius as one of these would be that link.
const SETTINGS: &str = include_str!("../topology/three_links.toml");
const LINKS: [&str; 4] = ["gn0", "gn1", "gn2", "gn3"];
/// Octets per second of each connection in each direction.
const TCP_RATE: u64 = 20_000;
const PORT: u16 = 9_760;
/// Interval of pings and of multicast datagrams.
const INTERVAL: Duration = Duration::from_millis(200);
const TIMEOUT: Duration = Duration::from_secs(20);

/// What one link has carried.
#[derive(Debug, Default, Clone, Copy)]
struct Carried {
    pings_lost: usize,
    multicast_lost: usize,
    tcp_complete: bool,
    tcp_octets: u64,
}

pub(super) fn run(run: &mut Run) -> Result<()> {
    let count = if run.quick { 40 } else { 150 };
    run.set_steps(3);
    run.step("building the road");
    let road = Road::new(RadioSpec::default(), SETTINGS)?;
    let station = |name, metres| road.add_station(name, "passenger-car", Track::standing(road_position(metres)));
    let stations = [station("mr1", 0.0)?, station("mr2", 200.0)?];
    run.step("waiting for the links");
    for (number, link) in (0..).zip(LINKS) {
        prepare(&stations, link, number)?;
    }
    run.step("all links at once");
    let pair = &stations;
    let carried: Result<Vec<Carried>> = std::thread::scope(|scope| {
        let started: Vec<_> =
            (0..).zip(LINKS).map(|(number, link)| scope.spawn(move || carry(pair, link, number, count))).collect();
        started.into_iter().map(|link| link.join().map_err(|_| anyhow!("a link's thread has panicked"))?).collect()
    });
    let carried = carried?;
    for (link, carried) in LINKS.iter().zip(&carried) {
        run.rows.push(json!({
            "link": link, "pings": count, "pings_lost": carried.pings_lost, "multicast": count,
            "multicast_lost": carried.multicast_lost, "tcp_octets": carried.tcp_octets,
            "tcp_complete": carried.tcp_complete,
        }));
    }
    run.summarise("ping_lost_max", carried.iter().map(|link| link.pings_lost).max());
    run.summarise("multicast_lost_max", carried.iter().map(|link| link.multicast_lost).max());
    run.summarise("links_with_tcp", carried.iter().filter(|link| link.tcp_complete && link.tcp_octets > 0).count());
    run.require_tcp(carried.iter().all(|link| link.tcp_complete));
    ["ping_lost_max", "multicast_lost_max", "links_with_tcp"].iter().for_each(|key| run.require_bound(key));
    Ok(())
}

/// The address of a station on a link.
fn address(number: u16, station: u16) -> Ipv6Addr {
    Ipv6Addr::new(0x2001, 0xdb8, 0x10 + number, 0, 0, 0, 0, station)
}

/// Gives both stations an address on the link, and waits until one reaches the other.
fn prepare(stations: &[RoadStation; 2], link: &str, number: u16) -> Result<()> {
    for (station, which) in stations.iter().zip(1..) {
        station.host.ip(&[&format!("address add {}/64 dev {link} nodad", address(number, which))])?;
    }
    let [near, far] = stations;
    for target in [format!("{}%{link}", far.address), address(number, 2).to_string()] {
        let ping = || near.host.output("ping", &["-6", "-n", "-c", "1", "-W", "1", &target]).ok();
        clock::wait_for(TIMEOUT, ping).with_context(|| format!("{target} does not answer"))?;
    }
    Ok(())
}

fn carry(stations: &[RoadStation; 2], link: &str, number: u16, count: usize) -> Result<Carried> {
    let [near, far] = stations;
    let ends = [
        Endpoint { host: &near.host, address: address(number, 1) },
        Endpoint { host: &far.host, address: address(number, 2) },
    ];
    let transfer = Transfer::start(ends, TransferLoad::steady(Protocol::Tcp, PORT + number, TCP_RATE))?;
    let (pings_lost, multicast_lost) = std::thread::scope(|scope| {
        let multicast = scope.spawn(|| send_multicast(near, far, link, number, count));
        let target = format!("{}%{link}", far.address);
        let interval = INTERVAL.as_secs_f64().to_string();
        let pings = near
            .host
            .ping(count, &["-i", &interval, "-W", "2", &target])
            .map_or(count, |times| count.saturating_sub(times.len()));
        (pings, multicast.join())
    });
    let multicast_lost = multicast_lost.map_err(|_| anyhow!("the multicast thread has panicked"))??;
    let [out, inbound] = transfer.received_octets();
    let tcp_complete = transfer.finish(TIMEOUT)?.iter().all(Delivery::is_complete);
    Ok(Carried { pings_lost, multicast_lost, tcp_complete, tcp_octets: out + inbound })
}

/// Sends datagrams to a group of the link; how many do not arrive.
fn send_multicast(near: &RoadStation, far: &RoadStation, link: &str, number: u16, count: usize) -> Result<usize> {
    let group = Ipv6Addr::new(0xff18, 0, 0, 0, 0, 0, 0, 0x70 + number);
    let port = PORT + 100 + number;
    let into = far.host.in_namespace(|| UdpSocket::bind((Ipv6Addr::UNSPECIFIED, port)))??;
    into.join_multicast_v6(&group, far.host.interface_index(link)?)?;
    into.set_read_timeout(Some(Duration::from_secs(2)))?;
    let out = near.host.in_namespace(|| UdpSocket::bind((address(number, 1), 0)))??;
    // A group of admin-local scope has a route by each link, of which the kernel takes the first.
    setsockopt(&out, BindToDevice, &link.into())?;
    // The report of the membership.
    sleep(Duration::from_secs(1));
    let mut received = 0;
    let mut buffer = [0; 256];
    for _ in 0..count {
        out.send_to(&[0x55; 64], (group, port))?;
        received += usize::from(into.recv(&mut buffer).is_ok());
        sleep(INTERVAL);
    }
    Ok(count - received)
}
