//! Care-of prefixes: prefixes of visited networks inside mobile networks. Delegating routers, nodes that use the
//! prefixes, and invariants (RFC 8415 §6.3, RFC 4862 §5.5, RFC 8028).

pub mod dhcp6_server;
pub mod invariants;
pub mod mobile_network_node;
