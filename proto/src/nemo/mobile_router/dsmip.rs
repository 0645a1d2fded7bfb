//! IPv4-only uplinks (DSMIPv6): an uplink without IPv6 is registered with an IPv4 care-of address, with UDP encapsulation
//! through NAT (RFC 5555 §4.1-4.4); beside others if the home agent registers several.

use super::MobileRouter;
use super::ipv4_uplink::Ipv4Uplink;
use super::mapping::Mapping;
use super::registration::{CareOf, DesiredRegistration, RefreshAdvice};
use super::udp6;
use super::uplink::Uplink;
use crate::contract::item::{Encap, TunnelPath};
use crate::contract::report::NemoReport;
use crate::nemo::dsmip::{NATKATIMEOUT, NO_KEEPALIVE, encapsulate, is_icmp4};
use crate::{AddressEvent, DropReason, LinkId, Outbox, Packet, Time, Transmit, Via};
use core::time::Duration;
use roam6_wire::ip4::{DSMIP_PORT, Encapsulated};
use roam6_wire::ip6::{Datagram, protocol};
use roam6_wire::mobility::{BindingAcknowledgement, MobilityOption};
use roam6_wire::{Bid, CareOfAddress, Ipv4Endpoint, icmp4, ip4};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Hold-down of an IPv6 path that did not work, also after a move (RFC 5555 §4.4.1).
const IPV6_HOLD_DOWN: Duration = Duration::from_secs(300);
/// Unanswered updates before the other family is tried (RFC 5555 §4.4.1).
const MAX_UNANSWERED: usize = 3;
/// Unanswered updates of one path before they are reported.
const REPORTED_UNANSWERED: u32 = 3;
/// Hold-down of a silent path that cannot be probed, because the home agent has another one.
const SILENT_HOLD_DOWN: Duration = Duration::from_secs(30);
/// Code of Destination Unreachable (RFC 792): a router would have to fragment the packet.
const FRAGMENTATION_NEEDED: u8 = 4;
/// Maximum IPv4 addresses of one interface.
const MAX_ADDRESSES: usize = 8;

/// The encapsulation, as the home agent has signalled last.
#[derive(Debug, Clone, Copy)]
pub(super) struct DsmipEncapsulation {
    /// In UDP, which a NAT or the home agent requires.
    udp: bool,
    /// There is a NAT.
    pub(super) behind_nat: bool,
    /// How often the NAT's mapping is to be refreshed.
    pub(super) keepalive: Option<Duration>,
    /// It was reported that updates over IPv4 are not answered.
    unanswered_reported: bool,
}

impl Default for DsmipEncapsulation {
    /// UDP, until the home agent signals otherwise: it always works.
    fn default() -> DsmipEncapsulation {
        DsmipEncapsulation { udp: true, behind_nat: false, keepalive: None, unanswered_reported: false }
    }
}

impl DsmipEncapsulation {
    /// Whether packets have to be in UDP.
    pub(super) fn is_udp(self) -> bool {
        self.udp
    }
}

impl CareOf {
    /// The IPv4 end, if it is an IPv4 care-of address.
    pub(super) fn ipv4(&self) -> Option<Ipv4Endpoint> {
        Ipv4Endpoint::from_ipv6(self.address.0)
    }
}

impl Uplink {
    /// Its IPv4 care-of address, if that is to be registered.
    pub(super) fn ipv4_care_of(&self) -> Option<CareOf> {
        let (bid, priority) = (self.config.bid, self.config.priority);
        let (address, link) = (self.ipv4.in_use().filter(|_| !self.is_barred())?, self.up()?);
        let udp = self.is_udp();
        Some(CareOf { bid, address, priority, link, prefix_length: 128, on_home_link: false, udp })
    }
}

impl MobileRouter {
    /// Processes an address event; IPv4 addresses arrive as IPv4-mapped ones.
    pub(super) fn receive_ipv4_address(&mut self, event: &AddressEvent) {
        let Some(address) = event.address.to_ipv4_mapped() else { return };
        let Some(uplink) = self.uplinks.iter_mut().find(|uplink| uplink.link() == Some(event.link)) else { return };
        let addresses = &mut uplink.ipv4.addresses;
        addresses.retain(|known| *known != address);
        let usable = event.state.is_usable() && Ipv4Endpoint::dsmip(address).is_unicast();
        if usable && addresses.len() < MAX_ADDRESSES {
            addresses.push(address);
        }
    }

    /// The IPv4 address of a home agent, if configured.
    pub(super) fn ipv4_of(&self, home_agent: Ipv6Addr) -> Option<Ipv4Addr> {
        let at = self.config.home_agents.iter().position(|address| *address == home_agent)?;
        self.config.home_agents_ipv4.get(at).copied()
    }

    /// Decides for each uplink whether IPv4 is used.
    pub(super) fn update_ipv4_uplinks(&mut self, now: Time, out: &mut Outbox) {
        if self.config.home_agents_ipv4.is_empty() {
            self.report_ipv4_only(out);
            return self.disable_ipv4_uplinks(now, out);
        }
        self.hold_down_unanswered_ipv6(now);
        self.report_unanswered(now, out);
        let served = self.home_agents.current(now).is_some_and(|home_agent| self.ipv4_of(home_agent).is_some());
        let several = self.registers_several();
        let native = !several && self.uplinks.iter().any(Uplink::has_usable_ipv6);
        let held: Vec<CareOf> = self.registration.binding().map(|held| held.care_of().to_vec()).unwrap_or_default();
        let mut regained = Vec::new();
        for uplink in &mut self.uplinks {
            uplink.ipv4.update_link(now, uplink.up());
            uplink.ipv4.expire(now, &mut uplink.prober);
            let lacks_ipv6 = uplink.care_of_address.is_none() && uplink.ipv4.wait_for_router_until.is_none()
                || uplink.ipv4.ipv6_hold_down_until.is_some();
            let stands_in = served && !native && lacks_ipv6 && uplink.is_up() && !uplink.on_home_link;
            let began = uplink.use_ipv4(now, stands_in, out);
            let own = uplink.ipv4_care_of();
            let registered = own.is_some_and(|own| held.iter().any(|care_of| care_of.is_same_address(&own)));
            match own.filter(|_| began) {
                Some(own) if registered => regained.push(own),
                Some(_) => uplink.ipv4.encapsulation = DsmipEncapsulation::default(),
                None => {}
            }
            let stuck = uplink.ipv4.in_use.is_some() && !registered && uplink.prober.is_silent();
            match (stuck, uplink.ipv4.silent_hold_down_until) {
                (true, None) => uplink.ipv4.silent_hold_down_until = Some(now + SILENT_HOLD_DOWN),
                (false, Some(_)) => uplink.ipv4.silent_hold_down_until = None,
                _ => {}
            }
        }
        // It may be another network, where a NAT has another mapping for an equal address.
        for care_of in regained {
            self.doubt_mapping(now, &care_of);
        }
    }

    /// Ends the use of IPv4, which is not configured or no longer.
    fn disable_ipv4_uplinks(&mut self, now: Time, out: &mut Outbox) {
        for uplink in self.uplinks.iter_mut().filter(|uplink| uplink.ipv4.up.is_some()) {
            uplink.use_ipv4(now, false, out);
            let addresses = core::mem::take(&mut uplink.ipv4.addresses);
            let was_reported = uplink.ipv4.ipv4_only_reported;
            uplink.ipv4 = Ipv4Uplink { addresses, ipv4_only_reported: was_reported, ..Ipv4Uplink::default() };
        }
    }

    /// After three unanswered updates over IPv6, IPv4 is tried if available (RFC 5555 §4.4.1).
    fn hold_down_unanswered_ipv6(&mut self, now: Time) {
        let unanswered = self
            .registration
            .find_unanswered(now, MAX_UNANSWERED)
            .and_then(DesiredRegistration::first_visited)
            .copied();
        if let Some(care_of) = unanswered.filter(|care_of| care_of.ipv4().is_none()) {
            let own = self.uplinks.iter_mut().find(|uplink| uplink.up() == Some(care_of.link));
            own.into_iter().for_each(|uplink| uplink.hold_down_ipv6(now));
        }
    }

    /// Reports once that updates over IPv4 are not answered, and the possible causes.
    fn report_unanswered(&mut self, now: Time, out: &mut Outbox) {
        let wanted = self.registration.find_unanswered(now, MAX_UNANSWERED);
        let sender = wanted.and_then(DesiredRegistration::first_visited).filter(|care_of| care_of.ipv4().is_some());
        let sender = sender.map(|care_of| care_of.link);
        let Some(address) = self.home_agents.in_use().and_then(|home_agent| self.ipv4_of(home_agent)) else { return };
        let unanswered = |uplink: &&mut Uplink| {
            uplink.ipv4.in_use.is_some()
                && (uplink.link() == sender || uplink.ipv4.mapping.unanswered > REPORTED_UNANSWERED)
        };
        let reported = |uplink: &Uplink| uplink.ipv4.encapsulation.unanswered_reported;
        let Some(uplink) = self.uplinks.iter_mut().filter(unanswered).find(|uplink| !reported(uplink)) else { return };
        uplink.ipv4.encapsulation.unanswered_reported = true;
        let name = &uplink.config.interface;
        let text = format!(
            "{name}: home agent {address} does not answer over IPv4: it needs [home_agent.ipv4], and firewalls on the way have to \
             let UDP port {DSMIP_PORT} through"
        );
        out.notice(text);
    }

    /// Whether `uplink` has IPv4 only and no home agent has an IPv4 address.
    pub(super) fn lacks_ipv4_home_agent(&self, uplink: &Uplink) -> bool {
        self.config.home_agents_ipv4.is_empty() && uplink.is_ipv4_only()
    }

    /// Reports such uplinks, once for each network.
    fn report_ipv4_only(&mut self, out: &mut Outbox) {
        for uplink in &mut self.uplinks {
            let lacking = uplink.is_ipv4_only() && uplink.is_router_discovery_unanswered();
            if lacking && !uplink.ipv4.ipv4_only_reported {
                let name = &uplink.config.interface;
                let text = format!("{name}: IPv4 only; set home_agents_ipv4 to use it");
                out.notice(text);
            }
            uplink.ipv4.ipv4_only_reported = lacking;
        }
    }

    /// An uplink's path went down or came up.
    pub(super) fn receive_path_change(&mut self, now: Time, (bid, silent): (Bid, bool)) {
        let enabled = !self.config.home_agents_ipv4.is_empty();
        let Some(uplink) = self.uplinks.iter_mut().find(|uplink| uplink.config.bid == bid).filter(|_| enabled) else {
            return;
        };
        let over_ipv4 = uplink.ipv4.in_use.is_some();
        if silent && (over_ipv4 || uplink.is_udp()) {
            uplink.ipv4.mapping.path_failed(now);
        }
        match (over_ipv4, silent) {
            (true, _) => {}
            (false, true) => uplink.hold_down_ipv6(now),
            (false, false) => uplink.ipv4.ipv6_hold_down_until = None,
        }
    }

    /// A probe was not answered: over IPv4, a NAT may have lost its mapping.
    pub(super) fn receive_missed_probe(&mut self, now: Time, care_of: Option<CareOf>) {
        if let Some(care_of) = care_of.filter(CareOf::is_observed) {
            self.doubt_mapping(now, &care_of);
        }
    }

    /// Whether the path of `uplink` is probed. An IPv4 path is probed only once it is registered, since no answer
    /// arrives before.
    pub(super) fn is_probed(&self, uplink: &Uplink) -> bool {
        let Some(care_of) = self.care_of_on(uplink).filter(|_| !self.is_spared(uplink)) else { return false };
        !care_of.is_observed() || self.is_held(&care_of)
    }

    /// The tunnel path over an IPv4 care-of address.
    pub(super) fn ipv4_path(&self, care_of: &CareOf, uplink: &Uplink, home_agent: Ipv6Addr) -> Option<TunnelPath> {
        let port = if uplink.ipv4.encapsulation.udp || care_of.udp { DSMIP_PORT } else { 0 };
        self.ipv4_path_at(care_of, uplink, home_agent, port)
    }

    /// The same in UDP with this port; 0: without UDP.
    fn ipv4_path_at(&self, care_of: &CareOf, uplink: &Uplink, home_agent: Ipv6Addr, port: u16) -> Option<TunnelPath> {
        let (own, address) = (care_of.ipv4()?, self.ipv4_of(home_agent)?);
        let (local, remote) = (Ipv4Endpoint { port, ..own }, Ipv4Endpoint { address, port });
        let mtu = uplink.mtu().saturating_sub(local.overhead());
        let (link, bid) = (Some(care_of.link), care_of.bid);
        Some(TunnelPath {
            bid,
            local: local.to_ipv6(),
            remote: remote.to_ipv6(),
            link,
            mtu,
            weight: 0,
            direct: false,
            encap: Encap::Native,
            dscp: None,
        })
    }

    /// Paths that only receive: the home agent chooses the encapsulation, and sends in it before its answer arrives. Until
    /// the first answer after a restart it may send to any address from before.
    pub(super) fn unanswered_ipv4_paths(&self) -> Vec<TunnelPath> {
        let served = self.registration.serving_home_agent().filter(|_| !self.encrypts());
        let Some(home_agent) = served else { return Vec::new() };
        let restarted = self.may_have_binding && self.registration.binding().is_none();
        let pending = self.registration.pending().map(DesiredRegistration::care_of).unwrap_or_default();
        let asked = self.path_update.iter().flat_map(|update| update.wanted.care_of());
        let asked: Vec<&CareOf> = pending.iter().chain(asked).collect();
        let paths_of = |uplink: &Uplink| {
            let (address, link) = (*uplink.ipv4.addresses.first()?, uplink.up()?);
            let address = CareOfAddress(Ipv4Endpoint::dsmip(address).to_ipv6());
            let (bid, priority) = (uplink.config.bid, uplink.config.priority);
            let udp = uplink.is_udp();
            let own = CareOf { bid, address, priority, link, prefix_length: 128, on_home_link: false, udp };
            let is_asked = asked.iter().any(|asked| asked.is_same_address(&own)) || self.is_held(&own);
            if !restarted && (!is_asked || uplink.ipv4.mapping.confirmed_at.is_some()) {
                return None;
            }
            Some([DSMIP_PORT, 0].map(|port| self.ipv4_path_at(&own, uplink, home_agent, port)))
        };
        self.uplinks.iter().filter_map(paths_of).flatten().flatten().collect()
    }

    /// Sends a signalling packet from `care_of`: in UDP if its data is, or if it is an IPv4 address.
    pub(super) fn transmit_via(&self, care_of: &CareOf, home_agent: Ipv6Addr, bytes: Vec<u8>) -> Option<Transmit> {
        let bytes = match care_of.ipv4() {
            None if care_of.udp => udp6::encapsulate(care_of.address.0, home_agent, &bytes),
            Some(own) => encapsulate(own, Ipv4Endpoint::dsmip(self.ipv4_of(home_agent)?), &bytes),
            None => bytes,
        };
        Some(Transmit { via: Via::Link(care_of.link), bytes })
    }

    /// A probe over an IPv4 path, encapsulated like data.
    pub(super) fn ipv4_probe(
        &self,
        care_of: &CareOf,
        uplink: &Uplink,
        home_agent: Ipv6Addr,
        inner: &[u8],
    ) -> Option<Transmit> {
        let path = self.ipv4_path(care_of, uplink, home_agent)?;
        let bytes = encapsulate(Ipv4Endpoint::from_ipv6(path.local)?, Ipv4Endpoint::from_ipv6(path.remote)?, inner);
        Some(Transmit { via: Via::Link(care_of.link), bytes })
    }

    /// Processes an IPv4 packet: only mobility messages from configured home agents are accepted.
    pub(super) fn receive_ipv4(&mut self, now: Time, packet: &Packet, out: &mut Outbox) {
        if self.config.home_agents_ipv4.is_empty() || self.uplink_on(packet.link).is_none() {
            return;
        }
        if is_icmp4(packet) {
            return self.receive_icmp4(now, packet, out);
        }
        let encapsulated = match Encapsulated::parse(&packet.bytes) {
            Ok(encapsulated) => encapsulated,
            Err(why) => return out.report_malformed(None, &why),
        };
        let from = Some(encapsulated.source.to_ipv6());
        let datagram = match Datagram::parse(encapsulated.inner) {
            Ok(datagram) => datagram,
            Err(why) => return out.report_malformed(from, &why),
        };
        let sender = self.ipv4_of(datagram.source).map(Ipv4Endpoint::dsmip);
        let ours = datagram.destination == self.config.home_address.0 && datagram.routing_home.is_none();
        match datagram.protocol {
            _ if !ours || sender != Some(encapsulated.source) => {
                out.report_drop(DropReason::NotForUs, from, "encapsulated in IPv4");
            }
            protocol::MOBILITY => self.receive_mobility(now, &datagram, false, out),
            protocol::ESP => self.receive_esp(now, &datagram, out),
            _ => {}
        }
    }

    /// Processes an ICMPv4 message: an answer of a home agent, or an error in the network.
    fn receive_icmp4(&mut self, now: Time, packet: &Packet, out: &mut Outbox) {
        let parse = |bytes| {
            let (header, payload) = ip4::Header::parse(bytes)?;
            Ok((header, icmp4::Message::parse(payload)?))
        };
        let (header, message) = match parse(&packet.bytes) {
            Ok(parsed) => parsed,
            Err(why) => return out.report_malformed(None, &why),
        };
        match message {
            icmp4::Message::EchoReply(echo) => {
                let answers = |agent: &Ipv6Addr| self.ipv4_of(*agent) == Some(header.source);
                let home_agent = self.config.home_agents.iter().copied().find(answers);
                if let Some(home_agent) = home_agent {
                    self.receive_alternate_echo(now, home_agent, &echo);
                }
            }
            icmp4::Message::Error {
                kind: icmp4::kind::DESTINATION_UNREACHABLE, code: FRAGMENTATION_NEEDED, ..
            } => {}
            icmp4::Message::Error { invoking, .. } => self.receive_icmp4_error(now, packet.link, &invoking),
            _ => {}
        }
    }

    /// An error that quotes a packet to the home agent's IPv4 address is a hint.
    fn receive_icmp4_error(&mut self, now: Time, link: LinkId, invoking: &[u8]) {
        let Some(quoted) = icmp4::QuotedPacket::parse(invoking) else { return };
        let in_use = self.home_agents.in_use().and_then(|home_agent| self.ipv4_of(home_agent));
        let own = self.uplink_on(link).is_some_and(|uplink| uplink.ipv4.in_use == Some(quoted.source));
        if own && in_use == Some(quoted.destination) {
            self.receive_hint(now, link);
        }
    }

    /// Evaluates the NAT Detection option, and returns when to refresh at the latest, so that a NAT keeps its mapping
    /// (RFC 5555 §3.2.2, §4.3).
    pub(super) fn receive_nat_detection(
        &mut self,
        now: Time,
        message: &BindingAcknowledgement,
        care_of: &CareOf,
        advice: Option<RefreshAdvice>,
    ) -> Option<RefreshAdvice> {
        let nat_detection = message.options.iter().find_map(|option| match option {
            MobilityOption::NatDetection { force_udp, refresh_seconds } => Some((*force_udp, *refresh_seconds)),
            _ => None,
        });
        let (force_udp, refresh) = nat_detection.unwrap_or((true, 0));
        let translated = refresh != NO_KEEPALIVE;
        let keepalive = if refresh == 0 { NATKATIMEOUT } else { Duration::from_secs(refresh.into()) };
        let is_ipv4 = care_of.ipv4().is_some();
        let asked = Some(keepalive).filter(|_| is_ipv4 && translated);
        let index = self.uplinks.iter().position(|uplink| uplink.link() == Some(care_of.link));
        let uplink = self.uplinks.get_mut(index?)?;
        uplink.ipv4.mapping.confirm(now);
        if is_ipv4 {
            uplink.ipv4.encapsulation = DsmipEncapsulation {
                udp: force_udp || translated,
                behind_nat: translated,
                keepalive: asked,
                unanswered_reported: false,
            };
        }
        let keepalive = asked.or_else(|| self.keepalive(self.uplinks.get(index?)?));
        let advised = advice.map(|RefreshAdvice(advice)| advice).filter(|advice| !advice.is_zero());
        match keepalive {
            Some(keepalive) => Some(RefreshAdvice(advised.map_or(keepalive, |advised| advised.min(keepalive)))),
            None => advice,
        }
    }
}

impl Uplink {
    /// Whether it has IPv4 addresses and no IPv6 router.
    fn is_ipv4_only(&self) -> bool {
        self.is_up() && !self.ipv4.addresses.is_empty() && self.router().is_none() && !self.has_router_without_prefix()
    }

    /// Whether IPv6 routers have had time to answer.
    fn is_router_discovery_unanswered(&self) -> bool {
        self.attachment.as_ref().is_some_and(|attachment| attachment.is_unanswered())
    }

    /// Whether its IPv6 path is usable.
    fn has_usable_ipv6(&self) -> bool {
        self.is_up() && self.care_of().is_some() && self.ipv4.ipv6_hold_down_until.is_none() && !self.prober.is_silent()
    }

    fn hold_down_ipv6(&mut self, now: Time) {
        if !self.ipv4.addresses.is_empty() && self.care_of_address.is_some() {
            self.ipv4.ipv6_hold_down_until = Some(now + IPV6_HOLD_DOWN);
        }
    }

    /// Sets its first IPv4 address as care-of address, or none; returns whether one begins to be used.
    fn use_ipv4(&mut self, now: Time, stands_in: bool, out: &mut Outbox) -> bool {
        let wanted = self.ipv4.addresses.first().copied().filter(|_| stands_in);
        if wanted == self.ipv4.in_use {
            return false;
        }
        let bid = self.config.bid;
        let before = self.ipv4.in_use();
        self.ipv4.in_use = wanted;
        self.ipv4.mapping = Mapping::default();
        let Some(link) = self.link() else { return wanted.is_some() };
        if let Some(before) = before {
            out.report(NemoReport::CareOfRemoved { link, bid, address: before.0 });
        }
        if let Some(after) = self.ipv4.in_use() {
            out.report(NemoReport::CareOfFormed { link, bid, address: after.0 });
        }
        self.path_mtu = None;
        match wanted.is_some() || self.care_of_address.is_some() {
            true => self.prober.restart(now),
            false => self.prober.stop(),
        }
        wanted.is_some()
    }
}
