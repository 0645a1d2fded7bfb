//! The real binary with a data plan: what it counts, and what crosses an uplink whose plan is used up.

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test fails at the assertion")]

mod testbed;

use std::process::Command;
use std::thread::sleep;
use std::time::Duration;
use testbed::capture::{Capture, Dissected};
use testbed::{ROUTER, Testbed, wait_or_report};

const OTHER_UPLINK: &str = "[[mobile_router.uplink]]\ninterface = \"up1\"\n";
const INGRESS: &str = "[[mobile_router.ingress]]\ninterface = \"in0\"\nprefix = \"2001:db8:100::/64\"\n";
/// Neighbour discovery, multicast listener discovery, DHCPv6.
const LINK_SIGNALLING: &str = "(icmpv6.type >= 130 && icmpv6.type <= 137) || icmpv6.type == 143 || dhcpv6";

impl Testbed {
    /// The configuration of a mobile router with this cap on its first uplink.
    fn configure(&self, cap: &str) -> std::path::PathBuf {
        let plan = format!("[[mobile_router.uplink]]\ninterface = \"up0\"\ncap = \"{cap}\"\nbeyond = \"never\"\n");
        self.write_config("mr", &format!("{ROUTER}{plan}{OTHER_UPLINK}{INGRESS}"))
    }

    fn await_links(&self, text: &str) {
        let links = || self.show("mr", "links");
        wait_or_report(text, || links().contains(text), || format!("{}{}", links(), self.logs()));
    }

    /// What `ping` from the node says of so many large packets, 200 each second.
    fn ping_outside(&self, count: &str) -> String {
        let words = ["ping", "-nq", "-i", "0.005", "-c", count, "-s", "1200", "-W", "2", "2001:db8:9::9"];
        let output = self.node.command(&words).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// What crosses the first uplink while the node sends.
    fn observe_uplink(&self, name: &str) -> Dissected {
        let capture = Capture::begin(self, &self.router, "up0", name);
        self.ping_outside("400");
        // A solicitation of a neighbour follows a Router Advertisement, so that there is something to see.
        sleep(Duration::from_secs(4));
        capture.end()
    }
}

#[test]
fn nothing_but_signalling_crosses_an_uplink_beyond_its_cap() {
    let test = "nothing_but_signalling_crosses_an_uplink_beyond_its_cap";
    let tools = ["tcpdump", "tshark"].iter().all(|tool| Command::new(tool).arg("--version").output().is_ok());
    let Some(testbed) = Testbed::new(test).filter(|_| tools) else { return println!("skipped: {test}") };
    testbed.enroll(&[]);
    let _agent = testbed.start_agent();
    let (_radvd, _other) = (testbed.advertise("2001:db8:2::/64"), testbed.add_other_network());
    let config = testbed.configure("1MB");
    let router = testbed.router.roam6(&config);
    testbed.await_binding("2001:db8:2:");
    testbed.await_binding("2001:db8:4:");

    let pinged = testbed.ping_outside("2000");
    assert!(pinged.contains(" 0% packet loss"), "the move is a planned one: {pinged}{}", testbed.logs());
    testbed.await_links("data plan used up");
    assert!(testbed.show("mr", "links").contains("MB/1.00MB"), "{}", testbed.show("mr", "links"));
    let left = || !testbed.show("ha", "bindings").contains("2001:db8:2:");
    wait_or_report("the uplink is still bound", left, || testbed.logs());
    // The former path receives for five seconds.
    sleep(Duration::from_secs(6));
    let seen = testbed.observe_uplink("beyond");
    let others = seen.fields(&format!("!({LINK_SIGNALLING})"), &["frame.number", "frame.protocols", "ipv6.dst"]);
    assert!(others.is_empty(), "{others:?}");
    assert!(seen.count(LINK_SIGNALLING) > 0);

    // The count outlives the daemon.
    drop(router);
    let router = testbed.router.roam6(&config);
    testbed.await_links("data plan used up");
    let pinged = testbed.ping_outside("20");
    assert!(pinged.contains(" 0% packet loss"), "{pinged}{}", testbed.logs());

    // Without another uplink the home agent must not send here either.
    testbed.router.shell("ip link set up1 down");
    let unbound =
        || testbed.show("ha", "bindings").contains("HOME") && !testbed.show("ha", "bindings").contains("2001:db8:2:");
    wait_or_report("no binding", unbound, || testbed.logs());
    sleep(Duration::from_secs(6));
    let seen = testbed.observe_uplink("alone");
    let others = seen.fields(&format!("!({LINK_SIGNALLING})"), &["frame.number", "frame.protocols", "ipv6.dst"]);
    assert!(others.is_empty(), "{others:?}");

    testbed.configure("1GB");
    testbed.router.shell(&format!("kill -HUP {}", router.0.id()));
    testbed.await_binding("2001:db8:2:");
    let reaches = || testbed.ping_outside("1").contains(" 0% packet loss");
    wait_or_report("a way out", reaches, || testbed.logs());
    assert!(!testbed.show("mr", "links").contains("data plan used up"), "{}", testbed.show("mr", "links"));
}
