//! Objects of roam6 in the tables that the kernel dumps: routes, rules, addresses, neighbour and proxy entries.

use crate::netlink::route::KernelRoute;
use crate::netlink::rtnl::RtnlMessage;
use crate::netlink::socket::Request;
use crate::netlink::{address, neighbour, rule};
use roam6_proto::{Item, Key};

/// An object of roam6, as the kernel dumps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum KernelItem {
    Item(Item),
    Route(KernelRoute),
}

impl KernelItem {
    /// Reads an object; `None` if it is not of roam6.
    pub(super) fn read(message: &RtnlMessage) -> Option<KernelItem> {
        let item = match message {
            RtnlMessage::NewRoute(message) => return KernelRoute::read(message).map(KernelItem::Route),
            RtnlMessage::NewRule(message) => rule::read(message).map(Item::Rule),
            RtnlMessage::NewAddress(message) => address::read(message).map(Item::Address),
            RtnlMessage::NewNeighbour(message) => {
                let proxy = neighbour::read_proxy(message).map(Item::ProxyNeighbour);
                proxy.or_else(|| neighbour::read(message).map(Item::Neighbour))
            }
            _ => None,
        };
        item.map(KernelItem::Item)
    }

    /// Its key in the kernel's tables.
    pub(super) fn key(&self) -> Key {
        match self {
            KernelItem::Item(item) => item.key(),
            KernelItem::Route(route) => Key::Route(route.table, route.destination, route.source, route.metric),
        }
    }

    /// The request that removes it.
    pub(super) fn removal(&self) -> Option<Request> {
        match self {
            KernelItem::Route(route) => Some(route.remove()),
            KernelItem::Item(Item::Rule(rule)) => Some(rule::remove(rule)),
            KernelItem::Item(Item::Address(address)) => Some(address::remove(address)),
            KernelItem::Item(Item::Neighbour(neighbour)) => Some(neighbour::remove(neighbour)),
            KernelItem::Item(Item::ProxyNeighbour(proxy)) => Some(neighbour::remove_proxy(proxy)),
            KernelItem::Item(_) => None,
        }
    }
}
