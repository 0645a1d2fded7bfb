//! Messages to the kernel (rtnetlink(7)).

use netlink_packet_core::Emitable;

/// A message to the kernel.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    /// Its type, `RTM_*`.
    pub(super) kind: u16,
    pub(super) body: Vec<u8>,
}

impl Message {
    /// A message of the type `kind` (`RTM_*`).
    pub(crate) fn new(kind: u16, body: &impl Emitable) -> Message {
        let mut octets = vec![0; body.buffer_len()];
        body.emit(&mut octets);
        Message { kind, body: octets }
    }
}
