//! TCP connections of unmodified hosts over all uplinks at once, relayed by MPTCP (docs/bonding.md): goodput against each uplink
//! alone, silences when an uplink fails, and the time to connect.

use crate::experiments::prelude::*;
use crate::load::BulkConnections;
use crate::topology::nemo::{CORRESPONDENT, NemoNetwork, Vehicle};
use roam6_sim::LinkSpec;
use std::net::TcpListener;

/// Connections to the first port use all uplinks, to the second and third one of them, and to the fourth the tunnel.
const CONFIG: &str = "sharing = \"weights\"\n\n\
    [[mobile_router.flow]]\nprotocol = \"tcp\"\ncorrespondent_ports = \"9600\"\nuplink = \"all\"\n\n\
    [[mobile_router.flow]]\nprotocol = \"tcp\"\ncorrespondent_ports = \"9601\"\nuplink = \"up0\"\n\n\
    [[mobile_router.flow]]\nprotocol = \"tcp\"\ncorrespondent_ports = \"9602\"\nuplink = \"up1\"\n\n\
    [[mobile_router.flow]]\nprotocol = \"tcp\"\ncorrespondent_ports = \"9603\"\nuplink = \"up0\"\n";
const BONDED: u16 = 9600;
const ALONE: [u16; 2] = [9601, 9602];
const UNBONDED: u16 = 9603;
/// Mbit/s and round trip in milliseconds of both uplinks.
const USUAL: [(u64, u64); 2] = [(20, 40), (30, 80)];
const UNEQUAL: [(u64, u64); 2] = [(50, 20), (10, 160)];
/// Of the queue of each link.
const QUEUE_MILLIS: u64 = 100;
/// Until the windows are open, and of a measurement.
const WARM_UP: Duration = Duration::from_secs(3);
/// Between two looks at what has arrived.
const SAMPLING: Duration = Duration::from_millis(5);
/// How long an uplink is away, and both are.
const AWAY: Duration = Duration::from_secs(6);
const DARK: Duration = Duration::from_secs(15);
const TIMEOUT: Duration = Duration::from_secs(30);

pub(super) fn run(run: &mut Run) -> Result<()> {
    let rounds = if run.quick { 1 } else { 5 };
    let losses = if run.quick { 1 } else { 10 };
    run.set_steps(3 * rounds + 4 * losses + 1);
    let network = NemoNetwork::build(Duration::ZERO, 1, "bond = true")?;
    let vehicle = network.vehicle_with(0, &["up0", "up1"], CONFIG)?;
    shape(&network, USUAL);
    for (index, visited) in network.visited.iter().enumerate() {
        network.emulator.plug(vehicle.uplink(index)?, visited.link)?;
    }
    vehicle.wait_until_connected(CORRESPONDENT)?;
    wait_bonding(&network, &vehicle)?;
    measure_goodput(run, &network, &vehicle, rounds)?;
    shape(&network, USUAL);
    measure_losses(run, &network, &vehicle, losses)?;
    measure_connect(run, &network, &vehicle)
}

fn spec((megabits, round_trip): (u64, u64)) -> LinkSpec {
    let rate = megabits * 1_000_000;
    LinkSpec {
        delay: Duration::from_millis(round_trip / 2),
        rate_bps: Some(rate),
        queue_bytes: usize::try_from(rate / 8 * QUEUE_MILLIS / 1000).unwrap_or(usize::MAX),
        ..LinkSpec::default()
    }
}

fn shape(network: &NemoNetwork, links: [(u64, u64); 2]) {
    for (visited, link) in network.visited.iter().zip(links) {
        network.emulator.shape(visited.cable, spec(link));
    }
}

/// A greedy connection that the node has opened; the node sends, or the correspondent.
fn begin(network: &NemoNetwork, vehicle: &Vehicle, port: u16, upward: bool) -> Result<BulkConnections> {
    let ends = [vehicle.node(), network.correspondent()];
    if upward { BulkConnections::start(ends, port, 1) } else { BulkConnections::start_download(ends, port) }
}

/// The uplinks by which the only relayed connection has subflows.
fn subflows(vehicle: &Vehicle) -> Option<usize> {
    let shown: Value = vehicle.daemon.show("flows").ok()?;
    let all = shown.get("flows")?.get(0)?.get("subflows")?.as_array()?;
    Some(all.iter().filter(|one| one.get("backup") == Some(&json!(false))).count())
}

/// Waits until a connection is relayed over both uplinks.
fn wait_bonding(network: &NemoNetwork, vehicle: &Vehicle) -> Result<()> {
    let bonded = || {
        let _probe = begin(network, vehicle, BONDED, true).ok()?;
        sleep(Duration::from_millis(500));
        subflows(vehicle).filter(|count| *count == network.visited.len())
    };
    clock::wait_for(TIMEOUT, bonded).map(drop).context("no connection is relayed over both uplinks")
}

/// Mbit/s of a connection.
fn goodput(network: &NemoNetwork, vehicle: &Vehicle, port: u16, upward: bool, span: Duration) -> Result<f64> {
    let connection = begin(network, vehicle, port, upward)?;
    sleep(WARM_UP);
    Ok(connection.rate(span) * 1000.0)
}

fn measure_goodput(run: &mut Run, network: &NemoNetwork, vehicle: &Vehicle, rounds: usize) -> Result<()> {
    let span = Duration::from_secs(if run.quick { 6 } else { 15 });
    let mut of_sum: [Vec<f64>; 2] = Default::default();
    let (mut unequal_sum, mut unequal_best) = (Vec::new(), Vec::new());
    for round_number in 0..rounds {
        for (links, what) in [(USUAL, "goodput"), (UNEQUAL, "unequal links")] {
            run.step(&format!("{what}, round {}", round_number + 1));
            shape(network, links);
            for (upward, of_sum) in [true, false].into_iter().zip(&mut of_sum) {
                let single = |port| goodput(network, vehicle, port, upward, span);
                let [first, second] = [single(ALONE[0])?, single(ALONE[1])?];
                let both = single(BONDED)?;
                run.rows.push(json!({ "kind": "goodput", "links": what, "upward": upward, "bonded_mbps": round(both),
                    "alone_mbps": [round(first), round(second)] }));
                if links == USUAL {
                    of_sum.push(both / (first + second));
                } else {
                    unequal_sum.push(both / (first + second));
                    unequal_best.push(both / first.max(second));
                }
            }
        }
    }
    let ways = of_sum.map(|ratios| median(&ratios, LEVEL));
    run.estimate("goodput_over_sum", Estimate::least(ways.into_iter().flatten()));
    run.estimate("unequal_over_sum", median(&unequal_sum, LEVEL));
    run.estimate("unequal_over_best", median(&unequal_best, LEVEL));
    Ok(())
}

/// What happens to an uplink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loss {
    Carrier,
    BlackHole,
}

fn measure_losses(run: &mut Run, network: &NemoNetwork, vehicle: &Vehicle, times: usize) -> Result<()> {
    let (mut tried, mut lived) = (0_usize, 0_usize);
    for (loss, name) in [(Loss::Carrier, "carrier"), (Loss::BlackHole, "blackhole")] {
        let mut silences = Vec::new();
        for turn in 0..times * 2 {
            run.step(&format!("{name} {}", turn + 1));
            let (which, upward) = (turn % 2, turn / 2 % 2 == 0);
            let connection = begin(network, vehicle, BONDED, upward)?;
            sleep(WARM_UP);
            cut(network, vehicle, which, loss, true)?;
            silences.push(longest_silence(&connection, AWAY));
            let goes_on = progresses(&connection);
            cut(network, vehicle, which, loss, false)?;
            tried += 1;
            lived += usize::from(goes_on && progresses(&connection));
            drop(connection);
            wait_bonding(network, vehicle)?;
        }
        run.rows.push(json!({ "kind": name, "silence_ms": distribution(silences.iter().copied()), "each": silences }));
        run.summarise(&format!("stall_{name}_ms_p95"), percentile(silences, 0.95).map(round));
    }
    run.step("both dark");
    let connection = begin(network, vehicle, BONDED, false)?;
    sleep(WARM_UP);
    (0..network.visited.len()).try_for_each(|which| cut(network, vehicle, which, Loss::Carrier, true))?;
    let dark = std::thread::scope(|scope| {
        let watched = scope.spawn(|| longest_silence(&connection, DARK + Duration::from_secs(10)));
        sleep(DARK);
        (0..network.visited.len()).try_for_each(|which| cut(network, vehicle, which, Loss::Carrier, false))?;
        watched.join().map_err(|_| anyhow!("a thread panicked"))
    })?;
    tried += 1;
    lived += usize::from(progresses(&connection));
    run.summarise("dark15_ms", round(dark));
    run.summarise("lived", round(lived as f64 / tried.max(1) as f64));
    drop(connection);
    wait_bonding(network, vehicle)
}

/// Takes an uplink away, or gives it back.
fn cut(network: &NemoNetwork, vehicle: &Vehicle, which: usize, loss: Loss, away: bool) -> Result<()> {
    let (Some(visited), Some(link)) = (network.visited.get(which), USUAL.get(which)) else {
        bail!("no uplink {which}")
    };
    let port = vehicle.uplink(which)?;
    match (loss, away) {
        (Loss::Carrier, true) => network.emulator.unplug(port).map(drop),
        (Loss::Carrier, false) => network.emulator.plug(port, visited.link).map(drop),
        (Loss::BlackHole, _) => {
            let loss = if away { 1.0 } else { 0.0 };
            network.emulator.shape(visited.cable, LinkSpec { loss, ..spec(*link) });
            Ok(())
        }
    }
}

/// The longest time without an octet within the span, milliseconds.
fn longest_silence(connection: &BulkConnections, span: Duration) -> f64 {
    let (began, mut octets) = (clock::now(), connection.received());
    let (mut last, mut longest) = (began, Duration::ZERO);
    while began.elapsed() < span {
        sleep(SAMPLING);
        let (now, total) = (clock::now(), connection.received());
        longest = longest.max(now.saturating_duration_since(last));
        if total > octets {
            (octets, last) = (total, now);
        }
    }
    longest.as_secs_f64() * 1000.0
}

fn progresses(connection: &BulkConnections) -> bool {
    let before = connection.received();
    clock::wait_for(Duration::from_secs(5), || (connection.received() > before).then_some(())).is_some()
}

/// The time to connect by the relays against that through the tunnel, by the same uplink.
fn measure_connect(run: &mut Run, network: &NemoNetwork, vehicle: &Vehicle) -> Result<()> {
    run.step("time to connect");
    let times = if run.quick { 30 } else { 200 };
    let mut millis: [Vec<f64>; 2] = Default::default();
    for _ in 0..times {
        for (port, millis) in [BONDED, UNBONDED].into_iter().zip(&mut millis) {
            let (to, from) = (network.correspondent(), vehicle.node());
            let listener = to.host.in_namespace(|| TcpListener::bind((to.address, port)))?.context("cannot listen")?;
            let began = clock::now();
            let connected = from.host.in_namespace(|| std::net::TcpStream::connect((to.address, port)))?;
            millis.push(began.elapsed().as_secs_f64() * 1000.0);
            drop((connected.context("cannot connect")?, listener));
            sleep(Duration::from_millis(50));
        }
    }
    let [bonded, unbonded] = &millis;
    run.rows.push(json!({ "kind": "connect", "bonded_ms": distribution(bonded.iter().copied()),
        "unbonded_ms": distribution(unbonded.iter().copied()) }));
    run.estimate("connect_over_unbonded", ratio_of_medians(bonded, unbonded, LEVEL));
    Ok(())
}
