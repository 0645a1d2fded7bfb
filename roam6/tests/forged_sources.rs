//! Source addresses of the mobile network, and the home address, count only in packets from inside (RFC 3963 §9): what
//! an attacker on a visited link sends with them is neither tunnelled nor forwarded to a node inside.

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails at the assertion")]

mod testbed;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;
use testbed::{Namespace, Running, Testbed, wait_for};

const CORRESPONDENT: &str = "2001:db8:9::9";
const NODE: &str = "2001:db8:100::2";

/// Writes the source of each datagram it receives to a file.
const LISTENER: &str = "import socket, sys
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.bind((sys.argv[1], 7007))
with open(sys.argv[2], 'a', buffering=1) as out:
    while True: print(s.recvfrom(2048)[1][0], file=out)
";

/// Sends datagrams with any source: interface, link-layer address of the next hop, source, destination, how many.
const SENDER: &str = "import socket, struct, sys
link, mac, source, to, count = sys.argv[1:]
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind((link, 0x86dd))
a, b = (socket.inet_pton(socket.AF_INET6, x) for x in (source, to))
udp = struct.pack('!HHH', 7007, 7007, 8 + 8)
words = struct.unpack('!28H', a + b + struct.pack('!II', 16, 17) + udp + b'\\0\\0' + b'datagram')
total = sum(words)
while total >> 16: total = (total & 0xffff) + (total >> 16)
packet = struct.pack('!IHBB', 6 << 28, 16, 17, 64) + a + b + udp + struct.pack('!H', total ^ 0xffff) + b'datagram'
for _ in range(int(count)):
    s.send(bytes.fromhex(mac.replace(':', '')) + b'\\2\\0\\0\\0\\0\\x99' + b'\\x86\\xdd' + packet)
";

fn listen(testbed: &Testbed, place: &Namespace, address: &str) -> (Running, PathBuf) {
    let file = testbed.file(&format!("received-{}", address.replace(':', "-")));
    fs::write(&file, "").unwrap();
    (place.start(&["python3", "-c", LISTENER, address, file.to_str().unwrap()]), file)
}

fn send_as(place: &Namespace, link: &str, mac: &str, source: &str, to: &str) {
    let sent = place.command(&["python3", "-c", SENDER, link, mac, source, to, "9"]).status().unwrap();
    assert!(sent.success());
}

#[test]
fn forged_sources_of_the_mobile_network_are_dropped() {
    let Some(testbed) = Testbed::new("forged_sources_of_the_mobile_network_are_dropped") else {
        return;
    };
    testbed.enroll(&[]);
    let _agent = testbed.start_agent();
    let _radvd = testbed.advertise("2001:db8:2::/64");
    let _router = testbed.start_router("");
    testbed.await_binding("2001:db8:2:");
    let (_there, outside) = listen(&testbed, &testbed.agent, CORRESPONDENT);
    let (_here, inside) = listen(&testbed, &testbed.node, NODE);
    let (uplink, ingress) = (testbed.router.link_address("up0"), testbed.router.link_address("in0"));
    // The sender works: packets of the node, of others on its link, and of a router nested there (any address of the mobile
    // network) go out, and a neighbour on the visited link reaches the node with an address of that link.
    for source in [NODE, "2001:db8:100::7", "2001:db8:100:5::1"] {
        wait_for("a datagram from inside arrives", || {
            send_as(&testbed.node, "eth0", &ingress, source, CORRESPONDENT);
            std::thread::sleep(Duration::from_millis(200));
            fs::read_to_string(&outside).unwrap().lines().any(|line| line == source)
        });
    }
    wait_for("a datagram of a neighbour arrives inside", || {
        send_as(&testbed.agent, "visit0", &uplink, "2001:db8:2::1", NODE);
        std::thread::sleep(Duration::from_millis(200));
        fs::read_to_string(&inside).unwrap().contains("2001:db8:2::1")
    });
    for source in [NODE, "2001:db8:100::7", "2001:db8:100::dead", "2001:db8:100:5::1", "2001:db8:1::100"] {
        fs::write(&outside, "").unwrap();
        fs::write(&inside, "").unwrap();
        send_as(&testbed.agent, "visit0", &uplink, source, CORRESPONDENT);
        send_as(&testbed.agent, "visit0", &uplink, source, NODE);
        std::thread::sleep(Duration::from_millis(500));
        let received = [&outside, &inside].map(|file| fs::read_to_string(file).unwrap().lines().count());
        assert_eq!(received, [0, 0], "from {source}: tunnelled, and inside\n{}", testbed.router.shell("ip -6 rule"));
    }
    // The router's own packets, and those from inside, still go out, and their replies come back.
    let answers = |place: &Namespace, source: &str| {
        let output = place.command(&["ping", "-nc3", "-i0.1", "-W20", "-I", source, CORRESPONDENT]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).matches("bytes from").count()
    };
    assert_eq!(answers(&testbed.router, "2001:db8:1::100"), 3, "{}", testbed.logs());
    assert_eq!(answers(&testbed.router, "2001:db8:100::1"), 3, "{}", testbed.logs());
    assert_eq!(answers(&testbed.node, NODE), 3, "{}", testbed.logs());
}
