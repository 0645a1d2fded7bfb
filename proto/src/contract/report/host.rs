//! Reports of every role: dropped packets, full tables, refused items.

use super::DropReason;
use super::text::CareOfText;
use crate::contract::item::Key;
use core::fmt;
use serde::{Deserialize, Serialize};
use std::net::Ipv6Addr;

/// A report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[allow(missing_docs, reason = "the fields are terms of the standards, and their types say what they contain")]
pub enum HostReport {
    /// Items that were missing in the kernel were installed again.
    #[serde(rename = "restored")]
    ItemsRestored { items: usize },
    /// A packet was dropped.
    Dropped { reason: DropReason, from: Option<Ipv6Addr>, detail: String },
    /// A table is full: an entry was not added.
    TableFull { table: String, limit: usize },
    /// The host refused an item; `why` is the error text of the kernel.
    #[serde(rename = "failed")]
    ItemRefused { key: Key, why: String },
    /// A message for the operator.
    Notice { text: String },
}

impl HostReport {
    /// The name of its counter, and the `event` of its line in the stream.
    pub fn name(&self) -> &'static str {
        match self {
            HostReport::ItemsRestored { .. } => "restored",
            HostReport::Dropped { .. } => "dropped",
            HostReport::TableFull { .. } => "table_full",
            HostReport::ItemRefused { .. } => "failed",
            HostReport::Notice { .. } => "notice",
        }
    }
}

impl fmt::Display for HostReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostReport::ItemsRestored { items } => {
                write!(f, "restored {items} items that the kernel or another program had removed")
            }
            HostReport::Dropped { reason, from: Some(from), detail } => {
                write!(f, "packet from {} dropped: {}: {detail}", CareOfText(from), reason.name())
            }
            HostReport::Dropped { reason, from: None, detail } => {
                write!(f, "packet dropped: {}: {detail}", reason.name())
            }
            HostReport::TableFull { table, limit } => write!(f, "table {table} is full at {limit}"),
            HostReport::ItemRefused { key, why } => write!(f, "{key} refused by the host: {why}"),
            HostReport::Notice { text } => f.write_str(text),
        }
    }
}
