//! Uplinks without link-layer headers, like those of modems and tunnels: two hosts whose second path is a pair of TUN
//! devices.

use crate::tunnel::netns_host::{self, Host};
use crate::{Backend, Host as Daemon, HostOptions, sys};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use roam6_proto::base::ids::{AddressPair, ContextId};
use roam6_proto::contract::item::{ShimContext, ShimUplink};
use roam6_proto::{Item, LinkId, Output};
use roam6_wire::shim6::{Fork, Tag};
use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const LEFT: [&str; 2] = ["2001:db8:a::1", "2001:db8:b::1"];
const RIGHT: [&str; 2] = ["2001:db8:a::2", "2001:db8:b::2"];
const OCTETS: usize = 1 << 20;

struct Side {
    host: Host,
    daemon: Daemon,
    paths: [AddressPair; 2],
    tags: [u64; 2],
    _folder: tempfile::TempDir,
}

impl Side {
    fn new(host: Host, (own, peer): ([&str; 2], [&str; 2]), tags: [u64; 2]) -> Side {
        let folder = tempfile::tempdir().unwrap();
        let options = HostOptions {
            run_dir: folder.path().join("run"),
            state_dir: folder.path().join("state"),
            interfaces: ["u0", "u1"].map(str::to_owned).into(),
            backend: Backend::None,
            device: "nemo0".to_owned(),
            max_tunnels: 1,
            max_contexts: 64,
            ..HostOptions::default()
        };
        let daemon = host.enter(|| Daemon::new(options).unwrap());
        let paths =
            [0, 1].map(|path| AddressPair { local: own[path].parse().unwrap(), peer: peer[path].parse().unwrap() });
        let mut side = Side { host, daemon, paths, tags, _folder: folder };
        for path in 0..2 {
            let link = side.link(path);
            side.put(Item::ShimUplink(ShimUplink { link }));
        }
        side
    }

    fn link(&self, path: usize) -> LinkId {
        LinkId(self.host.index(&format!("u{path}")))
    }

    fn put(&mut self, item: Item) {
        let outcomes = self.host.enter(|| self.daemon.execute([Output::from(item)], |report| panic!("{report:?}")));
        assert!(outcomes.iter().all(|outcome| outcome.error.is_none()), "{outcomes:?}");
    }

    fn take_path(&mut self, path: usize) {
        let [tag_in, tag_out] = self.tags.map(|tag| Tag::new(tag).unwrap());
        let context = ShimContext {
            id: ContextId { ulids: self.paths[0], fork: Fork::NONE },
            locators: self.paths[path],
            link: self.link(path),
            next_hop: None,
            tag_in,
            tag_out,
            allowed_sources: self.paths.iter().map(|pair| pair.peer).collect(),
        };
        self.put(Item::ShimContext(context));
    }
}

/// A TUN device with an address.
fn tun(host: &Host, address: &str) -> File {
    let device = host.enter(|| sys::open_tun("u1", libc::IFF_TUN).unwrap());
    host.ip("link set u1 up");
    host.ip(&format!("address add {address}/64 dev u1 nodad"));
    device.into()
}

/// Forwards packets between the devices, and counts those with a payload extension header.
fn pump(mut ends: [File; 2], shimmed: &AtomicU64, end: &AtomicU64) {
    let mut packet = vec![0; 65_536];
    while end.load(Ordering::Relaxed) == 0 {
        let mut ready = [0, 1].map(|end: usize| PollFd::new(ends[end].as_fd(), PollFlags::POLLIN));
        poll(&mut ready, PollTimeout::from(20_u8)).unwrap();
        for from in 0..2 {
            while let Ok(length) = ends[from].read(&mut packet) {
                shimmed.fetch_add(u64::from(packet[6] == 140), Ordering::Relaxed);
                assert!(length <= 1500);
                // A full queue drops packets, as any link does.
                let _ = ends[1 - from].write(&packet[..length]);
            }
        }
    }
}

/// Ends the forwarding thread, also when the test fails.
struct End<'a>(&'a AtomicU64);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(1, Ordering::Relaxed);
    }
}

/// Sends octets in one direction, and a reply back.
fn carry(left: &mut TcpStream, right: &mut TcpStream) {
    let mut got = vec![0; OCTETS];
    std::thread::scope(|scope| {
        scope.spawn(|| left.write_all(&vec![7; OCTETS]).unwrap());
        right.read_exact(&mut got).unwrap();
    });
    assert!(got.iter().all(|octet| *octet == 7));
    right.write_all(b"thanks").unwrap();
    left.read_exact(&mut [0; 6]).unwrap();
}

#[test]
fn shim_context_works_over_tun_uplinks() {
    if let Some(why) = netns_host::obstacle() {
        return println!("skipped: an_uplink_may_have_no_link_layer_header: {why}");
    }
    let hosts = [Host::new(), Host::new()];
    for host in &hosts {
        host.run("sysctl -qw net.ipv6.conf.all.forwarding=0 net.ipv6.conf.default.forwarding=0");
    }
    hosts[0].cable(("u0", &format!("{}/64", LEFT[0])), &hosts[1], ("u0", &format!("{}/64", RIGHT[0])));
    let ends = [tun(&hosts[0], LEFT[1]), tun(&hosts[1], RIGHT[1])];
    let [left, right] = hosts;
    let (one, two) = (0x1111_2222_3333, 0x4444_5555_6666);
    let mut sides = [Side::new(left, (LEFT, RIGHT), [one, two]), Side::new(right, (RIGHT, LEFT), [two, one])];
    let (shimmed, end) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| pump(ends, &shimmed, &end));
        let _end = End(&end);
        let listener = sides[1].host.enter(|| TcpListener::bind((RIGHT[0], 5000)).unwrap());
        let mut here = sides[0].host.enter(|| TcpStream::connect((RIGHT[0], 5000)).unwrap());
        let (mut there, _) = listener.accept().unwrap();
        for stream in [&here, &there] {
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        }
        // By the cable, by the TUN devices, and back by the cable.
        for path in [0, 1, 0] {
            let before = shimmed.load(Ordering::Relaxed);
            sides.iter_mut().for_each(|side| side.take_path(path));
            carry(&mut here, &mut there);
            let more = shimmed.load(Ordering::Relaxed) - before;
            assert!(if path == 1 { more > 700 } else { more < 100 }, "path {path}: {more}");
        }
    });
}
