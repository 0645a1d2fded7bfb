//! A mobile router and a home agent that trust one another by IPsec (RFC 3776), both the real binary, each in a namespace
//! of its own; tshark judges what is on the wire.

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails at the assertion")]

mod testbed;

use std::fs;
use std::path::Path;
use std::process::Command;
use testbed::{Testbed, run, wait_for};

/// The options by which tshark decrypts with the security associations of a key file.
fn associations(key_file: &Path) -> Vec<String> {
    let table: toml::Table = fs::read_to_string(key_file).unwrap().parse().unwrap();
    let pair = table.get("ipsec").unwrap();
    let options = ["to_home_agent", "to_mobile"].map(|direction| {
        let one = pair.get(direction).unwrap();
        let spi = one.get("spi").and_then(toml::Value::as_integer).unwrap();
        let key = one.get("key").and_then(toml::Value::as_str).unwrap();
        format!(
            "uat:esp_sa:\"IPv6\",\"*\",\"*\",\"{spi:#010x}\",\"NULL\",\"\",\"HMAC-SHA-256-128 [RFC4868]\",\"0x{key}\""
        )
    });
    options.to_vec()
}

#[test]
fn a_mobile_router_registers_with_esp() {
    let test = "a_mobile_router_registers_with_esp";
    let Some(testbed) = Testbed::new(test) else { return };
    for tool in ["tcpdump", "tshark"] {
        if Command::new(tool).arg("--version").output().is_err() {
            return println!("skipped: {test}: {tool} is missing");
        }
    }
    testbed.enroll(&["--ipsec"]);
    let capture = testbed.file("visit0.pcap");
    let words = ["tcpdump", "-Z", "root", "-U", "-i", "visit0", "-w", capture.to_str().unwrap()];
    let _listener = testbed.agent.start(&words);
    wait_for("tcpdump", || capture.exists());
    let _agent = testbed.start_agent();
    let _radvd = testbed.advertise("2001:db8:2::/64");
    let _router = testbed.start_router("auth = \"ipsec\"\n");
    testbed.await_binding("2001:db8:2:");

    let judge = |more: &str| {
        let mut tshark = Command::new("tshark");
        tshark.args(["-n", "-r", capture.to_str().unwrap(), "-o", "esp.enable_encryption_decode:TRUE"]);
        tshark.args(["-o", "esp.enable_authentication_check:TRUE"]);
        associations(&testbed.file("mr.key")).iter().for_each(|option| {
            tshark.args(["-o", option]);
        });
        tshark.args(["-Y", &format!("esp && {more}"), "-T", "fields", "-e", "mip6.mhtype", "-e", "esp.icv_good"]);
        run(&mut tshark)
    };
    let mut seen = String::new();
    wait_for("an update and an acknowledgement that tshark understands", || {
        seen = judge("mipv6");
        let has = |kind: &str| seen.lines().any(|line| line.split_whitespace().next() == Some(kind));
        has("5") && has("6")
    });
    let verified = seen.lines().all(|line| matches!(line.split_whitespace().nth(1), Some("1" | "True")));
    assert!(verified, "{seen}");
    assert_eq!(judge("(_ws.malformed || _ws.expert.severity >= 0x600000)"), "");
    let mut clear = Command::new("tshark");
    clear.args(["-n", "-Y", "mipv6 && !esp", "-r", capture.to_str().unwrap()]);
    assert_eq!(run(&mut clear), "", "mobility messages in the clear");
}
