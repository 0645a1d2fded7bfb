//! Path MTUs that one member learns and all need: a Packet Too Big about a packet of one member may reach any (RFC 7690).

use super::super::HomeAgent;
use super::super::types::HomeAgentTimer;
use crate::contract::item::SharedPathMtu;
use crate::{Item, Outbox, Time};
use roam6_wire::ip6::MINIMUM_MTU;
use std::net::Ipv6Addr;

impl HomeAgent {
    /// Tells the others of a Packet Too Big.
    pub(in super::super) fn share_path_mtu(&mut self, remote: Ipv6Addr, mtu: u32, out: &mut Outbox) {
        if self.fleet.is_some() {
            self.put_own(Item::FleetPathMtu(SharedPathMtu { remote, mtu }), out);
        }
    }

    /// Another member has had a Packet Too Big about a path of this one too.
    pub(super) fn learn_shared_path_mtu(&mut self, now: Time, remote: Ipv6Addr, mtu: u32, out: &mut Outbox) {
        if mtu < MINIMUM_MTU || self.homes_bound_at(remote).is_empty() || self.path_mtu.is_full_for(remote) {
            return;
        }
        let Some(mtu) = self.path_mtu.learn(now, remote, mtu) else { return };
        if let Some(until) = self.path_mtu.expire(now, remote) {
            self.timers.set(HomeAgentTimer::PathMtu(remote), until);
        }
        self.path_mtu_changed(remote, mtu, out);
    }
}
