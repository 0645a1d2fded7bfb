//! The real binary as a mobile router whose nodes also use prefixes of the networks it visits: advertised, routed past
//! the tunnel, and over at once at a move. Server, advertiser and dissector are other people's.

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails where it stands")]
#![allow(clippy::indexing_slicing, reason = "a test fails where it stands")]

mod road;

use road::{Place, Road, Running, run, wait_for};
use std::fs::{self, File};
use std::net::Ipv6Addr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

const PEER: &str = "2001:db8:9::9";
/// The node's identifier; `2001:db8:100::2` is its address in the mobile network.
const NODE: &str = "::2";
const HOME: &str = "2001:db8:100::2";
const SETTINGS: &str = "[mobile_router.care_of_prefixes]\nprefer = \"care-of\"\n";

/// A network to visit, beyond the same cable as all others.
struct Network {
    /// Prefix of its link.
    link: &'static str,
    /// What its server delegates from, a /48; empty if it has none.
    pool: &'static str,
}

const FIRST: Network = Network { link: "2001:db8:2::", pool: "2001:db8:b1::" };
const SECOND: Network = Network { link: "2001:db8:3::", pool: "2001:db8:b2::" };
const POOR: Network = Network { link: "2001:db8:2::", pool: "" };

/// Who makes a network what it is; they go with it.
struct Visit<'a> {
    road: &'a Road,
    network: &'static Network,
    _servers: Vec<Running>,
    capture: Option<Capture>,
}

/// A capture by tcpdump.
struct Capture {
    file: PathBuf,
    tcpdump: Running,
}

impl Capture {
    /// Begins to capture everything on an interface of `place`.
    fn begin(road: &Road, place: &Place, interface: &str, name: &str) -> Capture {
        let file = road.file(&format!("{name}.pcap"));
        let log = road.file(&format!("{name}.log"));
        let words = ["tcpdump", "-U", "--immediate-mode", "-n", "-i", interface, "-w", file.to_str().unwrap(), "ip6"];
        let mut command = place.command(&words);
        let tcpdump = Running(command.stderr(File::create(&log).unwrap()).stdout(Stdio::null()).spawn().unwrap());
        wait_for("tcpdump", || fs::read_to_string(&log).unwrap().contains("listening on"));
        Capture { file, tcpdump }
    }

    /// Ends it: what tshark makes of what was seen.
    fn end(mut self) -> Dissected {
        run(Command::new("kill").args(["-INT", &self.tcpdump.0.id().to_string()]));
        self.tcpdump.0.wait().unwrap();
        Dissected(self.file)
    }
}

/// A finished capture.
struct Dissected(PathBuf);

impl Dissected {
    /// These fields of the frames that match, each with all its occurrences.
    fn fields(&self, filter: &str, fields: &[&str]) -> Vec<Vec<Vec<String>>> {
        let mut tshark = Command::new("tshark");
        tshark.arg("-r").arg(&self.0).args(["-n", "-Y", filter, "-T", "fields", "-E", "separator=;"]);
        tshark.args(fields.iter().flat_map(|field| ["-e", field]));
        let values = |text: &str| text.split(',').filter(|one| !one.is_empty()).map(str::to_owned).collect();
        run(&mut tshark).lines().map(|line| line.split(';').map(values).collect()).collect()
    }

    fn count(&self, filter: &str) -> usize {
        self.fields(filter, &["frame.number"]).len()
    }

    fn check(&self) {
        let faults = self.fields("_ws.malformed || _ws.expert.severity == error", &["frame.number", "frame.protocols"]);
        assert!(faults.is_empty(), "{}: {faults:?}", self.0.display());
    }
}

impl<'a> Visit<'a> {
    /// Plugs the mobile router into `network`.
    fn begin(road: &'a Road, network: &'static Network, name: &str) -> Visit<'a> {
        let Network { link, pool } = network;
        road.agent.shell(&format!(
            "sysctl -qw net.ipv6.conf.visit0.accept_dad=0 && ip -6 address flush dev visit0 scope global && \
             ip address add {link}1/64 dev visit0 nodad"
        ));
        let capture = Capture::begin(road, &road.router, "up0", name);
        road.agent.shell("ip link set visit0 up");
        wait_for("a link-local address", || {
            road.agent.shell("ip -6 -o addr show dev visit0 scope link").contains("fe80")
        });
        let mut servers = vec![road.advertise(&format!("{link}/64"))];
        if !pool.is_empty() {
            let shown = road.router.shell("ip -6 -o address show dev up0 scope link");
            let gateway = shown.split_whitespace().nth(3).and_then(|word| word.split_once('/')).unwrap().0.to_owned();
            road.agent.shell(&format!("ip route replace {pool}/48 via {gateway} dev visit0"));
            servers.push(network.delegate(road));
        }
        Visit { road, network, _servers: servers, capture: Some(capture) }
    }

    /// Pulls the plug.
    fn end(self) -> Dissected {
        let road = self.road;
        self.end_after(|| {
            road.agent.shell("ip link set visit0 down && ip -6 address flush dev visit0");
            // The kernel takes up to a second to tell. What leaves until then leaves into no cable.
            wait_for("told of the lost carrier", || road.show("mr", "links").contains("down"));
        })
    }

    /// What the uplink carried until after `act` had to come from here, or to be of the link.
    fn end_after(mut self, act: impl FnOnce()) -> Dissected {
        act();
        let seen = self.capture.take().unwrap().end();
        let shown = self.road.router.shell("ip -o link show dev up0");
        let own = shown.split_once("link/ether ").and_then(|(_, rest)| rest.split_whitespace().next()).unwrap();
        let sent = seen.fields(&format!("eth.src == {own}"), &["ipv6.src", "frame.number"]);
        for frame in sent {
            let source: Ipv6Addr = frame[0][0].parse().unwrap();
            let local = source.is_unspecified() || source.is_unicast_link_local();
            assert!(local || self.network.owns(source), "frame {:?} of {} from {source}", frame[1], seen.0.display());
        }
        seen.check();
        seen
    }
}

impl Network {
    fn owns(&self, address: Ipv6Addr) -> bool {
        let within = |prefix: &str, count: usize| {
            prefix.parse::<Ipv6Addr>().is_ok_and(|prefix| prefix.segments()[..count] == address.segments()[..count])
        };
        within(self.link, 4) || within(self.pool, 3)
    }

    /// The only server of its link, so nobody need wait for others.
    fn delegate(&self, road: &Road) -> Running {
        let base = self.pool.trim_end_matches("::");
        let text = format!(
            "default-lease-time 600; preferred-lifetime 300; max-lease-time 600; option dhcp6.preference 255;\n\
             subnet6 {}/64 {{ prefix6 {base}:: {base}:ff00:: /56; }}\n",
            self.link
        );
        let file = |kind: &str| road.file(&format!("dhcpd-{base}.{kind}"));
        fs::write(file("conf"), text).unwrap();
        fs::write(file("leases"), "").unwrap();
        let mut dhcpd = road.agent.command(&["dhcpd", "-6", "-f", "-q", "-cf"]);
        dhcpd.arg(file("conf")).arg("-lf").arg(file("leases")).arg("-pf").arg(file("pid")).arg("visit0");
        Running(dhcpd.stdout(Stdio::null()).stderr(File::create(file("log")).unwrap()).spawn().unwrap())
    }
}

/// A road on which nothing runs yet, whose node hears advertisements.
fn road(test: &str) -> Option<Road> {
    for (program, word) in [("dhcpd", "--version"), ("tshark", "--version"), ("tcpdump", "--version")] {
        if Command::new(program).arg(word).output().is_err() {
            println!("skipped: {test}: {program} is missing");
            return None;
        }
    }
    let road = Road::new(test)?;
    road.agent.shell("ip link set visit0 down && ip -6 address flush dev visit0");
    road.node.shell(&format!(
        "ip -6 address flush dev eth0 scope global && sysctl -qw net.ipv6.conf.eth0.accept_ra=1 && \
         ip -6 route del default && ip token set {NODE} dev eth0"
    ));
    road.enroll(&[]);
    Some(road)
}

/// The node's addresses that begin so: whether each is preferred.
fn addresses(road: &Road, begin: &str) -> Vec<(String, bool)> {
    let shown = road.node.shell("ip -6 -o address show dev eth0 scope global");
    let read = |line: &str| {
        let address = line.split_whitespace().nth(3)?.split_once('/')?.0.to_owned();
        Some((address, !line.contains("deprecated") && !line.contains("tentative")))
    };
    shown.lines().filter_map(read).filter(|(address, _)| address.starts_with(begin)).collect()
}

/// Waits until the node has a preferred address that begins so, and the peer answers it there.
fn await_address(road: &Road, begin: &str) -> String {
    let found = || addresses(road, begin).into_iter().find(|(_, preferred)| *preferred);
    wait_for(&format!("a preferred address in {begin}"), || found().is_some());
    let address = found().unwrap().0;
    wait_for(&format!("a way from {address}"), || reaches(road, &address));
    address
}

fn reaches(road: &Road, from: &str) -> bool {
    road.node.command(&["ping", "-nqc1", "-W1", "-I", from, PEER]).output().unwrap().status.success()
}

/// The node speaks from an address of a network that was left: it is told so, and knows at once.
fn is_told(road: &Road, former: &str) {
    let words = ["ping", "-nqc5", "-i0.3", "-W1", "-I", former, PEER];
    let output = road.node.command(&words).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!output.status.success() && text.contains(" errors, "), "{former}: {text}");
}

/// That the same advertisement says the one prefix is over and the other preferred.
fn check_advertisements(inside: &Dissected, former: &str, new: &str) {
    let names = ["icmpv6.opt.prefix", "icmpv6.opt.prefix.preferred_lifetime", "icmpv6.opt.prefix.valid_lifetime"];
    let told = inside.fields("icmpv6.type == 134", &names);
    let lifetimes = |message: &Vec<Vec<String>>, begin: &str| {
        let at = message[0].iter().position(|prefix| prefix.starts_with(begin))?;
        Some((message[1][at].parse::<u32>().unwrap(), message[2][at].parse::<u32>().unwrap()))
    };
    let both: Vec<_> = told.iter().filter_map(|one| Some((lifetimes(one, former)?, lifetimes(one, new)?))).collect();
    assert!(both.iter().all(|(former, _)| *former == (0, 0)), "{former}: {told:?}");
    let both = both.iter().any(|(_, (preferred, valid))| *preferred > 0 && valid > preferred && *valid <= 5400);
    assert!(both, "no advertisement of {former} and {new}: {told:?}");
}

#[test]
fn a_prefix_of_each_network_visited_is_used_there_and_nowhere_else() {
    let Some(road) = road("a_prefix_of_each_network_visited_is_used_there_and_nowhere_else") else { return };
    let inside = Capture::begin(&road, &road.router, "in0", "inside");
    let _agent = road.start_agent();
    let mut router = road.start_router(SETTINGS);
    let visit = Visit::begin(&road, &FIRST, "first");
    let former = await_address(&road, "2001:db8:b1:");
    road.await_binding("2001:db8:2:");
    wait_for("a way from home", || reaches(&road, HOME));
    assert_eq!(addresses(&road, HOME), [(HOME.to_owned(), false)], "the direct path is preferred");
    // What the prefix has beyond the node's link leads nowhere.
    let beyond = beyond(&former);
    let words = ["ping", "-nqc1", "-W2", "-I", PEER, &beyond];
    let told = String::from_utf8(road.agent.command(&words).output().unwrap().stdout).unwrap();
    assert!(told.contains("+1 errors"), "{told}");

    // The node goes on speaking from the address whatever happens.
    let words = ["ping", "-nq", "-i", "0.02", "-I", &former, PEER];
    let talk = Running(road.node.command(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    std::thread::sleep(Duration::from_millis(300));
    let first = visit.end();
    assert!(first.count(&format!("icmpv6.type == 128 && ipv6.src == {former} && !(ipv6.nxt == 41)")) > 5);
    assert!(first.count(&format!("icmpv6.type == 128 && ipv6.src == {HOME} && ipv6.nxt == 41")) > 0);
    assert_eq!(first.count(&format!("icmpv6.type == 128 && ipv6.src == {former} && ipv6.nxt == 41")), 0);
    assert_eq!(first.count(&format!("icmpv6.type == 128 && ipv6.src == {HOME} && !(ipv6.nxt == 41)")), 0);
    let probes = format!("icmpv6.type == 128 && !(icmpv6.type == 1) && ipv6.dst == {beyond}");
    assert_eq!(first.count(&probes), 1, "nothing goes in circles");
    check_delegation(&first);

    let visit = Visit::begin(&road, &SECOND, "second");
    await_address(&road, "2001:db8:b2:");
    assert_eq!(addresses(&road, &former), [(former.clone(), false)], "deprecated, not forgotten");
    // The kernel answers a few times a second only (RFC 4443 §2.4 (f)).
    drop(talk);
    is_told(&road, &former);
    let second = visit.end_after(|| {
        run(Command::new("kill").args(["-TERM", &router.0.id().to_string()]));
        assert!(router.0.wait().unwrap().success());
    });
    check_delegation(&second);
    assert!(second.count("dhcpv6.msgtype == 8") > 0, "given back");

    let inside = inside.end();
    inside.check();
    let (old, new) = ("2001:db8:b1:", "2001:db8:b2:");
    check_advertisements(&inside, old, new);
    let told = format!("icmpv6.type == 1 && icmpv6.code == 5 && ipv6.dst == {former}");
    assert!(inside.count(&told) > 0, "source address failed ingress/egress policy");
}

/// An address of the same delegated prefix, on a link nobody has.
fn beyond(address: &str) -> String {
    let address: Ipv6Addr = address.parse().unwrap();
    Ipv6Addr::from_bits(address.to_bits() | 0x77 << 64).to_string()
}

/// The server was asked, it answered, and the kernel did not say that nobody listens.
fn check_delegation(uplink: &Dissected) {
    assert!(uplink.count("dhcpv6.msgtype == 1") > 0 && uplink.count("dhcpv6.msgtype == 7") > 0);
    assert!(uplink.count("dhcpv6.iaprefix.pref_addr") > 0);
    // Whoever gives a prefix back and ends does not wait for the answer.
    let released = uplink.fields("dhcpv6.msgtype == 8", &["frame.number"]).into_iter().next();
    let before = released.map_or(String::new(), |frame| format!(" && frame.number < {}", frame[0][0]));
    assert_eq!(uplink.count(&format!("icmpv6.type == 1 && icmpv6.code == 4{before}")), 0, "port unreachable");
}

#[test]
fn where_nobody_delegates_the_visited_link_itself_is_used_while_it_lasts() {
    let Some(road) = road("where_nobody_delegates_the_visited_link_itself_is_used_while_it_lasts") else { return };
    let inside = Capture::begin(&road, &road.router, "in0", "inside");
    let _agent = road.start_agent();
    let _router = road.start_router(SETTINGS);
    let visit = Visit::begin(&road, &POOR, "poor");
    let former = await_address(&road, "2001:db8:2:");
    wait_for("a way from home", || reaches(&road, HOME));
    let poor = visit.end();
    assert!(poor.count(&format!("icmpv6.type == 128 && ipv6.src == {former} && !(ipv6.nxt == 41)")) > 0);
    let answered = format!("icmpv6.type == 136 && icmpv6.nd.na.target_address == {former} && ipv6.dst != ff02::1");
    assert!(poor.count(&answered) > 0, "the router of the visited link found the node by proxy");

    let visit = Visit::begin(&road, &SECOND, "second");
    await_address(&road, "2001:db8:b2:");
    is_told(&road, &former);
    check_delegation(&visit.end());
    let inside = inside.end();
    inside.check();
    check_advertisements(&inside, "2001:db8:2:", "2001:db8:b2:");
    let shared = inside.fields("icmpv6.type == 134 && icmpv6.nd.ra.flag.p == 1", &["icmpv6.opt.prefix.flag.l"]);
    assert!(shared.len() >= 2, "told that there is a proxy (RFC 4389 section 4.1.3.3)");
    let told = format!("icmpv6.type == 1 && icmpv6.code == 5 && ipv6.dst == {former}");
    assert!(inside.count(&told) > 0, "source address failed ingress/egress policy");
}
