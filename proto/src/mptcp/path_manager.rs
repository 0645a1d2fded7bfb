//! Maintains the kernel's MPTCP endpoints: an address is an endpoint while it has a working route, and addresses of the
//! mobile network, which use the tunnel, are backup endpoints (RFC 8684 §3.2, §3.3.8, §3.4; RFC 8028 §3.1).

use super::link::{Link, Links};
use super::source_routes;
use super::subflow::{self, Subflows};
use crate::contract::command::{LifecycleCommand, MptcpCommand};
use crate::contract::config::mptcp::PathManagerConfig;
use crate::contract::input::{SubflowEvent, SubflowEventKind};
use crate::contract::item::{MptcpEndpoint, MptcpEndpointFlags, MptcpLimits};
use crate::contract::report::{LinkReport, MptcpReport};
use crate::contract::view::{EndpointState, EndpointView, LinkRole, LinkState, LinkView};
use crate::link::nd_messages;
use crate::{
    Command, DesiredState, Engine, Input, Item, Key, LinkEvent, LinkId, Outbox, Outcome, Packet, Time, VecMap, View,
};
use core::time::Duration;
use roam6_wire::Prefix;
use roam6_wire::icmp6::{Message, kind};
use roam6_wire::ip6::{Datagram, protocol};
use std::net::Ipv6Addr;

/// Maximum endpoints: the limit of older kernels.
pub const MAX_ENDPOINTS: usize = 8;
/// Interfaces remembered.
pub const MAX_LINKS: usize = 128;

/// Time until a refused item is put again.
const RETRY_INTERVAL: Duration = Duration::from_secs(60);
/// Time that an address and its route must exist before the endpoint is added: the kernel tries a new endpoint once,
/// and its SYN is lost while the route is still being installed.
const SETTLE_TIME: Duration = Duration::from_millis(200);
/// Time until a removed endpoint may be added again: the kernel cannot recreate a subflow that is still closing, the
/// first subflow of a connection above all.
const READD_DELAY: Duration = Duration::from_secs(2);
/// Longest time that a deprecated endpoint is kept after another one exists: connections may be slow to move.
const MAX_DRAIN_TIME: Duration = Duration::from_secs(8);
/// The kernel tries once to make a subflow, and recreates none that ended. An endpoint without subflows is recreated
/// after the first interval, then with back-off up to the second, because the peer may not accept more subflows.
const RECREATE_INTERVAL: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(640));

/// The path manager of one host.
#[derive(Debug)]
pub struct PathManager {
    config: PathManagerConfig,
    links: Links,
    /// The endpoints put to the host.
    installed: VecMap<Ipv6Addr, InstalledEndpoint>,
    /// Addresses that become endpoints no earlier than this.
    not_before: VecMap<Ipv6Addr, Time>,
    /// Current recreation interval of endpoints without subflows.
    recreate_after: VecMap<Ipv6Addr, Duration>,
    subflows: Subflows,
    /// The endpoints, source routes and limits.
    desired_state: DesiredState,
    stopped: bool,
    /// Time of the last input.
    now: Time,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct InstalledEndpoint {
    endpoint: MptcpEndpoint,
    since: Time,
    /// Since when connections exist and none has a subflow from it.
    unused_since: Option<Time>,
    /// Since when connections are to move away from it.
    draining_since: Option<Time>,
}

/// An address with a working route.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    endpoint: MptcpEndpoint,
    deprecated: bool,
    home: bool,
}

impl Candidate {
    /// Whether connections are to move away from it. Addresses of the mobile network are never drained: they are
    /// backups, and deprecated while a better path exists.
    fn is_draining(&self) -> bool {
        self.deprecated && !self.home
    }
}

impl PathManager {
    /// A path manager without state. It changes nothing in the kernel before its first endpoint.
    pub fn new(config: PathManagerConfig) -> PathManager {
        PathManager {
            config,
            links: Links::new(),
            installed: VecMap::new(),
            not_before: VecMap::new(),
            recreate_after: VecMap::new(),
            subflows: Subflows::default(),
            desired_state: DesiredState::default(),
            stopped: false,
            now: Time::ZERO,
        }
    }

    fn handle_input(&mut self, now: Time, input: &Input, out: &mut Outbox) {
        match input {
            Input::Link(event) => self.handle_link(now, event, out),
            Input::Packet(packet) => self.handle_packet(now, packet, out),
            Input::Outcome(outcome) => self.handle_outcome(now, outcome, out),
            Input::Subflow(event) => self.handle_subflow(event, out),
            Input::Address(event) => {
                if let Some(link) = self.links.get_mut(&event.link) {
                    link.handle_address(now, event, out);
                }
            }
            Input::Route(event) => {
                if let Some(link) = self.links.get_mut(&event.link) {
                    link.handle_route(event);
                }
            }
            Input::Neighbour(event) => {
                if let Some(link) = self.links.get_mut(&event.link) {
                    link.advertised.set_reachable(event.address, event.reachable);
                }
            }
            Input::Command(Command::Lifecycle(LifecycleCommand::Stop)) => self.stopped = true,
            Input::Command(Command::Mptcp(MptcpCommand::Reload(config))) => self.config = config.as_ref().clone(),
            Input::Tick
            | Input::Clock(_)
            | Input::Command(_)
            | Input::Flow(_)
            | Input::Activity(_)
            | Input::Verified(_)
            | Input::Signed(_)
            | Input::LinkTraffic(_)
            | Input::PathTraffic(_)
            | Input::ChannelUse(_)
            | Input::Interception(_)
            | Input::Frame(_)
            | Input::Fix(_) => {}
            #[cfg(feature = "fleet")]
            Input::Fleet(_) => {}
        }
    }

    /// Records interfaces that the configuration does not name too: a reload may name them.
    fn handle_link(&mut self, now: Time, event: &LinkEvent, out: &mut Outbox) {
        if !self.links.contains_key(&event.link) && self.links.len() == MAX_LINKS {
            out.report_full_table("links", MAX_LINKS);
            return;
        }
        self.links.entry(event.link).or_insert_with(|| Link::new(event)).handle_link(now, event);
    }

    fn handle_packet(&mut self, now: Time, packet: &Packet, out: &mut Outbox) {
        let Some(link) = self.links.get_mut(&packet.link).filter(|link| link.up) else { return };
        let Ok(datagram) = Datagram::parse(&packet.bytes) else { return };
        let advertises = datagram.payload.first() == Some(&kind::ROUTER_ADVERTISEMENT);
        if datagram.protocol != protocol::ICMPV6 || !advertises {
            return;
        }
        let checked = Message::parse(&datagram).and_then(|message| message.check_on_link(&datagram).map(|()| message));
        match checked {
            Ok(Message::RouterAdvertisement(message)) => {
                if !link.advertised.handle_advertisement(now, datagram.source, &message) {
                    let limit = super::advertised_prefixes::MAX_ROUTERS;
                    out.report_full_table("routers", limit);
                }
            }
            Ok(_) => {}
            Err(malformed) => {
                out.report_malformed(datagram.source, &malformed);
            }
        }
    }

    /// A refused endpoint is removed, and chosen again among the addresses of that time.
    fn handle_outcome(&mut self, now: Time, outcome: &Outcome, out: &mut Outbox) {
        self.desired_state.receive_outcome(outcome, now + RETRY_INTERVAL, out);
        if let Key::MptcpEndpoint(address) = &outcome.key
            && self.desired_state.is_refused(&outcome.key)
        {
            self.installed.remove(address);
            self.not_before.insert(*address, now + RETRY_INTERVAL);
            // Removes what a partly failed put may have left.
            self.desired_state.drop(&outcome.key, out);
        }
    }

    fn handle_subflow(&mut self, event: &SubflowEvent, out: &mut Outbox) {
        if !self.subflows.handle_event(event) {
            out.report_full_table("connections", subflow::MAX_CONNECTIONS);
        }
        if event.kind == SubflowEventKind::SubflowEstablished {
            self.recreate_after.remove(event.local.ip());
        }
        let backup = self.installed.get(event.local.ip()).is_some_and(|held| held.endpoint.flags.backup);
        out.report(subflow::report(event, backup));
    }

    fn is_home(&self, address: Ipv6Addr) -> bool {
        self.config.home_prefixes.iter().any(|home| home.contains(address))
    }

    fn used_links(&self) -> impl Iterator<Item = (LinkId, &Link)> {
        let named = self.links.iter().filter(|(_, link)| self.config.interfaces.contains(&link.name));
        named.map(|(id, link)| (*id, link))
    }

    /// The usable addresses, one for each prefix of a link.
    fn candidates(&self, now: Time) -> VecMap<Ipv6Addr, Candidate> {
        let mut best: VecMap<(LinkId, Prefix), Candidate> = VecMap::new();
        for (id, link) in self.used_links() {
            for &address in link.addresses.keys() {
                let Some(route) = link.route_of(now, address) else { continue };
                let home = self.is_home(address);
                let signal = if home { self.config.signal_home } else { self.config.signal_care_of };
                let deprecated = route.deprecated;
                let flags = MptcpEndpointFlags { signal, subflow: true, backup: home || deprecated };
                let candidate = Candidate { endpoint: MptcpEndpoint { address, link: id, flags }, deprecated, home };
                let rank = |one: &Candidate| (one.deprecated, !self.installed.contains_key(&one.endpoint.address));
                // One address of a prefix is one path: the installed one stays, otherwise the lowest address is used.
                let place = best.entry((id, route.prefix)).or_insert(candidate);
                if rank(&candidate) < rank(place) {
                    *place = candidate;
                }
            }
        }
        // The kernel has one endpoint for an address, whatever the interface.
        let mut found = VecMap::new();
        for candidate in best.into_values() {
            found.entry(candidate.endpoint.address).or_insert(candidate);
        }
        found
    }

    /// Whether a deprecated endpoint can be removed: another one exists, and all connections use it or had time to.
    fn is_replaced(&self, now: Time, address: Ipv6Addr, candidates: &VecMap<Ipv6Addr, Candidate>) -> bool {
        let preferred = |at: &Ipv6Addr| candidates.get(at).is_some_and(|candidate| !candidate.deprecated);
        let others = || self.installed.iter().filter(|(at, _)| **at != address && preferred(at));
        let addresses: Vec<Ipv6Addr> = others().map(|(at, _)| *at).collect();
        let left_since = self.installed.get(&address).and_then(|held| held.draining_since).unwrap_or(now);
        let moved = others().any(|(_, held)| held.since.max(left_since) + MAX_DRAIN_TIME <= now);
        !addresses.is_empty() && (moved || self.subflows.all_have_alternative(address, &addresses))
    }

    /// Puts and drops endpoints until the host has the wanted ones.
    fn reconcile(&mut self, now: Time, out: &mut Outbox) {
        let mut wanted = if self.stopped { VecMap::new() } else { self.candidates(now) };
        self.recreate_unused(now, &wanted, out);
        let old: Vec<Ipv6Addr> = self.installed.keys().copied().collect();
        for address in old {
            let candidate = wanted.get(&address).copied();
            let stays = candidate.filter(|it| !it.is_draining() || !self.is_replaced(now, address, &wanted));
            match stays {
                Some(candidate) => self.keep_endpoint(now, candidate, out),
                None => self.remove_endpoint(now, address, READD_DELAY, out),
            }
        }
        // No new subflows from a deprecated address (RFC 4862 §5.5.4).
        wanted.retain(|address, candidate| !candidate.is_draining() && !self.installed.contains_key(address));
        self.not_before.retain(|address, until| *until > now || wanted.contains_key(address));
        for (address, candidate) in wanted {
            if *self.not_before.entry(address).or_insert(now + SETTLE_TIME) > now {
                continue;
            }
            if self.installed.len() == MAX_ENDPOINTS {
                out.report_full_table("endpoints", MAX_ENDPOINTS);
                self.not_before.insert(address, now + RETRY_INTERVAL);
                continue;
            }
            self.add_endpoint(now, candidate.endpoint, out);
        }
        self.note_unused(now);
    }

    fn add_endpoint(&mut self, now: Time, endpoint: MptcpEndpoint, out: &mut Outbox) {
        let MptcpEndpoint { address, link, flags } = endpoint;
        self.not_before.remove(&address);
        self.installed
            .insert(address, InstalledEndpoint { endpoint, since: now, unused_since: None, draining_since: None });
        self.put_limits(now, out);
        self.desired_state.put(now, &Item::MptcpEndpoint(endpoint), out);
        out.report(MptcpReport::EndpointUp { link, address, backup: flags.backup });
    }

    /// Keeps an endpoint; a change of its backup flag is signalled to the peers (MP_PRIO).
    fn keep_endpoint(&mut self, now: Time, candidate: Candidate, out: &mut Outbox) {
        let endpoint = candidate.endpoint;
        let Some(held) = self.installed.get_mut(&endpoint.address) else { return };
        held.draining_since = candidate.is_draining().then(|| held.draining_since.unwrap_or(now));
        if held.endpoint != endpoint {
            held.endpoint = endpoint;
            self.desired_state.put(now, &Item::MptcpEndpoint(endpoint), out);
            let MptcpEndpoint { address, link, flags } = endpoint;
            out.report(MptcpReport::EndpointUp { link, address, backup: flags.backup });
        }
    }

    fn remove_endpoint(&mut self, now: Time, address: Ipv6Addr, pause: Duration, out: &mut Outbox) {
        if let Some(held) = self.installed.remove(&address) {
            self.not_before.insert(address, now + pause);
            self.desired_state.drop(&Key::MptcpEndpoint(address), out);
            out.report(MptcpReport::EndpointDown { link: held.endpoint.link, address });
        }
    }

    /// Recreates endpoints without subflows while connections exist.
    fn recreate_unused(&mut self, now: Time, wanted: &VecMap<Ipv6Addr, Candidate>, out: &mut Outbox) {
        self.recreate_after.retain(|address, _| wanted.contains_key(address));
        let tired: Vec<Ipv6Addr> =
            self.installed.keys().filter(|at| self.recreate_at(**at).is_some_and(|it| it <= now)).copied().collect();
        for address in tired {
            let patience = self.recreate_after.entry(address).or_insert(RECREATE_INTERVAL.0);
            *patience = (*patience * 2).min(RECREATE_INTERVAL.1);
            self.remove_endpoint(now, address, READD_DELAY, out);
        }
    }

    fn recreate_at(&self, address: Ipv6Addr) -> Option<Time> {
        let held = self.installed.get(&address).filter(|held| held.draining_since.is_none())?;
        Some(held.unused_since? + *self.recreate_after.get(&address).unwrap_or(&RECREATE_INTERVAL.0))
    }

    /// Records which endpoints have no subflow.
    fn note_unused(&mut self, now: Time) {
        for (address, held) in &mut self.installed {
            let unused = self.subflows.uses(*address) == Some(false);
            held.unused_since = unused.then(|| held.unused_since.unwrap_or(now));
        }
    }

    /// Puts the path manager limits, once the first endpoint needs them.
    fn put_limits(&mut self, now: Time, out: &mut Outbox) {
        let PathManagerConfig { subflows, add_addr_accepted, .. } = self.config;
        if !self.installed.is_empty() || self.desired_state.contains(&Key::MptcpLimits) {
            self.desired_state.put(now, &Item::MptcpLimits(MptcpLimits { subflows, add_addr_accepted }), out);
        }
    }

    fn solicit(&mut self, now: Time, out: &mut Outbox) {
        for (id, link) in &mut self.links {
            link.advertised.expire(now);
            if self.config.interfaces.contains(&link.name) && link.take_due_solicitation(now) {
                out.transmit(nd_messages::router_solicitation(*id, None));
                out.report(LinkReport::RouterSolicitationSent { link: *id });
            }
        }
    }

    /// Puts the source-specific default routes.
    fn update_source_routes(&mut self, now: Time, out: &mut Outbox) {
        let mut wanted = VecMap::new();
        if self.config.source_routing && !self.stopped {
            for (id, link) in self.used_links() {
                let found = link.addresses.keys().filter_map(|address| link.route_of(now, *address));
                for route in found {
                    wanted.entry(route.prefix).or_insert((id, route.router));
                }
            }
        }
        source_routes::reconcile(&mut self.desired_state, now, &wanted, out);
    }

    fn endpoint_state(
        &self,
        now: Time,
        link: &Link,
        address: Ipv6Addr,
        held: Option<&InstalledEndpoint>,
    ) -> EndpointState {
        match (held, link.route_of(now, address)) {
            (Some(held), _) if held.draining_since.is_some() => EndpointState::Deprecated,
            (Some(_), _) => EndpointState::InUse,
            (None, _) if !link.up => EndpointState::LinkDown,
            (None, None) => EndpointState::NoRouter,
            (None, Some(route)) if route.deprecated => EndpointState::Deprecated,
            (None, _) if self.not_before.contains_key(&address) => EndpointState::Waiting,
            (None, _) => EndpointState::Spare,
        }
    }
}

impl Engine for PathManager {
    fn handle(&mut self, now: Time, input: &Input, out: &mut Outbox) {
        self.now = now;
        self.handle_input(now, input, out);
        if !self.stopped {
            self.solicit(now, out);
            self.put_limits(now, out);
        }
        // The kernel makes subflows as soon as the endpoint exists: the route comes first.
        self.update_source_routes(now, out);
        self.reconcile(now, out);
        if self.stopped {
            self.desired_state.drop(&Key::MptcpLimits, out);
        }
    }

    fn deadline(&self) -> Option<Time> {
        if self.stopped {
            return None;
        }
        let links = self.used_links().filter_map(|(_, link)| link.deadline(self.now));
        let waiting = self.not_before.values().copied();
        let revived = self.installed.keys().filter_map(|address| self.recreate_at(*address));
        let left = self.installed.values().filter_map(|held| held.draining_since);
        let moved =
            left.flat_map(|left| self.installed.values().map(move |held| held.since.max(left) + MAX_DRAIN_TIME));
        let moved = moved.filter(|at| *at > self.now);
        links.chain(waiting).chain(revived).chain(moved).chain(self.desired_state.deadline()).min()
    }

    fn view(&self, now: Time, view: &mut View) {
        for (id, link) in self.used_links() {
            let addresses = self.installed.values().filter(|held| held.endpoint.link == id);
            view.links.push(LinkView {
                fault: None,
                fault_status: None,
                last_error: None,
                error_age: None,
                quality: None,
                usage: None,
                transport: None,
                hints: Vec::new(),
                name: link.name.clone(),
                role: LinkRole::MobileNetworkNode,
                up: link.up,
                mtu: link.mtu,
                router: link.router(now),
                addresses: addresses.map(|held| held.endpoint.address).collect(),
                bid: None,
                changed: None,
                state: match (link.up, link.needs_router(now)) {
                    (false, _) => LinkState::Down,
                    (true, true) => LinkState::NoRouter,
                    (true, false) => LinkState::Up,
                },
            });
            view.endpoints.extend(link.addresses.keys().map(|&address| {
                let held = self.installed.get(&address).filter(|held| held.endpoint.link == id);
                let home = self.is_home(address);
                EndpointView {
                    address,
                    link: link.name.clone(),
                    home,
                    backup: held.map_or(home, |held| held.endpoint.flags.backup),
                    signal: held.is_some_and(|held| held.endpoint.flags.signal),
                    state: self.endpoint_state(now, link, address, held),
                }
            }));
        }
    }
}
