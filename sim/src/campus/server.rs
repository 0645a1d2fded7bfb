//! The server: a Shim6 engine, the trigger that counts packets of each peer, and peers that answer at once.

use super::trace::{Trace, TraceFlow};
use core::cmp::Reverse;
use core::time::Duration;
use roam6_proto::base::ids::{AddressPair, ContextId};
use roam6_proto::contract::config::shim::ShimConfig;
use roam6_proto::contract::input::{Activity, AddressEvent, AddressState, FlowEvent, LinkEvent, Packet, TrafficCount};
use roam6_proto::contract::item::ContextTrigger;
use roam6_proto::shim::Shim;
use roam6_proto::{Engine, Entropy, Input, Key, LinkId, Outbox, Output, Time};
use roam6_wire::ip6::{self, Datagram, Header};
use roam6_wire::shim6::{self, Message, Nonce, ShimOption, Tag};
use std::collections::{BTreeMap, BinaryHeap};
use std::net::Ipv6Addr;

const SERVER: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0xa, 0, 0, 0, 0, 1);
/// The first peer's address.
const PEERS: u128 = 0x2001_0db9 << 96;
const LINK: LinkId = LinkId(1);

/// The number of contexts.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerLoad {
    /// Maximum.
    pub most: usize,
    /// Mean over the day.
    pub mean: f64,
    /// No more for 95 % of the day.
    pub p95: usize,
    /// Contexts created.
    pub made: u64,
    /// Flows.
    pub flows: u64,
    /// Contexts left at the end, after a long idle time.
    pub left: usize,
}

/// Runs a day at a server that removes contexts after `idle_timeout`.
pub fn run(trace: Trace, idle_timeout: Duration) -> ServerLoad {
    let mut server = Server::new(idle_timeout);
    let mut flows = 0;
    for flow in trace {
        server.pass(flow.begin);
        server.begin(flow);
        flows += 1;
    }
    let end = server.now;
    let (most, mean, p95) = server.tally.sum_up(end);
    // All flows end, and all contexts after them.
    server.pass(end + Duration::from_secs(2 * 86_400) + idle_timeout * 4);
    ServerLoad { most, mean, p95, made: server.tally.made, flows, left: server.tally.present }
}

/// The traffic with a peer.
#[derive(Debug, Clone, Copy, Default)]
struct PeerState {
    since: Time,
    /// The last packet of the last flow.
    until: Time,
    octets: u64,
    reported: Option<Time>,
    has_context: bool,
}

struct Server {
    shim: Shim,
    now: Time,
    trigger: ContextTrigger,
    conversations: BTreeMap<u32, PeerState>,
    /// Peers with a report due, by time.
    due: BinaryHeap<Reverse<(Time, u32)>>,
    tally: ContextCount,
}

impl Server {
    fn new(idle_timeout: Duration) -> Server {
        let interfaces = ["u0".to_owned()].into();
        let config = ShimConfig { interfaces, idle_timeout, max_contexts: usize::MAX, ..ShimConfig::default() };
        let mut server = Server {
            shim: Shim::new(config, Entropy::seed_from_u64(1)),
            now: Time::ZERO,
            trigger: ContextTrigger::default(),
            conversations: BTreeMap::new(),
            due: BinaryHeap::new(),
            tally: ContextCount::default(),
        };
        server.feed(Input::Link(LinkEvent { link: LINK, name: "u0".to_owned(), address: None, up: true, mtu: 1500 }));
        let state = AddressState::Preferred;
        server.feed(Input::Address(AddressEvent { link: LINK, address: SERVER, state }));
        server
    }

    /// Handles everything due by `until`.
    fn pass(&mut self, until: Time) {
        loop {
            let reported = self.due.peek().map(|Reverse((at, _))| *at);
            let Some(next) = reported.into_iter().chain(self.shim.deadline()).min().filter(|next| *next <= until)
            else {
                break;
            };
            self.now = self.now.max(next);
            match self.due.peek() {
                Some(Reverse((at, peer))) if *at <= self.now => {
                    let peer = *peer;
                    self.due.pop();
                    self.tell(peer);
                }
                _ => self.feed(Input::Tick),
            }
        }
        self.now = until;
    }

    /// A flow begins: its packets count towards the trigger, as in the data plane.
    fn begin(&mut self, flow: TraceFlow) {
        let (limit, age, idle) = (self.trigger.octets, self.trigger.age, self.trigger.idle_timeout);
        let conversation = self.conversations.entry(flow.peer).or_default();
        if conversation.until + idle < flow.begin {
            // Whether it has a context, the engine alone knows.
            let has_context = conversation.has_context;
            *conversation = PeerState { since: flow.begin, has_context, ..PeerState::default() };
        }
        let lasts = flow.end.since(flow.begin);
        let missing = limit.map(|limit| limit.saturating_sub(conversation.octets));
        let by_octets = missing
            .filter(|missing| flow.octets >= *missing)
            .map(|missing| flow.begin + lasts.mul_f64(missing as f64 / flow.octets.max(1) as f64));
        let by_age = age.map(|age| (conversation.since + age).max(flow.begin)).filter(|at| *at <= flow.end);
        conversation.octets = conversation.octets.saturating_add(flow.octets);
        conversation.until = conversation.until.max(flow.end);
        if let Some(at) = by_octets.into_iter().chain(by_age).min()
            && !conversation.has_context
        {
            self.due.push(Reverse((at, flow.peer)));
        }
    }

    /// The data plane reports a flow, unless it has a context or was reported recently.
    fn tell(&mut self, peer: u32) {
        let (now, again) = (self.now, self.trigger.repeat_after);
        let Some(conversation) = self.conversations.get_mut(&peer) else { return };
        if conversation.has_context || conversation.reported.is_some_and(|reported| now < reported + again) {
            return;
        }
        conversation.reported = Some(now);
        let (octets, since) = (conversation.octets, conversation.since);
        let pair = AddressPair { local: SERVER, peer: address(peer) };
        self.feed(Input::Flow(FlowEvent { pair, link: LINK, packets: 1, octets, since }));
    }

    fn feed(&mut self, input: Input) {
        let mut out = Outbox::new();
        self.shim.handle(self.now, &input, &mut out);
        loop {
            let outputs: Vec<Output> = out.drain().collect();
            if outputs.is_empty() {
                return;
            }
            for output in outputs {
                if let Some(answer) = self.answer(output) {
                    self.shim.handle(self.now, &answer, &mut out);
                }
            }
        }
    }

    /// The reply of the host or the peer.
    fn answer(&mut self, output: Output) -> Option<Input> {
        match output {
            Output::Transmit(transmit) => reply(&transmit.bytes),
            Output::Put(put) => {
                if let Key::ShimContext(id) = put.item.key() {
                    self.note(id, true);
                }
                Some(Input::Outcome(put.outcome(None)))
            }
            Output::Drop(Key::ShimContext(id)) => {
                self.note(id, false);
                None
            }
            Output::ActivityQuery(sample) => Some(Input::Activity(self.activity(sample.context))),
            _ => None,
        }
    }

    fn note(&mut self, id: ContextId, exists: bool) {
        let Some(conversation) = number(id.ulids.peer).and_then(|peer| self.conversations.get_mut(&peer)) else {
            return;
        };
        if conversation.has_context != exists {
            conversation.has_context = exists;
            self.tally.put(self.now, exists);
        }
    }

    fn activity(&self, context: ContextId) -> Activity {
        let conversation = number(context.ulids.peer).and_then(|peer| self.conversations.get(&peer));
        let last = conversation.map(|conversation| conversation.until.min(self.now));
        let (out, into) = (TrafficCount::default(), TrafficCount::default());
        Activity {
            context,
            last_sent: last,
            last_received: last,
            unanswered_since: None,
            unreturned_since: None,
            tx: out,
            rx: into,
        }
    }
}

/// The number of contexts over time.
#[derive(Debug, Default)]
struct ContextCount {
    present: usize,
    made: u64,
    since: Time,
    /// Microseconds by number of contexts.
    lasted: Vec<u64>,
}

impl ContextCount {
    fn put(&mut self, now: Time, more: bool) {
        self.pass(now);
        if more {
            (self.present, self.made) = (self.present + 1, self.made + 1);
        } else {
            self.present = self.present.saturating_sub(1);
        }
    }

    fn pass(&mut self, now: Time) {
        if self.lasted.len() <= self.present {
            self.lasted.resize(self.present + 1, 0);
        }
        let span = u64::try_from(now.since(self.since).as_micros()).unwrap_or(u64::MAX);
        if let Some(lasted) = self.lasted.get_mut(self.present) {
            *lasted += span;
        }
        self.since = now;
    }

    /// Maximum, mean, and 95th percentile.
    fn sum_up(&mut self, now: Time) -> (usize, f64, usize) {
        self.pass(now);
        let whole: u64 = self.lasted.iter().sum();
        let weighted: f64 = self.lasted.iter().enumerate().map(|(count, span)| count as f64 * *span as f64).sum();
        let mut passed = 0;
        let p95 = self.lasted.iter().position(|span| {
            passed += span;
            passed as f64 >= whole as f64 * 0.95
        });
        (self.lasted.len().saturating_sub(1), weighted / (whole as f64).max(1.0), p95.unwrap_or_default())
    }
}

/// The reply of a peer to a handshake message: it has no locators but its ULID.
fn reply(packet: &[u8]) -> Option<Input> {
    let datagram = Datagram::parse(packet).ok().filter(|datagram| datagram.protocol == shim6::PROTOCOL)?;
    let answer = match Message::parse(datagram.payload).ok()? {
        Message::I1 { nonce, .. } => Message::R1 {
            initiator_nonce: nonce,
            responder_nonce: Nonce(1),
            options: vec![ShimOption::Validator(vec![0; 16])],
        },
        Message::I2 { initiator_nonce, .. } => {
            let tag = Tag::from_low_bits(u64::from(number(datagram.destination)?) + 1);
            Message::R2 { tag, nonce: initiator_nonce, options: Vec::new() }
        }
        _ => return None,
    };
    let bytes = ip6::emit(&Header::new(datagram.destination, datagram.source), shim6::PROTOCOL, &answer.emit());
    Some(Input::Packet(Packet { link: LINK, sender: None, bytes }))
}

fn address(peer: u32) -> Ipv6Addr {
    Ipv6Addr::from_bits(PEERS + u128::from(peer))
}

fn number(peer: Ipv6Addr) -> Option<u32> {
    u32::try_from(peer.to_bits().checked_sub(PEERS)?).ok()
}

#[cfg(test)]
mod tests {
    use super::super::trace::TraceSpec;
    use super::*;

    fn busy(idle: u64) -> ServerLoad {
        let shape = TraceSpec { flows: 4000, peers: 500, day: Duration::from_secs(3600) };
        run(Trace::new(shape, 7), Duration::from_secs(idle))
    }

    #[test]
    fn a_shorter_idle_timeout_has_fewer_contexts_and_creates_more() {
        let [short, long] = [busy(10), busy(300)];
        assert_eq!(short, busy(10), "the same seed is the same day");
        assert!(short.mean < long.mean && short.most < long.most, "{short:?} {long:?}");
        assert!(short.made > long.made && long.made > 100, "{short:?} {long:?}");
        assert!((3500..4500).contains(&short.flows));
        assert_eq!((short.left, long.left), (0, 0), "none is kept for ever");
    }
}
