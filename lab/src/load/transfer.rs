//! A connection that carries a byte stream in each direction until it is ended; both ends compute a digest.

use crate::clock;
use crate::load::packet_train::Endpoint;
use crate::statistics::longest_silence;
use crate::sys;
use crate::threads::Shared;
use anyhow::{Context, Result, anyhow};
use nix::sys::socket::sockopt::{SendTimeout, SndBuf};
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrIn6, bind, connect, listen, setsockopt, socket,
};
use nix::sys::time::{TimeVal, TimeValLike};
use roam6_proto::Entropy;
use roam6_proto::base::hex;
use sha2::{Digest, Sha256};
use std::io::{Read, Write};
use std::net::{Ipv6Addr, Shutdown, SocketAddrV6, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Octets of one write by default.
const CHUNK: usize = 8 * 1024;
/// Octets of one read.
const READ_OCTETS: usize = 64 * 1024;
/// Timeout of connection set-up, seconds.
const CONNECT_TIMEOUT: i64 = 10;

/// The transport protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// TCP (RFC 9293).
    Tcp,
    /// MPTCP, with fallback to TCP if the peer or the path does not support it (RFC 8684 §3.7).
    Mptcp,
}

/// Parameters of a transfer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TransferLoad {
    /// The transport protocol.
    pub(crate) protocol: Protocol,
    /// The port on which the second endpoint listens.
    pub(crate) port: u16,
    /// Octets of one write.
    pub(crate) message: usize,
    /// Octets per second in each direction; `None`: unlimited.
    pub(crate) rate: Option<u64>,
    /// Whether the second end sends too.
    pub(crate) answered: bool,
    /// Send buffer, octets; `None`: the kernel's automatic size.
    pub(crate) buffer: Option<usize>,
}

impl TransferLoad {
    /// `rate` octets per second in each direction, to `port` of the second endpoint.
    pub(crate) fn steady(protocol: Protocol, port: u16, rate: u64) -> TransferLoad {
        TransferLoad { protocol, port, message: CHUNK, rate: Some(rate), answered: true, buffer: None }
    }
}

/// A running transfer.
pub(crate) struct Transfer {
    stop: Arc<AtomicBool>,
    /// Arrivals at the second endpoint, then at the first.
    pub(crate) arrivals: [Arrivals; 2],
    streams: [TcpStream; 2],
    senders: [JoinHandle<StreamResult>; 2],
    receivers: [JoinHandle<StreamResult>; 2],
    /// Kept open: the kernel accepts further subflows only while the port has a listener.
    _listener: TcpListener,
}

/// Arrivals at one end: microseconds since 1970, octets in total.
#[derive(Debug, Clone, Default)]
pub(crate) struct Arrivals(Shared<Vec<(u64, u64)>>);

impl Arrivals {
    /// Octets so far.
    pub(crate) fn total(&self) -> u64 {
        self.0.lock().last().map_or(0, |(_, bytes)| *bytes)
    }

    /// When the first octets arrived, microseconds since 1970.
    pub(crate) fn first(&self) -> Option<u64> {
        self.0.lock().first().map(|(time, _)| *time)
    }

    /// Octets that had arrived at `moment`, microseconds since 1970.
    pub(crate) fn total_at(&self, moment: u64) -> u64 {
        let seen = self.0.lock();
        let next = seen.partition_point(|(time, _)| *time <= moment);
        next.checked_sub(1).and_then(|last| seen.get(last)).map_or(0, |(_, bytes)| *bytes)
    }

    /// The longest time without a byte that overlaps the span from `begin` to `end`, microseconds; a silence that lasts
    /// at `end` counts up to `end`.
    pub(crate) fn longest_silence(&self, begin: u64, end: u64) -> u64 {
        let seen = self.0.lock();
        let last_before = seen.partition_point(|(time, _)| *time < begin).saturating_sub(1);
        let times = seen.iter().skip(last_before).map(|(time, _)| *time);
        longest_silence(times, begin, end)
    }

    fn record(&self, bytes: u64) {
        self.0.lock().push((clock::unix_micros(), bytes));
    }
}

/// The stream as one end sent or received it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StreamResult {
    /// Octets.
    pub(crate) bytes: u64,
    /// SHA-256 of the stream.
    pub(crate) digest: String,
    /// The error that ended the stream, if any.
    pub(crate) error: Option<String>,
}

/// Both ends of one direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Delivery {
    /// At the sender.
    pub(crate) sent: StreamResult,
    /// At the receiver.
    pub(crate) received: StreamResult,
}

impl Delivery {
    /// Whether every byte arrived, in order, and both ends closed without an error.
    pub(crate) fn is_complete(&self) -> bool {
        self.sent == self.received && self.sent.error.is_none() && self.sent.bytes > 0
    }
}

impl Transfer {
    /// Connects the first endpoint, from its address, to the second and starts `load`.
    pub(crate) fn start(ends: [Endpoint<'_>; 2], load: TransferLoad) -> Result<Transfer> {
        let [first, second] = ends;
        let address = SocketAddrV6::new(second.address, load.port, 0, 0);
        let listener = second.host.in_namespace(|| listen_at(load))?.context("cannot listen")?;
        let from = SocketAddrV6::new(first.address, 0, 0, 0);
        let near =
            first.host.in_namespace(|| connect_to(load, from, address))?.context("the transfer cannot connect")?;
        let (far, _) = listener.accept()?;
        let stop = Arc::new(AtomicBool::new(false));
        let arrivals = [Arrivals::default(), Arrivals::default()];
        let sender = |stream: &TcpStream, seed: u64, sends: bool| -> Result<JoinHandle<StreamResult>> {
            if let Some(octets) = load.buffer {
                setsockopt(stream, SndBuf, &octets)?;
            }
            let (stream, stop) = (stream.try_clone()?, stop.clone());
            let work = move || send(stream, seed, load, sends, &stop);
            Ok(std::thread::Builder::new().name("tcp out".into()).spawn(work)?)
        };
        let receiver = |stream: &TcpStream, arrivals: &Arrivals| -> Result<JoinHandle<StreamResult>> {
            let (stream, arrivals) = (stream.try_clone()?, arrivals.clone());
            Ok(std::thread::Builder::new().name("tcp in".into()).spawn(move || receive(stream, &arrivals))?)
        };
        let [forward, reverse] = &arrivals;
        let senders = [sender(&near, 1, true)?, sender(&far, 2, load.answered)?];
        let receivers = [receiver(&far, forward)?, receiver(&near, reverse)?];
        Ok(Transfer { stop, arrivals, streams: [near, far], senders, receivers, _listener: listener })
    }

    /// Octets received so far: at the second endpoint, at the first endpoint.
    pub(crate) fn received_octets(&self) -> [u64; 2] {
        self.arrivals.each_ref().map(Arrivals::total)
    }

    /// Mbit/s that arrive at the second endpoint in the next `span`.
    pub(crate) fn forward_rate(&self, span: Duration) -> f64 {
        let ([before, _], began) = (self.received_octets(), clock::now());
        std::thread::sleep(span);
        let [after, _] = self.received_octets();
        (after - before) as f64 * 8.0 / began.elapsed().as_secs_f64() / 1e6
    }

    /// Whether bytes arrive at both ends within `timeout`.
    pub(crate) fn is_progressing(&self, timeout: Duration) -> bool {
        let then = self.received_octets();
        let goes_on = || self.received_octets().iter().zip(then).all(|(now, then)| *now > then).then_some(());
        clock::wait_for(timeout, goes_on).is_some()
    }

    /// The longest time without a byte at either end that overlaps the span from `begin` to `end`, microseconds.
    pub(crate) fn longest_silence(&self, begin: u64, end: u64) -> u64 {
        self.arrivals.iter().map(|arrivals| arrivals.longest_silence(begin, end)).max().unwrap_or_default()
    }

    /// The same of the second endpoint alone.
    pub(crate) fn forward_silence(&self, begin: u64, end: u64) -> u64 {
        let [forward, _] = &self.arrivals;
        forward.longest_silence(begin, end)
    }

    /// Makes both ends stop writing.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Ends the transfer and waits at most `timeout` for the last byte: deliveries from first to second endpoint, and
    /// from second to first.
    pub(crate) fn finish(self, timeout: Duration) -> Result<[Delivery; 2]> {
        self.stop();
        let done = || self.receivers.iter().all(JoinHandle::is_finished).then_some(());
        if clock::wait_for(timeout, done).is_none() {
            for stream in &self.streams {
                stream.shutdown(Shutdown::Both).ok();
            }
        }
        let [s1, s2] = self.senders.map(JoinHandle::join);
        let [r1, r2] = self.receivers.map(JoinHandle::join);
        let dead = |_| anyhow!("a transfer thread panicked");
        Ok([
            Delivery { sent: s1.map_err(dead)?, received: r1.map_err(dead)? },
            Delivery { sent: s2.map_err(dead)?, received: r2.map_err(dead)? },
        ])
    }
}

fn stream_socket(protocol: Protocol) -> std::io::Result<OwnedFd> {
    Ok(match protocol {
        Protocol::Tcp => socket(AddressFamily::Inet6, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?,
        Protocol::Mptcp => sys::mptcp_socket()?,
    })
}

/// Listens on all addresses: further subflows may arrive at any of them.
fn listen_at(load: TransferLoad) -> std::io::Result<TcpListener> {
    let socket = stream_socket(load.protocol)?;
    setsockopt(&socket, nix::sys::socket::sockopt::ReuseAddr, &true)?;
    bind(socket.as_raw_fd(), &SockaddrIn6::from(SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, load.port, 0, 0)))?;
    listen(&socket, Backlog::new(1)?)?;
    Ok(socket.into())
}

fn connect_to(load: TransferLoad, from: SocketAddrV6, address: SocketAddrV6) -> std::io::Result<TcpStream> {
    let socket = stream_socket(load.protocol)?;
    bind(socket.as_raw_fd(), &SockaddrIn6::from(from))?;
    setsockopt(&socket, SendTimeout, &TimeVal::seconds(CONNECT_TIMEOUT))?;
    connect(socket.as_raw_fd(), &SockaddrIn6::from(address))?;
    setsockopt(&socket, SendTimeout, &TimeVal::seconds(0))?;
    Ok(socket.into())
}

/// Sends until `stop`; nothing unless it `sends`.
fn send(mut stream: TcpStream, seed: u64, load: TransferLoad, sends: bool, stop: &AtomicBool) -> StreamResult {
    let mut source = Entropy::seed_from_u64(seed);
    let mut digest = Sha256::new();
    let mut message = vec![0; load.message];
    let mut bytes = 0;
    let mut error = None;
    let octets = load.message as u64;
    let pause = load.rate.map(|rate| Duration::from_micros(octets * 1_000_000 / rate.max(1)));
    let mut next = clock::now();
    while !stop.load(Ordering::Relaxed) {
        if !sends {
            std::thread::sleep(Duration::from_millis(10));
            continue;
        }
        source.fill(&mut message);
        if let Err(why) = stream.write_all(&message) {
            error = Some(why.to_string());
            break;
        }
        digest.update(&message);
        bytes += octets;
        if let Some(pause) = pause {
            next = (next + pause).max(clock::now());
            std::thread::sleep(next.saturating_duration_since(clock::now()));
        }
    }
    stream.shutdown(Shutdown::Write).ok();
    StreamResult { bytes, digest: hex::encode(&digest.finalize()), error }
}

fn receive(mut stream: TcpStream, arrivals: &Arrivals) -> StreamResult {
    let mut digest = Sha256::new();
    let mut chunk = vec![0; READ_OCTETS];
    let mut bytes = 0;
    let error = loop {
        match stream.read(&mut chunk) {
            Ok(0) => break None,
            Ok(length) => {
                digest.update(chunk.get(..length).unwrap_or_default());
                bytes += length as u64;
                arrivals.record(bytes);
            }
            Err(why) => break Some(why.to_string()),
        }
    };
    StreamResult { bytes, digest: hex::encode(&digest.finalize()), error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_silence_covers_begin_and_end() {
        let seen = Arrivals(Shared::new(vec![(10, 1), (20, 2), (50, 3), (60, 4)]));
        assert_eq!(seen.longest_silence(15, 55), 30);
        assert_eq!(seen.longest_silence(55, 100), 40);
        assert_eq!(seen.longest_silence(0, 12), 10);
        assert_eq!((seen.total_at(9), seen.total_at(20), seen.total_at(99), seen.total()), (0, 2, 4, 4));
    }
}
