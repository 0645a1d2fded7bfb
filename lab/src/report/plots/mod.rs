//! Charts of results, with the papers' values (lab/papers/): one file for each group of experiments.

mod geonet;
mod lab;
mod mptcp;
mod nemo;
mod read;
mod shim6;

use crate::report::chart::{self, Chart};
use anyhow::{Context, Result};
use serde_json::Value;
use std::path::Path;

/// Draws the charts of a result.
type Draw = fn(&Value) -> Vec<Chart>;

/// The experiments that have charts.
const CHARTS: &[(&str, Draw)] = &[
    ("geonet/city", geonet::city),
    ("geonet/forwarding", geonet::forwarding),
    ("geonet/rtt", geonet::rtt),
    ("geonet/tcp", geonet::tcp),
    ("geonet/udp", geonet::udp),
    ("geonet/v2i", geonet::v2i),
    ("lab/links", lab::links),
    ("mptcp/handover", mptcp::handover),
    ("mptcp/many", mptcp::many),
    ("mptcp/model", mptcp::model),
    ("mptcp/scenarios", mptcp::scenarios),
    ("nemo/flows", nemo::flows),
    ("nemo/handover", nemo::handover),
    ("nemo/home-and-away", nemo::home_and_away),
    ("nemo/nested", nemo::nested),
    ("nemo/scale", nemo::scale),
    ("nemo/throughput", nemo::throughput),
    ("shim6/contexts", shim6::contexts),
    ("shim6/generation", shim6::generation),
    ("shim6/negotiation", shim6::negotiation),
    ("shim6/recovery", shim6::recovery),
    ("shim6/servers", shim6::servers),
    ("shim6/throughput", shim6::throughput),
];

/// The charts of a result; `None` if the experiment has none.
pub(crate) fn charts_of(document: &Value) -> Option<Vec<Chart>> {
    let name = document.get("experiment")?.as_str()?;
    CHARTS.iter().find(|(known, _)| *known == name).map(|(_, draw)| draw(document))
}

/// Draws the result in the file `from` into the file `to`.
pub(crate) fn write_svg(from: &Path, to: &Path) -> Result<()> {
    let text = std::fs::read_to_string(from).with_context(|| format!("cannot read {}", from.display()))?;
    let document: Value =
        serde_json::from_str(&text).with_context(|| format!("{} is not a result file", from.display()))?;
    let charts = charts_of(&document).with_context(|| format!("no chart for the experiment of {}", from.display()))?;
    chart::write(to, &charts)
}
