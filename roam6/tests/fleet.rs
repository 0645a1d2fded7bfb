//! A fleet of three real home agents with one address, a real store of three nodes, and a mobile router that knows of
//! nothing.

#![cfg(feature = "fleet")]
#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test fails at the assertion")]

mod testbed;

use serde_json::Value;
use std::fs;
use std::process::{Command, Output, Stdio};
use testbed::{BINARY, Namespace, Running, Testbed, wait_or_report};

const MEMBERS: usize = 3;

/// The agent's place of the testbed is the visited network, the correspondent, and the routers of the members.
struct Scene {
    testbed: Testbed,
    members: Vec<Namespace>,
    nodes: Vec<Option<Running>>,
    daemons: Vec<Option<Running>>,
}

impl Scene {
    /// `None` if it cannot be built; prints why.
    fn new(test: &str) -> Option<Scene> {
        if Command::new("etcd").arg("--version").stdout(Stdio::null()).status().is_err() {
            println!("skipped: {test}: no etcd; install etcd-server");
            return None;
        }
        let testbed = Testbed::new(test)?;
        let members: Vec<Namespace> = (0..MEMBERS).map(|_| Namespace::new()).collect::<Option<_>>()?;
        testbed.agent.shell("ip address del 2001:db8:1::1/128 dev lo");
        for (index, place) in members.iter().enumerate() {
            testbed.agent.shell(&format!(
                "ip link add core{index} type veth peer name eth0 netns {} && ip link set core{index} up && \
                 ip address add 2001:db8:c{index}::1/64 dev core{index} nodad",
                place.number(),
            ));
            // The address of the fleet is no source of the member's own connections.
            place.shell(&format!(
                "sysctl -qw net.ipv6.conf.all.forwarding=1 net.ipv6.conf.eth0.accept_dad=0 && ip link set lo up && \
                 ip link set eth0 up && ip address add 2001:db8:c{index}::2/64 dev eth0 nodad && \
                 ip address add 2001:db8:1::1/128 dev lo preferred_lft 0 && \
                 ip route add default via 2001:db8:c{index}::1"
            ));
        }
        testbed.enroll(&[]);
        let mut scene = Scene {
            testbed,
            members,
            nodes: (0..MEMBERS).map(|_| None).collect(),
            daemons: (0..MEMBERS).map(|_| None).collect(),
        };
        scene.route_to(0);
        (0..MEMBERS).for_each(|index| scene.start_node(index));
        Some(scene)
    }

    /// Packets to the address of the fleet and to its prefixes go to this member.
    fn route_to(&self, index: usize) {
        self.testbed.agent.shell(&format!(
            "for prefix in 2001:db8:1::1/128 2001:db8:1::/64 2001:db8:100::/56; do \
             ip route replace $prefix via 2001:db8:c{index}::2; done"
        ));
    }

    fn start_node(&mut self, index: usize) {
        let peer = |index: usize| format!("http://[2001:db8:c{index}::2]:2380");
        let cluster: Vec<String> = (0..MEMBERS).map(|index| format!("n{index}={}", peer(index))).collect();
        let data = self.testbed.file(&format!("etcd{index}"));
        let (client, own, name, cluster) = ("http://[::1]:2379", peer(index), format!("n{index}"), cluster.join(","));
        self.nodes[index] = Some(self.members[index].start(&[
            "etcd",
            "--name",
            &name,
            "--data-dir",
            data.to_str().unwrap(),
            "--listen-client-urls",
            client,
            "--advertise-client-urls",
            client,
            "--listen-peer-urls",
            &own,
            "--initial-advertise-peer-urls",
            &own,
            "--initial-cluster",
            &cluster,
            "--logger",
            "zap",
            "--log-level",
            "error",
        ]));
    }

    fn start_member(&mut self, index: usize) {
        self.start_member_with(index, "");
    }

    /// `more` is added to the table of the home agent.
    fn start_member_with(&mut self, index: usize, more: &str) {
        let role = format!(
            "[home_agent]\naddress = \"2001:db8:1::1\"\nhome_prefixes = [\"2001:db8:1::/64\"]\nprefix_table = \"mobiles.toml\"\n\
             {more}[fleet]\nname = \"north\"\nmember = \"ha{index}\"\nstore = [\"http://[::1]:2379\"]\nannounce = {{}}\n\
             drain = \"1s\"\naggregates = [\"2001:db8:100::/40\"]\n"
        );
        let config = self.testbed.write_config(&format!("ha{index}"), &role);
        self.daemons[index] = Some(self.members[index].roam6(&config));
    }

    fn ask(&self, index: usize, words: &[&str]) -> Output {
        let run_dir = self.testbed.file(&format!("ha{index}")).join("run");
        let words = [&[BINARY], words, &["--run-dir", run_dir.to_str().unwrap()]].concat();
        self.members[index].command(&words).output().unwrap()
    }

    /// What `roam6 fleet status` says of this member, and its exit status.
    fn state(&self, index: usize) -> (String, Option<i32>) {
        let output = self.ask(index, &["fleet", "status", "--json"]);
        let shown: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        (shown["state"].as_str().unwrap_or_default().to_owned(), output.status.code())
    }

    fn await_state(&self, index: usize, state: &str) {
        let code = if state == "healthy" { 0 } else { 1 };
        self.wait(&format!("member {index} {state}"), || self.state(index) == (state.to_owned(), Some(code)));
    }

    /// The sequence number of the binding with a care-of address that this member holds.
    fn sequence(&self, index: usize) -> Option<u64> {
        let output = self.ask(index, &["show", "bindings", "--json"]);
        let shown: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let row = shown.as_array()?.iter().find(|row| row["care_of"].is_string())?;
        row["sequence"].as_u64()
    }

    fn announced(&self, index: usize) -> String {
        // `ip` calls a table without routes an error.
        self.members[index].shell("ip -6 route show table 107 2>/dev/null || true")
    }

    /// Whether the correspondent reaches the node in the mobile network.
    fn reaches(&self) -> bool {
        let command = ["ping", "-6", "-c", "1", "-W", "1", "-I", "2001:db8:9::9", "2001:db8:100::2"];
        self.testbed.agent.command(&command).output().unwrap().status.success()
    }

    fn wait(&self, what: &str, done: impl FnMut() -> bool) {
        wait_or_report(what, done, || {
            let log = |who: &str| fs::read_to_string(self.testbed.file(&format!("{who}.log"))).unwrap_or_default();
            ["ha0", "ha1", "ha2", "mr"].map(|who| format!("{who}:\n{}", log(who))).join("\n")
        });
    }
}

#[test]
fn rows_of_the_store_are_those_of_all_members() {
    let Some(mut scene) = Scene::new("rows_of_the_store_are_those_of_all_members") else { return };
    fs::remove_file(scene.testbed.file("mr.key")).unwrap();
    fs::write(scene.testbed.file("mobiles.toml"), "mobile = []\n").unwrap();
    let enroll = |scene: &Scene, home: &str, prefix: &str, key: &str| {
        let (config, key) = (scene.testbed.file("ha0.toml"), scene.testbed.file(key));
        let words = ["enroll", "--fleet", "--config", config.to_str().unwrap(), "--home-address", home];
        let more = ["--prefix", prefix, "--key-file", key.to_str().unwrap()];
        let output = scene.members[0].command(&[&[BINARY], &words[..], &more].concat()).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (home, prefix) = ("2001:db8:1::100", "2001:db8:100::/56");
    (0..MEMBERS).for_each(|index| scene.start_member(index));
    (0..MEMBERS).for_each(|index| scene.await_state(index, "healthy"));
    assert_eq!(enroll(&scene, home, prefix, "mr.key"), (true, String::new()));
    let _advertiser = scene.testbed.advertise("2001:db8:2::/64");
    let _router = scene.testbed.start_router("");
    (0..MEMBERS).for_each(|index| scene.wait(&format!("binding at {index}"), || scene.sequence(index).is_some()));
    // What others have is refused, and leaves no key behind.
    for (home, prefix) in [(home, "2001:db8:200::/56"), ("2001:db8:1::101", "2001:db8:100:1::/64")] {
        let (added, why) = enroll(&scene, home, prefix, "other.key");
        assert!(!added && why.contains("not added"), "{why}");
        assert!(!scene.testbed.file("other.key").exists());
    }
    // A member that starts has the row from the store, and a row that its file gets beside it.
    scene.daemons[0] = None;
    scene.testbed.enroll_as("2001:db8:1::102", "2001:db8:102::/56", "third.key", &[]);
    scene.start_member(0);
    scene.await_state(0, "healthy");
    scene.wait("binding after the restart", || scene.sequence(0) == scene.sequence(1));
    let (added, why) = enroll(&scene, "2001:db8:1::102", "2001:db8:103::/56", "other.key");
    assert!(!added && why.contains("not added"), "a row of the file: {why}");
}

#[test]
fn member_with_other_wireguard_keys_stays_out() {
    let test = "member_with_other_wireguard_keys_stays_out";
    if let Some(why) = testbed::wireguard::missing() {
        return println!("skipped: {test}: {why}");
    }
    let Some(mut scene) = Scene::new(test) else { return };
    let log =
        |scene: &Scene, index| fs::read_to_string(scene.testbed.file(&format!("ha{index}.log"))).unwrap_or_default();
    let encrypt = "encrypt = true\n";
    scene.start_member_with(0, encrypt);
    scene.await_state(0, "healthy");
    scene.start_member_with(1, encrypt);
    scene.wait("the cure", || log(&scene, 1).contains("copy wireguard.keys"));
    scene.start_member_with(2, "");
    scene.wait("the cure for no keys", || log(&scene, 2).contains("write encrypt in [home_agent]"));
    for index in [1, 2] {
        assert_eq!(scene.state(index), ("joining".to_owned(), Some(1)));
        assert_eq!(scene.announced(index), "", "it gets no packets");
    }
    let renewed = scene.ask(0, &["keygen", "--renew"]);
    let why = String::from_utf8_lossy(&renewed.stderr).into_owned();
    assert!(!renewed.status.success() && why.contains("docs/fleet.md"), "{why}");
    // The cure.
    let keys = |scene: &Scene, index: usize| scene.testbed.file(&format!("ha{index}/state/wireguard.keys"));
    for index in [1, 2] {
        scene.daemons[index] = None;
        fs::copy(keys(&scene, 0), keys(&scene, index)).unwrap();
        scene.start_member_with(index, encrypt);
        scene.await_state(index, "healthy");
    }
    // A router that one member has bound reaches the correspondent by each of them.
    let _advertiser = scene.testbed.advertise("2001:db8:2::/64");
    let _router = scene.testbed.start_router(encrypt);
    for index in 0..MEMBERS {
        scene.wait(&format!("binding at {index}"), || scene.sequence(index).is_some());
        scene.route_to(index);
        scene.wait(&format!("packets by {index}"), || scene.reaches());
    }
}

#[test]
fn members_share_bindings_and_replace_each_other() {
    let Some(mut scene) = Scene::new("members_share_bindings_and_replace_each_other") else { return };
    (0..MEMBERS).for_each(|index| scene.start_member(index));
    (0..MEMBERS).for_each(|index| scene.await_state(index, "healthy"));
    for index in 0..MEMBERS {
        let announced = scene.announced(index);
        for prefix in ["2001:db8:1::1", "2001:db8:1::/64", "2001:db8:100::/40"] {
            assert!(announced.contains(&format!("{prefix} dev r6fleet proto 107 metric 100")), "{index}: {announced}");
        }
    }
    let _advertiser = scene.testbed.advertise("2001:db8:2::/64");
    let router = scene.testbed.start_router("");
    // The binding that one member has acknowledged is the others', too: any of them forwards.
    for index in 0..MEMBERS {
        scene.wait(&format!("binding at {index}"), || scene.sequence(index).is_some());
        scene.route_to(index);
        scene.wait(&format!("packets by {index}"), || scene.reaches());
    }
    // One is killed: the next one answers the router, and knows what the former has acknowledged.
    scene.route_to(1);
    scene.daemons[0] = None;
    assert_eq!(scene.announced(0), "");
    scene.wait("packets without the first", || scene.reaches());
    // It comes back without an update of the router.
    scene.start_member(0);
    scene.await_state(0, "healthy");
    scene.wait("binding after the restart", || scene.sequence(0) == scene.sequence(1));
    // One hands over.
    let drained = scene.ask(1, &["fleet", "drain", "--wait"]);
    assert!(drained.status.success(), "{drained:?}");
    assert_eq!(scene.announced(1), "");
    scene.await_state(1, "gone");
    scene.route_to(2);
    assert!(scene.ask(1, &["fleet", "restore"]).status.success());
    scene.await_state(1, "healthy");
    // Without a quorum nobody acknowledges, everybody forwards, and all are announced alike.
    let sequence = scene.sequence(2);
    scene.nodes[0] = None;
    scene.nodes[1] = None;
    (0..MEMBERS).for_each(|index| scene.await_state(index, "degraded"));
    for index in 0..MEMBERS {
        let announced = scene.announced(index);
        assert!(announced.contains("metric 200") && !announced.contains("metric 100"), "{index}: {announced}");
    }
    scene.wait("packets without a store", || scene.reaches());
    assert_eq!(scene.sequence(2), sequence);
    scene.start_node(0);
    scene.start_node(1);
    (0..MEMBERS).for_each(|index| scene.await_state(index, "healthy"));
    // The router leaves: a farewell to one is a farewell to all.
    drop(router);
    let _router = scene.testbed.start_router("");
    scene.wait("new binding", || scene.sequence(0).is_some_and(|new| Some(new) != sequence));
    scene.wait("the same everywhere", || (1..MEMBERS).all(|index| scene.sequence(index) == scene.sequence(0)));
    let unbound = scene.ask(0, &["unbind", "2001:db8:1::100"]);
    assert!(unbound.status.success(), "{unbound:?}");
}
