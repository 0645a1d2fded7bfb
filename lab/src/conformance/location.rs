//! The location table (§8.1), the ego position vector (§8.2), sequence numbers (§8.3) and the location service (§10.3.7).

use super::packets::{A, AREA1, AREA2, B, C, D, E, IUT, Kind, iut};
use super::tester::{QUIET, Tester, Verdict, is_own};
use super::{Purpose, check, make, own_of, purpose, transport};
use crate::clock;
use roam6_proto::contract::config::geo::PacketParameters;
use roam6_wire::geo::{Coordinates, ExtendedHeader, Timestamp};
use serde_json::json;
use std::thread::sleep;
use std::time::Duration;

const NONE: &str = "";
const ELSEWHERE: Coordinates = Coordinates { latitude: 480_010_000, longitude: 110_040_000 };

/// A packet of each kind that a station originates.
fn kinds() -> [(&'static str, Kind); 8] {
    [
        ("beacon", Kind::Beacon),
        ("SHB", Kind::Shb),
        ("TSB", Kind::Tsb),
        ("GBC", Kind::Gbc(AREA1)),
        ("GAC", Kind::Gac(AREA1)),
        ("GUC", Kind::Guc(iut())),
        ("LS-request", Kind::LsRequest(IUT)),
        ("LS-reply", Kind::LsReply(iut())),
    ]
}

pub(super) fn purposes() -> Vec<Purpose> {
    let mut all = lookups();
    all.extend(table());
    all.extend(ego());
    all
}

fn table() -> Vec<Purpose> {
    let mut all =
        vec![purpose("roam6/LOT/expiry", "8.1.3", "an entry ends itsGnLifetimeLocTE after its update", NONE, |t| {
            t.neighbours(&[B])?;
            sleep(Duration::from_secs(18));
            check(t.table_entry(B).is_some(), "an entry after 18 s")?;
            let gone = || t.table_entry(B).is_none().then_some(());
            clock::wait_for(Duration::from_secs(6), gone).ok_or_else(|| "there is an entry after 24 s".to_owned())
        })];
    for (name, kind) in kinds() {
        let is_single = matches!(kind, Kind::Beacon | Kind::Shb);
        let wanted = if is_single { "neighbour" } else { "known" };
        let id = format!("roam6/LOT/{name}/created");
        all.push(purpose(
            id,
            "8.1.2",
            "an entry is created; only single-hop packets set IS_NEIGHBOUR",
            NONE,
            move |t| {
                let packet = make(t, kind, B);
                t.send(&packet)?;
                t.expect_entry(B, |it| it["place"] == json!(B.place) && it["state"] == wanted)
            },
        ));
        let id = format!("roam6/LPV/{name}/newer");
        all.push(purpose(
            id,
            "C.2",
            "a position vector with a newer timestamp replaces that of the entry",
            NONE,
            move |t| {
                t.neighbours(&[B])?;
                let mut packet = make(t, kind, B);
                (packet.source.place, packet.source.timestamp) = (ELSEWHERE, Timestamp(t.timestamp(50)));
                t.send(&packet)?;
                t.expect_entry(B, |it| it["place"] == json!(ELSEWHERE))
            },
        ));
        let id = format!("roam6/LPV/{name}/older");
        all.push(purpose(id, "C.2", "a position vector with an older timestamp replaces nothing", NONE, move |t| {
            t.neighbours(&[B])?;
            let mut packet = make(t, kind, B);
            (packet.source.place, packet.source.timestamp) = (ELSEWHERE, Timestamp(t.timestamp(-8_000)));
            t.send(&packet)?;
            sleep(QUIET);
            t.expect_entry(B, |it| it["place"] == json!(B.place))
        }));
    }
    all
}

fn ego() -> Vec<Purpose> {
    vec![
        purpose(
            "roam6/LPV/ego",
            "10.2.2",
            "the position vector has the present time in each packet",
            "beacon = \"400ms\"",
            |t| {
                let first = t.expect("beacon", is_own)?;
                let second = t.expect("beacon", is_own)?;
                let time =
                    |frame: &super::tester::Received| frame.packet().map_or(0, |it| it.extended.source().timestamp.0);
                let (apart, sent) = (time(&second).wrapping_sub(time(&first)), second.at - first.at);
                check(apart.abs_diff(sent.as_millis() as u32) < 250, format!("{sent:?} apart, and not {apart} ms"))
            },
        ),
        purpose("TP/GEONW/PON/SQN/BV-01", "8.3", "the first sequence number is 0", NONE, |t| {
            t.neighbours(&[B])?;
            t.request(transport(Kind::Tsb), PacketParameters::default(), 8)?;
            let sent = t.expect("TSB packet", own_of(Kind::Tsb))?;
            check(sent.packet().and_then(|it| it.extended.sequence()) == Some(0), "0")
        }),
        purpose("roam6/SQN/increment", "8.3", "sequence numbers grow by one with each multi-hop packet", NONE, |t| {
            t.neighbours(&[B, D])?;
            let mut numbers = Vec::new();
            for kind in [Kind::Tsb, Kind::Gbc(AREA1), Kind::Gac(AREA2), Kind::Guc(D)] {
                t.request(transport(kind), PacketParameters::default(), 8)?;
                numbers.extend(t.expect("packet", own_of(kind))?.packet().and_then(|it| it.extended.sequence()));
            }
            let grow = numbers
                .windows(2)
                .all(|pair| pair.first().zip(pair.last()).is_some_and(|(a, b)| b.wrapping_sub(*a) == 1));
            check(numbers.len() == 4 && grow, format!("{numbers:?}"))
        }),
    ]
}

fn ask(t: &mut Tester, octets: u16) -> Verdict {
    t.request(transport(Kind::Guc(A)), PacketParameters::default(), octets)
}

/// The lengths of the GUC payloads that are sent to A, until there are no more.
fn sent_lengths(t: &mut Tester) -> Vec<usize> {
    let mut lengths = Vec::new();
    while let Some(frame) =
        t.find(Duration::from_millis(700), |it| it.packet().is_some_and(|it| own_of(Kind::Guc(A))(&it)))
    {
        lengths.extend(frame.packet().map(|packet| packet.payload.len()));
    }
    lengths
}

/// A packet of A arrives by way of B.
fn hear_from(t: &mut Tester, kind: Kind) -> Verdict {
    let mut packet = make(t, kind, A);
    packet.sender = B.mid;
    t.send(&packet)
}

fn lookups() -> Vec<Purpose> {
    [requests(), waiting_packets(), forwarded_replies(), flushes()].into_iter().flatten().collect()
}

fn requests() -> Vec<Purpose> {
    vec![
        purpose("roam6/LOS/retransmissions", "10.3.7.1.3", "11 LS requests at most, and then none", NONE, |t| {
            t.neighbours(&[B])?;
            ask(t, 8)?;
            let mut count = 0;
            let patience = Duration::from_millis(2_500);
            while t.find(patience, |it| it.packet().is_some_and(|it| own_of(Kind::LsRequest(A.mid))(&it))).is_some() {
                count += 1;
            }
            check(count == 11, format!("11 requests, not {count}"))
        }),
        purpose(
            "roam6/LOS/interval",
            "10.3.7.1.3",
            "LS requests are repeated after itsGnLocationServiceRetransmitTimer",
            NONE,
            |t| {
                t.neighbours(&[B])?;
                ask(t, 8)?;
                let first = t.expect("LS request", own_of(Kind::LsRequest(A.mid)))?;
                let second = t.expect("LS request", own_of(Kind::LsRequest(A.mid)))?;
                let apart = second.at - first.at;
                let sequence = |frame: &super::tester::Received| frame.packet().and_then(|it| it.extended.sequence());
                check(sequence(&first) != sequence(&second), "another sequence number")?;
                check((0.9..2.0).contains(&apart.as_secs_f64()), format!("1 s, not {apart:?}"))
            },
        ),
        purpose("roam6/LOS/request", "10.3.7.1.2", "no position: an LS request, and the packet waits", NONE, |t| {
            t.neighbours(&[B])?;
            ask(t, 8)?;
            let sent = t.expect("LS request", own_of(Kind::LsRequest(A.mid)))?;
            check(sent.to == super::tester::BROADCAST, "a broadcast")?;
            t.expect_none("the packet", own_of(Kind::Guc(A)))
        }),
        purpose("roam6/LOS/one-lookup", "10.3.7.1.2", "a further packet waits, and starts no lookup", NONE, |t| {
            t.neighbours(&[B])?;
            ask(t, 8)?;
            t.expect("LS request", own_of(Kind::LsRequest(A.mid)))?;
            ask(t, 9)?;
            t.expect_none("an LS request", own_of(Kind::LsRequest(A.mid)))?;
            hear_from(t, Kind::LsReply(iut()))?;
            check(sent_lengths(t).len() == 2, "both packets after the reply")
        }),
        purpose("roam6/LOS/buffer-size", "7.4.2", "the buffer drops its oldest packets above its size", NONE, |t| {
            t.neighbours(&[B])?;
            for octets in [500, 501, 502] {
                ask(t, octets)?;
            }
            t.expect("LS request", own_of(Kind::LsRequest(A.mid)))?;
            hear_from(t, Kind::LsReply(iut()))?;
            let lengths = sent_lengths(t);
            check(
                lengths.len() < 3 && lengths.iter().all(|length| *length > 500),
                format!("the newest, not {lengths:?}"),
            )
        }),
    ]
}

fn waiting_packets() -> Vec<Purpose> {
    vec![
        purpose("TP/GEONW/PON/LOS/BV-12", "10.3.8.4", "any packet of the station flushes its LS buffer", NONE, |t| {
            t.neighbours(&[B])?;
            ask(t, 8)?;
            t.expect("LS request", own_of(Kind::LsRequest(A.mid)))?;
            hear_from(t, Kind::Guc(iut()))?;
            t.expect("the packet", own_of(Kind::Guc(A))).map(drop)
        }),
        purpose(
            "TP/GEONW/PON/LOS/BV-13",
            "7.4.2",
            "the LS buffer is a FIFO, and drops packets after their lifetime",
            NONE,
            |t| {
                t.neighbours(&[B])?;
                let short = PacketParameters { lifetime: Some(Duration::from_millis(400)), ..Default::default() };
                t.request(transport(Kind::Guc(A)), short, 8)?;
                for octets in [20, 10, 30] {
                    ask(t, octets)?;
                }
                sleep(Duration::from_millis(800));
                hear_from(t, Kind::LsReply(iut()))?;
                let lengths = sent_lengths(t);
                let [first, second, third] = lengths[..] else { return Err(format!("three packets, not {lengths:?}")) };
                check(first == second + 10 && third == second + 20, format!("in order, not {lengths:?}"))
            },
        ),
        purpose("roam6/LOS/answer", "10.3.7.3", "an LS request for this station is answered once", NONE, |t| {
            let asked = make(t, Kind::LsRequest(IUT), B);
            t.send(&asked)?;
            t.expect("LS reply", own_of(Kind::LsReply(B)))?;
            t.send(&asked)?;
            t.expect_none("a second LS reply", own_of(Kind::LsReply(B)))
        }),
        purpose(
            "TP/GEONW/PON/LOS/BV-10",
            "10.3.7.2",
            "an LS request for another station is broadcast with RHL less one",
            NONE,
            |t| {
                let asked = make(t, Kind::LsRequest(A.mid), C);
                t.send(&asked)?;
                let copied = asked.clone();
                let sent = t.expect("copy", move |packet| copied.is_copy(packet))?;
                check(sent.packet().is_some_and(|it| it.remaining_hop_limit == 9), "RHL 9")?;
                t.send(&asked)?;
                t.expect_none("a second copy", move |packet| asked.is_copy(packet))
            },
        ),
        purpose("roam6/LOS/hop-limit", "10.3.7.2", "an LS request with RHL 1 is not forwarded", NONE, |t| {
            let mut asked = make(t, Kind::LsRequest(A.mid), C);
            asked.hops = 1;
            t.send(&asked)?;
            t.expect_none("a copy", |packet| packet.extended.source().address.mid == C.mid)
        }),
    ]
}

fn forwarded_replies() -> Vec<Purpose> {
    vec![purpose(
        "roam6/LOS/reply-forwarded",
        "10.3.7.2",
        "an LS reply for another station is forwarded like a GUC packet",
        NONE,
        |t| {
            t.neighbours(&[B, D])?;
            let reply = make(t, Kind::LsReply(A), C);
            t.send(&reply)?;
            let sent = t.expect("copy", move |packet| reply.is_copy(packet))?;
            check(sent.to == D.mid, "to the neighbour nearest to A")
        },
    )]
}

fn flushes() -> Vec<Purpose> {
    let mut all = Vec::new();
    for (name, kind) in kinds() {
        if matches!(kind, Kind::Beacon | Kind::Shb | Kind::Guc(_)) {
            continue;
        }
        let id = format!("roam6/LOS/flush-by-{name}");
        all.push(purpose(id, "10.3.7.1.4", "a packet of the sought station ends the lookup", NONE, move |t| {
            t.neighbours(&[B, E])?;
            ask(t, 8)?;
            t.expect("LS request", own_of(Kind::LsRequest(A.mid)))?;
            hear_from(t, kind)?;
            let sent = t.expect("the packet", own_of(Kind::Guc(A)))?;
            let packet = sent.packet().ok_or("malformed")?;
            let ExtendedHeader::GeoUnicast { destination, .. } = packet.extended else { return Err("no GUC".into()) };
            check(destination.place == A.place, "the position of A")
        }));
    }
    all
}
