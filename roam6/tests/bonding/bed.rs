//! The testbed with relays and a server behind the home agent, and the two ends of its connections.
#![allow(dead_code, reason = "each test uses its part")]

use crate::testbed::capture::Capture;
use crate::testbed::{self, INGRESS, Namespace, ROUTER, Running, Testbed, wait_or_report};
use nix::libc;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

pub(crate) const SERVER: &str = "2001:db8:8::8";
pub(crate) const NODE: &str = "2001:db8:100::2";
/// All connections to ports from 6000 on, and those from outside to ports from 7000 on.
pub(crate) const FLOWS: &str = "
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
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The testbed, with a server behind the home agent.
pub(crate) struct Bed {
    pub(crate) testbed: Testbed,
    pub(crate) server: Namespace,
    pub(crate) running: Vec<Running>,
    /// What passes the two visited links, if that is captured.
    pub(crate) captures: Vec<Capture>,
}

/// The daemons among what runs.
pub(crate) const AGENT_DAEMON: usize = 0;
pub(crate) const ROUTER_DAEMON: usize = 3;

/// What differs from the usual configuration.
#[derive(Default)]
pub(crate) struct Settings<'a> {
    /// Options of `enroll`.
    pub(crate) enrolment: &'a [&'a str],
    /// Further keys of the home agent.
    pub(crate) agent_keys: &'a str,
    /// Further keys of the mobile router.
    pub(crate) router_keys: &'a str,
    /// Its further prefixes.
    pub(crate) prefixes: &'a [&'a str],
    /// The visited links are captured, before the mobile router starts.
    pub(crate) captured: bool,
}

impl Bed {
    pub(crate) fn new(test: &str) -> Option<Bed> {
        Bed::with(test, &Settings::default())
    }

    /// With IPv4 too: the server is 198.51.100.9, the node 10.77.1.2.
    pub(crate) fn with_ipv4(test: &str) -> Option<Bed> {
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

    pub(crate) fn with(test: &str, settings: &Settings<'_>) -> Option<Bed> {
        let Settings { enrolment, agent_keys, router_keys, prefixes, captured } = settings;
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
        let links = ["visit0", "visit1"].into_iter().filter(|_| *captured);
        let captures = links.map(|link| Capture::begin(&testbed, &testbed.agent, link, link)).collect();
        let further: String = prefixes.iter().map(|prefix| format!(", \"{prefix}\"")).collect();
        let router_section = ROUTER.replace("/56\"]", &format!("/56\"{further}]"));
        let router = testbed
            .router
            .roam6(&testbed.write_config("mr", &format!("{router_section}{router_keys}{FLOWS}{INGRESS}")));
        testbed.await_binding("2001:db8:2:");
        testbed.await_binding("2001:db8:4:");
        let ready = || testbed.logs().contains("connections are relayed");
        wait_or_report("a relay", ready, || testbed.logs());
        Some(Bed { testbed, server, running: vec![agent, radvd, other, router], captures })
    }

    /// The host of the mobile router (`mr`) or of the home agent (`ha`).
    pub(crate) fn host(&self, who: &str) -> &Namespace {
        if who == "mr" { &self.testbed.router } else { &self.testbed.agent }
    }

    /// The relayed connections that the mobile router shows.
    pub(crate) fn flows(&self) -> serde_json::Value {
        self.flows_of("mr")
    }

    /// Those that the mobile router (`mr`) or the home agent (`ha`) shows.
    pub(crate) fn flows_of(&self, who: &str) -> serde_json::Value {
        let mut show = self.host(who).command(&[testbed::BINARY, "show", "flows", "--json", "--run-dir"]);
        let output = show.arg(self.testbed.file(who).join("run")).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }

    /// A metric of the relay at the mobile router or the home agent.
    pub(crate) fn metric(&self, who: &str, name: &str) -> Option<u64> {
        let mut metrics = self.host(who).command(&[testbed::BINARY, "metrics", "--run-dir"]);
        let page = testbed::run(metrics.arg(self.testbed.file(who).join("run")));
        page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
    }

    /// Waits until the first relayed connection has so many subflows that are no backup.
    pub(crate) fn await_subflows(&self, count: usize) {
        let subflows = || {
            let flows = self.flows();
            let regular = |it: &&serde_json::Value| it["backup"] == false;
            flows["flows"][0]["subflows"].as_array().map_or(0, |all| all.iter().filter(regular).count())
        };
        let report = || format!("{}{}", self.flows(), self.testbed.logs());
        wait_or_report(&format!("{count} subflows"), || subflows() == count, report);
    }

    /// Has both ends of the links of these uplinks drop all packets that they send, or no more.
    pub(crate) fn set_black_holes(&self, on: bool, uplinks: &[usize]) {
        let change = |interface: String| match on {
            true => format!("tc qdisc replace dev {interface} root pfifo limit 0"),
            false => format!("tc qdisc del dev {interface} root"),
        };
        for uplink in uplinks {
            self.testbed.agent.shell(&change(format!("visit{uplink}")));
            self.testbed.router.shell(&change(format!("up{uplink}")));
        }
    }

    /// The largest number of subflows from one care-of address that the home agent has of one bearer.
    pub(crate) fn most_subflows_of_an_address(&self) -> usize {
        let shown = self.testbed.agent.shell("ss -Htne state established sport = :4191");
        let mut counts = std::collections::BTreeMap::new();
        for line in shown.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let peer = words.get(3).and_then(|end| end.rsplit_once(':')).map(|(address, _)| address.to_owned());
            let bearer = words.iter().find(|word| word.starts_with("ino:")).map(|word| (*word).to_owned());
            *counts.entry((peer, bearer)).or_insert(0) += 1;
        }
        counts.into_values().max().unwrap_or(0)
    }

    /// A connection from the node to the server: both ends.
    pub(crate) fn connect(&self, port: u16) -> (TcpStream, TcpStream) {
        self.connect_to(format!("[{SERVER}]:{port}").parse().unwrap())
    }

    pub(crate) fn connect_to(&self, to: SocketAddr) -> (TcpStream, TcpStream) {
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

pub(crate) fn read_to_end(mut stream: &TcpStream) -> Vec<u8> {
    let mut octets = Vec::new();
    stream.read_to_end(&mut octets).unwrap();
    octets
}

pub(crate) fn send_all(mut stream: &TcpStream, octets: &[u8]) {
    stream.write_all(octets).unwrap();
}

pub(crate) fn expect(mut stream: &TcpStream, expected: &[u8]) {
    let mut octets = vec![0; expected.len()];
    stream.read_exact(&mut octets).unwrap();
    assert!(octets == expected, "{:?}...", String::from_utf8_lossy(&octets[..octets.len().min(100)]));
}

/// Resets the connection.
pub(crate) fn reset(stream: TcpStream) {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    nix::sys::socket::setsockopt(&stream, nix::sys::socket::sockopt::Linger, &linger).unwrap();
}

/// Octets of a stream, from this place on.
pub(crate) fn octets_from(place: usize, count: usize) -> Vec<u8> {
    (place..place + count).map(|at| ((at as u32).wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}
