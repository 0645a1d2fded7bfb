//! A train of numbered datagrams in both directions, with timestamps of sending and reception.
//!
//! Gaps and losses are computed from the timestamps, so their resolution is the interval, whatever the load of the
//! machine.

use crate::bed::Host;
use crate::statistics::longest_silence;
use crate::threads::{Shared, Workers};
use crate::{clock, sys};
use anyhow::{Context, Result};
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{RcvBufForce, ReceiveTimestampns};
use std::net::{Ipv6Addr, SocketAddrV6, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Octets of the payload of a datagram, as of a voice call.
const DATAGRAM_OCTETS: usize = 160;
/// Octets of the longest datagram.
const MAX_OCTETS: usize = 1500;
/// Octets of a socket's receive buffer.
const RECEIVE_BUFFER: usize = 4 << 20;
/// Priority of the threads, so that timestamps do not depend on the tested programs.
const REALTIME_PRIORITY: i32 = 10;

/// Which timestamp of a delivered datagram counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stamp {
    /// The time of sending.
    Sent,
    /// The time of reception.
    Received,
}

/// A running train between two endpoints.
pub(crate) struct Train {
    /// From the first endpoint to the second.
    pub(crate) forward: OneWayTrain,
    /// From the second endpoint to the first.
    pub(crate) reverse: OneWayTrain,
    /// Time between datagrams.
    pub(crate) interval: Duration,
    workers: Workers,
}

/// What a train sends in one direction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pattern {
    /// Octets of a datagram's payload, from 8 to 1500.
    pub(crate) octets: usize,
    /// Time between ticks.
    pub(crate) interval: Duration,
    /// Datagrams of a tick, which is counted from 0.
    pub(crate) burst: fn(u64) -> u64,
}

/// A datagram of a train; times in microseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sent {
    /// Its number, from 0.
    pub(crate) number: u64,
    /// When it was sent.
    pub(crate) sent: u64,
    /// When it arrived first; `None`: never.
    pub(crate) received: Option<u64>,
}

/// One direction: times of sending and reception, microseconds since 1970.
#[derive(Debug, Clone, Default)]
pub(crate) struct OneWayTrain(Shared<Stamps>);

#[derive(Debug, Default)]
struct Stamps {
    sent: Vec<u64>,
    received: Vec<(u64, u64)>,
}

/// Delivery of the datagrams of one direction sent within a time span.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct DeliveryCounts {
    /// Sent.
    pub(crate) sent: usize,
    /// Never received.
    pub(crate) lost: usize,
    /// Received more than once.
    pub(crate) duplicated: usize,
    /// Received after one that was sent later.
    pub(crate) reordered: usize,
}

/// An endpoint of traffic.
pub(crate) struct Endpoint<'a> {
    /// The host.
    pub(crate) host: &'a Host,
    /// Its address.
    pub(crate) address: Ipv6Addr,
}

impl Train {
    /// Starts `rate` datagrams per second in each direction, from and to UDP `port`.
    pub(crate) fn start(ends: [Endpoint<'_>; 2], port: u16, rate: u32) -> Result<Train> {
        let interval = Duration::from_secs(1) / rate.max(1);
        let pattern = Pattern { octets: DATAGRAM_OCTETS, interval, burst: |_| 1 };
        Train::start_with(ends, port, [pattern, pattern])
    }

    /// [`Train::start`] with datagrams that take turns at so many source ports: flows that routers spread.
    pub(crate) fn start_flows(ends: [Endpoint<'_>; 2], port: u16, rate: u32, flows: u16) -> Result<Train> {
        let interval = Duration::from_secs(1) / rate.max(1);
        let pattern = Pattern { octets: DATAGRAM_OCTETS, interval, burst: |_| 1 };
        let sockets = |end: &Endpoint<'_>| (0..flows).map(|_| open_socket(end, 0)).collect::<Result<Vec<UdpSocket>>>();
        let from = [sockets(&ends[0])?, sockets(&ends[1])?];
        Train::start_from(ends, port, [pattern, pattern], from)
    }

    /// [`Train::start`] with these datagrams from the first endpoint to the second, and back.
    pub(crate) fn start_with(ends: [Endpoint<'_>; 2], port: u16, patterns: [Pattern; 2]) -> Result<Train> {
        Train::start_from(ends, port, patterns, [Vec::new(), Vec::new()])
    }

    /// Without sockets to send from, those that receive are used.
    fn start_from(
        ends: [Endpoint<'_>; 2],
        port: u16,
        patterns: [Pattern; 2],
        [mut from_here, mut from_there]: [Vec<UdpSocket>; 2],
    ) -> Result<Train> {
        let ([first, second], [pattern, reverse_pattern]) = (ends, patterns);
        let (forward, reverse, mut workers) = (OneWayTrain::default(), OneWayTrain::default(), Workers::default());
        let (here, there) = (open_socket(&first, port)?, open_socket(&second, port)?);
        for (socket, flow) in [(there.try_clone()?, forward.clone()), (here.try_clone()?, reverse.clone())] {
            workers.spawn("train in", move |stop| receive(&socket, &flow, stop))?;
        }
        for (sockets, receiver) in [(&mut from_here, here), (&mut from_there, there)] {
            if sockets.is_empty() {
                sockets.push(receiver);
            }
        }
        let out = [
            (from_here, second.address, forward.clone(), pattern),
            (from_there, first.address, reverse.clone(), reverse_pattern),
        ];
        for (sockets, to, flow, pattern) in out {
            let to = SocketAddrV6::new(to, port, 0, 0);
            workers.spawn("train out", move |stop| send(&sockets, to, &flow, pattern, stop))?;
        }
        Ok(Train { forward, reverse, interval: pattern.interval, workers })
    }

    /// Datagrams of both directions, sent from `begin` until before `end` (microseconds since 1970), that were lost.
    pub(crate) fn lost(&self, begin: u64, end: u64) -> usize {
        self.forward.delivery_counts(begin, end).lost + self.reverse.delivery_counts(begin, end).lost
    }

    /// The longest silence as seen from the first endpoint, microseconds: outbound by the time of sending, inbound by the
    /// time of reception.
    pub(crate) fn longest_silence(&self, begin: u64, end: u64) -> u64 {
        let outbound = self.forward.longest_silence(Stamp::Sent, begin, end);
        outbound.max(self.reverse.longest_silence(Stamp::Received, begin, end))
    }

    /// Ends the train; the timestamps are kept.
    pub(crate) fn stop(&mut self) {
        self.workers.stop();
    }
}

impl OneWayTrain {
    /// Delivery of the datagrams sent from `begin` until before `end`, microseconds since 1970.
    pub(crate) fn delivery_counts(&self, begin: u64, end: u64) -> DeliveryCounts {
        let stamps = self.0.lock();
        let (first, last) = stamps.sequence_range(begin, end);
        let mut copies = vec![0_usize; last - first];
        let (mut overtaken, mut highest) = (0, 0);
        for (number, _) in &stamps.received {
            overtaken += usize::from(*number < highest && (first as u64..last as u64).contains(number));
            highest = highest.max(*number);
            let index = usize::try_from(*number).unwrap_or(usize::MAX).wrapping_sub(first);
            if let Some(count) = copies.get_mut(index) {
                *count += 1;
            }
        }
        DeliveryCounts {
            sent: copies.len(),
            lost: copies.iter().filter(|count| **count == 0).count(),
            duplicated: copies.iter().map(|count| count.saturating_sub(1)).sum(),
            reordered: overtaken,
        }
    }

    /// The datagrams sent from `begin` until before `end`, microseconds since 1970, in order of sending.
    pub(crate) fn datagrams(&self, begin: u64, end: u64) -> Vec<Sent> {
        let stamps = self.0.lock();
        let (first, last) = stamps.sequence_range(begin, end);
        let sent = stamps.sent.get(first..last).unwrap_or_default();
        let mut datagrams: Vec<Sent> =
            (first as u64..).zip(sent).map(|(number, sent)| Sent { number, sent: *sent, received: None }).collect();
        for (number, time) in &stamps.received {
            let index = usize::try_from(*number).unwrap_or(usize::MAX).wrapping_sub(first);
            if let Some(datagram) = datagrams.get_mut(index) {
                datagram.received = Some(datagram.received.map_or(*time, |earlier| earlier.min(*time)));
            }
        }
        datagrams
    }

    /// The longest span between two consecutive deliveries by `stamp` that touches the time from `begin` to `end`,
    /// microseconds; the distance to `end` counts if nothing came after.
    pub(crate) fn longest_silence(&self, stamp: Stamp, begin: u64, end: u64) -> u64 {
        longest_silence(self.delivery_times(stamp), begin, end)
    }

    /// The first delivery at or after `moment` by `stamp`, microseconds since 1970.
    pub(crate) fn first_after(&self, stamp: Stamp, moment: u64) -> Option<u64> {
        self.delivery_times(stamp).into_iter().find(|time| *time >= moment)
    }

    /// Reception times from `begin` on, latest first; microseconds since 1970.
    pub(crate) fn received_since(&self, begin: u64) -> Vec<u64> {
        self.0.lock().received.iter().rev().map(|(_, time)| *time).take_while(|time| *time >= begin).collect()
    }

    /// Whether a datagram was received in the last 100 ms.
    pub(crate) fn is_receiving(&self) -> bool {
        self.0.lock().received.last().is_some_and(|(_, time)| clock::unix_micros() < time + 100_000)
    }

    /// One-way delays of the received datagrams, microseconds.
    pub(crate) fn delays(&self) -> Vec<u64> {
        let stamps = self.0.lock();
        stamps
            .received
            .iter()
            .filter_map(|(number, time)| Some(time.saturating_sub(stamps.sent_at(*number)?)))
            .collect()
    }

    /// Times of all deliveries in ascending order.
    fn delivery_times(&self, stamp: Stamp) -> Vec<u64> {
        let stamps = self.0.lock();
        let mut times: Vec<u64> = match stamp {
            Stamp::Received => stamps.received.iter().map(|(_, time)| *time).collect(),
            Stamp::Sent => stamps.received.iter().filter_map(|(number, _)| stamps.sent_at(*number)).collect(),
        };
        times.sort_unstable();
        times
    }
}

impl Stamps {
    fn sent_at(&self, number: u64) -> Option<u64> {
        self.sent.get(usize::try_from(number).ok()?).copied()
    }

    /// The index range of the datagrams sent from `begin` until before `end`.
    fn sequence_range(&self, begin: u64, end: u64) -> (usize, usize) {
        let first = self.sent.partition_point(|time| *time < begin);
        (first, self.sent.partition_point(|time| *time < end).max(first))
    }
}

fn open_socket(end: &Endpoint<'_>, port: u16) -> Result<UdpSocket> {
    let bind = || UdpSocket::bind(SocketAddrV6::new(end.address, port, 0, 0));
    let socket = end.host.in_namespace(bind)?.with_context(|| format!("{} on {}", end.address, end.host.name()))?;
    socket.set_read_timeout(Some(Duration::from_millis(100)))?;
    setsockopt(&socket, ReceiveTimestampns, &true)?;
    // On a busy machine the receiver may be scheduled late.
    setsockopt(&socket, RcvBufForce, &RECEIVE_BUFFER)?;
    Ok(socket)
}

fn send(sockets: &[UdpSocket], to: SocketAddrV6, flow: &OneWayTrain, pattern: Pattern, stop: &AtomicBool) {
    sys::set_realtime_priority(REALTIME_PRIORITY);
    let mut next = clock::now();
    let (mut datagram, mut turns) = (vec![0; pattern.octets.min(MAX_OCTETS)], sockets.iter().cycle());
    for tick in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        for _ in 0..(pattern.burst)(tick) {
            let number = {
                let mut stamps = flow.0.lock();
                stamps.sent.push(clock::unix_micros());
                stamps.sent.len() as u64 - 1
            };
            if let Some(field) = datagram.first_chunk_mut() {
                *field = number.to_be_bytes();
            }
            if let Some(socket) = turns.next() {
                socket.send_to(&datagram, to).ok(); // a refused datagram counts as lost
            }
        }
        next += pattern.interval;
        std::thread::sleep(next.saturating_duration_since(clock::now()));
    }
}

fn receive(socket: &UdpSocket, flow: &OneWayTrain, stop: &AtomicBool) {
    sys::set_realtime_priority(REALTIME_PRIORITY);
    let mut datagram = [0; MAX_OCTETS];
    while !stop.load(Ordering::Relaxed) {
        let Ok((_, stamp)) = sys::receive_stamped(socket, &mut datagram) else { continue };
        if let Some(number) = datagram.first_chunk() {
            let number = u64::from_be_bytes(*number);
            flow.0.lock().received.push((number, stamp.unwrap_or_else(clock::unix_micros)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(sent: &[u64], received: &[(u64, u64)]) -> OneWayTrain {
        OneWayTrain(Shared::new(Stamps { sent: sent.to_vec(), received: received.to_vec() }))
    }

    #[test]
    fn loss_duplication_and_reordering_are_distinguished() {
        let flow = flow(&[0, 10, 20, 30, 40], &[(0, 5), (2, 26), (1, 27), (4, 45), (4, 46)]);
        assert_eq!(flow.delivery_counts(0, 50), DeliveryCounts { sent: 5, lost: 1, duplicated: 1, reordered: 1 });
        assert_eq!(flow.delivery_counts(10, 30), DeliveryCounts { sent: 2, lost: 0, duplicated: 0, reordered: 1 });
    }

    #[test]
    fn datagrams_have_their_first_reception() {
        let flow = flow(&[0, 10, 20, 30], &[(2, 26), (1, 27), (2, 28)]);
        let second = Sent { number: 1, sent: 10, received: Some(27) };
        let third = Sent { number: 2, sent: 20, received: Some(26) };
        assert_eq!(flow.datagrams(10, 31), [second, third, Sent { number: 3, sent: 30, received: None }]);
    }

    #[test]
    fn silence_is_measured_by_send_or_receive_time() {
        let flow = flow(&[0, 10, 20, 30, 40], &[(0, 5), (1, 15), (4, 60)]);
        assert_eq!(flow.longest_silence(Stamp::Sent, 0, 50), 30);
        assert_eq!(flow.longest_silence(Stamp::Received, 0, 100), 45);
        assert_eq!(flow.longest_silence(Stamp::Received, 30, 40), 45);
        assert_eq!(flow.first_after(Stamp::Received, 16), Some(60));
        assert_eq!(flow.first_after(Stamp::Sent, 41), None);
    }
}
