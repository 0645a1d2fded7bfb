//! A line of the journal: a checksum in hexadecimal digits, a blank, and JSON: `{"put": {KIND: record}}` or
//! `{"drop": {KIND: key}}`. Whole lines of kinds that this version does not know are those of a newer one.

use crate::error::Error;
use roam6_proto::contract::item::{JournalKey, JournalRecord};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Longest line, octets.
pub const MAX_LINE: usize = 256 * 1024;
/// Hexadecimal digits of the checksum and a blank.
const CHECK: usize = 17;
/// Longest name of an unknown kind that is shown.
const MAX_KIND: usize = 40;

/// The content of a line.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::large_enum_variant, reason = "one line at a time, taken apart at once")]
pub(super) enum Line {
    Put(JournalRecord),
    Drop(JournalKey),
}

/// The result of parsing a line.
pub(super) enum ParsedLine {
    Line(Box<Line>),
    /// Whole, but of a kind that this version does not know: its name.
    Unknown(String),
    /// Blanked by a compaction.
    Blank,
    /// Damaged; whether it ends with a newline.
    Damaged(bool),
}

impl Line {
    /// The encoded line, with its newline.
    ///
    /// # Errors
    /// The line would be longer than [`MAX_LINE`].
    pub(super) fn emit(&self) -> Result<Vec<u8>, Error> {
        let text = serde_json::to_string(self).map_err(|error| Error::new("journal", error))?;
        let length = CHECK + text.len() + 1;
        if length > MAX_LINE {
            return Err(Error::new("journal", format!("a record of {length} octets, at most {MAX_LINE}")));
        }
        Ok(format!("{:016x} {text}\n", checksum(text.as_bytes())).into_bytes())
    }
}

/// Parses a line, with its newline.
pub(super) fn parse(line: &[u8]) -> ParsedLine {
    if line.ends_with(b"\n") && line.trim_ascii().is_empty() {
        return ParsedLine::Blank;
    }
    let Some(text) = checked(line) else { return ParsedLine::Damaged(line.ends_with(b"\n")) };
    match serde_json::from_slice(text) {
        Ok(line) => ParsedLine::Line(Box::new(line)),
        Err(_) => ParsedLine::Unknown(kind_of(text)),
    }
}

/// A blank line of `length` octets.
pub(super) fn blank(length: usize) -> Vec<u8> {
    let mut blank = vec![b' '; length];
    if let Some(last) = blank.last_mut() {
        *last = b'\n';
    }
    blank
}

pub(super) fn key_of(record: &JournalRecord) -> JournalKey {
    match record {
        JournalRecord::Binding(binding) => JournalKey::Binding(binding.home_address),
        JournalRecord::Sequence(sequence) => JournalKey::Sequence(sequence.home_address),
        JournalRecord::HbaSet(set) => JournalKey::HbaSet(set.number),
        JournalRecord::CareOfPrefix(lent) => JournalKey::CareOfPrefix(lent.prefix),
        JournalRecord::Usage(usage) => JournalKey::Usage(usage.bid),
        JournalRecord::Network(network) => JournalKey::Network(network.network),
        JournalRecord::RowKeys(keys) => JournalKey::RowKeys(keys.home_address),
        JournalRecord::OwnKeys(keys) => JournalKey::OwnKeys(keys.home_address),
    }
}

/// The name of the kind of a line that this version cannot read.
fn kind_of(text: &[u8]) -> String {
    let value: Value = serde_json::from_slice(text).unwrap_or_default();
    let only = |value: &Value| {
        value.as_object().and_then(|object| Some((object.keys().next()?.clone(), object.values().next()?.clone())))
    };
    let inner = only(&value).and_then(|(_, inner)| only(&inner));
    let is_name =
        |name: &String| name.len() <= MAX_KIND && name.bytes().all(|octet| octet.is_ascii_lowercase() || octet == b'_');
    inner.map(|(name, _)| name).filter(is_name).unwrap_or_else(|| "unnamed".to_owned())
}

/// The text of a whole line.
fn checked(line: &[u8]) -> Option<&[u8]> {
    let line = line.strip_suffix(b"\n")?;
    let (check, text) = (line.get(..CHECK - 1)?, line.get(CHECK..)?);
    let check = u64::from_str_radix(str::from_utf8(check).ok()?, 16).ok()?;
    (check == checksum(text)).then_some(text)
}

/// FNV-1a: detects torn and damaged lines, not forgery.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
