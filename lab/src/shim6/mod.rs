//! Networks and emulated peers of the Shim6 experiments (RFC 5533).

pub(crate) mod engine_bench;
pub(crate) mod handshake_pair;
pub(crate) mod shim_peers;
pub(crate) mod veth_pair;
