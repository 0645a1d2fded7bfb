//! Recorded cases: each file of `cases/` is played again and must be reproduced exactly.
//!
//! `ROAM6_BLESS=1` rewrites the outputs of the files; `ROAM6_RECORD=1` runs the scripts below and rewrites their inputs
//! too.

#![allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use core::time::Duration;
use roam6_proto::case::{Case, Step};
use roam6_proto::contract::config::nemo::{
    Authentication, DadMode, HomeAgentConfig, IngressConfig, LoadSharing, MobileRouterConfig, PrefixMode, PrefixTable,
    PrefixTableRow, SharedKey, UplinkConfig,
};
use roam6_proto::role::Role;
use roam6_proto::{Node, Time, case};
use roam6_sim::nemo::binding_messages;
use roam6_sim::nemo::topology::{self, Topology};
use roam6_sim::net::packet_summary;
use roam6_sim::{Event, HostId, Observation};
use roam6_wire::Bid;
use std::fs;
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../cases/nemo")
}

fn is_asked(name: &str) -> bool {
    std::env::var_os(name).is_some()
}

#[test]
fn recorded_cases_are_reproduced_exactly() {
    if is_asked("ROAM6_RECORD") {
        record_all();
    }
    let shim = folder().join("../shim");
    let entries = fs::read_dir(folder()).unwrap().chain(fs::read_dir(shim).unwrap());
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "case"));
    files.sort();
    assert!(!files.is_empty());
    for file in files {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(&file).unwrap();
        let case = Case::parse(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let played = case.replay();
        if is_asked("ROAM6_BLESS") || is_asked("ROAM6_RECORD") {
            fs::write(&file, played.render(packet_summary::case_line)).unwrap();
            continue;
        }
        for (was, is) in case.steps.iter().zip(&played.steps) {
            let lines = |step: &Step| step.outputs.iter().map(case::output_line).collect::<Vec<_>>();
            let reported = case::input_line(was.at, &was.input);
            assert_eq!(lines(was), lines(is), "{name}, {reported} (ROAM6_BLESS=1 accepts)");
        }
        assert_eq!(
            played.render(packet_summary::case_line),
            text,
            "{name}: the comments are outdated (ROAM6_BLESS=1 rewrites them)"
        );
    }
}

/// The host whose inputs and outputs are recorded.
#[derive(Clone, Copy, PartialEq)]
enum RecordedRole {
    HomeAgent,
    MobileRouter,
}

/// A world that produces a recording.
struct Script {
    name: &'static str,
    title: &'static [&'static str],
    side: RecordedRole,
    router: MobileRouterConfig,
    agent: HomeAgentConfig,
    /// Events by milliseconds after the start.
    script: fn(&Topology) -> Vec<(u64, Event)>,
    until_ms: u64,
}

const KEY: [u8; 16] = *b"sixteen octets !";

fn shared_key(secret: [u8; 16]) -> Authentication {
    Authentication::SharedKey(SharedKey { spi: 256, secret: secret.to_vec() })
}

fn router() -> MobileRouterConfig {
    MobileRouterConfig {
        home_address: topology::home_address(0),
        home_prefix: topology::home_prefix(),
        home_agents: vec![topology::agent_address(0)],
        prefixes: vec![topology::mobile_prefix(0)],
        prefix_mode: PrefixMode::Implicit,
        authentication: shared_key(KEY),
        lifetime: Duration::from_secs(60),
        uplinks: vec![uplink(topology::FIRST_INTERFACE, 1)],
        ingress: vec![IngressConfig {
            interface: topology::INSIDE_INTERFACE.to_owned(),
            prefix: topology::mobile_prefix(0),
            advertisement_interval: Duration::from_secs(600),
            ..Default::default()
        }],
        duplicate_detection: DadMode::Off,
        ..Default::default()
    }
}

fn uplink(name: &str, number: u8) -> UplinkConfig {
    UplinkConfig { interface: name.to_owned(), bid: Bid(number.into()), priority: number, ..Default::default() }
}

fn agent() -> HomeAgentConfig {
    HomeAgentConfig {
        address: topology::agent_address(0),
        home_prefixes: vec![topology::home_prefix()],
        home_link: Some(topology::FIRST_INTERFACE.to_owned()),
        prefix_table: PrefixTable {
            rows: vec![PrefixTableRow {
                next_key: None,
                invitation: None,
                home_address: topology::home_address(0),
                prefixes: [topology::mobile_prefix(0)].into(),
                authentication: shared_key(KEY),
            }],
        }
        .into(),
        max_lifetime: Duration::from_secs(600),
        max_bindings: 8,
        ..Default::default()
    }
}

fn plug(topology: &Topology, uplink: usize, visited: usize) -> Event {
    let mobile = &topology.mobiles[0];
    Event::Attach(mobile.host, mobile.uplinks[uplink], Some(topology.visited[visited]))
}

fn registers(topology: &Topology) -> Vec<(u64, Event)> {
    vec![(100, plug(topology, 0, 0))]
}

fn script(name: &'static str, side: RecordedRole, title: &'static [&'static str]) -> Script {
    Script { name, title, side, router: router(), agent: agent(), script: registers, until_ms: 600 }
}

fn scripts() -> Vec<Script> {
    let mut scripts = registrations();
    scripts.extend(moves());
    scripts.extend(restarts());
    scripts
}

fn registrations() -> Vec<Script> {
    let explicit = script(
        "register-explicit",
        RecordedRole::HomeAgent,
        &[
            "A first registration that lists its prefix (RFC 3963 §5.2), seen from the home agent:",
            "nothing is acknowledged before tunnel, routes, proxy and journal stand.",
        ],
    );
    let implicit = script(
        "register-implicit",
        RecordedRole::MobileRouter,
        &["A first registration in implicit mode: solicitation, advertisement, update, acknowledgement, tunnel."],
    );
    let stranger = script(
        "auth-failure",
        RecordedRole::HomeAgent,
        &["An update proven with another key (RFC 4285 §5.3): status 146, nothing changes."],
    );
    let replay = script(
        "replay",
        RecordedRole::HomeAgent,
        &["The same update comes again, half a second later: status 135, nothing changes."],
    );
    let copied =
        |topology: &Topology| vec![(100, plug(topology, 0, 0)), (500, Event::Inject(topology.home, Vec::new()))];
    let explicit_router = MobileRouterConfig { prefix_mode: PrefixMode::Explicit, ..router() };
    let strange_router = MobileRouterConfig { authentication: shared_key(*b"another 16 bytes"), ..router() };
    vec![
        Script { router: explicit_router, ..explicit },
        implicit,
        Script { router: strange_router, ..stranger },
        Script { script: copied, ..replay },
    ]
}

fn moves() -> Vec<Script> {
    let away = script(
        "move",
        RecordedRole::MobileRouter,
        &["From one visited network to another: the old care-of address goes, the tunnel follows in one step."],
    );
    let home = script(
        "return-home",
        RecordedRole::MobileRouter,
        &[
            "Back on the home link (RFC 6275 §11.5.5): the home agent is told over the link, and only once it lets go",
            "the home address is used there and the mobile network routed without the tunnel.",
        ],
    );
    let dies = script(
        "mcoa-link-down",
        RecordedRole::MobileRouter,
        &[
            "Two uplinks registered at once (RFC 5648), the first carries everything. Its carrier goes:",
            "the other takes over before the home agent is told, in one update.",
        ],
    );
    let to_another = |topology: &Topology| vec![(100, plug(topology, 0, 0)), (900, plug(topology, 0, 1))];
    let to_home = |topology: &Topology| {
        let mobile = &topology.mobiles[0];
        vec![(100, plug(topology, 0, 0)), (900, Event::Attach(mobile.host, mobile.uplinks[0], Some(topology.home)))]
    };
    let both = |topology: &Topology| {
        vec![
            (100, plug(topology, 0, 0)),
            (300, plug(topology, 1, 1)),
            (1200, Event::Carrier(topology.visited[0], false)),
        ]
    };
    let uplinks = vec![uplink(topology::FIRST_INTERFACE, 1), uplink(topology::SECOND_INTERFACE, 2)];
    vec![
        Script { script: to_another, until_ms: 1600, ..away },
        Script {
            script: to_home,
            until_ms: 1500,
            agent: HomeAgentConfig { advertisement_interval: Some(Duration::from_secs(3)), ..agent() },
            ..home
        },
        Script {
            script: both,
            until_ms: 1600,
            router: MobileRouterConfig { uplinks, load_sharing: LoadSharing::Standby, ..router() },
            ..dies
        },
    ]
}

fn restarts() -> Vec<Script> {
    let agent = script(
        "home-agent-restart",
        RecordedRole::HomeAgent,
        &["A home agent killed and started again takes its binding from the journal; nobody else notices."],
    );
    let router = script(
        "resync",
        RecordedRole::MobileRouter,
        &[
            "A mobile router that lost its disk begins with a number the home agent takes for old:",
            "status 135 tells the last one accepted (RFC 6275 §11.7.3), and the next update follows it.",
        ],
    );
    let agent_dies = |topology: &Topology| {
        let host = topology.agents[0].host;
        vec![(100, plug(topology, 0, 0)), (600, Event::Kill(host)), (700, Event::Start(host))]
    };
    let router_dies = |topology: &Topology| {
        let host = topology.mobiles[0].host;
        let end = [Event::PowerOff(host), Event::EraseJournal(host), Event::Start(host)];
        core::iter::once((100, plug(topology, 0, 0))).chain(end.map(|end| (600, end))).collect()
    };
    vec![
        Script { script: agent_dies, until_ms: 1000, ..agent },
        Script { script: router_dies, until_ms: 1000, ..router },
    ]
}

fn record_all() {
    for script in scripts() {
        let mut topology = Topology::new(7, 3);
        let (agent, router) =
            (Role::HomeAgent(script.agent.clone()), Role::MobileRouter(Box::new(script.router.clone())));
        let seed = [42; 32];
        let roles = [if script.side == RecordedRole::HomeAgent { agent.clone() } else { router.clone() }];
        topology.add_agent(move |_| Box::new(Node::from_roles(core::slice::from_ref(&agent), seed)));
        let uplinks = script.router.uplinks.len();
        topology.add_mobile(uplinks, move |_| Box::new(Node::from_roles(core::slice::from_ref(&router), seed)));
        let host =
            if script.side == RecordedRole::HomeAgent { topology.agents[0].host } else { topology.mobiles[0].host };
        play(&mut topology, host, &script);
        let case = Case {
            title: script.title.iter().map(|line| (*line).to_owned()).collect(),
            roles: roles.to_vec(),
            seed,
            steps: topology.world.take_recording(),
        };
        fs::write(folder().join(format!("{}.case", script.name)), case.render(packet_summary::case_line)).unwrap();
    }
}

/// Runs without traffic sources. An empty packet to be injected stands for the first update.
fn play(topology: &mut Topology, host: HostId, script: &Script) {
    topology.world.record(host);
    let quiet = |name: &str| !name.starts_with("cn") && !name.starts_with("mnn");
    let all: Vec<HostId> = topology.world.hosts().filter(|(_, host)| quiet(&host.name)).map(|(id, _)| id).collect();
    for id in all {
        topology.world.start(id);
    }
    let mut first: Option<Vec<u8>> = None;
    for (at, event) in (script.script)(topology) {
        run(topology, at, &mut first);
        let event = match (event, &first) {
            (Event::Inject(medium, _), Some(update)) => Event::Inject(medium, update.clone()),
            (other, _) => other,
        };
        topology.world.schedule(Duration::ZERO, event);
    }
    run(topology, script.until_ms, &mut first);
}

/// Runs until `until_ms`, and keeps the first update sent.
fn run(topology: &mut Topology, until_ms: u64, first: &mut Option<Vec<u8>>) {
    topology
        .world
        .schedule(Time::from_micros(until_ms * 1000).since(topology.world.now()), Event::RefuseItems(topology.core, 0));
    while let Some(observations) = topology.world.step(Time::from_micros(until_ms * 1000 + 1)) {
        for observation in observations {
            if let Observation::Sent(_, packet) = observation
                && first.is_none()
                && matches!(binding_messages::parse(&packet), Some(binding_messages::BindingMessage::Update(_)))
            {
                *first = Some(packet.to_vec());
            }
        }
    }
}
