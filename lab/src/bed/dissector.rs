//! Verification of a capture by an independent dissector (tshark).

use anyhow::{Context, Result};
use serde_json::Value;
use std::net::Ipv6Addr;
use std::path::Path;
use std::process::Command;

/// The result.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Dissection {
    /// Frames in the capture.
    pub(crate) frames: usize,
    /// Mobility messages among them.
    pub(crate) mobility_messages: usize,
    /// Tunnelled packets among them.
    pub(crate) tunnelled: usize,
    /// One line for each malformed packet or wrong checksum.
    pub(crate) errors: Vec<String>,
}

/// Malformed, or with a wrong checksum. The quoted packet in an ICMPv6 error is truncated, so its inner checksums are
/// meaningless. A one's complement sum of 0xffff equals zero, and some kernels send it. tshark dissects Shim6 messages
/// from the wrong octet on, but verifies their checksum; it does not know the ULIDs of packets with a payload extension
/// header, so it cannot verify their upper-layer checksums, which the receiving kernel does.
const ERROR_FILTER: &str = "(_ws.malformed && !(shim6.p == 0)) || shim6.checksum.status == 0 || icmpv6.checksum.status == 0 || \
                   (!(icmpv6.type < 128) && !shim6 && ((tcp.checksum.status == 0 && tcp.checksum != 0xffff) || udp.checksum.status == 0))";

/// Dissects the capture at `path` with tshark, with checksum verification.
pub(crate) fn dissect(path: &Path) -> Result<Dissection> {
    let fields = ["-T", "fields", "-e", "frame.number", "-e", "frame.interface_name", "-e", "_ws.col.Info"];
    let lines = |filter| tshark(path, filter, &fields);
    let mut verdict = Dissection {
        frames: lines("frame")?.lines().count(),
        mobility_messages: 0,
        tunnelled: lines("ipv6.nxt == 41")?.lines().count(),
        errors: lines(ERROR_FILTER)?.lines().map(|line| format!("frame {line}")).collect(),
    };
    // tshark shows the checksum of a Mobility Header and does not verify it. Packets quoted in ICMPv6 errors may be
    // truncated.
    let packets: Value = serde_json::from_str(&tshark(path, "mipv6 && !icmpv6", &["-T", "json", "-x"])?)?;
    for packet in packets.as_array().into_iter().flatten() {
        verdict.mobility_messages += 1;
        if mobility_checksum(packet) != Some(0xffff) {
            let frame = packet.pointer("/_source/layers/frame/frame.number").cloned().unwrap_or_default();
            verdict.errors.push(format!("frame {frame} Mobility Header: bad checksum"));
        }
    }
    Ok(verdict)
}

/// Output of tshark for the packets that match `filter`.
pub(crate) fn tshark(path: &Path, filter: &str, output: &[&str]) -> Result<String> {
    let mut command = Command::new("tshark");
    command.arg("-n").arg("-r").arg(path).args(["-o", "tcp.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE"]);
    // The payload of the connections is random; reassembly could take it for another protocol.
    command.args(["-o", "tcp.desegment_tcp_streams:FALSE"]);
    crate::bed::host::run_command(command.args(["-Y", filter]).args(output)).context("cannot dissect the capture")
}

/// One's complement sum of a Mobility Header and its pseudo-header, which must be 0xffff (RFC 6275 §6.1.1); the home
/// address replaces the care-of address if a header carries it.
fn mobility_checksum(packet: &Value) -> Option<u16> {
    let bytes = roam6_proto::base::hex::decode(find_innermost(packet, "mipv6_raw")?.get(0)?.as_str()?)?;
    let address = |name| find_innermost(packet, name)?.as_str()?.parse::<Ipv6Addr>().ok();
    let source = address("ipv6.opt.mipv6.home_address").or_else(|| address("ipv6.src"))?;
    let destination = address("ipv6.routing.mipv6.home_address").or_else(|| address("ipv6.dst"))?;
    let (length, protocol) = (u32::try_from(bytes.len()).ok()?, 135_u32);
    let pseudo = [&source.octets()[..], &destination.octets(), &length.to_be_bytes(), &protocol.to_be_bytes()].concat();
    let words = pseudo.chunks(2).chain(bytes.chunks(2));
    let sum: u32 = words.map(|pair| pair.iter().fold(0, |word, byte| word << 8 | u32::from(*byte))).sum();
    u16::try_from((sum & 0xffff) + (sum >> 16)).ok()
}

/// The last value with this name: that of the innermost header.
fn find_innermost<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    match value {
        Value::Object(fields) => {
            fields.values().rev().find_map(|field| find_innermost(field, name)).or_else(|| fields.get(name))
        }
        Value::Array(items) => items.iter().rev().find_map(|item| find_innermost(item, name)),
        _ => None,
    }
}
