//! Bulk TCP at full rate from one host to another, over one or more connections; the payload is not checked.

use crate::clock;
use crate::load::packet_train::Endpoint;
use anyhow::{Context, Result};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{JoinHandle, sleep};
use std::time::Duration;

/// Octets of one read or write.
const CHUNK: usize = 128 * 1024;

/// Running connections. Closed on drop.
pub(crate) struct BulkConnections {
    received: Arc<AtomicU64>,
    streams: Vec<TcpStream>,
    threads: Vec<JoinHandle<()>>,
}

impl BulkConnections {
    /// Starts `connections` from the first endpoint to TCP `port` of the second.
    pub(crate) fn start(ends: [Endpoint<'_>; 2], port: u16, connections: usize) -> Result<BulkConnections> {
        let mut flood = BulkConnections { received: Arc::default(), streams: Vec::new(), threads: Vec::new() };
        for (mut near, mut far) in connect(ends, port, connections)? {
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
pub(super) fn connect(ends: [Endpoint<'_>; 2], port: u16, connections: usize) -> Result<Vec<(TcpStream, TcpStream)>> {
    let [from, to] = ends;
    let listener = to.host.in_namespace(|| TcpListener::bind((to.address, port)))?.context("cannot listen")?;
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
