//! How often paths are probed: rarely in reserve, and at once when they may be needed.

use super::mcoa::{ON_CELL, both, probes, sharing};
use super::*;
use crate::contract::config::flow::{FlowRule, FlowSelector};
use crate::contract::config::nemo::ProbeConfig;
use crate::contract::input::{LinkTraffic, TrafficCount};

const STANDBY: Duration = Duration::from_secs(40);

fn rarely() -> MobileRouterConfig {
    let probe = ProbeConfig { burst: true, standby: Some(STANDBY), ..ProbeConfig::default() };
    MobileRouterConfig { probe: Some(probe), lifetime: Duration::from_secs(600), ..sharing(LoadSharing::Standby) }
}

/// The number of probes of an uplink.
fn count(outputs: &[Output], bid: u16) -> usize {
    probes(outputs).iter().filter(|(echo, tunnelled)| *tunnelled && echo.identifier == bid).count()
}

#[test]
fn path_in_reserve_is_probed_rarely_once_it_is_known() {
    let mut bench = both(rarely());
    let outputs = bench.probe(10_000, &[1, 2]);
    assert!((8..=14).contains(&count(&outputs, 2)), "{}", count(&outputs, 2));
    let outputs = bench.probe(610_000, &[1, 2]);
    assert_eq!((count(&outputs, 1), count(&outputs, 2)), (3000, 15));
    let sizes = transmits(&outputs)
        .iter()
        .filter(|transmit| transmit.bytes.len() > 1000 && transmit.via == Via::Link(CELL))
        .count();
    assert_eq!(sizes, 0, "its path MTU is not confirmed while nothing uses it");
}

#[test]
fn path_in_reserve_is_asked_when_it_may_be_needed() {
    let mut bench = both(rarely());
    bench.probe(50_300, &[1, 2]);
    // The preferred path falls silent: the other is asked before that is certain.
    let outputs = bench.probe(51_300, &[2]);
    assert!(count(&outputs, 2) >= 3, "{}", count(&outputs, 2));
    assert_eq!(bench.paths()[0].0, ip(ON_CELL));
    // It is in use now; the silent one is asked less and less often.
    let outputs = bench.probe(651_300, &[2]);
    assert_eq!(count(&outputs, 2), 3000);
    let outputs = [outputs, bench.probe(751_300, &[2])].concat();
    assert!((50..600).contains(&silent_probes(&outputs)), "{}", silent_probes(&outputs));
    // Back after its first answers.
    bench.probe(780_000, &[1, 2]);
    assert_ne!(bench.paths()[0].0, ip(ON_CELL));
}

/// Probes of the first uplink, which is not registered while it is silent.
fn silent_probes(outputs: &[Output]) -> usize {
    probes(outputs).iter().filter(|(echo, _)| echo.identifier == 1).count()
}

#[test]
fn dead_path_in_reserve_is_found_with_its_next_probe() {
    let mut bench = both(rarely());
    bench.probe(10_000, &[1, 2]);
    let outputs = bench.probe(52_000, &[1]);
    assert!(reports(&outputs).iter().any(|report| report.name() == "path_down"));
    assert!(bench.paths().iter().all(|(local, _)| *local != ip(ON_CELL)));
}

#[test]
fn outage_of_all_paths_is_probed_often_at_first() {
    // By default, and with the intervals of paths without traffic.
    for config in [MobileRouterConfig { probe: Some(ProbeConfig::default()), ..rarely() }, rarely()] {
        let mut bench = both(config);
        bench.probe(10_000, &[1, 2]);
        bench.probe(12_000, &[]);
        // Each is sent through the tunnel and beside it.
        let probes = |bench: &mut TestBed, until: u64| silent_probes(&bench.probe(until * 1000, &[])) / 2;
        assert_eq!([13, 14].map(|until| probes(&mut bench, until)), [20, 20], "four times as often");
        bench.probe(72_000, &[]);
        let later = probes(&mut bench, 73);
        assert!((3..=5).contains(&later), "{later}");
        bench.probe(400_000, &[]);
        assert!((1..=5).contains(&probes(&mut bench, 401)));
        // The first answer ends the outage.
        let outputs = bench.probe(402_500, &[1, 2]);
        assert!(reports(&outputs).iter().any(|report| report.name() == "path_up"));
        assert!(silent_probes(&outputs) <= 28, "at the usual interval again: {}", silent_probes(&outputs));
    }
}

#[test]
fn path_of_a_flow_rule_is_not_in_reserve() {
    let flows = vec![FlowRule {
        id: 7,
        priority: 1,
        selector: FlowSelector::default(),
        ingress: None,
        bid: Bid(2),
        replication: None,
    }];
    let mut bench = both(MobileRouterConfig { flows, ..rarely() });
    bench.probe(10_000, &[1, 2]);
    assert_eq!(count(&bench.probe(20_000, &[1, 2]), 2), 50);
}

#[test]
fn uplink_has_its_own_probes() {
    let mut config = rarely();
    let standby = Some(Duration::from_secs(5));
    config.uplinks[1].probe = Some(ProbeConfig { standby, ..ProbeConfig::default() });
    let mut bench = both(config);
    bench.probe(10_000, &[1, 2]);
    assert_eq!(count(&bench.probe(60_000, &[1, 2]), 2), 10);
}

impl TestBed {
    /// Advances the time by so many seconds; the interfaces send and receive so many packets a second beside probes. The
    /// probes of the first uplink.
    fn carry(&mut self, seconds: u64, packets: u64) -> usize {
        let mut probes = 0;
        for _ in 0..seconds {
            self.counters += packets;
            let second = self.now.as_micros() / 1000 + 1000;
            let outputs = self.probe(second, &[1, 2]);
            probes += count(&outputs, 1);
            self.counters += u64::try_from(probes_sent(&outputs)).unwrap();
            for output in &outputs {
                if let Output::LinkTrafficQuery(link) = output {
                    let count = TrafficCount { packets: self.counters, octets: 0 };
                    self.feed(Input::LinkTraffic(LinkTraffic { link: *link, tx: count, rx: count }));
                }
            }
        }
        probes
    }
}

fn probes_sent(outputs: &[Output]) -> usize {
    probes(outputs).len()
}

#[test]
fn path_in_use_is_probed_rarely_while_it_carries_nothing() {
    let mut config = rarely();
    config.probe.iter_mut().for_each(|probe| probe.idle = Some(Duration::from_secs(10)));
    let mut bench = both(config);
    bench.carry(20, 100);
    assert!(bench.carry(60, 100) >= 299, "as usual under traffic");
    bench.carry(10, 0);
    let idle = bench.carry(100, 0);
    assert!((10..=11).contains(&idle), "{idle}");
    bench.carry(1, 50);
    assert!(bench.carry(2, 50) >= 9, "a second later");
}
