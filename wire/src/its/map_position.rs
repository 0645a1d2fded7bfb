//! Positions in lanes and on maps: GeneralizedLanePosition of the common data dictionary of Release 2 (TS 102 894-2 V2.4.1).
//! The values are read since fields behind them are wanted.

use super::asn1::asn1;
use rasn::prelude::*;

asn1! {
    /// GeneralizedLanePosition.
    extensible sequence LanePosition {
        /// By lanes.
        by_lane: ByLane,
        /// By a map.
        by_map: Option<MapPosition>,
        /// Source of the information.
        source: Source,
    }

    /// LanePositionOptions.
    extensible choice ByLane {
        /// A lane, counted from the inside.
        Number(i8) [value("-1..=14")],
        /// A type of lane.
        Kind(u8) [value("0..=31")],
        /// A lane with its type.
        Lane(Lane),
        /// A lane with the distances to its borders.
        WithinLane(WithinLane),
        /// An island between two lanes.
        Island(Island),
    }

    /// LanePositionAndType.
    #[derive(Copy)]
    extensible sequence Lane {
        /// Lane, counted from the inside.
        number: i8 [value("-1..=14")],
        /// Type; of traffic by default.
        kind: Option<u8> [value("0..=31")],
        /// Direction; the same by default.
        direction: Option<u8> [value("0..=3")],
    }

    /// LanePositionWithLateralDetails.
    #[derive(Copy)]
    extensible sequence WithinLane {
        /// Lane, counted from the inside.
        number: i8 [value("-1..=14")],
        /// Type; of traffic by default.
        kind: Option<u8> [value("0..=31")],
        /// Direction; the same by default.
        direction: Option<u8> [value("0..=3")],
        /// Distance to the left border.
        left: u16 [value("0..=511")],
        /// Distance to the right border.
        right: u16 [value("0..=511")],
    }

    /// TrafficIslandPosition.
    #[derive(Copy)]
    extensible sequence Island {
        /// One side.
        one_side: Lane,
        /// The other side.
        other_side: Lane,
    }

    /// MapPosition.
    #[derive(Copy)]
    extensible sequence MapPosition {
        /// The map.
        reference: Option<MapReference>,
        /// Lane of the map.
        lane: Option<u8> [value("0..=255")],
        /// Connection of the map.
        connection: Option<u8> [value("0..=255")],
        /// Position along the lane.
        along: Option<AlongLane>,
    }

    /// MapReference.
    #[derive(Copy)]
    choice MapReference {
        /// A road segment.
        RoadSegment(RegionalId),
        /// An intersection.
        Intersection(RegionalId),
    }

    /// RoadSegmentReferenceId, IntersectionReferenceId.
    #[derive(Copy)]
    sequence RegionalId {
        /// Region.
        region: Option<u16> [value("0..=65535")],
        /// Number in the region.
        number: u16 [value("0..=65535")],
    }

    /// LongitudinalLanePosition.
    #[derive(Copy)]
    sequence AlongLane {
        /// Distance from the start of the lane, 0.1 m.
        value: u16 [value("0..=32767")],
        /// Confidence.
        confidence: u16 [value("0..=1023")],
    }

    /// MetaInformation.
    extensible sequence Source {
        /// A bit for each type of sensor.
        sensors: BitString [size("16", extensible)],
        /// A bit for each type of stored information.
        stored: BitString [size("8", extensible)],
        /// Confidence, per cent; 101: unavailable.
        confidence: Option<u8> [value("1..=101")],
    }
}
