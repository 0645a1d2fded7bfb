//! Worlds of hosts with several providers: paths fail in one direction or both, hosts crash and move, others attack.

pub mod attacker;
pub mod map;
pub mod play;
pub mod scenario;
