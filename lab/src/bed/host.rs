//! A host: a network namespace with a name and a directory for its files.

use super::sandbox::WORK_DIR;
use crate::sys::{ChildSetup, Offload, set_offload, set_up_child};
use anyhow::{Context, Result, anyhow, bail};
use nix::mount::{MntFlags, umount2};
use nix::sched::{CloneFlags, setns};
use nix::time::clock_getcpuclockid;
use nix::unistd::Pid;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::net::Ipv6Addr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// Buffers of TCP and MPTCP on all hosts: Linux's own defaults, 6 and 4 MB at most, as their congestion control is Linux's default
/// (RFC 9438, CUBIC). A network namespace begins with the settings of the machine, on which figures would depend: BBR takes more than
/// twice the processor time of CUBIC for each octet between namespaces.
const TCP_SETTINGS: [(&str, &str); 2] =
    [("ipv4/tcp_rmem", "4096 131072 6291456"), ("ipv4/tcp_wmem", "4096 16384 4194304")];

/// A host of the testbed. Cheap to clone; removed with its last clone.
#[derive(Debug, Clone)]
pub(crate) struct Host(Arc<Namespace>);

#[derive(Debug)]
struct Namespace {
    name: String,
    net: Arc<OwnedFd>,
}

impl Drop for Namespace {
    fn drop(&mut self) {
        Command::new("ip").args(["netns", "delete", &self.name]).status().ok();
        let folder = Path::new(WORK_DIR).join(&self.name);
        // A killed daemon leaves its BPF file system mounted.
        umount2(&folder.join("run/bpf"), MntFlags::MNT_DETACH).ok();
        fs::remove_dir_all(folder).ok();
    }
}

impl Host {
    /// Makes a host with only a loopback device.
    pub(crate) fn new(name: &str) -> Result<Host> {
        run_command(Command::new("ip").args(["netns", "add", name]))?;
        let net = File::open(format!("/run/netns/{name}"))?;
        let host = Host(Arc::new(Namespace { name: name.to_owned(), net: Arc::new(net.into()) }));
        fs::create_dir_all(host.folder())?;
        host.ip(&["link set lo up"])?;
        // The machine may not allow it, which `congestion::allow_cubic` has reported.
        host.set_sysctl("ipv4/tcp_congestion_control", "cubic").ok();
        TCP_SETTINGS.iter().try_for_each(|(setting, value)| host.set_sysctl(setting, value))?;
        Ok(host)
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.0.name
    }

    /// The directory of its files.
    pub(crate) fn folder(&self) -> PathBuf {
        Path::new(WORK_DIR).join(&self.0.name)
    }

    /// Executes the lines as commands of `ip -batch`.
    pub(crate) fn ip(&self, lines: &[&str]) -> Result<()> {
        let mut child = Command::new("ip")
            .args(["-n", &self.0.name, "-batch", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot start ip")?;
        if let Some(mut input) = child.stdin.take() {
            input.write_all(lines.join("\n").as_bytes())?;
        }
        let done = child.wait_with_output()?;
        if !done.status.success() {
            bail!("ip on {}: {} (of {lines:?})", self.0.name, String::from_utf8_lossy(&done.stderr).trim());
        }
        Ok(())
    }

    /// Sets a sysctl below `net.`, for example `ipv6/conf/all/forwarding`.
    pub(crate) fn set_sysctl(&self, setting: &str, value: &str) -> Result<()> {
        self.in_namespace(|| fs::write(format!("/proc/sys/net/{setting}"), value))?
            .with_context(|| format!("{}: cannot set {setting} to {value}", self.0.name))
    }

    /// The interface index.
    pub(crate) fn interface_index(&self, interface: &str) -> Result<u32> {
        let index = self.in_namespace(|| nix::net::if_::if_nametoindex(interface))?;
        index.with_context(|| format!("{}: no interface {interface}", self.0.name))
    }

    /// The addresses that `ip address show` lists with these selectors (`dev`, `scope`, `-tentative`).
    pub(crate) fn addresses(&self, selectors: &[&str]) -> Result<Vec<Ipv6Addr>> {
        let text = self.output("ip", &[&["-6", "-o", "address", "show"], selectors].concat())?;
        Ok(text.lines().filter_map(|line| line.split_whitespace().nth(3)?.split_once('/')?.0.parse().ok()).collect())
    }

    /// The global address, if any, that these selectors choose and whose first 48 bits are those of `prefix`.
    pub(crate) fn address_in(&self, prefix: Ipv6Addr, selectors: &[&str]) -> Option<Ipv6Addr> {
        let near = |address: &Ipv6Addr| address.segments().get(..3) == prefix.segments().get(..3);
        self.addresses(&[&["scope", "global"], selectors].concat()).ok()?.into_iter().find(near)
    }

    /// Packets that an interface has received (`rx`) or sent (`tx`).
    pub(crate) fn packet_count(&self, interface: &str, way: &str) -> Result<u64> {
        let shown = self.output("ip", &["-j", "-s", "link", "show", interface])?;
        let shown: Value = serde_json::from_str(&shown)?;
        let packets = shown.pointer(&format!("/0/stats64/{way}/packets")).and_then(Value::as_u64);
        packets.with_context(|| format!("{}: no count of packets at {interface}", self.0.name))
    }

    /// Turns an offload of an interface on or off. A veth needs GRO (NAPI) to run native XDP programs.
    pub(crate) fn set_offload(&self, interface: &str, offload: Offload, on: bool) -> Result<()> {
        let done = self.in_namespace(|| set_offload(interface, offload, on))?;
        let name = match offload {
            Offload::Gro => "generic receive offload",
            Offload::Tso => "TCP segmentation offload",
        };
        done.with_context(|| format!("{}: {name} of {interface}", self.0.name))
    }

    /// Runs `work` on a thread in this host's network namespace; sockets it opens stay there.
    pub(crate) fn in_namespace<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| setns(&*self.0.net, CloneFlags::CLONE_NEWNET).map(|()| work()));
            thread.join().map_err(|_| anyhow!("a thread inside {} panicked", self.0.name))?.map_err(Into::into)
        })
    }

    /// A command that will run in this host.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        set_up_child(&mut command, ChildSetup { net: Some(self.0.net.clone()), die_with_parent: false });
        command.stdin(Stdio::null());
        command
    }

    /// Sends `count` echo requests by ping with these arguments; the round-trip times of those that were answered,
    /// milliseconds.
    pub(crate) fn ping(&self, count: usize, arguments: &[&str]) -> Result<Vec<f64>> {
        let mut ping = self.command("ping");
        ping.args(["-6", "-n", "-c", &count.to_string()]).args(arguments).stderr(Stdio::null());
        // The exit status is an error if a reply is missing.
        let output = ping.output()?.stdout;
        let text = String::from_utf8_lossy(&output);
        let replies = text.lines().filter_map(parse_reply).filter(|(sequence, _)| *sequence <= count);
        Ok(replies.collect::<BTreeMap<usize, f64>>().into_values().collect())
    }

    /// Runs a command in this host to its end; its standard output if it succeeds.
    pub(crate) fn output(&self, program: impl AsRef<std::ffi::OsStr>, arguments: &[&str]) -> Result<String> {
        run_command(self.command(program).args(arguments))
    }
}

/// Sequence number and round-trip time (milliseconds) of a reply in ping's output.
fn parse_reply(line: &str) -> Option<(usize, f64)> {
    let field = |name: &str| line.split(name).nth(1)?.split(' ').next();
    Some((field("icmp_seq=")?.parse().ok()?, field("time=")?.parse().ok()?))
}

/// CPU time that a process has used so far, by threads that have ended too.
pub(crate) fn cpu_time_of(pid: u32) -> Result<Duration> {
    Ok(clock_getcpuclockid(Pid::from_raw(i32::try_from(pid)?))?.now()?.into())
}

/// The relay process of the daemon of a host.
pub(crate) fn relay_of(host: &Host) -> Result<u32> {
    let file = host.folder().join("run/relay.pid");
    let text = fs::read_to_string(&file).with_context(|| format!("no relay: {}", file.display()))?;
    Ok(text.trim().parse()?)
}

/// A process that is killed on drop.
#[derive(Debug)]
pub(crate) struct Process(pub(crate) Child);

impl Drop for Process {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Runs a command to its end; its standard output if it succeeds, its standard error as the error if not.
pub(crate) fn run_command(command: &mut Command) -> Result<String> {
    let done = command.output().with_context(|| format!("cannot start {}", command.get_program().display()))?;
    if !done.status.success() {
        bail!("{command:?}: {} {}", done.status, String::from_utf8_lossy(&done.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}
