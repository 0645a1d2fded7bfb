//! Packets that wait in the kernel, for seconds, until somebody tells the link-layer address of their next hop
//! (RFC 4861 §7.2.2).

use super::Executor;
use crate::error::Error;
use crate::netlink::message::RtnlMessage;
use crate::netlink::{family, neighbour};
use roam6_proto::LinkId;
use std::net::Ipv6Addr;

impl Executor {
    /// Gives up those that wait for this next hop on `link`, or for any there. As long as one waits TCP does not send it
    /// again; and on a link that came back as another network, whose router may well have the address of the former
    /// one's, it would appear with a source address of the former.
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
            // Who has its address by now needs no help.
            self.netlink.execute(&requests);
        }
        Ok(())
    }
}
