//! A stateful firewall of nftables on the mobile router: the fast path passes nothing that its hooks would drop, whatever
//! the neighbour cache says, and while rules change.

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails where it stands")]

mod road;

use road::{Road, wait_for};
use std::fs;

const CORRESPONDENT: &str = "2001:db8:9::9";
const NODE: &str = "2001:db8:100::2";
/// The usual rules of a router: what was asked for from inside, and nothing else.
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
fn obstacle(road: &Road) -> Option<String> {
    let tried = road.node.command(&["sh", "-c", &format!("nft -f - <<'END'\n{RULES}END\nnft flush ruleset")]).output();
    let output = tried.unwrap();
    (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).trim().to_owned())
}

fn load(road: &Road, rules: &str) {
    road.router.shell(&format!("nft -f - <<'END'\n{rules}END"));
}

/// How many of five echo requests are answered.
fn answered(road: &Road, inward: bool) -> usize {
    let (place, to) = if inward { (&road.agent, NODE) } else { (&road.node, CORRESPONDENT) };
    let output = place.command(&["ping", "-n", "-c5", "-i0.05", "-W1", to]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).matches("bytes from").count()
}

/// Whether a connection from the correspondent is accepted inside.
fn connects(road: &Road) -> bool {
    let words = ["timeout", "2", "bash", "-c", &format!("exec 3<>/dev/tcp/{NODE}/7007")];
    road.agent.command(&words).status().unwrap().success()
}

/// The node inside as the router's neighbour cache has it.
fn set_neighbour(road: &Road, state: &str) {
    let at = road.node.link_address("eth0");
    road.router.shell(&match state {
        "flushed" => "ip -6 neighbour flush dev in0".to_owned(),
        state => format!("ip -6 neighbour replace {NODE} lladdr {at} dev in0 nud {state}"),
    });
}

fn prepared(test: &str) -> Option<Road> {
    let road = Road::new(test)?;
    if let Some(why) = obstacle(&road) {
        println!("skipped: {test}: no stateful nftables: {why}");
        return None;
    }
    road.enroll(&[]);
    Some(road)
}

/// The log of the mobile router.
fn log(road: &Road) -> String {
    fs::read_to_string(road.file("mr.log")).unwrap_or_default()
}

#[test]
fn a_stateful_firewall_is_obeyed_in_every_neighbour_state() {
    let Some(road) = prepared("a_stateful_firewall_is_obeyed_in_every_neighbour_state") else { return };
    let _agent = road.start_agent();
    let _radvd = road.advertise("2001:db8:2::/64");
    let _router = road.start_router("");
    road.await_binding("2001:db8:2:");
    let _server = road.node.start(&["python3", "-c", SERVER]);
    wait_for("packets pass without a firewall", || answered(&road, true) == 5 && connects(&road));
    load(&road, RULES);
    wait_for("the firewall is noticed", || road.show("mr", "tunnels").contains("firewall"));
    for state in ["reachable", "permanent", "stale", "flushed", "reachable"] {
        set_neighbour(&road, state);
        assert_eq!(answered(&road, true), 0, "unsolicited, neighbour {state}");
        assert!(!connects(&road), "unsolicited, neighbour {state}");
        set_neighbour(&road, state);
        assert!(answered(&road, false) >= 4, "from inside, neighbour {state}: {}", road.logs());
        assert_eq!(answered(&road, true), 0, "unsolicited after a conversation, neighbour {state}");
    }
    assert_eq!(log(&road).matches("firewall").count(), 1, "told once: {}", log(&road));
    // Loaded anew in two steps, as `systemctl restart nftables` does, and as one transaction.
    for _ in 0..3 {
        load(&road, RULES);
        assert_eq!(answered(&road, true), 0, "after a reload");
        road.router.shell("nft flush ruleset");
        load(&road, RULES);
        assert_eq!(answered(&road, true), 0, "after a restart of the firewall");
    }
    road.router.shell("nft add rule inet site forward icmpv6 type echo-request accept");
    assert_eq!(answered(&road, true), 5, "what a new rule accepts");
    load(&road, RULES);
    assert_eq!(answered(&road, true), 0, "established once, no longer");
}

#[test]
fn a_firewall_that_stands_before_the_start_is_obeyed() {
    let Some(road) = prepared("a_firewall_that_stands_before_the_start_is_obeyed") else { return };
    load(&road, RULES);
    let _agent = road.start_agent();
    let _radvd = road.advertise("2001:db8:2::/64");
    let _router = road.start_router("");
    road.await_binding("2001:db8:2:");
    wait_for("packets from inside pass", || answered(&road, false) == 5);
    set_neighbour(&road, "reachable");
    assert_eq!(answered(&road, true), 0);
    // Without it the fast path is used again, after a while.
    road.router.shell("nft flush ruleset");
    wait_for("packets pass", || answered(&road, true) == 5);
    wait_for("the fast path is back", || !road.show("mr", "tunnels").contains("firewall"));
    assert_eq!(answered(&road, true), 5);
}

#[test]
fn a_firewall_is_passed_by_where_the_settings_say_so() {
    let Some(road) = prepared("a_firewall_is_passed_by_where_the_settings_say_so") else { return };
    load(&road, RULES);
    let _agent = road.start_agent();
    let _radvd = road.advertise("2001:db8:2::/64");
    let config = road.router_config("bpf", "");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("firewall = \"bypass\"\n{text}")).unwrap();
    let _router = road.router.roam6(&config);
    road.await_binding("2001:db8:2:");
    wait_for("packets from inside pass", || answered(&road, false) == 5);
    set_neighbour(&road, "permanent");
    // Once a second the next hop is renewed by a packet on the kernel's path, which the firewall drops.
    wait_for("packets pass by the firewall", || answered(&road, true) >= 4);
    assert!(road.show("mr", "tunnels").contains("firewall"), "{}", road.show("mr", "tunnels"));
    assert_eq!(log(&road).matches("not applied").count(), 1, "{}", log(&road));
}

const SERVER: &str = "import socket
s = socket.socket(socket.AF_INET6)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(('::', 7007)); s.listen(16)
while True: s.accept()[0].close()
";
