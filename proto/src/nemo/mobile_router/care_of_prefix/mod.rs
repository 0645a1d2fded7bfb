//! Care-of prefixes: prefixes of visited networks for nodes of the mobile network, and with them paths that bypass the
//! tunnel. Their source, their advertisement, and the routing of their packets (RFC 8415, RFC 4389, RFC 7278, RFC 7084
//! §4.2 and §4.3, RFC 8028).

mod advertisement;
mod routing;
mod source;

pub(super) use advertisement::AdvertisedPrefixes;
pub(super) use source::{PrefixSource, SourceSpec};

use super::MobileRouter;
use super::dispatch::NdSender;
use crate::contract::config::nemo::CareOfPrefixConfig;
use crate::contract::input::NeighbourEvent;
use crate::link::nd_messages;
use crate::link::prefix_delegation::{DhcpClientConfig, IaType};
use crate::{LinkId, Outbox, Time, Transmit};
use roam6_wire::dhcp6::{Duid, Iaid};
use roam6_wire::icmp6::{NeighbourAdvertisement, NeighbourSolicitation};
use roam6_wire::ip6::Datagram;
use roam6_wire::{Bid, HomeAddress, LinkAddress, Prefix};
use sha1::{Digest, Sha1};
use std::collections::VecDeque;
use std::net::Ipv6Addr;

/// A care-of prefix that nodes may use now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Grant {
    /// The uplink.
    pub(super) bid: Bid,
    /// Its interface.
    pub(super) link: LinkId,
    /// The prefix, as delegated or as on the visited link.
    pub(super) prefix: Prefix,
    pub(super) kind: GrantKind,
    pub(super) preferred_until: Time,
    pub(super) valid_until: Time,
}

/// The origin of a care-of prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum GrantKind {
    /// Delegated by DHCPv6.
    Delegated,
    /// Shared with the visited link.
    Shared {
        /// The ingress interface whose nodes share it.
        ingress: LinkId,
        /// This router's address in it.
        own_address: Ipv6Addr,
        /// Its downstream addresses; `None` if all of them are: the visited link is point-to-point (RFC 7278).
        node_addresses: Option<Vec<Ipv6Addr>>,
        /// A delegated prefix has replaced it: it is routed, and advertised as withdrawn.
        replaced: bool,
    },
}

/// The nodes that were proxied on links that were left, by the prefix of the link, the latest last.
#[derive(Debug, Default, Clone)]
pub(super) struct FormerNodes(VecDeque<(Prefix, Vec<Ipv6Addr>)>);

/// Most links whose nodes are remembered.
const MAX_FORMER_LINKS: usize = 16;

impl FormerNodes {
    fn note(&mut self, prefix: Prefix, addresses: Vec<Ipv6Addr>) {
        self.take(prefix);
        if addresses.is_empty() {
            return;
        }
        if self.0.len() >= MAX_FORMER_LINKS {
            self.0.pop_front();
        }
        self.0.push_back((prefix, addresses));
    }

    fn take(&mut self, prefix: Prefix) -> Vec<Ipv6Addr> {
        let index = self.0.iter().position(|(known, _)| *known == prefix);
        index.and_then(|index| self.0.remove(index)).map(|(_, addresses)| addresses).unwrap_or_default()
    }
}

impl MobileRouter {
    /// Requests, renews and releases prefixes, as the uplinks are now.
    pub(super) fn update_sources(&mut self, now: Time, out: &mut Outbox) {
        let wanted: Vec<(Bid, SourceSpec)> = self.source_specs();
        for (bid, source) in &mut self.prefix_sources {
            if wanted.iter().all(|(other, wanted)| other != bid || !source.matches(wanted)) {
                self.former_nodes.note(source.network(), source.proxied_addresses());
                source.stop(now, &mut self.entropy, out);
            }
        }
        self.prefix_sources
            .retain(|bid, source| wanted.iter().any(|(other, wanted)| other == bid && source.matches(wanted)));
        for (bid, wanted) in wanted {
            let mut source = match self.prefix_sources.remove(&bid) {
                Some(source) => source,
                None => {
                    let former = self.former_nodes.take(wanted.prefix);
                    let client = self.dhcp_client_config(bid, wanted.config);
                    PrefixSource::new(now, (&wanted, former), client, &mut self.entropy)
                }
            };
            source.update(now, &wanted, &mut self.entropy, out);
            self.prefix_sources.insert(bid, source);
        }
    }

    /// The prefix source that each uplink on a visited network should have. Without a care-of address a prefix has no
    /// route out.
    fn source_specs(&self) -> Vec<(Bid, SourceSpec)> {
        let Some(config) = self.config.care_of_prefixes else { return Vec::new() };
        let inside = self.proxy_downstream();
        let uplinks = self.uplinks.iter().filter(|uplink| uplink.config.care_of_prefix && !uplink.is_barred());
        let wanted = uplinks.filter_map(|uplink| {
            let formed = uplink.care_of_address.as_ref().filter(|formed| formed.usable)?;
            let attachment = uplink.attachment.as_ref()?;
            let preferred_until = attachment.care_of_prefix(self.now).map_or(self.now, |known| known.preferred_until);
            let wanted = SourceSpec {
                config,
                bid: uplink.config.bid,
                link: uplink.up()?,
                link_address: uplink.interface.as_ref().and_then(|interface| interface.address),
                prefix: formed.prefix,
                own_address: formed.address.0,
                preferred_until,
                valid_until: formed.valid_until,
                downstream: inside,
                has_former_nodes: self.has_former_nodes(formed.prefix),
                behind_proxy: attachment.routers().any(|router| router.proxy_flag),
            };
            Some((uplink.config.bid, wanted))
        });
        wanted.collect()
    }

    fn dhcp_client_config(&self, bid: Bid, config: CareOfPrefixConfig) -> DhcpClientConfig {
        let mut own = self.config.prefixes.clone();
        own.push(self.config.home_prefix);
        let (duid, request) = (client_duid(self.config.home_address), IaType::IaPd);
        DhcpClientConfig {
            duid,
            iaid: Iaid(bid.0.into()),
            ia_type: request,
            prefix_length_hint: config.length,
            excluded: own,
        }
    }

    /// The ingress interface whose nodes may share a visited link: the first, unless another router advertises there,
    /// which might be a proxy for the same link (RFC 4389 §4.1.3.3).
    fn proxy_downstream(&self) -> Option<(LinkId, LinkAddress)> {
        let inside =
            self.ingress.first().filter(|inside| inside.other_router_until.is_none_or(|until| until <= self.now))?;
        let interface = inside.interface.as_ref().filter(|interface| interface.up)?;
        Some((interface.link, interface.address?))
    }

    /// Whether nodes may have addresses of `prefix`, which is withdrawn.
    fn has_former_nodes(&self, prefix: Prefix) -> bool {
        let inside = self.ingress.first();
        inside.is_some_and(|inside| inside.advertised_prefixes.is_withdrawn(prefix))
    }

    /// All care-of prefixes that nodes may use now, those of preferred uplinks first, without overlaps.
    pub(super) fn grants(&self, now: Time) -> Vec<Grant> {
        let mut order: Vec<_> = self.uplinks.iter().map(|uplink| (uplink.config.priority, uplink.config.bid)).collect();
        order.sort();
        let mut grants: Vec<Grant> = Vec::new();
        for grant in order.iter().filter_map(|(_, bid)| Some(self.prefix_sources.get(bid)?.grants(now, *bid))).flatten()
        {
            let overlaps = |other: &Grant| other.prefix.covers(grant.prefix) || grant.prefix.covers(other.prefix);
            if !grants.iter().any(overlaps) {
                grants.push(grant);
            }
        }
        grants
    }

    /// Whether a care-of prefix of the uplink is that of a point-to-point link.
    pub(super) fn has_point_to_point_prefix(&self, bid: Bid) -> bool {
        self.prefix_sources.get(&bid).is_some_and(PrefixSource::is_point_to_point)
    }

    /// Processes a packet to the DHCPv6 client port.
    pub(super) fn receive_dhcp(&mut self, now: Time, link: LinkId, datagram: &Datagram<'_>, out: &mut Outbox) {
        let uplink = self.uplinks.iter_mut().find(|uplink| uplink.up() == Some(link));
        if uplink.is_some_and(|uplink| uplink.receive_dhcp(now, datagram, &mut self.entropy, out)) {
            return;
        }
        if let Some(source) = self.prefix_sources.values_mut().find(|source| source.link() == link) {
            source.receive(now, datagram, &mut self.entropy, out);
        }
    }

    /// Passes a Neighbour Solicitation to the ND proxies.
    pub(super) fn relay_solicitation(
        &mut self,
        now: Time,
        from: NdSender,
        message: &NeighbourSolicitation,
        out: &mut Outbox,
    ) {
        let NdSender { link, source, link_address } = from;
        self.learn_downstream(link, if source.is_unspecified() { message.target } else { source });
        for (side, proxy) in self.prefix_sources.values_mut().filter_map(PrefixSource::proxy) {
            if side == link {
                proxy.receive_upstream_solicitation(now, (source, link_address), message, out);
            } else if proxy.downstream().0 == link {
                proxy.receive_downstream_solicitation(now, (source, link_address), message, out);
            }
        }
    }

    /// Passes a Neighbour Advertisement to the ND proxies.
    pub(super) fn relay_advertisement(
        &mut self,
        now: Time,
        from: NdSender,
        message: &NeighbourAdvertisement,
        out: &mut Outbox,
    ) {
        let link_address = from.link_address.or_else(|| nd_messages::target_link_address(&message.options));
        self.learn_downstream(from.link, message.target);
        for (side, proxy) in self.prefix_sources.values_mut().filter_map(PrefixSource::proxy) {
            if side == from.link {
                proxy.receive_upstream_advertisement(message, out);
            } else if proxy.downstream().0 == from.link {
                proxy.receive_downstream_advertisement(now, link_address, message, out);
            }
        }
    }

    /// The Neighbour Advertisements of the ND proxies on visited links, to be sent after the routes are put.
    pub(super) fn take_proxy_advertisements(&mut self) -> Vec<Transmit> {
        self.prefix_sources.values_mut().flat_map(PrefixSource::take_proxy_advertisements).collect()
    }

    /// Notes a node on an ingress interface, for ICMPv6 errors to it.
    fn learn_downstream(&mut self, link: LinkId, address: Ipv6Addr) {
        if let Some(inside) = self.ingress.iter_mut().find(|inside| inside.link() == Some(link)) {
            inside.advertised_prefixes.learn(address);
        }
    }

    /// Passes a change of the kernel's neighbour table to the ND proxies.
    pub(super) fn relay_neighbour(&mut self, now: Time, event: &NeighbourEvent, out: &mut Outbox) {
        for (_, proxy) in self.prefix_sources.values_mut().filter_map(PrefixSource::proxy) {
            if proxy.downstream().0 == event.link {
                let sender = event.link_address.filter(|_| event.reachable);
                proxy.update_reachability(now, event.address, sender, out);
            }
        }
    }

    /// Releases all delegated prefixes.
    pub(super) fn stop_sources(&mut self, now: Time, out: &mut Outbox) {
        for source in self.prefix_sources.values_mut() {
            source.stop(now, &mut self.entropy, out);
        }
        self.prefix_sources.clear();
    }
}

/// The DUID of this router: the same on all uplinks and after every start, and not derived from an address (RFC 8415
/// §11.5; a name-based UUID, RFC 4122 §4.3).
pub(super) fn client_duid(home_address: HomeAddress) -> Duid {
    let digest = Sha1::new().chain_update(b"roam6 mobile router").chain_update(home_address.0.octets()).finalize();
    let mut uuid = [0; 16];
    uuid.iter_mut().zip(digest).for_each(|(to, from)| *to = from);
    uuid[6] = uuid[6] & 0x0f | 0x50;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    Duid::from_uuid(uuid)
}
