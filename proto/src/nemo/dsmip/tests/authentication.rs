//! Only an authenticated update moves a binding (RFC 5555 §5, RFC 4285 §5.1, RFC 3776 §4).

use super::pair::{AGENT_IPV4, NAT_ADDRESS, Pair, agent, agent_config, home, key, router_config};
use crate::contract::config::nemo::SharedKey;
use crate::contract::report::HostReport;
use crate::crypto::authenticator::authenticate;
use crate::{DropReason, Report};
use core::time::Duration;
use roam6_wire::ip4::Encapsulated;
use roam6_wire::ip6::{self, Header, protocol};
use roam6_wire::mobility::{BindingUpdate, Message, MobilityOption, UpdateFlags};
use roam6_wire::{CareOfAddress, Ipv4Endpoint, Sequence};
use std::net::Ipv4Addr;

const ATTACKER: Ipv4Endpoint = Ipv4Endpoint { address: Ipv4Addr::new(192, 0, 2, 66), port: 6666 };

fn reasons(pair: &Pair) -> Vec<DropReason> {
    let reasons = pair.reports.iter().filter_map(|(_, report)| match report {
        Report::Host(HostReport::Dropped { reason, .. }) => Some(*reason),
        _ => None,
    });
    reasons.collect()
}

/// A fresh update carried from `source`, proven with `secret`.
fn forged(source: Ipv4Endpoint, secret: Option<SharedKey>) -> Vec<u8> {
    let update = Message::BindingUpdate(BindingUpdate {
        sequence: Sequence(30_000),
        flags: UpdateFlags::ACKNOWLEDGE | UpdateFlags::HOME_REGISTRATION | UpdateFlags::ROUTER,
        lifetime_units: 100,
        options: vec![MobilityOption::Ipv4CareOf(source.address)],
    });
    let (home, agent) = (home(), agent());
    let bytes = match secret {
        None => update.emit(home.0, agent),
        Some(key) => update.emit_authenticated(home.0, agent, key.spi, |part| {
            authenticate(&key.secret, CareOfAddress(home.0), home, part)
        }),
    };
    carried(source, &ip6::emit(&Header::new(home.0, agent), protocol::MOBILITY, &bytes))
}

fn carried(source: Ipv4Endpoint, inner: &[u8]) -> Vec<u8> {
    Encapsulated { source, destination: Ipv4Endpoint::dsmip(AGENT_IPV4), tos: 0, inner }.emit()
}

#[test]
fn unauthenticated_ipv4_update_changes_nothing() {
    let mut pair = Pair::behind_nat();
    pair.advance(Duration::from_secs(2));
    let before = pair.remote4();
    let wrong = SharedKey { secret: vec![9; 16], ..key() };
    for secret in [None, Some(wrong), Some(SharedKey { spi: 999, ..key() }), Some(key())] {
        // The last has the right key and no timestamp.
        pair.deliver_to_agent(forged(ATTACKER, secret));
        pair.deliver_to_agent(forged(Ipv4Endpoint { address: NAT_ADDRESS, port: 1 }, None));
        pair.millis(1);
        assert_eq!(pair.remote4(), before);
    }
    assert!(reasons(&pair).contains(&DropReason::BadAuthenticator));
    assert!(reasons(&pair).contains(&DropReason::NotAuthenticated));
    assert!(pair.is_connected());
}

#[test]
fn replayed_ipv4_update_from_elsewhere_changes_nothing() {
    let mut pair = Pair::behind_nat();
    pair.advance(Duration::from_secs(2));
    let before = pair.remote4();
    let captured: Vec<Vec<u8>> = pair.received.iter().map(|packet| packet.bytes.clone()).collect();
    assert!(!captured.is_empty());
    for packet in captured {
        let inner = Encapsulated::parse(&packet).unwrap().inner.to_vec();
        pair.deliver_to_agent(carried(ATTACKER, &inner));
        pair.millis(5);
        assert_eq!(pair.remote4(), before, "replayed");
    }
}

#[test]
fn ipv4_data_from_elsewhere_is_not_answered() {
    let mut pair = Pair::behind_nat();
    pair.advance(Duration::from_secs(2));
    let (before, sent) = (pair.remote4(), pair.sent.len());
    for protocol in [protocol::UDP, protocol::TCP, protocol::ICMPV6, protocol::ESP, protocol::NONE] {
        pair.deliver_to_agent(carried(ATTACKER, &ip6::emit(&Header::new(home().0, agent()), protocol, &[128; 16])));
    }
    let error = Message::BindingRefreshRequest { options: Vec::new() }.emit(home().0, agent());
    pair.deliver_to_agent(carried(ATTACKER, &ip6::emit(&Header::new(home().0, agent()), protocol::MOBILITY, &error)));
    pair.deliver_to_agent(carried(ATTACKER, &[0x60]));
    assert_eq!((pair.remote4(), pair.sent.len()), (before, sent));
}

#[test]
fn ipv4_care_of_address_in_update_over_ipv6_is_rejected() {
    let mut pair = Pair::behind_nat();
    pair.advance(Duration::from_secs(2));
    let before = pair.remote4();
    let update = Message::BindingUpdate(BindingUpdate {
        sequence: Sequence(30_000),
        flags: UpdateFlags::ACKNOWLEDGE | UpdateFlags::HOME_REGISTRATION | UpdateFlags::ROUTER,
        lifetime_units: 100,
        options: vec![MobilityOption::AlternateCareOf(ATTACKER.to_ipv6())],
    });
    let mut config = agent_config();
    let mut rows = config.prefix_table.rows.clone();
    rows[0].authentication = crate::contract::config::nemo::Authentication::None;
    config.prefix_table = crate::contract::config::nemo::PrefixTable { rows }.into();
    let mut open = Pair::new(router_config(), config);
    let source = super::pair::ip("2001:db8:2::2");
    let bytes = update.emit(home().0, agent());
    let header = Header::new(source, agent()).with_home_address(home().0);
    open.deliver_to_agent(ip6::emit(&header, protocol::MOBILITY, &bytes));
    assert!(open.view().bindings.is_empty());
    let dropped = |(_, report): &(_, Report)| {
        matches!(report, Report::Host(HostReport::Dropped { reason: DropReason::Malformed, .. }))
    };
    assert!(open.reports.iter().any(dropped), "{:?}", open.reports);
    assert_eq!(pair.remote4(), before);
}

#[test]
fn home_agent_without_ipv4_service_ignores_ipv4_updates() {
    let mut config = agent_config();
    config.ipv4 = None;
    let mut pair = Pair::new(router_config(), config);
    pair.deliver_to_agent(forged(ATTACKER, Some(key())));
    assert!(pair.reports.is_empty() && pair.sent.is_empty());
}

#[test]
fn ipv4_packets_must_come_from_the_home_agent() {
    let mut pair = Pair::behind_nat();
    pair.millis(510);
    let sequence = Sequence(0);
    let acknowledgement = Message::BindingAcknowledgement(roam6_wire::mobility::BindingAcknowledgement {
        status: roam6_wire::mobility::Status(129),
        flags: roam6_wire::mobility::AckFlags::ROUTER,
        sequence,
        lifetime_units: 0,
        options: Vec::new(),
    });
    let inner =
        ip6::emit(&Header::new(agent(), home().0), protocol::MOBILITY, &acknowledgement.emit(agent(), home().0));
    for source in [ATTACKER, Ipv4Endpoint::dsmip(AGENT_IPV4)] {
        let destination = Ipv4Endpoint::dsmip(super::pair::BEHIND_NAT);
        let bytes = Encapsulated { source, destination, tos: 0, inner: &inner }.emit();
        let packet = crate::contract::input::Packet { link: super::pair::UPLINK, sender: None, bytes };
        pair.feed_router(crate::contract::input::Input::Packet(packet));
    }
    assert!(reasons(&pair).contains(&DropReason::NotForUs));
    pair.advance(Duration::from_secs(1));
    assert!(pair.is_connected());
}
