//! CGA parameters and HBA sets of our addresses: configured, restored from an earlier run, or searched for in slices
//! (RFC 3972 §4, RFC 5535 §6).

use crate::contract::config::shim::{AddressGeneration, AddressProof, Identity};
use crate::contract::item::HbaSetRecord;
use crate::contract::view::GeneratedBy;
use crate::crypto::cga::{Parameters, Sec};
use crate::crypto::hba::{self, KeyField};
use crate::crypto::signature::PrivateKey;
use crate::{Entropy, VecSet};
use roam6_wire::Prefix;
use std::net::Ipv6Addr;

/// Sets stored for networks that the host returns to; the oldest is replaced.
pub(crate) const MAX_STORED_SETS: u8 = 8;
/// Former sets whose addresses existing connections may still use.
const MAX_FORMER_SETS: usize = 2;
/// Hashes computed in one slice: about a millisecond.
const HASHES_PER_SLICE: u64 = 4096;

/// CGA parameters with the Sec value of their addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AddressSource {
    pub(super) parameters: Parameters,
    pub(super) sec: Sec,
}

impl AddressSource {
    fn from_parameters(parameters: &Parameters) -> Option<AddressSource> {
        let levels = [2, 1, 0].into_iter().filter_map(Sec::new);
        let sec = levels.into_iter().find(|sec| parameters.verify(parameters.address(*sec)).is_ok())?;
        Some(AddressSource { parameters: parameters.clone(), sec })
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

    fn covers(&self, prefixes: &VecSet<Prefix>) -> bool {
        hba::prefixes(&self.parameters).is_some_and(|listed| prefixes.iter().all(|prefix| listed.contains(prefix)))
    }
}

/// The address sources of this host.
#[derive(Debug, Default)]
pub(super) struct AddressSets {
    /// Source of new addresses.
    pub(super) current: Option<AddressSource>,
    former: Vec<AddressSource>,
    /// Sets of this and earlier runs, the newest last.
    stored: Vec<(u8, AddressSource)>,
    search: Option<Parameters>,
}

impl AddressSets {
    /// Restores a set of an earlier run.
    pub(super) fn restore(&mut self, record: &HbaSetRecord) {
        if let Some(source) = AddressSource::from_parameters(&record.parameters)
            && record.number < MAX_STORED_SETS
        {
            self.stored.retain(|(number, _)| *number != record.number);
            self.stored.push((record.number, source));
        }
    }

    /// Removes the sets in use, but not the stored ones.
    pub(super) fn clear(&mut self) {
        (self.current, self.search) = (None, None);
        self.former.clear();
    }

    /// Activates a source that covers `prefixes`, if there is one; otherwise a search has to be started.
    pub(super) fn choose(&mut self, policy: AddressGeneration, given: &[Identity], prefixes: &VecSet<Prefix>) -> bool {
        if prefixes.is_empty() || self.current_suits(policy, prefixes) {
            return true;
        }
        let ahead = given.iter().filter_map(|identity| AddressSource::from_parameters(&identity.parameters));
        let with_key = given.iter().filter(|identity| !identity.private_key.is_empty());
        let found = match policy.proof {
            AddressProof::Cga => {
                with_key.filter_map(|identity| AddressSource::from_parameters(&identity.parameters)).next()
            }
            AddressProof::Hba | AddressProof::CgaCompatibleHba => {
                let stored = self.stored.iter().rev().map(|(_, source)| source.clone());
                let fits = |source: &AddressSource| source.covers(prefixes) && complies_with(policy, given, source);
                ahead.chain(stored).find(fits)
            }
        };
        let chosen = found.is_some();
        if let Some(found) = found {
            self.activate(found);
        }
        chosen
    }

    fn current_suits(&self, policy: AddressGeneration, prefixes: &VecSet<Prefix>) -> bool {
        let suits = |source: &AddressSource| policy.proof == AddressProof::Cga || source.covers(prefixes);
        self.current.as_ref().is_some_and(suits)
    }

    fn activate(&mut self, source: AddressSource) {
        self.search = None;
        self.former.extend(self.current.replace(source));
        let surplus = self.former.len().saturating_sub(MAX_FORMER_SETS);
        self.former.drain(..surplus);
    }

    /// Starts the modifier search for a set of `prefixes`, unless it is already running.
    pub(super) fn start_search(
        &mut self,
        policy: AddressGeneration,
        given: &[Identity],
        prefixes: &VecSet<Prefix>,
        entropy: &mut Entropy,
    ) {
        let prefixes: Vec<Prefix> = prefixes.iter().copied().take(hba::MAX_PREFIXES).collect();
        let wanted = |search: &Parameters| hba::prefixes(search).as_ref() == Some(&prefixes);
        if self.search.as_ref().is_some_and(wanted) {
            return;
        }
        let mut modifier = [0; 16];
        entropy.fill(&mut modifier);
        let number = hba::random_number(entropy);
        let key = public_key(given);
        let field = match (&key, policy.proof) {
            (Some(key), AddressProof::CgaCompatibleHba) => KeyField::Public(key),
            _ => KeyField::Random(&number),
        };
        self.search = hba::parameters(modifier, &prefixes, field);
    }

    /// Whether a modifier search is running.
    pub(super) fn is_searching(&self) -> bool {
        self.search.is_some()
    }

    /// Runs a slice of the search; a set that is found is activated, and returned to be stored.
    pub(super) fn continue_search(&mut self, sec: Sec) -> Option<HbaSetRecord> {
        let search = self.search.as_mut()?;
        if !search.search(sec, HASHES_PER_SLICE) {
            return None;
        }
        let parameters = self.search.take()?;
        self.activate(AddressSource { parameters: parameters.clone(), sec });
        Some(self.store(parameters, sec))
    }

    /// An address of the set is a duplicate: all are made again with a higher collision count (RFC 5535 §6). `None`
    /// after the third collision, which is a fault or an attack.
    pub(super) fn after_collision(&mut self) -> Option<HbaSetRecord> {
        let AddressSource { parameters, sec } = self.current.clone()?;
        let parameters = parameters.after_collision()?;
        self.activate(AddressSource { parameters: parameters.clone(), sec });
        Some(self.store(parameters, sec))
    }

    fn store(&mut self, parameters: Parameters, sec: Sec) -> HbaSetRecord {
        let last = self.stored.last().map(|(number, _)| *number);
        let number = last.map_or(0, |last| last.wrapping_add(1) % MAX_STORED_SETS);
        self.stored.retain(|(stored, _)| *stored != number);
        self.stored.push((number, AddressSource { parameters: parameters.clone(), sec }));
        HbaSetRecord { number, parameters }
    }

    /// The verification method of an address in use.
    pub(super) fn proof(&self, address: Ipv6Addr) -> GeneratedBy {
        let set = |source: &AddressSource| hba::verify(&source.parameters, address).is_ok();
        if self.current.iter().chain(&self.former).any(set) { GeneratedBy::Hba } else { GeneratedBy::Cga }
    }

    /// All sources in use as identities, with the private key of `given` that they were made with.
    pub(super) fn identities(&self, given: &[Identity]) -> Vec<Identity> {
        let known = |source: &&AddressSource| !given.iter().any(|identity| identity.parameters == source.parameters);
        let key = |source: &AddressSource| {
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
fn complies_with(policy: AddressGeneration, given: &[Identity], source: &AddressSource) -> bool {
    let has_key = hba::has_key(&source.parameters);
    let ours = || {
        given
            .iter()
            .any(|identity| !identity.private_key.is_empty() && identity.parameters.key() == source.parameters.key())
    };
    source.sec >= policy.sec
        && if policy.proof == AddressProof::CgaCompatibleHba { has_key && ours() } else { !has_key || ours() }
}
