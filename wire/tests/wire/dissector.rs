//! Cross-check by tshark: it must find no malformed packet and no wrong checksum in what is emitted.
//! It does not verify the checksum of a Mobility Header; the golden octets do.

use crate::samples::packets;
use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// Link types of capture files: Ethernet frames, and IP packets without any.
pub(crate) const ETHERNET: u32 = 1;
const RAW: u32 = 101;
/// Expert severities above this one are warnings and errors; notes only say that there is no dissector.
const NOTE: u32 = 0x40_0000;
/// Status of a verified checksum.
const GOOD: &str = "1";

#[test]
fn tshark_has_no_complaint() {
    let packets = packets();
    let fields = [
        "frame.number",
        "frame.protocols",
        "_ws.malformed",
        "icmpv6.checksum.status",
        "udp.checksum.status",
        "_ws.expert.severity",
    ];
    let Some(text) = fields_of(&packets, &fields) else { return };
    assert_eq!(text.lines().count(), packets.len());
    for line in text.lines() {
        let fields: Vec<&str> = line.split('|').collect();
        let [_, protocols, malformed, icmp, udp, severities] = fields[..] else { panic!("{line}") };
        assert_eq!(malformed, "", "{line}");
        let checksum = if protocols.contains("udp") { udp } else { icmp };
        assert!(protocols.contains("mipv6") || checksum.split(',').all(|status| status == GOOD), "{line}");
        assert_eq!(protocols.contains("udp"), protocols.contains("dhcpv6"), "{line}");
        let severities = severities.split(',').filter(|text| !text.is_empty());
        assert!(severities.map(|text| text.parse::<u32>().unwrap()).all(|severity| severity <= NOTE), "{line}");
    }
}

/// The values of these fields in each packet by tshark, one line each, separated by `|`; `None` with a notice without
/// tshark.
pub(crate) fn fields_of(packets: &[Vec<u8>], fields: &[&str]) -> Option<String> {
    fields_of_link(RAW, packets, fields)
}

/// As above, for frames of any link type.
pub(crate) fn fields_of_link(link: u32, packets: &[Vec<u8>], fields: &[&str]) -> Option<String> {
    static FILES: AtomicU32 = AtomicU32::new(0);
    let number = FILES.fetch_add(1, Ordering::Relaxed);
    let file = std::env::temp_dir().join(format!("roam6-wire-{}-{number}.pcap", std::process::id()));
    fs::write(&file, capture(link, packets)).unwrap();
    let output = Command::new("tshark")
        .args(["-T", "fields", "-E", "separator=|", "-o", "udp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE"])
        // The port of RFC 5555 is known to it by name only.
        .args(["-d", "udp.port==4191,ipv6", "-r"])
        .arg(&file)
        .args(fields.iter().flat_map(|field| ["-e", field]))
        .output();
    fs::remove_file(&file).unwrap();
    match output {
        Ok(output) => Some(String::from_utf8_lossy(&output.stdout).into_owned()),
        Err(error) => {
            println!("skipped: another decoder's opinion: tshark: {error}");
            None
        }
    }
}

/// A capture file: magic and version, then each packet with its lengths.
fn capture(link: u32, packets: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4u32, 0x0002_0004, 0, 0, 65535, link] {
        file.extend(word.to_be_bytes());
    }
    for packet in packets {
        let length = packet.len() as u32;
        for word in [0, 0, length, length] {
            file.extend(word.to_be_bytes());
        }
        file.extend(packet);
    }
    file
}
