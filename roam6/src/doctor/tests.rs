//! Each fault alone, in the facts of a healthy system: the first finding names it. All input is plain values.

use super::facts::{DaemonAbsence, Facts, HostFacts, Probes};
use super::{Level, diagnose, to_json, to_text};
use crate::config::{self, Config};
use crate::control::NodeState;
use core::time::Duration;
use roam6_linux::probe::{Answer, Hairpin, IcmpError};
use roam6_linux::survey::{
    Address, ClockState, Interface, InterfaceKind, Neighbour, Route, RouteKind, RouteOrigin, WifiMode,
};
use roam6_proto::View;
use roam6_proto::contract::config::nemo::{Encryption, EncryptionMethod, SharedPrefix};
use roam6_proto::contract::input::AddressState;
use roam6_proto::contract::view::{
    BindingRole, BindingState, BindingView, FaultKind, LinkRole, LinkState, LinkView, PathState, TunnelView,
};
use roam6_wire::{Bid, HomeAddress, Sequence};
use std::net::Ipv6Addr;

const AGENT: &str = "2001:db8:f::1";
const HOME: &str = "2001:db8:100::10";
const CARE_OF: &str = "2001:db8:a::5";
const ROUTER_FILE: &str = r#"
[mobile_router]
home_address = "2001:db8:100::10"
home_prefix = "2001:db8:100::/64"
home = "virtual"
home_agents = ["2001:db8:f::1"]
prefixes = ["2001:db8:100:10::/60"]
auth = "none"

[[mobile_router.uplink]]
interface = "wwan0"

[[mobile_router.uplink]]
interface = "wlan0"

[[mobile_router.ingress]]
interface = "lan0"
prefix = "2001:db8:100:10::/64"
dns = ["2001:db8:f::53"]
"#;
const AGENT_FILE: &str = r#"
[home_agent]
address = "2001:db8:f::1"
home_prefixes = ["2001:db8:100::/64"]

[home_agent.ipv4]
address = "203.0.113.1"

[[home_agent.mobile]]
home_address = "2001:db8:100::10"
prefixes = ["2001:db8:100:10::/60"]
spi = 256
key = "000102030405060708090a0b0c0d0e0f"
"#;

fn ip(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

fn config(text: &str) -> Config {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("roam6.toml");
    std::fs::write(&file, text).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    config::load(&file).unwrap_or_else(|problems| panic!("{}", problems[0]))
}

fn interface(index: u32, name: &str, kind: InterfaceKind) -> Interface {
    let name = name.to_owned();
    Interface { index, name, kind, up: true, carrier: true, mtu: 1500, master: None, link_address: None }
}

fn address(interface: u32, text: &str, length: u8) -> Address {
    let prefix = roam6_wire::Prefix::new(ip(text), length).unwrap_or(roam6_wire::Prefix::host(ip(text)));
    Address { interface, address: ip(text), prefix, state: AddressState::Preferred }
}

fn link(name: &str, role: LinkRole, state: LinkState) -> LinkView {
    LinkView {
        name: name.to_owned(),
        role,
        up: true,
        mtu: 1500,
        router: None,
        addresses: vec![ip(CARE_OF)],
        bid: None,
        changed: None,
        state,
        fault: None,
        fault_status: None,
        last_error: None,
        error_age: None,
        quality: None,
        usage: None,
        transport: None,
        hints: Vec::new(),
    }
}

fn binding(role: BindingRole) -> BindingView {
    BindingView {
        role,
        home_address: HomeAddress(ip(HOME)),
        name: None,
        bid: Bid(1),
        care_of: Some(ip(CARE_OF)),
        udp_port: None,
        home_agent: ip(AGENT),
        prefixes: vec!["2001:db8:100:10::/60".parse().unwrap()],
        sequence: Sequence(7),
        remaining: Duration::from_secs(400),
        state: BindingState::Bound,
        changed: None,
        refused_prefixes: Vec::new(),
        fault: None,
        fault_status: None,
        last_error: None,
        error_age: None,
        key: None,
    }
}

fn reply() -> Answer {
    Answer::Reply(Duration::from_millis(48))
}

fn says(icmp_type: u8, code: u8) -> Answer {
    Answer::Error(IcmpError { from: Some("2001:db8:99::1".parse().unwrap()), icmp_type, code, v6: true })
}

fn state(view: View) -> NodeState {
    NodeState { name: "van".to_owned(), version: "1".to_owned(), at: 300_000_000, view, ..NodeState::default() }
}

fn default_route(interface: u32) -> Route {
    Route {
        destination: roam6_wire::Prefix::ALL,
        via: Some(ip("fe80::1")),
        interface: Some(interface),
        metric: 1024,
        origin: RouteOrigin::RouterAdvertisement,
        kind: RouteKind::Unicast,
        table: 254,
        mtu: None,
    }
}

fn host(interfaces: Vec<Interface>) -> HostFacts {
    HostFacts {
        interfaces,
        forwards: true,
        has_ip6_tunnel: true,
        clock: Some(ClockState { unix: 1_800_000_000, synchronised: true }),
        ..HostFacts::default()
    }
}

fn facts(text: &str, view: View, host: HostFacts, probes: Probes) -> Facts {
    Facts {
        file: "roam6.toml".to_owned(),
        config: Ok(config(text)),
        file_changed_unix: Some(1_700_000_000),
        daemon: Ok(state(view)),
        host,
        probes: Some(probes),
    }
}

/// A mobile router whose modem carries traffic, with a Wi-Fi network in reserve.
fn router() -> Facts {
    let view = View {
        links: vec![
            link("wwan0", LinkRole::Uplink, LinkState::Visited),
            link("wlan0", LinkRole::Uplink, LinkState::Down),
            link("lan0", LinkRole::Ingress, LinkState::Advertising),
        ],
        bindings: vec![binding(BindingRole::MobileRouter)],
        tunnels: vec![TunnelView {
            tunnel: 0,
            bid: Bid(1),
            local: ip(CARE_OF),
            remote: ip(AGENT),
            mtu: 1460,
            weight: 1,
            far: Vec::new(),
            state: PathState::Up,
            changed: None,
            link: None,
            quality: None,
            traffic: None,
        }],
        ..View::default()
    };
    let wlan0 = Interface { carrier: false, ..interface(3, "wlan0", InterfaceKind::Wifi(WifiMode::Client)) };
    let interfaces = vec![
        interface(1, "lo", InterfaceKind::Loopback),
        interface(2, "wwan0", InterfaceKind::Modem),
        wlan0,
        interface(4, "lan0", InterfaceKind::Ethernet),
    ];
    let inside = Neighbour { interface: 4, address: ip("2001:db8:100:10::7"), link_address: None, reachable: true };
    let host = HostFacts {
        addresses: vec![address(2, CARE_OF, 64), address(4, "2001:db8:100:10::1", 64)],
        neighbours: vec![inside],
        ..host(interfaces)
    };
    let probes = Probes {
        inner: Some(reply()),
        inner_full: Some((1460, reply())),
        resolvers: vec![(ip("2001:db8:f::53"), reply())],
        ..Probes::default()
    };
    facts(ROUTER_FILE, view, host, probes)
}

/// A home agent with one mobile router, bound.
fn agent() -> Facts {
    let view = View { bindings: vec![binding(BindingRole::HomeAgent)], ..View::default() };
    let interfaces = vec![interface(1, "lo", InterfaceKind::Loopback), interface(2, "eth0", InterfaceKind::Ethernet)];
    let host = HostFacts {
        addresses: vec![address(2, AGENT, 64), address(2, "::ffff:203.0.113.1", 120)],
        routes: vec![default_route(2)],
        state_space: Some(Ok(1 << 30)),
        ..host(interfaces)
    };
    facts(AGENT_FILE, view, host, Probes { own_mobility: Some(Answer::Silence), ..Probes::default() })
}

fn view(facts: &mut Facts) -> &mut View {
    &mut facts.daemon.as_mut().unwrap().view
}

fn probes(facts: &mut Facts) -> &mut Probes {
    facts.probes.as_mut().unwrap()
}

/// The first uplink in this state, with the other without a carrier.
fn uplink(facts: &mut Facts, state: LinkState) -> &mut LinkView {
    let view = view(facts);
    view.bindings.clear();
    view.links[0].state = state;
    &mut view.links[0]
}

/// The same.
fn leave(facts: &mut Facts, state: LinkState) {
    uplink(facts, state);
}

/// Updates of the first uplink fail like this.
fn unbound(facts: &mut Facts, kind: FaultKind, status: Option<u8>) {
    uplink(facts, LinkState::Registering);
    let why = "updates are not answered".to_owned();
    view(facts).bindings = vec![BindingView {
        state: BindingState::Registering,
        fault: Some(kind),
        fault_status: status,
        last_error: Some(why),
        error_age: Some(Duration::from_secs(20)),
        ..binding(BindingRole::MobileRouter)
    }];
    *probes(facts) = Probes::default();
}

/// The same, with the answers to a ping and to a mobility header.
fn unanswered(facts: &mut Facts, ping: Answer, header: Answer) {
    let kind = if ping.is_reply() { FaultKind::UnansweredPinged } else { FaultKind::Unreachable };
    unbound(facts, kind, None);
    probes(facts).echoes = vec![("wwan0".to_owned(), ip(AGENT), ping)];
    probes(facts).mobility = vec![("wwan0".to_owned(), ip(AGENT), header)];
}

/// A fault: the check that names it, a part of its text, and how it comes about.
type Case = (&'static str, &'static str, fn(&mut Facts));

/// What is changed, and how.
type Change = (&'static str, fn(&mut Facts));

const AT_THE_ROUTER: &[Case] = &[
    ("agent.row", "does not know", |facts| {
        // The row was removed while the mobile router was bound.
        view(facts).bindings[0].fault = Some(FaultKind::UnansweredPinged);
        view(facts).links[0].fault = Some(FaultKind::TunnelSilent);
        view(facts).links[0].error_age = Some(Duration::from_secs(20));
        *probes(facts) = Probes { inner: Some(Answer::Silence), ..Probes::default() };
        probes(facts).mobility = vec![("wwan0".to_owned(), ip(AGENT), reply())];
    }),
    ("agent.stolen", "another mobile router registers 2001:db8:100::10", |facts| {
        view(facts).bindings[0].fault = Some(FaultKind::Stolen);
        view(facts).links[0].fault = Some(FaultKind::TunnelSilent);
        view(facts).links[0].error_age = Some(Duration::from_secs(20));
    }),
    ("config.file", "no such key", |facts| {
        facts.config = Err(vec![("roam6.toml:3:1: no such key".into(), "hint".into())])
    }),
    ("config.key", "mr.key", |facts| {
        facts.config = Err(vec![("/etc/roam6/mr.key: cannot be read".into(), "hint".into())])
    }),
    ("daemon.running", "systemd: failed, exit status 2", |facts| {
        let service = Some("failed, exit status 2".to_owned());
        facts.daemon = Err(DaemonAbsence { service, ..DaemonAbsence::default() });
    }),
    ("daemon.running", "another roam6 (process 77)", |facts| {
        facts.daemon = Err(DaemonAbsence { others: vec![77], ..DaemonAbsence::default() });
    }),
    ("daemon.running", "IPv6 is disabled", |facts| {
        facts.daemon = Err(DaemonAbsence { lacks_ipv6: true, ..DaemonAbsence::default() });
    }),
    ("daemon.data-plane", "ip6_tunnel", |facts| {
        facts.config.as_mut().unwrap().data_plane = crate::config::DataPlane::Ip6tnl;
        facts.host.has_ip6_tunnel = false;
        facts.daemon = Err(DaemonAbsence::default());
    }),
    ("uplink.interface", "did you mean wwan0?", |facts| {
        facts.config.as_mut().unwrap().mobile_router.as_mut().unwrap().uplinks[0].interface = "wann0".to_owned();
        uplink(facts, LinkState::NoInterface).name = "wann0".to_owned();
    }),
    ("uplink.carrier", "wwan0 has no carrier", |facts| leave(facts, LinkState::Down)),
    ("uplink.carrier", "wwan0 is down", |facts| {
        facts.host.interfaces[1].up = false;
        uplink(facts, LinkState::Down);
    }),
    ("uplink.carrier", "switched off by rfkill", |facts| {
        facts.host.radio_blocked = true;
        facts.host.interfaces[1].kind = InterfaceKind::Wifi(WifiMode::Client);
        uplink(facts, LinkState::Down);
    }),
    ("uplink.router", "no router answers", |facts| leave(facts, LinkState::NoRouter)),
    ("uplink.ipv4-only", "IPv4 only", |facts| {
        facts.host.addresses.push(address(2, "::ffff:10.0.0.7", 120));
        uplink(facts, LinkState::NoRouter);
    }),
    ("uplink.ipv4-only", "IPv4 only", |facts| leave(facts, LinkState::NoIpv4HomeAgent)),
    ("uplink.address", "neither a prefix", |facts| leave(facts, LinkState::RouterWithoutPrefix)),
    ("uplink.address", "no server answers", |facts| leave(facts, LinkState::WaitingForDhcpv6)),
    ("uplink.address", "duplicate address", |facts| {
        facts.host.addresses[0].state = AddressState::DadFailed;
        uplink(facts, LinkState::NoAddress);
    }),
    ("uplink.portal", "http://login.example", |facts| {
        let url = "the network has a captive portal: http://login.example".to_owned();
        unanswered(facts, Answer::Silence, Answer::Silence);
        view(facts).links[0].hints = vec![url];
    }),
    ("uplink.portal", "any web page", |facts| {
        unanswered(facts, Answer::Silence, Answer::Silence);
        probes(facts).portals = vec![("wwan0".to_owned(), None)];
    }),
    ("agent.reach", "2001:db8:99::1 says: no route", |facts| unanswered(facts, says(1, 0), says(1, 0))),
    ("agent.reach", "does not answer on any uplink", |facts| unanswered(facts, Answer::Silence, Answer::Silence)),
    ("agent.reach", "others answer", |facts| {
        unanswered(facts, Answer::Silence, Answer::Silence);
        probes(facts).echoes.push(("wwan0".to_owned(), ip("2001:db8:f::2"), reply()));
    }),
    ("path.135", "pings by wwan0 are answered", |facts| unanswered(facts, reply(), Answer::Silence)),
    ("path.135", "2001:db8:99::1 says so", |facts| unanswered(facts, reply(), says(1, 1))),
    ("path.135", "filtered", |facts| unbound(facts, FaultKind::Prohibited, None)),
    ("firewall.output", "protocol 135", |facts| unanswered(facts, reply(), Answer::NotPermitted)),
    ("agent.none", "no home agent runs at 2001:db8:f::1", |facts| unanswered(facts, reply(), says(4, 1))),
    ("agent.none", "no home agent runs", |facts| unbound(facts, FaultKind::NoHomeAgent, None)),
    ("path.udp", "UDP port 4191", |facts| unbound(facts, FaultKind::Ipv4Unanswered, None)),
    ("agent.row", "does not know 2001:db8:100::10", |facts| unanswered(facts, reply(), reply())),
    ("agent.key", "key", |facts| unbound(facts, FaultKind::NotVerified, None)),
    ("agent.key", "key", |facts| unbound(facts, FaultKind::Refused, Some(146))),
    ("agent.key", "the key of the invitation", |facts| unbound(facts, FaultKind::FormerKey, Some(146))),
    ("agent.prefixes", "(142)", |facts| unbound(facts, FaultKind::Refused, Some(142))),
    ("agent.prefixes", "2001:db8:100:10::/60", |facts| {
        view(facts).bindings[0].refused_prefixes = vec!["2001:db8:100:10::/60".parse().unwrap()];
    }),
    ("agent.refuses", "the home agent", |facts| unbound(facts, FaultKind::Refused, Some(130))),
    ("path.41", "protocol 41", |facts| {
        view(facts).links[0].fault = Some(FaultKind::TunnelSilent);
        view(facts).links[0].error_age = Some(Duration::from_secs(9));
        *probes(facts) =
            Probes { inner: Some(Answer::Silence), inner_one_hop: Some(Answer::Silence), ..Probes::default() };
    }),
    ("path.41", "protocol 41", |facts| {
        *probes(facts) =
            Probes { inner: Some(Answer::Silence), inner_one_hop: Some(Answer::Silence), ..Probes::default() };
    }),
    ("path.wireguard", "4192 to 4255", |facts| {
        facts.config.as_mut().unwrap().mobile_router.as_mut().unwrap().encryption = Some(Encryption::default());
        *probes(facts) =
            Probes { inner: Some(Answer::Silence), inner_one_hop: Some(Answer::Silence), ..Probes::default() };
    }),
    ("path.esp", "protocol 50", |facts| {
        let by_esp = Encryption { method: EncryptionMethod::Esp, ..Encryption::default() };
        facts.config.as_mut().unwrap().mobile_router.as_mut().unwrap().encryption = Some(by_esp);
        *probes(facts) =
            Probes { inner: Some(Answer::Silence), inner_one_hop: Some(Answer::Silence), ..Probes::default() };
    }),
    ("forwarding", "is 0 although", |facts| facts.host.forwards = false),
    ("return", "nothing beyond", |facts| probes(facts).beyond = Some((ip("2001:db8:f::80"), Answer::Silence))),
    ("inside.interface", "did you mean lan0?", |facts| {
        facts.config.as_mut().unwrap().mobile_router.as_mut().unwrap().ingress[0].interface = "lan00".to_owned();
        view(facts).links[2].name = "lan00".to_owned();
        view(facts).links[2].state = LinkState::NoInterface;
    }),
    ("inside.interface", "lan0 is down", |facts| {
        view(facts).links[2].state = LinkState::Down;
        facts.host.interfaces[3].up = false;
    }),
];

const AT_THE_AGENT: &[Case] = &[
    ("agent.address", "on no interface", |facts| {
        facts.host.addresses.remove(0);
    }),
    ("agent.ipv4", "203.0.113.1 is on no interface", |facts| {
        facts.host.addresses.remove(1);
    }),
    ("agent.link", "did you mean eth0?", |facts| {
        facts.config.as_mut().unwrap().home_agent.as_mut().unwrap().config.home_link = Some("ehh0".to_owned());
    }),
    ("agent.default-route", "no IPv6 default route", |facts| facts.host.routes.clear()),
    ("forwarding", "is 0", |facts| facts.host.forwards = false),
    ("agent.home-link", "on-link at eth0", |facts| facts.host.addresses.push(address(2, "2001:db8:100::2", 64))),
    ("agent.routed", "looks for its addresses", |facts| {
        probes(facts).hairpins = vec![("2001:db8:100:10::/60".parse().unwrap(), Hairpin::OnLink)];
    }),
    ("agent.routed", "has no route", |facts| {
        probes(facts).hairpins = vec![("2001:db8:100:10::/60".parse().unwrap(), Hairpin::NotRouted(ip("fe80::1")))];
    }),
    ("agent.state", "is full", |facts| facts.host.state_space = Some(Ok(100))),
    ("agent.state", "cannot be written", |facts| facts.host.state_space = Some(Err("Read-only file system".into()))),
    ("clock", "never set", |facts| facts.host.clock = Some(ClockState { unix: 7, synchronised: false })),
    ("firewall.output", "protocol 135", |facts| probes(facts).own_mobility = Some(Answer::NotPermitted)),
    ("agent.stolen", "two mobile routers register", |facts| {
        view(facts).bindings[0].fault = Some(FaultKind::Stolen);
        view(facts).bindings[0].last_error = Some("two mobile routers register it".to_owned());
    }),
    ("agent.fault", "do not verify", |facts| {
        view(facts).bindings[0].fault = Some(FaultKind::Refused);
        view(facts).bindings[0].care_of = None;
        view(facts).bindings[0].fault_status = Some(146);
    }),
    ("agent.fault", "2001:db8:100::10", |facts| {
        view(facts).bindings[0].fault = Some(FaultKind::Refused);
        view(facts).bindings[0].care_of = None;
        view(facts).bindings[0].fault_status = Some(142);
    }),
];

fn first(facts: &Facts) -> (Option<&'static str>, String) {
    let found = diagnose(facts);
    let first = found.first_fault();
    (first.map(|first| first.id), to_text(facts, &found, false))
}

#[test]
fn each_fault_is_the_first_that_is_named() {
    for (healthy, cases) in [(router as fn() -> Facts, AT_THE_ROUTER), (agent, AT_THE_AGENT)] {
        let (none, text) = first(&healthy());
        assert_eq!(none, None, "{text}");
        for (id, part, break_it) in cases {
            let mut facts = healthy();
            break_it(&mut facts);
            let found = diagnose(&facts);
            let text = to_text(&facts, &found, false);
            let fault = found.first_fault().unwrap_or_else(|| panic!("{id} {part}: called healthy:\n{text}"));
            assert_eq!(fault.id, *id, "{part}:\n{text}");
            assert!(fault.text.contains(part), "{part}:\n{text}");
            assert!(!fault.cure.is_empty(), "{id} has no cure");
            assert_eq!(to_json(&facts, &found)["first"], *id);
        }
    }
}

#[test]
fn what_does_no_harm_is_no_fault() {
    let harmless: [Change; 10] = [
        ("another router inside", |facts| {
            view(facts).links[2].hints = vec!["another router advertises here: fe80::9".to_owned()];
        }),
        ("a broken uplink beside one that works", |facts| view(facts).links[1].state = LinkState::NoInterface),
        ("a tunnel that fell silent a moment ago", |facts| {
            view(facts).links[0].fault = Some(FaultKind::TunnelSilent);
            view(facts).links[0].error_age = Some(Duration::from_secs(1));
        }),
        ("registration in progress", |facts| leave(facts, LinkState::Registering)),
        ("pings that the home agent drops inside", |facts| {
            *probes(facts) =
                Probes { inner: Some(Answer::Silence), inner_one_hop: Some(says(3, 0)), ..Probes::default() };
        }),
        ("a resolver that is silent", |facts| probes(facts).resolvers[0].1 = Answer::Silence),
        ("no probes", |facts| facts.probes = None),
        ("a control socket for root only", |facts| {
            let why = "Permission denied".to_owned();
            facts.daemon = Err(DaemonAbsence { why, is_denied: true, ..DaemonAbsence::default() });
        }),
        ("a daemon that starts", |facts| {
            facts.daemon = Err(DaemonAbsence { starting: Some(77), ..DaemonAbsence::default() });
        }),
        ("the clock of a mobile router", |facts| facts.host.clock = Some(ClockState { unix: 7, synchronised: false })),
    ];
    for (what, change) in harmless {
        let mut facts = router();
        change(&mut facts);
        let (id, text) = first(&facts);
        assert_eq!(id, None, "{what}:\n{text}");
    }
    let mut facts = agent();
    view(&mut facts).bindings[0].fault = Some(FaultKind::Refused);
    view(&mut facts).bindings[0].fault_status = Some(146);
    let (id, text) = first(&facts);
    assert_eq!(id, None, "any sender can provoke this while the mobile router is bound:\n{text}");
    assert!(text.contains("do not verify"), "{text}");
    let mut facts = agent();
    let (prefix, interface) = ("2001:db8:f::/64".parse().unwrap(), "eth0".to_owned());
    let config = &mut facts.config.as_mut().unwrap().home_agent.as_mut().unwrap().config;
    config.shared_prefix = Some(SharedPrefix { prefix, interface, gateway: None });
    probes(&mut facts).hairpins = vec![(prefix, Hairpin::OnLink)];
    let (id, text) = first(&facts);
    assert_eq!(id, None, "the home agent answers for an on-link prefix:\n{text}");
    let mut facts = agent();
    view(&mut facts).bindings[0].home_address = HomeAddress(ip("2001:db8:100::99"));
    view(&mut facts).bindings[0].fault = Some(FaultKind::NotInTable);
    let (id, text) = first(&facts);
    assert_eq!(id, None, "any sender can provoke this for an address without a row:\n{text}");
    assert!(text.contains("2001:db8:100::99 sends updates, and is not in the prefix table"), "{text}");
}

#[test]
fn no_two_faults_together_look_healthy_and_the_nearer_one_comes_first() {
    for (healthy, cases) in [(router as fn() -> Facts, AT_THE_ROUTER), (agent, AT_THE_AGENT)] {
        for (_, _, one) in cases {
            for (_, _, other) in cases {
                let mut facts = healthy();
                // Those that need what an earlier one has removed cannot be made together.
                let made = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    one(&mut facts);
                    other(&mut facts);
                }));
                if made.is_ok() && facts.config.is_ok() && facts.daemon.is_ok() {
                    let found = diagnose(&facts);
                    let bad = found.has(Level::Fault) || found.has(Level::Unknown) || found.has(Level::Warning);
                    assert!(bad, "{}", to_text(&facts, &found, false));
                }
            }
        }
    }
}

#[test]
fn text_of_networks_cannot_control_the_terminal() {
    let mut facts = router();
    uplink(&mut facts, LinkState::Registering).hints = vec!["a captive portal: \u{1b}[2Jhttp://x".to_owned()];
    let text = to_text(&facts, &diagnose(&facts), false);
    assert!(text.contains("http://x") && !text.contains('\u{1b}'), "{text}");
}

/// Words of the sources that are names of checks.
fn checks() -> std::collections::BTreeSet<String> {
    let sources = [
        include_str!("agent.rs"),
        include_str!("general.rs"),
        include_str!("inside.rs"),
        include_str!("registration.rs"),
        include_str!("uplinks.rs"),
    ];
    let groups = ["agent.", "config.", "daemon.", "firewall.", "inside.", "path.", "tunnel.", "uplink."];
    let is_check = |word: &&str| {
        let plain =
            word.bytes().all(|octet| octet.is_ascii_lowercase() || octet.is_ascii_digit() || b".-".contains(&octet));
        let grouped = groups.iter().any(|group| word.starts_with(group) && word.len() > group.len());
        plain && (grouped || ["clock", "forwarding", "mtu", "return"].contains(word))
    };
    sources.iter().flat_map(|source| source.split('"')).filter(is_check).map(str::to_owned).collect()
}

#[test]
fn docs_explain_each_check_by_its_name() {
    let page = include_str!("../../../docs/troubleshooting.md");
    let headings = page.lines().filter_map(|line| line.strip_prefix("### `")?.strip_suffix('`'));
    let headings: std::collections::BTreeSet<String> = headings.map(str::to_owned).collect();
    assert_eq!(headings, checks());
}
