//! The status page, with real daemons: what its server answers, and what a person sees and clicks in a browser.

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test fails at the assertion")]

mod testbed;
#[path = "testbed/webdriver.rs"]
mod webdriver;

use serde_json::Value;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};
use testbed::{BINARY, Running, Testbed, wait_for, wait_or_report};
use webdriver::Browser;

const PORT: u16 = 9107;

impl Testbed {
    /// The page of the mobile router.
    fn serve_page(&self) -> Running {
        let folder = self.file("mr").join("run");
        let server = self.router.start(&[BINARY, "web", "--run-dir", folder.to_str().unwrap()]);
        wait_for("the page", || self.router.enter(|| TcpStream::connect((Ipv4Addr::LOCALHOST, PORT)).is_ok()));
        server
    }

    fn connect(&self) -> TcpStream {
        let stream = self.router.enter(|| TcpStream::connect((Ipv4Addr::LOCALHOST, PORT)).unwrap());
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    }

    /// Sends a request; returns the head and the body of the answer.
    fn send(&self, request: &str) -> (String, String) {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        // One client too many is disconnected.
        let _ = stream.read_to_string(&mut answer);
        answer.split_once("\r\n\r\n").map(|(head, body)| (head.to_owned(), body.to_owned())).unwrap_or_default()
    }

    fn get(&self, path: &str) -> (String, String) {
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: localhost:{PORT}\r\n\r\n"))
    }

    fn json(&self, path: &str) -> Value {
        let (head, body) = self.get(path);
        assert!(head.starts_with("HTTP/1.1 200 OK"), "{path}: {head}: {body}");
        serde_json::from_str(&body).unwrap()
    }
}

#[test]
fn page_serves_the_state_to_this_machine_only() {
    let Some(testbed) = Testbed::new("page_serves_the_state_to_this_machine_only") else { return };
    testbed.enroll(&[]);
    let _agent = testbed.start_agent();
    let _radvd = testbed.advertise("2001:db8:2::/64");
    let _router = testbed.start_router("");
    let _server = testbed.serve_page();
    testbed.await_binding("2001:db8:2:");
    let (head, body) = testbed.get("/");
    assert!(
        head.contains("text/html") && head.contains("default-src 'none'") && body.contains("<title>roam6"),
        "{head}"
    );
    let visited = || testbed.json("/api/show/links")["links"][0]["state"] == "visited";
    wait_or_report("an uplink", visited, || testbed.get("/api/show/links").1);
    let bindings = testbed.json("/api/bindings?find=2001%3Adb8%3A100%3A");
    assert_eq!((&bindings["total"], &bindings["found"]), (&1.into(), &1.into()), "{bindings}");
    assert_eq!(bindings["bindings"][0]["home_address"], "2001:db8:1::100");
    assert_eq!(testbed.json("/api/bindings?find=2001:db8:77")["found"], 0);
    wait_for("a sample", || {
        testbed.json("/api/history")[0]["links"]["up0"]["rx"].as_u64().is_some_and(|octets| octets > 0)
    });

    // A foreign site whose name resolves to this machine, and what is no request.
    let foreign = testbed.send("GET /api/show/links HTTP/1.1\r\nHost: attacker.example\r\n\r\n");
    assert!(foreign.0.starts_with("HTTP/1.1 421"), "{foreign:?}");
    assert!(testbed.send("POST / HTTP/1.1\r\nHost: localhost\r\n\r\n").0.starts_with("HTTP/1.1 405"));
    assert!(testbed.get("/../../etc/passwd").0.starts_with("HTTP/1.1 404"));
    let folder = testbed.file("mr").join("run");
    let open = Command::new(BINARY).args(["web", "--listen", "[::]:9107", "--run-dir"]).arg(folder).output().unwrap();
    assert_eq!(open.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&open.stderr).contains("ssh -L"));
}

#[test]
fn slow_clients_do_not_block_the_page() {
    let Some(testbed) = Testbed::new("slow_clients_do_not_block_the_page") else { return };
    let _server = testbed.serve_page();
    let mut slow: Vec<TcpStream> = (0..40).map(|_| testbed.connect()).collect();
    slow.iter_mut().for_each(|stream| drop(stream.write_all(b"GET / HT")));
    let began = Instant::now();
    wait_for("an answer beside slow clients", || testbed.get("/").0.starts_with("HTTP/1.1 200"));
    assert!(began.elapsed() < Duration::from_secs(60), "after {:?}", began.elapsed());
    // Without a daemon the page says so.
    let (head, body) = testbed.get("/api/show/links");
    assert!(head.starts_with("HTTP/1.1 503") && body.contains("is roam6 running?"), "{head}: {body}");
}

#[test]
fn browser_follows_a_move() {
    let test = "browser_follows_a_move";
    if let Some(tool) = webdriver::missing() {
        return println!("skipped: {test}: {tool} is missing; run: scripts/install-deps browser");
    }
    let Some(testbed) = Testbed::new(test) else { return };
    testbed.enroll(&[]);
    let _agent = testbed.start_agent();
    let _radvd = testbed.advertise("2001:db8:2::/64");
    let _other = testbed.add_other_network();
    let more = "\n[[mobile_router.uplink]]\ninterface = \"up1\"\n";
    let _router = testbed.start_router(more);
    let _server = testbed.serve_page();
    testbed.await_binding("2001:db8:2:");
    let browser = Browser::start(&testbed.router, testbed.folder.path(), 1200, 1500);
    browser.open(&format!("http://localhost:{PORT}/"));
    let says = |selector: &str, words: &str| {
        wait_or_report(words, || browser.text(selector).contains(words), || browser.text("body"));
    };
    says("#state", "connected");
    says("#map", "up1: in use");
    says("#bindings", "2001:db8:1::100");
    // A click on a path shows its row.
    browser.click("#map g[aria-label^='up0'] text");
    wait_for("the row", || browser.run("return document.querySelector('tr.chosen')?.id").as_str() == Some("link-up0"));
    testbed.agent.shell("ip link set visit1 down");
    says("#map", "up1: no carrier");
    says("#moves", "up1 lost its carrier");
    says("#state", "1 of 2 uplinks not usable");
    browser.run(
        "document.querySelector('#filter').value = 'link down'; \
                 document.querySelector('#filter').dispatchEvent(new Event('input'))",
    );
    says("#events", "link down");
    assert!(!browser.text("#events").contains("update sent"));
    says("#plots", "bit/s");
    browser.run("document.activeElement.blur(); window.scrollTo(0, 0)");
    browser.bless_picture("page.png");

    // A phone, in the dark: nothing is wider than the window, all controls have names, and nothing was refused.
    browser.set_dark(true);
    browser.resize(500, 900);
    let wide = "return document.documentElement.scrollWidth - document.documentElement.clientWidth";
    wait_or_report("a narrow page", || browser.run(wide) == 0, || browser.run(wide).to_string());
    let nameless = browser.run(
        "return [...document.querySelectorAll('input, button, [role=button], [role=img], [role=region]')].filter((element) => \
         !element.labels?.length && !element.textContent.trim() && !element.getAttribute('aria-label') && \
         !element.getAttribute('aria-labelledby')).map((element) => element.outerHTML)",
    );
    assert_eq!(nameless, Value::Array(Vec::new()));
    browser.bless_picture("page-phone.png");
    assert_eq!(browser.console(), Vec::<String>::new());
}
