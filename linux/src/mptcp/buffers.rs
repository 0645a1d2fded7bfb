//! Receive buffers for reordered data. Data that was in flight on a path that failed leaves a gap; what other paths
//! deliver meanwhile is queued until the gap is filled, and the retransmission comes after all that. The kernel counts
//! queued data with its overhead, several times its size if an application writes little at once. When the count
//! exceeds the socket's receive buffer nothing is accepted any more, not even the retransmission, and the connection
//! stalls for ever (seen with Linux 6.18: 64 kB of small segments are enough for the default of 128 KiB).

use crate::error::{Context, Error};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

/// The least initial receive buffer, octets: room for the data of a second, with its overhead.
pub const MIN_RECEIVE_BUFFER: u64 = 1 << 20;
const FILE: &str = "/proc/sys/net/ipv4/tcp_rmem";

/// Minimum, initial and maximum size of a TCP socket's receive buffer, octets. IPv6 and MPTCP use them too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Buffers([u64; 3]);

impl Buffers {
    /// Reads the kernel's values.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) fn read() -> Result<Buffers, Error> {
        let text = fs::read_to_string(FILE).context(FILE)?;
        let sizes: Option<Vec<u64>> = text.split_whitespace().map(|word| word.parse().ok()).collect();
        let sizes = sizes.and_then(|sizes| sizes.try_into().ok());
        sizes.map(Buffers).ok_or_else(|| Error::new(FILE, format!("three sizes expected, not {text:?}")))
    }

    /// The initial size, octets.
    pub(super) fn initial(self) -> u64 {
        self.0[1]
    }

    /// These values, raised to [`MIN_RECEIVE_BUFFER`].
    pub(super) fn enlarged(self) -> Buffers {
        let Buffers([least, first, largest]) = self;
        Buffers([least, first.max(MIN_RECEIVE_BUFFER), largest.max(MIN_RECEIVE_BUFFER)])
    }

    /// Sets them, for sockets opened later.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn write(self) -> Result<(), Error> {
        let Buffers([least, first, largest]) = self;
        fs::write(Path::new(FILE), format!("{least} {first} {largest}")).context(FILE)
    }
}
