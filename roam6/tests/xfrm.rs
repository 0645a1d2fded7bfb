//! The kernel's IPsec (XFRM) as the mobile router's, ours as the home agent's: both say the same on the wire
//! (RFC 3776 §3, RFC 4303). Needs a kernel with ESP and Mobile IPv6.

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails at the assertion")]

mod testbed;

use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn6, bind, sendto, socket};
use roam6_wire::Sequence;
use roam6_wire::ip6::{self, Header, protocol};
use roam6_wire::mobility::{BindingUpdate, Message, MobilityOption, UpdateFlags};
use std::fs;
use std::net::{Ipv6Addr, SocketAddrV6};
use std::os::fd::AsRawFd;
use std::time::Duration;
use testbed::{Testbed, wait_for};

const HOME_AGENT: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 1);
const HOME: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 0x100);
const CARE_OF: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 0x100);

/// What makes the kernel of the mobile router's place do its part: ESP on updates after their Home Address option, which we
/// put there; and on acknowledgements behind the routing header (RFC 6275 §6.4), both checked by policy.
fn associations(testbed: &Testbed) -> String {
    let table: toml::Table = fs::read_to_string(testbed.file("mr.key")).unwrap().parse().unwrap();
    let pair = table.get("ipsec").unwrap();
    let [out, back] = ["to_home_agent", "to_mobile"].map(|direction| {
        let one = pair.get(direction).unwrap();
        let spi = one.get("spi").and_then(toml::Value::as_integer).unwrap();
        let key = one.get("key").and_then(toml::Value::as_str).unwrap().to_owned();
        let algorithms = format!("auth-trunc 'hmac(sha256)' 0x{key} 128 enc cipher_null ''");
        format!("proto esp spi {spi} mode transport {algorithms}")
    });
    format!(
        "ip xfrm state add src {CARE_OF} dst {HOME_AGENT} {out} && \
         ip xfrm policy add src {CARE_OF} dst {HOME_AGENT} dir out tmpl proto esp mode transport && \
         ip xfrm state add src {HOME_AGENT} dst {HOME} {back} && \
         ip xfrm state add src {HOME_AGENT} dst {HOME} proto route2 mode ro coa {CARE_OF} && \
         ip xfrm policy add src {HOME_AGENT} dst {HOME} dir in \
             tmpl src {HOME_AGENT} dst {HOME} proto esp mode transport \
             tmpl src {HOME_AGENT} dst {HOME} proto route2 mode ro"
    )
}

/// The mobile router's packet before the kernel puts it in ESP.
fn update(sequence: u16, lifetime_units: u16) -> Vec<u8> {
    let message = Message::BindingUpdate(BindingUpdate {
        sequence: Sequence(sequence),
        flags: UpdateFlags::ACKNOWLEDGE | UpdateFlags::HOME_REGISTRATION | UpdateFlags::ROUTER,
        lifetime_units,
        options: vec![MobilityOption::AlternateCareOf(CARE_OF)],
    });
    let header = Header::new(CARE_OF, HOME_AGENT).with_home_address(HOME);
    ip6::emit(&header, protocol::MOBILITY, &message.emit(HOME, HOME_AGENT))
}

fn send(testbed: &Testbed, packet: &[u8]) {
    testbed.router.enter(|| {
        let whole = socket(AddressFamily::Inet6, SockType::Raw, SockFlag::empty(), SockProtocol::Raw).unwrap();
        let end = |address| SockaddrIn6::from(SocketAddrV6::new(address, 0, 0, 0));
        // The policy looks at the source of the socket, not of what it is handed.
        bind(whole.as_raw_fd(), &end(CARE_OF)).unwrap();
        sendto(whole.as_raw_fd(), packet, &end(HOME_AGENT), MsgFlags::empty()).unwrap();
    });
}

#[test]
fn esp_interoperates_with_the_kernels_xfrm() {
    let test = "esp_interoperates_with_the_kernels_xfrm";
    let Some(testbed) = Testbed::new(test) else { return };
    testbed.enroll(&["--ipsec"]);
    testbed.router.shell(&format!(
        "sysctl -qw net.ipv6.conf.up0.accept_ra=0 && ip address add {CARE_OF}/64 dev up0 nodad && \
         ip address add {HOME}/128 dev lo home && ip route add default via 2001:db8:2::1"
    ));
    let made = testbed.router.command(&["sh", "-c", &associations(&testbed)]).output().unwrap();
    if !made.status.success() {
        return println!("skipped: {test}: {}", String::from_utf8_lossy(&made.stderr).trim());
    }
    // Counts acknowledgements of status 0 once the kernel has taken them out of ESP and found them good.
    testbed.router.shell(
        "nft 'table ip6 seen { chain taken { type filter hook input priority 0; \
         meta l4proto 135 @th,16,8 6 @th,48,8 0 counter; }; }'",
    );
    let _agent = testbed.start_agent();
    wait_for("the home agent", || !testbed.show("ha", "bindings").is_empty());
    let state =
        || testbed.router.shell("cat /proc/net/xfrm_stat | awk '$2'; ip -s xfrm state; nft list table ip6 seen");
    let bound = || testbed.show("ha", "bindings").contains(&CARE_OF.to_string());
    let mut sequence = 0;
    while !bound() {
        sequence += 1;
        send(&testbed, &update(sequence, 15));
        std::thread::sleep(Duration::from_millis(300));
        let counters = || testbed.show("ha", "counters");
        assert!(sequence < 40, "not bound by updates the kernel has put in ESP:\n{}\n{}", state(), counters());
    }
    let counted = |packets: u32| state().contains(&format!("counter packets {packets} "));
    if !counted(1) {
        panic!("the kernel does not take the acknowledgement out of our ESP:\n{}", state());
    }
    // An unprotected message is dropped.
    testbed.router.shell("ip xfrm policy flush");
    send(&testbed, &update(sequence + 1, 0));
    std::thread::sleep(Duration::from_millis(500));
    assert!(bound(), "an update in the clear changes nothing");
    assert!(testbed.show("ha", "counters").contains("dropped_not_authenticated"));
}
