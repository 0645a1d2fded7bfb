//! Invariants of a NEMO world, checked after every event.
//!
//! The checks observe from outside: packets, the forwarding state of hosts and the views of engines. They keep a
//! binding cache of their own as the reference (RFC 3963 §6.2, RFC 6275 §9.5.1, §10.3).

use crate::failure::ensure;
use crate::nemo::binding_messages::{self, Acknowledgement, BindingMessage, OtherCareOf, Update};
use crate::nemo::topology::{MobileRouterHost, Topology};
use crate::net::{HostId, Observation};
use core::time::Duration;
use roam6_proto::contract::item::{JournalKey, JournalRecord, NextHop, Route, RouteTable, TunnelId};
use roam6_proto::contract::report::NemoReport;
use roam6_proto::contract::view::{BindingRole, BindingState, BindingView};
use roam6_proto::{Item, Key, Report, Time};
use roam6_wire::mobility::Status;
use roam6_wire::{Bid, HomeAddress, Ipv4Endpoint, Prefix, Sequence};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Tolerance: clocks differ, and time passes between an acknowledgement and its check.
const SLACK: Duration = Duration::from_secs(1);
/// Longest time that an update may be in transit, or queued at the home agent, and still cause forwarding.
const MAX_UPDATE_AGE: Duration = Duration::from_secs(15);
/// Time in which a restarted home agent must repair its state.
const STARTUP_TIME: Duration = Duration::from_secs(1);
/// Updates remembered of each mobile router.
const MAX_UPDATES_KEPT: usize = 64;
/// Items of a host at most.
const MAX_ITEMS: usize = 200;
/// Timers of an engine at most.
const MAX_TIMERS: usize = 100;

/// The reference model and counters.
#[derive(Debug, Default)]
pub struct Invariants {
    /// The last sequence number of each mobile router.
    sequences: BTreeMap<HostId, Sequence>,
    sent_updates: BTreeMap<HomeAddress, Vec<(Time, Update)>>,
    cache: BTreeMap<(HostId, HomeAddress), CachedBinding>,
    grants: BTreeMap<(HostId, HomeAddress), BTreeMap<Ipv6Addr, Time>>,
    started: BTreeMap<HostId, Time>,
    /// Until when mobile routers may count as registered: from the sending of the update (RFC 6275 §11.7.3).
    accepted_wrongly: BTreeMap<HostId, Time>,
    /// Sum of wall clock steps: lifetimes of a journal are wrong by as much.
    clock_steps: Duration,
    /// Acknowledgements of home agents: destination, status, sequence number.
    acknowledgements: BTreeSet<(Ipv6Addr, HomeAddress, u8, Sequence)>,
    /// Whether nothing may leave by a tunnel unencrypted.
    pub encrypted: bool,
    /// Packets that left by tunnels while that is so.
    pub sealed: u64,
    /// Accepted updates.
    pub acknowledged: u64,
    /// Refused updates.
    pub refused: u64,
}

/// A binding of the reference cache.
#[derive(Debug, Clone)]
struct CachedBinding {
    care_of: BTreeSet<Ipv6Addr>,
    sequence: Sequence,
    ends: Time,
}

impl Invariants {
    /// Checks all invariants after one event.
    ///
    /// # Errors
    /// The violated invariant.
    pub fn check(&mut self, topology: &mut Topology, observations: &[Observation]) -> Result<(), String> {
        let now = topology.world.now();
        for observation in observations {
            match observation {
                Observation::ClockStepped(step) => self.clock_steps += *step,
                Observation::Started(host) => {
                    self.started.insert(*host, now);
                    self.sequences.remove(host);
                    self.accepted_wrongly.remove(host);
                    self.reload_cache(topology, *host);
                }
                Observation::Reported(
                    host,
                    Report::Nemo(NemoReport::AcknowledgementReceived { home_agent, status, sequence, lifetime }),
                ) => {
                    self.check_replayed_acknowledgement(topology, (*host, *home_agent), (*status, *sequence))?;
                    self.note_accepted(topology, *host, *sequence, *lifetime);
                }
                Observation::Killed(_)
                | Observation::Looping(_)
                | Observation::Reported(..)
                | Observation::PacketLeft(..)
                | Observation::Roamed(..) => {}
                Observation::Sent(host, packet) => match binding_messages::parse(packet) {
                    Some(BindingMessage::Update(update)) => self.check_update(now, *host, update, topology)?,
                    Some(BindingMessage::Acknowledgement(ack)) => {
                        self.check_acknowledgement(now, *host, &ack, topology)?
                    }
                    None => {}
                },
                Observation::Tunnelled(host, tunnel, remote) => {
                    self.sealed += u64::from(self.encrypted);
                    self.check_tunnelled(now, topology, (*host, *tunnel), *remote)?
                }
                Observation::Handled(host) => self.check_view(now, topology, *host)?,
            }
        }
        Ok(())
    }

    /// Whether a home agent has a binding with a care-of address away from home.
    pub fn is_bound(&self, now: Time, home_address: HomeAddress) -> bool {
        let elsewhere = |bound: &CachedBinding| bound.care_of.iter().any(|care_of| *care_of != home_address.0);
        self.cache.iter().any(|((_, home), bound)| *home == home_address && bound.ends > now && elsewhere(bound))
    }

    /// Every uplink of the mobile router is registered, and packets to its care-of address arrive there, through its own
    /// NAT.
    ///
    /// # Errors
    /// The uplink of which this is not so.
    pub fn check_uplinks(now: Time, topology: &Topology, mobile: &MobileRouterHost) -> Result<(), String> {
        let router = topology.world.host(mobile.host);
        let views: Vec<_> = topology.agents.iter().map(|agent| topology.world.host(agent.host).view(now)).collect();
        for (bid, link) in (1..).map(Bid).zip(&mobile.uplinks) {
            let own = |binding: &&BindingView| {
                let ours =
                    (binding.role.clone(), binding.home_address) == (BindingRole::HomeAgent, mobile.home_address);
                ours && binding.bid == bid
            };
            let end = views.iter().flat_map(|view| &view.bindings).find(own).and_then(tunnel_end);
            let arrives = end.is_some_and(|end| router.kernel.addresses(*link).contains(&topology.origin(end)));
            ensure!(arrives, "{}: uplink {bid} is registered at {end:?}", mobile.home_address);
        }
        Ok(())
    }

    fn check_update(&mut self, now: Time, host: HostId, update: Update, topology: &Topology) -> Result<(), String> {
        let Update { home_address, sequence, .. } = update;
        let name = &topology.world.host(host).name;
        let mut mobiles = topology.mobiles.iter();
        let is_own = mobiles.any(|mobile| mobile.host == host && mobile.home_address == home_address);
        ensure!(is_own, "{name} sends an update for {home_address}");
        if let Some(last) = self.sequences.insert(host, sequence) {
            ensure!(sequence.is_newer_than(last), "{name} sends sequence number {sequence} after {last}");
        }
        let known = self.sent_updates.entry(update.home_address).or_default();
        if known.len() >= MAX_UPDATES_KEPT {
            known.remove(0);
        }
        known.push((now, update));
        Ok(())
    }

    fn check_acknowledgement(
        &mut self,
        now: Time,
        host: HostId,
        ack: &Acknowledgement,
        topology: &mut Topology,
    ) -> Result<(), String> {
        let Some(index) = topology.agents.iter().position(|agent| agent.host == host) else {
            return Err(format!("{} is no home agent", topology.world.host(host).name));
        };
        let agent = topology.agents.get(index).map_or(Ipv6Addr::UNSPECIFIED, |agent| agent.address);
        self.acknowledgements.insert((agent, ack.home_address, ack.status, ack.sequence));
        if ack.status >= 128 {
            self.refused += 1;
            // A de-registration the journal did not take ends forwarding all the same, until a restart at most.
            let deregistration =
                self.find_update(ack.home_address, ack.sequence).is_some_and(|(_, update)| update.is_deregistration());
            if deregistration && ack.status == Status::INSUFFICIENT_RESOURCES.0 {
                self.cache.remove(&(host, ack.home_address));
            }
            return Ok(());
        }
        self.acknowledged += 1;
        let Some(mobile) = topology.mobiles.iter().position(|mobile| mobile.home_address == ack.home_address) else {
            return Err(format!("binding of a stranger, {}, acknowledged", ack.home_address));
        };
        let Some((sent, update)) = self.find_update(ack.home_address, ack.sequence).cloned() else {
            return Err(format!("update {} of {} acknowledged, but never sent", ack.sequence, ack.home_address));
        };
        if ack.lifetime.is_zero() || update.is_deregistration() {
            self.cache.remove(&(host, ack.home_address));
            self.grant(now, host, ack.home_address, (&BTreeSet::new(), OtherCareOf::End), Duration::ZERO);
            return Ok(());
        }
        topology.announce(mobile, index);
        let known = self.cache.get(&(host, ack.home_address)).filter(|bound| bound.ends > now);
        if let Some(known) = known.filter(|known| !ack.sequence.is_newer_than(known.sequence)) {
            return Err(format!(
                "update {} of {} acknowledged after {}",
                ack.sequence, ack.home_address, known.sequence
            ));
        }
        self.check_forwarding_state(now, host, ack, topology)?;
        let installed = installed_care_of(topology, host, ack.home_address);
        let asked: BTreeSet<Ipv6Addr> = update.care_of.iter().map(|(_, address)| *address).collect();
        let mut care_of: BTreeSet<Ipv6Addr> = installed.intersection(&asked).copied().collect();
        ensure!(!care_of.is_empty(), "update {} of {} acknowledged without a path", ack.sequence, ack.home_address);
        // Of those that stay, some may be of a former update whose acknowledgement this one replaced.
        let former = self.updates(ack.home_address).filter(|(_, former)| !former.sequence.is_newer_than(ack.sequence));
        let known = former.flat_map(|(_, former)| former.care_of.iter().map(|(_, address)| *address));
        let staying: BTreeSet<Ipv6Addr> = known.filter(|address| installed.contains(address)).collect();
        let is_granted = |address: &Ipv6Addr| {
            self.granted_until((host, ack.home_address), *address).is_some_and(|until| until > now)
        };
        let granted = match update.others {
            OtherCareOf::End => care_of.clone(),
            OtherCareOf::Stay => {
                staying.iter().copied().filter(|one| care_of.contains(one) || !is_granted(one)).collect()
            }
            OtherCareOf::Refreshed => staying.clone(),
        };
        self.grant(now, host, ack.home_address, (&granted, update.others), ack.lifetime);
        if update.others != OtherCareOf::End {
            care_of.extend(staying);
        }
        // The mobile router counts from when it sent, the home agent from when it received (RFC 6275 §11.7.3).
        let bound = CachedBinding { care_of, sequence: ack.sequence, ends: sent + ack.lifetime };
        self.cache.insert((host, ack.home_address), bound);
        Ok(())
    }

    /// A mobile router accepts only acknowledgements that its home agent has sent.
    fn check_replayed_acknowledgement(
        &self,
        topology: &Topology,
        (host, home_agent): (HostId, Ipv6Addr),
        (status, sequence): (u8, Sequence),
    ) -> Result<(), String> {
        let Some(mobile) = topology.mobiles.iter().find(|mobile| mobile.host == host) else { return Ok(()) };
        let was_sent = self.acknowledgements.contains(&(home_agent, mobile.home_address, status, sequence));
        let name = &topology.world.host(host).name;
        ensure!(was_sent, "{name} believes status {status} for {sequence}, never sent");
        Ok(())
    }

    fn note_accepted(&mut self, topology: &Topology, host: HostId, sequence: Sequence, lifetime: Duration) {
        let Some(mobile) = topology.mobiles.iter().find(|mobile| mobile.host == host) else { return };
        if let Some((sent, _)) = self.find_update(mobile.home_address, sequence) {
            let until = *sent + lifetime;
            let known = self.accepted_wrongly.entry(host).or_insert(until);
            *known = until.max(*known);
        }
    }

    /// A mobile router shows no binding beyond the granted lifetime.
    fn check_cached(&self, now: Time, topology: &Topology, host: HostId) -> Result<(), String> {
        let ended = |until: &&Time| now > **until + SLACK;
        let Some(until) = self.accepted_wrongly.get(&host).filter(ended) else { return Ok(()) };
        let state = topology.world.host(host);
        let view = state.view(now);
        match view
            .bindings
            .iter()
            .any(|binding| binding.role == BindingRole::MobileRouter && binding.state == BindingState::Bound)
        {
            true => Err(format!("{} believes in a binding that ended at {until}", state.name)),
            false => Ok(()),
        }
    }

    /// No acknowledged binding without forwarding state and a journal record.
    fn check_forwarding_state(
        &self,
        now: Time,
        host: HostId,
        ack: &Acknowledgement,
        topology: &mut Topology,
    ) -> Result<(), String> {
        let far: Vec<Prefix> = mobile_prefixes(topology, ack.home_address);
        let world = &mut topology.world;
        let name = world.host(host).name.clone();
        for prefix in far {
            let is_forwarded = tunnel_towards(&world.host(host).kernel, prefix).is_some();
            ensure!(is_forwarded, "{name} acknowledged {} without forwarding to {prefix}", ack.sequence);
        }
        let key = JournalKey::Binding(ack.home_address);
        match world.host_mut(host).journal.synced(now).get(&key) {
            Some(JournalRecord::Binding(record)) if !ack.sequence.is_newer_than(record.sequence) => Ok(()),
            other => Err(format!("{name} acknowledged {} while its journal has {other:?}", ack.sequence)),
        }
    }

    /// No forwarding to a care-of address beyond the lifetime of its binding.
    fn check_tunnelled(
        &self,
        now: Time,
        topology: &Topology,
        (host, tunnel): (HostId, TunnelId),
        remote: Ipv6Addr,
    ) -> Result<(), String> {
        let is_running = topology.world.host(host).instance.as_ref().is_some_and(|instance| instance.begun);
        let is_repaired = self.started.get(&host).is_none_or(|started| now > *started + STARTUP_TIME);
        if !topology.agents.iter().any(|agent| agent.host == host) || !is_running || !is_repaired {
            return Ok(());
        }
        let Some(home) = owner(topology, host, tunnel) else {
            return Err(format!("{} forwards into a tunnel without a mobile router", topology.world.host(host).name));
        };
        // Straight to the mobile router on the home link: registered as the home address (RFC 5648 §5.6.3).
        let remote = if remote.is_unicast_link_local() { home.0 } else { topology.origin(remote) };
        let (name, until) = (&topology.world.host(host).name, self.granted_until((host, home), remote));
        let is_expected = self.is_expected(now, (host, home), remote, None);
        ensure!(is_expected, "{name} forwards for {home} to {remote}, bound until {until:?}");
        Ok(())
    }

    /// Where all encrypt, no tunnel has a path with an outer header by which a packet may leave in the clear.
    fn check_encryption(&self, topology: &Topology, host: HostId) -> Result<(), String> {
        let state = topology.world.host(host);
        let mut paths = state.kernel.tunnels().flat_map(|tunnel| &tunnel.paths);
        let plain = paths.find(|path| self.encrypted && !path.direct && !path.encap.is_encrypted());
        ensure!(plain.is_none(), "{} has a path in the clear: {plain:?}", state.name);
        Ok(())
    }

    fn granted_until(&self, binding: (HostId, HomeAddress), care_of: Ipv6Addr) -> Option<Time> {
        self.grants.get(&binding)?.get(&care_of).copied()
    }

    /// Whether this care-of address was granted to the home address, or requested lately, by an update newer than
    /// `acknowledged` if given.
    fn is_expected(
        &self,
        now: Time,
        binding: (HostId, HomeAddress),
        care_of: Ipv6Addr,
        acknowledged: Option<Sequence>,
    ) -> bool {
        let granted = self.granted_until(binding, care_of);
        granted.is_some_and(|until| now <= until + SLACK + self.clock_steps)
            || self.updates(binding.1).any(|(sent, update)| {
                let newer = acknowledged.is_none_or(|last| update.sequence.is_newer_than(last));
                newer && now <= *sent + MAX_UPDATE_AGE && update.care_of.iter().any(|(_, own)| *own == care_of)
            })
    }

    /// A home agent shows what it has acknowledged, or a newer update it is about to acknowledge.
    fn check_view(&mut self, now: Time, topology: &Topology, host: HostId) -> Result<(), String> {
        let state = topology.world.host(host);
        let Some(instance) = &state.instance else { return Ok(()) };
        self.check_encryption(topology, host)?;
        ensure!(state.kernel.plan().len() <= MAX_ITEMS, "{} holds {} items", state.name, state.kernel.plan().len());
        if !topology.agents.iter().any(|agent| agent.host == host) {
            return self.check_cached(now, topology, host);
        }
        let view = state.view(now);
        ensure!(view.timers.len() <= MAX_TIMERS, "{} runs {} timers", state.name, view.timers.len());
        let mut shown: BTreeMap<HomeAddress, BTreeSet<Ipv6Addr>> = BTreeMap::new();
        for binding in view.bindings.iter().filter(|binding| binding.role == BindingRole::HomeAgent) {
            shown.entry(binding.home_address).or_default().extend(tunnel_end(binding).map(|end| topology.origin(end)));
        }
        for (home, care_of) in &shown {
            let bound = self.cache.get(&(host, *home)).filter(|bound| bound.ends > now);
            let newer = bound.map(|bound| bound.sequence);
            for address in care_of {
                let (name, is_expected) = (&state.name, self.is_expected(now, (host, *home), *address, newer));
                ensure!(is_expected, "{name} shows {home} at {address}, which was not registered or has ended");
            }
        }
        let due =
            self.cache.iter().filter(|((of, _), bound)| *of == host && bound.ends > now + SLACK + self.clock_steps);
        for ((_, home), bound) in due.filter(|_| instance.begun) {
            let has = shown.get(home).is_some_and(|shown| shown.intersection(&bound.care_of).next().is_some());
            if !has && !self.is_overtaken(now, *home, bound.sequence) {
                let ends = bound.ends;
                return Err(format!("{} no longer shows the binding of {home}, good until {ends}", state.name));
            }
        }
        Ok(())
    }

    /// Whether the mobile router has sent another update that may have reached the home agent.
    fn is_overtaken(&self, now: Time, home: HomeAddress, sequence: Sequence) -> bool {
        let mut updates = self.updates(home);
        updates.any(|(sent, update)| update.sequence.is_newer_than(sequence) && now <= *sent + MAX_UPDATE_AGE)
    }

    /// The updates sent of this mobile router, oldest first.
    fn updates(&self, home: HomeAddress) -> impl DoubleEndedIterator<Item = &(Time, Update)> {
        self.sent_updates.get(&home).into_iter().flatten()
    }

    fn find_update(&self, home: HomeAddress, sequence: Sequence) -> Option<&(Time, Update)> {
        self.updates(home).rev().find(|(_, update)| update.sequence == sequence)
    }

    fn grant(
        &mut self,
        now: Time,
        host: HostId,
        home: HomeAddress,
        (care_of, others): (&BTreeSet<Ipv6Addr>, OtherCareOf),
        lifetime: Duration,
    ) {
        let grants = self.grants.entry((host, home)).or_default();
        for until in grants.values_mut().filter(|_| others != OtherCareOf::Stay) {
            *until = now.min(*until);
        }
        grants.extend(care_of.iter().map(|address| (*address, now + lifetime)));
    }

    /// A restarted home agent has the bindings of its journal, among them perhaps an update that was never
    /// acknowledged.
    fn reload_cache(&mut self, topology: &mut Topology, host: HostId) {
        let now = topology.world.now();
        let records = topology.world.host(host).journal.records().into_iter();
        let bindings: Vec<_> = records
            .filter_map(|record| match record {
                JournalRecord::Binding(binding) => Some(binding),
                _ => None,
            })
            .collect();
        for record in &bindings {
            let key = (host, record.home_address);
            let newer = self.cache.get(&key).is_none_or(|bound| record.sequence.is_newer_than(bound.sequence));
            if newer && let Some((_, update)) = self.find_update(record.home_address, record.sequence) {
                let ends = now + update.lifetime;
                let care_of: BTreeSet<Ipv6Addr> =
                    record.care_of.iter().map(|(_, address, _)| topology.origin(*address)).collect();
                self.grants.entry(key).or_default().extend(care_of.iter().map(|address| (*address, ends)));
                self.cache.remove(&key);
            }
        }
        let kept: BTreeSet<HomeAddress> = bindings.iter().map(|record| record.home_address).collect();
        // A farewell may be on disk though it was never acknowledged.
        self.cache.retain(|(of, home), bound| {
            let mut updates = self.sent_updates.get(home).into_iter().flatten();
            let is_farewell =
                |update: &Update| update.is_deregistration() && update.sequence.is_newer_than(bound.sequence);
            *of != host || kept.contains(home) || !updates.any(|(_, update)| is_farewell(update))
        });
    }
}

/// The prefixes that a home agent must forward for this home address.
fn mobile_prefixes(topology: &Topology, home: HomeAddress) -> Vec<Prefix> {
    let prefixes = topology.mobiles.iter().filter(|mobile| mobile.home_address == home).map(|mobile| mobile.prefix);
    core::iter::once(Prefix::host(home.0)).chain(prefixes).collect()
}

fn tunnel_towards(kernel: &crate::net::kernel::Kernel, prefix: Prefix) -> Option<TunnelId> {
    kernel.plan().iter().find_map(|(key, item)| match (key, item) {
        (Key::Route(RouteTable::MAIN, to, _, _), Item::Route(Route { target: NextHop::Tunnel(id), .. }))
            if *to == prefix =>
        {
            kernel.tunnel(*id).map(|tunnel| tunnel.id)
        }
        _ => None,
    })
}

/// The remote tunnel ends of this home address.
fn installed_care_of(topology: &Topology, host: HostId, home: HomeAddress) -> BTreeSet<Ipv6Addr> {
    let kernel = &topology.world.host(host).kernel;
    let tunnel = tunnel_towards(kernel, Prefix::host(home.0)).and_then(|id| kernel.tunnel(id));
    let paths = tunnel.into_iter().flat_map(|tunnel| &tunnel.paths);
    paths.map(|path| if path.direct { home.0 } else { topology.origin(path.remote) }).collect()
}

/// The remote tunnel end of a binding's view, as one address.
fn tunnel_end(binding: &BindingView) -> Option<Ipv6Addr> {
    let port = |address: Ipv4Addr| Ipv4Endpoint { address, port: binding.udp_port.unwrap_or(0) }.to_ipv6();
    binding.care_of.map(|care_of| care_of.to_ipv4_mapped().map_or(care_of, port))
}

/// The home address of a tunnel.
fn owner(topology: &Topology, host: HostId, tunnel: TunnelId) -> Option<HomeAddress> {
    let far = &topology.world.host(host).kernel.tunnel(tunnel)?.remote_prefixes;
    let homes = topology.mobiles.iter().map(|mobile| mobile.home_address);
    homes.into_iter().find(|home| far.contains(&Prefix::host(home.0)))
}
