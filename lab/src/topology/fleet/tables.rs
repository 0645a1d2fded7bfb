//! What members have in their tables, and what the store has.

use super::Member;
use crate::clock;
use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::thread::sleep;
use std::time::Duration;

/// Home addresses with the sequence number and the care-of address of their bindings.
pub(crate) type Table = BTreeMap<String, (u64, String)>;

/// How long members may take until they have the same.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Least number of times that tables are compared.
const PASSES: u32 = 3;
/// Records of the store.
const RECORDS: &str = "/roam6/lab/b/";

impl Member {
    /// Its bindings.
    pub(crate) fn bindings(&self) -> Result<Table> {
        let rows: Vec<Value> = self.daemon.show("bindings")?;
        let row = |row: &Value| {
            let text = |name: &str| row.get(name).and_then(Value::as_str).map(str::to_owned);
            Some((text("home_address")?, (row.get("sequence")?.as_u64()?, text("care_of")?)))
        };
        Ok(rows.iter().filter_map(row).collect())
    }

    /// The bindings that its node of the store has, as a quorum has them.
    pub(crate) fn stored(&self) -> Result<Table> {
        let text = self.etcdctl(&["get", "--prefix", RECORDS])?;
        let lines: Vec<&str> = text.lines().collect();
        let mut table = Table::new();
        for pair in lines.chunks_exact(2) {
            let [key, value] = pair else { continue };
            let home = key.strip_prefix(RECORDS).context("a key of others")?;
            let record: Value = serde_json::from_str(value)?;
            let sequence = record.pointer("/binding/sequence").and_then(Value::as_u64).context("no sequence number")?;
            // A binding that has ended has no care-of address.
            if let Some(care_of) = record.pointer("/binding/care_of/0/1").and_then(Value::as_str) {
                table.insert(home.to_owned(), (sequence, care_of.to_owned()));
            }
        }
        Ok(table)
    }
}

/// The table of the first member, and the rows in which another member differs from it: as text, with both. Tables are read one
/// after the other, while bindings are refreshed: a row differs if it does in each of several passes.
pub(crate) fn common_table(members: &[Member]) -> Result<(Table, Vec<String>)> {
    let (first, others) = members.split_first().context("no members")?;
    let (end, mut passes, mut lasting) = (clock::now() + TIMEOUT, 0, None);
    loop {
        let table = first.bindings()?;
        let mut found = BTreeMap::new();
        for member in others {
            let name = member.daemon.host.name();
            found.extend(differences(&member.bindings()?, &table).into_iter().map(|(home, what)| ((name, home), what)));
        }
        found.retain(|row, _| lasting.as_ref().is_none_or(|before: &BTreeMap<_, _>| before.contains_key(row)));
        passes += 1;
        if found.is_empty() || passes >= PASSES && clock::now() > end {
            let differing = found.into_iter().map(|((name, home), what)| format!("{name}: {home} {what}"));
            return Ok((table, differing.collect()));
        }
        lasting = Some(found);
        sleep(Duration::from_millis(200));
    }
}

/// The rows of members that differ from what the store has, after some time: as text, with both.
pub(crate) fn differing_from_store(members: &[Member]) -> Result<Vec<String>> {
    let end = clock::now() + TIMEOUT;
    loop {
        let stored = members.first().context("no members")?.stored()?;
        let mut differing = Vec::new();
        for member in members {
            let name = member.daemon.host.name();
            let all = differences(&member.bindings()?, &stored);
            differing.extend(all.into_iter().map(|(home, what)| format!("{name}: {home} {what}")));
        }
        if differing.is_empty() || clock::now() > end {
            return Ok(differing);
        }
        sleep(Duration::from_millis(200));
    }
}

/// The home addresses whose rows differ, and how.
fn differences(table: &Table, expected: &Table) -> BTreeMap<String, String> {
    let homes: BTreeSet<&String> = table.keys().chain(expected.keys()).collect();
    let difference = |home: &String| {
        let (has, wanted) = (table.get(home), expected.get(home));
        (has != wanted).then(|| (home.clone(), format!("is {has:?}, and {wanted:?} was expected")))
    };
    homes.into_iter().filter_map(difference).collect()
}
