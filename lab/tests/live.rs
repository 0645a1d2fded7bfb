//! The live testbed: its page in a browser, and handovers on command.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what is wrong by failing")]

mod common;

use common::skipped;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const LAB: &str = env!("CARGO_BIN_EXE_roam6-lab");
/// Maximum number of requests for the state, and their interval.
const MAX_POLLS: u32 = 300;
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// A running testbed and the authority part of its URL.
struct Live {
    child: Child,
    authority: String,
}

impl Live {
    fn start(what: &str) -> Live {
        let mut child = Command::new(LAB).args(["live", what]).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let url = lines.map_while(Result::ok).find_map(|line| line.strip_prefix("http://").map(str::to_owned));
        let authority = url.unwrap().split('/').next().unwrap().to_owned();
        Live { child, authority }
    }

    /// Status and body of the answer.
    fn request(&self, request: &str, host: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.authority).unwrap();
        let length = body.len();
        let head = format!("{request} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
        write!(stream, "{head}Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        (status, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
    }

    /// The first state that satisfies `wanted`.
    fn wait(&self, wanted: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        for _ in 0..MAX_POLLS {
            let (status, body) = self.request("GET /state", &self.authority, "");
            assert_eq!(status, 200, "{body}");
            last = serde_json::from_str(&body).unwrap();
            if wanted(&last) {
                return last;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        panic!("still {last}");
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// The document that a browser builds from the page.
fn rendered_page(url: &str, folder: &Path) -> String {
    let mut browser = Command::new("chromium");
    browser.args(["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=3000", "--dump-dom"]);
    let output = browser.arg(format!("--user-data-dir={}", folder.display())).arg(url).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn nemo_page_moves_the_vehicle_on_command() {
    let roam6 = Path::new(LAB).with_file_name("roam6");
    let programs = ["ip", "ping", "radvd", "chromium", roam6.to_str().unwrap()];
    if skipped("nemo_page_moves_the_vehicle_on_command", &programs) {
        return;
    }
    let mut live = Live::start("nemo");
    let moved = r#"{"do": "plug", "uplink": "up0", "to": "fn1"}"#;
    assert_eq!(live.request("POST /command", "elsewhere.example", moved).0, 403, "another site's script");
    assert_eq!(
        live.request("POST /command", &live.authority, r#"{"do": "plug", "uplink": "up7", "to": "fn1"}"#).0,
        400
    );
    assert_eq!(live.request("POST /command", &live.authority, moved).0, 202);
    let state = live.wait(|state| state["moves"][0]["move"] == "up0: home to FN1");
    assert_eq!(state["moves"][0]["tcp_lives"], true, "{state}");
    assert_eq!(state["care_of"].as_array().unwrap().len(), 1, "{state}");
    let folder = tempfile::tempdir().unwrap();
    let seen = rendered_page(&format!("http://{}/", live.authority), folder.path());
    for wanted in ["A moving network", "is bound to 2001:db8:a1:", "up0: home to FN1", "continues</td>"] {
        assert!(seen.contains(wanted), "no '{wanted}' in {seen}");
    }
    kill(Pid::from_raw(i32::try_from(live.child.id()).unwrap()), Signal::SIGINT).unwrap();
    assert_eq!(live.child.wait().unwrap().code(), Some(130));
}

#[test]
fn geonet_page_shows_stations_and_packets() {
    let roam6 = Path::new(LAB).with_file_name("roam6");
    let name = "geonet_page_shows_stations_and_packets";
    if skipped(name, &["ip", "ping", "chromium", roam6.to_str().unwrap()]) {
        return;
    }
    let live = Live::start("geonet");
    // A ping was answered over the road.
    let unicast = |packet: &Value| packet["kind"] == "unicast";
    let state = live.wait(|state| state["packets"].as_array().unwrap().iter().filter(|one| unicast(one)).count() > 2);
    assert_eq!(state["stations"].as_array().unwrap().len(), 4, "{state}");
    assert!(state["packets"].as_array().unwrap().iter().any(|packet| packet["area"]["a"] == 1500), "{state}");
    let folder = tempfile::tempdir().unwrap();
    let seen = rendered_page(&format!("http://{}/", live.authority), folder.path());
    for wanted in ["data-name=\"rsu\"", "data-name=\"third\"", "<td>first</td>", "beacon</span>", "unicast</span>"] {
        assert!(seen.contains(wanted), "no '{wanted}' in {seen}");
    }
}
