//! Worlds of a fleet: three home agents with one address, a store that is slow, loses answers, is cut off and compacted, mobile
//! routers whose updates are spread over the members, and an attacker who replays them to the others.

mod connection;
pub mod invariants;
pub mod member;
pub mod mobile;
pub mod scenario;
pub mod store;
pub mod world;
