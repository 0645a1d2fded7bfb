//! The experiments, one file each, found by name.

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
mod nemo_crash;
mod nemo_firewall;
mod nemo_flows;
mod nemo_handover;
mod nemo_home_and_away;
mod nemo_hostile;
mod nemo_idle;
mod nemo_nested;
mod nemo_scale;
mod nemo_storm;
mod nemo_throughput;
mod shim6_contexts;
mod shim6_generation;
mod shim6_hostile;
mod shim6_negotiation;
mod shim6_recovery;
mod shim6_servers;
mod shim6_throughput;

use crate::findings::Findings;
use anyhow::Result;

/// An experiment.
pub(crate) struct Experiment {
    /// Its name: the theme, a slash, and the subject.
    pub(crate) name: &'static str,
    /// What it measures, in one line.
    pub(crate) about: &'static str,
    /// Runs it; `true` for the quick variant, under a minute.
    pub(crate) run: fn(bool) -> Result<Findings>,
}

/// All experiments.
pub(crate) const ALL: &[Experiment] = &[
    geonet_city::EXPERIMENT,
    geonet_forwarding::EXPERIMENT,
    geonet_rtt::EXPERIMENT,
    geonet_tcp::EXPERIMENT,
    geonet_udp::EXPERIMENT,
    geonet_v2i::EXPERIMENT,
    lab_links::EXPERIMENT,
    mptcp_handover::EXPERIMENT,
    mptcp_many::EXPERIMENT,
    mptcp_model::EXPERIMENT,
    mptcp_scenarios::EXPERIMENT,
    nemo_crash::EXPERIMENT,
    nemo_firewall::EXPERIMENT,
    nemo_flows::EXPERIMENT,
    nemo_handover::EXPERIMENT,
    nemo_home_and_away::EXPERIMENT,
    nemo_hostile::EXPERIMENT,
    nemo_idle::EXPERIMENT,
    nemo_nested::EXPERIMENT,
    nemo_scale::EXPERIMENT,
    nemo_storm::EXPERIMENT,
    nemo_throughput::EXPERIMENT,
    shim6_contexts::EXPERIMENT,
    shim6_generation::EXPERIMENT,
    shim6_hostile::EXPERIMENT,
    shim6_negotiation::EXPERIMENT,
    shim6_recovery::EXPERIMENT,
    shim6_servers::EXPERIMENT,
    shim6_throughput::EXPERIMENT,
];
