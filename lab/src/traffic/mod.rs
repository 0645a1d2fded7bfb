//! Traffic whose every packet or byte is accounted for.

pub mod train;
pub mod transfer;

pub use train::{End, Flow, Stamp, Tally, Train};
pub use transfer::{Delivery, Transfer};
