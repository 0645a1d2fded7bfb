//! The real binary on uplinks and ingress interfaces that are not as usual: absent, without prefixes, left at a stop.

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test fails at the assertion")]

mod testbed;

use std::fs::{self, File};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;
use testbed::capture::Capture;
use testbed::{BINARY, INGRESS, ROUTER, Running, Testbed, UPLINK, run, wait_or_report};

fn has(tool: &str) -> bool {
    Command::new(tool).arg("--version").output().is_ok()
}

impl Testbed {
    /// A mobile router with `uplink` behind the keys of its uplink, and tables behind that.
    fn start_with(&self, uplink: &str) -> Running {
        self.router.roam6(&self.write_config("mr", &format!("{ROUTER}{UPLINK}{uplink}")))
    }

    /// The visited link's router with these words of radvd's.
    fn advertise_so(&self, options: &str) -> Running {
        let (conf, pid) = (self.file("radvd-own.conf"), self.file("radvd-own.pid"));
        fs::write(&conf, format!("interface visit0 {{ AdvSendAdvert on; {options} }};\n")).unwrap();
        self.agent.start(&["radvd", "-n", "-C", conf.to_str().unwrap(), "-p", pid.to_str().unwrap()])
    }

    fn log(&self) -> String {
        fs::read_to_string(self.file("mr.log")).unwrap_or_default()
    }

    /// How many handovers by this cause the mobile router's metrics count: all, and those in the last bucket with a bound.
    fn handovers(&self, cause: &str) -> (u64, u64) {
        let mut metrics = self.router.command(&[BINARY, "metrics", "--run-dir"]);
        let page = run(metrics.arg(self.file("mr").join("run")));
        let value = |name: String| {
            let line = page.lines().find_map(|line| line.strip_prefix(&name));
            assert!(line.is_some(), "{name} is missing: {page}");
            line.unwrap().trim().parse().unwrap()
        };
        let all = value(format!("roam6_handover_seconds_count{{cause=\"{cause}\"}}"));
        (all, value(format!("roam6_handover_seconds_bucket{{cause=\"{cause}\",le=\"30\"}}")))
    }

    fn await_state(&self, state: &str) {
        let links = || self.show("mr", "links");
        wait_or_report(state, || links().contains(state), || format!("{}{}", links(), self.logs()));
    }
}

#[test]
fn paths_stay_up_without_an_ingress_interface() {
    let Some(testbed) = Testbed::new("paths_stay_up_without_an_ingress_interface") else { return };
    testbed.enroll(&[]);
    let _agent = testbed.start_agent();
    let _radvd = testbed.advertise("2001:db8:2::/64");
    let ingress = "[[mobile_router.ingress]]\ninterface = \"lan9\"\nprefix = \"2001:db8:100::/64\"\n";
    let _router = testbed.start_with(ingress);
    testbed.await_binding("2001:db8:2:");
    testbed.await_state("no such interface");
    assert!(testbed.log().contains("lan9: no such interface (ingress)"), "{}", testbed.log());
    let reach = ["ping", "-nqc1", "-W1", "-I", "2001:db8:1::100", "2001:db8:9::9"];
    let reaches = || testbed.router.command(&reach).output().unwrap().status.success();
    wait_or_report("an answer to the home address", reaches, || testbed.logs());
    testbed.await_state("visited");
    let before = testbed.log().len();
    sleep(Duration::from_secs(3));
    let since = testbed.log().split_off(before);
    assert!(!since.contains("probes"), "no path is given up: {since}");
    assert!(testbed.show("mr", "links").contains("visited"), "{}", testbed.show("mr", "links"));
}

#[test]
fn a_clean_stop_returns_the_uplink_to_the_kernel() {
    let Some(testbed) = Testbed::new("a_clean_stop_returns_the_uplink_to_the_kernel") else { return };
    testbed.enroll(&[]);
    let _agent = testbed.start_agent();
    // Unsolicited advertisements alone would take minutes.
    let _radvd = testbed.advertise_so("MinRtrAdvInterval 600; MaxRtrAdvInterval 1800; prefix 2001:db8:2::/64 { };");
    let configured = || {
        let routes = testbed.router.shell("ip -6 route show default dev up0");
        let addresses = testbed.router.shell("ip -6 address show dev up0 scope global -tentative -deprecated");
        routes.contains("proto ra") && addresses.contains("2001:db8:2:")
    };
    wait_or_report("an address of the kernel's", configured, String::new);
    let mut router = testbed.start_router("");
    testbed.await_binding("2001:db8:2:");
    // The first advertisements of radvd are 16 s apart.
    sleep(Duration::from_secs(2));
    testbed.router.shell(&format!("kill -TERM {}", router.0.id()));
    assert!(router.0.wait().unwrap().success(), "{}", testbed.logs());
    let until = std::time::Instant::now() + Duration::from_secs(10);
    while !configured() && std::time::Instant::now() < until {
        sleep(Duration::from_millis(50));
    }
    let story = testbed.router.shell("ip -6 route; ip -6 address show dev up0; sysctl net.ipv6.conf.up0.accept_ra");
    assert!(configured(), "{story}{}", testbed.logs());
}

#[test]
fn dhcpv6_leases_an_address_without_an_advertised_prefix() {
    let test = "dhcpv6_leases_an_address_without_an_advertised_prefix";
    let Some(testbed) = Testbed::new(test).filter(|_| has("dhcpd")) else { return println!("skipped: {test}") };
    testbed.enroll(&[]);
    let _agent = testbed.start_agent();
    let _radvd = testbed.advertise_so(
        "MinRtrAdvInterval 3; MaxRtrAdvInterval 4; AdvManagedFlag on; prefix 2001:db8:2::/64 { AdvAutonomous off; };",
    );
    let file = |kind: &str| testbed.file(&format!("dhcpd.{kind}"));
    let text = "default-lease-time 60; option dhcp6.preference 255; option dhcp6.name-servers 2001:db8:2::53;\n\
                subnet6 2001:db8:2::/64 { range6 2001:db8:2::1000 2001:db8:2::1fff; }\n";
    fs::write(file("conf"), text).unwrap();
    fs::write(file("leases"), "").unwrap();
    let mut dhcpd = testbed.agent.command(&["dhcpd", "-6", "-f", "-q", "-cf"]);
    dhcpd.arg(file("conf")).arg("-lf").arg(file("leases")).arg("-pf").arg(file("pid")).arg("visit0");
    let log = File::create(file("log")).unwrap();
    let _server = Running(dhcpd.stdout(Stdio::null()).stderr(log).spawn().unwrap());
    let _router = testbed.start_router("");
    testbed.await_binding("2001:db8:2::1");
    let reaches =
        || testbed.node.command(&["ping", "-nqc1", "-W1", "2001:db8:9::9"]).output().unwrap().status.success();
    wait_or_report("a way out from a leased address", reaches, || testbed.logs());
}

#[test]
fn a_static_address_needs_no_router_advertisement() {
    let Some(testbed) = Testbed::new("a_static_address_needs_no_router_advertisement") else { return };
    testbed.enroll(&[]);
    let _agent = testbed.start_agent();
    let uplink = "address = \"2001:db8:2::5/64\"\ngateway = \"2001:db8:2::1\"\n";
    let ingress = "[[mobile_router.ingress]]\ninterface = \"in0\"\nprefix = \"2001:db8:100::/64\"\n";
    let _router = testbed.start_with(&format!("{uplink}{ingress}"));
    testbed.await_binding("2001:db8:2::5");
    let reaches =
        || testbed.node.command(&["ping", "-nqc1", "-W1", "2001:db8:9::9"]).output().unwrap().status.success();
    wait_or_report("a way out from a static address", reaches, || testbed.logs());
}

#[test]
fn hosts_receive_rdnss_and_dnssl_options() {
    let test = "hosts_receive_rdnss_and_dnssl_options";
    let tools = has("tcpdump") && has("tshark");
    let Some(testbed) = Testbed::new(test).filter(|_| tools) else { return println!("skipped: {test}") };
    testbed.enroll(&[]);
    let _agent = testbed.start_agent();
    let _radvd = testbed.advertise_so(
        "MinRtrAdvInterval 3; MaxRtrAdvInterval 4; prefix 2001:db8:2::/64 { }; \
         RDNSS 2001:db8:2::53 { AdvRDNSSLifetime 300; }; DNSSL example.org { AdvDNSSLLifetime 300; };",
    );
    let capture = Capture::begin(&testbed, &testbed.node, "eth0", "inside");
    let _router = testbed.start_router("");
    testbed.await_binding("2001:db8:2:");
    sleep(Duration::from_secs(2));
    let seen = capture.end();
    seen.check();
    let fields = ["icmpv6.opt.rdnss", "icmpv6.opt.dnssl"];
    let advertisements = seen.fields("icmpv6.type == 134 && icmpv6.opt.rdnss", &fields);
    let last = advertisements.last().unwrap();
    assert_eq!(
        (last[0].as_slice(), last[1].as_slice()),
        (&["2001:db8:2::53".to_owned()][..], &["example.org".to_owned()][..])
    );
}

#[test]
fn a_reload_withdraws_the_former_ingress_prefix() {
    let Some(testbed) = Testbed::new("a_reload_withdraws_the_former_ingress_prefix") else { return };
    testbed.enroll(&[]);
    testbed.node.shell("sysctl -qw net.ipv6.conf.eth0.accept_ra=1 net.ipv6.conf.eth0.autoconf=1");
    let ingress = |prefix: &str| {
        format!("[[mobile_router.ingress]]\ninterface = \"in0\"\nprefix = \"2001:db8:100:{prefix}:/64\"\n")
    };
    let router = testbed.start_with(&ingress(""));
    let has = |prefix: &str, flag: &str| {
        let shown = testbed.node.shell(&format!("ip -6 address show dev eth0 dynamic {flag}"));
        shown.contains(&format!("2001:db8:100:{prefix}"))
    };
    wait_or_report("an address of the first prefix", || has("0:", "-deprecated"), || testbed.logs());
    testbed.write_config("mr", &format!("{ROUTER}{UPLINK}{}", ingress("7:")));
    testbed.router.shell(&format!("kill -HUP {}", router.0.id()));
    wait_or_report("an address of the second", || has("7:", "-deprecated"), || testbed.logs());
    wait_or_report("the first deprecated", || has("0:", "deprecated") && !has("0:", "-deprecated"), || testbed.logs());
    let shown = testbed.show("mr", "prefixes");
    assert!(shown.contains("withdrawn"), "{shown}");
}

/// Every second probe is lost: the path is not silent, and yet not good.
#[test]
fn an_uplink_that_loses_packets_is_degraded() {
    let test = "an_uplink_that_loses_packets_is_degraded";
    let Some(testbed) = Testbed::new(test) else { return };
    // The node's echo requests are not counted: with the same interval as the probes they would take every loss, or none.
    let table = "nft 'add table ip6 brownout; add chain ip6 brownout probes { type filter hook input priority 0; }; \
                 add rule ip6 brownout probes ip6 saddr 2001:db8:1::100 icmpv6 type echo-request \
                 numgen inc mod 2 == 0 drop'";
    if !testbed.agent.command(&["sh", "-c", table]).output().unwrap().status.success() {
        return println!("skipped: {test}: nft cannot drop every second packet here");
    }
    testbed.agent.shell("nft delete table ip6 brownout");
    testbed.enroll(&[]);
    let _agent = testbed.start_agent();
    let _radvd = testbed.advertise("2001:db8:2::/64");
    let _router = testbed.start_with(&format!("max_loss = 30\n{INGRESS}"));
    testbed.await_binding("2001:db8:2:");
    testbed.await_state("visited");
    // A path without traffic is probed rarely.
    wait_or_report(
        "an answer",
        || testbed.node.ping(1, "56", "2001:db8:9::9").contains(" 1 received"),
        || testbed.logs(),
    );
    let _traffic = testbed.node.start(&["ping", "-nq", "-i0.1", "2001:db8:9::9"]);
    let known = || testbed.show("mr", "links").contains(" 0% ");
    wait_or_report("round trip and loss", known, || testbed.show("mr", "links"));
    // On a busy machine the first probes may have been late.
    let before = testbed.log().len();
    testbed.agent.shell(table);
    testbed.await_state("degraded");
    let log = testbed.log().split_off(before);
    assert!(log.contains("is degraded: ") && log.contains(" probes lost") && !log.contains("is down"), "{log}");
    assert!(!testbed.show("mr", "links").contains(" 0% "), "{}", testbed.show("mr", "links"));
    assert!(testbed.show("mr", "bindings").contains("bound"), "there is no better path");
}

/// The histogram of the metrics, scraped before and after the uplink in use loses its carrier.
#[test]
fn a_move_fills_the_handover_histogram() {
    let Some(testbed) = Testbed::new("a_move_fills_the_handover_histogram") else { return };
    testbed.enroll(&[]);
    let _agent = testbed.start_agent();
    let _radvd = testbed.advertise("2001:db8:2::/64");
    let _router = testbed.start_with(&format!("[[mobile_router.uplink]]\ninterface = \"up1\"\n{INGRESS}"));
    testbed.await_binding("2001:db8:2:");
    wait_or_report("the first registration", || testbed.handovers("first") == (1, 1), || testbed.logs());
    assert_eq!(testbed.handovers("link_down"), (0, 0), "{}", testbed.logs());
    // The other uplink is there from now on; only it remains.
    let _other = testbed.add_other_network();
    testbed.await_binding("2001:db8:4:");
    let before: Vec<_> = ["link_down", "planned"].map(|cause| testbed.handovers(cause).0).into();
    assert_eq!(before[0], 0, "{}", testbed.logs());
    let in_use = if before[1] == 0 { "visit0" } else { "visit1" };
    testbed.agent.shell(&format!("ip link set {in_use} down"));
    wait_or_report("a handover because of the link", || testbed.handovers("link_down") == (1, 1), || testbed.logs());
    assert_eq!(testbed.handovers("first"), (1, 1), "{}", testbed.logs());
}
