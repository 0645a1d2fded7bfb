//! The real binary as a mobile network node: a connection of an unmodified program lives while its networks come and go.

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails at the assertion")]
#![allow(clippy::indexing_slicing, reason = "a test fails at the assertion")]

mod testbed;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrIn6, bind, connect, socket};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddrV6, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use testbed::{BINARY, Namespace, Running, run, wait_for};

const PEER: &str = "2001:db8:9::9";
const HOME: &str = "2001:db8:100::5";
const FIRST: &str = "2001:db8:a::5";
const SECOND: &str = "2001:db8:b::5";
const PORT: u16 = 5000;
/// Octets sent and expected back at a time.
const BLOCK: usize = 1000;

/// A node, its router, and a peer behind that.
struct Scene {
    node: Namespace,
    router: Namespace,
    peer: Namespace,
    folder: TempDir,
}

impl Scene {
    fn new(test: &str) -> Option<Scene> {
        let (Some(node), Some(router), Some(peer)) = (Namespace::new(), Namespace::new(), Namespace::new()) else {
            println!("skipped: {test}: no network namespaces here (not root?)");
            return None;
        };
        if Command::new("radvd").arg("--version").output().is_err() {
            println!("skipped: {test}: radvd is missing");
            return None;
        }
        if !node.command(&["ip", "mptcp", "limits"]).output().is_ok_and(|output| output.status.success()) {
            println!("skipped: {test}: no MPTCP here");
            return None;
        }
        router.shell(&format!(
            "sysctl -qw net.ipv6.conf.all.forwarding=1 && ip link add lan0 type veth peer name eth0 netns {} && \
             ip link add out0 type veth peer name eth0 netns {} && ip link set lan0 up && ip link set out0 up && \
             for prefix in 100 a b; do ip address add 2001:db8:$prefix::1/64 dev lan0 nodad; done && \
             ip address add 2001:db8:9::1/64 dev out0 nodad",
            node.number(),
            peer.number()
        ));
        peer.shell(&format!(
            "sysctl -qw net.ipv6.conf.eth0.accept_ra=0 && ip link set eth0 up && \
             ip address add {PEER}/64 dev eth0 nodad && ip route add default via 2001:db8:9::1"
        ));
        node.shell("sysctl -qw net.ipv6.conf.eth0.accept_dad=0 && ip link set eth0 up && ip token set ::5 dev eth0");
        Some(Scene { node, router, peer, folder: tempfile::tempdir().unwrap() })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A second router to the peer for the node's `eth1`. Both drop packets from the other's prefix.
    fn add_uplink(&self, other: &Namespace) {
        other.shell(&format!(
            "sysctl -qw net.ipv6.conf.all.forwarding=1 && ip link add lan0 type veth peer name eth1 netns {} && \
             ip link add out0 type veth peer name eth1 netns {} && ip link set lan0 up && ip link set out0 up && \
             ip address add 2001:db8:b::1/64 dev lan0 nodad && ip address add 2001:db8:8::1/64 dev out0 nodad && \
             ip route add {PEER}/128 via 2001:db8:8::9",
            self.node.number(),
            self.peer.number()
        ));
        self.peer.shell(
            "ip link set eth1 up && ip address add 2001:db8:8::9/64 dev eth1 nodad && \
             ip route add 2001:db8:b::/64 via 2001:db8:8::1",
        );
        self.node
            .shell("sysctl -qw net.ipv6.conf.eth1.accept_dad=0 && ip link set eth1 up && ip token set ::5 dev eth1");
        for (router, foreign) in [(&self.router, "b"), (other, "a")] {
            router.shell(&format!(
                "nft 'add table ip6 bcp38; add chain ip6 bcp38 box {{ type filter hook forward priority 0; }}; \
                 add rule ip6 bcp38 box iifname lan0 ip6 saddr 2001:db8:{foreign}::/64 drop'"
            ));
        }
    }

    /// The router advertises these from now on: prefix and preferred lifetime.
    fn advertise(&self, prefixes: &[(&str, u32)]) -> Running {
        self.advertise_by(&self.router, prefixes)
    }

    fn advertise_by(&self, router: &Namespace, prefixes: &[(&str, u32)]) -> Running {
        let prefix = |(prefix, preferred): &(&str, u32)| {
            let times = format!("AdvValidLifetime 3600; AdvPreferredLifetime {preferred}; DeprecatePrefix off;");
            format!(" prefix {prefix}::/64 {{ {times} }};")
        };
        let prefixes: String = prefixes.iter().map(prefix).collect();
        let text =
            format!("interface lan0 {{ AdvSendAdvert on; MinRtrAdvInterval 3; MaxRtrAdvInterval 4;{prefixes} }};");
        let named = |kind: &str| self.file(&format!("radvd{}.{kind}", router.number()));
        let (config, pid) = (named("conf"), named("pid"));
        fs::write(&config, text).unwrap();
        let _ = fs::remove_file(&pid);
        let arguments = ["radvd", "-n", "-C", config.to_str().unwrap(), "-p", pid.to_str().unwrap(), "-m", "stderr"];
        router.start(&arguments)
    }

    fn start(&self) -> Running {
        self.start_with("interfaces = [\"eth0\"]\nhome_prefixes = [\"2001:db8:100::/56\"]\nsignal_care_of = true\n")
    }

    fn start_with(&self, settings: &str) -> Running {
        let folder = self.folder.path().display();
        let text = format!("run_dir = \"{folder}/run\"\nstate_dir = \"{folder}/state\"\n[mnn]\n{settings}");
        fs::write(self.file("mnn.toml"), text).unwrap();
        self.node.roam6(&self.file("mnn.toml"))
    }

    fn show(&self, what: &str) -> Value {
        let run_dir = self.file("run");
        let arguments = [BINARY, "show", what, "--json", "--run-dir", run_dir.to_str().unwrap()];
        let output = self.node.command(&arguments).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }

    /// Local addresses of the subflows, ascending: `b` for backup.
    fn paths(&self) -> Vec<String> {
        let shown = self.show("subflows");
        let connections = shown["connections"].as_array().cloned().unwrap_or_default();
        let subflows = connections.iter().flat_map(|it| it["subflows"].as_array().cloned().unwrap_or_default());
        let standing = subflows.filter(|subflow| subflow["state"] == "established");
        let mut paths: Vec<String> = standing
            .map(|subflow| {
                let local: SocketAddrV6 = subflow["local"].as_str().unwrap().parse().unwrap();
                let backup = if subflow["backup"] == true { " b" } else { "" };
                format!("{}{backup}", local.ip())
            })
            .collect();
        paths.sort();
        paths
    }

    fn await_paths(&self, why: &str, paths: &[String]) {
        wait_for(&format!("{why}: {paths:?}"), || self.paths() == paths);
    }

    /// Endpoints in use, ascending.
    fn endpoints(&self) -> Vec<String> {
        let shown = self.show("endpoints");
        let rows = shown.as_array().cloned().unwrap_or_default();
        let used = rows.iter().filter(|row| row["state"] == "in use");
        let mut used: Vec<String> = used.map(|row| row["address"].as_str().unwrap().to_owned()).collect();
        used.sort();
        used
    }

    /// A program of this test without MPTCP support, with MPTCP sockets.
    fn program(&self, place: &Namespace, role: &str) -> Running {
        self.plain_program(place, role, &[BINARY, "mptcp", "run", "--"])
    }

    fn plain_program(&self, place: &Namespace, role: &str, before: &[&str]) -> Running {
        let this = std::env::current_exe().unwrap();
        let this = this.to_str().unwrap();
        let role = format!("ROAM6_TEST_ROLE={role}");
        let arguments = [&["env", &role], before, &[this, "--exact", "program", "--ignored", "--nocapture"]].concat();
        let mut command = place.command(&arguments);
        Running(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap())
    }

    /// The router takes MPTCP options out of packets that match.
    fn strip(&self, which: &str) {
        self.router.shell(&format!(
            "nft 'add table ip6 box; add chain ip6 box box {{ type filter hook forward priority 0; }}; \
             add rule ip6 box box {which} tcp option mptcp exists counter reset tcp option mptcp'"
        ));
    }

    /// Waits until a connection has carried so much more.
    fn await_progress(&self) {
        // Kernels before 6.5 count the octets of subflows only.
        let sent = || {
            let subflows = self.show("subflows")["connections"][0]["subflows"].as_array().cloned().unwrap_or_default();
            subflows.iter().filter_map(|subflow| subflow["bytes_sent"].as_u64()).sum::<u64>()
        };
        let before = sent();
        wait_for("octets", || sent() > before + 20 * BLOCK as u64);
    }

    fn status(&self, arguments: &[&str]) -> String {
        run(&mut self.node.command(&[&[BINARY, "mptcp", "status"], arguments].concat()))
    }
}

/// Ends it, and checks that all it sent was echoed.
fn end(mut talk: Running) {
    drop(talk.0.stdin.take());
    println!("{}", await_word(&mut talk, "talked"));
    assert!(talk.0.wait().unwrap().success());
}

/// The program that [`Scene::program`] runs.
#[test]
#[ignore = "a helper process, started by a test"]
fn program() {
    match std::env::var("ROAM6_TEST_ROLE").as_deref() {
        Ok("echo") => {
            let listener = TcpListener::bind(("::", PORT)).unwrap();
            println!("listening");
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                std::thread::spawn(move || std::io::copy(&mut stream.try_clone().unwrap(), &mut stream));
            }
        }
        Ok("talk") => talk(HOME),
        Ok("talk-first") => talk(FIRST),
        _ => {}
    }
}

/// Sends blocks and checks what comes back until its input ends; prints the octets and the longest wait.
fn talk(from: &str) {
    let socket = socket(AddressFamily::Inet6, SockType::Stream, SockFlag::empty(), None).unwrap();
    let end = |address: &str, port| SockaddrIn6::from(SocketAddrV6::new(address.parse().unwrap(), port, 0, 0));
    bind(socket.as_raw_fd(), &end(from, 0)).unwrap();
    connect(socket.as_raw_fd(), &end(PEER, PORT)).unwrap();
    let mut stream = TcpStream::from(socket);
    let until_told = std::thread::spawn(|| std::io::stdin().read_to_end(&mut Vec::new()));
    println!("connected");
    let (mut octets, mut longest) = (0, Duration::ZERO);
    while !until_told.is_finished() {
        let sent: Vec<u8> = (octets..octets + BLOCK).map(|at| (at * 31 / 7 % 251) as u8).collect();
        let began = Instant::now();
        stream.write_all(&sent).unwrap();
        let mut got = vec![0; BLOCK];
        stream.read_exact(&mut got).unwrap();
        assert_eq!(got, sent, "at {octets}");
        longest = longest.max(began.elapsed());
        octets += BLOCK;
        std::thread::sleep(Duration::from_millis(10));
    }
    println!("talked {octets} {}", longest.as_millis());
}

/// The output of a program.
fn await_word(program: &mut Running, word: &str) -> String {
    let mut lines = BufReader::new(program.0.stdout.as_mut().unwrap()).lines().map(Result::unwrap);
    lines.find(|line| line.contains(word)).unwrap_or_else(|| panic!("{word} was not printed"))
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn an_mptcp_connection_survives_changing_networks() {
    let Some(scene) = Scene::new("an_mptcp_connection_survives_changing_networks") else { return };
    let capture = scene.file("packets.pcap");
    let tcpdump = scene.router.start(&["tcpdump", "-U", "-i", "out0", "-w", capture.to_str().unwrap(), "tcp"]);
    let radvd = scene.advertise(&[("2001:db8:100", 1800), ("2001:db8:a", 1800)]);
    let daemon = scene.start();
    wait_for("both addresses in use", || scene.endpoints() == [HOME, FIRST]);
    let mut echo = scene.program(&scene.peer, "echo");
    await_word(&mut echo, "listening");
    let mut talk = scene.program(&scene.node, "talk");
    await_word(&mut talk, "connected");
    let home = format!("{HOME} b");
    scene.await_paths("two paths, that of home the backup", &[home.clone(), FIRST.to_owned()]);

    drop(radvd);
    let _radvd = scene.advertise(&[("2001:db8:100", 1800), ("2001:db8:a", 0), ("2001:db8:b", 1800)]);
    scene.await_paths("moved", &[home.clone(), SECOND.to_owned()]);

    scene.node.shell(&format!("ip address del {HOME}/64 dev eth0"));
    scene.await_paths("the address of the first subflow is gone", &owned(&[SECOND]));
    scene.node.shell(&format!("ip address add {HOME}/64 dev eth0 nodad"));
    scene.await_paths("and back", &[home.clone(), SECOND.to_owned()]);

    let ports = |scene: &Scene| {
        scene.show("subflows")["connections"][0]["subflows"]
            .as_array()
            .cloned()
            .unwrap()
            .iter()
            .map(|subflow| subflow["local"].to_string())
            .collect::<std::collections::BTreeSet<_>>()
    };
    let before = ports(&scene);
    drop(daemon);
    let mut daemon = scene.start();
    wait_for("in use again", || scene.endpoints() == [HOME, SECOND]);
    assert_eq!(ports(&scene), before, "a crash closes no subflow");
    assert_eq!(scene.paths(), [home, SECOND.to_owned()]);

    end(talk);
    run(Command::new("kill").args(["-TERM", &daemon.0.id().to_string()]));
    assert!(daemon.0.wait().unwrap().success());
    let left = scene.node.shell("ip mptcp endpoint; ip mptcp limits");
    assert_eq!(left.split_whitespace().collect::<Vec<_>>(), ["add_addr_accepted", "0", "subflows", "2"]);
    drop(tcpdump);
    check_options(&capture);
}

#[test]
fn a_connection_older_than_the_daemon_gets_no_second_subflow() {
    let Some(scene) = Scene::new("a_connection_older_than_the_daemon_gets_no_second_subflow") else { return };
    let _radvd = scene.advertise(&[("2001:db8:100", 1800), ("2001:db8:a", 1800)]);
    let mut echo = scene.program(&scene.peer, "echo");
    await_word(&mut echo, "listening");
    let reaches = || scene.node.command(&["ping", "-nqc1", "-W1", "-I", HOME, PEER]).output().unwrap().status.success();
    wait_for("the home address works", reaches);
    let mut talk = scene.program(&scene.node, "talk");
    await_word(&mut talk, "connected");
    let _daemon = scene.start();
    let both = [format!("{HOME} b"), FIRST.to_owned()];
    scene.await_paths("one path from each address", &both);
    scene.await_progress();
    assert_eq!(scene.paths(), both);
    end(talk);
}

#[test]
fn fallback_to_tcp_without_peer_support_or_with_a_middlebox() {
    let test = "fallback_to_tcp_without_peer_support_or_with_a_middlebox";
    let Some(scene) = Scene::new(test) else { return };
    let _radvd = scene.advertise(&[("2001:db8:100", 1800), ("2001:db8:a", 1800)]);
    let _daemon = scene.start();
    wait_for("both addresses in use", || scene.endpoints() == [HOME, FIRST]);
    let falls_back = |counts: &str| {
        let mut talk = scene.program(&scene.node, "talk");
        await_word(&mut talk, "connected");
        scene.await_progress();
        assert_eq!(scene.show("subflows")["connections"][0]["fallback"], true);
        assert_eq!(scene.paths(), [HOME], "by the path it began with");
        let reason = format!("MPCapableFallbackSYNACK: {counts} outgoing connections that fell back");
        assert!(scene.status(&[]).contains(&reason), "{}", scene.status(&[]));
        end(talk);
    };
    let mut echo = scene.plain_program(&scene.peer, "echo", &[]);
    await_word(&mut echo, "listening");
    falls_back("1");
    drop(echo);

    if !scene.router.command(&["nft", "list", "tables"]).output().is_ok_and(|output| output.status.success()) {
        return println!("skipped: the rest of {test}: nft does not work here");
    }
    let mut echo = scene.program(&scene.peer, "echo");
    await_word(&mut echo, "listening");
    scene.strip("");
    falls_back("2");
    scene.router.shell("nft delete table ip6 box");

    let mut talk = scene.program(&scene.node, "talk");
    await_word(&mut talk, "connected");
    let home = format!("{HOME} b");
    scene.await_paths("two paths", &[home.clone(), FIRST.to_owned()]);
    scene.strip(&format!("ip6 saddr {FIRST}"));
    scene.await_paths("a path that loses its options is given up", &[home]);
    scene.await_progress();
    end(talk);
    let counters: Value = serde_json::from_str(&scene.status(&["--json"])).unwrap();
    assert_eq!(counters["counters"]["MPCapableFallbackSYNACK"], 2);
}

#[test]
fn a_laptop_with_two_uplinks_survives_the_loss_of_one() {
    let test = "a_laptop_with_two_uplinks_survives_the_loss_of_one";
    let (Some(scene), Some(other)) = (Scene::new(test), Namespace::new()) else { return };
    if !scene.router.command(&["nft", "list", "tables"]).output().is_ok_and(|output| output.status.success()) {
        return println!("skipped: {test}: nft does not work here");
    }
    scene.add_uplink(&other);
    let _radvd = scene.advertise(&[("2001:db8:a", 1800)]);
    let _other = scene.advertise_by(&other, &[("2001:db8:b", 1800)]);
    let _daemon = scene.start_with("interfaces = [\"eth0\", \"eth1\"]\nsource_routing = true\n");
    wait_for("both uplinks in use", || scene.endpoints() == [FIRST, SECOND]);
    let reaches = |from: &str| {
        let arguments = ["ping", "-nqc1", "-W1", "-I", from, PEER];
        scene.node.command(&arguments).output().unwrap().status.success()
    };
    // Whichever default route the kernel likes better, the other's router would drop it.
    wait_for("each address by its own router", || reaches(FIRST) && reaches(SECOND));

    let mut echo = scene.program(&scene.peer, "echo");
    await_word(&mut echo, "listening");
    let mut talk = scene.program(&scene.node, "talk-first");
    await_word(&mut talk, "connected");
    scene.await_paths("two paths", &owned(&[FIRST, SECOND]));
    scene.node.shell("ip link set eth0 down");
    scene.await_paths("the first path is gone", &owned(&[SECOND]));
    scene.await_progress();
    scene.node.shell("ip link set eth0 up");
    scene.await_paths("and back", &owned(&[FIRST, SECOND]));
    scene.await_progress();
    end(talk);
}

/// The options another implementation sees: MP_JOIN, ADD_ADDR, REMOVE_ADDR and MP_PRIO (RFC 8684 §8).
fn check_options(capture: &std::path::Path) {
    let fields = ["-T", "fields", "-e", "tcp.options.mptcp.subtype"];
    let Ok(output) = Command::new("tshark").arg("-r").arg(capture).args(fields).output() else {
        return println!("skipped: check_options: tshark is missing");
    };
    let seen = String::from_utf8(output.stdout).unwrap();
    let has = |subtype: &str| seen.split(['\n', ',']).filter(|seen| seen.trim_end_matches(".0") == subtype).count();
    for (subtype, name) in [("1", "MP_JOIN"), ("3", "ADD_ADDR"), ("4", "REMOVE_ADDR"), ("5", "MP_PRIO")] {
        assert!(has(subtype) > 0, "no {name}");
        println!("{name}: {}", has(subtype));
    }
}
