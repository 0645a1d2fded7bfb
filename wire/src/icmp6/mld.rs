//! Multicast Listener Discovery reports: RFC 3810 §5.2 (version 2), RFC 2710 §3 (version 1).
//!
//! See <https://www.rfc-editor.org/rfc/rfc3810#section-5.2>.

use crate::malformed::{Malformed, Why};
use crate::reader::Reader;
use crate::writer::Writer;
use alloc::vec::Vec;
use core::net::Ipv6Addr;

/// What a host says of one group (RFC 3810 §5.2.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MulticastAddressRecord {
    /// Record type; see [`record`].
    pub kind: u8,
    /// Multicast address.
    pub group: Ipv6Addr,
    /// Sources.
    pub sources: Vec<Ipv6Addr>,
}

/// Values of [`MulticastAddressRecord::kind`] (RFC 3810 §5.2.5).
pub mod record {
    /// Filter mode INCLUDE: listens to these sources only.
    pub const MODE_IS_INCLUDE: u8 = 1;
    /// Filter mode EXCLUDE: listens to all but these sources.
    pub const MODE_IS_EXCLUDE: u8 = 2;
    /// Change to INCLUDE; without sources the node has left the group.
    pub const CHANGE_TO_INCLUDE: u8 = 3;
    /// Change to EXCLUDE.
    pub const CHANGE_TO_EXCLUDE: u8 = 4;
    /// Adds these sources.
    pub const ALLOW_NEW_SOURCES: u8 = 5;
    /// Removes these sources.
    pub const BLOCK_OLD_SOURCES: u8 = 6;
}

impl MulticastAddressRecord {
    /// Whether the node listens to the group from any source; `None` if the record does not determine it.
    pub fn is_listening(&self) -> Option<bool> {
        match self.kind {
            record::MODE_IS_EXCLUDE | record::CHANGE_TO_EXCLUDE => Some(true),
            record::MODE_IS_INCLUDE | record::CHANGE_TO_INCLUDE => Some(!self.sources.is_empty()),
            record::ALLOW_NEW_SOURCES if !self.sources.is_empty() => Some(true),
            _ => None,
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<MulticastAddressRecord, Malformed> {
        let (kind, words) = (reader.u8()?, reader.u8()?);
        let count = reader.u16()?;
        let group = group(reader)?;
        let mut part = reader.part("sources of a listener", usize::from(count) * 16)?;
        let sources = part.list(count.into(), Reader::address)?;
        reader.skip(usize::from(words) * 4)?;
        Ok(MulticastAddressRecord { kind, group, sources })
    }

    fn write<'w>(&self, writer: &'w mut Writer) -> &'w mut Writer {
        writer.u8(self.kind).u8(0).u16(record_count(self.sources.len())).address(self.group);
        let sources = self.sources.iter().take(usize::from(u16::MAX));
        writer.list(sources, |writer, source| writer.address(*source))
    }
}

/// The records of a report of version 2; octets behind them are passed over (RFC 3810 §5.2.11).
pub(super) fn read_records(reader: &mut Reader<'_>) -> Result<Vec<MulticastAddressRecord>, Malformed> {
    reader.skip(2)?;
    let count = reader.u16()?;
    (0..count).map(|_| MulticastAddressRecord::read(reader)).collect()
}

pub(super) fn write_records<'w>(records: &[MulticastAddressRecord], writer: &'w mut Writer) -> &'w mut Writer {
    writer.u16(0).u16(record_count(records.len()));
    writer.list(records.iter().take(usize::from(u16::MAX)), |writer, record| record.write(writer))
}

fn record_count(of: usize) -> u16 {
    u16::try_from(of).unwrap_or(u16::MAX)
}

/// The multicast address of a version 1 message.
pub(super) fn read_group(reader: &mut Reader<'_>) -> Result<Ipv6Addr, Malformed> {
    reader.skip(4)?;
    group(reader)
}

fn group(reader: &mut Reader<'_>) -> Result<Ipv6Addr, Malformed> {
    let at = reader.position();
    let group = reader.address()?;
    if group.is_multicast() { Ok(group) } else { Err(Malformed { what: "group", at, why: Why::Misplaced }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::icmp6::Message;
    use crate::ip6::{self, Datagram, Header, protocol};

    const SOURCE: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
    const ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);

    fn heard(message: &Message) -> Result<Message, Malformed> {
        let packet = ip6::emit(&Header::new(SOURCE, ROUTERS), protocol::ICMPV6, &message.emit(SOURCE, ROUTERS));
        Message::parse(&Datagram::parse(&packet).unwrap())
    }

    fn of(kind: u8, sources: &[&str]) -> MulticastAddressRecord {
        let sources = sources.iter().map(|source| source.parse().unwrap()).collect();
        MulticastAddressRecord { kind, group: "ff18::7".parse().unwrap(), sources }
    }

    #[test]
    fn mld_reports_round_trip() {
        let group = "ff18::7".parse().unwrap();
        let report = Message::ListenerReport { records: vec![of(4, &[]), of(1, &["2001:db8::1", "2001:db8::2"])] };
        for message in [report, Message::ListenerReport1 { group }, Message::ListenerDone { group }] {
            assert_eq!(heard(&message), Ok(message));
        }
    }

    #[test]
    fn mld_report_golden_octets() {
        let octets = Message::ListenerReport { records: vec![of(4, &[])] }.emit(SOURCE, ROUTERS);
        assert_eq!((octets[..2].to_vec(), &octets[4..12]), (vec![143, 0], &[0, 0, 0, 1, 4, 0, 0, 0][..]));
        assert_eq!(octets[12..], "ff18::7".parse::<Ipv6Addr>().unwrap().octets());
    }

    #[test]
    fn mld_auxiliary_data_is_skipped_and_a_unicast_group_refused() {
        let read = |octets: &[u8]| MulticastAddressRecord::read(&mut Reader::new("record", octets));
        let mut octets = [&[4, 1, 0, 0][..], &of(4, &[]).group.octets(), &[1, 2, 3, 4]].concat();
        assert_eq!(read(&octets), Ok(of(4, &[])));
        assert!(read(&octets[..23]).is_err());
        octets[4] = 0x20;
        assert!(read(&octets).is_err());
    }

    #[test]
    fn mld_record_types_say_whether_a_node_listens() {
        for (kind, none, one) in [
            (record::MODE_IS_INCLUDE, Some(false), Some(true)),
            (record::MODE_IS_EXCLUDE, Some(true), Some(true)),
            (record::CHANGE_TO_INCLUDE, Some(false), Some(true)),
            (record::CHANGE_TO_EXCLUDE, Some(true), Some(true)),
            (record::ALLOW_NEW_SOURCES, None, Some(true)),
            (record::BLOCK_OLD_SOURCES, None, None),
            (7, None, None),
        ] {
            assert_eq!((of(kind, &[]).is_listening(), of(kind, &["::1"]).is_listening()), (none, one), "{kind}");
        }
    }
}
