//! Two hosts and two providers on veth links, at the kernel's own speed: no frame passes this program.

use crate::bed::{Daemon, Host};
use crate::clock;
use crate::load::Endpoint;
use crate::sys::Offload;
use crate::topology::providers::{generate_hba_set, provider_router, shim_config, subscribe};
use anyhow::{Context, Result};
use serde_json::Value;
use std::net::{Ipv6Addr, UdpSocket};
use std::time::{Duration, Instant};

/// How long a context or a path change may take.
const TIMEOUT: Duration = Duration::from_secs(15);
/// An unsuccessful request is repeated after this time.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);
/// The payload that triggers a context.
const PAYLOAD: [u8; 1000] = [0; 1000];

/// The hosts.
pub(crate) struct VethPair {
    hosts: [VethHost; 2],
    _routers: [Host; 2],
}

struct VethHost {
    host: Host,
    daemon: Option<Daemon>,
    /// By provider; the first is the ULID.
    addresses: [Ipv6Addr; 2],
}

impl VethPair {
    /// Builds the networks; `label` is the suffix of host names.
    pub(crate) fn build(label: &str) -> Result<VethPair> {
        let routers = [provider_router(&format!("a{label}"))?, provider_router(&format!("b{label}"))?];
        let sides = [VethHost::build(&routers, 1, label)?, VethHost::build(&routers, 2, label)?];
        Ok(VethPair { hosts: sides, _routers: routers })
    }

    /// Starts the shim at both hosts and establishes a context for their ULIDs.
    pub(crate) fn start_shim(&mut self) -> Result<()> {
        for VethHost { host, daemon, .. } in &mut self.hosts {
            *daemon = Some(Daemon::start(host, &shim_config(host, "return_after = \"0s\"\n"))?);
        }
        let [left, right] = self.ends();
        let socket = left.host.in_namespace(|| UdpSocket::bind((left.address, 0)))??;
        for side in &self.hosts {
            let talk = || {
                socket.send_to(&PAYLOAD, (right.address, 9)).ok();
                side.context_has("state", &"established".into()).then_some(())
            };
            clock::wait_for(TIMEOUT, talk).context("no context was established")?;
        }
        Ok(())
    }

    /// Switches both hosts to the second provider, so that addresses are rewritten.
    pub(crate) fn switch_to_second_provider(&self) -> Result<()> {
        let [left, right] = &self.hosts;
        for (from, to) in [(left, right), (right, left)] {
            let ([_, local], [_, peer]) = (from.addresses, to.addresses);
            let path = [local, peer].map(|address| address.to_string());
            let mut asked: Option<Instant> = None;
            let rewrites = || {
                let rewrites = from.context_has("rewriting", &true.into());
                // The peer may have switched too, or may not have received the update yet.
                if !rewrites && asked.is_none_or(|asked| asked.elapsed() > RETRY_INTERVAL) {
                    asked = Some(clock::now());
                    let [local, peer] = &path;
                    from.daemon.as_ref()?.query(&["shim", "use", local, peer]).ok()?;
                }
                rewrites.then_some(())
            };
            clock::wait_for(TIMEOUT, rewrites).context("the path does not change")?;
        }
        Ok(())
    }

    /// Sets TCP segmentation offload (TSO) of the uplinks of both hosts.
    pub(crate) fn set_tso(&self, by_device: bool) -> Result<()> {
        for side in &self.hosts {
            for link in ["u0", "u1"] {
                side.host.set_offload(link, Offload::Tso, by_device)?;
            }
        }
        Ok(())
    }

    /// Both ULIDs.
    pub(crate) fn ends(&self) -> [Endpoint<'_>; 2] {
        self.hosts.each_ref().map(|VethHost { host, addresses: [ulid, _], .. }| Endpoint { host, address: *ulid })
    }
}

impl VethHost {
    /// Whether a field of the first context has this value.
    fn context_has(&self, name: &str, value: &Value) -> bool {
        let contexts = self.daemon.as_ref().and_then(|daemon| daemon.show::<Value>("contexts").ok());
        contexts.is_some_and(|contexts| contexts.pointer(&format!("/0/{name}")) == Some(value))
    }

    fn build(routers: &[Host; 2], number: u8, label: &str) -> Result<VethHost> {
        let host = Host::new(&format!("h{number}{label}"))?;
        let addresses = generate_hba_set(&host, number)?;
        for (provider, (router, address)) in routers.iter().zip(addresses).enumerate() {
            let (link, there) = (format!("u{provider}"), format!("h{number}"));
            let peer = format!("link add {link} type veth peer name {there} netns {}", router.name());
            host.ip(&[&peer, &format!("link set {link} up")])?;
            router.ip(&[&format!("link set {there} up")])?;
            subscribe((&host, &link), (router, &there), provider, address)?;
        }
        Ok(VethHost { host, daemon: None, addresses })
    }
}
