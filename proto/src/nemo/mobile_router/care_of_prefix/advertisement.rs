//! Advertisement of care-of prefixes on ingress interfaces: each as long as its routes are installed, then withdrawn
//! for as long as a node may consider it valid (RFC 7084 §4.3, RFC 9096; short lifetimes avoid the two-hour rule of
//! RFC 4862 §5.5.3).

use super::super::MobileRouter;
use super::super::uplink::Uplink;
use super::{Grant, GrantKind};
use crate::contract::config::nemo::{IngressConfig, PrefixPreference};
use crate::contract::item::{CareOfPrefixRecord, JournalKey, JournalRecord};
use crate::contract::view::{PrefixRole, PrefixState, PrefixView};
use crate::link::advertiser::{
    AdvertisedLifetime, AdvertisedPrefix, PREFERRED_LIFETIME, RaContent, VALID_LIFETIME, router_lifetime,
};
use crate::link::nd_proxy::MAX_ADDRESSES;
use crate::{Item, Key, Outbox, Time, VecMap};
use core::time::Duration;
use roam6_wire::{Bid, Prefix};
use std::net::Ipv6Addr;

/// Maximum care-of prefixes advertised on one interface; of the withdrawn ones the first to expire is removed.
const MAX_ADVERTISED: usize = 16;
/// Bounds of the advertised valid lifetime (RFC 9096): short, so that an address whose prefix is gone expires soon
/// even if the node missed the withdrawal; yet longer than a few missed advertisements.
const MIN_VALID_LIFETIME: Duration = Duration::from_secs(120);
const MAX_VALID_LIFETIME: Duration = Duration::from_secs(5400);
/// Tolerance for nodes that remove an expired address late; until then the prefix is advertised as withdrawn.
const NODE_DELAY: Duration = Duration::from_secs(10);
/// Time after a start in which a care-of prefix of the previous run may be delegated again; until then it is neither
/// advertised nor withdrawn.
const RESTART_HOLD_TIME: Duration = Duration::from_secs(10);

/// The care-of prefixes that the nodes of an interface may consider valid, and former prefixes of the interface.
#[derive(Debug, Default, Clone)]
pub(in super::super) struct AdvertisedPrefixes(VecMap<Prefix, AdvertisedState>);

/// A prefix that was advertised on an interface.
#[derive(Debug, Clone)]
pub(super) struct AdvertisedState {
    /// When no node considers it valid any longer.
    believed_until: Time,
    bid: Bid,
    /// The delegated prefix that it is part of.
    part_of: Option<Prefix>,
    on_link: bool,
    /// Its downstream addresses, if others are upstream.
    node_addresses: Option<Vec<Ipv6Addr>>,
    withdrawn: bool,
    /// It was the interface's mobile network prefix in a former configuration.
    former_ingress_prefix: bool,
    /// It is of the previous run, and may be delegated again until then.
    hold_until: Option<Time>,
}

/// A care-of prefix whose routes are installed.
#[derive(Debug, Clone)]
pub(in super::super) struct AdvertisablePrefix {
    prefix: Prefix,
    on_link: bool,
    grant: Grant,
    preferred: bool,
}

impl MobileRouter {
    /// For each ingress interface, the care-of prefixes that may be advertised now.
    pub(in super::super) fn advertisable_prefixes(&self, now: Time) -> Vec<Vec<AdvertisablePrefix>> {
        let grants = self.grants(now);
        let standing: Vec<&Grant> = grants.iter().filter(|grant| self.is_installed(grant)).collect();
        let subnets = self.subnets();
        let on = |link| {
            let live = standing.iter().filter_map(|grant| {
                let (prefix, on_link) = match &grant.kind {
                    GrantKind::Delegated => (subnets.find(link, grant.prefix)?, true),
                    GrantKind::Shared { ingress: inside, node_addresses: nodes, replaced: false, .. }
                        if *inside == link =>
                    {
                        (grant.prefix, nodes.is_none())
                    }
                    GrantKind::Shared { .. } => return None,
                };
                let preferred = self.is_preferred(now, grant);
                Some(AdvertisablePrefix { prefix, on_link, grant: (*grant).clone(), preferred })
            });
            live.take(MAX_ADVERTISED).collect()
        };
        self.ingress.iter().map(|inside| inside.link().map(on).unwrap_or_default()).collect()
    }

    /// Whether the host has confirmed all routes and rules of the prefix.
    fn is_installed(&self, grant: &Grant) -> bool {
        let uplink = self.uplink_items_of(grant.bid);
        !uplink.is_empty()
            && uplink.iter().chain(&self.required_items(grant)).all(|item| self.desired_state.is_installed(&item.key()))
    }

    /// Whether it is advertised as preferred.
    fn is_preferred(&self, now: Time, grant: &Grant) -> bool {
        let Some(config) = self.config.care_of_prefixes else { return false };
        let silent = |bid: Bid| self.uplinks.iter().any(|uplink| uplink.config.bid == bid && uplink.prober.is_silent());
        let others = self.uplinks.iter().filter(|uplink| uplink.config.bid != grant.bid && uplink.care_of().is_some());
        // A path that is down while another is up: the uplink is at fault, and not the home agent.
        let dead = silent(grant.bid) && others.into_iter().any(|uplink| !uplink.prober.is_silent());
        // Connections are kept while nodes leave an uplink whose data plan is used up.
        let beyond = |uplink: &Uplink| uplink.config.bid == grant.bid && uplink.is_beyond_plan();
        let within = |uplink: &Uplink| uplink.care_of().is_some() && !uplink.is_beyond_plan();
        let dead = dead || self.uplinks.iter().any(beyond) && self.uplinks.iter().any(within);
        let wanted = config.prefer != PrefixPreference::Home || self.prefixes_rejected;
        wanted && !dead && grant.preferred_until > now
    }

    /// Restores a care-of prefix of the previous run.
    pub(in super::super) fn restore_care_of_prefix(&mut self, now: Time, record: &CareOfPrefixRecord) {
        let Some(inside) = self.ingress.iter_mut().find(|inside| inside.config.interface == record.interface) else {
            return;
        };
        let undecided = now + RESTART_HOLD_TIME;
        let state = AdvertisedState::new(undecided + MAX_VALID_LIFETIME, record.on_link);
        let state = AdvertisedState { hold_until: Some(undecided), ..state };
        inside.advertised_prefixes.restore(record.prefix, state);
    }

    /// Drops the records at a clean stop, after the final advertisements. A former mobile network prefix keeps its
    /// record: a node that missed the withdrawal considers it valid for weeks.
    pub(in super::super) fn drop_care_of_prefix_records(&self, out: &mut Outbox) {
        let care_of = self
            .ingress
            .iter()
            .flat_map(|inside| inside.advertised_prefixes.iter())
            .filter(|(_, state)| !state.former_ingress_prefix);
        care_of.for_each(|(prefix, _)| out.drop(Key::JournalRecord(JournalKey::CareOfPrefix(*prefix))));
    }

    /// The content of the advertisements of interface `index`, apart from the MTU; records what is advertised.
    pub(in super::super) fn ra_content(
        &mut self,
        now: Time,
        index: usize,
        live: Vec<AdvertisablePrefix>,
        out: &mut Outbox,
    ) -> RaContent {
        let refused = self.prefixes_rejected;
        let prefer = self.config.care_of_prefixes.map(|config| config.prefer);
        let mobile_network: Vec<Prefix> = if prefer.is_some() { self.config.prefixes.clone() } else { Vec::new() };
        let cut_off = prefer.is_some_and(|prefer| prefer != PrefixPreference::Home) && !self.is_reachable();
        let Some(inside) = self.ingress.get_mut(index) else { return RaContent::default() };
        let interval = inside.config.advertisement_interval;
        let router = Duration::from_secs(router_lifetime(interval).into());
        let most = (router * 4).clamp(MIN_VALID_LIFETIME, MAX_VALID_LIFETIME);
        let yields = prefer == Some(PrefixPreference::CareOf) && live.iter().any(|one| one.preferred);
        // Nodes with other prefixes have to know when the mobile network prefix is unreachable, and when it is back.
        let preferred = if refused || yields || cut_off {
            AdvertisedLifetime::Zero
        } else {
            AdvertisedLifetime::Fixed(PREFERRED_LIFETIME)
        };
        let own = AdvertisedPrefix {
            prefix: inside.config.prefix,
            on_link: true,
            valid: AdvertisedLifetime::Fixed(VALID_LIFETIME),
            preferred,
        };
        let mut prefixes = vec![own];
        let lasting = if refused { AdvertisedLifetime::Zero } else { AdvertisedLifetime::Fixed(router) };
        let mut routes: Vec<(Prefix, AdvertisedLifetime)> =
            mobile_network.iter().map(|prefix| (*prefix, lasting)).collect();
        for one in &live {
            let until = AdvertisedLifetime::Until(one.grant.preferred_until, most / 2);
            prefixes.push(AdvertisedPrefix {
                prefix: one.prefix,
                on_link: one.on_link,
                valid: AdvertisedLifetime::Until(one.grant.valid_until, most),
                preferred: if one.preferred { until } else { AdvertisedLifetime::Zero },
            });
            if one.grant.kind == GrantKind::Delegated {
                routes.push((one.grant.prefix, AdvertisedLifetime::Until(one.grant.valid_until, router)));
            }
        }
        inside.advertised_prefixes.record_advertised(now, (most, &inside.config), &live, out);
        for (prefix, state) in inside.advertised_prefixes.iter().filter(|(_, state)| state.withdrawn) {
            let (valid, preferred) = (AdvertisedLifetime::Zero, AdvertisedLifetime::Zero);
            prefixes.push(AdvertisedPrefix { prefix: *prefix, on_link: state.on_link, valid, preferred });
            let gone = state.part_of.filter(|of| routes.iter().all(|(known, _)| known != of));
            routes.extend(gone.map(|of| (of, AdvertisedLifetime::Zero)));
        }
        let link = inside.link();
        let proxy = self.prefix_sources.values().any(|source| link.is_some() && source.offered_downstream() == link);
        let brisk = prefer.is_some() || inside.advertised_prefixes.iter().any(|(_, state)| state.withdrawn);
        RaContent { prefixes, routes, interval, proxy_flag: proxy, repeat_quickly: brisk, ..RaContent::default() }
    }

    /// The view of all prefixes on ingress interfaces.
    pub(in super::super) fn show_prefixes(&self, now: Time) -> Vec<PrefixView> {
        let name = |bid: Bid| {
            let uplink = self.uplinks.iter().find(|uplink| uplink.config.bid == bid);
            uplink.map(|uplink| uplink.config.interface.clone())
        };
        let live = self.advertisable_prefixes(now);
        let rows = self.ingress.iter().zip(&live).flat_map(|(inside, live)| {
            let ingress = inside.config.interface.clone();
            let preference = |state: bool| if state { PrefixState::Preferred } else { PrefixState::Deprecated };
            let prefer = self.config.care_of_prefixes.map(|config| config.prefer);
            let yields = prefer == Some(PrefixPreference::CareOf) && live.iter().any(|one| one.preferred);
            let own = PrefixView {
                prefix: inside.config.prefix,
                ingress: ingress.clone(),
                role: PrefixRole::Home,
                uplink: None,
                part_of: None,
                valid: None,
                state: preference(!self.prefixes_rejected && !yields),
            };
            let live = live.iter().map(|one| {
                let delegated = one.grant.kind == GrantKind::Delegated;
                PrefixView {
                    prefix: one.prefix,
                    ingress: inside.config.interface.clone(),
                    role: if delegated { PrefixRole::Delegated } else { PrefixRole::Shared },
                    uplink: name(one.grant.bid),
                    part_of: Some(one.grant.prefix).filter(|_| delegated),
                    valid: Some(one.grant.valid_until.since(now)),
                    state: preference(one.preferred),
                }
            });
            let over = inside.advertised_prefixes.iter().filter(|(_, state)| state.withdrawn).map(|(prefix, state)| {
                PrefixView {
                    prefix: *prefix,
                    ingress: inside.config.interface.clone(),
                    role: match (state.former_ingress_prefix, state.part_of) {
                        (true, _) => PrefixRole::Home,
                        (_, Some(_)) => PrefixRole::Delegated,
                        (_, None) => PrefixRole::Shared,
                    },
                    uplink: name(state.bid),
                    part_of: state.part_of,
                    valid: Some(Duration::ZERO),
                    state: PrefixState::Withdrawn,
                }
            });
            std::iter::once(own).chain(live).chain(over).collect::<Vec<_>>()
        });
        rows.collect()
    }
}

impl AdvertisedPrefixes {
    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Prefix, &AdvertisedState)> {
        self.0.iter()
    }

    /// Whether it is advertised as withdrawn.
    pub(super) fn is_withdrawn(&self, prefix: Prefix) -> bool {
        self.0.get(&prefix).is_some_and(AdvertisedState::is_withdrawn)
    }

    /// When the hold of each ends, and when nodes no longer have it.
    pub(in super::super) fn deadlines(&self) -> impl Iterator<Item = Time> {
        self.0.values().flat_map(AdvertisedState::deadlines)
    }

    /// Notes that `address` is downstream: if it is of a withdrawn prefix, ICMPv6 errors have a route to it.
    pub(super) fn learn(&mut self, address: Ipv6Addr) {
        for (_, state) in self.0.iter_mut().filter(|(prefix, state)| state.withdrawn && prefix.contains(address)) {
            if let Some(nodes) = &mut state.node_addresses
                && nodes.len() < MAX_ADDRESSES
                && !nodes.contains(&address)
            {
                nodes.push(address);
            }
        }
    }

    /// Adds `prefix` if there is room.
    fn restore(&mut self, prefix: Prefix, state: AdvertisedState) {
        if self.0.len() < MAX_ADVERTISED {
            self.0.insert(prefix, state);
        }
    }

    /// Advertises the former prefix of `interface` as withdrawn, for as long as nodes may consider it valid (RFC 9096
    /// §3.5). A record keeps it for a later run.
    pub(in super::super) fn withdraw(&mut self, now: Time, prefix: Prefix, interface: &str, out: &mut Outbox) {
        self.make_room_for(prefix, out);
        if self.0.len() < MAX_ADVERTISED {
            let state = AdvertisedState::new(now + VALID_LIFETIME, true);
            self.0.insert(prefix, AdvertisedState { withdrawn: true, former_ingress_prefix: true, ..state });
            out.put(journal_item(prefix, interface, true));
        }
    }

    /// Records that `live` is advertised now on the interface of `config` with lifetimes up to `most`, and that all other
    /// prefixes are withdrawn.
    fn record_advertised(
        &mut self,
        now: Time,
        (most, config): (Duration, &IngressConfig),
        live: &[AdvertisablePrefix],
        out: &mut Outbox,
    ) {
        let own = config.prefix;
        self.0.retain(|prefix, one| {
            let kept = one.believed_until > now && *prefix != own;
            if !kept {
                out.drop(Key::JournalRecord(JournalKey::CareOfPrefix(*prefix)));
            }
            kept
        });
        for (prefix, one) in &mut self.0 {
            let undecided = one.hold_until.is_some_and(|until| until > now);
            one.withdrawn = !undecided && live.iter().all(|live| live.prefix != *prefix);
        }
        for one in live {
            self.make_room_for(one.prefix, out);
            if !self.0.contains_key(&one.prefix) {
                out.put(journal_item(one.prefix, &config.interface, one.on_link));
            }
            self.0.insert(one.prefix, one.advertised_state(now, most));
        }
    }

    fn make_room_for(&mut self, prefix: Prefix, out: &mut Outbox) {
        let full = self.0.len() >= MAX_ADVERTISED && !self.0.contains_key(&prefix);
        let over = self.0.iter().filter(|(_, state)| state.withdrawn).min_by_key(|(_, state)| state.believed_until);
        if full && let Some(first) = over.map(|(prefix, _)| *prefix) {
            self.0.remove(&first);
            out.drop(Key::JournalRecord(JournalKey::CareOfPrefix(first)));
            out.report_full_table("care-of prefixes", MAX_ADVERTISED);
        }
    }
}

impl AdvertisablePrefix {
    /// The state after an advertisement at `now`.
    fn advertised_state(&self, now: Time, most: Duration) -> AdvertisedState {
        let nodes = match &self.grant.kind {
            GrantKind::Shared { node_addresses: nodes, .. } => nodes.clone(),
            GrantKind::Delegated => None,
        };
        let believed_until = now + self.grant.valid_until.since(now).min(most) + NODE_DELAY;
        AdvertisedState {
            bid: self.grant.bid,
            part_of: Some(self.grant.prefix).filter(|_| self.grant.kind == GrantKind::Delegated),
            node_addresses: nodes,
            ..AdvertisedState::new(believed_until, self.on_link)
        }
    }
}

impl AdvertisedState {
    /// The state of a prefix of no uplink, advertised without an end.
    fn new(believed_until: Time, on_link: bool) -> AdvertisedState {
        AdvertisedState {
            believed_until,
            bid: Bid(0),
            part_of: None,
            on_link,
            node_addresses: None,
            withdrawn: false,
            former_ingress_prefix: false,
            hold_until: None,
        }
    }

    /// When the hold ends, and when nodes no longer have it.
    fn deadlines(&self) -> impl Iterator<Item = Time> {
        self.hold_until.into_iter().chain([self.believed_until])
    }

    /// Whether it is withdrawn.
    pub(super) fn is_withdrawn(&self) -> bool {
        self.withdrawn
    }

    /// Its downstream addresses, present or former; `None` if all of them are.
    pub(super) fn node_addresses(&self) -> Option<&[Ipv6Addr]> {
        self.node_addresses.as_deref()
    }
}

/// The journal record of a prefix that is advertised on `interface`.
fn journal_item(prefix: Prefix, interface: &str, on_link: bool) -> Item {
    let interface = interface.to_owned();
    Item::JournalRecord(JournalRecord::CareOfPrefix(CareOfPrefixRecord { prefix, interface, on_link }))
}
