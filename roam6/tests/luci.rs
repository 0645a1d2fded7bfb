//! The LuCI pages of roam6 in a browser. LuCI is in no package registry: `tests/luci/stub.js` replaces the parts of it that its
//! documentation describes, and the server below replaces rpcd, with its access control. Below that everything is real: the
//! plugin of rpcd, the program, a daemon, and settings of OpenWrt that are translated and accepted.

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails at the assertion"
)]

#[path = "testbed/openwrt.rs"]
mod openwrt;
mod testbed;
#[allow(dead_code, reason = "each test file uses its part")]
#[path = "testbed/webdriver.rs"]
mod webdriver;

use openwrt::Root;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use testbed::{BINARY, Testbed, run, wait_or_report};
use webdriver::Browser;

const PORT: u16 = 8080;
const APP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../dist/openwrt/luci-app-roam6");
const STUB: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/luci");
/// The parts of OpenWrt's `jsonfilter` that are used: one member, or those of a list, one a line.
const JSONFILTER: &str = r#"#!/usr/bin/env python3
import json, sys
path = sys.argv[sys.argv.index("-e") + 1].removeprefix("@.")
try:
    value = json.load(sys.stdin).get(path.removesuffix("[*]"))
except ValueError:
    sys.exit(1)
for item in value if path.endswith("[*]") else [value]:
    print(json.dumps(item) if isinstance(item, bool) else item)
"#;
const DUMP: &str = r#"#!/bin/sh
echo '{ "interface": [ { "interface": "wan", "l3_device": "up0" }, { "interface": "lan", "device": "in0" } ] }'
"#;
const NETWORK: &str =
    r#"network_get_device() { case $2 in wan) eval "$1=up0" ;; lan) eval "$1=in0" ;; *) return 1 ;; esac; }"#;
/// The program, with folders of the test.
const PROGRAM: &str = r#"#!/bin/sh
case $1 in
join)
  shift; n=$#
  for word; do [ "$word" != --uci ] || word=--uci=$ROOT/etc/config/roam6; set -- "$@" "$word"; done
  shift $n
  exec BINARY join "$@" --dir "$ROOT/etc/roam6" ;;
check) exec BINARY "$@" ;;
*) exec BINARY "$@" --run-dir "$ROOT/run" ;;
esac
"#;
/// The example of the package, and the network's settings.
const INTERFACES: &str = "config interface 'loopback'\n\toption proto 'static'\n\nconfig interface 'wan'\n\toption proto 'dhcp'\n\n\
                          config interface 'lan'\n\toption proto 'static'\n\nconfig interface 'nemo'\n\toption proto 'nemo'\n";

/// What the server needs of a router.
struct Site {
    root: PathBuf,
    /// The namespace in which the plugin runs.
    namespace: u32,
}

fn router(settings: &str) -> Root {
    let root = Root::new(settings);
    root.write("usr/bin/jsonfilter", JSONFILTER);
    root.write("sbin/ubus", DUMP);
    root.write("lib/functions/network.sh", NETWORK);
    root.write("etc/config/network", INTERFACES);
    root.write("usr/sbin/roam6", &PROGRAM.replace("BINARY", BINARY));
    root.write("etc/init.d/roam6", "#!/bin/sh\necho $1 >> \"$ROOT/service\"\n");
    root.install(&Path::new(APP).join("root/usr/libexec/rpcd/roam6"), "usr/libexec/rpcd/roam6");
    root
}

/// `namespace`: in which the plugin runs; that of the test, if none.
fn call(root: &Path, namespace: Option<u32>, method: &str, arguments: &Value) -> (bool, String) {
    let plugin = root.join("usr/libexec/rpcd/roam6");
    let path = format!("{0}/sbin:{0}/usr/bin:{1}", root.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new(if namespace.is_some() { "nsenter" } else { "env" });
    if let Some(number) = namespace {
        command.args(["--net", "--target", &number.to_string()]);
    }
    command.arg("sh").arg(plugin).args(["call", method]).env("ROOT", root).env("PATH", path);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    // It reads a limited number of octets.
    let _ = child.stdin.take().unwrap().write_all(arguments.to_string().as_bytes());
    let output = child.wait_with_output().unwrap();
    (output.status.success(), String::from_utf8(output.stdout).unwrap())
}

/// Sections of a file of UCI, with their options.
fn parse_uci(text: &str) -> Value {
    let mut sections: Vec<Value> = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let mut words = line.splitn(3, ' ').map(|word| word.trim_matches('\''));
        let (kind, key, value) = (words.next().unwrap(), words.next().unwrap(), words.next());
        if kind == "config" {
            let name = value.map_or_else(|| format!("cfg{}", sections.len()), str::to_owned);
            sections.push(json!({ ".name": name, ".type": key, ".anonymous": value.is_none() }));
            continue;
        }
        let section = sections.last_mut().unwrap();
        match kind {
            "option" => section[key] = value.into(),
            _ if section[key].is_array() => section[key].as_array_mut().unwrap().push(value.into()),
            _ => section[key] = json!([value]),
        }
    }
    Value::Array(sections)
}

fn format_uci(sections: &Value) -> String {
    let mut text = String::new();
    for section in sections.as_array().unwrap() {
        let name =
            if section[".anonymous"] == true { String::new() } else { format!(" '{}'", word(&section[".name"])) };
        text += &format!("\nconfig {}{name}\n", word(&section[".type"]));
        for (key, value) in section.as_object().unwrap().iter().filter(|(key, _)| !key.starts_with('.')) {
            match value {
                Value::Array(items) => {
                    items.iter().for_each(|item| text += &format!("\tlist {key} '{}'\n", word(item)))
                }
                value => text += &format!("\toption {key} '{}'\n", word(value)),
            }
        }
    }
    text
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap()
}

/// The package's file, as JSON.
fn packaged(path: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(format!("{APP}/root/usr/share/{path}")).unwrap()).unwrap()
}

/// Whether the package's access control list lets a session do this.
fn is_allowed(kind: &str, object: &str, method: Option<&str>, write: bool) -> bool {
    let list = &packaged("rpcd/acl.d/luci-app-roam6.json")["luci-app-roam6"];
    let names = |part: &str, member: &Value| {
        let listed = match method {
            Some(_) => &list[part][kind][object],
            None => &list[part][kind],
        };
        listed.as_array().is_some_and(|names| names.contains(member))
    };
    let member = Value::from(method.unwrap_or(object));
    names("write", &member) || (!write && names("read", &member))
}

impl Site {
    /// The body of an answer, and its media type.
    fn answer(&self, method: &str, path: &str, body: &str) -> (String, &'static str) {
        let file = |path: String| fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let settings = |name: &str| self.root.join("etc/config").join(name);
        match (method, path) {
            ("GET", "/stub.js") => (file(format!("{STUB}/stub.js")), "text/javascript"),
            ("GET", "/menu") => (packaged("luci/menu.d/luci-app-roam6.json").to_string(), "application/json"),
            ("GET", path) if path.starts_with("/luci-static/") => {
                (file(format!("{APP}/htdocs{path}")), "text/javascript")
            }
            ("GET", path) if path.starts_with("/cgi-bin/luci/") => (file(format!("{STUB}/index.html")), "text/html"),
            ("POST", "/ubus") => {
                let request: Value = serde_json::from_str(body).unwrap();
                let [object, method] = [1, 2].map(|at| word(&request["params"][at]));
                let result = if is_allowed("ubus", object, Some(method), false) {
                    let (_, printed) = call(&self.root, Some(self.namespace), method, &request["params"][3]);
                    json!([
                        0,
                        serde_json::from_str::<Value>(&printed).unwrap_or_else(|_| panic!("{method}: {printed}"))
                    ])
                } else {
                    json!([6])
                };
                (json!({ "jsonrpc": "2.0", "id": 1, "result": result }).to_string(), "application/json")
            }
            ("GET", path) if path.starts_with("/uci/") && is_allowed("uci", &path[5..], None, false) => {
                (parse_uci(&file(settings(&path[5..]).display().to_string())).to_string(), "application/json")
            }
            ("POST", path) if path == "/uci/network" || is_allowed("uci", &path[5..], None, true) => {
                fs::write(settings(&path[5..]), format_uci(&serde_json::from_str(body).unwrap())).unwrap();
                ("{}".to_owned(), "application/json")
            }
            _ => (String::new(), "text/plain"),
        }
    }

    fn serve(&self, stream: TcpStream) {
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut reader = BufReader::new(stream);
        let (mut head, mut length) = (Vec::new(), 0);
        loop {
            let mut line = String::new();
            // A browser opens connections that it does not use.
            if !reader.read_line(&mut line).is_ok_and(|octets| octets > 0) {
                return;
            }
            match line.trim().split_once(": ") {
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => length = value.parse().unwrap(),
                _ if line.trim().is_empty() => break,
                _ => {}
            }
            head.push(line);
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let mut words = head[0].split(' ');
        let (method, path) = (words.next().unwrap(), words.next().unwrap());
        let (body, kind) = self.answer(method, path, &String::from_utf8(body).unwrap());
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        let _ = reader.get_mut().write_all(&[head.as_bytes(), body.as_bytes()].concat());
    }
}

/// Serves the pages of this router in the namespace of the mobile router.
fn serve(testbed: &Testbed, root: &Root) {
    let listener = testbed.router.enter(|| TcpListener::bind((Ipv4Addr::LOCALHOST, PORT)).unwrap());
    let site = Arc::new(Site { root: root.path().to_owned(), namespace: testbed.router.number() });
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let site = Arc::clone(&site);
            std::thread::spawn(move || site.serve(stream));
        }
    });
}

/// A browser and the testbed, or why there is none.
fn testbed(test: &str) -> Option<Testbed> {
    if let Some(tool) = webdriver::missing() {
        println!("skipped: {test}: {tool} is missing; run: scripts/install-deps browser");
        return None;
    }
    println!("{test}: with a replacement of LuCI by its documentation, and none of its own code");
    Testbed::new(test)
}

fn open(browser: &Browser<'_>, page: &str) {
    browser.open(&format!("http://localhost:{PORT}/cgi-bin/luci/admin/network/{page}"));
    let ready = || browser.run("return document.body.dataset.ready ?? ''").as_str().unwrap().to_owned();
    wait_or_report(page, || !ready().is_empty(), || browser.text("body"));
    assert_eq!(ready(), "yes", "{page}");
}

fn says(browser: &Browser<'_>, selector: &str, words: &str) {
    wait_or_report(words, || browser.text(selector).contains(words), || browser.text("#view"));
}

/// What the pages have written to the console; the browser's own first page may write, too.
fn complaints(browser: &Browser<'_>) -> Vec<String> {
    let own = format!("http://localhost:{PORT}/");
    browser.console().into_iter().filter(|line| line.starts_with(&own)).collect()
}

/// Fills a field.
fn fill(browser: &Browser<'_>, id: &str, value: &str) {
    let script = "const field = document.getElementById(ID); field.value = VALUE; return field.value";
    let script = script.replace("ID", &json!(id).to_string()).replace("VALUE", &json!(value).to_string());
    assert_eq!(browser.run(&script), value, "{id}");
}

/// By the page Join, from the example of the package to a registered mobile router.
#[test]
fn luci_joins_and_shows_the_mobile_router() {
    let Some(testbed) = testbed("luci_joins_and_shows_the_mobile_router") else { return };
    let example = fs::read_to_string(format!("{APP}/../files/roam6.config")).unwrap();
    let root = router(&example);
    serve(&testbed, &root);
    fs::write(testbed.file("mobiles.toml"), "mobile = []\n").unwrap();
    run(Command::new("chmod").arg("600").arg(testbed.file("mobiles.toml")));
    let _agent = testbed.start_agent();
    wait_or_report("a home agent", || !testbed.show("ha", "counters").is_empty(), || testbed.logs());
    let _radvd = testbed.advertise("2001:db8:2::/64");
    let mut invite = Command::new(BINARY);
    invite.args(["invite", "van", "--prefix", "2001:db8:100::/56", "--json", "--config"]).arg(testbed.file("ha.toml"));
    let invited: Value = serde_json::from_str(&run(&mut invite)).unwrap();

    let browser = Browser::start(&testbed.router, testbed.folder.path(), 1200, 1000);
    open(&browser, "roam6/overview");
    says(&browser, "#roam6-state", "roam6 does not run: ");
    open(&browser, "roam6/join");
    fill(&browser, "roam6-invitation", "ROAM6:1234");
    browser.click("#roam6-join");
    says(&browser, "#roam6-joined", "of the invitation");
    fill(&browser, "roam6-invitation", word(&invited["invitation"]["text"]));
    fill(&browser, "roam6-uplink", "up0");
    fill(&browser, "roam6-inside", "in0");
    browser.click("#roam6-join");
    says(&browser, "#roam6-joined", "uci set dhcp.lan.ra=disabled");
    let settings = fs::read_to_string(root.at("etc/config/roam6")).unwrap();
    for line in ["option enabled '1'", "option name 'van'", "option network 'wan'", "option network 'lan'"] {
        assert!(settings.contains(line), "{line}: {settings}");
    }
    assert!(
        fs::read_to_string(root.at("etc/roam6/uci.before-join")).unwrap().contains("roam6.toml(5)"),
        "the example is kept"
    );
    assert_eq!(fs::read_to_string(root.at("service")).unwrap(), "enable\nstart\n");
    // A second invitation does not replace settings that are in use.
    browser.click("#roam6-join");
    says(&browser, "#roam6-joined", "already set up");

    // What the init script does.
    let folders = format!("run_dir = \"{0}/run\"\nstate_dir = \"{0}/state\"\n", root.path().display());
    let (good, toml) = root.shell("sh \"$ROOT/usr/lib/roam6/uci-to-toml\" 2>&1");
    assert!(good, "{toml}");
    let config = root.write("var/etc/roam6.toml", "");
    fs::write(&config, folders + &toml).unwrap();
    let _router = testbed.router.roam6(&config);
    testbed.await_binding("2001:db8:2:");
    open(&browser, "roam6/overview");
    says(&browser, "#roam6-state", "bound to the home agent 2001:db8:1::1");
    says(&browser, "#roam6-links", "up0");
    says(&browser, "#roam6-links", "visited, in use");
    testbed.router.shell("ip link set up0 down");
    // Within the interval of the page, without a click.
    says(&browser, "#roam6-links", "down");
    open(&browser, "roam6/doctor");
    browser.click("#roam6-quick");
    says(&browser, "#roam6-verdict", "First fault");
    says(&browser, "#roam6-checks", "uplink.");
    assert_eq!(complaints(&browser), Vec::<String>::new());
}

/// Settings are shown, changed, checked, written, and accepted by the program; what the pages do not know stays.
#[test]
fn luci_changes_settings() {
    let Some(testbed) = testbed("luci_changes_settings") else { return };
    let example = fs::read_to_string(format!("{APP}/../files/roam6.config")).unwrap();
    let more = "\nconfig metrics\n\toption listen '127.0.0.1:9106'\n";
    let root = router(&(example + more));
    serve(&testbed, &root);
    let browser = Browser::start(&testbed.router, testbed.folder.path(), 1200, 1000);
    open(&browser, "roam6/settings");
    let field = |key: &str| format!("roam6.{key}");
    let value = browser.run("return document.getElementById('roam6.cfg1.home_address').value");
    assert_eq!(value, "2001:db8:1::100");
    let saved = || {
        browser.run("const said = document.body.dataset.saved; delete document.body.dataset.saved; return said ?? ''")
    };
    let save = |wanted: &str| {
        browser.click("#save");
        wait_or_report("saved", || saved() == wanted, || browser.text("#view"));
    };
    for (key, wrong, right) in [
        ("cfg1.home_prefix", "2001:db8:1::", "2001:db8:1::/64"),
        ("cfg1.prefixes", "2001:db8:100::/56\n10.77.0.0", "2001:db8:100::/56\n10.77.0.0/24"),
        ("cfg1.home_address", "", "2001:db8:1::100"),
        ("cfg2.network", "a b", "wwan"),
        ("cfg2.max_loss", "101", "30"),
    ] {
        fill(&browser, &field(key), wrong);
        save("invalid");
        fill(&browser, &field(key), right);
    }
    fill(&browser, "roam6.cfg2.cap", "5GB");
    fill(&browser, "roam6.cfg3.transport", "udp");
    browser.run(
        "document.getElementById('roam6.cfg2.metered').click(); document.getElementById('roam6.main.enabled').click()",
    );
    browser.click("[data-type=flow] .cbi-button-add");
    wait_or_report(
        "a new rule",
        || browser.run("return document.querySelectorAll('[data-type=flow] input').length") != 0,
        String::new,
    );
    let id = browser.run("return document.querySelector('[data-type=flow] [data-section]').dataset.section");
    fill(&browser, &format!("roam6.{}.uplink", word(&id)), "wan");
    fill(&browser, &format!("roam6.{}.protocol", word(&id)), "tcp");
    fill(&browser, &format!("roam6.{}.correspondent_ports", word(&id)), "443");
    save("");
    wait_or_report(
        "written",
        || fs::read_to_string(root.at("etc/config/roam6")).unwrap().contains("config flow"),
        String::new,
    );
    let (good, toml) = root.shell("sh \"$ROOT/usr/lib/roam6/uci-to-toml\" 2>&1");
    assert!(good, "{toml}");
    for line in [
        "prefixes = [\"2001:db8:100::/56\", \"10.77.0.0/24\"]",
        "cap = \"5GB\"",
        "metered = true",
        "max_loss = 30",
        "transport = \"udp\"",
        "[metrics]\nlisten = \"127.0.0.1:9106\"",
        "[[mobile_router.flow]]\n",
        "uplink = \"up0\"\n",
        "correspondent_ports = \"443\"\n",
    ] {
        assert!(toml.contains(line), "no {line} in\n{toml}");
    }
    let file = root.at("checked.toml");
    fs::write(&file, &toml).unwrap();
    run(Command::new(BINARY).arg("check").arg(&file));

    // The page of the protocol handler, with all of its options.
    open(&browser, "network");
    assert_eq!(browser.run("return document.body.dataset.device"), "true,false,true");
    let handler = fs::read_to_string(format!("{APP}/../files/nemo.sh")).unwrap();
    let options: Vec<&str> =
        handler.split("proto_config_add_").skip(1).map(|rest| rest.split(['\'', ':']).nth(1).unwrap()).collect();
    assert_eq!(options.len(), 14);
    for option in options {
        let script = format!("return document.getElementById('network.nemo.{option}') != null");
        assert_eq!(browser.run(&script), true, "{option}");
    }
    for (option, text) in [
        ("home_address", "2001:db8:1::100"),
        ("home_prefix", "2001:db8:1::/64"),
        ("home_agents", "2001:db8:1::1"),
        ("prefixes", "2001:db8:100::/56"),
        ("uplinks", "wan"),
        ("inside", "lan"),
        ("key_file", "/etc/roam6/mr1.key"),
    ] {
        fill(&browser, &format!("network.nemo.{option}"), text);
    }
    save("invalid");
    fill(&browser, "network.nemo.inside", "lan=2001:db8:100::/64");
    browser.click("#save");
    wait_or_report(
        "written",
        || fs::read_to_string(root.at("etc/config/network")).unwrap().contains("list inside"),
        || browser.text("#view"),
    );
    let (good, toml) = root.shell("sh \"$ROOT/usr/lib/roam6/nemo-to-toml\" nemo 2>&1");
    assert!(good && toml.contains("interface = \"in0\"\nprefix = \"2001:db8:100::/64\""), "{toml}");
    assert_eq!(complaints(&browser), Vec::<String>::new());
}

/// What networks and callers send is text: on the page, and for the shell.
#[test]
fn luci_takes_foreign_values_as_text() {
    let Some(testbed) = testbed("luci_takes_foreign_values_as_text") else { return };
    let root = router("");
    let markup = "<img src=/x onerror=document.body.dataset.run=1>";
    let link = json!({ "name": markup, "role": markup, "state": markup, "text": markup, "hints": [markup] });
    let fault = json!({ "home_address": markup, "text": markup });
    let status = json!({ "name": markup, "bound": true, "home_agent": markup, "prefixes": [markup], "links": [link], "faults": [fault] });
    let check = json!({ "id": markup, "subject": markup, "level": "fault", "text": markup, "cure": markup });
    let program = format!(
        "#!/bin/sh\ncase $1 in\nstatus) cat <<'END'\n{status}\nEND\n;;\ndoctor) cat <<'END'\n{}\nEND\n;;\n\
         *) printf 'roam6: \"%s\" \\033[2J\\\\\\n' '{markup}' >&2; exit 1 ;;\nesac\n",
        json!({ "checks": [check] })
    );
    root.write("usr/sbin/roam6", &program);
    serve(&testbed, &root);
    let browser = Browser::start(&testbed.router, testbed.folder.path(), 1200, 1000);
    let is_text = || {
        assert_eq!(
            browser.run("return [document.querySelector('#view img'), document.body.dataset.run ?? null]"),
            json!([null, null])
        );
    };
    open(&browser, "roam6/overview");
    says(&browser, "#roam6-links", markup);
    is_text();
    open(&browser, "roam6/doctor");
    browser.click("#roam6-examine");
    says(&browser, "#roam6-checks", markup);
    is_text();
    open(&browser, "roam6/join");
    browser.click("#roam6-join");
    says(&browser, "#roam6-joined", markup);
    is_text();

    // Arguments of a call, without a browser.
    let root = router("");
    for text in
        ["$(touch $ROOT/x)", "`touch $ROOT/x`", "'; touch $ROOT/x; '", "--dir=/x", "a\nb", "*", &"A".repeat(100_000)]
    {
        let arguments = json!({ "invitation": text, "uplink": [text, "--no-start"], "inside": [text], "quick": text });
        for method in ["join", "doctor", "status", text] {
            let (known, printed) = call(root.path(), None, method, &arguments);
            assert_eq!(known, method != text);
            let answer: Value = serde_json::from_str(if known { &printed } else { "{}" }).expect(&printed);
            assert!(answer["error"].is_string() || method != "join", "{text}: {printed}");
        }
        assert!(!root.at("x").exists() && !root.at("service").exists(), "{text} was run");
    }
}
