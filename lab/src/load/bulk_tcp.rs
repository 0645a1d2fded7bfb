//! Bulk TCP at full rate from one host to another, over one or more connections; the payload is not checked.

use crate::clock;
use crate::load::packet_train::Endpoint;
use anyhow::{Context, Result};
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{RcvBuf, TcpMaxSeg};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{JoinHandle, sleep};
use std::time::Duration;

/// Octets of one read or write.
const CHUNK: usize = 128 * 1024;

/// Limits that the receiver sets.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TcpLimits {
    /// Its receive buffer, octets: the window is a part of it. `None`: the kernel's automatic size.
    pub(crate) receive_buffer: Option<usize>,
    /// Its maximum segment size, octets. `None`: what the MTU permits.
    pub(crate) segment_size: Option<u32>,
}

/// Running connections. Closed on drop.
pub(crate) struct BulkConnections {
    received: Arc<AtomicU64>,
    streams: Vec<TcpStream>,
    threads: Vec<JoinHandle<()>>,
}

impl BulkConnections {
    /// Starts `connections` from the first endpoint to TCP `port` of the second.
    pub(crate) fn start(ends: [Endpoint<'_>; 2], port: u16, connections: usize) -> Result<BulkConnections> {
        BulkConnections::run(connect(ends, port, connections, TcpLimits::default())?)
    }

    /// Starts one connection within these limits.
    pub(crate) fn start_limited(ends: [Endpoint<'_>; 2], port: u16, limits: TcpLimits) -> Result<BulkConnections> {
        BulkConnections::run(connect(ends, port, 1, limits)?)
    }

    fn run(connections: Vec<(TcpStream, TcpStream)>) -> Result<BulkConnections> {
        let mut flood = BulkConnections { received: Arc::default(), streams: Vec::new(), threads: Vec::new() };
        for (mut near, mut far) in connections {
            flood.streams.extend([near.try_clone()?, far.try_clone()?]);
            flood.threads.push(std::thread::spawn(move || {
                let chunk = vec![0; CHUNK];
                while near.write_all(&chunk).is_ok() {}
            }));
            let received = flood.received.clone();
            flood.threads.push(std::thread::spawn(move || {
                let mut chunk = vec![0; CHUNK];
                while let Ok(length) = far.read(&mut chunk)
                    && length > 0
                {
                    received.fetch_add(length as u64, Ordering::Relaxed);
                }
            }));
        }
        Ok(flood)
    }

    /// Gigabits per second that arrive in the next `span`.
    pub(crate) fn rate(&self, span: Duration) -> f64 {
        let (before, began) = (self.received.load(Ordering::Relaxed), clock::now());
        sleep(span);
        let arrived = self.received.load(Ordering::Relaxed) - before;
        arrived as f64 * 8.0 / began.elapsed().as_secs_f64() / 1e9
    }
}

/// Connects the first endpoint to TCP `port` of the second (0: any free port) so many times.
pub(super) fn connect(
    ends: [Endpoint<'_>; 2],
    port: u16,
    connections: usize,
    limits: TcpLimits,
) -> Result<Vec<(TcpStream, TcpStream)>> {
    let [from, to] = ends;
    let listener = to.host.in_namespace(|| TcpListener::bind((to.address, port)))?.context("cannot listen")?;
    // Accepted connections inherit both.
    if let Some(octets) = limits.receive_buffer {
        setsockopt(&listener, RcvBuf, &octets)?;
    }
    if let Some(octets) = limits.segment_size {
        setsockopt(&listener, TcpMaxSeg, &octets)?;
    }
    let address = listener.local_addr()?;
    let pair = |_| {
        let near = from.host.in_namespace(|| TcpStream::connect(address))?.context("bulk TCP cannot connect")?;
        Ok((near, listener.accept()?.0))
    };
    (0..connections).map(pair).collect()
}

impl Drop for BulkConnections {
    fn drop(&mut self) {
        for stream in &self.streams {
            stream.shutdown(Shutdown::Both).ok();
        }
        for thread in self.threads.drain(..) {
            thread.join().ok();
        }
    }
}
