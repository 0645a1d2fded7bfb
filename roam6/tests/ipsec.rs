//! A mobile router and a home agent that trust one another by IPsec (RFC 3776), both the real binary, each in a namespace
//! of its own; tshark judges what is on the wire.

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails where it stands")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const BINARY: &str = env!("CARGO_BIN_EXE_roam6");
/// Slow machines are no failure.
const PATIENCE: Duration = Duration::from_secs(30);

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A namespace that lives as long as the process that holds it.
struct Place(Running);

impl Place {
    fn new() -> Option<Place> {
        let mut command = Command::new("unshare");
        // The holder ends when its input does, also when the test is killed.
        command.args(["--net", "--mount", "sh", "-c", "ip link set lo up && echo up && exec cat"]);
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut holder = Running(started.ok()?);
        let mut word = String::new();
        BufReader::new(holder.0.stdout.as_mut()?).read_line(&mut word).ok()?;
        (word == "up\n").then_some(Place(holder))
    }

    fn number(&self) -> u32 {
        self.0.0.id()
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--net", "--mount", "--target", &self.number().to_string()]).args(words);
        command
    }

    fn start(&self, words: &[&str]) -> Running {
        Running(self.command(words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    fn shell(&self, script: &str) {
        run(&mut self.command(&["sh", "-c", script]));
    }

    /// Starts roam6 with this file.
    fn roam6(&self, config: &Path) -> Running {
        self.start(&[BINARY, "run", "--config", config.to_str().unwrap()])
    }
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

const ROUTER: &str = "
[mobile_router]
home_address = \"2001:db8:1::100\"
home_prefix = \"2001:db8:1::/64\"
home_agents = [\"2001:db8:1::1\"]
prefixes = [\"2001:db8:100::/56\"]
auth = \"ipsec\"
key_file = \"mr.key\"
[[mobile_router.uplink]]
interface = \"up0\"
";

const AGENT: &str = "
[home_agent]
address = \"2001:db8:1::1\"
home_prefixes = [\"2001:db8:1::/64\"]
prefix_table = \"mobiles.toml\"
";

const ADVERTISEMENTS: &str = "interface visit0 { AdvSendAdvert on; MinRtrAdvInterval 3; MaxRtrAdvInterval 4; \
                              prefix 2001:db8:2::/64 { }; };\n";

/// Writes a configuration with folders of its own.
fn write_config(folder: &Path, name: &str, role: &str) -> std::path::PathBuf {
    let path = folder.join(format!("{name}.toml"));
    let own = folder.join(name);
    let text = format!("name = \"{name}\"\nrun_dir = \"{0}/run\"\nstate_dir = \"{0}/state\"\n{role}", own.display());
    fs::write(&path, text).unwrap();
    path
}

/// What tshark is told of the security associations in a key file, so that it checks them itself.
fn associations(key_file: &Path) -> Vec<String> {
    let table: toml::Table = fs::read_to_string(key_file).unwrap().parse().unwrap();
    let pair = table.get("ipsec").unwrap();
    let options = ["to_home_agent", "to_mobile"].map(|direction| {
        let one = pair.get(direction).unwrap();
        let spi = one.get("spi").and_then(toml::Value::as_integer).unwrap();
        let key = one.get("key").and_then(toml::Value::as_str).unwrap();
        format!(
            "uat:esp_sa:\"IPv6\",\"*\",\"*\",\"{spi:#010x}\",\"NULL\",\"\",\"HMAC-SHA-256-128 [RFC4868]\",\"0x{key}\""
        )
    });
    options.to_vec()
}

#[test]
fn a_mobile_router_registers_in_esp() {
    let test = "a_mobile_router_registers_in_esp";
    let (Some(agent), Some(router)) = (Place::new(), Place::new()) else {
        return println!("skipped: {test}: no network namespaces here (not root?)");
    };
    for (tool, word) in [("radvd", "--version"), ("tcpdump", "--version"), ("tshark", "--version")] {
        if Command::new(tool).arg(word).output().is_err() {
            return println!("skipped: {test}: {tool} is missing");
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    agent.shell(&format!(
        "sysctl -qw net.ipv6.conf.all.forwarding=1 && ip address add 2001:db8:1::1/64 dev lo && \
         ip link add visit0 type veth peer name up0 netns {} && ip link set visit0 up && \
         ip address add 2001:db8:2::1/64 dev visit0 nodad",
        router.number()
    ));
    let mut enroll = Command::new(BINARY);
    enroll.args(["enroll", "--ipsec", "--home-address", "2001:db8:1::100", "--prefix", "2001:db8:100::/56", "--table"]);
    run(enroll.arg(file("mobiles.toml")).arg("--key-file").arg(file("mr.key")));
    fs::write(file("radvd.conf"), ADVERTISEMENTS).unwrap();
    let capture = file("visit0.pcap");
    let words = ["tcpdump", "-Z", "root", "-U", "-i", "visit0", "-w", capture.to_str().unwrap()];
    let _listener = agent.start(&words);
    wait_for("tcpdump", || capture.exists());

    let _agent = agent.roam6(&write_config(folder.path(), "ha", AGENT));
    let (conf, pid) = (file("radvd.conf"), file("radvd.pid"));
    let radvd = ["radvd", "-n", "-C", conf.to_str().unwrap(), "-p", pid.to_str().unwrap()];
    let _radvd = agent.start(&radvd);
    let _router = router.roam6(&write_config(folder.path(), "mr", ROUTER));
    router.shell("ip link set up0 up");
    let mut bindings = agent.command(&[BINARY, "show", "bindings", "--run-dir"]);
    bindings.arg(file("ha/run"));
    wait_for("bound", || {
        let shown = bindings.output().unwrap();
        String::from_utf8_lossy(&shown.stdout).contains("2001:db8:1::100")
    });

    let judge = |more: &str| {
        let mut tshark = Command::new("tshark");
        tshark.args(["-n", "-r", capture.to_str().unwrap(), "-o", "esp.enable_encryption_decode:TRUE"]);
        tshark.args(["-o", "esp.enable_authentication_check:TRUE"]);
        associations(&file("mr.key")).iter().for_each(|option| {
            tshark.args(["-o", option]);
        });
        tshark.args(["-Y", &format!("esp && {more}"), "-T", "fields", "-e", "mip6.mhtype", "-e", "esp.icv_good"]);
        run(&mut tshark)
    };
    let mut seen = String::new();
    wait_for("an update and an acknowledgement that tshark understands", || {
        seen = judge("mipv6");
        let has = |kind: &str| seen.lines().any(|line| line.split_whitespace().next() == Some(kind));
        has("5") && has("6")
    });
    let verified = seen.lines().all(|line| matches!(line.split_whitespace().nth(1), Some("1" | "True")));
    assert!(verified, "{seen}");
    assert_eq!(judge("(_ws.malformed || _ws.expert.severity >= 0x600000)"), "");
    let mut clear = Command::new("tshark");
    clear.args(["-n", "-Y", "mipv6 && !esp", "-r", capture.to_str().unwrap()]);
    assert_eq!(run(&mut clear), "", "mobility messages in the clear");
}
