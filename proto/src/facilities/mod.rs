//! The facilities layer above GeoNetworking and BTP: cooperative awareness (CAM, EN 302 637-2), event notification
//! (DENM, EN 302 637-3), service announcement (SAM, EN 302 890-1), and the local dynamic map (LDM, EN 302 895).
//!
//! Feature `facilities` leaves the messages' ASN.1 out of routers that have no room for it.

#[cfg(feature = "facilities")]
pub mod cam;
#[cfg(feature = "facilities")]
pub mod denm;
#[cfg(feature = "facilities")]
mod engine;
#[cfg(feature = "facilities")]
pub mod ldm;
#[cfg(feature = "facilities")]
pub mod sam;
#[cfg(feature = "facilities")]
#[cfg(any(test, feature = "fuzzing"))]
pub mod scenario;
#[cfg(feature = "facilities")]
pub mod service_table;
#[cfg(feature = "facilities")]
#[cfg(test)]
mod tests;
#[cfg(feature = "facilities")]
mod view;

#[cfg(not(feature = "facilities"))]
mod absent;

#[cfg(not(feature = "facilities"))]
pub use absent::Facilities;
#[cfg(feature = "facilities")]
pub use engine::Facilities;

use roam6_wire::geo::LongPositionVector;

/// What the facilities must know of their own station.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EgoState {
    /// Where it is, or was last.
    pub position: LongPositionVector,
    /// Metres within which that is, if it is known now.
    pub position_accuracy: Option<u32>,
    /// Whether it is known now.
    pub has_fix: bool,
    /// Milliseconds of TAI since 2004.
    pub its_time: u64,
}
