//! What TCP segments have: sizes, sequence numbers, urgent data, the window; and both SYNs at once.

use crate::bed::{Bed, NODE, PATIENCE, SERVER, expect, octets_from, send_all};
use crate::testbed::{Namespace, machines};
use nix::{libc, setsockopt_impl, sockopt_impl};
use std::io::{Read, Write};
use std::net::{SocketAddr, SocketAddrV6, TcpListener, TcpStream};
use std::time::Duration;

#[test]
fn packet_too_big_from_beyond_the_home_agent_reaches_the_relay() {
    const FAR: &str = "2001:db8:a::a";
    let test = "packet_too_big_from_beyond_the_home_agent_reaches_the_relay";
    let Some(bed) = Bed::new(test) else { return println!("skipped: {test}") };
    let Some(far) = Namespace::new() else { return println!("skipped: {test}") };
    // The server becomes a router, whose link to another server takes smaller packets than both ends have on their own links.
    machines::cable(&bed.server, "far0", &far, "eth0");
    bed.server.shell("sysctl -qw net.ipv6.conf.all.forwarding=1 && ip address add 2001:db8:a::1/64 dev far0 nodad");
    far.shell(&format!("ip address add {FAR}/64 dev eth0 nodad && ip route add default via 2001:db8:a::1"));
    bed.testbed.agent.shell(&format!("ip route add 2001:db8:a::/64 via {SERVER}"));
    let data = octets_from(0, 10_000_000);
    for (mtu, port) in [(1400, 6920_u16), (1280, 6921)] {
        bed.server.shell(&format!("ip link set far0 mtu {mtu}"));
        let listener = far.enter(|| TcpListener::bind(("::", port)).unwrap());
        let to: SocketAddr = format!("[{FAR}]:{port}").parse().unwrap();
        let node = bed.testbed.node.enter(|| TcpStream::connect_timeout(&to, PATIENCE)).unwrap();
        let (far_end, _) = listener.accept().unwrap();
        far_end.set_read_timeout(Some(PATIENCE)).unwrap();
        node.set_write_timeout(Some(PATIENCE)).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| send_all(&node, &data));
            expect(&far_end, &data);
        });
        // IPv6 and TCP headers with timestamps: 72 octets.
        let shown = bed.testbed.agent.shell(&format!("ss -Htin dport = :{port}"));
        assert!(shown.contains(&format!("mss:{} pmtu:{mtu}", mtu - 72)), "{mtu}: {shown}");
        let shown = bed.testbed.node.shell(&format!("ss -Htin dport = :{port}"));
        assert!(shown.contains("mss:1428 pmtu:1500"), "{mtu}: {shown}");
    }
    assert_eq!(bed.flows()["counters"]["relayed"], 2, "{}", bed.flows());
}

sockopt_impl!(
    /// The queue that the next option is for, while a socket is in repair (tcp(7)).
    RepairQueue, SetOnly, libc::IPPROTO_TCP, libc::TCP_REPAIR_QUEUE, u32
);
sockopt_impl!(
    /// The sequence number of its next octet.
    QueueSequence, SetOnly, libc::IPPROTO_TCP, libc::TCP_QUEUE_SEQ, u32
);
const SEND_QUEUE: u32 = 2;

/// Connects from this port, with this initial sequence number.
fn connect_from(place: &Namespace, port: u16, to: SocketAddrV6, sequence: Option<u32>) -> TcpStream {
    use nix::sys::socket::{
        AddressFamily, SockFlag, SockType, SockaddrIn6, bind, connect, setsockopt, socket, sockopt::TcpRepair,
    };
    use std::os::fd::AsRawFd;
    let any = SocketAddrV6::new(std::net::Ipv6Addr::UNSPECIFIED, port, 0, 0);
    place.enter(|| {
        let socket = socket(AddressFamily::Inet6, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
        if let Some(sequence) = sequence {
            setsockopt(&socket, TcpRepair, &1).unwrap();
            setsockopt(&socket, RepairQueue, &SEND_QUEUE).unwrap();
            setsockopt(&socket, QueueSequence, &sequence).unwrap();
            setsockopt(&socket, TcpRepair, &0).unwrap();
        }
        bind(socket.as_raw_fd(), &SockaddrIn6::from(any)).unwrap();
        connect(socket.as_raw_fd(), &SockaddrIn6::from(to)).unwrap();
        TcpStream::from(socket)
    })
}

fn end_point(address: &str, port: u16) -> SocketAddrV6 {
    SocketAddrV6::new(address.parse().unwrap(), port, 0, 0)
}

#[test]
fn sequence_numbers_may_wrap() {
    /// So many octets before the first number is 0 again.
    const BEFORE: u32 = 3_000_000;
    let test = "sequence_numbers_may_wrap";
    let Some(bed) = Bed::new(test) else { return println!("skipped: {test}") };
    let data = octets_from(0, 2 * BEFORE as usize);
    for (from, to, address, port) in
        [(&bed.testbed.node, &bed.server, SERVER, 6930), (&bed.server, &bed.testbed.node, NODE, 7930)]
    {
        let listener = to.enter(|| TcpListener::bind(("::", port)).unwrap());
        let sender = connect_from(from, 0, end_point(address, port), Some(0_u32.wrapping_sub(BEFORE)));
        let (receiver, _) = listener.accept().unwrap();
        std::thread::scope(|scope| {
            for (from, to) in [(&sender, &receiver), (&receiver, &sender)] {
                scope.spawn(|| send_all(from, &data));
                scope.spawn(|| expect(to, &data));
            }
        });
    }
    assert_eq!(bed.flows()["counters"]["relayed"], 2, "{}", bed.flows());
}

/// More than the sequence numbers of TCP count, in blocks that differ.
#[test]
#[ignore = "nine gigabytes through two relays"]
fn transfers_of_more_than_4_gigabytes_arrive_whole() {
    const BLOCK: usize = 1 << 20;
    const BLOCKS: u64 = 4300;
    let test = "transfers_of_more_than_4_gigabytes_arrive_whole";
    let Some(bed) = Bed::new(test) else { return println!("skipped: {test}") };
    let block = |number: u64, octets: &mut Vec<u8>| octets[..8].copy_from_slice(&number.to_be_bytes());
    for (port, from_node) in [(6810, true), (6811, false)] {
        let (node, server) = bed.connect(port);
        let (mut writer, mut reader) = if from_node { (&node, &server) } else { (&server, &node) };
        let pattern = octets_from(0, BLOCK);
        std::thread::scope(|scope| {
            let mut sent = pattern.clone();
            scope.spawn(move || {
                for number in 0..BLOCKS {
                    block(number, &mut sent);
                    writer.write_all(&sent).unwrap();
                }
            });
            let (mut expected, mut received) = (pattern.clone(), vec![0; BLOCK]);
            for number in 0..BLOCKS {
                block(number, &mut expected);
                reader.read_exact(&mut received).unwrap();
                assert!(received == expected, "block {number}, from node: {from_node}");
            }
        });
    }
    let flows = bed.flows();
    assert_eq!(flows["counters"]["relayed"], 2, "{flows}");
}

#[test]
fn both_ends_may_connect_at_once() {
    let test = "both_ends_may_connect_at_once";
    let Some(bed) = Bed::new(test) else { return println!("skipped: {test}") };
    // Addresses of neighbours are known, and the relays have their bearers.
    drop(bed.connect(6940));
    let relayed = || bed.flows()["counters"]["relayed"].as_u64().unwrap_or(0);
    // Without relays; and with them, where the SYN of the node is held first, or that of the server.
    for (node_port, server_port, at_node, count) in
        [(5941, 5942, false, 1), (5943, 6943, false, 2), (7944, 5944, true, 3)]
    {
        // Nothing is delivered while both begin, so that neither is refused, and each meets the other in SYN-SENT.
        let links = if at_node {
            [(&bed.testbed.node, "eth0"), (&bed.testbed.router, "in0")]
        } else {
            [(&bed.server, "eth0"), (&bed.testbed.agent, "net1")]
        };
        let cut = |on: bool| {
            for (place, interface) in links {
                let change = if on { "replace" } else { "del" };
                let what = if on { "pfifo limit 0" } else { "" };
                place.shell(&format!("tc qdisc {change} dev {interface} root {what}"));
            }
        };
        cut(true);
        let (node, server) = std::thread::scope(|scope| {
            let node = scope.spawn(|| connect_from(&bed.testbed.node, node_port, end_point(SERVER, server_port), None));
            let server = scope.spawn(|| connect_from(&bed.server, server_port, end_point(NODE, node_port), None));
            std::thread::sleep(Duration::from_millis(500));
            cut(false);
            (node.join().unwrap(), server.join().unwrap())
        });
        for (from, to) in [(&node, &server), (&server, &node)] {
            from.set_read_timeout(Some(PATIENCE)).unwrap();
            to.set_read_timeout(Some(PATIENCE)).unwrap();
            send_all(from, b"both began");
            expect(to, b"both began");
        }
        assert_eq!(relayed(), count, "{node_port} and {server_port}: {}", bed.flows());
    }
}

#[test]
fn urgent_data_arrive_in_line() {
    use nix::sys::socket::{MsgFlags, send};
    use std::os::fd::AsRawFd;
    let test = "urgent_data_arrive_in_line";
    let Some(bed) = Bed::new(test) else { return println!("skipped: {test}") };
    let (node, server) = bed.connect(6950);
    for (from, to) in [(&node, &server), (&server, &node)] {
        send_all(from, b"abc");
        assert_eq!(send(from.as_raw_fd(), b"!", MsgFlags::MSG_OOB), Ok(1));
        send_all(from, b"def");
        expect(to, b"abc!def");
    }
}

/// Octets in the send buffer of the writer and in the receive buffer of the reader, at most.
const HOSTS: usize = 250_000;

/// Writes until nothing more is taken for two seconds; the octets that were.
fn fill(mut stream: &TcpStream) -> usize {
    stream.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
    let (data, mut taken) = (octets_from(0, 64 << 20), 0);
    while let Ok(count) = stream.write(&data[taken..data.len().min(taken + 16_384)]) {
        taken += count;
    }
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    taken
}

#[test]
fn a_destination_that_reads_nothing_holds_at_most_2_megabytes() {
    let test = "a_destination_that_reads_nothing_holds_at_most_2_megabytes";
    let Some(bed) = Bed::new(test) else { return println!("skipped: {test}") };
    for (port, from_node) in [(6800, true), (6801, false)] {
        let (node, server) = bed.connect(port);
        let (writer, reader) = if from_node { (&node, &server) } else { (&server, &node) };
        nix::sys::socket::setsockopt(writer, nix::sys::socket::sockopt::SndBuf, &65_536).unwrap();
        let taken = fill(writer);
        // What the relays hold, and the buffers of both hosts.
        assert!((200_000..=2_000_000 + HOSTS).contains(&taken), "{taken} octets, from node: {from_node}");
        // The window opens again, and all octets arrive.
        expect(reader, &octets_from(0, taken));
        let more = 4 << 20;
        std::thread::scope(|scope| {
            scope.spawn(|| send_all(writer, &octets_from(taken, more)));
            expect(reader, &octets_from(taken, more));
        });
        println!("from node: {from_node}: {taken} octets");
    }
}
