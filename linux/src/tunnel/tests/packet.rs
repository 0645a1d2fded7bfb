//! Packets and frames of the test runs.

use std::net::Ipv6Addr;

/// An IPv6 packet under construction.
#[derive(Clone)]
pub(super) struct Ip(pub(super) Vec<u8>);

impl Ip {
    pub(super) fn new(from: &str, to: &str, next: u8, payload: &[u8]) -> Ip {
        let mut packet = vec![0x60, 0, 0, 0, 0, 0, next, 64];
        packet[4..6].copy_from_slice(&(payload.len() as u16).to_be_bytes());
        packet.extend(from.parse::<Ipv6Addr>().unwrap().octets());
        packet.extend(to.parse::<Ipv6Addr>().unwrap().octets());
        packet.extend(payload);
        Ip(packet)
    }

    pub(super) fn udp(from: &str, to: &str) -> Ip {
        Ip::new(from, to, 17, &[0x13, 0x88, 0x13, 0x89, 0, 8, 0, 0])
    }

    /// The same with a destination options header of eight octets before the inner header; these are its options.
    pub(super) fn within_options(&self, from: &str, to: &str, options: [u8; 6]) -> Ip {
        Ip::new(from, to, 60, &[&[41, 0][..], &options, self.0.as_slice()].concat())
    }

    /// The same with another length in the header.
    pub(super) fn claiming(mut self, payload: usize) -> Ip {
        self.0[4..6].copy_from_slice(&(payload as u16).to_be_bytes());
        self
    }

    /// The same with trailing octets beyond its length.
    pub(super) fn followed(mut self, octets: usize) -> Ip {
        self.0.extend(vec![0xaa; octets]);
        self
    }

    pub(super) fn hop_limit(mut self, limit: u8) -> Ip {
        self.0[7] = limit;
        self
    }

    pub(super) fn traffic_class(mut self, class: u8) -> Ip {
        self.0[0] = 0x60 | class >> 4;
        self.0[1] = self.0[1] & 0x0f | class << 4;
        self
    }

    /// This packet with an outer header, as the programs write it but for the flow label.
    pub(super) fn within(&self, from: &str, to: &str) -> Ip {
        let class = self.0[0] << 4 | self.0[1] >> 4;
        Ip::new(from, to, 41, &self.0).traffic_class(class)
    }

    /// The same with the tunnel encapsulation limit before the inner header (RFC 2473 §4.1.1).
    pub(super) fn within_limited(&self, from: &str, to: &str) -> Ip {
        let options = [41, 0, 4, 1, 4, 1, 1, 0];
        Ip::new(from, to, 60, &[&options, self.0.as_slice()].concat())
    }
}

pub(super) fn frame(packet: &[u8]) -> Vec<u8> {
    [&[0; 12][..], &[0x86, 0xdd], packet].concat()
}

/// Without the flow label of the outermost header, which is a hash.
pub(super) fn without_label(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    packet[1] &= 0xf0;
    packet[2..4].fill(0);
    packet
}
