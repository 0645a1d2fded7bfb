//! Everything of roam6 that touches the Linux kernel.

pub mod tunnel;
