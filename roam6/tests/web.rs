//! The status page, with real daemons: what its server answers, and what a person sees and clicks in a browser.

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test fails at the assertion")]

mod testbed;
#[path = "testbed/webdriver.rs"]
mod webdriver;

use serde_json::Value;
use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use testbed::{BINARY, Running, Testbed, wait_for, wait_or_report};
use webdriver::Browser;

const PORT: u16 = 9107;
/// Keys of WebDriver.
const TAB: char = '\u{e004}';
const ENTER: char = '\u{e007}';

impl Testbed {
    /// The page of the mobile router.
    fn serve_page(&self) -> Running {
        let server = self.start_page(&[]);
        wait_for("the page", || self.router.enter(|| TcpStream::connect((Ipv4Addr::LOCALHOST, PORT)).is_ok()));
        server
    }

    /// Starts the server of the page with the `[web]` table of a file, if the test has written one.
    fn start_page(&self, more: &[&str]) -> Running {
        let (folder, config) = (self.file("mr").join("run"), self.file("web.toml"));
        let words = [BINARY, "web", "--run-dir", folder.to_str().unwrap(), "--config", config.to_str().unwrap()];
        self.router.start(&[&words, more].concat())
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

    /// Three minutes of traffic over slow links, and two moves, for the plots of the pictures.
    fn fill_plots(&self) {
        self.agent.shell(
            "tc qdisc add dev visit0 root tbf rate 3mbit burst 3kb latency 90ms && \
             tc qdisc add dev visit1 root tbf rate 2500kbit burst 3kb latency 90ms",
        );
        let phases = [("0.02", "true"), ("0.004", "true"), ("0.01", "ip link set visit1 down"), ("0.003", "true")];
        let more = [
            ("0.006", "ip link set visit1 up && ip address add 2001:db8:4::1/64 dev visit1 nodad"),
            ("0.02", "true"),
            ("0.008", "true"),
        ];
        for (interval, change) in phases.into_iter().chain(more) {
            self.agent.shell(change);
            let ping = ["ping", "-6", "-q", "-i", interval, "-s", "900", "-w", "25", "2001:db8:100::1"];
            self.agent.command(&ping).stdout(Stdio::null()).status().unwrap();
        }
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

/// Writes a password file as a person does who has no terminal.
fn write_password(file: &Path, password: &str) -> Output {
    let mut command = Command::new(BINARY);
    let piped = command.arg("web-password").arg(file).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    child.stdin.take().unwrap().write_all(format!("{password}\n").as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn other_addresses_need_the_password() {
    let test = "other_addresses_need_the_password";
    let Some(testbed) = Testbed::new(test) else { return };
    let file = testbed.file("web.password");
    assert_eq!(write_password(&file, "short").status.code(), Some(2));
    assert!(!file.exists());
    assert!(write_password(&file, "correct horse").status.success());
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.starts_with("SCRAM-SHA-256$") && !text.contains("horse"), "{text}");
    fs::write(testbed.file("web.toml"), "[web]\nlisten = \"[::]:9107\"\npassword_file = \"web.password\"\n").unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    let open = Command::new(BINARY).args(["web", "--config"]).arg(testbed.file("web.toml")).output().unwrap();
    assert!(!open.status.success() && String::from_utf8_lossy(&open.stderr).contains("chmod 600"), "{open:?}");
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    testbed.router.shell("ip address add 2001:db8:77::1/128 dev lo nodad");
    let _server = testbed.serve_page();

    // Without a session there is the form, and nothing of the state.
    assert!(testbed.get("/").1.contains("type=\"password\""));
    for path in ["/api/show/links", "/api/events", "/api/history", "/api/bindings", "/app.js", "/index.html"] {
        assert!(testbed.get(path).0.starts_with("HTTP/1.1 401"), "{path}");
    }
    let post = |origin: &str, media_type: &str, body: &str| {
        testbed.send(&format!(
            "POST /api/login HTTP/1.1\r\nHost: localhost:{PORT}\r\nOrigin: {origin}\r\nContent-Type: {media_type}\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        ))
    };
    let (here, scram, first) = ("http://localhost:9107", "application/scram-sha-256", "n,,n=roam6,r=0123456789abcdef");
    assert!(post("http://attacker.example", scram, first).0.starts_with("HTTP/1.1 403"));
    assert!(post(here, "text/plain", first).0.starts_with("HTTP/1.1 403"));
    let (head, challenge) = post(here, scram, first);
    assert!(head.starts_with("HTTP/1.1 200") && challenge.starts_with("r=0123456789abcdef"), "{head}: {challenge}");

    // The browser's own hash must be that of the server, on an address without encryption.
    if let Some(tool) = webdriver::missing() {
        return println!("skipped: {test}: {tool} is missing; run: scripts/install-deps browser");
    }
    let browser = Browser::start(&testbed.router, testbed.folder.path(), 500, 900);
    browser.open(&format!("http://[2001:db8:77::1]:{PORT}/"));
    let says = |selector: &str, words: &str| {
        wait_or_report(words, || browser.text(selector).contains(words), || browser.text("body"));
    };
    assert_eq!(browser.audit(), Vec::<String>::new());
    let enter = |password: &str| {
        browser.run(&format!("document.querySelector('#password').value = '{password}'"));
        browser.click("#enter");
    };
    enter("correct house");
    says("#problem", "the password is wrong");
    enter("correct horse");
    says("#map-title", "Paths");
    assert_eq!(browser.run("return document.cookie"), "", "scripts do not see the session");
    browser.open(&format!("http://[2001:db8:77::1]:{PORT}/"));
    says("#logout", "Log out");
    browser.click("#logout");
    says("#enter", "Log in");
    // Guesses are limited, and the limit is that of the client.
    for _ in 0..5 {
        assert!(post(here, scram, "c=biws,r=guess,p=guess").0.starts_with("HTTP/1.1 403"));
    }
    assert!(post(here, scram, first).0.starts_with("HTTP/1.1 429"));
    enter("correct horse");
    says("#map-title", "Paths");
}

#[test]
fn proxy_asks_by_a_unix_socket() {
    let Some(testbed) = Testbed::new("proxy_asks_by_a_unix_socket") else { return };
    let path = testbed.file("web.sock");
    let _server = testbed.start_page(&["--listen", path.to_str().unwrap()]);
    wait_for("the socket", || UnixStream::connect(&path).is_ok());
    let ask = |host: &str| {
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.write_all(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(ask("localhost").contains("id=\"map-title\""));
    assert!(ask("attacker.example").starts_with("HTTP/1.1 421"));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
}

/// The recipe of docs/control.md, with a real proxy.
#[test]
fn nginx_serves_the_page_to_the_owner_only() {
    let test = "nginx_serves_the_page_to_the_owner_only";
    for tool in [["nginx", "-v"], ["openssl", "version"], ["curl", "--version"]] {
        if Command::new(tool[0]).arg(tool[1]).output().is_err() {
            return println!("skipped: {test}: {} is missing", tool[0]);
        }
    }
    let Some(testbed) = Testbed::new(test) else { return };
    let path = |name: &str| testbed.file(name).to_str().unwrap().to_owned();
    let socket = path("web.sock");
    let _server = testbed.start_page(&["--listen", &socket]);
    wait_for("the socket", || UnixStream::connect(&socket).is_ok());
    for name in ["van", "owner", "stranger"] {
        let (key, certificate, subject) =
            (path(&format!("{name}.key")), path(&format!("{name}.pem")), format!("/CN={name}"));
        let words =
            ["req", "-x509", "-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-days", "2"];
        let mut made = Command::new("openssl");
        made.args(words).args(["-subj", &subject, "-keyout", &key, "-out", &certificate]);
        assert!(made.stderr(Stdio::null()).status().unwrap().success());
    }
    let recipe = include_str!("../../docs/control.md").split("# nginx\n").nth(1).unwrap();
    let server = recipe.lines().take_while(|line| line.starts_with("    ")).collect::<Vec<_>>().join("\n");
    let server = server.replace("/etc/ssl", testbed.folder.path().to_str().unwrap());
    let server = server.replace("/run/roam6-web/web.sock", &socket);
    let settings = format!(
        "user root;\ndaemon off;\npid {};\nerror_log {};\nevents {{}}\nhttp {{\naccess_log off;\n{server}\n}}\n",
        path("nginx.pid"),
        path("nginx.log")
    );
    fs::write(testbed.file("nginx.conf"), settings).unwrap();
    let _proxy = testbed.router.start(&["nginx", "-c", &path("nginx.conf"), "-e", &path("nginx.log")]);
    let ask = |words: &[&str]| {
        let command = ["curl", "-sk", "--max-time", "30", "https://[::1]/"];
        let output = testbed.router.command(&[&command, words].concat()).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let as_whom = |name: &str| ask(&["--cert", &path(&format!("{name}.pem")), "--key", &path(&format!("{name}.key"))]);
    let log = || fs::read_to_string(testbed.file("nginx.log")).unwrap_or_default();
    wait_or_report("the page by the proxy", || as_whom("owner").contains("id=\"map-title\""), log);
    for answer in [ask(&[]), as_whom("stranger")] {
        assert!(answer.contains("400 Bad Request") && !answer.contains("map-title"), "{answer}");
    }
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
    if std::env::var_os("ROAM6_BLESS").is_some() {
        testbed.fill_plots();
    }
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
    assert_eq!(browser.audit(), Vec::<String>::new());
    // By the keyboard alone: Tab reaches the paths, Enter shows the row, and what has the focus is seen.
    let focused = || browser.run("return document.activeElement.getAttribute('aria-label') ?? ''").to_string();
    let reach_path = || {
        browser.press(TAB);
        focused().starts_with("\"up1")
    };
    wait_or_report("the focus on a path", reach_path, focused);
    assert_ne!(browser.run("return getComputedStyle(document.activeElement).outlineStyle"), "none");
    browser.press(ENTER);
    wait_for("the row", || browser.run("return document.querySelector('tr.chosen')?.id").as_str() == Some("link-up1"));
    browser.run("document.activeElement.blur(); window.scrollTo(0, 0)");
    browser.bless_picture("page.png");

    // A phone, in the dark: nothing is wider than the window, all controls have names, and nothing was refused.
    browser.set_dark(true);
    browser.resize(500, 900);
    let wide = "return document.documentElement.scrollWidth - document.documentElement.clientWidth";
    wait_or_report("a narrow page", || browser.run(wide) == 0, || browser.run(wide).to_string());
    assert_eq!(browser.audit(), Vec::<String>::new());
    browser.bless_picture("page-phone.png");
    assert_eq!(browser.console(), Vec::<String>::new());
}
