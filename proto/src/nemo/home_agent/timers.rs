//! What a home agent does when time passes (RFC 6275 §9.5.5, §10.3.1, §10.3.2).

use super::binding::{CareOf, Stage};
use super::forwarding::Ground;
use super::transaction::REPAIR_AFTER;
use super::{HomeAgent, forwarding};
use crate::base::time::Time;
use crate::contract::engine::Outbox;
use crate::contract::item::{Item, Key, JournalKey};
use crate::contract::output::Via;
use crate::contract::report::Report;
use core::fmt;
use roam6_wire::HomeAddress;
use std::net::Ipv6Addr;

/// What time brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// Something about this binding; [`Binding::due`] says what.
    Binding(HomeAddress),
    /// The host refused something of this binding, which is in force: it is asked again.
    Repair(HomeAddress),
    /// The host refused something that is of no binding: anycast addresses, or ways to the home link.
    RepairHomeLink,
    /// The home link is told again that this home address is here, so many times yet.
    Announce(HomeAddress, u8),
    /// A path MTU is too old to be believed.
    PathMtu(Ipv6Addr),
    /// A Router Advertisement on the home link.
    Advertise,
    /// Another home agent's entry ends.
    HomeAgents,
}

impl fmt::Display for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Timer::Binding(home) => write!(f, "binding of {home}"),
            Timer::Repair(home) => write!(f, "refused item of {home}"),
            Timer::RepairHomeLink => f.write_str("refused item of the home link"),
            Timer::Announce(home, _) => write!(f, "announcement of {home}"),
            Timer::PathMtu(remote) => write!(f, "path MTU to {remote}"),
            Timer::Advertise => f.write_str("advertisement"),
            Timer::HomeAgents => f.write_str("other home agent"),
        }
    }
}

impl HomeAgent {
    /// Does what is due by `now`.
    pub(super) fn expire(&mut self, now: Time, out: &mut Outbox) {
        while let Some(timer) = self.agenda.pop_expired(now) {
            match timer {
                Timer::Binding(home) => self.expire_binding(now, home, out),
                Timer::Announce(home, times) => self.announce(now, home, times, out),
                Timer::Repair(home) => self.repair(now, home, out),
                Timer::RepairHomeLink => self.repair_home_link(out),
                Timer::PathMtu(remote) => self.expire_path_mtu(now, remote, out),
                Timer::Advertise => self.advertise(now, out),
                Timer::HomeAgents => self.expire_home_agents(now),
            }
        }
    }

    /// Sets the timer of a binding to the next thing due.
    pub(super) fn schedule(&mut self, home: HomeAddress) {
        match self.bindings.get(&home).and_then(|binding| binding.due()) {
            Some(at) => self.agenda.set(Timer::Binding(home), at),
            None => self.agenda.cancel(&Timer::Binding(home)),
        }
    }

    fn expire_binding(&mut self, now: Time, home: HomeAddress, out: &mut Outbox) {
        let Some(binding) = self.bindings.get_mut(&home) else { return };
        match binding.pending.as_ref().map(|pending| &pending.stage) {
            Some(Stage::Probing(until)) if *until <= now => self.install(home, true, out),
            Some(_) => {}
            None => self.expire_registration(now, home, out),
        }
        self.schedule(home);
    }

    fn expire_registration(&mut self, now: Time, home: HomeAddress, out: &mut Outbox) {
        let Some(binding) = self.bindings.get_mut(&home) else { return };
        if binding.forget.is_some_and(|until| until <= now) {
            if self.farewells.contains_key(&home) {
                // The journal says yet that it is bound.
                binding.forget = Some(now + REPAIR_AFTER);
                return;
            }
            if !binding.left.is_empty() {
                out.drop(Key::Tunnel(binding.tunnel));
            }
            if binding.tombstone {
                out.drop(Key::JournalRecord(JournalKey::Binding(home)));
            }
            let (tunnel, sequence) = (binding.tunnel, binding.sequence);
            self.tunnels.remove(&tunnel);
            self.bindings.remove(&home);
            return self.spend(home, sequence, out);
        }
        let gone = binding.left.extract_if(.., |(_, until)| *until <= now).count();
        binding.left.shrink_to_fit();
        let tunnel = binding.tunnel;
        let Some(current) = binding.current.as_mut() else {
            if gone > 0 && binding.left.is_empty() {
                out.drop(Key::Tunnel(tunnel));
            }
            return;
        };
        let ended: Vec<CareOf> = current.care_of.extract_if(.., |care_of| care_of.expires <= now).collect();
        for care_of in &ended {
            self.care_of.remove(&(care_of.address, tunnel));
        }
        let left_home = if ended.iter().any(|care_of| care_of.at_home) { current.at_home.take() } else { None };
        if let Some((link, at)) = self.home.link().zip(left_home) {
            out.drop(forwarding::neighbour(link, at).key());
        }
        if current.care_of.is_empty() {
            self.unbind(now, home, "lifetime ended", out);
            return;
        }
        if gone + ended.len() > 0 {
            self.put_again(home, out);
        }
        if !ended.is_empty() {
            self.put_record(home, out);
        }
        self.ask_to_refresh(now, home, out);
    }

    /// Ends a binding for a reason of this side's.
    pub(super) fn unbind(&mut self, now: Time, home: HomeAddress, why: &str, out: &mut Outbox) {
        if self.bindings.get(&home).is_some_and(|binding| binding.latest().is_some()) {
            self.end(now, home, true, out);
            out.report(Report::Deregistered { home_address: home, why: why.into() });
        }
    }

    /// Puts the tunnel of a binding in force anew, as paths or their MTU changed. What is pending brings its own.
    pub(super) fn put_again(&mut self, home: HomeAddress, out: &mut Outbox) {
        let Some(binding) = self.bindings.get(&home) else { return };
        let Some(registration) = binding.latest() else { return };
        let left = binding.leaving(registration);
        let ground = Ground { own: self.config.own(), home: &self.home, mtu: &self.mtu };
        let item = ground.tunnel(binding.tunnel, home, registration, &left);
        self.put(home, item, out);
    }

    /// Asks for everything of a binding in force again. What is pending brings its own.
    pub(super) fn repair(&mut self, now: Time, home: HomeAddress, out: &mut Outbox) {
        let Some(binding) = self.bindings.get_mut(&home).filter(|binding| binding.pending.is_none()) else { return };
        let Some(current) = &binding.current else {
            // What was to let in packets still on their way does not stand: nothing is better than what did before.
            binding.left.clear();
            out.drop(Key::Tunnel(binding.tunnel));
            if binding.tombstone {
                self.write_farewell(now, home, out);
            }
            return self.schedule(home);
        };
        let mut items: Vec<Item> =
            self.home.link().into_iter().flat_map(|link| forwarding::proxies(link, home, current)).collect();
        let at_home = self.home.link().zip(current.at_home);
        items.extend(at_home.map(|(link, at)| forwarding::neighbour(link, at)));
        let left = binding.leaving(current);
        let ground = Ground { own: self.config.own(), home: &self.home, mtu: &self.mtu };
        items.push(ground.tunnel(binding.tunnel, home, current, &left));
        items.extend(forwarding::routes(binding.tunnel, home, current));
        items.push(Item::JournalRecord(binding.record(home, current, |at| self.clock.unix_micros(at).unwrap_or_default())));
        for item in items {
            self.put(home, item, out);
        }
    }

    /// Writes a binding in force to the journal anew.
    pub(super) fn put_record(&mut self, home: HomeAddress, out: &mut Outbox) {
        let Some(binding) = self.bindings.get(&home) else { return };
        let Some(current) = &binding.current else { return };
        let record = binding.record(home, current, |at| self.clock.unix_micros(at).unwrap_or_default());
        self.put(home, Item::JournalRecord(record), out);
    }

    fn ask_to_refresh(&mut self, now: Time, home: HomeAddress, out: &mut Outbox) {
        let Some(binding) = self.bindings.get_mut(&home) else { return };
        if binding.ask_at().is_none_or(|at| at > now) {
            return;
        }
        binding.asked = true;
        let Some(current) = binding.current.as_ref() else { return };
        let Some(care_of) = current.away().next().or(current.care_of.first()).copied() else { return };
        let at_home = self.home.link().zip(current.at_home).filter(|_| care_of.at_home);
        let via = at_home.map_or(Via::Route, |(link, address)| Via::Neighbour { link, address });
        self.request_refresh(home, care_of, via, out);
    }
}
