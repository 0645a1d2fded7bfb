//! The IPv4 pool: a prefix is claimed in the transaction of the record.

use super::bench::*;
use crate::contract::config::nemo::{HomeAgentConfig, Ipv4Pool};
use crate::contract::fleet::Commit;
use crate::nemo::home_agent::tests::bench::*;
use roam6_wire::Prefix;
use roam6_wire::mobility::MobilityOption;
use std::net::Ipv4Addr;

fn pool_config(length: u8) -> HomeAgentConfig {
    let prefix = Prefix::from_ipv4(Ipv4Addr::new(203, 0, 113, 0), length).unwrap();
    HomeAgentConfig { ipv4_pool: Some(Ipv4Pool { prefix, length: 32 }), ..fleet_config() }
}

fn update(sequence: u16) -> Update {
    let address = Ipv4Addr::UNSPECIFIED;
    let any = MobilityOption::Ipv4HomeAddress { prefix_length: 32, prefix_wanted: false, address };
    Update::new(sequence, "2001:db8:1::100").with(any)
}

#[test]
fn a_prefix_is_claimed_once_and_released_at_the_end() {
    let mut bench = Bench::new(pool_config(28));
    let (put, change) = bench.send(&update(1));
    assert_eq!((change.claims.len(), change.releases.len()), (1, 0));
    let claimed = change.claims.clone();
    assert_eq!(status(&bench.keep(&put)), 0);
    let (put, change) = bench.send(&update(2));
    assert!(change.claims.is_empty() && change.releases.is_empty(), "it has it already");
    bench.keep(&put);
    let (_, change) = bench.send(&Update::new(3, "2001:db8:1::100").lifetime(0));
    assert_eq!(change.releases, claimed);
}

#[test]
fn another_prefix_is_chosen_if_one_is_taken() {
    let mut bench = Bench::new(pool_config(30));
    let (mut put, change) = bench.send(&update(1));
    let mut tried = change.claims.clone();
    for _ in 0..3 {
        let taken = Commit::PrefixTaken(*tried.last().unwrap());
        let (next, change) = puts(&bench.answer(&put, taken)).remove(0);
        assert!(!tried.contains(&change.claims[0]), "{tried:?}");
        tried.extend(change.claims);
        put = next;
    }
    let outputs = bench.answer(&put, Commit::PrefixTaken(*tried.last().unwrap()));
    let (put, change) = puts(&outputs).remove(0);
    assert!(change.claims.is_empty(), "the pool has no more");
    assert_eq!(status(&bench.keep(&put)), 0, "the binding is in force without");
}
