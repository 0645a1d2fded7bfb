//! Registrations: how many a second, what they cost each role, how long one takes, and when a move is in force everywhere.

use crate::bed::Host;
use crate::experiments::prelude::*;
use crate::load::fleet_updates::FleetUpdates;
use crate::load::registrations::{CORRESPONDENT, mobile_network};
use crate::topology::fleet::{FleetNetwork, MEMBERS};
use roam6_wire::ip6::{self, Datagram, Header, protocol};
use std::io::{Read, Write};
use std::net::{Ipv6Addr, TcpStream};

/// Updates under way.
const WINDOW: usize = 256;
/// Single updates whose delay is measured.
const SINGLE: u32 = 200;
/// Moves, in quick and in full runs.
const MOVES: (u32, u32) = (100, 1000);
/// How long after an acknowledgement members are watched.
const WATCHED: Duration = Duration::from_millis(60);
/// Octets of a packet's payload.
const PAYLOAD: [u8; 100] = [0; 100];

/// CPU time of the members' roam6, and of all nodes of the store.
fn cpu_times(network: &FleetNetwork) -> Result<(Vec<Duration>, Duration)> {
    let members = network.members.iter().map(|member| member.daemon.cpu_time()).collect::<Result<_>>()?;
    let store = network.members.iter().map(|member| member.store.cpu_time()).sum::<Result<Duration>>()?;
    Ok((members, store))
}

/// First registrations at one member tell the cost of each role; those at all members, the rate.
pub(super) fn measure(run: &mut Run, network: &FleetNetwork, updates: &mut FleetUpdates, size: u32) -> Result<()> {
    run.step("registrations");
    let half = size / 2;
    let (before, store_before) = cpu_times(network)?;
    updates.register(0..half, 0, WINDOW, |_| 0)?;
    let (after, store_after) = cpu_times(network)?;
    let each = |time: Duration| (time.as_secs_f64() * 1e6 / f64::from(half)).round();
    let spent: Vec<f64> = after.iter().zip(&before).map(|(after, before)| each(*after - *before)).collect();
    let (accepting, others) = spent.split_first().context("no members")?;
    run.summarise("cpu_us_per_registration_accepting", *accepting);
    run.summarise("cpu_us_per_registration_other", percentile(others, 1.0));
    run.summarise("cpu_us_per_registration_store", each(store_after - store_before));
    let began = clock::now();
    let delays = updates.register(half..size, 0, WINDOW, |router| router as usize % MEMBERS)?;
    run.summarise("registrations_per_s", (f64::from(size - half) / began.elapsed().as_secs_f64()).round());
    run.rows.push(json!({ "registered": size, "window": WINDOW, "bu_to_ba_ms": distribution(delays) }));
    let (began, again) = (clock::now(), size.min(20_000));
    updates.register(0..again, 0, WINDOW, |router| router as usize % MEMBERS)?;
    run.summarise("refreshes_per_s", (f64::from(again) / began.elapsed().as_secs_f64()).round());
    Ok(())
}

/// A single update, and a write of the store by itself, in turn.
pub(super) fn measure_delay(run: &mut Run, network: &FleetNetwork, updates: &mut FleetUpdates) -> Result<()> {
    run.step("the delay of an acknowledgement");
    let mut store = StoreClient::open(&network.member(1)?.daemon.host)?;
    let (mut delays, mut commits) = (Vec::new(), Vec::new());
    for router in 0..SINGLE {
        delays.extend(updates.register([router], 0, 1, |_| 0)?);
        commits.push(store.put()?);
    }
    let [ours, theirs] = [&delays, &commits].map(|values| percentile(values, 0.5));
    run.summarise("bu_to_ba_ms_p50", ours.map(round));
    run.summarise("bu_to_ba_ms_p99", percentile(&delays, 0.99).map(round));
    run.summarise("store_commit_ms_p50", theirs.map(round));
    run.summarise("bu_to_ba_over_commit_ms", ours.zip(theirs).map(|(ours, theirs)| round(ours - theirs)));
    Ok(())
}

/// A connection to the JSON gateway of a node of the store.
struct StoreClient(TcpStream);

impl StoreClient {
    fn open(host: &Host) -> Result<StoreClient> {
        let stream = host.in_namespace(|| TcpStream::connect("[::1]:2379"))??;
        stream.set_nodelay(true)?;
        Ok(StoreClient(stream))
    }

    /// Writes a key, and waits until it is committed; milliseconds.
    fn put(&mut self) -> Result<f64> {
        // Key "lab", and a value as long as a record.
        let body = format!("{{\"key\":\"bGFi\",\"value\":\"{}\"}}", "QUFB".repeat(100));
        let length = body.len();
        let began = clock::now();
        write!(self.0, "POST /v3/kv/put HTTP/1.1\r\nHost: store\r\nContent-Length: {length}\r\n\r\n{body}")?;
        let mut answer = [0; 4096];
        let read = self.0.read(&mut answer)?;
        ensure!(answer.get(..read).is_some_and(|text| text.starts_with(b"HTTP/1.1 200")), "the store refuses a write");
        Ok(began.elapsed().as_secs_f64() * 1000.0)
    }
}

/// Mobile routers move; each member gets packets for them all the while. How long after the acknowledgement the last one goes to
/// the former care-of address.
pub(super) fn measure_moves(run: &mut Run, updates: &mut FleetUpdates) -> Result<()> {
    run.step("moves");
    let moves = if run.quick { MOVES.0 } else { MOVES.1 };
    let (mut stale, mut without) = (Vec::new(), 0);
    for router in 0..moves {
        let member = router as usize % MEMBERS;
        let old = updates.care_of(router, 0).0;
        updates.register([router], 1, 1, |_| member)?;
        let acknowledged = clock::now();
        let (mut last, mut received) = ([0.0_f64; MEMBERS], [0_u32; MEMBERS]);
        while acknowledged.elapsed() < WATCHED {
            for (last, (received, (number, taps))) in
                last.iter_mut().zip(received.iter_mut().zip(updates.taps.iter_mut().enumerate()))
            {
                let at = acknowledged.elapsed();
                taps.correspondents.send(&data_packet(router))?;
                while let Some(packet) = taps.routers.receive() {
                    let Some(to) = tunnelled_to(packet) else { continue };
                    *received += 1;
                    if to == old && number != member {
                        *last = at.as_secs_f64() * 1000.0;
                    }
                }
            }
            sleep(Duration::from_micros(500));
        }
        without += received.iter().filter(|received| **received == 0).count();
        stale.extend(last.iter().enumerate().filter(|(number, _)| *number != member).map(|(_, last)| *last));
    }
    run.rows.push(json!({ "moves": moves, "stale_forwarding_ms": distribution(&stale) }));
    run.summarise("stale_forwarding_ms_p99", percentile(&stale, 0.99).map(round));
    run.require(without == 0, || format!("{without} times a member forwarded nothing"));
    Ok(())
}

/// A packet from the correspondent to a mobile network.
fn data_packet(router: u32) -> Vec<u8> {
    let destination = Ipv6Addr::from_bits(mobile_network(router).to_bits() + 1);
    ip6::emit(&Header::new(CORRESPONDENT, destination), protocol::NONE, &PAYLOAD)
}

/// Where a packet in a tunnel goes.
fn tunnelled_to(packet: &[u8]) -> Option<Ipv6Addr> {
    let datagram = Datagram::parse(packet).ok()?;
    (datagram.protocol == protocol::IPV6).then_some(datagram.destination)
}
