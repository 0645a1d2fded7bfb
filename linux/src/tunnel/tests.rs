//! The TC programs, run by the kernel on single packets: packet in, verdict and packet out.

macro_rules! testbed_or_skip {
    ($name:literal) => {
        match netns_host::obstacle() {
            None => TestHost::new(),
            Some(why) => return println!("skipped: {}: {why}", $name),
        }
    };
}

mod encrypted_paths;
mod fixture;
mod flows;
mod ip4;
mod lookup;
mod outer_ip4;
mod outer_udp6;
mod packet;
mod prefix_slot;
mod sequence_recovery;
mod xdp;

use super::bpf::{Bpf, Options};
use super::{Tunnels, netns_host};
use crate::tunnel::bpf::attach::Program;
use aya::{TestRun, TestRunOptions};
use fixture::{CounterChanges, ECN, Fixture, decapsulation_cases, ecn_cases, encapsulation_cases};
use lookup::{care_of, care_of_now};
use packet::{Ip, frame, without_label};
use roam6_proto::LinkId;
use roam6_proto::base::vec_set::VecSet;
use roam6_proto::contract::item::{Encap, Tunnel, TunnelId, TunnelPath};
use roam6_wire::{Bid, Prefix};
use std::net::Ipv6Addr;
use std::time::Duration;

const HA: &str = "2001:db8:5::1";
const COA: &str = "2001:db8:2::2";
const CN: &str = "2001:db8:9::9";
const MNN: &str = "2001:db8:f0:1::2";
const INNER_COA: &str = "2001:db8:f0:2::2";
const INNER_MNN: &str = "2001:db8:f1:1::2";
const MOVED_AWAY: &str = "2001:db8:f2::2";

/// Nested prefixes, and one of a length that is used elsewhere.
const LONGER: [(u32, &str, &str); 4] = [
    (5, "2001:db8:f0:500::/56", "2001:db8:2::5"),
    (6, "2001:db8:f0:505::/64", "2001:db8:2::6"),
    (7, "2001:db8:f0:505::7/128", "2001:db8:2::7"),
    (8, "2001:db8:e000::/36", "2001:db8:2::8"),
];

const PASS: u32 = 0;
const DROP: u32 = 2;
const REDIRECT: u32 = 7;

/// Link-layer addresses of a frame to the next hop.
const TO_NEXT_HOP: [u8; 12] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];

struct TestHost {
    tunnels: Bpf,
    host: netns_host::Host,
    _next: netns_host::Host,
    _run: tempfile::TempDir,
}

impl TestHost {
    /// A home agent with one link, and mobile routers: one, one nested in it, and one without a path.
    fn new() -> TestHost {
        let host = netns_host::Host::new();
        let next = netns_host::Host::new();
        host.cable(("up0", "2001:db8:1::1/64"), &next, ("peer", "2001:db8:1::2/64"));
        host.ip("link set up0 address 02:00:00:00:00:01");
        host.ip("neighbour replace 2001:db8:1::2 lladdr 02:00:00:00:00:02 dev up0 nud permanent");
        host.ip("route add default via 2001:db8:1::2");
        host.ip("address add 2001:db8:5::1/128 dev lo");
        let run = tempfile::tempdir().unwrap();
        // The program is run in the namespace of the thread, so the thread stays there.
        host.stay();
        let mut tunnels = Bpf::open(options(&run)).unwrap();
        host.ip("route add 2001:db8:f0::/44 dev nemo0");
        let tunnel = |id, far: &str, care_of: Option<&str>| Tunnel {
            id: TunnelId(id),
            local_prefixes: vec!["::/0".parse().unwrap()],
            remote_prefixes: vec![far.parse().unwrap()],
            paths: care_of.map(path).into_iter().collect(),
            flows: Vec::new(),
        };
        tunnels.put(&tunnel(1, "2001:db8:f0::/48", Some(COA))).unwrap();
        tunnels.put(&tunnel(2, "2001:db8:f1::/48", Some(INNER_COA))).unwrap();
        tunnels.put(&tunnel(3, "2001:db8:f2::/48", None)).unwrap();
        tunnels.put(&tunnel(4, "2001:db8:f4::/48", Some("2001:db8:4::2"))).unwrap();
        for (id, far, care_of) in LONGER {
            tunnels.put(&tunnel(id, far, Some(care_of))).unwrap();
        }
        TestHost { tunnels, host, _next: next, _run: run }
    }

    /// The same after a restart of the daemon, which has put nothing yet.
    fn restart(self) -> TestHost {
        let TestHost { tunnels, host, _next, _run } = self;
        std::mem::drop(tunnels);
        let tunnels = Bpf::open(options(&_run)).unwrap();
        TestHost { tunnels, host, _next, _run }
    }

    /// Verdict and frame of a test run on an Ethernet frame, without cached next hops.
    fn run(&mut self, frame: &[u8]) -> (u32, Vec<u8>) {
        self.tunnels.invalidate_next_hops().unwrap();
        self.run_again(frame)
    }

    /// The same, with the increments of counters. The kernel itself sometimes sends multicast listener reports on the
    /// tunnel device, which are counted too: then it is run again.
    fn run_counted(&mut self, fixture: &Fixture) -> (CounterChanges, (u32, Vec<u8>)) {
        let mut once = || {
            let before = self.tunnels.counters();
            let result = self.run(&frame(&fixture.packet));
            let after = self.tunnels.counters();
            let moves = after.into_iter().map(|(name, count)| (count - before.get(&name).unwrap(), name));
            (moves.filter(|(count, _)| *count > 0).map(|(count, name)| (name, count)).collect(), result)
        };
        let first = once();
        if first.0 == fixture.counter_changes() { first } else { once() }
    }

    fn run_again(&mut self, frame: &[u8]) -> (u32, Vec<u8>) {
        let (verdict, out, _) = self.run_timed(frame);
        (verdict, out)
    }

    /// The same, with the time it took.
    fn run_timed(&mut self, frame: &[u8]) -> (u32, Vec<u8>, Duration) {
        let mut out = vec![0; frame.len() + 256];
        let program = self.tunnels.program(Program::Ethernet);
        let run = TestRunOptions { data_in: Some(frame), data_out: Some(&mut out), ..TestRunOptions::new() };
        let result = program.test_run(run).unwrap();
        out.truncate(result.data_size_out as usize);
        (result.return_value, out, result.duration)
    }
}

fn options(run: &tempfile::TempDir) -> Options {
    let (device, run) = ("nemo0".into(), run.path().to_owned());
    let signalling: VecSet<Ipv6Addr> = [HA.parse().unwrap()].into();
    let (dsmip_addresses, udp6_addresses) = (signalling.clone(), signalling);
    let (state_dir, encryption) = (run.clone(), crate::wireguard::Encryption::Off);
    Options {
        device,
        run,
        state_dir,
        encryption,
        xdp: true,
        max_tunnels: 128,
        dsmip_addresses,
        udp6_addresses,
        bonding: false,
    }
}

fn path(care_of: &str) -> TunnelPath {
    let (local, remote) = (HA.parse().unwrap(), care_of.parse().unwrap());
    TunnelPath {
        bid: Bid(0),
        local,
        remote,
        link: None,
        mtu: 1460,
        weight: 1,
        direct: false,
        encap: Encap::Native,
        dscp: None,
    }
}

#[test]
fn tc_programs_give_each_packet_its_verdict() {
    let mut testbed = testbed_or_skip!("tc_programs_give_each_packet_its_verdict");
    for fixture in encapsulation_cases().into_iter().chain(decapsulation_cases()).chain(ecn_cases()) {
        let (moved, (verdict, out)) = testbed.run_counted(&fixture);
        assert_eq!(verdict, fixture.verdict, "{}", fixture.description);
        assert_eq!(moved, fixture.counter_changes(), "{}", fixture.description);
        let Some(expected) = fixture.out else { continue };
        assert_eq!(without_label(&out[14..]), without_label(&expected), "{}", fixture.description);
        if let Some(addresses) = fixture.mac_addresses {
            assert_eq!((&out[..12], &out[12..14]), (&addresses[..], &[0x86, 0xdd][..]), "{}", fixture.description);
        }
    }
}

/// Attempts with a packet, should a next hop expire in between, as on a busy machine: then one packet takes the slow
/// path.
const TRIES: usize = 10;

#[test]
fn flow_cache_hits_only_the_same_flow() {
    let mut testbed = testbed_or_skip!("flow_cache_hits_only_the_same_flow");
    for before in [Ip::udp(CN, MNN), Ip::udp(MNN, CN).within(COA, HA)] {
        for fixture in encapsulation_cases().into_iter().chain(decapsulation_cases()).chain(ecn_cases()) {
            let mut seen = || {
                testbed.run(&frame(&before.0));
                let (verdict, out) = testbed.run_again(&frame(&fixture.packet));
                let out = fixture.mac_addresses.map(|_| without_label(&out[14..]));
                (verdict, out)
            };
            let expected = fixture.mac_addresses.and(fixture.out.as_deref()).map(without_label);
            let expected = (fixture.verdict, expected);
            let last = (0..TRIES).map(|_| seen()).find(|seen| *seen == expected);
            assert_eq!(last.unwrap_or_else(seen), expected, "{}", fixture.description);
        }
    }
}

#[test]
fn flow_cache_is_void_once_the_tunnel_changes() {
    let mut testbed = testbed_or_skip!("flow_cache_is_void_once_the_tunnel_changes");
    let packet = frame(&Ip::udp(MNN, CN).within(COA, HA).0);
    let former = testbed.tunnels.find(TunnelId(1)).unwrap();
    let moved = Tunnel { paths: vec![path("2001:db8:2::3")], ..former.clone() };
    assert_eq!([testbed.run(&packet).0, testbed.run_again(&packet).0], [REDIRECT; 2]);
    testbed.tunnels.put(&moved).unwrap();
    assert_eq!(testbed.run_again(&packet).0, DROP);
    testbed.tunnels.put(&former).unwrap();
    assert_eq!([testbed.run(&packet).0, testbed.run_again(&packet).0], [REDIRECT; 2]);
    testbed.tunnels.drop(TunnelId(1)).unwrap();
    assert_eq!(testbed.run_again(&packet).0, DROP);
}

#[test]
fn unchanged_tunnel_keeps_the_flow_cache() {
    let mut testbed = testbed_or_skip!("unchanged_tunnel_keeps_the_flow_cache");
    let tunnel = testbed.tunnels.find(TunnelId(1)).unwrap();
    let before = testbed.tunnels.epoch();
    testbed.tunnels.put(&tunnel).unwrap();
    assert_eq!(testbed.tunnels.epoch(), before);
    // Prefixes of more lengths than the tables hold: each time the addition is retried.
    let far = (33..53).map(|length| Prefix::new("2001:db9::".parse().unwrap(), length).unwrap()).collect();
    let crowded = Tunnel { remote_prefixes: far, ..tunnel };
    assert!(testbed.tunnels.put(&crowded).is_err() && testbed.tunnels.put(&crowded).is_err());
}

#[test]
fn flow_keeps_its_path_until_its_tunnel_changes() {
    let mut testbed = testbed_or_skip!("flow_keeps_its_path_until_its_tunnel_changes");
    let other = "2001:db8:2::3";
    let mut tunnel = testbed.tunnels.find(TunnelId(1)).unwrap();
    tunnel.paths.push(TunnelPath { bid: Bid(2), ..path(other) });
    for (weights, expected) in [([0, 1], other), ([1, 0], COA)] {
        for (path, weight) in tunnel.paths.iter_mut().zip(weights) {
            path.weight = weight;
        }
        testbed.tunnels.put(&tunnel).unwrap();
        for _ in 0..3 {
            assert_eq!(care_of_now(&mut testbed, MNN), Some(expected.parse().unwrap()));
        }
    }
}

#[test]
fn packets_of_no_tunnel_pass_unchanged() {
    let mut testbed = testbed_or_skip!("packets_of_no_tunnel_pass_unchanged");
    let mut to_other_host = frame(&Ip::udp(CN, MNN).0);
    to_other_host[0] = 2;
    let mut ip4 = frame(&Ip::udp(CN, MNN).0);
    ip4[12..14].copy_from_slice(&[8, 0]);
    for frame in [to_other_host, ip4] {
        assert_eq!(testbed.run(&frame), (PASS, frame));
    }
}

#[test]
fn truncated_packets_are_handled_by_tc() {
    let mut testbed = testbed_or_skip!("truncated_packets_are_handled_by_tc");
    let nested = Ip::udp(INNER_MNN, CN).within_limited(INNER_COA, HA).within(COA, HA);
    for packet in [frame(&nested.0), frame(&Ip::udp(CN, MNN).0)] {
        // The kernel runs no program on fewer octets than an IPv6 header.
        for length in 54..packet.len() {
            let (verdict, _) = testbed.run(&packet[..length]);
            assert!([PASS, DROP, REDIRECT].contains(&verdict), "{length} octets");
        }
    }
}

#[test]
fn flow_label_separates_flows_and_keeps_each_on_one_path() {
    let mut testbed = testbed_or_skip!("flow_label_separates_flows_and_keeps_each_on_one_path");
    let mut label = |port: u8| {
        let (_, out) = testbed.run(&frame(&Ip::new(CN, MNN, 17, &[0, port, 0, 80, 0, 8, 0, 0]).0));
        u32::from_be_bytes([0, out[15] & 0x0f, out[16], out[17]])
    };
    let labels: std::collections::BTreeSet<u32> = (0..64).map(&mut label).collect();
    assert!(labels.len() > 60);
    assert_eq!(label(1), label(1));
}

/// In `scripts/vm-run -i` a nanosecond is an instruction.
#[test]
#[ignore = "a measurement, not a test: docs/measured.md says how it is read"]
fn packet_cost_in_nanoseconds() {
    let mut testbed = testbed_or_skip!("packet_cost_in_nanoseconds");
    let mut shared = testbed.tunnels.find(TunnelId(4)).unwrap();
    shared.paths.push(TunnelPath { bid: Bid(2), ..path("2001:db8:2::3") });
    testbed.tunnels.put(&shared).unwrap();
    let mut ip4 = frame(&Ip::udp(CN, MNN).0);
    ip4[12..14].copy_from_slice(&[8, 0]);
    let packets = [
        ("not IPv6", ip4),
        ("in no tunnel", frame(&Ip::udp(CN, "2001:db8:99::1").0)),
        ("into a tunnel of one path", frame(&Ip::udp(CN, MNN).0)),
        ("into a tunnel of two paths", frame(&Ip::udp(CN, "2001:db8:f4::4").0)),
        ("out of a tunnel", frame(&Ip::udp(MNN, CN).within(COA, HA).0)),
    ];
    for (says, packet) in packets {
        let mut least = |known: bool| {
            let once = |_| {
                testbed.run(&packet);
                if !known {
                    shared.paths[0].weight += 1;
                    testbed.tunnels.put(&shared).unwrap();
                }
                testbed.run_timed(&packet).2
            };
            (0..9).map(once).min().unwrap().as_nanos()
        };
        println!("{says}: {} ns; the first after a tunnel has changed {} ns", least(true), least(false));
    }
}
