//! Observer of the path of each payload octet, on the link inside the mobile network, where packets are not
//! encapsulated.

use super::testbed::{delegated, far_side};
use crate::bed::{Air, Segment};
use crate::topology;
use roam6_wire::ip6::{Datagram, protocol};
use std::net::Ipv6Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A path between the mobile network node and the correspondent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Path {
    /// By the home agent: through the tunnel while the vehicle is away.
    Home,
    /// Direct, through access network 0 or 1.
    Direct(usize),
}

impl Path {
    /// All paths in display order.
    pub(crate) const ALL: [Path; 3] = [Path::Home, Path::Direct(0), Path::Direct(1)];

    /// The path of packets with this inner address.
    fn of(address: Ipv6Addr) -> Option<Path> {
        let near = |prefix: Ipv6Addr| prefix.segments().get(..3) == address.segments().get(..3);
        if near(topology::network(0)) {
            return Some(Path::Home);
        }
        (0..2).find(|number| near(delegated(*number))).map(Path::Direct)
    }
}

/// Observed TCP payload.
#[derive(Debug, Clone, Default)]
pub(crate) struct Paths(Arc<Mutex<Vec<Sample>>>);

#[derive(Debug, Clone, Copy)]
struct Sample {
    unix_micros: u64,
    path: Path,
    octets: u64,
}

impl Paths {
    /// Observes the segment `inside` from now on.
    pub(crate) fn watch(air: &Air, inside: Segment) -> Paths {
        let paths = Paths::default();
        let seen = paths.clone();
        air.observe(move |sighting| {
            if sighting.segment != inside {
                return;
            }
            if let Some((path, octets)) = sighting.packet().and_then(payload) {
                seen.lock().push(Sample { unix_micros: sighting.unix_micros, path, octets });
            }
        });
        paths
    }

    /// Octets of payload on `path` from `begin` until before `end`, microseconds since 1970.
    pub(crate) fn octets(&self, path: Path, begin: u64, end: u64) -> u64 {
        let samples = self.lock();
        let from = samples.partition_point(|sample| sample.unix_micros < begin);
        let until = samples.partition_point(|sample| sample.unix_micros < end).max(from);
        let span = samples.get(from..until).unwrap_or_default();
        span.iter().filter(|sample| sample.path == path).map(|sample| sample.octets).sum()
    }

    /// Share of the payload from `begin` until before `end` on direct paths; 0 without payload.
    pub(crate) fn direct_share(&self, begin: u64, end: u64) -> f64 {
        let [home, first, second] = Path::ALL.map(|path| self.octets(path, begin, end) as f64);
        let all = home + first + second;
        if all > 0.0 { (first + second) / all } else { 0.0 }
    }

    /// The first payload on `path` at or after `moment`; both microseconds since 1970.
    pub(crate) fn first(&self, path: Path, moment: u64) -> Option<u64> {
        let samples = self.lock();
        let from = samples.partition_point(|sample| sample.unix_micros < moment);
        let mut later = samples.get(from..).unwrap_or_default().iter();
        later.find(|sample| sample.path == path).map(|sample| sample.unix_micros)
    }

    /// Discards all samples.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Sample>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Path and payload length of a TCP segment between the mobile network node and a correspondent.
fn payload(packet: &[u8]) -> Option<(Path, u64)> {
    let datagram = Datagram::parse(packet).ok().filter(|datagram| datagram.protocol == protocol::TCP)?;
    let inside = if far_side(datagram.destination) { datagram.source } else { datagram.destination };
    let header = usize::from(datagram.payload.get(12)? >> 4) * 4;
    let octets = datagram.payload.len().checked_sub(header).filter(|octets| *octets > 0)?;
    Some((Path::of(inside)?, octets as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::CORRESPONDENT;
    use roam6_wire::ip6::{Header, emit};

    #[test]
    fn payload_is_counted_by_the_address_inside() {
        let address = Ipv6Addr::new(0x2001, 0xdb8, 0xb2, 0x100, 0, 0, 0, 9);
        let mut segment = vec![0; 32 + 100];
        if let Some(offset) = segment.get_mut(12) {
            *offset = 8 << 4;
        }
        let out = emit(&Header::new(address, CORRESPONDENT), protocol::TCP, &segment);
        assert_eq!(payload(&out), Some((Path::Direct(1), 100)));
        let back = emit(&Header::new(CORRESPONDENT, topology::network(0)), protocol::TCP, &segment);
        assert_eq!(payload(&back), Some((Path::Home, 100)));
        segment.truncate(32);
        assert_eq!(payload(&emit(&Header::new(address, CORRESPONDENT), protocol::TCP, &segment)), None);
    }
}
