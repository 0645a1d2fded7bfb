//! Datagrams between nodes in two vehicles, one hop of GeoNetworking: delivery ratio at the paper's rates and sizes
//! (Figs 10 and 11), and maximum throughput, compared with plain IPv6 routing on a channel without a rate limit.

use crate::experiments::prelude::*;
use crate::threads::Workers;
use crate::topology::road::{Road, RoadPair};
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::RcvBuf;
use roam6_sim::RadioSpec;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The paper's rates, kbit/s.
const RATES: [u64; 6] = [250, 500, 1000, 1250, 1750, 2000];
/// Rates of the search for the limit, kbit/s, and their datagram size; 1300 octets fit into one packet.
const SEARCH: [u64; 10] = [5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 400_000, 600_000, 800_000, 1_200_000];
const SEARCH_OCTETS: usize = 1300;
/// Delivery ratio required of the maximum rate.
const MIN_DELIVERY: f64 = 0.99;
const SETTINGS: &str = "beacon = \"1s\"\npacket_data_rate = 4000000000\n";
const PORT: u16 = 9750;

pub(super) fn run(run: &mut Run) -> Result<()> {
    let (step, span) = if run.quick { (600, Duration::from_millis(500)) } else { (100, Duration::from_secs(2)) };
    let sizes: Vec<usize> = (100..=1900).step_by(step).collect();
    run.set_steps(RATES.len() * sizes.len() + SEARCH.len());
    let network = UdpNetwork::build()?;
    let mut least = 1.0_f64;
    for rate in RATES {
        for size in &sizes {
            run.step(&format!("{rate} kbit/s, {size} octets"));
            let (sent, received) = network.send(rate, *size, span)?;
            let share = received as f64 / sent.max(1) as f64;
            least = least.min(share);
            run.rows.push(json!({
                "kbit_s": rate, "octets": size, "sent": sent, "received": received, "delivery": round(share),
                "kbit_s_received": round(received as f64 * *size as f64 * 8.0 / span.as_secs_f64() / 1000.0),
            }));
        }
    }
    let mut most = 0.0;
    for rate in SEARCH {
        run.step(&format!("{} Mbit/s", rate / 1000));
        let before = network.cpu_time()?;
        let (sent, received) = network.send(rate, SEARCH_OCTETS, span)?;
        let spent = network.cpu_time()?.saturating_sub(before).as_secs_f64();
        let mbit = received as f64 * SEARCH_OCTETS as f64 * 8.0 / span.as_secs_f64() / 1e6;
        let per_core = received as f64 / spent.max(1e-9);
        run.rows.push(json!({
            "search_kbit_s": rate, "octets": SEARCH_OCTETS, "sent": sent, "received": received, "mbit_s": round(mbit),
            "pps_of_a_core": per_core.round(),
        }));
        if received as f64 >= MIN_DELIVERY * sent as f64 {
            most = mbit;
        }
    }
    run.summarise("delivery_min", round(least));
    run.summarise("max_mbps", round(most));
    run.require(least >= 1.0, || format!("only {least:.4} of the datagrams of one case arrived"));
    Ok(())
}

struct UdpNetwork {
    _road: Road,
    pair: RoadPair,
}

impl UdpNetwork {
    fn build() -> Result<UdpNetwork> {
        let road = Road::new(RadioSpec { queue_bytes: 1 << 20, ..RadioSpec::default() }, SETTINGS)?;
        let pair = RoadPair::add(&road, "passenger-car", [0.0, 200.0])?;
        pair.wait_until_connected(1900)?;
        Ok(UdpNetwork { _road: road, pair })
    }

    /// CPU time of both daemons.
    fn cpu_time(&self) -> Result<Duration> {
        let [first, second] = &self.pair.stations;
        Ok(first.daemon.usage()?.cpu_time + second.daemon.usage()?.cpu_time)
    }

    /// Sends `rate` kbit/s in datagrams of `octets` for `span`; the numbers of sent and received datagrams.
    fn send(&self, rate: u64, octets: usize, span: Duration) -> Result<(u64, u64)> {
        let [near, far] = self.pair.ends();
        let out = near.host.in_namespace(|| UdpSocket::bind((near.address, PORT)))??;
        let into = far.host.in_namespace(|| UdpSocket::bind((far.address, PORT)))??;
        setsockopt(&into, RcvBuf, &(4 << 20)).ok();
        into.set_read_timeout(Some(Duration::from_millis(50)))?;
        let received = Arc::new(AtomicU64::new(0));
        let (count, mut receiver) = (received.clone(), Workers::default());
        receiver.spawn("udp in", move |stop| count_datagrams(&into, &count, stop))?;
        let datagram = vec![0x55; octets];
        let pause = Duration::from_nanos(octets as u64 * 8 * 1_000_000 / rate.max(1));
        let (begin, mut sent) = (clock::now(), 0_u32);
        while begin.elapsed() < span {
            out.send_to(&datagram, (far.address, PORT))?;
            sent += 1;
            std::thread::sleep((pause * sent).saturating_sub(begin.elapsed()));
        }
        std::thread::sleep(Duration::from_millis(200));
        receiver.stop();
        Ok((sent.into(), received.load(Ordering::Relaxed)))
    }
}

fn count_datagrams(socket: &UdpSocket, received: &AtomicU64, stop: &AtomicBool) {
    let mut buffer = [0; 2048];
    loop {
        match socket.recv(&mut buffer) {
            Ok(_) => drop(received.fetch_add(1, Ordering::Relaxed)),
            Err(_) if stop.load(Ordering::Relaxed) => return,
            Err(_) => {}
        }
    }
}
