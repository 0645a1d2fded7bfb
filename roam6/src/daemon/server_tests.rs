//! Clients that behave and clients that do not, against the server without a daemon.

use super::*;
use std::io::BufRead;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use tempfile::TempDir;

/// A reactor that reports nothing: the tests serve every token in turn.
struct NullReactor;

impl Reactor for NullReactor {
    fn watch(&mut self, _: BorrowedFd<'_>, _: u32, _: Interest) -> Result<(), String> {
        Ok(())
    }

    fn rewatch(&mut self, _: BorrowedFd<'_>, _: u32, _: Interest) -> Result<(), String> {
        Ok(())
    }
}

struct Testbed {
    server: Server,
    folder: TempDir,
    metrics: std::net::SocketAddr,
    now: Time,
}

impl Testbed {
    fn new() -> Testbed {
        let folder = tempfile::tempdir().unwrap();
        let control = UnixListener::bind(folder.path().join("control.sock")).unwrap();
        let metrics = TcpListener::bind("127.0.0.1:0").unwrap();
        control.set_nonblocking(true).unwrap();
        metrics.set_nonblocking(true).unwrap();
        let address = metrics.local_addr().unwrap();
        let server = Server::new(2, control, Some(metrics), &mut NullReactor).unwrap();
        Testbed { server, folder, metrics: address, now: Time::ZERO }
    }

    fn client(&mut self, request: &str) -> UnixStream {
        let mut client = UnixStream::connect(self.folder.path().join("control.sock")).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        client.write_all(request.as_bytes()).unwrap();
        client
    }

    /// Serves all clients until no request is left, with the answers of the daemon.
    fn serve(&mut self) {
        for _ in 0..4 {
            let tokens: Vec<u32> =
                [CONTROL_TOKEN, METRICS_TOKEN].into_iter().chain(self.server.clients.keys().copied()).collect();
            for token in tokens {
                let ready = FdReady { token: self.server.base + token, readable: true, writable: true };
                match self.server.ready(ready, self.now, &mut NullReactor) {
                    Some((id, Request::View)) => {
                        let response = Response::State(Box::default());
                        self.server.respond(id, &response, self.now, &mut NullReactor);
                    }
                    Some((id, Request::Watch)) => {
                        self.server.begin_watch(id);
                        let state = b"{\"event\":\"state_link\"}\n".to_vec();
                        self.server.respond_encoded(id, state, self.now, &mut NullReactor);
                    }
                    Some((id, Request::Metrics)) => {
                        self.server.respond_metrics(id, b"up 1\n", self.now, &mut NullReactor)
                    }
                    Some((id, _)) => {
                        self.server.respond(id, &Response::Done, self.now, &mut NullReactor);
                    }
                    None => {}
                }
            }
        }
    }

    fn expire(&mut self, after: Duration) {
        self.now = self.now + after;
        self.server.expire(self.now, &mut NullReactor);
    }
}

fn all(client: impl Read) -> String {
    let mut text = Vec::new();
    // A server that closes early resets the connection after its last answer.
    let _ = io::BufReader::new(client).read_to_end(&mut text);
    String::from_utf8(text).unwrap()
}

#[test]
fn a_client_is_disconnected_after_its_response() {
    let mut bench = Testbed::new();
    let client = bench.client("\"view\"\n");
    bench.serve();
    let response: Response = serde_json::from_str(&all(client)).unwrap();
    assert_eq!(response, Response::State(Box::default()));
    let client = bench.client("{\"unbind\":\"2001:db8::1\"}\n");
    bench.serve();
    assert_eq!(all(client), "\"done\"\n");
    assert!(bench.server.clients.is_empty());
}

#[test]
fn an_invalid_request_is_answered_with_an_error() {
    let mut bench = Testbed::new();
    for request in ["\"dance\"\n", "\n", "{\"unbind\":7}\n", "\u{7f}\u{0}\n", &"x".repeat(MAX_REQUEST + 2)] {
        let client = bench.client(request);
        bench.serve();
        let response: Response = serde_json::from_str(&all(client)).unwrap();
        assert!(matches!(response, Response::Error(_)), "{request:?}");
    }
    assert!(bench.server.clients.is_empty());
}

#[test]
fn an_oversized_request_is_answered_with_the_limit() {
    let mut bench = Testbed::new();
    for end in ["", "\n"] {
        let client = bench.client(&format!("{}{end}", "x".repeat(MAX_REQUEST + 2)));
        bench.serve();
        let response: Response = serde_json::from_str(&all(client)).unwrap();
        assert_eq!(response, Response::Error(format!("a request is one line of at most {MAX_REQUEST} octets")));
    }
}

#[test]
fn watchers_receive_the_state_and_then_events() {
    let mut bench = Testbed::new();
    let mut client = io::BufReader::new(bench.client("\"watch\"\n"));
    bench.serve();
    bench.server.publish("{\"event\":\"bound\"}", bench.now, &mut NullReactor);
    let mut line = || {
        let mut text = String::new();
        client.read_line(&mut text).unwrap();
        text
    };
    assert_eq!(line(), "{\"event\":\"state_link\"}\n");
    assert_eq!(line(), "{\"event\":\"bound\"}\n");
    drop(client);
    bench.serve();
    assert!(!bench.server.has_watchers(), "a disconnected watcher is removed");
}

#[test]
fn events_follow_the_state_however_large_it_is() {
    let mut bench = Testbed::new();
    let mut client = bench.client("\"watch\"\n");
    let token = FIRST_CLIENT;
    let ready = |token| FdReady { token: 2 + token, readable: true, writable: true };
    assert!(bench.server.ready(ready(CONTROL_TOKEN), bench.now, &mut NullReactor).is_none());
    let (id, _) = bench.server.ready(ready(token), bench.now, &mut NullReactor).unwrap();
    bench.server.begin_watch(id);
    bench.server.publish("{\"event\":\"bound\"}", bench.now, &mut NullReactor);
    // However long that is.
    bench.expire(REQUEST_TIMEOUT + READ_TIMEOUT);
    bench.server.respond_encoded(id, b"{\"event\":\"state_link\"}\n".to_vec(), bench.now, &mut NullReactor);
    let expected = "{\"event\":\"state_link\"}\n{\"event\":\"bound\"}\n";
    let mut received = vec![0; expected.len()];
    client.read_exact(&mut received).unwrap();
    assert_eq!(String::from_utf8(received).unwrap(), expected);
}

#[test]
fn a_slow_watcher_is_disconnected_with_an_error() {
    let mut bench = Testbed::new();
    let slow = bench.client("\"watch\"\n");
    bench.serve();
    let event = format!("{{\"event\":\"{}\"}}", "x".repeat(1000));
    for _ in 0..4000 {
        bench.server.publish(&event, bench.now, &mut NullReactor);
        let waiting: usize = bench.server.clients.values().map(|client| client.queue.len()).sum();
        assert!(waiting < 3 * MAX_BACKLOG);
    }
    assert!(!bench.server.has_watchers());
    let reader = std::thread::spawn(move || all(slow));
    while !bench.server.clients.is_empty() {
        bench.serve();
    }
    let received = reader.join().unwrap();
    let last: Response = serde_json::from_str(received.lines().last().unwrap()).unwrap();
    assert!(matches!(last, Response::Error(why) if why.starts_with("too slow")));
    assert!(received.lines().all(|line| line.starts_with('{') && line.ends_with('}')), "no line is torn");
}

#[test]
fn idle_clients_time_out() {
    let mut bench = Testbed::new();
    let silent = bench.client("\"vie");
    let watcher = bench.client("\"watch\"\n");
    bench.serve();
    assert!(bench.server.deadline().is_some());
    bench.expire(REQUEST_TIMEOUT);
    assert_eq!(all(silent), "");
    assert_eq!(bench.server.clients.len(), 1, "a watcher that has read all may wait for ever");
    while bench.server.clients.values().all(|client| client.queue.is_empty()) {
        bench.server.publish(&"y".repeat(1000), bench.now, &mut NullReactor);
    }
    bench.expire(READ_TIMEOUT);
    assert!(bench.server.clients.is_empty());
    drop(watcher);
}

#[test]
fn clients_beyond_the_limit_are_refused() {
    let mut bench = Testbed::new();
    let clients: Vec<UnixStream> = (0..MAX_CLIENTS).map(|_| bench.client("")).collect();
    bench.serve();
    let late = bench.client("");
    bench.serve();
    assert_eq!(all(late), format!("{{\"error\":\"too many clients, {MAX_CLIENTS} at most\"}}\n"));
    drop(clients);
    bench.serve();
    let client = bench.client("\"view\"\n");
    bench.serve();
    assert!(all(client).starts_with("{\"state\""));
}

#[test]
fn metrics_clients_do_not_exhaust_control_clients() {
    let mut bench = Testbed::new();
    let idle: Vec<TcpStream> = (0..MAX_CLIENTS).map(|_| TcpStream::connect(bench.metrics).unwrap()).collect();
    while bench.server.clients.len() < idle.len() {
        bench.serve();
    }
    let client = bench.client("\"view\"\n");
    bench.serve();
    assert!(all(client).starts_with("{\"state\""));
}

#[test]
fn a_burst_of_connections_does_not_delay_other_clients() {
    let mut bench = Testbed::new();
    let crowd: Vec<UnixStream> = (0..2 * MAX_CLIENTS).map(|_| bench.client("")).collect();
    let ready = FdReady { token: 2 + CONTROL_TOKEN, readable: true, writable: false };
    bench.server.ready(ready, bench.now, &mut NullReactor);
    let (last, welcome) = (crowd.last().unwrap(), bench.server.clients.len());
    last.set_nonblocking(true).unwrap();
    let response = { last }.read(&mut [0; 1]).map_err(|error| error.kind());
    assert_eq!((welcome, response), (MAX_CLIENTS, Err(ErrorKind::WouldBlock)), "it waits for the next turn");
    bench.server.ready(ready, bench.now, &mut NullReactor);
    assert!(matches!({ last }.read(&mut [0; 1]), Ok(1)), "too many");
}

#[test]
fn metrics_are_served_by_http() {
    let mut bench = Testbed::new();
    for (request, response) in [
        ("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.0 200 OK\r\n"),
        ("GET /metrics?once HTTP/1.1\r\nHost: [::1]:9106\r\n\r\n", "HTTP/1.0 200 OK\r\n"),
        ("GET /metrics HTTP/1.1\r\nHost: attacker.example:9106\r\n\r\n", "HTTP/1.0 400 Bad Request\r\n"),
        ("GET /etc/passwd HTTP/1.1\r\n\r\n", "HTTP/1.0 400 Bad Request\r\n"),
        ("\"view\"\n\n", "HTTP/1.0 400 Bad Request\r\n"),
    ] {
        let mut client = TcpStream::connect(bench.metrics).unwrap();
        client.write_all(request.as_bytes()).unwrap();
        let reader = std::thread::spawn(move || all(client));
        while !reader.is_finished() {
            bench.serve();
        }
        let page = reader.join().unwrap();
        assert!(page.starts_with(response), "{page}");
        assert_eq!(page.ends_with("\r\n\r\nup 1\n"), response.contains("200"), "{page}");
    }
}
