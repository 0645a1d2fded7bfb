//! Common to the tests of the testbed.

use std::path::Path;

/// Whether this machine lacks what a test needs; prints the reason.
pub(crate) fn skipped(name: &str, programs: &[&str]) -> bool {
    let root = nix::unistd::geteuid().is_root();
    let missing = programs.iter().find(|program| {
        let folders = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"];
        !Path::new(program).exists() && !folders.iter().any(|folder| Path::new(folder).join(program).exists())
    });
    let reason = match (root, missing) {
        (false, _) => "network namespaces need root".to_owned(),
        (true, Some(program)) => format!("{program} is missing"),
        (true, None) if !Path::new("/dev/net/tun").exists() => "no /dev/net/tun".to_owned(),
        (true, None) => return false,
    };
    println!("skipped: {name}: {reason}");
    true
}
