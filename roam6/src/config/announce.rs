//! The `[geo.announce]` table: services that a station announces to its neighbours.

use super::spanned::Spanned;
use super::toml_reader::from_toml;
use crate::config::check;
use crate::config::duration::HumanDuration;
use crate::config::source::Diagnostics;
use core::time::Duration;
use roam6_proto::contract::config::facilities::{Announcement, OfferedService, RoutingAdvertisement};
use roam6_proto::contract::config::facilities::{MAX_ANNOUNCED, MAX_APPLICATION, MAX_CONTEXT, MAX_NAME};
use roam6_wire::Prefix;
use std::net::Ipv6Addr;
use std::ops::RangeInclusive;

const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);
/// A message has the number of repetitions in 5 s.
const INTERVAL_RANGE: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(5);
/// That of a router on a link (RFC 4861 §6.2.1).
const DEFAULT_LIFETIME: Duration = Duration::from_secs(1800);
/// Seconds in 16 bits.
const LIFETIME_RANGE: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(65_535);
/// DNS servers in a message.
const MAX_DNS: usize = 2;

/// The table, as written.
pub(crate) struct Section {
    name: Option<Spanned<String>>,
    interval: Option<Spanned<HumanDuration>>,
    services: Vec<Spanned<ServiceTable>>,
    routing: Option<RoutingTable>,
}

from_toml!(Section { name, interval, services = Vec::new(), routing });

struct ServiceTable {
    application: Spanned<u32>,
    address: Option<Ipv6Addr>,
    port: Option<u16>,
    context: Option<Spanned<String>>,
}

from_toml!(ServiceTable { application, address, port, context });

struct RoutingTable {
    prefix: Spanned<Prefix>,
    gateway: Spanned<Ipv6Addr>,
    dns: Vec<Spanned<Ipv6Addr>>,
    lifetime: Option<Spanned<HumanDuration>>,
}

from_toml!(RoutingTable { prefix, gateway, dns = Vec::new(), lifetime });

/// Checks the table; problems are reported to `diagnostics`.
pub(crate) fn validate(written: &Spanned<Section>, diagnostics: &mut Diagnostics<'_>) -> Announcement {
    let section = &**written;
    if section.services.is_empty() && section.routing.is_none() {
        let hint =
            "write [[geo.announce.services]] with application = 540801, or routing = { prefix = .., gateway = .. }";
        diagnostics.report(written.span(), "nothing is announced", hint);
    }
    diagnostics.limit(&section.services, MAX_ANNOUNCED, "services", "a message has room for no more; list fewer");
    Announcement {
        name: section.name.as_ref().map(|name| message_text(name, "name", MAX_NAME, diagnostics)),
        interval: diagnostics.duration(&section.interval, "interval", INTERVAL_RANGE).unwrap_or(DEFAULT_INTERVAL),
        services: section.services.iter().map(|table| to_service(table, diagnostics)).collect(),
        routing: section.routing.as_ref().map(|table| to_routing(table, diagnostics)),
    }
}

fn to_service(table: &ServiceTable, diagnostics: &mut Diagnostics<'_>) -> OfferedService {
    diagnostics.number(&table.application, "application", 0..=MAX_APPLICATION);
    OfferedService {
        application: *table.application,
        address: table.address,
        port: table.port,
        context: table.context.as_ref().map(|context| message_text(context, "context", MAX_CONTEXT, diagnostics)),
    }
}

fn to_routing(table: &RoutingTable, diagnostics: &mut Diagnostics<'_>) -> RoutingAdvertisement {
    check::ipv6_prefixes([&*table.prefix], table.prefix.span(), diagnostics);
    let addresses = table.dns.iter().map(|dns| (dns, "dns")).chain([(&table.gateway, "gateway")]);
    for (address, name) in addresses.filter(|(address, _)| is_not_unicast(address)) {
        let what = format!("{name} {} is not a unicast address", **address);
        diagnostics.report(address.span(), what, "write an IPv6 unicast address");
    }
    diagnostics.limit(&table.dns, MAX_DNS, "servers", "a message has no room for more");
    RoutingAdvertisement {
        prefix: *table.prefix,
        gateway: *table.gateway,
        dns: table.dns.iter().map(|dns| **dns).collect(),
        lifetime: diagnostics.duration(&table.lifetime, "lifetime", LIFETIME_RANGE).unwrap_or(DEFAULT_LIFETIME),
    }
}

fn is_not_unicast(address: &Ipv6Addr) -> bool {
    address.is_unspecified() || address.is_multicast() || address.is_loopback()
}

/// Receivers refuse texts with control characters.
fn message_text(written: &Spanned<String>, name: &str, most: usize, diagnostics: &mut Diagnostics<'_>) -> String {
    let text = &**written;
    if text.is_empty() || text.len() > most || text.contains(char::is_control) {
        let hint = format!("write 1 to {most} octets of text");
        let what = format!("{name} = \"{}\" is no text for a message", text.escape_debug());
        diagnostics.report(written.span(), what, &hint);
    }
    text.clone()
}
