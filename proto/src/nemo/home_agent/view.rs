//! The operator's view of the home agent.

use super::HomeAgent;
use super::cache::{Binding, Registration};
use super::types::CareOf;
use crate::contract::item::TunnelPath;
use crate::contract::view::{
    BindingRole, BindingState, BindingView, FaultKind, LinkRole, LinkState, LinkView, PathState, TimerView, TunnelView,
};
use crate::{Time, View};
use core::ops::Bound;
use core::time::Duration;
use roam6_wire::{Bid, HomeAddress, Sequence};

/// Maximum timers shown, the nearest first.
const TIMERS_SHOWN: usize = 16;
/// Bindings in one page.
const PAGE_ROWS: usize = 256;

impl HomeAgent {
    /// Adds the home link and the nearest timers to `view`.
    pub(super) fn show_summary(&self, now: Time, view: &mut View) {
        view.links.extend(self.config.home_link.iter().map(|name| self.show_link(name)));
        view.bindings.extend(self.show_rejected(now));
        view.invitations.extend(self.show_invitations());
        view.timers.extend(
            self.timers
                .iter()
                .take(TIMERS_SHOWN)
                .map(|(at, timer)| TimerView { name: format!("home agent: {timer}"), remaining: at.since(now) }),
        );
        let mut count = |name: &str, number: usize| {
            view.counters.gauges.insert(format!("home_agent_{name}"), u64::try_from(number).unwrap_or(u64::MAX));
        };
        count("timers", self.timers.len());
        count("outcomes_awaited", self.desired_state.waiting());
        #[cfg(feature = "fleet")]
        self.show_fleet(now, view);
    }

    /// Adds a page of bindings and their tunnels, those after `last`. Returns the last one if there are more.
    pub(super) fn show_page(&self, now: Time, last: Option<HomeAddress>, view: &mut View) -> Option<HomeAddress> {
        let after = last.map_or(Bound::Unbounded, Bound::Excluded);
        let mut some = self.bindings.range((after, Bound::Unbounded));
        let (mut last, mut bound) = (None, 0);
        for (home, binding) in some.by_ref().take(PAGE_ROWS) {
            self.show_rows(now, *home, binding, view);
            bound += u64::from(binding.current.is_some());
            last = Some(*home);
        }
        *view.counters.gauges.entry("home_agent_bindings".to_owned()).or_default() += bound;
        last.filter(|_| some.next().is_some())
    }

    fn show_rows(&self, now: Time, home: HomeAddress, binding: &Binding, view: &mut View) {
        let Some(registration) = binding.latest() else { return };
        let row = |care_of| self.show_binding(now, home, binding, registration, care_of);
        view.bindings.extend(registration.care_of.iter().map(row));
        let left = binding.lingering_after(registration);
        if binding.current.is_none() {
            return;
        }
        let tunnel = self.tunnel(binding.tunnel, home, registration, &left);
        let used = tunnel.paths.len() - left.len();
        // The paths that are no former ones are those of the care-of addresses.
        let since = |path: &TunnelPath| {
            let mut known = registration.care_of.iter().chain(&left);
            known.find(|care_of| care_of.bid == path.bid && care_of.address == path.remote).map(|care_of| care_of.since)
        };
        let state = |at, weight| match (at < used, weight) {
            (false, _) => PathState::Left,
            (true, 0) => PathState::Standby,
            (true, _) => PathState::Up,
        };
        view.tunnels.extend(tunnel.paths.iter().enumerate().map(|(at, path)| TunnelView {
            tunnel: tunnel.id.0,
            bid: path.bid,
            local: path.local,
            remote: path.remote,
            mtu: path.mtu,
            weight: path.weight,
            far: tunnel.remote_prefixes.clone(),
            state: state(at, path.weight),
            changed: since(path).filter(|_| at < used).map(|since| now.since(since)),
            link: None,
            quality: None,
            traffic: None,
        }));
    }

    /// Home addresses without a binding whose updates are rejected.
    fn show_rejected(&self, now: Time) -> impl Iterator<Item = BindingView> {
        // What is known of one that has de-registered is kept.
        let is_unbound = |home: &HomeAddress| self.bindings.get(home).is_none_or(|binding| binding.current.is_none());
        let unbound = self.faults.iter().filter(move |(home, _)| is_unbound(home));
        unbound.map(move |(home, _)| self.show_unbound(now, *home))
    }

    fn show_unbound(&self, now: Time, home: HomeAddress) -> BindingView {
        let fault = self.faults.get(home);
        BindingView {
            role: BindingRole::HomeAgent,
            home_address: home,
            name: None,
            bid: Bid(0),
            care_of: None,
            udp_port: None,
            home_agent: self.config.address,
            prefixes: Vec::new(),
            sequence: Sequence(0),
            remaining: Duration::ZERO,
            state: BindingState::Refused,
            changed: None,
            refused_prefixes: Vec::new(),
            fault: fault.map(|fault| fault.kind.clone()),
            fault_status: fault.and_then(|fault| fault.status),
            last_error: fault.map(|fault| fault.cause.clone()),
            error_age: fault.map(|fault| now.since(fault.since)),
            key: self.key_fingerprint(home),
        }
    }

    fn show_binding(
        &self,
        now: Time,
        home: HomeAddress,
        binding: &Binding,
        registration: &Registration,
        care_of: &CareOf,
    ) -> BindingView {
        let view = BindingView {
            bid: care_of.bid,
            prefixes: registration.prefixes.to_vec(),
            sequence: binding.sequence,
            remaining: care_of.expires.since(now),
            state: if binding.pending.is_some() { BindingState::Registering } else { BindingState::Bound },
            changed: Some(now.since(care_of.since)),
            ..self.show_unbound(now, home)
        }
        .with_care_of(Some(care_of.address));
        let view = BindingView { udp_port: care_of.udp.or(view.udp_port), ..view };
        let Some((text, age)) = self.rivals.show(now, home, care_of) else { return view };
        let fault = Some(FaultKind::Stolen);
        BindingView { fault, fault_status: None, last_error: Some(text), error_age: Some(age), ..view }
    }

    fn show_link(&self, name: &str) -> LinkView {
        LinkView {
            fault: None,
            fault_status: None,
            last_error: None,
            error_age: None,
            quality: None,
            usage: None,
            transport: None,
            hints: Vec::new(),
            name: name.into(),
            role: LinkRole::Home,
            up: self.home_link.link().is_some(),
            mtu: self.home_link.mtu,
            router: None,
            addresses: vec![self.config.address],
            bid: None,
            state: if self.home_link.link().is_some() { LinkState::Home } else { LinkState::Down },
            changed: None,
        }
    }
}
