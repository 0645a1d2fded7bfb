//! What runs beside roam6 on a member: a node of the store (etcd) and a routing daemon (BIRD). Both can be killed and started
//! again.

use super::{MEMBERS, TIMEOUT};
use crate::bed::host::cpu_time_of;
use crate::bed::{Host, Process, sandbox};
use crate::clock;
use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// URL of the store's node on each member.
pub(super) const STORE: &str = "http://[::1]:2379";

/// A program that can be started again; killed on drop.
pub(crate) struct Service {
    host: Host,
    program: &'static str,
    arguments: Vec<String>,
    log: PathBuf,
    process: Option<Process>,
}

impl Service {
    /// Starts it again after [`Service::kill`].
    pub(crate) fn spawn(&mut self) -> Result<()> {
        let log = fs::File::options().create(true).append(true).open(&self.log)?;
        let mut command = self.host.command(self.program);
        let child = command.args(&self.arguments).stdout(log.try_clone()?).stderr(log).spawn();
        let hint = || format!("{}: install it with scripts/install-deps fleet", self.program);
        self.process = Some(Process(child.with_context(hint)?));
        Ok(())
    }

    /// Kills it (SIGKILL).
    pub(crate) fn kill(&mut self) {
        self.process = None;
    }

    /// Stops it where it is, or lets it go on.
    pub(crate) fn freeze(&self, frozen: bool) -> Result<()> {
        Ok(kill(Pid::from_raw(i32::try_from(self.pid()?)?), if frozen { Signal::SIGSTOP } else { Signal::SIGCONT })?)
    }

    /// CPU time since it was started.
    pub(crate) fn cpu_time(&self) -> Result<Duration> {
        cpu_time_of(self.pid()?)
    }

    fn pid(&self) -> Result<u32> {
        self.process.as_ref().map(|process| process.0.id()).with_context(|| format!("{} does not run", self.program))
    }
}

/// Where the node of member `number` has its data: a disk, if the machine has one.
pub(super) fn store_folder(number: usize) -> Result<PathBuf> {
    Ok(sandbox::disk_dir()?.0.join(format!("etcd{number}")))
}

/// Starts a node of the store, with empty data.
pub(super) fn etcd(host: &Host, number: usize) -> Result<Service> {
    let peer = |number: usize| format!("http://[{}]:2380", super::on_cable(number));
    let cluster: Vec<String> = (1..=MEMBERS).map(|number| format!("ha{number}={}", peer(number))).collect();
    let data = store_folder(number)?;
    fs::remove_dir_all(&data).ok();
    let (data, own, cluster) = (data.display().to_string(), peer(number), cluster.join(","));
    let arguments = [
        ["--name", host.name()],
        ["--data-dir", &data],
        ["--listen-client-urls", STORE],
        ["--advertise-client-urls", STORE],
        ["--listen-peer-urls", &own],
        ["--initial-advertise-peer-urls", &own],
        ["--initial-cluster", &cluster],
        ["--logger", "zap"],
        ["--log-level", "error"],
    ];
    // Without a vote of its own, a node that comes back after a partition costs no election.
    let arguments = arguments.concat().into_iter().chain(["--pre-vote"]).map(str::to_owned).collect();
    let log = host.folder().join("etcd.log");
    let mut node = Service { host: host.clone(), program: "etcd", arguments, log, process: None };
    node.spawn()?;
    Ok(node)
}

/// Starts a routing daemon.
pub(super) fn bird(host: &Host, config: &str) -> Result<Service> {
    let file = |kind: &str| host.folder().join(format!("bird.{kind}"));
    fs::write(file("conf"), config)?;
    let [conf, control, pid, log] = ["conf", "ctl", "pid", "log"].map(file);
    let path = |path: &PathBuf| path.display().to_string();
    let arguments =
        ["-f".into(), "-c".into(), path(&conf), "-s".into(), path(&control), "-P".into(), path(&pid)].to_vec();
    let mut daemon = Service { host: host.clone(), program: "bird", arguments, log: log.clone(), process: None };
    daemon.spawn()?;
    if clock::wait_for(TIMEOUT, || control.exists().then_some(())).is_none() {
        bail!("bird on {}: {}", host.name(), fs::read_to_string(log).unwrap_or_default());
    }
    Ok(daemon)
}

/// A member that is back is wanted soon.
const TIMERS: &str = "connect delay time 1; connect retry time 2; error wait time 1, 2; graceful restart off;";

fn common(router_id: usize, bfd: Duration) -> String {
    let millis = bfd.as_millis();
    format!(
        "router id 192.0.2.{router_id};\nlog stderr all;\nprotocol device {{ }}\n\
         protocol bfd {{ interface \"*\" {{ min rx interval {millis} ms; min tx interval {millis} ms; multiplier 3; }}; }}\n"
    )
}

/// As dist/bird/roam6.conf.
pub(super) fn member_config(number: usize, core_as: u32, bfd: Duration) -> String {
    format!(
        "{common}\
         protocol kernel fleet {{ ipv6 {{ import where krt_source = 107; export none; }}; kernel table 107; learn; scan time 5; }}\n\
         filter served {{\n  if net !~ [ 2001:db8:1::1/128, 2001:db8:1::/64, 2001:db8:100::/40 ] then reject;\n  \
         bgp_med = krt_metric;\n  if krt_metric >= 200 then {{ bgp_path.prepend({as_number}); bgp_path.prepend({as_number}); }}\n  \
         accept;\n}}\n\
         protocol bgp core {{\n  local {own} as {as_number};\n  neighbor 2001:db8:e{number}::1 as {core_as};\n  bfd on;\n  {TIMERS}\n  \
         ipv6 {{ import none; export filter served; next hop self; }};\n}}\n",
        common = common(number, bfd),
        as_number = member_as(number),
        own = super::on_cable(number),
    )
}

/// The AS number of a member.
fn member_as(number: usize) -> usize {
    64610 + number
}

/// The configuration of a router with the AS number `own_as` before these members, and what speaks BGP with it beside them.
pub(super) fn router_config(own_as: u32, members: &[usize], bfd: Duration, further: &str) -> String {
    let mut text = common(100 + own_as as usize % 100, bfd)
        + "protocol kernel { ipv6 { import none; export all; }; merge paths on; }\n"
        + further;
    for number in members {
        text += &format!(
            "protocol bgp ha{number} {{\n  local 2001:db8:e{number}::1 as {own_as};\n  neighbor {} as {};\n  bfd on;\n  {TIMERS}\n  \
             ipv6 {{ import all; export none; }};\n}}\n",
            super::on_cable(*number),
            member_as(*number)
        );
    }
    text
}

/// The session of a router with another one, which has the routes of its own members.
pub(super) fn router_session(name: &str, ends: [&str; 2], numbers: [u32; 2]) -> String {
    let ([own, other], [own_as, other_as]) = (ends, numbers);
    format!(
        "protocol bgp {name} {{\n  local {own} as {own_as};\n  neighbor {other} as {other_as};\n  bfd on;\n  {TIMERS}\n  \
         ipv6 {{ import all; export where source = RTS_BGP; next hop self; }};\n}}\n"
    )
}
