//! What tests of WireGuard need.

use super::{Namespace, Testbed};

/// Why there is no WireGuard here.
pub fn obstacle() -> Option<String> {
    if std::process::Command::new("wg").arg("--version").output().is_err() {
        return Some("wg is missing (package wireguard-tools)".to_owned());
    }
    missing()
}

/// Why the kernel has no WireGuard.
pub fn missing() -> Option<String> {
    let made = Namespace::new()?.command(&["ip", "link", "add", "probe", "type", "wireguard"]).output().unwrap();
    (!made.status.success()).then(|| String::from_utf8_lossy(&made.stderr).trim().to_owned())
}

/// What `wg` makes of a private key, and where that is kept.
pub fn keys(testbed: &Testbed, who: &str) -> (String, String) {
    let file = testbed.file(who);
    let public = testbed.agent.shell(&format!("wg genkey | tee {0} | wg pubkey", file.display()));
    (file.display().to_string(), public.trim().to_owned())
}
