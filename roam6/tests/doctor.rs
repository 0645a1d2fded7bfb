//! `roam6 doctor` of real daemons: a healthy system has no fault, and each injected one is named first. One scene; the faults
//! are injected one after another. The judgement itself has its own tests (`roam6/src/doctor/tests.rs`).

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test fails at the assertion")]

mod testbed;

use std::fs;
use std::path::Path;
use testbed::{BINARY, INGRESS, Namespace, ROUTER, Running, Testbed, UPLINK, wait_for, wait_or_report};

/// What the doctor says at a host: the exit status, the first fault, and everything.
fn examine(place: &Namespace, config: &Path, more: &[&str]) -> (i32, Option<String>, String) {
    let mut command = place.command(&[BINARY, "doctor", "--json", "--config", config.to_str().unwrap()]);
    let output = command.args(more).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let found: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    (output.status.code().unwrap_or(-1), found["first"].as_str().map(str::to_owned), text)
}

struct Scene {
    testbed: Testbed,
    router: Option<Running>,
}

impl Scene {
    fn config(&self, who: &str) -> std::path::PathBuf {
        self.testbed.file(&format!("{who}.toml"))
    }

    fn place(&self, who: &str) -> &Namespace {
        if who == "ha" { &self.testbed.agent } else { &self.testbed.router }
    }

    fn assert_healthy(&self, who: &str, more: &[&str]) {
        let (status, first, text) = examine(self.place(who), &self.config(who), more);
        assert_eq!((status, first), (0, None), "{who}: {text}\n{}", self.testbed.logs());
    }

    /// The fault bites at some time; then it is named, and until then no other.
    fn assert_named(&self, who: &str, id: &str) {
        let mut last = String::new();
        let named = || {
            let (status, first, text) = examine(self.place(who), &self.config(who), &[]);
            last = text;
            assert!(first.is_none() || first.as_deref() == Some(id), "{id}: {last}\n{}", self.testbed.logs());
            first.is_some() && status == 1
        };
        wait_or_report(id, named, || self.testbed.logs());
    }

    /// Restarts the mobile router with this configuration behind its name.
    fn restart(&mut self, role: &str) {
        self.stop("mr");
        let config = self.testbed.write_config("mr", role);
        self.router = Some(self.testbed.router.roam6(&config));
        let lock = self.testbed.file("mr").join("run/roam6.pid");
        wait_or_report("the start of a daemon", || lock.exists(), || self.testbed.logs());
    }

    /// Ends a daemon as an operator does.
    fn stop(&mut self, who: &str) {
        let lock = self.testbed.file(who).join("run/roam6.pid");
        let Ok(process) = fs::read_to_string(&lock) else { return };
        self.testbed.router.shell(&format!("kill {}", process.trim()));
        wait_for("the end of a daemon", || !lock.exists());
        if who == "mr" {
            self.router = None;
        }
    }
}

#[test]
fn faults_are_named_first_and_a_healthy_system_has_none() {
    let test = "faults_are_named_first_and_a_healthy_system_has_none";
    let Some(testbed) = Testbed::new(test) else { return };
    testbed.agent.shell("ip route add default via 2001:db8:2::77 dev visit0");
    testbed.enroll(&[]);
    let role = format!("{ROUTER}{UPLINK}{INGRESS}");
    let _agent = testbed.start_agent();
    let advertiser = testbed.advertise("2001:db8:2::/64");
    let mut scene = Scene { testbed, router: None };
    scene.restart(&role);
    scene.testbed.await_binding("2001:db8:2:");
    // Also at once after the first registration.
    scene.assert_healthy("mr", &["--target", "2001:db8:9::9"]);
    scene.assert_healthy("ha", &[]);
    scene.assert_healthy("mr", &["--quick"]);

    let wall =
        "nft 'add table inet wall; add chain inet wall pass { type filter hook forward priority 0; policy drop; }'";
    for who in ["mr", "ha"] {
        scene.place(who).shell(wall);
        scene.assert_named(who, "firewall.forward");
        scene.place(who).shell("nft delete table inet wall");
    }
    scene.testbed.router.shell("ip link set in0 down");
    scene.assert_named("mr", "inside.interface");
    scene.testbed.router.shell("ip link set in0 up");
    scene.testbed.agent.shell("ip address del 2001:db8:1::1/128 dev lo");
    scene.assert_named("ha", "agent.address");
    scene.testbed.agent.shell("ip address add 2001:db8:1::1/128 dev lo");

    scene.stop("mr");
    scene.assert_named("mr", "daemon.running");
    let key = fs::read_to_string(scene.testbed.file("mr.key")).unwrap();
    let (before, secret) = key.split_once("key = \"").unwrap();
    let digit = if secret.starts_with('0') { '1' } else { '0' };
    fs::write(scene.testbed.file("mr.key"), format!("{before}key = \"{digit}{}", &secret[1..])).unwrap();
    scene.restart(&role);
    scene.assert_named("mr", "agent.key");
    scene.assert_named("ha", "agent.fault");
    fs::write(scene.testbed.file("mr.key"), key).unwrap();

    scene.restart(&role.replace("up0", "up00"));
    scene.assert_named("mr", "uplink.interface");
    // Before any socket receives a packet, as a filter on the way.
    scene.testbed.router.shell(
        "nft 'add table netdev way; add chain netdev way in { type filter hook ingress device up0 priority 0; }; \
         add rule netdev way in meta l4proto 135 drop'",
    );
    scene.restart(&format!("{ROUTER}{UPLINK}transport = \"native\"\n{INGRESS}"));
    scene.assert_named("mr", "path.135");
    scene.testbed.router.shell("nft delete table netdev way");
    scene.stop("ha");
    scene.restart(&role);
    scene.assert_named("mr", "agent.none");
    drop(advertiser);
    scene.testbed.router.shell("ip link set up0 down && ip link set up0 up");
    scene.restart(&role);
    scene.assert_named("mr", "uplink.router");
}
