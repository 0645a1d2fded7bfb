//! `roam6 check`: what a configuration would do. Never shows a key.

use crate::config::Config;
use crate::config::duration::format_duration;
use crate::config::geo::Geo;
use roam6_proto::base::vec_set::VecSet;
use roam6_proto::contract::config::flow::{FlowRule, Replication};
use roam6_proto::contract::config::nemo::{
    Authentication, CareOfPrefixConfig, MobileRouterConfig, PrefixPreference, PrefixSharing, UplinkConfig,
};
use roam6_wire::Bid;
use serde_json::json;
use std::fmt::Write;

/// The summary, for people or as JSON.
pub(crate) fn render(config: &Config, as_json: bool) -> String {
    if as_json { format!("{:#}\n", document(config)) } else { text(config) }
}

fn text(config: &Config) -> String {
    let mut text = format!("{}: ok\n", config.name);
    if let Some(agent) = &config.home_agent {
        let config = &agent.config;
        let link =
            config.home_link.as_deref().map_or("a virtual home network".to_owned(), |link| format!("home link {link}"));
        let _ = writeln!(text, "  home agent {}, {link}, for {}", config.address, list(&config.home_prefixes));
        let open = config.prefix_table.rows.iter().filter(|row| row.authentication == Authentication::None).count();
        let warning = if open == 0 { String::new() } else { format!(", {open} of them without authentication") };
        let _ = writeln!(text, "    {} mobile routers{warning}", config.prefix_table.rows.len());
        if let Some(pool) = config.ipv4_pool {
            let _ = writeln!(text, "    IPv4 prefixes of length {} for them from {}", pool.length, pool.prefix);
        }
    }
    if let Some(router) = &config.mobile_router {
        mobile_router(&mut text, router);
    }
    if let Some(geo) = &config.geo {
        station(&mut text, geo);
    }
    if let Some(mnpp) = &config.mnpp {
        let own = if mnpp.announced.is_empty() { "nothing".to_owned() } else { list(&mnpp.announced) };
        let warning = if mnpp.key.is_none() && !mnpp.announced.is_empty() { ", without proof" } else { "" };
        let _ = writeln!(text, "  announces {own} on {}{warning}", joined(&mnpp.interfaces, " and "));
        for accepted in &mnpp.accepted {
            let of = accepted.key.as_ref().map_or("without proof".to_owned(), |key| format!("by key {}", key.spi));
            let _ = writeln!(text, "    accepts networks in {}, {of}", list(&accepted.prefixes));
        }
    }
    if let Some(mnn) = &config.mnn {
        let home = if mnn.home_prefixes.is_empty() { "no home prefix".to_owned() } else { list(&mnn.home_prefixes) };
        let _ = writeln!(text, "  mobile network node on {}, {home}", joined(&mnn.interfaces, ", "));
        let routing = if mnn.source_routing { ", source routing" } else { "" };
        let _ = writeln!(text, "    {} subflows, {} addresses of a peer{routing}", mnn.subflows, mnn.add_addr_accepted);
    }
    if let Some(shim) = &config.shim {
        let _ = writeln!(text, "  shim on {}, {} identities", joined(&shim.interfaces, ", "), shim.identities.len());
        let contexts = if shim.trigger.is_some() { "initiates and accepts contexts" } else { "accepts contexts only" };
        let _ = writeln!(text, "    {contexts}; Send Timeout {}", format_duration(shim.send_timeout));
    }
    text
}

fn mobile_router(text: &mut String, router: &MobileRouterConfig) {
    let agents =
        if router.home_agents.is_empty() { "found by discovery".to_owned() } else { list(&router.home_agents) };
    let _ = writeln!(text, "  mobile router {}, home agents {agents}", router.home_address);
    let warning = if router.authentication == Authentication::None { ", without authentication" } else { "" };
    let lifetime = format_duration(router.lifetime);
    let _ = writeln!(text, "    network {}, binding lifetime {lifetime}{warning}", list(&router.prefixes));
    if let Some(length) = router.dynamic_ipv4 {
        let _ = writeln!(text, "    IPv4 network: a /{length} assigned by the home agent");
    }
    for uplink in &router.uplinks {
        let (name, bid, priority) = (&uplink.interface, uplink.bid, uplink.priority);
        let _ = writeln!(text, "    uplink {name}: bid {bid}, priority {priority}, weight {}", uplink.weight);
    }
    for ingress in &router.ingress {
        let every = format_duration(ingress.advertisement_interval);
        let _ = writeln!(text, "    ingress {}: {}, advertised every {every}", ingress.interface, ingress.prefix);
    }
    if let Some(care_of) = &router.care_of_prefixes {
        let _ = writeln!(text, "    care-of prefixes {}", care_of_prefixes(care_of, &router.uplinks));
    }
    for flow in &router.flows {
        let _ = writeln!(text, "    flow {}: {}", flow.id, flow_paths(flow));
    }
}

/// The paths of a flow by binding identifier.
fn flow_paths(flow: &FlowRule) -> String {
    if flow.is_bonded() {
        return "TCP by all uplinks at once".to_owned();
    }
    match (flow.bid, flow.replication) {
        (bid, None) => format!("bid {bid}"),
        (Bid(0), Some(_)) => "each packet by the two best uplinks".to_owned(),
        (bid, Some(Replication { second: Some(second) })) => format!("each packet by bids {bid} and {second}"),
        (bid, Some(_)) => format!("each packet by bid {bid} and the best other uplink"),
    }
}

fn station(text: &mut String, geo: &Geo) {
    let links: Vec<&str> = geo.config.virtual_links.iter().map(|link| link.name.as_str()).collect();
    let _ = writeln!(text, "  GeoNetworking {} on {}", geo.config.station, joined(&geo.config.interfaces, " and "));
    if !links.is_empty() {
        let _ = writeln!(text, "    virtual links {}", links.join(" and "));
    }
    if let Some(facilities) = &geo.config.facilities {
        let what = if facilities.send_cams { "sends CAMs and DENMs" } else { "sends DENMs" };
        let _ = writeln!(text, "    {what}");
    }
    if let Some(announcement) = geo.announcement() {
        let numbers: Vec<u32> = announcement.services.iter().map(|served| served.application).collect();
        let route = announcement.routing.iter().map(|it| format!("a route to the Internet by {}", it.gateway));
        let what: Vec<String> = numbers.iter().map(|it| format!("application {it}")).chain(route).collect();
        let every = format_duration(announcement.interval);
        let _ = writeln!(text, "    announces {}, every {every}", what.join(" and "));
    }
}

fn care_of_prefixes(config: &CareOfPrefixConfig, uplinks: &[UplinkConfig]) -> String {
    let how = match (config.delegation, config.share) {
        (true, PrefixSharing::NdProxy) => "by delegation, else ND proxy of the visited link",
        (true, PrefixSharing::Never) => "by delegation only",
        (false, _) => "by ND proxy of the visited link",
    };
    let preferred = match config.prefer {
        PrefixPreference::Home => "the mobile network prefix",
        PrefixPreference::CareOf => "the care-of prefixes",
        PrefixPreference::Either => "either",
    };
    let left_out: Vec<&str> =
        uplinks.iter().filter(|uplink| !uplink.care_of_prefix).map(|uplink| uplink.interface.as_str()).collect();
    let but = if left_out.is_empty() { String::new() } else { format!(", none from {}", left_out.join(", ")) };
    format!("{how}; nodes prefer {preferred}{but}")
}

fn document(config: &Config) -> serde_json::Value {
    json!({
        "name": config.name,
        "run_dir": config.run_dir,
        "state_dir": config.state_dir,
        "data_plane": config.data_plane,
        "accel": config.accel,
        "firewall": config.firewall,
        "metrics": config.metrics,
        "home_agent": config.home_agent.as_ref().map(|agent| json!({
            "address": agent.config.address,
            "home_prefixes": agent.config.home_prefixes,
            "home_link": agent.config.home_link,
            "mobile_routers": agent.config.prefix_table.rows.len(),
        })),
        "mobile_router": config.mobile_router.as_ref().map(|router| json!({
            "home_address": router.home_address,
            "home_agents": router.home_agents,
            "prefixes": router.prefixes,
            "dynamic_ipv4": router.dynamic_ipv4,
            "mode": router.prefix_mode,
            "authenticated": router.authentication != Authentication::None,
            "sharing": router.load_sharing,
            "uplinks": router.uplinks,
            "ingress": router.ingress,
            "care_of_prefixes": router.care_of_prefixes,
            "flows": router.flows,
        })),
        "mnn": config.mnn,
        "shim": config.shim.as_ref().map(|shim| json!({
            "interfaces": shim.interfaces,
            "identities": shim.identities.len(),
            "trigger": shim.trigger,
            "peers": shim.peers,
            "send_timeout": shim.send_timeout,
            "idle_timeout": shim.idle_timeout,
            "max_contexts": shim.max_contexts,
        })),
        "geo": config.geo.as_ref().map(|geo| &geo.config),
        "mnpp": config.mnpp.as_ref().map(|mnpp| json!({
            "interfaces": mnpp.interfaces,
            "announced": mnpp.announced,
            "proved": mnpp.key.is_some(),
            "interval": mnpp.interval,
            "accepted": mnpp.accepted.iter().map(|one| json!({
                "spi": one.key.as_ref().map(|key| key.spi),
                "prefixes": one.prefixes,
            })).collect::<Vec<_>>(),
        })),
    })
}

fn list(items: &[impl ToString]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn joined(names: &VecSet<String>, between: &str) -> String {
    names.iter().map(String::as_str).collect::<Vec<_>>().join(between)
}
