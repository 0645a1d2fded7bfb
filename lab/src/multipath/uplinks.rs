//! What the uplinks of a vehicle carry: no packet may leave with a source that does not belong to the network it leaves
//! by (RFC 8028 §3, RFC 2827), and the tunnel costs what its header costs (RFC 2473).

use super::testbed::delegated;
use crate::bed::{Air, Port, Segment};
use crate::topology;
use roam6_wire::Prefix;
use roam6_wire::ip6::{Datagram, protocol};
use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Wrong packets of which the story is kept.
const STORIES: usize = 20;
/// Time after a port was plugged in elsewhere in which its host may not know yet: the kernel tells of changes of carrier
/// once a second, machine-wide, unless it finds them urgent.
const UNTOLD: u64 = 1_000_000;
/// Octets of a packet that counts as full.
const FULL: usize = 1400;

/// What was seen until now.
#[derive(Debug, Clone, Default)]
pub(crate) struct Uplinks(Arc<Mutex<Seen>>);

#[derive(Debug, Default)]
struct Seen {
    sent: u64,
    wrong: u64,
    /// Wrong too, but of a host that may not have been told.
    untold: u64,
    /// Where each port was seen last, and since when, microseconds since 1970.
    plugged: BTreeMap<Port, (Segment, u64)>,
    stories: Vec<String>,
    /// Of full packets in the tunnel: octets inside, and with the outer headers.
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

impl Uplinks {
    /// Watches these `ports` from now on.
    pub(crate) fn watch(air: &Air, ports: Vec<Port>, networks: Networks) -> Uplinks {
        let uplinks = Uplinks::default();
        let seen = uplinks.clone();
        air.observe(move |sighting| {
            let sent = ports.contains(&sighting.port);
            let there = sighting.segment == networks.home || networks.visited.contains(&sighting.segment);
            let Some(packet) = sighting.packet().filter(|_| there) else { return };
            let Ok(datagram) = Datagram::parse(packet) else { return };
            let mut seen = seen.lock();
            if datagram.protocol == protocol::IPV6 && datagram.payload.len() >= FULL {
                seen.inner += datagram.payload.len() as u64;
                seen.outer += packet.len() as u64;
            }
            if !sent {
                return;
            }
            seen.sent += 1;
            let now = sighting.unix_micros;
            let here = *seen.plugged.get(&sighting.port).unwrap_or(&(sighting.segment, 0));
            let since = if here.0 == sighting.segment { here.1 } else { now };
            seen.plugged.insert(sighting.port, (sighting.segment, since));
            if !belongs(datagram.source, sighting.segment, networks) {
                if now < since + UNTOLD {
                    seen.untold += 1;
                    return;
                }
                seen.wrong += 1;
                if seen.stories.len() < STORIES {
                    let story = format!(
                        "{} us: {} to {}, protocol {}, by segment {:?}",
                        sighting.unix_micros,
                        datagram.source,
                        datagram.destination,
                        datagram.protocol,
                        sighting.segment
                    );
                    seen.stories.push(story);
                }
            }
        });
        uplinks
    }

    /// Packets sent by the uplinks.
    pub(crate) fn sent(&self) -> u64 {
        self.lock().sent
    }

    /// How many of them had a wrong source.
    pub(crate) fn wrong(&self) -> u64 {
        self.lock().wrong
    }

    /// How many had the source of the network just left, within the second in which the kernel may not have told its host
    /// that it was plugged in elsewhere; they are not among [`Uplinks::wrong`].
    pub(crate) fn untold(&self) -> u64 {
        self.lock().untold
    }

    /// What the first of the wrong ones were.
    pub(crate) fn stories(&self) -> Vec<String> {
        self.lock().stories.clone()
    }

    /// What the tunnel adds to a full packet, percent; `None` if there was none.
    pub(crate) fn overhead(&self) -> Option<f64> {
        let seen = self.lock();
        (seen.inner > 0).then(|| (seen.outer - seen.inner) as f64 / seen.inner as f64 * 100.0)
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a packet from `source` may leave by `segment`.
fn belongs(source: Ipv6Addr, segment: Segment, networks: Networks) -> bool {
    if source.is_unspecified() || source.is_unicast_link_local() {
        return true;
    }
    let within = |address: Ipv6Addr, length| Prefix::new(address, length).is_some_and(|prefix| prefix.contains(source));
    if segment == networks.home {
        return within(topology::HOME_AGENT, 64) || within(topology::network(0), 40);
    }
    let number = networks.visited.iter().position(|visited| *visited == segment);
    number.is_some_and(|number| within(topology::visited_prefix(number), 64) || within(delegated(number), 48))
}
