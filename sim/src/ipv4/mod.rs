//! The part of the world that has IPv4 (RFC 5555): networks that give addresses and translate them, and what an IPv4 packet
//! looks like. Addresses of IPv4 are written as IPv4-mapped ones, so that routes and neighbours are looked up as any.

mod lease;
mod map;
pub mod nat;
pub mod packet;
mod passage;

pub use lease::Site;
pub use map::{Provision, agent_address};
