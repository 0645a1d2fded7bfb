//! A million malformed, forged and replayed mobility messages against a running home agent (RFC 6275 §15, RFC 4285 §8),
//! and attacks that need several messages.

use crate::attacks::{acknowledgements, attacker_address, insider, lengths, loops, restarts, sources};
use crate::bed::tap::Tap;
use crate::experiments::prelude::*;
use crate::load::Delivery;
use crate::load::forge::SyntheticRouter;
use crate::load::handover::{HandoverTraffic, OBSERVATION_TIME, round_trip};
use crate::topology::nemo::{self, CORRESPONDENT, HOME_AGENT, NO_DAD, NemoNetwork};
use roam6_proto::Entropy;
use roam6_wire::mobility::{BindingAcknowledgement, Message, Status};
use roam6_wire::{HomeAddress, Sequence};
use std::net::Ipv6Addr;

/// Messages sent before the attacker pauses, and its rate.
const BURST: u32 = 100;
const PER_SECOND: u32 = 20_000;
/// Time for the home agent to process the last messages in its queue.
const SETTLE_TIME: Duration = Duration::from_secs(2);
/// Tolerated change of memory, octets: allocator noise.
const MEMORY_TOLERANCE: u64 = 512 * 1024;

/// Attacks in addition to the flood, each in a network of its own.
const ATTACK_COUNT: usize = 6;
/// Two encapsulations and two fragmentations are legitimate for one packet.
const MOST_FORWARDED: u64 = 4;

/// Offset of the Mobility Header: after the IPv6 header and the destination options with a Home Address option.
const MESSAGE_OFFSET: u64 = 64;

/// An attack: its name, and the generator of its next message, with a sequence number.
type Attack = (&'static str, fn(&mut Attacker, Sequence) -> Vec<u8>);

/// An attack whose result is a count and a row.
type CountedAttack = fn() -> Result<(usize, Value)>;

const ATTACKS: [Attack; 9] = [
    ("random octets", Attacker::random),
    ("one bit wrong", Attacker::flipped),
    ("cut off", Attacker::truncated),
    ("forged: wrong key", Attacker::forged),
    ("forged: no proof", Attacker::unsigned),
    ("forged: unknown home address", Attacker::unknown_home_address),
    ("replayed: right key, old timestamp", Attacker::replayed),
    ("unknown message type", Attacker::unknown_type),
    ("not for a home agent", Attacker::misdirected),
];

pub(super) fn run(run: &mut Run) -> Result<()> {
    run.set_steps(ATTACKS.len() + ATTACK_COUNT);
    run_flood(run)?;
    run_attacks(run)
}

/// Attacks in networks of their own: each figure is 0 if the attack fails; one is small.
fn run_attacks(run: &mut Run) -> Result<()> {
    run.step("signed refusals");
    let unbound = acknowledgements::unbound_seconds(Duration::from_secs(if run.quick { 10 } else { 60 }))?;
    run.summarise("unbound_by_outsider_s", round(unbound));
    run.require(unbound <= 0.0, || format!("an outsider kept a mobile router unbound for {unbound:.1} s"));
    run.step("loops");
    let rows = loops::forwarded_per_packet()?;
    let most = rows.iter().filter_map(|row| row.get("forwarded").and_then(Value::as_u64)).max().unwrap_or(0);
    run.rows.extend(rows);
    run.summarise("forwarded_per_packet_max", most);
    run.require(most <= MOST_FORWARDED, || format!("one packet was forwarded {most} times"));
    run.step("spoofed sources");
    let (count, rows) = sources::forwarded_spoofed()?;
    run.rows.extend(rows);
    require_zero(run, "foreign_source_forwarded", "packets with a spoofed source were forwarded", count);
    let counted: [(&str, &str, CountedAttack); 3] = [
        ("insider_locks_out", "mobile routers locked out by an insider", lengths::locked_out),
        ("full_disk_farewells_undone", "acknowledged de-registrations undone", restarts::undone_deregistrations),
        ("accepted_replays_after_restart", "replayed updates accepted after a restart", restarts::accepted_replays),
    ];
    for (name, what, attack) in counted {
        run.step(name);
        let (count, row) = attack()?;
        run.rows.push(row);
        require_zero(run, name, what, count);
    }
    Ok(())
}

/// Requires a figure to be 0.
fn require_zero(run: &mut Run, name: &str, what: &str, count: usize) {
    run.summarise(name, count);
    run.require(count == 0, || format!("{count} {what}"));
}

fn run_flood(run: &mut Run) -> Result<()> {
    let total: u32 = if run.quick { 90_000 } else { 1_000_000 };
    let each = total.div_ceil(u32::try_from(ATTACKS.len())?);
    let (network, vehicle) = NemoNetwork::with_vehicle(Duration::ZERO, NO_DAD, "")?;
    let mut attacker = Attacker::new(&network)?;
    let traffic = HandoverTraffic::start(&network, &vehicle)?;
    sleep(OBSERVATION_TIME);
    let began = clock::unix_micros();
    let memory_before = network.home_agent.anonymous_memory()?;
    let (mut sent, mut accounted) = (0, 0);
    for (name, make) in ATTACKS {
        run.step(name);
        let before = network.home_agent.counters("events")?;
        attacker.send_burst(each, make)?;
        sleep(SETTLE_TIME);
        let mut grown = network.home_agent.counter_growth(&before)?;
        grown.retain(|name, _| is_result_counter(name));
        let counted: u64 = grown.values().sum();
        sent += u64::from(each);
        accounted += counted;
        run.rows.push(json!({ "attack": name, "sent": each, "counted": counted, "as": grown }));
    }
    let memory_after = network.home_agent.anonymous_memory()?;
    let end = clock::unix_micros() - 150_000;
    let lost = traffic.fine.lost(began, end);
    let bound = round_trip(&vehicle).is_ok() && vehicle.wait_until_connected(CORRESPONDENT).is_ok();
    let tcp_survived = traffic.finish()?.iter().all(Delivery::is_complete);
    let grown = memory_after.saturating_sub(memory_before);
    run.require(bound, || "the mobile router is not bound at the end".to_owned());
    run.require_tcp(tcp_survived);
    run.require(lost == 0, || format!("{lost} legitimate packets were lost"));
    run.require(grown <= MEMORY_TOLERANCE, || format!("memory grew by {grown} octets"));
    run.require(accounted == sent, || format!("{accounted} of {sent} hostile messages are accounted for"));
    run.summarise("sent", sent);
    run.summarise("accounted", accounted);
    run.summarise("seconds", round((end - began) as f64 / 1e6));
    run.summarise("memory_before_kb", memory_before / 1024);
    run.summarise("memory_after_kb", memory_after / 1024);
    run.summarise("legitimate_lost", lost);
    run.summarise("still_bound", u8::from(bound));
    Ok(())
}

/// Whether this counter is the outcome of a message.
fn is_result_counter(name: &str) -> bool {
    name.starts_with("dropped_") || name == "refused" || name == "binding_error"
}

/// An attacker on a link of its own to the home agent, with knowledge of all addresses and no key.
struct Attacker {
    tap: Tap,
    rng: Entropy,
    victim: SyntheticRouter,
    genuine: SyntheticRouter,
}

impl Attacker {
    fn new(network: &NemoNetwork) -> Result<Attacker> {
        let tap = Tap::open(&network.ha, "evil0")?;
        network.ha.ip(&["route add 2001:db8:bad::/48 via fe80::1 dev evil0"])?;
        let genuine = insider(0, attacker_address(1));
        let victim = SyntheticRouter { key: b"not the key you seek".to_vec(), ..genuine.clone() };
        Ok(Attacker { tap, rng: Entropy::seed_from_u64(13), victim, genuine })
    }

    /// Sends so many messages and discards the answers.
    fn send_burst(&mut self, count: u32, make: fn(&mut Attacker, Sequence) -> Vec<u8>) -> Result<()> {
        let pause = Duration::from_secs(1) * BURST / PER_SECOND;
        let mut next = clock::now();
        for number in 0..count {
            if number % BURST == 0 {
                self.tap.discard();
                next += pause;
                sleep(next.saturating_duration_since(clock::now()));
            }
            // Half of the random numbers are newer than the last one accepted.
            let sequence = Sequence(u16::try_from(self.rng.below(1 << 16)).unwrap_or_default());
            let packet = make(self, sequence);
            self.tap.send(&packet)?;
        }
        Ok(())
    }

    fn random(&mut self, _: Sequence) -> Vec<u8> {
        let mut header = vec![0; usize::try_from(8 + self.rng.below(200)).unwrap_or(8)];
        self.rng.fill(&mut header);
        self.victim.packet_with(&header)
    }

    fn flipped(&mut self, sequence: Sequence) -> Vec<u8> {
        let mut packet = self.victim.update(sequence);
        // After the IPv6 header and the Home Address option, so that the packet is still a mobility message for this
        // host.
        let bits = (packet.len() as u64 - MESSAGE_OFFSET) * 8;
        let bit = self.rng.below(bits);
        if let Some(octet) = usize::try_from(MESSAGE_OFFSET + bit / 8).ok().and_then(|at| packet.get_mut(at)) {
            *octet ^= 1 << (bit % 8);
        }
        packet
    }

    fn truncated(&mut self, sequence: Sequence) -> Vec<u8> {
        let update = self.victim.update(sequence);
        let message = update.get(usize::try_from(MESSAGE_OFFSET).unwrap_or(0)..).unwrap_or_default();
        let length = usize::try_from(self.rng.below(message.len() as u64)).unwrap_or(0);
        self.victim.packet_with(message.get(..length).unwrap_or_default())
    }

    fn forged(&mut self, sequence: Sequence) -> Vec<u8> {
        self.victim.update(sequence)
    }

    fn unsigned(&mut self, sequence: Sequence) -> Vec<u8> {
        self.victim.unsigned_update(sequence)
    }

    fn unknown_home_address(&mut self, sequence: Sequence) -> Vec<u8> {
        let home =
            HomeAddress(Ipv6Addr::from_bits(nemo::home_address(1).to_bits() + u128::from(self.rng.below(1 << 32))));
        SyntheticRouter { home_address: home, ..self.victim.clone() }.update(sequence)
    }

    /// An update recorded a minute ago.
    fn replayed(&mut self, sequence: Sequence) -> Vec<u8> {
        self.genuine.update_at(sequence, clock::unix_micros() - 60_000_000)
    }

    fn unknown_type(&mut self, _: Sequence) -> Vec<u8> {
        let kind = u8::try_from(100 + self.rng.below(100)).unwrap_or(u8::MAX);
        let message = Message::Unknown { kind, body: vec![0; 10] };
        self.victim.packet_with(&message.emit(self.victim.home_address.0, HOME_AGENT))
    }

    fn misdirected(&mut self, sequence: Sequence) -> Vec<u8> {
        let message = Message::BindingAcknowledgement(BindingAcknowledgement {
            status: Status::ACCEPTED,
            flags: Default::default(),
            sequence,
            lifetime_units: 100,
            options: Vec::new(),
        });
        self.victim.packet_with(&message.emit(self.victim.home_address.0, HOME_AGENT))
    }
}
