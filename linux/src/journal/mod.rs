//! The records that must outlive the daemon: an append-only file, one line with a checksum for each record, synced once
//! per batch. A torn last line was never acknowledged and is discarded; other damage is skipped, reported, and kept
//! aside. Lines of kinds that this version does not know are kept as they are, in their order: a newer one has written them
//! and may run again.

mod compact;
mod line;
#[cfg(test)]
mod tests;

use crate::error::{Context, Error};
pub use line::MAX_LINE;
use line::{Line, ParsedLine, key_of, parse};
use roam6_proto::contract::item::{JournalKey, JournalRecord};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufRead, BufReader, Read, Seek};
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Most records stored.
pub const MAX_RECORDS: usize = 1_000_000;
/// Fewer octets of obsolete lines are not worth a compaction while the disk has room.
const MIN_GARBAGE: u64 = 16 * 1024;

/// The journal of one daemon.
pub struct Journal {
    directory: PathBuf,
    file: File,
    /// The extent of each valid line.
    extents: BTreeMap<LineKey, Extent>,
    /// Octets of the file that are complete and synced.
    length: u64,
    /// Octets of valid lines.
    live: u64,
    /// Octets of obsolete lines below which compaction is not attempted again.
    next_compaction: u64,
    batch: Vec<Entry>,
    /// Records that were removed while the disk was full: the file still has them.
    unwritten_removals: BTreeSet<JournalKey>,
}

/// What a valid line belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum LineKey {
    /// A record.
    Record(JournalKey),
    /// Nothing that this version knows: the number of the line among such lines.
    Unknown(usize),
}

/// A line in the file.
#[derive(Debug, Clone, Copy)]
struct Extent {
    at: u64,
    length: u32,
}

/// A line to be written.
struct Entry {
    key: JournalKey,
    /// Whether it is a removal.
    removal: bool,
    line: Vec<u8>,
}

/// The content of a journal when it was opened.
#[derive(Debug, Default)]
pub struct Recalled {
    /// The records, one for each key.
    pub records: Vec<JournalRecord>,
    /// Messages for the operator: damage found, and where a copy was kept.
    pub notices: Vec<String>,
}

impl Journal {
    /// Opens the journal in `directory`, creating both if need be, and reads it.
    ///
    /// # Errors
    /// The file cannot be opened or read, or another program has locked it.
    pub fn open(directory: &Path) -> Result<(Journal, Recalled), Error> {
        let what = || format!("journal in {}", directory.display());
        fs::create_dir_all(directory).context(what())?;
        let path = directory.join(NAME);
        let file = create(&path, false).context(what())?;
        let hint = "another program has locked it; does another roam6 run with this state_dir?";
        file.try_lock().map_err(|error| Error::new(what(), format!("{error}; {hint}")))?;
        // A user who may read the file may lock it, and prevent the next daemon from starting.
        file.set_permissions(Permissions::from_mode(MODE)).context(what())?;
        sync_directory(directory).context(what())?;
        let mut journal = Journal {
            directory: directory.to_owned(),
            file,
            extents: BTreeMap::new(),
            length: 0,
            live: 0,
            next_compaction: 0,
            batch: Vec::new(),
            unwritten_removals: BTreeSet::new(),
        };
        let mut recalled = journal.read().context(what())?;
        recalled.notices.extend(journal.compact_if_due().err().map(|error| error.to_string()));
        Ok((journal, recalled))
    }

    /// Adds `record` to the batch, in place of any of the same key.
    ///
    /// # Errors
    /// There are [`MAX_RECORDS`] already, or the record is too long.
    pub fn put(&mut self, record: &JournalRecord) -> Result<(), Error> {
        let key = key_of(record);
        if !self.has(key) && self.extents.len() + self.batch.len() >= MAX_RECORDS {
            return Err(Error::new("journal", format!("more than {MAX_RECORDS} records")));
        }
        let line = Line::Put(record.clone()).emit()?;
        self.batch.push(Entry { key, removal: false, line });
        Ok(())
    }

    /// Adds the removal of the record of `key` to the batch.
    ///
    /// # Errors
    /// None in practice: a key has a bounded size.
    pub fn drop(&mut self, key: &JournalKey) -> Result<(), Error> {
        let known = self.has(*key) || self.batch.iter().any(|entry| entry.key == *key);
        if known {
            self.batch.push(Entry::removal(*key)?);
        }
        Ok(())
    }

    /// Writes and syncs the batch. On an error none of its records is stored, and removals are retried with the next
    /// batch. A full disk is no error as long as the file has room for all valid records.
    ///
    /// # Errors
    /// The disk's.
    pub fn sync(&mut self) -> Result<(), Error> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let again = std::mem::take(&mut self.unwritten_removals)
            .into_iter()
            .map(Entry::removal)
            .collect::<Result<Vec<_>, _>>()?;
        let batch: Vec<Entry> = again.into_iter().chain(std::mem::take(&mut self.batch)).collect();
        let Err(error) = self.append(&batch) else { return Ok(()) };
        // The last line of each record.
        let last: BTreeMap<JournalKey, bool> = batch.iter().map(|entry| (entry.key, entry.removal)).collect();
        for (key, _) in last.iter().filter(|(_, removal)| **removal) {
            self.set_extent(LineKey::Record(*key), None);
            self.unwritten_removals.insert(*key);
        }
        let garbage = self.length - self.live;
        if !is_full(&error) || garbage == 0 {
            return Err(error).context(self.describe());
        }
        // A compaction omits removed records.
        self.compact().context(self.describe())?;
        self.unwritten_removals.clear();
        let rest: Vec<Entry> =
            batch.into_iter().filter(|entry| last.get(&entry.key).is_none_or(|removal| !removal)).collect();
        self.append(&rest).context(self.describe())
    }

    /// Compacts the file if more than half of it is obsolete. Nothing is lost on an error.
    ///
    /// # Errors
    /// The disk's.
    pub fn compact_if_due(&mut self) -> Result<(), Error> {
        let garbage = self.length - self.live;
        if garbage <= self.live.max(MIN_GARBAGE) || garbage < self.next_compaction {
            return Ok(());
        }
        // After a failure, perhaps of the disk, not again at once.
        self.next_compaction = garbage * 2;
        self.compact().context("journal compaction")?;
        self.next_compaction = 0;
        self.unwritten_removals.clear();
        Ok(())
    }

    fn has(&self, key: JournalKey) -> bool {
        self.extents.contains_key(&LineKey::Record(key))
    }

    /// How many records it holds, those of unknown kinds included.
    pub fn len(&self) -> usize {
        self.extents.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.extents.is_empty()
    }

    fn describe(&self) -> String {
        format!("journal in {}", self.directory.display())
    }

    /// Appends lines. On an error the file is as it was.
    fn append(&mut self, batch: &[Entry]) -> io::Result<()> {
        let octets: Vec<u8> = batch.iter().flat_map(|entry| entry.line.iter().copied()).collect();
        let written = self.file.write_all_at(&octets, self.length).and_then(|()| self.file.sync_data());
        if let Err(error) = written {
            // Whatever part of the batch may have reached the disk must not be read later.
            let _ = self.file.set_len(self.length).and_then(|()| self.file.sync_data());
            return Err(error);
        }
        for Entry { key, removal, line } in batch {
            let place = Extent { at: self.length, length: line.len() as u32 };
            self.set_extent(LineKey::Record(*key), Some(place).filter(|_| !removal));
            self.length += line.len() as u64;
        }
        Ok(())
    }

    fn set_extent(&mut self, key: LineKey, place: Option<Extent>) {
        let before = match place {
            Some(place) => self.extents.insert(key, place),
            None => self.extents.remove(&key),
        };
        self.live += place.map_or(0, |place| u64::from(place.length));
        self.live -= before.map_or(0, |place| u64::from(place.length));
    }

    /// Reads the whole file once.
    fn read(&mut self) -> io::Result<Recalled> {
        let mut records = BTreeMap::new();
        let mut damaged = Vec::new();
        let mut changes = Vec::new();
        let mut unknown = Vec::new();
        let mut number = 0_u64;
        self.length = lines(&self.file, |place, found| {
            number += 1;
            match found {
                ParsedLine::Line(line) => match *line {
                    Line::Put(record) => {
                        changes.push((LineKey::Record(key_of(&record)), Some(place)));
                        records.insert(key_of(&record), record);
                    }
                    Line::Drop(key) => {
                        changes.push((LineKey::Record(key), None));
                        records.remove(&key);
                    }
                },
                ParsedLine::Unknown(kind) => {
                    changes.push((LineKey::Unknown(unknown.len()), Some(place)));
                    unknown.push(kind);
                }
                ParsedLine::Blank => {}
                ParsedLine::Damaged(whole) => damaged.push((number, place, whole)),
            }
        })?;
        for (key, place) in changes {
            self.set_extent(key, place);
        }
        let mut notices = self.repair(damaged)?;
        notices.extend(unknown_notice(unknown));
        Ok(Recalled { records: records.into_values().collect(), notices })
    }

    /// Handles damaged lines: line number, extent, and whether it ends with a newline.
    fn repair(&mut self, mut damaged: Vec<(u64, Extent, bool)>) -> io::Result<Vec<String>> {
        if let Some((_, place, false)) = damaged.last()
            && place.at + u64::from(place.length) == self.length
        {
            self.length = place.at;
            self.file.set_len(place.at)?;
            damaged.pop();
        }
        if damaged.is_empty() {
            return Ok(Vec::new());
        }
        let lines: Vec<String> = damaged.iter().take(10).map(|(number, ..)| number.to_string()).collect();
        Ok(vec![format!(
            "journal: {} damaged lines skipped (line {}); their records may have reverted to older versions; {}",
            damaged.len(),
            lines.join(", "),
            self.keep_damaged()
        )])
    }

    /// Copies a damaged file; returns where to.
    fn keep_damaged(&self) -> String {
        let aside = self.directory.join(DAMAGED);
        match fs::copy(self.directory.join(NAME), &aside) {
            Ok(_) => format!("all kept in {}", aside.display()),
            Err(error) => {
                // An incomplete copy is of no use, and takes room.
                let _ = fs::remove_file(&aside);
                format!("no copy could be kept in {}: {error}", aside.display())
            }
        }
    }
}

/// Says which lines are unknown.
fn unknown_notice(mut kinds: Vec<String>) -> Option<String> {
    let count = kinds.len();
    kinds.sort();
    kinds.dedup();
    kinds.truncate(10);
    (count > 0).then(|| {
        format!(
            "journal: {count} lines of kinds that this version does not know ({}) are kept; a newer roam6 has written them",
            kinds.join(", ")
        )
    })
}

impl Entry {
    fn removal(key: JournalKey) -> Result<Entry, Error> {
        Ok(Entry { key, removal: true, line: Line::Drop(key).emit()? })
    }
}

const NAME: &str = "journal";
const NEW: &str = "journal.new";
const DAMAGED: &str = "journal.damaged";
/// Permissions of the file: none for others.
const MODE: u32 = 0o600;

/// Opens a file of the journal, which may exist unless it must be `new`.
fn create(path: &Path, new: bool) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).create_new(new).truncate(false).mode(MODE).open(path)
}

/// Passes each line of `file` to `show`, with its extent. Returns the length of the file, octets.
fn lines(file: &File, mut show: impl FnMut(Extent, ParsedLine)) -> io::Result<u64> {
    let mut reader = BufReader::new(file);
    reader.rewind()?;
    let (mut at, mut bytes) = (0, Vec::new());
    loop {
        bytes.clear();
        let length = (&mut reader).take(MAX_LINE as u64).read_until(b'\n', &mut bytes)?;
        if length == 0 {
            return Ok(at);
        }
        show(Extent { at, length: length as u32 }, parse(&bytes));
        at += length as u64;
    }
}

/// Whether the disk or a quota is full.
fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::WriteZero)
}

fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}
