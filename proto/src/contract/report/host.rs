//! Reports of every role: dropped packets, full tables, refused items.

use super::DropReason;
use super::text::CareOfText;
use crate::contract::item::Key;
use derive_more::Display;
use serde::{Deserialize, Serialize};
use std::net::Ipv6Addr;
use strum::IntoStaticStr;

/// A report.
#[derive(Debug, Clone, PartialEq, Eq, Display, IntoStaticStr, Serialize, Deserialize)]
#[strum(serialize_all = "snake_case")]
#[serde(tag = "event", rename_all = "snake_case")]
#[allow(missing_docs, reason = "the fields are terms of the standards, and their types say what they contain")]
pub enum HostReport {
    /// Items that were missing in the kernel were installed again.
    #[serde(rename = "restored")]
    #[strum(serialize = "restored")]
    #[display("restored {items} items that the kernel or another program had removed")]
    ItemsRestored { items: usize },
    /// A packet was dropped.
    #[display(
        "packet{} dropped: {}: {detail}",
        from.map_or_else(String::new, |from| format!(" from {}", CareOfText(&from))),
        reason.name()
    )]
    Dropped { reason: DropReason, from: Option<Ipv6Addr>, detail: String },
    /// A table is full: an entry was not added.
    #[display("table {table} is full at {limit}")]
    TableFull { table: String, limit: usize },
    /// The host refused an item; `why` is the error text of the kernel.
    #[serde(rename = "failed")]
    #[strum(serialize = "failed")]
    #[display("{key} refused by the host: {why}")]
    ItemRefused { key: Key, why: String },
    /// A message for the operator.
    #[display("{text}")]
    Notice { text: String },
}
