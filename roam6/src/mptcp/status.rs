//! `roam6 mptcp status`: whether MPTCP works here, and why connections fell back to plain TCP.

use crate::FAILED;
use crate::client::{print, to_json};
use crate::render::subflows::endpoint_use;
use roam6_linux::mptcp::ROOM;
use roam6_linux::mptcp::status::{Status, status};
use std::fmt::Write;
use std::process::ExitCode;

/// Counters of the kernel that tell why a connection, or a path of it, is plain TCP or does not stand.
const REASONS: &[(&str, &str)] = &[
    ("MPCapableFallbackACK", "connections of peers that stopped speaking MPTCP: an option was removed on the way"),
    (
        "MPCapableFallbackSYNACK",
        "connections to peers that do not speak MPTCP, or whose options are removed on the way",
    ),
    ("MPCapableSYNTXDrop", "connections whose first packet went through only without MPTCP: a middlebox drops it"),
    ("MPCapableSYNTXDisabled", "connections made without MPTCP, because the network dropped it lately"),
    ("MPFallbackTokenInit", "connections without MPTCP, for want of a token"),
    ("Blackhole", "times the network was found to drop MPTCP"),
    ("MPFailTx", "checksums that were wrong: a middlebox rewrites data"),
    ("MPFailRx", "checksums the peer found wrong: a middlebox rewrites data"),
    ("InfiniteMapTx", "connections that fell back while they ran"),
    ("InfiniteMapRx", "connections the peer made fall back while they ran"),
    ("DSSCorruptionFallback", "connections that fell back for damaged mappings of data"),
    ("DSSCorruptionReset", "subflows ended for damaged mappings of data"),
    ("DataCsumErr", "checksums that were wrong"),
    ("SimultConnectFallback", "connections that both ends began at once"),
    ("MD5SigFallback", "connections signed by TCP-MD5, which leaves no room"),
    ("MPCapableDataFallback", "connections that fell back at the first data"),
    ("MPJoinNoTokenFound", "subflows of connections this host does not know"),
    ("MPJoinRejected", "subflows refused: see the limits"),
    ("MPJoinSynAckHMacFailure", "subflows of peers that could not prove who they are"),
    ("MPJoinAckHMacFailure", "subflows of peers that could not prove who they are"),
    ("MPJoinSynTxConnectErr", "subflows that could not be begun: no route from their address"),
    ("MPJoinSynTxBindErr", "subflows whose address was gone"),
    ("AddAddrDrop", "addresses of peers that were ignored: see the limits"),
    ("RmAddrDrop", "lost addresses of peers that were ignored"),
    ("SubflowStale", "times a path stopped carrying data"),
];

/// Prints it, for people or as JSON.
pub(crate) fn show(json: bool) -> ExitCode {
    match status() {
        Ok(status) if json => print(&to_json(&status)),
        Ok(status) => print(&text(&status)),
        Err(error) => {
            eprintln!("roam6: {error}");
            ExitCode::from(FAILED)
        }
    }
}

fn text(status: &Status) -> String {
    let mut text = String::new();
    let enabled = if status.enabled { "enabled" } else { "disabled; enable it: sysctl net.mptcp.enabled=1" };
    let _ = writeln!(text, "MPTCP is {enabled}");
    let manager = status.settings.get("path_manager").or_else(|| status.settings.get("pm_type"));
    if manager.is_some_and(|manager| manager != "kernel" && manager != "0") {
        let _ =
            writeln!(text, "the path manager is not the kernel's: endpoints are not used; sysctl net.mptcp.pm_type=0");
    }
    let limits = status.limits;
    let _ = writeln!(text, "subflows beside the first: {}; addresses of a peer: {}", limits.subflows, limits.accepted);
    if status.receive_buffer < ROOM {
        let _ = writeln!(
            text,
            "receive buffers begin with {} octets: a lost path can stop connections for ever; \
             sysctl net.ipv4.tcp_rmem=\"4096 {ROOM} 33554432\"",
            status.receive_buffer
        );
    }
    for endpoint in &status.endpoints {
        let _ = writeln!(text, "endpoint {} on {}: {}", endpoint.address, endpoint.link, endpoint_use(endpoint.flags));
    }
    for (name, reason) in REASONS {
        if let Some(count @ 1..) = status.counters.get(*name) {
            let _ = writeln!(text, "{name}: {count} {reason}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use roam6_linux::mptcp::status::Status;
    use roam6_proto::contract::item::{Endpoint, EndpointFlags, EndpointLimits};

    #[test]
    fn it_says_why_connections_are_plain_tcp() {
        let flags = EndpointFlags { subflow: true, backup: true, signal: false };
        let endpoint = Endpoint { address: "2001:db8::5".parse().unwrap(), link: roam6_proto::LinkId(2), flags };
        let status = Status {
            enabled: true,
            settings: [("path_manager".to_owned(), "kernel".to_owned())].into(),
            limits: EndpointLimits { subflows: 8, accepted: 4 },
            receive_buffer: 131_072,
            endpoints: vec![endpoint],
            counters: [("MPCapableFallbackSYNACK".to_owned(), 3), ("MPTCPRetrans".to_owned(), 9)].into(),
        };
        let text = text(&status);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[..4],
            [
                "MPTCP is enabled",
                "subflows beside the first: 8; addresses of a peer: 4",
                "receive buffers begin with 131072 octets: a lost path can stop connections for ever; \
                 sysctl net.ipv4.tcp_rmem=\"4096 1048576 33554432\"",
                "endpoint 2001:db8::5 on link 2: subflow, backup",
            ]
        );
        assert!(lines[4].starts_with("MPCapableFallbackSYNACK: 3 connections to peers that do not speak"), "{text}");
        assert_eq!(lines.len(), 5);
    }
}
