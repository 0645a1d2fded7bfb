//! The facilities layer above GeoNetworking and BTP: cooperative awareness (CAM, EN 302 637-2), event notification
//! (DENM, EN 302 637-3), service announcement (SAM, EN 302 890-1), and the local dynamic map (LDM, EN 302 895). Messages of
//! vulnerable road users (VAM), of collective perception (CPM) and of infrastructure (MAPEM, SPATEM, IVIM) are received.
//!
//! Feature `facilities` leaves the messages' ASN.1 out of routers that have no room for it.

#[cfg(feature = "facilities")]
pub mod cam;
#[cfg(feature = "facilities")]
mod cam_permissions;
#[cfg(feature = "facilities")]
pub mod denm;
#[cfg(feature = "facilities")]
mod engine;
#[cfg(all(feature = "facilities", any(test, feature = "fuzzing")))]
pub mod fuzz;
#[cfg(feature = "facilities")]
pub mod ldm;
#[cfg(feature = "facilities")]
pub mod message_table;
#[cfg(feature = "facilities")]
pub mod sam;
#[cfg(feature = "facilities")]
pub mod service_table;
#[cfg(feature = "facilities")]
#[cfg(test)]
mod tests;
#[cfg(feature = "facilities")]
mod view;

#[cfg(not(feature = "facilities"))]
mod disabled;

#[cfg(not(feature = "facilities"))]
pub use disabled::Facilities;
#[cfg(feature = "facilities")]
pub use engine::Facilities;
