//! This in, exactly this out: a home agent on a bench.

mod home_and_away;
mod bench;

mod discovery;
mod forged;
mod home_link;
mod ipsec;
mod loops;
mod path_mtu;
mod registration;
mod restart;
mod key_rollover;
mod sysctls;
mod mcoa;
mod statuses;
mod unreachable_routes;
