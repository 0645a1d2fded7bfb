//! Encryption by one switch: `encrypt` at each end. Nothing of the mobile network is readable on the visited network, over moves
//! and restarts, and whoever does not encrypt gets no data. Needs a kernel with WireGuard.

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails at the assertion")]

mod testbed;

use testbed::capture::Capture;
use testbed::wireguard::missing;
use testbed::{Testbed, wait_for, wait_or_report};

const NODE: &str = "2001:db8:100::2";
const CORRESPONDENT: &str = "2001:db8:9::9";

fn testbed(test: &str) -> Option<Testbed> {
    if let Some(why) = missing() {
        println!("skipped: {test}: {why}");
        return None;
    }
    let testbed = Testbed::new(test)?;
    testbed.enroll(&[]);
    Some(testbed)
}

fn answers(testbed: &Testbed, size: &str) -> bool {
    testbed.node.ping(2, size, CORRESPONDENT).contains(" 0% packet loss")
}

fn await_answer(testbed: &Testbed, when: &str) {
    wait_or_report(when, || answers(testbed, "56"), || testbed.logs());
}

/// Pings, a number of times, that must all be answered.
fn answered(testbed: &Testbed, count: &str) {
    let words = ["ping", "-nq", "-i0.05", "-W2", "-c", count, CORRESPONDENT];
    let shown = testbed.node.command(&words).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains(" 0% packet loss"), "{shown}\n{}", testbed.logs());
}

#[test]
fn nothing_is_readable_over_moves_and_restarts() {
    let Some(testbed) = testbed("nothing_is_readable_over_moves_and_restarts") else { return };
    let capture = Capture::begin(&testbed, &testbed.agent, "visit0", "visit");
    let mut agent = testbed.start_agent_more("encrypt = \"required\"\n");
    let mut radvd = testbed.advertise("2001:db8:2::/64");
    let mut router = testbed.start_router("encrypt = true\n");
    testbed.await_binding("2001:db8:2:");
    await_answer(&testbed, "a session");
    answered(&testbed, "20");
    assert!(answers(&testbed, "1372"), "1420 octets fit");
    let longer = testbed.node.ping(2, "1373", CORRESPONDENT);
    assert!(longer.contains("mtu") && longer.contains("1420"), "{longer}");
    for (prefix, care_of) in [("2001:db8:3::/64", "2001:db8:3:"), ("2001:db8:2::/64", "2001:db8:2:")] {
        drop(radvd);
        radvd = testbed.advertise(prefix);
        testbed.router.shell("ip link set up0 down; ip link set up0 up");
        testbed.await_binding(care_of);
        await_answer(&testbed, "a move");
        answered(&testbed, "20");
    }
    // Killed: the kernel goes on, and the next daemon takes over.
    for _ in 0..2 {
        drop(router);
        answered(&testbed, "20");
        router = testbed.start_router("encrypt = true\n");
        answered(&testbed, "40");
        drop(agent);
        answered(&testbed, "20");
        agent = testbed.start_agent_more("encrypt = \"required\"\n");
        answered(&testbed, "40");
    }
    let seen = capture.end();
    assert_eq!(seen.count(&format!("ipv6.addr == {NODE}")), 0, "nothing is in the clear");
    assert!(seen.count("wg") >= 400, "all of it is there: {}", seen.count("wg"));
    seen.check();
    drop((agent, router, radvd));
}

#[test]
fn router_that_does_not_encrypt_is_refused_if_it_has_to() {
    let Some(testbed) = testbed("router_that_does_not_encrypt_is_refused_if_it_has_to") else { return };
    let _agent = testbed.start_agent_more("encrypt = \"required\"\n");
    let _radvd = testbed.advertise("2001:db8:2::/64");
    let _router = testbed.start_router("");
    let cure = "write encrypt = true in [mobile_router]";
    wait_or_report("a refusal", || testbed.logs().contains(cure), || testbed.logs());
    assert!(!answers(&testbed, "56"));
}

#[test]
fn home_agent_that_does_not_encrypt_gets_no_data() {
    let Some(testbed) = testbed("home_agent_that_does_not_encrypt_gets_no_data") else { return };
    let capture = Capture::begin(&testbed, &testbed.agent, "visit0", "visit");
    let _agent = testbed.start_agent();
    let _radvd = testbed.advertise("2001:db8:2::/64");
    let _router = testbed.start_router("encrypt = true\n");
    let cure = "write encrypt = true in its [home_agent]";
    wait_or_report("a refusal", || testbed.logs().contains(cure), || testbed.logs());
    assert!(!answers(&testbed, "56"));
    assert_eq!(capture.end().count(&format!("ipv6.addr == {NODE}")), 0);
}

#[test]
fn unencrypted_router_is_served_beside_an_encrypted_one_if_it_may() {
    let Some(testbed) = testbed("unencrypted_router_is_served_beside_an_encrypted_one_if_it_may") else { return };
    let _agent = testbed.start_agent_more("encrypt = true\n");
    let _radvd = testbed.advertise("2001:db8:2::/64");
    let plain = testbed.start_router("");
    testbed.await_binding("2001:db8:2:");
    await_answer(&testbed, "unencrypted");
    drop(plain);
    let capture = Capture::begin(&testbed, &testbed.agent, "visit0", "visit");
    let _router = testbed.start_router("encrypt = true\n");
    wait_for("encrypted", || testbed.router.shell("ip -br link").contains("roam6-wg"));
    await_answer(&testbed, "encrypted");
    answered(&testbed, "20");
    assert_eq!(capture.end().count(&format!("ipv6.addr == {NODE}")), 0, "not even after the start");
}
