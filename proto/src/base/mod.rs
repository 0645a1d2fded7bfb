//! What every engine is made with, and nothing of any protocol: time, timers, randomness, small collections, names.
//!
//! The lowest floor: imports nothing of this crate.

pub mod few;
pub mod hex;
pub mod ids;
pub mod rng;
pub mod time;
pub mod timers;
pub mod token_bucket;
