//! What the page consists of, and the data that it asks for.

use super::Site;
use super::http::{COOKIE, Ends, Head, Method};
use super::session::{Answer, Client, SESSION_LIFETIME, Sessions};
use crate::control::client::send_request;
use crate::control::part::Part;
use crate::control::{NodeState, Request, Response};
use crate::exit::Failure;
use clap::ValueEnum;
use core::time::Duration;
use roam6_proto::contract::view::{BindingRole, BindingView, TunnelView};
use serde::Serialize;
use std::sync::PoisonError;
use std::time::Instant;

/// Most rows in one answer.
const MAX_ROWS: usize = 50;
/// Most bindings of a home agent that are searched: it may have a million.
const MAX_SEARCHED: usize = 5000;
/// How long the number of bindings is used.
const COUNT_AGE: Duration = Duration::from_secs(60);
const UNEXPECTED: &str = "unexpected response from the daemon; does it have a different version?";

/// The files of the page.
const FILES: [(&str, &str, &str); 8] = [
    ("/", "text/html; charset=utf-8", include_str!("page/index.html")),
    ("/style.css", "text/css; charset=utf-8", include_str!("page/style.css")),
    ("/app.js", "text/javascript; charset=utf-8", include_str!("page/app.js")),
    ("/chart.js", "text/javascript; charset=utf-8", include_str!("page/chart.js")),
    ("/stations.js", "text/javascript; charset=utf-8", include_str!("page/stations.js")),
    ("/login", "text/html; charset=utf-8", include_str!("page/login.html")),
    ("/login.js", "text/javascript; charset=utf-8", include_str!("page/login.js")),
    ("/icon.svg", "image/svg+xml", include_str!("page/icon.svg")),
];

/// Files that are no secret: the form for the password needs them.
const OPEN: [&str; 4] = ["/login", "/login.js", "/style.css", "/icon.svg"];
/// The type of the messages of a login. A form of another site cannot send it.
const LOGIN_TYPE: &str = "application/scram-sha-256";
/// Where the page has the button that ends the session, if there is one.
const LOGOUT_MARK: &str = "<!-- logout -->";
const LOGOUT_BUTTON: &str = "<button id=\"logout\" type=\"button\">Log out</button>";

/// An answer to a request.
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) media_type: &'static str,
    pub(super) body: Vec<u8>,
    /// The line that sets or removes the cookie of the session.
    pub(super) cookie: Option<String>,
}

/// The answer to a search.
#[derive(Serialize)]
struct Bindings {
    /// Number of all bindings.
    total: usize,
    /// Number of those that match; `None` if they were not searched.
    found: Option<usize>,
    bindings: Vec<BindingView>,
    tunnels: Vec<TunnelView>,
}

impl Reply {
    fn new(media_type: &'static str, body: impl Into<Vec<u8>>) -> Reply {
        Reply { status: 200, media_type, body: body.into(), cookie: None }
    }

    fn json(value: &impl Serialize) -> Reply {
        Reply::new("application/json", serde_json::to_vec(value).unwrap_or_default())
    }

    /// An error, in one line of text.
    pub(super) fn error(status: u16, why: &str) -> Reply {
        Reply { status, ..Reply::new("text/plain; charset=utf-8", format!("{why}\n")) }
    }

    /// The reason phrase (RFC 9110 §15).
    pub(super) fn reason(&self) -> &'static str {
        match self.status {
            200 => "OK",
            400 => "Bad Request",
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "Not Found",
            405 => "Method Not Allowed",
            413 => "Content Too Large",
            421 => "Misdirected Request",
            429 => "Too Many Requests",
            431 => "Request Header Fields Too Large",
            503 => "Service Unavailable",
            _ => "Error",
        }
    }
}

/// Answers a request. With a password, no state is disclosed without a session.
pub(super) fn answer(head: &Head<'_>, body: &[u8], ends: Ends, site: &Site) -> Reply {
    let (path, query) = head.target.split_once('?').unwrap_or((head.target, ""));
    if head.method == Method::Post {
        return post(head, path, body, ends, site);
    }
    let has_session =
        || head.token.is_some_and(|token| site.with_sessions(|all| all.has(Instant::now(), token)) == Some(true));
    let is_allowed = site.sessions.is_none() || OPEN.contains(&path) || has_session();
    match (is_allowed, path) {
        (false, "/") => file("/login").unwrap_or_else(|| Reply::error(404, "there is no such page")),
        (false, _) => Reply::error(401, "log in first"),
        (true, "/") if site.sessions.is_some() => {
            let text = include_str!("page/index.html").replace(LOGOUT_MARK, LOGOUT_BUTTON);
            Reply::new("text/html; charset=utf-8", text)
        }
        (true, _) => file(path).unwrap_or_else(|| state(path, query, site)),
    }
}

fn file(path: &str) -> Option<Reply> {
    let (_, media_type, text) = FILES.iter().find(|(name, ..)| *name == path)?;
    Some(Reply::new(media_type, *text))
}

/// The two messages of a login (RFC 5802 §5), and the end of a session.
fn post(head: &Head<'_>, path: &str, body: &[u8], ends: Ends, site: &Site) -> Reply {
    let from_here =
        |origin: &str| origin.split_once("://").is_some_and(|(_, host)| host.eq_ignore_ascii_case(head.host));
    if site.sessions.is_none() || !["/api/login", "/api/logout"].contains(&path) {
        return Reply::error(405, "the page is read only: GET and HEAD");
    }
    // A page of another site has another origin.
    if !head.origin.is_some_and(from_here) || head.media_type != Some(LOGIN_TYPE) {
        return Reply::error(403, "this is not a request of the page");
    }
    if path == "/api/logout" {
        head.token.and_then(|token| site.with_sessions(|all| all.end(token)));
        return Reply { cookie: Some(cookie("", Duration::ZERO)), ..Reply::new("text/plain; charset=utf-8", "") };
    }
    let message = core::str::from_utf8(body).unwrap_or_default();
    let client = Client::of(ends.client);
    match site.with_sessions(|all| all.receive(Instant::now(), client, message)) {
        Some(Answer::Continue(text)) => Reply::new(LOGIN_TYPE, text),
        Some(Answer::Welcome(text, token)) => {
            Reply { cookie: Some(cookie(&token, SESSION_LIFETIME)), ..Reply::new(LOGIN_TYPE, text) }
        }
        Some(Answer::TooMany) => Reply::error(429, "too many wrong passwords: wait a minute"),
        Some(Answer::Failed(why)) => Reply::error(503, &why),
        Some(Answer::Refused) | None => Reply::error(403, "the password is wrong"),
    }
}

fn cookie(token: &str, age: Duration) -> String {
    format!("Set-Cookie: {COOKIE}={token}; HttpOnly; SameSite=Strict; Path=/; Max-Age={}\r\n", age.as_secs())
}

/// A part of the state.
fn state(path: &str, query: &str, site: &Site) -> Reply {
    let parameter = |name: &str| query.split('&').filter_map(|pair| pair.split_once('=')).find(|(key, _)| *key == name);
    if let Some(part) = path.strip_prefix("/api/show/") {
        return show(site, part);
    }
    match path {
        "/api/bindings" => match bindings(site, &decode(parameter("find").map_or("", |(_, value)| value))) {
            Ok(found) => Reply::json(&found),
            Err(why) => Reply::error(503, &why),
        },
        "/api/history" => Reply::json(&*site.history.lock().unwrap_or_else(PoisonError::into_inner)),
        "/api/events" => {
            let after = parameter("after").and_then(|(_, value)| value.parse().ok()).unwrap_or(0);
            Reply::new("application/json", site.events.lock().unwrap_or_else(PoisonError::into_inner).since(after))
        }
        _ => Reply::error(404, "there is no such page"),
    }
}

/// The percent-decoded text of a query (RFC 3986 §2.1); what is no valid text has replacement characters.
fn decode(value: &str) -> String {
    let (mut octets, mut rest) = (Vec::new(), value.bytes());
    while let Some(octet) = rest.next() {
        let digit = |octet: Option<u8>| octet.and_then(|octet| char::from(octet).to_digit(16));
        match octet {
            b'%' => match (digit(rest.next()), digit(rest.next())) {
                (Some(high), Some(low)) => octets.extend(u8::try_from(high * 16 + low)),
                _ => octets.push(b'%'),
            },
            b'+' => octets.push(b' '),
            octet => octets.push(octet),
        }
    }
    String::from_utf8_lossy(&octets).into_owned()
}

/// One part of the daemon's state, as `roam6 show` has it.
fn show(site: &Site, name: &str) -> Reply {
    // Areas have a command of their own in place of `roam6 show`.
    let is_named = |part: &&Part| match part {
        Part::Areas => name == "areas",
        part => part.to_possible_value().is_some_and(|value| value.matches(name, false)),
    };
    match Part::value_variants().iter().chain(&[Part::Areas]).find(is_named) {
        None => Reply::error(404, "there is no such part of the state"),
        Some(part) if part.is_paged() => Reply::error(400, "ask for /api/bindings"),
        Some(part) => match part_of(site, *part) {
            Ok(state) => Reply::json(&state),
            Err(why) => Reply::error(503, &why),
        },
    }
}

/// The bindings whose addresses or prefixes contain `find`, those with faults first, and their tunnels. A home agent with
/// very many bindings is not asked for them.
fn bindings(site: &Site, find: &str) -> Result<Bindings, String> {
    let counted = site.binding_count()?;
    if counted > MAX_SEARCHED {
        return Ok(Bindings { total: counted, found: None, bindings: Vec::new(), tunnels: Vec::new() });
    }
    let find = find.trim().to_lowercase();
    let mut bindings = part_of(site, Part::Bindings)?.view.bindings;
    let total = bindings.len();
    bindings.retain(|binding| matches(binding, &find));
    bindings.sort_by_key(|binding| binding.last_error.is_none());
    let found = Some(bindings.len());
    bindings.truncate(MAX_ROWS);
    let mut tunnels = part_of(site, Part::Tunnels)?.view.tunnels;
    let is_of = |tunnel: &TunnelView| {
        let home = |binding: &BindingView| tunnel.far.iter().any(|prefix| prefix.contains(binding.home_address.0));
        bindings.iter().any(|binding| home(binding) || binding.role == BindingRole::MobileRouter)
    };
    tunnels.retain(is_of);
    tunnels.truncate(MAX_ROWS);
    Ok(Bindings { total, found, bindings, tunnels })
}

fn matches(binding: &BindingView, find: &str) -> bool {
    let addresses = [Some(binding.home_address.0), binding.care_of, Some(binding.home_agent)];
    let mut texts = addresses.into_iter().flatten().map(|address| address.to_string());
    let is_named = binding.name.as_ref().is_some_and(|name| name.to_lowercase().contains(find));
    is_named
        || texts.any(|text| text.contains(find))
        || binding.prefixes.iter().any(|prefix| prefix.to_string().contains(find))
}

/// One part of the daemon's state.
///
/// # Errors
/// Why there is none, in one line.
pub(super) fn part_of(site: &Site, part: Part) -> Result<NodeState, String> {
    match request(site, &Request::Part(part))? {
        Response::State(state) => Ok(*state),
        _ => Err(UNEXPECTED.to_owned()),
    }
}

/// Sends the daemon a request.
fn request(site: &Site, request: &Request) -> Result<Response, String> {
    match send_request(request, &site.socket) {
        Ok(Response::Error(why)) | Err(Failure::Other(why) | Failure::NoDaemon(why) | Failure::Usage(why)) => Err(why),
        Ok(response) => Ok(response),
        Err(Failure::Config(_)) => Err(UNEXPECTED.to_owned()),
    }
}

impl Site {
    /// Asks the sessions, if the page has a password.
    fn with_sessions<T>(&self, ask: impl FnOnce(&mut Sessions) -> T) -> Option<T> {
        self.sessions.as_ref().map(|all| ask(&mut all.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Number of bindings, at most a minute old: a home agent counts up to a million for it.
    fn binding_count(&self) -> Result<usize, String> {
        let mut counted = self.bindings.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, count)) = counted.filter(|(at, _)| at.elapsed() < COUNT_AGE) {
            return Ok(count);
        }
        let Response::Metrics(page) = request(self, &Request::Metrics)? else { return Err(UNEXPECTED.to_owned()) };
        let count = count_bindings(&page);
        *counted = Some((Instant::now(), count));
        Ok(count)
    }
}

/// The sum of the metric `roam6_bindings`.
fn count_bindings(page: &str) -> usize {
    let rows = page.lines().filter(|line| line.starts_with("roam6_bindings{"));
    rows.filter_map(|line| line.rsplit(' ').next()?.parse::<usize>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bindings_are_counted_by_the_metrics() {
        let page = "# TYPE roam6_bindings gauge\nroam6_bindings{role=\"home_agent\",state=\"bound\"} 2\n\
                    roam6_bindings{role=\"mobile_router\",state=\"bound\"} 1\nroam6_links 7\n";
        assert_eq!(count_bindings(page), 3);
    }

    #[test]
    fn queries_are_percent_decoded() {
        assert_eq!(decode("2001%3Adb8%3a%3A1"), "2001:db8::1");
        assert_eq!(decode("a+b%2"), "a b%");
        assert_eq!(decode("%ff%zz"), "\u{fffd}%");
    }

    /// What came from the network is put into the page as text only.
    #[test]
    fn page_has_no_way_to_run_text() {
        for (name, _, text) in FILES {
            for way in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                "new Function",
                "javascript:",
            ] {
                assert!(!text.contains(way), "{name} has {way}");
            }
            assert!(
                !text.contains("http://") || name == "/icon.svg" || name == "/chart.js" || name == "/app.js",
                "{name}"
            );
        }
        let total: usize = FILES.iter().map(|(.., text)| text.len()).sum();
        assert!(total <= 60 * 1024, "{total} octets");
    }
}
