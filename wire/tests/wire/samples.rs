//! Addresses and messages of every type, shared by several tests.

use roam6_wire::dhcp6::{self, DhcpOption};
use roam6_wire::icmp6::{
    self, Echo, NeighbourAdvertisement, NeighbourOption, NeighbourSolicitation, RouterAdvertisement, RouterPreference,
    RouterSolicitation,
};
use roam6_wire::ip6::{self, Header, protocol};
use roam6_wire::mobility::{
    self, AckFlags, BindingAcknowledgement, BindingIdentifier, BindingUpdate, Capabilities, CareOfField, ErrorStatus,
    FieldRange, FlowIdentification, Ipv4Status, MobilityOption, PathEncapsulation, Selector, Status, TrafficSelector,
    UpdateFlags,
};
use roam6_wire::udp::Udp;
use roam6_wire::{Bid, Fid, LinkAddress, PortalUri, Sequence};
use std::net::{Ipv4Addr, Ipv6Addr};

pub(crate) const HOME: &str = "2001:db8::100";
pub(crate) const HOME_AGENT: &str = "2001:db8::1";
pub(crate) const CARE_OF: &str = "2001:db8:1::100";
pub(crate) const ROUTER: &str = "fe80::ff:fe00:1";

pub(crate) fn address(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

pub(crate) fn octets(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

/// Pseudo-random octets, the same for the same seed (xorshift64*).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % limit.max(1)
    }

    pub(crate) fn octets(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.below(256) as u8).collect()
    }
}

/// Every mobility message, and every option at least once.
pub(crate) fn mobility_messages() -> Vec<mobility::Message> {
    use mobility::Message;
    vec![
        Message::BindingRefreshRequest { options: vec![] },
        Message::BindingUpdate(update(vec![])),
        Message::BindingUpdate(update(vec![
            MobilityOption::AlternateCareOf(address(CARE_OF)),
            MobilityOption::MobileNetworkPrefix("2001:db8:f00::/56".parse().unwrap()),
            MobilityOption::MobileNetworkPrefix("2001:db8:e00::/64".parse().unwrap()),
            MobilityOption::MobileNodeIdentifier { subtype: 1, identifier: b"mr@example.org".to_vec() },
            MobilityOption::Capabilities(Capabilities {
                flags: 0x83,
                encapsulations: vec![(Bid(1), PathEncapsulation::UDP), (Bid(7), PathEncapsulation(9))],
            }),
            MobilityOption::KeyExchange(mobility::KeyExchange::Answer { spi: 256, point: [3; 33] }),
            MobilityOption::WireguardKey(mobility::WireguardKey { bid: Bid(1), port: 4193, public_key: [9; 32] }),
            MobilityOption::EspKey(mobility::EspKey { bid: Bid(1), spi: 0x1234_5678, answers: 256, point: [3; 33] }),
            MobilityOption::ReplayProtection(0xe5f1_2345_8000_0000),
            MobilityOption::Authentication { subtype: 1, spi: 256, data: vec![7; 12] },
        ])),
        Message::BindingUpdate(update(vec![
            binding(1, CareOfField::V6(address(CARE_OF))),
            binding(2, CareOfField::V4(Ipv4Addr::new(192, 0, 2, 7))),
            binding(3, CareOfField::None),
            MobilityOption::FlowSummary(vec![Fid(1), Fid(2), Fid(3)]),
        ])),
        Message::BindingUpdate(update(flows())),
        Message::BindingUpdate(update(vec![
            MobilityOption::Ipv4HomeAddress {
                prefix_length: 24,
                prefix_wanted: true,
                address: Ipv4Addr::new(192, 0, 2, 1),
            },
            MobilityOption::Ipv4CareOf(Ipv4Addr::new(198, 51, 100, 1)),
            MobilityOption::LinkLayerAddress { code: 2, address: vec![2, 0, 0, 0, 0, 1] },
            MobilityOption::NonceIndices { home: 1, care_of: 2 },
            MobilityOption::BindingAuthorisation(vec![9; 12]),
        ])),
        Message::BindingAcknowledgement(acknowledgement(Status::ACCEPTED, vec![])),
        Message::BindingAcknowledgement(acknowledgement(
            Status::MCOA_NOT_COMPLETE,
            vec![
                MobilityOption::BindingRefreshAdvice(7),
                binding(1, CareOfField::None),
                MobilityOption::NatDetection { force_udp: true, refresh_seconds: 110 },
                MobilityOption::Ipv4AddressAcknowledgement {
                    status: Ipv4Status::ACCEPTED,
                    prefix_length: 24,
                    address: Ipv4Addr::new(192, 0, 2, 1),
                },
                MobilityOption::Unknown { kind: 200, body: vec![1, 2, 3] },
            ],
        )),
        Message::BindingError { status: ErrorStatus::UNKNOWN_BINDING, home_address: address(HOME) },
        Message::Unknown { kind: 13, body: vec![0, 0, 0, 0, 0, 1, 1, 0, 0, 0] },
    ]
}

/// Every ICMPv6 message, every option at least once, with valid addresses.
pub(crate) fn icmp6_messages() -> Vec<(Header, icmp6::Message)> {
    use icmp6::Message;
    let global = Header::new(address(HOME), address(HOME_AGENT));
    let link = Header::new(address(ROUTER), icmp6::ALL_NODES).with_hop_limit(icmp6::ON_LINK_HOP_LIMIT);
    let dad = Header::new(Ipv6Addr::UNSPECIFIED, icmp6::solicited_node(address(HOME))).with_hop_limit(255);
    let invoking = ip6::emit(&global, protocol::NONE, &[]);
    let router = LinkAddress([2, 0, 0, 0, 0, 1]);
    vec![
        (global, Message::DestinationUnreachable { code: 1, invoking: invoking.clone() }),
        (global, Message::PacketTooBig { mtu: 1460, invoking: invoking.clone() }),
        (global, Message::TimeExceeded { code: 0, invoking: invoking.clone() }),
        (global, Message::ParameterProblem { code: 0, pointer: 40, invoking }),
        (global, Message::EchoRequest(Echo { identifier: 7, sequence: 1, data: b"roam6".to_vec() })),
        (global, Message::EchoReply(Echo { identifier: 7, sequence: 1, data: vec![] })),
        (
            Header { destination: icmp6::ALL_ROUTERS, ..link },
            Message::RouterSolicitation(RouterSolicitation {
                options: vec![NeighbourOption::SourceLinkAddress(router)],
            }),
        ),
        (link, Message::RouterAdvertisement(advertisement(router))),
        (
            dad,
            Message::NeighbourSolicitation(NeighbourSolicitation {
                target: address(HOME),
                options: vec![NeighbourOption::Nonce(vec![1, 2, 3, 4, 5, 6])],
            }),
        ),
        (
            link,
            Message::NeighbourAdvertisement(NeighbourAdvertisement {
                router: true,
                solicited: false,
                overrides: true,
                target: address(HOME),
                options: vec![NeighbourOption::TargetLinkAddress(router)],
            }),
        ),
        (global, Message::HomeAgentRequest { identifier: 0x1234, router: true }),
        (
            global,
            Message::HomeAgentReply {
                identifier: 0x1234,
                router: true,
                addresses: vec![address(HOME_AGENT), address("2001:db8::2")],
            },
        ),
        (
            Header::new(address(CARE_OF), address(HOME_AGENT)).with_home_address(address(HOME)),
            Message::MobilePrefixSolicitation { identifier: 0x4321 },
        ),
        (
            Header::new(address(HOME_AGENT), address(CARE_OF)).with_routing_home(address(HOME)),
            Message::MobilePrefixAdvertisement {
                identifier: 0x4321,
                managed: false,
                other: true,
                options: vec![prefix_information()],
            },
        ),
        (global, Message::Unknown { kind: 200, code: 3, body: vec![1, 2, 3, 4] }),
    ]
}

/// Whole packets: every message above with its headers, and a tunnel packet.
pub(crate) fn packets() -> Vec<Vec<u8>> {
    let up = Header::new(address(CARE_OF), address(HOME_AGENT)).with_home_address(address(HOME));
    let down = Header::new(address(HOME_AGENT), address(CARE_OF)).with_routing_home(address(HOME));
    let mut packets = Vec::new();
    for message in mobility_messages() {
        let header = if message.kind() == mobility::kind::BINDING_UPDATE { up } else { down };
        let bytes = message.emit(header.real_source(), header.real_destination());
        packets.push(ip6::emit(&header, protocol::MOBILITY, &bytes));
    }
    for (header, message) in icmp6_messages() {
        let bytes = message.emit(header.real_source(), header.real_destination());
        packets.push(ip6::emit(&header, protocol::ICMPV6, &bytes));
    }
    for message in dhcp6_messages() {
        packets.push(dhcp6_packet(&message));
    }
    let outer = Header::new(address(CARE_OF), address(HOME_AGENT));
    let inner = packets.last().cloned().unwrap();
    packets.push(ip6::encapsulate(&outer, &inner));
    packets.push(ip6::encapsulate(&outer.with_encapsulation_limit(4), &inner));
    packets
}

/// DHCPv6 messages of clients, servers and relays, and every option at least once.
pub(crate) fn dhcp6_messages() -> Vec<dhcp6::Message> {
    use dhcp6::{Duid, Iaid, MessageType, StatusCode, Timers};
    let mac = LinkAddress([2, 0, 0, 0, 0, 1]);
    let client = DhcpOption::ClientId(Duid::from_link_address(mac));
    let server = DhcpOption::ServerId(Duid::from_link_address_and_time(mac, 800_000_000));
    let status = |code, words: &[u8]| DhcpOption::Status(dhcp6::Status { code, message: words.to_vec() });
    let prefix = |prefix: &str, options| {
        let prefix = prefix.parse().unwrap();
        DhcpOption::Prefix(dhcp6::Prefix { prefix, preferred: 1800, valid: 3600, options })
    };
    let prefixes = |options| {
        let timers = Timers { renew: 900, rebind: 1440 };
        DhcpOption::Prefixes(dhcp6::IdentityAssociation { id: Iaid(7), timers, options })
    };
    let lease = dhcp6::Address {
        address: address(CARE_OF),
        preferred: 1800,
        valid: dhcp6::INFINITY,
        options: vec![status(StatusCode::SUCCESS, b"")],
    };
    let addresses = DhcpOption::Addresses(dhcp6::IdentityAssociation {
        id: Iaid(8),
        timers: Timers::default(),
        options: vec![DhcpOption::Address(lease)],
    });
    let exchange = |kind, options| {
        dhcp6::Message::Exchange(dhcp6::ClientServerMessage {
            kind,
            transaction: dhcp6::TransactionId([1, 2, 3]),
            options,
        })
    };
    let wishes = DhcpOption::OptionRequest(vec![dhcp6::option::kind::SOLICIT_MAX_RT]);
    let elapsed = DhcpOption::ElapsedTime(150);
    let solicit = exchange(
        MessageType::Solicit,
        vec![
            client.clone(),
            wishes.clone(),
            elapsed.clone(),
            DhcpOption::RapidCommit,
            prefixes(vec![prefix("::/56", vec![])]),
        ],
    );
    let granted = prefixes(vec![prefix("2001:db8:f00::/56", vec![status(StatusCode::SUCCESS, b"")])]);
    let reply = exchange(
        MessageType::Reply,
        vec![client.clone(), server.clone(), DhcpOption::RapidCommit, granted.clone(), addresses.clone()],
    );
    let relay = |direction, message: &dhcp6::Message| {
        let options = vec![DhcpOption::InterfaceId(b"eth1".to_vec()), DhcpOption::RelayMessage(message.emit())];
        let (link, peer) = (address(HOME), address(ROUTER));
        dhcp6::Message::Relay(dhcp6::Relay { direction, hop_count: 0, link, peer, options })
    };
    vec![
        exchange(
            MessageType::Advertise,
            vec![
                client.clone(),
                DhcpOption::ServerId(Duid::from_uuid([9; 16])),
                DhcpOption::Preference(255),
                prefixes(vec![status(StatusCode::NO_PREFIXES, b"none left")]),
                DhcpOption::SolicitMaxRt(7200),
                DhcpOption::CaptivePortal(PortalUri::read(b"https://portal.example/api").unwrap()),
                DhcpOption::ReconfigureAccept,
            ],
        ),
        exchange(MessageType::Request, vec![client.clone(), server.clone(), wishes, elapsed.clone(), granted.clone()]),
        exchange(MessageType::Renew, vec![client.clone(), server.clone(), elapsed.clone(), granted.clone()]),
        exchange(MessageType::Rebind, vec![client.clone(), elapsed.clone(), granted.clone()]),
        exchange(MessageType::Release, vec![client.clone(), server.clone(), elapsed.clone(), granted]),
        exchange(MessageType::Decline, vec![client.clone(), server, elapsed.clone(), addresses.clone()]),
        exchange(MessageType::Confirm, vec![client.clone(), elapsed, addresses]),
        exchange(
            MessageType::InformationRequest,
            vec![client, DhcpOption::Unknown { kind: 60_000, body: vec![1, 2, 3] }],
        ),
        relay(dhcp6::Direction::Forward, &solicit),
        relay(dhcp6::Direction::Reply, &reply),
        solicit,
        reply,
    ]
}

/// A DHCPv6 message with its UDP and IPv6 headers.
fn dhcp6_packet(message: &dhcp6::Message) -> Vec<u8> {
    use dhcp6::{CLIENT_PORT, MessageType, SERVER_PORT};
    let (global, near) = (Header::new(address(HOME), address(HOME_AGENT)), address(ROUTER));
    let (header, source, destination) = match message {
        dhcp6::Message::Exchange(dhcp6::ClientServerMessage {
            kind: MessageType::Advertise | MessageType::Reply,
            ..
        }) => (Header::new(near, address("fe80::2")), SERVER_PORT, CLIENT_PORT),
        dhcp6::Message::Exchange(_) => (Header::new(near, dhcp6::ALL_RELAYS_AND_SERVERS), CLIENT_PORT, SERVER_PORT),
        _ => (global, SERVER_PORT, SERVER_PORT),
    };
    let udp = Udp { source, destination, payload: &message.emit() };
    ip6::emit(&header, protocol::UDP, &udp.emit(header.source, header.destination))
}

fn update(options: Vec<MobilityOption>) -> BindingUpdate {
    let flags = UpdateFlags::ACKNOWLEDGE | UpdateFlags::HOME_REGISTRATION | UpdateFlags::ROUTER;
    BindingUpdate { sequence: Sequence(77), flags, lifetime_units: 15, options }
}

fn acknowledgement(status: Status, options: Vec<MobilityOption>) -> BindingAcknowledgement {
    BindingAcknowledgement { status, flags: AckFlags::ROUTER, sequence: Sequence(77), lifetime_units: 15, options }
}

fn binding(bid: u16, care_of: CareOfField) -> MobilityOption {
    MobilityOption::BindingIdentifier(BindingIdentifier {
        bid: Bid(bid),
        status: Status::ACCEPTED,
        simultaneous_home: false,
        priority: 5,
        care_of,
    })
}

fn flows() -> Vec<MobilityOption> {
    let over_6 = Selector {
        source: Some(FieldRange::single(address(HOME_AGENT))),
        destination: Some(FieldRange { first: address("2001:db8:f00::"), last: address("2001:db8:f00:ff::") }),
        flow_label: Some(FieldRange { first: 1, last: 9 }),
        source_port: Some(FieldRange::single(443)),
        protocol: Some(FieldRange::single(protocol::TCP)),
        ..Selector::default()
    };
    let over_4 = Selector {
        source: Some(FieldRange::single(Ipv4Addr::new(192, 0, 2, 1))),
        spi: Some(FieldRange { first: 256, last: 300 }),
        destination_port: Some(FieldRange { first: 5000, last: 5010 }),
        traffic_class: Some(FieldRange::single(0xb8)),
        ..Selector::default()
    };
    let selectors = [
        Some(TrafficSelector::V6(over_6)),
        Some(TrafficSelector::V4(over_4)),
        Some(TrafficSelector::Unknown { format: 77, body: vec![1, 2, 3] }),
        None,
    ];
    let flow = |(number, selector)| {
        MobilityOption::FlowIdentification(FlowIdentification {
            fid: Fid(number),
            priority: number * 10,
            status: 0,
            bids: vec![Bid(1), Bid(2)],
            selector,
        })
    };
    (1..).zip(selectors).map(flow).collect()
}

fn prefix_information() -> NeighbourOption {
    NeighbourOption::PrefixInformation {
        prefix: "2001:db8::/64".parse().unwrap(),
        address: address(HOME_AGENT),
        on_link: true,
        autonomous: true,
        router_address: true,
        valid: 86400,
        preferred: u32::MAX,
    }
}

fn advertisement(router: LinkAddress) -> RouterAdvertisement {
    let route = |prefix: &str, preference| NeighbourOption::RouteInformation {
        prefix: prefix.parse().unwrap(),
        preference,
        lifetime: 600,
    };
    RouterAdvertisement {
        hop_limit: 64,
        managed: true,
        other: true,
        home_agent: true,
        preference: RouterPreference::High,
        proxy: true,
        lifetime: 1800,
        reachable_ms: 30_000,
        retransmit_ms: 1000,
        options: vec![
            NeighbourOption::SourceLinkAddress(router),
            NeighbourOption::Mtu(1500),
            prefix_information(),
            NeighbourOption::AdvertisementInterval { milliseconds: 70 },
            NeighbourOption::HomeAgentInformation { router: true, preference: 9, lifetime: 1800 },
            route("::/0", RouterPreference::Low),
            route("2001:db8:f00::/56", RouterPreference::Medium),
            route("2001:db8:f00::1/128", RouterPreference::High),
            NeighbourOption::RecursiveDns { lifetime: 600, servers: vec![address(HOME_AGENT)] },
            NeighbourOption::DnsSearchList {
                lifetime: 600,
                domains: vec!["example.org".parse().unwrap(), "fleet.example".parse().unwrap()],
            },
            NeighbourOption::CaptivePortal(PortalUri::read(b"https://portal.example/api").unwrap()),
            NeighbourOption::Unknown { kind: 200, body: vec![0; 14] },
        ],
    }
}
