//! An access router: plain Linux forwarding and radvd, a peer we did not write.

use super::host::Host;
use anyhow::{Context, Result};
use std::fs;
use std::process::{Child, Stdio};

/// A running radvd.
#[derive(Debug)]
pub(crate) struct Advertiser(Child);

impl Advertiser {
    /// Advertises `prefix` on `interface` of `host`, as an access network made for moving customers would: RFC 6275 §7.5
    /// allows intervals below a second, and solicitations are answered at once.
    pub(crate) fn start(host: &Host, interface: &str, prefix: &str) -> Result<Advertiser> {
        let configuration = format!(
            "interface {interface} {{\n  AdvSendAdvert on;\n  MinRtrAdvInterval 3;\n  MaxRtrAdvInterval 10;\n  \
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
        Ok(Advertiser(child))
    }
}

impl Drop for Advertiser {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}
