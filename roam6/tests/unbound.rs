//! A home agent with a virtual home network behind a provider's router, all real: packets for prefixes without a binding end at the
//! home agent, and one discovery request gets one reply (RFC 6275 §10.5, RFC 7084 WPD-5).

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails at the assertion")]

mod testbed;

use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn6, sendto, socket};
use roam6_wire::icmp6;
use roam6_wire::ip6::{self, Header, protocol};
use std::net::{Ipv6Addr, SocketAddrV6};
use std::os::fd::AsRawFd;
use std::time::Duration;
use testbed::{Namespace, Testbed, wait_or_report};

const PROVIDER: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 9);
const ANYCAST: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0xfdff, 0xffff, 0xffff, 0xfffe);

/// The home agent behind its provider, which routes the home prefix and the mobile network to it and is its default
/// router: the place where other tests have a mobile router.
fn place(test: &str) -> Option<Testbed> {
    let testbed = Testbed::new(test)?;
    testbed.router.shell(&format!(
        "sysctl -qw net.ipv6.conf.all.forwarding=1 && ip address add {PROVIDER}/64 dev up0 nodad && \
         ip route add 2001:db8:1::/64 via 2001:db8:2::1 && ip route add 2001:db8:100::/56 via 2001:db8:2::1"
    ));
    testbed.agent.shell(&format!("ip route add default via {PROVIDER}"));
    testbed.enroll(&[]);
    Some(testbed)
}

/// A counter of the network namespace.
fn counter(place: &Namespace, name: &str) -> u64 {
    let all = place.shell("cat /proc/net/snmp6");
    let line = all.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    line.unwrap_or(0)
}

#[test]
fn packets_for_unbound_addresses_end_at_the_home_agent() {
    let Some(testbed) = place("packets_for_unbound_addresses_end_at_the_home_agent") else { return };
    let _agent = testbed.start_agent();
    wait_or_report("ready", || testbed.logs().contains("ready"), || testbed.logs());
    for unbound in ["2001:db8:100::5", "2001:db8:1::999", "2001:db8:1::100"] {
        let text = testbed.router.ping(2, "56", unbound);
        assert!(!text.contains(" 0% packet loss") && text.contains("nreachable"), "{unbound}: {text}");
    }
    assert_eq!(counter(&testbed.router, "Ip6OutForwDatagrams"), 0, "no packet is sent back");
    assert_eq!(counter(&testbed.agent, "Ip6OutForwDatagrams"), 0, "nothing was sent back");
}

#[test]
fn a_dhaad_request_gets_one_reply() {
    let Some(testbed) = place("a_dhaad_request_gets_one_reply") else { return };
    let _agent = testbed.start_agent();
    wait_or_report("ready", || testbed.logs().contains("ready"), || testbed.logs());
    let request = icmp6::Message::HomeAgentRequest { identifier: 7, router: true };
    let message = request.emit(PROVIDER, ANYCAST);
    let packet = ip6::emit(&Header::new(PROVIDER, ANYCAST), protocol::ICMPV6, &message);
    testbed.router.enter(|| {
        let whole = socket(AddressFamily::Inet6, SockType::Raw, SockFlag::empty(), SockProtocol::Raw).unwrap();
        let end = SockaddrIn6::from(SocketAddrV6::new(ANYCAST, 0, 0, 0));
        sendto(whole.as_raw_fd(), &packet, &end, MsgFlags::empty()).unwrap();
    });
    let replies = || counter(&testbed.router, "Icmp6InType145");
    wait_or_report("a reply", || replies() > 0, || testbed.logs());
    // More would come by the packet going round.
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(replies(), 1);
    assert_eq!(counter(&testbed.router, "Ip6OutForwDatagrams"), 0, "the request was not forwarded");
    assert_eq!(counter(&testbed.router, "Icmp6InDestUnreachs"), 0, "and no error came with the reply");
}
