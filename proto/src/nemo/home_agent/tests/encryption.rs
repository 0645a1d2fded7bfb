//! Encrypted paths: the peer is in place before the acknowledgement, and unencrypted updates are refused where they must be.

use super::bench::*;
use crate::contract::command::{HomeAgentCommand, LifecycleCommand};
use crate::contract::config::encryption::DeviceNumber;
use crate::contract::config::nemo::{Encryption, HomeAgentConfig};
use crate::contract::item::subflow::{subflow_network, subflow_prefix};
use crate::contract::item::{Encap, NextHop, RouteTable, TunnelPath, WireguardPeer};
use crate::crypto::wireguard::{PresharedKey, PublicKey};
use crate::nemo::home_agent::forwarding::TUNNEL_METRIC;
use crate::{Command, Input, Item, Key, Output};
use roam6_wire::mobility::{MobilityOption, Status, WireguardKey};
use roam6_wire::{Bid, Prefix};

const OURS: PublicKey = PublicKey([2; 32]);
const THEIRS: PublicKey = PublicKey([1; 32]);

fn encrypting(required: bool) -> HomeAgentConfig {
    let keys = (0..4).map(|bid| (Bid(bid), OURS)).collect();
    HomeAgentConfig { encryption: Some(Box::new(Encryption { required, keys, ..Default::default() })), ..config() }
}

fn keyed(update: Update) -> Update {
    update.with(MobilityOption::WireguardKey(WireguardKey { bid: Bid(0), port: 4192, public_key: THEIRS.0 }))
}

const RENEWED: PublicKey = PublicKey([4; 32]);

/// The home agent after it has renewed its keys.
fn renewed(required: bool) -> HomeAgentConfig {
    let keys = |key| (0..4).map(|bid| (Bid(bid), key)).collect();
    let encryption =
        Encryption { required, keys: keys(RENEWED), former: keys(OURS), renewals: 1, ..Default::default() };
    HomeAgentConfig { encryption: Some(Box::new(encryption)), ..config() }
}

fn told(port: u16, key: PublicKey) -> MobilityOption {
    MobilityOption::WireguardKey(WireguardKey { bid: Bid(0), port, public_key: key.0 })
}

fn peer(bench: &TestBed) -> WireguardPeer {
    *path(bench).encap.wireguard().unwrap()
}

fn path(bench: &TestBed) -> TunnelPath {
    bench.tunnel().unwrap().paths[0].clone()
}

fn keys(outputs: &[Output]) -> Vec<WireguardKey> {
    let options = acknowledgement(outputs).options;
    let keys = options.iter().filter_map(|option| match option {
        MobilityOption::WireguardKey(key) => Some(*key),
        _ => None,
    });
    keys.collect()
}

#[test]
fn peer_is_installed_before_the_acknowledgement_with_our_key() {
    let mut bench = TestBed::new(encrypting(true));
    bench.hold_outcomes = true;
    let first = bench.send(&keyed(Update::new(7, "2001:db8:1::100")));
    let put = |output: &Output| matches!(output, Output::Put(put) if matches!(put.item, Item::Tunnel(_)));
    assert!(first.iter().any(put) && !first.iter().any(|output| matches!(output, Output::Transmit(_))));
    let done = bench.release_outcomes();
    assert_eq!(keys(&done), [WireguardKey { bid: Bid(0), port: 4192, public_key: OURS.0 }]);
    let Encap::Wireguard(peer) = path(&bench).encap else { panic!("{:?}", path(&bench)) };
    assert_eq!((peer.public_key, peer.port, peer.initiates, path(&bench).mtu), (THEIRS, 4192, false, 1420));
    assert_eq!(Some(peer.preshared_key), PresharedKey::derive(&key().secret, Bid(0), &THEIRS, &OURS));
}

#[test]
fn move_sets_the_endpoint_of_the_same_peer() {
    let mut bench = TestBed::new(encrypting(false));
    bench.send(&keyed(Update::new(7, "2001:db8:1::100")));
    let before = path(&bench);
    bench.send(&keyed(Update::new(8, "2001:db8:2::100")));
    let after = path(&bench);
    assert_eq!((after.remote, after.encap), (address("2001:db8:2::100"), before.encap));
}

#[test]
fn unencrypted_update_is_refused_where_encryption_is_required() {
    let mut bench = TestBed::new(encrypting(true));
    let done = bench.send(&Update::new(7, "2001:db8:1::100"));
    assert_eq!(acknowledgement(&done).status, Status::ADMINISTRATIVELY_PROHIBITED);
    assert!(format!("{done:?}").contains("write encrypt = true in its [mobile_router]"));
    // Without a shared key there is no preshared one.
    let done = bench.send(&keyed(Update::unauthenticated(7, "2001:db8:1::200")));
    assert_eq!(acknowledgement(&done).status, Status::ADMINISTRATIVELY_PROHIBITED);
    assert!(bench.tunnel().is_none());
}

#[test]
fn unencrypted_update_is_served_as_before_otherwise() {
    for config in [encrypting(false), config()] {
        let is_offered = config.encryption.is_some();
        let mut bench = TestBed::new(config);
        let done = bench.send(&Update::new(7, "2001:db8:1::100"));
        assert_eq!((keys(&done), path(&bench).encap), (vec![], Encap::Native));
        let done = bench.send(&keyed(Update::new(8, "2001:db8:1::100")));
        assert_eq!((keys(&done).len(), path(&bench).encap.is_native()), (usize::from(is_offered), !is_offered));
    }
}

#[test]
fn renewed_key_of_the_mobile_router_gets_another_device() {
    let mut bench = TestBed::new(encrypting(true));
    bench.send(&keyed(Update::new(7, "2001:db8:1::100")));
    assert_eq!(peer(&bench).device, DeviceNumber(0));
    let third = PublicKey([3; 32]);
    let done = bench.send(&Update::new(8, "2001:db8:1::100").with(told(4208, third)));
    assert_eq!(keys(&done), [WireguardKey { bid: Bid(0), port: 4208, public_key: OURS.0 }]);
    assert_eq!((peer(&bench).device, peer(&bench).public_key), (DeviceNumber(16), third));
    // A port that is none of a device, as that of another implementation, or of another path.
    for (sequence, port) in [(9, 9999), (10, 4193), (11, 4256), (12, 0)] {
        bench.send(&Update::new(sequence, "2001:db8:1::100").with(told(port, third)));
        assert_eq!(peer(&bench).device, DeviceNumber(0), "{port}");
    }
}

#[test]
fn renewed_key_of_the_home_agent_is_told_with_the_next_acknowledgement() {
    let mut bench = TestBed::new(encrypting(true));
    bench.send(&keyed(Update::new(7, "2001:db8:1::100")));
    let (before, recorded) = (path(&bench), journal(&bench));
    let own = renewed(false).encryption.unwrap();
    let outputs = bench.feed(Input::Command(Command::HomeAgent(HomeAgentCommand::ReloadKeys(own))));
    assert!(outputs.is_empty() && path(&bench) == before, "the former session goes on");
    let unkeyed = bench.send(&Update::new(8, "2001:db8:1::100"));
    assert_eq!(acknowledgement(&unkeyed).status, Status::ADMINISTRATIVELY_PROHIBITED, "encryption is required still");
    let done = bench.send(&keyed(Update::new(9, "2001:db8:1::100")));
    assert_eq!(keys(&done), [WireguardKey { bid: Bid(0), port: 4224, public_key: RENEWED.0 }]);
    assert_eq!((peer(&bench).device, peer(&bench).public_key), (DeviceNumber(32), THEIRS));
    let expected = PresharedKey::derive(&key().secret, Bid(0), &THEIRS, &RENEWED);
    assert_eq!(Some(peer(&bench).preshared_key), expected);
    // After a restart each binding has the device that it had, also one from before the renewal.
    for (records, expected) in [(journal(&bench), path(&bench)), (recorded, before)] {
        let mut after = TestBed::new(renewed(true));
        after.feed(Input::Command(Command::Lifecycle(LifecycleCommand::RestoreJournal(records))));
        assert_eq!(path(&after), expected);
    }
    // The keys are lost, and those before with them: nothing is restored that could not be decrypted.
    let mut after = TestBed::new(encrypting(true));
    after.feed(Input::Command(Command::Lifecycle(LifecycleCommand::RestoreJournal(journal(&bench)))));
    assert!(after.tunnel().is_none_or(|tunnel| tunnel.paths.iter().all(|path| path.weight == 0)));
}

fn has_subflows(bench: &TestBed) -> [bool; 2] {
    let prefix = subflow_prefix(address("2001:db8::100"));
    let route = Key::Route(RouteTable::MAIN, prefix, Prefix::ALL, TUNNEL_METRIC);
    let in_tunnel = bench.tunnel().is_some_and(|tunnel| tunnel.remote_prefixes.contains(&prefix));
    [in_tunnel, bench.plan.find(&route).is_some()]
}

#[test]
fn subflows_of_encrypted_paths_have_addresses_in_the_tunnel() {
    for (bond, is_keyed) in [(true, true), (true, false), (false, true)] {
        let mut bench = TestBed::new(HomeAgentConfig { bond, ..encrypting(false) });
        let update = |sequence| Update::new(sequence, "2001:db8:1::100");
        bench.send(&if is_keyed { keyed(update(7)) } else { update(7) });
        assert_eq!(has_subflows(&bench), [bond && is_keyed; 2], "{bond} {is_keyed}");
        if bond && is_keyed {
            bench.send(&update(8));
            assert_eq!(has_subflows(&bench), [false; 2], "it does not encrypt any more");
            bench.send(&keyed(update(9)));
            assert_eq!(has_subflows(&bench), [true; 2]);
            bench.send(&update(10).lifetime(0));
            assert!(!has_subflows(&bench)[1], "the binding has ended");
        }
    }
}

/// Whatever the state of the binding.
#[test]
fn what_is_no_packet_of_a_subflow_is_discarded() {
    for bond in [true, false] {
        let mut bench = TestBed::new(HomeAgentConfig { bond, ..encrypting(true) });
        bench.feed(Input::Command(Command::Lifecycle(LifecycleCommand::JournalRestored)));
        let has = |wanted: fn(&Item) -> bool| bench.plan.iter().any(|(_, item)| wanted(item));
        let from = has(|item| matches!(item, Item::Rule(rule) if rule.source == subflow_network()));
        let to = has(|item| {
            matches!(item, Item::Route(route)
                if route.destination == subflow_network() && route.target == NextHop::Unreachable)
        });
        assert_eq!((from, to), (bond, bond));
    }
}
