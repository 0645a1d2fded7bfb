//! Carrier changes faster than the kernel announces them.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]
#![allow(clippy::disallowed_methods, reason = "it measures how soon")]

mod netns;

use netns::{Namespace, await_own, await_shown, host, link, run};
use roam6_linux::{Host, HostEvent};
use roam6_proto::{Input, LinkId};
use std::time::{Duration, Instant};

/// Attempts with a change: on a busy machine one may be seen late for other reasons.
const TRIES: usize = 10;
/// The kernel waits a second.
const SOON: Duration = Duration::from_millis(400);
/// How often a daemon wakes up that probes its paths.
const AWAKE: Duration = Duration::from_millis(100);

/// The other ends of the interfaces.
struct Far {
    here: Namespace,
    there: Namespace,
}

impl Far {
    /// Changes the carrier of an interface by setting its far end down and up.
    fn set(&self, interface: &str, state: &str) {
        self.there.enter();
        run(&format!("ip link set {interface} {state}"));
        self.here.enter();
    }
}

/// The states of `link` that the host reports until the last is `wanted`.
fn await_state(host: &mut Host, link: LinkId, wanted: bool) -> Vec<bool> {
    let mut reported = Vec::new();
    while reported.last() != Some(&wanted) {
        let woken = host.wait(Some(host.now() + AWAKE)).unwrap();
        reported.extend(woken.into_iter().filter_map(|wake| match wake {
            HostEvent::Input(_, Input::Link(event)) if event.link == link => Some(event.up),
            _ => None,
        }));
    }
    reported
}

/// A change of another interface just before, which delays the kernel; returns how soon that of the watched one is
/// reported.
fn change(host: &mut Host, far: &Far, on: LinkId, states: &[&str]) -> (Duration, Vec<bool>) {
    far.set("other", "down");
    far.set("other", "up");
    let began = Instant::now();
    states.iter().for_each(|state| far.set("watched", state));
    let reported = await_state(host, on, states.last() == Some(&"up"));
    (began.elapsed(), reported)
}

#[test]
fn carrier_change_is_noticed_before_the_kernel_announces_it() {
    let test = "carrier_change_is_noticed_before_the_kernel_announces_it";
    let (Some(there), Some(here)) = (Namespace::enter_new(test), Namespace::enter_new(test)) else { return };
    let far = Far { here, there };
    for (name, index) in [("watched", 101), ("other", 102)] {
        // With the same index at both ends the kernel takes its time.
        run(&format!(
            "ip link add {name} index {index} type veth peer name {name} index {index} netns {}",
            far.there.path()
        ));
        run(&format!("ip link set {name} up"));
        far.set(name, "up");
    }
    let directory = tempfile::tempdir().unwrap();
    let mut host = host(&directory, &["watched"], None);
    let on = link(&mut host, "watched").link;
    let mut soon = [0; 2];
    for _ in 0..TRIES {
        let (took, reported) = change(&mut host, &far, on, &["down"]);
        assert_eq!(reported, [false]);
        soon[0] += usize::from(took < SOON);
        far.set("watched", "up");
        assert_eq!(await_state(&mut host, on, true), [true]);
        let (took, reported) = change(&mut host, &far, on, &["down", "up"]);
        assert_eq!(reported, [false, true], "it may be another network");
        soon[1] += usize::from(took < SOON);
    }
    // By the kernel's word alone none is soon; on a busy machine not all need be.
    assert!(soon.into_iter().all(|soon| soon > 0), "{soon:?} of {TRIES}");
}

#[test]
fn packets_queued_for_a_former_router_are_dropped() {
    let test = "packets_queued_for_a_former_router_are_dropped";
    let Some((here, there)) = Namespace::pair(test) else { return };
    run("ip address add 2001:db8::1/64 dev here0 nodad");
    // Nothing polls by itself.
    run("sysctl -qw net.ipv6.neigh.here0.retrans_time_ms=60000");
    let directory = tempfile::tempdir().unwrap();
    let mut host = host(&directory, &["here0"], None);
    let on = link(&mut host, "here0").link;
    let far = |command: &str| {
        there.enter();
        let shown = run(command);
        here.enter();
        shown
    };
    far("ip link set there0 down");
    // Until then the kernel gives up by itself what waits.
    await_shown("ip -o link show dev here0", |shown| !shown.contains("state UP"));
    run("ping -nqc1 -W0.1 -I 2001:db8::1 2001:db8::2 || true");
    assert!(run("ip -6 neigh show dev here0").contains("INCOMPLETE"), "it waits");
    assert_eq!(await_state(&mut host, on, false), [false]);
    run("ping -nqc1 -W0.1 -I 2001:db8::1 2001:db8::2 || true");
    far("ip link set there0 up && ip address add 2001:db8::2/64 dev there0 nodad");
    there.enter();
    await_own("2001:db8::2");
    here.enter();
    assert_eq!(await_state(&mut host, on, true), [true]);
    run("ping -nqc1 -W5 -I 2001:db8::1 2001:db8::2");
    let received = far("nstat -az Icmp6InEchos | awk '/Echos/ { print $2 }'");
    assert_eq!(received.trim(), "1", "and only the last");
}
