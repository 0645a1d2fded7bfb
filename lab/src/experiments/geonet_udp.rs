//! Datagrams between nodes in two vehicles, one hop of GeoNetworking: delivery ratio and throughput at the paper's rates and
//! sizes (Figs 10 and 11) on channels of 802.11 with contention and air time, and the highest rate on a channel without a rate.

use crate::experiments::prelude::*;
use crate::load::broadcasters::{Broadcasters, FRAMES_PER_SECOND};
use crate::load::datagrams::DatagramLoad;
use crate::topology::road::{Road, RoadPair, road_position};
use roam6_sim::RadioSpec;

/// The paper's rates, kbit/s.
const RATES: [u64; 6] = [250, 500, 1000, 1250, 1750, 2000];
/// Rates of the search for the limit, kbit/s, and their datagram size; 1300 octets fit into one packet.
const SEARCH: [u64; 10] = [5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 400_000, 600_000, 800_000, 1_200_000];
const SEARCH_OCTETS: usize = 1300;
/// Delivery ratio required of the maximum rate.
const MIN_DELIVERY: f64 = 0.99;
const SETTINGS: &str = "beacon = \"1s\"\npacket_data_rate = 4000000000\n";
/// Radio range, and place of the second vehicle, metres; the other stations are in between.
const RANGE: f64 = 300.0;
const DISTANCE: f64 = 200.0;
/// Octets before the payload of UDP in a frame (Ethernet, GeoNetworking, IPv6, UDP), and the largest payload that is not
/// fragmented.
const HEADERS: usize = 14 + 60 + 40 + 8;
const UNFRAGMENTED: usize = 1398 - 48;

/// Octets of a station's queue: short beside what is sent, so that the queue does not hide what the channel refuses.
const QUEUE: usize = 32 * 1024;

/// A radio channel of 802.11.
struct RatedChannel {
    name: &'static str,
    /// In keys of the summary.
    key: &'static str,
    spec: fn(f64) -> RadioSpec,
    /// Whether other stations use it as well.
    is_shared: bool,
}

const CHANNELS: [RatedChannel; 3] = [
    RatedChannel { name: "802.11g", key: "80211g", spec: RadioSpec::ieee80211g, is_shared: false },
    RatedChannel { name: "802.11p", key: "80211p", spec: RadioSpec::ieee80211p, is_shared: false },
    RatedChannel { name: "802.11p, shared", key: "80211p_shared", spec: RadioSpec::ieee80211p, is_shared: true },
];

pub(super) fn run(run: &mut Run) -> Result<()> {
    let (step, span) = if run.quick { (600, Duration::from_millis(400)) } else { (150, Duration::from_secs(1)) };
    let sizes: Vec<usize> = (100..=1900).step_by(step).collect();
    run.set_steps(CHANNELS.len() * RATES.len() * sizes.len() + SEARCH.len());
    for channel in &CHANNELS {
        measure_channel(run, channel, &sizes, span)?;
    }
    run.summarise("frames_of_others_per_second", FRAMES_PER_SECOND);
    search_limit(run, if run.quick { span } else { span * 2 })
}

/// Delivery and throughput at each rate and size.
fn measure_channel(run: &mut Run, channel: &RatedChannel, sizes: &[usize], span: Duration) -> Result<()> {
    let spec = RadioSpec { queue_bytes: QUEUE, ..(channel.spec)(RANGE) };
    let (road, pair) = build(spec)?;
    let others =
        channel.is_shared.then(|| Broadcasters::start(&road.emulator, road.channel, road_position(DISTANCE / 2.0)));
    let _others = others.transpose()?;
    let (mut least, mut least_of_possible) = (1.0_f64, f64::INFINITY);
    for rate in RATES {
        for &octets in sizes {
            run.step(&format!("{}: {rate} kbit/s, {octets} octets", channel.name));
            let load = DatagramLoad::at_rate(rate, octets, span);
            let count = load.send(pair.ends())?;
            least = least.min(count.delivery());
            let most = span.as_secs_f64() / spec.unicast_interval(octets + HEADERS).as_secs_f64();
            let of_possible = count.received as f64 / most.min(count.sent as f64);
            if octets <= UNFRAGMENTED && !channel.is_shared {
                least_of_possible = least_of_possible.min(of_possible);
            }
            run.rows.push(json!({
                "channel": channel.name, "kbit_s": rate, "octets": octets, "sent": count.sent, "received": count.received,
                "delivery": round(count.delivery()), "kbit_s_received": round(count.kbit_s(&load)),
            }));
        }
    }
    run.summarise(&format!("delivery_min_{}", channel.key), round(least));
    if !channel.is_shared {
        run.summarise(&format!("delivery_of_possible_min_{}", channel.key), round(least_of_possible));
    }
    Ok(())
}

/// The highest rate that arrives where the channel has none: that of the daemons.
fn search_limit(run: &mut Run, span: Duration) -> Result<()> {
    let (_road, pair) = build(RadioSpec { queue_bytes: 1 << 20, ..RadioSpec::default() })?;
    let mut most = 0.0;
    for rate in SEARCH {
        run.step(&format!("{} Mbit/s", rate / 1000));
        let before = cpu_time(&pair)?;
        let load = DatagramLoad::at_rate(rate, SEARCH_OCTETS, span);
        let count = load.send(pair.ends())?;
        let spent = cpu_time(&pair)?.saturating_sub(before).as_secs_f64();
        let mbit = count.received as f64 * SEARCH_OCTETS as f64 * 8.0 / span.as_secs_f64() / 1e6;
        run.rows.push(json!({
            "search_kbit_s": rate, "octets": SEARCH_OCTETS, "sent": count.sent, "received": count.received,
            "mbit_s": round(mbit), "pps_of_a_core": (count.received as f64 / spent.max(1e-9)).round(),
        }));
        if count.delivery() >= MIN_DELIVERY {
            most = mbit;
        }
    }
    run.summarise("max_mbps", round(most));
    Ok(())
}

fn build(spec: RadioSpec) -> Result<(Road, RoadPair)> {
    let road = Road::new(spec, SETTINGS)?;
    let pair = RoadPair::add(&road, "passenger-car", [0.0, DISTANCE])?;
    pair.wait_until_connected(1900)?;
    Ok((road, pair))
}

/// CPU time of both daemons.
fn cpu_time(pair: &RoadPair) -> Result<Duration> {
    let [first, second] = &pair.stations;
    Ok(first.daemon.usage()?.cpu_time + second.daemon.usage()?.cpu_time)
}
