//! CGA parameters and HBA sets of our addresses: configured, restored from an earlier run, or searched for in slices
//! (RFC 3972 §4, RFC 5535 §6).

use crate::base::few;
use crate::base::rng::Entropy;
use crate::contract::config::shim::{AddressGeneration, Identity, Proof};
use crate::contract::item::HbaSetRecord;
use crate::crypto::cga::{Parameters, Sec};
use crate::crypto::hba::{self, KeyField};
use crate::crypto::signature::PrivateKey;
use roam6_wire::Prefix;
use std::net::Ipv6Addr;

/// Sets stored for networks that the host returns to; the oldest is replaced.
pub(crate) const MOST_STORED: u8 = 8;
/// Former sets whose addresses existing connections may still use.
const MOST_FORMER: usize = 2;
/// Hashes computed in one slice: about a millisecond.
const SLICE: u64 = 4096;

/// CGA parameters with the Sec value of their addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) parameters: Parameters,
    pub(super) sec: Sec,
}

impl Source {
    fn of(parameters: &Parameters) -> Option<Source> {
        let levels = [2, 1, 0].into_iter().filter_map(Sec::new);
        let sec = levels.into_iter().find(|sec| parameters.verify(parameters.address(*sec)).is_ok())?;
        Some(Source { parameters: parameters.clone(), sec })
    }

    /// The address in `prefix` with this collision count; `None` if the set lacks the prefix or the count exceeds 2.
    pub(super) fn address(&self, prefix: Prefix, collisions: u8) -> Option<Ipv6Addr> {
        let mut parameters = self.parameters.in_prefix(prefix)?;
        if hba::prefixes(&self.parameters).is_some_and(|listed| !listed.contains(&prefix)) {
            return None;
        }
        for _ in 0..collisions {
            parameters = parameters.after_collision()?;
        }
        Some(parameters.address(self.sec))
    }

    fn covers(&self, prefixes: &few::VecSet<Prefix>) -> bool {
        hba::prefixes(&self.parameters).is_some_and(|listed| prefixes.iter().all(|prefix| listed.contains(prefix)))
    }
}

/// The address sources of this host.
#[derive(Debug, Default)]
pub(super) struct Sets {
    /// Source of new addresses.
    pub(super) current: Option<Source>,
    former: Vec<Source>,
    /// Sets of this and earlier runs, the newest last.
    stored: Vec<(u8, Source)>,
    search: Option<Parameters>,
}

impl Sets {
    /// Restores a set of an earlier run.
    pub(super) fn recall(&mut self, record: &HbaSetRecord) {
        if let Some(source) = Source::of(&record.parameters)
            && record.number < MOST_STORED
        {
            self.stored.retain(|(number, _)| *number != record.number);
            self.stored.push((record.number, source));
        }
    }

    /// Removes the sets in use, but not the stored ones.
    pub(super) fn leave(&mut self) {
        (self.current, self.search) = (None, None);
        self.former.clear();
    }

    /// Activates a source that covers `prefixes`, if there is one; otherwise a search has to be started.
    pub(super) fn choose(&mut self, policy: AddressGeneration, given: &[Identity], prefixes: &few::VecSet<Prefix>) -> bool {
        if prefixes.is_empty() || self.suits(policy, prefixes) {
            return true;
        }
        let ahead = given.iter().filter_map(|identity| Source::of(&identity.parameters));
        let with_key = given.iter().filter(|identity| !identity.private_key.is_empty());
        let found = match policy.proof {
            Proof::Cga => with_key.filter_map(|identity| Source::of(&identity.parameters)).next(),
            Proof::Hba | Proof::CgaCompatibleHba => {
                let stored = self.stored.iter().rev().map(|(_, source)| source.clone());
                let fits = |source: &Source| source.covers(prefixes) && is_of(policy, given, source);
                ahead.chain(stored).find(fits)
            }
        };
        let chosen = found.is_some();
        if let Some(found) = found {
            self.take(found);
        }
        chosen
    }

    fn suits(&self, policy: AddressGeneration, prefixes: &few::VecSet<Prefix>) -> bool {
        let suits = |source: &Source| policy.proof == Proof::Cga || source.covers(prefixes);
        self.current.as_ref().is_some_and(suits)
    }

    fn take(&mut self, source: Source) {
        self.search = None;
        self.former.extend(self.current.replace(source));
        let surplus = self.former.len().saturating_sub(MOST_FORMER);
        self.former.drain(..surplus);
    }

    /// Starts the modifier search for a set of `prefixes`, unless it is already running.
    pub(super) fn begin(
        &mut self,
        policy: AddressGeneration,
        given: &[Identity],
        prefixes: &few::VecSet<Prefix>,
        entropy: &mut Entropy,
    ) {
        let prefixes: Vec<Prefix> = prefixes.iter().copied().take(hba::MOST_PREFIXES).collect();
        let wanted = |search: &Parameters| hba::prefixes(search).as_ref() == Some(&prefixes);
        if self.search.as_ref().is_some_and(wanted) {
            return;
        }
        let mut modifier = [0; 16];
        entropy.fill(&mut modifier);
        let number = hba::random_number(entropy);
        let key = public_key(given);
        let field = match (&key, policy.proof) {
            (Some(key), Proof::CgaCompatibleHba) => KeyField::Public(key),
            _ => KeyField::Random(&number),
        };
        self.search = hba::parameters(modifier, &prefixes, field);
    }

    /// Whether a modifier search is running.
    pub(super) fn is_searching(&self) -> bool {
        self.search.is_some()
    }

    /// Runs a slice of the search; a set that is found is activated, and returned to be stored.
    pub(super) fn go_on(&mut self, sec: Sec) -> Option<HbaSetRecord> {
        let search = self.search.as_mut()?;
        if !search.search(sec, SLICE) {
            return None;
        }
        let parameters = self.search.take()?;
        self.take(Source { parameters: parameters.clone(), sec });
        Some(self.store(parameters, sec))
    }

    /// An address of the set is a duplicate: all are made again with a higher collision count (RFC 5535 §6). `None`
    /// after the third collision, which is a fault or an attack.
    pub(super) fn collide(&mut self) -> Option<HbaSetRecord> {
        let Source { parameters, sec } = self.current.clone()?;
        let parameters = parameters.after_collision()?;
        self.take(Source { parameters: parameters.clone(), sec });
        Some(self.store(parameters, sec))
    }

    fn store(&mut self, parameters: Parameters, sec: Sec) -> HbaSetRecord {
        let last = self.stored.last().map(|(number, _)| *number);
        let number = last.map_or(0, |last| last.wrapping_add(1) % MOST_STORED);
        self.stored.retain(|(stored, _)| *stored != number);
        self.stored.push((number, Source { parameters: parameters.clone(), sec }));
        HbaSetRecord { number, parameters }
    }

    /// The verification method of an address in use.
    pub(super) fn proof(&self, address: Ipv6Addr) -> &'static str {
        let set = |source: &Source| hba::verify(&source.parameters, address).is_ok();
        if self.current.iter().chain(&self.former).any(set) { "hba" } else { "cga" }
    }

    /// All sources in use as identities, with the private key of `given` that they were made with.
    pub(super) fn identities(&self, given: &[Identity]) -> Vec<Identity> {
        let known = |source: &&Source| !given.iter().any(|identity| identity.parameters == source.parameters);
        let key = |source: &Source| {
            let of = |identity: &&Identity| identity.parameters.key() == source.parameters.key();
            given.iter().find(of).map(|identity| identity.private_key.clone()).unwrap_or_default()
        };
        let all = self.current.iter().chain(&self.former).filter(known);
        all.map(|source| Identity { parameters: source.parameters.clone(), private_key: key(source) }).collect()
    }
}

/// The public key for new sets.
fn public_key(given: &[Identity]) -> Option<Vec<u8>> {
    given.iter().find_map(|identity| PrivateKey::parse(&identity.private_key)?.public())
}

/// Whether a set complies with `policy`.
fn is_of(policy: AddressGeneration, given: &[Identity], source: &Source) -> bool {
    let has_key = hba::has_key(&source.parameters);
    let ours = || {
        given
            .iter()
            .any(|identity| !identity.private_key.is_empty() && identity.parameters.key() == source.parameters.key())
    };
    source.sec >= policy.sec && if policy.proof == Proof::CgaCompatibleHba { has_key && ours() } else { !has_key || ours() }
}
