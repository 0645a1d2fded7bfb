//! A stateful nftables firewall on a mobile router or a home agent: no packet that its rules drop is forwarded, in any
//! state of the neighbour cache and during rule changes. And the cost of the rules, compared with plain routers with
//! the same rules.

use crate::experiments::prelude::*;
mod cost;
mod policy;

use crate::bed::{Daemon, Host};
use std::fs;

/// How long a daemon may take to detect a firewall.
const TIMEOUT: Duration = Duration::from_secs(10);

pub(super) fn run(run: &mut Run) -> Result<()> {
    run.set_steps(policy::steps() + cost::STEPS);
    policy::check_policies(run)?;
    cost::measure(run)
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
