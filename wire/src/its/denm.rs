//! The Decentralised Environmental Notification Message: EN 302 637-3 V1.3.1 annex A. An event, its position
//! and its validity.

use super::asn1::asn1;
use super::common::{
    Cause, ClosedLanes, DangerousGoods, DeltaPosition, Header, Heading, PathHistory, ReferencePosition, Speed,
    TrafficRule,
};
use rasn::prelude::*;

asn1! {
    /// A Decentralised Environmental Notification Message.
    sequence Denm {
        /// ITS PDU header.
        header: Header,
        /// The notification.
        notification: Notification,
    }

    /// DecentralizedEnvironmentalNotificationMessage.
    sequence Notification {
        /// Management container.
        management: Management,
        /// Situation container.
        situation: Option<Situation>,
        /// Location container.
        location: Option<Location>,
        /// À la carte container.
        alacarte: Option<Alacarte>,
    }

    /// ManagementContainer.
    extensible sequence Management {
        /// Action identifier.
        action: ActionId,
        /// Detection time, milliseconds of TAI since 2004.
        detection_time: u64 [value("0..=4398046511103")],
        /// Time of this message, milliseconds of TAI since 2004: orders the messages of one event.
        reference_time: u64 [value("0..=4398046511103")],
        /// Termination: the event is over.
        termination: Option<Termination>,
        /// Event position.
        position: ReferencePosition,
        /// Relevance distance.
        relevance_distance: Option<RelevanceDistance>,
        /// Relevance traffic direction.
        relevance_direction: Option<RelevanceDirection>,
        /// Validity duration: seconds from the detection time.
        validity: u32 [value("0..=86400"), default = "default_validity"],
        /// Transmission interval, milliseconds.
        transmission_interval: Option<u16> [value("1..=10000")],
        /// Station type of the sender.
        station_type: u8 [value("0..=255")],
    }

    /// ActionID: identifies an event.
    #[derive(Copy, PartialOrd, Ord, Hash)]
    sequence ActionId {
        /// Identifier of the station that detected the event first.
        station: u32 [value("0..=4294967295")],
        /// Sequence number of the event.
        sequence: u16 [value("0..=65535")],
    }

    /// Termination.
    enumerated Termination {
        /// By the station that originated the event.
        Cancellation,
        /// By another station.
        Negation,
    }

    /// RelevanceDistance; the names are metres.
    enumerated RelevanceDistance {
        Within50, Within100, Within200, Within500, Within1000, Within5000, Within10000, Over10000,
    }

    /// RelevanceTrafficDirection.
    enumerated RelevanceDirection {
        All, Upstream, Downstream, Opposite,
    }

    /// SituationContainer.
    extensible sequence Situation {
        /// Information quality, 1 to 7; 0: unavailable.
        quality: u8 [value("0..=7")],
        /// Cause of the event.
        event: Cause,
        /// Linked cause.
        linked: Option<Cause>,
        /// Event history.
        history: Option<SequenceOf<EventPoint>> [size("1..=23")],
    }

    /// EventPoint.
    #[derive(Copy)]
    sequence EventPoint {
        /// Event position, relative to the point before in the list.
        position: DeltaPosition,
        /// Time between the two points, 0.01 s.
        delta_time: Option<u32> [value("1..=65535", extensible)],
        /// Information quality.
        quality: u8 [value("0..=7")],
    }

    /// LocationContainer.
    extensible sequence Location {
        /// Event speed.
        speed: Option<Speed>,
        /// Event position heading.
        heading: Option<Heading>,
        /// Traces: paths to the event.
        traces: SequenceOf<PathHistory> [size("1..=7")],
        /// Road type.
        road: Option<Road>,
    }

    /// RoadType.
    enumerated Road {
        UrbanUnseparated, UrbanSeparated, RuralUnseparated, RuralSeparated,
    }

    /// AlacarteContainer.
    #[derive(Default)]
    extensible sequence Alacarte {
        /// Lane position.
        lane: Option<i8> [value("-1..=14")],
        /// Impact reduction container.
        impact: Option<ImpactReduction>,
        /// External temperature, degrees Celsius.
        temperature: Option<i8> [value("-60..=67")],
        /// Road works container.
        road_works: Option<RoadWorksExtended>,
        /// Positioning solution.
        positioning: Option<Positioning>,
        /// Stationary vehicle container.
        stationary: Option<Stationary>,
    }

    /// PositioningSolutionType.
    extensible enumerated Positioning {
        None, Satellites, DifferentialSatellites, SatellitesAndReckoning, DifferentialAndReckoning, Reckoning,
    }

    /// ImpactReductionContainer; lengths in centimetres or 0.1 m, as in the standard.
    #[allow(missing_docs, reason = "the fields are those of the standard")]
    sequence ImpactReduction {
        height_carrier_left: u8 [value("1..=100")],
        height_carrier_right: u8 [value("1..=100")],
        position_carrier_left: u8 [value("1..=127")],
        position_carrier_right: u8 [value("1..=127")],
        pillars: Pillars,
        centre_of_mass: u8 [value("1..=63")],
        wheel_base: u8 [value("1..=127")],
        turning_radius: u8 [value("1..=255")],
        front_axle: u8 [value("1..=20")],
        occupants: BitString [size("20")],
        mass: u16 [value("1..=1024")],
        indication: Indication,
    }

    /// PositionOfPillars, 0.1 m.
    type Pillars(SequenceOf<Pillar>) [size("1..=3", extensible)];

    /// PosPillar.
    #[derive(Copy)]
    type Pillar(u8) [value("1..=30")];

    /// RequestResponseIndication.
    enumerated Indication {
        Request, Response,
    }

    /// RoadWorksContainerExtended.
    sequence RoadWorksExtended {
        /// A bit each: light bar, siren.
        light_bar_siren: Option<BitString> [size("2")],
        /// Closed lanes.
        closed_lanes: Option<ClosedLanes>,
        /// Station types that are restricted.
        restriction: Option<SequenceOf<StationType>> [size("1..=3", extensible)],
        /// Speed limit, km/h.
        speed_limit: Option<u8> [value("1..=255")],
        /// Incident indication.
        incident: Option<Cause>,
        /// Recommended path.
        recommended_path: Option<SequenceOf<ReferencePosition>> [size("1..=40")],
        /// Start of the speed limit.
        limit_from: Option<DeltaPosition>,
        /// Traffic rule.
        traffic_rule: Option<TrafficRule>,
        /// Other events of the road works.
        references: Option<SequenceOf<ActionId>> [size("1..=8", extensible)],
    }

    /// StationType.
    #[derive(Copy)]
    type StationType(u8) [value("0..=255")];

    /// StationaryVehicleContainer.
    sequence Stationary {
        /// Time since the vehicle stopped.
        since: Option<StationarySince>,
        /// Cause.
        cause: Option<Cause>,
        /// Dangerous goods on board.
        goods: Option<Goods>,
        /// Number of occupants; 127: unavailable.
        occupants: Option<u8> [value("0..=127")],
        /// Vehicle identification.
        vehicle: Option<VehicleIdentification>,
        /// Energy storage: a bit for each type.
        energy: Option<BitString> [size("7")],
    }

    /// StationarySince; the names are minutes.
    enumerated StationarySince {
        Under1, Under2, Under15, Over15,
    }

    /// DangerousGoodsExtended.
    #[allow(missing_docs, reason = "the fields are those of the standard")]
    extensible sequence Goods {
        kind: DangerousGoods,
        un_number: u16 [value("0..=9999")],
        elevated_temperature: bool,
        tunnels_restricted: bool,
        limited_quantity: bool,
        action_code: Option<Ia5String> [size("1..=24")],
        phone: Option<NumericString> [size("1..=16")],
        company: Option<Utf8String>,
    }

    /// VehicleIdentification.
    #[derive(Default)]
    extensible sequence VehicleIdentification {
        /// World manufacturer identifier.
        manufacturer: Option<Ia5String> [size("1..=3")],
        /// Vehicle descriptor section.
        descriptor: Option<Ia5String> [size("6")],
    }
}

impl Management {
    /// A new event, with its detection time as reference time.
    pub fn new(action: ActionId, detection_time: u64, position: ReferencePosition, station_type: u8) -> Management {
        Management {
            action,
            detection_time,
            reference_time: detection_time,
            termination: None,
            position,
            relevance_distance: None,
            relevance_direction: None,
            validity: default_validity(),
            transmission_interval: None,
            station_type,
        }
    }
}

/// Default validity duration, seconds.
fn default_validity() -> u32 {
    600
}

impl Situation {
    /// An event with this information quality and cause.
    pub fn new(quality: u8, event: Cause) -> Situation {
        Situation { quality, event, linked: None, history: None }
    }
}

impl Location {
    /// A container with these traces, one at least.
    pub fn new(traces: SequenceOf<PathHistory>) -> Location {
        Location { speed: None, heading: None, traces, road: None }
    }
}

impl Goods {
    /// Goods of this class and UN number.
    pub fn new(kind: DangerousGoods, un_number: u16) -> Goods {
        Goods {
            kind,
            un_number,
            elevated_temperature: false,
            tunnels_restricted: false,
            limited_quantity: false,
            action_code: None,
            phone: None,
            company: None,
        }
    }
}
