//! A delegating router on one link (RFC 8415 §18.3). Its leases are lost with its instance: the next one delegates from
//! another pool, as after a renumbering.

use super::dhcp6::{Lease, Message, SERVERS, kind, status};
use crate::net::access_router::link_local;
use crate::net::datagram::Header;
use roam6_proto::{Engine, Input, LinkId, Outbox, Time, Transmit, Via, View};
use roam6_wire::{LinkAddress, Prefix};
use std::net::Ipv6Addr;

/// Clients of one instance at most.
const CLIENTS: usize = 16;

/// The behaviour of a delegating router.
#[derive(Debug, Clone, Copy)]
pub struct ServerSpec {
    /// The interface it serves.
    pub link: LinkId,
    /// Its link-layer address there.
    pub address: LinkAddress,
    /// The pool: each instance has a /48 of it.
    pub pool: Prefix,
    /// Length of a delegated prefix, 52 to 64.
    pub length: u8,
    /// Valid lifetime, seconds; preferred for half of it.
    pub valid: u32,
    /// T1 and T2; 0 leaves them to the client.
    pub timers: (u32, u32),
    /// Supports Rapid Commit.
    pub rapid: bool,
    /// Server preference.
    pub preference: u8,
    /// Has no prefixes available.
    pub without_prefixes: bool,
    /// Answers the renewal of an unknown lease with NoBinding; otherwise withdraws it and grants another at once.
    pub sends_status: bool,
}

/// The delegating router.
#[derive(Debug)]
pub struct DelegatingRouter {
    spec: ServerSpec,
    life: u32,
    clients: Vec<(Vec<u8>, u32)>,
}

impl DelegatingRouter {
    /// The `life`-th instance of a delegating router.
    pub fn new(manner: ServerSpec, life: u32) -> DelegatingRouter {
        DelegatingRouter { spec: manner, life, clients: Vec::new() }
    }

    /// The prefix of a client's IA_PD.
    fn prefix(&mut self, asked: &Message) -> Option<Prefix> {
        let name = (asked.client.clone(), asked.association);
        let index = match self.clients.iter().position(|known| *known == name) {
            Some(index) => index,
            None if self.spec.without_prefixes || self.clients.len() >= CLIENTS => return None,
            None => {
                self.clients.push(name);
                self.clients.len() - 1
            }
        };
        let (life, index) = (u128::from(self.life) << 80, u128::try_from(index).unwrap_or(0) + 1);
        let bits = self.spec.pool.address().to_bits() | life | index << (128 - u32::from(self.spec.length));
        Prefix::new(Ipv6Addr::from_bits(bits), self.spec.length)
    }

    fn answer(&mut self, asked: &Message) -> Option<Message> {
        let manner = self.spec;
        let own = manner.address.0.to_vec();
        let ours = asked.server.is_empty() || asked.server == own;
        let mut answer = Message {
            kind: kind::REPLY,
            transaction: asked.transaction,
            client: asked.client.clone(),
            server: own,
            preference: Some(manner.preference),
            association: asked.association,
            timers: manner.timers,
            ..Message::default()
        };
        match asked.kind {
            kind::SOLICIT if asked.rapid_commit && manner.rapid && !manner.without_prefixes => {
                answer.rapid_commit = true
            }
            kind::SOLICIT => answer.kind = kind::ADVERTISE,
            kind::REQUEST | kind::RENEW | kind::REBIND if ours => {}
            kind::RELEASE if ours => {
                self.clients.retain(|known| *known != (asked.client.clone(), asked.association));
                return Some(answer);
            }
            _ => return None,
        }
        let extends = matches!(asked.kind, kind::RENEW | kind::REBIND);
        let known = self.clients.contains(&(asked.client.clone(), asked.association));
        if extends && !known && manner.sends_status {
            answer.status = Some(status::NO_BINDING);
            return Some(answer);
        }
        let granted = self.prefix(asked);
        let lease = |prefix, valid| Lease { prefix, preferred: valid / 2, valid };
        let gone = asked.leases.iter().filter(|lease| extends && Some(lease.prefix) != granted);
        answer.leases = gone.map(|gone| lease(gone.prefix, 0)).collect();
        answer.leases.extend(granted.map(|prefix| lease(prefix, manner.valid)));
        if granted.is_none() {
            answer.status = Some(status::NO_PREFIXES);
        }
        Some(answer)
    }
}

impl Engine for DelegatingRouter {
    fn handle(&mut self, _: Time, input: &Input, out: &mut Outbox) {
        let Input::Packet(packet) = input else { return };
        let Some(header) = Header::parse(&packet.bytes).filter(|header| header.destination == SERVERS) else { return };
        let Some(asked) = Message::parse(&packet.bytes) else { return };
        if let Some(answer) = self.answer(&asked) {
            let bytes = answer.answer(link_local(self.spec.address), header.source);
            out.transmit(Transmit { via: Via::Link(self.spec.link), bytes });
        }
    }

    fn deadline(&self) -> Option<Time> {
        None
    }

    fn view(&self, _: Time, _: &mut View) {}
}
