//! The contract between an engine and its host: inputs, outputs, commands, reports, views and settings as plain values.
//!
//! Imports [`crate::base`] and values of [`crate::crypto`], never a role.

pub mod command;
pub mod config;
pub mod desired_state;
pub mod engine;
#[cfg(feature = "fleet")]
pub mod fleet;
pub mod input;
pub mod item;
pub mod output;
pub mod report;
pub mod signature;
pub mod view;
