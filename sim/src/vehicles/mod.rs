//! Worlds of vehicles: moving GeoNetworking stations on one radio medium (EN 302 636-4-1).

pub mod attacker;
pub mod invariants;
pub mod ipv6_hosts;
pub mod reachability;
pub mod roadside;
pub mod run;
pub mod scenario;
pub mod world;
