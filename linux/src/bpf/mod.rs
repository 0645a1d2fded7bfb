//! What all BPF programs need: loading, and typed hash maps. The programs of tunnels are in `tunnel/bpf/`, those of Shim6 in
//! `shim/`.

pub(crate) mod coarse_clock;
pub(crate) mod entries;
pub(crate) mod layout;
pub(crate) mod load;
