//! The real binary as a mobile router, seen by the node inside it.

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails at the assertion")]

mod testbed;

use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;
use testbed::{Testbed, wait_for};

#[test]
fn a_killed_mobile_router_recovers_also_after_a_move() {
    let Some(testbed) = Testbed::new("a_killed_mobile_router_recovers_also_after_a_move") else {
        return;
    };
    testbed.enroll(&[]);
    let _agent = testbed.start_agent();
    let radvd = testbed.advertise("2001:db8:2::/64");
    let router = testbed.start_router("");
    testbed.await_binding("2001:db8:2:");
    let reaches =
        || testbed.node.command(&["ping", "-nqc1", "-W1", "2001:db8:9::9"]).output().unwrap().status.success();
    wait_for("a way out", reaches);

    let prefix = "home prefix 2001:db8:1::/64 valid";
    wait_for("mobile prefix discovery", || testbed.show("mr", "timers").contains(prefix));

    let arguments = ["ping", "-nq", "-i", "0.005", "-c", "500", "-W", "2", "2001:db8:9::9"];
    let pings = testbed.node.command(&arguments).stdout(Stdio::piped()).spawn().unwrap();
    sleep(Duration::from_millis(300));
    drop(router);
    sleep(Duration::from_millis(300));
    let router = testbed.start_router("");
    wait_for("bound again", || testbed.show("mr", "bindings").contains("bound"));
    let output = String::from_utf8(pings.wait_with_output().unwrap().stdout).unwrap();
    assert!(output.contains("500 packets transmitted, 500 received"), "{output}");

    drop(router);
    drop(radvd);
    let _radvd = testbed.advertise("2001:db8:3::/64");
    let _router = testbed.start_router("");
    testbed.await_binding("2001:db8:3:");
    wait_for("a way out from the other network", reaches);
    let remains = || testbed.router.shell("ip -6 address show dev up0; ip -6 rule; ip -6 route show table all");
    wait_for("the former network removed", || !remains().contains("2001:db8:2:"));
}

/// Echo requests of a size used only here that have reached the correspondent's host, in tunnels or not.
fn strays(testbed: &Testbed) -> u32 {
    let listed = testbed.agent.shell("nft list table ip6 strays");
    let count = listed.split_once("counter packets ").and_then(|(_, rest)| rest.split_whitespace().next());
    count.unwrap().parse().unwrap()
}

#[test]
fn forged_sources_of_the_mobile_router_are_dropped() {
    let test = "forged_sources_of_the_mobile_router_are_dropped";
    if Command::new("nft").arg("--version").output().is_err() {
        return println!("skipped: {test}: nft is missing");
    }
    let Some(testbed) = Testbed::new(test) else { return };
    testbed.agent.shell(
        "nft 'table ip6 strays { chain seen { type filter hook prerouting priority -300; \
         icmpv6 type echo-request ip6 length 785 counter; }; }'",
    );
    testbed.enroll(&[]);
    let _agent = testbed.start_agent();
    let _radvd = testbed.advertise("2001:db8:2::/64");
    let _router = testbed.start_router("");
    testbed.await_binding("2001:db8:2:");
    let ping = |source: &str, to: &str, timeout: &str| {
        // More than one: the first may take the path of the kernel.
        let arguments = ["ping", "-nqc3", "-i0.05", "-W", timeout, "-s777", "-I", source, to];
        testbed.node.command(&arguments).output().unwrap().status.success()
    };
    wait_for("a way out", || ping("2001:db8:100::2", "2001:db8:9::9", "0.3"));
    let before = strays(&testbed);
    let fast = testbed.show("mr", "counters");
    let fast = fast.lines().filter_map(|line| line.strip_prefix("packets_encapsulated ")).next();
    assert!(before > 0 && fast.is_some_and(|count| count.trim() != "0"), "{before}, {fast:?}");
    let care_of = testbed.show("mr", "bindings");
    let care_of = care_of.split_whitespace().find(|word| word.starts_with("2001:db8:2:")).unwrap();
    for source in [care_of, "2001:db8:1::100", "2001:db8:77::7"] {
        testbed.node.shell(&format!("ip address add {source}/128 dev eth0 nodad"));
        for to in ["2001:db8:9::9", "2001:db8:2::1"] {
            assert!(
                ping("2001:db8:100::2", "2001:db8:100::1", "20"),
                "the router is still known by its link-layer address"
            );
            ping(source, to, "0.3");
            assert_eq!(strays(&testbed), before, "from {source} to {to}");
        }
    }
    assert!(
        ping("2001:db8:100::2", "2001:db8:2::1", "20"),
        "from their own address they reach the visited network too"
    );
}
