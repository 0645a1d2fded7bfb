//! The experiments, one file each, found by name.

mod doctor;
mod geonet_city;
mod geonet_conformance;
mod geonet_ferry;
mod geonet_forwarding;
mod geonet_links;
mod geonet_parameters;
mod geonet_radios;
mod geonet_rtt;
mod geonet_security;
mod geonet_tcp;
mod geonet_udp;
mod geonet_v2i;
mod lab_links;
mod mptcp_bonding;
mod mptcp_filtered;
mod mptcp_handover;
mod mptcp_many;
mod mptcp_model;
mod mptcp_scenarios;
mod nemo_blackhole;
mod nemo_boards;
mod nemo_brownout;
mod nemo_crash;
mod nemo_duplicate;
mod nemo_encrypted;
mod nemo_firewall;
mod nemo_fleet;
mod nemo_fleet_kills;
mod nemo_fleet_places;
mod nemo_flows;
mod nemo_handover;
mod nemo_home_agent_failover;
mod nemo_home_and_away;
mod nemo_hostile;
mod nemo_idle;
mod nemo_media;
mod nemo_nested;
mod nemo_scale;
mod nemo_storm;
mod nemo_throughput;
mod nemo_uplinks;
mod shim6_contexts;
mod shim6_generation;
mod shim6_hostile;
mod shim6_negotiation;
mod shim6_recovery;
mod shim6_servers;
mod shim6_throughput;
mod virtual_machine;

use prelude::{Result, Run};

/// What experiments use.
mod prelude {
    pub(super) use crate::clock;
    pub(super) use crate::judge::{Estimate, LEVEL, NamedEstimate, median, ratio_of_medians, ratios};
    pub(super) use crate::load::{Delivery, Endpoint, Protocol, Stamp, Train, Transfer, TransferLoad};
    pub(super) use crate::rounds::Rounds;
    pub(super) use crate::run::Run;
    pub(super) use crate::statistics::{distribution, percentile, round};
    pub(super) use anyhow::{Context, Result, anyhow, bail, ensure};
    pub(super) use serde_json::{Value, json};
    pub(super) use std::thread::sleep;
    pub(super) use std::time::Duration;
}

/// An experiment.
pub(crate) struct Experiment {
    /// Its name: the theme, a slash, and the subject.
    pub(crate) name: &'static str,
    /// What it measures, in one line.
    pub(crate) about: &'static str,
    /// Its text and its charts on the page: a file of `lab/src/report/contents/`, named after its module.
    pub(crate) contents: &'static str,
    pub(crate) kind: Kind,
    pub(crate) place: Place,
    /// Runs it.
    pub(crate) run: fn(&mut Run) -> Result<()>,
}

/// Whether the load of the machine can change the figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Counts: it may share the machine.
    Exact,
    /// Times and ratios: it has the machine to itself.
    Timed,
}

/// Where an experiment runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// In network namespaces of this machine.
    Here,
    /// In a virtual machine whose clock counts instructions (`scripts/vm-run -i`).
    #[allow(dead_code, reason = "the experiments that count are being written")]
    Counted,
    /// In a virtual machine with the distribution's kernel (`scripts/vm-run`).
    OtherKernel,
    /// On emulated boards (qemu-system-*), beside network namespaces of this machine.
    Boards,
}

/// The parts of an experiment that can be run alone; most have none.
pub(crate) fn parts_of(experiment: &str) -> Vec<&'static str> {
    match experiment {
        "mptcp/bonding" => mptcp_bonding::parts().collect(),
        "nemo/encrypted" => nemo_encrypted::parts().collect(),
        _ => Vec::new(),
    }
}

/// Makes the table of experiments from modules, names, kinds, places and descriptions.
macro_rules! experiments {
    ($($module:ident, $name:literal, $kind:ident, $place:ident, $about:literal;)*) => {
        /// All experiments.
        pub(crate) const ALL: &[Experiment] = &[$(Experiment {
            name: $name,
            about: $about,
            contents: include_str!(concat!("../report/contents/", stringify!($module), ".json")),
            kind: Kind::$kind,
            place: Place::$place,
            run: $module::run,
        }),*];
    };
}

experiments! {
    doctor, "doctor", Exact, Here,
        "roam6 doctor: faults made one by one, named first or not, and false alarms on a healthy system";
    geonet_city, "geonet/city", Exact, Here,
        "1,000 vehicles on a street grid, simulated: delivery to reachable stations, hops, frames";
    geonet_conformance, "geonet/conformance", Exact, Here,
        "test purposes of GeoNetworking and of IPv6 over it, each against a running roam6";
    geonet_ferry, "geonet/ferry", Exact, Here,
        "two shores and a ferry: what stations store, carry and forward arrives, by daemons and in the simulator";
    geonet_forwarding, "geonet/forwarding", Timed, Here,
        "packets per second of a forwarder on one core with 1, 10, 50 and 200 neighbours";
    geonet_links, "geonet/links", Exact, Here, "ping, TCP and multicast on four virtual links at once";
    geonet_parameters, "geonet/parameters", Timed, Here,
        "P3 Table II: throughput by sending interval, receive buffer, TCP window and maximum segment size";
    geonet_radios, "geonet/radios", Timed, OtherKernel,
        "P3 Fig 10: datagrams over simulated radios of 802.11 OCB, on the distribution's kernel";
    geonet_rtt, "geonet/rtt", Timed, Here,
        "ping between vehicles over GeoNetworking and over plain IPv6, 20 to 1500 octets, one and two hops";
    geonet_security, "geonet/security", Timed, Here,
        "secured packets: signatures a second, forwarding, octets added, a flood of forged packets beside a neighbour's CAMs";
    geonet_tcp, "geonet/tcp", Exact, Here, "TCP through a column of vehicles that passes both ends, and through a forwarder with default settings";
    geonet_udp, "geonet/udp", Timed, Here,
        "P3 Figs 10, 11: datagrams on channels of 802.11g and 802.11p: delivery, throughput; and the highest rate";
    geonet_v2i, "geonet/v2i", Exact, Here, "two vehicles and a roadside unit: direct, roadside and cellular paths; TCP survives";
    lab_links, "lab/links", Timed, Here, "the testbed itself: delay, loss and re-plugging of its links";
    mptcp_bonding, "mptcp/bonding", Timed, Here,
        "one TCP connection of plain hosts over all uplinks: goodput, silence when one is lost, set-up, processor time, memory";
    mptcp_filtered, "mptcp/filtered", Timed, Here,
        "a firewall filters the direct path while the tunnel works: whether connections survive, and how long they stall";
    mptcp_handover, "mptcp/handover", Timed, Here,
        "one connection through hard, planned and black-hole handovers, with and without MPTCP";
    mptcp_many, "mptcp/many", Timed, Here,
        "50 nodes inside with as many correspondents, by classical NEMO and with MPTCP: throughput, fairness, handover gaps";
    mptcp_model, "mptcp/model", Timed, Here, "P2 equations 1 to 5: computed and measured delays";
    mptcp_scenarios, "mptcp/scenarios", Timed, Here,
        "P2 Figs 4, 5: NS0, NS1C, NS1P, NS2C, NS2P, opened from either side: round trips, throughput of TCP and UDP";
    nemo_blackhole, "nemo/blackhole", Timed, Here,
        "an uplink with carrier that carries nothing any more: how long traffic is interrupted";
    nemo_boards, "nemo/boards", Timed, Boards,
        "P1 Figs 4 to 8: instructions a packet on emulated boards: plain routing, the kernel's tunnel, BPF";
    nemo_brownout, "nemo/brownout", Timed, Here,
        "an uplink with carrier that loses, delays or swallows packets: when it is left, how often traffic moves";
    nemo_crash, "nemo/crash", Exact, Here, "kill -9 of home agent and mobile router under traffic";
    nemo_duplicate, "nemo/duplicate", Timed, Here,
        "flows that are sent by two uplinks at once: loss and copies through cuts and loss, and what other flows pay";
    nemo_encrypted, "nemo/encrypted", Timed, OtherKernel,
        "encrypt at both ends: plaintext on visited links, loss and gaps of moves, renewal of keys, attacks, instructions";
    nemo_firewall, "nemo/firewall", Timed, Here,
        "a stateful firewall on either end of the tunnel: packets that violate its rules, and its cost";
    nemo_fleet, "nemo/fleet", Timed, Here,
        "three home agents that are one, on etcd and BIRD: failures, registrations, replays, partitions, joining";
    nemo_fleet_kills, "nemo/fleet-kills", Exact, Here,
        "members of a fleet and nodes of its store are killed without end: acknowledgements that are lost";
    nemo_fleet_places, "nemo/fleet-places", Timed, Here,
        "a fleet in two places, 10 and 60 ms away: who pays for the distance";
    nemo_flows, "nemo/flows", Timed, Here, "path selection for 1, 8 and 64 flows: packets per second of CPU time";
    nemo_handover, "nemo/handover", Timed, Here, "gap and loss of planned, link-down, hard and black-hole handovers";
    nemo_home_agent_failover, "nemo/home-agent-failover", Timed, Here,
        "a home agent dies under traffic and returns: gap over uplinks with IPv6, IPv4, and IPv4 behind a NAT";
    nemo_home_and_away, "nemo/home-and-away", Timed, Here,
        "one uplink at home, one away, both in use: gap and loss when either is pulled or comes back";
    nemo_hostile, "nemo/hostile", Exact, Here, "a million hostile messages and seven attacks against running daemons";
    nemo_idle, "nemo/idle", Exact, Here, "memory, wake-ups and CPU time without traffic; traffic of an uplink in use and of one in reserve";
    nemo_media, "nemo/media", Timed, Here,
        "P1, slides: voice, video and mail through each kind of move: loss, jitter, opinion score, freezes";
    nemo_nested, "nemo/nested", Timed, Here,
        "P1 Fig 2: nested mobile networks, depth 1 to 3, with one home agent and one for each: delay, path, MTU";
    nemo_scale, "nemo/scale", Timed, Here, "10 to 1 000 000 bindings in one home agent: rate, memory, delay";
    nemo_storm, "nemo/storm", Exact, Here, "100 000 mobile routers register at once after the home agent was killed";
    nemo_throughput, "nemo/throughput", Timed, Here,
        "P1 Figs 5, 6: packets per second of CPU time by plain routing, by the tunnel, by the kernel's tunnels";
    nemo_uplinks, "nemo/uplinks", Timed, Here,
        "two uplinks, each IPv6, IPv4, IPv4 behind NAT or IPv6 where UDP alone passes: gap, loss, weights";
    shim6_contexts, "shim6/contexts", Timed, Here, "1 000 to 100 000 contexts: time of an I2, memory";
    shim6_generation, "shim6/generation", Timed, Here, "CGA and HBA generation: candidates per second, time by Sec, key, threads";
    shim6_hostile, "shim6/hostile", Exact, Here, "a million hostile messages against a running shim";
    shim6_negotiation, "shim6/negotiation", Timed, Here, "I1 to R2: no proof, HBA, CGA; 2, 5 and 10 locators";
    shim6_recovery, "shim6/recovery", Timed, Here, "a provider fails silently: outage of TCP and UDP";
    shim6_servers, "shim6/servers", Exact, Here, "a campus server with millions of flows: simultaneous contexts (simulated)";
    shim6_throughput, "shim6/throughput", Timed, Here, "bulk TCP: plain, with a context, rewritten, plain without TSO";
}
