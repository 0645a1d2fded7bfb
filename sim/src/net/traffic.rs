//! A traffic source: an end host that sends numbered packets to its peer, and logs which ones of the peer's have
//! arrived.

use crate::net::datagram::UDP;
use crate::net::{Header, datagram};
use core::time::Duration;
use roam6_proto::{Engine, Input, Outbox, Time, Transmit, Via, View};
use std::cell::RefCell;
use std::net::Ipv6Addr;
use std::rc::Rc;

/// The first port of the packets.
pub const FIRST_PORT: u16 = 7000;
/// Packets rotate over so many ports, each a flow.
pub const FLOWS: u16 = 4;
const HOP_LIMIT: u8 = 64;

/// Addresses and interval of a traffic source.
#[derive(Debug, Clone, Copy)]
pub struct TrafficSpec {
    /// Its own address.
    pub own: Ipv6Addr,
    /// Its peer.
    pub peer: Ipv6Addr,
    /// Interval of packets.
    pub interval: Duration,
}

/// The traffic of one source.
#[derive(Debug, Default)]
pub struct TrafficLog {
    /// Send time of each packet.
    pub sent: Vec<Time>,
    /// Arrivals of each packet at the peer.
    pub arrived: Vec<u32>,
    /// Time of the last arrival.
    pub last: Time,
}

impl TrafficLog {
    /// The number of packets sent from `since` on and before `until` that have not arrived.
    pub fn missing(&self, since: Time, until: Time) -> usize {
        let sent_packets = self.sent.iter().zip(&self.arrived);
        sent_packets.filter(|(sent, arrived)| (since..until).contains(*sent) && **arrived == 0).count()
    }
}

/// The traffic source.
pub struct TrafficSource {
    spec: TrafficSpec,
    next: Time,
    received_by_us: Rc<RefCell<TrafficLog>>,
    received_by_peer: Rc<RefCell<TrafficLog>>,
}

impl TrafficSource {
    /// A source that logs what it sends in `mine` and what arrives from its peer in `others`.
    pub fn new(spec: TrafficSpec, mine: &Rc<RefCell<TrafficLog>>, others: &Rc<RefCell<TrafficLog>>) -> TrafficSource {
        TrafficSource { spec, next: Time::ZERO, received_by_us: Rc::clone(mine), received_by_peer: Rc::clone(others) }
    }

    /// The same with its first packet at `now`; without traffic if `silent`.
    pub fn starting_at(self, now: Time, silent: bool) -> TrafficSource {
        let next = if silent { now + self.spec.interval } else { now };
        TrafficSource { next, ..self }
    }

    fn packet(&self, number: usize) -> Vec<u8> {
        let flow = u16::try_from(number % usize::from(FLOWS)).unwrap_or(0);
        let port = (FIRST_PORT + flow).to_be_bytes();
        let mut datagram = vec![port[0], port[1], port[0], port[1], 0, 16, 0, 0];
        datagram.extend(u64::try_from(number).unwrap_or(0).to_be_bytes());
        let header = Header { source: self.spec.own, destination: self.spec.peer, next: UDP, hop_limit: HOP_LIMIT };
        datagram::build(header, &datagram)
    }

    fn receive(&mut self, now: Time, packet: &[u8]) {
        let Some((UDP, datagram)) = datagram::upper_layer(packet) else { return };
        let Some(number) = datagram.last_chunk::<8>() else { return };
        let mut others = self.received_by_peer.borrow_mut();
        let index = usize::try_from(u64::from_be_bytes(*number)).unwrap_or(usize::MAX);
        if let Some(arrived) = others.arrived.get_mut(index) {
            *arrived += 1;
            others.last = now;
        }
    }
}

impl Engine for TrafficSource {
    fn handle(&mut self, now: Time, input: &Input, out: &mut Outbox) {
        if let Input::Packet(packet) = input {
            self.receive(now, &packet.bytes);
        }
        if now >= self.next {
            let number = self.received_by_us.borrow().sent.len();
            out.transmit(Transmit { via: Via::Route, bytes: self.packet(number) });
            let mut mine = self.received_by_us.borrow_mut();
            mine.sent.push(now);
            mine.arrived.push(0);
            self.next = now + self.spec.interval;
        }
    }

    fn deadline(&self) -> Option<Time> {
        Some(self.next)
    }

    fn view(&self, _: Time, _: &mut View) {}
}
