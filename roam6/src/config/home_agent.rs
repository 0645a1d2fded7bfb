//! The `[home_agent]` table.

use super::spanned::Spanned;
use super::toml_reader::from_toml;
use crate::config::check;
use crate::config::duration::HumanDuration;
use crate::config::encrypt::{self, Encrypt};
use crate::config::prefix_table::{HomeNetwork, MAX_BINDINGS, Mobile, MobileRouterNames, PrefixTableBuilder};
use crate::config::source::{Diagnostics, Problem, Source};
use crate::files::{FileVersion, folder_of};
use core::time::Duration;
use roam6_proto::contract::config::nemo::{DsmipService, HomeAgentConfig, Ipv4Pool, PrefixTable, SharedPrefix};
use roam6_proto::nemo::dsmip::NATKATIMEOUT as DEFAULT_KEEPALIVE;
use roam6_wire::ip6::MINIMUM_MTU;
use roam6_wire::{HomeAddress, Ipv4Endpoint, Prefix};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Default for the most home addresses with a binding.
const DEFAULT_BINDINGS: usize = 100_000;
/// Updates of one mobile router per second: a router with eight uplinks sends fewer than 10 (RFC 6275 §12: 3 for each
/// destination, and others for paths over IPv4 and in UDP).
const UPDATE_RATE: RangeInclusive<u32> = 10..=100_000;
const DEFAULT_UPDATE_RATE: u32 = 20;
/// How often a NAT's mapping may be refreshed.
const KEEPALIVE: RangeInclusive<Duration> = Duration::from_secs(5)..=Duration::from_secs(3600);

/// The table, as written.
pub(crate) struct Section {
    address: Spanned<Ipv6Addr>,
    home_prefixes: Spanned<Vec<Prefix>>,
    home_link: Option<Spanned<String>>,
    prefix_table: Option<PathBuf>,
    mobile: Vec<Spanned<Mobile>>,
    max_lifetime: Option<Spanned<HumanDuration>>,
    refresh_advice: Option<Spanned<HumanDuration>>,
    multiple_care_of: Option<bool>,
    home_and_away: Option<bool>,
    max_bindings: Option<Spanned<usize>>,
    duplicate_detection: Option<Spanned<bool>>,
    preference: u16,
    advertise: Option<Spanned<HumanDuration>>,
    path_mtu: Option<Spanned<u32>>,
    ipv4: Option<Ipv4Table>,
    ipv4_pool: Option<PoolTable>,
    prefix_pool: Option<PrefixPoolTable>,
    shared_prefix: Option<SharedPrefixTable>,
    udp6: Option<Spanned<bool>>,
    max_update_rate: Option<Spanned<u32>>,
    encrypt: Option<Spanned<Encrypt>>,
    bond: Option<Spanned<bool>>,
}

from_toml!(Section {
    address,
    home_prefixes,
    home_link,
    prefix_table,
    mobile = Vec::new(),
    max_lifetime,
    refresh_advice,
    multiple_care_of,
    home_and_away,
    max_bindings,
    duplicate_detection,
    preference = 0,
    advertise,
    path_mtu,
    ipv4,
    ipv4_pool,
    prefix_pool,
    shared_prefix,
    udp6,
    max_update_rate,
    encrypt,
    bond,
});

struct Ipv4Table {
    address: Spanned<Ipv4Addr>,
    public_address: Option<Spanned<Ipv4Addr>>,
    keepalive: Option<Spanned<HumanDuration>>,
    force_udp: Option<bool>,
}

from_toml!(Ipv4Table { address, public_address, keepalive, force_udp });

struct PoolTable {
    prefix: Spanned<Prefix>,
    length: Option<Spanned<u8>>,
}

from_toml!(PoolTable { prefix, length });

impl PoolTable {
    /// Length of the prefixes taken from the pool.
    fn length(&self) -> u8 {
        self.length.as_ref().map_or(32, |length| **length)
    }
}

struct PrefixPoolTable {
    prefix: Spanned<Prefix>,
    length: Option<Spanned<u8>>,
}

from_toml!(PrefixPoolTable { prefix, length });

struct SharedPrefixTable {
    prefix: Spanned<Prefix>,
    interface: Spanned<String>,
    gateway: Option<Spanned<Ipv6Addr>>,
}

from_toml!(SharedPrefixTable { prefix, interface, gateway });

/// Length of the prefixes taken from a pool, unless it says so: 16 subnets.
#[cfg(feature = "setup")]
const MOBILE_NETWORK_LENGTH: u8 = 60;

#[cfg(feature = "setup")]
impl PrefixPoolTable {
    /// Length of the prefixes taken from the pool.
    fn length(&self) -> u8 {
        let usual = MOBILE_NETWORK_LENGTH.max(self.prefix.length());
        self.length.as_ref().map_or(usual, |length| **length)
    }
}

/// A home agent's settings, and the source of its prefix table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HomeAgent {
    /// The settings, the whole prefix table inside.
    pub(crate) config: HomeAgentConfig,
    /// The names of its mobile routers.
    pub(crate) names: Arc<MobileRouterNames>,
    /// The file of the prefix table, if it has one.
    pub(crate) table_file: Option<PathBuf>,
    /// The version of that file that was read.
    table_version: Option<FileVersion>,
    /// Problems of the rejected rows of the prefix table.
    pub(crate) refused: Vec<Problem>,
    /// The rows written in the main file.
    inline: InlineRows,
    /// The file declares an empty table (`mobile = []`).
    is_explicitly_empty: bool,
}

/// The rows in the main file, and the problems of the rejected ones there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct InlineRows {
    table: Arc<PrefixTable>,
    names: Arc<MobileRouterNames>,
    refused: Vec<Problem>,
}

impl HomeAgent {
    /// Takes over the prefix table of `other` and its file. Other changes need a restart.
    pub(crate) fn adopt_table(&mut self, other: HomeAgent) {
        let config = HomeAgentConfig { prefix_table: other.config.prefix_table.clone(), ..self.config.clone() };
        *self = HomeAgent { config, ..other };
    }

    /// Reloads the prefix table file; the inline rows stay. Also returns how many former rows are kept.
    pub(crate) fn reread_table(&self) -> Result<(HomeAgent, usize), Vec<Problem>> {
        self.clone().read_table().and_then(|agent| agent.replace(self))
    }

    /// Whether the prefix table file has changed since it was read.
    pub(crate) fn is_table_outdated(&self) -> bool {
        self.table_file.as_ref().is_some_and(|path| FileVersion::of(path) != self.table_version)
    }

    fn read_table(mut self) -> Result<HomeAgent, Vec<Problem>> {
        let Some(path) = self.table_file.clone() else {
            (self.config.prefix_table, self.refused) = (self.inline.table.clone(), self.inline.refused.clone());
            self.names = self.inline.names.clone();
            return Ok(self);
        };
        let mut rows = PrefixTableBuilder::new(HomeNetwork::of_config(&self.config), &self.inline.table);
        // Before the file is read: a change from here on is not overlooked.
        self.table_version = FileVersion::of(&path);
        self.is_explicitly_empty = rows.read(&path)?;
        let names = self.inline.names.iter().map(|(home, name)| (*home, name.clone())).chain(rows.take_names());
        self.names = Arc::new(names.collect());
        let (table, refused) = rows.finish(&path);
        self.refused = self.inline.refused.iter().cloned().chain(refused).collect();
        self.config.prefix_table = Arc::new(table);
        Ok(self)
    }

    /// Replaces `former`. Rows are never removed by mistake: a file without rows is refused unless it declares to be empty, and
    /// with a rejected row, the rows of `former` that are missing are kept. Also returns their number.
    pub(crate) fn replace(mut self, former: &HomeAgent) -> Result<(HomeAgent, usize), Vec<Problem>> {
        let rows_of_file =
            |agent: &HomeAgent| agent.config.prefix_table.rows.len().saturating_sub(agent.inline.table.rows.len());
        let before = rows_of_file(former);
        if let Some(path) = self.table_file.as_ref().filter(|_| before > 0 && self.refused.is_empty())
            && rows_of_file(&self) == 0
            && !self.is_explicitly_empty
        {
            let what = format!("no mobile router is left of {before}");
            return Err(vec![Problem::of_file(path, what, "if this is meant, write: mobile = []")]);
        }
        if self.refused.is_empty() || former.config.home_prefixes != self.config.home_prefixes {
            return Ok((self, 0));
        }
        let mut rows = PrefixTableBuilder::new(HomeNetwork::of_config(&self.config), &self.config.prefix_table);
        let kept = former.config.prefix_table.rows.iter().filter(|row| rows.retain_former(row));
        let kept: Vec<HomeAddress> = kept.map(|row| row.home_address).collect();
        let names = kept.iter().filter_map(|home| Some((*home, former.names.get(home)?.clone())));
        Arc::make_mut(&mut self.names).extend(names);
        let (table, _) = rows.finish(Path::new(""));
        self.config.prefix_table = Arc::new(table);
        Ok((self, kept.len()))
    }
}

/// The settings of a home agent that the rows of its prefix table must fit. Others may be invalid.
pub(crate) struct PrefixTableConstraints {
    address: Ipv6Addr,
    home_prefixes: Vec<Prefix>,
    ipv4: Option<Ipv4Table>,
    ipv4_pool: Option<PoolTable>,
    #[cfg(feature = "setup")]
    prefix_pool: Option<PrefixPoolTable>,
    shared_prefix: Option<SharedPrefixTable>,
    prefix_table: Option<PathBuf>,
}

from_toml!(extract PrefixTableConstraints {
    address,
    home_prefixes,
    ipv4,
    ipv4_pool,
    #[cfg(feature = "setup")] prefix_pool,
    shared_prefix,
    prefix_table,
});

struct ConstraintsFile {
    home_agent: PrefixTableConstraints,
}

from_toml!(extract ConstraintsFile { home_agent });

impl PrefixTableConstraints {
    /// Reads a configuration; `None` if it has no readable home agent.
    pub(crate) fn read(path: &Path) -> Option<PrefixTableConstraints> {
        let source = Source::read(path).ok()?;
        let ConstraintsFile { home_agent } = source.parse().ok()?;
        let prefix_table = home_agent.prefix_table.as_ref().map(|path| source.resolve(path));
        Some(PrefixTableConstraints { prefix_table, ..home_agent })
    }

    /// From the configuration in the same directory that refers to `table` as its prefix table.
    pub(crate) fn find(table: &Path) -> Option<PrefixTableConstraints> {
        let folder = folder_of(table);
        let files = std::fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
        let mut configs: Vec<PathBuf> =
            files.filter(|path| path.extension().is_some_and(|kind| kind == "toml")).collect();
        configs.sort();
        let names_it = |outline: &PrefixTableConstraints| {
            outline.prefix_table.as_ref().is_some_and(|named| {
                named.file_name() == table.file_name()
                    && named.parent().and_then(|there| there.canonicalize().ok()) == folder.canonicalize().ok()
            })
        };
        configs
            .iter()
            .filter(|path| *path != table)
            .filter_map(|path| PrefixTableConstraints::read(path))
            .find(names_it)
    }

    /// The constraints for rows.
    pub(crate) fn home_network(&self) -> HomeNetwork<'_> {
        HomeNetwork {
            agent: Some(self.address),
            prefixes: Some(&self.home_prefixes),
            agent4: self.ipv4.as_ref().map(|table| *table.address),
            pool: self.ipv4_pool.as_ref().map(|table| *table.prefix),
            pool_length: self.ipv4_pool.as_ref().map(PoolTable::length),
            shared: self.shared_prefix.as_ref().map(|table| *table.prefix),
        }
    }
}

/// What an invitation is made of.
#[cfg(feature = "setup")]
impl PrefixTableConstraints {
    /// Address of the home agent.
    pub(crate) fn address(&self) -> Ipv6Addr {
        self.address
    }

    /// The home prefix from which home addresses are taken, the first one.
    pub(crate) fn home_prefix(&self) -> Option<Prefix> {
        self.home_prefixes.first().copied()
    }

    /// The home prefix of a home address.
    pub(crate) fn home_prefix_of(&self, home_address: Ipv6Addr) -> Option<Prefix> {
        self.home_prefixes.iter().find(|prefix| prefix.contains(home_address)).copied()
    }

    /// The IPv4 address by which mobile routers reach the home agent, if they can.
    pub(crate) fn public_ipv4(&self) -> Option<Ipv4Addr> {
        let written = self.ipv4.as_ref()?;
        let private = written.address.is_private() || is_shared(*written.address);
        written.public_address.as_deref().copied().or_else(|| Some(*written.address).filter(|_| !private))
    }

    /// The pool of prefixes of mobile networks, and the length of each.
    pub(crate) fn prefix_pool(&self) -> Option<(Prefix, u8)> {
        self.prefix_pool.as_ref().map(|table| (*table.prefix, table.length()))
    }

    /// The on-link prefix of the host that is a mobile network prefix.
    pub(crate) fn shared_prefix(&self) -> Option<Prefix> {
        self.shared_prefix.as_ref().map(|table| *table.prefix)
    }

    /// The file of the prefix table.
    pub(crate) fn prefix_table(&self) -> Option<&Path> {
        self.prefix_table.as_deref()
    }
}

/// Whether an address is one of carrier-grade NATs (RFC 6598).
#[cfg(feature = "setup")]
pub(crate) fn is_shared(address: Ipv4Addr) -> bool {
    let [first, second, ..] = address.octets();
    first == 100 && second & 0xc0 == 64
}

/// Checks the table; problems are reported to `diagnostics`. `has_udp`: the data plane has UDP over IPv6, and replicates
/// packets.
pub(crate) fn validate(section: Section, has_udp: bool, diagnostics: &mut Diagnostics<'_>) -> HomeAgent {
    check_values(&section, diagnostics);
    if let Some(written) = section.udp6.as_ref().filter(|written| ***written && !has_udp) {
        let hint = "write data_plane = \"bpf\", or leave udp6 out";
        diagnostics.report(written.span(), "the kernel's tunnel device has no UDP encapsulation", hint);
    }
    if let Some(written) = section.bond.as_ref().filter(|written| ***written) {
        match (has_udp, cfg!(feature = "relay")) {
            (false, _) => {
                let hint = "write data_plane = \"bpf\", or leave bond out";
                diagnostics.report(written.span(), "the kernel's tunnel device gives no connections to a relay", hint);
            }
            (_, false) => {
                let hint = "install a build with it, or leave bond out";
                diagnostics.report(written.span(), "this build has no relay (feature \"relay\")", hint);
            }
            _ => {}
        }
    }
    let encryption = encrypt::validate(section.encrypt.as_ref(), has_udp, diagnostics);
    let by_esp = encrypt::is_esp(encryption.as_ref());
    if by_esp {
        let udp6 = section.udp6.as_ref().filter(|written| ***written);
        encrypt::refuse_with_esp(udp6.map(Spanned::span), "paths in UDP", "udp6", diagnostics);
        let over_ipv4 = section.encrypt.as_ref().filter(|_| section.ipv4.is_some()).map(Spanned::span);
        encrypt::refuse_with_esp(over_ipv4, "paths over IPv4", "the table ipv4", diagnostics);
    }
    let shared_prefix = section.shared_prefix.as_ref().and_then(|table| shared_prefix(table, &section, diagnostics));
    let home_prefixes = section.home_prefixes.into_inner();
    let address = *section.address;
    let table_file = section.prefix_table.map(|path| diagnostics.source.resolve(&path));
    let home_link = section.home_link.map(Spanned::into_inner);
    let max_lifetime = diagnostics.duration(&section.max_lifetime, "max_lifetime", check::LIFETIME_RANGE);
    let max_bindings = diagnostics.number(&section.max_bindings, "max_bindings", 1..=MAX_BINDINGS);
    let max_update_rate = diagnostics.number(&section.max_update_rate, "max_update_rate", UPDATE_RATE);
    let mut config = HomeAgentConfig {
        address,
        home_prefixes,
        prefix_table: Arc::default(),
        max_lifetime: max_lifetime.unwrap_or(Duration::from_secs(3600)),
        refresh_advice: diagnostics.duration(&section.refresh_advice, "refresh_advice", check::LIFETIME_RANGE),
        multiple_care_of: section.multiple_care_of.unwrap_or(true),
        home_and_away: section.home_and_away.unwrap_or(true),
        max_bindings: max_bindings.unwrap_or(DEFAULT_BINDINGS),
        duplicate_detection: section.duplicate_detection.map_or(home_link.is_some(), Spanned::into_inner),
        preference: section.preference,
        advertisement_interval: diagnostics.duration(&section.advertise, "advertise", check::ADVERTISE_RANGE),
        path_mtu: diagnostics.number(&section.path_mtu, "path_mtu", MINIMUM_MTU..=65_535).unwrap_or(1500),
        ipv4: section.ipv4.map(|table| ipv4(&table, diagnostics)),
        ipv4_pool: section.ipv4_pool.and_then(|table| ipv4_pool(&table, diagnostics)),
        prefix_pool: section.prefix_pool.and_then(|table| {
            prefix_pool(&table, (address, shared_prefix.as_ref().map(|shared| shared.prefix)), diagnostics)
        }),
        shared_prefix,
        home_link,
        udp6: section.udp6.map_or(has_udp && !by_esp, Spanned::into_inner),
        replication: has_udp,
        max_update_rate: Some(max_update_rate.unwrap_or(DEFAULT_UPDATE_RATE)),
        key_exchange: true,
        encryption: encryption.map(Box::new),
        bond: section.bond.is_some_and(Spanned::into_inner),
        #[cfg(feature = "fleet")]
        fleet: None,
    };
    if section.mobile.iter().any(|row| row.has_inline_key())
        && let Err(problem) = diagnostics.source.refuse_world_readable()
    {
        diagnostics.add(vec![problem]);
    }
    let mut rows = PrefixTableBuilder::new(HomeNetwork::of_config(&config), &PrefixTable::default());
    section.mobile.into_iter().for_each(|row| rows.add(row, diagnostics.source));
    let names = Arc::new(rows.take_names());
    let (table, refused) = rows.finish(diagnostics.source.path());
    let inline = InlineRows { table: Arc::new(table), names, refused };
    config.prefix_table = inline.table.clone();
    let (names, refused) = (inline.names.clone(), Vec::new());
    let agent =
        HomeAgent { config, names, table_file, table_version: None, refused, inline, is_explicitly_empty: false };
    match agent.clone().read_table() {
        Ok(agent) => agent,
        Err(problems) => {
            diagnostics.add(problems);
            agent
        }
    }
}

/// Uplinks that have IPv4 only. A NAT's mapping of UDP lives for 30 s at least with the worst of them (RFC 4787 §4.3).
fn ipv4(table: &Ipv4Table, diagnostics: &mut Diagnostics<'_>) -> DsmipService {
    check::global_unicast4(&table.address, "[home_agent.ipv4] address", diagnostics);
    if let Some(public) = &table.public_address {
        check::global_unicast4(public, "[home_agent.ipv4] public_address", diagnostics);
    }
    let keepalive = diagnostics.duration(&table.keepalive, "keepalive", KEEPALIVE).unwrap_or(DEFAULT_KEEPALIVE);
    DsmipService { address: *table.address, keepalive, force_udp: table.force_udp.unwrap_or(true) }
}

/// IPv4 prefixes for mobile routers that request one.
fn ipv4_pool(table: &PoolTable, diagnostics: &mut Diagnostics<'_>) -> Option<Ipv4Pool> {
    let prefix = *table.prefix;
    let Some((address, shortest)) = prefix.ipv4().filter(|(address, _)| Ipv4Endpoint::dsmip(*address).is_unicast())
    else {
        let hint = "write an IPv4 prefix to take them from, as \"10.128.0.0/16\"";
        return diagnostics.refuse(table.prefix.span(), format!("no pool of IPv4 prefixes is in {prefix}"), hint);
    };
    diagnostics.number(&table.length, "length", shortest..=32);
    Some(Ipv4Pool { prefix: Prefix::from_ipv4(address, shortest)?, length: table.length() })
}

/// Prefixes of mobile networks, which `roam6 invite` allocates.
fn prefix_pool(
    table: &PrefixPoolTable,
    (agent, shared): (Ipv6Addr, Option<Prefix>),
    diagnostics: &mut Diagnostics<'_>,
) -> Option<Prefix> {
    let prefix = *table.prefix;
    let is_global = prefix.address().to_bits() >> 125 == 1 || prefix.address().is_unique_local();
    if !is_global || !(16..=64).contains(&prefix.length()) {
        let hint = "write the prefix that is routed to the home agent, as \"2001:db8:100::/56\"";
        return diagnostics.refuse(table.prefix.span(), format!("no pool of prefixes is in {prefix}"), hint);
    }
    if prefix.length() == 64 && prefix.contains(agent) && shared != Some(prefix) {
        let what = format!("the pool {prefix} is the network of the home agent's address {agent}");
        let hint = "write a prefix that is routed to the home agent; if none is, see shared_prefix";
        return diagnostics.refuse(table.prefix.span(), what, hint);
    }
    diagnostics.number(&table.length, "length", prefix.length()..=64);
    Some(prefix)
}

/// The on-link prefix of this host as a mobile network prefix.
fn shared_prefix(
    table: &SharedPrefixTable,
    section: &Section,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<SharedPrefix> {
    let (prefix, address) = (*table.prefix, *section.address);
    check::interface_name(&table.interface, diagnostics);
    if prefix.length() != 64 || !prefix.contains(address) {
        let hint = "write the on-link /64 of this host; a prefix that is routed here needs no shared_prefix";
        let what = format!("shared_prefix {prefix} is no /64 with the home agent's address {address}");
        return diagnostics.refuse(table.prefix.span(), what, hint);
    }
    if let Some(home) = section.home_prefixes.iter().find(|home| home.covers(prefix) || prefix.covers(**home)) {
        let hint = "write a unique local /64 as home_prefixes, as \"fd12:3456:789a::/64\"";
        return diagnostics.refuse(table.prefix.span(), format!("it overlaps the home prefix {home}"), hint);
    }
    if let Some(link) = &section.home_link {
        let hint = "a home link and a shared prefix exclude each other: remove one";
        return diagnostics.refuse(link.span(), "home_link beside shared_prefix", hint);
    }
    if let Some(gateway) =
        table.gateway.as_ref().filter(|gateway| !prefix.contains(***gateway) || ***gateway == address)
    {
        let hint = "write the address of the provider's router in the prefix, or leave gateway out if it is link-local";
        return diagnostics.refuse(gateway.span(), format!("no gateway in {prefix} is {}", **gateway), hint);
    }
    let gateway = table.gateway.as_ref().map(|gateway| **gateway);
    Some(SharedPrefix { prefix, interface: String::clone(&table.interface), gateway })
}

fn check_values(section: &Section, diagnostics: &mut Diagnostics<'_>) {
    let address = *section.address;
    check::global_unicast(&section.address, "address", diagnostics);
    let prefixes = &section.home_prefixes;
    check::ipv6_prefixes(prefixes.iter(), prefixes.span(), diagnostics);
    if prefixes.is_empty() {
        diagnostics.report(prefixes.span(), "home_prefixes is empty", "write the prefix home addresses are taken from");
    }
    let virtual_home = "name the home link with home_link = \"eth1\", or leave this out for a virtual home network";
    match &section.home_link {
        Some(link) => {
            check::interface_name(link, diagnostics);
            if !prefixes.iter().any(|prefix| prefix.contains(address)) {
                let what = format!("address {address} lies outside home_prefixes");
                let hint = "a home agent is a neighbour on its home link (RFC 6275)";
                diagnostics.report(section.address.span(), what, hint);
            }
        }
        None => {
            if let Some(on) = section.duplicate_detection.as_ref().filter(|on| ***on) {
                diagnostics.report(on.span(), "duplicate_detection needs a home link", virtual_home);
            }
            if let Some(every) = &section.advertise {
                diagnostics.report(every.span(), "advertise needs a home link", virtual_home);
            }
        }
    }
}
