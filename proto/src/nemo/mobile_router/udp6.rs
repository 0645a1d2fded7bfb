//! UDP in place of native encapsulation, over IPv6 and over IPv4 (protocol 41): what [`UplinkTransport`] decides is done
//! here, and remembered for each network.

use super::MobileRouter;
use super::probing::LAST_PRIORITY;
use super::registration::{CareOf, DesiredRegistration, Location};
use super::transport::{Cause, PathState, Step, UplinkTransport};
use super::uplink::Uplink;
use crate::contract::config::nemo::Transport;
use crate::contract::input::LinkTraffic;
use crate::contract::item::{JournalKey, JournalRecord, NetworkRecord};
use crate::contract::report::NemoReport;
use crate::{DropReason, Item, Key, Outbox, Packet, Time, Transmit};
use core::time::Duration;
use roam6_wire::ip4::DSMIP_PORT;
use roam6_wire::ip6::{Datagram, protocol};
use roam6_wire::mobility::{BindingAcknowledgement, Capabilities, MobilityOption, PathEncapsulation, Status};
use roam6_wire::udp6::Encapsulated6;
use roam6_wire::{Ipv6Endpoint, Prefix};
use std::net::Ipv6Addr;

use super::acknowledgement::{accepts_bid, echoes_timestamp, may_answer};
use super::binding_update::lifetime_of;

/// The prefix length of an IPv4 network, whose real one is unknown, mapped to IPv6.
const IPV4_NETWORK_LENGTH: u8 = 96 + 24;
/// Maximum networks that are remembered; the oldest is removed.
const MAX_NETWORKS: usize = 16;
/// Octets of an interface in [`QUIET_TIME`] that are the probes' own.
const QUIET_OCTETS: u64 = 6000;
const QUIET_TIME: Duration = Duration::from_secs(1);
/// A busy path is looked at again after this time.
const BUSY_PAUSE: Duration = Duration::from_secs(60);
/// Hold-down of a silent path that cannot be probed.
const SILENT_HOLD_DOWN: Duration = Duration::from_secs(30);
/// Unanswered updates before they are reported.
const REPORTED_UNANSWERED: usize = 3;
/// Steps in one run; more would be an error here.
const MAX_STEPS: usize = 8;

/// Packets of `inner` in UDP between our address and the home agent's.
pub(super) fn encapsulate(local: Ipv6Addr, home_agent: Ipv6Addr, inner: &[u8]) -> Vec<u8> {
    let end = |address| Ipv6Endpoint { address, port: DSMIP_PORT };
    Encapsulated6 { source: end(local), destination: end(home_agent), inner }.emit()
}

impl CareOf {
    /// Whether the home agent takes the source of an update for it: over IPv4, and in UDP.
    pub(super) fn is_observed(&self) -> bool {
        self.udp || self.ipv4().is_some()
    }
}

impl Uplink {
    /// Whether packets are in UDP; over IPv4 a NAT or the home agent may require it in any case.
    pub(super) fn is_udp(&self) -> bool {
        match self.config.transport {
            Transport::Native => false,
            Transport::Auto => self.transport.udp,
            Transport::Udp => true,
        }
    }

    /// Its care-of address, if that is registered by an update of its own.
    pub(super) fn observed_care_of(&self) -> Option<CareOf> {
        self.visited_care_of().filter(CareOf::is_observed)
    }

    /// Its care-of address over IPv4, else over IPv6.
    fn visited_care_of(&self) -> Option<CareOf> {
        self.ipv4_care_of().or_else(|| self.care_of())
    }

    /// A hash of what identifies the visited network: interface, prefix and router, or interface and IPv4 prefix.
    fn network(&self) -> Option<u64> {
        let ipv4 = self.ipv4.in_use.map(|address| address.to_ipv6_mapped());
        let address = ipv4.or(self.formed_address());
        let router = self.attachment.as_ref().and_then(|attachment| attachment.router()?.link_address);
        let router = router.filter(|_| self.ipv4.in_use.is_none());
        let length = if self.ipv4.in_use.is_some() { IPV4_NETWORK_LENGTH } else { 64 };
        let prefix = Prefix::new(address?, length)?.address().octets();
        let octets = self.config.interface.bytes().chain(prefix).chain(router.iter().flat_map(|router| router.0));
        // FNV-1a, which is the same in the next version.
        Some(
            octets.fold(0xcbf2_9ce4_8422_2325, |hash, octet| {
                (hash ^ u64::from(octet)).wrapping_mul(0x0000_0100_0000_01b3)
            }),
        )
    }

    fn formed_address(&self) -> Option<Ipv6Addr> {
        self.care_of_address.as_ref().map(|formed| formed.address.0)
    }

    /// What packets to the home agent are encapsulated in, where that may change.
    pub(super) fn show_transport(&self) -> Option<String> {
        let udp = self.is_udp() || self.ipv4.in_use().is_some() && self.ipv4.encapsulation.is_udp();
        (self.config.transport != Transport::Native).then(|| if udp { "udp" } else { "native" }.to_owned())
    }
}

impl MobileRouter {
    /// Whether the encapsulation of `uplink` may change.
    fn adapts(uplink: &Uplink) -> bool {
        let free = uplink.ipv4.in_use().is_none() || !uplink.ipv4.encapsulation.is_udp();
        let adapts = uplink.config.transport == Transport::Auto && free && !uplink.on_home_link;
        adapts && uplink.visited_care_of().is_some()
    }

    fn path_state(&self, uplink: &Uplink) -> PathState {
        let own = uplink.visited_care_of();
        // Over IPv4 the home agent reads updates in UDP only, and probes pass through the tunnel only.
        let over_ipv4 = uplink.ipv4.in_use().is_some();
        let works = |other: &&Uplink| {
            other.config.bid != uplink.config.bid
                && other.is_up()
                && !other.prober.is_silent()
                && self.care_of_on(other).is_some_and(|care_of| self.is_held(&care_of))
        };
        let is_held = own.is_some_and(|own| self.is_held(&own));
        PathState {
            round_trip: uplink.prober.round_trip(),
            is_bound: self.registration.binding().is_some(),
            is_held,
            is_probed: self.config.probe.is_some() && self.is_probing() && self.is_probed(uplink),
            missed: uplink.prober.missed(),
            is_encrypted: self.encrypts(),
            is_asked_outside: own.is_some_and(|own| !own.is_observed()),
            silent_since: uplink.prober.silent_since(),
            last_reply: uplink.last_tunnelled_reply,
            last_answer: uplink.prober.last_answer(),
            has_other: !over_ipv4 && self.uplinks.iter().any(|other| works(&other)),
            is_served: if over_ipv4 { Some(true) } else { self.udp6_served },
            is_busy: is_held && !uplink.prober.is_slow() && !uplink.transport.is_quiet(self.now),
        }
    }

    /// When [`MobileRouter::update_transports`] has something to do for `uplink`.
    pub(super) fn transport_deadline(&self, uplink: &Uplink) -> Option<Time> {
        let revival = self.revival_of(uplink);
        if !MobileRouter::adapts(uplink) {
            return revival;
        }
        let path = self.path_state(uplink);
        let quiet = uplink.transport.quiet_check_at().filter(|_| path.is_busy);
        uplink.transport.deadline(&path).into_iter().chain(quiet).chain(revival).min()
    }

    /// When a silent path in UDP is used again that cannot be probed, because the home agent has others.
    fn revival_of(&self, uplink: &Uplink) -> Option<Time> {
        let own = uplink.care_of().filter(|own| own.udp && uplink.ipv4.in_use().is_none())?;
        Some(uplink.prober.silent_since().filter(|_| !self.is_held(&own))? + SILENT_HOLD_DOWN)
    }

    /// Changes the encapsulation of uplinks whose state says so. Returns the uplinks whose other encapsulation is to be
    /// tried, after all other updates.
    pub(super) fn update_transports(&mut self, now: Time, out: &mut Outbox) -> Vec<(usize, Cause)> {
        let mut trials = Vec::new();
        self.report_unanswered_udp(now, out);
        for index in 0..self.uplinks.len() {
            self.enter_network(now, index);
            for _ in 0..MAX_STEPS {
                let Some(path) =
                    self.uplinks.get(index).filter(|up| MobileRouter::adapts(up)).map(|up| self.path_state(up))
                else {
                    break;
                };
                let Some(uplink) = self.uplinks.get_mut(index) else { break };
                match uplink.transport.next(now, &path) {
                    None => break,
                    Some(Step::Repeat) => self.registration.retransmit_now(now),
                    Some(Step::Refresh) => self.registration.request_refresh(),
                    Some(Step::Changed(accepted)) => {
                        self.adopt_path(now, accepted);
                        self.restart_path(now, index, out);
                    }
                    Some(Step::Proven(cause)) => self.note_proven(now, index, cause, out),
                    Some(Step::Try(cause)) => {
                        trials.push((index, cause));
                        break;
                    }
                }
            }
            self.check_quiet(now, index, out);
            if let Some(uplink) = self.uplinks.get(index)
                && self.revival_of(uplink).is_some_and(|at| at <= now)
            {
                self.restart_path(now, index, out);
            }
        }
        trials
    }

    /// What is known holds for one network.
    fn enter_network(&mut self, now: Time, index: usize) {
        let pending = self.registration.pending().into_iter().chain(self.path_update.as_ref().map(|sent| &sent.wanted));
        let senders: Vec<_> = pending.filter_map(|wanted| wanted.first_visited().map(|sender| sender.link)).collect();
        let Some(uplink) = self.uplinks.get_mut(index) else { return };
        if uplink.link().is_none_or(|link| !senders.contains(&link)) {
            uplink.transport.note_settled();
        }
        let network = uplink.network();
        if network.is_none() || network == uplink.transport.network {
            return;
        }
        let known = self.networks.iter().find(|record| Some(record.network) == network);
        let unix = self.clock.unix_seconds(now);
        let remembered = known.map(|record| {
            let longest = UplinkTransport::retry_after(record.failures);
            let left = unix.filter(|_| record.native_retry_unix > 0);
            let left = left.map(|unix| Duration::from_secs(record.native_retry_unix.saturating_sub(unix)));
            (now + left.map_or(longest, |left| left.min(longest)), record.failures)
        });
        uplink.transport.enter(now, network, remembered);
    }

    /// Reports once that updates in UDP alone are not answered, and the possible causes.
    fn report_unanswered_udp(&mut self, now: Time, out: &mut Outbox) {
        let sender = self.registration.find_unanswered(now, REPORTED_UNANSWERED);
        let sender = sender.and_then(DesiredRegistration::first_visited).filter(|sender| sender.udp).copied();
        let Some((sender, home_agent)) = sender.zip(self.home_agents.in_use()) else { return };
        let forced = |uplink: &&mut Uplink| {
            uplink.link() == Some(sender.link)
                && uplink.config.transport == Transport::Udp
                && !uplink.transport.is_reported
        };
        let Some(uplink) = self.uplinks.iter_mut().find(forced) else { return };
        uplink.transport.is_reported = true;
        let name = &uplink.config.interface;
        let text = format!(
            "{name}: home agent {home_agent} does not answer in UDP: it needs udp6, and firewalls on the way have to let UDP \
             port {DSMIP_PORT} through"
        );
        out.notice(text);
    }

    /// The path of an uplink is encapsulated differently from now on: it counts as up until probes say otherwise.
    fn restart_path(&mut self, now: Time, index: usize, out: &mut Outbox) {
        let Some(uplink) = self.uplinks.get_mut(index) else { return };
        uplink.last_tunnelled_reply = None;
        uplink.ipv4.mapping = super::mapping::Mapping::default();
        self.presume_path_up(now, index, out);
    }

    /// Packets through the tunnel pass after a change: it is reported and remembered.
    fn note_proven(&mut self, now: Time, index: usize, cause: Cause, out: &mut Outbox) {
        let unix = self.clock.unix_seconds(now);
        let Some(uplink) = self.uplinks.get_mut(index) else { return };
        let state = &mut uplink.transport;
        let udp = state.udp;
        if !udp {
            state.failures = 0;
        }
        let retry = UplinkTransport::retry_after(state.failures);
        state.native_retry = state.native_retry.filter(|at| *at > now).or(Some(now + retry)).filter(|_| udp);
        let wait = state.native_retry.map(|at| at.since(now).as_secs());
        let native_retry_unix = unix.zip(wait).map_or(0, |(unix, wait)| unix.saturating_add(wait));
        let record =
            state.network.map(|network| NetworkRecord { network, native_retry_unix, failures: state.failures });
        let (bid, to) = (uplink.config.bid, if udp { "udp" } else { "native" }.to_owned());
        if let Some(link) = uplink.link() {
            out.report(NemoReport::TransportChanged { link, bid, to, why: cause.text(udp).to_owned() });
        }
        let Some(record) = record else { return };
        match udp {
            true => self.remember_network(record, out),
            false => self.forget_network(record.network, out),
        }
    }

    fn remember_network(&mut self, record: NetworkRecord, out: &mut Outbox) {
        self.networks.retain(|known| known.network != record.network);
        if self.networks.len() >= MAX_NETWORKS {
            let oldest = self.networks.remove(0);
            out.drop(Key::JournalRecord(JournalKey::Network(oldest.network)));
        }
        self.networks.push(record);
        self.desired_state.put_once(Item::JournalRecord(JournalRecord::Network(record)), (), out);
    }

    fn forget_network(&mut self, network: u64, out: &mut Outbox) {
        let before = self.networks.len();
        self.networks.retain(|known| known.network != network);
        if self.networks.len() < before {
            out.drop(Key::JournalRecord(JournalKey::Network(network)));
        }
    }

    /// Restores what a previous instance has remembered.
    pub(super) fn restore_network(&mut self, record: NetworkRecord) {
        if self.networks.len() < MAX_NETWORKS && self.networks.iter().all(|known| known.network != record.network) {
            self.networks.push(record);
        }
    }

    /// Sends the updates that try the other encapsulation.
    pub(super) fn send_trials(&mut self, now: Time, trials: &[(usize, Cause)], out: &mut Outbox) -> Vec<Transmit> {
        let mut messages = Vec::new();
        for (index, cause) in trials {
            if self.uplinks.iter().any(|uplink| uplink.transport.has_fresh_trial(now)) {
                self.uplinks.get_mut(*index).into_iter().for_each(|uplink| uplink.transport.wait_for_other_trial(now));
                continue;
            }
            let care_of = self.uplinks.get(*index).and_then(Uplink::visited_care_of);
            let Some((home_agent, care_of)) = self.home_agents.in_use().zip(care_of) else {
                self.uplinks.get_mut(*index).into_iter().for_each(|uplink| uplink.transport.postpone_trial(now));
                continue;
            };
            let mcoa = self.registers_several();
            // The home agent sends by what it has registered, also if its answer does not arrive.
            let doubted = mcoa && *cause != Cause::Retry;
            let is_behind = doubted && self.uplinks.get(*index).is_some_and(|uplink| self.has_working_other(uplink));
            let priority = if is_behind { LAST_PRIORITY } else { care_of.priority };
            let other = CareOf { udp: !care_of.udp, priority, ..care_of };
            let bid = if mcoa { other.bid } else { roam6_wire::Bid(0) };
            // Without the H flag the update would say that the home link was left (RFC 5648 §5.6.5).
            let held = self.registration.binding().map(|binding| binding.care_of()).unwrap_or_default();
            let home = held.iter().filter(|held| mcoa && held.on_home_link).copied();
            let location = Location::Away { care_of: home.chain([CareOf { bid, ..other }]).collect(), mcoa };
            let wanted = DesiredRegistration { home_agent, location };
            messages.extend(self.last_probe(now, *index));
            let sent = self.send_path_update(now, &wanted, out);
            let Some(uplink) = self.uplinks.get_mut(*index) else { continue };
            let Some((message, sent)) = sent else {
                uplink.transport.postpone_trial(now);
                continue;
            };
            uplink.transport.begin(now, *cause, (wanted, sent));
            messages.push(message);
        }
        messages
    }

    /// Processes an answer to an update that tries the other encapsulation; returns whether it is one. A rejection
    /// shows too that signalling passes: the update that follows gets the same answer.
    pub(super) fn receive_trial_answer(
        &mut self,
        now: Time,
        datagram: &Datagram<'_>,
        message: &BindingAcknowledgement,
        protected: bool,
    ) -> bool {
        let tried = self.uplinks.iter().position(|uplink| {
            let trial = uplink.transport.trial.as_ref();
            trial.is_some_and(|trial| may_answer(datagram, message, &trial.wanted, &trial.sent))
        });
        let trial = tried.and_then(|index| self.uplinks.get(index)).and_then(|uplink| uplink.transport.trial.clone());
        let Some((trial, index)) = trial.zip(tried) else { return false };
        if self.verify(datagram, message, &trial.wanted, protected).is_err() || !echoes_timestamp(message, &trial.sent)
        {
            return false;
        }
        self.note_capabilities(message);
        if message.status == Status::INSUFFICIENT_RESOURCES {
            let uplink = self.uplinks.get_mut(index);
            uplink.into_iter().for_each(|uplink| uplink.transport.give_up_trials(now));
            return true;
        }
        self.resynchronise(now, message);
        let is_served = !self.lacks_encryption(message, &trial.wanted);
        if is_served && message.status.is_accepted() {
            self.note_path_keys(datagram.source, message);
        }
        let same = self.registration.binding().is_some_and(|held| held.registration.home_agent == datagram.source);
        let bid = trial.wanted.first_visited().map(|care_of| care_of.bid);
        if let Some(trial) = self.uplinks.get_mut(index).and_then(|uplink| uplink.transport.trial.as_mut()) {
            trial.answered = trial.answered.or(Some(now));
            if same && is_served && bid.is_some_and(|bid| accepts_bid(message, bid)) {
                trial.accepted = Some(trial.sent.expires(lifetime_of(message.lifetime_units)));
            }
        }
        true
    }

    /// The encapsulation has changed to that of a trial, which has registered a care-of address until then.
    fn adopt_path(&mut self, now: Time, accepted: Option<(CareOf, Time)>) {
        let before = self.registration.binding().map(|binding| binding.care_of().to_vec());
        let Some((before, (care_of, expires))) = before.zip(accepted) else { return };
        self.registration.add_care_of(care_of, expires);
        self.keep_lingering(now, &before);
    }

    /// A probe in the present encapsulation, before an update in the other one: its answer shows that the present one
    /// passes, whereas later ones come in the encapsulation of the update.
    fn last_probe(&mut self, now: Time, index: usize) -> Option<Transmit> {
        let probed = self.uplinks.get(index).filter(|uplink| self.config.probe.is_some() && self.is_probed(uplink))?;
        let bid = probed.config.bid;
        let sequence = self.uplinks.get_mut(index)?.prober.extra_probe(now)?;
        self.probe_packet(self.uplinks.iter().find(|uplink| uplink.config.bid == bid)?, sequence)
    }

    /// Records whether the home agent serves UDP over IPv6, from an authentic acknowledgement.
    pub(super) fn note_capabilities(&mut self, message: &BindingAcknowledgement) {
        if self.uplinks.iter().all(|uplink| uplink.config.transport == Transport::Native) {
            return;
        }
        let named = message.options.iter().find_map(|option| match option {
            MobilityOption::Capabilities(capabilities) => {
                Some(capabilities.has(Capabilities::UDP_OVER_IPV6 | Capabilities::ZERO_CHECKSUM))
            }
            _ => None,
        });
        match named {
            Some(served) => self.udp6_served = Some(served),
            None if message.status.is_accepted() && message.lifetime_units > 0 => self.udp6_served = Some(false),
            None => {}
        }
    }

    /// The capabilities option of an update, if an uplink may need UDP or a flow is to be replicated.
    pub(super) fn capability_option(&self, wanted: &DesiredRegistration) -> Option<MobilityOption> {
        let udp = Capabilities::UDP_OVER_IPV6 | Capabilities::ZERO_CHECKSUM;
        let native = self.uplinks.iter().all(|uplink| uplink.config.transport == Transport::Native);
        let elimination = if self.asks_for_replication() { Capabilities::ELIMINATION } else { 0 };
        let flags = if native { 0 } else { udp } | elimination;
        let udp = wanted.care_of().iter().filter(|care_of| care_of.udp && care_of.ipv4().is_none());
        let encapsulations = udp.map(|care_of| (care_of.bid, PathEncapsulation::UDP)).collect();
        (flags != 0).then_some(MobilityOption::Capabilities(Capabilities { flags, encapsulations }))
    }

    /// An update with `sender` as its source was sent in the present encapsulation of its uplink.
    pub(super) fn note_update_sent(&mut self, now: Time, sender: &CareOf) {
        let own = |uplink: &&mut Uplink| uplink.link() == Some(sender.link) && uplink.is_udp() == sender.udp;
        // Over IPv4 updates are in UDP in any case.
        if let Some(uplink) = self.uplinks.iter_mut().find(own).filter(|_| sender.ipv4().is_none()) {
            uplink.transport.note_sent(now);
        }
    }

    /// An update with `sender` as its source was answered.
    pub(super) fn note_update_answered(&mut self, sender: Option<&CareOf>) {
        let Some(sender) = sender else { return };
        let own = |uplink: &&mut Uplink| uplink.link() == Some(sender.link) && uplink.is_udp() == sender.udp;
        if let Some(uplink) = self.uplinks.iter_mut().find(own) {
            uplink.transport.note_answered();
        }
    }

    /// Processes a UDP packet over IPv6: only mobility messages from configured home agents are accepted.
    pub(super) fn receive_udp6(&mut self, now: Time, packet: &Packet, out: &mut Outbox) {
        if self.uplink_on(packet.link).is_none_or(|uplink| uplink.config.transport == Transport::Native) {
            return;
        }
        let encapsulated = match Encapsulated6::parse(&packet.bytes) {
            Ok(encapsulated) => encapsulated,
            Err(why) => return out.report_malformed(None, &why),
        };
        let from = Some(encapsulated.source.address);
        let datagram = match Datagram::parse(encapsulated.inner) {
            Ok(datagram) => datagram,
            Err(why) => return out.report_malformed(from, &why),
        };
        let sender = Ipv6Endpoint { address: datagram.source, port: DSMIP_PORT };
        let ours = datagram.destination == self.config.home_address.0 && datagram.routing_home.is_none();
        match datagram.protocol {
            _ if !ours || sender != encapsulated.source || !self.home_agents.contains(datagram.source) => {
                out.report_drop(DropReason::NotForUs, from, "encapsulated in UDP");
            }
            protocol::MOBILITY => self.receive_mobility(now, &datagram, false, out),
            protocol::ESP => self.receive_esp(now, &datagram, out),
            _ => {}
        }
    }

    /// Before native encapsulation is tried, the path has to carry nothing for a while: what would be lost.
    fn check_quiet(&mut self, now: Time, index: usize, out: &mut Outbox) {
        let Some(path) = self.uplinks.get(index).filter(|up| MobileRouter::adapts(up)).map(|up| self.path_state(up))
        else {
            return;
        };
        let Some(uplink) = self.uplinks.get_mut(index).filter(|_| path.is_busy) else { return };
        if uplink.transport.quiet_check_at().is_some_and(|at| at <= now)
            && let Some(link) = uplink.link()
        {
            uplink.transport.quiet_asked = Some(now + QUIET_TIME);
            out.query_link_traffic(link);
        }
    }

    /// Processes the counters of an interface.
    pub(super) fn note_traffic(&mut self, now: Time, traffic: &LinkTraffic) {
        let Some(uplink) = self.uplinks.iter_mut().find(|uplink| uplink.link() == Some(traffic.link)) else { return };
        let state = &mut uplink.transport;
        if state.native_retry.is_none_or(|at| at > now) {
            return;
        }
        let octets = traffic.tx.octets.saturating_add(traffic.rx.octets);
        match state.carried {
            Some((since, before)) if now.since(since) >= QUIET_TIME => {
                let most = QUIET_OCTETS.saturating_mul(now.since(since).as_secs().max(1));
                match octets.saturating_sub(before) > most {
                    true => state.postpone_native(now + BUSY_PAUSE),
                    false => state.quiet_until = Some(now + QUIET_TIME),
                }
            }
            Some(_) => {}
            None => state.carried = Some((now, octets)),
        }
    }
}

impl UplinkTransport {
    /// Whether nothing would be lost by a trial.
    fn is_quiet(&self, now: Time) -> bool {
        self.quiet_until.is_some_and(|until| until > now)
    }

    /// When to read the counters before native encapsulation is tried.
    fn quiet_check_at(&self) -> Option<Time> {
        let retry = self.native_retry.filter(|_| self.udp && self.is_proven && self.trial.is_none())?;
        Some(self.quiet_asked.map_or(retry, |asked| asked.max(retry)))
    }
}
