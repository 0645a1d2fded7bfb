//! Hash-based addresses: a set of addresses in several prefixes, bound to each other by a hash (RFC 5535).
//! The set is a CGA whose parameters list all the prefixes in a Multi-Prefix extension (§6).

use crate::base::rng::Entropy;
use crate::crypto::cga::{CgaError, Parameters, Sec};
use roam6_wire::Prefix;
use std::net::Ipv6Addr;

/// Extension type of the Multi-Prefix extension (RFC 5535 §6, §11).
const MULTI_PREFIX: u16 = 0x0012;
/// The P bit: the parameters have a real public key, so the set is CGA-compatible.
const KEY_PRESENT: u32 = 1 << 31;
/// Prefixes of one set; longer lists are refused.
pub const MAX_PREFIXES: usize = 64;

/// Contents of the public key field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyField<'a> {
    /// DER of a public key: the set is CGA-compatible.
    Public(&'a [u8]),
    /// A random number encoded as a key (RFC 5535 §6.1).
    Random(&'a [u8; 48]),
}

/// Parameters of a set for `prefixes`; [`Parameters::search`] then finds the modifier.
///
/// `None` when a prefix is not a /64, or there are none or more than [`MOST_PREFIXES`].
pub fn parameters(modifier: [u8; 16], prefixes: &[Prefix], key: KeyField<'_>) -> Option<Parameters> {
    let first = *prefixes.first()?;
    let fit = prefixes.len() <= MAX_PREFIXES && prefixes.iter().all(|prefix| prefix.length() == 64);
    let mut tail = match key {
        KeyField::Public(der) => der.to_vec(),
        KeyField::Random(number) => random_number_as_key(number),
    };
    tail.extend(multi_prefix_extension(prefixes, matches!(key, KeyField::Public(_))));
    if fit { Parameters::new(modifier, first, tail) } else { None }
}

/// A random number for the public key field.
pub fn random_number(entropy: &mut Entropy) -> [u8; 48] {
    let mut number = [0; 48];
    entropy.fill(&mut number);
    number
}

/// The addresses of a set in the order of its prefixes, once its modifier is found; `None` if it is not a set.
pub fn addresses(parameters: &Parameters, sec: Sec) -> Option<Vec<Ipv6Addr>> {
    let prefixes = prefixes(parameters)?;
    prefixes.iter().map(|prefix| Some(parameters.in_prefix(*prefix)?.address(sec))).collect()
}

/// Verifies that `address` is a member of the set, whatever prefix the parameters contain (RFC 5535 §7.3).
///
/// # Errors
/// `Prefix` if the prefix of the address is not in the set, otherwise that of the CGA verification.
pub fn verify(parameters: &Parameters, address: Ipv6Addr) -> Result<Sec, CgaError> {
    let listed = prefixes(parameters).ok_or(CgaError::Prefix)?;
    let own = listed.into_iter().find(|prefix| prefix.contains(address)).ok_or(CgaError::Prefix)?;
    parameters.in_prefix(own).ok_or(CgaError::Prefix)?.verify(address)
}

/// The prefixes of the Multi-Prefix extension; `None` if there is no well-formed one.
pub fn prefixes(parameters: &Parameters) -> Option<Vec<Prefix>> {
    parse_prefixes(multi_prefix(parameters)?)
}

/// Whether the parameters have a real public key: those of a CGA, and of a set with the P bit.
pub fn has_key(parameters: &Parameters) -> bool {
    multi_prefix(parameters).is_none_or(|data| data.first().is_some_and(|flags| flags & 0x80 != 0))
}

/// The contents of the Multi-Prefix extension.
fn multi_prefix(parameters: &Parameters) -> Option<&[u8]> {
    let mut rest = parameters.extensions();
    while let Some((&[kind_high, kind_low, length_high, length_low], after)) = rest.split_first_chunk::<4>() {
        let length = usize::from(u16::from_be_bytes([length_high, length_low]));
        let (data, next) = after.split_at_checked(length)?;
        if u16::from_be_bytes([kind_high, kind_low]) == MULTI_PREFIX {
            return Some(data);
        }
        rest = next;
    }
    None
}

fn parse_prefixes(data: &[u8]) -> Option<Vec<Prefix>> {
    let (_flags, halves) = data.split_first_chunk::<4>()?;
    let (halves, left) = halves.as_chunks::<8>();
    if !left.is_empty() || halves.is_empty() || halves.len() > MAX_PREFIXES {
        return None;
    }
    halves
        .iter()
        .map(|half| Prefix::new(Ipv6Addr::from_bits(u128::from(u64::from_be_bytes(*half)) << 64), 64))
        .collect()
}

fn multi_prefix_extension(prefixes: &[Prefix], key_present: bool) -> Vec<u8> {
    let mut bytes = MULTI_PREFIX.to_be_bytes().to_vec();
    let length = u16::try_from(4 + 8 * prefixes.len()).unwrap_or(u16::MAX);
    bytes.extend(length.to_be_bytes());
    bytes.extend(if key_present { KEY_PRESENT } else { 0 }.to_be_bytes());
    for prefix in prefixes {
        bytes.extend(prefix.address().octets().iter().take(8));
    }
    bytes
}

/// A 384-bit number as the modulus of an RSA SubjectPublicKeyInfo; its top bit is set, so that the DER length is fixed.
fn random_number_as_key(number: &[u8; 48]) -> Vec<u8> {
    /// SEQUENCE { SEQUENCE { rsaEncryption, NULL }, BIT STRING { SEQUENCE { INTEGER (49 octets) ...
    const HEAD: [u8; 25] = [
        0x30, 0x4c, 0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00, 0x03,
        0x3b, 0x00, 0x30, 0x38, 0x02, 0x31, 0x00,
    ];
    /// ... INTEGER 65537 } }
    const EXPONENT: [u8; 5] = [0x02, 0x03, 0x01, 0x00, 0x01];
    let mut der = HEAD.to_vec();
    der.extend(number);
    if let Some(top) = der.get_mut(HEAD.len()) {
        *top |= 0x80;
    }
    der.extend(EXPONENT);
    der
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::hex;
    use crate::crypto::cga::tests::{example_key, example_modifier};

    fn two_prefixes() -> [Prefix; 2] {
        ["2001:db8:a::/64".parse().unwrap(), "2001:db8:b::/64".parse().unwrap()]
    }

    fn texts(parameters: &Parameters, level: u8) -> Vec<String> {
        let set = addresses(parameters, Sec::new(level).unwrap()).unwrap();
        set.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn hba_golden_vectors() {
        let key = example_key();
        let mut set = parameters(example_modifier(0), &two_prefixes(), KeyField::Public(&key)).unwrap();
        assert_eq!(hex::encode(set.extensions()), "001200148000000020010db8000a000020010db8000b0000");
        assert!(has_key(&set));
        assert_eq!(texts(&set, 0), ["2001:db8:a:0:146d:e2e2:632:c84a", "2001:db8:b:0:1076:539e:22dc:19bb"]);
        assert!(set.search(Sec::new(1).unwrap(), 1 << 20));
        assert!(hex::encode(&set.emit()).starts_with("89a8a8b2e858d8b8f2633f44d2d658a8"));
        assert_eq!(texts(&set, 1), ["2001:db8:a:0:30a2:ed99:f6ae:62d1", "2001:db8:b:0:34eb:7e60:5e5c:2c3c"]);
    }

    #[test]
    fn only_members_of_the_hba_set_verify() {
        let number = random_number(&mut Entropy::seed_from_u64(1));
        let set = parameters([3; 16], &two_prefixes(), KeyField::Random(&number)).unwrap();
        let sec = Sec::new(0).unwrap();
        for address in addresses(&set, sec).unwrap() {
            assert_eq!(verify(&set, address), Ok(sec));
            let near = Ipv6Addr::from_bits(address.to_bits() ^ 1);
            assert_eq!(verify(&set, near), Err(CgaError::Identifier));
        }
        assert_eq!(verify(&set, "2001:db8:c::1".parse().unwrap()), Err(CgaError::Prefix));
    }

    #[test]
    fn a_random_number_has_the_shape_of_a_key() {
        let number = random_number(&mut Entropy::seed_from_u64(2));
        let set = parameters([3; 16], &two_prefixes(), KeyField::Random(&number)).unwrap();
        assert_eq!(set.key().len(), 78);
        assert!(!has_key(&set), "it is not the public key of a key pair");
        assert_eq!(Parameters::parse(&set.emit()), Ok(set.clone()));
        assert_eq!(prefixes(&set).unwrap(), two_prefixes());
    }

    #[test]
    fn a_truncated_multi_prefix_extension_is_no_set() {
        let key = example_key();
        let whole = parameters([0; 16], &two_prefixes(), KeyField::Public(&key)).unwrap().emit();
        for end in 25 + key.len()..whole.len() {
            let cut = Parameters::parse(&whole[..end]).unwrap();
            assert_eq!(prefixes(&cut), None, "cut at {end}");
        }
    }
}
