//! Tunnels: one contract, two back ends of the same wire format (RFC 2473), so either end of a tunnel may be either.
//! What a tunnel means is told at [`roam6_proto::contract::item::Tunnel`].

#[cfg(feature = "bpf")]
pub mod bpf;
pub(crate) mod device;
pub mod ip6tnl;
pub mod none;
#[cfg(feature = "bpf")]
mod reassembly;
#[cfg(all(test, feature = "bpf"))]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails where it stands")]
mod tests;
#[cfg(feature = "bpf")]
mod udp_encap;
#[cfg(feature = "bpf")]
pub(crate) use device::has_ethernet;
#[cfg(all(test, feature = "bpf"))]
#[path = "../../tests/tunnel/world.rs"]
#[allow(dead_code, unreachable_pub, clippy::unwrap_used, reason = "shared with the tests between namespaces")]
pub(crate) mod world;

use crate::Error;
pub use crate::nft::Hooks;
use roam6_proto::base::few;
use roam6_proto::base::ids::LinkId;
use roam6_proto::contract::item::{Tunnel, TunnelId};
use roam6_wire::Prefix;
use std::net::Ipv6Addr;

/// Carries out what [`Tunnel`]s say. All that it makes outlives it, so that packets travel on while the daemon is down;
/// only [`Tunnels::clean`] takes it away.
pub trait Tunnels {
    /// Makes the tunnel so, whatever it was before. Atomic for each packet.
    fn put(&mut self, tunnel: &Tunnel) -> Result<(), Error>;

    /// Takes the tunnel away; one that does not exist is no error.
    fn drop(&mut self, id: TunnelId) -> Result<(), Error>;

    /// The tunnel as it was last put; an earlier life's are not known until they are put again.
    fn find(&self, id: TunnelId) -> Option<Tunnel>;

    /// Leaves what goes to here to the host's routes, whichever tunnel would take it. A back end whose tunnels are taken
    /// by routes alone has nothing to do.
    fn put_bypass(&mut self, _: Prefix) -> Result<(), Error> {
        Ok(())
    }

    /// Ends that; a shortcut that does not exist is no error.
    fn drop_bypass(&mut self, _: Prefix) -> Result<(), Error> {
        Ok(())
    }

    /// The interface for routes whose target is this tunnel. `None` if there is no such tunnel or it has no path: then
    /// the route is to be an unreachable one. Ask again after each [`Tunnels::put`].
    fn device(&self, id: TunnelId) -> Option<LinkId>;

    /// The neighbour on that interface that packets are handed to, if the interface is an ordinary one because the tunnel's
    /// path is direct and the back end leaves the choice among paths to the routing tables.
    fn gateway(&self, _: TunnelId) -> Option<Ipv6Addr> {
        None
    }

    /// Largest packet, octets, for routes whose target is this tunnel: what fits into any path that may carry it, also
    /// where that path itself runs through another tunnel. `None` as for [`Tunnels::device`]. A change of one tunnel may
    /// change this for those that run through it.
    fn mtu(&self, id: TunnelId) -> Option<u32>;

    /// Takes packets off this interface: called for each that appears but loopback and the back end's own. Repeating it
    /// is no error.
    fn attach(&mut self, link: LinkId, name: &str) -> Result<(), Error>;

    /// Lets go of an interface, which may be gone already.
    fn detach(&mut self, link: LinkId);

    /// Routes of this host changed: what was learnt of them is void.
    fn invalidate_next_hops(&mut self) -> Result<(), Error>;

    /// Inner packets of these families pass hooks of a firewall: from now on the kernel forwards them, and nothing that was
    /// decided before sends one on. Returns `false` if this back end's packets pass the hooks in any case.
    fn set_firewall_hooks(&mut self, _: Hooks) -> Result<bool, Error> {
        Ok(false)
    }

    /// All that an earlier life of the daemon left has been put again: removes the rest of it.
    fn remove_stale(&mut self) -> Result<(), Error>;

    /// Packets by what became of them, since the machine started.
    fn counters(&mut self) -> few::VecMap<String, u64>;

    /// The tunnels that exist in the kernel, ascending.
    fn inventory(&mut self) -> Result<Vec<TunnelId>, Error>;

    /// Removes everything it made, devices and pinned objects too.
    fn clean(&mut self) -> Result<(), Error>;
}

/// No IPv6 link carries less (RFC 8200 §5).
pub(crate) const MIN_MTU: u32 = 1280;

/// Whether these prefixes of one side tell the tunnel from others.
pub(crate) fn is_indexed_by(prefixes: &[Prefix]) -> bool {
    !prefixes.contains(&Prefix::ALL)
}
