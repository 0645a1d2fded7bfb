//! The thread: serves the requests of the event loop until it is stopped.

use super::connection::{Clients, Connection, keep_up, lock};
use super::copy::OpenCopy;
use super::presence;
use super::queue::Sink;
use super::writer::Writer;
use super::{Request, StoreOptions};
use core::time::Duration;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::timeout;

/// How long pending transactions are awaited at shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(500);

/// Runs until the event loop stops the thread, or is gone.
pub(super) async fn run(
    options: StoreOptions,
    sink: Arc<dyn Sink>,
    under_way: Arc<AtomicUsize>,
    mut requests: UnboundedReceiver<Request>,
) {
    let clients = Clients::new(&options.fleet, sink.clone());
    let connection = Arc::new(Connection {
        position: Mutex::default(),
        copy: Mutex::new(OpenCopy::open(options.copy.as_deref(), &clients)),
        options,
        clients: clients.clone(),
        sink: sink.clone(),
        fields: Mutex::default(),
        lease: Mutex::default(),
        heartbeats: Mutex::default(),
    });
    let mut writer = Writer::new(clients, sink, under_way);
    let kept_up = tokio::spawn(keep_up(connection.clone()));
    let mut stopping = false;
    while !stopping {
        tokio::select! {
            request = requests.recv() => stopping = !take(request, &connection, &mut writer),
            () = writer.settle() => {}
        }
        // Requests that arrived meanwhile join the same transaction.
        while !stopping && let Ok(request) = requests.try_recv() {
            stopping = !take(Some(request), &connection, &mut writer);
        }
        writer.dispatch();
    }
    let settled = async {
        while writer.is_busy() {
            writer.settle().await;
        }
    };
    // The rest is not awaited.
    let _ = timeout(SHUTDOWN_TIMEOUT, settled).await;
    kept_up.abort();
    presence::remove(&connection).await;
}

/// Begins with a request; `false` if it is the last.
fn take(request: Option<Request>, connection: &Arc<Connection>, writer: &mut Writer) -> bool {
    match request {
        Some(Request::Write(write)) => writer.push(write),
        Some(Request::Lease { key, value, seconds }) => {
            let connection = connection.clone();
            tokio::spawn(async move { presence::lease(&connection, key, value, seconds).await });
        }
        Some(Request::Presence(fields)) => lock(&connection.fields).extend(fields),
        Some(Request::Stop) | None => return false,
    }
    true
}
