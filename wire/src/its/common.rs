//! The common data dictionary, as far as CAM and DENM need it (TS 102 894-2 V1.3.1 annex A).

use super::asn1::asn1;
use crate::geo::Coordinates;
use alloc::vec::Vec;
use rasn::prelude::*;

asn1! {
    /// ItsPduHeader.
    #[derive(Copy)]
    sequence Header {
        /// Protocol version.
        protocol_version: u8 [value("0..=255")],
        /// Message type; see [`super::message`].
        message_id: u8 [value("0..=255")],
        /// Station identifier, which the station chooses itself.
        station_id: u32 [value("0..=4294967295")],
    }

    /// ReferencePosition.
    #[derive(Copy)]
    sequence ReferencePosition {
        /// Latitude, 0.1 microdegrees north.
        latitude: i32 [value("-900000000..=900000001")],
        /// Longitude, 0.1 microdegrees east.
        longitude: i32 [value("-1800000000..=1800000001")],
        /// Ellipse that contains the position with 95 % confidence.
        position_confidence_ellipse: ConfidenceEllipse,
        /// Altitude above the ellipsoid.
        altitude: Altitude,
    }

    /// PosConfidenceEllipse.
    #[derive(Copy)]
    sequence ConfidenceEllipse {
        /// Major semi-axis, centimetres.
        semi_major: u16 [value("0..=4095")],
        /// Minor semi-axis, centimetres.
        semi_minor: u16 [value("0..=4095")],
        /// Direction of the major semi-axis, 0.1 degrees from north; 3601: unavailable.
        semi_major_orientation: u16 [value("0..=3601")],
    }

    /// Altitude.
    #[derive(Copy)]
    sequence Altitude {
        /// Centimetres, or [`ALTITUDE_UNKNOWN`].
        value: i32 [value("-100000..=800001")],
        /// Confidence.
        confidence: AltitudeConfidence,
    }

    /// AltitudeConfidence; the names are centimetres.
    enumerated AltitudeConfidence {
        Within1, Within2, Within5, Within10, Within20, Within50, Within100, Within200, Within500, Within1000,
        Within2000, Within5000, Within10000, Within20000, OutOfRange, Unavailable,
    }

    /// DeltaReferencePosition: a position relative to another.
    #[derive(Copy)]
    sequence DeltaPosition {
        /// 0.1 microdegrees north; 131072: unavailable.
        latitude: i32 [value("-131071..=131072")],
        /// 0.1 microdegrees east; 131072: unavailable.
        longitude: i32 [value("-131071..=131072")],
        /// Centimetres up; 12800: unavailable.
        altitude: i16 [value("-12700..=12800")],
    }

    /// PathPoint.
    #[derive(Copy)]
    sequence PathPoint {
        /// Relative to the point before in the list, the first one to the reference position.
        position: DeltaPosition,
        /// Time between the two points, 0.01 s.
        delta_time: Option<u32> [value("1..=65535", extensible)],
    }

    /// PathHistory: the latest point first, at most 40.
    type PathHistory(Vec<PathPoint>) [size("0..=40")];

    /// Heading.
    #[derive(Copy)]
    sequence Heading {
        /// 0.1 degrees clockwise from north; 3601: unavailable.
        value: u16 [value("0..=3601")],
        /// Confidence, 0.1 degrees; 126: out of range, 127: unavailable.
        confidence: u8 [value("1..=127")],
    }

    /// Speed.
    #[derive(Copy)]
    sequence Speed {
        /// cm/s; 16383: unavailable.
        value: u16 [value("0..=16383")],
        /// Confidence, cm/s; 126: out of range, 127: unavailable.
        confidence: u8 [value("1..=127")],
    }

    /// Acceleration along one axis.
    #[derive(Copy)]
    sequence Acceleration {
        /// 0.1 m/s², positive forwards, to the left or upwards; 161: unavailable.
        value: i16 [value("-160..=161")],
        /// Confidence, 0.1 m/s²; 102: unavailable.
        confidence: u8 [value("0..=102")],
    }

    /// CauseCode.
    #[derive(Copy)]
    extensible sequence Cause {
        /// Cause.
        cause: u8 [value("0..=255")],
        /// Sub-cause; 0: unavailable.
        sub_cause: u8 [value("0..=255")],
    }

    /// ClosedLanes.
    extensible sequence ClosedLanes {
        /// Inner hard shoulder.
        inner_hard_shoulder: Option<HardShoulder>,
        /// Outer hard shoulder.
        outer_hard_shoulder: Option<HardShoulder>,
        /// A bit for each driving lane, counted from the outside.
        driving_lanes: Option<BitString> [size("1..=13")],
    }

    /// HardShoulderStatus.
    enumerated HardShoulder {
        /// Stopping.
        AvailableForStopping,
        /// Nothing.
        Closed,
        /// Driving.
        AvailableForDriving,
    }

    /// TrafficRule.
    extensible enumerated TrafficRule {
        /// No passing.
        NoPassing,
        /// No passing for trucks.
        NoPassingForTrucks,
        /// Pass to the right.
        PassToRight,
        /// Pass to the left.
        PassToLeft,
    }

    /// DangerousGoodsBasic: classes of the ADR.
    enumerated DangerousGoods {
        Explosives1, Explosives2, Explosives3, Explosives4, Explosives5, Explosives6, FlammableGases,
        NonFlammableGases, ToxicGases, FlammableLiquids, FlammableSolids, SelfIgnitingSubstances,
        SubstancesEmittingFlammableGases, OxidizingSubstances, OrganicPeroxides, ToxicSubstances,
        InfectiousSubstances, RadioactiveMaterial, CorrosiveSubstances, MiscellaneousSubstances,
    }
}

impl ReferencePosition {
    /// A position with an accuracy in metres, of unknown altitude.
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

    /// The coordinates; `None` if they are unavailable.
    pub fn place(&self) -> Option<Coordinates> {
        let ReferencePosition { latitude, longitude, .. } = *self;
        let known = latitude.unsigned_abs() <= 900_000_000 && longitude.unsigned_abs() <= 1_800_000_000;
        known.then_some(Coordinates { latitude, longitude })
    }
}

/// A semi-axis that is unavailable; one less is out of range.
pub const SEMI_AXIS_UNKNOWN: u16 = 4095;
/// An altitude that is unavailable.
pub const ALTITUDE_UNKNOWN: i32 = 800_001;

impl Cause {
    /// A cause with its sub-cause.
    pub fn new(cause: u8, sub_cause: u8) -> Cause {
        Cause { cause, sub_cause }
    }
}

impl ClosedLanes {
    /// The status of the hard shoulders, and the closed lanes.
    pub fn new(
        inner_hard_shoulder: Option<HardShoulder>,
        outer_hard_shoulder: Option<HardShoulder>,
        driving_lanes: Option<BitString>,
    ) -> ClosedLanes {
        ClosedLanes { inner_hard_shoulder, outer_hard_shoulder, driving_lanes }
    }
}

/// ExteriorLights, all off.
pub fn no_lights() -> BitString {
    BitString::repeat(false, 8)
}
