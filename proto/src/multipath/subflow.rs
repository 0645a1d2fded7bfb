//! What the kernel tells of connections and their subflows (RFC 8684).

use crate::input::{SubflowChange, SubflowEvent};
use crate::report::Report;

/// The same, told to the world.
pub(super) fn report(event: &SubflowEvent) -> Report {
    let SubflowEvent { token, change, local, remote, backup, error } = *event;
    match change {
        SubflowChange::Connected => Report::SubflowUp { token, local, remote, backup, first: true },
        SubflowChange::Opened => Report::SubflowUp { token, local, remote, backup, first: false },
        SubflowChange::Changed => Report::SubflowChanged { token, local, remote, backup },
        SubflowChange::Closed => Report::SubflowDown { token, local, remote, error },
        SubflowChange::Disconnected => Report::Disconnected { token },
    }
}
