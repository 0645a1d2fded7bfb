//! The back end without tunnels, for hosts whose roles need none: no device is created, and nothing is attached to
//! interfaces.

use super::Tunnels;
use crate::Error;
use roam6_proto::base::ids::LinkId;
use roam6_proto::contract::item::{Tunnel, TunnelId};

/// Refuses every tunnel.
#[derive(Debug, Default)]
pub struct NoTunnels;

impl Tunnels for NoTunnels {
    fn put(&mut self, _: &Tunnel) -> Result<(), Error> {
        Err(Error::new("tunnels", "no role of this host has any"))
    }

    fn drop(&mut self, _: TunnelId) -> Result<(), Error> {
        Ok(())
    }

    fn find(&self, _: TunnelId) -> Option<Tunnel> {
        None
    }

    fn device(&self, _: TunnelId) -> Option<LinkId> {
        None
    }

    fn mtu(&self, _: TunnelId) -> Option<u32> {
        None
    }

    fn inventory(&mut self) -> Result<Vec<TunnelId>, Error> {
        Ok(Vec::new())
    }

    fn clean(&mut self) -> Result<(), Error> {
        Ok(())
    }
}
