//! Network mobility: NEMO Basic Support (RFC 3963) on Mobile IPv6 (RFC 6275) with multiple care-of addresses (RFC
//! 5648), and over IPv4-only networks (RFC 5555).

pub mod dsmip;
mod fault;
pub mod home_agent;
mod ipsec;
pub mod mobile_router;
mod quoted;

use core::time::Duration;

/// Option code of a link-layer address that is the mobile node's own (RFC 5648 §5.6.3).
const LLA_CODE_MOBILE_NODE: u8 = 2;

/// How long the routes of a lost path are kept for packets still in transit (RFC 6275 §11.5.5, smooth handover).
pub const OLD_PATH_LIFETIME: Duration = Duration::from_secs(5);
