//! Distinct types for addresses and identifiers.

use crate::text::{refusal, serde_as_text};
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

/// Defines a newtype over `$inner` that prints and serialises as the inner value.
macro_rules! newtype {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl From<$inner> for $name {
            fn from(value: $inner) -> Self {
                Self(value)
            }
        }
    };
}

newtype! {
    /// The address a mobile node or router keeps wherever it is (RFC 6275 §3.2).
    HomeAddress(Ipv6Addr)
}
newtype! {
    /// An address in the network a mobile router visits (RFC 6275 §3.2).
    CareOfAddress(Ipv6Addr)
}
newtype! {
    /// Binding identifier, which distinguishes the bindings of one home address; 0 is reserved (RFC 5648 §4.1).
    Bid(u16)
}
newtype! {
    /// Flow identifier, which distinguishes the flow bindings of one mobile node; 0 is reserved (RFC 6089 §4.2).
    Fid(u16)
}
newtype! {
    /// Sequence number of a Binding Update (RFC 6275 §6.1.7).
    #[derive(Default)]
    Sequence(u16)
}

impl Sequence {
    /// Whether `self` is newer than `last` in the modulo-2^16 space of RFC 6275 §9.5.1.
    pub fn is_newer_than(self, last: Sequence) -> bool {
        last.0.wrapping_sub(self.0) > 32768
    }

    /// The sequence number after this one.
    pub fn next(self) -> Sequence {
        Sequence(self.0.wrapping_add(1))
    }
}

/// An Ethernet link-layer address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct LinkAddress(pub [u8; 6]);

impl LinkAddress {
    /// The modified EUI-64 interface identifier (RFC 4291 appendix A).
    pub fn interface_identifier(self) -> u64 {
        let [a, b, c, d, e, f] = self.0;
        u64::from_be_bytes([a ^ 0x02, b, c, 0xff, 0xfe, d, e, f])
    }

    /// Whether it is a unicast address.
    pub fn is_unicast(self) -> bool {
        self.0 != [0; 6] && self.0[0] & 1 == 0
    }

    /// The link-local address made from it (RFC 4862 §5.3).
    pub fn link_local(self) -> Ipv6Addr {
        Ipv6Addr::from_bits(0xfe80 << 112 | u128::from(self.interface_identifier()))
    }
}

impl fmt::Display for LinkAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// As it is displayed.
impl FromStr for LinkAddress {
    type Err = LinkAddressError;

    fn from_str(text: &str) -> Result<LinkAddress, LinkAddressError> {
        let mut octets = [0; 6];
        let mut parts = text.split(':');
        for octet in &mut octets {
            let part = parts.next().filter(|part| part.len() == 2).ok_or(LinkAddressError)?;
            *octet = u8::from_str_radix(part, 16).map_err(|_| LinkAddressError)?;
        }
        if parts.next().is_some() { Err(LinkAddressError) } else { Ok(LinkAddress(octets)) }
    }
}

refusal! {
    /// The text is no link-layer address.
    LinkAddressError: "a link-layer address is written as 02:00:00:00:00:01"
}

/// A prefix; bits beyond its length are zero. An IPv4 prefix is stored as one of IPv4-mapped addresses (RFC 4291
/// §2.5.5.2), and displayed in IPv4 notation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    address: Ipv6Addr,
    length: u8,
}

impl Prefix {
    /// `::/0`, the default route.
    pub const ALL: Prefix = Prefix { address: Ipv6Addr::UNSPECIFIED, length: 0 };
    /// `0.0.0.0/0`: every IPv4 address, as an IPv4-mapped one.
    pub const ALL_IPV4: Prefix =
        Prefix { address: Ipv4Addr::UNSPECIFIED.to_ipv6_mapped(), length: Prefix::BEFORE_IPV4 };
    /// Bits of an IPv4-mapped address before the IPv4 address.
    const BEFORE_IPV4: u8 = 96;

    /// The prefix of `length` bits that contains `address`; `None` if the length exceeds 128.
    pub fn new(address: Ipv6Addr, length: u8) -> Option<Prefix> {
        (length <= 128).then(|| Prefix { address: Ipv6Addr::from_bits(address.to_bits() & mask(length)), length })
    }

    /// The IPv4 prefix of `length` bits that contains `address`; `None` if the length exceeds 32.
    pub fn from_ipv4(address: Ipv4Addr, length: u8) -> Option<Prefix> {
        Prefix::new(address.to_ipv6_mapped(), length.checked_add(Prefix::BEFORE_IPV4)?)
    }

    /// The first address and the length of an IPv4 prefix, if it is one.
    pub fn ipv4(self) -> Option<(Ipv4Addr, u8)> {
        Some((self.address.to_ipv4_mapped()?, self.length.checked_sub(Prefix::BEFORE_IPV4)?))
    }

    /// Whether it is an IPv4 prefix.
    pub fn is_ipv4(self) -> bool {
        self.ipv4().is_some()
    }

    /// The /128 prefix of one address.
    pub fn host(address: Ipv6Addr) -> Prefix {
        Prefix { address, length: 128 }
    }

    /// The first address, all host bits zero.
    pub fn address(self) -> Ipv6Addr {
        self.address
    }

    /// Length in bits, 0 to 128.
    pub fn length(self) -> u8 {
        self.length
    }

    /// Whether the prefix contains `address`.
    pub fn contains(self, address: Ipv6Addr) -> bool {
        address.to_bits() & mask(self.length) == self.address.to_bits()
    }

    /// Whether the prefix contains all of `other`.
    pub fn covers(self, other: Prefix) -> bool {
        self.length <= other.length && self.contains(other.address)
    }

    /// The address in this prefix with the low 64 bits `identifier`; `None` unless the length is 64.
    pub fn with_identifier(self, identifier: u64) -> Option<Ipv6Addr> {
        (self.length == 64).then(|| Ipv6Addr::from_bits(self.address.to_bits() | u128::from(identifier)))
    }
}

fn mask(length: u8) -> u128 {
    match length {
        0 => 0,
        bits => u128::MAX << (128 - u32::from(bits.min(128))),
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ipv4() {
            Some((address, length)) => write!(f, "{address}/{length}"),
            None => write!(f, "{}/{}", self.address, self.length),
        }
    }
}

impl fmt::Debug for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is no prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrefixError {
    /// Not of the form `address/length`.
    Form,
    /// Bits are set beyond the length, as in `2001:db8::1/64`.
    HostBits,
}

impl fmt::Display for PrefixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PrefixError::Form => "not a prefix; write it as 2001:db8:1::/64",
            PrefixError::HostBits => {
                "bits are set beyond the prefix length; write the prefix itself, as 2001:db8:1::/64"
            }
        })
    }
}

impl core::error::Error for PrefixError {}

impl FromStr for Prefix {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Prefix, PrefixError> {
        let (address, length) = text.split_once('/').ok_or(PrefixError::Form)?;
        let address = address.parse().map_err(|_| PrefixError::Form)?;
        let length = length.parse().map_err(|_| PrefixError::Form)?;
        let (prefix, address) = match address {
            IpAddr::V4(address) => (Prefix::from_ipv4(address, length), address.to_ipv6_mapped()),
            IpAddr::V6(address) => (Prefix::new(address, length), address),
        };
        let prefix = prefix.ok_or(PrefixError::Form)?;
        if prefix.address == address { Ok(prefix) } else { Err(PrefixError::HostBits) }
    }
}

serde_as_text!(Prefix);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_window_is_that_of_rfc6275_section_9_5_1() {
        assert!(Sequence(1).is_newer_than(Sequence(0)));
        assert!(!Sequence(0).is_newer_than(Sequence(0)));
        assert!(Sequence(0).is_newer_than(Sequence(65535)));
        assert!(Sequence(32767).is_newer_than(Sequence(0)));
        assert!(!Sequence(32768).is_newer_than(Sequence(0)));
    }

    #[test]
    fn prefix_text_round_trips_and_refuses_host_bits() {
        let prefix: Prefix = "2001:db8:f00::/56".parse().unwrap();
        assert_eq!(prefix.to_string(), "2001:db8:f00::/56");
        assert!(prefix.contains("2001:db8:f00:ff::1".parse().unwrap()));
        assert!(!prefix.contains("2001:db8:f00:100::1".parse().unwrap()));
        assert_eq!("2001:db8::1/64".parse::<Prefix>(), Err(PrefixError::HostBits));
        assert_eq!("::/0".parse::<Prefix>(), Ok(Prefix::ALL));
        assert_eq!("::/129".parse::<Prefix>(), Err(PrefixError::Form));
    }

    #[test]
    fn an_ipv4_prefix_is_that_of_mapped_addresses_and_written_as_usual() {
        let prefix: Prefix = "10.77.1.0/24".parse().unwrap();
        assert_eq!((prefix.address(), prefix.length()), ("::ffff:10.77.1.0".parse().unwrap(), 120));
        assert_eq!(prefix.ipv4(), Some((Ipv4Addr::new(10, 77, 1, 0), 24)));
        assert_eq!("::ffff:10.77.1.0/120".parse(), Ok(prefix));
        assert_eq!(prefix.to_string(), "10.77.1.0/24");
        assert_eq!("0.0.0.0/0".parse(), Ok(Prefix::ALL_IPV4));
        assert!(Prefix::ALL_IPV4.covers(prefix) && Prefix::ALL.covers(prefix));
        assert_eq!("10.77.1.1/24".parse::<Prefix>(), Err(PrefixError::HostBits));
        for wrong in ["10.77.1.0/33", "10.77.1/24", "10.77.1.0/255"] {
            assert_eq!(wrong.parse::<Prefix>(), Err(PrefixError::Form));
        }
        for other in ["::/0", "::/96", "::fffe:0:0/95", "2001:db8::/32"] {
            assert!(!other.parse::<Prefix>().unwrap().is_ipv4(), "{other}");
        }
    }

    #[test]
    fn eui64_identifier_flips_the_universal_bit() {
        let mac = LinkAddress([0x02, 0, 0, 0, 0, 0x01]);
        assert_eq!(mac.interface_identifier(), 0x0000_00ff_fe00_0001);
    }
}
