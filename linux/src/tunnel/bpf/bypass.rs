//! Destinations that the fast path leaves to the kernel, whose routes are better than any tunnel.

use super::Bpf;
use super::abi::{self, PrefixKey, Side};
use super::lengths::{release_length, use_length};
use crate::Error;
use roam6_wire::Prefix;

impl Bpf {
    pub(super) fn add_bypass(&mut self, to: Prefix) -> Result<(), Error> {
        if !self.bypasses.insert(to) {
            return Ok(());
        }
        let indexed = self.index_bypass(to);
        if indexed.is_err() {
            // Too many prefix lengths would block every later change.
            self.remove_bypass(to)?;
        }
        indexed
    }

    fn index_bypass(&mut self, to: Prefix) -> Result<(), Error> {
        let is_new = use_length(self.length_use(Side::Bypass), to);
        self.maps.prefixes.put(&abi::prefix_key(Side::Bypass, to), &abi::bypass_entry())?;
        if is_new { self.publish_lengths() } else { Ok(()) }
    }

    pub(super) fn remove_bypass(&mut self, to: Prefix) -> Result<(), Error> {
        if !self.bypasses.remove(&to) {
            return Ok(());
        }
        self.maps.prefixes.drop(&abi::prefix_key(Side::Bypass, to))?;
        if release_length(self.length_use(Side::Bypass), to) { self.publish_lengths() } else { Ok(()) }
    }

    pub(super) fn is_bypass(&self, key: &PrefixKey) -> bool {
        let found = abi::decode_prefix_key(key).filter(|(side, _)| *side == Side::Bypass);
        found.is_some_and(|(_, prefix)| self.bypasses.contains(&prefix))
    }
}
