//! The settings of every role: plain values, checked by whoever builds them.

pub mod facilities;
pub mod flow;
pub mod geo;
pub mod mnpp;
pub mod multipath;
pub mod nemo;
pub mod shim;
