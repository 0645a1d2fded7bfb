//! Tables of the legacy iptables, whose changes the kernel does not announce: they are polled. Layouts are those of
//! linux/netfilter_ipv6/ip6_tables.h and linux/netfilter_ipv4/ip_tables.h.

use super::hooks::{ForeignHook, Hooks};
use crate::error::{Context, Error};
use crate::sys;
use nix::libc;
use std::fs;
use std::os::fd::OwnedFd;

/// `IP6T_SO_GET_INFO`, and the same number for IPv4.
const GET_INFO: libc::c_int = 64;
/// `IP6T_SO_GET_ENTRIES`, and the same number for IPv4.
const GET_ENTRIES: libc::c_int = 65;
/// Octets of a table's name.
const NAME: usize = 32;
/// Octets of `struct ip6t_getinfo`: the name, hooks, ten offsets, the number of entries, their size.
const INFO: usize = NAME + 4 + 5 * 4 + 5 * 4 + 4 + 4;
/// Octets before the entries in `struct ip6t_get_entries`, whose entries are aligned to eight.
const ENTRIES_AT: usize = NAME + 8;
/// Octets of the target's head before the verdict of a standard target.
const VERDICT_AT: usize = 32;
/// Tables with more octets of entries are not read: one so large has rules.
const LARGEST: usize = 1 << 20;
/// The verdict "accept", as a standard target writes it.
const ACCEPT: i32 = -libc::NF_ACCEPT - 1;

/// One of the two families.
struct Family {
    tool: &'static str,
    /// Names of the tables that exist.
    names: &'static str,
    level: libc::c_int,
    /// Octets of an entry before its target, if it has no matches.
    entry: usize,
    hooks: Hooks,
}

const FAMILIES: [Family; 2] = [
    Family {
        tool: "ip6tables",
        names: "/proc/thread-self/net/ip6_tables_names",
        level: libc::IPPROTO_IPV6,
        entry: 168,
        hooks: Hooks { ipv6: true, ipv4: false },
    },
    Family {
        tool: "iptables",
        names: "/proc/thread-self/net/ip_tables_names",
        level: libc::IPPROTO_IP,
        entry: 112,
        hooks: Hooks { ipv6: false, ipv4: true },
    },
];

/// The tables with rules, or with a policy other than accept.
///
/// # Errors
/// The kernel's, if it refuses a table.
pub(super) fn find_all() -> Result<Vec<ForeignHook>, Error> {
    let mut found = Vec::new();
    for family in &FAMILIES {
        // Without the file the kernel has no legacy tables.
        for name in fs::read_to_string(family.names).unwrap_or_default().lines() {
            if is_filtering(family, name)? {
                found.push(ForeignHook { name: format!("{} -t {name}", family.tool), hooks: family.hooks });
            }
        }
    }
    Ok(found)
}

fn is_filtering(family: &Family, table: &str) -> Result<bool, Error> {
    let socket = open(family)?;
    let Some(summary) = summary(&socket, family, table)? else { return Ok(true) };
    if summary.entries > summary.hooks.count_ones() + 1 || summary.size > LARGEST {
        return Ok(true);
    }
    let entries = entries(&socket, family, (table, &summary))?;
    Ok(has_rules_or_policy(family, &summary, &entries))
}

fn open(family: &Family) -> Result<OwnedFd, Error> {
    let domain = if family.level == libc::IPPROTO_IPV6 { libc::AF_INET6 } else { libc::AF_INET };
    sys::raw_socket(domain, libc::IPPROTO_RAW).context(family.tool)
}

/// The kernel's summary of a table; `None`: it cannot be read.
fn summary(socket: &OwnedFd, family: &Family, table: &str) -> Result<Option<Summary>, Error> {
    let mut info = named(table, INFO);
    let what = format_args!("{} -t {table}", family.tool);
    sys::get_option(socket, family.level, GET_INFO, &mut info).context(what)?;
    Ok(Summary::read(&info))
}

/// The entries of a table.
fn entries(socket: &OwnedFd, family: &Family, (table, summary): (&str, &Summary)) -> Result<Vec<u8>, Error> {
    let mut entries = named(table, ENTRIES_AT + summary.size);
    if let Some(size) = entries.get_mut(NAME..NAME + 4) {
        size.copy_from_slice(&(summary.size as u32).to_ne_bytes());
    }
    let what = format_args!("{} -t {table}", family.tool);
    sys::get_option(socket, family.level, GET_ENTRIES, &mut entries).context(what)?;
    Ok(entries.split_off(ENTRIES_AT.min(entries.len())))
}

/// The chain FORWARD of the IPv6 table "filter".
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ForwardChain {
    /// Whether its policy, or a rule without a condition, drops or rejects.
    pub(crate) drops: bool,
    /// Names of interfaces and addresses in all rules of the table: a name without its end is the beginning of names.
    pub(crate) compared: Vec<Vec<u8>>,
}

/// Octets of `struct ip6t_ip6`, the conditions of an entry, without the padding.
const CONDITIONS: usize = 133;
/// `NF_INET_FORWARD`.
const FORWARD: u32 = 2;
/// The verdict "drop", as a standard target writes it.
const DROP: i32 = -libc::NF_DROP - 1;

/// The chain of forwarded IPv6 packets of the legacy ip6tables, if there is one.
///
/// # Errors
/// The kernel's, if it refuses the table.
pub(crate) fn forward_chain() -> Result<Option<ForwardChain>, Error> {
    let [family, _] = &FAMILIES;
    // To ask for a table that does not exist would create it.
    if fs::read_to_string(family.names).unwrap_or_default().lines().all(|name| name != "filter") {
        return Ok(None);
    }
    let socket = open(family)?;
    let Some(summary) = summary(&socket, family, "filter")?.filter(|summary| summary.size <= LARGEST) else {
        return Ok(None);
    };
    let entries = entries(&socket, family, ("filter", &summary))?;
    Ok(read_forward(family, &summary, &entries))
}

/// Reads the entries of a table: those of the chain lie between its hook and its policy.
fn read_forward(family: &Family, summary: &Summary, entries: &[u8]) -> Option<ForwardChain> {
    let before = (summary.hooks & ((1 << FORWARD) - 1)).count_ones() as usize;
    let (begin, policy) = (*summary.chains.get(before)?, *summary.policies.get(before)?);
    let mut chain = ForwardChain {
        drops: verdict(entries, policy.checked_add(family.entry)?) != Some(ACCEPT),
        compared: Vec::new(),
    };
    let mut at = 0;
    while let Some(entry) = entries.get(at..).filter(|entry| entry.len() >= family.entry) {
        let conditions = entry.get(..CONDITIONS)?;
        let number = |at: usize| entry.get(at..)?.first_chunk().map(|octets| usize::from(u16::from_ne_bytes(*octets)));
        let (target, next) = (number(140)?, number(142)?);
        let is_plain = target == family.entry && conditions.iter().all(|octet| *octet == 0);
        if (begin..policy).contains(&at) && is_plain {
            chain.drops |= is_refusal(entry, target);
        }
        chain.compared.extend(compared(conditions));
        if next < family.entry {
            break;
        }
        at = at.checked_add(next)?;
    }
    Some(chain)
}

/// Whether a target drops or rejects.
fn is_refusal(entry: &[u8], target: usize) -> bool {
    let name = entry.get(target + 2..target + VERDICT_AT).unwrap_or_default();
    let name = name.split(|octet| *octet == 0).next().unwrap_or_default();
    name == b"REJECT" || (name.is_empty() && verdict(entry, target) == Some(DROP))
}

/// The addresses and names of interfaces in conditions: source, destination, their masks, in, out, their masks.
fn compared(conditions: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let field = |number: usize| conditions.get(number * 16..(number + 1) * 16).unwrap_or_default();
    let addresses = [0, 1].into_iter().map(field);
    let names = [(4, 6), (5, 7)].into_iter().map(move |(name, mask)| {
        let compared = field(mask).iter().take_while(|octet| **octet != 0).count();
        field(name).get(..compared).unwrap_or_default()
    });
    addresses.chain(names).filter(|value| value.iter().any(|octet| *octet != 0)).map(<[u8]>::to_vec)
}

/// Whether a policy is not to accept.
fn has_rules_or_policy(family: &Family, summary: &Summary, entries: &[u8]) -> bool {
    summary.policies.iter().any(|&at| verdict(entries, at.saturating_add(family.entry)) != Some(ACCEPT))
}

/// The buffer of a request for a table, with room for the reply.
fn named(table: &str, size: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = table.bytes().take(NAME - 1).collect();
    bytes.resize(size, 0);
    bytes
}

/// The kernel's summary of a table.
#[derive(Debug, PartialEq, Eq)]
struct Summary {
    /// A bit for each hook that has a chain.
    hooks: u32,
    /// The offsets of these chains.
    chains: Vec<usize>,
    /// The offsets of their policies.
    policies: Vec<usize>,
    entries: u32,
    size: usize,
}

impl Summary {
    fn read(info: &[u8]) -> Option<Summary> {
        let word = |number: usize| info.get(NAME + number * 4..)?.first_chunk().map(|word| u32::from_ne_bytes(*word));
        let hooks = word(0)?;
        let held = || (0..5).filter(|hook| hooks >> hook & 1 == 1);
        let chains = held().map(|hook| Some(word(1 + hook)? as usize)).collect::<Option<_>>()?;
        let policies = held().map(|hook| Some(word(6 + hook)? as usize)).collect::<Option<_>>()?;
        Some(Summary { hooks, chains, policies, entries: word(11)?, size: word(12)? as usize })
    }
}

/// The verdict of a standard target.
fn verdict(entries: &[u8], target: usize) -> Option<i32> {
    entries.get(target.checked_add(VERDICT_AT)?..)?.first_chunk().map(|word| i32::from_ne_bytes(*word))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails at the assertion")]
mod tests {
    use super::*;
    use nix::sched::{CloneFlags, unshare};

    #[test]
    fn legacy_table_summary_is_parsed() {
        let words = [0b01110_u32, 0, 0, 152, 304, 0, 0, 0, 152, 304, 0, 4, 632];
        let info: Vec<u8> = [0; NAME].into_iter().chain(words.into_iter().flat_map(u32::to_ne_bytes)).collect();
        let expected =
            Summary { hooks: 0b01110, chains: vec![0, 152, 304], policies: vec![0, 152, 304], entries: 4, size: 632 };
        assert_eq!(Summary::read(&info), Some(expected));
        assert_eq!(info.len(), INFO);
        for length in 0..INFO {
            assert_eq!(Summary::read(info.get(..length).unwrap()), None);
        }
    }

    #[test]
    fn empty_legacy_table_filters_by_its_policies() {
        let family = &FAMILIES[0];
        let length = family.entry + VERDICT_AT + 8;
        let policies = vec![0, length, 2 * length];
        let summary = Summary { hooks: 0b01110, chains: policies.clone(), policies, entries: 4, size: 3 * length };
        let mut entries = vec![0; summary.size];
        for at in &summary.policies {
            let at = at + family.entry + VERDICT_AT;
            entries[at..at + 4].copy_from_slice(&ACCEPT.to_ne_bytes());
        }
        assert!(!has_rules_or_policy(family, &summary, &entries));
        let forward = length + family.entry + VERDICT_AT;
        entries[forward..forward + 4].copy_from_slice(&(-1_i32).to_ne_bytes());
        assert!(has_rules_or_policy(family, &summary, &entries));
        assert!(has_rules_or_policy(family, &summary, &[]));
    }

    #[test]
    fn fresh_legacy_table_does_not_filter() {
        let test = "fresh_legacy_table_does_not_filter";
        if unshare(CloneFlags::CLONE_NEWNET).is_err() {
            return println!("skipped: {test}: no network namespace");
        }
        for family in &FAMILIES {
            // The request creates the table.
            let Ok(filters) = is_filtering(family, "filter") else {
                return println!("skipped: {test}: no legacy iptables here");
            };
            assert!(!filters, "{}", family.tool);
            assert_eq!(std::fs::read_to_string(family.names).unwrap(), "filter\n");
        }
        assert_eq!(find_all().unwrap(), []);
    }
}
