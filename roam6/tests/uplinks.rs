//! The real binary on uplinks and ingress interfaces that are not as usual: absent, without prefixes, left at a stop.

#![allow(clippy::disallowed_methods, reason = "it waits for real processes")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test fails where it stands")]

mod road;

use road::capture::Capture;
use road::{ROUTER, Road, Running, UPLINK, wait_or_tell};
use std::fs::{self, File};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

fn has(tool: &str) -> bool {
    Command::new(tool).arg("--version").output().is_ok()
}

impl Road {
    /// A mobile router with `uplink` behind the keys of its uplink, and tables behind that.
    fn start_with(&self, uplink: &str) -> Running {
        self.router.roam6(&self.write_config("mr", &format!("{ROUTER}{UPLINK}{uplink}")))
    }

    /// The visited link's router with these words of radvd's.
    fn advertise_so(&self, words: &str) -> Running {
        let (conf, pid) = (self.file("radvd-own.conf"), self.file("radvd-own.pid"));
        fs::write(&conf, format!("interface visit0 {{ AdvSendAdvert on; {words} }};\n")).unwrap();
        self.agent.start(&["radvd", "-n", "-C", conf.to_str().unwrap(), "-p", pid.to_str().unwrap()])
    }

    fn log(&self) -> String {
        fs::read_to_string(self.file("mr.log")).unwrap_or_default()
    }

    fn await_state(&self, state: &str) {
        let links = || self.show("mr", "links");
        wait_or_tell(state, || links().contains(state), || format!("{}{}", links(), self.logs()));
    }
}

#[test]
fn paths_stay_up_without_any_ingress_interface() {
    let Some(road) = Road::new("paths_stay_up_without_any_ingress_interface") else { return };
    road.enroll(&[]);
    let _agent = road.start_agent();
    let _radvd = road.advertise("2001:db8:2::/64");
    let ingress = "[[mobile_router.ingress]]\ninterface = \"lan9\"\nprefix = \"2001:db8:100::/64\"\n";
    let _router = road.start_with(ingress);
    road.await_binding("2001:db8:2:");
    road.await_state("no such interface");
    assert!(road.log().contains("lan9: no such interface (ingress)"), "{}", road.log());
    let reach = ["ping", "-nqc1", "-W1", "-I", "2001:db8:1::100", "2001:db8:9::9"];
    let reaches = || road.router.command(&reach).output().unwrap().status.success();
    wait_or_tell("an answer to the home address", reaches, || road.logs());
    road.await_state("visited");
    let before = road.log().len();
    sleep(Duration::from_secs(3));
    let since = road.log().split_off(before);
    assert!(!since.contains("probes"), "no path is given up: {since}");
    assert!(road.show("mr", "links").contains("visited"), "{}", road.show("mr", "links"));
}

#[test]
fn after_a_clean_stop_the_kernel_has_address_and_default_route_again() {
    let Some(road) = Road::new("after_a_clean_stop_the_kernel_has_address_and_default_route_again") else { return };
    road.enroll(&[]);
    let _agent = road.start_agent();
    // Unsolicited advertisements alone would take minutes.
    let _radvd = road.advertise_so("MinRtrAdvInterval 600; MaxRtrAdvInterval 1800; prefix 2001:db8:2::/64 { };");
    let configured = || {
        let routes = road.router.shell("ip -6 route show default dev up0");
        let addresses = road.router.shell("ip -6 address show dev up0 scope global -tentative -deprecated");
        routes.contains("proto ra") && addresses.contains("2001:db8:2:")
    };
    wait_or_tell("an address of the kernel's", configured, String::new);
    let mut router = road.start_router("");
    road.await_binding("2001:db8:2:");
    // The first advertisements of radvd are 16 s apart.
    sleep(Duration::from_secs(2));
    road.router.shell(&format!("kill -TERM {}", router.0.id()));
    assert!(router.0.wait().unwrap().success(), "{}", road.logs());
    let until = std::time::Instant::now() + Duration::from_secs(10);
    while !configured() && std::time::Instant::now() < until {
        sleep(Duration::from_millis(50));
    }
    let story = road.router.shell("ip -6 route; ip -6 address show dev up0; sysctl net.ipv6.conf.up0.accept_ra");
    assert!(configured(), "{story}{}", road.logs());
}

#[test]
fn an_address_is_leased_where_the_network_advertises_no_prefix() {
    let test = "an_address_is_leased_where_the_network_advertises_no_prefix";
    let Some(road) = Road::new(test).filter(|_| has("dhcpd")) else { return println!("skipped: {test}") };
    road.enroll(&[]);
    let _agent = road.start_agent();
    let _radvd = road.advertise_so(
        "MinRtrAdvInterval 3; MaxRtrAdvInterval 4; AdvManagedFlag on; prefix 2001:db8:2::/64 { AdvAutonomous off; };",
    );
    let file = |kind: &str| road.file(&format!("dhcpd.{kind}"));
    let text = "default-lease-time 60; option dhcp6.preference 255; option dhcp6.name-servers 2001:db8:2::53;\n\
                subnet6 2001:db8:2::/64 { range6 2001:db8:2::1000 2001:db8:2::1fff; }\n";
    fs::write(file("conf"), text).unwrap();
    fs::write(file("leases"), "").unwrap();
    let mut dhcpd = road.agent.command(&["dhcpd", "-6", "-f", "-q", "-cf"]);
    dhcpd.arg(file("conf")).arg("-lf").arg(file("leases")).arg("-pf").arg(file("pid")).arg("visit0");
    let log = File::create(file("log")).unwrap();
    let _server = Running(dhcpd.stdout(Stdio::null()).stderr(log).spawn().unwrap());
    let _router = road.start_router("");
    road.await_binding("2001:db8:2::1");
    let reaches = || road.node.command(&["ping", "-nqc1", "-W1", "2001:db8:9::9"]).output().unwrap().status.success();
    wait_or_tell("a way out from a leased address", reaches, || road.logs());
}

#[test]
fn a_static_address_serves_where_nobody_advertises() {
    let Some(road) = Road::new("a_static_address_serves_where_nobody_advertises") else { return };
    road.enroll(&[]);
    let _agent = road.start_agent();
    let uplink = "address = \"2001:db8:2::5/64\"\ngateway = \"2001:db8:2::1\"\n";
    let ingress = "[[mobile_router.ingress]]\ninterface = \"in0\"\nprefix = \"2001:db8:100::/64\"\n";
    let _router = road.start_with(&format!("{uplink}{ingress}"));
    road.await_binding("2001:db8:2::5");
    let reaches = || road.node.command(&["ping", "-nqc1", "-W1", "2001:db8:9::9"]).output().unwrap().status.success();
    wait_or_tell("a way out from a static address", reaches, || road.logs());
}

#[test]
fn nodes_inside_hear_of_resolvers_and_search_domains_as_others_read_them() {
    let test = "nodes_inside_hear_of_resolvers_and_search_domains_as_others_read_them";
    let tools = has("tcpdump") && has("tshark");
    let Some(road) = Road::new(test).filter(|_| tools) else { return println!("skipped: {test}") };
    road.enroll(&[]);
    let _agent = road.start_agent();
    let _radvd = road.advertise_so(
        "MinRtrAdvInterval 3; MaxRtrAdvInterval 4; prefix 2001:db8:2::/64 { }; \
         RDNSS 2001:db8:2::53 { AdvRDNSSLifetime 300; }; DNSSL example.org { AdvDNSSLLifetime 300; };",
    );
    let capture = Capture::begin(&road, &road.node, "eth0", "inside");
    let _router = road.start_router("");
    road.await_binding("2001:db8:2:");
    sleep(Duration::from_secs(2));
    let seen = capture.end();
    seen.check();
    let fields = ["icmpv6.opt.rdnss", "icmpv6.opt.dnssl"];
    let told = seen.fields("icmpv6.type == 134 && icmpv6.opt.rdnss", &fields);
    let last = told.last().unwrap();
    assert_eq!(
        (last[0].as_slice(), last[1].as_slice()),
        (&["2001:db8:2::53".to_owned()][..], &["example.org".to_owned()][..])
    );
}

#[test]
fn nodes_leave_a_former_prefix_as_soon_as_a_reload_changes_it() {
    let Some(road) = Road::new("nodes_leave_a_former_prefix_as_soon_as_a_reload_changes_it") else { return };
    road.enroll(&[]);
    road.node.shell("sysctl -qw net.ipv6.conf.eth0.accept_ra=1 net.ipv6.conf.eth0.autoconf=1");
    let ingress = |prefix: &str| {
        format!("[[mobile_router.ingress]]\ninterface = \"in0\"\nprefix = \"2001:db8:100:{prefix}:/64\"\n")
    };
    let router = road.start_with(&ingress(""));
    let has = |prefix: &str, flag: &str| {
        let shown = road.node.shell(&format!("ip -6 address show dev eth0 dynamic {flag}"));
        shown.contains(&format!("2001:db8:100:{prefix}"))
    };
    wait_or_tell("an address of the first prefix", || has("0:", "-deprecated"), || road.logs());
    road.write_config("mr", &format!("{ROUTER}{UPLINK}{}", ingress("7:")));
    road.router.shell(&format!("kill -HUP {}", router.0.id()));
    wait_or_tell("an address of the second", || has("7:", "-deprecated"), || road.logs());
    wait_or_tell("the first deprecated", || has("0:", "deprecated") && !has("0:", "-deprecated"), || road.logs());
    let shown = road.show("mr", "prefixes");
    assert!(shown.contains("withdrawn"), "{shown}");
}
