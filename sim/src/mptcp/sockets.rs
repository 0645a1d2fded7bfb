//! The host's connections: the Multipath TCP of a kernel as far as it matters here. A subflow is tried once, when its
//! endpoint is added; it ends with its endpoint, not with its address; REMOVE_ADDR is sent once.

use super::message::{Message, MessageKind};
use core::time::Duration;
use roam6_proto::base::ids::MptcpToken;
use roam6_proto::contract::input::{SubflowEvent, SubflowEventKind};
use roam6_proto::contract::item::MptcpEndpoint;
use roam6_proto::{Outbox, Time};
use std::collections::BTreeMap;
use std::net::{Ipv6Addr, SocketAddrV6};

/// Interval of data.
const SEND_INTERVAL: Duration = Duration::from_millis(200);
/// A subflow whose data is not acknowledged for this time is avoided if there is another.
const ACK_TIMEOUT: Duration = Duration::from_secs(1);
/// Interval of keepalives on an idle subflow.
const IDLE_LIMIT: Duration = Duration::from_secs(10);
/// An application whose connection has had no subflow for this time opens another.
const SUBFLOW_TIMEOUT: Duration = Duration::from_secs(20);
/// First retransmission timeout of a join, and the number of attempts.
const JOIN_RETRANSMISSION: (Duration, u32) = (Duration::from_secs(1), 4);

/// All connections of a host.
#[derive(Debug)]
pub struct Sockets {
    /// The source address of new connections.
    home: Ipv6Addr,
    /// Its connections, one to each peer.
    pub connections: Vec<Connection>,
    endpoints: BTreeMap<Ipv6Addr, (u8, MptcpEndpoint)>,
    next: Time,
}

/// One connection.
#[derive(Debug)]
pub struct Connection {
    peer: Ipv6Addr,
    flows: BTreeMap<Ipv6Addr, Subflow>,
    /// It was established: endpoints added from now on join it.
    established: bool,
    /// Since when it has no subflow.
    without_subflow_since: Option<Time>,
    sequence: u32,
    /// The last acknowledgement of data, and its path.
    pub acknowledged: Option<(Time, Ipv6Addr)>,
}

#[derive(Debug)]
struct Subflow {
    id: u8,
    /// It is the first subflow of the connection.
    first: bool,
    state: SubflowState,
    /// Since when data is unacknowledged.
    waiting: Option<Time>,
    last_sent: Time,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SubflowState {
    Trying { again: Time, tries: u32 },
    Open,
}

impl Sockets {
    /// Connections from `home`, one to each peer.
    pub fn new(home: Ipv6Addr, peers: &[Ipv6Addr]) -> Sockets {
        let new = |peer: &Ipv6Addr| Connection {
            peer: *peer,
            flows: BTreeMap::new(),
            established: false,
            without_subflow_since: None,
            sequence: 0,
            acknowledged: None,
        };
        let connections = peers.iter().map(new).collect();
        Sockets { home, connections, endpoints: BTreeMap::new(), next: Time::ZERO }
    }

    /// An address becomes an endpoint, or changes its flags.
    pub fn put(&mut self, now: Time, endpoint: MptcpEndpoint) {
        let free = (1..=u8::MAX).find(|id| self.endpoints.values().all(|(used, _)| used != id)).unwrap_or(u8::MAX);
        let id = self.endpoints.get(&endpoint.address).map_or(free, |(id, _)| *id);
        if self.endpoints.insert(endpoint.address, (id, endpoint)).is_some() {
            return;
        }
        for connection in self.connections.iter_mut().filter(|connection| connection.established) {
            connection.flows.entry(endpoint.address).or_insert_with(|| Subflow::new(id, false, now));
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
            let other = connection.flows.iter().find(|(_, other)| other.state == SubflowState::Open);
            if let Some((other, _)) = other {
                out.transmit(connection.message(number, MessageKind::Remove, flow.id).send(*other, connection.peer));
            }
        }
        events
    }

    /// Receives a packet.
    pub fn receive(&mut self, now: Time, packet: &[u8]) -> Option<SubflowEvent> {
        let (header, message) = Message::parse(packet)?;
        let number = usize::from(message.connection);
        let connection = self.connections.get_mut(number).filter(|connection| connection.peer == header.source)?;
        let local = header.destination;
        let flow = connection.flows.get_mut(&local)?;
        let change = match message.kind {
            MessageKind::Joined if flow.state != SubflowState::Open => {
                flow.state = SubflowState::Open;
                let first = flow.first;
                if !std::mem::replace(&mut connection.established, true) {
                    // Existing endpoints join the connection once it is established.
                    for (address, (id, _)) in &self.endpoints {
                        connection.flows.entry(*address).or_insert_with(|| Subflow::new(*id, false, now));
                    }
                }
                if first { SubflowEventKind::ConnectionEstablished } else { SubflowEventKind::SubflowEstablished }
            }
            MessageKind::Acknowledged => {
                flow.waiting = None;
                connection.acknowledged = Some((now, local));
                return None;
            }
            MessageKind::Reset => {
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
            self.next = now + SEND_INTERVAL;
        }
        let mut events = Vec::new();
        for (number, connection) in self.connections.iter_mut().enumerate() {
            connection.retry_joins(now, number, out);
            if !connection.flows.is_empty() {
                connection.without_subflow_since = None;
            } else if *connection.without_subflow_since.get_or_insert(now) + SUBFLOW_TIMEOUT <= now
                && connection.established
            {
                events.push(connection.event(number, home, SubflowEventKind::ConnectionClosed));
                connection.established = false;
            }
            if connection.flows.is_empty() && !connection.established && has_home && paced {
                connection.flows.insert(home, Subflow::new(0, true, now));
            }
            if paced {
                connection.send_data(now, number, endpoints, out);
            }
        }
        events
    }

    /// When [`Sockets::expire`] is due.
    pub fn deadline(&self) -> Time {
        let flows = self.connections.iter().flat_map(|connection| connection.flows.values());
        let again = flows.filter_map(|flow| match flow.state {
            SubflowState::Trying { again, .. } => Some(again),
            SubflowState::Open => None,
        });
        again.min().map_or(self.next, |again| again.min(self.next))
    }
}

impl Subflow {
    fn new(id: u8, first: bool, now: Time) -> Subflow {
        Subflow { id, first, state: SubflowState::Trying { again: now, tries: 0 }, waiting: None, last_sent: now }
    }
}

impl Connection {
    /// The source addresses of its subflows.
    pub fn paths(&self) -> Vec<Ipv6Addr> {
        self.flows.iter().filter(|(_, flow)| flow.state == SubflowState::Open).map(|(address, _)| *address).collect()
    }

    fn message(&self, number: usize, kind: MessageKind, id: u8) -> Message {
        Message { connection: u8::try_from(number).unwrap_or(u8::MAX), kind, id, sequence: self.sequence }
    }

    fn event(&self, number: usize, local: Ipv6Addr, change: SubflowEventKind) -> SubflowEvent {
        let end = |address| SocketAddrV6::new(address, 9000, 0, 0);
        let token = MptcpToken(u32::try_from(number).unwrap_or(u32::MAX));
        SubflowEvent { token, kind: change, local: end(local), remote: end(self.peer), error: 0 }
    }

    fn retry_joins(&mut self, now: Time, number: usize, out: &mut Outbox) {
        let mut asked = Vec::new();
        self.flows.retain(|address, flow| {
            let SubflowState::Trying { again, tries } = flow.state else { return true };
            if again > now {
                return true;
            }
            flow.state = SubflowState::Trying { again: now + JOIN_RETRANSMISSION.0 * (1 << tries), tries: tries + 1 };
            let kind = if flow.first { MessageKind::Begin } else { MessageKind::Join };
            asked.push((*address, kind, flow.id));
            tries < JOIN_RETRANSMISSION.1
        });
        for (address, kind, id) in asked {
            out.transmit(self.message(number, kind, id).send(address, self.peer));
        }
    }

    /// Sends data by the best subflow, and by the others now and then.
    fn send_data(
        &mut self,
        now: Time,
        number: usize,
        endpoints: &BTreeMap<Ipv6Addr, (u8, MptcpEndpoint)>,
        out: &mut Outbox,
    ) {
        let backup = |address: &Ipv6Addr| endpoints.get(address).is_some_and(|(_, endpoint)| endpoint.flags.backup);
        let open = self.flows.iter().filter(|(_, flow)| flow.state == SubflowState::Open);
        let stale = |flow: &Subflow| flow.waiting.is_some_and(|since| since + ACK_TIMEOUT <= now);
        let best = open.min_by_key(|(address, flow)| (stale(flow), backup(address))).map(|(address, _)| *address);
        self.sequence += 1;
        let data = self.message(number, MessageKind::Data, 0);
        for (address, flow) in self.flows.iter_mut().filter(|(_, flow)| flow.state == SubflowState::Open) {
            if Some(*address) == best || flow.last_sent + IDLE_LIMIT <= now {
                flow.last_sent = now;
                flow.waiting.get_or_insert(now);
                out.transmit(data.send(*address, self.peer));
            }
        }
    }
}
