//! Care-of addresses that are not formed in an advertised prefix: assigned by DHCPv6, or set by the operator.

use super::*;
use crate::contract::command::MobileRouterCommand;
use crate::contract::view::View;
use roam6_wire::dhcp6::{
    self, CLIENT_PORT, ClientServerMessage, DhcpOption, Duid, IdentityAssociation, MessageType, SERVER_PORT, Timers,
};
use roam6_wire::udp::Udp;

const LEASED: &str = "2001:db8:5::77";
const RESOLVER: &str = "2001:db8:5::53";
const SERVER: &str = "fe80::547";
const OWN: &str = "fe80::ff:fe00:2";

/// An advertisement of a router whose addresses are assigned by DHCPv6, or of one without address configuration.
fn without_prefix(managed: bool) -> icmp6::Message {
    icmp6::Message::RouterAdvertisement(RouterAdvertisement {
        lifetime: 1800,
        managed,
        ..RouterAdvertisement::default()
    })
}

/// The DHCPv6 messages among `outputs`.
pub(super) fn requests(outputs: &[Output]) -> Vec<ClientServerMessage> {
    let datagrams = transmits(outputs).into_iter().map(|transmit| Datagram::parse(&transmit.bytes).unwrap());
    let udp = datagrams
        .filter(|datagram| datagram.protocol == protocol::UDP)
        .map(|datagram| Udp::parse(datagram.payload, datagram.source, datagram.destination).unwrap().payload.to_vec());
    let exchange = |payload: Vec<u8>| match dhcp6::Message::parse(&payload).unwrap() {
        dhcp6::Message::Exchange(exchange) => exchange,
        other => panic!("{other:?}"),
    };
    udp.map(exchange).collect()
}

/// The reply of a server: the address for a hundred seconds.
pub(super) fn reply(to: &ClientServerMessage, kind: MessageType) -> Vec<u8> {
    let mut options: Vec<DhcpOption> =
        to.options.iter().filter(|option| matches!(option, DhcpOption::ClientId(_))).cloned().collect();
    let iaid = to.options.iter().find_map(|option| match option {
        DhcpOption::Addresses(association) => Some(association.id),
        _ => None,
    });
    let lease =
        DhcpOption::Address(dhcp6::Address { address: ip(LEASED), preferred: 60, valid: 100, options: Vec::new() });
    options.push(DhcpOption::ServerId(Duid::from_uuid([7; 16])));
    options.push(DhcpOption::RapidCommit);
    options.push(DhcpOption::DnsServers(vec![ip(RESOLVER)]));
    let association = IdentityAssociation { id: iaid.unwrap(), timers: Timers::default(), options: vec![lease] };
    options.push(DhcpOption::Addresses(association));
    dhcp6::Message::Exchange(ClientServerMessage { kind, transaction: to.transaction, options }).emit()
}

impl TestBed {
    pub(super) fn receive_reply(&mut self, payload: &[u8]) -> Vec<Output> {
        let (server, own) = (ip(SERVER), ip(OWN));
        let udp = Udp { source: SERVER_PORT, destination: CLIENT_PORT, payload };
        let bytes = ip6::emit(&Header::new(server, own), protocol::UDP, &udp.emit(server, own));
        self.feed(Input::Packet(Packet { link: WIFI, sender: Some(ROUTER_MAC), bytes }))
    }

    pub(super) fn receive_managed(&mut self, managed: bool) -> Vec<Output> {
        self.neighbour(WIFI, ip("fe80::1"), icmp6::ALL_NODES, &without_prefix(managed))
    }

    fn state_of_wifi(&self) -> String {
        let mut view = View::default();
        self.router.show(self.now, &mut view);
        view.links.iter().find(|link| link.name == "wifi").unwrap().state.to_string()
    }
}

fn notices(outputs: &[Output]) -> Vec<String> {
    let notices = reports(outputs).into_iter().filter(|report| report.name() == "notice");
    notices.map(ToString::to_string).collect()
}

#[test]
fn m_flag_leads_to_dhcpv6_lease_and_registration() {
    let mut bench = TestBed::new(config());
    bench.link(LAN, true);
    bench.link(WIFI, true);
    let solicits = requests(&bench.receive_managed(true));
    assert_eq!(solicits.iter().map(|one| one.kind).collect::<Vec<_>>(), [MessageType::Solicit]);
    assert!(solicits[0].options.iter().any(|option| matches!(option, DhcpOption::Addresses(_))), "{solicits:?}");
    assert_eq!(bench.state_of_wifi(), "waiting for DHCPv6");
    let outputs = bench.receive_reply(&reply(&solicits[0], MessageType::Reply));
    let update = update(&outputs);
    assert_eq!((update.source, update.care_of()), (ip(LEASED), vec![ip(LEASED)]));
    let address = bench.plan.find(&Key::Address(WIFI, ip(LEASED)));
    assert!(matches!(address, Some(Item::Address(held)) if held.prefix_length == 128), "{address:?}");
    bench.acknowledge(&update, Status::ACCEPTED);
    assert_eq!(bench.paths(), [(ip(LEASED), 1)]);
    assert_eq!(bench.state_of_wifi(), "visited");
    let advertisements = messages(&bench.wait(20_000));
    let resolver = |message: &icmp6::Message| match message {
        icmp6::Message::RouterAdvertisement(message) => message.options.iter().any(
            |option| matches!(option, NeighbourOption::RecursiveDns { servers, .. } if *servers == [ip(RESOLVER)]),
        ),
        _ => false,
    };
    assert!(advertisements.iter().any(resolver), "its resolver is advertised on the ingress link");
}

#[test]
fn dhcpv6_lease_is_renewed_or_given_up() {
    let mut bench = TestBed::new(config());
    bench.link(WIFI, true);
    let solicits = requests(&bench.receive_managed(true));
    bench.receive_reply(&reply(&solicits[0], MessageType::Reply));
    let outputs = bench.wait(31_000);
    let renewal = requests(&outputs);
    assert_eq!(renewal.iter().map(|one| one.kind).collect::<Vec<_>>(), [MessageType::Renew]);
    bench.receive_reply(&reply(&renewal[0], MessageType::Reply));
    bench.wait(110_000);
    assert!(bench.plan.find(&Key::Address(WIFI, ip(LEASED))).is_some());
    let outputs = bench.wait(135_000);
    assert!(bench.plan.find(&Key::Address(WIFI, ip(LEASED))).is_none());
    assert!(requests(&outputs).iter().any(|one| one.kind == MessageType::Solicit), "another one is solicited");
}

#[test]
fn missing_dhcpv6_server_is_reported_and_retried() {
    let mut bench = TestBed::new(config());
    bench.link(WIFI, true);
    bench.receive_managed(true);
    let outputs = bench.wait(30_000);
    assert!(
        notices(&outputs).iter().any(|notice| notice.starts_with("wifi: no DHCPv6 server")),
        "{:?}",
        notices(&outputs)
    );
    assert!(!requests(&bench.wait(80_000)).is_empty());
}

#[test]
fn advertised_prefix_is_preferred_and_lease_is_released() {
    let mut bench = TestBed::new(config());
    bench.link(WIFI, true);
    let solicits = requests(&bench.receive_managed(true));
    bench.receive_reply(&reply(&solicits[0], MessageType::Reply));
    let outputs = bench.advertise(WIFI, "2001:db8:1::/64");
    assert_eq!(update(&outputs).care_of(), [ip("2001:db8:1::ff:fe00:2")]);
    assert_eq!(requests(&outputs).iter().map(|one| one.kind).collect::<Vec<_>>(), [MessageType::Release]);
}

#[test]
fn dhcpv6_address_of_the_mobile_network_is_not_accepted() {
    let mut bench = TestBed::new(MobileRouterConfig { prefixes: vec![net("2001:db8:5::/48")], ..config() });
    bench.link(WIFI, true);
    let solicits = requests(&bench.receive_managed(true));
    let outputs = bench.receive_reply(&reply(&solicits[0], MessageType::Reply));
    assert!(updates(&outputs).is_empty());
    assert!(bench.plan.find(&Key::Address(WIFI, ip(LEASED))).is_none());
}

#[test]
fn ra_without_prefix_and_m_flag_is_reported() {
    let mut bench = TestBed::new(config());
    bench.link(WIFI, true);
    let outputs = bench.receive_managed(false);
    assert_eq!(bench.state_of_wifi(), "router without prefix");
    assert!(
        notices(&outputs).iter().any(|notice| notice.contains("wifi: the router advertises neither")),
        "{outputs:?}"
    );
    assert!(notices(&bench.receive_managed(false)).is_empty(), "once");
}

fn with_static_address() -> MobileRouterConfig {
    let mut config = config();
    let (address, prefix, gateway) = (ip("2001:db8:5::5"), net("2001:db8:5::/64"), ip("fe80::9"));
    config.uplinks[0].address = Some(config::StaticAddress { address, prefix, gateway });
    config
}

#[test]
fn static_address_needs_no_ra() {
    let mut bench = TestBed::new(with_static_address());
    let outputs = bench.link(WIFI, true);
    let update = update(&outputs);
    assert_eq!(update.care_of(), [ip("2001:db8:5::5")]);
    let default = Key::Route(RouteTable(6_275_001), Prefix::ALL, Prefix::ALL, 512);
    let target = NextHop::Gateway { link: WIFI, router: ip("fe80::9") };
    assert!(matches!(bench.plan.find(&default), Some(Item::Route(route)) if route.target == target));
    bench.acknowledge(&update, Status::ACCEPTED);
    let outputs = bench.advertise(WIFI, "2001:db8:1::/64");
    assert!(updates(&outputs).is_empty(), "the static configuration takes precedence");
    assert_eq!(bench.state_of_wifi(), "visited");
    bench.link(WIFI, false);
    assert!(bench.plan.find(&Key::Address(WIFI, ip("2001:db8:5::5"))).is_none());
}

#[test]
fn reload_adds_and_removes_static_address() {
    let mut bench = TestBed::new(config());
    bench.attach(WIFI, "2001:db8:1::/64");
    let outputs =
        bench.feed(Input::Command(Command::MobileRouter(MobileRouterCommand::Reload(Box::new(with_static_address())))));
    let moved = update(&outputs);
    assert_eq!(moved.care_of(), [ip("2001:db8:5::5")]);
    bench.acknowledge(&moved, Status::ACCEPTED);
    let outputs = bench.feed(Input::Command(Command::MobileRouter(MobileRouterCommand::Reload(Box::new(config())))));
    assert_eq!(update(&outputs).care_of(), [ip("2001:db8:1::ff:fe00:2")]);
}

#[test]
fn ipv4_only_uplink_without_home_agents_ipv4_is_reported() {
    let mut bench = TestBed::new(config());
    bench.link(WIFI, true);
    let address = core::net::Ipv4Addr::new(192, 0, 2, 7).to_ipv6_mapped();
    let event = crate::contract::input::AddressEvent { link: WIFI, address, state: AddressState::Preferred };
    bench.feed(Input::Address(event));
    assert_eq!(bench.state_of_wifi(), "IPv4 only, no home_agents_ipv4");
    let outputs = bench.wait(60_000);
    let matching: Vec<_> = notices(&outputs).into_iter().filter(|notice| notice.contains("home_agents_ipv4")).collect();
    assert_eq!(matching, ["wifi: IPv4 only; set home_agents_ipv4 to use it"]);
}

#[test]
fn unanswered_ipv4_updates_are_reported_once() {
    let agents = vec![core::net::Ipv4Addr::new(203, 0, 113, 1)];
    let mut bench = TestBed::new(MobileRouterConfig { home_agents_ipv4: agents, ..config() });
    bench.link(WIFI, true);
    let address = core::net::Ipv4Addr::new(192, 0, 2, 7).to_ipv6_mapped();
    bench.feed(Input::Address(crate::contract::input::AddressEvent {
        link: WIFI,
        address,
        state: AddressState::Preferred,
    }));
    let outputs = bench.wait(60_000);
    let matching: Vec<_> = notices(&outputs).into_iter().filter(|notice| notice.contains("203.0.113.1")).collect();
    assert!(
        matches!(&matching[..], [one] if one.contains("[home_agent.ipv4]") && one.contains("4191")),
        "{matching:?}"
    );
}
