//! A world in a bottle: hosts, links and faults in virtual time.

pub mod link;

pub use link::{LinkModel, LinkSpec};
