//! Writes of other members: one watch of all keys of the fleet, from the revision that the event loop has last received. If
//! that revision is compacted, and at the first start, a snapshot precedes the watch: all keys at one revision, in pages.

use super::connection::{Connection, lock};
use super::fault::{Fault, failure};
use super::writer::{signed, unsigned};
use super::{Mark, StoreEvent, Stored, presence};
use etcd_client::{Client, EventType, GetOptions, KeyValue, WatchOptions, WatchResponse};
use roam6_proto::contract::fleet::StoreFault;

/// Keys in a page of a snapshot.
pub(super) const PAGE: i64 = 5000;
/// Largest message, octets: a page, or the changes that a watch catches up with.
pub(super) const MAX_MESSAGE: usize = 128 * 1024 * 1024;

/// Why a watch ended.
enum End {
    /// The revision to resume from is compacted.
    Compacted,
    Fault(Fault),
}

/// Delivers all changes to the event loop until the watch ends; returns the cause.
pub(super) async fn follow(connection: &Connection, client: Client, store: u64) -> Fault {
    loop {
        let position = lock(&connection.position).clone();
        let from = match position {
            Some(mark) => mark.revision,
            None => match snapshot(connection, &client).await {
                Ok(head) => {
                    set_position(connection, Mark { store, revision: head });
                    head
                }
                Err(fault) => return fault,
            },
        };
        match watch(connection, &client, Mark { store, revision: from }).await {
            End::Compacted => *lock(&connection.position) = None,
            End::Fault(fault) => return fault,
        }
    }
}

/// Delivers all keys; returns the revision at which they were read.
async fn snapshot(connection: &Connection, client: &Client) -> Result<u64, Fault> {
    let mut kv = client.kv_client().max_decoding_message_size(MAX_MESSAGE);
    let mut start = connection.clients.full_key("");
    let end = past(&start);
    let mut start = std::mem::take(&mut start).into_bytes();
    let mut head = None;
    loop {
        let options = GetOptions::new().with_range(end.clone()).with_limit(PAGE);
        let options = options.with_revision(head.map_or(0, signed));
        let page = kv.get(start.clone(), Some(options)).await.map_err(|error| failure(&error).fault())?;
        let at = match head {
            Some(head) => head,
            None => {
                let at = page.header().map_or(0, |header| unsigned(header.revision()));
                lock(&connection.copy).begin_snapshot();
                connection.sink.push(StoreEvent::SnapshotBegins { head: at });
                at
            }
        };
        head = Some(at);
        for found in page.kvs() {
            room(connection).await;
            deliver_change(connection, stored(connection, found, true));
        }
        match page.kvs().last().filter(|_| page.more()) {
            Some(last) => start = [last.key(), &[0]].concat(),
            None => {
                connection.sink.push(StoreEvent::SnapshotEnds { head: at });
                return Ok(at);
            }
        }
    }
}

/// The first key behind all that begin with `prefix`, which ends with a slash.
pub(super) fn past(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}

/// Delivers all changes after `from`.
async fn watch(connection: &Connection, client: &Client, from: Mark) -> End {
    let fault = |error| End::Fault(failure(&error).fault());
    let options = WatchOptions::new().with_prefix().with_start_revision(signed(from.revision.saturating_add(1)));
    let mut client = client.watch_client().max_decoding_message_size(MAX_MESSAGE);
    let mut stream = match client.watch(connection.clients.full_key(""), Some(options)).await {
        Ok(stream) => stream,
        Err(error) => return fault(error),
    };
    loop {
        let response = match stream.message().await {
            Ok(Some(response)) => response,
            Ok(None) => return End::Fault(Fault::Unreachable("the watch has ended".to_owned())),
            Err(error) => return fault(error),
        };
        if response.canceled() {
            return cancelled(&response);
        }
        deliver(connection, &response, from.store).await;
    }
}

fn cancelled(response: &WatchResponse) -> End {
    match (response.compact_revision(), response.cancel_reason()) {
        (1.., _) => End::Compacted,
        (_, why) if why.contains("no leader") => End::Fault(Fault::Store(StoreFault::NoQuorum)),
        (_, why) if why.contains("permission denied") => {
            End::Fault(Fault::Store(StoreFault::Credentials(why.to_owned())))
        }
        (_, why) => End::Fault(Fault::Unreachable(format!("the watch was cancelled: {why}"))),
    }
}

/// Delivers the changes of one response.
async fn deliver(connection: &Connection, response: &WatchResponse, store: u64) {
    let own = presence::own_key(connection);
    let (mut last, mut heartbeat) = (0, None);
    for event in response.events() {
        let Some(found) = event.kv() else { continue };
        room(connection).await;
        last = last.max(unsigned(found.mod_revision()));
        let present = event.event_type() == EventType::Put;
        let stored = stored(connection, found, present);
        if stored.key == own
            && let Some(value) = &stored.value
        {
            heartbeat = lock(&connection.heartbeats).acknowledge(value).or(heartbeat);
        }
        deliver_change(connection, stored);
    }
    if last > 0 {
        // All changes of one revision come in one message.
        set_position(connection, Mark { store, revision: last });
        connection.sink.push(StoreEvent::Head { revision: last, heartbeat });
    }
}

/// Delivers a change to the event loop and to the copy.
fn deliver_change(connection: &Connection, stored: Stored) {
    lock(&connection.copy).change(&stored);
    connection.sink.push(StoreEvent::Changed(stored));
}

/// Records that the event loop and the copy have all changes up to `mark`.
fn set_position(connection: &Connection, mark: Mark) {
    lock(&connection.copy).mark(mark.clone());
    *lock(&connection.position) = Some(mark);
}

fn stored(connection: &Connection, found: &KeyValue, present: bool) -> Stored {
    Stored {
        key: connection.clients.own_key(found.key()),
        value: present.then(|| found.value().to_vec()),
        revision: unsigned(found.mod_revision()),
    }
}

/// Waits while the queue to the event loop is full.
pub(super) async fn room(connection: &Connection) {
    while connection.sink.is_full() {
        connection.sink.drained().notified().await;
    }
}
