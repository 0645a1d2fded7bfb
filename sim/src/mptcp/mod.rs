//! Worlds of an MPTCP host in a mobile network: prefixes appear and disappear, and its path manager keeps the kernel's
//! endpoints in step (RFC 8684, RFC 4862, RFC 9096).
//!
//! ```text
//!   peers -- core -- lender -- inside -- node      the lender advertises the mobile network and what it visits
//! ```

pub mod correspondent;
pub mod host;
pub mod message;
pub mod mobile_router;
pub mod run;
pub mod scenario;
pub mod slaac;
pub mod sockets;
pub mod topology;
