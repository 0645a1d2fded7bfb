//! Extensions of a service announcement (IEEE Std 1609.3 WAVE Information Elements). A receiver skips those that it does
//! not know: values are open types, octets with their length in front.

use super::asn1::asn1;
use crate::malformed::{Malformed, Why};
use crate::reader::Reader;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::Ipv6Addr;
use core::str;
use rasn::prelude::*;

/// Identifiers of the extensions that roam6 knows.
pub mod id {
    /// Advertiser identifier, 1 to 32 characters.
    pub const ADVERTISER: u8 = 7;
    /// Provider service context, up to 31 octets.
    pub const CONTEXT: u8 = 8;
    /// IPv6 address of the service.
    pub const ADDRESS: u8 = 9;
    /// Port of the service.
    pub const PORT: u8 = 10;
    /// Secondary DNS server.
    pub const SECONDARY_DNS: u8 = 13;
    /// Repeat rate: announcements in five seconds.
    pub const REPEAT_RATE: u8 = 17;
}

/// Longest advertiser identifier, octets.
pub const MAX_NAME: usize = 32;
/// Longest context, octets.
pub const MAX_CONTEXT: usize = 31;

asn1! {
    /// An extension.
    sequence Extension {
        /// Identifier: one of [`id`], or another.
        id: u8 [value("0..=255")],
        /// Encoded value.
        value: OctetString,
    }
}

/// The value of an extension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Advertiser identifier.
    Advertiser(String),
    /// Provider service context.
    Context(Vec<u8>),
    /// IPv6 address of the service.
    Address(Ipv6Addr),
    /// Port of the service.
    Port(u16),
    /// Secondary DNS server.
    SecondaryDns(Ipv6Addr),
    /// Repeat rate: announcements in five seconds.
    RepeatRate(u8),
    /// Any other extension.
    Other,
}

impl Value {
    /// The extension; `None` for [`Value::Other`], and if the value is too long.
    pub fn emit(&self) -> Option<Extension> {
        let (id, value) = match self {
            Value::Advertiser(name) => (id::ADVERTISER, counted(name.as_bytes())?),
            Value::Context(octets) => (id::CONTEXT, counted(octets)?),
            Value::Address(address) => (id::ADDRESS, address.octets().to_vec()),
            Value::Port(port) => (id::PORT, port.to_be_bytes().to_vec()),
            Value::SecondaryDns(address) => (id::SECONDARY_DNS, address.octets().to_vec()),
            Value::RepeatRate(rate) => (id::REPEAT_RATE, [*rate].to_vec()),
            Value::Other => return None,
        };
        Some(Extension { id, value: value.into() })
    }
}

/// A length below 128 is one octet, and so are the three bits of no meaning before the five that count a context.
fn counted(octets: &[u8]) -> Option<Vec<u8>> {
    let mut all = Vec::with_capacity(octets.len() + 1);
    all.push(u8::try_from(octets.len()).ok().filter(|length| *length < 128)?);
    all.extend_from_slice(octets);
    Some(all)
}

impl Extension {
    /// Reads the value; one that is known must be as its type says, to the last octet.
    pub fn read(&self) -> Result<Value, Malformed> {
        let mut reader = Reader::new("service announcement extension", &self.value);
        let value = match self.id {
            id::ADVERTISER => Value::Advertiser(name(&mut reader)?),
            id::CONTEXT => Value::Context(counted_bytes(&mut reader, MAX_CONTEXT)?.to_vec()),
            id::ADDRESS => Value::Address(reader.address()?),
            id::PORT => Value::Port(reader.u16()?),
            id::SECONDARY_DNS => Value::SecondaryDns(reader.address()?),
            id::REPEAT_RATE => Value::RepeatRate(reader.u8()?),
            _ => return Ok(Value::Other),
        };
        reader.end()?;
        Ok(value)
    }
}

/// A name; one with control characters is malformed, because names are shown on terminals.
fn name(reader: &mut Reader<'_>) -> Result<String, Malformed> {
    let octets = counted_bytes(reader, MAX_NAME)?;
    let name = str::from_utf8(octets).ok().filter(|name| !name.is_empty() && !name.contains(char::is_control));
    name.map(String::from).ok_or_else(|| reader.malformed(Why::Misplaced))
}

fn counted_bytes<'a>(reader: &mut Reader<'a>, most: usize) -> Result<&'a [u8], Malformed> {
    let length = usize::from(reader.u8()?);
    if length > most {
        return Err(reader.malformed(Why::Length { has: length, needs: most }));
    }
    reader.bytes(length)
}
