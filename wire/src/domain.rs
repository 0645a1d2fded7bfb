//! Domain names in Router Advertisements and DHCPv6: labels without compression, RFC 1035 §3.1, RFC 8106 §5.2,
//! RFC 8415 §10.

use crate::malformed::{Malformed, Why};
use crate::reader::Reader;
use crate::text::{refusal, serde_as_text};
use crate::writer::{Writer, low};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

/// Longest label, octets (RFC 1035 §2.3.4).
const MAX_LABEL_LENGTH: usize = 63;
/// Longest name without its final dot, octets: 255 on the wire (RFC 1035 §2.3.4).
const MAX_NAME_LENGTH: usize = 253;

/// A domain name of letters, digits, hyphens and underscores, without its final dot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DomainName(String);

refusal! {
    /// The text is no domain name.
    DomainNameError: "not a domain name; write it as example.org"
}

impl DomainName {
    /// The name without its final dot.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Encoded length, octets.
    pub(crate) fn octets(&self) -> usize {
        self.0.len() + 2
    }

    /// Parses names up to the end of `reader`; zero octets after the last one are padding. `None` if a name has other
    /// characters, which resolvers do not search for.
    pub(crate) fn read_list(reader: &mut Reader<'_>) -> Result<Option<Vec<DomainName>>, Malformed> {
        let (mut names, mut known) = (Vec::new(), true);
        while !reader.is_empty() {
            let mut text = Vec::new();
            loop {
                let octet = reader.u8()?;
                let length = usize::from(octet);
                if length == 0 {
                    break;
                }
                if length > MAX_LABEL_LENGTH {
                    return Err(reader.malformed(Why::Value(octet.into())));
                }
                if !text.is_empty() {
                    text.push(b'.');
                }
                let label = reader.bytes(length)?;
                // A dot inside a label would read as two labels.
                known &= !label.contains(&b'.');
                text.extend_from_slice(label);
            }
            if !text.is_empty() {
                match core::str::from_utf8(&text).map(DomainName::from_str) {
                    Ok(Ok(name)) => names.push(name),
                    _ => known = false,
                }
            }
        }
        Ok(known.then_some(names))
    }

    /// Writes the labels and the root.
    pub(crate) fn write<'w>(&self, writer: &'w mut Writer) -> &'w mut Writer {
        let labels = self.0.split('.');
        writer.list(labels, |writer, label| writer.u8(low(label.len())).bytes(label.as_bytes())).u8(0)
    }
}

impl FromStr for DomainName {
    type Err = DomainNameError;

    fn from_str(text: &str) -> Result<DomainName, DomainNameError> {
        let name = text.strip_suffix('.').unwrap_or(text);
        let allowed = |octet: u8| octet.is_ascii_alphanumeric() || octet == b'-' || octet == b'_';
        let is_label = |label: &str| (1..=MAX_LABEL_LENGTH).contains(&label.len()) && label.bytes().all(allowed);
        let is_name = name.len() <= MAX_NAME_LENGTH && name.split('.').all(is_label);
        is_name.then(|| DomainName(String::from(name))).ok_or(DomainNameError)
    }
}

impl fmt::Display for DomainName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

serde_as_text!(DomainName);

#[cfg(test)]
mod tests {
    use super::*;

    fn read(octets: &[u8]) -> Result<Option<Vec<DomainName>>, Malformed> {
        DomainName::read_list(&mut Reader::new("names", octets))
    }

    #[test]
    fn domain_names_round_trip_and_padding_is_skipped() {
        let names: Vec<DomainName> = ["example.org", "a-b_c.d"].iter().map(|name| name.parse().unwrap()).collect();
        let mut writer = Writer::new();
        writer.list(&names, |writer, name| name.write(writer));
        let octets = [writer.finish(), vec![0; 5]].concat();
        assert_eq!(&octets[..13], b"\x07example\x03org\0");
        assert_eq!(read(&octets).unwrap(), Some(names));
    }

    #[test]
    fn invalid_domain_names_are_refused() {
        assert!(read(b"\x07exam").is_err(), "cut off");
        assert!(read(b"\x03org").is_err(), "without its root");
        assert!(read(b"\xc0\x0c").is_err(), "a compression pointer");
        assert_eq!(read(b"\x03a b\0").unwrap(), None);
        assert_eq!(read(b"\x03a.b\0").unwrap(), None);
        assert_eq!(read(&[[63].as_slice(), &[b'a'; 63], &[0]].concat()).unwrap().unwrap().len(), 1);
        assert_eq!(read(&[[63].as_slice(), &[b'a'; 63]].concat().repeat(4)).ok(), None);
        for text in ["", ".", "a..b", "exa mple.org", "b\u{fc}cher.example", &"a".repeat(64), &"a.".repeat(150)] {
            assert_eq!(text.parse::<DomainName>(), Err(DomainNameError), "{text}");
        }
        assert_eq!("example.org.".parse::<DomainName>().unwrap().as_str(), "example.org");
    }
}
