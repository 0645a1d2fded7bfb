//! Updates and acknowledgements in ESP (RFC 3776 §4, RFC 4303).

use super::*;
use crate::contract::command::LifecycleCommand;
use crate::contract::config::nemo::SecurityAssociationPair;
use crate::contract::report::{DropReason, HostReport};
use crate::crypto::esp::{Integrity, SecurityAssociation};

const CARE_OF: &str = "2001:db8:1::ff:fe00:2";

fn pair() -> SecurityAssociationPair {
    let association = |spi: u32, fill: u8| SecurityAssociation {
        spi,
        integrity: Integrity::HmacSha1,
        key: vec![fill; Integrity::HmacSha1.key_length()],
    };
    SecurityAssociationPair { to_home_agent: association(0x1000, 1), to_mobile_router: association(0x1001, 2) }
}

fn protected() -> MobileRouterConfig {
    MobileRouterConfig { authentication: Authentication::Ipsec(Box::new(pair())), ..config() }
}

/// The one update among `outputs`, in ESP, and its ESP sequence number.
fn opened(outputs: &[Output]) -> (Update, u32) {
    let sealed = transmits(outputs).into_iter().filter_map(|transmit| {
        let datagram = Datagram::parse(&transmit.bytes).unwrap();
        assert_ne!(datagram.protocol, protocol::MOBILITY, "in the clear");
        if datagram.protocol != protocol::ESP {
            return None;
        }
        let opened = pair().to_home_agent.open(datagram.payload).map(|one| (one.payload.to_vec(), one.sequence));
        let (payload, number) = opened.unwrap();
        let parsed = mobility::Message::parse(&payload, datagram.real_source(), datagram.destination).unwrap();
        let mobility::Message::BindingUpdate(message) = parsed else { panic!("{parsed:?}") };
        let (source, home_agent) = (datagram.source, datagram.destination);
        Some((Update { via: transmit.via, ends: None, source, home_agent, message }, number))
    });
    let mut sealed: Vec<_> = sealed.collect();
    assert_eq!(sealed.len(), 1, "{outputs:#?}");
    sealed.remove(0)
}

/// The answer to `update`, accepted; not yet in ESP.
fn answer(update: &Update) -> (Header, Vec<u8>) {
    let home = ip("2001:db8::100");
    let header = Header::new(update.home_agent, update.source);
    let header = if update.source == home { header } else { header.with_routing_home(home) };
    let message = mobility::Message::BindingAcknowledgement(BindingAcknowledgement {
        status: Status::ACCEPTED,
        flags: AckFlags::ROUTER,
        sequence: update.message.sequence,
        lifetime_units: update.message.lifetime_units,
        options: Vec::new(),
    });
    (header, message.emit(update.home_agent, home))
}

fn receive(bench: &mut TestBed, header: &Header, protocol: u8, payload: &[u8]) -> Vec<Output> {
    let bytes = ip6::emit(header, protocol, payload);
    bench.feed(Input::Packet(Packet { link: WIFI, sender: Some(ROUTER_MAC), bytes }))
}

fn dropped(outputs: &[Output]) -> Vec<DropReason> {
    let reasons = reports(outputs).into_iter().filter_map(|report| match report {
        Report::Host(HostReport::Dropped { reason, .. }) => Some(*reason),
        _ => None,
    });
    reasons.collect()
}

fn registering() -> (TestBed, Update) {
    let mut bench = TestBed::new(protected());
    bench.link(LAN, true);
    bench.link(WIFI, true);
    let outputs = bench.advertise(WIFI, "2001:db8:1::/64");
    let (update, _) = opened(&outputs);
    (bench, update)
}

#[test]
fn update_in_esp_has_alternate_care_of_address() {
    let (mut bench, first) = registering();
    assert_eq!((first.source, first.care_of()), (ip(CARE_OF), vec![ip(CARE_OF)]));
    let (header, payload) = answer(&first);
    let sealed = pair().to_mobile_router.seal(9, protocol::MOBILITY, &payload);
    receive(&mut bench, &header, protocol::ESP, &sealed);
    assert_eq!(bench.paths(), [(ip(CARE_OF), 1)]);
    let (deregistration, number) = opened(&bench.feed(Input::Command(Command::Lifecycle(LifecycleCommand::Stop))));
    assert_eq!((deregistration.message.lifetime_units, deregistration.care_of()), (0, vec![ip(CARE_OF)]));
    assert!(number > 1);
}

#[test]
fn unprotected_acknowledgements_are_dropped() {
    let (mut bench, first) = registering();
    let (header, payload) = answer(&first);
    let outputs = receive(&mut bench, &header, protocol::MOBILITY, &payload);
    assert_eq!(dropped(&outputs), [DropReason::NotAuthenticated]);
    let back = pair().to_home_agent.seal(1, protocol::MOBILITY, &payload);
    assert_eq!(dropped(&receive(&mut bench, &header, protocol::ESP, &back)), [DropReason::NoAssociation]);
    let mut forged = pair().to_mobile_router.seal(1, protocol::MOBILITY, &payload);
    forged[12] ^= 1;
    assert_eq!(dropped(&receive(&mut bench, &header, protocol::ESP, &forged)), [DropReason::BadAuthenticator]);
    let sealed = pair().to_mobile_router.seal(1, protocol::MOBILITY, &payload);
    let stranger = Header { source: ip("2001:db8::bad"), ..header };
    assert!(receive(&mut bench, &stranger, protocol::ESP, &sealed).is_empty(), "not from a configured home agent");
    let elsewhere = header.with_routing_home(ip("2001:db8::101"));
    assert!(receive(&mut bench, &elsewhere, protocol::ESP, &sealed).is_empty(), "not to the own home address");
    assert!(bench.paths().is_empty());
}

#[test]
fn binding_error_needs_no_esp() {
    let (mut bench, first) = registering();
    let (header, payload) = answer(&first);
    receive(&mut bench, &header, protocol::ESP, &pair().to_mobile_router.seal(1, protocol::MOBILITY, &payload));
    let status = mobility::ErrorStatus::UNKNOWN_BINDING;
    let error = mobility::Message::BindingError { status, home_address: ip("2001:db8::100") };
    let (home_agent, care_of) = (ip("2001:db8::1"), ip(CARE_OF));
    bench.now = at(10_000);
    let payload = error.emit(home_agent, care_of);
    let outputs = receive(&mut bench, &Header::new(home_agent, care_of), protocol::MOBILITY, &payload);
    opened(&outputs);
}

#[test]
fn mobile_prefix_discovery_uses_esp() {
    let (mut bench, first) = registering();
    let (header, payload) = answer(&first);
    let outputs =
        receive(&mut bench, &header, protocol::ESP, &pair().to_mobile_router.seal(1, protocol::MOBILITY, &payload));
    let sealed = transmits(&outputs).into_iter().find_map(|transmit| {
        let datagram = Datagram::parse(&transmit.bytes).unwrap();
        (datagram.protocol == protocol::ESP).then(|| (datagram.header, datagram.payload.to_vec()))
    });
    let (packet, sealed) = sealed.unwrap();
    let opened = pair().to_home_agent.open(&sealed).unwrap();
    assert_eq!((opened.protocol, packet.home_address), (protocol::ICMPV6, Some(ip("2001:db8::100"))));
    let identifier = u16::from_be_bytes([opened.payload[4], opened.payload[5]]);
    let options = vec![information("2001:db8::/64")];
    let advertisement = icmp6::Message::MobilePrefixAdvertisement { identifier, managed: false, other: false, options };
    let advertisement = advertisement.emit(ip("2001:db8::1"), ip("2001:db8::100"));
    assert_eq!(
        dropped(&receive(&mut bench, &header, protocol::ICMPV6, &advertisement)),
        [DropReason::NotAuthenticated]
    );
    let outputs =
        receive(&mut bench, &header, protocol::ESP, &pair().to_mobile_router.seal(2, protocol::ICMPV6, &advertisement));
    assert_eq!(reports(&outputs)[0].name(), "home_prefixes");
}
