//! Steps of the wall clock. Only on a machine of the test's own, because the clock is not part of a namespace.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

mod netns;

use netns::{Namespace, host, listen, run};
use roam6_proto::Input;
use std::time::Duration;

#[test]
fn each_step_of_the_wall_clock_is_reported() {
    let test = "each_step_of_the_wall_clock_is_reported";
    if std::env::var_os("ROAM6_OWN_MACHINE").is_none() {
        return println!("skipped: {test}: it sets the machine's clock; scripts/test-vm does it on a virtual one");
    }
    let Some(_here) = Namespace::enter_new(test) else { return };
    let directory = tempfile::tempdir().unwrap();
    let mut host = host(&directory, &[], None);
    listen(&mut host, Duration::from_millis(100));
    for _ in 0..2 {
        run("date -s '+1 hour'");
        let inputs = listen(&mut host, Duration::from_secs(2));
        let now: u64 = run("date +%s").trim().parse().unwrap();
        let clock =
            inputs.into_iter().find_map(|input| if let Input::Clock(clock) = input { Some(clock) } else { None });
        let behind = now.abs_diff(clock.expect("the step is announced").unix_micros / 1_000_000);
        assert!(behind < 60, "{behind} s");
    }
}
