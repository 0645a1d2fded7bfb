//! An upgrade in place, at either end: the old program is killed, the new one takes over what it left, even where it reads
//! its maps in another way. No packet is lost and no binding.

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails where it stands")]

mod road;

use road::{Place, Road, Running, wait_for};
use std::process::{Child, Stdio};

/// What the home agent has bound: the sequence number would tell of an update.
fn bound(road: &Road) -> Vec<String> {
    let shown = road.show("ha", "bindings");
    let row = shown.lines().find(|line| line.contains("2001:db8:1::100")).unwrap_or_default();
    // All but the time that remains.
    row.split_whitespace().filter(|word| !word.ends_with('s')).map(str::to_owned).collect()
}

fn maps(place: &Place, folder: &str) -> String {
    place.shell(&format!("cd {folder}/run/bpf && echo maps-*")).trim().to_owned()
}

/// Kills one, leaves its maps under the name of another layout, and starts its successor, which makes its own.
fn upgrade(road: &Road, who: &str, old: Running, start: impl FnOnce() -> Running) -> Running {
    let place = if who == "ha" { &road.agent } else { &road.router };
    let folder = road.file(who).display().to_string();
    let layout = maps(place, &folder);
    drop(old);
    place.shell(&format!("cd {folder}/run/bpf && mv {layout} maps-0"));
    let new = start();
    wait_for("its own maps, and no others", || maps(place, &folder) == layout);
    wait_for("bound", || road.show(who, "bindings").contains("bound"));
    new
}

/// Echo requests from the node inside to the correspondent, 200 a second, until told to end.
fn pings(road: &Road) -> Child {
    let words = ["ping", "-nq", "-i", "0.005", "-W", "2", "2001:db8:9::9"];
    road.node.command(&words).stdout(Stdio::piped()).spawn().unwrap()
}

/// Sent and received.
fn end(pings: Child) -> (u32, u32) {
    // ping answers an interrupt with its count.
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pings.id().try_into().unwrap()), nix::sys::signal::SIGINT)
        .unwrap();
    let told = String::from_utf8(pings.wait_with_output().unwrap().stdout).unwrap();
    let before = |word: &str| {
        let (counts, _) = told.split_once(word).expect(&told);
        counts.rsplit([' ', '\n']).next().unwrap().parse().unwrap()
    };
    (before(" packets transmitted"), before(" received"))
}

#[test]
fn an_upgrade_drops_neither_bindings_nor_packets_where_the_maps_are_others() {
    let test = "an_upgrade_drops_neither_bindings_nor_packets_where_the_maps_are_others";
    let Some(road) = Road::new(test) else { return };
    road.enroll(&[]);
    let agent = road.start_agent_with("bpf");
    let _radvd = road.advertise("2001:db8:2::/64");
    let router = road.start_router_with("bpf", "");
    road.await_binding("2001:db8:2:");
    let reaches = || road.node.command(&["ping", "-nqc1", "-W1", "2001:db8:9::9"]).output().unwrap().status.success();
    wait_for("a way out", reaches);

    let before = bound(&road);
    let on_the_way = pings(&road);
    let _agent = upgrade(&road, "ha", agent, || road.start_agent_with("bpf"));
    assert_eq!(bound(&road), before, "the binding is as it was");
    let _router = upgrade(&road, "mr", router, || road.start_router_with("bpf", ""));
    let (sent, received) = end(on_the_way);
    assert!(sent > 20, "{sent}");
    // Of those sent last the answers may still be on their way.
    assert!(sent - received <= 1, "{} of {sent} lost", sent - received);
}
