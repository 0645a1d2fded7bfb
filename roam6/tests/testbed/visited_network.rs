//! Networks to visit that delegate prefixes or do not, by other people's servers and advertisers.
#![allow(clippy::indexing_slicing, reason = "a test fails at the assertion")]

use super::capture::{Capture, Dissected};
use super::{Running, Testbed, wait_for};
use std::fs::{self, File};
use std::net::Ipv6Addr;
use std::process::Stdio;

/// A visited network; all share one veth pair.
pub struct VisitedNetwork {
    /// Prefix of its link.
    pub link: &'static str,
    /// The /48 that its DHCPv6 server delegates from; empty without a server.
    pub pool: &'static str,
    /// Valid lifetime of delegated prefixes, seconds; the preferred lifetime is half of it.
    pub lease: u32,
}

pub const FIRST: VisitedNetwork = VisitedNetwork { link: "2001:db8:2::", pool: "2001:db8:b1::", lease: 600 };
pub const SECOND: VisitedNetwork = VisitedNetwork { link: "2001:db8:3::", pool: "2001:db8:b2::", lease: 600 };
pub const POOR: VisitedNetwork = VisitedNetwork { link: "2001:db8:2::", pool: "", lease: 0 };
/// Its leases are short and must be renewed.
pub const BRIEF: VisitedNetwork = VisitedNetwork { link: "2001:db8:2::", pool: "2001:db8:b3::", lease: 12 };
/// The prefix of its pool that a server delegates.
pub const UPPER: &str = "ff00";
/// The prefix that it delegates after a reconfiguration.
pub const LOWER: &str = "7f00";

/// An attachment of the mobile router to a visited network, with the servers of that network.
pub struct Attachment<'a> {
    testbed: &'a Testbed,
    network: &'static VisitedNetwork,
    _advertiser: Running,
    server: Option<Running>,
    capture: Option<Capture>,
}

impl<'a> Attachment<'a> {
    /// Attaches the mobile router to `network`.
    pub fn begin(testbed: &'a Testbed, network: &'static VisitedNetwork, name: &str) -> Attachment<'a> {
        let VisitedNetwork { link, pool, .. } = network;
        testbed.agent.shell(&format!(
            "sysctl -qw net.ipv6.conf.visit0.accept_dad=0 && ip -6 address flush dev visit0 scope global && \
             ip address add {link}1/64 dev visit0 nodad"
        ));
        let capture = Capture::begin(testbed, &testbed.router, "up0", name);
        testbed.agent.shell("ip link set visit0 up");
        wait_for("a link-local address", || {
            testbed.agent.shell("ip -6 -o addr show dev visit0 scope link").contains("fe80")
        });
        let advertiser = testbed.advertise(&format!("{link}/64"));
        let mut visit = Attachment { testbed, network, _advertiser: advertiser, server: None, capture: Some(capture) };
        if !pool.is_empty() {
            let shown = testbed.router.shell("ip -6 -o address show dev up0 scope link");
            let gateway = shown.split_whitespace().nth(3).and_then(|word| word.split_once('/')).unwrap().0.to_owned();
            testbed.agent.shell(&format!("ip route replace {pool}/48 via {gateway} dev visit0"));
            visit.delegate(UPPER);
        }
        visit
    }

    /// Restarts the DHCPv6 server without leases; it delegates this prefix of its pool.
    pub fn delegate(&mut self, prefix: &str) {
        self.delegate_no_more();
        self.server = Some(self.network.delegate(self.testbed, prefix));
    }

    /// Stops the DHCPv6 server.
    pub fn delegate_no_more(&mut self) {
        self.server = None;
    }

    /// Detaches the mobile router.
    pub fn end(self) -> Dissected {
        let testbed = self.testbed;
        self.end_after(|| {
            testbed.agent.shell("ip link set visit0 down && ip -6 address flush dev visit0");
            // The kernel announces it within a second. Packets sent until then are lost.
            wait_for("the loss of the carrier", || testbed.show("mr", "links").contains("down"));
        })
    }

    /// Ends the capture after `act`: all sources on the uplink must belong to this network or be link-local.
    pub fn end_after(mut self, act: impl FnOnce()) -> Dissected {
        act();
        let seen = self.capture.take().unwrap().end();
        let own = self.testbed.router.link_address("up0");
        let sent = seen.fields(&format!("eth.src == {own}"), &["ipv6.src", "frame.number", "frame.protocols"]);
        for frame in sent {
            let source: Ipv6Addr = frame[0][0].parse().unwrap();
            let local = source.is_unspecified() || source.is_unicast_link_local();
            assert!(local || self.network.owns(source), "{}: {frame:?}", seen.0.display());
        }
        seen.check();
        seen
    }
}

impl VisitedNetwork {
    fn owns(&self, address: Ipv6Addr) -> bool {
        let within = |prefix: &str, count: usize| {
            prefix.parse::<Ipv6Addr>().is_ok_and(|prefix| prefix.segments()[..count] == address.segments()[..count])
        };
        within(self.link, 4) || within(self.pool, 3)
    }

    /// Starts the DHCPv6 server; it is the only one, so clients need not wait for others.
    fn delegate(&self, testbed: &Testbed, prefix: &str) -> Running {
        let base = self.pool.trim_end_matches("::");
        let text = format!(
            "default-lease-time {0}; preferred-lifetime {1}; max-lease-time {0}; option dhcp6.preference 255;\n\
             subnet6 {2}/64 {{ prefix6 {base}:{prefix}:: {base}:{prefix}:: /56; }}\n",
            self.lease,
            self.lease / 2,
            self.link
        );
        let file = |kind: &str| testbed.file(&format!("dhcpd-{base}.{kind}"));
        fs::write(file("conf"), text).unwrap();
        fs::write(file("leases"), "").unwrap();
        let mut dhcpd = testbed.agent.command(&["dhcpd", "-6", "-f", "-q", "-cf"]);
        dhcpd.arg(file("conf")).arg("-lf").arg(file("leases")).arg("-pf").arg(file("pid")).arg("visit0");
        Running(dhcpd.stdout(Stdio::null()).stderr(File::create(file("log")).unwrap()).spawn().unwrap())
    }
}
