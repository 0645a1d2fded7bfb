//! The common data dictionary, as far as the two messages need it (TS 102 894-2 V1.3.1 annex A).

use crate::geo::Coordinates;
use alloc::vec::Vec;
use rasn::prelude::*;

/// Which message this is, and of whom (ItsPduHeader).
#[derive(AsnType, Encode, Decode, Debug, Clone, Copy, PartialEq, Eq)]
#[rasn(automatic_tags)]
pub struct Header {
    /// Version of the message.
    #[rasn(value("0..=255"))]
    pub protocol_version: u8,
    /// See [`super::message`].
    #[rasn(value("0..=255"))]
    pub message_id: u8,
    /// The station's number, which is of its own choice.
    #[rasn(value("0..=4294967295"))]
    pub station_id: u32,
}

/// A place, and how well it is known.
#[derive(AsnType, Encode, Decode, Debug, Clone, Copy, PartialEq, Eq)]
#[rasn(automatic_tags)]
pub struct ReferencePosition {
    /// Tenths of a microdegree north.
    #[rasn(value("-900000000..=900000001"))]
    pub latitude: i32,
    /// Tenths of a microdegree east.
    #[rasn(value("-1800000000..=1800000001"))]
    pub longitude: i32,
    /// Where it is with 95 % confidence.
    pub position_confidence_ellipse: ConfidenceEllipse,
    /// Above the ellipsoid.
    pub altitude: Altitude,
}

impl ReferencePosition {
    /// A place known to within so many metres, of unknown altitude.
    pub fn of(place: Coordinates, within: Option<u32>) -> ReferencePosition {
        let length = within.map_or(SEMI_AXIS_UNKNOWN, |metres| {
            u16::try_from(metres.saturating_mul(100)).unwrap_or(u16::MAX).min(SEMI_AXIS_UNKNOWN - 1)
        });
        let ellipse = ConfidenceEllipse { semi_major: length, semi_minor: length, semi_major_orientation: 0 };
        ReferencePosition {
            latitude: place.latitude,
            longitude: place.longitude,
            position_confidence_ellipse: ellipse,
            altitude: Altitude { value: ALTITUDE_UNKNOWN, confidence: AltitudeConfidence::Unavailable },
        }
    }

    /// The place; `None` if it is not known.
    pub fn place(&self) -> Option<Coordinates> {
        let ReferencePosition { latitude, longitude, .. } = *self;
        let known = latitude.unsigned_abs() <= 900_000_000 && longitude.unsigned_abs() <= 1_800_000_000;
        known.then_some(Coordinates { latitude, longitude })
    }
}

/// A semi-axis that nobody knows; one less is more than can be said.
pub const SEMI_AXIS_UNKNOWN: u16 = 4095;
/// An altitude that nobody knows.
pub const ALTITUDE_UNKNOWN: i32 = 800_001;

/// An ellipse, centimetres and tenths of a degree.
#[derive(AsnType, Encode, Decode, Debug, Clone, Copy, PartialEq, Eq)]
#[rasn(automatic_tags)]
pub struct ConfidenceEllipse {
    /// Long semi-axis.
    #[rasn(value("0..=4095"))]
    pub semi_major: u16,
    /// Short semi-axis.
    #[rasn(value("0..=4095"))]
    pub semi_minor: u16,
    /// Where the long one points; 3601 unknown.
    #[rasn(value("0..=3601"))]
    pub semi_major_orientation: u16,
}

/// An altitude in centimetres.
#[derive(AsnType, Encode, Decode, Debug, Clone, Copy, PartialEq, Eq)]
#[rasn(automatic_tags)]
pub struct Altitude {
    /// Centimetres; [`ALTITUDE_UNKNOWN`].
    #[rasn(value("-100000..=800001"))]
    pub value: i32,
    /// How well known.
    pub confidence: AltitudeConfidence,
}

/// To within how much an altitude is known, metres.
#[derive(AsnType, Encode, Decode, Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[rasn(enumerated)]
#[allow(missing_docs, reason = "the names are the metres, in hundredths")]
pub enum AltitudeConfidence {
    Within1 = 0,
    Within2 = 1,
    Within5 = 2,
    Within10 = 3,
    Within20 = 4,
    Within50 = 5,
    Within100 = 6,
    Within200 = 7,
    Within500 = 8,
    Within1000 = 9,
    Within2000 = 10,
    Within5000 = 11,
    Within10000 = 12,
    Within20000 = 13,
    OutOfRange = 14,
    Unavailable = 15,
}

/// A place relative to another: tenths of a microdegree, and centimetres up.
#[derive(AsnType, Encode, Decode, Debug, Clone, Copy, PartialEq, Eq)]
#[rasn(automatic_tags)]
pub struct DeltaPosition {
    /// North; 131072 unknown.
    #[rasn(value("-131071..=131072"))]
    pub latitude: i32,
    /// East; 131072 unknown.
    #[rasn(value("-131071..=131072"))]
    pub longitude: i32,
    /// Up; 12800 unknown.
    #[rasn(value("-12700..=12800"))]
    pub altitude: i16,
}

/// A point of a way that was driven.
#[derive(AsnType, Encode, Decode, Debug, Clone, Copy, PartialEq, Eq)]
#[rasn(automatic_tags)]
pub struct PathPoint {
    /// Relative to the next point, the first to the position of the message.
    pub position: DeltaPosition,
    /// How long before that, hundredths of a second.
    #[rasn(value("1..=65535", extensible))]
    pub delta_time: Option<u32>,
}

/// A way that was driven, the latest point first; at most 40.
#[derive(AsnType, Encode, Decode, Debug, Clone, PartialEq, Eq)]
#[rasn(delegate, size("0..=40"))]
pub struct PathHistory(pub Vec<PathPoint>);

/// A heading.
#[derive(AsnType, Encode, Decode, Debug, Clone, Copy, PartialEq, Eq)]
#[rasn(automatic_tags)]
pub struct Heading {
    /// Tenths of a degree clockwise from north; 3601 unknown.
    #[rasn(value("0..=3601"))]
    pub value: u16,
    /// Tenths of a degree; 126 more, 127 unknown.
    #[rasn(value("1..=127"))]
    pub confidence: u8,
}

/// A speed.
#[derive(AsnType, Encode, Decode, Debug, Clone, Copy, PartialEq, Eq)]
#[rasn(automatic_tags)]
pub struct Speed {
    /// Centimetres a second; 16383 unknown.
    #[rasn(value("0..=16383"))]
    pub value: u16,
    /// Centimetres a second; 126 more, 127 unknown.
    #[rasn(value("1..=127"))]
    pub confidence: u8,
}

/// A value of 0.1 m/s², and how well it is known.
#[derive(AsnType, Encode, Decode, Debug, Clone, Copy, PartialEq, Eq)]
#[rasn(automatic_tags)]
pub struct Acceleration {
    /// Forward, to the left or up; 161 unknown.
    #[rasn(value("-160..=161"))]
    pub value: i16,
    /// Likewise; 102 unknown.
    #[rasn(value("0..=102"))]
    pub confidence: u8,
}

/// What has happened.
#[derive(AsnType, Encode, Decode, Debug, Clone, Copy, PartialEq, Eq)]
#[rasn(automatic_tags)]
#[non_exhaustive]
pub struct Cause {
    /// Kind of event.
    #[rasn(value("0..=255"))]
    pub cause: u8,
    /// More of it, by kind; 0 unknown.
    #[rasn(value("0..=255"))]
    pub sub_cause: u8,
}

impl Cause {
    /// A cause.
    pub fn new(cause: u8, sub_cause: u8) -> Cause {
        Cause { cause, sub_cause }
    }
}

/// Lanes that are closed.
#[derive(AsnType, Encode, Decode, Debug, Clone, PartialEq, Eq)]
#[rasn(automatic_tags)]
#[non_exhaustive]
pub struct ClosedLanes {
    /// The hard shoulder in the middle.
    pub inner_hard_shoulder: Option<HardShoulder>,
    /// The hard shoulder at the side.
    pub outer_hard_shoulder: Option<HardShoulder>,
    /// A bit for each lane, from the outside.
    #[rasn(size("1..=13"))]
    pub driving_lanes: Option<BitString>,
}

impl ClosedLanes {
    /// Lanes that are closed.
    pub fn new(
        inner_hard_shoulder: Option<HardShoulder>,
        outer_hard_shoulder: Option<HardShoulder>,
        driving_lanes: Option<BitString>,
    ) -> ClosedLanes {
        ClosedLanes { inner_hard_shoulder, outer_hard_shoulder, driving_lanes }
    }
}

/// What a hard shoulder is for now.
#[derive(AsnType, Encode, Decode, Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[rasn(enumerated)]
pub enum HardShoulder {
    /// Stopping.
    AvailableForStopping = 0,
    /// Nothing.
    Closed = 1,
    /// Driving.
    AvailableForDriving = 2,
}

/// Rules of traffic.
#[derive(AsnType, Encode, Decode, Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[rasn(enumerated)]
#[non_exhaustive]
pub enum TrafficRule {
    /// No passing.
    NoPassing = 0,
    /// No passing for trucks.
    NoPassingForTrucks = 1,
    /// Pass to the right.
    PassToRight = 2,
    /// Pass to the left.
    PassToLeft = 3,
}

/// Classes of dangerous goods (ADR), 0 to 19.
#[derive(AsnType, Encode, Decode, Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[rasn(enumerated)]
#[allow(missing_docs, reason = "the names are the classes")]
pub enum DangerousGoods {
    Explosives1 = 0,
    Explosives2 = 1,
    Explosives3 = 2,
    Explosives4 = 3,
    Explosives5 = 4,
    Explosives6 = 5,
    FlammableGases = 6,
    NonFlammableGases = 7,
    ToxicGases = 8,
    FlammableLiquids = 9,
    FlammableSolids = 10,
    SelfIgnitingSubstances = 11,
    SubstancesEmittingFlammableGases = 12,
    OxidizingSubstances = 13,
    OrganicPeroxides = 14,
    ToxicSubstances = 15,
    InfectiousSubstances = 16,
    RadioactiveMaterial = 17,
    CorrosiveSubstances = 18,
    MiscellaneousSubstances = 19,
}

/// ExteriorLights with none on; nor are those that nobody knows of.
pub fn no_lights() -> BitString {
    BitString::repeat(false, 8)
}
