//! The sequence recovery of the programs against a model (IEEE 802.1CB §7.4.3.4), and what others can do to it.

use super::{CN, DROP, HA, Ip, MNN, REDIRECT, TestHost, frame, netns_host, path};
use crate::tunnel::Tunnels;
use crate::tunnel::bpf::abi::sequence::SequenceValue;
use nix::time::{ClockId, clock_gettime};
use roam6_proto::Entropy;
use roam6_proto::contract::config::flow::FlowSelector;
use roam6_proto::contract::item::{Tunnel, TunnelFlow, TunnelId, TunnelPath};
use roam6_wire::Bid;
use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Two tunnels with replicated flows, a node behind each, and the care-of addresses of each.
const TUNNEL: TunnelId = TunnelId(30);
const OTHER: TunnelId = TunnelId(31);
const NODE: &str = "2001:db8:f8::2";
const OTHER_NODE: &str = "2001:db8:f9::2";
const PATHS: [&str; 2] = ["2001:db8:2::11", "2001:db8:2::12"];
const OTHER_PATHS: [&str; 2] = ["2001:db8:2::21", "2001:db8:2::22"];
/// As in `bpf/sequence_recovery.h`.
const WINDOW: i64 = 4096;
const AHEAD: i64 = 65_536;

fn put(testbed: &mut TestHost, id: TunnelId, far: &str, care_of: [&str; 2]) {
    let paths = [1, 2].map(|bid| TunnelPath { bid: Bid(bid), ..path(care_of[usize::from(bid) - 1]) });
    let flow = TunnelFlow { selector: FlowSelector::default(), ingress: None, bid: Bid(1), replica: Some(Bid(2)) };
    let tunnel = Tunnel {
        id,
        local_prefixes: vec!["::/0".parse().unwrap()],
        remote_prefixes: vec![far.parse().unwrap()],
        paths: paths.to_vec(),
        flows: vec![flow],
    };
    testbed.tunnels.put(&tunnel).unwrap();
}

fn testbed() -> TestHost {
    let mut testbed = TestHost::new();
    put(&mut testbed, TUNNEL, "2001:db8:f8::/48", PATHS);
    put(&mut testbed, OTHER, "2001:db8:f9::/48", OTHER_PATHS);
    testbed
}

macro_rules! testbed_or_skip {
    ($name:literal) => {
        match netns_host::obstacle() {
            None => testbed(),
            Some(why) => return println!("skipped: {}: {why}", $name),
        }
    };
}

/// A packet with this number from a node, in the tunnel from this care-of address.
fn numbered(node: &str, care_of: &str, sequence: u32) -> Vec<u8> {
    let [a, b, c, d] = sequence.to_be_bytes();
    frame(&Ip::udp(node, CN).within_options(care_of, HA, [0x1e, 4, a, b, c, d]).0)
}

/// Makes the programs believe that the last packet passed so long ago: the tests take their own time.
fn set_age(testbed: &mut TestHost, age: Duration) {
    let now = Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC_COARSE).unwrap());
    let accepted = u64::try_from(now.saturating_sub(age).as_nanos()).unwrap();
    let mut value: SequenceValue = testbed.tunnels.sequences(TUNNEL).unwrap();
    value[16..24].copy_from_slice(&accepted.to_ne_bytes());
    testbed.tunnels.set_sequences(TUNNEL, &value);
}

/// What becomes of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    Passed,
    Reset,
    Eliminated,
    Rogue,
}

impl Fate {
    fn counter(self) -> &'static str {
        match self {
            Fate::Passed => "decapsulated",
            Fate::Reset => "recovery_resets",
            Fate::Eliminated => "eliminated",
            Fate::Rogue => "dropped_rogue",
        }
    }
}

/// The window as a set of numbers.
#[derive(Default)]
struct Model {
    highest: Option<u32>,
    accepted: BTreeSet<u32>,
}

impl Model {
    fn receive(&mut self, sequence: u32, is_quiet: bool) -> Fate {
        let ahead = self.highest.map(|highest| i64::from(sequence.wrapping_sub(highest).cast_signed()));
        match ahead {
            Some(ahead) if (-WINDOW..=AHEAD).contains(&ahead) => {
                if !self.accepted.insert(sequence) {
                    return Fate::Eliminated;
                }
                self.highest = self.highest.filter(|_| ahead <= 0).or(Some(sequence));
                Fate::Passed
            }
            Some(_) if !is_quiet => Fate::Rogue,
            _ => {
                self.highest = Some(sequence);
                self.accepted = [sequence].into();
                Fate::Reset
            }
        }
    }
}

/// The packets of a sender, each perhaps lost, sent twice, delayed, or preceded by a pause; now and then it restarts.
fn arrivals(seed: u64, packets: u32) -> Vec<(u32, bool)> {
    let mut entropy = Entropy::seed_from_u64(seed);
    let start = if seed.is_multiple_of(2) { u32::MAX - packets / 2 } else { entropy.below(1 << 32) as u32 };
    let (mut sequence, mut queue, mut out) = (start, Vec::<(u32, u32)>::new(), Vec::new());
    for now in 0..packets {
        sequence = match entropy.below(400) {
            0 => entropy.below(1 << 32) as u32,
            1 => sequence.wrapping_add(5000),
            2 => sequence.wrapping_add(70_000),
            _ => sequence.wrapping_add(1),
        };
        for copy in 0..2 {
            let delay = match entropy.below(100) {
                0..10 => continue,
                10 => 4000 + entropy.below(400),
                11..40 => entropy.below(90) * copy,
                _ => 0,
            };
            queue.push((now + delay as u32, sequence));
        }
        let due: Vec<_> = queue.extract_if(.., |(at, _)| *at <= now).collect();
        let is_quiet = entropy.below(300) == 0;
        out.extend(due.into_iter().enumerate().map(|(place, (_, number))| (number, is_quiet && place == 0)));
    }
    out
}

#[test]
fn programs_recover_sequences_as_the_model() {
    let mut testbed = testbed_or_skip!("programs_recover_sequences_as_the_model");
    let mut seen = BTreeSet::new();
    for seed in 0..4 {
        put(&mut testbed, TUNNEL, "2001:db8:f8::/48", PATHS);
        let mut model = Model::default();
        for (place, (sequence, is_quiet)) in arrivals(seed, 5000).into_iter().enumerate() {
            let fate = model.receive(sequence, is_quiet);
            match fate {
                Fate::Reset if place > 0 => set_age(&mut testbed, Duration::from_secs(2)),
                Fate::Rogue => set_age(&mut testbed, Duration::ZERO),
                _ => {}
            }
            let care_of = PATHS[place % 2];
            let expected = if fate <= Fate::Reset { REDIRECT } else { DROP };
            let (verdict, _) = testbed.run_again(&numbered(NODE, care_of, sequence));
            assert_eq!(verdict, expected, "seed {seed}, packet {place}: number {sequence}, {fate:?}");
            seen.insert(fate);
        }
        testbed.tunnels.drop(TUNNEL).unwrap();
    }
    assert_eq!(seen.len(), 4, "{seen:?}");
}

/// Fails unless a packet has this fate, counted once.
fn expect(testbed: &mut TestHost, says: &str, packet: &[u8], fate: (u32, &str)) -> Vec<u8> {
    let before = testbed.tunnels.counters();
    let (verdict, out) = testbed.run_again(packet);
    let count = testbed.tunnels.counters().get(fate.1).unwrap() - before.get(fate.1).unwrap();
    assert_eq!((verdict, count), (fate.0, 1), "{says}");
    out
}

#[test]
fn first_copy_passes_without_its_number() {
    let mut testbed = testbed_or_skip!("first_copy_passes_without_its_number");
    let expected = Ip::udp(NODE, CN).hop_limit(63);
    let out = expect(&mut testbed, "the first", &numbered(NODE, PATHS[1], 7), (REDIRECT, Fate::Reset.counter()));
    assert_eq!(out[14..], expected.0);
    for (says, care_of) in [("the second", PATHS[0]), ("a replayed first", PATHS[1])] {
        expect(&mut testbed, says, &numbered(NODE, care_of, 7), (DROP, Fate::Eliminated.counter()));
    }
    let plain = frame(&Ip::udp(NODE, CN).within(PATHS[0], HA).0);
    for _ in 0..2 {
        expect(&mut testbed, "equal packets without a number", &plain, (REDIRECT, "decapsulated"));
    }
    let number = numbered(MNN, super::COA, 7);
    for _ in 0..2 {
        expect(&mut testbed, "a tunnel without replicated flows", &number, (REDIRECT, "decapsulated"));
    }
}

/// The daemon writes the tunnel between a packet and its clone: both leave by the paths that it had.
#[test]
fn replicated_packets_survive_changes_of_their_tunnel() {
    const UPDATES: usize = 3000;
    let mut testbed = testbed_or_skip!("replicated_packets_survive_changes_of_their_tunnel");
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let socket = UdpSocket::bind("[::]:0").unwrap();
            while !ends.load(Ordering::Relaxed) {
                socket.send_to(&[0; 100], (NODE, 9)).ok();
            }
        });
        let [first, second] = PATHS;
        for paths in [[second, first], PATHS].into_iter().cycle().take(UPDATES) {
            put(&mut testbed, TUNNEL, "2001:db8:f8::/48", paths);
        }
        ends.store(true, Ordering::Relaxed);
    });
    let counters = testbed.tunnels.counters();
    assert!(counters.get("replicated").is_some_and(|count| *count > 100), "{counters:?}");
    assert_eq!(counters.get("dropped_no_path"), Some(&0), "{counters:?}");
}

/// The numbers of 64 tunnels are equal, and are told apart.
#[test]
fn many_tunnels_recover_their_own_sequences() {
    let mut testbed = testbed_or_skip!("many_tunnels_recover_their_own_sequences");
    let tunnels: Vec<(String, [String; 2])> = (0..64_u32)
        .map(|number| {
            let care_of = [1, 2].map(|path| format!("2001:db8:2::{number:x}:{path}"));
            let far = format!("2001:db8:e{number:x}::/48");
            put(&mut testbed, TunnelId(100 + number), &far, care_of.each_ref().map(String::as_str));
            (format!("2001:db8:e{number:x}::2"), care_of)
        })
        .collect();
    for sequence in 1..=3 {
        for copy in 0..2 {
            for (node, care_of) in &tunnels {
                let (verdict, _) = testbed.run_again(&numbered(node, &care_of[copy], sequence));
                assert_eq!(verdict, if copy == 0 { REDIRECT } else { DROP }, "{node}, number {sequence}, copy {copy}");
            }
        }
    }
}

#[test]
fn others_do_not_move_the_window() {
    let mut testbed = testbed_or_skip!("others_do_not_move_the_window");
    let pass = (REDIRECT, "decapsulated");
    expect(&mut testbed, "begins", &numbered(NODE, PATHS[0], 100), pass);
    let before = testbed.tunnels.sequences(TUNNEL).unwrap();
    for (says, packet, counter) in [
        ("a stranger's address", numbered(NODE, "2001:db8:2::99", 60_000), "dropped_source"),
        ("the address of another mobile router", numbered(NODE, OTHER_PATHS[0], 60_000), "dropped_source"),
        ("a node of another mobile network", numbered(OTHER_NODE, PATHS[0], 60_000), "dropped_source"),
        ("a node of none", numbered("2001:db8:bad::1", PATHS[0], 60_000), "dropped_source"),
        ("link-local inside", numbered("fe80::1", PATHS[0], 60_000), "dropped_scope"),
        ("a number far ahead, from the right address", numbered(NODE, PATHS[0], 70_000), "dropped_rogue"),
        ("one far behind", numbered(NODE, PATHS[0], 100_u32.wrapping_sub(4097)), "dropped_rogue"),
    ] {
        expect(&mut testbed, says, &packet, (DROP, counter));
        assert_eq!(testbed.tunnels.sequences(TUNNEL), Some(before), "{says}");
    }
    expect(&mut testbed, "numbers are of one tunnel", &numbered(OTHER_NODE, OTHER_PATHS[1], 100), pass);
    expect(&mut testbed, "the next", &numbered(NODE, PATHS[1], 101), pass);
    put(&mut testbed, TUNNEL, "2001:db8:f8::/48", PATHS);
    let mut testbed = testbed.restart();
    put(&mut testbed, TUNNEL, "2001:db8:f8::/48", PATHS);
    expect(&mut testbed, "after a restart of the daemon", &numbered(NODE, PATHS[1], 101), (DROP, "eliminated"));
}
