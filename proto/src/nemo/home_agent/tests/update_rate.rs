//! One key may be used for any number of valid updates a second: each costs a journal record, and the others wait for it.

use super::bench::*;
use crate::contract::config::nemo::HomeAgentConfig;
use crate::contract::item::JournalRecord;
use crate::contract::report::HostReport;
use crate::{DropReason, Item, Output, Report};
use core::time::Duration;

fn limited() -> TestBed {
    TestBed::new(HomeAgentConfig { max_update_rate: Some(20), duplicate_detection: false, ..config() })
}

fn records(outputs: &[Output]) -> usize {
    let is_record = |output: &&Output| match output {
        Output::Put(put) => matches!(&put.item, Item::JournalRecord(JournalRecord::Binding(_))),
        _ => false,
    };
    outputs.iter().filter(is_record).count()
}

fn is_limited(outputs: &[Output]) -> bool {
    let is = |report: &&Report| match report {
        Report::Host(HostReport::Dropped { reason: DropReason::RateLimited, detail, .. }) => {
            detail.contains("2001:db8::100") && detail.contains("max_update_rate")
        }
        _ => false,
    };
    reports(outputs).iter().any(is)
}

#[test]
fn flood_of_valid_updates_costs_a_bounded_number_of_records() {
    // Moves; and registrations in turn with de-registrations.
    for lifetimes in [[15, 15], [15, 0]] {
        let mut bench = limited();
        let (mut written, mut dropped, mut others) = (0, 0, 0);
        for number in 1..=4000_u16 {
            bench.now = bench.now + Duration::from_micros(500);
            let source = format!("2001:db8:1::{number:x}");
            let outputs = bench.send(&Update::new(number, &source).lifetime(lifetimes[usize::from(number % 2)]));
            written += records(&outputs);
            dropped += usize::from(is_limited(&outputs));
            if is_limited(&outputs) {
                assert!(sent(&outputs).is_empty(), "no answer is signed for it");
            }
            if number % 400 == 0 {
                let outputs = bench.send(&Update::unauthenticated(number, "2001:db8:2::1"));
                others += usize::from(status(&outputs) == 0);
            }
        }
        // A burst of 5 s, two seconds of tokens, and the first, which has no bucket yet.
        assert!(written <= 100 + 2 * 20 + 1 && dropped > 1000, "{dropped} dropped, {written} written");
        assert_eq!(others, 10, "nobody else notices");
        bench.now = bench.now + Duration::from_millis(50);
        assert_eq!(status(&bench.send(&Update::new(4001, "2001:db8:1::1"))), 0, "the next one counts");
    }
}

#[test]
fn eight_uplinks_that_move_are_never_limited() {
    let mut bench = limited();
    let mut sequence = 0;
    let mut send = |bench: &mut TestBed| {
        sequence += 1;
        let outputs = bench.send(&Update::new(sequence, &format!("2001:db8:1::{sequence:x}")));
        assert_eq!(status(&outputs), 0, "update {sequence}");
    };
    // Everything moves at once, three times; then each second as many as a router can send.
    for _ in 0..3 {
        (0..24).for_each(|_| send(&mut bench));
        bench.now = bench.now + Duration::from_millis(300);
    }
    for _ in 0..120 {
        (0..10).for_each(|_| send(&mut bench));
        bench.now = bench.now + Duration::from_secs(1);
    }
}
