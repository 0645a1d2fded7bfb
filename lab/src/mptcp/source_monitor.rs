//! Observer of the uplinks of a vehicle: no packet may leave with a source address that does not belong to the network
//! of the uplink (RFC 8028 §3, RFC 2827); also measures the overhead of the tunnel header (RFC 2473).

use crate::bed::{LinkEmulator, Port, Segment};
use crate::threads::Shared;
use crate::topology::nemo;
use roam6_wire::Prefix;
use roam6_wire::ip6::{Datagram, protocol};
use std::collections::BTreeMap;
use std::net::Ipv6Addr;

/// Number of wrong packets that are described.
const MAX_SAMPLES: usize = 20;
/// Time after re-plugging in which the host may not know of it: the kernel reports carrier changes once a second,
/// machine-wide, unless it considers them urgent; microseconds.
const CARRIER_GRACE_MICROS: u64 = 1_000_000;
/// Octets of a packet that counts as full.
const FULL_PACKET: usize = 1400;

/// The monitor.
#[derive(Debug, Clone, Default)]
pub(crate) struct SourceMonitor(Shared<Observations>);

/// Counts of packets, and descriptions of the first wrong ones.
#[derive(Debug, Clone, Default)]
pub(crate) struct Observations {
    /// Sent by the uplinks.
    pub(crate) sent: u64,
    /// With a wrong source.
    pub(crate) wrong_source: u64,
    /// With a source of the previous network within the grace period after re-plugging.
    pub(crate) grace_period: u64,
    /// The segment of each port and the time it was plugged in, microseconds since 1970.
    attachments: BTreeMap<Port, (Segment, u64)>,
    pub(crate) samples: Vec<String>,
    /// Full packets in the tunnel: inner octets, and octets with outer headers.
    inner: u64,
    outer: u64,
}

/// The networks an uplink may be plugged into.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Networks {
    /// The home link.
    pub(crate) home: Segment,
    /// The access networks.
    pub(crate) visited: [Segment; 2],
}

impl SourceMonitor {
    /// Observes these `ports` from now on.
    pub(crate) fn watch(emulator: &LinkEmulator, ports: Vec<Port>, networks: Networks) -> SourceMonitor {
        SourceMonitor(emulator.collect(move |state: &mut Observations, frame| {
            let sent = ports.contains(&frame.port);
            let is_observed = frame.segment == networks.home || networks.visited.contains(&frame.segment);
            let Some(packet) = frame.packet().filter(|_| is_observed) else { return };
            let Ok(datagram) = Datagram::parse(packet) else { return };
            if datagram.protocol == protocol::IPV6 && datagram.payload.len() >= FULL_PACKET {
                state.inner += datagram.payload.len() as u64;
                state.outer += packet.len() as u64;
            }
            if !sent {
                return;
            }
            state.sent += 1;
            let now = frame.unix_micros;
            let here = *state.attachments.get(&frame.port).unwrap_or(&(frame.segment, 0));
            let since = if here.0 == frame.segment { here.1 } else { now };
            state.attachments.insert(frame.port, (frame.segment, since));
            if !is_topologically_correct(datagram.source, frame.segment, networks) {
                if now < since + CARRIER_GRACE_MICROS {
                    state.grace_period += 1;
                    return;
                }
                state.wrong_source += 1;
                if state.samples.len() < MAX_SAMPLES {
                    let sample = format!(
                        "{} us: {} to {}, protocol {}, by segment {:?}",
                        frame.unix_micros, datagram.source, datagram.destination, datagram.protocol, frame.segment
                    );
                    state.samples.push(sample);
                }
            }
        }))
    }

    /// The observations so far.
    pub(crate) fn observations(&self) -> Observations {
        self.0.lock().clone()
    }
}

impl Observations {
    /// Overhead of the tunnel for full packets, percent; `None` if there was none.
    pub(crate) fn overhead(&self) -> Option<f64> {
        (self.inner > 0).then(|| (self.outer - self.inner) as f64 / self.inner as f64 * 100.0)
    }
}

/// Whether a packet from `source` may leave by `segment`.
fn is_topologically_correct(source: Ipv6Addr, segment: Segment, networks: Networks) -> bool {
    if source.is_unspecified() || source.is_unicast_link_local() {
        return true;
    }
    let within = |address: Ipv6Addr, length| Prefix::new(address, length).is_some_and(|prefix| prefix.contains(source));
    if segment == networks.home {
        return within(nemo::HOME_AGENT, 64) || within(nemo::mobile_network(0), 40);
    }
    let number = networks.visited.iter().position(|visited| *visited == segment);
    number.is_some_and(|number| within(nemo::visited_prefix(number), 64) || within(nemo::delegated_pool(number), 48))
}
