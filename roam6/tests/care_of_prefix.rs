//! The real binary as a mobile router whose nodes also use prefixes of the networks it visits: advertised, routed past
//! the tunnel, and over at once at a move. Server, advertiser and dissector are other people's.

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails at the assertion")]
#![allow(clippy::indexing_slicing, reason = "a test fails at the assertion")]

mod testbed;

use std::net::Ipv6Addr;
use std::process::{Command, Stdio};
use testbed::capture::{Capture, Dissected};
use testbed::host::{HOME, PEER, SETTINGS, addresses, await_address, listening_testbed, reaches};
use testbed::visited_network::{Attachment, BRIEF, FIRST, LOWER, POOR, SECOND};
use testbed::{Running, Testbed, run, wait_for};

/// The node sends from an address of a network that was left, and gets an ICMPv6 error at once.
fn is_told(testbed: &Testbed, former: &str) {
    let words = ["ping", "-nqc5", "-i0.3", "-W5", "-I", former, PEER];
    let output = testbed.node.command(&words).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!output.status.success() && text.contains(" errors, "), "{former}: {text}");
}

/// That the same advertisement says the one prefix is over and the other preferred.
fn check_advertisements(inside: &Dissected, former: &str, new: &str) {
    let names = ["icmpv6.opt.prefix", "icmpv6.opt.prefix.preferred_lifetime", "icmpv6.opt.prefix.valid_lifetime"];
    let advertised = inside.fields("icmpv6.type == 134", &names);
    let lifetimes = |message: &Vec<Vec<String>>, begin: &str| {
        let at = message[0].iter().position(|prefix| prefix.starts_with(begin))?;
        Some((message[1][at].parse::<u32>().unwrap(), message[2][at].parse::<u32>().unwrap()))
    };
    let both: Vec<_> =
        advertised.iter().filter_map(|one| Some((lifetimes(one, former)?, lifetimes(one, new)?))).collect();
    assert!(both.iter().all(|(former, _)| *former == (0, 0)), "{former}: {advertised:?}");
    let both = both.iter().any(|(_, (preferred, valid))| *preferred > 0 && valid > preferred && *valid <= 5400);
    assert!(both, "no advertisement of {former} and {new}: {advertised:?}");
}

#[test]
fn each_visited_network_delegates_a_care_of_prefix() {
    let Some(testbed) = listening_testbed("each_visited_network_delegates_a_care_of_prefix") else { return };
    let inside = Capture::begin(&testbed, &testbed.router, "in0", "inside");
    let _agent = testbed.start_agent();
    let mut router = testbed.start_router(SETTINGS);
    let visit = Attachment::begin(&testbed, &FIRST, "first");
    let former = await_address(&testbed.node, "2001:db8:b1:");
    testbed.await_binding("2001:db8:2:");
    wait_for("a way from home", || reaches(&testbed.node, HOME));
    assert_eq!(addresses(&testbed.node, HOME), [(HOME.to_owned(), false)], "the direct path is preferred");
    // The rest of the prefix, beyond the node's link, is unreachable.
    let beyond = beyond(&former);
    let words = ["ping", "-nqc1", "-W20", "-I", PEER, &beyond];
    let text = String::from_utf8(testbed.agent.command(&words).output().unwrap().stdout).unwrap();
    assert!(text.contains("+1 errors"), "{text}");

    // The node continues to send from the address.
    let words = ["ping", "-nq", "-i", "0.02", "-I", &former, PEER];
    let talk = Running(testbed.node.command(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let before = echoes(&testbed);
    wait_for("a talk", || echoes(&testbed) > before + 10);
    let first = visit.end();
    assert!(first.count(&format!("icmpv6.type == 128 && ipv6.src == {former} && !(ipv6.nxt == 41)")) > 5);
    assert!(first.count(&format!("icmpv6.type == 128 && ipv6.src == {HOME} && ipv6.nxt == 41")) > 0);
    assert_eq!(first.count(&format!("icmpv6.type == 128 && ipv6.src == {former} && ipv6.nxt == 41")), 0);
    assert_eq!(first.count(&format!("icmpv6.type == 128 && ipv6.src == {HOME} && !(ipv6.nxt == 41)")), 0);
    let probes = format!("icmpv6.type == 128 && !(icmpv6.type == 1) && ipv6.dst == {beyond}");
    assert_eq!(first.count(&probes), 1, "no packet loops");
    check_delegation(&first);

    let visit = Attachment::begin(&testbed, &SECOND, "second");
    await_address(&testbed.node, "2001:db8:b2:");
    // The same advertisement deprecates it, but the kernel does so a little later, in a thread of its own.
    wait_for("the former address deprecated", || {
        addresses(&testbed.node, &former).iter().all(|(_, preferred)| !preferred)
    });
    assert_eq!(addresses(&testbed.node, &former), [(former.clone(), false)], "deprecated, not removed");
    // The kernel answers a few times a second only (RFC 4443 §2.4 (f)).
    drop(talk);
    is_told(&testbed, &former);
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
    let unreachable = format!("icmpv6.type == 1 && icmpv6.code == 5 && ipv6.dst == {former}");
    assert!(inside.count(&unreachable) > 0, "source address failed ingress/egress policy");
}

/// Echo requests that the peer has received.
fn echoes(testbed: &Testbed) -> u32 {
    testbed.agent.shell("nstat -az Icmp6InEchos | awk '/Echos/ { print $2 }'").trim().parse().unwrap()
}

/// An address of the same delegated prefix, on a link that does not exist.
fn beyond(address: &str) -> String {
    let address: Ipv6Addr = address.parse().unwrap();
    Ipv6Addr::from_bits(address.to_bits() | 0x77 << 64).to_string()
}

/// The server was solicited, it replied, and the kernel sent no Port Unreachable.
fn check_delegation(uplink: &Dissected) {
    assert!(uplink.count("dhcpv6.msgtype == 1") > 0 && uplink.count("dhcpv6.msgtype == 7") > 0);
    assert!(uplink.count("dhcpv6.iaprefix.pref_addr") > 0);
    // A daemon that releases a prefix at its end does not wait for the answer.
    let released = uplink.fields("dhcpv6.msgtype == 8", &["frame.number"]).into_iter().next();
    let before = released.map_or(String::new(), |frame| format!(" && frame.number < {}", frame[0][0]));
    assert_eq!(uplink.count(&format!("icmpv6.type == 1 && icmpv6.code == 4{before}")), 0, "port unreachable");
}

#[test]
fn without_dhcpv6_pd_the_visited_link_is_shared_by_nd_proxy() {
    let Some(testbed) = listening_testbed("without_dhcpv6_pd_the_visited_link_is_shared_by_nd_proxy") else {
        return;
    };
    let inside = Capture::begin(&testbed, &testbed.router, "in0", "inside");
    let _agent = testbed.start_agent();
    let _router = testbed.start_router(SETTINGS);
    let visit = Attachment::begin(&testbed, &POOR, "poor");
    let former = await_address(&testbed.node, "2001:db8:2:");
    wait_for("a way from home", || reaches(&testbed.node, HOME));
    let poor = visit.end();
    assert!(poor.count(&format!("icmpv6.type == 128 && ipv6.src == {former} && !(ipv6.nxt == 41)")) > 0);
    let answered = format!("icmpv6.type == 136 && icmpv6.nd.na.target_address == {former} && ipv6.dst != ff02::1");
    assert!(poor.count(&answered) > 0, "the router of the visited link found the node by proxy");

    let visit = Attachment::begin(&testbed, &SECOND, "second");
    await_address(&testbed.node, "2001:db8:b2:");
    is_told(&testbed, &former);
    check_delegation(&visit.end());
    let inside = inside.end();
    inside.check();
    check_advertisements(&inside, "2001:db8:2:", "2001:db8:b2:");
    let shared = inside.fields("icmpv6.type == 134 && icmpv6.nd.ra.flag.p == 1", &["icmpv6.opt.prefix.flag.l"]);
    assert!(shared.len() >= 2, "the P flag announces a proxy (RFC 4389 section 4.1.3.3)");
    let unreachable = format!("icmpv6.type == 1 && icmpv6.code == 5 && ipv6.dst == {former}");
    assert!(inside.count(&unreachable) > 0, "source address failed ingress/egress policy");
}

#[test]
fn a_dhcpv6_pd_lease_changes_and_expires() {
    let Some(testbed) = listening_testbed("a_dhcpv6_pd_lease_changes_and_expires") else { return };
    let inside = Capture::begin(&testbed, &testbed.router, "in0", "inside");
    let _agent = testbed.start_agent();
    let _router = testbed.start_router(SETTINGS);
    let mut visit = Attachment::begin(&testbed, &BRIEF, "brief");
    let former = await_address(&testbed.node, "2001:db8:b3:ff00");
    visit.delegate(LOWER);
    let new = await_address(&testbed.node, "2001:db8:b3:7f00");
    let over = |address: &str| addresses(&testbed.node, address).iter().all(|(_, preferred)| !preferred);
    wait_for("the former prefix over", || over(&former));

    visit.delegate_no_more();
    let lease =
        || testbed.show("mr", "prefixes").lines().find(|row| row.starts_with("2001:db8:b3:7f00")).map(str::to_owned);
    wait_for("the lease over", || lease().is_none_or(|row| row.ends_with("withdrawn")));
    wait_for("known inside", || over(&new));
    wait_for("a way from home", || reaches(&testbed.node, HOME));
    is_told(&testbed, &new);
    visit.end().check();
    inside.end().check();
}
