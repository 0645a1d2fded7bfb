//! The journal on a disk that is damaged, killed or full.

use super::*;
use roam6_proto::contract::item::SequenceRecord;
use roam6_wire::{HomeAddress, Sequence};
use std::cell::Cell;
use std::io::Write;
use std::net::Ipv6Addr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

thread_local! {
    /// Writes of a compaction in place until the power fails.
    static WRITES_LEFT: Cell<Option<u32>> = const { Cell::new(None) };
}

/// Fails, after half of the octets were written, once the power does.
pub(super) fn power_cut(file: &File, octets: &[u8], at: u64) -> io::Result<()> {
    match WRITES_LEFT.get() {
        Some(0) => {
            file.write_all_at(&octets[..octets.len() / 2], at)?;
            Err(io::Error::other("power cut"))
        }
        left => {
            WRITES_LEFT.set(left.map(|left| left - 1));
            Ok(())
        }
    }
}

/// A file system of this many octets, in a mount namespace of its own.
struct SmallDisk {
    holder: Child,
    _place: tempfile::TempDir,
    directory: PathBuf,
}

impl SmallDisk {
    /// `None`, with the reason printed, where it cannot be mounted.
    fn new(test: &str, octets: u64) -> Option<SmallDisk> {
        let place = tempfile::tempdir().unwrap();
        let script = format!("mount -t tmpfs -o size={octets} disk \"$0\" && echo up && exec cat");
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", &script]).arg(place.path());
        let mut holder = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
        let mut word = String::new();
        BufReader::new(holder.stdout.take().unwrap()).read_line(&mut word).unwrap();
        if word != "up\n" {
            println!("skipped: {test}: no file system can be mounted here (not root?)");
            return None;
        }
        let root = PathBuf::from(format!("/proc/{}/root", holder.id()));
        let directory = root.join(place.path().strip_prefix("/").unwrap());
        Some(SmallDisk { holder, _place: place, directory })
    }

    /// Fills the disk.
    fn fill(&self) {
        let mut file = File::create(self.directory.join("filler")).unwrap();
        while file.write_all(&[0; 512]).is_ok() {}
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

fn record(host: u128, sequence: u16) -> JournalRecord {
    let home_address = HomeAddress(Ipv6Addr::from_bits(host));
    JournalRecord::Sequence(SequenceRecord { home_address, sequence: Sequence(sequence) })
}

/// How long a copy of the lock may persist in a process that another test starts, until it executes its program.
const LOCK_TIMEOUT: Duration = Duration::from_secs(20);

/// Pause between two tries to open a locked journal.
const LOCK_RETRY: Duration = Duration::from_millis(2);

/// Opens the journal, once its lock is free.
fn open(directory: &Path) -> (Journal, Recalled) {
    let is_locked = |error: &Error| error.to_string().contains("would block");
    for _ in 0..LOCK_TIMEOUT.as_millis() / LOCK_RETRY.as_millis() {
        match Journal::open(directory) {
            Err(error) if is_locked(&error) => std::thread::sleep(LOCK_RETRY),
            opened => return opened.unwrap(),
        }
    }
    panic!("the journal stays locked for {LOCK_TIMEOUT:?}");
}

fn edit(directory: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let path = directory.join(NAME);
    let mut bytes = fs::read(&path).unwrap();
    change(&mut bytes);
    fs::write(path, bytes).unwrap();
}

#[test]
fn journal_recalls_the_last_record_of_each_key() {
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
    assert_eq!(recalled.records, [record(1, 2), record(2, 1)], "an unsynced record was never acknowledged");
    assert_eq!(journal.len(), 2);
}

#[test]
fn torn_last_line_is_discarded_and_overwritten() {
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
fn damaged_line_is_skipped_reported_and_kept_aside() {
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
fn stale_records_are_compacted() {
    let directory = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(directory.path());
    for round in 0..3000 {
        for host in 0..10 {
            journal.put(&record(host, round)).unwrap();
        }
        if round % 10 == 0 {
            journal.sync().unwrap();
            journal.compact_if_due().unwrap();
        }
    }
    journal.sync().unwrap();
    assert!(Journal::open(directory.path()).is_err(), "still one writer at a time");
    drop(journal);
    let size = fs::metadata(directory.path().join(NAME)).unwrap().len();
    assert!(size < 4 * MIN_GARBAGE, "{size}");
    let expected: Vec<JournalRecord> = (0..10).map(|host| record(host, 2999)).collect();
    assert_eq!(open(directory.path()).1.records, expected);
}

#[test]
fn journal_opens_after_any_damage() {
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

/// A line as a newer version may write it.
fn newer(text: &str) -> String {
    let sum = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |sum, octet| (sum ^ u64::from(octet)).wrapping_mul(0x0100_0000_01b3));
    format!("{sum:016x} {text}\n")
}

#[test]
fn lines_of_a_newer_version_survive_compactions() {
    let lines = [
        r#"{"put":{"weather":{"station":7,"rain":true}}}"#,
        r#"{"put":{"weather":{"station":8,"rain":true}}}"#,
        r#"{"drop":{"weather":7}}"#,
        r#"{"swap":["weather",7,8]}"#,
        r#"{"put":{"sequence":{"home_address":"2001:db8::9","sequence":"a pair of numbers"}}}"#,
    ];
    let directory = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(directory.path());
    for (round, line) in (0..).zip(lines) {
        journal.put(&record(1, round)).unwrap();
        journal.sync().unwrap();
        drop(journal);
        edit(directory.path(), |bytes| bytes.extend_from_slice(newer(line).as_bytes()));
        journal = open(directory.path()).0;
    }
    let kept = |directory: &Path| {
        let text = fs::read_to_string(directory.join(NAME)).unwrap();
        let is_newer = |line: &str| lines.iter().any(|known| newer(known) == format!("{line}\n"));
        text.lines().filter(|line| is_newer(line)).map(str::to_owned).collect::<Vec<_>>()
    };
    let all = kept(directory.path());
    assert_eq!(all.len(), lines.len());
    for in_place in [false, true] {
        for round in 10..3000 {
            journal.put(&record(2, round)).unwrap();
        }
        journal.sync().unwrap();
        if in_place {
            journal.rearrange().unwrap()
        } else {
            journal.compact().unwrap()
        };
        assert_eq!(kept(directory.path()), all, "in their order");
        assert_eq!((journal.len(), journal.length), (lines.len() + 2, journal.live));
    }
    drop(journal);
    let (_, recalled) = open(directory.path());
    assert_eq!(recalled.records, [record(1, 4), record(2, 2999)]);
    assert_eq!(recalled.notices.len(), 1, "{:?}", recalled.notices);
    let said = &recalled.notices[0];
    assert!(said.contains("5 lines") && said.contains("(sequence, unnamed, weather)"), "{said}");
    assert!(!directory.path().join(DAMAGED).exists(), "nothing is damaged");
}

/// Writes each of so many records in a batch of its own, for so many rounds.
fn refresh(journal: &mut Journal, hosts: u128, rounds: std::ops::Range<u16>) {
    for round in rounds {
        for host in 0..hosts {
            journal.put(&record(host, round)).unwrap();
            journal.sync().unwrap_or_else(|error| panic!("round {round}, host {host}: {error}"));
            journal.compact_if_due().unwrap();
        }
    }
}

#[test]
fn journal_stays_within_a_small_disk() {
    // Live records are a quarter of the disk, and then nearly all of it: a copy of them has no room beside them.
    for hosts in [320, 1250] {
        let Some(disk) = SmallDisk::new("journal_stays_within_a_small_disk", 128 * 1024) else { return };
        let (mut journal, _) = open(&disk.directory);
        refresh(&mut journal, hosts, 0..20);
        drop(journal);
        let expected: Vec<JournalRecord> = (0..hosts).map(|host| record(host, 19)).collect();
        assert_eq!(open(&disk.directory).1.records, expected, "{hosts} records");
    }
}

#[test]
fn record_removal_survives_a_full_disk() {
    let Some(disk) = SmallDisk::new("record_removal_survives_a_full_disk", 128 * 1024) else { return };
    let (mut journal, _) = open(&disk.directory);
    refresh(&mut journal, 100, 0..1);
    disk.fill();
    // Removals fill the rest of the last page, and then need another.
    for host in 0..100 {
        journal.drop(&key_of(&record(host, 0))).unwrap();
        journal.sync().unwrap();
    }
    drop(journal);
    assert_eq!(open(&disk.directory).1.records, []);
}

#[test]
fn full_disk_refuses_a_record_and_keeps_the_journal() {
    let Some(disk) = SmallDisk::new("full_disk_refuses_a_record_and_keeps_the_journal", 64 * 1024) else { return };
    let (mut journal, _) = open(&disk.directory);
    disk.fill();
    let mut stored = 0;
    let refused = loop {
        journal.put(&record(stored, 1)).unwrap();
        match journal.sync() {
            Ok(()) => stored += 1,
            Err(error) => break error.to_string(),
        }
    };
    assert!(refused.contains(&disk.directory.display().to_string()) && refused.contains("No space left"), "{refused}");
    // A removal that could not be written stays pending.
    fs::remove_file(disk.directory.join("filler")).unwrap();
    refresh(&mut journal, 10, 2..3);
    drop(journal);
    assert_eq!(open(&disk.directory).1.records.len() as u128, stored.max(10));
}

#[test]
fn compaction_in_place_survives_power_cuts() {
    let expected: Vec<JournalRecord> = (0..30).filter(|host| host % 7 != 3).map(|host| record(host, 10_000)).collect();
    for writes in 0.. {
        let directory = tempfile::tempdir().unwrap();
        let (mut journal, _) = open(directory.path());
        // Lines of several lengths, former versions everywhere, and removals of some.
        for round in [9, 5_000, 10_000] {
            for host in (0..30).filter(|host| round != 10_000 || host % 5 != 0) {
                journal.put(&record(host, round)).unwrap();
            }
        }
        for host in (0..30).filter(|host| host % 7 == 3) {
            journal.drop(&key_of(&record(host, 0))).unwrap();
        }
        for host in (0..30).filter(|host| host % 5 == 0 && host % 7 != 3) {
            journal.put(&record(host, 10_000)).unwrap();
        }
        journal.sync().unwrap();
        WRITES_LEFT.set(Some(writes));
        let cut = journal.rearrange().is_err();
        WRITES_LEFT.set(None);
        if !cut {
            assert!(writes > 10 && journal.length < journal.live + 300, "{writes} writes, {} octets", journal.length);
        }
        drop(journal);
        let (mut journal, recalled) = open(directory.path());
        assert_eq!(recalled.records, expected, "cut off after {writes} writes");
        // Nothing that is left can come back later.
        journal.compact().unwrap();
        drop(journal);
        assert_eq!(open(directory.path()).1.records, expected);
        if !cut {
            return;
        }
    }
}

#[test]
fn journal_has_one_owner() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join(NAME), "").unwrap();
    fs::set_permissions(directory.path().join(NAME), Permissions::from_mode(0o644)).unwrap();
    let _journal = open(directory.path());
    let mode = fs::metadata(directory.path().join(NAME)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "a reader of the file could hold its lock");
}
