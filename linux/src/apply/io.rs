//! What engines receive: EtherTypes, frames of virtual interfaces, and UDP ports held for them. All end with the process.

use super::Executor;
use super::holder::Holder;
use crate::error::Error;
use crate::netlink::socket::Request;
use roam6_proto::contract::item::{EthertypeSubscription, UdpPortHold, VirtualInterface};
use roam6_proto::{Item, LinkId};

impl Holder for EthertypeSubscription {
    fn put(&self, executor: &mut Executor, _: Option<&Item>) -> Result<Vec<Request>, Error> {
        executor.frames.subscribe(self).map(|()| Vec::new())
    }

    fn drop(&self, executor: &mut Executor) -> Result<Vec<Request>, Error> {
        executor.frames.unsubscribe(self.link, self.ethertype);
        Ok(Vec::new())
    }
}

impl Holder for VirtualInterface {
    fn put(&self, executor: &mut Executor, _: Option<&Item>) -> Result<Vec<Request>, Error> {
        executor.frames.create_tap(self).map(|()| Vec::new())
    }

    fn drop(&self, executor: &mut Executor) -> Result<Vec<Request>, Error> {
        executor.frames.remove_tap(&self.name);
        Ok(Vec::new())
    }
}

impl Executor {
    /// Whether another program has bound a UDP port that engines answer on.
    pub(crate) fn is_udp_port_taken(&mut self, link: LinkId, port: u16) -> bool {
        self.udp_port_holds.is_taken(link, port)
    }
}

impl Holder for UdpPortHold {
    fn put(&self, executor: &mut Executor, _: Option<&Item>) -> Result<Vec<Request>, Error> {
        if !executor.udp_port_holds.hold(self)? {
            let UdpPortHold { link, port } = *self;
            executor.notice(format!("another program listens on UDP port {port} of {link}: both answer there now"));
        }
        Ok(Vec::new())
    }

    fn drop(&self, executor: &mut Executor) -> Result<Vec<Request>, Error> {
        executor.udp_port_holds.release(self);
        Ok(Vec::new())
    }
}
