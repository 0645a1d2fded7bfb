//! A delegating router on one link (RFC 8415 §18.3). Its leases are lost with its instance: the next one delegates from
//! another pool, as after a renumbering.

use crate::net::{Header, datagram};
use roam6_proto::{Engine, Input, LinkId, Outbox, Time, Transmit, Via, View};
use roam6_wire::dhcp6::{
    self, ALL_RELAYS_AND_SERVERS, CLIENT_PORT, ClientServerMessage, DhcpOption, Duid, Iaid, IdentityAssociation,
    Message, MessageType, SERVER_PORT, Status, StatusCode, Timers,
};
use roam6_wire::ip6::Datagram;
use roam6_wire::udp::Udp;
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
    instance: u32,
    clients: Vec<(Duid, Iaid)>,
}

impl DelegatingRouter {
    /// An instance of a delegating router.
    pub fn new(spec: ServerSpec, instance: u32) -> DelegatingRouter {
        DelegatingRouter { spec, instance, clients: Vec::new() }
    }

    /// The prefix of a client's IA_PD.
    fn prefix(&mut self, client: (Duid, Iaid)) -> Option<Prefix> {
        let index = match self.clients.iter().position(|known| *known == client) {
            Some(index) => index,
            None if self.spec.without_prefixes || self.clients.len() >= CLIENTS => return None,
            None => {
                self.clients.push(client);
                self.clients.len() - 1
            }
        };
        let (instance, index) = (u128::from(self.instance) << 80, u128::try_from(index).unwrap_or(0) + 1);
        let bits = self.spec.pool.address().to_bits() | instance | index << (128 - u32::from(self.spec.length));
        Prefix::new(Ipv6Addr::from_bits(bits), self.spec.length)
    }

    fn reply(&mut self, request: &ClientServerMessage) -> Option<ClientServerMessage> {
        let spec = self.spec;
        let own = Duid::from_link_address(spec.address);
        let client = request.options.iter().find_map(|option| match option {
            DhcpOption::ClientId(client) => Some(client.clone()),
            _ => None,
        })?;
        let is_ours = !request.options.iter().any(|option| matches!(option, DhcpOption::ServerId(id) if *id != own));
        let association = associations(request).next()?;
        let id = association.id;
        let mut options = vec![DhcpOption::ClientId(client.clone()), DhcpOption::ServerId(own)];
        let kind = match request.kind {
            MessageType::Solicit if spec.rapid && !spec.without_prefixes && is_rapid(request) => {
                options.push(DhcpOption::RapidCommit);
                MessageType::Reply
            }
            MessageType::Solicit => MessageType::Advertise,
            MessageType::Request | MessageType::Renew | MessageType::Rebind | MessageType::Release if is_ours => {
                MessageType::Reply
            }
            _ => return None,
        };
        let leases = if request.kind == MessageType::Release {
            self.clients.retain(|known| *known != (client.clone(), id));
            Vec::new()
        } else {
            let extends = matches!(request.kind, MessageType::Renew | MessageType::Rebind);
            self.leases((client, id), association, extends)
        };
        let (renew, rebind) = spec.timers;
        let association = IdentityAssociation { id, timers: Timers { renew, rebind }, options: leases };
        options.extend([DhcpOption::Preference(spec.preference), DhcpOption::Prefixes(association)]);
        Some(ClientServerMessage { kind, transaction: request.transaction, options })
    }

    /// The options of a client's IA_PD: its prefix, those that have ended, and the status if there is no prefix.
    fn leases(&mut self, client: (Duid, Iaid), requested: &IdentityAssociation, extends: bool) -> Vec<DhcpOption> {
        let status = |code| DhcpOption::Status(Status { code, message: Vec::new() });
        if extends && self.spec.sends_status && !self.clients.contains(&client) {
            return vec![status(StatusCode::NO_BINDING)];
        }
        let granted = self.prefix(client);
        let lease = |prefix, valid| {
            DhcpOption::Prefix(dhcp6::Prefix { prefix, preferred: valid / 2, valid, options: Vec::new() })
        };
        let ended = requested_prefixes(requested).filter(|prefix| extends && Some(*prefix) != granted);
        let mut leases: Vec<_> = ended.map(|prefix| lease(prefix, 0)).collect();
        leases.push(granted.map_or(status(StatusCode::NO_PREFIXES), |prefix| lease(prefix, self.spec.valid)));
        leases
    }
}

fn associations(message: &ClientServerMessage) -> impl Iterator<Item = &IdentityAssociation> {
    message.options.iter().filter_map(|option| match option {
        DhcpOption::Prefixes(association) => Some(association),
        _ => None,
    })
}

fn leases(association: &IdentityAssociation) -> impl Iterator<Item = &dhcp6::Prefix> {
    association.options.iter().filter_map(|option| match option {
        DhcpOption::Prefix(lease) => Some(lease),
        _ => None,
    })
}

fn requested_prefixes(association: &IdentityAssociation) -> impl Iterator<Item = Prefix> {
    leases(association).map(|lease| lease.prefix)
}

fn is_rapid(message: &ClientServerMessage) -> bool {
    message.options.contains(&DhcpOption::RapidCommit)
}

fn parse(packet: &[u8]) -> Option<ClientServerMessage> {
    let datagram = Datagram::parse(packet).ok()?;
    let udp = Udp::parse(datagram.payload, datagram.source, datagram.destination).ok()?;
    match Message::parse(udp.payload).ok()? {
        Message::Exchange(message) => Some(message),
        _ => None,
    }
}

/// The prefixes that a Reply grants, with their valid lifetimes in seconds.
pub fn granted_prefixes(packet: &[u8]) -> Vec<(Prefix, u32)> {
    let reply = parse(packet).filter(|message| message.kind == MessageType::Reply);
    let leases = reply.iter().flat_map(associations).flat_map(leases).filter(|lease| lease.valid > 0);
    leases.map(|lease| (lease.prefix, lease.valid)).collect()
}

impl Engine for DelegatingRouter {
    fn handle(&mut self, _: Time, input: &Input, out: &mut Outbox) {
        let Input::Packet(packet) = input else { return };
        let header = Header::parse(&packet.bytes).filter(|header| header.destination == ALL_RELAYS_AND_SERVERS);
        if let (Some(client), Some(request)) = (header, parse(&packet.bytes))
            && let Some(reply) = self.reply(&request)
        {
            let (source, destination) = (self.spec.address.link_local(), client.source);
            let header = Header { source, destination, ..client };
            let bytes = datagram::udp(header, (SERVER_PORT, CLIENT_PORT), &Message::Exchange(reply).emit());
            out.transmit(Transmit { via: Via::Link(self.spec.link), bytes });
        }
    }

    fn deadline(&self) -> Option<Time> {
        None
    }

    fn view(&self, _: Time, _: &mut View) {}
}
