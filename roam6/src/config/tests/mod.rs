//! The configuration file: accepted values, and the reports of problems.

mod document;
mod encryption;
mod fleet;
mod geo;
mod home_agent;

use super::source::Source;
use super::{Accel, Config, Firewall, load, validate};
use std::path::Path;

const MR: &str = "\
[mobile_router]
home_address = \"2001:db8:1::100\"
home_prefix = \"2001:db8:1::/64\"
prefixes = [\"2001:db8:100::/56\"]
auth = \"none\"
[[mobile_router.uplink]]
interface = \"eth0\"
";

const HA: &str = "\
[home_agent]
address = \"2001:db8:1::1\"
home_prefixes = [\"2001:db8:1::/64\"]
[[home_agent.mobile]]
home_address = \"2001:db8:1::100\"
prefixes = [\"2001:db8:100::/56\"]
auth = \"none\"
";

fn read(text: &str) -> Result<Config, Vec<String>> {
    let source = Source::of_text("r.toml", text);
    let lines = |problems: &[super::Problem]| problems.iter().map(super::Problem::line).collect();
    match validate(&source) {
        Ok(config) if config.refused_rows().is_empty() => Ok(config),
        Ok(config) => Err(lines(config.refused_rows())),
        Err(problems) => Err(lines(&problems)),
    }
}

/// The problems of `text` after `old` became `new` in it.
#[track_caller]
fn problems(text: &str, old: &str, new: &str) -> Vec<String> {
    assert!(text.contains(old), "{old}");
    read(&text.replacen(old, new, 1)).unwrap_err()
}

#[cfg(feature = "facilities")]
#[test]
fn home_agent_and_mobile_router_fit_in_one_file() {
    let config = read(&format!("name = \"both\"\n{MR}{HA}")).unwrap();
    assert!(config.home_agent.is_some() && config.mobile_router.is_some());
    assert_eq!(config.roles().len(), 2);
}

#[test]
fn a_virtual_home_network_has_no_home_link() {
    use roam6_proto::contract::config::nemo::HomeNetwork;
    let home = |text: &str| read(text).unwrap().mobile_router.unwrap().home_network;
    assert_eq!(home(MR), HomeNetwork::Physical);
    let with = |line: &str| MR.replacen("prefixes =", &format!("{line}\nprefixes ="), 1);
    assert_eq!(home(&with("home = \"physical\"")), HomeNetwork::Physical);
    assert_eq!(home(&with("home = \"virtual\"")), HomeNetwork::Virtual);
    let line = &problems(MR, "prefixes =", "home = \"vitrual\"\nprefixes =")[0];
    assert_eq!(line, "r.toml:4:8: unknown value `vitrual`; did you mean `virtual`?");
    let both = with("home = \"virtual\"\nsharing = \"standby\"\nhome_and_away = true");
    let line = &read(&both).unwrap_err()[0];
    assert!(line.starts_with("r.toml:6:17: home_and_away needs a home link;"), "{line}");
}

#[test]
fn an_unknown_key_is_refused_with_the_nearest_known_one() {
    assert_eq!(
        problems(MR, "home_prefix", "home_prefx"),
        ["r.toml:3:1: unknown key `home_prefx`; did you mean `home_prefix`?"]
    );
    let line = &problems(MR, "prefixes =", "zzz = 1\nprefixes =")[0];
    assert!(line.starts_with("r.toml:4:1: unknown key `zzz`; known here: home_address, home_prefix,"), "{line}");
    assert_eq!(
        problems(MR, "auth = \"none\"", "auth = \"shared_key\""),
        ["r.toml:5:8: unknown value `shared_key`; did you mean `shared-key`?"]
    );
    let line = &problems(MR, "home_address", "# home_address")[0];
    assert!(line.starts_with("r.toml:1:1: `home_address` is missing; write home_address = ..."), "{line}");
}

#[test]
fn a_value_of_the_wrong_type_is_refused_with_an_example() {
    for (old, new, line) in [
        (
            "/56\"]",
            "1/56\"]",
            "r.toml:4:13: bits are set beyond the prefix length; write the prefix itself, as 2001:db8:1::/64",
        ),
        (
            "\"2001:db8:1::100\"",
            "\"mr1\"",
            "r.toml:2:16: invalid IPv6 address syntax; write an IPv6 address, as \"2001:db8::1\"; host names are not looked up, and a home agent's IPv4 address belongs into home_agents_ipv4",
        ),
        (
            "auth",
            "lifetime = 600\nauth",
            "r.toml:5:12: invalid type: integer `600`, expected a string; write it in quotes; a duration with its unit, as \"600s\"",
        ),
        (
            "[[mobile_router.uplink]]",
            "[mobile_router.uplink]",
            "r.toml:6:1: invalid type: map, expected a sequence; write the name in double brackets, as [[table]]: there may be several",
        ),
        ("auth", "lifetime = \"10\"\nauth", "r.toml:5:12: not a duration; write it as \"200ms\", \"10s\", \"1h30m\""),
        ("auth", "lifetime = \"4d\"\nauth", "r.toml:5:12: lifetime = 4d is out of bounds; write 4s to 3d"),
        ("[mobile_router]", "[mobile_router", "r.toml:1:15: unclosed table, expected `]`"),
    ] {
        assert_eq!(problems(MR, old, new), [line]);
    }
}

#[test]
fn invalid_mobile_router_settings_are_refused() {
    let uplink = "interface = \"eth0\"\n";
    let ingress =
        |prefix: &str| format!("{uplink}[[mobile_router.ingress]]\ninterface = \"lan0\"\nprefix = \"{prefix}\"\n");
    let direct = |keys: &str| format!("{}[mobile_router.care_of_prefixes]\n{keys}", ingress("2001:db8:100::/64"));
    let second = format!("{uplink}[[mobile_router.uplink]]\ninterface = \"eth1\"\n");
    let cases = [
        (
            "1::100",
            "2::100",
            "r.toml:2:16: home_address 2001:db8:2::100 lies outside home_prefix 2001:db8:1::/64; choose an address of the home prefix, or correct home_prefix",
        ),
        (
            "[\"2001:db8:100::/56\"]",
            "[]",
            "r.toml:4:12: no IPv6 prefixes; write the prefixes of the mobile network, as prefixes = [\"2001:db8:100::/56\"]",
        ),
        (
            "auth = \"none\"",
            "",
            "r.toml:1:1: no key; make one with `roam6 enroll`, name it with key_file = \"...\", or write auth = \"none\" to go without",
        ),
        (
            "100::/56\"",
            "100::/56\", \"2001:db8:100:1::/64\"",
            "r.toml:4:34: prefix 2001:db8:100:1::/64 overlaps 2001:db8:100::/56; remove the longer of the two",
        ),
        (
            uplink,
            "interface = \"eth0\"\nbid = 0\n",
            "r.toml:8:7: bid 0 is reserved (RFC 5648); number the uplinks from 1, or leave bid out",
        ),
        (uplink, &format!("{second}bid = 1\n"), "r.toml:10:7: bid 1 is used twice; give every uplink a bid of its own"),
        (
            uplink,
            "interface = \"a-name-far-too-long\"\n",
            "r.toml:7:13: \"a-name-far-too-long\" is not the name of an interface; `ip link` lists the names; they have 1 to 15 letters",
        ),
        (
            uplink,
            &ingress("2001:db8:100::/60"),
            "r.toml:10:10: prefix 2001:db8:100::/60 is not a /64; hosts form addresses in a /64 only (RFC 4862); choose one",
        ),
        (
            uplink,
            &ingress("2001:db8:200::/64"),
            "r.toml:10:10: prefix 2001:db8:200::/64 is not part of the mobile network; choose it from prefixes of [mobile_router]",
        ),
        (
            uplink,
            "interface = \"eth0\"\ncare_of_prefix = false\n",
            "r.toml:8:18: care_of_prefix means nothing without care-of prefixes; add [mobile_router.care_of_prefixes], or remove the line",
        ),
        (
            uplink,
            &format!("{uplink}[mobile_router.care_of_prefixes]\n"),
            "r.toml:8:1: no ingress interface whose nodes could use a care-of prefix; add a [[mobile_router.ingress]] table, or remove this one",
        ),
        (
            uplink,
            &direct("delegation = false\nshare = \"never\"\n"),
            "r.toml:11:1: no source of care-of prefixes; set delegation = true or share = \"proxy\", or remove the table",
        ),
        (uplink, &direct("length = 8\n"), "r.toml:12:10: length = 8 is out of bounds; write 20 to 64"),
        (
            uplink,
            &direct("").replacen('\n', "\ncare_of_prefix = false\n", 1),
            "r.toml:12:1: every uplink has care_of_prefix = false; remove it from one, or remove this table",
        ),
        (
            uplink,
            &format!("{uplink}address = \"2001:db8:5::5/64\"\n"),
            "r.toml:8:11: address without gateway; add gateway = \"fe80::1\", the address of the link's router",
        ),
        (
            uplink,
            &format!("{uplink}gateway = \"fe80::1\"\n"),
            "r.toml:8:11: gateway without address; add address = \"2001:db8:1::5/64\", or remove the line",
        ),
        (
            uplink,
            &format!("{uplink}gateway = \"fe80::1\"\naddress = \"2001:db8:5::5\"\n"),
            "r.toml:9:11: \"2001:db8:5::5\" is not an IPv6 address with the length of its prefix; write it as 2001:db8:1::5/64",
        ),
        (uplink, &format!("{uplink}cap = \"5 cows\"\n"), "r.toml:8:7: not an amount; write it as \"5GB\", \"500MB\""),
        (
            uplink,
            &format!("{uplink}cap = \"0MB\"\n"),
            "r.toml:8:7: a cap of 0; write the amount of the data plan, as \"5GB\"",
        ),
        (
            uplink,
            &format!("{uplink}period = \"week\"\nperiod_start = 8\n"),
            "r.toml:9:16: period_start = 8 is out of bounds; write 1 to 7",
        ),
        (
            uplink,
            &format!("{uplink}beyond = \"never\"\n"),
            "r.toml:8:10: beyond means nothing without a cap; add cap = \"5GB\", or remove the line",
        ),
        (
            uplink,
            &format!("{uplink}gateway = \"2001:db8:6::1\"\naddress = \"2001:db8:5::5/64\"\n"),
            "r.toml:8:11: gateway 2001:db8:6::1 is not on the link of 2001:db8:5::/64; write the link-local address of the link's router, or one in the prefix",
        ),
        (
            uplink,
            &format!("{uplink}gateway = \"fe80::1\"\naddress = \"2001:db8:100:5::5/64\"\n"),
            "r.toml:9:11: address 2001:db8:100:5::5 lies in the mobile network's own prefix 2001:db8:100::/56; write the address that the visited network has assigned",
        ),
        (
            uplink,
            &format!("{}dns = [\"fe80::53\"]\n", ingress("2001:db8:100::/64")),
            "r.toml:11:8: resolver fe80::53 is not reachable by other hosts; write a global unicast address",
        ),
        (
            uplink,
            &format!("{}search = [\"example.org\", \"b\u{fc}s\"]\n", ingress("2001:db8:100::/64")),
            "r.toml:11:26: \"b\u{fc}s\" is not a domain name; write it as \"example.org\"; international names in their xn-- form",
        ),
        (uplink, &format!("{uplink}priority = 200\n"), "r.toml:8:12: priority = 200 is out of bounds; write 1 to 127"),
        (
            uplink,
            &format!("{second}[[mobile_router.flow]]\nuplink = \"eth2\"\n"),
            "r.toml:11:10: no uplink eth2; name one of: eth0, eth1",
        ),
    ];
    for (old, new, line) in cases {
        assert_eq!(problems(MR, old, new), [line]);
    }
    let alone = problems(MR, uplink, &format!("{uplink}[[mobile_router.flow]]\nuplink = \"eth0\"\n"));
    assert!(alone[0].contains("a flow needs several uplinks registered at once"), "{alone:?}");
}

#[test]
fn flow_rules_are_checked() {
    let uplink = "interface = \"eth0\"\n";
    let ingress = "[[mobile_router.ingress]]\ninterface = \"lan0\"\nprefix = \"2001:db8:100::/64\"\n";
    let flow = |keys: &str| {
        let second = "dscp = \"cs1\"\n[[mobile_router.uplink]]\ninterface = \"eth1\"\n";
        format!("{uplink}{second}{ingress}[[mobile_router.flow]]\nuplink = \"eth1\"\n{keys}\n")
    };
    let keys = "dscp = \"af41\"\nfrom = \"lan0\"\ninside = \"10.77.1.0/24\"\nprotocol = \"icmp\"";
    for (dscp, number) in [("\"af41\"", 34), ("34", 34), ("\"0\"", 0)] {
        let router = read(&MR.replacen(uplink, &flow(&keys.replace("\"af41\"", dscp)), 1)).unwrap();
        let router = router.mobile_router.unwrap();
        let rule = &router.flows[0];
        assert_eq!((rule.ingress.as_deref(), rule.selector.dscp), (Some("lan0"), Some(number)));
        assert_eq!((rule.selector.destination, rule.selector.protocol), ("10.77.1.0/24".parse().ok(), Some(1)));
        assert_eq!(router.uplinks.iter().map(|uplink| uplink.dscp).collect::<Vec<_>>(), [Some(8), None]);
    }
    let cases = [
        ("from = \"lan1\"", "r.toml:16:8: no ingress interface lan1; name one of: lan0"),
        (
            "from = \"lan0\"\ncorrespondent = \"192.0.2.0/24\"",
            "r.toml:16:8: the home agent cannot tell IPv4 packets to this interface from others; add inside = \"10.0.1.0/24\", the IPv4 prefix behind the interface",
        ),
        (
            "correspondent = \"192.0.2.0/24\"\ninside = \"2001:db8:100::/64\"",
            "r.toml:14:1: correspondent 192.0.2.0/24 and inside 2001:db8:100::/64 are of different families; write both for IPv6, or both for IPv4",
        ),
        (
            "dscp = 64",
            "r.toml:16:8: not a DSCP; write a name, as \"ef\", \"af41\" or \"cs5\", or a number from 0 to 63",
        ),
    ];
    for (keys, line) in cases {
        assert_eq!(problems(MR, uplink, &flow(keys)), [line]);
    }
    let many = format!("{}{}", flow(""), "[[mobile_router.flow]]\nuplink = \"eth1\"\n".repeat(16));
    assert_eq!(problems(MR, uplink, &many), ["r.toml:47:1: more than 16 flows; merge some"]);
}

#[cfg(feature = "relay")]
#[test]
fn bonding_has_room_for_sixteen_rules_with_those_of_home_agents() {
    let uplink = "[[mobile_router.uplink]]\ninterface = \"eth0\"\n";
    let router = |tcp: usize, udp: usize| {
        let second = "[[mobile_router.uplink]]\ninterface = \"eth1\"\n";
        let flow = |keys: &str| format!("[[mobile_router.flow]]\n{keys}\n");
        let flows = flow("uplink = \"all\"\nprotocol = \"tcp\"").repeat(tcp)
            + &flow("uplink = \"eth1\"\nprotocol = \"udp\"").repeat(udp);
        let keys = "auth = \"none\"\nsharing = \"weights\"\nhome_agents = [\"2001:db8:1::1\", \"2001:db8:1::2\"]";
        MR.replace("auth = \"none\"", keys).replacen(uplink, &format!("{uplink}{second}{flows}"), 1)
    };
    assert_eq!(read(&router(14, 2)).unwrap().mobile_router.unwrap().flows.len(), 16);
    let what = "beside 2 home agents, bonding has room for 14 flows that may select TCP";
    let hint = "merge some, or give flows of other protocols their protocol";
    assert_eq!(read(&router(15, 1)).unwrap_err(), [format!("r.toml:54:1: {what}; {hint}")]);
}

#[test]
fn duplicated_flows_are_checked() {
    use roam6_proto::contract::config::flow::Replication;
    use roam6_wire::Bid;
    let uplink = "interface = \"eth0\"\n";
    let flow = |sharing: &str, keys: &str| {
        let others =
            ["eth1", "eth2"].map(|name| format!("[[mobile_router.uplink]]\ninterface = \"{name}\"\n")).concat();
        MR.replacen(uplink, &format!("{uplink}{others}[[mobile_router.flow]]\n{keys}\n"), 1).replacen(
            "[mobile_router]\n",
            &format!("[mobile_router]\nsharing = \"{sharing}\"\n"),
            1,
        )
    };
    for (sharing, keys, bid, second) in [
        ("weights", "duplicate = 2", 0, None),
        ("weights", "duplicate = 2\nuplink = \"eth1\"", 2, None),
        ("standby", "duplicate = 2\nuplink = [\"eth2\", \"eth0\"]", 3, Some(Bid(1))),
    ] {
        let router = read(&flow(sharing, keys)).unwrap().mobile_router.unwrap();
        let rule = &router.flows[0];
        assert_eq!((rule.bid, rule.replication), (Bid(bid), Some(Replication { second })), "{keys}");
    }
    for (sharing, keys, problem) in [
        ("weights", "dscp = \"ef\"", "a flow without an uplink; name one, or write duplicate = 2"),
        (
            "weights",
            "uplink = [\"eth0\", \"eth1\"]",
            "a flow with several uplinks; name one, or add duplicate = 2: then each packet is sent by both",
        ),
        (
            "weights",
            "uplink = [\"eth0\", \"eth0\"]\nduplicate = 2",
            "uplink eth0 is named twice; name each uplink once",
        ),
        (
            "weights",
            "uplink = [\"eth0\", \"eth1\", \"eth2\"]\nduplicate = 2",
            "two copies by 3 uplinks; name two uplinks, or none",
        ),
        ("weights", "duplicate = 3", "duplicate = 3 is out of bounds; write 2, or leave it out"),
        (
            "standby",
            "duplicate = 2\nuplink = \"eth0\"",
            "no second uplink carries packets; name both: uplink = [\"eth0\", \"eth1\"], or write sharing = \"weights\"",
        ),
    ] {
        let found = read(&flow(sharing, keys)).unwrap_err();
        assert!(found.len() == 1 && found[0].to_string().ends_with(problem), "{keys}: {found:?}");
    }
    let kernel = format!("data_plane = \"ip6tnl\"\n{}", flow("weights", "duplicate = 2"));
    let found = read(&kernel).unwrap_err();
    let problem =
        "the kernel's tunnel device sends no packet twice; write data_plane = \"bpf\", or leave duplicate out";
    assert!(found.iter().any(|found| found.to_string().ends_with(problem)), "{found:?}");
}

#[test]
fn static_uplink_addresses_and_rdnss_are_checked() {
    let uplink = "interface = \"eth0\"\n";
    let more = "address = \"2001:db8:5::5/64\"\ngateway = \"2001:db8:5::1\"\n[[mobile_router.ingress]]\n\
                interface = \"lan0\"\nprefix = \"2001:db8:100::/64\"\n\
                dns = [\"2001:db8:1::53\"]\nsearch = [\"example.org\"]\n";
    let router = read(&MR.replacen(uplink, &format!("{uplink}{more}"), 1)).unwrap().mobile_router.unwrap();
    let set = router.uplinks[0].address.unwrap();
    assert_eq!((set.address.to_string(), set.gateway.to_string()), ("2001:db8:5::5".into(), "2001:db8:5::1".into()));
    assert_eq!(set.prefix.to_string(), "2001:db8:5::/64");
    assert_eq!(router.ingress[0].dns, Some(vec!["2001:db8:1::53".parse().unwrap()]));
    assert_eq!(router.ingress[0].search_domains, Some(vec!["example.org".parse().unwrap()]));
    let plain = read(MR).unwrap().mobile_router.unwrap();
    assert_eq!(plain.uplinks[0].address, None);
}

const MNN: &str = "\
[mnn]
interfaces = [\"eth0\", \"wlan0\"]
home_prefixes = [\"2001:db8:100::/56\"]
";

#[test]
fn invalid_mobile_network_node_settings_are_refused() {
    let config = read(MNN).unwrap();
    assert_eq!(config.roles().len(), 1);
    let mnn = config.mnn.unwrap();
    assert_eq!((mnn.subflows, mnn.add_addr_accepted, mnn.source_routing), (8, 4, false));
    let cases = [
        ("wlan0", "eth0", "r.toml:2:23: interface eth0 is written twice; remove one"),
        (
            "[\"eth0\", \"wlan0\"]",
            "[]",
            "r.toml:2:14: no interfaces; write the interfaces whose addresses are used, as interfaces = [\"eth0\", \"wlan0\"]",
        ),
        (
            "2001:db8:100::/56",
            "::/0",
            "r.toml:3:18: every address would be a home address; write the prefixes of the mobile network, as home_prefixes = [\"2001:db8:100::/56\"]",
        ),
        ("home_", "subflows = 9\nhome_", "r.toml:3:12: subflows = 9 is out of bounds; write 0 to 8"),
    ];
    for (old, new, line) in cases {
        assert_eq!(problems(MNN, old, new), [line]);
    }
}

const SHIM: &str = "\
[shim]
interfaces = [\"eth0\", \"wlan0\"]
[shim.trigger]
octets = 10000
";

#[test]
fn invalid_shim6_settings_are_refused() {
    let config = read(SHIM).unwrap();
    assert_eq!(config.roles().len(), 1);
    let trigger = config.shim.unwrap().trigger.unwrap();
    assert_eq!((trigger.octets, trigger.packets, trigger.age), (Some(10_000), None, None));
    let answering = read(&SHIM.replace("octets = 10000", "enabled = false")).unwrap();
    assert_eq!(answering.shim.unwrap().trigger, None);
    let more =
        "return_after = \"0s\"\n[shim.addresses]\nproof = \"hba\"\n[shim.preferences.wlan0]\npriority = 7\n[shim.t";
    let config = read(&SHIM.replace("[shim.t", more)).unwrap().shim.unwrap();
    assert_eq!((config.return_after, config.addresses.map(|policy| policy.sec.level())), (None, Some(1)));
    assert_eq!(config.preferences.values().map(|preference| preference.priority).collect::<Vec<_>>(), [7]);
    let cases = [
        ("[shim.t", "send_timeout = \"50ms\"\n[shim.t", "send_timeout = 50ms is out of bounds; write 100ms to 18h12m"),
        ("[shim.t", "max_contexts = 0\n[shim.t", "max_contexts = 0 is out of bounds; write 1 to 1000000"),
        ("[shim.t", "return_after = \"1s\"\n[shim.t", "return_after = 1s is out of bounds; write 5s to 7d"),
        ("[shim.t", "[shim.addresses]\nproof = \"both\"\n[shim.t", "no identity has a key for CGAs; make a key with"),
        (
            "[shim.t",
            "[shim.addresses]\nproof = \"hba\"\nsec = 2\n[shim.t",
            "sec = 2 takes too long while the daemon runs",
        ),
        (
            "[shim.t",
            "[shim.preferences.eth7]\npriority = 1\n[shim.t",
            "preferences of eth7, which is no interface of the",
        ),
        ("[shim.t", "identities = [\"none.toml\"]\n[shim.t", "No such file or directory (os error 2); make one with"),
    ];
    for (old, new, line) in cases {
        let found = problems(SHIM, old, new);
        assert!(found.len() == 1 && found[0].contains(line), "{found:?}");
    }
}

#[test]
fn a_fifo_is_refused_as_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.toml");
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let problems = load(&path).unwrap_err();
    assert!(problems[0].line().contains("r.toml: cannot be read: not a regular file"), "{problems:?}");
}

#[test]
fn all_problems_are_reported_at_once() {
    let text = MR.replace("1::100", "2::100").replace("auth = \"none\"", "").replace("eth0", "eth/0");
    assert_eq!(read(&text).unwrap_err().len(), 3);
}

/// Finding the place of each of 100,000 problems would keep a reloading daemon from its work for hours.
#[test]
fn at_most_twenty_problems_are_reported() {
    let row = |number| {
        format!("[[home_agent.mobile]]\nhome_address = \"2001:db8:2::{number:x}\"\nprefixes = []\nauth = \"none\"\n")
    };
    let text = HA.to_owned() + &(1..1000).map(row).collect::<String>();
    let problems = read(&text).unwrap_err();
    assert_eq!(problems.len(), 21);
    assert_eq!(problems[20], "r.toml: 1978 more problems");
}

#[test]
fn metrics_listen_on_loopback_only() {
    let found = problems(MR, "[mobile_router]", "[metrics]\nlisten = \"[::]:9106\"\n[mobile_router]");
    assert!(found[0].starts_with("r.toml:2:10: [::]:9106 can be reached from other machines"), "{found:?}");
}

#[test]
fn xdp_needs_the_bpf_data_plane() {
    let with = |text: &str| format!("{text}[mobile_router]");
    let read_with = |text: &str| read(&MR.replacen("[mobile_router]", &with(text), 1));
    assert_eq!(read_with("accel = \"xdp\"\n").unwrap().accel, Accel::Xdp);
    assert_eq!(read_with("").unwrap().accel, Accel::Tc);
    let refused = read_with("data_plane = \"ip6tnl\"\naccel = \"xdp\"\n").unwrap_err();
    assert!(refused[0].contains("has no XDP programs"), "{refused:?}");
}

#[test]
fn the_firewall_is_obeyed_by_default() {
    let read_with = |text: &str| read(&MR.replacen("[mobile_router]", &format!("{text}[mobile_router]"), 1));
    assert_eq!(read_with("").unwrap().firewall, Firewall::Obey);
    assert_eq!(read_with("firewall = \"obey\"\n").unwrap().firewall, Firewall::Obey);
    assert_eq!(read_with("firewall = \"bypass\"\n").unwrap().firewall, Firewall::Bypass);
    let refused = read_with("data_plane = \"ip6tnl\"\nfirewall = \"bypass\"\n").unwrap_err();
    assert!(refused[0].contains("cannot bypass a firewall"), "{refused:?}");
    let unknown = read_with("firewall = \"ignore\"\n").unwrap_err();
    assert!(unknown[0].contains("ignore"), "{unknown:?}");
}

#[test]
fn a_world_readable_key_file_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let (config, key) = (folder.path().join("mr.toml"), folder.path().join("mr.key"));
    std::fs::write(&config, MR.replace("auth = \"none\"", "key_file = \"mr.key\"")).unwrap();
    let missing = load(&config).unwrap_err();
    assert!(missing[0].line().contains("mr.key: cannot be read: No such file"), "{missing:?}");
    std::fs::write(&key, "spi = 256\nkey = \"000102030405060708090a0b0c0d0e0f\"\n").unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let open = load(&config).unwrap_err();
    assert!(
        open[0].line().ends_with(&format!("readable by all users; run: chmod o-rwx {}", key.display())),
        "{open:?}"
    );
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o640)).unwrap();
    assert!(load(&config).is_ok());
}

/// Keys in a checkout are readable by all, so the examples are read from a copy.
#[test]
fn the_example_configurations_are_valid() {
    use std::os::unix::fs::PermissionsExt;
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dist/examples");
    let folder = tempfile::tempdir().unwrap();
    let mut configs = Vec::new();
    for entry in std::fs::read_dir(examples).unwrap() {
        let from = entry.unwrap().path();
        let to = folder.path().join(from.file_name().unwrap());
        std::fs::copy(&from, &to).unwrap();
        std::fs::set_permissions(&to, std::fs::Permissions::from_mode(0o600)).unwrap();
        configs.extend(Some(to).filter(|path| path.extension().is_some_and(|it| it == "toml")));
    }
    configs.retain(|path| !path.ends_with("mobiles.toml"));
    assert!(configs.len() >= 6);
    for path in configs {
        assert!(load(&path).is_ok(), "{:?}", load(&path));
    }
}
