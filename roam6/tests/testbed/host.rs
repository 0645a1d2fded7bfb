//! A host inside that processes Router Advertisements, and its addresses.

use super::{Namespace, Testbed, wait_for};
use std::process::Command;

pub const PEER: &str = "2001:db8:9::9";
/// The node's identifier; `2001:db8:100::2` is its address in the mobile network.
pub const NODE: &str = "::2";
pub const HOME: &str = "2001:db8:100::2";
pub const SETTINGS: &str = "[mobile_router.care_of_prefixes]\nprefer = \"care-of\"\n";

/// A testbed without daemons, whose host inside processes Router Advertisements.
pub fn listening_testbed(test: &str) -> Option<Testbed> {
    for (program, word) in [("dhcpd", "--version"), ("tshark", "--version"), ("tcpdump", "--version")] {
        if Command::new(program).arg(word).output().is_err() {
            println!("skipped: {test}: {program} is missing");
            return None;
        }
    }
    let testbed = Testbed::new(test)?;
    testbed.agent.shell("ip link set visit0 down && ip -6 address flush dev visit0");
    testbed.node.shell("ip -6 address flush dev eth0 scope global && ip -6 route del default");
    listen(&testbed.node);
    testbed.enroll(&[]);
    Some(testbed)
}

/// From now on the node receives advertisements.
pub fn listen(node: &Namespace) {
    node.shell(&format!("sysctl -qw net.ipv6.conf.eth0.accept_ra=1 && ip token set {NODE} dev eth0"));
}

/// The node's addresses that begin so: whether each is preferred.
pub fn addresses(node: &Namespace, begin: &str) -> Vec<(String, bool)> {
    let shown = node.shell("ip -6 -o address show dev eth0 scope global");
    let read = |line: &str| {
        let address = line.split_whitespace().nth(3)?.split_once('/')?.0.to_owned();
        Some((address, !line.contains("deprecated") && !line.contains("tentative")))
    };
    shown.lines().filter_map(read).filter(|(address, _)| address.starts_with(begin)).collect()
}

/// Waits until the node has a preferred address that begins so, and the peer answers it there.
pub fn await_address(node: &Namespace, begin: &str) -> String {
    let found = || addresses(node, begin).into_iter().find(|(_, preferred)| *preferred);
    wait_for(&format!("a preferred address in {begin}"), || found().is_some());
    let address = found().unwrap().0;
    wait_for(&format!("a way from {address}"), || reaches(node, &address));
    address
}

pub fn reaches(node: &Namespace, from: &str) -> bool {
    node.command(&["ping", "-nqc1", "-W1", "-I", from, PEER]).output().unwrap().status.success()
}
