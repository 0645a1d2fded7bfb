//! The pool of IPv4 home addresses: more mobile routers than there are addresses ask all members at once.

use crate::experiments::prelude::*;
use crate::load::fleet_updates::FleetUpdates;
use crate::topology::fleet::{FleetNetwork, MEMBERS};
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::ops::Range;

/// Addresses of the pool of 512 that have owners before all ask.
const OWNED: usize = 12;
/// A mobile router without an answer sends another update after this time.
const RETRANSMISSION: Duration = Duration::from_millis(1500);
const TRIES: usize = 10;
/// How long answers to updates that were sent twice may take.
const LAST_ANSWERS: Duration = Duration::from_secs(3);

/// The sequence number that each mobile router has an answer for, and the address that it was granted.
type Owners = BTreeMap<u32, (u16, Option<Ipv4Addr>)>;

pub(super) fn measure(
    run: &mut Run,
    network: &FleetNetwork,
    updates: &mut FleetUpdates,
    routers: Range<u32>,
) -> Result<()> {
    run.step("the pool of IPv4 addresses");
    let (routers, mut owners) = (routers.collect::<Vec<u32>>(), Owners::new());
    let (owning, others) = routers.split_at_checked(OWNED).context("too few mobile routers")?;
    ask(updates, &mut owners, owning)?;
    ask(updates, &mut owners, others)?;
    note(updates, &mut owners, &routers, LAST_ANSWERS);
    let granted: Vec<Ipv4Addr> = owners.values().filter_map(|(_, address)| *address).collect();
    let twice = granted.len() - granted.iter().collect::<BTreeSet<_>>().len();
    let keys = network.member(1)?.etcdctl(&["get", "--prefix", "--keys-only", "/roam6/lab/pool/"])?;
    let stored = keys.lines().filter(|line| !line.is_empty()).count();
    run.rows.push(json!({ "asked": owners.len(), "granted": granted.len(), "in_store": stored }));
    run.summarise("address_twice", twice);
    run.summarise("addresses_granted", granted.len());
    run.require(stored == granted.len(), || format!("{} addresses are granted, {stored} in the store", granted.len()));
    run.require_bound("address_twice");
    Ok(())
}

/// Notes the answers of some time: of each mobile router that to its last update.
fn note(updates: &mut FleetUpdates, owners: &mut Owners, routers: &[u32], time: Duration) {
    for answer in updates.answers_within(time) {
        let known = owners.get(&answer.router).is_some_and(|(sequence, _)| *sequence > answer.sequence.0);
        if routers.contains(&answer.router) && answer.accepts() && !known {
            owners.insert(answer.router, (answer.sequence.0, answer.ipv4));
        }
    }
}

/// All ask at once, a third of them each member, until each has an answer: an address, or none.
fn ask(updates: &mut FleetUpdates, owners: &mut Owners, routers: &[u32]) -> Result<()> {
    for number in 0..TRIES {
        let missing: Vec<u32> = routers.iter().copied().filter(|router| !owners.contains_key(router)).collect();
        for router in &missing {
            let update = updates.update_for_ipv4(*router)?;
            updates.send((*router as usize + number) % MEMBERS, &update.packet)?;
        }
        let end = clock::now() + RETRANSMISSION;
        while clock::now() < end && missing.iter().any(|router| !owners.contains_key(router)) {
            note(updates, owners, routers, Duration::from_millis(10));
        }
        if missing.is_empty() {
            return Ok(());
        }
    }
    bail!("mobile routers have no answer")
}
