//! Network namespaces for tests: each exists as long as the thread and the descriptors that use it, so that nothing is
//! left behind however a test ends.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, socket};
use roam6_linux::tunnel::Tunnels;
use roam6_linux::{Error, Host, HostEvent, HostOptions};
use roam6_proto::contract::item::{Tunnel, TunnelId};
use roam6_proto::{Input, Item, LinkEvent, LinkId, Output};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Command;
use std::time::Duration;

/// A network namespace.
pub struct Namespace(File);

impl Namespace {
    /// Creates a namespace and enters it. `None`, with the reason printed, where that is not allowed.
    pub fn enter_new(test: &str) -> Option<Namespace> {
        if let Err(error) = unshare(CloneFlags::CLONE_NEWNET) {
            println!("skipped: {test}: no network namespace: {error}");
            return None;
        }
        run("ip link set lo up");
        Some(Namespace(File::open("/proc/thread-self/ns/net").unwrap()))
    }

    /// Enters it.
    pub fn enter(&self) {
        setns(&self.0, CloneFlags::CLONE_NEWNET).unwrap();
    }

    /// The path for `ip link ... netns`.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }

    /// Two namespaces with an Ethernet link between `here0` and `there0`; this thread is in the first.
    pub fn pair(test: &str) -> Option<(Namespace, Namespace)> {
        let there = Namespace::enter_new(test)?;
        let here = Namespace::enter_new(test)?;
        let path = there.path();
        // Different interface indexes, or the kernel announces a lost carrier late.
        run(&format!("ip link add here0 index 100 type veth peer name there0 index 200 netns {path}"));
        run("sysctl -qw net.ipv6.conf.here0.accept_dad=0");
        run("ip link set here0 up");
        there.enter();
        run("sysctl -qw net.ipv6.conf.there0.accept_dad=0");
        run("ip link set there0 up");
        await_link_local("there0");
        here.enter();
        await_link_local("here0");
        Some((here, there))
    }
}

/// Without a link-local address an interface sends no neighbour solicitations.
fn await_link_local(interface: &str) {
    await_shown(&format!("ip -6 -o addr show dev {interface} scope link -tentative"), |shown| !shown.is_empty());
}

/// Waits until the kernel, in a work queue, has begun to answer for an address of this namespace.
pub fn await_own(address: &str) {
    await_shown(&format!("ip -6 route show table local {address}"), |shown| !shown.is_empty());
}

/// Waits until the output of a command is as wanted.
pub fn await_shown(command: &str, wanted: impl Fn(&str) -> bool) {
    for _ in 0..1000 {
        if wanted(&run(command)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{command}: {}", run(command));
}

/// Runs a command, which must succeed, and returns its output.
pub fn run(command: &str) -> String {
    let output = Command::new("sh").args(["-c", command]).output().unwrap();
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The options of a host.
pub fn options(directory: &tempfile::TempDir, interfaces: &[&str]) -> HostOptions {
    HostOptions {
        run_dir: directory.path().join("run"),
        state_dir: directory.path().join("state"),
        interfaces: interfaces.iter().map(|name| (*name).to_owned()).collect(),
        device: "roam6".to_owned(),
        max_tunnels: 16,
        max_contexts: 64,
        packet_sockets: true,
        ..HostOptions::default()
    }
}

/// Makes the mounts of this thread private: they end with it.
pub fn own_mounts() {
    unshare(CloneFlags::CLONE_NEWNS).unwrap();
    run("mount --make-rprivate /");
}

/// A host in the namespace of this thread, whose tunnels all use `device`.
pub fn host(directory: &tempfile::TempDir, interfaces: &[&str], device: Option<LinkId>) -> Host {
    host_with(&options(directory, interfaces), device)
}

/// The same with other options.
pub fn host_with(options: &HostOptions, device: Option<LinkId>) -> Host {
    let open = || {
        let tunnels = Pretended { device, held: BTreeMap::new() };
        Host::with_tunnels(options.clone(), Box::new(tunnels))
    };
    // Another test may be starting a program, which holds what an earlier host held until it runs.
    let held = |error: &Error| ["another roam6", "would block"].iter().any(|why| error.to_string().contains(why));
    for _ in 0..1000 {
        match open() {
            Err(error) if held(&error) => std::thread::sleep(Duration::from_millis(20)),
            opened => return opened.unwrap(),
        }
    }
    open().unwrap()
}

/// All inputs from the host until there was none for `span`.
pub fn listen(host: &mut Host, span: Duration) -> Vec<Input> {
    let mut received = Vec::new();
    loop {
        let wakes = host.wait(Some(host.now() + span)).unwrap();
        let inputs = wakes.into_iter().filter_map(|wake| match wake {
            HostEvent::Input(_, input) => Some(input),
            _ => None,
        });
        let (ticks, inputs): (Vec<_>, Vec<_>) = inputs.partition(|input| *input == Input::Tick);
        if !ticks.is_empty() && inputs.is_empty() {
            return received;
        }
        received.extend(inputs);
    }
}

/// The state of an interface that the host reports first.
pub fn link(host: &mut Host, name: &str) -> LinkEvent {
    let found = listen(host, Duration::ZERO).into_iter().find_map(|input| match input {
        Input::Link(event) if event.name == name => Some(event),
        _ => None,
    });
    found.unwrap()
}

/// Puts items, none of which may be refused.
pub fn put(host: &mut Host, items: &[Item]) {
    let outputs: Vec<Output> = items.iter().cloned().map(Output::from).collect();
    let outcomes = host.execute(outputs, |report| panic!("{report:?}"));
    assert_eq!(outcomes.len(), items.len());
    for (outcome, item) in outcomes.iter().zip(items) {
        assert_eq!(outcome.key, item.key());
        assert_eq!(outcome.error, None, "{item:?}");
    }
}

/// Captures every IPv6 packet of every interface of a namespace, from the IPv6 header on.
pub struct Capture(OwnedFd);

impl Capture {
    pub fn begin() -> Capture {
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        Capture(socket(AddressFamily::Packet, SockType::Datagram, flags, SockProtocol::EthAll).unwrap())
    }

    /// The packets since the last call.
    pub fn take(&self) -> Vec<Vec<u8>> {
        let mut packets = Vec::new();
        let mut buffer = vec![0; 65_536];
        while let Ok(length) = recv(self.0.as_raw_fd(), &mut buffer, MsgFlags::empty()) {
            if buffer[0] >> 4 == 6 {
                packets.push(buffer[..length].to_vec());
            }
        }
        packets
    }
}

/// A back end whose tunnels all are one device.
struct Pretended {
    device: Option<LinkId>,
    held: BTreeMap<TunnelId, Tunnel>,
}

impl Tunnels for Pretended {
    fn put(&mut self, tunnel: &Tunnel) -> Result<(), Error> {
        self.held.insert(tunnel.id, tunnel.clone());
        Ok(())
    }

    fn drop(&mut self, id: TunnelId) -> Result<(), Error> {
        self.held.remove(&id);
        Ok(())
    }

    fn find(&self, id: TunnelId) -> Option<Tunnel> {
        self.held.get(&id).cloned()
    }

    fn device(&self, id: TunnelId) -> Option<LinkId> {
        self.device.filter(|_| self.mtu(id).is_some())
    }

    fn mtu(&self, id: TunnelId) -> Option<u32> {
        self.find(id)?.paths.first().map(|path| path.mtu)
    }

    fn inventory(&mut self) -> Result<Vec<TunnelId>, Error> {
        Ok(self.held.keys().copied().collect())
    }

    fn clean(&mut self) -> Result<(), Error> {
        self.held.clear();
        Ok(())
    }
}
