//! The tester of the conformance tests: it stands for all stations around a running roam6 (the implementation under test),
//! sends and receives frames on its radio, and is its upper layer, by the control socket and by a packet socket on its virtual
//! link.

use super::packets::{IUT, Node, TestPacket};
use crate::bed::{Daemon, Host};
use crate::clock;
use crate::sys;
use anyhow::{Context, Result};
use roam6_proto::contract::config::geo::{EchoId, EchoRequest, PacketParameters, TransportType};
use roam6_wire::LinkAddress;
use roam6_wire::geo::{ETHERTYPE, ExtendedHeader, Packet};
use serde_json::json;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub(super) const BROADCAST: LinkAddress = LinkAddress([0xff; 6]);
/// How long something may take that must happen at once.
pub(super) const SOON: Duration = Duration::from_secs(3);
/// How long to watch for something that must not happen.
pub(super) const QUIET: Duration = Duration::from_millis(400);
/// EtherType of IPv6.
const IPV6: u16 = 0x86dd;
/// Octets of an Ethernet header.
const ETHERNET: usize = 14;

/// Why a purpose is not fulfilled.
pub(super) type Verdict = Result<(), String>;

/// A received frame.
#[derive(Debug, Clone)]
pub(super) struct Received {
    /// When it was read.
    pub(super) at: Instant,
    /// Its link-layer destination.
    pub(super) to: LinkAddress,
    /// Its link-layer source.
    pub(super) from: LinkAddress,
    /// What follows the Ethernet header.
    pub(super) bytes: Vec<u8>,
}

impl Received {
    /// The GeoNetworking packet in it.
    pub(super) fn packet(&self) -> Option<Packet<'_>> {
        Packet::parse(&self.bytes).ok()
    }
}

/// One implementation under test, in its initial state.
pub(super) struct Tester {
    pub(super) host: Host,
    pub(super) daemon: Daemon,
    radio: OwnedFd,
    upper: Option<OwnedFd>,
    /// Frames received and not yet asked for.
    inbox: VecDeque<Received>,
    sequence: u16,
    echo: u32,
}

impl Tester {
    /// Starts a roam6 with these lines in `[geo]`; tables of their own may follow them.
    pub(super) fn start(geo: &str) -> Result<Tester> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let host = Host::new(&format!("iut{}", NUMBER.fetch_add(1, Ordering::Relaxed)))?;
        host.ip(&["link add radio0 type veth peer name tester"])?;
        for interface in ["radio0", "tester"] {
            host.set_sysctl(&format!("ipv6/conf/{interface}/disable_ipv6"), "1")?;
        }
        host.ip(&[&format!("link set radio0 address {IUT}"), "link set radio0 up", "link set tester up"])?;
        let radio = host.in_namespace(|| sys::open_packet_socket("tester", ETHERTYPE))??;
        let position = if geo.contains("position") { "" } else { "position = { latitude = 48.0, longitude = 11.0 }\n" };
        let daemon = Daemon::start(&host, &format!("[geo]\ninterfaces = [\"radio0\"]\n{position}{geo}"))?;
        Ok(Tester { host, daemon, radio, upper: None, inbox: VecDeque::new(), sequence: 100, echo: 0 })
    }

    /// Milliseconds of TAI since 2004, as position vectors have them; `later` than now.
    pub(super) fn timestamp(&self, later: i64) -> u32 {
        ((clock::its_micros() / 1000) as i64 + later) as u32
    }

    /// The next sequence number of the tester's stations.
    pub(super) fn next_sequence(&mut self) -> u16 {
        self.sequence = self.sequence.wrapping_add(1);
        self.sequence
    }

    /// Sends octets as a frame of a station.
    pub(super) fn send_octets(&self, from: LinkAddress, to: LinkAddress, octets: &[u8]) -> Verdict {
        let frame = [&to.0[..], &from.0, &ETHERTYPE.to_be_bytes(), octets].concat();
        nix::unistd::write(&self.radio, &frame).map(drop).map_err(|error| format!("cannot send: {error}"))
    }

    /// Broadcasts a packet, as a frame of its sender.
    pub(super) fn send(&mut self, packet: &TestPacket) -> Verdict {
        self.send_octets(packet.sender, BROADCAST, &packet.emit())
    }

    /// Sends a packet to the implementation alone.
    pub(super) fn send_unicast(&mut self, packet: &TestPacket) -> Verdict {
        self.send_octets(packet.sender, IUT, &packet.emit())
    }

    /// A beacon of a station, so that it is a neighbour.
    pub(super) fn beacon(&mut self, node: Node) -> Verdict {
        let packet = TestPacket::beacon(node, self.timestamp(0));
        self.send(&packet)
    }

    /// Beacons of several stations, and time to receive them.
    pub(super) fn neighbours(&mut self, nodes: &[Node]) -> Verdict {
        nodes.iter().try_for_each(|node| self.beacon(*node))?;
        let is_neighbour = |entry: serde_json::Value| entry.get("state").is_some_and(|state| state == "neighbour");
        let known = || nodes.iter().all(|node| self.table_entry(*node).is_some_and(is_neighbour)).then_some(());
        clock::wait_for(SOON, known).ok_or_else(|| "the neighbours are not known".to_owned())
    }

    /// Asks the implementation to send a packet: a request of the GN data SAP, by an echo request.
    pub(super) fn request(&mut self, to: TransportType, parameters: PacketParameters, octets: u16) -> Verdict {
        self.echo += 1;
        let id = EchoId { identifier: 77, sequence: self.echo };
        let request = EchoRequest { id, to, octets, parameters, trace: false, spread: Duration::ZERO };
        let answer = self.control(&json!({ "ask": request })).map_err(|error| format!("control socket: {error:#}"))?;
        if answer.contains("done") { Ok(()) } else { Err(format!("request refused: {answer}")) }
    }

    fn control(&self, request: &serde_json::Value) -> Result<String> {
        let mut stream = UnixStream::connect(self.host.folder().join("run/control.sock")).context("connect")?;
        writeln!(stream, "{request}")?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line)?;
        Ok(line)
    }

    /// Reads frames until `until`, or one arrives.
    fn fill(&mut self, until: Instant) -> Verdict {
        let left = until.saturating_duration_since(clock::now()).as_millis().min(20) as u16;
        let mut buffer = [0; 4096];
        let ready = sys::is_readable_within(&self.radio, left).map_err(|error| error.to_string())?;
        if ready {
            let length = nix::unistd::read(&self.radio, &mut buffer).map_err(|error| error.to_string())?;
            self.inbox.extend(received(buffer.get(..length).unwrap_or_default()));
        }
        Ok(())
    }

    /// The next frame that is `wanted`, within a time; earlier frames that are not are forgotten.
    pub(super) fn find(&mut self, within: Duration, wanted: impl Fn(&Received) -> bool) -> Option<Received> {
        let until = clock::now() + within;
        loop {
            while let Some(next) = self.inbox.pop_front() {
                if wanted(&next) {
                    return Some(next);
                }
            }
            if clock::now() >= until {
                return None;
            }
            self.fill(until).ok()?;
        }
    }

    /// The next packet of a kind.
    pub(super) fn expect(&mut self, what: &str, wanted: impl Fn(&Packet<'_>) -> bool) -> Result<Received, String> {
        self.expect_frame(what, |frame| frame.packet().is_some_and(|packet| wanted(&packet)))
    }

    /// The next frame of a kind.
    pub(super) fn expect_frame(&mut self, what: &str, wanted: impl Fn(&Received) -> bool) -> Result<Received, String> {
        self.find(SOON, wanted).ok_or_else(|| format!("no {what} within {SOON:?}"))
    }

    /// Nothing of a kind arrives for a while.
    pub(super) fn expect_none(&mut self, what: &str, wanted: impl Fn(&Packet<'_>) -> bool) -> Verdict {
        match self.find(QUIET, |frame| frame.packet().is_some_and(|packet| wanted(&packet))) {
            Some(_) => Err(format!("{what} was sent")),
            None => Ok(()),
        }
    }

    /// The virtual link as the upper layer has it.
    pub(super) fn open_upper(&mut self, link: &str) -> Verdict {
        let open = || self.host.in_namespace(|| sys::open_packet_socket(link, IPV6).ok()).ok().flatten();
        self.upper = clock::wait_for(SOON, open);
        if self.upper.is_some() { Ok(()) } else { Err(format!("no virtual link {link}")) }
    }

    /// Sends an IPv6 packet into the virtual link.
    pub(super) fn send_upper(&self, to: LinkAddress, packet: &[u8]) -> Verdict {
        let Some(upper) = &self.upper else { return Err("the virtual link is not open".to_owned()) };
        let frame = [&to.0[..], &IUT.0, &IPV6.to_be_bytes(), packet].concat();
        nix::unistd::write(upper, &frame).map(drop).map_err(|error| format!("cannot send: {error}"))
    }

    /// The frame with these octets in it that the upper layer receives on the virtual link.
    pub(super) fn upper_frame(&self, content: &[u8], within: Duration) -> Option<Received> {
        let upper = self.upper.as_ref()?;
        let until = clock::now() + within;
        let mut buffer = [0; 4096];
        while clock::now() < until {
            if sys::is_readable_within(upper, 20).ok()? {
                let length = nix::unistd::read(upper, &mut buffer).ok()?;
                let frame = received(buffer.get(..length)?);
                let is_it = |frame: &Received| frame.bytes.windows(content.len()).any(|part| part == content);
                if frame.as_ref().is_some_and(is_it) {
                    return frame;
                }
            }
        }
        None
    }

    /// Whether a station has a location table entry with a place, and whether it is a neighbour.
    pub(super) fn table_entry(&self, node: Node) -> Option<serde_json::Value> {
        let answer: serde_json::Value =
            serde_json::from_str(&self.control(&json!({ "part": "stations" })).ok()?).ok()?;
        let rows = answer.get("state")?.get("stations")?.as_array()?;
        rows.iter().find(|row| row.get("mid") == Some(&json!(node.mid))).cloned()
    }

    /// Waits for an entry that fulfils a condition.
    pub(super) fn expect_entry(&self, node: Node, wanted: impl Fn(&serde_json::Value) -> bool) -> Verdict {
        let entry = || self.table_entry(node).filter(&wanted).map(drop);
        clock::wait_for(SOON, entry).ok_or_else(|| format!("the entry is {:?}", self.table_entry(node)))
    }
}

/// Whether the implementation has originated the packet.
pub(super) fn is_own(packet: &Packet<'_>) -> bool {
    packet.extended.source().address.mid == IUT
}

/// Whether it is a beacon.
pub(super) fn is_beacon(packet: &Packet<'_>) -> bool {
    matches!(packet.extended, ExtendedHeader::Beacon { .. })
}

fn received(frame: &[u8]) -> Option<Received> {
    let (header, bytes) = frame.split_at_checked(ETHERNET)?;
    let address = |at: usize| Some(LinkAddress(header.get(at..at + 6)?.try_into().ok()?));
    Some(Received { at: clock::now(), to: address(0)?, from: address(6)?, bytes: bytes.to_vec() })
}
