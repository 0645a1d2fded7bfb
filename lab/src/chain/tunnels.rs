//! The tunnels that a kernel may have of its own: what each needs to carry packets from agent to router, and, if it can be
//! asked, back.

use super::{Chain, Kind, PLAIN_AGENT, PLAIN_ROUTER};
use crate::bed::{Host, host};
use crate::topology::HOME_AGENT;
use anyhow::{Result, ensure};
use std::fs;
use std::process::Command;

const SEGMENT: &str = "fc00:2::d6";
const PORT: u16 = 51820;
/// Without the option that limits encapsulation (RFC 2473 §4.1.1), which roam6 does not send either: as many octets outside.
const IP6TNL: &str = "type ip6tnl mode ip6ip6 encaplimit none";
const WIREGUARD: &str = "type wireguard";
/// Octets of a packet that WireGuard leaves room for on Ethernet: less its own 32, and UDP and IPv6.
const WIREGUARD_MTU: usize = 1420;

impl Kind {
    /// Why there can be no such chain on this machine.
    pub(crate) fn obstacle(self) -> Result<Option<String>> {
        let device = match self {
            Kind::Ip6tnl => format!("{IP6TNL} local {HOME_AGENT} remote {PLAIN_ROUTER}"),
            Kind::WireGuard => WIREGUARD.to_owned(),
            _ => return Ok(None),
        };
        if self == Kind::WireGuard && host::run(Command::new("wg").arg("--version")).is_err() {
            return Ok(Some("wg is not installed: apt install wireguard-tools".to_owned()));
        }
        let trial = Host::new("trial")?;
        let made = trial.ip(&[&format!("link add tried0 {device}")]);
        // The first line says it; the others are about the command.
        Ok(made.err().map(|why| why.to_string().lines().take(1).collect()))
    }

    /// Whether packets of so many octets go through in one piece.
    pub(crate) fn carries(self, octets: usize) -> bool {
        self != Kind::WireGuard || octets <= WIREGUARD_MTU
    }
}

impl Chain {
    /// By segment routing in its reduced form, downwards alone.
    pub(super) fn tunnel_by_segments(&self) -> Result<()> {
        self.agent.ip(&[
            &format!("sr tunsrc set {HOME_AGENT}"),
            &format!("route add {SEGMENT}/128 via {PLAIN_ROUTER}"),
            &format!("route add 2001:db8:100::/56 encap seg6 mode encap.red segs {SEGMENT} via {PLAIN_ROUTER} dev h1"),
        ])?;
        self.router.ip(&[&format!("route add {SEGMENT}/128 encap seg6local action End.DT6 table 254 dev in0")])
    }

    /// By IPv6 in IPv6 (RFC 2473), between the same hosts as ours.
    pub(super) fn tunnel_by_ip6tnl(&self) -> Result<()> {
        self.agent.ip(&[&format!("link add t0 {IP6TNL} local {HOME_AGENT} remote {PLAIN_ROUTER}")])?;
        self.router.ip(&[
            &format!("route add {HOME_AGENT}/128 via {PLAIN_AGENT}"),
            &format!("link add t0 {IP6TNL} local {PLAIN_ROUTER} remote {HOME_AGENT}"),
        ])?;
        self.lead_into_tunnel()
    }

    /// By WireGuard, encrypted.
    pub(super) fn tunnel_by_wireguard(&self) -> Result<()> {
        let (agent, router) = (public_key(&self.agent)?, public_key(&self.router)?);
        let ends =
            [(&self.agent, router, PLAIN_ROUTER, "2001:db8:100::/56"), (&self.router, agent, PLAIN_AGENT, "::/0")];
        for (host, peer, there, inside) in ends {
            let (port, endpoint) = (PORT.to_string(), format!("[{there}]:{PORT}"));
            let peer = ["peer", &peer, "endpoint", &endpoint, "allowed-ips", inside];
            host.output("wg", &[&["set", "t0", "listen-port", &port][..], &peer].concat())?;
        }
        self.lead_into_tunnel()
    }

    /// Fails if what passed from end to end and back has not gone through the device of the tunnel both times.
    pub(super) fn check_tunnel(&self) -> Result<()> {
        for way in ["rx", "tx"] {
            let packets = self.agent.packets("t0", way)?;
            ensure!(packets > 0, "{}: packets pass outside of the tunnel", self.kind.name());
        }
        Ok(())
    }

    fn lead_into_tunnel(&self) -> Result<()> {
        self.agent.ip(&["link set t0 up", "route add 2001:db8:100::/56 dev t0"])?;
        self.router.ip(&["link set t0 up", &format!("route delete default via {PLAIN_AGENT}"), "route add ::/0 dev t0"])
    }
}

/// Of a new device `t0` with a new private key.
fn public_key(host: &Host) -> Result<String> {
    host.ip(&[&format!("link add t0 {WIREGUARD}")])?;
    let private = host.folder().join("private.key");
    fs::write(&private, host.output("wg", &["genkey"])?)?;
    host.output("wg", &["set", "t0", "private-key", &private.display().to_string()])?;
    Ok(host.output("wg", &["show", "t0", "public-key"])?.trim().to_owned())
}
