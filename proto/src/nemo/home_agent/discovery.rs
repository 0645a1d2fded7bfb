//! The home agents list, dynamic home agent address discovery and mobile prefix discovery. RFC 6275 §10.5 and §10.6,
//! RFC 3963 §7.

use super::HomeAgent;
use super::care_of::is_routable_unicast;
use super::types::HomeAgentTimer;
use crate::contract::config::nemo::Authentication;
use crate::{DropReason, Outbox, Time, TokenBucket, Transmit, VecMap, Via};
use core::cmp::Reverse;
use core::time::Duration;
use roam6_wire::icmp6::{MAX_HOME_AGENTS, Message, NeighbourOption, RouterAdvertisement};
use roam6_wire::ip6::{self, Datagram, Header, protocol};
use roam6_wire::{HomeAddress, Prefix};
use std::net::Ipv6Addr;

/// Maximum entries of the home agents list.
pub(super) const MAX_OTHER_HOME_AGENTS: usize = 64;

/// Rate limit of discovery replies and solicited advertisements.
const REPLIES_PER_SECOND: u32 = 50;

/// Minimum interval of prefix advertisements to one mobile router (RFC 6275 §10.6.2).
const PREFIX_ADVERTISEMENT_GAP: Duration = Duration::from_secs(1);

/// Maximum mobile routers whose last prefix advertisement is recorded.
const MAX_RECENT_ADVERTISEMENTS: usize = 1024;

/// The interface identifier of the home agents' anycast address (RFC 2526 §4).
const ANYCAST_IDENTIFIER: u64 = 0xfdff_ffff_ffff_fffe;

/// The home agents list, and recent prefix advertisements.
#[derive(Debug)]
pub(super) struct Discovery {
    home_agents: VecMap<Ipv6Addr, OtherHomeAgent>,
    recent_advertisements: VecMap<HomeAddress, Time>,
    /// Limits unauthenticated requests.
    pub limiter: TokenBucket,
}

/// Another home agent of the home link (RFC 6275 §10.1).
#[derive(Debug, Clone, PartialEq, Eq)]
struct OtherHomeAgent {
    addresses: Vec<Ipv6Addr>,
    preference: u16,
    router: bool,
    expires_at: Time,
}

impl Default for Discovery {
    fn default() -> Discovery {
        Discovery {
            home_agents: VecMap::new(),
            recent_advertisements: VecMap::new(),
            limiter: TokenBucket::per_second(REPLIES_PER_SECOND),
        }
    }
}

/// The home agents' anycast address of a home prefix.
pub(super) fn anycast(prefix: &Prefix) -> Option<Ipv6Addr> {
    prefix.with_identifier(ANYCAST_IDENTIFIER)
}

impl HomeAgent {
    /// Whether `address` is the home agents' anycast address of one of the home prefixes.
    pub(super) fn is_anycast(&self, address: Ipv6Addr) -> bool {
        self.config.home_prefixes.iter().any(|prefix| anycast(prefix) == Some(address))
    }

    /// Processes a Router Advertisement on the home link.
    pub(super) fn receive_router_advertisement(
        &mut self,
        now: Time,
        router: Ipv6Addr,
        advertisement: &RouterAdvertisement,
        out: &mut Outbox,
    ) {
        let mut other = OtherHomeAgent { addresses: Vec::new(), preference: 0, router: false, expires_at: now };
        let mut lifetime = advertisement.lifetime;
        for option in &advertisement.options {
            match option {
                NeighbourOption::HomeAgentInformation { router, preference, lifetime: of_agent } => {
                    (other.router, other.preference, lifetime) = (*router, *preference, *of_agent);
                }
                NeighbourOption::PrefixInformation { address, router_address: true, .. }
                    if is_routable_unicast(*address) && other.addresses.len() < MAX_HOME_AGENTS =>
                {
                    other.addresses.push(*address);
                }
                _ => {}
            }
        }
        if !advertisement.home_agent || lifetime == 0 || other.addresses.is_empty() {
            self.discovery.home_agents.remove(&router);
        } else if self.discovery.home_agents.len() < MAX_OTHER_HOME_AGENTS
            || self.discovery.home_agents.contains_key(&router)
        {
            other.expires_at = now + Duration::from_secs(lifetime.into());
            self.discovery.home_agents.insert(router, other);
        } else {
            out.report_full_table("home agents", MAX_OTHER_HOME_AGENTS);
        }
        self.schedule_home_agents();
    }

    /// Removes expired home agents.
    pub(super) fn expire_home_agents(&mut self, now: Time) {
        self.discovery.home_agents.retain(|_, other| other.expires_at > now);
        self.schedule_home_agents();
    }

    fn schedule_home_agents(&mut self) {
        match self.discovery.home_agents.values().map(|other| other.expires_at).min() {
            Some(at) => self.timers.set(HomeAgentTimer::HomeAgents, at),
            None => self.timers.cancel(&HomeAgentTimer::HomeAgents),
        }
    }

    /// Answers a Home Agent Address Discovery Request: by preference, equals in random order.
    pub(super) fn answer_discovery_request(
        &mut self,
        now: Time,
        from: Ipv6Addr,
        identifier: u16,
        router: bool,
        out: &mut Outbox,
    ) {
        if !is_routable_unicast(from) {
            return;
        }
        if !self.discovery.limiter.take(now) {
            return out.report_drop(DropReason::RateLimited, from, "Home Agent Address Discovery Request");
        }
        let mut ranked = vec![(Reverse(self.config.preference), self.entropy.next_u64(), self.config.address)];
        for other in self.discovery.home_agents.values().filter(|other| other.router || !router) {
            let random = self.entropy.next_u64();
            ranked.extend(other.addresses.iter().map(|address| (Reverse(other.preference), random, *address)));
        }
        ranked.sort();
        let addresses: Vec<Ipv6Addr> =
            ranked.into_iter().map(|(_, _, address)| address).take(MAX_HOME_AGENTS).collect();
        let reply = Message::HomeAgentReply { identifier, router, addresses };
        let header = Header::new(self.config.address, from);
        let bytes = ip6::emit(&header, protocol::ICMPV6, &reply.emit(self.config.address, from));
        out.transmit(Transmit { via: Via::Route, bytes });
    }

    /// Answers a Mobile Prefix Solicitation of a mobile router that is away, in ESP if IPsec is configured;
    /// `protected` if the solicitation was in ESP.
    pub(super) fn answer_prefix_solicitation(
        &mut self,
        now: Time,
        datagram: &Datagram<'_>,
        (identifier, protected): (u16, bool),
        out: &mut Outbox,
    ) {
        let Some(home) = datagram.home_address else { return };
        let Some(authentication) = self.prefix_table_row(HomeAddress(home)).map(|row| row.authentication.clone())
        else {
            return;
        };
        if matches!(authentication, Authentication::Ipsec(_)) && !protected {
            return out.report_drop(DropReason::NotAuthenticated, datagram.source, "Mobile Prefix Solicitation");
        }
        let recent = &mut self.discovery.recent_advertisements;
        recent.retain(|_, at| now.since(*at) < PREFIX_ADVERTISEMENT_GAP);
        if recent.contains_key(&HomeAddress(home)) || recent.len() >= MAX_RECENT_ADVERTISEMENTS {
            return out.report_drop(DropReason::RateLimited, datagram.source, "Mobile Prefix Solicitation");
        }
        recent.insert(HomeAddress(home), now);
        let options = self.prefix_options();
        let advertisement = Message::MobilePrefixAdvertisement { identifier, managed: false, other: false, options };
        let header = Header::new(self.config.address, datagram.source).with_routing_home(home);
        let message = advertisement.emit(header.real_source(), header.real_destination());
        let bytes = self.protect(&header, &authentication, (protocol::ICMPV6, &message));
        out.transmit(Transmit { via: Via::Route, bytes });
    }
}
