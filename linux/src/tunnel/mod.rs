//! Tunnels: one contract, two back ends of the same wire format (RFC 2473), so either end of a tunnel may be either.
//! What a tunnel means is specified at [`roam6_proto::contract::item::Tunnel`].

#[cfg(feature = "bpf")]
pub mod bpf;
pub(crate) mod device;
pub mod ip6tnl;
pub mod none;
#[cfg(feature = "bpf")]
mod reassembly;
#[cfg(all(test, feature = "bpf"))]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails at the assertion")]
mod tests;
#[cfg(feature = "bpf")]
mod udp6_encap;
#[cfg(feature = "bpf")]
mod udp_encap;
#[cfg(feature = "bpf")]
pub(crate) use device::has_ethernet;
#[cfg(all(test, feature = "bpf"))]
#[path = "../../tests/tunnel/netns_host.rs"]
#[allow(dead_code, unreachable_pub, clippy::unwrap_used, reason = "shared with the tests between namespaces")]
pub(crate) mod netns_host;

use crate::Error;
pub use crate::nft::Hooks;
#[cfg(feature = "bpf")]
use crate::wireguard::PublicKeys;
use roam6_proto::base::ids::LinkId;
use roam6_proto::base::vec_map::VecMap;
use roam6_proto::contract::item::{Tunnel, TunnelId};
use roam6_proto::{PathTraffic, PathTrafficQuery, Time};
use roam6_wire::Prefix;
use std::net::Ipv6Addr;
use std::os::fd::BorrowedFd;

/// A tunnel back end. All that it creates outlives it, so that packets are forwarded while the daemon is down; only
/// [`Tunnels::clean`] removes it.
pub trait Tunnels {
    /// Adds or replaces a tunnel, atomically for each packet.
    ///
    /// # Errors
    /// The kernel's; or the tunnel exceeds a limit of the back end.
    fn put(&mut self, tunnel: &Tunnel) -> Result<(), Error>;

    /// Removes a tunnel; one that does not exist is no error.
    ///
    /// # Errors
    /// The kernel's.
    fn drop(&mut self, id: TunnelId) -> Result<(), Error>;

    /// Whether packets of flows with two paths are replicated, and second copies eliminated.
    fn replicates(&self) -> bool {
        false
    }

    /// The tunnel as it was last put; those of an earlier daemon are unknown until they are put again.
    fn find(&self, id: TunnelId) -> Option<Tunnel>;

    /// Leaves packets to this destination to the host's routes, whichever tunnel matches. A back end whose tunnels are
    /// used by routes alone has nothing to do.
    ///
    /// # Errors
    /// The kernel's; or too many prefix lengths are in use.
    fn put_bypass(&mut self, _: Prefix) -> Result<(), Error> {
        Ok(())
    }

    /// Removes a bypass; one that does not exist is no error.
    ///
    /// # Errors
    /// The kernel's.
    fn drop_bypass(&mut self, _: Prefix) -> Result<(), Error> {
        Ok(())
    }

    /// The interface for routes into this tunnel. `None` if there is no such tunnel or it has no path: then the route
    /// has to be an unreachable one. To be read again after each [`Tunnels::put`].
    fn device(&self, id: TunnelId) -> Option<LinkId>;

    /// The gateway for routes into this tunnel, where the interface is an ordinary one because the tunnel's path is
    /// direct and the back end leaves the choice of the path to the routing tables.
    fn gateway(&self, _: TunnelId) -> Option<Ipv6Addr> {
        None
    }

    /// The MTU, octets, for routes into this tunnel: the least of the paths in use, also where a path leads through
    /// another tunnel. `None` as for [`Tunnels::device`]. A change of one tunnel may change it for those that lead
    /// through it.
    fn mtu(&self, id: TunnelId) -> Option<u32>;

    /// Attaches the fast path to an interface: called for each but loopback and the back end's own. Repeating it is no
    /// error. Nothing to do where the kernel forwards.
    ///
    /// # Errors
    /// The kernel's.
    fn attach(&mut self, _: LinkId, _: &str) -> Result<(), Error> {
        Ok(())
    }

    /// Detaches the fast path from an interface, which may have been removed.
    fn detach(&mut self, _: LinkId) {}

    /// Voids cached next hops, after routes of this host have changed. The kernel's own lookups need no such call.
    ///
    /// # Errors
    /// The kernel's.
    fn invalidate_next_hops(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// Makes devices again that others have removed, or that have gone with their module. Returns what to tell the operator.
    ///
    /// # Errors
    /// The kernel's.
    fn repair_devices(&mut self) -> Result<Option<String>, Error> {
        Ok(None)
    }

    /// When [`Tunnels::check_sessions`] is due; `None` while no keys are being renewed.
    #[cfg(feature = "bpf")]
    fn next_session_check(&self) -> Option<Time> {
        None
    }

    /// Has packets take the devices of renewed keys that have got a session. Returns what to tell the operator.
    ///
    /// # Errors
    /// The kernel's.
    #[cfg(feature = "bpf")]
    fn check_sessions(&mut self, _: Time) -> Result<Vec<String>, Error> {
        Ok(Vec::new())
    }

    /// Makes new keys for encrypted paths. The engines have to be told of them.
    ///
    /// # Errors
    /// No paths are encrypted; the keys before the present ones are still in use; or they cannot be written, and nothing has changed.
    #[cfg(feature = "bpf")]
    fn renew_keys(&mut self) -> Result<PublicKeys, Error> {
        Err(Error::new("keys not renewed", "encrypt is not in the configuration"))
    }

    /// Sets the address families that a firewall filters: from now on the kernel forwards their inner packets, and
    /// cached decisions redirect none. `bypassed`: there is a firewall that packets are to bypass. Returns `false` if this
    /// back end's packets pass through the firewall in any case.
    ///
    /// # Errors
    /// The kernel's.
    fn set_firewall_hooks(&mut self, _obeyed: Hooks, _bypassed: bool) -> Result<bool, Error> {
        Ok(false)
    }

    /// Removes what an earlier daemon has left and this one has not put again.
    ///
    /// # Errors
    /// The kernel's.
    fn remove_stale(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// The packet counters since the machine started.
    fn counters(&mut self) -> VecMap<String, u64> {
        VecMap::new()
    }

    /// The traffic of the paths of a tunnel, and a request of a notification, if the back end counts it.
    ///
    /// # Errors
    /// The kernel's.
    fn path_traffic(&mut self, _: Time, _: &PathTrafficQuery) -> Result<Vec<PathTraffic>, Error> {
        Ok(Vec::new())
    }

    /// The descriptor to wait for before [`Tunnels::read_path_notifications`].
    fn path_notifications(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// The traffic of the paths by which the first packet was sent since that was requested.
    fn read_path_notifications(&mut self, _: Time) -> Vec<PathTraffic> {
        Vec::new()
    }

    /// The tunnels that exist in the kernel, ascending.
    ///
    /// # Errors
    /// The kernel's.
    fn inventory(&mut self) -> Result<Vec<TunnelId>, Error>;

    /// Removes everything, devices and pinned objects too.
    ///
    /// # Errors
    /// The kernel's.
    fn clean(&mut self) -> Result<(), Error>;
}

/// Whether the prefixes of this side distinguish the tunnel from others.
pub(crate) fn is_indexed_by(prefixes: &[Prefix]) -> bool {
    !prefixes.contains(&Prefix::ALL)
}
