//! The URI of a captive portal's API, as a Router Advertisement or a DHCPv6 server names it. RFC 8910 §2.

use alloc::string::String;
use core::fmt;

/// Longest URI that is accepted, octets.
const MAX_LENGTH: usize = 512;
/// The URI of a network that has no captive portal (RFC 8910 §2).
const UNRESTRICTED: &str = "urn:ietf:params:capport:unrestricted";

/// A URI of visible ASCII characters (RFC 3986 §2), which is safe to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortalUri(String);

impl PortalUri {
    /// The URI of these octets; `None` if there is none, or it has other characters, or too many.
    pub fn read(octets: &[u8]) -> Option<PortalUri> {
        let visible = !octets.is_empty() && octets.len() <= MAX_LENGTH && octets.iter().all(u8::is_ascii_graphic);
        let text = core::str::from_utf8(octets).ok().filter(|_| visible)?;
        Some(PortalUri(String::from(text)))
    }

    /// The octets of the URI.
    pub fn octets(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// Whether it says that the network has no captive portal.
    pub fn is_unrestricted(&self) -> bool {
        self.0 == UNRESTRICTED
    }
}

impl fmt::Display for PortalUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_visible_characters_are_accepted() {
        let uri = PortalUri::read(b"https://portal.example/api").unwrap();
        assert_eq!((uri.octets(), uri.is_unrestricted()), (&b"https://portal.example/api"[..], false));
        assert!(PortalUri::read(UNRESTRICTED.as_bytes()).unwrap().is_unrestricted());
        for hostile in [&b""[..], b"https://a\x1b[2J", b"a b", b"a\nb", b"\xc3\xa9", b"a\0", &[b'a'; MAX_LENGTH + 1]] {
            assert_eq!(PortalUri::read(hostile), None);
        }
    }
}
