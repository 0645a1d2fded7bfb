//! The testbed for tests of the real binary: a home agent with a visited network, a mobile router and a host inside, each in
//! a network namespace that ends with the test.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

pub mod capture;
pub mod host;
pub mod machines;
pub mod nat;
pub mod pki;
pub mod terminal;
pub mod transfer;
pub mod visited_network;
pub mod wireguard;

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

pub const BINARY: &str = env!("CARGO_BIN_EXE_roam6");
/// Generous, for slow machines, and for the emulated one of `make test-vm`, where a daemon takes minutes to load its programs.
const PATIENCE: Duration = Duration::from_secs(120);
const EMULATED_PATIENCE: Duration = Duration::from_secs(600);

/// Whether the machine is the emulated one of `make test-vm`, which nothing else uses.
pub fn has_own_machine() -> bool {
    std::env::var_os("ROAM6_OWN_MACHINE").is_some()
}

fn patience() -> Duration {
    if has_own_machine() { EMULATED_PATIENCE } else { PATIENCE }
}

/// A process that ends with the test.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Allows network namespaces CUBIC, if the machine's default is another congestion control and this process may.
fn allow_cubic() {
    let setting = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";
    let allowed = fs::read_to_string(setting).unwrap_or_default();
    if !allowed.split_whitespace().any(|name| name == "cubic") {
        let _ = fs::write(setting, format!("{} cubic", allowed.trim_end()));
    }
}

/// A network namespace that exists as long as its holder process.
pub struct Namespace(Running);

impl Namespace {
    pub fn new() -> Option<Namespace> {
        allow_cubic();
        let mut command = Command::new("unshare");
        // A network namespace begins with the machine's settings of TCP. The holder ends when its input does, also when the test is
        // killed.
        let script = "cd /proc/sys/net/ipv4 && echo 4096 131072 6291456 > tcp_rmem && echo 4096 16384 4194304 > tcp_wmem && \
                      { echo cubic > tcp_congestion_control || true; } && cd / && ip link set lo up && echo up && exec cat";
        command.args(["--net", "--mount", "sh", "-c", script]);
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut holder = Running(started.ok()?);
        let mut word = String::new();
        BufReader::new(holder.0.stdout.as_mut()?).read_line(&mut word).ok()?;
        (word == "up\n").then_some(Namespace(holder))
    }

    /// What `ip link ... netns` takes.
    pub fn number(&self) -> u32 {
        self.0.0.id()
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--net", "--mount", "--root", "--target", &self.number().to_string()]).args(words);
        command
    }

    /// Runs a function in this namespace.
    pub fn enter<R: Send>(&self, act: impl FnOnce() -> R + Send) -> R {
        let namespace = fs::File::open(format!("/proc/{}/ns/net", self.number())).unwrap();
        std::thread::scope(|scope| {
            let inside = scope.spawn(|| {
                nix::sched::setns(namespace, nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
                act()
            });
            inside.join().unwrap()
        })
    }

    pub fn start(&self, words: &[&str]) -> Running {
        Running(self.command(words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    pub fn shell(&self, script: &str) -> String {
        run(&mut self.command(&["sh", "-c", script]))
    }

    /// The link-layer address of an interface.
    pub fn link_address(&self, interface: &str) -> String {
        let shown = self.shell(&format!("ip -o link show dev {interface}"));
        let (_, rest) = shown.split_once("link/ether ").unwrap();
        rest.split_whitespace().next().unwrap().to_owned()
    }

    /// What `ping` says of one echo request of a size, which may not be fragmented, awaited for so many seconds. Of
    /// several it would await the last for two round trips only, regardless of `-W`, and then count a late answer as lost.
    pub fn ping(&self, seconds: u32, size: &str, to: &str) -> String {
        let seconds = seconds.to_string();
        let output = self.command(&["ping", "-nc1", "-W", &seconds, "-M", "do", "-s", size, to]).output().unwrap();
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    }

    /// Starts roam6 with this configuration; its log is written next to it.
    pub fn roam6(&self, config: &Path) -> Running {
        let log = File::options().append(true).create(true).open(config.with_extension("log")).unwrap();
        let mut command = self.command(&[BINARY, "run", "--config", config.to_str().unwrap()]);
        Running(command.stdout(Stdio::null()).stderr(log).spawn().unwrap())
    }
}

pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

pub fn wait_for(what: &str, done: impl FnMut() -> bool) {
    wait_or_report(what, done, String::new);
}

/// The same; on a timeout the output of `story` is reported too.
pub fn wait_or_report(what: &str, mut done: impl FnMut() -> bool, story: impl Fn() -> String) {
    let until = Instant::now() + patience();
    while !done() {
        assert!(Instant::now() < until, "{what}\n{}", story());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The mobile router without interfaces.
pub const ROUTER: &str = "
[mobile_router]
home_address = \"2001:db8:1::100\"
home_prefix = \"2001:db8:1::/64\"
home_agents = [\"2001:db8:1::1\"]
prefixes = [\"2001:db8:100::/56\"]
key_file = \"mr.key\"
";

/// A second one, without interfaces; [`Testbed::enroll_second`] enrols it.
pub const SECOND_ROUTER: &str = "
[mobile_router]
home_address = \"2001:db8:1::200\"
home_prefix = \"2001:db8:1::/64\"
home_agents = [\"2001:db8:1::1\"]
prefixes = [\"2001:db8:200::/56\"]
key_file = \"second.key\"
";

/// The uplink of the first one.
pub const UPLINK: &str = "
[[mobile_router.uplink]]
interface = \"up0\"
";

/// Two uplinks that share the flows, without probes, by which one would be left on a busy machine.
pub const TWO_UPLINKS: &str = "
sharing = \"weights\"
[mobile_router.probe]
enabled = false
[[mobile_router.uplink]]
interface = \"up0\"
[[mobile_router.uplink]]
interface = \"up1\"
";

pub const INGRESS: &str = "
[[mobile_router.ingress]]
interface = \"in0\"
prefix = \"2001:db8:100::/64\"
";

const AGENT: &str = "
[home_agent]
address = \"2001:db8:1::1\"
home_prefixes = [\"2001:db8:1::/64\"]
prefix_table = \"mobiles.toml\"
";

/// The hosts of the testbed. The home agent's host is also the correspondent, `2001:db8:9::9`; the node is `2001:db8:100::2`.
pub struct Testbed {
    pub agent: Namespace,
    pub router: Namespace,
    pub node: Namespace,
    pub folder: TempDir,
}

impl Testbed {
    /// `None` if it cannot be built; prints why.
    pub fn new(test: &str) -> Option<Testbed> {
        let (Some(agent), Some(router), Some(node)) = (Namespace::new(), Namespace::new(), Namespace::new()) else {
            println!("skipped: {test}: no network namespaces here (not root?)");
            return None;
        };
        if Command::new("radvd").arg("--version").output().is_err() {
            println!("skipped: {test}: radvd is missing");
            return None;
        }
        agent.shell(&format!(
            "sysctl -qw net.ipv6.conf.all.forwarding=1 && \
             for address in 2001:db8:1::1 2001:db8:9::9; do ip address add $address/128 dev lo; done && \
             ip link add visit0 type veth peer name up0 netns {} && ip link set visit0 up && \
             ip address add 2001:db8:2::1/64 dev visit0 nodad && ip address add 2001:db8:3::1/64 dev visit0 nodad",
            router.number()
        ));
        router.shell(&format!(
            "ip link add in0 type veth peer name eth0 netns {} && ip link set in0 up && ip link set up0 up",
            node.number()
        ));
        node.shell(
            "sysctl -qw net.ipv6.conf.eth0.accept_ra=0 net.ipv6.conf.eth0.accept_dad=0 && ip link set eth0 up && \
             ip address add 2001:db8:100::2/64 dev eth0 nodad && ip route add default via 2001:db8:100::1",
        );
        Some(Testbed { agent, router, node, folder: tempfile::tempdir().unwrap() })
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Enrols the mobile router; `more` are arguments of `roam6 enroll`.
    pub fn enroll(&self, more: &[&str]) {
        self.enroll_as("2001:db8:1::100", "2001:db8:100::/56", "mr.key", more);
    }

    /// Enrols the second mobile router.
    pub fn enroll_second(&self) {
        self.enroll_as("2001:db8:1::200", "2001:db8:200::/56", "second.key", &[]);
    }

    /// The same for any mobile router.
    pub fn enroll_as(&self, home_address: &str, prefix: &str, key_file: &str, more: &[&str]) {
        let mut enroll = Command::new(BINARY);
        enroll.args(["enroll", "--home-address", home_address, "--prefix", prefix]).args(more);
        run(enroll.arg("--table").arg(self.file("mobiles.toml")).arg("--key-file").arg(self.file(key_file)));
    }

    /// Advertises this prefix in the visited network until the returned process is dropped.
    pub fn advertise(&self, prefix: &str) -> Running {
        // A former one's helper process may hold its file for a while after it.
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let file = |kind: &str| self.file(&format!("radvd-{number}.{kind}"));
        let (conf, pid) = (file("conf"), file("pid"));
        let text = format!(
            "interface visit0 {{ AdvSendAdvert on; MinRtrAdvInterval 3; MaxRtrAdvInterval 4; prefix {prefix} {{ }}; }};\n"
        );
        fs::write(&conf, text).unwrap();
        self.agent.start(&["radvd", "-n", "-C", conf.to_str().unwrap(), "-p", pid.to_str().unwrap()])
    }

    /// A second visited network, 2001:db8:4::/64, and its advertiser.
    pub fn add_other_network(&self) -> Running {
        self.agent.shell(&format!(
            "ip link add visit1 type veth peer name up1 netns {} && ip link set visit1 up && \
             ip address add 2001:db8:4::1/64 dev visit1 nodad",
            self.router.number()
        ));
        self.router.shell("ip link set up1 up");
        let (conf, pid) = (self.file("radvd-other.conf"), self.file("radvd-other.pid"));
        let text = "interface visit1 { AdvSendAdvert on; MinRtrAdvInterval 3; MaxRtrAdvInterval 4; \
                    prefix 2001:db8:4::/64 { }; };\n";
        fs::write(&conf, text).unwrap();
        self.agent.start(&["radvd", "-n", "-C", conf.to_str().unwrap(), "-p", pid.to_str().unwrap()])
    }

    pub fn start_agent(&self) -> Running {
        self.start_agent_with("auto")
    }

    /// Starts the mobile router; `more` is added to its table.
    pub fn start_router(&self, more: &str) -> Running {
        self.start_router_with("auto", more)
    }

    /// The same with this data plane.
    pub fn start_agent_with(&self, data_plane: &str) -> Running {
        self.agent.roam6(&self.agent_config(data_plane))
    }

    /// Starts the home agent with `more` after its table.
    pub fn start_agent_more(&self, more: &str) -> Running {
        self.agent.roam6(&self.write_config("ha", &format!("{AGENT}{more}")))
    }

    /// The same with this data plane.
    pub fn start_router_with(&self, data_plane: &str, more: &str) -> Running {
        self.router.roam6(&self.router_config(data_plane, more))
    }

    /// The mobile router's configuration.
    pub fn router_config(&self, data_plane: &str, more: &str) -> PathBuf {
        self.write_config("mr", &format!("data_plane = \"{data_plane}\"\n{ROUTER}{more}{UPLINK}{INGRESS}"))
    }

    /// The home agent's configuration.
    pub fn agent_config(&self, data_plane: &str) -> PathBuf {
        self.write_config("ha", &format!("data_plane = \"{data_plane}\"\n{AGENT}"))
    }

    /// Waits until the home agent has a binding whose care-of address begins with `care_of`.
    pub fn await_binding(&self, care_of: &str) {
        wait_or_report(care_of, || self.show("ha", "bindings").contains(care_of), || self.logs());
    }

    /// The logs of both.
    pub fn logs(&self) -> String {
        let log = |who: &str| fs::read_to_string(self.file(&format!("{who}.log"))).unwrap_or_default();
        format!("home agent:\n{}\nmobile router:\n{}", log("ha"), log("mr"))
    }

    /// Output of `roam6 show` of `ha` or `mr`; empty if the daemon does not respond.
    pub fn show(&self, who: &str, what: &str) -> String {
        let place = if who == "ha" { &self.agent } else { &self.router };
        let mut show = place.command(&[BINARY, "show", what, "--run-dir"]);
        let shown = show.arg(self.file(who).join("run")).output().unwrap();
        String::from_utf8_lossy(&shown.stdout).into_owned()
    }

    /// Writes a configuration with directories of its own.
    pub fn write_config(&self, name: &str, role: &str) -> PathBuf {
        let path = self.file(&format!("{name}.toml"));
        let own = self.file(name);
        let text =
            format!("name = \"{name}\"\nrun_dir = \"{0}/run\"\nstate_dir = \"{0}/state\"\n{role}", own.display());
        fs::write(&path, text).unwrap();
        path
    }
}
