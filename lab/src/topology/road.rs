//! The networks of the GeoNetworking experiments: stations on one radio channel, each with a receiver that tells it where
//! it is, a roam6 that makes the virtual link gn0, and perhaps a node inside.
//!
//! ```text
//!   node ── in0 station radio0 ))) ((( radio0 station in0 ── node
//!                  gn0 ················· gn0
//! ```

use crate::bed::{Daemon, Host, LinkEmulator, Port, Segment, gpsd};
use crate::clock;
use crate::load::Endpoint;
use crate::load::signed_stations::Lab;
use crate::threads::Workers;
use anyhow::{Context, Result, anyhow};
use roam6_proto::geo::geometry::Offset;
use roam6_sim::{LinkSpec, RadioSpec, Track};
use std::cell::Cell;
use std::net::Ipv6Addr;
use std::sync::Arc;
use std::time::Duration;

/// How long a virtual link may take until its address is usable.
const TIMEOUT: Duration = Duration::from_secs(15);
/// How long two stations may take until they forward to each other.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// The name of each station's virtual link.
pub(crate) const VIRTUAL_LINK: &str = "gn0";

/// Secured stations of a road, at most.
const MAX_SECURED: u16 = 16;

/// A road and its radio channel.
pub(crate) struct Road {
    /// All ports and segments.
    pub(crate) emulator: Arc<LinkEmulator>,
    /// The channel.
    pub(crate) channel: Segment,
    /// Configuration added to `[geo]` of every station.
    geo_config: String,
    /// Certificates of its stations.
    certificates: Option<Certificates>,
}

/// Certificates of a road's stations.
struct Certificates {
    lab: Lab,
    /// The number of those in use.
    used: Cell<u16>,
    /// The host with their files.
    _host: Host,
}

/// A station.
pub(crate) struct RoadStation {
    /// Its host.
    pub(crate) host: Host,
    /// Its roam6.
    pub(crate) daemon: Daemon,
    /// Its radio.
    pub(crate) radio: Port,
    /// Its link-local address on the virtual link.
    pub(crate) address: Ipv6Addr,
    _gps: Workers,
}

/// A position on the road, metres from its beginning.
pub(crate) fn road_position(metres: f64) -> Offset {
    Offset { east: metres, north: 0.0 }
}

impl Road {
    /// A road without stations.
    pub(crate) fn new(spec: RadioSpec, geo: &str) -> Result<Road> {
        Ok(Road::with_emulator(Arc::new(LinkEmulator::new(1)?), spec, geo))
    }

    /// [`Road::new`] in an existing testbed.
    pub(crate) fn with_emulator(emulator: Arc<LinkEmulator>, spec: RadioSpec, geo: &str) -> Road {
        let channel = emulator.add_radio_channel(spec);
        Road { emulator, channel, geo_config: geo.to_owned(), certificates: None }
    }

    /// The same road with stations that sign their packets and accept no others, each with a certificate of its own.
    pub(crate) fn secured(mut self) -> Result<Road> {
        let host = Host::new("pki")?;
        let lab = Lab::make(host.folder().join("certificates"), MAX_SECURED)?;
        self.certificates = Some(Certificates { lab, used: Cell::new(0), _host: host });
        Ok(self)
    }

    /// Whether its stations sign.
    pub(crate) fn is_secured(&self) -> bool {
        self.certificates.is_some()
    }

    /// The configuration of the next station's security.
    fn next_security(&self) -> String {
        let Some(Certificates { lab, used, .. }) = &self.certificates else { return String::new() };
        used.set(used.get() + 1);
        format!("security = {}\n", lab.inline_table(used.get()))
    }

    /// Adds a station; returns once the address of its virtual link is usable.
    pub(crate) fn add_station(&self, name: &str, kind: &str, track: Track) -> Result<RoadStation> {
        let host = Host::new(name)?;
        host.set_sysctl("ipv6/conf/all/forwarding", "1")?;
        // A router that also accepts Router Advertisements on its virtual link.
        host.set_sysctl("ipv6/conf/default/accept_ra", "2")?;
        let (radio, gps) = self.add_radio(&host, track)?;
        let daemon = Daemon::start(&host, &self.config(kind)).with_context(|| format!("the station {name}"))?;
        let address = self.emulator.link_local(radio)?;
        let station = RoadStation { host, daemon, radio, address, _gps: gps };
        station.wait_for_link()?;
        Ok(station)
    }

    /// Gives a host a radio and an emulated gpsd.
    pub(crate) fn add_radio(&self, host: &Host, track: Track) -> Result<(Port, Workers)> {
        let radio = self.emulator.add_port(host, "radio0")?;
        // No IPv6 on the radio channel itself.
        host.set_sysctl("ipv6/conf/radio0/disable_ipv6", "1")?;
        self.emulator.tune(radio, self.channel, track)?;
        let gps = gpsd::serve(host, self.emulator.positions(), radio)?;
        Ok((radio, gps))
    }

    /// The roam6 configuration of a station of this type.
    pub(crate) fn config(&self, kind: &str) -> String {
        let (server, more) = (gpsd::ADDRESS, self.next_security() + &self.geo_config);
        format!(
            "[geo]\ninterfaces = [\"radio0\"]\nstation = \"{kind}\"\nposition = {{ gpsd = \"{server}\" }}\n{more}\n\
             [[geo.links]]\nname = \"{VIRTUAL_LINK}\"\naround = 1500\n"
        )
    }

    /// Moves vehicles, by their radio ports, from their present positions to these (metres) at `speed` metres per
    /// second; the time the last of them takes.
    pub(crate) fn set_destinations(
        &self,
        goals: impl IntoIterator<Item = (Port, f64)>,
        speed: f64,
    ) -> Result<Duration> {
        let now = self.emulator.now();
        let mut last = now;
        for (radio, place) in goals {
            let (here, _) =
                self.emulator.positions().position_and_motion(radio).context("the vehicle is on no radio channel")?;
            let track = Track::from(now, here).drive_to(road_position(place), speed);
            last = last.max(track.last().0);
            self.emulator.set_track(radio, track)?;
        }
        Ok(last.since(now))
    }

    /// Adds a second radio at the same position on the same channel, for plain IPv6; its link-local address.
    pub(crate) fn add_plain_radio(&self, station: &RoadStation, track: Track) -> Result<(Port, Ipv6Addr)> {
        let port = self.emulator.add_port(&station.host, "radio1")?;
        self.emulator.tune(port, self.channel, track)?;
        Ok((port, self.emulator.link_local(port)?))
    }

    /// Adds a host behind a station, with an address in each of the networks; its router is `::1` in each.
    pub(crate) fn add_node(&self, station: &RoadStation, name: &str, networks: &[Ipv6Addr]) -> Result<Host> {
        let node = Host::new(name)?;
        let ports = [self.emulator.add_port(&node, "eth0")?, self.emulator.add_port(&station.host, "in0")?];
        self.emulator.cable(ports, LinkSpec::default())?;
        for network in networks {
            let (router, address) = (host_address(*network, 1), host_address(*network, 2));
            station.host.ip(&[&format!("address add {router}/64 dev in0 nodad")])?;
            node.ip(&[&format!("address add {address}/64 dev eth0 nodad")])?;
        }
        let router = host_address(*networks.first().context("no network")?, 1);
        node.ip(&[&format!("route add default via {router} dev eth0")])?;
        Ok(node)
    }
}

/// Two stations, each with a node inside, and routes between the networks of the nodes.
pub(crate) struct RoadPair {
    pub(crate) stations: [RoadStation; 2],
    pub(crate) nodes: [Host; 2],
}

/// The networks of the nodes.
const NETWORKS: [Ipv6Addr; 2] =
    [Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 0), Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 0)];

impl RoadPair {
    /// Adds two stations of this type at these positions (metres).
    pub(crate) fn add(road: &Road, kind: &str, positions: [f64; 2]) -> Result<RoadPair> {
        let ([first, second], [one, two]) = (positions, NETWORKS);
        let station = |name, metres| road.add_station(name, kind, Track::standing(road_position(metres)));
        let stations = [station("mr1", first)?, station("mr2", second)?];
        let nodes = [road.add_node(&stations[0], "mnn1", &[one])?, road.add_node(&stations[1], "mnn2", &[two])?];
        let [first, second] = &stations;
        first.host.ip(&[&format!("route add {two}/64 via {} dev {VIRTUAL_LINK}", second.address)])?;
        second.host.ip(&[&format!("route add {one}/64 via {} dev {VIRTUAL_LINK}", first.address)])?;
        Ok(RoadPair { stations, nodes })
    }

    /// Waits until an echo request of so many octets passes, which also discovers the path MTU.
    pub(crate) fn wait_until_connected(&self, octets: u16) -> Result<()> {
        let ([node, _], [_, far]) = (&self.nodes, self.ends());
        let (target, size) = (far.address.to_string(), octets.to_string());
        let ping = || node.output("ping", &["-6", "-n", "-c", "1", "-W", "1", "-s", &size, &target]).ok();
        clock::wait_for(CONNECT_TIMEOUT, ping).map(drop).context("the far node does not answer")
    }

    /// The nodes as endpoints of traffic.
    pub(crate) fn ends(&self) -> [Endpoint<'_>; 2] {
        let ([near, far], [one, two]) = (&self.nodes, NETWORKS.map(|network| host_address(network, 2)));
        [Endpoint { host: near, address: one }, Endpoint { host: far, address: two }]
    }
}

/// A host address in a /64.
pub(crate) fn host_address(network: Ipv6Addr, number: u64) -> Ipv6Addr {
    Ipv6Addr::from_bits(network.to_bits() | u128::from(number))
}

impl RoadStation {
    /// Ends its roam6, and starts one with this configuration.
    pub(crate) fn restart_with(&mut self, config: &str) -> Result<()> {
        self.daemon.stop()?;
        self.daemon = Daemon::start(&self.host, config)?;
        self.wait_for_link()
    }

    /// Waits until the virtual link has its link-local address and duplicate address detection is complete.
    pub(crate) fn wait_for_link(&self) -> Result<()> {
        let selectors = ["dev", VIRTUAL_LINK, "scope", "link", "-tentative"];
        let ready = || self.host.addresses(&selectors).ok()?.contains(&self.address).then_some(());
        let log = || std::fs::read_to_string(self.daemon.log()).unwrap_or_default();
        clock::wait_for(TIMEOUT, ready).ok_or_else(|| anyhow!("{}: no {VIRTUAL_LINK}:\n{}", self.host.name(), log()))
    }
}
