//! The HTTP server of the page: files, state, and commands.

use anyhow::{Result, anyhow};
use serde_json::Value;
use std::net::TcpListener;
use tiny_http::{Header, Method, Request, Response, Server};

const NOT_FOUND: &str = "paths: /, /state, and /command for POST";
/// Maximum length of a command, octets.
const MAX_COMMAND: usize = 1024;

/// A page with its state.
pub(super) trait LivePage {
    /// Content type and text of a file of the page.
    fn file(&self, path: &str) -> Option<(&'static str, &'static str)>;

    /// The state to display; `query` is the query part of the URL.
    fn state(&self, query: &str) -> Value;

    /// Accepts a command; `false` if the queue is full. A page without commands accepts none.
    fn command(&self, _: Value) -> serde_json::Result<bool> {
        Ok(false)
    }
}

/// Serves requests one after the other, for ever.
pub(super) fn serve(listener: TcpListener, site: &dyn LivePage) -> Result<()> {
    let server = Server::from_listener(listener, None).map_err(|why| anyhow!("cannot serve: {why}"))?;
    for request in server.incoming_requests() {
        respond(request, site);
    }
    Ok(())
}

fn respond(mut request: Request, site: &dyn LivePage) {
    let (status, kind, body) =
        if is_local_request(&request) { reply(&mut request, site) } else { error_reply(403, "only from this machine") };
    let mut response = Response::from_string(body).with_status_code(status);
    if let Ok(header) = Header::from_bytes("Content-Type", kind) {
        response.add_header(header);
    }
    request.respond(response).ok(); // the client may have disconnected
}

/// Whether the Host header is an address of this machine. Otherwise a page of another site whose name resolves to this
/// machine could send commands (DNS rebinding).
fn is_local_request(request: &Request) -> bool {
    let host = request.headers().iter().find(|header| header.field.equiv("Host"));
    let name = host.map(|header| header.value.as_str()).unwrap_or_default();
    let name = name.rsplit_once(':').map_or(name, |(name, _)| name);
    ["127.0.0.1", "localhost"].contains(&name)
}

type Reply = (u16, &'static str, String);

fn reply(request: &mut Request, site: &dyn LivePage) -> Reply {
    let url = request.url().to_owned();
    let (path, query) = url.split_once('?').unwrap_or((&url, ""));
    match (request.method(), path) {
        (Method::Get, "/state") => (200, "application/json", site.state(query).to_string()),
        (Method::Post, "/command") => handle_command(request, site),
        (Method::Get, path) => match site.file(path) {
            Some((kind, text)) => (200, kind, text.to_owned()),
            None => error_reply(404, NOT_FOUND),
        },
        _ => error_reply(404, NOT_FOUND),
    }
}

/// A form of another site cannot send JSON without CORS permission, which this server does not give.
fn handle_command(request: &mut Request, site: &dyn LivePage) -> Reply {
    let kind = request.headers().iter().find(|header| header.field.equiv("Content-Type"));
    if kind.is_none_or(|kind| kind.value.as_str() != "application/json") {
        return error_reply(415, "the content type must be application/json");
    }
    if request.body_length().is_none_or(|length| length > MAX_COMMAND) {
        return error_reply(413, "the command is too long");
    }
    match serde_json::from_reader(request.as_reader()).and_then(|command| site.command(command)) {
        Ok(true) => (202, "application/json", "{}".to_owned()),
        Ok(false) => error_reply(503, "too many commands are queued"),
        Err(error) => error_reply(400, &error.to_string()),
    }
}

fn error_reply(status: u16, why: &str) -> Reply {
    (status, "text/plain; charset=utf-8", why.to_owned() + "\n")
}
