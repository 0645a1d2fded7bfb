//! Datagrams (UDP) at a constant rate from one endpoint to the other, and how many of them arrived.

use crate::clock;
use crate::load::packet_train::Endpoint;
use crate::threads::Workers;
use anyhow::Result;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::RcvBuf;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const PORT: u16 = 9750;
/// How long datagrams that wait in a queue are awaited after the last one was sent.
const DRAIN_TIME: Duration = Duration::from_millis(200);
/// Datagrams that are overdue by more than this are left out: a burst after a pause of this machine would measure queues.
const LATEST: Duration = Duration::from_millis(10);
/// Octets of a receive buffer that loses nothing.
const LARGE_BUFFER: usize = 4 << 20;

/// Parameters of the datagrams.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DatagramLoad {
    /// Octets of the payload of UDP.
    pub(crate) octets: usize,
    /// Time from one datagram to the next.
    pub(crate) interval: Duration,
    /// How long they are sent.
    pub(crate) span: Duration,
    /// Octets of the receive buffer.
    pub(crate) receive_buffer: usize,
    /// How often the receiver empties its buffer; zero: at once.
    pub(crate) read_interval: Duration,
}

/// What was sent, and what has arrived.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DatagramCount {
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// Received before the last one was sent.
    pub(crate) received_in_span: u64,
}

impl DatagramLoad {
    /// Datagrams of `octets` at `kbit_s`, payload of UDP, to a receiver that loses none.
    pub(crate) fn at_rate(kbit_s: u64, octets: usize, span: Duration) -> DatagramLoad {
        let interval = Duration::from_nanos(octets as u64 * 8 * 1_000_000 / kbit_s.max(1));
        DatagramLoad { octets, interval, span, receive_buffer: LARGE_BUFFER, read_interval: Duration::ZERO }
    }

    /// Sends them from the first endpoint to the second.
    pub(crate) fn send(&self, [near, far]: [Endpoint<'_>; 2]) -> Result<DatagramCount> {
        let out = near.host.in_namespace(|| UdpSocket::bind((near.address, PORT)))??;
        let into = far.host.in_namespace(|| UdpSocket::bind((far.address, PORT)))??;
        setsockopt(&into, RcvBuf, &self.receive_buffer)?;
        into.set_read_timeout(Some(Duration::from_millis(50)))?;
        let received = Arc::new(AtomicU64::new(0));
        let (count, mut receiver, pause) = (received.clone(), Workers::default(), self.read_interval);
        receiver.spawn("udp in", move |stop| receive(&into, pause, &count, stop))?;
        let datagram = vec![0x55; self.octets];
        let begin = clock::now();
        let (mut next, mut sent) = (begin, 0);
        while begin.elapsed() < self.span {
            out.send_to(&datagram, (far.address, PORT))?;
            sent += 1;
            let now = clock::now();
            next += self.interval;
            if now.saturating_duration_since(next) > LATEST {
                next = now;
            }
            std::thread::sleep(next.saturating_duration_since(now));
        }
        let received_in_span = received.load(Ordering::Relaxed);
        std::thread::sleep(DRAIN_TIME + self.read_interval);
        receiver.stop();
        Ok(DatagramCount { sent, received: received.load(Ordering::Relaxed), received_in_span })
    }
}

/// Counts datagrams: each as it arrives, or all that wait, every `pause`.
fn receive(socket: &UdpSocket, pause: Duration, received: &AtomicU64, stop: &AtomicBool) {
    let mut buffer = [0; 2048];
    if !pause.is_zero() && socket.set_nonblocking(true).is_err() {
        return;
    }
    loop {
        match socket.recv(&mut buffer) {
            Ok(_) => drop(received.fetch_add(1, Ordering::Relaxed)),
            Err(_) if stop.load(Ordering::Relaxed) => return,
            Err(_) => std::thread::sleep(pause),
        }
    }
}

impl DatagramCount {
    /// The share that arrived.
    pub(crate) fn delivery(self) -> f64 {
        self.received as f64 / self.sent.max(1) as f64
    }

    /// What arrived while datagrams were sent, of the payload of UDP.
    pub(crate) fn kbit_s(self, load: &DatagramLoad) -> f64 {
        self.received_in_span as f64 * load.octets as f64 * 8.0 / load.span.as_secs_f64() / 1000.0
    }
}
