//! Forwarding packet buffers (§7.5), addresses (§10.2.1), beaconing (§10.3.6), and what stations that are addressed do with
//! packets (§10.3.8 to §10.3.12).

use super::format::{LINK, originated};
use super::packets::{AREA1, AREA2, B, C, D, IUT, Kind, iut};
use super::tester::{BROADCAST, QUIET, Tester, Verdict, is_beacon, is_own};
use super::{Purpose, check, delivered, make, not_delivered, own_of, purpose, transport};
use roam6_proto::contract::config::geo::PacketParameters;
use roam6_wire::geo::{Area, Shape, TrafficClass};
use std::thread::sleep;
use std::time::Duration;

const NONE: &str = "";
/// A circle, a rectangle and an ellipse around this station, and others that it is outside of.
const NARROW: Area = Area { shape: Shape::Rectangle, a: 500, b: 50, angle: 0, center: B.place };

pub(super) fn purposes() -> Vec<Purpose> {
    let mut all = buffers();
    all.extend(beacons());
    all.extend(addresses());
    all.extend(receivers());
    all
}

fn stored() -> PacketParameters {
    PacketParameters { store_carry_forward: Some(true), ..PacketParameters::default() }
}

/// A packet of a kind that can be sent without neighbours: the position of a destination is known from another.
fn learn_destination(t: &mut Tester, kind: Kind) -> Verdict {
    if let Kind::Guc(node) = kind {
        let mut known = make(t, Kind::Tsb, node);
        (known.sender, known.hops) = (node.mid, 1);
        t.send(&known)?;
        t.expect_entry(node, |_| true)?;
    }
    Ok(())
}

fn buffers() -> Vec<Purpose> {
    [own_packets(), packets_of_others()].into_iter().flatten().collect()
}

fn own_packets() -> Vec<Purpose> {
    let mut all = Vec::new();
    for (name, kind) in originated() {
        let id = format!("roam6/FPB/{name}/stored");
        all.push(purpose(id, "10.3.8.2", "with SCF and without neighbours a packet waits for one", NONE, move |t| {
            learn_destination(t, kind)?;
            t.request(transport(kind), stored(), 8)?;
            t.expect_none("the packet", own_of(kind))?;
            t.beacon(D)?;
            t.expect("the packet", own_of(kind)).map(drop)
        }));
        let id = format!("roam6/FPB/{name}/not-stored");
        all.push(purpose(id, "10.3.8.2", "without SCF and without neighbours a packet is broadcast", NONE, move |t| {
            learn_destination(t, kind)?;
            t.request(transport(kind), PacketParameters::default(), 8)?;
            let sent = t.expect("the packet", own_of(kind))?;
            check(sent.to == BROADCAST, "a broadcast")
        }));
        let id = format!("roam6/FPB/{name}/lifetime");
        all.push(purpose(
            id,
            "7.5.3",
            "the lifetime of a stored packet is reduced by its time in the buffer",
            NONE,
            move |t| {
                learn_destination(t, kind)?;
                t.request(
                    transport(kind),
                    PacketParameters { lifetime: Some(Duration::from_secs(30)), ..stored() },
                    8,
                )?;
                sleep(Duration::from_millis(2_200));
                t.beacon(D)?;
                let sent = t.expect("the packet", own_of(kind))?;
                let left = sent.packet().map_or(0, |it| it.lifetime.duration().as_secs());
                check((20..=28).contains(&left), format!("28 s or less, not {left} s"))
            },
        ));
        let id = format!("roam6/FPB/{name}/expired");
        all.push(purpose(id, "7.5.3", "a stored packet is dropped after its lifetime", NONE, move |t| {
            learn_destination(t, kind)?;
            t.request(transport(kind), PacketParameters { lifetime: Some(Duration::from_millis(300)), ..stored() }, 8)?;
            sleep(Duration::from_millis(900));
            t.beacon(D)?;
            t.expect_none("the packet", own_of(kind))
        }));
        let id = format!("roam6/FPB/{name}/order");
        all.push(purpose(id, "7.5.2", "stored packets are sent in their order", NONE, move |t| {
            learn_destination(t, kind)?;
            for octets in [30, 10, 20] {
                t.request(transport(kind), stored(), octets)?;
            }
            sleep(QUIET);
            t.beacon(D)?;
            let mut lengths = Vec::new();
            for _ in 0..3 {
                lengths.extend(t.expect("the packet", own_of(kind))?.packet().map(|it| it.payload.len()));
            }
            let [first, second, third] = lengths[..] else { return Err(format!("{lengths:?}")) };
            check(first == second + 20 && third == second + 10, format!("their order, not {lengths:?}"))
        }));
    }
    all
}

fn packets_of_others() -> Vec<Purpose> {
    let mut all = Vec::new();
    for (name, kind) in [("GUC", Kind::Guc(super::packets::A)), ("GBC", Kind::Gbc(AREA2)), ("GAC", Kind::Gac(AREA2))] {
        let id = format!("roam6/FPB/{name}/forwarded");
        all.push(purpose(
            id,
            "E.2",
            "with SCF a packet waits for a neighbour nearer to its destination",
            NONE,
            move |t| {
                let mut packet = make(t, kind, C);
                packet.class = TrafficClass::new(0, true);
                t.send(&packet)?;
                let copied = packet.clone();
                t.expect_none("a copy", move |it| copied.is_copy(it))?;
                t.beacon(D)?;
                let sent = t.expect("copy", move |it| packet.is_copy(it))?;
                check(sent.to == D.mid, "to the neighbour")
            },
        ));
    }
    all
}

fn beacons() -> Vec<Purpose> {
    vec![
        purpose(
            "roam6/BEA/interval",
            "10.3.6.2",
            "beacons after the timer, and before the timer and its jitter",
            "beacon = \"800ms\"",
            |t| {
                let mut last = t.expect("beacon", is_own)?.at;
                for _ in 0..4 {
                    let next = t.expect("beacon", is_own)?.at;
                    let apart = (next - last).as_secs_f64();
                    check((0.75..1.5).contains(&apart), format!("0.8 to 1 s, not {apart}"))?;
                    last = next;
                }
                Ok(())
            },
        ),
        purpose("roam6/BEA/default-interval", "H", "the timer is 3 s by default, and its jitter 0.75 s", NONE, |t| {
            let first =
                t.find(Duration::from_secs(6), |it| it.packet().is_some_and(|it| is_own(&it))).ok_or("no beacon")?;
            let next =
                t.find(Duration::from_secs(6), |it| it.packet().is_some_and(|it| is_own(&it))).ok_or("no beacon")?;
            let apart = (next.at - first.at).as_secs_f64();
            check((2.9..4.6).contains(&apart), format!("3 to 3.75 s, not {apart}"))
        }),
        purpose(
            "roam6/BEA/single-hop",
            "10.3.10.2",
            "an SHB packet restarts the beacon timer",
            "beacon = \"1500ms\"",
            |t| {
                t.expect("beacon", is_own)?;
                sleep(Duration::from_millis(1_000));
                t.request(transport(Kind::Shb), PacketParameters::default(), 8)?;
                let single = t.expect("SHB packet", own_of(Kind::Shb))?;
                let next = t.expect("beacon", |it| is_own(it) && is_beacon(it))?;
                let apart = (next.at - single.at).as_secs_f64();
                check((1.4..2.6).contains(&apart), format!("1.5 to 1.9 s, not {apart}"))
            },
        ),
        purpose("roam6/BEA/multi-hop", "10.3.6.2", "other packets do not restart it", "beacon = \"1s\"", |t| {
            let first = t.expect("beacon", is_own)?;
            for _ in 0..4 {
                t.request(transport(Kind::Tsb), PacketParameters::default(), 8)?;
                sleep(Duration::from_millis(150));
            }
            let next = t.expect("beacon", |it| is_own(it) && is_beacon(it))?;
            let apart = (next.at - first.at).as_secs_f64();
            check(apart < 1.8, format!("1 to 1.25 s, not {apart}"))
        }),
        purpose("roam6/BEA/received", "10.3.6.3", "a beacon is neither delivered nor forwarded", LINK, |t| {
            t.open_upper("gn0")?;
            let beacon = make(t, Kind::Beacon, B);
            t.send(&beacon)?;
            t.expect_entry(B, |it| it["state"] == "neighbour")?;
            t.expect_none("a copy", |it| it.extended.source().address.mid == B.mid)
        }),
    ]
}

fn addresses() -> Vec<Purpose> {
    let mut all = vec![
        purpose(
            "roam6/GNA/mid",
            "10.2.1.3",
            "the MID is the link-layer address, the station type as configured",
            "station = \"bus\"",
            |t| {
                let sent = t.expect("beacon", is_own)?;
                let octets = sent.bytes.get(12..20).ok_or("too short")?;
                check(sent.from == IUT && octets.get(2..) == Some(&IUT.0[..]), "MID")?;
                check(octets.first().is_some_and(|first| first >> 2 & 0x1f == 6), "station type 6")
            },
        ),
        purpose(
            "TP/GEONW/PON/GNA/BV-02",
            "10.2.1.5",
            "after a packet with its address this station has another",
            "beacon = \"500ms\"",
            |t| {
                t.expect("beacon", is_own)?;
                let mut copy = make(t, Kind::Shb, iut());
                (copy.sender, copy.source.timestamp.0) = (B.mid, t.timestamp(500));
                t.send(&copy)?;
                t.expect("beacon with another address", |it| is_beacon(it) && !is_own(it)).map(drop)
            },
        ),
        purpose(
            "roam6/GNA/link-layer",
            "10.2.1.5",
            "also after a frame with its link-layer address",
            "beacon = \"500ms\"",
            |t| {
                t.expect("beacon", is_own)?;
                let mut copy = make(t, Kind::Shb, B);
                copy.sender = IUT;
                t.send(&copy)?;
                t.expect("beacon with another address", |it| is_beacon(it) && !is_own(it)).map(drop)
            },
        ),
    ];
    for (name, number) in [("unknown", 0_u8), ("passenger-car", 5), ("tram", 11), ("roadside-unit", 15)] {
        if name == "unknown" {
            continue;
        }
        let id = format!("roam6/GNA/station-type-{name}");
        all.push(purpose(id, "6.3", "the station type is in the GN_ADDR", format!("station = \"{name}\""), move |t| {
            let sent = t.expect("beacon", is_own)?;
            check(sent.bytes.get(12).is_some_and(|first| first >> 2 & 0x1f == number), "station type")
        }));
    }
    all
}

/// A packet arrives from C; whether it is passed on, and whether it is forwarded.
fn arrives(t: &mut Tester, kind: Kind, hops: u8, (passed, forwarded): (bool, bool)) -> Verdict {
    t.open_upper("gn0")?;
    t.neighbours(&[B, C, D])?;
    let mut packet = make(t, kind, C);
    if hops > 0 {
        packet.hops = hops;
    }
    t.send(&packet)?;
    if passed {
        delivered(t, &packet)?
    } else {
        not_delivered(t, &packet)?
    }
    let copied = packet.clone();
    match forwarded {
        false => t.expect_none("a copy", move |it| copied.is_copy(it)),
        true => {
            let sent = t.expect("copy", move |it| copied.is_copy(it))?;
            let it = sent.packet().ok_or("malformed")?;
            check(
                it.remaining_hop_limit == packet.hops - 1 && it.max_hop_limit == packet.max_hops,
                "RHL less one, MHL",
            )?;
            check(it.payload == packet.payload && it.traffic_class == packet.class, "payload and TC as they were")?;
            check(it.extended.source() == &packet.source, "SO PV as it was")
        }
    }
}

/// A case of [`arrives`]: its identifier, the packet with its hop limit, what happens, the clause, and in words.
type Case = (&'static str, Kind, u8, (bool, bool), &'static str, &'static str);

fn cases() -> Vec<Case> {
    let inside = Area { center: iut().place, shape: Shape::Rectangle, a: 300, b: 200, angle: 45 };
    let ellipse = Area { shape: Shape::Ellipse, ..inside };
    let outside = Area { shape: Shape::Ellipse, ..NARROW };
    vec![
        ("SHB/received", Kind::Shb, 0, (true, false), "10.3.10.3", "an SHB packet is delivered, and not forwarded"),
        ("TSB/received", Kind::Tsb, 0, (true, true), "10.3.9.3", "a TSB packet is delivered and broadcast"),
        ("TSB/last-hop", Kind::Tsb, 1, (true, false), "10.3.9.3", "a TSB packet with RHL 1 is delivered only"),
        ("GUC/received", Kind::Guc(iut()), 0, (true, false), "10.3.8.4", "a GUC packet for this station is delivered"),
        ("GUC/last-hop", Kind::Guc(iut()), 1, (true, false), "10.3.8.4", "also with RHL 1"),
        ("GUC/forwarded", Kind::Guc(D), 0, (false, true), "10.3.8.3", "one for another station is forwarded"),
        ("GUC/not-forwarded", Kind::Guc(D), 1, (false, false), "10.3.8.3", "but not with RHL 1"),
        (
            "GBC/circle-inside",
            Kind::Gbc(AREA1),
            0,
            (true, true),
            "10.3.11.3",
            "a GBC packet is delivered and forwarded inside its area",
        ),
        ("GBC/rectangle-inside", Kind::Gbc(inside), 0, (true, true), "10.3.11.3", "a rectangle"),
        ("GBC/ellipse-inside", Kind::Gbc(ellipse), 0, (true, true), "10.3.11.3", "an ellipse"),
        ("GBC/last-hop", Kind::Gbc(AREA1), 1, (true, false), "10.3.11.3", "with RHL 1 it is delivered only"),
        (
            "GBC/rectangle-outside",
            Kind::Gbc(NARROW),
            0,
            (false, true),
            "10.3.11.3",
            "outside a rectangle it is forwarded only",
        ),
        ("GBC/ellipse-outside", Kind::Gbc(outside), 0, (false, true), "10.3.11.3", "outside an ellipse"),
        (
            "GBC/outside-last-hop",
            Kind::Gbc(AREA2),
            1,
            (false, false),
            "10.3.11.3",
            "outside and with RHL 1 it is dropped",
        ),
        ("GAC/circle-inside", Kind::Gac(AREA1), 0, (true, false), "10.3.12.3", "a GAC packet ends inside its area"),
        ("GAC/rectangle-inside", Kind::Gac(inside), 0, (true, false), "10.3.12.3", "a rectangle"),
        ("GAC/ellipse-inside", Kind::Gac(ellipse), 0, (true, false), "10.3.12.3", "an ellipse"),
        ("GAC/circle-outside", Kind::Gac(AREA2), 0, (false, true), "10.3.12.3", "and is forwarded outside"),
        ("GAC/rectangle-outside", Kind::Gac(NARROW), 0, (false, true), "10.3.12.3", "outside a rectangle"),
        ("GAC/outside-last-hop", Kind::Gac(AREA2), 1, (false, false), "10.3.12.3", "but not with RHL 1"),
    ]
}

fn receivers() -> Vec<Purpose> {
    let mut all: Vec<Purpose> = cases()
        .into_iter()
        .map(|(id, kind, hops, wanted, clause, about)| {
            purpose(format!("roam6/{id}"), clause, about, LINK, move |t| arrives(t, kind, hops, wanted))
        })
        .collect();
    all.push(purpose(
        "TP/GEONW/PON/GBC/BV-11",
        "10.3.11.3",
        "a GBC packet with SCF is not delivered outside its area",
        LINK,
        |t| {
            t.open_upper("gn0")?;
            t.neighbours(&[B])?;
            let mut packet = make(t, Kind::Gbc(AREA2), B);
            packet.class = TrafficClass::new(0, true);
            t.send(&packet)?;
            not_delivered(t, &packet)
        },
    ));
    for (name, kind) in
        [("TSB", Kind::Tsb), ("GBC", Kind::Gbc(AREA1)), ("GAC", Kind::Gac(AREA1)), ("GUC", Kind::Guc(iut()))]
    {
        let id = if name == "TSB" { "TP/GEONW/PON/TSB/BO-08".to_owned() } else { format!("roam6/{name}/duplicate") };
        all.push(purpose(id, "A.2", "a duplicate is not delivered", LINK, move |t| {
            t.open_upper("gn0")?;
            let packet = make(t, kind, C);
            t.send(&packet)?;
            delivered(t, &packet)?;
            t.send(&packet)?;
            not_delivered(t, &packet)
        }));
        let id = format!("roam6/{name}/own");
        all.push(purpose(id, "10.3.3", "an own packet that a forwarder sends is not delivered", LINK, move |t| {
            t.open_upper("gn0")?;
            let mut packet = make(t, kind, iut());
            (packet.sender, packet.source.timestamp.0) = (B.mid, t.timestamp(-60_000));
            t.send(&packet)?;
            not_delivered(t, &packet)
        }));
    }
    all
}
