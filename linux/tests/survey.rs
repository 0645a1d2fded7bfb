//! What commands read of a host, and the probes, between two network namespaces.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

mod netns;

use netns::{Namespace, await_own, await_shown, run};
use roam6_linux::probe::{Answer, EchoRequest, Hairpin, Interception, echo, hairpin, http, mobility};
use roam6_linux::survey::{self, ChainHook, InterfaceKind, RouteKind, RouteOrigin};
use std::net::Ipv6Addr;

const HERE: &str = "2001:db8::1";
const THERE: &str = "2001:db8::2";

fn address(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

#[test]
fn host_is_described_as_it_is() {
    let Some((here, there)) = Namespace::pair("host_is_described_as_it_is") else { return };
    run("ip address add 2001:db8::1/64 dev here0 nodad");
    run("ip address add 192.0.2.7/24 dev here0");
    run("ip route add default via fe80::1 dev here0 proto ra metric 7");
    run("ip route add unreachable 2001:db8:100::/56 metric 9 table 77");
    run("ip link add br0 type bridge");
    run("ip link set br0 up");
    let found = survey::interfaces().unwrap();
    let named = |name: &str| found.iter().find(|interface| interface.name == name).unwrap();
    let here0 = named("here0");
    assert_eq!((here0.index, here0.kind, here0.up, here0.carrier), (100, InterfaceKind::Veth, true, true));
    assert_eq!((named("br0").kind, named("br0").up), (InterfaceKind::Bridge, true));
    there.enter();
    run("ip link set there0 down");
    here.enter();
    await_shown("ip link show here0", |shown| shown.contains("NO-CARRIER"));
    let found = survey::interfaces().unwrap();
    assert!(found.iter().any(|one| one.name == "here0" && one.up && !one.carrier));

    let addresses = survey::addresses().unwrap();
    let with = |text: &str| addresses.iter().find(|one| one.address == address(text)).unwrap();
    assert_eq!((with(HERE).interface, with(HERE).prefix), (100, "2001:db8::/64".parse().unwrap()));
    assert_eq!(with("::ffff:192.0.2.7").prefix, "192.0.2.0/24".parse().unwrap());
    let routes = survey::routes().unwrap();
    let default = routes.iter().find(|route| route.is_default()).unwrap();
    assert_eq!((default.via, default.interface, default.metric), (Some(address("fe80::1")), Some(100), 7));
    assert_eq!(default.origin, RouteOrigin::RouterAdvertisement);
    let refused = routes.iter().find(|route| route.table == 77).unwrap();
    assert_eq!((refused.kind, refused.metric), (RouteKind::Unreachable, 9));
    assert_eq!(survey::sysctl("net.ipv6.conf.here0.accept_dad").as_deref(), Some("0"));
    assert!(!survey::is_udp_port_open(4191));
    let socket = std::net::UdpSocket::bind("[::1]:4191").unwrap();
    assert!(survey::is_udp_port_open(4191));
    drop(socket);
}

#[test]
fn firewall_of_another_program_is_read_with_what_it_names() {
    let Some(_here) = Namespace::enter_new("firewall_of_another_program_is_read_with_what_it_names") else { return };
    assert_eq!(survey::base_chains().unwrap(), []);
    run("nft -f - <<'END'
table inet filter {
  set inside {
    type ipv6_addr
    flags interval
    elements = { 2001:db8:100::/56 }
  }
  chain more {
    iifname { \"lan0\", \"nemo*\" } accept
    ip6 saddr @inside accept
  }
  chain forward {
    type filter hook forward priority 0; policy drop;
    jump more
    iif lo accept
  }
}
table ip6 nat {
  chain out {
    type filter hook output priority 0;
  }
}
END");
    let chains = survey::base_chains().unwrap();
    let on = |hook| chains.iter().find(|chain| chain.hook == hook).unwrap();
    let forward = on(ChainHook::Forward);
    assert_eq!((forward.family, &*forward.table, &*forward.chain, forward.drops), ("inet", "filter", "forward", true));
    for name in ["lan0", "nemo0", "lo"] {
        assert!(forward.names_interface(name), "{name}");
    }
    assert!(!forward.names_interface("eth0"));
    assert!(
        forward.names_prefix("2001:db8:100:20::/64".parse().unwrap())
            || forward.names_prefix("2001:db8:100::/56".parse().unwrap())
    );
    assert!(!forward.names_prefix("2001:db8:200::/56".parse().unwrap()));
    let output = on(ChainHook::Output);
    assert_eq!((output.family, output.drops, output.names_interface("lan0")), ("ip6", false, false));
}

#[test]
fn chain_that_drops_by_a_rule_is_one_that_drops() {
    let Some(_here) = Namespace::enter_new("chain_that_drops_by_a_rule_is_one_that_drops") else { return };
    let forward = || survey::base_chains().unwrap().into_iter().find(|chain| chain.hook == ChainHook::Forward).unwrap();
    run("nft 'add table inet wall; add chain inet wall pass { type filter hook forward priority 0; }'");
    run("nft add rule inet wall pass ct state established accept");
    run("nft add rule inet wall pass tcp dport 25 drop");
    assert!(!forward().drops);
    run("nft add rule inet wall pass counter reject with icmpx admin-prohibited");
    assert!(forward().drops);
    run("nft delete table inet wall");
    if !std::process::Command::new("ip6tables-legacy")
        .args(["-P", "FORWARD", "ACCEPT"])
        .output()
        .is_ok_and(|done| done.status.success())
    {
        return println!("skipped: the rest of chain_that_drops_by_a_rule_is_one_that_drops: no legacy ip6tables here");
    }
    run("ip6tables-legacy -A INPUT -j DROP");
    run("ip6tables-legacy -A FORWARD -i br-lan -s 2001:db8:100::/56 -j ACCEPT");
    run("ip6tables-legacy -A FORWARD -o wg+ -j ACCEPT");
    assert_eq!((forward().family, forward().drops), (survey::LEGACY, false));
    let names = ["br-lan", "wg0", "br-la", "nemo0"].map(|name| forward().names_interface(name));
    assert_eq!(names, [true, true, false, false]);
    assert!(forward().names_prefix("2001:db8:100::/56".parse().unwrap()));
    run("ip6tables-legacy -A FORWARD -j REJECT");
    assert!(forward().drops);
    run("ip6tables-legacy -D FORWARD -j REJECT");
    run("ip6tables-legacy -P FORWARD DROP");
    assert!(forward().drops);
}

#[test]
fn probes_tell_replies_refusals_filters_and_silence_apart() {
    let test = "probes_tell_replies_refusals_filters_and_silence_apart";
    let Some((here, there)) = Namespace::pair(test) else { return };
    let to = address(THERE);
    run("ip address add 2001:db8::1/64 dev here0 nodad");
    there.enter();
    run("ip address add 2001:db8::2/64 dev there0 nodad");
    run("sysctl -qw net.ipv6.conf.all.forwarding=1");
    run("ip route add unreachable 2001:db8:dead::/48");
    await_own(THERE);
    here.enter();
    run("ip route add 2001:db8:dead::/48 via 2001:db8::2");
    await_own(HERE);
    let from =
        |destination| EchoRequest { interface: Some(100), source: Some(address(HERE)), ..EchoRequest::to(destination) };
    assert!(echo(&from(to)).is_reply());
    assert!(echo(&EchoRequest { size: 1500, ..from(to) }).is_reply());
    let too_big = echo(&EchoRequest { size: 1501, ..from(to) });
    assert_eq!(too_big, Answer::NotSent("packet too big".to_owned()));
    let Answer::Error(error) = echo(&from(address("2001:db8:dead::1"))) else { panic!("no error") };
    assert_eq!((error.from, error.icmp_type, error.code, error.v6), (Some(to.into()), 1, 0, true));
    assert_eq!(error.to_string(), "no route to the destination");
    // A kernel without a home agent knows no mobility headers.
    let Answer::Error(error) = mobility(100, address(HERE), to, None) else { panic!("no error") };
    assert!(error.is_unknown_protocol() && error.from == Some(to.into()));

    run("nft add table ip6 own; nft 'add chain ip6 own out { type filter hook output priority 0; }'");
    run("nft add rule ip6 own out meta l4proto 135 drop");
    assert_eq!(mobility(100, address(HERE), to, None), Answer::NotPermitted);
    run("nft flush chain ip6 own out");
    there.enter();
    run("nft add table ip6 own; nft 'add chain ip6 own in { type filter hook input priority 0; }'");
    run("nft add rule ip6 own in meta l4proto 135 reject with icmpv6 type admin-prohibited");
    here.enter();
    let Answer::Error(error) = mobility(100, address(HERE), to, None) else { panic!("no error") };
    assert!(error.is_prohibition());
    there.enter();
    run("nft flush chain ip6 own in; nft add rule ip6 own in icmpv6 type echo-request drop");
    here.enter();
    assert_eq!(echo(&from(to)), Answer::Silence);
    assert_eq!(http(100, address(HERE)), Interception::None);
}

#[test]
fn router_shows_where_it_sends_packets_of_a_prefix() {
    let Some((here, there)) = Namespace::pair("router_shows_where_it_sends_packets_of_a_prefix") else { return };
    run("ip address add 2001:db8::1/64 dev here0 nodad");
    await_own(HERE);
    let own = survey::addresses().unwrap();
    let own = own.iter().find(|one| one.interface == 100 && one.address.is_unicast_link_local()).unwrap().address;
    there.enter();
    run("ip address add 2001:db8::2/64 dev there0 nodad");
    run("sysctl -qw net.ipv6.conf.all.forwarding=1");
    run(&format!("ip route add 2001:db8:100::/56 via {own} dev there0"));
    run("ip route add 2001:db8:200::/56 dev there0");
    run("ip route add unreachable 2001:db8:300::/56");
    run("nft add table ip6 own; nft 'add chain ip6 own pre { type filter hook prerouting priority 0; }'");
    run("nft add rule ip6 own pre ip6 daddr 2001:db8:400::/56 drop");
    await_own(THERE);
    here.enter();
    run(&format!("ping -c 1 -W 2 {THERE}"));
    let router = survey::neighbours(100).unwrap();
    let router = router.iter().find(|one| one.address == address(THERE)).unwrap().link_address;
    let ask = |prefix: &str| hairpin(100, address(HERE), router, prefix.parse().unwrap()).unwrap();
    assert_eq!(ask("2001:db8:100::/56"), Hairpin::Routed);
    assert_eq!(ask("2001:db8:200::/56"), Hairpin::OnLink);
    assert_eq!(ask("2001:db8:300::/56"), Hairpin::NotRouted(address(THERE)));
    assert_eq!(ask("2001:db8:400::/56"), Hairpin::Unknown);
}
