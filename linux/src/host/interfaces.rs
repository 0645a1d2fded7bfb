//! The tables of interfaces and addresses, kept by the kernel's announcements.

use super::repair::REPAIR_PAUSE;
use super::{BATCH, Host};
use crate::error::Error;
use crate::netlink::monitor::{self, Announcement};
use crate::netlink::socket::Netlink;
use crate::netlink::{address, family, link, route};
use roam6_proto::base::vec_set::VecSet;
use roam6_proto::contract::input::{AddressEvent, AddressState};
use roam6_proto::{Input, LinkEvent, LinkId};
use std::net::Ipv6Addr;

impl Host {
    pub(super) fn has_address(&self, address: Ipv6Addr) -> bool {
        self.addresses.range((address, LinkId(0))..=(address, LinkId(u32::MAX))).next().is_some()
    }

    pub(super) fn read_netlink(&mut self) -> Result<(), Error> {
        for _ in 0..BATCH {
            let news = self.monitor.receive()?;
            if news.is_empty() {
                break;
            }
            for news in news {
                self.handle_announcement(news)?;
            }
        }
        Ok(())
    }

    pub(super) fn handle_announcement(&mut self, news: Announcement) -> Result<(), Error> {
        self.executor.note_removed(&news);
        match news {
            // It may have changed again since the announcement.
            Announcement::Link(event, _) if self.links.contains_key(&event.link) => self.poll_link(event.link)?,
            Announcement::Link(event, losses) => self.handle_link(event, losses)?,
            Announcement::LinkRemoved(link) => {
                self.detach(link);
                self.handle_link_loss(link);
            }
            Announcement::Address(event) => self.handle_address(event),
            Announcement::RoutesChanged => self.executor.note_underlay_change(),
            Announcement::Neighbour(event) if self.links.contains_key(&event.link) => {
                self.queue_input(Input::Neighbour(event))
            }
            Announcement::DefaultRoute(event) => {
                self.executor.note_underlay_change();
                if self.links.contains_key(&event.link) {
                    self.queue_input(Input::Route(event));
                }
            }
            Announcement::Overrun => {
                self.executor.notice("netlink receive buffer overrun: resynchronising links, addresses and routes");
                self.read_tables()?;
                self.executor.note_underlay_change();
                let links: Vec<LinkId> = self.links.keys().copied().collect();
                links.into_iter().try_for_each(|link| self.read_default_routes(link))?;
                if self.reconcile_at.is_some() {
                    self.executor.reconcile()?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// `losses` counts carrier losses: the interface may have lost its carrier and regained it, on another network,
    /// before the kernel announces either.
    pub(super) fn handle_link(&mut self, event: LinkEvent, losses: u32) -> Result<(), Error> {
        self.attach(&event);
        if !self.interfaces.contains(&event.name) {
            self.handle_link_loss(event.link);
            return Ok(());
        }
        let former = self.links.insert(event.link, event.clone());
        let seen = self.carrier_losses.insert(event.link, losses);
        if former.as_ref().is_some_and(|former| former.up != event.up) || seen.is_some_and(|seen| seen != losses) {
            self.link_watch.note_change(self.clock.now());
            self.executor.fail_pending_neighbours(event.link, None).unwrap_or_else(|error| self.executor.notice(error));
        }
        if event.up && former.as_ref().is_some_and(|former| former.up) && seen.is_some_and(|seen| seen != losses) {
            self.queue_input(Input::Link(LinkEvent { up: false, ..event.clone() }));
        } else if former.as_ref() == Some(&event) {
            return Ok(());
        }
        if former.is_none() {
            let received = self.receiver.receive_all_multicast(event.link);
            received.unwrap_or_else(|error| self.executor.notice(error));
        }
        if event.up && former.is_some() {
            self.executor.restore(event.link);
            self.repair_pause = REPAIR_PAUSE.0;
        }
        let (link, up) = (event.link, event.up);
        self.queue_input(Input::Link(event));
        if up {
            self.read_default_routes(link)?;
        }
        Ok(())
    }

    /// At any wake-up: the state of an interface may have changed without an announcement.
    pub(super) fn poll_links(&mut self) -> Result<(), Error> {
        if !self.link_watch.begin_poll(self.now()) {
            return Ok(());
        }
        let links: Vec<LinkId> = self.links.keys().copied().collect();
        links.into_iter().try_for_each(|link| self.poll_link(link))
    }

    pub(super) fn poll_link(&mut self, link: LinkId) -> Result<(), Error> {
        match self.link_watch.poll(link)? {
            Some(Announcement::Link(event, losses)) => self.handle_link(event, losses),
            _ => Ok(()),
        }
    }

    /// Engines drop default routes with the carrier; the kernel keeps those of an administrator.
    pub(super) fn read_default_routes(&mut self, link: LinkId) -> Result<(), Error> {
        for message in Netlink::open()?.dump(route::dump_default_routes(link))? {
            if let Some(Announcement::DefaultRoute(event)) = monitor::read(&message) {
                self.queue_input(Input::Route(event));
            }
        }
        Ok(())
    }

    /// Tunnels attach to every interface but loopback and their own: packets of peers may arrive on any.
    pub(super) fn attach(&mut self, event: &LinkEvent) {
        if event.link == LinkId::LOOPBACK || event.name == self.device || !self.attached.insert(event.link) {
            return;
        }
        let attached = self.executor.tunnels.attach(event.link, &event.name);
        attached.unwrap_or_else(|error| self.executor.notice(format!("{}: {error}", event.name)));
    }

    pub(super) fn detach(&mut self, link: LinkId) {
        if self.attached.remove(&link) {
            self.executor.tunnels.detach(link);
        }
    }

    pub(super) fn handle_link_loss(&mut self, link: LinkId) {
        self.sender.close_link(link);
        self.routers.forget(link);
        self.carrier_losses.remove(&link);
        if let Some(event) = self.links.remove(&link) {
            self.queue_input(Input::Link(LinkEvent { up: false, ..event }));
        }
    }

    pub(super) fn handle_address(&mut self, event: AddressEvent) {
        let place = (event.address, event.link);
        match event.state {
            AddressState::Removed => self.remove_address(place),
            _ => drop(self.addresses.insert(place)),
        }
        if self.all_addresses || self.links.contains_key(&event.link) {
            self.queue_input(Input::Address(event));
        }
    }

    /// With its last IPv4 address an interface loses all of its IPv4 configuration, and when IPv6 is disabled on it all
    /// of IPv6; the kernel does not announce the removal of proxy entries.
    pub(super) fn remove_address(&mut self, place: (Ipv6Addr, LinkId)) {
        self.addresses.remove(&place);
        let (address, link) = place;
        let is_ipv4 = |address: Ipv6Addr| address.to_ipv4_mapped().is_some();
        let alike = |other: &(Ipv6Addr, LinkId)| other.1 == link && is_ipv4(other.0) == is_ipv4(address);
        if !self.addresses.iter().any(alike) {
            self.executor.note_family_removed(link, is_ipv4(address));
        }
    }

    /// Dumps interfaces and addresses, and processes the differences.
    pub(super) fn read_tables(&mut self) -> Result<(), Error> {
        let mut netlink = Netlink::open()?;
        let (mut links, mut addresses) = (VecSet::new(), VecSet::new());
        let mut messages = netlink.dump(link::dump())?;
        for addresses in family::BOTH.map(address::dump) {
            messages.extend(netlink.dump(addresses)?);
        }
        for news in messages.into_iter().filter_map(|message| monitor::read(&message)) {
            match news {
                Announcement::Link(event, losses) => {
                    links.insert(event.link);
                    self.handle_link(event, losses)?;
                }
                Announcement::Address(event) => {
                    addresses.insert((event.address, event.link));
                    self.handle_address(event);
                }
                _ => {}
            }
        }
        let lost: Vec<LinkId> = self.attached.difference(&links).copied().collect();
        for link in lost {
            self.detach(link);
            self.handle_link_loss(link);
        }
        let lost: Vec<_> = self.addresses.difference(&addresses).copied().collect();
        for (address, link) in lost {
            self.handle_address(AddressEvent { link, address, state: AddressState::Removed });
        }
        Ok(())
    }
}
