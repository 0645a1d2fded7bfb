//! Visited networks that drop protocol 135, then 41, or pass UDP only, with nftables on the way, all real binaries: UDP over
//! IPv6 takes over by itself, and connections live on. What is on the wire is judged by tshark.

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails at the assertion")]

mod testbed;

use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};
use testbed::nat::{Transfer, dissect};
use testbed::{Namespace, Running, Testbed, wait_for, wait_or_report};

/// Time for a change on a busy machine; on an idle one it is two seconds.
const CHANGE: Duration = Duration::from_secs(15);

/// A testbed whose visited network is behind a bridge that filters.
struct Filtered {
    testbed: Testbed,
    wall: Namespace,
}

impl Filtered {
    fn new(test: &str) -> Option<Filtered> {
        for tool in ["nft", "tcpdump", "tshark"] {
            if Command::new(tool).arg("--version").output().is_err() {
                println!("skipped: {test}: {tool} is missing");
                return None;
            }
        }
        let (testbed, wall) = (Testbed::new(test)?, Namespace::new()?);
        testbed.agent.shell(&format!(
            "ip link del visit0 && ip link add visit0 type veth peer name w0 netns {} && ip link set visit0 up && \
             ip address add 2001:db8:2::1/64 dev visit0 nodad",
            wall.number()
        ));
        testbed
            .router
            .shell(&format!("ip link add up0 type veth peer name w1 netns {} && ip link set up0 up", wall.number()));
        let script = "sysctl -qw net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.default.accept_dad=0 && \
             ip link add br0 type bridge mcast_snooping 0 && for port in w0 w1; do ip link set $port master br0 up; done && \
             ip link set br0 up && ip address add 2001:db8:2::bad/64 dev br0 nodad && \
             ip route add 2001:db8:1::/64 via 2001:db8:2::1 && \
             nft 'table bridge wall { set dropped { type inet_proto; }; chain pass { \
             type filter hook forward priority 0; meta l4proto @dropped drop; }; }'";
        wall.shell(script);
        testbed.enroll(&[]);
        Some(Filtered { testbed, wall })
    }

    /// From now on the bridge drops these protocols too.
    fn drop(&self, protocols: &str) {
        self.wall.shell(&format!("nft add element bridge wall dropped '{{ {protocols} }}'"));
    }

    /// From now on the bridge drops all but UDP and neighbour discovery.
    fn pass_udp_only(&self) {
        self.drop("135, 41, 4, 50, 6");
        self.wall.shell("nft insert rule bridge wall pass icmpv6 type '{ echo-request, echo-reply }' drop");
        self.wall.shell("nft insert rule bridge wall pass exthdr frag exists drop");
    }

    fn capture(&self) -> (PathBuf, Running) {
        let file = self.testbed.file("w1.pcap");
        let words = ["tcpdump", "-Z", "root", "-U", "--immediate-mode", "-i", "w1", "-w", file.to_str().unwrap()];
        let listener = self.wall.start(&words);
        wait_for("tcpdump", || file.exists());
        (file, listener)
    }

    fn is_udp(&self) -> bool {
        self.testbed.show("mr", "links").lines().any(|line| line.starts_with("up0") && line.contains(" udp "))
    }

    fn await_udp(&self, what: &str) {
        let began = Instant::now();
        wait_or_report(
            what,
            || self.is_udp(),
            || format!("{}\n{}", self.testbed.show("mr", "links"), self.testbed.logs()),
        );
        println!("{what}: after {:?}", began.elapsed());
        assert!(began.elapsed() < CHANGE, "{}", self.testbed.logs());
    }

    fn passes(&self, size: &str) -> bool {
        self.testbed.node.ping(2, size, "2001:db8:9::9").contains(" 0% packet loss")
    }
}

#[test]
fn connection_survives_a_filter_that_passes_udp() {
    let Some(filtered) = Filtered::new("connection_survives_a_filter_that_passes_udp") else { return };
    let testbed = &filtered.testbed;
    let (file, listener) = filtered.capture();
    let _agent = testbed.start_agent();
    let _radvd = testbed.advertise("2001:db8:2::/64");
    let router = testbed.start_router("");
    testbed.await_binding("2001:db8:2:");
    wait_for("a way out", || filtered.passes("56"));
    assert!(!filtered.is_udp());
    let transfer = Transfer::begin(testbed, "[2001:db8:9::9]:5001");
    transfer.goes_on("natively");
    filtered.drop("135");
    transfer.goes_on("without signalling");
    filtered.drop("41");
    filtered.await_udp("UDP takes over");
    transfer.goes_on("in UDP");
    let json = testbed.router.shell(&format!(
        "{} show links --json --run-dir {}",
        testbed::BINARY,
        testbed.file("mr").join("run").display()
    ));
    assert!(json.contains("\"transport\":\"udp\"") || json.contains("\"transport\": \"udp\""), "{json}");
    assert!(testbed.logs().contains("udp to the home agent"), "{}", testbed.logs());

    // Another instance remembers the network.
    drop(router);
    let _router = testbed.start_router("");
    filtered.await_udp("another instance");
    transfer.goes_on("with another instance");
    transfer.end();
    wait_or_report("it is reported", || testbed.logs().contains("in this network before"), || testbed.logs());

    drop(listener);
    let kinds = dissect(&file, "udp.port==4191 && mipv6", "mip6.mhtype");
    assert!(kinds.lines().any(|kind| kind == "5") && kinds.lines().any(|kind| kind == "6"), "{kinds}");
    assert_eq!(dissect(&file, "udp.port==4191 && mipv6 && _ws.malformed", "frame.number"), "");
    assert!(!dissect(&file, "udp.port==4191 && tcp", "frame.number").is_empty());
}

#[test]
fn network_that_passes_udp_only_is_used_from_the_start() {
    let Some(filtered) = Filtered::new("network_that_passes_udp_only_is_used_from_the_start") else { return };
    let testbed = &filtered.testbed;
    filtered.pass_udp_only();
    let _agent = testbed.start_agent();
    let _radvd = testbed.advertise("2001:db8:2::/64");
    let _router = testbed.start_router("");
    filtered.await_udp("UDP alone");
    wait_or_report("a way out", || filtered.passes("56"), || testbed.logs());
    wait_or_report("1452 octets pass", || filtered.passes("1404"), || testbed.logs());
    assert!(!filtered.passes("1405"), "1452 octets and 48 of headers");
    let shown = testbed.show("ha", "bindings");
    assert!(shown.contains("4191"), "{shown}");

    // What somebody without the key sends to either end is not answered, nor forwarded.
    let inner = |source: &str, next: u8| {
        let mut packet = vec![0x60, 0, 0, 0, 0, 8, next, 64];
        for address in [source, "2001:db8:1::1"] {
            packet.extend(address.parse::<std::net::Ipv6Addr>().unwrap().octets());
        }
        packet.extend([128, 0, 0, 0, 0, 1, 0, 1]);
        packet
    };
    let answered = filtered.wall.enter(|| {
        let socket = UdpSocket::bind("[2001:db8:2::bad]:4191").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        for source in ["2001:db8:1::100", "2001:db8:100::2", "2001:db8:2::bad"] {
            for next in [58, 135, 50] {
                socket.send_to(&inner(source, next), "[2001:db8:1::1]:4191").unwrap();
            }
        }
        let mut answer = [0; 2000];
        socket.recv_from(&mut answer).is_ok()
    });
    assert!(!answered, "{}", testbed.logs());
    assert!(filtered.passes("56"), "nothing has changed");
}

#[test]
fn forced_udp_needs_a_home_agent_that_serves_it() {
    let Some(filtered) = Filtered::new("forced_udp_needs_a_home_agent_that_serves_it") else { return };
    let testbed = &filtered.testbed;
    let agent = testbed.start_agent_more("udp6 = false\n");
    let _radvd = testbed.advertise("2001:db8:2::/64");
    let config = testbed.router_config("auto", "");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text.replace("interface = \"up0\"", "interface = \"up0\"\ntransport = \"udp\"")).unwrap();
    let _router = testbed.router.roam6(&config);
    wait_or_report("it says why", || testbed.logs().contains("does not answer in UDP"), || testbed.logs());
    assert!(!testbed.show("ha", "bindings").contains("2001:db8:2:"));
    drop(agent);
    let _agent = testbed.start_agent();
    testbed.await_binding("2001:db8:2:");
    wait_or_report("a way out", || filtered.passes("56"), || testbed.logs());
    assert!(testbed.show("ha", "bindings").contains("4191"));
}
