//! The messages of relays. By a Connect one relay asks the other to continue a TCP connection. It has the purpose of the Connect
//! and Error TLVs of RFC 8803 §4.2; relays keep connections to each other open, so that it need not be in a SYN.
//!
//! ```text
//! | Version = 2   |  Kind = 1, 3  |       Destination Port        |
//! |          Source Port          | Traffic Class |   Reserved    |
//! |                                                               |
//! |              Destination Address, IPv4 as IPv4-mapped         |
//! |                                                               |
//! |                                                               |
//! |                                                               |
//! |                Source Address, IPv4 as IPv4-mapped            |
//! |                                                               |
//! |                                                               |
//!
//! | Version = 2   |    Kind = 2   |     octets after the first 16 |
//! |                           Reserved                            |
//! |                           Instance                            |
//! |                                                               |
//! | number of prefixes, and of rules | prefixes ... | rules ...
//! ```
//!
//! The answer to a Connect is one octet. Offer (kind 2) and Credit (kind 3) have no answer. An Offer lets the other relay ask on this
//! connection. A Credit names another connection, by its end points as the receiver of the Credit receives its packets: the destination
//! of its octets reads them, so that the other relay may send without a limit of its own (flow control, as WINDOW_UPDATE of RFC 9113
//! §6.9, but once).

use crate::address::Prefix;
use crate::malformed::{Malformed, Why};
use crate::reader::Reader;
use crate::writer::{Writer, low};
use alloc::vec::Vec;
use core::net::Ipv6Addr;

/// TCP port of the relay of a home agent; the number of tunnels in UDP, which is a port of Mobile IPv6 (RFC 5555).
pub const PORT: u16 = 4191;
/// Octets of a Connect, and of a Credit.
pub const CONNECT_LENGTH: usize = 40;
/// Prefixes of one Offer.
pub const MAX_PREFIXES: usize = 32;
/// Rules of one Offer.
pub const MAX_RULES: usize = 16;
/// Octets of the longest message.
pub const MAX_LENGTH: usize = OFFER_HEADER + 2 + MAX_PREFIXES * PREFIX_LENGTH + MAX_RULES * RULE_LENGTH;

const VERSION: u8 = 2;
const CONNECT: u8 = 1;
const OFFER: u8 = 2;
const CREDIT: u8 = 3;
/// Octets of an Offer before the part whose length it states.
const OFFER_HEADER: usize = 16;
const PREFIX_LENGTH: usize = 17;
const RULE_LENGTH: usize = 2 * PREFIX_LENGTH + 10;
/// No DSCP.
const ANY_DSCP: u8 = 255;
const BONDED: u8 = 1;

/// A message between relays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// Asks the other relay to connect to a destination.
    Connect(Connect),
    /// Lets the other relay ask on this connection.
    Offer(Offer),
    /// Lifts the limit of the octets that are sent to the source of this connection; its traffic class has no meaning.
    Credit(Connect),
}

/// The end points of a relayed connection, and its traffic class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Connect {
    /// Whom the connection is made to.
    pub destination: Ipv6Addr,
    /// Its port.
    pub destination_port: u16,
    /// Who makes the connection.
    pub source: Ipv6Addr,
    /// Its port.
    pub source_port: u16,
    /// Traffic class of its packets.
    pub traffic_class: u8,
}

/// An offer of a mobile router to its home agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// A number that the relay chose when it started: connections of another instance are dead.
    pub instance: u64,
    /// The prefixes of the mobile network.
    pub prefixes: Vec<Prefix>,
    /// Which connections to it are to be relayed, in the order in which they are compared.
    pub rules: Vec<OfferedRule>,
}

/// A rule of an offer, from the correspondent's side, as a traffic selector (RFC 6088 §3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OfferedRule {
    /// Whether what matches is relayed; else it has another way.
    pub bonded: bool,
    /// The correspondent's prefix.
    pub source: Prefix,
    /// The prefix in the mobile network.
    pub destination: Prefix,
    /// The correspondent's ports, first and last.
    pub source_ports: (u16, u16),
    /// The ports in the mobile network, first and last.
    pub destination_ports: (u16, u16),
    /// Differentiated services code point; `None` for any.
    pub dscp: Option<u8>,
}

/// The answer to a Connect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The destination has accepted the connection.
    Connected,
    /// The destination reset it.
    Reset,
    /// No route to the destination.
    NoRoute,
    /// A firewall forbids it.
    Prohibited,
    /// The destination does not answer to its neighbours.
    AddressUnreachable,
    /// The destination did not answer.
    TimedOut,
    /// The relay does not serve this source or destination.
    NotAuthorized,
    /// The relay has no room for it.
    ResourceExceeded,
    /// Another code.
    Unknown(u8),
}

impl Answer {
    const CODES: [(u8, Answer); 8] = [
        (0, Answer::Connected),
        (1, Answer::Reset),
        (2, Answer::NoRoute),
        (3, Answer::Prohibited),
        (4, Answer::AddressUnreachable),
        (5, Answer::TimedOut),
        (32, Answer::NotAuthorized),
        (33, Answer::ResourceExceeded),
    ];

    /// The octet.
    pub fn code(self) -> u8 {
        match self {
            Answer::Unknown(code) => code,
            known => Self::CODES.iter().find(|(_, answer)| *answer == known).map_or(u8::MAX, |(code, _)| *code),
        }
    }

    /// The answer of an octet.
    pub fn from_code(code: u8) -> Answer {
        Self::CODES.iter().find(|(known, _)| *known == code).map_or(Answer::Unknown(code), |(_, answer)| *answer)
    }
}

impl Message {
    /// Parses the message at the start of `bytes`, and its length. `None`: there are too few octets yet.
    ///
    /// # Errors
    /// What begins there is no message.
    pub fn parse(bytes: &[u8]) -> Result<Option<(Message, usize)>, Malformed> {
        let mut reader = Reader::new("relay message", bytes);
        let [Ok(version), Ok(kind)] = [reader.u8(), reader.u8()] else { return Ok(None) };
        let malformed = |at, value: u8| Malformed { what: "relay message", at, why: Why::Value(value.into()) };
        match (version, kind) {
            (VERSION, CONNECT | CREDIT) if bytes.len() < CONNECT_LENGTH => Ok(None),
            (VERSION, CONNECT) => Connect::read(&mut reader).map(|it| Some((Message::Connect(it), CONNECT_LENGTH))),
            (VERSION, CREDIT) => Connect::read(&mut reader).map(|it| Some((Message::Credit(it), CONNECT_LENGTH))),
            (VERSION, OFFER) => Offer::read(&mut reader).map(|it| it.map(|(it, length)| (Message::Offer(it), length))),
            (VERSION, kind) => Err(malformed(1, kind)),
            (version, _) => Err(malformed(0, version)),
        }
    }

    /// The octets of the message.
    pub fn emit(&self) -> Vec<u8> {
        match self {
            Message::Connect(connect) => connect.emit(CONNECT),
            Message::Credit(connection) => connection.emit(CREDIT),
            Message::Offer(offer) => offer.emit(),
        }
    }
}

impl Connect {
    fn read(reader: &mut Reader<'_>) -> Result<Connect, Malformed> {
        let (destination_port, source_port) = (reader.u16()?, reader.u16()?);
        let traffic_class = reader.u8()?;
        reader.skip(1)?;
        let (destination, source) = (reader.address()?, reader.address()?);
        Ok(Connect { destination, destination_port, source, source_port, traffic_class })
    }

    fn emit(&self, kind: u8) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.u8(VERSION).u8(kind).u16(self.destination_port).u16(self.source_port);
        writer.u8(self.traffic_class).u8(0).bytes(&self.destination.octets()).bytes(&self.source.octets());
        writer.finish()
    }
}

impl Offer {
    fn read(reader: &mut Reader<'_>) -> Result<Option<(Offer, usize)>, Malformed> {
        if reader.len() < OFFER_HEADER - 2 {
            return Ok(None);
        }
        let too_long = reader.malformed(Why::Length { has: MAX_LENGTH + 1, needs: MAX_LENGTH });
        let length = usize::from(reader.u16()?);
        reader.skip(4)?;
        let instance = reader.u64()?;
        if OFFER_HEADER + length > MAX_LENGTH {
            return Err(too_long);
        }
        if reader.len() < length {
            return Ok(None);
        }
        let mut rest = reader.part("relay offer", length)?;
        let (prefixes, rules) = (usize::from(rest.u8()?), usize::from(rest.u8()?));
        if prefixes > MAX_PREFIXES || rules > MAX_RULES {
            return Err(rest.malformed(Why::TooMany(MAX_PREFIXES)));
        }
        let prefixes = (0..prefixes).map(|_| read_prefix(&mut rest)).collect::<Result<_, _>>()?;
        let rules = (0..rules).map(|_| OfferedRule::read(&mut rest)).collect::<Result<_, _>>()?;
        rest.end()?;
        Ok(Some((Offer { instance, prefixes, rules }, OFFER_HEADER + length)))
    }

    /// Prefixes and rules beyond the limits are left out.
    fn emit(&self) -> Vec<u8> {
        let prefixes = self.prefixes.get(..MAX_PREFIXES).unwrap_or(&self.prefixes);
        let rules = self.rules.get(..MAX_RULES).unwrap_or(&self.rules);
        let mut rest = Writer::new();
        rest.u8(low(prefixes.len())).u8(low(rules.len()));
        prefixes.iter().for_each(|prefix| write_prefix(&mut rest, *prefix));
        rules.iter().for_each(|rule| rule.write(&mut rest));
        let rest = rest.finish();
        let mut writer = Writer::new();
        writer.u8(VERSION).u8(OFFER).u16(u16::try_from(rest.len()).unwrap_or(u16::MAX)).u32(0);
        writer.bytes(&self.instance.to_be_bytes()).bytes(&rest);
        writer.finish()
    }
}

impl OfferedRule {
    fn read(reader: &mut Reader<'_>) -> Result<OfferedRule, Malformed> {
        let (flags, dscp) = (reader.u8()?, reader.u8()?);
        let range = |reader: &mut Reader<'_>| -> Result<(u16, u16), Malformed> { Ok((reader.u16()?, reader.u16()?)) };
        let (source_ports, destination_ports) = (range(reader)?, range(reader)?);
        let (source, destination) = (read_prefix(reader)?, read_prefix(reader)?);
        let dscp = Some(dscp).filter(|dscp| *dscp != ANY_DSCP);
        if let Some(dscp) = dscp.filter(|dscp| *dscp > 63) {
            return Err(reader.malformed(Why::Value(dscp.into())));
        }
        let bonded = flags & BONDED != 0;
        Ok(OfferedRule { bonded, source, destination, source_ports, destination_ports, dscp })
    }

    fn write(&self, writer: &mut Writer) {
        writer.u8(if self.bonded { BONDED } else { 0 }).u8(self.dscp.unwrap_or(ANY_DSCP));
        for (first, last) in [self.source_ports, self.destination_ports] {
            writer.u16(first).u16(last);
        }
        write_prefix(writer, self.source);
        write_prefix(writer, self.destination);
    }
}

fn read_prefix(reader: &mut Reader<'_>) -> Result<Prefix, Malformed> {
    let address = reader.address()?;
    let length = reader.u8()?;
    Prefix::new(address, length).ok_or_else(|| reader.malformed(Why::Value(length.into())))
}

fn write_prefix(writer: &mut Writer, prefix: Prefix) {
    writer.bytes(&prefix.address().octets()).u8(prefix.length());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> Prefix {
        text.parse().unwrap()
    }

    #[test]
    fn a_connect_is_forty_octets() {
        let connect = Connect {
            destination: "2001:db8:9::9".parse().unwrap(),
            destination_port: 443,
            source: "2001:db8:100::2".parse().unwrap(),
            source_port: 50000,
            traffic_class: 0xb8,
        };
        let octets = Message::Connect(connect).emit();
        assert_eq!(octets.len(), CONNECT_LENGTH);
        let expected = [
            &[2, 1, 1, 187, 195, 80, 0xb8, 0][..],
            &[0x20, 1, 0x0d, 0xb8, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9],
            &[0x20, 1, 0x0d, 0xb8, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2],
        ];
        assert_eq!(octets, expected.concat());
        assert_eq!(Message::parse(&octets), Ok(Some((Message::Connect(connect), 40))));
        // What follows is data.
        let longer = [&octets[..], b"GET /"].concat();
        assert_eq!(Message::parse(&longer), Ok(Some((Message::Connect(connect), 40))));
        // A Credit differs in its kind.
        let credit = [&[2, 3][..], &octets[2..]].concat();
        assert_eq!(Message::Credit(connect).emit(), credit);
        assert_eq!(Message::parse(&credit), Ok(Some((Message::Credit(connect), 40))));
        assert_eq!(Message::parse(&credit[..39]), Ok(None));
    }

    #[test]
    fn an_offer_has_prefixes_and_rules() {
        let rule = OfferedRule {
            bonded: true,
            source: Prefix::ALL,
            destination: prefix("2001:db8:100::/64"),
            source_ports: (0, u16::MAX),
            destination_ports: (80, 443),
            dscp: Some(46),
        };
        let other = OfferedRule { bonded: false, dscp: None, source: prefix("198.51.100.0/24"), ..rule };
        let prefixes = [prefix("2001:db8:100::/56"), prefix("10.77.1.0/24")];
        let offer = Offer { instance: 7 << 40, prefixes: prefixes.into(), rules: [rule, other].into() };
        let octets = Message::Offer(offer.clone()).emit();
        assert_eq!(octets.len(), 16 + 2 + 2 * 17 + 2 * 44);
        assert_eq!(octets[..16], [2, 2, 0, 124, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0]);
        assert_eq!(Message::parse(&octets), Ok(Some((Message::Offer(offer), octets.len()))));
        for end in 0..octets.len() {
            assert_eq!(Message::parse(&octets[..end]), Ok(None), "{end} octets");
        }
    }

    #[test]
    fn other_messages_are_refused() {
        for octets in [
            &[1, 1][..],
            &[2, 0],
            &[2, 4],
            &[0, 0],
            b"GET / HTTP/1.1",
            &[2, 2, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        ] {
            assert!(Message::parse(octets).is_err(), "{octets:?}");
        }
    }

    #[test]
    fn every_code_is_its_answer() {
        for code in 0..=u8::MAX {
            assert_eq!(Answer::from_code(code).code(), code);
        }
        assert_eq!(Answer::from_code(0), Answer::Connected);
    }
}
