//! The `[mnpp]` table: networks announced to routers nearby, and what is believed of them. By default nothing is.

use super::spanned::Spanned;
use crate::config::check;
use crate::config::duration::Span;
use crate::config::geo::Geo;
use crate::config::key;
use crate::config::source::Review;
use core::time::Duration;
use roam6_proto::base::few;
use roam6_proto::contract::config::mnpp::{AcceptanceRule, MnppConfig};
use roam6_proto::contract::config::nemo::{Authentication, MobileRouterConfig, SharedKey};
use roam6_wire::Prefix;
use roam6_wire::mnpp::MAX_NETWORKS;
use serde::Deserialize;
use std::path::PathBuf;

const INTERVAL: Duration = Duration::from_secs(1);
const INTERVALS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(20));
const MAX_ACCEPTED: usize = 256;

/// The table, as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Section {
    interfaces: Option<Spanned<Vec<Spanned<String>>>>,
    announce: Option<Spanned<Vec<Prefix>>>,
    key_file: Option<Spanned<PathBuf>>,
    auth: Option<Spanned<Unproved>>,
    interval: Option<Spanned<Span>>,
    #[serde(default)]
    accept: Vec<Spanned<AcceptTable>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AcceptTable {
    prefixes: Spanned<Vec<Prefix>>,
    key_file: Option<Spanned<PathBuf>>,
    auth: Option<Spanned<Unproved>>,
}

/// The one way to go without keys, to be asked for by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
enum Unproved {
    #[serde(rename = "none")]
    None,
}

/// What other tables say, for what this one leaves out.
pub(crate) struct Usual {
    interfaces: few::VecSet<String>,
    announced: Vec<Prefix>,
}

impl Usual {
    /// The networks of the mobile router, on the virtual links of the station.
    pub(crate) fn of(router: Option<&MobileRouterConfig>, geo: Option<&Geo>) -> Usual {
        let links = geo.iter().flat_map(|geo| geo.config.virtual_links.iter().map(|link| link.name.clone()));
        let announced = router.into_iter().flat_map(|router| router.prefixes.iter().copied());
        let announced = announced.filter(|prefix| !prefix.is_ipv4()).collect();
        Usual { interfaces: links.collect(), announced }
    }
}

/// Checks the table; what is wrong with it is remembered by `review`.
pub(crate) fn settle(section: Spanned<Section>, usual: Usual, review: &mut Review<'_>) -> MnppConfig {
    let table = section.span();
    let section = section.into_inner();
    check::duration(section.interval.as_ref(), "interval", INTERVALS.0..=INTERVALS.1, review);
    let interfaces = match &section.interfaces {
        Some(written) => check::interfaces(written, review),
        None => usual.interfaces,
    };
    if interfaces.is_empty() {
        let hint = "write the links to other routers, as interfaces = [\"gn0\"]";
        review.blame(table.clone(), "no interfaces, and no virtual links of [geo]", hint);
    }
    if let Some(written) = &section.announce {
        check::ipv6(written.get_ref(), written.span(), review);
    }
    if let Some(written) = section.announce.as_ref().filter(|written| written.get_ref().len() > MAX_NETWORKS) {
        review.blame(written.span(), format!("more than {MAX_NETWORKS} networks"), "aggregate them");
    }
    let announced = section.announce.map_or(usual.announced, Spanned::into_inner);
    let key = match (&section.key_file, &section.auth) {
        (None, None) if announced.is_empty() => None,
        (file, auth) => proof(file.as_ref(), auth.as_ref(), table, review),
    };
    if let Some(more) = section.accept.get(MAX_ACCEPTED) {
        review.blame(more.span(), format!("more than {MAX_ACCEPTED} tables"), "give routers a common key");
    }
    let accepted = section.accept.into_iter().map(|table| acceptance(table, review)).collect();
    let interval = section.interval.map_or(INTERVAL, |span| span.get_ref().0);
    MnppConfig { interfaces, announced, key, accepted, interval }
}

fn acceptance(table: Spanned<AcceptTable>, review: &mut Review<'_>) -> AcceptanceRule {
    let span = table.span();
    let table = table.into_inner();
    check::ipv6(table.prefixes.get_ref(), table.prefixes.span(), review);
    if table.prefixes.get_ref().is_empty() {
        let hint = "write what their networks lie in, as prefixes = [\"2001:db8::/32\"]";
        review.blame(table.prefixes.span(), "no prefixes", hint);
    }
    let key = proof(table.key_file.as_ref(), table.auth.as_ref(), span, review);
    AcceptanceRule { key, prefixes: table.prefixes.into_inner() }
}

/// A key, or the word that none is wanted; one of the two must be written.
fn proof(
    file: Option<&Spanned<PathBuf>>,
    auth: Option<&Spanned<Unproved>>,
    table: std::ops::Range<usize>,
    review: &mut Review<'_>,
) -> Option<SharedKey> {
    match (file, auth) {
        (Some(file), None) => match key::read(&review.source.resolve(file.get_ref())) {
            Ok(Authentication::SharedKey(key)) => Some(key),
            Ok(_) => {
                review.blame(file.span(), "not a shared key", "make one with: roam6 keygen");
                None
            }
            Err(problems) => {
                review.add(problems);
                None
            }
        },
        (None, Some(_)) => None,
        (Some(file), Some(_)) => {
            review.blame(file.span(), "key_file and auth = \"none\"", "remove one of the two");
            None
        }
        (None, None) => {
            let hint = "make one with `roam6 keygen`, name it with key_file = \"...\", or write auth = \"none\" to \
                        believe and be believed without";
            review.blame(table, "no key", hint);
            None
        }
    }
}
