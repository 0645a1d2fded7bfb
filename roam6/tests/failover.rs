//! Two home agents with one prefix table, all real daemons: the mobile router replaces one that dies, does not return to it
//! by itself, and has a binding again that was removed.

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test fails at the assertion")]

mod testbed;

use serde_json::Value;
use std::fs;
use std::time::{Duration, Instant};
use testbed::{BINARY, Namespace, Running, Testbed, run, wait_or_report};

/// About 1.3 s are expected; a busy machine takes longer.
const BOUND: Duration = Duration::from_secs(5);
/// More than the mobile router's interval between updates because of silent paths.
const SETTLED: Duration = Duration::from_secs(4);
/// More than the mobile router's interval of looking for traffic.
const NOTICED: Duration = Duration::from_secs(2);
/// How long a home agent that is back is watched.
const STABLE: Duration = Duration::from_secs(5);
const CORRESPONDENT: &str = "2001:db8:9::9";
/// The addresses of the two home agents.
const ADDRESSES: [&str; 2] = ["2001:db8:1::1", "2001:db8:1::2"];

/// A mobile router with two home agents. The agent's place of the testbed is the visited network, the network between it and
/// the home agents, and the correspondent.
struct Scene {
    testbed: Testbed,
    home_agents: [Namespace; 2],
}

impl Scene {
    fn new(test: &str) -> Option<Scene> {
        let testbed = Testbed::new(test)?;
        let home_agents = [Namespace::new()?, Namespace::new()?];
        testbed.agent.shell("ip address del 2001:db8:1::1/128 dev lo");
        for (index, place) in home_agents.iter().enumerate() {
            testbed.agent.shell(&format!(
                "ip link add core{index} type veth peer name eth0 netns {0} && ip link set core{index} up && \
                 ip address add 2001:db8:c{index}::1/64 dev core{index} nodad && \
                 ip route add {1}/128 via 2001:db8:c{index}::2",
                place.number(),
                ADDRESSES[index]
            ));
            place.shell(&format!(
                "sysctl -qw net.ipv6.conf.all.forwarding=1 net.ipv6.conf.eth0.accept_dad=0 && \
                 ip address add {}/128 dev lo",
                ADDRESSES[index]
            ));
        }
        testbed.enroll(&[]);
        let scene = Scene { testbed, home_agents };
        scene.connect(0);
        scene.connect(1);
        scene.route_home(0);
        Some(scene)
    }

    /// The link of a home agent is up.
    fn connect(&self, index: usize) {
        self.home_agents[index].shell(&format!(
            "ip link set eth0 up && ip address replace 2001:db8:c{index}::2/64 dev eth0 nodad && \
             ip route replace default via 2001:db8:c{index}::1"
        ));
    }

    /// The home network and the mobile network are reached by this home agent.
    fn route_home(&self, index: usize) {
        self.testbed.agent.shell(&format!(
            "for prefix in 2001:db8:1::/64 2001:db8:100::/56; do \
             ip route replace $prefix via 2001:db8:c{index}::2; done"
        ));
    }

    fn start_agent(&self, index: usize) -> Running {
        let role = format!(
            "[home_agent]\naddress = \"{}\"\nhome_prefixes = [\"2001:db8:1::/64\"]\nprefix_table = \"mobiles.toml\"\n",
            ADDRESSES[index]
        );
        self.home_agents[index].roam6(&self.testbed.write_config(&format!("ha{index}"), &role))
    }

    /// The mobile router with both home agents, the first preferred, and all other settings left to their defaults.
    fn start_router(&self) -> Running {
        let config = self.testbed.router_config("auto", "");
        let text = fs::read_to_string(&config).unwrap();
        let [first, second] = ADDRESSES;
        let both = format!("home_agents = [\"{first}\", \"{second}\"]");
        let replaced = text.replace(&format!("home_agents = [\"{first}\"]"), &both);
        assert_ne!(replaced, text);
        fs::write(&config, replaced).unwrap();
        self.testbed.router.roam6(&config)
    }

    /// The bindings that the daemon of `who` in `place` shows.
    fn bindings(&self, place: &Namespace, who: &str) -> Vec<Value> {
        let run_dir = self.testbed.file(who).join("run");
        let words = [BINARY, "show", "bindings", "--json", "--run-dir", run_dir.to_str().unwrap()];
        let output = place.command(&words).output().unwrap();
        let shown: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        shown.as_array().cloned().unwrap_or_default()
    }

    /// Whether the mobile router is bound to this home agent.
    fn is_bound_to(&self, index: usize) -> bool {
        let bindings = self.bindings(&self.testbed.router, "mr");
        bindings.iter().any(|row| row["state"] == "bound" && row["home_agent"] == ADDRESSES[index])
    }

    /// Whether this home agent holds a binding with a care-of address.
    fn holds_binding(&self, index: usize) -> bool {
        self.sequence(index).is_some()
    }

    /// The sequence number of the binding that this home agent holds.
    fn sequence(&self, index: usize) -> Option<Value> {
        let bindings = self.bindings(&self.home_agents[index], &format!("ha{index}"));
        bindings.iter().find(|row| row["care_of"].is_string()).map(|row| row["sequence"].clone())
    }

    /// Whether the node inside reaches the correspondent, and is reached.
    fn reaches(&self) -> bool {
        let words = ["ping", "-nqc1", "-W1", CORRESPONDENT];
        self.testbed.node.command(&words).output().unwrap().status.success()
    }

    /// Packets from the node to the correspondent: without any, a path is probed rarely.
    fn start_traffic(&self) -> Running {
        let traffic = self.testbed.node.start(&["ping", "-nq", "-i0.1", CORRESPONDENT]);
        std::thread::sleep(NOTICED);
        traffic
    }

    fn await_that(&self, what: &str, done: impl FnMut() -> bool) {
        wait_or_report(what, done, || self.logs());
    }

    /// Waits until the node reaches the correspondent by this home agent, probes are answered, and the start is so long ago
    /// that no limit on updates delays one.
    fn await_service(&self, index: usize) {
        self.await_that("bound", || self.is_bound_to(index) && self.holds_binding(index));
        let paths = |change: &str| {
            self.log("mr").lines().filter(|line| line.contains(" path ") && line.contains(change)).count()
        };
        self.await_that("a path that is up", || paths(" is up") == paths(" is down"));
        self.await_that("a way out", || self.reaches());
        std::thread::sleep(SETTLED);
    }

    fn logs(&self) -> String {
        ["ha0", "ha1", "mr"].map(|who| format!("{who}:\n{}", self.log(who))).join("\n")
    }

    fn log(&self, who: &str) -> String {
        fs::read_to_string(self.testbed.file(&format!("{who}.log"))).unwrap_or_default()
    }

    /// Measures how long it takes until `done`, which has to be within [`BOUND`].
    fn measure(&self, what: &str, done: impl FnMut() -> bool) {
        let begin = Instant::now();
        self.await_that(what, done);
        let taken = begin.elapsed();
        println!("{what}: {:.2} s", taken.as_secs_f64());
        assert!(taken <= BOUND, "{what}: {taken:?}\n{}", self.logs());
    }
}

#[test]
fn a_failed_home_agent_is_replaced_without_failback() {
    let Some(scene) = Scene::new("a_failed_home_agent_is_replaced_without_failback") else { return };
    let first = scene.start_agent(0);
    let _second = scene.start_agent(1);
    let _radvd = scene.testbed.advertise("2001:db8:2::/64");
    let _router = scene.start_router();
    scene.await_service(0);
    let _traffic = scene.start_traffic();
    assert!(!scene.holds_binding(1), "one binding at a time\n{}", scene.logs());

    // Dropped: killed by SIGKILL.
    drop(first);
    scene.home_agents[0].shell("ip link set eth0 down");
    scene.measure("bound to the other home agent", || scene.is_bound_to(1));
    assert!(scene.holds_binding(1), "{}", scene.logs());
    scene.route_home(1);
    scene.await_that("a way out by the other home agent", || scene.reaches());

    // It is back, with the binding it has kept, until that is deregistered.
    scene.connect(0);
    let _first = scene.start_agent(0);
    scene.await_that("the end of the former binding", || {
        assert!(scene.is_bound_to(1), "the mobile router stays\n{}", scene.logs());
        scene.log("ha0").matches(" is ready").count() == 2 && !scene.holds_binding(0)
    });
    let until = Instant::now() + STABLE;
    while Instant::now() < until {
        assert!(scene.is_bound_to(1) && scene.reaches(), "the mobile router stays\n{}", scene.logs());
        assert!(!scene.holds_binding(0), "{}", scene.logs());
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn an_unbound_home_address_registers_again() {
    let Some(scene) = Scene::new("an_unbound_home_address_registers_again") else { return };
    let _agents = [scene.start_agent(0), scene.start_agent(1)];
    let _radvd = scene.testbed.advertise("2001:db8:2::/64");
    let _router = scene.start_router();
    scene.await_service(0);
    let _traffic = scene.start_traffic();
    let before = scene.sequence(0);
    let mut unbind = scene.home_agents[0].command(&[BINARY, "unbind", "2001:db8:1::100", "--run-dir"]);
    run(unbind.arg(scene.testbed.file("ha0").join("run")));
    scene.measure("bound again", || scene.sequence(0).is_some_and(|now| before.as_ref() != Some(&now)));
    scene.await_that("a way out", || scene.reaches());
    assert!(scene.is_bound_to(0) && !scene.holds_binding(1), "the home agent is the same\n{}", scene.logs());
}
