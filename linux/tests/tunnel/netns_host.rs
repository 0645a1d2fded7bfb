//! Hosts in network namespaces that only this process refers to: they vanish with the test, however it ends.

use nix::sched::{CloneFlags, setns, unshare};
use std::fs::File;
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Command;
use std::time::{Duration, Instant};

/// How long a test waits for a packet that has to arrive.
pub const RECEIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// A host.
pub struct Host {
    namespace: OwnedFd,
}

/// Why these tests cannot run here; `None` if they can. To be called first in each test: it also gives the thread a
/// mount namespace of its own, so that mounts end with it.
pub fn obstacle() -> Option<String> {
    if !nix::unistd::geteuid().is_root() {
        return Some("not root".to_owned());
    }
    if let Err(error) = unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWNET) {
        return Some(format!("no namespaces: {error}"));
    }
    let private = nix::mount::MsFlags::MS_REC | nix::mount::MsFlags::MS_PRIVATE;
    nix::mount::mount(None::<&str>, "/", None::<&str>, private, None::<&str>).err().map(|error| error.to_string())
}

impl Host {
    /// A host with a loopback interface, which forwards, without duplicate address detection.
    pub fn new() -> Host {
        let before = current();
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        let host = Host { namespace: current() };
        setns(&before, CloneFlags::CLONE_NEWNET).unwrap();
        host.enter(|| {
            for (knob, value) in [("forwarding", "1"), ("accept_dad", "0"), ("accept_ra", "0")] {
                for which in ["all", "default"] {
                    std::fs::write(format!("/proc/sys/net/ipv6/conf/{which}/{knob}"), value).unwrap();
                }
            }
        });
        host.ip("link set lo up");
        host
    }

    /// Runs a closure in this host.
    pub fn enter<R>(&self, act: impl FnOnce() -> R) -> R {
        let before = current();
        setns(&self.namespace, CloneFlags::CLONE_NEWNET).unwrap();
        let result = act();
        setns(&before, CloneFlags::CLONE_NEWNET).unwrap();
        result
    }

    /// Makes this the host of the thread.
    pub fn stay(&self) {
        setns(&self.namespace, CloneFlags::CLONE_NEWNET).unwrap();
    }

    /// Runs `ip -6` with these words.
    pub fn ip(&self, arguments: &str) -> String {
        self.run(&format!("ip -6 {arguments}"))
    }

    /// Runs a command and returns what it prints.
    pub fn run(&self, arguments: &str) -> String {
        let mut arguments = arguments.split_whitespace();
        let output = self.enter(|| Command::new(arguments.next().unwrap()).args(arguments.clone()).output().unwrap());
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Connects an interface here to one of another host, and gives each an address with its prefix length.
    pub fn cable(&self, (here, address): (&str, &str), other: &Host, (there, peer): (&str, &str)) {
        let path = format!("/proc/{}/fd/{}", std::process::id(), other.namespace.as_raw_fd());
        self.ip(&format!("link add {here} type veth peer name {there} netns {path}"));
        let ends = [(self, here, address), (other, there, peer)];
        for (host, interface, _) in ends {
            host.ip(&format!("link set {interface} up"));
        }
        for (host, interface, address) in ends {
            host.await_link_local(interface);
            host.ip(&format!("address add {address} dev {interface} nodad"));
        }
    }

    /// Waits until the link-local address of an interface can be used. A kernel thread configures it after the carrier has
    /// come, and a busy machine may delay that: until then a router cannot solicit the next hop of a packet that it
    /// forwards, and drops the packet after three attempts (RFC 4861 §7.2.2).
    #[allow(clippy::disallowed_methods, reason = "it waits for a thread of the kernel")]
    fn await_link_local(&self, interface: &str) {
        let begun = Instant::now();
        while self.ip(&format!("address show dev {interface} scope link -tentative")).is_empty() {
            assert!(begun.elapsed() < RECEIVE_TIMEOUT, "{interface} has no link-local address");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The index of an interface.
    pub fn index(&self, interface: &str) -> u32 {
        self.enter(|| nix::net::if_::if_nametoindex(interface).unwrap())
    }

    /// A UDP socket at an address of this host, which waits for a packet as long as a busy machine may delay it.
    pub fn udp(&self, address: &str) -> UdpSocket {
        let socket = self.enter(|| UdpSocket::bind(address).unwrap());
        socket.set_read_timeout(Some(RECEIVE_TIMEOUT)).unwrap();
        socket
    }
}

fn current() -> OwnedFd {
    File::open("/proc/thread-self/ns/net").unwrap().into()
}
