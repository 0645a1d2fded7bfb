//! Two uplinks of any two families, registered together: gap and loss when the preferred one is pulled and comes back, and
//! how flows are distributed by weights (RFC 5648, RFC 5555); and how soon packets pass by UDP once a firewall drops the tunnel.

use crate::experiments::prelude::*;
use crate::load::handover::{HandoverMeasurement, HandoverSeries, HandoverTraffic, OBSERVATION_TIME};
use crate::topology::nemo::{CORRESPONDENT, NemoNetwork, Vehicle};
use crate::topology::uplinks::{self, Family, ROUTER_KEYS};
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::RcvBufForce;
use roam6_proto::Report;
use roam6_proto::contract::report::NemoReport;
use std::net::{SocketAddrV6, UdpSocket};

/// One-way delay to the home agent.
const DELAY: Duration = Duration::from_millis(25);
/// After registration: for how long the paths are observed. Going over to UDP takes two seconds.
const SETTLE_TIME: Duration = Duration::from_secs(3);
/// A quick run: each family as the preferred one and in reserve.
const QUICK: [[Family; 2]; 4] = [
    [Family::Ipv6, Family::Ipv4],
    [Family::Ipv4, Family::Nat],
    [Family::Nat, Family::Ipv6Udp],
    [Family::Ipv6Udp, Family::Ipv6],
];

/// The uplinks of the vehicle whose flows are distributed.
const WEIGHTED: &str = "sharing = \"weights\"\n\
    [[mobile_router.uplink]]\ninterface = \"up0\"\nweight = 3\n[[mobile_router.uplink]]\ninterface = \"up1\"\nweight = 1\n";
/// The share of the first of them.
const FIRST_SHARE: f64 = 0.75;
/// So many flows of a datagram each: the share of a fair draw scatters by 0.007.
const FLOWS: u32 = 4000;
const FLOW_PORT: u16 = 9400;
/// Octets of a datagram.
const DATAGRAM: usize = 400;

/// What a firewall begins to drop on the way of an uplink in use: the tunnel alone, and all that does not pass UDP-only networks.
const FILTERS: [&str; 2] = ["41", "4, 41, 50, 135"];
/// An uplink that does not go over to UDP within this time has failed.
const FALLBACK_TIMEOUT: Duration = Duration::from_secs(10);
/// Datagrams per second in each direction meanwhile.
const FALLBACK_RATE: u32 = 100;

/// What was measured with two families.
struct Findings {
    planned: Vec<HandoverMeasurement>,
    linkdown: Vec<HandoverMeasurement>,
    /// The transfer was delivered whole.
    tcp_is_complete: bool,
    /// Deviation of the first uplink's share of flows from its weight, 0 to 1.
    share_error: f64,
}

impl Findings {
    fn moves(&self) -> impl Iterator<Item = &HandoverMeasurement> {
        self.planned.iter().chain(&self.linkdown)
    }

    fn udp_survived(&self) -> bool {
        self.moves().all(|one| one.recovered)
    }

    fn tcp_survived(&self) -> bool {
        self.tcp_is_complete && self.moves().all(|one| one.tcp_survived)
    }
}

pub(super) fn run(run: &mut Run) -> Result<()> {
    let all = Family::ALL.into_iter().flat_map(|first| Family::ALL.map(|second| [first, second]));
    let (pairs, times) = if run.quick { (QUICK.to_vec(), 1) } else { (all.collect(), 10) };
    run.set_steps(pairs.len() + 1);
    let tried = pairs.len();
    let mut measured = Vec::new();
    for pair in pairs {
        let [first, second] = pair.map(Family::name);
        run.step(&format!("{first}, in reserve {second}"));
        match measure(pair, times) {
            Ok(findings) => measured.push((pair, findings)),
            Err(why) => {
                run.faults.push(format!("{first}, in reserve {second}: {why:#}"));
                run.rows.push(json!({ "preferred": first, "standby": second, "fault": format!("{why:#}") }));
            }
        }
    }
    summarise(run, measured, tried);
    run.step("UDP in place of a tunnel that is filtered");
    measure_udp_fallback(run, times)
}

/// Filters the tunnel on the only uplink of a vehicle, and measures how long nothing passes until UDP is in use. Each time another
/// vehicle, since one remembers the network.
fn measure_udp_fallback(run: &mut Run, times: usize) -> Result<()> {
    let vehicles = u8::try_from(times * FILTERS.len())?;
    let network = uplinks::build(DELAY, vehicles, [Family::Ipv6; 2])?;
    let [access, _] = &network.visited;
    let mut silences = Vec::new();
    for (number, filter) in (0..vehicles).zip(FILTERS.into_iter().cycle()) {
        let vehicle = network.vehicle_with(number, &["up0"], ROUTER_KEYS)?;
        plug(&network, &vehicle, 0)?;
        vehicle.wait_until_connected(CORRESPONDENT)?;
        let mut train = Train::start([vehicle.node(), network.correspondent()], 9100, FALLBACK_RATE)?;
        sleep(OBSERVATION_TIME);
        let began = clock::unix_micros();
        uplinks::drop_protocols(access, filter)?;
        let is_udp = |report: &Report| matches!(report, Report::Nemo(NemoReport::TransportChanged { .. }));
        let changed = vehicle.daemon.events.wait_for(began, FALLBACK_TIMEOUT, is_udp);
        changed.with_context(|| format!("no change to UDP where {filter} are dropped"))?;
        sleep(OBSERVATION_TIME);
        // Packets of the last moments may still be in flight.
        silences.push(train.longest_silence(began, clock::unix_micros() - 150_000) as f64 / 1000.0);
        train.stop();
        network.emulator.unplug(vehicle.uplink(0)?)?;
        uplinks::drop_nothing(access)?;
    }
    run.rows.push(
        json!({ "kind": "udp_fallback", "filters": FILTERS, "silence_ms": distribution(silences.iter().copied()),
        "each": silences }),
    );
    run.summarise("udp_fallback_ms_max", percentile(silences, 1.0).map(round));
    Ok(())
}

fn summarise(run: &mut Run, measured: Vec<([Family; 2], Findings)>, tried: usize) {
    let round_trip = 2.0 * DELAY.as_secs_f64() * 1000.0;
    let (mut lost, mut gaps, mut share_error) = (0, Vec::new(), 0.0_f64);
    let (mut working, mut udp_survived, mut tcp_survived) = (0, true, true);
    for (pair, findings) in measured {
        working += usize::from(findings.udp_survived() && findings.tcp_survived());
        udp_survived &= findings.udp_survived();
        tcp_survived &= findings.tcp_survived();
        share_error = share_error.max(findings.share_error);
        lost = findings.planned.iter().map(|one| one.lost + one.lost_fine).fold(lost, usize::max);
        let beyond = |one: &HandoverMeasurement| one.gap_fine - round_trip;
        gaps.extend(median(&findings.linkdown.iter().map(beyond).collect::<Vec<_>>(), LEVEL));
        let [preferred, standby] = pair.map(Family::name);
        for (kind, measurements) in [("planned", findings.planned), ("linkdown", findings.linkdown)] {
            let row = json!({ "kind": kind, "preferred": preferred, "standby": standby, "round_trip_ms": round_trip,
                "weights_share_error": round(findings.share_error) });
            HandoverSeries { round_trip, measurements }.report(run, row);
        }
    }
    run.summarise("families_ok", working);
    run.summarise("families_failed", tried - working);
    run.summarise("planned_lost_max", lost);
    run.estimate("linkdown_gap_minus_rtt_ms_p50", Estimate::most(gaps));
    run.summarise("weights_share_error_max", round(share_error));
    run.summarise("udp_survived", u8::from(udp_survived));
    run.require_tcp(tcp_survived);
}

/// Builds the networks of a pair of families, and measures.
fn measure(families: [Family; 2], times: usize) -> Result<Findings> {
    let network = uplinks::build(DELAY, 2, families)?;
    let vehicle = network.vehicle_with(0, &["up0", "up1"], ROUTER_KEYS)?;
    register(&network, &vehicle, (0, families))?;
    let keys = format!("{ROUTER_KEYS}{WEIGHTED}");
    let weighted = network.vehicle_with_ports(1, &[], &["up0", "up1"], &keys)?;
    register(&network, &weighted, (1, families)).context("with weights")?;
    sleep(SETTLE_TIME);
    for each in [&vehicle, &weighted] {
        let events = each.daemon.events.events_from(0);
        let registered = events.iter().rev().find_map(|event| match &event.report {
            Report::Nemo(NemoReport::Bound { care_of, .. }) => Some(care_of.len()),
            _ => None,
        });
        ensure!(registered == Some(2), "one of the paths carries nothing, and is not registered any longer");
    }
    let share_error = (first_share(&network, &weighted)? - FIRST_SHARE).abs();
    let traffic = HandoverTraffic::start(&network, &vehicle)?;
    sleep(OBSERVATION_TIME);
    let (mut planned, mut linkdown) = (Vec::new(), Vec::new());
    for _ in 0..times {
        linkdown
            .push(traffic.measure(&vehicle, "linkdown", || network.emulator.unplug(vehicle.uplink(0)?).map(|_| None))?);
        planned.push(traffic.measure(&vehicle, "planned", || {
            let at = plug(&network, &vehicle, 0)?;
            vehicle.wait_registered(at, 2).map(|()| Some(at))
        })?);
    }
    let tcp_is_complete = traffic.finish()?.iter().all(Delivery::is_complete);
    Ok(Findings { planned, linkdown, tcp_is_complete, share_error })
}

/// Plugs both uplinks of a vehicle in, and waits until they are registered.
fn register(network: &NemoNetwork, vehicle: &Vehicle, (number, families): (u8, [Family; 2])) -> Result<()> {
    for (index, family) in families.into_iter().enumerate() {
        uplinks::configure(vehicle, number, index, family)?;
    }
    plug(network, vehicle, 0)?;
    vehicle.wait_until_connected(CORRESPONDENT)?;
    let at = plug(network, vehicle, 1)?;
    vehicle.wait_registered(at, 2)
}

/// Plugs an uplink into its access network; the time of link-up.
fn plug(network: &NemoNetwork, vehicle: &Vehicle, index: usize) -> Result<u64> {
    let access = network.visited.get(index).with_context(|| format!("no access network {index}"))?;
    network.emulator.plug(vehicle.uplink(index)?, access.link)
}

/// The first uplink's share of new flows from the mobile network, 0 to 1.
fn first_share(network: &NemoNetwork, vehicle: &Vehicle) -> Result<f64> {
    let socket = |end: &Endpoint<'_>, port| {
        let bound = end.host.in_namespace(|| UdpSocket::bind(SocketAddrV6::new(end.address, port, 0, 0)))?;
        bound.with_context(|| format!("{} on {}", end.address, end.host.name()))
    };
    let (node, correspondent) = (vehicle.node(), network.correspondent());
    let sink = socket(&correspondent, FLOW_PORT)?;
    setsockopt(&sink, RcvBufForce, &(DATAGRAM * 4 * FLOWS as usize))?;
    let sent =
        || -> Result<[u64; 2]> { Ok([vehicle.mr.packet_count("up0", "tx")?, vehicle.mr.packet_count("up1", "tx")?]) };
    let [before_first, before_second] = sent()?;
    for number in 0..FLOWS {
        let to = SocketAddrV6::new(correspondent.address, FLOW_PORT, 0, 0);
        socket(&node, 0)?.send_to(&[0; DATAGRAM], to)?;
        if number % 8 == 0 {
            sleep(Duration::from_millis(1));
        }
    }
    sleep(OBSERVATION_TIME);
    let [first, second] = sent()?;
    sink.set_nonblocking(true)?;
    let delivered = std::iter::from_fn(|| sink.recv(&mut [0; DATAGRAM]).ok()).count();
    ensure!(delivered == FLOWS as usize, "{delivered} of {FLOWS} flows delivered");
    let (first, second) = (first.saturating_sub(before_first) as f64, second.saturating_sub(before_second) as f64);
    Ok(first / (first + second))
}
