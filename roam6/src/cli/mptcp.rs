//! `roam6 mptcp status`: whether MPTCP is enabled, and why connections fell back to TCP.

use crate::cli::output::{print, to_json};
use crate::exit::Failure;
use crate::render::subflows::endpoint_use;
use roam6_linux::mptcp::MIN_RECEIVE_BUFFER;
use roam6_linux::mptcp::status::{Status, status};
use std::fmt::Write;
use std::process::ExitCode;

/// Counters of the kernel that explain a fallback to TCP, or a missing subflow.
const REASONS: &[(&str, &str)] = &[
    ("MPCapableFallbackACK", "incoming connections that fell back: a middlebox removed the MPTCP option"),
    (
        "MPCapableFallbackSYNACK",
        "outgoing connections that fell back: the peer does not support MPTCP, or a middlebox removed the option",
    ),
    ("MPCapableSYNTXDrop", "outgoing connections whose SYN passed only without MPTCP: a middlebox drops it"),
    ("MPCapableSYNTXDisabled", "outgoing connections without MPTCP, because the network has dropped it before"),
    ("MPFallbackTokenInit", "connections that fell back: no token available"),
    ("Blackhole", "times the network was found to drop MPTCP"),
    ("MPFailTx", "checksum failures reported to the peer: a middlebox rewrites data"),
    ("MPFailRx", "checksum failures reported by the peer: a middlebox rewrites data"),
    ("InfiniteMapTx", "established connections that fell back"),
    ("InfiniteMapRx", "established connections that the peer made fall back"),
    ("DSSCorruptionFallback", "connections that fell back: corrupt data sequence mapping"),
    ("DSSCorruptionReset", "subflows reset: corrupt data sequence mapping"),
    ("DataCsumErr", "data checksum errors"),
    ("SimultConnectFallback", "connections that fell back: simultaneous open"),
    ("MD5SigFallback", "connections that fell back: TCP-MD5 leaves no option space"),
    ("MPCapableDataFallback", "connections that fell back at the first data segment"),
    ("MPJoinNoTokenFound", "subflows rejected: unknown token"),
    ("MPJoinRejected", "subflows rejected: see the limits"),
    ("MPJoinSynAckHMacFailure", "outgoing subflows with a wrong HMAC of the peer"),
    ("MPJoinAckHMacFailure", "incoming subflows with a wrong HMAC of the peer"),
    ("MPJoinSynTxConnectErr", "subflows that failed to connect: no route from their source address"),
    ("MPJoinSynTxBindErr", "subflows that failed to bind: source address removed"),
    ("AddAddrDrop", "advertised addresses of peers that were ignored: see the limits"),
    ("RmAddrDrop", "address removals of peers that were ignored"),
    ("SubflowStale", "subflows that became stale"),
];

/// Prints the status as text or as JSON.
///
/// # Errors
/// See [`Failure`].
pub(crate) fn show(json: bool) -> Result<ExitCode, Failure> {
    let status = status()?;
    Ok(print(&if json { to_json(&status) } else { text(&status) }))
}

fn text(status: &Status) -> String {
    let mut text = String::new();
    let enabled = if status.enabled { "enabled" } else { "disabled; enable it: sysctl net.mptcp.enabled=1" };
    let _ = writeln!(text, "MPTCP is {enabled}");
    let manager = status.settings.get("path_manager").or_else(|| status.settings.get("pm_type"));
    if manager.is_some_and(|manager| manager != "kernel" && manager != "0") {
        let _ = writeln!(
            text,
            "the in-kernel path manager is not active, so endpoints are not used; sysctl net.mptcp.pm_type=0"
        );
    }
    let limits = status.limits;
    let _ = writeln!(
        text,
        "additional subflows: {}; accepted addresses of a peer: {}",
        limits.subflows, limits.add_addr_accepted
    );
    if status.receive_buffer < MIN_RECEIVE_BUFFER {
        let _ = writeln!(
            text,
            "initial receive buffer: {} octets: the loss of a path can stall connections; \
             sysctl net.ipv4.tcp_rmem=\"4096 {MIN_RECEIVE_BUFFER} 33554432\"",
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
    use roam6_proto::contract::item::{MptcpEndpoint, MptcpEndpointFlags, MptcpLimits};

    #[test]
    fn mptcp_status_explains_fallback_to_tcp() {
        let flags = MptcpEndpointFlags { subflow: true, backup: true, signal: false };
        let endpoint = MptcpEndpoint { address: "2001:db8::5".parse().unwrap(), link: roam6_proto::LinkId(2), flags };
        let status = Status {
            enabled: true,
            settings: [("path_manager".to_owned(), "kernel".to_owned())].into(),
            limits: MptcpLimits { subflows: 8, add_addr_accepted: 4 },
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
                "additional subflows: 8; accepted addresses of a peer: 4",
                "initial receive buffer: 131072 octets: the loss of a path can stall connections; \
                 sysctl net.ipv4.tcp_rmem=\"4096 1048576 33554432\"",
                "endpoint 2001:db8::5 on link 2: subflow, backup",
            ]
        );
        assert!(lines[4].starts_with("MPCapableFallbackSYNACK: 3 outgoing connections that fell back"), "{text}");
        assert_eq!(lines.len(), 5);
    }
}
