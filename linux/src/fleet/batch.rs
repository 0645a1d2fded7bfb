//! Which writes go into one transaction of the store (etcd's KV service, `Txn`).

use super::Write;
use std::collections::{BTreeSet, VecDeque};

/// Most operations of a transaction; etcd's `--max-txn-ops` is 128 by default.
const MAX_OPERATIONS: usize = 64;

/// A pending write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pending {
    pub(super) write: Write,
    /// Claims that were found to have their value already.
    pub(super) held: BTreeSet<String>,
}

/// The writes that are not under way yet.
#[derive(Default)]
pub(super) struct Backlog {
    waiting: VecDeque<Write>,
    /// Writes that a transaction has left as they were; they go first.
    retries: VecDeque<Pending>,
    /// Keys of transactions under way.
    busy: BTreeSet<String>,
}

/// A transaction in the making.
struct Batch {
    writes: Vec<Pending>,
    operations: usize,
    /// Keys of this transaction, of others under way, and of writes that must wait.
    taken: BTreeSet<String>,
}

impl Write {
    /// The keys that it changes; each may be changed once in a transaction.
    fn keys(&self) -> impl Iterator<Item = &String> {
        [&self.key].into_iter().chain(self.claims.iter().map(|(key, _)| key)).chain(&self.releases)
    }

    fn operations(&self) -> usize {
        1 + self.claims.len() + self.releases.len()
    }
}

impl Backlog {
    /// Adds a write.
    pub(super) fn push(&mut self, write: Write) {
        self.waiting.push_back(write);
    }

    /// The next transaction: writes in their order, except those on keys of a transaction under way, and those that follow
    /// them on the same keys. Empty if there is none.
    pub(super) fn next(&mut self) -> Vec<Pending> {
        let mut batch = Batch { writes: Vec::new(), operations: 0, taken: self.busy.clone() };
        let mut left = VecDeque::new();
        for pending in self.retries.drain(..) {
            left.extend(batch.admit(pending));
        }
        self.retries = left;
        let mut left = VecDeque::new();
        while batch.operations < MAX_OPERATIONS
            && let Some(write) = self.waiting.pop_front()
        {
            let refused = batch.admit(Pending { write, held: BTreeSet::new() });
            left.extend(refused.map(|pending| pending.write));
        }
        left.append(&mut self.waiting);
        self.waiting = left;
        self.busy.extend(batch.writes.iter().flat_map(|pending| pending.write.keys().cloned()));
        batch.writes
    }

    /// A write of a transaction was answered.
    pub(super) fn answered(&mut self, pending: &Pending) {
        for key in pending.write.keys() {
            self.busy.remove(key);
        }
    }

    /// A write of a transaction is to be tried again.
    pub(super) fn retry(&mut self, pending: Pending) {
        self.answered(&pending);
        self.retries.push_back(pending);
    }

    /// Takes all that waits.
    pub(super) fn drain(&mut self) -> Vec<Write> {
        self.retries.drain(..).map(|pending| pending.write).chain(self.waiting.drain(..)).collect()
    }
}

impl Batch {
    /// Adds a write, or returns it. Either way what follows on its keys must wait.
    fn admit(&mut self, pending: Pending) -> Option<Pending> {
        let operations = self.operations + pending.write.operations();
        let free = !pending.write.keys().any(|key| self.taken.contains(key));
        self.taken.extend(pending.write.keys().cloned());
        if !free || operations > MAX_OPERATIONS {
            return Some(pending);
        }
        self.operations = operations;
        self.writes.push(pending);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roam6_proto::base::ids::PutId;

    fn write(number: u64, key: &str) -> Write {
        let value = Some(number.to_string().into_bytes());
        Write {
            id: PutId { role: 0, number },
            key: key.to_owned(),
            value,
            expected: 0,
            claims: Vec::new(),
            releases: Vec::new(),
        }
    }

    fn tickets(batch: &[Pending]) -> Vec<u64> {
        batch.iter().map(|pending| pending.write.id.number).collect()
    }

    #[test]
    fn key_is_in_one_transaction_at_a_time_and_order_is_kept() {
        let mut backlog = Backlog::default();
        [(1, "a"), (2, "a"), (3, "b"), (4, "a")].into_iter().for_each(|(ticket, key)| backlog.push(write(ticket, key)));
        let first = backlog.next();
        assert_eq!(tickets(&first), [1, 3]);
        assert!(backlog.next().is_empty(), "a is under way");
        // The transaction failed because of b.
        backlog.retry(first[0].clone());
        backlog.answered(&first[1]);
        let again = backlog.next();
        assert_eq!(tickets(&again), [1], "2 must not overtake 1");
        backlog.answered(&again[0]);
        let second = backlog.next();
        assert_eq!(tickets(&second), [2]);
        assert_eq!(backlog.drain().len(), 1);
    }

    #[test]
    fn transaction_has_a_limit_and_no_key_twice() {
        let mut backlog = Backlog::default();
        let claim = |number: u64| Write {
            claims: vec![("pool/1".to_owned(), Vec::new())],
            ..write(number, &number.to_string())
        };
        backlog.push(claim(1000));
        backlog.push(claim(1001));
        (0..100).for_each(|ticket| backlog.push(write(ticket, &ticket.to_string())));
        let first = backlog.next();
        assert_eq!(first.iter().map(|pending| pending.write.operations()).sum::<usize>(), 64);
        assert_eq!(tickets(&first)[..2], [1000, 0], "both would change the same key");
        let second = backlog.next();
        assert_eq!(tickets(&second), (62..100).collect::<Vec<_>>());
        first.iter().chain(&second).for_each(|pending| backlog.answered(pending));
        assert_eq!(tickets(&backlog.next()), [1001]);
    }
}
