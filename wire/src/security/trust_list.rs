//! Certificate trust lists of a trust list manager and of root authorities: ToBeSignedTlmCtl and ToBeSignedRcaCtl in
//! EtsiTs102941Data (ETSI TS 102 941 annex A, module EtsiTs102941TrustLists), the payload of EtsiTs103097Data-Signed.
//!
//! ```text
//! 01        EtsiTs102941Data.version
//! 85, 86    content: certificateTrustListTlm, certificateTrustListRca
//! 00        preamble: no extension additions
//! 01        version
//! 4         nextUpdate: Time32
//! ff        isFullCtl: a full list, which has no deletions; the octet is 00 in a list of changes
//! 1         ctlSequence
//! 1 n       number of commands, then each:
//!   80      add, an entry:
//!     80    rca: preamble, certificate of a root, its former one if the preamble is 80
//!     81    ea: preamble, certificate of an enrolment authority, URL, another URL if the preamble is 80
//!     82    aa: certificate of an authorisation authority, URL
//!     83    dc: URL of a distribution centre, digests of the roots that it serves
//!     84    tlm: preamble, certificate of a trust list manager, its former one if the preamble is 80, URL
//! ```

use super::certificate::Certificate;
use super::coer;
use super::hash::HashedId8;
use super::limits;
use super::signed_data::expect;
use crate::malformed::{Malformed, Why};
use crate::reader::Reader;
use crate::writer::Writer;
use alloc::vec::Vec;

const WHAT: &str = "certificate trust list";
const VERSION: u8 = 1;
/// BOOLEAN TRUE; any other octet but 0 is TRUE too (ITU-T X.696 §9), and is not canonical.
const TRUE: u8 = 0xff;
const ADD: u8 = 0;
/// The second component of a sequence of which the preamble says that it is there.
const OPTIONAL: u8 = 0x80;

/// Who signs a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrustListIssuer {
    /// A trust list manager: the list names root authorities.
    Manager,
    /// A root authority: the list names the authorities below it.
    Root,
}

impl TrustListIssuer {
    /// The alternative of EtsiTs102941DataContent.
    fn content(self) -> u8 {
        match self {
            TrustListIssuer::Manager => 5,
            TrustListIssuer::Root => 6,
        }
    }
}

/// An entry with the certificate of an authority that issues certificates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrustListEntry<'a> {
    /// A root authority.
    Root(Certificate<'a>),
    /// An enrolment authority.
    Enrolment(Certificate<'a>),
    /// An authorisation authority.
    Authorization(Certificate<'a>),
}

/// A full list of trusted authorities.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustList<'a> {
    /// Who signs it.
    pub issuer: TrustListIssuer,
    /// When the next one is issued at the latest: seconds of TAI since 2004.
    pub next_update: u32,
    /// ctlSequence: the number of the list, modulo 256.
    pub sequence: u8,
    /// The authorities; distribution centres and trust list managers are left out.
    pub entries: Vec<TrustListEntry<'a>>,
}

impl<'a> TrustList<'a> {
    /// Parses the payload of a signed list.
    ///
    /// # Errors
    /// [`Malformed`] if it is none, a list of changes, or one with more than [`limits::TRUSTED`] commands.
    pub fn parse(payload: &'a [u8]) -> Result<TrustList<'a>, Malformed> {
        let mut reader = Reader::new(WHAT, payload);
        expect(&mut reader, "version of EtsiTs102941Data", VERSION)?;
        let at = reader.position();
        let content = coer::alternative(&mut reader, "content of EtsiTs102941Data")?;
        let issuer = [TrustListIssuer::Manager, TrustListIssuer::Root].into_iter().find(|it| it.content() == content);
        let Some(issuer) = issuer else {
            let why = Why::Value((coer::FIRST + content).into());
            return Err(Malformed { what: "content of EtsiTs102941Data", at, why });
        };
        let preamble = coer::preamble(&mut reader, WHAT, coer::EXTENDED)?;
        expect(&mut reader, "version of the list", VERSION)?;
        let next_update = reader.u32()?;
        expect(&mut reader, "isFullCtl", TRUE)?;
        let sequence = reader.u8()?;
        let count = coer::count(&mut reader, "commands of a trust list", (0, limits::TRUSTED))?;
        let mut entries = Vec::new();
        for _ in 0..count {
            expect(&mut reader, "command of a full list", coer::FIRST + ADD)?;
            entries.extend(read_entry(&mut reader, issuer)?);
        }
        if preamble != 0 {
            coer::skip_additions(&mut reader)?;
        }
        reader.end()?;
        Ok(TrustList { issuer, next_update, sequence, entries })
    }

    /// The payload to be signed, with the URL `access_point` for each authority that has one; entries beyond
    /// [`limits::TRUSTED`] are left out.
    pub fn emit(&self, access_point: &str) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.u8(VERSION).u8(coer::FIRST + self.issuer.content()).u8(0).u8(VERSION);
        writer.u32(self.next_update).u8(TRUE).u8(self.sequence);
        let entries = self.entries.get(..limits::TRUSTED).unwrap_or(&self.entries);
        let url = access_point.as_bytes().get(..limits::URL).unwrap_or(access_point.as_bytes());
        writer.u8(1).u8((entries.len() & 0xff) as u8);
        for entry in entries {
            writer.u8(coer::FIRST + ADD);
            match entry {
                TrustListEntry::Root(root) => writer.u8(coer::FIRST).u8(0).bytes(root.octets()),
                TrustListEntry::Enrolment(authority) => {
                    writer.u8(coer::FIRST + 1).u8(0).bytes(authority.octets()).u8((url.len() & 0x7f) as u8).bytes(url)
                }
                TrustListEntry::Authorization(authority) => {
                    writer.u8(coer::FIRST + 2).bytes(authority.octets()).u8((url.len() & 0x7f) as u8).bytes(url)
                }
            };
        }
        writer.finish()
    }
}

/// Reads an entry; `None` if it is of no authority that issues certificates.
fn read_entry<'a>(reader: &mut Reader<'a>, issuer: TrustListIssuer) -> Result<Option<TrustListEntry<'a>>, Malformed> {
    const ENTRY: &str = "entry of a trust list";
    let at = reader.position();
    let kind = coer::alternative(reader, ENTRY)?;
    // The constraints of ToBeSignedTlmCtl and ToBeSignedRcaCtl.
    let is_for_manager = matches!(kind, 0 | 4);
    let is_for_root = matches!(kind, 1 | 2);
    if is_for_manager && issuer == TrustListIssuer::Root || is_for_root && issuer == TrustListIssuer::Manager {
        return Err(Malformed { what: ENTRY, at, why: Why::Value((coer::FIRST + kind).into()) });
    }
    Ok(match kind {
        0 => Some(TrustListEntry::Root(read_with_former(reader)?)),
        1 => {
            let has_other = coer::preamble(reader, ENTRY, OPTIONAL)? != 0;
            let authority = Certificate::read(reader)?;
            read_url(reader)?;
            if has_other {
                read_url(reader)?;
            }
            Some(TrustListEntry::Enrolment(authority))
        }
        2 => {
            let authority = Certificate::read(reader)?;
            read_url(reader)?;
            Some(TrustListEntry::Authorization(authority))
        }
        3 => {
            read_url(reader)?;
            for _ in 0..coer::count(reader, "roots of a distribution centre", (0, limits::TRUSTED))? {
                HashedId8::read(reader)?;
            }
            None
        }
        4 => {
            read_with_former(reader)?;
            read_url(reader)?;
            None
        }
        // Alternatives after the extension mark (X.696 §20.2).
        _ => {
            coer::open_type(reader, ENTRY)?;
            None
        }
    })
}

/// Reads a certificate, and skips the one that it succeeds.
fn read_with_former<'a>(reader: &mut Reader<'a>) -> Result<Certificate<'a>, Malformed> {
    let has_former = coer::preamble(reader, "entry of a trust list", OPTIONAL)? != 0;
    let certificate = Certificate::read(reader)?;
    if has_former {
        Certificate::read(reader)?;
    }
    Ok(certificate)
}

fn read_url(reader: &mut Reader<'_>) -> Result<(), Malformed> {
    coer::octets(reader, "URL", limits::URL).map(drop)
}
