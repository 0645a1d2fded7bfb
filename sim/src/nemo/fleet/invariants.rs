//! What must hold in these worlds, whatever fails.

use super::member::Member;
use super::mobile::Mobile;
use super::store::SimStore;
use crate::failure::ensure;
use crate::nemo::binding_messages::Acknowledgement;
use core::time::Duration;
use roam6_proto::Time;
use roam6_proto::contract::fleet::MemberState;
use roam6_proto::contract::item::{BindingRecord, FleetRecord};
use roam6_wire::{HomeAddress, Sequence};
use std::collections::{BTreeMap, BTreeSet};

/// Clocks differ by at most this where they are right, and by so much where they are wrong.
const CLOCK_ERROR: Duration = Duration::from_secs(6);
/// A record that ends so close to now may be in force at one member and not at another.
const EDGE: Duration = Duration::from_secs(15);

/// What was committed and acknowledged.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Committed updates: home address and sequence number.
    committed: BTreeSet<(HomeAddress, u16)>,
    /// The last committed sequence number and timestamp, deletions included.
    last: BTreeMap<HomeAddress, (Sequence, u64)>,
    /// Accepted updates that were acknowledged.
    acknowledged: BTreeSet<(HomeAddress, u16)>,
    /// Number of acknowledgements.
    pub acknowledgements: u64,
}

impl Ledger {
    /// A change of the store: never back in time, never of what is still needed, and no prefix twice.
    ///
    /// # Errors
    /// What does not hold.
    pub fn committed(
        &mut self,
        unix_now: u64,
        change: &FleetRecord,
        former: Option<&BindingRecord>,
        store: &SimStore,
    ) -> Result<(), String> {
        let home = change.home_address;
        let Some(record) = &change.record else {
            let end = former.map_or(0, |former| former.expires_unix_micros);
            let over = u128::from(end) < u128::from(unix_now) + CLOCK_ERROR.as_micros();
            ensure!(over, "{home}: a record was deleted that is in force for {} us", end.saturating_sub(unix_now));
            return Ok(());
        };
        if let Some((sequence, timestamp)) = self.last.get(&home) {
            ensure!(
                record.sequence.is_newer_than(*sequence) && record.timestamp > *timestamp,
                "{home}: update {} was committed after update {sequence}",
                record.sequence
            );
        }
        self.last.insert(home, (record.sequence, record.timestamp));
        self.committed.insert((home, record.sequence.0));
        let mut owners = BTreeMap::new();
        for stored in store.records() {
            for prefix in stored.record.iter().flat_map(|record| &record.prefixes) {
                if let Some(other) = owners.insert(*prefix, stored.home_address) {
                    return Err(format!("{prefix} belongs to {other} and to {}", stored.home_address));
                }
            }
        }
        for (prefix, owner) in store.pool() {
            ensure!(owners.get(prefix) == Some(owner), "{prefix} of the pool is claimed by {owner}, which lacks it");
        }
        Ok(())
    }

    /// An acknowledgement leaves a member: of what is committed, once, and installed there unless something newer is.
    ///
    /// # Errors
    /// What does not hold.
    pub fn acknowledged(&mut self, member: &Member, acknowledgement: &Acknowledgement) -> Result<(), String> {
        let Acknowledgement { home_address: home, status, sequence, lifetime } = *acknowledgement;
        if status >= 128 {
            return Ok(());
        }
        self.acknowledgements += 1;
        ensure!(self.committed.contains(&(home, sequence.0)), "{home}: {sequence} acknowledged, and not committed");
        ensure!(self.acknowledged.insert((home, sequence.0)), "{home}: update {sequence} was acknowledged twice");
        let silent = matches!(member.state(), Some(MemberState::Joining | MemberState::Gone) | None);
        ensure!(!silent, "{home}: {sequence} acknowledged by {}, which is {:?}", member.name, member.state());
        if !lifetime.is_zero() {
            ensure!(member.care_of(home).is_some(), "{home}: {sequence} acknowledged, and {} has no path", member.name);
        }
        Ok(())
    }
}

/// What a mobile router was told is what the store has, or something newer of the same mobile router.
///
/// # Errors
/// What does not hold.
pub fn nothing_lost(store: &SimStore, mobile: &Mobile) -> Result<(), String> {
    let (home, Some((sequence, place, _))) = (mobile.home(), mobile.acknowledged()) else { return Ok(()) };
    match store.record(home) {
        Some(record) => {
            ensure!(!sequence.is_newer_than(record.sequence), "{home}: the store lost the acknowledged {sequence}");
            let ended = record.care_of.is_empty();
            ensure!(
                record.sequence != sequence || ended == place.is_none(),
                "{home}: the store has not what was acknowledged by {sequence}"
            );
        }
        None => ensure!(place.is_none() || !mobile.is_done(), "{home}: the store lost its binding"),
    }
    Ok(())
}

/// All members that serve forward alike, and as the store has it.
///
/// # Errors
/// What does not hold.
pub fn converged(
    now: Time,
    unix_now: u64,
    store: &SimStore,
    members: &[Member],
    mobiles: &[Mobile],
) -> Result<(), String> {
    for mobile in mobiles {
        let home = mobile.home();
        ensure!(mobile.is_done(), "{home}: no acknowledgement of its last wish");
        nothing_lost(store, mobile)?;
        let wanted = store.record(home).and_then(|record| Some((record, record.care_of.first()?)));
        let left = wanted.map_or(0, |(record, _)| record.expires_unix_micros.saturating_sub(unix_now));
        if left > 0 && u128::from(left) < EDGE.as_micros() {
            continue;
        }
        let wanted = wanted.filter(|_| left > 0).map(|(_, (_, address, _))| *address);
        ensure!(wanted == mobile.place(), "{home} is at {:?}, and the store has {wanted:?}", mobile.place());
        for member in members.iter().filter(|member| member.is_running()) {
            ensure!(
                member.care_of(home) == wanted,
                "{home}: {} sends to {:?}, and the store has {wanted:?}",
                member.name,
                member.care_of(home)
            );
        }
    }
    for member in members.iter().filter(|member| member.is_running()) {
        let state = member.state();
        ensure!(state == Some(MemberState::Healthy), "{} is {state:?} at {now}", member.name);
    }
    Ok(())
}
