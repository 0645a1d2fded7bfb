//! A busy server of a campus in virtual time: the number of Shim6 contexts by the idle timeout (RFC 5533 §11). The
//! engine is the real one; flows and peers are generated from a seed.

mod server;
mod trace;

pub use server::{ServerLoad, run};
pub use trace::{Trace, TraceFlow, TraceSpec};
