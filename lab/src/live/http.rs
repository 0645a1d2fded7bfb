//! The page's server: the page itself, what is to be seen now, and what the reader wants done.

use super::nemo::Wish;
use super::stage::Stage;
use anyhow::{Result, anyhow};
use std::net::TcpListener;
use tiny_http::{Header, Method, Request, Response, Server};

const PAGE: &str = include_str!("page/nemo.html");
const STYLE: &str = include_str!("page/nemo.css");
const SCRIPT: &str = include_str!("page/nemo.js");
/// A wish is a line; whoever sends more wants something else.
const LONGEST_WISH: usize = 1024;

/// Answers one request after the other, for ever.
pub(super) fn serve(door: TcpListener, stage: &Stage) -> Result<()> {
    let server = Server::from_listener(door, None).map_err(|why| anyhow!("cannot serve: {why}"))?;
    for request in server.incoming_requests() {
        answer(request, stage);
    }
    Ok(())
}

fn answer(mut request: Request, stage: &Stage) {
    let (status, kind, body) =
        if is_from_here(&request) { reply(&mut request, stage) } else { refused(403, "only from this machine") };
    let mut response = Response::from_string(body).with_status_code(status);
    if let Ok(header) = Header::from_bytes("Content-Type", kind) {
        response.add_header(header);
    }
    request.respond(response).ok(); // a reader who went away wants nothing
}

/// Whether the page was asked for by an address of this machine, and not by another site's name for it, whose scripts
/// could then move the vehicle.
fn is_from_here(request: &Request) -> bool {
    let host = request.headers().iter().find(|header| header.field.equiv("Host"));
    let name = host.map(|header| header.value.as_str()).unwrap_or_default();
    let name = name.rsplit_once(':').map_or(name, |(name, _)| name);
    ["127.0.0.1", "localhost"].contains(&name)
}

type Reply = (u16, &'static str, String);

fn reply(request: &mut Request, stage: &Stage) -> Reply {
    match (request.method(), request.url()) {
        (Method::Get, "/") => (200, "text/html; charset=utf-8", PAGE.to_owned()),
        (Method::Get, "/nemo.css") => (200, "text/css", STYLE.to_owned()),
        (Method::Get, "/nemo.js") => (200, "text/javascript", SCRIPT.to_owned()),
        (Method::Get, "/state") => (200, "application/json", stage.state().to_string()),
        (Method::Post, "/wish") => wish(request, stage),
        _ => refused(404, "there is /, /state and, to POST to, /wish"),
    }
}

/// A form on another page cannot send JSON without this server's leave, which it never gives.
fn wish(request: &mut Request, stage: &Stage) -> Reply {
    let kind = request.headers().iter().find(|header| header.field.equiv("Content-Type"));
    if kind.is_none_or(|kind| kind.value.as_str() != "application/json") {
        return refused(415, "a wish is application/json");
    }
    if request.body_length().is_none_or(|length| length > LONGEST_WISH) {
        return refused(413, "a wish is shorter");
    }
    match serde_json::from_reader::<_, Wish>(request.as_reader()) {
        Ok(wish) if stage.put(wish) => (202, "application/json", "{}".to_owned()),
        Ok(_) => refused(503, "one thing after the other"),
        Err(error) => refused(400, &error.to_string()),
    }
}

fn refused(status: u16, why: &str) -> Reply {
    (status, "text/plain; charset=utf-8", why.to_owned() + "\n")
}
