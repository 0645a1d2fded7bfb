//! Links as the kernel's netem makes them: what passes is late, out of order, doubled or lost; signalling and tunnels alike,
//! with either data plane. Needs a kernel with netem.

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails at the assertion")]

mod testbed;

use testbed::nat::Transfer;
use testbed::{Namespace, Testbed, wait_or_report};

/// Each way; what jitters by more than packets are apart arrives out of order.
const FAR: &str = "delay 40ms 10ms loss 2% duplicate 2%";
/// The least a round trip of it takes, milliseconds.
const LEAST: f64 = 60.0;
/// Impairments during the first registration: 20 % loss, 10 % duplication.
const LOSSY: &str = "loss 20% duplicate 10%";

/// Why links cannot be made worse here.
fn obstacle(data_plane: &str) -> Option<String> {
    let place = Namespace::new()?;
    let tunnel = if data_plane == "ip6tnl" { "ip link add probe type ip6tnl remote ::1" } else { "true" };
    let script = format!("tc qdisc add dev lo root netem delay 1ms && {tunnel}");
    let made = place.command(&["sh", "-c", &script]).output().unwrap();
    (!made.status.success()).then(|| String::from_utf8_lossy(&made.stderr).trim().to_owned())
}

/// Both ends of the uplink's cable are like this from now on.
fn make(testbed: &Testbed, how: &str) {
    testbed.agent.shell(&format!("tc qdisc replace dev visit0 root netem {how}"));
    testbed.router.shell(&format!("tc qdisc replace dev up0 root netem {how}"));
}

/// How many of forty echoes came back, and the quickest round trip in milliseconds.
fn echoes(testbed: &Testbed) -> (u32, f64) {
    let arguments = ["ping", "-nq", "-i0.05", "-W5", "-c40", "-s1000", "2001:db8:9::9"];
    let output = String::from_utf8(testbed.node.command(&arguments).output().unwrap().stdout).unwrap();
    let before = |mark: &str| output.split_once(mark).and_then(|(text, _)| text.split_whitespace().last());
    let after = |mark: &str| output.split_once(mark).and_then(|(_, text)| text.split('/').next());
    let count = before(" received").and_then(|word| word.parse().ok());
    (count.unwrap_or(0), after("mdev = ").and_then(|word| word.parse().ok()).unwrap_or(0.0))
}

fn lives_through_it(test: &str, data_plane: &str) {
    if let Some(why) = obstacle(data_plane) {
        return println!("skipped: {test}: {why}");
    }
    let Some(testbed) = Testbed::new(test) else { return };
    testbed.enroll(&[]);
    make(&testbed, LOSSY);
    let _agent = testbed.start_agent_with(data_plane);
    let radvd = testbed.advertise("2001:db8:2::/64");
    let _router = testbed.start_router_with(data_plane, "");
    testbed.await_binding("2001:db8:2:");

    make(&testbed, FAR);
    wait_or_report("a way out", || echoes(&testbed).0 > 0, || testbed.logs());
    let (count, quickest) = echoes(&testbed);
    assert!(count >= 25, "{count} of 40 echoes");
    assert!(quickest >= LEAST, "{quickest} ms: it took another path");
    let transfer = Transfer::begin(&testbed, "[2001:db8:9::9]:5001");
    transfer.goes_on("over a long and lossy way");

    drop(radvd);
    let _radvd = testbed.advertise("2001:db8:3::/64");
    testbed.router.shell("ip link set up0 down; ip link set up0 up");
    testbed.await_binding("2001:db8:3:");
    transfer.goes_on("after a move");
    transfer.end();
}

#[test]
fn the_bpf_data_plane_tolerates_delay_loss_and_reordering() {
    lives_through_it("the_bpf_data_plane_tolerates_delay_loss_and_reordering", "bpf");
}

#[test]
fn ip6tnl_tolerates_delay_loss_and_reordering() {
    lives_through_it("ip6tnl_tolerates_delay_loss_and_reordering", "ip6tnl");
}
