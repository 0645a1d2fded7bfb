//! The Collective Perception Message (CPM): ETSI TS 103 324 V2.1.1. It is only received: the position and orientation of the
//! station, and the number of objects that it perceives. Containers are open types, so that those not read are skipped.

use super::asn1::asn1;
use super::common::{Header, Heading, ReferencePosition};
use super::decode_beginning;
use crate::malformed::Malformed;
use rasn::prelude::*;

asn1! {
    /// A CPM.
    sequence Cpm {
        /// ITS PDU header.
        header: Header,
        /// CpmPayload.
        payload: Payload,
    }

    /// CpmPayload.
    extensible sequence Payload {
        /// Management container.
        management: Management,
        /// The other containers.
        containers: SequenceOf<Container> [size("1..=8", extensible)],
    }

    /// ManagementContainer.
    #[derive(Copy)]
    extensible sequence Management {
        /// Reference time, milliseconds of TAI since 2004.
        reference_time: u64 [value("0..=4398046511103")],
        /// Reference position.
        position: ReferencePosition,
        /// Which of several messages this is.
        segmentation: Option<Segmentation>,
        /// Range of the message rate.
        rate_range: Option<RateRange>,
    }

    /// MessageSegmentationInfo.
    #[derive(Copy)]
    sequence Segmentation {
        /// Number of messages.
        total: u8 [value("1..=8")],
        /// Number of this message.
        this: u8 [value("1..=8")],
    }

    /// MessageRateRange.
    #[derive(Copy)]
    sequence RateRange {
        /// Minimum.
        minimum: Rate,
        /// Maximum.
        maximum: Rate,
    }

    /// MessageRateHz.
    #[derive(Copy)]
    sequence Rate {
        /// Mantissa.
        mantissa: u8 [value("1..=100")],
        /// Exponent of 10.
        exponent: i8 [value("-5..=2")],
    }

    /// WrappedCpmContainer.
    sequence Container {
        /// Identifier: one of [`container`], or another.
        id: u8 [value("1..=16")],
        /// The encoded container.
        data: OctetString,
    }

    /// OriginatingVehicleContainer.
    sequence Vehicle {
        /// The extension bit. Extensions are behind the last field, and not read.
        extended: bool,
        /// The fields.
        fields: VehicleFields,
    }

    /// The fields of OriginatingVehicleContainer. Of the trailers only their presence is read.
    sequence VehicleFields {
        /// Orientation.
        orientation: Heading,
        /// Pitch angle.
        pitch: Option<Heading>,
        /// Roll angle.
        roll: Option<Heading>,
        /// Trailers.
        trailers: Option<()>,
    }

    /// The beginning of PerceivedObjectContainer. The objects are not read.
    #[derive(Copy)]
    sequence PerceivedObjects {
        /// The extension bit.
        extended: bool,
        /// Number of perceived objects, those in other messages of the station included.
        count: u8 [value("0..=255")],
    }
}

/// Identifiers of containers.
pub mod container {
    /// The sending vehicle.
    pub const VEHICLE: u8 = 1;
    /// Perceived objects.
    pub const PERCEIVED_OBJECTS: u8 = 5;
}

impl Cpm {
    /// The orientation of the sending vehicle; `None` if the message does not contain it.
    ///
    /// # Errors
    /// A container that cannot be decoded.
    pub fn orientation(&self) -> Result<Option<Heading>, Malformed> {
        Ok(self.container::<Vehicle>(container::VEHICLE)?.map(|vehicle| vehicle.fields.orientation))
    }

    /// The number of objects that the station perceives; `None` if the message has no container for them.
    ///
    /// # Errors
    /// A container that cannot be decoded.
    pub fn perceived_objects(&self) -> Result<Option<u8>, Malformed> {
        Ok(self.container::<PerceivedObjects>(container::PERCEIVED_OBJECTS)?.map(|objects| objects.count))
    }

    fn container<T: Decode>(&self, id: u8) -> Result<Option<T>, Malformed> {
        let container = self.payload.containers.iter().find(|container| container.id == id);
        container.map(|container| decode_beginning("CPM container", &container.data)).transpose()
    }
}
