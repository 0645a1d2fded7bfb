//! The GeoNetworking router of one station: EN 302 636-4-1 §10. A plain value driven by its owner; packets for the
//! upper layers are returned, frames and reports go to the outbox.

mod duplicate_address;
mod forwarding;
mod origination;
#[cfg(feature = "geo-security")]
mod pseudonym;
mod receive;
mod recovery;
#[cfg(feature = "geo-security")]
mod secured;
mod source;
#[cfg(test)]
mod tests;

use super::buffer::PacketBuffer;
use super::contention::ContentionBuffer;
use super::ego::{EgoPosition, EgoState};
use super::location_service::{LocationService, LookupExpiry};
use super::location_table::{Hop, LocationTable};
use super::request::PacketRequest;
#[cfg(feature = "geo-security")]
use super::security::{PacketSigner, Verifier};
use crate::base::ids::LinkId;
use crate::base::rng::Entropy;
use crate::base::small_timers::SmallTimerQueue;
use crate::base::time::Time;
use crate::base::token_bucket::TokenBucket;
use crate::base::vec_map::VecMap;
use crate::contract::config::geo::Mib;
#[cfg(feature = "geo-security")]
use crate::contract::config::geo::{CertificateOctets, SecurityConfig, SecurityMode};
use crate::contract::engine::Outbox;
use crate::contract::input::{Clock, Fix, Frame, LinkEvent};
use crate::contract::report::DropReason;
use crate::contract::view::PositionView;
use core::time::Duration;
use duplicate_address::{FormerAddress, Interface, SentPositions};
use forwarding::Goal;
#[cfg(feature = "geo-security")]
use origination::OwnPacket;
use recovery::PerimeterState;
use roam6_wire::LinkAddress;
use roam6_wire::geo::{ETHERTYPE, GeoAddress, ItsStationType, LongPositionVector};

/// The broadcast link-layer address.
pub const BROADCAST: LinkAddress = LinkAddress([0xff; 6]);
/// Repeated packets at most.
pub const MAX_REPETITIONS: usize = 64;

/// Rate limit of LS replies: burst, and the interval for each further one.
const LS_REPLY_LIMIT: (u32, Duration) = (50, Duration::from_millis(20));
/// Milliseconds by which the clock may be set without its past timestamps becoming worthless.
const MAX_CLOCK_ADJUSTMENT: u64 = 1_000;
/// Interval at which the location table and the buffers are expired.
const EXPIRY_INTERVAL: Duration = Duration::from_millis(500);
/// Delay from a new neighbour to the flush of the buffers: further neighbours may appear at the same time.
const FLUSH_DELAY: Duration = Duration::from_millis(10);

/// A GeoNetworking router.
#[derive(Debug)]
pub struct GeoRouter {
    mib: Mib,
    address: GeoAddress,
    /// Interfaces that are up.
    links: VecMap<LinkId, Interface>,
    ego: EgoPosition,
    location_table: LocationTable,
    sequence: u16,
    location_service: LocationService,
    unicast_buffer: PacketBuffer<Goal>,
    broadcast_buffer: PacketBuffer<Goal>,
    contention: ContentionBuffer,
    perimeter: PerimeterState,
    repetitions: VecMap<u32, ActiveRepetition>,
    next_repetition: u32,
    agenda: SmallTimerQueue<Timer>,
    entropy: Entropy,
    /// The previous address, after a duplicate was detected.
    former_address: Option<FormerAddress>,
    sent_positions: SentPositions,
    /// Rate limit of LS replies.
    ls_replies: TokenBucket,
    secured_reported: bool,
    #[cfg(feature = "geo-security")]
    security: SecurityMode,
    /// Verifies signatures, in modes in which they are verified.
    #[cfg(feature = "geo-security")]
    verifier: Option<Verifier>,
    /// Signs own packets, if this station has certificates.
    #[cfg(feature = "geo-security")]
    signer: Option<PacketSigner<OwnPacket>>,
    /// Whether its addresses are random and change.
    #[cfg(feature = "geo-security")]
    is_pseudonymous: bool,
    /// Whether it was reported that this station cannot sign.
    #[cfg(feature = "geo-security")]
    unsigned_reported: bool,
    /// When the last CAM was sent: it carries what beacons carry otherwise.
    #[cfg(feature = "geo-security")]
    last_cam: Option<Time>,
    /// When the last beacon was sent.
    #[cfg(feature = "geo-security")]
    last_beacon: Option<Time>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Beacon,
    Expiry,
    Flush,
    Repeat(u32),
}

#[derive(Debug)]
struct ActiveRepetition {
    request: PacketRequest,
    interval: Duration,
    until: Time,
}

impl GeoRouter {
    /// The router of a station without interfaces and position; its address comes from the first interface.
    pub fn new(station: ItsStationType, mib: Mib, mut entropy: Entropy) -> GeoRouter {
        let address = GeoAddress::new(station, random_mid(&mut entropy));
        let (unicast, broadcast) = (PacketBuffer::new(mib.unicast_buffer), PacketBuffer::new(mib.broadcast_buffer));
        let contention = ContentionBuffer::new(mib.cbf_buffer);
        GeoRouter {
            mib,
            address,
            links: VecMap::new(),
            ego: EgoPosition::default(),
            location_table: LocationTable::default(),
            // The standard begins with 0 (§8.3). With a random number, stations that detect duplicates by the number alone
            // accept the packets of a restarted station.
            sequence: (entropy.next_u64() & 0xffff) as u16,
            location_service: LocationService::default(),
            unicast_buffer: unicast,
            broadcast_buffer: broadcast,
            contention,
            perimeter: PerimeterState::default(),
            repetitions: VecMap::new(),
            next_repetition: 0,
            agenda: SmallTimerQueue::default(),
            entropy,
            former_address: None,
            sent_positions: SentPositions::default(),
            ls_replies: TokenBucket::new(LS_REPLY_LIMIT.0, LS_REPLY_LIMIT.1),
            secured_reported: false,
            #[cfg(feature = "geo-security")]
            security: SecurityMode::default(),
            #[cfg(feature = "geo-security")]
            verifier: None,
            #[cfg(feature = "geo-security")]
            signer: None,
            #[cfg(feature = "geo-security")]
            is_pseudonymous: false,
            #[cfg(feature = "geo-security")]
            unsigned_reported: false,
            #[cfg(feature = "geo-security")]
            last_cam: None,
            #[cfg(feature = "geo-security")]
            last_beacon: None,
        }
    }

    /// The same router with another treatment of secured packets.
    #[cfg(feature = "geo-security")]
    pub fn with_security(mut self, security: &SecurityConfig) -> GeoRouter {
        (self.security, self.verifier) = (security.mode, Verifier::new(security));
        self.signer = self.verifier.as_ref().and_then(|_| PacketSigner::new(&security.tickets));
        self
    }

    /// Replaces the digests of revoked certificates.
    #[cfg(feature = "geo-security")]
    pub fn set_revoked(&mut self, revoked: &[[u8; 8]]) {
        if let Some(verifier) = &mut self.verifier {
            verifier.set_revoked(revoked);
        }
    }

    /// Replaces the authorities that are trusted.
    #[cfg(feature = "geo-security")]
    pub fn set_authorities(&mut self, roots: &[CertificateOctets], authorities: &[CertificateOctets]) {
        if let Some(verifier) = &mut self.verifier {
            verifier.set_authorities(roots, authorities);
        }
    }

    /// Octets by which security makes a packet of IPv6 longer.
    pub fn security_overhead(&self) -> u32 {
        #[cfg(feature = "geo-security")]
        if self.signer.is_some() {
            return u32::try_from(roam6_wire::security::DIGEST_OVERHEAD).unwrap_or(u32::MAX);
        }
        0
    }

    /// Sets the smallest MTU of the interfaces that are up.
    #[cfg(feature = "geo-security")]
    pub fn set_frame_mtu(&mut self, mtu: u32) {
        if let Some(signer) = &mut self.signer {
            signer.set_max_frame(usize::try_from(mtu).unwrap_or(usize::MAX));
        }
    }

    /// This station's address.
    pub fn address(&self) -> GeoAddress {
        self.address
    }

    /// This station's position vector now; `None` before the first fix.
    pub fn position(&self, now: Time) -> Option<LongPositionVector> {
        let position = self.ego.position(now, self.address, self.mib.pai_interval)?;
        // What does not move has neither (itsGnIsMobile).
        let (speed, heading) = if self.mib.is_mobile { (position.speed, position.heading) } else { (0, 0) };
        Some(LongPositionVector { speed, heading, ..position })
    }

    /// The link-layer address that frames of this station carry on an interface.
    pub fn link_address(&self, link: LinkId) -> Option<LinkAddress> {
        self.links.get(&link).map(|interface| interface.address)
    }

    /// The same router with another first sequence number: other stacks begin with 0.
    pub fn with_sequence(mut self, sequence: u16) -> GeoRouter {
        self.sequence = sequence.wrapping_sub(1);
        self
    }

    /// Whether the receiver has a fix.
    pub fn has_fix(&self) -> bool {
        self.ego.has_fix()
    }

    /// Milliseconds of TAI since 2004.
    pub fn its_time(&self, now: Time) -> u64 {
        self.ego.its_time(now)
    }

    /// The ego state for the upper layers; `None` before the first fix.
    pub fn ego_state(&self, now: Time) -> Option<EgoState> {
        let (within, has_fix) = (self.ego.uncertainty(), self.has_fix());
        self.position(now).map(|position| EgoState {
            position,
            position_accuracy: within,
            has_fix,
            its_time: self.ego.its_time(now),
        })
    }

    /// The position that the control socket shows.
    pub fn position_view(&self, now: Time) -> PositionView {
        self.ego.view(now, self.address)
    }

    /// The location table.
    pub fn location_table(&self) -> &LocationTable {
        &self.location_table
    }

    /// Buffered packets: for a neighbour, in contention; and lookups in progress.
    pub fn buffered(&self) -> (usize, usize, usize) {
        (
            self.unicast_buffer.len() + self.broadcast_buffer.len(),
            self.contention.len(),
            self.location_service.iter().count(),
        )
    }

    /// An interface appeared, changed or disappeared.
    pub fn set_link(&mut self, now: Time, event: &LinkEvent) {
        let (true, Some(address)) = (event.up, event.address) else {
            self.links.remove(&event.link);
            self.location_table.remove_neighbours(now, |hop| hop.link == event.link);
            return;
        };
        if self.links.is_empty() && self.former_address.is_none() && !self.has_random_address() {
            self.address.mid = address;
        }
        let interface = self.interface(self.links.get(&event.link).copied(), address);
        if self.links.insert(event.link, interface).is_none() {
            self.schedule_first_beacon(now);
        }
    }

    /// Whether the address of this station is never that of an interface.
    #[cfg(feature = "geo-security")]
    fn has_random_address(&self) -> bool {
        self.is_pseudonymous
    }

    #[cfg(not(feature = "geo-security"))]
    fn has_random_address(&self) -> bool {
        false
    }

    /// Sets the wall clock.
    pub fn set_clock(&mut self, now: Time, clock: Clock) {
        let before = self.ego.its_time(now);
        self.ego.set_clock(now, clock);
        if self.ego.its_time(now).abs_diff(before) > MAX_CLOCK_ADJUSTMENT {
            self.sent_positions.begin(self.ego.timestamp(now));
        }
    }

    /// Sets the receiver's fix.
    pub fn set_fix(&mut self, now: Time, fix: Option<Fix>) {
        let had = self.ego.has_fix();
        self.ego.set_fix(now, fix);
        if fix.is_some() && !had {
            self.schedule_first_beacon(now);
        }
    }

    /// A neighbour does not acknowledge frames to its link-layer address.
    pub fn remove_neighbour(&mut self, now: Time, address: LinkAddress) {
        self.location_table.remove_neighbours(now, |hop| hop.address == address);
    }

    /// When [`GeoRouter::expire`] is due.
    pub fn deadline(&self) -> Option<Time> {
        [self.agenda.deadline(), self.contention.deadline(), self.location_service.deadline()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Runs the timers that have expired.
    pub fn expire(&mut self, now: Time, out: &mut Outbox) {
        while let Some(bytes) = self.contention.expire(now) {
            self.send_broadcast_frame(&bytes, out);
        }
        while let Some(turn) = self.location_service.expire(now, &self.mib) {
            match turn {
                LookupExpiry::Retransmit(address) => self.send_ls_request(now, address, out),
                LookupExpiry::GiveUp(address, packets) => {
                    let detail = format!("location service timed out for {address}; {packets} queued packets dropped");
                    out.report_drop(DropReason::NoNeighbour, None, detail);
                }
            }
        }
        while let Some(timer) = self.agenda.pop_expired(now) {
            match timer {
                Timer::Beacon => self.beacon(now, out),
                Timer::Expiry => self.expire_tables(now, out),
                Timer::Flush => self.flush(now, out),
                Timer::Repeat(number) => self.repeat(now, number, out),
            }
        }
    }

    /// Expires entries of the location table and packets of the buffers.
    fn expire_tables(&mut self, now: Time, out: &mut Outbox) {
        self.location_table.expire(now, &self.mib);
        let expired = self.unicast_buffer.expire(now) + self.broadcast_buffer.expire(now);
        if expired > 0 {
            let detail = format!("{expired} packets expired in the forwarding buffers");
            out.report_drop(DropReason::Expired, None, detail);
        }
        let expired = self.location_service.drop_expired(now);
        self.count_expired(expired, out);
        // Neighbours have moved, and this station too.
        self.flush(now, out);
        self.schedule_expiry(now);
    }

    fn schedule_expiry(&mut self, now: Time) {
        let is_waiting = !self.unicast_buffer.is_empty()
            || !self.broadcast_buffer.is_empty()
            || self.location_service.iter().next().is_some();
        let idle = self.location_table.is_empty() && !is_waiting;
        if !idle && self.agenda.deadline_of(&Timer::Expiry).is_none() {
            self.agenda.set(Timer::Expiry, now + EXPIRY_INTERVAL);
        }
    }

    fn schedule_first_beacon(&mut self, now: Time) {
        let jitter = self.jitter();
        self.agenda.set(Timer::Beacon, now + jitter / 4);
    }

    /// Sends the next beacon at a random time within `span`, if none is due before.
    #[cfg(feature = "geo-security")]
    fn schedule_beacon_within(&mut self, now: Time, span: Duration) {
        let most = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        let at = now + Duration::from_micros(self.entropy.below(most));
        if self.agenda.deadline_of(&Timer::Beacon).is_some_and(|due| due > at + span) {
            self.agenda.set(Timer::Beacon, at);
        }
    }

    /// Restarts the beacon timer, as each single-hop packet does (§10.3.6.2).
    fn restart_beacon(&mut self, now: Time) {
        let jitter = self.jitter();
        self.agenda.set(Timer::Beacon, now + self.mib.beacon_timer + jitter);
    }

    fn jitter(&mut self) -> Duration {
        let most = u64::try_from(self.mib.beacon_jitter.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(self.entropy.below(most))
    }

    fn next_sequence(&mut self) -> u16 {
        self.sequence = self.sequence.wrapping_add(1);
        self.sequence
    }

    /// Sends a frame to one neighbour.
    fn send_to(&self, hop: Hop, bytes: Vec<u8>, out: &mut Outbox) {
        if let Some(source) = self.link_address(hop.link) {
            let (link, destination) = (hop.link, hop.address);
            out.send_frame(Frame { link, source, destination, ethertype: ETHERTYPE, bytes });
        }
    }

    /// Broadcasts a frame on every interface.
    fn send_broadcast_frame(&self, bytes: &[u8], out: &mut Outbox) {
        for link in self.links.keys() {
            self.send_to(Hop { link: *link, address: BROADCAST }, bytes.to_vec(), out);
        }
    }
}

/// A random link-layer address (§10.2.1.4): locally administered, unicast.
fn random_mid(entropy: &mut Entropy) -> LinkAddress {
    let mut octets = [0; 6];
    entropy.fill(&mut octets);
    octets[0] = octets[0] & 0xfc | 0x02;
    LinkAddress(octets)
}
