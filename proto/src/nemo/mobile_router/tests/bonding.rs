//! The MPTCP endpoints of relayed connections: which uplinks have one, and which of them is a backup.

use super::mcoa::{ON_CELL, ON_WIFI, both, sharing};
use super::*;
use crate::contract::config::flow::{ALL_UPLINKS, FlowRule, FlowSelector};
use crate::contract::config::nemo::ProbeConfig;

/// A rule that bonds all connections.
pub(super) fn bonded_flow() -> FlowRule {
    FlowRule {
        id: 1,
        priority: 1,
        selector: FlowSelector::default(),
        ingress: None,
        bid: ALL_UPLINKS,
        replication: None,
    }
}

/// Two registered uplinks with limits of quality, and a rule that bonds all connections.
fn bonding() -> TestBed {
    let mut config = MobileRouterConfig {
        probe: Some(ProbeConfig { burst: true, ..ProbeConfig::default() }),
        flows: vec![bonded_flow()],
        ..sharing(LoadSharing::Weighted)
    };
    for uplink in &mut config.uplinks {
        (uplink.max_rtt, uplink.max_loss) = (Some(Duration::from_millis(800)), Some(20));
    }
    let mut bench = both(config);
    bench.probe(10_000, &[1, 2]);
    bench
}

/// The endpoints, and whether each is a backup.
pub(super) fn all_endpoints(bench: &TestBed) -> Vec<(Ipv6Addr, bool)> {
    let plan = bench.router.plan();
    let endpoints = plan.iter().filter_map(|(_, item)| match item {
        Item::MptcpEndpoint(endpoint) => Some((endpoint.address, endpoint.flags.backup)),
        _ => None,
    });
    endpoints.collect()
}

/// Those of uplinks.
fn endpoints(bench: &TestBed) -> Vec<(Ipv6Addr, bool)> {
    let is_care_of = |(address, _): &(Ipv6Addr, bool)| [ip(ON_WIFI), ip(ON_CELL)].contains(address);
    all_endpoints(bench).into_iter().filter(is_care_of).collect()
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
fn end_of_an_outage_renews_the_subflow_of_the_home_address() {
    let mut bench = bonding();
    let has_home = |bench: &TestBed| all_endpoints(bench).iter().any(|(address, _)| *address == ip("2001:db8::100"));
    bench.probe(25_000, &[]);
    assert!(has_home(&bench), "the connection lives by it in an outage");
    let mut without = Vec::new();
    for millis in (25_000..27_000).step_by(10) {
        bench.probe(millis, &[2]);
        if !has_home(&bench) {
            assert_eq!(endpoints(&bench).len(), 1, "the first reply has come");
            without.push(millis);
        }
    }
    let (first, last) = (without[0], without[without.len() - 1]);
    assert!(first <= 25_100 && (20..=220).contains(&(last - first)), "until the second reply: {first} {last}");
    // A single path that is lost is no outage.
    bench.probe(60_000, &[1, 2]);
    for millis in (60_000..75_000).step_by(50) {
        bench.probe(millis, if millis < 70_000 { &[2] } else { &[1, 2] });
        assert!(has_home(&bench));
    }
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
