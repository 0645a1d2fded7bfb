//! The networks of the Shim6 experiments (RFC 5533): two hosts, two providers, a set of hash-based addresses for each host.
//!
//! ```text
//!        u0 ── provider a ── u0
//!   left                        right
//!        u1 ── provider b ── u1
//! ```
//!
//! Providers may reach each other: then each address of one host reaches each of the other.

use crate::bed::daemon::binary;
use crate::bed::host::run_command as output;
use crate::bed::{Daemon, Host, LinkEmulator, Port, Segment};
use crate::clock;
use crate::load::Endpoint;
use anyhow::{Context, Result, anyhow};
use roam6_proto::Report;
use roam6_sim::LinkSpec;
use serde_json::Value;
use std::net::Ipv6Addr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// How long contexts and path changes may take, with the longest Send Timeout measured.
const TIMEOUT: Duration = Duration::from_secs(40);

/// Parameters of an experiment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProviderSettings<'a> {
    /// One-way delay of each cable.
    pub(crate) delay: Duration,
    /// Configuration added to `[shim]` of both hosts.
    pub(crate) shim_config: &'a str,
    /// Suffix of all host names, for several networks at once.
    pub(crate) label: &'a str,
    /// Whether the providers reach each other, so that four pairs of locators are usable instead of two.
    pub(crate) peering: bool,
}

/// Two hosts and two providers.
pub(crate) struct Providers {
    /// All ports and segments.
    pub(crate) emulator: LinkEmulator,
    /// The left and the right host.
    pub(crate) hosts: [MultihomedHost; 2],
    spec: LinkSpec,
    /// The routers of provider a and provider b.
    pub(crate) routers: [Host; 2],
}

/// A host with an address of each provider.
pub(crate) struct MultihomedHost {
    /// The host.
    pub(crate) host: Host,
    /// Its roam6.
    pub(crate) daemon: Daemon,
    /// Its addresses of provider a (the ULID) and provider b.
    pub(crate) addresses: [Ipv6Addr; 2],
    ports: Vec<Port>,
    cables: Vec<Segment>,
}

impl Providers {
    /// Builds the networks and starts the daemons.
    pub(crate) fn build(settings: ProviderSettings<'_>) -> Result<Providers> {
        let emulator = LinkEmulator::new(1)?;
        let named = |name: &str| format!("{name}{}", settings.label);
        let routers = [provider_router(&named("provider-a"))?, provider_router(&named("provider-b"))?];
        let spec = LinkSpec { delay: settings.delay, ..LinkSpec::default() };
        let side = |name, number| {
            MultihomedHost::build(&emulator, &routers, (&named(name), number), spec, settings.shim_config)
        };
        let sides = [side("left", 1)?, side("right", 2)?];
        if settings.peering {
            connect_providers(&emulator, &routers, spec)?;
        }
        Ok(Providers { emulator, hosts: sides, spec, routers })
    }

    /// Both ULIDs as endpoints of traffic.
    pub(crate) fn ends(&self) -> [Endpoint<'_>; 2] {
        self.hosts.each_ref().map(|MultihomedHost { host, addresses: [ulid, _], .. }| Endpoint { host, address: *ulid })
    }

    /// Waits until both hosts have reported an event at or after `begin` that satisfies `wanted`; the time of the later
    /// one, microseconds since 1970.
    pub(crate) fn wait_both(&self, begin: u64, what: &str, wanted: impl Fn(&Report) -> bool) -> Result<u64> {
        let mut last = begin;
        for side in &self.hosts {
            last = last.max(side.wait(begin, what, &wanted)?);
        }
        Ok(last)
    }

    /// The provider of the current path, once it is the same at both hosts: on a busy machine one host may have
    /// explored another pair.
    pub(crate) fn current_provider(&self) -> Result<usize> {
        let both = || {
            let [left, right] = self.hosts.each_ref().map(MultihomedHost::current_provider);
            left.filter(|left| Some(*left) == right)
        };
        clock::wait_for(TIMEOUT, both).context("the hosts use different providers")
    }

    /// Makes a provider drop everything from now on; the time, microseconds since 1970.
    pub(crate) fn black_hole(&self, provider: usize) -> Result<u64> {
        self.shape(provider, LinkSpec { loss: 1.0, ..self.spec })
    }

    /// Makes a host's link to a provider drop everything that the host sends from now on; the time, microseconds since 1970.
    pub(crate) fn black_hole_from(&self, side: &MultihomedHost, provider: usize) -> Result<u64> {
        self.shape_from(side, provider, LinkSpec { loss: 1.0, ..self.spec })
    }

    /// Ends [`Providers::black_hole_from`]; the time, microseconds since 1970.
    pub(crate) fn restore_from(&self, side: &MultihomedHost, provider: usize) -> Result<u64> {
        self.shape_from(side, provider, self.spec)
    }

    fn shape_from(&self, side: &MultihomedHost, provider: usize, spec: LinkSpec) -> Result<u64> {
        self.emulator.shape_egress(*side.ports.get(provider).context("no such provider")?, spec);
        Ok(clock::unix_micros())
    }

    /// Makes a provider forward again; the time, microseconds since 1970.
    pub(crate) fn restore(&self, provider: usize) -> Result<u64> {
        self.shape(provider, self.spec)
    }

    /// Discards the ICMPv6 message (RFC 6069) by which each roam6 tells its local TCP that the path has changed.
    pub(crate) fn discard_path_change_icmp(&self) -> Result<()> {
        for MultihomedHost { host, addresses: [ulid, _], .. } in &self.hosts {
            let ulid = ulid.to_string();
            let discard = ["to", &ulid, "ipproto", "ipv6-icmp", "iif", "lo", "blackhole"];
            // Before the rule of the local table, which is therefore moved.
            host.output("ip", &[&["-6", "rule", "add", "pref", "1"], &discard[..]].concat())?;
            host.output("ip", &["-6", "rule", "add", "pref", "2", "lookup", "local"])?;
            host.output("ip", &["-6", "rule", "del", "pref", "0"])?;
        }
        Ok(())
    }

    fn shape(&self, provider: usize, spec: LinkSpec) -> Result<u64> {
        for side in &self.hosts {
            self.emulator.shape(*side.cables.get(provider).context("no such provider")?, spec);
        }
        Ok(clock::unix_micros())
    }

    /// Unplugs a host from a provider; the time, microseconds since 1970.
    pub(crate) fn unplug(&self, side: &MultihomedHost, provider: usize) -> Result<u64> {
        self.emulator.unplug(*side.ports.get(provider).context("no such provider")?)
    }

    /// Checksum errors that both hosts have counted.
    pub(crate) fn checksum_errors(&self) -> Result<u64> {
        let mut sum = 0;
        for side in &self.hosts {
            let text =
                side.host.output("nstat", &["-asz", "TcpInCsumErrors", "Udp6InCsumErrors", "Icmp6InCsumErrors"])?;
            sum += text.lines().filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).sum::<u64>();
        }
        Ok(sum)
    }
}

impl MultihomedHost {
    /// Waits until it has reported such an event at or after `begin`; its time, microseconds since 1970.
    pub(crate) fn wait(&self, begin: u64, what: &str, wanted: impl Fn(&Report) -> bool) -> Result<u64> {
        let event = self.daemon.events.wait_for(begin, TIMEOUT, wanted);
        Ok(event.with_context(|| format!("{}: {what} did not come", self.host.name()))?.unix_micros)
    }

    /// The provider from which its first context sends, once there is one.
    pub(crate) fn await_provider(&self) -> Result<usize> {
        clock::wait_for(TIMEOUT, || self.current_provider()).with_context(|| format!("{}: no path", self.host.name()))
    }

    /// The provider from which its first context sends.
    fn current_provider(&self) -> Option<usize> {
        let contexts: Value = self.daemon.show("contexts").ok()?;
        let local: Ipv6Addr = contexts.pointer("/0/path/local")?.as_str()?.parse().ok()?;
        self.addresses.iter().position(|address| *address == local)
    }

    fn build(
        emulator: &LinkEmulator,
        routers: &[Host; 2],
        (name, number): (&str, u8),
        spec: LinkSpec,
        shim: &str,
    ) -> Result<MultihomedHost> {
        let host = Host::new(name)?;
        let addresses = generate_hba_set(&host, number)?;
        let (mut ports, mut cables) = (Vec::new(), Vec::new());
        for (provider, (router, address)) in routers.iter().zip(addresses).enumerate() {
            let (link, there) = (format!("u{provider}"), format!("h{number}"));
            let port = emulator.add_port(&host, &link)?;
            cables.push(emulator.cable([port, emulator.add_port(router, &there)?], spec)?);
            ports.push(port);
            subscribe((&host, &link), (router, &there), provider, address)?;
        }
        let daemon = Daemon::start(&host, &shim_config(&host, shim)).with_context(|| format!("the shim of {name}"))?;
        Ok(MultihomedHost { host, daemon, addresses, ports, cables })
    }
}

/// The configuration of a host's shim, whose identity file is in the host's directory.
pub(crate) fn shim_config(host: &Host, extra: &str) -> String {
    let identity = host.folder().join("host.toml");
    format!("[shim]\ninterfaces = [\"u0\", \"u1\"]\nidentities = [\"{}\"]\n{extra}", identity.display())
}

/// A router of provider a or b.
pub(crate) fn provider_router(name: &str) -> Result<Host> {
    let router = Host::new(name)?;
    router.set_sysctl("ipv6/conf/all/forwarding", "1")?;
    router.set_sysctl("ipv6/conf/default/accept_dad", "0")?;
    Ok(router)
}

/// Connects the routers of the providers, and gives each the routes to the hosts' prefixes of the other.
fn connect_providers(emulator: &LinkEmulator, routers: &[Host; 2], spec: LinkSpec) -> Result<()> {
    let [a, b] = routers;
    emulator.cable([emulator.add_port(a, "peer")?, emulator.add_port(b, "peer")?], spec)?;
    for (router, own, other, prefixes) in [(a, 1, 2, "b"), (b, 2, 1, "a")] {
        let route = |host: u8| format!("route add 2001:db8:{prefixes}{host}::/64 via 2001:db8:ff::{other} dev peer");
        let address = format!("address add 2001:db8:ff::{own}/64 dev peer nodad");
        router.ip(&[&address, &route(1), &route(2)])?;
    }
    Ok(())
}

/// Gives both ends of the link between a host and the router of a provider their addresses, and the host its routes:
/// packets from `address` leave by this provider.
pub(crate) fn subscribe(
    (host, link): (&Host, &str),
    (router, there): (&Host, &str),
    provider: usize,
    address: Ipv6Addr,
) -> Result<()> {
    let gateway = Ipv6Addr::from_bits(address.to_bits() >> 64 << 64 | 0xff);
    let table = 100 + provider;
    router.ip(&[&format!("address add {gateway}/64 dev {there} nodad")])?;
    host.ip(&[
        &format!("address add {address}/64 dev {link} nodad"),
        &format!("route add default via {gateway} dev {link} table {table}"),
        &format!("route add default via {gateway} dev {link} metric {table}"),
    ])?;
    let (from, lookup) = (address.to_string(), table.to_string());
    host.output("ip", &["-6", "rule", "add", "from", &from, "lookup", &lookup, "priority", "1000"]).map(drop)
}

/// The addresses in the identity file of a host's shim.
pub(crate) fn identity_addresses(file: &Path) -> Result<Vec<Ipv6Addr>> {
    let shown = output(Command::new(binary()?).args(["cga", "show", "--json"]).arg(file))?;
    let shown: Value = serde_json::from_str(&shown)?;
    Ok(serde_json::from_value(shown.get("addresses").cloned().unwrap_or_default())?)
}

/// Generates an HBA set of two addresses, and the identity file of the daemon in the host's directory.
pub(crate) fn generate_hba_set(host: &Host, number: u8) -> Result<[Ipv6Addr; 2]> {
    let file = host.folder().join("host.toml");
    let prefixes = [format!("2001:db8:a{number}::/64"), format!("2001:db8:b{number}::/64")];
    let words = prefixes.iter().flat_map(|prefix| ["--prefix", prefix]);
    output(Command::new(binary()?).args(["hba", "generate"]).args(words).arg(&file))?;
    let addresses = identity_addresses(&file)?.try_into();
    addresses.map_err(|_| anyhow!("the set does not have one address in each prefix"))
}
