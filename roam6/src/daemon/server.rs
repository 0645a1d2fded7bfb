//! The control socket and the metrics listener. A client that sends or reads too slowly, or requests too much, receives an
//! error and is disconnected; no client can block the daemon.

use crate::control::{Answer, MAX_REQUEST, Request};
use core::time::Duration;
use roam6_linux::{Interest, Ready};
use roam6_proto::Time;
use roam6_proto::base::few;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;

/// Most concurrent clients of each kind: metrics clients must not exhaust the connections of operators.
pub(crate) const MAX_CLIENTS: usize = 32;
/// Most octets of events queued for a watcher, in addition to the state at the beginning.
pub(crate) const MAX_BACKLOG: usize = 1024 * 1024;
/// Most octets queued for all clients together.
pub(crate) const MAX_WAITING: usize = 128 * 1024 * 1024;
/// A request must be complete within this time.
const ASK_TIME: Duration = Duration::from_secs(5);
/// A client must read some of its queued data within this time.
const READ_TIME: Duration = Duration::from_secs(10);
/// How long no client is accepted after the system ran out of descriptors or memory.
const REST: Duration = Duration::from_secs(1);
/// Most octets written to one client before other clients are served.
const SHARE: usize = 256 * 1024;

const LISTEN: Interest = Interest { read: true, write: false };
const CONTROL: u32 = 0;
const METRICS: u32 = 1;
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
pub(crate) struct ClientId(u32);

/// A client's request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Asked {
    /// A request over the control socket.
    Control(Request),
    /// The metrics page, by HTTP.
    Metrics,
}

/// Both listeners and all clients. Its tokens begin at `base`.
pub(crate) struct Server {
    base: u32,
    control: UnixListener,
    metrics: Option<TcpListener>,
    clients: few::VecMap<u32, Client>,
    next: u32,
    resting_until: Option<Time>,
}

struct Client {
    socket: File,
    kind: Kind,
    stage: Stage,
    inbox: Vec<u8>,
    queue: Vec<u8>,
    sent: usize,
    /// Most octets that may be queued.
    limit: usize,
    /// The response is in preparation; events are queued until then.
    waits: bool,
    /// The client is disconnected at this time.
    deadline: Option<Time>,
    interest: Interest,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Control,
    Metrics,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The request is incomplete.
    Asking,
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
        reactor.watch(control.as_fd(), base + CONTROL, LISTEN)?;
        if let Some(listener) = &metrics {
            reactor.watch(listener.as_fd(), base + METRICS, LISTEN)?;
        }
        Ok(Server { base, control, metrics, clients: few::VecMap::new(), next: FIRST_CLIENT, resting_until: None })
    }

    /// Whether a token is one of this server's.
    pub(crate) fn owns(&self, token: u32) -> bool {
        token >= self.base
    }

    /// Serves a ready descriptor. Returns a complete request; respond by [`Server::answer`] or [`Server::watch`].
    pub(crate) fn ready(&mut self, ready: Ready, now: Time, reactor: &mut impl Reactor) -> Option<(ClientId, Asked)> {
        match ready.token.checked_sub(self.base)? {
            token @ (CONTROL | METRICS) => {
                self.accept(token, now, reactor);
                None
            }
            token => self.serve(token, ready, now, reactor),
        }
    }

    /// Sends a client its response, and then disconnects it.
    pub(crate) fn answer(&mut self, id: ClientId, answer: &Answer, now: Time, reactor: &mut impl Reactor) {
        self.answer_line(id, serde_json::to_vec(answer).unwrap_or_default(), now, reactor);
    }

    /// The same for an encoded response.
    pub(crate) fn answer_line(&mut self, id: ClientId, line: Vec<u8>, now: Time, reactor: &mut impl Reactor) {
        self.put(id, line, Stage::Answered, now, reactor);
    }

    /// Sends a client an error in place of the response.
    pub(crate) fn refuse(&mut self, id: ClientId, why: &str, now: Time, reactor: &mut impl Reactor) {
        if let Some(client) = self.clients.get_mut(&id.0) {
            client.refuse(why, now);
        }
        self.flush(id.0, now, reactor);
    }

    /// Sends a client the metrics page.
    pub(crate) fn answer_metrics(&mut self, id: ClientId, page: &[u8], now: Time, reactor: &mut impl Reactor) {
        let length = page.len();
        let head = format!(
            "HTTP/1.0 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {length}\r\n\r\n"
        );
        self.put(id, [head.as_bytes(), page].concat(), Stage::Answered, now, reactor);
    }

    /// Queues all events for a client from now on, until its dump of the state is ready.
    pub(crate) fn begin_to_watch(&mut self, id: ClientId) {
        if let Some(client) = self.clients.get_mut(&id.0) {
            client.stage = Stage::Watching;
        }
    }

    /// Sends a client the state, then the queued events and every later event.
    pub(crate) fn watch(&mut self, id: ClientId, state: Vec<u8>, now: Time, reactor: &mut impl Reactor) {
        self.put(id, state, Stage::Watching, now, reactor);
    }

    /// Whether any client watches.
    pub(crate) fn has_watchers(&self) -> bool {
        self.clients.values().any(|client| client.stage == Stage::Watching)
    }

    /// Sends a line to all watchers.
    pub(crate) fn publish(&mut self, line: &str, now: Time, reactor: &mut impl Reactor) {
        let watchers = self.clients.iter().filter(|(_, client)| client.stage == Stage::Watching);
        let watchers: Vec<u32> = watchers.map(|(token, _)| *token).collect();
        for token in watchers {
            if let Some(client) = self.clients.get_mut(&token) {
                client.tell(line, now);
            }
            self.flush(token, now, reactor);
        }
    }

    /// When [`Server::expire`] is due next.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.clients.values().filter_map(|client| client.deadline).chain(self.resting_until).min()
    }

    /// Disconnects clients that have timed out.
    pub(crate) fn expire(&mut self, now: Time, reactor: &mut impl Reactor) {
        self.clients.retain(|_, client| client.deadline.is_none_or(|deadline| deadline > now));
        if self.resting_until.is_some_and(|until| until <= now) {
            self.resting_until = None;
            self.listen(true, reactor);
        }
    }

    fn accept(&mut self, token: u32, now: Time, reactor: &mut impl Reactor) {
        // Further clients wait for the next iteration of the event loop.
        for _ in 0..MAX_CLIENTS {
            let accepted = match (token, &self.metrics) {
                (CONTROL, _) => self.control.accept().map(|(socket, _)| (OwnedFd::from(socket), Kind::Control)),
                (_, Some(metrics)) => metrics.accept().map(|(socket, _)| (OwnedFd::from(socket), Kind::Metrics)),
                (_, None) => return,
            };
            match accepted {
                Ok((socket, kind)) => self.welcome(socket, kind, now, reactor),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => {}
                Err(_) => {
                    // Out of descriptors or memory: an immediate retry would only spin.
                    self.resting_until = Some(now + REST);
                    return self.listen(false, reactor);
                }
            }
        }
    }

    fn listen(&self, on: bool, reactor: &mut impl Reactor) {
        let interest = Interest { read: on, write: false };
        // A listener that cannot be polled again is unusable until a restart; the daemon itself continues.
        let _ = reactor.rewatch(self.control.as_fd(), self.base + CONTROL, interest);
        if let Some(metrics) = &self.metrics {
            let _ = reactor.rewatch(metrics.as_fd(), self.base + METRICS, interest);
        }
    }

    fn welcome(&mut self, socket: OwnedFd, kind: Kind, now: Time, reactor: &mut impl Reactor) {
        let socket = File::from(socket);
        if set_nonblocking(&socket).is_err() {
            return;
        }
        if self.clients.values().filter(|client| client.kind == kind).count() >= MAX_CLIENTS {
            let _ = (&socket).write(&kind.error(&format!("too many clients, {MAX_CLIENTS} at most")));
            return;
        }
        let token = self.next;
        self.next = self.next.wrapping_add(1).max(FIRST_CLIENT) % (u32::MAX / 2);
        if reactor.watch(socket.as_fd(), self.base + token, LISTEN).is_ok() {
            self.clients.insert(token, Client::new(socket, kind, now));
        }
    }

    fn serve(&mut self, token: u32, ready: Ready, now: Time, reactor: &mut impl Reactor) -> Option<(ClientId, Asked)> {
        let client = self.clients.get_mut(&token)?;
        let asked = match (ready.readable, client.stage) {
            (true, Stage::Asking) => client.ask(now),
            (true, Stage::Watching) if client.has_left() => Heard::Gone,
            _ => Heard::Nothing,
        };
        match asked {
            Heard::Gone => {
                self.clients.remove(&token);
                None
            }
            Heard::Nothing => {
                self.flush(token, now, reactor);
                None
            }
            Heard::Request(request) => Some((ClientId(token), request)),
        }
    }

    fn put(&mut self, id: ClientId, answer: Vec<u8>, stage: Stage, now: Time, reactor: &mut impl Reactor) {
        let waiting: usize = self.clients.values().map(|client| client.queue.len()).sum();
        // The client may have been disconnected meanwhile.
        let Some(client) = self.clients.get_mut(&id.0).filter(|client| client.waits) else { return };
        client.waits = false;
        if waiting.saturating_add(answer.len()) > MAX_WAITING {
            client.refuse("busy: other clients have not read their answers; try again", now);
        } else {
            client.limit = answer.len().saturating_add(MAX_BACKLOG);
            let events = std::mem::replace(&mut client.queue, answer);
            if client.kind == Kind::Control && client.queue.last().is_some_and(|octet| *octet != b'\n') {
                client.queue.push(b'\n');
            }
            client.queue.extend(events);
            client.stage = stage;
            client.deadline = Some(now + READ_TIME);
        }
        self.flush(id.0, now, reactor);
    }

    fn flush(&mut self, token: u32, now: Time, reactor: &mut impl Reactor) {
        let Some(client) = self.clients.get_mut(&token) else { return };
        let done = client.write(now).is_err() || client.is_done();
        // Input after the request is not read, so that a client cannot keep the daemon busy.
        let interest =
            Interest { read: client.stage != Stage::Answered, write: !client.queue.is_empty() && !client.waits };
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
enum Heard {
    Nothing,
    Request(Asked),
    Gone,
}

impl Client {
    fn new(socket: File, kind: Kind, now: Time) -> Client {
        Client {
            socket,
            kind,
            stage: Stage::Asking,
            inbox: Vec::new(),
            queue: Vec::new(),
            sent: 0,
            limit: MAX_BACKLOG,
            waits: false,
            deadline: Some(now + ASK_TIME),
            interest: LISTEN,
        }
    }

    /// Reads more of the request.
    fn ask(&mut self, now: Time) -> Heard {
        let mut octets = [0; 1024];
        loop {
            match self.socket.read(&mut octets) {
                Ok(0) => return Heard::Gone,
                Ok(count) => self.inbox.extend_from_slice(octets.get(..count).unwrap_or_default()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Heard::Nothing,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Heard::Gone,
            }
            match self.kind.request(&self.inbox) {
                Some(Ok(asked)) => {
                    // Input after the request is ignored.
                    self.stage = Stage::Answered;
                    (self.waits, self.deadline) = (true, None);
                    return Heard::Request(asked);
                }
                Some(Err(why)) => {
                    self.refuse(&why, now);
                    return Heard::Nothing;
                }
                None => {}
            }
        }
    }

    /// Whether a watcher has closed its end, or has sent more data.
    fn has_left(&mut self) -> bool {
        let heard = self.socket.read(&mut [0; 64]);
        !matches!(heard, Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted))
    }

    fn tell(&mut self, line: &str, now: Time) {
        if self.queue.len().saturating_sub(self.sent).saturating_add(line.len()) >= self.limit {
            return self.refuse("too slow: more than one MiB of events was not read", now);
        }
        if self.queue.is_empty() && !self.waits {
            self.deadline = Some(now + READ_TIME);
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
        self.queue.extend(self.kind.error(why));
        self.stage = Stage::Answered;
        (self.waits, self.deadline) = (false, Some(now + READ_TIME));
    }

    fn write(&mut self, now: Time) -> io::Result<()> {
        if self.waits {
            return Ok(());
        }
        let until = self.sent.saturating_add(SHARE);
        while self.sent < self.queue.len().min(until) {
            match self.socket.write(self.queue.get(self.sent..self.queue.len().min(until)).unwrap_or_default()) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => {
                    self.sent = self.sent.saturating_add(count);
                    self.deadline = Some(now + READ_TIME);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if self.sent == self.queue.len() && self.stage != Stage::Asking {
            (self.queue, self.sent) = (Vec::new(), 0);
            self.limit = MAX_BACKLOG;
            self.deadline = (self.stage != Stage::Watching).then_some(now + READ_TIME);
        } else if self.sent >= MAX_BACKLOG && self.sent >= self.queue.len() / 2 {
            // Not more often, because the remainder is moved.
            self.queue.drain(..self.sent);
            self.sent = 0;
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.stage == Stage::Answered && self.queue.is_empty() && !self.waits
    }
}

impl Kind {
    /// The request once it is complete, or an error if it is invalid.
    fn request(self, inbox: &[u8]) -> Option<Result<Asked, String>> {
        match self {
            Kind::Control => {
                let end = inbox.iter().position(|octet| *octet == b'\n');
                if end.unwrap_or(inbox.len()) > MAX_REQUEST {
                    return Some(Err(format!("a request is one line of at most {MAX_REQUEST} octets")));
                }
                let line = end.and_then(|end| inbox.get(..end))?;
                let request = serde_json::from_slice(line).map(Asked::Control);
                Some(request.map_err(|error| format!("not a request: {error}; ask \"view\" or \"watch\"")))
            }
            Kind::Metrics => {
                let complete =
                    inbox.windows(4).any(|end| end == b"\r\n\r\n") || inbox.windows(2).any(|end| end == b"\n\n");
                if !complete {
                    return (inbox.len() > MAX_REQUEST).then(|| Err("request too long".to_owned()));
                }
                let asked = inbox.starts_with(b"GET /metrics ") || inbox.starts_with(b"GET / ");
                Some(if asked { Ok(Asked::Metrics) } else { Err("there is only GET /metrics".to_owned()) })
            }
        }
    }

    /// An error response.
    fn error(self, why: &str) -> Vec<u8> {
        match self {
            Kind::Control => {
                let mut line = serde_json::to_vec(&Answer::Error(why.to_owned())).unwrap_or_default();
                line.push(b'\n');
                line
            }
            Kind::Metrics => {
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

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
