//! Addresses, neighbours and proxy entries.

use super::Executor;
use super::holder::Holder;
use super::kernel_item::KernelItem;
use super::sysctl::{SysctlName, interface_name};
use crate::error::Error;
use crate::netlink::socket::Request;
use crate::netlink::{address, neighbour};
use roam6_proto::contract::item::{Address, AnycastAddress, Neighbour, ProxyNeighbour, Sysctl};
use roam6_proto::{Item, Key, LinkId};

impl Holder for Address {
    fn put(&self, executor: &mut Executor, former: Option<&Item>) -> Result<Vec<Request>, Error> {
        Ok(match former {
            Some(Item::Address(old)) if old.prefix_length != self.prefix_length => {
                vec![address::remove(old), address::put(self)]
            }
            Some(_) => vec![address::put(self)],
            None => executor.add_address(self)?,
        })
    }

    fn show(&self, _: &Executor) -> Option<(Request, KernelItem)> {
        // Whether DAD was requested is not part of a dump.
        let shown = Item::Address(Address { dad: false, ..self.clone() });
        Some((address::put(self), KernelItem::Item(shown)))
    }
}

impl Holder for AnycastAddress {
    fn put(&self, executor: &mut Executor, _: Option<&Item>) -> Result<Vec<Request>, Error> {
        // An address of the prefix must be assigned before.
        executor.flush();
        executor.anycasts.put(self).map(|()| Vec::new())
    }

    fn drop(&self, executor: &mut Executor) -> Result<Vec<Request>, Error> {
        executor.anycasts.drop(self);
        Ok(Vec::new())
    }
}

impl Holder for Neighbour {
    fn put(&self, _: &mut Executor, _: Option<&Item>) -> Result<Vec<Request>, Error> {
        Ok(vec![neighbour::put(self)])
    }

    fn show(&self, _: &Executor) -> Option<(Request, KernelItem)> {
        Some((neighbour::put(self), KernelItem::Item(Item::Neighbour(self.clone()))))
    }
}

impl Holder for ProxyNeighbour {
    fn put(&self, executor: &mut Executor, former: Option<&Item>) -> Result<Vec<Request>, Error> {
        if former.is_none() {
            executor.enable_proxy(self.link)?;
        }
        Ok(vec![neighbour::put_proxy(self)])
    }

    fn drop(&self, executor: &mut Executor) -> Result<Vec<Request>, Error> {
        executor.disable_proxy(self.link);
        Ok(vec![neighbour::remove_proxy(self)])
    }

    fn show(&self, _: &Executor) -> Option<(Request, KernelItem)> {
        Some((neighbour::put_proxy(self), KernelItem::Item(Item::ProxyNeighbour(self.clone()))))
    }
}

impl Executor {
    /// An address without duplicate address detection replaces a tentative one of the kernel.
    fn add_address(&mut self, new: &Address) -> Result<Vec<Request>, Error> {
        let mut requests = Vec::new();
        if !new.dad {
            let all = address::all_ipv6(&mut self.netlink)?;
            let is_tentative = all.iter().any(|message| address::is_tentative(message, new));
            requests.extend(is_tentative.then(|| address::remove(new)));
        }
        requests.push(address::put(new));
        Ok(requests)
    }

    /// The first proxied address of a link enables proxying, without the delay meant for shared links (RFC 4861 §7.2.8, and
    /// for ARP alike): no other node answers.
    fn enable_proxy(&mut self, link: LinkId) -> Result<(), Error> {
        if self.proxy_links.insert(link) {
            for (name, value) in proxy_sysctls(link)? {
                self.sysctls.put(&name, value)?;
            }
        }
        Ok(())
    }

    /// The last proxied address of a link disables it.
    pub(super) fn disable_proxy(&mut self, link: LinkId) {
        if self.installed.has_proxies(link) {
            return;
        }
        self.proxy_links.remove(&link);
        let requested = self.installed.find(&Key::Sysctl(Some(link), Sysctl::ProxyNdp)).is_some();
        for (name, _) in proxy_sysctls(link).into_iter().flatten().skip(usize::from(requested)) {
            self.sysctls.drop(&name, Some(&name)).unwrap_or_else(|error| self.notice(error));
        }
    }
}

/// For IPv4 the kernel proxies ARP once it forwards.
fn proxy_sysctls(link: LinkId) -> Result<[(SysctlName, i32); 3], Error> {
    let interface = interface_name(link)?;
    let proxies = (SysctlName::conf(Some(&interface), "proxy_ndp"), 1);
    Ok([proxies, (SysctlName::neigh(&interface, "proxy_delay"), 0), (SysctlName::neigh4(&interface, "proxy_delay"), 0)])
}
