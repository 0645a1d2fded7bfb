//! This in, exactly this out: a home agent on a bench.

pub(super) mod bench;
mod home_and_away;

mod discovery;
mod encryption;
mod esp;
mod forged;
mod home_link;
pub(super) mod ipsec;
mod key_rollover;
mod loops;
mod mcoa;
mod path_mtu;
mod registration;
mod restart;
mod shared_prefix;
mod statuses;
mod sysctls;
mod unreachable_routes;
mod update_rate;
