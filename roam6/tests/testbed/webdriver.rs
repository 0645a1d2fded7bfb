//! A browser in a namespace, steered by WebDriver (W3C Recommendation): chromedriver of Debian's chromium-driver.

use super::testbed::{Namespace, Running, wait_for};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const PORT: u16 = 9515;
/// Without these, the browser asks its maker's servers.
const ARGUMENTS: [&str; 8] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
];

/// A browser with one window.
pub(crate) struct Browser<'a> {
    namespace: &'a Namespace,
    session: String,
    _driver: Running,
}

/// Why there is no browser, if there is none.
pub(crate) fn missing() -> Option<&'static str> {
    ["chromium", "chromedriver"].into_iter().find(|tool| Command::new(tool).arg("--version").output().is_err())
}

impl<'a> Browser<'a> {
    pub(crate) fn start(namespace: &'a Namespace, folder: &Path, width: u32, height: u32) -> Browser<'a> {
        let port = format!("--port={PORT}");
        let mut driver = namespace.command(&["chromedriver", &port]);
        let driver = Running(driver.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        wait_for("chromedriver", || namespace.enter(|| TcpStream::connect((Ipv4Addr::LOCALHOST, PORT)).is_ok()));
        let mut browser = Browser { namespace, session: String::new(), _driver: driver };
        let mut arguments: Vec<String> = ARGUMENTS.map(str::to_owned).to_vec();
        arguments.push(format!("--user-data-dir={}", folder.join("browser").display()));
        arguments.push(format!("--window-size={width},{height}"));
        let options = json!({ "args": arguments, "binary": "/usr/bin/chromium" });
        let wanted =
            json!({ "alwaysMatch": { "goog:chromeOptions": options, "goog:loggingPrefs": { "browser": "ALL" } } });
        let answer = browser.request("POST", "/session", &json!({ "capabilities": wanted }));
        browser.session = format!("/session/{}", answer["sessionId"].as_str().expect("a session"));
        browser
    }

    fn request(&self, method: &str, path: &str, body: &Value) -> Value {
        let path = format!("{}{path}", self.session);
        let body = body.to_string();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{PORT}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        let mut stream = self.namespace.enter(|| TcpStream::connect((Ipv4Addr::LOCALHOST, PORT)).unwrap());
        stream.write_all(&[head.as_bytes(), body.as_bytes()].concat()).unwrap();
        let body = read_body(BufReader::new(stream));
        let mut answer: Value = serde_json::from_str(&body).expect(&body);
        assert!(answer["value"]["error"].is_null(), "{path}: {answer}");
        answer["value"].take()
    }

    pub(crate) fn open(&self, address: &str) {
        self.request("POST", "/url", &json!({ "url": address }));
    }

    /// Runs a function body in the page, and returns what it returns.
    pub(crate) fn run(&self, script: &str) -> Value {
        self.request("POST", "/execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// Text of the first element that the selector finds; empty without one.
    pub(crate) fn text(&self, selector: &str) -> String {
        let script = format!("return document.querySelector({})?.textContent ?? ''", json!(selector));
        self.run(&script).as_str().unwrap_or_default().to_owned()
    }

    /// Clicks in the middle of that element, as a person does.
    pub(crate) fn click(&self, selector: &str) {
        let found = self.request("POST", "/element", &json!({ "using": "css selector", "value": selector }));
        let element =
            found.as_object().and_then(|found| found.values().next()).and_then(Value::as_str).unwrap().to_owned();
        self.request("POST", &format!("/element/{element}/click"), &json!({}));
    }

    /// Presses a key, by its code point (WebDriver, 17.4.2).
    pub(crate) fn press(&self, key: char) {
        let keys = json!([{ "type": "keyDown", "value": key }, { "type": "keyUp", "value": key }]);
        self.request("POST", "/actions", &json!({ "actions": [{ "type": "key", "id": "keyboard", "actions": keys }] }));
    }

    /// What the page lacks for people who do not use a mouse, or do not see well: by checks of its own, and by axe-core where
    /// that is installed.
    pub(crate) fn audit(&self) -> Vec<String> {
        let texts = |found: Value| -> Vec<String> {
            found.as_array().into_iter().flatten().map(|text| text.as_str().unwrap_or_default().to_owned()).collect()
        };
        let mut missing = texts(self.run(include_str!("audit.js")));
        let axe: PathBuf =
            [env!("CARGO_MANIFEST_DIR"), "..", "target", "npm", "node_modules", "axe-core", "axe.min.js"]
                .iter()
                .collect();
        match fs::read_to_string(&axe) {
            Ok(text) => {
                let rules = "{ runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] }";
                let run = format!(
                    "{text}; return axe.run({rules}).then((found) => found.violations.map((one) => \
                     `${{one.id}}: ${{one.nodes.map((node) => node.html.slice(0, 90)).join(' ')}}`))"
                );
                missing.extend(texts(self.run(&run)));
            }
            Err(_) => println!("skipped: axe-core is missing; run: npm install --prefix target/npm axe-core@4"),
        }
        missing
    }

    pub(crate) fn resize(&self, width: u32, height: u32) {
        self.request("POST", "/window/rect", &json!({ "width": width, "height": height }));
    }

    /// The dark or the light scheme of colours.
    pub(crate) fn set_dark(&self, dark: bool) {
        let scheme = if dark { "dark" } else { "light" };
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        let command = json!({ "cmd": "Emulation.setEmulatedMedia", "params": features });
        self.request("POST", "/goog/cdp/execute", &command);
    }

    /// What the page has written to the console: errors, and refusals of its security policy.
    pub(crate) fn console(&self) -> Vec<String> {
        let lines = self.request("POST", "/se/log", &json!({ "type": "browser" }));
        let lines = lines.as_array().cloned().unwrap_or_default();
        let lines = lines.iter().map(|line| line["message"].as_str().unwrap_or_default().to_owned());
        // The browser's page of new windows has a console too.
        lines.filter(|line| !line.starts_with("chrome://")).collect()
    }

    /// Writes a picture of the window, if `ROAM6_BLESS` is set, for the documents.
    pub(crate) fn bless_picture(&self, name: &str) {
        if std::env::var_os("ROAM6_BLESS").is_none() {
            return;
        }
        let picture = self.request("GET", "/screenshot", &json!({}));
        let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "..", "docs", name].iter().collect();
        fs::write(path, decode_base64(picture.as_str().unwrap())).unwrap();
    }
}

impl Drop for Browser<'_> {
    fn drop(&mut self) {
        // Also the browser ends.
        if !std::thread::panicking() {
            self.request("DELETE", "", &json!({}));
        }
    }
}

/// The body of an answer, after which the driver keeps the connection open.
fn read_body(mut stream: BufReader<TcpStream>) -> String {
    let mut length = 0;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        match line.trim().split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.trim().parse().unwrap()
            }
            Some(_) => {}
            None if line.trim().is_empty() => break,
            None => {}
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    String::from_utf8(body).unwrap()
}

/// RFC 4648 §4.
fn decode_base64(text: &str) -> Vec<u8> {
    const ALPHABET: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits: Vec<u32> =
        text.chars().filter_map(|sign| ALPHABET.find(sign)).filter_map(|at| u32::try_from(at).ok()).collect();
    let mut octets = Vec::new();
    for four in digits.chunks(4) {
        let word = (0..4).fold(0, |word, at| word << 6 | four.get(at).copied().unwrap_or(0));
        octets.extend(word.to_be_bytes().into_iter().skip(1).take(four.len() - 1));
    }
    octets
}
