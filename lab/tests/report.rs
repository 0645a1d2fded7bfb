//! The report in a browser.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what is wrong by failing")]

mod common;

use common::skipped;
use std::path::Path;
use std::process::Command;

const LAB: &str = env!("CARGO_BIN_EXE_roam6-lab");

/// Runs the report of the testbed's own experiment; its standard error.
fn report(folder: &Path) -> String {
    let arguments = ["report", "--quick", "--only", "lab/", "--into"];
    // Outside of a checkout, where the version alone counts: results of a changed checkout are never used again.
    let output = Command::new(LAB).args(arguments).arg(folder).env("GIT_DIR", "/nonexistent").output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stderr}");
    stderr
}

/// The document that a browser builds from the page.
fn rendered_page(page: &Path) -> String {
    let mut browser = Command::new("chromium");
    browser.args(["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=2000", "--dump-dom"]);
    browser.arg(format!("--user-data-dir={}", page.with_file_name("browser").display()));
    let output = browser.arg(format!("file://{}", page.display())).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn report_reuses_results_and_renders_in_a_browser() {
    if skipped("report_reuses_results_and_renders_in_a_browser", &["ip", "chromium"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    assert!(report(folder.path()).contains("lab/links (about "));
    assert_eq!(report(folder.path()), "", "what is there is not run again");
    let document = rendered_page(&folder.path().join("index.html"));
    for wanted in ["roam6: every figure", "Delay of each link", "delay_error_ms_p50_max", "All measurements</a>"] {
        assert!(document.contains(wanted), "no '{wanted}' in {document}");
    }
    assert_eq!(document.matches("<svg").count(), 2, "once for wide screens, once for narrow ones");
}
