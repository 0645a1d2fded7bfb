//! Timers of the home agent (RFC 6275 §9.5.5, §10.3.1, §10.3.2).

use super::cache::RegistrationState;
use super::transaction::RETRY_INTERVAL;
use super::types::{CareOf, HomeAgentTimer};
use super::{HomeAgent, forwarding};
use crate::contract::item::JournalKey;
use crate::contract::report::NemoReport;
use crate::{Item, Key, Outbox, Time, Via};
use roam6_wire::HomeAddress;

impl HomeAgent {
    /// Runs the timers that are due at `now`.
    pub(super) fn run_timers(&mut self, now: Time, out: &mut Outbox) {
        while let Some(timer) = self.timers.pop_expired(now) {
            match timer {
                HomeAgentTimer::Binding(home) => self.expire_binding(now, home, out),
                HomeAgentTimer::Announce(home, times) => self.send_neighbour_advertisements(now, home, times, out),
                HomeAgentTimer::Reinstall(home) => self.reinstall(now, home, out),
                HomeAgentTimer::ReinstallHomeLink => self.reinstall_home_link(out),
                HomeAgentTimer::PathMtu(remote) => self.expire_path_mtu(now, remote, out),
                #[cfg(feature = "fleet")]
                HomeAgentTimer::Fleet => self.run_fleet_timer(now, out),
                HomeAgentTimer::Advertise => self.send_periodic_advertisement(now, out),
                HomeAgentTimer::HomeAgents => self.expire_home_agents(now),
            }
        }
    }

    /// Schedules the timer of a binding.
    pub(super) fn schedule(&mut self, home: HomeAddress) {
        match self.bindings.get(&home).and_then(|binding| binding.deadline()) {
            Some(at) => self.timers.set(HomeAgentTimer::Binding(home), at),
            None => self.timers.cancel(&HomeAgentTimer::Binding(home)),
        }
    }

    fn expire_binding(&mut self, now: Time, home: HomeAddress, out: &mut Outbox) {
        #[cfg(feature = "fleet")]
        if self.postpones_expiry(now, home) {
            return;
        }
        let Some(binding) = self.bindings.get_mut(&home) else { return };
        match binding.pending.as_ref().map(|pending| &pending.state) {
            Some(RegistrationState::CheckingDuplicates(until)) if *until <= now => self.install(home, true, out),
            Some(_) => {}
            None => self.expire_registration(now, home, out),
        }
        self.schedule(home);
    }

    fn expire_registration(&mut self, now: Time, home: HomeAddress, out: &mut Outbox) {
        let Some(binding) = self.bindings.get_mut(&home) else { return };
        if binding.forget_at.is_some_and(|until| until <= now) {
            if self.deregistrations.contains_key(&home) {
                // The journal still has the binding.
                binding.forget_at = Some(now + RETRY_INTERVAL);
                return;
            }
            if !binding.lingering.is_empty() {
                out.drop(Key::Tunnel(binding.tunnel));
            }
            if binding.has_tombstone {
                out.drop(Key::JournalRecord(JournalKey::Binding(home)));
            }
            let (tunnel, sequence) = (binding.tunnel, binding.sequence);
            self.tunnels.remove(&tunnel);
            self.bindings.remove(&home);
            return self.record_sequence(home, sequence, out);
        }
        let gone = binding.lingering.extract_if(.., |(_, until)| *until <= now).count();
        binding.lingering.shrink_to_fit();
        let tunnel = binding.tunnel;
        let Some(current) = binding.current.as_mut() else {
            if gone > 0 && binding.lingering.is_empty() {
                out.drop(Key::Tunnel(tunnel));
            }
            return;
        };
        let ended: Vec<CareOf> = current.care_of.extract_if(.., |care_of| care_of.expires <= now).collect();
        for care_of in &ended {
            self.care_of_index.remove(&(care_of.address, tunnel));
        }
        let left_home =
            if ended.iter().any(|care_of| care_of.simultaneous_home) { current.home_link_address.take() } else { None };
        if let Some((link, at)) = self.home_link.link().zip(left_home) {
            out.drop(forwarding::neighbour_item(link, at).key());
        }
        if current.care_of.is_empty() {
            self.delete_binding(now, home, "lifetime ended", out);
            return;
        }
        if gone + ended.len() > 0 {
            self.update_tunnel(home, out);
        }
        if !ended.is_empty() {
            self.write_record(home, out);
        }
        self.request_refresh(now, home, out);
    }

    /// Ends a binding for a local reason.
    pub(super) fn delete_binding(&mut self, now: Time, home: HomeAddress, why: &str, out: &mut Outbox) {
        if self.bindings.get(&home).is_some_and(|binding| binding.latest().is_some()) {
            self.end_binding(now, home, true, out);
            out.report(NemoReport::Deregistered { home_address: home, why: why.into() });
        }
    }

    /// Puts the tunnel of a binding again after a change of paths or MTU. A pending registration puts its own.
    pub(super) fn update_tunnel(&mut self, home: HomeAddress, out: &mut Outbox) {
        let Some(binding) = self.bindings.get(&home) else { return };
        let Some(registration) = binding.latest() else { return };
        let left = binding.lingering_after(registration);
        let tunnel = Item::Tunnel(self.tunnel(binding.tunnel, home, registration, &left));
        self.put(home, tunnel, out);
    }

    /// Puts all items of a binding in force again. A pending registration puts its own.
    pub(super) fn reinstall(&mut self, now: Time, home: HomeAddress, out: &mut Outbox) {
        let Some(binding) = self.bindings.get_mut(&home).filter(|binding| binding.pending.is_none()) else { return };
        let Some(current) = &binding.current else {
            // The tunnel of lingering paths was rejected: it is dropped, since forwarding has ended.
            binding.lingering.clear();
            out.drop(Key::Tunnel(binding.tunnel));
            if binding.has_tombstone {
                self.write_deregistration(now, home, out);
            }
            return self.schedule(home);
        };
        let current = current.clone();
        for item in self.home_link_items(home, &current) {
            self.put(home, item, out);
        }
        self.put_forwarding(home, out);
    }

    /// Writes a binding in force to the journal again.
    pub(super) fn write_record(&mut self, home: HomeAddress, out: &mut Outbox) {
        let Some(binding) = self.bindings.get(&home) else { return };
        let Some(current) = &binding.current else { return };
        let Some(item) = self.journal_item(home, binding, current) else { return };
        self.put(home, item, out);
    }

    fn request_refresh(&mut self, now: Time, home: HomeAddress, out: &mut Outbox) {
        #[cfg(feature = "fleet")]
        let is_ours = self.is_tidier(home);
        #[cfg(not(feature = "fleet"))]
        let is_ours = true;
        let Some(binding) = self.bindings.get_mut(&home) else { return };
        if binding.refresh_request_at().is_none_or(|at| at > now) {
            return;
        }
        binding.refresh_requested = true;
        if !is_ours {
            return;
        }
        let Some(current) = binding.current.as_ref() else { return };
        let Some(care_of) = current.away().next().or(current.care_of.first()).cloned() else { return };
        let at_home = self.home_link.link().zip(current.home_link_address).filter(|_| care_of.simultaneous_home);
        let via = at_home.map_or(Via::Route, |(link, address)| Via::Neighbour { link, address });
        self.send_refresh_request(home, care_of, via, out);
    }
}
