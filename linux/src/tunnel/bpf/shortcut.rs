//! Destinations that the fast path leaves to the kernel, whose routes know a better way than any tunnel.

use super::{Bpf, leave_length, use_length};
use crate::Error;
use crate::bpf::abi::{self, PrefixKey, Side};
use roam6_wire::Prefix;

impl Bpf {
    pub(super) fn lead_past(&mut self, to: Prefix) -> Result<(), Error> {
        if !self.shortcuts.insert(to) {
            return Ok(());
        }
        let led = self.enter_past(to);
        if led.is_err() {
            // Lengths that do not fit would be in the way of everything that follows.
            self.lead_past_no_more(to)?;
        }
        led
    }

    fn enter_past(&mut self, to: Prefix) -> Result<(), Error> {
        let is_new = use_length(self.used(Side::Past), to);
        self.maps.prefixes.put(&abi::prefix_key(Side::Past, to), &abi::way_past())?;
        if is_new { self.publish_lengths() } else { Ok(()) }
    }

    pub(super) fn lead_past_no_more(&mut self, to: Prefix) -> Result<(), Error> {
        if !self.shortcuts.remove(&to) {
            return Ok(());
        }
        self.maps.prefixes.drop(&abi::prefix_key(Side::Past, to))?;
        if leave_length(self.used(Side::Past), to) { self.publish_lengths() } else { Ok(()) }
    }

    pub(super) fn is_shortcut(&self, key: &PrefixKey) -> bool {
        let found = abi::decode_prefix_key(key).filter(|(side, _)| *side == Side::Past);
        found.is_some_and(|(_, prefix)| self.shortcuts.contains(&prefix))
    }
}
