//! The real binary as a mobile router, seen by the node inside it.

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails where it stands")]

mod road;

use road::{Road, wait_for};
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

#[test]
fn killed_and_started_again_it_loses_no_packet_and_finds_back_if_it_moved_meanwhile() {
    let Some(road) = Road::new("killed_and_started_again_it_loses_no_packet_and_finds_back_if_it_moved_meanwhile")
    else {
        return;
    };
    road.enroll(&[]);
    let _agent = road.start_agent();
    let radvd = road.advertise("2001:db8:2::/64");
    let router = road.start_router("");
    road.await_binding("2001:db8:2:");
    let reaches = || road.node.command(&["ping", "-nqc1", "-W1", "2001:db8:9::9"]).output().unwrap().status.success();
    wait_for("a way out", reaches);

    let words = ["ping", "-nq", "-i", "0.005", "-c", "500", "-W", "2", "2001:db8:9::9"];
    let pings = road.node.command(&words).stdout(Stdio::piped()).spawn().unwrap();
    sleep(Duration::from_millis(300));
    drop(router);
    sleep(Duration::from_millis(300));
    let router = road.start_router("");
    wait_for("bound again", || road.show("mr", "bindings").contains("bound"));
    let told = String::from_utf8(pings.wait_with_output().unwrap().stdout).unwrap();
    assert!(told.contains("500 packets transmitted, 500 received"), "{told}");

    drop(router);
    drop(radvd);
    let _radvd = road.advertise("2001:db8:3::/64");
    let _router = road.start_router("");
    road.await_binding("2001:db8:3:");
    wait_for("a way out from the other network", reaches);
    let remains = || road.router.shell("ip -6 address show dev up0; ip -6 rule; ip -6 route show table all");
    wait_for("the former network forgotten", || !remains().contains("2001:db8:2:"));
}
