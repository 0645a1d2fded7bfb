//! Kernel tunnel devices, and each back end with the other one as its peer: the wire format is the same (RFC 2473).

use crate::ipv4;
use crate::netns_host::{self, Host};
use crate::testbed::{BackEnd, CN, COA, HA, HOME, MNN, MNP, SECOND_COA, Testbed, arrives, at_home_agent, is_dropped};
use roam6_linux::tunnel::ip6tnl::Ip6Tnl;
use roam6_proto::contract::item::TunnelId;

fn obstacle() -> Option<String> {
    netns_host::obstacle().or_else(|| Host::new().enter(|| Ip6Tnl::open("probe").err()).map(|error| error.to_string()))
}

macro_rules! or_skip {
    ($name:literal) => {
        if let Some(why) = obstacle() {
            return println!("skipped: {}: {why}", $name);
        }
    };
}

const PAIRS: [(BackEnd, BackEnd); 3] =
    [(BackEnd::Kernel, BackEnd::Kernel), (BackEnd::Bpf, BackEnd::Kernel), (BackEnd::Kernel, BackEnd::Bpf)];

#[test]
fn bpf_and_ip6tnl_endpoints_interoperate() {
    or_skip!("bpf_and_ip6tnl_endpoints_interoperate");
    for (at_ha, at_mr) in PAIRS {
        let mut testbed = Testbed::with(at_ha, at_mr);
        let (cn, mnn) = (testbed.cn.udp(&format!("[{CN}]:5000")), testbed.mnn.udp(&format!("[{MNN}]:5000")));
        let (home, ha) = (testbed.mr.host.udp(&format!("[{HOME}]:5000")), testbed.ha.host.udp(&format!("[{HA}]:5000")));
        for (a, b) in [(&cn, &mnn), (&mnn, &cn), (&cn, &home), (&home, &cn), (&ha, &mnn), (&home, &ha)] {
            assert!(arrives(a, b, 500), "{at_ha:?} {at_mr:?}: {a:?} to {b:?}");
        }
        for (from, to, host, other) in [(&cn, &mnn, &testbed.cn, MNN), (&mnn, &cn, &testbed.mnn, CN)] {
            assert!(arrives(from, to, 1412), "1460 octets fit");
            assert!(is_dropped(from, to, 1413), "1461 do not");
            assert!(host.ip(&format!("route get {other}")).contains("mtu 1460"), "{at_ha:?} {at_mr:?}");
            assert!(arrives(from, to, 1413), "in fragments they do");
        }
        assert!(testbed.ha.count("encapsulated") + testbed.mr.count("decapsulated") > 0);
    }
}

#[test]
fn ipv4_passes_between_bpf_and_ip6tnl_endpoints() {
    or_skip!("ipv4_passes_between_bpf_and_ip6tnl_endpoints");
    for (at_ha, at_mr) in PAIRS {
        ipv4::passes(&ipv4::dressed(at_ha, at_mr), &format!("{at_ha:?} {at_mr:?}"));
    }
}

#[test]
fn ip6tnl_device_moves_in_place_and_drops_foreign_sources() {
    or_skip!("ip6tnl_device_moves_in_place_and_drops_foreign_sources");
    let mut testbed = Testbed::with(BackEnd::Kernel, BackEnd::Kernel);
    let (cn, mnn) = (testbed.cn.udp(&format!("[{CN}]:5000")), testbed.mnn.udp(&format!("[{MNN}]:5000")));
    let device = testbed.ha.act(|tunnels| tunnels.device(TunnelId(1)));
    for care_of in [SECOND_COA, COA, SECOND_COA] {
        testbed.bind(&[(care_of, 1, 1)]);
        assert_eq!(testbed.ha.act(|tunnels| tunnels.device(TunnelId(1))), device);
        assert!(arrives(&cn, &mnn, 10) && arrives(&mnn, &cn, 10), "{care_of}");
    }
    testbed.mnn.ip("address add 2001:db8:bad::1/128 dev mnn0 nodad");
    testbed.mr.host.ip("rule add from 2001:db8:bad::1 lookup 10 pref 99");
    assert!(is_dropped(&testbed.mnn.udp("[2001:db8:bad::1]:5000"), &cn, 10));
    assert!(arrives(&mnn, &cn, 10));
}

#[test]
fn ip6tnl_devices_outlive_the_daemon_until_removed_as_stale() {
    or_skip!("ip6tnl_devices_outlive_the_daemon_until_removed_as_stale");
    let mut testbed = Testbed::with(BackEnd::Kernel, BackEnd::Kernel);
    // Its number and all make a name that the kernel takes.
    testbed.ha.put(&at_home_agent(u32::MAX, ("2001:db8:5::77", "2001:db8:77::/52"), &[(SECOND_COA, 3, 1)]));
    let (cn, mnn) = (testbed.cn.udp(&format!("[{CN}]:5000")), testbed.mnn.udp(&format!("[{MNN}]:5000")));
    testbed.ha.tunnels = None;
    assert!(arrives(&cn, &mnn, 10) && arrives(&mnn, &cn, 10));
    let run = testbed.run.path().to_owned();
    testbed.ha.open(&run, &[]);
    assert_eq!(testbed.ha.act(|tunnels| tunnels.inventory()).unwrap(), [TunnelId(1), TunnelId(u32::MAX)]);
    testbed.ha.put(&at_home_agent(1, (HOME, MNP), &[(COA, 1, 1)]));
    testbed.ha.act(|tunnels| tunnels.remove_stale()).unwrap();
    assert_eq!(testbed.ha.act(|tunnels| tunnels.inventory()).unwrap(), [TunnelId(1)]);
    assert!(arrives(&cn, &mnn, 10));
    testbed.ha.act(|tunnels| tunnels.clean()).unwrap();
    assert!(!testbed.ha.host.ip("link show").contains("nemo"));
    assert_eq!(testbed.ha.host.ip("rule show").lines().count(), 2, "only the kernel's own rules are left");
}
