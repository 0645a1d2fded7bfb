//! Links with an attacker: permanent address conflicts, forged routers, and the home prefix on a visited link.

use super::*;

fn conflict(bench: &mut TestBed, target: Ipv6Addr) -> Vec<Output> {
    let (router, solicited, overrides) = (false, false, true);
    let options = vec![NeighbourOption::TargetLinkAddress(ROUTER_MAC)];
    let claim = NeighbourAdvertisement { router, solicited, overrides, target, options };
    bench.neighbour(WIFI, target, icmp6::ALL_NODES, &icmp6::Message::NeighbourAdvertisement(claim))
}

fn formed(bench: &TestBed) -> Ipv6Addr {
    bench.router.uplinks[0].care_of_address.as_ref().unwrap().address.0
}

/// Disputes every address that is checked, until none is.
fn dispute(bench: &mut TestBed) -> Vec<Output> {
    let mut outputs = Vec::new();
    while bench.router.uplinks[0].is_checking(formed(bench)) {
        outputs.extend(conflict(bench, formed(bench)));
    }
    outputs
}

#[test]
fn repeated_dad_failure_is_retried_with_backoff() {
    let mut bench = TestBed::new(config());
    bench.link(WIFI, true);
    bench.advertise(WIFI, "2001:db8:1::/64");
    let mut notices = 0;
    let mut tried = vec![formed(&bench)];
    let mut now = 0;
    for pause in [10, 20, 40, 80, 160, 300, 300] {
        let outputs = dispute(&mut bench);
        notices += reports(&outputs).iter().filter(|report| report.name() == "notice").count();
        assert!(bench.router.uplinks[0].care_of().is_none());
        assert!(updates(&bench.wait(now + pause * 1000 - 1)).is_empty(), "not before {pause} s");
        now += pause * 1000;
        let outputs = bench.wait(now);
        assert_eq!(updates(&outputs).len(), 1, "after {pause} s");
        assert!(!tried.contains(&formed(&bench)));
        tried.push(formed(&bench));
    }
    assert_eq!(notices, 1, "reported once");
    bench.wait(now + 1000);
    assert!(bench.router.uplinks[0].care_of().is_some(), "no duplicate, so it stays in use");
}

#[test]
fn replugged_uplink_resets_dad_failures() {
    let mut bench = TestBed::new(config());
    bench.link(WIFI, true);
    bench.advertise(WIFI, "2001:db8:1::/64");
    dispute(&mut bench);
    bench.wait(2000);
    bench.link(WIFI, false);
    bench.link(WIFI, true);
    let outputs = bench.advertise(WIFI, "2001:db8:2::/64");
    assert_eq!(update(&outputs).care_of(), [ip("2001:db8:2::ff:fe00:2")]);
}

/// A rogue router that answers NUD, beside one that forwards.
#[test]
fn second_router_is_used_only_after_the_first_is_lost() {
    let mut bench = TestBed::new(config());
    bench.attach(WIFI, "2001:db8:1::/64");
    bench.now = at(5000);
    for second in 0..5 {
        let outputs = bench.router_advertisement(WIFI, ip("fe80::bad"), "2001:db8:bad::/64", 1800);
        assert!(updates(&outputs).is_empty());
        let outputs = bench.confirm_router(WIFI, ip("fe80::1"));
        assert!(updates(&outputs).is_empty());
        assert!(updates(&bench.wait(6000 + second * 1000)).is_empty());
    }
    bench.router_advertisement(WIFI, ip("fe80::bad"), "2001:db8:bad::/64", 1800);
    let outputs = bench.wait(bench.now.as_micros() / 1000 + 300);
    assert_eq!(update(&outputs).care_of(), [ip("2001:db8:bad::ff:fe00:2")], "the first has not answered NUD");
}

#[test]
fn home_prefix_on_visited_link_is_ignored_if_home_is_virtual() {
    for home in [HomeNetwork::Virtual, HomeNetwork::Physical] {
        let mut bench = TestBed::new(MobileRouterConfig { home_network: home, ..config() });
        bench.attach(WIFI, "2001:db8:1::/64");
        bench.now = at(5000);
        let mut outputs = bench.router_advertisement(WIFI, ip("fe80::bad"), "2001:db8::/64", 1800);
        outputs.extend(bench.wait(8000));
        let left = updates(&outputs).iter().any(|update| update.message.lifetime_units == 0)
            || bench.router.home_link_id().is_some();
        assert_eq!(left, home == HomeNetwork::Physical, "{outputs:#?}");
        if home == HomeNetwork::Virtual {
            assert_eq!(bench.paths(), [(ip("2001:db8:1::ff:fe00:2"), 1)]);
        }
    }
}
