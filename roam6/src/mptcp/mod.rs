//! `roam6 mptcp`: commands for the kernel's MPTCP that need no daemon.

pub(crate) mod status;
