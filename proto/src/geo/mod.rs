//! GeoNetworking: ETSI EN 302 636-4-1 V1.4.1. A received frame updates the location table, and its packet is delivered,
//! forwarded or discarded. IPv6 over it: EN 302 636-6-1.

pub mod buffer;
#[cfg(feature = "dcc")]
pub mod congestion_control;
pub mod contention;
#[cfg(feature = "dcc")]
pub mod dcc;
pub mod dpd;
pub mod echo;
pub mod ego;
#[cfg(feature = "geo-security")]
pub mod former_pseudonyms;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzz;
#[cfg(all(feature = "geo-security", any(test, feature = "fuzzing")))]
mod fuzz_security;
pub mod geometry;
pub mod ipv6_adaptation;
pub mod link_selection;
pub mod location_service;
pub mod location_table;
pub mod mnpp;
pub mod multicast_listeners;
pub mod packet_data_rate;
mod planar;
#[cfg(feature = "geo-security")]
pub mod provisioning;
#[cfg(feature = "geo-security")]
pub mod pseudonym;
pub mod request;
pub mod router;
#[cfg(feature = "geo-security")]
pub mod security;
pub mod station;
mod view;

pub use request::{Delivery, PacketRequest, Repetition, RequestError};
pub use router::GeoRouter;
pub use station::GeoStation;
