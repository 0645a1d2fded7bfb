//! docs/config.md and the configuration have the same keys and values.

use crate::config::ConfigFile;
use crate::config::spanned::SPANNED;
use serde::de::value::{Error, MapDeserializer, SeqDeserializer};
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error as _, IntoDeserializer, SeqAccess, Visitor};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::LazyLock;

static DOCUMENT: LazyLock<String> =
    LazyLock::new(|| std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/config.md")).unwrap());

/// Deserializes along one path of keys, and lists the keys of the table at its end, or the values of the enum there.
#[derive(Clone, Copy)]
struct Explorer<'de> {
    path: &'de [&'static str],
    found: &'de RefCell<Found>,
}

#[derive(Default)]
struct Found {
    keys: Vec<&'static str>,
    values: Vec<&'static str>,
}

impl<'de> IntoDeserializer<'de, Error> for Explorer<'de> {
    type Deserializer = Explorer<'de>;

    fn into_deserializer(self) -> Explorer<'de> {
        self
    }
}

impl<'de> Deserializer<'de> for Explorer<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(Error::custom("a plain value"))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_seq(SeqDeserializer::new(std::iter::once(self)))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, Error> {
        if name == SPANNED { visitor.visit_seq(SpannedValue(0, self)) } else { visitor.visit_newtype_struct(self) }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_map(MapDeserializer::new(std::iter::once(("NAME", self))))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        keys: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let Some((next, path)) = self.path.split_first() else {
            self.found.borrow_mut().keys.extend(keys);
            return Err(Error::custom("the end of the path"));
        };
        visitor.visit_map(MapDeserializer::new(std::iter::once((*next, Explorer { path, ..self }))))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        values: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Error> {
        self.found.borrow_mut().values.extend(values);
        Err(Error::custom("an enum"))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct tuple
        tuple_struct identifier ignored_any
    }
}

/// The two ends of the span, then the value, as [`crate::config::spanned::Spanned`] expects them.
struct SpannedValue<'de>(u8, Explorer<'de>);

impl<'de> SeqAccess<'de> for SpannedValue<'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        self.0 += 1;
        match self.0 {
            1 | 2 => seed.deserialize(0_u64.into_deserializer()).map(Some),
            _ => seed.deserialize(self.1).map(Some),
        }
    }
}

/// A configuration key with the tables that contain it.
type KeyPath = Vec<&'static str>;

/// All keys of the configuration by their tables, and the values of those that are enums.
fn explore() -> (Vec<KeyPath>, Vec<(KeyPath, &'static str)>) {
    let (mut keys, mut values, mut queue) = (Vec::new(), Vec::new(), vec![Vec::new()]);
    while let Some(path) = queue.pop() {
        let found = RefCell::default();
        let error = ConfigFile::deserialize(Explorer { path: &path, found: &found }).err();
        assert!(error.is_some(), "{path:?}: a value was made of nothing");
        let Found { keys: below, values: known } = found.into_inner();
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
