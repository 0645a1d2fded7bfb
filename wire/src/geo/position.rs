//! Position vectors: EN 302 636-4-1 §9.5.

use super::address::GeoAddress;
use crate::malformed::{Malformed, Why};
use crate::reader::Reader;
use crate::writer::Writer;
use core::fmt;

const ACCURATE: u16 = 0x8000;
const HEADING_MOST: u16 = 3600;

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
pub struct Place {
    /// Latitude in 0.1 microdegrees, positive to the north.
    pub latitude: i32,
    /// Longitude in 0.1 microdegrees, positive to the east.
    pub longitude: i32,
}

impl Place {
    /// One degree in units of both fields.
    pub const DEGREE: i32 = 10_000_000;

    /// Coordinates from degrees; `None` if out of range.
    pub fn of_degrees(latitude: f64, longitude: f64) -> Option<Place> {
        // NaN is in no range.
        let is_place = (-90.0..=90.0).contains(&latitude) && (-180.0..=180.0).contains(&longitude);
        let fixed = |degrees: f64| {
            let scaled = degrees * f64::from(Place::DEGREE);
            (if scaled < 0.0 { scaled - 0.5 } else { scaled + 0.5 }) as i32
        };
        is_place.then(|| Place { latitude: fixed(latitude), longitude: fixed(longitude) })
    }

    /// Latitude and longitude in degrees.
    pub fn degrees(self) -> (f64, f64) {
        let unit = f64::from(Place::DEGREE);
        (f64::from(self.latitude) / unit, f64::from(self.longitude) / unit)
    }

    /// Parses coordinates; values out of range are refused.
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Place, Malformed> {
        let latitude = degrees(reader, "latitude", 90)?;
        Ok(Place { latitude, longitude: degrees(reader, "longitude", 180)? })
    }

    /// Emits the coordinates.
    pub(super) fn write(self, writer: &mut Writer) {
        writer.bytes(&self.latitude.to_be_bytes()).bytes(&self.longitude.to_be_bytes());
    }
}

fn degrees(reader: &mut Reader<'_>, what: &'static str, most: u32) -> Result<i32, Malformed> {
    let at = reader.position();
    let bits = reader.u32()?;
    let value = i32::from_be_bytes(bits.to_be_bytes());
    if value.unsigned_abs() > most * Place::DEGREE.unsigned_abs() {
        return Err(Malformed { what, at, why: Why::Value(u64::from(bits)) });
    }
    Ok(value)
}

/// Degrees with seven digits, as `48.7668616, 11.4329640`.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (latitude, longitude) = self.degrees();
        write!(f, "{latitude:.7}, {longitude:.7}")
    }
}

/// A long position vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct LongPosition {
    /// Address of the station.
    pub address: GeoAddress,
    /// Time of the position.
    pub timestamp: Timestamp,
    /// Position.
    pub place: Place,
    /// PAI, position accuracy indicator: within itsGnPaiInterval with 95 % confidence.
    pub accurate: bool,
    /// Speed in cm/s, negative backwards; 15 bits.
    pub speed: i16,
    /// Heading in 0.1 degrees clockwise from north, at most 3600.
    pub heading: u16,
}

impl LongPosition {
    /// Length, octets.
    pub const LENGTH: usize = 24;
    /// Maximum speed in either direction, cm/s.
    pub const SPEED_MOST: i16 = 0x3fff;

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<LongPosition, Malformed> {
        let ShortPosition { address, timestamp, place } = ShortPosition::read(reader)?;
        let word = reader.u16()?;
        let at = reader.position();
        let heading = reader.u16()?;
        if heading > HEADING_MOST {
            return Err(Malformed { what: "heading", at, why: Why::Value(u64::from(heading)) });
        }
        // Two's complement of 15 bits: shifted up, then down again with its sign.
        let speed = i16::from_be_bytes((word << 1).to_be_bytes()) >> 1;
        Ok(LongPosition { address, timestamp, place, accurate: word & ACCURATE != 0, speed, heading })
    }

    pub(super) fn write(&self, writer: &mut Writer) {
        self.short().write(writer);
        let speed = self.speed.clamp(-Self::SPEED_MOST - 1, Self::SPEED_MOST);
        let speed = u16::from_be_bytes(speed.to_be_bytes()) & !ACCURATE;
        let accurate = if self.accurate { ACCURATE } else { 0 };
        writer.u16(accurate | speed).u16(self.heading.min(HEADING_MOST));
    }

    /// The short position vector.
    pub fn short(&self) -> ShortPosition {
        ShortPosition { address: self.address, timestamp: self.timestamp, place: self.place }
    }
}

/// A short position vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ShortPosition {
    /// Address of the station.
    pub address: GeoAddress,
    /// Time of the position.
    pub timestamp: Timestamp,
    /// Position.
    pub place: Place,
}

impl ShortPosition {
    /// Length, octets.
    pub const LENGTH: usize = 20;

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<ShortPosition, Malformed> {
        let address = GeoAddress::read(reader)?;
        Ok(ShortPosition { address, timestamp: Timestamp(reader.u32()?), place: Place::read(reader)? })
    }

    pub(super) fn write(&self, writer: &mut Writer) {
        self.address.write(writer);
        writer.u32(self.timestamp.0);
        self.place.write(writer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::LinkAddress;
    use crate::geo::Station;

    #[test]
    fn time_wraps() {
        let (early, late) = (Timestamp(u32::MAX - 1), Timestamp(3));
        assert!(late.is_newer_than(early) && !early.is_newer_than(late) && !late.is_newer_than(late));
    }

    #[test]
    fn speeds_of_both_signs_survive() {
        let address = GeoAddress::new(Station::PASSENGER_CAR, LinkAddress([2, 0, 0, 0, 0, 1]));
        let place = Place::of_degrees(-33.9, 151.2).unwrap();
        for speed in [-0x4000, -1, 0, 1, LongPosition::SPEED_MOST] {
            for accurate in [false, true] {
                let position =
                    LongPosition { address, timestamp: Timestamp(7), place, accurate, speed, heading: HEADING_MOST };
                let mut writer = Writer::new();
                position.write(&mut writer);
                let bytes = writer.finish();
                assert_eq!(bytes.len(), LongPosition::LENGTH);
                assert_eq!(LongPosition::read(&mut Reader::new("position", &bytes)), Ok(position));
            }
        }
    }

    #[test]
    fn there_is_no_place_beyond_the_poles() {
        assert_eq!(Place::of_degrees(90.1, 0.0), None);
        assert_eq!(Place::of_degrees(0.0, f64::NAN), None);
        assert_eq!(Place::of_degrees(-90.0, 180.0), Some(Place { latitude: -900_000_000, longitude: 1_800_000_000 }));
    }
}
