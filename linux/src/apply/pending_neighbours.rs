//! Packets that the kernel queues, for seconds, while it resolves the link-layer address of their next hop (RFC 4861
//! §7.2.2).

use super::Executor;
use crate::error::Error;
use crate::netlink::rtnl::RtnlMessage;
use crate::netlink::{family, neighbour};
use roam6_proto::LinkId;
use std::net::Ipv6Addr;

impl Executor {
    /// Drops the packets queued for this next hop on `link`, or for any there. TCP does not retransmit a packet that is
    /// still queued; and on a link that is attached to another network now, whose router may have the same address as the
    /// former one, the packet would be sent with a source address of the former network.
    ///
    /// # Errors
    /// The kernel's, if the neighbour cache cannot be dumped.
    pub(crate) fn fail_pending_neighbours(&mut self, link: LinkId, hop: Option<Ipv6Addr>) -> Result<(), Error> {
        let families = family::BOTH.into_iter().filter(|one| hop.is_none_or(|hop| family::of(hop) == *one));
        for family in families {
            let entries = self.netlink.dump(neighbour::dump(family))?;
            let waiting = entries.iter().filter_map(|message| match message {
                RtnlMessage::NewNeighbour(message) => neighbour::fail(message),
                _ => None,
            });
            let requests: Vec<_> = waiting
                .filter(|(on, address, _)| *on == link && hop.is_none_or(|hop| hop == *address))
                .map(|(_, _, request)| request)
                .collect();
            // An entry that was resolved meanwhile needs no change.
            self.netlink.execute(&requests);
        }
        Ok(())
    }
}
