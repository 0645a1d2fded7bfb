//! IPv4 in the simulator (RFC 5555): networks with DHCP and NAT, and the packet format. IPv4 addresses are represented
//! as IPv4-mapped ones, so that routing and neighbour lookup are the same for both.

mod lease;
mod map;
pub mod nat;
pub mod packet;
mod passage;

pub use lease::Site;
pub use map::{Provision, agent_address};
