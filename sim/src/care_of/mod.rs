//! Prefixes of visited networks inside mobile networks: who delegates them, who uses them, and who watches that none of
//! them leads nowhere (RFC 8415 §6.3, RFC 4862 §5.5, RFC 8028).

pub mod dhcp;
pub mod passenger;
pub mod server;
pub mod watch;
