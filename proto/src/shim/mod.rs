//! Hosts with several providers: conversations that survive the loss of any path (RFC 5533, RFC 5534).

pub mod config;

pub use config::{Identity, PeerRules, ShimConfig};
