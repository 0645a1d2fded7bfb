//! Mobile network prefix provisioning: a router announces its mobile network prefixes to neighbouring routers.
//!
//! The purpose is that of draft-jhlee-mext-mnpp-00, the format is roam6's own: an ICMPv6 message of a type for private
//! experiments (RFC 4443 §2.1) to all routers of a link, with neighbour discovery options. It is no Router
//! Advertisement, because one with router lifetime 0 would end the sender's role as a default router.
//!
//! ```text
//! |  Type = 200   |   Code = 0    |           Checksum            |
//! |Q|                          Reserved                           |
//! | Route Information options (RFC 4191 §2.3), one a network ...
//! | proof, at most one and last ...
//!
//! |  Type = 253   |  Length = 4   |           Reserved            |
//! |                              SPI                              |
//! |         microseconds since 1970-01-01T00:00Z, 64 bits          |
//! |    first 128 bits of HMAC-SHA-256 over source, destination     |
//! |      and the message up to here, its checksum taken as 0       |
//! ```

use crate::address::Prefix;
use crate::checksum::checksum;
use crate::icmp6::option::{NeighbourOption, RouterPreference, read_all, write_all};
use crate::icmp6::{ALL_ROUTERS, ON_LINK_HOP_LIMIT};
use crate::ip6::{Datagram, protocol};
use crate::malformed::{Malformed, Why};
use crate::reader::Reader;
use crate::writer::Writer;
use alloc::vec::Vec;
use core::net::Ipv6Addr;

/// ICMPv6 type.
pub const ICMP_TYPE: u8 = 200;
/// Networks in one message: as many as fit the minimum MTU.
pub const MAX_NETWORKS: usize = 32;
/// Octets of the message authentication code.
pub const CODE_LENGTH: usize = 16;

/// Option type for experiments (RFC 4727 §5.1).
const PROOF: u8 = 253;
const QUERY_FLAG: u8 = 0x80;
const CHECKSUM_AT: usize = 2;
const CHECKSUM_END: usize = 4;

/// An announcement of a router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announcement {
    /// Q: receivers are to announce their networks as well.
    pub query: bool,
    /// Networks behind the sender.
    pub networks: Vec<Network>,
    /// Proof that the sender has the shared key.
    pub proof: Option<Proof>,
}

/// A network behind a router.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    /// Its prefix.
    pub prefix: Prefix,
    /// Lifetime in seconds; 0 withdraws the network.
    pub lifetime: u32,
}

/// Message authentication by a shared key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proof {
    /// Security parameters index of the key.
    pub spi: u32,
    /// Timestamp, microseconds since 1970-01-01T00:00Z.
    pub unix_micros: u64,
    /// Message authentication code.
    pub code: [u8; CODE_LENGTH],
}

impl Announcement {
    /// Parses the announcement in a packet; `None` for any other message. Unknown options are skipped.
    pub fn parse(datagram: &Datagram<'_>) -> Option<Result<Announcement, Malformed>> {
        let is_one = datagram.protocol == protocol::ICMPV6 && datagram.payload.first() == Some(&ICMP_TYPE);
        is_one.then(|| read(datagram))
    }

    /// Emits the message with its checksum and without proof; networks beyond [`MAX_NETWORKS`] are omitted.
    pub fn emit(&self, source: Ipv6Addr) -> Vec<u8> {
        finish(self.body(), source)
    }

    /// Emits the message with a proof by the key `spi`: `prove` computes the code over the octets it is given.
    pub fn emit_proved(
        &self,
        source: Ipv6Addr,
        spi: u32,
        unix_micros: u64,
        prove: impl FnOnce(&[u8]) -> [u8; CODE_LENGTH],
    ) -> Vec<u8> {
        let mut message = self.body();
        message.u8(PROOF).u8(4).u16(0).u32(spi).u64(unix_micros);
        let code = prove(message.written());
        message.bytes(&code);
        finish(message, source)
    }

    fn body(&self) -> Writer {
        let mut writer = Writer::new();
        writer.u8(ICMP_TYPE).u8(0).u16(0).u8(if self.query { QUERY_FLAG } else { 0 }).u8(0).u16(0);
        let options: Vec<NeighbourOption> = self.networks.iter().take(MAX_NETWORKS).map(Network::option).collect();
        write_all(&options, &mut writer);
        writer
    }

    /// The octets covered by the proof: the message up to the code, with a zero checksum.
    pub fn proved_part(message: &[u8]) -> Option<Vec<u8>> {
        let mut part = message.get(..message.len().checked_sub(CODE_LENGTH)?)?.to_vec();
        part.get_mut(CHECKSUM_AT..CHECKSUM_END)?.fill(0);
        Some(part)
    }
}

impl Network {
    fn option(&self) -> NeighbourOption {
        let Network { prefix, lifetime } = *self;
        NeighbourOption::RouteInformation { prefix, preference: RouterPreference::Medium, lifetime }
    }
}

fn read(datagram: &Datagram<'_>) -> Result<Announcement, Malformed> {
    let wrong = |what, at, why| Malformed { what, at, why };
    if checksum(datagram.source, datagram.destination, protocol::ICMPV6, datagram.payload) != 0 {
        return Err(wrong("announcement", CHECKSUM_AT, Why::Checksum));
    }
    if datagram.hop_limit != ON_LINK_HOP_LIMIT {
        return Err(wrong("hop limit", 7, Why::Value(datagram.hop_limit.into())));
    }
    if datagram.home_address.is_some() || !datagram.source.is_unicast_link_local() {
        return Err(wrong("source address", 8, Why::Misplaced));
    }
    if datagram.routing_home.is_some() || datagram.destination != ALL_ROUTERS {
        return Err(wrong("destination address", 24, Why::Misplaced));
    }
    let mut reader = Reader::new("announcement", datagram.payload);
    reader.skip(1)?;
    let code = reader.u8()?;
    if code != 0 {
        return Err(wrong("code", 1, Why::Value(code.into())));
    }
    reader.skip(2)?;
    let query = reader.u8()? & QUERY_FLAG != 0;
    reader.skip(3)?;
    read_options(query, read_all(&mut reader)?)
}

fn read_options(query: bool, options: Vec<NeighbourOption>) -> Result<Announcement, Malformed> {
    let mut announcement = Announcement { query, networks: Vec::new(), proof: None };
    for option in options {
        if announcement.proof.is_some() {
            return Err(Malformed { what: "proof", at: 0, why: Why::Misplaced });
        }
        match option {
            NeighbourOption::RouteInformation { prefix, lifetime, .. } => {
                if announcement.networks.len() >= MAX_NETWORKS {
                    return Err(Malformed { what: "networks", at: 0, why: Why::TooMany(MAX_NETWORKS) });
                }
                announcement.networks.push(Network { prefix, lifetime });
            }
            NeighbourOption::Unknown { kind: PROOF, body } => announcement.proof = Some(read_proof(&body)?),
            _ => {}
        }
    }
    Ok(announcement)
}

fn read_proof(body: &[u8]) -> Result<Proof, Malformed> {
    let mut reader = Reader::new("proof", body);
    reader.skip(2)?;
    let proof = Proof { spi: reader.u32()?, unix_micros: reader.u64()?, code: reader.array()? };
    reader.end()?;
    Ok(proof)
}

fn finish(message: Writer, source: Ipv6Addr) -> Vec<u8> {
    message.finish_with_checksum(CHECKSUM_AT, |octets| checksum(source, ALL_ROUTERS, protocol::ICMPV6, octets))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip6::{self, Header};

    const SOURCE: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);

    fn announcement() -> Announcement {
        let network = |text: &str, lifetime| Network { prefix: text.parse().unwrap(), lifetime };
        let networks = vec![network("2001:db8:100::/56", 3), network("2001:db8:200::/64", 0)];
        Announcement { query: true, networks, proof: None }
    }

    fn parse(message: &[u8], hop_limit: u8) -> Result<Announcement, Malformed> {
        let header = Header::new(SOURCE, ALL_ROUTERS).with_hop_limit(hop_limit);
        let packet = ip6::emit(&header, protocol::ICMPV6, message);
        Announcement::parse(&Datagram::parse(&packet).unwrap()).unwrap()
    }

    #[test]
    fn mnpp_golden_octets() {
        let message = announcement().emit_proved(SOURCE, 0x1000, 1, |_| [0xaa; CODE_LENGTH]);
        let octets: Vec<String> = message.iter().map(|octet| format!("{octet:02x}")).collect();
        assert_eq!(octets[0..2].concat() + &octets[4..8].concat(), "c80080000000");
        assert_eq!(octets[8..24].concat(), "180238000000000320010db801000000");
        assert_eq!(octets[24..40].concat(), "180240000000000020010db802000000");
        assert_eq!(octets[40..56].concat(), "fd040000000010000000000000000001");
        assert_eq!(octets[56..].concat(), "aa".repeat(CODE_LENGTH));
    }

    #[test]
    fn mnpp_announcements_round_trip_with_authentication() {
        assert_eq!(parse(&announcement().emit(SOURCE), 255), Ok(announcement()));
        let mut part = Vec::new();
        let message = announcement().emit_proved(SOURCE, 256, 7, |octets| {
            part = octets.to_vec();
            [9; CODE_LENGTH]
        });
        let proof = Some(Proof { spi: 256, unix_micros: 7, code: [9; CODE_LENGTH] });
        assert_eq!(parse(&message, 255), Ok(Announcement { proof, ..announcement() }));
        assert_eq!(Announcement::proved_part(&message), Some(part));
    }

    #[test]
    fn forwarded_or_changed_mnpp_announcements_are_refused() {
        let message = announcement().emit(SOURCE);
        assert!(parse(&message, 254).is_err());
        for at in 1..message.len() {
            let mut changed = message.clone();
            changed[at] ^= 1;
            assert!(parse(&changed, 255).is_err(), "octet {at}");
        }
    }
}
