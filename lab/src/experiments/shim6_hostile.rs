//! A million forged, malformed and replayed Shim6 messages against a running host, from off the path (RFC 5533 §16, RFC
//! 5534 §8): no state is kept, no context is redirected, and the cost of signatures is bounded.

use crate::bed::tap::Tap;
use crate::experiments::prelude::*;
use crate::topology::providers::{ProviderSettings, Providers};
use anyhow::Context as _;
use roam6_proto::base::hex;
use roam6_proto::contract::report::ShimReport;
use roam6_proto::crypto::cga::{Parameters, Sec};
use roam6_proto::crypto::hba::{self, KeyField};
use roam6_proto::crypto::signature::PrivateKey;
use roam6_proto::{Entropy, Report};
use roam6_wire::Prefix;
use roam6_wire::ip6::{self, Datagram};
use roam6_wire::shim6::{
    self, ErrorCode, ErrorMessage, Fork, LocatorList, Message, Nonce, Probe, ProbeRecord, ProbeState, ShimOption, Tag,
    VerificationMethod,
};
use std::net::Ipv6Addr;

/// Messages sent before the attacker pauses, and its rate.
const BURST: u32 = 100;
const PER_SECOND: u32 = 10_000;
/// Time for the host to process the last messages in its queue.
const SETTLE_TIME: Duration = Duration::from_secs(1);
/// How long an answer of the host may take.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Tolerated change of memory, octets: allocator noise.
const MEMORY_TOLERANCE: u64 = 512 * 1024;
/// Slightly more than the lifetime of a validator (RFC 5533 §14: VALIDATOR_MIN_LIFETIME).
const STALE_AGE: Duration = Duration::from_secs(32);
/// Context limit of the victim, and its further configuration.
const CONTEXTS: u32 = 1000;
const SETTINGS: &str = "return_after = \"0s\"\nmax_contexts = 1000\n";
/// Another address behind the same router.
const SECOND_PEER: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 5, 0, 0, 0, 0, 0x77);
/// The attacker's P-256 key, PKCS #8.
const KEY: &str = "304102010030 1306072a8648ce3d020106082a8648ce3d030107 0427 3025020101 0420\
                   45462e1db76f80efa5b408fb57c6e95430a87bab45e6a563b91089d7409f046d";

/// An attack: its name, the sources and the generator of its messages, and the required age of its validators.
type Attack = (&'static str, fn(&mut Attacker) -> Ipv6Addr, fn(&mut Attacker) -> Message, Duration);

const FRESH_AGE: Duration = Duration::ZERO;
const ATTACKS: [Attack; 12] = [
    ("random octets", Attacker::own_source, Attacker::random, FRESH_AGE),
    ("I1 from everywhere", Attacker::random_source, Attacker::i1, FRESH_AGE),
    ("I1 in somebody's name", Attacker::own_source, Attacker::i1_with_claimed_ulid, FRESH_AGE),
    ("I2 with a validator made up", Attacker::random_source, Attacker::i2, FRESH_AGE),
    ("I2 with a validator of another", Attacker::random_source, Attacker::i2_with_foreign_validator, FRESH_AGE),
    ("I2 in the peer's name, own validator", Attacker::own_source, Attacker::i2_claiming_peer_ulid, FRESH_AGE),
    ("I2 with a wrong signature", Attacker::own_source, Attacker::i2_with_bad_signature, FRESH_AGE),
    ("answers nobody asked for", Attacker::random_source, Attacker::r2, FRESH_AGE),
    ("Update Requests, tags guessed", Attacker::random_source, Attacker::locator_update, FRESH_AGE),
    ("probes, tags guessed", Attacker::random_source, Attacker::probe, FRESH_AGE),
    ("errors", Attacker::random_source, Attacker::error, FRESH_AGE),
    ("I2 replayed when it is too old", Attacker::own_source, Attacker::replayed, STALE_AGE),
];

pub(super) fn run(run: &mut Run) -> Result<()> {
    let total: u32 = if run.quick { 60_000 } else { 1_000_000 };
    let each = total.div_ceil(u32::try_from(ATTACKS.len())?);
    run.set_steps(ATTACKS.len());
    let network =
        Providers::build(ProviderSettings { delay: Duration::ZERO, shim_config: SETTINGS, label: "", peering: false })?;
    let transfer = Transfer::start(network.ends(), TransferLoad::steady(Protocol::Tcp, 9700, 100_000))?;
    let established = |report: &Report| matches!(report, Report::Shim(ShimReport::ContextUp { .. }));
    let began = network.wait_both(0, "a context", established)?;
    let victim = &network.hosts[0].daemon;
    let mut attacker = Attacker::new(&network)?;
    let (memory_before, processor_before) = (victim.anonymous_memory()?, victim.cpu_time()?);
    for (name, source, make, age) in ATTACKS {
        run.step(name);
        attacker.renew_validators()?;
        sleep(age);
        let before = (victim.counters("events")?, victim.cpu_time()?);
        let answered = attacker.send_burst(each, source, make)?;
        sleep(SETTLE_TIME);
        let (mut grown, spent) = (victim.counter_growth(&before.0)?, victim.cpu_time()? - before.1);
        grown.retain(|name, _| name.starts_with("dropped_"));
        let micros = round(spent.as_secs_f64() * 1e6 / f64::from(each));
        run.rows.push(json!({
            "attack": name, "sent": each, "answered": answered, "as": grown, "processor_us_each": micros,
        }));
    }
    let contexts: Vec<Value> = victim.show("contexts")?;
    let moved =
        |report: &Report| matches!(report, Report::Shim(ShimReport::PathLost { .. } | ShimReport::PathChanged { .. }));
    let hijacked = victim.events.first_since(began, moved).is_some() || !attacker.contexts_are_unaffected(&contexts);
    let memory_after = victim.anonymous_memory()?;
    run.step("full context table");
    attacker.fill_contexts(CONTEXTS + CONTEXTS / 10)?;
    let locked_out = u8::from(!attacker.establish_second_peer()?);
    run.require(locked_out == 0, || "one address prevents a context of another peer".to_owned());
    let tcp_survived = transfer.finish(Duration::from_secs(20))?.iter().all(|delivery| delivery.is_complete());
    let grown = memory_after.saturating_sub(memory_before);
    run.require_tcp(tcp_survived);
    run.require(!hijacked, || "a context was redirected".to_owned());
    run.require(grown <= MEMORY_TOLERANCE, || format!("memory grew by {grown} octets"));
    run.summarise("sent", each * u32::try_from(ATTACKS.len())?);
    run.summarise("processor_seconds", round((victim.cpu_time()? - processor_before).as_secs_f64()));
    run.summarise("memory_before_kb", memory_before / 1024);
    run.summarise("memory_after_kb", memory_after / 1024);
    run.summarise("contexts", contexts.len());
    run.summarise("hijacked", u8::from(hijacked));
    run.summarise("second_peer_locked_out", locked_out);
    Ok(())
}

/// An attacker behind the router of provider a, with knowledge of all addresses and no context tag. It has an HBA set
/// of its own, with which it may legitimately establish a context and obtain validators.
struct Attacker {
    tap: Tap,
    rng: Entropy,
    victim: Ipv6Addr,
    /// The victim's peer.
    peer: Ipv6Addr,
    own: Ipv6Addr,
    proof: Vec<ShimOption>,
    /// Source address of the next message.
    source: Ipv6Addr,
    /// Responder nonces and validators of I1s from `own`: for its own ULID, the peer's, and the signer's.
    honest: (Nonce, ShimOption),
    claiming: (Nonce, ShimOption),
    signing: (Nonce, ShimOption),
    /// CGA parameters of the key, and their address.
    signer: (Ipv6Addr, Vec<u8>),
    replay: Message,
}

/// The context tag in its I1 and I2, which validators cover.
const TAG: Tag = Tag::from_low_bits(0x0bad_0bad);
/// The tag of its own context: an I1 with this tag would be answered by an R2 (RFC 5533 §7.9).
const OWN_TAG: Tag = Tag::from_low_bits(0x0600_d600);
/// The tag of the second peer's context.
const OTHER_TAG: Tag = Tag::from_low_bits(0x0077_0077);

impl Attacker {
    fn new(network: &Providers) -> Result<Attacker> {
        let router = &network.routers[0];
        let tap = Tap::open(router, "evil0")?;
        router.ip(&[
            "route add 2001:db8:bad::/48 via fe80::1 dev evil0",
            "route add 2001:db8:5::/48 via fe80::1 dev evil0",
        ])?;
        let prefix: Prefix = "2001:db8:bad::/64".parse().map_err(|_| anyhow::anyhow!("no prefix"))?;
        let sec = Sec::new(0).context("no such level")?;
        let set = hba::parameters([7; 16], &[prefix], KeyField::Random(&[7; 48])).context("no set")?;
        let own = *hba::addresses(&set, sec).context("no addresses")?.first().context("no address")?;
        let key: String = KEY.split_whitespace().collect();
        let public = PrivateKey::parse(&hex::decode(&key).unwrap_or_default()).and_then(|key| key.public());
        let signer = Parameters::new([9; 16], prefix, public.context("no key")?).context("no parameters")?;
        let list = LocatorList { generation: 1, locators: vec![(VerificationMethod::HBA, own)] };
        let none = (Nonce(0), ShimOption::Validator(Vec::new()));
        let [victim, _] = network.hosts[0].addresses;
        let [peer, _] = network.hosts[1].addresses;
        let mut attacker = Attacker {
            tap,
            rng: Entropy::seed_from_u64(17),
            victim,
            peer,
            own,
            proof: vec![ShimOption::Locators(list), ShimOption::Parameters(set.emit())],
            source: own,
            honest: none.clone(),
            claiming: none.clone(),
            signing: none,
            signer: (signer.address(sec), signer.emit()),
            replay: Message::Keepalive { tag: TAG, options: Vec::new() },
        };
        attacker.establish_own_context()?;
        Ok(attacker)
    }

    /// Establishes a legitimate context, whose messages can be replayed.
    fn establish_own_context(&mut self) -> Result<()> {
        self.replay = self.handshake(OWN_TAG, Nonce(1), Vec::new(), self.proof.clone())?;
        let granted = self.await_message(|message| matches!(message, Message::R2 { .. }).then_some(()));
        granted.context("no context for the attacker itself")
    }

    /// Completes handshakes for forked contexts of one address, without a proof.
    fn fill_contexts(&mut self, count: u32) -> Result<()> {
        for number in 0..count {
            // A tag for each: a peer that sends a known tag has lost the earlier context (RFC 5533 §7.15).
            let (tag, fork) = (Tag::from_low_bits(0x1000_0000 + u64::from(number)), ShimOption::Fork(Fork(number + 1)));
            self.handshake(tag, Nonce(1000 + number), vec![fork.clone()], vec![fork])?;
        }
        Ok(())
    }

    /// Establishes a context as any other peer, from an address in another prefix.
    fn establish_second_peer(&mut self) -> Result<bool> {
        let own = core::mem::replace(&mut self.own, SECOND_PEER);
        let nonce = Nonce(2);
        self.handshake(OTHER_TAG, nonce, Vec::new(), Vec::new())?;
        // Answers to the attacker's own messages may still arrive.
        let answer = self.await_message(|message| match message {
            Message::R2 { nonce: answered, .. } if answered == nonce => Some(()),
            _ => None,
        });
        self.own = own;
        Ok(answer.is_some())
    }

    /// Sends an I1 with the options `first` and, with the validator that is returned, an I2 with the options `second`;
    /// the latter.
    fn handshake(
        &mut self,
        tag: Tag,
        nonce: Nonce,
        first: Vec<ShimOption>,
        second: Vec<ShimOption>,
    ) -> Result<Message> {
        let (responder_nonce, validator) = self.request_validator(tag, first)?;
        let options = [vec![validator], second].concat();
        let message = Message::I2 { tag, initiator_nonce: nonce, responder_nonce, options };
        self.send(self.own, &message)?;
        Ok(message)
    }

    fn request_validator(&mut self, tag: Tag, options: Vec<ShimOption>) -> Result<(Nonce, ShimOption)> {
        self.send(self.own, &Message::I1 { tag, nonce: Nonce(1), options })?;
        let read = |message: Message| match message {
            Message::R1 { responder_nonce, options, .. } => Some((responder_nonce, options.into_iter().next()?)),
            _ => None,
        };
        self.await_message(read).context("no R1")
    }

    fn await_message<T>(&mut self, wanted: impl Fn(Message) -> Option<T>) -> Option<T> {
        let parse = |packet: &[u8]| Message::parse(Datagram::parse(packet).ok()?.payload).ok();
        self.tap.receive_within(TIMEOUT, |packet| wanted(parse(packet)?))
    }

    fn send(&mut self, source: Ipv6Addr, message: &Message) -> Result<()> {
        let bytes = ip6::emit(&ip6::Header::new(source, self.victim), shim6::PROTOCOL, &message.emit());
        Ok(self.tap.send(&bytes)?)
    }

    /// Sends so many messages; the number of answers.
    fn send_burst(
        &mut self,
        count: u32,
        source: fn(&mut Attacker) -> Ipv6Addr,
        make: fn(&mut Attacker) -> Message,
    ) -> Result<u64> {
        let pause = Duration::from_secs(1) * BURST / PER_SECOND;
        let (mut next, mut answered) = (clock::now(), 0);
        for number in 0..count {
            if number % BURST == 0 {
                answered += self.tap.discard();
                next += pause;
                sleep(next.saturating_duration_since(clock::now()));
            }
            self.source = source(self);
            let message = make(self);
            self.send(self.source, &message)?;
        }
        Ok(answered)
    }

    /// Obtains new validators: they are valid for half a minute.
    fn renew_validators(&mut self) -> Result<()> {
        self.claiming = self.request_validator(TAG, vec![self.ulids(self.peer)])?;
        self.signing = self.request_validator(TAG, vec![self.ulids(self.signer.0)])?;
        self.honest = self.request_validator(TAG, Vec::new())?;
        Ok(())
    }

    /// Whether each context still leads to its own peer.
    fn contexts_are_unaffected(&self, contexts: &[Value]) -> bool {
        let peer_and_path = |context: &Value| {
            let text = |pointer: &str| context.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
            (text("/context/ulids/peer"), text("/path/peer"))
        };
        let own = self.own.to_string();
        let on_own_paths = contexts.iter().map(peer_and_path).all(|(ulid, path)| ulid == path);
        on_own_paths && contexts.iter().map(peer_and_path).filter(|(ulid, _)| ulid.as_ref() == Some(&own)).count() <= 1
    }

    fn ulids(&self, sender: Ipv6Addr) -> ShimOption {
        ShimOption::Ulids { sender, receiver: self.victim }
    }

    fn nonce(&mut self) -> Nonce {
        Nonce(self.rng.next_u64() as u32)
    }

    fn tag(&mut self) -> Tag {
        Tag::from_low_bits(self.rng.next_u64())
    }

    fn own_source(&mut self) -> Ipv6Addr {
        self.own
    }

    /// A random address of its network, or the peer's.
    fn random_source(&mut self) -> Ipv6Addr {
        let chosen = Ipv6Addr::from_bits(self.own.to_bits() ^ u128::from(self.rng.below(1 << 32)));
        if self.rng.below(4) == 0 { self.peer } else { chosen }
    }

    fn random(&mut self) -> Message {
        let mut body = vec![0; usize::try_from(4 + 8 * self.rng.below(40)).unwrap_or(4)];
        self.rng.fill(&mut body);
        let kind = u8::try_from(self.rng.below(128)).unwrap_or(0);
        Message::Unknown { kind, body }
    }

    fn i1(&mut self) -> Message {
        Message::I1 { tag: self.tag(), nonce: self.nonce(), options: Vec::new() }
    }

    fn i1_with_claimed_ulid(&mut self) -> Message {
        let claimed = self.ulids(self.peer);
        let fork = ShimOption::Fork(Fork(self.rng.next_u64() as u32));
        Message::I1 { tag: self.tag(), nonce: self.nonce(), options: vec![claimed, fork] }
    }

    /// An I2 with a responder nonce and its validator, and further options.
    fn i2_with(&mut self, tag: Tag, (nonce, validator): (Nonce, ShimOption), rest: &[ShimOption]) -> Message {
        let options = [&[validator], rest].concat();
        Message::I2 { tag, initiator_nonce: self.nonce(), responder_nonce: nonce, options }
    }

    fn i2(&mut self) -> Message {
        let made_up = (self.nonce(), ShimOption::Validator(vec![7; 16]));
        let tag = self.tag();
        self.i2_with(tag, made_up, &self.proof.clone())
    }

    /// A genuine validator with another tag or source.
    fn i2_with_foreign_validator(&mut self) -> Message {
        let tag = self.tag();
        self.i2_with(tag, self.honest.clone(), &self.proof.clone())
    }

    /// The validator is for the peer's ULID, the proof for the attacker's.
    fn i2_claiming_peer_ulid(&mut self) -> Message {
        let proof = [vec![self.ulids(self.peer)], self.proof.clone()].concat();
        self.i2_with(TAG, self.claiming.clone(), &proof)
    }

    /// CGA parameters that match the source, a locator list, and a wrong signature, which has to be verified.
    fn i2_with_bad_signature(&mut self) -> Message {
        let (address, parameters) = self.signer.clone();
        let list =
            LocatorList { generation: self.rng.next_u64() as u32, locators: vec![(VerificationMethod::CGA, self.own)] };
        let mut signature = vec![0; 64];
        self.rng.fill(&mut signature);
        let (list, parameters) = (ShimOption::Locators(list), ShimOption::Parameters(parameters));
        let proof = [self.ulids(address), list, parameters, ShimOption::Signature(signature)];
        self.i2_with(TAG, self.signing.clone(), &proof)
    }

    fn r2(&mut self) -> Message {
        let options = vec![ShimOption::Validator(vec![7; 16])];
        let (initiator_nonce, responder_nonce) = (self.nonce(), self.nonce());
        match self.rng.below(3) {
            0 => Message::R1 { initiator_nonce, responder_nonce, options },
            1 => Message::R2 { tag: self.tag(), nonce: initiator_nonce, options: self.proof.clone() },
            _ => Message::R1bis { packet_tag: self.tag(), responder_nonce, options },
        }
    }

    fn locator_update(&mut self) -> Message {
        Message::UpdateRequest { tag: self.tag(), nonce: self.nonce(), options: self.proof.clone() }
    }

    fn probe(&mut self) -> Message {
        let (source, destination, nonce) = (self.source, self.victim, self.nonce());
        let record = ProbeRecord { source, destination, nonce, data: 0 };
        let (state, sent, received) = (ProbeState::InboundOk, vec![record], vec![record]);
        Message::Probe(Probe { tag: self.tag(), state, sent, received, options: Vec::new() })
    }

    fn error(&mut self) -> Message {
        Message::Error(ErrorMessage { code: ErrorCode::VERIFICATION, pointer: 50, packet: vec![0; 96] })
    }

    fn replayed(&mut self) -> Message {
        self.replay.clone()
    }
}
