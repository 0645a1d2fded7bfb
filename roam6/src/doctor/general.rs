//! The configuration file, the daemon, the clock.

use super::facts::{DaemonAbsence, Facts};
use super::finding::{Findings, Level};
use crate::config::DataPlane;

/// 2025-01-01T00:00Z: before, the clock was never set.
const CLOCK_SET: u64 = 1_735_689_600;

pub(super) fn judge(facts: &Facts, found: &mut Findings) {
    let file = facts.file.as_str();
    match &facts.config {
        Ok(config) => {
            found.ok(("config.file", file), "valid");
            for problem in config.refused_rows() {
                let text = format!("{}; this row is not served", problem.without_hint());
                found.fault(("config.file", file), text, problem.hint());
            }
        }
        Err(problems) => {
            for (problem, hint) in problems {
                found.fault((id_of(problem), file), problem, hint);
            }
            return found.skip(&["daemon.running"]);
        }
    }
    judge_daemon(facts, found);
    judge_clock(facts, found);
}

/// Problems of keys have their own place: they are mended in another file.
fn id_of(problem: &str) -> &'static str {
    let key = [".key", "key_file", "world-readable", "readable by all"].iter().any(|word| problem.contains(word));
    if key { "config.key" } else { "config.file" }
}

fn judge_daemon(facts: &Facts, found: &mut Findings) {
    let check = ("daemon.running", "");
    let state = match &facts.daemon {
        Ok(state) => state,
        Err(absence) => return explain_absence(facts, absence, found),
    };
    found.ok(check, format_args!("{} runs version {}", state.name, state.version));
    let changed =
        facts.file_changed_unix.is_some_and(|at| state.config_loaded_unix != 0 && at > state.config_loaded_unix);
    if changed {
        let text = "was changed after the daemon read it";
        found.warn(("daemon.fresh", &facts.file), text, "systemctl reload roam6");
    }
}

fn explain_absence(facts: &Facts, absence: &DaemonAbsence, found: &mut Findings) {
    let check = ("daemon.running", "");
    let service = absence.service.as_ref().map(|says| format!(" (systemd: {says})")).unwrap_or_default();
    if absence.is_denied {
        let cure = "run this as root, or as a member of the group in [control]";
        return found.add(
            Level::Unknown,
            check,
            format_args!("its control socket cannot be used: {}", absence.why),
            cure,
        );
    }
    if absence.lacks_ipv6 {
        let cure = "remove ipv6.disable=1 from the kernel's command line";
        return found.fault(check, "roam6 does not run: IPv6 is disabled in this kernel", cure);
    }
    if let Some(process) = absence.starting {
        let cure = "run it again in ten seconds; if this lasts: journalctl -u roam6 -n 20";
        return found.add(Level::Unknown, check, format_args!("roam6 (process {process}) starts, or hangs"), cure);
    }
    if let [other, ..] = absence.others.as_slice() {
        let text =
            format!("another roam6 (process {other}) runs here with another run_dir, so that this one cannot start");
        return found.fault(
            check,
            text,
            format_args!("stop one of them, or name its run_dir with --run-dir: kill {other}"),
        );
    }
    let wants_device = facts.config.as_ref().is_ok_and(|config| config.data_plane == DataPlane::Ip6tnl);
    if wants_device && !facts.host.has_ip6_tunnel {
        let text = "no tunnel device: this kernel has no module ip6_tunnel";
        return found.fault(("daemon.data-plane", ""), text, "modprobe ip6_tunnel, or install the kernel's modules");
    }
    let cure = "systemctl start roam6; if it ends at once, its reason is in: journalctl -u roam6 -n 20";
    found.fault(check, format_args!("roam6 does not run{service}"), cure);
}

fn judge_clock(facts: &Facts, found: &mut Findings) {
    let Some(clock) = facts.host.clock else { return };
    if clock.unix >= CLOCK_SET {
        return;
    }
    let is_agent = facts.config.as_ref().is_ok_and(|config| config.home_agent.is_some());
    // A mobile router is synchronised by its home agent's answer (RFC 4285 §6).
    let level = if is_agent { Level::Fault } else { Level::Warning };
    found.add(level, ("clock", ""), "the clock was never set", "set it by NTP: timedatectl set-ntp true");
}
