//! Networks and emulated peers of the Shim6 experiments (RFC 5533).

pub(crate) mod bench;
pub(crate) mod crowd;
pub(crate) mod neighbours;
pub(crate) mod wired;
