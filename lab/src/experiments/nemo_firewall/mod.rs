//! A stateful nftables firewall on a mobile router or a home agent: no packet that its rules drop is forwarded, in any
//! state of the neighbour cache and during rule changes. And the cost of the rules, compared with plain routers with
//! the same rules.

mod cost;
mod policy;

use super::Experiment;
use crate::bed::{Daemon, Host};
use crate::clock;
use crate::findings::Findings;
use crate::ui::Progress;
use anyhow::{Context, Result};
use std::fs;
use std::time::Duration;

/// See the module documentation.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "nemo/firewall",
    about: "a stateful firewall on either end of the tunnel: packets that violate its rules, and its cost",
    run,
};

/// How long a daemon may take to detect a firewall.
const TIMEOUT: Duration = Duration::from_secs(10);

fn run(quick: bool) -> Result<Findings> {
    let mut findings = Findings::default();
    let mut progress = Progress::new(policy::steps() + cost::steps(quick));
    policy::check_policies(quick, &mut progress, &mut findings)?;
    cost::measure(quick, &mut progress, &mut findings)?;
    Ok(findings)
}

/// The usual rules of a router: connections may be opened only from these interfaces (an nftables expression).
fn ruleset(interfaces: &str) -> String {
    format!(
        "table inet site {{\n chain forward {{\n  type filter hook forward priority 0; policy drop;\n  \
         ct state established,related accept\n  iifname {interfaces} accept\n }}\n}}\n"
    )
}

/// Loads rules on a host, in one transaction.
fn load_rules(host: &Host, text: &str) -> Result<()> {
    let file = host.folder().join("rules.nft");
    fs::write(&file, text)?;
    host.output("nft", &["-f", &file.display().to_string()]).map(|_| ())
}

/// Waits until the daemon reports a firewall on the path.
fn wait_until_noticed(daemon: &Daemon) -> Result<()> {
    let noticed = || daemon.query(&["show", "tunnels"]).ok().filter(|text| text.contains("firewall"));
    clock::wait_for(TIMEOUT, noticed).map(|_| ()).context("roam6 does not report the firewall")
}
