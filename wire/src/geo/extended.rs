//! Extended headers by packet type: EN 302 636-4-1 §9.8.

use super::address::GeoAddress;
use super::area::{Area, Shape};
use super::position::{LongPosition, ShortPosition};
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
pub enum Extended {
    /// Beacon.
    Beacon {
        /// Source position vector.
        source: LongPosition,
    },
    /// Single-hop broadcast (SHB).
    SingleHop {
        /// Source position vector.
        source: LongPosition,
        /// Media-dependent data: congestion control (TS 102 636-4-2); 0 if unused.
        media: [u8; 4],
    },
    /// Topologically scoped broadcast (TSB).
    TopoBroadcast(Sequenced),
    /// GeoUnicast (GUC).
    GeoUnicast {
        /// Which packet of whom.
        origin: Sequenced,
        /// Destination position vector.
        destination: ShortPosition,
    },
    /// GeoAnycast (GAC).
    GeoAnycast {
        /// Which packet of whom.
        origin: Sequenced,
        /// The area.
        area: Area,
    },
    /// GeoBroadcast (GBC).
    GeoBroadcast {
        /// Which packet of whom.
        origin: Sequenced,
        /// The area.
        area: Area,
    },
    /// Location service request.
    LocationRequest {
        /// Which packet of whom.
        origin: Sequenced,
        /// Requested address.
        sought: GeoAddress,
    },
    /// Location service reply.
    LocationReply {
        /// Which packet of whom.
        origin: Sequenced,
        /// Position vector of the requester.
        destination: ShortPosition,
    },
}

/// Sequence number and source position vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sequenced {
    /// Sequence number of the source's multi-hop packets, modulo 2^16.
    pub sequence: u16,
    /// Source position vector.
    pub source: LongPosition,
}

impl Sequenced {
    fn read(reader: &mut Reader<'_>) -> Result<Sequenced, Malformed> {
        let sequence = reader.u16()?;
        reader.skip(2)?;
        Ok(Sequenced { sequence, source: LongPosition::read(reader)? })
    }

    fn write(&self, writer: &mut Writer) {
        writer.u16(self.sequence).u16(0);
        self.source.write(writer);
    }
}

impl Extended {
    /// Parses the extended header of header type `code` (HT in the upper four bits, HST in the lower).
    pub(super) fn read(reader: &mut Reader<'_>, code: u8) -> Result<Extended, Malformed> {
        let unknown = reader.malformed(Why::Value(u64::from(code)));
        let unknown = Malformed { what: "header type", ..unknown };
        Ok(match (code >> 4, code & 15) {
            (kind::BEACON, 0) => Extended::Beacon { source: LongPosition::read(reader)? },
            (kind::GEO_UNICAST, 0) => {
                Extended::GeoUnicast { origin: Sequenced::read(reader)?, destination: ShortPosition::read(reader)? }
            }
            (kind::GEO_ANYCAST, shape) => {
                let shape = Shape::of_code(shape).ok_or(unknown)?;
                Extended::GeoAnycast { origin: Sequenced::read(reader)?, area: area(reader, shape)? }
            }
            (kind::GEO_BROADCAST, shape) => {
                let shape = Shape::of_code(shape).ok_or(unknown)?;
                Extended::GeoBroadcast { origin: Sequenced::read(reader)?, area: area(reader, shape)? }
            }
            (kind::TOPO_BROADCAST, 0) => {
                Extended::SingleHop { source: LongPosition::read(reader)?, media: reader.array()? }
            }
            (kind::TOPO_BROADCAST, 1) => Extended::TopoBroadcast(Sequenced::read(reader)?),
            (kind::LOCATION_SERVICE, 0) => {
                Extended::LocationRequest { origin: Sequenced::read(reader)?, sought: GeoAddress::read(reader)? }
            }
            (kind::LOCATION_SERVICE, 1) => {
                Extended::LocationReply { origin: Sequenced::read(reader)?, destination: ShortPosition::read(reader)? }
            }
            _ => return Err(unknown),
        })
    }

    pub(super) fn write(&self, writer: &mut Writer) {
        match self {
            Extended::Beacon { source } => source.write(writer),
            Extended::SingleHop { source, media } => {
                source.write(writer);
                writer.bytes(media);
            }
            Extended::TopoBroadcast(origin) => origin.write(writer),
            Extended::GeoUnicast { origin, destination } | Extended::LocationReply { origin, destination } => {
                origin.write(writer);
                destination.write(writer);
            }
            Extended::GeoAnycast { origin, area } | Extended::GeoBroadcast { origin, area } => {
                origin.write(writer);
                area.write(writer);
                writer.u16(0);
            }
            Extended::LocationRequest { origin, sought } => {
                origin.write(writer);
                sought.write(writer);
            }
        }
    }

    /// Header type (HT) and subtype (HST) as one octet.
    pub(super) fn code(&self) -> u8 {
        let (kind, subtype) = match self {
            Extended::Beacon { .. } => (kind::BEACON, 0),
            Extended::SingleHop { .. } => (kind::TOPO_BROADCAST, 0),
            Extended::TopoBroadcast(_) => (kind::TOPO_BROADCAST, 1),
            Extended::GeoUnicast { .. } => (kind::GEO_UNICAST, 0),
            Extended::GeoAnycast { area, .. } => (kind::GEO_ANYCAST, area.shape.code()),
            Extended::GeoBroadcast { area, .. } => (kind::GEO_BROADCAST, area.shape.code()),
            Extended::LocationRequest { .. } => (kind::LOCATION_SERVICE, 0),
            Extended::LocationReply { .. } => (kind::LOCATION_SERVICE, 1),
        };
        kind << 4 | subtype
    }

    /// Length, octets.
    pub(super) fn length(&self) -> usize {
        let more = match self {
            Extended::Beacon { .. } => 0,
            Extended::SingleHop { .. } | Extended::TopoBroadcast(_) => 4,
            Extended::GeoUnicast { .. } | Extended::LocationReply { .. } => 4 + ShortPosition::LENGTH,
            Extended::GeoAnycast { .. } | Extended::GeoBroadcast { .. } => 4 + Area::LENGTH + 2,
            Extended::LocationRequest { .. } => 4 + GeoAddress::LENGTH,
        };
        LongPosition::LENGTH + more
    }

    /// Whether the packet is for one hop, with hop limit 1 (§10.3.6, §10.3.10).
    pub fn is_single_hop(&self) -> bool {
        matches!(self, Extended::Beacon { .. } | Extended::SingleHop { .. })
    }

    /// Whether it is a beacon or location service packet, without payload (§9.8.6 to §9.8.8).
    pub fn is_control(&self) -> bool {
        use Extended as E;
        matches!(self, E::Beacon { .. } | E::LocationRequest { .. } | E::LocationReply { .. })
    }

    /// Source position vector.
    pub fn source(&self) -> &LongPosition {
        match self {
            Extended::Beacon { source } | Extended::SingleHop { source, .. } => source,
            Extended::TopoBroadcast(origin)
            | Extended::GeoUnicast { origin, .. }
            | Extended::GeoAnycast { origin, .. }
            | Extended::GeoBroadcast { origin, .. }
            | Extended::LocationRequest { origin, .. }
            | Extended::LocationReply { origin, .. } => &origin.source,
        }
    }

    /// Sequence number, if the packet has one.
    pub fn sequence(&self) -> Option<u16> {
        match self {
            Extended::Beacon { .. } | Extended::SingleHop { .. } => None,
            Extended::TopoBroadcast(origin)
            | Extended::GeoUnicast { origin, .. }
            | Extended::GeoAnycast { origin, .. }
            | Extended::GeoBroadcast { origin, .. }
            | Extended::LocationRequest { origin, .. }
            | Extended::LocationReply { origin, .. } => Some(origin.sequence),
        }
    }
}

fn area(reader: &mut Reader<'_>, shape: Shape) -> Result<Area, Malformed> {
    let area = Area::read(reader, shape)?;
    reader.skip(2)?;
    Ok(area)
}
