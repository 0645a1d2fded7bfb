//! The `[mnpp]` table: networks announced to neighbour routers, and announcements accepted from them, by default none.

use super::spanned::Spanned;
use super::toml_reader::{from_toml, plain_toml};
use crate::config::duration::HumanDuration;
use crate::config::geo::Geo;
use crate::config::source::Diagnostics;
use crate::config::{check, key};
use core::time::Duration;
use roam6_proto::base::vec_set::VecSet;
use roam6_proto::contract::config::mnpp::{AcceptanceRule, MnppConfig};
use roam6_proto::contract::config::nemo::{Authentication, MobileRouterConfig, SharedKey};
use roam6_wire::Prefix;
use roam6_wire::mnpp::MAX_NETWORKS;
use serde::Deserialize;
use std::ops::RangeInclusive;
use std::path::PathBuf;

const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);
const INTERVAL_RANGE: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(20);
const MAX_ACCEPTED: usize = 256;

/// The table, as written.
pub(crate) struct Section {
    interfaces: Option<Spanned<Vec<Spanned<String>>>>,
    announce: Option<Spanned<Vec<Prefix>>>,
    key_file: Option<Spanned<PathBuf>>,
    auth: Option<Spanned<NoAuthentication>>,
    interval: Option<Spanned<HumanDuration>>,
    accept: Vec<Spanned<AcceptTable>>,
}

plain_toml!(NoAuthentication);

from_toml!(Section { interfaces, announce, key_file, auth, interval, accept = Vec::new() });

struct AcceptTable {
    prefixes: Spanned<Vec<Prefix>>,
    key_file: Option<Spanned<PathBuf>>,
    auth: Option<Spanned<NoAuthentication>>,
}

from_toml!(AcceptTable { prefixes, key_file, auth });

/// Operation without keys must be requested by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
enum NoAuthentication {
    #[serde(rename = "none")]
    None,
}

/// Values of other tables, the defaults of this one.
pub(crate) struct MnppDefaults {
    interfaces: VecSet<String>,
    announced: Vec<Prefix>,
}

impl MnppDefaults {
    /// The networks of the mobile router, on the virtual links of the station.
    pub(crate) fn of(router: Option<&MobileRouterConfig>, geo: Option<&Geo>) -> MnppDefaults {
        let links = geo.iter().flat_map(|geo| geo.config.virtual_links.iter().map(|link| link.name.clone()));
        let announced = router.into_iter().flat_map(|router| router.prefixes.iter().copied());
        let announced = announced.filter(|prefix| !prefix.is_ipv4()).collect();
        MnppDefaults { interfaces: links.collect(), announced }
    }
}

/// Checks the table; problems are reported to `diagnostics`.
pub(crate) fn validate(
    section: Spanned<Section>,
    usual: MnppDefaults,
    diagnostics: &mut Diagnostics<'_>,
) -> MnppConfig {
    let table = section.span();
    let section = section.into_inner();
    let interval = diagnostics.duration(&section.interval, "interval", INTERVAL_RANGE).unwrap_or(DEFAULT_INTERVAL);
    let interfaces = match &section.interfaces {
        Some(written) => check::interface_names(written, diagnostics),
        None => usual.interfaces,
    };
    if interfaces.is_empty() {
        let hint = "write the links to other routers, as interfaces = [\"gn0\"]";
        diagnostics.report(table.clone(), "no interfaces, and no virtual links of [geo]", hint);
    }
    if let Some(written) = &section.announce {
        check::ipv6_prefixes(written.iter(), written.span(), diagnostics);
        if written.len() > MAX_NETWORKS {
            diagnostics.report(written.span(), format!("more than {MAX_NETWORKS} networks"), "aggregate them");
        }
    }
    let announced = section.announce.map_or(usual.announced, Spanned::into_inner);
    let key = match (&section.key_file, &section.auth) {
        (None, None) if announced.is_empty() => None,
        (file, auth) => shared_key(file.as_ref(), auth.as_ref(), table, diagnostics),
    };
    diagnostics.limit(&section.accept, MAX_ACCEPTED, "tables", "accept several routers by a common key");
    let accepted = section.accept.into_iter().map(|table| acceptance(table, diagnostics)).collect();
    MnppConfig { interfaces, announced, key, accepted, interval }
}

fn acceptance(table: Spanned<AcceptTable>, diagnostics: &mut Diagnostics<'_>) -> AcceptanceRule {
    let span = table.span();
    let table = table.into_inner();
    check::ipv6_prefixes(table.prefixes.iter(), table.prefixes.span(), diagnostics);
    if table.prefixes.is_empty() {
        let hint = "write the prefixes that contain their networks, as prefixes = [\"2001:db8::/32\"]";
        diagnostics.report(table.prefixes.span(), "no prefixes", hint);
    }
    let key = shared_key(table.key_file.as_ref(), table.auth.as_ref(), span, diagnostics);
    AcceptanceRule { key, prefixes: table.prefixes.into_inner() }
}

/// The key, or `auth = "none"`; one of the two is required.
fn shared_key(
    file: Option<&Spanned<PathBuf>>,
    auth: Option<&Spanned<NoAuthentication>>,
    table: std::ops::Range<usize>,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<SharedKey> {
    match (file, auth) {
        (Some(file), None) => match key::read_reported(file, diagnostics)? {
            Authentication::SharedKey(key) => Some(key),
            _ => diagnostics.refuse(file.span(), "not a shared key", "make one with: roam6 keygen"),
        },
        (None, Some(_)) => None,
        (Some(file), Some(_)) => {
            diagnostics.refuse(file.span(), "key_file and auth = \"none\"", "remove one of the two")
        }
        (None, None) => {
            let hint = "make one with `roam6 keygen`, name it with key_file = \"...\", or write auth = \"none\" to \
                        believe and be believed without";
            diagnostics.refuse(table, "no key", hint)
        }
    }
}
