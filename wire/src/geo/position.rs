//! Position vectors: EN 302 636-4-1 §9.5.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                           GN_ADDR                             |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                          (64 bits)                            |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                          Timestamp                            |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                          Latitude                             |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                          Longitude                            |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |P|             Speed           |            Heading            |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use super::address::GeoAddress;
use crate::malformed::{Malformed, Why};
use crate::reader::Reader;
use crate::writer::Writer;
use core::fmt;

const POSITION_ACCURATE: u16 = 0x8000;
const MAX_HEADING: u16 = 3600;

/// Milliseconds of TAI since 2004-01-01T00:00Z, modulo 2^32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct Timestamp(pub u32);

impl Timestamp {
    /// Whether `self` is later than `other`, modulo 2^32 (§C.2).
    pub fn is_newer_than(self, other: Timestamp) -> bool {
        let ahead = self.0.wrapping_sub(other.0);
        ahead != 0 && ahead <= 1 << 31
    }
}

/// WGS 84 coordinates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Coordinates {
    /// Latitude in 0.1 microdegrees, positive to the north.
    pub latitude: i32,
    /// Longitude in 0.1 microdegrees, positive to the east.
    pub longitude: i32,
}

impl Coordinates {
    /// One degree in units of both fields.
    pub const DEGREE: i32 = 10_000_000;

    /// Coordinates from degrees; `None` if out of range.
    pub fn from_degrees(latitude: f64, longitude: f64) -> Option<Coordinates> {
        // NaN is in no range.
        let is_place = (-90.0..=90.0).contains(&latitude) && (-180.0..=180.0).contains(&longitude);
        let fixed = |degrees: f64| {
            let scaled = degrees * f64::from(Coordinates::DEGREE);
            (if scaled < 0.0 { scaled - 0.5 } else { scaled + 0.5 }) as i32
        };
        is_place.then(|| Coordinates { latitude: fixed(latitude), longitude: fixed(longitude) })
    }

    /// Latitude and longitude in degrees.
    pub fn to_degrees(self) -> (f64, f64) {
        let unit = f64::from(Coordinates::DEGREE);
        (f64::from(self.latitude) / unit, f64::from(self.longitude) / unit)
    }

    /// Parses coordinates; values out of range are refused.
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Coordinates, Malformed> {
        let latitude = degrees(reader, "latitude", 90)?;
        Ok(Coordinates { latitude, longitude: degrees(reader, "longitude", 180)? })
    }

    /// Emits the coordinates.
    pub(super) fn write(self, writer: &mut Writer) -> &mut Writer {
        writer.bytes(&self.latitude.to_be_bytes()).bytes(&self.longitude.to_be_bytes())
    }
}

fn degrees(reader: &mut Reader<'_>, what: &'static str, most: u32) -> Result<i32, Malformed> {
    let at = reader.position();
    let bits = reader.u32()?;
    let value = i32::from_be_bytes(bits.to_be_bytes());
    if value.unsigned_abs() > most * Coordinates::DEGREE.unsigned_abs() {
        return Err(Malformed { what, at, why: Why::Value(u64::from(bits)) });
    }
    Ok(value)
}

/// Degrees with seven digits, as `48.7668616, 11.4329640`.
impl fmt::Display for Coordinates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (latitude, longitude) = self.to_degrees();
        write!(f, "{latitude:.7}, {longitude:.7}")
    }
}

/// A long position vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct LongPositionVector {
    /// Address of the station.
    pub address: GeoAddress,
    /// Time of the position.
    pub timestamp: Timestamp,
    /// Position.
    pub place: Coordinates,
    /// PAI, position accuracy indicator: within itsGnPaiInterval with 95 % confidence.
    pub accurate: bool,
    /// Speed in cm/s, negative backwards; 15 bits.
    pub speed: i16,
    /// Heading in 0.1 degrees clockwise from north, at most 3600.
    pub heading: u16,
}

impl LongPositionVector {
    /// Length, octets.
    pub const LENGTH: usize = 24;
    /// Maximum speed in either direction, cm/s.
    pub const MAX_SPEED: i16 = 0x3fff;

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<LongPositionVector, Malformed> {
        let ShortPositionVector { address, timestamp, place } = ShortPositionVector::read(reader)?;
        let word = reader.u16()?;
        let at = reader.position();
        let heading = reader.u16()?;
        if heading > MAX_HEADING {
            return Err(Malformed { what: "heading", at, why: Why::Value(u64::from(heading)) });
        }
        // Two's complement of 15 bits: shifted up, then down again with its sign.
        let speed = i16::from_be_bytes((word << 1).to_be_bytes()) >> 1;
        Ok(LongPositionVector { address, timestamp, place, accurate: word & POSITION_ACCURATE != 0, speed, heading })
    }

    pub(super) fn write<'w>(&self, writer: &'w mut Writer) -> &'w mut Writer {
        let speed = self.speed.clamp(-Self::MAX_SPEED - 1, Self::MAX_SPEED);
        let speed = u16::from_be_bytes(speed.to_be_bytes()) & !POSITION_ACCURATE;
        let accurate = if self.accurate { POSITION_ACCURATE } else { 0 };
        self.short().write(writer).u16(accurate | speed).u16(self.heading.min(MAX_HEADING))
    }

    /// The short position vector.
    pub fn short(&self) -> ShortPositionVector {
        ShortPositionVector { address: self.address, timestamp: self.timestamp, place: self.place }
    }
}

/// A short position vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ShortPositionVector {
    /// Address of the station.
    pub address: GeoAddress,
    /// Time of the position.
    pub timestamp: Timestamp,
    /// Position.
    pub place: Coordinates,
}

impl ShortPositionVector {
    /// Length, octets.
    pub const LENGTH: usize = 20;

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<ShortPositionVector, Malformed> {
        let address = GeoAddress::read(reader)?;
        Ok(ShortPositionVector { address, timestamp: Timestamp(reader.u32()?), place: Coordinates::read(reader)? })
    }

    pub(super) fn write<'w>(&self, writer: &'w mut Writer) -> &'w mut Writer {
        self.place.write(self.address.write(writer).u32(self.timestamp.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::LinkAddress;
    use crate::geo::ItsStationType;

    #[test]
    fn timestamps_compare_modulo_2_to_the_32() {
        let (early, late) = (Timestamp(u32::MAX - 1), Timestamp(3));
        assert!(late.is_newer_than(early) && !early.is_newer_than(late) && !late.is_newer_than(late));
    }

    #[test]
    fn speed_and_heading_round_trip() {
        let address = GeoAddress::new(ItsStationType::PASSENGER_CAR, LinkAddress([2, 0, 0, 0, 0, 1]));
        let place = Coordinates::from_degrees(-33.9, 151.2).unwrap();
        for speed in [-0x4000, -1, 0, 1, LongPositionVector::MAX_SPEED] {
            for accurate in [false, true] {
                let position = LongPositionVector {
                    address,
                    timestamp: Timestamp(7),
                    place,
                    accurate,
                    speed,
                    heading: MAX_HEADING,
                };
                let mut writer = Writer::new();
                position.write(&mut writer);
                let bytes = writer.finish();
                assert_eq!(bytes.len(), LongPositionVector::LENGTH);
                assert_eq!(LongPositionVector::read(&mut Reader::new("position", &bytes)), Ok(position));
            }
        }
    }

    #[test]
    fn coordinates_beyond_the_poles_are_refused() {
        assert_eq!(Coordinates::from_degrees(90.1, 0.0), None);
        assert_eq!(Coordinates::from_degrees(0.0, f64::NAN), None);
        assert_eq!(
            Coordinates::from_degrees(-90.0, 180.0),
            Some(Coordinates { latitude: -900_000_000, longitude: 1_800_000_000 })
        );
    }
}
