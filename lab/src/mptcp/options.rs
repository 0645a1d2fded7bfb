//! Counts of MPTCP options in a capture, by an independent dissector (RFC 8684 §3).

use crate::bed::dissector;
use anyhow::Result;
use serde_json::{Value, json};
use std::path::Path;

/// How often each option occurs.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MptcpOptionCounts {
    /// MP_CAPABLE: connection set-up.
    pub(crate) capable: usize,
    /// MP_JOIN: a subflow is added.
    pub(crate) join: usize,
    /// ADD_ADDR: an address is announced.
    pub(crate) add_addr: usize,
    /// REMOVE_ADDR: an address is withdrawn.
    pub(crate) remove_addr: usize,
    /// MP_PRIO: a subflow's backup flag changes.
    pub(crate) prio: usize,
    /// MP_FAIL: a middlebox has modified data.
    pub(crate) fail: usize,
}

impl MptcpOptionCounts {
    /// Counts the options sent by these `interfaces`, named as in the capture.
    pub(crate) fn count(capture: &Path, interfaces: &[&str]) -> Result<MptcpOptionCounts> {
        let sent: Vec<String> = interfaces.iter().map(|name| format!("frame.interface_name == \"{name}\"")).collect();
        let filter = format!("({}) && tcp.options.mptcp.subtype && !icmpv6", sent.join(" || "));
        let text = dissector::tshark(capture, &filter, &["-T", "fields", "-e", "tcp.options.mptcp.subtype"])?;
        let mut options = MptcpOptionCounts::default();
        for subtype in text.split_whitespace().flat_map(|line| line.split(',')) {
            match subtype {
                "0" => options.capable += 1,
                "1" => options.join += 1,
                "3" => options.add_addr += 1,
                "4" => options.remove_addr += 1,
                "5" => options.prio += 1,
                "6" => options.fail += 1,
                _ => {}
            }
        }
        Ok(options)
    }

    /// As part of a result.
    pub(crate) fn row(self) -> Value {
        json!({
            "mp_capable": self.capable, "mp_join": self.join, "add_addr": self.add_addr,
            "remove_addr": self.remove_addr, "mp_prio": self.prio, "mp_fail": self.fail,
        })
    }
}
