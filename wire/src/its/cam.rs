//! The Cooperative Awareness Message: EN 302 637-2 V1.4.1 annex A. Position, movement and type of a station.

use super::asn1::asn1;
use super::common::{
    Acceleration, Cause, ClosedLanes, DangerousGoods, Header, Heading, PathHistory, ReferencePosition, Speed,
    TrafficRule,
};
use rasn::prelude::*;

asn1! {
    /// A Cooperative Awareness Message.
    sequence Cam {
        /// ITS PDU header.
        header: Header,
        /// CoopAwareness.
        awareness: Awareness,
    }

    /// CoopAwareness.
    sequence Awareness {
        /// Time of the reference position: milliseconds of TAI since 2004, modulo 65536.
        generation_delta_time: u16 [value("0..=65535")],
        /// Containers.
        parameters: Parameters,
    }

    /// CamParameters.
    extensible sequence Parameters {
        /// Basic container.
        basic: Basic,
        /// High-frequency container.
        high_frequency: HighFrequency,
        /// Low-frequency container.
        low_frequency: Option<LowFrequency>,
        /// Special vehicle container.
        special_vehicle: Option<SpecialVehicle>,
    }

    /// BasicContainer.
    #[derive(Copy)]
    extensible sequence Basic {
        /// Station type, with the values of GeoNetworking addresses.
        station_type: u8 [value("0..=255")],
        /// Reference position.
        position: ReferencePosition,
    }

    /// HighFrequencyContainer.
    extensible choice HighFrequency {
        /// Of a vehicle.
        Vehicle(Vehicle),
        /// Of a roadside unit.
        Roadside(Roadside),
    }

    /// BasicVehicleContainerHighFrequency.
    sequence Vehicle {
        /// Heading.
        heading: Heading,
        /// Speed.
        speed: Speed,
        /// Drive direction.
        drive_direction: DriveDirection,
        /// Vehicle length.
        length: VehicleLength,
        /// Vehicle width, 0.1 m; 62: unavailable.
        width: u8 [value("1..=62")],
        /// Longitudinal acceleration.
        longitudinal_acceleration: Acceleration,
        /// Curvature of the trajectory.
        curvature: Curvature,
        /// Calculation mode of the curvature.
        curvature_calculation_mode: CurvatureMode,
        /// Yaw rate.
        yaw_rate: YawRate,
        /// Acceleration control: a bit for each pedal and assistant.
        acceleration_control: Option<BitString> [size("7")],
        /// Lane, counted from the outside; 0: hard shoulder, -1: off the road.
        lane_position: Option<i8> [value("-1..=14")],
        /// Steering wheel angle.
        steering_wheel_angle: Option<SteeringWheelAngle>,
        /// Lateral acceleration, positive to the left.
        lateral_acceleration: Option<Acceleration>,
        /// Vertical acceleration, positive upwards.
        vertical_acceleration: Option<Acceleration>,
        /// Performance class.
        performance_class: Option<u8> [value("0..=7")],
        /// CEN DSRC tolling zone.
        toll_zone: Option<TollZone>,
    }

    /// DriveDirection.
    enumerated DriveDirection {
        Forward, Backward, Unavailable,
    }

    /// VehicleLength.
    #[derive(Copy)]
    sequence VehicleLength {
        /// Length, 0.1 m; 1022: that or longer, 1023: unavailable.
        value: u16 [value("1..=1023")],
        /// Presence of a trailer.
        trailer: Trailer,
    }

    /// VehicleLengthConfidenceIndication.
    enumerated Trailer {
        None, OfKnownLength, OfUnknownLength, Unknown, Unavailable,
    }

    /// Curvature, 1/10000 m.
    #[derive(Copy)]
    sequence Curvature {
        /// Positive to the left; 1023: unavailable.
        value: i16 [value("-1023..=1023")],
        /// Confidence.
        confidence: CurvatureConfidence,
    }

    /// Confidence of a curvature; the names are in 0.00001/m.
    enumerated CurvatureConfidence {
        Within2, Within10, Within50, Within200, Within1000, Within10000, OutOfRange, Unavailable,
    }

    /// CurvatureCalculationMode.
    extensible enumerated CurvatureMode {
        YawRateUsed, YawRateNotUsed, Unavailable,
    }

    /// YawRate, 0.01 degrees/s.
    #[derive(Copy)]
    sequence YawRate {
        /// Positive to the left; 32767: unavailable.
        value: i16 [value("-32766..=32767")],
        /// Confidence.
        confidence: YawRateConfidence,
    }

    /// Confidence of a yaw rate; the names are in 0.01 degrees/s.
    enumerated YawRateConfidence {
        Within1, Within5, Within10, Within100, Within500, Within1000, Within10000, OutOfRange, Unavailable,
    }

    /// SteeringWheelAngle, 1.5 degrees.
    #[derive(Copy)]
    sequence SteeringWheelAngle {
        /// Positive to the left; 512: unavailable.
        value: i16 [value("-511..=512")],
        /// Confidence; 127: unavailable.
        confidence: u8 [value("1..=127")],
    }

    /// CenDsrcTollingZone.
    #[derive(Copy)]
    extensible sequence TollZone {
        /// Latitude, 0.1 microdegrees north.
        latitude: i32 [value("-900000000..=900000001")],
        /// Longitude, 0.1 microdegrees east.
        longitude: i32 [value("-1800000000..=1800000001")],
        /// Identifier of the zone.
        id: Option<u32> [value("0..=134217727")],
    }

    /// RSUContainerHighFrequency.
    #[derive(Default)]
    extensible sequence Roadside {
        /// Protected communication zones.
        protected_zones: Option<SequenceOf<ProtectedZone>> [size("1..=16")],
    }

    /// ProtectedCommunicationZone.
    #[derive(Copy)]
    extensible sequence ProtectedZone {
        /// Permanent or temporary.
        kind: ZoneKind,
        /// Expiry time, milliseconds of TAI since 2004.
        expiry: Option<u64> [value("0..=4398046511103")],
        /// Latitude, 0.1 microdegrees north.
        latitude: i32 [value("-900000000..=900000001")],
        /// Longitude, 0.1 microdegrees east.
        longitude: i32 [value("-1800000000..=1800000001")],
        /// Radius, metres.
        radius: Option<u32> [value("1..=255", extensible)],
        /// Identifier of the zone.
        id: Option<u32> [value("0..=134217727")],
    }

    /// ProtectedZoneType.
    extensible enumerated ZoneKind {
        /// Without expiry time.
        Permanent,
        /// Until its expiry time.
        #[rasn(extension_addition)]
        Temporary,
    }

    /// LowFrequencyContainer.
    extensible choice LowFrequency {
        /// Of a vehicle.
        Vehicle(VehicleLow),
    }

    /// BasicVehicleContainerLowFrequency.
    sequence VehicleLow {
        /// Role.
        role: VehicleRole,
        /// A bit for each of the exterior lights.
        exterior_lights: BitString [size("8")],
        /// Path history.
        path_history: PathHistory,
    }

    /// VehicleRole.
    enumerated VehicleRole {
        Default, PublicTransport, SpecialTransport, DangerousGoods, RoadWork, Rescue, Emergency, SafetyCar,
        Agriculture, Commercial, Military, RoadOperator, Taxi, Reserved1, Reserved2, Reserved3,
    }

    /// SpecialVehicleContainer.
    #[allow(missing_docs, reason = "the names are those of the containers")]
    extensible choice SpecialVehicle {
        PublicTransport(PublicTransport),
        SpecialTransport(SpecialTransport),
        DangerousGoods(DangerousGoodsOnBoard),
        RoadWorks(RoadWorks),
        Rescue(Rescue),
        Emergency(Emergency),
        SafetyCar(SafetyCar),
    }

    /// PublicTransportContainer.
    sequence PublicTransport {
        /// Whether passengers get in or out.
        embarkation: bool,
        /// Control of the traffic lights and barriers.
        activation: Option<Activation>,
    }

    /// PtActivation.
    sequence Activation {
        /// Type of the data.
        kind: u8 [value("0..=255")],
        /// The data.
        data: OctetString [size("1..=20")],
    }

    /// SpecialTransportContainer.
    sequence SpecialTransport {
        /// A bit each: heavy, excess width, excess length, excess height.
        kind: BitString [size("4")],
        /// A bit each: light bar, siren.
        light_bar_siren: BitString [size("2")],
    }

    /// DangerousGoodsContainer.
    sequence DangerousGoodsOnBoard {
        /// Class of the goods.
        goods: DangerousGoods,
    }

    /// RoadWorksContainerBasic.
    sequence RoadWorks {
        /// Sub-cause of the road works.
        sub_cause: Option<u8> [value("0..=255")],
        /// A bit each: light bar, siren.
        light_bar_siren: BitString [size("2")],
        /// Closed lanes.
        closed_lanes: Option<ClosedLanes>,
    }

    /// RescueContainer.
    sequence Rescue {
        /// A bit each: light bar, siren.
        light_bar_siren: BitString [size("2")],
    }

    /// EmergencyContainer.
    sequence Emergency {
        /// A bit each: light bar, siren.
        light_bar_siren: BitString [size("2")],
        /// The incident that the vehicle drives to.
        incident: Option<Cause>,
        /// A bit each: right of way, free passage at a traffic light.
        priority: Option<BitString> [size("2")],
    }

    /// SafetyCarContainer.
    sequence SafetyCar {
        /// A bit each: light bar, siren.
        light_bar_siren: BitString [size("2")],
        /// The incident that the vehicle indicates.
        incident: Option<Cause>,
        /// Traffic rule behind the vehicle.
        traffic_rule: Option<TrafficRule>,
        /// Speed limit, km/h.
        speed_limit: Option<u8> [value("1..=255")],
    }
}

impl Parameters {
    /// The containers of a station without a special task.
    pub fn new(basic: Basic, high_frequency: HighFrequency, low_frequency: Option<LowFrequency>) -> Parameters {
        Parameters { basic, high_frequency, low_frequency, special_vehicle: None }
    }
}

impl Basic {
    /// The container of a station of this type at this position.
    pub fn new(station_type: u8, position: ReferencePosition) -> Basic {
        Basic { station_type, position }
    }
}

impl TollZone {
    /// A zone around a position, 0.1 microdegrees north and east.
    pub fn new(latitude: i32, longitude: i32) -> TollZone {
        TollZone { latitude, longitude, id: None }
    }
}

impl ProtectedZone {
    /// A zone around a position, 0.1 microdegrees north and east.
    pub fn new(kind: ZoneKind, latitude: i32, longitude: i32) -> ProtectedZone {
        ProtectedZone { kind, expiry: None, latitude, longitude, radius: None, id: None }
    }
}
