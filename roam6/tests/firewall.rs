//! A stateful firewall of nftables on the mobile router: the fast path passes nothing that its hooks would drop, whatever
//! the neighbour cache says, and while rules change.

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails at the assertion")]

mod testbed;

use std::fs;
use testbed::{Testbed, wait_for};

const CORRESPONDENT: &str = "2001:db8:9::9";
const NODE: &str = "2001:db8:100::2";
/// The usual rules of a router: connections from inside, and nothing else.
const RULES: &str = "flush ruleset
table inet site {
    chain forward {
        type filter hook forward priority 0; policy drop;
        ct state established,related accept
        iifname \"in0\" accept
    }
}
";

/// Whether this kernel has what the rules need.
fn obstacle(testbed: &Testbed) -> Option<String> {
    let tried =
        testbed.node.command(&["sh", "-c", &format!("nft -f - <<'END'\n{RULES}END\nnft flush ruleset")]).output();
    let output = tried.unwrap();
    (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).trim().to_owned())
}

fn load(testbed: &Testbed, rules: &str) {
    testbed.router.shell(&format!("nft -f - <<'END'\n{rules}END"));
}

/// How many of five echo requests are answered soon.
fn answered(testbed: &Testbed, inward: bool) -> usize {
    answered_within(testbed, inward, 1)
}

/// How many of five echo requests are answered within some seconds after the last.
fn answered_within(testbed: &Testbed, inward: bool, seconds: u8) -> usize {
    let (place, to) = if inward { (&testbed.agent, NODE) } else { (&testbed.node, CORRESPONDENT) };
    let output = place.command(&["ping", "-n", "-c5", "-i0.05", "-W", &seconds.to_string(), to]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).matches("bytes from").count()
}

/// Whether a connection from the correspondent is accepted inside.
fn connects(testbed: &Testbed) -> bool {
    let words = ["timeout", "2", "bash", "-c", &format!("exec 3<>/dev/tcp/{NODE}/7007")];
    testbed.agent.command(&words).status().unwrap().success()
}

/// The node inside as the router's neighbour cache has it.
fn set_neighbour(testbed: &Testbed, state: &str) {
    let at = testbed.node.link_address("eth0");
    testbed.router.shell(&match state {
        "flushed" => "ip -6 neighbour flush dev in0".to_owned(),
        state => format!("ip -6 neighbour replace {NODE} lladdr {at} dev in0 nud {state}"),
    });
}

fn prepared(test: &str) -> Option<Testbed> {
    let testbed = Testbed::new(test)?;
    if let Some(why) = obstacle(&testbed) {
        println!("skipped: {test}: no stateful nftables: {why}");
        return None;
    }
    testbed.enroll(&[]);
    Some(testbed)
}

/// The log of the mobile router.
fn log(testbed: &Testbed) -> String {
    fs::read_to_string(testbed.file("mr.log")).unwrap_or_default()
}

#[test]
fn a_stateful_firewall_is_obeyed_in_every_nud_state() {
    let Some(testbed) = prepared("a_stateful_firewall_is_obeyed_in_every_nud_state") else { return };
    let _agent = testbed.start_agent();
    let _radvd = testbed.advertise("2001:db8:2::/64");
    let _router = testbed.start_router("");
    testbed.await_binding("2001:db8:2:");
    let _server = testbed.node.start(&["python3", "-c", SERVER]);
    wait_for("packets pass without a firewall", || answered(&testbed, true) == 5 && connects(&testbed));
    load(&testbed, RULES);
    wait_for("the firewall is noticed", || testbed.show("mr", "tunnels").contains("firewall"));
    for state in ["reachable", "permanent", "stale", "flushed", "reachable"] {
        set_neighbour(&testbed, state);
        assert_eq!(answered(&testbed, true), 0, "unsolicited, neighbour {state}");
        assert!(!connects(&testbed), "unsolicited, neighbour {state}");
        set_neighbour(&testbed, state);
        assert!(answered_within(&testbed, false, 20) >= 4, "from inside, neighbour {state}: {}", testbed.logs());
        assert_eq!(answered(&testbed, true), 0, "unsolicited after a conversation, neighbour {state}");
    }
    assert_eq!(log(&testbed).matches("firewall").count(), 1, "logged once: {}", log(&testbed));
    // Reloaded in two steps, as `systemctl restart nftables` does, and as one transaction.
    for _ in 0..3 {
        load(&testbed, RULES);
        assert_eq!(answered(&testbed, true), 0, "after a reload");
        testbed.router.shell("nft flush ruleset");
        load(&testbed, RULES);
        assert_eq!(answered(&testbed, true), 0, "after a restart of the firewall");
    }
    testbed.router.shell("nft add rule inet site forward icmpv6 type echo-request accept");
    assert_eq!(answered_within(&testbed, true, 20), 5, "what a new rule accepts");
    load(&testbed, RULES);
    assert_eq!(answered(&testbed, true), 0, "established once, no longer");
}

#[test]
fn a_firewall_from_before_the_start_is_obeyed() {
    let Some(testbed) = prepared("a_firewall_from_before_the_start_is_obeyed") else { return };
    load(&testbed, RULES);
    let _agent = testbed.start_agent();
    let _radvd = testbed.advertise("2001:db8:2::/64");
    let _router = testbed.start_router("");
    testbed.await_binding("2001:db8:2:");
    wait_for("packets from inside pass", || answered(&testbed, false) == 5);
    set_neighbour(&testbed, "reachable");
    assert_eq!(answered(&testbed, true), 0);
    // Without it the fast path is used again, after a while.
    testbed.router.shell("nft flush ruleset");
    wait_for("packets pass", || answered(&testbed, true) == 5);
    wait_for("the fast path is back", || !testbed.show("mr", "tunnels").contains("firewall"));
    assert_eq!(answered_within(&testbed, true, 20), 5);
}

#[test]
fn firewall_bypass_uses_the_fast_path() {
    let Some(testbed) = prepared("firewall_bypass_uses_the_fast_path") else { return };
    load(&testbed, RULES);
    let _agent = testbed.start_agent();
    let _radvd = testbed.advertise("2001:db8:2::/64");
    let config = testbed.router_config("bpf", "");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("firewall = \"bypass\"\n{text}")).unwrap();
    let _router = testbed.router.roam6(&config);
    testbed.await_binding("2001:db8:2:");
    wait_for("packets from inside pass", || answered(&testbed, false) == 5);
    for state in ["permanent", "reachable", "stale", "flushed"] {
        set_neighbour(&testbed, state);
        assert_eq!(answered(&testbed, true), 5, "neighbour {state}: {}", testbed.logs());
    }
    assert!(testbed.show("mr", "tunnels").contains("firewall"), "{}", testbed.show("mr", "tunnels"));
    assert_eq!(log(&testbed).matches("not applied").count(), 1, "{}", log(&testbed));
}

const SERVER: &str = "import socket
s = socket.socket(socket.AF_INET6)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(('::', 7007)); s.listen(16)
while True: s.accept()[0].close()
";
