//! `roam6 geo ping`: replies, loss and round-trip times for each station.

use super::args::PingArgs;
use super::probes::{Echo, ProbeSession, deadline_in};
use super::target::Target;
use crate::cli::output::{print, table_style};
use crate::exit::Failure;
use crate::render::table::Table;
use core::time::Duration;
use roam6_proto::contract::config::geo::{EchoId, EchoRequest, PacketParameters};
use roam6_proto::geo::geometry;
use roam6_wire::LinkAddress;
use roam6_wire::geo::Coordinates;
use serde_json::json;
use std::collections::BTreeMap;
use std::process::ExitCode;

/// Replies of further stations are not counted.
const MAX_STATIONS: usize = 4096;

/// Sends the requests, and prints each reply and the summary.
///
/// # Errors
/// The daemon does not run, or has refused a request.
pub(crate) fn ping(args: &PingArgs, target: Target) -> Result<ExitCode, Failure> {
    let (mut session, position) = ProbeSession::start(&args.socket.path())?;
    let own = position.place;
    let mut sum = Summary::default();
    for sequence in 0..args.count {
        session.send(sequence, echo_request(args, target))?;
        sum.sent += 1;
        let is_last = sequence + 1 == args.count;
        let until = deadline_in(if is_last { args.timeout } else { args.interval });
        while let Some(echo) = session.next(until)? {
            sum.add(&echo);
            print_reply(&echo, own, args.json);
            if is_last && matches!(target, Target::Station(_)) && sum.is_complete() {
                break;
            }
        }
    }
    let text = if args.json { format!("{}\n", sum.document(target)) } else { sum.text(target, own) };
    print(&text);
    Ok(if sum.stations.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn echo_request(args: &PingArgs, target: Target) -> EchoRequest {
    let spread = match target {
        Target::Station(_) => Duration::ZERO,
        _ => Duration::from_millis(args.spread),
    };
    let probe = EchoId { identifier: 0, sequence: 0 };
    let parameters = PacketParameters { hops: args.hops, ..args.parameters.parameters() };
    EchoRequest { id: probe, to: target.to(), octets: args.size, parameters, trace: false, spread }
}

fn print_reply(echo: &Echo, own: Option<Coordinates>, json: bool) {
    let distance = own.map(|own| geometry::distance(own, echo.place).floor());
    if json {
        print(&format!("{}\n", document(echo, distance)));
        return;
    }
    let Echo { mid, kind, sequence, hops, octets, .. } = echo;
    let distance = distance.map(|metres| format!(" distance={metres} m")).unwrap_or_default();
    let again = if echo.again { " (again)" } else { "" };
    let millis = milliseconds(echo.rtt);
    print(&format!(
        "{octets} octets from {mid} ({kind}): seq={sequence} hops={hops}{distance} time={millis} ms{again}\n"
    ));
}

/// A reply as JSON.
pub(super) fn document(echo: &Echo, distance: Option<f64>) -> serde_json::Value {
    let (latitude, longitude) = echo.place.to_degrees();
    json!({
        "sequence": echo.sequence, "station": echo.mid.to_string(), "kind": echo.kind,
        "latitude": latitude, "longitude": longitude, "distance": distance, "hops": echo.hops,
        "octets": echo.octets, "rtt_ms": echo.rtt.as_secs_f64() * 1e3, "arrived": echo.arrived, "again": echo.again,
    })
}

/// All replies, by station.
#[derive(Default)]
struct Summary {
    sent: u32,
    stations: BTreeMap<LinkAddress, StationReplies>,
}

struct StationReplies {
    kind: String,
    place: Coordinates,
    duplicates: u32,
    rtts: Vec<Duration>,
}

impl Summary {
    fn add(&mut self, echo: &Echo) {
        if self.stations.len() >= MAX_STATIONS && !self.stations.contains_key(&echo.mid) {
            return;
        }
        let fresh = || StationReplies { kind: echo.kind.clone(), place: echo.place, duplicates: 0, rtts: Vec::new() };
        let replies = self.stations.entry(echo.mid).or_insert_with(fresh);
        replies.place = echo.place;
        if echo.again {
            replies.duplicates += 1;
        } else {
            replies.rtts.push(echo.rtt);
        }
    }

    /// Whether the one station probed has replied to all requests.
    fn is_complete(&self) -> bool {
        self.stations.values().any(|replies| replies.rtts.len() == self.sent as usize)
    }

    fn text(&self, target: Target, own: Option<Coordinates>) -> String {
        let sent = self.sent;
        if self.stations.is_empty() {
            return format!("--- {target}: {sent} requests, no reply\n");
        }
        let mut table = Table::new(&["STATION", "KIND", "DISTANCE", "ANSWERS", "LOST", "RTT MIN", "P50", "MAX"]);
        for (mid, replies) in &self.stations {
            let distance = own.map(|own| format!("{} m", geometry::distance(own, replies.place).floor()));
            let [min, p50, max] = replies.rtt_min_median_max().map(milliseconds);
            table.push(vec![
                mid.to_string(),
                replies.kind.clone(),
                distance.unwrap_or_default(),
                replies.rtts.len().to_string(),
                format!("{:.0} %", replies.loss(sent) * 100.0),
                format!("{min} ms"),
                format!("{p50} ms"),
                format!("{max} ms"),
            ]);
        }
        let count = self.stations.len();
        let stations = if count == 1 { "1 station".to_owned() } else { format!("{count} stations") };
        format!("--- {target}: {sent} requests, replies from {stations}\n{}", table.render(table_style()))
    }

    fn document(&self, target: Target) -> serde_json::Value {
        let rows = self.stations.iter().map(|(mid, replies)| {
            let [min, p50, max] = replies.rtt_min_median_max().map(|rtt| rtt.as_secs_f64() * 1e3);
            json!({
                "station": mid.to_string(), "kind": replies.kind, "answers": replies.rtts.len(),
                "again": replies.duplicates, "loss": replies.loss(self.sent),
                "rtt_min_ms": min, "rtt_p50_ms": p50, "rtt_max_ms": max,
            })
        });
        let stations: Vec<_> = rows.collect();
        json!({ "target": target.to_string(), "asked": self.sent, "stations": stations })
    }
}

impl StationReplies {
    fn loss(&self, sent: u32) -> f64 {
        1.0 - self.rtts.len() as f64 / f64::from(sent.max(1))
    }

    /// The shortest, median and longest round-trip time.
    fn rtt_min_median_max(&self) -> [Duration; 3] {
        let mut sorted = self.rtts.clone();
        sorted.sort_unstable();
        let at = |index: usize| sorted.get(index).copied().unwrap_or_default();
        [at(0), at(sorted.len() / 2), at(sorted.len().saturating_sub(1))]
    }
}

/// A duration in milliseconds, with three decimals.
pub(super) fn milliseconds(span: Duration) -> String {
    format!("{:.3}", span.as_secs_f64() * 1e3)
}
