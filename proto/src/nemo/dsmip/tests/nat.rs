//! NAT detection, keepalives, rebinding, and what data is carried by (RFC 5555 §4.1-4.3).

use super::pair::{AGENT_IPV4, BEHIND_NAT, NAT_ADDRESS, Nat, Pair, UPLINK, agent_config, home, router_config};
use crate::contract::config::nemo::{DsmipService, LoadSharing, MobileRouterConfig};
use crate::contract::report::{NemoReport, Report};
use core::time::Duration;
use roam6_wire::ip4::Encapsulated;
use roam6_wire::ip6::{Datagram, protocol};
use roam6_wire::mobility::{BindingIdentifier, CareOfField, Message, MobilityOption, Status};
use roam6_wire::{Bid, Ipv4Endpoint};

#[test]
fn binding_behind_nat_uses_the_observed_source() {
    for sharing in [LoadSharing::Single, LoadSharing::Standby] {
        let mut pair = Pair::new(MobileRouterConfig { load_sharing: sharing, ..router_config() }, agent_config());
        pair.link(true);
        pair.address4(BEHIND_NAT, true);
        pair.millis(400);
        assert_eq!(pair.updates(), 0, "a router of IPv6 may still answer");
        pair.millis(400);
        let [agent, router] = pair.active_paths().map(Option::unwrap);
        let outside = Ipv4Endpoint { address: NAT_ADDRESS, port: 40_001 };
        assert_eq!(Ipv4Endpoint::from_ipv6(agent.remote), Some(outside), "{sharing:?}");
        assert_eq!(
            (agent.local, router.remote),
            (Ipv4Endpoint::dsmip(AGENT_IPV4).to_ipv6(), Ipv4Endpoint::dsmip(AGENT_IPV4).to_ipv6())
        );
        assert_eq!(Ipv4Endpoint::from_ipv6(router.local), Some(Ipv4Endpoint::dsmip(BEHIND_NAT)));
        assert_eq!((agent.mtu, router.mtu), (1472, 1472), "28 octets of headers");
        assert!(pair.is_connected());
        let view = pair.view();
        let [row] = &view.bindings[..] else { panic!("{:?}", view.bindings) };
        assert_eq!(
            (row.home_address, row.care_of, row.udp_port),
            (home(), Some(NAT_ADDRESS.to_ipv6_mapped()), Some(40_001))
        );
    }
}

/// RFC 8899, by probes that routers do not fragment; the home agent's packets take the same path.
#[test]
fn narrow_path_is_found_over_ipv4_and_reported() {
    let mut pair = Pair::new(router_config(), agent_config());
    pair.mtus.insert(UPLINK, 1400);
    pair.link(true);
    pair.address4(BEHIND_NAT, true);
    let mtus = |pair: &Pair| pair.active_paths().map(|path| path.unwrap().mtu);
    pair.advance(Duration::from_secs(20));
    assert_eq!(mtus(&pair), [1372; 2], "28 octets of headers");
    assert!(pair.is_connected());
    pair.mtus.clear();
    pair.advance(Duration::from_secs(700));
    assert_eq!(mtus(&pair), [1472; 2], "a larger one is tried after ten minutes");
}

#[test]
fn udp_encapsulation_without_nat_only_if_forced() {
    for (force_udp, port, mtu) in [(false, 0, 1480), (true, 4191, 1472)] {
        let service = DsmipService { address: AGENT_IPV4, keepalive: Duration::from_secs(110), force_udp };
        let mut config = agent_config();
        config.ipv4 = Some(service);
        let mut pair = Pair::new(router_config(), config);
        pair.nat = None;
        pair.link(true);
        pair.address4(BEHIND_NAT, true);
        pair.millis(700);
        let ends = pair.active_paths().map(|path| path.map(|path| (path.local, path.remote, path.mtu)));
        let (own, agent) = (
            Ipv4Endpoint { address: BEHIND_NAT, port }.to_ipv6(),
            Ipv4Endpoint { address: AGENT_IPV4, port }.to_ipv6(),
        );
        assert_eq!(ends, [Some((agent, own, mtu)), Some((own, agent, mtu))], "forced: {force_udp}");
        for (_, sent) in pair.sent.iter().filter(|(_, sent)| sent.bytes[0] >> 4 == 4) {
            let carried = Encapsulated::parse(&sent.bytes).unwrap();
            let signalling = Datagram::parse(carried.inner).unwrap().protocol == protocol::MOBILITY;
            assert_eq!(carried.source.port != 0, signalling || force_udp, "updates always are over UDP");
        }
        let updates = pair.updates();
        pair.advance(Duration::from_secs(400));
        assert_eq!(pair.updates(), updates, "there is no NAT mapping to keep alive");
    }
}

#[test]
fn returning_carrier_keeps_the_encapsulation_and_confirms_the_mapping() {
    for sharing in [LoadSharing::Single, LoadSharing::Standby] {
        for translated in [false, true] {
            let mut config = MobileRouterConfig { load_sharing: sharing, ..router_config() };
            config.probe = None;
            let mut pair = Pair::new(config, agent_config());
            pair.nat = translated.then(Nat::default);
            pair.link(true);
            pair.address4(BEHIND_NAT, true);
            pair.advance(Duration::from_secs(10));
            let what = format!("{sharing:?}, NAT: {translated}");
            assert!(pair.is_connected(), "{what}");
            pair.link(false);
            if let Some(nat) = &mut pair.nat {
                nat.forget();
            }
            pair.millis(100);
            let updates = pair.updates();
            pair.link(true);
            pair.advance(Duration::from_secs(2));
            assert!(pair.is_connected(), "{what}: {:?}", pair.active_paths());
            assert_eq!(pair.updates(), updates + 1, "{what}: the network may be another one");
        }
    }
}

#[test]
fn bid_option_carries_the_ipv4_care_of_address_alone() {
    for (sharing, carried_options) in [(LoadSharing::Single, [true, false]), (LoadSharing::Standby, [false, true])] {
        let mut pair = Pair::new(MobileRouterConfig { load_sharing: sharing, ..router_config() }, agent_config());
        pair.nat = None;
        pair.link(true);
        pair.address4(BEHIND_NAT, true);
        pair.millis(700);
        let carried = Encapsulated::parse(&pair.received[0].bytes).unwrap();
        let datagram = Datagram::parse(carried.inner).unwrap();
        let message = Message::parse(datagram.payload, datagram.source, datagram.destination).unwrap();
        let has = |wanted: MobilityOption| message.options().contains(&wanted);
        let identifier = BindingIdentifier {
            bid: Bid(1),
            status: Status::ACCEPTED,
            simultaneous_home: false,
            priority: 1,
            care_of: CareOfField::V4(BEHIND_NAT),
        };
        let options = [MobilityOption::Ipv4CareOf(BEHIND_NAT), MobilityOption::BindingIdentifier(identifier)];
        assert_eq!(options.map(has), carried_options, "{sharing:?} (RFC 5648 §8.1)");
        assert_eq!(
            pair.remote4(),
            Some(Ipv4Endpoint { address: BEHIND_NAT, port: 0 }),
            "{sharing:?}: no NAT, so no UDP"
        );
    }
}

#[test]
fn lost_nat_mapping_costs_one_probe() {
    let mut pair = Pair::behind_nat();
    pair.advance(Duration::from_secs(10));
    for round in 1..=5 {
        // At any moment between two probes.
        pair.millis(37 * round);
        let before = pair.remote4().unwrap();
        pair.nat.as_mut().unwrap().forget();
        let began = pair.now;
        while !pair.is_connected() || pair.remote4() == Some(before) {
            pair.millis(1);
            let lost = pair.now.since(began);
            // To the next probe, until it is missed, and there and back.
            assert!(lost <= Duration::from_millis(200 + 200 + 15), "round {round}: {lost:?}");
        }
        pair.advance(Duration::from_secs(5));
    }
    assert!(
        !pair.reports.iter().any(|(_, report)| matches!(report, Report::Nemo(NemoReport::PathDown { .. }))),
        "no path is reported down"
    );
}

#[test]
fn nat_keepalive_uses_the_interval_of_the_acknowledgement() {
    for (keepalive, expected) in [(110, 110), (25, 25)] {
        let mut config = agent_config();
        let service = DsmipService { address: AGENT_IPV4, keepalive: Duration::from_secs(keepalive), force_udp: false };
        config.ipv4 = Some(service);
        let mut router = router_config();
        router.probe = None;
        let mut pair = Pair::new(router, config);
        pair.link(true);
        pair.address4(BEHIND_NAT, true);
        pair.advance(Duration::from_secs(2));
        let updates = pair.updates();
        pair.advance(Duration::from_secs(10 * expected));
        assert_eq!(pair.updates() - updates, 10, "every {expected} s");
        pair.nat.as_mut().unwrap().forget();
        pair.advance(Duration::from_secs(expected + 1));
        assert!(pair.is_connected(), "the next update registers the new mapping");
    }
}
