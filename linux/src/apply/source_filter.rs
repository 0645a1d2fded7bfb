//! Source address filters: packets from an ingress interface with a source outside its prefixes are rejected (RFC 3963
//! §9, RFC 7084 §4.3). Routes cannot do that: their lookup takes the source into account, but not the interface.

use super::Executor;
use super::holder::Holder;
use crate::error::Error;
use crate::netlink::socket::Request;
use crate::nft::expression::{
    accept, between, equal, from_link, from_source, load_icmp_type, load_protocol, reject_unreachable, to_destination,
};
use crate::nft::{Hook, Nftables, SOURCE_FILTER_TABLE as TABLE};
use roam6_proto::base::vec_map::VecMap;
use roam6_proto::contract::item::SourceFilter;
use roam6_proto::{Item, LinkId};
use roam6_wire::Prefix;
use roam6_wire::ip6::protocol;
use std::net::Ipv6Addr;

/// Source address failed ingress/egress policy (RFC 4443 §3.1).
const FAILED_POLICY: u8 = 5;
/// Neighbour Solicitation and Neighbour Advertisement (RFC 4861 §4.3, §4.4).
const NEIGHBOUR_MESSAGES: [u8; 2] = [135, 136];
/// Link-local unicast (RFC 4291 §2.5.6).
const LINK_LOCAL: (Ipv6Addr, u8) = (Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10);
/// Link-local multicast (RFC 4291 §2.7).
const ON_LINK: (Ipv6Addr, u8) = (Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0), 16);

/// All source filters; one nftables table has all rules, and is replaced as a whole.
#[derive(Default)]
pub(super) struct SourceFilters {
    installed: VecMap<LinkId, SourceFilter>,
    nftables: Option<Nftables>,
}

impl SourceFilters {
    /// Installs a filter, in place of any of the same interface.
    ///
    /// # Errors
    /// The kernel's, if it refuses the table.
    pub(super) fn put(&mut self, filter: &SourceFilter) -> Result<(), Error> {
        let former = self.installed.insert(filter.link, filter.clone());
        self.write_rules().inspect_err(|_| match former {
            Some(former) => drop(self.installed.insert(filter.link, former)),
            None => drop(self.installed.remove(&filter.link)),
        })
    }

    /// Removes the filter of an interface.
    ///
    /// # Errors
    /// The kernel's, if it refuses the table.
    pub(super) fn drop(&mut self, link: LinkId) -> Result<(), Error> {
        if self.installed.remove(&link).is_none() {
            return Ok(());
        }
        self.write_rules()
    }

    /// Installs the table again if another program has removed it; true if so.
    ///
    /// # Errors
    /// The kernel's, if it refuses the table.
    pub(super) fn repair(&mut self) -> Result<bool, Error> {
        match &self.nftables {
            Some(filter) if !self.installed.is_empty() && !filter.has_table(TABLE)? => {
                self.write_rules().map(|()| true)
            }
            _ => Ok(false),
        }
    }

    /// Makes the kernel's table match, also if an earlier daemon has left one.
    ///
    /// # Errors
    /// The kernel's, if it refuses the table.
    pub(super) fn reconcile(&mut self) -> Result<(), Error> {
        match self.write_rules() {
            // Without nftables an earlier daemon has left nothing either.
            Err(_) if self.installed.is_empty() => Ok(()),
            written => written,
        }
    }

    fn write_rules(&mut self) -> Result<(), Error> {
        let filter = match self.nftables.take() {
            Some(filter) => filter,
            None => Nftables::open()?,
        };
        let rules: Vec<_> = self.installed.values().flat_map(rules).collect();
        let written = if rules.is_empty() { filter.drop(TABLE) } else { filter.put(TABLE, Hook::Prerouting, &rules) };
        self.nftables = Some(filter);
        written
    }
}

impl Holder for SourceFilter {
    fn put(&self, executor: &mut Executor, _: Option<&Item>) -> Result<Vec<Request>, Error> {
        executor.source_filters.put(self).map(|()| Vec::new())
    }

    fn drop(&self, executor: &mut Executor) -> Result<Vec<Request>, Error> {
        // Routes out are removed first.
        executor.flush();
        executor.source_filters.drop(self.link).map(|()| Vec::new())
    }
}

/// The rules of one filter, of which the first match decides.
fn rules(filter: &SourceFilter) -> Vec<Vec<Vec<u8>>> {
    let from = |source: Prefix, verdict| rule(filter.link, from_source(source).into(), verdict);
    let own =
        filter.own_addresses.iter().map(|address| from(Prefix::host(*address), reject_unreachable(FAILED_POLICY)));
    // Link-local packets, and those of a node without an address yet.
    let unspecified = Prefix::host(Ipv6Addr::UNSPECIFIED);
    let [link_local, on_link] = [LINK_LOCAL, ON_LINK].map(|(address, length)| Prefix::new(address, length));
    let near = link_local.into_iter().chain([unspecified]);
    let sources = near.chain(filter.allowed.iter().copied()).map(|source| from(source, accept()));
    let here = link_local.into_iter().chain(on_link).chain(filter.own_addresses.iter().copied().map(Prefix::host));
    let neighbours = here.map(|destination| rule(filter.link, neighbour_discovery(destination), accept()));
    let rest = rule(filter.link, Vec::new(), reject_unreachable(FAILED_POLICY));
    own.chain(sources).chain(neighbours).chain([rest]).collect()
}

fn rule(link: LinkId, conditions: Vec<Vec<u8>>, verdict: Vec<u8>) -> Vec<Vec<u8>> {
    from_link(link).into_iter().chain(conditions).chain([verdict]).collect()
}

/// Matches neighbour solicitations and advertisements to `destination` only: a node uses the address in question as its
/// source, which may have expired (RFC 4861 §7.2.2, §7.2.4).
fn neighbour_discovery(destination: Prefix) -> Vec<Vec<u8>> {
    let message = [load_protocol(), equal(protocol::ICMPV6), load_icmp_type(), between(NEIGHBOUR_MESSAGES)];
    message.into_iter().chain(to_destination(destination)).collect()
}
