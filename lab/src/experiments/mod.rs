//! The experiments, one file each, found by name.

mod doctor;
mod geonet_city;
mod geonet_forwarding;
mod geonet_rtt;
mod geonet_tcp;
mod geonet_udp;
mod geonet_v2i;
mod lab_links;
mod mptcp_handover;
mod mptcp_many;
mod mptcp_model;
mod mptcp_scenarios;
mod nemo_blackhole;
mod nemo_brownout;
mod nemo_crash;
mod nemo_firewall;
mod nemo_flows;
mod nemo_handover;
mod nemo_home_agent_failover;
mod nemo_home_and_away;
mod nemo_hostile;
mod nemo_idle;
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

use prelude::{Result, Run};

/// What experiments use.
mod prelude {
    pub(super) use crate::clock;
    pub(super) use crate::load::{Delivery, Endpoint, Protocol, Stamp, Train, Transfer, TransferLoad};
    pub(super) use crate::run::Run;
    pub(super) use crate::statistics::{distribution, min_of_directions, percentile, ratio, round};
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
    /// Runs it.
    pub(crate) run: fn(&mut Run) -> Result<()>,
}

/// Makes the table of experiments from modules, names and descriptions.
macro_rules! experiments {
    ($($module:ident, $name:literal, $about:literal;)*) => {
        /// All experiments.
        pub(crate) const ALL: &[Experiment] = &[$(Experiment { name: $name, about: $about, run: $module::run }),*];
    };
}

experiments! {
    doctor, "doctor",
        "roam6 doctor: faults made one by one, named first or not, and false alarms on a healthy system";
    geonet_city, "geonet/city",
        "1,000 vehicles on a street grid, simulated: delivery to reachable stations, hops, frames";
    geonet_forwarding, "geonet/forwarding",
        "packets per second of a forwarder on one core with 1, 10, 50 and 200 neighbours";
    geonet_rtt, "geonet/rtt",
        "ping between vehicles over GeoNetworking and over plain IPv6, 20 to 1500 octets, one and two hops";
    geonet_tcp, "geonet/tcp", "TCP through a column of vehicles that passes both ends";
    geonet_udp, "geonet/udp",
        "datagrams between vehicles: delivery at the paper's rates and sizes, and the highest rate";
    geonet_v2i, "geonet/v2i", "two vehicles and a roadside unit: direct, roadside and cellular paths; TCP survives";
    lab_links, "lab/links", "the testbed itself: delay, loss and re-plugging of its links";
    mptcp_handover, "mptcp/handover",
        "one connection through hard, planned and black-hole handovers, with and without MPTCP";
    mptcp_many, "mptcp/many",
        "50 nodes inside at once, by classical NEMO and with MPTCP: throughput, fairness, handover gaps";
    mptcp_model, "mptcp/model", "P2 equations 1 to 5: computed and measured delays";
    mptcp_scenarios, "mptcp/scenarios",
        "P2 Figs 4, 5: NS0, NS1C, NS1P, NS2C, NS2P; round trips and throughput over message sizes";
    nemo_blackhole, "nemo/blackhole",
        "an uplink with carrier that carries nothing any more: how long traffic stands still";
    nemo_brownout, "nemo/brownout",
        "an uplink with carrier that loses, delays or swallows packets: when it is left, how often traffic moves";
    nemo_crash, "nemo/crash", "kill -9 of home agent and mobile router under traffic";
    nemo_firewall, "nemo/firewall",
        "a stateful firewall on either end of the tunnel: packets that violate its rules, and its cost";
    nemo_flows, "nemo/flows", "path selection for 1, 8 and 64 flows: packets per second of CPU time";
    nemo_handover, "nemo/handover", "gap and loss of planned, link-down, hard and black-hole handovers";
    nemo_home_agent_failover, "nemo/home-agent-failover",
        "a home agent dies under traffic and returns: gap over uplinks with IPv6, IPv4, and IPv4 behind a NAT";
    nemo_home_and_away, "nemo/home-and-away",
        "one uplink at home, one away, both in use: gap and loss when either is pulled or comes back";
    nemo_hostile, "nemo/hostile", "a million hostile messages and seven attacks against running daemons";
    nemo_idle, "nemo/idle", "memory, wake-ups and CPU time without traffic; traffic of an uplink in use and of one in reserve";
    nemo_nested, "nemo/nested", "nested mobile networks, depth 1 to 3: path and MTU";
    nemo_scale, "nemo/scale", "10 to 1 000 000 bindings in one home agent: rate, memory, delay";
    nemo_storm, "nemo/storm", "100 000 mobile routers register at once after the home agent was killed";
    nemo_throughput, "nemo/throughput",
        "P1 Fig 7: packets per second of CPU time by plain routing, by the tunnel, by the kernel's tunnels";
    nemo_uplinks, "nemo/uplinks",
        "two uplinks, each IPv6, IPv4, IPv4 behind NAT or IPv6 where UDP alone passes: gap, loss, weights";
    shim6_contexts, "shim6/contexts", "1 000 to 100 000 contexts: time of an I2, memory";
    shim6_generation, "shim6/generation", "CGA and HBA generation: candidates per second, time by Sec, key, threads";
    shim6_hostile, "shim6/hostile", "a million hostile messages against a running shim";
    shim6_negotiation, "shim6/negotiation", "I1 to R2: no proof, HBA, CGA; 2, 5 and 10 locators";
    shim6_recovery, "shim6/recovery", "a provider fails silently: outage of TCP and UDP";
    shim6_servers, "shim6/servers", "a campus server with millions of flows: simultaneous contexts (simulated)";
    shim6_throughput, "shim6/throughput", "bulk TCP: plain, with a context, rewritten, plain without TSO";
}
