//! The operator's view of the mobile router, and its next deadline.

use super::MobileRouter;
use super::path_quality::Degradation;
use super::probing::Standing;
use super::registration::CareOf;
use super::uplink::Uplink;
use crate::contract::item::TunnelPath;
use crate::contract::report::captive_portal;
use crate::contract::view::{
    BindingRole, BindingState, BindingView, LinkRole, LinkState, LinkView, TimerView, TrafficView, TunnelView,
};
use crate::{Time, View};
use core::time::Duration;
use roam6_wire::{Bid, Ipv4Endpoint, Prefix};
use std::net::Ipv6Addr;

impl MobileRouter {
    /// All timers: interface, name, and time.
    fn timers(&self, now: Time) -> impl Iterator<Item = (&str, &'static str, Time)> {
        let uplinks = self.uplinks.iter().flat_map(|uplink| {
            let name = uplink.config.interface.as_str();
            [
                (name, "link", uplink.deadline()),
                (name, "probe", self.probe_deadline(uplink)),
                (name, "path MTU", self.search_deadline(uplink)),
                (name, "data plan", uplink.usage_deadline()),
                (name, "transport", self.transport_deadline(uplink)),
                (name, "captive portal", uplink.portal.deadline()),
            ]
        });
        let ingress = self.ingress.iter().map(|inside| {
            let deadline = inside.advertiser.as_ref().map(|advertiser| advertiser.deadline());
            (inside.config.interface.as_str(), "advertisement", deadline)
        });
        let sources = self.uplinks.iter().filter_map(move |uplink| {
            let source = self.prefix_sources.get(&uplink.config.bid)?;
            Some((uplink.config.interface.as_str(), "care-of prefix", source.deadline(now)))
        });
        let former = self.ingress.iter().map(move |inside| {
            let ends = inside.advertised_prefixes.deadlines().chain(inside.other_router_until);
            (inside.config.interface.as_str(), "former prefix", ends.filter(|end| *end > now).min())
        });
        let own = [
            ("", "registration", self.registration.deadline()),
            ("", "registration of a path", self.path_update_deadline()),
            ("", "next IPv4 uplink", self.ipv4_trial_ends()),
            ("", "home agent discovery", self.discovery_deadline(now)),
            ("", "home agent failover", self.failover_deadline()),
            ("", "de-registration", self.departure_deadline()),
            ("", "home link", self.home_deadline()),
            ("", "home prefix discovery", self.home_prefix_deadline()),
            ("", "path traffic", self.reading_deadline()),
            ("", "former path", self.lingering.iter().map(|left| left.until).min()),
            ("", "rejected item", self.desired_state.deadline()),
            ("", "takeover", self.takeover_deadline()),
            ("", "key exchange", self.keys.deadline()),
        ];
        uplinks
            .chain(ingress)
            .chain(sources)
            .chain(former)
            .chain(own)
            .filter_map(|(name, what, at)| Some((name, what, at?)))
    }

    /// The nearest of all timers.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        if self.stopping { None } else { self.timers(self.now).map(|(_, _, at)| at).min() }
    }

    /// When the next discovery request is due: without a care-of address there is no source for it.
    fn discovery_deadline(&self, now: Time) -> Option<Time> {
        let native = |care_of: &CareOf| !care_of.on_home_link && !care_of.is_observed();
        self.home_agents.deadline(now).filter(|_| self.usable_care_of().iter().any(native))
    }

    /// When the next probe of `uplink` is due.
    fn probe_deadline(&self, uplink: &Uplink) -> Option<Time> {
        let probing = self.config.probe.is_some() && self.is_probing() && self.is_probed(uplink);
        uplink.prober.deadline().into_iter().chain(uplink.traffic.deadline()).min().filter(|_| probing)
    }

    /// Adds everything to `view`.
    pub(super) fn show(&self, now: Time, view: &mut View) {
        view.bindings.extend(self.show_bindings(now));
        view.links.extend(self.uplinks.iter().map(|uplink| self.show_uplink(now, uplink)));
        view.links.extend(self.ingress.iter().map(|inside| LinkView {
            name: inside.config.interface.clone(),
            role: LinkRole::Ingress,
            up: inside.interface.as_ref().is_some_and(|interface| interface.up),
            mtu: inside.interface.as_ref().map_or(0, |interface| interface.mtu),
            router: None,
            addresses: inside.address().into_iter().collect(),
            bid: None,
            changed: None,
            state: match (&inside.interface, &inside.advertiser) {
                (None, _) => LinkState::NoInterface,
                (_, Some(_)) => LinkState::Advertising,
                (_, None) => LinkState::Down,
            },
            fault: None,
            fault_status: None,
            last_error: None,
            error_age: None,
            quality: None,
            usage: None,
            transport: None,
            hints: inside.hints(now),
        }));
        view.tunnels.extend(self.paths().iter().map(|path| self.show_path(now, path)));
        view.prefixes.extend(self.show_prefixes(now));
        view.timers.extend(self.timers(now).map(|(interface, what, at)| TimerView {
            name: format!("{interface} {what}").trim().to_owned(),
            remaining: at.since(now),
        }));
        let ends = self.home_prefixes.iter().flat_map(|known| {
            [("valid", known.valid_until), ("preferred", known.preferred_until)]
                .map(|(what, at)| (known.prefix, what, at))
        });
        view.timers.extend(ends.filter_map(|(prefix, what, at)| {
            Some(TimerView { name: format!("home prefix {prefix} {what}"), remaining: at?.since(now) })
        }));
    }

    fn show_path(&self, now: Time, path: &TunnelPath) -> TunnelView {
        // A single care-of address is registered without a BID.
        let uplink = self.uplinks.iter().find(|uplink| path.link.is_some() && uplink.link() == path.link);
        let usage = uplink.and_then(|uplink| uplink.show_usage());
        TunnelView {
            tunnel: super::forwarding::TUNNEL.0,
            bid: path.bid,
            local: path.local,
            remote: path.remote,
            mtu: path.mtu,
            weight: path.weight,
            far: vec![Prefix::ALL],
            state: self.state_of_path(path),
            changed: self.state_ages.of_path(now, path),
            link: uplink.map(|uplink| uplink.config.interface.clone()),
            quality: uplink.and_then(|uplink| self.show_quality(now, uplink)),
            traffic: usage.map(|usage| TrafficView { tx: usage.total_tx, rx: usage.total_rx }),
        }
    }

    fn show_bindings(&self, now: Time) -> Vec<BindingView> {
        let (fault, fault_status, last_error, error_age) = self.show_registration_fault(now);
        let key = self.key_fingerprint();
        let row = |home_agent: Ipv6Addr,
                   bid: Bid,
                   care_of: Option<Ipv6Addr>,
                   remaining: Duration,
                   state: BindingState| BindingView {
            role: BindingRole::MobileRouter,
            home_address: self.config.home_address,
            name: None,
            bid,
            care_of: care_of.map(without_port),
            udp_port: None,
            home_agent,
            prefixes: self.networks().filter(|prefix| !self.diagnosis.rejected_prefixes.contains(prefix)).collect(),
            sequence: self.registration.sequence(),
            remaining,
            state,
            changed: None,
            refused_prefixes: self.diagnosis.rejected_prefixes.clone(),
            fault: fault.clone(),
            fault_status,
            last_error: last_error.clone(),
            error_age,
            key: key.clone(),
        };
        let in_use = self.home_agents.in_use().unwrap_or(Ipv6Addr::UNSPECIFIED);
        if self.home_link.as_ref().is_some_and(|home| home.deregistered) {
            return vec![row(in_use, Bid(0), None, Duration::ZERO, BindingState::Home)];
        }
        let mut rows = Vec::new();
        if let Some(binding) = self.registration.binding() {
            let (home_agent, remaining) = (binding.registration.home_agent, binding.expires.since(now));
            let age = |held: &CareOf| self.path(held, 0).and_then(|path| self.state_ages.of_path(now, &path));
            let bound = |held: &CareOf| BindingView {
                changed: age(held),
                ..row(home_agent, held.bid, Some(held.address.0), remaining, BindingState::Bound)
            };
            rows.extend(binding.care_of().iter().map(bound));
        }
        let single = self.path_update.as_ref().map(|update| &update.wanted);
        for wanted in self.registration.pending().into_iter().chain(single) {
            for care_of in wanted.care_of() {
                if rows.iter().all(|row| row.care_of != Some(without_port(care_of.address.0))) {
                    let care_of = (care_of.bid, Some(care_of.address.0));
                    rows.push(row(wanted.home_agent, care_of.0, care_of.1, Duration::ZERO, BindingState::Registering));
                }
            }
        }
        if rows.is_empty() && fault.is_some() {
            let state = if self.diagnosis.is_rejected { BindingState::Refused } else { BindingState::Registering };
            rows.push(row(in_use, Bid(0), None, Duration::ZERO, state));
        }
        rows
    }

    /// The use of a usable uplink: `visited` only once acknowledged.
    fn usage_state(&self, now: Time, uplink: &Uplink) -> LinkState {
        let avoided = self.is_avoided(uplink.config.bid);
        let quality = &uplink.prober.quality;
        // Silence has ended where the path is usable.
        let is_good = |why: &Degradation| *why == Degradation::Silence || quality.held_until(now).is_some();
        match quality.degradation().filter(|_| self.standing(uplink.config.bid) == Standing::Last) {
            Some(why) if is_good(&why) && avoided => return LinkState::Recovering,
            Some(why) if !is_good(&why) => return LinkState::Degraded,
            _ => {}
        }
        let own = self.care_of_on(uplink);
        let mine = |care_of: &CareOf| own.is_some_and(|own| own.is_same_address(care_of));
        let held = self.registration.binding().map(|binding| binding.care_of()).unwrap_or_default();
        let pending = self.registration.pending().map(|wanted| wanted.care_of()).unwrap_or_default();
        let ipv4 = uplink.ipv4.in_use().is_some();
        match (held.iter().any(mine), pending.iter().any(mine)) {
            (true, _) if ipv4 && uplink.ipv4.encapsulation.behind_nat => LinkState::Ipv4BehindNat,
            (true, _) if ipv4 => LinkState::Ipv4,
            (true, _) => LinkState::Visited,
            (false, true) => LinkState::Registering,
            (false, false) if self.diagnosis.is_rejected => LinkState::Refused,
            (false, false) if ipv4 && self.registers_several() => LinkState::Registering,
            (false, false) if self.registration.binding().is_some() => LinkState::Standby,
            (false, false) => LinkState::Registering,
        }
    }

    /// What the network has in the way of an uplink in this state.
    fn hints(&self, uplink: &Uplink, state: &LinkState) -> Vec<String> {
        use LinkState::{Degraded, Home, Ipv4, Ipv4BehindNat, Recovering, Standby, Visited};
        // A network may name a portal that everybody has passed.
        if matches!(state, Degraded | Home | Ipv4 | Ipv4BehindNat | Recovering | Standby | Visited) {
            return Vec::new();
        }
        // A page for people, where the options name an API for programs.
        if let Some(found) = uplink.portal.hint() {
            return vec![found];
        }
        let mut routers = uplink.attachment.iter().flat_map(|attachment| attachment.routers());
        let advertised = routers.find_map(|router| router.captive_portal.as_ref());
        let leased = || uplink.lease.as_ref()?.dns()?.0.captive_portal.as_ref();
        let delegated = || self.prefix_sources.get(&uplink.config.bid)?.dns()?.0.captive_portal.as_ref();
        let portal = advertised.or_else(leased).or_else(delegated).filter(|portal| !portal.is_unrestricted());
        portal.map(|portal| captive_portal(Some(&portal.to_string()))).into_iter().collect()
    }

    /// The state of an uplink.
    pub(super) fn link_state(&self, now: Time, uplink: &Uplink) -> LinkState {
        match (uplink.up(), uplink.on_home_link, uplink.router(), &uplink.care_of_address) {
            _ if uplink.interface.is_none() => LinkState::NoInterface,
            (None, ..) => LinkState::Down,
            _ if uplink.is_barred() => LinkState::Exhausted,
            _ if uplink.ipv4.in_use().is_some() && uplink.prober.is_silent() => LinkState::Silent,
            _ if uplink.ipv4.in_use().is_some() => self.usage_state(now, uplink),
            (_, true, ..) => LinkState::Home,
            (_, _, None, _) if uplink.has_router_without_prefix() => LinkState::RouterWithoutPrefix,
            (_, _, None, _) if self.lacks_ipv4_home_agent(uplink) => LinkState::NoIpv4HomeAgent,
            (_, _, None, _) => LinkState::NoRouter,
            (_, _, _, None) if uplink.lease.is_some() => LinkState::WaitingForDhcpv6,
            (_, _, _, None) => LinkState::NoAddress,
            _ if uplink.prober.is_recovering() => LinkState::Recovering,
            _ if uplink.prober.is_silent() => LinkState::Silent,
            (_, _, _, Some(formed)) if !formed.usable => LinkState::CheckingAddress,
            _ => self.usage_state(now, uplink),
        }
    }

    fn show_uplink(&self, now: Time, uplink: &Uplink) -> LinkView {
        let registering =
            || self.diagnosis.registration_fault().filter(|_| uplink.is_up() && uplink.care_of().is_some());
        let fault = self.diagnosis.path_fault(uplink.config.bid).or_else(registering);
        let state = self.link_state(now, uplink);
        LinkView {
            fault: fault.map(|fault| fault.kind.clone()),
            fault_status: fault.and_then(|fault| fault.status),
            last_error: fault.map(|fault| fault.cause.clone()),
            error_age: fault.map(|fault| now.since(fault.since)),
            usage: uplink.show_usage(),
            transport: uplink.show_transport(),
            name: uplink.config.interface.clone(),
            role: if uplink.on_home_link { LinkRole::Home } else { LinkRole::Uplink },
            up: uplink.up().is_some(),
            mtu: uplink.mtu(),
            router: uplink.router(),
            bid: Some(uplink.config.bid),
            changed: self.state_ages.of_link(now, uplink.config.bid),
            addresses: uplink
                .care_of_address
                .iter()
                .map(|formed| formed.address.0)
                .chain(uplink.ipv4.in_use().map(|address| without_port(address.0)))
                .collect(),
            hints: self.hints(uplink, &state),
            state,
            quality: self.show_quality(now, uplink),
        }
    }
}

/// An IPv4 care-of address as an IPv4-mapped one: the port is meaningless once a NAT has translated it.
fn without_port(address: Ipv6Addr) -> Ipv6Addr {
    Ipv4Endpoint::from_ipv6(address).map_or(address, |end| end.address.to_ipv6_mapped())
}
