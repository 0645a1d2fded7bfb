//! The scripts of the recordings in `cases/shim`, which still produce them; `cases.rs` plays the files again.
//!
//! `ROAM6_RECORD=1` rewrites them.

#![allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use core::time::Duration;
use roam6_proto::base::ids::{AddressPair, ContextId};
use roam6_proto::case::Case;
use roam6_proto::contract::input::{Activity, FlowEvent, TrafficCount};
use roam6_proto::{Input, Time};
use roam6_sim::Event;
use roam6_sim::multihomed::topology::{self, HostSpec, Proof, Topology};
use roam6_sim::net::link::LinkSpec;
use roam6_sim::net::packet_summary;
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

fn begins(topology: &Topology) -> Vec<(u64, Event)> {
    let (host, pair) = (topology.hosts[0].host, ulids(topology));
    let link = topology.hosts[0].uplinks[0].0;
    let flow = FlowEvent { pair, link, packets: 12, octets: 2100, since: Time::ZERO };
    vec![(500, Event::Deliver(host, Input::Flow(flow)))]
}

fn fails(topology: &Topology) -> Vec<(u64, Event)> {
    let AddressPair { local, peer } = ulids(topology);
    let cuts = [Event::BlockPath(local, peer, true), Event::BlockPath(peer, local, true)];
    begins(topology).into_iter().chain(cuts.map(|cut| (1500, cut))).chain([speaks(topology)]).collect()
}

fn forgets(topology: &Topology) -> Vec<(u64, Event)> {
    let host = topology.hosts[1].host;
    let crash = [(1500, Event::PowerOff(host)), (1550, Event::Start(host))];
    begins(topology).into_iter().chain(crash).chain([speaks(topology)]).collect()
}

fn moves(topology: &Topology) -> Vec<(u64, Event)> {
    let host = &topology.hosts[0];
    let gets = Event::SetAddress(host.host, host.uplinks[0].0, host.spare, true);
    begins(topology).into_iter().chain([(1500, gets)]).collect()
}

/// Sends a packet without an answer.
fn speaks(topology: &Topology) -> (u64, Event) {
    let sent = Some(Time::from_micros(1_600_000));
    let (context, none) = (ContextId { ulids: ulids(topology), fork: Fork::NONE }, TrafficCount::default());
    let (out, into) = (TrafficCount { packets: 1, octets: 100 }, none);
    let reported = Activity {
        context,
        last_sent: sent,
        last_received: None,
        unanswered_since: sent,
        unreturned_since: None,
        tx: out,
        rx: into,
    };
    (1600, Event::Deliver(topology.hosts[0].host, Input::Activity(reported)))
}

fn ulids(topology: &Topology) -> AddressPair {
    AddressPair { local: topology.hosts[0].uplinks[0].2, peer: topology.hosts[1].uplinks[0].2 }
}

#[test]
fn shim_recordings_are_reproduced_from_their_scripts() {
    let rewrites = std::env::var_os("ROAM6_RECORD").is_some();
    for script in scripts() {
        let mut config = topology::config();
        config.send_timeout = Duration::from_millis(500);
        let wish = |number| HostSpec { uplinks: 2, proof: script.proof, config: config.clone(), seed: [number; 32] };
        let mut topology = Topology::new(7);
        let spec = LinkSpec { delay: Duration::from_millis(10), ..LinkSpec::default() };
        topology.populate(&[wish(1), wish(2)], &[], spec);
        topology.world.record(topology.hosts[script.host].host);
        topology.world.start_all();
        for (at, event) in (script.events)(&topology) {
            topology.world.schedule(Duration::from_millis(at), event);
        }
        while topology.world.step(Time::from_micros(script.until_ms * 1000)).is_some() {}
        let (role, seed) = topology.role(script.host).unwrap();
        let title = script.title.iter().map(|line| (*line).to_owned()).collect();
        let case = Case { title, roles: vec![role], seed, steps: topology.world.take_recording() };
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../cases/shim/{}.case", script.name));
        let text = case.render(packet_summary::case_line);
        if rewrites {
            fs::write(&file, &text).unwrap();
        }
        assert_eq!(text, fs::read_to_string(&file).unwrap(), "{} (ROAM6_RECORD=1 accepts)", script.name);
    }
}
