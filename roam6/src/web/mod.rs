//! `roam6 web`: the status page. A process of its own, a client of the control socket: the daemon has no HTTP server to
//! attack, and this process needs no privilege but to connect to that socket.
//!
//! A request travels from [`http`] (one thread for each connection) to [`routes`], which answers from the daemon's state, the
//! [`history`] of the last hour, or the last [`events`].

#![allow(clippy::disallowed_methods, reason = "it is no engine: it reads the clock and sleeps")]

mod events;
mod history;
mod http;
mod routes;

use crate::exit::Failure;
use core::time::Duration;
use events::Events;
use history::History;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

/// Where the page is served by default.
pub(crate) const LISTEN: &str = "127.0.0.1:9107";
/// Before the daemon is asked again after a failure.
const RETRY: Duration = Duration::from_secs(1);

/// What the threads share.
pub(crate) struct Site {
    socket: PathBuf,
    history: Mutex<History>,
    events: Mutex<Events>,
    /// Number of bindings, and when they were counted.
    bindings: Mutex<Option<(Instant, usize)>>,
}

/// Serves the page until it is killed.
///
/// # Errors
/// The address is not of the loopback, or in use.
pub(crate) fn serve(listen: SocketAddr, socket: &Path) -> Result<ExitCode, Failure> {
    if !listen.ip().is_loopback() {
        return Err(Failure::Usage(format!(
            "{listen} can be reached from other machines, and the page has no password; listen on {LISTEN}, and use a \
             tunnel (ssh -L 9107:{LISTEN} HOST) or a proxy that authenticates"
        )));
    }
    let listener = TcpListener::bind(listen).map_err(|error| format!("{listen}: {error}"))?;
    let listen = listener.local_addr().unwrap_or(listen);
    let (history, events, bindings) = (Mutex::default(), Mutex::default(), Mutex::default());
    let site = Site { socket: socket.to_owned(), history, events, bindings };
    println!("http://{listen}/");
    thread::scope(|scope| {
        scope.spawn(|| history::sample(&site));
        scope.spawn(|| events::follow(&site));
        http::accept(scope, &listener, &site);
    });
    Ok(ExitCode::SUCCESS)
}
