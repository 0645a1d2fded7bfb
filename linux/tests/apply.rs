//! The plan on a real kernel: put, reconcile, repair, remove what is stale, clean.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

mod netns;

use netns::{Capture, Namespace, host, link, listen, put, run};
use roam6_proto::contract::item::{
    Address, AnycastAddress, Encap, JournalRecord, Neighbour, NextHop, PolicyRule, ProxyNeighbour, Route, RouteTable,
    SequenceRecord, SourceFilter, Sysctl, SysctlSetting, Tunnel, TunnelId, TunnelPath,
};
use roam6_proto::{Input, Item, Key, LinkId, Output};
use roam6_wire::{Bid, HomeAddress, LinkAddress, Prefix, Sequence};
use std::time::Duration;

fn prefix(text: &str) -> Prefix {
    text.parse().unwrap()
}

fn route(destination: &str, target: NextHop) -> Route {
    Route {
        table: RouteTable::MAIN,
        destination: prefix(destination),
        source: Prefix::ALL,
        metric: 50,
        target,
        mtu: None,
    }
}

fn tunnel(id: u32, mtu: u32, remote: &str, far: &str) -> Item {
    let path = TunnelPath {
        bid: Bid(0),
        local: "2001:db8::1".parse().unwrap(),
        remote: remote.parse().unwrap(),
        link: None,
        mtu,
        weight: 1,
        direct: false,
        encap: Encap::Native,
        dscp: None,
    };
    let (near, far) = (vec![Prefix::ALL], vec![prefix(far)]);
    Item::Tunnel(Tunnel {
        id: TunnelId(id),
        local_prefixes: near,
        remote_prefixes: far,
        paths: vec![path],
        flows: Vec::new(),
    })
}

/// An item of each kind, on `link`.
fn everything(link: LinkId) -> Vec<Item> {
    let router = "fe80::1".parse().unwrap();
    let home_address = HomeAddress("2001:db8:1::5".parse().unwrap());
    vec![
        Item::Sysctl(SysctlSetting { link: None, sysctl: Sysctl::Forwarding, value: 1 }),
        Item::Sysctl(SysctlSetting { link: Some(link), sysctl: Sysctl::AcceptRa, value: 0 }),
        Item::Address(Address {
            link,
            address: "2001:db8:1::1".parse().unwrap(),
            prefix_length: 64,
            preferred: true,
            dad: false,
        }),
        Item::Address(Address {
            link,
            address: "2001:db8:2::1".parse().unwrap(),
            prefix_length: 128,
            preferred: false,
            dad: false,
        }),
        Item::Anycast(AnycastAddress { link, address: "2001:db8:1::fdff".parse().unwrap() }),
        Item::Neighbour(Neighbour { link, address: router, link_address: LinkAddress([2, 0, 0, 0, 0, 9]) }),
        Item::ProxyNeighbour(ProxyNeighbour { link, address: "2001:db8:1::5".parse().unwrap(), router: true }),
        Item::ProxyNeighbour(ProxyNeighbour { link, address: "2001:db8:1::6".parse().unwrap(), router: false }),
        Item::SourceFilter(SourceFilter {
            link,
            allowed: vec![prefix("2001:db8:5::/57")],
            own_addresses: vec!["2001:db8:5::1".parse().unwrap()],
        }),
        tunnel(7, 1400, "2001:db8:f::7", "2001:db8:70::/48"),
        Item::Route(Route { mtu: Some(1400), ..route("::/0", NextHop::Gateway { link, router }) }),
        Item::Route(Route { metric: 0, ..route("2001:db8:3::/48", NextHop::OnLink(link)) }),
        Item::Route(route("2001:db8:4::/48", NextHop::Unreachable)),
        Item::Route(Route {
            source: prefix("2001:db8:2::1/128"),
            table: RouteTable(5000),
            ..route("::/0", NextHop::Gateway { link, router })
        }),
        Item::Route(route("2001:db8:70::/48", NextHop::Tunnel(TunnelId(7)))),
        Item::Rule(PolicyRule {
            priority: 900,
            source: prefix("2001:db8:2::/64"),
            destination: Prefix::ALL,
            iif: None,
            table: RouteTable(5000),
        }),
        Item::Rule(PolicyRule {
            priority: 901,
            source: Prefix::ALL,
            destination: Prefix::ALL,
            iif: Some("here0".into()),
            table: RouteTable(5002),
        }),
        Item::Rule(PolicyRule {
            priority: 901,
            source: Prefix::ALL,
            destination: Prefix::ALL,
            iif: Some("not-yet0".into()),
            table: RouteTable(5002),
        }),
        Item::TunnelBypass(prefix("2001:db8:3::/48")),
        Item::JournalRecord(JournalRecord::Sequence(SequenceRecord { home_address, sequence: Sequence(3) })),
    ]
}

/// An item of each kind of IPv4.
fn everything_of_ipv4(link: LinkId) -> Vec<Item> {
    let address = "::ffff:10.77.1.1".parse().unwrap();
    let rule = |priority, source: Prefix, destination: Prefix| {
        Item::Rule(PolicyRule { priority, source, destination, iif: None, table: RouteTable(5000) })
    };
    vec![
        Item::Sysctl(SysctlSetting { link: None, sysctl: Sysctl::Ipv4Forwarding, value: 1 }),
        Item::Address(Address { link, address, prefix_length: 120, preferred: true, dad: false }),
        Item::Route(Route { table: RouteTable(5000), ..route("0.0.0.0/0", NextHop::Tunnel(TunnelId(7))) }),
        Item::Route(route("10.78.0.0/16", NextHop::Tunnel(TunnelId(7)))),
        Item::Route(Route { metric: 1 << 30, ..route("10.77.1.0/24", NextHop::Unreachable) }),
        Item::ProxyNeighbour(ProxyNeighbour { link, address: "::ffff:10.79.0.5".parse().unwrap(), router: false }),
        rule(902, prefix("10.77.1.0/24"), Prefix::ALL),
        rule(903, Prefix::ALL, prefix("10.77.1.1/32")),
    ]
}

/// All objects of roam6 in the kernel, for comparison.
fn shown() -> String {
    run(
        "ip -4 route show table all proto 106; ip -4 rule show; ip -4 addr show dev here0; sysctl net.ipv4.ip_forward; \
         ip -6 route show table all proto 106; ip -6 rule show; ip -6 addr show dev here0; \
         ip neigh show proxy; ip -6 neigh show nud permanent; grep fdff /proc/net/anycast6 || true; \
         sysctl net.ipv6.conf.all.forwarding net.ipv6.conf.here0.accept_ra net.ipv6.conf.here0.proxy_ndp \
         net.ipv6.neigh.here0.proxy_delay net.ipv4.neigh.here0.proxy_delay; nft list tables",
    )
}

#[test]
fn items_are_installed_and_clean_removes_all() {
    let Some((_here, _there)) = Namespace::pair("items_are_installed_and_clean_removes_all") else { return };
    let before = shown();
    let directory = tempfile::tempdir().unwrap();
    let mut host = host(&directory, &["here0"], Some(LinkId(1)));
    let link = link(&mut host, "here0").link;
    let items = [everything(link), everything_of_ipv4(link)].concat();
    put(&mut host, &items);
    let stands = shown();
    for expected in [
        "default via fe80::1 dev here0 metric 50 mtu 1400",
        "2001:db8:3::/48 dev here0 metric 1024",
        "unreachable 2001:db8:4::/48 dev lo metric 50",
        "default from 2001:db8:2::1 via fe80::1 dev here0 table 5000",
        "2001:db8:70::/48 dev lo metric 50 mtu 1400",
        "900:\tfrom 2001:db8:2::/64 lookup 5000 proto 106",
        "901:\tfrom all iif here0 lookup 5002 proto 106",
        "901:\tfrom all iif not-yet0 [detached] lookup 5002 proto 106",
        "2001:db8:1::1/64 scope global nodad",
        "2001:db8:2::1/128 scope global nodad deprecated",
        "2001:db8:1::5 dev here0 router proxy",
        "2001:db8:1::6 dev here0 proxy",
        "fe80::1 dev here0 lladdr 02:00:00:00:00:09 PERMANENT",
        "all.forwarding = 1",
        "here0.accept_ra = 0",
        "here0.proxy_ndp = 1",
        "ipv6.neigh.here0.proxy_delay = 0",
        "ipv4.neigh.here0.proxy_delay = 0",
        "20010db800010000000000000000fdff",
        "default dev lo table 5000 metric 50 mtu 1400",
        "10.78.0.0/16 dev lo metric 50 mtu 1400",
        "unreachable 10.77.1.0/24 metric 1073741824",
        "902:\tfrom 10.77.1.0/24 lookup 5000 proto 106",
        "903:\tfrom all to 10.77.1.1 lookup 5000 proto 106",
        "inet 10.77.1.1/24",
        "net.ipv4.ip_forward = 1",
        "10.79.0.5 dev here0 proxy",
    ] {
        let (fact, found) = (expected.replace(' ', ""), stands.replace(' ', ""));
        assert!(found.contains(&fact), "{expected} not in\n{stands}");
    }
    put(&mut host, &items);
    host.remove_stale().unwrap();
    assert_eq!(shown(), stands, "putting again and settling change nothing");

    let drops: Vec<Output> = items.iter().rev().map(|item| Output::Drop(item.key())).collect();
    host.execute(drops.clone(), |report| panic!("{report:?}"));
    host.execute(drops, |report| panic!("{report:?}"));
    put(&mut host, &items);
    host.clean().unwrap();
    assert_eq!(shown(), before);
}

#[test]
fn removed_items_are_installed_again() {
    let Some((_here, _there)) = Namespace::pair("removed_items_are_installed_again") else { return };
    let directory = tempfile::tempdir().unwrap();
    let mut host = host(&directory, &["here0"], Some(LinkId(1)));
    let link = link(&mut host, "here0").link;
    put(&mut host, &[everything(link), everything_of_ipv4(link)].concat());
    let stands = shown();
    run("ip -4 route del 10.78.0.0/16; ip -4 rule del prio 902; ip -4 addr del 10.77.1.1/24 dev here0");
    run("ip -6 route del default; ip -6 rule del prio 900; ip -6 route del 2001:db8:3::/48; \
         A='2001:db8:1::1/64 dev here0'; ip -6 addr change $A valid_lft 900 preferred_lft 600; ip -6 addr del $A");
    assert_ne!(shown(), stands);
    let mut await_all = |what: &str| {
        let deadline = host.now() + Duration::from_secs(10);
        while sorted(&shown()) != sorted(&stands) && host.now() < deadline {
            listen(&mut host, Duration::from_millis(100));
        }
        assert_eq!(sorted(&shown()), sorted(&stands), "{what}");
    };
    await_all("removed items");
    run("ip link set here0 down; ip link set here0 up");
    await_all("items removed with the carrier");
    run("sysctl -qw net.ipv6.conf.here0.disable_ipv6=1; sysctl -qw net.ipv6.conf.here0.disable_ipv6=0");
    await_all("items removed with IPv6, most without an event");
    run("ip link set here0 mtu 1000; ip link set here0 mtu 1500");
    await_all("items removed with an MTU below 1280");
    run("nft flush ruleset");
    await_all("rules removed with a new ruleset");

    // The kernel does not announce this one: only comparing finds it.
    run("ip -6 neigh del proxy 2001:db8:1::5 dev here0; ip neigh del proxy 10.79.0.5 dev here0");
    host.remove_stale().unwrap();
    assert_eq!(sorted(&shown()), sorted(&stands));
}

#[test]
fn sysctl_follows_its_interface_through_a_renaming() {
    let test = "sysctl_follows_its_interface_through_a_renaming";
    let Some((_here, _there)) = Namespace::pair(test) else { return };
    let directory = tempfile::tempdir().unwrap();
    let mut host = host(&directory, &["here0"], None);
    let mut link_of_now = link(&mut host, "here0").link;
    let accepts = |name: &str| run(&format!("cat /proc/sys/net/ipv6/conf/{name}/accept_ra")).trim() == "1";
    let index = || LinkId(run("ip -o link show dev here0").split_once(':').unwrap().0.parse().unwrap());
    let setting = |link| Item::Sysctl(SysctlSetting { link: Some(link), sysctl: Sysctl::AcceptRa, value: 0 });
    put(&mut host, &[setting(link_of_now)]);
    assert!(!accepts("here0"));
    run("ip link set here0 down && ip link set here0 name other0 && ip link add here0 type veth peer name more0");
    listen(&mut host, Duration::from_millis(100));
    host.execute([Output::Drop(setting(link_of_now).key())], |report| panic!("{report:?}"));
    host.remove_stale().unwrap();
    assert!(accepts("other0"), "the renamed interface has its former value");
    assert!(accepts("here0"), "the new interface of that name keeps its default");

    link_of_now = index();
    put(&mut host, &[setting(link_of_now)]);
    run("ip link del here0");
    listen(&mut host, Duration::from_millis(100));
    host.execute([Output::Drop(setting(link_of_now).key())], |report| panic!("{report:?}"));
    run("ip link add here0 type veth peer name more0");
    listen(&mut host, Duration::from_millis(100));
    host.remove_stale().unwrap();
    assert!(accepts("here0"), "a recreated interface keeps its default");

    let former = index();
    put(&mut host, &[setting(former)]);
    run("ip link del here0 && ip link add here0 type veth peer name more0");
    let next = index();
    put(&mut host, &[setting(next)]);
    host.execute([Output::Drop(setting(former).key())], |report| panic!("{report:?}"));
    assert!(!accepts("here0"), "the item of the new interface stays");
    host.clean().unwrap();
    assert!(accepts("here0"), "until it is restored");
}

#[test]
fn restart_keeps_items_put_again_and_removes_the_rest() {
    let Some((_here, _there)) = Namespace::pair("restart_keeps_items_put_again_and_removes_the_rest") else { return };
    let before = shown();
    let directory = tempfile::tempdir().unwrap();
    let mut first = host(&directory, &["here0"], Some(LinkId(1)));
    let link_id = link(&mut first, "here0").link;
    let items = everything(link_id);
    put(&mut first, &items);
    drop(first);

    let mut second = host(&directory, &["here0"], Some(LinkId(1)));
    assert_eq!(second.take_recalled().len(), 1);
    let kept: Vec<Item> = items.iter().filter(|item| matches!(item, Item::Rule(_))).cloned().collect();
    put(&mut second, &kept);
    second.remove_stale().unwrap();
    let shown_now = shown();
    assert!(shown_now.contains("900:") && !shown_now.contains("2001:db8:4::"), "{shown_now}");
    assert!(shown_now.contains("all.forwarding = 0"), "the former value is restored:\n{shown_now}");
    second.clean().unwrap();
    assert_eq!(shown(), before);
}

#[test]
fn item_replaces_its_former_version() {
    let Some((_here, _there)) = Namespace::pair("item_replaces_its_former_version") else { return };
    let directory = tempfile::tempdir().unwrap();
    let mut host = host(&directory, &["here0"], Some(LinkId(1)));
    let link = link(&mut host, "here0").link;
    put(&mut host, &everything(link));
    let address = |prefix_length, preferred| {
        Item::Address(Address { link, address: "2001:db8:1::1".parse().unwrap(), prefix_length, preferred, dad: false })
    };
    let source = prefix("2001:db8:2::/64");
    put(
        &mut host,
        &[
            address(128, false),
            Item::Route(route("2001:db8:4::/48", NextHop::OnLink(link))),
            Item::Route(route("::/0", NextHop::Unreachable)),
            Item::Rule(PolicyRule {
                priority: 900,
                source,
                destination: Prefix::ALL,
                iif: None,
                table: RouteTable(5001),
            }),
            Item::ProxyNeighbour(ProxyNeighbour { link, address: "2001:db8:1::5".parse().unwrap(), router: false }),
            // An inner tunnel, and then a shorter path of the outer one.
            tunnel(8, 1360, "2001:db8:70::1", "2001:db8:80::/48"),
            Item::Route(route("2001:db8:80::/48", NextHop::Tunnel(TunnelId(8)))),
            tunnel(7, 1300, "2001:db8:f::7", "2001:db8:70::/48"),
        ],
    );
    let now = shown();
    for expected in [
        "2001:db8:1::1/128 scope global nodad deprecated",
        "\n2001:db8:4::/48 dev here0 metric 50",
        "unreachable default dev lo metric 50",
        "lookup 5001",
        "2001:db8:1::5 dev here0 proxy",
        "2001:db8:70::/48 dev lo metric 50 mtu 1300",
        "2001:db8:80::/48 dev lo metric 50 mtu 1360",
    ] {
        let (fact, found) = (expected.replace(' ', ""), now.replace(' ', ""));
        assert!(found.contains(&fact), "{expected} not in\n{now}");
    }
    assert!(!now.contains("lookup 5000") && !now.contains("2001:db8:1::1/64"), "{now}");

    let gone = tunnel(7, 1300, "2001:db8:f::7", "2001:db8:70::/48").key();
    host.execute([Output::Drop(gone)], |report| panic!("{report:?}"));
    assert!(shown().contains("unreachable 2001:db8:70::/48"), "a route without its tunnel");
}

#[test]
fn tentative_address_is_replaced_by_one_without_dad() {
    let Some((_here, there)) = Namespace::pair("tentative_address_is_replaced_by_one_without_dad") else { return };
    let directory = tempfile::tempdir().unwrap();
    let mut host = host(&directory, &["here0"], Some(LinkId(1)));
    let link = link(&mut host, "here0").link;
    run("sysctl -qw net.ipv6.conf.here0.accept_dad=1 net.ipv6.conf.here0.dad_transmits=20");
    run("ip -6 addr add 2001:db8:1::1/64 dev here0");
    assert!(run("ip -6 addr show dev here0").contains("2001:db8:1::1/64 scope global tentative"));
    let address = "2001:db8:1::1".parse().unwrap();
    put(&mut host, &[Item::Address(Address { link, address, prefix_length: 64, preferred: true, dad: false })]);
    there.enter();
    run("ip -6 addr add 2001:db8:1::2/64 dev there0 nodad");
    run("ping -6 -n -c 1 -W 2 2001:db8:1::1");
}

#[test]
fn refusal_has_the_kernels_error_text_and_keeps_the_order() {
    let Some((_here, _there)) = Namespace::pair("refusal_has_the_kernels_error_text_and_keeps_the_order") else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let mut host = host(&directory, &["here0"], None);
    let link = link(&mut host, "here0").link;
    let bad = NextHop::Gateway { link: LinkId(4_000_000), router: "fe80::1".parse().unwrap() };
    let puts = [
        Item::Route(route("2001:db8:5::/48", NextHop::OnLink(link))),
        Item::Route(route("2001:db8:6::/48", bad)),
        Item::Sysctl(SysctlSetting { link: Some(LinkId(4_000_000)), sysctl: Sysctl::Forwarding, value: 1 }),
        Item::Route(route("2001:db8:7::/48", NextHop::OnLink(link))),
    ];
    let outcomes = host.execute(puts.iter().cloned().map(Output::from), |report| panic!("{report:?}"));
    let keys: Vec<Key> = outcomes.iter().map(|outcome| outcome.key.clone()).collect();
    assert_eq!(keys, puts.iter().map(Item::key).collect::<Vec<_>>());
    let refused: Vec<bool> = outcomes.iter().map(|outcome| outcome.error.is_some()).collect();
    assert_eq!(refused, [false, true, true, false]);
    assert!(outcomes[1].error.as_deref().unwrap().contains("device"), "{:?}", outcomes[1]);
    host.clean().unwrap();
}

#[test]
fn ten_thousand_routes_are_installed_in_batches() {
    let Some((_here, _there)) = Namespace::pair("ten_thousand_routes_are_installed_in_batches") else { return };
    let directory = tempfile::tempdir().unwrap();
    let mut host = host(&directory, &["here0"], Some(LinkId(1)));
    let link = link(&mut host, "here0").link;
    let bits = |number: u128| 0x2001_0db8_u128 << 96 | number << 64;
    let items: Vec<Item> = (0..10_000)
        .map(|number| Prefix::new(std::net::Ipv6Addr::from_bits(bits(number)), 64).unwrap())
        .map(|destination| Item::Route(Route { destination, ..route("::/0", NextHop::OnLink(link)) }))
        .collect();
    let began = host.now();
    put(&mut host, &items);
    println!("10 000 routes put in {:?}", host.now().since(began));
    let began = host.now();
    host.remove_stale().unwrap();
    println!("10 000 routes compared in {:?}", host.now().since(began));
    let began = host.now();
    host.clean().unwrap();
    println!("10 000 routes removed in {:?}", host.now().since(began));
    assert_eq!(run("ip -6 route show table all proto 106"), "");
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn memory_of_ten_thousand_bindings() {
    let Some((_here, _there)) = Namespace::pair("memory_of_ten_thousand_bindings") else { return };
    let directory = tempfile::tempdir().unwrap();
    let mut host = host(&directory, &["here0"], Some(LinkId(1)));
    let resident = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap().to_owned();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    let before = resident();
    let began = host.now();
    for batch in 0..100u128 {
        let mut outputs = Vec::new();
        for number in batch * 100..(batch + 1) * 100 {
            let far = Prefix::new(std::net::Ipv6Addr::from_bits(0x2001_0db8_u128 << 96 | number << 64), 64).unwrap();
            let home = Prefix::host(std::net::Ipv6Addr::from_bits(0x2001_0db9_u128 << 96 | number));
            let id = TunnelId(number as u32 + 1);
            let Item::Tunnel(mut tunnel) = tunnel(id.0, 1400, "2001:db8:f::7", "2001:db8:70::/48") else { panic!() };
            tunnel.remote_prefixes = vec![home, far];
            tunnel.paths[0].remote = std::net::Ipv6Addr::from_bits(0x2001_0dba_u128 << 96 | number);
            outputs.push(Output::from(Item::Tunnel(tunnel)));
            outputs.push(Output::from(Item::Route(Route { destination: home, ..route("::/0", NextHop::Tunnel(id)) })));
            outputs.push(Output::from(Item::Route(Route { destination: far, ..route("::/0", NextHop::Tunnel(id)) })));
            outputs.push(Output::from(Item::JournalRecord(JournalRecord::Sequence(SequenceRecord {
                home_address: HomeAddress(home.address()),
                sequence: Sequence(3),
            }))));
        }
        let outcomes = host.execute(outputs, |report| panic!("{report:?}"));
        assert!(outcomes.iter().all(|outcome| outcome.error.is_none()));
        host.wait(Some(host.now())).unwrap();
    }
    println!("10 000 bindings put in {:?}, {} B each", host.now().since(began), (resident() - before) * 1024 / 10_000);
    let began = host.now();
    host.remove_stale().unwrap();
    println!("compared in {:?}", host.now().since(began));
}

#[test]
#[cfg(feature = "bpf")]
fn routes_into_bpf_tunnels_are_installed() {
    let test = "routes_into_bpf_tunnels_are_installed";
    let Some((_here, _there)) = Namespace::pair(test) else { return };
    netns::own_mounts();
    let directory = tempfile::tempdir().unwrap();
    let options = || netns::options(&directory, &["here0"]);
    let mut host = match roam6_linux::Host::new(options()) {
        Ok(host) => host,
        Err(error) => return println!("skipped: {test}: {error}"),
    };
    let link = link(&mut host, "here0").link;
    let local = "2001:db8::1".parse().unwrap();
    put(
        &mut host,
        &[
            Item::Address(Address { link, address: local, prefix_length: 64, preferred: true, dad: false }),
            tunnel(7, 1400, "2001:db8:f::7", "2001:db8:70::/48"),
            Item::Route(route("2001:db8:70::/48", NextHop::Tunnel(TunnelId(7)))),
        ],
    );
    let through = || run("ip -6 route show table all proto 106");
    let shown = through();
    assert!(shown.contains("2001:db8:70::/48 dev roam6 metric 50") && shown.contains("mtu 1400"), "{shown}");
    put(&mut host, &[tunnel(7, 1300, "2001:db8:f::7", "2001:db8:70::/48")]);
    assert!(through().contains("mtu 1300"), "{}", through());
    drop(host);

    assert!(through().contains("2001:db8:70::/48 dev roam6"), "it lasts while no daemon runs");
    let mut host = roam6_linux::Host::new(options()).unwrap();
    put(&mut host, &[tunnel(8, 1300, "2001:db8:f::8", "2001:db8:80::/48")]);
    put(&mut host, &[Item::Route(route("2001:db8:80::/48", NextHop::Tunnel(TunnelId(8))))]);
    host.remove_stale().unwrap();
    assert!(!through().contains("2001:db8:70::") && through().contains("2001:db8:80::/48 dev roam6"), "{}", through());
    host.clean().unwrap();
    assert_eq!(through(), "");
    assert!(!run("ip -o link").contains("roam6"));
}

#[test]
fn local_programs_use_the_route_that_fits_the_source_address() {
    let Some((_here, _there)) = Namespace::pair("local_programs_use_the_route_that_fits_the_source_address") else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let mut host = host(&directory, &["here0"], None);
    let link = link(&mut host, "here0").link;
    let table = RouteTable(5001);
    let gateway = NextHop::Gateway { link, router: "fe80::1".parse().unwrap() };
    let address = |text: &str, prefix_length| {
        Item::Address(Address { link, address: text.parse().unwrap(), prefix_length, preferred: true, dad: false })
    };
    put(
        &mut host,
        &[
            address("2001:db8:2::1", 64),
            Item::Route(Route { table, ..route("::/0", gateway) }),
            Item::Rule(PolicyRule {
                priority: 900,
                source: prefix("2001:db8:2::/64"),
                destination: Prefix::ALL,
                iif: None,
                table,
            }),
        ],
    );
    let way = run("ip -6 route get 2001:db8:9::9");
    assert!(way.contains("via fe80::1") && way.contains("src 2001:db8:2::1"), "{way}");
    host.clean().unwrap();
}

#[test]
fn short_carrier_loss_is_reported_as_loss_and_return() {
    let Some((here, there)) = Namespace::pair("short_carrier_loss_is_reported_as_loss_and_return") else { return };
    let directory = tempfile::tempdir().unwrap();
    let mut host = host(&directory, &["here0"], None);
    listen(&mut host, Duration::ZERO);
    let flaps = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&flaps, "link set there0 down\nlink set there0 up\n").unwrap();
    for _ in 0..4 {
        there.enter();
        run(&format!("ip -batch {}", flaps.path().display()));
        here.enter();
        let mut states = Vec::new();
        // The kernel delays announcements of a carrier by up to a second.
        let deadline = host.now() + Duration::from_secs(20);
        while states.last() != Some(&true) {
            assert!(host.now() < deadline, "nothing is reported after {states:?}");
            let inputs = listen(&mut host, Duration::from_millis(100));
            states.extend(inputs.into_iter().filter_map(|input| match input {
                Input::Link(event) => Some(event.up),
                _ => None,
            }));
        }
        assert!(states.contains(&false), "{states:?}");
    }
    host.clean().unwrap();
}

#[test]
fn source_filter_rejects_foreign_sources_with_an_icmp_error() {
    let test = "source_filter_rejects_foreign_sources_with_an_icmp_error";
    let Some((here, there)) = Namespace::pair(test) else { return };
    let directory = tempfile::tempdir().unwrap();
    let mut host = host(&directory, &["here0"], Some(LinkId(1)));
    let link = link(&mut host, "here0").link;
    run(
        "sysctl -qw net.ipv6.conf.all.forwarding=1 net.ipv6.icmp.ratelimit=0; ip -6 addr add 2001:db8:9::1/64 dev here0 nodad; \
         ip -6 route add 2001:db8:5::/48 via 2001:db8:9::9; ip -6 route add unreachable 2001:db8:99::/64",
    );
    there.enter();
    run("ip -6 addr add 2001:db8:9::9/64 dev there0 nodad; ip -6 route add default via 2001:db8:9::1");
    let sources = ["2001:db8:5::1", "2001:db8:5::2", "2001:db8:5:7f::2", "2001:db8:5:80::2"];
    sources.iter().for_each(|source| drop(run(&format!("ip -6 addr add {source}/128 dev there0 nodad"))));
    // The ICMPv6 code for a packet without a route, for each source.
    let codes = || -> Vec<u8> {
        there.enter();
        let capture = Capture::begin();
        let code_to = |source: &str| {
            run(&format!("ping -6 -q -c 1 -W 20 -I {source} 2001:db8:99::1 || true"));
            let errors = capture.take().into_iter().filter(|packet| packet[6] == 58 && packet[40] == 1);
            errors.map(|packet| packet[41]).next().unwrap_or(u8::MAX)
        };
        let codes = sources.iter().map(|source| code_to(source)).collect();
        here.enter();
        codes
    };
    assert_eq!(codes(), [0, 0, 0, 0]);
    let own = ["2001:db8:5::1", "2001:db8:9::1"].map(|address| address.parse().unwrap()).to_vec();
    let guard = Item::SourceFilter(SourceFilter { link, allowed: vec![prefix("2001:db8:5::/57")], own_addresses: own });
    here.enter();
    put(&mut host, std::slice::from_ref(&guard));
    assert_eq!(codes(), [5, 0, 0, 5]);
    run("ip -6 neigh flush all");
    assert_eq!(codes(), [5, 0, 0, 5], "also a neighbour that has to be resolved first");
    run("nft flush ruleset");
    host.remove_stale().unwrap();
    assert_eq!(codes(), [5, 0, 0, 5], "put again");
    host.execute([Output::Drop(guard.key())], |report| panic!("{report:?}"));
    assert_eq!(codes(), [0, 0, 0, 0]);
}
