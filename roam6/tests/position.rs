//! The real binary with the real gpsd and a second source: which of them it believes, and what it does without them.

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test fails at the assertion")]

mod testbed;

use std::fs;
use std::net::UdpSocket;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use testbed::{BINARY, Namespace, wait_for};

/// What a receiver at 48.05° and 11.5° reports, in its second `number`.
fn sentences(number: u32) -> [String; 2] {
    let time = format!("12{:02}{:02}.00", number / 60, number % 60);
    let position = "4803.000,N,01130.000,E";
    [
        sentence(&format!("GPRMC,{time},A,{position},000.0,000.0,241126,,,A")),
        sentence(&format!("GPGGA,{time},{position},1,08,0.9,545.4,M,46.9,M,,")),
    ]
}

fn sentence(body: &str) -> String {
    let checksum = body.bytes().fold(0, |sum, octet| sum ^ octet);
    format!("${body}*{checksum:02X}\r\n")
}

#[test]
fn a_lost_gpsd_is_replaced_by_the_next_source() {
    let test = "a_lost_gpsd_is_replaced_by_the_next_source";
    if Command::new("gpsd").arg("-V").output().is_err() {
        return println!("skipped: {test}: gpsd is missing");
    }
    let Some(place) = Namespace::new() else {
        return println!("skipped: {test}: no network namespaces here (not root?)");
    };
    place.shell("ip link set lo up; ip link add radio0 type veth peer name other; ip link set radio0 up");
    // A receiver that sends its sentences to gpsd by UDP.
    let receiver = place.enter(|| UdpSocket::bind("127.0.0.1:0").unwrap());
    let stop = Arc::new(AtomicBool::new(false));
    let sending = std::thread::spawn({
        let stop = stop.clone();
        move || {
            for number in (0..3600).take_while(|_| !stop.load(Ordering::Relaxed)) {
                for sentence in sentences(number) {
                    receiver.send_to(sentence.as_bytes(), "127.0.0.1:5010").ok();
                }
                std::thread::sleep(Duration::from_millis(300));
            }
        }
    });
    let gpsd = place.start(&["gpsd", "-N", "-n", "-S", "2947", "udp://127.0.0.1:5010"]);
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let config = folder.path().join("station.toml");
    let text = format!(
        "run_dir = \"{}\"\nstate_dir = \"{}\"\n[geo]\ninterfaces = [\"radio0\"]\n\
         position = [{{ gpsd = \"127.0.0.1:2947\" }}, {{ latitude = 48.9, longitude = 11.9 }}]\n",
        path("run"),
        path("state"),
    );
    fs::write(&config, text).unwrap();
    let _daemon = place.roam6(&config);
    let shown = || {
        let arguments = ["show", "position", "--json", "--run-dir", &path("run")];
        String::from_utf8(Command::new(BINARY).args(arguments).output().unwrap().stdout).unwrap()
    };
    wait_for("the position of the gpsd", || shown().contains("480500000") && shown().contains("115000000"));
    drop(gpsd);
    // First the position is extrapolated, which stands still here; then the next source counts.
    std::thread::sleep(Duration::from_secs(4));
    assert!(shown().contains("480500000"), "{}", shown());
    wait_for("the fixed position", || shown().contains("489000000"));
    let _gpsd = place.start(&["gpsd", "-N", "-n", "-S", "2947", "udp://127.0.0.1:5010"]);
    wait_for("the gpsd again", || shown().contains("480500000"));
    stop.store(true, Ordering::Relaxed);
    sending.join().unwrap();
}
