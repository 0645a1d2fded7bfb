//! Restart: the state of the previous instance continues to forward until this one is bound, or its binding has expired.

use super::*;

#[test]
fn state_of_previous_instance_stays_until_acknowledged() {
    let mut bench = TestBed::new(config());
    bench.link(LAN, true);
    bench.link(WIFI, true);
    assert!(!bench.router.takeover_complete());
    let update = update(&bench.advertise(WIFI, "2001:db8:1::/64"));
    assert!(!bench.router.takeover_complete());
    assert!(bench.tunnel().is_none(), "the former tunnel forwards on");
    let last = Sequence(update.message.sequence.0.wrapping_add(100));
    let again = bench.acknowledge_with(&update, Status::SEQUENCE_OUT_OF_WINDOW, AckFlags::ROUTER, last, Vec::new());
    assert!(!bench.router.takeover_complete(), "not an answer to where we are");
    bench.acknowledge(&super::update(&again), Status::ACCEPTED);
    assert!(bench.router.takeover_complete());
    assert_eq!(bench.paths(), [(ip("2001:db8:1::ff:fe00:2"), 1)]);
}

#[test]
fn state_of_previous_instance_ends_with_its_lifetime() {
    let mut bench = TestBed::new(config());
    bench.wait(59_999);
    assert!(!bench.router.takeover_complete());
    bench.wait(60_001);
    assert!(bench.router.takeover_complete());
}

#[test]
fn takeover_is_complete_without_a_journal() {
    let config = MobileRouterConfig { authentication: Authentication::None, ..config() };
    assert!(TestBed::new(config).router.takeover_complete());
}

#[test]
fn first_update_waits_for_slower_uplinks() {
    let mut bench = TestBed::new(MobileRouterConfig { load_sharing: LoadSharing::Standby, ..config() });
    bench.link(WIFI, true);
    bench.link(CELL, true);
    assert!(updates(&bench.advertise(CELL, "2001:db8:2::/64")).is_empty());
    bench.wait(100);
    let update = update(&bench.advertise(WIFI, "2001:db8:1::/64"));
    assert_eq!(update.care_of(), [ip("2001:db8:1::ff:fe00:2"), ip("2001:db8:2::ff:fe00:3")]);
}

#[test]
fn wait_for_slower_uplinks_is_bounded() {
    let mut bench = TestBed::new(MobileRouterConfig { load_sharing: LoadSharing::Standby, ..config() });
    bench.link(WIFI, true);
    bench.link(CELL, true);
    bench.advertise(CELL, "2001:db8:2::/64");
    assert!(updates(&bench.wait(499)).is_empty());
    assert_eq!(update(&bench.wait(501)).care_of(), [ip("2001:db8:2::ff:fe00:3")]);
}
