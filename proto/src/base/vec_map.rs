//! An ordered map for few entries, in a sorted vector; [`super::vec_set`] is the set.
//!
//! Each instance of `std`'s `BTreeMap` costs some kilobytes of code, in sum a tenth of the program on small routers. Most
//! tables of an engine are small by nature (links, uplinks, routers of a link) or limited to some hundreds of entries; there
//! the search in a vector is as fast, and an insertion moves its entries within a microsecond or two. Tables that grow with
//! the bindings of a home agent, the stations on a road or the contexts of a host use `BTreeMap`.

use core::borrow::Borrow;
use core::fmt;
use core::ops::{Bound, RangeBounds};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};

/// Values by key, in the order of the keys.
#[derive(Clone, PartialEq, Eq)]
pub struct VecMap<K, V>(Vec<(K, V)>);

impl<K, V> VecMap<K, V> {
    /// An empty map.
    pub const fn new() -> VecMap<K, V> {
        VecMap(Vec::new())
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// All keys with their values.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&K, &V)> + DoubleEndedIterator + Clone {
        self.0.iter().map(as_refs)
    }

    /// All keys.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &K> + DoubleEndedIterator + Clone {
        self.0.iter().map(|(key, _)| key)
    }

    /// All values, in the order of their keys.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &V> + DoubleEndedIterator + Clone {
        self.0.iter().map(|(_, value)| value)
    }

    /// The entries in the order of their keys, with values that may be changed.
    pub fn iter_mut(&mut self) -> impl ExactSizeIterator<Item = (&K, &mut V)> {
        self.0.iter_mut().map(|(key, value)| (&*key, value))
    }

    /// All values, which may be changed, in the order of their keys.
    pub fn values_mut(&mut self) -> impl ExactSizeIterator<Item = &mut V> {
        self.0.iter_mut().map(|(_, value)| value)
    }

    /// Consumes the map; its keys, in order.
    pub fn into_keys(self) -> impl ExactSizeIterator<Item = K> {
        self.0.into_iter().map(|(key, _)| key)
    }

    /// Consumes the map; its values, in the order of their keys.
    pub fn into_values(self) -> impl ExactSizeIterator<Item = V> {
        self.0.into_iter().map(|(_, value)| value)
    }

    /// Takes the least key out.
    pub fn pop_first(&mut self) -> Option<(K, V)> {
        (!self.0.is_empty()).then(|| self.0.remove(0))
    }

    /// Keeps only what `keep` says of.
    pub fn retain(&mut self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        self.0.retain_mut(|(key, value)| keep(key, value));
    }
}

impl<K: Ord, V> VecMap<K, V> {
    /// Where `key` is, or where it belongs.
    fn search<Q: Ord + ?Sized>(&self, key: &Q) -> Result<usize, usize>
    where
        K: Borrow<Q>,
    {
        self.0.binary_search_by(|(held, _)| held.borrow().cmp(key))
    }

    /// Whether there is `key`.
    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.search(key).is_ok()
    }

    /// The value of `key`.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let at = self.search(key).ok()?;
        self.0.get(at).map(|(_, value)| value)
    }

    /// The value of `key`, which may be changed.
    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let at = self.search(key).ok()?;
        self.0.get_mut(at).map(|(_, value)| value)
    }

    /// Inserts a value under `key` and returns the former one.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.search(&key) {
            Ok(at) => self.0.get_mut(at).map(|(_, held)| core::mem::replace(held, value)),
            Err(at) => {
                self.0.insert(at, (key, value));
                None
            }
        }
    }

    /// Takes `key` out and returns its value.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let at = self.search(key).ok()?;
        Some(self.0.remove(at).1)
    }

    /// The place of `key`, to put a value there if it has none.
    pub fn entry(&mut self, key: K) -> Entry<'_, K, V> {
        Entry { place: self.search(&key), entries: &mut self.0, key }
    }

    /// The keys within `range`, with their values.
    pub fn range(&self, range: impl RangeBounds<K>) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        let begin = match range.start_bound() {
            Bound::Included(least) => self.0.partition_point(|(key, _)| key < least),
            Bound::Excluded(before) => self.0.partition_point(|(key, _)| key <= before),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(greatest) => self.0.partition_point(|(key, _)| key <= greatest),
            Bound::Excluded(after) => self.0.partition_point(|(key, _)| key < after),
            Bound::Unbounded => self.0.len(),
        };
        self.0.get(begin..end).unwrap_or_default().iter().map(as_refs)
    }
}

/// The place of a key in a [`Map`].
#[derive(Debug)]
pub struct Entry<'a, K, V> {
    entries: &'a mut Vec<(K, V)>,
    place: Result<usize, usize>,
    key: K,
}

impl<'a, K, V> Entry<'a, K, V> {
    /// The value there, or what `make` makes, unless it fails.
    ///
    /// # Errors
    ///
    /// Those of `make`.
    #[expect(clippy::indexing_slicing, reason = "the index is that of a search, and the map is borrowed since")]
    pub fn or_try_insert_with<E>(self, make: impl FnOnce() -> Result<V, E>) -> Result<&'a mut V, E> {
        Ok(match self.place {
            Ok(at) => &mut self.entries[at].1,
            Err(at) => &mut self.entries.insert_mut(at, (self.key, make()?)).1,
        })
    }

    /// The value there, or what `make` makes.
    pub fn or_insert_with(self, make: impl FnOnce() -> V) -> &'a mut V {
        let Ok(value) = self.or_try_insert_with(|| Ok::<V, core::convert::Infallible>(make()));
        value
    }

    /// The value there, or this one.
    pub fn or_insert(self, value: V) -> &'a mut V {
        self.or_insert_with(|| value)
    }

    /// The value there, or the default.
    pub fn or_default(self) -> &'a mut V
    where
        V: Default,
    {
        self.or_insert_with(V::default)
    }
}

/// An entry as the iterators return it.
fn as_refs<K, V>((key, value): &(K, V)) -> (&K, &V) {
    (key, value)
}

impl<K, V> Default for VecMap<K, V> {
    fn default() -> Self {
        VecMap::new()
    }
}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for VecMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K: Ord, V> Extend<(K, V)> for VecMap<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, some: I) {
        some.into_iter().for_each(|(key, value)| drop(self.insert(key, value)));
    }
}

impl<K: Ord, V> FromIterator<(K, V)> for VecMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(some: I) -> Self {
        let mut map = VecMap::new();
        map.extend(some);
        map
    }
}

impl<K: Ord, V, const N: usize> From<[(K, V); N]> for VecMap<K, V> {
    fn from(some: [(K, V); N]) -> Self {
        VecMap::from_iter(some)
    }
}

impl<K, V> IntoIterator for VecMap<K, V> {
    type Item = (K, V);
    type IntoIter = std::vec::IntoIter<(K, V)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a, K, V> IntoIterator for &'a VecMap<K, V> {
    type Item = (&'a K, &'a V);
    type IntoIter = core::iter::Map<core::slice::Iter<'a, (K, V)>, fn(&'a (K, V)) -> (&'a K, &'a V)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter().map(as_refs)
    }
}

impl<'a, K, V> IntoIterator for &'a mut VecMap<K, V> {
    type Item = (&'a K, &'a mut V);
    type IntoIter = core::iter::Map<core::slice::IterMut<'a, (K, V)>, fn(&'a mut (K, V)) -> (&'a K, &'a mut V)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter_mut().map(|(key, value)| (key, value))
    }
}

impl<K: Serialize, V: Serialize> Serialize for VecMap<K, V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de, K: Deserialize<'de> + Ord, V: Deserialize<'de>> Deserialize<'de> for VecMap<K, V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MapVisitor(VecMap::new()))
    }
}

/// A map that is being read.
struct MapVisitor<K, V>(VecMap<K, V>);

impl<'de, K: Deserialize<'de> + Ord, V: Deserialize<'de>> Visitor<'de> for MapVisitor<K, V> {
    type Value = VecMap<K, V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<Self::Value, A::Error> {
        while let Some((key, value)) = entries.next_entry()? {
            self.0.insert(key, value);
        }
        Ok(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::rng::Entropy;
    use std::collections::BTreeMap;

    #[test]
    fn vec_map_behaves_like_btree_map() {
        let mut entropy = Entropy::seed_from_u64(1);
        let (mut map, mut reference) = (VecMap::new(), BTreeMap::new());
        for value in 0..20_000_u64 {
            let key = entropy.below(64);
            match entropy.below(7) {
                0..3 => assert_eq!(map.insert(key, value), reference.insert(key, value)),
                3 => assert_eq!(map.remove(&key), reference.remove(&key)),
                4 => assert_eq!(map.entry(key).or_insert(value), reference.entry(key).or_insert(value)),
                5 => assert_eq!(map.get_mut(&key), reference.get_mut(&key)),
                _ if key == 0 => assert_eq!(map.pop_first(), reference.pop_first()),
                _ if key < 4 => {
                    map.retain(|held, _| held % 3 != key % 3);
                    reference.retain(|held, _| held % 3 != key % 3);
                }
                _ => {
                    assert!(map.range(..key).eq(reference.range(..key)));
                    assert!(map.range(key..=key + 9).rev().eq(reference.range(key..=key + 9).rev()));
                }
            }
            assert!(map.iter().eq(reference.iter()), "{map:?} {reference:?}");
        }
    }

    #[test]
    fn vec_map_serializes_like_btree_map() {
        let map = VecMap::from([("b".to_owned(), 2), ("a".to_owned(), 1)]);
        let written = serde_json::to_string(&map).unwrap();
        assert_eq!(written, r#"{"a":1,"b":2}"#);
        assert_eq!(serde_json::from_str::<VecMap<String, u8>>(&written).unwrap(), map);
        assert!(serde_json::from_str::<VecMap<String, u8>>("[1]").is_err());
    }
}
