//! What a network has in the way of an uplink: captive portals (RFC 8910).

use super::addresses::{reply, requests};
use super::*;
use roam6_wire::PortalUri;
use roam6_wire::dhcp6::{self, ClientServerMessage, DhcpOption, MessageType};

const PORTAL: &[u8] = b"https://portal.example/api";

impl TestBed {
    fn hints_of_wifi(&self) -> Vec<String> {
        let mut view = View::default();
        self.router.show(self.now, &mut view);
        view.links.into_iter().find(|link| link.name == "wifi").unwrap().hints
    }

    /// A Router Advertisement with this URI.
    fn advertise_portal(&mut self, uri: &[u8]) -> Vec<Output> {
        let options =
            vec![information("2001:db8:1::/64"), NeighbourOption::CaptivePortal(PortalUri::read(uri).unwrap())];
        let message = RouterAdvertisement { hop_limit: 64, lifetime: 1800, options, ..Default::default() };
        self.neighbour(WIFI, ip("fe80::1"), icmp6::ALL_NODES, &icmp6::Message::RouterAdvertisement(message))
    }
}

#[test]
fn captive_portal_of_an_advertisement_is_shown_until_the_uplink_is_registered() {
    let mut bench = TestBed::new(config());
    bench.link(WIFI, true);
    let outputs = bench.advertise_portal(PORTAL);
    assert_eq!(bench.hints_of_wifi(), ["the network has a captive portal: https://portal.example/api"]);
    bench.acknowledge(&update(&outputs), Status::ACCEPTED);
    assert!(bench.hints_of_wifi().is_empty(), "it is not in the way");
}

#[test]
fn network_without_a_portal_shows_none() {
    let mut bench = TestBed::new(config());
    bench.link(WIFI, true);
    bench.advertise_portal(b"urn:ietf:params:capport:unrestricted");
    assert!(bench.hints_of_wifi().is_empty());
}

#[test]
fn captive_portal_of_a_dhcpv6_server_is_shown() {
    let mut bench = TestBed::new(config());
    bench.link(WIFI, true);
    let solicit = requests(&bench.receive_managed(true)).remove(0);
    let requested = |option: &DhcpOption| matches!(option, DhcpOption::OptionRequest(kinds) if kinds.contains(&103));
    assert!(solicit.options.iter().any(requested), "RFC 8910 §2.2");
    let dhcp6::Message::Exchange(ClientServerMessage { kind, transaction, mut options }) =
        dhcp6::Message::parse(&reply(&solicit, MessageType::Reply)).unwrap()
    else {
        panic!("no reply");
    };
    options.push(DhcpOption::CaptivePortal(PortalUri::read(PORTAL).unwrap()));
    bench.receive_reply(&dhcp6::Message::Exchange(ClientServerMessage { kind, transaction, options }).emit());
    assert_eq!(bench.hints_of_wifi(), ["the network has a captive portal: https://portal.example/api"]);
}
