//! Datagrams between nodes in two vehicles, one hop of GeoNetworking: delivery ratio at the paper's rates and sizes
//! (Figs 10 and 11), and maximum throughput, compared with plain IPv6 routing on a channel without a rate limit.

use super::Experiment;
use crate::bed::Host;
use crate::clock;
use crate::findings::{Findings, round};
use crate::topology::road::{Road, RoadStation, VIRTUAL_LINK, host_address, road_position};
use crate::ui::Progress;
use anyhow::{Context, Result};
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::RcvBuf;
use roam6_sim::{RadioSpec, Track};
use serde_json::json;
use std::net::{Ipv6Addr, SocketAddrV6, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// See the module documentation.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "geonet/udp",
    about: "datagrams between vehicles: delivery at the paper's rates and sizes, and the highest rate",
    run,
};

const NETWORKS: [Ipv6Addr; 2] =
    [Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 0), Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 0)];
/// The paper's rates, kbit/s.
const RATES: [u64; 4] = [250, 500, 1000, 2000];
/// Rates of the search for the limit, kbit/s, and their datagram size; 1300 octets fit into one packet.
const SEARCH: [u64; 10] = [5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 400_000, 600_000, 800_000, 1_200_000];
const SEARCH_OCTETS: usize = 1300;
/// Delivery ratio required of the maximum rate.
const MIN_DELIVERY: f64 = 0.99;
const SETTINGS: &str = "beacon = \"1s\"\npacket_data_rate = 4000000000\n";
const TIMEOUT: Duration = Duration::from_secs(20);
const PORT: u16 = 9750;

fn run(quick: bool) -> Result<Findings> {
    let (step, span) = if quick { (600, Duration::from_millis(500)) } else { (100, Duration::from_secs(2)) };
    let sizes: Vec<usize> = (100..=1900).step_by(step).collect();
    let mut findings = Findings::default();
    let mut progress = Progress::new((RATES.len() * sizes.len() + SEARCH.len()) as u64);
    let network = UdpNetwork::build()?;
    let mut least = 1.0_f64;
    for rate in RATES {
        for size in &sizes {
            progress.message(&format!("{rate} kbit/s, {size} octets"));
            let (sent, received) = network.send(rate, *size, span)?;
            let share = received as f64 / sent.max(1) as f64;
            least = least.min(share);
            findings.rows.push(json!({
                "kbit_s": rate, "octets": size, "sent": sent, "received": received, "delivery": round(share),
            }));
            progress.step();
        }
    }
    let mut most = 0.0;
    for rate in SEARCH {
        progress.message(&format!("{} Mbit/s", rate / 1000));
        let before = network.cpu_time()?;
        let (sent, received) = network.send(rate, SEARCH_OCTETS, span)?;
        let spent = network.cpu_time()?.saturating_sub(before).as_secs_f64();
        let mbit = received as f64 * SEARCH_OCTETS as f64 * 8.0 / span.as_secs_f64() / 1e6;
        let per_core = received as f64 / spent.max(1e-9);
        findings.rows.push(json!({
            "search_kbit_s": rate, "octets": SEARCH_OCTETS, "sent": sent, "received": received, "mbit_s": round(mbit),
            "pps_of_a_core": per_core.round(),
        }));
        if received as f64 >= MIN_DELIVERY * sent as f64 {
            most = mbit;
        }
        progress.step();
    }
    findings.summarise("delivery_min", round(least));
    findings.summarise("max_mbps", round(most));
    findings.require(least >= 1.0, || format!("only {least:.4} of the datagrams of one case arrived"));
    Ok(findings)
}

struct UdpNetwork {
    _road: Road,
    stations: [RoadStation; 2],
    nodes: [Host; 2],
}

impl UdpNetwork {
    fn build() -> Result<UdpNetwork> {
        let road = Road::new(RadioSpec { queue_bytes: 1 << 20, ..RadioSpec::default() }, SETTINGS)?;
        let add = |name, metres| road.add_station(name, "passenger-car", Track::standing(road_position(metres)));
        let stations = [add("mr1", 0.0)?, add("mr2", 200.0)?];
        let [one, two] = NETWORKS;
        let nodes = [road.add_node(&stations[0], "mnn1", &[one])?, road.add_node(&stations[1], "mnn2", &[two])?];
        let [first, second] = &stations;
        first.host.ip(&[&format!("route add {two}/64 via {} dev {VIRTUAL_LINK}", second.address)])?;
        second.host.ip(&[&format!("route add {one}/64 via {} dev {VIRTUAL_LINK}", first.address)])?;
        let network = UdpNetwork { _road: road, stations, nodes };
        let far = host_address(two, 2).to_string();
        // A long echo, so that the path MTU is known.
        let works = || network.nodes[0].output("ping", &["-6", "-n", "-c", "1", "-W", "1", "-s", "1900", &far]).ok();
        clock::wait_for(TIMEOUT, works).context("the far node does not answer")?;
        Ok(network)
    }

    /// CPU time of both daemons.
    fn cpu_time(&self) -> Result<Duration> {
        let [first, second] = &self.stations;
        Ok(first.daemon.usage()?.cpu_time + second.daemon.usage()?.cpu_time)
    }

    /// Sends `rate` kbit/s in datagrams of `octets` for `span`; the numbers of sent and received datagrams.
    fn send(&self, rate: u64, octets: usize, span: Duration) -> Result<(u64, u64)> {
        let [from, to] = NETWORKS.map(|network| SocketAddrV6::new(host_address(network, 2), PORT, 0, 0));
        let [near, far] = &self.nodes;
        let out = near.in_namespace(|| UdpSocket::bind(from))??;
        let into = far.in_namespace(|| UdpSocket::bind(to))??;
        setsockopt(&into, RcvBuf, &(4 << 20)).ok();
        into.set_read_timeout(Some(Duration::from_millis(50)))?;
        let done = Arc::new(AtomicBool::new(false));
        let ended = done.clone();
        let receiver =
            std::thread::Builder::new().name("udp in".into()).spawn(move || count_datagrams(&into, &ended))?;
        let datagram = vec![0x55; octets];
        let pause = Duration::from_nanos(octets as u64 * 8 * 1_000_000 / rate.max(1));
        let (begin, mut sent) = (clock::now(), 0_u32);
        while begin.elapsed() < span {
            out.send_to(&datagram, to)?;
            sent += 1;
            std::thread::sleep((pause * sent).saturating_sub(begin.elapsed()));
        }
        std::thread::sleep(Duration::from_millis(200));
        done.store(true, Ordering::Relaxed);
        Ok((sent.into(), receiver.join().unwrap_or(0)))
    }
}

fn count_datagrams(socket: &UdpSocket, done: &AtomicBool) -> u64 {
    let mut buffer = [0; 2048];
    let mut received = 0;
    loop {
        match socket.recv(&mut buffer) {
            Ok(_) => received += 1,
            Err(_) if done.load(Ordering::Relaxed) => return received,
            Err(_) => {}
        }
    }
}
