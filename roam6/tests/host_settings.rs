//! Kernel settings of a home agent's host: the real daemon on a host with the kernel's defaults, whose default route comes
//! by router advertisements.

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails at the assertion")]

mod testbed;

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;
use testbed::{Namespace, Running, run, wait_or_report};

/// A host that does not forward, and the provider's router that advertises itself to it.
struct Hosting {
    host: Namespace,
    _provider: Namespace,
    folder: TempDir,
    _radvd: Running,
}

impl Hosting {
    fn new(test: &str) -> Option<Hosting> {
        let (Some(host), Some(provider)) = (Namespace::new(), Namespace::new()) else {
            println!("skipped: {test}: no network namespaces here (not root?)");
            return None;
        };
        if Command::new("radvd").arg("--version").output().is_err() {
            println!("skipped: {test}: radvd is missing");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        host.shell(&format!(
            "sysctl -qw net.ipv6.conf.all.forwarding=0 net.ipv6.conf.default.accept_ra=1 && \
             ip link add eth0 type veth peer name down0 netns {} && sysctl -qw net.ipv6.conf.eth0.accept_ra=1 && \
             ip link set eth0 up && ip address add 2001:db8:1::1/128 dev lo",
            provider.number()
        ));
        provider.shell(
            "sysctl -qw net.ipv6.conf.all.forwarding=1 && ip link set down0 up && \
             ip address add 2001:db8:5::1/64 dev down0 nodad",
        );
        let conf = folder.path().join("radvd.conf");
        let pid = folder.path().join("radvd.pid");
        let text = "interface down0 { AdvSendAdvert on; MinRtrAdvInterval 3; MaxRtrAdvInterval 4; \
                    prefix 2001:db8:5::/64 { }; };\n";
        fs::write(&conf, text).unwrap();
        let radvd = provider.start(&["radvd", "-n", "-C", conf.to_str().unwrap(), "-p", pid.to_str().unwrap()]);
        let hosting = Hosting { host, _provider: provider, folder, _radvd: radvd };
        wait_or_report("a default route", || hosting.has_default_route(), String::new);
        Some(hosting)
    }

    fn has_default_route(&self) -> bool {
        self.host.shell("ip -6 route show default proto ra").contains("via fe80::")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn setting(&self, name: &str) -> String {
        self.host.shell(&format!("sysctl -n {name}")).trim().to_owned()
    }

    /// All that a router may change.
    fn settings(&self) -> String {
        self.host.shell(
            "cd /proc/sys/net && grep . ipv6/conf/*/forwarding ipv6/conf/*/accept_ra ipv4/conf/*/forwarding | \
             grep -v nemo0",
        )
    }

    fn start(&self, prefixes: &str) -> Running {
        let own = self.folder.path().display();
        let text = format!(
            "run_dir = \"{own}/run\"\nstate_dir = \"{own}/state\"\n\
             [home_agent]\naddress = \"2001:db8:1::1\"\nhome_prefixes = [\"2001:db8:1::/64\"]\n\
             [[home_agent.mobile]]\nhome_address = \"2001:db8:1::100\"\nprefixes = [{prefixes}]\nauth = \"none\"\n"
        );
        fs::write(self.file("ha.toml"), text).unwrap();
        let _ = fs::remove_file(self.file("ha.log"));
        let running = self.host.roam6(&self.file("ha.toml"));
        wait_or_report("readiness", || self.log().contains("is ready"), || self.log());
        running
    }

    fn log(&self) -> String {
        fs::read_to_string(self.file("ha.log")).unwrap_or_default()
    }

    fn stop(&self, mut daemon: Running) {
        run(Command::new("kill").arg(daemon.0.id().to_string()));
        assert!(daemon.0.wait().unwrap().success(), "{}", self.log());
    }
}

#[test]
fn a_home_agent_enables_forwarding_and_keeps_the_default_route() {
    let Some(hosting) = Hosting::new("a_home_agent_enables_forwarding_and_keeps_the_default_route") else { return };
    let before = hosting.settings();
    let daemon = hosting.start("\"2001:db8:100::/56\"");
    assert_eq!(hosting.setting("net.ipv6.conf.all.forwarding"), "1", "{}", hosting.log());
    assert_eq!(hosting.setting("net.ipv4.ip_forward"), "0", "no mobile network has IPv4");
    let found = hosting.host.shell("sysctl net.ipv6.conf.eth0.accept_ra; ip -6 route");
    assert!(hosting.has_default_route(), "{found}{}", hosting.log());
    // The kernel accepts the next one too, and it does so on interfaces that come later.
    hosting.host.shell("ip -6 route flush default proto ra");
    wait_or_report("the next advertisement", || hosting.has_default_route(), || hosting.log());
    hosting.host.shell("ip link add eth1 type veth peer name eth2");
    assert_eq!(hosting.setting("net.ipv6.conf.eth1.accept_ra"), "2");
    hosting.host.shell("ip link delete eth1");

    // A killed daemon leaves them changed; the next one restores them.
    drop(daemon);
    let daemon = hosting.start("\"2001:db8:100::/56\", \"10.77.1.0/24\"");
    assert_eq!(hosting.setting("net.ipv6.conf.eth0.accept_ra"), "2");
    assert_eq!(hosting.setting("net.ipv4.ip_forward"), "1");
    hosting.stop(daemon);
    assert_eq!(hosting.settings(), before);
    assert!(hosting.has_default_route());
}

#[test]
fn sysctls_of_a_forwarding_host_stay_unchanged() {
    let Some(hosting) = Hosting::new("sysctls_of_a_forwarding_host_stay_unchanged") else { return };
    hosting.host.shell("sysctl -qw net.ipv6.conf.eth0.accept_ra=2 net.ipv6.conf.all.forwarding=1");
    hosting.host.shell("ip link add eth1 type veth peer name eth2 && sysctl -qw net.ipv6.conf.eth1.accept_ra=1");
    let before = hosting.settings();
    let daemon = hosting.start("\"2001:db8:100::/56\"");
    assert_eq!(hosting.settings(), before);
    hosting.stop(daemon);
    assert_eq!(hosting.settings(), before);
}

#[test]
fn a_host_with_read_only_sysctls_gets_a_remedy() {
    let Some(hosting) = Hosting::new("a_host_with_read_only_sysctls_gets_a_remedy") else { return };
    // As in a container.
    hosting.host.shell(
        "file=/proc/sys/net/ipv6/conf/all/forwarding && mount --make-rprivate / && mount --bind $file $file && \
         mount -o remount,ro,bind $file",
    );
    let daemon = hosting.start("\"2001:db8:100::/56\"");
    let log = hosting.log();
    assert!(log.contains("sysctl -w net.ipv6.conf.all.forwarding=1"), "{log}");
    hosting.stop(daemon);
}
