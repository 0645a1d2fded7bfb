//! Certificate revocation lists of root authorities: ToBeSignedCrl in EtsiTs102941Data (ETSI TS 102 941 annex A, module
//! EtsiTs102941TrustLists), the payload of EtsiTs103097Data-Signed.
//!
//! ```text
//! 01        EtsiTs102941Data.version
//! 84        content: certificateRevocationList
//! 00        preamble: no extension additions
//! 01        version
//! 4 + 4     thisUpdate, nextUpdate: Time32
//! 02 n n    number of entries (one octet if it fits), then HashedId8 each
//! ```

use super::coer;
use super::hash::HashedId8;
use super::limits;
use super::signed_data::expect;
use crate::malformed::{Malformed, Why};
use crate::reader::Reader;
use crate::writer::Writer;
use alloc::vec::Vec;

const VERSION: u8 = 1;
/// The alternative of EtsiTs102941DataContent.
const CERTIFICATE_REVOCATION_LIST: u8 = 4;

/// A list of revoked certificates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevocationList {
    /// When it was issued: seconds of TAI since 2004.
    pub this_update: u32,
    /// When the next one is issued at the latest: seconds of TAI since 2004.
    pub next_update: u32,
    /// The revoked certificates; [`limits::REVOKED`] at most.
    pub entries: Vec<HashedId8>,
}

impl RevocationList {
    /// Parses the payload of a signed list.
    ///
    /// # Errors
    /// [`Malformed`] if it is none, or its times are contradictory.
    pub fn parse(payload: &[u8]) -> Result<RevocationList, Malformed> {
        const WHAT: &str = "certificate revocation list";
        let mut reader = Reader::new(WHAT, payload);
        expect(&mut reader, "version of EtsiTs102941Data", VERSION)?;
        expect(&mut reader, "content of EtsiTs102941Data", coer::FIRST + CERTIFICATE_REVOCATION_LIST)?;
        let preamble = coer::preamble(&mut reader, WHAT, coer::EXTENDED)?;
        expect(&mut reader, "version of the list", VERSION)?;
        let (this_update, at) = (reader.u32()?, reader.position());
        let next_update = reader.u32()?;
        if next_update <= this_update {
            return Err(Malformed { what: "nextUpdate", at, why: Why::Value(next_update.into()) });
        }
        let count = coer::count(&mut reader, "revoked certificates", (0, limits::REVOKED))?;
        let entries = (0..count).map(|_| HashedId8::read(&mut reader)).collect::<Result<_, _>>()?;
        if preamble != 0 {
            coer::skip_additions(&mut reader)?;
        }
        reader.end()?;
        Ok(RevocationList { this_update, next_update, entries })
    }

    /// The payload to be signed; entries beyond [`limits::REVOKED`] are left out.
    pub fn emit(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.u8(VERSION).u8(coer::FIRST + CERTIFICATE_REVOCATION_LIST).u8(0).u8(VERSION);
        writer.u32(self.this_update).u32(self.next_update);
        let entries = self.entries.get(..limits::REVOKED).unwrap_or(&self.entries);
        match u16::try_from(entries.len()).unwrap_or_default() {
            short @ 0..=0xff => writer.u8(1).u8((short & 0xff) as u8),
            long => writer.u8(2).u16(long),
        };
        entries.iter().for_each(|entry| {
            writer.bytes(&entry.0);
        });
        writer.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_the_module_defines_them() {
        let list = RevocationList {
            this_update: 0x1000_0000,
            next_update: 0x1000_0001,
            entries: [1, 2].map(|octet| HashedId8([octet; 8])).to_vec(),
        };
        let octets = [&[1, 0x84, 0, 1, 0x10, 0, 0, 0, 0x10, 0, 0, 1, 1, 2][..], &[1; 8], &[2; 8]].concat();
        assert_eq!(list.emit(), octets);
        assert_eq!(RevocationList::parse(&octets), Ok(list.clone()));
        let mut extended = octets.clone();
        extended[2] = 0x80;
        extended.extend([2, 7, 0x80, 1, 0]);
        assert_eq!(RevocationList::parse(&extended), Ok(list));
        for cut in 0..octets.len() {
            assert!(RevocationList::parse(&octets[..cut]).is_err(), "{cut}");
        }
        for (at, octet) in [(0, 2), (1, 0x83), (2, 1), (3, 2), (11, 0), (13, 1), (13, 3)] {
            let mut wrong = octets.clone();
            wrong[at] = octet;
            assert!(RevocationList::parse(&wrong).is_err(), "{at}");
        }
    }

    #[test]
    fn lists_have_1024_entries_at_most() {
        let list = |count| RevocationList { this_update: 1, next_update: 2, entries: vec![HashedId8([7; 8]); count] };
        for count in [0, 255, 256, 1024] {
            assert_eq!(RevocationList::parse(&list(count).emit()), Ok(list(count)));
        }
        let mut more = list(1024).emit();
        more[13] += 1;
        more.extend([7; 8]);
        assert!(RevocationList::parse(&more).is_err());
    }
}
