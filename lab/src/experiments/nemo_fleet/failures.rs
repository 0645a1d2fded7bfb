//! Members that die without a word, hand over, are upgraded, or lose a program.

use crate::experiments::prelude::*;
use crate::load::OneWayTrain;
use crate::topology::fleet::{FleetNetwork, MEMBERS};
use roam6_proto::Report;
use roam6_proto::contract::report::NemoReport;

/// Flows that the router spreads over the members, and packets per second of all together in each direction.
const FLOWS: u16 = 64;
const RATE: u32 = 1000;
/// Octets per second of the transfer in each direction.
const TRANSFER_RATE: u64 = 200_000;
/// Members that die, in quick and in full runs.
const DEATHS: (usize, usize) = (6, 30);
/// How often each planned step is done.
const PLANNED: (usize, usize) = (1, 5);
/// How long traffic is watched after each step.
const WATCHED: Duration = Duration::from_secs(1);
/// What is on its way at the end of a span still counts as lost otherwise.
const ON_THE_WAY: u64 = 300_000;
const TIMEOUT: Duration = Duration::from_secs(15);

/// Time from the first to the last lost packet of a direction, milliseconds, and the number of these packets.
fn silence(train: &OneWayTrain, begin: u64, end: u64) -> (f64, usize) {
    let datagrams = train.datagrams(begin, end);
    let lost: Vec<u64> = datagrams.iter().filter(|one| one.received.is_none()).map(|one| one.sent).collect();
    let span = lost.last().zip(lost.first()).map_or(0, |(last, first)| last - first);
    (span as f64 / 1000.0, lost.len())
}

fn traffic(network: &FleetNetwork) -> Result<Train> {
    let train = Train::start_flows([network.vehicle.node(), network.correspondent()], 9100, RATE, FLOWS)?;
    sleep(WATCHED);
    Ok(train)
}

/// Members are cut off, one after the other, while nobody says so.
pub(super) fn measure_silences(run: &mut Run, network: &mut FleetNetwork, name: &str) -> Result<()> {
    run.step(&format!("{name}: members die"));
    let deaths = if run.quick { DEATHS.0 } else { DEATHS.1 };
    let train = traffic(network)?;
    let (mut silences, mut elsewhere) = (Vec::new(), 0);
    for number in 0..deaths {
        let (member, quiet) = (number % MEMBERS + 1, clock::unix_micros() - ON_THE_WAY);
        network.cut(member, true)?;
        let begin = clock::unix_micros();
        network.wait_for_routes(MEMBERS - 1)?;
        sleep(WATCHED);
        let end = clock::unix_micros() - ON_THE_WAY;
        let (up, down) = (silence(&train.forward, begin, end), silence(&train.reverse, begin, end));
        silences.push(up.0.max(down.0));
        run.rows.push(json!({
            "bfd": name, "member": member, "silence_up_ms": up.0, "silence_down_ms": down.0, "lost": up.1 + down.1,
        }));
        network.cut(member, false)?;
        let back = clock::unix_micros();
        network.wait_all_healthy()?;
        sleep(WATCHED / 2);
        elsewhere +=
            train.lost(quiet - ON_THE_WAY, begin - ON_THE_WAY) + train.lost(back, clock::unix_micros() - ON_THE_WAY);
    }
    run.estimate(&format!("silence_{name}_ms_p50"), median(&silences, LEVEL));
    run.summarise(&format!("silence_{name}_ms_max"), percentile(&silences, 1.0).map(round));
    run.summarise(&format!("lost_elsewhere_{name}"), elsewhere);
    Ok(())
}

/// A step that must lose nothing.
type Step = fn(&mut FleetNetwork, usize) -> Result<()>;

const STEPS: [(&str, Step); 4] = [
    ("drain", |network, number| {
        network.member(number)?.daemon.query(&["fleet", "drain", "--wait"])?;
        network.wait_for_routes(MEMBERS - 1)?;
        network.member(number)?.daemon.query(&["fleet", "restore"])?;
        network.wait_all_healthy()
    }),
    ("upgrade", |network, _| {
        (1..=MEMBERS).try_for_each(|number| {
            let daemon = &mut network.member_mut(number)?.daemon;
            daemon.stop()?;
            daemon.spawn()?;
            network.wait_all_healthy()
        })
    }),
    ("daemon_kill", |network, number| {
        network.member_mut(number)?.daemon.kill();
        network.wait_for_routes(MEMBERS - 1)?;
        network.member_mut(number)?.daemon.spawn()?;
        network.wait_all_healthy()
    }),
    ("routing_kill", |network, number| {
        network.member_mut(number)?.routing.kill();
        network.wait_for_routes(MEMBERS - 1)?;
        network.member_mut(number)?.routing.spawn()?;
        network.wait_all_healthy()
    }),
];

/// Steps that an operator takes, and programs that die while the machine forwards: nothing is lost.
pub(super) fn measure_planned(run: &mut Run, network: &mut FleetNetwork) -> Result<()> {
    let times = if run.quick { PLANNED.0 } else { PLANNED.1 };
    let (train, all) = (traffic(network)?, clock::unix_micros());
    let ends = [network.vehicle.node(), network.correspondent()];
    let transfer = Transfer::start(ends, TransferLoad::steady(Protocol::Tcp, 9300, TRANSFER_RATE))?;
    let mut total = 0;
    for (name, step) in STEPS {
        run.step(&format!("planned: {name}"));
        let mut of_step = 0;
        for number in 0..times {
            let begin = clock::unix_micros() - ON_THE_WAY;
            step(network, number % MEMBERS + 1)?;
            sleep(WATCHED);
            let end = clock::unix_micros() - ON_THE_WAY;
            let (up, down) = (silence(&train.forward, begin, end), silence(&train.reverse, begin, end));
            let lost = up.1 + down.1;
            of_step += lost;
            run.rows.push(json!({
                "planned": name, "lost": lost, "lost_within_ms": round(up.0.max(down.0)), "sent": sent(&train, begin, end),
            }));
        }
        run.summarise(&format!("lost_{name}"), of_step);
        total += of_step;
    }
    let is_down = |report: &Report| matches!(report, Report::Nemo(NemoReport::PathDown { .. }));
    let events = network.vehicle.daemon.events.events_from(0);
    let down = events.iter().filter(|event| event.unix_micros >= all && is_down(&event.report)).count();
    run.summarise("planned_lost", total);
    run.summarise("planned_path_down", down);
    run.require_tcp(transfer.finish(TIMEOUT)?.iter().all(Delivery::is_complete));
    run.require_bound("planned_lost");
    Ok(())
}

fn sent(train: &Train, begin: u64, end: u64) -> usize {
    train.forward.delivery_counts(begin, end).sent + train.reverse.delivery_counts(begin, end).sent
}
