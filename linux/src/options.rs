//! The options of a host.

use crate::firewall;
use core::time::Duration;
use roam6_proto::base::vec_set::VecSet;
use std::net::Ipv6Addr;
use std::path::PathBuf;

/// The options of a host.
#[derive(Debug, Clone, Default)]
pub struct HostOptions {
    /// Directory of state that need not outlive a restart of the machine.
    pub run_dir: PathBuf,
    /// Directory of the journal.
    pub state_dir: PathBuf,
    /// Names of the interfaces that the roles use: uplinks, ingress interfaces, the home link. They may appear and
    /// disappear.
    pub interfaces: VecSet<String>,
    /// The tunnel back end.
    pub backend: Backend,
    /// How tunnelled packets are treated where a firewall is on the path.
    pub firewall: firewall::Policy,
    /// Name of the tunnel device, where the back end has one for all.
    pub device: String,
    /// Local addresses of mobility signalling over IPv4 (RFC 5555); empty: none.
    pub dsmip_addresses: VecSet<Ipv6Addr>,
    /// Local addresses of mobility signalling in UDP over IPv6; empty: none.
    pub udp6_addresses: VecSet<Ipv6Addr>,
    /// Whether paths of tunnels are encrypted.
    #[cfg(feature = "bpf")]
    pub encryption: crate::wireguard::Encryption,
    /// Whether the relay may take TCP connections.
    pub bonding: bool,
    /// Most tunnels.
    pub max_tunnels: u32,
    /// Most contexts of the shim.
    pub max_contexts: u32,
    /// Whether a role needs packets that are not addressed to this host, or of protocols that the kernel does not
    /// implement. The shim does not.
    pub packet_sockets: bool,
    /// Whether the engines get the addresses of all interfaces, not only of those in `interfaces`.
    pub all_addresses: bool,
    /// The fleet that the home agent is a member of.
    #[cfg(feature = "fleet")]
    pub fleet: Option<crate::fleet::FleetOptions>,
    /// The keys of secured GeoNetworking packets.
    #[cfg(feature = "geo-security")]
    pub signing_keys: crate::signature::SigningKeys,
    /// How long after a frame the host polls for the next without sleeping: a wake-up takes longer than handling a
    /// frame.
    pub busy_poll: Duration,
    /// How long after a frame CPU cores are kept out of deep idle states.
    pub cpu_latency_hold: Duration,
}

/// Whether paths of tunnels may be encrypted.
#[cfg(feature = "bpf")]
pub(crate) fn encrypts(options: &HostOptions) -> bool {
    options.encryption.method().is_some()
}

#[cfg(not(feature = "bpf"))]
pub(crate) fn encrypts(_: &HostOptions) -> bool {
    false
}

/// The tunnel back end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Backend {
    /// BPF programs where the kernel supports them, else kernel tunnel devices.
    #[default]
    Auto,
    /// BPF programs.
    Bpf,
    /// BPF programs, also at the driver (XDP) where it supports them.
    Xdp,
    /// A kernel `ip6_tunnel` device for each tunnel, on its best path.
    Ip6tnl,
    /// None: no role has tunnels.
    None,
}
