//! Building blocks of every engine, independent of any protocol: time, timers, random numbers, small collections,
//! identifiers.
//!
//! The lowest layer: imports nothing of this crate.

pub mod fields;
pub mod hex;
pub mod ids;
pub mod rng;
pub mod small_timers;
pub mod time;
pub mod timers;
pub mod token_bucket;
pub mod vec_map;
pub mod vec_set;
