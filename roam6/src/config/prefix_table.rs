//! Who may register what: the Prefix Table of RFC 3963 §6.1.1, in a file of its own or in the home agent's table.

use super::spanned::Spanned;
use crate::config::check;
use crate::config::home_agent::MAX_BINDINGS;
use crate::config::ipsec::Ipsec;
use crate::config::key::{Keying, Method};
use crate::config::source::{Problem, Review, Source};
use roam6_proto::nemo::config::{Authentication, HomeAgentConfig, PrefixTable, PrefixTableRow, SharedKey};
use roam6_wire::{HomeAddress, Prefix};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A prefix table file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    mobile: Vec<Spanned<Mobile>>,
}

/// One mobile router, as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mobile {
    home_address: Spanned<Ipv6Addr>,
    prefixes: Spanned<Vec<Prefix>>,
    auth: Option<Spanned<Method>>,
    key_file: Option<Spanned<PathBuf>>,
    spi: Option<Spanned<u32>>,
    key: Option<Spanned<String>>,
    ipsec: Option<Spanned<Ipsec>>,
    /// A second shared key that is accepted too, while the mobile router changes to it.
    next: Option<Spanned<NextKey>>,
}

/// A `[mobile.next]` table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NextKey {
    key_file: Option<Spanned<PathBuf>>,
    spi: Option<Spanned<u32>>,
    key: Option<Spanned<String>>,
}

/// What the rows must fit to.
pub(crate) struct Home<'a> {
    /// The home agent's address.
    pub(crate) agent: Ipv6Addr,
    /// Where home addresses lie.
    pub(crate) prefixes: &'a [Prefix],
    /// Its IPv4 address.
    pub(crate) agent4: Option<Ipv4Addr>,
    /// Where IPv4 prefixes are taken from for those who have none.
    pub(crate) pool: Option<Prefix>,
}

impl<'a> Home<'a> {
    /// What these settings say.
    pub(crate) fn of(config: &'a HomeAgentConfig) -> Home<'a> {
        Home {
            agent: config.address,
            prefixes: &config.home_prefixes,
            agent4: config.ipv4.map(|service| service.address),
            pool: config.ipv4_pool.map(|pool| pool.prefix),
        }
    }

    /// Whether `prefix` holds an address of the home agent's own.
    fn own_in(&self, prefix: Prefix) -> Option<IpAddr> {
        let own = [Some(IpAddr::V6(self.agent)), self.agent4.map(IpAddr::V4)];
        let within = |own: &IpAddr| match own {
            IpAddr::V4(own) => prefix.is_ipv4() && prefix.contains(own.to_ipv6_mapped()),
            IpAddr::V6(own) => prefix.contains(*own),
        };
        own.into_iter().flatten().find(within)
    }
}

/// Reads a prefix table file.
pub(crate) fn read(path: &Path, home: &Home<'_>) -> Result<PrefixTable, Vec<Problem>> {
    let source = Source::read(path).map_err(|problem| vec![problem])?;
    let file: File = source.parse().map_err(|problem| vec![problem])?;
    let mut review = Review::new(&source);
    let table = settle(file.mobile, home, &mut review);
    review.verdict(table)
}

/// Checks rows and makes the engine's table of them.
pub(crate) fn settle(rows: Vec<Spanned<Mobile>>, home: &Home<'_>, review: &mut Review<'_>) -> PrefixTable {
    let mut table = PrefixTable::default();
    let mut places = Vec::new();
    let mut known = BTreeSet::new();
    for row in rows {
        let span = row.span();
        let row = row.into_inner();
        check_address(&row, home, &mut known, review);
        places.extend(row.prefixes.get_ref().iter().map(|prefix| (*prefix, row.prefixes.span())));
        let home_address = HomeAddress(*row.home_address.get_ref());
        check::networks(
            row.prefixes.get_ref().iter().map(|one| (one, row.prefixes.span())),
            row.prefixes.span(),
            review,
        );
        let mut prefixes = row.prefixes.into_inner();
        // In the order in which a registration has them, to be kept once.
        prefixes.sort();
        let prefixes = prefixes.into();
        let keying = Keying { auth: row.auth, key_file: row.key_file, spi: row.spi, key: row.key, ipsec: row.ipsec };
        if let Some(authentication) = keying.settle(span, review) {
            let next_key = row.next.and_then(|next| settle_next(next, &authentication, review));
            table.rows.push(PrefixTableRow { home_address, prefixes, authentication, next_key });
        }
    }
    if known.len() > MAX_BINDINGS {
        review.blame(
            0..0,
            format!("{} mobile routers; {MAX_BINDINGS} at most", known.len()),
            "use a second home agent",
        );
    }
    check_prefixes(places, home, review);
    table.rows.shrink_to_fit();
    table.rows.sort_by_key(|row| row.home_address);
    table
}

/// The second key of a row; `None` after a problem was remembered.
fn settle_next(next: Spanned<NextKey>, first: &Authentication, review: &mut Review<'_>) -> Option<SharedKey> {
    let span = next.span();
    let NextKey { key_file, spi, key } = next.into_inner();
    let found = Keying { key_file, spi, key, ..Keying::default() }.settle(span.clone(), review)?;
    match (first, found) {
        (Authentication::SharedKey(first), Authentication::SharedKey(next)) if *first == next => {
            let what = "the next key is the same as the row's own";
            review.blame(span, what, "make another with `roam6 keygen`, or remove [mobile.next]");
            None
        }
        (Authentication::SharedKey(_), Authentication::SharedKey(next)) => Some(next),
        _ => {
            let what = "[mobile.next] with a row or key that is not shared-key";
            review.blame(span, what, "change other keys at both ends at once; only shared keys can overlap");
            None
        }
    }
}

fn check_address(row: &Mobile, home: &Home<'_>, known: &mut BTreeSet<Ipv6Addr>, review: &mut Review<'_>) {
    let (address, span) = (*row.home_address.get_ref(), row.home_address.span());
    if !home.prefixes.iter().any(|prefix| prefix.contains(address)) {
        let what = format!("home_address {address} lies outside home_prefixes");
        review.blame(span.clone(), what, "choose an address from one of the home agent's home_prefixes");
    }
    if address == home.agent {
        let what = format!("home_address {address} is the home agent's own");
        review.blame(span.clone(), what, "choose another address of the home prefix");
    }
    if !known.insert(address) {
        let hint = "keep one row for each home address; its prefixes may be several";
        review.blame(span, format!("home_address {address} is written twice"), hint);
    }
}

/// Sorted by address and length, a prefix that covers others stands right before the first of them.
fn check_prefixes(mut places: Vec<(Prefix, Range<usize>)>, home: &Home<'_>, review: &mut Review<'_>) {
    for (prefix, span) in &places {
        if let Some(own) = home.own_in(*prefix) {
            let what = format!("prefix {prefix} holds the home agent's address {own}");
            review.blame(span.clone(), what, "a mobile network and the home link must not overlap");
        }
        if let Some(pool) = home.pool.filter(|pool| pool.covers(*prefix) || prefix.covers(*pool)) {
            let what = format!("prefix {prefix} overlaps the pool {pool}");
            review.blame(span.clone(), what, "take it from elsewhere, or make [home_agent.ipv4_pool] smaller");
        }
    }
    places.sort_by_key(|(prefix, _)| *prefix);
    for pair in places.windows(2) {
        if let [(one, _), (other, span)] = pair
            && one.covers(*other)
        {
            let what = format!("prefix {other} overlaps {one}");
            review.blame(span.clone(), what, "give every mobile network prefixes of its own");
        }
    }
}
