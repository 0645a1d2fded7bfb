//! CUBIC on the hosts of the testbed. A network namespace takes a congestion control that the machine allows all users: by default
//! Reno and the machine's own default.

use std::fs;

const ALLOWED: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";
const CUBIC: &str = "cubic";

/// Allows network namespaces CUBIC on a machine with another default. Called outside of the sandbox: the setting is read-only in
/// its network namespace.
pub(super) fn allow_cubic() {
    let allowed = fs::read_to_string(ALLOWED).unwrap_or_default();
    let Some(extended) = with_cubic(&allowed) else { return };
    match fs::write(ALLOWED, &extended) {
        Ok(()) => {
            eprintln!("added cubic, for the hosts of the testbed: net.ipv4.tcp_allowed_congestion_control = {extended}")
        }
        Err(why) => eprintln!(
            "the hosts of the testbed use the congestion control of this machine instead of CUBIC: cannot set \
             net.ipv4.tcp_allowed_congestion_control: {why}; set it to \"{extended}\" as root outside of containers"
        ),
    }
}

/// The setting with CUBIC added; `None` if it is there.
fn with_cubic(allowed: &str) -> Option<String> {
    let mut names: Vec<&str> = allowed.split_whitespace().collect();
    if names.contains(&CUBIC) {
        return None;
    }
    names.push(CUBIC);
    Some(names.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cubic_is_added_once() {
        assert_eq!(with_cubic("reno bbr\n").as_deref(), Some("reno bbr cubic"));
        assert_eq!(with_cubic("reno cubic\n"), None);
    }
}
