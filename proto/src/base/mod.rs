//! Building blocks of every engine, independent of any protocol: time, timers, random numbers, small collections,
//! identifiers.
//!
//! The lowest layer: imports nothing of this crate.

pub mod few;
pub mod hex;
pub mod ids;
pub mod rng;
pub mod time;
pub mod timers;
pub mod token_bucket;
