//! The client of the store of a fleet of home agents, etcd, in a thread of its own. The event loop passes writes to the thread
//! and takes events from a queue with a descriptor; it never waits for the store.
//!
//! Every write is a compare-and-set: it takes effect only if its key is still at the revision that the writer has seen. Writes
//! that wait when a transaction completes form the next transaction; there is no timer. One watch of all keys of the fleet
//! delivers the writes of other members; it resumes at the last revision received, or begins with a snapshot. A copy of the
//! store on this member's disk survives restarts.

#![allow(clippy::disallowed_methods, reason = "the thread waits for the store in real time")]

mod admin;
mod batch;
mod connection;
mod copy;
mod encryption;
mod fault;
mod format;
mod node;
mod presence;
mod queue;
mod restore;
mod thread;
pub(crate) mod value;
mod watcher;
mod writer;

pub use admin::{Admin, SharedTable};
pub use copy::file as copy_file;
pub use restore::restore;

use crate::error::{Context, Error};
use core::time::Duration;
use nix::ifaddrs::getifaddrs;
use queue::{Queue, Sink};
use roam6_proto::base::ids::PutId;
use roam6_proto::contract::fleet::StoreFault;
use roam6_proto::contract::item::fleet::MAX_VALUE;
use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use tokio::sync::mpsc;

/// Maximum of writes without an answer; more are refused.
const MAX_UNDER_WAY: usize = 4096;
/// Maximum of addresses that a member publishes of itself.
const MAX_ADDRESSES: usize = 4;
/// Maximum of claims and releases of one write.
pub const MAX_CLAIMS: usize = 32;

/// The store and this member of the fleet.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// Name of the fleet: letters a to z, digits and hyphens.
    pub fleet: String,
    /// Name of this member, of the same characters.
    pub member: String,
    /// URLs of the store's nodes; the first that answers is used.
    pub endpoints: Vec<String>,
    /// User and password.
    pub credentials: Option<(String, String)>,
    /// What all members of the fleet have in common, as text: another text in the store means another fleet.
    pub identity: String,
    /// The fingerprint of the WireGuard keys that all members have; `None`: paths are not encrypted.
    pub encryption: Option<String>,
    /// The file of this member's copy of the store, from which it resumes; without one a snapshot comes first.
    pub copy: Option<PathBuf>,
}

/// A member of a fleet, as its host needs to know it.
#[derive(Debug, Clone)]
pub struct FleetOptions {
    /// Where the store is.
    pub store: StoreOptions,
    /// Version of this program, for the other members.
    pub version: String,
    /// Addresses of this machine, for the operator.
    pub addresses: Vec<Ipv6Addr>,
}

/// Addresses of this machine by which others reach it, without the one that all members have.
pub fn own_addresses(shared: Ipv6Addr) -> Vec<Ipv6Addr> {
    let Ok(interfaces) = getifaddrs() else { return Vec::new() };
    let all = interfaces.filter_map(|interface| Some(interface.address?.as_sockaddr_in6()?.ip()));
    let reachable = |address: &Ipv6Addr| !address.is_loopback() && !address.is_unicast_link_local();
    let mut addresses: Vec<_> = all.filter(|address| reachable(address) && *address != shared).collect();
    addresses.sort();
    addresses.dedup();
    addresses.truncate(MAX_ADDRESSES);
    addresses
}

/// The prefix of the keys of a fleet.
fn prefix_of(fleet: &str) -> String {
    format!("/roam6/{fleet}/")
}

/// A place in the history of one store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// A random number of the store's, made with the first key of the fleet.
    pub store: u64,
    /// A revision.
    pub revision: u64,
}

/// A conditional write of one key. Keys are relative to the prefix of the fleet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// Returned in its answer.
    pub id: PutId,
    /// The key.
    pub key: String,
    /// Its value; `None`: the key is deleted. No two writes have the same value: by it a write is recognised whose answer
    /// was lost.
    pub value: Option<Vec<u8>>,
    /// The revision of its last change must be this; 0: it must be absent.
    pub expected: u64,
    /// Keys that must be absent, or have this value already, and then have it.
    pub claims: Vec<(String, Vec<u8>)>,
    /// Keys that are deleted with it.
    pub releases: Vec<String>,
}

/// The answer to a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    /// A quorum has it, in this revision.
    Kept(u64),
    /// The key is at another revision.
    Conflict(Stored),
    /// A claimed key belongs to another.
    Claimed(Stored),
    /// It may have taken effect, or may still.
    Unknown(String),
    /// It has not taken effect.
    Refused(String),
}

/// A key as the store has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// The key, relative to the prefix of the fleet.
    pub key: String,
    /// Its value; `None`: it is absent.
    pub value: Option<Vec<u8>>,
    /// The revision of its last change; of a key that is found absent, that of the store.
    pub revision: u64,
}

/// An event of the thread for the event loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreEvent {
    /// A connection is established, and the store is that of this fleet.
    Connected {
        /// The node.
        endpoint: String,
        /// See [`Mark::store`].
        store: u64,
        /// The last revision of the store.
        head: u64,
    },
    /// The connection is lost, and why.
    Disconnected(String),
    /// The content of the copy was delivered, because the store does not answer.
    Copied,
    /// A fault that the operator must correct; not the same one twice in succession.
    Fault(StoreFault),
    /// The answer to a write. The answers to the writes of one key keep their order.
    Written {
        /// The key.
        key: String,
        /// See [`Write::id`].
        id: PutId,
        /// The answer.
        written: Written,
    },
    /// A snapshot begins: what it does not name is gone.
    SnapshotBegins {
        /// Its revision.
        head: u64,
    },
    /// A key of the snapshot, or one that was changed since.
    Changed(Stored),
    /// The snapshot is complete.
    SnapshotEnds {
        /// Its revision.
        head: u64,
    },
    /// All changes up to this revision have been delivered.
    Head {
        /// The revision.
        revision: u64,
        /// A write of this member's own key was among them: the time since it was sent.
        heartbeat: Option<Duration>,
    },
}

/// A request of the event loop.
enum Request {
    Write(Write),
    /// A value with a lease.
    Lease {
        key: String,
        value: Vec<u8>,
        seconds: u32,
    },
    /// Fields of the value of this member's own key.
    Presence(BTreeMap<String, serde_json::Value>),
    Stop,
}

/// The thread, and the queues to and from it.
pub struct Store<E> {
    queue: Arc<Queue<E>>,
    requests: mpsc::UnboundedSender<Request>,
    under_way: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl<E: Send + 'static> Store<E> {
    /// Starts the thread, in the network namespace of the caller. It tries for as long as it takes to reach the store.
    /// `decode` turns its events into those of the loop, on the thread.
    ///
    /// # Errors
    /// The kernel's, if it refuses a descriptor or a thread.
    pub fn start(
        options: StoreOptions,
        decode: impl Fn(StoreEvent) -> Option<E> + Send + Sync + 'static,
    ) -> Result<Store<E>, Error> {
        let queue = Arc::new(Queue::new(Box::new(decode))?);
        let (requests, receiver) = mpsc::unbounded_channel();
        let under_way = Arc::new(AtomicUsize::new(0));
        let sink: Arc<dyn Sink> = queue.clone();
        let counter = under_way.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("store thread")?;
        let thread = std::thread::Builder::new()
            .name("fleet".to_owned())
            .spawn(move || runtime.block_on(thread::run(options, sink, counter, receiver)))
            .context("store thread")?;
        Ok(Store { queue, requests, under_way, thread: Some(thread) })
    }

    /// Readable while events are queued.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.queue.fd()
    }

    /// Takes at most `most` events, oldest first.
    pub fn take(&self, most: usize) -> Vec<E> {
        self.queue.take(most)
    }

    /// Queues a write; the answer is [`StoreEvent::Written`].
    ///
    /// # Errors
    /// The write is dropped without an answer: too many writes are pending, or this one is too large.
    pub fn write(&self, write: Write) -> Result<(), Error> {
        let refuse = |why: String| Err(Error::new(format_args!("write {}", write.key), why));
        let longest = write.claims.iter().map(|(_, value)| value).chain(&write.value).map(Vec::len).max();
        if longest.is_some_and(|length| length > MAX_VALUE) {
            return refuse(format!("a value of more than {MAX_VALUE} octets"));
        }
        if write.claims.len() + write.releases.len() > MAX_CLAIMS {
            return refuse(format!("more than {MAX_CLAIMS} claims and releases"));
        }
        if self.under_way.fetch_add(1, Ordering::Relaxed) >= MAX_UNDER_WAY {
            self.under_way.fetch_sub(1, Ordering::Relaxed);
            return refuse(format!("{MAX_UNDER_WAY} writes to the store have no answer"));
        }
        self.requests.send(Request::Write(write)).map_err(|_| Error::new("store thread", "has ended"))
    }

    /// Writes a key with a lease, which removes it after `seconds`. There is no answer.
    pub fn lease(&self, key: String, value: Vec<u8>, seconds: u32) {
        // It fails only after the end of the thread.
        let _ = self.requests.send(Request::Lease { key, value, seconds });
    }

    /// Sets fields of this member's own key, with the next heartbeat.
    pub fn set_presence(&self, fields: BTreeMap<String, serde_json::Value>) {
        // It fails only after the end of the thread.
        let _ = self.requests.send(Request::Presence(fields));
    }
}

impl<E> Drop for Store<E> {
    fn drop(&mut self) {
        let _ = self.requests.send(Request::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
