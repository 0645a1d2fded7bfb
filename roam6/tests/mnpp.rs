//! Two vehicles, each with a network behind it and a home agent far away: packets from one to the other go straight while
//! they are near, by both tunnels while they are not, and a TCP connection notices neither. All of it the real binary.

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test fails at the assertion")]

mod testbed;

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tempfile::TempDir;
use testbed::{BINARY, Namespace, Running, run, wait_for};

/// What takes longer will not come.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The home agent, the routers of the vehicles, and a node in each.
struct Street {
    home: Namespace,
    cars: Vec<Namespace>,
    nodes: Vec<Namespace>,
    folder: TempDir,
    daemons: Vec<Running>,
}

impl Street {
    fn new(test: &str) -> Option<Street> {
        let places: Option<Vec<Namespace>> = (0..5).map(|_| Namespace::new()).collect();
        let Some(mut places) = places else {
            println!("skipped: {test}: no network namespaces here (not root?)");
            return None;
        };
        if Command::new("radvd").arg("--version").output().is_err() {
            println!("skipped: {test}: radvd is missing");
            return None;
        }
        let nodes = places.split_off(3);
        let cars = places.split_off(1);
        let home = places.remove(0);
        let mut street = Street { home, cars, nodes, folder: tempfile::tempdir().unwrap(), daemons: Vec::new() };
        street.wire();
        street.start();
        Some(street)
    }

    fn wire(&self) {
        self.home.shell("sysctl -qw net.ipv6.conf.all.forwarding=1 && ip address add 2001:db8:1::1/128 dev lo");
        for (car, (place, node)) in self.cars.iter().zip(&self.nodes).enumerate() {
            let number = car + 1;
            self.home.shell(&format!(
                "ip link add visit{car} type veth peer name up0 netns {} && ip link set visit{car} up && \
                 ip address add 2001:db8:a{car}::1/64 dev visit{car} nodad",
                place.number()
            ));
            place.shell(&format!(
                "ip link add in0 type veth peer name eth0 netns {} && ip link set in0 up && ip link set up0 up",
                node.number()
            ));
            node.shell(&format!(
                "sysctl -qw net.ipv6.conf.eth0.accept_ra=0 net.ipv6.conf.eth0.accept_dad=0 && ip link set eth0 up && \
                 ip address add 2001:db8:{number}00::2/64 dev eth0 nodad && \
                 ip route add default via 2001:db8:{number}00::1"
            ));
        }
        let [one, other] = [&self.cars[0], &self.cars[1]];
        one.shell(&format!("ip link add radio0 type veth peer name radio0 netns {}", other.number()));
        for car in [one, other] {
            car.shell("sysctl -qw net.ipv6.conf.radio0.disable_ipv6=1");
        }
    }

    fn start(&mut self) {
        for number in 1..=2 {
            let mut enroll = Command::new(BINARY);
            enroll.args(["enroll", "--home-address", &format!("2001:db8:1::10{number}")]);
            enroll.args(["--prefix", &format!("2001:db8:{number}00::/56")]);
            run(enroll.arg("--table").arg(self.file("mobiles.toml")).arg("--key-file").arg(self.file(&key(number))));
        }
        run(Command::new("sh")
            .args(["-c", &format!("umask 077; {BINARY} keygen > nearby.key")])
            .current_dir(&self.folder));
        let agent = "[home_agent]\naddress = \"2001:db8:1::1\"\nhome_prefixes = [\"2001:db8:1::/64\"]\n\
                     prefix_table = \"mobiles.toml\"\n";
        let mut daemons = vec![self.home.roam6(&self.write("home", agent)), self.advertise()];
        for (car, number) in self.cars.iter().zip(1..) {
            daemons.push(car.roam6(&self.write(&format!("car{number}"), &config(number))));
        }
        self.daemons = daemons;
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, role: &str) -> PathBuf {
        let (path, own) = (self.file(&format!("{name}.toml")), self.file(name));
        let text =
            format!("name = \"{name}\"\nrun_dir = \"{0}/run\"\nstate_dir = \"{0}/state\"\n{role}", own.display());
        fs::write(&path, text).unwrap();
        path
    }

    fn advertise(&self) -> Running {
        let (conf, pid) = (self.file("radvd.conf"), self.file("radvd.pid"));
        let link = |car: usize| {
            format!(
                "interface visit{car} {{ AdvSendAdvert on; MinRtrAdvInterval 3; MaxRtrAdvInterval 4; \
                 prefix 2001:db8:a{car}::/64 {{ }}; }};\n"
            )
        };
        fs::write(&conf, link(0) + &link(1)).unwrap();
        self.home.start(&["radvd", "-n", "-C", conf.to_str().unwrap(), "-p", pid.to_str().unwrap()])
    }

    fn show(&self, name: &str, what: &str) -> String {
        let shown = Command::new(BINARY).args(["show", what, "--run-dir"]).arg(self.file(name).join("run")).output();
        String::from_utf8_lossy(&shown.unwrap().stdout).into_owned()
    }

    /// The interface by which a vehicle sends what its node sends to the node of the other; nothing if there is none now.
    fn way(&self, car: usize) -> String {
        let (own, other) = (car + 1, 2 - car);
        let words = format!("ip -6 route get 2001:db8:{other}00::2 from 2001:db8:{own}00::2 iif in0");
        let route = self.cars[car].command(&["sh", "-c", &words]).output().unwrap().stdout;
        let route = String::from_utf8_lossy(&route);
        let mut words = route.split_whitespace().skip_while(|word| *word != "dev");
        words.nth(1).unwrap_or_default().to_owned()
    }

    /// Packets the first vehicle has sent by the radio, whose virtual link is there once it was up, and by its uplink.
    fn sent(&self) -> [u64; 2] {
        ["gn0", "up0"].map(|interface| {
            let row = format!("awk '$1 == \"{interface}:\" {{ print $11 }}' /proc/net/dev");
            self.cars[0].shell(&row).trim().parse().unwrap_or(0)
        })
    }

    fn both_ways(&self) -> [String; 2] {
        [self.way(0), self.way(1)]
    }

    fn meet(&self, near: bool) {
        let state = if near { "up" } else { "down" };
        for car in &self.cars {
            car.shell(&format!("ip link set radio0 {state}"));
        }
    }
}

fn key(number: u8) -> String {
    format!("car{number}.key")
}

fn config(number: u8) -> String {
    format!(
        "[mobile_router]\nhome_address = \"2001:db8:1::10{number}\"\nhome_prefix = \"2001:db8:1::/64\"\n\
         home_agents = [\"2001:db8:1::1\"]\nprefixes = [\"2001:db8:{number}00::/56\"]\nkey_file = \"{key}\"\n\
         [[mobile_router.uplink]]\ninterface = \"up0\"\n\
         [[mobile_router.ingress]]\ninterface = \"in0\"\nprefix = \"2001:db8:{number}00::/64\"\n\
         [geo]\ninterfaces = [\"radio0\"]\nposition = {{ latitude = 48.0, longitude = 11.00{number} }}\n\
         [[geo.links]]\nname = \"gn0\"\naround = 1000\n\
         [mnpp]\nkey_file = \"nearby.key\"\n\
         [[mnpp.accept]]\nkey_file = \"nearby.key\"\nprefixes = [\"2001:db8::/32\"]\n",
        key = key(number)
    )
}

/// A connection from one node to the other, which echoes all data. It ends when this value is dropped.
struct Conversation {
    words: Arc<AtomicU64>,
    ends: Arc<AtomicBool>,
    speaker: Option<JoinHandle<()>>,
}

impl Conversation {
    fn begin(street: &Street) -> Conversation {
        let there: SocketAddr = "[2001:db8:200::2]:5001".parse().unwrap();
        let listener = street.nodes[1].enter(|| TcpListener::bind(there).unwrap());
        let stream = street.nodes[0].enter(|| TcpStream::connect_timeout(&there, TIMEOUT).unwrap());
        let (mut answering, _) = listener.accept().unwrap();
        std::thread::spawn(move || {
            let mut word = [0; 8];
            while answering.read_exact(&mut word).is_ok() {
                answering.write_all(&word).unwrap();
            }
        });
        let (words, ends) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let shared = (Arc::clone(&words), Arc::clone(&ends));
        let speaker = std::thread::spawn(move || speak(stream, &shared.0, &shared.1));
        Conversation { words, ends, speaker: Some(speaker) }
    }

    /// Waits until it continues, which shows that nothing is blocked. Returns what the first vehicle has sent meanwhile for
    /// each hundred words, by the radio and by its uplink.
    fn goes_on(&self, street: &Street, what: &str) -> [u64; 2] {
        let sent = || self.words.load(Ordering::Relaxed);
        let (from, before) = (sent(), street.sent());
        wait_for(what, || sent() > from + 50);
        let after = street.sent();
        [0, 1].map(|way| after[way].saturating_sub(before[way]) * 100 / (sent() - from))
    }

    fn end(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        self.speaker.take().unwrap().join().unwrap();
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
    }
}

fn speak(mut stream: TcpStream, words: &AtomicU64, ends: &AtomicBool) {
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    while !ends.load(Ordering::Relaxed) {
        let word = words.load(Ordering::Relaxed).to_be_bytes();
        let mut echoed = [0; 8];
        stream.write_all(&word).unwrap();
        stream.read_exact(&mut echoed).expect("the connection lives");
        assert_eq!(echoed, word);
        words.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(5));
    }
    stream.shutdown(Shutdown::Both).unwrap();
}

#[test]
fn mnpp_routes_to_nearby_networks_and_connections_survive() {
    let Some(street) = Street::new("mnpp_routes_to_nearby_networks_and_connections_survive") else {
        return;
    };
    wait_for("two bindings", || street.show("home", "bindings").matches(" bound").count() == 2);
    wait_for("two tunnels", || street.both_ways() == ["nemo0", "nemo0"]);
    let mut talk = Conversation::begin(&street);
    // Beside the words there are beacons and probes.
    let goes_by = |[radio, uplink]: [u64; 2], is_near: bool| {
        let [way, other] = if is_near { [radio, uplink] } else { [uplink, radio] };
        assert!(way > 30 && way > 3 * other, "{radio} by the radio, {uplink} by the uplink, for 100 words");
    };
    goes_by(talk.goes_on(&street, "words by the tunnels"), false);
    for _ in 0..2 {
        street.meet(true);
        wait_for("the direct way", || street.both_ways() == ["gn0", "gn0"]);
        // The other end may change over a little later.
        talk.goes_on(&street, "words straight to the other");
        goes_by(talk.goes_on(&street, "more of them"), true);
        let known = street.show("car1", "networks");
        assert!(known.contains("2001:db8:200::/56"), "{known}");
        street.meet(false);
        wait_for("the way home", || street.both_ways() == ["nemo0", "nemo0"]);
        talk.goes_on(&street, "words by the tunnels again");
        goes_by(talk.goes_on(&street, "more of them"), false);
    }
    talk.end();
    for counter in ["dropped_bad_authenticator", "dropped_no_association", "dropped_unverified"] {
        let shown = street.show("car1", "counters");
        let line = shown.lines().find(|line| line.starts_with(counter)).unwrap();
        assert!(line.ends_with(" 0"), "{line}");
    }
}
