//! The connection to the store: one node at a time, the next one as soon as it fails.

use super::copy::OpenCopy;
use super::fault::{Fault, failure};
use super::presence::Heartbeats;
use super::queue::Sink;
use super::{Mark, StoreEvent, StoreOptions, encryption, format, prefix_of, presence, watcher};
use core::time::Duration;
use etcd_client::{Client, ConnectOptions};
use roam6_proto::contract::fleet::StoreFault;
use roam6_proto::contract::item::Revision;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::time::{sleep, timeout};

/// A node that does not answer within this time is given up for the next one.
const ANSWER_TIME: Duration = Duration::from_secs(1);
/// First and longest pause before the nodes are tried again: short, because one of them usually runs on this machine.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));

/// The client of the present connection, for all that use it.
#[derive(Clone)]
pub(super) struct Clients {
    prefix: Arc<str>,
    client: Arc<Mutex<Option<Client>>>,
    reported: Arc<Mutex<Option<StoreFault>>>,
    sink: Arc<dyn Sink>,
}

/// What the parts of a connection share.
pub(super) struct Connection {
    pub(super) options: StoreOptions,
    pub(super) clients: Clients,
    pub(super) sink: Arc<dyn Sink>,
    /// Up to where the event loop has the changes of the store.
    pub(super) position: Mutex<Option<Mark>>,
    pub(super) copy: Mutex<OpenCopy>,
    /// Fields of the value of this member's own key.
    pub(super) fields: Mutex<BTreeMap<String, serde_json::Value>>,
    /// The lease of that key.
    pub(super) lease: Mutex<Option<i64>>,
    pub(super) heartbeats: Mutex<Heartbeats>,
}

impl Clients {
    pub(super) fn new(fleet: &str, sink: Arc<dyn Sink>) -> Clients {
        let prefix = prefix_of(fleet).into();
        Clients { prefix, client: Arc::default(), reported: Arc::default(), sink }
    }

    /// The client, while there is a connection to the store of this fleet.
    pub(super) fn current(&self) -> Option<Client> {
        lock(&self.client).clone()
    }

    /// A key as the store names it.
    pub(super) fn full_key(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }

    /// A key as this program names it.
    pub(super) fn own_key(&self, key: &[u8]) -> String {
        let key = key.strip_prefix(self.prefix.as_bytes()).unwrap_or(key);
        String::from_utf8_lossy(key).into_owned()
    }

    /// Reports a fault to the event loop, unless it is the one reported last since a connection was established.
    pub(super) fn report(&self, fault: StoreFault) {
        let mut reported = lock(&self.reported);
        if reported.as_ref() != Some(&fault) {
            *reported = Some(fault.clone());
            self.sink.push(StoreEvent::Fault(fault));
        }
    }

    fn set(&self, client: Option<Client>) {
        if client.is_some() {
            *lock(&self.reported) = None;
        }
        *lock(&self.client) = client;
    }
}

/// Keeps up a connection for as long as the program runs.
pub(super) async fn keep_up(connection: Arc<Connection>) {
    let mut pause = PAUSE.0;
    let (mut reported, mut last) = (false, None);
    loop {
        let mut silent = true;
        for endpoint in &connection.options.endpoints {
            let (fault, connected) = session(&connection, endpoint).await;
            connection.clients.set(None);
            silent &= !connected && matches!(fault, Fault::Unreachable(_) | Fault::Store(StoreFault::NoQuorum));
            if connected {
                pause = PAUSE.0;
                reported = true;
                connection.sink.push(StoreEvent::Disconnected(fault.to_string()));
            }
            match fault {
                Fault::Store(fault) => connection.clients.report(fault),
                Fault::Unreachable(why) => last = Some(why),
            }
        }
        // None of them.
        if let Some(why) = last.take_if(|_| !reported) {
            reported = true;
            connection.sink.push(StoreEvent::Disconnected(why));
        }
        if silent && deliver_copy(&connection).await {
            connection.sink.push(StoreEvent::Copied);
        }
        sleep(pause.mul_f64(jitter())).await;
        pause = PAUSE.1.min(pause * 2);
    }
}

/// A number between 0.5 and 1: members that lost the same node do not come back at the same moment.
fn jitter() -> f64 {
    let random = RandomState::new().hash_one(0);
    0.5 + 0.5 * (random % 1024) as f64 / 1024.0
}

/// One connection: why it ended, and whether the store was reached.
async fn session(connection: &Connection, endpoint: &str) -> (Fault, bool) {
    let opened = async {
        let options = connect_options(&connection.options);
        let client = Client::connect([endpoint], Some(options)).await.map_err(|error| failure(&error).fault())?;
        let (store, head) = format::check(&client, connection).await?;
        encryption::check(&client, connection).await?;
        Ok::<_, Fault>((client, store, head))
    };
    let (client, store, head) = match timeout(ANSWER_TIME, opened).await {
        Ok(Ok(opened)) => opened,
        Ok(Err(Fault::Unreachable(why))) => return (Fault::Unreachable(format!("{endpoint}: {why}")), false),
        Ok(Err(fault)) => return (fault, false),
        Err(_) => return (Fault::Unreachable(format!("{endpoint} does not answer")), false),
    };
    let seen = lock(&connection.position).clone();
    if let Some(seen) = seen.filter(|seen| seen.store != store || seen.revision > head) {
        return (rolled_back(head, &seen), false);
    }
    if lock(&connection.copy).is_of(store, head, &connection.clients) {
        deliver_copy(connection).await;
    }
    connection.clients.set(Some(client.clone()));
    connection.sink.push(StoreEvent::Connected { endpoint: endpoint.to_owned(), store, head });
    let fault = tokio::select! {
        fault = presence::keep(connection, client.clone()) => fault,
        fault = watcher::follow(connection, client.clone(), store) => fault,
    };
    (fault, true)
}

/// Delivers the content of the copy to the event loop, once; returns whether there was any.
async fn deliver_copy(connection: &Connection) -> bool {
    let Some((mark, keys)) = lock(&connection.copy).take() else { return false };
    for stored in keys {
        watcher::room(connection).await;
        connection.sink.push(StoreEvent::Changed(stored));
    }
    *lock(&connection.position) = Some(mark);
    true
}

/// The store has forgotten what this member has seen.
pub(super) fn rolled_back(head: u64, seen: &Mark) -> Fault {
    Fault::Store(StoreFault::RolledBack { head: Revision(head), seen: Revision(seen.revision) })
}

pub(super) fn connect_options(options: &StoreOptions) -> ConnectOptions {
    // A node that the others do not reach refuses what it cannot do; a cut cable is noticed.
    let connect = ConnectOptions::new()
        .with_require_leader(true)
        .with_connect_timeout(ANSWER_TIME)
        .with_keep_alive(ANSWER_TIME * 2, ANSWER_TIME)
        .with_auto_token_refresh(true);
    match &options.credentials {
        Some((user, password)) => connect.with_user(user, password),
        None => connect,
    }
}

/// The guard of a mutex, poisoned or not: no holder leaves its content inconsistent.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
