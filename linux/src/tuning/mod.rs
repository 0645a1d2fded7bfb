//! Requests to the kernel that save time or memory.

pub(crate) mod cpu_latency;
pub mod resident_text;
