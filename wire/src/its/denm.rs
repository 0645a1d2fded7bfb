//! The Decentralised Environmental Notification Message: EN 302 637-3 V1.3.1 annex A. What has happened, where, and for
//! how long that is of interest.

use super::common::{
    Cause, ClosedLanes, DangerousGoods, DeltaPosition, Header, Heading, PathHistory, ReferencePosition, Speed,
    TrafficRule,
};
use rasn::prelude::*;

/// A Decentralised Environmental Notification Message.
#[derive(AsnType, Encode, Decode, Debug, Clone, PartialEq, Eq)]
#[rasn(automatic_tags)]
pub struct Denm {
    /// Of whom.
    pub header: Header,
    /// What it says.
    pub notification: Notification,
}

/// DecentralizedEnvironmentalNotificationMessage.
#[derive(AsnType, Encode, Decode, Debug, Clone, PartialEq, Eq)]
#[rasn(automatic_tags)]
pub struct Notification {
    /// Which event, since when and until when.
    pub management: Management,
    /// What has happened.
    pub situation: Option<Situation>,
    /// The roads to it.
    pub location: Option<Location>,
    /// More, by kind of event.
    pub alacarte: Option<Alacarte>,
}

/// ManagementContainer.
#[derive(AsnType, Encode, Decode, Debug, Clone, PartialEq, Eq)]
#[rasn(automatic_tags)]
#[non_exhaustive]
pub struct Management {
    /// Names the event.
    pub action: ActionId,
    /// When it was detected, milliseconds of TAI since 2004.
    #[rasn(value("0..=4398046511103"))]
    pub detection_time: u64,
    /// When this message was made: orders messages of one event.
    #[rasn(value("0..=4398046511103"))]
    pub reference_time: u64,
    /// It is over.
    pub termination: Option<Termination>,
    /// Where it is.
    pub position: ReferencePosition,
    /// Who is to know: within so far,
    pub relevance_distance: Option<RelevanceDistance>,
    /// and driving so.
    pub relevance_direction: Option<RelevanceDirection>,
    /// Seconds from its detection to its end.
    #[rasn(value("0..=86400"), default = "default_validity")]
    pub validity: u32,
    /// Milliseconds from one message to the next.
    #[rasn(value("1..=10000"))]
    pub transmission_interval: Option<u16>,
    /// What the sender is.
    #[rasn(value("0..=255"))]
    pub station_type: u8,
}

impl Management {
    /// An event that has just been detected.
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

/// Seconds that an event is valid, if nothing else is said.
fn default_validity() -> u32 {
    600
}

/// Names an event.
#[derive(AsnType, Encode, Decode, Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[rasn(automatic_tags)]
pub struct ActionId {
    /// The station that told of it first.
    #[rasn(value("0..=4294967295"))]
    pub station: u32,
    /// Which of its events.
    #[rasn(value("0..=65535"))]
    pub sequence: u16,
}

/// How an event ended.
#[derive(AsnType, Encode, Decode, Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[rasn(enumerated)]
pub enum Termination {
    /// Who told of it says so.
    Cancellation = 0,
    /// Another station says so.
    Negation = 1,
}

/// How far around an event it matters.
#[derive(AsnType, Encode, Decode, Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[rasn(enumerated)]
#[allow(missing_docs, reason = "the names are metres")]
pub enum RelevanceDistance {
    Within50 = 0,
    Within100 = 1,
    Within200 = 2,
    Within500 = 3,
    Within1000 = 4,
    Within5000 = 5,
    Within10000 = 6,
    Over10000 = 7,
}

/// For which traffic an event matters.
#[derive(AsnType, Encode, Decode, Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[rasn(enumerated)]
#[allow(missing_docs, reason = "the names say it")]
pub enum RelevanceDirection {
    All = 0,
    Upstream = 1,
    Downstream = 2,
    Opposite = 3,
}

/// SituationContainer.
#[derive(AsnType, Encode, Decode, Debug, Clone, PartialEq, Eq)]
#[rasn(automatic_tags)]
#[non_exhaustive]
pub struct Situation {
    /// How sure the sender is, 1 to 7; 0 unknown.
    #[rasn(value("0..=7"))]
    pub quality: u8,
    /// What has happened.
    pub event: Cause,
    /// What has to do with it.
    pub linked: Option<Cause>,
    /// Where it was before.
    #[rasn(size("1..=23"))]
    pub history: Option<SequenceOf<EventPoint>>,
}

impl Situation {
    /// What has happened, as sure as that.
    pub fn new(quality: u8, event: Cause) -> Situation {
        Situation { quality, event, linked: None, history: None }
    }
}

/// EventPoint.
#[derive(AsnType, Encode, Decode, Debug, Clone, Copy, PartialEq, Eq)]
#[rasn(automatic_tags)]
pub struct EventPoint {
    /// Relative to the next point.
    pub position: DeltaPosition,
    /// Hundredths of a second before that.
    #[rasn(value("1..=65535", extensible))]
    pub delta_time: Option<u32>,
    /// How sure the sender is.
    #[rasn(value("0..=7"))]
    pub quality: u8,
}

/// LocationContainer.
#[derive(AsnType, Encode, Decode, Debug, Clone, PartialEq, Eq)]
#[rasn(automatic_tags)]
#[non_exhaustive]
pub struct Location {
    /// How fast the event moves.
    pub speed: Option<Speed>,
    /// Where to.
    pub heading: Option<Heading>,
    /// Ways that lead to it.
    #[rasn(size("1..=7"))]
    pub traces: SequenceOf<PathHistory>,
    /// The road it is on.
    pub road: Option<Road>,
}

impl Location {
    /// Ways that lead to the event, one at least.
    pub fn new(traces: SequenceOf<PathHistory>) -> Location {
        Location { speed: None, heading: None, traces, road: None }
    }
}

/// RoadType.
#[derive(AsnType, Encode, Decode, Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[rasn(enumerated)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Road {
    UrbanUnseparated = 0,
    UrbanSeparated = 1,
    RuralUnseparated = 2,
    RuralSeparated = 3,
}

/// AlacarteContainer.
#[derive(AsnType, Encode, Decode, Debug, Clone, Default, PartialEq, Eq)]
#[rasn(automatic_tags)]
#[non_exhaustive]
pub struct Alacarte {
    /// The lane it is on.
    #[rasn(value("-1..=14"))]
    pub lane: Option<i8>,
    /// To soften a crash.
    pub impact: Option<ImpactReduction>,
    /// Degrees Celsius.
    #[rasn(value("-60..=67"))]
    pub temperature: Option<i8>,
    /// Of road works.
    pub road_works: Option<RoadWorksExtended>,
    /// How the position was found.
    pub positioning: Option<Positioning>,
    /// Of a vehicle that stands.
    pub stationary: Option<Stationary>,
}

/// PositioningSolutionType.
#[derive(AsnType, Encode, Decode, Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[rasn(enumerated)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the names are those of the standard")]
pub enum Positioning {
    None = 0,
    Satellites = 1,
    DifferentialSatellites = 2,
    SatellitesAndReckoning = 3,
    DifferentialAndReckoning = 4,
    Reckoning = 5,
}

/// ImpactReductionContainer; lengths in centimetres or tenths of a metre, as the standard has them.
#[derive(AsnType, Encode, Decode, Debug, Clone, PartialEq, Eq)]
#[rasn(automatic_tags)]
#[allow(missing_docs, reason = "the fields are those of the standard")]
pub struct ImpactReduction {
    #[rasn(value("1..=100"))]
    pub height_carrier_left: u8,
    #[rasn(value("1..=100"))]
    pub height_carrier_right: u8,
    #[rasn(value("1..=127"))]
    pub position_carrier_left: u8,
    #[rasn(value("1..=127"))]
    pub position_carrier_right: u8,
    pub pillars: Pillars,
    #[rasn(value("1..=63"))]
    pub centre_of_mass: u8,
    #[rasn(value("1..=127"))]
    pub wheel_base: u8,
    #[rasn(value("1..=255"))]
    pub turning_radius: u8,
    #[rasn(value("1..=20"))]
    pub front_axle: u8,
    #[rasn(size("20"))]
    pub occupants: BitString,
    #[rasn(value("1..=1024"))]
    pub mass: u16,
    pub indication: Indication,
}

/// PositionOfPillars, tenths of a metre.
#[derive(AsnType, Encode, Decode, Debug, Clone, PartialEq, Eq)]
#[rasn(delegate, size("1..=3", extensible))]
pub struct Pillars(pub SequenceOf<Pillar>);

/// PosPillar.
#[derive(AsnType, Encode, Decode, Debug, Clone, Copy, PartialEq, Eq)]
#[rasn(delegate, value("1..=30"))]
pub struct Pillar(pub u8);

/// RequestResponseIndication.
#[derive(AsnType, Encode, Decode, Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[rasn(enumerated)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Indication {
    Request = 0,
    Response = 1,
}

/// RoadWorksContainerExtended.
#[derive(AsnType, Encode, Decode, Debug, Clone, PartialEq, Eq)]
#[rasn(automatic_tags)]
pub struct RoadWorksExtended {
    /// Light bar, siren.
    #[rasn(size("2"))]
    pub light_bar_siren: Option<BitString>,
    /// Lanes that are closed.
    pub closed_lanes: Option<ClosedLanes>,
    /// For whom.
    #[rasn(size("1..=3", extensible))]
    pub restriction: Option<SequenceOf<StationType>>,
    /// Kilometres an hour.
    #[rasn(value("1..=255"))]
    pub speed_limit: Option<u8>,
    /// What has happened there.
    pub incident: Option<Cause>,
    /// The way past it.
    #[rasn(size("1..=40"))]
    pub recommended_path: Option<SequenceOf<ReferencePosition>>,
    /// Where the limit begins.
    pub limit_from: Option<DeltaPosition>,
    /// What holds.
    pub traffic_rule: Option<TrafficRule>,
    /// Other messages about it.
    #[rasn(size("1..=8", extensible))]
    pub references: Option<SequenceOf<ActionId>>,
}

/// StationType.
#[derive(AsnType, Encode, Decode, Debug, Clone, Copy, PartialEq, Eq)]
#[rasn(delegate, value("0..=255"))]
pub struct StationType(pub u8);

/// StationaryVehicleContainer.
#[derive(AsnType, Encode, Decode, Debug, Clone, PartialEq, Eq)]
#[rasn(automatic_tags)]
pub struct Stationary {
    /// For how long it has been standing.
    pub since: Option<StationarySince>,
    /// Why.
    pub cause: Option<Cause>,
    /// What is in it.
    pub goods: Option<Goods>,
    /// Who is in it; 127 unknown.
    #[rasn(value("0..=127"))]
    pub occupants: Option<u8>,
    /// Which one.
    pub vehicle: Option<VehicleIdentification>,
    /// What drives it, a bit each.
    #[rasn(size("7"))]
    pub energy: Option<BitString>,
}

/// StationarySince.
#[derive(AsnType, Encode, Decode, Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[rasn(enumerated)]
#[allow(missing_docs, reason = "the names are minutes")]
pub enum StationarySince {
    Under1 = 0,
    Under2 = 1,
    Under15 = 2,
    Over15 = 3,
}

/// DangerousGoodsExtended.
#[derive(AsnType, Encode, Decode, Debug, Clone, PartialEq, Eq)]
#[rasn(automatic_tags)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the fields are those of the standard")]
pub struct Goods {
    pub kind: DangerousGoods,
    #[rasn(value("0..=9999"))]
    pub un_number: u16,
    pub elevated_temperature: bool,
    pub tunnels_restricted: bool,
    pub limited_quantity: bool,
    #[rasn(size("1..=24"))]
    pub action_code: Option<Ia5String>,
    #[rasn(size("1..=16"))]
    pub phone: Option<NumericString>,
    pub company: Option<Utf8String>,
}

impl Goods {
    /// Goods of a class and a number of the United Nations.
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

/// VehicleIdentification.
#[derive(AsnType, Encode, Decode, Debug, Clone, Default, PartialEq, Eq)]
#[rasn(automatic_tags)]
#[non_exhaustive]
pub struct VehicleIdentification {
    /// World manufacturer identifier.
    #[rasn(size("1..=3"))]
    pub manufacturer: Option<Ia5String>,
    /// Vehicle descriptor section.
    #[rasn(size("6"))]
    pub descriptor: Option<Ia5String>,
}
