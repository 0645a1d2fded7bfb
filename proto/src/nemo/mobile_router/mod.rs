//! The mobile router: follows its uplinks from network to network, and keeps home agent, tunnel and mobile network up
//! to date (RFC 3963 §5, RFC 6275 §11, RFC 5648 §5, RFC 5555 §4).

pub mod acknowledgement;
mod address_assignment;
pub mod binding_update;
mod bonding;
mod care_of_address;
mod care_of_prefix;
mod commands;
mod data_plan;
mod diagnosis;
pub mod discovery;
mod dispatch;
mod dns;
mod dsmip;
mod encryption;
mod esp;
mod failover;
mod flows;
pub mod forwarding;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzz;
mod home;
mod home_and_away;
pub mod home_prefix;
mod ingress;
mod interception;
mod ipv4_home_address;
mod ipv4_uplink;
mod keys;
mod mapping;
mod mode_selector;
mod path_mtu;
mod path_mtu_search;
mod path_quality;
mod path_traffic;
mod path_watch;
pub mod probe;
mod probing;
pub mod registration;
mod replication;
mod selection;
mod state_ages;
mod suspicion;
mod takeover;
mod transport;
mod udp6;
pub mod uplink;
mod view;

use crate::contract::config::nemo::{HomeNetwork, MobileRouterConfig};
use crate::contract::input::AddressState;
use crate::contract::item::NetworkRecord;
use crate::contract::report::{LossReason, NemoReport};
use crate::crypto::authenticator::{Timestamp, WallClock};
use crate::nemo::OLD_PATH_LIFETIME;
use crate::{
    DesiredState, Engine, Entropy, Input, LinkEvent, LinkId, Outbox, Time, TokenBucket, Transmit, VecMap, View,
};
use care_of_prefix::{FormerNodes, PrefixSource};
use core::time::Duration;
use data_plan::Departure;
use diagnosis::Diagnosis;
use discovery::{HomeAgentList, RETRY_DELAY};
use encryption::WireguardPeers;
use esp::EspPaths;
use failover::Failover;
use flows::FlowStatuses;
use forwarding::LingeringPath;
use home::HomeLink;
use home_prefix::HomePrefixes;
use ingress::IngressInterface;
use ipv4_home_address::Ipv4Home;
use keys::OwnKeys;
use mapping::{PATH_UPDATE_BURST, PATH_UPDATE_INTERVAL, PathUpdate};
use mode_selector::ModeSelector;
use path_watch::PathWatch;
use probe::Probe;
use registration::{CareOf, Registration};
use roam6_wire::mobility::Status;
use roam6_wire::{Bid, Sequence};
use state_ages::StateAges;
use std::net::Ipv6Addr;
use takeover::Takeover;
use uplink::{AddressPolicy, Uplink};

/// Maximum former paths that still receive; the oldest is removed.
pub const MAX_LINGERING: usize = 8;
/// Maximum interfaces that are remembered for a later configuration.
pub const MAX_INTERFACES: usize = 256;
/// Time until an item that the host refused is put again.
const ITEM_RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Rate limit of unauthenticated hints to register again (Binding Refresh Request, Binding Error), and of other Binding
/// Errors.
const HINT_INTERVAL: Duration = Duration::from_secs(3);

/// The engine of a mobile router.
#[derive(Debug, Clone)]
pub struct MobileRouter {
    config: MobileRouterConfig,
    entropy: Entropy,
    clock: WallClock,
    /// The last timestamp sent; the next one is later (RFC 4285 §6).
    last_timestamp: Option<Timestamp>,
    /// Last ESP sequence number sent (RFC 4303 §2.2).
    esp_sequence: u32,
    uplinks: Vec<Uplink>,
    /// The care-of prefix source of each uplink.
    prefix_sources: VecMap<Bid, PrefixSource>,
    former_nodes: FormerNodes,
    ingress: Vec<IngressInterface>,
    home_agents: HomeAgentList,
    registration: Registration,
    diagnosis: Diagnosis,
    keys: OwnKeys,
    home_link: Option<HomeLink>,
    home_prefixes: HomePrefixes,
    lingering: Vec<LingeringPath>,
    desired_state: DesiredState,
    hint_limiter: TokenBucket,
    /// For Binding Errors that are no such hint.
    error_limiter: TokenBucket,
    failover: Failover,
    /// Present while data plans leave no uplink to register.
    departure: Option<Departure>,
    /// A binding may exist: one was acknowledged or requested, or is in the journal.
    may_have_binding: bool,
    /// The home agent has answered, or need not: from now on this instance manages the tunnel. Before, that of the
    /// previous instance forwards.
    manages_tunnel: bool,
    takeover: Option<Takeover>,
    /// The present home agent does not support RFC 5648.
    ha_lacks_mcoa: bool,
    /// The present home agent rejects simultaneous home and foreign bindings.
    ha_rejects_home_and_away: bool,
    prefix_mode: ModeSelector,
    /// The update of one path that is not answered.
    path_update: Option<PathUpdate>,
    path_update_limiter: TokenBucket,
    /// The present home agent registers an IPv4 care-of address only by an update that comes from it.
    ha_registers_source_only: bool,
    /// Whether the present home agent serves UDP over IPv6, if known.
    udp6_served: Option<bool>,
    /// Whether the present home agent eliminates the second copies of replicated packets, if known.
    ha_eliminates: Option<bool>,
    /// Visited networks that pass UDP only, the oldest first.
    networks: Vec<NetworkRecord>,
    ipv4_home: Ipv4Home,
    flow_statuses: FlowStatuses,
    /// Prefixes that the home agent rejected are not advertised (RFC 3963 §5.4.3).
    prefixes_rejected: bool,
    stopping: bool,
    /// The last event of every interface of the host, by name.
    interfaces: VecMap<String, LinkEvent>,
    /// The MTU advertised on ingress interfaces, octets.
    advertised_mtu: Option<u32>,
    /// Identifies echo replies to our probes.
    probe_cookie: u64,
    path_watch: PathWatch,
    wireguard_peers: WireguardPeers,
    esp_paths: EspPaths,
    state_ages: StateAges,
    /// The time of the last input.
    now: Time,
}

impl MobileRouter {
    /// A mobile router with its configuration only.
    pub fn new(config: MobileRouterConfig, mut entropy: Entropy) -> MobileRouter {
        let sequence = Sequence(u16::try_from(entropy.below(1 << 16)).unwrap_or_default());
        MobileRouter {
            uplinks: config.uplinks.iter().cloned().map(Uplink::new).collect(),
            prefix_sources: VecMap::new(),
            former_nodes: FormerNodes::default(),
            ingress: config.ingress.iter().cloned().map(IngressInterface::new).collect(),
            home_agents: HomeAgentList::new(&config.home_agents),
            registration: Registration::new(sequence),
            diagnosis: Diagnosis::default(),
            keys: OwnKeys::default(),
            prefix_mode: ModeSelector::new(config.prefix_mode),
            config,
            probe_cookie: entropy.next_u64(),
            path_watch: PathWatch::default(),
            wireguard_peers: WireguardPeers::default(),
            esp_paths: EspPaths::default(),
            state_ages: StateAges::default(),
            entropy,
            clock: WallClock::default(),
            last_timestamp: None,
            esp_sequence: 0,
            home_link: None,
            home_prefixes: HomePrefixes::default(),
            lingering: Vec::new(),
            desired_state: DesiredState::default(),
            hint_limiter: TokenBucket::new(1, HINT_INTERVAL),
            error_limiter: TokenBucket::new(1, HINT_INTERVAL),
            failover: Failover::default(),
            departure: None,
            may_have_binding: false,
            manages_tunnel: false,
            takeover: None,
            ha_lacks_mcoa: false,
            ha_rejects_home_and_away: false,
            path_update: None,
            path_update_limiter: TokenBucket::new(PATH_UPDATE_BURST, PATH_UPDATE_INTERVAL),
            ha_registers_source_only: false,
            udp6_served: None,
            ha_eliminates: None,
            networks: Vec::new(),
            ipv4_home: Ipv4Home::default(),
            flow_statuses: FlowStatuses::default(),
            prefixes_rejected: false,
            stopping: false,
            interfaces: VecMap::new(),
            advertised_mtu: None,
            now: Time::ZERO,
        }
    }

    fn receive_link_event(&mut self, now: Time, event: &LinkEvent, out: &mut Outbox) {
        if self.interfaces.len() < MAX_INTERFACES || self.interfaces.contains_key(&event.name) {
            self.interfaces.insert(event.name.clone(), event.clone());
        }
        if let Some(uplink) = self.uplinks.iter_mut().find(|uplink| uplink.config.interface == event.name) {
            uplink.receive_link_event(now, event, (self.config.home_prefix, &mut self.entropy), out);
        } else if let Some(inside) = self.ingress.iter_mut().find(|inside| inside.config.interface == event.name) {
            inside.receive_link_event(event);
        }
    }

    fn uplink_on(&mut self, link: LinkId) -> Option<&mut Uplink> {
        self.uplinks.iter_mut().find(|uplink| uplink.up() == Some(link))
    }

    /// Another node on `link` has the address `address`.
    fn receive_duplicate(&mut self, now: Time, link: LinkId, address: Ipv6Addr, out: &mut Outbox) {
        let detection = self.config.duplicate_detection;
        let policy = AddressPolicy { detection, entropy: &mut self.entropy, own: &self.config.prefixes };
        if let Some(uplink) = self.uplinks.iter_mut().find(|uplink| uplink.up() == Some(link)) {
            uplink.dad_failed(now, address, policy, out);
        }
    }

    /// Runs the timers that are due at `now`; returns the probes to send.
    fn run_timers(&mut self, now: Time, out: &mut Outbox) -> Vec<Probe> {
        self.update_data_plans(now, out);
        for uplink in &mut self.uplinks {
            uplink.expire(now, out);
            uplink.switch_dead_router(now);
        }
        let probes = self.expire_probes(now, out);
        for inside in &mut self.ingress {
            inside.expire(now, &mut self.entropy, out);
        }
        self.lingering.retain(|left| left.until > now);
        if let Some(binding) = self.registration.expire(now) {
            let home_agent = binding.registration.home_agent;
            out.report(NemoReport::Unbound { home_agent, why: LossReason::Expired.to_string() });
            self.failover.remember_former(now, &binding);
            self.registration.retransmit_now(now);
        }
        let gives_up = self.registration.gives_up_at().is_some_and(|at| at <= now);
        if gives_up && self.home_agents.has_other() && !self.is_binding_proven() {
            self.leave_unanswering_home_agent(now, out);
        }
        self.try_next_ipv4_uplink(now);
        self.watch_home_agent(now);
        self.expire_home(now, out);
        probes
    }

    /// Reconciles all state with what is known now: addresses, then the home agent, then the host.
    fn reconcile(&mut self, now: Time, out: &mut Outbox) {
        for uplink in &mut self.uplinks {
            let physical = self.config.home_network == HomeNetwork::Physical;
            let home = (self.config.home_address, Some(self.config.home_prefix).filter(|_| physical));
            let (detection, own) = (self.config.duplicate_detection, &self.config.prefixes);
            let policy = AddressPolicy { detection, entropy: &mut self.entropy, own };
            uplink.update_address(now, home, policy, out);
            if uplink.care_of_address.is_some() && uplink.prober.take_was_silent() {
                self.registration.verify_binding(now);
            }
        }
        self.update_key_exchange(now, out);
        self.update_ipv4_uplinks(now, out);
        let trials = self.update_transports(now, out);
        self.update_home_link(now, out);
        let mut messages: Vec<_> = self.next_discovery_request(now).into_iter().collect();
        let wanted = self.desired_registration(now);
        messages.extend(self.next_departure(now, wanted.is_some(), out));
        if self.registration.needs_update(now, wanted.as_ref())
            && let Some(wanted) = wanted
        {
            self.may_have_binding = true;
            if wanted.care_of().is_empty() {
                self.note_deregistration_sent();
            }
            messages.extend(self.send_update(now, &wanted, out));
            messages.extend(self.ask_before_binding(out));
        }
        messages.extend(self.next_path_update(now, out));
        messages.extend(self.send_trials(now, &trials, out));
        messages.extend(self.next_deregistration(now, out));
        self.update_sources(now, out);
        // Nodes act on advertisements at once, so the routes are put first.
        let mut advertisements = Outbox::new();
        self.update_ingress(now, &mut advertisements);
        let plan = self.plan();
        self.desired_state.put_missing(now, &plan, out);
        out.append(&mut advertisements);
        for message in messages.into_iter().chain(self.take_proxy_advertisements()) {
            out.transmit(message);
        }
        self.solicit_home_prefixes(now, out);
        self.desired_state.retain(|key| plan.find(key).is_some(), out);
    }

    /// Forgets what was learnt about the former home agent.
    fn forget_home_agent(&mut self) {
        (self.ha_lacks_mcoa, self.ha_rejects_home_and_away) = (false, false);
        (self.ha_registers_source_only, self.path_update) = (false, None);
        (self.udp6_served, self.ha_eliminates) = (None, None);
        self.uplinks.iter_mut().for_each(|uplink| uplink.transport.restart());
    }

    /// Selects the next home agent; after the last one there is a pause of `pause`.
    fn next_home_agent(&mut self, now: Time, why: &str, pause: Duration, out: &mut Outbox) {
        if let Some(home_agent) = self.home_agents.in_use() {
            out.report(NemoReport::Unbound { home_agent, why: why.to_owned() });
        }
        self.registration.drop_pending();
        self.registration.drop_binding();
        self.failover.reset();
        self.forget_home_agent();
        self.home_agents.advance(now, pause);
    }

    /// A home agent rejects the mobile router: the next one is tried, then all in the other prefix mode if a status
    /// suggests it; then there is a long pause, which is logged (RFC 3963 §5.4).
    pub(super) fn rejected_by_home_agent(&mut self, now: Time, status: Status, out: &mut Outbox) {
        if self.abandon_trial(now) {
            return;
        }
        self.prefixes_rejected |= self.prefix_mode.receive_rejection(status);
        self.next_home_agent(now, &status.to_string(), RETRY_DELAY, out);
        if !self.home_agents.is_round_over() {
            return;
        }
        if self.prefix_mode.switch() {
            self.home_agents.start_round(now);
        } else if (Status::MOBILE_ROUTER_NOT_PERMITTED.0..=Status::FORWARDING_SETUP_FAILED.0).contains(&status.0) {
            self.home_agents.pause_long(now);
            let text = format!("every home agent rejects this mobile router, the last with status {status}");
            out.notice(text);
        }
    }

    /// Former paths of `before` that are no longer in the binding receive for a while (RFC 6275 §11.5.5).
    fn keep_lingering(&mut self, now: Time, before: &[CareOf]) {
        let held = self.registration.binding().map(|binding| binding.care_of().to_vec()).unwrap_or_default();
        for care_of in before.iter().filter(|care_of| !care_of.on_home_link) {
            if held.iter().all(|other| !other.is_same_address(care_of)) {
                if self.lingering.len() >= MAX_LINGERING {
                    self.lingering.remove(0);
                }
                self.lingering.push(LingeringPath { care_of: *care_of, until: now + OLD_PATH_LIFETIME });
            }
        }
        self.lingering.retain(|left| held.iter().all(|care_of| !care_of.is_same_address(&left.care_of)));
    }

    /// Whether probes through the tunnel show that a binding to be refreshed exists.
    fn is_binding_proven(&self) -> bool {
        let Some(binding) = self.registration.binding().filter(|_| self.config.probe.is_some()) else { return false };
        let answers = |care_of: &CareOf| self.uplink_of(care_of).is_some_and(|uplink| !uplink.prober.is_silent());
        self.registration.is_refreshing(binding.registration.home_agent) && binding.care_of().iter().any(answers)
    }

    /// The home agent discovery request, if one is due.
    fn next_discovery_request(&mut self, now: Time) -> Option<Transmit> {
        let native = |care_of: &&CareOf| !care_of.on_home_link && !care_of.is_observed();
        let care_of = self.usable_care_of().iter().find(native).copied()?;
        let fresh = u16::try_from(self.entropy.next_u64() >> 48).unwrap_or_default();
        let identifier = self.home_agents.next_request(now, care_of.address, fresh)?;
        Some(self.discovery_request(care_of, identifier))
    }
}

impl Engine for MobileRouter {
    fn handle(&mut self, now: Time, input: &Input, out: &mut Outbox) {
        self.now = now;
        if self.stopping {
            return;
        }
        match input {
            Input::Tick
            | Input::Route(_)
            | Input::Subflow(_)
            | Input::Flow(_)
            | Input::Activity(_)
            | Input::Verified(_)
            | Input::Signed(_)
            | Input::ChannelUse(_)
            | Input::Frame(_)
            | Input::Fix(_) => {}
            #[cfg(feature = "fleet")]
            Input::Fleet(_) => {}
            Input::Packet(packet) => self.receive_packet(now, packet, out),
            Input::Link(event) => self.receive_link_event(now, event, out),
            Input::Address(event) if event.state == AddressState::DadFailed => {
                self.receive_duplicate(now, event.link, event.address, out);
            }
            Input::Address(event) => {
                self.receive_ipv4_address(event);
                self.receive_home_address(event, out);
            }
            Input::Neighbour(event) => {
                self.relay_neighbour(now, event, out);
                if !event.reachable
                    && let Some(attachment) = self.uplink_on(event.link).and_then(|uplink| uplink.attachment.as_mut())
                {
                    attachment.drop_router(now, event.address, LossReason::Unreachable, out);
                }
            }
            Input::Outcome(outcome) => {
                self.desired_state.receive_outcome(outcome, now + ITEM_RETRY_INTERVAL, out);
                self.receive_keys_outcome(now, outcome, out);
            }
            Input::LinkTraffic(traffic) => {
                self.note_traffic(now, traffic);
                self.receive_link_traffic(now, traffic);
            }
            Input::PathTraffic(traffic) => self.receive_path_traffic(now, traffic),
            Input::Interception(answer) => self.receive_interception(now, answer, out),
            Input::Clock(clock) => self.clock.put(now, clock.unix_micros),
            Input::Command(order) => self.execute(now, order, out),
        }
        if self.stopping {
            return;
        }
        let probes = self.run_timers(now, out);
        let sized = self.next_mtu_probes(now, out);
        self.reconcile(now, out);
        self.query_paths(now, out);
        self.send_probes(&probes, out);
        self.probe_alternates(&probes, out);
        for message in sized {
            out.transmit(message);
        }
        self.diagnose(now, out);
        self.query_interceptions(now, out);
        self.note_changes(now);
    }

    fn deadline(&self) -> Option<Time> {
        self.next_deadline()
    }

    fn takeover_complete(&self) -> bool {
        self.is_takeover_complete()
    }

    fn view(&self, now: Time, view: &mut View) {
        self.show(now, view);
    }
}

#[cfg(test)]
mod tests;
