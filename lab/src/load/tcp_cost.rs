//! The CPU cost of bulk TCP: gigabits per second of CPU time of both ends and of the kernel's softirq threads.

use super::Endpoint;
use super::bulk_tcp::{self, TcpLimits};
use crate::bed::sandbox;
use crate::clock::thread_cpu_time;
use anyhow::{Result, anyhow};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Octets of one read or write.
const CHUNK: usize = 1 << 16;

/// Transfers `octets` over `flows` parallel connections; gigabits per second of CPU time.
pub(crate) fn rate_per_cpu_second(ends: [Endpoint<'_>; 2], flows: usize, octets: usize) -> Result<f64> {
    transfer(bulk_tcp::connect(ends, 0, flows, TcpLimits::default())?, octets)
}

/// The same over one connection to this port.
pub(crate) fn rate_per_cpu_second_to(ends: [Endpoint<'_>; 2], port: u16, octets: usize) -> Result<f64> {
    transfer(bulk_tcp::connect(ends, port, 1, TcpLimits::default())?, octets)
}

fn transfer(pairs: Vec<(TcpStream, TcpStream)>, octets: usize) -> Result<f64> {
    let flows = pairs.len();
    let before = sandbox::softirq_cpu_time();
    let took = std::thread::scope(|scope| -> Result<Duration> {
        let works: Vec<_> = pairs
            .into_iter()
            .flat_map(|(sender, receiver)| {
                [scope.spawn(move || send(sender, octets / flows)), scope.spawn(move || receive(receiver))]
            })
            .collect();
        let times = works.into_iter().map(|work| work.join().map_err(|_| anyhow!("a bulk TCP thread panicked"))?);
        times.sum::<Result<Duration>>()
    })?;
    let took = took + sandbox::softirq_cpu_time().saturating_sub(before);
    Ok(octets as f64 * 8.0 / took.as_secs_f64() / 1e9)
}

fn send(mut socket: TcpStream, octets: usize) -> Result<Duration> {
    let chunk = vec![0; CHUNK];
    for _ in 0..octets / CHUNK {
        socket.write_all(&chunk)?;
    }
    Ok(thread_cpu_time())
}

fn receive(mut socket: TcpStream) -> Result<Duration> {
    let mut chunk = vec![0; CHUNK];
    while socket.read(&mut chunk)? > 0 {}
    Ok(thread_cpu_time())
}
