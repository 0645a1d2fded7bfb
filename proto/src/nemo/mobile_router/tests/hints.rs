//! What a network has in the way of an uplink: captive portals, by options (RFC 8910) and by what they intercept.

use super::addresses::{reply, requests};
use super::data_plan::names;
use super::*;
use crate::contract::input::Interception;
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

const LOGIN: &str = "http://login.example/?to=a";

fn checked() -> MobileRouterConfig {
    MobileRouterConfig { portal_check: true, probe: Some(config::ProbeConfig::default()), ..config() }
}

fn queries(outputs: &[Output]) -> usize {
    outputs.iter().filter(|output| **output == Output::InterceptionQuery(WIFI)).count()
}

impl TestBed {
    /// The host's answer for an uplink.
    fn intercepted(&mut self, accepted: bool, url: Option<&str>) -> Vec<Output> {
        self.feed(Input::Interception(Interception { link: WIFI, accepted, url: url.map(ToOwned::to_owned) }))
    }

    /// Attached to a network by which no home agent has answered for 5 s.
    fn unanswered() -> (TestBed, Update) {
        let mut bench = TestBed::new(checked());
        bench.link(WIFI, true);
        let first = update(&bench.advertise(WIFI, "2001:db8:1::/64"));
        assert_eq!(queries(&bench.wait(4_900)), 0, "a home agent may answer yet");
        assert_eq!(queries(&bench.wait(5_600)), 1);
        (bench, first)
    }
}

#[test]
fn network_by_which_no_home_agent_answers_is_asked_once_a_minute() {
    let (mut bench, _) = TestBed::unanswered();
    assert_eq!(queries(&bench.wait(60_000)), 0);
    assert_eq!(queries(&bench.wait(66_000)), 1, "without an answer too");
    for round in 1..20 {
        bench.link(WIFI, false);
        bench.link(WIFI, true);
        bench.advertise(WIFI, "2001:db8:1::/64");
        assert_eq!(queries(&bench.wait(66_000 + round * 2_000)), 0, "not more often in a flapping network");
    }
}

#[test]
fn portal_that_redirects_is_shown_until_a_home_agent_answers() {
    let (mut bench, first) = TestBed::unanswered();
    assert!(bench.hints_of_wifi().is_empty());
    let outputs = bench.intercepted(true, Some(LOGIN));
    assert_eq!(names(&outputs), ["captive_portal"]);
    let hint = format!("the network has a captive portal: {LOGIN}");
    assert_eq!(bench.hints_of_wifi(), [hint.as_str()]);
    assert!(names(&bench.intercepted(true, Some(LOGIN))).is_empty(), "it is logged once");
    bench.acknowledge(&first, Status::ACCEPTED);
    assert!(bench.hints_of_wifi().is_empty(), "a home agent has answered");
    assert!(names(&bench.intercepted(true, Some(LOGIN))).is_empty(), "the answer is late");
    assert!(bench.hints_of_wifi().is_empty());
}

#[test]
fn portal_ends_with_its_network_or_by_another_answer() {
    let (mut bench, _) = TestBed::unanswered();
    bench.intercepted(true, None);
    let hint = "the network intercepts connections, as a captive portal does: open any web page by it";
    assert_eq!(bench.hints_of_wifi(), [hint]);
    bench.intercepted(false, None);
    assert!(bench.hints_of_wifi().is_empty(), "nothing is intercepted any more");
    bench.intercepted(true, None);
    bench.link(WIFI, false);
    bench.link(WIFI, true);
    bench.advertise(WIFI, "2001:db8:5::/64");
    assert!(bench.hints_of_wifi().is_empty(), "another network");
}

#[test]
fn hostile_url_is_not_shown() {
    let (mut bench, _) = TestBed::unanswered();
    for url in ["http://a\u{1b}[2J", "http://a\nroam6: all is well", &"x".repeat(100_000), ""] {
        bench.intercepted(false, None);
        bench.intercepted(true, Some(url));
        let hints = bench.hints_of_wifi();
        assert!(hints.len() == 1 && hints[0].starts_with("the network intercepts"), "{hints:?}");
    }
}

#[test]
fn network_is_not_asked_without_the_setting_nor_once_registered() {
    let mut bench = TestBed::new(MobileRouterConfig { portal_check: false, ..checked() });
    bench.link(WIFI, true);
    bench.advertise(WIFI, "2001:db8:1::/64");
    assert_eq!(queries(&bench.wait(30_000)), 0);
    let (mut bench, first) = TestBed::unanswered();
    bench.acknowledge(&first, Status::ACCEPTED);
    bench.router.config.probe = None;
    assert_eq!(queries(&bench.wait(30_000)), 0, "registered");
}

#[test]
fn router_that_offers_itself_inside_is_shown() {
    let mut bench = TestBed::new(config());
    bench.link(LAN, true);
    let hints = |bench: &TestBed| {
        let mut view = View::default();
        bench.router.show(bench.now, &mut view);
        view.links.into_iter().find(|link| link.name == "lan").unwrap().hints
    };
    bench.router_advertisement(LAN, ip("fe80::8"), "fd00::/64", 0);
    assert!(hints(&bench).is_empty(), "it offers a prefix, not itself");
    bench.router_advertisement(LAN, ip("fe80::9"), "fd00::/64", 1800);
    assert_eq!(hints(&bench), ["another router advertises here: fe80::9"]);
    bench.router_advertisement(LAN, ip("fe80::8"), "fd00::/64", 0);
    assert_eq!(hints(&bench).len(), 1, "another one");
    bench.router_advertisement(LAN, ip("fe80::9"), "fd00::/64", 0);
    assert!(hints(&bench).is_empty(), "it withdraws");
    bench.router_advertisement(LAN, ip("fe80::9"), "fd00::/64", 1800);
    bench.wait(1_800_001);
    assert!(hints(&bench).is_empty(), "its lifetime is over");
}
