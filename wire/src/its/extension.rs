//! Elements of an announcement that have a number and are skipped by who does not know it (IEEE Std 1609.3 WAVE
//! Information Elements): the values are open types, octets with their length in front.

use crate::malformed::{Malformed, Why};
use crate::reader::Reader;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::Ipv6Addr;
use core::str;
use rasn::prelude::*;

/// What the numbers mean that roam6 knows.
pub mod id {
    /// Whose announcement it is, 1 to 32 characters.
    pub const ADVERTISER: u8 = 7;
    /// What the application wants to say: up to 31 octets.
    pub const CONTEXT: u8 = 8;
    /// Where the service is: an IPv6 address.
    pub const ADDRESS: u8 = 9;
    /// Its port.
    pub const PORT: u8 = 10;
    /// A second server of the domain name system.
    pub const SECONDARY_DNS: u8 = 13;
    /// Announcements in five seconds.
    pub const REPEAT_RATE: u8 = 17;
}

/// Longest name of an announcer, octets.
pub const MAX_NAME: usize = 32;
/// Longest context, octets.
pub const MAX_CONTEXT: usize = 31;

/// An element.
#[derive(AsnType, Encode, Decode, Debug, Clone, PartialEq, Eq)]
#[rasn(automatic_tags)]
pub struct Extension {
    /// What it is: one of [`id`], or something else.
    #[rasn(value("0..=255"))]
    pub id: u8,
    /// Its encoding.
    pub value: OctetString,
}

/// The value of an element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// Whose announcement it is.
    Advertiser(String),
    /// What the application wants to say.
    Context(Vec<u8>),
    /// Where the service is.
    Address(Ipv6Addr),
    /// Its port.
    Port(u16),
    /// A second server of the domain name system.
    SecondaryDns(Ipv6Addr),
    /// Announcements in five seconds.
    RepeatRate(u8),
    /// Of no interest here.
    Other,
}

impl Value {
    /// The element.
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

/// What comes from strangers is shown on terminals: no name has control characters.
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
