//! Counts of MPTCP options in a capture, by an independent dissector (RFC 8684 §3).

use crate::bed::dissector;
use anyhow::Result;
use std::collections::BTreeMap;
use std::path::Path;

/// Subtypes and names of the counted options: connection set-up, a subflow added, an address announced, an address
/// withdrawn, a changed backup flag, data modified by a middlebox.
const OPTIONS: [(&str, &str); 6] = [
    ("0", "mp_capable"),
    ("1", "mp_join"),
    ("3", "add_addr"),
    ("4", "remove_addr"),
    ("5", "mp_prio"),
    ("6", "mp_fail"),
];

/// How often each option occurs, by name.
pub(crate) type OptionCounts = BTreeMap<&'static str, usize>;

/// Counts the options sent by these `interfaces`, named as in the capture.
pub(crate) fn count(capture: &Path, interfaces: &[&str]) -> Result<OptionCounts> {
    let sent: Vec<String> = interfaces.iter().map(|name| format!("frame.interface_name == \"{name}\"")).collect();
    let filter = format!("({}) && tcp.options.mptcp.subtype && !icmpv6", sent.join(" || "));
    let text = dissector::tshark(capture, &filter, &["-T", "fields", "-e", "tcp.options.mptcp.subtype"])?;
    let subtypes: Vec<&str> = text.split_whitespace().flat_map(|line| line.split(',')).collect();
    let count = |subtype: &str| subtypes.iter().filter(|one| **one == subtype).count();
    Ok(OPTIONS.into_iter().map(|(subtype, name)| (name, count(subtype))).collect())
}
