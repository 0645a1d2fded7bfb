//! Netlink attributes (netlink(7)): their encoding, and the search for one.

use netlink_packet_core::NlasIterator;

/// The flag of an attribute with nested attributes (NLA_F_NESTED).
pub(crate) const NESTED: u16 = 0x8000;

/// The first attribute of an rtnetlink message that fits the pattern.
macro_rules! find_attribute {
    ($message:expr, $pattern:pat $(if $condition:expr)? => $value:expr) => {
        $message.attributes.iter().find_map(|attribute| match attribute {
            $pattern $(if $condition)? => Some($value),
            _ => None,
        })
    };
}
pub(crate) use find_attribute;

/// An attribute: length, type and value, padded to a word.
pub(crate) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(value.len() + 4).unwrap_or(u16::MAX);
    let mut bytes = length.to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// A string attribute, zero-terminated.
pub(crate) fn text_attribute(kind: u16, value: &str) -> Vec<u8> {
    attribute(kind, &[value.as_bytes(), &[0]].concat())
}

/// The types and values of attributes, up to the first damaged one.
pub(crate) fn parse_attributes(attributes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let found = NlasIterator::new(attributes).map_while(Result::ok);
    // The rest follows each.
    found.filter_map(|found| Some((found.kind(), found.into_inner().get(4..usize::from(found.length()))?)))
}

/// The value of the attribute of a type.
pub(crate) fn find(attributes: &[u8], kind: u16) -> Option<&[u8]> {
    parse_attributes(attributes).find(|(found, _)| *found == kind).map(|(_, value)| value)
}

pub(crate) fn u16_of(value: &[u8]) -> Option<u16> {
    value.first_chunk().map(|octets| u16::from_ne_bytes(*octets))
}

pub(crate) fn u32_of(value: &[u8]) -> Option<u32> {
    value.first_chunk().map(|octets| u32::from_ne_bytes(*octets))
}

pub(crate) fn u64_of(value: &[u8]) -> Option<u64> {
    value.first_chunk().map(|octets| u64::from_ne_bytes(*octets))
}

/// A string, without the zero that ends it.
pub(crate) fn text_of(value: &[u8]) -> String {
    String::from_utf8_lossy(value).trim_end_matches('\0').to_owned()
}
