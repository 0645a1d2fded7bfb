//! BPF tunnels between hosts in network namespaces: real packets, real kernel (RFC 2473, RFC 3963 §6.5 and §9).
#![cfg(feature = "bpf")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails at the assertion")]
#![allow(clippy::disallowed_methods, reason = "real packets take real time")]
#![allow(unreachable_pub, reason = "a test has no users")]

mod firewall;
mod forwarding;
mod hostile;
mod ip6tnl;
mod ipv4;
#[allow(dead_code, reason = "shared with the fixtures")]
mod netns_host;
mod over_ipv4;
mod over_udp6;
mod path_selection;
mod path_traffic;
mod replication;
mod restart;
mod testbed;
mod xdp;

/// The testbed; else the reason why it cannot be built here is printed.
#[macro_export]
macro_rules! testbed_or_skip {
    ($name:literal) => {
        match $crate::netns_host::obstacle() {
            None => $crate::testbed::Testbed::new(),
            Some(why) => {
                println!("skipped: {}: {why}", $name);
                return;
            }
        }
    };
}
