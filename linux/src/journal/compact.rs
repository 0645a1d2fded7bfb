//! Compaction: obsolete lines are removed from the file. The file is copied, or, where the disk has no room for a copy,
//! rearranged in place. At any instant a reader finds all valid records, and none that was removed.

use super::line::{Line, ParsedLine, blank, key_of};
use super::{Extent, Journal, LineKey, NAME, NEW, create, is_full, lines, sync_directory};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;

/// The obsolete lines of a file.
#[derive(Default)]
struct Garbage {
    /// Former versions of records, and damaged lines.
    stale: Vec<Extent>,
    /// Removals, which are needed as long as a former version of their record is in the file.
    removals: Vec<Extent>,
}

impl Journal {
    /// Removes obsolete lines. On an error all valid lines are still there.
    pub(super) fn compact(&mut self) -> io::Result<()> {
        match self.copy() {
            Err(error) if is_full(&error) => self.rearrange(),
            copied => copied,
        }
    }

    /// Writes the valid lines to a new file and replaces the old one by it.
    fn copy(&mut self) -> io::Result<()> {
        let path = self.directory.join(NEW);
        let _ = fs::remove_file(&path);
        self.copy_to_new().inspect_err(|_| {
            // An incomplete copy would take the room that the next attempt needs.
            let _ = fs::remove_file(&path);
        })
    }

    fn copy_to_new(&mut self) -> io::Result<()> {
        let path = self.directory.join(NEW);
        let mut new = BufWriter::new(create(&path, true)?);
        let mut places = BTreeMap::new();
        let (mut at, mut line) = (0, Vec::new());
        for (key, place) in self.lines_in_order() {
            self.read_line(place, &mut line)?;
            new.write_all(&line)?;
            places.insert(key, Extent { at, ..place });
            at += u64::from(place.length);
        }
        let new = new.into_inner().map_err(io::IntoInnerError::into_error)?;
        new.sync_all()?;
        new.try_lock()?;
        fs::rename(&path, self.directory.join(NAME))?;
        (self.file, self.extents, self.length, self.live) = (new, places, at, at);
        sync_directory(&self.directory)
    }

    /// Moves the valid lines to the front of the file, and truncates it. No octet of a valid line is overwritten before
    /// its copy is on the disk, and no copy can be older than another line of the same record: the others are blank by
    /// then.
    pub(super) fn rearrange(&mut self) -> io::Result<()> {
        let garbage = self.find_garbage()?;
        // A removal must be on the disk as long as the removed lines are.
        for places in [garbage.stale, garbage.removals] {
            for place in places {
                overwrite(&self.file, &blank(place.length as usize), place.at)?;
            }
            self.file.sync_data()?;
        }
        let end = self.move_to_front(&self.lines_in_order())?;
        self.file.set_len(end)?;
        self.length = end;
        self.file.sync_data()
    }

    /// The valid lines in the order of the file: of unknown ones only the version that wrote them knows which replaces which.
    fn lines_in_order(&self) -> Vec<(LineKey, Extent)> {
        let mut lines: Vec<(LineKey, Extent)> = self.extents.iter().map(|(key, place)| (*key, *place)).collect();
        lines.sort_by_key(|(_, place)| place.at);
        lines
    }

    /// Moves lines, in the order of the file. Returns the end of the last one.
    fn move_to_front(&mut self, lines: &[(LineKey, Extent)]) -> io::Result<u64> {
        let (mut end, mut rest) = (0, lines);
        while let Some((_, first)) = rest.first() {
            let (mut copy, mut line, mut moved) = (Vec::new(), Vec::new(), Vec::new());
            let room = first.at - end;
            for (key, place) in rest {
                if (copy.len() as u64) + u64::from(place.length) > room {
                    break;
                }
                moved.push((*key, Extent { at: end + copy.len() as u64, ..*place }));
                self.read_line(*place, &mut line)?;
                copy.extend_from_slice(&line);
            }
            rest = rest.get(moved.len()..).unwrap_or_default();
            if !moved.is_empty() {
                overwrite(&self.file, &copy, end)?;
                self.file.sync_data()?;
                self.extents.extend(moved);
                end += copy.len() as u64;
            } else if let Some(((_, place), behind)) = rest.split_first() {
                // It is longer than the gap before it, and stays.
                overwrite(&self.file, &blank(room as usize), end)?;
                end = place.at + u64::from(place.length);
                rest = behind;
            }
        }
        Ok(end)
    }

    fn find_garbage(&self) -> io::Result<Garbage> {
        let mut garbage = Garbage::default();
        lines(&self.file, |place, found| match found {
            ParsedLine::Line(line) => match *line {
                Line::Put(record) if self.is_live(LineKey::Record(key_of(&record)), place) => {}
                Line::Put(_) => garbage.stale.push(place),
                Line::Drop(_) => garbage.removals.push(place),
            },
            ParsedLine::Damaged(_) => garbage.stale.push(place),
            ParsedLine::Unknown(_) | ParsedLine::Blank => {}
        })?;
        Ok(garbage)
    }

    fn is_live(&self, key: LineKey, place: Extent) -> bool {
        self.extents.get(&key).is_some_and(|live| live.at == place.at)
    }

    fn read_line(&self, place: Extent, line: &mut Vec<u8>) -> io::Result<()> {
        line.resize(place.length as usize, 0);
        self.file.read_exact_at(line, place.at)
    }
}

fn overwrite(file: &File, octets: &[u8], at: u64) -> io::Result<()> {
    #[cfg(test)]
    super::tests::power_cut(file, octets, at)?;
    file.write_all_at(octets, at)
}
