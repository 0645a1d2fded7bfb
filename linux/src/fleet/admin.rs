//! What a command of the operator does with the store, beside the daemons: it adds rows to the prefix table of the fleet.

use super::node::{Node, refused};
use super::value::{row_key, row_of};
use super::watcher::{MAX_MESSAGE, PAGE, past};
use super::writer::{signed, unsigned};
use super::{StoreOptions, Stored, format};
use crate::error::Error;
use etcd_client::{Compare, CompareOp, GetOptions, Txn, TxnOp};
use roam6_proto::contract::config::nemo::PrefixTableRow;

/// A connection to the store of a fleet that exists.
pub struct Admin(Node);

/// The rows of a prefix table, as the store had them at a revision.
pub struct SharedTable {
    /// The rows.
    pub rows: Vec<PrefixTableRow>,
    revision: u64,
}

impl Admin {
    /// Connects to the first node that answers.
    ///
    /// # Errors
    /// None does, or the keys are those of another fleet or format, or there are none: no member has started yet.
    pub fn connect(options: &StoreOptions) -> Result<Admin, Error> {
        let judge = |found: Option<&[u8]>| match found {
            Some(found) => {
                format::compare(found, &options.identity).map(drop).map_err(|fault| Error::new("store", fault))
            }
            None => {
                let why = format_args!("it has no fleet {}: start a member first", options.fleet);
                Err(Error::new("store", why))
            }
        };
        Node::open(options, judge).map(Admin)
    }

    /// The rows that the store has.
    ///
    /// # Errors
    /// The store's, or a row is malformed.
    pub fn rows(&mut self) -> Result<SharedTable, Error> {
        let (client, prefix) = (self.0.client(), self.0.prefix.clone());
        self.0.run(async move {
            let mut kv = client.kv_client().max_decoding_message_size(MAX_MESSAGE);
            let (mut rows, mut revision) = (Vec::new(), None);
            let rows_prefix = format!("{prefix}{}", row_key(""));
            let (mut start, end) = (rows_prefix.clone().into_bytes(), past(&rows_prefix));
            loop {
                let at = revision.map_or(0, signed);
                let options = GetOptions::new().with_range(end.clone()).with_limit(PAGE).with_revision(at);
                let page = kv.get(start, Some(options)).await.map_err(|error| refused(&error))?;
                let head = page.header().map_or(0, |header| unsigned(header.revision()));
                let revision = *revision.get_or_insert(head);
                for found in page.kvs() {
                    let key = String::from_utf8_lossy(found.key()).into_owned();
                    let key = key.strip_prefix(&prefix).unwrap_or(&key).to_owned();
                    let stored = Stored { key, value: Some(found.value().to_vec()), revision: 0 };
                    rows.push(
                        row_of(&stored).map_err(|(key, why)| Error::new(format_args!("{key} in the store"), why))?,
                    );
                }
                match page.kvs().last().filter(|_| page.more()) {
                    Some(last) => start = [last.key(), &[0]].concat(),
                    None => return Ok(SharedTable { rows, revision }),
                }
            }
        })
    }

    /// Adds a row, unless a row was added or changed since `table` was read: `false`, and nothing is written then.
    ///
    /// # Errors
    /// The store's. It may have the row all the same if it did not answer.
    pub fn add_row(&mut self, row: &PrefixTableRow, table: &SharedTable) -> Result<bool, Error> {
        let rows = format!("{}{}", self.0.prefix, row_key(""));
        let key = format!("{}{}", self.0.prefix, row_key(&row.home_address.0.to_string()));
        let value = serde_json::to_vec(row).map_err(|error| Error::new("row", error))?;
        // All rows, those that another command adds meanwhile too: two rows must not have one prefix.
        let unchanged = Compare::mod_revision(rows.clone(), CompareOp::Less, signed(table.revision.saturating_add(1)));
        let conditions =
            [unchanged.with_range(past(&rows)), Compare::create_revision(key.clone(), CompareOp::Equal, 0)];
        let txn = Txn::new().when(conditions).and_then([TxnOp::put(key, value, None)]);
        let mut client = self.0.client();
        self.0.run(async move { client.txn(txn).await.map(|done| done.succeeded()).map_err(|error| refused(&error)) })
    }
}
