//! The control socket and the metrics listener. A client that sends or reads too slowly, or requests too much, receives an
//! error and is disconnected; no client can block the daemon.

use crate::control::{MAX_REQUEST, Request, Response};
use core::time::Duration;
use roam6_linux::{FdReady, Interest};
use roam6_proto::Time;
use roam6_proto::base::vec_map::VecMap;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;

/// Most concurrent clients of each kind: metrics clients must not exhaust the connections of operators.
pub(crate) const MAX_CLIENTS: usize = 32;
/// Most octets of events queued for a watcher, in addition to the state at the beginning.
pub(crate) const MAX_BACKLOG: usize = 1024 * 1024;
/// Most octets queued for all clients together.
pub(crate) const MAX_QUEUED: usize = 128 * 1024 * 1024;
/// A request must be complete within this time.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// A client must read some of its queued data within this time.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// How long no client is accepted after the system ran out of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);
/// Most octets written to one client before other clients are served.
const WRITE_QUANTUM: usize = 256 * 1024;

const READ_INTEREST: Interest = Interest { read: true, write: false };
const CONTROL_TOKEN: u32 = 0;
const METRICS_TOKEN: u32 = 1;
const FIRST_CLIENT: u32 = 2;

/// Registers descriptors to be polled: the host, or a test.
pub(crate) trait Reactor {
    /// Polls `fd` from now on.
    fn watch(&mut self, fd: BorrowedFd<'_>, token: u32, interest: Interest) -> Result<(), String>;
    /// Changes the events that `fd` is polled for.
    fn rewatch(&mut self, fd: BorrowedFd<'_>, token: u32, interest: Interest) -> Result<(), String>;
}

/// Identifies a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClientId(pub(super) u32);

/// Both listeners and all clients. Its tokens begin at `base`.
pub(crate) struct Server {
    base: u32,
    control: UnixListener,
    metrics: Option<TcpListener>,
    clients: VecMap<u32, Client>,
    next: u32,
    accept_paused_until: Option<Time>,
}

struct Client {
    socket: File,
    kind: ClientKind,
    state: ClientState,
    inbox: Vec<u8>,
    queue: Vec<u8>,
    sent: usize,
    /// Most octets that may be queued.
    limit: usize,
    /// The response is in preparation; events are queued until then.
    awaits_response: bool,
    /// The client is disconnected at this time.
    deadline: Option<Time>,
    interest: Interest,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClientKind {
    Control,
    Metrics,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClientState {
    /// The request is incomplete.
    AwaitingRequest,
    /// The request is complete; the client is disconnected once it has read the response.
    Answered,
    /// The client receives every event.
    Watching,
}

impl Server {
    /// Serves both listeners, which must be non-blocking.
    ///
    /// # Errors
    /// A listener cannot be polled.
    pub(crate) fn new(
        base: u32,
        control: UnixListener,
        metrics: Option<TcpListener>,
        reactor: &mut impl Reactor,
    ) -> Result<Server, String> {
        reactor.watch(control.as_fd(), base + CONTROL_TOKEN, READ_INTEREST)?;
        if let Some(listener) = &metrics {
            reactor.watch(listener.as_fd(), base + METRICS_TOKEN, READ_INTEREST)?;
        }
        Ok(Server { base, control, metrics, clients: VecMap::new(), next: FIRST_CLIENT, accept_paused_until: None })
    }

    /// Whether a token is one of this server's.
    pub(crate) fn owns(&self, token: u32) -> bool {
        token >= self.base
    }

    /// Serves a ready descriptor. Returns a complete request; respond by [`Server::respond`].
    pub(crate) fn ready(
        &mut self,
        ready: FdReady,
        now: Time,
        reactor: &mut impl Reactor,
    ) -> Option<(ClientId, Request)> {
        match ready.token.checked_sub(self.base)? {
            token @ (CONTROL_TOKEN | METRICS_TOKEN) => {
                self.accept(token, now, reactor);
                None
            }
            token => self.serve_client(token, ready, now, reactor),
        }
    }

    /// Sends a client its response, and then disconnects it.
    pub(crate) fn respond(&mut self, id: ClientId, response: &Response, now: Time, reactor: &mut impl Reactor) {
        self.respond_encoded(id, serde_json::to_vec(response).unwrap_or_default(), now, reactor);
    }

    /// Sends a client an error in place of the response.
    pub(crate) fn refuse(&mut self, id: ClientId, why: &str, now: Time, reactor: &mut impl Reactor) {
        if let Some(client) = self.clients.get_mut(&id.0) {
            client.refuse(why, now);
        }
        self.flush(id.0, now, reactor);
    }

    /// Sends a client the metrics page: over the control socket as a response, else by HTTP.
    pub(crate) fn respond_metrics(&mut self, id: ClientId, page: &[u8], now: Time, reactor: &mut impl Reactor) {
        if self.clients.get(&id.0).is_some_and(|client| client.kind == ClientKind::Control) {
            let page = String::from_utf8_lossy(page).into_owned();
            return self.respond(id, &Response::Metrics(page), now, reactor);
        }
        let length = page.len();
        let head = format!(
            "HTTP/1.0 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {length}\r\n\r\n"
        );
        self.respond_encoded(id, [head.as_bytes(), page].concat(), now, reactor);
    }

    /// Queues all events for a client from now on, until its dump of the state is ready.
    pub(crate) fn begin_watch(&mut self, id: ClientId) {
        if let Some(client) = self.clients.get_mut(&id.0) {
            client.state = ClientState::Watching;
        }
    }

    /// Whether any client watches.
    pub(crate) fn has_watchers(&self) -> bool {
        self.clients.values().any(|client| client.state == ClientState::Watching)
    }

    /// Sends a line to all watchers.
    pub(crate) fn publish(&mut self, line: &str, now: Time, reactor: &mut impl Reactor) {
        let watchers = self.clients.iter().filter(|(_, client)| client.state == ClientState::Watching);
        let watchers: Vec<u32> = watchers.map(|(token, _)| *token).collect();
        for token in watchers {
            if let Some(client) = self.clients.get_mut(&token) {
                client.queue_event(line, now);
            }
            self.flush(token, now, reactor);
        }
    }

    /// When [`Server::expire`] is due next.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.clients.values().filter_map(|client| client.deadline).chain(self.accept_paused_until).min()
    }

    /// Disconnects clients that have timed out.
    pub(crate) fn expire(&mut self, now: Time, reactor: &mut impl Reactor) {
        self.clients.retain(|_, client| client.deadline.is_none_or(|deadline| deadline > now));
        if self.accept_paused_until.is_some_and(|until| until <= now) {
            self.accept_paused_until = None;
            self.set_accepting(true, reactor);
        }
    }

    fn accept(&mut self, token: u32, now: Time, reactor: &mut impl Reactor) {
        // Further clients wait for the next iteration of the event loop.
        for _ in 0..MAX_CLIENTS {
            let accepted = match (token, &self.metrics) {
                (CONTROL_TOKEN, _) => {
                    self.control.accept().map(|(socket, _)| (OwnedFd::from(socket), ClientKind::Control))
                }
                (_, Some(metrics)) => metrics.accept().map(|(socket, _)| (OwnedFd::from(socket), ClientKind::Metrics)),
                (_, None) => return,
            };
            match accepted {
                Ok((socket, kind)) => self.admit(socket, kind, now, reactor),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => {}
                Err(_) => {
                    // Out of descriptors or memory: an immediate retry would only spin.
                    self.accept_paused_until = Some(now + ACCEPT_PAUSE);
                    return self.set_accepting(false, reactor);
                }
            }
        }
    }

    fn set_accepting(&self, on: bool, reactor: &mut impl Reactor) {
        let interest = Interest { read: on, write: false };
        // A listener that cannot be polled again is unusable until a restart; the daemon itself continues.
        let _ = reactor.rewatch(self.control.as_fd(), self.base + CONTROL_TOKEN, interest);
        if let Some(metrics) = &self.metrics {
            let _ = reactor.rewatch(metrics.as_fd(), self.base + METRICS_TOKEN, interest);
        }
    }

    fn admit(&mut self, socket: OwnedFd, kind: ClientKind, now: Time, reactor: &mut impl Reactor) {
        let socket = File::from(socket);
        if set_nonblocking(&socket).is_err() {
            return;
        }
        if self.clients.values().filter(|client| client.kind == kind).count() >= MAX_CLIENTS {
            let _ = (&socket).write(&kind.error_response(&format!("too many clients, {MAX_CLIENTS} at most")));
            return;
        }
        let token = self.next;
        self.next = self.next.wrapping_add(1).max(FIRST_CLIENT) % (u32::MAX / 2);
        if reactor.watch(socket.as_fd(), self.base + token, READ_INTEREST).is_ok() {
            self.clients.insert(token, Client::new(socket, kind, now));
        }
    }

    fn serve_client(
        &mut self,
        token: u32,
        ready: FdReady,
        now: Time,
        reactor: &mut impl Reactor,
    ) -> Option<(ClientId, Request)> {
        let client = self.clients.get_mut(&token)?;
        let request = match (ready.readable, client.state) {
            (true, ClientState::AwaitingRequest) => client.read_request(now),
            (true, ClientState::Watching) if client.is_disconnected() => ReadResult::Disconnected,
            _ => ReadResult::Incomplete,
        };
        match request {
            ReadResult::Disconnected => {
                self.clients.remove(&token);
                None
            }
            ReadResult::Incomplete => {
                self.flush(token, now, reactor);
                None
            }
            ReadResult::Request(request) => Some((ClientId(token), request)),
        }
    }

    /// Sends a client its encoded response, and then disconnects it. A watcher stays: it receives the queued events and
    /// every later event after this dump of the state.
    pub(crate) fn respond_encoded(&mut self, id: ClientId, response: Vec<u8>, now: Time, reactor: &mut impl Reactor) {
        let waiting: usize = self.clients.values().map(|client| client.queue.len()).sum();
        // The client may have been disconnected meanwhile.
        let Some(client) = self.clients.get_mut(&id.0).filter(|client| client.awaits_response) else { return };
        client.awaits_response = false;
        if waiting.saturating_add(response.len()) > MAX_QUEUED {
            client.refuse("busy: other clients have not read their answers; try again", now);
        } else {
            client.limit = response.len().saturating_add(MAX_BACKLOG);
            let events = std::mem::replace(&mut client.queue, response);
            if client.kind == ClientKind::Control && client.queue.last().is_some_and(|octet| *octet != b'\n') {
                client.queue.push(b'\n');
            }
            client.queue.extend(events);
            client.deadline = Some(now + READ_TIMEOUT);
        }
        self.flush(id.0, now, reactor);
    }

    fn flush(&mut self, token: u32, now: Time, reactor: &mut impl Reactor) {
        let Some(client) = self.clients.get_mut(&token) else { return };
        let done = client.write(now).is_err() || client.is_done();
        // Input after the request is not read, so that a client cannot keep the daemon busy.
        let interest = Interest {
            read: client.state != ClientState::Answered,
            write: !client.queue.is_empty() && !client.awaits_response,
        };
        if done {
            self.clients.remove(&token);
        } else if interest != client.interest {
            client.interest = interest;
            if reactor.rewatch(client.socket.as_fd(), self.base + token, interest).is_err() {
                self.clients.remove(&token);
            }
        }
    }
}

/// Result of reading from a client.
enum ReadResult {
    Incomplete,
    Request(Request),
    Disconnected,
}

impl Client {
    fn new(socket: File, kind: ClientKind, now: Time) -> Client {
        Client {
            socket,
            kind,
            state: ClientState::AwaitingRequest,
            inbox: Vec::new(),
            queue: Vec::new(),
            sent: 0,
            limit: MAX_BACKLOG,
            awaits_response: false,
            deadline: Some(now + REQUEST_TIMEOUT),
            interest: READ_INTEREST,
        }
    }

    /// Reads more of the request.
    fn read_request(&mut self, now: Time) -> ReadResult {
        let mut octets = [0; 1024];
        loop {
            match self.socket.read(&mut octets) {
                Ok(0) => return ReadResult::Disconnected,
                Ok(count) => self.inbox.extend_from_slice(octets.get(..count).unwrap_or_default()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return ReadResult::Incomplete,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return ReadResult::Disconnected,
            }
            match self.kind.parse_request(&self.inbox) {
                Some(Ok(request)) => {
                    // Input after the request is ignored.
                    self.state = ClientState::Answered;
                    (self.awaits_response, self.deadline) = (true, None);
                    return ReadResult::Request(request);
                }
                Some(Err(why)) => {
                    self.refuse(&why, now);
                    return ReadResult::Incomplete;
                }
                None => {}
            }
        }
    }

    /// Whether a watcher has closed its end, or has sent more data.
    fn is_disconnected(&mut self) -> bool {
        let read = self.socket.read(&mut [0; 64]);
        !matches!(read, Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted))
    }

    fn queue_event(&mut self, line: &str, now: Time) {
        if self.queue.len().saturating_sub(self.sent).saturating_add(line.len()) >= self.limit {
            return self.refuse("too slow: more than one MiB of events was not read", now);
        }
        if self.queue.is_empty() && !self.awaits_response {
            self.deadline = Some(now + READ_TIMEOUT);
        }
        self.queue.extend_from_slice(line.as_bytes());
        self.queue.push(b'\n');
    }

    /// Queues an error after the line in transmission, and then disconnects the client.
    fn refuse(&mut self, why: &str, now: Time) {
        let begun = self.queue.get(self.sent..).unwrap_or_default();
        let keep =
            if self.sent == 0 { 0 } else { begun.iter().position(|octet| *octet == b'\n').map_or(0, |at| at + 1) };
        self.queue.truncate(self.sent.saturating_add(keep));
        self.queue.extend(self.kind.error_response(why));
        self.state = ClientState::Answered;
        (self.awaits_response, self.deadline) = (false, Some(now + READ_TIMEOUT));
    }

    fn write(&mut self, now: Time) -> io::Result<()> {
        if self.awaits_response {
            return Ok(());
        }
        let until = self.sent.saturating_add(WRITE_QUANTUM);
        while self.sent < self.queue.len().min(until) {
            match self.socket.write(self.queue.get(self.sent..self.queue.len().min(until)).unwrap_or_default()) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => {
                    self.sent = self.sent.saturating_add(count);
                    self.deadline = Some(now + READ_TIMEOUT);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if self.sent == self.queue.len() && self.state != ClientState::AwaitingRequest {
            (self.queue, self.sent) = (Vec::new(), 0);
            self.limit = MAX_BACKLOG;
            self.deadline = (self.state != ClientState::Watching).then_some(now + READ_TIMEOUT);
        } else if self.sent >= MAX_BACKLOG && self.sent >= self.queue.len() / 2 {
            // Not more often, because the remainder is moved.
            self.queue.drain(..self.sent);
            self.sent = 0;
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.state == ClientState::Answered && self.queue.is_empty() && !self.awaits_response
    }
}

impl ClientKind {
    /// The request once it is complete, or an error if it is invalid.
    fn parse_request(self, inbox: &[u8]) -> Option<Result<Request, String>> {
        match self {
            ClientKind::Control => {
                let end = inbox.iter().position(|octet| *octet == b'\n');
                if end.unwrap_or(inbox.len()) > MAX_REQUEST {
                    return Some(Err(format!("a request is one line of at most {MAX_REQUEST} octets")));
                }
                let line = end.and_then(|end| inbox.get(..end))?;
                let request = serde_json::from_slice(line);
                Some(request.map_err(|error| format!("not a request: {error}; ask \"view\" or \"watch\"")))
            }
            ClientKind::Metrics => {
                let complete =
                    inbox.windows(4).any(|end| end == b"\r\n\r\n") || inbox.windows(2).any(|end| end == b"\n\n");
                if !complete {
                    return (inbox.len() > MAX_REQUEST).then(|| Err("request too long".to_owned()));
                }
                Some(metrics_request(&String::from_utf8_lossy(inbox)))
            }
        }
    }

    /// An error response.
    fn error_response(self, why: &str) -> Vec<u8> {
        match self {
            ClientKind::Control => {
                let mut line = serde_json::to_vec(&Response::Error(why.to_owned())).unwrap_or_default();
                line.push(b'\n');
                line
            }
            ClientKind::Metrics => {
                let length = why.len() + 1;
                format!(
                    "HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\r\n{why}\n"
                )
                .into_bytes()
            }
        }
    }
}

fn set_nonblocking(file: &File) -> nix::Result<()> {
    use nix::fcntl::{FcntlArg, OFlag, fcntl};
    fcntl(file, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).map(drop)
}

/// A request for the metrics. A foreign site whose name resolves to this machine (DNS rebinding) would otherwise read them by the
/// browser of its visitor, so they have no name but that of the loopback.
fn metrics_request(head: &str) -> Result<Request, String> {
    let mut lines = head.lines();
    let target = lines.next().and_then(|line| line.strip_prefix("GET ")?.split(' ').next()).unwrap_or_default();
    let path = target.split('?').next().unwrap_or_default();
    let mut hosts = lines.filter_map(|line| line.split_once(':')).filter(|(name, _)| name.eq_ignore_ascii_case("host"));
    let is_own = |(_, host): (&str, &str)| {
        let name = host.trim().rsplit_once(':').map_or(host.trim(), |(name, port)| {
            if port.bytes().all(|octet| octet.is_ascii_digit()) { name } else { host.trim() }
        });
        let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
    };
    match (path, hosts.all(is_own)) {
        ("/" | "/metrics", true) => Ok(Request::Metrics),
        ("/" | "/metrics", false) => Err("ask by the address of the loopback".to_owned()),
        _ => Err("there is only GET /metrics".to_owned()),
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
