//! The kernel's own tunnels: what each needs to carry packets from agent to router and, where it supports that, back.

use super::{Chain, Forwarding, PLAIN_AGENT, PLAIN_ROUTER};
use crate::bed::{Host, host};
use crate::topology::nemo::HOME_AGENT;
use anyhow::{Result, ensure};
use std::fs;
use std::process::Command;

const SEGMENT: &str = "fc00:2::d6";
const WIREGUARD_PORT: u16 = 51820;
/// Without the Tunnel Encapsulation Limit option (RFC 2473 §4.1.1), which roam6 does not send either: outer packets of
/// the same length.
const IP6TNL: &str = "type ip6tnl mode ip6ip6 encaplimit none";
const WIREGUARD: &str = "type wireguard";
/// MTU of a WireGuard device on Ethernet: less its own 32 octets, UDP and IPv6.
const WIREGUARD_MTU: usize = 1420;

impl Forwarding {
    /// The reason why this machine cannot build such a chain.
    pub(crate) fn unavailable_reason(self) -> Result<Option<String>> {
        let device = match self {
            Forwarding::Ip6tnl => format!("{IP6TNL} local {HOME_AGENT} remote {PLAIN_ROUTER}"),
            Forwarding::WireGuard | Forwarding::Encrypted => WIREGUARD.to_owned(),
            _ => return Ok(None),
        };
        if self == Forwarding::WireGuard && host::run_command(Command::new("wg").arg("--version")).is_err() {
            return Ok(Some("wg is not installed: apt install wireguard-tools".to_owned()));
        }
        let trial = Host::new(&format!("{}-trial", self.name()))?;
        let made = trial.ip(&[&format!("link add tried0 {device}")]);
        // The first line has the reason; the others are about the command.
        Ok(made.err().map(|why| why.to_string().lines().take(1).collect()))
    }

    /// Whether packets of `octets` pass without fragmentation.
    pub(crate) fn fits(self, octets: usize) -> bool {
        !self.uses_workers() || octets <= WIREGUARD_MTU
    }
}

impl Chain {
    /// SRv6 with reduced encapsulation, towards the mobile network only.
    pub(super) fn set_up_seg6(&self) -> Result<()> {
        self.agent.ip(&[
            &format!("sr tunsrc set {HOME_AGENT}"),
            &format!("route add {SEGMENT}/128 via {PLAIN_ROUTER}"),
            &format!("route add 2001:db8:100::/56 encap seg6 mode encap.red segs {SEGMENT} via {PLAIN_ROUTER} dev h1"),
        ])?;
        self.router.ip(&[&format!("route add {SEGMENT}/128 encap seg6local action End.DT6 table 254 dev in0")])
    }

    /// IPv6-in-IPv6 (RFC 2473) between the same hosts as roam6's tunnel.
    pub(super) fn set_up_ip6tnl(&self) -> Result<()> {
        self.agent.ip(&[&format!("link add t0 {IP6TNL} local {HOME_AGENT} remote {PLAIN_ROUTER}")])?;
        self.router.ip(&[
            &format!("route add {HOME_AGENT}/128 via {PLAIN_AGENT}"),
            &format!("link add t0 {IP6TNL} local {PLAIN_ROUTER} remote {HOME_AGENT}"),
        ])?;
        self.route_into_tunnel()
    }

    /// By WireGuard, encrypted.
    pub(super) fn set_up_wireguard(&self) -> Result<()> {
        let (agent, router) = (create_wireguard_device(&self.agent)?, create_wireguard_device(&self.router)?);
        let ends =
            [(&self.agent, router, PLAIN_ROUTER, "2001:db8:100::/56"), (&self.router, agent, PLAIN_AGENT, "::/0")];
        for (host, peer, there, inside) in ends {
            let (port, endpoint) = (WIREGUARD_PORT.to_string(), format!("[{there}]:{WIREGUARD_PORT}"));
            let peer = ["peer", &peer, "endpoint", &endpoint, "allowed-ips", inside];
            host.output("wg", &[&["set", "t0", "listen-port", &port][..], &peer].concat())?;
        }
        self.route_into_tunnel()
    }

    /// Fails unless packets in both directions have passed the tunnel device.
    pub(super) fn check_tunnel(&self) -> Result<()> {
        for way in ["rx", "tx"] {
            let packets = self.agent.packet_count("t0", way)?;
            ensure!(packets > 0, "{}: packets bypass the tunnel", self.forwarding.name());
        }
        Ok(())
    }

    fn route_into_tunnel(&self) -> Result<()> {
        self.agent.ip(&["link set t0 up", "route add 2001:db8:100::/56 dev t0"])?;
        self.router.ip(&["link set t0 up", &format!("route delete default via {PLAIN_AGENT}"), "route add ::/0 dev t0"])
    }
}

/// Creates the device `t0` with a new private key; its public key.
fn create_wireguard_device(host: &Host) -> Result<String> {
    host.ip(&[&format!("link add t0 {WIREGUARD}")])?;
    let private = host.folder().join("private.key");
    fs::write(&private, host.output("wg", &["genkey"])?)?;
    host.output("wg", &["set", "t0", "private-key", &private.display().to_string()])?;
    Ok(host.output("wg", &["show", "t0", "public-key"])?.trim().to_owned())
}
