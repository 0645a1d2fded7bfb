//! Writer of messages, with the padding options shared by IPv6 and Mobility Headers.
//! RFC 8200 §4.2, RFC 6275 §6.2.2 and §6.2.3.

use alloc::vec::Vec;
use core::net::{Ipv4Addr, Ipv6Addr};

/// Alignment requirement of an option: `step` × n + `offset` octets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alignment {
    /// The 8 in `8n+6`, octets.
    pub step: usize,
    /// Octets beyond a multiple of `step`.
    pub offset: usize,
}

impl Alignment {
    /// No requirement.
    pub const NONE: Alignment = Alignment { step: 1, offset: 0 };

    /// At `step` times n plus `offset`; the step is one of 1, 2, 4 and 8.
    pub const fn new(step: usize, offset: usize) -> Alignment {
        Alignment { step, offset }
    }

    /// Octets of padding needed at offset `at`.
    pub fn padding(self, at: usize) -> usize {
        let step = self.step.max(1);
        (self.offset + step - at % step) % step
    }
}

/// A message being written.
#[derive(Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// An empty message.
    pub fn new() -> Self {
        Self::default()
    }

    /// Octets written so far.
    pub fn position(&self) -> usize {
        self.bytes.len()
    }

    /// The octets written so far.
    pub fn written(&self) -> &[u8] {
        &self.bytes
    }

    /// Appends an octet.
    pub fn u8(&mut self, value: u8) -> &mut Self {
        self.bytes(&[value])
    }

    /// Appends two octets.
    pub fn u16(&mut self, value: u16) -> &mut Self {
        self.bytes(&value.to_be_bytes())
    }

    /// Appends four octets.
    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes(&value.to_be_bytes())
    }

    /// Appends eight octets.
    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes(&value.to_be_bytes())
    }

    /// Appends an address.
    pub fn address(&mut self, value: Ipv6Addr) -> &mut Self {
        self.bytes(&value.octets())
    }

    /// Appends an IPv4 address.
    pub fn address4(&mut self, value: Ipv4Addr) -> &mut Self {
        self.bytes(&value.octets())
    }

    /// Appends each of `items` with `write`.
    pub fn list<T>(
        &mut self,
        items: impl IntoIterator<Item = T>,
        write: impl Fn(&mut Self, T) -> &mut Self,
    ) -> &mut Self {
        for item in items {
            write(self, item);
        }
        self
    }

    /// Appends octets as they are.
    pub fn bytes(&mut self, value: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(value);
        self
    }

    /// Appends `count` zero octets.
    pub fn zeros(&mut self, count: usize) -> &mut Self {
        self.bytes.resize(self.bytes.len() + count, 0);
        self
    }

    /// Appends padding options of `count` octets in all: Pad1, or PadN.
    pub fn pad(&mut self, count: usize) -> &mut Self {
        match count {
            0 => self,
            1 => self.u8(0),
            more => self.u8(1).u8(low(more - 2)).zeros(more - 2),
        }
    }

    /// Appends padding options until `alignment` holds for the next octet.
    pub fn align(&mut self, alignment: Alignment) -> &mut Self {
        self.pad(alignment.padding(self.position()))
    }

    /// Appends zero octets up to a multiple of `step` octets.
    pub fn zero_fill(&mut self, step: usize) -> &mut Self {
        self.zeros(Alignment::new(step, 0).padding(self.position()))
    }

    /// Overwrites octets written before, as far as they were written.
    pub fn set(&mut self, at: usize, value: &[u8]) -> &mut Self {
        for (to, from) in self.bytes.iter_mut().skip(at).zip(value) {
            *to = *from;
        }
        self
    }

    /// The message, with its `checksum` at offset `at`, which is zero until then.
    pub fn finish_with_checksum(mut self, at: usize, checksum: impl FnOnce(&[u8]) -> u16) -> Vec<u8> {
        let sum = checksum(&self.bytes);
        self.set(at, &sum.to_be_bytes());
        self.bytes
    }

    /// The message.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

/// A length as an octet; callers keep it in range.
pub(crate) fn low(length: usize) -> u8 {
    u8::try_from(length).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_brings_the_next_option_where_it_belongs() {
        for at in 0..32 {
            for (step, offset) in [(1, 0), (2, 0), (4, 1), (8, 6), (8, 2)] {
                let mut writer = Writer::new();
                writer.zeros(at).align(Alignment::new(step, offset));
                assert_eq!(writer.position() % step, offset % step);
                assert!(writer.position() < at + step);
            }
        }
    }

    #[test]
    fn padn_counts_the_octets_after_its_length() {
        let mut writer = Writer::new();
        writer.pad(1).pad(2).pad(4);
        assert_eq!(writer.finish(), [0, 1, 0, 1, 2, 0, 0]);
    }
}
