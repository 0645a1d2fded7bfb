//! Reports of every role: dropped packets, full tables, refused items.

use super::DropReason;
use super::text::CareOfText;
use crate::contract::item::Key;
use std::net::Ipv6Addr;

reports! {
    /// A report.
    HostReport {
        /// Items that were missing in the kernel were installed again.
        #[display("restored {items} items that the kernel or another program had removed")]
        ItemsRestored as "restored" { items: usize },
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
        #[display("{key} refused by the host: {why}")]
        ItemRefused as "failed" { key: Key, why: String },
        /// A message for the operator.
        #[display("{text}")]
        Notice { text: String },
    }
}
