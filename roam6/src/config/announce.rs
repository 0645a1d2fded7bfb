//! The `[geo.announce]` table: what a station tells its neighbours that it serves.

use super::spanned::Spanned;
use crate::config::check;
use crate::config::duration::HumanDuration;
use crate::config::source::Diagnostics;
use core::time::Duration;
use roam6_proto::contract::config::facilities::{Announcement, OfferedService, RoutingAdvertisement};
use roam6_proto::contract::config::facilities::{MAX_ANNOUNCED, MAX_APPLICATION, MAX_CONTEXT, MAX_NAME};
use roam6_wire::Prefix;
use serde::Deserialize;
use std::net::Ipv6Addr;
use std::ops::RangeInclusive;

const DEFAULT_INTERVAL: Duration = Duration::from_secs(1);
/// A message says how many of it are sent in 5 s.
const INTERVAL_RANGE: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(5);
/// That of a router on a link (RFC 4861 §6.2.1).
const DEFAULT_LIFETIME: Duration = Duration::from_secs(1800);
/// Seconds in 16 bits.
const LIFETIME_RANGE: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(65_535);
/// Servers of the domain name system that have a place in a message.
const MAX_DNS: usize = 2;

/// The table, as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Section {
    name: Option<Spanned<String>>,
    interval: Option<Spanned<HumanDuration>>,
    #[serde(default)]
    services: Vec<Spanned<ServiceTable>>,
    routing: Option<RoutingTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ServiceTable {
    application: Spanned<u32>,
    address: Option<Ipv6Addr>,
    port: Option<u16>,
    context: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RoutingTable {
    prefix: Spanned<Prefix>,
    gateway: Spanned<Ipv6Addr>,
    #[serde(default)]
    dns: Vec<Spanned<Ipv6Addr>>,
    lifetime: Option<Spanned<HumanDuration>>,
}

/// Checks the table; what is wrong with it is remembered by `review`.
pub(crate) fn validate(written: &Spanned<Section>, review: &mut Diagnostics<'_>) -> Announcement {
    let section = written.get_ref();
    check::duration_in_range(section.interval.as_ref(), "interval", INTERVAL_RANGE, review);
    if section.services.is_empty() && section.routing.is_none() {
        let hint =
            "write [[geo.announce.services]] with application = 540801, or routing = { prefix = .., gateway = .. }";
        review.report(written.span(), "nothing is announced", hint);
    }
    if let Some(more) = section.services.get(MAX_ANNOUNCED) {
        review.report(more.span(), format!("more than {MAX_ANNOUNCED} services"), "a packet holds no more; list fewer");
    }
    Announcement {
        name: section.name.as_ref().map(|name| message_text(name, "name", MAX_NAME, review)),
        interval: section.interval.as_ref().map_or(DEFAULT_INTERVAL, |span| span.get_ref().0),
        services: section.services.iter().map(|table| to_service(table.get_ref(), review)).collect(),
        routing: section.routing.as_ref().map(|table| to_routing(table, review)),
    }
}

fn to_service(table: &ServiceTable, review: &mut Diagnostics<'_>) -> OfferedService {
    check::number_in_range(Some(&table.application), "application", 0..=MAX_APPLICATION, review);
    OfferedService {
        application: *table.application.get_ref(),
        address: table.address,
        port: table.port,
        context: table.context.as_ref().map(|context| message_text(context, "context", MAX_CONTEXT, review)),
    }
}

fn to_routing(table: &RoutingTable, review: &mut Diagnostics<'_>) -> RoutingAdvertisement {
    check::ipv6_prefixes([table.prefix.get_ref()], table.prefix.span(), review);
    check::duration_in_range(table.lifetime.as_ref(), "lifetime", LIFETIME_RANGE, review);
    let addresses = table.dns.iter().map(|dns| (dns, "dns")).chain([(&table.gateway, "gateway")]);
    for (address, name) in addresses.filter(|(address, _)| is_not_unicast(address.get_ref())) {
        let what = format!("{name} {} is nobody's address", address.get_ref());
        review.report(address.span(), what, "write a unicast address of IPv6");
    }
    if let Some(more) = table.dns.get(MAX_DNS) {
        review.report(more.span(), format!("more than {MAX_DNS} servers"), "a message has no room for more");
    }
    RoutingAdvertisement {
        prefix: *table.prefix.get_ref(),
        gateway: *table.gateway.get_ref(),
        dns: table.dns.iter().map(|dns| *dns.get_ref()).collect(),
        lifetime: table.lifetime.as_ref().map_or(DEFAULT_LIFETIME, |span| span.get_ref().0),
    }
}

fn is_not_unicast(address: &Ipv6Addr) -> bool {
    address.is_unspecified() || address.is_multicast() || address.is_loopback()
}

/// Who hears it refuses names that would confuse a terminal.
fn message_text(written: &Spanned<String>, name: &str, most: usize, review: &mut Diagnostics<'_>) -> String {
    let text = written.get_ref();
    if text.is_empty() || text.len() > most || text.contains(char::is_control) {
        let hint = format!("write 1 to {most} octets of text");
        review.report(written.span(), format!("{name} = \"{}\" is no text for a message", text.escape_debug()), &hint);
    }
    text.clone()
}
