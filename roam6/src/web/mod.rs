//! `roam6 web`: the status page. A process of its own, a client of the control socket: the daemon has no HTTP server to
//! attack, and this process needs no privilege but to connect to that socket. On the loopback it has no password unless one is
//! configured; on other addresses it has one ([`password`]), by a Unix socket the proxy decides.
//!
//! A request travels from [`http`] (one thread for each connection) to [`routes`], which answers from the daemon's state, the
//! [`history`] of the last hour, or the last [`events`].

#![allow(clippy::disallowed_methods, reason = "it is no engine: it reads the clock and sleeps")]

mod events;
mod history;
mod http;
pub(crate) mod password;
mod routes;
mod session;

use crate::config::web::{Listen, Web};
use crate::exit::Failure;
use core::time::Duration;
use events::Events;
use history::History;
use http::Listener;
use nix::sys::stat::{Mode, umask};
use password::Verifier;
use session::Sessions;
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

/// Before the daemon is asked again after a failure.
const RETRY: Duration = Duration::from_secs(1);

/// What the threads share.
pub(crate) struct Site {
    socket: PathBuf,
    /// Other names by which browsers call the page.
    names: Vec<String>,
    /// `None`: no password is asked for.
    sessions: Option<Mutex<Sessions>>,
    history: Mutex<History>,
    events: Mutex<Events>,
    /// Number of bindings, and when they were counted.
    bindings: Mutex<Option<(Instant, usize)>>,
}

/// Serves the page until it is killed.
///
/// # Errors
/// The address is in use, or the file of the password is wrong.
pub(crate) fn serve(web: Web, socket: &Path) -> Result<ExitCode, Failure> {
    let verifier = web.password_file.as_deref().map(Verifier::read).transpose()?;
    let listener = open(&web.listen)?;
    let (history, events, bindings) = (Mutex::default(), Mutex::default(), Mutex::default());
    let sessions = verifier.map(|verifier| Mutex::new(Sessions::new(verifier)));
    let site = Site { socket: socket.to_owned(), names: web.names, sessions, history, events, bindings };
    match (&listener, &web.listen) {
        (Listener::Tcp(listener), Listen::Address(listen)) => {
            println!("http://{}/", listener.local_addr().unwrap_or(*listen));
        }
        (_, listen) => println!("{listen}"),
    }
    thread::scope(|scope| {
        scope.spawn(|| history::sample(&site));
        scope.spawn(|| events::follow(&site));
        http::accept(scope, &listener, &site);
    });
    Ok(ExitCode::SUCCESS)
}

fn open(listen: &Listen) -> Result<Listener, Failure> {
    let what = |error: std::io::Error| Failure::Other(format!("{listen}: {error}"));
    match listen {
        Listen::Address(address) => bind(*address).map(Listener::Tcp).map_err(what),
        Listen::Socket(path) => {
            // That of a former run; nothing else is removed.
            if fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket()) {
                fs::remove_file(path).map_err(what)?;
            }
            // The proxy is in the group of this process.
            let former = umask(Mode::from_bits_truncate(0o117));
            let listener = UnixListener::bind(path);
            umask(former);
            listener.map(Listener::Unix).map_err(what)
        }
    }
}

/// Waits for an address that the interface gets a moment later, at boot.
fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    const TRIES: u32 = 30;
    let mut tries = 0;
    loop {
        match TcpListener::bind(address) {
            Err(error) if error.kind() == std::io::ErrorKind::AddrNotAvailable && tries < TRIES => {
                tries += 1;
                thread::sleep(RETRY);
            }
            result => return result,
        }
    }
}
