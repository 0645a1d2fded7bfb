//! GeoNetworking: ETSI EN 302 636-4-1 V1.4.1 §6 (addresses), §9 (packets), and EN 302 636-5-1 §7 (BTP).

mod address;
mod area;
pub mod btp;
pub mod echo;
mod extended;
mod lifetime;
mod packet;
mod position;

pub use address::{GeoAddress, ItsStationType};
pub use area::{Area, Shape};
pub use extended::{ExtendedHeader, SequencedSource};
pub use lifetime::Lifetime;
#[cfg(feature = "geo-security")]
pub use packet::SecuredPacket;
pub use packet::{
    Packet, TrafficClass, UpperProtocol, detour, is_secured, set_destination, set_detour, set_remaining_hop_limit,
    traffic_class_of,
};
pub use position::{Coordinates, LongPositionVector, ShortPositionVector, Timestamp};

/// EtherType of GeoNetworking packets.
pub const ETHERTYPE: u16 = 0x8947;
/// Protocol version since V1.3.1; V1.2.1 has 0.
pub const VERSION: u8 = 1;
