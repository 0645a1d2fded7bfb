//! The world: hosts and media in one graph, one clock that jumps from event to event, one seeded generator.

use crate::net::event::Scheduled;
use crate::net::ipv4::nat::Nat44;
use crate::net::medium::Medium;
use crate::net::{Event, Host, HostId, LinkSpec, MediumId, Observation, RadioSpec};
use core::time::Duration;
use roam6_proto::case::Step;
use roam6_proto::{Entropy, Input, LinkId, Time};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;
use std::rc::Rc;

/// A world.
#[derive(Debug)]
pub struct World {
    hosts: Vec<Host>,
    media: Vec<Medium>,
    now: Time,
    /// The same time for applications, which continues when their host's engine dies.
    pub clock: Rc<Cell<Time>>,
    queue: BTreeMap<(Time, u64), Scheduled>,
    next_serial: u64,
    pub(crate) entropy: Entropy,
    pub(crate) observations: Vec<Observation>,
    /// Address resolutions in progress.
    pub(crate) resolving: BTreeSet<(HostId, LinkId, Ipv6Addr)>,
    /// Interfaces whose outgoing packets are observed as [`Observation::PacketLeft`].
    pub(crate) watched: BTreeSet<(HostId, LinkId)>,
    /// Source and destination pairs whose packets forwarding hosts drop.
    pub(crate) blocked_paths: BTreeSet<(Ipv6Addr, Ipv6Addr)>,
    /// The host whose inputs and outputs are recorded, and the steps of its engine's present instance.
    pub(crate) recording: Option<(HostId, Vec<Step>)>,
    /// Prints every event to standard output.
    pub verbose: bool,
    /// Dropped packets by reason.
    pub losses: BTreeMap<&'static str, u64>,
    /// Events handled.
    pub events: u64,
}

impl World {
    /// An empty world; all random choices follow from `seed`.
    pub fn new(seed: u64) -> World {
        World {
            hosts: Vec::new(),
            media: Vec::new(),
            now: Time::ZERO,
            clock: Rc::default(),
            queue: BTreeMap::new(),
            next_serial: 0,
            entropy: Entropy::seed_from_u64(seed),
            observations: Vec::new(),
            resolving: BTreeSet::new(),
            watched: BTreeSet::new(),
            blocked_paths: BTreeSet::new(),
            recording: None,
            verbose: false,
            losses: BTreeMap::new(),
            events: 0,
        }
    }

    /// The present time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Adds a medium without members.
    pub fn add_medium(&mut self, name: &str, spec: LinkSpec) -> MediumId {
        self.media.push(Medium::new(name, spec));
        MediumId(self.media.len() - 1)
    }

    /// Adds a radio channel without members.
    pub fn add_radio(&mut self, name: &str, spec: RadioSpec) -> MediumId {
        let seed = self.entropy.next_u64();
        self.media.push(Medium::radio(name, spec, seed));
        MediumId(self.media.len() - 1)
    }

    /// Adds a host, not yet started.
    pub fn add_host(&mut self, host: Host) -> HostId {
        self.hosts.push(host);
        HostId(self.hosts.len() - 1)
    }

    /// Adds a host with interfaces attached to media, not yet started.
    pub fn add_attached_host(&mut self, host: Host, ports: &[(LinkId, MediumId)]) -> HostId {
        let host = self.add_host(host);
        ports.iter().for_each(|(link, medium)| self.attach(host, *link, Some(*medium)));
        host
    }

    /// The hosts.
    pub fn hosts(&self) -> impl Iterator<Item = (HostId, &Host)> {
        self.hosts.iter().enumerate().map(|(index, host)| (HostId(index), host))
    }

    /// A host.
    #[allow(clippy::indexing_slicing, reason = "identifiers come from `add_host` only")]
    pub fn host(&self, id: HostId) -> &Host {
        &self.hosts[id.0]
    }

    /// A host, mutable.
    #[allow(clippy::indexing_slicing, reason = "identifiers come from `add_host` only")]
    pub fn host_mut(&mut self, id: HostId) -> &mut Host {
        &mut self.hosts[id.0]
    }

    /// A medium.
    #[allow(clippy::indexing_slicing, reason = "identifiers come from `add_medium` only")]
    pub fn medium(&self, id: MediumId) -> &Medium {
        &self.media[id.0]
    }

    #[allow(clippy::indexing_slicing, reason = "identifiers come from `add_medium` only")]
    pub(crate) fn medium_mut(&mut self, id: MediumId) -> &mut Medium {
        &mut self.media[id.0]
    }

    /// The media.
    pub fn media(&self) -> impl Iterator<Item = MediumId> + use<> {
        (0..self.media.len()).map(MediumId)
    }

    /// Whether the interface is attached and has carrier.
    pub fn is_up(&self, host: HostId, link: LinkId) -> bool {
        let Some(interface) = self.host(host).interfaces.get(&link) else { return false };
        if let Some(up) = interface.virtual_up {
            return up;
        }
        interface.medium.is_some_and(|medium| self.medium(medium).carrier)
    }

    /// Whether the network passes packets from the one address to the other.
    pub fn is_path_open(&self, source: Ipv6Addr, destination: Ipv6Addr) -> bool {
        !self.blocked_paths.contains(&(source, destination))
    }

    /// Records the inputs and outputs of `host`, from the next start of its engine on.
    pub fn record(&mut self, host: HostId) {
        self.recording = Some((host, Vec::new()));
    }

    /// Takes the recording.
    pub fn take_recording(&mut self) -> Vec<Step> {
        self.recording.take().map(|(_, steps)| steps).unwrap_or_default()
    }

    /// Schedules `happening` after some time.
    pub fn schedule(&mut self, after: Duration, event: Event) {
        self.enqueue(self.now + after, Scheduled::Event(event));
    }

    /// Handles the next event before `end`, and returns the observations; `None` if there is no event.
    pub fn step(&mut self, end: Time) -> Option<Vec<Observation>> {
        let entry = self.queue.first_entry().filter(|entry| entry.key().0 < end)?;
        self.now = entry.key().0;
        self.clock.set(self.now);
        self.events += 1;
        match entry.remove() {
            Scheduled::Arrive { host, link, medium, frame } => self.arrive((host, link), medium, &frame),
            Scheduled::Wake { host } => self.wake(host),
            Scheduled::Outcome { host, instance, outcome } => self.deliver_outcome(host, instance, outcome),
            Scheduled::Datapath { host, instance, event } => self.deliver_datapath_event(host, instance, event),
            Scheduled::ResolutionTimeout { host, link, address } => self.resolution_timeout(host, link, address),
            Scheduled::Radio { medium } => self.radio_event(medium),
            Scheduled::Fix { host, instance } => self.fix_due(host, instance),
            Scheduled::VirtualInterface { host, instance, link } => self.virtual_changed(host, instance, link),
            Scheduled::Lease { host, link } => self.lease(host, link),
            Scheduled::Event(event) => self.apply_event(event),
        }
        Some(core::mem::take(&mut self.observations))
    }

    /// Lets time pass until `end`, when all events before it are handled.
    pub fn wait_until(&mut self, end: Time) {
        self.now = self.now.max(end);
        self.clock.set(self.now);
    }

    /// Checks that no packet circulates.
    ///
    /// # Errors
    /// A hop limit was exhausted.
    pub fn check_circulation(&self) -> Result<(), String> {
        match self.losses.contains_key("hop limit") {
            true => Err("a packet circulates until its hop limit is exhausted".to_owned()),
            false => Ok(()),
        }
    }

    /// Attaches or detaches an interface; a running engine sees the carrier change.
    pub fn attach(&mut self, host: HostId, link: LinkId, medium: Option<MediumId>) {
        if self.roam(host, link, None) {
            self.announce_link(host, link);
        }
        if medium.is_some() && self.roam(host, link, medium) {
            self.announce_link(host, link);
        }
    }

    /// Attaches an interface to another medium without notice; whether anything changed.
    fn roam(&mut self, host: HostId, link: LinkId, medium: Option<MediumId>) -> bool {
        let Some(interface) = self.host_mut(host).interfaces.get_mut(&link) else { return false };
        let before = core::mem::replace(&mut interface.medium, medium);
        if let Some(before) = before {
            self.medium_mut(before).detach((host, link));
        }
        if let Some(after) = medium {
            let mut entropy = Entropy::seed_from_u64(self.entropy.next_u64());
            let track = self.host(host).track();
            self.medium_mut(after).attach((host, link), &track, &mut entropy);
        }
        if before != medium {
            self.request_lease((host, link), medium);
        }
        before != medium
    }

    /// Prints a line if the world is verbose.
    pub(crate) fn trace(&self, text: impl FnOnce() -> String) {
        if self.verbose {
            println!("{} {}", self.now, text());
        }
    }

    pub(crate) fn enqueue(&mut self, at: Time, event: Scheduled) {
        self.next_serial += 1;
        self.queue.insert((at.max(self.now), self.next_serial), event);
    }

    pub(crate) fn count_loss(&mut self, host: HostId, why: &'static str) {
        *self.losses.entry(why).or_default() += 1;
        self.trace(|| format!("{} x {why}", self.host(host).name));
    }

    fn apply_event(&mut self, event: Event) {
        self.trace(|| format!("* {}", self.describe_event(&event)));
        match event {
            Event::Attach(host, link, medium) => self.attach(host, link, medium),
            Event::Roam(host, link, medium) => {
                let was_up = self.is_up(host, link);
                self.roam(host, link, Some(medium));
                self.observations.push(Observation::Roamed(host, link));
                if self.is_up(host, link) != was_up {
                    self.announce_link(host, link);
                }
            }
            Event::Carrier(medium, carrier) => {
                self.medium_mut(medium).carrier = carrier;
                for (host, link) in self.medium(medium).members().collect::<Vec<_>>() {
                    self.announce_link(host, link);
                }
            }
            Event::BlackHole(medium, swallows) => self.medium_mut(medium).black_hole = swallows,
            Event::SetLink(medium, spec) => self.medium_mut(medium).set_spec(spec),
            Event::SetRadio(medium, spec) => {
                if let Some(channel) = &mut self.medium_mut(medium).channel {
                    channel.set_spec(spec);
                }
            }
            Event::Kill(host) => self.kill(host),
            Event::PowerOff(host) => self.power_off(host),
            Event::Start(host) => self.start(host),
            Event::EraseJournal(host) => self.host_mut(host).journal.erase(),
            Event::StepClock(host, micros) => {
                self.observations.push(Observation::ClockStepped(Duration::from_micros(micros.unsigned_abs())));
                self.step_clock(host, micros);
            }
            Event::SetAddress(host, link, address, there) => self.set_address(host, link, address, there),
            Event::BlockPath(source, destination, cut) => {
                let way = (source, destination);
                if cut {
                    self.blocked_paths.insert(way)
                } else {
                    self.blocked_paths.remove(&way)
                };
            }
            Event::RenewKeys(host) => {
                let told = (self.host(host).renew_keys)();
                told.into_iter().for_each(|input| self.handle(host, &input));
            }
            Event::ForgetMappings(host) => self.host_mut(host).nat.iter_mut().for_each(Nat44::forget),
            Event::RefuseItems(host, permille) => self.host_mut(host).refused_per_mille = permille,
            Event::Deliver(host, input) => self.handle(host, &input),
            Event::Inject(medium, bytes) => self.inject(medium, bytes),
        }
    }

    pub(crate) fn announce_link(&mut self, host: HostId, link: LinkId) {
        if let Some(event) = self.host(host).link_event(link, self.is_up(host, link)) {
            self.handle(host, &Input::Link(event));
        }
    }

    fn describe_event(&self, event: &Event) -> String {
        let host = |id: &HostId| self.host(*id).name.clone();
        let medium = |id: &MediumId| self.medium(*id).name.clone();
        match event {
            Event::Attach(id, link, None) => format!("{} {link} pulled out", host(id)),
            Event::Attach(id, link, Some(to)) => format!("{} {link} plugged into {}", host(id), medium(to)),
            Event::Roam(id, link, to) => format!("{} {link} slips over to {}", host(id), medium(to)),
            Event::Carrier(id, carrier) => format!("carrier of {}: {carrier}", medium(id)),
            Event::BlackHole(id, swallows) => format!("black hole at {}: {swallows}", medium(id)),
            Event::SetLink(id, quality) => format!("{} becomes {quality:?}", medium(id)),
            Event::SetRadio(id, spec) => format!("{} becomes {spec:?}", medium(id)),
            Event::Kill(id) => format!("{} killed", host(id)),
            Event::PowerOff(id) => format!("{} loses power", host(id)),
            Event::Start(id) => format!("{} started", host(id)),
            Event::EraseJournal(id) => format!("{} loses its disk", host(id)),
            Event::StepClock(id, micros) => format!("clock of {} stepped by {micros} us", host(id)),
            Event::SetAddress(id, link, address, true) => format!("{} {link} gets {address}", host(id)),
            Event::SetAddress(id, link, address, false) => format!("{} {link} loses {address}", host(id)),
            Event::BlockPath(source, destination, true) => format!("nothing passes from {source} to {destination}"),
            Event::BlockPath(source, destination, false) => format!("all passes from {source} to {destination}"),
            Event::RenewKeys(id) => format!("{} renews its keys", host(id)),
            Event::ForgetMappings(id) => format!("{} loses its NAT mappings", host(id)),
            Event::RefuseItems(id, permille) => format!("{} refuses {permille} of 1000 items", host(id)),
            Event::Deliver(id, input) => format!("{} receives {input:?}", host(id)),
            Event::Inject(id, bytes) => format!("{} octets injected into {}", bytes.len(), medium(id)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::traffic::{TrafficLog, TrafficSource, TrafficSpec};
    use roam6_proto::Item;
    use roam6_proto::contract::item::{Address, NextHop, Route, RouteTable};
    use roam6_wire::Prefix;
    use std::cell::RefCell;

    fn address(link: LinkId, address: &str) -> Item {
        Item::Address(Address {
            link,
            address: address.parse().unwrap(),
            prefix_length: 64,
            preferred: true,
            dad: false,
        })
    }

    fn default_route(link: LinkId, router: &str) -> Item {
        Item::Route(Route {
            table: RouteTable::MAIN,
            destination: Prefix::ALL,
            source: Prefix::ALL,
            metric: 1024,
            target: NextHop::Gateway { link, router: router.parse().unwrap() },
            mtu: None,
        })
    }

    #[test]
    fn a_router_forwards_between_two_hosts_and_links_lose_packets() {
        let tallies: [Rc<RefCell<TrafficLog>>; 2] = Default::default();
        let mut world = World::new(1);
        let spec = LinkSpec { delay: Duration::from_millis(5), ..LinkSpec::default() };
        let media = [world.add_medium("left", spec), world.add_medium("right", LinkSpec { loss: 0.5, ..spec })];
        let mut router = Host::idle("router");
        router.forwards = true;
        let mut ends = Vec::new();
        for (index, medium) in media.into_iter().enumerate() {
            let inside = router.add_interface(&format!("eth{index}"), 10 + u16::try_from(index).unwrap());
            router.kernel.add_static(address(inside, &format!("2001:db8:{index}::1")));
            let talk = TrafficSpec {
                own: format!("2001:db8:{index}::2").parse().unwrap(),
                peer: format!("2001:db8:{}::2", 1 - index).parse().unwrap(),
                interval: Duration::from_millis(100),
            };
            let (mine, others) = (Rc::clone(&tallies[index]), Rc::clone(&tallies[1 - index]));
            let mut end = Host::new("end", move |_| Box::new(TrafficSource::new(talk, &mine, &others)));
            let link = end.add_interface("eth0", 20 + u16::try_from(index).unwrap());
            end.kernel.add_static(address(link, &talk.own.to_string()));
            end.kernel.add_static(default_route(link, &format!("2001:db8:{index}::1")));
            ends.push((world.add_host(end), link, inside, medium));
        }
        let router = world.add_host(router);
        let (first, link, inside, _) = ends[0];
        for (end, link, inside, medium) in ends {
            world.attach(end, link, Some(medium));
            world.attach(router, inside, Some(medium));
            world.start(end);
        }
        while world.step(Time::from_micros(100_000_000)).is_some() {}
        let left = tallies[0].borrow();
        let missing = left.missing(Time::ZERO, Time::from_micros(99_000_000));
        assert!((400..600).contains(&missing), "{missing} of 990 lost at 50 %");
        assert!(left.arrived.iter().all(|times| *times <= 1));
        let (sent, _) = world.host(first).interfaces[&link].traffic;
        let (_, received) = world.host(router).interfaces[&inside].traffic;
        assert!(sent.packets >= 990 && sent.octets >= 990 * 48, "{sent:?}");
        assert!(sent.packets - received.packets <= 1, "the left link loses none: {received:?}");
    }
}
