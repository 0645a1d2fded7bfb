//! The relay between the real daemons: one TCP connection over all uplinks, and what hosts notice of it (docs/bonding.md).

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails at the assertion"
)]

mod testbed;

use nix::{libc, setsockopt_impl, sockopt_impl};
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, SocketAddrV6, TcpListener, TcpStream};
use std::time::Duration;
use testbed::{INGRESS, Namespace, ROUTER, Running, Testbed, wait_or_report};

const SERVER: &str = "2001:db8:8::8";
const NODE: &str = "2001:db8:100::2";
/// All connections to ports from 6000 on, and those from outside to ports from 7000 on.
const FLOWS: &str = "
sharing = \"weights\"
[[mobile_router.uplink]]
interface = \"up0\"
[[mobile_router.uplink]]
interface = \"up1\"
[[mobile_router.flow]]
uplink = \"all\"
protocol = \"tcp\"
correspondent_ports = \"6000-6999\"
[[mobile_router.flow]]
uplink = \"all\"
protocol = \"tcp\"
inside_ports = \"7000-7999\"
";
const PATIENCE: Duration = Duration::from_secs(60);

/// The testbed, with a server behind the home agent.
struct Bed {
    testbed: Testbed,
    server: Namespace,
    running: Vec<Running>,
}

/// The daemons among what runs.
const AGENT_DAEMON: usize = 0;
const ROUTER_DAEMON: usize = 3;

/// What differs from the usual configuration.
#[derive(Default)]
struct Settings<'a> {
    /// Options of `enroll`.
    enrolment: &'a [&'a str],
    /// Further keys of the home agent.
    agent_keys: &'a str,
    /// Further keys of the mobile router.
    router_keys: &'a str,
    /// Its further prefixes.
    prefixes: &'a [&'a str],
}

impl Bed {
    fn new(test: &str) -> Option<Bed> {
        Bed::with(test, &Settings::default())
    }

    /// With IPv4 too: the server is 198.51.100.9, the node 10.77.1.2.
    fn with_ipv4(test: &str) -> Option<Bed> {
        let bed = Bed::with(
            test,
            &Settings {
                enrolment: &["--prefix", "10.77.1.0/24"],
                agent_keys: "[home_agent.ipv4]\naddress = \"203.0.113.1\"\n",
                prefixes: &["10.77.1.0/24"],
                ..Settings::default()
            },
        )?;
        bed.testbed.agent.shell("sysctl -qw net.ipv4.ip_forward=1 && ip address add 198.51.100.1/24 dev net1");
        bed.server.shell("ip address add 198.51.100.9/24 dev eth0 && ip route add default via 198.51.100.1");
        bed.testbed.router.shell("ip address add 10.77.1.1/24 dev in0");
        bed.testbed.node.shell("ip address add 10.77.1.2/24 dev eth0 && ip route add default via 10.77.1.1");
        let reaches = || bed.testbed.node.ping(1, "1000", "198.51.100.9").contains("1 received");
        wait_or_report("IPv4 from inside", reaches, || bed.testbed.logs());
        Some(bed)
    }

    fn with(test: &str, settings: &Settings<'_>) -> Option<Bed> {
        let Settings { enrolment, agent_keys, router_keys, prefixes } = settings;
        let testbed = Testbed::new(test)?;
        let server = Namespace::new()?;
        testbed.agent.shell(&format!(
            "ip link add net1 type veth peer name eth0 netns {} && ip link set net1 up && \
             ip address add 2001:db8:8::1/64 dev net1 nodad",
            server.number()
        ));
        server.shell(&format!(
            "ip link set eth0 up && ip address add {SERVER}/64 dev eth0 nodad && \
             ip route add default via 2001:db8:8::1"
        ));
        testbed.enroll(enrolment);
        let agent = testbed.start_agent_more(&format!("bond = true\n{agent_keys}"));
        let (radvd, other) = (testbed.advertise("2001:db8:2::/64"), testbed.add_other_network());
        let further: String = prefixes.iter().map(|prefix| format!(", \"{prefix}\"")).collect();
        let router_section = ROUTER.replace("/56\"]", &format!("/56\"{further}]"));
        let router = testbed
            .router
            .roam6(&testbed.write_config("mr", &format!("{router_section}{router_keys}{FLOWS}{INGRESS}")));
        testbed.await_binding("2001:db8:2:");
        testbed.await_binding("2001:db8:4:");
        let ready = || testbed.logs().contains("connections are relayed");
        wait_or_report("a relay", ready, || testbed.logs());
        Some(Bed { testbed, server, running: vec![agent, radvd, other, router] })
    }

    /// The relayed connections that the mobile router shows.
    fn flows(&self) -> serde_json::Value {
        self.flows_of("mr")
    }

    /// Those that the mobile router (`mr`) or the home agent (`ha`) shows.
    fn flows_of(&self, who: &str) -> serde_json::Value {
        let at = if who == "mr" { &self.testbed.router } else { &self.testbed.agent };
        let mut show = at.command(&[testbed::BINARY, "show", "flows", "--json", "--run-dir"]);
        let output = show.arg(self.testbed.file(who).join("run")).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }

    /// A metric of the relay at the mobile router or the home agent.
    fn metric(&self, who: &str, name: &str) -> Option<u64> {
        let at = if who == "mr" { &self.testbed.router } else { &self.testbed.agent };
        let mut metrics = at.command(&[testbed::BINARY, "metrics", "--run-dir"]);
        let page = testbed::run(metrics.arg(self.testbed.file(who).join("run")));
        page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
    }

    /// Waits until the first relayed connection has so many subflows that are no backup.
    fn await_subflows(&self, count: usize) {
        let subflows = || {
            let flows = self.flows();
            let regular = |it: &&serde_json::Value| it["backup"] == false;
            flows["flows"][0]["subflows"].as_array().map_or(0, |all| all.iter().filter(regular).count())
        };
        let report = || format!("{}{}", self.flows(), self.testbed.logs());
        wait_or_report(&format!("{count} subflows"), || subflows() == count, report);
    }

    /// Has both ends of the second uplink's link drop all packets that they send, or no more.
    fn set_black_hole(&self, on: bool) {
        let change = |interface: &str| match on {
            true => format!("tc qdisc replace dev {interface} root pfifo limit 0"),
            false => format!("tc qdisc del dev {interface} root"),
        };
        self.testbed.agent.shell(&change("visit1"));
        self.testbed.router.shell(&change("up1"));
    }

    /// A connection from the node to the server: both ends.
    fn connect(&self, port: u16) -> (TcpStream, TcpStream) {
        self.connect_to(format!("[{SERVER}]:{port}").parse().unwrap())
    }

    fn connect_to(&self, to: SocketAddr) -> (TcpStream, TcpStream) {
        let listener = self.server.enter(|| TcpListener::bind(("::", to.port())).unwrap());
        let node = self.testbed.node.enter(|| TcpStream::connect_timeout(&to, PATIENCE));
        let node = node.unwrap_or_else(|error| panic!("{error}: {}", self.testbed.logs()));
        let (server, _) = listener.accept().unwrap();
        for end in [&node, &server] {
            end.set_read_timeout(Some(PATIENCE)).unwrap();
            end.set_write_timeout(Some(PATIENCE)).unwrap();
        }
        (node, server)
    }
}

fn read_to_end(mut stream: &TcpStream) -> Vec<u8> {
    let mut octets = Vec::new();
    stream.read_to_end(&mut octets).unwrap();
    octets
}

fn send_all(mut stream: &TcpStream, octets: &[u8]) {
    stream.write_all(octets).unwrap();
}

fn expect(mut stream: &TcpStream, expected: &[u8]) {
    let mut octets = vec![0; expected.len()];
    stream.read_exact(&mut octets).unwrap();
    assert!(octets == expected, "{:?}...", String::from_utf8_lossy(&octets[..octets.len().min(100)]));
}

/// Resets the connection.
fn reset(stream: TcpStream) {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    nix::sys::socket::setsockopt(&stream, nix::sys::socket::sockopt::Linger, &linger).unwrap();
}

#[test]
fn hosts_notice_no_relay() {
    let test = "hosts_notice_no_relay";
    let Some(bed) = Bed::new(test) else { return println!("skipped: {test}") };

    // Both ends see each other's own addresses, and the connection uses both uplinks.
    let (node, server) = bed.connect(6001);
    assert_eq!(server.peer_addr().unwrap(), node.local_addr().unwrap());
    assert_eq!(node.peer_addr().unwrap(), server.local_addr().unwrap());
    send_all(&node, b"question");
    expect(&server, b"question");
    send_all(&server, b"answer");
    expect(&node, b"answer");
    bed.await_subflows(2);

    // A half-closed connection still carries the other direction.
    node.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_to_end(&server), b"");
    send_all(&server, b"later");
    drop(server);
    assert_eq!(read_to_end(&node), b"later");

    // The server may speak first, and end first; FIN may come with data.
    let (node, server) = bed.connect(6002);
    send_all(&server, b"banner");
    server.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_to_end(&node), b"banner");
    send_all(&node, b"x");
    drop(node);
    assert_eq!(read_to_end(&server), b"x");

    // Much data arrives unchanged in both directions at once.
    let (node, server) = bed.connect(6003);
    let data: Vec<u8> = (0..8_000_000_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    std::thread::scope(|scope| {
        for (from, to) in [(&node, &server), (&server, &node)] {
            scope.spawn(|| {
                send_all(from, &data);
                from.shutdown(Shutdown::Write).unwrap();
            });
            scope.spawn(|| assert!(read_to_end(to) == data));
        }
    });

    // A reset by either end reaches the other.
    for node_resets in [true, false] {
        let (node, server) = bed.connect(6004 + u16::from(node_resets));
        send_all(&node, b"x");
        expect(&server, b"x");
        let (resets, mut survivor) = if node_resets { (node, server) } else { (server, node) };
        reset(resets);
        let error = survivor.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "node resets: {node_resets}");
    }
    for who in ["mr", "ha"] {
        let metric = |name: &str| bed.metric(who, name).unwrap_or(u64::MAX);
        assert_eq!(metric("roam6_relay_up"), 1, "{who}");
        assert_eq!(metric("roam6_relay_connections_total"), 5, "{who}");
        for direction in ["sent", "received"] {
            let octets = metric(&format!("roam6_relay_bytes_total{{direction=\"{direction}\"}}"));
            assert!((8_000_000..8_001_000).contains(&octets), "{who}: {octets} octets {direction}");
        }
    }
}

#[test]
fn a_connection_is_refused_as_its_destination_refuses_it() {
    let test = "a_connection_is_refused_as_its_destination_refuses_it";
    let Some(bed) = Bed::new(test) else { return println!("skipped: {test}") };
    bed.testbed.agent.shell("ip route add unreachable 2001:db8:7::/64 && ip route add prohibit 2001:db8:6::/64");
    let attempt = |to: &str| {
        let to: SocketAddr = to.parse().unwrap();
        bed.testbed.node.enter(|| TcpStream::connect_timeout(&to, PATIENCE)).unwrap_err()
    };
    let refused = attempt(&format!("[{SERVER}]:6100"));
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused, "{}", bed.testbed.logs());
    let error = |text: &str| attempt(text).raw_os_error();
    assert_eq!(error("[2001:db8:7::7]:6100"), Some(libc::ENETUNREACH), "no route");
    assert_eq!(error("[2001:db8:6::6]:6100"), Some(libc::EACCES), "prohibited");
    // The home agent's own services are reached through the tunnel, and not through the relay.
    let _listener = bed.testbed.agent.enter(|| TcpListener::bind("[::]:6100").unwrap());
    for own in ["[2001:db8:1::1]:6100", "[2001:db8:9::9]:6100"] {
        let to: SocketAddr = own.parse().unwrap();
        let connected = bed.testbed.node.enter(|| TcpStream::connect_timeout(&to, PATIENCE));
        assert!(connected.is_ok(), "{own}: {connected:?} {}", bed.testbed.logs());
    }
    assert_eq!(bed.flows_of("ha")["counters"]["refused_destination"], 1);
    assert_eq!(bed.flows()["flows"].as_array().map_or(9, Vec::len), 0);
    let (node, server) = bed.connect(6101);
    send_all(&node, b"still works");
    expect(&server, b"still works");
}

#[test]
fn a_connection_from_outside_is_relayed_too() {
    let test = "a_connection_from_outside_is_relayed_too";
    let Some(bed) = Bed::new(test) else { return println!("skipped: {test}") };
    let listener = bed.testbed.node.enter(|| TcpListener::bind("[::]:7001").unwrap());
    let to: SocketAddr = format!("[{NODE}]:7001").parse().unwrap();
    let server = bed.server.enter(|| TcpStream::connect_timeout(&to, PATIENCE));
    let server = server.unwrap_or_else(|error| panic!("{error}: {}", bed.testbed.logs()));
    let (node, from) = listener.accept().unwrap();
    assert_eq!(from, server.local_addr().unwrap());
    send_all(&server, b"from outside");
    expect(&node, b"from outside");
    send_all(&node, b"from inside");
    expect(&server, b"from inside");
    assert_eq!(bed.flows()["flows"].as_array().map_or(0, Vec::len), 1, "{}", bed.flows());
    let closed: SocketAddr = format!("[{NODE}]:7002").parse().unwrap();
    let refused = bed.server.enter(|| TcpStream::connect_timeout(&closed, PATIENCE)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn ipv4_connections_are_relayed_too() {
    let test = "ipv4_connections_are_relayed_too";
    let Some(bed) = Bed::with_ipv4(test) else { return println!("skipped: {test}") };
    let relayed = |who: &str| bed.flows_of(who)["counters"]["relayed"].as_u64();
    let (node, server) = bed.connect_to("198.51.100.9:6900".parse().unwrap());
    assert_eq!(server.peer_addr().unwrap().ip().to_canonical(), node.local_addr().unwrap().ip());
    assert_eq!(server.peer_addr().unwrap().port(), node.local_addr().unwrap().port());
    let data = octets_from(0, 1 << 20);
    std::thread::scope(|scope| {
        for (from, to) in [(&node, &server), (&server, &node)] {
            scope.spawn(|| send_all(from, &data));
            scope.spawn(|| expect(to, &data));
        }
    });
    bed.await_subflows(2);
    assert_eq!([relayed("mr"), relayed("ha")], [Some(1); 2], "{}", bed.flows());

    let listener = bed.testbed.node.enter(|| TcpListener::bind("10.77.1.2:7100").unwrap());
    let server = bed.server.enter(|| TcpStream::connect("10.77.1.2:7100")).unwrap();
    let (node, from) = listener.accept().unwrap();
    assert_eq!(from, server.local_addr().unwrap());
    send_all(&server, b"from outside");
    expect(&node, b"from outside");
    assert_eq!([relayed("mr"), relayed("ha")], [Some(2); 2], "{}", bed.flows());

    // IPv6 takes the same listener.
    let (node, server) = bed.connect(6901);
    send_all(&node, b"IPv6");
    expect(&server, b"IPv6");
    assert_eq!([relayed("mr"), relayed("ha")], [Some(3); 2], "{}", bed.flows());

    // Refusals are as they are without relays: ports from 5000 on are in no rule.
    bed.testbed.agent.shell("ip route add unreachable 192.0.2.0/25 && ip route add prohibit 192.0.2.128/25");
    for (address, code) in
        [("198.51.100.9", libc::ECONNREFUSED), ("192.0.2.1", libc::EHOSTUNREACH), ("192.0.2.129", libc::EHOSTUNREACH)]
    {
        for port in [6902, 5902] {
            let to = SocketAddr::new(address.parse().unwrap(), port);
            let refused = bed.testbed.node.enter(|| TcpStream::connect_timeout(&to, PATIENCE)).unwrap_err();
            assert_eq!(refused.raw_os_error(), Some(code), "{to}: {refused}");
        }
    }
    let closed = bed.server.enter(|| TcpStream::connect("10.77.1.2:7101")).unwrap_err();
    assert_eq!(closed.kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn connections_accepted_early_are_reset_if_refused() {
    const REFUSED: u16 = 50;
    let test = "connections_accepted_early_are_reset_if_refused";
    let settings = Settings { router_keys: "early = true\n", ..Settings::default() };
    let Some(bed) = Bed::with(test, &settings) else { return println!("skipped: {test}") };
    let pid = std::fs::read_to_string(bed.testbed.file("mr").join("run/relay.pid")).unwrap();
    // Of one refused connection the bearer is free again, so that there may be more of them than at the beginning.
    let idle = || bed.flows()["idle_bearers"].as_u64().unwrap_or(0) as usize;
    let others = || std::fs::read_dir(format!("/proc/{}/fd", pid.trim())).unwrap().count().saturating_sub(idle());
    wait_or_report("all bearers", || idle() == 8, || bed.flows().to_string());
    let before = others();
    for port in (6900..).take(REFUSED.into()) {
        let to: SocketAddr = format!("[{SERVER}]:{port}").parse().unwrap();
        // The reset may come before the node looks at the connection for the first time. Without early acceptance it is refused.
        let connected = bed.testbed.node.enter(|| TcpStream::connect_timeout(&to, PATIENCE));
        let ended = connected.and_then(|mut node| {
            node.set_read_timeout(Some(PATIENCE))?;
            node.read(&mut [0])
        });
        assert_eq!(ended.unwrap_err().kind(), ErrorKind::ConnectionReset, "port {port}");
    }
    assert_eq!(bed.flows()["counters"]["refused_by_destination"], REFUSED);
    let closed = || idle() < 8 + usize::from(REFUSED) / 5 && others() <= before;
    wait_or_report("closed sockets", closed, || format!("{} descriptors, {before} before: {}", others(), bed.flows()));
    let (node, server) = bed.connect(6990);
    send_all(&node, b"still works");
    expect(&server, b"still works");
}

#[test]
fn packet_too_big_from_beyond_the_home_agent_reaches_the_relay() {
    const FAR: &str = "2001:db8:a::a";
    let test = "packet_too_big_from_beyond_the_home_agent_reaches_the_relay";
    let Some(bed) = Bed::new(test) else { return println!("skipped: {test}") };
    let Some(far) = Namespace::new() else { return println!("skipped: {test}") };
    // The server becomes a router, whose link to another server takes smaller packets than both ends have on their own links.
    testbed::machines::cable(&bed.server, "far0", &far, "eth0");
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
fn hosts_that_vanish_are_noticed_by_keepalives() {
    let test = "hosts_that_vanish_are_noticed_by_keepalives";
    let Some(bed) = Bed::new(test) else { return println!("skipped: {test}") };
    // In place of two hours, and of eleven minutes until a host is given up.
    for relay in [&bed.testbed.router, &bed.testbed.agent] {
        relay.shell("cd /proc/sys/net/ipv4 && echo 2 >tcp_keepalive_time && echo 1 >tcp_keepalive_intvl && echo 2 >tcp_keepalive_probes");
    }
    let open = |who: &str| bed.flows_of(who)["flows"].as_array().map_or(9, Vec::len);
    for (port, node_vanishes) in [(6950, false), (6951, true)] {
        let (node, server) = bed.connect(port);
        send_all(&node, b"x");
        expect(&server, b"x");
        // A host that answers is kept.
        std::thread::sleep(Duration::from_secs(6));
        assert_eq!([open("mr"), open("ha")], [1, 1], "{}", bed.flows());
        let (vanished, place, mut other) =
            if node_vanishes { (node, &bed.testbed.node, server) } else { (server, &bed.server, node) };
        place.shell("tc qdisc replace dev eth0 root pfifo limit 0");
        assert_eq!(other.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset, "{}", bed.testbed.logs());
        wait_or_report("the end of the connection", || [open("mr"), open("ha")] == [0, 0], || bed.flows().to_string());
        place.shell("tc qdisc del dev eth0 root");
        drop(vanished);
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

/// Ends a daemon, and waits until it has.
fn end(running: &mut Running, signal: nix::sys::signal::Signal) {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(running.0.id().try_into().unwrap()), signal).unwrap();
    running.0.wait().unwrap();
}

#[test]
fn restarts_of_daemons_end_no_connection() {
    use nix::sys::signal::Signal;
    let test = "restarts_of_daemons_end_no_connection";
    let Some(mut bed) = Bed::new(test) else { return println!("skipped: {test}") };
    let (node, server) = bed.connect(6300);
    // The home agent, and the mobile router, are killed as by an update, and stopped as by a restart.
    for (signal, at, who) in [
        (Signal::SIGKILL, AGENT_DAEMON, "ha"),
        (Signal::SIGKILL, ROUTER_DAEMON, "mr"),
        (Signal::SIGTERM, AGENT_DAEMON, "ha"),
        (Signal::SIGTERM, ROUTER_DAEMON, "mr"),
    ] {
        end(&mut bed.running[at], signal);
        let place = if who == "ha" { &bed.testbed.agent } else { &bed.testbed.router };
        bed.running[at] = place.roam6(&bed.testbed.file(&format!("{who}.toml")));
        bed.testbed.await_binding("2001:db8:2:");
        println!("{signal} of {who}");
        send_all(&node, b"question");
        expect(&server, b"question");
        send_all(&server, b"answer");
        expect(&node, b"answer");
    }
    // New connections are relayed too.
    let relayed = || bed.flows()["counters"]["relayed"].as_u64().unwrap_or(0);
    let before = relayed();
    let (node, server) = bed.connect(6301);
    send_all(&node, b"x");
    expect(&server, b"x");
    assert!(relayed() > before, "{} {}", bed.flows(), bed.testbed.logs());
}

#[test]
fn a_reload_gives_the_relay_other_rules() {
    let test = "a_reload_gives_the_relay_other_rules";
    let Some(bed) = Bed::new(test) else { return println!("skipped: {test}") };
    let (node, server) = bed.connect(6400);
    let (outside, inside) = (FLOWS.replace("6000-6999", "5500-5999"), FLOWS.replace("7000-7999", "7500-7999"));
    let count = |who: &str| bed.flows_of(who)["flows"].as_array().map_or(0, Vec::len);
    for (flows, port) in [(outside, 5500), (inside, 6401)] {
        bed.testbed.write_config("mr", &format!("{ROUTER}{flows}{INGRESS}"));
        let daemon = nix::unistd::Pid::from_raw(bed.running[ROUTER_DAEMON].0.id().try_into().unwrap());
        nix::sys::signal::kill(daemon, nix::sys::signal::Signal::SIGHUP).unwrap();
        let works = || {
            let (_node, _server) = bed.connect(port);
            count("mr") == 2
        };
        wait_or_report("the new rules", works, || format!("{}{}", bed.flows(), bed.testbed.logs()));
        wait_or_report("the end of others", || count("mr") == 1, || bed.flows().to_string());
    }
    let unselected = bed.connect(5501);
    assert_eq!(count("mr"), 1, "5501 is not of the last rules");
    drop(unselected);
    let listener = bed.testbed.node.enter(|| TcpListener::bind("[::]:7001").unwrap());
    let to: SocketAddr = format!("[{NODE}]:7001").parse().unwrap();
    let _direct = bed.server.enter(|| TcpStream::connect_timeout(&to, PATIENCE)).unwrap();
    let _accepted = listener.accept().unwrap();
    assert_eq!(count("ha"), 1, "7001 is not offered any more: {}", bed.testbed.logs());
    send_all(&node, b"still open");
    expect(&server, b"still open");
}

#[test]
fn killed_relays_reset_connections() {
    let test = "killed_relays_reset_connections";
    let Some(bed) = Bed::new(test) else { return println!("skipped: {test}") };
    let (mut node, mut server) = bed.connect(6200);
    send_all(&node, b"x");
    expect(&server, b"x");
    let pid = std::fs::read_to_string(bed.testbed.file("ha").join("run/relay.pid")).unwrap();
    let pid = nix::unistd::Pid::from_raw(pid.trim().parse().unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
    for end in [&mut node, &mut server] {
        assert_eq!(end.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    }
    // Another one is started.
    let works = || {
        let to: SocketAddr = format!("[{SERVER}]:6201").parse().unwrap();
        let _listener = bed.server.enter(|| TcpListener::bind("[::]:6201").unwrap());
        bed.testbed.node.enter(|| TcpStream::connect_timeout(&to, Duration::from_secs(5))).is_ok()
    };
    wait_or_report("connections again", works, || bed.testbed.logs());
}

#[test]
fn an_uplink_that_was_a_black_hole_is_used_again() {
    let test = "an_uplink_that_was_a_black_hole_is_used_again";
    let Some(bed) = Bed::new(test) else { return println!("skipped: {test}") };
    let (node, server) = bed.connect(6700);
    let exchange = || {
        send_all(&node, b"question");
        expect(&server, b"question");
        send_all(&server, b"answer");
        expect(&node, b"answer");
    };
    exchange();
    bed.await_subflows(2);
    for _ in 0..2 {
        bed.set_black_hole(true);
        exchange();
        bed.await_subflows(1);
        bed.set_black_hole(false);
        bed.await_subflows(2);
        exchange();
    }
}

/// Octets of a stream, from this place on.
fn octets_from(place: usize, count: usize) -> Vec<u8> {
    (place..place + count).map(|at| ((at as u32).wrapping_mul(2_654_435_761) >> 24) as u8).collect()
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

/// What hosts do with a connection: steps of the node (`n`) and of the server (`s`), such as `n>text`, which writes, `s<4`, which
/// reads so many octets, `s<`, which reads to the end, `n|`, which ends its direction, `n.`, which closes, `n!`, which resets, `~`,
/// which waits for what is on the way, `n*500000`, which writes as many while the other end reads them, `n'300`, which writes as
/// many one by one, and `n?`, which tells the pending error.
const CASES: [&str; 42] = [
    "n>hello s<5",
    "s>hello n<5",
    "n>a s<1 s>b n<1 n>c s<1",
    "n>question s<8 s>answer n<6 n. s<",
    "n| s<",
    "s| n<",
    "n| s< s>later n<5",
    "s| n< n>later s<5",
    "n>data n| s<",
    "s>data s| n<",
    "n>data n. s<",
    "s>data s. n<",
    "n| s| n< s<",
    "n>x n| s>y s| n< s<",
    "n| s< s>late s. n<",
    "s| n< n>late n. s<",
    "n! ~ s<",
    "s! ~ n<",
    "n>x s<1 n! ~ s<",
    "s>x n<1 s! ~ n<",
    "n>unread ~ s! ~ n<",
    "s>unread ~ n! ~ s<",
    "n>unread ~ s. ~ n<",
    "s>unread ~ n. ~ s<",
    "n| s< s! ~ n<",
    "s| n< n! ~ s<",
    "n! ~ s>x ~ s?",
    "s! ~ n>x ~ n?",
    "s. ~ n>x ~ n>y ~ n?",
    "n. ~ s>x ~ s>y ~ s?",
    "n*3000000 n| s<",
    "s*3000000 s| n<",
    "n*1000000 s*1000000 n| s| n< s<",
    "n*100000 s<0 n! ~ s<",
    "n'300 s<300",
    "s'300 n<300",
    "n'100 s<50 s<50 s'100 n<100 n. s<",
    "n>x ~ ~ ~ n>y s<2",
    "~ ~ n>x s<1 ~ ~ s>y n<1",
    "s>banner n<6 n>user s<4 s>ok n<2 n>quit s<4 s. n<",
    "n>GET n| s< s*500000 s. n<",
    "n. s< s| ~ s?",
];

/// What one end sees of a step.
fn perform(step: &str, mut own: &TcpStream, mut other: &TcpStream) -> String {
    let kind = |error: std::io::Error| format!("{:?}", error.kind());
    let (act, rest) = step.split_at(1);
    let count = || rest.parse::<usize>().unwrap();
    match (act, rest) {
        (">", text) => own.write_all(text.as_bytes()).map_or_else(kind, |()| "written".to_owned()),
        ("<", "") => {
            let mut octets = Vec::new();
            let ended = own.read_to_end(&mut octets).map_or_else(kind, |_| "end".to_owned());
            format!("{} octets, {ended}", octets.len())
        }
        ("<", _) => {
            let mut octets = vec![0; count()];
            own.read_exact(&mut octets).map_or_else(kind, |()| String::from_utf8_lossy(&octets).into_owned())
        }
        ("'", _) => {
            let write = |_| own.write_all(b"x");
            (0..count()).try_for_each(write).map_or_else(kind, |()| "written one by one".to_owned())
        }
        ("*", _) => std::thread::scope(|scope| {
            let data: Vec<u8> = (0..count()).map(|at| (at % 251) as u8).collect();
            let expected = data.clone();
            let writer = scope.spawn(move || own.write_all(&data).is_ok());
            let mut octets = vec![0; expected.len()];
            let arrived = other.read_exact(&mut octets).is_ok() && octets == expected;
            format!("{} {arrived}", writer.join().unwrap())
        }),
        ("|", _) => own.shutdown(Shutdown::Write).map_or_else(kind, |()| "ended".to_owned()),
        ("?", _) => format!("{:?}", own.take_error().unwrap().map(|error| error.kind())),
        other => panic!("{other:?}"),
    }
}

/// What both ends see of a case.
fn outcome(bed: &Bed, case: &str, to: SocketAddr) -> Vec<String> {
    let (node, server) = bed.connect_to(to);
    let mut ends = [Some(node), Some(server)];
    let mut seen = Vec::new();
    for step in case.split(' ') {
        let (who, step) = step.split_at(1);
        let at = usize::from(who == "s");
        match step {
            "" => std::thread::sleep(Duration::from_millis(300)),
            "." => drop(ends[at].take()),
            "!" => ends[at].take().into_iter().for_each(reset),
            _ => {
                // The other end may have closed: what it would see is not looked at.
                let own = ends[at].as_ref().unwrap();
                seen.push(perform(step, own, ends[1 - at].as_ref().unwrap_or(own)));
            }
        }
    }
    seen
}

/// Each case with and without relays, to this server.
fn compare(bed: &Bed, server: &str) {
    let address: IpAddr = server.parse().unwrap();
    let mut differ = Vec::new();
    for (case, port) in CASES.iter().zip(6500_u16..) {
        let [relayed, plain] = [port, port - 1000].map(|port| outcome(bed, case, SocketAddr::new(address, port)));
        if relayed != plain {
            differ.push(format!("{case}: {relayed:?}, without relays {plain:?}"));
        }
    }
    let relayed = bed.flows()["counters"]["relayed"].as_u64().unwrap_or(0);
    assert!(relayed >= CASES.len() as u64, "{relayed} connections were relayed");
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}

#[test]
fn relayed_connections_behave_as_those_through_the_tunnel() {
    let test = "relayed_connections_behave_as_those_through_the_tunnel";
    let Some(bed) = Bed::new(test) else { return println!("skipped: {test}") };
    compare(&bed, SERVER);
}

#[test]
fn relayed_ipv4_connections_behave_as_those_through_the_tunnel() {
    let test = "relayed_ipv4_connections_behave_as_those_through_the_tunnel";
    let Some(bed) = Bed::with_ipv4(test) else { return println!("skipped: {test}") };
    compare(&bed, "198.51.100.9");
}
