//! The `[shim]` table: a host with several providers.

use super::spanned::Spanned;
use super::toml_reader::{from_toml, plain_toml};
use crate::config::check;
use crate::config::duration::HumanDuration;
use crate::config::source::{Diagnostics, Problem};
use crate::identity::file;
use core::time::Duration;
use roam6_proto::base::vec_map::VecMap;
use roam6_proto::base::vec_set::VecSet;
use roam6_proto::contract::config::shim::{
    AddressGeneration, AddressProof, Identity, MIN_SEND_TIMEOUT, PeerFilter, ShimConfig, UplinkPreference,
};
use roam6_proto::contract::item::ContextTrigger;
use roam6_proto::crypto::cga::Sec;
use roam6_wire::Prefix;
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// Most identities or prefixes.
const MAX_LIST: usize = 64;
/// Most contexts the data plane holds; it keeps 68 octets of the kernel's memory ready for each.
const MAX_CONTEXTS: usize = 1_000_000;
/// The Send Timeout is sent to a peer in whole seconds, 16 bits of them (RFC 5534 §5.3).
const MAX_SEND_TIMEOUT: Duration = Duration::from_secs(u16::MAX as u64);
/// Most work in addresses that are made while the daemon runs.
const MAX_SEC: u8 = 1;
const IDLE_TIMEOUT_RANGE: RangeInclusive<Duration> = Duration::from_secs(10)..=Duration::from_secs(7 * 86_400);
/// A return takes some seconds to be sure of its path.
const RETURN_AFTER_RANGE: RangeInclusive<Duration> = Duration::from_secs(5)..=Duration::from_secs(7 * 86_400);

/// The table, as written.
pub(crate) struct Section {
    interfaces: Spanned<Vec<Spanned<String>>>,
    identities: Vec<Spanned<PathBuf>>,
    send_timeout: Option<Spanned<HumanDuration>>,
    idle_timeout: Option<Spanned<HumanDuration>>,
    return_after: Option<Spanned<HumanDuration>>,
    max_contexts: Option<Spanned<usize>>,
    verifications_per_second: Option<Spanned<u32>>,
    trigger: TriggerTable,
    peers: PeersTable,
    preferences: VecMap<String, Spanned<UplinkPreference>>,
    addresses: Option<Spanned<AddressTable>>,
}

plain_toml!(AddressProof);
from_toml!(UplinkPreference { priority = 0, weight = 0, transient = false });

from_toml!(Section {
    interfaces,
    identities = Vec::new(),
    send_timeout,
    idle_timeout,
    return_after,
    max_contexts,
    verifications_per_second,
    trigger = TriggerTable::default(),
    peers = PeersTable::default(),
    preferences = VecMap::new(),
    addresses,
});

#[derive(Clone, Copy)]
struct AddressTable {
    proof: AddressProof,
    sec: u8,
}

from_toml!(AddressTable { proof, sec = default_sec() });

fn default_sec() -> u8 {
    1
}

#[derive(Default)]
struct TriggerTable {
    enabled: Option<bool>,
    octets: Option<u64>,
    packets: Option<u64>,
    age: Option<Spanned<HumanDuration>>,
    idle: Option<Spanned<HumanDuration>>,
    again: Option<Spanned<HumanDuration>>,
}

from_toml!(TriggerTable { enabled, octets, packets, age, idle, again });

#[derive(Default)]
struct PeersTable {
    only: Vec<Spanned<Prefix>>,
    except: Vec<Spanned<Prefix>>,
    skip_eui64: bool,
}

from_toml!(PeersTable { only = Vec::new(), except = Vec::new(), skip_eui64 = false });

/// Checks the table; problems are reported to `diagnostics`.
pub(crate) fn validate(section: Section, diagnostics: &mut Diagnostics<'_>) -> ShimConfig {
    let usual = ShimConfig::default();
    let send_timeout = diagnostics.duration(&section.send_timeout, "send_timeout", MIN_SEND_TIMEOUT..=MAX_SEND_TIMEOUT);
    let idle_timeout = diagnostics.duration(&section.idle_timeout, "idle_timeout", IDLE_TIMEOUT_RANGE);
    let return_after = match section.return_after {
        None => usual.return_after,
        Some(never) if never.0.is_zero() => None,
        written => diagnostics.duration(&written, "return_after", RETURN_AFTER_RANGE),
    };
    let max_contexts = diagnostics.number(&section.max_contexts, "max_contexts", 1..=MAX_CONTEXTS);
    let rate = &section.verifications_per_second;
    let verifications_per_second = diagnostics.number(rate, "verifications_per_second", 1..=1_000_000);
    for list in [&section.peers.only, &section.peers.except] {
        for prefix in list {
            check::ipv6_prefixes([&**prefix], prefix.span(), diagnostics);
        }
        diagnostics.limit(list, MAX_LIST, "prefixes", "aggregate them");
    }
    let interfaces = check::interface_names(&section.interfaces, diagnostics);
    let identities = identities(&section.identities, diagnostics);
    let plain = |list: Vec<Spanned<Prefix>>| list.into_iter().map(Spanned::into_inner).collect();
    ShimConfig {
        preferences: preferences(section.preferences, &interfaces, diagnostics),
        addresses: addresses(section.addresses, &identities, diagnostics),
        interfaces,
        trigger: trigger(section.trigger, diagnostics),
        peers: PeerFilter {
            only: plain(section.peers.only),
            except: plain(section.peers.except),
            skip_eui64: section.peers.skip_eui64,
        },
        max_contexts: max_contexts.unwrap_or(usual.max_contexts),
        send_timeout: send_timeout.unwrap_or(usual.send_timeout),
        return_after,
        idle_timeout: idle_timeout.unwrap_or(usual.idle_timeout),
        identities,
        verifications_per_second: verifications_per_second.unwrap_or(usual.verifications_per_second),
    }
}

/// A threshold that is set disables the defaults of the others.
fn trigger(table: TriggerTable, diagnostics: &mut Diagnostics<'_>) -> Option<ContextTrigger> {
    let mut duration =
        |written, name| diagnostics.duration(written, name, Duration::from_secs(1)..=*IDLE_TIMEOUT_RANGE.end());
    let [age, idle, again] = [(&table.age, "age"), (&table.idle, "idle"), (&table.again, "again")]
        .map(|(written, name)| duration(written, name));
    let usual = ContextTrigger::default();
    let written = table.octets.is_some() || table.packets.is_some() || table.age.is_some();
    let thresholds = (table.octets, table.packets, age);
    let (octets, packets, age) = if written { thresholds } else { (usual.octets, usual.packets, usual.age) };
    (table.enabled != Some(false)).then_some(ContextTrigger {
        octets,
        packets,
        age,
        idle_timeout: idle.unwrap_or(usual.idle_timeout),
        repeat_after: again.unwrap_or(usual.repeat_after),
    })
}

fn preferences(
    written: VecMap<String, Spanned<UplinkPreference>>,
    interfaces: &VecSet<String>,
    diagnostics: &mut Diagnostics<'_>,
) -> VecMap<String, UplinkPreference> {
    for (name, table) in &written {
        if !interfaces.contains(name) {
            let what = format!("preferences of {name}, which is no interface of the shim");
            diagnostics.report(table.span(), what, "write one of the names in interfaces");
        }
    }
    written.into_iter().map(|(name, table)| (name, table.into_inner())).collect()
}

fn addresses(
    written: Option<Spanned<AddressTable>>,
    identities: &[Identity],
    diagnostics: &mut Diagnostics<'_>,
) -> Option<AddressGeneration> {
    let written = written?;
    let AddressTable { proof, sec } = *written;
    if proof != AddressProof::Hba && identities.iter().all(|identity| identity.private_key.is_empty()) {
        let hint = "make a key with `roam6 cga generate`, and write its file into identities";
        diagnostics.report(written.span(), "no identity has a key for CGAs", hint);
    }
    if sec > MAX_SEC {
        let what = format!("sec = {sec} takes too long while the daemon runs");
        let hint =
            "write 0 or 1; make sets of sec 2 ahead with `roam6 hba generate`, and write their files into identities";
        diagnostics.report(written.span(), what, hint);
    }
    Some(AddressGeneration { proof, sec: Sec::new(sec)? })
}

fn identities(files: &[Spanned<PathBuf>], diagnostics: &mut Diagnostics<'_>) -> Vec<Identity> {
    diagnostics.limit(files, MAX_LIST, "identities", "list fewer");
    let mut found = Vec::new();
    for file in files {
        let path = diagnostics.source.resolve(file);
        match file::load(&path) {
            Ok(identity) => found.push(identity),
            Err(why) => {
                let hint = "make one with `roam6 hba generate`, and check it with `roam6 cga show`";
                diagnostics.add(vec![Problem::of_file(&path, why, hint)]);
            }
        }
    }
    found
}
