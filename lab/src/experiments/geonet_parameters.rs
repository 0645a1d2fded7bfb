//! Throughput over one hop by the parameters of the CarGeo6 paper's Table II: sending interval and receive buffer of UDP,
//! window and maximum segment size of TCP. The channel is that of the paper, 802.11g in ad hoc mode.

use crate::experiments::prelude::*;
use crate::load::BulkConnections;
use crate::load::bulk_tcp::TcpLimits;
use crate::load::datagrams::DatagramLoad;
use crate::topology::road::{Road, RoadPair};
use roam6_sim::RadioSpec;

/// Octets of a datagram.
const OCTETS: usize = 1300;
/// Time from one datagram to the next, microseconds.
const INTERVALS: [u64; 7] = [20_000, 10_000, 5000, 2000, 1000, 500, 250];
/// Receive buffers of UDP, octets; the receiver reads every 20 ms, as a program that plays a video, and is sent 10 Mbit/s.
const UDP_BUFFERS: [usize; 6] = [4096, 8192, 16_384, 32_768, 65_536, 131_072];
const READ_INTERVAL: Duration = Duration::from_millis(20);
const BUFFERED_KBIT_S: u64 = 10_000;
/// Receive buffers of TCP, octets, which limit its window.
const TCP_BUFFERS: [usize; 7] = [2304, 4096, 8192, 16_384, 32_768, 65_536, 131_072];
/// Maximum segment sizes, octets; the last one is what the MTU of the virtual link permits.
const SEGMENT_SIZES: [u32; 6] = [216, 416, 536, 816, 1076, 1326];
const SETTINGS: &str = "beacon = \"1s\"\npacket_data_rate = 4000000000\n";
const RANGE: f64 = 300.0;
const DISTANCE: f64 = 200.0;
const PORT: u16 = 9760;
/// How long a connection runs before it is measured.
const WARM_UP: Duration = Duration::from_millis(500);

pub(super) fn run(run: &mut Run) -> Result<()> {
    let (rounds, span) = if run.quick { (2, Duration::from_millis(400)) } else { (10, Duration::from_secs(1)) };
    run.set_steps(rounds * (INTERVALS.len() + UDP_BUFFERS.len() + TCP_BUFFERS.len() + SEGMENT_SIZES.len()));
    let road = Road::new(RadioSpec::ieee80211g(RANGE), SETTINGS)?;
    let pair = RoadPair::add(&road, "passenger-car", [0.0, DISTANCE])?;
    pair.wait_until_connected(1300)?;
    for micros in INTERVALS {
        let load = DatagramLoad { interval: Duration::from_micros(micros), ..DatagramLoad::at_rate(1, OCTETS, span) };
        datagrams(run, &pair, ("sending interval", micros as f64 / 1000.0), load, rounds)?;
    }
    for receive_buffer in UDP_BUFFERS {
        let load = DatagramLoad::at_rate(BUFFERED_KBIT_S, OCTETS, span);
        let load = DatagramLoad { receive_buffer, read_interval: READ_INTERVAL, ..load };
        datagrams(run, &pair, ("receive buffer", receive_buffer as f64), load, rounds)?;
    }
    for octets in TCP_BUFFERS {
        let limits = TcpLimits { receive_buffer: Some(octets), ..TcpLimits::default() };
        bulk_tcp(run, &pair, ("window", octets as f64), limits, (rounds, span))?;
    }
    for octets in SEGMENT_SIZES {
        let limits = TcpLimits { segment_size: Some(octets), ..TcpLimits::default() };
        bulk_tcp(run, &pair, ("segment size", f64::from(octets)), limits, (rounds, span))?;
    }
    Ok(())
}

/// The name of a parameter, and its value.
type Setting = (&'static str, f64);

fn datagrams(run: &mut Run, pair: &RoadPair, setting: Setting, load: DatagramLoad, rounds: usize) -> Result<()> {
    let (mut rates, mut deliveries) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        run.step(&format!("{}: {}", setting.0, setting.1));
        let count = load.send(pair.ends())?;
        rates.push(count.kbit_s(&load) / 1000.0);
        deliveries.push(count.delivery());
    }
    report(run, setting, &rates, Some(&deliveries));
    Ok(())
}

fn bulk_tcp(
    run: &mut Run,
    pair: &RoadPair,
    setting: Setting,
    limits: TcpLimits,
    effort: (usize, Duration),
) -> Result<()> {
    let (rounds, span) = effort;
    let mut rates = Vec::new();
    for _ in 0..rounds {
        run.step(&format!("{}: {}", setting.0, setting.1));
        let connection = BulkConnections::start_limited(pair.ends(), PORT, limits)?;
        sleep(WARM_UP);
        rates.push(connection.rate(span) * 1000.0);
    }
    report(run, setting, &rates, None);
    Ok(())
}

fn report(run: &mut Run, (parameter, value): Setting, rates: &[f64], deliveries: Option<&[f64]>) {
    run.rows.push(json!({
        "parameter": parameter, "value": value, "mbit_s": distribution(rates), "delivery": deliveries.map(distribution),
    }));
    let key = format!("mbit_s_{}_{value}", parameter.replace(' ', "_"));
    run.summarise(&key, percentile(rates, 0.5).map(round));
}
