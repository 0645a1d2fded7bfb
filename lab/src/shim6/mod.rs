//! What the experiments of the shim share (RFC 5533).

pub(crate) mod bench;
pub(crate) mod crowd;
pub(crate) mod neighbours;
pub(crate) mod wired;
