//! Worlds of vehicles: moving GeoNetworking stations on one radio medium (EN 302 636-4-1).

pub mod attacker;
pub mod check;
pub mod hosts;
pub mod ideal;
pub mod play;
pub mod scenario;
pub mod world;
