//! What neighbours on the home link see of a mobile router that is away and comes home, all real binaries (RFC 6275 §10.4.1,
//! §11.5.5).

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails at the assertion")]

mod testbed;

use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn6, sendto, socket};
use roam6_wire::Sequence;
use roam6_wire::ip6::{self, Header, protocol};
use roam6_wire::mobility::{BindingUpdate, Message, UpdateFlags};
use std::fs;
use std::net::{Ipv6Addr, SocketAddrV6};
use std::os::fd::AsRawFd;
use testbed::{Namespace, Testbed, wait_or_report};

const HOME_AGENT: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 1);
const HOME: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 0x100);
/// With the interface identifier of the home address.
const LINK_LOCAL: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0x100);
const CARE_OF: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 0x100);

/// A neighbour on the home link, `home0` at the home agent; it is `2001:db8:1::9`.
fn neighbour(testbed: &Testbed) -> Namespace {
    let neighbour = Namespace::new().unwrap();
    testbed.agent.shell(&format!(
        "ip link add home0 type bridge && ip link add port0 type veth peer name eth0 netns {} && \
         ip link set port0 master home0 && ip link set port0 up && ip link set home0 up && \
         ip address add 2001:db8:1::2/64 dev home0 nodad",
        neighbour.number()
    ));
    neighbour.shell(
        "sysctl -qw net.ipv6.conf.eth0.accept_ra=0 net.ipv6.conf.eth0.accept_dad=0 && ip link set eth0 up && \
         ip address add 2001:db8:1::9/64 dev eth0 nodad",
    );
    neighbour
}

/// Whose link-layer address `neighbour` has for `address`.
fn known(neighbour: &Namespace, address: Ipv6Addr) -> String {
    neighbour.shell(&format!("ip neigh show {address} dev eth0"))
}

/// Sends an update of another implementation's, which sets the L flag.
fn send_update(testbed: &Testbed, sequence: u16) {
    let flags = UpdateFlags::ACKNOWLEDGE | UpdateFlags::HOME_REGISTRATION | UpdateFlags::ROUTER;
    let message = Message::BindingUpdate(BindingUpdate {
        sequence: Sequence(sequence),
        flags: flags | UpdateFlags::LINK_LOCAL,
        lifetime_units: 15,
        options: Vec::new(),
    });
    let header = Header::new(CARE_OF, HOME_AGENT).with_home_address(HOME);
    let packet = ip6::emit(&header, protocol::MOBILITY, &message.emit(HOME, HOME_AGENT));
    testbed.router.enter(|| {
        let whole = socket(AddressFamily::Inet6, SockType::Raw, SockFlag::empty(), SockProtocol::Raw).unwrap();
        let end = SockaddrIn6::from(SocketAddrV6::new(HOME_AGENT, 0, 0, 0));
        sendto(whole.as_raw_fd(), &packet, &end, MsgFlags::empty()).unwrap();
    });
}

#[test]
fn a_link_local_home_address_is_defended_but_not_tunnelled() {
    let Some(testbed) = Testbed::new("a_link_local_home_address_is_defended_but_not_tunnelled") else { return };
    let neighbour = neighbour(&testbed);
    let table = "[[mobile]]\nhome_address = \"2001:db8:1::100\"\nprefixes = [\"2001:db8:100::/56\"]\nauth = \"none\"\n";
    fs::write(testbed.file("mobiles.toml"), table).unwrap();
    testbed
        .router
        .shell(&format!("ip address add {CARE_OF}/64 dev up0 nodad && ip route add default via 2001:db8:2::1"));
    let _agent = testbed.start_agent_more("home_link = \"home0\"\n");
    let mut sequence = 0;
    let bound = || {
        sequence += 1;
        send_update(&testbed, sequence);
        testbed.show("ha", "bindings").contains(&CARE_OF.to_string())
    };
    wait_or_report("a binding", bound, || testbed.logs());
    let ping = neighbour.shell(&format!("ping -c 1 -W 5 {LINK_LOCAL}%eth0; true"));
    let found = known(&neighbour, LINK_LOCAL);
    assert!(found.contains(&testbed.agent.link_address("home0")), "{found} {ping}");
    assert!(ping.contains("nreachable"), "{ping}");
}

#[test]
fn a_return_home_updates_the_neighbour_caches() {
    let Some(testbed) = Testbed::new("a_return_home_updates_the_neighbour_caches") else { return };
    let neighbour = neighbour(&testbed);
    testbed.enroll(&[]);
    let _agent = testbed.start_agent_more("home_link = \"home0\"\nadvertise = \"3s\"\n");
    let radvd = testbed.advertise("2001:db8:2::/64");
    let _router = testbed.start_router("");
    testbed.await_binding("2001:db8:2:");
    let [agent, own] =
        [(&testbed.agent, "home0"), (&testbed.router, "up0")].map(|(place, name)| place.link_address(name));
    let reaches = || neighbour.ping(1, "56", &HOME.to_string()).contains("1 received");
    wait_or_report("the home address", reaches, || testbed.logs());
    assert!(known(&neighbour, HOME).contains(&agent));

    drop(radvd);
    testbed.router.shell("ip link set up0 down");
    testbed.agent.shell("ip address flush dev visit0 scope global && ip link set visit0 master home0");
    testbed.router.shell("ip link set up0 up");
    // Without a packet from it, nor a solicitation.
    let is_known = || known(&neighbour, HOME).contains(&own);
    wait_or_report("the neighbour entry", is_known, || format!("{}\n{}", known(&neighbour, HOME), testbed.logs()));
    assert!(neighbour.ping(2, "56", &HOME.to_string()).contains(" received"));
}
