//! Home agent and mobile router in the middle of the chain.

use super::{Chain, Forwarding, Running};
use crate::bed::{Daemon, access_router, cpu_time_of, relay_of};
use crate::topology::bonding;
use crate::topology::nemo::{self, HOME_AGENT};
use anyhow::{Context, Result};
use roam6_proto::base::hex;
use serde_json::Value;
use std::fs;
use std::time::Duration;

/// Configuration of flow bindings and weights for the mobile router with two uplinks.
const FLOW_CONFIG: &str = "sharing = \"weights\"\n\n[[mobile_router.flow]]\nuplink = \"up1\"\nprotocol = \"udp\"\n\
    correspondent_ports = \"10000-10063\"\n\n[[mobile_router.flow]]\nuplink = \"up0\"\nprotocol = \"tcp\"\n\n\
    [[mobile_router.flow]]\nuplink = \"up0\"\ninside = \"10.0.0.0/8\"\n\n\
    [[mobile_router.flow]]\nuplink = \"up1\"\nfrom = \"in0\"\ndscp = \"ef\"\n";

/// A rule for flows that are not measured.
const DUPLICATE_RULE: &str = "\n[[mobile_router.flow]]\nuplink = [\"up0\", \"up1\"]\ndscp = \"va\"\nduplicate = 2\n";

/// The agent's IPv4 address on its link to the router, and the router's.
const AGENT4: &str = "203.0.113.1";
const ROUTER4: &str = "203.0.113.7";

impl Chain {
    /// Starts home agent and mobile router.
    pub(super) fn start_roam6(&self, accel: &str) -> Result<Running> {
        let visited = [("h1", "up0", "2001:db8:2::/64"), ("h2", "up1", "2001:db8:3::/64")];
        let (uplinks, shares) = match self.forwarding {
            Forwarding::FlowBinding => (&visited[..], FLOW_CONFIG.to_owned()),
            Forwarding::Duplicate => (&visited[..], FLOW_CONFIG.to_owned() + DUPLICATE_RULE),
            // The first rule that matches decides.
            Forwarding::Bonding => (
                &visited[..],
                FLOW_CONFIG.replacen("\n\n[[", &format!("\n{}\n[[", bonding::rule("all", bonding::BONDED)), 1),
            ),
            _ => (&visited[..1], String::new()),
        };
        let (agent_ipv4, router_ipv4) = self.assign_ipv4()?;
        let routers = if self.forwarding == Forwarding::Udp4 { &[] } else { uplinks };
        let radvds =
            routers.iter().map(|(interface, _, prefix)| access_router::advertise(&self.agent, interface, prefix));
        let radvds = radvds.collect::<Result<_>>()?;
        let uplinks: Vec<&str> = uplinks.iter().map(|(_, uplink, _)| *uplink).collect();
        let options = match self.forwarding {
            Forwarding::Encrypted => "encrypt = true\n",
            Forwarding::Bonding => "bond = true\n",
            _ => "",
        };
        let agent = format!(
            "{accel}\n[home_agent]\naddress = \"{HOME_AGENT}\"\nhome_prefixes = [\"2001:db8:1::/64\"]\n{options}\
             \n[[home_agent.mobile]]\nhome_address = \"{}\"\nprefixes = [\"{}/56\"]\nspi = {}\nkey = \"{}\"\n{agent_ipv4}",
            nemo::home_address(0),
            nemo::mobile_network(0),
            nemo::FIRST_SPI,
            hex::encode(&nemo::key()),
        );
        let agent = Daemon::start(&self.agent, &agent).context("the home agent")?;
        let mut router = accel.to_owned()
            + &nemo::mobile_router_config(&self.router, 0, &uplinks)?
            + if self.forwarding == Forwarding::Encrypted { "encrypt = true\n" } else { "" }
            + &router_ipv4
            + &shares;
        if self.forwarding == Forwarding::Udp6 {
            router = router.replace("interface = \"up0\"\n", "interface = \"up0\"\ntransport = \"udp\"\n");
        }
        let router = Daemon::start(&self.router, &router).context("the mobile router")?;
        Ok(Running { daemons: vec![agent, router], _radvds: radvds, ..Running::default() })
    }

    /// IPv4 alone between agent and router, if the tunnel is to be in UDP; what their configurations have for it.
    fn assign_ipv4(&self) -> Result<(String, String)> {
        if self.forwarding != Forwarding::Udp4 {
            return Ok((String::new(), String::new()));
        }
        self.agent.ip(&[&format!("address add {AGENT4}/24 dev h1")])?;
        self.router
            .ip(&[&format!("address add {ROUTER4}/24 dev up0"), &format!("route add default via {AGENT4} dev up0")])?;
        let agent = format!("\n[home_agent.ipv4]\naddress = \"{AGENT4}\"\n");
        Ok((agent, format!("home_agents_ipv4 = [\"{AGENT4}\"]\n")))
    }

    /// The daemons of the home agent and the mobile router, if it has any.
    pub(crate) fn daemons(&self) -> &[Daemon] {
        &self.running.daemons
    }

    /// The same, to be stopped and started.
    pub(crate) fn daemons_mut(&mut self) -> &mut [Daemon] {
        &mut self.running.daemons
    }

    /// Waits until the relays are connected.
    pub(crate) fn wait_for_relays(&self) -> Result<()> {
        let router = self.running.daemons.last().context("no daemon")?;
        bonding::wait_for_bearers(router)
    }

    /// Processor time that the relays have used so far; none if there are none.
    pub(crate) fn relay_cpu_time(&self) -> Result<Duration> {
        if self.forwarding != Forwarding::Bonding {
            return Ok(Duration::ZERO);
        }
        [&self.agent, &self.router].into_iter().map(|host| cpu_time_of(relay_of(host)?)).sum()
    }

    /// The number of bindings of the home agent.
    pub(super) fn binding_count(&self) -> Result<usize> {
        let agent = self.running.daemons.first().context("no daemon")?;
        Ok(agent.show::<Vec<Value>>("bindings")?.len())
    }

    /// The reason why frames are not taken at the driver, if XDP was requested: roam6 falls back to traffic control.
    pub(crate) fn xdp_fallback_reason(&self) -> Result<Option<String>> {
        if self.forwarding != Forwarding::Xdp {
            return Ok(None);
        }
        for (host, interface) in
            [(&self.agent, "h0"), (&self.agent, "h1"), (&self.router, "up0"), (&self.router, "in0")]
        {
            if !host.output("ip", &["link", "show", interface])?.contains("prog/xdp") {
                let log = fs::read_to_string(host.folder().join("roam6.log")).unwrap_or_default();
                let why = log.lines().rfind(|line| line.contains("driver")).unwrap_or("no reason in the log");
                return Ok(Some(format!("no program at the driver of {interface}: {why}")));
            }
        }
        Ok(None)
    }
}
