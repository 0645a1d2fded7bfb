//! The sequence numbers of a tunnel with replicated flows: `struct sequence_state`.

use crate::bpf::layout::layout;

/// Octets of the accepted numbers, one bit each.
const HISTORY: usize = 8192 / 8;

pub(crate) type SequenceValue = [u8; 24 + HISTORY];

/// The state of a tunnel that has sent and received none. It begins anywhere: after a restart of this host the other end
/// takes the numbers for new ones at once, and not for those of before.
pub(crate) fn initial(next: u32) -> SequenceValue {
    layout(|out| {
        // The lock.
        out.extend([0; 4]);
        out.extend(next.to_ne_bytes());
    })
}
