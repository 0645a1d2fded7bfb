//! The networks of the experiments and demos.

pub(crate) mod bonding;
pub(crate) mod chain;
pub(crate) mod fleet;
pub(crate) mod further_home;
pub(crate) mod handshake_pair;
pub(crate) mod home_agents;
pub(crate) mod nemo;
pub(crate) mod providers;
pub(crate) mod road;
pub(crate) mod roadside;
pub(crate) mod two_uplinks;
pub(crate) mod uplinks;
pub(crate) mod veth_pair;
