//! Encrypted paths: the peer is in place before the acknowledgement, and unencrypted updates are refused where they must be.

use super::bench::*;
use crate::contract::config::nemo::{Encryption, HomeAgentConfig};
use crate::contract::item::{Encap, TunnelPath};
use crate::crypto::wireguard::{PresharedKey, PublicKey};
use crate::{Item, Output};
use roam6_wire::Bid;
use roam6_wire::mobility::{MobilityOption, Status, WireguardKey};

const OURS: PublicKey = PublicKey([2; 32]);
const THEIRS: PublicKey = PublicKey([1; 32]);

fn encrypting(required: bool) -> HomeAgentConfig {
    let keys = (0..4).map(|bid| (Bid(bid), OURS)).collect();
    HomeAgentConfig { encryption: Some(Encryption { required, keys }), ..config() }
}

fn keyed(update: Update) -> Update {
    update.with(MobilityOption::WireguardKey(WireguardKey { bid: Bid(0), port: 4192, public_key: THEIRS.0 }))
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
