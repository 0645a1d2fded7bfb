//! The Shim6 programs, run by the kernel on single packets: packet in, verdict and packet out.

use super::abi::{self, ContextIndex};
use super::programs::{Program, Programs};
use crate::tunnel::netns_host;
use aya::{TestRun, TestRunOptions};
use roam6_proto::LinkId;
use roam6_proto::base::ids::{AddressPair, ContextId};
use roam6_proto::contract::item::ShimContext;
use roam6_wire::shim6::{Fork, Tag};

const ULID: &str = "2001:db8:a1::1";
const PEER: &str = "2001:db8:a2::2";
const LOCATOR: &str = "2001:db8:b1::1";
const PEERS_LOCATOR: &str = "2001:db8:b2::2";
/// A peer with a context that rewrites nothing.
const IDLE_PEER: &str = "2001:db8:a3::3";
const TAG_IN: u64 = 0x7edc_ba98_7654;
const TAG_OUT: u64 = 0x1234_5678_9abc;

const NEXT: u32 = u32::MAX;
const DROP: u32 = 2;
const REDIRECT: u32 = 7;

fn pair(local: &str, peer: &str) -> AddressPair {
    AddressPair { local: local.parse().unwrap(), peer: peer.parse().unwrap() }
}

fn context(peer: &str, locators: AddressPair, link: u32) -> ShimContext {
    ShimContext {
        id: ContextId { ulids: pair(ULID, peer), fork: Fork::NONE },
        locators,
        link: LinkId(link),
        next_hop: None,
        tag_in: Tag::new(TAG_IN).unwrap(),
        tag_out: Tag::new(TAG_OUT).unwrap(),
        allowed_sources: vec![PEER.parse().unwrap(), PEERS_LOCATOR.parse().unwrap()],
    }
}

fn packet(way: AddressPair, next: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x6a, 0xbc, 0xde, 0xf0, 0, 0, next, 77];
    packet[4..6].copy_from_slice(&(payload.len() as u16).to_be_bytes());
    packet.extend([way.local.octets(), way.peer.octets()].concat());
    packet.extend(payload);
    packet
}

fn shimmed(way: AddressPair, tag: u64, next: u8, payload: &[u8]) -> Vec<u8> {
    let head = (u64::from(next) << 56 | 1 << 47 | tag).to_be_bytes();
    packet(way, 140, &[&head, payload].concat())
}

struct ShimPrograms(Programs);

impl ShimPrograms {
    /// A context that rewrites, by the interface of test runs: the loopback interface.
    fn new() -> ShimPrograms {
        let mut programs = Programs::load(8).unwrap();
        let rewriting = context(PEER, pair(LOCATOR, PEERS_LOCATOR), 1);
        let idle = context(IDLE_PEER, pair(ULID, IDLE_PEER), 1);
        for (slot, context) in [(ContextIndex(1), &idle), (ContextIndex(0), &rewriting)] {
            programs.contexts.put(&abi::context_key(context.id), &abi::encode_context(context, slot)).unwrap();
            programs.tags.put(&context.tag_in.bits(), &abi::encode_tag(context, slot)).unwrap();
        }
        ShimPrograms(programs)
    }

    fn run(&mut self, which: Program, packet: &[u8]) -> (u32, Vec<u8>) {
        let frame = [&[0; 12][..], &[0x86, 0xdd], packet].concat();
        let mut out = vec![0; frame.len() + 64];
        let run = TestRunOptions { data_in: Some(&frame), data_out: Some(&mut out), ..TestRunOptions::new() };
        let result = self.0.program(which).unwrap().test_run(run).unwrap();
        (result.return_value, out[14..result.data_size_out as usize].to_vec())
    }

    fn carried(&self, slot: u32) -> [u64; 4] {
        let carried = abi::decode_traffic(&self.0.traffic(ContextIndex(slot)).unwrap());
        [carried.packets_out, carried.octets_out, carried.packets_in, carried.octets_in]
    }
}

const LEAVE: Program = Program::Egress { ethernet: true };
const ARRIVE: Program = Program::Ingress { ethernet: true };
const UDP: [u8; 12] = [0x13, 0x88, 0x13, 0x89, 0, 12, 0xab, 0xcd, 1, 2, 3, 4];

macro_rules! programs_or_skip {
    ($name:literal) => {
        match netns_host::obstacle() {
            None => ShimPrograms::new(),
            Some(why) => return println!("skipped: {}: {why}", $name),
        }
    };
}

#[test]
#[rustfmt::skip]
fn shim_programs_give_each_packet_its_verdict() {
    let mut programs = programs_or_skip!("shim_programs_give_each_packet_its_verdict");
    let (ulids, locators) = (pair(ULID, PEER), pair(LOCATOR, PEERS_LOCATOR));
    let (back, home) = (pair(PEERS_LOCATOR, LOCATOR), pair(PEER, ULID));
    let fragment = [&[17, 0, 0, 1, 0, 0, 0, 9][..], &UDP].concat();
    let control = packet(back, 140, &[59, 0, 1, 0, 0, 0, 0, 0]);
    let idle = pair(ULID, IDLE_PEER);
    let same = |packet: Vec<u8>| (packet.clone(), NEXT, Some(packet));
    let options = |next: u8, units: u8| [&[next, units - 1, 5, 2, 0, 0][..], &vec![1; usize::from(units) * 8 - 6]].concat();
    let headed = |way, units, rest: &[u8]| packet(way, 0, &[&options(140, units), rest].concat());
    let head = |tag: u64| (17 << 56 | 1 << 47 | tag).to_be_bytes();
    let plain = |way, units| packet(way, 0, &[&options(17, units)[..], &UDP].concat());
    let fixtures = [
        ("a packet of the ULIDs leaves by the locators, its checksum as it was",
            LEAVE, (packet(ulids, 17, &UDP), NEXT, Some(shimmed(locators, TAG_OUT, 17, &UDP)))),
        ("the header precedes the fragment header",
            LEAVE, (packet(ulids, 44, &fragment), NEXT, Some(shimmed(locators, TAG_OUT, 44, &fragment)))),
        ("nothing is added while locators are ULIDs", LEAVE, same(packet(idle, 17, &UDP))),
        ("nor for a packet of no context", LEAVE, same(packet(pair(ULID, "2001:db8:ff::1"), 17, &UDP))),
        ("nor to the shim's own messages", LEAVE, same(packet(ulids, 140, &[59, 0, 1, 0, 0, 0, 0, 0]))),
        ("nor on the link", LEAVE, same(packet(pair("fe80::1", "fe80::2"), 17, &UDP))),
        ("what arrives with a tag gets the ULIDs back",
            ARRIVE, (shimmed(back, TAG_IN, 17, &UDP), NEXT, Some(packet(home, 17, &UDP)))),
        ("a fragment too",
            ARRIVE, (shimmed(back, TAG_IN, 44, &fragment), NEXT, Some(packet(home, 44, &fragment)))),
        ("the header follows hop-by-hop options",
            LEAVE, (plain(ulids, 1), NEXT, Some(headed(locators, 1, &[&head(TAG_OUT)[..], &UDP].concat())))),
        ("which may be many", LEAVE, (plain(ulids, 8), NEXT, Some(headed(locators, 8, &[&head(TAG_OUT)[..], &UDP].concat())))),
        ("but not too many", LEAVE, (plain(ulids, 9), DROP, None)),
        ("and is found behind them",
            ARRIVE, (headed(back, 2, &[&head(TAG_IN)[..], &UDP].concat()), NEXT, Some(plain(home, 2)))),
        ("a packet with an unknown tag is passed to the daemon", ARRIVE, (shimmed(back, TAG_IN - 1, 17, &UDP), DROP, None)),
        ("so is a stranger's source",
            ARRIVE, (shimmed(pair("2001:db8:bad::1", LOCATOR), TAG_IN, 17, &UDP), DROP, None)),
        ("control messages go up by themselves", ARRIVE, same(control)),
        ("what bears no header is only counted", ARRIVE, same(packet(home, 17, &UDP))),
        ("a segment gets its header and is forwarded", Program::Segmented,
            (packet(ulids, 17, &UDP), REDIRECT, Some(shimmed(locators, TAG_OUT, 17, &UDP)))),
        ("a segment of no context is dropped", Program::Segmented, (packet(home, 17, &UDP), DROP, None)),
    ];
    for (says, program, (packet, verdict, out)) in fixtures {
        let (got, after) = programs.run(program, &packet);
        assert_eq!(got, verdict, "{says}");
        if let Some(out) = out {
            assert_eq!(after, out, "{says}");
        }
    }
    // Fragments, and options of 8, 64, 72 and 16 octets among them.
    assert_eq!(programs.carried(0), [5, 52 + 60 + 60 + 116 + 124, 4, 60 + 68 + 52 + 76]);
    assert_eq!(programs.carried(1), [1, 52, 0, 0]);
    let handed: Vec<Vec<u8>> = std::iter::from_fn(|| programs.0.read_event()).filter_map(|event| match event {
        abi::Event::Packet { octets, .. } => Some(octets),
        _ => None,
    }).collect();
    assert_eq!(handed.len(), 2);
    assert_eq!(handed[0], shimmed(back, TAG_IN - 1, 17, &UDP));
}

#[test]
fn truncated_packets_are_handled_by_shim_programs() {
    let mut programs = programs_or_skip!("truncated_packets_are_handled_by_shim_programs");
    let whole = shimmed(pair(PEERS_LOCATOR, LOCATOR), TAG_IN, 17, &UDP);
    let out = packet(pair(ULID, PEER), 17, &UDP);
    for length in 40..whole.len() {
        let (verdict, _) = programs.run(ARRIVE, &whole[..length]);
        assert!([NEXT, DROP].contains(&verdict), "{length} octets");
    }
    for length in 40..out.len() {
        for program in [LEAVE, Program::Segmented] {
            let (verdict, _) = programs.run(program, &out[..length]);
            assert!([NEXT, DROP, REDIRECT].contains(&verdict), "{length} octets");
        }
    }
}
