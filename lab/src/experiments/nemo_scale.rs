//! One home agent with 10 to 1 000 000 bindings: updates per second, memory, delay of the acknowledgement, delay of an
//! update during other work, and forwarding compared with plain routing with as many routes.

use crate::bed::{Host, sandbox};
use crate::experiments::prelude::*;
use crate::load::registrations::{CORRESPONDENT, RegistrationLoad, RouterTaps, mobile_network, prefix_table};
use roam6_wire::ip6::{self, Header, protocol};
use std::fs;
use std::net::Ipv6Addr;

/// Updates in flight when the rate is measured.
const WINDOW: usize = 64;
/// Frames sent before those that came out are counted.
const BURST: usize = 256;
/// Mobile networks with traffic, if not all have traffic.
const ACTIVE_NETWORKS: usize = 64;
/// Time in which a prefix table is reloaded.
const TABLE_TIME: Duration = Duration::from_secs(4);
/// Octets of a forwarded packet.
const PACKET: usize = 250;

pub(super) fn run(run: &mut Run) -> Result<()> {
    let sizes: &[u32] = if run.quick { &[10, 1000, 10_000] } else { &[10, 1000, 16_000, 100_000, 1_000_000] };
    let frames = if run.quick { 100_000 } else { 400_000 };
    let on_disk = if run.quick { 1000 } else { 10_000 };
    run.set_steps(sizes.len() + 1);
    let mut comparisons = Vec::new();
    let mut smallest = None;
    for size in sizes {
        run.step(&format!("{size} bindings"));
        let mut routers = Routers::start(*size)?;
        let (row, of_size) = measure(&mut routers, smallest.as_mut(), frames, Some(size) == sizes.last())?;
        run.rows.push(row);
        comparisons.push(of_size);
        smallest.get_or_insert(routers);
    }
    run.step(&format!("{on_disk} bindings, journal on disk"));
    let disk = measure_disk(on_disk)?;
    summarise(run, &disk);
    summarise_forwarding(run, &comparisons);
    run.rows.push(disk);
    Ok(())
}

fn summarise(run: &mut Run, disk: &Value) {
    let figure = |name: &str| -> Vec<f64> {
        run.rows.iter().filter_map(|row| row.pointer(name).and_then(Value::as_f64)).collect()
    };
    let last = |name: &str| figure(name).last().copied();
    let resident = figure("/resident_after_kb");
    let grown = resident.last().zip(resident.first()).map(|(most, least)| (most - least) * 1024.0);
    let largest = last("/bindings");
    let on_disk = |name: &str| disk.pointer(name).and_then(Value::as_f64);
    let summary = [
        ("bindings_max", largest),
        ("updates_per_s_at_max", last("/refreshes_per_s")),
        ("bytes_per_binding_at_max", last("/bytes_per_binding")),
        ("bytes_per_router_with_table_at_max", grown.zip(largest).map(|(grown, largest)| (grown / largest).round())),
        ("bu_to_ba_ms_p50_at_max", last("/bu_to_ba_ms/p50")),
        ("bu_to_ba_ms_p99_at_max", last("/bu_to_ba_ms/p99")),
        ("bu_to_ba_while_shown_ms_max", last("/bu_to_ba_while_shown_ms/max")),
        ("bu_to_ba_while_table_read_ms_max", last("/bu_to_ba_while_table_read_ms/max")),
        ("disk_registrations_per_s", on_disk("/registrations_per_s")),
        ("disk_bu_to_ba_ms_p50", on_disk("/bu_to_ba_ms/p50")),
    ];
    for (name, value) in summary {
        run.summarise(name, value);
    }
}

/// Rates of a home agent and of a plain router, burst by burst.
type Rates = [Vec<f64>; 2];

/// Rates with a number of bindings, and those with the smallest number, which are measured in turn with them: the speed of the
/// processor changes within a minute.
#[derive(Default)]
struct Comparison {
    own: Rates,
    /// Empty for the smallest number itself.
    smallest: Rates,
}

/// The comparisons with packets to few mobile networks and to any of them.
#[derive(Default)]
struct SizeComparisons {
    few: Comparison,
    random: Comparison,
}

/// The slowest size over the smallest one; and home agent over plain router with the largest one.
fn summarise_forwarding(run: &mut Run, all: &[SizeComparisons]) {
    type Pick = fn(&SizeComparisons) -> &Comparison;
    let lasting = |pick: Pick, router: fn(&Rates) -> &Vec<f64>| {
        let paired = all.iter().map(pick).map(|one| ratios(router(&one.own), router(&one.smallest)));
        Estimate::least(paired.filter_map(|ratios| median(&ratios, LEVEL)))
    };
    let [few, random]: [Pick; 2] = [|all| &all.few, |all| &all.random];
    run.estimate("forwarding_ratio_min", lasting(few, |[ours, _]| ours));
    run.estimate("forwarding_random_ratio_min", lasting(random, |[ours, _]| ours));
    run.estimate("plain_random_ratio_min", lasting(random, |[_, plain]| plain));
    for (name, pick) in [("forwarding_over_plain_at_max", few), ("forwarding_random_over_plain_at_max", random)] {
        let over_plain = all.last().map(pick).map(|Comparison { own: [ours, plain], .. }| ratios(ours, plain));
        run.estimate(name, over_plain.and_then(|ratios| median(&ratios, LEVEL)));
    }
}

/// A home agent and a plain router with as many networks.
struct Routers {
    load: RegistrationLoad,
    plain: RouterTaps,
    /// The mobile networks with traffic, if not all have traffic.
    active: Vec<u32>,
}

impl Routers {
    fn start(size: u32) -> Result<Routers> {
        let mut load = RegistrationLoad::start(size, None)?;
        let plain = plain_router(&Host::new(&format!("plain{size}"))?, size)?;
        let active = (0..ACTIVE_NETWORKS).map(|_| load.random_router()).collect();
        Ok(Routers { load, plain, active })
    }

    /// All mobile networks that are reachable. The last row of the largest table is removed during the run.
    fn reachable(&self) -> u32 {
        self.load.size - 1
    }

    /// A burst to the active mobile networks, or to random ones.
    fn burst_packets(&mut self, is_random: bool) -> Vec<Vec<u8>> {
        let reachable = self.reachable();
        let mut random = || u32::try_from(self.load.rng.below(reachable.into())).unwrap_or_default();
        let any: Vec<u32> = if is_random { (0..BURST).map(|_| random()).collect() } else { self.active.clone() };
        any.iter().cycle().take(BURST).map(|number| data_packet(number % reachable)).collect()
    }

    /// One packet to each network, so that initial cache misses are not measured.
    fn warm_up(&mut self, lanes: &mut [Lane; 2], is_random: bool) -> Result<()> {
        let reachable = self.reachable();
        let all = if is_random { (0..reachable).collect() } else { self.active.clone() };
        for some in all.chunks(BURST) {
            let packets: Vec<Vec<u8>> = some.iter().map(|number| data_packet(number % reachable)).collect();
            self.send(lanes, &packets)?;
        }
        Ok(())
    }

    /// Sends packets through the home agent and then through the plain router.
    fn send(&mut self, [ours, plain]: &mut [Lane; 2], packets: &[Vec<u8>]) -> Result<()> {
        ours.burst(&mut self.load.taps, packets)?;
        plain.burst(&mut self.plain, packets)
    }
}

/// The packets that a router has forwarded.
struct Lane {
    /// Next Header of forwarded packets.
    next_header: u8,
    rates: Vec<f64>,
    offered: usize,
    delivered: usize,
}

#[expect(clippy::indexing_slicing, reason = "a row is a JSON object")]
fn measure(
    routers: &mut Routers,
    mut smallest: Option<&mut Routers>,
    frames: usize,
    is_largest: bool,
) -> Result<(Value, SizeComparisons)> {
    let load = &mut routers.load;
    let empty = load.daemon.anonymous_memory()?;
    let mut row = count_updates(load)?;
    let full = load.daemon.anonymous_memory()?;
    row["bytes_per_binding"] = (full.saturating_sub(empty) as f64 / f64::from(load.size)).round().into();
    row["resident_before_kb"] = (empty / 1024).into();
    row["resident_after_kb"] = (full / 1024).into();
    row["journal"] = "in memory".into();
    if is_largest {
        row["bu_to_ba_while_shown_ms"] = distribution(delays_during_show(load)?);
        row["bu_to_ba_while_table_read_ms"] = distribution(delays_during_reload(load)?);
    }
    let mut share = f64::INFINITY;
    let mut all = SizeComparisons::default();
    for (kind, is_random, comparison) in [("", false, &mut all.few), ("random_", true, &mut all.random)] {
        let delivered;
        (*comparison, delivered) = compare_routers(routers, smallest.as_deref_mut(), frames, is_random)?;
        let [ours, theirs] = comparison.own.each_ref().map(|rates| percentile(rates, 0.5).map(round));
        row[format!("forwarding_{kind}kpps_per_core")] = ours.into();
        row[format!("plain_{kind}kpps_per_core")] = theirs.into();
        share = share.min(delivered);
    }
    row["forwarded_share"] = round(share).into();
    Ok((row, all))
}

/// The cost of a journal on a disk.
#[expect(clippy::indexing_slicing, reason = "a row is a JSON object")]
fn measure_disk(size: u32) -> Result<Value> {
    let (folder, kind) = sandbox::disk_dir()?;
    let mut load = RegistrationLoad::start(size, Some(&folder))?;
    let mut row = count_updates(&mut load)?;
    row["journal"] = kind.into();
    Ok(row)
}

/// A router without tunnels and with a route to each of `size` networks.
fn plain_router(host: &Host, size: u32) -> Result<RouterTaps> {
    let sides = RouterTaps::open(host)?;
    let route = |number| format!("route add {}/64 via fe80::1 dev net0", mobile_network(number));
    let routes: Vec<String> = (0..size).map(route).collect();
    host.ip(&routes.iter().map(String::as_str).collect::<Vec<_>>())?;
    Ok(sides)
}

impl Lane {
    /// Those of a home agent and of a plain router.
    fn pair() -> [Lane; 2] {
        [protocol::IPV6, protocol::NONE].map(|next_header| Lane {
            next_header,
            rates: Vec::new(),
            offered: 0,
            delivered: 0,
        })
    }

    /// Sends all packets, then counts those that came out.
    fn burst(&mut self, taps: &mut RouterTaps, packets: &[Vec<u8>]) -> Result<()> {
        let before = clock::thread_cpu_time();
        for packet in packets {
            taps.correspondent_link.send(packet)?;
        }
        self.rates.push(packets.len() as f64 / (clock::thread_cpu_time() - before).as_secs_f64() / 1000.0);
        self.offered += packets.len();
        while let Some(packet) = taps.uplink.receive() {
            self.delivered += usize::from(packet.get(6) == Some(&self.next_header));
        }
        Ok(())
    }
}

/// Registers all mobile routers once, then some again, then a few one by one.
fn count_updates(load: &mut RegistrationLoad) -> Result<Value> {
    let all: Vec<u32> = (0..load.size).collect();
    let began = clock::now();
    load.register(&all, WINDOW)?;
    let registering = began.elapsed();
    // In order, so that no router sends a second update before its acknowledgement.
    let some: Vec<u32> = (0..20_000).map(|number| number % load.size).collect();
    let began = clock::now();
    load.register(&some, WINDOW.min(usize::try_from(load.size / 2)?))?;
    let refreshing = began.elapsed();
    let few: Vec<u32> = (0..300).map(|_| load.random_router()).collect();
    let delays = load.register(&few, 1)?.delays;
    Ok(json!({
        "bindings": load.size,
        "registrations_per_s": (f64::from(load.size) / registering.as_secs_f64()).round(),
        "refreshes_per_s": (some.len() as f64 / refreshing.as_secs_f64()).round(),
        "bu_to_ba_ms": distribution(&delays),
    }))
}

/// Delays of single updates while a client lists all bindings.
fn delays_during_show(load: &mut RegistrationLoad) -> Result<Vec<f64>> {
    let mut reader = load.daemon.spawn_client(&["show", "bindings", "--json"])?;
    let mut delays = Vec::new();
    while reader.try_wait()?.is_none() {
        let someone = load.random_router();
        delays.extend(load.register(&[someone], 1)?.delays);
    }
    Ok(delays)
}

/// Delays of single updates while the prefix table is reloaded without its last row.
fn delays_during_reload(load: &mut RegistrationLoad) -> Result<Vec<f64>> {
    let began = clock::now();
    fs::write(&load.prefix_table_file, prefix_table(load.size - 1)?)?;
    let mut delays = Vec::new();
    while began.elapsed() < TABLE_TIME {
        let someone = load.random_router() % (load.size - 1);
        delays.extend(load.register(&[someone], 1)?.delays);
    }
    Ok(delays)
}

/// Sends packets from a correspondent to active or to random mobile networks, through the routers of this size and of the smallest
/// one in turn; thousands of packets per second of CPU time of each burst, and the delivered share of the home agent.
fn compare_routers(
    of_size: &mut Routers,
    smallest: Option<&mut Routers>,
    frames: usize,
    is_random: bool,
) -> Result<(Comparison, f64)> {
    let mut all: Vec<&mut Routers> = core::iter::once(of_size).chain(smallest).collect();
    let mut lanes: Vec<[Lane; 2]> = Vec::new();
    for routers in &mut all {
        // Answers to updates are no forwarded packets.
        while routers.load.taps.uplink.receive().is_some() {}
        routers.warm_up(&mut Lane::pair(), is_random)?;
        lanes.push(Lane::pair());
    }
    for _ in 0..frames.div_ceil(BURST) {
        for (routers, lanes) in all.iter_mut().zip(&mut lanes) {
            let packets = routers.burst_packets(is_random);
            routers.send(lanes, &packets)?;
        }
    }
    let mut lanes = lanes.into_iter();
    let [ours, plain] = lanes.next().context("no lanes")?;
    let delivered = ours.delivered as f64 / ours.offered as f64;
    let smallest = lanes.next().map(|lanes| lanes.map(|lane| lane.rates)).unwrap_or_default();
    Ok((Comparison { own: [ours.rates, plain.rates], smallest }, delivered))
}

/// A packet from the correspondent to the node of a mobile network.
fn data_packet(number: u32) -> Vec<u8> {
    let destination = Ipv6Addr::from_bits(mobile_network(number).to_bits() + 1);
    let payload = [0; PACKET - ip6::HEADER_LENGTH];
    ip6::emit(&Header::new(CORRESPONDENT, destination), protocol::NONE, &payload)
}
