//! Answers that are errors, and packets that mean no good.

use super::*;
use crate::contract::command::MobileRouterCommand;
use crate::contract::report::{DropReason, HostReport, NemoReport};

const CARE_OF: &str = "2001:db8:1::ff:fe00:2";

fn explicit() -> MobileRouterConfig {
    let home_agents = vec![ip("2001:db8::1"), ip("2001:db8::2")];
    MobileRouterConfig { prefix_mode: PrefixMode::Explicit, home_agents, ..config() }
}

/// Up in a visited network, with the update that waits for an answer.
fn registering(config: MobileRouterConfig) -> (TestBed, Update) {
    let mut bench = TestBed::new(config);
    bench.link(LAN, true);
    bench.link(WIFI, true);
    let outputs = bench.advertise(WIFI, "2001:db8:1::/64");
    let update = update(&outputs);
    (bench, update)
}

fn dropped(outputs: &[Output]) -> Vec<DropReason> {
    reports(outputs)
        .into_iter()
        .filter_map(|report| match report {
            Report::Host(HostReport::Dropped { reason, .. }) => Some(*reason),
            _ => None,
        })
        .collect()
}

#[test]
fn status_135_adopts_sequence_number() {
    let (mut bench, first) = registering(config());
    let status = Status::SEQUENCE_OUT_OF_WINDOW;
    let outputs = bench.acknowledge_with(&first, status, AckFlags::ROUTER, Sequence(20_000), Vec::new());
    let second = update(&outputs);
    assert_eq!(second.message.sequence, Sequence(20_001));
    bench.acknowledge(&second, Status::ACCEPTED);
    assert_eq!(bench.paths(), [(ip(CARE_OF), 1)]);
}

#[test]
fn status_144_adopts_clock() {
    let (mut bench, first) = registering(config());
    let seconds = 2_208_988_800 + 1_800_000_000_u64;
    let sequence = first.message.sequence;
    let options = vec![MobilityOption::ReplayProtection(seconds << 32 | first.timestamp().unwrap() & 0xffff_ffff)];
    let outputs = bench.acknowledge_with(&first, Status::MESSAGE_ID_MISMATCH, AckFlags::ROUTER, sequence, options);
    assert_eq!(update(&outputs).timestamp().map(|stamp| stamp >> 32), Some(seconds));
}

#[test]
fn explicit_mode_lists_prefixes() {
    let (_, update) = registering(explicit());
    assert!(update.message.options.contains(&MobilityOption::MobileNetworkPrefix(net("2001:db8:f00::/56"))));
}

#[test]
fn rejected_prefix_is_withdrawn_and_next_home_agent_is_tried() {
    let (mut bench, first) = registering(explicit());
    let outputs = bench.acknowledge(&first, Status::NOT_AUTHORISED_FOR_PREFIX);
    let deprecated = messages(&outputs).into_iter().find_map(|message| match message {
        icmp6::Message::RouterAdvertisement(message) => Some(message.options),
        _ => None,
    });
    let preferred = deprecated.unwrap().into_iter().find_map(|option| match option {
        NeighbourOption::PrefixInformation { preferred, .. } => Some(preferred),
        _ => None,
    });
    assert_eq!(preferred, Some(0));
    assert!(reports(&outputs).iter().any(|report| report.name() == "unbound"));
    let second = update(&bench.wait(1500));
    assert_eq!(second.home_agent, ip("2001:db8::2"));
    let outputs = bench.acknowledge(&second, Status::MOBILE_ROUTER_NOT_PERMITTED);
    assert!(updates(&outputs).is_empty());
    let third = update(&bench.wait(3000));
    assert_eq!(
        (third.home_agent, prefixes(&third)),
        (ip("2001:db8::1"), 0),
        "implicit mode leaves the prefixes to the prefix table"
    );
    bench.acknowledge(&third, Status::FORWARDING_SETUP_FAILED);
    let fourth = update(&bench.wait(4500));
    let outputs = bench.acknowledge(&fourth, Status::FORWARDING_SETUP_FAILED);
    assert!(reports(&outputs).iter().any(|report| report.name() == "notice"), "every mode was tried");
    assert!(updates(&bench.wait(600_000)).is_empty());
    let again = update(&bench.wait(605_000));
    assert_eq!((again.home_agent, prefixes(&again)), (ip("2001:db8::1"), 1));
}

fn prefixes(update: &Update) -> usize {
    let is_prefix = |option: &&MobilityOption| matches!(option, MobilityOption::MobileNetworkPrefix(_));
    update.message.options.iter().filter(is_prefix).count()
}

#[test]
fn implicit_mode_falls_back_to_explicit() {
    let (mut bench, first) = registering(config());
    assert_eq!(prefixes(&first), 0);
    bench.acknowledge(&first, Status::FORWARDING_SETUP_FAILED);
    let second = update(&bench.wait(1500));
    assert_eq!(prefixes(&second), 1);
    bench.acknowledge(&second, Status::ACCEPTED);
    assert_eq!(bench.paths(), [(ip(CARE_OF), 1)]);
}

#[test]
fn unexpected_status_keeps_mode_and_ra() {
    let (mut bench, first) = registering(config());
    let outputs = bench.acknowledge(&first, Status::INVALID_PREFIX);
    assert!(messages(&outputs).is_empty(), "no prefix is deprecated on ingress interfaces");
    assert!(reports(&outputs).iter().any(|report| report.name() == "notice"));
    assert!(updates(&bench.wait(599_000)).is_empty());
    let mut reloaded = bench.clone();
    let outputs = reloaded.feed(Input::Command(Command::MobileRouter(MobileRouterCommand::Reload(Box::new(config())))));
    assert_eq!(updates(&outputs).len(), 1, "a reload may have removed the cause");
    assert_eq!(prefixes(&update(&bench.wait(601_000))), 0);
}

#[test]
fn acknowledgement_without_r_flag_is_deregistered() {
    let (mut bench, first) = registering(explicit());
    let sequence = first.message.sequence;
    let outputs = bench.acknowledge_with(&first, Status::ACCEPTED, AckFlags::NONE, sequence, Vec::new());
    assert_eq!(update(&outputs).message.lifetime_units, 0);
    assert!(bench.paths().is_empty());
    assert_eq!(update(&bench.wait(1500)).home_agent, ip("2001:db8::2"));
}

#[test]
fn forged_and_stale_acknowledgements_are_dropped() {
    let (mut bench, first) = registering(config());
    let mut forged = first.clone();
    forged.source = ip("2001:db8:1::bad");
    let outputs = bench.acknowledge(&forged, Status::ACCEPTED);
    assert_eq!(dropped(&outputs), [DropReason::BadAuthenticator]);
    let sequence = Sequence(first.message.sequence.0.wrapping_sub(1));
    let outputs = bench.acknowledge_with(&first, Status::ACCEPTED, AckFlags::ROUTER, sequence, Vec::new());
    assert_eq!(dropped(&outputs), [DropReason::Unsolicited]);
    forged = first.clone();
    forged.home_agent = ip("2001:db8::bad");
    let outputs = bench.acknowledge(&forged, Status::ACCEPTED);
    assert_eq!(dropped(&outputs), [DropReason::NoAssociation]);
    assert!(bench.paths().is_empty());
    bench.acknowledge(&first, Status::ACCEPTED);
    let outputs = bench.acknowledge(&first, Status::ACCEPTED);
    assert_eq!(dropped(&outputs), [DropReason::Unsolicited], "once is enough");
}

#[test]
fn refresh_requests_are_rate_limited() {
    let (mut bench, first) = registering(config());
    bench.acknowledge(&first, Status::ACCEPTED);
    let error = mobility::Message::BindingError {
        status: mobility::ErrorStatus::UNKNOWN_BINDING,
        home_address: ip("2001:db8::100"),
    };
    let (home_agent, care_of) = (ip("2001:db8::1"), ip(CARE_OF));
    let payload = error.emit(home_agent, care_of);
    let bytes = ip6::emit(&Header::new(home_agent, care_of), protocol::MOBILITY, &payload);
    let mut sent = 0;
    for millis in 10_000..12_000 {
        bench.now = at(millis);
        let packet = Packet { link: WIFI, sender: None, bytes: bytes.clone() };
        sent += updates(&bench.feed(Input::Packet(packet))).len();
    }
    assert!(sent <= 2, "{sent}");
}

#[test]
fn binding_errors_of_another_status_use_up_no_hint() {
    let (mut bench, first) = registering(config());
    bench.acknowledge(&first, Status::ACCEPTED);
    let (home_agent, care_of) = (ip("2001:db8::1"), ip(CARE_OF));
    let mut receive = |millis: u64, status: u8| {
        let status = mobility::ErrorStatus(status);
        let error = mobility::Message::BindingError { status, home_address: ip("2001:db8::100") };
        let payload = error.emit(home_agent, care_of);
        let bytes = ip6::emit(&Header::new(home_agent, care_of), protocol::MOBILITY, &payload);
        bench.now = at(millis);
        bench.feed(Input::Packet(Packet { link: WIFI, sender: None, bytes }))
    };
    let mut reported = 0;
    for millis in 10_000..13_000 {
        let outputs = receive(millis, 2);
        assert!(updates(&outputs).is_empty());
        reported += reports(&outputs).iter().filter(|report| report.name() == "binding_error").count();
    }
    assert_eq!(reported, 1, "a flood does not fill the log");
    assert_eq!(updates(&receive(13_000, 1)).len(), 1, "the home agent's own hint counts");
}

#[test]
fn ra_off_link_or_with_own_prefix_is_dropped() {
    let mut bench = TestBed::new(config());
    bench.link(WIFI, true);
    let outputs = bench.router_advertisement(WIFI, ip("2001:db8:1::1"), "2001:db8:1::/64", 1800);
    assert_eq!(dropped(&outputs), [DropReason::NotOnLink]);
    let outputs = bench.advertise(WIFI, "2001:db8:f00::/64");
    assert_eq!(dropped(&outputs), [DropReason::NotForUs]);
    assert!(bench.advertise(LAN, "2001:db8:1::/64").is_empty());
    assert!(bench.router.uplinks[0].care_of_address.is_none());
}

#[test]
fn forged_ra_flood_does_not_change_router() {
    let (mut bench, first) = registering(config());
    bench.acknowledge(&first, Status::ACCEPTED);
    bench.now = at(5000);
    let mut sent = 0;
    for number in 0..500 {
        bench.now = bench.now + Duration::from_millis(1);
        let router = ip(&format!("fe80::bad:{number:x}"));
        let outputs = bench.router_advertisement(WIFI, router, &format!("2001:db8:bad:{number:x}::/64"), 1800);
        let solicits =
            messages(&outputs).iter().any(|message| matches!(message, icmp6::Message::NeighbourSolicitation(_)));
        let answers = if solicits { bench.confirm_router(WIFI, ip("fe80::1")) } else { Vec::new() };
        sent += updates(&outputs).len() + updates(&answers).len();
    }
    assert_eq!(sent, 0);
    assert_eq!(bench.paths(), [(ip(CARE_OF), 1)]);
    assert!(bench.plan.len() < 60, "{}", bench.plan.len());
}

#[test]
fn path_mtu_is_advertised_in_ra() {
    let (mut bench, first) = registering(config());
    bench.acknowledge(&first, Status::ACCEPTED);
    bench.wait(9000);
    let home_agent = ip("2001:db8::1");
    let outputs = too_big(&mut bench, 1400, &tunnelled(INSIDE, OUTSIDE));
    assert!(reports(&outputs).contains(&&Report::Nemo(NemoReport::PathMtu { remote: home_agent, mtu: 1400 })));
    assert_eq!(bench.tunnel().unwrap().paths[0].mtu, 1360);
    let has_mtu_option = messages(&outputs).into_iter().find_map(|message| match message {
        icmp6::Message::RouterAdvertisement(message) => Some(message.options.contains(&NeighbourOption::Mtu(1360))),
        _ => None,
    });
    assert_eq!(has_mtu_option, Some(true));
}

const INSIDE: &str = "2001:db8:f00::9";
const OUTSIDE: &str = "2001:db8:c::2";

/// A packet of 1500 octets from a node of the mobile network, as it leaves by the tunnel.
fn tunnelled(source: &str, destination: &str) -> Vec<u8> {
    let inner = ip6::emit(&Header::new(ip(source), ip(destination)), protocol::UDP, &[0; 1420]);
    ip6::emit(&Header::new(ip(CARE_OF), ip("2001:db8::1")), protocol::IPV6, &inner)
}

fn too_big(bench: &mut TestBed, mtu: u32, packet: &[u8]) -> Vec<Output> {
    let (router, care_of) = (ip("2001:db8:1::1"), ip(CARE_OF));
    let invoking = packet.iter().copied().take(1200).collect();
    let message = icmp6::Message::PacketTooBig { mtu, invoking };
    let bytes = ip6::emit(&Header::new(router, care_of), protocol::ICMPV6, &message.emit(router, care_of));
    bench.feed(Input::Packet(Packet { link: WIFI, sender: None, bytes }))
}

/// RFC 8201 §4: an MTU below 1280 is ignored; and an off-path attacker cannot quote a packet of the tunnel.
#[test]
fn packet_too_big_must_quote_own_tunnel_packet() {
    let (mut bench, first) = registering(config());
    bench.acknowledge(&first, Status::ACCEPTED);
    let mut no_inner = tunnelled(INSIDE, OUTSIDE);
    no_inner.truncate(40);
    no_inner.extend([0; 60]);
    let elsewhere = ip6::emit(&Header::new(ip("2001:db8:1::9"), ip("2001:db8::1")), protocol::IPV6, &[0x60; 1400]);
    let short = ip6::encapsulate(
        &Header::new(ip(CARE_OF), ip("2001:db8::1")),
        &ip6::emit(&Header::new(ip(INSIDE), ip(OUTSIDE)), protocol::UDP, &[0; 100]),
    );
    let forged = [
        (68, tunnelled(INSIDE, OUTSIDE)),
        (1279, tunnelled(INSIDE, OUTSIDE)),
        (1500, tunnelled(INSIDE, OUTSIDE)),
        (1300, no_inner),
        (1300, tunnelled(OUTSIDE, INSIDE)),
        (1300, tunnelled("2001:db8:bad::1", OUTSIDE)),
        (1300, tunnelled(INSIDE, "2001:db8:f00::1")),
        (1300, elsewhere),
        (1300, short),
    ];
    for (index, (mtu, packet)) in forged.iter().enumerate() {
        let outputs = too_big(&mut bench, *mtu, packet);
        assert!(!reports(&outputs).iter().any(|report| report.name() == "path_mtu"), "number {index}");
        assert_eq!(bench.tunnel().unwrap().paths[0].mtu, 1460, "number {index}");
    }
    let mut limited = tunnelled(INSIDE, OUTSIDE);
    limited.splice(40..40, [protocol::IPV6, 0, 4, 1, 4, 1, 1, 0]);
    limited[6] = 60;
    let outputs = too_big(&mut bench, 1300, &limited);
    assert!(reports(&outputs).iter().any(|report| report.name() == "path_mtu"), "with an encapsulation limit");
    assert_eq!(bench.tunnel().unwrap().paths[0].mtu, 1260);
}

#[test]
fn rs_on_ingress_is_answered_with_ra_at_once() {
    let mut bench = TestBed::new(config());
    bench.link(LAN, true);
    bench.wait(40_000);
    let node = ip("fe80::55");
    let options = vec![NeighbourOption::SourceLinkAddress(ROUTER_MAC)];
    let message = icmp6::Message::RouterSolicitation(RouterSolicitation { options });
    let outputs = bench.neighbour(LAN, node, icmp6::ALL_ROUTERS, &message);
    let sent = transmits(&outputs);
    assert_eq!(sent[0].via, Via::Neighbour { link: LAN, address: ROUTER_MAC });
    let icmp6::Message::RouterAdvertisement(advertisement) = &messages(&outputs)[0] else {
        panic!("{outputs:?}");
    };
    assert_eq!(advertisement.lifetime, 30);
    assert!(bench.plan.find(&Key::Address(LAN, ip("2001:db8:f00::1"))).is_some());
    let outputs = bench.neighbour(WIFI, node, icmp6::ALL_ROUTERS, &message);
    assert!(messages(&outputs).is_empty(), "never on a visited link");
}

#[test]
fn home_agents_are_discovered_by_dhaad() {
    let mut bench = TestBed::new(MobileRouterConfig { home_agents: Vec::new(), ..config() });
    bench.link(WIFI, true);
    let outputs = bench.advertise(WIFI, "2001:db8:1::/64");
    let sent = transmits(&outputs);
    let request = Datagram::parse(&sent.last().unwrap().bytes).unwrap();
    assert_eq!(request.destination, ip("2001:db8::fdff:ffff:ffff:fffe"));
    let Ok(icmp6::Message::HomeAgentRequest { identifier, router: true }) = icmp6::Message::parse(&request) else {
        panic!("{request:?}");
    };
    let addresses = vec![ip("2001:db8::9"), ip("2001:db8::1")];
    let reply = icmp6::Message::HomeAgentReply { identifier, router: true, addresses };
    let (home_agent, care_of) = (ip("2001:db8::9"), ip(CARE_OF));
    let bytes = ip6::emit(&Header::new(home_agent, care_of), protocol::ICMPV6, &reply.emit(home_agent, care_of));
    let outputs = bench.feed(Input::Packet(Packet { link: WIFI, sender: None, bytes }));
    assert_eq!(update(&outputs).home_agent, home_agent);
}

#[test]
fn reload_keeps_unchanged_state() {
    let (mut bench, first) = registering(config());
    bench.acknowledge(&first, Status::ACCEPTED);
    let mut config = config();
    config.uplinks.swap(0, 1);
    let outputs =
        bench.feed(Input::Command(Command::MobileRouter(MobileRouterCommand::Reload(Box::new(config.clone())))));
    assert!(outputs.is_empty(), "{outputs:?}");
    config.lifetime = Duration::from_secs(120);
    config.ingress.push(IngressConfig {
        interface: "cell".to_owned(),
        prefix: net("2001:db8:f00:1::/64"),
        advertisement_interval: Duration::from_secs(10),
        ..Default::default()
    });
    config.uplinks.remove(0);
    bench.now = at(3000);
    let outputs = bench.feed(Input::Command(Command::MobileRouter(MobileRouterCommand::Reload(Box::new(config)))));
    assert_eq!(update(&outputs).message.lifetime_units, 30);
    assert_eq!(bench.paths(), [(ip(CARE_OF), 1)]);
    bench.link(CELL, true);
    assert!(bench.plan.find(&Key::Address(CELL, ip("2001:db8:f00:1::1"))).is_some());
}

#[test]
fn rejected_item_is_retried() {
    let (mut bench, _) = registering(config());
    let key = Key::Address(WIFI, ip(CARE_OF));
    let refused = Some("File exists".to_owned());
    let outcome = bench.puts[&key].outcome(refused);
    let outputs = bench.feed(Input::Outcome(outcome));
    assert!(reports(&outputs).iter().any(|report| report.name() == "failed"));
    assert!(position(&bench.wait(1000), "put Address") < usize::MAX);
}
