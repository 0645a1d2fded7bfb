//! A node of a mobile network whose connections take several paths: prefixes come and go under it, and its path manager
//! keeps the kernel's endpoints true (RFC 8684, RFC 4862, RFC 9096).
//!
//! ```text
//!   peers -- core -- lender -- inside -- node      the lender advertises the mobile network and what it visits
//! ```

pub mod autoconf;
pub mod lender;
pub mod map;
pub mod message;
pub mod node;
pub mod peer;
pub mod play;
pub mod scenario;
pub mod sockets;
