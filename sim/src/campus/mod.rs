//! A busy server of a campus in virtual time: how many contexts of the shim it has at once, by how soon those nobody uses
//! are given up (RFC 5533 §11). The engine is the real one; flows and peers are made up, always the same for one seed.

mod server;
mod trace;

pub use server::{Busy, run};
pub use trace::{Flow, Shape, Trace};
