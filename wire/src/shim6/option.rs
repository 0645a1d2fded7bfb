//! Options of Shim6 messages, and the messages that may have them. RFC 5533 §5.15, RFC 5534 §5.3.
//!
//! RFC 5533 §17 has verification methods 1 and 2 swapped; this follows §5.15.2.
//!
//! See <https://www.rfc-editor.org/rfc/rfc5533#section-5.15>.

use super::{Fork, MAX_LENGTH, kind as message};
use crate::codepoint::code_points;
use crate::malformed::{Malformed, Why};
use crate::reader::Reader;
use crate::writer::{Alignment, Writer, low};
use alloc::vec::Vec;
use core::net::Ipv6Addr;

/// Options read in one message.
pub const MAX_OPTIONS: usize = 16;
/// [`Malformed::what`] of a message with an unrecognized critical option.
pub(super) const CRITICAL: &str = "critical option";

/// Values of the Type field, 15 bits.
pub mod kind {
    /// Responder Validator.
    pub const VALIDATOR: u16 = 1;
    /// Locator List.
    pub const LOCATORS: u16 = 2;
    /// Locator Preferences.
    pub const PREFERENCES: u16 = 3;
    /// CGA Parameter Data Structure.
    pub const PARAMETERS: u16 = 4;
    /// CGA Signature.
    pub const SIGNATURE: u16 = 5;
    /// ULID Pair.
    pub const ULIDS: u16 = 6;
    /// Forked Instance Identifier.
    pub const FORK: u16 = 7;
    /// Keepalive Timeout.
    pub const KEEPALIVE_TIMEOUT: u16 = 10;
    /// Keepalive Timeout in milliseconds; of the experimental range.
    pub const KEEPALIVE_MILLISECONDS: u16 = 16384;
}

/// An option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShimOption {
    /// Responder Validator: returned unchanged, opaque to the initiator (RFC 5533 §5.15.1).
    Validator(Vec<u8>),
    /// Locator List of the sender (§5.15.2).
    Locators(LocatorList),
    /// Locator Preferences in the order of the list of that generation (§5.15.3).
    Preferences {
        /// Generation of the locator list.
        generation: u32,
        /// One for each locator.
        elements: Vec<LocatorPreference>,
    },
    /// CGA Parameter Data Structure, not parsed (§5.15.4).
    Parameters(Vec<u8>),
    /// CGA Signature by the key of the parameters (§5.15.5).
    Signature(Vec<u8>),
    /// ULID Pair, where it differs from the packet's addresses (§5.15.6).
    Ulids {
        /// The sender's ULID.
        sender: Ipv6Addr,
        /// The receiver's ULID.
        receiver: Ipv6Addr,
    },
    /// Forked Instance Identifier (§5.15.7).
    Fork(Fork),
    /// For how long the receiver may be silent, seconds (RFC 5534 §5.3).
    KeepaliveTimeout(u16),
    /// Keepalive Timeout in milliseconds: the standard option is limited to whole seconds.
    KeepaliveMilliseconds(u32),
    /// Any other non-critical option, to be ignored.
    Unknown {
        /// Its type, 15 bits.
        kind: u16,
        /// Its contents.
        data: Vec<u8>,
    },
}

/// All locators of a host (RFC 5533 §5.15.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocatorList {
    /// Generation number, compared for equality only.
    pub generation: u32,
    /// The locators with their verification methods, at most 127.
    pub locators: Vec<(VerificationMethod, Ipv6Addr)>,
}

code_points! {
    /// Verification method of a locator (RFC 5533 §5.15.2).
    VerificationMethod(u8) {
        HBA = 1, "hba";
        CGA = 2, "cga";
    }
}

/// Preference for one locator (RFC 5533 §5.15.3).
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct LocatorPreference {
    /// [`LocatorPreference::BROKEN`], [`LocatorPreference::TEMPORARY`].
    pub flags: u8,
    /// Lower is better.
    pub priority: u8,
    /// Relative share among equal priorities.
    pub weight: u8,
}

impl LocatorPreference {
    /// BROKEN flag: the locator does not work.
    pub const BROKEN: u8 = 1;
    /// TEMPORARY flag: the locator is temporary.
    pub const TEMPORARY: u8 = 2;
}

impl ShimOption {
    /// The value of its Type field.
    pub fn kind(&self) -> u16 {
        match self {
            ShimOption::Validator(_) => kind::VALIDATOR,
            ShimOption::Locators(_) => kind::LOCATORS,
            ShimOption::Preferences { .. } => kind::PREFERENCES,
            ShimOption::Parameters(_) => kind::PARAMETERS,
            ShimOption::Signature(_) => kind::SIGNATURE,
            ShimOption::Ulids { .. } => kind::ULIDS,
            ShimOption::Fork(_) => kind::FORK,
            ShimOption::KeepaliveTimeout(_) => kind::KEEPALIVE_TIMEOUT,
            ShimOption::KeepaliveMilliseconds(_) => kind::KEEPALIVE_MILLISECONDS,
            ShimOption::Unknown { kind, .. } => *kind,
        }
    }

    fn write<'w>(&self, writer: &'w mut Writer) -> &'w mut Writer {
        match self {
            ShimOption::Validator(data)
            | ShimOption::Parameters(data)
            | ShimOption::Signature(data)
            | ShimOption::Unknown { data, .. } => writer.bytes(data),
            ShimOption::Locators(list) => list.write(writer),
            ShimOption::Preferences { generation, elements } => {
                writer.u32(*generation).u8(ELEMENT_LENGTH);
                writer.list(elements, |writer, LocatorPreference { flags, priority, weight }| {
                    writer.u8(*flags).u8(*priority).u8(*weight)
                })
            }
            ShimOption::Ulids { sender, receiver } => writer.u32(0).address(*sender).address(*receiver),
            ShimOption::Fork(fork) => writer.u32(fork.0),
            ShimOption::KeepaliveTimeout(seconds) => writer.u16(0).u16(*seconds),
            ShimOption::KeepaliveMilliseconds(milliseconds) => writer.u32(*milliseconds),
        }
    }
}

/// Octets of an emitted preference element: flags, priority, weight.
const ELEMENT_LENGTH: u8 = 3;
/// Octets of an option's Type and Length.
const HEADER: usize = 4;

/// The options a message may have; all others are as unknown (RFC 5533 §5.15).
pub(super) fn allowed_options(message: u8) -> &'static [u16] {
    use kind::*;
    match message {
        message::I1 => &[ULIDS, FORK],
        message::R1 | message::R1BIS => &[VALIDATOR],
        message::I2 | message::I2BIS => &[
            VALIDATOR,
            ULIDS,
            FORK,
            LOCATORS,
            PREFERENCES,
            PARAMETERS,
            SIGNATURE,
            KEEPALIVE_TIMEOUT,
            KEEPALIVE_MILLISECONDS,
        ],
        message::R2 | message::UPDATE_REQUEST => {
            &[LOCATORS, PREFERENCES, PARAMETERS, SIGNATURE, KEEPALIVE_TIMEOUT, KEEPALIVE_MILLISECONDS]
        }
        _ => &[],
    }
}

/// Parses all options; a known option may occur once.
pub(super) fn read_all(reader: &mut Reader<'_>, allowed: &[u16]) -> Result<Vec<ShimOption>, Malformed> {
    let mut options: Vec<ShimOption> = Vec::new();
    for _ in 0..MAX_OPTIONS {
        if reader.is_empty() {
            return Ok(options);
        }
        let at = reader.position();
        let (kind, length) = (reader.u16()?, reader.u16()?);
        let mut contents = reader.part("Shim6 option", length.into())?;
        reader.skip(padding(length.into()))?;
        let (kind, critical) = (kind >> 1, kind & 1 != 0);
        if allowed.contains(&kind) {
            if options.iter().any(|option| option.kind() == kind) {
                return Err(Malformed { what: "Shim6 option", at, why: Why::Misplaced });
            }
            options.push(read(kind, &mut contents)?);
        } else if critical {
            return Err(Malformed { what: CRITICAL, at, why: Why::Value(kind.into()) });
        } else {
            options.push(ShimOption::Unknown { kind, data: contents.rest().to_vec() });
        }
    }
    if reader.is_empty() { Ok(options) } else { Err(reader.malformed(Why::TooMany(MAX_OPTIONS))) }
}

pub(super) fn write_all(options: &[ShimOption], writer: &mut Writer) {
    for option in options {
        let mut contents = Writer::new();
        // A locator list is aligned to the start of its option.
        contents.zeros(HEADER);
        option.write(&mut contents);
        let length = contents.position() - HEADER;
        if writer.position() + HEADER + length + padding(length) > MAX_LENGTH {
            continue;
        }
        let contents = contents.finish();
        writer.u16(option.kind() << 1).u16(length as u16).bytes(contents.get(HEADER..).unwrap_or_default());
        writer.zeros(padding(length));
    }
}

/// Padding after the contents, so that the option is a multiple of 8 octets.
fn padding(length: usize) -> usize {
    Alignment::new(8, 0).padding(HEADER + length)
}

fn read(kind: u16, contents: &mut Reader<'_>) -> Result<ShimOption, Malformed> {
    let option = match kind {
        kind::VALIDATOR => ShimOption::Validator(contents.rest().to_vec()),
        kind::LOCATORS => ShimOption::Locators(LocatorList::read(contents)?),
        kind::PREFERENCES => read_preferences(contents)?,
        kind::PARAMETERS => ShimOption::Parameters(contents.rest().to_vec()),
        kind::SIGNATURE => ShimOption::Signature(contents.rest().to_vec()),
        kind::ULIDS => {
            contents.skip(4)?;
            ShimOption::Ulids { sender: contents.address()?, receiver: contents.address()? }
        }
        kind::FORK => ShimOption::Fork(Fork(contents.u32()?)),
        kind::KEEPALIVE_TIMEOUT => {
            contents.skip(2)?;
            ShimOption::KeepaliveTimeout(contents.u16()?)
        }
        _ => ShimOption::KeepaliveMilliseconds(contents.u32()?),
    };
    contents.end()?;
    Ok(option)
}

fn read_preferences(contents: &mut Reader<'_>) -> Result<ShimOption, Malformed> {
    let generation = contents.u32()?;
    let at = contents.position();
    let length = contents.u8()?;
    if length == 0 {
        return Err(Malformed { what: "Element Len", at, why: Why::Value(0) });
    }
    let elements = contents.list(usize::MAX, |contents| {
        let element = contents.bytes(length.into())?;
        // Longer elements begin like those of three octets (RFC 5533 §5.15.3).
        let octet = |index: usize| element.get(index).copied().unwrap_or(0);
        Ok(LocatorPreference { flags: octet(0), priority: octet(1), weight: octet(2) })
    })?;
    Ok(ShimOption::Preferences { generation, elements })
}

impl LocatorList {
    /// Offset of a locator's verification method in the option, for the pointer of an Error message.
    pub fn method_at(index: usize) -> usize {
        HEADER + 5 + index
    }

    fn read(contents: &mut Reader<'_>) -> Result<LocatorList, Malformed> {
        let generation = contents.u32()?;
        let count = contents.u8()?;
        let methods = contents.bytes(count.into())?;
        contents.skip(LocatorList::padding(count.into()))?;
        let locators = methods.iter().map(|method| Ok((VerificationMethod(*method), contents.address()?)));
        Ok(LocatorList { generation, locators: locators.collect::<Result<_, _>>()? })
    }

    fn write<'w>(&self, writer: &'w mut Writer) -> &'w mut Writer {
        let locators = self.locators.get(..usize::from(u8::MAX)).unwrap_or(&self.locators);
        writer.u32(self.generation).u8(low(locators.len()));
        writer.list(locators, |writer, (method, _)| writer.u8(method.0));
        writer.zeros(LocatorList::padding(locators.len()));
        writer.list(locators, |writer, (_, locator)| writer.address(*locator))
    }

    /// Padding between methods and locators, which start at a multiple of 8 octets in the option.
    fn padding(count: usize) -> usize {
        Alignment::new(8, 0).padding(LocatorList::method_at(count))
    }
}

/// Offset of the option of type `kind` in a control message, from its Next Header field; `None` without such an option.
pub fn find(bytes: &[u8], kind: u16) -> Option<usize> {
    let start = match *bytes.get(2)? {
        message::I1 | message::R1 | message::R2 | message::R1BIS => 16,
        message::UPDATE_REQUEST | message::UPDATE_ACK | message::KEEPALIVE => 16,
        message::I2 => 24,
        message::I2BIS => 32,
        _ => return None,
    };
    let mut reader = Reader::new("Shim6 options", bytes);
    reader.skip(start).ok()?;
    for _ in 0..MAX_OPTIONS {
        let at = reader.position();
        let (found, length) = (reader.u16().ok()? >> 1, reader.u16().ok()?);
        if found == kind {
            return Some(at);
        }
        reader.skip(usize::from(length) + padding(length.into())).ok()?;
    }
    None
}
