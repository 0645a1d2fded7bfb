//! The scripts of the recordings in `cases/shim`; `cases.rs` plays them again.
//!
//! `ROAM6_RECORD=1` rewrites them.

#![allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use core::time::Duration;
use roam6_proto::base::ids::{AddressPair, ContextId};
use roam6_proto::case::Case;
use roam6_proto::contract::input::{Activity, FlowEvent, TrafficCount};
use roam6_proto::{Input, Time};
use roam6_sim::link::LinkSpec;
use roam6_sim::multihomed::topology::{self, HostSpec, Proof, Topology};
use roam6_sim::{Event, packet_summary};
use roam6_wire::shim6::Fork;
use std::fs;
use std::path::Path;

/// A world that produces a recording.
struct Script {
    name: &'static str,
    title: &'static [&'static str],
    /// The host that is recorded.
    host: usize,
    proof: Proof,
    events: fn(&Topology) -> Vec<(u64, Event)>,
    until_ms: u64,
}

fn scripts() -> [Script; 5] {
    [
        Script {
            name: "initiate",
            title: &["A conversation is worth a context (RFC 5533 §7.3), seen from who asks: I1, R1, I2, R2."],
            host: 0,
            proof: Proof::Hba,
            events: begins,
            until_ms: 900,
        },
        Script {
            name: "respond",
            title: &[
                "The same from who is asked: nothing is kept before the I2 whose validator it made itself,",
                "and nothing granted before the data plane holds the context.",
            ],
            host: 1,
            proof: Proof::Both,
            events: begins,
            until_ms: 900,
        },
        Script {
            name: "failover",
            title: &[
                "The path between the ULIDs dies. Half a second after the first packet without an answer another pair",
                "is tried (RFC 5534 §6.4), one that shares no address with it, and taken once the peer reports the probe.",
            ],
            host: 0,
            proof: Proof::Hba,
            events: fails,
            until_ms: 2600,
        },
        Script {
            name: "forgotten",
            title: &[
                "The peer loses its memory and does not know the tag of a probe (RFC 5533 §7.5): R1bis, I2bis, R2,",
                "and the context stands again under another tag.",
            ],
            host: 0,
            proof: Proof::Hba,
            events: forgets,
            until_ms: 3000,
        },
        Script {
            name: "update",
            title: &[
                "A new address that is in no set, signed by the key the others are made of, is told (RFC 5533 §10.1);",
                "only when that is acknowledged is it used.",
            ],
            host: 0,
            proof: Proof::Both,
            events: moves,
            until_ms: 2500,
        },
    ]
}

fn begins(map: &Topology) -> Vec<(u64, Event)> {
    let (host, pair) = (map.hosts[0].host, ulids(map));
    let link = map.hosts[0].uplinks[0].0;
    let flow = FlowEvent { pair, link, packets: 12, octets: 2100, since: Time::ZERO };
    vec![(500, Event::Deliver(host, Input::Flow(flow)))]
}

fn fails(map: &Topology) -> Vec<(u64, Event)> {
    let AddressPair { local, peer } = ulids(map);
    let cuts = [Event::BlockPath(local, peer, true), Event::BlockPath(peer, local, true)];
    begins(map).into_iter().chain(cuts.map(|cut| (1500, cut))).chain([speaks(map)]).collect()
}

fn forgets(map: &Topology) -> Vec<(u64, Event)> {
    let host = map.hosts[1].host;
    let crash = [(1500, Event::PowerOff(host)), (1550, Event::Start(host))];
    begins(map).into_iter().chain(crash).chain([speaks(map)]).collect()
}

fn moves(map: &Topology) -> Vec<(u64, Event)> {
    let host = &map.hosts[0];
    let gets = Event::SetAddress(host.host, host.uplinks[0].0, host.spare, true);
    begins(map).into_iter().chain([(1500, gets)]).collect()
}

/// Sends a packet without an answer.
fn speaks(map: &Topology) -> (u64, Event) {
    let sent = Some(Time::from_micros(1_600_000));
    let (context, none) = (ContextId { ulids: ulids(map), fork: Fork::NONE }, TrafficCount::default());
    let (out, into) = (TrafficCount { packets: 1, octets: 100 }, none);
    let told = Activity {
        context,
        last_sent: sent,
        last_received: None,
        unanswered_since: sent,
        unreturned_since: None,
        tx: out,
        rx: into,
    };
    (1600, Event::Deliver(map.hosts[0].host, Input::Activity(told)))
}

fn ulids(map: &Topology) -> AddressPair {
    AddressPair { local: map.hosts[0].uplinks[0].2, peer: map.hosts[1].uplinks[0].2 }
}

#[test]
fn conversations_are_recorded_when_asked_for() {
    if std::env::var_os("ROAM6_RECORD").is_none() {
        return;
    }
    for script in scripts() {
        let mut config = topology::config();
        config.send_timeout = Duration::from_millis(500);
        let wish = |number| HostSpec { uplinks: 2, proof: script.proof, config: config.clone(), seed: [number; 32] };
        let mut map = Topology::new(7);
        let spec = LinkSpec { delay: Duration::from_millis(10), ..LinkSpec::default() };
        map.populate(&[wish(1), wish(2)], &[], spec);
        map.world.record(map.hosts[script.host].host);
        map.start();
        for (at, happening) in (script.events)(&map) {
            map.world.schedule(Duration::from_millis(at), happening);
        }
        while map.world.step(Time::from_micros(script.until_ms * 1000)).is_some() {}
        let (role, seed) = map.role(script.host).unwrap();
        let title = script.title.iter().map(|line| (*line).to_owned()).collect();
        let case = Case { title, roles: vec![role], seed, steps: map.world.take_recording() };
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cases/shim");
        fs::write(folder.join(format!("{}.case", script.name)), case.render(packet_summary::case_line)).unwrap();
    }
}
