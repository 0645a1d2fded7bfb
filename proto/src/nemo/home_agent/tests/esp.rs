//! Paths encrypted by ESP: the associations are in place before the acknowledgement, the same offer gets the same answer, and what is
//! not encrypted is refused.

use super::bench::*;
use crate::contract::command::LifecycleCommand;
use crate::contract::config::nemo::{Encryption, EncryptionMethod, HomeAgentConfig};
use crate::contract::item::{Encap, EspPair, TunnelPath};
use crate::crypto::key_agreement::EphemeralSecret;
use crate::crypto::path_esp::{EspAgreement, EspEnd, EspKeys};
use crate::{Command, Entropy, Input, Item, Output};
use core::time::Duration;
use roam6_wire::Bid;
use roam6_wire::ip6::Datagram;
use roam6_wire::mobility::{EspKey, Message, MobilityOption, Status, WireguardKey};

fn by_esp() -> HomeAgentConfig {
    let encryption = Encryption { method: EncryptionMethod::Esp, required: true, ..Default::default() };
    HomeAgentConfig { encryption: Some(Box::new(encryption)), ..config() }
}

/// What a mobile router offers.
struct Offer {
    secret: EphemeralSecret,
    end: EspEnd,
}

fn offer(seed: u64) -> Offer {
    let secret = EphemeralSecret::generate(&mut Entropy::seed_from_u64(seed));
    let point = secret.point().unwrap();
    Offer { secret, end: EspEnd { spi: 0x1000 + u32::try_from(seed).unwrap(), point } }
}

fn offered(update: Update, offer: &Offer) -> Update {
    update.with(MobilityOption::EspKey(offer.end.option(Bid(0), 0)))
}

fn messages(outputs: &[Output]) -> Vec<Message> {
    let parse = |transmit: &&crate::Transmit| {
        let datagram = Datagram::parse(&transmit.bytes).unwrap();
        Message::parse(datagram.payload, datagram.real_source(), datagram.real_destination()).unwrap()
    };
    sent(outputs).iter().map(parse).collect()
}

fn answers(outputs: &[Output]) -> Vec<EspKey> {
    let options = messages(outputs).into_iter().flat_map(|message| match message {
        Message::BindingAcknowledgement(answer) => answer.options,
        _ => Vec::new(),
    });
    let keys = options.filter_map(|option| match option {
        MobilityOption::EspKey(key) => Some(key),
        _ => None,
    });
    keys.collect()
}

fn path(bench: &TestBed) -> TunnelPath {
    bench.tunnel().unwrap().paths[0].clone()
}

fn pair(bench: &TestBed) -> EspPair {
    *path(bench).encap.esp().unwrap()
}

#[test]
fn subflows_have_addresses_in_the_tunnel_if_there_may_be_some() {
    for bond in [true, false] {
        let mut bench = TestBed::new(HomeAgentConfig { bond, ..by_esp() });
        bench.send(&offered(Update::new(7, "2001:db8:1::100"), &offer(1)));
        let prefix = crate::contract::item::subflow::subflow_prefix(home().0);
        assert_eq!(bench.tunnel().unwrap().remote_prefixes.contains(&prefix), bond);
    }
}

#[test]
fn associations_are_installed_before_the_acknowledgement_with_our_answer() {
    let (mut bench, ours) = (TestBed::new(by_esp()), offer(1));
    bench.hold_outcomes = true;
    let first = bench.send(&offered(Update::new(7, "2001:db8:1::100"), &ours));
    let put = |output: &Output| matches!(output, Output::Put(put) if matches!(put.item, Item::Tunnel(_)));
    assert!(first.iter().any(put) && !first.iter().any(|output| matches!(output, Output::Transmit(_))));
    let done = bench.release_outcomes();
    let [answer] = answers(&done)[..] else { panic!("{done:?}") };
    assert_eq!((answer.bid, answer.answers), (Bid(0), ours.end.spi));
    let installed = pair(&bench);
    assert_eq!((installed.inbound, installed.outbound), (answer.spi, ours.end.spi));
    assert_eq!((installed.initiates, path(&bench).mtu), (false, 1426));
    let secret = key().secret;
    let agreement = EspAgreement {
        authenticated_by: &secret,
        home: home(),
        bid: Bid(0),
        router: ours.end,
        agent: EspEnd::from(&answer),
    };
    let theirs = EspKeys::agree(&ours.secret, &agreement, false).unwrap();
    let keys = installed.keys.unwrap();
    assert_eq!((keys.inbound, keys.outbound), (theirs.outbound, theirs.inbound));
    let recorded = format!("{:?}", bench.tunnel()) + &serde_json::to_string(&bench.tunnel()).unwrap();
    let shown = crate::base::hex::encode(&keys.inbound.0);
    assert!(!recorded.contains(&shown) && !recorded.contains("keys\":"), "no recording has keys: {recorded}");
}

#[test]
fn same_offer_gets_the_same_answer_and_another_one_another() {
    let (mut bench, ours) = (TestBed::new(by_esp()), offer(1));
    let first = answers(&bench.send(&offered(Update::new(7, "2001:db8:1::100"), &ours)));
    let before = pair(&bench);
    assert_eq!(answers(&bench.send(&offered(Update::new(8, "2001:db8:1::100"), &ours))), first);
    assert_eq!(pair(&bench), before);
    // Also while the first one waits for the host.
    let mut waiting = TestBed::new(by_esp());
    waiting.hold_outcomes = true;
    waiting.send(&offered(Update::new(7, "2001:db8:1::100"), &ours));
    waiting.send(&offered(Update::new(8, "2001:db8:1::100"), &ours));
    let done = waiting.release_outcomes();
    assert!(answers(&done).iter().all(|answer| answer.spi == pair(&waiting).inbound), "{done:?}");
    let moved = answers(&bench.send(&offered(Update::new(9, "2001:db8:2::100"), &offer(2))));
    assert!(moved[0].spi != first[0].spi && moved[0].point != first[0].point);
    assert_eq!((pair(&bench).outbound, path(&bench).remote), (offer(2).end.spi, address("2001:db8:2::100")));
}

#[test]
fn update_that_offers_nothing_for_esp_is_refused() {
    let mut bench = TestBed::new(by_esp());
    let wireguard = MobilityOption::WireguardKey(WireguardKey { bid: Bid(0), port: 4192, public_key: [1; 32] });
    let off = EspKey { bid: Bid(0), spi: 0x1000, answers: 0, point: [0xff; 33] };
    let ours = offer(1);
    let answer = MobilityOption::EspKey(ours.end.option(Bid(0), 0x2000));
    let other = MobilityOption::EspKey(ours.end.option(Bid(1), 0));
    let mut said = String::new();
    for (sequence, option) in (7..).zip([wireguard, MobilityOption::EspKey(off), answer, other]) {
        let done = bench.send(&Update::new(sequence, "2001:db8:1::100").with(option));
        assert_eq!(acknowledgement(&done).status, Status::ADMINISTRATIVELY_PROHIBITED);
        said += &format!("{done:?}");
    }
    assert!(said.contains("write encrypt = \\\"esp\\\" in its [mobile_router]"), "{said}");
    let done = bench.send(&offered(Update::unauthenticated(12, "2001:db8:1::200"), &ours));
    assert_eq!(acknowledgement(&done).status, Status::ADMINISTRATIVELY_PROHIBITED, "no shared key");
    assert!(bench.tunnel().is_none());
}

#[test]
fn home_agent_that_does_not_encrypt_by_esp_answers_no_offer() {
    let mut bench = TestBed::new(config());
    let done = bench.send(&offered(Update::new(7, "2001:db8:1::100"), &offer(1)));
    assert_eq!((answers(&done), path(&bench).encap), (vec![], Encap::Native));
}

/// The kernel has the associations; their keys are written nowhere.
#[test]
fn restored_path_has_its_associations_and_new_keys_with_the_next_update() {
    let (mut before, ours) = (TestBed::new(by_esp()), offer(1));
    before.send(&offered(Update::new(7, "2001:db8:1::100"), &ours));
    let (known, records) = (pair(&before), journal(&before));
    let text = serde_json::to_string(&records).unwrap();
    assert!(!text.contains(&crate::base::hex::encode(&known.keys.unwrap().inbound.0)), "{text}");
    let mut after = TestBed::new(by_esp());
    let outputs = after.feed(Input::Command(Command::Lifecycle(LifecycleCommand::RestoreJournal(records.clone()))));
    assert_eq!(pair(&after), EspPair { keys: None, ..known });
    let outputs = [outputs, after.advance(Duration::from_millis(10))].concat();
    let asks = messages(&outputs).iter().any(|message| matches!(message, Message::BindingRefreshRequest { .. }));
    assert!(asks, "for an update: {outputs:?}");
    // The same offer has the same answer; only another one makes other keys.
    let same = answers(&after.send(&offered(Update::new(8, "2001:db8:1::100"), &ours)));
    assert_eq!((same[0].spi, pair(&after).keys), (known.inbound, None));
    let other = answers(&after.send(&offered(Update::new(9, "2001:db8:1::100"), &offer(2))));
    assert!(pair(&after).keys.is_some() && pair(&after).inbound == other[0].spi);
    assert_eq!((other[0].answers, pair(&after).outbound), (offer(2).end.spi, offer(2).end.spi));
    // Configured otherwise meanwhile: nothing is restored, least of all in the clear.
    let mut plain = TestBed::new(config());
    plain.feed(Input::Command(Command::Lifecycle(LifecycleCommand::RestoreJournal(records))));
    assert!(plain.tunnel().is_none_or(|tunnel| tunnel.paths.iter().all(|path| path.weight == 0)));
}
