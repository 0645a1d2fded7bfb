//! A TAP device whose other end is this program: it emulates everything beyond a host's interface.

use super::host::Host;
use crate::{clock, sys};
use anyhow::Result;
use roam6_wire::LinkAddress;
use std::fs::File;
use std::io::{Read, Write};
use std::time::Duration;

/// The link-layer address of this program's end.
const LAB_ADDRESS: LinkAddress = LinkAddress([0x02, 0x60, 0x06, 0xff, 0xff, 0xfe]);
const HOST_ADDRESS: LinkAddress = LinkAddress([0x02, 0x60, 0x06, 0xff, 0xff, 0xff]);
const ETHERTYPE_IPV6: [u8; 2] = [0x86, 0xdd];
/// Octets of the Ethernet header.
const ETHERNET_HEADER: usize = 14;

/// The device. Its callers see IPv6 packets; the Ethernet header is added and removed here.
#[derive(Debug)]
pub(crate) struct Tap {
    file: File,
    frame: Vec<u8>,
}

impl Tap {
    /// Makes interface `name` of `host`, with this program as router `fe80::1` behind it.
    pub(crate) fn open(host: &Host, name: &str) -> Result<Tap> {
        let file = host.in_namespace(|| sys::open_tap(name))??;
        host.ip(&[
            &format!("link set {name} address {HOST_ADDRESS} txqueuelen 100000 up"),
            &format!("neighbour replace fe80::1 lladdr {LAB_ADDRESS} dev {name} nud permanent"),
        ])?;
        Ok(Tap { file, frame: vec![0; 65_536] })
    }

    /// Sends `packet` to the host.
    pub(crate) fn send(&mut self, packet: &[u8]) -> std::io::Result<()> {
        self.file.write_all(&[&HOST_ADDRESS.0[..], &LAB_ADDRESS.0, &ETHERTYPE_IPV6, packet].concat())
    }

    /// The next IPv6 packet that the host has sent, if any.
    pub(crate) fn receive(&mut self) -> Option<&[u8]> {
        loop {
            let length = self.file.read(&mut self.frame).ok()?;
            if self.frame.get(12..ETHERNET_HEADER) == Some(&ETHERTYPE_IPV6) {
                return self.frame.get(ETHERNET_HEADER..length);
            }
        }
    }

    /// Discards the packets that the host has sent; their number.
    pub(crate) fn discard(&mut self) -> u64 {
        std::iter::from_fn(|| self.receive().map(drop)).count() as u64
    }

    /// The result of `read` for the next packet for which it is not `None`, within `timeout`.
    pub(crate) fn receive_within<T>(&mut self, timeout: Duration, read: impl Fn(&[u8]) -> Option<T>) -> Option<T> {
        let end = clock::now() + timeout;
        loop {
            while let Some(packet) = self.receive() {
                if let Some(found) = read(packet) {
                    return Some(found);
                }
            }
            if clock::now() >= end {
                return None;
            }
            self.wait(10);
        }
    }

    /// Waits at most `millis` milliseconds for a packet.
    pub(crate) fn wait(&self, millis: u8) {
        sys::is_readable_within(&self.file, millis.into()).ok();
    }

    /// Waits at most `millis` milliseconds for a packet from one of several devices.
    pub(crate) fn wait_any<'a>(all: impl Iterator<Item = &'a Tap>, millis: u8) {
        let files: Vec<&File> = all.map(|tap| &tap.file).collect();
        sys::is_any_readable_within(&files, millis.into()).ok();
    }
}
