//! The settings of every role: plain values, validated by the caller.

pub mod facilities;
pub mod flow;
pub mod geo;
pub mod mnpp;
pub mod multipath;
pub mod nemo;
pub mod shim;
