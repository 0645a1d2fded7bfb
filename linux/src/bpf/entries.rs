//! Hash maps of BPF programs, typed.

use crate::error::{Context, Error};
use aya::maps::{HashMap, Map, MapData, MapError};
use std::io;

type Table<K, V> = HashMap<MapData, K, V>;

/// A hash map with a name for its errors.
pub(crate) struct Entries<K: aya::Pod, V: aya::Pod> {
    name: &'static str,
    table: Table<K, V>,
}

impl<K: aya::Pod, V: aya::Pod> Entries<K, V> {
    pub(crate) fn new(name: &'static str, map: Map) -> Result<Self, Error> {
        Ok(Entries { name, table: Table::try_from(map).context(format_args!("map {name}"))? })
    }

    /// Sets the value of `key` atomically: a packet sees the former value or the new one.
    pub(crate) fn put(&mut self, key: &K, value: &V) -> Result<(), Error> {
        self.table.insert(key, value, 0).context(format_args!("map {}", self.name))
    }

    /// Removes `key`, which need not exist.
    pub(crate) fn drop(&mut self, key: &K) -> Result<(), Error> {
        match self.table.remove(key) {
            Err(error) if is_absent(&error) => Ok(()),
            other => other.context(format_args!("map {}", self.name)),
        }
    }

    /// Removes the keys that `is_kept` is false for.
    pub(crate) fn retain(&mut self, is_kept: impl Fn(&K) -> bool) -> Result<(), Error> {
        self.keys()?.iter().filter(|key| !is_kept(key)).try_for_each(|key| self.drop(key))
    }

    /// The value of `key`.
    pub(crate) fn find(&self, key: &K) -> Option<V> {
        self.table.get(key, 0).ok()
    }

    /// All keys.
    pub(crate) fn keys(&self) -> Result<Vec<K>, Error> {
        self.table.keys().collect::<Result<_, _>>().context(format_args!("map {}", self.name))
    }
}

fn is_absent(error: &MapError) -> bool {
    match error {
        MapError::KeyNotFound | MapError::ElementNotFound => true,
        MapError::SyscallError(error) => error.io_error.kind() == io::ErrorKind::NotFound,
        _ => false,
    }
}

impl<T> Context<T> for Result<T, MapError> {
    fn context(self, what: impl core::fmt::Display) -> Result<T, Error> {
        self.map_err(|error| match error {
            MapError::SyscallError(error) => Error::new(what, error.io_error),
            other => Error::new(what, other),
        })
    }
}
