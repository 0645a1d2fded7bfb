//! An IPv4-only visited network, with or without a NAT, and a TCP transfer that must survive handovers.

use super::{Namespace, Running, Testbed, run, wait_for};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

/// The home agent's side of it.
pub const AGENT: &str = "
[home_agent.ipv4]
address = \"203.0.113.1\"
force_udp = false
";

/// The mobile router's.
pub const ROUTER: &str = "
home_agents_ipv4 = [\"203.0.113.1\"]
[[mobile_router.uplink]]
interface = \"up1\"
priority = 9
";

/// With a second modem as a further standby.
pub const TWO_MODEMS: &str = "
home_agents_ipv4 = [\"203.0.113.1\"]
[[mobile_router.uplink]]
interface = \"up1\"
priority = 5
[[mobile_router.uplink]]
interface = \"up2\"
priority = 6
";

/// The IPv4-only network.
pub struct NatTestbed {
    pub testbed: Testbed,
    /// The NAT; `None`: home agent and mobile router share a link.
    nat: Option<Namespace>,
    /// A bridge in that link, which may drop protocols.
    wall: Option<Namespace>,
}

impl NatTestbed {
    /// With a symmetric NAT before the mobile router's second uplink, or without.
    pub fn new(test: &str, translated: bool) -> Option<NatTestbed> {
        NatTestbed::enrolled(test, translated, &[])
    }

    /// The same with `more` arguments of `roam6 enroll`.
    pub fn enrolled(test: &str, translated: bool, more: &[&str]) -> Option<NatTestbed> {
        for tool in ["nft", "tcpdump", "tshark"] {
            if Command::new(tool).arg("--version").output().is_err() {
                println!("skipped: {test}: {tool} is missing");
                return None;
            }
        }
        let testbed = Testbed::new(test)?;
        let nat = if translated { Some(Namespace::new()?) } else { None };
        let wall = if translated { None } else { Some(Namespace::new()?) };
        let beyond = nat.as_ref().or(wall.as_ref()).unwrap().number();
        let outer = if translated { "out0" } else { "w0" };
        testbed.agent.shell(&format!(
            "ip link add nat0 type veth peer name {outer} netns {beyond} && ip link set nat0 up && \
             ip address add 203.0.113.1/24 dev nat0"
        ));
        if let Some(nat) = &nat {
            nat.shell(&format!(
                "sysctl -qw net.ipv4.ip_forward=1 && ip link set out0 up && ip address add 203.0.113.2/24 dev out0 && \
                 ip link add lan0 type veth peer name up1 netns {} && ip link set lan0 up && \
                 ip address add 10.0.0.1/24 dev lan0 && nft 'table ip nat {{ chain post {{ \
                 type nat hook postrouting priority 100; oifname \"out0\" masquerade fully-random; }}; }}'",
                testbed.router.number()
            ));
            testbed.router.shell(
                "ip link set up1 up && ip address add 10.0.0.2/24 dev up1 && ip route add default via 10.0.0.1 dev up1",
            );
        }
        if let Some(wall) = &wall {
            testbed.router.shell(&format!(
                "ip link add up1 type veth peer name w1 netns {} && ip link set up1 up && \
                 ip address add 203.0.113.7/24 dev up1",
                wall.number()
            ));
            wall.shell(
                "ip link add br0 type bridge mcast_snooping 0 && for port in w0 w1; do ip link set $port master br0 up; done && \
                 ip link set br0 up && nft 'table bridge wall { set dropped { type inet_proto; }; chain pass { \
                 type filter hook forward priority 0; meta l4proto @dropped drop; }; }'",
            );
        }
        testbed.enroll(more);
        Some(NatTestbed { testbed, nat, wall })
    }

    /// From now on the link drops this protocol.
    pub fn drop_protocol(&self, protocol: u8) {
        let script = format!("nft add element bridge wall dropped '{{ {protocol} }}'");
        self.wall.as_ref().unwrap().shell(&script);
    }

    /// Connects `up2` to the same NAT, or to another one with the address 198.51.100.2.
    pub fn add_modem(&self, same: bool) -> Option<Namespace> {
        let router = self.testbed.router.number();
        let modem = |lan: &str, net: &str| {
            format!(
                "ip link add {lan} type veth peer name up2 netns {router} && ip link set {lan} up && \
                 ip address add {net}.1/24 dev {lan}"
            )
        };
        let (other, net) = if same {
            self.nat.as_ref().unwrap().shell(&modem("lan1", "10.0.1"));
            (None, "10.0.1")
        } else {
            let nat = Namespace::new()?;
            self.testbed.agent.shell(&format!(
                "ip link add nat1 type veth peer name out0 netns {} && ip link set nat1 up && \
                 ip address add 198.51.100.1/24 dev nat1",
                nat.number()
            ));
            nat.shell(&format!(
                "sysctl -qw net.ipv4.ip_forward=1 && ip link set out0 up && ip address add 198.51.100.2/24 dev out0 && \
                 ip route add 203.0.113.1 via 198.51.100.1 && {} && nft 'table ip nat {{ chain post {{ \
                 type nat hook postrouting priority 100; oifname \"out0\" masquerade fully-random; }}; }}'",
                modem("lan0", "192.168.8")
            ));
            (Some(nat), "192.168.8")
        };
        self.testbed.router.shell(&format!(
            "ip link set up2 up && ip address add {net}.2/24 dev up2 && \
             ip route add default via {net}.1 dev up2 metric 700"
        ));
        other
    }

    /// The first NAT gives `up1` the address that the second one gives `up2`. No packet of more than the minimum MTU of
    /// IPv6 passes either link.
    pub fn use_equal_addresses(&self, second: &Namespace) {
        let narrow = "ip link set lan0 mtu 1280";
        second.shell(narrow);
        self.nat
            .as_ref()
            .unwrap()
            .shell(&format!("{narrow} && ip address flush dev lan0 && ip address add 192.168.8.1/24 dev lan0"));
        self.testbed.router.shell(
            "ip link set up1 mtu 1280 && ip link set up2 mtu 1280 && ip address flush dev up1 && \
             ip address add 192.168.8.2/24 dev up1 && ip route add default via 192.168.8.1 dev up1",
        );
    }

    /// Packets that the mobile router has sent by this interface.
    pub fn sent_by(&self, interface: &str) -> u64 {
        let script = format!("awk '$1 == \"{interface}:\" {{ print $11 }}' /proc/net/dev");
        self.testbed.router.shell(&script).trim().parse().unwrap()
    }

    /// The IPv4 ends that the home agent has.
    pub fn ends(&self) -> Vec<String> {
        let shown = self.testbed.show("ha", "bindings");
        let is_end = |word: &&str| word.starts_with("203.0.113.") || word.starts_with("198.51.100.");
        shown.split_whitespace().filter(is_end).map(str::to_owned).collect()
    }

    pub fn capture(&self) -> (PathBuf, Running) {
        let file = self.testbed.file("nat0.pcap");
        let words = ["tcpdump", "-Z", "root", "-U", "--immediate-mode", "-i", "nat0", "-w", file.to_str().unwrap()];
        let listener = self.testbed.agent.start(&words);
        wait_for("tcpdump", || file.exists());
        (file, listener)
    }

    /// Address and port of the NAT, as the home agent knows the mobile router.
    pub fn bound_to(&self) -> Option<String> {
        let shown = self.testbed.show("ha", "bindings");
        shown.split_whitespace().find(|word| word.starts_with("203.0.113.")).map(str::to_owned)
    }

    pub fn await_ipv4(&self) -> String {
        wait_for("a binding over IPv4", || self.bound_to().is_some());
        self.bound_to().unwrap()
    }

    pub fn ping(&self, size: &str) -> String {
        self.testbed.node.ping(2, size, "2001:db8:9::9")
    }

    /// The first NAT drops everything, without a word.
    pub fn black_hole(&self) {
        self.nat.as_ref().unwrap().shell("sysctl -qw net.ipv4.ip_forward=0");
    }

    /// Removes all mappings of the NAT, like a restart.
    pub fn forget(&self) {
        self.nat.as_ref().unwrap().shell("ip link set out0 down && ip link set out0 up");
    }
}

/// A TCP connection from the node inside to a correspondent, which sends back all it gets.
pub struct Transfer {
    returned: Arc<AtomicU64>,
    ended: Arc<AtomicBool>,
    sender: JoinHandle<u64>,
    reader: JoinHandle<u64>,
}

impl Transfer {
    pub fn begin(testbed: &Testbed, correspondent: &str) -> Transfer {
        let correspondent: SocketAddr = correspondent.parse().unwrap();
        let listener = testbed.agent.enter(|| TcpListener::bind(correspondent).unwrap());
        spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut copy = stream.try_clone().unwrap();
            std::io::copy(&mut stream, &mut copy).unwrap();
            copy.shutdown(std::net::Shutdown::Write).unwrap();
        });
        let mut stream = testbed.node.enter(|| TcpStream::connect(correspondent).unwrap());
        let mut back = stream.try_clone().unwrap();
        let (returned, ended) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let (count, end) = (Arc::clone(&returned), Arc::clone(&ended));
        let sender = spawn(move || {
            let mut number = 0_u64;
            while !end.load(Ordering::Relaxed) {
                let chunk: Vec<u8> = (number..number + 1000).flat_map(u64::to_be_bytes).collect();
                stream.write_all(&chunk).unwrap();
                number += 1000;
                sleep(Duration::from_millis(2));
            }
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            number
        });
        let reader = spawn(move || {
            let (mut number, mut word) = (0_u64, [0; 8]);
            while back.read_exact(&mut word).is_ok() {
                assert_eq!(u64::from_be_bytes(word), number, "in order and whole");
                number += 1;
                count.store(number, Ordering::Relaxed);
            }
            number
        });
        Transfer { returned, ended, sender, reader }
    }

    /// Waits until more data has returned than was in flight.
    pub fn goes_on(&self, what: &str) {
        let before = self.returned.load(Ordering::Relaxed);
        wait_for(what, || self.returned.load(Ordering::Relaxed) > before + 100_000);
    }

    /// Ends the transfer: all data has returned.
    pub fn end(self) {
        self.ended.store(true, Ordering::Relaxed);
        assert_eq!(self.sender.join().unwrap(), self.reader.join().unwrap());
    }
}

/// A field of the packets of a capture that match a filter.
pub fn dissect(file: &Path, filter: &str, field: &str) -> String {
    let mut tshark = Command::new("tshark");
    tshark.args(["-n", "-d", "udp.port==4191,ipv6", "-r", file.to_str().unwrap(), "-Y", filter, "-T", "fields"]);
    run(tshark.args(["-e", field]))
}
