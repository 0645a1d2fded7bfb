//! The first hop: finding routers, addresses and prefixes on a visited link, and being the router of one's own
//! (RFC 4861, RFC 4862, RFC 8415).

pub mod advertiser;
pub mod delegation;
pub mod duplicate;
pub mod movement;
pub mod nd_proxy;
pub mod neighbour;
