//! The state of MPTCP on this host: sysctls, limits, endpoints and counters.

use super::buffers::Buffers;
use super::netlink::PathManager;
use crate::error::Error;
use roam6_proto::base::vec_map::VecMap;
use roam6_proto::contract::item::{MptcpEndpoint, MptcpLimits};
use serde::{Deserialize, Serialize};
use std::fs;

/// Sysctls of the network namespace.
const SETTINGS: &str = "/proc/sys/net/mptcp";
/// Counters of the network namespace.
const COUNTERS: &str = "/proc/net/netstat";
const PREFIX: &str = "MPTcpExt:";

/// The state of MPTCP in this network namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Whether new sockets may be MPTCP.
    pub enabled: bool,
    /// The settings of `net.mptcp`, as sysctl shows them.
    pub settings: VecMap<String, String>,
    /// The limits of subflows and of accepted addresses.
    pub limits: MptcpLimits,
    /// Initial receive buffer of a new socket, octets; see [`super::MIN_RECEIVE_BUFFER`].
    pub receive_buffer: u64,
    /// The endpoints, also those of other programs.
    pub endpoints: Vec<MptcpEndpoint>,
    /// The kernel's counters, all of them (`MPTcpExt` of /proc/net/netstat).
    pub counters: VecMap<String, u64>,
}

/// Reads the state from the kernel.
///
/// # Errors
/// The kernel's, as where it has no MPTCP or shows its endpoints to root only.
pub fn status() -> Result<Status, Error> {
    let mut manager = PathManager::open()?;
    let settings = settings();
    Ok(Status {
        enabled: settings.get("enabled").is_some_and(|value| value != "0"),
        limits: manager.limits()?,
        receive_buffer: Buffers::read()?.initial(),
        endpoints: manager.endpoints()?.into_iter().map(|shown| shown.endpoint).collect(),
        counters: fs::read_to_string(COUNTERS).map(|text| counters(&text)).unwrap_or_default(),
        settings,
    })
}

fn settings() -> VecMap<String, String> {
    let folder = fs::read_dir(SETTINGS).into_iter().flatten().flatten();
    let one = |entry: fs::DirEntry| {
        let value = fs::read_to_string(entry.path()).ok()?;
        Some((entry.file_name().into_string().ok()?, value.trim().to_owned()))
    };
    folder.filter_map(one).collect()
}

/// A line of names, then one of values.
fn counters(text: &str) -> VecMap<String, u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(PREFIX)).map(str::split_whitespace);
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else { return VecMap::new() };
    names.zip(values).filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_a_line_of_names_and_one_of_values() {
        let text = "IpExt: A B\nIpExt: 1 2\nMPTcpExt: MPCapableSYNTX MPJoinSynRx\nMPTcpExt: 7 0\n";
        assert_eq!(counters(text), [("MPCapableSYNTX".to_owned(), 7), ("MPJoinSynRx".to_owned(), 0)].into());
        assert!(counters("MPTcpExt: A").is_empty());
    }
}
