//! Hosts with Debian's defaults, each with `/etc`, `/run` and `/var/lib` of its own, and the cables between them.

use super::{BINARY, Namespace, Running};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// In place of systemd's.
const SYSTEMCTL: &str = "/run/bin/systemctl";

/// A host with Debian's defaults, with `/etc/roam6`, `/run` and `/var/lib` of its own.
pub struct Machine {
    pub place: Namespace,
    pub daemon: Option<Running>,
    log: PathBuf,
    /// What it has in `/var/lib`: not in memory, where keys are not exchanged.
    _disk: TempDir,
}

impl Machine {
    pub fn new(folder: &Path, name: &str) -> Option<Machine> {
        let place = Namespace::new()?;
        let disk = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        place.shell(&format!(
            "mount -t tmpfs run /run && mkdir /run/etc /run/root && \
             for file in passwd group nsswitch.conf hosts ld.so.cache iproute2 protocols services; do cp -a /etc/$file /run/etc/ 2>/dev/null; done; \
             mount --bind /run/etc /etc && mount --bind {} /var/lib && mount --bind /run/root /root",
            disk.path().display()
        ));
        Some(Machine { place, daemon: None, log: folder.join(format!("{name}.log")), _disk: disk })
    }

    /// Closes its firewall.
    pub fn protect(&self, rules: &str) {
        self.place.shell(&format!("nft '{rules}'"));
    }

    pub fn write(&self, path: &str, text: &str, before: &str) {
        let script = format!("{before} && umask 077 && cat > {path}");
        let mut child = self.place.command(&["sh", "-c", &script]).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success(), "{script}");
    }

    /// A command line with the tested binary as `roam6`.
    pub fn script(command: &str) -> String {
        let folder = Path::new(BINARY).parent().unwrap().display();
        format!("cd /root && PATH={folder}:/run/bin:$PATH && {command}")
    }

    pub fn shell(&self, command: &str) -> String {
        self.place.shell(&Machine::script(command))
    }

    pub fn start(&mut self, command: &str) {
        assert!(self.daemon.is_none(), "one daemon for each machine");
        let log = fs::File::options().append(true).create(true).open(&self.log).unwrap();
        let script = Machine::script(&format!("exec {command}"));
        let mut started = self.place.command(&["sh", "-c", &script]);
        self.daemon = Some(Running(started.stdout(Stdio::null()).stderr(log).spawn().unwrap()));
    }

    /// Makes `systemctl enable --now roam6` a request that [`Machine::serve`] fulfils.
    pub fn offer_service(&self) {
        self.write(
            SYSTEMCTL,
            "#!/bin/sh\n[ \"$*\" = 'enable --now roam6' ] && touch /run/started\n",
            "mkdir -p /run/systemd/system /run/bin",
        );
        self.place.shell(&format!("chmod +x {SYSTEMCTL}"));
    }

    /// Starts the daemon once `systemctl` was asked to.
    pub fn serve(&mut self) {
        let asked = self.daemon.is_none() && self.path("/run/started").exists();
        if asked {
            self.start("roam6 run --config /etc/roam6/roam6.toml");
        }
    }

    /// A path of its own mount namespace.
    pub fn path(&self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{path}", self.place.number()))
    }

    /// A command of this host's shell.
    pub fn command(&self, command: &str) -> Command {
        self.place.command(&["sh", "-c", &Machine::script(command)])
    }

    /// What the daemon has said, and what it shows.
    pub fn story(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let folder = Path::new(BINARY).parent().unwrap().display();
        let show =
            format!("cd /root; PATH={folder}:$PATH; roam6 show links; roam6 show bindings; ip -6 addr; ip -6 route");
        let shown = self.place.command(&["sh", "-c", &show]).output().unwrap();
        format!("{log}\n{}{}", String::from_utf8_lossy(&shown.stdout), String::from_utf8_lossy(&shown.stderr))
    }

    pub fn says(&self, command: &str, word: &str) -> bool {
        let output = self.place.command(&["sh", "-c", &Machine::script(command)]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).contains(word)
    }
}

/// Two ends of a cable.
pub fn cable(near: &Namespace, name: &str, far: &Namespace, far_name: &str) {
    near.shell(&format!(
        "ip link add {name} type veth peer name {far_name} netns {} && ip link set {name} up",
        far.number()
    ));
    far.shell(&format!("ip link set {far_name} up"));
}

/// Router Advertisements with this prefix, until the returned process is dropped.
pub fn advertise(place: &Namespace, folder: &Path, interface: &str, prefix: &str) -> Running {
    let file = |kind: &str| folder.join(format!("{interface}.{kind}"));
    let text =
        format!("interface {interface} {{ AdvSendAdvert on; MinRtrAdvInterval 3; MaxRtrAdvInterval 4; {prefix} }};\n");
    fs::write(file("conf"), text).unwrap();
    let (conf, pid) = (file("conf"), file("pid"));
    place.start(&["radvd", "-n", "-C", conf.to_str().unwrap(), "-p", pid.to_str().unwrap()])
}
