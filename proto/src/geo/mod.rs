//! GeoNetworking, which sends to places as well as to stations: ETSI EN 302 636-4-1 V1.4.1. A frame is heard, the table
//! of stations learns from it, and it goes up, on, or no farther.

pub mod config;
pub mod contention;
pub mod ego;
pub mod geometry;
pub mod lookup;
pub mod rate;
pub mod request;
pub mod router;
pub mod seen;
pub mod stations;
pub mod store;

pub use config::{GeoConfig, InArea, Mib, NonArea, Reach, VirtualLink};
pub use request::{Delivery, Refused, Repetition, Request, To};
pub use router::Router;
