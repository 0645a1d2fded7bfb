//! The Vulnerable Road User Awareness Message (VAM): ETSI TS 103 300-3 V2.3.1, with the common data dictionary TS 102 894-2
//! V2.4.1. It is only received: position, movement and profile are read. The containers behind those, for clusters and
//! predicted movement, are not.

use super::asn1::asn1;
use super::cam::{Basic, Curvature, CurvatureMode, YawRate};
use super::common::{Acceleration, Header, Heading, Speed};
use super::map_position::LanePosition;
use rasn::prelude::*;

/// Version of the message.
pub const PROTOCOL_VERSION: u8 = 3;

asn1! {
    /// A VAM.
    sequence Vam {
        /// ITS PDU header.
        header: Header,
        /// VruAwareness.
        awareness: Awareness,
    }

    /// VruAwareness.
    sequence Awareness {
        /// Time of the reference position: milliseconds of TAI since 2004, modulo 65536.
        generation_delta_time: u16 [value("0..=65535")],
        /// The extension bit of VamParameters. Extensions are behind the last container, and not read.
        extended: bool,
        /// Containers.
        parameters: Parameters,
    }

    /// VamParameters behind their extension bit. Of the last three containers only their presence is read.
    sequence Parameters {
        /// Basic container: that of a CAM.
        basic: Basic,
        /// High-frequency container.
        high_frequency: HighFrequency,
        /// Low-frequency container.
        low_frequency: Option<LowFrequency>,
        /// Cluster information container.
        cluster_information: Option<()>,
        /// Cluster operation container.
        cluster_operation: Option<()>,
        /// Motion prediction container.
        motion_prediction: Option<()>,
    }

    /// VruHighFrequencyContainer.
    extensible sequence HighFrequency {
        /// Heading.
        heading: Heading,
        /// Speed.
        speed: Speed,
        /// Longitudinal acceleration.
        longitudinal_acceleration: Acceleration,
        /// Curvature of the trajectory.
        curvature: Option<Curvature>,
        /// Calculation mode of the curvature.
        curvature_calculation_mode: Option<CurvatureMode>,
        /// Yaw rate.
        yaw_rate: Option<YawRate>,
        /// Lateral acceleration, positive to the left.
        lateral_acceleration: Option<Acceleration>,
        /// Vertical acceleration, positive upwards.
        vertical_acceleration: Option<Acceleration>,
        /// Lane.
        lane_position: Option<LanePosition>,
        /// Environment, as a sidewalk or a crossing.
        environment: Option<u8> [value("0..=15")],
        /// How the road user brakes or pedals.
        movement_control: Option<u8> [value("0..=15")],
        /// Orientation of the vehicle.
        orientation: Option<Heading>,
        /// Roll angle of the vehicle.
        roll_angle: Option<Heading>,
        /// Use of the personal device.
        device_usage: Option<u8> [value("0..=15")],
    }

    /// VruLowFrequencyContainer.
    extensible sequence LowFrequency {
        /// Profile.
        profile: Profile,
        /// Size class.
        size_class: Option<u8> [value("0..=15")],
        /// Exterior lights.
        exterior_lights: Option<ExteriorLights>,
    }

    /// VruProfileAndSubprofile: profiles 1 to 4, each with its sub-profiles; 0: unavailable.
    #[derive(Copy)]
    extensible choice Profile {
        /// A pedestrian.
        Pedestrian(u8) [value("0..=15")],
        /// A cyclist, or another light vehicle.
        Cyclist(u8) [value("0..=15")],
        /// A motorcyclist.
        Motorcyclist(u8) [value("0..=15")],
        /// An animal.
        Animal(u8) [value("0..=15")],
    }

    /// VruExteriorLights.
    extensible sequence ExteriorLights {
        /// A bit for each of the lights of a vehicle.
        vehicular: BitString [size("8")],
        /// A bit for each of the lights that a person wears.
        worn: BitString [size("8")],
    }
}

impl Profile {
    /// The name of the sub-profile; `None` if it is unavailable, or not defined.
    pub fn name(self) -> Option<&'static str> {
        let (names, number): (&[&str], u8) = match self {
            Profile::Pedestrian(number) => (&["ordinary", "road worker", "first responder"], number),
            Profile::Cyclist(number) => (&CYCLISTS, number),
            Profile::Motorcyclist(number) => {
                (&["moped", "motorcycle", "sidecar on the right", "sidecar on the left"], number)
            }
            Profile::Animal(number) => (&["wild", "farm animal", "service animal"], number),
        };
        names.get(usize::from(number).checked_sub(1)?).copied()
    }
}

const CYCLISTS: [&str; 10] = [
    "bicycle",
    "wheelchair",
    "horse and rider",
    "roller skates",
    "e-scooter",
    "personal transporter",
    "pedelec",
    "speed pedelec",
    "road bike",
    "children's bicycle",
];
