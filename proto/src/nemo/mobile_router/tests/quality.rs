//! Uplinks whose path is bad, but not dead: when they are left, what the home agent learns, and when they are used again.

use super::mcoa::{ON_CELL, ON_WIFI, both, sharing};
use super::*;
use crate::contract::config::flow::{FlowRule, FlowSelector};
use crate::contract::config::nemo::ProbeConfig;
use crate::contract::view::LinkView;

/// Two registered uplinks with the limits of the configuration file.
fn limited(load_sharing: LoadSharing) -> MobileRouterConfig {
    let mut config = MobileRouterConfig {
        probe: Some(ProbeConfig { burst: true, ..ProbeConfig::default() }),
        ..sharing(load_sharing)
    };
    for uplink in &mut config.uplinks {
        (uplink.max_rtt, uplink.max_loss) = (Some(Duration::from_millis(800)), Some(20));
    }
    config
}

impl TestBed {
    /// Advances the time to `millis`; the probes of the first uplink are lost, two of three, those of the other not.
    fn brown_out(&mut self, millis: u64) -> Vec<Output> {
        self.probe_if(millis, |echo, _| echo.identifier != 1 || echo.sequence % 3 == 0, |_| true)
    }

    fn quality_state(&self, index: usize) -> String {
        self.view_of_uplink(index).state.to_string()
    }

    fn held(&self, index: usize) -> Option<Duration> {
        self.view_of_uplink(index).quality.unwrap().held
    }

    fn view_of_uplink(&self, index: usize) -> LinkView {
        let mut view = View::default();
        self.router.view(self.now, &mut view);
        view.links.swap_remove(index)
    }
}

#[test]
fn lossy_path_is_left_within_two_seconds_and_the_home_agent_learns_it() {
    let mut bench = both(limited(LoadSharing::Standby));
    bench.probe(10_000, &[1, 2]);
    assert_eq!(bench.paths()[0], (ip(ON_WIFI), 1));
    let outputs = bench.brown_out(12_000);
    assert_eq!(bench.paths(), [(ip(ON_CELL), 1), (ip(ON_WIFI), 0)], "still registered");
    let named: Vec<&str> = reports(&outputs).iter().map(|report| report.name()).collect();
    assert!(named.contains(&"path_degraded") && !named.contains(&"path_down"), "{named:?}");
    let listed = update(&outputs).bid_options();
    let priorities: Vec<(u16, u8)> = listed.iter().map(|option| (option.bid.0, option.priority)).collect();
    assert_eq!(priorities, [(2, 2), (1, 127)]);
    assert_eq!(bench.quality_state(0), "degraded");

    // Good again, and for long enough.
    bench.probe(60_000, &[1, 2]);
    assert_eq!(bench.paths()[0], (ip(ON_CELL), 1));
    assert_eq!(bench.quality_state(0), "recovering");
    assert!(bench.held(0).is_some_and(|held| (1..20).contains(&held.as_secs())), "{:?}", bench.held(0));
    let outputs = bench.probe(90_000, &[1, 2]);
    assert_eq!(bench.paths(), [(ip(ON_WIFI), 1), (ip(ON_CELL), 0)]);
    assert!(reports(&outputs).iter().any(|report| report.name() == "path_restored"));
    assert_eq!((bench.quality_state(0).as_str(), bench.held(0)), ("visited", None));
}

/// It is in use, because there is no better one: only what is wrong with it now is shown.
#[test]
fn last_choice_that_is_in_use_and_good_again_is_no_degraded_path() {
    let mut bench = both(limited(LoadSharing::Standby));
    bench.probe(10_000, &[1, 2]);
    bench.probe_if(14_000, |echo, _| echo.sequence % 3 == 0, |_| true);
    assert_eq!(bench.quality_state(0), "degraded");
    bench.probe(40_000, &[1, 2]);
    assert_eq!((bench.paths()[0], bench.quality_state(0).as_str()), ((ip(ON_WIFI), 1), "visited"));
    assert!(bench.held(0).is_some());
}

#[test]
fn without_limits_a_lossy_path_stays() {
    let mut config = limited(LoadSharing::Standby);
    for uplink in &mut config.uplinks {
        (uplink.max_rtt, uplink.max_loss) = (None, None);
    }
    let mut bench = both(config);
    bench.probe(10_000, &[1, 2]);
    let outputs = bench.brown_out(30_000);
    assert_eq!(bench.paths()[0], (ip(ON_WIFI), 1));
    assert!(updates(&outputs).is_empty());
}

#[test]
fn single_care_of_address_moves_too() {
    let mut bench = both(limited(LoadSharing::Single));
    bench.probe(10_000, &[1, 2]);
    bench.brown_out(13_000);
    assert_eq!(bench.paths()[0], (ip(ON_CELL), 1));
}

#[test]
fn all_paths_bad_keeps_the_order_of_priority() {
    let mut bench = both(limited(LoadSharing::Standby));
    bench.probe(10_000, &[1, 2]);
    bench.probe_if(14_000, |echo, _| echo.sequence % 3 == 0, |_| true);
    assert_eq!(bench.paths()[0], (ip(ON_WIFI), 1));
    assert_eq!((bench.quality_state(0), bench.quality_state(1)), ("degraded".to_owned(), "degraded".to_owned()));
}

#[test]
fn bad_path_gets_no_weight_and_no_flow() {
    let mut config = limited(LoadSharing::Weighted);
    config.uplinks[0].weight = 3;
    config.uplinks[1].priority = 1;
    config.flows = vec![FlowRule {
        id: 7,
        priority: 1,
        selector: FlowSelector::default(),
        ingress: None,
        bid: Bid(1),
        replication: None,
    }];
    let mut bench = both(config);
    bench.probe(10_000, &[1, 2]);
    assert_eq!(bench.paths(), [(ip(ON_WIFI), 3), (ip(ON_CELL), 1)]);
    assert_eq!(bench.tunnel().unwrap().flows.len(), 1);
    let outputs = bench.brown_out(12_000);
    assert_eq!(bench.paths(), [(ip(ON_CELL), 1), (ip(ON_WIFI), 0)]);
    assert!(bench.tunnel().unwrap().flows.is_empty());
    let options = update(&outputs).message.options;
    assert!(!options.iter().any(|option| matches!(option, MobilityOption::FlowIdentification(_))));
}

/// The first probes on a new network are lost while its router resolves the address: the path was not left, and its uplink
/// does not wait.
#[test]
fn path_is_used_as_soon_as_it_answers_for_the_first_time() {
    let mut bench = both(limited(LoadSharing::Standby));
    bench.probe(3_000, &[2]);
    assert_eq!((bench.paths()[0].0, bench.quality_state(0).as_str()), (ip(ON_CELL), "silent"));
    bench.probe(8_000, &[1, 2]);
    assert_eq!((bench.paths()[0], bench.quality_state(0).as_str()), ((ip(ON_WIFI), 1), "visited"));
}

/// A frozen modem with carrier: silent, then back; it is not trusted at once.
#[test]
fn frozen_path_is_used_again_after_a_minute() {
    let mut bench = both(limited(LoadSharing::Standby));
    bench.probe(10_000, &[1, 2]);
    bench.probe(11_000, &[2]);
    assert_eq!((bench.paths()[0].0, bench.quality_state(0).as_str()), (ip(ON_CELL), "silent"));
    bench.probe(14_000, &[1, 2]);
    assert_eq!((bench.paths()[0].0, bench.quality_state(0).as_str()), (ip(ON_CELL), "recovering"));
    bench.probe(70_000, &[1, 2]);
    assert_eq!(bench.paths()[0].0, ip(ON_CELL));
    bench.probe(76_000, &[1, 2]);
    assert_eq!((bench.paths()[0].0, bench.quality_state(0).as_str()), (ip(ON_WIFI), "visited"));
}

#[test]
fn quality_is_shown() {
    let mut bench = both(limited(LoadSharing::Standby));
    bench.probe(10_000, &[1, 2]);
    let mut view = View::default();
    bench.router.view(bench.now, &mut view);
    let quality = view.links[0].quality.unwrap();
    assert_eq!((quality.rtt, quality.loss_permille, quality.samples), (Duration::ZERO, 0, 32));
}
