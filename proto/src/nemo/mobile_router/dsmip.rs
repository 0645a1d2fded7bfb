//! Uplinks that have IPv4 only: an IPv4 care-of address stands in where there is no IPv6, its packets are carried by UDP
//! through whatever NAT there is (RFC 5555 §4.1-4.4).

use super::MobileRouter;
use super::dispatch::drop_malformed;
use super::probe::Prober;
use super::registration::{CareOf, DesiredRegistration, RefreshAdvice};
use super::uplink::Uplink;
use crate::base::ids::LinkId;
use crate::base::time::Time;
use crate::contract::engine::Outbox;
use crate::contract::input::{AddressEvent, Packet};
use crate::contract::item::TunnelPath;
use crate::contract::output::{Transmit, Via};
use crate::contract::report::{DropReason, Report};
use crate::nemo::dsmip::{NATKATIMEOUT, NO_KEEPALIVE, encapsulate};
use core::time::Duration;
use roam6_wire::ip4::{DSMIP_PORT, Encapsulated};
use roam6_wire::ip6::{Datagram, protocol};
use roam6_wire::mobility::{BindingAcknowledgement, MobilityOption};
use roam6_wire::{Bid, CareOfAddress, Ipv4Endpoint};
use std::net::{Ipv4Addr, Ipv6Addr};

/// IPv6 is preferred (RFC 5555 §4.4.1): a router of the link has so long to answer our solicitation (RFC 4861 §6.2.6).
const ROUTER_WAIT: Duration = Duration::from_millis(500);
/// A path over IPv6 that did not work is not tried again for so long, also not after a move (RFC 5555 §4.4.1).
const IPV6_HOLD_DOWN: Duration = Duration::from_secs(300);
/// Updates without an answer after which the other family is tried (RFC 5555 §4.4.1).
const MAX_UNANSWERED: usize = 3;
/// A path that fell silent while nobody can probe it, since the home agent holds another, is believed again after this.
const SILENT_HOLD_DOWN: Duration = Duration::from_secs(30);
/// IPv4 addresses of one interface that are remembered.
const MAX_ADDRESSES: usize = 8;

/// The IPv4 side of an uplink.
#[derive(Debug, Default, Clone)]
pub struct Ipv4Uplink {
    /// Its addresses, in the order in which they came.
    addresses: Vec<Ipv4Addr>,
    /// The one in use as care-of address.
    in_use: Option<Ipv4Addr>,
    /// The link it is on, while that is up.
    up: Option<LinkId>,
    /// Until when the link may still show a router of IPv6.
    wait_for_router_until: Option<Time>,
    /// Until when its IPv6 is not to be relied upon.
    ipv6_hold_down_until: Option<Time>,
    /// When a silent path that cannot be probed is believed again.
    silent_hold_down_until: Option<Time>,
    /// The operator was told that IPv4 alone is of no use here.
    ipv4_only_reported: bool,
}

/// How packets are carried, as the home agent has said last.
#[derive(Debug, Clone, Copy)]
pub(super) struct DsmipEncapsulation {
    /// Over UDP.
    udp: bool,
    /// There is a NAT.
    pub(super) behind_nat: bool,
    /// The operator was told that updates over IPv4 are not answered.
    unanswered_reported: bool,
}

impl Default for DsmipEncapsulation {
    /// Until it is known, what always works.
    fn default() -> DsmipEncapsulation {
        DsmipEncapsulation { udp: true, behind_nat: false, unanswered_reported: false }
    }
}

impl CareOf {
    /// The IPv4 care-of address, if it is one.
    pub(super) fn ipv4(&self) -> Option<Ipv4Endpoint> {
        Ipv4Endpoint::from_ipv6(self.address.0)
    }
}

impl Ipv4Uplink {
    /// Whether the interface has this address.
    pub(super) fn has(&self, address: CareOfAddress) -> bool {
        Ipv4Endpoint::from_ipv6(address.0).is_some_and(|end| self.addresses.contains(&end.address))
    }

    /// The care-of address in use, written as an end over UDP.
    pub(super) fn in_use(&self) -> Option<CareOfAddress> {
        self.in_use.map(|address| CareOfAddress(Ipv4Endpoint::dsmip(address).to_ipv6()))
    }

    /// When [`Ipv4Side::expire`] has something to do.
    pub(super) fn deadline(&self) -> Option<Time> {
        [self.wait_for_router_until, self.ipv6_hold_down_until, self.silent_hold_down_until].into_iter().flatten().min()
    }

    /// Notes whether the link is up: from then on its routers have time to show.
    fn update_link(&mut self, now: Time, up: Option<LinkId>) {
        if self.up != up {
            self.up = up;
            self.wait_for_router_until = up.map(|_| now + ROUTER_WAIT);
        }
    }

    fn expire(&mut self, now: Time, prober: &mut Prober) {
        self.wait_for_router_until.take_if(|at| *at <= now);
        self.ipv6_hold_down_until.take_if(|at| *at <= now);
        if self.silent_hold_down_until.take_if(|at| *at <= now).is_some() {
            prober.restart(now);
        }
    }
}

impl Uplink {
    /// Its IPv4 care-of address, if it is to be registered with that.
    pub(super) fn ipv4_care_of(&self) -> Option<CareOf> {
        let (bid, priority) = (self.config.bid, self.config.priority);
        let (address, link) = (self.ipv4.in_use()?, self.up()?);
        Some(CareOf { bid, address, priority, link, prefix_length: 128, on_home_link: false })
    }
}

impl MobileRouter {
    /// An address of an interface came or went; those of IPv4 are told as IPv4-mapped ones.
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

    /// The IPv4 address of a home agent, if it is told.
    fn ipv4_of(&self, home_agent: Ipv6Addr) -> Option<Ipv4Addr> {
        let at = self.config.home_agents.iter().position(|address| *address == home_agent)?;
        self.config.home_agents_ipv4.get(at).copied()
    }

    /// Decides for each uplink whether IPv4 stands in.
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

    /// IPv4 is not configured, or not any longer.
    fn disable_ipv4_uplinks(&mut self, now: Time, out: &mut Outbox) {
        for uplink in self.uplinks.iter_mut().filter(|uplink| uplink.ipv4.up.is_some()) {
            uplink.use_ipv4(now, false, out);
            let addresses = core::mem::take(&mut uplink.ipv4.addresses);
            let told_useless = uplink.ipv4.ipv4_only_reported;
            uplink.ipv4 = Ipv4Uplink { addresses, ipv4_only_reported: told_useless, ..Ipv4Uplink::default() };
        }
    }

    /// After three updates over IPv6 that nobody answered IPv4 is tried, if there is any (RFC 5555 §4.4.1).
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

    /// Updates over IPv4 remain unanswered: the operator is told once what to look at.
    fn report_unanswered(&mut self, now: Time, out: &mut Outbox) {
        if self.dsmip.unanswered_reported {
            return;
        }
        let wanted = self.registration.find_unanswered(now, MAX_UNANSWERED);
        let carried = wanted.filter(|wanted| wanted.first_visited().is_some_and(|care_of| care_of.ipv4().is_some()));
        let Some(address) = carried.and_then(|wanted| self.ipv4_of(wanted.home_agent)) else { return };
        self.dsmip.unanswered_reported = true;
        let text = format!(
            "home agent {address} does not answer over IPv4: it needs [home_agent.ipv4], and firewalls on the way have to \
             let UDP port {DSMIP_PORT} through"
        );
        out.report(Report::Notice { text });
    }

    /// Whether `uplink` has IPv4 alone, which is of no use without the IPv4 address of a home agent.
    pub(super) fn lacks_ipv4_home_agent(&self, uplink: &Uplink) -> bool {
        self.config.home_agents_ipv4.is_empty() && uplink.is_ipv4_only()
    }

    /// Tells the operator of such uplinks, once for each network.
    fn report_ipv4_only(&mut self, out: &mut Outbox) {
        for uplink in &mut self.uplinks {
            let lacking = uplink.is_ipv4_only() && uplink.is_router_discovery_unanswered();
            if lacking && !uplink.ipv4.ipv4_only_reported {
                let name = &uplink.config.interface;
                let text = format!("{name}: IPv4 only; set home_agents_ipv4 to use it");
                out.report(Report::Notice { text });
            }
            uplink.ipv4.ipv4_only_reported = lacking;
        }
    }

    /// An uplink's path over IPv6 no longer answers, or does again.
    pub(super) fn receive_path_change(&mut self, now: Time, (bid, silent): (Bid, bool)) {
        let enabled = !self.config.home_agents_ipv4.is_empty();
        let native = |uplink: &&mut Uplink| uplink.config.bid == bid && uplink.ipv4.in_use.is_none();
        let Some(uplink) = self.uplinks.iter_mut().find(native).filter(|_| enabled) else { return };
        match silent {
            true => uplink.hold_down_ipv6(now),
            false => uplink.ipv4.ipv6_hold_down_until = None,
        }
    }

    /// A probe by an IPv4 path was not answered: a NAT may have lost its mapping, and the home agent would not know us by
    /// another. An update tells it, once for each silence.
    pub(super) fn receive_missed_probe(&mut self, now: Time, care_of: Option<CareOf>) {
        if care_of.is_some_and(|care_of| care_of.ipv4().is_some()) && self.hint_limiter.take(now) {
            self.registration.verify_binding(now);
        }
    }

    /// Care-of addresses of one family: IPv4 stands in while no uplink has IPv6, by one uplink alone, since an update shows
    /// the home agent no more than the mapping it comes by itself.
    pub(super) fn retain_one_family(care_of: &mut Vec<CareOf>) {
        if care_of.iter().any(|care_of| care_of.ipv4().is_none()) {
            care_of.retain(|care_of| care_of.ipv4().is_none());
        } else {
            care_of.truncate(1);
        }
    }

    /// Whether the path of `uplink` is probed: one over IPv4 only once the home agent knows its end, or nothing comes back.
    pub(super) fn is_probed(&self, uplink: &Uplink) -> bool {
        let Some(care_of) = self.care_of_on(uplink) else { return false };
        let held = self.registration.binding().map(|binding| binding.care_of()).unwrap_or_default();
        care_of.ipv4().is_none() || held.iter().any(|held| held.address == care_of.address)
    }

    /// The path of the tunnel by an IPv4 care-of address.
    pub(super) fn ipv4_path(&self, care_of: &CareOf, uplink: &Uplink, home_agent: Ipv6Addr) -> Option<TunnelPath> {
        let (own, address) = (care_of.ipv4()?, self.ipv4_of(home_agent)?);
        let port = if self.dsmip.udp { DSMIP_PORT } else { 0 };
        let (local, remote) = (Ipv4Endpoint { port, ..own }, Ipv4Endpoint { address, port });
        let mtu = uplink.mtu().saturating_sub(local.overhead());
        let (link, bid) = (Some(care_of.link), care_of.bid);
        Some(TunnelPath { bid, local: local.to_ipv6(), remote: remote.to_ipv6(), link, mtu, weight: 0, direct: false })
    }

    /// A signalling packet as it leaves by `care_of`: carried by UDP if that is an IPv4 one, whatever data is carried by.
    pub(super) fn transmit_via(&self, care_of: &CareOf, home_agent: Ipv6Addr, bytes: Vec<u8>) -> Option<Transmit> {
        let bytes = match care_of.ipv4() {
            Some(own) => encapsulate(own, Ipv4Endpoint::dsmip(self.ipv4_of(home_agent)?), &bytes),
            None => bytes,
        };
        Some(Transmit { via: Via::Link(care_of.link), bytes })
    }

    /// A probe as it leaves by an IPv4 path: the way data goes.
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

    /// Takes an IPv4 packet: only home agents of ours have something to say by one, and only mobility messages.
    pub(super) fn receive_ipv4(&mut self, now: Time, packet: &Packet, out: &mut Outbox) {
        if self.config.home_agents_ipv4.is_empty() || self.uplink_on(packet.link).is_none() {
            return;
        }
        let carried = match Encapsulated::parse(&packet.bytes) {
            Ok(carried) => carried,
            Err(why) => return drop_malformed(None, why, out),
        };
        let from = Some(carried.source.to_ipv6());
        let datagram = match Datagram::parse(carried.inner) {
            Ok(datagram) => datagram,
            Err(why) => return drop_malformed(from, why, out),
        };
        let sender = self.ipv4_of(datagram.source).map(Ipv4Endpoint::dsmip);
        let ours = datagram.destination == self.config.home_address.0 && datagram.routing_home.is_none();
        match datagram.protocol {
            _ if !ours || sender != Some(carried.source) => {
                let detail = "carried by IPv4".to_owned();
                out.report(Report::Dropped { reason: DropReason::NotForUs, from, detail });
            }
            protocol::MOBILITY => self.receive_mobility(now, &datagram, false, out),
            protocol::ESP => self.receive_esp(now, &datagram, out),
            _ => {}
        }
    }

    /// What an acknowledgement says of the way an update over IPv4 has taken; and when to refresh it at the latest, lest a
    /// NAT forget it (RFC 5555 §3.2.2, §4.3).
    pub(super) fn receive_nat_detection(
        &mut self,
        message: &BindingAcknowledgement,
        held: &DesiredRegistration,
        advice: Option<RefreshAdvice>,
    ) -> Option<RefreshAdvice> {
        held.first_visited().and_then(CareOf::ipv4)?;
        let told = message.options.iter().find_map(|option| match option {
            MobilityOption::NatDetection { force_udp, refresh_seconds } => Some((*force_udp, *refresh_seconds)),
            _ => None,
        });
        let (force_udp, refresh) = told.unwrap_or((true, 0));
        let translated = refresh != NO_KEEPALIVE;
        self.dsmip =
            DsmipEncapsulation { udp: force_udp || translated, behind_nat: translated, unanswered_reported: false };
        let keepalive = if refresh == 0 { NATKATIMEOUT } else { Duration::from_secs(refresh.into()) };
        let asked = advice.map(|RefreshAdvice(advice)| advice).filter(|advice| !advice.is_zero());
        if !translated {
            return advice;
        }
        Some(RefreshAdvice(asked.map_or(keepalive, |asked| asked.min(keepalive))))
    }
}

impl Uplink {
    /// Whether it has IPv4 addresses, and no router of IPv6.
    fn is_ipv4_only(&self) -> bool {
        self.is_up() && !self.ipv4.addresses.is_empty() && self.router().is_none() && !self.has_router_without_prefix()
    }

    /// Whether its routers of IPv6 have had the time to answer.
    fn is_router_discovery_unanswered(&self) -> bool {
        self.attachment.as_ref().is_some_and(|attachment| attachment.is_unanswered())
    }

    /// Whether its IPv6 can be relied upon.
    fn has_usable_ipv6(&self) -> bool {
        self.is_up() && self.care_of().is_some() && self.ipv4.ipv6_hold_down_until.is_none() && !self.prober.is_silent()
    }

    fn hold_down_ipv6(&mut self, now: Time) {
        if !self.ipv4.addresses.is_empty() && self.care_of_address.is_some() {
            self.ipv4.ipv6_hold_down_until = Some(now + IPV6_HOLD_DOWN);
        }
    }

    /// Uses its first IPv4 address as care-of address, or none.
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
            out.report(Report::CareOfRemoved { link, bid, address: before.0 });
        }
        if let Some(after) = self.ipv4.in_use() {
            out.report(Report::CareOfFormed { link, bid, address: after.0 });
        }
        self.path_mtu = None;
        match wanted.is_some() || self.care_of_address.is_some() {
            true => self.prober.restart(now),
            false => self.prober.stop(),
        }
    }
}
