//! GeoNetworking: ETSI EN 302 636-4-1 V1.4.1. A received frame updates the location table, and its packet is delivered,
//! forwarded or discarded. IPv6 over it: EN 302 636-6-1.

pub mod adaptation;
pub mod contention;
pub mod echo;
pub mod ego;
pub mod geometry;
pub mod link_choice;
pub mod listeners;
pub mod lookup;
mod planar;
pub mod rate;
pub mod request;
pub mod router;
pub mod scenario;
pub mod seen;
pub mod station;
pub mod stations;
pub mod store;
mod view;

pub use request::{Delivery, Refused, Repetition, Request};
pub use router::Router;
pub use station::GeoStation;
