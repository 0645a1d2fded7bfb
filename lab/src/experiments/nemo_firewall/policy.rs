//! Policy checks: echo requests and TCP connections between the correspondent and the mobile network node, opened by
//! either, counted at the destination.

use super::{load_rules, ruleset, wait_until_noticed};
use crate::bed::{Daemon, Host};
use crate::experiments::prelude::*;
use crate::load::Endpoint;
use crate::topology::nemo::{NO_DAD, NemoNetwork, Vehicle};
use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Required share of allowed packets that pass.
const MIN_ALLOWED_SHARE: f64 = 0.99;
/// Interval of echo requests, seconds.
const INTERVAL: &str = "0.005";
/// Time between two rule changes.
const PAUSE: Duration = Duration::from_millis(30);
/// Timeout of a forbidden connection: one SYN segment.
const FORBIDDEN_TIMEOUT: Duration = Duration::from_millis(20);
/// Timeout of an allowed connection.
const ALLOWED_TIMEOUT: Duration = Duration::from_secs(2);

/// TCP port of the probe without rules.
const OPEN_PORT: u16 = 7100;

/// States of the neighbour cache entries, in order.
const NEIGHBOUR_STATES: [&str; 4] = ["reachable", "stale", "flushed", "reachable"];

/// Counts new connections towards a host at their destination.
const COUNTER: &str = "table inet begun {
 counter begun { }
 chain input {
  type filter hook input priority -300;
  icmpv6 type echo-request counter name begun
  tcp flags & (syn | ack) == syn counter name begun
 }
}
";

/// Rules on the home agent or the mobile router.
struct Variant {
    /// On the home agent instead of the mobile router.
    at_home_agent: bool,
    /// Connections may be opened by the mobile network node instead of the correspondent.
    from_inside: bool,
    /// The interface at which packets of the allowed opener arrive.
    interface: &'static str,
    /// TCP port of both ends, unique to the variant: connection tracking of one could otherwise match the other's
    /// rules.
    port: u16,
}

const VARIANTS: [Variant; 4] = [
    Variant { at_home_agent: false, from_inside: true, interface: "\"in0\"", port: 7101 },
    Variant { at_home_agent: false, from_inside: false, interface: "\"nemo0\"", port: 7102 },
    Variant { at_home_agent: true, from_inside: true, interface: "\"nemo0\"", port: 7103 },
    Variant { at_home_agent: true, from_inside: false, interface: "\"net0\"", port: 7104 },
];

/// Number of packets and changes.
#[derive(Clone, Copy)]
struct Effort {
    /// Echo requests of each probe.
    echoes: u64,
    /// Connections of each probe.
    connections: u64,
    /// Rule changes under traffic.
    changes: usize,
    /// How often the table is deleted and created again.
    restarts: usize,
}

/// Packets sent, and packets that passed.
#[derive(Default)]
struct Count {
    sent: u64,
    passed: u64,
}

impl Count {
    fn add(&mut self, other: &Count) {
        self.sent += other.sent;
        self.passed += other.passed;
    }

    fn share(&self) -> f64 {
        self.passed as f64 / self.sent.max(1) as f64
    }
}

/// Number of progress steps.
pub(super) fn steps() -> usize {
    VARIANTS.len() + 1
}

/// Runs all variants in one network.
pub(super) fn check_policies(run: &mut Run) -> Result<()> {
    let effort = if run.quick {
        Effort { echoes: 20, connections: 10, changes: 30, restarts: 3 }
    } else {
        Effort { echoes: 200, connections: 50, changes: 300, restarts: 10 }
    };
    run.step("without rules");
    let (network, vehicle) = NemoNetwork::with_vehicle(Duration::ZERO, NO_DAD, "")?;
    load_rules(&network.cn, COUNTER)?;
    load_rules(&vehicle.mnn, COUNTER)?;
    let (mut forbidden, mut allowed) = (Count::default(), probe_without_rules(&network, &vehicle, effort)?);
    for variant in &VARIANTS {
        run.step(&variant.name());
        let trial = VariantRun::new((&network, &vehicle), variant, effort)?;
        let (against, along) = trial.probe_both().with_context(|| variant.name())?;
        run.rows.push(json!({
            "rules": variant.name(),
            "forbidden_sent": against.sent, "forbidden_passed": against.passed,
            "allowed_sent": along.sent, "allowed_passed": along.passed,
            "changes": effort.changes, "restarts": effort.restarts,
        }));
        run.require(against.passed == 0, || {
            format!("{}: {} of {} packets passed against the policy", variant.name(), against.passed, against.sent)
        });
        forbidden.add(&against);
        allowed.add(&along);
    }
    run.summarise("passed_against_policy", forbidden.passed);
    run.summarise("forbidden_sent", forbidden.sent);
    run.summarise("allowed_sent", allowed.sent);
    run.summarise("allowed_passed_over_sent", round(allowed.share()));
    run.require(allowed.share() >= MIN_ALLOWED_SHARE, || {
        format!("only {} of {} allowed packets and connections passed", allowed.passed, allowed.sent)
    });
    Ok(())
}

/// Probes both directions without a firewall: packets can pass in the forbidden direction, and are counted where they
/// arrive.
fn probe_without_rules(network: &NemoNetwork, vehicle: &Vehicle, effort: Effort) -> Result<Count> {
    let (mut count, correspondent, node) = (Count::default(), network.correspondent(), vehicle.node());
    for (from, to) in [(&correspondent, &node), (&node, &correspondent)] {
        let listener = listen(to.host, to.address, OPEN_PORT)?;
        let before = arrived_count(to.host)?;
        let probe = Probe { from, to: to.address, port: OPEN_PORT }.send_allowed(&listener, effort)?;
        let counted = arrived_count(to.host)?.saturating_sub(before);
        ensure!(counted >= probe.passed, "{} counted {counted} of {} arrivals", to.host.name(), probe.passed);
        count.add(&probe);
    }
    Ok(count)
}

impl Variant {
    fn name(&self) -> String {
        let place = if self.at_home_agent { "home agent" } else { "mobile router" };
        let who = if self.from_inside { "inside" } else { "outside" };
        format!("on the {place}, connections may be opened {who}")
    }
}

/// One variant in the network.
struct VariantRun<'a> {
    network: &'a NemoNetwork,
    vehicle: &'a Vehicle,
    variant: &'a Variant,
    effort: Effort,
    /// The allowed opener, and the forbidden one.
    ends: [Endpoint<'a>; 2],
    /// The listener of allowed connections.
    listener: TcpListener,
}

impl<'a> VariantRun<'a> {
    fn new(
        (network, vehicle): (&'a NemoNetwork, &'a Vehicle),
        variant: &'a Variant,
        effort: Effort,
    ) -> Result<VariantRun<'a>> {
        let mut ends = [vehicle.node(), network.correspondent()];
        if !variant.from_inside {
            ends.reverse();
        }
        let [_, other] = &ends;
        let listener = listen(other.host, other.address, variant.port)?;
        Ok(VariantRun { network, vehicle, variant, effort, ends, listener })
    }

    fn host(&self) -> (&'a Host, &'a Daemon) {
        if self.variant.at_home_agent {
            (&self.network.ha, &self.network.home_agent)
        } else {
            (&self.vehicle.mr, &self.vehicle.daemon)
        }
    }

    /// Counts of forbidden and of allowed packets.
    fn probe_both(&self) -> Result<(Count, Count)> {
        let (host, daemon) = self.host();
        let rules = ruleset(self.variant.interface);
        load_rules(host, &rules)?;
        wait_until_noticed(daemon)?;
        let [first, _] = &self.ends;
        let before = arrived_count(first.host)?;
        let (mut against, mut along) = (Count::default(), Count::default());
        for state in NEIGHBOUR_STATES {
            self.set_neighbours(state)?;
            against.sent += self.send_forbidden()?;
            self.set_neighbours(state)?;
            along.add(&self.send_allowed()?);
            against.sent += self.send_forbidden()?;
        }
        self.set_neighbours("reachable")?;
        self.change_under_traffic(&mut against, &mut along)?;
        for _ in 0..self.effort.restarts {
            // No traffic while there is no chain, because there is no policy then.
            host.output("nft", &["delete", "table", "inet", "site"])?;
            load_rules(host, &rules)?;
            self.set_neighbours("reachable")?;
            against.sent += self.send_forbidden()?;
            along.add(&self.send_allowed()?);
        }
        against.passed = arrived_count(first.host)?.saturating_sub(before);
        host.output("nft", &["delete", "table", "inet", "site"])?;
        Ok((against, along))
    }

    /// Replaces rules in a chain that stays, and the table with its chain, each in one transaction, while both ends
    /// send.
    fn change_under_traffic(&self, against: &mut Count, along: &mut Count) -> Result<()> {
        let (host, _) = self.host();
        let interface = self.variant.interface;
        let replaced = format!("table inet site\ndelete table inet site\n{}", ruleset(interface));
        let refilled = format!(
            "flush chain inet site forward\nadd rule inet site forward ct state established,related accept\n\
             add rule inet site forward iifname {interface} accept\n"
        );
        let ended = AtomicBool::new(false);
        thread::scope(|scope| {
            let forbidden = scope.spawn(|| {
                let mut sent = 0;
                while !ended.load(Ordering::Relaxed) {
                    sent += self.send_forbidden()?;
                }
                anyhow::Ok(sent)
            });
            let allowed = scope.spawn(|| {
                let mut count = Count::default();
                while !ended.load(Ordering::Relaxed) {
                    count.add(&self.send_allowed()?);
                }
                anyhow::Ok(count)
            });
            let changed = [&refilled, &replaced].into_iter().cycle().take(self.effort.changes).try_for_each(|text| {
                sleep(PAUSE);
                load_rules(host, text)
            });
            ended.store(true, Ordering::Relaxed);
            against.sent += forbidden.join().map_err(|_| anyhow!("a sender thread panicked"))??;
            along.add(&allowed.join().map_err(|_| anyhow!("a sender thread panicked"))??);
            changed
        })
    }

    /// Sends forbidden packets; the minimum number sent.
    fn send_forbidden(&self) -> Result<u64> {
        let [to, from] = &self.ends;
        Probe { from, to: to.address, port: self.variant.port }.send_forbidden(self.effort)
    }

    /// Sends allowed packets; sent and answered.
    fn send_allowed(&self) -> Result<Count> {
        let [from, to] = &self.ends;
        Probe { from, to: to.address, port: self.variant.port }.send_allowed(&self.listener, self.effort)
    }

    /// Sets the state of the neighbour cache entries for the mobile network node and the next hops at both routers.
    fn set_neighbours(&self, state: &str) -> Result<()> {
        for (host, interface) in [(&self.vehicle.mr, "in0"), (&self.vehicle.mr, "up0"), (&self.network.ha, "net0")] {
            if state == "flushed" {
                host.output("ip", &["-6", "neighbour", "flush", "dev", interface])?;
                continue;
            }
            for line in host.output("ip", &["-6", "neighbour", "show", "dev", interface])?.lines() {
                // The last word is the state; an entry without a link-layer address cannot have another state.
                let Some((entry, _)) = line.trim().rsplit_once(' ').filter(|(entry, _)| entry.contains("lladdr"))
                else {
                    continue;
                };
                host.ip(&[&format!("neighbour replace {entry} dev {interface} nud {state}")])?;
            }
        }
        Ok(())
    }
}

/// Echo requests and connections from one end to another.
struct Probe<'a> {
    from: &'a Endpoint<'a>,
    to: Ipv6Addr,
    port: u16,
}

impl Probe<'_> {
    /// Sends forbidden packets; the minimum number sent.
    fn send_forbidden(&self, effort: Effort) -> Result<u64> {
        self.ping(effort.echoes, "0.2")?;
        self.connect(effort.connections, FORBIDDEN_TIMEOUT)?;
        Ok(effort.echoes + effort.connections)
    }

    /// Sends allowed packets; sent and answered.
    fn send_allowed(&self, listener: &TcpListener, effort: Effort) -> Result<Count> {
        let answered = self.ping(effort.echoes, "2")? + self.connect(effort.connections, ALLOWED_TIMEOUT)?;
        while listener.accept().is_ok() {}
        Ok(Count { sent: effort.echoes + effort.connections, passed: answered })
    }

    /// The number of answered echo requests.
    fn ping(&self, count: u64, timeout: &str) -> Result<u64> {
        let mut command = self.from.host.command("ping");
        command.args(["-6", "-n", "-q", "-c", &count.to_string(), "-i", INTERVAL, "-W", timeout]);
        let text = String::from_utf8(command.arg(self.to.to_string()).output()?.stdout)?;
        let received = text.lines().find_map(|line| line.split_once(" received")?.0.rsplit(' ').next()?.parse().ok());
        received.with_context(|| format!("ping tells no count: {text}"))
    }

    /// The number of accepted connections.
    fn connect(&self, count: u64, timeout: Duration) -> Result<u64> {
        let to = SocketAddr::V6(SocketAddrV6::new(self.to, self.port, 0, 0));
        let accepted = || (0..count).filter(|_| TcpStream::connect_timeout(&to, timeout).is_ok()).count();
        Ok(u64::try_from(self.from.host.in_namespace(accepted)?)?)
    }
}

fn listen(host: &Host, address: Ipv6Addr, port: u16) -> Result<TcpListener> {
    let listener = host.in_namespace(|| TcpListener::bind(SocketAddrV6::new(address, port, 0, 0)))??;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Echo requests and SYNs that have arrived at an end so far.
fn arrived_count(host: &Host) -> Result<u64> {
    let text = host.output("nft", &["list", "counter", "inet", "begun", "begun"])?;
    let packets = text.split_once("packets ").and_then(|(_, rest)| rest.split_whitespace().next()?.parse().ok());
    packets.with_context(|| format!("no count of packets: {text}"))
}
