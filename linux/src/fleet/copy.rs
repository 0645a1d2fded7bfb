//! This member's copy of the store, in a database file of its own: bindings, rows of the prefix table and prefixes of the pool.
//! A member that starts reads the copy and then only what has changed since; without its store it serves by the copy, and
//! `roam6 fleet restore --store` writes it into an empty store.
//!
//! A thread of its own writes the file, so that a slow disk delays neither heartbeats nor commits. The copy has a mark as soon as
//! it is complete; while it has none, it counts for nothing.

use super::connection::{Clients, lock};
use super::{Mark, Stored};
use crate::error::{Context, Error};
use core::time::Duration;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};
use roam6_proto::contract::fleet::StoreFault;
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Revision and value of each key.
const KEYS: TableDefinition<&str, (u64, &[u8])> = TableDefinition::new("keys");
/// The mark: number of the store and revision.
const MARK: TableDefinition<(), (u64, u64)> = TableDefinition::new("mark");
/// Prefixes of the copied keys; heartbeats and path MTUs have leases.
const COPIED: [&str; 3] = ["b/", "r/", "pool/"];
/// Interval between two transactions.
const INTERVAL: Duration = Duration::from_secs(1);
/// Changes of one transaction of a snapshot.
const BATCH: usize = 16_384;
/// Maximum of changes that wait for the disk; beyond it the copy is abandoned.
const MAX_WAITING: usize = 65_536;
/// Only the daemon's user reads the file: rows have keys.
const MODE: u32 = 0o600;
/// Memory for pages, octets.
const CACHE: usize = 8 * 1024 * 1024;

/// The copy of a running member, if it has one, and its content until that is delivered to the event loop.
#[derive(Default)]
pub(super) struct OpenCopy {
    path: Option<PathBuf>,
    copy: Option<Copy>,
    content: Option<Content>,
}

impl OpenCopy {
    /// Opens the copy at `path`. A member serves without it; the reason is reported through `clients`.
    pub(super) fn open(path: Option<&Path>, clients: &Clients) -> OpenCopy {
        let Some(path) = path else { return OpenCopy::default() };
        let given_up = clients.clone();
        let fail = move |why| given_up.report(StoreFault::Copy { why: format!("{why}; it is not written any more") });
        match Copy::open(path, fail) {
            Ok((copy, content)) => OpenCopy { path: Some(path.to_owned()), copy: Some(copy), content: Some(content) },
            Err(error) => {
                clients.report(StoreFault::Copy { why: format!("{error}; there is none") });
                OpenCopy::default()
            }
        }
    }

    /// Whether the content may be delivered before the changes of `store`: it is of that store, and not newer. Otherwise the file
    /// is renamed, because it may be all that is left of a store that was lost.
    pub(super) fn is_of(&mut self, store: u64, head: u64, clients: &Clients) -> bool {
        let mark = self.content.as_ref().and_then(|content| content.mark.as_ref());
        let is_of = mark.is_some_and(|mark| mark.store == store && mark.revision <= head);
        if mark.is_some() && !is_of {
            self.set_aside(clients);
        }
        is_of
    }

    fn set_aside(&mut self, clients: &Clients) {
        let Some(path) = std::mem::take(self).path else { return };
        let aside = path.with_extension("redb.old");
        let why = match fs::rename(&path, &aside) {
            Ok(()) => {
                format!("it is not of this store, and was moved to {}; a copy of this store begins", aside.display())
            }
            Err(error) => format!("it is not of this store, and cannot be moved to {}: {error}", aside.display()),
        };
        clients.report(StoreFault::Copy { why });
        *self = OpenCopy::open(Some(&path), clients);
        self.content = None;
    }

    /// Takes the content that was not delivered.
    pub(super) fn take(&mut self) -> Option<(Mark, Vec<Stored>)> {
        let Content { mark, keys } = self.content.take()?;
        mark.map(|mark| (mark, keys))
    }

    /// A key has changed.
    pub(super) fn change(&mut self, stored: &Stored) {
        if COPIED.iter().any(|prefix| stored.key.starts_with(prefix)) {
            self.record(|pending| pending.change(stored));
        }
    }

    /// A snapshot begins: what it does not name is gone.
    pub(super) fn begin_snapshot(&mut self) {
        self.record(Pending::begin_snapshot);
    }

    /// All changes up to `mark` have been delivered.
    pub(super) fn mark(&mut self, mark: Mark) {
        self.record(|pending| pending.complete(mark));
    }

    fn record(&mut self, change: impl FnOnce(&mut Pending)) {
        if let Some(copy) = &self.copy {
            copy.changes.record(change);
        }
    }
}

/// The file, and the thread that writes it.
struct Copy {
    changes: Arc<Changes>,
    thread: Option<JoinHandle<()>>,
}

/// The content of a copy.
#[derive(Debug, Default)]
pub(super) struct Content {
    pub(super) mark: Option<Mark>,
    /// Empty without a mark.
    pub(super) keys: Vec<Stored>,
}

impl Copy {
    /// Opens the copy at `path`, or creates it, and reads it. A damaged file is replaced. `fail` is called once, if the copy is
    /// given up.
    ///
    /// # Errors
    /// The file cannot be created, or another program has it open.
    fn open(path: &Path, fail: impl FnOnce(String) + Send + 'static) -> Result<(Copy, Content), Error> {
        let found = open(path).and_then(|database| Ok((read(&database)?, database)));
        let (content, database) = match found {
            Ok(found) => found,
            // `roam6 fleet restore --store` reads it: it is not damaged.
            Err(error @ redb::Error::DatabaseAlreadyOpen) => return Err(failed(path, error)),
            Err(_) => {
                fs::remove_file(path).context(path.display())?;
                (Content::default(), open(path).map_err(|error| failed(path, error))?)
            }
        };
        let changes = Arc::<Changes>::default();
        let (path, writer) = (path.to_owned(), Writer { database, changes: changes.clone() });
        let work = move || match writer.run() {
            Err(error) => fail(failed(&path, error).to_string()),
            Ok(End::Overrun) => fail(format!("{}: the disk is too slow", path.display())),
            Ok(End::Closed) => {}
        };
        let thread =
            std::thread::Builder::new().name("fleet-copy".to_owned()).spawn(work).context("copy of the store")?;
        Ok((Copy { changes, thread: Some(thread) }, content))
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        self.changes.record(|pending| pending.end = Some(End::Closed));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Reads the copy at `path`, of a member that does not run.
///
/// # Errors
/// There is none, it is damaged, or a daemon has it open.
pub(super) fn load(path: &Path) -> Result<Content, Error> {
    fs::metadata(path).context(path.display())?;
    open(path).and_then(|database| read(&database)).map_err(|error| failed(path, error))
}

/// The file of the copy of a fleet.
pub fn file(directory: &Path, fleet: &str) -> PathBuf {
    directory.join(format!("fleet-{fleet}.redb"))
}

fn open(path: &Path) -> Result<Database, redb::Error> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let database = Database::builder().set_cache_size(CACHE).create(path)?;
    fs::set_permissions(path, Permissions::from_mode(MODE))?;
    Ok(database)
}

fn failed(path: &Path, error: redb::Error) -> Error {
    Error::new(path.display(), error)
}

fn read(database: &Database) -> Result<Content, redb::Error> {
    // Tables exist after the first write only.
    let created = database.begin_write()?;
    created.open_table(KEYS)?;
    created.open_table(MARK)?;
    created.commit()?;
    let transaction = database.begin_read()?;
    let mark = transaction.open_table(MARK)?.get(())?.map(|mark| mark.value());
    let Some((store, revision)) = mark else { return Ok(Content::default()) };
    let mut keys = Vec::new();
    for entry in transaction.open_table(KEYS)?.iter()? {
        let (key, value) = entry?;
        let (revision, value) = value.value();
        keys.push(Stored { key: key.value().to_owned(), value: Some(value.to_vec()), revision });
    }
    Ok(Content { mark: Some(Mark { store, revision }), keys })
}

/// Why the file is written no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The member ends.
    Closed,
    /// The disk was slower than the store for too long. The last mark in the file stays true: a later start follows the store from
    /// there.
    Overrun,
}

/// Changes that the file does not have.
#[derive(Default)]
struct Pending {
    keys: BTreeMap<String, Stored>,
    /// What the file had before counts no more.
    replaces: bool,
    /// A snapshot is not complete: the file has no mark meanwhile.
    partial: bool,
    mark: Option<Mark>,
    /// Further changes are not recorded.
    end: Option<End>,
}

impl Pending {
    fn change(&mut self, stored: &Stored) {
        self.keys.insert(stored.key.clone(), stored.clone());
        if self.keys.len() > MAX_WAITING {
            self.end = Some(End::Overrun);
        }
    }

    fn begin_snapshot(&mut self) {
        *self = Pending { replaces: true, partial: true, ..Pending::default() };
    }

    fn complete(&mut self, mark: Mark) {
        self.partial = false;
        self.mark = Some(mark);
    }

    /// Whether the file is to be written before the interval is over.
    fn is_due(&self) -> bool {
        self.end.is_some() || self.partial && self.keys.len() >= BATCH
    }

    /// Takes out what a transaction can write: keys alone, without a mark, only within a snapshot.
    fn take(&mut self) -> Option<Pending> {
        let (partial, end) = (self.partial, self.end);
        let may_be_written = self.mark.is_some() || partial;
        may_be_written.then(|| std::mem::replace(self, Pending { partial, end, ..Pending::default() }))
    }
}

/// The pending changes, which two threads share. The thread that writes wakes once an interval, not once a change.
#[derive(Default)]
struct Changes {
    pending: Mutex<Pending>,
    due: Condvar,
}

impl Changes {
    fn record(&self, change: impl FnOnce(&mut Pending)) {
        let mut pending = lock(&self.pending);
        if pending.end.is_some() {
            return;
        }
        change(&mut pending);
        if pending.is_due() {
            self.due.notify_one();
        }
    }

    /// Waits until there is something to write, or the interval is over.
    fn wait(&self) -> (Option<Pending>, Option<End>) {
        let waited = self.due.wait_timeout_while(lock(&self.pending), INTERVAL, |pending| !pending.is_due());
        let (mut pending, _) = waited.unwrap_or_else(PoisonError::into_inner);
        (pending.take(), pending.end)
    }
}

/// The thread that writes the file.
struct Writer {
    database: Database,
    changes: Arc<Changes>,
}

impl Writer {
    /// Writes until the member ends, or the disk is too slow.
    ///
    /// # Errors
    /// The disk's.
    fn run(self) -> Result<End, redb::Error> {
        let written = self.write_all();
        if written.is_err() {
            self.changes.record(|pending| *pending = Pending { end: Some(End::Closed), ..Pending::default() });
        }
        written
    }

    fn write_all(&self) -> Result<End, redb::Error> {
        loop {
            let (pending, end) = self.changes.wait();
            if let Some(pending) = pending {
                self.write(&pending)?;
            }
            if let Some(end) = end {
                return Ok(end);
            }
        }
    }

    /// Writes changes in one transaction. Keys may be newer than the mark: their changes come again.
    fn write(&self, pending: &Pending) -> Result<(), redb::Error> {
        let transaction = self.database.begin_write()?;
        store(&transaction, pending)?;
        Ok(transaction.commit()?)
    }
}

fn store(transaction: &WriteTransaction, pending: &Pending) -> Result<(), redb::Error> {
    let mut keys = transaction.open_table(KEYS)?;
    let mut mark = transaction.open_table(MARK)?;
    if pending.replaces {
        keys.retain(|_, _| false)?;
    }
    for (key, stored) in &pending.keys {
        match &stored.value {
            Some(value) => keys.insert(key.as_str(), (stored.revision, value.as_slice()))?,
            None => keys.remove(key.as_str())?,
        };
    }
    match &pending.mark {
        Some(Mark { store, revision }) => mark.insert((), (*store, *revision))?,
        None => mark.remove(())?,
    };
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "a test")]
mod tests {
    use super::*;

    fn stored(key: &str, value: &str, revision: u64) -> Stored {
        let value = Some(value).filter(|value| !value.is_empty()).map(|value| value.as_bytes().to_vec());
        Stored { key: key.to_owned(), value, revision }
    }

    fn open_copy(path: &Path) -> (OpenCopy, Content) {
        let (copy, content) = Copy::open(path, |why| panic!("{why}")).unwrap();
        (OpenCopy { path: None, copy: Some(copy), content: None }, content)
    }

    #[test]
    fn copy_has_the_keys_up_to_its_mark() {
        let directory = tempfile::tempdir().unwrap();
        let path = file(directory.path(), "north");
        let (mut copy, content) = open_copy(&path);
        assert!(content.mark.is_none() && content.keys.is_empty());
        copy.begin_snapshot();
        copy.change(&stored("b/1", "one", 3));
        copy.change(&stored("b/2", "two", 4));
        copy.change(&stored("m/ha1", "no part of it", 5));
        copy.mark(Mark { store: 7, revision: 5 });
        drop(copy);
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, MODE);
        let (mut copy, content) = open_copy(&path);
        assert_eq!(content.mark, Some(Mark { store: 7, revision: 5 }));
        assert_eq!(content.keys, [stored("b/1", "one", 3), stored("b/2", "two", 4)]);
        copy.change(&stored("b/1", "", 6));
        copy.change(&stored("r/3", "three", 7));
        copy.mark(Mark { store: 7, revision: 7 });
        drop(copy);
        assert_eq!(load(&path).unwrap().keys, [stored("b/2", "two", 4), stored("r/3", "three", 7)]);
    }

    #[test]
    fn incomplete_snapshot_and_damaged_file_count_for_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = file(directory.path(), "north");
        let (mut copy, _) = open_copy(&path);
        copy.begin_snapshot();
        copy.change(&stored("b/1", "one", 3));
        copy.mark(Mark { store: 7, revision: 5 });
        copy.begin_snapshot();
        copy.change(&stored("b/2", "two", 9));
        drop(copy);
        let content = load(&path).unwrap();
        assert!(content.mark.is_none() && content.keys.is_empty(), "{content:?}");
        fs::write(&path, b"no database").unwrap();
        assert!(load(&path).is_err());
        let (_copy, content) = open_copy(&path);
        assert!(content.mark.is_none());
        assert!(load(&path).is_err(), "the copy of a running member");
        assert!(Copy::open(&path, |why| panic!("{why}")).is_err() && path.exists(), "it is left alone");
        assert!(load(&directory.path().join("absent")).is_err());
    }
}
