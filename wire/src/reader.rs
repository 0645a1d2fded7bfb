//! Sequential reader of untrusted bytes that never reads past the end.

use crate::malformed::{Malformed, Why};
use alloc::vec::Vec;
use core::net::{Ipv4Addr, Ipv6Addr};

/// The unread bytes, their offset, and the name of what is parsed.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    what: &'static str,
    rest: &'a [u8],
    from: usize,
    at: usize,
}

impl<'a> Reader<'a> {
    /// A reader at offset 0 of `bytes`; `what` names it in errors.
    pub fn new(what: &'static str, bytes: &'a [u8]) -> Self {
        Self { what, rest: bytes, from: 0, at: 0 }
    }

    /// Offset of the next octet from the start of the outermost reader's bytes.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Octets left.
    pub fn len(&self) -> usize {
        self.rest.len()
    }

    /// Whether all octets were read.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next octet.
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        self.array().map(u8::from_be_bytes)
    }

    /// The next two octets.
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_be_bytes)
    }

    /// The next four octets.
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_be_bytes)
    }

    /// The next eight octets.
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_be_bytes)
    }

    /// The next sixteen octets.
    pub fn address(&mut self) -> Result<Ipv6Addr, Malformed> {
        self.array::<16>().map(Ipv6Addr::from)
    }

    /// The next four octets, as an IPv4 address.
    pub fn address4(&mut self) -> Result<Ipv4Addr, Malformed> {
        self.array::<4>().map(Ipv4Addr::from)
    }

    /// The next `N` octets.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or_else(|| self.short(N))?;
        self.rest = rest;
        self.at += N;
        Ok(*taken)
    }

    /// The next `count` octets.
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or_else(|| self.short(count))?;
        self.rest = rest;
        self.at += count;
        Ok(taken)
    }

    /// Skips `count` octets: reserved fields are ignored on receipt.
    pub fn skip(&mut self, count: usize) -> Result<(), Malformed> {
        self.bytes(count).map(drop)
    }

    /// All octets left.
    pub fn rest(&mut self) -> &'a [u8] {
        self.at += self.rest.len();
        core::mem::take(&mut self.rest)
    }

    /// Calls `read` until all octets are read; its results.
    ///
    /// # Errors
    /// The error of `read`, and [`Why::TooMany`] for more than `limit` items.
    pub fn list<T>(
        &mut self,
        limit: usize,
        mut read: impl FnMut(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let mut items = Vec::new();
        while !self.is_empty() {
            if items.len() == limit {
                return Err(self.malformed(Why::TooMany(limit)));
            }
            items.push(read(self)?);
        }
        Ok(items)
    }

    /// A reader of the next `count` octets with its own name for errors; positions continue from here.
    pub fn part(&mut self, what: &'static str, count: usize) -> Result<Reader<'a>, Malformed> {
        let at = self.at;
        Ok(Reader { what, rest: self.bytes(count)?, from: at, at })
    }

    /// Checks that all octets were read.
    pub fn end(&self) -> Result<(), Malformed> {
        let needs = self.at - self.from;
        if self.is_empty() { Ok(()) } else { Err(self.malformed(Why::Length { has: needs + self.len(), needs })) }
    }

    /// An error at the next octet.
    pub fn malformed(&self, why: Why) -> Malformed {
        Malformed { what: self.what, at: self.at, why }
    }

    fn short(&self, needs: usize) -> Malformed {
        self.malformed(Why::Short { has: self.rest.len(), needs })
    }
}

/// The octets of a header by the length in its second octet: units of eight octets after the first eight.
pub(crate) fn header_octets<'a>(what: &'static str, bytes: &'a [u8]) -> Result<&'a [u8], Malformed> {
    let mut reader = Reader::new(what, bytes);
    reader.skip(1)?;
    let needs = (usize::from(reader.u8()?) + 1) * 8;
    bytes.get(..needs).ok_or(Malformed { what, at: 1, why: Why::Short { has: bytes.len(), needs } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_keeps_counting_positions_and_cannot_be_overrun() {
        let mut whole = Reader::new("whole", &[1, 2, 3, 4, 5]);
        assert_eq!(whole.u8(), Ok(1));
        let mut part = whole.part("part", 2).unwrap();
        assert_eq!(part.u8(), Ok(2));
        assert_eq!(part.u16(), Err(Malformed { what: "part", at: 2, why: Why::Short { has: 1, needs: 2 } }));
        assert!(part.end().is_err());
        assert_eq!(part.rest(), [3]);
        assert_eq!(part.end(), Ok(()));
        assert_eq!((whole.position(), whole.u16()), (3, Ok(0x0405)));
    }
}
