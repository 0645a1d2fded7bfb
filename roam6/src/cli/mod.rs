//! The command line: definition, and the commands that need no role of the daemon.

pub(crate) mod args;
pub(crate) mod bindings;
pub(crate) mod denm;
#[cfg(feature = "doctor")]
pub(crate) mod doctor;
pub(crate) mod enroll;
#[cfg(feature = "fleet")]
pub(crate) mod fleet;
pub(crate) mod geo;
pub(crate) mod identity;
#[cfg(feature = "setup")]
pub(crate) mod invite;
pub(crate) mod join;
#[cfg(any(test, feature = "manual"))]
pub(crate) mod manual;
pub(crate) mod mptcp;
pub(crate) mod output;
pub(crate) mod prompt;
#[cfg(test)]
#[path = "reference_tests.rs"]
mod reference;
#[cfg(feature = "relay")]
pub(crate) mod relay;
#[cfg(feature = "setup")]
pub(crate) mod setup;
pub(crate) mod show;
pub(crate) mod socket;
pub(crate) mod status;
pub(crate) mod table_file;
#[cfg(feature = "web")]
pub(crate) mod web;
