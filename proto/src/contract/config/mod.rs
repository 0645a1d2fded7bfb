//! The settings of every role: plain values, validated by the caller.

pub mod encryption;
pub mod facilities;
#[cfg(feature = "fleet")]
pub mod fleet;
pub mod flow;
pub mod geo;
mod key;
pub mod mnpp;
pub mod mptcp;
pub mod nemo;
pub mod packet_parameters;
pub mod shim;
