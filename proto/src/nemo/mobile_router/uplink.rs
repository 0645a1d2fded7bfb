//! Uplinks: egress interfaces that attach to visited networks, from carrier-up to a care-of address (RFC 6275 §11.5.2,
//! §11.5.3).

use super::care_of_address::{AddressLease, Assignment, FormedAddress};
use super::data_plan::Usage;
use super::interception::PortalWatch;
use super::ipv4_uplink::Ipv4Uplink;
use super::path_mtu_search::PathMtuSearch;
use super::path_traffic::PathTraffic;
use super::probe::Prober;
use super::registration::CareOf;
use super::suspicion::Suspicion;
use super::transport::UplinkTransport;
use crate::contract::config::nemo as config;
use crate::contract::config::nemo::DadMode;
use crate::contract::report::{LinkReport, NemoReport};
use crate::link::dad::DadProbe;
use crate::link::router_discovery::Attachment;
use crate::{Entropy, LinkEvent, LinkId, Outbox, Time};
use core::time::Duration;
use roam6_wire::ip6::MINIMUM_MTU;
use roam6_wire::{CareOfAddress, HomeAddress, LinkAddress, Prefix};
use std::net::Ipv6Addr;

/// Maximum former addresses.
const MAX_FORMER_ADDRESSES: usize = 8;
/// Addresses tried in one prefix before a pause.
const MAX_DAD_ATTEMPTS: u8 = 3;
/// Time for which a router is used after its path went down, before another one of the link is tried; it doubles each
/// time. By then another home agent would have answered if the home agent were at fault.
const ROUTER_TIMEOUT: Duration = Duration::from_secs(4);
/// Pause after duplicate address detection failed for all of them; it doubles up to the maximum (RFC 4862 §5.4.5
/// leaves it to the operator, whom a vehicle does not have; RFC 7217 §6 requires other identifiers).
const INITIAL_DAD_RETRY: Duration = Duration::from_secs(10);
const MAX_DAD_RETRY: Duration = Duration::from_secs(300);

/// The state of an uplink.
#[derive(Debug, Default, Clone)]
pub struct Uplink {
    /// Its configuration.
    pub config: config::UplinkConfig,
    /// The interface, once it exists.
    pub interface: Option<Interface>,
    /// Router discovery on its link, while it is up.
    pub attachment: Option<Attachment>,
    /// The address in use or in detection.
    pub care_of_address: Option<FormedAddress>,
    /// The DHCPv6 address lease, if the router in use has the M flag.
    pub(super) lease: Option<AddressLease>,
    /// It was reported that no router of the link provides an address.
    pub(super) router_without_prefix_reported: bool,
    /// Addresses since the link came up, the latest last: a former one may still receive.
    former_addresses: Vec<CareOfAddress>,
    /// Whether it is on the home link.
    pub on_home_link: bool,
    /// The probes of its path.
    pub prober: Prober,
    /// Whether its path carries traffic.
    pub(super) traffic: PathTraffic,
    /// Whether its path may have failed, by its traffic.
    pub(super) suspicion: Suspicion,
    /// Path MTU from Packet Too Big, octets, and its expiry.
    pub path_mtu: Option<(u32, Time)>,
    /// Path MTU discovery by probes.
    pub mtu_search: PathMtuSearch,
    /// When a probe was last answered through the tunnel.
    pub last_tunnelled_reply: Option<Time>,
    /// Its IPv4 state.
    pub ipv4: Ipv4Uplink,
    /// What its packets are encapsulated in.
    pub(super) transport: UplinkTransport,
    /// Whether its network intercepts connections.
    pub(super) portal: PortalWatch,
    /// Its traffic, by the counters of the interface.
    pub(super) usage: Usage,
    /// Number of unsuccessful switches to another router of the link.
    router_switches: u32,
    /// How often all addresses tried on this link failed duplicate address detection; 0 once one succeeded.
    dad_failures: u32,
}

/// A network interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Which.
    pub link: LinkId,
    /// Its link-layer address.
    pub address: Option<LinkAddress>,
    /// Administratively up, with carrier.
    pub up: bool,
    /// Octets.
    pub mtu: u32,
}

impl Interface {
    /// The interface of `event`.
    pub fn of(event: &LinkEvent) -> Interface {
        Interface { link: event.link, address: event.address, up: event.up, mtu: event.mtu }
    }
}

impl Uplink {
    /// An uplink whose interface has not appeared yet.
    pub fn new(config: config::UplinkConfig) -> Uplink {
        Uplink { config, ..Uplink::default() }
    }

    /// The interface's index.
    pub fn link(&self) -> Option<LinkId> {
        self.interface.as_ref().map(|interface| interface.link)
    }

    /// The interface's index, while it is up.
    pub fn up(&self) -> Option<LinkId> {
        self.interface.as_ref().filter(|interface| interface.up).map(|interface| interface.link)
    }

    /// Whether the interface is up.
    pub fn is_up(&self) -> bool {
        self.up().is_some()
    }

    /// The care-of address to register, with BID and priority of this uplink; none beyond a data plan that forbids it.
    pub fn care_of(&self) -> Option<CareOf> {
        self.formed_care_of().filter(|_| !self.is_barred())
    }

    /// The care-of address, with BID and priority of this uplink.
    pub(super) fn formed_care_of(&self) -> Option<CareOf> {
        let formed = self.care_of_address.as_ref().filter(|formed| formed.usable)?;
        Some(CareOf {
            bid: self.config.bid,
            address: formed.address,
            priority: self.config.priority,
            link: self.link()?,
            prefix_length: formed.prefix_length(),
            on_home_link: false,
            udp: self.is_udp(),
        })
    }

    /// Whether packets to `address` may still arrive here.
    pub fn had_address(&self, address: CareOfAddress) -> bool {
        self.is_up() && (self.former_addresses.contains(&address) || self.ipv4.has(address))
    }

    /// Processes a link event; a re-plugged interface starts from scratch.
    pub fn receive_link_event(
        &mut self,
        now: Time,
        event: &LinkEvent,
        (home, entropy): (Prefix, &mut Entropy),
        out: &mut Outbox,
    ) {
        let before = self.interface.replace(Interface::of(event));
        self.usage.read_soon(now);
        let was_up = before.as_ref().is_some_and(|interface| interface.up && interface.link == event.link);
        let same_address = before.is_some_and(|interface| interface.address == event.address);
        if was_up && event.up && same_address {
            return;
        }
        if was_up {
            self.leave_link(out);
            out.report(LinkReport::LinkDown { link: event.link, name: event.name.clone() });
        }
        if event.up {
            out.report(LinkReport::LinkUp { link: event.link, name: event.name.clone() });
            let mut attachment = Attachment::new(now, (event.link, event.address), home, entropy);
            attachment.expire(now, out);
            self.attachment = Some(attachment);
        }
    }

    /// Removes all state of the former link.
    fn leave_link(&mut self, out: &mut Outbox) {
        self.attachment = None;
        self.lease = None;
        self.router_without_prefix_reported = false;
        self.former_addresses.clear();
        self.on_home_link = false;
        self.forget_path();
        (self.dad_failures, self.router_switches) = (0, 0);
        self.prober.stop();
        self.drop_address(out);
    }

    /// Updates the care-of address after router discovery. `home` is the home address, and the home link's prefix if
    /// there is a home link, on which no care-of address is formed (RFC 6275 §11.5.2).
    pub fn update_address(
        &mut self,
        now: Time,
        home: (HomeAddress, Option<Prefix>),
        policy: AddressPolicy<'_>,
        out: &mut Outbox,
    ) {
        let Some(attachment) = &self.attachment else {
            return;
        };
        self.on_home_link = home.1.is_some_and(|prefix| {
            let found = attachment.find_on_link(now, home.0.0);
            found.is_some_and(|(_, known)| prefix.covers(known.prefix) || known.prefix == prefix)
        });
        self.update_lease(now, home.0, &mut *policy.entropy, policy.own, out);
        self.report_router_without_prefix(out);
        let Some(assignment) = self.assignment(now).filter(|_| !self.on_home_link) else {
            self.drop_address(out);
            return;
        };
        let Assignment { prefix, on_link, router, valid_until, .. } = assignment;
        if let Some(formed) = self.care_of_address.as_mut().filter(|formed| assignment.matches(formed)) {
            formed.on_link = on_link;
            formed.router = router;
            formed.valid_until = valid_until;
            if formed.retry_at.take_if(|at| *at <= now).is_some() {
                formed.dad_attempts = 0;
                self.form_other_address(now, policy, out);
            }
            return;
        }
        self.drop_address(out);
        let identifier = self.interface.as_ref().and_then(|interface| interface.address);
        let mut form = || {
            let identifier = identifier.map_or_else(|| policy.entropy.next_u64(), LinkAddress::interface_identifier);
            prefix.with_identifier(identifier)
        };
        let Some(address) = assignment.address.or_else(&mut form) else {
            return;
        };
        self.care_of_address = Some(FormedAddress {
            address: CareOfAddress(address),
            prefix,
            on_link,
            router,
            valid_until,
            usable: false,
            dad: None,
            dad_attempts: 0,
            retry_at: None,
        });
        self.start_address(now, policy.detection, out);
    }

    /// Duplicate address detection failed: the address is dropped at once and another identifier tried (RFC 4862
    /// §5.4.5, RFC 4429 §3.3).
    pub fn dad_failed(&mut self, now: Time, address: Ipv6Addr, policy: AddressPolicy<'_>, out: &mut Outbox) {
        let Some(link) = self.link() else {
            return;
        };
        let Some(formed) = self.care_of_address.as_mut().filter(|formed| formed.address.0 == address) else {
            return;
        };
        out.report(LinkReport::DuplicateAddress { link, address });
        formed.dad_attempts = formed.dad_attempts.saturating_add(1);
        formed.usable = false;
        formed.dad = None;
        let is_assigned = self.config.address.is_some() || self.lease.is_some();
        if formed.dad_attempts < MAX_DAD_ATTEMPTS && !is_assigned {
            return self.form_other_address(now, policy, out);
        }
        let pause = INITIAL_DAD_RETRY.saturating_mul(1 << self.dad_failures.min(8)).min(MAX_DAD_RETRY);
        formed.retry_at = Some(now + pause);
        if self.dad_failures == 0 {
            let text = format!(
                "{}: duplicate address detection failed for every address tried in {}; the next attempt is in {} s",
                self.config.interface,
                formed.prefix,
                pause.as_secs()
            );
            out.notice(text);
        }
        self.dad_failures = self.dad_failures.saturating_add(1);
    }

    /// Forms another address in the same prefix, with an unpredictable identifier (RFC 4862 §5.4.5, RFC 7217 §6).
    fn form_other_address(&mut self, now: Time, policy: AddressPolicy<'_>, out: &mut Outbox) {
        let identifier = policy.entropy.next_u64() & !UNIVERSAL_BIT;
        let is_assigned = self.config.address.is_some() || self.lease.is_some();
        let Some(formed) = &mut self.care_of_address else { return };
        let other = if is_assigned { Some(formed.address.0) } else { formed.prefix.with_identifier(identifier) };
        if let Some(other) = other {
            formed.address = CareOfAddress(other);
            self.start_address(now, policy.detection, out);
        }
    }

    /// Whether duplicate address detection of `address` runs here.
    pub fn is_checking(&self, address: Ipv6Addr) -> bool {
        self.care_of_address.as_ref().is_some_and(|formed| formed.address.0 == address && formed.dad.is_some())
    }

    /// Runs the timers that are due.
    pub fn expire(&mut self, now: Time, out: &mut Outbox) {
        if let Some(attachment) = &mut self.attachment {
            attachment.expire(now, out);
        }
        if let Some(formed) = &mut self.care_of_address
            && formed.dad.as_ref().is_some_and(|check| check.ends_at <= now)
        {
            formed.dad = None;
            formed.usable = true;
            self.dad_failures = 0;
        }
        self.path_mtu.take_if(|(_, until)| *until <= now);
    }

    /// Switches to another router of the same link if the path through the present one has been down for a while: it
    /// may be an impostor, or have no route itself.
    pub fn switch_dead_router(&mut self, now: Time) {
        if !self.prober.is_silent() {
            self.router_switches = if self.prober.is_answered() { 0 } else { self.router_switches };
            return;
        }
        let patience = ROUTER_TIMEOUT.saturating_mul(1 << self.router_switches.min(8)).min(MAX_DAD_RETRY);
        let dead = self.prober.silent_since().is_some_and(|since| since + patience <= now);
        if dead && self.attachment.as_mut().is_some_and(|attachment| attachment.switch_router(now)) {
            self.router_switches = self.router_switches.saturating_add(1);
            self.prober.restart(now);
        }
    }

    /// When [`Uplink::expire`] has something to do.
    pub fn deadline(&self) -> Option<Time> {
        let attachment = self.attachment.as_ref().and_then(Attachment::deadline);
        let check = self.care_of_address.as_ref().and_then(|formed| formed.dad.as_ref()).map(|check| check.ends_at);
        let path_mtu = self.path_mtu.map(|(_, until)| until);
        let lease = self.lease.as_ref().and_then(|lease| lease.client.deadline());
        let retry = self.care_of_address.as_ref().and_then(|formed| formed.retry_at);
        let check = check.into_iter().chain(retry);
        attachment.into_iter().chain(lease).chain(check).chain(path_mtu).chain(self.ipv4.deadline()).min()
    }

    /// MTU of outer packets to the home agent, octets: of interface, link and path.
    pub fn mtu(&self) -> u32 {
        self.mtu_search.mtu().into_iter().fold(self.mtu_by_routers(), u32::min)
    }

    /// The same without the result of path MTU probes, octets.
    pub fn mtu_by_routers(&self) -> u32 {
        let interface = self.interface.as_ref().map_or(MINIMUM_MTU, |interface| interface.mtu);
        let advertised = self.attachment.as_ref().and_then(|attachment| attachment.router()?.mtu);
        let path = self.path_mtu.map(|(mtu, _)| mtu);
        advertised.into_iter().chain(path).fold(interface, u32::min)
    }

    fn start_address(&mut self, now: Time, detection: DadMode, out: &mut Outbox) {
        let Some((link, bid)) = self.link().map(|link| (link, self.config.bid)) else {
            return;
        };
        let Some(formed) = &mut self.care_of_address else {
            return;
        };
        formed.usable = detection != DadMode::Wait;
        if detection != DadMode::Off {
            formed.dad = Some(DadProbe::start(now, link, formed.address.0, out));
        }
        out.report(NemoReport::CareOfFormed { link, bid, address: formed.address.0 });
        if self.former_addresses.len() >= MAX_FORMER_ADDRESSES {
            self.former_addresses.remove(0);
        }
        self.former_addresses.push(formed.address);
        self.forget_path();
        self.prober.restart(now);
    }

    /// Resets the state of the path to the home agent, which has a new source address.
    fn forget_path(&mut self) {
        self.path_mtu = None;
        self.transport.restart();
        self.mtu_search = PathMtuSearch::default();
        self.last_tunnelled_reply = None;
    }

    fn drop_address(&mut self, out: &mut Outbox) {
        if let Some((formed, link)) = self.care_of_address.take().zip(self.link()) {
            out.report(NemoReport::CareOfRemoved { link, bid: self.config.bid, address: formed.address.0 });
        }
    }
}

/// How addresses are formed and checked.
#[derive(Debug)]
pub struct AddressPolicy<'a> {
    /// The configured mode.
    pub detection: DadMode,
    /// For random identifiers.
    pub entropy: &'a mut Entropy,
    /// Prefixes of the mobile network: no care-of address is in them.
    pub own: &'a [Prefix],
}

/// The universal/local bit of a modified EUI-64 identifier: 0 for one not made from a hardware address (RFC 4291 §2.5.1).
const UNIVERSAL_BIT: u64 = 0x0200_0000_0000_0000;
