//! The Cooperative Awareness Message: EN 302 637-2 V1.4.1 annex A. Where a station is, how it moves and what it is.

use super::common::{
    Acceleration, Cause, ClosedLanes, DangerousGoods, Header, Heading, PathHistory, ReferencePosition, Speed,
    TrafficRule,
};
use rasn::prelude::*;

/// A Cooperative Awareness Message.
#[derive(AsnType, Encode, Decode, Debug, Clone, PartialEq, Eq)]
#[rasn(automatic_tags)]
pub struct Cam {
    /// Of whom.
    pub header: Header,
    /// What it says.
    pub awareness: Awareness,
}

/// CoopAwareness.
#[derive(AsnType, Encode, Decode, Debug, Clone, PartialEq, Eq)]
#[rasn(automatic_tags)]
pub struct Awareness {
    /// When the position was taken: milliseconds of TAI since 2004, modulo 65536.
    #[rasn(value("0..=65535"))]
    pub generation_delta_time: u16,
    /// The containers.
    pub parameters: Parameters,
}

/// CamParameters.
#[derive(AsnType, Encode, Decode, Debug, Clone, PartialEq, Eq)]
#[rasn(automatic_tags)]
#[non_exhaustive]
pub struct Parameters {
    /// What it is, and where.
    pub basic: Basic,
    /// How it moves.
    pub high_frequency: HighFrequency,
    /// What changes seldom.
    pub low_frequency: Option<LowFrequency>,
    /// Of vehicles with a task.
    pub special_vehicle: Option<SpecialVehicle>,
}

impl Parameters {
    /// The containers of a station without a special task.
    pub fn new(basic: Basic, high_frequency: HighFrequency, low_frequency: Option<LowFrequency>) -> Parameters {
        Parameters { basic, high_frequency, low_frequency, special_vehicle: None }
    }
}

/// BasicContainer.
#[derive(AsnType, Encode, Decode, Debug, Clone, Copy, PartialEq, Eq)]
#[rasn(automatic_tags)]
#[non_exhaustive]
pub struct Basic {
    /// What it is; the numbers are those of GeoNetworking addresses.
    #[rasn(value("0..=255"))]
    pub station_type: u8,
    /// Where it is.
    pub position: ReferencePosition,
}

impl Basic {
    /// A station at a place.
    pub fn new(station_type: u8, position: ReferencePosition) -> Basic {
        Basic { station_type, position }
    }
}

/// HighFrequencyContainer.
#[derive(AsnType, Encode, Decode, Debug, Clone, PartialEq, Eq)]
#[rasn(choice, automatic_tags)]
#[non_exhaustive]
pub enum HighFrequency {
    /// Of a vehicle.
    Vehicle(Vehicle),
    /// Of a roadside unit.
    Roadside(Roadside),
}

/// BasicVehicleContainerHighFrequency.
#[derive(AsnType, Encode, Decode, Debug, Clone, PartialEq, Eq)]
#[rasn(automatic_tags)]
pub struct Vehicle {
    /// Where it is heading.
    pub heading: Heading,
    /// How fast.
    pub speed: Speed,
    /// Forward or backward.
    pub drive_direction: DriveDirection,
    /// How long it is.
    pub length: VehicleLength,
    /// Tenths of a metre; 62 unknown.
    #[rasn(value("1..=62"))]
    pub width: u8,
    /// Faster or slower.
    pub longitudinal_acceleration: Acceleration,
    /// Of the way it takes.
    pub curvature: Curvature,
    /// How that was found.
    pub curvature_calculation_mode: CurvatureMode,
    /// How it turns.
    pub yaw_rate: YawRate,
    /// Pedals and assistants, a bit each.
    #[rasn(size("7"))]
    pub acceleration_control: Option<BitString>,
    /// Counted from the outside; 0 hard shoulder, -1 off the road.
    #[rasn(value("-1..=14"))]
    pub lane_position: Option<i8>,
    /// The steering wheel.
    pub steering_wheel_angle: Option<SteeringWheelAngle>,
    /// To the left.
    pub lateral_acceleration: Option<Acceleration>,
    /// Up.
    pub vertical_acceleration: Option<Acceleration>,
    /// How good its values are.
    #[rasn(value("0..=7"))]
    pub performance_class: Option<u8>,
    /// Where tolls are taken by radio.
    pub toll_zone: Option<TollZone>,
}

/// Forward or backward.
#[derive(AsnType, Encode, Decode, Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[rasn(enumerated)]
#[allow(missing_docs, reason = "the names say it")]
pub enum DriveDirection {
    Forward = 0,
    Backward = 1,
    Unavailable = 2,
}

/// VehicleLength.
#[derive(AsnType, Encode, Decode, Debug, Clone, Copy, PartialEq, Eq)]
#[rasn(automatic_tags)]
pub struct VehicleLength {
    /// Tenths of a metre; 1022 more, 1023 unknown.
    #[rasn(value("1..=1023"))]
    pub value: u16,
    /// With or without a trailer.
    pub trailer: Trailer,
}

/// VehicleLengthConfidenceIndication.
#[derive(AsnType, Encode, Decode, Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[rasn(enumerated)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Trailer {
    None = 0,
    OfKnownLength = 1,
    OfUnknownLength = 2,
    Unknown = 3,
    Unavailable = 4,
}

/// Curvature, of 1/10000 m.
#[derive(AsnType, Encode, Decode, Debug, Clone, Copy, PartialEq, Eq)]
#[rasn(automatic_tags)]
pub struct Curvature {
    /// Positive to the left; 1023 unknown.
    #[rasn(value("-1023..=1023"))]
    pub value: i16,
    /// How well known.
    pub confidence: CurvatureConfidence,
}

/// To within how much a curvature is known, 1/m.
#[derive(AsnType, Encode, Decode, Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[rasn(enumerated)]
#[allow(missing_docs, reason = "the names are hundred-thousandths of 1/m")]
pub enum CurvatureConfidence {
    Within2 = 0,
    Within10 = 1,
    Within50 = 2,
    Within200 = 3,
    Within1000 = 4,
    Within10000 = 5,
    OutOfRange = 6,
    Unavailable = 7,
}

/// How a curvature was found.
#[derive(AsnType, Encode, Decode, Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[rasn(enumerated)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the names say it")]
pub enum CurvatureMode {
    YawRateUsed = 0,
    YawRateNotUsed = 1,
    Unavailable = 2,
}

/// YawRate, hundredths of a degree a second.
#[derive(AsnType, Encode, Decode, Debug, Clone, Copy, PartialEq, Eq)]
#[rasn(automatic_tags)]
pub struct YawRate {
    /// To the left; 32767 unknown.
    #[rasn(value("-32766..=32767"))]
    pub value: i16,
    /// How well known.
    pub confidence: YawRateConfidence,
}

/// To within how much a yaw rate is known, hundredths of a degree a second.
#[derive(AsnType, Encode, Decode, Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[rasn(enumerated)]
#[allow(missing_docs, reason = "the names are hundredths of a degree a second")]
pub enum YawRateConfidence {
    Within1 = 0,
    Within5 = 1,
    Within10 = 2,
    Within100 = 3,
    Within500 = 4,
    Within1000 = 5,
    Within10000 = 6,
    OutOfRange = 7,
    Unavailable = 8,
}

/// SteeringWheelAngle, of 1.5 degrees.
#[derive(AsnType, Encode, Decode, Debug, Clone, Copy, PartialEq, Eq)]
#[rasn(automatic_tags)]
pub struct SteeringWheelAngle {
    /// To the left; 512 unknown.
    #[rasn(value("-511..=512"))]
    pub value: i16,
    /// 127 unknown.
    #[rasn(value("1..=127"))]
    pub confidence: u8,
}

/// CenDsrcTollingZone.
#[derive(AsnType, Encode, Decode, Debug, Clone, Copy, PartialEq, Eq)]
#[rasn(automatic_tags)]
#[non_exhaustive]
pub struct TollZone {
    /// Tenths of a microdegree north.
    #[rasn(value("-900000000..=900000001"))]
    pub latitude: i32,
    /// Tenths of a microdegree east.
    #[rasn(value("-1800000000..=1800000001"))]
    pub longitude: i32,
    /// Which one.
    #[rasn(value("0..=134217727"))]
    pub id: Option<u32>,
}

impl TollZone {
    /// A zone around a place, tenths of a microdegree north and east.
    pub fn new(latitude: i32, longitude: i32) -> TollZone {
        TollZone { latitude, longitude, id: None }
    }
}

/// RSUContainerHighFrequency.
#[derive(AsnType, Encode, Decode, Debug, Clone, Default, PartialEq, Eq)]
#[rasn(automatic_tags)]
#[non_exhaustive]
pub struct Roadside {
    /// Where others must keep still.
    #[rasn(size("1..=16"))]
    pub protected_zones: Option<SequenceOf<ProtectedZone>>,
}

/// ProtectedCommunicationZone.
#[derive(AsnType, Encode, Decode, Debug, Clone, Copy, PartialEq, Eq)]
#[rasn(automatic_tags)]
#[non_exhaustive]
pub struct ProtectedZone {
    /// For how long.
    pub kind: ZoneKind,
    /// Until when, milliseconds of TAI since 2004.
    #[rasn(value("0..=4398046511103"))]
    pub expiry: Option<u64>,
    /// Tenths of a microdegree north.
    #[rasn(value("-900000000..=900000001"))]
    pub latitude: i32,
    /// Tenths of a microdegree east.
    #[rasn(value("-1800000000..=1800000001"))]
    pub longitude: i32,
    /// Metres.
    #[rasn(value("1..=255", extensible))]
    pub radius: Option<u32>,
    /// Which one.
    #[rasn(value("0..=134217727"))]
    pub id: Option<u32>,
}

impl ProtectedZone {
    /// A zone around a place, tenths of a microdegree north and east.
    pub fn new(kind: ZoneKind, latitude: i32, longitude: i32) -> ProtectedZone {
        ProtectedZone { kind, expiry: None, latitude, longitude, radius: None, id: None }
    }
}

/// ProtectedZoneType.
#[derive(AsnType, Encode, Decode, Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[rasn(enumerated)]
#[non_exhaustive]
pub enum ZoneKind {
    /// For ever.
    Permanent = 0,
    /// For a time.
    #[rasn(extension_addition)]
    Temporary = 1,
}

/// LowFrequencyContainer.
#[derive(AsnType, Encode, Decode, Debug, Clone, PartialEq, Eq)]
#[rasn(choice, automatic_tags)]
#[non_exhaustive]
pub enum LowFrequency {
    /// Of a vehicle.
    Vehicle(VehicleLow),
}

/// BasicVehicleContainerLowFrequency.
#[derive(AsnType, Encode, Decode, Debug, Clone, PartialEq, Eq)]
#[rasn(automatic_tags)]
pub struct VehicleLow {
    /// What it does.
    pub role: VehicleRole,
    /// Lights, a bit each.
    #[rasn(size("8"))]
    pub exterior_lights: BitString,
    /// The way it came.
    pub path_history: PathHistory,
}

/// VehicleRole.
#[derive(AsnType, Encode, Decode, Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[rasn(enumerated)]
#[allow(missing_docs, reason = "the names say it")]
pub enum VehicleRole {
    Default = 0,
    PublicTransport = 1,
    SpecialTransport = 2,
    DangerousGoods = 3,
    RoadWork = 4,
    Rescue = 5,
    Emergency = 6,
    SafetyCar = 7,
    Agriculture = 8,
    Commercial = 9,
    Military = 10,
    RoadOperator = 11,
    Taxi = 12,
    Reserved1 = 13,
    Reserved2 = 14,
    Reserved3 = 15,
}

/// SpecialVehicleContainer.
#[derive(AsnType, Encode, Decode, Debug, Clone, PartialEq, Eq)]
#[rasn(choice, automatic_tags)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the names are those of the containers")]
pub enum SpecialVehicle {
    PublicTransport(PublicTransport),
    SpecialTransport(SpecialTransport),
    DangerousGoods(DangerousGoodsOnBoard),
    RoadWorks(RoadWorks),
    Rescue(Rescue),
    Emergency(Emergency),
    SafetyCar(SafetyCar),
}

/// PublicTransportContainer.
#[derive(AsnType, Encode, Decode, Debug, Clone, PartialEq, Eq)]
#[rasn(automatic_tags)]
pub struct PublicTransport {
    /// Passengers get in or out.
    pub embarkation: bool,
    /// What it asks of the road.
    pub activation: Option<Activation>,
}

/// PtActivation.
#[derive(AsnType, Encode, Decode, Debug, Clone, PartialEq, Eq)]
#[rasn(automatic_tags)]
pub struct Activation {
    /// How the data is written.
    #[rasn(value("0..=255"))]
    pub kind: u8,
    /// The data.
    #[rasn(size("1..=20"))]
    pub data: OctetString,
}

/// SpecialTransportContainer.
#[derive(AsnType, Encode, Decode, Debug, Clone, PartialEq, Eq)]
#[rasn(automatic_tags)]
pub struct SpecialTransport {
    /// Heavy, wide, long, high.
    #[rasn(size("4"))]
    pub kind: BitString,
    /// Light bar, siren.
    #[rasn(size("2"))]
    pub light_bar_siren: BitString,
}

/// DangerousGoodsContainer.
#[derive(AsnType, Encode, Decode, Debug, Clone, PartialEq, Eq)]
#[rasn(automatic_tags)]
pub struct DangerousGoodsOnBoard {
    /// Which.
    pub goods: DangerousGoods,
}

/// RoadWorksContainerBasic.
#[derive(AsnType, Encode, Decode, Debug, Clone, PartialEq, Eq)]
#[rasn(automatic_tags)]
pub struct RoadWorks {
    /// Which works.
    #[rasn(value("0..=255"))]
    pub sub_cause: Option<u8>,
    /// Light bar, siren.
    #[rasn(size("2"))]
    pub light_bar_siren: BitString,
    /// Lanes that are closed.
    pub closed_lanes: Option<ClosedLanes>,
}

/// RescueContainer.
#[derive(AsnType, Encode, Decode, Debug, Clone, PartialEq, Eq)]
#[rasn(automatic_tags)]
pub struct Rescue {
    /// Light bar, siren.
    #[rasn(size("2"))]
    pub light_bar_siren: BitString,
}

/// EmergencyContainer.
#[derive(AsnType, Encode, Decode, Debug, Clone, PartialEq, Eq)]
#[rasn(automatic_tags)]
pub struct Emergency {
    /// Light bar, siren.
    #[rasn(size("2"))]
    pub light_bar_siren: BitString,
    /// What it drives to.
    pub incident: Option<Cause>,
    /// What it asks for.
    #[rasn(size("2"))]
    pub priority: Option<BitString>,
}

/// SafetyCarContainer.
#[derive(AsnType, Encode, Decode, Debug, Clone, PartialEq, Eq)]
#[rasn(automatic_tags)]
pub struct SafetyCar {
    /// Light bar, siren.
    #[rasn(size("2"))]
    pub light_bar_siren: BitString,
    /// What it warns of.
    pub incident: Option<Cause>,
    /// What holds behind it.
    pub traffic_rule: Option<TrafficRule>,
    /// Kilometres an hour.
    #[rasn(value("1..=255"))]
    pub speed_limit: Option<u8>,
}
