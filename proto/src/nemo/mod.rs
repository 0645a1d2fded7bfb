//! Networks that move: NEMO Basic Support (RFC 3963) on Mobile IPv6 (RFC 6275) with several care-of addresses (RFC 5648),
//! also where there is IPv4 only (RFC 5555).

pub mod config;
mod fault;
pub mod flow;
pub mod home_agent;
pub mod ipv4;
pub mod mobile_router;

/// Option code of a link-layer address that is the mobile node's own (RFC 5648 §5.6.3).
const LINK_ADDRESS_OF_MOBILE: u8 = 2;
