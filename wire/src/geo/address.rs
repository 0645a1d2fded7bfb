//! GeoNetworking addresses: EN 302 636-4-1 §6.3.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |M|   ST    |     Reserved      |                               |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                             MID (48 bits)                     |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use crate::address::LinkAddress;
use crate::codepoint::code_points;
use crate::malformed::{Malformed, Why};
use crate::reader::Reader;
use crate::writer::Writer;
use core::fmt;

const MANUAL: u16 = 0x8000;
const STATION_AT: u32 = 10;
const RESERVED: u16 = 0x03ff;

/// GN_ADDR: station type and link-layer address of a station.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct GeoAddress {
    /// M: configured manually, not made by the station itself.
    pub manual: bool,
    /// ST: station type.
    pub station: ItsStationType,
    /// Reserved bits (a country code up to V1.2.1): preserved, not compared by the engines.
    pub reserved: u16,
    /// MID: the link-layer address that identifies the station; never a group address.
    pub mid: LinkAddress,
}

code_points! {
    /// Station type (ST) of EN 302 636-4-1 table 2.
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
    ItsStationType(u8) as "station" {
        UNKNOWN = 0, "unknown";
        PEDESTRIAN = 1, "pedestrian";
        CYCLIST = 2, "cyclist";
        MOPED = 3, "moped";
        MOTORCYCLE = 4, "motorcycle";
        PASSENGER_CAR = 5, "passenger-car";
        BUS = 6, "bus";
        LIGHT_TRUCK = 7, "light-truck";
        HEAVY_TRUCK = 8, "heavy-truck";
        TRAILER = 9, "trailer";
        SPECIAL_VEHICLE = 10, "special-vehicle";
        TRAM = 11, "tram";
        ROADSIDE_UNIT = 15, "roadside-unit";
    }
}

impl ItsStationType {
    /// The station type with this name.
    pub fn named(name: &str) -> Option<ItsStationType> {
        Self::ASSIGNED.iter().find(|(_, text)| *text == name).map(|(value, _)| *value)
    }
}

impl GeoAddress {
    /// Length of an address, octets.
    pub const LENGTH: usize = 8;

    /// An address that the station has made itself (M is 0).
    pub fn new(station: ItsStationType, mid: LinkAddress) -> GeoAddress {
        GeoAddress { manual: false, station, reserved: 0, mid }
    }

    /// Parses an address.
    ///
    /// # Errors
    /// [`Malformed`] if the MID is a group address or zero.
    pub fn read(reader: &mut Reader<'_>) -> Result<GeoAddress, Malformed> {
        let at = reader.position();
        let kind = reader.u16()?;
        let mid = LinkAddress(reader.array()?);
        if !mid.is_unicast() {
            let [a, b, c, d, e, f] = mid.0;
            let why = Why::Value(u64::from_be_bytes([0, 0, a, b, c, d, e, f]));
            return Err(Malformed { what: "GN_ADDR MID", at: at + 2, why });
        }
        let station = ItsStationType((kind >> STATION_AT & 0x1f) as u8);
        Ok(GeoAddress { manual: kind & MANUAL != 0, station, reserved: kind & RESERVED, mid })
    }

    /// Emits the address.
    pub fn write(self, writer: &mut Writer) -> &mut Writer {
        let manual = if self.manual { MANUAL } else { 0 };
        let station = u16::from(self.station.0 & 0x1f) << STATION_AT;
        writer.u16(manual | station | self.reserved & RESERVED).bytes(&self.mid.0)
    }
}

/// As `passenger-car/02:00:00:00:00:01`.
impl fmt::Display for GeoAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.station, self.mid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_named_station_is_found_by_its_name() {
        for code in (0..=11).chain([15]) {
            let station = ItsStationType(code);
            assert_eq!(station.text().and_then(ItsStationType::named), Some(station));
        }
        assert_eq!(ItsStationType(12).text(), None);
    }

    #[test]
    fn a_multicast_mid_is_refused() {
        let bytes = [0x14, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
        let read = GeoAddress::read(&mut Reader::new("address", &bytes));
        assert_eq!(read.map_err(|malformed| (malformed.what, malformed.at)), Err(("GN_ADDR MID", 2)));
    }
}
