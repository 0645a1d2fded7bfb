//! The real binary as a home agent in a network namespace of its own, controlled as by an operator.

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test fails at the assertion")]

use roam6_proto::case::Case;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const BINARY: &str = env!("CARGO_BIN_EXE_roam6");
/// Slow machines are no failure.
const PATIENCE: Duration = Duration::from_secs(20);

/// A namespace that lives as long as the process that holds it.
struct Namespace {
    holder: Child,
    folder: TempDir,
}

impl Namespace {
    /// `None`, with a word of why, where namespaces cannot be made.
    fn new(test: &str) -> Option<Namespace> {
        let mut command = Command::new("unshare");
        // The holder ends when its input does, also when the test is killed.
        command.args(["--net", "--mount", "sh", "-c", "ip link set lo up && echo up && exec cat"]);
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let Ok(mut holder) = started else {
            println!("skipped: {test}: unshare is missing");
            return None;
        };
        let mut word = String::new();
        BufReader::new(holder.stdout.as_mut().unwrap()).read_line(&mut word).unwrap();
        if word != "up\n" {
            println!("skipped: {test}: no network namespaces here (not root?)");
            return None;
        }
        let place = Namespace { holder, folder: tempfile::tempdir().unwrap() };
        place.shell("ip link add home0 type veth peer name host0 && ip link set home0 up && ip link set host0 up");
        place.shell("ip address add 2001:db8:1::1/64 dev home0 nodad");
        let config = format!(
            "name = \"ha\"\nrun_dir = \"{0}/run\"\nstate_dir = \"{0}/state\"\n\
             [home_agent]\naddress = \"2001:db8:1::1\"\nhome_prefixes = [\"2001:db8:1::/64\"]\nhome_link = \"home0\"\n\
             prefix_table = \"mobiles.toml\"\n",
            place.folder.path().display()
        );
        fs::write(place.file("ha.toml"), config).unwrap();
        place.enroll("2001:db8:1::100 --prefix 2001:db8:100::/56");
        Some(place)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn enroll(&self, mobile: &str) {
        let key = mobile.split_once(' ').unwrap().0.replace(':', "");
        self.roam6(&format!("enroll --table @mobiles.toml --key-file @{key} --home-address {mobile}"));
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--net", "--mount", "--target", &self.holder.id().to_string(), program]);
        command
    }

    fn shell(&self, script: &str) -> String {
        let output = self.command("sh").args(["-c", script]).output().unwrap();
        assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs roam6; a word that begins with `@` is a file of this place.
    fn try_roam6(&self, arguments: &str) -> Output {
        let word = |word: &str| match word.strip_prefix('@') {
            Some(name) => self.file(name).into_os_string(),
            None => word.into(),
        };
        self.command(BINARY).args(arguments.split(' ').map(word)).output().unwrap()
    }

    fn roam6(&self, arguments: &str) -> String {
        let output = self.try_roam6(arguments);
        assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Starts the daemon and waits until it notifies its service manager that it is ready.
    fn start(&self, more: &[&str]) -> Daemon {
        let socket = self.file("notify.sock");
        let _ = fs::remove_file(&socket);
        let manager = UnixDatagram::bind(&socket).unwrap();
        manager.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut command = self.command(BINARY);
        command.args(["run", "--config"]).arg(self.file("ha.toml")).args(more);
        let mut child = command.env("NOTIFY_SOCKET", &socket).stderr(Stdio::piped()).spawn().unwrap();
        let log = child.stderr.take().unwrap();
        let reader = std::thread::spawn(move || {
            let mut text = String::new();
            BufReader::new(log).read_to_string(&mut text).map(|_| text).unwrap()
        });
        let daemon = Daemon { child, manager, reader: Some(reader) };
        assert_eq!(daemon.hear(), "READY=1");
        daemon
    }

    /// Everything of the kernel that roam6 may have touched.
    fn traces(&self) -> String {
        self.shell(
            "ip -o link | sed 's/qdisc.*//'; ip -6 -o address | sed 's/valid_lft.*//'; ip -6 route show table all; \
             ip -6 rule; ip -6 neighbour show proxy; nft list ruleset 2>/dev/null; grep run/bpf /proc/self/mountinfo; \
             grep . /proc/sys/net/ipv6/conf/*/forwarding /proc/sys/net/ipv6/conf/*/proxy_ndp",
        )
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

struct Daemon {
    child: Child,
    manager: UnixDatagram,
    reader: Option<std::thread::JoinHandle<String>>,
}

impl Daemon {
    /// Its next notification to the service manager.
    fn hear(&self) -> String {
        let mut octets = [0; 200];
        let length = self.manager.recv(&mut octets).expect("the daemon says nothing");
        String::from_utf8(octets[..length].to_vec()).unwrap()
    }

    fn signal(&self, name: &str) {
        let status = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    /// Ends it by a signal; returns whether it ended well, and its log.
    fn end(mut self, signal: &str) -> (bool, String) {
        self.signal(signal);
        let status = self.child.wait().unwrap();
        (status.success(), self.reader.take().unwrap().join().unwrap())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn the_daemon_responds_and_removes_its_kernel_state() {
    let Some(place) = Namespace::new("the_daemon_responds_and_removes_its_kernel_state") else { return };
    let ready = || place.shell("ip -6 -o address show scope link -tentative").lines().count() == 2;
    wait_for("link-local addresses", || ready() && !place.traces().contains("tentative"));
    let before = place.traces();
    let daemon = place.start(&[]);
    let ask = |arguments: &str| place.roam6(&format!("{arguments} --run-dir @run"));

    assert_eq!(ask("show bindings"), "none\n");
    assert!(ask("show links").contains("home0  home  up"), "{}", ask("show links"));
    let links: serde_json::Value = serde_json::from_str(&ask("show links --json")).unwrap();
    assert_eq!(links[0]["name"], "home0");
    assert!(ask("metrics").contains("roam6_links{role=\"home\""));
    let mode = fs::metadata(place.file("run/control.sock")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660);

    let second = place.try_roam6("run --config @ha.toml");
    assert_eq!(second.status.code(), Some(1));
    let why = String::from_utf8(second.stderr).unwrap();
    assert!(why.contains(&format!("another roam6 runs with run_dir {}", place.file("run").display())), "{why}");

    assert!(place.traces().contains("nemo0"));
    let (well, log) = daemon.end("TERM");
    assert!(well, "{log}");
    assert_eq!(place.traces(), before);
    assert_eq!(fs::read_dir(place.file("run")).unwrap().count(), 0, "the run directory is empty");
    let absent = place.try_roam6("show bindings --run-dir @run");
    assert_eq!(absent.status.code(), Some(3));
}

#[test]
fn sighup_reloads_the_configuration() {
    let Some(place) = Namespace::new("sighup_reloads_the_configuration") else { return };
    let daemon = place.start(&[]);
    let reload = || {
        daemon.signal("HUP");
        assert!(daemon.hear().starts_with("RELOADING=1\nMONOTONIC_USEC="));
        assert_eq!(daemon.hear(), "READY=1");
    };
    place.enroll("2001:db8:1::101 --prefix 2001:db8:200::/56");
    reload();
    let good = fs::read_to_string(place.file("ha.toml")).unwrap();
    fs::write(place.file("ha.toml"), good.replace("home_link", "home_lnk")).unwrap();
    reload();
    fs::write(place.file("ha.toml"), good.replace("\"ha\"", "\"other\"")).unwrap();
    reload();
    let (well, log) = daemon.end("TERM");
    assert!(well, "{log}");
    assert!(log.contains("prefix table reloaded: 2 mobile routers"), "{log}");
    assert!(log.contains("unknown key `home_lnk`; did you mean `home_link`?"), "{log}");
    assert!(log.contains("the previous settings remain in effect"), "{log}");
    assert!(log.contains("changed settings that need a restart: name"), "{log}");
}

/// A mobile router that every home agent has refused registers again when it is reloaded, whether or not its settings changed.
#[test]
fn each_reload_makes_a_refused_mobile_router_register_again() {
    let Some(place) = Namespace::new("each_reload_makes_a_refused_mobile_router_register_again") else { return };
    let config = format!(
        "run_dir = \"{0}/run\"\nstate_dir = \"{0}/state\"\n\
         [mobile_router]\nhome_address = \"2001:db8:9::100\"\nhome_prefix = \"2001:db8:9::/64\"\n\
         home_agents = [\"2001:db8:9::1\"]\nprefixes = [\"2001:db8:100::/56\"]\nauth = \"none\"\n\
         [[mobile_router.uplink]]\ninterface = \"home0\"\n",
        place.folder.path().display()
    );
    fs::write(place.file("ha.toml"), config).unwrap();
    let path = place.file("talk.case");
    let daemon = place.start(&["--record", path.to_str().unwrap()]);
    daemon.signal("HUP");
    assert!(daemon.hear().starts_with("RELOADING=1"));
    assert_eq!(daemon.hear(), "READY=1");
    let (well, log) = daemon.end("TERM");
    assert!(well, "{log}");
    let recording = fs::read_to_string(&path).unwrap();
    let commands = recording.lines().filter(|line| line.contains("\"order\":{\"mobile_router\"")).count();
    assert_eq!(commands, 1, "{recording}");
}

#[test]
fn a_killed_daemon_keeps_its_kernel_state_and_recovers_bindings() {
    let Some(place) = Namespace::new("a_killed_daemon_keeps_its_kernel_state_and_recovers_bindings") else { return };
    let daemon = place.start(&[]);
    daemon.end("KILL");
    assert!(place.traces().contains("nemo0"), "the tunnel outlives the daemon");
    let daemon = place.start(&[]);
    assert!(daemon.end("TERM").0);
    assert!(!place.traces().contains("nemo0"));
}

#[test]
fn a_recording_can_be_replayed() {
    let Some(place) = Namespace::new("a_recording_can_be_replayed") else { return };
    let path = place.file("talk.case");
    let daemon = place.start(&["--record", path.to_str().unwrap()]);
    place.shell("ip link set host0 down; ip link set host0 up");
    place.shell("ip address add 2001:db8:1::2/64 dev home0");
    place.roam6("unbind 2001:db8:1::100 --run-dir @run");
    let (well, log) = daemon.end("TERM");
    assert!(well, "{log}");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600, "it holds keys");
    let case = Case::parse(&fs::read_to_string(&path).unwrap()).unwrap();
    assert!(case.steps.len() > 5, "{case:?}");
    assert_eq!(case.replay(), case);
}

#[test]
fn clients_receive_an_error_when_descriptors_run_out() {
    let Some(place) = Namespace::new("clients_receive_an_error_when_descriptors_run_out") else { return };
    let daemon = place.start(&[]);
    let process = daemon.child.id().to_string();
    let limit = |files: usize| {
        let status = Command::new("prlimit").args(["--pid", &process, &format!("--nofile={files}:")]).status();
        assert!(status.unwrap().success());
    };
    let open = |number: &usize| fs::symlink_metadata(format!("/proc/{process}/fd/{number}")).is_ok();
    let free: Vec<usize> = (0..1024).filter(|number| !open(number)).collect();
    // One for the client, and none for the background task that encodes the dump.
    limit(free[1]);
    let shown = place.try_roam6("show bindings --run-dir @run");
    let why = String::from_utf8_lossy(&shown.stderr).into_owned();
    assert!(!shown.status.success() && why.contains("the state could not be dumped"), "{why}");
    limit(1024);
    assert_eq!(place.roam6("show bindings --run-dir @run"), "none\n");
    let (well, log) = daemon.end("TERM");
    assert!(well, "{log}");
}

#[test]
fn errors_have_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wrong.toml");
    fs::write(&path, "[home_agent]\naddres = \"2001:db8::1\"\n").unwrap();
    for arguments in [["check", "--json"], ["run", "--config"]] {
        let output = Command::new(BINARY).args(arguments).arg(&path).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        let expected = format!(
            "{}:2:1: unknown key `addres`\n  2 | addres = \"2001:db8::1\"\n    | ^^^^^^\n  did you mean `address`?\n",
            path.display()
        );
        assert_eq!(String::from_utf8(output.stderr).unwrap(), expected);
    }
}
