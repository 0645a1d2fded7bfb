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
    let mut rates = Vec::new();
    for size in sizes {
        run.step(&format!("{size} bindings"));
        let (row, of_size) = measure(*size, frames, Some(size) == sizes.last())?;
        run.rows.push(row);
        rates.push(of_size);
    }
    run.step(&format!("{on_disk} bindings, journal on disk"));
    let disk = measure_disk(on_disk)?;
    summarise(run, &disk);
    summarise_forwarding(run, &rates);
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

/// Rates of a number of bindings, burst by burst: of the home agent and of the plain router, with packets to few networks
/// and to any of them.
#[derive(Default)]
struct SizeRates {
    few: [Vec<f64>; 2],
    random: [Vec<f64>; 2],
}

/// The slowest size over the smallest one, which is measured minutes before; and home agent over plain router, in turn.
fn summarise_forwarding(run: &mut Run, all: &[SizeRates]) {
    type Pick = fn(&SizeRates) -> &[Vec<f64>; 2];
    let lasting = |pick: fn(&SizeRates) -> &[f64]| {
        let (first, others) = all.split_first()?;
        Estimate::least(others.iter().filter_map(|one| ratio_of_medians(pick(one), pick(first), LEVEL)))
    };
    run.estimate("forwarding_ratio_min", lasting(|rates| &rates.few[0]));
    run.estimate("forwarding_random_ratio_min", lasting(|rates| &rates.random[0]));
    run.estimate("plain_random_ratio_min", lasting(|rates| &rates.random[1]));
    let pairs: [(&str, Pick); 2] = [
        ("forwarding_over_plain_at_max", |rates| &rates.few),
        ("forwarding_random_over_plain_at_max", |rates| &rates.random),
    ];
    for (name, pick) in pairs {
        let [ours, theirs] = all.last().map(pick).cloned().unwrap_or_default();
        run.estimate(name, median(&ratios(&ours, &theirs), LEVEL));
    }
}

/// A router and the packets that it has forwarded.
struct RouterUnderTest<'a> {
    taps: &'a mut RouterTaps,
    /// Next Header of forwarded packets.
    next_header: u8,
    rates: Vec<f64>,
    offered: usize,
    delivered: usize,
}

#[expect(clippy::indexing_slicing, reason = "a row is a JSON object")]
fn measure(size: u32, frames: usize, is_largest: bool) -> Result<(Value, SizeRates)> {
    let mut load = RegistrationLoad::start(size, None)?;
    let empty = load.daemon.anonymous_memory()?;
    let mut row = count_updates(&mut load)?;
    let full = load.daemon.anonymous_memory()?;
    row["bytes_per_binding"] = (full.saturating_sub(empty) as f64 / f64::from(size)).round().into();
    row["resident_before_kb"] = (empty / 1024).into();
    row["resident_after_kb"] = (full / 1024).into();
    row["journal"] = "in memory".into();
    if is_largest {
        row["bu_to_ba_while_shown_ms"] = distribution(delays_during_show(&mut load)?);
        row["bu_to_ba_while_table_read_ms"] = distribution(delays_during_reload(&mut load)?);
    }
    let host = Host::new(&format!("plain{size}"))?;
    let mut plain = plain_router(&host, size)?;
    let mut share = f64::INFINITY;
    let active: Vec<u32> = (0..ACTIVE_NETWORKS).map(|_| load.random_router()).collect();
    let mut rates = SizeRates::default();
    for (kind, active, rates) in [("", Some(&active), &mut rates.few), ("random_", None, &mut rates.random)] {
        let delivered;
        (*rates, delivered) = compare_routers(&mut load, &mut plain, frames, active.map(Vec::as_slice))?;
        let [ours, theirs] = rates.each_ref().map(|rates| percentile(rates, 0.5).map(round));
        row[format!("forwarding_{kind}kpps_per_core")] = ours.into();
        row[format!("plain_{kind}kpps_per_core")] = theirs.into();
        share = share.min(delivered);
    }
    row["forwarded_share"] = round(share).into();
    Ok((row, rates))
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

impl<'a> RouterUnderTest<'a> {
    fn new(sides: &'a mut RouterTaps, carried: u8) -> RouterUnderTest<'a> {
        while sides.uplink.receive().is_some() {}
        RouterUnderTest { taps: sides, next_header: carried, rates: Vec::new(), offered: 0, delivered: 0 }
    }

    /// Sends all packets, then counts those that came out.
    fn burst(&mut self, packets: &[Vec<u8>]) -> Result<()> {
        let before = clock::thread_cpu_time();
        for packet in packets {
            self.taps.correspondent_link.send(packet)?;
        }
        self.rates.push(packets.len() as f64 / (clock::thread_cpu_time() - before).as_secs_f64() / 1000.0);
        self.offered += packets.len();
        while let Some(packet) = self.taps.uplink.receive() {
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

/// Sends packets from a correspondent to mobile networks, those of `active` or all, through the home agent and the
/// plain router in turn; thousands of packets per second of CPU time of each burst, and the delivered share of the home agent.
fn compare_routers(
    load: &mut RegistrationLoad,
    plain: &mut RouterTaps,
    frames: usize,
    active: Option<&[u32]>,
) -> Result<([Vec<f64>; 2], f64)> {
    let last = load.size - 1;
    let mut learning =
        [RouterUnderTest::new(&mut load.taps, protocol::IPV6), RouterUnderTest::new(plain, protocol::NONE)];
    // Warm-up with one packet to each network, so that initial cache misses are not measured.
    let all: Vec<u32> = (0..last).collect();
    for some in active.unwrap_or(&all).chunks(BURST) {
        let packets: Vec<Vec<u8>> = some.iter().map(|number| data_packet(number % last)).collect();
        learning.iter_mut().try_for_each(|passage| passage.burst(&packets))?;
    }
    let dice = &mut load.rng;
    let mut anyone = || u32::try_from(dice.below(last.into())).unwrap_or_default();
    let mut ours = RouterUnderTest::new(&mut load.taps, protocol::IPV6);
    let mut theirs = RouterUnderTest::new(plain, protocol::NONE);
    while ours.offered < frames {
        let some = |number| active.and_then(|active| active.iter().cycle().nth(number).copied());
        // The last row of the largest table has been removed by now.
        let packet = |number| data_packet(some(number).unwrap_or_else(&mut anyone) % last);
        let packets: Vec<Vec<u8>> = (0..BURST).map(packet).collect();
        ours.burst(&packets)?;
        theirs.burst(&packets)?;
    }
    let delivered = ours.delivered as f64 / ours.offered as f64;
    Ok(([ours.rates, theirs.rates], delivered))
}

/// A packet from the correspondent to the node of a mobile network.
fn data_packet(number: u32) -> Vec<u8> {
    let destination = Ipv6Addr::from_bits(mobile_network(number).to_bits() + 1);
    let payload = [0; PACKET - ip6::HEADER_LENGTH];
    ip6::emit(&Header::new(CORRESPONDENT, destination), protocol::NONE, &payload)
}
