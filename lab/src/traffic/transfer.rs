//! A TCP connection that carries a stream of bytes each way for as long as it is wanted; both ends digest what they see.

use crate::bed::Host;
use crate::clock;
use crate::traffic::train::End;
use anyhow::{Context, Result, anyhow};
use roam6_proto::Entropy;
use sha2::{Digest, Sha256};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddrV6, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Octets written at once.
const CHUNK: usize = 8 * 1024;

/// A running transfer.
pub(crate) struct Transfer {
    stop: Arc<AtomicBool>,
    progress: [Arc<AtomicU64>; 2],
    streams: [TcpStream; 2],
    senders: [JoinHandle<Stream>; 2],
    receivers: [JoinHandle<Stream>; 2],
}

/// What one end sent or received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stream {
    /// Octets.
    pub(crate) bytes: u64,
    /// SHA-256 of them.
    pub(crate) digest: String,
    /// What went wrong, if anything.
    pub(crate) error: Option<String>,
}

/// Both ends of one direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Delivery {
    /// At the sender.
    pub(crate) sent: Stream,
    /// At the receiver.
    pub(crate) received: Stream,
}

impl Delivery {
    /// Whether every byte arrived, in order, and both ends ended well.
    pub(crate) fn is_whole(&self) -> bool {
        self.sent == self.received && self.sent.error.is_none() && self.sent.bytes > 0
    }
}

impl Transfer {
    /// Connects the first end to TCP `port` of the second and starts `rate` octets a second each way.
    pub(crate) fn start(ends: [End<'_>; 2], port: u16, rate: u64) -> Result<Transfer> {
        let [first, second] = ends;
        let address = SocketAddrV6::new(second.address, port, 0, 0);
        let listener = second.host.inside(|| TcpListener::bind(address))?.context("cannot listen")?;
        let near = connect(first.host, address).context("the transfer cannot begin")?;
        let (far, _) = listener.accept()?;
        let stop = Arc::new(AtomicBool::new(false));
        let progress = [Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0))];
        let sender = |stream: &TcpStream, seed: u64| -> Result<JoinHandle<Stream>> {
            let (stream, stop) = (stream.try_clone()?, stop.clone());
            Ok(std::thread::Builder::new().name("tcp out".into()).spawn(move || send(stream, seed, rate, &stop))?)
        };
        let receiver = |stream: &TcpStream, progress: &Arc<AtomicU64>| -> Result<JoinHandle<Stream>> {
            let (stream, progress) = (stream.try_clone()?, progress.clone());
            Ok(std::thread::Builder::new().name("tcp in".into()).spawn(move || receive(stream, &progress))?)
        };
        let [forth, back] = &progress;
        let senders = [sender(&near, 1)?, sender(&far, 2)?];
        let receivers = [receiver(&far, forth)?, receiver(&near, back)?];
        Ok(Transfer { stop, progress, streams: [near, far], senders, receivers })
    }

    /// Octets received until now: at the second end, at the first end.
    pub(crate) fn progress(&self) -> [u64; 2] {
        self.progress.each_ref().map(|count| count.load(Ordering::Relaxed))
    }

    /// Ends the transfer and waits at most `patience` for the last byte: first end to second, second to first.
    pub(crate) fn finish(self, patience: Duration) -> Result<[Delivery; 2]> {
        self.stop.store(true, Ordering::Relaxed);
        let done = || self.receivers.iter().all(JoinHandle::is_finished).then_some(());
        if clock::wait_for(patience, done).is_none() {
            for stream in &self.streams {
                stream.shutdown(Shutdown::Both).ok();
            }
        }
        let [s1, s2] = self.senders.map(JoinHandle::join);
        let [r1, r2] = self.receivers.map(JoinHandle::join);
        let dead = |_| anyhow!("a transfer thread failed");
        Ok([
            Delivery { sent: s1.map_err(dead)?, received: r1.map_err(dead)? },
            Delivery { sent: s2.map_err(dead)?, received: r2.map_err(dead)? },
        ])
    }
}

fn connect(host: &Host, address: SocketAddrV6) -> Result<TcpStream> {
    let attempt = || TcpStream::connect_timeout(&address.into(), Duration::from_secs(10));
    Ok(host.inside(attempt)??)
}

fn send(mut stream: TcpStream, seed: u64, rate: u64, stop: &AtomicBool) -> Stream {
    let mut source = Entropy::from_number(seed);
    let mut digest = Sha256::new();
    let mut chunk = [0; CHUNK];
    let mut bytes = 0;
    let mut error = None;
    let pause = Duration::from_micros(CHUNK as u64 * 1_000_000 / rate.max(1));
    let mut next = clock::now();
    while !stop.load(Ordering::Relaxed) {
        source.fill(&mut chunk);
        if let Err(why) = stream.write_all(&chunk) {
            error = Some(why.to_string());
            break;
        }
        digest.update(chunk);
        bytes += CHUNK as u64;
        next = (next + pause).max(clock::now());
        std::thread::sleep(next.saturating_duration_since(clock::now()));
    }
    stream.shutdown(Shutdown::Write).ok();
    Stream { bytes, digest: hex(digest), error }
}

fn receive(mut stream: TcpStream, progress: &AtomicU64) -> Stream {
    let mut digest = Sha256::new();
    let mut chunk = [0; CHUNK];
    let mut bytes = 0;
    let error = loop {
        match stream.read(&mut chunk) {
            Ok(0) => break None,
            Ok(length) => {
                digest.update(chunk.get(..length).unwrap_or_default());
                bytes += length as u64;
                progress.store(bytes, Ordering::Relaxed);
            }
            Err(why) => break Some(why.to_string()),
        }
    };
    Stream { bytes, digest: hex(digest), error }
}

fn hex(digest: Sha256) -> String {
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
