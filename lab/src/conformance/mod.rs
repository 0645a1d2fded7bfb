//! Conformance tests of GeoNetworking and of IPv6 over it: each purpose is a check against a running roam6, by a tester that
//! stands for all stations around it.
//!
//! Twelve purposes have an identifier of ETSI TS 102 871-2 (`TP/GEONW`) or TS 102 859-2 (`TP/IPv6GEO`): public sources show what
//! these twelve check. The texts of the two specifications are not available here: all other purposes are written from the
//! clauses of EN 302 636-4-1 V1.4.1 and EN 302 636-6-1 V1.2.1, in the groups of the specifications, and have identifiers of roam6.

mod format;
mod forwarding;
mod ipv6;
mod location;
mod packets;
mod procedures;
mod tester;

use crate::threads::Shared;
use core::net::Ipv6Addr;
use packets::{Kind, Node, TestPacket};
use roam6_proto::contract::config::geo::TransportType;
use roam6_wire::LinkAddress;
use roam6_wire::geo::{ExtendedHeader, Packet};
use std::sync::atomic::{AtomicUsize, Ordering};
use tester::{QUIET, SOON, Tester, Verdict, is_own};

/// Implementations under test at the same time.
const WORKERS: usize = 8;
/// The link-layer address of all nodes of a link (RFC 2464 §7).
const MULTICAST: LinkAddress = LinkAddress([0x33, 0x33, 0, 0, 0, 1]);

/// A test purpose.
pub(crate) struct Purpose {
    /// Its identifier.
    pub(crate) id: String,
    /// The clause that it checks: of EN 302 636-6-1 for IPv6, else of EN 302 636-4-1.
    pub(crate) clause: &'static str,
    /// What must be so.
    pub(crate) about: &'static str,
    /// The configuration of the implementation.
    config: String,
    check: Box<dyn Fn(&mut Tester) -> Verdict + Send + Sync>,
}

/// A purpose and whether it is fulfilled.
pub(crate) struct Outcome {
    pub(crate) purpose: usize,
    pub(crate) verdict: Verdict,
}

impl Purpose {
    /// Whether its identifier is the specification's.
    pub(crate) fn has_standard_identifier(&self) -> bool {
        self.id.starts_with("TP/")
    }

    /// Whether it is one of IPv6 over GeoNetworking.
    pub(crate) fn is_of_ipv6(&self) -> bool {
        self.id.contains("IPv6GEO")
    }
}

/// All purposes.
pub(crate) fn purposes() -> Vec<Purpose> {
    // The longest first.
    [location::purposes(), procedures::purposes(), forwarding::purposes(), format::purposes(), ipv6::purposes()]
        .into_iter()
        .flatten()
        .collect()
}

/// Checks purposes, several at a time; `done` is called after each.
pub(crate) fn run(purposes: &[Purpose], done: impl Fn(&Purpose) + Sync) -> Vec<Outcome> {
    let (next, outcomes) = (AtomicUsize::new(0), Shared::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(purpose) = purposes.get(number) else { return };
                    let verdict = run_one(purpose);
                    done(purpose);
                    outcomes.lock().push(Outcome { purpose: number, verdict });
                }
            });
        }
    });
    let mut outcomes = std::mem::take(&mut *outcomes.lock());
    outcomes.sort_by_key(|outcome| outcome.purpose);
    outcomes
}

/// A purpose that is not fulfilled is checked once more: the machine may have been busy.
fn run_one(purpose: &Purpose) -> Verdict {
    let once = || {
        let mut tester = Tester::start(&purpose.config).map_err(|error| format!("{error:#}"))?;
        (purpose.check)(&mut tester).map_err(|why| format!("{why}\n{}", tester.daemon.log_tail()))
    };
    once().or_else(|_| once())
}

fn purpose(
    id: impl Into<String>,
    clause: &'static str,
    about: &'static str,
    config: impl Into<String>,
    check: impl Fn(&mut Tester) -> Verdict + Send + Sync + 'static,
) -> Purpose {
    Purpose { id: id.into(), clause, about, config: config.into(), check: Box::new(check) }
}

fn check(holds: bool, what: impl Into<String>) -> Verdict {
    if holds { Ok(()) } else { Err(format!("wanted: {}", what.into())) }
}

/// A new packet of a station.
fn make(t: &mut Tester, kind: Kind, from: Node) -> TestPacket {
    let (sequence, timestamp) = (t.next_sequence(), t.timestamp(0));
    TestPacket::new(kind, from, (sequence, timestamp))
}

/// The packet is passed to the upper layer, which must be open.
fn delivered(t: &Tester, packet: &TestPacket) -> Verdict {
    t.upper_frame(&packet.mark(), SOON).map(drop).ok_or_else(|| "it was not passed to the upper layer".to_owned())
}

/// The packet is not passed to the upper layer, which must be open.
fn not_delivered(t: &Tester, packet: &TestPacket) -> Verdict {
    match t.upper_frame(&packet.mark(), QUIET) {
        Some(_) => Err("it was passed to the upper layer".to_owned()),
        None => Ok(()),
    }
}

/// All nodes.
fn known() -> Ipv6Addr {
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1)
}

/// A request of a packet of this kind.
fn transport(kind: Kind) -> TransportType {
    match kind {
        Kind::Tsb => TransportType::TopologyBroadcast(3),
        Kind::Gbc(area) => TransportType::GeoBroadcast(area),
        Kind::Gac(area) => TransportType::GeoAnycast(area),
        Kind::Guc(node) | Kind::LsReply(node) => TransportType::GeoUnicast(packets::address(node.mid)),
        Kind::LsRequest(mid) => TransportType::GeoUnicast(packets::address(mid)),
        Kind::Shb | Kind::Beacon => TransportType::SingleHop,
    }
}

/// Packets of this kind that the implementation originates.
fn own_of(kind: Kind) -> impl Fn(&Packet<'_>) -> bool {
    move |packet| {
        is_own(packet)
            && matches!(
                (&packet.extended, kind),
                (ExtendedHeader::Beacon { .. }, Kind::Beacon)
                    | (ExtendedHeader::SingleHop { .. }, Kind::Shb)
                    | (ExtendedHeader::TopoBroadcast(_), Kind::Tsb)
                    | (ExtendedHeader::GeoBroadcast { .. }, Kind::Gbc(_))
                    | (ExtendedHeader::GeoAnycast { .. }, Kind::Gac(_))
                    | (ExtendedHeader::GeoUnicast { .. }, Kind::Guc(_))
                    | (ExtendedHeader::LocationRequest { .. }, Kind::LsRequest(_))
                    | (ExtendedHeader::LocationReply { .. }, Kind::LsReply(_))
            )
    }
}
