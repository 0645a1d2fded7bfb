//! Packets of encrypted paths: how they are forwarded, and where those with addresses of subflows may come from and go to.

use super::{CN, COA, DROP, HA, Ip, PASS, REDIRECT, TO_NEXT_HOP, TRIES, TestHost, frame, netns_host, path};
use crate::tunnel::Tunnels;
use crate::tunnel::bpf::attach::Program;
use aya::{TestRun, TestRunOptions};
use roam6_proto::LinkId;
use roam6_proto::contract::config::encryption::DeviceNumber;
use roam6_proto::contract::item::subflow::{subflow_address, subflow_prefix};
use roam6_proto::contract::item::{Encap, Tunnel, TunnelId, TunnelPath, WireguardPeer};
use roam6_proto::crypto::wireguard::{PresharedKey, PublicKey};
use roam6_wire::{Bid, Prefix};

/// The ingress interface of test runs.
const INGRESS: LinkId = LinkId(0);
const HOME: &str = "2001:db8:5::100";
const RELAY: u16 = roam6_wire::relay::PORT;
const TCP: u8 = 6;
const UDP: u8 = 17;

fn of(home: &str, bid: u16) -> String {
    subflow_address(home.parse().unwrap(), Bid(bid)).unwrap().to_string()
}

/// A tunnel of two paths, with addresses of subflows.
fn tunnel() -> Tunnel {
    let home = HOME.parse().unwrap();
    Tunnel {
        id: TunnelId(40),
        local_prefixes: vec![Prefix::ALL],
        remote_prefixes: vec![Prefix::host(home), subflow_prefix(home)],
        paths: vec![TunnelPath { bid: Bid(1), ..path(COA) }, TunnelPath { bid: Bid(2), ..path("2001:db8:3::2") }],
        flows: Vec::new(),
    }
}

fn encrypted(mut tunnel: Tunnel) -> Tunnel {
    for path in &mut tunnel.paths {
        let (public_key, preshared_key) = (PublicKey([1; 32]), PresharedKey([2; 32]));
        let device = DeviceNumber(path.bid.0);
        path.encap = Encap::Wireguard(WireguardPeer { device, public_key, preshared_key, port: 0, initiates: false });
    }
    tunnel
}

fn with_ports(from: &str, to: &str, protocol: u8, ports: (u16, u16)) -> Ip {
    let upper = [&ports.0.to_be_bytes()[..], &ports.1.to_be_bytes(), &[0; 8], &[0x50, 0x10], &[0; 6]].concat();
    Ip::new(from, to, protocol, &upper)
}

/// The verdict on a packet that the device of the first path has decrypted.
fn decrypted(testbed: &mut TestHost, packet: &Ip) -> u32 {
    forwarded(testbed, packet).0
}

/// The same, with the frame that is forwarded.
fn forwarded(testbed: &mut TestHost, packet: &Ip) -> (u32, Vec<u8>) {
    let sent = frame(&packet.0);
    let mut out = vec![0; sent.len() + 64];
    let run = TestRunOptions { data_in: Some(&sent), data_out: Some(&mut out), ..TestRunOptions::new() };
    let result = testbed.tunnels.program(Program::Decrypted).test_run(run).unwrap();
    out.truncate(result.data_size_out as usize);
    (result.return_value, out)
}

/// The packet after one hop, without its link-layer header.
fn after_a_hop(packet: &Ip) -> Vec<u8> {
    let mut packet = packet.0.clone();
    packet[7] -= 1;
    packet
}

#[test]
fn decrypted_packets_are_forwarded_until_their_tunnel_ends() {
    let mut testbed = testbed_or_skip!("decrypted_packets_are_forwarded_until_their_tunnel_ends");
    testbed.tunnels.put(&tunnel()).unwrap();
    testbed.tunnels.set_encrypted(&encrypted(tunnel()), INGRESS);
    let packet = with_ports(HOME, CN, UDP, (5000, 5001));
    // By the routing tables, and by the cached decision.
    for _ in 0..2 {
        let seen =
            (0..TRIES).map(|_| forwarded(&mut testbed, &packet)).find(|(_, out)| out[..12] == TO_NEXT_HOP).unwrap();
        assert_eq!((seen.0, &seen.1[14..]), (REDIRECT, &after_a_hop(&packet)[..]));
    }
    assert_eq!(testbed.run_again(&frame(&packet.within(COA, HA).0)).0, DROP, "the same inner addresses in the clear");
    let packet = with_ports(HOME, CN, UDP, (5000, 5001));
    let from_elsewhere = with_ports("2001:db8:5::200", CN, UDP, (5000, 5001));
    assert_eq!(decrypted(&mut testbed, &from_elsewhere), DROP);
    testbed.tunnels.drop(TunnelId(40)).unwrap();
    assert_eq!(decrypted(&mut testbed, &packet), DROP);
}

#[test]
fn flow_is_encrypted_by_the_cached_path_until_its_tunnel_ends() {
    let mut testbed = testbed_or_skip!("flow_is_encrypted_by_the_cached_path_until_its_tunnel_ends");
    testbed.tunnels.put(&tunnel()).unwrap();
    testbed.tunnels.set_encrypted(&encrypted(tunnel()), LinkId(7));
    let packet = with_ports(CN, HOME, UDP, (5001, 5000));
    let sent = frame(&packet.0);
    for (verdict, out) in [testbed.run(&sent), testbed.run_again(&sent)] {
        assert_eq!((verdict, &out[14..]), (REDIRECT, &after_a_hop(&packet)[..]));
    }
    testbed.tunnels.drop(TunnelId(40)).unwrap();
    assert_eq!(testbed.run_again(&sent), (PASS, sent));
}

#[test]
fn device_passes_the_address_of_its_path_to_the_relay_alone() {
    let mut testbed = testbed_or_skip!("device_passes_the_address_of_its_path_to_the_relay_alone");
    testbed.tunnels.put(&tunnel()).unwrap();
    testbed.tunnels.set_encrypted(&encrypted(tunnel()), INGRESS);
    let (first, second, others) = (of(HOME, 1), of(HOME, 2), of("2001:db8:5::200", 1));
    for (from, to, protocol, ports, verdict) in [
        (HOME, CN, UDP, (5000, 5001), REDIRECT),
        (HOME, HA, TCP, (40_000, RELAY), REDIRECT),
        (&first, HA, TCP, (40_000, RELAY), REDIRECT),
        (&second, HA, TCP, (40_000, RELAY), DROP),
        (&others, HA, TCP, (40_000, RELAY), DROP),
        (&first, HA, TCP, (40_000, 80), DROP),
        (&first, HA, TCP, (RELAY, 80), DROP),
        (&first, CN, TCP, (40_000, 443), DROP),
        (&first, HA, UDP, (40_000, RELAY), DROP),
        (&first, &others, TCP, (RELAY, RELAY), DROP),
    ] {
        let packet = with_ports(from, to, protocol, ports);
        assert_eq!(decrypted(&mut testbed, &packet), verdict, "{from} to {to}, {protocol} {ports:?}");
    }
    let without_ports = Ip::new(&first, HA, TCP, &[0; 4]);
    assert_eq!(decrypted(&mut testbed, &without_ports), DROP);
}

#[test]
fn tunnel_in_the_clear_has_no_addresses_of_subflows() {
    let mut testbed = testbed_or_skip!("tunnel_in_the_clear_has_no_addresses_of_subflows");
    testbed.tunnels.put(&tunnel()).unwrap();
    for (from, verdict) in [(HOME.to_owned(), REDIRECT), (of(HOME, 1), DROP)] {
        let packet = with_ports(&from, HA, TCP, (40_000, RELAY)).within(COA, HA);
        assert_eq!(testbed.run(&frame(&packet.0)).0, verdict, "{from}");
    }
    // Nor does the fast path forward packets to these, encrypted or not: they come from this host.
    for _ in 0..2 {
        let packet = with_ports(CN, &of(HOME, 1), TCP, (RELAY, 40_000));
        assert_eq!(testbed.run(&frame(&packet.0)).0, PASS);
        testbed.tunnels.set_encrypted(&encrypted(tunnel()), INGRESS);
    }
}
