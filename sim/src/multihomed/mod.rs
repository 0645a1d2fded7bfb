//! Worlds of Shim6 hosts with several providers: paths fail in one or both directions, hosts crash and renumber, an
//! attacker interferes.

pub mod attacker;
pub mod onboard;
pub mod run;
pub mod scenario;
pub mod topology;
