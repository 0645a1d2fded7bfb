//! Updates and acknowledgements in ESP (RFC 3776 §4, RFC 4303).

use super::bench::*;
use crate::contract::command::{HomeAgentCommand, LifecycleCommand};
use crate::contract::config::nemo::{Authentication, HomeAgentConfig, PrefixTable, SecurityAssociationPair};
use crate::contract::item::JournalKey;
use crate::contract::report::HostReport;
use crate::crypto::esp::{Integrity, SecurityAssociation};
use crate::{Command, DropReason, Input, Item, Key, Output, Packet, Report};
use core::time::Duration;
use roam6_wire::ip6::{self, Datagram, protocol};
use roam6_wire::mobility::{BindingAcknowledgement, BindingIdentifier, CareOfField, Message, MobilityOption, Status};
use roam6_wire::{Bid, HomeAddress, icmp6};
use std::sync::Arc;

const CARE_OF: &str = "2001:db8:1::200";

pub(in crate::nemo::home_agent) fn pair(first: u8) -> SecurityAssociationPair {
    let association = |spi: u32, fill: u8| SecurityAssociation {
        spi,
        integrity: Integrity::HmacSha256,
        key: vec![fill; Integrity::HmacSha256.key_length()],
    };
    SecurityAssociationPair {
        to_home_agent: association(0x1000, first),
        to_mobile_router: association(0x1001, first + 1),
    }
}

/// 2001:db8::200 and 2001:db8::400 use ESP, with keys of their own.
fn protected() -> HomeAgentConfig {
    let mut config = config();
    for (number, first) in [("2001:db8::200", 1), ("2001:db8::400", 3)] {
        let row = Arc::make_mut(&mut config.prefix_table)
            .rows
            .iter_mut()
            .find(|row| row.home_address.0 == address(number))
            .unwrap();
        row.authentication = Authentication::Ipsec(Box::new(pair(first)));
    }
    config
}

fn alternate() -> MobilityOption {
    MobilityOption::AlternateCareOf(address(CARE_OF))
}

/// Away, as RFC 3776 wants it.
fn update(sequence: u16) -> Update {
    Update::unauthenticated(sequence, CARE_OF).with(alternate())
}

/// The update in ESP behind its Home Address option.
fn seal(packet: Packet, association: &SecurityAssociation) -> Packet {
    let datagram = Datagram::parse(&packet.bytes).unwrap();
    let payload = association.seal(1, datagram.protocol, datagram.payload);
    let bytes = ip6::emit(&datagram.header, protocol::ESP, &payload);
    Packet { bytes, ..packet }
}

fn send(bench: &mut TestBed, update: &Update, association: &SecurityAssociation) -> Vec<Output> {
    let packet = seal(update.packet(bench.now), association);
    bench.feed(Input::Packet(packet))
}

/// The one acknowledgement among `outputs`, in ESP behind the routing header, and its ESP sequence number.
fn opened(outputs: &[Output]) -> (BindingAcknowledgement, u32) {
    let sent = sent(outputs);
    assert_eq!(sent.len(), 1, "one packet: {outputs:#?}");
    let datagram = Datagram::parse(&sent[0].bytes).unwrap();
    assert_eq!(datagram.protocol, protocol::ESP);
    let association = pair(1).to_mobile_router;
    let opened = association.open(datagram.payload).unwrap();
    assert_eq!(opened.protocol, protocol::MOBILITY);
    match Message::parse(opened.payload, datagram.real_source(), datagram.real_destination()).unwrap() {
        Message::BindingAcknowledgement(acknowledgement) => (acknowledgement, opened.sequence),
        other => panic!("{other:?}"),
    }
}

/// The reason for which the only packet was dropped without an answer.
fn silence(outputs: &[Output]) -> DropReason {
    assert!(sent(outputs).is_empty(), "{outputs:#?}");
    match reports(outputs)[..] {
        [Report::Host(HostReport::Dropped { reason, .. })] => *reason,
        ref other => panic!("{other:?}"),
    }
}

#[test]
fn update_in_esp_is_acknowledged_in_esp() {
    let mut bench = TestBed::new(protected());
    let outputs = send(&mut bench, &update(1), &pair(1).to_home_agent);
    let datagram = Datagram::parse(&sent(&outputs)[0].bytes).unwrap();
    assert_eq!(datagram.destination, address(CARE_OF));
    assert_eq!(datagram.routing_home, Some(address("2001:db8::200")));
    let (acknowledgement, first) = opened(&outputs);
    assert_eq!((acknowledgement.status, acknowledgement.sequence.0), (Status::ACCEPTED, 1));
    assert_eq!(bench.tunnel().unwrap().paths[0].remote, address(CARE_OF));

    let (refused, second) = opened(&send(&mut bench, &update(1), &pair(1).to_home_agent));
    assert_eq!(refused.status, Status::SEQUENCE_OUT_OF_WINDOW, "a copy of an old update");
    assert!(second > first);

    let outputs = bench.advance(Duration::from_secs(55));
    let request = Datagram::parse(&sent(&outputs)[0].bytes).unwrap();
    let request = pair(1).to_mobile_router.open(request.payload).unwrap();
    assert_eq!(request.payload[2], 0, "Binding Refresh Request");
}

#[test]
fn update_needs_security_association_of_its_home_address() {
    let mut bench = TestBed::new(protected());
    let plain = bench.send(&update(1));
    assert_eq!(silence(&plain), DropReason::NotAuthenticated);
    let with_key = Update { key: Some(key()), clock_offset: Some(0), ..update(1) };
    assert_eq!(silence(&bench.send(&with_key)), DropReason::NotAuthenticated);
    let other = pair(3).to_home_agent;
    assert_eq!(silence(&send(&mut bench, &update(1), &other)), DropReason::BadAuthenticator);
    let wrong = SecurityAssociation { spi: 0x2000, ..pair(1).to_home_agent };
    assert_eq!(silence(&send(&mut bench, &update(1), &wrong)), DropReason::NoAssociation);
    let mut packet = seal(update(1).packet(bench.now), &pair(1).to_home_agent);
    let last = packet.bytes.len() - 40;
    packet.bytes[last] ^= 1;
    assert_eq!(silence(&bench.feed(Input::Packet(packet))), DropReason::BadAuthenticator);

    // Opened by the association of the home address outside, the message inside cannot be of another.
    let mut packet = Update { home: HomeAddress(address("2001:db8::400")), ..update(1) }.packet(bench.now);
    let datagram = Datagram::parse(&packet.bytes).unwrap();
    let header = ip6::Header { home_address: Some(address("2001:db8::200")), ..datagram.header };
    let payload = pair(1).to_home_agent.seal(1, protocol::MOBILITY, datagram.payload);
    packet.bytes = ip6::emit(&header, protocol::ESP, &payload);
    assert_eq!(silence(&bench.feed(Input::Packet(packet))), DropReason::Malformed, "the checksum covers the address");
    assert!(bench.agent.bindings.is_empty() && bench.installed().is_empty());
}

#[test]
fn esp_of_other_senders_is_ignored() {
    let mut bench = TestBed::new(protected());
    let keyed = Update { key: Some(key()), home: home(), ..update(1) };
    assert!(send(&mut bench, &keyed, &pair(1).to_home_agent).is_empty(), "its row has no ESP keys");
    let unknown = Update { home: HomeAddress(address("2001:db8::999")), ..update(1) };
    assert!(send(&mut bench, &unknown, &pair(1).to_home_agent).is_empty());
    let packet = seal(update(1).packet(bench.now), &pair(1).to_home_agent);
    let header = Datagram::parse(&packet.bytes).unwrap().header;
    let payload = pair(1).to_home_agent.seal(1, protocol::UDP, &[0; 8]);
    let bytes = ip6::emit(&header, protocol::ESP, &payload);
    assert_eq!(silence(&bench.feed(Input::Packet(Packet { bytes, ..packet }))), DropReason::NotForUs);
}

#[test]
fn update_in_esp_needs_alternate_care_of_address() {
    let mut bench = TestBed::new(protected());
    let bare = Update::unauthenticated(1, CARE_OF);
    assert_eq!(silence(&send(&mut bench, &bare, &pair(1).to_home_agent)), DropReason::Malformed);

    // An on-path attacker changes the source address: the alternate care-of address inside ESP counts.
    let moved = Update::unauthenticated(2, "2001:db8:bad::1").with(alternate());
    let outputs = send(&mut bench, &moved, &pair(1).to_home_agent);
    assert_eq!(opened(&outputs).0.status, Status::ACCEPTED);
    assert_eq!(bench.tunnel().unwrap().paths[0].remote, address(CARE_OF));

    // Binding identifiers bring their own.
    let identifier = MobilityOption::BindingIdentifier(BindingIdentifier {
        bid: Bid(1),
        status: Status::ACCEPTED,
        simultaneous_home: false,
        priority: 1,
        care_of: CareOfField::V6(address("2001:db8:2::200")),
    });
    let mut several = Update::unauthenticated(3, CARE_OF).with(identifier);
    several.flags = several.flags | roam6_wire::mobility::UpdateFlags::OVERWRITE;
    assert_eq!(opened(&send(&mut bench, &several, &pair(1).to_home_agent)).0.status, Status::ACCEPTED);
    assert_eq!(bench.tunnel().unwrap().paths[0].remote, address("2001:db8:2::200"));
}

#[test]
fn deregistration_from_home_in_esp_is_accepted() {
    let mut bench = TestBed::at_home_link(HomeAgentConfig { duplicate_detection: false, ..protected() });
    send(&mut bench, &update(1), &pair(1).to_home_agent);
    let deregistration = Update::unauthenticated(2, "2001:db8::200").lifetime(0);
    assert_eq!(silence(&bench.send(&deregistration)), DropReason::NotAuthenticated);
    let outputs = send(&mut bench, &deregistration, &pair(1).to_home_agent);
    let datagram = Datagram::parse(&sent(&outputs)[0].bytes).unwrap();
    assert_eq!((datagram.destination, datagram.routing_home), (address("2001:db8::200"), None));
    let (acknowledgement, _) = opened(&outputs);
    assert_eq!((acknowledgement.status, acknowledgement.lifetime_units), (Status::ACCEPTED, 0));
}

#[test]
fn prefix_solicitation_in_esp_is_answered_in_esp() {
    let mut bench = TestBed::new(HomeAgentConfig { duplicate_detection: false, ..protected() });
    send(&mut bench, &update(1), &pair(1).to_home_agent);
    let home = address("2001:db8::200");
    let header = ip6::Header::new(address(CARE_OF), agent()).with_home_address(home);
    let message = icmp6::Message::MobilePrefixSolicitation { identifier: 7 }.emit(home, agent());
    let clear = Packet { link: VISITED_LINK, sender: None, bytes: ip6::emit(&header, protocol::ICMPV6, &message) };
    let refused = bench.feed(Input::Packet(clear.clone()));
    assert!(matches!(
        reports(&refused)[..],
        [Report::Host(HostReport::Dropped { reason: DropReason::NotAuthenticated, .. })]
    ));
    let protected = bench.feed(Input::Packet(seal(clear, &pair(1).to_home_agent)));
    let datagram = Datagram::parse(&sent(&protected)[0].bytes).unwrap();
    let opened = pair(1).to_mobile_router.open(datagram.payload).unwrap();
    assert_eq!((opened.protocol, opened.payload[0], datagram.routing_home), (protocol::ICMPV6, 147, Some(home)));
}

#[test]
fn replayed_esp_update_is_rejected_after_binding_ended() {
    let mut bench = TestBed::new(protected());
    let association = &pair(1).to_home_agent;
    let recorded = seal(update(7).packet(bench.now), association);
    let replay = |bench: &mut TestBed| {
        let outputs = bench.feed(Input::Packet(recorded.clone()));
        let (answer, _) = opened(&outputs);
        (answer.status, answer.sequence.0)
    };
    bench.feed(Input::Packet(recorded.clone()));
    bench.advance(Duration::from_secs(5));
    send(&mut bench, &update(8).lifetime(0), association);
    bench.advance(Duration::from_secs(3600));
    let numbers = [Key::JournalRecord(JournalKey::Sequence(HomeAddress(address("2001:db8::200"))))];
    assert_eq!(bench.installed(), numbers, "only the sequence number is left");
    assert_eq!(replay(&mut bench), (Status::SEQUENCE_OUT_OF_WINDOW, 8));

    let mut next = TestBed::new(protected());
    next.feed(Input::Command(Command::Lifecycle(LifecycleCommand::RestoreJournal(journal(&bench)))));
    assert_eq!(replay(&mut next), (Status::SEQUENCE_OUT_OF_WINDOW, 8), "nor after a restart");
    assert_eq!(opened(&send(&mut next, &update(9), association)).0.status, Status::ACCEPTED);
    next.advance(Duration::from_secs(3600));
    assert_eq!(replay(&mut next), (Status::SEQUENCE_OUT_OF_WINDOW, 9), "its lifetime was over");

    let open = std::sync::Arc::new(PrefixTable { rows: config().prefix_table.rows.clone() });
    next.plan.put(Item::JournalRecord(journal(&bench)[0].clone()));
    next.feed(Input::Command(Command::HomeAgent(HomeAgentCommand::ReloadPrefixTable(open))));
    assert_eq!(next.installed(), [], "only rows with ESP keep a sequence number");
}
