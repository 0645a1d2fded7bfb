//! A fleet in two places, each with a router, an access network and a correspondent: members ha1 and ha3 in the first, ha2 in
//! the second. The vehicle may attach in either.
//!
//! ```text
//!   cn1 ─── core1 ──────────────── core2 ─── cn2
//!          ╱  │  ╲     FAR - NEAR    │  ╲
//!       ha1  ha3  ar1               ar2  ha2
//! ```

use super::{FleetSetup, Member, Service, Site, TIMEOUT, programs};
use crate::bed::tap::Tap;
use crate::bed::{Host, LinkEmulator, Process, Segment, access_router};
use crate::clock;
use crate::load::registrations::care_of;
use crate::topology::nemo::{self, HOME_AGENT, Vehicle};
use anyhow::{Context, Result};
use roam6_sim::LinkSpec;
use roam6_wire::Sequence;
use std::net::Ipv6Addr;
use std::time::Duration;

/// Round trip between a correspondent or an access network and the members of its own place, and those of the other one.
pub(crate) const NEAR: Duration = Duration::from_millis(10);
pub(crate) const FAR: Duration = Duration::from_millis(60);

/// The networks.
pub(crate) struct Places {
    /// All ports and segments.
    pub(crate) emulator: LinkEmulator,
    /// The members, ha1 first.
    pub(crate) members: Vec<Member>,
    /// The vehicle.
    pub(crate) vehicle: Vehicle,
    /// The places.
    pub(crate) places: Vec<Place>,
    /// The last sequence number of the emulated mobile router, which is beside the router of either place.
    pub(crate) sequence: Sequence,
}

/// A place.
pub(crate) struct Place {
    /// Its correspondent.
    pub(crate) correspondent: Host,
    /// The address of that.
    pub(crate) address: Ipv6Addr,
    /// Towards the emulated mobile router.
    pub(crate) routers: Tap,
    link: Segment,
    core: Host,
    _routing: Service,
    _access: (Host, Process),
}

impl Places {
    /// Builds the networks, and returns once all members are healthy and each router has routes; the vehicle is not attached.
    pub(crate) fn build() -> Result<Places> {
        let (emulator, setup) = (LinkEmulator::new(1)?, FleetSetup { routers: 1, ..FleetSetup::default() });
        let cores = [nemo::router("core1")?, nemo::router("core2")?];
        let ports = [emulator.add_port(&cores[0], "far0")?, emulator.add_port(&cores[1], "far0")?];
        emulator.cable(ports, LinkSpec { delay: (FAR - NEAR) / 2, ..LinkSpec::default() })?;
        cores[0].ip(&["address add 2001:db8:ff::1/64 dev far0"])?;
        cores[1].ip(&["address add 2001:db8:ff::2/64 dev far0"])?;
        let mut sites = Vec::new();
        for number in 1..=super::MEMBERS {
            let (core, own_as) = match number {
                2 => (&cores[1], super::CORE_AS + 1),
                _ => (&cores[0], super::CORE_AS),
            };
            sites.push(Site::build(&emulator, core, own_as, number)?);
        }
        let [first, second] = cores;
        let places = vec![Place::build(&emulator, first, 0, &[1, 3])?, Place::build(&emulator, second, 1, &[2])?];
        let members = Site::start_all(&mut sites, &setup)?;
        let vehicle = Vehicle::start(&emulator, 0, &["up0"], |mr| {
            nemo::mobile_router_config_with(mr, 0, &["up0"], &[HOME_AGENT])
        })?;
        let places = Places { emulator, members, vehicle, places, sequence: Sequence(0) };
        places.members.iter().try_for_each(|member| member.wait_for_state("healthy"))?;
        places.places.iter().try_for_each(Place::wait_for_route)?;
        Ok(places)
    }

    /// Attaches the vehicle to a place.
    pub(crate) fn attach(&self, place: usize) -> Result<()> {
        let to = self.places.get(place).context("no such place")?;
        self.emulator.plug(self.vehicle.uplink(0)?, to.link)?;
        self.vehicle.wait_until_connected(to.address)
    }
}

impl Place {
    fn build(emulator: &LinkEmulator, core: Host, index: usize, members: &[usize]) -> Result<Place> {
        core.set_sysctl("ipv6/fib_multipath_hash_policy", "1")?;
        let (number, half) = (index + 1, NEAR / 2);
        let near = LinkSpec { delay: half, ..LinkSpec::default() };
        let cn = nemo::host(&format!("cn{number}"))?;
        emulator.cable([emulator.add_port(&core, "cn0")?, emulator.add_port(&cn, "eth0")?], near)?;
        let address = Ipv6Addr::new(0x2001, 0xdb8, 0xc0 + u16::try_from(number)?, 0, 0, 0, 0, 0xc);
        core.ip(&[&format!("address add 2001:db8:c{number}::1/64 dev cn0")])?;
        cn.ip(&[
            &format!("address add {address}/64 dev eth0"),
            &format!("route add default via 2001:db8:c{number}::1"),
        ])?;
        let router = nemo::router(&format!("ar{number}"))?;
        emulator.cable([emulator.add_port(&core, "ar0")?, emulator.add_port(&router, "net0")?], near)?;
        let link = emulator.add_link(LinkSpec::default());
        emulator.plug(emulator.add_port(&router, "lan0")?, link)?;
        let prefix = format!("2001:db8:a{number}::/64");
        core.ip(&[
            &format!("address add 2001:db8:f{number}::1/64 dev ar0"),
            &format!("route add {prefix} via 2001:db8:f{number}::2"),
            // Everything else is at the other place, members excepted, whose routes BGP has.
            &format!("route add default via 2001:db8:ff::{}", 2 - index),
        ])?;
        router.ip(&[
            &format!("address add 2001:db8:f{number}::2/64 dev net0"),
            &format!("address add 2001:db8:a{number}::1/64 dev lan0"),
            &format!("route add default via 2001:db8:f{number}::1"),
        ])?;
        let radvd = access_router::advertise(&router, "lan0", &prefix)?;
        let routers = Tap::open(&core, "routers0")?;
        // The same in both places: a member answers by the router before it.
        core.ip(&[&format!("route add {}/48 via fe80::1 dev routers0", care_of(0).0)])?;
        let ends = ["2001:db8:ff::1", "2001:db8:ff::2"];
        let numbers = [super::CORE_AS, super::CORE_AS + 1];
        let session = match index {
            0 => programs::router_session("far", ends, numbers),
            _ => programs::router_session("far", [ends[1], ends[0]], [numbers[1], numbers[0]]),
        };
        let own_as = super::CORE_AS + u32::try_from(index)?;
        let bfd = FleetSetup::default().bfd;
        let routing = programs::bird(&core, &programs::router_config(own_as, members, bfd, &session))?;
        Ok(Place { correspondent: cn, address, routers, link, core, _routing: routing, _access: (router, radvd) })
    }

    fn wait_for_route(&self) -> Result<()> {
        let shown = || self.core.output("ip", &["-6", "route", "show", "2001:db8:100::/40"]).unwrap_or_default();
        clock::wait_for(TIMEOUT, || shown().contains("via ").then_some(())).context("no route to the mobile networks")
    }
}
