//! The first hop: finding routers and addresses on a visited link, and being the router of one's own (RFC 4861, RFC 4862).

pub mod advertiser;
pub mod duplicate;
pub mod limiter;
pub mod movement;
pub mod neighbour;
