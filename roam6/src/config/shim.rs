//! The `[shim]` table: a host with several providers.

use super::spanned::Spanned;
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
use serde::Deserialize;
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// Most identities or prefixes.
const MAX_LIST: usize = 64;
/// Most contexts the data plane holds; it keeps 68 octets of the kernel's memory ready for each.
const MAX_CONTEXTS: usize = 1_000_000;
/// A peer is told of the Send Timeout in whole seconds, 16 bits of them (RFC 5534 §5.3).
const MAX_SEND_TIMEOUT: Duration = Duration::from_secs(u16::MAX as u64);
/// Most work in addresses that are made while the daemon runs.
const MAX_SEC: u8 = 1;
const IDLE_TIMEOUT_RANGE: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(7 * 86_400));
/// A return takes some seconds to be sure of its path.
const RETURN_AFTER_RANGE: RangeInclusive<Duration> = Duration::from_secs(5)..=Duration::from_secs(7 * 86_400);

/// The table, as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Section {
    interfaces: Spanned<Vec<Spanned<String>>>,
    #[serde(default)]
    identities: Vec<Spanned<PathBuf>>,
    send_timeout: Option<Spanned<HumanDuration>>,
    idle_timeout: Option<Spanned<HumanDuration>>,
    return_after: Option<Spanned<HumanDuration>>,
    max_contexts: Option<Spanned<usize>>,
    verifications_per_second: Option<Spanned<u32>>,
    #[serde(default)]
    trigger: TriggerTable,
    #[serde(default)]
    peers: PeersTable,
    #[serde(default)]
    preferences: VecMap<String, Spanned<PreferenceTable>>,
    addresses: Option<Spanned<AddressTable>>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct AddressTable {
    proof: AddressProof,
    #[serde(default = "default_sec")]
    sec: u8,
}

fn default_sec() -> u8 {
    1
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PreferenceTable {
    #[serde(default)]
    priority: u8,
    #[serde(default)]
    weight: u8,
    #[serde(default)]
    transient: bool,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct TriggerTable {
    enabled: Option<bool>,
    octets: Option<u64>,
    packets: Option<u64>,
    age: Option<Spanned<HumanDuration>>,
    idle: Option<Spanned<HumanDuration>>,
    again: Option<Spanned<HumanDuration>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct PeersTable {
    #[serde(default)]
    only: Vec<Spanned<Prefix>>,
    #[serde(default)]
    except: Vec<Spanned<Prefix>>,
    #[serde(default)]
    skip_eui64: bool,
}

/// Checks the table; problems are reported to `diagnostics`.
pub(crate) fn validate(section: Section, diagnostics: &mut Diagnostics<'_>) -> ShimConfig {
    let usual = ShimConfig::default();
    check::duration_in_range(
        section.send_timeout.as_ref(),
        "send_timeout",
        MIN_SEND_TIMEOUT..=MAX_SEND_TIMEOUT,
        diagnostics,
    );
    check::duration_in_range(
        section.idle_timeout.as_ref(),
        "idle_timeout",
        IDLE_TIMEOUT_RANGE.0..=IDLE_TIMEOUT_RANGE.1,
        diagnostics,
    );
    let returns = section.return_after.as_ref().filter(|span| span.get_ref().0 != Duration::ZERO);
    check::duration_in_range(returns, "return_after", RETURN_AFTER_RANGE, diagnostics);
    check::number_in_range(section.max_contexts.as_ref(), "max_contexts", 1..=MAX_CONTEXTS, diagnostics);
    check::number_in_range(
        section.verifications_per_second.as_ref(),
        "verifications_per_second",
        1..=1_000_000,
        diagnostics,
    );
    for list in [&section.peers.only, &section.peers.except] {
        for prefix in list {
            check::ipv6_prefixes([prefix.get_ref()], prefix.span(), diagnostics);
        }
        if let Some(prefix) = list.get(MAX_LIST) {
            diagnostics.report(prefix.span(), format!("more than {MAX_LIST} prefixes"), "aggregate them");
        }
    }
    let return_after = section.return_after.map_or(usual.return_after, |span| Some(span.get_ref().0));
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
        max_contexts: section.max_contexts.map_or(usual.max_contexts, Spanned::into_inner),
        send_timeout: section.send_timeout.map_or(usual.send_timeout, |span| span.get_ref().0),
        return_after: return_after.filter(|span| *span != Duration::ZERO),
        idle_timeout: section.idle_timeout.map_or(usual.idle_timeout, |span| span.get_ref().0),
        identities,
        verifications_per_second: section
            .verifications_per_second
            .map_or(usual.verifications_per_second, Spanned::into_inner),
    }
}

/// What is not written is as usual; but who writes a threshold wants that one, and not the usual ones beside it.
fn trigger(table: TriggerTable, diagnostics: &mut Diagnostics<'_>) -> Option<ContextTrigger> {
    for (span, name) in [(&table.age, "age"), (&table.idle, "idle"), (&table.again, "again")] {
        check::duration_in_range(span.as_ref(), name, Duration::from_secs(1)..=IDLE_TIMEOUT_RANGE.1, diagnostics);
    }
    let usual = ContextTrigger::default();
    let span = |span: &Option<Spanned<HumanDuration>>| span.as_ref().map(|span| span.get_ref().0);
    let written = table.octets.is_some() || table.packets.is_some() || table.age.is_some();
    let thresholds = (table.octets, table.packets, span(&table.age));
    let (octets, packets, age) = if written { thresholds } else { (usual.octets, usual.packets, usual.age) };
    let (idle, again) =
        (span(&table.idle).unwrap_or(usual.idle_timeout), span(&table.again).unwrap_or(usual.repeat_after));
    (table.enabled != Some(false)).then_some(ContextTrigger {
        octets,
        packets,
        age,
        idle_timeout: idle,
        repeat_after: again,
    })
}

fn preferences(
    written: VecMap<String, Spanned<PreferenceTable>>,
    interfaces: &VecSet<String>,
    diagnostics: &mut Diagnostics<'_>,
) -> VecMap<String, UplinkPreference> {
    for (name, table) in &written {
        if !interfaces.contains(name) {
            let what = format!("preferences of {name}, which is no interface of the shim");
            diagnostics.report(table.span(), what, "write one of the names in interfaces");
        }
    }
    let plain = |table: PreferenceTable| UplinkPreference {
        priority: table.priority,
        weight: table.weight,
        transient: table.transient,
    };
    written.into_iter().map(|(name, table)| (name, plain(table.into_inner()))).collect()
}

fn addresses(
    written: Option<Spanned<AddressTable>>,
    identities: &[Identity],
    diagnostics: &mut Diagnostics<'_>,
) -> Option<AddressGeneration> {
    let written = written?;
    let AddressTable { proof, sec } = *written.get_ref();
    if proof != AddressProof::Hba && identities.iter().all(|identity| identity.private_key.is_empty()) {
        let hint = "make a key with `roam6 cga generate`, and write its file into identities";
        diagnostics.report(written.span(), "addresses of a key, and no key", hint);
    }
    if sec > MAX_SEC {
        let what = format!("sec = {sec} takes too long beside everything else");
        let hint =
            "write 0 or 1; make sets of sec 2 ahead with `roam6 hba generate`, and write their files into identities";
        diagnostics.report(written.span(), what, hint);
    }
    Some(AddressGeneration { proof, sec: Sec::new(sec)? })
}

fn identities(files: &[Spanned<PathBuf>], diagnostics: &mut Diagnostics<'_>) -> Vec<Identity> {
    if let Some(file) = files.get(MAX_LIST) {
        diagnostics.report(file.span(), format!("more than {MAX_LIST} identities"), "list fewer");
    }
    let mut found = Vec::new();
    for file in files {
        let path = diagnostics.source.resolve(file.get_ref());
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
