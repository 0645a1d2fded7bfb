//! An access router: Linux forwarding, radvd and ISC dhcpd, independent implementations of the protocols.

use super::host::{Host, Process};
use anyhow::{Context, Result};
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Stdio;

/// Advertises `prefix` on `interface` of `host` by radvd, as an access network for mobile customers: RFC 6275 §7.5 allows
/// intervals below a second, and solicitations are answered at once.
pub(crate) fn advertise(host: &Host, interface: &str, prefix: &str) -> Result<Process> {
    start_radvd(host, interface, &autonomous(prefix), [3.0, 10.0])
}

/// [`advertise`] with what else an advertisement has, in the language of radvd.conf(5).
pub(crate) fn advertise_as(host: &Host, interface: &str, content: &str) -> Result<Process> {
    start_radvd(host, interface, content, [3.0, 10.0])
}

/// [`advertise`] with short intervals: vehicles pass a roadside unit within seconds, have no link-up event there, and
/// learn of the network only by unsolicited advertisements.
pub(crate) fn advertise_at_roadside(host: &Host, interface: &str, prefix: &str) -> Result<Process> {
    start_radvd(host, interface, &autonomous(prefix), [0.5, 1.0])
}

/// A prefix to make addresses in.
fn autonomous(prefix: &str) -> String {
    format!("prefix {prefix} {{ AdvOnLink on; AdvAutonomous on; }};")
}

/// `seconds`: MinRtrAdvInterval and MaxRtrAdvInterval.
fn start_radvd(host: &Host, interface: &str, content: &str, seconds: [f64; 2]) -> Result<Process> {
    let [least, most] = seconds;
    let configuration = format!(
        "interface {interface} {{\n  AdvSendAdvert on;\n  MinRtrAdvInterval {least};\n  MaxRtrAdvInterval {most};\n  \
         MinDelayBetweenRAs 0.03;\n  AdvIntervalOpt on;\n  AdvDefaultLifetime 30;\n  {content}\n}};\n"
    );
    let file = |kind: &str| host.folder().join(format!("radvd-{interface}.{kind}"));
    fs::write(file("conf"), configuration)?;
    let arguments = ["--nodaemon", "--logmethod", "stderr", "--pidfile", "pid", "--config", "conf"];
    start(host, "radvd", &arguments, file)
}

/// Delegates a /56 of the /48 `pool` to each client on `interface` of `host`, whose link has the prefix `link`, by ISC
/// dhcpd (RFC 8415 §6.3). Sends preference 255, so that clients do not wait for other servers. The caller installs the
/// routes to delegated prefixes.
pub(crate) fn delegate_prefixes(host: &Host, interface: &str, link: &str, pool: &str) -> Result<Process> {
    let base = pool.trim_end_matches("::/48");
    let configuration = format!(
        "default-lease-time 600; preferred-lifetime 300; max-lease-time 600;\n\
         option dhcp6.preference 255;\n\
         subnet6 {link} {{ prefix6 {base}:: {base}:ff00:: /56; }}\n"
    );
    let file = |kind: &str| host.folder().join(format!("dhcpd-{interface}.{kind}"));
    fs::write(file("conf"), configuration)?;
    fs::write(file("leases"), "")?;
    start(host, "dhcpd", &["-6", "-f", "-q", "-cf", "conf", "-lf", "leases", "-pf", "pid", interface], file)
}

/// Starts a program with its log in a file; the arguments `conf`, `leases` and `pid` stand for its files.
fn start(host: &Host, program: &str, arguments: &[&str], file: impl Fn(&str) -> PathBuf) -> Result<Process> {
    let mut command = host.command(program);
    for argument in arguments {
        match *argument {
            "conf" | "leases" | "pid" => command.arg(file(argument)),
            other => command.arg(other),
        };
    }
    let child = command.stdout(Stdio::null()).stderr(File::create(file("log"))?).spawn();
    Ok(Process(child.with_context(|| format!("cannot start {program}"))?))
}
