//! A mobile router that rides in another, both of the real binary, both with prefixes of the networks they visit.

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails at the assertion")]
#![allow(clippy::indexing_slicing, reason = "a test fails at the assertion")]

mod testbed;

use testbed::capture::Capture;
use testbed::host::{SETTINGS, addresses, await_address, listen, listening_testbed, reaches};
use testbed::visited_network::{Attachment, FIRST, POOR, SECOND};
use testbed::{Namespace, Running, SECOND_ROUTER, Testbed, wait_for};

/// The global address of the passenger's node.
const PASSENGER_HOME: &str = "2001:db8:200::2";

/// The second mobile router rides in the first: its uplink is what was the node's interface.
const PASSENGER: &str = "
[mobile_router.care_of_prefixes]
prefer = \"care-of\"
[[mobile_router.uplink]]
interface = \"eth0\"
[[mobile_router.ingress]]
interface = \"in0\"
prefix = \"2001:db8:200::/64\"
";

/// The passenger's node: `2001:db8:200::2` is its address in the passenger's mobile network.
fn passenger(testbed: &Testbed) -> (Namespace, Running) {
    let node = Namespace::new().unwrap();
    testbed.node.shell(&format!(
        "ip -6 address flush dev eth0 scope global && ip token set :: dev eth0 && \
         ip link add in0 type veth peer name eth0 netns {} && ip link set in0 up",
        node.number()
    ));
    node.shell("sysctl -qw net.ipv6.conf.eth0.accept_dad=0 && ip link set eth0 up");
    listen(&node);
    testbed.enroll_second();
    (node, testbed.node.roam6(&testbed.write_config("passenger", &format!("{SECOND_ROUTER}{PASSENGER}"))))
}

#[test]
fn a_nested_mobile_router_has_a_direct_path() {
    let Some(testbed) = listening_testbed("a_nested_mobile_router_has_a_direct_path") else { return };
    let (node, _passenger) = passenger(&testbed);
    let inside = Capture::begin(&testbed, &testbed.router, "in0", "inside");
    let _agent = testbed.start_agent();
    let _router = testbed.start_router(SETTINGS);

    let visit = Attachment::begin(&testbed, &FIRST, "first");
    let former = await_address(&node, "2001:db8:b1:");
    wait_for("a way from the passenger's home", || reaches(&node, PASSENGER_HOME));
    // The passenger's own care-of address is one of the visited network: one tunnel, not one within the other.
    testbed.await_binding("2001:db8:b1:");
    wait_for("the passenger's tunnel on the direct path", || reaches(&node, PASSENGER_HOME));
    let first = visit.end();
    let direct = format!("icmpv6.type == 128 && ipv6.src == {former}");
    assert!(first.count(&format!("{direct} && !(ipv6.nxt == 41)")) > 0, "past both tunnels");
    assert_eq!(first.count(&format!("{direct} && ipv6.nxt == 41")), 0);
    let tunnelled = first.fields(&format!("icmpv6.type == 128 && ipv6.src == {PASSENGER_HOME}"), &["ipv6.src"]);
    assert!(tunnelled.iter().any(|frame| frame[0].len() == 2 && frame[0][0].starts_with("2001:db8:b1:")));

    let visit = Attachment::begin(&testbed, &SECOND, "second");
    let new = await_address(&node, "2001:db8:b2:");
    testbed.await_binding("2001:db8:b2:");
    wait_for("a way from the passenger's home after the move", || reaches(&node, PASSENGER_HOME));
    assert!(addresses(&node, &former).iter().all(|(_, preferred)| !preferred), "{former} is over");
    let second = visit.end();
    assert!(second.count(&format!("icmpv6.type == 128 && ipv6.src == {new} && !(ipv6.nxt == 41)")) > 0);
    inside.end().check();
}

#[test]
fn an_nd_proxied_prefix_is_not_proxied_again() {
    let Some(testbed) = listening_testbed("an_nd_proxied_prefix_is_not_proxied_again") else { return };
    let (node, _passenger) = passenger(&testbed);
    let _agent = testbed.start_agent();
    let _router = testbed.start_router(SETTINGS);
    let visit = Attachment::begin(&testbed, &POOR, "poor");
    // The passenger itself is on the shared link, so its tunnel takes the direct path.
    wait_for("two bindings in the visited network", || {
        testbed.show("ha", "bindings").matches("2001:db8:2:").count() == 2
    });
    wait_for("a way from the passenger's home", || reaches(&node, PASSENGER_HOME));
    assert_eq!(addresses(&node, "2001:db8:2:"), [], "RFC 4389 section 4.1.3.3: no proxy behind a proxy");
    visit.end().check();
}
