//! docs/config.md and the configuration have the same keys and values.

use crate::config::ConfigFile;
use crate::config::toml_reader::FromToml;
use crate::config::toml_reader::explorer::Found;
use std::collections::BTreeSet;
use std::sync::LazyLock;

static DOCUMENT: LazyLock<String> =
    LazyLock::new(|| std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/config.md")).unwrap());

/// A configuration key with the tables that contain it.
type KeyPath = Vec<&'static str>;

/// All keys of the configuration by their tables, and the values of those that are enums.
fn explore() -> (Vec<KeyPath>, Vec<(KeyPath, &'static str)>) {
    let (mut keys, mut values, mut queue) = (Vec::new(), Vec::new(), vec![Vec::new()]);
    while let Some(path) = queue.pop() {
        let mut found = Found::default();
        ConfigFile::explore(&path, &mut found);
        let Found { keys: below, values: known } = found;
        values.extend(known.into_iter().map(|value| (path.clone(), value)));
        for key in below {
            let path = [&path[..], &[key]].concat();
            keys.push(path.clone());
            queue.push(path);
        }
    }
    (keys, values)
}

/// The part of the document about the table `role`; about the host for a key of no role.
fn section(role: &str) -> &'static str {
    let sections = DOCUMENT.split("\n## ");
    let of_role = sections.clone().find(|section| section.starts_with(&format!("`[{role}]`")));
    of_role.or_else(|| sections.clone().find(|section| section.starts_with("The host"))).unwrap()
}

/// The words of a text that are set as code.
fn code(text: &str) -> BTreeSet<&str> {
    let spans = text.split('`').skip(1).step_by(2);
    spans.flat_map(|span| span.split(|c: char| !(c.is_ascii_alphanumeric() || "_-".contains(c)))).collect()
}

#[test]
fn every_configuration_key_and_value_is_in_the_document() {
    let (keys, values) = explore();
    assert!(keys.len() > 150 && values.len() > 30, "{} keys, {} values", keys.len(), values.len());
    let key_files = DOCUMENT.split("\n## Key files").nth(1).unwrap();
    for path in &keys {
        let words = code(section(path[0]));
        let last = *path.last().unwrap();
        let in_key_file = path.contains(&"ipsec") && key_files.contains(&format!("{last} "));
        assert!(words.contains(last) || in_key_file, "docs/config.md lacks {}", path.join("."));
    }
    let known = |path: &[&str], value| code(section(path[0])).contains(value) || key_files.contains(value);
    let missing: Vec<_> = values.iter().filter(|(path, value)| !known(path, *value)).collect();
    assert!(missing.is_empty(), "docs/config.md lacks the values {missing:?}");
}

#[test]
fn every_key_in_the_document_is_a_configuration_key() {
    let (keys, _) = explore();
    let mut rows = 0;
    for part in DOCUMENT.split("\n## ").skip(1) {
        let role = part.strip_prefix("`[").and_then(|rest| rest.split(']').next());
        let of_role = |path: &&Vec<&str>| role.is_none_or(|role| path[0] == role);
        let known: BTreeSet<&str> = keys.iter().filter(of_role).flatten().copied().collect();
        for line in part.lines().filter(|line| line.starts_with("| `")) {
            let first = line.split('|').nth(1).unwrap();
            for span in first.split('`').skip(1).step_by(2) {
                let words = span.split(['[', ']', '.', ' ']).filter(|word| !word.is_empty() && *word != "NAME");
                for word in words {
                    // The rows of a prefix table are written in a file of their own as well.
                    assert!(known.contains(word), "docs/config.md has {word} in `{span}`, the configuration has not");
                }
            }
            rows += 1;
        }
    }
    assert!(rows > 100, "{rows}");
}
