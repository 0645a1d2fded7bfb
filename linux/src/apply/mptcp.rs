//! MPTCP limits and endpoints.

use super::Executor;
use super::holder::Holder;
use crate::error::Error;
use crate::netlink::socket::Request;
use roam6_proto::Item;
use roam6_proto::contract::item::{MptcpEndpoint, MptcpLimits};

impl Holder for MptcpLimits {
    fn put(&self, executor: &mut Executor, _: Option<&Item>) -> Result<Vec<Request>, Error> {
        executor.mptcp.put_limits(*self).map(|()| Vec::new())
    }

    fn drop(&self, executor: &mut Executor) -> Result<Vec<Request>, Error> {
        executor.mptcp.drop_limits().map(|()| Vec::new())
    }
}

impl Holder for MptcpEndpoint {
    fn put(&self, executor: &mut Executor, _: Option<&Item>) -> Result<Vec<Request>, Error> {
        // The kernel opens a subflow at once: its address and routes must be installed.
        executor.flush();
        executor.mptcp.put(self).map(|()| Vec::new())
    }

    fn drop(&self, executor: &mut Executor) -> Result<Vec<Request>, Error> {
        executor.mptcp.drop(self.address).map(|()| Vec::new())
    }
}
