//! Expressions of nftables rules, as the kernel encodes them (linux/netfilter/nf_tables.h): matches and verdicts.

use roam6_proto::LinkId;
use roam6_wire::Prefix;

const NESTED: u16 = 0x8000;
const ROUTING: u8 = 43;

/// Loads the upper-layer protocol, behind all extension headers.
pub(crate) fn load_protocol() -> Vec<u8> {
    expression("meta", &[number(1, REGISTER), number(2, libc::NFT_META_L4PROTO.cast_unsigned())])
}

pub(crate) fn load_icmp_type() -> Vec<u8> {
    const TRANSPORT: u32 = 2;
    expression("payload", &[number(1, REGISTER), number(2, TRANSPORT), number(3, 0), number(4, 1)])
}

/// 1 if the packet has an extension header of this type, else 0.
pub(crate) fn load_presence(header: u8) -> Vec<u8> {
    const PRESENT: u32 = 1;
    let place = [attribute(2, &[header]), number(3, 0), number(4, 1), number(5, PRESENT)];
    expression("exthdr", &[number(1, REGISTER), place.concat()])
}

/// Loads the type of the routing header; a packet without one does not match.
pub(crate) fn load_routing_type() -> Vec<u8> {
    expression("exthdr", &[number(1, REGISTER), attribute(2, &[ROUTING]), number(3, 2), number(4, 1)])
}

pub(crate) fn equal(value: u8) -> Vec<u8> {
    equal_to(&[value])
}

fn equal_to(value: &[u8]) -> Vec<u8> {
    expression("cmp", &[number(1, REGISTER), number(2, 0), group(3, &[attribute(1, value)])])
}

pub(crate) fn between([first, last]: [u8; 2]) -> Vec<u8> {
    let ends = [group(3, &[attribute(1, &[first])]), group(4, &[attribute(1, &[last])])];
    expression("range", &[number(1, REGISTER), number(2, 0), ends.concat()])
}

/// Matches packets received on this interface.
pub(crate) fn from_link(link: LinkId) -> [Vec<u8>; 2] {
    let load = expression("meta", &[number(1, REGISTER), number(2, libc::NFT_META_IIF.cast_unsigned())]);
    [load, equal_to(&link.0.to_ne_bytes())]
}

/// Matches packets with a source in `prefix`.
pub(crate) fn from_source(prefix: Prefix) -> [Vec<u8>; 3] {
    const SOURCE_AT: u32 = 8;
    address_in(SOURCE_AT, prefix)
}

/// Matches packets with a destination in `prefix`.
pub(crate) fn to_destination(prefix: Prefix) -> [Vec<u8>; 3] {
    const DESTINATION_AT: u32 = 24;
    address_in(DESTINATION_AT, prefix)
}

fn address_in(offset: u32, prefix: Prefix) -> [Vec<u8>; 3] {
    const NETWORK: u32 = 1;
    let mask = u128::MAX.checked_shl(128 - u32::from(prefix.length())).unwrap_or(0);
    let place = [number(2, NETWORK), number(3, offset), number(4, 16)];
    let bits = |kind, bits: u128| group(kind, &[attribute(1, &bits.to_be_bytes())]);
    let registers = [number(1, REGISTER), number(2, REGISTER), number(3, 16)];
    [
        expression("payload", &[number(1, REGISTER), place.concat()]),
        expression("bitwise", &[registers.concat(), bits(4, mask), bits(5, 0)]),
        equal_to(&prefix.address().octets()),
    ]
}

/// Drops the packet and sends Destination Unreachable of this code.
pub(crate) fn reject_unreachable(code: u8) -> Vec<u8> {
    const ICMP_UNREACHABLE: u32 = 0;
    expression("reject", &[number(1, ICMP_UNREACHABLE), attribute(2, &[code])])
}

/// Accepts the packet.
pub(crate) fn accept() -> Vec<u8> {
    verdict(libc::NF_ACCEPT)
}

pub(crate) fn drop_packet() -> Vec<u8> {
    verdict(libc::NF_DROP)
}

fn verdict(verdict: i32) -> Vec<u8> {
    let verdict = group(2, &[number(1, verdict.cast_unsigned())]);
    expression("immediate", &[number(1, 0), group(2, &[verdict])])
}

const REGISTER: u32 = 1;

fn expression(name: &str, parts: &[Vec<u8>]) -> Vec<u8> {
    group(1, &[text(1, name), group(2, parts)])
}

pub(super) fn group(kind: u16, parts: &[Vec<u8>]) -> Vec<u8> {
    attribute(kind | NESTED, &parts.concat())
}

pub(super) fn text(kind: u16, value: &str) -> Vec<u8> {
    attribute(kind, &[value.as_bytes(), &[0]].concat())
}

pub(super) fn number(kind: u16, value: u32) -> Vec<u8> {
    attribute(kind, &value.to_be_bytes())
}

pub(super) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::from((4 + value.len() as u16).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}
