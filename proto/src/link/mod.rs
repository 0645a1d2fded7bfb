//! The link layer of IPv6 for the roles: router discovery, addresses and prefixes on a visited link, and the router
//! side on ingress interfaces (RFC 4861, RFC 4862, RFC 8415).

pub mod advertiser;
pub mod dad;
pub mod nd_messages;
pub mod nd_proxy;
pub mod prefix_delegation;
pub mod router_discovery;
