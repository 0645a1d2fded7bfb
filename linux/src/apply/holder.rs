//! How items are installed and removed: one holder for each kind of item, and the table that finds it.

use super::Executor;
use super::kernel_item::KernelItem;
use crate::error::Error;
use crate::netlink::socket::Request;
use roam6_proto::Item;
use roam6_proto::contract::item::JournalRecord;

/// How the items of one kind are installed on the host. A new kind of item is a new implementation, and a line in
/// [`holder`].
pub(super) trait Holder {
    /// Installs the item, in place of `former` of the same key. Does at once what needs no netlink request, and returns the
    /// requests.
    ///
    /// # Errors
    /// The kernel's, or that of the part of the host that installs it.
    fn put(&self, executor: &mut Executor, former: Option<&Item>) -> Result<Vec<Request>, Error>;

    /// Removes the item, which the plan has no longer; otherwise like [`Holder::put`]. Without another implementation, by the
    /// request that removes what the kernel shows. Not called for items that their back ends store: the executor removes
    /// them by their keys.
    ///
    /// # Errors
    /// The kernel's, or that of the part of the host that removes it.
    fn drop(&self, executor: &mut Executor) -> Result<Vec<Request>, Error> {
        let shown = self.show(executor).map(|(_, shown)| shown);
        Ok(shown.and_then(|shown| shown.removal()).into_iter().collect())
    }

    /// The request that installs the item again, and the object that the kernel dumps once it is installed. `None` if the
    /// item is in none of the dumped tables: it is reconciled by itself, or ends with the process.
    fn show(&self, _: &Executor) -> Option<(Request, KernelItem)> {
        None
    }
}

/// The holder of an item.
pub(super) fn holder(item: &Item) -> &dyn Holder {
    match item {
        Item::Sysctl(item) => item,
        Item::Address(item) => item,
        Item::Anycast(item) => item,
        Item::Neighbour(item) => item,
        Item::ProxyNeighbour(item) => item,
        Item::SourceFilter(item) => item,
        Item::Tunnel(item) => item,
        Item::Route(item) => item,
        Item::Rule(item) => item,
        Item::TunnelBypass(destination) => destination,
        Item::MptcpLimits(item) => item,
        Item::MptcpEndpoint(item) => item,
        Item::EthertypeSubscription(item) => item,
        Item::VirtualInterface(item) => item,
        Item::UdpPortHold(item) => item,
        Item::ShimUplink(item) => item,
        Item::ContextTrigger(item) => item,
        Item::ShimContext(item) => item,
        Item::JournalRecord(item) => item,
        #[cfg(feature = "fleet")]
        Item::Announcement(item) => item,
        #[cfg(feature = "fleet")]
        Item::FleetRecord(item) => item,
        #[cfg(feature = "fleet")]
        Item::FleetMember(state) => state,
        #[cfg(feature = "fleet")]
        Item::FleetPathMtu(item) => item,
    }
}

impl Holder for JournalRecord {
    fn put(&self, executor: &mut Executor, _: Option<&Item>) -> Result<Vec<Request>, Error> {
        executor.journal.put(self)?;
        executor.records.extend(executor.outcomes.len().checked_sub(1));
        Ok(Vec::new())
    }
}
