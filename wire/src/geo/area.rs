//! Destination areas: EN 302 636-4-1 §9.8.5 (fields), EN 302 931 (shapes).

use super::position::Coordinates;
use crate::codepoint::field_values;
use crate::malformed::{Malformed, Why};
use crate::reader::Reader;
use crate::writer::Writer;

const MAX_ANGLE: u16 = 360;

field_values! {
    /// Shape of an area.
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
    Shape {
        /// All points within distance a of the centre.
        Circle = 0,
        /// Distances a and b are from the centre to the sides.
        Rectangle = 1,
        /// Distances a and b are its semi-axes.
        Ellipse = 2,
    }
}

/// A geographical area.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Area {
    /// Shape.
    pub shape: Shape,
    /// Centre.
    pub center: Coordinates,
    /// Metres: radius, half of the long side, or long semi-axis; not 0.
    pub a: u16,
    /// Metres: half of the short side, or short semi-axis; 0 for a circle.
    pub b: u16,
    /// Degrees clockwise from north to the direction of a; 360 at most, 0 for a circle.
    pub angle: u16,
}

impl Area {
    /// Octets of its fields, without the shape.
    pub const LENGTH: usize = 14;

    /// A circle; `radius` in metres.
    pub const fn circle(center: Coordinates, radius: u16) -> Area {
        Area { shape: Shape::Circle, center, a: radius, b: 0, angle: 0 }
    }

    /// Parses the fields; an area without extent is refused. Fields without meaning for a circle are preserved.
    pub(super) fn read(reader: &mut Reader<'_>, shape: Shape) -> Result<Area, Malformed> {
        let center = Coordinates::read(reader)?;
        let at = reader.position();
        let (a, b, angle) = (reader.u16()?, reader.u16()?, reader.u16()?);
        if a == 0 || b == 0 && shape != Shape::Circle {
            return Err(Malformed { what: "area distance", at, why: Why::Value(0) });
        }
        if angle > MAX_ANGLE {
            return Err(Malformed { what: "area angle", at: at + 4, why: Why::Value(u64::from(angle)) });
        }
        Ok(Area { shape, center, a, b, angle })
    }

    pub(super) fn write<'w>(&self, writer: &'w mut Writer) -> &'w mut Writer {
        self.center.write(writer).u16(self.a).u16(self.b).u16(self.angle)
    }
}
