//! Both data planes at either end, real binaries and real packets (RFC 2473: the wire is the same).

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails at the assertion")]

mod testbed;

use testbed::{BINARY, Namespace, Testbed, wait_for};

/// Why this kernel has no tunnel devices of its own, in its own words.
fn obstacle() -> Option<String> {
    let place = Namespace::new()?;
    let made = place.command(&["ip", "link", "add", "probe", "type", "ip6tnl", "remote", "::1"]).output().unwrap();
    (!made.status.success()).then(|| String::from_utf8_lossy(&made.stderr).trim().to_owned())
}

#[test]
fn bpf_and_ip6tnl_data_planes_interoperate() {
    let test = "bpf_and_ip6tnl_data_planes_interoperate";
    if let Some(why) = obstacle() {
        return println!("skipped: {test}: {why}");
    }
    for (at_agent, at_router) in [("bpf", "ip6tnl"), ("ip6tnl", "bpf"), ("ip6tnl", "ip6tnl"), ("bpf", "bpf")] {
        let Some(testbed) = Testbed::new(test) else { return };
        let pair = format!("{at_agent} at the home agent, {at_router} at the mobile router");
        testbed.enroll(&[]);
        let _agent = testbed.start_agent_with(at_agent);
        let radvd = testbed.advertise("2001:db8:2::/64");
        let _router = testbed.start_router_with(at_router, "");
        testbed.await_binding("2001:db8:2:");
        let ping = |count: &str, size: &str| {
            let words = ["ping", "-nq", "-i0.05", "-W2", "-c", count, "-s", size, "2001:db8:9::9"];
            String::from_utf8(testbed.node.command(&words).output().unwrap().stdout).unwrap()
        };
        wait_for(&pair, || ping("1", "56").contains(" 0% packet loss"));
        for size in ["56", "1412"] {
            let text = ping("40", size);
            assert!(text.contains("40 packets transmitted, 40 received"), "{pair}, {size} octets: {text}");
        }
        drop(radvd);
        let _radvd = testbed.advertise("2001:db8:3::/64");
        testbed.router.shell("ip link set up0 down; ip link set up0 up");
        testbed.await_binding("2001:db8:3:");
        wait_for(&pair, || ping("1", "56").contains(" 0% packet loss"));
        let text = ping("40", "56");
        assert!(text.contains("40 packets transmitted, 40 received"), "{pair}, after the move: {text}");
    }
}

#[test]
fn a_data_plane_without_kernel_support_is_refused() {
    let test = "a_data_plane_without_kernel_support_is_refused";
    if obstacle().is_none() {
        return println!("skipped: {test}: this kernel has ip6tnl");
    }
    let Some(testbed) = Testbed::new(test) else { return };
    testbed.enroll(&[]);
    let config = testbed.agent_config("ip6tnl");
    let ended = testbed.agent.command(&[BINARY, "run", "--config", config.to_str().unwrap()]).output().unwrap();
    let text = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(!ended.status.success());
    assert!(
        text.contains("ip6tnl") || text.contains("probe") || text.contains("nemo"),
        "it says what is missing: {text}"
    );
}
