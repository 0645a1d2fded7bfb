//! The real binary as a mobile router whose nodes also use prefixes of the networks it visits: advertised, routed past
//! the tunnel, and over at once at a move. Server, advertiser and dissector are other people's.

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails where it stands")]
#![allow(clippy::indexing_slicing, reason = "a test fails where it stands")]

mod road;

use road::capture::{Capture, Dissected};
use road::visit::{FIRST, POOR, SECOND, Visit};
use road::{Place, Road, Running, run, wait_for};
use std::net::Ipv6Addr;
use std::process::{Command, Stdio};
use std::time::Duration;

const PEER: &str = "2001:db8:9::9";
/// The node's identifier; `2001:db8:100::2` is its address in the mobile network.
const NODE: &str = "::2";
const HOME: &str = "2001:db8:100::2";
const SETTINGS: &str = "[mobile_router.care_of_prefixes]\nprefer = \"care-of\"\n";

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
    road.node.shell("ip -6 address flush dev eth0 scope global && ip -6 route del default");
    listen(&road.node);
    road.enroll(&[]);
    Some(road)
}

/// From now on the node hears advertisements.
fn listen(node: &Place) {
    node.shell(&format!("sysctl -qw net.ipv6.conf.eth0.accept_ra=1 && ip token set {NODE} dev eth0"));
}

/// The node's addresses that begin so: whether each is preferred.
fn addresses(node: &Place, begin: &str) -> Vec<(String, bool)> {
    let shown = node.shell("ip -6 -o address show dev eth0 scope global");
    let read = |line: &str| {
        let address = line.split_whitespace().nth(3)?.split_once('/')?.0.to_owned();
        Some((address, !line.contains("deprecated") && !line.contains("tentative")))
    };
    shown.lines().filter_map(read).filter(|(address, _)| address.starts_with(begin)).collect()
}

/// Waits until the node has a preferred address that begins so, and the peer answers it there.
fn await_address(node: &Place, begin: &str) -> String {
    let found = || addresses(node, begin).into_iter().find(|(_, preferred)| *preferred);
    wait_for(&format!("a preferred address in {begin}"), || found().is_some());
    let address = found().unwrap().0;
    wait_for(&format!("a way from {address}"), || reaches(node, &address));
    address
}

fn reaches(node: &Place, from: &str) -> bool {
    node.command(&["ping", "-nqc1", "-W1", "-I", from, PEER]).output().unwrap().status.success()
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
    let former = await_address(&road.node, "2001:db8:b1:");
    road.await_binding("2001:db8:2:");
    wait_for("a way from home", || reaches(&road.node, HOME));
    assert_eq!(addresses(&road.node, HOME), [(HOME.to_owned(), false)], "the direct path is preferred");
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
    await_address(&road.node, "2001:db8:b2:");
    assert_eq!(addresses(&road.node, &former), [(former.clone(), false)], "deprecated, not forgotten");
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
    let former = await_address(&road.node, "2001:db8:2:");
    wait_for("a way from home", || reaches(&road.node, HOME));
    let poor = visit.end();
    assert!(poor.count(&format!("icmpv6.type == 128 && ipv6.src == {former} && !(ipv6.nxt == 41)")) > 0);
    let answered = format!("icmpv6.type == 136 && icmpv6.nd.na.target_address == {former} && ipv6.dst != ff02::1");
    assert!(poor.count(&answered) > 0, "the router of the visited link found the node by proxy");

    let visit = Visit::begin(&road, &SECOND, "second");
    await_address(&road.node, "2001:db8:b2:");
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

/// The second mobile router rides in the first: its uplink is what was the node's interface.
const PASSENGER: &str = "
[mobile_router]
home_address = \"2001:db8:1::200\"
home_prefix = \"2001:db8:1::/64\"
home_agents = [\"2001:db8:1::1\"]
prefixes = [\"2001:db8:200::/56\"]
key_file = \"passenger.key\"
[mobile_router.care_of_prefixes]
prefer = \"care-of\"
[[mobile_router.uplink]]
interface = \"eth0\"
[[mobile_router.ingress]]
interface = \"in0\"
prefix = \"2001:db8:200::/64\"
";

/// The passenger's node: `2001:db8:200::2` is its address in the passenger's mobile network.
fn passenger(road: &Road) -> (Place, Running) {
    let node = Place::new().unwrap();
    road.node.shell(&format!(
        "ip -6 address flush dev eth0 scope global && ip token set :: dev eth0 && \
         ip link add in0 type veth peer name eth0 netns {} && ip link set in0 up",
        node.number()
    ));
    node.shell("sysctl -qw net.ipv6.conf.eth0.accept_dad=0 && ip link set eth0 up");
    listen(&node);
    road.enroll_another("2001:db8:1::200", "2001:db8:200::/56", "passenger.key");
    (node, road.node.roam6(&road.write_config("passenger", PASSENGER)))
}

#[test]
fn a_router_within_a_router_has_the_direct_path_too() {
    let Some(road) = road("a_router_within_a_router_has_the_direct_path_too") else { return };
    let (node, _passenger) = passenger(&road);
    let inside = Capture::begin(&road, &road.router, "in0", "inside");
    let _agent = road.start_agent();
    let _router = road.start_router(SETTINGS);
    let home = "2001:db8:200::2";

    let visit = Visit::begin(&road, &FIRST, "first");
    let former = await_address(&node, "2001:db8:b1:");
    wait_for("a way from the passenger's home", || reaches(&node, home));
    // The passenger's own care-of address is one of the visited network: one tunnel, not one within the other.
    road.await_binding("2001:db8:b1:");
    wait_for("the passenger's tunnel on the direct path", || reaches(&node, home));
    let first = visit.end();
    let direct = format!("icmpv6.type == 128 && ipv6.src == {former}");
    assert!(first.count(&format!("{direct} && !(ipv6.nxt == 41)")) > 0, "past both tunnels");
    assert_eq!(first.count(&format!("{direct} && ipv6.nxt == 41")), 0);
    let tunnelled = first.fields(&format!("icmpv6.type == 128 && ipv6.src == {home}"), &["ipv6.src"]);
    assert!(tunnelled.iter().any(|frame| frame[0].len() == 2 && frame[0][0].starts_with("2001:db8:b1:")));

    let visit = Visit::begin(&road, &SECOND, "second");
    let new = await_address(&node, "2001:db8:b2:");
    road.await_binding("2001:db8:b2:");
    wait_for("a way from the passenger's home after the move", || reaches(&node, home));
    assert!(addresses(&node, &former).iter().all(|(_, preferred)| !preferred), "{former} is over");
    let second = visit.end();
    assert!(second.count(&format!("icmpv6.type == 128 && ipv6.src == {new} && !(ipv6.nxt == 41)")) > 0);
    inside.end().check();
}
