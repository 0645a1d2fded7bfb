//! This in, exactly this out: a home agent on a bench.

mod at_home;
mod bench;

mod discovery;
mod forged;
mod home_link;
mod ipsec;
mod loops;
mod path;
mod registration;
mod restart;
mod rollover;
mod router;
mod several;
mod statuses;
mod unreachable;
