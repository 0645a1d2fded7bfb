//! Shim6 contexts between two hosts with two providers each, switched by the test: data arrives complete by either
//! path, and only packets whose locators are not the ULIDs have a payload extension header.
#![cfg(feature = "bpf")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails at the assertion")]

#[path = "tunnel/netns_host.rs"]
#[allow(dead_code, unreachable_pub, reason = "shared with the tests of tunnels")]
mod netns_host;

use netns_host::Host;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn6, connect, setsockopt, socket, sockopt};
use roam6_linux::{Backend, Host as Daemon, HostEvent, HostOptions};
use roam6_proto::base::ids::{AddressPair, ContextId};
use roam6_proto::contract::item::{ContextTrigger, ShimContext, ShimUplink};
use roam6_proto::{Activity, ActivityQuery, Input, Item, LinkId, Output};
use roam6_wire::shim6::{Fork, Tag};
use std::io::{Read, Write};
use std::net::{SocketAddrV6, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Duration;

/// TCP's back-off, and a failed neighbour, take three seconds at least.
const BACKED_OFF: Duration = Duration::from_millis(2900);
/// Addresses of the two hosts by the two providers.
const LEFT: [&str; 2] = ["2001:db8:a1::1", "2001:db8:b1::1"];
const RIGHT: [&str; 2] = ["2001:db8:a2::2", "2001:db8:b2::2"];

/// A host, with what its daemon executes.
struct Side {
    host: Host,
    daemon: Daemon,
    own: [&'static str; 2],
    peers: [&'static str; 2],
    links: [LinkId; 2],
    tags: [u64; 2],
    _folder: tempfile::TempDir,
}

impl Side {
    fn new(host: Host, own: [&'static str; 2], peers: [&'static str; 2], tags: [u64; 2]) -> Side {
        let folder = tempfile::tempdir().unwrap();
        let options = HostOptions {
            run_dir: folder.path().join("run"),
            state_dir: folder.path().join("state"),
            interfaces: ["u0", "u1"].map(str::to_owned).into(),
            backend: Backend::Bpf,
            device: "nemo0".to_owned(),
            max_tunnels: 16,
            max_contexts: 64,
            ..HostOptions::default()
        };
        let daemon = host.enter(|| Daemon::new(options).unwrap());
        let links = [LinkId(host.index("u0")), LinkId(host.index("u1"))];
        let mut side = Side { host, daemon, own, peers, links, tags, _folder: folder };
        side.put(links.map(|link| Item::ShimUplink(ShimUplink { link })).into());
        side
    }

    fn put(&mut self, items: Vec<Item>) {
        let outputs = items.into_iter().map(Output::from);
        let outcomes = self.host.enter(|| self.daemon.execute(outputs, |report| panic!("{report:?}")));
        for outcome in outcomes {
            assert_eq!(outcome.error, None, "{:?}", outcome.key);
        }
    }

    fn id(&self) -> ContextId {
        ContextId { ulids: self.pair(0), fork: Fork::NONE }
    }

    fn pair(&self, path: usize) -> AddressPair {
        AddressPair { local: self.own[path].parse().unwrap(), peer: self.peers[path].parse().unwrap() }
    }

    /// Switches to this path.
    fn take_path(&mut self, path: usize) {
        self.take_path_of(path, Fork::NONE);
    }

    /// Switches the packets of sockets with this mark.
    fn take_path_of(&mut self, path: usize, fork: Fork) {
        let [tag_in, tag_out] = self.tags.map(|tag| Tag::new(tag + u64::from(fork.0)).unwrap());
        let context = ShimContext {
            id: ContextId { fork, ..self.id() },
            locators: self.pair(path),
            link: self.links[path],
            next_hop: None,
            tag_in,
            tag_out,
            allowed_sources: self.peers.iter().map(|peer| peer.parse().unwrap()).collect(),
        };
        self.put(vec![Item::ShimContext(context)]);
    }

    fn inputs(&mut self) -> Vec<Input> {
        let Side { host, daemon, .. } = self;
        let wakes = host.enter(|| daemon.wait(Some(daemon.now() + Duration::from_millis(20))).unwrap());
        wakes
            .into_iter()
            .filter_map(|wake| if let HostEvent::Input(_, input) = wake { Some(input) } else { None })
            .collect()
    }

    /// The inputs until `wanted` finds one.
    fn await_input<T>(&mut self, wanted: impl Fn(&Input) -> Option<T>) -> T {
        for _ in 0..250 {
            if let Some(found) = self.inputs().iter().find_map(&wanted) {
                return found;
            }
        }
        panic!("the daemon has no such input");
    }

    fn sample(&mut self, notify: bool) -> Activity {
        let sample = ActivityQuery { context: self.id(), notify_sent: notify, notify_received: notify };
        self.host.enter(|| self.daemon.execute([Output::ActivityQuery(sample)], |report| panic!("{report:?}")));
        self.await_activity()
    }

    fn await_activity(&mut self) -> Activity {
        self.await_input(|input| if let Input::Activity(activity) = input { Some(*activity) } else { None })
    }
}

/// Two hosts with two providers each, a router for each pair of networks.
struct Testbed {
    sides: [Side; 2],
    routers: [Host; 2],
}

impl Testbed {
    fn new() -> Testbed {
        let hosts = [Host::new(), Host::new()];
        let routers = [Host::new(), Host::new()];
        for (host, (number, addresses)) in hosts.iter().zip([(1, LEFT), (2, RIGHT)]) {
            host.run("sysctl -qw net.ipv6.conf.all.forwarding=0 net.ipv6.conf.default.forwarding=0");
            for (path, (router, address)) in routers.iter().zip(addresses).enumerate() {
                let network = address.rsplit_once("::").unwrap().0;
                let gateway = format!("{network}::ff");
                let (here, there) = (format!("u{path}"), format!("h{number}"));
                host.cable((&here, &format!("{address}/64")), router, (&there, &format!("{gateway}/64")));
                host.ip(&format!("rule add from {address} lookup {} priority 1000", 100 + path));
                host.ip(&format!("route add default via {gateway} dev {here} table {}", 100 + path));
                host.ip(&format!("route add default via {gateway} dev {here} metric {}", 100 + path));
            }
        }
        let [left, right] = hosts;
        let (one, two) = (0x1111_2222_3333, 0x4444_5555_6666);
        let sides = [Side::new(left, LEFT, RIGHT, [one, two]), Side::new(right, RIGHT, LEFT, [two, one])];
        Testbed { sides, routers }
    }

    fn take_path(&mut self, path: usize) {
        self.sides.iter_mut().for_each(|side| side.take_path(path));
    }

    /// Packets with and without the payload extension header that the router of a path has forwarded since the last
    /// call.
    fn count(&self, path: usize) -> (u64, u64) {
        let listing = self.routers[path].run("nft -j reset counters table ip6 watch");
        let count = |name: &str| {
            let json: serde_json::Value = serde_json::from_str(&listing).unwrap();
            let all = json["nftables"].as_array().unwrap().iter();
            let mut named = all.filter(|entry| entry["counter"]["name"] == name);
            named.next().unwrap()["counter"]["packets"].as_u64().unwrap()
        };
        (count("shim"), count("plain"))
    }

    fn watch_routers(&self) {
        for router in &self.routers {
            router.run("nft add table ip6 watch");
            for line in [
                "add counter ip6 watch shim",
                "add counter ip6 watch plain",
                "add chain ip6 watch passing { type filter hook forward priority 0 ; }",
                "add rule ip6 watch passing ip6 nexthdr 140 counter name shim",
                "add rule ip6 watch passing ip6 nexthdr { tcp, udp, icmpv6 } counter name plain",
            ] {
                router.run(&format!("nft {line}"));
            }
        }
    }
}

/// A TCP connection between the two hosts, whose octets are verified.
struct Connection {
    left: TcpStream,
    right: TcpStream,
    next: u8,
}

impl Connection {
    fn new(testbed: &Testbed) -> Connection {
        Connection::marked(testbed, 0)
    }

    /// A connection whose left socket has a mark.
    fn marked(testbed: &Testbed, mark: u32) -> Connection {
        let [left, right] = &testbed.sides;
        // On Linux 6.1 no socket can listen on the port of a connection of another listener.
        let port = 5000 + u16::try_from(mark).unwrap();
        let listener = right.host.enter(|| TcpListener::bind((RIGHT[0], port)).unwrap());
        // Not bound to its address, as connections mostly are not.
        let left = left.host.enter(|| {
            let socket = socket(AddressFamily::Inet6, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
            setsockopt(&socket, sockopt::Mark, &mark).unwrap();
            let there = SocketAddrV6::new(RIGHT[0].parse().unwrap(), port, 0, 0);
            connect(socket.as_raw_fd(), &SockaddrIn6::from(there)).unwrap();
            TcpStream::from(socket)
        });
        let (right, from) = listener.accept().unwrap();
        assert_eq!(from.ip().to_string(), LEFT[0]);
        for stream in [&left, &right] {
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            stream.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
        }
        Connection { left, right, next: 0 }
    }

    /// Sends so many octets from left to right, and a reply back.
    fn carry(&mut self, octets: usize) {
        let first = self.next;
        let sent: Vec<u8> = (0..octets).map(|at| first.wrapping_add((at % 251) as u8)).collect();
        self.next = first.wrapping_add(1);
        let mut got = vec![0; octets];
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| self.left.write_all(&sent).unwrap());
            self.right.read_exact(&mut got).unwrap();
            writer.join().unwrap();
        });
        assert!(got == sent, "octets arrive as they were sent");
        self.right.write_all(b"thanks").unwrap();
        self.left.read_exact(&mut [0; 6]).unwrap();
    }

    /// Receives on the right, while the daemon on the left runs.
    fn read(&mut self, left: &mut Side) -> [u8; 5] {
        let mut word = [0; 5];
        std::thread::scope(|scope| {
            let read = scope.spawn(|| self.right.read_exact(&mut word));
            while !read.is_finished() {
                left.inputs();
            }
            read.join().unwrap().unwrap();
        });
        word
    }
}

fn checksum_errors(side: &Side) -> u64 {
    let counters = side.host.run("nstat -asz TcpInCsumErrors Udp6InCsumErrors Icmp6InCsumErrors");
    counters.lines().filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).sum()
}

macro_rules! testbed_or_skip {
    ($name:literal) => {
        match netns_host::obstacle() {
            None => Testbed::new(),
            Some(why) => return println!("skipped: {}: {why}", $name),
        }
    };
}

#[test]
fn tcp_connection_continues_by_the_other_locator_pair() {
    let mut testbed = testbed_or_skip!("tcp_connection_continues_by_the_other_locator_pair");
    testbed.watch_routers();
    testbed.take_path(0);
    let mut connection = Connection::new(&testbed);
    connection.carry(4 << 20);
    let (shim, plain) = testbed.count(0);
    assert!(shim == 0 && plain > 20, "nothing is added while locators are ULIDs: {shim}, {plain}");
    testbed.take_path(1);
    connection.carry(4 << 20);
    let (shim, plain) = testbed.count(1);
    assert!(shim > 2000 && plain == 0, "all bears the header: {shim}, {plain}");
    let [left, right] = &mut testbed.sides;
    let (out, into) = (left.sample(false).tx, right.sample(false).rx);
    assert!(out.octets > 8 << 20 && into.octets > 8 << 20, "{out:?} {into:?}");
    let ping = left.host.run(&format!("ping -6 -c 3 -i 0.2 -s 3000 -I {} {}", LEFT[0], RIGHT[0]));
    assert!(ping.contains(" 0% packet loss"), "{ping}");
    testbed.take_path(0);
    connection.carry(1 << 20);
    assert_eq!(testbed.count(1).1, 0);
    for side in &testbed.sides {
        assert_eq!(checksum_errors(side), 0);
        assert_eq!(side.host.ip("route show table all proto 106"), "", "no route stays");
    }
}

#[test]
fn forked_context_is_chosen_by_socket_mark() {
    let mut testbed = testbed_or_skip!("forked_context_is_chosen_by_socket_mark");
    testbed.watch_routers();
    testbed.take_path(0);
    testbed.sides.iter_mut().for_each(|side| side.take_path_of(1, Fork(7)));
    let (mut plain, mut marked) = (Connection::new(&testbed), Connection::marked(&testbed, 7));
    // The handshakes of the connections have ended.
    std::thread::sleep(Duration::from_millis(300));
    for path in 0..2 {
        testbed.count(path);
    }
    plain.carry(1 << 20);
    assert_eq!((testbed.count(0).0, testbed.count(1)), (0, (0, 0)), "without a mark by the ULIDs");
    marked.carry(1 << 20);
    let (there, back) = (testbed.count(1), testbed.count(0));
    assert!(there.0 > 500 && there.1 == 0, "with it by the other path: {there:?}");
    assert!(back.0 == 0 && back.1 > 5, "its peer has no mark: {back:?}");
    // The route of the ULIDs reserves room for the header while a context uses it, and no longer.
    let [left, _] = &mut testbed.sides;
    let mtu = |left: &Side| left.host.ip(&format!("route get {} from {}", RIGHT[0], LEFT[0]));
    assert!(mtu(left).contains("mtu 1492"), "{}", mtu(left));
    left.take_path(1);
    left.take_path(0);
    assert!(mtu(left).contains("mtu 1492"), "{}", mtu(left));
    left.take_path_of(0, Fork(7));
    assert!(!mtu(left).contains("mtu 1492"), "{}", mtu(left));
    marked.carry(1 << 20);
    assert_eq!((testbed.count(1), checksum_errors(&testbed.sides[1])), ((0, 0), 0));
}

#[test]
fn tcp_connection_outlives_its_interface_without_back_off() {
    let mut testbed = testbed_or_skip!("tcp_connection_outlives_its_interface_without_back_off");
    testbed.take_path(0);
    let mut connection = Connection::new(&testbed);
    connection.carry(1 << 20);
    testbed.sides[0].host.ip("link set u0 down");
    connection.left.write_all(b"hello").unwrap();
    // It has just tried again, and tries next after sixteen times its first wait: three seconds at least.
    let backed_off = (0..500).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        testbed.sides[0].host.run("ss -6tinH").contains("backoff:4")
    });
    assert!(backed_off, "{}", testbed.sides[0].host.run("ss -6tinH"));
    let began = testbed.sides[0].daemon.now();
    testbed.take_path(1);
    assert_eq!(&connection.read(&mut testbed.sides[0]), b"hello");
    let took = testbed.sides[0].daemon.now().since(began);
    assert!(took < BACKED_OFF, "{took:?} after the change of path");
    connection.carry(1 << 20);
    assert_eq!(checksum_errors(&testbed.sides[1]), 0);
}

#[test]
fn packets_queued_for_a_lost_neighbour_are_retransmitted() {
    let testbed = testbed_or_skip!("packets_queued_for_a_lost_neighbour_are_retransmitted");
    pull_the_cable(testbed);
}

/// The kernel announces carriers once a second at most, so right after another change the announcement comes after the
/// switch.
#[test]
fn retransmission_works_with_a_late_carrier_announcement() {
    let testbed = testbed_or_skip!("retransmission_works_with_a_late_carrier_announcement");
    let [left, _] = &testbed.sides;
    for command in ["add other0 type veth peer name other1", "set other0 up", "set other1 up", "delete other0"] {
        left.host.ip(&format!("link {command}"));
    }
    pull_the_cable(testbed);
}

fn pull_the_cable(mut testbed: Testbed) {
    testbed.take_path(0);
    let mut connection = Connection::new(&testbed);
    connection.carry(1 << 20);
    testbed.routers[0].ip("link set h1 down");
    connection.left.write_all(b"hello").unwrap();
    std::thread::sleep(Duration::from_millis(20));
    let began = testbed.sides[0].daemon.now();
    testbed.take_path(1);
    connection.read(&mut testbed.sides[0]);
    let took = testbed.sides[0].daemon.now().since(began);
    let neighbours = testbed.sides[0].host.ip("neigh");
    assert!(took < BACKED_OFF, "{took:?} after the change of path: {neighbours}");
    connection.carry(1 << 20);
}

#[test]
fn conversations_and_context_activity_are_reported() {
    let mut testbed = testbed_or_skip!("conversations_and_context_activity_are_reported");
    let [left, right] = &mut testbed.sides;
    left.put(vec![Item::ContextTrigger(ContextTrigger { octets: Some(2048), ..ContextTrigger::default() })]);
    let sockets = [left.host.udp("[2001:db8:a1::1]:6000"), right.host.udp("[2001:db8:a2::2]:6000")];
    let send =
        |octets: usize| assert_eq!(sockets[0].send_to(&vec![0; octets], "[2001:db8:a2::2]:6000").unwrap(), octets);
    send(1000);
    assert!(!left.inputs().iter().any(|input| matches!(input, Input::Flow(_))));
    send(1000);
    let flow = left.await_input(|input| if let Input::Flow(flow) = input { Some(*flow) } else { None });
    assert_eq!((flow.pair, flow.link, flow.packets, flow.octets), (left.pair(0), left.links[0], 2, 2096));
    left.take_path(0);
    right.take_path(0);
    assert_eq!(left.sample(true).last_sent, None);
    send(100);
    let activity = left.await_activity();
    assert!(
        activity.last_sent.is_some()
            && activity.unanswered_since == activity.last_sent
            && activity.last_received.is_none(),
        "{activity:?}"
    );
    assert_eq!((activity.tx.packets, activity.tx.octets), (1, 148));
    sockets[1].send_to(&[0; 100], "[2001:db8:a1::1]:6000").unwrap();
    let activity = left.await_activity();
    assert!(
        activity.unanswered_since.is_none()
            && activity.unreturned_since == activity.last_received
            && activity.last_received.is_some(),
        "{activity:?}"
    );
}

#[test]
fn packet_without_context_is_passed_up_and_icmp_errors_translated() {
    let mut testbed = testbed_or_skip!("packet_without_context_is_passed_up_and_icmp_errors_translated");
    let [left, right] = &mut testbed.sides;
    left.take_path(1);
    let sockets = [left.host.udp("[2001:db8:a1::1]:6000"), right.host.udp("[2001:db8:a2::2]:6000")];
    sockets[0].send_to(&[7; 1000], "[2001:db8:a2::2]:6000").unwrap();
    let packet = right.await_input(|input| match input {
        Input::Packet(packet) if packet.bytes[6] == 140 => Some(packet.bytes.clone()),
        _ => None,
    });
    assert_eq!((packet.len(), packet[4..6].to_vec()), (128, vec![0, 88]));
    assert_eq!(packet[42..48], [0xc4, 0x44, 0x55, 0x55, 0x66, 0x66]);
    right.take_path(1);
    // The second router has a narrow link behind it: it reports that to the locator, and the socket gets the error for its peer.
    testbed.routers[1].ip("link set h2 mtu 1400");
    let [left, _] = &mut testbed.sides;
    sockets[0].send_to(&[7; 1420], "[2001:db8:a2::2]:6000").unwrap();
    left.inputs();
    left.inputs();
    let route = left.host.ip(&format!("route get {} from {}", RIGHT[0], LEFT[0]));
    assert!(route.contains("mtu 1392"), "{route}");
}
