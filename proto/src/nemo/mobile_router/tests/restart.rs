//! A later life: what the former one left forwards on until this one is bound, or no home agent holds it any longer.

use super::*;

#[test]
fn the_former_life_s_state_stays_until_the_home_agent_has_answered() {
    let mut bench = Bench::new(config());
    bench.link(LAN, true);
    bench.link(WIFI, true);
    assert!(!bench.router.takeover_complete());
    let update = update(&bench.advertise(WIFI, "2001:db8:1::/64"));
    assert!(!bench.router.takeover_complete());
    assert!(bench.tunnel().is_none(), "the former tunnel forwards on");
    let last = Sequence(update.message.sequence.0.wrapping_add(100));
    let again = bench.answer_with(&update, Status::SEQUENCE_OUT_OF_WINDOW, AckFlags::ROUTER, last, Vec::new());
    assert!(!bench.router.takeover_complete(), "not an answer to where we are");
    bench.answer(&super::update(&again), Status::ACCEPTED);
    assert!(bench.router.takeover_complete());
    assert_eq!(bench.paths(), [(ip("2001:db8:1::ff:fe00:2"), 1)]);
}

#[test]
fn it_goes_when_no_home_agent_can_hold_it_any_longer() {
    let mut bench = Bench::new(config());
    bench.wait(59_999);
    assert!(!bench.router.takeover_complete());
    bench.wait(60_001);
    assert!(bench.router.takeover_complete());
}

#[test]
fn who_never_registered_has_left_nothing() {
    let config = MobileRouterConfig { authentication: Authentication::None, ..config() };
    assert!(Bench::new(config).router.takeover_complete());
}

#[test]
fn the_first_update_lists_the_slower_uplink_too() {
    let mut bench = Bench::new(MobileRouterConfig { load_sharing: LoadSharing::Standby, ..config() });
    bench.link(WIFI, true);
    bench.link(CELL, true);
    assert!(updates(&bench.advertise(CELL, "2001:db8:2::/64")).is_empty());
    bench.wait(100);
    let update = update(&bench.advertise(WIFI, "2001:db8:1::/64"));
    assert_eq!(update.care_of(), [ip("2001:db8:1::ff:fe00:2"), ip("2001:db8:2::ff:fe00:3")]);
}

#[test]
fn it_waits_for_no_uplink_longer_than_a_router_may_think() {
    let mut bench = Bench::new(MobileRouterConfig { load_sharing: LoadSharing::Standby, ..config() });
    bench.link(WIFI, true);
    bench.link(CELL, true);
    bench.advertise(CELL, "2001:db8:2::/64");
    assert!(updates(&bench.wait(499)).is_empty());
    assert_eq!(update(&bench.wait(501)).care_of(), [ip("2001:db8:2::ff:fe00:3")]);
}
