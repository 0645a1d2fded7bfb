//! The `[mobile_router]` table.

use super::spanned::Spanned;
use super::toml_reader::{from_toml, plain_toml};
use crate::config::check;
use crate::config::data_plan::{DataPlanKeys, HumanOctets};
use crate::config::duration::HumanDuration;
use crate::config::encrypt::{self, Encrypt};
use crate::config::flow::{self, Dscp, Flow};
use crate::config::ipsec::Ipsec;
use crate::config::key::{self, AuthMethod, KeySettings};
use crate::config::source::Diagnostics;
use core::time::Duration;
use roam6_proto::base::vec_set::VecSet;
use roam6_proto::contract::config::encryption::MAX_WIREGUARD_BID;
use roam6_proto::contract::config::nemo::{
    Authentication, BeyondCap, CareOfPrefixConfig, DadMode, HomeNetwork, IngressConfig, LoadSharing,
    MobileRouterConfig, PlanPeriod, PrefixMode, PrefixPreference, PrefixSharing, ProbeConfig, StaticAddress, Transport,
    UplinkConfig,
};
use roam6_wire::{Bid, DomainName, HomeAddress, Prefix};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

/// Most uplinks, ingress interfaces, prefixes or home agents.
const MAX_LIST: usize = 64;
/// Lengths of an IPv4 prefix that may be requested.
const DYNAMIC_IPV4_LENGTH_RANGE: std::ops::RangeInclusive<u8> = 8..=32;

/// Interface identifier of the mobile router in a /64 that it has in common with the home agent.
pub(crate) const SHARED_IDENTIFIER: u64 = u64::from_be_bytes(*b"\0roam6-r");

/// The table, as written.
pub(crate) struct Section {
    home_address: Spanned<Ipv6Addr>,
    home_prefix: Spanned<Prefix>,
    home: Option<HomeNetwork>,
    home_agents: Vec<Spanned<Ipv6Addr>>,
    home_agents_ipv4: Vec<Spanned<Ipv4Addr>>,
    prefixes: Spanned<Vec<Spanned<Prefix>>>,
    dynamic_ipv4: Option<Spanned<u8>>,
    mode: Option<PrefixMode>,
    auth: Option<Spanned<AuthMethod>>,
    key_file: Option<Spanned<PathBuf>>,
    ipsec: Option<Spanned<Ipsec>>,
    lifetime: Option<Spanned<HumanDuration>>,
    sharing: Option<Spanned<LoadSharing>>,
    home_and_away: Option<Spanned<bool>>,
    duplicate_detection: Option<DadMode>,
    portal_check: Option<bool>,
    probe: ProbeTable,
    uplink: Vec<Spanned<UplinkTable>>,
    ingress: Vec<IngressTable>,
    flow: Vec<Spanned<Flow>>,
    early: Option<bool>,
    care_of_prefixes: Option<Spanned<CareOfTable>>,
    encrypt: Option<Spanned<Encrypt>>,
}

plain_toml!(
    HomeNetwork,
    PrefixMode,
    LoadSharing,
    DadMode,
    PlanPeriod,
    BeyondCap,
    Transport,
    PrefixSharing,
    PrefixPreference
);

from_toml!(Section {
    home_address,
    home_prefix,
    home,
    home_agents = Vec::new(),
    home_agents_ipv4 = Vec::new(),
    prefixes,
    dynamic_ipv4,
    mode,
    auth,
    key_file,
    ipsec,
    lifetime,
    sharing,
    home_and_away,
    duplicate_detection,
    portal_check,
    probe = ProbeTable::default(),
    uplink = Vec::new(),
    ingress = Vec::new(),
    flow = Vec::new(),
    early,
    care_of_prefixes,
    encrypt,
});

struct UplinkTable {
    interface: Spanned<String>,
    bid: Option<Spanned<u16>>,
    priority: Option<Spanned<u8>>,
    weight: Option<u16>,
    care_of_prefix: Option<Spanned<bool>>,
    address: Option<Spanned<String>>,
    gateway: Option<Spanned<Ipv6Addr>>,
    max_rtt: Option<Spanned<HumanDuration>>,
    max_loss: Option<Spanned<u8>>,
    metered: bool,
    cap: Option<Spanned<HumanOctets>>,
    period: Option<PlanPeriod>,
    period_start: Option<Spanned<u8>>,
    beyond: Option<Spanned<BeyondCap>>,
    probe: Option<Spanned<ProbeTable>>,
    dscp: Option<Dscp>,
    transport: Option<Spanned<Transport>>,
}

from_toml!(UplinkTable {
    interface,
    bid,
    priority,
    weight,
    care_of_prefix,
    address,
    gateway,
    max_rtt,
    max_loss,
    metered = false,
    cap,
    period,
    period_start,
    beyond,
    probe,
    dscp,
    transport,
});

struct IngressTable {
    interface: Spanned<String>,
    prefix: Spanned<Prefix>,
    advertise: Option<Spanned<HumanDuration>>,
    dns: Option<Vec<Spanned<Ipv6Addr>>>,
    search: Option<Vec<Spanned<String>>>,
}

from_toml!(IngressTable { interface, prefix, advertise, dns, search });

struct CareOfTable {
    delegation: Option<bool>,
    length: Option<Spanned<u8>>,
    share: Option<PrefixSharing>,
    prefer: Option<PrefixPreference>,
}

from_toml!(CareOfTable { delegation, length, share, prefer });

#[derive(Default)]
struct ProbeTable {
    enabled: Option<Spanned<bool>>,
    interval: Option<Spanned<HumanDuration>>,
    lost: Option<Spanned<u32>>,
    recovered: Option<Spanned<u32>>,
    burst: Option<bool>,
    idle: Option<Spanned<HumanDuration>>,
    standby: Option<Spanned<HumanDuration>>,
}

from_toml!(ProbeTable { enabled, interval, lost, recovered, burst, idle, standby });

/// Checks the table; `None` if it has no usable authentication, which is then reported to `diagnostics`. `has_udp`: the data
/// plane has UDP over IPv6.
pub(crate) fn validate(
    section: Spanned<Section>,
    has_udp: bool,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<MobileRouterConfig> {
    let span = section.span();
    let section = section.into_inner();
    check_home(&section, diagnostics);
    check_prefixes(&section, diagnostics);
    let lifetime = diagnostics.duration(&section.lifetime, "lifetime", check::LIFETIME_RANGE);
    let probe = usual_probe(&section.probe, diagnostics);
    let mut uplinks = uplinks(&section, span.clone(), (probe, has_udp), diagnostics);
    let sharing = sharing(section.sharing.as_ref(), &uplinks, diagnostics);
    if let Some(both) = section.home_and_away.as_ref().filter(|both| ***both) {
        if sharing == LoadSharing::Single {
            let hint = "choose sharing = \"standby\" or \"weights\", or leave home_and_away out";
            diagnostics.report(both.span(), "home_and_away needs several care-of addresses", hint);
        }
        if section.home == Some(HomeNetwork::Virtual) {
            let hint = "a virtual home network has no link to be on: leave home_and_away out";
            diagnostics.report(both.span(), "home_and_away needs a home link", hint);
        }
    }
    let ingress = ingress(&section, diagnostics);
    let encryption = encrypt::validate(section.encrypt.as_ref(), has_udp, diagnostics);
    check_encryption(&section, &uplinks, encryption.is_some(), diagnostics);
    if encrypt::is_esp(encryption.as_ref()) {
        check_esp(&section, diagnostics);
        uplinks.iter_mut().for_each(|uplink| uplink.transport = Transport::Native);
    }
    let default_home = if encryption.is_some() { HomeNetwork::Virtual } else { HomeNetwork::default() };
    let home_agents = section.home_agents.len();
    let flows = flow::validate(section.flow, (&uplinks, &ingress), (sharing, has_udp, home_agents), diagnostics);
    let care_of_prefixes = care_of_prefixes(section.care_of_prefixes, &uplinks, &ingress, diagnostics);
    let keying =
        KeySettings { auth: section.auth, key_file: section.key_file, ipsec: section.ipsec, ..KeySettings::default() };
    let key_file = keying.key_file.as_ref().map(|path| (**path).clone());
    let authentication: Authentication = keying.validate(span, diagnostics)?;
    let invitation = key_file.and_then(|path| key::read_invitation(&path, diagnostics));
    Some(MobileRouterConfig {
        home_address: HomeAddress(section.home_address.into_inner()),
        home_prefix: section.home_prefix.into_inner(),
        home_network: section.home.unwrap_or(default_home),
        home_agents: section.home_agents.into_iter().map(Spanned::into_inner).collect(),
        home_agents_ipv4: section.home_agents_ipv4.into_iter().map(Spanned::into_inner).collect(),
        prefixes: section.prefixes.into_inner().into_iter().map(Spanned::into_inner).collect(),
        dynamic_ipv4: section.dynamic_ipv4.map(Spanned::into_inner),
        prefix_mode: section.mode.unwrap_or(PrefixMode::Explicit),
        authentication,
        invitation,
        key_exchange: true,
        lifetime: lifetime.unwrap_or(Duration::from_secs(600)),
        uplinks,
        load_sharing: sharing,
        home_and_away: section.home_and_away.is_some_and(Spanned::into_inner),
        ingress,
        duplicate_detection: section.duplicate_detection.unwrap_or(DadMode::Optimistic),
        probe,
        flows,
        early: section.early.unwrap_or(false),
        care_of_prefixes,
        portal_check: section.portal_check.unwrap_or(true),
        encryption,
    })
}

/// Encryption needs a key that both ends share, and a device for each uplink. It excludes a home link, which any host of a visited
/// link can claim to be: there packets would leave unencrypted.
fn check_encryption(section: &Section, uplinks: &[UplinkConfig], is_on: bool, diagnostics: &mut Diagnostics<'_>) {
    let Some(written) = section.encrypt.as_ref().filter(|_| is_on) else { return };
    if section.auth.as_ref().is_some_and(|auth| **auth == AuthMethod::None) {
        let hint = "give the mobile router a key with `roam6 enroll`, and remove auth";
        diagnostics.report(written.span(), "encrypt needs authentication: anybody could take part", hint);
    }
    if let Some(uplink) = uplinks.iter().find(|uplink| uplink.bid.0 >= MAX_WIREGUARD_BID) {
        let what = format!("bid {} is too high for an encrypted path", uplink.bid);
        let hint = format!("choose one below {MAX_WIREGUARD_BID}");
        diagnostics.report(written.span(), what, &hint);
    }
    if section.home == Some(HomeNetwork::Physical) || section.home_and_away.as_ref().is_some_and(|both| **both) {
        let hint = "leave home and home_and_away out, so that no link counts as the home link, or leave encrypt out";
        diagnostics.report(written.span(), "data on a home link is not encrypted", hint);
    }
}

/// ESP is spoken over IPv6 without UDP: an uplink that needs more would carry nothing.
fn check_esp(section: &Section, diagnostics: &mut Diagnostics<'_>) {
    let over_ipv4 = section.home_agents_ipv4.first().map(Spanned::span);
    encrypt::refuse_with_esp(over_ipv4, "paths over IPv4", "home_agents_ipv4", diagnostics);
    for uplink in &section.uplink {
        let written = uplink.transport.as_ref().filter(|written| ***written == Transport::Udp);
        encrypt::refuse_with_esp(written.map(Spanned::span), "paths in UDP", "transport", diagnostics);
    }
}

fn check_home(section: &Section, diagnostics: &mut Diagnostics<'_>) {
    let (address, prefix) = (*section.home_address, *section.home_prefix);
    check::global_unicast(&section.home_address, "home_address", diagnostics);
    check::ipv6_prefixes([&*section.home_prefix], section.home_prefix.span(), diagnostics);
    diagnostics.number(&section.dynamic_ipv4, "dynamic_ipv4", DYNAMIC_IPV4_LENGTH_RANGE);
    if !prefix.contains(address) {
        let what = format!("home_address {address} lies outside home_prefix {prefix}");
        let hint = "choose an address of the home prefix, or correct home_prefix";
        diagnostics.report(section.home_address.span(), what, hint);
    }
    for agent in &section.home_agents_ipv4 {
        check::global_unicast4(agent, "home agent", diagnostics);
    }
    if let Some(more) = section.home_agents_ipv4.get(section.home_agents.len()) {
        let hint = "home_agents_ipv4 has the IPv4 address of each of home_agents, in their order";
        diagnostics.report(more.span(), format!("{} belongs to no home agent", **more), hint);
    }
    for agent in &section.home_agents {
        check::global_unicast(agent, "home agent", diagnostics);
        if **agent == address {
            let what = "the home agent is the mobile router itself";
            diagnostics.report(agent.span(), what, "write the home agent's address");
        }
    }
    diagnostics.limit(&section.home_agents, MAX_LIST, "home agents", "list fewer");
}

fn check_prefixes(section: &Section, diagnostics: &mut Diagnostics<'_>) {
    let prefixes = &*section.prefixes;
    let spanned = prefixes.iter().map(|one| (&**one, one.span()));
    check::mobile_network_prefixes(spanned, section.prefixes.span(), diagnostics);
    diagnostics.limit(prefixes, MAX_LIST, "prefixes", "aggregate them");
    let home = *section.home_prefix;
    for (index, prefix) in prefixes.iter().enumerate() {
        let value = **prefix;
        if value.covers(home) {
            let what = format!("prefix {value} contains the home prefix {home}");
            diagnostics.report(prefix.span(), what, "a mobile network must not contain the home prefix");
        }
        let before = prefixes.iter().take(index).map(|other| **other);
        if let Some(other) = before.into_iter().find(|other| other.covers(value) || value.covers(*other)) {
            let what = format!("prefix {value} overlaps {other}");
            diagnostics.report(prefix.span(), what, "remove the longer of the two");
        }
    }
}

fn uplinks(
    section: &Section,
    span: std::ops::Range<usize>,
    (probe, has_udp): (Option<ProbeConfig>, bool),
    diagnostics: &mut Diagnostics<'_>,
) -> Vec<UplinkConfig> {
    let hint = "add a [[mobile_router.uplink]] table with interface = \"wlan0\"";
    if section.uplink.is_empty() {
        diagnostics.report(span, "no uplink: the mobile router could never leave home", hint);
    }
    let shared = section.sharing.as_ref().is_some_and(|sharing| **sharing == LoadSharing::Weighted);
    let (mut names, mut bids) = (VecSet::new(), VecSet::new());
    let mut uplinks = Vec::new();
    for (uplink, position) in section.uplink.iter().zip(1_u8..) {
        let table = &**uplink;
        check::interface_name(&table.interface, diagnostics);
        let interface = String::clone(&table.interface);
        if !names.insert(interface.clone()) {
            diagnostics.report(table.interface.span(), format!("uplink {interface} is written twice"), "remove one");
        }
        let bid = table.bid.as_ref().map_or(u16::from(position), |bid| **bid);
        let place = table.bid.as_ref().map_or(uplink.span(), Spanned::span);
        if bid == 0 {
            diagnostics.report(place, "bid 0 is reserved (RFC 5648)", "number the uplinks from 1, or leave bid out");
        } else if !bids.insert(bid) {
            diagnostics.report(place, format!("bid {bid} is used twice"), "give every uplink a bid of its own");
        }
        let default_priority = if shared { 1 } else { position.min(127) };
        let priority = diagnostics.number(&table.priority, "priority", 1..=127).unwrap_or(default_priority);
        if let Some(written) = table.care_of_prefix.as_ref().filter(|_| section.care_of_prefixes.is_none()) {
            let hint = "add [mobile_router.care_of_prefixes], or remove the line";
            diagnostics.report(written.span(), "care_of_prefix means nothing without care-of prefixes", hint);
        }
        uplinks.push(UplinkConfig {
            interface,
            bid: Bid(bid),
            priority,
            weight: table.weight.unwrap_or(1),
            care_of_prefix: table.care_of_prefix.as_ref().is_none_or(|written| **written),
            address: static_address(table, section, diagnostics),
            max_rtt: max_rtt(table, diagnostics),
            probe: own_probe(table, probe, diagnostics),
            max_loss: Some(diagnostics.number(&table.max_loss, "max_loss", 1..=100).unwrap_or(20)),
            metered: table.metered,
            plan: Some(data_plan(table).validate(diagnostics)),
            dscp: table.dscp.map(|dscp| dscp.0),
            transport: transport(table, has_udp, diagnostics),
        });
    }
    diagnostics.limit(&section.uplink, MAX_LIST, "uplinks", "list fewer");
    uplinks
}

/// The round trip beyond which other uplinks are used; `"0s"`: none.
fn max_rtt(table: &UplinkTable, diagnostics: &mut Diagnostics<'_>) -> Option<Duration> {
    let written = table.max_rtt.as_ref();
    if written.is_some_and(|written| written.0.is_zero()) {
        return None;
    }
    let bounds = Duration::from_millis(1)..=Duration::from_secs(60);
    Some(diagnostics.duration(&table.max_rtt, "max_rtt", bounds).unwrap_or(Duration::from_millis(800)))
}

/// What packets to the home agent are encapsulated in; native where the data plane has nothing else.
fn transport(table: &UplinkTable, has_udp: bool, diagnostics: &mut Diagnostics<'_>) -> Transport {
    let usual = if has_udp { Transport::Auto } else { Transport::Native };
    let Some(written) = &table.transport else { return usual };
    if !has_udp && **written != Transport::Native {
        let hint = "write data_plane = \"bpf\", or transport = \"native\"";
        diagnostics.report(written.span(), "the kernel's tunnel device has no UDP encapsulation", hint);
    }
    **written
}

fn data_plan(UplinkTable { cap, period, period_start, beyond, .. }: &UplinkTable) -> DataPlanKeys<'_> {
    DataPlanKeys { cap, period: *period, period_start, beyond }
}

/// The care-of address written by hand, with its gateway.
fn static_address(table: &UplinkTable, section: &Section, diagnostics: &mut Diagnostics<'_>) -> Option<StaticAddress> {
    let (address, gateway) = match (&table.address, &table.gateway) {
        (None, None) => return None,
        (Some(address), Some(gateway)) => (address, gateway),
        (Some(address), None) => {
            let hint = "add gateway = \"fe80::1\", the address of the link's router";
            return diagnostics.refuse(address.span(), "address without gateway", hint);
        }
        (None, Some(gateway)) => {
            let hint = "add address = \"2001:db8:1::5/64\", or remove the line";
            return diagnostics.refuse(gateway.span(), "gateway without address", hint);
        }
    };
    let parts = address.split_once('/');
    let parts = parts.and_then(|(host, length)| Some((host.parse::<Ipv6Addr>().ok()?, length.parse::<u8>().ok()?)));
    let Some((host, prefix)) = parts.and_then(|(host, length)| Some((host, Prefix::new(host, length)?))) else {
        let what = format!("\"{}\" is not an IPv6 address with the length of its prefix", **address);
        return diagnostics.refuse(address.span(), what, "write it as 2001:db8:1::5/64");
    };
    check::global_unicast(&address.with(host), "address", diagnostics);
    if let Some(own) = section.prefixes.iter().find(|own| own.contains(host)) {
        let what = format!("address {host} lies in the mobile network's own prefix {}", **own);
        diagnostics.report(address.span(), what, "write the address that the visited network has assigned");
    }
    let router = **gateway;
    if router == host || !(router.is_unicast_link_local() || prefix.contains(router)) {
        let what = format!("gateway {router} is not on the link of {prefix}");
        let hint = "write the link-local address of the link's router, or one in the prefix";
        diagnostics.report(gateway.span(), what, hint);
    }
    Some(StaticAddress { address: host, prefix, gateway: router })
}

fn sharing(
    written: Option<&Spanned<LoadSharing>>,
    uplinks: &[UplinkConfig],
    diagnostics: &mut Diagnostics<'_>,
) -> LoadSharing {
    let Some(written) = written else {
        return if uplinks.len() > 1 { LoadSharing::Standby } else { LoadSharing::Single };
    };
    if **written == LoadSharing::Weighted && uplinks.iter().all(|uplink| uplink.weight == 0) {
        diagnostics.report(written.span(), "all uplinks have weight 0", "give at least one uplink a weight");
    }
    **written
}

fn ingress(section: &Section, diagnostics: &mut Diagnostics<'_>) -> Vec<IngressConfig> {
    let mut names: VecSet<&String> = section.uplink.iter().map(|up| &*up.interface).collect();
    let mut prefixes = VecSet::new();
    let mut ingress = Vec::new();
    for table in section.ingress.iter().take(MAX_LIST) {
        let (name, prefix) = (&*table.interface, *table.prefix);
        check::interface_name(&table.interface, diagnostics);
        let advertise = diagnostics.duration(&table.advertise, "advertise", check::ADVERTISE_RANGE);
        if !names.insert(name) {
            let what = format!("interface {name} is already an uplink or ingress");
            diagnostics.report(table.interface.span(), what, "an interface faces either outwards or inwards");
        }
        if prefix.length() != 64 {
            let what = format!("prefix {prefix} is not a /64");
            diagnostics.report(table.prefix.span(), what, "hosts form addresses in a /64 only (RFC 4862); choose one");
        } else if !section.prefixes.iter().any(|own| own.covers(prefix)) {
            let what = format!("prefix {prefix} is not part of the mobile network");
            diagnostics.report(table.prefix.span(), what, "choose it from prefixes of [mobile_router]");
        }
        if !prefixes.insert(prefix) {
            let what = format!("prefix {prefix} is on two interfaces");
            diagnostics.report(table.prefix.span(), what, "choose another /64");
        }
        let dns = table.dns.as_deref().map(|servers| resolvers(servers, diagnostics));
        let search = table.search.as_deref().map(|domains| search_domains(domains, diagnostics));
        ingress.push(IngressConfig {
            interface: name.clone(),
            prefix,
            // The shared prefix of a home agent: the low identifiers are those of its host, and of its provider's router.
            identifier: section.home_agents.iter().any(|agent| prefix.contains(**agent)).then_some(SHARED_IDENTIFIER),
            advertisement_interval: advertise.unwrap_or(Duration::from_secs(10)),
            dns,
            search_domains: search,
        });
    }
    if let Some(table) = section.ingress.get(MAX_LIST) {
        diagnostics.report(table.interface.span(), format!("more than {MAX_LIST} ingress interfaces"), "list fewer");
    }
    ingress
}

/// Most resolvers, or search domains, advertised on one interface.
const MAX_NAMES: usize = 8;

/// Recursive DNS servers for nodes.
fn resolvers(servers: &[Spanned<Ipv6Addr>], diagnostics: &mut Diagnostics<'_>) -> Vec<Ipv6Addr> {
    servers.iter().for_each(|server| check::global_unicast(server, "resolver", diagnostics));
    diagnostics.limit(servers, MAX_NAMES, "resolvers", "list fewer");
    servers.iter().map(|server| **server).collect()
}

/// Search domains for nodes.
fn search_domains(domains: &[Spanned<String>], diagnostics: &mut Diagnostics<'_>) -> Vec<DomainName> {
    diagnostics.limit(domains, MAX_NAMES, "search domains", "list fewer");
    let mut names = Vec::new();
    for domain in domains {
        match domain.parse() {
            Ok(name) => names.push(name),
            Err(_) => {
                let what = format!("\"{}\" is not a domain name", **domain);
                let hint = "write it as \"example.org\"; international names in their xn-- form";
                diagnostics.report(domain.span(), what, hint);
            }
        }
    }
    names
}

/// The probes of all uplinks; what an uplink's own table leaves out is as there.
fn probe(table: &ProbeTable, usual: ProbeConfig, diagnostics: &mut Diagnostics<'_>) -> ProbeConfig {
    let bounds = Duration::from_millis(10)..=Duration::from_secs(3600);
    let interval = diagnostics.duration(&table.interval, "interval", bounds);
    let down_after = diagnostics.number(&table.lost, "lost", 1..=1000);
    let up_after = diagnostics.number(&table.recovered, "recovered", 1..=1000);
    let rarely = Duration::ZERO..=Duration::from_secs(3600);
    let idle = diagnostics.duration(&table.idle, "idle", rarely.clone());
    let standby = diagnostics.duration(&table.standby, "standby", rarely);
    ProbeConfig {
        interval: interval.unwrap_or(usual.interval),
        down_after: down_after.unwrap_or(usual.down_after),
        up_after: up_after.unwrap_or(usual.up_after),
        burst: table.burst.unwrap_or(usual.burst),
        idle: idle.or(usual.idle).filter(|idle| !idle.is_zero()),
        standby: standby.or(usual.standby).filter(|standby| !standby.is_zero()),
    }
}

/// The probes of all uplinks; `None`: off.
fn usual_probe(table: &ProbeTable, diagnostics: &mut Diagnostics<'_>) -> Option<ProbeConfig> {
    let (idle, standby) = (Some(Duration::from_secs(10)), Some(Duration::from_secs(40)));
    let usual = ProbeConfig { burst: true, idle, standby, ..ProbeConfig::default() };
    Some(probe(table, usual, diagnostics)).filter(|_| table.enabled.as_ref().is_none_or(|enabled| **enabled))
}

/// The probes of one uplink.
fn own_probe(
    table: &UplinkTable,
    usual: Option<ProbeConfig>,
    diagnostics: &mut Diagnostics<'_>,
) -> Option<ProbeConfig> {
    let own = table.probe.as_ref()?;
    let usual = usual.unwrap_or_else(|| {
        let hint = "remove enabled = false from [mobile_router.probe], or this table";
        diagnostics.report(own.span(), "probe of an uplink means nothing without probes", hint);
        ProbeConfig::default()
    });
    if let Some(enabled) = &own.enabled {
        let hint = "write it under [mobile_router.probe]: all uplinks are probed, or none";
        diagnostics.report(enabled.span(), "enabled means nothing for one uplink", hint);
    }
    Some(probe(own, usual, diagnostics))
}

/// Lengths of a prefix that may be wished for: subnets are /64s.
const DELEGATED_LENGTH_RANGE: std::ops::RangeInclusive<u8> = 20..=64;

fn care_of_prefixes(
    table: Option<Spanned<CareOfTable>>,
    uplinks: &[UplinkConfig],
    ingress: &[IngressConfig],
    diagnostics: &mut Diagnostics<'_>,
) -> Option<CareOfPrefixConfig> {
    let table = table?;
    let span = table.span();
    let table = table.into_inner();
    let length = diagnostics.number(&table.length, "length", DELEGATED_LENGTH_RANGE).unwrap_or(0);
    let (delegation, share) = (table.delegation.unwrap_or(true), table.share.unwrap_or(PrefixSharing::NdProxy));
    if ingress.is_empty() {
        let hint = "add a [[mobile_router.ingress]] table, or remove this one";
        diagnostics.report(span.clone(), "no ingress interface whose nodes could use a care-of prefix", hint);
    }
    if !delegation && share == PrefixSharing::Never {
        let hint = "set delegation = true or share = \"proxy\", or remove the table";
        diagnostics.report(span.clone(), "no source of care-of prefixes", hint);
    }
    if !uplinks.is_empty() && uplinks.iter().all(|uplink| !uplink.care_of_prefix) {
        diagnostics.report(span, "every uplink has care_of_prefix = false", "remove it from one, or remove this table");
    }
    let prefer = table.prefer.unwrap_or(PrefixPreference::Home);
    Some(CareOfPrefixConfig { delegation, length, share, prefer })
}
