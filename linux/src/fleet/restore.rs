//! The content of an empty store, from the copy of a member: where no node and no backup of the store is left.

use super::node::{Node, refused};
use super::{StoreOptions, Stored, copy, format};
use crate::error::Error;
use etcd_client::{Compare, CompareOp, Txn, TxnOp};

/// Keys of one transaction: etcd takes 128 operations.
const BATCH: usize = 100;

/// Writes the copy of this member into a store that has no key of the fleet; returns the number of keys written. `progress`
/// receives the number of keys written so far, and of all.
///
/// # Errors
/// There is no copy, a daemon has it open, it is incomplete, the store has the fleet already, or does not answer. A command
/// that was interrupted can be given again, as long as no member has started.
pub fn restore(options: &StoreOptions, progress: impl Fn(usize, usize)) -> Result<usize, Error> {
    let path = options.copy.as_deref().ok_or_else(|| Error::new("copy of the store", "none is configured"))?;
    let content = copy::load(path)?;
    if content.mark.is_none() {
        return Err(Error::new(path.display(), "it is incomplete: use the copy of another member"));
    }
    Target(Node::open(options, |_| Ok(()))?).write(&content.keys, &options.identity, progress)
}

/// The store that is written.
struct Target(Node);

impl Target {
    fn write(&self, keys: &[Stored], identity: &str, progress: impl Fn(usize, usize)) -> Result<usize, Error> {
        let mut written = 0;
        for batch in keys.chunks(BATCH) {
            let operations = batch.iter().filter_map(|stored| self.put(stored)).collect();
            self.0.run(self.transact(operations))?;
            written += batch.len();
            progress(written, keys.len());
        }
        // The last one: before it no member joins with a part of the bindings.
        let format = TxnOp::put(self.key(format::KEY), format::new_value(identity), None);
        self.0.run(self.transact(vec![format]))?;
        Ok(written)
    }

    fn put(&self, stored: &Stored) -> Option<TxnOp> {
        Some(TxnOp::put(self.key(&stored.key), stored.value.clone()?, None))
    }

    fn key(&self, key: &str) -> String {
        format!("{}{key}", self.0.prefix)
    }

    /// Executes a transaction, unless the store has the fleet.
    async fn transact(&self, operations: Vec<TxnOp>) -> Result<(), Error> {
        let absent = Compare::create_revision(self.key(format::KEY), CompareOp::Equal, 0);
        let transaction = Txn::new().when([absent]).and_then(operations);
        let done = self.0.client().txn(transaction).await.map_err(|error| refused(&error))?;
        if done.succeeded() {
            return Ok(());
        }
        let why = format!("it has {} already: stop all members, and begin with an empty store", self.0.prefix);
        Err(Error::new("store", why))
    }
}
