//! The map of stations on the status page, with real daemons and in a browser: events, areas, marks of trust.

#![cfg(all(feature = "web", feature = "geo-security", feature = "facilities"))]
#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test fails at the assertion")]

mod testbed;
#[path = "testbed/webdriver.rs"]
#[expect(dead_code, reason = "this page is not clicked")]
mod webdriver;

use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::process::Command;
use testbed::{BINARY, Namespace, Running, run, wait_for, wait_or_report};
use webdriver::Browser;

const PORT: u16 = 9107;
/// Two hundred metres at 20 m/s to the east and back.
const DRIVE: &str = "0,48.001,11.004\n10,48.001,11.0066853\n20,48.001,11.004\n";
/// Labels of the map that are not wholly inside it.
const CLIPPED: &str = "const frame = document.querySelector('#stations-map svg').getBoundingClientRect();
return [...document.querySelectorAll('#stations-map text')].filter((text) => {
  const box = text.getBoundingClientRect();
  return box.left < frame.left || box.right > frame.right || box.top < frame.top || box.bottom > frame.bottom;
}).map((text) => text.textContent);";

/// An observer with two neighbours: one drives and has a certificate of an authority that the observer trusts, the other one
/// of an authority that it does not know.
struct Crossing {
    places: Vec<Namespace>,
    folder: tempfile::TempDir,
    daemons: Vec<Running>,
}

impl Crossing {
    fn new(test: &str) -> Option<Crossing> {
        let places: Option<Vec<Namespace>> = (0..3).map(|_| Namespace::new()).collect();
        let Some(places) = places else {
            println!("skipped: {test}: no network namespaces here (not root?)");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("drive.csv"), DRIVE).unwrap();
        for name in ["lab", "other"] {
            run(Command::new(BINARY).args(["geo", "cert", "make"]).arg(folder.path().join(name)));
        }
        let mut crossing = Crossing { places, folder, daemons: Vec::new() };
        crossing.connect();
        let position = "{ latitude = 48.0, longitude = 11.0 }";
        crossing.start(
            0,
            "\"radio1\", \"radio2\"",
            position,
            "mode = \"non-strict\"\ntrust = [\"lab/root.cert\"]\nissuers = [\"lab/aa.cert\"]",
        );
        crossing.start(1, "\"radio0\"", "{ track = \"drive.csv\", repeat = true }", &strict("lab"));
        crossing.start(2, "\"radio0\"", "{ latitude = 47.9985, longitude = 10.996 }", &strict("other"));
        Some(crossing)
    }

    fn connect(&self) {
        let observer = self.places[0].number();
        for number in [1, 2] {
            let quiet = "echo 1 > /proc/sys/net/ipv6/conf";
            self.places[number].shell(&format!(
                "ip link add radio0 type veth peer name radio{number} netns {observer} && {quiet}/radio0/disable_ipv6; ip link set radio0 up"
            ));
            self.places[0].shell(&format!("{quiet}/radio{number}/disable_ipv6; ip link set radio{number} up"));
        }
    }

    fn start(&mut self, number: usize, radios: &str, position: &str, security: &str) {
        let text = format!(
            "run_dir = \"{0}/{number}/run\"\nstate_dir = \"{0}/{number}/state\"\n[geo]\ninterfaces = [{radios}]\n\
             position = {position}\nfacilities = {{ station_id = {number} }}\n[geo.security]\n{security}\n",
            self.folder.path().display()
        );
        let config = self.folder.path().join(format!("{number}.toml"));
        fs::write(&config, text).unwrap();
        self.daemons.push(self.places[number].roam6(&config));
    }

    fn ask(&self, number: usize, arguments: &[&str]) -> String {
        let run_dir = self.folder.path().join(format!("{number}/run"));
        let output = self.places[number].command(&[BINARY]).args(arguments).arg("--run-dir").arg(run_dir).output();
        String::from_utf8_lossy(&output.unwrap().stdout).into_owned()
    }

    fn story(&self) -> String {
        let log = |number| fs::read_to_string(self.folder.path().join(format!("{number}.log"))).unwrap_or_default();
        (0..3).map(|number| log(number) + &self.ask(number, &["show", "counters"])).collect()
    }

    /// The page of the observer.
    fn serve_page(&self) -> Running {
        let run_dir = self.folder.path().join("0/run");
        let config = self.folder.path().join("web.toml");
        let words = [BINARY, "web", "--run-dir", run_dir.to_str().unwrap(), "--config", config.to_str().unwrap()];
        let server = self.places[0].start(&words);
        wait_for("the page", || self.places[0].enter(|| TcpStream::connect((Ipv4Addr::LOCALHOST, PORT)).is_ok()));
        server
    }
}

/// A station that signs with a certificate of this lab.
fn strict(lab: &str) -> String {
    format!(
        "mode = \"strict\"\ntrust = [\"{lab}/root.cert\"]\nissuers = [\"{lab}/aa.cert\"]\ntickets = \"{lab}/tickets/at-01.cert\""
    )
}

#[test]
fn the_map_shows_stations_with_their_trust_and_events_and_areas() {
    let test = "the_map_shows_stations_with_their_trust_and_events_and_areas";
    if let Some(tool) = webdriver::missing() {
        return println!("skipped: {test}: {tool} is missing; run: scripts/install-deps browser");
    }
    let Some(crossing) = Crossing::new(test) else { return };
    let shown = || crossing.ask(0, &["show", "stations"]);
    let are_known = || shown().contains("verified") && shown().contains("signed");
    wait_or_report("two stations", are_known, || shown() + &crossing.story());
    let event = ["denm", "send", "stationary-vehicle", "circle", "48.001", "11.0055", "450", "--repeat", "500ms"];
    assert_ne!(crossing.ask(1, &event), "");
    crossing.ask(0, &["geo", "area", "add", "ff18::7", "rectangle", "48.0005", "11.002", "200", "80", "60"]);
    let _server = crossing.serve_page();
    let browser = Browser::start(&crossing.places[0], crossing.folder.path(), 1000, 1250);
    browser.open(&format!("http://localhost:{PORT}/"));
    let says = |selector: &str, words: &str| {
        wait_or_report(words, || browser.text(selector).contains(words), || browser.text("body") + &crossing.story());
    };
    let count =
        |selector: &str| browser.run(&format!("return document.querySelectorAll('#stations-map {selector}').length"));
    says("#warnings", "stationary vehicle");
    says("#stations", "signed, not verified");
    let label = "return document.querySelector('#stations-map svg').getAttribute('aria-label')";
    let has_all = || browser.run(label).as_str().unwrap().starts_with("3 stations, 1 events and 1 areas");
    wait_or_report("all on the map", has_all, || browser.run(label).to_string());
    for (selector, number) in
        [(".trust.good", 1), (".trust.standby", 1), (".station", 3), (".warning", 1), ("rect.area", 1)]
    {
        assert_eq!(
            count(selector),
            number,
            "{selector}: {}",
            browser.run("return document.querySelector('#stations-map').innerHTML")
        );
    }
    for line in shown().lines().skip(1) {
        let address = line.split_whitespace().next().unwrap();
        assert!(browser.text("#stations").contains(address), "{address}");
    }
    // The one that drives is an arrow to the east or to the west.
    let turn = "return document.querySelector('#stations-map path.station')?.getAttribute('transform') ?? ''";
    let is_east_or_west =
        || ["rotate(90)", "rotate(270)"].iter().any(|turned| browser.run(turn).as_str().unwrap().ends_with(turned));
    wait_or_report("an arrow", is_east_or_west, || browser.run(turn).to_string());
    assert_eq!(browser.run(CLIPPED), serde_json::json!([]));
    browser.run("document.querySelector('#stations-section').scrollIntoView()");
    browser.bless_picture("page-stations.png");
    for (width, is_dark) in [(1000, false), (500, true)] {
        browser.set_dark(is_dark);
        browser.resize(width, 1250);
        assert_eq!(browser.audit(), Vec::<String>::new());
    }
    crossing.ask(0, &["geo", "area", "del", "ff18::7"]);
    crossing.ask(1, &["denm", "cancel", "1/0"]);
    wait_for("the end of the event and of the area", || count(".area") == 0 && count(".warning") == 0);
    assert_eq!(browser.console(), Vec::<String>::new());
}
