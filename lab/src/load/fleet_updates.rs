//! Mobile routers, emulated by this program, that register at the members of a fleet: each update at a chosen member, as
//! routers between them would have it.

use crate::bed::tap::Tap;
use crate::clock;
use crate::load::forge::{UpdateRequest, binding_acknowledgement};
use crate::load::registrations::{care_of, synthetic_router};
use crate::topology::fleet::MemberTaps;
use anyhow::{Context, Result, ensure};
use roam6_wire::mobility::{Ipv4Status, MobilityOption};
use roam6_wire::{CareOfAddress, Sequence};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

/// A mobile router without an answer sends another update after this time, to the next member.
const RETRANSMISSION: Duration = Duration::from_secs(1);
/// How long a mobile router may be without an acknowledgement.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The mobile routers.
pub(crate) struct FleetUpdates {
    pub(crate) taps: Vec<MemberTaps>,
    pub(crate) size: u32,
    sequences: Vec<Sequence>,
}

/// An update of a mobile router.
#[derive(Debug, Clone)]
pub(crate) struct Update {
    /// Which mobile router.
    pub(crate) router: u32,
    /// Which of its care-of addresses.
    pub(crate) place: u32,
    /// A lifetime of 0: it ends its binding.
    pub(crate) is_farewell: bool,
    pub(crate) sequence: Sequence,
    /// The whole packet.
    pub(crate) packet: Vec<u8>,
}

/// A Binding Acknowledgement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answer {
    /// Index of the member that has sent it.
    pub(crate) member: usize,
    pub(crate) router: u32,
    pub(crate) status: u8,
    pub(crate) sequence: Sequence,
    /// The IPv4 home address that it grants.
    pub(crate) ipv4: Option<Ipv4Addr>,
}

impl Answer {
    /// Whether it accepts the update.
    pub(crate) fn accepts(&self) -> bool {
        self.status < 128
    }
}

/// An update that waits for its answer.
struct Waiting {
    since: Instant,
    sent: Instant,
    update: Update,
    member: usize,
}

impl FleetUpdates {
    pub(crate) fn new(taps: Vec<MemberTaps>, size: u32) -> FleetUpdates {
        FleetUpdates { taps, size, sequences: vec![Sequence(0); size as usize] }
    }

    /// The care-of address of a mobile router at a place.
    pub(crate) fn care_of(&self, router: u32, place: u32) -> CareOfAddress {
        care_of(place * self.size + router)
    }

    /// The next update of a mobile router.
    pub(crate) fn update(&mut self, router: u32, place: u32, is_farewell: bool) -> Result<Update> {
        let new = if is_farewell { UpdateRequest::deregistration } else { UpdateRequest::new };
        self.update_with(router, place, new)
    }

    /// The next update of a mobile router, which asks for any IPv4 home address (RFC 5555 section 3.1.1).
    pub(crate) fn update_for_ipv4(&mut self, router: u32) -> Result<Update> {
        let address = Ipv4Addr::UNSPECIFIED;
        let wanted = MobilityOption::Ipv4HomeAddress { prefix_length: 32, prefix_wanted: false, address };
        self.update_with(router, 0, |sequence| UpdateRequest { options: vec![wanted], ..UpdateRequest::new(sequence) })
    }

    fn update_with(
        &mut self,
        router: u32,
        place: u32,
        request: impl FnOnce(Sequence) -> UpdateRequest,
    ) -> Result<Update> {
        let sequence = self.sequences.get_mut(router as usize).context("no such mobile router")?;
        *sequence = sequence.next();
        let request = request(*sequence);
        let mut sender = synthetic_router(router);
        sender.care_of = care_of(place * self.size + router);
        let packet = sender.signed_update(&request);
        Ok(Update { router, place, is_farewell: request.lifetime_units == 0, sequence: request.sequence, packet })
    }

    /// The same sequence number and time from another place: an update that a mobile router must not send.
    pub(crate) fn rival(&self, update: &Update, place: u32) -> Update {
        let mut sender = synthetic_router(update.router);
        sender.care_of = self.care_of(update.router, place);
        let packet = sender.signed_update(&UpdateRequest::new(update.sequence));
        Update { place, packet, ..update.clone() }
    }

    /// Sends a packet to a member.
    pub(crate) fn send(&mut self, member: usize, packet: &[u8]) -> Result<()> {
        let taps = self.taps.get_mut(member).context("no such member")?;
        taps.routers.send(packet).context("send to a member")
    }

    /// All acknowledgements that have come.
    pub(crate) fn answers(&mut self) -> Vec<Answer> {
        let (size, mut answers) = (self.size, Vec::new());
        for (member, taps) in self.taps.iter_mut().enumerate() {
            while let Some(packet) = taps.routers.receive() {
                let Some((to, answer)) = binding_acknowledgement(packet) else { continue };
                let (status, sequence, ipv4) = (answer.status.0, answer.sequence, granted(&answer.options));
                let number = u32::try_from(to.0.to_bits().wrapping_sub(care_of(0).0.to_bits())).unwrap_or(u32::MAX);
                let router = number % size.max(1);
                answers.push(Answer { member, router, status, sequence, ipv4 });
            }
        }
        answers
    }

    /// All acknowledgements within some time.
    pub(crate) fn answers_within(&mut self, time: Duration) -> Vec<Answer> {
        let (end, mut all) = (clock::now() + time, Vec::new());
        while clock::now() < end {
            self.wait(2);
            all.extend(self.answers());
        }
        all
    }

    /// Waits at most so many milliseconds for an acknowledgement of one of the members.
    fn wait(&self, millis: u8) {
        Tap::wait_any(self.taps.iter().map(|taps| &taps.routers), millis);
    }

    /// Registers these mobile routers at the member that `member` chooses, at most `window` updates under way; milliseconds from
    /// the first update of each until its acknowledgement.
    pub(crate) fn register(
        &mut self,
        routers: impl IntoIterator<Item = u32>,
        place: u32,
        window: usize,
        member: impl Fn(u32) -> usize,
    ) -> Result<Vec<f64>> {
        let (mut routers, mut waiting) = (routers.into_iter(), BTreeMap::<u32, Waiting>::new());
        let mut delays = Vec::new();
        loop {
            while waiting.len() < window {
                let Some(router) = routers.next().filter(|router| !waiting.contains_key(router)) else { break };
                let (update, at, member) = (self.update(router, place, false)?, clock::now(), member(router));
                self.send(member, &update.packet)?;
                waiting.insert(router, Waiting { since: at, sent: at, update, member });
            }
            if waiting.is_empty() {
                return Ok(delays);
            }
            self.wait(20);
            for answer in self.answers() {
                let of_last = |waiting: &Waiting| waiting.update.sequence == answer.sequence;
                if waiting.get(&answer.router).is_some_and(of_last) {
                    ensure!(answer.accepts(), "an update of router {} was refused: {}", answer.router, answer.status);
                    let done = waiting.remove(&answer.router);
                    delays.extend(done.map(|done| done.since.elapsed().as_secs_f64() * 1000.0));
                }
            }
            self.retransmit(&mut waiting)?;
        }
    }

    fn retransmit(&mut self, waiting: &mut BTreeMap<u32, Waiting>) -> Result<()> {
        for one in waiting.values_mut().filter(|one| one.sent.elapsed() > RETRANSMISSION) {
            ensure!(one.since.elapsed() < TIMEOUT, "router {} has no acknowledgement", one.update.router);
            one.update = self.update(one.update.router, one.update.place, false)?;
            one.member = (one.member + 1) % self.taps.len().max(1);
            one.sent = clock::now();
            self.send(one.member, &one.update.packet)?;
        }
        Ok(())
    }
}

/// The IPv4 home address that an acknowledgement grants.
fn granted(options: &[MobilityOption]) -> Option<Ipv4Addr> {
    options.iter().find_map(|option| match option {
        MobilityOption::Ipv4AddressAcknowledgement { status: Ipv4Status::ACCEPTED, address, .. } => Some(*address),
        _ => None,
    })
}
