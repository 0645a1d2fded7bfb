//! The Shim6 engine with peers, impostors, floods, and hosts without Shim6.

mod eviction;
mod switch;

use super::*;
use crate::contract::config::shim::ShimConfig;
use crate::contract::input::AddressState;
use crate::contract::report::HostReport;
use crate::crypto::cga::{Parameters, Sec};
use crate::crypto::hba::{self, KeyField};
use crate::crypto::signature::PrivateKey;
use crate::crypto::signature::tests::p256_key;
use crate::{AddressEvent, DropReason, Output, Packet, Put, Report};
use roam6_wire::ip6::{Datagram, protocol};
use roam6_wire::shim6::{LocatorList, Nonce, Probe, ProbeRecord, ProbeState, ShimOption, Tag, VerificationMethod};
use roam6_wire::{Prefix, icmp6};

const LINK: LinkId = LinkId(1);
const HERE: &str = "2001:db8:a::1";
const STRANGER: &str = "2001:db8:bad::1";
/// Forged messages of each kind.
const FORGED: u64 = 40_000;

fn ip(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

struct Bench {
    shim: Shim,
    now: Time,
    here: Ipv6Addr,
}

impl Bench {
    fn new(config: ShimConfig) -> Bench {
        let mut bench = Bench::started(config, &[ip(HERE)]);
        bench.wait(1000);
        bench
    }

    /// A shim that has just started, with these addresses; messages go to the first one.
    fn started(config: ShimConfig, addresses: &[Ipv6Addr]) -> Bench {
        let config = ShimConfig { interfaces: ["if0".to_owned()].into(), ..config };
        let mut bench =
            Bench { shim: Shim::new(config, Entropy::seed_from_u64(1)), now: Time::ZERO, here: addresses[0] };
        let link = LinkEvent { link: LINK, name: "if0".to_owned(), address: None, up: true, mtu: 1500 };
        bench.feed(&Input::Link(link));
        for address in addresses {
            let state = AddressState::Preferred;
            bench.feed(&Input::Address(AddressEvent { link: LINK, address: *address, state }));
        }
        bench
    }

    /// All outputs of an input; every `Put` succeeds at once.
    fn feed(&mut self, input: &Input) -> Vec<Output> {
        let mut out = Outbox::new();
        self.shim.handle(self.now, input, &mut out);
        let mut all: Vec<Output> = out.drain().collect();
        let outcomes: Vec<Outcome> = all
            .iter()
            .filter_map(|output| if let Output::Put(put) = output { Some(put.outcome(None)) } else { None })
            .collect();
        for outcome in outcomes {
            all.extend(self.feed(&Input::Outcome(outcome)));
        }
        all
    }

    fn receive(&mut self, source: Ipv6Addr, message: &Message) -> Vec<Output> {
        let bytes = ip6::emit(&Header::new(source, self.here), shim6::PROTOCOL, &message.emit());
        self.feed(&Input::Packet(Packet { link: LINK, sender: None, bytes }))
    }

    fn wait(&mut self, milliseconds: u64) -> Vec<Output> {
        let until = self.now + Duration::from_millis(milliseconds);
        let mut all = Vec::new();
        while let Some(due) = self.shim.deadline().filter(|due| *due <= until) {
            self.now = due;
            all.extend(self.feed(&Input::Tick));
        }
        self.now = until;
        all
    }

    /// Sends I1, and returns nonce and validator of the R1.
    fn receive_i1(&mut self, source: Ipv6Addr, tag: Tag, options: Vec<ShimOption>) -> (Nonce, ShimOption) {
        let answers = sent(&self.receive(source, &Message::I1 { tag, nonce: Nonce(3), options }));
        let Some(Message::R1 { responder_nonce, options, .. }) = answers.first() else { panic!("{answers:?}") };
        (*responder_nonce, options[0].clone())
    }

    fn handshake(
        &mut self,
        source: Ipv6Addr,
        tag: Tag,
        options: Vec<ShimOption>,
        list: Vec<ShimOption>,
    ) -> Vec<Output> {
        let (responder_nonce, validator) = self.receive_i1(source, tag, options.clone());
        let options = [vec![validator], options, list].concat();
        self.receive(source, &Message::I2 { tag, initiator_nonce: Nonce(4), responder_nonce, options })
    }

    fn flow(&mut self, peer: &str) -> Vec<Output> {
        let pair = AddressPair { local: ip(HERE), peer: ip(peer) };
        self.feed(&Input::Flow(FlowEvent { pair, link: LINK, packets: 9, octets: 3000, since: self.now }))
    }
}

fn sent(outputs: &[Output]) -> Vec<Message> {
    let transmitted = outputs.iter().filter_map(|output| match output {
        Output::Transmit(transmit) => Some(&transmit.bytes),
        _ => None,
    });
    transmitted
        .filter_map(|bytes| {
            let datagram = Datagram::parse(bytes).unwrap();
            (datagram.protocol == shim6::PROTOCOL).then(|| Message::parse(datagram.payload).unwrap())
        })
        .collect()
}

fn dropped(outputs: &[Output]) -> Option<DropReason> {
    outputs.iter().find_map(|output| match output {
        Output::Report(Report::Host(HostReport::Dropped { reason, .. })) => Some(*reason),
        _ => None,
    })
}

fn context(outputs: &[Output]) -> Option<crate::contract::item::ShimContext> {
    outputs.iter().find_map(|output| match output {
        Output::Put(Put { item: Item::ShimContext(context), .. }) => Some(context.clone()),
        _ => None,
    })
}

/// CGA parameters of an HBA set of two addresses.
fn parameters(site: u16, number: u8) -> Parameters {
    let prefix = |provider| Prefix::new(Ipv6Addr::new(0x2001, 0xdb8, site, provider, 0, 0, 0, 0), 64).unwrap();
    hba::parameters([number; 16], &[prefix(0), prefix(1)], KeyField::Random(&[number; 48])).unwrap()
}

/// Two addresses of one host, with the options that prove them.
fn set(site: u16, number: u8) -> (Vec<Ipv6Addr>, Vec<ShimOption>) {
    let parameters = parameters(site, number);
    let addresses = hba::addresses(&parameters, Sec::new(0).unwrap()).unwrap();
    let locators = addresses.iter().map(|address| (VerificationMethod::HBA, *address)).collect();
    let list = LocatorList { generation: 1, locators };
    (addresses, vec![ShimOption::Locators(list), ShimOption::Parameters(parameters.emit())])
}

const TAG: Tag = Tag::from_low_bits(77);

#[test]
fn a_proved_locator_list_is_accepted_in_i2() {
    let mut bench = Bench::new(ShimConfig::default());
    let (theirs, list) = set(0xb, 1);
    let outputs = bench.handshake(theirs[0], TAG, Vec::new(), list);
    let held = context(&outputs).unwrap();
    assert_eq!((held.tag_out, held.allowed_sources.clone()), (TAG, theirs.clone()));
    assert_eq!(held.locators, AddressPair { local: ip(HERE), peer: theirs[0] });
    assert!(matches!(sent(&outputs)[..], [Message::R2 { tag, nonce: Nonce(4), .. }] if tag == held.tag_in));
}

#[test]
fn a_foreign_ulid_cannot_be_claimed_in_i2_or_update() {
    let mut bench = Bench::new(ShimConfig::default());
    let (victim, list) = set(0xb, 1);
    let (mine, my_list) = set(0xbad, 2);
    let claimed = vec![ShimOption::Ulids { sender: victim[0], receiver: ip(HERE) }];
    let mut mixed = list.clone();
    let Some(ShimOption::Locators(locators)) = mixed.first_mut() else { panic!() };
    locators.locators.push((VerificationMethod::HBA, mine[0]));
    let mut signed = mixed.clone();
    let Some(ShimOption::Locators(locators)) = signed.first_mut() else { panic!() };
    locators.locators[2].0 = VerificationMethod::CGA;
    signed.push(ShimOption::Signature(vec![0; 64]));
    for proof in [Vec::new(), list.clone(), my_list, mixed, signed] {
        let outputs = bench.handshake(mine[0], TAG, claimed.clone(), proof);
        assert_eq!((dropped(&outputs), context(&outputs)), (Some(DropReason::Unverified), None));
    }
    assert_eq!(bench.shim.contexts.len(), 0);
    // The same after the victim has a context: without its tag nothing can be changed.
    let held = context(&bench.handshake(victim[0], TAG, Vec::new(), list.clone())).unwrap();
    let outputs = bench.handshake(mine[0], Tag::from_low_bits(5), claimed, list.clone());
    assert_eq!(dropped(&outputs), Some(DropReason::Unverified));
    let update = Message::UpdateRequest { tag: held.tag_in, nonce: Nonce(1), options: list };
    let outputs = bench.receive(mine[0], &update);
    assert!(matches!(sent(&outputs)[..], [Message::R1bis { .. }]), "even with the tag, not from another address");
    assert_eq!(context(&outputs), None);
}

#[test]
fn a_flood_of_i1_i2_update_and_probe_leaves_no_state() {
    let mut bench = Bench::new(ShimConfig::default());
    let mut chance = Entropy::seed_from_u64(7);
    let (_, list) = set(0xb, 1);
    for number in 0..4 * FORGED {
        let (tag, nonce) = (Tag::from_low_bits(chance.next_u64()), Nonce(chance.next_u64() as u32));
        let source = Ipv6Addr::from_bits(ip(STRANGER).to_bits() | u128::from(chance.next_u64() & 0xffff));
        let record = ProbeRecord { source, destination: ip(HERE), nonce, data: 0 };
        let message = match number % 4 {
            0 => Message::I1 { tag, nonce, options: Vec::new() },
            1 => {
                let options = [vec![ShimOption::Validator(vec![1; 16])], list.clone()].concat();
                Message::I2 { tag, initiator_nonce: nonce, responder_nonce: nonce, options }
            }
            2 => Message::UpdateRequest { tag, nonce, options: list.clone() },
            _ => {
                let (state, sent) = (ProbeState::Exploring, vec![record]);
                Message::Probe(Probe { tag, state, sent, received: Vec::new(), options: Vec::new() })
            }
        };
        assert!(context(&bench.receive(source, &message)).is_none());
        bench.now = bench.now + Duration::from_micros(20);
    }
    assert_eq!((bench.shim.contexts.len(), bench.shim.timers.len(), bench.shim.holddowns.len()), (0, 0, 0));
}

#[test]
fn a_repeated_i2_is_answered_again_and_an_old_one_is_not() {
    let mut bench = Bench::new(ShimConfig::default());
    let (theirs, list) = set(0xb, 1);
    let (responder_nonce, validator) = bench.receive_i1(theirs[0], TAG, Vec::new());
    let options = [vec![validator], list].concat();
    let second = Message::I2 { tag: TAG, initiator_nonce: Nonce(4), responder_nonce, options };
    assert!(context(&bench.receive(theirs[0], &second)).is_some());
    let again = bench.receive(theirs[0], &second);
    assert!(context(&again).is_none() && matches!(sent(&again)[..], [Message::R2 { .. }]));
    bench.wait(31_000);
    assert_eq!(dropped(&bench.receive(theirs[0], &second)), Some(DropReason::BadValidator));
    assert_eq!(bench.shim.contexts.len(), 1);
}

#[test]
fn cga_signature_verification_is_rate_limited() {
    let mut bench = Bench::new(ShimConfig { verifications_per_second: 3, ..ShimConfig::default() });
    let key = p256_key();
    let public = PrivateKey::parse(&key).unwrap().public().unwrap();
    let prefix: Prefix = "2001:db8:b::/64".parse().unwrap();
    let sec = Sec::new(0).unwrap();
    let mut verdicts = Vec::new();
    for number in 0..6u8 {
        let parameters = crate::crypto::cga::Parameters::new([number; 16], prefix, public.clone()).unwrap();
        let theirs = parameters.address(sec);
        let locators = vec![(VerificationMethod::CGA, theirs), (VerificationMethod::CGA, ip(STRANGER))];
        let list = LocatorList { generation: 1, locators };
        let proof = vec![
            ShimOption::Locators(list),
            ShimOption::Parameters(parameters.emit()),
            ShimOption::Signature(vec![7; 64]),
        ];
        verdicts.push(dropped(&bench.handshake(theirs, TAG, Vec::new(), proof)));
    }
    use DropReason::{RateLimited, Unverified};
    assert_eq!(verdicts, [Unverified, Unverified, Unverified, RateLimited, RateLimited, RateLimited].map(Some));
}

#[test]
fn i1_retransmissions_end_in_the_no_r1_holddown() {
    let mut bench = Bench::new(ShimConfig::default());
    let peer = "2001:db8:b::1";
    assert!(matches!(sent(&bench.flow(peer))[..], [Message::I1 { .. }]));
    let rest = bench.wait(400_000);
    assert_eq!(sent(&rest).len(), 4, "retransmissions");
    assert_eq!(bench.shim.contexts.len(), 0);
    assert_eq!(sent(&bench.flow("2001:db8:b::2")).len(), 1, "other peers get an I1");
}

#[test]
fn unrecognised_next_header_starts_the_icmp_holddown() {
    let mut bench = Bench::new(ShimConfig::default());
    let peer = "2001:db8:b::1";
    let outputs = bench.flow(peer);
    let Some(Output::Transmit(first)) = outputs.iter().find(|output| matches!(output, Output::Transmit(_))) else {
        panic!()
    };
    let problem = [&[4, 1, 0, 0, 0, 0, 0, 6][..], &first.bytes].concat();
    let mut forged = problem.clone();
    *forged.last_mut().unwrap() ^= 1;
    bench.feed(&icmp(peer, &forged));
    assert_eq!(bench.shim.contexts.len(), 1, "the quoted packet is not the I1 that was sent");
    bench.feed(&icmp(peer, &problem));
    assert_eq!(bench.shim.contexts.len(), 0);
    bench.wait(599_000);
    assert!(sent(&bench.flow(peer)).is_empty());
    bench.wait(2_000);
    assert_eq!(sent(&bench.flow(peer)).len(), 1);
}

/// An ICMPv6 error from `source` with a correct checksum.
fn icmp(source: &str, message: &[u8]) -> Input {
    let mut message = message.to_vec();
    let sum = roam6_wire::checksum::checksum(ip(source), ip(HERE), protocol::ICMPV6, &message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let bytes = ip6::emit(&Header::new(ip(source), ip(HERE)), protocol::ICMPV6, &message);
    Input::Packet(Packet { link: LINK, sender: None, bytes })
}

#[test]
fn an_icmpv6_error_is_translated_back_to_ulids() {
    let mut bench = Bench::new(ShimConfig::default());
    let (theirs, list) = set(0xb, 1);
    let claimed = vec![ShimOption::Ulids { sender: theirs[0], receiver: ip(HERE) }];
    let held = context(&bench.handshake(theirs[1], TAG, claimed, list)).unwrap();
    assert_eq!(held.locators.peer, theirs[1], "the pair of the handshake");
    let payload = [&shim6::PayloadHeader { next_header: 17, tag: TAG }.emit()[..], b"eightoct"].concat();
    let packet = ip6::emit(&Header::new(ip(HERE), theirs[1]), shim6::PROTOCOL, &payload);
    let too_big = [&[2, 0, 0, 0, 0, 0, 5, 0][..], &packet].concat();
    let outputs = bench.feed(&icmp("2001:db8:f::1", &too_big));
    let Some(Output::Transmit(passed)) = outputs.first() else { panic!("{outputs:?}") };
    let datagram = Datagram::parse(&passed.bytes).unwrap();
    assert_eq!((datagram.source, datagram.destination), (ip("2001:db8:f::1"), ip(HERE)));
    assert!(icmp6::Message::parse(&datagram).is_ok(), "the checksum is correct");
    assert_eq!(datagram.payload[4..8], (1280u32 - 8).to_be_bytes());
    let quoted = Datagram::parse(&datagram.payload[8..]).unwrap();
    assert_eq!((quoted.source, quoted.destination, quoted.protocol), (ip(HERE), theirs[0], 17));
    assert_eq!(quoted.payload, b"eightoct");
}

#[test]
fn max_contexts_is_never_exceeded() {
    let mut bench = Bench::new(ShimConfig { max_contexts: 3, ..ShimConfig::default() });
    for number in 0..6u8 {
        let (theirs, list) = set(0xb, number);
        bench.handshake(theirs[0], Tag::from_low_bits(number.into()), Vec::new(), list);
        bench.flow(&format!("2001:db8:c::{number}"));
    }
    assert_eq!(bench.shim.contexts.len(), 3);
}

#[test]
fn seeded_fuzz_inputs_pass() {
    crate::fuzz_inputs::run_seeds(400, 600, fuzz::run);
}

#[test]
fn the_fuzz_corpus_passes() {
    crate::fuzz_inputs::run_files("../fuzz/corpus/shim", fuzz::run);
}
