//! Fuzz harnesses, one for each parser: no input causes a panic, and what parses is emitted and parses again.
//! Run by seeded mutations and the corpus in `cargo test`, and by the fuzzer.

use crate::ip6::{self, Datagram, Header};
use crate::malformed::Why;
use crate::{checksum, dhcp6, geo, icmp4, icmp6, ip4, mnpp, mobility, relay, shim6, udp, udp6};
use alloc::vec::Vec;
use core::net::Ipv6Addr;

const SOURCE: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
const DESTINATION: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);

/// Length below which a message fits the longest Mobility Header after options are aligned again and signed.
const MOBILITY_ROOM: usize = mobility::MAX_LENGTH - 7 * (mobility::option::MAX_OPTIONS + 1) - 32;

/// `data` as an IPv6 packet.
pub fn ip6(data: &[u8]) {
    encapsulated6(data);
    let Ok(datagram) = Datagram::parse(data) else { return };
    assert_eq!(data.get(datagram.payload_at..datagram.payload_at + datagram.payload.len()), Some(datagram.payload));
    let packet = ip6::emit(&datagram.header, datagram.protocol, datagram.payload);
    let again = Datagram::parse(&packet);
    assert_eq!(again.as_ref().map(|again| again.header), Ok(datagram.header));
    assert_eq!(again.as_ref().map(|again| (again.protocol, again.payload)), Ok((datagram.protocol, datagram.payload)));
}

/// `data` as IPv6 in UDP over IPv6: unchanged, and without a UDP checksum.
fn encapsulated6(data: &[u8]) {
    let _ = (udp6::Encapsulated6::parse(data), udp6::destination_port(data));
    let mut bytes = data.to_vec();
    bytes.iter_mut().skip(ip6::HEADER_LENGTH + udp::CHECKSUM_AT).take(2).for_each(|octet| *octet = 0);
    let Ok(carried) = udp6::Encapsulated6::parse(&bytes) else { return };
    assert_eq!(udp6::Encapsulated6::parse(&carried.emit()), Ok(carried));
}

/// `data` as IPv6 in IPv4 encapsulation: unchanged, and with a correct IPv4 checksum and no UDP checksum.
pub fn ip4(data: &[u8]) {
    let _ = ip4::Encapsulated::parse(data);
    let mut bytes = data.to_vec();
    let words = usize::from(data.first().copied().unwrap_or_default() & 0xf);
    bytes.iter_mut().skip(10).take(2).for_each(|octet| *octet = 0);
    let sum = checksum::internet_checksum(bytes.get(..words * 4).unwrap_or_default());
    bytes.iter_mut().skip(10).zip(sum.to_be_bytes()).for_each(|(to, from)| *to = from);
    if data.get(9) == Some(&ip6::protocol::UDP) {
        bytes.iter_mut().skip(words * 4 + udp::CHECKSUM_AT).take(2).for_each(|octet| *octet = 0);
    }
    if let Ok((header, payload)) = ip4::Header::parse(&bytes) {
        assert_eq!(ip4::Header::parse(&header.emit(payload)), Ok((header, payload)));
        icmp4(payload);
    }
    let Ok(carried) = ip4::Encapsulated::parse(&bytes) else { return };
    assert_eq!(ip4::Encapsulated::parse(&carried.emit()), Ok(carried));
    for end in [carried.source, carried.destination] {
        assert_eq!(crate::Ipv4Endpoint::from_ipv6(end.to_ipv6()), Some(end));
    }
}

/// `data` as an ICMPv4 message, with a corrected checksum.
fn icmp4(data: &[u8]) {
    let mut message = data.to_vec();
    message.iter_mut().skip(2).take(2).for_each(|octet| *octet = 0);
    let sum = checksum::internet_checksum(&message);
    message.iter_mut().skip(2).zip(sum.to_be_bytes()).for_each(|(to, from)| *to = from);
    let Ok(parsed) = icmp4::Message::parse(&message) else { return };
    if let icmp4::Message::Error { invoking, .. } = &parsed {
        let _ = icmp4::QuotedPacket::parse(invoking);
    }
    assert_eq!(icmp4::Message::parse(&parsed.emit()), Ok(parsed));
}

/// `data` as an ICMPv6 message, with a corrected checksum so that the fuzzer gets past it.
pub fn icmp6(data: &[u8]) {
    let header = Header::new(SOURCE, DESTINATION).with_hop_limit(icmp6::ON_LINK_HOP_LIMIT);
    let message = with_checksum(data, 2, ip6::protocol::ICMPV6);
    let packet = ip6::emit(&header, ip6::protocol::ICMPV6, &message);
    let Ok(datagram) = Datagram::parse(&packet) else { return };
    let parsed = icmp6::Message::parse(&datagram);
    assert!(!matches!(parsed, Err(malformed) if malformed.why == Why::Checksum));
    let Ok(parsed) = parsed else { return };

    let emitted = parsed.emit(SOURCE, DESTINATION);
    let packet = ip6::emit(&header, ip6::protocol::ICMPV6, &emitted);
    let Ok(again) = Datagram::parse(&packet) else { return };
    assert_eq!(icmp6::Message::parse(&again), Ok(parsed.clone()));
    assert_eq!(parsed.check_on_link(&again), parsed.check_on_link(&datagram));
}

/// `data` as a Mobility Header, with a corrected checksum.
pub fn mobility(data: &[u8]) {
    let message = with_checksum(framed(data), 4, ip6::protocol::MOBILITY);
    let parsed = mobility::Message::parse(&message, SOURCE, DESTINATION);
    assert!(!matches!(parsed, Err(malformed) if malformed.why == Why::Checksum));
    let Ok(parsed) = parsed else { return };

    let emitted = parsed.emit(SOURCE, DESTINATION);
    assert_eq!(emitted.len() % 8, 0);
    let fits = message.len() <= MOBILITY_ROOM;
    if fits {
        assert_eq!(mobility::Message::parse(&emitted, SOURCE, DESTINATION), Ok(parsed.clone()));
    }
    if let Some((covered, at)) = mobility::authenticated_part(&emitted) {
        assert_eq!(covered.len(), at);
    }
    let signed = parsed.emit_authenticated(SOURCE, DESTINATION, 256, |covered| {
        assert!(covered.len() > 8);
        [0xa5; mobility::AUTHENTICATOR_LENGTH]
    });
    assert!(signed.len() <= mobility::MAX_LENGTH);
    if fits && parsed.options().len() < mobility::option::MAX_OPTIONS {
        assert!(mobility::Message::parse(&signed, SOURCE, DESTINATION).is_ok());
    }
}

/// `data` as a DHCPv6 message in a UDP datagram.
pub fn dhcp6(data: &[u8]) {
    let datagram = udp::Udp { source: dhcp6::SERVER_PORT, destination: dhcp6::CLIENT_PORT, payload: data };
    let emitted = datagram.emit(SOURCE, DESTINATION);
    if data.len() + udp::HEADER_LENGTH <= usize::from(u16::MAX) {
        assert_eq!(udp::Udp::parse(&emitted, SOURCE, DESTINATION), Ok(datagram));
    }
    // Also with the fuzzer's own length and checksum.
    let _ = udp::Udp::parse(data, SOURCE, DESTINATION);
    let Ok(parsed) = dhcp6::Message::parse(data) else { return };
    let emitted = parsed.emit();
    assert_eq!(emitted.len(), data.len());
    assert_eq!(dhcp6::Message::parse(&emitted), Ok(parsed));
}

/// `data` as a Shim6 header, with a corrected checksum.
pub fn shim6(data: &[u8]) {
    let _ = shim6::tag_of(data);
    if let Some(header) = shim6::PayloadHeader::parse(data) {
        assert_eq!(shim6::PayloadHeader::parse(&header.emit()), Some(header));
        assert_eq!(shim6::tag_of(data).is_some(), data.len() >= 12);
    }
    // Of an odd number of octets none is a whole message.
    let mut message = framed(data).to_vec();
    let sum = shim6_sum(&message);
    for (to, from) in message.iter_mut().skip(4).zip(sum.to_be_bytes()) {
        *to = from;
    }
    let parsed = shim6::Message::parse(&message);
    assert!(!matches!(parsed, Err(malformed) if malformed.why == Why::Checksum));
    let Ok(parsed) = parsed else { return };
    let emitted = parsed.emit();
    assert!(emitted.len() % 8 == 0 && emitted.len() <= shim6::MAX_LENGTH);
    // Preferences may become longer, and make no room for the last option then.
    if message.len() <= shim6::MAX_LENGTH / 2 {
        assert_eq!(shim6::Message::parse(&emitted), Ok(parsed.clone()));
        for option in parsed.options() {
            let at = shim6::option::find(&emitted, option.kind());
            assert!(parsed.kind() == shim6::kind::PROBE || at.is_some_and(|at| at % 8 == 0));
        }
    }
}

/// `data` as a GeoNetworking packet.
pub fn geo(data: &[u8]) {
    let Ok(parsed) = geo::Packet::parse(data) else { return };
    assert!(!geo::is_secured(data));
    let emitted = parsed.emit();
    assert_eq!(geo::Packet::parse(&emitted), Ok(parsed));
    if let Some(Ok(btp)) = geo::btp::Btp::parse(parsed.upper_protocol, parsed.payload) {
        assert_eq!(btp.emit(), parsed.payload);
    }
    if let Some(Ok((echo, _))) = geo::echo::Echo::of(&parsed) {
        assert_eq!(geo::echo::Echo::parse(&echo.emit()), Ok(echo));
    }
}

/// `data` as a certificate, if its first octet is that of one, or as a security envelope.
#[cfg(feature = "geo-security")]
pub fn security(data: &[u8]) {
    match data.first() {
        Some(0x80) => certificate(data),
        _ => signed_data(data),
    }
}

/// `data` as a security envelope: what its signature is about lies inside, and so does a certificate that it carries.
#[cfg(feature = "geo-security")]
pub fn signed_data(data: &[u8]) {
    use crate::security::SignedData;
    let _ = geo::SecuredPacket::parse(data);
    if let Ok(read) = SignedData::read(data) {
        check_signed(data, &read);
    }
}

/// `data` as a certificate revocation list, alone or in a security envelope: what is read is emitted and read again.
#[cfg(feature = "geo-security")]
pub fn revocation(data: &[u8]) {
    use crate::security::{RevocationList, SignedData, limits};
    let envelope = SignedData::read_list(data).ok();
    if let Some(read) = &envelope {
        assert!(read.length <= limits::LIST);
        check_signed(data, read);
    }
    let Ok(list) = RevocationList::parse(envelope.map_or(data, |read| read.payload)) else { return };
    assert!(list.entries.len() <= limits::REVOKED && list.this_update < list.next_update);
    assert_eq!(RevocationList::parse(&list.emit()), Ok(list));
}

/// `data` as a certificate trust list, alone or in a security envelope: what is read is emitted and read again.
#[cfg(feature = "geo-security")]
pub fn trust_list(data: &[u8]) {
    use crate::security::{SignedData, TrustList, limits};
    let envelope = SignedData::read_list(data).ok();
    if let Some(read) = &envelope {
        check_signed(data, read);
    }
    let Ok(list) = TrustList::parse(envelope.map_or(data, |read| read.payload)) else { return };
    assert!(list.entries.len() <= limits::TRUSTED);
    assert_eq!(TrustList::parse(&list.emit("http://[2001:db8::1]")), Ok(list));
}

/// `data` as a message between a station and an authority of a PKI, encrypted, signed or neither: what is read is emitted and read
/// again.
#[cfg(feature = "geo-security")]
pub fn provisioning(data: &[u8]) {
    use crate::security::{EncryptedData, EnrolmentRequest, ProvisioningMessage, SharedRequest, SignedData};
    if let Ok(encrypted) = EncryptedData::parse(data) {
        assert_eq!(encrypted.emit(), data);
        return;
    }
    if let Ok(external) = SignedData::read_external(data) {
        assert_eq!((external.length, external.payload.len()), (data.len(), 32));
        check_signed(data, &external);
    }
    if let Ok(shared) = SharedRequest::parse(data) {
        if !shared.attributes.has_others {
            assert_eq!(SharedRequest::parse(&shared.emit()), Ok(shared));
        }
        return;
    }
    let payload = SignedData::read_list(data).map_or(data, |read| read.payload);
    if let Ok(request) = EnrolmentRequest::parse(payload) {
        if !request.attributes.has_others {
            assert_eq!(EnrolmentRequest::parse(&request.emit()), Ok(request));
        }
        return;
    }
    let Ok(message) = ProvisioningMessage::parse(payload) else { return };
    assert_eq!(ProvisioningMessage::parse(&message.emit()), Ok(message.clone()));
    match message {
        ProvisioningMessage::EnrolmentRequest(inner) => {
            let inner = SignedData::read_list(inner);
            let _ = inner.map(|inner| EnrolmentRequest::parse(inner.payload).is_ok());
        }
        ProvisioningMessage::AuthorizationRequest(request) => {
            assert!(SharedRequest::parse(request.shared).is_ok() && request.keys.concatenated().len() >= 34);
        }
        ProvisioningMessage::EnrolmentResponse(response) | ProvisioningMessage::AuthorizationResponse(response) => {
            assert_eq!(response.certificate.is_some(), response.code == 0);
            if let Some(octets) = response.certificate {
                certificate(octets);
            }
        }
    }
}

#[cfg(feature = "geo-security")]
fn check_signed(data: &[u8], read: &crate::security::SignedData<'_>) {
    let signed = read.to_be_signed();
    assert!(read.length <= data.len() && data.windows(signed.len()).any(|part| part == signed));
    assert!(signed.windows(read.payload.len().max(1)).any(|part| part == read.payload) || read.payload.is_empty());
    let _ = (read.message(read.signer.certificate().as_ref()), read.header.requested_certificate());
    if let Some(octets) = read.signer.certificate().map(|certificate| certificate.octets()) {
        certificate(octets);
    }
}

/// `data` as a certificate: its canonical form is one too, with the same digest.
#[cfg(feature = "geo-security")]
pub fn certificate(data: &[u8]) {
    use crate::security::Certificate;
    let Ok(read) = Certificate::parse(data) else { return };
    assert_eq!(read.octets(), data);
    let canonical = read.canonical();
    let again = Certificate::parse(&canonical);
    assert_eq!(again.as_ref().map(Certificate::digest), Ok(read.digest()));
    assert_eq!(again.as_ref().map(Certificate::canonical), Ok(canonical.clone()));
    assert_eq!(again.map(|again| again.message(None)), Ok(read.message(None)));
}

/// `data` as an MNPP announcement, with a corrected checksum.
pub fn mnpp(data: &[u8]) {
    let mut message = data.to_vec();
    if let Some(kind) = message.first_mut() {
        *kind = mnpp::ICMP_TYPE;
    }
    for octet in message.iter_mut().skip(2).take(2) {
        *octet = 0;
    }
    let sum = crate::checksum::checksum(SOURCE, icmp6::ALL_ROUTERS, ip6::protocol::ICMPV6, &message);
    for (to, from) in message.iter_mut().skip(2).zip(sum.to_be_bytes()) {
        *to = from;
    }
    let Some(Ok(parsed)) = parse_at_router(&message) else { return };
    assert!(parsed.proof.is_none() || mnpp::Announcement::proved_part(&message).is_some());
    let unproved = mnpp::Announcement { proof: None, ..parsed.clone() };
    assert_eq!(parse_at_router(&unproved.emit(SOURCE)), Some(Ok(unproved)));
    if let Some(proof) = parsed.proof {
        let emitted = parsed.emit_proved(SOURCE, proof.spi, proof.unix_micros, |_| proof.code);
        assert_eq!(parse_at_router(&emitted), Some(Ok(parsed)));
    }
}

fn parse_at_router(message: &[u8]) -> Option<Result<mnpp::Announcement, crate::Malformed>> {
    let header = Header::new(SOURCE, icmp6::ALL_ROUTERS).with_hop_limit(icmp6::ON_LINK_HOP_LIMIT);
    let packet = ip6::emit(&header, ip6::protocol::ICMPV6, message);
    mnpp::Announcement::parse(&Datagram::parse(&packet).ok()?)
}

/// `data` as a message between relays.
pub fn relay(data: &[u8]) {
    let Ok(Some((message, length))) = relay::Message::parse(data) else { return };
    assert!(length <= data.len() && length <= relay::MAX_LENGTH);
    let octets = message.emit();
    assert_eq!(relay::Message::parse(&octets), Ok(Some((message, octets.len()))));
}

/// The checksum of a Shim6 header with its checksum field taken as zero.
fn shim6_sum(message: &[u8]) -> u16 {
    let word = |(index, pair): (usize, &[u8; 2])| if index == 2 { 0 } else { u32::from(u16::from_be_bytes(*pair)) };
    let mut sum: u32 = message.as_chunks::<2>().0.iter().enumerate().map(word).sum();
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    !(sum as u16)
}

/// The octets counted by Header Len, which the checksum covers, if all are present.
fn framed(data: &[u8]) -> &[u8] {
    let length = data.get(1).map_or(0, |units| (usize::from(*units) + 1) * 8);
    data.get(..length).unwrap_or(data)
}

fn with_checksum(data: &[u8], at: usize, protocol: u8) -> Vec<u8> {
    let mut message = data.to_vec();
    for octet in message.iter_mut().skip(at).take(2) {
        *octet = 0;
    }
    let sum = crate::checksum::checksum(SOURCE, DESTINATION, protocol, &message);
    for (to, from) in message.iter_mut().skip(at).zip(sum.to_be_bytes()) {
        *to = from;
    }
    message
}
