//! What bindings and neighbours may not achieve: packets that loop for ever, or packets with sources of the mobile
//! network.

use crate::netns_host::RECEIVE_TIMEOUT;
use crate::testbed::{
    CN, COA, HOME, MNN, MNP, OTHER_HOME, OTHER_MNN, OTHER_MNP, Testbed, arrives, at_home_agent, is_dropped,
};
use crate::testbed_or_skip;
use nix::sys::socket::{AddressFamily, LinkAddr, SockFlag, SockProtocol, SockType, recvfrom, socket};
use roam6_proto::contract::item::Tunnel;
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// How long after a packet others may follow it.
const AFTERMATH: Duration = Duration::from_millis(500);

/// Captures all packets of an interface.
struct Tap(OwnedFd, i32);

impl Tap {
    fn on(host: &crate::netns_host::Host, interface: &str) -> Tap {
        let kind = (AddressFamily::Packet, SockType::Datagram, SockFlag::SOCK_NONBLOCK, SockProtocol::EthAll);
        let fd = host.enter(|| socket(kind.0, kind.1, kind.2, kind.3)).unwrap();
        Tap(fd, i32::try_from(host.index(interface)).unwrap())
    }

    /// Tunnelled packets and fragments since the last call.
    fn tunnelled(&self) -> usize {
        let mut buffer = [0; 2048];
        let mut seen = 0;
        while let Ok((_, from)) = recvfrom::<LinkAddr>(self.0.as_raw_fd(), &mut buffer) {
            let here = from.is_some_and(|from| from.ifindex() as i32 == self.1);
            seen += usize::from(here && [41, 44].contains(&buffer[6]));
        }
        seen
    }
}

/// Two tunnels of the home agent, each with its remote endpoint in the other's network, with this path MTU.
fn loop_of(testbed: &mut Testbed, mtu: u32) {
    let narrow = |mut tunnel: Tunnel| {
        tunnel.paths[0].mtu = mtu;
        tunnel
    };
    testbed.ha.put(&narrow(at_home_agent(1, (HOME, MNP), &[("2001:db8:f1:9::9", 1, 1)])));
    testbed.ha.put(&narrow(at_home_agent(2, (OTHER_HOME, OTHER_MNP), &[("2001:db8:f0:9::9", 1, 1)])));
    testbed.ha.host.ip(&format!("route replace {OTHER_MNP} dev nemo0 mtu 1280"));
    testbed.ha.host.ip(&format!("route replace {MNP} dev nemo0 mtu 1280"));
}

#[test]
fn looping_bindings_stop_at_the_encapsulation_limit() {
    let mut testbed = testbed_or_skip!("looping_bindings_stop_at_the_encapsulation_limit");
    let cn: UdpSocket = testbed.cn.udp(&format!("[{CN}]:5000"));
    for (mtu, octets) in [(1460, 100), (1460, 1100), (1240, 1100), (1240, 1200), (1240, 1232)] {
        loop_of(&mut testbed, mtu);
        for to in [MNN, OTHER_MNN] {
            let tap = Tap::on(&testbed.core, "core0");
            let entered =
                |testbed: &mut Testbed| testbed.ha.count("encapsulated") + testbed.ha.count("encapsulated_slow");
            let before = (entered(&mut testbed), testbed.ha.count("fragmented"), testbed.ha.count("dropped_nested"));
            cn.send_to(&vec![7; octets], (to, 5000)).unwrap();
            let sent = Instant::now();
            while testbed.ha.count("dropped_nested") == before.2 && sent.elapsed() < RECEIVE_TIMEOUT {
                std::thread::sleep(Duration::from_millis(10));
            }
            std::thread::sleep(AFTERMATH);
            let headers = entered(&mut testbed) - before.0;
            let cut = testbed.ha.count("fragmented") - before.1;
            let dropped = testbed.ha.count("dropped_nested") - before.2;
            let case =
                format!("{octets} octets to {to}, paths of {mtu}: {headers} headers, {cut} cut, {dropped} dropped");
            assert!(headers <= 12 && cut <= 1 && (1..=2).contains(&dropped), "{case}");
            assert!(tap.tunnelled() <= 4, "{case}");
        }
    }
}

#[test]
fn nested_network_is_reached_up_to_the_encapsulation_limit() {
    let mut testbed = testbed_or_skip!("nested_network_is_reached_up_to_the_encapsulation_limit");
    // Each binding's care-of address lies in the network of the one before; the first is a real one.
    let chain = [
        (1, MNP, COA),
        (2, OTHER_MNP, "2001:db8:f0:9::9"),
        (3, "2001:db8:f2::/48", "2001:db8:f1:9::9"),
        (4, "2001:db8:f3::/48", "2001:db8:f2:9::9"),
        (5, "2001:db8:f4::/48", "2001:db8:f3:9::9"),
    ];
    for (id, network, care_of) in chain {
        testbed.ha.put(&at_home_agent(id, (&format!("2001:db8:5::f{id}"), network), &[(care_of, 1, 1)]));
        testbed.ha.host.ip(&format!("route replace {network} dev nemo0 mtu 1280"));
    }
    let cn = testbed.cn.udp(&format!("[{CN}]:5000"));
    for (depth, to) in [(4, "2001:db8:f3::1"), (5, "2001:db8:f4::1")] {
        let (mut sent, mut tries) = (0, 0);
        let dropped = testbed.ha.count("dropped_nested");
        // The first may be lost to neighbour discovery.
        while sent == 0 && tries < 5 && testbed.ha.count("dropped_nested") == dropped {
            let tap = Tap::on(&testbed.core, "core0");
            cn.send_to(&[7; 100], (to, 5000)).unwrap();
            std::thread::sleep(AFTERMATH);
            sent = tap.tunnelled();
            tries += 1;
        }
        assert_eq!(sent, usize::from(depth == 4), "{depth} networks deep");
        assert_eq!(testbed.ha.count("dropped_nested") - dropped, u64::from(depth == 5), "{depth} networks deep");
    }
}

#[test]
fn visited_link_cannot_spoof_the_mobile_network() {
    let mut testbed = testbed_or_skip!("visited_link_cannot_spoof_the_mobile_network");
    let (cn, mnn) = (testbed.cn.udp(&format!("[{CN}]:5000")), testbed.mnn.udp(&format!("[{MNN}]:5000")));
    for _ in 0..5 {
        assert!(arrives(&mnn, &cn, 100) && arrives(&cn, &mnn, 100));
    }
    // Somebody on the link sends all to the mobile router, as an address inside, as the home address, and as the node itself.
    testbed.core.ip(&format!("route add {CN}/128 via {COA} dev core1"));
    for source in ["2001:db8:f0:1::77", HOME, MNN] {
        testbed.core.ip(&format!("address add {source}/128 dev lo nodad"));
        let forger = testbed.core.udp(&format!("[{source}]:5000"));
        let before = testbed.mr.count("encapsulated");
        for _ in 0..3 {
            assert!(arrives(&mnn, &cn, 100), "what the node itself sends is remembered");
            assert!(is_dropped(&forger, &cn, 100), "from {source}");
        }
        assert!(testbed.mr.count("encapsulated") - before <= 3, "from {source}");
    }
    assert!(arrives(&mnn, &cn, 100));
    let begin = Instant::now();
    while is_dropped(&cn, &mnn, 100) {
        assert!(begin.elapsed() < RECEIVE_TIMEOUT, "the fast path does not recover");
    }
}
