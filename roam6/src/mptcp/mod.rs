//! `roam6 mptcp`: what concerns the kernel's MPTCP without any daemon, at either end of a connection.

pub(crate) mod run;
pub(crate) mod status;
