//! Echo over BTP-A ([`roam6_wire::geo::echo`]): echo requests of this station, and replies to those of others.
//!
//! An echo request is answered by at most one packet, to its source, within a rate limit. A reply causes a report and
//! nothing else.

use super::request::{Delivery, PacketRequest};
use crate::base::rng::Entropy;
use crate::base::time::Time;
use crate::base::token_bucket::TokenBucket;
use crate::base::vec_map::VecMap;
use crate::base::vec_set::VecSet;
use crate::contract::config::geo::{EchoId, EchoRequest, PacketParameters, TransportType};
use crate::contract::report::{DropReason, GeoReport, HostReport, Report};
use core::time::Duration;
use roam6_wire::LinkAddress;
use roam6_wire::geo::echo::{Echo, EchoType, PORT};
use roam6_wire::geo::{GeoAddress, TrafficClass, UpperProtocol};

/// Maximum outstanding echo requests; the oldest is removed.
pub const MAX_OUTSTANDING: usize = 256;
/// Maximum stations whose reply to one request is reported.
pub const MAX_REPLIES: usize = 1024;
/// Maximum replies that wait for their delay.
pub const MAX_PENDING_REPLIES: usize = 64;

/// How long replies to a request are reported.
const REQUEST_LIFETIME: Duration = Duration::from_secs(60);
/// Largest delay of a reply.
const MAX_SPREAD: Duration = Duration::from_secs(5);
/// Rate limit of replies: burst, and the interval for each further one.
const REPLY_LIMIT: (u32, Duration) = (50, Duration::from_millis(20));

/// Echo requests and replies of one station.
#[derive(Debug)]
pub struct EchoService {
    outstanding: VecMap<EchoId, OutstandingRequest>,
    /// Delayed replies by their due time and a sequence number.
    pending_replies: VecMap<(Time, u64), PendingReply>,
    next: u64,
    limiter: TokenBucket,
    entropy: Entropy,
}

#[derive(Debug)]
struct OutstandingRequest {
    sent: Time,
    responders: VecSet<LinkAddress>,
}

#[derive(Debug)]
struct PendingReply {
    received: Time,
    to: GeoAddress,
    port: u16,
    kind: EchoType,
    hops: u8,
    id: EchoId,
    data: Vec<u8>,
}

impl EchoService {
    /// The echo service, with no request sent.
    pub fn new(entropy: Entropy) -> EchoService {
        let (burst, interval) = REPLY_LIMIT;
        let limiter = TokenBucket::new(burst, interval);
        EchoService { outstanding: VecMap::new(), pending_replies: VecMap::new(), next: 0, limiter, entropy }
    }

    /// Builds the echo request.
    pub fn request(&mut self, now: Time, request: &EchoRequest, class: TrafficClass) -> PacketRequest {
        if self.outstanding.len() >= MAX_OUTSTANDING
            && let Some(oldest) = self.outstanding.iter().min_by_key(|(_, old)| old.sent).map(|(probe, _)| *probe)
        {
            self.outstanding.remove(&oldest);
        }
        let EchoId { identifier, sequence } = request.id;
        self.outstanding.insert(request.id, OutstandingRequest { sent: now, responders: VecSet::new() });
        let data = vec![0xa5; usize::from(request.octets)];
        let micros = micros(request.spread.min(MAX_SPREAD));
        let (kind, trace) = (EchoType::Request, request.trace);
        let echo = Echo { kind, trace, hops: 0, identifier, sequence, micros, data: &data };
        btp_request(request.to, echo.to_port(PORT), class, request.parameters)
    }

    /// Receives a packet that may be an echo: queues the reply to a request ([`EchoService::next_reply`] takes it), and reports
    /// a reply.
    pub fn receive(&mut self, now: Time, delivery: &Delivery<'_>) -> Option<Report> {
        let (echo, port) = match Echo::of(&delivery.packet)? {
            Ok(echo) => echo,
            Err(error) => return Some(dropped(DropReason::Malformed, &error.to_string())),
        };
        match echo.kind {
            EchoType::Request => {
                self.enqueue_reply(now, delivery, &echo, port).err().map(|reason| dropped(reason, "an echo request"))
            }
            EchoType::Reply | EchoType::Limit if delivery.hop_limit_reached => None,
            EchoType::Reply | EchoType::Limit => Some(self.receive_reply(now, delivery, &echo)),
        }
    }

    fn enqueue_reply(
        &mut self,
        now: Time,
        delivery: &Delivery<'_>,
        echo: &Echo<'_>,
        port: u16,
    ) -> Result<(), DropReason> {
        if self.pending_replies.len() >= MAX_PENDING_REPLIES {
            return Err(DropReason::BufferFull);
        }
        if !self.limiter.take(now) {
            return Err(DropReason::RateLimited);
        }
        let packet = &delivery.packet;
        let spread = u64::from(echo.micros).min(micros(MAX_SPREAD).into());
        let due = now + Duration::from_micros(self.entropy.below(spread));
        let answer = PendingReply {
            received: now,
            to: packet.extended.source().address,
            port,
            kind: if delivery.hop_limit_reached { EchoType::Limit } else { EchoType::Reply },
            hops: packet.max_hop_limit.saturating_sub(packet.remaining_hop_limit).saturating_add(1),
            id: EchoId { identifier: echo.identifier, sequence: echo.sequence },
            data: echo.data.to_vec(),
        };
        self.next += 1;
        self.pending_replies.insert((due, self.next), answer);
        Ok(())
    }

    fn receive_reply(&mut self, now: Time, delivery: &Delivery<'_>, echo: &Echo<'_>) -> Report {
        let probe = EchoId { identifier: echo.identifier, sequence: echo.sequence };
        let Some(request) = self.outstanding.get_mut(&probe).filter(|known| now.since(known.sent) < REQUEST_LIFETIME)
        else {
            return dropped(DropReason::Unsolicited, "a reply to no outstanding request");
        };
        let source = delivery.packet.extended.source();
        let mid = source.address.mid;
        if request.responders.len() >= MAX_REPLIES && !request.responders.contains(&mid) {
            return dropped(DropReason::BufferFull, "the limit of replies to one request is reached");
        }
        Report::Geo(GeoReport::EchoReply {
            identifier: probe.identifier,
            sequence: probe.sequence,
            mid,
            kind: source.address.station.to_string(),
            place: source.place,
            hops: echo.hops,
            octets: echo.data.len(),
            rtt: now.since(request.sent).saturating_sub(Duration::from_micros(echo.micros.into())),
            arrived: echo.kind == EchoType::Reply,
            again: !request.responders.insert(mid),
        })
    }

    /// Takes a reply that is due.
    pub fn next_reply(&mut self, now: Time, class: TrafficClass) -> Option<PacketRequest> {
        self.deadline().filter(|due| *due <= now)?;
        let (_, PendingReply { received, to, port, kind, hops, id: probe, data }) = self.pending_replies.pop_first()?;
        let (EchoId { identifier, sequence }, micros) = (probe, micros(now.since(received)));
        let echo = Echo { kind, trace: false, hops, identifier, sequence, micros, data: &data };
        Some(btp_request(TransportType::GeoUnicast(to), echo.to_port(port), class, PacketParameters::default()))
    }

    /// When the next reply is due.
    pub fn deadline(&self) -> Option<Time> {
        self.pending_replies.keys().next().map(|(due, _)| *due)
    }
}

fn btp_request(to: TransportType, payload: Vec<u8>, class: TrafficClass, with: PacketParameters) -> PacketRequest {
    PacketRequest {
        to,
        upper: UpperProtocol::BtpA,
        payload,
        class: with.traffic_class(class),
        lifetime: with.lifetime,
        hops: with.hops,
        repetition: None,
    }
}

fn dropped(reason: DropReason, what: &str) -> Report {
    Report::Host(HostReport::Dropped { reason, from: None, detail: format!("echo: {what}") })
}

fn micros(span: Duration) -> u32 {
    u32::try_from(span.as_micros()).unwrap_or(u32::MAX)
}
