//! A packet in one line, for people who read logs and case files.

use crate::datagram::{self, Header, ICMPV6, IPV6, UDP};

/// What `bytes` is, from whom and to whom.
pub fn packet(bytes: &[u8]) -> String {
    let Some(header) = Header::parse(bytes) else { return format!("{} octets that are no packet", bytes.len()) };
    let what = match datagram::upper(bytes) {
        Some((IPV6, inner)) => format!("[{}]", packet(inner)),
        Some((UDP, [.., number])) => format!("data ..{number}"),
        Some((ICMPV6, [kind, ..])) => format!("ICMPv6 {kind}"),
        Some((protocol, rest)) => format!("protocol {protocol}, {} octets", rest.len()),
        None => "nothing".to_owned(),
    };
    format!("{what} {} -> {}", header.source, header.destination)
}
