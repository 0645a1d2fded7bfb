//! The prefix table of a home agent (RFC 3963 §6.1.1), in a file of its own or in the home agent's table.

use super::spanned::Spanned;
use super::toml_reader::from_toml;
use crate::config::check;
use crate::config::ipsec::Ipsec;
use crate::config::key::{AuthMethod, KeySettings};
use crate::config::source::{Diagnostics, Problem, Problems, Source};
use crate::invitation::{MAX_NAME, is_name};
use roam6_proto::contract::config::nemo::{
    Authentication, HomeAgentConfig, InvitationId, PrefixTable, PrefixTableRow, RowInvitation, SharedKey,
};
use roam6_proto::contract::item::MAX_PREFIX_LENGTHS;
use roam6_wire::{HomeAddress, Prefix};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// Most home addresses with a binding, and most rows of a prefix table.
pub(super) const MAX_BINDINGS: usize = 1_000_000;

/// A prefix table file.
struct File {
    mobile: Option<Vec<Spanned<Mobile>>>,
}

from_toml!(File { mobile });

/// One mobile router, as written.
pub(crate) struct Mobile {
    name: Option<Spanned<String>>,
    home_address: Spanned<Ipv6Addr>,
    prefixes: Spanned<Vec<Prefix>>,
    auth: Option<Spanned<AuthMethod>>,
    key_file: Option<Spanned<PathBuf>>,
    spi: Option<Spanned<u32>>,
    key: Option<Spanned<String>>,
    ipsec: Option<Spanned<Ipsec>>,
    /// A second shared key that is accepted too, while the mobile router changes to it.
    next: Option<Spanned<NextKey>>,
    invitation: Option<Spanned<InvitationKeys>>,
}

from_toml!(Mobile { name, home_address, prefixes, auth, key_file, spi, key, ipsec, next, invitation });

/// The invitation by which the mobile router gets its key.
struct InvitationKeys {
    id: Spanned<String>,
    expires: Spanned<String>,
    /// The first invitation of the row, if this is not the first.
    first: Option<Spanned<String>>,
    /// Its key, if the row has another.
    spi: Option<Spanned<u32>>,
    key: Option<Spanned<String>>,
}

from_toml!(InvitationKeys { id, expires, first, spi, key });

/// A `[mobile.next]` table.
pub(crate) struct NextKey {
    key_file: Option<Spanned<PathBuf>>,
    spi: Option<Spanned<u32>>,
    key: Option<Spanned<String>>,
}

from_toml!(NextKey { key_file, spi, key });

/// The home network that the rows must fit, as far as it is known.
#[derive(Default)]
pub(crate) struct HomeNetwork<'a> {
    /// The home agent's address.
    pub(crate) agent: Option<Ipv6Addr>,
    /// The home network prefixes.
    pub(crate) prefixes: Option<&'a [Prefix]>,
    /// Its IPv4 address.
    pub(crate) agent4: Option<Ipv4Addr>,
    /// The pool of dynamic IPv4 prefixes.
    pub(crate) pool: Option<Prefix>,
    /// Length of the IPv4 prefixes taken from it.
    pub(crate) pool_length: Option<u8>,
    /// The on-link prefix of its host that is a mobile network prefix.
    pub(crate) shared: Option<Prefix>,
}

impl<'a> HomeNetwork<'a> {
    /// From the home agent's settings.
    pub(crate) fn of_config(config: &'a HomeAgentConfig) -> HomeNetwork<'a> {
        HomeNetwork {
            agent: Some(config.address),
            prefixes: Some(&config.home_prefixes),
            agent4: config.ipv4.map(|service| service.address),
            pool: config.ipv4_pool.map(|pool| pool.prefix),
            pool_length: config.ipv4_pool.map(|pool| pool.length),
            shared: config.shared_prefix.as_ref().map(|shared| shared.prefix),
        }
    }

    /// Whether `prefix` holds an address of the home agent's own.
    fn own_address_in(&self, prefix: Prefix) -> Option<IpAddr> {
        let own = [self.agent.map(IpAddr::V6), self.agent4.map(IpAddr::V4)];
        let within = |own: &IpAddr| match own {
            IpAddr::V4(own) => prefix.is_ipv4() && prefix.contains(own.to_ipv6_mapped()),
            IpAddr::V6(own) => prefix.contains(*own),
        };
        own.into_iter().flatten().find(within)
    }
}

/// The rows of a prefix table. Each is checked by itself and against those before it: one that is wrong is refused, and the
/// others are served.
pub(crate) struct PrefixTableBuilder<'a> {
    home: HomeNetwork<'a>,
    table: PrefixTable,
    addresses: BTreeSet<Ipv6Addr>,
    /// None of them overlaps another.
    prefixes: BTreeMap<Prefix, HomeAddress>,
    /// Prefix lengths that the host must distinguish, those of IPv4 prefixes as IPv4-mapped ones.
    lengths: BTreeSet<u8>,
    names: MobileRouterNames,
    refused: Problems,
}

/// The names of mobile routers, by home address, of those that have one.
pub(crate) type MobileRouterNames = BTreeMap<HomeAddress, Box<str>>;

impl<'a> PrefixTableBuilder<'a> {
    /// Begins with rows that were checked before.
    pub(crate) fn new(home: HomeNetwork<'a>, known: &PrefixTable) -> PrefixTableBuilder<'a> {
        let (addresses, prefixes) = (BTreeSet::new(), BTreeMap::new());
        let pool = home.pool_length.map(|length| length.saturating_add(IPV4_MAPPED_PREFIX_LENGTH));
        let lengths = pool.into_iter().chain(RESERVED_PREFIX_LENGTHS).collect();
        let (table, names, refused) = (PrefixTable::default(), BTreeMap::new(), Problems::default());
        let mut rows = PrefixTableBuilder { home, table, addresses, prefixes, lengths, names, refused };
        known.rows.iter().for_each(|row| rows.accept(row.clone()));
        rows
    }

    /// Adds the rows of a file. Returns whether it declares an empty table (`mobile = []`). An error is one of the file as
    /// a whole.
    pub(crate) fn read(&mut self, path: &Path) -> Result<bool, Vec<Problem>> {
        let source = Source::read(path).map_err(|problem| vec![problem])?;
        self.read_source(&source)
    }

    /// The same of a text.
    pub(crate) fn read_source(&mut self, source: &Source) -> Result<bool, Vec<Problem>> {
        let (mut written, mut is_explicitly_empty) = (Vec::new(), false);
        // Row by row, so that a syntax error affects its own row only.
        for part in source.parts("[[mobile]]") {
            match source.parse_part::<File>(part) {
                Ok(File { mobile: Some(rows) }) => {
                    is_explicitly_empty |= rows.is_empty();
                    written.extend(rows);
                }
                Ok(File { mobile: None }) => {}
                Err(problem) => self.refused.push(problem),
            }
        }
        let holds_key = written.iter().any(|row| row.has_inline_key());
        if let Some(problem) = source.refuse_world_readable().err().filter(|_| holds_key) {
            return Err(vec![problem]);
        }
        written.into_iter().for_each(|row| self.add(row, source));
        Ok(is_explicitly_empty)
    }

    /// Adds a row, unless something is wrong with it.
    pub(crate) fn add(&mut self, row: Spanned<Mobile>, source: &Source) {
        let mut diagnostics = Diagnostics::sharing_limit_with(source, &self.refused);
        let name = row.name.as_ref().map(|name| (HomeAddress(*row.home_address), name.as_str().into()));
        let checked = self.check(row, &mut diagnostics);
        match diagnostics.into_problems() {
            Some(problems) => self.refused.extend(problems),
            None => {
                checked.into_iter().for_each(|row| self.accept(row));
                self.names.extend(name);
            }
        }
    }

    /// Adds a row of a former table, unless it overlaps one that is there or has a prefix length too many. Says whether it was added.
    pub(crate) fn retain_former(&mut self, row: &PrefixTableRow) -> bool {
        let fits = row.prefixes.iter().all(|prefix| self.overlapping_prefix(*prefix).is_none());
        let distinguishable = self.exceeds_prefix_lengths(&row.prefixes).is_none();
        let free = fits && distinguishable && !self.addresses.contains(&row.home_address.0);
        if free {
            self.accept(row.clone());
        }
        free
    }

    /// The table, and the rejected rows of the file at `path`.
    pub(crate) fn finish(mut self, path: &Path) -> (PrefixTable, Vec<Problem>) {
        self.table.rows.shrink_to_fit();
        self.table.rows.sort_by_key(|row| row.home_address);
        (self.table, self.refused.into_vec(path))
    }

    /// The names of the rows that were added.
    pub(crate) fn take_names(&mut self) -> MobileRouterNames {
        core::mem::take(&mut self.names)
    }

    fn accept(&mut self, row: PrefixTableRow) {
        self.addresses.insert(row.home_address.0);
        self.prefixes.extend(row.prefixes.iter().map(|prefix| (*prefix, row.home_address)));
        self.lengths.extend(row.prefixes.iter().map(|prefix| prefix.length()));
        self.table.rows.push(row);
    }

    fn check(&self, row: Spanned<Mobile>, diagnostics: &mut Diagnostics<'_>) -> Option<PrefixTableRow> {
        let span = row.span();
        let row = row.into_inner();
        if self.table.rows.len() >= MAX_BINDINGS {
            let what = format!("more than {MAX_BINDINGS} mobile routers");
            diagnostics.report(span.clone(), what, "use a second home agent");
        }
        self.check_address(&row, diagnostics);
        check_name(&row, diagnostics);
        let written = row.prefixes.span();
        let spanned = row.prefixes.iter().map(|one| (one, written.clone()));
        check::mobile_network_prefixes(spanned, written.clone(), diagnostics);
        let home_address = HomeAddress(*row.home_address);
        let mut prefixes = row.prefixes.into_inner();
        // In the order in which a registration has them, to be kept once.
        prefixes.sort();
        for prefix in &prefixes {
            self.check_prefix(*prefix, &written, diagnostics);
        }
        // Sorted, a prefix that covers others directly precedes the first of them.
        for pair in prefixes.windows(2) {
            if let [one, other] = pair
                && one.covers(*other)
            {
                diagnostics.report(written.clone(), format!("prefix {other} overlaps {one}"), HINT_OVERLAP);
            }
        }
        if let Some(prefix) = self.exceeds_prefix_lengths(&prefixes) {
            let what = format!("prefix {prefix}: more than {MAX_PREFIX_LENGTHS} prefix lengths in the table");
            diagnostics.report(written, what, "use a length that other rows have, or a second home agent");
        }
        let keying =
            KeySettings { auth: row.auth, key_file: row.key_file, spi: row.spi, key: row.key, ipsec: row.ipsec };
        let authentication = keying.validate(span, diagnostics)?;
        let next_key = row.next.and_then(|next| validate_next_key(next, &authentication, diagnostics));
        let invitation = row.invitation.and_then(|written| validate_invitation(written, &authentication, diagnostics));
        let invitation = invitation.map(Box::new);
        Some(PrefixTableRow { home_address, prefixes: prefixes.into(), authentication, next_key, invitation })
    }

    fn check_address(&self, row: &Mobile, diagnostics: &mut Diagnostics<'_>) {
        let (address, span) = (*row.home_address, row.home_address.span());
        let hint = "choose another address of the home prefix";
        if let Some(home) = &self.home.prefixes {
            match home.iter().find(|prefix| prefix.contains(address)) {
                None => {
                    let what = format!("home_address {address} lies outside home_prefixes");
                    let hint = "choose an address from one of the home agent's home_prefixes";
                    diagnostics.report(span.clone(), what, hint);
                }
                Some(prefix) if is_anycast(address, *prefix) => {
                    let what = format!("home_address {address} is reserved for anycast (RFC 4291 §2.6.1, RFC 2526)");
                    diagnostics.report(span.clone(), what, hint);
                }
                Some(_) => {}
            }
        }
        if Some(address) == self.home.agent {
            diagnostics.report(span.clone(), format!("home_address {address} is the home agent's own"), hint);
        }
        if self.addresses.contains(&address) {
            let hint = "keep one row for each home address; its prefixes may be several";
            diagnostics.report(span, format!("home_address {address} is written twice"), hint);
        }
    }

    fn check_prefix(&self, prefix: Prefix, span: &Range<usize>, diagnostics: &mut Diagnostics<'_>) {
        let apart = "a mobile network and the home link must not overlap";
        if let Some(own) = self.home.own_address_in(prefix).filter(|_| self.home.shared != Some(prefix)) {
            diagnostics.report(span.clone(), format!("prefix {prefix} contains the home agent's address {own}"), apart);
        } else if let Some(home) = self.home.prefixes.into_iter().flatten().find(|home| overlap(**home, prefix)) {
            diagnostics.report(span.clone(), format!("prefix {prefix} overlaps the home prefix {home}"), apart);
        }
        if !prefix.is_ipv4() && reserved().any(|reserved| overlap(reserved, prefix)) {
            let hint = "write the prefix that is routed to the home agent for this mobile network";
            diagnostics.report(span.clone(), format!("prefix {prefix} is not for hosts (RFC 4291 §2.4)"), hint);
        }
        if let Some(pool) = self.home.pool.filter(|pool| overlap(*pool, prefix)) {
            let what = format!("prefix {prefix} overlaps the pool {pool}");
            diagnostics.report(span.clone(), what, "choose another prefix, or make [home_agent.ipv4_pool] smaller");
        }
        if let Some((other, owner)) = self.overlapping_prefix(prefix) {
            let what = format!("prefix {prefix} overlaps {other} of {}", owner.0);
            diagnostics.report(span.clone(), what, HINT_OVERLAP);
        }
    }

    /// The first of `prefixes` whose length would exceed the prefix lengths that the host can distinguish.
    fn exceeds_prefix_lengths(&self, prefixes: &[Prefix]) -> Option<Prefix> {
        let room = MAX_PREFIX_LENGTHS.saturating_sub(self.lengths.len());
        let mut added = BTreeSet::new();
        prefixes.iter().copied().filter(|prefix| !self.lengths.contains(&prefix.length())).find(|prefix| {
            added.insert(prefix.length());
            added.len() > room
        })
    }

    /// A prefix of another row that overlaps `prefix`: of prefixes that do not overlap one another, the neighbours in order
    /// are the only ones that may.
    fn overlapping_prefix(&self, prefix: Prefix) -> Option<(Prefix, HomeAddress)> {
        let before = self.prefixes.range(..=prefix).next_back();
        let after = self.prefixes.range(prefix..).next();
        let found = before.into_iter().chain(after).find(|(other, _)| overlap(**other, prefix));
        found.map(|(other, owner)| (*other, *owner))
    }
}

/// Prefix lengths of home addresses, and of the default route of a mobile router on the same host.
const RESERVED_PREFIX_LENGTHS: [u8; 2] = [128, 0];
/// Bits of an IPv4-mapped address before the IPv4 address.
const IPV4_MAPPED_PREFIX_LENGTH: u8 = 96;

const HINT_OVERLAP: &str = "give every mobile network prefixes of its own";

impl Mobile {
    /// Whether a secret is written in the row itself.
    pub(crate) fn has_inline_key(&self) -> bool {
        let next = self.next.as_ref().is_some_and(|next| next.key.is_some());
        let invited = self.invitation.as_ref().is_some_and(|invitation| invitation.key.is_some());
        self.key.is_some() || self.ipsec.is_some() || next || invited
    }
}

/// The name of a mobile router, which the command line reads.
fn check_name(row: &Mobile, diagnostics: &mut Diagnostics<'_>) {
    if let Some(name) = row.name.as_ref().filter(|name| !is_name(name)) {
        let hint = format!("write 1 to {MAX_NAME} letters, digits, `-`, `_` or `.`");
        diagnostics.report(name.span(), "not a name of a mobile router", &hint);
    }
}

/// The invitation of a row; `None` if a problem was reported.
fn validate_invitation(
    written: Spanned<InvitationKeys>,
    of_row: &Authentication,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<RowInvitation> {
    let span = written.span();
    let InvitationKeys { id, expires, first, spi, key } = written.into_inner();
    let hint = "make one with `roam6 invite`";
    if !matches!(of_row, Authentication::SharedKey(_)) {
        return diagnostics.refuse(span, "an invitation in a row without a shared key", hint);
    }
    let mut identifier = |digits: &Spanned<String>| match InvitationId::parse(digits) {
        Some(id) => Some(id),
        None => diagnostics.refuse(digits.span(), "not the identifier of an invitation", hint),
    };
    let (id, first) = (identifier(&id), first.as_ref().map(identifier));
    let until = humantime::parse_rfc3339(&expires).ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let Some(until) = until else {
        let what = "not a time; one is written as \"2026-11-30T15:20:00Z\"";
        return diagnostics.refuse(expires.span(), what, hint);
    };
    let key = match (&spi, &key) {
        (None, None) => None,
        _ => match (KeySettings { spi, key, ..KeySettings::default() }.validate(span, diagnostics)?, of_row) {
            (Authentication::SharedKey(key), Authentication::SharedKey(own)) if key != *own => Some(key),
            _ => return diagnostics.refuse(expires.span(), "the key of the invitation is the same as the row's", hint),
        },
    };
    let first = match first {
        Some(first) => Some(first?),
        None => None,
    };
    Some(RowInvitation { id: id?, first, expires_unix: until.as_secs(), key })
}

/// The second key of a row; `None` if a problem was reported.
fn validate_next_key(
    next: Spanned<NextKey>,
    first: &Authentication,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<SharedKey> {
    let span = next.span();
    let NextKey { key_file, spi, key } = next.into_inner();
    let found = KeySettings { key_file, spi, key, ..KeySettings::default() }.validate(span.clone(), diagnostics)?;
    match (first, found) {
        (Authentication::SharedKey(first), Authentication::SharedKey(next)) if *first == next => {
            let what = "the next key is the same as the row's own";
            diagnostics.refuse(span, what, "make another with `roam6 keygen`, or remove [mobile.next]")
        }
        (Authentication::SharedKey(_), Authentication::SharedKey(next)) => Some(next),
        _ => {
            let what = "[mobile.next] with a row or key that is not shared-key";
            diagnostics.refuse(span, what, "change other keys at both ends at once; only shared keys can overlap")
        }
    }
}

fn overlap(one: Prefix, other: Prefix) -> bool {
    one.covers(other) || other.covers(one)
}

/// What no network can be numbered from: unspecified, loopback, link-local and multicast addresses.
fn reserved() -> impl Iterator<Item = Prefix> {
    ["::/8", "fe80::/10", "ff00::/8"].into_iter().filter_map(|text| text.parse().ok())
}

/// Whether `address` is an anycast address of the subnet `prefix`: of its routers (RFC 4291 §2.6.1), or one of the highest
/// 128, as that of home agents (RFC 2526 §2).
fn is_anycast(address: Ipv6Addr, prefix: Prefix) -> bool {
    const RESERVED: u128 = 0x7f;
    let host = address.to_bits() & u128::MAX.checked_shr(prefix.length().into()).unwrap_or(0);
    // Identifiers made of a link-layer address have a bit that says whether it is unique; it is off here.
    let highest = match prefix.length() {
        64 => 0xfdff_ffff_ffff_ffff,
        length => u128::MAX.checked_shr(length.into()).unwrap_or(0),
    };
    prefix.length() < 120 && (host == 0 || host | RESERVED == highest)
}
