//! A host with two providers makes its own addresses, where each provider's router advertises a prefix: real daemon, real
//! advertisements, the kernel's own duplicate detection (RFC 4862, RFC 5535).

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test fails at the assertion")]

mod testbed;

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;
use testbed::{BINARY, Namespace, Running, run, wait_for};

const PREFIXES: [&str; 2] = ["2001:db8:a:1::/64", "2001:db8:b:1::/64"];

/// The host, and a router at each of its uplinks.
struct Providers {
    host: Namespace,
    routers: [Namespace; 2],
    folder: TempDir,
}

impl Providers {
    fn new(test: &str) -> Option<Providers> {
        let (Some(host), Some(a), Some(b)) = (Namespace::new(), Namespace::new(), Namespace::new()) else {
            println!("skipped: {test}: no network namespaces here (not root?)");
            return None;
        };
        if Command::new("radvd").arg("--version").output().is_err() {
            println!("skipped: {test}: radvd is missing");
            return None;
        }
        host.shell("sysctl -qw net.ipv6.conf.all.forwarding=0 net.ipv6.conf.default.forwarding=0");
        for (number, router) in [&a, &b].into_iter().enumerate() {
            router.shell("sysctl -qw net.ipv6.conf.all.forwarding=1 net.ipv6.conf.default.accept_dad=0");
            let other = host.number();
            router.shell(&format!(
                "ip link add down0 type veth peer name up{number} netns {other} && ip link set down0 up"
            ));
            host.shell(&format!("ip link set up{number} up"));
        }
        let folder = tempfile::tempdir().unwrap();
        Some(Providers { host, routers: [a, b], folder })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A provider's router advertises its prefix, until the returned value is dropped or ended.
    fn advertise(&self, provider: usize) -> Running {
        let (conf, pid) = (self.file(&format!("radvd{provider}.conf")), self.file(&format!("radvd{provider}.pid")));
        let prefix = PREFIXES[provider];
        let text = format!(
            "interface down0 {{ AdvSendAdvert on; MinRtrAdvInterval 3; MaxRtrAdvInterval 4; \
             prefix {prefix} {{ DeprecatePrefix on; }}; }};\n"
        );
        fs::write(&conf, text).unwrap();
        self.routers[provider].start(&["radvd", "-n", "-C", conf.to_str().unwrap(), "-p", pid.to_str().unwrap()])
    }

    fn start(&self) -> Running {
        let path = self.file("host.toml");
        let own = self.folder.path().display();
        let text = format!(
            "name = \"host\"\nrun_dir = \"{own}/run\"\nstate_dir = \"{own}/state\"\n\
             [shim]\ninterfaces = [\"up0\", \"up1\"]\n[shim.addresses]\nproof = \"hba\"\n"
        );
        fs::write(&path, text).unwrap();
        self.host.roam6(&path)
    }

    /// Addresses that the daemon shows in this state, by prefix.
    fn shown(&self, state: &str) -> Vec<String> {
        let mut show = self.host.command(&[BINARY, "show", "addresses", "--json", "--run-dir"]);
        let output = show.arg(self.file("run")).output().unwrap().stdout;
        let rows: serde_json::Value = serde_json::from_slice(&output).unwrap_or_default();
        let rows = rows.as_array().cloned().unwrap_or_default();
        let mut rows: Vec<_> = rows.iter().filter(|row| row["state"] == state && row["sec"] == 1).collect();
        rows.sort_by_key(|row| row["prefix"].to_string());
        rows.iter().map(|row| row["address"].as_str().unwrap().to_owned()).collect()
    }

    fn await_two(&self, what: &str) -> [String; 2] {
        wait_for(what, || self.shown("preferred").len() == 2);
        self.shown("preferred").try_into().unwrap()
    }

    /// Global addresses as the kernel has them on an uplink.
    fn held(&self, provider: usize) -> String {
        self.host.shell(&format!("ip -6 -o address show dev up{provider} scope global"))
    }

    fn autoconf(&self) -> String {
        self.host.shell("cat /proc/sys/net/ipv6/conf/up1/autoconf").trim().to_owned()
    }
}

/// Ends a process as an operator does.
fn terminate(mut running: Running) {
    run(Command::new("kill").arg(running.0.id().to_string()));
    running.0.wait().unwrap();
}

#[test]
fn shim6_addresses_are_generated_remembered_and_withdrawn() {
    let Some(world) = Providers::new("shim6_addresses_are_generated_remembered_and_withdrawn") else { return };
    // What the kernel has made before is not chosen any more.
    let _a = world.advertise(0);
    wait_for("autoconfiguration", || world.held(0).contains("2001:db8:a:1:"));
    let daemon = world.start();
    wait_for("the daemon", || world.autoconf() == "0");
    let b = world.advertise(1);
    let first = world.await_two("two addresses");
    for (provider, address) in first.iter().enumerate() {
        let held = world.held(provider);
        let preferred: Vec<&str> = held.lines().filter(|line| !line.contains("deprecated")).collect();
        assert!(preferred.len() == 1 && preferred[0].contains(address.as_str()), "{held}");
        let way = world.host.shell(&format!("ip -6 route get 2001:db8:ffff::1 from {address}"));
        assert!(way.contains(&format!("dev up{provider}")), "{way}");
    }
    assert!(!world.held(1).contains("dynamic"), "none of the kernel's making");
    terminate(b);
    wait_for("a deprecated address", || world.shown("deprecated") == [first[1].clone()]);
    assert!(world.held(1).contains("deprecated"), "{}", world.held(1));
    terminate(daemon);
    assert_eq!(world.autoconf(), "1", "as it was found");
    assert!(first.iter().enumerate().all(|(provider, address)| !world.held(provider).contains(address.as_str())));
    // After a restart the same ones, except where another host has one of them meanwhile.
    let daemon = world.start();
    let _b = world.advertise(1);
    assert_eq!(world.await_two("the same addresses"), first);
    terminate(daemon);
    world.routers[0].shell(&format!("ip address add {}/64 dev down0 nodad", first[0]));
    let _daemon = world.start();
    let second = world.await_two("other addresses");
    assert!(second.iter().all(|address| !first.contains(address)), "{first:?} {second:?}");
}
