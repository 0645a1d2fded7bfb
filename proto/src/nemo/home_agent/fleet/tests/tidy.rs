//! Records that nobody needs are removed by one member; the others only forget.

use super::bench::*;
use crate::contract::config::nemo::Authentication;
use crate::contract::fleet::{FleetEvent, Stored};
use crate::contract::item::Revision;
use crate::nemo::home_agent::tests::bench::*;
use core::time::Duration;

/// Lets time pass while the store works; returns the changes.
fn wait(bench: &mut Bench, span: Duration) -> Vec<(crate::Put, crate::contract::item::FleetRecord)> {
    let beats = span.as_millis() / 400;
    (0..beats).flat_map(|_| puts(&bench.beat(1))).collect()
}

#[test]
fn an_expired_record_is_removed_a_while_after_its_end() {
    let mut bench = Bench::new(fleet_config());
    let (put, _) = bench.send(&Update::new(1, "2001:db8:1::100"));
    bench.keep(&put);
    assert!(wait(&mut bench, Duration::from_secs(110)).is_empty(), "nothing is written when a binding ends");
    assert!(bench.care_of().is_none());
    let found = wait(&mut bench, Duration::from_secs(30));
    assert_eq!(found.len(), 1);
    let (put, change) = &found[0];
    assert!(change.record.is_none() && change.expected == Revision(14), "{change:?}");
    bench.keep(put);
    let (_, change) = bench.send(&Update::new(2, "2001:db8:1::100"));
    assert_eq!(change.expected, Revision(0));
}

#[test]
fn one_member_of_several_removes_a_record() {
    let mut removed = 0;
    for names in [["ha1", "ha2"], ["ha2", "ha1"]] {
        let mut config = fleet_config();
        config.fleet.as_mut().unwrap().member = names[0].to_owned();
        let mut bench = Bench::new(config);
        let (put, _) = bench.send(&Update::new(1, "2001:db8:1::100").lifetime(1));
        bench.keep(&put);
        bench.hear(names[1], 0);
        removed += usize::from(!wait(&mut bench, Duration::from_secs(80)).is_empty());
    }
    assert_eq!(removed, 1);
}

#[test]
fn the_tombstone_of_a_binding_with_esp_stays() {
    let mut config = fleet_config();
    let table = std::sync::Arc::make_mut(&mut config.prefix_table);
    let associations = crate::nemo::home_agent::tests::ipsec::pair(1);
    table.rows[0].authentication = Authentication::Ipsec(Box::new(associations));
    let mut other = Bench::new(fleet_config());
    let (_, change) = other.send(&Update::new(1, "2001:db8:1::100").lifetime(1));
    let mut bench = Bench::new(config);
    bench.store(record(&change));
    assert!(wait(&mut bench, Duration::from_secs(200)).is_empty());
}

#[test]
fn a_removed_record_is_forgotten() {
    let mut bench = Bench::new(fleet_config());
    let (put, _) = bench.send(&Update::new(1, "2001:db8:1::100").lifetime(1));
    bench.keep(&put);
    wait(&mut bench, Duration::from_secs(20));
    let revision = Revision(bench.head + 1);
    bench.event(FleetEvent::Stored(Stored { home_address: home(), revision, record: None }));
    let (_, change) = bench.send(&Update::new(1, "2001:db8:1::100"));
    assert_eq!(change.expected, Revision(0), "a new life");
}
