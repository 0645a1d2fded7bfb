//! The BPF programs of `bpf/` from this side: compiled in, loaded, their maps filled, everything pinned so that it
//! outlives the daemon.

pub(crate) mod abi;
pub(crate) mod attach;
pub(crate) mod maps;
pub(crate) mod pin;
pub(crate) mod prefix_table;
pub(crate) mod xdp_ingress;
