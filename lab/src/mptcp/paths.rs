//! Observer of the path of each payload octet, on the link inside the mobile network, where packets are not
//! encapsulated.

use crate::bed::{LinkEmulator, Segment};
use crate::threads::Shared;
use crate::topology::nemo;
use roam6_wire::ip6::{Datagram, protocol};
use std::net::Ipv6Addr;

/// A path between the mobile network node and the correspondent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PayloadPath {
    /// By the home agent: through the tunnel while the vehicle is away.
    Home,
    /// Direct, through access network 0 or 1.
    Direct(usize),
}

impl PayloadPath {
    /// All paths in display order.
    pub(crate) const ALL: [PayloadPath; 3] = [PayloadPath::Home, PayloadPath::Direct(0), PayloadPath::Direct(1)];

    /// The path of packets with this inner address.
    fn of(address: Ipv6Addr) -> Option<PayloadPath> {
        if address.segments().get(..3) == nemo::mobile_network(0).segments().get(..3) {
            return Some(PayloadPath::Home);
        }
        (0..2).find(|number| nemo::is_of_access_network(*number, address)).map(PayloadPath::Direct)
    }
}

/// Observed TCP payload.
#[derive(Debug, Clone, Default)]
pub(crate) struct PathMonitor(Shared<Vec<PayloadSample>>);

#[derive(Debug, Clone, Copy)]
struct PayloadSample {
    unix_micros: u64,
    path: PayloadPath,
    octets: u64,
}

impl PathMonitor {
    /// Observes the segment `inside` from now on.
    pub(crate) fn watch(emulator: &LinkEmulator, inside: Segment) -> PathMonitor {
        PathMonitor(emulator.collect(move |samples: &mut Vec<_>, frame| {
            let payload = frame.packet().filter(|_| frame.segment == inside).and_then(classify);
            samples.extend(payload.map(|(path, octets)| PayloadSample {
                unix_micros: frame.unix_micros,
                path,
                octets,
            }));
        }))
    }

    /// Octets of payload on `path` from `begin` until before `end`, microseconds since 1970.
    pub(crate) fn octets(&self, path: PayloadPath, begin: u64, end: u64) -> u64 {
        let samples = self.0.lock();
        let from = samples.partition_point(|sample| sample.unix_micros < begin);
        let until = samples.partition_point(|sample| sample.unix_micros < end).max(from);
        let span = samples.get(from..until).unwrap_or_default();
        span.iter().filter(|sample| sample.path == path).map(|sample| sample.octets).sum()
    }

    /// Share of the payload from `begin` until before `end` on direct paths; 0 without payload.
    pub(crate) fn direct_share(&self, begin: u64, end: u64) -> f64 {
        let [home, first, second] = PayloadPath::ALL.map(|path| self.octets(path, begin, end) as f64);
        let all = home + first + second;
        if all > 0.0 { (first + second) / all } else { 0.0 }
    }

    /// The first payload on `path` at or after `moment`; both microseconds since 1970.
    pub(crate) fn first_use(&self, path: PayloadPath, moment: u64) -> Option<u64> {
        let samples = self.0.lock();
        let from = samples.partition_point(|sample| sample.unix_micros < moment);
        let mut later = samples.get(from..).unwrap_or_default().iter();
        later.find(|sample| sample.path == path).map(|sample| sample.unix_micros)
    }

    /// Discards all samples.
    pub(crate) fn clear(&self) {
        self.0.lock().clear();
    }
}

/// Path and payload length of a TCP segment between the mobile network node and a correspondent.
fn classify(packet: &[u8]) -> Option<(PayloadPath, u64)> {
    let datagram = Datagram::parse(packet).ok().filter(|datagram| datagram.protocol == protocol::TCP)?;
    let inside = if nemo::is_correspondent(datagram.destination) { datagram.source } else { datagram.destination };
    let header = usize::from(datagram.payload.get(12)? >> 4) * 4;
    let octets = datagram.payload.len().checked_sub(header).filter(|octets| *octets > 0)?;
    Some((PayloadPath::of(inside)?, octets as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::nemo::CORRESPONDENT;
    use roam6_wire::ip6::{Header, emit};

    #[test]
    fn mptcp_payload_is_counted_by_the_inner_address() {
        let address = Ipv6Addr::new(0x2001, 0xdb8, 0xb2, 0x100, 0, 0, 0, 9);
        let mut segment = vec![0; 32 + 100];
        if let Some(offset) = segment.get_mut(12) {
            *offset = 8 << 4;
        }
        let out = emit(&Header::new(address, CORRESPONDENT), protocol::TCP, &segment);
        assert_eq!(classify(&out), Some((PayloadPath::Direct(1), 100)));
        let shared = Ipv6Addr::new(0x2001, 0xdb8, 0xa1, 0, 0, 0, 0, 9);
        let out = emit(&Header::new(shared, CORRESPONDENT), protocol::TCP, &segment);
        assert_eq!(classify(&out), Some((PayloadPath::Direct(0), 100)));
        let back = emit(&Header::new(CORRESPONDENT, nemo::mobile_network(0)), protocol::TCP, &segment);
        assert_eq!(classify(&back), Some((PayloadPath::Home, 100)));
        segment.truncate(32);
        assert_eq!(classify(&emit(&Header::new(address, CORRESPONDENT), protocol::TCP, &segment)), None);
    }
}
