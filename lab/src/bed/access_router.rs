//! An access router: Linux forwarding, radvd and ISC dhcpd, independent implementations of the protocols.

use super::host::Host;
use anyhow::{Context, Result};
use std::fs;
use std::process::{Child, Stdio};

/// A running radvd.
#[derive(Debug)]
pub(crate) struct Radvd(Child);

impl Radvd {
    /// Advertises `prefix` on `interface` of `host`, as an access network for mobile customers: RFC 6275 §7.5 allows
    /// intervals below a second, and solicitations are answered at once.
    pub(crate) fn start(host: &Host, interface: &str, prefix: &str) -> Result<Radvd> {
        Radvd::start_with_interval(host, interface, prefix, [3.0, 10.0])
    }

    /// [`Radvd::start`] with short intervals: vehicles pass a roadside unit within seconds, have no link-up event
    /// there, and learn of the network only by unsolicited advertisements.
    pub(crate) fn start_roadside(host: &Host, interface: &str, prefix: &str) -> Result<Radvd> {
        Radvd::start_with_interval(host, interface, prefix, [0.5, 1.0])
    }

    /// `seconds`: MinRtrAdvInterval and MaxRtrAdvInterval.
    fn start_with_interval(host: &Host, interface: &str, prefix: &str, seconds: [f64; 2]) -> Result<Radvd> {
        let [least, most] = seconds;
        let configuration = format!(
            "interface {interface} {{\n  AdvSendAdvert on;\n  MinRtrAdvInterval {least};\n  MaxRtrAdvInterval {most};\n  \
             MinDelayBetweenRAs 0.03;\n  AdvIntervalOpt on;\n  AdvDefaultLifetime 30;\n  prefix {prefix} {{ AdvOnLink on; AdvAutonomous on; }};\n}};\n"
        );
        let file = host.folder().join(format!("radvd-{interface}.conf"));
        fs::write(&file, configuration)?;
        let log = fs::File::create(host.folder().join(format!("radvd-{interface}.log")))?;
        let child = host
            .command("radvd")
            .args(["--nodaemon", "--logmethod", "stderr", "--pidfile"])
            .arg(host.folder().join(format!("radvd-{interface}.pid")))
            .arg("--config")
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .context("cannot start radvd")?;
        Ok(Radvd(child))
    }
}

impl Drop for Radvd {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// A running ISC dhcpd that delegates prefixes (RFC 8415 §6.3). The caller installs the routes to delegated prefixes.
#[derive(Debug)]
pub(crate) struct DhcpServer(Child);

impl DhcpServer {
    /// Delegates a /56 of the /48 `pool` to each client on `interface` of `host`, whose link has the prefix `link`.
    /// Sends preference 255, so that clients do not wait for other servers.
    pub(crate) fn start(host: &Host, interface: &str, link: &str, pool: &str) -> Result<DhcpServer> {
        let base = pool.trim_end_matches("::/48");
        let configuration = format!(
            "default-lease-time 600; preferred-lifetime 300; max-lease-time 600;\n\
             option dhcp6.preference 255;\n\
             subnet6 {link} {{ prefix6 {base}:: {base}:ff00:: /56; }}\n"
        );
        let file = |kind: &str| host.folder().join(format!("dhcpd-{interface}.{kind}"));
        fs::write(file("conf"), configuration)?;
        fs::write(file("leases"), "")?;
        let child = host
            .command("dhcpd")
            .args(["-6", "-f", "-q", "-cf"])
            .arg(file("conf"))
            .arg("-lf")
            .arg(file("leases"))
            .arg("-pf")
            .arg(file("pid"))
            .arg(interface)
            .stdout(Stdio::null())
            .stderr(fs::File::create(file("log"))?)
            .spawn()
            .context("cannot start dhcpd")?;
        Ok(DhcpServer(child))
    }
}

impl Drop for DhcpServer {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}
