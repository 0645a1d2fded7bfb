//! The test purposes of GeoNetworking and of IPv6 over it, each against a running roam6: `geonet/conformance`.
#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

mod common;

use common::skipped;
use std::fs;
use std::process::Command;

#[test]
fn all_purposes_are_fulfilled_except_those_argued() {
    if skipped("all_purposes_are_fulfilled_except_those_argued", &["ip", "ping"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("conformance.json");
    let mut lab = Command::new(env!("CARGO_BIN_EXE_roam6-lab"));
    let output = lab.args(["run", "geonet/conformance", "--json"]).arg(&file).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let document: serde_json::Value = serde_json::from_slice(&fs::read(&file).expect(&said)).unwrap();
    let rows = document["rows"].as_array().unwrap();
    let failed: Vec<_> = rows.iter().filter(|row| row["verdict"] == "fail").collect();
    assert!(failed.is_empty(), "{failed:#?}");
    assert!(output.status.success(), "{said}");
    let of = |verdict: &str| rows.iter().filter(|row| row["verdict"] == verdict).count();
    assert!(of("pass") >= 249 && of("argued") == 1, "{} passed, {} argued", of("pass"), of("argued"));
}
