//! What the engines prove to one another, and how.

pub mod authenticator;
pub mod cga;
pub mod esp;
pub mod hba;
pub mod signature;
