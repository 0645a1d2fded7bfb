//! Extended headers by packet type: EN 302 636-4-1 §9.8.

use super::address::GeoAddress;
use super::area::{Area, Shape};
use super::position::{LongPositionVector, ShortPositionVector};
use crate::malformed::{Malformed, Why};
use crate::reader::Reader;
use crate::writer::Writer;

/// Header types (HT).
mod kind {
    pub(super) const BEACON: u8 = 1;
    pub(super) const GEO_UNICAST: u8 = 2;
    pub(super) const GEO_ANYCAST: u8 = 3;
    pub(super) const GEO_BROADCAST: u8 = 4;
    pub(super) const TOPO_BROADCAST: u8 = 5;
    pub(super) const LOCATION_SERVICE: u8 = 6;
}

/// The extended header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExtendedHeader {
    /// Beacon.
    Beacon {
        /// Source position vector.
        source: LongPositionVector,
    },
    /// Single-hop broadcast (SHB).
    SingleHop {
        /// Source position vector.
        source: LongPositionVector,
        /// Media-dependent data: congestion control (TS 102 636-4-2); 0 if unused.
        media: [u8; 4],
    },
    /// Topologically scoped broadcast (TSB).
    TopoBroadcast(SequencedSource),
    /// GeoUnicast (GUC).
    GeoUnicast {
        /// Sequence number and source.
        origin: SequencedSource,
        /// Destination position vector.
        destination: ShortPositionVector,
    },
    /// GeoAnycast (GAC).
    GeoAnycast {
        /// Sequence number and source.
        origin: SequencedSource,
        /// The area.
        area: Area,
    },
    /// GeoBroadcast (GBC).
    GeoBroadcast {
        /// Sequence number and source.
        origin: SequencedSource,
        /// The area.
        area: Area,
    },
    /// Location service request.
    LocationRequest {
        /// Sequence number and source.
        origin: SequencedSource,
        /// Requested address.
        sought: GeoAddress,
    },
    /// Location service reply.
    LocationReply {
        /// Sequence number and source.
        origin: SequencedSource,
        /// Position vector of the requester.
        destination: ShortPositionVector,
    },
}

/// Sequence number and source position vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SequencedSource {
    /// Sequence number of the source's multi-hop packets, modulo 2^16.
    pub sequence: u16,
    /// Source position vector.
    pub source: LongPositionVector,
}

impl SequencedSource {
    fn read(reader: &mut Reader<'_>) -> Result<SequencedSource, Malformed> {
        let sequence = reader.u16()?;
        reader.skip(2)?;
        Ok(SequencedSource { sequence, source: LongPositionVector::read(reader)? })
    }

    fn write<'w>(&self, writer: &'w mut Writer) -> &'w mut Writer {
        self.source.write(writer.u16(self.sequence).u16(0))
    }
}

impl ExtendedHeader {
    /// Parses the extended header of header type `code` (HT in the upper four bits, HST in the lower).
    pub(super) fn read(reader: &mut Reader<'_>, code: u8) -> Result<ExtendedHeader, Malformed> {
        let unknown = reader.malformed(Why::Value(u64::from(code)));
        let unknown = Malformed { what: "header type", ..unknown };
        Ok(match (code >> 4, code & 15) {
            (kind::BEACON, 0) => ExtendedHeader::Beacon { source: LongPositionVector::read(reader)? },
            (kind::GEO_UNICAST, 0) => ExtendedHeader::GeoUnicast {
                origin: SequencedSource::read(reader)?,
                destination: ShortPositionVector::read(reader)?,
            },
            (kind::GEO_ANYCAST, shape) => {
                let shape = Shape::from_value(shape).ok_or(unknown)?;
                ExtendedHeader::GeoAnycast { origin: SequencedSource::read(reader)?, area: area(reader, shape)? }
            }
            (kind::GEO_BROADCAST, shape) => {
                let shape = Shape::from_value(shape).ok_or(unknown)?;
                ExtendedHeader::GeoBroadcast { origin: SequencedSource::read(reader)?, area: area(reader, shape)? }
            }
            (kind::TOPO_BROADCAST, 0) => {
                ExtendedHeader::SingleHop { source: LongPositionVector::read(reader)?, media: reader.array()? }
            }
            (kind::TOPO_BROADCAST, 1) => ExtendedHeader::TopoBroadcast(SequencedSource::read(reader)?),
            (kind::LOCATION_SERVICE, 0) => ExtendedHeader::LocationRequest {
                origin: SequencedSource::read(reader)?,
                sought: GeoAddress::read(reader)?,
            },
            (kind::LOCATION_SERVICE, 1) => ExtendedHeader::LocationReply {
                origin: SequencedSource::read(reader)?,
                destination: ShortPositionVector::read(reader)?,
            },
            _ => return Err(unknown),
        })
    }

    pub(super) fn write<'w>(&self, writer: &'w mut Writer) -> &'w mut Writer {
        match self {
            ExtendedHeader::Beacon { source } => source.write(writer),
            ExtendedHeader::SingleHop { source, media } => source.write(writer).bytes(media),
            ExtendedHeader::TopoBroadcast(origin) => origin.write(writer),
            ExtendedHeader::GeoUnicast { origin, destination }
            | ExtendedHeader::LocationReply { origin, destination } => destination.write(origin.write(writer)),
            ExtendedHeader::GeoAnycast { origin, area } | ExtendedHeader::GeoBroadcast { origin, area } => {
                area.write(origin.write(writer)).u16(0)
            }
            ExtendedHeader::LocationRequest { origin, sought } => sought.write(origin.write(writer)),
        }
    }

    /// Header type (HT) and subtype (HST) as one octet.
    pub(super) fn code(&self) -> u8 {
        let (kind, subtype) = match self {
            ExtendedHeader::Beacon { .. } => (kind::BEACON, 0),
            ExtendedHeader::SingleHop { .. } => (kind::TOPO_BROADCAST, 0),
            ExtendedHeader::TopoBroadcast(_) => (kind::TOPO_BROADCAST, 1),
            ExtendedHeader::GeoUnicast { .. } => (kind::GEO_UNICAST, 0),
            ExtendedHeader::GeoAnycast { area, .. } => (kind::GEO_ANYCAST, area.shape.value()),
            ExtendedHeader::GeoBroadcast { area, .. } => (kind::GEO_BROADCAST, area.shape.value()),
            ExtendedHeader::LocationRequest { .. } => (kind::LOCATION_SERVICE, 0),
            ExtendedHeader::LocationReply { .. } => (kind::LOCATION_SERVICE, 1),
        };
        kind << 4 | subtype
    }

    /// Length, octets.
    pub(super) fn length(&self) -> usize {
        let more = match self {
            ExtendedHeader::Beacon { .. } => 0,
            ExtendedHeader::SingleHop { .. } | ExtendedHeader::TopoBroadcast(_) => 4,
            ExtendedHeader::GeoUnicast { .. } | ExtendedHeader::LocationReply { .. } => 4 + ShortPositionVector::LENGTH,
            ExtendedHeader::GeoAnycast { .. } | ExtendedHeader::GeoBroadcast { .. } => 4 + Area::LENGTH + 2,
            ExtendedHeader::LocationRequest { .. } => 4 + GeoAddress::LENGTH,
        };
        LongPositionVector::LENGTH + more
    }

    /// Whether the packet is for one hop, with hop limit 1 (§10.3.6, §10.3.10).
    pub fn is_single_hop(&self) -> bool {
        matches!(self, ExtendedHeader::Beacon { .. } | ExtendedHeader::SingleHop { .. })
    }

    /// Whether it is a beacon or location service packet, without payload (§9.8.6 to §9.8.8).
    pub fn is_control(&self) -> bool {
        use ExtendedHeader as E;
        matches!(self, E::Beacon { .. } | E::LocationRequest { .. } | E::LocationReply { .. })
    }

    /// Source position vector.
    pub fn source(&self) -> &LongPositionVector {
        self.source_and_sequence().0
    }

    /// Sequence number, if the packet has one.
    pub fn sequence(&self) -> Option<u16> {
        self.source_and_sequence().1
    }

    fn source_and_sequence(&self) -> (&LongPositionVector, Option<u16>) {
        match self {
            ExtendedHeader::Beacon { source } | ExtendedHeader::SingleHop { source, .. } => (source, None),
            ExtendedHeader::TopoBroadcast(origin)
            | ExtendedHeader::GeoUnicast { origin, .. }
            | ExtendedHeader::GeoAnycast { origin, .. }
            | ExtendedHeader::GeoBroadcast { origin, .. }
            | ExtendedHeader::LocationRequest { origin, .. }
            | ExtendedHeader::LocationReply { origin, .. } => (&origin.source, Some(origin.sequence)),
        }
    }
}

fn area(reader: &mut Reader<'_>, shape: Shape) -> Result<Area, Malformed> {
    let area = Area::read(reader, shape)?;
    reader.skip(2)?;
    Ok(area)
}
