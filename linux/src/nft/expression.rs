//! Expressions of nftables rules, as the kernel encodes them (linux/netfilter/nf_tables.h): matches and verdicts.

use super::attribute::*;
use roam6_proto::LinkId;
use roam6_wire::Prefix;
use roam6_wire::ip6::protocol;

/// The register of all expressions.
const REGISTER: u32 = 1;
/// The register of the verdict (NFT_REG_VERDICT).
const VERDICT_REGISTER: u32 = 0;

/// Loads the upper-layer protocol, behind all extension headers.
pub(crate) fn load_protocol() -> Vec<u8> {
    meta(libc::NFT_META_L4PROTO)
}

/// Loads the ICMPv6 type.
pub(crate) fn load_icmp_type() -> Vec<u8> {
    payload(libc::NFT_PAYLOAD_TRANSPORT_HEADER, 0, 1)
}

/// Loads 1 if the packet has an extension header of this type, else 0.
pub(crate) fn load_presence(header: u8) -> Vec<u8> {
    const NFT_EXTHDR_F_PRESENT: u32 = 1;
    let presence = number(NFTA_EXTHDR_FLAGS, NFT_EXTHDR_F_PRESENT);
    expression("exthdr", &[extension_header(header, 0), presence])
}

/// Loads the type of the routing header; a packet without one does not match.
pub(crate) fn load_routing_type() -> Vec<u8> {
    const TYPE_OFFSET: u32 = 2;
    expression("exthdr", &[extension_header(protocol::ROUTING, TYPE_OFFSET)])
}

/// Matches a loaded octet.
pub(crate) fn equal(value: u8) -> Vec<u8> {
    equal_to(&[value])
}

fn equal_to(value: &[u8]) -> Vec<u8> {
    let operation = number(NFTA_CMP_OP, libc::NFT_CMP_EQ.cast_unsigned());
    expression("cmp", &[number(NFTA_CMP_SREG, REGISTER), operation, data(NFTA_CMP_DATA, value)])
}

/// Matches a loaded octet within these bounds.
pub(crate) fn between([first, last]: [u8; 2]) -> Vec<u8> {
    const NFT_RANGE_EQ: u32 = 0;
    let range = [number(NFTA_RANGE_SREG, REGISTER), number(NFTA_RANGE_OP, NFT_RANGE_EQ)];
    let bounds = [data(NFTA_RANGE_FROM_DATA, &[first]), data(NFTA_RANGE_TO_DATA, &[last])];
    expression("range", &[range.concat(), bounds.concat()])
}

/// Matches packets received on this interface.
pub(crate) fn from_link(link: LinkId) -> [Vec<u8>; 2] {
    [meta(libc::NFT_META_IIF), equal_to(&link.0.to_ne_bytes())]
}

/// Matches packets with a source in `prefix`.
pub(crate) fn from_source(prefix: Prefix) -> [Vec<u8>; 3] {
    const SOURCE_OFFSET: u32 = 8;
    address_in(SOURCE_OFFSET, prefix)
}

/// Matches packets with a destination in `prefix`.
pub(crate) fn to_destination(prefix: Prefix) -> [Vec<u8>; 3] {
    const DESTINATION_OFFSET: u32 = 24;
    address_in(DESTINATION_OFFSET, prefix)
}

fn address_in(offset: u32, prefix: Prefix) -> [Vec<u8>; 3] {
    const ADDRESS_LENGTH: u32 = 16;
    let mask = u128::MAX.checked_shl(128 - u32::from(prefix.length())).unwrap_or(0);
    let registers = [
        number(NFTA_BITWISE_SREG, REGISTER),
        number(NFTA_BITWISE_DREG, REGISTER),
        number(NFTA_BITWISE_LEN, ADDRESS_LENGTH),
    ];
    let operands = [data(NFTA_BITWISE_MASK, &mask.to_be_bytes()), data(NFTA_BITWISE_XOR, &0_u128.to_be_bytes())];
    [
        payload(libc::NFT_PAYLOAD_NETWORK_HEADER, offset, ADDRESS_LENGTH),
        expression("bitwise", &[registers.concat(), operands.concat()]),
        equal_to(&prefix.address().octets()),
    ]
}

/// Drops the packet and sends Destination Unreachable of this code.
pub(crate) fn reject_unreachable(code: u8) -> Vec<u8> {
    let kind = number(NFTA_REJECT_TYPE, libc::NFT_REJECT_ICMP_UNREACH.cast_unsigned());
    expression("reject", &[kind, attribute(NFTA_REJECT_ICMP_CODE, &[code])])
}

/// Accepts the packet.
pub(crate) fn accept() -> Vec<u8> {
    verdict(libc::NF_ACCEPT)
}

/// Drops the packet silently.
pub(crate) fn drop_packet() -> Vec<u8> {
    verdict(libc::NF_DROP)
}

fn verdict(code: i32) -> Vec<u8> {
    let verdict = nested(NFTA_DATA_VERDICT, &[number(NFTA_VERDICT_CODE, code.cast_unsigned())]);
    let register = number(NFTA_IMMEDIATE_DREG, VERDICT_REGISTER);
    expression("immediate", &[register, nested(NFTA_IMMEDIATE_DATA, &[verdict])])
}

fn meta(key: libc::c_int) -> Vec<u8> {
    expression("meta", &[number(NFTA_META_DREG, REGISTER), number(NFTA_META_KEY, key.cast_unsigned())])
}

fn payload(base: libc::c_int, offset: u32, length: u32) -> Vec<u8> {
    let place = [
        number(NFTA_PAYLOAD_DREG, REGISTER),
        number(NFTA_PAYLOAD_BASE, base.cast_unsigned()),
        number(NFTA_PAYLOAD_OFFSET, offset),
        number(NFTA_PAYLOAD_LEN, length),
    ];
    expression("payload", &place)
}

/// The attributes of an octet of an extension header.
fn extension_header(header: u8, offset: u32) -> Vec<u8> {
    [
        number(NFTA_EXTHDR_DREG, REGISTER),
        attribute(NFTA_EXTHDR_TYPE, &[header]),
        number(NFTA_EXTHDR_OFFSET, offset),
        number(NFTA_EXTHDR_LEN, 1),
    ]
    .concat()
}

fn data(kind: u16, value: &[u8]) -> Vec<u8> {
    nested(kind, &[attribute(NFTA_DATA_VALUE, value)])
}

fn expression(name: &str, parts: &[Vec<u8>]) -> Vec<u8> {
    nested(NFTA_LIST_ELEM, &[text(NFTA_EXPR_NAME, name), nested(NFTA_EXPR_DATA, parts)])
}
