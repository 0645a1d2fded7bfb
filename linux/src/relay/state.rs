//! The state of the process: one JSON document to each client of its Unix socket.

use crate::error::{Context, Error};
use crate::sys::SOCKET_FLAGS;
use roam6_proto::relay::Counters;
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};
use std::net::SocketAddrV6;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Readers served at once; others are refused.
const MAX_READERS: usize = 4;
/// How long a reader may take.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// The state of a relay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelayState {
    /// What has happened since it started.
    pub counters: Counters,
    /// Bearers that wait for a connection.
    pub idle_bearers: usize,
    /// SYNs that are held.
    #[serde(default)]
    pub held_syns: usize,
    /// Octets moved from all plain connections since it started.
    #[serde(default)]
    pub octets_out: u64,
    /// Octets moved to them.
    #[serde(default)]
    pub octets_in: u64,
    /// The relayed connections.
    pub flows: Vec<FlowState>,
}

/// A relayed connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowState {
    /// The end point that is reached by plain TCP.
    pub peer: SocketAddrV6,
    /// The end point at the other relay.
    pub far: SocketAddrV6,
    /// The local end of its MPTCP connection.
    pub bearer_local: SocketAddrV6,
    /// The remote end.
    pub bearer_remote: SocketAddrV6,
    /// Octets moved from the plain connection.
    pub octets_out: u64,
    /// Octets moved to it.
    pub octets_in: u64,
    /// Seconds since it was accepted.
    pub age_seconds: u64,
}

impl RelayState {
    /// Asks the process, which may take `timeout` before each piece of its answer; `None` if none runs.
    ///
    /// # Errors
    /// The process does not answer.
    pub fn read(socket: &Path, timeout: Duration) -> Result<Option<RelayState>, Error> {
        let Ok(mut stream) = connect(socket) else { return Ok(None) };
        let what = format!("relay at {}", socket.display());
        stream.set_read_timeout(Some(timeout)).context(&what)?;
        let mut text = String::new();
        stream.read_to_string(&mut text).context(&what)?;
        serde_json::from_str(&text).map(Some).map_err(|error| Error::new(what, error))
    }
}

/// Connects without waiting: the queue of a stopped process may be full.
fn connect(path: &Path) -> nix::Result<UnixStream> {
    use nix::sys::socket::{AddressFamily, SockType, UnixAddr, connect, socket};
    let stream = socket(AddressFamily::Unix, SockType::Stream, SOCKET_FLAGS, None)?;
    connect(stream.as_raw_fd(), &UnixAddr::new(path)?)?;
    let stream = UnixStream::from(stream);
    stream.set_nonblocking(false).map_err(|_| nix::errno::Errno::EIO)?;
    Ok(stream)
}

/// The socket.
pub(super) struct StateServer {
    listener: UnixListener,
    readers: Arc<AtomicUsize>,
}

crate::sys::impl_as_fd!(StateServer, listener);

impl StateServer {
    /// Opens the socket, which only its owner may use.
    pub(super) fn open(path: &Path) -> Result<StateServer, Error> {
        let what = format!("relay socket {}", path.display());
        let _ = std::fs::remove_file(path);
        let listener = UnixListener::bind(path).context(&what)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).context(&what)?;
        listener.set_nonblocking(true).context(&what)?;
        Ok(StateServer { listener, readers: Arc::default() })
    }

    /// Answers those who wait, each on a thread of its own: a slow reader delays no connection.
    pub(super) fn serve(&self, state: impl Fn() -> RelayState) {
        while let Ok((mut stream, _)) = self.listener.accept() {
            if self.readers.fetch_add(1, Ordering::Relaxed) >= MAX_READERS {
                self.readers.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            let (state, readers) = (state(), self.readers.clone());
            let writer = std::thread::Builder::new().name("relay state".to_owned());
            let started = writer.spawn(move || {
                let _ = stream.set_write_timeout(Some(WRITE_TIMEOUT));
                let _ = stream.write_all(serde_json::to_string(&state).unwrap_or_default().as_bytes());
                readers.fetch_sub(1, Ordering::Relaxed);
            });
            if started.is_err() {
                self.readers.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}
