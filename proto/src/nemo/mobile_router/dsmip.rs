//! IPv4-only uplinks (DSMIPv6): an IPv4 care-of address is the fallback where there is no IPv6, with UDP encapsulation
//! through NAT (RFC 5555 §4.1-4.4).

use super::MobileRouter;
use super::ipv4_uplink::Ipv4Uplink;
use super::registration::{CareOf, DesiredRegistration, RefreshAdvice};
use super::uplink::Uplink;
use crate::contract::item::TunnelPath;
use crate::contract::report::NemoReport;
use crate::nemo::dsmip::{NATKATIMEOUT, NO_KEEPALIVE, encapsulate};
use crate::{AddressEvent, DropReason, Outbox, Packet, Time, Transmit, Via};
use core::time::Duration;
use roam6_wire::ip4::{DSMIP_PORT, Encapsulated};
use roam6_wire::ip6::{Datagram, protocol};
use roam6_wire::mobility::{BindingAcknowledgement, MobilityOption};
use roam6_wire::{Bid, Ipv4Endpoint};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Hold-down of an IPv6 path that did not work, also after a move (RFC 5555 §4.4.1).
const IPV6_HOLD_DOWN: Duration = Duration::from_secs(300);
/// Unanswered updates before the other family is tried (RFC 5555 §4.4.1).
const MAX_UNANSWERED: usize = 3;
/// Hold-down of a silent path that cannot be probed, because the home agent has another one.
const SILENT_HOLD_DOWN: Duration = Duration::from_secs(30);
/// Maximum IPv4 addresses of one interface.
const MAX_ADDRESSES: usize = 8;

/// The encapsulation, as the home agent has signalled last.
#[derive(Debug, Clone, Copy)]
pub(super) struct DsmipEncapsulation {
    /// Over UDP.
    udp: bool,
    /// There is a NAT.
    pub(super) behind_nat: bool,
    /// It was reported that updates over IPv4 are not answered.
    unanswered_reported: bool,
}

impl Default for DsmipEncapsulation {
    /// UDP, until the home agent signals otherwise: it always works.
    fn default() -> DsmipEncapsulation {
        DsmipEncapsulation { udp: true, behind_nat: false, unanswered_reported: false }
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
        Some(CareOf { bid, address, priority, link, prefix_length: 128, on_home_link: false })
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
    fn ipv4_of(&self, home_agent: Ipv6Addr) -> Option<Ipv4Addr> {
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
        let native = self.uplinks.iter().any(|uplink| uplink.has_usable_ipv6() || self.reaches_home(uplink));
        let held: Vec<CareOf> = self.registration.binding().map(|held| held.care_of().to_vec()).unwrap_or_default();
        for uplink in &mut self.uplinks {
            uplink.ipv4.update_link(now, uplink.up());
            uplink.ipv4.expire(now, &mut uplink.prober);
            let lacks_ipv6 = uplink.care_of_address.is_none() && uplink.ipv4.wait_for_router_until.is_none()
                || uplink.ipv4.ipv6_hold_down_until.is_some();
            let stands_in = served && !native && lacks_ipv6 && uplink.is_up() && !uplink.on_home_link;
            uplink.use_ipv4(now, stands_in, out);
            let registered = held.iter().any(|care_of| Some(care_of.address) == uplink.ipv4.in_use());
            let stuck = uplink.ipv4.in_use.is_some() && !registered && uplink.prober.is_silent();
            match (stuck, uplink.ipv4.silent_hold_down_until) {
                (true, None) => uplink.ipv4.silent_hold_down_until = Some(now + SILENT_HOLD_DOWN),
                (false, Some(_)) => uplink.ipv4.silent_hold_down_until = None,
                _ => {}
            }
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
        if self.dsmip.unanswered_reported {
            return;
        }
        let wanted = self.registration.find_unanswered(now, MAX_UNANSWERED);
        let encapsulated =
            wanted.filter(|wanted| wanted.first_visited().is_some_and(|care_of| care_of.ipv4().is_some()));
        let Some(address) = encapsulated.and_then(|wanted| self.ipv4_of(wanted.home_agent)) else { return };
        self.dsmip.unanswered_reported = true;
        let text = format!(
            "home agent {address} does not answer over IPv4: it needs [home_agent.ipv4], and firewalls on the way have to \
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

    /// An uplink's IPv6 path went down or came up.
    pub(super) fn receive_path_change(&mut self, now: Time, (bid, silent): (Bid, bool)) {
        let enabled = !self.config.home_agents_ipv4.is_empty();
        let native = |uplink: &&mut Uplink| uplink.config.bid == bid && uplink.ipv4.in_use.is_none();
        let Some(uplink) = self.uplinks.iter_mut().find(native).filter(|_| enabled) else { return };
        match silent {
            true => uplink.hold_down_ipv6(now),
            false => uplink.ipv4.ipv6_hold_down_until = None,
        }
    }

    /// A probe over IPv4 was not answered: a NAT may have lost its mapping, and the home agent would not accept
    /// another. An update reports it, once for each outage.
    pub(super) fn receive_missed_probe(&mut self, now: Time, care_of: Option<CareOf>) {
        if care_of.is_some_and(|care_of| care_of.ipv4().is_some()) && self.hint_limiter.take(now) {
            self.registration.verify_binding(now);
        }
    }

    /// Whether the path of `uplink` is probed. An IPv4 path is probed only once it is registered, since no answer
    /// arrives before.
    pub(super) fn is_probed(&self, uplink: &Uplink) -> bool {
        let Some(care_of) = self.care_of_on(uplink).filter(|_| !self.is_spared(uplink)) else { return false };
        let held = self.registration.binding().map(|binding| binding.care_of()).unwrap_or_default();
        care_of.ipv4().is_none() || held.iter().any(|held| held.address == care_of.address)
    }

    /// The tunnel path over an IPv4 care-of address.
    pub(super) fn ipv4_path(&self, care_of: &CareOf, uplink: &Uplink, home_agent: Ipv6Addr) -> Option<TunnelPath> {
        let (own, address) = (care_of.ipv4()?, self.ipv4_of(home_agent)?);
        let port = if self.dsmip.udp { DSMIP_PORT } else { 0 };
        let (local, remote) = (Ipv4Endpoint { port, ..own }, Ipv4Endpoint { address, port });
        let mtu = uplink.mtu().saturating_sub(local.overhead());
        let (link, bid) = (Some(care_of.link), care_of.bid);
        Some(TunnelPath { bid, local: local.to_ipv6(), remote: remote.to_ipv6(), link, mtu, weight: 0, direct: false })
    }

    /// Sends a signalling packet from `care_of`, in UDP if that is an IPv4 address, whatever the encapsulation of
    /// data.
    pub(super) fn transmit_via(&self, care_of: &CareOf, home_agent: Ipv6Addr, bytes: Vec<u8>) -> Option<Transmit> {
        let bytes = match care_of.ipv4() {
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

    /// Evaluates the NAT Detection option, and returns when to refresh at the latest, so that a NAT keeps its mapping
    /// (RFC 5555 §3.2.2, §4.3).
    pub(super) fn receive_nat_detection(
        &mut self,
        message: &BindingAcknowledgement,
        held: &DesiredRegistration,
        advice: Option<RefreshAdvice>,
    ) -> Option<RefreshAdvice> {
        held.first_visited().and_then(CareOf::ipv4)?;
        let nat_detection = message.options.iter().find_map(|option| match option {
            MobilityOption::NatDetection { force_udp, refresh_seconds } => Some((*force_udp, *refresh_seconds)),
            _ => None,
        });
        let (force_udp, refresh) = nat_detection.unwrap_or((true, 0));
        let translated = refresh != NO_KEEPALIVE;
        self.dsmip =
            DsmipEncapsulation { udp: force_udp || translated, behind_nat: translated, unanswered_reported: false };
        let keepalive = if refresh == 0 { NATKATIMEOUT } else { Duration::from_secs(refresh.into()) };
        let advised = advice.map(|RefreshAdvice(advice)| advice).filter(|advice| !advice.is_zero());
        if !translated {
            return advice;
        }
        Some(RefreshAdvice(advised.map_or(keepalive, |advised| advised.min(keepalive))))
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

    /// Sets its first IPv4 address as care-of address, or none.
    fn use_ipv4(&mut self, now: Time, stands_in: bool, out: &mut Outbox) {
        let wanted = self.ipv4.addresses.first().copied().filter(|_| stands_in);
        if wanted == self.ipv4.in_use {
            return;
        }
        let bid = self.config.bid;
        let before = self.ipv4.in_use();
        self.ipv4.in_use = wanted;
        let Some(link) = self.link() else { return };
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
    }
}
