//! `roam6 setup` on a VPS and `roam6 join` on a router, with Debian's defaults, answered as a person would: from nothing to
//! the first packet from a correspondent to a node inside.

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test fails at the assertion")]

mod testbed;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use testbed::machines::{Machine, advertise, cable};
use testbed::terminal::Terminal;
use testbed::{Namespace, Running, wait_or_report};

/// A firewall of a host that offers nothing: neighbours and answers only.
const FIREWALL: &str = "
table inet filter {
    chain input {
        type filter hook input priority filter; policy drop;
        iif lo accept
        ct state established,related accept
        meta l4proto ipv6-icmp accept
    }
}";

/// How the provider delivers prefixes to the VPS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Provider {
    /// A /56 to the link-local address of the VPS, which has an address of its first /64.
    Routed,
    /// An on-link /64 with the address of the VPS, and a /56 routed to that.
    OnLinkAndRouted,
    /// An on-link /64 with the address of the VPS, and one other /64 routed to that.
    OnLinkAndOne,
    /// An on-link /64, and nothing else.
    OnLink,
    /// An on-link network of 16 addresses, and nothing else.
    Narrow,
}

/// How the van is connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    Ipv6,
    /// IPv4 only, behind a NAT.
    Nat,
}

/// A provider with a VPS, a visited network with a van, a node in the van, and a correspondent.
struct Scene {
    internet: Namespace,
    vps: Machine,
    van: Machine,
    node: Namespace,
    correspondent: Namespace,
    _nat: Option<Namespace>,
    _radvd: Vec<Running>,
    _folder: TempDir,
}

/// An invitation that expired in 2023.
const EXPIRED: &str = "ROAM6:041020G30G2GC1R8CN9Z2010046VG00F0000000000000001400GVE0100000000000\
                       00000200KR8011PW02000200004K7000G40R40M30E209185GR38E1W8124GK0DV62VGFRCV8G";

const CORRESPONDENT: &str = "2001:db8:c::c";

impl Scene {
    /// `None`, with a word of why, where it cannot be built.
    fn new(test: &str, provider: Provider, access: Access) -> Option<Scene> {
        for program in ["radvd", "nft"] {
            if Command::new(program).arg("--version").output().is_err() {
                println!("skipped: {test}: {program} is missing");
                return None;
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let places = (Namespace::new(), Namespace::new(), Namespace::new());
        let machines = (Machine::new(folder.path(), "vps"), Machine::new(folder.path(), "van"));
        let ((Some(internet), Some(node), Some(correspondent)), (Some(vps), Some(van))) = (places, machines) else {
            println!("skipped: {test}: no network namespaces here (not root?)");
            return None;
        };
        cable(&internet, "vps0", &vps.place, "eth0");
        cable(&internet, "cn0", &correspondent, "eth0");
        cable(&van.place, "lan0", &node, "eth0");
        internet.shell(
            "sysctl -qw net.ipv6.conf.all.forwarding=1 net.ipv4.ip_forward=1 && ip address add 2001:db8:c::1/64 dev cn0 nodad",
        );
        correspondent.shell(&format!(
            "ip address add {CORRESPONDENT}/64 dev eth0 nodad && ip route add default via 2001:db8:c::1"
        ));
        node.shell("ip token set ::2 dev eth0");
        let mut radvd = vec![connect_vps(&internet, &vps, provider, &folder)];
        let nat = match access {
            Access::Ipv6 => {
                cable(&internet, "visit0", &van.place, "wlan0");
                internet.shell("ip address add 2001:db8:2::1/64 dev visit0 nodad");
                radvd.push(advertise(&internet, folder.path(), "visit0", "prefix 2001:db8:2::/64 { };"));
                None
            }
            Access::Nat => Some(connect_by_nat(&internet, &vps, &van)?),
        };
        vps.offer_service();
        van.offer_service();
        let (_radvd, _folder) = (radvd, folder);
        let scene = Scene { internet, vps, van, node, correspondent, _nat: nat, _radvd, _folder };
        for machine in [&scene.vps, &scene.van] {
            let family = if access == Access::Nat { "-4" } else { "-6" };
            let routed = || machine.says(&format!("ip {family} route"), "default via");
            wait_or_report("a default route", routed, || machine.story());
            machine.protect(FIREWALL);
        }
        let global = || scene.vps.says("ip -6 -o address show dev eth0 scope global -tentative", "2001:db8:");
        wait_or_report("the address of the VPS", global, || scene.vps.story());
        Some(scene)
    }

    fn story(&self) -> String {
        let routes = self.internet.shell("ip -6 neigh; ip -6 route");
        format!("VPS:\n{}\nvan:\n{}\ninternet:\n{routes}", self.vps.story(), self.van.story())
    }

    /// The node inside has an address of the mobile network, and a correspondent reaches it there.
    fn reach_node(&self, address: &str) {
        let ready = || {
            let shown = self.node.shell("ip -6 -o address show dev eth0 scope global; ip -6 route show default");
            shown.contains(&format!("{address}/64")) && !shown.contains("tentative") && shown.contains("default via")
        };
        wait_or_report("the node has an address and a default route", ready, || self.story());
        let ping = self.correspondent.ping(30, "56", address);
        assert!(ping.contains("1 received"), "{ping}\n{}", self.story());
        self.reach_from_van();
    }

    /// The van's own programs reach the correspondent.
    fn reach_from_van(&self) {
        let ping = self.van.place.ping(30, "56", CORRESPONDENT);
        assert!(ping.contains("1 received"), "the van itself: {ping}\n{}", self.story());
    }

    /// `setup` and `join` without a question.
    fn script(&mut self, setup: &str, join: &str) -> (String, String) {
        let setup = format!("roam6 setup {setup} --yes --qr none");
        let (done, printed) = Terminal::start(self.vps.command(&setup)).end(|| self.vps.serve());
        assert!(done, "{printed}\n{}", self.story());
        open_firewall(&self.vps, &printed);
        self.van.write("/root/van.txt", &copied(&printed), "true");
        let join = format!("roam6 join --file van.txt {join} --yes");
        let (done, joined) = Terminal::start(self.van.command(&join)).end(|| self.van.serve());
        assert!(done, "{joined}\n{}", self.story());
        (printed, joined)
    }
}

fn connect_vps(internet: &Namespace, vps: &Machine, provider: Provider, folder: &TempDir) -> Running {
    let (network, own, delivery) = match provider {
        Provider::Routed => ("2001:db8:100::/64", "2001:db8:100::1", "via fe80::7 dev vps0"),
        Provider::OnLinkAndRouted | Provider::OnLinkAndOne => ("2001:db8:f::/64", "2001:db8:f::1", "via 2001:db8:f::1"),
        Provider::OnLink | Provider::Narrow => ("2001:db8:f::/64", "2001:db8:f::1", ""),
    };
    let length = if provider == Provider::Narrow { 124 } else { 64 };
    let network = network.replace("/64", &format!("/{length}"));
    let gateway = if length == 64 { network.replace("::/64", "::ffff/64") } else { "2001:db8:f::f/124".to_owned() };
    if provider != Provider::Routed {
        internet.shell(&format!("ip address add {gateway} dev vps0 nodad"));
    }
    if !delivery.is_empty() {
        let length = if provider == Provider::OnLinkAndOne { 64 } else { 56 };
        internet.shell(&format!("ip route add 2001:db8:100::/{length} {delivery}"));
    }
    vps.place.shell(&format!("ip address add fe80::7/64 dev eth0 nodad && ip address add {own}/{length} dev eth0"));
    advertise(internet, folder.path(), "vps0", &format!("prefix {network} {{ AdvAutonomous off; }};"))
}

/// The VPS has an IPv4 address, the van one behind a NAT, and no IPv6.
fn connect_by_nat(internet: &Namespace, vps: &Machine, van: &Machine) -> Option<Namespace> {
    let nat = Namespace::new()?;
    cable(internet, "isp0", &nat, "out0");
    cable(&nat, "lan0", &van.place, "wwan0");
    internet.shell("ip address add 203.0.113.254/24 dev vps0 && ip address add 198.51.100.1/24 dev isp0");
    vps.place.shell("ip address add 203.0.113.1/24 dev eth0 && ip route add default via 203.0.113.254");
    nat.shell(
        "sysctl -qw net.ipv4.ip_forward=1 && ip address add 198.51.100.2/24 dev out0 && \
         ip route add default via 198.51.100.1 && ip address add 10.0.0.1/24 dev lan0 && nft 'table ip nat { chain post { \
         type nat hook postrouting priority 100; oifname \"out0\" masquerade fully-random; }; }'",
    );
    van.place.shell("ip address add 10.0.0.2/24 dev wwan0 && ip route add default via 10.0.0.1");
    Some(nat)
}

/// The rules that `roam6 setup` has printed, as the operator enters them.
fn open_firewall(vps: &Machine, printed: &str) {
    let rules: Vec<&str> = printed.lines().map(str::trim).filter(|line| line.starts_with("nft ")).collect();
    assert!(!rules.is_empty(), "{printed}");
    for rule in rules {
        vps.shell(&rule.replace('{', "'{").replace('}', "}'"));
    }
}

/// The invitation, as a person copies it from the terminal, over several lines.
fn copied(printed: &str) -> String {
    let begin = printed.find("ROAM6:").expect("an invitation");
    let block = printed[begin..].split("\r\n\r\n").next().unwrap();
    block.lines().map(str::trim).collect::<Vec<_>>().join("\n")
}

/// What `setup` and `join` write and set is the same before and after.
fn digest(machine: &Machine) -> String {
    machine.shell(
        "find /etc -type f | sort | xargs sha256sum; grep -r . /proc/sys/net/ipv6/conf 2>/dev/null | sort | sha256sum",
    )
}

#[test]
fn a_person_sets_up_a_vps_with_a_routed_prefix_and_joins() {
    let test = "a_person_sets_up_a_vps_with_a_routed_prefix_and_joins";
    let Some(mut scene) = Scene::new(test, Provider::Routed, Access::Ipv6) else { return };
    let mut answers = 0;
    let mut machine_time = Duration::ZERO;

    let begun = Instant::now();
    let mut terminal = Terminal::start(scene.vps.command("roam6 setup --qr ascii"));
    terminal.expect("Routed prefix: 2001:db8:100::/56", || {});
    terminal.expect("1. Prefix for mobile networks [2001:db8:100::/56]: ", || {});
    terminal.answer("2001:db8:1::/32");
    terminal.expect("bits are set beyond the prefix length", || {});
    terminal.expect("1. Prefix for mobile networks [2001:db8:100::/56]: ", || {});
    terminal.answer("");
    terminal.expect("2. Name of the first mobile router [van]: ", || {});
    terminal.answer("");
    terminal.expect("3. Write the files and start roam6? [y]: ", || {});
    terminal.answer("y");
    answers += terminal.answers - 1;
    let (done, printed) = terminal.end(|| scene.vps.serve());
    assert!(done, "{printed}\n{}", scene.story());
    machine_time += begun.elapsed();
    assert!(printed.contains("ready: home agent 2001:db8:100::1"), "{printed}");
    assert!(printed.contains("Invitation for van: 2001:db8:100:10::/60"), "{printed}");
    assert!(printed.lines().filter(|line| line.contains("####")).count() > 20, "a QR code: {printed}");
    open_firewall(&scene.vps, &printed);

    let begun = Instant::now();
    let mut terminal = Terminal::start(scene.van.command("roam6 join"));
    terminal.expect("Invitation (not shown): ", || {});
    let invitation = copied(&printed);
    assert!(invitation.lines().count() > 2, "{invitation}");
    terminal.answer(&invitation);
    terminal.expect("1. Uplinks, the preferred first [wlan0]: ", || {});
    assert!(!terminal.seen().contains("ROAM6:"), "the invitation is not shown: {}", terminal.seen());
    terminal.answer("");
    terminal.expect("2. Inside: interface and its /64, or none [lan0 2001:db8:100:10::/64]: ", || {});
    terminal.answer("");
    terminal.expect("3. Write /etc/roam6/roam6.toml and mr.key, and start roam6? [y]: ", || {});
    terminal.answer("");
    answers += terminal.answers - 1;
    let (done, joined) = terminal.end(|| scene.van.serve());
    machine_time += begun.elapsed();
    assert!(done, "{joined}\n{}", scene.story());
    assert!(joined.contains("first packet through the tunnel after"), "{joined}");
    assert!(answers <= 6, "{answers} answers");
    assert!(machine_time <= Duration::from_secs(60), "{machine_time:?}\n{printed}{joined}");
    println!("{test}: {machine_time:?}\n{printed}{joined}");
    scene.reach_node("2001:db8:100:10::2");
    let bound = || scene.vps.says("roam6 invitations", "bound");
    wait_or_report("the invitation is used", bound, || scene.story());

    run_again_without_effect(&scene);
    // Revoked, the binding ends at once.
    scene.vps.shell("roam6 revoke van");
    let unbound = || scene.vps.says("roam6 show bindings", "none");
    wait_or_report("the binding ends", unbound, || scene.story());
}

/// A second run changes nothing.
fn run_again_without_effect(scene: &Scene) {
    for (machine, command) in [(&scene.vps, "roam6 setup --yes"), (&scene.van, "roam6 join --yes")] {
        let before = digest(machine);
        let again = machine.command(command).stdin(Stdio::null()).output().unwrap();
        assert_eq!(again.status.code(), Some(1), "{command}");
        let why = String::from_utf8_lossy(&again.stderr);
        assert!(why.contains("already set up: /etc/roam6/roam6.toml"), "{why}");
        assert_eq!(digest(machine), before, "{command}");
    }
}

#[test]
fn an_invitation_is_used_once_and_its_key_rolls_over() {
    let test = "an_invitation_is_used_once_and_its_key_rolls_over";
    let Some(mut scene) = Scene::new(test, Provider::OnLinkAndRouted, Access::Ipv6) else { return };
    let (printed, _) = scene.script("--prefix 2001:db8:100::/56 --name van", "");
    let node = "2001:db8:100:10::2";
    scene.reach_node(node);
    let used =
        || scene.vps.says("roam6 invitations --json", "\"used_unix\"") && scene.vps.says("roam6 invitations", "bound");
    wait_or_report("the key of the invitation is exchanged", used, || scene.story());

    let ping = ["ping", "-6", "-q", "-i", "0.02", "-c", "150", node];
    let ping = scene.correspondent.command(&ping).stdout(Stdio::piped()).spawn().unwrap();
    let exchanged = scene.van.command("roam6 rekey").output().unwrap();
    assert!(String::from_utf8_lossy(&exchanged.stdout).contains("key exchanged"), "{exchanged:?}\n{}", scene.story());
    let lost = String::from_utf8(ping.wait_with_output().unwrap().stdout).unwrap();
    assert!(lost.contains("150 received"), "{lost}");
    // Both ends show the same fingerprint.
    let status = scene.van.command("roam6 status").output().unwrap();
    let status = String::from_utf8(status.stdout).unwrap();
    let fingerprint = status.lines().find_map(|line| line.trim().strip_prefix("key ")?.strip_suffix(", exchanged"));
    let fingerprint = fingerprint.unwrap_or_else(|| panic!("{status}"));
    assert!(scene.vps.says("roam6 show bindings", fingerprint), "{fingerprint}\n{}", scene.story());
    let early = scene.van.command("roam6 rekey").output().unwrap();
    assert!(String::from_utf8_lossy(&early.stderr).contains("less than a minute"), "{early:?}");

    // A copy of the text on another device, which sees the network as the first one did.
    scene.van.daemon = None;
    scene.van.shell("mv /etc/roam6 /root/own && mv /var/lib/roam6 /root/state && rm /run/started");
    let copy = copied(&printed).replace('\n', " ");
    scene.van.write("/root/copy.txt", &copy, "true");
    let (done, said) =
        Terminal::start(scene.van.command("roam6 join --file copy.txt --yes --wait 15s")).end(|| scene.van.serve());
    assert!(!done && said.contains("used before"), "{said}\n{}", scene.story());

    scene.van.daemon = None;
    scene.van.shell("rm -r /etc/roam6 /var/lib/roam6 && mv /root/own /etc/roam6 && mv /root/state /var/lib/roam6");
    scene.van.serve();
    let bound = || scene.van.says("roam6 show bindings", "bound");
    wait_or_report("the owner's device is bound again", bound, || scene.story());
    scene.reach_node(node);
}

#[test]
fn a_script_sets_up_a_vps_with_an_on_link_network_and_a_routed_prefix() {
    let test = "a_script_sets_up_a_vps_with_an_on_link_network_and_a_routed_prefix";
    let Some(mut scene) = Scene::new(test, Provider::OnLinkAndRouted, Access::Ipv6) else { return };
    let begun = Instant::now();
    let questions = scene.vps.command("roam6 setup").stdin(Stdio::null()).output().unwrap();
    assert_eq!(questions.status.code(), Some(2), "nobody answers");
    assert!(String::from_utf8_lossy(&questions.stderr).contains("--prefix"), "{questions:?}");
    assert!(!scene.vps.path("/etc/roam6").exists());

    let setup = "roam6 setup --prefix 2001:db8:100::/56 --name van --yes --json > /root/setup.json";
    let terminal = Terminal::start(scene.vps.command(setup));
    let (done, said) = terminal.end(|| scene.vps.serve());
    assert!(done, "{said}\n{}", scene.story());
    assert!(said.contains("2001:db8:100::/56 is routed to this host"), "{said}");
    let setup: serde_json::Value = serde_json::from_str(&scene.vps.shell("cat setup.json")).unwrap();
    assert_eq!(setup["schema"], 1);
    assert_eq!(setup["invitation"]["prefixes"][0], "2001:db8:100:10::/60");
    let rules = setup["firewall"].as_array().unwrap().iter().map(|rule| rule.as_str().unwrap());
    open_firewall(&scene.vps, &rules.collect::<Vec<_>>().join("\n"));

    let invitation = setup["invitation"]["text"].as_str().unwrap();
    let damaged = invitation.replace("ROAM6:04", "ROAM6:05");
    for (text, word) in [(damaged.as_str(), "a letter of the invitation is wrong"), (EXPIRED, "expired at 2023-11-14")]
    {
        let refused = scene.van.command(&format!("roam6 join {text} --yes")).stdin(Stdio::null()).output().unwrap();
        assert!(String::from_utf8_lossy(&refused.stderr).contains(word), "{refused:?}");
        assert!(!scene.van.path("/etc/roam6").exists());
    }

    scene.van.write("/root/van.txt", invitation, "true");
    let join = "roam6 join --file van.txt --yes --json > /root/join.json";
    let (done, said) = Terminal::start(scene.van.command(join)).end(|| scene.van.serve());
    assert!(done, "{said}\n{}", scene.story());
    let join: serde_json::Value = serde_json::from_str(&scene.van.shell("cat join.json")).unwrap();
    assert!(join["bound_s"].as_f64().unwrap() <= join["first_packet_s"].as_f64().unwrap(), "{join}");
    assert!(begun.elapsed() <= Duration::from_secs(60), "{:?}", begun.elapsed());
    println!("{test}: {:?} {join}", begun.elapsed());
    scene.reach_node("2001:db8:100:10::2");
    join_with_a_revoked_invitation(&mut scene);
}

/// The home agent knows nothing of it any more.
fn join_with_a_revoked_invitation(scene: &mut Scene) {
    let bus: serde_json::Value = serde_json::from_str(&scene.vps.shell("roam6 invite bus --json")).unwrap();
    scene.vps.shell("roam6 revoke bus");
    scene.van.daemon = None;
    scene.van.shell("rm -r /etc/roam6 /run/started");
    let join = format!("roam6 join {} --yes --wait 3s", bus["invitation"]["text"].as_str().unwrap());
    let (done, said) = Terminal::start(scene.van.command(&join)).end(|| scene.van.serve());
    assert!(!done && said.contains("not registered within 3s: "), "{said}\n{}", scene.story());
}

#[test]
fn a_van_with_ipv4_behind_a_nat_joins() {
    let test = "a_van_with_ipv4_behind_a_nat_joins";
    let Some(mut scene) = Scene::new(test, Provider::OnLinkAndRouted, Access::Nat) else { return };
    let begun = Instant::now();
    let setup = "roam6 setup --prefix 2001:db8:100::/56 --yes --qr none";
    let (done, printed) = Terminal::start(scene.vps.command(setup)).end(|| scene.vps.serve());
    assert!(done, "{printed}\n{}", scene.story());
    open_firewall(&scene.vps, &printed);
    let mut terminal = Terminal::start(scene.van.command("roam6 join --metered wwan0"));
    terminal.expect("Invitation (not shown): ", || {});
    terminal.answer(&copied(&printed));
    terminal.expect("1. Uplinks, the preferred first [wwan0]: ", || {});
    terminal.answer("");
    terminal.expect("2. Inside", || {});
    terminal.answer("");
    terminal.expect("3. Write", || {});
    terminal.answer("");
    let (done, joined) = terminal.end(|| scene.van.serve());
    assert!(done, "{joined}\n{}", scene.story());
    assert!(joined.contains("first packet through the tunnel after"), "{joined}");
    assert!(begun.elapsed() <= Duration::from_secs(60), "{:?}", begun.elapsed());
    println!("{test}: {:?}\n{joined}", begun.elapsed());
    scene.reach_node("2001:db8:100:10::2");
}

/// Its home network has unique local addresses.
#[test]
fn a_single_routed_64_is_the_network_of_one_van() {
    let test = "a_single_routed_64_is_the_network_of_one_van";
    let Some(mut scene) = Scene::new(test, Provider::OnLinkAndOne, Access::Ipv6) else { return };
    let (printed, joined) = scene.script("--prefix 2001:db8:100::/64", "");
    assert!(
        printed.contains("home network fd") && printed.contains("Invitation for van: 2001:db8:100::/64"),
        "{printed}"
    );
    println!("{test}: {printed}{joined}");
    scene.reach_node("2001:db8:100::2");
}

/// The home agent answers for the addresses of the van on the link of the VPS.
#[test]
fn an_on_link_64_is_the_network_of_one_van() {
    let test = "an_on_link_64_is_the_network_of_one_van";
    let Some(mut scene) = Scene::new(test, Provider::OnLink, Access::Ipv6) else { return };
    let begun = Instant::now();
    let mut terminal = Terminal::start(scene.vps.command("roam6 setup --qr none"));
    terminal.expect("2001:db8:f::/64 is on-link, and can be the network of one mobile router", || {});
    terminal.expect("1. Prefix for mobile networks [2001:db8:f::/64]: ", || {});
    terminal.answer("");
    terminal.expect("2. Name of the first mobile router [van]: ", || {});
    terminal.answer("");
    terminal.expect("3. Write the files and start roam6? [y]: ", || {});
    terminal.answer("");
    let answers = terminal.answers;
    let (done, printed) = terminal.end(|| scene.vps.serve());
    assert!(done, "{printed}\n{}", scene.story());
    assert!(printed.contains("Invitation for van: 2001:db8:f::/64"), "{printed}");
    open_firewall(&scene.vps, &printed);
    let mut terminal = Terminal::start(scene.van.command("roam6 join"));
    terminal.expect("Invitation (not shown): ", || {});
    terminal.answer(&copied(&printed));
    for question in ["1. Uplinks", "2. Inside: interface and its /64, or none [lan0 2001:db8:f::/64]", "3. Write"] {
        terminal.expect(question, || {});
        terminal.answer("");
    }
    let answers = answers + terminal.answers - 1;
    let (done, joined) = terminal.end(|| scene.van.serve());
    assert!(done, "{joined}\n{}", scene.story());
    assert!(begun.elapsed() <= Duration::from_secs(60) && answers <= 6, "{:?}, {answers} answers", begun.elapsed());
    println!("{test}: {:?}\n{printed}{joined}", begun.elapsed());
    scene.reach_node("2001:db8:f::2");
    // The VPS and the provider's router keep their addresses, and a second van finds no prefix.
    for own in ["2001:db8:f::1", "2001:db8:f::ffff"] {
        let ping = scene.correspondent.ping(30, "56", own);
        assert!(ping.contains("1 received"), "{own}: {ping}\n{}", scene.story());
    }
    let second = scene.vps.command("roam6 invite bus").stdin(Stdio::null()).output().unwrap();
    assert!(String::from_utf8_lossy(&second.stderr).contains("is left in the pool"), "{second:?}");
    let examined = scene.vps.command("roam6 doctor").output().unwrap();
    assert!(examined.status.success(), "{}", String::from_utf8_lossy(&examined.stdout));
}

#[test]
fn a_laptop_joins_with_nothing_inside() {
    let test = "a_laptop_joins_with_nothing_inside";
    let Some(mut scene) = Scene::new(test, Provider::Routed, Access::Ipv6) else { return };
    let (_, joined) = scene.script("--name laptop", "--no-inside --uplink wlan0");
    assert!(joined.contains("first packet through the tunnel after"), "{joined}");
    scene.reach_from_van();
}

#[test]
fn what_is_missing_is_said_and_nothing_is_written() {
    let test = "what_is_missing_is_said_and_nothing_is_written";
    let Some(mut scene) = Scene::new(test, Provider::Narrow, Access::Ipv6) else { return };
    // The network of the VPS itself, a longer one, another one, which the provider does not route, and none.
    for (flags, word) in [
        ("--prefix 2001:db8:f::/124", "is no IPv6 prefix of 16 to 64 bits"),
        ("--prefix 2001:db8:f::/64", "is not routed to this host"),
        ("--prefix 2001:db8:100::/56", "is not routed to this host"),
        ("", "nothing suits"),
    ] {
        let setup = scene.vps.command(&format!("roam6 setup {flags} --yes")).stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&[setup.stdout, setup.stderr].concat()).into_owned();
        assert!(!setup.status.success() && said.contains(word), "{flags}: {said}");
        assert!(said.contains("Ask the provider to route a prefix"), "{said}");
        assert!(!scene.vps.path("/etc/roam6").exists(), "{flags}");
    }
    // A van that reaches no home agent names what its uplink lacks.
    let settings =
        "[home_agent]\naddress = \"2001:db8:f::1\"\nhome_prefixes = [\"2001:db8:7::/64\"]\nprefix_table = \"m.toml\"\n";
    scene.vps.write("/root/ha.toml", settings, "true");
    let invite = "roam6 invite van --config /root/ha.toml --prefix 2001:db8:8::/56 --qr none --json";
    let invited: serde_json::Value = serde_json::from_str(&scene.vps.shell(invite)).unwrap();
    let text = invited["invitation"]["text"].as_str().unwrap();
    scene.internet.shell("ip link set visit0 down");
    let join = format!("roam6 join {text} --uplink wlan0 --inside lan0=2001:db8:8:1::/64 --yes --wait 2s");
    let (done, said) = Terminal::start(scene.van.command(&join)).end(|| scene.van.serve());
    assert!(!done && said.contains("not registered within 2s: wlan0 has no carrier"), "{said}\n{}", scene.story());
    assert!(said.contains("Cure: is the cable plugged in"), "{said}");
    assert!(scene.van.path("/etc/roam6/mr.key").exists(), "the service keeps trying");
}
