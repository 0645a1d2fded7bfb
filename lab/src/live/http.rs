//! The HTTP server of the page: files, state, and commands.

use anyhow::{Result, anyhow};
use serde_json::Value;
use std::net::TcpListener;
use tiny_http::{Header, Method, Request, Response, Server};

const NOTHING: &str = "there is /, /state and, to POST to, /wish";
/// Maximum length of a command, octets.
const LONGEST_WISH: usize = 1024;

/// A page with its state.
pub(super) trait Site {
    /// Content type and text of a file of the page.
    fn file(&self, path: &str) -> Option<(&'static str, &'static str)>;

    /// The state to display; `query` is the query part of the URL.
    fn state(&self, query: &str) -> Value;

    /// Accepts a command; `false` if the queue is full. A page without commands accepts none.
    fn wish(&self, _: Value) -> serde_json::Result<bool> {
        Ok(false)
    }
}

/// Serves requests one after the other, for ever.
pub(super) fn serve(door: TcpListener, site: &dyn Site) -> Result<()> {
    let server = Server::from_listener(door, None).map_err(|why| anyhow!("cannot serve: {why}"))?;
    for request in server.incoming_requests() {
        answer(request, site);
    }
    Ok(())
}

fn answer(mut request: Request, site: &dyn Site) {
    let (status, kind, body) =
        if is_from_here(&request) { reply(&mut request, site) } else { refused(403, "only from this machine") };
    let mut response = Response::from_string(body).with_status_code(status);
    if let Ok(header) = Header::from_bytes("Content-Type", kind) {
        response.add_header(header);
    }
    request.respond(response).ok(); // a reader who went away wants nothing
}

/// Whether the Host header is an address of this machine. Otherwise a page of another site whose name resolves to this
/// machine could send commands (DNS rebinding).
fn is_from_here(request: &Request) -> bool {
    let host = request.headers().iter().find(|header| header.field.equiv("Host"));
    let name = host.map(|header| header.value.as_str()).unwrap_or_default();
    let name = name.rsplit_once(':').map_or(name, |(name, _)| name);
    ["127.0.0.1", "localhost"].contains(&name)
}

type Reply = (u16, &'static str, String);

fn reply(request: &mut Request, site: &dyn Site) -> Reply {
    let url = request.url().to_owned();
    let (path, query) = url.split_once('?').unwrap_or((&url, ""));
    match (request.method(), path) {
        (Method::Get, "/state") => (200, "application/json", site.state(query).to_string()),
        (Method::Post, "/wish") => wish(request, site),
        (Method::Get, path) => match site.file(path) {
            Some((kind, text)) => (200, kind, text.to_owned()),
            None => refused(404, NOTHING),
        },
        _ => refused(404, NOTHING),
    }
}

/// A form of another site cannot send JSON without CORS permission, which this server does not give.
fn wish(request: &mut Request, site: &dyn Site) -> Reply {
    let kind = request.headers().iter().find(|header| header.field.equiv("Content-Type"));
    if kind.is_none_or(|kind| kind.value.as_str() != "application/json") {
        return refused(415, "a wish is application/json");
    }
    if request.body_length().is_none_or(|length| length > LONGEST_WISH) {
        return refused(413, "a wish is shorter");
    }
    match serde_json::from_reader(request.as_reader()).and_then(|wish| site.wish(wish)) {
        Ok(true) => (202, "application/json", "{}".to_owned()),
        Ok(false) => refused(503, "one thing after the other"),
        Err(error) => refused(400, &error.to_string()),
    }
}

fn refused(status: u16, why: &str) -> Reply {
    (status, "text/plain; charset=utf-8", why.to_owned() + "\n")
}
