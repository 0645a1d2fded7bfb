//! What the real daemons say when something between or within them is wrong, and paths that lose large packets in silence.

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test fails at the assertion")]

mod testbed;

use std::fs;
use std::time::Instant;
use testbed::transfer::transfer;
use testbed::{ROUTER, Testbed, UPLINK, wait_or_report};

impl Testbed {
    fn log(&self, who: &str) -> String {
        fs::read_to_string(self.file(&format!("{who}.log"))).unwrap_or_default()
    }

    /// Waits until the log of `who` and its table say so.
    fn await_fault(&self, who: &str, table: &str, words: &str) {
        wait_or_report(words, || self.log(who).contains(words), || self.logs());
        wait_or_report(words, || self.show(who, table).contains(words), || self.show(who, table));
    }
}

#[test]
fn a_wrong_key_is_reported_at_both_ends() {
    let Some(testbed) = Testbed::new("a_wrong_key_is_reported_at_both_ends") else { return };
    testbed.enroll(&[]);
    let key = fs::read_to_string(testbed.file("mr.key")).unwrap();
    let (before, secret) = key.split_once("key = \"").unwrap();
    let digit = if secret.starts_with('0') { '1' } else { '0' };
    fs::write(testbed.file("mr.key"), format!("{before}key = \"{digit}{}", &secret[1..])).unwrap();
    let _running = [testbed.start_agent(), testbed.advertise("2001:db8:2::/64"), testbed.start_router("")];
    testbed.await_fault("ha", "bindings", "146 (authentication failed): its key is not that of its row");
    testbed.await_fault("mr", "bindings", "it does not verify with our key");
    let lines = testbed.log("ha").lines().filter(|line| line.contains("146 (authentication failed): its key")).count();
    assert_eq!(lines, 1, "{}", testbed.log("ha"));
    assert!(!testbed.show("mr", "links").contains("visited"));
    assert!(!testbed.log("mr").contains("link "), "interfaces have names: {}", testbed.log("mr"));
}

#[test]
fn a_missing_prefix_table_row_is_reported_at_both_ends() {
    let Some(testbed) = Testbed::new("a_missing_prefix_table_row_is_reported_at_both_ends") else { return };
    testbed.enroll(&[]);
    testbed.enroll_as("2001:db8:1::200", "2001:db8:200::/56", "other.key", &[]);
    let table = fs::read_to_string(testbed.file("mobiles.toml")).unwrap();
    fs::write(testbed.file("mobiles.toml"), table.replace("2001:db8:1::100", "2001:db8:1::300")).unwrap();
    let _running = [testbed.start_agent(), testbed.advertise("2001:db8:2::/64"), testbed.start_router("")];
    testbed.await_fault("ha", "bindings", "the home address is not in the prefix table");
    testbed.await_fault("mr", "bindings", "updates are not answered, pings are");
}

#[test]
fn filtered_protocols_are_reported_by_number() {
    let Some(testbed) = Testbed::new("filtered_protocols_are_reported_by_number") else { return };
    testbed.enroll(&[]);
    // On output: the home agent's packet sockets receive a packet before its input filter.
    let wall = |rule: &str| {
        testbed.router.shell(&format!(
            "nft 'add table ip6 wall; add chain ip6 wall out {{ type filter hook output priority 0; }}; \
             flush chain ip6 wall out; add rule ip6 wall out oifname up0 {rule}'"
        ));
    };
    wall("meta l4proto 135 drop");
    // Otherwise the mobile router goes over to UDP.
    let config = testbed.write_config("mr", &format!("{ROUTER}{UPLINK}transport = \"native\"\n"));
    let _running = [testbed.start_agent(), testbed.advertise("2001:db8:2::/64"), testbed.router.roam6(&config)];
    testbed.await_fault("mr", "links", "mobility headers (IPv6 protocol 135)");
    wall("ip6 nexthdr 41 drop");
    wait_or_report("works again", || testbed.log("mr").contains("works again after"), || testbed.logs());
    testbed.await_fault("mr", "links", "is IPv6-in-IPv6 (protocol 41) let through");
}

#[test]
fn a_refused_prefix_is_shown_as_refused() {
    let Some(testbed) = Testbed::new("a_refused_prefix_is_shown_as_refused") else { return };
    testbed.enroll_as("2001:db8:1::100", "2001:db8:700::/56", "mr.key", &[]);
    let _running =
        [testbed.start_agent(), testbed.advertise("2001:db8:2::/64"), testbed.start_router("mode = \"explicit\"\n")];
    testbed.await_fault(
        "ha",
        "bindings",
        "142 (not authorised for prefix): its row in the prefix table does not allow 2001:db8:100::/56",
    );
    testbed.await_fault("mr", "bindings", "142 (not authorised for prefix): not all of 2001:db8:100::/56");
    let refused = || testbed.show("mr", "bindings").contains("2001:db8:100::/56(refused)");
    wait_or_report("marked", refused, || testbed.show("mr", "bindings"));
}

fn answers(ping: &str) -> bool {
    ping.contains(" 0% packet loss")
}

#[test]
fn tcp_recovers_from_a_path_mtu_black_hole() {
    let test = "tcp_recovers_from_a_path_mtu_black_hole";
    let Some(testbed) = Testbed::new(test) else { return };
    testbed.enroll(&[]);
    // Queues that drop frames of more than 1414 octets, packets of more than 1400: both directions lose large packets, also
    // those that BPF programs send, and no router says so.
    for (place, interface) in [(&testbed.agent, "visit0"), (&testbed.router, "up0")] {
        place.shell(&format!("tc qdisc replace dev {interface} root tbf rate 10mbit burst 1414 latency 200ms"));
    }
    testbed.router.shell("ip address add 2001:db8:2::77/64 dev up0 nodad");
    wait_or_report("a path", || answers(&testbed.router.ping(2, "1352", "2001:db8:2::1")), String::new);
    assert!(!answers(&testbed.router.ping(2, "1353", "2001:db8:2::1")), "packets of 1401 octets are lost");
    testbed.router.shell("ip address del 2001:db8:2::77/64 dev up0");
    let _running = [testbed.start_agent(), testbed.advertise("2001:db8:2::/64"), testbed.start_router("")];
    testbed.await_binding("2001:db8:2:");
    // The home agent binds before its acknowledgement arrives; until then the mobile router has no route for the node.
    wait_or_report("a path", || testbed.log("mr").contains("bound at"), || testbed.logs());
    for (from, to, address) in
        [(&testbed.node, &testbed.agent, "2001:db8:9::9"), (&testbed.agent, &testbed.node, "2001:db8:100::2")]
    {
        let begin = Instant::now();
        let moved = transfer(from, to, address, 300_000);
        println!("to {address}: {:.1} s", begin.elapsed().as_secs_f64());
        assert_eq!(moved, 300_000, "to {address}\n{}", testbed.logs());
    }
    for who in ["mr", "ha"] {
        wait_or_report(
            "1360",
            || testbed.show(who, "tunnels").contains(" 1360 "),
            || testbed.show(who, "tunnels") + &testbed.logs(),
        );
    }
}
