//! Invitations: all that a mobile router has to know of its home agent, as one line of text that can be pasted, or scanned as a
//! QR code. An invitation contains the key of RFC 4285 that both share, so it is a secret.
//!
//! Octets, numbers in network byte order: version 1; flags; identifier (8); time of expiry, seconds since 1970 (4); IPv6 address
//! of the home agent; its IPv4 address, if flagged; home address; length of the home prefix, if flagged, else 64; number of
//! prefixes, 1 to 8, and for each its length and as many octets as that takes, those of IPv4 as IPv4-mapped ones; SPI (4); key
//! (20); length and octets of the name, if flagged; the first four octets of the SHA-256 digest of all before, against typing
//! errors. The text is `ROAM6:` and these octets in the base-32 alphabet of Douglas Crockford, which has no I, L, O and U; a QR
//! code takes it in its alphanumeric mode.

use crate::config::key::KEY_LENGTH;
use crate::config::spi::MIN_SPI;
pub(crate) use roam6_proto::contract::config::nemo::InvitationId;
use roam6_proto::contract::config::nemo::SharedKey;
use roam6_wire::Prefix;
use sha2::{Digest, Sha256};
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

/// What the text begins with.
const BEGIN: &str = "ROAM6:";
/// The only version.
const VERSION: u8 = 1;
/// The home agent's IPv4 address follows.
const FLAG_IPV4: u8 = 0x01;
/// A name follows.
const FLAG_NAME: u8 = 0x02;
/// The length of the home prefix follows.
const FLAG_HOME_LENGTH: u8 = 0x04;
/// Octets of the digest.
const DIGEST_LENGTH: usize = 4;
/// Most prefixes.
pub(crate) const MAX_PREFIXES: usize = 8;
/// Longest name, octets.
pub(crate) const MAX_NAME: usize = 16;
/// Longest text that is looked at, octets; the longest invitation has 421 letters.
const MAX_TEXT: usize = 4096;
/// Crockford's digits.
const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// An invitation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Invitation {
    /// Its identifier.
    pub(crate) id: InvitationId,
    /// The time after which it is not used any more, seconds since 1970.
    pub(crate) expires_unix: u32,
    /// Address of the home agent.
    pub(crate) home_agent: Ipv6Addr,
    /// Its IPv4 address, for uplinks that have IPv4 only.
    pub(crate) home_agent_ipv4: Option<Ipv4Addr>,
    /// The mobile router's home address.
    pub(crate) home_address: Ipv6Addr,
    /// The home prefix, which contains it.
    pub(crate) home_prefix: Prefix,
    /// The prefixes of the mobile network.
    pub(crate) prefixes: Vec<Prefix>,
    /// The key of mobile router and home agent.
    pub(crate) key: SharedKey,
    /// The name of the mobile router; may be empty.
    pub(crate) name: String,
}

/// Why a text is no invitation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InvitationError {
    /// It does not begin like one.
    NotOne,
    /// It is not what the home agent has written.
    Damaged,
    /// A version that this program does not know.
    Version(u8),
    /// It was written so, and makes no sense.
    Invalid(&'static str),
}

impl fmt::Display for InvitationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InvitationError::NotOne => write!(f, "this is no invitation; one begins with {BEGIN}"),
            InvitationError::Damaged => f.write_str("a letter of the invitation is wrong or missing; copy it again"),
            InvitationError::Version(version) => {
                write!(f, "the invitation has version {version}: it was made by a newer roam6; update this one")
            }
            InvitationError::Invalid(why) => write!(f, "the invitation is invalid: {why}; ask for another one"),
        }
    }
}

impl Invitation {
    /// The text, in one piece.
    #[cfg(any(feature = "setup", test))]
    pub(crate) fn encode(&self) -> String {
        let mut octets = self.octets();
        let digest = Sha256::digest(&octets);
        octets.extend(digest.iter().take(DIGEST_LENGTH));
        format!("{BEGIN}{}", base32(&octets))
    }

    #[cfg(any(feature = "setup", test))]
    fn octets(&self) -> Vec<u8> {
        let flags = [
            (self.home_agent_ipv4.is_some(), FLAG_IPV4),
            (!self.name.is_empty(), FLAG_NAME),
            (self.home_prefix.length() != 64, FLAG_HOME_LENGTH),
        ];
        let flags = flags.iter().filter(|(set, _)| *set).fold(0, |all, (_, flag)| all | flag);
        let mut octets = vec![VERSION, flags];
        octets.extend(self.id.0);
        octets.extend(self.expires_unix.to_be_bytes());
        octets.extend(self.home_agent.octets());
        octets.extend(self.home_agent_ipv4.iter().flat_map(Ipv4Addr::octets));
        octets.extend(self.home_address.octets());
        octets.extend(Some(self.home_prefix.length()).filter(|length| *length != 64));
        octets.extend(u8::try_from(self.prefixes.len()));
        for prefix in &self.prefixes {
            octets.push(prefix.length());
            octets.extend(prefix.address().octets().iter().take(usize::from(prefix.length().div_ceil(8))));
        }
        octets.extend(self.key.spi.to_be_bytes());
        octets.extend(&self.key.secret);
        if let (Ok(length), false) = (u8::try_from(self.name.len()), self.name.is_empty()) {
            octets.push(length);
            octets.extend(self.name.as_bytes());
        }
        octets
    }

    /// Reads a text. Case, blanks, line ends and hyphens do not matter; O counts as 0, I and L as 1.
    ///
    /// # Errors
    /// See [`InvitationError`].
    pub(crate) fn decode(text: &str) -> Result<Invitation, InvitationError> {
        let text = text.trim();
        let (begin, rest) = text.split_at_checked(BEGIN.len()).ok_or(InvitationError::NotOne)?;
        if !begin.eq_ignore_ascii_case(BEGIN) {
            return Err(InvitationError::NotOne);
        }
        let octets = Some(rest).filter(|rest| rest.len() <= MAX_TEXT).and_then(from_base32);
        let octets = octets.ok_or(InvitationError::Damaged)?;
        let (content, digest) = octets.split_last_chunk::<DIGEST_LENGTH>().ok_or(InvitationError::Damaged)?;
        if !Sha256::digest(content).starts_with(digest) {
            return Err(InvitationError::Damaged);
        }
        // The digest is at the end in all versions.
        match content.first() {
            Some(&VERSION) => {}
            Some(version) => return Err(InvitationError::Version(*version)),
            None => return Err(InvitationError::Damaged),
        }
        let mut content = Content(content);
        let invitation =
            content.invitation().ok_or(InvitationError::Invalid("it ends early, or a value is out of range"))?;
        if !content.0.is_empty() {
            return Err(InvitationError::Invalid("octets follow its end"));
        }
        invitation.check().map_or(Ok(invitation), |why| Err(InvitationError::Invalid(why)))
    }

    /// What makes no sense in it.
    fn check(&self) -> Option<&'static str> {
        let overlapping = |(at, one): (usize, &Prefix)| {
            let others = self.prefixes.iter().skip(at.saturating_add(1));
            others.into_iter().any(|other| one.covers(*other) || other.covers(*one))
        };
        // The on-link /64 of the home agent may be that of its mobile router.
        let holds_agent = |prefix: &Prefix| prefix.contains(self.home_agent) && prefix.length() != 64;
        if !is_host(self.home_agent) || !is_host(self.home_address) {
            Some("an address is no unicast address of global scope")
        } else if self.home_agent == self.home_address {
            Some("home address and home agent are the same")
        } else if self.home_agent_ipv4.is_some_and(|address| !is_host(address.to_ipv6_mapped())) {
            Some("the IPv4 address is no unicast address")
        } else if !self.home_prefix.contains(self.home_address) {
            Some("the home address lies outside the home prefix")
        } else if self.prefixes.iter().all(|prefix| prefix.is_ipv4()) {
            Some("it has no IPv6 prefix")
        } else if self.prefixes.iter().any(|prefix| prefix.covers(self.home_prefix) || holds_agent(prefix)) {
            Some("a prefix contains the home prefix or the home agent")
        } else if self.prefixes.iter().enumerate().any(overlapping) {
            Some("its prefixes overlap")
        } else if self.key.spi < MIN_SPI {
            Some("its SPI is reserved")
        } else {
            None
        }
    }
}

/// Whether a name of a mobile router can be written everywhere: in a file, on a terminal, in an invitation.
pub(crate) fn is_name(text: &str) -> bool {
    let allowed = |letter: char| letter.is_alphanumeric() || "-_.".contains(letter);
    (1..=MAX_NAME).contains(&text.len()) && text.chars().all(allowed)
}

/// Whether it is the address of one host that others can reach.
fn is_host(address: Ipv6Addr) -> bool {
    match address.to_ipv4_mapped() {
        Some(address) => !(address.is_unspecified() || address.is_loopback() || address.octets()[0] >= 224),
        None => {
            let local = address.is_loopback() || address.is_unicast_link_local();
            !(address.is_unspecified() || address.is_multicast() || local)
        }
    }
}

/// The octets that remain to be read.
struct Content<'a>(&'a [u8]);

impl<'a> Content<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    fn octet(&mut self) -> Option<u8> {
        self.take::<1>().map(|[octet]| octet)
    }

    fn slice(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn invitation(&mut self) -> Option<Invitation> {
        let [_, flags] = self.take()?;
        if flags & !(FLAG_IPV4 | FLAG_NAME | FLAG_HOME_LENGTH) != 0 {
            return None;
        }
        let id = InvitationId(self.take()?);
        let expires_unix = u32::from_be_bytes(self.take()?);
        let home_agent = Ipv6Addr::from(self.take::<16>()?);
        let home_agent_ipv4 = if flags & FLAG_IPV4 == 0 { None } else { Some(Ipv4Addr::from(self.take::<4>()?)) };
        let home_address = Ipv6Addr::from(self.take::<16>()?);
        let home_length = if flags & FLAG_HOME_LENGTH == 0 { 64 } else { self.octet()? };
        let home_prefix = Prefix::new(home_address, home_length).filter(|_| (16..128).contains(&home_length))?;
        let count = usize::from(self.octet()?);
        if !(1..=MAX_PREFIXES).contains(&count) {
            return None;
        }
        let prefixes = (0..count).map(|_| self.prefix()).collect::<Option<Vec<_>>>()?;
        let key = SharedKey { spi: u32::from_be_bytes(self.take()?), secret: self.take::<KEY_LENGTH>()?.to_vec() };
        let name = if flags & FLAG_NAME == 0 { String::new() } else { self.name()? };
        Some(Invitation {
            id,
            expires_unix,
            home_agent,
            home_agent_ipv4,
            home_address,
            home_prefix,
            prefixes,
            key,
            name,
        })
    }

    /// A prefix of at least one bit, without host bits.
    fn prefix(&mut self) -> Option<Prefix> {
        let length = self.octet().filter(|length| (1..=128).contains(length))?;
        let mut octets = [0; 16];
        let written = self.slice(usize::from(length.div_ceil(8)))?;
        octets.iter_mut().zip(written).for_each(|(octet, value)| *octet = *value);
        let address = Ipv6Addr::from(octets);
        Prefix::new(address, length).filter(|prefix| prefix.address() == address)
    }

    fn name(&mut self) -> Option<String> {
        let length = usize::from(self.octet()?);
        let name = str::from_utf8(self.slice(length)?).ok()?;
        is_name(name).then(|| name.to_owned())
    }
}

/// Octets as Crockford's digits; the last is filled with zero bits.
#[cfg(any(feature = "setup", test))]
fn base32(octets: &[u8]) -> String {
    let bit = |at: usize| octets.get(at / 8).map_or(0, |octet| octet >> (7 - at % 8) & 1);
    let digits = octets.len().saturating_mul(8).div_ceil(5);
    let value = |digit: usize| (0..5).fold(0_u8, |value, place| value << 1 | bit(digit * 5 + place));
    (0..digits).filter_map(|digit| DIGITS.get(usize::from(value(digit)))).map(|digit| char::from(*digit)).collect()
}

/// The octets of Crockford's digits; `None` if there are others, or bits that belong to no octet.
fn from_base32(text: &str) -> Option<Vec<u8>> {
    let (mut octets, mut held, mut bits) = (Vec::new(), 0_u16, 0_u8);
    for letter in text.chars().filter(|letter| !letter.is_whitespace() && *letter != '-') {
        let letter = match letter.to_ascii_uppercase() {
            'O' => '0',
            'I' | 'L' => '1',
            other => other,
        };
        let digit = DIGITS.iter().position(|digit| char::from(*digit) == letter)?;
        held = held << 5 | u16::try_from(digit).ok()?;
        bits += 5;
        if bits >= 8 {
            bits -= 8;
            octets.push(u8::try_from(held >> bits).ok()?);
            held &= (1 << bits) - 1;
        }
    }
    (bits < 5 && held == 0).then_some(octets)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn van() -> Invitation {
        Invitation {
            id: InvitationId([1, 2, 3, 4, 5, 6, 7, 8]),
            expires_unix: 1_796_052_000,
            home_agent: "2001:db8:f::1".parse().unwrap(),
            home_agent_ipv4: Some("203.0.113.1".parse().unwrap()),
            home_address: "2001:db8:100::10".parse().unwrap(),
            home_prefix: "2001:db8:100::/64".parse().unwrap(),
            prefixes: vec!["2001:db8:100:10::/60".parse().unwrap()],
            key: SharedKey { spi: 4711, secret: (0..20).collect() },
            name: "van".to_owned(),
        }
    }

    /// The text of these octets with the right digest.
    fn sealed(mut octets: Vec<u8>) -> String {
        let digest = Sha256::digest(&octets);
        octets.extend(&digest[..DIGEST_LENGTH]);
        format!("{BEGIN}{}", base32(&octets))
    }

    /// A version 6 QR code with error correction M holds 154 alphanumeric characters.
    #[test]
    fn an_invitation_is_one_line_for_a_small_qr_code() {
        let text = van().encode();
        let golden = "ROAM6:041G20G30G2GC1R8DC6S8810046VG00F0000000000000001SC072090046VG0800000000\
                      00000000G04Y2008DQ00G000G00014SR0041061050R3GG28A1C60T3GF208H44R3ESGPXKJMB7YG";
        assert_eq!(text, golden);
        assert!(text.len() <= 154, "{}", text.len());
        assert_eq!(Invitation::decode(&text), Ok(van()));
    }

    #[test]
    fn every_form_round_trips() {
        let plain = Invitation { home_agent_ipv4: None, name: String::new(), ..van() };
        let many = Invitation {
            home_address: "2001:db8:100:8000::10".parse().unwrap(),
            home_prefix: "2001:db8:100:8000::/50".parse().unwrap(),
            prefixes: ["2001:db8:200::/41", "2001:db8:300::/128", "10.77.1.0/24"]
                .map(|text| text.parse().unwrap())
                .into(),
            name: "büs-12_a.b".to_owned(),
            ..van()
        };
        for invitation in [plain, many] {
            assert_eq!(Invitation::decode(&invitation.encode()), Ok(invitation));
        }
    }

    #[test]
    fn people_may_type_it_in_their_way() {
        let text = van().encode();
        let grouped: Vec<String> =
            text.as_bytes()[BEGIN.len()..].chunks(5).map(|group| String::from_utf8_lossy(group).into_owned()).collect();
        let typed = format!("  roam6:{}\n", grouped.join("-").to_lowercase().replace('0', "o").replace('1', "l"));
        assert_eq!(Invitation::decode(&typed), Ok(van()));
        let wrapped = format!("ROAM6:{}", grouped.join(" \r\n"));
        assert_eq!(Invitation::decode(&wrapped), Ok(van()));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let text = van().encode();
        assert_eq!(Invitation::decode(""), Err(InvitationError::NotOne));
        assert_eq!(Invitation::decode("häßlich"), Err(InvitationError::NotOne));
        assert_eq!(Invitation::decode("ROAM6:"), Err(InvitationError::Damaged));
        assert_eq!(Invitation::decode(&format!("{text}!")), Err(InvitationError::Damaged));
        assert_eq!(Invitation::decode(&format!("ROAM6:{}", "0".repeat(5000))), Err(InvitationError::Damaged));
        let mut newer = van().octets();
        newer[0] = 2;
        assert_eq!(Invitation::decode(&sealed(newer)), Err(InvitationError::Version(2)));
        let mut flagged = van().octets();
        flagged[1] |= 0x80;
        assert!(matches!(Invitation::decode(&sealed(flagged)), Err(InvitationError::Invalid(_))));
        let mut longer = van().octets();
        longer.push(0);
        assert_eq!(Invitation::decode(&sealed(longer)), Err(InvitationError::Invalid("octets follow its end")));
    }

    #[test]
    fn values_that_make_no_sense_are_refused() {
        let address = |text: &str| text.parse::<Ipv6Addr>().unwrap();
        let prefixes = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<Prefix>>();
        let wrong = [
            Invitation { home_agent: address("ff02::1"), ..van() },
            Invitation { home_agent: address("2001:db8:100::10"), ..van() },
            Invitation { home_agent_ipv4: Some(Ipv4Addr::LOCALHOST), ..van() },
            Invitation { prefixes: prefixes(&["10.0.0.0/8"]), ..van() },
            Invitation { prefixes: prefixes(&["2001:db8:100::/56"]), ..van() },
            Invitation { prefixes: prefixes(&["2001:db8:200::/56", "2001:db8:200::/64"]), ..van() },
            Invitation { prefixes: Vec::new(), ..van() },
            Invitation {
                prefixes: (0..9).map(|n| Prefix::new(Ipv6Addr::from_bits(1 << 125 | n << 64), 64).unwrap()).collect(),
                ..van()
            },
            Invitation { key: SharedKey { spi: 255, ..van().key }, ..van() },
            Invitation { key: SharedKey { secret: vec![1; 19], ..van().key }, ..van() },
            Invitation { name: "a b".to_owned(), ..van() },
            Invitation { name: "\u{1b}[31m".to_owned(), ..van() },
        ];
        for invitation in wrong {
            let read = Invitation::decode(&invitation.encode());
            assert!(matches!(read, Err(InvitationError::Invalid(_))), "{invitation:?}: {read:?}");
        }
        let mut bits = van().octets();
        let length = bits.iter().position(|octet| *octet == 60).unwrap();
        bits[length + 8] |= 1;
        assert!(matches!(Invitation::decode(&sealed(bits)), Err(InvitationError::Invalid(_))));
    }

    /// Every single wrong octet, behind a right digest too, and every cut: an error or another valid invitation, never a panic.
    #[test]
    fn no_damage_is_a_panic() {
        let (text, octets) = (van().encode(), van().octets());
        for at in BEGIN.len()..text.len() {
            assert!(Invitation::decode(&text[..at]).is_err(), "{at}");
            let other = if text.as_bytes()[at] == b'7' { "8" } else { "7" };
            let damaged = format!("{}{other}{}", &text[..at], &text[at + 1..]);
            assert!(Invitation::decode(&damaged).is_err(), "{at}");
        }
        for at in 0..octets.len() {
            assert!(Invitation::decode(&sealed(octets[..at].to_vec())).is_err(), "{at}");
            for value in 0..=255 {
                let mut changed = octets.clone();
                changed[at] = value;
                if let Ok(read) = Invitation::decode(&sealed(changed.clone())) {
                    assert_eq!(read.octets(), changed);
                }
            }
        }
    }

    #[test]
    fn debugging_output_shows_no_key() {
        let shown = format!("{:?}", van());
        assert!(!shown.contains("secret") && !shown.contains("0, 1, 2"), "{shown}");
    }
}
