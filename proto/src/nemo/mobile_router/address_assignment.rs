//! The source of an uplink's care-of address: the configuration, a prefix of the router in use, or a DHCPv6 server if
//! that router has the M flag (RFC 4862 §5.5.3; RFC 4861 §4.2, RFC 8415 §18.2).

use super::care_of_address::{AddressLease, Assignment};
use super::care_of_prefix::client_duid;
use super::uplink::Uplink;
use crate::link::prefix_delegation::{DhcpClient, DhcpClientConfig, DhcpEvent, DhcpInterface, IaType};
use crate::{Entropy, Outbox, Time};
use roam6_wire::dhcp6::Iaid;
use roam6_wire::ip6::Datagram;
use roam6_wire::{HomeAddress, Prefix};
use std::net::Ipv6Addr;

impl Uplink {
    /// The present address assignment: static first, then an advertised prefix, then DHCPv6.
    pub(super) fn assignment(&self, now: Time) -> Option<Assignment> {
        if let Some(set) = self.config.address.filter(|_| self.is_up()) {
            let (address, router, valid_until) = (Some(set.address), set.gateway, Time::from_micros(u64::MAX));
            return Some(Assignment { address, prefix: set.prefix, on_link: true, router, valid_until });
        }
        let attachment = self.attachment.as_ref()?;
        let router = attachment.router()?.address;
        if let Some(known) = attachment.care_of_prefix(now) {
            let (prefix, on_link, valid_until) = (known.prefix, known.on_link, known.valid_until);
            return Some(Assignment { address: None, prefix, on_link, router, valid_until });
        }
        let lease = self.lease.as_ref()?.client.leases().first()?;
        // A lease has no on-link information: all packets go to the router (RFC 5942 §4).
        let (address, prefix) = (Some(lease.prefix.address()), lease.prefix);
        Some(Assignment { address, prefix, on_link: false, router, valid_until: lease.valid_until })
    }

    /// The router in use.
    pub(super) fn router(&self) -> Option<Ipv6Addr> {
        let advertised = || Some(self.attachment.as_ref()?.router()?.address);
        self.config.address.filter(|_| self.is_up()).map(|set| set.gateway).or_else(advertised)
    }

    /// Requests, renews and releases an address by DHCPv6, as the router in use has the M flag.
    pub(super) fn update_lease(
        &mut self,
        now: Time,
        home_address: HomeAddress,
        entropy: &mut Entropy,
        own: &[Prefix],
        out: &mut Outbox,
    ) {
        let managed = self.managing_router(now);
        if let Some(lease) = self.lease.take_if(|lease| managed != Some(lease.router)) {
            let mut client = lease.client;
            client.stop(now, entropy, out);
        }
        if self.lease.is_none()
            && let Some(router) = managed
            && let Some((link, address)) = self.interface.as_ref().and_then(|it| Some((it.link, it.address?)))
        {
            let (duid, id, request) = (client_duid(home_address), Iaid(self.config.bid.0.into()), IaType::IaNa);
            let client =
                DhcpClientConfig { duid, iaid: id, ia_type: request, prefix_length_hint: 0, excluded: own.to_vec() };
            let interface = DhcpInterface { link, source: address.link_local() };
            self.lease = Some(AddressLease { client: DhcpClient::new(now, interface, client, entropy), router });
        }
        if let Some(lease) = &mut self.lease {
            let event = lease.client.expire(now, entropy, out);
            self.report_lease(event, out);
        }
    }

    /// The router in use, if it has the M flag and advertises no prefix to form an address in.
    fn managing_router(&self, now: Time) -> Option<Ipv6Addr> {
        let attachment = self.attachment.as_ref().filter(|_| self.config.address.is_none() && !self.on_home_link)?;
        let router = attachment.router().filter(|router| router.managed)?;
        attachment.care_of_prefix(now).is_none().then_some(router.address)
    }

    /// Processes a packet to the DHCPv6 client port, if it answers a request for an address.
    pub(super) fn receive_dhcp(
        &mut self,
        now: Time,
        datagram: &Datagram<'_>,
        entropy: &mut Entropy,
        out: &mut Outbox,
    ) -> bool {
        let Some(lease) = self.lease.as_mut().filter(|lease| lease.client.is_answered_by(datagram)) else {
            return false;
        };
        let event = lease.client.receive(now, datagram, entropy, out);
        self.report_lease(event, out);
        true
    }

    /// Only failure is reported here; an assigned or lost address is reported when it is formed or dropped.
    fn report_lease(&self, event: Option<DhcpEvent>, out: &mut Outbox) {
        if let Some(DhcpEvent::Unavailable(_)) = event {
            let name = &self.config.interface;
            let text =
                format!("{name}: no DHCPv6 server assigns an address, and no prefix is advertised to form one in");
            out.notice(text);
        }
    }

    /// Whether the advertising routers provide neither a prefix nor DHCPv6.
    pub(super) fn has_router_without_prefix(&self) -> bool {
        let useless = |attachment: &crate::link::router_discovery::Attachment| {
            attachment.router().is_none() && attachment.routers().next().is_some()
        };
        self.config.address.is_none() && self.attachment.as_ref().is_some_and(useless)
    }

    /// Reports such a router, once for each network.
    pub(super) fn report_router_without_prefix(&mut self, out: &mut Outbox) {
        let useless = self.has_router_without_prefix();
        if useless && !self.router_without_prefix_reported {
            let name = &self.config.interface;
            let text = format!(
                "{name}: the router advertises neither a prefix to form an address in (A flag) nor DHCPv6 (M flag); \
                 set address and gateway of this uplink"
            );
            out.notice(text);
        }
        self.router_without_prefix_reported = useless;
    }
}
