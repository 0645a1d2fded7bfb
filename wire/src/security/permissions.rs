//! Permissions of certificates: IEEE 1609.2 §6.4.28 to §6.4.36. A list is checked when it is read, and decoded again by
//! each iteration over it.

use super::coer;
use super::limits;
use crate::codepoint::code_points;
use crate::malformed::{Malformed, Why};
use crate::reader::Reader;
use crate::writer::Writer;

code_points! {
    /// PSID or ITS-AID: a service (ETSI TS 102 965).
    Psid(u32) as number {
        CAM = 36, "CAM";
        DENM = 37, "DENM";
        SPATEM = 137, "SPATEM";
        MAPEM = 138, "MAPEM";
        IVIM = 139, "IVIM";
        SREM = 140, "SREM";
        GN_MANAGEMENT = 141, "GeoNetworking management";
        CRL = 622, "CRL";
        CERTIFICATE_REQUEST = 623, "certificate request";
        CTL = 624, "CTL";
        VAM = 638, "VAM";
        CPM = 639, "CPM";
        SAM = 540801, "SAM";
        IPV6 = 270549118, "IPv6 routing";
    }
}

impl Psid {
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Psid, Malformed> {
        let at = reader.position();
        let value = coer::unsigned(reader, "psid")?;
        u32::try_from(value).map(Psid).map_err(|_| Malformed { what: "psid", at, why: Why::Value(value) })
    }

    pub(super) fn write(self, writer: &mut Writer) {
        let octets = self.0.to_be_bytes();
        let zeros = octets.iter().take_while(|octet| **octet == 0).count().min(3);
        let octets = octets.get(zeros..).unwrap_or_default();
        super::emit::length(writer, octets.len());
        writer.bytes(octets);
    }
}

/// A list of at most [`limits::PERMISSIONS`] elements that are known to be well-formed.
macro_rules! checked_list {
    ($(#[$meta:meta])* $list:ident of $item:ident, $what:literal) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct $list<'a>(&'a [u8]);

        impl<'a> $list<'a> {
            pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
                let count = coer::count(reader, $what, (1, limits::PERMISSIONS))?;
                let start = reader.clone();
                for _ in 0..count {
                    $item::read(reader)?;
                }
                Ok(Self(coer::between(&start, reader)))
            }

            /// The elements.
            pub fn iter(&self) -> impl Iterator<Item = $item<'a>> + use<'a> {
                let mut rest = Reader::new($what, self.0);
                core::iter::from_fn(move || if rest.is_empty() { None } else { $item::read(&mut rest).ok() })
            }
        }
    };
}

checked_list! {
    /// appPermissions: what the holder may sign.
    Permissions of PsidSsp, "appPermissions"
}

checked_list! {
    /// certIssuePermissions, certRequestPermissions: what an authority may permit, or ask for.
    GroupPermissionsList of GroupPermissions, "certIssuePermissions"
}

checked_list! {
    /// Services and ranges of their permissions.
    PsidSspRanges of PsidSspRange, "PsidSspRange"
}

/// PsidSsp: a service, and what the holder may do in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PsidSsp<'a> {
    /// The service.
    pub psid: Psid,
    /// Its permissions.
    pub ssp: Ssp<'a>,
}

/// Service specific permissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ssp<'a> {
    /// None.
    Absent,
    /// Without structure.
    Opaque(&'a [u8]),
    /// Version and bits, as the standard of the service defines them.
    Bitmap(&'a [u8]),
}

impl<'a> PsidSsp<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<PsidSsp<'a>, Malformed> {
        const WHAT: &str = "ssp";
        let preamble = coer::preamble(reader, "PsidSsp preamble", 0x80)?;
        let psid = Psid::read(reader)?;
        if preamble == 0 {
            return Ok(PsidSsp { psid, ssp: Ssp::Absent });
        }
        let at = reader.position();
        let ssp = match coer::alternative(reader, WHAT)? {
            0 => Ssp::Opaque(coer::octets(reader, WHAT, limits::SSP)?),
            1 => {
                let mut part = coer::open_type(reader, WHAT)?;
                let bits = coer::octets(&mut part, WHAT, limits::SSP - 1)?;
                part.end()?;
                Ssp::Bitmap(bits)
            }
            other => return Err(Malformed { what: WHAT, at, why: Why::Value(other.into()) }),
        };
        Ok(PsidSsp { psid, ssp })
    }
}

/// PsidGroupPermissions: what an authority may permit in certificates below its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupPermissions<'a> {
    /// The services.
    pub subjects: SubjectPermissions<'a>,
    /// minChainLength: certificates between this one and that of the station, at least.
    pub min_chain_length: i32,
    /// chainLengthRange: how many more there may be; -1 is any number.
    pub chain_length_range: i32,
    /// eeType: bit 0x80 stations, bit 0x40 enrolment.
    pub end_entity_types: u8,
}

/// SubjectPermissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubjectPermissions<'a> {
    /// These services.
    Explicit(PsidSspRanges<'a>),
    /// All services.
    All,
}

impl<'a> GroupPermissions<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<GroupPermissions<'a>, Malformed> {
        const WHAT: &str = "subjectPermissions";
        let preamble = coer::preamble(reader, "PsidGroupPermissions preamble", 0xe0)?;
        let at = reader.position();
        let subjects = match coer::alternative(reader, WHAT)? {
            0 => SubjectPermissions::Explicit(PsidSspRanges::read(reader)?),
            1 => SubjectPermissions::All,
            other => return Err(Malformed { what: WHAT, at, why: Why::Value(other.into()) }),
        };
        let number = |reader: &mut Reader<'a>, bit, default| match preamble & bit {
            0 => Ok(default),
            _ => coer::signed(reader, "chain length"),
        };
        Ok(GroupPermissions {
            subjects,
            min_chain_length: number(reader, 0x80, 1)?,
            chain_length_range: number(reader, 0x40, 0)?,
            end_entity_types: if preamble & 0x20 == 0 { 0x80 } else { reader.u8()? },
        })
    }
}

impl GroupPermissions<'_> {
    /// Whether a certificate of a station may have `permission`, if `length` certificates follow that of this authority, the
    /// station's included (§6.4.30, §6.4.33).
    pub fn permits(&self, permission: &PsidSsp<'_>, length: i32) -> bool {
        let more = self.chain_length_range;
        let longest = if more < 0 { i32::MAX } else { self.min_chain_length.saturating_add(more) };
        let is_for_stations = self.end_entity_types & 0x80 != 0;
        let has_length = (self.min_chain_length..=longest).contains(&length);
        is_for_stations
            && has_length
            && match self.subjects {
                SubjectPermissions::All => true,
                SubjectPermissions::Explicit(ranges) => {
                    ranges.iter().any(|range| range.psid == permission.psid && range.range.includes(permission.ssp))
                }
            }
    }
}

/// PsidSspRange: a service, and the permissions that may be given in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PsidSspRange<'a> {
    /// The service.
    pub psid: Psid,
    /// The permissions.
    pub range: SspRange<'a>,
}

/// SspRange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SspRange<'a> {
    /// No permissions, or opaque ones of length 0.
    Absent,
    /// One of these opaque permissions, encoded as a SEQUENCE OF octet strings.
    Opaque(&'a [u8]),
    /// All permissions.
    All,
    /// Permissions that equal `value` in the bits of `mask`.
    Bitmap {
        /// sspValue.
        value: &'a [u8],
        /// sspBitmask.
        mask: &'a [u8],
    },
}

impl SspRange<'_> {
    /// Whether these permissions lie within the range.
    pub fn includes(&self, ssp: Ssp<'_>) -> bool {
        match (*self, ssp) {
            (SspRange::All, _) | (SspRange::Absent, Ssp::Absent | Ssp::Opaque([])) => true,
            (SspRange::Opaque(list), Ssp::Opaque(octets)) => {
                let mut rest = Reader::new("sspRange", list);
                let mut next = || coer::octets(&mut rest, "sspRange", limits::SSP).ok();
                core::iter::from_fn(&mut next).any(|one| one == octets)
            }
            (SspRange::Bitmap { value, mask }, Ssp::Bitmap(octets)) => {
                let mut bits = value.iter().zip(mask).zip(octets);
                let is_same_length = value.len() == octets.len() && mask.len() == octets.len();
                is_same_length && bits.all(|((value, mask), octet)| value & mask == octet & mask)
            }
            _ => false,
        }
    }
}

impl<'a> PsidSspRange<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<PsidSspRange<'a>, Malformed> {
        const WHAT: &str = "sspRange";
        let preamble = coer::preamble(reader, "PsidSspRange preamble", 0x80)?;
        let psid = Psid::read(reader)?;
        if preamble == 0 {
            return Ok(PsidSspRange { psid, range: SspRange::Absent });
        }
        let at = reader.position();
        let range = match coer::alternative(reader, WHAT)? {
            0 => SspRange::Opaque(opaque(reader)?),
            1 => SspRange::All,
            2 => {
                let mut part = coer::open_type(reader, WHAT)?;
                let value = coer::octets(&mut part, WHAT, limits::SSP)?;
                let mask = coer::octets(&mut part, WHAT, limits::SSP)?;
                part.end()?;
                SspRange::Bitmap { value, mask }
            }
            other => return Err(Malformed { what: WHAT, at, why: Why::Value(other.into()) }),
        };
        Ok(PsidSspRange { psid, range })
    }
}

fn opaque<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], Malformed> {
    let count = coer::count(reader, "sspRange", (0, limits::PERMISSIONS))?;
    let start = reader.clone();
    for _ in 0..count {
        coer::octets(reader, "sspRange", limits::SSP)?;
    }
    Ok(coer::between(&start, reader))
}
