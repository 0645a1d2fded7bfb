//! The state of a node for people and for machines: tables, event lines, metrics. All from the same values.

pub(crate) mod cause;
pub(crate) mod event;
#[cfg(feature = "fleet")]
pub(crate) mod fleet;
#[cfg(feature = "relay")]
pub(crate) mod flows;
#[cfg(feature = "bpf")]
pub(crate) mod keys;
pub(crate) mod ldm;
pub(crate) mod metrics;
pub(crate) mod services;
pub(crate) mod status;
pub(crate) mod subflows;
pub(crate) mod summary;
pub(crate) mod table;
pub(crate) mod tables;

#[cfg(test)]
pub(crate) mod sample;
