//! Room for what arrives out of order. What a path that died still carried leaves a hole; what the other paths bring
//! meanwhile is held back until the hole is filled, and what fills it comes behind all that. The kernel counts held data
//! with its overhead, several times its size if an application writes little at once. When the count passes the socket's
//! receive buffer nothing is taken any more, what fills the hole neither, and the connection stands still for ever (seen
//! with Linux 6.18: 64 kB of small segments are enough for the default of 128 KiB).

use crate::error::{Context, Error};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

/// The size a receive buffer should begin with, octets: the data of a second fits, with its overhead.
pub const MIN_RECEIVE_BUFFER: u64 = 1 << 20;
const FILE: &str = "/proc/sys/net/ipv4/tcp_rmem";

/// The least, the first and the largest size of a TCP socket's receive buffer, octets. IPv6 and MPTCP use them too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Buffers([u64; 3]);

impl Buffers {
    /// As the kernel has them.
    pub(super) fn read() -> Result<Buffers, Error> {
        let text = fs::read_to_string(FILE).context(FILE)?;
        let sizes: Option<Vec<u64>> = text.split_whitespace().map(|word| word.parse().ok()).collect();
        let sizes = sizes.and_then(|sizes| sizes.try_into().ok());
        sizes.map(Buffers).ok_or_else(|| Error::new(FILE, format!("three sizes expected, not {text:?}")))
    }

    /// What a socket begins with, octets.
    pub(super) fn initial(self) -> u64 {
        self.0[1]
    }

    /// These, or larger ones.
    pub(super) fn enlarged(self) -> Buffers {
        let Buffers([least, first, largest]) = self;
        Buffers([least, first.max(MIN_RECEIVE_BUFFER), largest.max(MIN_RECEIVE_BUFFER)])
    }

    /// Gives them to the kernel, for sockets yet to come.
    pub(super) fn write(self) -> Result<(), Error> {
        let Buffers([least, first, largest]) = self;
        fs::write(Path::new(FILE), format!("{least} {first} {largest}")).context(FILE)
    }
}
