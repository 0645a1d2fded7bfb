//! Hosts with several uplinks around one router, each uplink with a prefix of its own, and conversations between ULIDs.
//!
//! ```text
//!   h0 eth0 --+        +-- eth0 h1
//!   h0 eth1 --+- core -+-- eth1 h1
//!             |        +-- eth0 h2 ...
//! ```

use crate::net::items::{DEFAULT_METRIC, address_item, route_in};
use crate::net::{Event, Host, HostId, LinkSpec, MediumId, TrafficLog, TrafficSource, TrafficSpec, World};
use core::time::Duration;
use roam6_proto::base::hex;
use roam6_proto::base::ids::AddressPair;
use roam6_proto::contract::config::shim::{Identity, ShimConfig};
use roam6_proto::contract::item::{ContextTrigger, NextHop, PolicyRule, RouteTable};
use roam6_proto::crypto::cga::{Parameters, Sec};
use roam6_proto::crypto::hba::{self, KeyField};
use roam6_proto::crypto::signature::PrivateKey;
use roam6_proto::role::Role;
use roam6_proto::{Engine, Entropy, Input, Item, LinkId, Node, Outbox, Time, View};
use roam6_wire::Prefix;
use std::cell::{Cell, RefCell};
use std::net::Ipv6Addr;
use std::rc::Rc;

/// One end of a conversation: its traffic, what it has received, and what the other end has received.
pub(super) type TrafficEnd = (TrafficSpec, Rc<RefCell<TrafficLog>>, Rc<RefCell<TrafficLog>>);

/// P-256 keys in PKCS #8, generated for these worlds, without the public part.
const PRIVATE_KEYS: [&str; 3] = [
    "45462e1db76f80efa5b408fb57c6e95430a87bab45e6a563b91089d7409f046d",
    "864b828419c6fd8975ef77fefaeb1fab35dac3cf99b5a61b8126b271af806aa9",
    "712897ed9e2a2d81e847de660efff6feea7398d8cec6deb4290688f50221892e",
];
/// PKCS #8 around a key of P-256: algorithm, and an ECPrivateKey without the public key.
const PKCS8_HEADER: &str = "304102010030 1306072a8648ce3d020106082a8648ce3d030107 0427 3025020101 0420";
/// The prefix to which a host with a key renumbers: not part of its HBA set.
const SPARE_UNIT: u16 = 9;

/// The hosts, links and conversations of a world.
#[derive(Debug)]
pub struct Topology {
    /// The world.
    pub world: World,
    /// The core router.
    pub core: HostId,
    /// Hosts with several uplinks.
    pub hosts: Vec<MultihomedHost>,
    /// The conversations.
    pub conversations: Vec<Conversation>,
    roles: Vec<(Role, [u8; 32])>,
    units: u16,
}

/// A host with several uplinks.
#[derive(Debug)]
pub struct MultihomedHost {
    /// The host.
    pub host: HostId,
    /// Its uplinks: interface, medium, address.
    pub uplinks: Vec<(LinkId, MediumId, Ipv6Addr)>,
    /// How it proves its addresses.
    pub proof: Proof,
    /// An address of its first uplink's link that is in no HBA set.
    pub spare: Ipv6Addr,
}

/// One direction of a conversation.
#[derive(Debug)]
pub struct Conversation {
    /// The sender, as an index of [`Topology::hosts`].
    pub from: usize,
    /// The receiver.
    pub to: usize,
    /// The ULIDs, as the sender sees them.
    pub ulids: AddressPair,
    /// Whether it has traffic.
    pub has_traffic: bool,
    /// The traffic sent.
    pub tally: Rc<RefCell<TrafficLog>>,
}

/// How a host proves its addresses (RFC 5533 §7.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// No proof.
    None,
    /// A hash-based address set (HBA).
    Hba,
    /// Cryptographically generated addresses of one key (CGA).
    Cga,
    /// Both.
    Both,
}

/// The engine of a host with its applications, which run on the world's clock.
struct HostEngine {
    node: Node,
    sources: Vec<TrafficSource>,
    clock: Rc<Cell<Time>>,
    deadlines: (Time, Time),
}

impl Engine for HostEngine {
    fn handle(&mut self, now: Time, input: &Input, out: &mut Outbox) {
        let clock = self.clock.get();
        self.deadlines = (now, clock);
        self.node.handle(now, input, out);
        for talker in &mut self.sources {
            talker.handle(clock, input, out);
        }
    }

    fn deadline(&self) -> Option<Time> {
        let (now, clock) = self.deadlines;
        let sources = self.sources.iter().filter_map(Engine::deadline).map(|at| now + at.since(clock));
        sources.chain(self.node.deadline()).min()
    }

    fn view(&self, now: Time, view: &mut View) {
        self.node.view(now, view);
    }
}

/// The specification of a host.
#[derive(Debug, Clone)]
pub struct HostSpec {
    /// The number of uplinks, 1 to 4.
    pub uplinks: u16,
    /// How it proves its addresses.
    pub proof: Proof,
    /// Its configuration without interfaces and identities.
    pub config: ShimConfig,
    /// Seed of its engine's randomness.
    pub seed: [u8; 32],
}

impl Topology {
    /// A world with the core router only.
    pub fn new(seed: u64) -> Topology {
        let mut world = World::new(seed);
        let core = world.add_host(Host::router("core"));
        Topology { world, core, hosts: Vec::new(), conversations: Vec::new(), roles: Vec::new(), units: 0 }
    }

    /// Adds hosts, and conversations between them: sender, receiver, and the interval of packets in each direction.
    pub fn populate(
        &mut self,
        host_specs: &[HostSpec],
        exchanges: &[(usize, usize, [Option<Duration>; 2])],
        spec: LinkSpec,
    ) {
        let addresses: Vec<_> =
            host_specs.iter().enumerate().map(|(index, host_spec)| addresses(index, host_spec)).collect();
        for (near, far, intervals) in exchanges {
            for (from, to, interval) in [(*near, *far, intervals[0]), (*far, *near, intervals[1])] {
                let ulid = |host: usize| addresses.get(host).and_then(|(addresses, _, _)| addresses.first()).copied();
                let (Some(local), Some(peer)) = (ulid(from), ulid(to)) else { continue };
                let tally = Rc::default();
                let ulids = AddressPair { local, peer };
                self.conversations.push(Conversation { from, to, ulids, has_traffic: interval.is_some(), tally });
            }
        }
        for (index, (host_spec, (addresses, spare, identities))) in host_specs.iter().zip(addresses).enumerate() {
            let sources: Vec<_> = exchanges
                .iter()
                .flat_map(|(near, far, [there, back])| [(*near, *far, *there), (*far, *near, *back)])
                .filter(|(from, _, _)| *from == index)
                .filter_map(|(from, to, interval)| self.traffic_end(from, to, interval))
                .collect();
            self.add(index, host_spec, (&addresses, spare), identities, sources, spec);
        }
    }

    /// The role and seed with which the first instance of a host is created, for the head of a recording.
    pub fn role(&self, index: usize) -> Option<(Role, [u8; 32])> {
        self.roles.get(index).cloned()
    }

    /// Whether some locator pair carries packets from the one host to the other at present.
    pub fn reachable(&self, from: usize, to: usize) -> bool {
        let (Some(from), Some(to)) = (self.hosts.get(from), self.hosts.get(to)) else { return false };
        let near = self.usable(from);
        let far = self.usable(to);
        near.iter().any(|source| far.iter().any(|destination| self.world.is_path_open(*source, *destination)))
    }

    /// The events that restore the path between the ULIDs of two hosts.
    pub fn unblock_ulids(&self, from: usize, to: usize, ulids: AddressPair) -> Vec<Event> {
        let AddressPair { local, peer } = ulids;
        let mut events = vec![Event::BlockPath(local, peer, false), Event::BlockPath(peer, local, false)];
        for host in [from, to].into_iter().filter_map(|host| self.hosts.get(host)) {
            for (link, medium, address) in host.uplinks.iter().take(1) {
                events.push(Event::SetAddress(host.host, *link, *address, true));
                events.push(Event::Carrier(*medium, true));
                events.push(Event::BlackHole(*medium, false));
            }
        }
        events
    }

    /// The addresses of a host that work and that its peers accept.
    pub fn usable(&self, host: &MultihomedHost) -> Vec<Ipv6Addr> {
        let uplinks_up = host
            .uplinks
            .iter()
            .filter(|(link, medium, _)| self.world.is_up(host.host, *link) && !self.world.medium(*medium).black_hole);
        let mut all: Vec<Ipv6Addr> =
            uplinks_up.flat_map(|(link, _, _)| self.world.host(host.host).kernel.addresses(*link)).collect();
        let ulid = host.uplinks.first().map(|(_, _, address)| *address);
        let has_key = matches!(host.proof, Proof::Cga | Proof::Both);
        all.retain(|address| match host.proof {
            Proof::None => Some(*address) == ulid,
            _ => has_key || *address != host.spare,
        });
        all
    }

    fn traffic_end(&self, from: usize, to: usize, interval: Option<Duration>) -> Option<TrafficEnd> {
        let find = |from, to| {
            self.conversations.iter().find(|conversation| conversation.from == from && conversation.to == to)
        };
        let (there, back) = (find(from, to)?, find(to, from)?);
        let AddressPair { local, peer } = there.ulids;
        let spec = TrafficSpec { own: local, peer, interval: interval.unwrap_or(NO_TRAFFIC) };
        Some((spec, Rc::clone(&there.tally), Rc::clone(&back.tally)))
    }

    fn add(
        &mut self,
        index: usize,
        host_spec: &HostSpec,
        (addresses, spare): (&[Ipv6Addr], Ipv6Addr),
        identities: Vec<Identity>,
        sources: Vec<TrafficEnd>,
        spec: LinkSpec,
    ) {
        let role = role(addresses.len(), identities, host_spec.config.clone());
        self.roles.push((role.clone(), seed_of(host_spec.seed, 1)));
        let mut host = host(&format!("h{index}"), role, host_spec.seed, &self.world.clock, sources);
        let names = (0..addresses.len()).map(|uplink| format!("eth{uplink}"));
        let mut uplinks = Vec::new();
        for (uplink, (name, address)) in names.zip(addresses).enumerate() {
            let link = host.add_interface(&name, self.unit());
            let medium = self.world.add_medium(&format!("h{index} uplink {uplink}"), spec);
            let router = self.attach_core(index, uplink, medium);
            add_uplink(&mut host, uplink, (link, router), *address);
            if uplink == 0 {
                source_route(&mut host, addresses.len(), (link, router), Prefix::host(spare));
            }
            uplinks.push((link, medium, *address));
        }
        let ports: Vec<_> = uplinks.iter().map(|(link, medium, _)| (*link, *medium)).collect();
        let host = self.world.add_attached_host(host, &ports);
        self.hosts.push(MultihomedHost { host, uplinks, proof: host_spec.proof, spare });
    }

    /// Attaches the core router to a medium; returns its address.
    fn attach_core(&mut self, index: usize, uplink: usize, medium: MediumId) -> Ipv6Addr {
        let unit = self.unit();
        let prefix = prefix(index, uplink);
        let address = Ipv6Addr::from_bits(prefix.address().to_bits() | 1);
        let core = self.core;
        let host = self.world.host_mut(core);
        let link = host.add_interface(&format!("to-h{index}-{uplink}"), unit);
        host.kernel.add_static(address_item(link, address, 64));
        if uplink == 0 {
            let elsewhere = self::prefix(index, usize::from(SPARE_UNIT));
            host.kernel.add_static(route_in(RouteTable::MAIN, elsewhere, DEFAULT_METRIC, NextHop::OnLink(link)));
        }
        self.world.attach(core, link, Some(medium));
        address
    }

    fn unit(&mut self) -> u16 {
        self.units += 1;
        self.units
    }
}

/// The role of a host with so many uplinks.
pub(super) fn role(uplinks: usize, identities: Vec<Identity>, config: ShimConfig) -> Role {
    let interfaces = (0..uplinks).map(|uplink| format!("eth{uplink}")).collect();
    Role::Shim(Box::new(ShimConfig { interfaces, identities, ..config }))
}

/// A host with Shim6 and the traffic of its conversations, without uplinks.
pub(super) fn host(name: &str, role: Role, seed: [u8; 32], clock: &Rc<Cell<Time>>, ends: Vec<TrafficEnd>) -> Host {
    let clock = Rc::clone(clock);
    let mut host = Host::new(name, move |instance| {
        let node = Node::from_roles(core::slice::from_ref(&role), seed_of(seed, instance));
        let source = |(spec, mine, others): &TrafficEnd| {
            TrafficSource::new(*spec, mine, others).starting_at(clock.get(), spec.interval == NO_TRAFFIC)
        };
        let sources = ends.iter().map(source).collect();
        Box::new(HostEngine { node, sources, clock: Rc::clone(&clock), deadlines: (Time::ZERO, clock.get()) })
    });
    host.reports_addresses = true;
    host
}

/// Adds the address of an uplink, and the route for packets from its prefix.
pub(super) fn add_uplink(host: &mut Host, uplink: usize, (link, router): (LinkId, Ipv6Addr), address: Ipv6Addr) {
    host.kernel.add_static(address_item(link, address, 128));
    let prefix = Prefix::new(address, 64).unwrap_or(Prefix::ALL);
    source_route(host, uplink, (link, router), prefix);
}

/// The hash-based addresses of a host in these prefixes, and the identity that proves them.
pub(super) fn hash_based_addresses(
    index: usize,
    seed: [u8; 32],
    prefixes: &[Prefix],
) -> (Vec<Ipv6Addr>, Vec<Identity>) {
    let mut modifier = [0; 16];
    Entropy::from_seed(seed).fill(&mut modifier);
    let number = [u8::try_from(index).unwrap_or(0); 48];
    let parameters = hba::parameters(modifier, prefixes, KeyField::Random(&number));
    let (Some(sec), Some(parameters)) = (Sec::new(0), parameters) else { return (Vec::new(), Vec::new()) };
    let made = |prefix: &Prefix| parameters.in_prefix(*prefix).map(|parameters| parameters.address(sec));
    let addresses = prefixes.iter().filter_map(made).collect();
    (addresses, vec![Identity { parameters, private_key: Vec::new() }])
}

/// The seed of an instance.
fn seed_of(mut seed: [u8; 32], instance: u32) -> [u8; 32] {
    seed[31] ^= u8::try_from(instance & 0xff).unwrap_or(0);
    seed
}

/// A configuration that detects a loss after two seconds, and a conversation after 500 octets.
pub fn config() -> ShimConfig {
    let trigger = ContextTrigger { octets: Some(512), age: Some(Duration::from_secs(5)), ..ContextTrigger::default() };
    let send_timeout = Duration::from_secs(2);
    ShimConfig { trigger: Some(trigger), send_timeout, return_after: None, ..ShimConfig::default() }
}

/// The interval of a source without traffic.
const NO_TRAFFIC: Duration = Duration::from_secs(1_000_000);

/// The prefix of a host's uplink.
pub(super) fn prefix(index: usize, uplink: usize) -> Prefix {
    let number = u16::try_from(0xa00 + index * 16 + uplink).unwrap_or(0);
    let address = Ipv6Addr::new(0x2001, 0xdb8, number, 0, 0, 0, 0, 0);
    Prefix::new(address, 64).unwrap_or(Prefix::ALL)
}

/// The addresses of a host, its spare address, and the identities that prove them.
fn addresses(index: usize, host_spec: &HostSpec) -> (Vec<Ipv6Addr>, Ipv6Addr, Vec<Identity>) {
    let prefixes: Vec<Prefix> = (0..usize::from(host_spec.uplinks)).map(|uplink| prefix(index, uplink)).collect();
    let elsewhere = prefix(index, usize::from(SPARE_UNIT));
    let plain = |prefix: &Prefix| Ipv6Addr::from_bits(prefix.address().to_bits() | 5);
    let sec = Sec::new(0);
    let (Some(sec), Some(first)) = (sec, prefixes.first()) else {
        return (Vec::new(), Ipv6Addr::UNSPECIFIED, Vec::new());
    };
    let private_key = key(index);
    let public = PrivateKey::parse(&private_key).and_then(|key| key.public()).unwrap_or_default();
    let mut modifier = [0; 16];
    Entropy::from_seed(host_spec.seed).fill(&mut modifier);
    let number = [u8::try_from(index).unwrap_or(0); 48];
    let parameters = match host_spec.proof {
        Proof::None => None,
        Proof::Hba => hba::parameters(modifier, &prefixes, KeyField::Random(&number)),
        Proof::Both => hba::parameters(modifier, &prefixes, KeyField::Public(&public)),
        Proof::Cga => Parameters::new(modifier, *first, public),
    };
    let Some(parameters) = parameters else {
        return (prefixes.iter().map(plain).collect(), plain(&elsewhere), Vec::new());
    };
    let made = |prefix: &Prefix| parameters.in_prefix(*prefix).map(|parameters| parameters.address(sec));
    let all = prefixes.iter().filter_map(made).collect();
    let spare =
        if host_spec.proof == Proof::Hba { plain(&elsewhere) } else { made(&elsewhere).unwrap_or(plain(&elsewhere)) };
    let private_key = if host_spec.proof == Proof::Hba { Vec::new() } else { private_key };
    (all, spare, vec![Identity { parameters, private_key }])
}

/// PKCS #8 of a host's key.
pub fn key(index: usize) -> Vec<u8> {
    let number = PRIVATE_KEYS.get(index % PRIVATE_KEYS.len()).copied().unwrap_or_default();
    let text: String = PKCS8_HEADER.split_whitespace().chain([number]).collect();
    hex::decode(&text).unwrap_or_default()
}

/// Source routing: packets from `source` use this uplink.
fn source_route(host: &mut Host, uplink: usize, (link, router): (LinkId, Ipv6Addr), source: Prefix) {
    let number = 100 + u32::try_from(uplink).unwrap_or(0);
    let rule = PolicyRule { priority: number, source, destination: Prefix::ALL, iif: None, table: RouteTable(number) };
    host.kernel.add_static(Item::Rule(rule));
    host.kernel.add_static(route_in(
        RouteTable(number),
        Prefix::ALL,
        DEFAULT_METRIC,
        NextHop::Gateway { link, router },
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_keys_are_valid_and_prove_their_cga_addresses() {
        for index in 0..PRIVATE_KEYS.len() {
            assert!(PrivateKey::parse(&key(index)).is_some());
        }
        for proof in [Proof::Hba, Proof::Cga, Proof::Both] {
            let host_spec = HostSpec { uplinks: 3, proof, config: config(), seed: [3; 32] };
            let (addresses, spare, identities) = addresses(1, &host_spec);
            assert_eq!((addresses.len(), identities.len()), (3, 1));
            assert!(!addresses.contains(&spare));
        }
    }
}
