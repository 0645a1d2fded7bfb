//! Flow rules of the real binaries: IPv4 inside, DSCP, and ingress interfaces, in both directions; what is on the wire is
//! judged by tshark (RFC 6088 §3, RFC 6089, RFC 2983 §3).

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test fails at the assertion")]

mod testbed;

use std::process::Command;
use testbed::capture::{Capture, Dissected};
use testbed::{Namespace, ROUTER, Testbed, wait_or_report};

/// Two uplinks, two ingress interfaces, and three flows that take the second uplink. Without probes, by which the first
/// one would be left on a busy machine.
const CONFIG: &str = "
[mobile_router.probe]
enabled = false
[[mobile_router.uplink]]
interface = \"up0\"
[[mobile_router.uplink]]
interface = \"up1\"
dscp = \"af11\"
[[mobile_router.ingress]]
interface = \"in0\"
prefix = \"2001:db8:100::/64\"
[[mobile_router.ingress]]
interface = \"in1\"
prefix = \"2001:db8:100:1::/64\"
[[mobile_router.flow]]
uplink = \"up1\"
dscp = \"ef\"
[[mobile_router.flow]]
uplink = \"up1\"
inside = \"10.77.1.0/24\"
protocol = \"icmp\"
[[mobile_router.flow]]
uplink = \"up1\"
from = \"in1\"
";
/// A host beyond the home agent, which is `2001:db8:9::9` too.
const CORRESPONDENT: &str = "198.51.100.9";

/// The two visited networks while the node pings with these words; and the answers it got.
fn observe(testbed: &Testbed, node: &Namespace, words: &[&str]) -> [Dissected; 2] {
    let name = |interface: &str| format!("{interface}-{}", words.concat().replace(['.', ':', '/'], "_"));
    let links = ["visit0", "visit1"];
    let captures = links.map(|link| Capture::begin(testbed, &testbed.agent, link, &name(link)));
    let output = node.command(&["ping", "-n", "-i", "0.05", "-c", "5", "-W", "5"]).args(words).output().unwrap();
    let output = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.contains(" 0% packet loss"), "{words:?}: {output}{}", testbed.logs());
    captures.map(Capture::end)
}

/// The uplink of the packets towards the correspondent, and of those back: 0 or 1.
fn uplinks_of(seen: &[Dissected; 2]) -> [usize; 2] {
    let echo = |from: &str, number: u8, number4: u8| {
        let of_6 = format!("ipv6.{from} == 2001:db8:9::9 && icmpv6.type == {number}");
        format!("({of_6}) || (ip.{from} == {CORRESPONDENT} && icmp.type == {number4})")
    };
    [echo("dst", 128, 8), echo("src", 129, 0)].map(|filter| {
        let counts = seen.each_ref().map(|capture| capture.count(&filter));
        let uplink = usize::from(counts[0] == 0);
        assert!(counts[uplink] == 5 && counts[1 - uplink] == 0, "{filter}: {counts:?}");
        uplink
    })
}

#[test]
fn flows_take_their_uplink_in_both_directions() {
    let test = "flows_take_their_uplink_in_both_directions";
    let tools = ["tcpdump", "tshark"].iter().all(|tool| Command::new(tool).arg("--version").output().is_ok());
    let Some(testbed) = Testbed::new(test).filter(|_| tools) else { return println!("skipped: {test}") };
    let second = Namespace::new().unwrap();
    testbed
        .router
        .shell(&format!("ip link add in1 type veth peer name eth0 netns {} && ip link set in1 up", second.number()));
    second.shell(
        "sysctl -qw net.ipv6.conf.eth0.accept_ra=0 net.ipv6.conf.eth0.accept_dad=0 && ip link set eth0 up && \
         ip address add 2001:db8:100:1::2/64 dev eth0 nodad && ip route add default via 2001:db8:100:1::1",
    );
    testbed.router.shell("ip address add 10.77.1.1/24 dev in0");
    testbed.node.shell("ip address add 10.77.1.2/24 dev eth0 && ip route add default via 10.77.1.1");
    testbed.agent.shell(&format!("sysctl -qw net.ipv4.ip_forward=1 && ip address add {CORRESPONDENT}/32 dev lo"));
    testbed.enroll(&["--prefix", "10.77.1.0/24"]);
    let _agent = testbed.start_agent();
    let (_radvd, _other) = (testbed.advertise("2001:db8:2::/64"), testbed.add_other_network());
    let router = ROUTER.replace("/56\"]", "/56\", \"10.77.1.0/24\"]");
    let _router = testbed.router.roam6(&testbed.write_config("mr", &format!("{router}{CONFIG}")));
    testbed.await_binding("2001:db8:2:");
    testbed.await_binding("2001:db8:4:");
    for (node, to) in [(&testbed.node, "2001:db8:9::9"), (&second, "2001:db8:9::9"), (&testbed.node, CORRESPONDENT)] {
        let reaches = || node.ping(1, "56", to).contains("1 received");
        wait_or_report("a way out", reaches, || testbed.logs());
    }

    let plain = observe(&testbed, &testbed.node, &["2001:db8:9::9"]);
    assert_eq!(
        uplinks_of(&plain),
        [0, 0],
        "no rule: the better uplink: {}{}",
        testbed.show("mr", "links"),
        testbed.logs()
    );
    let marked = observe(&testbed, &testbed.node, &["-Q", "0xb8", "2001:db8:9::9"]);
    assert_eq!(uplinks_of(&marked), [1, 1], "by DSCP");
    let ipv4 = observe(&testbed, &testbed.node, &[CORRESPONDENT]);
    assert_eq!(uplinks_of(&ipv4), [1, 1], "by protocol and IPv4 prefix");
    let other = observe(&testbed, &second, &["2001:db8:9::9"]);
    assert_eq!(uplinks_of(&other), [1, 1], "by ingress interface");

    // Outer and inner DSCP: the uplink's own replaces that of the outer header, and the home agent copies it.
    let [_, second_uplink] = &marked;
    let dscp = |filter: &str| second_uplink.fields(filter, &["ipv6.tclass.dscp"]);
    let (up, down) = (dscp("ipv6.dst == 2001:db8:9::9"), dscp("ipv6.src == 2001:db8:9::9"));
    assert!(up.iter().all(|of| of[0] == ["10", "46"]) && !up.is_empty(), "{up:?}");
    assert!(down.iter().all(|of| of[0] == ["46", "46"]) && !down.is_empty(), "{down:?}");
    for capture in plain.iter().chain(&marked).chain(&ipv4).chain(&other) {
        capture.check();
    }
    assert!(!testbed.logs().contains("rejects flow"), "{}", testbed.logs());
}
