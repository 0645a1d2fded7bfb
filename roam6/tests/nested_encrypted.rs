//! A mobile router in the mobile network of another, both with encryption (RFC 3963 section 2.4, nested mobile networks). The
//! inner WireGuard packets travel through the outer router's session; neither the visited network nor the outer mobile network
//! reads the data. Needs a kernel with WireGuard.

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails at the assertion")]

mod testbed;

use std::fs;
use testbed::capture::Capture;
use testbed::wireguard::missing;
use testbed::{Running, SECOND_ROUTER, Testbed, wait_or_report};

/// An address of the inner mobile network.
const INNER: &str = "2001:db8:200::1";
const CORRESPONDENT: &str = "2001:db8:9::9";

/// The inner mobile router: its uplink is an interface in the mobile network of the outer one.
const INNER_ROUTER: &str = "
encrypt = true
[[mobile_router.uplink]]
interface = \"eth0\"
[[mobile_router.ingress]]
interface = \"lan0\"
prefix = \"2001:db8:200::/64\"
";

fn start_inner_router(testbed: &Testbed) -> Running {
    testbed.node.shell(
        "ip -6 address flush dev eth0 scope global && ip -6 route flush default && \
         ip link add lan0 type dummy && ip link set lan0 up",
    );
    testbed.enroll_second();
    testbed.node.roam6(&testbed.write_config("inner", &format!("{SECOND_ROUTER}{INNER_ROUTER}")))
}

fn ping(testbed: &Testbed, count: &str, size: &str) -> String {
    let words = ["ping", "-n", "-i0.2", "-W5", "-c", count, "-M", "do", "-s", size, "-I", INNER, CORRESPONDENT];
    let output = testbed.node.command(&words).output().unwrap();
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

fn answers(testbed: &Testbed, count: &str, size: &str) -> bool {
    ping(testbed, count, size).contains(" 0% packet loss")
}

fn story(testbed: &Testbed) -> String {
    let inner = fs::read_to_string(testbed.file("inner.log")).unwrap_or_default();
    let routes = "wg show all; ip -6 rule; ip -6 route show table all; ip -br address; ip -br link";
    let of = |place: &testbed::Namespace| place.shell(routes);
    format!(
        "{}\ninner router:\n{inner}\nhome agent:\n{}\nouter:\n{}\ninner:\n{}",
        testbed.logs(),
        of(&testbed.agent),
        of(&testbed.router),
        of(&testbed.node)
    )
}

#[test]
fn nested_routers_encrypt_each_for_itself() {
    let test = "nested_routers_encrypt_each_for_itself";
    if let Some(why) = missing() {
        return println!("skipped: {test}: {why}");
    }
    let Some(testbed) = Testbed::new(test) else { return };
    testbed.enroll(&[]);
    let visited = Capture::begin(&testbed, &testbed.agent, "visit0", "visit");
    let outer_network = Capture::begin(&testbed, &testbed.router, "in0", "inside");
    let _agent = testbed.start_agent_more("encrypt = \"required\"\n");
    let radvd = testbed.advertise("2001:db8:2::/64");
    let _outer = testbed.start_router("encrypt = true\n");
    testbed.await_binding("2001:db8:2:");
    let _inner = start_inner_router(&testbed);
    let registered = || testbed.show("ha", "bindings").contains("2001:db8:100:");
    wait_or_report("a binding of the inner router", registered, || story(&testbed));
    wait_or_report("data of the inner router", || answers(&testbed, "1", "56"), || story(&testbed));
    assert!(answers(&testbed, "10", "56"), "{}", story(&testbed));
    assert!(answers(&testbed, "1", "1280"), "1328 octets fit\n{}", story(&testbed));
    let longer = ping(&testbed, "1", "1281");
    assert!(longer.contains("mtu") && longer.contains("1328"), "{longer}");
    let routes = testbed.agent.shell("ip -6 route show 2001:db8:200::/56");
    assert!(routes.contains("mtu 1328"), "both ends have the same: {routes}");
    let log = fs::read_to_string(testbed.file("inner.log")).unwrap();
    assert!(!log.contains("is filtered"), "a session that is awaited is no filter: {log}");

    drop(radvd);
    let _radvd = testbed.advertise("2001:db8:3::/64");
    testbed.router.shell("ip link set up0 down; ip link set up0 up");
    testbed.await_binding("2001:db8:3:");
    wait_or_report("data after a move of the outer router", || answers(&testbed, "1", "56"), || story(&testbed));

    for capture in [visited, outer_network] {
        let seen = capture.end();
        assert_eq!(seen.count(&format!("ipv6.addr == {INNER}")), 0, "nothing is in the clear");
        assert!(seen.count("wg.type == 4") >= 20, "all of it is there");
        seen.check();
    }
}
