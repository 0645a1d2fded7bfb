//! The daemon's side of the BPF programs in `bpf/`: loading, maps, attachment; everything is pinned, so that it
//! outlives the daemon.

pub(crate) mod abi;
pub(crate) mod attach;
pub(crate) mod maps;
pub(crate) mod pin;
pub(crate) mod prefix_table;
pub(crate) mod xdp_ingress;
