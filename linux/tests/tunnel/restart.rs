//! Tunnels through handovers, the death and the restart of the daemon, until they are cleaned up.

use crate::netns_host::RECEIVE_TIMEOUT;
use crate::testbed::{CN, COA, HOME, MNN, MNP, SECOND_COA, Testbed, arrives, at_home_agent, is_dropped};
use crate::testbed_or_skip;
use nix::sys::socket::{setsockopt, sockopt};
use roam6_linux::tunnel::Tunnels;
use roam6_linux::tunnel::bpf::{Bpf, Options};
use roam6_proto::base::ids::LinkId;
use roam6_proto::contract::item::TunnelId;
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Ends the sender, also where a test fails meanwhile.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The least number of packets, also where a slow machine sends few in the time.
const ENOUGH: u64 = 1000;

/// Sends numbered packets while `act` runs; returns how many were sent and lost.
fn under_load(from: UdpSocket, to: UdpSocket, act: impl FnOnce()) -> (u64, u64) {
    setsockopt(&to, sockopt::RcvBufForce, &(16 << 20)).unwrap();
    to.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let (over, total) = (AtomicBool::new(false), AtomicU64::new(u64::MAX));
    let target = to.local_addr().unwrap();
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let mut sent = 0_u64;
            while !over.load(Ordering::Relaxed) || sent < ENOUGH {
                from.send_to(&sent.to_be_bytes(), target).unwrap();
                sent += 1;
                std::thread::sleep(Duration::from_micros(100));
            }
            total.store(sent, Ordering::Relaxed);
            sent
        });
        let receiver = scope.spawn(|| {
            let mut buffer = [0; 64];
            let (mut received, mut last) = (0_u64, Instant::now());
            // A busy machine delays both the sender and packets in flight.
            while received < total.load(Ordering::Relaxed) && last.elapsed() < RECEIVE_TIMEOUT {
                if to.recv(&mut buffer).is_ok() {
                    (received, last) = (received + 1, Instant::now());
                }
            }
            received
        });
        {
            let _end = End(&over);
            act();
        }
        let sent = sender.join().unwrap();
        (sent, sent - receiver.join().unwrap())
    })
}

fn sockets(testbed: &Testbed) -> (UdpSocket, UdpSocket) {
    let pair = (testbed.cn.udp(&format!("[{CN}]:5000")), testbed.mnn.udp(&format!("[{MNN}]:5000")));
    assert!(arrives(&pair.0, &pair.1, 10) && arrives(&pair.1, &pair.0, 10));
    pair
}

#[test]
fn planned_handover_loses_no_packet() {
    let mut testbed = testbed_or_skip!("planned_handover_loses_no_packet");
    testbed.bind(&[(COA, 1, 1), (SECOND_COA, 2, 0)]);
    let (cn, mnn) = sockets(&testbed);
    for (from, to) in [(&cn, &mnn), (&mnn, &cn)] {
        let (sent, lost) = under_load(from.try_clone().unwrap(), to.try_clone().unwrap(), || {
            for turn in 0..200 {
                let (one, two) = if turn % 2 == 0 { (0, 1) } else { (1, 0) };
                testbed.bind(&[(COA, 1, one), (SECOND_COA, 2, two)]);
                std::thread::sleep(Duration::from_millis(3));
            }
        });
        println!("200 moves: {lost} of {sent} packets lost");
        assert!(sent >= ENOUGH);
        assert_eq!(lost, 0);
    }
}

#[test]
fn tunnel_forwards_while_no_daemon_runs_and_is_taken_over() {
    let mut testbed = testbed_or_skip!("tunnel_forwards_while_no_daemon_runs_and_is_taken_over");
    let (cn, mnn) = sockets(&testbed);
    let run = testbed.run.path().to_owned();
    let (sent, lost) = under_load(cn, mnn, || {
        for _ in 0..3 {
            testbed.ha.tunnels = None;
            testbed.mr.tunnels = None;
            std::thread::sleep(Duration::from_millis(100));
            testbed.ha.open(&run.join("ha"), &["ha0", "ha1"]);
            testbed.mr.open(&run.join("mr"), &["mr0", "mr1", "mr2"]);
            assert_eq!(testbed.ha.act(|tunnels| tunnels.inventory()).unwrap(), [TunnelId(1)]);
            std::thread::sleep(Duration::from_millis(50));
            testbed.bind(&[(COA, 1, 1)]);
            for side in [&mut testbed.ha, &mut testbed.mr] {
                side.act(|tunnels| tunnels.remove_stale()).unwrap();
            }
        }
    });
    println!("3 restarts of both ends: {lost} of {sent} packets lost");
    assert!(sent >= ENOUGH);
    assert_eq!(lost, 0);
}

#[test]
fn tunnels_not_put_again_after_a_restart_are_removed() {
    let mut testbed = testbed_or_skip!("tunnels_not_put_again_after_a_restart_are_removed");
    testbed.ha.put(&at_home_agent(7, ("2001:db8:5::77", "2001:db8:77::/52"), &[(SECOND_COA, 3, 1)]));
    let run = testbed.run.path().join("ha");
    testbed.ha.tunnels = None;
    testbed.ha.open(&run, &["ha0", "ha1"]);
    testbed.ha.put(&at_home_agent(1, (HOME, MNP), &[(COA, 1, 1)]));
    assert_eq!(testbed.ha.act(|tunnels| tunnels.inventory()).unwrap(), [TunnelId(1), TunnelId(7)]);
    testbed.ha.act(|tunnels| tunnels.remove_stale()).unwrap();
    assert_eq!(testbed.ha.act(|tunnels| tunnels.inventory()).unwrap(), [TunnelId(1)]);
    let (cn, mnn) = sockets(&testbed);
    testbed.ha.act(|tunnels| tunnels.drop(TunnelId(1))).unwrap();
    assert_eq!(testbed.ha.act(|tunnels| tunnels.device(TunnelId(1))), None);
    assert!(is_dropped(&cn, &mnn, 10));
    testbed.ha.act(|tunnels| tunnels.clean()).unwrap();
    assert!(!run.join("bpf").exists());
    assert!(!testbed.ha.host.ip("link show").contains("nemo0"));
}

const HOLDER: &str = "ROAM6_TEST_HOLDER";

/// The process that the next test kills.
#[test]
#[ignore = "a helper process, started by a test"]
fn helper_daemon() {
    let Some(run) = std::env::var_os(HOLDER) else { return };
    let options = Options {
        device: "nemo0".into(),
        run: PathBuf::from(run),
        xdp: false,
        state_dir: std::path::PathBuf::new(),
        encryption: Default::default(),
        max_tunnels: 1024,
        dsmip_addresses: Default::default(),
        udp6_addresses: Default::default(),
        bonding: false,
    };
    let mut tunnels = Bpf::open(options).unwrap();
    for name in ["ha0", "ha1"] {
        tunnels.attach(LinkId(nix::net::if_::if_nametoindex(name).unwrap()), name).unwrap();
    }
    tunnels.put(&at_home_agent(1, (HOME, MNP), &[(COA, 1, 1)])).unwrap();
    println!("holding");
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn killing_the_daemon_loses_no_packet() {
    let mut testbed = testbed_or_skip!("killing_the_daemon_loses_no_packet");
    testbed.ha.tunnels = None;
    let run = testbed.run.path().join("ha");
    let spawn = || {
        // Not by its name: an overlay file system may report another name.
        let mut command = Command::new("/proc/self/exe");
        command
            .args(["--exact", "restart::helper_daemon", "--ignored", "--nocapture"])
            .env(HOLDER, &run)
            .stdout(Stdio::piped());
        command.spawn().unwrap()
    };
    let (cn, mnn) = sockets(&testbed);
    let (sent, lost) = under_load(cn, mnn, || {
        for _ in 0..2 {
            let mut daemon = testbed.ha.host.enter(spawn);
            let mut lines = BufReader::new(daemon.stdout.take().unwrap()).lines();
            assert!(lines.any(|line| line.unwrap().contains("holding")));
            daemon.kill().unwrap();
            daemon.wait().unwrap();
            std::thread::sleep(Duration::from_millis(300));
        }
    });
    println!("killed twice: {lost} of {sent} packets lost");
    assert!(sent >= ENOUGH);
    assert_eq!(lost, 0);
}
