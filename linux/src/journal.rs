//! What must outlive the daemon: an append-only file, one checked line a record, synced once a batch.
//! A torn last line was never acknowledged and is forgotten; damage elsewhere is skipped, told, and kept aside.

use crate::error::{Context, Error};
use roam6_proto::plan::{Record, RecordKey};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Most records held.
pub const MAX_RECORDS: usize = 1_000_000;
/// Longest line, octets.
pub const MAX_LINE: usize = 256 * 1024;
/// Garbage below this many octets is not worth a compaction.
const MIN_GARBAGE: u64 = 1024 * 1024;
/// Hexadecimal digits of the checksum and a blank.
const CHECK: usize = 17;

/// The journal of one daemon.
pub struct Journal {
    directory: PathBuf,
    file: File,
    /// Where the line of each record lies.
    places: BTreeMap<RecordKey, Place>,
    /// Length of the file that is whole and synced, octets.
    length: u64,
    /// Octets of it that still count.
    live: u64,
    /// Octets of garbage below which compaction is not tried again.
    tidy_again: u64,
    /// Lines written but not synced.
    batch: Vec<u8>,
    batched: Vec<(RecordKey, Option<Place>)>,
}

/// A line in the file.
#[derive(Debug, Clone, Copy)]
struct Place {
    at: u64,
    length: u32,
}

/// What a line says.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Put(Record),
    Drop(RecordKey),
}

/// What was found when a journal was opened.
#[derive(Debug, Default)]
pub struct Recalled {
    /// The records, one for each key.
    pub records: Vec<Record>,
    /// What an operator should know: damage found, and where it was kept.
    pub notices: Vec<String>,
}

impl Journal {
    /// Opens the journal in `directory`, making both if need be, and reads what it remembers.
    pub fn open(directory: &Path) -> Result<(Journal, Recalled), Error> {
        let what = || format!("journal in {}", directory.display());
        fs::create_dir_all(directory).context(what())?;
        let path = directory.join(NAME);
        let file = OpenOptions::new().read(true).append(true).create(true).open(&path).context(what())?;
        file.try_lock().map_err(|error| Error::new(what(), error))?;
        sync_directory(directory).context(what())?;
        let mut journal = Journal {
            directory: directory.to_owned(),
            file,
            places: BTreeMap::new(),
            length: 0,
            live: 0,
            tidy_again: 0,
            batch: Vec::new(),
            batched: Vec::new(),
        };
        let recalled = journal.read().context(what())?;
        Ok((journal, recalled))
    }

    /// Adds `record` to the batch, in place of any of the same key.
    pub fn put(&mut self, record: &Record) -> Result<(), Error> {
        let key = key_of(record);
        if !self.places.contains_key(&key) && self.places.len() + self.batched.len() >= MAX_RECORDS {
            return Err(Error::new("journal", format!("more than {MAX_RECORDS} records")));
        }
        self.write(key, &Line::Put(record.clone()))
    }

    /// Adds to the batch that there is no record of `key` any more.
    pub fn drop(&mut self, key: &RecordKey) -> Result<(), Error> {
        let known = self.places.contains_key(key) || self.batched.iter().any(|(batched, _)| batched == key);
        if known { self.write(*key, &Line::Drop(*key)) } else { Ok(()) }
    }

    /// Makes the batch last. On an error nothing of it does.
    pub fn sync(&mut self) -> Result<(), Error> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let written = self.file.write_all(&self.batch).and_then(|()| self.file.sync_data());
        let batched = std::mem::take(&mut self.batched);
        let octets = std::mem::take(&mut self.batch).len() as u64;
        if let Err(error) = written {
            // What may have reached the disk of the batch must not be believed later.
            let _ = self.file.set_len(self.length).and_then(|()| self.file.sync_data());
            return Err(error).context("journal");
        }
        self.length += octets;
        for (key, place) in batched {
            self.place(key, place);
        }
        Ok(())
    }

    /// Makes the file small again if more than half of it no longer counts. Nothing is lost on an error.
    pub fn tidy(&mut self) -> Result<(), Error> {
        let garbage = self.length - self.live;
        if garbage <= (self.length / 2).max(MIN_GARBAGE) || garbage < self.tidy_again {
            return Ok(());
        }
        // After a failure, a full disk perhaps, not again at once.
        self.tidy_again = garbage * 2;
        self.compact().context("journal compaction")?;
        self.tidy_again = 0;
        Ok(())
    }

    /// How many records it holds.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    fn write(&mut self, key: RecordKey, line: &Line) -> Result<(), Error> {
        let text = serde_json::to_string(line).map_err(|error| Error::new("journal", error))?;
        let length = CHECK + text.len() + 1;
        if length > MAX_LINE {
            return Err(Error::new("journal", format!("a record of {length} octets, at most {MAX_LINE}")));
        }
        let at = self.length + self.batch.len() as u64;
        let place = matches!(line, Line::Put(_)).then_some(Place { at, length: length as u32 });
        self.batch.extend(format!("{:016x} {text}\n", checksum(text.as_bytes())).into_bytes());
        self.batched.push((key, place));
        Ok(())
    }

    fn place(&mut self, key: RecordKey, place: Option<Place>) {
        let before = match place {
            Some(place) => self.places.insert(key, place),
            None => self.places.remove(&key),
        };
        self.live += place.map_or(0, |place| u64::from(place.length));
        self.live -= before.map_or(0, |place| u64::from(place.length));
    }

    /// Reads the whole file once.
    fn read(&mut self) -> io::Result<Recalled> {
        let mut records = BTreeMap::new();
        let mut damaged = Vec::new();
        let mut reader = BufReader::new(&self.file);
        reader.rewind()?;
        let mut lines = Vec::new();
        let (mut at, mut bytes) = (0, Vec::new());
        for number in 1_u64.. {
            bytes.clear();
            let length = (&mut reader).take(MAX_LINE as u64).read_until(b'\n', &mut bytes)?;
            if length == 0 {
                break;
            }
            let place = Place { at, length: length as u32 };
            match parse(&bytes) {
                Some(Line::Put(record)) => {
                    lines.push((key_of(&record), Some(place)));
                    records.insert(key_of(&record), record);
                }
                Some(Line::Drop(key)) => {
                    lines.push((key, None));
                    records.remove(&key);
                }
                None => damaged.push((number, place, bytes.ends_with(b"\n"))),
            }
            at += length as u64;
        }
        self.length = at;
        for (key, place) in lines {
            self.place(key, place);
        }
        let notices = self.mend(damaged)?;
        Ok(Recalled { records: records.into_values().collect(), notices })
    }

    /// Deals with lines that could not be read: number, place, and whether it has an end.
    fn mend(&mut self, mut damaged: Vec<(u64, Place, bool)>) -> io::Result<Vec<String>> {
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
        let aside = self.directory.join(DAMAGED);
        fs::copy(self.directory.join(NAME), &aside)?;
        let lines: Vec<String> = damaged.iter().take(10).map(|(number, ..)| number.to_string()).collect();
        Ok(vec![format!(
            "journal: {} damaged lines skipped (line {}); what they said may be older now than it was; all kept in {}",
            damaged.len(),
            lines.join(", "),
            aside.display()
        )])
    }

    /// Writes what counts to a new file and puts it in place of the old.
    fn compact(&mut self) -> io::Result<()> {
        let path = self.directory.join(NEW);
        let _ = fs::remove_file(&path);
        let mut new = BufWriter::new(OpenOptions::new().read(true).append(true).create_new(true).open(&path)?);
        let mut places = BTreeMap::new();
        let (mut at, mut line) = (0, Vec::new());
        for (key, place) in &self.places {
            line.resize(place.length as usize, 0);
            self.file.seek(SeekFrom::Start(place.at))?;
            self.file.read_exact(&mut line)?;
            new.write_all(&line)?;
            places.insert(*key, Place { at, ..*place });
            at += u64::from(place.length);
        }
        let new = new.into_inner().map_err(io::IntoInnerError::into_error)?;
        new.sync_all()?;
        new.try_lock()?;
        fs::rename(&path, self.directory.join(NAME))?;
        (self.file, self.places, self.length, self.live) = (new, places, at, at);
        sync_directory(&self.directory)
    }
}

const NAME: &str = "journal";
const NEW: &str = "journal.new";
const DAMAGED: &str = "journal.damaged";

fn key_of(record: &Record) -> RecordKey {
    match record {
        Record::Binding(binding) => RecordKey::Binding(binding.home_address),
        Record::Sequence(sequence) => RecordKey::Sequence(sequence.home_address),
        Record::AddressSet(set) => RecordKey::AddressSet(set.number),
        Record::Lent(lent) => RecordKey::Lent(lent.prefix),
    }
}

fn parse(line: &[u8]) -> Option<Line> {
    let line = line.strip_suffix(b"\n")?;
    let (check, text) = (line.get(..CHECK - 1)?, line.get(CHECK..)?);
    let check = u64::from_str_radix(str::from_utf8(check).ok()?, 16).ok()?;
    (check == checksum(text)).then(|| serde_json::from_slice(text).ok()).flatten()
}

/// FNV-1a: finds torn and damaged lines; it is not there against forgery.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use roam6_proto::plan::SequenceRecord;
    use roam6_wire::{HomeAddress, Sequence};
    use std::net::Ipv6Addr;

    fn record(host: u128, sequence: u16) -> Record {
        let home_address = HomeAddress(Ipv6Addr::from_bits(host));
        Record::Sequence(SequenceRecord { home_address, sequence: Sequence(sequence) })
    }

    fn open(directory: &Path) -> (Journal, Recalled) {
        Journal::open(directory).unwrap()
    }

    fn edit(directory: &Path, change: impl FnOnce(&mut Vec<u8>)) {
        let path = directory.join(NAME);
        let mut bytes = fs::read(&path).unwrap();
        change(&mut bytes);
        fs::write(path, bytes).unwrap();
    }

    #[test]
    fn remembers_the_last_of_each_key_and_forgets_what_was_dropped() {
        let directory = tempfile::tempdir().unwrap();
        let (mut journal, recalled) = open(directory.path());
        assert!(recalled.records.is_empty() && recalled.notices.is_empty());
        assert!(Journal::open(directory.path()).is_err(), "one writer at a time");
        for line in [record(1, 1), record(2, 1), record(1, 2), record(3, 1)] {
            journal.put(&line).unwrap();
        }
        journal.drop(&key_of(&record(3, 0))).unwrap();
        journal.sync().unwrap();
        journal.put(&record(4, 1)).unwrap();
        drop(journal);
        let (journal, recalled) = open(directory.path());
        assert_eq!(recalled.records, [record(1, 2), record(2, 1)], "what was not synced was never promised");
        assert_eq!(journal.len(), 2);
    }

    #[test]
    fn a_torn_tail_is_forgotten_and_written_over() {
        let directory = tempfile::tempdir().unwrap();
        let (mut journal, _) = open(directory.path());
        journal.put(&record(1, 1)).unwrap();
        journal.put(&record(2, 1)).unwrap();
        journal.sync().unwrap();
        drop(journal);
        edit(directory.path(), |bytes| bytes.truncate(bytes.len() - 5));
        let (mut journal, recalled) = open(directory.path());
        assert_eq!(recalled.records, [record(1, 1)]);
        assert!(recalled.notices.is_empty());
        journal.put(&record(2, 7)).unwrap();
        journal.sync().unwrap();
        drop(journal);
        assert_eq!(open(directory.path()).1.records, [record(1, 1), record(2, 7)]);
    }

    #[test]
    fn damage_in_the_middle_is_skipped_told_and_kept() {
        let directory = tempfile::tempdir().unwrap();
        let (mut journal, _) = open(directory.path());
        for host in 1..=3 {
            journal.put(&record(host, 1)).unwrap();
        }
        journal.sync().unwrap();
        drop(journal);
        edit(directory.path(), |bytes| {
            let second = bytes.iter().position(|octet| *octet == b'\n').unwrap() + 30;
            bytes[second] ^= 1;
        });
        let (mut journal, recalled) = open(directory.path());
        assert_eq!(recalled.records, [record(1, 1), record(3, 1)]);
        assert!(recalled.notices[0].contains("1 damaged lines skipped (line 2)"), "{:?}", recalled.notices);
        assert!(directory.path().join(DAMAGED).exists());
        journal.put(&record(2, 2)).unwrap();
        journal.sync().unwrap();
        drop(journal);
        assert_eq!(open(directory.path()).1.records.len(), 3);
    }

    #[test]
    fn garbage_is_compacted_away() {
        let directory = tempfile::tempdir().unwrap();
        let (mut journal, _) = open(directory.path());
        for round in 0..3000 {
            for host in 0..10 {
                journal.put(&record(host, round)).unwrap();
            }
            if round % 100 == 0 {
                journal.sync().unwrap();
                journal.tidy().unwrap();
            }
        }
        journal.sync().unwrap();
        assert!(Journal::open(directory.path()).is_err(), "still one writer at a time");
        drop(journal);
        let size = fs::metadata(directory.path().join(NAME)).unwrap().len();
        assert!(size < 2 * MIN_GARBAGE, "{size}");
        let expected: Vec<Record> = (0..10).map(|host| record(host, 2999)).collect();
        assert_eq!(open(directory.path()).1.records, expected);
    }

    #[test]
    fn any_damage_at_all_is_survived() {
        let directory = tempfile::tempdir().unwrap();
        let (mut journal, _) = open(directory.path());
        for host in 0..5 {
            journal.put(&record(host, 1)).unwrap();
        }
        journal.sync().unwrap();
        drop(journal);
        let whole = fs::read(directory.path().join(NAME)).unwrap();
        for at in (0..whole.len()).step_by(7) {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x20;
            fs::write(directory.path().join(NAME), bytes).unwrap();
            let (_, recalled) = open(directory.path());
            assert!(recalled.records.len() >= 3, "octet {at}");
        }
    }
}
