//! IPv4 in the simulator (RFC 5555): networks with DHCP and NAT, and the packet format. IPv4 addresses are represented
//! as IPv4-mapped ones, so that routing and neighbour lookup are the same for both.

mod address_lease;
mod forwarding;
pub mod nat;
pub mod packet;

pub use address_lease::Ipv4Site;
pub(crate) use address_lease::all_ipv4;
