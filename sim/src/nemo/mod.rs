//! Worlds of home agents and mobile routers that move, crash and are attacked.

pub mod attacker;
pub mod binding_messages;
pub mod care_of_prefix;
pub mod config;
pub mod failover;
#[cfg(feature = "fleet")]
pub mod fleet;
pub mod invariants;
pub mod ipv4;
pub mod run;
pub mod scenario;
pub mod topology;
