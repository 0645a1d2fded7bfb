//! The host's connections: the Multipath TCP of a kernel as far as it matters here. A subflow is tried once, when its
//! endpoint is added; it ends with its endpoint, not with its address; the correspondent is told of a removal once.

use super::message::{Kind, Message};
use core::time::Duration;
use roam6_proto::base::ids::MptcpToken;
use roam6_proto::contract::input::{SubflowEventKind, SubflowEvent};
use roam6_proto::contract::item::MptcpEndpoint;
use roam6_proto::{Outbox, Time};
use std::collections::BTreeMap;
use std::net::{Ipv6Addr, SocketAddrV6};

/// Interval of data.
const PACE: Duration = Duration::from_millis(200);
/// A subflow whose data is not acknowledged for this time is avoided if there is another.
const STALE: Duration = Duration::from_secs(1);
/// Interval of keepalives on an idle subflow.
const ALIVE: Duration = Duration::from_secs(10);
/// An application whose connection has had no subflow for this time opens another.
const GIVES_UP: Duration = Duration::from_secs(20);
/// First retransmission timeout of a join, and the number of attempts.
const JOIN: (Duration, u32) = (Duration::from_secs(1), 4);

/// All connections of a host.
#[derive(Debug)]
pub struct Sockets {
    /// The source address of new connections.
    home: Ipv6Addr,
    connections: Vec<Connection>,
    endpoints: BTreeMap<Ipv6Addr, (u8, MptcpEndpoint)>,
    next: Time,
}

/// One connection.
#[derive(Debug)]
pub struct Connection {
    peer: Ipv6Addr,
    flows: BTreeMap<Ipv6Addr, Flow>,
    /// It was established: endpoints added from now on join it.
    begun: bool,
    /// Since when it has no subflow.
    alone_since: Option<Time>,
    sequence: u32,
    /// The last acknowledgement of data, and its path.
    pub acknowledged: Option<(Time, Ipv6Addr)>,
}

#[derive(Debug)]
struct Flow {
    id: u8,
    /// It is the first subflow of the connection.
    first: bool,
    state: State,
    /// Since when data is unacknowledged.
    waiting: Option<Time>,
    said: Time,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Trying { again: Time, tries: u32 },
    Open,
}

impl Sockets {
    /// Connections from `home`, one to each peer.
    pub fn new(home: Ipv6Addr, peers: &[Ipv6Addr]) -> Sockets {
        let new = |peer: &Ipv6Addr| Connection {
            peer: *peer,
            flows: BTreeMap::new(),
            begun: false,
            alone_since: None,
            sequence: 0,
            acknowledged: None,
        };
        let connections = peers.iter().map(new).collect();
        Sockets { home, connections, endpoints: BTreeMap::new(), next: Time::ZERO }
    }

    /// All of them.
    pub fn connections(&self) -> &[Connection] {
        &self.connections
    }

    /// An address becomes an endpoint, or changes its flags.
    pub fn put(&mut self, now: Time, endpoint: MptcpEndpoint) {
        let free = (1..=u8::MAX).find(|id| self.endpoints.values().all(|(used, _)| used != id)).unwrap_or(u8::MAX);
        let id = self.endpoints.get(&endpoint.address).map_or(free, |(id, _)| *id);
        if self.endpoints.insert(endpoint.address, (id, endpoint)).is_some() {
            return;
        }
        for connection in self.connections.iter_mut().filter(|connection| connection.begun) {
            connection.flows.entry(endpoint.address).or_insert_with(|| Flow::new(id, false, now));
        }
    }

    /// An endpoint is removed: its subflows close.
    pub fn drop(&mut self, address: Ipv6Addr, out: &mut Outbox) -> Vec<SubflowEvent> {
        if self.endpoints.remove(&address).is_none() {
            return Vec::new();
        }
        let mut events = Vec::new();
        for (number, connection) in self.connections.iter_mut().enumerate() {
            let Some(flow) = connection.flows.remove(&address) else { continue };
            events.push(connection.event(number, address, SubflowEventKind::SubflowClosed));
            let other = connection.flows.iter().find(|(_, other)| other.state == State::Open);
            if let Some((other, _)) = other {
                out.transmit(connection.message(number, Kind::Remove, flow.id).send(*other, connection.peer));
            }
        }
        events
    }

    /// Receives a packet.
    pub fn hear(&mut self, now: Time, packet: &[u8]) -> Option<SubflowEvent> {
        let (header, message) = Message::read(packet)?;
        let number = usize::from(message.connection);
        let connection = self.connections.get_mut(number).filter(|connection| connection.peer == header.source)?;
        let local = header.destination;
        let flow = connection.flows.get_mut(&local)?;
        let change = match message.kind {
            Kind::Joined if flow.state != State::Open => {
                flow.state = State::Open;
                let first = flow.first;
                if !std::mem::replace(&mut connection.begun, true) {
                    // Endpoints there are already join it, now that it stands.
                    for (address, (id, _)) in &self.endpoints {
                        connection.flows.entry(*address).or_insert_with(|| Flow::new(*id, false, now));
                    }
                }
                if first { SubflowEventKind::ConnectionEstablished } else { SubflowEventKind::SubflowEstablished }
            }
            Kind::Acknowledged => {
                flow.waiting = None;
                connection.acknowledged = Some((now, local));
                return None;
            }
            Kind::Reset => {
                connection.flows.remove(&local);
                SubflowEventKind::SubflowClosed
            }
            _ => return None,
        };
        Some(connection.event(number, local, change))
    }

    /// Runs the timers that have expired.
    pub fn expire(&mut self, now: Time, has_home: bool, out: &mut Outbox) -> Vec<SubflowEvent> {
        let (home, endpoints) = (self.home, &self.endpoints);
        let paced = self.next <= now;
        if paced {
            self.next = now + PACE;
        }
        let mut events = Vec::new();
        for (number, connection) in self.connections.iter_mut().enumerate() {
            connection.join(now, number, out);
            if !connection.flows.is_empty() {
                connection.alone_since = None;
            } else if *connection.alone_since.get_or_insert(now) + GIVES_UP <= now && connection.begun {
                events.push(connection.event(number, home, SubflowEventKind::ConnectionClosed));
                connection.begun = false;
            }
            if connection.flows.is_empty() && !connection.begun && has_home && paced {
                connection.flows.insert(home, Flow::new(0, true, now));
            }
            if paced {
                connection.say(now, number, endpoints, out);
            }
        }
        events
    }

    /// When [`Sockets::expire`] is due.
    pub fn deadline(&self) -> Time {
        let flows = self.connections.iter().flat_map(|connection| connection.flows.values());
        let again = flows.filter_map(|flow| match flow.state {
            State::Trying { again, .. } => Some(again),
            State::Open => None,
        });
        again.min().map_or(self.next, |again| again.min(self.next))
    }
}

impl Flow {
    fn new(id: u8, first: bool, now: Time) -> Flow {
        Flow { id, first, state: State::Trying { again: now, tries: 0 }, waiting: None, said: now }
    }
}

impl Connection {
    /// The source addresses of its subflows.
    pub fn paths(&self) -> Vec<Ipv6Addr> {
        self.flows.iter().filter(|(_, flow)| flow.state == State::Open).map(|(address, _)| *address).collect()
    }

    fn message(&self, number: usize, kind: Kind, id: u8) -> Message {
        Message { connection: u8::try_from(number).unwrap_or(u8::MAX), kind, id, sequence: self.sequence }
    }

    fn event(&self, number: usize, local: Ipv6Addr, change: SubflowEventKind) -> SubflowEvent {
        let end = |address| SocketAddrV6::new(address, 9000, 0, 0);
        let token = MptcpToken(u32::try_from(number).unwrap_or(u32::MAX));
        SubflowEvent { token, kind: change, local: end(local), remote: end(self.peer), error: 0 }
    }

    fn join(&mut self, now: Time, number: usize, out: &mut Outbox) {
        let mut asked = Vec::new();
        self.flows.retain(|address, flow| {
            let State::Trying { again, tries } = flow.state else { return true };
            if again > now {
                return true;
            }
            flow.state = State::Trying { again: now + JOIN.0 * (1 << tries), tries: tries + 1 };
            let kind = if flow.first { Kind::Begin } else { Kind::Join };
            asked.push((*address, kind, flow.id));
            tries < JOIN.1
        });
        for (address, kind, id) in asked {
            out.transmit(self.message(number, kind, id).send(address, self.peer));
        }
    }

    /// Sends data by the best subflow, and by the others now and then.
    fn say(&mut self, now: Time, number: usize, endpoints: &BTreeMap<Ipv6Addr, (u8, MptcpEndpoint)>, out: &mut Outbox) {
        let backup = |address: &Ipv6Addr| endpoints.get(address).is_some_and(|(_, endpoint)| endpoint.flags.backup);
        let open = self.flows.iter().filter(|(_, flow)| flow.state == State::Open);
        let stale = |flow: &Flow| flow.waiting.is_some_and(|since| since + STALE <= now);
        let best = open.min_by_key(|(address, flow)| (stale(flow), backup(address))).map(|(address, _)| *address);
        self.sequence += 1;
        let data = self.message(number, Kind::Data, 0);
        for (address, flow) in self.flows.iter_mut().filter(|(_, flow)| flow.state == State::Open) {
            if Some(*address) == best || flow.said + ALIVE <= now {
                flow.said = now;
                flow.waiting.get_or_insert(now);
                out.transmit(data.send(*address, self.peer));
            }
        }
    }
}
