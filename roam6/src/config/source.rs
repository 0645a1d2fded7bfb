//! A configuration file and its problems, each with its location and a remedy.

use super::toml_reader::{self, FromToml};
use nix::fcntl::OFlag;
use std::fmt;
use std::fs::OpenOptions;
use std::io::Read;
use std::ops::Range;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use strsim::levenshtein;

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
    ///
    /// # Errors
    /// It cannot be read, is not a regular file, or is too large.
    pub(crate) fn read(path: &Path) -> Result<Source, Problem> {
        let problem = |why: String, hint: &str| Problem::of_file(path, format!("cannot be read: {why}"), hint);
        // A pipe without a writer must not block the daemon.
        let opened = OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path);
        let opened = opened.and_then(|file| file.metadata().map(|meta| (file, meta)));
        let (mut file, meta) =
            opened.map_err(|error| problem(error.to_string(), "check the path and its permissions"))?;
        if !meta.is_file() {
            return Err(problem("not a regular file".to_owned(), "name a regular file, no pipe, device or folder"));
        }
        if meta.len() > MAX_FILE {
            return Err(problem(format!("larger than {MAX_FILE} octets"), "name a smaller file"));
        }
        let mut text = String::new();
        file.read_to_string(&mut text)
            .map_err(|error| problem(error.to_string(), "check its permissions, and that it is UTF-8 text"))?;
        let world_readable = meta.permissions().mode() & 0o004 != 0;
        Ok(Source { path: path.to_owned(), text, world_readable })
    }

    /// A text in place of the file at `path`.
    pub(crate) fn of_text(path: impl AsRef<Path>, text: &str) -> Source {
        Source { path: path.as_ref().to_owned(), text: text.to_owned(), world_readable: false }
    }

    /// Parses the text as a TOML document of type `T`.
    ///
    /// # Errors
    /// The first problem.
    pub(crate) fn parse<T: FromToml>(&self) -> Result<T, Problem> {
        self.parse_part(0..self.text.len())
    }

    /// The same of a part of the text.
    pub(crate) fn parse_part<T: FromToml>(&self, part: Range<usize>) -> Result<T, Problem> {
        let text = self.text.get(part.clone()).unwrap_or_default();
        toml_reader::read_part(text, part.start).map_err(|mistake| {
            let (what, hint) = explain_parse_error(mistake.what.lines().next().unwrap_or("not TOML"));
            let mut problem = Problem::of_file(&self.path, what, &hint);
            problem.location = mistake.span.and_then(|span| self.locate(span));
            problem
        })
    }

    /// A problem with the text of `span`.
    pub(crate) fn problem(&self, span: Range<usize>, what: impl Into<String>, hint: &str) -> Problem {
        Problem { location: self.locate(span), ..Problem::of_file(&self.path, what.into(), hint) }
    }

    /// The text before the first line `header`, and then the part that each such line begins.
    pub(crate) fn parts(&self, header: &str) -> Vec<Range<usize>> {
        let mut begins = vec![0];
        let mut at = 0_usize;
        for line in self.text.split_inclusive('\n') {
            if at > 0 && line.trim_start().starts_with(header) {
                begins.push(at);
            }
            at = at.saturating_add(line.len());
        }
        let ends = begins.iter().copied().skip(1).chain([at]);
        begins.iter().zip(ends).map(|(begin, end)| *begin..end).collect()
    }

    /// Resolves a path relative to the directory of the file.
    pub(crate) fn resolve(&self, path: &Path) -> PathBuf {
        self.path.parent().map_or_else(|| path.to_owned(), |folder| folder.join(path))
    }

    /// The whole text.
    #[cfg(feature = "fleet")]
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Refuses a world-readable file with secrets.
    ///
    /// # Errors
    /// The file is world-readable.
    pub(crate) fn refuse_world_readable(&self) -> Result<(), Problem> {
        if !self.world_readable {
            return Ok(());
        }
        let hint = format!("run: chmod o-rwx {}", self.path.display());
        Err(Problem::of_file(&self.path, "contains a secret key and is readable by all users".to_owned(), &hint))
    }

    fn locate(&self, span: Range<usize>) -> Option<Location> {
        let before = self.text.get(..span.start)?;
        let begin = before.rfind('\n').map_or(0, |at| at.saturating_add(1));
        let text = self.text.get(begin..)?.lines().next().unwrap_or_default().to_owned();
        let inside = self.text.get(span.clone()).unwrap_or_default().lines().next().unwrap_or_default();
        Some(Location {
            line: before.matches('\n').count().saturating_add(1),
            column: before.get(begin..)?.chars().count().saturating_add(1),
            width: inside.chars().count().max(1),
            text,
        })
    }
}

/// A problem of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    path: PathBuf,
    location: Option<Location>,
    what: String,
    hint: String,
}

/// Location in a file; line and column count from 1, columns in characters.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Location {
    line: usize,
    column: usize,
    width: usize,
    text: String,
}

impl Problem {
    /// A problem with a file as a whole.
    pub(crate) fn of_file(path: &Path, what: String, hint: &str) -> Problem {
        Problem { path: path.to_owned(), location: None, what, hint: hint.to_owned() }
    }

    /// The problem and its remedy, without the location.
    pub(crate) fn message(&self) -> String {
        format!("{}; {}", self.what, self.hint)
    }

    /// One line, for the log.
    pub(crate) fn line(&self) -> String {
        let hint = if self.hint.is_empty() { String::new() } else { format!("; {}", self.hint) };
        format!("{}: {}{hint}", self.path_and_position(), self.what)
    }

    fn path_and_position(&self) -> String {
        match &self.location {
            Some(place) => format!("{}:{}:{}", self.path.display(), place.line, place.column),
            None => self.path.display().to_string(),
        }
    }

    /// Where and what, in one line.
    #[cfg(feature = "doctor")]
    pub(crate) fn without_hint(&self) -> String {
        format!("{}: {}", self.path_and_position(), self.what)
    }

    /// The remedy.
    #[cfg(feature = "doctor")]
    pub(crate) fn hint(&self) -> &str {
        &self.hint
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path_and_position(), self.what)?;
        if let Some(place) = &self.location {
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

/// Most problems reported for one file: one wrong prefix may affect 100,000 rows.
const MAX_PROBLEMS: usize = 20;

/// Problems up to a limit, and the number of omitted ones.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    listed: Vec<Problem>,
    omitted: usize,
}

impl Problems {
    /// How many more can be added.
    fn capacity(&self) -> usize {
        MAX_PROBLEMS.saturating_sub(self.listed.len())
    }

    /// Adds others up to the limit.
    pub(crate) fn extend(&mut self, more: Problems) {
        let room = self.capacity();
        self.omitted = self.omitted.saturating_add(more.omitted).saturating_add(more.listed.len().saturating_sub(room));
        self.listed.extend(more.listed.into_iter().take(room));
    }

    /// Adds one.
    pub(crate) fn push(&mut self, problem: Problem) {
        self.extend(Problems { listed: vec![problem], omitted: 0 });
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.listed.is_empty() && self.omitted == 0
    }

    /// The problems; a last one has the number of omitted ones.
    pub(crate) fn into_vec(mut self, path: &Path) -> Vec<Problem> {
        if self.omitted > 0 {
            self.listed.push(Problem::of_file(path, format!("{} more problems", self.omitted), ""));
        }
        self.listed
    }
}

/// Collects the problems of one file, so that all of them are reported at once.
pub(crate) struct Diagnostics<'a> {
    /// The file.
    pub(crate) source: &'a Source,
    problems: Problems,
    /// Limit of problems: locating a problem is expensive.
    capacity: usize,
}

impl<'a> Diagnostics<'a> {
    /// Without problems.
    pub(crate) fn new(source: &'a Source) -> Diagnostics<'a> {
        Diagnostics { source, problems: Problems::default(), capacity: MAX_PROBLEMS }
    }

    /// Without problems, for a limit shared with `others`.
    pub(crate) fn sharing_limit_with(source: &'a Source, others: &Problems) -> Diagnostics<'a> {
        Diagnostics { capacity: others.capacity(), ..Diagnostics::new(source) }
    }

    /// Reports a problem of the text in `span`.
    pub(crate) fn report(&mut self, span: Range<usize>, what: impl Into<String>, hint: &str) {
        if self.problems.listed.len() < self.capacity {
            self.problems.listed.push(self.source.problem(span, what, hint));
        } else {
            self.problems.omitted = self.problems.omitted.saturating_add(1);
        }
    }

    /// Reports a problem of the text in `span`, which leaves no value.
    pub(crate) fn refuse<T>(&mut self, span: Range<usize>, what: impl Into<String>, hint: &str) -> Option<T> {
        self.report(span, what, hint);
        None
    }

    /// Adds problems found elsewhere.
    pub(crate) fn add(&mut self, problems: Vec<Problem>) {
        self.problems.extend(Problems { listed: problems, omitted: 0 });
    }

    /// The problems, if any.
    pub(crate) fn into_problems(self) -> Option<Problems> {
        Some(self.problems).filter(|problems| !problems.is_empty())
    }

    /// The value if there are no problems.
    ///
    /// # Errors
    /// The problems.
    pub(crate) fn finish<T>(self, value: T) -> Result<T, Vec<Problem>> {
        let path = &self.source.path;
        if self.problems.is_empty() { Ok(value) } else { Err(self.problems.into_vec(path)) }
    }
}

/// Remedies for messages of the parser.
const HINTS: [(&str, &str); 4] = [
    ("invalid type: map, expected a sequence", "write the name in double brackets, as [[table]]: there may be several"),
    ("invalid type: integer", "write it in quotes; a duration with its unit, as \"600s\""),
    (
        "invalid IPv6 address syntax",
        "write an IPv6 address, as \"2001:db8::1\"; host names are not looked up, and a home agent's IPv4 address belongs \
         into home_agents_ipv4",
    ),
    ("invalid IPv4 address syntax", "write an IPv4 address, as \"192.0.2.1\"; host names are not looked up"),
];

/// A message of the parser in the terms of the configuration, with a remedy if there is one.
fn explain_parse_error(what: &str) -> (String, String) {
    let wants_text = what.contains("expected a string") || !what.starts_with("invalid type: integer");
    if let Some((_, hint)) = HINTS.iter().find(|(begin, _)| wants_text && what.starts_with(begin)) {
        return (what.to_owned(), (*hint).to_owned());
    }
    let words: Vec<&str> = what.split('`').skip(1).step_by(2).collect();
    let [first, known @ ..] = words.as_slice() else { return (what.to_owned(), String::new()) };
    if what.starts_with("unknown field") || what.starts_with("unknown variant") {
        let kind = if what.starts_with("unknown field") { "key" } else { "value" };
        let near = known.iter().min_by_key(|name| levenshtein(name, first));
        let hint = match near {
            Some(near) if levenshtein(near, first) <= first.len().div_ceil(3) => format!("did you mean `{near}`?"),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters_from_one() {
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
