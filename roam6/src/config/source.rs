//! A file the operator wrote, and what is wrong with it: each problem says what, where, and what to do.

use super::reader;
use serde::de::DeserializeOwned;
use std::fmt;
use std::fs;
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Largest file read, octets: the prefix table of as many mobile routers as a home agent may bind, a million.
const MAX_FILE: u64 = 256 * 1024 * 1024;

/// A file and its text.
pub(crate) struct Source {
    path: PathBuf,
    text: String,
    world_readable: bool,
}

impl Source {
    /// Reads a file.
    pub(crate) fn read(path: &Path) -> Result<Source, Problem> {
        let problem = |why: String, hint: &str| Problem::of_file(path, format!("cannot be read: {why}"), hint);
        let meta = fs::metadata(path)
            .map_err(|error| problem(error.to_string(), "check the path and who may read the file"))?;
        if meta.len() > MAX_FILE {
            return Err(problem(format!("larger than {MAX_FILE} octets"), "name a smaller file"));
        }
        let text = fs::read_to_string(path)
            .map_err(|error| problem(error.to_string(), "check who may read it, and that it is UTF-8 text"))?;
        let world_readable = meta.permissions().mode() & 0o004 != 0;
        Ok(Source { path: path.to_owned(), text, world_readable })
    }

    /// A text that stands for a file.
    #[cfg(test)]
    pub(crate) fn of_text(name: &str, text: &str) -> Source {
        Source { path: PathBuf::from(name), text: text.to_owned(), world_readable: false }
    }

    /// Reads the text as TOML of the shape `T`.
    pub(crate) fn parse<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        reader::read(&self.text).map_err(|mistake| {
            let (what, hint) = explain(mistake.what.lines().next().unwrap_or("not TOML"));
            let mut problem = Problem::of_file(&self.path, what, &hint);
            problem.place = mistake.span.and_then(|span| self.place(span));
            problem
        })
    }

    /// A problem with the text of `span`.
    pub(crate) fn problem(&self, span: Range<usize>, what: impl Into<String>, hint: &str) -> Problem {
        Problem { place: self.place(span), ..Problem::of_file(&self.path, what.into(), hint) }
    }

    /// A path as the file means it: relative to the folder the file is in.
    pub(crate) fn resolve(&self, path: &Path) -> PathBuf {
        self.path.parent().map_or_else(|| path.to_owned(), |folder| folder.join(path))
    }

    /// Refuses a file that holds secrets and that everybody may read.
    pub(crate) fn keep_secret(&self) -> Result<(), Problem> {
        if !self.world_readable {
            return Ok(());
        }
        let hint = format!("run: chmod o-rwx {}", self.path.display());
        Err(Problem::of_file(&self.path, "holds a secret key and everybody may read it".to_owned(), &hint))
    }

    fn place(&self, span: Range<usize>) -> Option<Place> {
        let before = self.text.get(..span.start)?;
        let begin = before.rfind('\n').map_or(0, |at| at.saturating_add(1));
        let text = self.text.get(begin..)?.lines().next().unwrap_or_default().to_owned();
        let inside = self.text.get(span.clone()).unwrap_or_default().lines().next().unwrap_or_default();
        Some(Place {
            line: before.matches('\n').count().saturating_add(1),
            column: before.get(begin..)?.chars().count().saturating_add(1),
            width: inside.chars().count().max(1),
            text,
        })
    }
}

/// Something wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    path: PathBuf,
    place: Option<Place>,
    what: String,
    hint: String,
}

/// Where in a file; both numbers count from 1, columns in characters.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    line: usize,
    column: usize,
    width: usize,
    text: String,
}

impl Problem {
    /// A problem with a file as a whole.
    pub(crate) fn of_file(path: &Path, what: String, hint: &str) -> Problem {
        Problem { path: path.to_owned(), place: None, what, hint: hint.to_owned() }
    }

    /// One line, for the log.
    pub(crate) fn line(&self) -> String {
        let hint = if self.hint.is_empty() { String::new() } else { format!("; {}", self.hint) };
        format!("{}: {}{hint}", self.position(), self.what)
    }

    fn position(&self) -> String {
        match &self.place {
            Some(place) => format!("{}:{}:{}", self.path.display(), place.line, place.column),
            None => self.path.display().to_string(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.position(), self.what)?;
        if let Some(place) = &self.place {
            let number = place.line.to_string();
            let margin = " ".repeat(number.len());
            let indent = " ".repeat(place.column.saturating_sub(1));
            write!(f, "\n  {number} | {}\n  {margin} | {indent}{}", place.text, "^".repeat(place.width))?;
        }
        if !self.hint.is_empty() {
            write!(f, "\n  {}", self.hint)?;
        }
        Ok(())
    }
}

/// Most problems of one file that are told: one wrong prefix may spoil 100,000 rows.
const MAX_PROBLEMS: usize = 20;

/// Looks at one file and remembers its problems, so that the operator meets them all at once.
pub(crate) struct Review<'a> {
    /// The file.
    pub(crate) source: &'a Source,
    problems: Vec<Problem>,
    left_out: usize,
}

impl<'a> Review<'a> {
    /// Nothing found yet.
    pub(crate) fn new(source: &'a Source) -> Review<'a> {
        Review { source, problems: Vec::new(), left_out: 0 }
    }

    /// Remembers a problem with the text of `span`.
    pub(crate) fn blame(&mut self, span: Range<usize>, what: impl Into<String>, hint: &str) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(self.source.problem(span, what, hint));
        } else {
            self.left_out = self.left_out.saturating_add(1);
        }
    }

    /// Remembers problems found elsewhere.
    pub(crate) fn add(&mut self, problems: Vec<Problem>) {
        let room = MAX_PROBLEMS.saturating_sub(self.problems.len());
        self.left_out = self.left_out.saturating_add(problems.len().saturating_sub(room));
        self.problems.extend(problems.into_iter().take(room));
    }

    /// The value, if nothing is wrong.
    pub(crate) fn verdict<T>(mut self, value: T) -> Result<T, Vec<Problem>> {
        if self.problems.is_empty() {
            return Ok(value);
        }
        if self.left_out > 0 {
            let what = format!("{} more problems", self.left_out);
            self.problems.push(Problem::of_file(&self.source.path, what, ""));
        }
        Err(self.problems)
    }
}

/// The parser's words in ours, with a hint where one can be given.
fn explain(what: &str) -> (String, String) {
    let words: Vec<&str> = what.split('`').skip(1).step_by(2).collect();
    let [first, known @ ..] = words.as_slice() else { return (what.to_owned(), String::new()) };
    if what.starts_with("unknown field") || what.starts_with("unknown variant") {
        let kind = if what.starts_with("unknown field") { "key" } else { "value" };
        let near = known.iter().min_by_key(|name| distance(name, first));
        let hint = match near {
            Some(near) if distance(near, first) <= first.len().div_ceil(3) => format!("did you mean `{near}`?"),
            _ => format!("known here: {}", known.join(", ")),
        };
        return (format!("unknown {kind} `{first}`"), hint);
    }
    if what.starts_with("missing field") {
        return (
            format!("`{first}` is missing"),
            format!("write {first} = ... in this table; docs/config.md shows it"),
        );
    }
    (what.to_owned(), String::new())
}

/// How many letters must change to make one word the other (Levenshtein).
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.chars().count()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i.saturating_add(1);
        for (cell, b) in row.iter_mut().skip(1).zip(other.chars()) {
            let changed = diagonal.saturating_add(usize::from(a != b));
            diagonal = *cell;
            left = changed.min(left.saturating_add(1)).min(diagonal.saturating_add(1));
            *cell = left;
        }
        if let Some(first) = row.first_mut() {
            *first = i.saturating_add(1);
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_changed_letters() {
        assert_eq!(distance("home_address", "home_adress"), 1);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("same", "same"), 0);
    }

    #[test]
    fn a_place_is_counted_in_characters_from_one() {
        let source = Source::of_text("a.toml", "x = 1\nö = \"ü\" # here\n");
        let at = source.text.find("\"ü\"").unwrap();
        let problem = source.problem(at..at + 4, "no such letter", "write ue");
        assert_eq!(
            problem.to_string(),
            "a.toml:2:5: no such letter\n  2 | ö = \"ü\" # here\n    |     ^^^\n  write ue"
        );
        assert_eq!(problem.line(), "a.toml:2:5: no such letter; write ue");
    }
}
