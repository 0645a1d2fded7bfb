//! The file of a prefix table, as commands change it: locked from reading to replacing, so that concurrent runs each add
//! their row, and rewritten row by row, so that all else in it stays as it was written.

use crate::config::prefix_table::{HomeNetwork, PrefixTableBuilder};
use crate::config::source::{Problem, Source};
#[cfg(test)]
use crate::config::toml_reader::explorer::Found;
use crate::config::toml_reader::{FromToml, ParseError, TomlValue, from_toml};
use crate::files;
use roam6_proto::contract::config::nemo::PrefixTable;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::net::Ipv6Addr;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The text of a new file.
const HEAD: &str = "# Prefix table of this home agent: home addresses with their prefixes and keys. Keep it secret.\n";
/// How each row begins.
const ROW: &str = "[[mobile]]";
/// How a table says that it has no row.
const EMPTY: &str = "mobile = []";

/// A row, and the place of its own `[[mobile]]` table in the file, if it has one.
pub(crate) type PlacedRow<T> = (Option<Range<usize>>, T);

/// A prefix table file that this process may change.
pub(crate) struct TableFile {
    path: PathBuf,
    text: String,
    _lock: File,
}

/// All rows of a part of the file.
struct Rows<T>(Vec<T>);

impl<T: FromToml> FromToml for Rows<T> {
    fn from_toml(value: TomlValue<'_>) -> Result<Rows<T>, ParseError> {
        let rows: Option<Vec<T>> = value.into_table(None)?.read("mobile")?;
        Ok(Rows(rows.unwrap_or_default()))
    }

    #[cfg(test)]
    fn explore(path: &[&'static str], found: &mut Found) {
        T::explore(path, found);
    }
}

struct Address {
    home_address: Option<Ipv6Addr>,
}

from_toml!(extract Address { home_address });

impl TableFile {
    /// Locks a table and reads it; a file that does not exist is a table without rows.
    ///
    /// # Errors
    /// It cannot be locked or read.
    pub(crate) fn open(path: &Path) -> Result<TableFile, String> {
        let folder = files::folder_of(path);
        let lock = File::open(folder).and_then(|folder| folder.lock().map(|()| folder));
        let lock = lock.map_err(|error| format!("{}: {error}", folder.display()))?;
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => HEAD.to_owned(),
            Err(error) => return Err(format!("{}: {error}", path.display())),
        };
        Ok(TableFile { path: path.to_owned(), text, _lock: lock })
    }

    /// Whether a row has this home address.
    ///
    /// # Errors
    /// The file is no TOML.
    pub(crate) fn has(&self, home_address: Ipv6Addr) -> Result<bool, String> {
        let rows = self.rows::<Address>()?;
        Ok(rows.iter().any(|(_, row)| row.home_address == Some(home_address)))
    }

    /// What is of interest in each row, with the place of the row's own table, if it has one.
    ///
    /// # Errors
    /// The file is no TOML.
    pub(crate) fn rows<T: FromToml>(&self) -> Result<Vec<PlacedRow<T>>, String> {
        let source = Source::of_text(&self.path, &self.text);
        let mut rows = Vec::new();
        for part in source.parts(ROW) {
            let Rows(mobile) = source.parse_part::<Rows<T>>(part.clone()).map_err(|problem| problem.line())?;
            let own = self.row_in(part).filter(|_| mobile.len() == 1);
            rows.extend(mobile.into_iter().map(|row| (own.clone(), row)));
        }
        Ok(rows)
    }

    /// The row in a part of the file, without what follows its last value.
    fn row_in(&self, part: Range<usize>) -> Option<Range<usize>> {
        let text = self.text.get(part.clone())?;
        let begin = if text.starts_with(ROW) { 0 } else { text.find(&format!("\n{ROW}"))?.checked_add(1)? };
        let is_content = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
        let mut end = begin;
        let mut at = begin;
        for line in text.get(begin..)?.split_inclusive('\n') {
            at = at.saturating_add(line.len());
            if is_content(&line) {
                end = at;
            }
        }
        Some(part.start.checked_add(begin)?..part.start.checked_add(end)?)
    }

    /// Refuses a row that the home agent would reject beside the other rows; that at `replaced` is not one of them.
    ///
    /// # Errors
    /// What is wrong with it, or with the file.
    pub(crate) fn check<'a>(
        &self,
        row: &str,
        replaced: Option<&Range<usize>>,
        home: impl Fn() -> HomeNetwork<'a>,
    ) -> Result<(), String> {
        let others = match replaced {
            Some(place) => self.with(place, "")?,
            None => self.text.clone(),
        };
        let mut rows = PrefixTableBuilder::new(home(), &PrefixTable::default());
        rows.read_source(&Source::of_text(&self.path, &others))
            .map_err(|problems| problems.iter().map(Problem::message).collect::<String>())?;
        let (known, _) = rows.finish(&self.path);
        let mut rows = PrefixTableBuilder::new(home(), &known);
        let read = rows.read_source(&Source::of_text(&self.path, row)).map(drop);
        let refused = read.map_or_else(|problems| problems, |()| rows.finish(&self.path).1);
        refused.first().map_or(Ok(()), |problem| Err(problem.message()))
    }

    /// The text with `row` in place of what is there.
    fn with(&self, place: &Range<usize>, row: &str) -> Result<String, String> {
        let parts = self.text.get(..place.start).zip(self.text.get(place.end..));
        let (before, after) = parts.ok_or_else(|| format!("{}: no row there", self.path.display()))?;
        Ok(format!("{before}{row}{after}"))
    }

    /// Adds a row to the file, which is synced to disk.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn add(&self, row: &str) -> Result<(), String> {
        let former: String = self.text.split_inclusive('\n').filter(|line| line.trim() != EMPTY).collect();
        self.write(&format!("{former}{row}"))
    }

    fn write(&self, text: &str) -> Result<(), String> {
        files::replace(&self.path, text, files::SECRET).map_err(|error| files::not_written(&self.path, &error))
    }
}

#[cfg(feature = "setup")]
impl TableFile {
    /// Puts `row` in place of another one; `None`: removes it. The file is synced to disk. Returns the problems of other rows,
    /// because of which a home agent keeps a row that is gone.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn replace(
        &self,
        place: &Range<usize>,
        row: Option<&str>,
        home: HomeNetwork<'_>,
    ) -> Result<Vec<Problem>, String> {
        let mut text = self.with(place, row.unwrap_or_default())?;
        if !text.lines().any(|line| line.starts_with(ROW)) {
            // Else the home agent would take the file for a truncated one.
            text = format!("{}\n{EMPTY}\n", text.trim_end());
        }
        self.write(&text)?;
        let mut rows = PrefixTableBuilder::new(home, &PrefixTable::default());
        Ok(rows.read_source(&Source::of_text(&self.path, &text)).map_or_else(|all| all, |_| rows.finish(&self.path).1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> (tempfile::TempDir, TableFile) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mobiles.toml");
        files::create(&path, text, files::SECRET).unwrap();
        let table = TableFile::open(&path).unwrap();
        (folder, table)
    }

    #[cfg(feature = "setup")]
    #[test]
    fn a_row_is_removed_with_nothing_beside_it() {
        const KEY: &str = "spi = 256\nkey = \"000102030405060708090a0b0c0d0e0f10111213\"\n";
        let row = |number: u8| {
            format!(
                "[[mobile]]\nhome_address = \"2001:db8::1{number}\"\nprefixes = [\"2001:db8:{number}::/64\"]\n{KEY}"
            )
        };
        let (first, last) = (row(1), row(2));
        let (folder, former) = table(&format!("# head\n{first}\n# of the next\n\n{last}# tail\n"));
        let rows = former.rows::<Address>().unwrap();
        let [(Some(place), _), (Some(other), _)] = &rows[..] else { panic!("{}", rows.len()) };
        assert_eq!(&former.text[place.clone()], first);
        assert_eq!(&former.text[other.clone()], last);
        assert_eq!(former.replace(place, None, HomeNetwork::default()).unwrap(), []);
        let path = folder.path().join("mobiles.toml");
        drop(former);
        let left = TableFile::open(&path).unwrap();
        assert_eq!(left.text, format!("# head\n\n# of the next\n\n{last}# tail\n"));
        assert!(!left.has("2001:db8::11".parse().unwrap()).unwrap());
        let place = left.rows::<Address>().unwrap()[0].0.clone().unwrap();
        left.replace(&place, None, HomeNetwork::default()).unwrap();
        drop(left);
        let empty = TableFile::open(&path).unwrap();
        assert!(empty.text.ends_with("# tail\nmobile = []\n"), "{}", empty.text);
        assert!(empty.rows::<Address>().unwrap().is_empty());
        empty.check(&first, None, HomeNetwork::default).unwrap();
        empty.add(&first).unwrap();
        drop(empty);
        let again = TableFile::open(&path).unwrap();
        assert!(again.has("2001:db8::11".parse().unwrap()).unwrap() && !again.text.contains(EMPTY), "{}", again.text);
    }

    #[test]
    fn a_row_that_is_no_table_of_its_own_has_no_place() {
        let (_folder, inline) = table("mobile = [{ home_address = \"2001:db8::1\" }]\n");
        let rows = inline.rows::<Address>().unwrap();
        assert!(matches!(&rows[..], [(None, _)]));
        assert!(inline.has("2001:db8::1".parse().unwrap()).unwrap());
    }
}
