//! The same movement with roam6 and with WireGuard alone, whose home endpoint learns the new address from received packets: how
//! long a stream of datagrams is interrupted, in each direction. The result is printed and not judged: on a shared processor both
//! are slow, and WireGuard's home endpoint may just have received a packet. Needs a kernel with WireGuard.

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails at the assertion")]

mod testbed;

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};
use testbed::wireguard::{keys, obstacle};
use testbed::{Running, Testbed, wait_or_report};

const NODE: &str = "[2001:db8:100::2]:5000";
const PEER: &str = "[2001:db8:9::9]:5000";
const EVERY: Duration = Duration::from_millis(20);

/// Who sends: the node inside to its correspondent, or the reverse.
#[derive(Clone, Copy, Debug)]
enum Way {
    Out,
    In,
}

impl Way {
    fn ends(self, testbed: &Testbed) -> (UdpSocket, UdpSocket) {
        let node = testbed.node.enter(|| UdpSocket::bind(NODE).unwrap());
        let peer = testbed.agent.enter(|| UdpSocket::bind(PEER).unwrap());
        let (from, to) = if matches!(self, Way::Out) { (node, peer) } else { (peer, node) };
        from.connect(to.local_addr().unwrap()).unwrap();
        to.set_read_timeout(Some(EVERY)).unwrap();
        (from, to)
    }
}

/// Ends the sending and the receiving, also where the test fails meanwhile.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// The longest time nothing comes until it is over; each that comes is counted.
fn receive(to: &UdpSocket, arrived: &AtomicU64, over: &AtomicBool) -> Duration {
    let (mut last, mut longest) = (Instant::now(), Duration::ZERO);
    while !over.load(Relaxed) {
        if to.recv(&mut [0; 200]).is_ok() {
            longest = longest.max(last.elapsed());
            last = Instant::now();
            arrived.fetch_add(1, Relaxed);
        }
    }
    longest
}

/// Sends steadily one way while `act` is done, until packets arrive again: the longest time without one.
fn silence(testbed: &Testbed, way: Way, act: impl FnOnce()) -> Duration {
    wait_or_report(
        "a way out",
        || testbed.node.ping(1, "56", "2001:db8:9::9").contains("1 received"),
        || testbed.logs(),
    );
    let (from, to) = way.ends(testbed);
    let (over, arrived) = (AtomicBool::new(false), AtomicU64::new(0));
    let more = |what| {
        let before = arrived.load(Relaxed);
        wait_or_report(what, || arrived.load(Relaxed) > before + 50, || testbed.logs());
    };
    scope(|scope| {
        let end = End(&over);
        scope.spawn(|| {
            while !over.load(Relaxed) {
                // Without a route the host reports an error.
                let _ = from.send(&[0; 100]);
                sleep(EVERY);
            }
        });
        let receiver = scope.spawn(|| receive(&to, &arrived, &over));
        more("datagrams before the move");
        act();
        more("datagrams after the move");
        drop(end);
        receiver.join().unwrap()
    })
}

/// Plugs the router into another network.
fn go(testbed: &Testbed, former: Running) -> Running {
    drop(former);
    let radvd = testbed.advertise("2001:db8:3::/64");
    testbed.router.shell("ip link set up0 down; ip link set up0 up");
    radvd
}

/// The longest silence of a move that roam6 makes.
fn of_roam6(test: &str, way: Way) -> Option<Duration> {
    let testbed = Testbed::new(test)?;
    testbed.enroll(&[]);
    let _agent = testbed.start_agent();
    let radvd = testbed.advertise("2001:db8:2::/64");
    let _router = testbed.start_router("");
    testbed.await_binding("2001:db8:2:");
    let mut there = None;
    Some(silence(&testbed, way, || there = Some(go(&testbed, radvd))))
}

/// The same with a tunnel of WireGuard in its place, and addresses of the uplink by the kernel.
fn of_wireguard(test: &str, way: Way) -> Option<Duration> {
    let testbed = Testbed::new(test)?;
    let ((at_agent, agent), (at_router, router)) = (keys(&testbed, "agent.wg"), keys(&testbed, "router.wg"));
    testbed.agent.shell(&format!(
        "ip link add wg0 type wireguard && wg set wg0 listen-port 51820 private-key {at_agent} \
         peer {router} allowed-ips 2001:db8:100::/56 && ip link set wg0 up && ip route add 2001:db8:100::/56 dev wg0"
    ));
    testbed.router.shell(&format!(
        "sysctl -qw net.ipv6.conf.all.forwarding=1 net.ipv6.conf.up0.accept_ra=2 && \
         ip address add 2001:db8:100::1/64 dev in0 nodad && ip link add wg0 type wireguard && \
         wg set wg0 private-key {at_router} peer {agent} endpoint [2001:db8:1::1]:51820 \
             persistent-keepalive 25 allowed-ips ::/0 && ip link set wg0 up && \
         ip -6 route add default dev wg0 table 51 && \
         ip -6 rule add to 2001:db8:100::/56 lookup main priority 1050 && \
         ip -6 rule add from 2001:db8:100::/56 iif in0 lookup 51 priority 1051 && \
         ip -6 rule add from 2001:db8:100::/56 iif lo lookup 51 priority 1052"
    ));
    let radvd = testbed.advertise("2001:db8:2::/64");
    let mut there = None;
    Some(silence(&testbed, way, || there = Some(go(&testbed, radvd))))
}

#[test]
fn handover_gap_of_roam6_and_of_wireguard() {
    let test = "handover_gap_of_roam6_and_of_wireguard";
    if let Some(why) = obstacle() {
        return println!("skipped: {test}: {why}");
    }
    for way in [Way::Out, Way::In] {
        let (Some(ours), Some(theirs)) = (of_roam6(test, way), of_wireguard(test, way)) else { return };
        println!("figure: a move, packets {way:?}: silent for {ours:.1?} with roam6, {theirs:.1?} with WireGuard");
    }
}
