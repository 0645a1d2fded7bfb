//! Duplicated flows of the real binaries, in both directions: each packet by two uplinks with one sequence number, delivered
//! once; what is on the wire is judged by tshark (RFC 8655 §3.2.2.2, RFC 6089 §4.2, RFC 4727 §3.4).

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test fails at the assertion")]

mod testbed;

use std::process::Command;
use std::time::{Duration, Instant};
use testbed::capture::{Capture, Dissected};
use testbed::{BINARY, INGRESS, ROUTER, Running, TWO_UPLINKS, Testbed, run, wait_or_report};

/// EF is sent twice.
const FLOW: &str = "
[[mobile_router.flow]]
dscp = \"ef\"
duplicate = 2
";
const PINGS: usize = 20;

/// The two visited networks while the node pings with this traffic class.
fn observe(testbed: &Testbed, name: &str, class: &str) -> [Dissected; 2] {
    let links = ["visit0", "visit1"];
    let captures = links.map(|link| Capture::begin(testbed, &testbed.agent, link, &format!("{link}-{name}")));
    let count = PINGS.to_string();
    let words = ["ping", "-n", "-i", "0.02", "-c", &count, "-W", "5", "-Q", class, "2001:db8:9::9"];
    let output = testbed.node.command(&words).output().unwrap();
    let output = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.contains(" 0% packet loss") && !output.contains("DUP!"), "{output}{}", testbed.logs());
    captures.map(Capture::end)
}

/// Requests and replies on a link, those with a number, and the numbers.
fn echoes(link: &Dissected) -> [(usize, Vec<String>); 2] {
    [("ipv6.dst == 2001:db8:9::9", 128), ("ipv6.src == 2001:db8:9::9", 129)].map(|(way, kind)| {
        let filter = format!("{way} && icmpv6.type == {kind}");
        let numbers = link.fields(&format!("{filter} && ipv6.opt.type == 0x1e"), &["ipv6.opt.experimental"]);
        let numbers = numbers.into_iter().map(|packet| packet.into_iter().flatten().collect::<Vec<_>>().concat());
        (link.count(&filter), numbers.collect())
    })
}

fn start(testbed: &Testbed, agent: &str) -> [Running; 4] {
    let agent = testbed.start_agent_with(agent);
    let (radvd, other) = (testbed.advertise("2001:db8:2::/64"), testbed.add_other_network());
    let router = testbed.router.roam6(&testbed.write_config("mr", &format!("{ROUTER}{TWO_UPLINKS}{INGRESS}{FLOW}")));
    testbed.await_binding("2001:db8:2:");
    testbed.await_binding("2001:db8:4:");
    let reaches = || testbed.node.ping(1, "56", "2001:db8:9::9").contains("1 received");
    wait_or_report("a way out", reaches, || testbed.logs());
    [agent, radvd, other, router]
}

fn tools() -> bool {
    ["tcpdump", "tshark"].iter().all(|tool| Command::new(tool).arg("--version").output().is_ok())
}

/// A counter of a daemon.
fn count(testbed: &Testbed, who: &str, name: &str) -> u64 {
    let shown = testbed.show(who, "counters");
    let line = shown.lines().find(|line| line.split_whitespace().any(|word| word.ends_with(name)));
    line.and_then(|line| line.split_whitespace().last()?.parse().ok()).unwrap_or_default()
}

/// Octets that the mobile router has sent by an uplink.
fn sent_octets(testbed: &Testbed, uplink: &str) -> u64 {
    let mut metrics = testbed.router.command(&[BINARY, "metrics", "--run-dir"]);
    let page = run(metrics.arg(testbed.file("mr").join("run")));
    let of_uplink = |line: &&str| {
        line.starts_with("roam6_uplink_bytes_total")
            && line.contains(&format!("interface=\"{uplink}\""))
            && line.contains("direction=\"sent\"")
    };
    page.lines().find(of_uplink).and_then(|line| line.split_whitespace().last()?.parse().ok()).unwrap_or_default()
}

#[test]
fn marked_packets_take_both_uplinks_and_arrive_once() {
    let test = "marked_packets_take_both_uplinks_and_arrive_once";
    let Some(testbed) = Testbed::new(test).filter(|_| tools()) else { return println!("skipped: {test}") };
    testbed.enroll(&[]);
    let _running = start(&testbed, "auto");
    let plain = observe(&testbed, "plain", "0");
    for (way, of) in [(0, "requests"), (1, "replies")] {
        let seen = plain.each_ref().map(|link| echoes(link)[way].clone());
        assert_eq!(seen[0].0 + seen[1].0, PINGS, "{of} without the mark: once");
        assert!(seen.iter().all(|(_, numbers)| numbers.is_empty()), "{of} without the mark: no number");
    }
    // The home agent sends copies once it has the flow binding with both paths.
    let both = || count(&testbed, "ha", "replicated") > 0;
    let mark = || {
        testbed.node.command(&["ping", "-n", "-c", "1", "-W", "1", "-Q", "0xb8", "2001:db8:9::9"]).output().unwrap();
        both()
    };
    wait_or_report("copies from the home agent", mark, || testbed.logs());
    let before = ["mr", "ha"].map(|who| (count(&testbed, who, "replicated"), count(&testbed, who, "eliminated")));
    let marked = observe(&testbed, "marked", "0xb8");
    for (way, of) in [(0, "requests"), (1, "replies")] {
        let [first, second] = marked.each_ref().map(|link| echoes(link)[way].clone());
        assert_eq!((first.0, second.0), (PINGS, PINGS), "{of} by both uplinks");
        assert_eq!(first.1, second.1, "{of}: both copies have the same numbers");
        let distinct: std::collections::BTreeSet<_> = first.1.iter().collect();
        assert_eq!(distinct.len(), PINGS, "{of}: {:?}", first.1);
    }
    let after = ["mr", "ha"].map(|who| (count(&testbed, who, "replicated"), count(&testbed, who, "eliminated")));
    for (before, after) in before.into_iter().zip(after) {
        let pings = PINGS as u64;
        assert_eq!((after.0 - before.0, after.1 - before.1), (pings, pings), "{before:?}, {after:?}");
    }
    plain.iter().chain(&marked).for_each(Dissected::check);
    // Both copies count on their uplinks: an outer header, the number and the request in each.
    for uplink in ["up0", "up1"] {
        let least = (PINGS * (40 + 8 + 40 + 64)) as u64;
        wait_or_report(
            &format!("{least} octets by {uplink}"),
            || sent_octets(&testbed, uplink) >= least,
            || testbed.logs(),
        );
    }
    let carried = testbed.show("mr", "tunnels");
    assert!(carried.contains("2001:db8:4:"), "{carried}");
    assert!(!testbed.logs().contains("rejects flow"), "{}", testbed.logs());
}

#[test]
fn home_agent_with_the_kernels_tunnels_gets_no_copies() {
    let test = "home_agent_with_the_kernels_tunnels_gets_no_copies";
    let Some(testbed) = Testbed::new(test).filter(|_| tools()) else { return println!("skipped: {test}") };
    if !testbed.agent.shell("ip link add probe type ip6tnl 2>&1; ip link del probe 2>&1; true").is_empty() {
        return println!("skipped: {test}: the kernel has no ip6tnl");
    }
    testbed.enroll(&[]);
    let _running = start(&testbed, "ip6tnl");
    let marked = observe(&testbed, "marked", "0xb8");
    let seen = marked.each_ref().map(echoes);
    for way in 0..2 {
        assert_eq!(seen[0][way].0 + seen[1][way].0, PINGS);
        assert!(seen.iter().all(|link| link[way].1.is_empty()));
    }
    assert!(testbed.logs().contains("does not eliminate copies"), "{}", testbed.logs());
}

/// The sequence numbers of a daemon that has removed its tunnels and started again are new ones; the other end accepts them
/// within the time of its reset (IEEE 802.1CB §10.4.1.7, `frerSeqRcvyResetMSec`).
#[test]
fn copies_of_a_restarted_mobile_router_are_accepted_within_a_second() {
    let test = "copies_of_a_restarted_mobile_router_are_accepted_within_a_second";
    let Some(testbed) = Testbed::new(test).filter(|_| tools()) else { return println!("skipped: {test}") };
    testbed.enroll(&[]);
    let [_agent, _radvd, _other, mut router] = start(&testbed, "auto");
    let ping = |words: &[&str]| {
        let common = ["ping", "-n", "-W", "1", "-Q", "0xb8", "2001:db8:9::9"];
        let output = testbed.node.command(&[&common[..], words].concat()).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let eliminated = |who| count(&testbed, who, "eliminated");
    let both = || {
        ping(&["-c", "3", "-i", "0.02"]);
        eliminated("ha") > 0 && eliminated("mr") > 0
    };
    wait_or_report("copies in both directions", both, || testbed.logs());
    let before = (eliminated("ha"), count(&testbed, "ha", "recovery_resets"));
    // SIGTERM: the daemon leaves no tunnel behind, as after a start of the machine.
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(router.0.id().cast_signed()), nix::sys::signal::Signal::SIGTERM)
        .unwrap();
    router.0.wait().unwrap();
    let reaches = || ping(&["-c", "1", "-W", "0.1"]).contains(" 1 received");
    assert!(!reaches(), "nothing is forwarded without the daemon");
    let begun = Instant::now();
    let _router = testbed.router.roam6(&testbed.file("mr.toml"));
    testbed.await_binding("2001:db8:2:");
    testbed.await_binding("2001:db8:4:");
    let bound = begun.elapsed();
    wait_or_report("the first reply", reaches, || testbed.logs());
    println!("figure: both uplinks bound {bound:.1?} after the start, first reply at {:.1?}", begun.elapsed());
    // What may be lost is lost within a second; of a busy machine, two.
    assert!(begun.elapsed() - bound < Duration::from_secs(2), "{:?}", begun.elapsed() - bound);
    let all = ping(&["-c", "20", "-i", "0.02"]);
    assert!(all.contains(" 0% packet loss") && !all.contains("DUP!"), "{all}{}", testbed.logs());
    wait_or_report("copies again", || both() && eliminated("ha") > before.0, || testbed.logs());
    assert!(count(&testbed, "ha", "recovery_resets") > before.1, "the home agent accepted a new start of the numbers");
}
