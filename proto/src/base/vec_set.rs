//! An ordered set of few values.

use crate::base::vec_map::VecMap;
use core::borrow::Borrow;
use core::fmt;
use core::ops::RangeBounds;
use serde::de::{Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};

/// An ordered set in a sorted vector.
#[derive(Clone, PartialEq, Eq)]
pub struct VecSet<T>(VecMap<T, ()>);

impl<T> VecSet<T> {
    /// An empty set.
    pub const fn new() -> VecSet<T> {
        VecSet(VecMap::new())
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All values in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &T> + DoubleEndedIterator + Clone {
        self.0.keys()
    }

    /// Keeps the values for which `keep` returns true.
    pub fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        self.0.retain(|held, ()| keep(held));
    }
}

impl<T: Ord> VecSet<T> {
    /// Whether the set contains a value.
    pub fn contains<Q: Ord + ?Sized>(&self, one: &Q) -> bool
    where
        T: Borrow<Q>,
    {
        self.0.contains_key(one)
    }

    /// Inserts a value; returns whether it is new.
    pub fn insert(&mut self, one: T) -> bool {
        self.0.insert(one, ()).is_none()
    }

    /// Removes a value; returns whether it was present.
    pub fn remove<Q: Ord + ?Sized>(&mut self, one: &Q) -> bool
    where
        T: Borrow<Q>,
    {
        self.0.remove(one).is_some()
    }

    /// The values within `range`, in order.
    pub fn range(&self, range: impl RangeBounds<T>) -> impl DoubleEndedIterator<Item = &T> {
        self.0.range(range).map(|(held, ())| held)
    }

    /// The values that are not in `other`.
    pub fn difference(&self, other: &VecSet<T>) -> impl Iterator<Item = &T> {
        self.iter().filter(|held| !other.contains(*held))
    }
}

impl<T> Default for VecSet<T> {
    fn default() -> Self {
        VecSet::new()
    }
}

impl<T: fmt::Debug> fmt::Debug for VecSet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl<T: Ord> Extend<T> for VecSet<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, some: I) {
        self.0.extend(some.into_iter().map(|one| (one, ())));
    }
}

impl<T: Ord> FromIterator<T> for VecSet<T> {
    fn from_iter<I: IntoIterator<Item = T>>(some: I) -> Self {
        VecSet(some.into_iter().map(|one| (one, ())).collect())
    }
}

impl<T: Ord, const N: usize> From<[T; N]> for VecSet<T> {
    fn from(some: [T; N]) -> Self {
        VecSet::from_iter(some)
    }
}

impl<T> IntoIterator for VecSet<T> {
    type Item = T;
    type IntoIter = core::iter::Map<std::vec::IntoIter<(T, ())>, fn((T, ())) -> T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter().map(|(one, ())| one)
    }
}

impl<'a, T> IntoIterator for &'a VecSet<T> {
    type Item = &'a T;
    type IntoIter = core::iter::Map<<&'a VecMap<T, ()> as IntoIterator>::IntoIter, fn((&'a T, &'a ())) -> &'a T>;

    fn into_iter(self) -> Self::IntoIter {
        (&self.0).into_iter().map(|(one, ())| one)
    }
}

impl<T: Serialize> Serialize for VecSet<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de, T: Deserialize<'de> + Ord> Deserialize<'de> for VecSet<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(VecSet::from_iter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn vec_set_behaves_like_btree_set() {
        let some = ["b", "a", "c", "a"];
        let (set, reference) = (VecSet::from(some), BTreeSet::from(some));
        assert!(set.iter().eq(&reference) && set.len() == reference.len());
        assert_eq!(format!("{set:?}"), format!("{reference:?}"));
        let written = serde_json::to_string(&set).unwrap();
        assert_eq!(written, serde_json::to_string(&reference).unwrap());
        assert_eq!(serde_json::from_str::<VecSet<&str>>(&written).unwrap(), set);
        let less = VecSet::from(["a", "d"]);
        assert!(set.difference(&less).eq(["b", "c"].iter()));
    }
}
