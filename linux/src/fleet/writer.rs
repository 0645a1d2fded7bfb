//! Writes, in transactions: those that wait when a transaction completes form the next one; at most two are pending.
//!
//! A request without an answer may have been executed: a proposal that a follower has forwarded to a leader that then fails is
//! lost without notice, or executed late. So after [`READ_AFTER`] the keys are read as well, until their values show the outcome,
//! or [`UNKNOWN_AFTER`] has passed. That works because a transaction takes effect as a whole or not at all.

use super::batch::{Backlog, Pending};
use super::connection::Clients;
use super::fault::{Failure, Fault, failure};
use super::queue::Sink;
use super::{StoreEvent, Stored, Write, Written};
use core::pin::pin;
use core::time::Duration;
use etcd_client::{Client, Compare, CompareOp, Error as EtcdError, Txn, TxnOp, TxnResponse};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Maximum of pending transactions.
const MAX_TRANSACTIONS: usize = 2;
/// After this time without an answer the keys are read.
const READ_AFTER: Duration = Duration::from_millis(300);
/// After this time a write is answered with [`Written::Unknown`]: an election of a leader takes 1 to 2 s, and only then do the
/// next transactions begin.
const UNKNOWN_AFTER: Duration = Duration::from_millis(2000);
/// Pause between two readings.
const READ_PAUSE: Duration = Duration::from_millis(50);

/// What a transaction means for one of its writes.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Verdict {
    Answer(Written),
    /// The transaction did not take effect, for no reason of this write's. These claims have their values already.
    Retry(BTreeSet<String>),
}

/// The waiting writes and the pending transactions.
pub(super) struct Writer {
    backlog: Backlog,
    transactions: JoinSet<Vec<(Pending, Verdict)>>,
    clients: Clients,
    sink: Arc<dyn Sink>,
    under_way: Arc<AtomicUsize>,
}

impl Writer {
    pub(super) fn new(clients: Clients, sink: Arc<dyn Sink>, under_way: Arc<AtomicUsize>) -> Writer {
        Writer { backlog: Backlog::default(), transactions: JoinSet::new(), clients, sink, under_way }
    }

    /// Adds a write.
    pub(super) fn push(&mut self, write: Write) {
        self.backlog.push(write);
    }

    /// Starts transactions of the waiting writes. Without a connection the waiting writes are refused.
    pub(super) fn dispatch(&mut self) {
        if self.clients.current().is_none() {
            let why = Written::Refused("no connection to the store".to_owned());
            let waiting = self.backlog.drain();
            waiting.iter().for_each(|write| answer(&*self.sink, &self.under_way, write, &why));
        }
        while self.transactions.len() < MAX_TRANSACTIONS {
            let batch = self.backlog.next();
            if batch.is_empty() {
                return;
            }
            self.transactions.spawn(transact(self.clients.clone(), batch));
        }
    }

    /// Waits until a transaction completes, and answers its writes. Never returns if none is pending.
    pub(super) async fn settle(&mut self) {
        let Some(done) = self.transactions.join_next().await else { return core::future::pending().await };
        for (pending, verdict) in done.unwrap_or_default() {
            match verdict {
                Verdict::Answer(written) => {
                    answer(&*self.sink, &self.under_way, &pending.write, &written);
                    self.backlog.answered(&pending);
                }
                Verdict::Retry(held) => self.backlog.retry(Pending { held, ..pending }),
            }
        }
    }

    /// Whether transactions are pending.
    pub(super) fn is_busy(&self) -> bool {
        !self.transactions.is_empty()
    }
}

fn answer(sink: &dyn Sink, under_way: &AtomicUsize, write: &Write, written: &Written) {
    under_way.fetch_sub(1, Ordering::Relaxed);
    sink.push(StoreEvent::Written { key: write.key.clone(), id: write.id, written: written.clone() });
}

/// One transaction, until its outcome is known or given up.
async fn transact(clients: Clients, batch: Vec<Pending>) -> Vec<(Pending, Verdict)> {
    let verdicts = outcome(&clients, &batch).await;
    let rest = core::iter::repeat(Verdict::Answer(Written::Unknown("the store did not answer".to_owned())));
    batch.into_iter().zip(verdicts.into_iter().chain(rest)).collect()
}

/// The conclusion from the answer to a transaction.
enum Conclusion {
    Known(Vec<Verdict>),
    /// A condition did not hold; the values of the keys show which one.
    Failed,
    /// It may have taken effect.
    Doubtful,
}

/// The verdicts; none if nothing is known after [`UNKNOWN_AFTER`].
async fn outcome(clients: &Clients, batch: &[Pending]) -> Vec<Verdict> {
    let Some(mut client) = clients.current() else {
        return all(batch, Written::Refused("no connection to the store".to_owned()));
    };
    let mut call = pin!(client.txn(transaction(clients, batch)));
    let doubtful = timeout(UNKNOWN_AFTER, read_until_known(clients, batch, false));
    let conclusion = match timeout(READ_AFTER, &mut call).await {
        Ok(answer) => conclude(clients, batch, answer),
        Err(_) => {
            let mut doubtful = pin!(doubtful);
            let conclusion = tokio::select! {
                answer = &mut call => conclude(clients, batch, answer),
                verdicts = &mut doubtful => Conclusion::Known(verdicts.unwrap_or_default()),
            };
            match conclusion {
                Conclusion::Doubtful => return doubtful.await.unwrap_or_default(),
                other => return finish(clients, batch, other).await,
            }
        }
    };
    match conclusion {
        Conclusion::Doubtful => doubtful.await.unwrap_or_default(),
        other => finish(clients, batch, other).await,
    }
}

async fn finish(clients: &Clients, batch: &[Pending], conclusion: Conclusion) -> Vec<Verdict> {
    match conclusion {
        Conclusion::Known(verdicts) => verdicts,
        _ => timeout(UNKNOWN_AFTER, read_until_known(clients, batch, true)).await.unwrap_or_default(),
    }
}

fn conclude(clients: &Clients, batch: &[Pending], answer: Result<TxnResponse, EtcdError>) -> Conclusion {
    match answer {
        Ok(response) if response.succeeded() => {
            let revision = response.header().map_or(0, |header| unsigned(header.revision()));
            Conclusion::Known(all(batch, Written::Kept(revision)))
        }
        Ok(_) => Conclusion::Failed,
        Err(error) => match failure(&error) {
            Failure::Refused(fault) => {
                let why = fault.to_string();
                if let Fault::Store(fault) = fault {
                    clients.report(fault);
                }
                Conclusion::Known(all(batch, Written::Refused(why)))
            }
            Failure::Doubtful(_) => Conclusion::Doubtful,
        },
    }
}

fn all(batch: &[Pending], written: Written) -> Vec<Verdict> {
    vec![Verdict::Answer(written); batch.len()]
}

/// The transaction of these writes: all of them, or nothing.
fn transaction(clients: &Clients, batch: &[Pending]) -> Txn {
    let (mut compares, mut operations) = (Vec::new(), Vec::new());
    for Pending { write, held } in batch {
        let key = clients.full_key(&write.key);
        compares.push(Compare::mod_revision(key.clone(), CompareOp::Equal, signed(write.expected)));
        operations.push(match &write.value {
            Some(value) => TxnOp::put(key, value.clone(), None),
            None => TxnOp::delete(key, None),
        });
        for (claim, value) in &write.claims {
            let key = clients.full_key(claim);
            compares.push(match held.contains(claim) {
                true => Compare::value(key.clone(), CompareOp::Equal, value.clone()),
                false => Compare::create_revision(key.clone(), CompareOp::Equal, 0),
            });
            operations.push(TxnOp::put(key, value.clone(), None));
        }
        operations.extend(write.releases.iter().map(|key| TxnOp::delete(clients.full_key(key), None)));
    }
    Txn::new().when(compares).and_then(operations)
}

/// What was read of the keys of one write: its own, and those that it claims.
struct Seen {
    key: Stored,
    claims: Vec<Stored>,
}

/// Reads the keys until their values show the outcome of a transaction; `failed`: it is known not to have taken effect.
async fn read_until_known(clients: &Clients, batch: &[Pending], failed: bool) -> Vec<Verdict> {
    loop {
        if let Some(seen) = read_all(clients, batch).await
            && let Some(verdicts) = judge(batch, &seen, failed)
        {
            return verdicts;
        }
        sleep(READ_PAUSE).await;
    }
}

/// Reads the keys of all writes, at the same time; `None` if the store does not answer.
async fn read_all(clients: &Clients, batch: &[Pending]) -> Option<Vec<Seen>> {
    let client = clients.current()?;
    let mut readings = JoinSet::new();
    let keys = batch.iter().map(|pending| &pending.write);
    let keys = keys.flat_map(|write| [&write.key].into_iter().chain(write.claims.iter().map(|(key, _)| key)));
    for (place, key) in keys.enumerate() {
        let (client, full, key) = (client.clone(), clients.full_key(key), key.clone());
        readings.spawn(async move { read(client, full, key).await.map(|stored| (place, stored)) });
    }
    let mut found = Vec::new();
    while let Some(reading) = readings.join_next().await {
        found.push(reading.ok()??);
    }
    found.sort_by_key(|(place, _)| *place);
    let mut found = found.into_iter().map(|(_, stored)| stored);
    let seen = |pending: &Pending| {
        let key = found.next()?;
        Some(Seen { key, claims: found.by_ref().take(pending.write.claims.len()).collect() })
    };
    batch.iter().map(seen).collect()
}

/// Reads a key as a quorum has it.
async fn read(mut client: Client, full: String, key: String) -> Option<Stored> {
    let response = timeout(READ_AFTER, client.get(full, None)).await.ok()?.ok()?;
    Some(match response.kvs().first() {
        Some(found) => Stored { key, value: Some(found.value().to_vec()), revision: unsigned(found.mod_revision()) },
        None => Stored { key, value: None, revision: unsigned(response.header()?.revision()) },
    })
}

/// The verdicts that the values of the keys allow on a transaction without an answer, or on a `failed` one; `None`: none yet.
fn judge(batch: &[Pending], seen: &[Seen], failed: bool) -> Option<Vec<Verdict>> {
    let both = || batch.iter().zip(seen);
    let is_ours = |(pending, seen): &(&Pending, &Seen)| {
        let gone = pending.write.value.is_none() && pending.write.expected != 0;
        seen.key.value == pending.write.value && (seen.key.value.is_some() || gone)
    };
    if !failed && let Some((_, ours)) = both().find(is_ours) {
        return Some(all(batch, Written::Kept(ours.key.revision)));
    }
    let verdicts: Vec<Verdict> = both().map(|(pending, seen)| verdict(pending, seen)).collect();
    let spoilt = verdicts.iter().any(|verdict| matches!(verdict, Verdict::Answer(_)));
    (failed || spoilt).then_some(verdicts)
}

/// The verdict on a write that has not taken effect.
fn verdict(pending: &Pending, seen: &Seen) -> Verdict {
    let present = seen.key.value.is_some();
    let revision = if present { seen.key.revision } else { 0 };
    if revision != pending.write.expected {
        return Verdict::Answer(Written::Conflict(seen.key.clone()));
    }
    let foreign =
        |((_, value), seen): &(&(String, Vec<u8>), &Stored)| seen.value.as_ref().is_some_and(|found| found != value);
    match pending.write.claims.iter().zip(&seen.claims).find(foreign) {
        Some((_, claimed)) => Verdict::Answer(Written::Claimed(claimed.clone())),
        None => {
            let held = seen.claims.iter().filter(|claim| claim.value.is_some());
            Verdict::Retry(held.map(|claim| claim.key.clone()).collect())
        }
    }
}

/// A revision of etcd's; none is negative.
pub(super) fn unsigned(revision: i64) -> u64 {
    u64::try_from(revision).unwrap_or(0)
}

/// A revision for etcd. One that it cannot have is at no key.
pub(super) fn signed(revision: u64) -> i64 {
    i64::try_from(revision).unwrap_or(i64::MAX)
}
