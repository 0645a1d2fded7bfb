//! Keys and values of maps as octets, in the order of the C structures.

use std::net::Ipv6Addr;

/// Exactly `N` octets, padded with zeros.
pub(crate) fn layout<const N: usize>(write: impl FnOnce(&mut Vec<u8>)) -> [u8; N] {
    let mut out = Vec::with_capacity(N);
    write(&mut out);
    out.resize(N, 0);
    out.try_into().unwrap_or([0; N])
}

/// Reads fields one after the other; `None` where there are no more.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl Reader<'_> {
    pub(crate) fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (octets, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*octets)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_ne_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_ne_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_ne_bytes)
    }

    pub(crate) fn address(&mut self) -> Option<Ipv6Addr> {
        self.take::<16>().map(Ipv6Addr::from)
    }
}
