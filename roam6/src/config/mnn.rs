//! The `[mnn]` table: a node of a mobile network, or a host with several uplinks, whose connections take several paths.

use super::spanned::Spanned;
use super::toml_reader::from_toml;
use crate::config::check;
use crate::config::source::Diagnostics;
use roam6_proto::contract::config::mptcp::PathManagerConfig;
use roam6_wire::Prefix;

/// Most home prefixes.
const MAX_LIST: usize = 64;
/// The kernel takes no more, of subflows beside the first and of addresses of a peer.
const MAX_SUBFLOWS: u32 = 8;
/// Default for the most addresses of a peer that are used.
const DEFAULT_ACCEPTED: u32 = 4;

/// The table, as written.
pub(crate) struct Section {
    interfaces: Spanned<Vec<Spanned<String>>>,
    home_prefixes: Vec<Spanned<Prefix>>,
    signal_home: bool,
    signal_care_of: bool,
    subflows: Option<Spanned<u32>>,
    accepted: Option<Spanned<u32>>,
    source_routing: bool,
}

from_toml!(Section {
    interfaces,
    home_prefixes = Vec::new(),
    signal_home = false,
    signal_care_of = false,
    subflows,
    accepted,
    source_routing = false,
});

/// Checks the table; problems are reported to `diagnostics`.
pub(crate) fn validate(section: Section, diagnostics: &mut Diagnostics<'_>) -> PathManagerConfig {
    check_home_prefixes(&section.home_prefixes, diagnostics);
    PathManagerConfig {
        interfaces: check::interface_names(&section.interfaces, diagnostics),
        home_prefixes: section.home_prefixes.into_iter().map(Spanned::into_inner).collect(),
        signal_home: section.signal_home,
        signal_care_of: section.signal_care_of,
        subflows: diagnostics.number(&section.subflows, "subflows", 0..=MAX_SUBFLOWS).unwrap_or(MAX_SUBFLOWS),
        add_addr_accepted: diagnostics
            .number(&section.accepted, "accepted", 0..=MAX_SUBFLOWS)
            .unwrap_or(DEFAULT_ACCEPTED),
        source_routing: section.source_routing,
    }
}

fn check_home_prefixes(prefixes: &[Spanned<Prefix>], diagnostics: &mut Diagnostics<'_>) {
    diagnostics.limit(prefixes, MAX_LIST, "prefixes", "aggregate them");
    for prefix in prefixes {
        check::ipv6_prefixes([&**prefix], prefix.span(), diagnostics);
        if prefix.length() == 0 {
            let hint = "write the prefixes of the mobile network, as home_prefixes = [\"2001:db8:100::/56\"]";
            diagnostics.report(prefix.span(), "every address would be a home address", hint);
        }
    }
}
