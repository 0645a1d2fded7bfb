//! Shim6 beside NEMO: a node in a mobile network has a provider of its own too. Its ULID is of the mobile network; when the
//! mobile router is lost its connection continues by the other provider, and comes back with the router (RFC 5533, RFC 3963).

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test fails at the assertion")]

mod testbed;

use serde_json::Value;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use testbed::{BINARY, Namespace, Running, Testbed, run, wait_for};

/// The node's ULID and its address by its own provider, and the correspondent's only one.
struct Addresses {
    ulid: String,
    other: String,
    peer: String,
}

/// The testbed, a correspondent behind the home agent, and a cable from the node past the mobile router.
struct Scene {
    testbed: Testbed,
    correspondent: Namespace,
    addresses: Addresses,
}

impl Scene {
    fn new(test: &str) -> Option<Scene> {
        let (testbed, correspondent) = (Testbed::new(test)?, Namespace::new()?);
        testbed.agent.shell(&format!(
            "ip link add corr0 type veth peer name eth0 netns {} && ip link add other0 type veth peer name eth1 netns {} && \
             ip link set corr0 up && ip link set other0 up && \
             ip address add 2001:db8:8::1/64 dev corr0 nodad && ip address add 2001:db8:bb::1/64 dev other0 nodad",
            correspondent.number(),
            testbed.node.number()
        ));
        let node = generate(&testbed, "node-set.toml", &["2001:db8:100::/64", "2001:db8:bb::/64"]);
        let peer = generate(&testbed, "peer-set.toml", &["2001:db8:8::/64"]);
        let addresses = Addresses { ulid: node[0].clone(), other: node[1].clone(), peer: peer[0].clone() };
        let Addresses { ulid, other, peer } = &addresses;
        testbed.node.shell(&format!(
            "ip address add {ulid}/64 dev eth0 nodad && ip link set eth1 up && ip address add {other}/64 dev eth1 nodad && \
             ip -6 rule add from {other} lookup 100 && ip -6 route add default via 2001:db8:bb::1 dev eth1 table 100"
        ));
        correspondent.shell(&format!(
            "ip link set eth0 up && ip address add {peer}/64 dev eth0 nodad && ip route add default via 2001:db8:8::1"
        ));
        Some(Scene { testbed, correspondent, addresses })
    }

    fn shim(&self, place: &Namespace, name: &str, interfaces: &str) -> Running {
        let (path, own) = (self.testbed.file(&format!("{name}.toml")), self.testbed.file(name));
        let text = format!(
            "name = \"{name}\"\nrun_dir = \"{0}/run\"\nstate_dir = \"{0}/state\"\n[shim]\ninterfaces = [{interfaces}]\n\
             identities = [\"{name}-set.toml\"]\nsend_timeout = \"1s\"\nreturn_after = \"5s\"\n[shim.trigger]\noctets = 500\n",
            own.display()
        );
        fs::write(&path, text).unwrap();
        place.roam6(&path)
    }

    /// A command to the node's daemon.
    fn ask(&self, arguments: &[&str]) -> Command {
        let mut command = self.testbed.node.command(&[BINARY]);
        command.args(arguments).arg("--run-dir").arg(self.testbed.file("node").join("run"));
        command
    }

    /// The local locator of each of the node's contexts, with its fork.
    fn paths(&self) -> Vec<(u64, String)> {
        let shown = self.ask(&["show", "contexts", "--json"]).output().unwrap().stdout;
        let rows: Value = serde_json::from_slice(&shown).unwrap_or_default();
        let established = rows.as_array().into_iter().flatten().filter(|row| row["state"] == "established");
        let path = |row: &Value| {
            let fork = row["context"]["fork"].as_u64().unwrap_or(0);
            (fork, row["path"]["local"].as_str().unwrap_or_default().to_owned())
        };
        established.map(path).collect()
    }

    /// A packet in each direction by the ULIDs, from a socket with this mark.
    fn ping(&self, mark: &str) -> bool {
        let Addresses { ulid, peer, .. } = &self.addresses;
        let arguments = ["ping", "-nq", "-c1", "-W1", "-s", "400", "-m", mark, "-I", ulid, peer];
        self.testbed.node.command(&arguments).output().unwrap().status.success()
    }

    /// Packets the node has sent by its own provider.
    fn past_the_router(&self) -> u64 {
        let shown: Value = serde_json::from_str(&self.testbed.node.shell("ip -s -j link show dev eth1")).unwrap();
        shown[0]["stats64"]["tx"]["packets"].as_u64().unwrap()
    }

    /// Talks until the conversation that is not marked takes this address.
    fn talk_until(&self, what: &str, local: &str) {
        wait_for(what, || {
            self.ping("0");
            self.paths().contains(&(0, local.to_owned()))
        });
    }
}

/// Makes a set of addresses, one in each prefix.
fn generate(testbed: &Testbed, file: &str, prefixes: &[&str]) -> Vec<String> {
    let path: PathBuf = testbed.file(file);
    let arguments = prefixes.iter().flat_map(|prefix| ["--prefix", prefix]);
    run(Command::new(BINARY).args(["hba", "generate"]).args(arguments).arg(&path));
    let shown: Value =
        serde_json::from_str(&run(Command::new(BINARY).args(["cga", "show", "--json"]).arg(&path))).unwrap();
    serde_json::from_value(shown["addresses"].clone()).unwrap()
}

#[test]
fn a_shim6_context_survives_the_loss_of_the_mobile_router() {
    let Some(scene) = Scene::new("a_shim6_context_survives_the_loss_of_the_mobile_router") else { return };
    let Addresses { ulid, other, .. } = &scene.addresses;
    scene.testbed.enroll(&[]);
    let _agent = scene.testbed.start_agent();
    let _radvd = scene.testbed.advertise("2001:db8:2::/64");
    let _router = scene.testbed.start_router("");
    scene.testbed.await_binding("2001:db8:2:");
    let _peer = scene.shim(&scene.correspondent, "peer", "\"eth0\"");
    let _node = scene.shim(&scene.testbed.node, "node", "\"eth0\", \"eth1\"");
    wait_for("the node's daemon", || scene.ask(&["show", "links"]).output().unwrap().status.success());
    let events = scene.testbed.file("told");
    let mut watch = scene.ask(&["watch", "--json"]);
    let _watch = Running(watch.stdout(File::create(&events).unwrap()).stderr(Stdio::null()).spawn().unwrap());
    wait_for("the present state", || fs::metadata(&events).is_ok_and(|file| file.len() > 0));
    scene.talk_until("a context", ulid);
    // An application aware of paths marks its sockets; all others keep their path.
    let Addresses { peer, .. } = &scene.addresses;
    run(&mut scene.ask(&["shim", "use", other, peer, "--mark", "7"]));
    wait_for("a fork", || scene.paths().contains(&(7, other.clone())));
    let before = scene.past_the_router();
    assert!(scene.ping("0") && scene.past_the_router() <= before + 3, "but for the shim's own messages");
    for _ in 0..20 {
        assert!(scene.ping("7"));
    }
    assert!(scene.past_the_router() >= before + 20);
    assert!(scene.paths().contains(&(0, ulid.clone())));
    scene.testbed.agent.shell("ip link set visit0 down");
    scene.talk_until("the other provider", other);
    assert!(scene.ping("0"));
    scene.testbed.agent.shell(
        "ip link set visit0 up && ip address replace 2001:db8:2::1/64 dev visit0 nodad && \
         ip address replace 2001:db8:3::1/64 dev visit0 nodad",
    );
    scene.talk_until("the mobile router again", ulid);
    assert!(scene.ping("0"));
    let events = fs::read_to_string(events).unwrap();
    for event in ["context_up", "path_lost", "path_changed"] {
        assert!(events.contains(&format!("\"event\":\"{event}\"")), "{event}: {events}");
    }
}
