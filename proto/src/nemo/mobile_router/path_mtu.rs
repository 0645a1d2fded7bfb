//! Path MTU discovery to the home agent by padded echo requests, where Packet Too Big is not sent or is filtered (RFC
//! 8899; RFC 4821 §7). Probes are sent outside the tunnel, from the care-of address: then the home agent's own
//! estimate does not limit its replies, and both directions are tested at once. Over IPv4 and in UDP they have the outer headers
//! of the tunnel, because a network may pass nothing else, and their replies are short; routers fragment data packets over
//! IPv4, but do not fragment the probes. ICMPv4 errors, which anybody can forge, are not obeyed.

use super::MobileRouter;
use super::registration::CareOf;
use super::udp6::encapsulate;
use super::uplink::Uplink;
use crate::contract::report::NemoReport;
use crate::{Outbox, Time, Transmit, Via};
use roam6_wire::icmp6::{Echo, Message};
use roam6_wire::ip4::{Encapsulated, Ipv4Endpoint};
use roam6_wire::ip6::{self, Header, protocol};
use roam6_wire::udp6;
use std::net::Ipv6Addr;

/// Octets before the data of an echo message.
const ECHO_HEADERS: u32 = 48;

impl MobileRouter {
    /// The probes that are due; they are sent after their source addresses are put.
    pub(super) fn next_mtu_probes(&mut self, now: Time, out: &mut Outbox) -> Vec<Transmit> {
        let mut due = Vec::new();
        for index in 0..self.uplinks.len() {
            let Some(uplink) = self.uplinks.get(index).filter(|uplink| self.probes_path_mtu(uplink)) else { continue };
            let in_use = self.registration.binding().is_some_and(|binding| {
                binding.care_of().first().map(|care_of| care_of.address)
                    == self.care_of_on(uplink).map(|own| own.address)
            });
            let Some(uplink) = self.uplinks.get_mut(index) else { continue };
            let (before, top) = (uplink.mtu(), uplink.mtu_by_routers());
            let sizes = uplink.mtu_search.next_probes(now, top, in_use);
            self.report_path_mtu(index, before, out);
            let uplink = self.uplinks.get(index);
            due.extend(sizes.iter().filter_map(|size| self.mtu_probe_packet(uplink?, *size)));
        }
        due
    }

    /// When the next probe of `uplink` is due.
    pub(super) fn search_deadline(&self, uplink: &Uplink) -> Option<Time> {
        uplink.mtu_search.deadline().filter(|_| self.probes_path_mtu(uplink))
    }

    /// Processes the answer to a probe of the uplink with this BID: a packet of `size` octets.
    pub(super) fn receive_mtu_probe_reply(&mut self, now: Time, bid: u16, size: u32, out: &mut Outbox) {
        let Some(index) = self.uplinks.iter().position(|uplink| uplink.config.bid.0 == bid) else { return };
        let Some(uplink) = self.uplinks.get_mut(index) else { return };
        let before = uplink.mtu();
        uplink.mtu_search.receive_answer(now, size);
        self.report_path_mtu(index, before, out);
    }

    /// Reports a changed path MTU, and sends it to the home agent, which uses the same path.
    fn report_path_mtu(&mut self, index: usize, before: u32, out: &mut Outbox) {
        let Some(mtu) = self.uplinks.get(index).map(Uplink::mtu).filter(|mtu| *mtu != before) else { return };
        let Some(remote) = self.home_agents.in_use() else { return };
        out.report(NemoReport::PathMtu { remote, mtu });
        self.registration.request_refresh();
    }

    /// Whether the path MTU of `uplink` is searched: it has a registered care-of address, and answers probes.
    fn probes_path_mtu(&self, uplink: &Uplink) -> bool {
        let Some(care_of) = self.care_of_on(uplink).filter(|care_of| !care_of.on_home_link) else { return false };
        // A path without traffic is confirmed once there is some.
        let rests = uplink.prober.is_slow() && uplink.mtu_search.is_complete();
        let is_registered = self.is_held(&care_of);
        // The probes of such a path are in the headers of a tunnel that is not encrypted.
        let is_possible = !self.encrypts() || !care_of.is_observed();
        is_possible
            && is_registered
            && !rests
            && self.config.probe.is_some()
            && self.is_probing()
            && uplink.prober.is_answered()
    }

    /// A probe of `size` octets, headers included, from the care-of address of `uplink`.
    fn mtu_probe_packet(&self, uplink: &Uplink, size: u32) -> Option<Transmit> {
        let (home_agent, care_of) = (self.home_agents.in_use()?, self.care_of_on(uplink)?);
        if care_of.is_observed() {
            return self.padded_probe_packet(uplink, &care_of, home_agent, u16::try_from(size).ok()?);
        }
        let mut data = self.probe_cookie.to_be_bytes().to_vec();
        data.resize(usize::try_from(size.checked_sub(ECHO_HEADERS)?).ok()?, 0);
        let message = Message::EchoRequest(Echo { identifier: uplink.config.bid.0, sequence: 0, data });
        let source = care_of.address.0;
        let header = Header::new(source, home_agent);
        let bytes = ip6::emit(&header, protocol::ICMPV6, &message.emit(source, home_agent));
        Some(Transmit { via: Via::Link(care_of.link), bytes })
    }

    /// The same in the outer headers of the tunnel. The padding follows the echo request, so that the home agent removes it
    /// (RFC 8899 §4.1): its reply, which repeats the size, is short and passes whatever its own estimate.
    fn padded_probe_packet(
        &self,
        uplink: &Uplink,
        care_of: &CareOf,
        home_agent: Ipv6Addr,
        size: u16,
    ) -> Option<Transmit> {
        let data = [&self.probe_cookie.to_be_bytes()[..], &size.to_be_bytes()].concat();
        let message = Message::EchoRequest(Echo { identifier: uplink.config.bid.0, sequence: 0, data });
        let home = self.config.home_address.0;
        let echo = ip6::emit(&Header::new(home, home_agent), protocol::ICMPV6, &message.emit(home, home_agent));
        let padded = |overhead: u32| {
            let length = usize::try_from(u32::from(size).checked_sub(overhead)?).ok()?;
            let padding = vec![0; length.checked_sub(echo.len())?];
            Some([&echo[..], &padding].concat())
        };
        let bytes = if care_of.udp {
            encapsulate(care_of.address.0, home_agent, &padded(udp6::OVERHEAD)?)
        } else {
            let path = self.ipv4_path(care_of, uplink, home_agent)?;
            let (source, destination) = (Ipv4Endpoint::from_ipv6(path.local)?, Ipv4Endpoint::from_ipv6(path.remote)?);
            let inner = padded(source.overhead())?;
            Encapsulated { source, destination, tos: 0, inner: &inner }.emit_unfragmentable()
        };
        Some(Transmit { via: Via::Link(care_of.link), bytes })
    }
}

/// The size of the probe that an echo reply with this data answers, octets; `in_tunnel`: the padding was not repeated.
pub(super) fn probe_size(data: &[u8], padding: &[u8], in_tunnel: bool) -> Option<u32> {
    if in_tunnel {
        return Some(u16::from_be_bytes(*padding.first_chunk()?).into());
    }
    Some(u32::try_from(data.len()).unwrap_or(u32::MAX).saturating_add(ECHO_HEADERS))
}
