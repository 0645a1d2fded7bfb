//! The operator's view of contexts, uplinks and timers.

use super::{Shim, Timer};
use crate::contract::view::{ContextView, LinkRole, LinkState, LinkView, LocatorProof, TimerView};
use crate::{AddressPair, Time, View};
use roam6_wire::shim6::VerificationMethod;

impl Shim {
    pub(super) fn fill_view(&self, now: Time, view: &mut View) {
        for (_, context) in self.contexts.iter() {
            let peer = context.peer.as_ref();
            let locators = peer.map(|peer| &*peer.locators).unwrap_or_default();
            let method = |method: VerificationMethod| match method {
                VerificationMethod::HBA => LocatorProof::Hba,
                VerificationMethod::CGA => LocatorProof::Cga,
                _ => LocatorProof::Ulid,
            };
            let paths =
                context.announced.locators.iter().flat_map(|local| {
                    locators.iter().map(|locator| AddressPair { local: *local, peer: locator.address })
                });
            view.contexts.push(ContextView {
                context: context.id,
                state: context.state(),
                reachability: context.reachability(),
                path: context.path,
                rewriting: context.is_established() && context.path != context.id.ulids,
                tag_in: context.tag,
                tag_out: peer.map(|peer| peer.tag),
                local: context.announced.locators.clone(),
                peer: locators.iter().map(|locator| (locator.address, method(locator.method))).collect(),
                paths: paths.collect(),
                idle: now.since(context.last_activity),
                tx: context.traffic.0,
                rx: context.traffic.1,
            });
        }
        view.links.extend(self.uplinks.iter().map(|(event, addresses)| LinkView {
            fault: None,
            fault_status: None,
            last_error: None,
            error_age: None,
            quality: None,
            usage: None,
            transport: None,
            hints: Vec::new(),
            name: event.name.clone(),
            role: LinkRole::Shim,
            up: event.up,
            mtu: event.mtu,
            router: self.uplinks.default_router(now, event.link),
            addresses: addresses.iter().copied().collect(),
            bid: None,
            changed: None,
            state: if event.up { LinkState::Up } else { LinkState::Down },
        }));
        self.addresses.fill_view(now, view);
        let pressing = self.timers.iter().filter(|(_, timer)| !matches!(timer, Timer::Idle(_))).take(MAX_TIMERS);
        view.timers
            .extend(pressing.map(|(at, timer)| TimerView { name: format!("shim: {timer}"), remaining: at.since(now) }));
    }
}

/// Timers shown at most: every context may have several.
const MAX_TIMERS: usize = 32;
