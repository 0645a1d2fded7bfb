//! The contract between an engine and its host: what an engine is told and what it wants, as plain values.
//!
//! Imports [`crate::base`] and the values of [`crate::crypto`], and never a role.

pub mod command;
pub mod config;
pub mod engine;
pub mod input;
pub mod item;
pub mod output;
pub mod report;
pub mod view;
