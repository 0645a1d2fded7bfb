//! DHCPv6, parsed and built apart from the codec under test (RFC 8415 §8, §21).

use crate::net::datagram::{self, Header, UDP};
use roam6_wire::Prefix;
use std::net::Ipv6Addr;

/// All_DHCP_Relay_Agents_and_Servers.
pub const SERVERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 1, 2);
const CLIENT_PORT: u16 = 546;
const SERVER_PORT: u16 = 547;

/// Message types.
pub mod kind {
    /// Looks for servers.
    pub const SOLICIT: u8 = 1;
    /// A server offers.
    pub const ADVERTISE: u8 = 2;
    /// Takes an offer.
    pub const REQUEST: u8 = 3;
    /// Extends leases with the server that gave them.
    pub const RENEW: u8 = 5;
    /// Extends leases with any server.
    pub const REBIND: u8 = 6;
    /// A server answers.
    pub const REPLY: u8 = 7;
    /// Gives leases back.
    pub const RELEASE: u8 = 8;
}

/// Status codes.
pub mod status {
    /// The server knows nothing of the lease.
    pub const NO_BINDING: u16 = 3;
    /// No prefixes left.
    pub const NO_PREFIXES: u16 = 6;
}

const CLIENT_ID: u16 = 1;
const SERVER_ID: u16 = 2;
const PREFERENCE: u16 = 7;
const STATUS_CODE: u16 = 13;
const RAPID_COMMIT: u16 = 14;
const IA_PD: u16 = 25;
const IA_PREFIX: u16 = 26;

/// A message of prefix delegation between client and server.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Message {
    /// See [`kind`].
    pub kind: u8,
    /// Transaction identifier.
    pub transaction: [u8; 3],
    /// Client DUID.
    pub client: Vec<u8>,
    /// Server DUID.
    pub server: Vec<u8>,
    /// Rapid Commit.
    pub rapid_commit: bool,
    /// Server preference.
    pub preference: Option<u8>,
    /// IAID.
    pub association: u32,
    /// T1 and T2, seconds.
    pub timers: (u32, u32),
    /// Status of the IA_PD, if present.
    pub status: Option<u16>,
    /// Its prefixes.
    pub leases: Vec<Lease>,
}

/// A prefix and its lifetimes, seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// The prefix.
    pub prefix: Prefix,
    /// Preferred lifetime.
    pub preferred: u32,
    /// Valid lifetime.
    pub valid: u32,
}

impl Message {
    /// Parses a packet to a server or client; `None` if it is not DHCPv6.
    pub fn parse(packet: &[u8]) -> Option<Message> {
        let Some((UDP, &[_, _, high, low, _, _, _, _, kind, a, b, c, ref options @ ..])) =
            datagram::upper_layer(packet)
        else {
            return None;
        };
        let known = [CLIENT_PORT, SERVER_PORT].contains(&u16::from_be_bytes([high, low]));
        let mut message = Message { kind, transaction: [a, b, c], ..Message::default() };
        for (option, body) in list(options).filter(|_| known) {
            match option {
                CLIENT_ID => message.client = body.to_vec(),
                SERVER_ID => message.server = body.to_vec(),
                RAPID_COMMIT => message.rapid_commit = true,
                PREFERENCE => message.preference = body.first().copied(),
                IA_PD => message.read_association(body)?,
                _ => {}
            }
        }
        known.then_some(message)
    }

    fn read_association(&mut self, body: &[u8]) -> Option<()> {
        let ([id, renew, rebind], options) = numbers(body)?;
        (self.association, self.timers) = (id, (renew, rebind));
        for (option, body) in list(options) {
            match (option, body) {
                (STATUS_CODE, [high, low, ..]) => self.status = Some(u16::from_be_bytes([*high, *low])),
                (IA_PREFIX, _) => {
                    let ([preferred, valid], rest) = numbers(body)?;
                    let (length, rest) = rest.split_first()?;
                    let address: [u8; 16] = rest.get(..16)?.try_into().ok()?;
                    self.leases.push(Lease { prefix: Prefix::new(address.into(), *length)?, preferred, valid });
                }
                _ => {}
            }
        }
        Some(())
    }

    /// Builds a server's packet between two link-local addresses.
    pub fn answer(&self, source: Ipv6Addr, destination: Ipv6Addr) -> Vec<u8> {
        let mut inside = Vec::new();
        if let Some(status) = self.status {
            put(&mut inside, STATUS_CODE, &status.to_be_bytes());
        }
        for lease in &self.leases {
            let times = [lease.preferred, lease.valid].into_iter().flat_map(u32::to_be_bytes);
            let body: Vec<u8> = times.chain([lease.prefix.length()]).chain(lease.prefix.address().octets()).collect();
            put(&mut inside, IA_PREFIX, &body);
        }
        let numbers = [self.association, self.timers.0, self.timers.1].into_iter().flat_map(u32::to_be_bytes);
        let association: Vec<u8> = numbers.chain(inside).collect();
        let mut payload = vec![self.kind];
        payload.extend(self.transaction);
        put(&mut payload, CLIENT_ID, &self.client);
        put(&mut payload, SERVER_ID, &self.server);
        if self.rapid_commit {
            put(&mut payload, RAPID_COMMIT, &[]);
        }
        if let Some(preference) = self.preference {
            put(&mut payload, PREFERENCE, &[preference]);
        }
        put(&mut payload, IA_PD, &association);
        let header = Header { source, destination, next: UDP, hop_limit: 64 };
        datagram::udp(header, (SERVER_PORT, CLIENT_PORT), &payload)
    }
}

fn put(to: &mut Vec<u8>, option: u16, body: &[u8]) {
    to.extend(option.to_be_bytes());
    to.extend(u16::try_from(body.len()).unwrap_or(0).to_be_bytes());
    to.extend(body);
}

/// The options of a message, up to a truncated one.
fn list(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    core::iter::from_fn(move || {
        let &[a, b, c, d, ref rest @ ..] = bytes else { return None };
        let (body, rest) = rest.split_at_checked(u16::from_be_bytes([c, d]).into())?;
        bytes = rest;
        Some((u16::from_be_bytes([a, b]), body))
    })
}

/// So many 32-bit numbers, and the rest.
fn numbers<const COUNT: usize>(bytes: &[u8]) -> Option<([u32; COUNT], &[u8])> {
    let (head, rest) = bytes.split_at_checked(4 * COUNT)?;
    let (words, _) = head.as_chunks::<4>();
    let mut all = [0; COUNT];
    all.iter_mut().zip(words).for_each(|(to, from)| *to = u32::from_be_bytes(*from));
    Some((all, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use roam6_wire::dhcp6::{self, DhcpOption};
    use roam6_wire::udp::Udp;

    #[test]
    fn a_reply_is_parsed_here_and_by_the_codec() {
        let lease = Lease { prefix: "2001:db8:d000::/56".parse().unwrap(), preferred: 30, valid: 60 };
        let message = Message {
            kind: kind::REPLY,
            transaction: [1, 2, 3],
            client: vec![0, 4, 9],
            server: vec![0, 4, 8],
            rapid_commit: true,
            preference: Some(255),
            association: 7,
            timers: (10, 20),
            status: Some(status::NO_BINDING),
            leases: vec![lease],
        };
        let (source, destination) = ("fe80::1".parse().unwrap(), "fe80::2".parse().unwrap());
        let packet = message.answer(source, destination);
        assert_eq!(Message::parse(&packet), Some(message));
        let udp = Udp::parse(datagram::payload(&packet), source, destination).unwrap();
        let dhcp6::Message::Exchange(exchange) = dhcp6::Message::parse(udp.payload).unwrap() else { panic!() };
        let found = exchange.options.iter().find_map(|option| match option {
            DhcpOption::Prefixes(found) => Some(found.clone()),
            _ => None,
        });
        let found = found.unwrap();
        assert_eq!((found.id.0, found.timers.renew, found.options.len()), (7, 10, 2));
        assert_eq!(Message::parse(packet.split_last().unwrap().1), None);
    }
}
