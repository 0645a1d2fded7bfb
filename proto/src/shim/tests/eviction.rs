//! A full context table: which contexts are evicted, and which peers still get one.

use super::*;
use crate::contract::config::shim::ShimConfig;
use crate::contract::report::HostReport;

const PEER_TAG: Tag = Tag::from_low_bits(9);

/// A shim with room for `max_contexts`.
fn bench(max_contexts: usize) -> Bench {
    Bench::new(ShimConfig { max_contexts, ..ShimConfig::default() })
}

/// Completes a handshake for the forked context `fork` of `source`, without locators and without any proof.
fn fork(bench: &mut Bench, source: Ipv6Addr, fork: u32) -> Vec<Output> {
    let options = vec![ShimOption::Fork(Fork(fork))];
    bench.handshake(source, Tag::from_low_bits(u64::from(fork) + 1000), options, Vec::new())
}

fn table_full(outputs: &[Output]) -> usize {
    outputs.iter().filter(|output| matches!(output, Output::Report(Report::Host(HostReport::TableFull { .. })))).count()
}

fn holds(bench: &Bench, peer: Ipv6Addr) -> usize {
    bench.shim.contexts.iter().filter(|(_, context)| context.id.ulids.peer == peer).count()
}

#[test]
fn a_peer_that_fills_the_table_leaves_room_for_another() {
    let mut bench = bench(10_000);
    let mut reported = 0;
    for number in 0..10_100 {
        reported += table_full(&fork(&mut bench, ip(STRANGER), number));
        bench.now = bench.now + Duration::from_micros(50);
    }
    assert_eq!(reported, 1, "a full table is reported once");
    assert!(bench.shim.contexts.len() <= 10_000);
    let other = ip("2001:db8:5::77");
    assert!(
        context(&bench.handshake(other, PEER_TAG, Vec::new(), Vec::new())).is_some(),
        "a second peer gets a context"
    );
    assert!(matches!(sent(&bench.flow("2001:db8:6::1"))[..], [Message::I1 { .. }]), "and so does a local flow");
    for number in 10_100..20_200 {
        reported += table_full(&fork(&mut bench, ip(STRANGER), number));
    }
    assert_eq!((holds(&bench, other), reported), (1, 1), "contexts of the stranger evict only its own");
    assert!(bench.shim.contexts.len() <= 10_000);
}

#[test]
fn addresses_of_one_prefix_share_its_part_of_the_table() {
    let mut bench = bench(256);
    let other = ip("2001:db8:5::77");
    let (proven, list) = set(0xbad, 3);
    assert!(context(&bench.handshake(other, PEER_TAG, Vec::new(), Vec::new())).is_some());
    for number in 0..2_000u32 {
        let source = Ipv6Addr::from_bits(ip(STRANGER).to_bits() + u128::from(number));
        fork(&mut bench, source, number);
        bench.now = bench.now + Duration::from_micros(50);
    }
    assert_eq!(holds(&bench, other), 1, "the context of another prefix remains");
    // A neighbour of the stranger, in the same prefix, that proves its addresses.
    assert!(context(&bench.handshake(proven[0], PEER_TAG, Vec::new(), list)).is_some());
    for number in 2_000..4_000u32 {
        fork(&mut bench, Ipv6Addr::from_bits(proven[0].to_bits() ^ u128::from(number)), number);
        bench.now = bench.now + Duration::from_micros(50);
    }
    assert_eq!(holds(&bench, proven[0]), 1, "contexts without proof are evicted first");
}

#[test]
fn an_address_with_many_contexts_is_evicted_before_its_neighbours() {
    let mut bench = bench(256);
    let neighbour = ip("2001:db8:bad::2");
    assert!(context(&bench.handshake(neighbour, PEER_TAG, Vec::new(), Vec::new())).is_some());
    for number in 0..1_000 {
        fork(&mut bench, ip(STRANGER), number);
        bench.now = bench.now + Duration::from_micros(50);
    }
    assert_eq!(holds(&bench, neighbour), 1);
}

#[test]
fn below_the_prefix_share_the_least_recently_used_is_evicted() {
    let mut bench = bench(16);
    let peer = |number: u16| Ipv6Addr::new(0x2001, 0xdb8, 0x5000 + number, 0, 0, 0, 0, 1);
    for number in 0..17 {
        assert!(context(&bench.handshake(peer(number), PEER_TAG, Vec::new(), Vec::new())).is_some());
        bench.wait(10);
    }
    let held: Vec<usize> = (0..17).map(|number| holds(&bench, peer(number))).collect();
    assert_eq!(held, [&[0][..], &[1; 16]].concat(), "the first was used least recently");
}

#[test]
fn peers_that_have_proved_their_addresses_are_not_displaced_by_a_newcomer() {
    let mut bench = bench(4);
    let first: Vec<Ipv6Addr> = (0..4)
        .map(|number| {
            let (theirs, list) = set(0x5000 + u16::from(number), number);
            assert!(context(&bench.handshake(theirs[0], PEER_TAG, Vec::new(), list)).is_some());
            theirs[0]
        })
        .collect();
    let outputs = bench.handshake(ip(STRANGER), PEER_TAG, Vec::new(), Vec::new());
    assert_eq!((context(&outputs), table_full(&outputs)), (None, 1));
    assert!(first.iter().all(|peer| holds(&bench, *peer) == 1));
}
