//! Packet sockets whose filter passes only what engines handle (RFC 6275 §6.1, §6.5-6.8, RFC 3776 §3, RFC 4861 §4, RFC
//! 4443, RFC 8415). They receive a packet before the kernel processes it, with all extension headers.

use crate::error::{Context, Error};
use crate::sys::{self, FilterStep, Flag};
use nix::sys::socket::{AddressFamily, SockType, socket};
use roam6_proto::{LinkId, Packet};
use roam6_wire::checksum::checksum;
use roam6_wire::ip4::DSMIP_PORT;
use roam6_wire::ip6::protocol;
use roam6_wire::shim6;
use std::io;
use std::net::Ipv6Addr;
use std::os::fd::OwnedFd;

/// Receive buffer of a packet socket, octets.
const RECEIVE_QUEUE: Flag = 4 * 1024 * 1024;
/// Octets of the largest packet without a jumbo payload.
const LARGEST: usize = IPV6_HEADER + 65_535;
const IPV6_HEADER: usize = 40;
/// Most extension headers that the filter looks behind.
const MAX_EXTENSION_HEADERS: usize = 4;

/// Which packets a socket passes. Two sockets, so that a flood of forwarded echo replies never displaces a Binding
/// Update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PacketFilter {
    /// Mobility headers, Shim6 control messages, neighbour and router discovery, home agent address discovery and
    /// mobile prefix discovery, DHCPv6 replies; mobility headers and ESP in IPv6 in UDP; and ESP behind another header, such as the Home Address option. ESP
    /// right behind the IPv6 header may be the host's own: see [`PacketSocket::receive_plain_esp`].
    Signalling,
    /// ICMPv6 errors and echo replies.
    IcmpErrors,
    /// Mobility headers and ESP in IPv6 in UDP in IPv4 (RFC 5555 §4.2).
    Dsmip,
    /// ICMPv4 errors and echo replies.
    Icmp4Errors,
}

impl PacketFilter {
    fn is_ipv4(self) -> bool {
        matches!(self, PacketFilter::Dsmip | PacketFilter::Icmp4Errors)
    }
}

/// One packet socket.
pub(crate) struct PacketSocket {
    filter: PacketFilter,
    socket: OwnedFd,
    buffer: Vec<u8>,
}

impl PacketSocket {
    /// Opens a packet socket on all interfaces.
    ///
    /// # Errors
    /// The kernel's, if it refuses the socket or its filter.
    pub(crate) fn open(kind: PacketFilter) -> Result<PacketSocket, Error> {
        let what = "packet socket";
        let socket = socket(AddressFamily::Packet, SockType::Datagram, sys::SOCKET_FLAGS, None).context(what)?;
        sys::attach_filter(&socket, &filter_program(kind, false)).context(what)?;
        // Without the first the queue is shorter; without the second outgoing packets are filtered one step later.
        let _ = sys::set_option(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &RECEIVE_QUEUE);
        let _ = sys::set_option(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1);
        let ethertype = if kind.is_ipv4() { libc::ETH_P_IP } else { libc::ETH_P_IPV6 };
        sys::bind_frames(&socket, LinkId(0), ethertype as u16).context(what)?;
        Ok(PacketSocket { filter: kind, socket, buffer: vec![0; LARGEST] })
    }

    /// Sets whether ESP right behind the IPv6 header is received: that of mobile routers at home looks like any other
    /// ESP.
    ///
    /// # Errors
    /// The kernel's, if it refuses the filter.
    pub(crate) fn receive_plain_esp(&self, plain: bool) -> Result<(), Error> {
        sys::attach_filter(&self.socket, &filter_program(self.filter, plain)).context("packet socket")
    }

    /// Receives multicast to all groups, also those this host has not joined: DAD probes for addresses it is about to
    /// use.
    ///
    /// # Errors
    /// The kernel's, if the interface was removed.
    pub(crate) fn receive_all_multicast(&self, link: LinkId) -> Result<(), Error> {
        let all_multicast = (libc::PACKET_MR_ALLMULTI, &[][..]);
        sys::packet_membership(&self.socket, libc::PACKET_ADD_MEMBERSHIP, link, all_multicast)
            .context(format!("multicast of {link}"))
    }

    /// Receives one packet, if there is one.
    ///
    /// # Errors
    /// An error of the kernel, as when an interface goes down.
    pub(crate) fn receive(&mut self) -> io::Result<Option<Packet>> {
        let envelope = match sys::receive_packet(&self.socket, &mut self.buffer) {
            Ok(envelope) => envelope,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut bytes = self.buffer.get(..envelope.length).unwrap_or_default().to_vec();
        if !self.filter.is_ipv4() {
            bytes.truncate(without_padding(&bytes).len());
            complete_checksum(&mut bytes);
        }
        Ok(Some(Packet { link: envelope.link, sender: envelope.sender, bytes }))
    }
}

crate::sys::impl_as_fd!(PacketSocket, socket);

/// Removes the padding of a frame of minimum size.
fn without_padding(bytes: &[u8]) -> &[u8] {
    let payload = bytes.get(4..6).and_then(|field| field.try_into().ok()).map(u16::from_be_bytes);
    payload.and_then(|length| bytes.get(..IPV6_HEADER + usize::from(length))).unwrap_or(bytes)
}

/// A local sender leaves the UDP checksum to the device, and a packet that never meets one has the sum of the
/// pseudo-header only. The rest is added here, as the kernel does for its own sockets.
fn complete_checksum(bytes: &mut [u8]) {
    let address =
        |octets: Option<&[u8]>| octets.and_then(|octets| <[u8; 16]>::try_from(octets).ok()).map(Ipv6Addr::from);
    let (source, destination) = (address(bytes.get(8..24)), address(bytes.get(24..40)));
    let (Some(source), Some(destination)) = (source, destination) else { return };
    if bytes.get(6) != Some(&protocol::UDP) {
        return;
    }
    let Some(datagram) = bytes.get_mut(IPV6_HEADER..) else { return };
    let pseudo = !checksum(source, destination, protocol::UDP, &vec![0; datagram.len()]);
    if datagram.get(UDP_CHECKSUM) != Some(&pseudo.to_be_bytes()[..]) {
        return;
    }
    let mut put = |sum: u16| {
        for (to, from) in datagram.iter_mut().skip(UDP_CHECKSUM.start).zip(sum.to_be_bytes()) {
            *to = from;
        }
        checksum(source, destination, protocol::UDP, datagram)
    };
    let sum = put(0);
    put(if sum == 0 { u16::MAX } else { sum });
}

/// The checksum field of a UDP header.
const UDP_CHECKSUM: std::ops::Range<usize> = 6..8;

/// ICMPv6 types that a socket passes.
fn icmp_types(kind: PacketFilter) -> &'static [u32] {
    match kind {
        PacketFilter::Signalling => &[133, 134, 135, 136, 137, 144, 145, 146, 147, MNPP],
        PacketFilter::IcmpErrors => &[1, 2, 3, 4, 129],
        PacketFilter::Dsmip | PacketFilter::Icmp4Errors => &[],
    }
}

/// Advertisements of mobile network prefixes (MNPP).
const MNPP: u32 = roam6_wire::mnpp::ICMP_TYPE as u32;
const MOBILITY: u32 = protocol::MOBILITY as u32;
const ESP: u32 = protocol::ESP as u32;
const ICMPV6: u32 = protocol::ICMPV6 as u32;
const UDP: u32 = protocol::UDP as u32;
/// Offset of what is in UDP from the UDP header.
const INNER_AT: u32 = 8;
/// Destination port of DHCPv6 replies (RFC 8415 §7.2).
const DHCP_CLIENT: u32 = 546;
/// The P bit: payload extension headers, which BPF programs process, have it, control messages do not (RFC 5533 §5.1).
const SHIM_PAYLOAD: u32 = 0x80;
/// Hop-by-hop options, routing header, destination options: extension headers that may precede a message.
const EXTENSIONS: [u32; 3] = [0, 43, 60];

/// The filter program; `plain`: with ESP right behind the IPv6 header. X has the offset of a header, A its protocol
/// number; one block of instructions for each header.
fn filter_program(kind: PacketFilter, plain: bool) -> Vec<FilterStep> {
    match kind {
        PacketFilter::Dsmip => return dsmip_filter_program(),
        PacketFilter::Icmp4Errors => return icmp4_filter_program(),
        PacketFilter::Signalling | PacketFilter::IcmpErrors => {}
    }
    const START: usize = 5;
    const BLOCK: usize = 8 + 9;
    let refuse = START + BLOCK * MAX_EXTENSION_HEADERS;
    let icmp = refuse + 1;
    let udp = icmp + 1 + icmp_types(kind).len() + 1;
    let shim = udp + 4;
    let tunnel = shim + 4;
    let accept = tunnel + 8;
    let mut program = FilterProgram::default();

    let packet_type = (libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE).cast_unsigned();
    program.step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, packet_type);
    program.branch(u32::from(libc::PACKET_OUTGOING), refuse);
    program.branch(u32::from(libc::PACKET_OTHERHOST), refuse);
    program.step(libc::BPF_LDX | libc::BPF_W | libc::BPF_IMM, IPV6_HEADER as u32);
    program.step(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, 6);
    for depth in 0..MAX_EXTENSION_HEADERS {
        let skip = program.steps.len() + 9;
        let signalling = |target| if kind == PacketFilter::Signalling { target } else { refuse };
        program.branch(MOBILITY, signalling(accept));
        program.branch(UDP, signalling(udp));
        program.branch(u32::from(shim6::PROTOCOL), signalling(shim));
        program.branch(ESP, if plain || depth > 0 { signalling(accept) } else { refuse });
        program.branch(ICMPV6, icmp);
        EXTENSIONS.iter().for_each(|extension| program.branch(*extension, skip));
        program.jump(refuse);
        program.step(libc::BPF_LD | libc::BPF_B | libc::BPF_IND, 0);
        program.step(libc::BPF_ST, 0);
        program.step(libc::BPF_LD | libc::BPF_B | libc::BPF_IND, 1);
        program.step(libc::BPF_ALU | libc::BPF_ADD | libc::BPF_K, 1);
        program.step(libc::BPF_ALU | libc::BPF_LSH | libc::BPF_K, 3);
        program.step(libc::BPF_ALU | libc::BPF_ADD | libc::BPF_X, 0);
        program.step(libc::BPF_MISC | libc::BPF_TAX, 0);
        program.step(libc::BPF_LD | libc::BPF_W | libc::BPF_MEM, 0);
    }
    program.step(libc::BPF_RET | libc::BPF_K, 0);
    program.step(libc::BPF_LD | libc::BPF_B | libc::BPF_IND, 0);
    icmp_types(kind).iter().for_each(|icmp_type| program.branch(*icmp_type, accept));
    program.step(libc::BPF_RET | libc::BPF_K, 0);
    program.step(libc::BPF_LD | libc::BPF_H | libc::BPF_IND, 2);
    program.branch(DHCP_CLIENT, accept);
    program.branch(u32::from(DSMIP_PORT), tunnel);
    program.step(libc::BPF_RET | libc::BPF_K, 0);
    program.step(libc::BPF_LD | libc::BPF_B | libc::BPF_IND, 2);
    program.step(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, SHIM_PAYLOAD);
    program.branch(0, accept);
    program.step(libc::BPF_RET | libc::BPF_K, 0);
    program.step(libc::BPF_LD | libc::BPF_B | libc::BPF_IND, INNER_AT);
    program.step(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0xf0);
    program.branch(0x60, tunnel + 4);
    program.step(libc::BPF_RET | libc::BPF_K, 0);
    program.step(libc::BPF_LD | libc::BPF_B | libc::BPF_IND, INNER_AT + 6);
    program.branch(MOBILITY, accept);
    program.branch(ESP, accept);
    program.step(libc::BPF_RET | libc::BPF_K, 0);
    program.step(libc::BPF_RET | libc::BPF_K, u32::MAX);
    program.steps
}

/// Where the header behind an IPv4 header without options begins.
const IPV4_PAYLOAD: u32 = 20;
const LOAD_OCTET: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_ABS;
const LOAD_WORD: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_ABS;

/// The program of [`PacketFilter::Dsmip`].
fn dsmip_filter_program() -> Vec<FilterStep> {
    const INNER: u32 = IPV4_PAYLOAD + INNER_AT;
    let checks = [(LOAD_WORD, IPV4_PAYLOAD + 2, 0xffff, u32::from(DSMIP_PORT)), (LOAD_OCTET, INNER, 0xf0, 0x60)];
    ipv4_filter_program(UDP, &checks, INNER + 6, &[MOBILITY, ESP])
}

/// The program of [`PacketFilter::Icmp4Errors`].
fn icmp4_filter_program() -> Vec<FilterStep> {
    use roam6_wire::icmp4::{PROTOCOL, kind};
    let types = [kind::ECHO_REPLY, kind::DESTINATION_UNREACHABLE, kind::TIME_EXCEEDED].map(u32::from);
    ipv4_filter_program(u32::from(PROTOCOL), &[], IPV4_PAYLOAD, &types)
}

/// Passes IPv4 packets of `protocol` for this host that match `checks` (instruction, offset, mask, value), if the octet at
/// `last` is one of `values`. Who sends has no reason for options or fragments: those are the kernel's.
fn ipv4_filter_program(protocol: u32, checks: &[(u32, u32, u32, u32)], last: u32, values: &[u32]) -> Vec<FilterStep> {
    const FRAGMENT: u32 = 0x3fff;
    let packet_type = (libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE).cast_unsigned();
    let header = [
        (LOAD_OCTET, packet_type, u32::MAX, u32::from(libc::PACKET_HOST)),
        (LOAD_OCTET, 0, 0xff, 0x45),
        (LOAD_WORD, 6, FRAGMENT, 0),
        (LOAD_OCTET, 9, 0xff, protocol),
    ];
    let mut program = FilterProgram::default();
    let refuse = (header.len() + checks.len()) * 4 + 1 + values.len();
    for (load, at, mask, value) in header.iter().chain(checks) {
        program.step(*load, *at);
        program.step(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, *mask);
        let on = program.steps.len() + 2;
        program.branch(*value, on);
        program.jump(refuse);
    }
    program.step(LOAD_OCTET, last);
    values.iter().for_each(|value| program.branch(*value, refuse + 1));
    program.step(libc::BPF_RET | libc::BPF_K, 0);
    program.step(libc::BPF_RET | libc::BPF_K, u32::MAX);
    program.steps
}

#[derive(Default)]
struct FilterProgram {
    steps: Vec<FilterStep>,
}

impl FilterProgram {
    fn step(&mut self, code: u32, k: u32) {
        self.steps.push(sys::filter_step(code, 0, 0, k));
    }

    /// Jumps to step `target` if A equals `value`.
    fn branch(&mut self, value: u32, target: usize) {
        let jt = u8::try_from(target - self.steps.len() - 1).unwrap_or(u8::MAX);
        self.steps.push(sys::filter_step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, jt, 0, value));
    }

    /// Jumps to step `target`.
    fn jump(&mut self, target: usize) {
        let distance = target - self.steps.len() - 1;
        self.step(libc::BPF_JMP | libc::BPF_JA, distance as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the program on a packet; the packet type is always "for this host".
    fn passes((kind, plain): (PacketFilter, bool), packet: &[u8]) -> bool {
        let program = filter_program(kind, plain);
        let (mut a, mut x, mut memory, mut at) = (0_u32, 0_u32, 0_u32, 0_usize);
        loop {
            let step = program[at];
            at += 1;
            let octet = |offset: u32| packet.get(offset as usize).map(|octet| u32::from(*octet));
            match u32::from(step.code) {
                0x20 => a = 0,
                0x30 if step.k > 0xffff => a = 0,
                0x01 => x = step.k,
                0x30 | 0x50 => {
                    let base = if step.code == 0x50 { x } else { 0 };
                    let Some(value) = octet(base + step.k) else { return false };
                    a = value;
                }
                0x28 | 0x48 => {
                    let x = if step.code == 0x48 { x } else { 0 };
                    let Some(high) = octet(x + step.k) else { return false };
                    let Some(low) = octet(x + step.k + 1) else { return false };
                    a = high << 8 | low;
                }
                0x15 if a == step.k => at += usize::from(step.jt),
                0x15 => at += usize::from(step.jf),
                0x05 => at += step.k as usize,
                0x02 => memory = a,
                0x60 => a = memory,
                0x04 => a += step.k,
                0x0c => a += x,
                0x64 => a <<= step.k,
                0x54 => a &= step.k,
                0x07 => x = a,
                0x06 => return step.k != 0,
                other => panic!("unknown instruction {other:#x}"),
            }
        }
    }

    fn packet(chain: &[(u8, &[u8])]) -> Vec<u8> {
        let mut bytes = vec![0; 40];
        let mut next_field = 6;
        for (protocol, header) in chain {
            bytes[next_field] = *protocol;
            next_field = bytes.len();
            bytes.extend(*header);
        }
        bytes
    }

    /// IPv6 with this next header in UDP.
    fn in_udp(next_header: u8) -> [u8; 15] {
        [0x9c, 0x40, 0x10, 0x5f, 0, 48, 0, 0, 0x60, 0, 0, 0, 0, 0, next_header]
    }

    #[test]
    fn filter_passes_mobility_shim6_and_nd_messages_only() {
        let extension: &[u8] = &[0; 8];
        let long: &[u8] = &{
            let mut header = [0; 24];
            header[1] = 2;
            header
        };
        for (wanted, chain) in [
            (true, vec![(135, extension)]),
            (true, vec![(60, long), (135, extension)]),
            (true, vec![(0, extension), (43, long), (60, long), (135, extension)]),
            (true, vec![(58, &[134, 0, 0, 0][..])]),
            (true, vec![(60, long), (58, &[146, 0, 0, 0][..])]),
            (true, vec![(17, &[2, 35, 2, 34, 0, 8, 0, 0][..])]),
            (true, vec![(60, extension), (17, &[2, 35, 2, 34, 0, 8, 0, 0][..])]),
            (true, vec![(17, &in_udp(135)[..])]),
            (true, vec![(17, &in_udp(50)[..])]),
            (false, vec![(17, &in_udp(6)[..])]),
            (false, vec![(17, &in_udp(135)[..14])]),
            (false, vec![(17, &[2, 34, 2, 35, 0, 8, 0, 0][..])]),
            (false, vec![(17, &[2, 35, 2][..])]),
            (false, vec![(58, &[128, 0, 0, 0][..])]),
            (false, vec![(58, &[129, 0, 0, 0][..])]),
            (false, vec![(50, extension)]),
            (true, vec![(60, long), (50, extension)]),
            (true, vec![(43, long), (50, extension)]),
            (true, vec![(140, extension)]),
            (true, vec![(60, long), (140, extension)]),
            (false, vec![(140, &[6, 0, 0x80, 0, 0, 0, 0, 1][..])]),
            (false, vec![(41, extension)]),
            (false, vec![(6, extension)]),
            (false, vec![(60, extension), (60, extension), (60, extension), (60, extension), (135, extension)]),
            (false, vec![(60, &[135][..])]),
        ] {
            assert_eq!(passes((PacketFilter::Signalling, false), &packet(&chain)), wanted, "{chain:?}");
        }
        assert!(passes((PacketFilter::Signalling, true), &packet(&[(50, extension)])));
        let feedback = (PacketFilter::IcmpErrors, true);
        assert!(passes(feedback, &packet(&[(58, &[129, 0])])));
        assert!(passes(feedback, &packet(&[(58, &[2, 0])])));
        assert!(!passes(feedback, &packet(&[(135, &[0; 8])])));
        assert!(!passes(feedback, &packet(&[(60, long), (50, extension)])));
        assert!(!passes(feedback, &packet(&[(17, &[2, 35, 2, 34, 0, 8, 0, 0])])));
    }

    #[test]
    fn filter_passes_mobility_messages_over_ipv4() {
        let encapsulated = |port: u16, protocol: u8| {
            let end = |port| roam6_wire::Ipv4Endpoint { address: std::net::Ipv4Addr::new(192, 0, 2, 1), port };
            let mut inner = vec![0x60; 48];
            inner[6] = protocol;
            roam6_wire::ip4::Encapsulated { source: end(9), destination: end(port), tos: 0, inner: &inner }.emit()
        };
        let kind = (PacketFilter::Dsmip, false);
        assert!(passes(kind, &encapsulated(4191, 135)) && passes(kind, &encapsulated(4191, 50)));
        assert!(!passes(kind, &encapsulated(4190, 135)) && !passes(kind, &encapsulated(4191, 17)));
        for (at, octet) in [(0, 0x46), (6, 0x20), (7, 1), (9, 6), (28, 0x40)] {
            let mut other = encapsulated(4191, 135);
            other[at] = octet;
            assert!(!passes(kind, &other), "octet {at}");
        }
        assert!(!passes(kind, &encapsulated(4191, 135)[..30]));
    }

    #[test]
    fn filter_passes_icmp4_errors_and_echo_replies() {
        let packet = |protocol: u8, octet: u8| {
            let (source, destination) = (std::net::Ipv4Addr::new(192, 0, 2, 1), std::net::Ipv4Addr::new(192, 0, 2, 2));
            roam6_wire::ip4::Header { source, destination, tos: 0, protocol }.emit(&[octet, 0, 0, 0, 0, 0, 0, 0])
        };
        let kind = (PacketFilter::Icmp4Errors, false);
        for (protocol, octet, wanted) in [(1, 0, true), (1, 3, true), (1, 11, true), (1, 8, false), (17, 0, false)] {
            assert_eq!(passes(kind, &packet(protocol, octet)), wanted, "{protocol} {octet}");
        }
        assert!(!passes(kind, &packet(1, 0)[..20]));
        let mut fragment = packet(1, 0);
        fragment[7] = 1;
        assert!(!passes(kind, &fragment));
    }

    #[test]
    fn partial_udp_checksum_is_completed_and_a_wrong_one_is_kept() {
        use roam6_wire::ip6::{self, Header, protocol};
        use roam6_wire::udp::Udp;
        let header = Header::new("fe80::1".parse().unwrap(), "fe80::2".parse().unwrap());
        let udp = Udp { source: 547, destination: 546, payload: b"abc" };
        let whole = ip6::emit(&header, protocol::UDP, &udp.emit(header.source, header.destination));
        let mut left = whole.clone();
        let pseudo = !checksum(header.source, header.destination, protocol::UDP, &[0; 11]);
        left[46..48].copy_from_slice(&pseudo.to_be_bytes());
        complete_checksum(&mut left);
        assert_eq!(left, whole);
        let mut wrong = whole.clone();
        wrong[46] ^= 1;
        let before = wrong.clone();
        complete_checksum(&mut wrong);
        assert_eq!(wrong, before);
    }

    #[test]
    fn ethernet_padding_is_removed() {
        let mut bytes = vec![0; 46];
        bytes[5] = 4;
        assert_eq!(without_padding(&bytes).len(), 44);
        bytes[5] = 200;
        assert_eq!(without_padding(&bytes).len(), 46);
        assert_eq!(without_padding(&bytes[..3]).len(), 3);
    }
}
