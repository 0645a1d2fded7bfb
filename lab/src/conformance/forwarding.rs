//! Forwarding: annexes B (packet data rate), D (selection), E (non-area forwarding) and F (area forwarding).

use super::packets::{A, AREA1, AREA2, B, C, D, E, Kind, Node, TestPacket, iut};
use super::tester::{BROADCAST, Tester, Verdict, is_own};
use super::{Purpose, check, make, own_of, purpose, transport};
use roam6_proto::contract::config::geo::PacketParameters;
use roam6_wire::geo::{Area, ExtendedHeader, Packet};
use std::thread::sleep;
use std::time::Duration;

const NONE: &str = "";
const SIMPLE: &str = "area_forwarding = \"simple\"";
const ADVANCED: &str = "area_forwarding = \"advanced\"";
const CONTENTION: &str = "forwarding = \"contention\"";

pub(super) fn purposes() -> Vec<Purpose> {
    let mut all = greedy();
    all.extend(non_area_contention());
    all.extend(area());
    all.extend(position_updates());
    all.push(purpose(
        "roam6/PDR/excess",
        "B.2",
        "packets of a source above itsGnMaxPacketDataRate are not forwarded",
        SIMPLE,
        |t| {
            t.neighbours(&[B, C])?;
            let mut sent = 0;
            for _ in 0..300 {
                let mut packet = make(t, Kind::Gbc(AREA1), C);
                packet.payload.resize(1_200, 0);
                packet.upper = roam6_wire::geo::UpperProtocol::Any;
                t.send(&packet)?;
            }
            while t.find(Duration::from_millis(500), |it| it.packet().is_some_and(|it| is_of(&it, C))).is_some() {
                sent += 1;
            }
            check((40..200).contains(&sent), format!("about 100 of 300, not {sent}"))
        },
    ));
    all
}

fn is_of(packet: &Packet<'_>, node: Node) -> bool {
    packet.extended.source().address.mid == node.mid
}

/// Sends a packet; the time until it is forwarded, and the frame.
fn forwarded(t: &mut Tester, packet: &TestPacket) -> Result<(Duration, super::tester::Received), String> {
    let begin = crate::clock::now();
    t.send(packet)?;
    let copied = packet.clone();
    let sent = t.expect("copy", move |it| copied.is_copy(it))?;
    Ok((sent.at - begin, sent))
}

fn not_forwarded(t: &mut Tester, packet: &TestPacket) -> Verdict {
    let copied = packet.clone();
    t.expect_none("a copy", move |it| copied.is_copy(it))
}

/// The packet as another station forwards it.
fn forwarded_by(packet: &TestPacket, station: Node) -> TestPacket {
    TestPacket { sender: station.mid, hops: packet.hops - 1, ..packet.clone() }
}

/// A copy that another station has forwarded ends the contention of a packet.
fn ended_by_copy(t: &mut Tester, packet: &TestPacket, station: Node) -> Verdict {
    t.send(packet)?;
    t.send(&forwarded_by(packet, station))?;
    not_forwarded(t, packet)
}

fn greedy() -> Vec<Purpose> {
    let mut all = Vec::new();
    for (name, kind) in [("GUC", Kind::Guc(A)), ("GBC", Kind::Gbc(AREA2)), ("GAC", Kind::Gac(AREA2))] {
        let id = format!("roam6/GFA/{name}/nearest");
        all.push(purpose(id, "E.2", "the next hop is the neighbour nearest to the destination", NONE, move |t| {
            t.neighbours(&[B, C, D, E])?;
            let packet = make(t, kind, C);
            check(forwarded(t, &packet)?.1.to == D.mid, "to D")
        }));
        let id = format!("roam6/GFA/{name}/local-minimum");
        all.push(purpose(
            id,
            "E.2",
            "without a nearer neighbour, and without SCF, a packet is broadcast",
            NONE,
            move |t| {
                t.neighbours(&[E])?;
                let packet = make(t, kind, C);
                check(forwarded(t, &packet)?.1.to == BROADCAST, "a broadcast")
            },
        ));
        let id = format!("roam6/GFA/{name}/source");
        all.push(purpose(id, "E.2", "also for packets of this station", NONE, move |t| {
            t.neighbours(&[B, D])?;
            if matches!(kind, Kind::Guc(_)) {
                let mut known = make(t, Kind::Tsb, A);
                (known.sender, known.hops) = (B.mid, 1);
                t.send(&known)?;
                t.expect_entry(A, |_| true)?;
            }
            t.request(transport(kind), PacketParameters::default(), 8)?;
            check(t.expect("packet", own_of(kind))?.to == D.mid, "to D")
        }));
        let id = format!("roam6/GFA/{name}/duplicate");
        all.push(purpose(id, "A.2", "a duplicate is not forwarded again", NONE, move |t| {
            t.neighbours(&[B, D])?;
            let packet = make(t, kind, C);
            forwarded(t, &packet)?;
            t.send(&packet)?;
            not_forwarded(t, &packet)
        }));
    }
    all.push(purpose(
        "roam6/GFA/GUC/neighbour",
        "E.2",
        "a destination that is a neighbour is the next hop",
        NONE,
        |t| {
            t.neighbours(&[B, C, D])?;
            let packet = make(t, Kind::Guc(B), C);
            check(forwarded(t, &packet)?.1.to == B.mid, "to B")
        },
    ));
    all
}

fn non_area_contention() -> Vec<Purpose> {
    let mut all = Vec::new();
    all.push(purpose(
        "TP/GEONW/PON/GBC/NONAREA/CBF/BV-01",
        "E.3",
        "an own packet is broadcast at once",
        CONTENTION,
        |t| {
            t.neighbours(&[B, D])?;
            let with = PacketParameters { store_carry_forward: Some(true), ..PacketParameters::default() };
            t.request(transport(Kind::Gbc(AREA2)), with, 8)?;
            check(t.expect("packet", own_of(Kind::Gbc(AREA2)))?.to == BROADCAST, "a broadcast")
        },
    ));
    for (name, kind) in [("GUC", Kind::Guc(A)), ("GBC", Kind::Gbc(AREA2)), ("GAC", Kind::Gac(AREA2))] {
        let id = format!("roam6/CBF/{name}/timer");
        all.push(purpose(
            id,
            "E.3",
            "forwarded after a time that is shorter the greater the progress",
            CONTENTION,
            move |t| {
                t.neighbours(&[B, C])?;
                let packet = make(t, kind, C);
                // 370 m of 1000: 1 + 99 * 0.63 ms.
                let (after, sent) = forwarded(t, &packet)?;
                check(sent.to == BROADCAST, "a broadcast")?;
                check((0.058..0.4).contains(&after.as_secs_f64()), format!("63 ms, not {after:?}"))
            },
        ));
        let id = format!("roam6/CBF/{name}/unknown-sender");
        all.push(purpose(id, "E.3", "after TO_CBF_MAX if the sender's position is unknown", CONTENTION, move |t| {
            let mut packet = make(t, kind, C);
            packet.sender = E.mid;
            let (after, _) = forwarded(t, &packet)?;
            check((0.09..0.5).contains(&after.as_secs_f64()), format!("100 ms, not {after:?}"))
        }));
        let id = format!("roam6/CBF/{name}/suppressed");
        all.push(purpose(id, "E.3", "a copy of another station ends the contention", CONTENTION, move |t| {
            t.neighbours(&[B, C, D])?;
            let packet = make(t, kind, C);
            ended_by_copy(t, &packet, D)
        }));
        let id = format!("roam6/CBF/{name}/no-progress");
        all.push(purpose(
            id,
            "E.3",
            "a packet is discarded if the sender is nearer to the destination",
            CONTENTION,
            move |t| {
                t.neighbours(&[B, D])?;
                let mut packet = make(t, kind, C);
                packet.sender = D.mid;
                t.send(&packet)?;
                not_forwarded(t, &packet)
            },
        ));
    }
    all
}

fn area() -> Vec<Purpose> {
    [area_timers(), area_contention(), area_advanced(), area_limits()].into_iter().flatten().collect()
}

fn area_timers() -> Vec<Purpose> {
    vec![
        purpose("roam6/AREA/simple", "F.2", "simple forwarding: a broadcast at once", SIMPLE, |t| {
            t.neighbours(&[B, C])?;
            let packet = make(t, Kind::Gbc(AREA1), C);
            let (after, sent) = forwarded(t, &packet)?;
            check(sent.to == BROADCAST && after < Duration::from_millis(400), format!("at once, not {after:?}"))
        }),
        purpose(
            "roam6/AREA/simple-duplicate",
            "F.2",
            "simple forwarding: a duplicate is not sent again",
            SIMPLE,
            |t| {
                let packet = make(t, Kind::Gbc(AREA1), C);
                forwarded(t, &packet)?;
                t.send(&packet)?;
                not_forwarded(t, &packet)
            },
        ),
        purpose("roam6/AREA/source", "10.3.11.2", "an own packet is broadcast inside its area", NONE, |t| {
            t.neighbours(&[B, C])?;
            t.request(transport(Kind::Gbc(AREA1)), PacketParameters::default(), 8)?;
            check(t.expect("packet", own_of(Kind::Gbc(AREA1)))?.to == BROADCAST, "a broadcast")
        }),
        purpose("roam6/AREA/CBF/near-sender", "F.3", "contention: 79 ms with a sender 223 m away", NONE, |t| {
            t.neighbours(&[B])?;
            let packet = make(t, Kind::Gbc(AREA1), B);
            let (after, sent) = forwarded(t, &packet)?;
            check(sent.to == BROADCAST, "a broadcast")?;
            check((0.073..0.5).contains(&after.as_secs_f64()), format!("79 ms, not {after:?}"))
        }),
        purpose("roam6/AREA/CBF/far-sender", "F.3", "contention: 32 ms with a sender 700 m away", NONE, |t| {
            t.neighbours(&[E])?;
            let packet = make(t, Kind::Gbc(AREA1), E);
            let (after, _) = forwarded(t, &packet)?;
            check((0.028..0.4).contains(&after.as_secs_f64()), format!("31 ms, not {after:?}"))
        }),
        purpose("roam6/AREA/CBF/unknown-sender", "F.3", "contention: TO_CBF_MAX with an unknown sender", NONE, |t| {
            let mut packet = make(t, Kind::Gbc(AREA1), C);
            packet.sender = E.mid;
            let (after, _) = forwarded(t, &packet)?;
            check((0.09..0.5).contains(&after.as_secs_f64()), format!("100 ms, not {after:?}"))
        }),
    ]
}

fn area_contention() -> Vec<Purpose> {
    vec![
        purpose(
            "roam6/AREA/CBF/inaccurate-sender",
            "F.3",
            "contention: TO_CBF_MAX with a sender whose PAI is 0",
            NONE,
            |t| {
                let mut beacon = make(t, Kind::Beacon, E);
                beacon.source.accurate = false;
                t.send(&beacon)?;
                t.expect_entry(E, |it| it["state"] == "neighbour")?;
                let mut packet = make(t, Kind::Gbc(AREA1), C);
                packet.sender = E.mid;
                let (after, _) = forwarded(t, &packet)?;
                check((0.09..0.5).contains(&after.as_secs_f64()), format!("100 ms, not {after:?}"))
            },
        ),
        purpose("roam6/AREA/CBF/suppressed", "F.3", "a copy of another station ends the contention", NONE, |t| {
            t.neighbours(&[B, C])?;
            let packet = make(t, Kind::Gbc(AREA1), C);
            ended_by_copy(t, &packet, B)
        }),
        purpose(
            "roam6/AREA/ADVANCED/addressed",
            "F.4",
            "the addressed station forwards greedily at once, and contends",
            ADVANCED,
            |t| {
                t.neighbours(&[B, C])?;
                let area = Area::circle(B.place, 900);
                let packet = make(t, Kind::Gbc(area), C);
                let begin = crate::clock::now();
                t.send_unicast(&packet)?;
                let copied = packet.clone();
                let first = t.expect("copy", move |it| copied.is_copy(it))?;
                check(first.to == B.mid && first.at - begin < Duration::from_millis(400), "at once to B")?;
                let second = t.expect("broadcast", move |it| packet.is_copy(it))?;
                check(second.to == BROADCAST, "a broadcast")?;
                check(second.at - begin > Duration::from_millis(90), "after TO_CBF_MAX")
            },
        ),
        purpose("roam6/AREA/ADVANCED/broadcast", "F.4", "a station that is not addressed contends", ADVANCED, |t| {
            t.neighbours(&[B, C])?;
            let packet = make(t, Kind::Gbc(AREA1), C);
            let (after, sent) = forwarded(t, &packet)?;
            check(sent.to == BROADCAST && after > Duration::from_millis(55), format!("64 ms, not {after:?}"))
        }),
    ]
}

fn area_advanced() -> Vec<Purpose> {
    vec![
        purpose(
            "roam6/AREA/ADVANCED/sector",
            "F.4",
            "a copy from farther away in the same direction ends the contention",
            ADVANCED,
            |t| {
                t.neighbours(&[B, C])?;
                let packet = make(t, Kind::Gbc(AREA1), C);
                ended_by_copy(t, &packet, B)
            },
        ),
        purpose(
            "roam6/AREA/ADVANCED/other-sector",
            "F.4",
            "a copy from another direction restarts the timer",
            ADVANCED,
            |t| {
                t.neighbours(&[C, E])?;
                let packet = make(t, Kind::Gbc(AREA1), C);
                let begin = crate::clock::now();
                t.send(&packet)?;
                sleep(Duration::from_millis(20));
                t.send(&forwarded_by(&packet, E))?;
                let sent = t.expect("copy", move |it| packet.is_copy(it))?;
                check(sent.at - begin > Duration::from_millis(45), "after the second timer")
            },
        ),
        purpose(
            "roam6/AREA/left",
            "D",
            "a packet that comes from inside its area is not forwarded outside",
            NONE,
            |t| {
                let inside = Node { place: A.place, ..E };
                let mut beacon = make(t, Kind::Beacon, inside);
                beacon.sender = inside.mid;
                t.send(&beacon)?;
                t.expect_entry(inside, |it| it["state"] == "neighbour")?;
                let mut packet = make(t, Kind::Gbc(AREA2), C);
                packet.sender = inside.mid;
                t.send(&packet)?;
                not_forwarded(t, &packet)
            },
        ),
    ]
}

fn area_limits() -> Vec<Purpose> {
    vec![
        purpose(
            "roam6/AREA/too-large",
            "B.3",
            "a packet to an area above itsGnMaxGeoAreaSize is not forwarded",
            NONE,
            |t| {
                let packet = make(t, Kind::Gbc(Area::circle(iut().place, 2_000)), C);
                t.send(&packet)?;
                not_forwarded(t, &packet)
            },
        ),
        purpose(
            "roam6/AREA/repetition",
            "10.3.11.2",
            "a repeated packet has a new sequence number each time",
            "facilities = { cam = false }",
            |t| {
                t.neighbours(&[B])?;
                let area = ["circle", "48.0", "11.0", "900"];
                let words = ["denm", "send", "accident"].into_iter().chain(area).chain([
                    "--repeat",
                    "200ms",
                    "--validity",
                    "2s",
                ]);
                t.daemon.query(&words.collect::<Vec<_>>()).map_err(|error| format!("{error:#}"))?;
                let mut numbers = Vec::new();
                for _ in 0..3 {
                    let sent = t.expect("DENM", |it| {
                        is_own(it) && matches!(it.extended, ExtendedHeader::GeoBroadcast { .. })
                    })?;
                    numbers.extend(sent.packet().and_then(|it| it.extended.sequence()));
                }
                numbers.dedup();
                check(numbers.len() == 3, format!("three numbers, not {numbers:?}"))
            },
        ),
    ]
}

fn position_updates() -> Vec<Purpose> {
    let mut all = Vec::new();
    for (name, kind) in [("GUC", Kind::Guc(D)), ("LS-reply", Kind::LsReply(D))] {
        let id = format!("roam6/{name}/newer-destination");
        all.push(purpose(id, "C.3", "a forwarder replaces DE PV by a newer position that it knows", NONE, move |t| {
            t.neighbours(&[D])?;
            let mut packet = make(t, kind, C);
            packet.destination_timestamp = t.timestamp(-5_000);
            packet.kind = match kind {
                Kind::Guc(_) => Kind::Guc(Node { place: A.place, ..D }),
                _ => Kind::LsReply(Node { place: A.place, ..D }),
            };
            let (_, sent) = forwarded(t, &packet)?;
            check(destination(&sent) == Some(D.place), "the newer place")
        }));
        let id = format!("roam6/{name}/older-destination");
        all.push(purpose(id, "C.3", "a forwarder leaves a DE PV that is newer than what it knows", NONE, move |t| {
            t.neighbours(&[D])?;
            let mut packet = make(t, kind, C);
            packet.destination_timestamp = t.timestamp(5_000);
            packet.kind = match kind {
                Kind::Guc(_) => Kind::Guc(Node { place: A.place, ..D }),
                _ => Kind::LsReply(Node { place: A.place, ..D }),
            };
            let (_, sent) = forwarded(t, &packet)?;
            check(destination(&sent) == Some(A.place), "the place in the packet")
        }));
    }
    all
}

fn destination(frame: &super::tester::Received) -> Option<roam6_wire::geo::Coordinates> {
    match frame.packet()?.extended {
        ExtendedHeader::GeoUnicast { destination, .. } | ExtendedHeader::LocationReply { destination, .. } => {
            Some(destination.place)
        }
        _ => None,
    }
}
