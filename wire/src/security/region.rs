//! Regions in which a certificate is valid: IEEE 1609.2 §6.4.17 to §6.4.27.

use super::coer;
use super::limits;
use crate::geo::Coordinates;
use crate::malformed::{Malformed, Why};
use crate::reader::Reader;

/// Values beyond the range, by one, mean that a coordinate is unknown.
const MAX_LATITUDE: u32 = 900_000_001;
const MAX_LONGITUDE: u32 = 1_800_000_001;

/// GeographicRegion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GeographicRegion<'a> {
    /// A circle.
    Circular {
        /// Its centre.
        center: Coordinates,
        /// Its radius, metres.
        radius: u16,
    },
    /// Rectangles: the north-western and the south-eastern corner of each.
    Rectangular(Points<'a>),
    /// A polygon, by its corners.
    Polygonal(Points<'a>),
    /// Countries, and parts of countries.
    Identified(IdentifiedRegions<'a>),
}

/// Places that are known to be well-formed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Points<'a>(&'a [u8]);

impl<'a> Points<'a> {
    fn read(reader: &mut Reader<'a>, count: usize) -> Result<Points<'a>, Malformed> {
        let start = reader.clone();
        for _ in 0..count {
            coordinates(reader)?;
        }
        Ok(Points(coer::between(&start, reader)))
    }

    /// The places.
    pub fn iter(&self) -> impl Iterator<Item = Coordinates> + use<'a> {
        let mut rest = Reader::new("region", self.0);
        core::iter::from_fn(move || coordinates(&mut rest).ok())
    }
}

/// Countries that are known to be well-formed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdentifiedRegions<'a>(&'a [u8]);

impl<'a> IdentifiedRegions<'a> {
    /// The countries.
    pub fn iter(&self) -> impl Iterator<Item = IdentifiedRegion> + use<'a> {
        let mut rest = Reader::new("region", self.0);
        core::iter::from_fn(move || IdentifiedRegion::read(&mut rest).ok())
    }
}

/// A country, or parts of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdentifiedRegion {
    /// Country code of the United Nations (M.49).
    pub country: u16,
    /// How many parts of the country are listed; 0 is the whole country.
    pub parts: usize,
}

impl IdentifiedRegion {
    fn read(reader: &mut Reader<'_>) -> Result<IdentifiedRegion, Malformed> {
        const WHAT: &str = "identified region";
        let at = reader.position();
        let kind = coer::alternative(reader, WHAT)?;
        let country = reader.u16()?;
        let parts = match kind {
            0 => 0,
            1 => {
                let count = coer::count(reader, WHAT, (1, limits::COUNTRIES))?;
                reader.skip(count)?;
                count
            }
            2 => {
                let count = coer::count(reader, WHAT, (1, limits::COUNTRIES))?;
                for _ in 0..count {
                    reader.skip(1)?;
                    let parts = coer::count(reader, WHAT, (1, limits::COUNTRIES))?;
                    reader.skip(2 * parts)?;
                }
                count
            }
            other => return Err(Malformed { what: WHAT, at, why: Why::Value(other.into()) }),
        };
        Ok(IdentifiedRegion { country, parts })
    }
}

impl<'a> GeographicRegion<'a> {
    pub(super) fn read(reader: &mut Reader<'a>) -> Result<GeographicRegion<'a>, Malformed> {
        const WHAT: &str = "region";
        let at = reader.position();
        Ok(match coer::alternative(reader, WHAT)? {
            0 => GeographicRegion::Circular { center: coordinates(reader)?, radius: reader.u16()? },
            1 => {
                let count = coer::count(reader, WHAT, (1, limits::RECTANGLES))?;
                GeographicRegion::Rectangular(Points::read(reader, 2 * count)?)
            }
            2 => {
                let count = coer::count(reader, WHAT, (3, limits::POLYGON))?;
                GeographicRegion::Polygonal(Points::read(reader, count)?)
            }
            3 => {
                let count = coer::count(reader, WHAT, (1, limits::COUNTRIES))?;
                let start = reader.clone();
                for _ in 0..count {
                    IdentifiedRegion::read(reader)?;
                }
                GeographicRegion::Identified(IdentifiedRegions(coer::between(&start, reader)))
            }
            other => return Err(Malformed { what: WHAT, at, why: Why::Value(other.into()) }),
        })
    }
}

/// TwoDLocation: tenths of microdegrees.
pub(super) fn coordinates(reader: &mut Reader<'_>) -> Result<Coordinates, Malformed> {
    let latitude = degrees(reader, "latitude", MAX_LATITUDE)?;
    Ok(Coordinates { latitude, longitude: degrees(reader, "longitude", MAX_LONGITUDE)? })
}

fn degrees(reader: &mut Reader<'_>, what: &'static str, most: u32) -> Result<i32, Malformed> {
    let at = reader.position();
    let bits = reader.u32()?;
    let value = i32::from_be_bytes(bits.to_be_bytes());
    if value.unsigned_abs() > most {
        return Err(Malformed { what, at, why: Why::Value(bits.into()) });
    }
    Ok(value)
}
