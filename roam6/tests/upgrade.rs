//! An upgrade in place, at either end: the old program is killed, the new one adopts its state, even where it reads
//! its maps in another layout. No packet is lost and no binding.

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails at the assertion")]

mod testbed;

use std::process::{Child, Stdio};
use testbed::{Namespace, Running, Testbed, wait_for};

/// What the home agent has bound: the sequence number would show an update.
fn bound(testbed: &Testbed) -> Vec<String> {
    let shown = testbed.show("ha", "bindings");
    let row = shown.lines().find(|line| line.contains("2001:db8:1::100")).unwrap_or_default();
    // All but the time that remains.
    row.split_whitespace().filter(|word| !word.ends_with('s')).map(str::to_owned).collect()
}

fn maps(place: &Namespace, folder: &str) -> String {
    place.shell(&format!("cd {folder}/run/bpf && echo maps-*")).trim().to_owned()
}

/// Kills one, leaves its maps under the name of another layout, and starts its successor, which makes its own.
fn upgrade(testbed: &Testbed, who: &str, old: Running, start: impl FnOnce() -> Running) -> Running {
    let place = if who == "ha" { &testbed.agent } else { &testbed.router };
    let folder = testbed.file(who).display().to_string();
    let layout = maps(place, &folder);
    drop(old);
    place.shell(&format!("cd {folder}/run/bpf && mv {layout} maps-0"));
    let new = start();
    wait_for("its own maps, and no others", || maps(place, &folder) == layout);
    wait_for("bound", || testbed.show(who, "bindings").contains("bound"));
    new
}

/// Echo requests from the node inside to the correspondent, 200 a second, until stopped.
fn pings(testbed: &Testbed) -> Child {
    let words = ["ping", "-nq", "-i", "0.005", "-W", "2", "2001:db8:9::9"];
    testbed.node.command(&words).stdout(Stdio::piped()).spawn().unwrap()
}

/// Sent and received.
fn end(pings: Child) -> (u32, u32) {
    // ping prints its count at an interrupt.
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pings.id().try_into().unwrap()), nix::sys::signal::SIGINT)
        .unwrap();
    let text = String::from_utf8(pings.wait_with_output().unwrap().stdout).unwrap();
    let before = |word: &str| {
        let (counts, _) = text.split_once(word).expect(&text);
        counts.rsplit([' ', '\n']).next().unwrap().parse().unwrap()
    };
    (before(" packets transmitted"), before(" received"))
}

#[test]
fn an_upgrade_with_other_bpf_maps_loses_no_packet() {
    let test = "an_upgrade_with_other_bpf_maps_loses_no_packet";
    let Some(testbed) = Testbed::new(test) else { return };
    testbed.enroll(&[]);
    let agent = testbed.start_agent_with("bpf");
    let _radvd = testbed.advertise("2001:db8:2::/64");
    let router = testbed.start_router_with("bpf", "");
    testbed.await_binding("2001:db8:2:");
    let reaches =
        || testbed.node.command(&["ping", "-nqc1", "-W1", "2001:db8:9::9"]).output().unwrap().status.success();
    wait_for("a way out", reaches);

    let before = bound(&testbed);
    let on_the_way = pings(&testbed);
    let _agent = upgrade(&testbed, "ha", agent, || testbed.start_agent_with("bpf"));
    assert_eq!(bound(&testbed), before, "the binding is as it was");
    let _router = upgrade(&testbed, "mr", router, || testbed.start_router_with("bpf", ""));
    let (sent, received) = end(on_the_way);
    assert!(sent > 20, "{sent}");
    // Replies to the last requests may still be in flight.
    assert!(sent - received <= 1, "{} of {sent} lost", sent - received);
}
