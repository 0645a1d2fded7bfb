//! Prefix entries in the hash table and in the slots: an entry in one of them alone is found, in both it is the same,
//! and neither outlives the tunnel.

use super::xdp::{XDP_PASS, XDP_REDIRECT, allow_xdp_redirect};
use super::*;
use crate::tunnel::bpf::abi::prefix_slot::{EMPTY, SlotPrefix};
use crate::tunnel::bpf::abi::{PrefixKey, Side, prefix_key};

/// The prefix of tunnel 1, to which [`MNN`] belongs.
const HERE: &str = "2001:db8:f0::/48";
/// The network with the same slot.
const TWIN: &str = "2001:db8:170::/48";
const IN_TWIN: &str = "2001:db8:170::1";
const TWIN_COA: &str = "2001:db8:2::9";
/// Offset of the entry in a slot.
const WAY_AT: usize = 16;

fn key(prefix: &str) -> PrefixKey {
    prefix_key(Side::Far, prefix.parse().unwrap())
}

fn slot_prefix(prefix: &str) -> SlotPrefix {
    SlotPrefix::of(&key(prefix)).unwrap()
}

fn address(text: &str) -> Option<Ipv6Addr> {
    Some(text.parse().unwrap())
}

/// A tunnel to a mobile network.
fn to(id: u32, far: &str, care_of: &str) -> Tunnel {
    let (near, far, paths) = (vec![Prefix::ALL], vec![far.parse().unwrap()], vec![path(care_of)]);
    Tunnel { id: TunnelId(id), local_prefixes: near, remote_prefixes: far, paths, flows: Vec::new() }
}

/// The entry in the slot of `prefix`, if the slot is its own.
fn entry_in_slot(testbed: &mut TestHost, prefix: &str) -> Option<Vec<u8>> {
    let slot = testbed.tunnels.prefix_table().slot(slot_prefix(prefix));
    slot_prefix(prefix).is_in(&slot).then(|| slot[WAY_AT..].to_vec())
}

fn entry_in_table(testbed: &mut TestHost, prefix: &str) -> Option<Vec<u8>> {
    testbed.tunnels.prefix_table().table().find(&key(prefix)).map(|way| way.to_vec())
}

#[test]
fn prefix_entry_is_found_in_its_slot_and_in_the_hash_table() {
    let mut testbed = testbed_or_skip!("prefix_entry_is_found_in_its_slot_and_in_the_hash_table");
    allow_xdp_redirect(&mut testbed);
    let (packet, reply) = (frame(&Ip::udp(CN, MNN).0), frame(&Ip::udp(MNN, CN).within(COA, HA).0));
    let seen =
        |testbed: &mut TestHost| (care_of(testbed, MNN), super::xdp::run(testbed, &packet).0, testbed.run(&reply).0);
    let way = testbed.tunnels.prefix_table().table().find(&key(HERE)).unwrap();
    testbed.tunnels.prefix_table().table().drop(&key(HERE)).unwrap();
    assert_eq!(seen(&mut testbed), (address(COA), XDP_REDIRECT, REDIRECT), "the slot alone");
    testbed.tunnels.prefix_table().set_slot(slot_prefix(HERE), EMPTY);
    assert_eq!(seen(&mut testbed), (None, XDP_PASS, DROP), "neither");
    testbed.tunnels.put(&to(1, HERE, "2001:db8:2::3")).unwrap();
    testbed.tunnels.put(&to(1, HERE, COA)).unwrap();
    testbed.tunnels.prefix_table().set_slot(slot_prefix(HERE), EMPTY);
    assert_eq!(testbed.tunnels.prefix_table().table().find(&key(HERE)), Some(way));
    assert_eq!(seen(&mut testbed), (address(COA), XDP_REDIRECT, REDIRECT), "the table alone");
    testbed.tunnels.drop(TunnelId(1)).unwrap();
    assert_eq!(seen(&mut testbed), (None, XDP_PASS, DROP), "no tunnel");
}

#[test]
fn prefixes_sharing_a_slot_are_both_found() {
    let mut testbed = testbed_or_skip!("prefixes_sharing_a_slot_are_both_found");
    assert!(entry_in_slot(&mut testbed, HERE).is_some());
    testbed.tunnels.put(&to(9, TWIN, TWIN_COA)).unwrap();
    let ends = |testbed: &mut TestHost| [MNN, IN_TWIN].map(|to| care_of(testbed, to));
    assert!(entry_in_slot(&mut testbed, HERE).is_none() && entry_in_slot(&mut testbed, TWIN).is_some());
    assert_eq!(ends(&mut testbed), [address(COA), address(TWIN_COA)]);
    testbed.tunnels.put(&to(1, HERE, "2001:db8:2::3")).unwrap();
    assert!(entry_in_slot(&mut testbed, HERE).is_some() && entry_in_slot(&mut testbed, TWIN).is_none());
    assert_eq!(ends(&mut testbed), [address("2001:db8:2::3"), address(TWIN_COA)]);
    testbed.tunnels.drop(TunnelId(9)).unwrap();
    assert_eq!(ends(&mut testbed), [address("2001:db8:2::3"), None]);
    testbed.tunnels.put(&to(9, TWIN, TWIN_COA)).unwrap();
    testbed.tunnels.drop(TunnelId(9)).unwrap();
    assert_eq!(ends(&mut testbed), [address("2001:db8:2::3"), None]);
}

#[test]
fn removed_prefix_frees_its_slot_and_a_shorter_one_matches() {
    let mut testbed = testbed_or_skip!("removed_prefix_frees_its_slot_and_a_shorter_one_matches");
    let longer = LONGER[1].1;
    assert!(entry_in_slot(&mut testbed, longer).is_some());
    assert_eq!(care_of(&mut testbed, "2001:db8:f0:505::8"), address(LONGER[1].2));
    testbed.tunnels.drop(TunnelId(LONGER[1].0)).unwrap();
    assert_eq!(testbed.tunnels.prefix_table().slot(slot_prefix(longer)), EMPTY);
    assert_eq!(care_of(&mut testbed, "2001:db8:f0:505::8"), address(LONGER[0].2));
}

#[test]
fn torn_slot_read_falls_back_to_the_hash_table() {
    let mut testbed = testbed_or_skip!("torn_slot_read_falls_back_to_the_hash_table");
    let whole = testbed.tunnels.prefix_table().slot(slot_prefix(HERE));
    let mut torn = whole;
    torn[WAY_AT + 31] ^= 1;
    testbed.tunnels.prefix_table().set_slot(slot_prefix(HERE), torn);
    assert_eq!(care_of(&mut testbed, MNN), address(COA), "the table says");
    testbed.tunnels.prefix_table().table().drop(&key(HERE)).unwrap();
    assert_eq!(care_of(&mut testbed, MNN), None);
    testbed.tunnels.prefix_table().set_slot(slot_prefix(HERE), whole);
    assert_eq!(care_of(&mut testbed, MNN), address(COA));
}

/// The checksum is not secret: an attacker who chooses a care-of address can produce the checksum of another.
#[test]
fn slot_of_another_prefix_is_not_used() {
    let mut testbed = testbed_or_skip!("slot_of_another_prefix_is_not_used");
    let whole = testbed.tunnels.prefix_table().slot(slot_prefix(HERE));
    testbed.tunnels.prefix_table().table().drop(&key(HERE)).unwrap();
    let (number, bits) = (0, 8);
    for octet in [number, bits] {
        let mut forged = whole;
        forged[octet] ^= 1;
        testbed.tunnels.prefix_table().set_slot(slot_prefix(HERE), forged);
        assert_eq!(care_of(&mut testbed, MNN), None);
    }
}

#[test]
fn resolved_route_is_stored_in_the_slot_of_its_endpoint_only() {
    let mut testbed = testbed_or_skip!("resolved_route_is_stored_in_the_slot_of_its_endpoint_only");
    let (elsewhere, packet) = ("2001:db8:2::3", frame(&Ip::udp(CN, MNN).0));
    testbed.host.ip("neighbour replace 2001:db8:1::3 lladdr 02:00:00:00:00:03 dev up0 nud permanent");
    testbed.host.ip(&format!("route add {elsewhere} via 2001:db8:1::3"));
    let as_put = entry_in_table(&mut testbed, HERE).unwrap();
    assert_eq!(testbed.run(&packet).1[..12], TO_NEXT_HOP);
    let learnt = entry_in_slot(&mut testbed, HERE).unwrap();
    assert_eq!((&learnt[..4], &learnt[8..12], &learnt[16..32]), (&as_put[..4], &as_put[8..12], &as_put[16..32]));
    let gateway: Ipv6Addr = "2001:db8:1::2".parse().unwrap();
    assert!(learnt[4..8] != [0; 4] && learnt[32..] == gateway.octets());
    assert_eq!(entry_in_table(&mut testbed, HERE), Some(as_put));
    // The same gateway, written while the slot became another endpoint's.
    testbed.tunnels.put(&to(1, HERE, elsewhere)).unwrap();
    let mut late = testbed.tunnels.prefix_table().slot(slot_prefix(HERE));
    assert_eq!(late[WAY_AT + 4..WAY_AT + 8], [0; 4]);
    for octet in (4..8).chain(12..16).chain(32..48) {
        late[WAY_AT + octet] = learnt[octet];
    }
    testbed.tunnels.prefix_table().set_slot(slot_prefix(HERE), late);
    assert_eq!(testbed.run_again(&packet).1[..6], [2, 0, 0, 0, 0, 3]);
}

#[test]
fn restart_takes_over_slots_and_removes_stale_ones() {
    let mut testbed = testbed_or_skip!("restart_takes_over_slots_and_removes_stale_ones").restart();
    assert_eq!(care_of(&mut testbed, MNN), address(COA));
    testbed.tunnels.put(&to(1, HERE, "2001:db8:2::3")).unwrap();
    assert_eq!(care_of(&mut testbed, MNN), address("2001:db8:2::3"));
    assert_eq!(care_of(&mut testbed, "2001:db8:f4::4"), address("2001:db8:4::2"));
    testbed.tunnels.remove_stale().unwrap();
    assert_eq!(care_of(&mut testbed, "2001:db8:f4::4"), None);
    assert_eq!(testbed.tunnels.prefix_table().slot(slot_prefix("2001:db8:f4::/48")), EMPTY);
    assert_eq!(care_of(&mut testbed, MNN), address("2001:db8:2::3"));
}

#[test]
fn crash_between_table_and_slot_write_leaves_no_stale_slot() {
    let mut testbed = testbed_or_skip!("crash_between_table_and_slot_write_leaves_no_stale_slot");
    // A tunnel is added, another removed, and one moves: each time the second write is missing.
    let way = testbed.tunnels.prefix_table().table().find(&key(HERE)).unwrap();
    testbed.tunnels.prefix_table().table().put(&key(TWIN), &way).unwrap();
    testbed.tunnels.prefix_table().set_slot(slot_prefix("2001:db8:f4::/48"), EMPTY);
    let before = testbed.tunnels.prefix_table().slot(slot_prefix(HERE));
    testbed.tunnels.put(&to(1, HERE, "2001:db8:2::3")).unwrap();
    testbed.tunnels.prefix_table().set_slot(slot_prefix(HERE), before);
    let mut testbed = testbed.restart();
    testbed.tunnels.put(&to(1, HERE, "2001:db8:2::3")).unwrap();
    testbed.tunnels.remove_stale().unwrap();
    assert_eq!(entry_in_slot(&mut testbed, HERE), entry_in_table(&mut testbed, HERE));
    assert_eq!(care_of(&mut testbed, MNN), address("2001:db8:2::3"));
    for (gone, inside) in [(TWIN, IN_TWIN), ("2001:db8:f4::/48", "2001:db8:f4::4")] {
        assert_eq!((entry_in_table(&mut testbed, gone), entry_in_slot(&mut testbed, gone)), (None, None), "{gone}");
        assert_eq!(care_of(&mut testbed, inside), None);
    }
}
