//! Locator verification by HBA sets and CGA signatures (RFC 5533 §7.2, RFC 5535 §7, RFC 3972 §5).

use crate::contract::config::shim::Identity;
use crate::contract::item::MAX_LOCATORS;
use crate::crypto::cga::Parameters;
use crate::crypto::hba;
use crate::crypto::signature::{self, PrivateKey};
use crate::{Entropy, Time, TokenBucket, VecMap};
use roam6_wire::Prefix;
use roam6_wire::shim6::{LocatorList, LocatorPreference, Message, Nonce, ShimOption, Tag, VerificationMethod};
use std::net::Ipv6Addr;
use std::sync::Arc;

/// CGA message type tag of Shim6 (RFC 5533 §5.15.5).
const CGA_MESSAGE_TYPE: [u8; 16] =
    [0x4a, 0x30, 0x56, 0x62, 0x48, 0x58, 0x57, 0x4b, 0x36, 0x55, 0x41, 0x6f, 0x50, 0x6a, 0x6d, 0x48];
/// Announcements cached for further contexts of the same ULID.
const MAX_ANNOUNCEMENTS: usize = 64;
/// Octets of list, parameters and signature in a message, so that the packet fits the minimum MTU (RFC 5533 §5.1).
const MAX_LIST_OCTETS: usize = 1104;

/// Locators and proof that go with one of our ULIDs.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Announcement {
    /// Our locators.
    pub(super) locators: Vec<Ipv6Addr>,
    /// Preferences in the order of the locators; empty if all are equal.
    pub(super) preferences: Vec<LocatorPreference>,
    /// Locator list, CGA parameters and signature options; empty for a ULID without proof.
    pub(super) options: Vec<ShimOption>,
}

/// CGA parameters and keys of this host.
#[derive(Debug, Default)]
pub(super) struct Identities {
    local: Vec<LocalIdentity>,
    /// Cache of announcements for the current lists: all contexts of one ULID share one.
    announced: VecMap<Ipv6Addr, Arc<Announcement>>,
}

#[derive(Debug)]
struct LocalIdentity {
    parameters: Parameters,
    /// The parameters have a Multi-Prefix extension (HBA).
    is_set: bool,
    key: Option<PrivateKey>,
    /// List of the current locators, signed once for all peers.
    list: Option<SignedList>,
}

/// A locator list with its preferences and signature.
#[derive(Debug)]
struct SignedList {
    list: LocatorList,
    preferences: Vec<LocatorPreference>,
    signature: Option<Vec<u8>>,
}

impl Identities {
    /// Parses the keys. A private key that does not match its parameters is not used, and yields a warning.
    pub(super) fn new(config: &[Identity]) -> (Identities, Vec<String>) {
        let mut complaints = Vec::new();
        let own = config.iter().map(|identity| {
            let parameters = identity.parameters.clone();
            let key = PrivateKey::parse(&identity.private_key).filter(|key| {
                hba::has_key(&parameters) && key.public().is_some_and(|public| public == parameters.key())
            });
            if key.is_none() && !identity.private_key.is_empty() {
                complaints.push("a private key does not match its CGA parameters and is not used".to_owned());
            }
            LocalIdentity { is_set: hba::prefixes(&parameters).is_some(), parameters, key, list: None }
        });
        (Identities { local: own.collect(), announced: VecMap::new() }, complaints)
    }

    /// Builds and signs the lists of `locators`, once for all peers.
    pub(super) fn build_lists(&mut self, locators: &[(Ipv6Addr, LocatorPreference)], entropy: &mut Entropy) {
        self.announced.clear();
        for own in &mut self.local {
            own.build_list(locators, entropy);
        }
    }

    /// Whether lists have been built.
    pub(super) fn has_lists(&self) -> bool {
        self.local.iter().all(|own| own.list.is_some())
    }

    /// The announcement for `ulid`; without a proof the ULID is its only locator.
    pub(super) fn announce(&mut self, ulid: Ipv6Addr) -> Arc<Announcement> {
        if let Some(known) = self.announced.get(&ulid) {
            return Arc::clone(known);
        }
        let alone = || Announcement { locators: vec![ulid], preferences: Vec::new(), options: Vec::new() };
        let announcement = Arc::new(self.local.iter().find_map(|own| own.announce(ulid)).unwrap_or_else(alone));
        // A key proves an address in every prefix, so peers could fill the cache.
        if self.announced.len() >= MAX_ANNOUNCEMENTS {
            self.announced.clear();
        }
        self.announced.insert(ulid, Arc::clone(&announcement));
        announcement
    }
}

impl LocalIdentity {
    fn build_list(&mut self, locators: &[(Ipv6Addr, LocatorPreference)], entropy: &mut Entropy) {
        let method =
            |locator: Ipv6Addr| match (self.is_set && hba::verify(&self.parameters, locator).is_ok(), &self.key) {
                (true, _) => Some(VerificationMethod::HBA),
                (false, Some(_)) => Some(VerificationMethod::CGA),
                (false, None) => None,
            };
        let provable =
            locators.iter().filter_map(|(locator, preference)| Some((method(*locator)?, *locator, *preference)));
        let mut all: Vec<_> = provable.take(MAX_LOCATORS).collect();
        // HBA locators come first, because the last ones are dropped if the message is too long.
        all.sort_by_key(|(method, ..)| *method);
        let generation = entropy.next_u64() as u32;
        self.list = loop {
            let locators = all.iter().map(|(method, locator, _)| (*method, *locator)).collect();
            let list = LocatorList { generation, locators };
            let mut preferences: Vec<LocatorPreference> = all.iter().map(|(.., preference)| *preference).collect();
            if preferences.iter().all(|preference| *preference == LocatorPreference::default()) {
                preferences.clear();
            }
            let listed = SignedList { signature: self.sign(&list, entropy), list, preferences };
            let options = listed.options(&self.parameters);
            let message = Message::UpdateRequest { tag: Tag::from_low_bits(0), nonce: Nonce(0), options };
            if message.emit().len() <= MAX_LIST_OCTETS || all.is_empty() {
                break Some(listed);
            }
            all.pop();
        };
    }

    fn sign(&self, list: &LocatorList, entropy: &mut Entropy) -> Option<Vec<u8>> {
        let wanted = list.locators.iter().any(|(method, _)| *method == VerificationMethod::CGA);
        self.key.as_ref().filter(|_| wanted)?.sign(&signed_data(list), entropy)
    }

    fn announce(&self, ulid: Ipv6Addr) -> Option<Announcement> {
        let parameters = match hba::verify(&self.parameters, ulid) {
            Ok(_) => self.parameters.clone(),
            // The modifier is valid for every prefix and every collision count.
            Err(_) => {
                let first = self.parameters.in_prefix(Prefix::new(ulid, 64)?);
                let mut counts = core::iter::successors(first, Parameters::after_collision);
                counts.find(|parameters| is_made_of(parameters, ulid))?
            }
        };
        let listed = self.list.as_ref()?;
        let locators = listed.list.locators.iter().map(|(_, locator)| *locator).collect();
        Some(Announcement { locators, preferences: listed.preferences.clone(), options: listed.options(&parameters) })
    }
}

impl SignedList {
    fn options(&self, parameters: &Parameters) -> Vec<ShimOption> {
        let mut options = vec![ShimOption::Locators(self.list.clone())];
        if !self.preferences.is_empty() {
            let (generation, elements) = (self.list.generation, self.preferences.clone());
            options.push(ShimOption::Preferences { generation, elements });
        }
        options.push(ShimOption::Parameters(parameters.emit()));
        options.extend(self.signature.iter().map(|signature| ShimOption::Signature(signature.clone())));
        options
    }
}

/// A peer's claim to its locators: options of a message, completed by the known parameters.
#[derive(Debug, Clone, Copy)]
pub(super) struct Claim<'a> {
    /// The peer's ULID.
    pub(super) ulid: Ipv6Addr,
    /// Its CGA parameters, from this message or an earlier one.
    pub(super) parameters: Option<&'a [u8]>,
    /// Its locators.
    pub(super) list: Option<&'a LocatorList>,
    /// Signature by the key of the parameters.
    pub(super) signature: Option<&'a [u8]>,
}

/// Why a claim is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClaimError {
    /// The parameters do not match the ULID.
    Parameters,
    /// The locator at this index of the list fails its verification method.
    Locator(usize),
    /// There are too many locators.
    TooMany,
    /// The rate limit of signature verifications is exhausted.
    RateLimited,
}

impl Claim<'_> {
    /// Verifies all locators of the list; the signature last, because it costs one of `budget`.
    ///
    /// # Errors
    /// The first check that fails.
    pub(super) fn verify(&self, now: Time, budget: &mut TokenBucket) -> Result<(), ClaimError> {
        let parameters = match self.parameters.map(Parameters::parse) {
            None => None,
            Some(parsed) => Some(parsed.map_err(|_| ClaimError::Parameters)?),
        };
        if parameters.as_ref().is_some_and(|parameters| !is_made_of(parameters, self.ulid)) {
            return Err(ClaimError::Parameters);
        }
        let Some(list) = self.list else { return Ok(()) };
        let parameters = parameters.ok_or(ClaimError::Parameters)?;
        if list.locators.len() > MAX_LOCATORS {
            return Err(ClaimError::TooMany);
        }
        let mut signed_at = None;
        for (index, (method, locator)) in list.locators.iter().enumerate() {
            match *method {
                VerificationMethod::HBA if hba::verify(&parameters, *locator).is_ok() => {}
                VerificationMethod::CGA if hba::has_key(&parameters) && self.signature.is_some() => {
                    signed_at = Some(index)
                }
                _ => return Err(ClaimError::Locator(index)),
            }
        }
        let (Some(index), Some(signature)) = (signed_at, self.signature) else { return Ok(()) };
        if !budget.take(now) {
            return Err(ClaimError::RateLimited);
        }
        let genuine = signature::verify(parameters.key(), &signed_data(list), signature);
        if genuine { Ok(()) } else { Err(ClaimError::Locator(index)) }
    }
}

/// Whether `ulid` is a CGA of `parameters`, or a member of their HBA set.
fn is_made_of(parameters: &Parameters, ulid: Ipv6Addr) -> bool {
    parameters.verify(ulid).is_ok() || hba::verify(parameters, ulid).is_ok()
}

/// The octets covered by the CGA Signature option (RFC 5533 §5.15.5).
fn signed_data(list: &LocatorList) -> Vec<u8> {
    let mut message = CGA_MESSAGE_TYPE.to_vec();
    message.extend(list.generation.to_be_bytes());
    for (method, locator) in &list.locators {
        if *method == VerificationMethod::CGA {
            message.extend(locator.octets());
        }
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::cga::Sec;
    use crate::crypto::hba::KeyField;
    use crate::crypto::signature::tests::{p256_key, rsa_key};
    use core::time::Duration;

    const OTHER: &str = "2001:db8:c::9";

    fn ip(text: &str) -> Ipv6Addr {
        text.parse().unwrap()
    }

    fn budget() -> TokenBucket {
        TokenBucket::new(2, Duration::from_secs(1))
    }

    /// A set of two prefixes, with a key of its own or without.
    fn identity(key: Option<Vec<u8>>) -> (Identity, Vec<Ipv6Addr>) {
        let prefixes = ["2001:db8:a::/64".parse().unwrap(), "2001:db8:b::/64".parse().unwrap()];
        let number = [7; 48];
        let public = key.as_ref().map(|key| PrivateKey::parse(key).unwrap().public().unwrap());
        let field = public.as_ref().map_or(KeyField::Random(&number), |key| KeyField::Public(key));
        let parameters = hba::parameters([1; 16], &prefixes, field).unwrap();
        let addresses = hba::addresses(&parameters, Sec::new(0).unwrap()).unwrap();
        (Identity { parameters, private_key: key.unwrap_or_default() }, addresses)
    }

    fn announced(key: Option<Vec<u8>>, extra: &[Ipv6Addr]) -> (Arc<Announcement>, Ipv6Addr) {
        let (identity, addresses) = identity(key);
        let (mut identities, complaints) = Identities::new(&[identity]);
        assert!(complaints.is_empty());
        let all = [&addresses, extra].concat().into_iter().map(|address| (address, LocatorPreference::default()));
        identities.build_lists(&all.collect::<Vec<_>>(), &mut Entropy::seed_from_u64(1));
        (identities.announce(addresses[0]), addresses[0])
    }

    fn check(options: &[ShimOption], ulid: Ipv6Addr, budget: &mut TokenBucket) -> Result<(), ClaimError> {
        let mut claim = Claim { ulid, parameters: None, list: None, signature: None };
        for option in options {
            match option {
                ShimOption::Locators(list) => claim.list = Some(list),
                ShimOption::Parameters(parameters) => claim.parameters = Some(parameters),
                ShimOption::Signature(signature) => claim.signature = Some(signature),
                other => panic!("{other:?}"),
            }
        }
        claim.verify(Time::ZERO, budget)
    }

    #[test]
    fn an_hba_set_proves_its_members_and_a_cga_key_all_it_signs() {
        let (set, ulid) = announced(None, &[ip(OTHER)]);
        assert_eq!(set.locators.len(), 2, "the third has no proof");
        assert_eq!(check(&set.options, ulid, &mut budget()), Ok(()));
        for key in [rsa_key(), p256_key()] {
            let (signed, ulid) = announced(Some(key), &[ip(OTHER)]);
            assert_eq!(signed.locators.last(), Some(&ip(OTHER)));
            assert_eq!(check(&signed.options, ulid, &mut budget()), Ok(()));
        }
    }

    #[test]
    fn unproved_locators_are_rejected() {
        let (signed, ulid) = announced(Some(p256_key()), &[ip(OTHER)]);
        assert_eq!(check(&signed.options, ip(OTHER), &mut budget()), Err(ClaimError::Parameters));
        assert_eq!(check(&signed.options[..1], ulid, &mut budget()), Err(ClaimError::Parameters));
        assert_eq!(check(&signed.options[..2], ulid, &mut budget()), Err(ClaimError::Locator(2)), "no signature");
        let changed = |change: fn(&mut LocatorList)| {
            let mut options = signed.options.clone();
            let Some(ShimOption::Locators(list)) = options.first_mut() else { panic!() };
            change(list);
            check(&options, ulid, &mut budget())
        };
        assert_eq!(changed(|list| list.generation ^= 1), Err(ClaimError::Locator(2)));
        assert_eq!(changed(|list| list.locators[2].1 = ip("2001:db8:d::9")), Err(ClaimError::Locator(2)));
        assert_eq!(changed(|list| list.locators[2].0 = VerificationMethod::HBA), Err(ClaimError::Locator(2)));
        assert_eq!(changed(|list| list.locators[0].0 = VerificationMethod(3)), Err(ClaimError::Locator(0)));
        assert_eq!(changed(|list| list.locators = vec![list.locators[0]; 17]), Err(ClaimError::TooMany));
    }

    #[test]
    fn an_hba_random_number_cannot_sign() {
        let (set, ulid) = announced(None, &[]);
        let mut options = set.options.clone();
        let Some(ShimOption::Locators(list)) = options.first_mut() else { panic!() };
        list.locators[1].0 = VerificationMethod::CGA;
        options.push(ShimOption::Signature(vec![0; 48]));
        assert_eq!(check(&options, ulid, &mut budget()), Err(ClaimError::Locator(1)));
    }

    #[test]
    fn signature_verification_is_rate_limited() {
        let (signed, ulid) = announced(Some(p256_key()), &[ip(OTHER)]);
        let mut budget = budget();
        let checks = [(); 3].map(|()| check(&signed.options, ulid, &mut budget));
        assert_eq!(checks, [Ok(()), Ok(()), Err(ClaimError::RateLimited)]);
    }

    #[test]
    fn a_key_that_does_not_match_the_cga_parameters_is_not_used() {
        let (mut identity, _) = identity(Some(p256_key()));
        identity.private_key = rsa_key();
        assert_eq!(Identities::new(&[identity]).1.len(), 1);
    }

    #[test]
    fn locator_lists_fit_the_minimum_mtu() {
        let extra: Vec<Ipv6Addr> = (0..40).map(|index| ip(&format!("2001:db8:{index:x}::9"))).collect();
        let (signed, ulid) = announced(Some(rsa_key()), &extra);
        assert_eq!(signed.locators.len(), MAX_LOCATORS);
        assert_eq!(check(&signed.options, ulid, &mut budget()), Ok(()));
        let message =
            Message::UpdateRequest { tag: Tag::from_low_bits(0), nonce: Nonce(0), options: signed.options.clone() };
        assert!(message.emit().len() <= MAX_LIST_OCTETS);
    }
}
