//! Credits: the limit of octets that a destination has not been seen to read, and when it is lifted.

use super::effect::Effect;
use super::engine::Relay;
use super::{BearerId, Tuple};
use crate::Time;
use roam6_wire::relay::{Connect, Message};

/// Octets of a connection that are sent before the other relay has sent a Credit. What a destination does not read stands in the
/// buffers of both relays and both hosts; it is less than 2 MB.
pub const UNCREDITED_OCTETS: u64 = 1280 * 1024;
/// Octets by which a destination reads: more than the buffers between a relay and a destination that reads nothing.
pub const TAKEN_OCTETS: u64 = 512 * 1024;

impl Relay {
    /// The destination of a bearer's octets reads them: a Credit is sent for it.
    pub(super) fn taken(&mut self, id: BearerId, out: &mut Vec<Effect>) {
        if !self.open.contains_key(&id) || self.send_credit(id, out) {
            return;
        }
        if self.uncredited.len() >= self.open.len() {
            self.uncredited.retain(|id| self.open.contains_key(id));
        }
        self.uncredited.push_back(id);
    }

    /// Sends the Credits for which there was no idle bearer.
    pub(super) fn retry_credits(&mut self, out: &mut Vec<Effect>) {
        for id in std::mem::take(&mut self.uncredited) {
            self.taken(id, out);
        }
    }

    /// An idle bearer is lost, perhaps with Credits that the other relay has not received.
    pub(super) fn recall_credits(&mut self, lost: BearerId) {
        let range = (lost, BearerId(0))..=(lost, BearerId(u32::MAX));
        for credit @ (_, id) in self.credits.range(range).copied().collect::<Vec<_>>() {
            self.credits.remove(&credit);
            self.uncredited.push_back(id);
            if let Some(open) = self.open.get_mut(&id) {
                open.credited_on = None;
            }
        }
    }

    /// Whether there is a bearer for the Credit of an open connection.
    fn send_credit(&mut self, id: BearerId, out: &mut Vec<Effect>) -> bool {
        let Some(via) = self.open.get(&id).and_then(|open| self.idle_bearer_to(open.home)) else { return false };
        if let Some(open) = self.open.get_mut(&id) {
            if let Some(before) = open.credited_on.replace(via) {
                self.credits.remove(&(before, id));
            }
            self.credits.insert((via, id));
            out.push(Effect::Send(via, Message::Credit(open.tuple.reversed().connect(0))));
        }
        true
    }

    /// The other relay has sent a Credit for a connection, on an idle bearer on which it asks.
    pub(super) fn credited(&mut self, now: Time, id: BearerId, connection: &Connect, out: &mut Vec<Effect>) {
        let Some(bearer) = self.bearers.get(&id) else { return };
        if !self.is_asked_on(bearer) {
            return self.reject(now, id, out);
        }
        let target = self.connections.bearer_of(&Tuple::from(connection));
        // A mobile router has no say about the connections of another one. One that has ended is no fault.
        let is_of_same_router = |id: &BearerId| self.open.get(id).is_some_and(|open| open.home == bearer.home);
        out.extend(target.filter(is_of_same_router).map(Effect::Lift));
    }
}
