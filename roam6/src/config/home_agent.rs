//! The `[home_agent]` table.

use super::spanned::Spanned;
use crate::config::check;
use crate::config::duration::Span;
use crate::config::prefix_table::{self, Home, Mobile};
use crate::config::source::{Problem, Review};
use core::time::Duration;
use roam6_proto::nemo::config::{HomeAgentConfig, Ipv4Pool, Ipv4Service, PrefixTable};
use roam6_proto::nemo::ipv4::KEEPALIVE as DEFAULT_KEEPALIVE;
use roam6_wire::{Ipv4End, Prefix};
use serde::Deserialize;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Most home addresses with a binding, unless the file says otherwise.
const DEFAULT_BINDINGS: usize = 100_000;
/// No file may ask for more, nor a prefix table have more rows.
pub(super) const MAX_BINDINGS: usize = 1_000_000;
/// How often a NAT's mapping may be refreshed.
const KEEPALIVE: RangeInclusive<Duration> = Duration::from_secs(5)..=Duration::from_secs(3600);

/// The table, as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Section {
    address: Spanned<Ipv6Addr>,
    home_prefixes: Spanned<Vec<Prefix>>,
    home_link: Option<Spanned<String>>,
    prefix_table: Option<PathBuf>,
    #[serde(default)]
    mobile: Vec<Spanned<Mobile>>,
    max_lifetime: Option<Spanned<Span>>,
    refresh_advice: Option<Spanned<Span>>,
    multiple_care_of: Option<bool>,
    home_and_away: Option<bool>,
    max_bindings: Option<Spanned<usize>>,
    duplicate_detection: Option<Spanned<bool>>,
    #[serde(default)]
    preference: u16,
    advertise: Option<Spanned<Span>>,
    path_mtu: Option<Spanned<u32>>,
    ipv4: Option<Ipv4Table>,
    ipv4_pool: Option<PoolTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ipv4Table {
    address: Spanned<Ipv4Addr>,
    keepalive: Option<Spanned<Span>>,
    force_udp: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PoolTable {
    prefix: Spanned<Prefix>,
    length: Option<Spanned<u8>>,
}

/// A home agent's settings, and how to read its prefix table anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HomeAgent {
    /// The settings, the whole prefix table inside.
    pub(crate) config: HomeAgentConfig,
    /// The file of the prefix table, if it has one.
    pub(crate) table_file: Option<PathBuf>,
    /// The rows written in the main file.
    inline: Arc<PrefixTable>,
}

impl HomeAgent {
    /// Takes over the prefix table of `other`, and where to read it anew. All else needs a restart.
    pub(crate) fn adopt_table(&mut self, other: HomeAgent) {
        self.config.table = other.config.table;
        self.table_file = other.table_file;
        self.inline = other.inline;
    }

    /// Reads the prefix table file again; the rows of the main file stay.
    pub(crate) fn reread_table(&self) -> Result<Arc<PrefixTable>, Vec<Problem>> {
        let home = Home::of(&self.config);
        match &self.table_file {
            Some(path) => join(&self.inline, prefix_table::read(path, &home)?, path).map(Arc::new),
            None => Ok(self.inline.clone()),
        }
    }
}

/// Checks the table; what is wrong with it is remembered by `review`.
pub(crate) fn settle(section: Section, review: &mut Review<'_>) -> HomeAgent {
    check_values(&section, review);
    let home_prefixes = section.home_prefixes.into_inner();
    let address = *section.address.get_ref();
    let table_file = section.prefix_table.map(|path| review.source.resolve(&path));
    let home_link = section.home_link.map(Spanned::into_inner);
    let mut config = HomeAgentConfig {
        address,
        home_prefixes,
        table: Arc::default(),
        max_lifetime: section.max_lifetime.map_or(Duration::from_secs(3600), |span| span.get_ref().0),
        refresh_advice: section.refresh_advice.map(|span| span.get_ref().0),
        multiple_care_of: section.multiple_care_of.unwrap_or(true),
        home_and_away: section.home_and_away.unwrap_or(true),
        max_bindings: section.max_bindings.map_or(DEFAULT_BINDINGS, |count| *count.get_ref()),
        duplicate_detection: section.duplicate_detection.map_or(home_link.is_some(), |on| *on.get_ref()),
        preference: section.preference,
        advertise: section.advertise.map(|span| span.get_ref().0),
        path_mtu: section.path_mtu.map_or(1500, |mtu| *mtu.get_ref()),
        ipv4: section.ipv4.map(|table| ipv4(&table, review)),
        ipv4_pool: section.ipv4_pool.and_then(|table| ipv4_pool(&table, review)),
        home_link,
    };
    let inline = Arc::new(prefix_table::settle(section.mobile, &Home::of(&config), review));
    config.table = inline.clone();
    let mut agent = HomeAgent { config, table_file, inline };
    match agent.reread_table() {
        Ok(table) => agent.config.table = table,
        Err(problems) => review.add(problems),
    }
    agent
}

/// Uplinks that have IPv4 only. A NAT's mapping of UDP lives for 30 s at least with the worst of them (RFC 4787 §4.3).
fn ipv4(table: &Ipv4Table, review: &mut Review<'_>) -> Ipv4Service {
    check::unicast4(&table.address, "[home_agent.ipv4] address", review);
    check::duration(table.keepalive.as_ref(), "keepalive", KEEPALIVE, review);
    let keepalive = table.keepalive.as_ref().map_or(DEFAULT_KEEPALIVE, |span| span.get_ref().0);
    Ipv4Service { address: *table.address.get_ref(), keepalive, force_udp: table.force_udp.unwrap_or(true) }
}

/// IPv4 prefixes for who asks for one.
fn ipv4_pool(table: &PoolTable, review: &mut Review<'_>) -> Option<Ipv4Pool> {
    let prefix = *table.prefix.get_ref();
    let Some((address, shortest)) = prefix.ipv4().filter(|(address, _)| Ipv4End::dsmip(*address).is_unicast()) else {
        let hint = "write an IPv4 prefix to take them from, as \"10.128.0.0/16\"";
        review.blame(table.prefix.span(), format!("no pool of IPv4 prefixes is in {prefix}"), hint);
        return None;
    };
    check::within(table.length.as_ref(), "length", shortest..=32, review);
    let length = table.length.as_ref().map_or(32, |length| *length.get_ref());
    Some(Ipv4Pool { prefix: Prefix::of_ipv4(address, shortest)?, length })
}

fn check_values(section: &Section, review: &mut Review<'_>) {
    let address = *section.address.get_ref();
    check::unicast(&section.address, "address", review);
    let prefixes = &section.home_prefixes;
    check::ipv6(prefixes.get_ref(), prefixes.span(), review);
    if prefixes.get_ref().is_empty() {
        review.blame(prefixes.span(), "home_prefixes is empty", "write the prefix home addresses are taken from");
    }
    let virtual_home = "name the home link with home_link = \"eth1\", or leave this out for a virtual home network";
    match &section.home_link {
        Some(link) => {
            check::interface(link, review);
            if !prefixes.get_ref().iter().any(|prefix| prefix.contains(address)) {
                let what = format!("address {address} lies outside home_prefixes");
                review.blame(section.address.span(), what, "a home agent is a neighbour on its home link (RFC 6275)");
            }
        }
        None => {
            if let Some(on) = section.duplicate_detection.as_ref().filter(|on| *on.get_ref()) {
                review.blame(on.span(), "duplicate_detection needs a home link", virtual_home);
            }
            if let Some(every) = &section.advertise {
                review.blame(every.span(), "advertise needs a home link", virtual_home);
            }
        }
    }
    check::lifetime(section.max_lifetime.as_ref(), "max_lifetime", review);
    check::lifetime(section.refresh_advice.as_ref(), "refresh_advice", review);
    check::advertise(section.advertise.as_ref(), review);
    check::within(section.path_mtu.as_ref(), "path_mtu", 1280..=65_535, review);
    check::within(section.max_bindings.as_ref(), "max_bindings", 1..=MAX_BINDINGS, review);
}

/// Both tables as one, unless they disagree about a home address.
fn join(inline: &PrefixTable, mut file: PrefixTable, path: &Path) -> Result<PrefixTable, Vec<Problem>> {
    let mut problems = Vec::new();
    for row in &inline.rows {
        if file.rows.binary_search_by_key(&row.home_address, |other| other.home_address).is_ok() {
            let what = format!("home_address {} is also written in the main file", row.home_address);
            problems.push(Problem::of_file(path, what, "keep one of the two"));
        }
    }
    file.rows.extend_from_slice(&inline.rows);
    file.rows.sort_by_key(|row| row.home_address);
    if problems.is_empty() { Ok(file) } else { Err(problems) }
}
