//! The MPTCP endpoints of relayed connections: which uplinks have one, and which of them is a backup.

use super::mcoa::{ON_CELL, ON_WIFI, both, sharing};
use super::*;
use crate::contract::config::flow::{ALL_UPLINKS, FlowRule, FlowSelector};
use crate::contract::config::nemo::ProbeConfig;

/// Two registered uplinks with limits of quality, and a rule that bonds all connections.
fn bonding() -> TestBed {
    let rule = FlowRule {
        id: 1,
        priority: 1,
        selector: FlowSelector::default(),
        ingress: None,
        bid: ALL_UPLINKS,
        replication: None,
    };
    let mut config = MobileRouterConfig {
        probe: Some(ProbeConfig { burst: true, ..ProbeConfig::default() }),
        flows: vec![rule],
        ..sharing(LoadSharing::Weighted)
    };
    for uplink in &mut config.uplinks {
        (uplink.max_rtt, uplink.max_loss) = (Some(Duration::from_millis(800)), Some(20));
    }
    let mut bench = both(config);
    bench.probe(10_000, &[1, 2]);
    bench
}

/// The endpoints of uplinks, and whether each is a backup.
fn endpoints(bench: &TestBed) -> Vec<(Ipv6Addr, bool)> {
    let plan = bench.router.plan();
    let endpoints = plan.iter().filter_map(|(_, item)| match item {
        Item::MptcpEndpoint(endpoint) => Some((endpoint.address, endpoint.flags.backup)),
        _ => None,
    });
    endpoints.filter(|(address, _)| [ip(ON_WIFI), ip(ON_CELL)].contains(address)).collect()
}

#[test]
fn without_an_answer_on_any_path_there_is_no_endpoint() {
    let mut bench = bonding();
    bench.probe(25_000, &[]);
    assert_eq!(endpoints(&bench), []);
    bench.probe(25_500, &[1, 2]);
    assert_eq!(endpoints(&bench).len(), 2, "as soon as a probe is answered");
}

#[test]
fn uplink_that_loses_packets_is_a_backup_until_enough_of_them_pass() {
    let mut bench = bonding();
    bench.probe_if(14_000, |echo, _| echo.identifier != 1 || echo.sequence % 3 == 0, |_| true);
    let wifi = |bench: &TestBed| endpoints(bench).into_iter().find(|(address, _)| *address == ip(ON_WIFI));
    assert_eq!(wifi(&bench), Some((ip(ON_WIFI), true)));
    bench.probe(40_000, &[1, 2]);
    assert_eq!(wifi(&bench), Some((ip(ON_WIFI), false)));
}
