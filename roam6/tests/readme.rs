//! The two machines of the README, set up from its own text on hosts with Debian's defaults: IPv6 forwarding off, a default
//! route from router advertisements, a stateful firewall. A correspondent then reaches a node inside at the first try.

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails at the assertion")]

mod testbed;

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;
use testbed::machines::{Machine, advertise, cable};
use testbed::{Namespace, Running, wait_or_report};

const README: &str = include_str!("../../README.md");
const SECTION: &str = "## On two real machines";
/// Begins the instructions for the mobile router; those before it are for the home agent.
const ROUTER_BEGINS: &str = "The **mobile router**";
/// Octets of the TCP transfer, in each direction.
const OCTETS: usize = 300_000;

/// What a host lets in, as Debian's `nftables.conf` of a host that offers nothing, with what docs/home-agent.md and
/// docs/mobile-router.md say to open.
const FIREWALL: &str = "
table inet filter {
    chain input {
        type filter hook input priority filter; policy drop;
        iif lo accept
        ct state established,related accept
        meta l4proto { 58, 135, 41, 50 } accept
    }
}";

/// How the home agent's provider delivers the home prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Provider {
    /// The /64 is on the link to the home agent: it has to answer for mobile routers there (`home_link`).
    OnLink,
    /// The /64 is routed to the home agent's address on the link.
    Routed,
}

/// The instructions of the README for one of its machines.
#[derive(Debug, Default)]
struct Instructions {
    /// Paths and contents of files.
    files: Vec<(String, String)>,
    /// Shell commands, in order.
    commands: Vec<String>,
}

/// Its instructions for the home agent and the mobile router.
fn instructions() -> [Instructions; 2] {
    let (_, section) = README.split_once(SECTION).expect("the section on two machines");
    let section = section.split("\n## ").next().unwrap_or_default();
    let (agent, router) = section.split_once(ROUTER_BEGINS).expect("a part for the mobile router");
    [agent, router].map(Instructions::read)
}

impl Instructions {
    fn read(text: &str) -> Instructions {
        let mut instructions = Instructions::default();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if line == "```toml" {
                let block: String =
                    lines.by_ref().take_while(|line| *line != "```").fold(String::new(), |all, line| all + line + "\n");
                let path = block.lines().next().and_then(|first| first.strip_prefix("# ")).expect("a file's name");
                let path = path.split_whitespace().next().unwrap_or_default().to_owned();
                instructions.files.push((path, block));
            } else if line == "```sh" || line == "```" {
                lines.by_ref().take_while(|line| *line != "```").for_each(|line| instructions.command(line));
            } else if let Some(command) = line.strip_prefix("    ") {
                instructions.command(command);
            }
        }
        instructions
    }

    /// One line of shell, or the rest of one that ends with a backslash.
    fn command(&mut self, line: &str) {
        match self.commands.last_mut().filter(|last| last.ends_with('\\')) {
            Some(last) => {
                last.pop();
                let _ = write!(last, "{}", line.trim());
            }
            None => self.commands.push(line.trim().to_owned()),
        }
    }
}

/// Follows the README at one of its machines, as root in root's home directory.
fn follow(machine: &mut Machine, instructions: &Instructions) {
    for (path, text) in &instructions.files {
        let folder = Path::new(path).parent().unwrap().display();
        machine.write(path, text, &format!("mkdir -p {folder}"));
    }
    for command in &instructions.commands {
        let words: Vec<&str> = command.split_whitespace().collect();
        match words.as_slice() {
            // How the program and files come to the machine is no matter of this test.
            ["make" | "cargo" | "apt" | "apt-get" | "dpkg" | "install" | "scp" | "git", ..] => {}
            ["roam6", "watch" | "show", ..] => {}
            ["roam6", "run", ..] => machine.start(command),
            ["systemctl", "enable" | "start", ..] => machine.start("roam6 run --config /etc/roam6/roam6.toml"),
            _ => drop(machine.shell(command)),
        }
    }
}

/// Everybody.
struct Scene {
    /// Routers of the Internet: the home agent's provider and the visited network.
    internet: Namespace,
    agent: Machine,
    router: Machine,
    node: Namespace,
    correspondent: Namespace,
    _radvd: [Running; 2],
    _folder: TempDir,
}

const CORRESPONDENT: &str = "2001:db8:c::c";
const NODE: &str = "2001:db8:100:0:0:0:0:2";

impl Scene {
    /// `None`, with a word of why, where it cannot be built.
    fn new(test: &str, provider: Provider) -> Option<Scene> {
        for program in ["radvd", "nft"] {
            if Command::new(program).arg("--version").output().is_err() {
                println!("skipped: {test}: {program} is missing");
                return None;
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let places = (Namespace::new(), Namespace::new(), Namespace::new());
        let machines = (Machine::new(folder.path(), "agent"), Machine::new(folder.path(), "router"));
        let ((Some(internet), Some(node), Some(correspondent)), (Some(agent), Some(router))) = (places, machines)
        else {
            println!("skipped: {test}: no network namespaces here (not root?)");
            return None;
        };
        cable(&internet, "ha0", &agent.place, "eth0");
        cable(&internet, "visit0", &router.place, "wlan0");
        cable(&internet, "cn0", &correspondent, "eth0");
        cable(&router.place, "lan0", &node, "eth0");
        let delivery = match provider {
            Provider::OnLink => "ip address add 2001:db8:1::ffff/64 dev ha0 nodad",
            Provider::Routed => {
                "ip address add 2001:db8:f::ffff/64 dev ha0 nodad && ip route add 2001:db8:1::/64 via 2001:db8:f::1"
            }
        };
        let gateway = if provider == Provider::OnLink { "2001:db8:1::1" } else { "2001:db8:f::1" };
        internet.shell(&format!(
            "sysctl -qw net.ipv6.conf.all.forwarding=1 && {delivery} && \
             ip route add 2001:db8:100::/56 via {gateway} && ip address add 2001:db8:2::1/64 dev visit0 nodad && \
             ip address add 2001:db8:c::1/64 dev cn0 nodad"
        ));
        correspondent.shell(&format!(
            "ip address add {CORRESPONDENT}/64 dev eth0 nodad && ip route add default via 2001:db8:c::1"
        ));
        let addresses = match provider {
            Provider::OnLink => "ip address add 2001:db8:1::1/64 dev eth0",
            Provider::Routed => "ip address add 2001:db8:f::1/64 dev eth0 && ip address add 2001:db8:1::1/128 dev lo",
        };
        agent.place.shell(addresses);
        node.shell("ip token set ::2 dev eth0");
        let prefix = if provider == Provider::OnLink { "2001:db8:1::/64" } else { "2001:db8:f::/64" };
        let link = format!("prefix {prefix} {{ AdvAutonomous off; }};");
        let radvd = [
            advertise(&internet, folder.path(), "ha0", &link),
            advertise(&internet, folder.path(), "visit0", "prefix 2001:db8:2::/64 { };"),
        ];
        let scene = Scene { internet, agent, router, node, correspondent, _radvd: radvd, _folder: folder };
        scene.await_default_route();
        scene.agent.protect(FIREWALL);
        scene.router.protect(FIREWALL);
        Some(scene)
    }

    /// The host of the home agent has its default route from a router advertisement, and does not forward yet.
    fn await_default_route(&self) {
        let word = "default via fe80";
        wait_or_report("a default route", || self.agent.says("ip -6 route", word), || self.agent.story());
        assert_eq!(self.agent.shell("cat /proc/sys/net/ipv6/conf/all/forwarding").trim(), "0");
        assert_eq!(self.router.shell("cat /proc/sys/net/ipv6/conf/all/forwarding").trim(), "0");
    }

    fn story(&self) -> String {
        let routes = self.internet.shell("ip -6 neigh; ip -6 route");
        format!("home agent:\n{}\nmobile router:\n{}\ninternet:\n{routes}", self.agent.story(), self.router.story())
    }
}

/// The home agent's file with the line that docs/home-agent.md has for an on-link prefix.
fn with_home_link(instructions: &mut Instructions) {
    for (_, text) in instructions.files.iter_mut().filter(|(_, text)| text.contains("[home_agent]")) {
        let line =
            text.lines().find(|line| line.trim_start_matches(['#', ' ']).starts_with("home_link")).map(str::to_owned);
        *text = match line {
            Some(line) => text.replace(&line, "home_link = \"eth0\""),
            None => text.replace("[home_agent]\n", "[home_agent]\nhome_link = \"eth0\"\n"),
        };
    }
}

/// Sends octets in both directions over a TCP connection from one place to an address in the other.
fn transfer(from: &Namespace, to: &Namespace, address: &str) {
    let address: Ipv6Addr = address.parse().unwrap();
    let listener = to.enter(|| TcpListener::bind((address, 7777)).unwrap());
    let socket = SocketAddr::new(address.into(), 7777);
    let far = std::thread::spawn(move || exchange(listener.accept().unwrap().0));
    let near = from.enter(|| TcpStream::connect_timeout(&socket, Duration::from_secs(60)).unwrap());
    exchange(near);
    far.join().unwrap();
}

fn exchange(mut stream: TcpStream) {
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut writer = stream.try_clone().unwrap();
    let writing = std::thread::spawn(move || writer.write_all(&vec![7; OCTETS]).unwrap());
    let mut got = vec![0; OCTETS];
    stream.read_exact(&mut got).unwrap();
    writing.join().unwrap();
    assert!(got.iter().all(|octet| *octet == 7));
}

fn set_up(test: &str, provider: Provider) {
    let Some(mut scene) = Scene::new(test, provider) else { return };
    let [mut agent, router] = instructions();
    if provider == Provider::OnLink {
        with_home_link(&mut agent);
    }
    follow(&mut scene.agent, &agent);
    // "With mr1.key brought over": wherever enroll has written it, the router has it beside its configuration.
    let key = scene.agent.shell("cat $(find /root /etc/roam6 -name 'mr1.key' | head -n1)");
    scene.router.write("/etc/roam6/mr1.key", &key, "mkdir -p /etc/roam6");
    follow(&mut scene.router, &router);
    let bound = || scene.router.says("roam6 show bindings", "bound");
    wait_or_report("the mobile router is bound", bound, || scene.story());
    let ready = || {
        let shown = scene.node.shell("ip -6 -o address show dev eth0 scope global; ip -6 route show default");
        shown.contains("2001:db8:100::2/64") && !shown.contains("tentative") && shown.contains("default via")
    };
    wait_or_report("the node has an address and a default route", ready, || scene.story());
    let ping = scene.correspondent.ping(30, "56", NODE);
    assert!(ping.contains("1 received"), "{ping}\n{}", scene.story());
    transfer(&scene.correspondent, &scene.node, NODE);
    transfer(&scene.node, &scene.correspondent, CORRESPONDENT);
    let ping = scene.router.place.ping(30, "56", CORRESPONDENT);
    assert!(ping.contains("1 received"), "the router itself: {ping}\n{}", scene.story());
}

#[test]
fn the_readme_has_files_and_commands_for_both_hosts() {
    let [agent, router] = instructions();
    assert!(agent.files.iter().any(|(_, text)| text.contains("[home_agent]")), "{agent:?}");
    assert!(router.files.iter().any(|(_, text)| text.contains("[mobile_router]")), "{router:?}");
    let enroll = agent.commands.iter().find(|command| command.starts_with("roam6 enroll")).expect("roam6 enroll");
    assert!(enroll.contains("--key-file") && !enroll.contains('\\'), "{enroll}");
    let starts = |command: &String| command.starts_with("roam6 run") || command.starts_with("systemctl");
    assert!(
        [&agent, &router].iter().all(|instructions| instructions.commands.iter().any(starts)),
        "{agent:?} {router:?}"
    );
}

#[test]
fn the_readme_works_with_a_routed_prefix() {
    set_up("the_readme_works_with_a_routed_prefix", Provider::Routed);
}

#[test]
fn the_readme_works_with_an_on_link_prefix() {
    set_up("the_readme_works_with_an_on_link_prefix", Provider::OnLink);
}
